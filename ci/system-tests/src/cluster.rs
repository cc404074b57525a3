//! weft under the launchers that clusters have, on the virtual nodes of `ci/slurm`: every row of the table in
//! `docs/clusters.md` is a launcher, a number of nodes and a way between the ranks, and is run here.
//!
//! Where this machine can make no nodes, the rows that need them are named as left out, with the reason.
//!
//! | part | what it knows |
//! |---|---|
//! | `rows` | the rows: data |
//! | `page` | the table made of them |
//! | `nodes` | the virtual nodes |
//! | `faults` | jobs that must end badly, and jobs that must go on |

mod faults;
mod nodes;
mod page;
mod rows;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nodes::Cluster;
use rows::{ALL, ClusterRow, FAULTY, LIBFABRIC, Launcher, ROWS};

use crate::hidden;
use crate::job::{self, Finished};
use crate::launchers::PRRTE_OPTIONS;
use crate::tally::Tally;
use crate::venv;

/// Runs all rows and all faults with the weft in `prefix`; with `write_docs` the table goes to
/// `docs/clusters.md`, which otherwise has to hold it already.
///
/// # Errors
/// When there is no folder for programs, or a launcher cannot be had.
pub fn run(root: &Path, prefix: &Path, write_docs: bool) -> Result<Tally, String> {
    let folder = root.join("target/cluster");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let setup = ClusterSetup {
        slurm: root.join("ci/slurm"),
        prefix: prefix.to_path_buf(),
        hydra: venv::install(&root.join("target/peers"), &venv::MPICH)?.join("bin/mpiexec"),
        prrte: venv::install(&root.join("target/peers"), &venv::OPEN_MPI)?.join("bin/mpiexec"),
        folder,
    };
    let mut tally = Tally::default();
    setup.compile(root)?;
    let cluster = Cluster::up(&setup)?;
    for row in ROWS.iter().filter(|row| row.nodes <= 1 && row.launcher != Launcher::Srun) {
        setup.run_row(row, Path::new(""), &mut tally);
    }
    match &cluster {
        Err(reason) => println!("LEFT OUT  everything on several nodes: {reason}"),
        Ok(cluster) => {
            let no_libfabric = setup.no_libfabric();
            for row in ROWS.iter().filter(|row| 1 < row.nodes || row.launcher == Launcher::Srun) {
                match &no_libfabric {
                    Some(reason) if row.way == LIBFABRIC => {
                        println!("LEFT OUT  {} ({}): {reason}", row.command(), row.way);
                    }
                    _ => setup.run_row(row, &cluster.ssh, &mut tally),
                }
            }
            setup.late_ranks(&mut tally);
            setup.faults(cluster, &mut tally);
        }
    }
    if tally.failed == 0 && cluster.is_ok() {
        tally.note("the table in docs/clusters.md", page::told(&root.join("docs/clusters.md"), write_docs));
    }
    Ok(tally)
}

struct ClusterSetup {
    slurm: PathBuf,
    prefix: PathBuf,
    hydra: PathBuf,
    prrte: PathBuf,
    folder: PathBuf,
}

impl ClusterSetup {
    fn compile(&self, root: &Path) -> Result<(), String> {
        for program in ALL.iter().chain(FAULTY) {
            let source = root.join(format!("bench/{program}.c"));
            job::compile(&self.prefix.join("bin/mpicc"), &[], &[source], &self.program(program), LIMIT)?;
        }
        Ok(())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name.replace('/', "-"))
    }

    fn run_row(&self, row: &ClusterRow, ssh: &Path, tally: &mut Tally) {
        for program in row.programs {
            let mut command = self.launch(row, ssh);
            command.arg(self.program(program));
            let finished = job::run(&mut command, LIMIT, &self.folder.join("run.log"));
            let result = finished.and_then(|finished| good(program, row.ranks, &finished));
            tally.note(&format!("{program}, {} ({})", row.command(), row.way), result);
        }
        if let Some(lanes) = row.lanes() {
            let mut command = self.launch(row, ssh);
            command.arg(self.prefix.join("bin/weft")).args(["explain", "lanes"]);
            let finished = job::succeed("weft", &mut command, LIMIT, &self.folder.join("lanes.log"));
            let result = finished.and_then(|finished| joined(&finished, &lanes));
            tally.note(&format!("which way messages go, {} ({})", row.command(), row.way), result);
        }
    }

    /// Why there is nothing to run over libfabric.
    fn no_libfabric(&self) -> Option<String> {
        hidden::absent(&self.prefix.join("bin"), "libfabric:tcp;ofi_rxm", &self.program("examples/hello"))
    }

    /// The launcher with its options, up to the program.
    fn launch(&self, row: &ClusterRow, ssh: &Path) -> Command {
        let mut command = match row.launcher {
            Launcher::Alone => Command::new("env"),
            Launcher::Weftrun => Command::new(self.prefix.join("bin/weftrun")),
            Launcher::Hydra => Command::new(&self.hydra),
            Launcher::Prrte => Command::new(&self.prrte),
            Launcher::HydraInAllocation => {
                let mut command = self.slurm("salloc");
                command.args(["--quiet", "-N2", "-n4"]).arg(&self.hydra);
                command
            }
            Launcher::WeftrunInAllocation => {
                let mut command = self.slurm("salloc");
                command.args(["--quiet", "-N2", "-n4"]).arg(self.prefix.join("bin/weftrun"));
                command
            }
            Launcher::Srun => self.slurm("srun"),
        };
        if row.launcher == Launcher::Hydra && 1 < row.nodes {
            command.args(["-launcher", "ssh", "-launcher-exec"]).arg(ssh).args(["-iface", "weftbr0"]);
        }
        if row.launcher == Launcher::Prrte {
            command.args(PRRTE_OPTIONS);
        }
        if row.launcher == Launcher::Prrte && 1 < row.nodes {
            command.args(["--map-by", "ppr:2:node", "--mca", "plm_ssh_agent"]).arg(ssh);
        }
        command.args(row.options).envs(row.variables.iter().copied());
        command
    }

    fn slurm(&self, program: &str) -> Command {
        let mut command = Command::new(&self.slurm);
        command.args(["run", program]);
        command
    }
}

