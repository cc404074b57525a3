//! The fabrics there are, in one place: the only file that names them all.
//!
//! [`Fabrics`] is a fabric itself, made of the others: each call is one `match` on the lane. Which fabric serves a
//! peer is decided once, at the first message, by reach and cost.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use collectives::{Cores, Guide};
use fabric::loopback::Loopback;
use fabric::{
    Attached, Brought, Cost, Exposed, Fabric, FabricError, Header, Limits, Looked, Payload, Peer, Posted,
    Pulled, PulledShared, Sink, UserMemory, crash,
};
use libfabric::{Around, Libfabric, Settings as LibfabricSettings, are_cards_apart};
use shm::{HandoutError, Offer, Segment, SegmentError, Shm, fetch, least_read_ns};

mod bell;
mod cards;
mod lookout;
mod measuring;
mod memory;
mod one_sided;
mod rejoin;
mod unreachable;

pub use bell::FabricsBell;
pub(crate) use libfabric::packet_bytes;
pub use libfabric::{
    AddressFormat, Found as FoundByLibfabric, Link, Nature, Near, Nic, PACKET_BYTES, PACKET_VARIABLE,
    PciAddress, Survey as LibfabricSurvey, Version,
};
pub(crate) use measuring::{measure_first, measure_second};
pub(crate) use memory::{
    CommonOffer, begin_pulse, fetch_common, inherited_ledger, inherited_pipe, inherited_wait_states,
    segment_for_threads,
};
pub use memory::{create_segment, share_memory};
use memory::{inherited_segment, segment_refused, share_segment};
pub(crate) use shm::{
    Board, Boards, Common, Course, Ledger, NoSignals, Pair, Pulse, Ring, Trial, WaitStates, Way, Ways,
    is_before, is_room, same_user, second_cache_bytes,
};
pub use shm::{
    Effort, LedgerWriter, Pulses, SharedHeap, WaitState, WaitStatesReader, anew, be_prompt, memfd_refusal,
};
use tcp::{Lookout as TcpLookout, Tcp};

use crate::card::{Card, Token};
use crate::config::{Config, FabricName};
use crate::constants::{ConstantsFrom, Found};
use crate::error::{Class, Error, Result};
use crate::exchange::Exchange;
use crate::group::Group;
use crate::guide;
use crate::lanes::{Large, Measured};
use crate::lifelines::{Lifelines, Stillness};
use crate::neighbours::{Claim, Meeting, Neighbours};
use crate::wait::{self, Policy};

/// All fabrics of a process.
pub struct Fabrics {
    here: Peer,
    loopback: Loopback,
    shm: Option<Shm>,
    tcp: Option<Tcp>,
    libfabric: Option<Libfabric>,
    /// The constants that shm's limits follow from, once shm is open.
    constants: Option<Box<Found>>,
    /// Whether messages go over tcp; it may be open only to see who lives.
    tcp_brings: bool,
    /// Whether somebody was reached over tcp.
    is_tcp_used: bool,
    lifelines: Lifelines,
    stillness: Stillness,
    /// Whether each process of this node shares its memory; the same at all of them.
    all_share: bool,
    /// Turns until networks are polled again, where shm is there as well.
    networks_rest: u32,
    networks_rests: u32,
    /// Turns of networks until tcp is polled again, where nobody was reached over it.
    tcp_rests: u32,
    /// Messages in the loopback that were not polled yet.
    to_oneself: usize,
    /// What peers may use, by the loopback's numbers, and libfabric's for the same.
    attached: HashMap<Attached, Option<Attached>>,
}

/// How to reach one peer: over which fabric, and that fabric's own lane.
#[derive(Clone, Copy, Debug)]
pub enum Lane {
    /// To this process itself.
    Loopback,
    /// Within the node.
    Shm(<Shm as Fabric>::Lane),
    /// Over sockets.
    Tcp(<Tcp as Fabric>::Lane),
    /// Over a provider of libfabric.
    Libfabric(<Libfabric as Fabric>::Lane),
}

