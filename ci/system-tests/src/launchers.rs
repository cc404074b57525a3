//! Programs on weft under the process managers that people use, on this one host: Hydra (of MPICH) by PMI-1
//! and PMI-2, over an inherited socket and over a port, and PRRTE (of Open MPI) by PMIx. Both launchers come
//! from PyPI.
//!
//! Each launcher runs a job that goes well, one that aborts, and some that lose a rank, before, in and after
//! MPI_Init; and the launches that cannot be are tried, which must be told with a remedy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job::{self, Ending, Finished};
use crate::survivors;
use crate::tally::Tally;
use crate::venv;

/// Runs all of it with the weft in `prefix`.
///
/// # Errors
/// When a launcher cannot be installed, or the program cannot be compiled.
pub fn run(root: &Path, prefix: &Path) -> Result<Tally, String> {
    let folder = root.join("target/peers");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let hydra = venv::install(&folder, &venv::MPICH)?.join("bin/mpiexec");
    let prrte = venv::install(&folder, &venv::OPEN_MPI)?.join("bin/mpiexec");
    let program = folder.join("ends");
    let source = root.join("bench/launch/ends.c");
    job::compile(&prefix.join("bin/mpicc"), &[], &[source], &program, LIMIT)?;
    let setup = LauncherSetup { program, log: folder.join("launch.log") };
    let mut tally = Tally::default();
    for launcher in launchers(&hydra, &prrte) {
        setup.well(&mut tally, &launcher);
        setup.ends(&mut tally, &launcher);
    }
    setup.told(&mut tally, &prrte);
    setup.handed_on(&mut tally, &prefix.join("bin/weftrun"), &hydra, &prrte)?;
    let survivor = folder.join("survives");
    let source = root.join("bench/launch/survives.c");
    job::compile(&prefix.join("bin/mpicc"), &[], &[source], &survivor, LIMIT)?;
    setup.survives(&mut tally, &prrte, &survivor);
    setup.wrapped(&mut tally, &hydra);
    setup.contained(&mut tally, &hydra);
    Ok(tally)
}

/// A way to start ranks.
struct TestedLauncher {
    name: &'static str,
    program: PathBuf,
    options: &'static [&'static str],
    /// `WEFT_PROCESS_MANAGER`.
    protocol: Option<&'static str>,
    /// Its own status where a rank was killed.
    status_when_killed: i32,
    /// Its own status where a rank returned 3 before it joined.
    status_when_early: i32,
    /// Whether it ends a job by itself where that happened; if not, a rank of ours asks it to.
    sees_early: bool,
}

fn launchers(hydra: &Path, prrte: &Path) -> Vec<TestedLauncher> {
    let of_hydra = |name, options, protocol| TestedLauncher {
        name,
        program: hydra.to_owned(),
        options,
        protocol,
        status_when_killed: 9,
        status_when_early: 1,
        sees_early: false,
    };
    let of_prrte = |name, protocol| TestedLauncher {
        name,
        program: prrte.to_owned(),
        options: &PRRTE_OPTIONS,
        protocol,
        status_when_killed: 137,
        status_when_early: 3,
        sees_early: true,
    };
    vec![
        of_hydra("Hydra", &[], None),
        of_hydra("Hydra over a port", &["-pmi-port"], None),
        of_hydra("Hydra by PMI-2", &[], Some("pmi2")),
        of_hydra("Hydra by PMI-2 over a port", &["-pmi-port"], Some("pmi2")),
        of_prrte("PRRTE", None),
        of_prrte("PRRTE by PMIx as wished", Some("pmix")),
    ]
}

impl TestedLauncher {
    fn command(&self, ranks: u32, program: &Path, how: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.options).args(["-n", &ranks.to_string()]).arg(program).arg(how);
        match self.protocol {
            Some(protocol) => command.env("WEFT_PROCESS_MANAGER", protocol),
            None => command.env_remove("WEFT_PROCESS_MANAGER"),
        };
        command
    }
}

struct LauncherSetup {
    program: PathBuf,
    log: PathBuf,
}

impl LauncherSetup {
    /// Jobs that end well, over shared memory and over sockets.
    fn well(&self, tally: &mut Tally, launcher: &TestedLauncher) {
        let jobs = [
            (1, "shm,tcp", "well"),
            (2, "shm,tcp", "well"),
            (5, "shm,tcp", "well"),
            (4, "tcp", "well"),
            // One that lets the others wait is not taken for one that has ended.
            (4, "shm,tcp", "late"),
            // Rank 2 is the last of three, and shares no memory.
            (3, "shm,tcp", "apart"),
        ];
        for (ranks, fabric, how) in jobs {
            let mut command = launcher.command(ranks, &self.program, how);
            let name = format!("{}, {ranks} ranks over {fabric}, {how}", launcher.name);
            let result = self.run(command.env("WEFT_FABRIC", fabric)).and_then(|finished| {
                let all_here = format!("{ranks} ranks, {ranks} on this node");
                let said = |line: &str| finished.output.lines().any(|said| said == line);
                match finished.succeeded() && said("ok") && said(&all_here) {
                    true => Ok(()),
                    false => Err(finished.account()),
                }
            });
            tally.note(&name, result);
        }
    }

