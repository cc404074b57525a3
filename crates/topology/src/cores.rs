//! Which cpus are one core: hardware threads share its execution units, so two busy ranks belong on two
//! cores.

use std::fs;

use crate::{CpuSet, Host};

/// A core, by those of its cpus that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// At least one cpu.
    pub cpus: CpuSet,
}

impl Host {
    /// The cores behind `cpus`, ordered by their first cpu. Each cpu is in exactly one of them; one whose
    /// siblings cannot be read is a core by itself.
    #[must_use]
    pub fn cores(&self, cpus: &CpuSet) -> Vec<Core> {
        let mut placed = CpuSet::new();
        let mut cores = Vec::new();
        for cpu in cpus.iter() {
            if placed.contains(cpu) {
                continue;
            }
            let siblings = self.siblings(cpu).intersection(cpus);
            let core: CpuSet = siblings.iter().filter(|&cpu| !placed.contains(cpu)).chain([cpu]).collect();
            core.iter().for_each(|cpu| placed.insert(cpu));
            cores.push(Core { cpus: core });
        }
        cores
    }

    /// The cpus of the core that `cpu` belongs to, as far as the kernel says.
    fn siblings(&self, cpu: usize) -> CpuSet {
        let folder = self.root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
        let list = |name: &str| fs::read_to_string(folder.join(name)).ok()?.parse().ok();
        SIBLING_FILES.into_iter().find_map(list).unwrap_or_default()
    }
}

/// The name of today, and the one of kernels before 5.2.
const SIBLING_FILES: [&str; 2] = ["core_cpus_list", "thread_siblings_list"];

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose files of siblings say this.
    fn host(files: &[(usize, &str, &str)]) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().expect("a folder");
        for (cpu, name, text) in files {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&folder).expect("folders");
            fs::write(folder.join(name), text).expect("a file");
        }
        let host = Host::at(root.path());
        (root, host)
    }

    fn lists(cores: &[Core]) -> Vec<String> {
        cores.iter().map(|core| core.cpus.to_string()).collect()
    }

    fn set(list: &str) -> CpuSet {
        list.parse().expect("a list")
    }

    #[test]
    fn siblings_are_one_core_by_either_file() {
        let (_root, host) = host(&[
            (0, "core_cpus_list", "0,4\n"),
            (4, "core_cpus_list", "0,4\n"),
            (1, "thread_siblings_list", "1,5\n"),
            (5, "thread_siblings_list", "1,5\n"),
        ]);
        assert_eq!(lists(&host.cores(&set("0-1,4-5"))), ["0,4", "1,5"]);
        assert_eq!(lists(&host.cores(&set("1,4-5"))), ["1,5", "4"], "only what was asked for");
        assert_eq!(host.cores(&CpuSet::new()), []);
    }

    #[test]
    fn cpus_without_readable_siblings_stand_alone() {
        let (_root, host) = host(&[(2, "core_cpus_list", "all of them"), (3, "core_cpus_list", "")]);
        assert_eq!(lists(&host.cores(&set("0-3"))), ["0", "1", "2", "3"]);
    }

    #[test]
    fn files_that_contradict_each_other_place_each_cpu_once() {
        let (_root, host) = host(&[
            (0, "core_cpus_list", "0-1"),
            (1, "core_cpus_list", "1-2"),
            (2, "core_cpus_list", "1-2"),
            (3, "core_cpus_list", "0-2"),
        ]);
        assert_eq!(lists(&host.cores(&set("0-3"))), ["0-1", "2", "3"]);
    }
}
