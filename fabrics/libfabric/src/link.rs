//! What is known of a peer.

use std::collections::{BTreeMap, VecDeque};

use fabric::{Exposed, FabricError, Payload, Peer, Sink, UserMemory};
use libfabric_sys::Address;

use crate::memory::{Keys, RAILS_MAX};
use crate::wire::{self, Frame, Kind, length};

/// A peer.
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) state: State,
    /// Where it is; `None` while only messages have come that were sent after its hello.
    pub(crate) there: Option<There>,
    /// What helps with large messages, where both have several cards.
    pub(crate) rails: Option<Box<Rails>>,
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
    /// How often the provider has taken nothing since it has taken something; and how often nothing was tried
    /// since.
    refusals: (u8, u8),
    /// A message that comes in chunks.
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

/// The rails that lead to a peer.
pub(crate) struct Rails {
    /// For each of ours, but the first, which of theirs it leads to and where that is.
    to: [Option<(u8, Address)>; RAILS_MAX],
    /// Keys that the peer has told of what it shows, and that were not used yet.
    keys: VecDeque<(Exposed, Keys)>,
}

impl Rails {
    pub(crate) fn new(to: [Option<(u8, Address)>; RAILS_MAX]) -> Rails {
        Rails { to, keys: VecDeque::new() }
    }
}

/// What a frame is for besides the engine.
pub(crate) enum Taken {
    /// The frame was for the engine, or nothing is to be done about it.
    Whole,
    /// The peer tells where it is.
    Card(Vec<u8>),
    /// The peer sent what it must not.
    Wrong(&'static str),
}

pub(crate) enum State {
    Open,
    /// Lost, and the sink does not know yet.
    Failing(Box<FabricError>),
    /// Lost, and told.
    Lost,
}

/// A message that comes in chunks.
pub(crate) struct Incoming {
    room: UserMemory,
    bytes: usize,
    /// How many of them have come.
    come: usize,
}

/// When a message's turn is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Now,
    /// Others must come before.
    Later,
    /// The message came before, or is so far ahead that no peer can have sent it.
    Never,
}

