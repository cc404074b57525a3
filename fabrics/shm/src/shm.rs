//! The fabric itself: lanes to peers, the rings it has been told of, and the faults it has to report.

use std::collections::{BTreeMap, VecDeque};

use fabric::{
    Brought, Cost, Exposed, Fabric, FabricError, Header, Limits, Looked, Payload, Peer, Posted, Pulled,
    PulledShared, Sink, UserMemory, crash,
};

use crate::bell::{ShmBell, wake};
use crate::choices::Ways;
use crate::cma::{self, Probe};
use crate::collective_segment::CollectiveSegments;
use crate::heap::{self, MappedHeap, SharedHeap};
use crate::layout::{CHUNKED_MESSAGE_BYTES_MIN, LINE_PAYLOAD_BYTES_MAX, PAGE};
use crate::memory::Mapped;
use crate::presence::{self, LivenessTable};
use crate::process_slot::ProcessSlot;
use crate::ring::ProtocolViolation;
use crate::segment::{Segment, SegmentError, ring_refused};
use crate::sync::enlisted;

mod at_once;
mod burial;
pub mod explain;
mod listening;
mod made;
mod mapped;
mod pair;
mod roll;
mod shared;
mod short_messages;
mod trouble;

use pair::{Opened, Pair, Pull};
use trouble::{not_here, wild_writer};

/// The shm fabric of one process, on one process slot of a segment.
pub struct Shm {
    segment: Segment,
    here: u32,
    process_slot: ProcessSlot,
    /// The peers of this node, by process slot.
    peers: Vec<Peer>,
    settings: Settings,
    /// What others read by way of trial; it must stay where it is.
    _probe: Probe,
    /// Memory that the others can map.
    heap: SharedHeap,
    /// The heaps of others in which something was read, by process slot.
    windows: BTreeMap<u32, MappedHeap>,
    /// The peers that were spoken to, or have spoken. A lane is a place here.
    pairs: Vec<Pair>,
    /// Where the pair with a process slot is there; [`NOWHERE`] where there is none.
    by_process_slot: Vec<u32>,
    /// Where those are that have spoken.
    heard: Vec<u32>,
    /// Where in that list the next poll begins, so that a busy ring cannot starve the others.
    next_heard: usize,
    /// Who spoke last is asked first.
    recent_heard: usize,
    /// To be reported by the next poll.
    faults: VecDeque<(Peer, FabricError)>,
    roll: LivenessTable,
    /// The process slots of those who are lost, whose knocks are not answered any more.
    lost: Vec<u32>,
    opener: rustix::process::Pid,
    /// Tells copies that both sides share from those before.
    tickets: u16,
}

/// What the layer above has decided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Whether to read peers' memory where the kernel allows it. Without it, everything is copied through
    /// rings.
    pub pull: bool,
    /// Up to here a message is sent without asking, where peers' memory can be read; as far as rings have
    /// room.
    pub eager_bytes_max: usize,
    /// What decides whether a message longer than `eager_bytes_max` is sent at once while the ring has free
    /// slots for it. `None`: the receiver reads it out of the sender's memory.
    pub ways: Option<Ways>,
    /// Whether this process has a core of its own, and so can copy while a peer does.
    pub has_core: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { pull: true, eager_bytes_max: EAGER_BYTES_MAX, ways: None, has_core: true }
    }
}

/// How to reach one peer over shm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShmLane {
    index: u32,
}

impl Shm {
    /// Takes process slot `process_slot` of a segment. `peers` are the processes of this node in the order of
    /// their process slots.
    ///
    /// # Errors
    /// [`SegmentError::Taken`] where another process has had the process slot, [`SegmentError::Mismatch`]
    /// where the numbers make no sense, [`SegmentError::System`] where the system has no random numbers.
    pub fn open(
        segment: Segment,
        process_slot: u32,
        peers: Vec<Peer>,
        settings: Settings,
    ) -> Result<Shm, SegmentError> {
        let process_slots = segment.process_slots();
        if process_slot as usize >= peers.len() || peers.len() > process_slots as usize {
            return Err(SegmentError::Mismatch { process_slot, peers: peers.len(), process_slots });
        }
        let here = ProcessSlot::at(segment.layout().process_slot_at(process_slot));
        if !here.take(segment.memory()) {
            return Err(SegmentError::Taken { process_slot });
        }
        let probe = Probe::new(random()?);
        let claimed = presence::claim(segment.file(), process_slot);
        sit_down(&segment, here, &probe, settings, claimed);
        Ok(Shm {
            here: process_slot,
            process_slot: here,
            by_process_slot: vec![NOWHERE; peers.len()],
            peers,
            settings,
            _probe: probe,
            heap: SharedHeap::new(segment.clone(), process_slot),
            windows: BTreeMap::new(),
            pairs: Vec::new(),
            heard: Vec::new(),
            next_heard: 0,
            recent_heard: 0,
            faults: VecDeque::new(),
            roll: LivenessTable::new(),
            lost: Vec::new(),
            opener: rustix::process::getpid(),
            tickets: 0,
            segment,
        })
    }

