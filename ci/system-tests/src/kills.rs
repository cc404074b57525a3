//! Deaths that must be noticed: runs `bench/failures/kills.c` in job after job, whose processes die and are
//! started again. No death may be missed and none invented; how soon the other ranks notice a death is told.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job;
use crate::tally::Tally;

/// What the command line says.
#[derive(clap::Args, Clone, Debug)]
pub struct KillOptions {
    /// Where `ci/install` has put it
    pub prefix: PathBuf,
    /// How many processes die
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub kills: u32,
    /// How many ranks the others and the victim are
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    pub ranks: u32,
    /// Messages that each rank sends between two deaths
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub messages: u32,
    /// Memory of each that dies
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub mebibytes: u32,
    /// Over this fabric
    #[arg(long, value_name = "LIST", default_value = "shm,tcp")]
    pub fabric: String,
    /// The ranks are dealt out to so many parts of this node, as if each were one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// Who dies when: another number, others
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Runs all of it with the weft in `prefix`.
///
/// # Errors
/// When the program cannot be compiled, or there is no place for it.
pub fn run(root: &Path, prefix: &Path, options: &KillOptions) -> Result<Tally, String> {
    let folder = root.join("target/kills");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let program = folder.join("kills");
    let source = root.join("bench/failures/kills.c");
    job::compile(&prefix.join("bin/mpicc"), &[], &[source], &program, LIMIT)?;
    let mut tally = Tally::default();
    let mut rounds = Vec::new();
    while (rounds.len() as u32) < options.kills {
        let kills = (options.kills - rounds.len() as u32).min(KILLS_MAX);
        let file = folder.join("rounds");
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new(prefix.join("bin/weftrun"));
        command.args(["--ft=rebuild", "--max-restarts", &kills.to_string()]);
        command
            .args(["-n", &options.ranks.to_string(), "--fabric", &options.fabric])
            .args(["--nodes", &options.nodes.to_string()])
            .arg(&program)
            .arg(&file);
        let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(rounds.len() as u64);
        for number in [kills.into(), options.messages.into(), options.mebibytes.into(), seed] {
            command.arg(number.to_string());
        }
        let each = Duration::from_millis(200) + Duration::from_millis(4) * options.mebibytes;
        let finished = job::run(&mut command, LIMIT + each * kills, &folder.join("log"))?;
        let bytes = std::fs::read(&file).unwrap_or_default();
        let before = rounds.len();
        rounds.extend(bytes.chunks_exact(ROUND_BYTES).map(Round::read).take_while(|round| round.died_ns > 0));
        if !finished.succeeded() || rounds.len() - before < kills as usize {
            let died = rounds.len() - before;
            let account = format!("after {died} of {kills} deaths, seed {seed}: {}", finished.account());
            tally.note("deaths that are noticed", Err(account));
            return Ok(tally);
        }
    }
    let told = Times::of(&rounds).to_string();
    tally.note(
        &format!("{} ranks over {}, {} MiB each: {told}", options.ranks, options.fabric, options.mebibytes),
        judge(&rounds, options.ranks),
    );
    Ok(tally)
}

/// What came of one death, as the program has written it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Round {
    died_ns: u64,
    last_notice_ns: u64,
    noticed: u32,
    invented: u32,
}

impl Round {
    fn read(bytes: &[u8]) -> Round {
        let word =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let last = word(16);
        Round {
            died_ns: word(0),
            last_notice_ns: word(8),
            noticed: (last & 0xffff_ffff) as u32,
            invented: (last >> 32) as u32,
        }
    }

    fn microseconds(&self) -> f64 {
        self.last_notice_ns.saturating_sub(self.died_ns) as f64 / 1e3
    }
}

/// Whether everybody has noticed each death, and nobody another one.
fn judge(rounds: &[Round], ranks: u32) -> Result<(), String> {
    let missed = rounds.iter().filter(|round| round.noticed != ranks - 1).count();
    let invented = rounds.iter().filter(|round| round.invented > 0).count();
    if missed + invented == 0 {
        return Ok(());
    }
    Err(format!(
        "{missed} deaths were not noticed by all, and in {invented} rounds somebody was told of another one"
    ))
}

/// How late the last of those was who noticed.
struct Times(Vec<f64>);

impl Times {
    fn of(rounds: &[Round]) -> Times {
        let mut times: Vec<f64> = rounds.iter().map(Round::microseconds).collect();
        times.sort_by(f64::total_cmp);
        Times(times)
    }

    fn at(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [least, half, most_of_ten, most, worst] = [0.0, 0.5, 0.9, 0.99, 1.0].map(|part| self.at(part));
        write!(
            f,
            "{} deaths noticed by all after {half:.0} us in the median (least {least:.0}, 90 % {most_of_ten:.0}, \
             99 % {most:.0}, most {worst:.0})",
            self.0.len()
        )
    }
}

const ROUND_BYTES: usize = 24;
/// A job has room for so many that are started again.
const KILLS_MAX: u32 = 500;
const LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn round(noticed: u32, invented: u32, late_us: u64) -> Round {
        Round { died_ns: 5, last_notice_ns: 5 + late_us * 1000, noticed, invented }
    }

    #[test]
    fn what_the_program_writes_is_read() {
        let words = [7u64, 9, 3 | 1 << 32];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(Round::read(&bytes), Round { died_ns: 7, last_notice_ns: 9, noticed: 3, invented: 1 });
    }

    #[test]
    fn a_death_that_one_misses_or_that_was_none_is_a_failure() {
        assert!(judge(&[round(3, 0, 1), round(3, 0, 2)], 4).is_ok());
        assert!(judge(&[round(3, 0, 1), round(2, 0, 1)], 4).unwrap_err().starts_with("1 deaths"));
        assert!(judge(&[round(3, 1, 1)], 4).unwrap_err().contains("in 1 rounds"));
    }

    #[test]
    fn times_are_told_by_their_parts() {
        let rounds: Vec<Round> = (1..=101).rev().map(|late| round(3, 0, late)).collect();
        let told = Times::of(&rounds).to_string();
        assert!(told.contains("after 51 us") && told.contains("99 % 100, most 101"), "{told}");
    }
}
