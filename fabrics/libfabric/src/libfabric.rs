//! The fabric itself: the table of peers, what goes to them and what comes from them.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use fabric::{
    Cost, Exposed, Fabric, FabricError, Fault, Header, Limits, Payload, Peer, Posted, Pulled, Sink,
    UserMemory,
};
use libfabric_sys::{Address, Answer, Failure, Library, SONAME, Wanted};

use crate::bell::{Haste, LibfabricBell};
use crate::card::Card;
use crate::link::{Link, Piece, State, There, Turn};
use crate::port::{Arrival, Event, Failed, Port, Stamp};
use crate::pulls::Pulls;
use crate::survey::{self, Nature};
use crate::trouble;
use crate::wire::{FRAME_BYTES, Frame, Kind, LENGTH_BYTES};

#[cfg(test)]
mod tests;

/// A reliable-datagram endpoint, and the peers that it has heard of.
pub struct Libfabric {
    pub(crate) port: Port,
    here: Peer,
    peers: u32,
    card: Card,
    pub(crate) provider: String,
    nature: Nature,
    pub(crate) links: Vec<Link>,
    /// For each peer the place of its link, or [`NO_LINK`]; as long as the highest peer needs.
    by_peer: Vec<u32>,
    pub(crate) pulls: Pulls,
    /// Links whose loss the sink does not know.
    failing: Vec<u32>,
    /// Links whose next message may have come early.
    ready: Vec<u32>,
    /// What has happened so far.
    events: u64,
    /// Since when this process leaves.
    leaving: Option<Instant>,
    is_closed: bool,
    pub(crate) bell: LibfabricBell,
    pub(crate) notice: Notice,
}

/// Something that a person should know once.
pub(crate) enum Notice {
    None,
    Untold(Box<FabricError>),
    Told,
}

/// How to reach one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lane(u32);

/// What a person may choose.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Settings {
    /// The library to load (`WEFT_LIBFABRIC`); the system's where it is `None`.
    pub library: Option<OsString>,
    /// The provider, by its whole name; the library's first that goes to other hosts where it is `None`.
    pub provider: Option<String>,
    /// How many processes the job has. Who claims a number beyond is not heard.
    pub peers: u32,
    /// To treat memory the way RDMA hardware demands it, for tests on providers that do not.
    pub strict_memory: bool,
}

impl Libfabric {
    /// Opens the fabric of the process `here`: loads the library, asks it for providers and opens an endpoint. Takes up to
    /// some hundreds of milliseconds, so it is for jobs that want it.
    ///
    /// # Errors
    /// [`Fault::System`] where there is no library, no provider or no endpoint, [`Fault::Resources`] where memory is short;
    /// with the remedy.
    pub fn open(here: Peer, settings: &Settings) -> Result<Libfabric, FabricError> {
        let name = settings.library.clone().unwrap_or_else(|| SONAME.into());
        let library = Library::load(&name).map_err(|error| trouble::no_library(&error))?;
        Libfabric::open_with(here, library, settings)
    }

    /// The same, with a library that is loaded already.
    ///
    /// # Errors
    /// As for [`Libfabric::open`].
    pub fn open_with(here: Peer, library: Library, settings: &Settings) -> Result<Libfabric, FabricError> {
        let provider = settings.provider.as_deref();
        let wanted = Wanted { provider, strict_memory: settings.strict_memory, ..Wanted::default() };
        let offers = survey::offers(library, wanted)
            .map_err(|error| trouble::cannot_open(provider.unwrap_or("(any)"), &error))?;
        let offer =
            survey::choose(&offers, provider.is_some()).ok_or_else(|| trouble::no_provider(provider))?;
        let (provider, nature) = (offer.provider(), Nature::of(&offer.found()));
        let port = Port::open(offer).map_err(|error| trouble::cannot_open(&provider, &error))?;
        let card = own_card(&port, provider.clone())?;
        Ok(Libfabric {
            port,
            here,
            peers: settings.peers,
            card,
            provider,
            nature,
            links: Vec::new(),
            by_peer: Vec::new(),
            pulls: Pulls::default(),
            failing: Vec::new(),
            ready: Vec::new(),
            events: 0,
            leaving: None,
            is_closed: false,
            bell: LibfabricBell::default(),
            notice: Notice::None,
        })
    }

