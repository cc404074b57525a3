//! weft under the launchers that clusters have, on the virtual nodes of `ci/slurm`: every row of the table in
//! `docs/clusters.md` is a launcher, a number of nodes and a way between the ranks, and is run here.
//!
//! Where this machine can make no nodes, the rows that need them are named as left out, with the reason.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::hidden;
use crate::job::{self, Ending, Finished};
use crate::launchers::PRRTE_OPTIONS;
use crate::survivors;
use crate::tally::Tally;
use crate::venv;

/// Runs all rows and all faults with the weft in `prefix`; with `write_docs` the table goes to `docs/clusters.md`, which
/// otherwise has to hold it already.
///
/// # Errors
/// When there is no place for programs, or a launcher cannot be had.
pub fn run(root: &Path, prefix: &Path, write_docs: bool) -> Result<Tally, String> {
    let folder = root.join("target/cluster");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let place = Place {
        slurm: root.join("ci/slurm"),
        prefix: prefix.to_path_buf(),
        hydra: venv::install(&root.join("target/peers"), &venv::MPICH)?.join("bin/mpiexec"),
        prrte: venv::install(&root.join("target/peers"), &venv::OPEN_MPI)?.join("bin/mpiexec"),
        folder,
    };
    let mut tally = Tally::default();
    place.compile(root)?;
    let cluster = Cluster::up(&place)?;
    for row in ROWS.iter().filter(|row| row.nodes <= 1 && row.launcher != Launcher::Srun) {
        place.run_row(row, Path::new(""), &mut tally);
    }
    match &cluster {
        Err(reason) => println!("LEFT OUT  everything on several nodes: {reason}"),
        Ok(cluster) => {
            let no_libfabric = place.no_libfabric();
            for row in ROWS.iter().filter(|row| 1 < row.nodes || row.launcher == Launcher::Srun) {
                match &no_libfabric {
                    Some(reason) if row.way == LIBFABRIC => {
                        println!("LEFT OUT  {} ({}): {reason}", row.command(), row.way);
                    }
                    _ => place.run_row(row, &cluster.ssh, &mut tally),
                }
            }
            place.late_ranks(&mut tally);
            place.faults(cluster, &mut tally);
        }
    }
    if tally.failed == 0 && cluster.is_ok() {
        tally.note("the table in docs/clusters.md", told(&root.join("docs/clusters.md"), write_docs));
    }
    Ok(tally)
}

/// One line of the table.
struct Row {
    launcher: Launcher,
    /// Words between the launcher and the program, as a user writes them.
    options: &'static [&'static str],
    /// What else is set.
    variables: &'static [(&'static str, &'static str)],
    nodes: u32,
    ranks: u32,
    /// How messages go, for the reader of the table.
    way: &'static str,
    programs: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Launcher {
    Alone,
    Weftrun,
    Hydra,
    HydraInAllocation,
    WeftrunInAllocation,
    Prrte,
    Srun,
}

