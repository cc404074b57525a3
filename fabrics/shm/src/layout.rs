//! Where things stand in a segment: arithmetic on offsets, and nothing else.
//!
//! ```text
//! offset  0                4096                                 rings_at
//!         | head, one page | process slot 0 | process slot 1 |..| ring 0>0 | ring 0>1 |..| ring 1>0 |..
//!
//!         segments_at                                      heaps_at
//!         | collective segment 0 | collective segment 1 |..| heap 0 | heap 1 |..
//!
//! head    | magic 8 | version 4 | process slots 4 | lines 4 | data 4 | segment bytes 8 | identity 16 |..
//!    64   | processes whose kernel refuses the barrier 4 |..
//!   128   | which collective segments are taken: one bit for each 8 |..
//!
//! process slot    | bell 4 | sleepers 4 |..                      the line that all senders read
//!    64   | state 4 | pid 4 | probe address 8 | probe value 8 |..
//!   128   | knocks: one bit for each process slot |..
//!
//! ring    | lines consumed 4 | data units consumed 4 |..   written by the receiver
//!     8   | looks into the single-slot channel 4 |
//!    64   | waiting, offers a single-slot channel 4 |..                written by the sender
//!    72   | cursor of a shared copy 4 |..                  written by both
//!   128   | line 0 | line 1 |.. line 61 |              one page in all, taken at the first message
//!  4096   | single-slot channel, in the ring from the lower to the higher process slot; |  taken when both have spoken a while
//!         | a large-message buffer for chunked eager messages in the other |
//!         | data |..                  taken at the first message of more than 32 bytes
//!
//! line    | sequence 4 | kind and bytes 4 | header 24 | payload 32 |
//!
//! collective segment   | members that have not left it 4 | bits of those that have 8 |..    taken with the places of its members
//!   128   | members that wait 4 |..
//!  4096   | place 0 | place 1 |.. | staging buffer 0 | staging buffer 1 |..   staging buffers taken when they are used
//! place   | through with 4 |..                   written by its member alone
//!   128   | entry 0 | entry 1 | entry 2 | entry 3 |
//! entry   | number 4 | bytes 4 | chunks 4 |.. | payload, from 16 on |..
//! ```
//!
//! Only what is used takes memory: the head and the process slots from the start, a ring when its sender
//! opens it, a collective segment when it is founded.

use fabric::slots::{DEPTH, LINE_BYTES_MAX, MEMBERS_MAX, Ring, SLOT_BYTES_MAX, chunk_bytes_max};

/// How a segment for a number of process slots is laid out. Every process computes the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Places for processes on this node.
    pub process_slots: u32,
    /// The shape of every ring.
    pub ring: RingShape,
    /// Room for the heap of each process slot, behind the rings; nothing where the size of files is limited.
    pub heap_bytes: u64,
}

/// The shape of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingShape {
    /// Lines in the ring.
    pub lines: u32,
    /// Where the data area begins, from the ring's start.
    pub data_at: u32,
    /// Size of the data area.
    pub data_bytes: u32,
    /// The largest chunk that one line announces; at most half of the data area, so that any chunk fits once
    /// all before it are consumed.
    pub chunk_bytes_max: u16,
    /// Behind the data area each line has so much room of its own, in which shorter chunks stand; 0 where
    /// there is none.
    pub slot_bytes: u16,
}

impl Layout {
    /// The layout for `process_slots` process slots; `None` where there are none or too many.
    pub fn new(process_slots: u32) -> Option<Layout> {
        let (_, data_bytes) =
            *SHAPES.iter().find(|(process_slots_max, _)| process_slots <= *process_slots_max)?;
        let heap_bytes =
            HEAP_BYTES_MAX.min(HEAPS_BYTES_MAX / u64::from(process_slots.max(1)).next_power_of_two());
        (process_slots > 0).then(|| Layout {
            process_slots,
            ring: RingShape::with_data(data_bytes),
            heap_bytes,
        })
    }