impl Lane {
    /// Whether a rest between two looks does good: where a look is at memory that the peer writes. A provider's look takes
    /// longer than that.
    #[inline(always)]
    pub(crate) fn wants_rests(&self) -> bool {
        matches!(self, Lane::Shm(_))
    }

    /// The fabric's name.
    #[must_use]
    pub fn fabric(&self) -> &'static str {
        match self {
            Lane::Loopback => "loopback",
            Lane::Shm(_) => "shm",
            Lane::Tcp(_) => "tcp",
            Lane::Libfabric(_) => "libfabric",
        }
    }
}

/// Where a process stands when it opens its fabrics.
pub(crate) struct Place<'a> {
    pub here: Peer,
    /// Ranks of the job.
    pub ranks: u32,
    /// Numbers of its processes, with those that may come into the place of others.
    pub peers: u32,
    pub config: &'a Config,
}

/// What a meeting of all processes came to.
type Met = ((Cores, Cores), Group, &'static Guide);

/// What opening came to.
pub(crate) struct Opened {
    pub fabrics: Fabrics,
    /// Whether cards were exchanged; if not, all peers are reached without.
    pub exchanged: bool,
    /// What cores the ranks of this node have, as far as is known.
    pub cores_here: Cores,
    /// What cores the ranks of the job have, alike at all of them: shared, if they are on any node.
    pub cores: Cores,
    /// The processes that can share memory with this one, and this one.
    pub node: Group,
    /// By what collective algorithms are chosen, alike at all ranks.
    pub guide: &'static Guide,
}

impl Fabrics {
    /// Opens what the job needs: nothing for a process alone, shared memory where the launcher gave it, and
    /// otherwise whatever the processes find out about each other by exchanging cards.
    pub(crate) fn open(place: &Place<'_>, exchange: &mut Exchange) -> Result<Opened> {
        let mut fabrics = Fabrics {
            here: place.here,
            loopback: Loopback::new(place.here),
            shm: None,
            tcp: None,
            libfabric: None,
            constants: None,
            tcp_brings: false,
            is_tcp_used: false,
            lifelines: Lifelines::default(),
            stillness: Stillness::default(),
            all_share: true,
            networks_rest: 0,
            networks_rests: 0,
            tcp_rests: 0,
            to_oneself: 0,
            attached: HashMap::new(),
        };
        if place.ranks == 1 && place.config.rebuilt.is_none() {
            let cores = wait::cores(1, wait::cpus(place.config));
            let (node, guide) = (Group::of([place.here]), guide::of_launcher(place.config)?);
            return Ok(Opened { fabrics, exchanged: false, cores_here: cores, cores, node, guide });
        }
        let inherited = place.config.segment.filter(|_| place.config.allows(FabricName::Shm));
        if let Some(number) = inherited {
            let everybody = (0..place.peers).map(Peer).collect();
            let cores = wait::cores(place.ranks, wait::cpus(place.config));
            fabrics.open_shm(place, inherited_segment(number)?, everybody, cores)?;
            let (node, guide) = (Group::world(place.peers), guide::of_launcher(place.config)?);
            return Ok(Opened { fabrics, exchanged: false, cores_here: cores, cores, node, guide });
        }
        let ((cores_here, cores), node, guide) = match place.config.rebuilt {
            None => fabrics.meet(place, exchange)?,
            Some(_) => fabrics.rejoin(place, exchange)?,
        };
        Ok(Opened { fabrics, exchanged: true, cores_here, cores, node, guide })
    }

    /// Leaves a card, meets the processes of this node, waits until all have done so, and opens shared memory with
    /// those that are here. Beside the fence a process asks its manager a few things, as many in any job.
    ///
    /// The answer is what cores the ranks have, here and everywhere, who is on this node, and by what to choose
    /// algorithms.
    fn meet(&mut self, place: &Place<'_>, exchange: &mut Exchange) -> Result<Met> {
        let config = place.config;
        let offer = match config.allows(FabricName::Shm) {
            true => Some(Offer::open().map_err(|error| refused("shm", &error))?),
            false => None,
        };
        let cpus = wait::cpus(config);
        let claim = Claim {
            process: place.here.0,
            cpus,
            offer: offer.as_ref().map(|(_, card)| card.clone()).unwrap_or_default(),
        };
        // Who is on another part of this node is as far away as another node.
        let part = config.node.as_ref().map_or_else(String::new, |node| format!(" {node}"));
        let mut meeting = Meeting::begin(&(exchange.job() + &part), place.ranks, claim)?;
        let mut card = Card::of_this_process();
        if place.here == FIRST {
            card.token = Some(random_token()?);
            card.guide = Some(guide::proposal(config)?).filter(|text| !text.is_empty());
        }
        self.open_networks(place, exchange)?;
        card.tcp = self.tcp.as_ref().map(Fabric::address);
        card.libfabric = self.libfabric.as_ref().map(Fabric::address);
        exchange.put_card(place.here, &card.encode())?;
        // One process of the node knows it for sure; where a few must speak for all, each says what it is told.
        let told = exchange.local_size()?.is_some_and(|ranks| wait::cores(ranks, cpus) == Cores::Shared);
        exchange.announce(CORES_SHARED, meeting.announces() || told)?;
        exchange.fence(&mut || meeting.watches())?;
        let (token, guide) = card.agree(place.here, exchange.card(FIRST)?.as_deref())?;
        let cores = if exchange.is_announced(CORES_SHARED)? { Cores::Shared } else { Cores::Own };
        let neighbours = meeting.end(place.ranks, &token)?;
        self.all_share = neighbours.processes.iter().all(|(_, shares)| *shares);
        let node = match place.peers == place.ranks || config.node.is_some() {
            true => Group::of(neighbours.processes.iter().map(|(process, _)| Peer(*process))),
            // Who comes into the place of another is started on this node, too.
            false => Group::world(place.peers),
        };
        if let Some((offer, _)) = offer {
            self.share(place, &offer, &neighbours)?;
        }
        Ok(((neighbours.cores, cores), node, guide::of_card(guide.as_deref())?))
    }

    /// Opens tcp, and libfabric where it was asked for, or where the job has ranks elsewhere and this host a card for it.
    fn open_networks(&mut self, place: &Place<'_>, exchange: &mut Exchange) -> Result<()> {
        let config = place.config;
        let settings = || cards::settings(config, place.here.0, place.peers);
        if config.allows(FabricName::Libfabric) {
            self.libfabric = Some(Libfabric::open(place.here, &settings())?);
        } else if config.seeks_hardware
            && !rdma_cards().is_empty()
            && exchange.local_size()? != Some(place.ranks)
        {
            // Whatever it lacks, `weft doctor` tells; tcp does without.
            self.libfabric = Libfabric::open(place.here, &settings()).ok();
        }
        if config.allows(FabricName::Tcp) {
            self.tcp = Some(Tcp::open(place.here, tcp_settings(config, place.peers))?);
            self.tcp_brings = true;
        } else if self.libfabric.is_some() {
            self.tcp = Tcp::open(place.here, tcp_settings(config, place.peers)).ok();
        }
        Ok(())
    }

    /// Opens shared memory with those of this node that have any, if they are more than this process alone.
    fn share(&mut self, place: &Place<'_>, offer: &Offer, neighbours: &Neighbours) -> Result<()> {
        let sharing = neighbours.processes.iter().filter(|(_, shares)| *shares);
        let sharing: Vec<Peer> = sharing.map(|(process, _)| Peer(*process)).collect();
        if sharing.len() < 2 {
            return Ok(());
        }
        let segment = share_segment(place, offer, &sharing, &neighbours.offer)?;
        self.open_shm(place, segment, sharing, neighbours.cores)
    }

    fn open_shm(
        &mut self,
        place: &Place<'_>,
        segment: OwnedFd,
        peers: Vec<Peer>,
        cores: Cores,
    ) -> Result<()> {
        let seats = peers.len() as u32;
        let seat = peers.iter().position(|&peer| peer == place.here).unwrap_or_default() as u32;
        let found = place.config.constants.find().map_err(|why| constants_refused(&why))?;
        let looks = place.config.pull && place.config.constants != ConstantsFrom::BuiltIn;
        let found = found.looked_at(if looks { least_read_ns() } else { None });
        // Once for each node.
        if let Some(warning) = found.warning.as_ref().filter(|_| seat == 0) {
            crate::tell(format_args!("weft: {warning}"));
        }
        let segment = Segment::adopt(segment, seats).map_err(|error| segment_refused(&error))?;
        // Both sides copy at once only where neither waits for the other's core. Where cores are shared, others have them
        // between two turns.
        let (has_core, rests) = match Policy::choose(place.config.wait, cores) {
            Policy::OwnCore => (true, TURNS_BETWEEN_NETWORKS),
            Policy::SharedCore | Policy::Crowd => (false, 0),
        };
        self.networks_rests = rests;
        let settings = shm::Settings {
            pull: place.config.pull,
            eager_bytes_max: found.constants.eager_bytes_max(),
            ways: found.constants.ways(),
            has_core,
        };
        self.shm = Some(Shm::open(segment, seat, peers, settings).map_err(|error| segment_refused(&error))?);
        self.constants = Some(Box::new(found));
        Ok(())
    }

    /// Memory that the other processes of this node can map; none where no memory is shared.
    pub(crate) fn heap(&self) -> Option<SharedHeap> {
        self.shm.as_ref().map(Shm::heap)
    }

    /// Lines that processes of this node write for each other; none where one of them shares no memory, so that all have
    /// the same answer.
    pub(crate) fn boards(&self) -> Option<Boards> {
        self.shm.as_ref().filter(|_| self.all_share).map(Shm::boards)
    }

    /// Where the constants in use come from; none where shm is not open.
    pub(crate) fn constants(&self) -> Option<&Found> {
        self.constants.as_deref()
    }

    /// The names of the fabrics that are open.
    pub(crate) fn open_names(&self) -> Vec<&'static str> {
        let shm = self.shm.as_ref().map(Fabric::name);
        let tcp = self.tcp.as_ref().filter(|_| self.tcp_brings).map(Fabric::name);
        [shm, tcp, self.libfabric.as_ref().map(Fabric::name)].into_iter().flatten().collect()
    }

    /// What a fabric of others' making uses for a lane: the provider of libfabric, and its cards.
    pub(crate) fn over(&self, lane: Lane) -> Option<String> {
        let (Lane::Libfabric(_), Some(libfabric)) = (lane, &self.libfabric) else { return None };
        let cards: Vec<&str> = libfabric.domains().collect();
        let (first, others) = cards.split_first()?;
        let helped =
            if others.is_empty() { String::new() } else { format!(", helped by {}", others.join(", ")) };
        Some(format!("{} on {first}{helped}", libfabric.provider()))
    }

    /// How large messages go over a lane.
    pub(crate) fn large(&self, lane: Lane) -> Large {
        let (Lane::Shm(lane), Some(shm)) = (lane, &self.shm) else {
            return if self.limits(lane).pull { Large::Read } else { Large::Sent };
        };
        let shm::Explained { at_once_bytes_max, shared_bytes_min, pull, .. } = shm.explain(lane);
        match pull {
            shm::PullExplained::Allowed => Large::Pulled { at_once_bytes_max, shared_bytes_min },
            shm::PullExplained::SwitchedOff => Large::Copied { why: "switched off by WEFT_CMA=0".to_owned() },
            shm::PullExplained::NobodyThere => Large::Copied { why: "that process is not there".to_owned() },
            shm::PullExplained::Refused(refusal) => Large::Copied { why: format!("refused: {refusal}") },
        }
    }

    #[inline(always)]
    fn poll_networks(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let Some(libfabric) = &mut self.libfabric else {
            return self.tcp.as_mut().map_or(0, |tcp| tcp.poll(sink, events));
        };
        let happened = libfabric.poll(sink, events);
        if self.tcp_rests > 0 {
            self.tcp_rests -= 1;
            return happened;
        }
        happened + self.poll_tcp_beside(sink, events)
    }

    /// Looks at tcp where libfabric is there as well, and says what that has to say of slow ways.
    #[inline(never)]
    fn poll_tcp_beside(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        if let Some(notice) = self.libfabric.as_mut().and_then(Libfabric::take_notice) {
            crate::tell(format_args!("weft: {notice}"));
        }
        let (Some(tcp), Some(libfabric)) = (&mut self.tcp, &mut self.libfabric) else { return 0 };
        let happened = self.lifelines.poll(tcp, sink, events, |peer| libfabric.knows(peer));
        self.is_tcp_used |= self.lifelines.have_brought();
        self.tcp_rests = match (self.is_tcp_used, self.lifelines.is_hurried()) {
            (true, _) => 0,
            (false, true) => TURNS_BETWEEN_NETWORKS,
            (false, false) => TURNS_BETWEEN_LIFELINES,
        };
        for (peer, error) in self.lifelines.ended() {
            libfabric.lose(peer, error);
        }
        happened
    }

    #[cold]
    fn post_to_oneself(&mut self, header: &Header, payload: Payload<'_>) -> Posted {
        let posted = self.loopback.post((), header, payload);
        self.to_oneself += usize::from(posted == Posted::Sent);
        posted
    }

    /// The ways to a peer, with their prices.
    fn ways(&self, peer: Peer, card: &[u8]) -> Vec<(Cost, FabricName, Vec<u8>)> {
        let mut ways = Vec::new();
        if let Some(shm) = &self.shm
            && let Some(address) = shm.address_of(peer)
            && let Some(cost) = shm.reach(peer, &address)
        {
            ways.push((cost, FabricName::Shm, address));
        }
        let card = Card::decode(card).unwrap_or_default();
        if let Some(tcp) = self.tcp.as_ref().filter(|_| self.tcp_brings)
            && let Some(address) = card.tcp
            && let Some(cost) = tcp.reach(peer, &address)
        {
            ways.push((cost, FabricName::Tcp, address));
        }
        if let Some(libfabric) = &self.libfabric
            && let Some(address) = card.libfabric
            && let Some(cost) = libfabric.reach(peer, &address)
        {
            ways.push((cost, FabricName::Libfabric, address));
        }
        ways.sort_by_key(|(cost, _, _)| *cost);
        ways
    }

    /// That is the way to the peer from now on.
    fn chosen(&mut self, peer: Peer, lane: Lane, card: &[u8]) {
        match lane {
            Lane::Tcp(_) => self.is_tcp_used = true,
            Lane::Libfabric(_) => {
                if let (Some(tcp), Some(card)) = (&mut self.tcp, Card::decode(card))
                    && let Some(address) = card.tcp
                {
                    self.lifelines.watch(tcp, peer, &address);
                    self.tcp_rests = 0;
                }
            }
            Lane::Loopback | Lane::Shm(_) => {}
        }
    }
}

