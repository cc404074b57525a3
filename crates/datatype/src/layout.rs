//! A datatype compiled: which blocks of bytes, in which order, make up its packed form.
//!
//! A layout is a block, a loop over a layout, a list of blocks, or a sequence of layouts. It is brought to a
//! normal form when it is made: blocks that touch become one, a loop whose rounds touch becomes a block,
//! nested loops with one common stride become one, a list with a regular step becomes a loop, small parts of
//! a sequence are written out. So most datatypes end as one to three nested loops round a block, whatever
//! constructors made them, and the irregular ones as a list.
//!
//! Offsets count from the address given to MPI and may be negative. The bounds of a datatype are computed,
//! with checks, before its layout, so the offset of every byte fits; only the offset of a node alone, without
//! those round it, may wrap, and is added with that in mind.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The packed form of one element of a datatype, as blocks of its memory.
#[derive(Clone)]
pub struct Layout {
    /// Added to every offset inside.
    offset: i64,
    /// Packed bytes.
    bytes: i64,
    /// How many blocks, at most `i64::MAX`.
    blocks: i64,
    depth: u32,
    shape: Shape,
}

#[derive(Clone)]
enum Shape {
    /// All `bytes` in a row.
    Block,
    Loop(Loop),
    /// Blocks without a rule.
    List(Arc<[ListedBlock]>),
    Sequence(Arc<[Part]>),
}

/// `count` rounds of `inner`, each `stride` bytes after the one before; at least two.
#[derive(Clone)]
struct Loop {
    count: i64,
    stride: i64,
    inner: Arc<Layout>,
}

/// One block of a list; `packed_at` is the sum of the bytes before it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ListedBlock {
    packed_at: i64,
    offset: i64,
    bytes: i64,
}

/// One part of a sequence.
struct Part {
    packed_at: i64,
    layout: Layout,
}

/// Moves the blocks of a layout, which are named in packed order.
pub(crate) trait Mover {
    /// The next `bytes` packed bytes stand at `offset`.
    fn block(&mut self, offset: i64, bytes: i64);
    /// The next `count` blocks of `BYTES` bytes each stand from `offset` on, `stride` apart.
    fn blocks<const BYTES: usize>(&mut self, offset: i64, stride: i64, count: i64);
}

impl Layout {
    /// No bytes.
    pub(crate) const EMPTY: Layout = Layout::block(0, 0);

    /// `bytes` bytes from `offset` on.
    pub(crate) const fn block(offset: i64, bytes: i64) -> Layout {
        Layout { offset, bytes, blocks: (bytes > 0) as i64, depth: 0, shape: Shape::Block }
    }

    /// `count` rounds of `inner`, `stride` bytes apart.
    pub(crate) fn repeated(inner: &Arc<Layout>, count: i64, stride: i64) -> Layout {
        let bytes = inner.bytes * count;
        if bytes == 0 {
            return Layout::EMPTY;
        }
        match &inner.shape {
            _ if count == 1 => Layout::clone(inner),
            Shape::Block if stride == inner.bytes => Layout::block(inner.offset, bytes),
            Shape::Loop(rounds) if rounds.continues_after(stride) => {
                let shape = Shape::Loop(Loop { count: rounds.count * count, ..rounds.clone() });
                Layout { bytes, blocks: inner.blocks.saturating_mul(count), shape, ..Layout::clone(inner) }
            }
            _ => Layout {
                offset: 0,
                bytes,
                blocks: inner.blocks.saturating_mul(count),
                depth: inner.depth + 1,
                shape: Shape::Loop(Loop { count, stride, inner: Arc::clone(inner) }),
            },
        }
    }

    /// The layouts in `parts` one after the other, in packed order, each at its own offset.
    pub(crate) fn sequence(parts: Vec<Layout>) -> Layout {
        let parts: Vec<Layout> = parts.into_iter().filter(|part| part.bytes > 0).collect();
        if let Some(layout) = regular(&parts) {
            return layout;
        }
        let parts = merged(written_out(parts));
        regular(&parts).unwrap_or_else(|| irregular(parts))
    }

    /// All of it, `bytes` further on.
    pub(crate) fn shifted(mut self, bytes: i64) -> Layout {
        if self.bytes > 0 {
            self.offset = self.offset.wrapping_add(bytes);
        }
        self
    }

    /// Packed bytes.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// The offset of the bytes, if they are contiguous.
    #[must_use]
    pub fn as_block(&self) -> Option<i64> {
        matches!(self.shape, Shape::Block).then_some(self.offset)
    }

