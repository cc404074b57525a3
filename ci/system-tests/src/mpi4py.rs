//! mpi4py, built from its source with the installed `mpicc`, and its own tests on the installed library.
//!
//! The source comes from PyPI into `target/mpi4py`, and is built once for each `mpi.h`. What mpi4py's tests
//! leave out by themselves is counted and named; what is left out here, because weft has no such function
//! yet, is named with that function. It is run as soon as `docs/generated/mpi-coverage.md` says that the
//! function works.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job::Finished;
use crate::tally::Tally;
use crate::{job, venv};

/// Builds mpi4py if it is not there for the weft in `prefix`.
///
/// # Errors
/// When mpi4py cannot be had or does not build, with what pip said.
pub fn build(root: &Path, prefix: &Path) -> Result<(), String> {
    Mpi4pySetup::new(root, prefix).build()
}

/// Builds mpi4py if it is not there, and runs its tests with the weft in `prefix`.
///
/// # Errors
/// When mpi4py cannot be had or does not build, with what pip said.
pub fn run(root: &Path, prefix: &Path, name: &str) -> Result<Tally, String> {
    let setup = Mpi4pySetup::new(root, prefix);
    let coverage = root.join("docs/generated/mpi-coverage.md");
    let coverage = fs::read_to_string(&coverage)
        .map_err(|error| format!("cannot read {}: {error}", coverage.display()))?;
    let left_out: Vec<&Gap> = GAPS.iter().filter(|gap| !works(&coverage, gap.needs)).collect();
    setup.build()?;
    for tests in WRONG {
        println!("LEFT OUT  {tests}: it wants an unnamed pair to be predefined and not to be");
    }
    for gap in &left_out {
        println!("LEFT OUT  {}: {} is not there yet", gap.tests, gap.needs);
    }
    let mut tally = Tally::default();
    tally.note("the library that mpi4py meets", setup.meets_weft());
    for (fabric, numbers) in RUNS {
        for &ranks in numbers {
            let title = format!("mpi4py, {ranks} ranks, {fabric}");
            if !title.contains(name) {
                continue;
            }
            let finished = setup.test(ranks, fabric, &left_out)?;
            let has_hung = finished.time >= RUN_LIMIT;
            let result = match has_hung {
                true => Err(finished.account()),
                false => judge(&finished, ranks).map(|said| println!("        {said}")),
            };
            tally.note(&title, result);
            if has_hung {
                println!("the other runs are not begun: what hangs in one of them hangs in all, as a rule");
                return Ok(tally);
            }
        }
    }
    Ok(tally)
}

/// Tests of mpi4py that call a function which weft may not have yet.
struct Gap {
    /// As `main.py -x` takes it: module, class and test, with `*`.
    tests: &'static str,
    /// The function.
    needs: &'static str,
}

/// Whether the page says that the function works.
fn works(coverage: &str, function: &str) -> bool {
    coverage.contains(&format!("| `{function}` | works |"))
}

struct Mpi4pySetup {
    prefix: PathBuf,
    folder: PathBuf,
}

impl Mpi4pySetup {
    fn new(root: &Path, prefix: &Path) -> Mpi4pySetup {
        Mpi4pySetup { prefix: prefix.to_path_buf(), folder: root.join("target/mpi4py") }
    }

    fn python(&self) -> PathBuf {
        self.folder.join("venv/bin/python")
    }

    fn tests(&self) -> PathBuf {
        self.folder.join(format!("mpi4py-{VERSION}/test"))
    }

