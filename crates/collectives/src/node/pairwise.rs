//! Operations in which a member knows the lengths of the blocks that it gives and gets, and no others: each
//! pair of members knows its own alone, so each decides by itself whether its block goes by a slot or by a
//! message.
//!
//! Where several members read a slot, it has a slot of one length for each of them, in the order in which
//! they come behind its writer: four bytes that say how long the block is, and the block, where it fits.
//! Where one reads it, it is that one's block.

use fabric::Payload;
use fabric::slots::{SLOT_BYTES_MAX, Slots};
use messaging::Rank;

use super::chunking::{ChunkedLengths, ChunkedTransfer, TransferLengths};
use super::plan::others;
use super::segment_state::Flow;
use super::two_ranks::TwoRankPlan;
use crate::{Block, Listed, Uneven};

/// One member's part in such an operation.
#[derive(Clone, Copy)]
pub(super) struct PairwiseBlocks<'a> {
    listed: Listed<'a>,
    here: Rank,
    size: u32,
    /// The length of a slot; none where one member reads a slot.
    slot_bytes: Option<usize>,
}

/// The blocks that are too long for slots; the others have no bytes.
pub struct LongBlocks {
    what: Uneven,
    sends: Vec<Block>,
    receives: Vec<Block>,
}

impl LongBlocks {
    /// The operation that exchanges them.
    #[must_use]
    pub fn listed(&self) -> Listed<'_> {
        Listed { what: self.what, sends: &self.sends, receives: &self.receives }
    }
}

impl<'a> PairwiseBlocks<'a> {
    /// What that member does; `None` where all members know all lengths.
    pub(super) fn of(listed: Listed<'a>, here: Rank, size: u32) -> Option<PairwiseBlocks<'a>> {
        let has_slots = match listed.what {
            Uneven::Gather { .. } => false,
            Uneven::Scatter { .. } | Uneven::Alltoall { .. } => size > 2,
            Uneven::Allgather { .. } | Uneven::ReduceScatter { .. } => return None,
        };
        let slot_bytes = has_slots.then(|| SLOT_BYTES_MAX / (size - 1) as usize / HEAD_BYTES * HEAD_BYTES);
        Some(PairwiseBlocks { listed, here, size, slot_bytes })
    }

    /// Whether this member's contribution stands in its output.
    #[inline]
    pub(super) fn is_loaded(&self) -> bool {
        self.listed.what == Uneven::Alltoall { in_place: true }
    }

    /// What this member gives to another one, where its contribution stands.
    #[inline]
    pub(super) fn given_to(&self, to: Rank) -> Option<Block> {
        let Listed { what, sends, receives } = self.listed;
        match what {
            Uneven::Gather { root, .. } => (self.here != root && to == root).then(|| only(sends)),
            Uneven::Scatter { root, .. } => (self.here == root && to != root).then(|| of(sends, to)),
            Uneven::Alltoall { in_place } => {
                (to != self.here).then(|| of(if in_place { receives } else { sends }, to))
            }
            Uneven::Allgather { .. } | Uneven::ReduceScatter { .. } => None,
        }
    }

    /// Where what another one gives comes to stand in this member's output.
    #[inline]
    pub(super) fn gotten_from(&self, from: Rank) -> Option<Block> {
        let Listed { what, receives, .. } = self.listed;
        match what {
            Uneven::Gather { root, .. } => (self.here == root && from != root).then(|| of(receives, from)),
            Uneven::Scatter { root, .. } => (self.here != root && from == root).then(|| only(receives)),
            Uneven::Alltoall { .. } => (from != self.here).then(|| of(receives, from)),
            Uneven::Allgather { .. } | Uneven::ReduceScatter { .. } => None,
        }
    }

    /// This member's own block, and where it goes, if it must be brought there.
    #[inline]
    pub(super) fn kept(&self) -> Option<[Block; 2]> {
        let Listed { what, sends, receives } = self.listed;
        let first = |block: Block| Block { offset: 0, ..block };
        match what {
            Uneven::Gather { root, in_place: false } if self.here == root => {
                let own = of(receives, root);
                Some([first(own), own])
            }
            Uneven::Scatter { root, in_place: false } if self.here == root => {
                let own = of(sends, root);
                Some([own, first(own)])
            }
            Uneven::Alltoall { in_place: false } => Some([of(sends, self.here), of(receives, self.here)]),
            _ => None,
        }
    }

    /// What two members give each other, where it goes in chunks; the same lengths as seen by the other.
    #[inline]
    pub(super) fn in_chunks(&self) -> Option<ChunkedTransfer> {
        if self.size != 2 {
            return None;
        }
        let other = Rank(1 - self.here.0);
        let bytes = |block: Option<Block>| block.map_or(0, |block| block.bytes);
        let (gives, gets) = (bytes(self.given_to(other)), bytes(self.gotten_from(other)));
        let lengths = TransferLengths { gives, gets, element_bytes: 1 };
        let is_exchange = matches!(self.listed.what, Uneven::Alltoall { .. });
        match is_exchange {
            true => lengths.carried(ChunkedLengths::BOTH_WAYS),
            false => lengths.carried(ChunkedLengths::ONE_WAY),
        }
    }

    /// Whether a block goes by a slot.
    #[inline]
    pub(super) fn is_short(&self, block: Block) -> bool {
        block.bytes <= self.slot_bytes.map_or(SLOT_BYTES_MAX, |bytes| bytes - HEAD_BYTES)
    }

    /// Whether this member writes a slot: whoever has nothing but long blocks need not.
    #[inline]
    pub(super) fn writes(&self) -> bool {
        self.others().filter_map(|to| self.given_to(to)).any(|block| self.is_short(block))
    }

    /// What that member's slot has for this one, if anything comes by it.
    #[inline]
    pub(super) fn heard(&self, from: Rank) -> Option<Block> {
        self.gotten_from(from).filter(|&block| block.bytes > 0 && self.is_short(block))
    }

    /// Writes this member's slot.
    pub(super) fn write(&self, segment: &impl Slots, number: u32, contribution: Payload<'_>) {
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        let Some(slot_bytes) = self.slot_bytes else {
            let block = self.others().find_map(|to| self.given_to(to)).map_or(Payload::EMPTY, part);
            return segment.put(number, [block, Payload::EMPTY]);
        };
        for (to, slot) in self.others().zip(0..) {
            let (at, block) = (slot * slot_bytes, self.given_to(to).unwrap_or(Block::NOTHING));
            segment.fill(number, at, Payload::from(&told(block).to_ne_bytes()[..]));
            if self.is_short(block) {
                segment.fill(number, at + HEAD_BYTES, part(block));
            }
        }
        segment.post(number, self.entry_bytes(0));
    }

    /// The length of a slot, of which its reader expects so many bytes.
    pub(super) fn entry_bytes(&self, expected: usize) -> usize {
        self.slot_bytes.map_or(expected, |bytes| bytes * (self.size - 1) as usize)
    }

    /// The block for this member in that member's slot: the length that the writer has said, and as much of
    /// it as there is.
    pub(super) fn find<'e>(&self, from: Rank, entry: Payload<'e>) -> (usize, Payload<'e>) {
        let Some(slot_bytes) = self.slot_bytes else { return (entry.bytes(), entry) };
        let round = if self.here > from { 0 } else { self.size };
        let slot = (self.here.0 + round - from.0 - 1) as usize;
        let slot = entry.part(slot * slot_bytes, slot_bytes);
        let Some((head, block)) = slot.split_first() else { return (0, Payload::EMPTY) };
        let bytes = u32::from_ne_bytes(head) as usize;
        (bytes, block.part(0, bytes))
    }

