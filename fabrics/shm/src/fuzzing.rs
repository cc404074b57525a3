//! Doors for the fuzzers of `ci/fuzz` into what this crate keeps to itself. Part of no build that is
//! installed.

use std::os::fd::{BorrowedFd, OwnedFd};

use fabric::Payload;

use crate::Segment;
use crate::cooperative_copy::{CooperativeCopy, End};
use crate::handout::fuzzing;
use crate::layout::SINGLE_SLOT_AT;
use crate::memory::Memory;
use crate::sync::Ordering;

/// Where something stands in a segment: offset and bytes.
pub type Place = (usize, usize);

/// Where a process slot stands.
#[must_use]
pub fn process_slot(segment: &Segment, process_slot: u32) -> Place {
    let layout = segment.layout();
    (layout.process_slot_at(process_slot), layout.process_slot_bytes())
}

/// Where the ring from one process slot to another stands.
#[must_use]
pub fn ring(segment: &Segment, from: u32, to: u32) -> Place {
    let layout = segment.layout();
    (layout.ring_at(from, to), layout.ring.bytes())
}

/// Where the single-slot channel of a pair stands.
#[must_use]
pub fn single_slot(segment: &Segment, lower: u32, higher: u32) -> Place {
    let layout = segment.layout();
    (layout.ring_at(lower, higher) + SINGLE_SLOT_AT, layout.ring.single_slot_bytes())
}

/// Makes sure that the memory at a place is there.
///
/// # Panics
/// When there is none.
pub fn reserve(segment: &Segment, (offset, bytes): Place) {
    segment.reserve(offset, bytes).expect("memory for a fuzzer");
}

/// Writes any bytes anywhere, as a process can that has the segment mapped.
pub fn write(segment: &Segment, offset: usize, bytes: &[u8]) {
    segment.memory().put(offset, Payload::from(bytes));
}

/// Sets bits of a word.
pub fn set_bits(segment: &Segment, offset: usize, bits: u32) {
    segment.memory().word(offset & !3).fetch_or(bits, Ordering::Release);
}

/// Reads what stands somewhere.
#[must_use]
pub fn read(segment: &Segment, offset: usize, bytes: usize) -> Vec<u8> {
    segment.memory().read(offset, bytes, |payload| payload.to_vec())
}

/// Claims a part of a shared copy of `bytes` bytes, as the receiver or as the sender: offset and length.
#[must_use]
pub fn claim(segment: &Segment, ring: Place, ticket: u16, bytes: usize, receiver: bool) -> Option<Place> {
    let share = CooperativeCopy { ring_at: ring.0, ticket, bytes };
    let part = share.claim(segment.memory(), if receiver { End::Front } else { End::Back })?;
    Some((part.offset, part.bytes))
}

/// Whether bytes are a card by which a segment could be fetched.
#[must_use]
pub fn card(bytes: &[u8]) -> bool {
    fuzzing::is_card(bytes)
}

/// A process that has connected to fetch the segment.
pub struct FuzzedClient(fuzzing::FuzzedHandout);

impl FuzzedClient {
    /// A client over `socket`, which does not block.
    #[must_use]
    pub fn new(socket: OwnedFd) -> FuzzedClient {
        FuzzedClient(fuzzing::FuzzedHandout::new(socket))
    }

    /// Reads what the client has sent; `None` while it may send more, otherwise whether it was served.
    pub fn go_on(&mut self, secret: [u8; 16], segment: BorrowedFd<'_>) -> Option<bool> {
        self.0.go_on(secret, segment)
    }
}
