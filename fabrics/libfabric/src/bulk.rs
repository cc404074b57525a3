//! Large messages: the sender shows its memory and tells, the receiver reads and tells.
//!
//! For the sender such a message is one that the fabric takes in part: nothing else goes to that peer until it has been
//! fetched. So a peer has one of them on its way at most, in each direction, and order needs no thought.

use fabric::{FabricError, Header, Payload, Posted, Sink};
use libfabric_sys::Remote;

use crate::libfabric::Libfabric;
use crate::memory::{LandingId, Shown};
use crate::port::Sent;
use crate::trouble;
use crate::wire::{Kind, Offered};

/// A large message on its way to a peer.
pub(crate) enum Outgoing {
    None,
    /// The peer does not know of it yet.
    Untold(Box<(Header, Offered, Shown)>),
    /// The peer reads it.
    Told(Shown),
    /// The peer has read it, which the engine does not know yet.
    Fetched,
}

/// A large message on its way from a peer.
pub(crate) enum Fetch {
    Reading(Reading),
    /// It is there, and the peer does not know yet.
    Telling,
}

/// Memory of a peer that is being read.
pub(crate) struct Reading {
    landing: LandingId,
    remote: Remote,
    bytes: usize,
    /// How many of them have been asked for.
    asked: usize,
    failure: Option<Box<FabricError>>,
}

/// The sender's side.
impl Libfabric {
    /// Shows the payload to the peer, who will read it.
    #[cold]
    pub(crate) fn offer(&mut self, index: u32, header: &Header, payload: Payload<'_>) -> Posted {
        let link = &mut self.links[index as usize];
        if !link.is_open() {
            return Posted::Sent;
        }
        debug_assert!(matches!(link.outgoing, Outgoing::None), "a message was posted within another");
        match self.port.show(payload) {
            Ok(shown) => {
                let offered = Offered { bytes: payload.bytes() as u64, remote: shown.remote };
                link.outgoing = Outgoing::Untold(Box::new((*header, offered, shown)));
                self.tell(index);
                Posted::Partly(0)
            }
            Err(error) => {
                let who = self.who(index);
                self.fail(index, trouble::cannot_register(&who, &self.provider, payload.bytes(), &error));
                Posted::Sent
            }
        }
    }

    /// Goes on with a message that was offered.
    pub(crate) fn resume_offer(&mut self, index: u32) -> Posted {
        let link = &mut self.links[index as usize];
        match link.outgoing {
            Outgoing::Fetched => {
                link.outgoing = Outgoing::None;
                Posted::Sent
            }
            Outgoing::Untold(_) => {
                self.tell(index);
                Posted::Busy
            }
            Outgoing::Told(_) => Posted::Busy,
            // The loss was or will be told, and with it the loss of this message.
            Outgoing::None => Posted::Sent,
        }
    }

    /// Tells the peer of the offer, if that can be said now.
    fn tell(&mut self, index: u32) {
        let outgoing = std::mem::replace(&mut self.links[index as usize].outgoing, Outgoing::None);
        self.links[index as usize].outgoing = match outgoing {
            Outgoing::Untold(offer) => {
                let (header, offered, _) = &*offer;
                match self.send_frame(index, Kind::Offer, header, Payload::from(&offered.encode()[..])) {
                    Posted::Sent => Outgoing::Told(offer.2),
                    _ => Outgoing::Untold(offer),
                }
            }
            other => other,
        };
        if !self.links[index as usize].is_open() {
            self.withdraw(index);
        }
    }

    /// The peer says that it has read what was offered, or that it could not.
    pub(crate) fn fetched(&mut self, index: u32, header: &Header) {
        match std::mem::replace(&mut self.links[index as usize].outgoing, Outgoing::None) {
            Outgoing::Told(shown) => {
                self.port.hide(shown);
                if header.words[0] == 0 {
                    self.links[index as usize].outgoing = Outgoing::Fetched;
                } else {
                    self.fail(index, trouble::not_fetched(&self.who(index), &self.provider));
                }
            }
            other => {
                self.links[index as usize].outgoing = other;
                self.break_with(index, "word of a large message that it was not offered");
            }
        }
    }

    /// Nobody will read what was offered to a peer that is lost.
    pub(crate) fn withdraw(&mut self, index: u32) {
        match std::mem::replace(&mut self.links[index as usize].outgoing, Outgoing::None) {
            Outgoing::Untold(offer) => self.port.hide(offer.2),
            Outgoing::Told(shown) => self.port.hide(shown),
            Outgoing::None | Outgoing::Fetched => {}
        }
    }
}