/// Whether a program came to its end at all ranks: a test says so once, hello says so at each.
fn good(program: &str, ranks: u32, finished: &Finished) -> Result<(), String> {
    let lines = |matches: &dyn Fn(&str) -> bool| finished.output.lines().filter(|line| matches(line)).count();
    let right = match program {
        "examples/hello" => {
            (0..ranks).all(|rank| lines(&|line| line.contains(&format!("rank {rank} of {ranks} on "))) == 1)
        }
        _ if program.starts_with("tests/") => lines(&|line| line == "ok") == 1,
        _ => true,
    };
    if finished.succeeded() && right { Ok(()) } else { Err(finished.account()) }
}

/// That these pairs and no others are joined by each fabric. Pairs of one fabric may be told in several lots,
/// as what a node measures at its start decides what is sent at once there.
fn joined(finished: &Finished, lanes: &[(&str, &str)]) -> Result<(), String> {
    for (fabric, expected) in lanes {
        let lots =
            finished.output.lines().filter_map(|line| line.strip_prefix(fabric)?.strip_prefix(": rank "));
        if lots.flat_map(pairs).collect::<BTreeSet<_>>() != pairs(expected).collect() {
            return Err(format!(
                "\"{fabric}: rank {expected}\" is not what was said: {}",
                finished.account()
            ));
        }
    }
    Ok(())
}

/// Sender and receiver of each pair in `0 to 1, 2; 3 to 1`.
fn pairs(listed: &str) -> impl Iterator<Item = (&str, &str)> {
    let senders = listed.split("; ").filter_map(|sender| sender.split_once(" to "));
    senders.flat_map(|(from, to)| to.split(", ").map(move |to| (from, to)))
}

/// Above the watchdogs of the programs.
const LIMIT: Duration = Duration::from_secs(240);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Ending;

    fn finished(ending: Ending, output: &str) -> Finished {
        Finished { ending, output: output.into(), time: Duration::ZERO }
    }

    #[test]
    fn a_job_of_singletons_is_not_good() {
        let right =
            finished(Ending::Exited(0), "hello from rank 1 of 2 on n1\nhello from rank 0 of 2 on n1\n");
        assert!(good("examples/hello", 2, &right).is_ok());
        let alone =
            finished(Ending::Exited(0), "hello from rank 0 of 1 on n1\nhello from rank 0 of 1 on n1\n");
        assert!(good("examples/hello", 2, &alone).is_err());
        assert!(good("tests/matching", 2, &finished(Ending::Exited(0), "ok\n")).is_ok());
        assert!(good("tests/matching", 2, &finished(Ending::Exited(0), "ok\nok\n")).is_err());
        assert!(good("tests/matching", 2, &finished(Ending::Exited(1), "ok\n")).is_err());
    }

    #[test]
    fn lanes_may_be_told_in_lots() {
        let lanes = [("shm", "0 to 1; 1 to 0; 2 to 3; 3 to 2"), ("tcp", "0 to 2, 3")];
        let told = |text: &str| joined(&finished(Ending::Exited(0), text), &lanes);
        assert!(told("shm: rank 0 to 1; 1 to 0; 2 to 3; 3 to 2\n  over\ntcp: rank 0 to 2, 3\n").is_ok());
        assert!(
            told("tcp: rank 0 to 2, 3\nshm: rank 0 to 1; 1 to 0\n  over\nshm: rank 2 to 3; 3 to 2\n").is_ok()
        );
        assert!(told("shm: rank 0 to 1; 1 to 0\ntcp: rank 0 to 2, 3\n").is_err());
        assert!(told("shm: rank 0 to 1, 2; 1 to 0; 2 to 3; 3 to 2\ntcp: rank 0 to 2, 3\n").is_err());
        assert!(told("shm: all pairs\n").is_err());
    }
}
