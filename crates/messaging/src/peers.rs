//! What the engine remembers of each peer: nothing of the silent ones.

use std::collections::VecDeque;

use fabric::{Header, Heap, Limits, Payload, Peer};

use crate::request::RequestId;
use crate::scattered::Source;

/// Peers by number, in blocks of pointers that appear with the first peer in them: a job of a million silent
/// peers costs 128 KiB of empty block pointers, and nothing else; a peer that speaks costs its state and a
/// share of 512 bytes.
pub(crate) struct PeerTable<L> {
    blocks: Vec<Option<Box<Block<L>>>>,
    peers: u32,
}

type Block<L> = [Option<Box<PeerState<L>>>; BLOCK_PEERS];

/// One peer that has spoken or was spoken to.
pub(crate) struct PeerState<L> {
    /// How to reach it, once somebody wanted to.
    pub link: Option<Link<L>>,
    /// The message from it that is coming in chunks.
    pub arriving: Option<Arriving>,
    /// It was told to send requests only.
    pub choked: bool,
    /// It is gone, and why.
    pub lost: Option<fabric::FabricError>,
}

/// The peer is gone.
pub(crate) struct Lost;

/// The way to a peer, and what waits to go it.
pub(crate) struct Link<L> {
    pub lane: L,
    pub limits: Limits,
    /// A payload shorter than this goes at once; 0 while the peer is choked.
    pub eager_bytes_end: usize,
    pub queue: VecDeque<Outgoing>,
}

impl<L> Link<L> {
    /// Whether a message of so many bytes may go to the fabric now: nothing waits before it, and it is short.
    #[inline(always)]
    pub(crate) fn is_free_for(&self, bytes: usize) -> bool {
        self.queue.is_empty() && bytes < self.eager_bytes_end
    }
}

/// A message that the fabric has not taken whole.
pub(crate) struct Outgoing {
    pub header: Header,
    pub payload: Parcel,
    /// Payload bytes taken so far, once the header is.
    pub taken: Option<usize>,
    pub then: Then,
}

/// What happens when an outgoing message is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// The send is complete.
    Complete(RequestId),
    /// The send waits to be matched, in that context and under that tag.
    AwaitReceiver(RequestId, u32, i32),
    /// The send was cancelled while the message went, and the receiver is asked for it back behind it: the
    /// send waits to be matched or to come back, in that context and under that tag.
    AwaitAnswer(RequestId, u32, i32),
}

/// Where an outgoing payload stands.
pub(crate) enum Parcel {
    /// In the user's memory, claimed until the request completes.
    User(Payload<'static>),
    /// A few bytes of the engine's own.
    Small { bytes: [u8; SMALL_BYTES_MAX], length: u8 },
    /// In memory of our own, where a short message was made.
    Packed(Heap),
    /// Wherever; it goes as several messages, each with a header of its own.
    Chunks(Box<Chunks>),
}

/// A message on its way in chunks to a receive that was cleared for it.
pub(crate) struct Chunks {
    pub source: Source,
    pub receive: RequestId,
    /// Bytes that the receiver has room for.
    pub wanted: usize,
    /// Bytes of the chunks that are gone.
    pub done: usize,
    /// The length of all chunks but the last.
    pub chunk_bytes: usize,
    /// Bytes of the next chunk that the fabric has taken.
    pub taken: Option<usize>,
    /// Where chunks are made for a fabric that has no memory for them.
    pub made: Option<Heap>,
}

impl Parcel {
    pub(crate) fn small(data: &[u8]) -> Parcel {
        let mut bytes = [0; SMALL_BYTES_MAX];
        bytes[..data.len()].copy_from_slice(data);
        Parcel::Small { bytes, length: data.len() as u8 }
    }

    pub(crate) fn payload(&self) -> Payload<'_> {
        match self {
            Parcel::User(payload) => *payload,
            Parcel::Small { bytes, length } => Payload::from(&bytes[..usize::from(*length)]),
            Parcel::Packed(heap) => heap.payload(),
            Parcel::Chunks(_) => Payload::EMPTY,
        }
    }
}

/// Where a message that comes in chunks goes.
pub(crate) enum Arriving {
    /// Straight into a posted receive.
    Posted(RequestId),
    /// Into memory of our own: its receive is not posted yet.
    Unexpected(u32, Heap),
    /// Into memory of our own; its receive was posted meanwhile and gets a copy.
    Following(RequestId, Heap),
    /// A chunk of that length for a receive: straight there, or by way of memory of our own.
    Chunk { receive: RequestId, bytes: usize, staged: Option<Heap> },
    /// Into memory of our own: a message of the protocol itself.
    Control(Header, Heap),
    /// Nowhere: nobody waits for it.
    Dropped,
}

impl<L> PeerTable<L> {
    pub(crate) fn new(peers: u32) -> PeerTable<L> {
        let blocks = (peers as usize).div_ceil(BLOCK_PEERS);
        PeerTable { blocks: (0..blocks).map(|_| None).collect(), peers }
    }

    /// How many the job has.
    pub(crate) fn count(&self) -> u32 {
        self.peers
    }

    /// Whether the job has that peer.
    pub(crate) fn knows(&self, peer: Peer) -> bool {
        peer.0 < self.peers
    }

    #[inline]
    pub(crate) fn find(&mut self, peer: Peer) -> Option<&mut PeerState<L>> {
        let at = peer.0 as usize;
        self.blocks.get_mut(at / BLOCK_PEERS)?.as_mut()?[at % BLOCK_PEERS].as_deref_mut()
    }

    /// The lane to a peer for looks at what comes from it, where there is one.
    ///
    /// # Errors
    /// [`Lost`] where the peer is.
    #[inline(always)]
    pub(crate) fn way_back(&mut self, peer: Peer) -> Result<Option<L>, Lost>
    where
        L: Copy,
    {
        let Some(state) = self.find(peer) else { return Ok(None) };
        match &state.link {
            Some(link) => Ok(link.limits.look.then_some(link.lane)),
            None if state.lost.is_some() => Err(Lost),
            None => Ok(None),
        }
    }

    #[inline]
    pub(crate) fn link(&mut self, peer: Peer) -> Option<&mut Link<L>> {
        self.find(peer)?.link.as_mut()
    }

    /// The peer's state, made if it was silent until now. The peer must be one of the job's.
    pub(crate) fn state(&mut self, peer: Peer) -> &mut PeerState<L> {
        let at = peer.0 as usize;
        let block =
            self.blocks[at / BLOCK_PEERS].get_or_insert_with(|| Box::new(std::array::from_fn(|_| None)));
        block[at % BLOCK_PEERS].get_or_insert_with(|| {
            Box::new(PeerState { link: None, arriving: None, choked: false, lost: None })
        })
    }
}

const BLOCK_PEERS: usize = 64;
/// The longest payload that the engine makes up itself: an offer.
const SMALL_BYTES_MAX: usize = crate::protocol::OFFER_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_peers_cost_nothing_but_a_pointer_per_block() {
        let mut table = PeerTable::<()>::new(1 << 20);
        assert_eq!(table.blocks.len() * size_of::<usize>(), 128 << 10);
        assert!(table.find(Peer(77)).is_none());
        table.state(Peer(77)).choked = true;
        assert_eq!(table.blocks.iter().flatten().count(), 1);
        assert!(table.find(Peer(77)).is_some_and(|state| state.choked));
        assert!(!table.knows(Peer(1 << 20)));
    }
}