    /// What a person should know and is no error: said once. Large messages are slower than they need to be.
    pub fn take_notice(&mut self) -> Option<FabricError> {
        match std::mem::replace(&mut self.notice, Notice::Told) {
            Notice::Untold(error) => Some(*error),
            before => {
                self.notice = before;
                None
            }
        }
    }

    /// Somebody else knows that the peer has ended in good order: nothing that goes there is waited for.
    pub fn let_go(&mut self, peer: Peer) {
        if let Some(index) = self.known(peer) {
            self.links[index as usize].has_left = true;
        }
    }

    /// A number that grows with whatever happens.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether memory is being read, here or by a peer, so that it is worth to look often.
    #[inline]
    #[must_use]
    pub fn is_hasty(&self) -> bool {
        self.pulls.haste() != Haste::None
    }

    /// Whether something may go to the peer or come from it.
    #[must_use]
    pub fn knows(&self, peer: Peer) -> bool {
        self.known(peer).is_some_and(|index| self.links[index as usize].is_open())
    }

    /// Somebody else knows that the peer has ended: whatever goes there or comes from there ends, too.
    pub fn lose(&mut self, peer: Peer, error: FabricError) {
        if let Some(index) = self.known(peer) {
            self.fail(index, error);
        }
    }

    #[cfg(feature = "fuzzing")]
    pub(crate) fn card(&self) -> &Card {
        &self.card
    }

    /// The provider in use.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The card that `address` holds, if the peer can be reached with it.
    fn checked(&self, peer: Peer, address: &[u8]) -> Result<Card, FabricError> {
        if peer == self.here {
            let what = format!(
                "process {} sends nothing to itself over a network\nMessages to oneself go over the loopback fabric.",
                peer.0
            );
            return Err(trouble::trouble(Fault::Unreachable, what));
        }
        let card = Card::decode(address).map_err(|bad| trouble::bad_card(peer, bad))?;
        let is_near = card.host_identity == self.card.host_identity;
        let same = card.provider == self.provider && card.address_format == self.card.address_format;
        if !same || (self.nature == Nature::OneHost && !is_near) {
            return Err(trouble::elsewhere(peer, (&card.provider, &self.provider)));
        }
        Ok(card)
    }

    /// The place of a peer's link, if it has one.
    fn known(&self, peer: Peer) -> Option<u32> {
        self.by_peer.get(peer.0 as usize).copied().filter(|index| *index != NO_LINK)
    }

    /// The place of a peer's link, which is made if there is none.
    fn link_of(&mut self, peer: Peer) -> u32 {
        let place = peer.0 as usize;
        if place >= self.by_peer.len() {
            self.by_peer.resize(place + 1, NO_LINK);
        }
        if self.by_peer[place] == NO_LINK {
            self.by_peer[place] = self.links.len() as u32;
            self.links.push(Link::new(peer));
        }
        self.by_peer[place]
    }

    /// Takes from a card where the peer is, unless that is known.
    fn learn(&mut self, index: u32, card: &Card) -> Result<(), FabricError> {
        let link = &mut self.links[index as usize];
        if link.there.is_none() {
            link.host_name = card.host_name.as_str().into();
            let address = self
                .port
                .insert(&card.name)
                .map_err(|error| trouble::cannot_insert(&self.who(index), &self.provider, &error))?;
            self.links[index as usize].there = Some(There { address, seal: card.seal });
        }
        Ok(())
    }

    /// A peer in words.
    pub(crate) fn who(&self, index: u32) -> String {
        let link = &self.links[index as usize];
        format!("process {} on {}", link.peer.0, link.host_name)
    }
}

impl Fabric for Libfabric {
    type Lane = Lane;
    type Bell = LibfabricBell;

