//! A collective segment: lines that each of some processes of a node writes for all others of them, and
//! nobody else writes.
//!
//! What takes one look of each and no message: a process puts its slot down, and the others find it there. So
//! a barrier of p processes is p lines, and nobody acts for another. `layout` draws what stands where,
//! `slot_table` has what is done there; decisions/0004 says what collective segments are for.
//!
//! **Order.** Slots have numbers, the same at all members, which grow by one
//! ([`Credit`](fabric::slots::Credit)). A member's slot takes the place of the one
//! [`DEPTH`](fabric::slots::DEPTH) before, so it is written only when all members are
//! [through](Slots::consumed) with that one. Nothing is claimed in common: a member that dies leaves what it
//! has written, and its next slot never comes.

mod reads;

use std::ops::Range;
use std::sync::Arc;

use fabric::slots::{Chunk, MEMBERS_MAX, Ring, Slots, chunk_bytes_max};
use fabric::{Payload, Peer, UserMemory, crash};

use crate::bell::wake;
use crate::layout::{
    COLLECTIVE_SEGMENT_PLACE_BYTES, COLLECTIVE_SEGMENT_PLACES, COLLECTIVE_SEGMENTS, HEAD_COLLECTIVE_SEGMENTS,
};
use crate::memory::{Memory, SegmentView};
use crate::process_slot::ProcessSlot;
use crate::segment::Segment;
use crate::slot_table::{self, SlotTable};
use crate::staging_buffers::StagingBuffers;
use crate::sync::{Ordering, Word};

/// The collective segments of a segment, as one process sees them.
#[derive(Clone)]
pub struct CollectiveSegments {
    segment: Segment,
    /// The peers of this node, by process slot.
    peers: Arc<[Peer]>,
    /// Whether processes may read each other's memory, as far as this one has a say in it.
    pull: bool,
}

/// A collective segment, as one of its members has it. Dropping it leaves it; with the last member it is free
/// for others.
pub struct CollectiveSegment {
    segment: Segment,
    number: u32,
    /// The places of all members, as this one has them.
    places: SlotTable,
    /// What is too long for slots.
    staging_buffers: StagingBuffers,
    /// Whether the memory of those is taken that this member writes, by ring.
    has_staging_buffers: [Word; 2],
    /// All members' process slots, by their places.
    process_slots: Vec<ProcessSlot>,
    /// Whether this member has left it.
    has_left: Word,
    /// The beginning of the collective segment, and each member's place.
    head: SegmentView<COLLECTIVE_SEGMENT_PLACES>,
    windows: Box<[SegmentView<COLLECTIVE_SEGMENT_PLACE_BYTES>]>,
    pull: bool,
    /// The process whose memory this one of two members reads, as soon as that was tried; `reads::REFUSED`
    /// where it may not.
    read_from: Word,
}

impl CollectiveSegments {
    pub(crate) fn new(segment: Segment, peers: &[Peer], pull: bool) -> CollectiveSegments {
        CollectiveSegments { segment, peers: peers.into(), pull }
    }

    /// Takes a free collective segment for so many members and makes it ready: its number is for all of them,
    /// who must then [join](CollectiveSegments::join). `None` where none is free, the members are too many,
    /// or there is no memory.
    #[must_use]
    pub fn found(&self, members: u32) -> Option<u32> {
        if members == 0 || members > MEMBERS_MAX {
            return None;
        }
        let number = (0..COLLECTIVE_SEGMENTS).find(|&number| self.take(number))?;
        let at = self.at(number);
        let bytes = COLLECTIVE_SEGMENT_PLACES + members as usize * COLLECTIVE_SEGMENT_PLACE_BYTES;
        if self.segment.reserve(at, bytes).is_err() {
            self.give_back(number);
            return None;
        }
        SlotTable::found(self.segment.memory(), at, members);
        Some(number)
    }

    /// Becomes the member at place `here` of a collective segment that was founded for these processes, in
    /// the order of their places. `None` where there is no such collective segment, or one of them is not of
    /// this node.
    #[must_use]
    pub fn join(
        &self,
        number: u32,
        here: u32,
        members: impl Iterator<Item = Peer>,
    ) -> Option<CollectiveSegment> {
        let process_slot = |peer: Peer| {
            let process_slot = self.peers.iter().position(|other| *other == peer)? as u32;
            Some(ProcessSlot::at(self.segment.layout().process_slot_at(process_slot)))
        };
        let process_slots: Vec<ProcessSlot> = members.map(process_slot).collect::<Option<_>>()?;
        let is_one = number < COLLECTIVE_SEGMENTS
            && (here as usize) < process_slots.len()
            && process_slots.len() <= MEMBERS_MAX as usize;
        is_one.then(|| {
            let at = self.at(number);
            let places = SlotTable::new(at, here, process_slots.len() as u32);
            let staging_buffers = StagingBuffers::new(
                at + self.segment.layout().staging_buffers_at(),
                here,
                process_slots.len() as u32,
            );
            let (has_left, has_staging_buffers) = (Word::new(0), [Word::new(0), Word::new(0)]);
            let head = SegmentView::new(&self.segment, at);
            let window = |place| SegmentView::new(&self.segment, places.through_at(place));
            let windows = (0..process_slots.len() as u32).map(window).collect();
            let (segment, pull, read_from) = (self.segment.clone(), self.pull, Word::new(reads::UNTRIED));
            CollectiveSegment {
                segment,
                number,
                places,
                staging_buffers,
                has_staging_buffers,
                process_slots,
                has_left,
                head,
                windows,
                pull,
                read_from,
            }
        })
    }

