//! Where on the machine a process sits: the smallest parts of it that hold all the cpus it may run on.
//!
//! The kernel's files tell enough to bind ranks and to split communicators, before and without the tree of
//! the machine; [`crate::Machine::seat`] tells the same by the tree, for the mapping.

use std::fs;

use crate::{CpuSet, Host};

/// A kind of part of a node, from large to small.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// A package: the cpus of one socket.
    Package,
    /// Cpus that are as near to the same memory.
    NumaNode,
    /// Cpus that share a cache of the third level.
    L3Cache,
    /// Cpus that share a cache of the second level.
    L2Cache,
    /// Cpus that share execution units.
    Core,
    /// One cpu, as the kernel counts them.
    Cpu,
}

impl Level {
    /// All kinds, from large to small.
    pub const ALL: [Level; 6] =
        [Level::Package, Level::NumaNode, Level::L3Cache, Level::L2Cache, Level::Core, Level::Cpu];

    /// hwloc's name for this kind of part.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Package => "Package",
            Level::NumaNode => "NUMANode",
            Level::L3Cache => "L3Cache",
            Level::L2Cache => "L2Cache",
            Level::Core => "Core",
            Level::Cpu => "PU",
        }
    }

    /// The kind that hwloc calls so, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

impl Host {
    /// The part of that kind that holds all of `cpus`, as a number that no other part of the kind on this
    /// machine has. `None` where they lie in several parts, or where the kernel does not say.
    #[must_use]
    pub fn place(&self, level: Level, cpus: &CpuSet) -> Option<usize> {
        let first = cpus.iter().next()?;
        let part = self.part(level, first)?;
        cpus.iter().all(|cpu| part.contains(cpu)).then(|| part.iter().next()).flatten()
    }

    /// The parts of that kind that these cpus lie in, each once; none where the kernel does not say it of all
    /// of them.
    #[must_use]
    pub fn parts(&self, level: Level, cpus: &CpuSet) -> Vec<CpuSet> {
        let mut parts: Vec<CpuSet> = Vec::new();
        for cpu in cpus.iter() {
            if parts.iter().any(|part| part.contains(cpu)) {
                continue;
            }
            match self.part(level, cpu) {
                Some(part) => parts.push(part),
                None => return Vec::new(),
            }
        }
        parts
    }

    /// The cpus of the part of that kind that `cpu` lies in.
    fn part(&self, level: Level, cpu: usize) -> Option<CpuSet> {
        let folder = self.root.join(format!("sys/devices/system/cpu/cpu{cpu}"));
        let list =
            |path: &str| -> Option<CpuSet> { fs::read_to_string(folder.join(path)).ok()?.parse().ok() };
        let either = |names: [&str; 2]| names.into_iter().find_map(list);
        let part = match level {
            Level::Cpu => Some(CpuSet::from_iter([cpu])),
            Level::Core => either(["topology/core_cpus_list", "topology/thread_siblings_list"]),
            Level::Package => either(["topology/package_cpus_list", "topology/core_siblings_list"]),
            Level::L3Cache => self.cache(cpu, "3"),
            Level::L2Cache => self.cache(cpu, "2"),
            Level::NumaNode => self.numa_node(cpu),
        };
        part.filter(|part| part.contains(cpu))
    }

    fn cache(&self, cpu: usize, level: &str) -> Option<CpuSet> {
        let caches = self.root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache"));
        fs::read_dir(caches).ok()?.flatten().find_map(|cache| {
            let read = |name: &str| fs::read_to_string(cache.path().join(name)).ok();
            (read("level")?.trim() == level).then(|| read("shared_cpu_list")?.parse().ok())?
        })
    }

    fn numa_node(&self, cpu: usize) -> Option<CpuSet> {
        fs::read_dir(self.root.join("sys/devices/system/node")).ok()?.flatten().find_map(|node| {
            let cpus: CpuSet = fs::read_to_string(node.path().join("cpulist")).ok()?.parse().ok()?;
            cpus.contains(cpu).then_some(cpus)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of two cores with two hardware threads each.
    fn host() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: String, text: &str| {
            let path = root.path().join("sys/devices/system").join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, text).expect("a file");
        };
        for cpu in 0..8 {
            let package = if cpu < 4 { "0-3\n" } else { "4-7\n" };
            let core = format!("{}-{}\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
            write(format!("cpu/cpu{cpu}/topology/package_cpus_list"), package);
            write(format!("cpu/cpu{cpu}/topology/thread_siblings_list"), &core);
            write(format!("cpu/cpu{cpu}/cache/index0/level"), "1\n");
            write(format!("cpu/cpu{cpu}/cache/index2/level"), "2\n");
            write(format!("cpu/cpu{cpu}/cache/index2/shared_cpu_list"), &core);
        }
        write("node/node0/cpulist".to_owned(), "0-3\n");
        write("node/node1/cpulist".to_owned(), "4-7\n");
        let host = Host::at(root.path());
        (root, host)
    }

    #[test]
    fn a_place_holds_all_cpus_or_is_none() {
        let (_root, host) = host();
        let place = |level, cpus: &[usize]| host.place(level, &cpus.iter().copied().collect());
        assert_eq!(place(Level::Package, &[1, 3]), Some(0));
        assert_eq!(place(Level::Package, &[5]), Some(4));
        assert_eq!(place(Level::Package, &[3, 4]), None);
        assert_eq!((place(Level::Core, &[2, 3]), place(Level::Core, &[1, 2])), (Some(2), None));
        assert_eq!(place(Level::NumaNode, &[4, 5, 6, 7]), Some(4));
        assert_eq!((place(Level::L2Cache, &[7]), place(Level::L3Cache, &[7])), (Some(6), None));
        assert_eq!(
            (place(Level::Cpu, &[7]), place(Level::Cpu, &[6, 7]), place(Level::Cpu, &[])),
            (Some(7), None, None)
        );
    }

    #[test]
    fn parts_are_told_once_each_or_not_at_all() {
        let (_root, host) = host();
        let parts = |level, cpus: &[usize]| host.parts(level, &cpus.iter().copied().collect());
        let sets = |lists: &[&str]| lists.iter().map(|list| list.parse().unwrap()).collect::<Vec<CpuSet>>();
        assert_eq!(parts(Level::Package, &[1, 2, 6]), sets(&["0-3", "4-7"]));
        assert_eq!(parts(Level::L2Cache, &[7, 0, 1]), sets(&["0-1", "6-7"]));
        assert_eq!((parts(Level::L3Cache, &[0]), parts(Level::NumaNode, &[0, 9])), (Vec::new(), Vec::new()));
    }

    #[test]
    fn levels_are_named_as_hwloc_names_them() {
        for level in Level::ALL {
            assert_eq!(Level::named(level.name()), Some(level));
        }
        assert_eq!((Level::named("numanode"), Level::named("Machine")), (Some(Level::NumaNode), None));
    }
}