impl Fabric for Fabrics {
    type Lane = Lane;
    type Bell = FabricsBell;

    fn name(&self) -> &'static str {
        "weft"
    }

    fn address(&self) -> Vec<u8> {
        Vec::new()
    }

    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        self.ways(peer, address).first().map(|(cost, _, _)| *cost)
    }

    fn connect(&mut self, peer: Peer, card: &[u8]) -> std::result::Result<Lane, FabricError> {
        if peer == self.here {
            return Ok(Lane::Loopback);
        }
        let mut last = None;
        for (_, name, address) in self.ways(peer, card) {
            let lane = match (name, &mut self.shm, &mut self.tcp, &mut self.libfabric) {
                (FabricName::Shm, Some(shm), ..) => shm.connect(peer, &address).map(Lane::Shm),
                (FabricName::Tcp, _, Some(tcp), _) => tcp.connect(peer, &address).map(Lane::Tcp),
                (FabricName::Libfabric, .., Some(libfabric)) => {
                    libfabric.connect(peer, &address).map(Lane::Libfabric)
                }
                _ => continue,
            };
            match lane {
                Ok(lane) => {
                    self.chosen(peer, lane, card);
                    return Ok(lane);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| self.unreachable(peer)))
    }

    fn limits(&self, lane: Lane) -> Limits {
        match (lane, &self.shm, &self.tcp, &self.libfabric) {
            (Lane::Shm(lane), Some(shm), ..) => shm.limits(lane),
            (Lane::Tcp(lane), _, Some(tcp), _) => tcp.limits(lane),
            (Lane::Libfabric(lane), .., Some(libfabric)) => libfabric.limits(lane),
            _ => self.loopback.limits(()),
        }
    }

    #[inline(always)]
    fn post(&mut self, lane: Lane, header: &Header, payload: Payload<'_>) -> Posted {
        crash::point();
        match (lane, &mut self.shm, &mut self.tcp, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), ..) => shm.post(lane, header, payload),
            (Lane::Tcp(lane), _, Some(tcp), _) => tcp.post(lane, header, payload),
            (Lane::Libfabric(lane), .., Some(libfabric)) => libfabric.post(lane, header, payload),
            _ => self.post_to_oneself(header, payload),
        }
    }

    #[inline]
    fn post_made(
        &mut self,
        lane: Lane,
        header: &Header,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) -> Option<Posted> {
        crash::point();
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.post_made(lane, header, bytes, write),
            _ => None,
        }
    }

    fn resume(&mut self, lane: Lane, rest: Payload<'_>) -> Posted {
        crash::point();
        match (lane, &mut self.shm, &mut self.tcp, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), ..) => shm.resume(lane, rest),
            (Lane::Tcp(lane), _, Some(tcp), _) => tcp.resume(lane, rest),
            (Lane::Libfabric(lane), .., Some(libfabric)) => libfabric.resume(lane, rest),
            _ => self.loopback.resume((), rest),
        }
    }

    #[inline(always)]
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut happened = 0;
        if self.to_oneself > 0 {
            happened = self.loopback.poll(sink, events);
            self.to_oneself -= happened;
        }
        if let Some(shm) = &mut self.shm {
            happened += shm.poll(sink, events);
        }
        if self.tcp.is_some() || self.libfabric.is_some() {
            // A look at a network is a system call. Where shm is there too, they are looked at now and then, and in any
            // case: others that always have something must not keep them waiting for ever.
            let is_slept_on = self.tcp.as_ref().is_some_and(Tcp::is_slept_on);
            let is_due = self.shm.is_none() || self.networks_rest == 0 || is_slept_on;
            if is_due || self.libfabric.as_ref().is_some_and(Libfabric::is_hasty) {
                happened += self.poll_networks(sink, events);
                // Who has slept looks at once.
                self.networks_rest = if is_slept_on { 0 } else { self.networks_rests };
            } else {
                self.networks_rest -= 1;
            }
        }
        if happened > 0 {
            crash::point();
        }
        happened
    }

    #[inline(always)]
    fn look<R>(&mut self, lane: Lane, reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>) -> Looked<R> {
        match (lane, &mut self.shm, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), _) => shm.look(lane, reader),
            (Lane::Libfabric(lane), _, Some(libfabric)) => libfabric.look(lane, reader),
            _ => Looked::Nothing,
        }
    }

    fn call_roll(&mut self) -> bool {
        if let Some(shm) = &mut self.shm {
            shm.call_roll();
        }
        if let Some(tcp) = &mut self.tcp {
            tcp.call_roll();
        }
        let (Some(tcp), Some(libfabric)) = (&mut self.tcp, &mut self.libfabric) else { return false };
        self.tcp_rests = 0;
        // Whoever has waited for a moment only need not ask who is there.
        if !self.stillness.is_long(libfabric.events()) {
            return false;
        }
        for peer in self.lifelines.have_left(|peer| tcp.has_ended(peer)) {
            libfabric.let_go(peer);
        }
        true
    }

    fn bury(&mut self, peer: Peer, error: FabricError) -> bool {
        // The next poll tells of it, whichever fabric has the peer.
        (self.networks_rest, self.tcp_rests) = (0, 0);
        if let Some(libfabric) = self.libfabric.as_mut().filter(|libfabric| libfabric.knows(peer)) {
            libfabric.lose(peer, error);
            return true;
        }
        let in_shm = self.shm.as_mut().is_some_and(|shm| shm.bury(peer, error.clone()));
        in_shm || self.tcp_brings && self.tcp.as_mut().is_some_and(|tcp| tcp.bury(peer, error))
    }

    fn bell(&self) -> FabricsBell {
        FabricsBell::new(self.shm.as_ref(), self.tcp.as_ref(), self.libfabric.as_ref())
    }

    fn expose(&mut self, lane: Lane, memory: Payload<'_>) -> Exposed {
        crash::point();
        match (lane, &mut self.shm, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), _) => shm.expose(lane, memory),
            (Lane::Libfabric(lane), _, Some(libfabric)) => libfabric.expose(lane, memory),
            _ => Exposed::default(),
        }
    }

    fn conceal(&mut self, peer: Peer, exposed: Exposed) {
        // To shared memory it makes no difference, and nothing is exposed to a peer by two fabrics.
        if let Some(libfabric) = &mut self.libfabric {
            libfabric.conceal(peer, exposed);
        }
    }

    fn pull(
        &mut self,
        lane: Lane,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        ticket: u64,
    ) -> Pulled {
        crash::point();
        match (lane, &mut self.shm, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), _) => shm.pull(lane, exposed, offset, into, ticket),
            (Lane::Libfabric(lane), _, Some(libfabric)) => {
                libfabric.pull(lane, exposed, offset, into, ticket)
            }
            _ => Pulled::Refused,
        }
    }

    fn takes_at_once(&mut self, lane: Lane, payload: Payload<'_>) -> bool {
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.takes_at_once(lane, payload),
            _ => false,
        }
    }

    fn rather_posted(&mut self, lane: Lane, exposed: Exposed, bytes: usize) -> bool {
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.rather_posted(lane, exposed, bytes),
            _ => false,
        }
    }

    fn invite(&mut self, lane: Lane, exposed: Exposed, into: &UserMemory) -> Option<Exposed> {
        crash::point();
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.invite(lane, exposed, into),
            _ => None,
        }
    }

    fn pull_shared(
        &mut self,
        lane: Lane,
        exposed: Exposed,
        invitation: Exposed,
        into: &mut UserMemory,
    ) -> PulledShared {
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.pull_shared(lane, exposed, invitation, into),
            _ => PulledShared::Refused { peer_brings: false },
        }
    }

    fn bring(&mut self, lane: Lane, invitation: Exposed, memory: Payload<'_>) -> Brought {
        crash::point();
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.bring(lane, invitation, memory),
            _ => Brought { claimed: false, bytes: 0 },
        }
    }

    fn flush(&mut self) -> bool {
        let shm = self.shm.as_mut().is_none_or(Fabric::flush);
        let tcp = self.tcp.as_mut().is_none_or(Fabric::flush);
        let libfabric = self.libfabric.as_mut().is_none_or(Fabric::flush);
        shm && tcp && libfabric
    }

    fn leave(&mut self) -> bool {
        let shm = self.shm.as_mut().is_none_or(Fabric::leave);
        let libfabric = self.libfabric.as_mut().is_none_or(Fabric::leave);
        // Whoever hears a goodbye over tcp takes it for the end of all that comes by the others, too.
        shm && libfabric && self.tcp.as_mut().is_none_or(Fabric::leave)
    }
}