    /// This layout without heaps: process slots, rings and collective segments stay where they are.
    pub fn without_heaps(self) -> Layout {
        Layout { heap_bytes: 0, ..self }
    }

    /// Size of the whole segment, most of it never touched.
    pub fn segment_bytes(&self) -> u64 {
        self.heaps_at() + u64::from(self.process_slots) * self.heap_bytes
    }

    /// Where the heaps begin; all before is mapped by everybody.
    pub fn heaps_at(&self) -> u64 {
        self.collective_segments_at()
            + u64::from(COLLECTIVE_SEGMENTS) * self.collective_segment_bytes() as u64
    }

    /// Where the collective segments begin.
    fn collective_segments_at(&self) -> u64 {
        self.rings_at() as u64 + u64::from(self.process_slots).pow(2) * self.ring.bytes() as u64
    }

    /// Where a collective segment stands.
    pub fn collective_segment_at(&self, number: u32) -> usize {
        debug_assert!(number < COLLECTIVE_SEGMENTS);
        self.collective_segments_at() as usize + number as usize * self.collective_segment_bytes()
    }

    /// Where the staging buffers of a collective segment begin, from its start: behind all places that it can
    /// have, since nobody but who has a process slot can be a member.
    pub fn staging_buffers_at(&self) -> usize {
        let members = self.process_slots.min(MEMBERS_MAX) as usize;
        (COLLECTIVE_SEGMENT_PLACES + members * COLLECTIVE_SEGMENT_PLACE_BYTES).next_multiple_of(PAGE)
    }

    /// Size of a collective segment.
    fn collective_segment_bytes(&self) -> usize {
        // Of many members each has shorter staging buffers, so that fewer members may have more of them in
        // all.
        let most = (2..=self.process_slots.min(MEMBERS_MAX)).map(staging_buffers_bytes).max();
        self.staging_buffers_at() + most.unwrap_or(staging_buffers_bytes(2))
    }

    /// Where the heap of a process slot begins.
    pub fn heap_at(&self, process_slot: u32) -> u64 {
        debug_assert!(process_slot < self.process_slots);
        self.heaps_at() + u64::from(process_slot) * self.heap_bytes
    }

    /// Where the rings begin; all before it is taken when the segment is made.
    pub fn rings_at(&self) -> usize {
        (PAGE + self.process_slots as usize * self.process_slot_bytes()).next_multiple_of(PAGE)
    }

    /// Where a process slot stands.
    pub fn process_slot_at(&self, process_slot: u32) -> usize {
        debug_assert!(process_slot < self.process_slots);
        PAGE + process_slot as usize * self.process_slot_bytes()
    }

    /// Where the ring from one process slot to another stands.
    pub fn ring_at(&self, from: u32, to: u32) -> usize {
        debug_assert!(from < self.process_slots && to < self.process_slots);
        self.rings_at() + (from as usize * self.process_slots as usize + to as usize) * self.ring.bytes()
    }

    /// Where the single-slot channel of two process slots stands.
    pub fn single_slot_at(&self, one: u32, other: u32) -> usize {
        self.ring_at(one.min(other), one.max(other)) + SINGLE_SLOT_AT
    }

    /// Where the large-message buffer of two process slots stands that is beside their single-slot channel.
    pub fn large_buffer_beside_at(&self, one: u32, other: u32) -> usize {
        self.ring_at(one.max(other), one.min(other)) + SINGLE_SLOT_AT
    }

    /// Words of knocks in a process slot.
    pub fn knock_words(&self) -> usize {
        self.process_slots.div_ceil(u32::BITS) as usize
    }

    /// Two lines of state and the knocks, in whole pairs of lines: processors fetch lines in pairs.
    pub(crate) fn process_slot_bytes(&self) -> usize {
        (PROCESS_SLOT_KNOCKS + self.knock_words() * 4).next_multiple_of(2 * LINE)
    }
}

