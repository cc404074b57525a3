//! Groups: ordered sets of peers (MPI 5.0 §7.3), stored as runs and strides.
//!
//! A world of a million processes is one run; every second of them is one run too. A list of single peers is kept
//! only where runs would not be shorter.

use std::sync::Arc;

use fabric::Peer;
use messaging::Rank;

use crate::error::{Class, Error, Result};

/// An ordered set of peers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Group {
    members: Members,
}

/// How two groups compare (MPI 5.0 §7.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The same members in the same order.
    Identical,
    /// The same members in another order.
    Similar,
    /// Other members.
    Unequal,
}

#[derive(Clone, Debug)]
enum Members {
    /// `runs` in rank order.
    Runs(Arc<[Run]>),
    /// Rank by rank, and the same sorted by peer for the way back.
    List(Arc<[u32]>, Arc<[(u32, u32)]>),
}

/// `count` peers from `first` on, `stride` apart; the first of them has rank `rank`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    rank: u32,
    first: u32,
    stride: i64,
    count: u32,
}

impl Run {
    fn peer(&self, at: u32) -> u32 {
        (i64::from(self.first) + self.stride * i64::from(at)) as u32
    }

    fn place(&self, peer: u32) -> Option<u32> {
        let distance = i64::from(peer) - i64::from(self.first);
        if self.stride == 0 {
            return (distance == 0).then_some(0);
        }
        let at = distance / self.stride;
        (distance % self.stride == 0 && (0..i64::from(self.count)).contains(&at)).then_some(at as u32)
    }
}

impl Group {
    /// The peers `0..size`.
    #[must_use]
    pub fn world(size: u32) -> Group {
        let run = Run { rank: 0, first: 0, stride: 1, count: size };
        let runs: &[Run] = if size == 0 { &[] } else { &[run] };
        Group { members: Members::Runs(runs.into()) }
    }

    /// The group without members.
    #[must_use]
    pub fn empty() -> Group {
        Group::world(0)
    }

    /// The peers in that order. They must differ.
    pub fn of(peers: impl IntoIterator<Item = Peer>) -> Group {
        let mut list = Vec::new();
        let mut runs: Vec<Run> = Vec::new();
        for (rank, Peer(peer)) in peers.into_iter().enumerate() {
            list.push(peer);
            match runs.last_mut() {
                Some(run) if run.count == 1 => {
                    run.stride = i64::from(peer) - i64::from(run.first);
                    run.count = 2;
                }
                Some(run) if i64::from(peer) == i64::from(run.first) + run.stride * i64::from(run.count) => {
                    run.count += 1;
                }
                _ => runs.push(Run { rank: rank as u32, first: peer, stride: 0, count: 1 }),
            }
        }
        if size_of_val(&runs[..]) <= 3 * size_of_val(&list[..]) {
            return Group { members: Members::Runs(runs.into()) };
        }
        let mut back: Vec<(u32, u32)> =
            list.iter().enumerate().map(|(rank, &peer)| (peer, rank as u32)).collect();
        back.sort_unstable();
        Group { members: Members::List(list.into(), back.into()) }
    }

