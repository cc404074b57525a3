//! The fabric itself: the table of peers, what goes to them and what comes from them.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use fabric::{
    Cost, Exposed, Fabric, FabricError, Fault, Header, HostIdentity, Limits, Looked, Payload, Peer, Posted,
    Pulled, Sink, UserMemory,
};
use libfabric_sys::{Found, Library, Offer, SONAME};

use crate::bell::{Haste, LibfabricBell};
use crate::card::{Card, Rail};
use crate::link::{Link, Rails, There};
use crate::memory::RAILS_MAX;
use crate::packets;
use crate::port::{Event, Port};
use crate::survey::{self, Around, Nature};
use crate::transfers::Transfers;
use crate::trouble;
use crate::wire::{Kind, LENGTH_BYTES};

#[cfg(test)]
mod tests;

/// A reliable-datagram endpoint, and the peers that it has heard of.
pub struct Libfabric {
    pub(crate) port: Port,
    pub(crate) here: Peer,
    pub(crate) peers: u32,
    pub(crate) card: Card,
    pub(crate) provider: String,
    nature: Nature,
    domains: Vec<String>,
    pub(crate) links: Vec<Link>,
    /// For each peer the place of its link, or [`NO_LINK`]; as long as the highest peer needs.
    by_peer: Vec<u32>,
    pub(crate) transfers: Transfers,
    /// Links whose loss the sink does not know.
    pub(crate) failing: Vec<u32>,
    /// Links whose next message may have come early.
    pub(crate) ready: Vec<u32>,
    /// What has happened so far.
    events: u64,
    /// Since when this process leaves.
    leaving: Option<Instant>,
    pub(crate) is_closed: bool,
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
pub struct Lane(pub(crate) u32);

/// What a person may choose.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Settings {
    /// The library to load (`WEFT_LIBFABRIC`); the system's where it is `None`.
    pub library: Option<OsString>,
    /// The provider, by its whole name; the library's first that goes to other hosts where it is `None`.
    pub provider: Option<String>,
    /// How many processes the job has. Frames of a process that claims a higher number are ignored.
    pub peers: u32,
    /// Cards that may be used, by the names of their domains; all where it is `None`.
    pub domains: Option<Vec<String>>,
    /// Over how many network cards large messages go, at most 4 and no more than there are; zero means one.
    pub rails: usize,
    /// Where this process is among the cards of its host.
    pub around: Around,
    /// What the layer ofi_rxm of libfabric sends at once, where its variable
    /// [`PACKET_VARIABLE`](crate::PACKET_VARIABLE) says so; all processes of a job must be told the same.
    pub packet_bytes: Option<usize>,
    /// To treat memory the way RDMA hardware demands it, for tests on providers that do not.
    pub strict_memory: bool,
}

impl Libfabric {
    /// Opens the fabric of the process `here`: loads the library, asks it for providers and opens an
    /// endpoint. Takes up to some hundreds of milliseconds, so it is for jobs that want it.
    ///
    /// # Errors
    /// [`Fault::System`] where there is no library, no provider or no endpoint, [`Fault::Resources`] where
    /// memory is short; with the remedy.
    pub fn open(here: Peer, settings: &Settings) -> Result<Libfabric, FabricError> {
        let name = settings.library.clone().unwrap_or_else(|| SONAME.into());
        let library = Library::load(&name).map_err(|error| trouble::no_library(&error))?;
        Libfabric::open_with(here, library, settings)
    }