impl RingShape {
    /// A ring whose lines fill a page together with the two lines of control.
    fn with_data(data_bytes: u32) -> RingShape {
        let lines = ((PAGE - RING_LINES) / LINE) as u32;
        // An odd number of lines, so that chunks do not all begin in the same few sets of a cache.
        let slot_bytes = ((data_bytes / SLOTS_PART / lines / LINE as u32) | 1) * LINE as u32;
        let mut shape = RingShape {
            lines,
            data_at: 0,
            data_bytes,
            chunk_bytes_max: CHUNK_BYTES_MAX.min(data_bytes / 4) as u16,
            slot_bytes: if slot_bytes < SLOT_BYTES_MIN { 0 } else { slot_bytes as u16 },
        };
        shape.data_at = (SINGLE_SLOT_AT + shape.single_slot_bytes()) as u32;
        shape
    }

    /// The longest message that goes through the pair's single-slot channel in chunks; none does where it is
    /// 0.
    pub fn chunked_message_bytes_max(&self) -> usize {
        if self.data_bytes >= CHUNKED_MESSAGES_FROM {
            CHUNKED_MESSAGE_AREAS * self.data_bytes as usize
        } else {
            0
        }
    }

    /// Size of the single-slot channel, in whole pages.
    pub fn single_slot_bytes(&self) -> usize {
        (CHUNKED_MESSAGE_AT + self.chunked_message_bytes_max())
            .next_multiple_of(PAGE)
            .max(SMALL_SINGLE_SLOT_BYTES)
    }

    /// The longest payload of a message.
    pub fn short_message_bytes_max(&self) -> usize {
        self.single_slot_bytes().min(SHORT_MESSAGE_BYTES) - LINE_PAYLOAD
    }

    /// Size of the data area and of what lines have of their own behind it, in whole pages.
    pub fn room_bytes(&self) -> usize {
        self.data_bytes as usize + (self.lines as usize * self.slot_bytes as usize).next_multiple_of(PAGE)
    }

    /// Size of the whole ring, in whole pages.
    pub fn bytes(&self) -> usize {
        self.data_at as usize + self.room_bytes()
    }
}

/// A page of memory, on every machine where this runs, or a part of one.
pub const PAGE: usize = 4096;
/// A cache line.
pub const LINE: usize = 64;

/// Offset in the head of the count of processes that the barrier leaves out.
pub const HEAD_UNENLISTED: usize = 64;

/// Offset in the head of the bits of the collective segments that are taken.
pub const HEAD_COLLECTIVE_SEGMENTS: usize = 128;

/// Collective segments of a node: communicators beyond do without.
pub const COLLECTIVE_SEGMENTS: u32 = 64;
/// Bits of the members that have left, behind their count.
pub const COLLECTIVE_SEGMENT_LEFT: usize = 4;
/// Words of them.
pub const COLLECTIVE_SEGMENT_LEFT_WORDS: u32 = MEMBERS_MAX / u32::BITS;
/// How many members wait and may sleep.
pub const COLLECTIVE_SEGMENT_WAITING: usize = 2 * LINE;
/// Where the places of the members begin.
pub const COLLECTIVE_SEGMENT_PLACES: usize = if cfg!(loom) { 4 * LINE } else { PAGE };
/// In a place, behind the number up to which its member is through: that of the last operation that it has
/// said to be in, how many operations it has begun by other ways, how many entries it owes, and which of the
/// operations by other ways it has given up last: each stands in the word that the rest of its number
/// chooses. At last, what it says of reads of memory.
pub const COLLECTIVE_SEGMENT_STANDS: usize = 4;
pub const COLLECTIVE_SEGMENT_ELSEWHERE: usize = 8;
pub const COLLECTIVE_SEGMENT_OWES: usize = 12;
pub const COLLECTIVE_SEGMENT_GIVEN_UP: usize = 16;
pub const COLLECTIVE_SEGMENT_GIVEN_UP_WORDS: u32 = 8;
pub const COLLECTIVE_SEGMENT_READS: usize =
    COLLECTIVE_SEGMENT_GIVEN_UP + 4 * COLLECTIVE_SEGMENT_GIVEN_UP_WORDS as usize;
