//! The fabric itself: the table of links, who attends to which socket and when, and how two processes that
//! dial each other at the same moment end up with one connection.
//!
//! With few open connections `poll` reads them directly, as a program that spins on one socket would. With
//! many, or while a thread sleeps, the poller says whom to read (`watching`).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::{Cost, Fabric, FabricError, Fault, Header, Limits, Payload, Peer, Posted, Sink};

use crate::card::Card;
use crate::door::Door;
use crate::entrances::listen_at_each;
use crate::handshake::Secret;
use crate::host::Host;
use crate::knock::Barred;
use crate::link::{Ended, Inbox, Open, Turn};
use crate::opening::Opening;
use crate::poller::{Batch, Interest, Poller, TcpBell, Token};
use crate::socket::{Controls, listen};
use crate::trouble;

#[cfg(test)]
mod hostile_tests;
mod meeting;
pub(crate) mod silence;
#[cfg(test)]
mod tests;
mod watching;

use meeting::FAREWELL;
use watching::Favourite;

/// Sockets and one poller.
pub struct Tcp {
    here: Peer,
    host: Host,
    secret: Secret,
    port: u16,
    barred: Barred,
    connect_timeout: Duration,
    node_timeout: Duration,
    silence_looked_for: Instant,
    controls: Controls,
    poller: Arc<Poller>,
    door: Door,
    links: Vec<Link>,
    /// Where in `links` a peer is.
    by_peer: HashMap<Peer, u32>,
    /// Links in the state `Opening`.
    opening: Vec<u32>,
    /// Links in the state `Open`.
    open: Vec<u32>,
    /// Links in the state `Failing`.
    failing: Vec<u32>,
    /// Open links whose socket took less than was offered.
    blocked: Vec<u32>,
    /// Open links on which small messages wait for others.
    gathering: Vec<u32>,
    inbox: Inbox,
    /// Whose messages the inbox still holds.
    inbox_of: Option<u32>,
    batch: Batch,
    turns: usize,
    /// Whether something is due by time.
    is_waiting: bool,
    /// So long a process that leaves tries to tell its peers.
    leaves_until: Option<Instant>,
    /// Whether the poller watches the open links.
    is_watching: bool,
    favourite: Favourite,
}

/// How to reach one peer over tcp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lane(u32);

/// What a person may choose; all of it has a default that works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The ports that may be listened on (`WEFT_TCP_PORTS`); any port where it is `None`.
    pub ports: Option<RangeInclusive<u16>>,
    /// How long the network may leave an attempt to connect without an answer (`WEFT_CONNECT_TIMEOUT`).
    pub connect_timeout: Duration,
    /// How long a host may answer nothing before its processes are taken for dead (`WEFT_NODE_TIMEOUT`).
    pub node_timeout: Duration,
    /// The names of the interfaces that are listened on and whose addresses are offered to others, besides
    /// the loopback (`WEFT_TCP_INTERFACES`); all interfaces where it is `None`.
    pub interfaces: Option<Vec<String>>,
    /// How many processes the job has. A process that claims a higher number is not let in.
    pub peers: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ports: None,
            connect_timeout: Duration::from_secs(10),
            node_timeout: silence::NODE_TIMEOUT,
            interfaces: None,
            peers: u32::MAX,
        }
    }
}

impl Tcp {
    /// Whether this host has an address that anybody could dial, be it that of the loopback.
    #[must_use]
    pub fn has_addresses(&self) -> bool {
        !self.host.addresses().is_empty()
    }

