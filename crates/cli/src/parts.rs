//! What the parts of a machine are for the choice of collective algorithms.

use topology::{CpuSet, Host, Level, Machine};
use weft::collectives::HierarchyLevel;

/// On which part of that kind of a described machine the process of that number on its node sits.
pub fn described(machine: &Machine, border: HierarchyLevel, process: u32) -> Option<u32> {
    let level = levels(border).iter().find(|level| machine.count(**level) > 0)?;
    machine.seat_in_turn(process).part(*level)
}

/// What lies between two cpus of a host; nothing where they share all that the kernel tells of.
fn border(host: &Host, one: usize, other: usize) -> Option<HierarchyLevel> {
    let both = CpuSet::from_iter([one, other]);
    let are_apart = |border: &HierarchyLevel| {
        let mut kinds = levels(*border).iter().map(|level| host.parts(*level, &both));
        kinds.find(|parts| !parts.is_empty()).is_some_and(|parts| parts.len() > 1)
    };
    HierarchyLevel::ALL.into_iter().find(are_apart)
}

/// A cpu of the first core, and behind it one of the first core that is each kind of border away from it,
/// from near to far.
pub fn cores_apart(host: &Host, allowed: &CpuSet) -> Vec<(Option<HierarchyLevel>, usize)> {
    let cores = host.cores(allowed);
    let mut cpus = cores.iter().filter_map(|core| core.cpus.iter().next());
    let Some(first) = cpus.next() else { return Vec::new() };
    let mut found: Vec<(Option<HierarchyLevel>, usize)> = Vec::new();
    for cpu in cpus {
        let border = border(host, first, cpu);
        if found.iter().all(|(known, _)| *known != border) {
            found.push((border, cpu));
        }
    }
    found.sort();
    [(None, first)].into_iter().chain(found).collect()
}

/// The kinds of parts of a machine that a hierarchy level stands for, in order of preference: the first kind
/// that the machine has counts.
pub fn levels(border: HierarchyLevel) -> &'static [Level] {
    match border {
        HierarchyLevel::Node => &[],
        HierarchyLevel::Package => &[Level::Package],
        HierarchyLevel::Numa => &[Level::NumaNode],
        HierarchyLevel::Cache => &[Level::L3Cache, Level::L2Cache],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_of_each_kind_is_found() {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..16 {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}"));
            let write = |path: &str, each: usize| {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let first = cpu / each * each;
                std::fs::write(path, format!("{first}-{}\n", first + each - 1)).unwrap();
            };
            write("topology/core_cpus_list", 2);
            write("topology/package_cpus_list", 8);
            write("cache/index3/shared_cpu_list", 4);
            std::fs::write(folder.join("cache/index3/level"), "3\n").unwrap();
        }
        let host = Host::at(root.path());
        let apart = |cpus: &[usize]| cores_apart(&host, &cpus.iter().copied().collect());
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(
            apart(&all),
            [(None, 0), (None, 2), (Some(HierarchyLevel::Cache), 4), (Some(HierarchyLevel::Package), 8)]
        );
        assert_eq!(apart(&[1, 9, 15]), [(None, 1), (Some(HierarchyLevel::Package), 9)]);
        assert_eq!((apart(&[0, 1]), apart(&[])), (vec![(None, 0)], vec![]));
    }
}
