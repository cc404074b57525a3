//! Messages that were asked for: what goes when the receiver is ready, and the pieces of what comes.

use fabric::{Exposed, Heap, Limits, Payload, Peer, UserMemory};

use super::Core;
use crate::peers::{Arriving, Outgoing, Parcel, Pieces, Then};
use crate::protocol::{Kind, Manner};
use crate::request::{Carrier, Failure, Outcome, RequestId, State};
use crate::scattered::{Source, Target};

impl<L> Core<L> {
    /// The receiver is ready for a message that waits here. It goes in pieces if it is made or taken apart on its way, or
    /// where both sides shall copy it.
    pub(super) fn clear(
        &mut self,
        from: Peer,
        (send, receive): (RequestId, RequestId),
        manner: Manner,
        wanted: usize,
    ) {
        let Some((source, exposed)) = self.take_source(from, send, manner) else {
            return self.reject(from, "a clearance for a send that does not wait");
        };
        if let (Manner::Readable, Source::Row(payload)) = (manner, &source) {
            if let Some(state) = self.requests.find(send) {
                *state = State::Going { to: from, payload: *payload, exposed };
            }
            let piece_bytes = self.limits(from).map_or(1, |limits| limits.row_piece_bytes_max);
            return self.reply_in_pieces(from, source, receive, (wanted, piece_bytes), Then::Hear(send));
        }
        self.conceal(from, exposed);
        let then = Then::Complete(send);
        match source {
            Source::Row(payload) if manner == Manner::Whole => {
                self.reply(from, Kind::Data { receive }, Parcel::User(payload.part(0, wanted)), then);
            }
            source => {
                let piece_bytes = self.limits(from).map_or(1, |limits| limits.piece_bytes_max);
                self.reply_in_pieces(from, source, receive, (wanted, piece_bytes), then);
            }
        }
    }

    /// The message of a send that waits for `from`, and what it may be read by. The send is queued from then on.
    fn take_source(&mut self, from: Peer, send: RequestId, manner: Manner) -> Option<(Source, Exposed)> {
        let state = self.requests.find(send)?;
        match std::mem::replace(state, State::Queued { to: from }) {
            State::AwaitingReceiver { to, source, exposed, .. } if to == from => Some((source, exposed)),
            // The receiver could not read the rest, and wants all of it, as one: that follows a piece that is half sent, and
            // ends the send. Were it pieces that the receiver ends, the half one would outlive the send.
            State::Going { to, payload, exposed } if to == from && manner == Manner::Whole => {
                self.cut_short(from, send, Then::Nothing);
                Some((Source::Row(payload), exposed))
            }
            other => {
                *state = other;
                None
            }
        }
    }

    fn limits(&mut self, peer: Peer) -> Option<Limits> {
        self.peers.link(peer).map(|link| link.limits)
    }

    /// `wanted` are the bytes of the message, and those of a piece.
    fn reply_in_pieces(
        &mut self,
        to: Peer,
        source: Source,
        receive: RequestId,
        (wanted, piece_bytes): (usize, usize),
        then: Then,
    ) {
        let pieces = Pieces {
            wanted: wanted.min(source.bytes()),
            source,
            receive,
            done: 0,
            piece_bytes: piece_bytes.max(1),
            taken: None,
            made: None,
        };
        // Each piece has a header of its own.
        let header = Kind::Piece { receive, offset: 0 }.header();
        let payload = Parcel::Pieces(Box::new(pieces));
        self.outbox.push_back((to, Outgoing { header, payload, taken: None, then }));
    }

    /// Whether the message of a receive is taken apart while it comes.
    pub(super) fn is_scattered(&mut self, receive: RequestId) -> bool {
        let state = self.requests.find(receive);
        matches!(state, Some(State::Landing { target: Target::Scattered(_), .. }))
    }

    /// The target of a piece, if the piece is the next one.
    fn due(&mut self, from: Peer, receive: RequestId, offset: u64, bytes: usize) -> Option<&mut Target> {
        let Some(State::Landing { from: expected, target, sent_bytes, by, .. }) = self.requests.find(receive)
        else {
            return None;
        };
        let arrived = by.arrived()?;
        let left = target.bytes().min(*sent_bytes) - arrived;
        (*expected == from && offset == arrived as u64 && 0 < bytes && bytes <= left).then_some(target)
    }

    /// A piece of a message, as a whole.
    pub(super) fn piece(&mut self, from: Peer, receive: RequestId, offset: u64, payload: Payload<'_>) {
        if self.readables.is_late(from, receive, offset, payload.bytes()) {
            return;
        }
        match self.due(from, receive, offset, payload.bytes()) {
            Some(target) => {
                target.write_at(offset as usize, payload);
                self.count_piece(receive, payload.bytes());
            }
            None => self.reject(from, "a piece of a message that is not the next one"),
        }
    }

    /// Where a piece goes that comes in pieces itself.
    pub(super) fn arriving_piece(
        &mut self,
        from: Peer,
        receive: RequestId,
        offset: u64,
        bytes: usize,
    ) -> (UserMemory, Arriving) {
        if self.readables.is_late(from, receive, offset, bytes) {
            return (UserMemory::EMPTY, Arriving::Late);
        }
        let Some(target) = self.due(from, receive, offset, bytes) else {
            return (UserMemory::EMPTY, Arriving::Dropped);
        };
        if let Some(memory) = target.row(offset as usize, bytes) {
            return (memory, Arriving::Piece { receive, bytes, staged: None });
        }
        let heap = self.pool.take(bytes);
        (heap.memory(), Arriving::Piece { receive, bytes, staged: Some(heap) })
    }

    /// A piece that came in pieces is here.
    pub(super) fn piece_landed(
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
        self.count_piece(receive, bytes);
    }

    /// One more piece of a message is in its place; with the last, the receive is over.
    fn count_piece(&mut self, receive: RequestId, bytes: usize) {
        let Some(State::Landing { from, target, sent_bytes, by, .. }) = self.requests.find(receive) else {
            return;
        };
        // Whoever else brings it by now, it is not this piece.
        let Some(before) = by.arrived() else { return };
        let (from, arrived) = (*from, before + bytes);
        let send = if let Carrier::Pieces { send, .. } = *by { send } else { None };
        *by = Carrier::Pieces { arrived, send };
        let is_last = arrived == target.bytes().min(*sent_bytes);
        if let Some(send) = send {
            self.readable_piece_came(from, send, receive, is_last);
        }
        if is_last {
            self.finish_landing(receive);
        }
    }
}
