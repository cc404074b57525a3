//! Where a line and a chunk stand in a ring, which its writer and its reader compute by the same rules.

use super::ProtocolViolation;
use crate::layout::{LINE, RING_LINES, RingShape};
use crate::memory::{Memory, Use};

/// A position in a ring. Writer and reader each keep one, and both move it by the same rules.
pub struct Spot {
    /// Where the ring stands in memory.
    pub at: usize,
    pub shape: RingShape,
    pub slot: u32,
    /// What the line will carry; the first is 1, and it may wrap.
    pub sequence: u32,
    pub lines_passed: u32,
    /// Where the data area is next written or read.
    pub data: u32,
    pub units_passed: u32,
    /// How far the data area was ever used.
    reached: u32,
}

/// Room in the data area: where it begins, and how much it takes, in units, with what is skipped before it;
/// nothing where it stands behind that area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub start: u32,
    pub units: u32,
}

impl Spot {
    /// Whether so much of the data area was used that all of it was brought in.
    pub fn has_pages(&self) -> bool {
        self.reached >= self.shape.data_bytes / PARTS
    }

    /// Brings the data area in, which would come page by page otherwise, a microsecond for each.
    #[cold]
    fn bring_in(&self, memory: &impl Memory, wanted: Use) {
        memory.bring_in(self.at + self.shape.data_at as usize, self.shape.data_bytes as usize, wanted);
    }

    pub fn new(at: usize, shape: RingShape) -> Spot {
        Spot { at, shape, slot: 0, sequence: 1, lines_passed: 0, data: 0, units_passed: 0, reached: 0 }
    }

    #[inline(always)]
    pub fn line(&self) -> usize {
        self.at + RING_LINES + self.slot as usize * LINE
    }

    #[inline(always)]
    pub fn next_line(&mut self) {
        self.slot = if self.slot + 1 == self.shape.lines { 0 } else { self.slot + 1 };
        self.sequence = self.sequence.wrapping_add(1);
        self.lines_passed = self.lines_passed.wrapping_add(1);
    }

    /// Where a chunk goes. A short one has the room that belongs to its line, which is in the caches again
    /// after a lap of the lines, and takes nothing of the data area. Another one stands in one part there:
    /// where the end of the area is too near, it starts over, and what is left there counts as taken.
    pub fn span(&self, bytes: usize) -> Span {
        let RingShape { data_bytes, slot_bytes, .. } = self.shape;
        if bytes <= slot_bytes as usize {
            return Span { start: data_bytes + self.slot * u32::from(slot_bytes), units: 0 };
        }
        let skipped = data_bytes - self.data;
        if bytes <= skipped as usize {
            return Span { start: self.data, units: units(bytes) };
        }
        Span { start: 0, units: units(bytes) + units(skipped as usize) }
    }

    pub fn data(&self, span: Span) -> usize {
        self.at + (self.shape.data_at + span.start) as usize
    }

    /// Moves the place in the data area behind `span`. A span of no units moves nothing. Once some of the
    /// area was used, all of it is going to be.
    #[inline(always)]
    pub fn pass(&mut self, memory: &impl Memory, span: Span, wanted: Use) {
        if span.units == 0 {
            return;
        }
        let skipped =
            if span.start < self.data { units((self.shape.data_bytes - self.data) as usize) } else { 0 };
        self.data = span.start + (span.units - skipped) * UNIT_BYTES;
        self.units_passed = self.units_passed.wrapping_add(span.units);
        if self.data > self.reached {
            let had_pages = self.has_pages();
            self.reached = self.data;
            if !had_pages && self.has_pages() {
                self.bring_in(memory, wanted);
            }
        }
    }
}

/// What is free of `all` when `passed` were written and the reader claims to have consumed `consumed`.
pub fn free(all: u32, passed: u32, consumed: u32) -> Result<u32, ProtocolViolation> {
    let under_way = passed.wrapping_sub(consumed);
    all.checked_sub(under_way).ok_or(ProtocolViolation::Progress { ahead: consumed.wrapping_sub(passed) })
}

/// The number of units that hold `bytes`.
#[inline]
pub fn units(bytes: usize) -> u32 {
    bytes.div_ceil(UNIT_BYTES as usize) as u32
}

/// A program that uses less than one of so many parts of the data area may never send more.
const PARTS: u32 = 8;
/// Data is counted in cache lines, so that no two chunks share one.
pub const UNIT_BYTES: u32 = LINE as u32;
