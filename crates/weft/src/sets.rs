//! Process sets: named groups of processes that exist before any communicator does (MPI 5.0 §11.3.2).

use std::sync::Arc;

use job::config::SetOfRanks;
use job::error::{Class, Error, Result};

use crate::group::Group;
use fabric::Peer;
pub use job::config::STANDARD_SETS as STANDARD;
use messaging::Rank;

/// A named group of processes.
#[derive(Clone, Debug)]
pub struct ProcessSet {
    name: String,
    group: Group,
}

impl ProcessSet {
    /// Its name, in the form of a URI.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its processes.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }
}

/// The process sets that a process belongs to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProcessSets {
    sets: Arc<[ProcessSet]>,
}

impl ProcessSets {
    /// The three of the standard, and those that the launcher names, where `here` is one of them.
    pub(crate) fn new(here: Peer, world: &Group, node: &Group, named: &[SetOfRanks]) -> Result<ProcessSets> {
        let (size, shared) = (world.size(), world & node);
        let standard = [(WORLD, world.clone()), (SELF, Group::of([here])), (SHARED, shared)];
        let mut sets: Vec<ProcessSet> =
            standard.map(|(name, group)| ProcessSet { name: name.to_owned(), group }).into();
        for SetOfRanks { name, ranks } in named {
            if let Some(beyond) = ranks.iter().find(|&&rank| rank >= size) {
                let what = format!("WEFT_PSETS: {name} names rank {beyond}, and there are {size}");
                return Err(Error::new(Class::Argument, what));
            }
            let group = Group::of(ranks.iter().filter_map(|&rank| world.peer(Rank(rank))));
            if group.rank(here).is_some() {
                sets.push(ProcessSet { name: name.clone(), group });
            }
        }
        Ok(ProcessSets { sets: sets.into() })
    }

    /// All of them, always in the same order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ProcessSet> {
        self.sets.iter()
    }

    /// How many process sets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Never: a process is at least in the set of all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The set of that name. Names of the standard may be written in any case, as URI schemes may.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&ProcessSet> {
        self.sets.iter().find(|set| {
            set.name == name || (set.name.starts_with(STANDARD) && set.name.eq_ignore_ascii_case(name))
        })
    }

    /// All processes of the job.
    #[must_use]
    pub fn world(&self) -> &Group {
        &self.sets[0].group
    }
}

/// All processes of the job.
pub const WORLD: &str = "mpi://WORLD";
/// This process alone.
pub const SELF: &str = "mpi://SELF";
/// The processes that can share memory with this one.
pub const SHARED: &str = "mpi://SHARED";

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(named: &[SetOfRanks]) -> Result<ProcessSets> {
        ProcessSets::new(Peer(2), &Group::world(6), &Group::of([Peer(2), Peer(3)]), named)
    }

    fn named(name: &str, ranks: &[u32]) -> SetOfRanks {
        SetOfRanks { name: name.to_owned(), ranks: ranks.to_vec() }
    }

    #[test]
    fn the_sets_of_the_standard_are_always_there() {
        let sets = sets(&[]).unwrap();
        let sizes: Vec<(&str, u32)> = sets.iter().map(|set| (set.name(), set.group().size())).collect();
        assert_eq!(sizes, [(WORLD, 6), (SELF, 1), (SHARED, 2)]);
        assert_eq!(sets.find("mpi://SELF").unwrap().group().peer(Rank(0)), Some(Peer(2)));
        assert!(sets.find("MPI://world").is_some() && sets.find("mpi://other").is_none());
        assert_eq!((sets.len(), sets.is_empty(), sets.world().size()), (3, false, 6));
    }

    #[test]
    fn only_sets_that_this_process_is_in_are_shown() {
        let sets = sets(&[named("app://ocean", &[0, 2]), named("app://ice", &[1, 3])]).unwrap();
        assert_eq!(sets.len(), 4);
        assert_eq!(sets.find("app://ocean").unwrap().group().rank(Peer(2)), Some(Rank(1)));
        assert!(sets.find("app://ice").is_none() && sets.find("APP://ocean").is_none());
    }

    #[test]
    fn a_set_cannot_have_ranks_that_the_job_has_not() {
        let error = sets(&[named("app://ocean", &[5, 6])]).unwrap_err();
        assert!(error.what.contains("app://ocean names rank 6, and there are 6"), "{error}");
    }
}