    /// Opens the fabric of the process `here`: one listening socket, or one for each address of the chosen
    /// interfaces, and one poller.
    ///
    /// # Errors
    /// [`Fault::Resources`] where no port or no descriptor can be had, [`Fault::System`] where the kernel
    /// refuses sockets; both with the remedy.
    pub fn open(here: Peer, settings: Settings) -> Result<Tcp, FabricError> {
        let Settings { ports, connect_timeout, node_timeout, interfaces, peers } = settings;
        let host = Host::read(interfaces.as_deref())
            .map_err(|errno| trouble::cannot_open("list this host's addresses", errno))?;
        let (mut secret, mut random) = (Secret::default(), [0; 2]);
        getrandom::fill(&mut secret)
            .and_then(|()| getrandom::fill(&mut random))
            .map_err(|_| trouble::cannot_open("get random bytes", rustix::io::Errno::NOSYS))?;
        let poller = Poller::new().map_err(|errno| trouble::cannot_open("create a poller", errno))?;
        let listening = match interfaces {
            None => listen(ports.clone(), here.0).map(|(listener, port)| (vec![listener], port)),
            Some(_) => listen_at_each(&host.addresses(), ports.clone(), here.0),
        };
        let (listeners, port) = listening.map_err(|errno| cannot_listen(ports.as_ref(), errno))?;
        let barred = Barred::choose(&listeners, u16::from_le_bytes(random));
        let controls = Controls::of(&listeners);
        let door = Door::new(listeners, here, peers, secret, &poller)
            .map_err(|errno| trouble::cannot_open("watch the listening socket", errno))?;
        Ok(Tcp {
            here,
            host,
            secret,
            port,
            barred,
            connect_timeout,
            node_timeout,
            silence_looked_for: Instant::now(),
            controls,
            poller: Arc::new(poller),
            door,
            links: Vec::new(),
            by_peer: HashMap::new(),
            opening: Vec::new(),
            open: Vec::new(),
            failing: Vec::new(),
            blocked: Vec::new(),
            gathering: Vec::new(),
            inbox: Inbox::new(),
            inbox_of: None,
            batch: Batch::new(),
            turns: 0,
            is_waiting: false,
            leaves_until: None,
            is_watching: false,
            favourite: Favourite::default(),
        })
    }

    /// The addresses at which peers can dial this process, for messages to people.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.card().addresses.iter().map(|address| SocketAddr::new(*address, self.port)).collect()
    }

    fn card(&self) -> Card {
        Card {
            host_name: self.host.name.clone(),
            host_identity: self.host.identity,
            secret: self.secret,
            port: self.port,
            barred: self.barred,
            addresses: self.host.addresses(),
        }
    }

    /// The card that `address` holds, with what of it can be dialled from here.
    fn dials(&self, peer: Peer, address: &[u8]) -> Result<(Card, Vec<SocketAddr>), FabricError> {
        if peer == self.here {
            let what = format!(
                "process {} has no tcp connection to itself\nMessages to oneself go over the loopback fabric.",
                peer.0
            );
            return Err(trouble::trouble(Fault::Unreachable, what));
        }
        let card = Card::decode(address).map_err(|bad| trouble::bad_card(peer, &bad))?;
        let dials = card.dials_from(&self.host);
        Ok((card, dials))
    }
}

impl Fabric for Tcp {
    type Lane = Lane;
    type Bell = TcpBell;