    fn at(&self, number: u32) -> usize {
        self.segment.layout().collective_segment_at(number)
    }

    /// Takes a collective segment if it is free.
    fn take(&self, number: u32) -> bool {
        let bit = 1 << (number % u32::BITS);
        self.taken(number).fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    fn give_back(&self, number: u32) {
        self.taken(number).fetch_and(!(1 << (number % u32::BITS)), Ordering::Release);
    }

    /// The word with the bit that says whether a collective segment is taken.
    fn taken(&self, number: u32) -> &crate::sync::Word {
        self.segment.memory().word(HEAD_COLLECTIVE_SEGMENTS + (number / u32::BITS) as usize * 4)
    }
}

impl CollectiveSegment {
    /// How many members it has.
    #[inline(always)]
    #[must_use]
    pub fn members(&self) -> u32 {
        self.places.members()
    }

    #[inline(always)]
    fn own(&self) -> &SegmentView<COLLECTIVE_SEGMENT_PLACE_BYTES> {
        &self.windows[self.places.here() as usize]
    }

    /// That member's place; that of the last one for those that do not exist.
    #[inline(always)]
    fn of(&self, place: u32) -> &SegmentView<COLLECTIVE_SEGMENT_PLACE_BYTES> {
        &self.windows[(place as usize).min(self.windows.len() - 1)]
    }

    #[cold]
    fn take_staging_buffers(&self, ring: Ring) -> bool {
        let written = self.staging_buffers.written(ring);
        let taken = self.segment.reserve(written.start, written.len()).is_ok();
        self.has_staging_buffers[ring as usize].store(taken.into(), Ordering::Relaxed);
        taken
    }

    /// Publishes how many operations this member has begun on the message path, as the thread that begins
    /// one, while it has not left; none at first. It is ordered between what this member has written before
    /// and what it writes later, for all that see it.
    pub fn say_elsewhere(&self, begun: u32) {
        if self.has_left.load(Ordering::Relaxed) == 0 {
            self.places.say_elsewhere(self.segment.memory(), begun);
        }
    }

    /// Publishes that this member has given up the last operation of so many that it has begun on the message
    /// path: it sends and receives nothing more for it. Of those that were given up, the last few are known.
    pub fn give_up(&self, begun: u32) {
        if self.has_left.load(Ordering::Relaxed) == 0 {
            self.places.give_up(self.segment.memory(), begun);
        }
    }

    /// Whether the member at that place has [given up](CollectiveSegment::give_up) that operation.
    #[must_use]
    pub fn has_given_up(&self, place: u32, begun: u32) -> bool {
        self.places.has_given_up(self.segment.memory(), place, begun)
    }

    /// Whether the member at that place is seen in an operation after that number, and has not begun so many
    /// on the message path.
    #[must_use]
    pub fn has_passed_over(&self, place: u32, number: u32, begun: u32) -> bool {
        self.places.has_passed_over(self.segment.memory(), (place, number), begun)
    }