const _: () = assert!(COLLECTIVE_SEGMENT_READS + 4 <= LINE);
/// In the second line of a place, which is written seldom: twice, by which ways operations go, and from which
/// number on, the other way round.
pub const COLLECTIVE_SEGMENT_WAYS: usize = LINE;

/// The length of a slot, behind its number; and in how many chunks it comes where these stand in staging
/// buffers.
pub const COLLECTIVE_SEGMENT_BYTES_WORD: usize = 4;
/// Where the payload of a slot begins: where any element is aligned.
pub const COLLECTIVE_SEGMENT_PAYLOAD: usize = 16;
const _: () = assert!(LINE_BYTES_MAX == LINE - COLLECTIVE_SEGMENT_PAYLOAD);
/// A slot, with as many lines that no other one is in.
pub const COLLECTIVE_SEGMENT_ENTRY_BYTES: usize = COLLECTIVE_SEGMENT_PAYLOAD + SLOT_BYTES_MAX;
const _: () = assert!(COLLECTIVE_SEGMENT_ENTRY_BYTES.is_multiple_of(LINE));
/// A place: a pair of lines that says how far its member is ([`COLLECTIVE_SEGMENT_STANDS`]), and the entries.
pub const COLLECTIVE_SEGMENT_PLACE_BYTES: usize = 2 * LINE + DEPTH as usize * COLLECTIVE_SEGMENT_ENTRY_BYTES;

/// All staging buffers of a collective segment of so many members.
pub const fn staging_buffers_bytes(members: u32) -> usize {
    match members {
        0..=2 => 2 * (Ring::Short.ahead() + Ring::Long.ahead()) as usize * chunk_bytes_max(2),
        _ => (members * Ring::Short.round(members)) as usize * chunk_bytes_max(members),
    }
}

/// Offsets in a process slot.
pub const PROCESS_SLOT_BELL: usize = 0;
/// How many threads sleep, or are about to.
pub const PROCESS_SLOT_SLEEPERS: usize = 4;
/// What the process slot is: free, taken, ready, closed.
pub const PROCESS_SLOT_STATE: usize = 64;
/// The process, and a word of its memory by which others try whether they may read it: five words.
pub const PROCESS_SLOT_IDENTITY: usize = 68;
/// Bits of those who have opened a ring to this process slot.
pub const PROCESS_SLOT_KNOCKS: usize = 128;

/// Offsets in a ring.
pub const RING_CONSUMED: usize = 0;
/// Whether the sender found the ring full and may sleep until there is room.
pub const RING_WAITING: usize = 64;
/// Whether the receiver looks into the single-slot channel.
pub const RING_MAILED: usize = 8;
/// The bit of the word at [`RING_WAITING`] by which the sender says that it found the ring full and may
/// sleep.
pub const WAITING: u32 = 1;
/// The bit of the word at [`RING_WAITING`] by which the sender offers a single-slot channel.
pub const SINGLE_SLOT_OFFERED: u32 = 2;
/// Which parts of a message that both copy are claimed.
pub const RING_CURSOR: usize = 72;
/// The first line.
pub const RING_LINES: usize = 128;

/// Offsets in a line.
pub const LINE_SEQUENCE: usize = 0;
/// Kind and bytes, followed by the header.
pub const LINE_FRONT: usize = 4;
/// The payload, or the length of a message that comes in chunks.
pub const LINE_PAYLOAD: usize = 32;
/// The longest payload, in bytes, that stands in the line that announces it, behind the header.
pub const LINE_PAYLOAD_BYTES_MAX: usize = 32;