    fn name(&self) -> &'static str {
        trouble::NAME
    }

    fn address(&self) -> Vec<u8> {
        self.card().encode()
    }

    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        let (card, dials) = self.dials(peer, address).ok()?;
        let is_near = card.host_identity.shares_loopback(self.host.identity);
        (!dials.is_empty()).then_some(if is_near { COST_SAME_HOST } else { COST_OTHER_HOST })
    }

    /// Returns at once; the connection is made while `post` answers [`Posted::Busy`] and `poll` goes on with
    /// it. What fails later is told by [`Sink::lost`].
    fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<Lane, FabricError> {
        let (card, dials) = self.dials(peer, address)?;
        if let Some(&index) = self.by_peer.get(&peer) {
            return match &mut self.links[index as usize].state {
                State::Lost => Err(trouble::was_lost(peer, &card.host_name)),
                State::Open(open) => {
                    open.choose_control(
                        &self.controls,
                        card.host_identity.shares_machine(self.host.identity),
                    );
                    Ok(Lane(index))
                }
                _ => Ok(Lane(index)),
            };
        }
        let index = self.begin(peer, &card, dials)?;
        self.drive(index, Instant::now());
        match std::mem::replace(&mut self.links[index as usize].state, State::Lost) {
            State::Failing(error) => {
                self.failing.retain(|failing| *failing != index);
                self.by_peer.remove(&peer);
                Err(*error)
            }
            state => {
                self.links[index as usize].state = state;
                Ok(Lane(index))
            }
        }
    }

    fn limits(&self, _lane: Lane) -> Limits {
        Limits { eager_bytes_max: 64 << 10, chunk_bytes_max: CHUNK_BYTES_MAX, pull: false, look: false }
    }

    #[inline]
    fn post(&mut self, lane: Lane, header: &Header, payload: Payload<'_>) -> Posted {
        let State::Open(open) = &mut self.links[lane.0 as usize].state else {
            return self.post_unopened(lane);
        };
        let was_gathering = open.is_gathering();
        let posted = open.post(header, payload, self.turns as u32);
        let is_new = !was_gathering && open.is_gathering();
        if open.is_blocked() || open.has_failed() {
            self.note_blocked(lane.0);
        }
        if is_new {
            self.note_gathering(lane.0);
        }
        posted
    }

    fn resume(&mut self, lane: Lane, rest: Payload<'_>) -> Posted {
        let State::Open(open) = &mut self.links[lane.0 as usize].state else {
            return self.post_unopened(lane);
        };
        let posted = open.resume(rest);
        if open.is_blocked() || open.has_failed() {
            self.note_blocked(lane.0);
        }
        posted
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut turn = Turn::new(events);
        self.turns = self.turns.wrapping_add(1);
        if !self.gathering.is_empty() {
            self.stop_gathering();
        }
        if let Some(index) = self.inbox_of {
            self.deliver_kept(index, sink, &mut turn);
        }
        if !self.blocked.is_empty() {
            self.attend_blocked(sink, &mut turn);
        }
        if self.is_poller_due() {
            self.attend_ready(sink, &mut turn);
        }
        if !self.is_watching {
            self.read_all(sink, &mut turn);
        } else if let Some(index) = self.favourite.link() {
            self.read_favourite(index, sink, &mut turn);
        }
        if !self.failing.is_empty() {
            self.report_failing(sink, &mut turn);
        }
        turn.happened
    }

    fn call_roll(&mut self) -> bool {
        self.look_for_silence();
        false
    }

    fn bury(&mut self, peer: Peer, error: FabricError) -> bool {
        let Some(&index) = self.by_peer.get(&peer) else { return false };
        if let State::Opening(_) | State::Open(_) | State::Ended { .. } = &self.links[index as usize].state {
            if self.inbox_of == Some(index) {
                self.inbox_of = None;
                self.inbox.clear();
            }
            self.forget(index);
            self.fail(index, error);
        }
        true
    }

    fn bell(&self) -> TcpBell {
        TcpBell::new(self.poller.clone())
    }

    fn flush(&mut self) -> bool {
        self.stop_gathering();
        let mut is_empty = true;
        for index in 0..self.links.len() {
            if let State::Open(open) = &mut self.links[index].state {
                is_empty &= open.send_tail();
            }
        }
        is_empty
    }

    fn leave(&mut self) -> bool {
        self.stop_gathering();
        let until = *self.leaves_until.get_or_insert_with(|| Instant::now() + FAREWELL);
        let is_late = until <= Instant::now();
        let mut have_all_heard = true;
        for index in 0..self.links.len() as u32 {
            have_all_heard &= self.part_from(index, is_late);
        }
        have_all_heard
    }
}

/// Reading and reporting.
impl Tcp {
    /// Whether somebody has armed the bell, and so counts on the poller's knowing what comes: a poll sees to
    /// that.
    #[inline]
    #[must_use]
    pub fn is_slept_on(&self) -> bool {
        self.poller.has_sleepers()
    }

    /// Whether the peer has ended its part of the job in good order, as far as its connection tells.
    #[must_use]
    pub fn has_ended(&self, peer: Peer) -> bool {
        let index = self.by_peer.get(&peer);
        index.is_some_and(|index| matches!(self.links[*index as usize].state, State::Ended { .. }))
    }

    /// Reads every open link, each time beginning with another.
    #[inline]
    fn read_all(&mut self, sink: &mut impl Sink, turn: &mut Turn) {
        let count = self.open.len();
        for step in 0..count {
            // A link that ends meanwhile shortens the list.
            let Some(&index) = self.open.get((self.turns + step) % count) else { break };
            self.read_link(index, sink, turn);
        }
    }

    /// Reads one link, unless the turn is over or the inbox is taken.
    #[inline]
    fn read_link(&mut self, index: u32, sink: &mut impl Sink, turn: &mut Turn) {
        if turn.left == 0 || self.inbox_of.is_some() {
            return;
        }
        let State::Open(open) = &mut self.links[index as usize].state else { return };
        let outcome = open.receive(&mut self.inbox, sink, turn);
        self.settle(index, outcome, turn);
    }

    /// Goes on with messages that have been read and could not be reported.
    fn deliver_kept(&mut self, index: u32, sink: &mut impl Sink, turn: &mut Turn) {
        let State::Open(open) = &mut self.links[index as usize].state else {
            unreachable!("link {index} ended with messages of its own in the inbox")
        };
        let outcome = open.deliver(&mut self.inbox, sink, turn);
        self.settle(index, outcome, turn);
    }

    #[inline]
    fn settle(&mut self, index: u32, outcome: Result<(), Ended>, turn: &mut Turn) {
        if let Err(ended) = outcome {
            self.end(index, ended);
            turn.happened += 1;
        }
        self.inbox_of = (!self.inbox.is_empty()).then_some(index);
    }