fn random_token() -> Result<Token> {
    let mut token = Token::default();
    getrandom::fill(&mut token)
        .map_err(|error| Error::new(Class::Other, format!("the system gives no random numbers: {error}")))?;
    Ok(token)
}

/// Where a process of this host would listen, and be reached.
///
/// # Errors
/// As when a job opens its sockets.
pub fn listening(config: &Config) -> Result<Vec<std::net::SocketAddr>> {
    Ok(Tcp::open(FIRST, tcp_settings(config, 1))?.addresses())
}

/// The network cards for RDMA that the kernel of this host knows, by their names.
#[must_use]
pub fn rdma_cards() -> Vec<String> {
    libfabric::cards(Path::new("/sys"))
}

/// What libfabric has on this host, and what of it a job would take that asks for libfabric.
///
/// # Errors
/// That there is no library, or none that fits, with the remedy.
pub fn survey_libfabric(config: &Config) -> Result<libfabric::Survey> {
    libfabric::Survey::make(&cards::settings(config, 0, 1)).map_err(|error| refused("libfabric", &error.what))
}

fn measure(config: &Config, segment: OwnedFd, seat: u32, effort: Effort) -> Result<Measured> {
    let segment = Segment::adopt(segment, 2).map_err(|error| segment_refused(&error))?;
    let settings = shm::Settings { pull: config.pull, ..shm::Settings::default() };
    let shm::Measured { hand_over_ns, copied, pulled } =
        shm::measure(segment, seat, settings, effort, MEASURING_PATIENCE)?;
    Ok(Measured { hand_over_ns, copied, pulled })
}

