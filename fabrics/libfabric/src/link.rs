//! What is known of a peer.

use std::collections::BTreeMap;

use fabric::{FabricError, Payload, Peer, Sink, UserMemory};
use libfabric_sys::Address;

use crate::wire::{Frame, length};

/// A peer.
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) state: State,
    /// Where it is; `None` while only messages have come that were sent after its hello.
    pub(crate) there: Option<There>,
    /// How many messages have gone there; the first is a hello.
    pub(crate) sent: u32,
    /// How many have come from there, in order.
    pub(crate) heard: u32,
    /// So many of them have left for sure: they were told of, or went before one that was.
    pub(crate) confirmed: u32,
    /// It has left the job in good order: nothing need go there, and nothing may.
    pub(crate) has_left: bool,
    /// It was told that this process leaves.
    pub(crate) knows_farewell: bool,
    /// A message that comes in pieces.
    pub(crate) incoming: Option<Box<Incoming>>,
    /// Messages of which the provider has told too early.
    early: BTreeMap<u32, Vec<u8>>,
    /// For messages to people.
    pub(crate) host_name: Box<str>,
}

/// Where a peer is, and what opens its door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct There {
    pub(crate) address: Address,
    pub(crate) seal: u32,
}

pub(crate) enum State {
    Open,
    /// Lost, and the sink does not know yet.
    Failing(Box<FabricError>),
    /// Lost, and told.
    Lost,
}

/// A message that comes in pieces.
pub(crate) struct Incoming {
    room: UserMemory,
    bytes: usize,
    /// How many of them have come.
    come: usize,
}

/// What a piece of a message has made of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// More is to come.
    Part,
    /// It is there.
    Last,
    /// It belongs to nothing.
    Wrong,
    /// It begins a message that has no length, or less than itself.
    Endless,
}

/// When a message's turn is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Now,
    /// Others must come before.
    Later,
    /// It came before, or so far ahead that it cannot be.
    Never,
}

impl Link {
    pub(crate) fn new(peer: Peer) -> Link {
        Link {
            peer,
            state: State::Open,
            there: None,
            sent: 0,
            heard: 0,
            confirmed: 0,
            has_left: false,
            knows_farewell: false,
            incoming: None,
            early: BTreeMap::new(),
            host_name: "?".into(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether something was injected of which nobody has told whether it has left.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.confirmed != self.sent
    }

    /// The message of that number has left, and with it all before it.
    pub(crate) fn confirm(&mut self, sequence: u32) {
        let confirmed = sequence.wrapping_add(1);
        if confirmed.wrapping_sub(self.confirmed) <= self.sent.wrapping_sub(self.confirmed) {
            self.confirmed = confirmed;
        }
    }

    /// Whether anything that was sent must still arrive.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.is_open() && !self.has_left
    }

    /// Whether the message that is the `sequence`th from this peer is the next.
    #[inline]
    pub(crate) fn turn_of(&self, sequence: u32) -> Turn {
        match sequence.wrapping_sub(self.heard) {
            0 => Turn::Now,
            1..EARLY_MAX => Turn::Later,
            _ => Turn::Never,
        }
    }

    /// Keeps a message whose turn has not come.
    #[cold]
    pub(crate) fn keep(&mut self, sequence: u32, message: Vec<u8>) {
        self.early.insert(sequence, message);
    }

    /// The next message, if it came early.
    pub(crate) fn take_early(&mut self) -> Option<Vec<u8>> {
        self.early.remove(&self.heard)
    }

    #[inline]
    pub(crate) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Begins with a message, and takes its first piece.
    pub(crate) fn begin(&mut self, frame: &Frame, payload: Payload<'_>, sink: &mut impl Sink) -> Piece {
        let Some((bytes, first)) = length(payload).filter(|(bytes, first)| first.bytes() <= *bytes) else {
            return Piece::Endless;
        };
        let room = sink.arriving(self.peer, &frame.header, bytes);
        self.incoming = Some(Box::new(Incoming { room, bytes, come: 0 }));
        if first.bytes() == 0 { Piece::Part } else { self.take_piece(first) }
    }

    /// Takes the next piece of a message.
    pub(crate) fn take_piece(&mut self, piece: Payload<'_>) -> Piece {
        let Some(incoming) = &mut self.incoming else { return Piece::Wrong };
        if piece.bytes() == 0 || piece.bytes() > incoming.bytes - incoming.come {
            return Piece::Wrong;
        }
        incoming.room.write_at(incoming.come, piece);
        incoming.come += piece.bytes();
        if incoming.come < incoming.bytes {
            return Piece::Part;
        }
        self.incoming = None;
        Piece::Last
    }

    /// Forgets what has come and was not told, of a peer that is lost.
    pub(crate) fn forget(&mut self) {
        self.early.clear();
        self.incoming = None;
    }
}

/// How far ahead of its turn a message may be told of; no provider tells of so many out of order.
const EARLY_MAX: u32 = 1024;

const _: () = assert!(size_of::<Link>() <= 160, "what a peer costs");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round() {
        let mut link = Link::new(Peer(3));
        link.heard = u32::MAX - 1;
        assert_eq!(link.turn_of(u32::MAX - 1), Turn::Now);
        assert_eq!(link.turn_of(5), Turn::Later);
        assert_eq!(link.turn_of(u32::MAX - 2), Turn::Never);
        assert_eq!(link.turn_of(EARLY_MAX), Turn::Never);
    }

    #[test]
    fn what_has_left_takes_all_before_it_along() {
        let mut link = Link::new(Peer(3));
        link.confirmed = u32::MAX - 1;
        link.sent = 3;
        for (sequence, unconfirmed) in [(u32::MAX, 3), (1, 1), (0, 1), (2, 0), (7, 0)] {
            link.confirm(sequence);
            assert_eq!(link.sent.wrapping_sub(link.confirmed), unconfirmed, "{sequence}");
        }
        assert!(!link.is_unconfirmed());
    }

    #[test]
    fn what_came_early_is_taken_in_turn() {
        let mut link = Link::new(Peer(3));
        link.keep(2, vec![2]);
        link.keep(1, vec![1]);
        assert_eq!(link.take_early(), None);
        for turn in 1..=2 {
            link.heard = turn;
            assert_eq!(link.take_early(), Some(vec![turn as u8]));
        }
        assert!(!link.has_early());
    }
}