    /// Wakes the members that sleep, whether any is known to or not.
    #[cold]
    pub fn wake_sleepers(&self) {
        let memory = self.segment.memory();
        for (place, process_slot) in (0..).zip(&self.process_slots) {
            if !self.places.is_here(place) && process_slot.must_wake(memory) {
                wake(memory, *process_slot);
            }
        }
    }
}

impl Slots for CollectiveSegment {
    #[inline(always)]
    fn put(&self, number: u32, parts: [Payload<'_>; 2]) {
        slot_table::put(self.own(), (0, number), parts);
    }

    #[inline]
    fn fill(&self, number: u32, at: usize, part: Payload<'_>) {
        self.places.fill(self.segment.memory(), number, at, part);
    }

    #[inline]
    fn post(&self, number: u32, bytes: usize) {
        self.places.post(self.segment.memory(), number, bytes);
    }

    #[inline(always)]
    fn has(&self, member: u32, number: u32) -> bool {
        self.windows.get(member as usize).is_some_and(|window| slot_table::has(window, (0, number)))
    }

    #[inline(always)]
    fn has_all(&self, member: u32, number: u32, bytes: usize) -> bool {
        slot_table::fetch(self.of(member), (0, number), 1, bytes);
        self.has(member, number)
    }

    #[inline(always)]
    fn prefetch(&self, member: u32, number: u32, bytes: usize) {
        slot_table::fetch(self.of(member), (0, number), 0, bytes);
    }

    #[inline(always)]
    fn prefetch_own(&self, number: u32, bytes: usize) {
        slot_table::fetch_to_write(self.own(), (0, number), bytes);
    }

    #[inline(always)]
    fn read<R>(&self, member: u32, number: u32, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R {
        slot_table::read(self.of(member), (0, number), bytes, reader)
    }

    #[inline]
    fn can_send_chunks(&self, ring: Ring) -> bool {
        self.has_staging_buffers[ring as usize].load(Ordering::Relaxed) != 0
            || self.take_staging_buffers(ring)
    }

    #[inline]
    fn send_chunk(&self, ring: Ring, number: u32, told: [u32; 2], parts: [Payload<'_>; 2]) {
        debug_assert!(parts[0].bytes() + parts[1].bytes() <= chunk_bytes_max(self.members()));
        self.staging_buffers.put(self.segment.memory(), ring, number, parts);
        self.places.announce(self.segment.memory(), number, told);
    }

    #[inline]
    fn fill_chunk(&self, ring: Ring, number: u32, bytes: usize, write: impl FnOnce(&mut UserMemory)) {
        debug_assert!(bytes <= chunk_bytes_max(self.members()));
        self.staging_buffers.make(self.segment.memory(), ring, number, bytes, write);
    }

    #[inline]
    fn announce_chunk(&self, number: u32, told: [u32; 2]) {
        self.places.announce(self.segment.memory(), number, told);
    }

    #[inline]
    fn read_chunk<R>(&self, chunk: Chunk, bytes: Range<usize>, reader: impl FnOnce(Payload<'_>) -> R) -> R {
        self.staging_buffers.read(self.segment.memory(), chunk, bytes, reader)
    }

    #[inline(always)]
    fn announced(&self, member: u32, number: u32) -> [u32; 2] {
        slot_table::announced(self.of(member), (0, number))
    }

    #[inline(always)]
    fn consume(&self, number: u32) {
        slot_table::pass(self.own(), 0, number);
    }

    #[inline(always)]
    fn consumed(&self, member: u32) -> u32 {
        self.places.through(self.segment.memory(), member)
    }

    fn stand(&self, number: u32) {
        self.places.stand(self.segment.memory(), number);
    }

    fn publish_ways(&self, slot: usize, from_ways: (u32, u32)) {
        self.places.say_ways(self.segment.memory(), slot & 1, from_ways);
    }

    fn ways(&self, member: u32, number: u32) -> u32 {
        self.places.ways(self.segment.memory(), member, number)
    }

    fn owe(&self) {
        self.places.owe(self.segment.memory());
    }

    fn owe_no_more(&self) {
        self.places.owe_no_more(self.segment.memory());
    }

    fn owes(&self) -> bool {
        self.places.owes(self.segment.memory(), self.places.here())
    }

    fn will_not_write(&self, member: u32, number: u32, by_messages: u32) -> bool {
        self.places.will_not_write(self.segment.memory(), (member, number), by_messages)
    }

    #[cold]
    fn renew(&self, number: u32) {
        self.places.renew(self.segment.memory(), number);
    }

    fn await_others(&self) {
        self.places.await_others(self.segment.memory());
    }

    fn await_no_more(&self) {
        self.places.await_no_more(self.segment.memory());
    }

    #[inline(always)]
    fn wake(&self) {
        crash::point();
        if slot_table::is_awaited(&self.head, 0) {
            self.wake_sleepers();
        }
    }

    fn can_both_read(&self) -> bool {
        self.both_read()
    }

    fn lend(&self, memory: Payload<'_>) -> u64 {
        memory.start().expose_provenance() as u64
    }

    fn fetch(&self, address: u64, into: &mut UserMemory) -> bool {
        self.fetch_from_other(address, into)
    }

    #[cold]
    fn withdraw(&self) {
        self.places.say_of_reads(self.segment.memory(), reads::WITHDRAWN);
    }

    fn has_peer_withdrawn(&self) -> bool {
        self.said_by_other() == reads::WITHDRAWN
    }
}

impl CollectiveSegment {
    /// Leaves it, once: nothing of it may be used afterwards. With the last member that lives it is free for
    /// others: each tells which members, by their places, it knows to be dead.
    pub fn leave(&self, dead: &[u32]) {
        if self.has_left.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        // A peer may write any number there; the collective segment is then lost, or shared by members who do
        // not know of each other and get nonsense from it. Nothing else comes of it.
        if self.places.leave(self.segment.memory(), dead) {
            CollectiveSegments { segment: self.segment.clone(), peers: Arc::new([]), pull: false }
                .give_back(self.number);
        }
    }
}

impl Drop for CollectiveSegment {
    fn drop(&mut self) {
        self.leave(&[]);
    }
}

#[cfg(test)]
#[path = "collective_segment_tests.rs"]
mod tests;