const ROWS: &[Row] = &[
    Row {
        launcher: Launcher::Alone,
        options: &[],
        variables: &[],
        nodes: 1,
        ranks: 1,
        way: "-",
        programs: FEW,
    },
    Row { way: SHM, ..here(Launcher::Weftrun, &["-n", "4"]) },
    Row { way: TCP, variables: &[("WEFT_FABRIC", "tcp")], ..here(Launcher::Weftrun, &["-n", "4"]) },
    Row { way: SHM, ..here(Launcher::Hydra, &["-n", "4"]) },
    Row { way: TCP, variables: &[("WEFT_FABRIC", "tcp")], ..here(Launcher::Hydra, &["-n", "4"]) },
    Row { way: SHM, ..here(Launcher::Hydra, &["-pmi-port", "-n", "4"]) },
    Row {
        way: MIXED,
        programs: ALL,
        ..far(Launcher::Hydra, 3, 6, &["-hosts", "n1,n2,n3", "-ppn", "2", "-n", "6"])
    },
    Row { way: MIXED, ..far(Launcher::HydraInAllocation, 2, 4, &["-n", "4"]) },
    Row {
        way: LIBFABRIC,
        variables: BY_LIBFABRIC,
        ..far(Launcher::Hydra, 2, 4, &["-hosts", "n1,n2", "-ppn", "2", "-n", "4"])
    },
    Row {
        way: LIBFABRIC,
        variables: BY_LIBFABRIC,
        programs: SOME,
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-N2", "-n4"])
    },
    Row { way: SHM, ..far(Launcher::Srun, 1, 4, &["--mpi=pmi2", "-N1", "-n4"]) },
    Row { way: MIXED, programs: ALL, ..far(Launcher::Srun, 4, 8, &["--mpi=pmi2", "-N4", "-n8"]) },
    Row {
        way: TCP,
        variables: &[("WEFT_FABRIC", "tcp"), ("WEFT_TCP_PORTS", "20000-20999")],
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-N2", "-n4"])
    },
    Row { way: MIXED, ..far(Launcher::WeftrunInAllocation, 2, 4, &["-n", "4"]) },
    Row { way: SHM, ..here(Launcher::Prrte, &["-n", "4"]) },
    Row { way: MIXED, ..far(Launcher::Prrte, 2, 4, &["--host", "n1:2,n2:2", "-n", "4"]) },
    Row {
        way: MIXED,
        variables: &[("WEFT_PROCESS_MANAGER", "pmi2")],
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-N2", "-n4"])
    },
    Row { way: MIXED, programs: ALL, ..far(Launcher::Srun, 4, 8, &["--mpi=pmix", "-N4", "-n8"]) },
    // Ranks dealt to the nodes one by one, and by a list that claims one node for each.
    Row { way: MIXED, ..far(Launcher::Srun, 3, 8, &["--mpi=pmi2", "-N3", "-n8", "-m", "cyclic"]) },
    Row {
        way: MIXED,
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-n4", "-m", "arbitrary", "-w", "n1,n2,n1,n2"])
    },
];

const fn here(launcher: Launcher, options: &'static [&'static str]) -> Row {
    Row { launcher, options, variables: &[], nodes: 1, ranks: 4, way: "", programs: FEW }
}

const fn far(launcher: Launcher, nodes: u32, ranks: u32, options: &'static [&'static str]) -> Row {
    Row { launcher, options, variables: &[], nodes, ranks, way: "", programs: FEW }
}

const SHM: &str = "shm";
const TCP: &str = "tcp";
const MIXED: &str = "shm on a node, tcp between";
const LIBFABRIC: &str = "shm on a node, libfabric's tcp;ofi_rxm between";
const BY_LIBFABRIC: &[(&str, &str)] = &[("WEFT_FABRIC", "shm,libfabric:tcp;ofi_rxm")];
/// Programs that a row runs.
const FEW: &[&str] = &["examples/hello", "examples/halo", "tests/communicators"];
const SOME: &[&str] = &[
    "examples/hello",
    "examples/halo",
    "tests/point_to_point",
    "tests/communicators",
    "tests/collectives_data",
    "tests/collectives_reduce",
];
const ALL: &[&str] = &[
    "examples/hello",
    "examples/ring",
    "examples/pi",
    "examples/halo",
    "tests/point_to_point",
    "tests/matching",
    "tests/completion",
    "tests/communicators",
    "tests/comm_create",
    "tests/contexts",
    "tests/intercommunicators",
    "tests/collectives_data",
    "tests/collectives_reduce",
    "tests/grids",
    "tests/graphs",
    "tests/neighbours",
    "tests/sessions",
];
/// Programs of the faults.
const FAULTY: &[&str] = &["tests/abort", "launch/ends", "launch/survives"];