    /// Jobs that end badly: in time, with the launcher's status.
    fn ends(&self, tally: &mut Tally, launcher: &TestedLauncher) {
        let missed = ["rank 1 has ended on", "before it was through MPI_Init", "must call MPI_Init"];
        let early = if launcher.sees_early { &[][..] } else { &missed };
        let endings: [(&str, Option<i32>, &[&str]); 5] = [
            ("aborts", Some(7), &["MPI_Abort(MPI_COMM_WORLD, 7)"]),
            ("killed", Some(launcher.status_when_killed), &[]),
            ("early", Some(launcher.status_when_early), early),
            // Hydra stumbles where a rank is killed while it starts others, now and then over its own
            // SIGPIPE, and later takes the statuses of those that it ended then together.
            ("shot", None, &[]),
            ("within", None, &[]),
        ];
        for (how, status, words) in endings {
            let name = format!("{}, a rank {how}", launcher.name);
            let result = self.run(&mut launcher.command(4, &self.program, how)).and_then(|finished| {
                let as_expected = match status {
                    Some(status) => finished.ending == Ending::Exited(status),
                    None => matches!(finished.ending, Ending::Exited(1..) | Ending::Signalled(SIGPIPE)),
                };
                if !as_expected {
                    return Err(format!("not status {status:?}: {}", finished.account()));
                }
                finished.must_say(words)
            });
            tally.note(&name, result);
        }
    }

