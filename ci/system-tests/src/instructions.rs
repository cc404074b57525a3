//! How many instructions a small message takes, counted by valgrind's callgrind and held against the
//! numbers that are kept in `ci/instructions.json`; and that none of them takes a lock, over any fabric.
//!
//! Times say what a user feels, and they move with the machine and its other users; instructions are
//! the same in every run, so a path that has grown is found by a test. The numbers belong to cargo's
//! profile `release`, which is what users install, and to one kind of processor each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job;
use crate::tally::Tally;

mod locked;

/// Instructions per message by name, as `burst send`.
type Counts = BTreeMap<String, u64>;
/// What is kept: counts by the kind of processor, as `x86_64`.
type Kept = BTreeMap<String, Counts>;

/// Counts with the weft installed in `prefix`, and compares with what is kept; with `renew`, keeps
/// what was counted.
///
/// # Errors
/// When there is no valgrind, the program cannot be compiled or run, or the file of numbers is damaged.
pub fn run(root: &Path, prefix: &Path, renew: bool) -> Result<Tally, String> {
    let folder = root.join("target/instructions");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let setup = InstructionSetup { bin: prefix.join("bin"), folder };
    setup.compile(&root.join("bench/instructions.c"))?;
    let mut counted = Counts::new();
    for pattern in PATTERNS {
        counted.extend(setup.count(pattern)?);
    }
    let path = root.join(KEPT);
    let mut kept = read(&path)?;
    let mut tally = Tally::default();
    if renew {
        counted
            .iter()
            .for_each(|(name, count)| tally.note(&format!("{name}: {count} instructions, kept"), Ok(())));
        kept.insert(std::env::consts::ARCH.to_owned(), counted);
        write(&path, &kept)?;
        return Ok(tally);
    }
    setup.count_locked(&mut tally)?;
    let before = kept.remove(std::env::consts::ARCH).unwrap_or_default();
    for (name, count) in &counted {
        let verdict = judge(before.get(name).copied(), *count);
        tally.note(&format!("{name}: {count} instructions"), verdict.result());
        if let Verdict::Shrunk { kept } = verdict {
            println!(
                "  less than the {kept} that are kept: keep the gain with `cargo system-tests instructions PREFIX --renew`"
            );
        }
    }
    Ok(tally)
}

struct InstructionSetup {
    bin: PathBuf,
    folder: PathBuf,
}

impl InstructionSetup {
    fn compile(&self, source: &Path) -> Result<(), String> {
        let mut mpicc = Command::new(self.bin.join("mpicc"));
        mpicc.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
        mpicc.arg(self.folder.join(PROGRAM)).arg(source);
        job::succeed("compiling instructions.c", &mut mpicc, LIMIT, &self.folder.join("mpicc.log")).map(drop)
    }

    /// Runs the program under valgrind once; rank 0 has counted what sends take, rank 1 receives.
    fn count(&self, pattern: &str) -> Result<Counts, String> {
        let (finished, written) = self.run("shm", pattern, &["--dump-instr=no"])?;
        let messages = messages(&finished.output).map_err(remedy)?;
        let mut counts = Counts::new();
        for ((name, _), text) in COUNTED.into_iter().zip(written) {
            let total = total(&text).map_err(|error| format!("{pattern} {name}: {error}"))?;
            counts.insert(format!("{pattern} {name}"), total.div_ceil(messages));
        }
        Ok(counts)
    }

    /// Looks over each fabric whether sends or receives execute locked instructions of the library.
    fn count_locked(&self, tally: &mut Tally) -> Result<(), String> {
        if std::env::consts::ARCH != "x86_64" {
            println!("LEFT OUT  locks of a small message: which instructions lock is known for x86-64 only");
            return Ok(());
        }
        let mut objdump = Command::new("objdump");
        objdump.args(["-d", "--no-show-raw-insn"]).arg(self.bin.join("../lib").join(LIBRARY));
        let disassembled =
            job::succeed("disassembling", &mut objdump, LIMIT, &self.folder.join("objdump.log"))?;
        let locked = locked::locked(&disassembled.output);
        for fabric in FABRICS {
            let asked = ["--dump-instr=yes", "--compress-pos=no", "--compress-strings=no"];
            // In turns no message comes before it is asked for, and none is kept.
            let (finished, written) = match self.run(fabric, "turns", &asked) {
                Ok(ran) => ran,
                Err(account) if ABSENT.iter().any(|words| account.contains(words)) => {
                    println!("LEFT OUT  locks of a small message over {fabric}: it is not here");
                    continue;
                }
                Err(account) => return Err(account),
            };
            let messages = messages(&finished.output)?;
            for ((name, _), text) in COUNTED.into_iter().zip(written) {
                let verdict = locked::judge(&locked, &locked::executed(&text, LIBRARY), messages);
                tally.note(&format!("{name} over {fabric} takes no lock"), verdict.map(drop));
            }
        }
        Ok(())
    }