impl Link {
    pub(crate) fn new(peer: Peer) -> Link {
        Link {
            peer,
            state: State::Open,
            there: None,
            rails: None,
            sent: 0,
            heard: 0,
            confirmed: 0,
            has_left: false,
            knows_farewell: false,
            refusals: (0, 0),
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

    /// The provider takes nothing for this peer now.
    #[cold]
    pub(crate) fn note_busy(&mut self) {
        self.refusals = (self.refusals.0.saturating_add(1).min(RESTS_MAX), 0);
    }

    /// It has taken something.
    #[inline]
    pub(crate) fn note_taken(&mut self) {
        self.refusals = (0, 0);
    }

    /// Whether the next try is better left out: as many as there were in vain, up to a few.
    #[inline]
    pub(crate) fn is_to_rest(&mut self) -> bool {
        let (refused, rested) = self.refusals;
        let rests = rested < refused;
        self.refusals.1 = if rests { rested + 1 } else { rested };
        rests
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

    /// Whether a frame from this peer is a whole message for the engine, and its turn is now.
    #[inline(always)]
    pub(crate) fn is_next(&self, frame: &Frame) -> bool {
        frame.kind == Kind::Message
            && frame.sequence == self.heard
            && self.is_open()
            && self.incoming.is_none()
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

    /// Takes the next frame from this peer.
    #[inline]
    pub(crate) fn take(&mut self, frame: &Frame, payload: Payload<'_>, sink: &mut impl Sink) -> Taken {
        let is_whole = self.is_next(frame);
        self.heard = self.heard.wrapping_add(1);
        if is_whole {
            sink.message(self.peer, &frame.header, payload);
            return Taken::Whole;
        }
        self.take_other(frame, payload, sink)
    }

    /// Takes a frame from this peer that is not a whole message in its turn: a card, a farewell, keys, or a
    /// long message or a chunk of it. Nothing is done with it where this link is closed; [`Taken::Wrong`]
    /// where the peer may not send it now.
    fn take_other(&mut self, frame: &Frame, payload: Payload<'_>, sink: &mut impl Sink) -> Taken {
        if !self.is_open() {
            return Taken::Whole;
        }
        match frame.kind {
            Kind::Hello => return Taken::Card(payload.to_vec()),
            Kind::Nothing => {}
            Kind::Chunk => return self.take_chunk(payload, sink),
            Kind::Keys => return self.keep_keys(payload),
            Kind::Farewell if self.incoming.is_some() => return Taken::Wrong("a farewell within a message"),
            Kind::Farewell => self.has_left = true,
            Kind::Message | Kind::Long if self.incoming.is_some() => {
                return Taken::Wrong("a message within another");
            }
            Kind::Message => sink.message(self.peer, &frame.header, payload),
            Kind::Long => return self.begin(frame, payload, sink),
        }
        Taken::Whole
    }

    /// Begins with a message, and takes its first chunk.
    fn begin(&mut self, frame: &Frame, payload: Payload<'_>, sink: &mut impl Sink) -> Taken {
        let Some((bytes, first)) = length(payload).filter(|(bytes, first)| first.bytes() <= *bytes) else {
            return Taken::Wrong("a message of no length");
        };
        let room = sink.arriving(self.peer, &frame.header, bytes);
        self.incoming = Some(Box::new(Incoming { room, bytes, come: 0 }));
        if first.bytes() == 0 { Taken::Whole } else { self.take_chunk(first, sink) }
    }

    /// Takes the next chunk of a message.
    fn take_chunk(&mut self, chunk: Payload<'_>, sink: &mut impl Sink) -> Taken {
        const WRONG: Taken = Taken::Wrong("a chunk of nothing");
        let Some(incoming) = &mut self.incoming else { return WRONG };
        if chunk.bytes() == 0 || chunk.bytes() > incoming.bytes - incoming.come {
            return WRONG;
        }
        incoming.room.write_at(incoming.come, chunk);
        incoming.come += chunk.bytes();
        if incoming.come == incoming.bytes {
            self.incoming = None;
            sink.landed(self.peer);
        }
        Taken::Whole
    }

    /// Where one of our rails leads to, if it leads to this peer; the first is none that only helps.
    pub(crate) fn rail(&self, ours: usize) -> Option<Address> {
        let (_, address) = self.rails.as_ref()?.to[ours]?;
        Some(address)
    }

    /// Keeps keys until what they are of is read.
    fn keep_keys(&mut self, payload: Payload<'_>) -> Taken {
        let Some((exposed, told)) = wire::decode_keys(payload) else {
            return Taken::Wrong("keys of nothing");
        };
        let Some(rails) = &mut self.rails else { return Taken::Whole };
        // By our rails instead of theirs.
        let lead = |ours: usize| match (ours, rails.to[ours]) {
            (0, _) => told.0[0],
            (_, Some((theirs, _))) => told.0[usize::from(theirs)],
            (_, None) => None,
        };
        let keys = Keys(std::array::from_fn(lead));
        // Keys of what was never read may be left, of memory that is shown again now by other ones.
        rails.keys.retain(|(other, _)| *other != exposed);
        if rails.keys.len() == KEYS_KEPT {
            rails.keys.pop_front();
        }
        rails.keys.push_back((exposed, keys));
        Taken::Whole
    }

    /// The keys of what is now read, if they were told.
    pub(crate) fn take_keys(&mut self, exposed: Exposed) -> Option<Keys> {
        let keys = &mut self.rails.as_mut()?.keys;
        let place = keys.iter().position(|(other, _)| *other == exposed)?;
        keys.remove(place).map(|(_, keys)| keys)
    }

    /// Forgets what has come and was not told, of a peer that is lost.
    pub(crate) fn forget(&mut self) {
        self.early.clear();
        self.incoming = None;
    }
}

/// So many tries in a row are left out at most.
const RESTS_MAX: u8 = 16;
/// Keys of so many chunks of memory are kept for each peer; the message of which older ones were is read over
/// one rail.
const KEYS_KEPT: usize = 64;
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