impl Row {
    /// The launcher's words as a user writes them.
    fn command(&self) -> String {
        let launcher = match self.launcher {
            Launcher::Alone => "(none)",
            Launcher::Weftrun => "weftrun",
            Launcher::Hydra | Launcher::Prrte => "mpiexec",
            Launcher::HydraInAllocation => "salloc -N2 -n4 mpiexec",
            Launcher::WeftrunInAllocation => "salloc -N2 -n4 weftrun",
            Launcher::Srun => "srun",
        };
        [&[launcher], self.options].concat().join(" ")
    }

    /// What joins which ranks, by name of the fabric as `weft explain lanes` says it, with two ranks on each of two nodes;
    /// nothing where ranks are dealt out otherwise.
    fn lanes(&self) -> Option<[(&'static str, &'static str); 2]> {
        let between = match self.way {
            LIBFABRIC => "libfabric",
            MIXED => "tcp",
            _ => return None,
        };
        let is_dealt_out_by_two = self.nodes == 2 && self.ranks == 4 && !self.options.contains(&"-m");
        is_dealt_out_by_two.then_some([
            ("shm", "0 to 1; 1 to 0; 2 to 3; 3 to 2"),
            (between, "0 to 2, 3; 1 to 2, 3; 2 to 0, 1; 3 to 0, 1"),
        ])
    }

    fn line(&self) -> String {
        let manager = match self.launcher {
            Launcher::Alone => "none",
            Launcher::Weftrun => "weftrun",
            Launcher::Hydra | Launcher::HydraInAllocation => "Hydra (MPICH)",
            Launcher::Prrte => "PRRTE (Open MPI)",
            Launcher::Srun | Launcher::WeftrunInAllocation => "Slurm",
        };
        let variables = self.variables.iter().map(|(name, value)| match value.contains(';') {
            true => format!("{name}='{value}' "),
            false => format!("{name}={value} "),
        });
        let variables: String = variables.collect();
        format!(
            "| {manager} | `{variables}{}` | {} | {} | {} | {} |",
            self.command(),
            self.nodes,
            self.ranks,
            self.way,
            self.programs.len()
        )
    }
}

struct Place {
    slurm: PathBuf,
    prefix: PathBuf,
    hydra: PathBuf,
    prrte: PathBuf,
    folder: PathBuf,
}

/// The cluster; it goes down with this value, unless it was up before.
struct Cluster {
    slurm: PathBuf,
    ssh: PathBuf,
    was_up: bool,
}

impl Cluster {
    /// The inner error is why there can be none here.
    fn up(place: &Place) -> Result<Result<Cluster, String>, String> {
        let log = place.folder.join("slurm.log");
        let asked = job::run(Command::new(&place.slurm).arg("is-up"), LIMIT, &log)?;
        let was_up = asked.succeeded();
        let made = job::run(Command::new(&place.slurm).arg("up"), LIMIT, &log)?;
        match made.ending {
            Ending::Exited(0) => {}
            Ending::Exited(77) => return Ok(Err(made.output.lines().last().unwrap_or_default().to_owned())),
            _ => return Err(format!("ci/slurm up: {}", made.account())),
        }
        let told = job::succeed("ci/slurm ssh", Command::new(&place.slurm).arg("ssh"), LIMIT, &log)?;
        let ssh = PathBuf::from(told.output.trim());
        Ok(Ok(Cluster { slurm: place.slurm.clone(), ssh, was_up }))
    }

    /// Runs a command on a node.
    fn on(&self, node: &str, words: &str) -> Result<(), String> {
        let output = Command::new(&self.slurm).args(["on", node, words]).output();
        let output = output.map_err(|error| format!("cannot start ci/slurm: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("{words} on {node}: {said}")) }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.was_up {
            // What is left over is found by the next `up`.
            let _ = Command::new(&self.slurm).arg("down").output();
        }
    }
}

impl Place {
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