    /// What this one of two members does if every block fits a slot.
    #[inline(always)]
    pub(super) fn of_two(&self) -> Option<TwoRankPlan> {
        if self.size != 2 {
            return None;
        }
        let other = Rank(1 - self.here.0);
        let (given, gotten) = (self.given_to(other), self.gotten_from(other));
        let (give, get) = (given.unwrap_or(Block::NOTHING), gotten.unwrap_or(Block::NOTHING));
        if !self.is_short(give) || !self.is_short(get) {
            return None;
        }
        let kept = self.kept();
        Some(TwoRankPlan {
            gives: given.is_some(),
            give,
            gets: get.bytes > 0,
            place: get.offset,
            got_bytes: get.bytes,
            own: kept.map_or(Block::NOTHING, |[own, _]| own),
            kept: kept.map(|[_, place]| place.offset),
            is_loaded: self.is_loaded(),
            operands: None,
            longest_bytes: give.bytes.max(get.bytes),
        })
    }

    /// What this one of two members does.
    #[inline]
    pub(super) fn flow(&self) -> Flow {
        if self.size != 2 {
            return Flow::default();
        }
        let other = Rank(1 - self.here.0);
        Flow { gives: self.given_to(other).is_some(), gets: self.gotten_from(other).is_some() }
    }

    /// The blocks that are for others, and come from them.
    fn moved(&self) -> impl Iterator<Item = Block> {
        self.others().flat_map(|other| [self.given_to(other), self.gotten_from(other)]).flatten()
    }

    /// How much of two members' may go by a message all the same, where data goes one way time after time.
    #[inline]
    pub(super) fn passed_bytes(&self) -> usize {
        if self.size == 2 { self.moved().map(|block| block.bytes).max().unwrap_or(0) } else { 0 }
    }

    /// Whether nothing but messages is needed, as far as this member knows.
    #[inline]
    pub(super) fn are_all_long(&self) -> bool {
        self.moved().all(|block| !self.is_short(block))
    }

    /// Whether any block is too long for a slot. Each of its two ends knows that.
    pub(super) fn has_long(&self) -> bool {
        self.moved().any(|block| !self.is_short(block))
    }