    /// Fetches and builds, unless that was done with this very `mpi.h` for this very prefix.
    fn build(&self) -> Result<(), String> {
        let header = self.prefix.join("include/mpi.h");
        let header = fs::read_to_string(&header)
            .map_err(|error| format!("cannot read {}: {error}", header.display()))?;
        let built = format!("mpi4py {VERSION} for {}\n{header}", self.prefix.display());
        let marker = self.folder.join("built");
        if fs::read_to_string(&marker).is_ok_and(|text| text == built) {
            return Ok(());
        }
        venv::install(&self.folder, &TOOLS)?;
        let pip = self.folder.join("venv/bin/pip");
        let source = self.folder.join(format!("mpi4py-{VERSION}.tar.gz"));
        if !source.exists() {
            println!("fetching the source of mpi4py {VERSION} from PyPI");
            let mut fetch = Command::new(&pip);
            fetch.args(["download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", "mpi4py"]);
            fetch.arg(format!("mpi4py=={VERSION}")).arg("--dest").arg(&self.folder);
            self.step("fetching mpi4py", &mut fetch)?;
        }
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(&source).arg("-C").arg(&self.folder);
        self.step("unpacking mpi4py", &mut unpack)?;
        println!("building mpi4py {VERSION} with {}", self.prefix.join("bin/mpicc").display());
        let mut install = Command::new(&pip);
        install.args(["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir"]);
        install.arg("--force-reinstall").arg(&source);
        install.env("MPICC", self.prefix.join("bin/mpicc")).env("CFLAGS", "-O0 -g0");
        self.step("building mpi4py", &mut install)?;
        fs::write(&marker, built).map_err(|error| format!("cannot write {}: {error}", marker.display()))
    }

    fn step(&self, what: &str, command: &mut Command) -> Result<(), String> {
        let log = self.folder.join("build.log");
        job::succeed(what, command, BUILD_LIMIT, &log).map(drop).map_err(|error| {
            format!(
                "{error}\n  this needs PyPI, and python3-dev and python3-venv, which ci/setup installs; \
                 WEFT_TEST_MPI4PY=no leaves it out"
            )
        })
    }

    /// What is loaded must be the library under test, or nothing is tested.
    fn meets_weft(&self) -> Result<(), String> {
        let script = "from mpi4py import MPI; print(MPI.Get_library_version())";
        let mut command = Command::new(self.python());
        command.args(["-c", script]).env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        let finished =
            job::succeed("importing mpi4py", &mut command, RUN_LIMIT, &self.folder.join("run.log"))?;
        if finished.output.starts_with("weft ") { Ok(()) } else { Err(finished.account()) }
    }

    /// Runs all modules on so many ranks.
    fn test(&self, ranks: u32, fabric: &str, left_out: &[&Gap]) -> Result<Finished, String> {
        let mut command = Command::new(self.prefix.join("bin/weftrun"));
        command.arg("-n").arg(ranks.to_string()).args(["-l", "--fabric", fabric]);
        command.args(["--timeout", &RUN_LIMIT.as_secs().to_string()]);
        command.arg(self.python()).args(["main.py", "-v", "--no-numpy"]);
        command.args(["-i", &format!("^test_({})[.]py$", MODULES.join("|"))]);
        for tests in left_out.iter().map(|gap| gap.tests).chain(WRONG) {
            command.args(["-x", tests]);
        }
        if (ranks, fabric) != ALONE_ON {
            command.args(ALONE.iter().flat_map(|tests| ["-x", tests]));
        }
        command.current_dir(self.tests()).env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        let log = self.folder.join(format!("tests-{ranks}-{fabric}.log"));
        job::run(&mut command, RUN_LIMIT + Duration::from_secs(20), &log)
    }
}

/// The job must have ended well, and all its ranks too; the answer says what was run and what mpi4py itself
/// skipped.
fn judge(finished: &Finished, ranks: u32) -> Result<String, String> {
    let said = judge_output(&finished.output, ranks)?;
    if finished.succeeded() { Ok(said) } else { Err(finished.account()) }
}

/// Every rank must have run the same tests, some of every module, and none may have failed.
fn judge_output(output: &str, ranks: u32) -> Result<String, String> {
    let failed: Vec<&str> = output.lines().filter(|line| is_failure(line)).collect();
    if !failed.is_empty() {
        let shown = failed.len().min(FAILURES_SHOWN_MAX);
        return Err(format!(
            "{} lines of failures, first\n    {}",
            failed.len(),
            failed[..shown].join("\n    ")
        ));
    }
    for module in MODULES {
        let ran = format!("(test_{module}.");
        if !output.lines().any(|line| line.contains(&ran) && line.ends_with("... ok")) {
            // On one rank no test of inter-communicators can run.
            let skipped = output.lines().any(|line| line.contains(&ran) && line.contains("... skipped"));
            if !skipped && !is_left_out(module) {
                return Err(format!("no test of test_{module} ran"));
            }
        }
    }
    let counts: Vec<u32> = (0..ranks).filter_map(|rank| ran_on(output, rank)).collect();
    match counts.first() {
        Some(&count)
            if counts.len() == ranks as usize && count > 0 && counts.iter().all(|&it| it == count) =>
        {
            Ok(format!("{count} tests on each rank{}", skips(output)))
        }
        _ => Err(format!("the ranks ran {counts:?} tests, of {ranks} ranks")),
    }
}