    /// The collective segments of this node.
    #[must_use]
    pub fn collective_segments(&self) -> CollectiveSegments {
        CollectiveSegments::new(self.segment.clone(), &self.peers, self.settings.pull)
    }

    /// The address of a process of this node, without asking it: it differs from our own by the process slot
    /// alone.
    #[must_use]
    pub fn address_of(&self, peer: Peer) -> Option<Vec<u8>> {
        let process_slot = self.peers.iter().position(|other| *other == peer)?;
        Some(self.address_at(u32::try_from(process_slot).ok()?))
    }

    fn address_at(&self, process_slot: u32) -> Vec<u8> {
        [ADDRESS_MAGIC, self.segment.identity(), &process_slot.to_le_bytes()].concat()
    }

    /// The process slot that an address names, if it is one of this segment and `peer`'s.
    fn process_slot_of(&self, peer: Peer, address: &[u8]) -> Option<u32> {
        let (identity, process_slot) = address.strip_prefix(ADDRESS_MAGIC)?.split_at_checked(16)?;
        let process_slot = u32::from_le_bytes(process_slot.try_into().ok()?);
        let known =
            identity == self.segment.identity() && self.peers.get(process_slot as usize) == Some(&peer);
        known.then_some(process_slot)
    }

    /// Everything about a post that is not the path of a small message to a peer with room.
    #[cold]
    #[inline(never)]
    fn post_any(&mut self, lane: ShmLane, header: &Header, payload: Payload<'_>) -> Posted {
        let needs = if payload.bytes() <= LINE_PAYLOAD_BYTES_MAX { Opened::Lines } else { Opened::All };
        if !self.opened(lane, needs) {
            return Posted::Busy;
        }
        if self.pairs[lane.index as usize].channel.producer.is_whole() {
            self.attend_single_slot(lane, payload.bytes());
        }
        let channel = &mut self.pairs[lane.index as usize].channel;
        if channel.post(self.segment.memory(), header, payload) {
            return self.posted(lane, Ok(Posted::Sent));
        }
        if payload.bytes() >= CHUNKED_MESSAGE_BYTES_MIN {
            return self.post_long(lane, header, payload);
        }
        let posted = channel.producer.post(self.segment.memory(), header, payload);
        self.posted(lane, posted)
    }

    /// Wakes the receiver where something was sent; notes a fault.
    fn posted(&mut self, lane: ShmLane, posted: Result<Posted, ProtocolViolation>) -> Posted {
        match posted {
            Ok(Posted::Busy) => Posted::Busy,
            Ok(posted) => {
                wake_if_asleep(self.segment.memory(), self.pairs[lane.index as usize].process_slot);
                posted
            }
            Err(wild) => {
                let peer = self.pairs[lane.index as usize].peer;
                self.lose(peer, wild_writer(self.describe(peer), wild));
                Posted::Busy
            }
        }
    }

    /// Makes sure that the memory of the ring is there, and that the receiver knows of it. False where it
    /// cannot be; the next poll tells why.
    fn opened(&mut self, lane: ShmLane, needs: Opened) -> bool {
        match (self.pairs[lane.index as usize].opened, needs) {
            (Opened::Never, _) => false,
            (Opened::All, _) | (Opened::Lines, Opened::Lines) => true,
            _ => match self.open_ring(lane, needs) {
                Ok(()) => true,
                Err(error) => {
                    let peer = self.pairs[lane.index as usize].peer;
                    self.lose(peer, error);
                    false
                }
            },
        }
    }

    #[cold]
    fn open_ring(&mut self, lane: ShmLane, needs: Opened) -> Result<(), FabricError> {
        let peer = self.pairs[lane.index as usize].peer;
        let whom = self.describe(peer);
        let pair = &mut self.pairs[lane.index as usize];
        let shape = self.segment.layout().ring;
        let at = self.segment.layout().ring_at(self.here, pair.process_slot_number);
        let reserve = |offset: usize, bytes: usize| {
            self.segment.reserve(offset, bytes).map_err(|errno| ring_refused(bytes as u64, &whom, errno))
        };
        if pair.opened == Opened::Nothing {
            reserve(at, PAGE)?;
            pair.channel.producer.lines_taken();
            pair.opened = Opened::Lines;
            pair.process_slot.knock(self.segment.memory(), self.here);
        }
        if needs == Opened::All {
            reserve(at + shape.data_at as usize, shape.room_bytes())?;
            pair.channel.producer.data_taken();
            pair.opened = Opened::All;
        }
        Ok(())
    }