/// Where the single-slot channel of a pair stands, from the start of the ring from the lower to the higher
/// process slot.
pub const SINGLE_SLOT_AT: usize = PAGE;
/// Where a chunked eager message stands in it, and on the large-message buffer that is in its place in the
/// ring the other way.
pub const CHUNKED_MESSAGE_AT: usize = LINE;
/// The length, in bytes, of the chunks of a short message that goes through a large-message buffer. Smaller
/// ones were no quicker, and cost more lines.
pub const CHUNKED_MESSAGE_CHUNK_BYTES: usize = if cfg!(loom) { LINE } else { 16 << 10 };

/// The shortest message, in bytes, that goes through a large-message buffer; a shorter one is as quick in the
/// ring.
pub const CHUNKED_MESSAGE_BYTES_MIN: usize = if cfg!(loom) { LINE } else { 2 << 10 };

/// The chunks of a chunked eager message of so many bytes: there are 32 at most, since a ring has not many
/// more lines.
#[inline]
pub fn chunked_message_chunk_bytes(bytes: usize) -> usize {
    bytes
        .div_ceil(CHUNKED_MESSAGE_CHUNKS)
        .next_multiple_of(CHUNKED_MESSAGE_CHUNK_BYTES)
        .max(CHUNKED_MESSAGE_CHUNK_BYTES)
}

const CHUNKED_MESSAGE_CHUNKS: usize = 32;
/// The longest chunked eager message, by the data of a ring.
const CHUNKED_MESSAGE_AREAS: usize = 4;
/// What a message has of it, where it is no smaller: it is taken out when all of it is there.
const SHORT_MESSAGE_BYTES: usize = 5 * PAGE;
/// The longest payload of a message in any single-slot channel; behind a smaller one stands the ring's data.
pub const SHORT_MESSAGE_PAYLOAD_BYTES_MAX: usize = SHORT_MESSAGE_BYTES - LINE_PAYLOAD;
/// The size of a single-slot channel without chunked eager messages.
const SMALL_SINGLE_SLOT_BYTES: usize = 3 * PAGE;
/// Rings with less data have none: there are so many that they would fill the address space.
const CHUNKED_MESSAGES_FROM: u32 = if cfg!(loom) { 8 * LINE as u32 } else { 128 << 10 };
const _: () = assert!(SMALL_SINGLE_SLOT_BYTES + SHAPES[SHAPES.len() - 1].1 as usize >= SHORT_MESSAGE_BYTES);

/// Larger chunks delay the receiver's copy behind the sender's, smaller ones cost more lines; measured with
/// `examples/pingpong.rs`.
const CHUNK_BYTES_MAX: u32 = 16 << 10;

/// What lines have of their own is so large a part of the data area, if that gives them as much as it takes
/// for it to be of use.
const SLOTS_PART: u32 = 8;
const SLOT_BYTES_MIN: u32 = 256;

/// Up to so many process slots: so many bytes of data for each ring. The virtual size of all rings together
/// stays under 128 GiB. A large area is the faster one, as lines that come round again have left the other
/// processor's cache; and it costs memory only between pairs that exchange large messages.
const SHAPES: [(u32, u32); 6] =
    [(4, 1 << 20), (16, 256 << 10), (64, 128 << 10), (256, 64 << 10), (1024, 32 << 10), (2048, 8 << 10)];

/// More memory than a process has, or its share of what a process can map: 47 bits of addresses, with room
/// for others.
const HEAP_BYTES_MAX: u64 = 64 << 30;
const HEAPS_BYTES_MAX: u64 = 16 << 40;