    /// How deep loops and sequences are nested round the blocks.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// How many blocks there are, at most `i64::MAX`. Bytes by blocks is the mean block, which decides
    /// between moving listed blocks and packing.
    #[must_use]
    pub fn blocks(&self) -> i64 {
        self.blocks
    }

    /// Moves the packed bytes `range` of this layout, whose origin stands at `at`.
    pub(crate) fn run(&self, at: i64, range: Range<i64>, mover: &mut impl Mover) {
        debug_assert!(0 <= range.start && range.end <= self.bytes, "{range:?} of {self:?}");
        let at = at.wrapping_add(self.offset);
        if range == (0..self.bytes) {
            return self.run_whole(at, mover);
        }
        match &self.shape {
            Shape::Block => mover.block(at.wrapping_add(range.start), range.end - range.start),
            Shape::Loop(rounds) => repeat(&rounds.inner, rounds.stride, at, range, mover),
            Shape::List(listed) => run_listed(listed, at, range, mover),
            Shape::Sequence(parts) => run_parts(parts, at, range, mover),
        }
    }

    /// Moves everything; `at` has this layout's offset in it.
    fn run_whole(&self, at: i64, mover: &mut impl Mover) {
        match &self.shape {
            Shape::Block => mover.block(at, self.bytes),
            Shape::Loop(rounds) => rounds.inner.run_rounds(at, rounds.stride, rounds.count, mover),
            Shape::List(listed) => listed.iter().for_each(|block| block.run(at, mover)),
            Shape::Sequence(parts) => {
                parts
                    .iter()
                    .for_each(|part| part.layout.run_whole(at.wrapping_add(part.layout.offset), mover));
            }
        }
    }

    /// Moves `count` whole rounds of this layout, the first with its origin at `at`.
    fn run_rounds(&self, at: i64, stride: i64, count: i64, mover: &mut impl Mover) {
        let mut at = at.wrapping_add(self.offset);
        if let Shape::Block = self.shape {
            return run_blocks(at, stride, count, self.bytes, mover);
        }
        for round in 0..count {
            self.run_whole(at, mover);
            if round + 1 < count {
                at = at.wrapping_add(stride);
            }
        }
    }
}

impl Loop {
    /// Whether a round that begins `stride` after this loop goes on with its rhythm.
    fn continues_after(&self, stride: i64) -> bool {
        self.stride.checked_mul(self.count) == Some(stride)
    }
}

impl ListedBlock {
    /// Moves the whole block, with a copy of constant size where there is one.
    #[inline]
    fn run(&self, at: i64, mover: &mut impl Mover) {
        let offset = at.wrapping_add(self.offset);
        match self.bytes {
            4 => mover.blocks::<4>(offset, 0, 1),
            8 => mover.blocks::<8>(offset, 0, 1),
            16 => mover.blocks::<16>(offset, 0, 1),
            bytes => mover.block(offset, bytes),
        }
    }
}

/// The offset at which round number `round` begins, where the first begins at `at`. The origin of a layout
/// may lie beyond the range of `i64`, so sums wrap on the way. The result is inside the claim, which the
/// movers check.
#[inline]
pub(crate) fn place(at: i64, round: i64, stride: i64) -> i64 {
    at.wrapping_add(round.wrapping_mul(stride))
}

/// Moves the packed bytes `range` of however many rounds of `inner`, `stride` apart, the first with its
/// origin at `at`.
pub(crate) fn repeat(inner: &Layout, stride: i64, at: i64, range: Range<i64>, mover: &mut impl Mover) {
    let each = inner.bytes;
    let (mut round, begun) = (range.start / each, range.start % each);
    let mut left = range.end - range.start;
    if begun > 0 {
        let head = left.min(each - begun);
        inner.run(place(at, round, stride), begun..begun + head, mover);
        left -= head;
        round += 1;
    }
    if each <= left {
        inner.run_rounds(place(at, round, stride), stride, left / each, mover);
    }
    if left % each > 0 {
        inner.run(place(at, round + left / each, stride), 0..left % each, mover);
    }
}

/// Moves `count` blocks of `bytes` bytes, `stride` apart. The common sizes are constants to the compiler.
fn run_blocks(at: i64, stride: i64, count: i64, bytes: i64, mover: &mut impl Mover) {
    match bytes {
        1 => mover.blocks::<1>(at, stride, count),
        2 => mover.blocks::<2>(at, stride, count),
        4 => mover.blocks::<4>(at, stride, count),
        8 => mover.blocks::<8>(at, stride, count),
        12 => mover.blocks::<12>(at, stride, count),
        16 => mover.blocks::<16>(at, stride, count),
        24 => mover.blocks::<24>(at, stride, count),
        32 => mover.blocks::<32>(at, stride, count),
        64 => mover.blocks::<64>(at, stride, count),
        bytes if stride == bytes => mover.block(at, bytes * count),
        bytes => (0..count).for_each(|round| mover.block(place(at, round, stride), bytes)),
    }
}

