//! Groups: ordered sets of peers (MPI 5.0 §7.3), stored as runs and strides.
//!
//! A world of a million processes is one run; every second of them is one run too. A list of single peers is
//! kept only where runs would not be shorter, and what is left of a group without some strided ranges is kept
//! as just that. The operations work on runs where there are runs, so that their cost follows the runs and
//! not the members.

mod include;
mod members;
mod progression;
mod sets;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use fabric::Peer;
use messaging::Rank;

pub use members::Peers;
use members::{Builder, Members};
use progression::Progression;

/// An ordered set of peers. Cheap to clone.
///
/// Groups combine like sets, and keep an order all the same: that of the first, then that of the second.
/// ```
/// use weft::{Group, Peer, RankRange};
///
/// let world = Group::world(1_000_000);
/// let even = world.include_ranges(&[RankRange { first: 0, last: 999_999, stride: 2 }])?;
/// let odd = &world - &even;
/// assert!(even.contains(Peer(10)) && !odd.contains(Peer(10)));
/// assert_eq!((&even | &odd).size(), 1_000_000);
/// assert!((&even & &odd).is_empty());
/// assert_eq!(odd.iter().take(3).collect::<Vec<_>>(), [Peer(1), Peer(3), Peer(5)]);
/// # Ok::<(), weft::Error>(())
/// ```
#[derive(Clone)]
pub struct Group {
    members: Members,
}

/// How two groups compare (MPI 5.0 §7.3.1), from alike to unlike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Comparison {
    /// Both groups have the same members in the same order.
    Identical,
    /// Both groups have the same members, in different orders.
    Similar,
    /// One group has a member that the other has not.
    Unequal,
}

/// Ranks from `first` on in steps of `stride`, up to `last` or the last one before it (MPI 5.0 §7.3.2). The
/// numbers are as a program gives them, and are checked where they are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankRange {
    /// The first rank.
    pub first: i64,
    /// No rank lies beyond it.
    pub last: i64,
    /// Not 0; negative where `last` is before `first`.
    pub stride: i64,
}

impl messaging::Members for Group {
    fn size(&self) -> u32 {
        Group::size(self)
    }

    fn peer(&self, rank: Rank) -> Option<Peer> {
        Group::peer(self, rank)
    }

    fn rank(&self, peer: Peer) -> Option<Rank> {
        Group::rank(self, peer)
    }
}

impl Group {
    /// The peers `0..size`.
    #[must_use]
    pub fn world(size: u32) -> Group {
        Group { members: Members::world(size) }
    }

    /// The group without members.
    #[must_use]
    pub fn empty() -> Group {
        Group::world(0)
    }

    /// The peers in that order. They must differ; [`FromIterator`] leaves out those that come again.
    pub fn of(peers: impl IntoIterator<Item = Peer>) -> Group {
        let mut builder = Builder::default();
        peers.into_iter().for_each(|Peer(peer)| builder.push_one(peer));
        builder.finish()
    }

    /// Number of members.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        self.members.size()
    }

    /// Whether the group has no members.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// The peer at a rank.
    #[inline(always)]
    #[must_use]
    pub fn peer(&self, rank: Rank) -> Option<Peer> {
        self.members.peer(rank.0).map(Peer)
    }

    /// The rank of a peer, if it is a member.
    #[must_use]
    pub fn rank(&self, peer: Peer) -> Option<Rank> {
        self.members.rank(peer.0).map(Rank)
    }

    /// Whether the peer is a member.
    #[must_use]
    pub fn contains(&self, peer: Peer) -> bool {
        self.rank(peer).is_some()
    }

    /// The members in rank order.
    #[must_use]
    pub fn iter(&self) -> Peers<'_> {
        self.members.iter()
    }

    /// The members in rank order; the same as [`Group::iter`].
    #[must_use]
    pub fn peers(&self) -> Peers<'_> {
        self.iter()
    }

    /// The rank in `to` of the member with rank `rank` in this group (MPI 5.0 §7.3.1); `None` where there is
    /// none.
    #[must_use]
    pub fn translate(&self, rank: Rank, to: &Group) -> Option<Rank> {
        to.rank(self.peer(rank)?)
    }

    /// A number that is the same for groups with the same members in the same order, at all processes.
    #[must_use]
    pub(crate) fn fingerprint(&self) -> u64 {
        self.members.fingerprint()
    }

    /// This group in the form that answers quickest, for a group that messages go by.
    #[must_use]
    pub(crate) fn settled(&self) -> Group {
        self.plain().clone()
    }

    /// This group as runs or a list, with no ranks to be left out.
    fn plain(&self) -> &Group {
        match &self.members {
            Members::Without(without) => without.expanded(),
            _ => self,
        }
    }

    /// First peer, number of members and stride, where that is all there is to say.
    #[must_use]
    pub(crate) fn as_run(&self) -> Option<(u32, u32, i64)> {
        match &self.members {
            Members::One(run) => Some((run.first, run.count, run.stride)),
            _ => None,
        }
    }

    /// What [`Group::as_run`] told.
    #[must_use]
    pub(crate) fn run(first: u32, count: u32, stride: i64) -> Group {
        let mut builder = Builder::default();
        if count > 0 {
            builder.push(Progression::new(first, count, stride));
        }
        builder.finish()
    }

    /// As numbers that [`Group::decode`] reads; few where there are few runs.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<i64> {
        self.members.encode()
    }

    /// What [`Group::encode`] wrote for peers below `end`; `None` for anything else.
    #[must_use]
    pub(crate) fn decode(numbers: &[i64], end: u32) -> Option<Group> {
        Members::decode(numbers, end)
    }
}

impl PartialEq for Group {
    /// Whether both groups have the same members in the same order.
    fn eq(&self, other: &Group) -> bool {
        self.is_identical(other)
    }
}

impl Eq for Group {}

impl BitOr for &Group {
    type Output = Group;
    /// The members of either group: [`Group::union`].
    fn bitor(self, other: &Group) -> Group {
        self.union(other)
    }
}

impl BitAnd for &Group {
    type Output = Group;
    /// The members of both groups: [`Group::intersection`].
    fn bitand(self, other: &Group) -> Group {
        self.intersection(other)
    }
}

impl Sub for &Group {
    type Output = Group;
    /// The members of this group that are not in the other one: [`Group::difference`].
    fn sub(self, other: &Group) -> Group {
        self.difference(other)
    }
}

impl<'a> IntoIterator for &'a Group {
    type Item = Peer;
    type IntoIter = Peers<'a>;
    fn into_iter(self) -> Peers<'a> {
        self.iter()
    }
}

impl FromIterator<Peer> for Group {
    /// The peers in the order in which each came first.
    fn from_iter<I: IntoIterator<Item = Peer>>(peers: I) -> Group {
        let mut seen = std::collections::HashSet::new();
        Group::of(peers.into_iter().filter(|peer| seen.insert(*peer)))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group of {}: {:?}", self.size(), self.members)
    }
}