    /// Runs the program under valgrind once; what callgrind has written for each rank.
    fn run(
        &self,
        fabric: &str,
        pattern: &str,
        asked: &[&str],
    ) -> Result<(job::Finished, Vec<String>), String> {
        let name = format!("{pattern}.{}", fabric.replace([':', ';'], "-"));
        let step = self.folder.join(format!("{name}.step"));
        fs::write(&step, [0; 64]).map_err(|error| format!("cannot write {}: {error}", step.display()))?;
        let out = |rank: &str| self.folder.join(format!("{name}.callgrind.{rank}"));
        let mut weftrun = Command::new(self.bin.join("weftrun"));
        weftrun.args(["-n", "2", "--fabric", fabric, "valgrind", "--tool=callgrind"]).args(asked);
        weftrun.args(COUNTED.map(|(_, function)| format!("--toggle-collect={function}")));
        weftrun.arg(format!("--callgrind-out-file={}", out("%q{PMI_RANK}").display()));
        weftrun.arg(self.folder.join(PROGRAM)).arg(pattern).arg(&step);
        let log = self.folder.join(format!("{name}.log"));
        let finished = job::succeed("counting", &mut weftrun, LIMIT, &log).map_err(remedy)?;
        let written = (0..COUNTED.len()).map(|rank| {
            let path = out(&rank.to_string());
            fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        });
        Ok((finished, written.collect::<Result<_, _>>()?))
    }
}

/// The program's own word on how many messages were counted.
fn messages(output: &str) -> Result<u64, String> {
    let told = output.lines().find_map(|line| line.strip_prefix("messages: "));
    let number = told.and_then(|number| number.trim().parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| format!("the program did not say `messages: N`, but:\n{output}"))
}

/// The instructions in a file of callgrind's, which counts nothing else unless it is asked to.
fn total(callgrind: &str) -> Result<u64, String> {
    let value = |key: &str| callgrind.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    if value("events:") != Some("Ir") {
        return Err(format!("it counts {:?}, and instructions (Ir) are wanted", value("events:")));
    }
    let total = value("totals:").ok_or("it has no line `totals:`")?;
    match total.parse() {
        Ok(0) => Err("nothing was counted: valgrind did not find the functions by name".to_owned()),
        Ok(total) => Ok(total),
        Err(_) => Err(format!("its total is {total:?}")),
    }
}

/// What a count says beside the one that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Unchanged,
    Shrunk {
        kept: u64,
    },
    Grown {
        kept: u64,
    },
    /// Nothing is kept for this kind of processor.
    New,
}

impl Verdict {
    fn result(self) -> Result<(), String> {
        match self {
            Verdict::Unchanged | Verdict::Shrunk { .. } => Ok(()),
            Verdict::Grown { kept } => Err(format!(
                "{kept} are kept, and {TOLERANCE_PERCENT} % more are allowed\n  \
                 find what made the path longer; the numbers are those of WEFT_PROFILE=release. Where it is worth \
                 its price, keep the new one with --renew and say why in the commit"
            )),
            Verdict::New => Err(format!(
                "none is kept for {} in {KEPT}\n  keep what was counted with --renew",
                std::env::consts::ARCH
            )),
        }
    }
}

fn judge(kept: Option<u64>, count: u64) -> Verdict {
    let Some(kept) = kept else { return Verdict::New };
    if count * 100 > kept * (100 + TOLERANCE_PERCENT) {
        Verdict::Grown { kept }
    } else if count * 100 < kept * (100 - TOLERANCE_PERCENT) {
        Verdict::Shrunk { kept }
    } else {
        Verdict::Unchanged
    }
}

