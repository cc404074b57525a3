//! The trait every fabric implements, and the words it is written in.

use std::fmt;
use std::time::Duration;

use crate::memory::{Payload, UserMemory};

/// A process of the job, known by a number that never changes. Not a rank: a rank is a place in a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u32);

/// What a fabric carries ahead of a payload: 24 bytes that it brings over unchanged and never looks into.
///
/// With 8 bytes of a ring's own this leaves 32 bytes for payload in one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Header {
    /// Six words whose meaning belongs to the layer above.
    pub words: [u32; 6],
}

/// How to reach one peer over one fabric. Any small `Copy` type is a lane.
pub trait Lane: Copy + fmt::Debug + Send + 'static {}
impl<T: Copy + fmt::Debug + Send + 'static> Lane for T {}

/// A way to move bytes between peers.
///
/// **Order.** Messages posted on one lane arrive in the order they were posted. Nothing is said about
/// different peers. **Reliability.** Every message for which [`Posted::Sent`] was answered arrives once and
/// unchanged, or [`Sink::lost`] tells of the peer. **Progress.** Only `post`, `resume`, `pull` and `poll` do
/// anything; a fabric has no threads. **Blocking.** No call waits for another process, except `connect`
/// within its own time limit.
pub trait Fabric: Send {
    /// How to reach one peer: a few bytes, chosen by `connect`.
    type Lane: Lane;
    /// What a waiting thread sleeps on.
    type Bell: Bell;

    /// A short name for messages to people: `shm`, `tcp`.
    fn name(&self) -> &'static str;

    /// What others need to reach this process, for their `reach` and `connect`. Opaque, at most 512 bytes.
    fn address(&self) -> Vec<u8>;

    /// Whether `peer` with that address can be reached, and at what cost; `None` where it cannot.
    /// Cheap, and makes no connection. `address` comes from outside and may be nonsense.
    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost>;

    /// Chooses the lane to `peer`. Called once per peer, at the first message in either direction.
    ///
    /// # Errors
    /// [`Fault::Unreachable`], [`Fault::BadAddress`] and [`Fault::Resources`], in words for a person.
    fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<Self::Lane, FabricError>;

    /// What may be posted on the lane.
    fn limits(&self, lane: Self::Lane) -> Limits;