    /// Nothing more is received from `peer` or sent to it; the next poll tells.
    #[cold]
    fn lose(&mut self, peer: Peer, error: FabricError) {
        if let Some(process_slot) = self.peers.iter().position(|other| *other == peer) {
            let place = self.by_process_slot[process_slot];
            if let Some(pair) = self.pairs.get_mut(place as usize) {
                pair.close();
                self.heard.retain(|&heard| heard != place);
            }
            self.lost.push(process_slot as u32);
        }
        self.faults.push_back((peer, error));
    }

    /// A peer, in words for a person.
    fn describe(&self, peer: Peer) -> String {
        let Some(process_slot) = self.peers.iter().position(|other| *other == peer) else {
            return format!("process {}", peer.0);
        };
        let slot_owner = ProcessSlot::at(self.segment.layout().process_slot_at(process_slot as u32))
            .slot_owner(self.segment.memory());
        let pid = slot_owner.map_or(String::new(), |slot_owner| format!(", pid {}", slot_owner.pid));
        format!("process {} (process slot {process_slot} of this node{pid})", peer.0)
    }

    /// Whom to read from, trying it if that has not been done and the peer is there.
    fn puller(&self, pair: &Pair) -> Pull {
        if pair.pull.get() == Pull::Untried
            && let Some(slot_owner) = pair.process_slot.slot_owner(self.segment.memory())
        {
            let allowed = self.settings.pull && cma::can_read(&slot_owner);
            pair.pull.set(if allowed { Pull::Allowed(slot_owner.pid) } else { Pull::Refused });
        }
        pair.pull.get()
    }
}

impl Fabric for Shm {
    type Lane = ShmLane;
    type Bell = ShmBell;

    fn name(&self) -> &'static str {
        "shm"
    }

    fn address(&self) -> Vec<u8> {
        self.address_at(self.here)
    }

    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        self.process_slot_of(peer, address)?;
        Some(COST)
    }

    fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<ShmLane, FabricError> {
        let process_slot_number = self.process_slot_of(peer, address).ok_or_else(|| not_here(peer))?;
        Ok(ShmLane { index: self.pair_with(process_slot_number, peer) })
    }

    fn limits(&self, lane: ShmLane) -> Limits {
        let puller = self.puller(&self.pairs[lane.index as usize]);
        let pull = matches!(puller, Pull::Allowed(_));
        let chunk_bytes_max = MADE_BYTES_MAX.min(self.segment.layout().ring.chunk_bytes_max as usize);
        if puller == Pull::Refused {
            return Limits { eager_bytes_max: EAGER_BYTES_MAX, chunk_bytes_max, pull, look: true };
        }
        // A few messages fit into a ring, however small it is.
        let room = (self.segment.layout().ring.data_bytes as usize / 4).max(EAGER_BYTES_MAX);
        Limits { eager_bytes_max: self.settings.eager_bytes_max.min(room), chunk_bytes_max, pull, look: true }
    }

    #[inline(always)]
    fn post(&mut self, lane: ShmLane, header: &Header, payload: Payload<'_>) -> Posted {
        let pair = &mut self.pairs[lane.index as usize];
        if pair.channel.post(self.segment.memory(), header, payload) {
            wake_if_asleep(self.segment.memory(), pair.process_slot);
            return Posted::Sent;
        }
        self.post_any(lane, header, payload)
    }

    fn post_made(
        &mut self,
        lane: ShmLane,
        header: &Header,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) -> Option<Posted> {
        self.make_and_post(lane, header, bytes, write)
    }

    fn resume(&mut self, lane: ShmLane, rest: Payload<'_>) -> Posted {
        let pair = &mut self.pairs[lane.index as usize];
        if pair.opened == Opened::Never {
            return Posted::Busy;
        }
        let posted = pair.channel.producer.resume(self.segment.memory(), rest);
        self.posted(lane, posted)
    }

    #[inline(always)]
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        if self.process_slot.knocked(self.segment.memory(), self.segment.layout().knock_words()) {
            self.answer_knocks();
        }
        let mut done = self.listen_recent(sink, events);
        if self.heard.len() > 1 && !sink.enough() {
            done = self.listen_others(sink, events, done);
        }
        if !self.faults.is_empty() {
            done += self.report_faults(sink);
        }
        done
    }

    #[inline(always)]
    fn look<R>(
        &mut self,
        lane: ShmLane,
        reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> Looked<R> {
        let pair = &mut self.pairs[lane.index as usize];
        if !pair.is_heard {
            return Looked::Nothing;
        }
        let (looked, says) = pair.channel.look(self.segment.memory(), reader);
        if says != 0 {
            self.attend_writer(lane, says);
        }
        looked
    }

    fn call_roll(&mut self) -> bool {
        self.look_who_is_there();
        false
    }

    fn bury(&mut self, peer: Peer, error: FabricError) -> bool {
        let Some(process_slot) = self.peers.iter().position(|other| *other == peer) else { return false };
        if !self.lost.contains(&(process_slot as u32)) {
            self.lose(peer, error);
        }
        self.release_rings(process_slot as u32);
        true
    }

    fn bell(&self) -> ShmBell {
        ShmBell::new(self.segment.clone(), self.process_slot)
    }

    fn register_memory(&mut self, _lane: ShmLane, memory: Payload<'_>) -> Exposed {
        match self.heap.locate(memory) {
            Some(at) => heap::described(at, memory.bytes()),
            None => Exposed { words: [memory.start().expose_provenance() as u64, memory.bytes() as u64] },
        }
    }

    fn pull(
        &mut self,
        lane: ShmLane,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        _ticket: u64,
    ) -> Pulled {
        let [start, bytes] = exposed.words;
        if let Some(at) = heap::place(exposed) {
            return self.pull_mapped(lane, at, bytes, offset, into);
        }
        let pair = &self.pairs[lane.index as usize];
        let end = (offset as u64).checked_add(into.bytes() as u64);
        let (Pull::Allowed(pid), Some(address)) = (self.puller(pair), start.checked_add(offset as u64))
        else {
            return Pulled::Refused;
        };
        if end.is_none_or(|end| end > bytes) {
            return Pulled::Refused;
        }
        match cma::read(pid, address, into) {
            Ok(()) => Pulled::Done,
            Err(_) => {
                pair.pull.set(Pull::Refused);
                Pulled::Refused
            }
        }
    }

    fn takes_at_once(&mut self, lane: ShmLane, payload: Payload<'_>) -> bool {
        self.rather_at_once(lane, payload)
    }

    fn rather_posted(&mut self, lane: ShmLane, exposed: Exposed, bytes: usize) -> bool {
        self.is_rather_posted(lane, exposed, bytes)
    }

    fn invite(&mut self, lane: ShmLane, exposed: Exposed, into: &UserMemory) -> Option<Exposed> {
        self.invite_to_share(lane, exposed, into)
    }

    fn pull_shared(
        &mut self,
        lane: ShmLane,
        exposed: Exposed,
        invitation: Exposed,
        into: &mut UserMemory,
    ) -> PulledShared {
        self.pull_front(lane, exposed, invitation, into)
    }

    fn bring(&mut self, lane: ShmLane, invitation: Exposed, memory: Payload<'_>) -> Brought {
        self.bring_back(lane, invitation, memory)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // A child made by fork has no mapping and no process slot.
        if rustix::process::getpid() == self.opener {
            self.process_slot.leave(self.segment.memory());
        }
    }
}

