//! The rows of the table in `docs/clusters.md`: a launcher, a number of nodes and a way between the ranks
//! each.

/// One line of the table.
pub struct ClusterRow {
    pub launcher: Launcher,
    /// Words between the launcher and the program, as a user writes them.
    pub options: &'static [&'static str],
    /// Environment variables to set.
    pub variables: &'static [(&'static str, &'static str)],
    pub nodes: u32,
    pub ranks: u32,
    /// How messages go, for the reader of the table.
    pub way: &'static str,
    pub programs: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    Alone,
    Weftrun,
    Hydra,
    HydraInAllocation,
    WeftrunInAllocation,
    Prrte,
    Srun,
}

pub const ROWS: &[ClusterRow] = &[
    ClusterRow {
        launcher: Launcher::Alone,
        options: &[],
        variables: &[],
        nodes: 1,
        ranks: 1,
        way: "-",
        programs: FEW,
    },
    ClusterRow { way: SHM, ..here(Launcher::Weftrun, &["-n", "4"]) },
    ClusterRow { way: TCP, variables: &[("WEFT_FABRIC", "tcp")], ..here(Launcher::Weftrun, &["-n", "4"]) },
    ClusterRow { way: SHM, ..here(Launcher::Hydra, &["-n", "4"]) },
    ClusterRow { way: TCP, variables: &[("WEFT_FABRIC", "tcp")], ..here(Launcher::Hydra, &["-n", "4"]) },
    ClusterRow { way: SHM, ..here(Launcher::Hydra, &["-pmi-port", "-n", "4"]) },
    ClusterRow {
        way: MIXED,
        programs: ALL,
        ..far(Launcher::Hydra, 3, 6, &["-hosts", "n1,n2,n3", "-ppn", "2", "-n", "6"])
    },
    ClusterRow { way: MIXED, ..far(Launcher::HydraInAllocation, 2, 4, &["-n", "4"]) },
    ClusterRow {
        way: LIBFABRIC,
        variables: BY_LIBFABRIC,
        ..far(Launcher::Hydra, 2, 4, &["-hosts", "n1,n2", "-ppn", "2", "-n", "4"])
    },
    ClusterRow {
        way: LIBFABRIC,
        variables: BY_LIBFABRIC,
        programs: SOME,
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-N2", "-n4"])
    },
    ClusterRow { way: SHM, ..far(Launcher::Srun, 1, 4, &["--mpi=pmi2", "-N1", "-n4"]) },
    ClusterRow { way: MIXED, programs: ALL, ..far(Launcher::Srun, 4, 8, &["--mpi=pmi2", "-N4", "-n8"]) },
    ClusterRow {
        way: TCP,
        variables: &[("WEFT_FABRIC", "tcp"), ("WEFT_TCP_PORTS", "20000-20999")],
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-N2", "-n4"])
    },
    ClusterRow { way: MIXED, ..far(Launcher::WeftrunInAllocation, 2, 4, &["-n", "4"]) },
    ClusterRow { way: SHM, ..here(Launcher::Prrte, &["-n", "4"]) },
    ClusterRow { way: MIXED, ..far(Launcher::Prrte, 2, 4, &["--host", "n1:2,n2:2", "-n", "4"]) },
    ClusterRow {
        way: MIXED,
        variables: &[("WEFT_PROCESS_MANAGER", "pmi2")],
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-N2", "-n4"])
    },
    ClusterRow { way: MIXED, programs: ALL, ..far(Launcher::Srun, 4, 8, &["--mpi=pmix", "-N4", "-n8"]) },
    // Ranks dealt to the nodes one by one, and by a list that claims one node for each.
    ClusterRow { way: MIXED, ..far(Launcher::Srun, 3, 8, &["--mpi=pmi2", "-N3", "-n8", "-m", "cyclic"]) },
    ClusterRow {
        way: MIXED,
        ..far(Launcher::Srun, 2, 4, &["--mpi=pmi2", "-n4", "-m", "arbitrary", "-w", "n1,n2,n1,n2"])
    },
];

const fn here(launcher: Launcher, options: &'static [&'static str]) -> ClusterRow {
    ClusterRow { launcher, options, variables: &[], nodes: 1, ranks: 4, way: "", programs: FEW }
}

const fn far(launcher: Launcher, nodes: u32, ranks: u32, options: &'static [&'static str]) -> ClusterRow {
    ClusterRow { launcher, options, variables: &[], nodes, ranks, way: "", programs: FEW }
}

const SHM: &str = "shm";
const TCP: &str = "tcp";
const MIXED: &str = "shm on a node, tcp between";
pub const LIBFABRIC: &str = "shm on a node, libfabric's tcp;ofi_rxm between";
pub const BY_LIBFABRIC: &[(&str, &str)] = &[("WEFT_FABRIC", "shm,libfabric:tcp;ofi_rxm")];
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
pub const ALL: &[&str] = &[
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
pub const FAULTY: &[&str] = &["tests/abort", "launch/ends", "launch/survives"];

impl ClusterRow {
    /// The launcher's words as a user writes them.
    pub fn command(&self) -> String {
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

    /// The fabrics and the ranks that each of them joins, as `weft explain lanes` says it, with two ranks on
    /// each of two nodes. `None` where ranks are dealt out otherwise.
    pub fn lanes(&self) -> Option<[(&'static str, &'static str); 2]> {
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

    pub fn line(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_looked_at_where_ranks_are_dealt_out_two_by_two() {
        let looked = |way: &str| ROWS.iter().filter(|row| row.way == way && row.lanes().is_some()).count();
        assert_eq!((looked(LIBFABRIC), looked(MIXED), looked(SHM)), (2, 4, 0));
    }
}
