//! Processes that die at a step that is given: `bench/crash/points.c` on a library with crash points
//! (docs/decisions/0018), over shm, over tcp, and where two ranks share memory and the others do not. For
//! each of some operations a first run tells how many steps each rank makes; then one rank dies at one of
//! them in each run, and the others must end well, with the right results.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::job::{self, Finished};
use crate::tally::Tally;

/// What the command line says.
#[derive(clap::Args, Clone, Debug)]
pub struct CrashOptions {
    /// Where `WEFT_FEATURES=weft-abi/crash-points ci/install` has put it
    pub prefix: PathBuf,
    /// Only over this fabric: shm, tcp or mixed
    #[arg(long, value_name = "FABRIC")]
    pub fabric: Option<String>,
    /// Only operations whose name contains this, as "allreduce 4" or "shrink"
    #[arg(long, value_name = "NAME", default_value = "")]
    pub only: String,
    /// How many ranks
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub ranks: u32,
    /// At so many of the steps of each rank
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: u64,
    /// At each step of each rank
    #[arg(long)]
    pub all: bool,
    /// Which steps the samples are: another number, others
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Runs all of it with the weft in `prefix`.
///
/// # Errors
/// When the program cannot be compiled, the library has no crash points, or nothing is what the options name.
pub fn run(root: &Path, prefix: &Path, options: &CrashOptions) -> Result<Tally, String> {
    let folder = root.join("target/crash");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let program = folder.join("points");
    let source = root.join("bench/crash/points.c");
    job::compile(&prefix.join("bin/mpicc"), &[], &[source], &program, LIMIT)?;
    let setup = CrashSetup { weftrun: prefix.join("bin/weftrun"), log: folder.join("points.log"), program };
    let mut tally = Tally::default();
    for fabric in
        FABRICS.iter().filter(|fabric| options.fabric.as_deref().is_none_or(|only| only == **fabric))
    {
        for story in STORIES.iter().filter(|story| story.name().contains(&options.only)) {
            setup.tell(&mut tally, fabric, story, options)?;
        }
    }
    if tally.passed + tally.failed == 0 {
        let stories: Vec<String> = STORIES.iter().map(Story::name).collect();
        return Err(format!(
            "nothing is to be run: fabrics are {}, operations are {}",
            FABRICS.join(", "),
            stories.join(", ")
        ));
    }
    Ok(tally)
}

/// What the ranks do between the marks.
struct Story {
    kind: &'static str,
    count: u32,
    mode: &'static str,
    /// Whether they have hardly talked to each other before.
    is_cold: bool,
}

const fn warm(kind: &'static str, count: u32, mode: &'static str) -> Story {
    Story { kind, count, mode, is_cold: false }
}

impl Story {
    fn name(&self) -> String {
        format!("{} {} {}{}", self.kind, self.count, self.mode, if self.is_cold { " cold" } else { "" })
    }

    /// How many ranks die whatever happens.
    fn lost(&self) -> u32 {
        u32::from(self.kind == "recover")
    }
}

struct CrashSetup {
    weftrun: PathBuf,
    program: PathBuf,
    log: PathBuf,
}

impl CrashSetup {
    /// All deaths of one story, told as one result unless some went wrong.
    fn tell(
        &self,
        tally: &mut Tally,
        fabric: &str,
        story: &Story,
        options: &CrashOptions,
    ) -> Result<(), String> {
        let name = format!("{fabric}, {}, {} ranks", story.name(), options.ranks);
        let start = Instant::now();
        let whole = match self.run(fabric, story, options.ranks, None) {
            Ok((_, finished)) => finished,
            Err(account) => {
                tally.note(&name, Err(account));
                return Ok(());
            }
        };
        let steps: Vec<(u32, u64)> =
            (0..options.ranks).filter_map(|rank| Some((rank, passed(&whole.output, rank)?))).collect();
        if steps.is_empty() {
            return Err("this library has no crash points\n  install one with \
                        WEFT_PROFILE=dev WEFT_FEATURES=weft-abi/crash-points ci/install PREFIX"
                .to_owned());
        }
        let (mut deaths, mut late, mut wrong) = (0, 0, 0);
        for &(rank, count) in &steps {
            let samples = if fabric == MIXED { options.samples.div_ceil(3) } else { options.samples };
            for step in chosen(count, samples, options, u64::from(rank) + story.name().len() as u64) {
                match self.run(fabric, story, options.ranks, Some((rank, step))) {
                    Ok((true, _)) => deaths += 1,
                    // Not every run takes as many steps.
                    Ok((false, _)) => late += 1,
                    Err(account) => {
                        wrong += 1;
                        tally.note(
                            &format!("{name}, rank {rank} dies at step {step} of {count}"),
                            Err(account),
                        );
                    }
                }
            }
        }
        if wrong == 0 && deaths > 0 {
            let told: Vec<String> = steps.iter().map(|(_, count)| count.to_string()).collect();
            let seconds = start.elapsed().as_secs_f64();
            let name = format!(
                "{name}: {deaths} deaths in {} steps, {late} not reached, {seconds:.1} s",
                told.join(" + ")
            );
            tally.note(&name, Ok(()));
        } else if wrong == 0 {
            tally.note(&name, Err(format!("nobody has died: {late} steps were not reached")));
        }
        Ok(())
    }

