//! On which part of its node each rank sits, for the choice of collective algorithms.

use rustix::thread::CpuSet;
use topology::Host;
use weft::Parts;
use weft::collectives::{Costs, HierarchyLevel};

use crate::parts::levels;

/// The parts that count by the costs, as a text that all ranks are told; nothing where there are none of
/// which ranks sit on several. `number` says on which one of a kind a rank sits, if on one.
pub fn parts(
    costs: &Costs,
    ranks: u32,
    number: impl Fn(HierarchyLevel, u32) -> Option<u32>,
) -> Option<String> {
    let counts = |border: &HierarchyLevel| *border != HierarchyLevel::Node && costs.told(*border).is_some();
    let kinds = HierarchyLevel::ALL.into_iter().filter(counts).filter_map(|border| {
        let numbers = (0..ranks).map(|rank| number(border, rank)).collect::<Option<Vec<u32>>>()?;
        let are_several = numbers.iter().any(|number| *number != numbers[0]);
        are_several.then_some((border, numbers))
    });
    let kinds: Vec<(HierarchyLevel, Vec<u32>)> = kinds.collect();
    (!kinds.is_empty()).then(|| Parts::encode(&kinds))
}

/// The parts of this host by which cpus the ranks are bound to.
pub struct Bound {
    /// The cpus of each rank.
    ranks: Vec<topology::CpuSet>,
    /// The parts of each kind that the ranks are bound to.
    parts: Vec<(HierarchyLevel, Vec<topology::CpuSet>)>,
}

impl Bound {
    pub fn new(host: &Host, binding: &[CpuSet]) -> Bound {
        let numbers = |cpus: &CpuSet| (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).collect();
        let ranks: Vec<topology::CpuSet> = binding.iter().map(numbers).collect();
        let cpus: topology::CpuSet = ranks.iter().flat_map(topology::CpuSet::iter).collect();
        let parts = |border| {
            levels(border).iter().map(|level| host.parts(*level, &cpus)).find(|parts| !parts.is_empty())
        };
        let parts =
            HierarchyLevel::ALL.into_iter().filter_map(|border| Some((border, parts(border)?))).collect();
        Bound { ranks, parts }
    }

    /// On which one of that kind a rank is bound; none where on several, or where the kernel does not tell.
    pub fn number(&self, border: HierarchyLevel, rank: u32) -> Option<u32> {
        let (_, parts) = self.parts.iter().find(|(kind, _)| *kind == border)?;
        let cpus = self.ranks.get(rank as usize)?;
        parts.iter().position(|part| cpus.is_subset(part)).map(|number| number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::described;
    use topology::Machine;

    fn all() -> Costs {
        let lines = "package 400 1 1 1 1;numa 300 1 1 1 1;cache 250 1 1 1 1";
        Costs::decode(&format!("weft costs 1;{lines}")).unwrap()
    }

    #[test]
    fn ranks_are_told_the_parts_of_a_described_machine_that_count() {
        let machine = Machine::from_synthetic("pack:2 numa:1 l3:2 core:2 pu:1").unwrap();
        let told =
            |costs: &Costs, ranks| parts(costs, ranks, |border, rank| described(&machine, border, rank));
        let expected = "package (vector,(0,1,4),(1,1,2));numa (vector,(0,1,4),(1,1,2));cache \
                        (vector,(0,1,2),(1,1,2),(2,1,2))";
        assert_eq!(told(&all(), 6).as_deref(), Some(expected));
        assert_eq!(told(&all(), 3).as_deref(), Some("cache (vector,(0,1,2),(1,1,1))"));
        assert_eq!((told(&all(), 2), told(&Costs::BUILT_IN, 8)), (None, None));
    }

    #[test]
    fn ranks_are_told_their_parts_where_each_is_bound_to_one() {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..8 {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}"));
            let write = |path: &str, text: String| {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            write("topology/package_cpus_list", format!("{}-{}\n", cpu / 4 * 4, cpu / 4 * 4 + 3));
            write("cache/index3/level", "2\n".to_owned());
            write("cache/index3/shared_cpu_list", format!("{}-{}\n", cpu / 2 * 2, cpu / 2 * 2 + 1));
        }
        let set = |cpus: &[usize]| {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(*cpu));
            set
        };
        let told = |binding: &[&[usize]]| {
            let binding: Vec<CpuSet> = binding.iter().map(|cpus| set(cpus)).collect();
            let bound = Bound::new(&Host::at(root.path()), &binding);
            super::parts(&all(), binding.len() as u32, |border, rank| bound.number(border, rank))
        };
        assert_eq!(
            told(&[&[0], &[1], &[4]]).as_deref(),
            Some("package (vector,(0,1,2),(1,1,1));cache (vector,(0,1,2),(1,1,1))")
        );
        // One cache does not hold both cpus of the second rank.
        assert_eq!(told(&[&[0], &[1, 2], &[5]]).as_deref(), Some("package (vector,(0,1,2),(1,1,1))"));
        assert_eq!([told(&[&[0], &[1]]), told(&[&[0], &[3, 4]]), told(&[&[0], &[9]])], [None, None, None]);
    }
}