    /// Sends a message of one header and any number of payload bytes.
    ///
    /// After [`Posted::Sent`] the payload's memory is free again. After [`Posted::Partly`]`(n)` the header
    /// and the first `n` bytes are taken; the caller must go on with `resume(lane, rest)` before it posts
    /// anything else on this lane, and the rest must be the same bytes. After [`Posted::Busy`] nothing was
    /// taken; ask again after a `poll`.
    fn post(&mut self, lane: Self::Lane, header: &Header, payload: Payload<'_>) -> Posted;

    /// Goes on with the message that `post` took partly; `rest` is what was not taken yet, never empty.
    /// Nothing taken is [`Posted::Busy`], so that a caller who goes on while there is progress does not go on
    /// for ever.
    fn resume(&mut self, lane: Self::Lane, rest: Payload<'_>) -> Posted;

    /// Sends a message whose payload of `bytes` bytes `write` puts into memory of the fabric, which is the
    /// room that it is given: so it need not stand in a row anywhere before. [`Posted::Sent`] and
    /// [`Posted::Busy`] mean what they mean for `post`, and a message is never taken partly. `None` where the
    /// fabric has no such memory for that many bytes: nothing has happened, and `post` does it. `write` is
    /// called at most once, and writes all of it.
    fn post_made(
        &mut self,
        _lane: Self::Lane,
        _header: &Header,
        _bytes: usize,
        _write: impl FnOnce(&mut UserMemory),
    ) -> Option<Posted> {
        None
    }

    /// Reports what has come, at most about `events` of it, and moves what is under way.
    /// Returns the number of things that happened; 0 means that nothing did.
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize;

    /// Shows `reader` the next message of the peer at the end of `lane`, if it is there as a whole, and
    /// reports nothing else. A message that `reader` answers with `None` stays where it is, for a `poll`.
    ///
    /// A look costs less than a `poll` and must not be the only thing that is done. It may miss what is
    /// there; where `limits(lane).look` does not hold, it always does.
    fn look<R>(
        &mut self,
        _lane: Self::Lane,
        _reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> Looked<R> {
        Looked::Nothing
    }

    /// Looks for peers that have ended without a word. Called by a thread that has waited for a while. The
    /// peers that it finds are reported by the next `poll` as [`Sink::lost`]. True where it is worth to
    /// connect to peers that are waited for and were never spoken to, since this fabric cannot look for them
    /// otherwise.
    fn call_roll(&mut self) -> bool {
        false
    }

    /// Notes that the process `peer` has ended, as the caller knows for sure. True: the next `poll` reports
    /// it as [`Sink::lost`], unless one has already. False where this fabric does not reach that peer. Called
    /// after the messages that the peer has sent were polled.
    fn bury(&mut self, _peer: Peer, _error: FabricError) -> bool {
        false
    }

    /// What a thread sleeps on when nothing comes.
    fn bell(&self) -> Self::Bell;

    /// Describes `memory`, so that the peer at the end of `lane` may read it while the description is in use,
    /// where `limits(lane).pull` holds there. The caller keeps the memory alive until the peer has said that
    /// it is done or is lost, and then says so by [`Fabric::deregister_memory`]. The answer is the default
    /// where the memory cannot be read.
    fn register_memory(&mut self, _lane: Self::Lane, _memory: Payload<'_>) -> Exposed {
        Exposed::default()
    }

    /// Ends the registration `_exposed`: the peer does not read that memory any more.
    fn deregister_memory(&mut self, _peer: Peer, _exposed: Exposed) {}

    /// Reads `into.bytes()` bytes of what the peer exposed, from `offset` on. `exposed` comes from the peer
    /// and is checked by the fabric or by the kernel, never believed.
    ///
    /// Where [`Pulled::Underway`] is answered, the bytes come later, and [`Sink::pulled`] tells with `ticket`
    /// when they have. Until then the memory behind `into` belongs to the fabric.
    fn pull(
        &mut self,
        _lane: Self::Lane,
        _exposed: Exposed,
        _offset: usize,
        _into: &mut UserMemory,
        _ticket: u64,
    ) -> Pulled {
        Pulled::Refused
    }

    /// Whether a payload that is longer than what is sent at once is better sent so nevertheless: all of it
    /// is taken at one stroke now, and is there sooner than if it were pulled.
    fn takes_at_once(&mut self, _lane: Self::Lane, _payload: Payload<'_>) -> bool {
        false
    }

    /// Whether `_bytes` bytes that the peer has registered arrive sooner if the peer posts them than if this
    /// side pulls them, where the peer does nothing else meanwhile.
    fn rather_posted(&mut self, _lane: Self::Lane, _exposed: Exposed, _bytes: usize) -> bool {
        false
    }

    /// Describes `into` so that the peer who exposed a message may bring parts of it there while this side
    /// pulls others ([`Fabric::pull_shared`]). `None` where that cannot be, or is not worth it: then `pull`
    /// does it all.
    fn invite(&mut self, _lane: Self::Lane, _exposed: Exposed, _into: &UserMemory) -> Option<Exposed> {
        None
    }

    /// Pulls what the peer exposed, but for the parts that it brings itself, following `invitation`.
    fn pull_shared(
        &mut self,
        _lane: Self::Lane,
        _exposed: Exposed,
        _invitation: Exposed,
        _into: &mut UserMemory,
    ) -> PulledShared {
        PulledShared::Refused { peer_brings: false }
    }

    /// Brings parts of `memory`, which this process has exposed, to a peer that has sent the invitation,
    /// until all are taken care of. `invitation` comes from the peer and is checked by the fabric or by the
    /// kernel.
    fn bring(&mut self, _lane: Self::Lane, _invitation: Exposed, _memory: Payload<'_>) -> Brought {
        Brought { claimed: false, bytes: 0 }
    }

    /// Moves what is still under way to the network; true when nothing is left.
    fn flush(&mut self) -> bool {
        true
    }

    /// Moves what is still under way to the network, and tells peers that this process leaves, where that
    /// spares them to wait for it. True when nothing is left. The engine calls it until it is true, with
    /// polls between, and posts nothing any more.
    fn leave(&mut self) -> bool {
        self.flush()
    }
}

/// Where a fabric puts what has come. Implemented by the engine; a test can implement it in ten lines.
///
/// None of these calls may post. They note what to answer, and the next turn of progress answers.
pub trait Sink {
    /// A whole message. The payload is gone when this returns.
    fn message(&mut self, from: Peer, header: &Header, payload: Payload<'_>);

    /// The beginning of a message of `bytes` payload bytes that comes in chunks. The answer is where the
    /// fabric writes them; where the room is smaller, the rest is dropped. One message per peer can be under
    /// way.
    fn arriving(&mut self, from: Peer, header: &Header, bytes: usize) -> UserMemory;

    /// The message that was arriving from this peer is complete.
    fn landed(&mut self, from: Peer);

    /// Whether what somebody waits for has come: a fabric may stop here and leave the rest for the next
    /// `poll`, where it costs no copy if its receive is posted by then.
    fn enough(&self) -> bool {
        false
    }

    /// A pull that was under way is over. `whole`: all bytes are in place; else nothing can be said of them.
    fn pulled(&mut self, _from: Peer, _ticket: u64, _whole: bool) {}

    /// An operation on memory of a peer that was under way is over ([`OneSided`](crate::OneSided)), well or
    /// not.
    fn done(&mut self, _peer: Peer, _ticket: u64, _outcome: Result<(), FabricError>) {}

    /// Nothing more will come from this peer or reach it; what was arriving will not land. Pulls from it and
    /// operations on its memory that were under way have been told of before.
    fn lost(&mut self, peer: Peer, error: FabricError);
}

/// What became of a message. A full queue is daily life, so it is an answer and not an error.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// All of it is taken; the payload's memory is free.
    Sent,
    /// The header and this many payload bytes are taken (on `resume`: this many of the rest).
    Partly(usize),
    /// Nothing is taken.
    Busy,
}

/// What a look has found.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked<R> {
    /// Nothing.
    Nothing,
    /// A message, which the reader took.
    Taken(R),
    /// Something for a `poll`.
    Left,
}

/// What became of a pull.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// All bytes are in place.
    Done,
    /// The bytes are on their way; [`Sink::pulled`] tells when they have come.
    Underway,
    /// The fabric or the kernel will not; nothing can be said of the bytes in `into`. Use messages instead.
    Refused,
}

/// What became of a pull that the peer was invited to.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PulledShared {
    /// This side has put that many bytes in place; the peer brings the others, and says when it has.
    Own(usize),
    /// The fabric or the kernel will not; nothing can be said of the bytes in `into`.
    Refused {
        /// The peer may still be writing, and will say when it has done so.
        peer_brings: bool,
    },
}