    /// `weftrun` hands jobs for other hosts on to these launchers. They start here what they would start
    /// there: Hydra forks, and PRRTE has a program in the place of `ssh` that does not go anywhere.
    fn handed_on(&self, tally: &mut Tally, weftrun: &Path, hydra: &Path, prrte: &Path) -> Result<(), String> {
        let agent = self.program.with_file_name("no-ssh");
        let script = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nshift\nexec sh -c \"$*\"\n";
        let made = fs::write(&agent, script)
            .and_then(|()| fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)));
        made.map_err(|error| format!("cannot write {}: {error}", agent.display()))?;
        let agent = agent.display().to_string();
        let by_hydra = ["-launcher", "fork"];
        let by_prrte = ["--mca", "plm_ssh_agent", &agent];
        let program = self.program.display().to_string();
        for (name, launcher, options) in [("Hydra", hydra, &by_hydra[..]), ("PRRTE", prrte, &by_prrte)] {
            let bin = launcher.parent().unwrap_or(launcher);
            let start = |words: &[&str]| {
                let mut command = Command::new(weftrun);
                let path = std::env::var("PATH").unwrap_or_default();
                command.env("PATH", format!("{}:{path}", bin.display()));
                if let Some(venv) = bin.parent().filter(|_| name == "PRRTE") {
                    for variable in ["PRTE_PREFIX", "PMIX_PREFIX", "OPAL_PREFIX"] {
                        command.env(variable, venv);
                    }
                }
                // Addresses that are for documents, and no host's.
                command.args(options).args(["-hosts", "192.0.2.1,192.0.2.2"]).args(words);
                self.run(&mut command)
            };
            let well = start(&["-n", "4", &program, "well"]);
            let well = well.and_then(|finished| {
                finished.must_say(&["weftrun: handed on to: ", "4 ranks, 4 on this node\n", "ok\n"])
            });
            tally.note(&format!("a job for other hosts goes to {name}"), well);
            let several =
                start(&["-n", "1", &program, "well", ":", "-n", "2", "-x", "A=1", &program, "well"]);
            let several =
                several.and_then(|finished| finished.must_say(&["3 ranks, 3 on this node\n", "ok\n"]));
            tally.note(&format!("several programs for other hosts go to {name}"), several);
            for (how, limit, status) in [("aborts", "100", 7), ("late", "1", 124)] {
                let ended = start(&["--timeout", limit, "-n", "4", &program, how]).and_then(|finished| {
                    let is_right = finished.ending == Ending::Exited(status);
                    if is_right {
                        Ok(())
                    } else {
                        Err(format!("not status {status}: {}", finished.account()))
                    }
                });
                tally.note(&format!("a job for other hosts, {how}, {name}, has status {status}"), ended);
            }
        }
        Ok(())
    }

    /// The others go on under PRRTE, where it is told to let them.
    fn survives(&self, tally: &mut Tally, prrte: &Path, program: &Path) {
        for mode in ["blank", "shrink"] {
            for recoverable in [&["--with-ft", "ulfm"][..], &["--enable-recovery"]] {
                let mut command = Command::new(prrte);
                command.args(PRRTE_OPTIONS).args(recoverable).args(["-n", "4"]).arg(program);
                let name =
                    format!("a rank is killed and the others go on, PRRTE {}, {mode}", recoverable.join(" "));
                match survivors::go_on(&mut command, 4, mode, &self.log) {
                    Ok(how) => tally.note(&format!("{name}: {how}"), Ok(())),
                    Err(account) => tally.note(&name, Err(account)),
                }
            }
        }
    }

    /// Ranks below a shell that has other things to do, too, and ranks that a shell leaves behind.
    fn wrapped(&self, tally: &mut Tally, hydra: &Path) {
        for (name, script) in
            [("below a shell", "\"$0\" late; exit $?"), ("left behind by a shell", "\"$0\" late & sleep 1")]
        {
            let mut command = Command::new(hydra);
            command.args(["-n", "3", "sh", "-c", script]).arg(&self.program);
            let result = self.run(&mut command);
            let result = result.and_then(|finished| finished.must_say(&["3 ranks, 3 on this node\nok\n"]));
            tally.note(&format!("ranks {name}"), result);
        }
    }

    /// Ranks with process numbers of their own, as in containers, share memory all the same.
    fn contained(&self, tally: &mut Tally, hydra: &Path) {
        let wall = ["unshare", "--pid", "--fork", "--mount-proc"];
        let name = "ranks with process numbers of their own";
        let tried =
            job::succeed("unshare", Command::new(wall[0]).args(&wall[1..]).arg("true"), LIMIT, &self.log);
        if let Err(reason) = tried {
            println!("LEFT OUT  {name}: {reason}");
            return;
        }
        let mut command = Command::new(hydra);
        command.args(["-n", "3"]).args(wall).arg(&self.program).arg("late");
        let result = self.run(&mut command);
        tally.note(name, result.and_then(|finished| finished.must_say(&["3 ranks, 3 on this node\nok\n"])));
    }

    /// Launches that cannot be: what is wrong is named, and what to do.
    fn told(&self, tally: &mut Tally, prrte: &Path) {
        let no_library = [("WEFT_LIBPMIX", "/nowhere/libpmix.so.2")];
        let mut by_prrte = Command::new(prrte);
        by_prrte.args(PRRTE_OPTIONS).args(["-n", "2"]).arg(&self.program).envs(no_library);
        let words = ["no PMIx library", "/nowhere/libpmix.so.2", "WEFT_LIBPMIX="];
        tally.note("PMIx without its library is told", self.refused(&mut by_prrte, &words));
        let mut alone = Command::new(prrte);
        alone.args(PRRTE_OPTIONS).args(["-n", "1"]).arg(&self.program).envs(no_library);
        let alone = job::succeed("one rank", &mut alone, LIMIT, &self.log).map(drop);
        tally.note("one rank under PMIx needs no library", alone);
        let mut wished = Command::new(&self.program);
        wished.env("WEFT_PROCESS_MANAGER", "pmi2");
        let words = ["WEFT_PROCESS_MANAGER=pmi2", "PMI_FD", "weft doctor"];
        tally.note("a manager that is not there is told", self.refused(&mut wished, &words));
        let task = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
        let words = ["task 1 of 4", "srun --mpi=pmi2"];
        let mut bare = Command::new(&self.program);
        tally.note("a Slurm step without PMI is told", self.refused(bare.envs(task), &words));
    }

    fn refused(&self, command: &mut Command, words: &[&str]) -> Result<(), String> {
        let finished = self.run(command)?;
        finished.must_say(words)?;
        if finished.succeeded() { Err(format!("it started: {}", finished.account())) } else { Ok(()) }
    }

    fn run(&self, command: &mut Command) -> Result<Finished, String> {
        job::run(command, LIMIT, &self.log)
    }
}

/// Tests run as root, on machines with few cores.
pub(crate) const PRRTE_OPTIONS: [&str; 2] = ["--allow-run-as-root", "--oversubscribe"];
/// The signal of who writes to nobody.
const SIGPIPE: i32 = 13;
const LIMIT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(folder: &Path) -> LauncherSetup {
        LauncherSetup { program: PathBuf::from("sh"), log: folder.join("log") }
    }

    #[test]
    fn a_refusal_says_all_words_and_fails() {
        let folder = tempfile::tempdir().unwrap();
        let judged = |script: &str| {
            setup(folder.path()).refused(Command::new("sh").args(["-c", script]), &["no library", "do this"])
        };
        assert!(judged("echo no library; echo do this; exit 1").is_ok());
        assert!(judged("echo no library; exit 1").unwrap_err().contains("\"do this\" was not said"));
        assert!(judged("echo no library; echo do this").unwrap_err().contains("it started"));
    }

    #[test]
    fn a_job_that_ends_otherwise_than_it_should_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let launcher = TestedLauncher {
            name: "sh",
            program: PathBuf::from("sh"),
            options: &["-c", "exit 7"],
            protocol: None,
            status_when_killed: 9,
            status_when_early: 3,
            sees_early: true,
        };
        let mut tally = Tally::default();
        setup(folder.path()).ends(&mut tally, &launcher);
        assert_eq!(
            tally,
            Tally { passed: 2, failed: 3 },
            "no word of MPI_Abort, and status 7 for a rank that was killed; any status will do for two others"
        );
    }
}
