//! Messages that come in pieces although they could be read, since both sides copy then. A sender that does something else
//! would hold its receiver up; so a receiver to which no piece has come for a while reads the rest (decision 0032).
//!
//! Whoever reads says `done` as if all had come, and the sender takes back what it has not sent. Pieces that were on their way
//! are dropped: as many as there were bytes to read, unless the sender says earlier that no more of them come.
//!
//! One message of a peer comes so at a time, until nothing of it can come any more: so it has room in the fabric, no other
//! message waits behind it, and what is kept of what was read is bounded.

use std::collections::VecDeque;

use fabric::{Exposed, Peer, UserMemory};

use super::Core;
use crate::peers::{Arriving, Outgoing, Parcel, Then};
use crate::protocol::{Kind, Manner};
use crate::request::{Carrier, Outcome, RequestId, State};

/// The receives of such messages, and what is left of those that were read.
#[derive(Default)]
pub(crate) struct Readables {
    coming: VecDeque<Readable>,
    overtaken: Vec<Overtaken>,
    /// Turns of progress while some were coming.
    turn: u32,
}

/// A message that comes in pieces, and what it may be read by.
#[derive(Clone, Copy)]
pub(crate) struct Readable {
    pub receive: RequestId,
    pub from: Peer,
    pub send: RequestId,
    pub exposed: Exposed,
    /// The turn in which it was asked for, or its last piece has come.
    last_heard: u32,
}

/// A message of which these bytes were read while they may have been on their way.
struct Overtaken {
    receive: RequestId,
    from: Peer,
    /// Of what comes late, the next byte.
    next: u64,
    end: u64,
}

impl Readables {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.coming.is_empty()
    }

    /// Nothing more comes from a peer.
    pub(super) fn lose(&mut self, peer: Peer) {
        self.coming.retain(|readable| readable.from != peer);
        self.overtaken.retain(|overtaken| overtaken.from != peer);
    }

    /// Whether something of that peer may still come in pieces, be it that nobody wants it any more.
    fn concern(&self, peer: Peer) -> bool {
        self.coming.iter().any(|readable| readable.from == peer)
            || self.overtaken.iter().any(|late| late.from == peer)
    }

    /// A piece has come, and more are to come.
    fn heard_of(&mut self, receive: RequestId) {
        if let Some(readable) = self.coming.iter_mut().find(|readable| readable.receive == receive) {
            readable.last_heard = self.turn;
        }
    }

    /// The message is not to be read any more.
    pub(crate) fn forget(&mut self, receive: RequestId) {
        self.coming.retain(|readable| readable.receive != receive);
    }

    /// Whether that is the next piece of what was read meanwhile. It is counted then.
    pub(super) fn is_late(&mut self, from: Peer, receive: RequestId, offset: u64, bytes: usize) -> bool {
        let mut overtaken = self.overtaken.iter_mut().enumerate();
        let Some((at, late)) = overtaken.find(|(_, late)| late.receive == receive && late.from == from)
        else {
            return false;
        };
        let fits = offset == late.next && bytes > 0 && bytes as u64 <= late.end - late.next;
        if fits {
            late.next += bytes as u64;
            if late.next == late.end {
                self.overtaken.swap_remove(at);
            }
        }
        fits
    }

    /// The sender has taken the rest back; whether that is of something that was read.
    pub(super) fn no_more(&mut self, from: Peer, receive: RequestId) -> bool {
        let before = self.overtaken.len();
        self.overtaken.retain(|late| late.receive != receive || late.from != from);
        self.overtaken.len() < before
    }
}

impl<L> Core<L> {
    /// Whether a message of that peer may be asked for in pieces. One that had to be overtaken lately was elsewhere, and
    /// may be so again: some of its next messages are read at once.
    pub(crate) fn may_come_in_pieces(&mut self, from: Peer) -> bool {
        if self.readables.concern(from) {
            return false;
        }
        let Some(state) = self.peers.find(from) else { return false };
        let is_at_it = state.reads_due == 0;
        state.reads_due = state.reads_due.saturating_sub(1);
        is_at_it
    }

    /// Asks the sender for a message in pieces that can be read as well.
    pub(crate) fn ask_for_pieces(
        &mut self,
        from: Peer,
        (send, receive): (RequestId, RequestId),
        exposed: Exposed,
        wanted: usize,
    ) {
        self.carried_by(receive, Carrier::Pieces { arrived: 0, send: Some(send) });
        let last_heard = self.readables.turn;
        self.readables.coming.push_back(Readable { receive, from, send, exposed, last_heard });
        let wanted = Parcel::small(&(wanted as u64).to_le_bytes());
        self.reply(from, Kind::Clear { send, receive, manner: Manner::Readable }, wanted, Then::Nothing);
    }

