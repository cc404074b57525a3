//! The machine: which cpus this process may use, which of them share a core, and how much of them a cgroup
//! grants; and the tree of packages, NUMA nodes, caches and cores ([`Machine`]), of this host or as
//! described.
//!
//! For the mapping of ranks to places each node tells how its ranks lie in the parts of its machine
//! ([`NodeShape`]), and everybody makes the same [`Placement`] of that. Grids, graphs and the mapping of
//! their cells to these places ([`map`], [`map_graph`], [`dims_create`]) are pure functions of numbers: no
//! clock, no message, no randomness.
//!
//! Everything that is read from files is read below a root folder that a test can choose ([`Host::at`]);
//! nothing is trusted to be there or to make sense. What cannot be read counts as absent: no siblings, no
//! quota.
#![forbid(unsafe_code)]

mod affinity;
mod cgroup;
mod cores;
mod cpu_set;
mod dims;
mod graph;
mod grid;
mod load;
mod machine;
mod mapping;
mod place;
mod placement;
mod seat;
mod shape;
mod stencil;
mod switches;

use std::path::PathBuf;

pub use affinity::{AffinityError, bind_current_thread, cpus_allowed};
pub use cores::Core;
pub use cpu_set::{CpuSet, NotACpuList};
pub use dims::{NoDims, dims_create};
pub use graph::{Adjacent, Graph, NotAGraph, Weights};
pub use grid::{Grid, NotAGrid};
pub use machine::{Kind, Machine, NotAMachine, NotOnMachine, Object, Part, TooMuch, Undescribed, Unseen};
pub use mapping::{Algorithm, Mapping, Misfit, NoChoice, Score, choose_grid, level_weight, map, map_graph};
pub use place::Level;
pub use placement::{MachineLevel, NotAPlacement, Placement, Run, Sizes};
pub use seat::Seat;
pub use shape::{NodeShape, NotAShape};
pub use stencil::{NotAStencil, Offset, Stencil, WEIGHT_MAX};
pub use switches::{NotASwitchPath, NotSwitches, SwitchPath, Switches};

/// A machine, seen through its `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine that this process runs on.
    #[must_use]
    pub fn here() -> Host {
        Host::at("/")
    }

    /// A machine whose `proc` and `sys` stand below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Host {
        Host { root: root.into() }
    }

    /// The cpus that a process can really use whose affinity mask is `allowed`: within the quota of its
    /// cgroups.
    #[must_use]
    pub fn cpus(&self, allowed: CpuSet) -> Cpus {
        let quota = self.cgroup_cpus();
        let count = allowed.len() as f64;
        Cpus { effective: quota.map_or(count, |quota| quota.min(count)), allowed, quota }
    }
}

/// The cpus that this process may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpus {
    /// The cpus of the process's affinity mask.
    pub allowed: CpuSet,
    /// How many cpus' worth of time its cgroups grant, to all processes in them together; `None` without a
    /// limit.
    pub quota: Option<f64>,
    /// The lesser of the number of allowed cpus and the quota. With more threads than that, a spinning thread
    /// takes time from the thread that it waits for.
    pub effective: f64,
}

/// The cpus that this process may use, by affinity mask and cgroup quota.
///
/// # Errors
/// When the affinity mask cannot be read.
pub fn cpus() -> Result<Cpus, AffinityError> {
    Ok(Host::here().cpus(cpus_allowed()?))
}

/// The cores behind some cpus of this machine. See [`Host::cores`].
#[must_use]
pub fn cores(cpus: &CpuSet) -> Vec<Core> {
    Host::here().cores(cpus)
}

/// How many cpus' worth of time the cgroups of this process grant. See [`Host::cgroup_cpus`].
#[must_use]
pub fn cgroup_cpus() -> Option<f64> {
    Host::here().cgroup_cpus()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_cpu_to_use() {
        let cpus = cpus().expect("the mask of this process");
        assert!(!cpus.allowed.is_empty());
        assert!(0.0 < cpus.effective && cpus.effective <= cpus.allowed.len() as f64, "{cpus:?}");
        let in_cores: usize = cores(&cpus.allowed).iter().map(|core| core.cpus.len()).sum();
        assert_eq!(in_cores, cpus.allowed.len());
    }

    #[test]
    fn effective_is_the_lesser_of_mask_and_quota() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("a file");
        };
        let host = Host::at(root.path());
        let four: CpuSet = (0..4).collect();
        assert_eq!((host.cpus(four.clone()).quota, host.cpus(four.clone()).effective), (None, 4.0));
        write("proc/self/cgroup", "0::/job\n");
        write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
        assert_eq!(host.cpus(four).effective, 1.5);
        assert_eq!(host.cpus(CpuSet::from_iter([7])).effective, 1.0);
    }
}