    /// Number of members.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        match &self.members {
            Members::Runs(runs) => runs.last().map_or(0, |run| run.rank + run.count),
            Members::List(list, _) => list.len() as u32,
        }
    }

    /// The peer at a rank.
    #[inline]
    #[must_use]
    pub fn peer(&self, rank: Rank) -> Option<Peer> {
        match &self.members {
            Members::Runs(runs) => {
                let run = match &runs[..] {
                    [only] => only,
                    runs => runs.get(runs.partition_point(|run| run.rank <= rank.0).checked_sub(1)?)?,
                };
                let at = rank.0 - run.rank;
                (at < run.count).then(|| Peer(run.peer(at)))
            }
            Members::List(list, _) => list.get(rank.0 as usize).copied().map(Peer),
        }
    }

    /// The rank of a peer, if it is a member.
    #[must_use]
    pub fn rank(&self, peer: Peer) -> Option<Rank> {
        match &self.members {
            Members::Runs(runs) => runs.iter().find_map(|run| Some(Rank(run.rank + run.place(peer.0)?))),
            Members::List(_, back) => {
                let at = back.binary_search_by_key(&peer.0, |&(peer, _)| peer).ok()?;
                Some(Rank(back[at].1))
            }
        }
    }

    /// The members in rank order.
    pub fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        (0..self.size()).map(|rank| self.peer(Rank(rank)).expect("ranks below the size have a peer"))
    }

    /// MPI 5.0 §7.3.1: identical, similar or unequal.
    #[must_use]
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if self.same_runs(other) || self.peers().eq(other.peers()) {
            return Comparison::Identical;
        }
        let all = self.peers().all(|peer| other.rank(peer).is_some());
        if all { Comparison::Similar } else { Comparison::Unequal }
    }

    fn same_runs(&self, other: &Group) -> bool {
        match (&self.members, &other.members) {
            (Members::Runs(mine), Members::Runs(theirs)) => mine == theirs,
            _ => false,
        }
    }

    /// Members of the first, then those of the second that are not in the first (MPI 5.0 §7.3.2).
    #[must_use]
    pub fn union(&self, other: &Group) -> Group {
        Group::of(self.peers().chain(other.peers().filter(|&peer| self.rank(peer).is_none())))
    }

    /// Members of the first that are in the second too, in the order of the first.
    #[must_use]
    pub fn intersection(&self, other: &Group) -> Group {
        Group::of(self.peers().filter(|&peer| other.rank(peer).is_some()))
    }

    /// Members of the first that are not in the second, in the order of the first.
    #[must_use]
    pub fn difference(&self, other: &Group) -> Group {
        Group::of(self.peers().filter(|&peer| other.rank(peer).is_none()))
    }

    /// The members at those ranks, in that order.
    ///
    /// # Errors
    /// [`Class::Rank`] for a rank that is none, or named twice.
    pub fn include(&self, ranks: &[Rank]) -> Result<Group> {
        self.check_ranks(ranks)?;
        Ok(Group::of(ranks.iter().filter_map(|&rank| self.peer(rank))))
    }

    /// All members but those at the ranks, in their order.
    ///
    /// # Errors
    /// As [`Group::include`].
    pub fn exclude(&self, ranks: &[Rank]) -> Result<Group> {
        let mut gone = self.check_ranks(ranks)?;
        gone.sort_unstable();
        let stays = |&rank: &u32| gone.binary_search(&rank).is_err();
        Ok(Group::of((0..self.size()).filter(stays).filter_map(|rank| self.peer(Rank(rank)))))
    }

    fn check_ranks(&self, ranks: &[Rank]) -> Result<Vec<u32>> {
        let mut seen: Vec<u32> = ranks.iter().map(|rank| rank.0).collect();
        if let Some(bad) = seen.iter().find(|&&rank| rank >= self.size()) {
            let what = format!("rank {bad} is not in a group of {}", self.size());
            return Err(Error::new(Class::Rank, what));
        }
        let all = seen.clone();
        seen.sort_unstable();
        match seen.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::new(Class::Rank, format!("rank {} is named twice", pair[0]))),
            None => Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(peers: &[u32]) -> Group {
        Group::of(peers.iter().map(|&peer| Peer(peer)))
    }

    fn list(group: &Group) -> Vec<u32> {
        group.peers().map(|peer| peer.0).collect()
    }

    #[test]
    fn worlds_and_strides_are_one_run() {
        for group in [Group::world(1 << 20), Group::of((0..1 << 19).rev().map(|peer| Peer(2 * peer)))] {
            let Members::Runs(runs) = &group.members else { panic!("not kept as runs") };
            assert_eq!(runs.len(), 1);
        }
    }

    #[test]
    fn ranks_and_peers_go_both_ways() {
        for members in
            [vec![], vec![7], vec![3, 1, 2], vec![0, 2, 4, 9, 8, 7], vec![5, 1, 9, 2, 8, 0, 77, 4, 3, 50]]
        {
            let group = of(&members);
            assert_eq!(list(&group), members);
            for (rank, &peer) in members.iter().enumerate() {
                assert_eq!(group.rank(Peer(peer)), Some(Rank(rank as u32)), "{members:?}");
            }
            assert_eq!(group.rank(Peer(1000)), None);
            assert_eq!(group.peer(Rank(members.len() as u32)), None);
        }
    }

    #[test]
    fn set_operations_keep_the_order_of_the_first() {
        let (first, second) = (of(&[5, 1, 3]), of(&[3, 9, 5]));
        assert_eq!(list(&first.union(&second)), [5, 1, 3, 9]);
        assert_eq!(list(&first.intersection(&second)), [5, 3]);
        assert_eq!(list(&first.difference(&second)), [1]);
        assert_eq!(first.compare(&of(&[1, 3, 5])), Comparison::Similar);
        assert_eq!(first.compare(&of(&[5, 1, 3])), Comparison::Identical);
        assert_eq!(first.compare(&second), Comparison::Unequal);
    }

    #[test]
    fn wrong_ranks_are_told() {
        let group = of(&[5, 1, 3]);
        assert_eq!(list(&group.include(&[Rank(2), Rank(0)]).unwrap()), [3, 5]);
        assert_eq!(list(&group.exclude(&[Rank(1)]).unwrap()), [5, 3]);
        assert_eq!(group.include(&[Rank(3)]).unwrap_err().class, Class::Rank);
        assert_eq!(group.exclude(&[Rank(1), Rank(1)]).unwrap_err().class, Class::Rank);
    }
}