    fn name(&self) -> &'static str {
        trouble::NAME
    }

    fn address(&self) -> Vec<u8> {
        self.card.encode()
    }

    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        self.checked(peer, address).ok()?;
        Some(match self.nature {
            Nature::OneHost => COST_SHM,
            Nature::Sockets => COST_SOCKETS,
            Nature::Hardware => COST_HARDWARE,
        })
    }

    /// Makes no connection: providers make theirs when something goes out.
    fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<Lane, FabricError> {
        let card = self.checked(peer, address)?;
        let index = self.link_of(peer);
        if self.is_closed || !self.links[index as usize].is_open() {
            return Err(trouble::was_lost(&self.who(index)));
        }
        self.learn(index, &card)?;
        Ok(Lane(index))
    }

    fn limits(&self, _lane: Lane) -> Limits {
        let eager_bytes_max = if self.nature == Nature::Sockets { SOCKETS_EAGER_BYTES_MAX } else { 0 };
        let eager_bytes_max = eager_bytes_max.max(self.port.copied_bytes_max());
        Limits { eager_bytes_max, pull: true, look: false }
    }

    #[inline]
    fn post(&mut self, lane: Lane, header: &Header, payload: Payload<'_>) -> Posted {
        if payload.bytes() > self.port.copied_bytes_max() {
            return self.begin_pieces(lane.0, header, payload);
        }
        self.send_frame(lane.0, Kind::Message, header, payload)
    }

    fn resume(&mut self, lane: Lane, rest: Payload<'_>) -> Posted {
        match self.send_pieces(lane.0, rest) {
            0 => Posted::Busy,
            bytes if bytes < rest.bytes() => Posted::Partly(bytes),
            _ => Posted::Sent,
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut happened = 0;
        if self.pulls.is_asking() {
            happened += self.ask_on(sink);
        }
        if !self.ready.is_empty() {
            happened += self.deliver_early(sink, events);
        }
        while happened < events && !self.is_closed {
            let Some(event) = self.port.next(events - happened) else { break };
            happened += 1;
            match event {
                Event::Came(arrival) => self.arrived(arrival, sink),
                Event::Left(stamp) => self.links[stamp.link as usize].confirm(stamp.sequence),
                Event::Read(reading) => {
                    self.read_ended(reading, sink);
                }
                Event::Failed(failed, failure) => self.failed(failed, &failure, sink),
            }
            if sink.enough() {
                break;
            }
        }
        if !self.failing.is_empty() {
            happened += self.report_failing(sink);
        }
        if happened > 0 {
            self.events += happened as u64;
            self.bell.note_arrival();
        }
        happened
    }

    fn bell(&self) -> LibfabricBell {
        self.bell.clone()
    }

    fn expose(&mut self, lane: Lane, memory: Payload<'_>) -> Exposed {
        self.show(lane.0, memory)
    }

    fn conceal(&mut self, peer: Peer, exposed: Exposed) {
        self.hide(peer, exposed);
    }

    fn pull(
        &mut self,
        lane: Lane,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        ticket: u64,
    ) -> Pulled {
        self.read(lane.0, exposed, offset, into, ticket)
    }

    fn flush(&mut self) -> bool {
        self.settle(Libfabric::confirm)
    }

    /// Closes the endpoint with the last call: what providers leave on the host goes with it. Who takes nothing any more
    /// is not waited for for ever.
    fn leave(&mut self) -> bool {
        let began = *self.leaving.get_or_insert_with(Instant::now);
        let is_over =
            self.is_closed || self.settle(Libfabric::take_leave) || began.elapsed() > LEAVE_PATIENCE;
        if is_over && !std::mem::replace(&mut self.is_closed, true) {
            self.port.close();
        }
        is_over
    }
}

/// Sending.
impl Libfabric {
    /// Sends one frame. To a peer that is lost, anything can be sent: its loss was or will be told, and with it that of
    /// this message.
    #[inline]
    pub(crate) fn send_frame(
        &mut self,
        index: u32,
        kind: Kind,
        header: &Header,
        payload: Payload<'_>,
    ) -> Posted {
        let there = match self.way(index) {
            Ok(there) => there,
            Err(posted) => return posted,
        };
        let head = self.frame(index, there, kind, header).encode();
        self.hand_over(index, there, (&head, payload), Port::send)
    }

