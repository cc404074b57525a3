//! What is known of a peer.

use std::collections::BTreeMap;

use fabric::{FabricError, Peer};
use libfabric_sys::Address;

use crate::bulk::{Fetch, Outgoing};

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
    /// Something was injected, and nothing behind it has been seen to leave.
    pub(crate) is_unconfirmed: bool,
    /// A large message on its way there.
    pub(crate) outgoing: Outgoing,
    /// A large message on its way here.
    pub(crate) incoming: Option<Box<Fetch>>,
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
            is_unconfirmed: false,
            outgoing: Outgoing::None,
            incoming: None,
            early: BTreeMap::new(),
            host_name: "?".into(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
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

    /// Forgets what came early, of a peer that is lost.
    pub(crate) fn forget_early(&mut self) {
        self.early.clear();
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
