//! Which programs are run and how each is to end: those in `bench/tests` as their heads say, examples and
//! benchmarks as listed here.

use std::fs;
use std::path::{Path, PathBuf};

use super::directives::{Directives, Part, directives};
use crate::job::{Ending, Finished};
use crate::measured;

/// One program and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    pub sources: Vec<PathBuf>,
    pub ranks: Vec<u32>,
    pub right: Right,
    pub options: &'static [&'static str],
    /// Options of the launcher.
    pub launch: Vec<String>,
    /// Further programs of the job, which are started beside these ranks.
    pub parts: Vec<Part>,
    /// Texts that the output must contain.
    pub says: Vec<String>,
    /// Texts that the output must not contain.
    pub says_not: Vec<String>,
    /// Why it says nothing about an instrumented library, where it does not.
    pub bare: Option<String>,
    /// Why it says nothing about libfabric, where it does not.
    pub not_libfabric: Option<String>,
    /// Whether it also runs over two nodes.
    pub over_nodes: bool,
}

/// What a right run looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Status 0.
    Zero,
    /// Status 0, and the line `ok`.
    SaysOk,
    /// This status.
    Status(i32),
    /// Any status but 0, by itself.
    NotZero,
}

pub fn judge(right: Right, finished: &Finished) -> Result<(), String> {
    let says_ok = || finished.output.lines().any(|line| line == "ok");
    let good = match right {
        Right::Zero => finished.succeeded(),
        Right::SaysOk => finished.succeeded() && says_ok(),
        Right::Status(status) => finished.ending == Ending::Exited(status),
        Right::NotZero => matches!(finished.ending, Ending::Exited(status) if status != 0),
    };
    if good { Ok(()) } else { Err(format!("{right:?} was expected: {}", finished.account())) }
}

/// All programs, in the order in which they are run.
pub fn cases(sources: &Path) -> Result<Vec<Case>, String> {
    let mut cases = test_cases(&sources.join("tests"))?;
    cases.extend(EXAMPLES.map(|name| Case {
        ranks: vec![1, 2, 3, 8],
        ..plain(format!("example {name}"), vec![sources.join(format!("examples/{name}.c"))])
    }));
    cases.extend(ROD_MODES.map(|(mode, options)| Case {
        ranks: vec![1, 2, 4, 8],
        options,
        launch: vec![if mode == "rebuild" { "--ft=rebuild" } else { "--ft" }.to_owned()],
        over_nodes: true,
        says: vec!["at rest".to_owned()],
        not_libfabric: Some(
            "what a provider tells of a dead process differs from one to the next".to_owned(),
        ),
        ..plain(format!("example rod {mode}"), vec![sources.join("examples/rod.c")])
    }));
    cases.extend(DEATHS.map(|(mode, options)| Case {
        ranks: vec![3, 8],
        options,
        launch: vec!["--ft".to_owned()],
        over_nodes: true,
        says: vec!["recover_us".to_owned()],
        not_libfabric: Some(
            "what a provider tells of a dead process differs from one to the next".to_owned(),
        ),
        ..plain(format!("benchmark failures {mode}"), vec![sources.join("failures/failures.c")])
    }));
    cases.extend(BENCHMARKS.map(|(name, ranks)| benchmark(sources, name, ranks)));
    Ok(cases)
}

/// A program that is to end with 0, and no more.
pub fn plain(name: String, sources: Vec<PathBuf>) -> Case {
    let (ranks, launch, parts) = (Vec::new(), Vec::new(), Vec::new());
    let (says, says_not, bare, not_libfabric) = (Vec::new(), Vec::new(), None, None);
    Case {
        name,
        sources,
        ranks,
        right: Right::Zero,
        options: &[],
        launch,
        parts,
        says,
        says_not,
        bare,
        not_libfabric,
        over_nodes: false,
    }
}

/// A benchmark with few operations and small sizes, which looks at the bytes that it receives.
pub fn benchmark(sources: &Path, name: &str, ranks: &[u32]) -> Case {
    // Each thread has a window of its own, of which every byte is filled and looked at.
    let options: &[&str] = match name {
        "thread_rate" => {
            &["--iterations", "40", "--warmup", "4", "--max", "131072", "--window-bytes", "128K"]
        }
        _ => &["--iterations", "40", "--warmup", "4", "--max", "131072", "--window-bytes", "1M"],
    };
    Case {
        ranks: ranks.to_vec(),
        options,
        ..plain(format!("benchmark {name}"), measured::sources(sources, name))
    }
}