/// Wakes the threads of a process slot, if any sleep, after something was published for them.
#[inline(always)]
fn wake_if_asleep(memory: &Mapped, process_slot: ProcessSlot) {
    crash::point();
    if process_slot.must_wake(memory) {
        wake(memory, process_slot);
    }
}

/// Makes this process known: from here on the others may read its memory and rely on its barrier.
fn sit_down(segment: &Segment, process_slot: ProcessSlot, probe: &Probe, settings: Settings, claimed: bool) {
    if !enlisted() {
        segment.count_unenlisted();
    }
    if settings.pull {
        cma::admit_readers();
    }
    process_slot.sit(segment.memory(), &probe.slot_owner(), claimed);
}

fn random() -> Result<u64, SegmentError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| SegmentError::System {
        doing: "drawing a random number",
        reason: error.to_string(),
    })?;
    Ok(u64::from_ne_bytes(bytes))
}

/// No place in a list.
const NOWHERE: u32 = u32::MAX;

/// A peer that was spoken to, or has spoken, costs this much private memory beside what long messages took,
/// and a silent one nothing.
const _: () = assert!(size_of::<Pair>() <= 328);

const ADDRESS_MAGIC: &[u8] = b"weft-shm/1";
const COST: Cost = Cost { latency_ns: 150, mebibyte_ns: 60_000 };
/// The longest message, in bytes, that is sent eagerly where neither the user nor measured costs say
/// otherwise.
const EAGER_BYTES_MAX: usize = 8 << 10;
/// What is made in larger chunks begins to be taken apart later; smaller ones cost more lines.
const MADE_BYTES_MAX: usize = 8 << 10;
/// A pair that has exchanged so many messages may be worth a single-slot channel.
const LINES_BEFORE_SINGLE_SLOT: u32 = 16;
/// A poll that finds something asks the ring that spoke last and so many of the others: a thousand peers cost
/// a busy process no more than a few.
const RINGS_AT_A_TIME: usize = 16;

#[cfg(test)]
mod tests;
