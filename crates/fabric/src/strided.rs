//! Copies between a row of bytes and blocks that stand apart, which is most of what packing is.
//!
//! All of a copy is held against both claims once, before it begins, so that its loop is nothing but loads
//! and stores.

use crate::{Payload, UserMemory};

/// Blocks of one size, one every `stride` bytes; the stride may be negative, or less than a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// Where the first block begins in its claim.
    pub first: i64,
    /// Bytes from the beginning of a block to that of the next.
    pub stride: i64,
    /// How many there are.
    pub count: i64,
}

impl Strides {
    /// Whether all blocks of so many bytes lie inside a claim.
    #[inline]
    fn are_inside(self, block_bytes: usize, claimed: usize) -> bool {
        let last = (self.count - 1).checked_mul(self.stride).and_then(|far| far.checked_add(self.first));
        let Some(last) = last else { return false };
        let (low, high) = (self.first.min(last), self.first.max(last));
        0 <= low && high as usize <= claimed && block_bytes <= claimed - high as usize
    }

    /// Bytes of all blocks, when they are that many bytes from `at` on in a claim.
    #[inline]
    fn row_inside(self, block_bytes: usize, at: usize, claimed: usize) -> bool {
        let bytes = (self.count as usize).checked_mul(block_bytes);
        bytes.is_some_and(|bytes| at <= claimed && bytes <= claimed - at)
    }
}

/// Copies blocks of `BYTES` bytes of `source` to the front of `row`, one behind the other. False, and nothing
/// is done, where one of them is not inside its claim.
#[inline]
pub fn gather<const BYTES: usize>(source: Payload<'_>, blocks: Strides, row: &mut [u8]) -> bool {
    if blocks.count <= 0 {
        return true;
    }
    let fits = blocks.are_inside(BYTES, source.bytes()) && blocks.row_inside(BYTES, 0, row.len());
    if fits {
        // SAFETY: both ends of the blocks lie inside the source, so all between them do; the row is long
        // enough.
        unsafe {
            let from = source.start().offset(blocks.first as isize);
            copy::<BYTES>((from, blocks.stride), (row.as_mut_ptr(), BYTES as i64), blocks.count, Row::To);
        }
    }
    fits
}

/// Copies blocks of `BYTES` bytes of `source` to `row` from byte `at` on, one behind the other. False, and
/// nothing is done, where one of them is not inside its claim.
#[inline]
pub fn gather_memory<const BYTES: usize>(
    source: Payload<'_>,
    blocks: Strides,
    row: &mut UserMemory,
    at: usize,
) -> bool {
    if blocks.count <= 0 {
        return true;
    }
    let fits = blocks.are_inside(BYTES, source.bytes()) && blocks.row_inside(BYTES, at, row.bytes());
    if fits {
        // SAFETY: as in `gather`.
        unsafe {
            let from = source.start().offset(blocks.first as isize);
            copy::<BYTES>((from, blocks.stride), (row.start().add(at), BYTES as i64), blocks.count, Row::To);
        }
    }
    fits
}

/// Copies the bytes of `row` from `at` on to blocks of `BYTES` bytes of `into`. False, and nothing is done,
/// where one of them is not inside its claim.
#[inline]
pub fn scatter<const BYTES: usize>(
    row: Payload<'_>,
    at: usize,
    into: &mut UserMemory,
    blocks: Strides,
) -> bool {
    if blocks.count <= 0 {
        return true;
    }
    let fits = blocks.are_inside(BYTES, into.bytes()) && blocks.row_inside(BYTES, at, row.bytes());
    if fits {
        // SAFETY: as in `gather`, the other way round.
        unsafe {
            let to = into.start().offset(blocks.first as isize);
            copy::<BYTES>((row.start().add(at), BYTES as i64), (to, blocks.stride), blocks.count, Row::From);
        }
    }
    fits
}

/// Which side of a copy stands in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// What is written.
    To,
    /// What is read.
    From,
}