/// The receiver's side.
impl Libfabric {
    /// The peer offers a message: asks where it goes, and begins to read it.
    pub(crate) fn fetch(&mut self, index: u32, header: &Header, offered: Offered, sink: &mut impl Sink) {
        let Ok(offered_bytes) = usize::try_from(offered.bytes) else {
            return self.break_with(index, "an offer of more bytes than there are addresses");
        };
        let room = sink.arriving(self.links[index as usize].peer, header, offered_bytes);
        let bytes = room.bytes().min(offered_bytes);
        let fetch = if bytes == 0 {
            sink.landed(self.links[index as usize].peer);
            Fetch::Telling
        } else {
            match self.port.land(room) {
                Ok(landing) => {
                    let remote = offered.remote;
                    Fetch::Reading(Reading { landing, remote, bytes, asked: 0, failure: None })
                }
                Err(error) => {
                    let error = trouble::cannot_register(&self.who(index), &self.provider, bytes, &error);
                    return self.give_up(index, error);
                }
            }
        };
        self.links[index as usize].incoming = Some(Box::new(fetch));
        self.fetching.push(index);
        self.go_on(index, sink);
    }

    /// Goes on with all that are being read.
    #[cold]
    pub(crate) fn go_on_with_all(&mut self, sink: &mut impl Sink) -> usize {
        let before = self.fetching.len();
        for at in (0..before).rev() {
            self.go_on(self.fetching[at], sink);
        }
        before - self.fetching.len()
    }

    /// A read for that link has ended; with an error, if there is one.
    pub(crate) fn read_ended(&mut self, index: u32, failure: Option<FabricError>, sink: &mut impl Sink) {
        if let Some(fetch) = &mut self.links[index as usize].incoming
            && let Fetch::Reading(reading) = &mut **fetch
            && let Some(failure) = failure
        {
            reading.failure.get_or_insert(Box::new(failure));
        }
        self.go_on(index, sink);
    }

    /// Asks for what has not been asked for; when all is there, tells the engine and then the peer.
    fn go_on(&mut self, index: u32, sink: &mut impl Sink) {
        let Some(mut fetch) = self.links[index as usize].incoming.take() else { return };
        if let Fetch::Reading(reading) = &mut *fetch {
            if !self.is_read(index, reading) {
                self.links[index as usize].incoming = Some(fetch);
                return;
            }
            if let Some(failure) = reading.failure.take() {
                self.fetching.retain(|fetching| *fetching != index);
                return self.give_up(index, *failure);
            }
            if self.links[index as usize].is_open() {
                sink.landed(self.links[index as usize].peer);
            }
            *fetch = Fetch::Telling;
        }
        if self.tell_fetched(index, false) {
            self.fetching.retain(|fetching| *fetching != index);
        } else {
            self.links[index as usize].incoming = Some(fetch);
        }
    }

    /// Asks for what has not been asked for; true when nothing is under way any more, well or not.
    fn is_read(&mut self, index: u32, reading: &mut Reading) -> bool {
        let link = &self.links[index as usize];
        let from = link.there.map(|there| there.address).filter(|_| link.is_open());
        while let Some(from) = from
            && reading.failure.is_none()
            && reading.asked < reading.bytes
        {
            let rest = (reading.asked, reading.bytes - reading.asked);
            match self.port.read((index, reading.landing), rest, from, reading.remote) {
                Ok(taken) => reading.asked += taken,
                Err(Sent::Failed(code)) => {
                    let said = self.port.text(code);
                    let failure = trouble::lost(&self.who(index), &self.provider, &said);
                    reading.failure = Some(Box::new(failure));
                }
                Err(_) => return false,
            }
        }
        self.port.take_off(reading.landing)
    }

    /// What the peer offers cannot be read; it is told, if that can be said at once.
    fn give_up(&mut self, index: u32, failure: FabricError) {
        self.tell_fetched(index, true);
        self.fail(index, failure);
    }

    /// True when the peer knows, or cannot be told.
    fn tell_fetched(&mut self, index: u32, has_failed: bool) -> bool {
        let header = Header { words: [u32::from(has_failed), 0, 0, 0, 0, 0] };
        self.send_frame(index, Kind::Fetched, &header, Payload::EMPTY) == Posted::Sent
    }
}