    #[cold]
    fn end(&mut self, index: u32, ended: Ended) {
        self.inbox.clear();
        self.forget(index);
        let link = &mut self.links[index as usize];
        let old = std::mem::replace(&mut link.state, State::Lost);
        match (ended, old) {
            (Ended::Goodbye, State::Open(open)) => link.state = State::Ended { who: open.who().into() },
            (Ended::Lost(error), _) => self.fail(index, error),
            (Ended::Goodbye, _) => {}
        }
    }

    /// The next poll tells of it.
    fn fail(&mut self, index: u32, error: FabricError) {
        self.opening.retain(|opening| *opening != index);
        self.links[index as usize].state = State::Failing(Box::new(error));
        self.failing.push(index);
    }

    #[cold]
    fn report_failing(&mut self, sink: &mut impl Sink, turn: &mut Turn) {
        for index in std::mem::take(&mut self.failing) {
            let link = &mut self.links[index as usize];
            if let State::Failing(error) = std::mem::replace(&mut link.state, State::Lost) {
                sink.lost(link.peer, *error);
                turn.happened += 1;
            }
        }
    }
}

/// Posting where it does not go straight through.
impl Tcp {
    #[cold]
    fn post_unopened(&mut self, lane: Lane) -> Posted {
        match &self.links[lane.0 as usize].state {
            State::Opening(_) => Posted::Busy,
            State::Ended { who } => {
                let error = trouble::has_ended(who);
                self.fail(lane.0, error);
                Posted::Sent
            }
            // The loss was or will be told, and with it the loss of this message.
            State::Failing(_) | State::Lost => Posted::Sent,
            State::Open(_) => unreachable!("an open link was taken for one that is not"),
        }
    }

    /// The next poll sends what waits.
    #[cold]
    fn note_gathering(&mut self, index: u32) {
        if !self.gathering.contains(&index) {
            self.gathering.push(index);
        }
    }

    /// Sends the small messages of the last turn that wait for others.
    #[cold]
    fn stop_gathering(&mut self) {
        for index in std::mem::take(&mut self.gathering) {
            if let State::Open(open) = &mut self.links[index as usize].state {
                open.stop_gathering();
            }
        }
    }

    /// A poll goes on with it; who sleeps is woken when the socket takes bytes again.
    #[cold]
    fn note_blocked(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        if !link.is_listed {
            link.is_listed = true;
            self.blocked.push(index);
        }
        self.watch(index);
    }

    /// Sends the ends of frames that were cut in two, and looks for the end of links that failed while
    /// sending.
    #[cold]
    fn attend_blocked(&mut self, sink: &mut impl Sink, turn: &mut Turn) {
        for index in std::mem::take(&mut self.blocked) {
            self.links[index as usize].is_listed = false;
            let State::Open(open) = &mut self.links[index as usize].state else { continue };
            let is_sent = open.send_tail();
            if open.has_failed() {
                self.read_link(index, sink, turn);
                self.note_blocked(index);
            } else if !is_sent || open.is_blocked() {
                self.note_blocked(index);
            } else {
                self.watch(index);
            }
        }
    }
}

/// What a peer's link is.
struct Link {
    peer: Peer,
    state: State,
    /// Stands in the list of blocked links.
    is_listed: bool,
    /// What the poller watches its socket for, once it is open.
    watched: Option<Interest>,
}

enum State {
    /// Being dialled from here.
    Opening(Box<Opening>),
    Open(Open),
    /// The peer said goodbye. That is no loss, unless somebody still wants to send.
    Ended {
        who: Box<str>,
    },
    /// Lost, and the sink does not know yet.
    Failing(Box<FabricError>),
    /// Lost, and told.
    Lost,
}

fn cannot_listen(ports: Option<&RangeInclusive<u16>>, errno: rustix::io::Errno) -> FabricError {
    match ports {
        Some(ports) if !trouble::is_out_of_descriptors(errno) => {
            trouble::no_port(*ports.start(), *ports.end(), errno)
        }
        _ => trouble::cannot_open("listen on any port", errno),
    }
}

/// About as much as one call of the system takes best.
const CHUNK_BYTES_MAX: usize = 32 << 10;
/// Over the loopback of one host; measured, rounded.
const COST_SAME_HOST: Cost = Cost { latency_ns: 4_000, mebibyte_ns: 220_000 };
/// Between hosts, on the usual ten-gigabit network.
const COST_OTHER_HOST: Cost = Cost { latency_ns: 15_000, mebibyte_ns: 900_000 };
