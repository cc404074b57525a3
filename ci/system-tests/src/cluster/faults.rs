//! What goes wrong in a job under Slurm and Hydra: it ends soon, with words that tell what happened and
//! where, or goes on without those it has lost.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::nodes::Cluster;
use super::rows::{BY_LIBFABRIC, LIBFABRIC};
use super::{ClusterSetup, LIMIT};
use crate::job::{self, Ending};
use crate::survivors;
use crate::tally::Tally;

impl ClusterSetup {
    /// Tests that an error ends the job soon, with words that tell what happened and where.
    pub fn faults(&self, cluster: &Cluster, tally: &mut Tally) {
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
        let cut = cluster.part();
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
        cluster.join();
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
        let result = survivors::go_on_alone(&mut command, 4, || cluster.part_both(), &log);
        cluster.join();
        note(tally, "a node is cut off and the others go on, WEFT_NODE_TIMEOUT=3", result);
    }

    /// Tests ranks that let the others wait: by themselves, below a shell that does more than start them, and
    /// with a shell that goes away. No such rank is taken for one that has ended.
    pub fn late_ranks(&self, tally: &mut Tally) {
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

    /// A job that has to end badly, within ten seconds, with these words; `status` where the launcher can
    /// keep one.
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

/// What a job with a fault may take, with starting it and with a timeout of two seconds in it, on a busy
/// machine.
const FAULT_LIMIT: Duration = Duration::from_secs(10);
