//! The members of a communicator, and their ranks.

use fabric::Peer;

/// A place in a group. Not a [`Peer`]: a process of the job has one peer number and a rank per group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rank(pub u32);

/// The members of a communicator; of both groups, where there are two.
pub trait Members: Send + Sync {
    /// How many there are.
    fn size(&self) -> u32;
    /// The process of a rank.
    fn peer(&self, rank: Rank) -> Option<Peer>;
    /// The rank of a process, if it is a member.
    fn rank(&self, peer: Peer) -> Option<Rank>;
}

/// Members by a list of their processes, in the order of their ranks.
pub struct MemberList(pub Vec<u32>);

impl Members for MemberList {
    fn size(&self) -> u32 {
        self.0.len() as u32
    }
    fn peer(&self, rank: Rank) -> Option<Peer> {
        self.0.get(rank.0 as usize).copied().map(Peer)
    }
    fn rank(&self, peer: Peer) -> Option<Rank> {
        self.0.iter().position(|&member| member == peer.0).map(|at| Rank(at as u32))
    }
}