    fn run_row(&self, row: &Row, ssh: &Path, tally: &mut Tally) {
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
    fn launch(&self, row: &Row, ssh: &Path) -> Command {
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

    /// What goes wrong ends the job soon, with words that tell what happened and where.
    fn faults(&self, cluster: &Cluster, tally: &mut Tally) {
        let abort = self.program("tests/abort");
        let ring = self.program("examples/ring");
        let srun = |options: &[&str], program: &Path| {
            let mut command = self.slurm("srun");
            command.args(options).arg(program);
            command
        };
        let hydra = |program: &Path| {
            let mut command = Command::new(&self.hydra);
            command.args(["-n", "4"]).arg(program);
            command
        };
        let pmi2 = ["--mpi=pmi2", "-N2", "-n4"];
        self.fault(
            tally,
            "MPI_Abort, srun",
            srun(&pmi2, &abort),
            None,
            &["MPI_Abort(MPI_COMM_WORLD, 7)", "rank"],
        );
        self.fault(
            tally,
            "MPI_Abort, mpiexec",
            hydra(&abort),
            Some(7),
            &["MPI_Abort(MPI_COMM_WORLD, 7)", "rank"],
        );
        self.lost_ranks(tally);
        self.survivors(tally);
        let without = srun(&["--mpi=none", "-N2", "-n4"], &ring);
        self.fault(tally, "srun --mpi=none", without, None, &["of 4", "srun --mpi=pmi2"]);
        let cut = part(cluster);
        let mut alone = srun(&["--mpi=pmi2", "-N2", "-n2"], &ring);
        alone.env("WEFT_CONNECT_TIMEOUT", "2");
        match cut {
            Err(error) => tally.note("hosts that do not reach each other", Err(error)),
            Ok(()) => {
                let words =
                    ["on n1", "on n2", "10.213.78.", "10.213.79.", "firewall", "WEFT_CONNECT_TIMEOUT"];
                self.fault(tally, "hosts that do not reach each other", alone, None, &words);
            }
        }
        join(cluster);
        self.silent_node(cluster, tally);
    }

    /// The others go on where a launcher lets them.
    fn survivors(&self, tally: &mut Tally) {
        let program = self.program("launch/survives");
        let launches: [(&str, &[&str]); 3] = [
            ("srun", &["--mpi=pmi2", "--kill-on-bad-exit=0", "-W0", "-N1", "-n4"]),
            ("srun", &["--mpi=pmi2", "--kill-on-bad-exit=0", "-W0", "-N2", "-n4"]),
            ("srun", &["--mpi=pmi2", "--kill-on-bad-exit=0", "-W0", "-N4", "-n8"]),
        ];
        for (launcher, options) in launches {
            for mode in ["blank", "shrink"] {
                let ranks = options.last().and_then(|word| word[2..].parse().ok()).unwrap_or_default();
                let mut command = self.slurm(launcher);
                command.args(options).arg(&program);
                let result = survivors::go_on(&mut command, ranks, mode, &self.folder.join("survives.log"));
                let name = format!("a rank is killed and the others go on, {launcher} {}", options.join(" "));
                note(tally, &format!("{name}, {mode}"), result);
            }
        }
    }

    /// A node from which nothing comes any more is taken for dead after the time that was set.
    fn silent_node(&self, cluster: &Cluster, tally: &mut Tally) {
        let mut command = self.slurm("srun");
        command.env("WEFT_NODE_TIMEOUT", "3").args([
            "--mpi=pmi2",
            "--kill-on-bad-exit=0",
            "-W0",
            "-N2",
            "-n4",
        ]);
        command.arg(self.program("launch/survives"));
        let log = self.folder.join("silent.log");
        let result = survivors::go_on_alone(&mut command, 4, || part_both(cluster), &log);
        join(cluster);
        note(tally, "a node is cut off and the others go on, WEFT_NODE_TIMEOUT=3", result);
    }

    /// Ranks that let the others wait: by themselves, below a shell that does more than start them, and with a shell
    /// that goes away. None is taken for one that has ended.
    fn late_ranks(&self, tally: &mut Tally) {
        let ends = self.program("launch/ends").display().to_string();
        for (how, script) in [
            ("", "exec \"$0\" late"),
            (", below a shell", "\"$0\" late; exit $?"),
            (", left behind by a shell", "\"$0\" late & [ $SLURM_PROCID != 1 ] || exit 0; wait $!"),
        ] {
            for manager in ["--mpi=pmi2", "--mpi=pmix"] {
                let mut command = self.slurm("srun");
                command.args([manager, "-N2", "-n4", "sh", "-c", script, &ends]);
                let finished = job::run(&mut command, LIMIT, &self.folder.join("late.log"));
                let result =
                    finished.and_then(|finished| finished.must_say(&["4 ranks, 2 on this node\nok\n"]));
                tally.note(&format!("a rank that comes late{how}, srun {manager}"), result);
            }
        }
    }

    /// A rank is killed, or leaves. Slurm lets the others run on, unless it is told not to.
    fn lost_ranks(&self, tally: &mut Tally) {
        let ends = self.program("launch/ends");
        let missed = &["lost process 1", "ended without MPI_Finalize", "on n"][..];
        let early = &["rank 1 has ended on n1", "before it was through MPI_Init", "must call MPI_Init"][..];
        let rows: [(&str, &[&str], &[&str]); 12] = [
            ("killed", &["--mpi=pmi2", "-N1", "-n4"], missed),
            ("leaves", &["--mpi=pmi2", "-N1", "-n4"], missed),
            ("killed", &["--mpi=pmi2", "-N2", "-n4"], &["process 1", "on n"]),
            ("killed", &["--mpi=pmix", "-N1", "-n4"], &[]),
            ("early", &["--mpi=pmi2", "-N1", "-n4"], early),
            ("early", &["--mpi=pmi2", "-N2", "-n4"], early),
            ("early", &["--mpi=pmix", "-N2", "-n4"], early),
            ("rung", &["--mpi=pmi2", "-N1", "-n4"], early),
            ("shot", &["--mpi=pmi2", "-N2", "-n4"], early),
            ("within", &["--mpi=pmi2", "-N1", "-n4"], early),
            ("within", &["--mpi=pmix", "-N1", "-n4"], &[]),
            // Nobody who could notice is left on its node.
            ("early", &["--mpi=pmi2", "--kill-on-bad-exit=1", "-N2", "-n2"], &[]),
        ];
        for (how, options, words) in rows {
            let mut command = self.slurm("srun");
            command.args(options).arg(&ends).arg(how);
            self.fault(tally, &format!("a rank, {how}, srun {}", options.join(" ")), command, None, words);
        }
        if self.no_libfabric().is_some() {
            return;
        }
        // One rank on each node, so that nothing but the network can tell.
        for how in ["killed", "leaves"] {
            let mut command = self.slurm("srun");
            command.envs(BY_LIBFABRIC.iter().copied()).args(["--mpi=pmi2", "-N2", "-n2"]).arg(&ends).arg(how);
            let name = format!("a rank, {how}, srun --mpi=pmi2 -N2 -n2, {LIBFABRIC}");
            self.fault(tally, &name, command, None, &["process 1", "on n"]);
        }
    }

    /// A job that has to end badly, within ten seconds, with these words; `status` where the launcher can keep one.
    fn fault(
        &self,
        tally: &mut Tally,
        name: &str,
        mut command: Command,
        status: Option<i32>,
        words: &[&str],
    ) {
        let start = Instant::now();
        let finished = job::run(&mut command, LIMIT, &self.folder.join("fault.log"));
        let took = start.elapsed();
        let result = finished.and_then(|finished| {
            let ended = match (finished.ending, status) {
                (Ending::Exited(is), Some(status)) => is == status,
                (Ending::Exited(is), None) => is != 0,
                _ => false,
            };
            match ended {
                false => Err(format!("status {status:?} was expected: {}", finished.account())),
                true if FAULT_LIMIT < took => Err(format!("took {took:?}: {}", finished.account())),
                true => finished.must_say(words),
            }
        });
        tally.note(&format!("fault: {name}"), result);
    }
}

/// Notes a result, with what was said of a good one.
fn note(tally: &mut Tally, name: &str, result: Result<String, String>) {
    match result {
        Ok(how) => tally.note(&format!("{name}: {how}"), Ok(())),
        Err(account) => tally.note(name, Err(account)),
    }
}

/// From now on nothing goes from the second node to the first.
fn part(cluster: &Cluster) -> Result<(), String> {
    on_ways(cluster, "n2", "add", FIRST_NODE)
}

/// Nor the other way.
fn part_both(cluster: &Cluster) -> Result<(), String> {
    part(cluster)?;
    on_ways(cluster, "n1", "add", SECOND_NODE)
}

/// The same undone. It fails where it was not done, which was told.
fn join(cluster: &Cluster) {
    let _ = on_ways(cluster, "n2", "delete", FIRST_NODE);
    let _ = on_ways(cluster, "n1", "delete", SECOND_NODE);
}

fn on_ways(cluster: &Cluster, node: &str, what: &str, addresses: [&str; 2]) -> Result<(), String> {
    let all = addresses.map(|address| cluster.on(node, &format!("ip route {what} blackhole {address}")));
    all.into_iter().collect()
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

/// That these pairs and no others are joined by each fabric. Pairs of one fabric may be told in several lots, as what a
/// node measures at its start decides what is sent at once there.
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

/// Whether the page holds the table, or writes it there.
fn told(page: &Path, write: bool) -> Result<(), String> {
    let text =
        fs::read_to_string(page).map_err(|error| format!("cannot read {}: {error}", page.display()))?;
    let (Some(start), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        return Err(format!("{} has no lines `{BEGIN}` and `{END}`", page.display()));
    };
    let new = format!("{}{BEGIN}\n{}{}", &text[..start], table(), &text[end..]);
    match (new == text, write) {
        (true, _) => Ok(()),
        (false, true) => {
            fs::write(page, new).map_err(|error| format!("cannot write {}: {error}", page.display()))
        }
        (false, false) => Err("is not what ran here: cargo system-tests cluster PREFIX --write-docs".into()),
    }
}

fn table() -> String {
    let mut table =
        "\n| launcher | command | nodes | ranks | messages go by | programs |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for row in ROWS {
        // Writing to a string does not fail.
        let _ = writeln!(table, "{}", row.line());
    }
    table.push('\n');
    table
}

const FIRST_NODE: [&str; 2] = ["10.213.78.1", "10.213.79.1"];
const SECOND_NODE: [&str; 2] = ["10.213.78.2", "10.213.79.2"];
const BEGIN: &str = "<!-- written by `cargo system-tests cluster`: begin -->";
const END: &str = "<!-- written by `cargo system-tests cluster`: end -->";
/// Above the watchdogs of the programs.
const LIMIT: Duration = Duration::from_secs(240);
/// What a job with a fault may take, with starting it and with a timeout of two seconds in it, on a busy machine.
const FAULT_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_committed_page_holds_the_table() {
        told(&crate::workspace_root().join("docs/clusters.md"), false).unwrap();
    }

    #[test]
    fn lanes_are_looked_at_where_ranks_are_dealt_out_two_by_two() {
        let looked = |way: &str| ROWS.iter().filter(|row| row.way == way && row.lanes().is_some()).count();
        assert_eq!((looked(LIBFABRIC), looked(MIXED), looked(SHM)), (2, 4, 0));
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

    #[test]
    fn the_page_holds_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        assert!(told(&page, false).is_err());
        told(&page, true).unwrap();
        told(&page, false).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert!(
            text.starts_with("before\n")
                && text.ends_with("after\n")
                && text.contains("srun --mpi=pmi2 -N4 -n8")
        );
    }
}