/// The most process slots a segment can have.
pub const PROCESS_SLOTS_MAX: u32 = SHAPES[SHAPES.len() - 1].0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_places_overlap() {
        for process_slots in [1, 2, 3, 16, 17, 64, 65, 300, 2048] {
            let layout = Layout::new(process_slots).unwrap();
            assert!(
                layout.process_slot_at(process_slots - 1) + layout.process_slot_bytes() <= layout.rings_at()
            );
            assert_eq!(layout.ring_at(0, 0), layout.rings_at());
            let last =
                layout.ring_at(process_slots - 1, process_slots - 1) as u64 + layout.ring.bytes() as u64;
            assert_eq!(last, layout.collective_segment_at(0) as u64);
            let places = process_slots.min(MEMBERS_MAX) as usize * COLLECTIVE_SEGMENT_PLACE_BYTES;
            let staging_buffers =
                COLLECTIVE_SEGMENT_PLACES + places..COLLECTIVE_SEGMENT_PLACES + places + PAGE;
            assert!(staging_buffers.contains(&layout.staging_buffers_at()), "{process_slots} process slots");
            let collective_segment = layout.collective_segment_at(1) - layout.collective_segment_at(0);
            let most = (2..=process_slots.min(MEMBERS_MAX)).map(staging_buffers_bytes).max().unwrap_or(0);
            assert!(
                collective_segment >= layout.staging_buffers_at() + most
                    && collective_segment.is_multiple_of(PAGE),
                "{process_slots} process slots"
            );
            assert_eq!(
                (layout.collective_segment_at(COLLECTIVE_SEGMENTS - 1) + collective_segment) as u64,
                layout.heaps_at()
            );
            assert_eq!(layout.heap_at(process_slots - 1) + layout.heap_bytes, layout.segment_bytes());
            assert!(layout.heap_bytes >= 4 << 30 && layout.heap_at(0).is_multiple_of(PAGE as u64));
            assert!(PROCESS_SLOT_KNOCKS + layout.knock_words() * 4 <= layout.process_slot_bytes());
            assert!(RING_LINES + layout.ring.lines as usize * LINE <= SINGLE_SLOT_AT);
        }
    }

    #[test]
    fn everything_stands_on_its_own_lines_and_pages() {
        for (process_slots, ..) in SHAPES {
            let layout = Layout::new(process_slots).unwrap();
            assert!(layout.rings_at().is_multiple_of(PAGE) && layout.ring.bytes().is_multiple_of(PAGE));
            assert!(layout.process_slot_at(process_slots - 1).is_multiple_of(2 * LINE));
            assert!(u32::from(layout.ring.chunk_bytes_max) <= layout.ring.data_bytes / 2);
            assert!((layout.ring.chunk_bytes_max as usize).is_multiple_of(LINE));
            assert!((layout.ring.slot_bytes as usize).is_multiple_of(LINE));
            assert!(layout.ring.slot_bytes <= layout.ring.chunk_bytes_max);
            assert!(
                layout.ring.room_bytes() <= layout.ring.data_bytes as usize * 5 / 4,
                "{process_slots} process slots"
            );
            if layout.ring.chunked_message_bytes_max() > 0 {
                let longest = layout.ring.chunked_message_bytes_max();
                for bytes in (1..=longest).step_by(4093).chain([longest]) {
                    assert!(
                        bytes.div_ceil(chunked_message_chunk_bytes(bytes)) <= CHUNKED_MESSAGE_CHUNKS,
                        "{bytes}"
                    );
                }
                assert!(CHUNKED_MESSAGE_CHUNKS < layout.ring.lines as usize);
            }
        }
    }

    #[test]
    fn the_largest_segment_stays_mappable() {
        for (process_slots, ..) in SHAPES {
            let layout = Layout::new(process_slots).unwrap();
            assert!(layout.heaps_at() <= 128 << 30, "{process_slots} process slots");
            assert!(layout.segment_bytes() < 1 << 45, "{process_slots} process slots");
            assert_eq!(layout.without_heaps().segment_bytes(), layout.heaps_at());
        }
        assert_eq!(Layout::new(0), None);
        assert_eq!(Layout::new(PROCESS_SLOTS_MAX + 1), None);
    }
}