fn read(path: &Path) -> Result<Kept, String> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Kept::new()),
        text => text.map_err(|error| format!("cannot read {}: {error}", path.display()))?,
    };
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, kept: &Kept) -> Result<(), String> {
    let text = serde_json::to_string_pretty(kept).map_err(|error| error.to_string())?;
    fs::write(path, text + "\n").map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn remedy(account: String) -> String {
    format!("{account}\n  this needs valgrind, which ci/setup installs")
}

/// Where the numbers are kept.
const KEPT: &str = "ci/instructions.json";
/// What the program is asked to do: its first argument.
const PATTERNS: [&str; 5] = ["burst", "turns", "window", "turns-made", "window-made"];
/// What each rank counts, and in which functions.
const COUNTED: [(&str, &str); 2] = [("send", "counted_send*"), ("receive", "counted_receive*")];
const PROGRAM: &str = "instructions";
/// Those over which a small message must take no lock.
const FABRICS: [&str; 4] = ["shm", "tcp", "libfabric:tcp;ofi_rxm", "libfabric:shm"];
/// What a job says where libfabric, or that provider of it, is not there.
const ABSENT: [&str; 2] = ["libfabric.so.1 cannot be loaded", "libfabric: no provider"];
const LIBRARY: &str = "libmpi_abi.so";
const TOLERANCE_PERCENT: u64 = 5;
/// Above the watchdog of the program, which takes a second or two.
const LIMIT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# callgrind format\nversion: 1\npositions: line\nevents: Ir\nsummary: 40\n\n\
                        fn=(1) counted_send\n7 40\n\ntotals: 18120\n";

    #[test]
    fn the_total_is_read_and_damage_is_told() {
        assert_eq!(total(FILE), Ok(18_120));
        for (damaged, told) in [
            (FILE.replace("events: Ir", "events: Ir Dr"), "Ir Dr"),
            (FILE.replace("totals: 18120\n", ""), "no line `totals:`"),
            (FILE.replace("18120", "0"), "did not find the functions"),
            (FILE.replace("18120", "much"), "much"),
            (String::new(), "None"),
        ] {
            let error = total(&damaged).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn the_program_says_how_many_messages_there_were() {
        assert_eq!(messages("==1== Callgrind\nmessages: 40\n==1== Collected\n"), Ok(40));
        for output in ["", "messages: 0\n", "messages: many\n", "40 messages: 40\n"] {
            assert!(messages(output).is_err(), "{output:?}");
        }
    }

    #[test]
    fn more_than_the_tolerance_is_growth_and_less_is_told() {
        assert_eq!(judge(Some(400), 420), Verdict::Unchanged);
        assert_eq!(judge(Some(400), 421), Verdict::Grown { kept: 400 });
        assert_eq!(judge(Some(400), 380), Verdict::Unchanged);
        assert_eq!(judge(Some(400), 379), Verdict::Shrunk { kept: 400 });
        assert_eq!(judge(None, 400), Verdict::New);
        assert!(judge(Some(400), 379).result().is_ok());
        assert!(judge(Some(400), 421).result().unwrap_err().contains("400 are kept"));
        assert!(judge(None, 1).result().is_err(), "a processor without numbers is not tested");
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        assert_eq!(read(&path), Ok(Kept::new()));
        let kept = Kept::from([("x86_64".to_owned(), Counts::from([("burst send".to_owned(), 70)]))]);
        write(&path, &kept).unwrap();
        assert_eq!(read(&path), Ok(kept));
        fs::write(&path, "{\"x86_64\": 7}").unwrap();
        assert!(read(&path).unwrap_err().contains("kept.json"));
    }

    #[test]
    fn the_committed_numbers_name_all_that_is_counted() {
        let kept = read(&crate::workspace_root().join(KEPT)).unwrap();
        assert!(!kept.is_empty());
        let names: Vec<String> = PATTERNS
            .iter()
            .flat_map(|pattern| COUNTED.iter().map(move |(name, _)| format!("{pattern} {name}")))
            .collect();
        for (processor, counts) in kept {
            assert!(names.iter().all(|name| counts.get(name).is_some_and(|count| *count > 0)), "{processor}");
            assert_eq!(counts.len(), names.len(), "{processor}");
        }
    }
}
