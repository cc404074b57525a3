//! Messages that were asked for: what goes when the receiver is ready, and the chunks of what comes.

use fabric::{Heap, Payload, Peer, UserMemory};

use super::{Core, EAGER_BYTES_CEILING};
use crate::peers::{Arriving, Chunks, Outgoing, Parcel, Then};
use crate::protocol::Kind;
use crate::request::{Carrier, Failure, Outcome, RequestId, State};
use crate::scattered::{Source, Target};

impl<L> Core<L> {
    /// The receiver is ready for a message that waits here. It goes in chunks if it is made or taken apart on
    /// its way.
    pub(super) fn clear(
        &mut self,
        from: Peer,
        (send, receive): (RequestId, RequestId),
        in_chunks: bool,
        wanted: usize,
    ) {
        let state = match self.requests.find(send) {
            Some(state @ State::AwaitingReceiver { .. }) => state,
            _ => return self.reject(from, STRAY_CLEARANCE),
        };
        let (source, exposed) = match std::mem::replace(state, State::Queued { to: from }) {
            State::AwaitingReceiver { to, source, exposed, .. } if to == from => (source, exposed),
            other => {
                *state = other;
                return self.reject(from, STRAY_CLEARANCE);
            }
        };
        self.deregister_memory(from, exposed);
        let then = Then::Complete(send);
        match source {
            Source::Row(payload) if !in_chunks => {
                self.reply(from, Kind::Data { receive }, Parcel::User(payload.part(0, wanted)), then);
            }
            source => self.reply_in_chunks(from, source, receive, wanted, then),
        }
    }

    fn reply_in_chunks(&mut self, to: Peer, source: Source, receive: RequestId, wanted: usize, then: Then) {
        let limits = self.peers.link(to).map(|link| link.limits);
        let chunks = Chunks {
            wanted: wanted.min(source.bytes()),
            source,
            receive,
            done: 0,
            chunk_bytes: limits.map_or(1, |limits| limits.chunk_bytes_max.max(1)),
            taken: None,
            made: None,
        };
        // Each chunk has a header of its own.
        let header = Kind::Chunk { receive, offset: 0 }.header();
        let payload = Parcel::Chunks(Box::new(chunks));
        self.outbox.push_back((to, Outgoing { header, payload, taken: None, then }));
    }

    /// Whether the message of a receive is taken apart while it comes.
    pub(super) fn is_scattered(&mut self, receive: RequestId) -> bool {
        let state = self.requests.find(receive);
        matches!(state, Some(State::Landing { target: Target::Scattered(_), .. }))
    }

    /// The target of a chunk, if the chunk is the next one.
    fn due(&mut self, from: Peer, receive: RequestId, offset: u64, bytes: usize) -> Option<&mut Target> {
        let Some(State::Landing { from: expected, target, sent_bytes, by, .. }) = self.requests.find(receive)
        else {
            return None;
        };
        let arrived = by.arrived()?;
        let left = target.bytes().min(*sent_bytes) - arrived;
        (*expected == from && offset == arrived as u64 && 0 < bytes && bytes <= left).then_some(target)
    }

    /// A chunk of a message, as a whole.
    pub(super) fn chunk(&mut self, from: Peer, receive: RequestId, offset: u64, payload: Payload<'_>) {
        match self.due(from, receive, offset, payload.bytes()) {
            Some(target) => {
                target.write_at(offset as usize, payload);
                self.count_chunk(receive, payload.bytes());
            }
            None => self.reject(from, "a chunk of a message that is not the next one"),
        }
    }

    /// Where a chunk goes that comes in chunks itself.
    pub(super) fn arriving_chunk(
        &mut self,
        from: Peer,
        receive: RequestId,
        offset: u64,
        bytes: usize,
    ) -> (UserMemory, Arriving) {
        let Some(target) = self.due(from, receive, offset, bytes) else {
            return (UserMemory::EMPTY, Arriving::Dropped);
        };
        if let Some(memory) = target.row(offset as usize, bytes) {
            return (memory, Arriving::Chunk { receive, bytes, staged: None });
        }
        if bytes > EAGER_BYTES_CEILING {
            // No room is made for what a peer only says; chunks that weft sends are shorter.
            return (UserMemory::EMPTY, Arriving::Dropped);
        }
        let heap = self.pool.take(bytes);
        (heap.memory(), Arriving::Chunk { receive, bytes, staged: Some(heap) })
    }

    /// A chunk that came in chunks is here.
    pub(super) fn chunk_landed(
        &mut self,
        from: Peer,
        (receive, bytes): (RequestId, usize),
        staged: Option<Heap>,
    ) {
        if let Some(error) = self.lost(from) {
            // It was spared while its memory was in use.
            return self.requests.complete(receive, Outcome::failed(Failure::Lost(error)));
        }
        if let Some(heap) = staged
            && let Some(State::Landing { target, by, .. }) = self.requests.find(receive)
            && let Some(arrived) = by.arrived()
        {
            target.write_at(arrived, heap.payload());
        }
        self.count_chunk(receive, bytes);
    }

    /// One more chunk of a message is in its place; with the last, the receive is over.
    fn count_chunk(&mut self, receive: RequestId, bytes: usize) {
        let Some(State::Landing { target, sent_bytes, by, .. }) = self.requests.find(receive) else { return };
        // Whoever else brings it by now, it is not this chunk.
        let Some(before) = by.arrived() else { return };
        let arrived = before + bytes;
        *by = Carrier::Chunks { arrived };
        if arrived == target.bytes().min(*sent_bytes) {
            self.finish_landing(receive);
        }
    }
}

const STRAY_CLEARANCE: &str = "a clearance for a send that does not wait";
