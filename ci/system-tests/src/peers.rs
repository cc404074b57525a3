//! One binary on two libraries: programs compiled by MPICH's `mpicc_abi` run on weft, weft's run on
//! MPICH, and each launcher starts the other's programs.
//!
//! MPICH comes from PyPI (the package `mpich`) into `target/peers`. Both sides implement the standard
//! ABI under the name `libmpi_abi.so.1`; `LD_LIBRARY_PATH` decides which one a program meets.
//!
//! MPICH brings a libfabric that is newer than the system's, with other layouts: weft runs on that, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::tally::Tally;
use crate::{job, loader, measured, venv};

/// Runs all pairs of compiler, library and launcher that must work, with the weft in `prefix`.
///
/// # Errors
/// When the peer cannot be installed: there is no network, or no python.
pub fn run(root: &Path, prefix: &Path) -> Result<Tally, String> {
    let folder = root.join("target/peers");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mpich = venv::install(&folder, &venv::MPICH)?;
    let weft = Side { name: "weft", library: prefix.join("lib"), compiler: prefix.join("bin/mpicc") };
    let peer = Side { name: "MPICH", library: mpich.join("lib"), compiler: mpich.join("bin/mpicc_abi") };
    let setup = PeerSetup { sources: root.join("bench"), folder };
    let weftrun = prefix.join("bin/weftrun");
    let hydra = mpich.join("bin/mpiexec");
    let mut tally = Tally::default();
    for program in PROGRAMS {
        setup.cross(&mut tally, program, &peer, &weft, &weftrun);
        setup.cross(&mut tally, program, &weft, &peer, &hydra);
        setup.cross(&mut tally, program, &weft, &weft, &hydra);
        setup.cross(&mut tally, program, &peer, &peer, &weftrun);
    }
    setup.alone(&mut tally, &weft);
    setup.newer_libfabric(&mut tally, &weft, &peer, &weftrun);
    Ok(tally)
}

/// A compiler of programs, and the library that belongs to it.
struct Side {
    name: &'static str,
    library: PathBuf,
    compiler: PathBuf,
}

struct PeerSetup {
    sources: PathBuf,
    folder: PathBuf,
}

impl PeerSetup {
    /// Compiles with one side and runs on the library of the other, by this launcher.
    fn cross(&self, tally: &mut Tally, program: &str, built_by: &Side, runs_on: &Side, launcher: &Path) {
        let by = launcher.file_name().unwrap_or_default().display();
        for ranks in RANKS {
            let name = format!("{program} by {}, on {}, {by} -n {ranks}", built_by.name, runs_on.name);
            let result = self.compile(program, built_by).and_then(|path| {
                let mut command = Command::new(launcher);
                command.args(["-n", ranks]).arg(&path).env("LD_LIBRARY_PATH", &runs_on.library);
                self.judge(&name, &mut command, program, runs_on)
            });
            tally.note(&name, result);
        }
    }

    /// weft on the libfabric that MPICH brings: messages of all sizes, often enough to go through all buffers
    /// of a provider.
    fn newer_libfabric(&self, tally: &mut Tally, weft: &Side, peer: &Side, weftrun: &Path) {
        let log = self.folder.join("run.log");
        let library = loader::libfabric_of(Some(&peer.library.join("libmpi_abi.so.1")), &log);
        if !library.is_absolute() {
            println!("LEFT OUT  weft on MPICH's libfabric: MPICH brings none");
            return;
        }
        for (fabric, program) in ["libfabric:tcp;ofi_rxm", "libfabric:shm"]
            .iter()
            .flat_map(|fabric| ["latency", "bandwidth", "allreduce"].map(|program| (fabric, program)))
        {
            let path = self.folder.join(format!("benchmark-{program}"));
            let sources = measured::sources(&self.sources, program);
            let result = job::compile(&weft.compiler, &[], &sources, &path, LIMIT).and_then(|()| {
                let mut command = Command::new(weftrun);
                command.args(["-n", "2", "--timeout", "100", "--fabric", fabric]).arg(&path);
                command.args(["--iterations", "2000", "--max", "256K", "--window-bytes", "1M"]);
                command.env("WEFT_LIBFABRIC", &library).env("LD_LIBRARY_PATH", &weft.library);
                job::succeed(program, &mut command, LIMIT, &log).map(drop)
            });
            tally.note(&format!("{program} by weft, over MPICH's {fabric}"), result);
        }
    }

    /// A program started with no launcher is a job of one rank.
    fn alone(&self, tally: &mut Tally, weft: &Side) {
        let name = "version by weft, started alone";
        let result = self
            .compile("version", weft)
            .and_then(|path| self.judge(name, &mut Command::new(path), "version", weft));
        tally.note(name, result);
    }

    fn judge(&self, name: &str, command: &mut Command, program: &str, runs_on: &Side) -> Result<(), String> {
        let finished = job::succeed(name, command, LIMIT, &self.folder.join("run.log"))?;
        let output = &finished.output;
        let library = output.lines().find_map(|line| line.strip_prefix("library: "));
        match library {
            _ if !output.lines().any(|line| line == "ok") => Err(format!("no `ok`: {}", finished.account())),
            None if program == "version" => Err(format!("no library named: {}", finished.account())),
            Some(library) if !library.to_lowercase().contains(&runs_on.name.to_lowercase()) => {
                Err(format!("ran on another library: {library}"))
            }
            _ => Ok(()),
        }
    }

    fn compile(&self, program: &str, side: &Side) -> Result<PathBuf, String> {
        let path = self.folder.join(format!("{program}-{}", side.name));
        let source = self.sources.join(format!("tests/{program}.c"));
        job::compile(&side.compiler, &[], &[source], &path, LIMIT)?;
        Ok(path)
    }
}

const PROGRAMS: [&str; 4] = ["version", "point_to_point", "communicators", "windows"];
const RANKS: [&str; 2] = ["2", "4"];
const LIMIT: Duration = Duration::from_secs(240);

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(script: &str, program: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let setup = PeerSetup { sources: PathBuf::new(), folder: folder.path().to_path_buf() };
        let weft = Side { name: "weft", library: PathBuf::new(), compiler: PathBuf::new() };
        setup.judge("a test", Command::new("sh").args(["-c", script]), program, &weft)
    }

    #[test]
    fn a_program_must_say_ok_and_run_on_the_right_library() {
        assert!(judged("echo library: weft 0.1; echo ok", "version").is_ok());
        assert!(judged("echo ok", "point_to_point").is_ok());
        assert!(judged("echo ok", "version").unwrap_err().contains("no library named"));
        assert!(judged("echo library: weft 0.1", "version").unwrap_err().contains("no `ok`"));
        assert!(judged("echo library: MPICH; echo ok", "version").unwrap_err().contains("another library"));
        assert!(
            judged("echo library: weft; echo ok; exit 3", "version").unwrap_err().contains("exit status 3")
        );
    }
}
