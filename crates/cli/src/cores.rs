//! Which cpus this process may use, as cores, and how a job's ranks share them out.

use std::collections::BTreeMap;

use rustix::thread::{CpuSet, sched_getaffinity};

/// The cpus of one core that may be used, lowest first; hardware threads of a core stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core(Vec<usize>);

impl Core {
    /// The cpus of several cores as a set.
    fn join(cores: &[Core]) -> CpuSet {
        let mut set = CpuSet::new();
        cores.iter().flat_map(|core| &core.0).for_each(|cpu| set.set(*cpu));
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

/// The cpus of each socket that this process may use; none where the system does not tell.
pub fn sockets() -> Vec<CpuSet> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    let socket = |cpu| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        std::fs::read_to_string(format!("{folder}/physical_package_id")).ok()
    };
    by_socket(cpus, socket)
}

/// Gives each rank a socket, as many ranks to each as to the others or one more, in order; `None` where there is none.
pub fn share_sockets(sockets: &[CpuSet], ranks: u32) -> Option<Vec<CpuSet>> {
    let socket_of = |rank| sockets[(u64::from(rank) * sockets.len() as u64 / u64::from(ranks)) as usize];
    (!sockets.is_empty()).then(|| (0..ranks).map(socket_of).collect())
}

/// Gives each of `ranks` ranks `cores_per_rank` cores of its own, in order; `None` when there are too few.
pub fn share_out(cores: &[Core], ranks: u32, cores_per_rank: usize) -> Option<Vec<CpuSet>> {
    let needed = cores_per_rank.checked_mul(ranks as usize)?;
    if cores_per_rank == 0 || cores.len() < needed {
        return None;
    }
    Some(cores[..needed].chunks(cores_per_rank).map(Core::join).collect())
}

/// Gives each core to as many ranks as the others, in order; `None` where that does not come out even, since ranks
/// would then be better off where the system moves them about.
pub fn share_evenly(cores: &[Core], ranks: u32) -> Option<Vec<CpuSet>> {
    let ranks = ranks as usize;
    if cores.is_empty() || !ranks.is_multiple_of(cores.len()) {
        return None;
    }
    let each = ranks / cores.len();
    Some((0..ranks).map(|rank| Core::join(&cores[rank / each..=rank / each])).collect())
}

/// The numbers in a set, as people write them: `0-3,8`.
pub fn list(set: &CpuSet) -> String {
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
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

/// Puts cpus of the same socket together. Where one is in is not always told: such cpus are together, too.
fn by_socket(cpus: impl Iterator<Item = usize>, socket: impl Fn(usize) -> Option<String>) -> Vec<CpuSet> {
    let mut sockets: BTreeMap<Option<usize>, CpuSet> = BTreeMap::new();
    for cpu in cpus {
        let number = socket(cpu).and_then(|text| first_number(&text));
        sockets.entry(number).or_default().set(cpu);
    }
    sockets.into_values().collect()
}

/// The first number of a list such as `0,4` or `0-1`.
fn first_number(text: &str) -> Option<usize> {
    text.trim().split([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(lists: &[&[usize]]) -> Vec<Core> {
        lists.iter().map(|cpus| Core(cpus.to_vec())).collect()
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
    fn sockets_are_shared_out_in_order() {
        let sockets = by_socket(0..6, |cpu| Some(format!("{}\n", cpu % 2)));
        assert_eq!(sockets.iter().map(list).collect::<Vec<_>>(), ["0,2,4", "1,3,5"]);
        let lists =
            |ranks| share_sockets(&sockets, ranks).map(|sets| sets.iter().map(list).collect::<Vec<_>>());
        assert_eq!(lists(1).unwrap(), ["0,2,4"]);
        assert_eq!(lists(3).unwrap(), ["0,2,4", "0,2,4", "1,3,5"]);
        assert_eq!(by_socket(0..2, |_| None).len(), 1);
        assert!(share_sockets(&[], 4).is_none());
    }

    #[test]
    fn this_process_may_use_some_core() {
        assert!(!allowed().is_empty());
    }
}
