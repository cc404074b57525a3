//! The fabrics there are, in one place: the only file that names them all.
//!
//! [`Fabrics`] is a fabric itself, made of the others: each call is one `match` on the lane. Which fabric
//! serves a peer is decided once, at the first message, by reach and cost.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use collectives::{Cores, TuningConfig};
use fabric::loopback::Loopback;
use fabric::{Attached, Fabric, Peer};
use libfabric::{Around, Libfabric, Settings as LibfabricSettings, are_cards_apart};
use shm::{
    Explained, HandoutError, Offer, PullExplained, Segment, SegmentError, Settings as ShmSettings, Shm,
    fetch, least_read_ns,
};

mod bell;
mod cards;
mod dispatch;
mod measuring;
mod memory;
mod one_sided;
mod open;
mod poller_thread;
mod rejoin;
mod unreachable;

pub use bell::FabricsBell;
pub(crate) use libfabric::packet_bytes;
pub use libfabric::{
    AddressFormat, Found as FoundByLibfabric, Link, Nature, NearDomains, Nic, PACKET_BYTES, PACKET_VARIABLE,
    PciAddress, Survey as LibfabricSurvey, Version,
};
pub use measuring::{measure_first, measure_second};
use memory::segment_refused;
pub use memory::{
    CommonOffer, begin_liveness_descriptor, fetch_common, inherited_failure_log, inherited_pipe,
    inherited_wait_states, segment_for_threads,
};
pub use memory::{create_segment, share_memory};
pub(crate) use shm::same_user;
pub use shm::{
    CollectiveSegment, CollectiveSegments, Common, FailureLog, FailureLogWriter, LivenessDescriptor,
    LivenessDescriptors, MemoryCard, NoSignals, OfferedMemory, PeerMemory, SharedHeap, Thoroughness,
    WaitState, WaitStates, WaitStatesReader, Ways, anew, be_prompt, memfd_refusal, second_cache_bytes,
};
use tcp::{Settings as TcpSettings, SleepWatch as TcpLookout, Tcp};

use crate::config::Config;
use crate::constants::Found;
use crate::error::{Class, Error, Result};
use crate::lanes::{Large, Measured};
use crate::liveness_connections::{Lifelines, Stillness};

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
    /// Whether a rest between two looks does good: where a look is at memory that the peer writes. A
    /// provider's look takes longer than that.
    #[inline(always)]
    #[must_use]
    pub fn wants_rests(&self) -> bool {
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

/// What a process knows of its part in the job when it opens its fabrics.
pub struct Place<'a> {
    /// This process.
    pub here: Peer,
    /// Ranks of the job.
    pub ranks: u32,
    /// Numbers of the job's processes, with those that may come into the place of others.
    pub peers: u32,
    /// What the environment says.
    pub config: &'a Config,
}

/// The fabrics of a process that has joined its job, and what it has learned of the others.
pub struct Opened {
    /// The fabrics.
    pub fabrics: Fabrics,
    /// Whether cards were exchanged; if not, all peers are reached without.
    pub exchanged: bool,
    /// What the processes have learned of each other.
    pub met: Met,
}

/// What the processes of a job have learned of each other before their first message.
pub struct Met {
    /// What cores the ranks of this node have, as far as is known.
    pub cores_here: Cores,
    /// What cores the ranks of the job have, alike at all of them: shared, if they are on any node.
    pub cores: Cores,
    /// The processes that can share memory with this one, and this one, ascending.
    pub node: Vec<Peer>,
    /// By what collective algorithms are chosen, alike at all ranks.
    pub guide: &'static TuningConfig,
}

impl Fabrics {
    /// Memory that the other processes of this node can map; none where no memory is shared.
    #[must_use]
    pub fn heap(&self) -> Option<SharedHeap> {
        self.shm.as_ref().map(Shm::heap)
    }

    /// Lines that processes of this node write for each other; none where one of them shares no memory, so
    /// that all have the same answer.
    #[must_use]
    pub fn segments(&self) -> Option<CollectiveSegments> {
        self.shm.as_ref().filter(|_| self.all_share).map(Shm::collective_segments)
    }

    /// Where the constants in use come from; none where shm is not open.
    #[must_use]
    pub fn constants(&self) -> Option<&Found> {
        self.constants.as_deref()
    }

    /// The names of the fabrics that are open.
    #[must_use]
    pub fn open_names(&self) -> Vec<&'static str> {
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
        let Explained { at_once_bytes_max, shared_bytes_min, pull, .. } = shm.explain(lane);
        match pull {
            PullExplained::Allowed => Large::Pulled { at_once_bytes_max, shared_bytes_min },
            PullExplained::SwitchedOff => Large::Copied { why: "switched off by WEFT_CMA=0".to_owned() },
            PullExplained::NobodyThere => Large::Copied { why: "that process is not there".to_owned() },
            PullExplained::Refused(refusal) => Large::Copied { why: format!("refused: {refusal}") },
        }
    }
}

/// Where a process of this host would listen, and be reached.
///
/// # Errors
/// When a job could not open its sockets: with the remedy.
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
pub fn survey_libfabric(config: &Config) -> Result<LibfabricSurvey> {
    LibfabricSurvey::make(&cards::settings(config, 0, 1)).map_err(|error| refused("libfabric", &error.what))
}

fn measure(config: &Config, segment: OwnedFd, seat: u32, thoroughness: Thoroughness) -> Result<Measured> {
    let segment = Segment::adopt(segment, 2).map_err(|error| segment_refused(&error))?;
    let settings = ShmSettings { pull: config.pull, ..ShmSettings::default() };
    let shm::Measured { hand_over_ns, copied, pulled } =
        shm::measure(segment, seat, settings, thoroughness, MEASURING_PATIENCE)?;
    Ok(Measured { hand_over_ns, copied, pulled })
}

fn constants_refused(why: &str) -> Error {
    Error::new(Class::Argument, format!("the file of WEFT_CONSTANTS cannot be used: {why}")).remedy(
        "unset WEFT_CONSTANTS, or write the file anew: WEFT_CONSTANTS=FILE weft explain lanes --measure",
    )
}

fn tcp_settings(config: &Config, peers: u32) -> TcpSettings {
    TcpSettings {
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
/// How often libfabric is looked at before tcp is looked at once, where tcp brings nothing but news of
/// deaths.
const TURNS_BETWEEN_LIFELINES: u32 = 1024;
/// The longest sleep where one bell cannot hear everything.
const NAP: Duration = Duration::from_millis(1);
/// How long the other process may do nothing while shm is measured.
const MEASURING_PATIENCE: Duration = Duration::from_secs(20);
/// How long the neighbours may take to fetch the segment.
const HANDOUT_TIMEOUT: Duration = Duration::from_secs(30);