    /// Opens the fabric of the process `here` with a library that is loaded already: asks it for providers
    /// and opens an endpoint. Takes up to some hundreds of milliseconds.
    ///
    /// # Errors
    /// [`Fault::System`] where there is no provider or no endpoint, [`Fault::Resources`] where memory is
    /// short; with the remedy.
    pub fn open_with(here: Peer, library: Library, settings: &Settings) -> Result<Libfabric, FabricError> {
        let provider = settings.provider.as_deref();
        let offers = survey::offers(library, settings)
            .map_err(|error| trouble::cannot_open(provider.unwrap_or("(any)"), &error))?;
        let (offer, mut rails) =
            survey::choose(&offers, settings).ok_or_else(|| trouble::no_provider(provider))?;
        let (found, provider) = (offer.found(), offer.provider());
        let nature = Nature::of(&found);
        let slot_bytes = packets::slot_bytes(&provider, settings.packet_bytes);
        let port = Port::open(offer, &mut rails, slot_bytes, nature == Nature::OneHost)
            .map_err(|error| trouble::cannot_open(&provider, &error))?;
        let card = own_card(&port, &found, &rails)?;
        let domains = std::iter::once(offer).chain(rails).map(Offer::domain).collect();
        Ok(Libfabric {
            port,
            here,
            peers: settings.peers,
            card,
            provider,
            nature,
            domains,
            links: Vec::new(),
            by_peer: Vec::new(),
            transfers: Transfers::default(),
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

    /// Notes that the peer has ended in good order, as a caller has learned elsewhere: nothing that goes to
    /// it is waited for.
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

    #[inline(always)]
    pub(crate) fn note_events(&mut self, events: usize) {
        self.events += events as u64;
        self.bell.note_arrival();
    }

    /// Whether memory is being read, here or by a peer, so that it is worth to look often.
    #[inline]
    #[must_use]
    pub fn is_hasty(&self) -> bool {
        self.haste() != Haste::None
    }

    /// Whether something may go to the peer or come from it.
    #[must_use]
    pub fn knows(&self, peer: Peer) -> bool {
        self.known(peer).is_some_and(|index| self.links[index as usize].is_open())
    }

    /// Notes that the peer has ended, as a caller has learned elsewhere: all transfers to it and from it end,
    /// too.
    pub fn lose(&mut self, peer: Peer, error: FabricError) {
        if let Some(index) = self.known(peer) {
            self.fail(index, error);
        }
    }

    /// The provider in use, as `verbs;ofi_rxm`.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The names of the cards in use; the first carries all but the shares of large messages that go over
    /// others.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(String::as_str)
    }

    /// The card that `address` holds, if the peer can be reached with it.
    pub(crate) fn checked(&self, peer: Peer, address: &[u8]) -> Result<Card, FabricError> {
        if peer == self.here {
            let what = format!(
                "process {} sends nothing to itself over a network\nMessages to oneself go over the loopback fabric.",
                peer.0
            );
            return Err(trouble::trouble(Fault::Unreachable, what));
        }
        let card = Card::decode(address).map_err(|bad| trouble::bad_card(peer, bad))?;
        let same = card.provider == self.provider && card.address_format == self.card.address_format;
        if !same || !self.is_connected(&card, &card.network, &self.card.network) {
            let way = |card: &Card| format!("{} on network {}", card.provider, card.network);
            return Err(trouble::elsewhere(peer, &way(&card), &way(&self.card)));
        }
        Ok(card)
    }

    /// Whether one of a peer's networks leads to one of ours. What is between sockets the kernel knows: it
    /// finds ways between networks, but none from host to host by addresses that mean a host itself.
    fn is_connected(&self, card: &Card, theirs: &str, ours: &str) -> bool {
        let (there, here) = (card.host_identity, self.card.host_identity);
        match self.nature {
            Nature::OneHost => there.shares_machine(here),
            Nature::Sockets => {
                there.shares_loopback(here)
                    || !survey::is_within_host(theirs) && !survey::is_within_host(ours)
            }
            Nature::Hardware => theirs == ours,
        }
    }

    /// The place of a peer's link, if it has one.
    fn known(&self, peer: Peer) -> Option<u32> {
        self.by_peer.get(peer.0 as usize).copied().filter(|index| *index != NO_LINK)
    }

    /// The place of a peer's link, which is made if there is none.
    pub(crate) fn link_of(&mut self, peer: Peer) -> u32 {
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
    pub(crate) fn learn(&mut self, index: u32, card: &Card) -> Result<(), FabricError> {
        let link = &mut self.links[index as usize];
        if link.there.is_none() {
            link.host_name = card.host_name.as_str().into();
            let address = self
                .port
                .insert(0, &card.name)
                .map_err(|error| trouble::cannot_insert(&self.who(index), &self.provider, &error))?;
            let rails = self.pair_rails(card);
            let link = &mut self.links[index as usize];
            (link.there, link.rails) = (Some(There { address, seal: card.seal }), rails);
        }
        Ok(())
    }

    /// Finds for each of our rails one of the peer's that is on the same network and has no other.
    fn pair_rails(&mut self, card: &Card) -> Option<Box<Rails>> {
        let mut to = [None; RAILS_MAX];
        let is_near = card.host_identity.shares_loopback(self.card.host_identity);
        let mut left: Vec<(u8, &Rail)> =
            (1..).zip(&card.rails).filter(|(_, rail)| is_near || !rail.within_host).collect();
        for (ours, own) in (1..).zip(&self.card.rails) {
            let Some(place) = left.iter().position(|(_, rail)| rail.network == own.network) else { continue };
            let (theirs, rail) = left.remove(place);
            to[ours] = self.port.insert(ours, &rail.name).ok().map(|address| (theirs, address));
        }
        to.iter().any(Option::is_some).then(|| Box::new(Rails::new(to)))
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
        let copied = self.port.copied_bytes_max();
        let eager_bytes_max = match self.nature {
            Nature::Sockets => copied.max(SOCKETS_EAGER_BYTES_MAX),
            // Of two chunks the first also tells the length.
            Nature::OneHost => 2 * copied - LENGTH_BYTES,
            Nature::Hardware => copied,
        };
        Limits { eager_bytes_max, chunk_bytes_max: eager_bytes_max, pull: true, look: true }
    }

    #[inline]
    fn post(&mut self, lane: Lane, header: &Header, payload: Payload<'_>) -> Posted {
        if payload.bytes() > self.port.copied_bytes_max() {
            return self.begin_chunks(lane.0, header, payload);
        }
        self.send_frame(lane.0, Kind::Message, header, payload)
    }

    fn resume(&mut self, lane: Lane, rest: Payload<'_>) -> Posted {
        match self.send_chunks(lane.0, rest) {
            0 => Posted::Busy,
            bytes if bytes < rest.bytes() => Posted::Partly(bytes),
            _ => Posted::Sent,
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut happened = 0;
        if self.transfers.is_asking() {
            happened += self.ask_on(sink);
        }
        if !self.ready.is_empty() {
            happened += self.deliver_early(sink, events);
        }
        let with_rails = self.port.rails() > 1 && self.is_hasty();
        while happened < events && !self.is_closed {
            let Some(event) = self.port.next(events - happened, with_rails) else { break };
            happened += 1;
            match event {
                Event::Came(arrival) => self.arrived(arrival, sink),
                Event::Left(stamp) => self.links[stamp.link as usize].confirm(stamp.sequence),
                Event::Moved(id) => {
                    self.transfer_ended(id, sink);
                }
                Event::Done(errand) => self.errand_ended(errand, Ok(()), sink),
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
            self.note_events(happened);
        }
        happened
    }

    #[inline(always)]
    fn look<R>(&mut self, lane: Lane, reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>) -> Looked<R> {
        self.look_at(lane.0, reader)
    }

    fn bell(&self) -> LibfabricBell {
        self.bell.clone()
    }

    fn register_memory(&mut self, lane: Lane, memory: Payload<'_>) -> Exposed {
        self.show(lane.0, memory)
    }

    fn deregister_memory(&mut self, peer: Peer, exposed: Exposed) {
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

    /// Closes the endpoint with the last call: what providers leave on the host goes with it. Who takes
    /// nothing any more is not waited for for ever.
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

/// What this process tells of itself.
fn own_card(port: &Port, found: &Found, rails: &[&Offer]) -> Result<Card, FabricError> {
    let mut seal = [0; 4];
    getrandom::fill(&mut seal)
        .map_err(|error| trouble::trouble(Fault::System, format!("no random bytes: {error}")))?;
    let mut card = Card {
        seal: u32::from_le_bytes(seal),
        address_format: port.terms().address_format,
        host_identity: HostIdentity::here(),
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        provider: found.provider.clone(),
        network: survey::network(found),
        name: port.name(0).to_vec(),
        rails: Vec::new(),
    };
    card.host_name.truncate(card.host_name.floor_char_boundary(64));
    card.network.truncate(card.network.floor_char_boundary(64));
    for (rail, offer) in (1..port.rails()).zip(rails) {
        card.rails.push(Rail::new(&survey::network(&offer.found()), port.name(rail)));
    }
    if card.fits() {
        return Ok(card);
    }
    let what = format!("provider {} has names that do not fit into a card\nChoose another.", card.provider);
    Err(trouble::trouble(Fault::System, what))
}

/// How long peers are waited for that take nothing while this process leaves.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
const NO_LINK: u32 = u32::MAX;
/// Over sockets a message in chunks costs less up to here than the round trip of a read. (Between processes
/// of one host that is so for two chunks.)
const SOCKETS_EAGER_BYTES_MAX: usize = 64 << 10;
/// Between processes of one host, by the provider's own shared memory; our own is quicker.
const COST_SHM: Cost = Cost { latency_ns: 1_000, mebibyte_ns: 100_000 };
/// Sockets below; our own tcp is as quick.
const COST_SOCKETS: Cost = Cost { latency_ns: 16_000, mebibyte_ns: 900_000 };
/// A network card that moves the bytes by itself.
const COST_HARDWARE: Cost = Cost { latency_ns: 2_000, mebibyte_ns: 100_000 };