fn run_listed(listed: &[ListedBlock], at: i64, range: Range<i64>, mover: &mut impl Mover) {
    let first = listed.partition_point(|block| block.packed_at <= range.start) - 1;
    for block in &listed[first..] {
        if range.end <= block.packed_at {
            return;
        }
        let from = range.start.max(block.packed_at) - block.packed_at;
        let to = block.bytes.min(range.end - block.packed_at);
        mover.block(at.wrapping_add(block.offset + from), to - from);
    }
}

fn run_parts(parts: &[Part], at: i64, range: Range<i64>, mover: &mut impl Mover) {
    let first = parts.partition_point(|part| part.packed_at <= range.start) - 1;
    for part in &parts[first..] {
        if range.end <= part.packed_at {
            return;
        }
        let from = range.start.max(part.packed_at) - part.packed_at;
        let to = part.layout.bytes.min(range.end - part.packed_at);
        part.layout.run(at, from..to, mover);
    }
}

/// Replaces parts of few blocks by their blocks.
fn written_out(parts: Vec<Layout>) -> Vec<Layout> {
    let mut blocks = Blocks(Vec::new());
    for part in parts {
        if part.blocks <= WRITTEN_OUT_BLOCKS_MAX {
            part.run(0, 0..part.bytes, &mut blocks);
        } else {
            blocks.0.push(part);
        }
    }
    blocks.0
}

/// Joins blocks that touch.
fn merged(parts: Vec<Layout>) -> Vec<Layout> {
    let mut merged: Vec<Layout> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            Some(last) if last.touches(&part) => *last = Layout::block(last.offset, last.bytes + part.bytes),
            _ => merged.push(part),
        }
    }
    merged
}

/// The parts as a loop, when they are alike and equally far apart; none and one are that too.
fn regular(parts: &[Layout]) -> Option<Layout> {
    let (first, second) = match parts {
        [] => return Some(Layout::EMPTY),
        [only] => return Some(only.clone()),
        [first, second, ..] => (first, second),
    };
    let stride = second.offset.checked_sub(first.offset)?;
    let alike = parts
        .windows(2)
        .all(|pair| pair[0].is_like(&pair[1]) && pair[1].offset.checked_sub(pair[0].offset) == Some(stride));
    alike.then(|| {
        let inner = Arc::new(first.clone());
        Layout::repeated(&inner, parts.len() as i64, stride)
    })
}

fn irregular(parts: Vec<Layout>) -> Layout {
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let blocks = parts.iter().map(|part| part.blocks).fold(0, i64::saturating_add);
    let only_blocks = parts.iter().all(|part| part.as_block().is_some());
    let depth = parts.iter().map(|part| part.depth).max().unwrap_or(0) + 1;
    let shape = if only_blocks { Shape::List(listed_blocks(&parts)) } else { Shape::Sequence(placed(parts)) };
    Layout { offset: 0, bytes, blocks, depth, shape }
}

fn listed_blocks(parts: &[Layout]) -> Arc<[ListedBlock]> {
    let mut packed_at = 0;
    let block = |part: &Layout| {
        let block = ListedBlock { packed_at, offset: part.offset, bytes: part.bytes };
        packed_at += part.bytes;
        block
    };
    parts.iter().map(block).collect()
}

fn placed(parts: Vec<Layout>) -> Arc<[Part]> {
    let mut packed_at = 0;
    let place = |layout: Layout| {
        let part = Part { packed_at, layout };
        packed_at += part.layout.bytes;
        part
    };
    parts.into_iter().map(place).collect()
}

impl Layout {
    /// Whether both are blocks and `next` begins where this one ends.
    fn touches(&self, next: &Layout) -> bool {
        let both = self.as_block().is_some() && next.as_block().is_some();
        both && self.offset.checked_add(self.bytes) == Some(next.offset)
    }

    /// Whether the two differ in nothing but their offset. May say no where yes would be true: only one level
    /// is looked at, so that trees that share their parts are compared quickly.
    fn is_like(&self, other: &Layout) -> bool {
        self.bytes == other.bytes
            && match (&self.shape, &other.shape) {
                (Shape::Block, Shape::Block) => true,
                (Shape::Loop(left), Shape::Loop(right)) => left.is_like(right),
                (Shape::List(left), Shape::List(right)) => Arc::ptr_eq(left, right),
                (Shape::Sequence(left), Shape::Sequence(right)) => Arc::ptr_eq(left, right),
                _ => false,
            }
    }
}