fn test_cases(folder: &Path) -> Result<Vec<Case>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !is_program(&path) || LIBRARIES.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(unreadable)?;
        let asked = directives(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let Directives { ranks, right, launch, parts, says, says_not, bare, not_libfabric, over_nodes } =
            asked;
        let plain = plain(name, vec![path]);
        cases.push(Case {
            ranks,
            right,
            launch,
            parts,
            says,
            says_not,
            bare,
            not_libfabric,
            over_nodes,
            ..plain
        });
    }
    cases.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(cases)
}

/// Whether that is a program's source, in C or in C++.
fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "c" || extension == "cc")
}

/// With this status `weftrun` ends a job that took too long.
pub const TIMED_OUT: i32 = 124;
/// How the example that loses a rank goes on.
const ROD_MODES: [(&str, &[&str]); 3] =
    [("blank", &["blank"]), ("shrink", &["shrink"]), ("rebuild", &["rebuild"])];
const DEATHS: [(&str, &[&str]); 3] = [("blank", &["blank"]), ("shrink", &["shrink"]), ("ulfm", &["ulfm"])];
const EXAMPLES: [&str; 4] = ["halo", "hello", "pi", "ring"];
const BENCHMARKS: [(&str, &[u32]); 22] = [
    ("allgather", &[1, 2, 5]),
    ("allreduce", &[1, 2, 5]),
    ("alltoall", &[1, 2, 5]),
    ("bandwidth", &[2, 3]),
    ("barrier", &[1, 2, 5]),
    ("bcast", &[1, 2, 5]),
    ("bibandwidth", &[2, 3]),
    ("blocked", &[2, 3]),
    ("latency", &[2, 3]),
    ("collectives", &[1, 2, 5]),
    ("communicators", &[1, 2, 5]),
    ("consistent", &[2, 5]),
    ("groups", &[1, 40]),
    ("mapped_halo", &[1, 6]),
    ("message_rate", &[2, 3, 4]),
    ("neighbours", &[1, 2, 6]),
    ("one_sided", &[2, 3, 4]),
    ("overlap", &[1, 2]),
    ("reduce", &[1, 2, 5]),
    ("startup", &[1, 2, 5]),
    ("thread_rate", &[2, 3]),
    ("vector_latency", &[2, 3]),
];
/// Libraries for tests, no tests by themselves: the first damages messages, the second tells of reads of
/// other processes' memory.
const LIBRARIES: [&str; 2] = ["corrupt", "reads"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    fn finished(ending: Ending, output: &str) -> Finished {
        Finished { ending, output: output.into(), time: Duration::ZERO }
    }

    #[test]
    fn ends_are_judged() {
        let silent = finished(Ending::Exited(0), "");
        assert!(judge(Right::Zero, &silent).is_ok());
        assert!(judge(Right::SaysOk, &silent).is_err(), "a test that prints no ok did not get to its end");
        assert!(judge(Right::SaysOk, &finished(Ending::Exited(0), "x\nok\n")).is_ok());
        assert!(judge(Right::SaysOk, &finished(Ending::Exited(1), "ok\n")).is_err());
        assert!(judge(Right::Status(7), &finished(Ending::Exited(7), "")).is_ok());
        assert!(judge(Right::NotZero, &silent).is_err());
        assert!(judge(Right::NotZero, &finished(Ending::Signalled(11), "")).is_err(), "a crash is no answer");
        let hung = finished(Ending::TimedOut(Duration::from_secs(240)), "rank 1 hangs\n");
        assert!(judge(Right::NotZero, &hung).unwrap_err().contains("rank 1 hangs"));
    }

    #[test]
    fn every_committed_program_is_a_case() {
        let sources = crate::workspace_root().join("bench");
        let cases = cases(&sources).unwrap();
        let missing: Vec<_> =
            cases.iter().flat_map(|case| &case.sources).filter(|path| !path.exists()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let programs = |folder: &str| {
            let entries = fs::read_dir(sources.join(folder)).unwrap();
            entries.filter(|entry| is_program(&entry.as_ref().unwrap().path())).count()
        };
        let shared_parts = 3;
        let not_run_alone = LIBRARIES.len() + ["instructions", "kills"].len();
        let folders: usize = ["", "examples", "tests", "failures"].map(programs).into_iter().sum();
        let all = folders - shared_parts - not_run_alone;
        let run: BTreeSet<_> = cases.iter().map(|case| &case.sources[0]).collect();
        assert_eq!(run.len(), all, "a program in bench/ is not run by anything");
    }
}