    /// One run; whether the rank has died.
    fn run(
        &self,
        fabric: &str,
        story: &Story,
        ranks: u32,
        death: Option<(u32, u64)>,
    ) -> Result<(bool, Finished), String> {
        let mut command = Command::new(&self.weftrun);
        let (list, nodes) = if fabric == MIXED { ("shm,tcp", ranks.div_ceil(2)) } else { (fabric, 1) };
        command.args(["-n", &ranks.to_string(), "--nodes", &nodes.to_string(), "--ft", "--fabric", list]);
        command.arg(&self.program);
        command.args([story.kind, &story.count.to_string(), story.mode]);
        if story.is_cold {
            command.arg("cold");
        }
        match death {
            Some((rank, step)) => command.env("WEFT_CRASH_AT", format!("{rank}:{step}")),
            None => command.env_remove("WEFT_CRASH_AT"),
        };
        let finished = job::run(&mut command, LIMIT, &self.log)?;
        let has_died = death.is_some_and(|(rank, _)| passed(&finished.output, rank).is_none());
        if let Some((rank, _)) = death
            && has_died
            && !was_killed(&finished.output, rank)
        {
            return Err(format!("rank {rank} has ended, and not at that step: {}", finished.account()));
        }
        let well = finished.output.lines().filter(|line| *line == "ok").count();
        let expected = ranks - story.lost() - u32::from(has_died);
        if finished.succeeded() && well == expected as usize {
            return Ok((has_died, finished));
        }
        Err(format!("{well} of {expected} ranks ended well: {}", finished.account()))
    }
}

/// How many points a rank says that it has passed, if it has come so far.
fn passed(output: &str, rank: u32) -> Option<u64> {
    let words = format!("crash points: rank {rank} has passed ");
    output.lines().find_map(|line| line.strip_prefix(&words)?.parse().ok())
}

/// Whether a rank is said to have ended as it ends itself.
fn was_killed(output: &str, rank: u32) -> bool {
    let words = format!("rank {rank} ");
    output.lines().any(|line| line.contains(&words) && line.contains(" was killed by SIGKILL"))
}

/// The steps at which a rank dies: `samples` of its `count` steps, or all of them.
fn chosen(count: u64, samples: u64, options: &CrashOptions, salt: u64) -> Vec<u64> {
    if options.all || count <= samples {
        return (1..=count).collect();
    }
    // Evenly spread, and others for each rank, operation and seed.
    let shift = (salt * 7 + options.seed * 13) % (count / samples);
    (0..samples).map(|sample| 1 + shift + sample * count / samples).collect()
}

/// Each two ranks share memory, and go to the others over tcp. Fewer deaths are tried there: each way has its
/// own.
const MIXED: &str = "mixed";
const FABRICS: [&str; 3] = ["shm", "tcp", MIXED];
/// Short ones, which go by a collective segment or at once; long ones, which wait for their receivers; and
/// longer ones, which both copy.
const STORIES: [Story; 28] = [
    warm("barrier", 1, "blank"),
    warm("bcast", 4, "shrink"),
    warm("bcast", 30_000, "blank"),
    warm("reduce", 4, "blank-continue"),
    warm("reduce", 30_000, "shrink"),
    warm("allreduce", 4, "blank"),
    warm("allreduce", 3_000, "blank-continue"),
    warm("allreduce", 50_000, "shrink"),
    warm("iallreduce", 4, "shrink"),
    warm("iallreduce", 3_000, "blank"),
    warm("scan", 3_000, "shrink"),
    warm("gather", 1_000, "blank"),
    warm("allgather", 1_000, "blank-continue"),
    warm("alltoall", 8_000, "blank"),
    warm("messages", 4, "blank-continue"),
    warm("messages", 50_000, "blank"),
    warm("cancels", 4, "blank"),
    warm("cancels", 50_000, "blank-continue"),
    warm("recover", 4, "blank"),
    warm("recover", 4, "shrink"),
    warm("dup", 4, "blank"),
    warm("split", 4, "shrink"),
    warm("plan", 3_000, "blank-continue"),
    warm("shrink", 4, "blank"),
    warm("agree_failed", 1, "blank"),
    Story { is_cold: true, ..warm("alltoall", 4, "blank") },
    Story { is_cold: true, ..warm("messages", 3_000, "blank-continue") },
    Story { is_cold: true, ..warm("allreduce", 50_000, "shrink") },
];
const LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn options(samples: u64, all: bool) -> CrashOptions {
        let prefix = PathBuf::new();
        CrashOptions { prefix, fabric: None, only: String::new(), ranks: 3, samples, all, seed: 5 }
    }

    #[test]
    fn steps_are_chosen_among_those_there_are() {
        for count in [1, 3, 4, 5, 17, 400] {
            for salt in 0..20 {
                let steps = chosen(count, 4, &options(4, false), salt);
                assert!(steps.iter().all(|step| (1..=count).contains(step)), "{count}: {steps:?}");
                assert!(steps.is_sorted() && steps.len() as u64 == count.min(4), "{count}: {steps:?}");
            }
            assert_eq!(chosen(count, 4, &options(4, true), 3).len() as u64, count);
        }
    }

    #[test]
    fn what_a_rank_has_passed_is_read() {
        let output = "ok\ncrash points: rank 1 has passed 17\ncrash points: rank 12 has passed 4\n";
        assert_eq!((passed(output, 1), passed(output, 12), passed(output, 2)), (Some(17), Some(4), None));
    }

    #[test]
    fn only_who_was_killed_has_died_where_it_was_told_to() {
        let output = "weftrun: rank 1 (process 7 on here) was killed by SIGKILL; the others go on\n\
                      weftrun: rank 2 (process 8 on here) was killed by SIGSEGV; the others go on\n";
        assert!(was_killed(output, 1) && !was_killed(output, 2) && !was_killed(output, 11));
    }
}