    /// A piece of such a message has come; with the last, nothing is left to read, and its sender is told.
    pub(super) fn readable_piece_came(
        &mut self,
        from: Peer,
        send: RequestId,
        receive: RequestId,
        is_last: bool,
    ) {
        if !is_last {
            return self.readables.heard_of(receive);
        }
        self.readables.forget(receive);
        if let Some(state) = self.peers.find(from) {
            (state.reads_due, state.reads_next) = (0, 0);
        }
        self.reply(from, Kind::Done { send }, Parcel::small(&[]), Then::Nothing);
    }

    /// Counts a turn of progress, and looks at one of the messages, at another the next time: whether its pieces are
    /// overdue, where what is left to read begins, and the room for it.
    pub(crate) fn overdue(&mut self) -> Option<(Readable, usize, UserMemory)> {
        self.readables.turn = self.readables.turn.wrapping_add(1);
        let readable = self.readables.coming.pop_front()?;
        self.readables.coming.push_back(readable);
        if self.readables.turn.wrapping_sub(readable.last_heard) < QUIET_TURNS {
            return None;
        }
        let state = self.peers.find(readable.from)?;
        if matches!(state.arriving, Some(Arriving::Piece { .. })) {
            return None;
        }
        let Some(State::Landing { target, sent_bytes, by, .. }) = self.requests.find(readable.receive) else {
            self.readables.forget(readable.receive);
            return None;
        };
        let (arrived, wanted) = (by.arrived()?, target.bytes().min(*sent_bytes));
        let rest = target.row(arrived, wanted.saturating_sub(arrived))?;
        Some((readable, arrived, rest))
    }

    /// The rest of a message is being read, from `next` on and so many bytes: pieces of it are late from now on.
    pub(crate) fn overtake(&mut self, readable: &Readable, next: usize, bytes: usize) {
        let Readable { receive, from, .. } = *readable;
        self.readables.forget(receive);
        let (next, end) = (next as u64, next.saturating_add(bytes) as u64);
        self.readables.overtaken.push(Overtaken { receive, from, next, end });
        if let Some(state) = self.peers.find(from) {
            state.reads_due = state.reads_next.max(1);
            state.reads_next = state.reads_due.saturating_mul(2).min(READS_MAX);
        }
    }

    /// The receiver has all of a message, some pieces of which may still be here.
    pub(super) fn end_going(&mut self, to: Peer, send: RequestId) {
        if !self.cut_short(to, send, Then::Complete(send)) {
            return self.requests.complete(send, Outcome::sent());
        }
        // What the fabric has begun to take must be there until it is through.
        if let Some(state) = self.requests.find(send) {
            *state = State::Queued { to };
        }
    }

    /// Takes pieces back that are not sent, and tells their receiver. True where a piece is half sent: `then` is what happens
    /// when it is.
    pub(super) fn cut_short(&mut self, to: Peer, send: RequestId, then: Then) -> bool {
        let is_it = |outgoing: &Outgoing| outgoing.then == Then::Hear(send);
        let queued = self.peers.link(to).and_then(|link| {
            let at = link.queue.iter().position(is_it)?;
            Some((&mut link.queue, at))
        });
        let mut is_under_way = false;
        let pieces = if let Some((queue, at)) = queued {
            let Parcel::Pieces(pieces) = &mut queue[at].payload else { return false };
            let (receive, mut done, all) = (pieces.receive, pieces.done, pieces.wanted);
            if pieces.taken.is_some() {
                done = all.min(done.saturating_add(pieces.piece_bytes));
                pieces.wanted = done;
                queue[at].then = then;
                is_under_way = true;
            } else {
                queue.remove(at);
                if queue.is_empty() {
                    self.busy.retain(|&busy| busy != to);
                }
            }
            // Who gets all of them needs no word.
            (done < all).then_some((receive, done))
        } else {
            let at = self.outbox.iter().position(|(_, outgoing)| is_it(outgoing));
            at.and_then(|at| self.outbox.remove(at)).and_then(|(_, outgoing)| match outgoing.payload {
                Parcel::Pieces(pieces) => Some((pieces.receive, pieces.done)),
                _ => None,
            })
        };
        if let Some((receive, done)) = pieces {
            let bytes = Parcel::small(&(done as u64).to_le_bytes());
            self.reply(to, Kind::Brought { receive }, bytes, Then::Nothing);
        }
        is_under_way
    }
}

/// A sender that is at it sends a piece within a few turns. One that is not mostly computes for longer than it takes to
/// read.
const QUIET_TURNS: u32 = 64;
/// How many messages of a peer are read at once that had to be overtaken whenever pieces were tried.
const READS_MAX: u8 = 64;
