//! Memory of peers that is used without their doing: the trait [`OneSided`], which some fabrics implement.

use std::fmt;

use crate::{Atomic, Fabric, FabricError, Payload, UserMemory};

/// A fabric that writes, reads and changes memory of peers while these do other things.
///
/// It stands apart from [`Fabric`], so that who only sends messages does not know of it. A fabric that has it
/// may still lack some of it, for some lanes: [`Abilities`] and `atomic_count_max` tell.
///
/// **Ends.** An operation for which [`Begun::Underway`] was answered ends once, by
/// [`Sink::done`](crate::Sink::done) with its ticket: well when all of it holds in the memory over there, and
/// what was fetched is here. All that were begun with a peer end before [`Sink::lost`](crate::Sink::lost)
/// tells of it. One with a key that is none, or is none any more, ends badly and changes nothing; some
/// networks break with the peer over it, which is told like any other loss. **Order.** There is none: who
/// wants one operation behind another waits for the one. **Atomics** are atomic towards each other over the
/// same fabric; not towards what the owner does with its memory by itself, nor over another fabric.
pub trait OneSided: Fabric {
    /// Memory of a peer, as its key tells: a few bytes.
    type Remote: Copy + fmt::Debug + Send + 'static;

    /// What can be done with memory of the peer at the end of the lane.
    fn abilities(&self, lane: Self::Lane) -> Abilities;

    /// How many elements one atomic may change over the lane; zero where there is none of this kind.
    /// `fetches`: what was there before is wanted.
    fn atomic_count_max(&self, lane: Self::Lane, atomic: Atomic, fetches: bool) -> usize;

    /// Lets peers use `memory`, until it is detached. The second value is its key, at most [`KEY_BYTES_MAX`]
    /// bytes, which travels to them by whatever way.
    ///
    /// # Errors
    /// [`Fault::Resources`](crate::Fault::Resources) where the memory cannot be registered, with the remedy.
    fn attach(&mut self, memory: UserMemory) -> Result<(Attached, Vec<u8>), FabricError>;

    /// Ends what [`OneSided::attach`] began. The caller has made sure that peers use the memory no more: an
    /// operation that comes later ends as failed, and one that is under way ends in either way and may still
    /// write, so that memory stays allocated until all have ended.
    fn detach(&mut self, attached: Attached);

    /// The memory that a key of the peer tells of; `None` where it is no key. It comes from outside and may
    /// be nonsense: what it claims is checked over there again.
    fn remote(&self, lane: Self::Lane, key: &[u8]) -> Option<Self::Remote>;

    /// Writes `from` to the peer's memory, `to.1` bytes behind its beginning. Until the operation has ended
    /// the memory behind `from` belongs to the fabric, as that of a get does; nothing is written to it, and
    /// it stays unchanged.
    fn put(&mut self, lane: Self::Lane, from: UserMemory, to: (Self::Remote, usize), ticket: u64) -> Begun;

    /// Reads as many bytes as `into` has room for. Until the operation has ended the memory behind it belongs
    /// to the fabric.
    fn get(&mut self, lane: Self::Lane, from: (Self::Remote, usize), into: UserMemory, ticket: u64) -> Begun;

    /// Changes elements of the peer's memory, each at one blow. Its place must be aligned for them.
    fn atomic(
        &mut self,
        lane: Self::Lane,
        atomic: Atomic,
        elements: Elements<'_>,
        there: (Self::Remote, usize),
        ticket: u64,
    ) -> Begun;
}

/// What an atomic works with on this side.
#[derive(Debug)]
pub struct Elements<'a> {
    /// How many elements are changed.
    pub count: usize,
    /// The elements that those over there are changed with, taken when the call returns; empty for one that
    /// only reads.
    pub operand: Payload<'a>,
    /// Those to compare with, likewise; empty for all that do not compare.
    pub compare: Payload<'a>,
    /// Where goes what was there before; empty where nobody wants it. It belongs to the fabric until the
    /// operation has ended.
    pub fetched: UserMemory,
}

impl Elements<'_> {
    /// Whether all have the length that the atomic needs.
    #[must_use]
    pub fn fit(&self, atomic: Atomic) -> bool {
        let bytes = self.count.checked_mul(atomic.scalar.bytes());
        let (has_operand, compares) = (atomic.change.has_operand(), atomic.change.compares());
        let wanted = |is_wanted: bool| if is_wanted { bytes } else { Some(0) };
        self.count > 0
            && Some(self.operand.bytes()) == wanted(has_operand)
            && Some(self.compare.bytes()) == wanted(compares)
            && (Some(self.fetched.bytes()) == bytes || self.fetched.bytes() == 0)
    }
}

/// The number of memory that peers may use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attached(pub u32);

/// What a lane can do with memory of a peer, besides atomics.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Abilities {
    /// Write it, and tell when it is written.
    pub put: bool,
    /// Read it.
    pub get: bool,
}

/// What became of an operation on memory of a peer.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// The operation has succeeded already.
    Done,
    /// The operation is under way; [`Sink::done`](crate::Sink::done) tells when it has ended.
    Underway,
    /// Nothing was taken; ask again after a `poll`.
    Busy,
    /// The fabric will not: it lacks this ability, the place is beyond the end or not aligned, or the peer is
    /// lost.
    Refused,
}

/// The longest key.
pub const KEY_BYTES_MAX: usize = 64;