fn constants_refused(why: &str) -> Error {
    Error::new(Class::Argument, format!("the file of WEFT_CONSTANTS cannot be used: {why}")).remedy(
        "unset WEFT_CONSTANTS, or write the file anew: WEFT_CONSTANTS=FILE weft explain lanes --measure",
    )
}

fn tcp_settings(config: &Config, peers: u32) -> tcp::Settings {
    tcp::Settings {
        ports: config.tcp_ports.clone(),
        connect_timeout: config.connect_timeout,
        node_timeout: config.node_timeout,
        interfaces: config.tcp_interfaces.clone(),
        peers,
    }
}

fn refused(fabric: &str, error: &dyn std::fmt::Display) -> Error {
    Error::of_text(Class::Other, &format!("{fabric}: {error}"))
}

/// The process whose card all look at.
const FIRST: Peer = Peer(0);
/// Announced where the ranks of some node share cores.
const CORES_SHARED: &str = "weft-cores-shared";
/// How often shm is looked at before networks are looked at once.
const TURNS_BETWEEN_NETWORKS: u32 = 16;
/// How often libfabric is looked at before tcp is looked at once, where tcp brings nothing but news of deaths.
const TURNS_BETWEEN_LIFELINES: u32 = 1024;
/// The longest sleep where one bell cannot hear everything.
const NAP: Duration = Duration::from_millis(1);
/// How long the other process may do nothing while shm is measured.
const MEASURING_PATIENCE: Duration = Duration::from_secs(20);
/// How long the neighbours may take to fetch the segment.
const HANDOUT_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lifelines::tests::Heard;

    #[test]
    fn who_is_buried_is_lost_with_the_next_poll_although_networks_rest() {
        let config = Config::default();
        let place = Place { here: Peer(0), ranks: 3, peers: 3, config: &config };
        let alone = Place { ranks: 1, peers: 1, ..place };
        let Opened { mut fabrics, .. } =
            Fabrics::open(&alone, &mut Exchange::Manager(Arc::default())).unwrap();
        let shared = (Segment::create(2).unwrap(), vec![Peer(0), Peer(1)]);
        fabrics.open_shm(&place, shared.0, shared.1, Cores::Own).unwrap();
        let tcp = |here| Tcp::open(here, tcp_settings(&config, 3)).unwrap();
        let (mut here, there) = (tcp(Peer(0)), tcp(Peer(2)));
        here.connect(Peer(2), &there.address()).unwrap();
        (fabrics.tcp, fabrics.tcp_brings) = (Some(here), true);
        let mut sink = Heard::default();
        fabrics.poll(&mut sink, 1);
        assert!(fabrics.networks_rest > 1 && sink.1.is_empty());
        let what = "it has ended".to_owned();
        assert!(fabrics.bury(Peer(2), FabricError { fabric: "test", fault: fabric::Fault::Died, what }));
        fabrics.poll(&mut sink, 1);
        assert_eq!(sink.1, [Peer(2)]);
    }
}
