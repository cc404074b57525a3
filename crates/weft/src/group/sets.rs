//! Groups as sets (MPI 5.0 §7.3.1, §7.3.2): compare, union, intersection, difference.
//!
//! Of two groups of runs, the runs are laid over each other; what a pair of them has in common is arithmetic.
//! Where one is a list, or where there are so many pairs that looking at the members is quicker, one group is
//! marked and the other looked through.

use super::members::{Builder, Members};
use super::progression::{Progression, Runs, in_order};
use super::{Comparison, Group};

impl Group {
    /// MPI 5.0 §7.3.1: identical, similar or unequal.
    #[must_use]
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if self.is_identical(other) {
            return Comparison::Identical;
        }
        let (mine, theirs) = (self.plain(), other.plain());
        let common = match mine.common_ranks(theirs) {
            Some(common) => common.iter().map(|ranks| ranks.count).sum(),
            None => {
                let marks = Marks::of(theirs);
                mine.iter().take_while(|peer| marks.has(peer.0)).count() as u32
            }
        };
        if common == self.size() { Comparison::Similar } else { Comparison::Unequal }
    }

    pub(super) fn is_identical(&self, other: &Group) -> bool {
        // Equal groups have equal forms, but for what is left over from another group.
        match (&self.members, &other.members) {
            (Members::Without(mine), Members::Without(theirs)) => {
                mine.base.is_identical(&theirs.base) && mine.gone == theirs.gone
                    || mine.expanded().is_identical(theirs.expanded())
            }
            (Members::Without(mine), _) => self.size() == other.size() && mine.expanded().is_identical(other),
            (_, Members::Without(_)) => other.is_identical(self),
            (Members::List(mine), Members::List(theirs)) => mine.peers == theirs.peers,
            (mine, theirs) => mine.runs().is_some() && mine.runs() == theirs.runs(),
        }
    }

    /// Members of the first, then those of the second that are not in the first (MPI 5.0 §7.3.2).
    #[must_use]
    pub fn union(&self, other: &Group) -> Group {
        let new = other.difference(self);
        if new.is_empty() {
            return self.clone();
        }
        let mut builder = Builder::default();
        for part in [self, &new] {
            let part = part.plain();
            match part.members.runs() {
                Some(runs) => runs.iter().for_each(|run| builder.push(*run)),
                None => part.iter().for_each(|peer| builder.push_one(peer.0)),
            }
        }
        builder.finish()
    }

    /// Members of the first that are in the second too, in the order of the first.
    #[must_use]
    pub fn intersection(&self, other: &Group) -> Group {
        let (mine, theirs) = (self.plain(), other.plain());
        match mine.common_ranks(theirs) {
            Some(common) if common.iter().map(|ranks| ranks.count).sum::<u32>() == self.size() => {
                self.clone()
            }
            Some(common) => {
                let ranks = in_order(common, usize::MAX).expect("any number of pieces is allowed");
                mine.at(&ranks)
            }
            None => mine.kept(theirs, true),
        }
    }

    /// Members of the first that are not in the second, in the order of the first.
    #[must_use]
    pub fn difference(&self, other: &Group) -> Group {
        let (mine, theirs) = (self.plain(), other.plain());
        match mine.common_ranks(theirs) {
            Some(common) => mine.without(common),
            None => mine.kept(theirs, false),
        }
    }

    /// The members that the other group has, or those that it has not.
    fn kept(&self, other: &Group, in_other: bool) -> Group {
        let marks = Marks::of(other);
        let kept = || self.iter().filter(|peer| marks.has(peer.0) == in_other);
        if kept().count() == self.size() as usize {
            return self.clone();
        }
        Group::of(kept())
    }

    /// The ranks here of members of both, for groups of runs; `None` where looking at the members is quicker.
    fn common_ranks(&self, other: &Group) -> Option<Runs> {
        let (mine, theirs) = (self.members.runs()?, other.members.runs()?);
        if let ([mine], [theirs]) = (mine, theirs) {
            return Some(mine.places_in(theirs).into_iter().collect());
        }
        if self.size() + other.size() <= SMALL_MEMBERS {
            return None;
        }
        let mut looks_left = LOOKS_ANYWAY + (self.size() as usize + other.size() as usize) / MEMBERS_PER_LOOK;
        let mut rank = 0;
        let mut left: Vec<(u32, &Progression)> = Vec::with_capacity(mine.len());
        for run in mine {
            left.push((rank, run));
            rank += run.count;
        }
        left.sort_unstable_by_key(|(_, run)| run.low());
        let mut right: Vec<&Progression> = theirs.iter().collect();
        right.sort_unstable_by_key(|run| run.low());
        let mut right = right.into_iter().peekable();
        let (mut open, mut common): (Vec<&Progression>, _) = (Vec::new(), Runs::default());
        for (rank, run) in left {
            // Runs come by their lowest peer: what ended before this one ends before all that follow.
            open.retain(|other| other.high() >= run.low());
            while let Some(other) = right.next_if(|other| other.low() <= run.high()) {
                if other.high() >= run.low() {
                    open.push(other);
                }
            }
            looks_left = looks_left.checked_sub(open.len())?;
            let shared = open.iter().filter_map(|other| run.places_in(other));
            shared.for_each(|places| common.push(Progression { first: rank + places.first, ..places }));
        }
        Some(common)
    }
}

