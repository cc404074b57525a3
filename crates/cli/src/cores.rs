//! Which cpus this process may use, as cores, and how a job's ranks share them out.

use std::collections::BTreeMap;

use rustix::thread::{CpuSet, sched_getaffinity};

/// The cpus of one core that may be used, lowest first; hardware threads of a core stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core(Vec<usize>);

impl Core {
    /// Its cpus, at least one.
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// A core of these cpus.
    #[cfg(test)]
    pub fn of(cpus: &[usize]) -> Core {
        Core(cpus.to_vec())
    }

    /// The cpus of several cores as a set.
    fn join(cores: &[Core]) -> CpuSet {
        let mut set = CpuSet::new();
        cores.iter().flat_map(Core::cpus).for_each(|cpu| set.set(*cpu));
        set
    }
}

/// The cores that this process may use; empty where the system does not tell.
pub fn allowed() -> Vec<Core> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    group(cpus, |cpu| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
            .ok()
    })
}

/// Gives each of `ranks` ranks `cores_per_rank` cores of its own, in order; `None` when there are too few.
pub fn share_out(cores: &[Core], ranks: u32, cores_per_rank: usize) -> Option<Vec<CpuSet>> {
    let needed = cores_per_rank.checked_mul(ranks as usize)?;
    if cores_per_rank == 0 || cores.len() < needed {
        return None;
    }
    Some(cores[..needed].chunks(cores_per_rank).map(Core::join).collect())
}

/// Gives each core to equally many ranks, in order. `None` where the ranks are no multiple of the cores:
/// ranks are then better off where the system moves them about.
pub fn share_evenly(cores: &[Core], ranks: u32) -> Option<Vec<CpuSet>> {
    let ranks = ranks as usize;
    if cores.is_empty() || !ranks.is_multiple_of(cores.len()) {
        return None;
    }
    let each = ranks / cores.len();
    Some((0..ranks).map(|rank| Core::join(&cores[rank / each..=rank / each])).collect())
}

/// The numbers in a set.
pub fn cpus(set: &CpuSet) -> impl Iterator<Item = usize> + '_ {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu))
}

/// The cpus of a set as the kernel takes them; those beyond what it can have are left out.
pub fn mask(cpus: &topology::CpuSet) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    set
}

/// The numbers in a set, as people write them: `0-3,8`.
pub fn list(set: &CpuSet) -> String {
    let cpus: Vec<usize> = cpus(set).collect();
    let runs = cpus.chunk_by(|left, right| left + 1 == *right);
    let written = runs.map(|run| match run {
        [one] => one.to_string(),
        many => format!("{}-{}", many[0], many[many.len() - 1]),
    });
    written.collect::<Vec<_>>().join(",")
}

/// Puts cpus with the same first sibling together. A cpu whose siblings are unknown is a core of its own.
fn group(cpus: impl Iterator<Item = usize>, siblings: impl Fn(usize) -> Option<String>) -> Vec<Core> {
    let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for cpu in cpus {
        let first = siblings(cpu).and_then(|text| first_number(&text)).unwrap_or(cpu);
        cores.entry(first).or_default().push(cpu);
    }
    cores.into_values().map(Core).collect()
}

/// The first number of a list such as `0,4` or `0-1`.
fn first_number(text: &str) -> Option<usize> {
    text.trim().split([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(lists: &[&[usize]]) -> Vec<Core> {
        lists.iter().map(|cpus| Core::of(cpus)).collect()
    }

    #[test]
    fn siblings_are_one_core() {
        let apart = |cpu: usize| Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4));
        assert_eq!(group(0..8, apart), cores(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]));
        let beside = |cpu: usize| Some(format!("{}-{}\n", cpu & !1, cpu | 1));
        assert_eq!(group([1, 2, 3].into_iter(), beside), cores(&[&[1], &[2, 3]]), "cpu 0 is not allowed");
        assert_eq!(group(0..2, |_| None), cores(&[&[0], &[1]]));
    }

    #[test]
    fn ranks_get_cores_of_their_own_or_none() {
        let four = cores(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        let lists = |ranks, each| Some(share_out(&four, ranks, each)?.iter().map(list).collect::<Vec<_>>());
        assert_eq!(lists(2, 1).unwrap(), ["0,4", "1,5"]);
        assert_eq!(lists(2, 2).unwrap(), ["0-1,4-5", "2-3,6-7"]);
        assert_eq!(lists(5, 1), None);
        assert_eq!(lists(3, 2), None);
        assert_eq!(lists(1, 0), None);
    }

    #[test]
    fn cores_are_shared_evenly_or_not_at_all() {
        let two = cores(&[&[0, 4], &[1]]);
        let lists = |ranks| Some(share_evenly(&two, ranks)?.iter().map(list).collect::<Vec<_>>());
        assert_eq!(lists(4).unwrap(), ["0,4", "0,4", "1", "1"]);
        assert_eq!(lists(2).unwrap(), ["0,4", "1"]);
        assert_eq!((lists(3), lists(1)), (None, None));
        assert!(share_evenly(&[], 4).is_none());
    }

    #[test]
    fn this_process_may_use_some_core() {
        assert!(!allowed().is_empty());
    }
}