    /// What goes by messages, and this member's own block where there is any.
    pub(super) fn rest(&self) -> Option<LongBlocks> {
        self.has_long().then(|| {
            let Listed { what, sends, receives } = self.listed;
            let long = |blocks: &[Block]| {
                let left = |(block, rank): (&Block, u32)| {
                    let is_left = !self.is_short(*block) || rank == self.here.0;
                    if is_left { *block } else { Block { bytes: 0, ..*block } }
                };
                blocks.iter().zip(0..).map(left).collect()
            };
            LongBlocks { what, sends: long(sends), receives: long(receives) }
        })
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        others(self.here, self.size)
    }
}

/// A length as slots tell it.
pub(super) fn told(block: Block) -> u32 {
    u32::try_from(block.bytes).unwrap_or(u32::MAX)
}

/// A rank's block of a list.
fn of(blocks: &[Block], rank: Rank) -> Block {
    blocks[rank.0 as usize]
}

/// The block of who has one alone, which is all of its buffer.
fn only(blocks: &[Block]) -> Block {
    Block { offset: 0, bytes: blocks.first().map_or(0, |block| block.bytes) }
}

const HEAD_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use fabric::slots::MEMBERS_MAX;

    use super::*;

    /// How long what one member gives another is: nothing, what fits any slot, what just fits and what does
    /// not.
    fn bytes(from: u32, to: u32, size: u32) -> usize {
        let slot = SLOT_BYTES_MAX / (size - 1) as usize / HEAD_BYTES * HEAD_BYTES - HEAD_BYTES;
        let entry = SLOT_BYTES_MAX;
        [0, 1, 5, slot, slot + 1, entry, entry + 1, 5000][(3 * from + 5 * to + size) as usize % 8]
    }

    fn row(size: u32, of: impl Fn(u32) -> usize) -> Vec<Block> {
        (0..size).map(|rank| Block { offset: 6000 * rank as usize, bytes: of(rank) }).collect()
    }

    /// Both ends of each pair must see it alike, and each block must go by a slot or be left, and not both.
    #[test]
    fn both_ends_of_a_pair_decide_alike() {
        for size in 2..=MEMBERS_MAX {
            let whats = |rank: u32, root: u32| {
                let in_place = rank.is_multiple_of(2);
                [
                    Uneven::Gather { root: Rank(root), in_place },
                    Uneven::Scatter { root: Rank(root), in_place },
                ]
            };
            for root in [0, size / 2, size - 1] {
                for kind in 0..3 {
                    let lists: Vec<_> = (0..size)
                        .map(|here| match kind {
                            0 if here == root => (vec![], row(size, |from| bytes(from, root, size))),
                            0 => (vec![Block { offset: 0, bytes: bytes(here, root, size) }], vec![]),
                            1 if here == root => (row(size, |to| bytes(root, to, size)), vec![]),
                            1 => (vec![], vec![Block { offset: 0, bytes: bytes(root, here, size) }]),
                            _ => (
                                row(size, |to| bytes(here, to, size)),
                                row(size, |from| bytes(from, here, size)),
                            ),
                        })
                        .collect();
                    let of = |here: u32| {
                        let (sends, receives) = &lists[here as usize];
                        let what = match kind {
                            2 => Uneven::Alltoall { in_place: false },
                            kind => whats(here, root)[kind],
                        };
                        PairwiseBlocks::of(Listed { what, sends, receives }, Rank(here), size)
                            .expect("it is one")
                    };
                    for (from, to) in (0..size).flat_map(|from| (0..size).map(move |to| (from, to))) {
                        check_pair(&of(from), &of(to), bytes(from, to, size));
                    }
                }
            }
        }
    }

    fn check_pair(from: &PairwiseBlocks<'_>, to: &PairwiseBlocks<'_>, bytes: usize) {
        let (given, gotten) = (from.given_to(to.here), to.gotten_from(from.here));
        assert_eq!(given.is_some(), gotten.is_some(), "{:?} to {:?}", from.here, to.here);
        let (Some(given), Some(gotten)) = (given, gotten) else { return };
        assert_eq!((given.bytes, gotten.bytes), (bytes, bytes));
        assert_eq!(from.is_short(given), to.is_short(gotten));
        if to.heard(from.here).is_some() {
            assert!(from.writes(), "{:?} waits for {:?}, which writes nothing", to.here, from.here);
        }
        let is_left = |pairs: &PairwiseBlocks<'_>, block: Block, is_sent: bool| {
            let rest = pairs.rest();
            let blocks = rest.iter().flat_map(|rest| if is_sent { &rest.sends } else { &rest.receives });
            blocks.into_iter().any(|left| left.offset == block.offset && left.bytes > 0)
        };
        assert_eq!(is_left(from, given, true), !from.is_short(given));
        assert_eq!(is_left(to, gotten, false), !to.is_short(gotten));
    }
}