/// What became of an invitation.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brought {
    /// Whether parts were taken on, so that the peer waits to hear of them.
    pub claimed: bool,
    /// Bytes that are in place over there; fewer than were taken on where the kernel refused.
    pub bytes: usize,
}

/// What a lane can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Up to here a payload is best sent at once (eager); above, it should wait for its receiver.
    pub eager_bytes_max: usize,
    /// A message that is made while it goes, or taken apart while it comes, is best sent in chunks of this
    /// many bytes.
    pub chunk_bytes_max: usize,
    /// Whether `pull` over this lane is worth trying.
    pub pull: bool,
    /// Whether `look` may find something.
    pub look: bool,
}

/// The price of a lane, to choose between fabrics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cost {
    /// Half of a round trip of a few bytes, in nanoseconds; the smaller wins.
    pub latency_ns: u32,
    /// Time for one mebibyte, in nanoseconds; decides between equals.
    pub mebibyte_ns: u32,
}

/// The description of exposed memory, carried to the peer inside a payload: 16 opaque bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Exposed {
    /// Two words whose meaning belongs to the fabric.
    pub words: [u64; 2],
}

/// What a waiting thread sleeps on: a futex, a poller. Usable without the fabric, so that no lock is held
/// asleep.
///
/// The order of calls: `arm`, then look once more for work, then `sleep` if there is none, then `disarm`.
/// Whatever arrives after `arm` makes `sleep` return at once or soon.
pub trait Bell: Clone + Send + Sync + 'static {
    /// Says that somebody is about to sleep; the answer is for `sleep`.
    fn arm(&self) -> u32;
    /// Sleeps until something may have come, or for `at_most`.
    fn sleep(&self, armed: u32, at_most: Duration);
    /// Says that nobody sleeps any more.
    fn disarm(&self);
    /// Wakes the sleepers of this process: another of its threads has completed what they may be waiting for.
    fn ring(&self);
}

/// The bell of fabrics that run in one thread: it never sleeps.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unbelled;

impl Bell for Unbelled {
    fn arm(&self) -> u32 {
        0
    }
    fn sleep(&self, _armed: u32, _at_most: Duration) {}
    fn disarm(&self) {}
    fn ring(&self) {}
}

/// What went wrong in a fabric, and whose fault it is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{fabric}: {what}")]
pub struct FabricError {
    /// The fabric's name.
    pub fabric: &'static str,
    /// The kind of fault, for the error class.
    pub fault: Fault,
    /// One sentence for a person: what, with whom (host, address), and the system's reason. A second sentence
    /// after a newline is the remedy.
    pub what: String,
}

/// Whose fault an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer cannot be reached.
    Unreachable,
    /// The peer was there and is gone.
    Died,
    /// What came as an address is none.
    BadAddress,
    /// Memory, descriptors or another resource is exhausted.
    Resources,
    /// The peer sent or wrote what it must not.
    Protocol,
    /// The operating system refused something.
    System,
}
