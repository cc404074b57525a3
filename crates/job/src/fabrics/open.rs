//! How a process opens its fabrics when it joins its job.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use collectives::Cores;
use fabric::loopback::Loopback;
use fabric::{Fabric, Peer};

use super::memory::{inherited_segment, segment_refused, share_segment};
use super::{
    CORES_SHARED, FIRST, Fabrics, Libfabric, Met, Offer, Opened, Place, Segment, Shm, ShmSettings,
    TURNS_BETWEEN_NETWORKS, Tcp, cards, constants_refused, least_read_ns, rdma_cards, refused, tcp_settings,
};
use crate::card::{Card, Token};
use crate::config::FabricName;
use crate::constants::ConstantsFrom;
use crate::error::{Class, Error, Result};
use crate::key_value_exchange::Exchange;
use crate::liveness_connections::{Lifelines, Stillness};
use crate::node_discovery::{Claim, Meeting, Neighbours};
use crate::tell::tell;
use crate::tuning;
use crate::wait::{self, Policy};

impl Place<'_> {
    /// All processes that the job has or may come to have.
    pub(super) fn everybody(&self) -> Vec<Peer> {
        (0..self.peers).map(Peer).collect()
    }
}

impl Fabrics {
    /// Opens what the job needs: nothing for a process alone, shared memory where the launcher gave it, and
    /// otherwise whatever the processes find out about each other by exchanging cards.
    ///
    /// # Errors
    /// What a fabric, or the process manager, lacks or refuses, with the remedy.
    pub fn open(place: &Place<'_>, exchange: &mut Exchange) -> Result<Opened> {
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
            let (node, guide) = (vec![place.here], tuning::of_launcher(place.config)?);
            return Ok(Opened {
                fabrics,
                exchanged: false,
                met: Met { cores_here: cores, cores, node, guide },
            });
        }
        let inherited = place.config.segment.filter(|_| place.config.allows(FabricName::Shm));
        if let Some(number) = inherited {
            let cores = wait::cores(place.ranks, wait::cpus(place.config));
            fabrics.open_shm(place, inherited_segment(number)?, place.everybody(), cores)?;
            let (node, guide) = (place.everybody(), tuning::of_launcher(place.config)?);
            return Ok(Opened {
                fabrics,
                exchanged: false,
                met: Met { cores_here: cores, cores, node, guide },
            });
        }
        let met = match place.config.rebuilt {
            None => fabrics.meet(place, exchange)?,
            Some(_) => fabrics.rejoin(place, exchange)?,
        };
        Ok(Opened { fabrics, exchanged: true, met })
    }

    /// Leaves a card, meets the processes of this node, waits until all have done so, and opens shared memory
    /// with those that are here. Beside the fence a process asks its manager a few things, as many in any
    /// job.
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
            card.guide = Some(tuning::proposal(config)?).filter(|text| !text.is_empty());
        }
        self.open_networks(place, exchange)?;
        card.tcp = self.tcp.as_ref().map(Fabric::address);
        card.libfabric = self.libfabric.as_ref().map(Fabric::address);
        exchange.put_card(place.here, &card.encode())?;
        // One process of the node knows it for sure; where a few must speak for all, each says what it is
        // told.
        let told = exchange.local_size()?.is_some_and(|ranks| wait::cores(ranks, cpus) == Cores::Shared);
        exchange.announce(CORES_SHARED, meeting.announces() || told)?;
        exchange.fence(&mut || meeting.watches())?;
        let (token, guide) = card.agree(place.here, exchange.card(FIRST)?.as_deref())?;
        let cores = if exchange.is_announced(CORES_SHARED)? { Cores::Shared } else { Cores::Own };
        let neighbours = meeting.end(place.ranks, &token)?;
        self.all_share = neighbours.processes.iter().all(|(_, shares)| *shares);
        let node = match place.peers == place.ranks || config.node.is_some() {
            true => neighbours.processes.iter().map(|(process, _)| Peer(*process)).collect(),
            // Who comes into the place of another is started on this node, too.
            false => place.everybody(),
        };
        if let Some((offer, _)) = offer {
            self.share(place, &offer, &neighbours)?;
        }
        Ok(Met { cores_here: neighbours.cores, cores, node, guide: tuning::of_card(guide.as_deref())? })
    }

    /// Opens tcp, and libfabric where it was asked for, or where the job has ranks elsewhere and this host a
    /// card for it.
    pub(super) fn open_networks(&mut self, place: &Place<'_>, exchange: &mut Exchange) -> Result<()> {
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

    pub(super) fn open_shm(
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
            tell(format_args!("weft: {warning}"));
        }
        let segment = Segment::adopt(segment, seats).map_err(|error| segment_refused(&error))?;
        // Both sides copy at once only where neither waits for the other's core. Where cores are shared,
        // others have them between two turns.
        let (has_core, rests) = match Policy::choose(place.config.wait, cores) {
            Policy::OwnCore => (true, TURNS_BETWEEN_NETWORKS),
            Policy::SharedCore | Policy::Crowd => (false, 0),
        };
        self.networks_rests = rests;
        let settings = ShmSettings {
            pull: place.config.pull,
            eager_bytes_max: found.constants.eager_bytes_max(),
            ways: found.constants.ways(),
            has_core,
        };
        self.shm = Some(Shm::open(segment, seat, peers, settings).map_err(|error| segment_refused(&error))?);
        self.constants = Some(Box::new(found));
        Ok(())
    }
}

fn random_token() -> Result<Token> {
    let mut token = Token::default();
    getrandom::fill(&mut token)
        .map_err(|error| Error::new(Class::Other, format!("the system gives no random numbers: {error}")))?;
    Ok(token)
}