/// Copies `count` blocks, in order. A block is read before it is written, so overlapping ones are a mixture,
/// and nothing worse.
///
/// # Safety
/// The first and the last block of either side lie inside what was claimed; `count` is at least 1.
#[inline(always)]
unsafe fn copy<const BYTES: usize>(
    (mut from, from_stride): (*const u8, i64),
    (mut to, to_stride): (*mut u8, i64),
    count: i64,
    row: Row,
) {
    let mut one = || {
        // SAFETY: every block lies between the first and the last. The steps behind the last one wrap, and
        // are not looked at.
        unsafe { to.cast::<[u8; BYTES]>().write_unaligned(from.cast::<[u8; BYTES]>().read_unaligned()) };
        from = from.wrapping_offset(from_stride as isize);
        to = to.wrapping_offset(to_stride as isize);
        (from, to)
    };
    // A line of the row at a time: another processor may have it, and it takes a while to come.
    let blocks_in_line = (LINE / BYTES).max(1) as i64;
    for _ in 0..count / blocks_in_line {
        for _ in 1..blocks_in_line {
            one();
        }
        let (from, to) = one();
        match row {
            Row::To => fetch::<true>(to.wrapping_add(AHEAD)),
            Row::From => fetch::<false>(from.wrapping_add(AHEAD)),
        }
    }
    for _ in 0..count % blocks_in_line {
        one();
    }
}

/// Fetches a line ahead of its use. Changes nothing, wherever it is.
#[inline(always)]
fn fetch<const TO_WRITE: bool>(_line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch may name any address; it is a hint, and no access.
        unsafe {
            if TO_WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(_line.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(_line.cast());
            }
        }
    }
}

/// A cache line.
const LINE: usize = 64;
/// So far ahead a line is fetched: as many as a processor waits for at the same time.
const AHEAD: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;

    fn memory(bytes: &[u8]) -> Heap {
        let heap = Heap::new(bytes.len());
        heap.memory().write_at(0, Payload::from(bytes));
        heap
    }

    #[test]
    fn blocks_are_gathered_and_scattered_in_either_direction() {
        let source: Vec<u8> = (0..20).collect();
        for (first, stride, expected) in
            [(1, 6, [1, 2, 7, 8, 13, 14]), (15, -7, [15, 16, 8, 9, 1, 2]), (4, 1, [4, 5, 5, 6, 6, 7])]
        {
            let blocks = Strides { first, stride, count: 3 };
            let (mut row, heap) = ([0; 6], memory(&[0; 8]));
            assert!(gather::<2>(Payload::from(&source[..]), blocks, &mut row));
            assert_eq!(row, expected);
            assert!(gather_memory::<2>(Payload::from(&source[..]), blocks, &mut heap.memory(), 2));
            assert_eq!(heap.payload().to_vec()[2..], expected);
            let back = memory(&[99; 20]);
            assert!(scatter::<2>(heap.payload(), 2, &mut back.memory(), blocks));
            for (at, byte) in back.payload().to_vec().into_iter().enumerate() {
                assert!(
                    byte == at as u8 && expected.contains(&byte)
                        || byte == 99 && !expected.contains(&(at as u8))
                );
            }
        }
    }

    #[test]
    fn what_is_not_inside_is_not_touched() {
        let (source, mut row) = ([1u8; 16], [0u8; 8]);
        let at = |first, stride, count| Strides { first, stride, count };
        let row_and_source = [
            at(0, 8, 3),
            at(13, 1, 1),
            at(-1, 2, 2),
            at(4, -5, 2),
            at(0, i64::MAX, 3),
            at(i64::MIN, -1, 2),
            at(0, 1, i64::MAX),
        ];
        for blocks in row_and_source {
            assert!(!gather::<4>(Payload::from(&source[..]), blocks, &mut row), "{blocks:?}");
            let heap = memory(&[0; 16]);
            assert!(!scatter::<4>(Payload::from(&source[..]), 0, &mut heap.memory(), blocks), "{blocks:?}");
        }
        assert!(!gather::<4>(Payload::from(&source[..]), at(0, 4, 3), &mut row), "the row is too short");
        let heap = memory(&[0; 8]);
        assert!(!gather_memory::<4>(Payload::from(&source[..]), at(0, 4, 1), &mut heap.memory(), 5));
        assert!(!gather_memory::<4>(Payload::from(&source[..]), at(0, 4, 1), &mut heap.memory(), 9));
        assert!(!scatter::<4>(Payload::from(&source[..]), 13, &mut heap.memory(), at(0, 4, 1)));
        assert_eq!(row, [0; 8]);
        assert!(gather::<4>(Payload::EMPTY, at(5, 5, 0), &mut row));
    }
}