/// The members of a group, to be asked for by peer.
enum Marks {
    /// A bit for each of 128 peers from a first one on.
    Few { first: u32, bits: u128 },
    /// A bit for each peer from a first one on.
    Bits { first: u32, words: Vec<u64> },
    /// Where the peers lie so far apart that bits would take more room than the group.
    Group(Group),
}

impl Marks {
    fn of(group: &Group) -> Marks {
        let (low, high) = match group.members.runs() {
            Some(runs) => (runs.iter().map(Progression::low).min(), runs.iter().map(Progression::high).max()),
            None => (group.iter().map(|peer| peer.0).min(), group.iter().map(|peer| peer.0).max()),
        };
        let (Some(first), Some(last)) = (low, high) else {
            return Marks::Few { first: 0, bits: 0 };
        };
        if last - first < u128::BITS {
            let bits = group.iter().fold(0, |bits, peer| bits | 1 << (peer.0 - first));
            return Marks::Few { first, bits };
        }
        if (last - first) / BITS_PER_MEMBER > group.size() {
            return Marks::Group(group.clone());
        }
        let mut words = vec![0u64; (last - first) as usize / 64 + 1];
        for peer in group {
            words[(peer.0 - first) as usize / 64] |= 1 << ((peer.0 - first) % 64);
        }
        Marks::Bits { first, words }
    }

    #[inline]
    fn has(&self, peer: u32) -> bool {
        match self {
            Marks::Few { first, bits } => {
                peer.checked_sub(*first).is_some_and(|at| at < u128::BITS && bits >> at & 1 == 1)
            }
            Marks::Bits { first, words } => peer
                .checked_sub(*first)
                .and_then(|at| words.get(at as usize / 64).map(|word| word >> (at % 64) & 1))
                .is_some_and(|bit| bit == 1),
            Marks::Group(group) => group.contains(fabric::Peer(peer)),
        }
    }
}

/// Of two groups with so many members together, looking at the members is always quicker than laying out
/// runs.
const SMALL_MEMBERS: u32 = 128;
/// Pairs of runs that are looked at whatever the size of the groups.
const LOOKS_ANYWAY: usize = 1024;
/// A look at a pair of runs takes about as long as one at so many members.
const MEMBERS_PER_LOOK: usize = 8;
/// Marks are bits where at most so many of them fall to a member.
const BITS_PER_MEMBER: u32 = 256;