impl Loop {
    fn is_like(&self, other: &Loop) -> bool {
        self.count == other.count
            && self.stride == other.stride
            && (Arc::ptr_eq(&self.inner, &other.inner) || self.inner.is_same_block(&other.inner))
    }
}

impl Layout {
    fn is_same_block(&self, other: &Layout) -> bool {
        self.as_block().is_some() && self.as_block() == other.as_block() && self.bytes == other.bytes
    }
}

/// Writes the blocks it is told of into a list.
struct Blocks(Vec<Layout>);

impl Mover for Blocks {
    fn block(&mut self, offset: i64, bytes: i64) {
        self.0.push(Layout::block(offset, bytes));
    }

    fn blocks<const BYTES: usize>(&mut self, offset: i64, stride: i64, count: i64) {
        (0..count).for_each(|round| self.block(place(offset, round, stride), BYTES as i64));
    }
}

impl fmt::Debug for Layout {
    /// Outer to inner, such as `10 x +64 of 4 x +16 of 8 bytes at 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Block => write!(f, "{} bytes at {}", self.bytes, self.offset),
            Shape::Loop(rounds) => {
                let shift = if self.offset == 0 { String::new() } else { format!("({:+}) ", self.offset) };
                write!(f, "{shift}{} x {:+} of {:?}", rounds.count, rounds.stride, rounds.inner)
            }
            Shape::List(listed) => write!(f, "{} bytes in a list of {} blocks", self.bytes, listed.len()),
            Shape::Sequence(parts) => {
                write!(f, "({:+}) ", self.offset)?;
                f.debug_list().entries(parts.iter().map(|part| &part.layout)).finish()
            }
        }
    }
}

/// A part of a sequence with at most so many blocks is written out as blocks, so that neighbours can merge.
const WRITTEN_OUT_BLOCKS_MAX: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(layout: &Layout) -> String {
        format!("{layout:?}")
    }

    fn repeated(inner: Layout, count: i64, stride: i64) -> Layout {
        Layout::repeated(&Arc::new(inner), count, stride)
    }

    #[test]
    fn touching_rounds_become_a_block() {
        assert_eq!(text(&repeated(Layout::block(4, 8), 10, 8)), "80 bytes at 4");
        assert_eq!(text(&repeated(Layout::block(4, 8), 1, 99)), "8 bytes at 4");
        assert_eq!(repeated(Layout::block(4, 8), 0, 8).bytes(), 0);
    }

    #[test]
    fn nested_loops_of_one_rhythm_become_one() {
        let column = repeated(Layout::block(0, 8), 4, 16);
        assert_eq!(text(&repeated(column.clone(), 10, 64)), "40 x +16 of 8 bytes at 0");
        assert_eq!(text(&repeated(column, 10, 72)), "10 x +72 of 4 x +16 of 8 bytes at 0");
    }

    #[test]
    fn regular_lists_become_loops_and_others_stay_lists() {
        let at = |offset| Layout::block(offset, 4);
        assert_eq!(text(&Layout::sequence(vec![at(8), at(16), at(24)])), "3 x +8 of 4 bytes at 8");
        assert_eq!(text(&Layout::sequence(vec![at(8), at(12), at(16)])), "12 bytes at 8");
        assert_eq!(
            text(&Layout::sequence(vec![at(8), at(16), at(20), at(0)])),
            "16 bytes in a list of 3 blocks"
        );
        assert_eq!(text(&Layout::sequence(vec![at(8), Layout::EMPTY])), "4 bytes at 8");
    }

    #[test]
    fn sequences_of_one_loop_elsewhere_become_a_loop_of_loops() {
        let column = Arc::new(repeated(Layout::block(0, 8), 100, 32));
        let shifted = |bytes| Layout::clone(&column).shifted(bytes);
        let nested = Layout::sequence(vec![shifted(0), shifted(8), shifted(16)]);
        assert_eq!(text(&nested), "3 x +8 of 100 x +32 of 8 bytes at 0");
        let odd = Layout::sequence(vec![shifted(0), shifted(8), shifted(-16)]);
        assert_eq!((odd.bytes(), odd.blocks()), (2400, 300));
    }

    #[test]
    fn counting_blocks_saturates() {
        let pair = repeated(Layout::block(0, 1), 1 << 30, 2);
        assert_eq!(repeated(repeated(pair, 1 << 20, 1 << 40), 2, 0).blocks(), 1 << 51);
    }
}