    /// Hands the next message for that link to the provider, in one way or the other.
    #[inline]
    fn hand_over(
        &mut self,
        index: u32,
        there: There,
        (head, payload): (&[u8], Payload<'_>),
        send: impl FnOnce(&mut Port, Stamp, Address, &[u8], Payload<'_>) -> Answer,
    ) -> Posted {
        let stamp = Stamp { link: index, sequence: self.links[index as usize].sent };
        match send(&mut self.port, stamp, there.address, head, payload) {
            Answer::Taken => {}
            Answer::Again => return Posted::Busy,
            Answer::Failed(code) => self.refused(index, code),
        }
        self.links[index as usize].sent = stamp.sequence.wrapping_add(1);
        Posted::Sent
    }

    /// Where a frame for that peer goes, who has heard who is speaking; or what became of it without going anywhere.
    #[inline]
    fn way(&mut self, index: u32) -> Result<There, Posted> {
        let link = &self.links[index as usize];
        if !link.is_waited_for() {
            return Err(self.send_in_vain(index));
        }
        let Some(there) = link.there else { return Err(Posted::Busy) };
        if link.sent == 0 && !self.greet(index, there) {
            return Err(Posted::Busy);
        }
        Ok(there)
    }

    /// To a peer that has ended well nothing may be sent any more, and whoever does so is told.
    #[cold]
    fn send_in_vain(&mut self, index: u32) -> Posted {
        let error = trouble::has_left(&self.who(index));
        self.fail(index, error);
        Posted::Sent
    }

    #[inline]
    fn frame(&self, index: u32, there: There, kind: Kind, header: &Header) -> Frame {
        let sequence = self.links[index as usize].sent;
        Frame { seal: there.seal, from: self.here, sequence, kind, header: *header }
    }

    /// The first message to a peer tells where this process is, since the peer may not know it.
    #[cold]
    fn greet(&mut self, index: u32, there: There) -> bool {
        let head = self.frame(index, there, Kind::Hello, &Header::default()).encode();
        let card = self.card.encode();
        self.hand_over(index, there, (&head, Payload::from(&card[..])), Port::send) == Posted::Sent
    }

    /// Begins with a message that is too long for one frame. Most such messages are read by their receiver instead.
    #[cold]
    fn begin_pieces(&mut self, index: u32, header: &Header, payload: Payload<'_>) -> Posted {
        let there = match self.way(index) {
            Ok(there) => there,
            Err(posted) => return posted,
        };
        let head = self.frame(index, there, Kind::Long, header).encode_long(payload.bytes());
        let first = payload.part(0, self.port.copied_bytes_max() - LENGTH_BYTES);
        if self.hand_over(index, there, (&head, first), Port::send) == Posted::Busy {
            return Posted::Busy;
        }
        match first.bytes() + self.send_pieces(index, payload.after(first.bytes())) {
            bytes if bytes < payload.bytes() => Posted::Partly(bytes),
            _ => Posted::Sent,
        }
    }

    /// Sends as many pieces as go now; how many bytes of `rest` those were.
    fn send_pieces(&mut self, index: u32, rest: Payload<'_>) -> usize {
        let mut sent = 0;
        while sent < rest.bytes() {
            let piece = rest.part(sent, self.port.copied_bytes_max());
            if self.send_frame(index, Kind::Piece, &Header::default(), piece) == Posted::Busy {
                break;
            }
            sent += piece.bytes();
        }
        sent
    }

    /// True when everything that was sent has left, and `tell` has said to each peer what it has to say.
    fn settle(&mut self, tell: fn(&mut Libfabric, u32) -> bool) -> bool {
        let mut is_told = true;
        for index in 0..self.links.len() as u32 {
            let link = &self.links[index as usize];
            is_told &= !link.is_waited_for() || link.there.is_none() || tell(self, index);
        }
        is_told && !self.port.sending().any(|index| self.links[index as usize].is_waited_for())
    }

    /// Nobody tells whether what was injected has left; but what is sent behind it is told of.
    fn confirm(&mut self, index: u32) -> bool {
        !self.links[index as usize].is_unconfirmed() || self.send_confirmed(index, Kind::Nothing)
    }

    fn take_leave(&mut self, index: u32) -> bool {
        let is_told = self.links[index as usize].knows_farewell || self.send_confirmed(index, Kind::Farewell);
        self.links[index as usize].knows_farewell = is_told;
        is_told
    }

    /// Sends a frame of which the queue tells when it has left, and with it all before it.
    fn send_confirmed(&mut self, index: u32, kind: Kind) -> bool {
        let link = &self.links[index as usize];
        let Some(there) = link.there else { return true };
        if link.sent == 0 && !self.greet(index, there) {
            return false;
        }
        let head = self.frame(index, there, kind, &Header::default()).encode();
        self.hand_over(index, there, (&head, Payload::EMPTY), Port::send_slot) == Posted::Sent
    }

    #[cold]
    pub(crate) fn refused(&mut self, index: u32, code: i32) {
        let said = self.port.text(code);
        self.lost_by_provider(index, &said);
    }
}

/// Receiving.
impl Libfabric {
    #[inline]
    fn arrived(&mut self, arrival: Arrival, sink: &mut impl Sink) {
        let mut head = [0; FRAME_BYTES];
        let bytes = self.port.message(arrival).map_or(0, |message| message.copy_to(&mut head));
        let frame = Frame::decode(&head).filter(|frame| bytes == FRAME_BYTES && self.is_of_the_job(frame));
        if let Some(frame) = frame {
            let index = self.link_of(frame.from);
            match self.links[index as usize].turn_of(frame.sequence) {
                Turn::Now => self.in_turn(index, &frame, arrival, sink),
                Turn::Later => self.keep(index, &frame, arrival),
                Turn::Never => self.break_with(index, "a message out of all order"),
            }
        }
        self.port.seen(arrival);
    }

    /// Whoever does not know this process's seal is a stranger, and is not answered.
    #[inline]
    fn is_of_the_job(&self, frame: &Frame) -> bool {
        frame.seal == self.card.seal && frame.from.0 < self.peers && frame.from != self.here
    }

    #[inline]
    fn in_turn(&mut self, index: u32, frame: &Frame, arrival: Arrival, sink: &mut impl Sink) {
        let Some(message) = self.port.message(arrival) else { return };
        let payload = message.after(FRAME_BYTES);
        let link = &mut self.links[index as usize];
        link.heard = link.heard.wrapping_add(1);
        if frame.kind == Kind::Message && link.is_open() && link.incoming.is_none() {
            sink.message(frame.from, &frame.header, payload);
        } else if frame.kind == Kind::Piece && link.is_open() {
            let piece = link.take_piece(payload);
            self.note_piece(index, piece, sink);
        } else if frame.kind == Kind::Long && link.is_open() && link.incoming.is_none() {
            let piece = link.begin(frame, payload, sink);
            self.note_piece(index, piece, sink);
        } else {
            let payload = payload.to_vec();
            self.act(index, frame, Payload::from(&payload[..]), sink);
        }
        if self.links[index as usize].has_early() {
            self.ready.push(index);
        }
    }

    fn note_piece(&mut self, index: u32, piece: Piece, sink: &mut impl Sink) {
        match piece {
            Piece::Part => {}
            Piece::Last => sink.landed(self.links[index as usize].peer),
            Piece::Wrong => self.break_with(index, "a piece of nothing"),
            Piece::Endless => self.break_with(index, "a message of no length"),
        }
    }

    #[cold]
    fn keep(&mut self, index: u32, frame: &Frame, arrival: Arrival) {
        let link = &mut self.links[index as usize];
        if let Some(message) = self.port.message(arrival).filter(|_| link.is_open()) {
            link.keep(frame.sequence, message.to_vec());
        }
    }

    /// Goes on with messages of which the provider told too early, and whose turn it is now.
    #[cold]
    fn deliver_early(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut happened = 0;
        while let Some(&index) = self.ready.last()
            && happened < events
        {
            let Some(message) = self.links[index as usize].take_early() else {
                self.ready.pop();
                continue;
            };
            let frame = message.first_chunk().and_then(Frame::decode).expect("a frame was kept");
            let link = &mut self.links[index as usize];
            link.heard = link.heard.wrapping_add(1);
            self.act(index, &frame, Payload::from(&message[FRAME_BYTES..]), sink);
            happened += 1;
        }
        happened
    }

    /// Does what a frame is for that has been counted.
    #[cold]
    fn act(&mut self, index: u32, frame: &Frame, payload: Payload<'_>, sink: &mut impl Sink) {
        let link = &mut self.links[index as usize];
        if !link.is_open() {
            return;
        }
        match frame.kind {
            Kind::Hello => self.greeted(index, &payload.to_vec()),
            Kind::Nothing => {}
            Kind::Farewell if link.incoming.is_some() => {
                self.break_with(index, "a farewell within a message");
            }
            Kind::Farewell => link.has_left = true,
            Kind::Piece => {
                let piece = link.take_piece(payload);
                self.note_piece(index, piece, sink);
            }
            Kind::Message | Kind::Long if link.incoming.is_some() => {
                self.break_with(index, "a message within another");
            }
            Kind::Message => sink.message(frame.from, &frame.header, payload),
            Kind::Long => {
                let piece = link.begin(frame, payload, sink);
                self.note_piece(index, piece, sink);
            }
        }
    }

    /// A peer tells where it is.
    fn greeted(&mut self, index: u32, payload: &[u8]) {
        let peer = self.links[index as usize].peer;
        let learned = self.checked(peer, payload).and_then(|card| self.learn(index, &card));
        if let Err(error) = learned {
            self.fail(index, error);
        }
    }
}

/// Losing.
impl Libfabric {
    /// The next report tells of it.
    #[cold]
    pub(crate) fn fail(&mut self, index: u32, error: FabricError) {
        let link = &mut self.links[index as usize];
        if link.is_open() {
            link.state = State::Failing(Box::new(error));
            link.forget();
            self.failing.push(index);
            self.give_up_on(index);
        }
    }

    #[cold]
    pub(crate) fn break_with(&mut self, index: u32, what: &str) {
        let error = trouble::broke_protocol(&self.who(index), what);
        self.fail(index, error);
    }

    /// The queue tells that something has failed.
    #[cold]
    fn failed(&mut self, failed: Failed, failure: &Failure, sink: &mut impl Sink) {
        match failed {
            Failed::Message(stamp) => self.lost_by_provider(stamp.link, &failure.text),
            Failed::Read(reading) => {
                if let Some(index) = self.pulls.link_of(reading) {
                    self.lost_by_provider(index, &failure.text);
                }
                self.read_ended(reading, sink);
            }
            Failed::Nothing => {}
            Failed::Something => self.ask_suspects(),
        }
    }

    /// Somebody's message is gone, and the provider does not say whose. Whoever it may be gets a message of which the
    /// provider does tell: the one that fails has lost its peer.
    fn ask_suspects(&mut self) {
        for index in 0..self.links.len() as u32 {
            let link = &self.links[index as usize];
            if link.is_waited_for() && link.is_unconfirmed() {
                self.send_confirmed(index, Kind::Nothing);
            }
        }
    }

    /// What fails on the way to a peer that has left in good order is no loss.
    fn lost_by_provider(&mut self, index: u32, said: &str) {
        if self.links[index as usize].is_waited_for() {
            let error = trouble::lost(&self.who(index), &self.provider, said);
            self.fail(index, error);
        }
    }

    /// Tells of those that were lost, once nothing is written into their messages any more.
    #[cold]
    fn report_failing(&mut self, sink: &mut impl Sink) -> usize {
        let mut told = 0;
        for index in std::mem::take(&mut self.failing) {
            if self.pulls.reads_from(index) {
                self.failing.push(index);
                continue;
            }
            let link = &mut self.links[index as usize];
            if let State::Failing(error) = std::mem::replace(&mut link.state, State::Lost) {
                sink.lost(link.peer, *error);
                told += 1;
            }
        }
        told
    }
}

/// What this process tells of itself.
fn own_card(port: &Port, provider: String) -> Result<Card, FabricError> {
    let mut seal = [0; 4];
    getrandom::fill(&mut seal)
        .map_err(|error| trouble::trouble(Fault::System, format!("no random bytes: {error}")))?;
    let mut card = Card {
        seal: u32::from_le_bytes(seal),
        address_format: port.terms().address_format,
        host_identity: host_identity()?,
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        provider,
        name: port.name().to_vec(),
    };
    card.host_name.truncate(card.host_name.floor_char_boundary(64));
    if card.fits() {
        return Ok(card);
    }
    let what = format!("provider {} has names that do not fit into a card\nChoose another.", card.provider);
    Err(trouble::trouble(Fault::System, what))
}

/// Equal for processes of one running kernel, and for no others.
fn host_identity() -> Result<[u8; 16], FabricError> {
    let mut identity = [0; 16];
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> = boot.bytes().filter(u8::is_ascii_hexdigit).collect();
    if digits.len() == 32 {
        for (byte, pair) in identity.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |letter: u8| (letter as char).to_digit(16).unwrap_or(0) as u8;
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        return Ok(identity);
    }
    // Not knowing, this host is like no other.
    getrandom::fill(&mut identity)
        .map_err(|error| trouble::trouble(Fault::System, format!("no random bytes: {error}")))?;
    Ok(identity)
}

/// How long peers are waited for that take nothing while this process leaves.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
const NO_LINK: u32 = u32::MAX;
/// Over sockets a message in pieces costs less up to here than the round trip of a read.
const SOCKETS_EAGER_BYTES_MAX: usize = 64 << 10;
/// Between processes of one host, by the provider's own shared memory; our own is quicker.
const COST_SHM: Cost = Cost { latency_ns: 1_000, mebibyte_ns: 100_000 };
/// Sockets below; our own tcp is as quick.
const COST_SOCKETS: Cost = Cost { latency_ns: 16_000, mebibyte_ns: 900_000 };
/// A network card that moves the bytes by itself.
const COST_HARDWARE: Cost = Cost { latency_ns: 2_000, mebibyte_ns: 100_000 };