/// Whether all tests of a module may be left out.
fn is_left_out(module: &str) -> bool {
    GAPS.iter().any(|gap| gap.tests == format!("test_{module}.*"))
}

fn is_failure(line: &str) -> bool {
    let said = line.split_once("] ").map_or(line, |(_, said)| said);
    said.starts_with("FAIL") || said.starts_with("ERROR") || said.starts_with("Fatal Python error")
}

/// How many tests a rank says it ran.
fn ran_on(output: &str, rank: u32) -> Option<u32> {
    let start = format!("[{rank}] Ran ");
    let line = output.lines().find_map(|line| line.strip_prefix(&start))?;
    line.split(' ').next()?.parse().ok()
}

/// What rank 0 skipped, by the reason that mpi4py gives.
fn skips(output: &str) -> String {
    let mut reasons: BTreeMap<&str, u32> = BTreeMap::new();
    for line in output.lines().filter(|line| line.starts_with("[0] ")) {
        if let Some((_, reason)) = line.split_once("... skipped ") {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let listed: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if listed.is_empty() { String::new() } else { format!("; skipped by mpi4py: {}", listed.join(", ")) }
}

const VERSION: &str = "4.1.2";

/// What builds it.
const TOOLS: venv::Package = venv::Package {
    name: "venv",
    requirements: &["cython==3.3.1", "setuptools==80.9.0", "wheel==0.45.1"],
    marker: "bin/cython",
};

/// The modules of mpi4py's tests that are run, without `test_`.
const MODULES: [&str; 44] = [
    "group",
    "comm",
    "comm_inter",
    "comm_topo",
    "cco_buf",
    "cco_vec",
    "cco_obj",
    "cco_buf_inter",
    "cco_vec_inter",
    "cco_obj_inter",
    "cco_nb_buf",
    "cco_nb_vec",
    "cco_pr_buf",
    "cco_pr_vec",
    "cco_ngh_buf",
    "cco_ngh_obj",
    "cco_pr_ngh_buf",
    "attributes",
    "buffer",
    "info",
    "errhandler",
    "errorcode",
    "exceptions",
    "environ",
    "grequest",
    "session",
    "handle",
    "msgspec",
    "msgzero",
    "objmodel",
    "p2p_buf",
    "p2p_buf_matched",
    "p2p_buf_part",
    "p2p_obj",
    "p2p_obj_matched",
    "request",
    "rma",
    "rma_nb",
    "status",
    "win",
    "datatype",
    "address",
    "pack",
    "op",
];

/// Tests of mpi4py 4.1 that no library passes which has unnamed pairs of a value and an index (MPI 5.0
/// §6.9.4): they take a datatype whose combiner is `MPI_COMBINER_VALUE_INDEX` for predefined, and want it not
/// to be.
const WRONG: [&str; 2] =
    ["test_datatype.TestDatatypeCreate.testValueIndex", "test_datatype.TestDatatypePickle.testValueIndex"];

/// Tests that call functions which may not be there yet.
const GAPS: &[Gap] = &[
    Gap { tests: "test_comm.*.testCreateGroup", needs: "MPI_Comm_create_group" },
    Gap { tests: "test_comm.*.testCreateFromGroup", needs: "MPI_Comm_create_from_group" },
    Gap { tests: "test_comm.*.testIDup", needs: "MPI_Comm_idup" },
    Gap { tests: "test_comm.*.testIDupWithInfo", needs: "MPI_Comm_idup_with_info" },
    Gap { tests: "test_comm.*.testGetSetInfo", needs: "MPI_Comm_set_info" },
    Gap { tests: "test_comm.*.testPyProps", needs: "MPI_Comm_get_info" },
    Gap { tests: "test_comm.*.testSplitType*", needs: "MPI_Comm_split_type" },
    Gap { tests: "test_comm_inter.*", needs: "MPI_Intercomm_create" },
    Gap { tests: "test_exceptions.TestExcCommNull.testInterNull", needs: "MPI_Comm_remote_group" },
    Gap { tests: "test_errhandler.TestErrhandlerFile.*", needs: "MPI_File_open" },
    Gap { tests: "test_errhandler.TestErrhandlerWin.*", needs: "MPI_Win_create" },
    Gap { tests: "test_attributes.TestWinAttr.*", needs: "MPI_Win_create" },
    Gap { tests: "test_objmodel.TestObjModel.testSafeFreeCreated", needs: "MPI_File_open" },
    Gap { tests: "test_win.*", needs: "MPI_Win_create" },
    Gap { tests: "test_msgspec.TestMessageRMA.*", needs: "MPI_Put" },
];

/// What says nothing to other ranks, and takes long in Python: datatypes, and messages from a rank to itself
/// over `MPI_COMM_SELF`, which go over no fabric. One run of one rank is enough.
const ALONE: [&str; 6] = [
    "test_datatype.TestDatatypePickle.*",
    "test_datatype.TestDatatypeCreate.*",
    "test_msgspec.TestMessageSimple*",
    "test_msgspec.TestMessageVector*",
    "test_msgspec.TestMessageDLPack*",
    "test_msgspec.TestMessageCAI*",
];
const ALONE_ON: (u32, &str) = (1, "shm");

/// More ranks on a machine with few cpus are minutes of Python that find nothing new: tests in C have eight.
/// Over tcp the tests go through the same calls as over shm.
const RUNS: [(&str, &[u32]); 2] = [("shm", &[1, 2, 4, 5]), ("tcp", &[1, 2, 3])];
const FAILURES_SHOWN_MAX: usize = 40;
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const RUN_LIMIT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ranks: u32, extra: &str) -> String {
        let line = |rank: u32, module: &str| format!("[{rank}] testA (test_{module}.TestX.testA) ... ok\n");
        let rank = |rank: u32| {
            let all: String = MODULES.iter().map(|module| line(rank, module)).collect();
            format!("{all}[{rank}] Ran 11 tests in 0.1s\n[{rank}] OK\n")
        };
        (0..ranks).map(rank).collect::<String>() + extra
    }

    #[test]
    fn all_ranks_must_run_the_same_tests_without_a_failure() {
        assert_eq!(judge_output(&said(2, ""), 2).unwrap(), "11 tests on each rank");
        assert!(judge_output(&said(1, ""), 2).unwrap_err().contains("[11] tests, of 2 ranks"));
        assert!(judge_output(&said(2, "[1] FAILED (errors=3)\n"), 2).unwrap_err().contains("errors=3"));
        assert!(judge_output(&said(2, "[1] ERROR: testA\n"), 2).is_err());
        assert!(judge_output(&said(2, "").replace("Ran 11", "Ran 0"), 2).is_err());
        let without = said(1, "").replace("(test_group.TestX.testA) ... ok", "");
        assert!(judge_output(&without, 1).unwrap_err().contains("no test of test_group"));
    }

    #[test]
    fn what_mpi4py_skips_is_named() {
        let extra =
            "[0] testW (test_win.T.testW) ... skipped 'mpi-win'\n[1] testW (a) ... skipped 'mpi-win'\n";
        assert!(judge_output(&said(2, extra), 2).unwrap().ends_with("skipped by mpi4py: 1 'mpi-win'"));
    }

    #[test]
    fn a_gap_closes_when_the_function_works() {
        assert!(works("| `MPI_Send` | works |\n", "MPI_Send"));
        assert!(!works("| `MPI_Send` | answers `MPI_ERR_UNSUPPORTED_OPERATION` |\n", "MPI_Send"));
    }
}
