//! Which network cards of this host are near to this process, by the machine tree.

use topology::{CpuSet, Machine};

use super::{Around, LibfabricSettings, are_cards_apart};
use crate::config::Config;
use crate::machine::MachineFrom;

/// What is asked of libfabric by the process of that number.
pub(super) fn settings(config: &Config, process: u32, peers: u32) -> LibfabricSettings {
    LibfabricSettings {
        library: config.libfabric.clone(),
        provider: config.libfabric_provider.clone(),
        peers,
        domains: config.libfabric_domains.clone(),
        rails: config.libfabric_rails,
        packet_bytes: config.libfabric_packet_bytes,
        around: around(config, process),
        strict_memory: false,
    }
}

/// Where this process is among the cards. The machine is looked at only where it makes a difference, and not
/// where somebody has described another in its place.
fn around(config: &Config, process: u32) -> Around {
    let mut around = Around { number: process as usize, ..Around::default() };
    let Ok(bound) = topology::cpus_allowed() else { return around };
    let is_real = matches!(config.machine, MachineFrom::Host { .. });
    if let Some(tree) =
        if is_real && are_cards_apart(&around.sys) { config.machine.find().tree } else { None }
    {
        around.rings = rings(&tree, &bound);
        around.number = number(&tree, &bound, process);
    }
    around
}

/// The cpus of each part of the machine that holds all these cpus, the smallest first.
fn rings(tree: &Machine, bound: &CpuSet) -> Vec<Vec<usize>> {
    let holding = tree.parts().iter().map(|part| &part.object.cpus).filter(|cpus| bound.is_subset(cpus));
    let mut rings: Vec<Vec<usize>> = holding.map(|cpus| cpus.iter().collect()).collect();
    rings.sort_by_key(Vec::len);
    rings.dedup();
    rings
}

/// The number of a process among those of its host, to take cards in turn: by the cpus that it is bound to,
/// or, where it is not bound, its own.
fn number(tree: &Machine, bound: &CpuSet, process: u32) -> usize {
    match bound.first() {
        Some(first) if bound.len() < tree.cpus().len() => first / bound.len(),
        _ => process as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_the_parts_that_hold_a_process() {
        let tree = Machine::from_synthetic("pack:2 numa:2 core:2 pu:1").unwrap();
        let rings_of = |cpus: &[usize]| rings(&tree, &cpus.iter().copied().collect());
        let expected = [vec![5], vec![4, 5], vec![4, 5, 6, 7], (0..8).collect()];
        assert_eq!(rings_of(&[5]), expected);
        assert_eq!(rings_of(&[5, 4]), expected[1..]);
        assert_eq!(rings_of(&[3, 4]), expected[3..]);
        assert_eq!(rings_of(&[9]), [[0; 0]; 0]);
    }

    #[test]
    fn processes_are_counted_by_where_they_are_bound() {
        let tree = Machine::from_synthetic("pack:2 core:4 pu:1").unwrap();
        let number_of = |cpus: &[usize], process| number(&tree, &cpus.iter().copied().collect(), process);
        assert_eq!([number_of(&[0], 9), number_of(&[1], 9), number_of(&[7], 9)], [0, 1, 7]);
        assert_eq!([number_of(&[0, 1], 9), number_of(&[2, 3], 9)], [0, 1]);
        assert_eq!(number_of(&[0, 1, 2, 3, 4, 5, 6, 7], 9), 9, "it is not bound");
    }
}
