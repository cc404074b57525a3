//! What each member does in an operation on a collective segment: what its slot holds, whose slots it reads,
//! and what becomes of them.
//!
//! All that decides whether an operation goes by a collective segment, and how long its slots are, is the
//! same at all members.

use fabric::slots::{SLOT_BYTES_MAX, chunk_bytes_max};
use messaging::Rank;

use super::chunking::{BYTES_MAX, CHUNK_BYTES_MIN, ChunkedLengths, ChunkedTransfer, TransferLengths};
use super::n_ranks;
use super::segment_state::Flow;
use super::two_ranks::TwoRankPlan;
use crate::choice::Asked;
use crate::cost_model::SegmentRound;
use crate::names::Operation;
use crate::{
    BitReversedOrder, Block, COMBINED_BY_ALL_BYTES_MAX, Collective, Each, Listed, Reduction, Rooted, Uneven,
    combining_order, reducing_order, scanning_order,
};

/// One member's part in an operation.
#[derive(Clone, Copy)]
pub(super) struct SegmentPlan<'a> {
    pub operation: Operation,
    /// Whether the order of operands may change; true where nothing is combined.
    commutative: bool,
    /// This member.
    pub here: Rank,
    pub size: u32,
    /// Whether it writes a slot.
    pub gives: bool,
    /// Whose slots it reads.
    pub hears: Sources,
    /// What a slot holds.
    pub(super) holds: SlotContents,
    /// How the data is divided among the members.
    blocks: BlockLengths<'a>,
    /// Whether this member's contribution stands in its output.
    pub is_loaded: bool,
    /// Whether its own block must be brought to where it gets the others'.
    brings_own: bool,
    /// What becomes of what it reads.
    pub then: Use,
    /// Data is cut between elements of so many bytes.
    element_bytes: usize,
    /// What of it goes in chunks between two.
    in_chunks: ChunkedLengths,
}

/// Whose slots a member reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sources {
    Nobody,
    One(Rank),
    /// Those of the members before it.
    Lower,
    Others,
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotContents {
    /// Its writer's block, for all who read it.
    Own,
    /// A block for each other member, in the order in which they come behind the writer.
    ForEach,
}

/// The block of each member in a buffer of all.
#[derive(Clone, Copy)]
enum BlockLengths<'a> {
    /// All so long, one behind the other.
    Even(usize),
    /// As listed.
    Listed(&'a [Block]),
}

/// What becomes of what a member reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing comes but that it is there.
    Nothing,
    /// It is what this member gets.
    Taken,
    /// Each goes to its writer's place.
    Placed,
    /// It is combined with the others, and perhaps with this member's own.
    Combined(Order),
}

/// Which contributions are combined, and in which order: the same as by the schedules that are chosen at such
/// lengths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Those of all, in the order of operands.
    OfAll,
    /// Those of all, as up a tree to that rank.
    UpTree(Rank),
    /// Those of the ranks up to this one.
    UpTo(Rank),
}

/// Which contributions of two members a member combines, and in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operands {
    /// This member's own op the other's.
    OwnBeforeTheirs,
    /// The other's op this member's own.
    TheirsBeforeOwn,
    /// Nothing is combined: the other's.
    TheirsAlone,
    /// Nothing is combined: this member's own.
    OwnAlone,
}

impl Order {
    /// What the member of two combines that is `here`.
    #[inline(always)]
    pub(super) fn of_two(self, here: Rank) -> Operands {
        match self {
            Order::UpTo(Rank(0)) if here == Rank(0) => Operands::OwnAlone,
            Order::UpTo(Rank(0)) => Operands::TheirsAlone,
            // Up a tree two combine in the order of ranks as well.
            Order::OfAll | Order::UpTo(_) | Order::UpTree(_) if here == Rank(0) => Operands::OwnBeforeTheirs,
            Order::OfAll | Order::UpTo(_) | Order::UpTree(_) => Operands::TheirsBeforeOwn,
        }
    }

    /// The members whose contributions are combined.
    pub(super) fn of(self, size: u32) -> impl Iterator<Item = Rank> {
        let last = if let Order::UpTo(last) = self { last.0 } else { size - 1 };
        (0..=last).map(Rank)
    }

    /// Where a member's contribution is put, so that [many](Sum::in_runs) are combined at once.
    pub(super) fn place(self, size: u32, of: Rank) -> usize {
        match self {
            Order::OfAll => BitReversedOrder::of(size).place(of) as usize,
            Order::UpTree(_) | Order::UpTo(_) => of.0 as usize,
        }
    }

    /// Hands out runs of such places: so many from the first on are put before as many from the second on,
    /// where the results stand then. The answer is where that of all stands. The bits are those of
    /// [`Sum::in_order`].
    pub(super) fn in_runs(self, size: u32, mut combine: impl FnMut(usize, usize, usize)) -> usize {
        if self == Order::OfAll {
            let halves = BitReversedOrder::of(size);
            halves.runs().for_each(|(lower, higher, count)| {
                combine(lower as usize, higher as usize, count as usize);
            });
            return halves.result() as usize;
        }
        self.in_order(size, |lower, higher| combine(lower.0 as usize, higher.0 as usize, 1)).0 as usize
    }

    /// Hands out each pair of contributions: the first is put before the second, where the result stands
    /// then. The answer is where that of all stands.
    pub(super) fn in_order(self, size: u32, mut combine: impl FnMut(Rank, Rank)) -> Rank {
        match self {
            Order::OfAll => {
                combining_order(size).for_each(|(lower, higher)| combine(lower, higher));
                Rank(size - 1)
            }
            Order::UpTree(top) => {
                reducing_order(size, top).for_each(|(lower, higher)| combine(lower, higher));
                Rank((top.0 + size - 1) % size)
            }
            Order::UpTo(last) => {
                scanning_order(last).for_each(|(lower, higher)| combine(lower, higher));
                last
            }
        }
    }
}

impl<'a> SegmentPlan<'a> {
    /// What that member does; `None` where the operation never goes by collective segments.
    #[inline(always)]
    pub(super) fn of(collective: Collective, here: Rank, size: u32) -> Option<SegmentPlan<'a>> {
        let is_at = |root: Rank| here == root;
        let to = |root: Rank| if is_at(root) { Sources::Others } else { Sources::Nobody };
        let from = |root: Rank| if is_at(root) { Sources::Nobody } else { Sources::One(root) };
        let (operation, Asked { commutative, .. }) = collective.asked();
        let new = |bytes, then| Self { commutative, ..Self::each_to_all(operation, here, size, bytes, then) };
        let exchange = |of: Each| Self {
            is_loaded: of.in_place,
            brings_own: !of.in_place,
            in_chunks: ChunkedLengths::BOTH_WAYS,
            ..new(of.bytes, Use::Placed)
        };
        let sum = |of: Reduction, sum| Self {
            is_loaded: of.in_place,
            element_bytes: of.operator.element_bytes,
            ..new(of.count * of.operator.element_bytes, Use::Combined(sum))
        };
        let brings = |of: Rooted| is_at(of.root) && !of.in_place;
        let plan = match collective {
            Collective::Barrier => new(0, Use::Nothing),
            // The root's data stands where that of the others goes.
            Collective::Bcast { root, bytes } => {
                Self { gives: is_at(root), hears: from(root), is_loaded: true, ..new(bytes, Use::Taken) }
            }
            Collective::Gather(of) => Self {
                gives: !is_at(of.root),
                hears: to(of.root),
                brings_own: brings(of),
                ..new(of.bytes, Use::Placed)
            },
            Collective::Scatter(of) => Self {
                gives: is_at(of.root),
                hears: from(of.root),
                holds: SlotContents::ForEach,
                brings_own: brings(of),
                ..new(of.bytes, Use::Taken)
            },
            Collective::Allgather(of) => exchange(of),
            Collective::Alltoall(of) => Self { holds: SlotContents::ForEach, ..exchange(of) },
            Collective::Allreduce(of) => {
                Self { in_chunks: ChunkedLengths::BOTH_WAYS, ..sum(of, Order::OfAll) }
            }
            // The order in which a reduce-scatter of more adds up is that of its algorithm, which changes
            // with lengths and cores.
            Collective::Reduce(root, of) if size == 2 => {
                let in_chunks = ChunkedLengths::REDUCED;
                Self { gives: !is_at(root), hears: to(root), in_chunks, ..sum(of, Order::OfAll) }
            }
            Collective::ReduceScatterBlock(of) if size == 2 => Self {
                holds: SlotContents::ForEach,
                in_chunks: ChunkedLengths::BOTH_WAYS,
                ..sum(of, Order::OfAll)
            },
            Collective::Scan(of) => {
                let (gives, in_chunks) = (here.0 + 1 < size, ChunkedLengths::SCANNED);
                Self { gives, hears: Sources::Lower, in_chunks, ..sum(of, Order::UpTo(here)) }
            }
            Collective::Exscan(of) => {
                let hears = if here.0 == 0 { Sources::Nobody } else { Sources::Lower };
                let before = Rank(here.0.saturating_sub(1));
                Self { gives: here.0 + 1 < size, hears, ..sum(of, Order::UpTo(before)) }
            }
            Collective::Reduce(root, of) => {
                let top = if of.operator.commutative { root } else { Rank(0) };
                Self { gives: !is_at(root), hears: to(root), ..sum(of, Order::UpTree(top)) }
            }
            Collective::ReduceScatterBlock(_) => return None,
        };
        Some(plan)
    }

    /// The plan of an operation in which each member writes one slot of `bytes` bytes, and reads those of all
    /// others.
    #[inline(always)]
    fn each_to_all(operation: Operation, here: Rank, size: u32, bytes: usize, then: Use) -> SegmentPlan<'a> {
        Self {
            operation,
            commutative: true,
            here,
            size,
            gives: true,
            hears: Sources::Others,
            holds: SlotContents::Own,
            blocks: BlockLengths::Even(bytes),
            is_loaded: false,
            brings_own: false,
            then,
            element_bytes: 1,
            in_chunks: ChunkedLengths::ONE_WAY,
        }
    }

    /// What this member does in an operation whose blocks differ in length. `None` where not all members know
    /// all lengths, and for a reduce-scatter of more than two members.
    pub(super) fn listed(listed: Listed<'a>, here: Rank, size: u32) -> Option<SegmentPlan<'a>> {
        let new = |operation, then, blocks| Self {
            blocks: BlockLengths::Listed(blocks),
            ..SegmentPlan::each_to_all(operation, here, size, 0, then)
        };
        match listed.what {
            Uneven::Allgather { in_place } => Some(Self {
                is_loaded: in_place,
                brings_own: !in_place,
                in_chunks: ChunkedLengths::BOTH_WAYS,
                ..new(Operation::Allgather, Use::Placed, listed.receives)
            }),
            Uneven::ReduceScatter { in_place, operator } if size == 2 => Some(Self {
                holds: SlotContents::ForEach,
                is_loaded: in_place,
                commutative: operator.commutative,
                element_bytes: operator.element_bytes,
                in_chunks: ChunkedLengths::BOTH_WAYS,
                ..new(Operation::ReduceScatter, Use::Combined(Order::OfAll), listed.sends)
            }),
            _ => None,
        }
    }

    /// Whether what comes of a sum is written over what is still to be given, or combined: in place, and of
    /// another length.
    pub(super) fn is_in_the_way(&self) -> bool {
        let BlockLengths::Listed(blocks) = self.blocks else { return false };
        let is_uneven = || blocks.windows(2).any(|both| both[0].bytes != both[1].bytes);
        self.is_loaded && self.then != Use::Placed && is_uneven()
    }

    /// What this member does if there are two, in one round; the same at both.
    #[inline(always)]
    pub(super) fn of_two(&self) -> Option<TwoRankPlan> {
        if self.size != 2 || !self.is_one_round() {
            return None;
        }
        let other = Rank(1 - self.here.0);
        let gets = match self.hears {
            Sources::Nobody => false,
            Sources::One(_) | Sources::Others => true,
            Sources::Lower => self.here.0 == 1,
        };
        let (give, gotten) = match self.holds {
            SlotContents::Own => (self.own(), self.block(other)),
            SlotContents::ForEach => (self.block(other), self.block(self.here)),
        };
        let (operands, kept) = match self.then {
            // The lower one of a scan has its own alone.
            Use::Combined(Order::UpTo(Rank(0))) if !gets && matches!(self.hears, Sources::Lower) => {
                (None, if self.is_loaded { None } else { Some(0) })
            }
            Use::Combined(sum) => (if gets { Some(sum.of_two(self.here)) } else { None }, None),
            Use::Nothing | Use::Taken | Use::Placed => (None, self.kept()),
        };
        Some(TwoRankPlan {
            gives: self.gives,
            give,
            gets,
            place: self.place(other),
            got_bytes: gotten.bytes,
            own: self.own(),
            kept,
            is_loaded: self.is_loaded,
            operands,
            longest_bytes: self.longest_bytes(),
        })
    }

    /// Whether what each member gives stands in one slot or, of two members, may be one chunk; the same at
    /// all members.
    #[inline(always)]
    pub(super) fn is_one_round(&self) -> bool {
        if self.size != 2 {
            return self.fits();
        }
        let longest = self.longest_bytes();
        (longest > 0 || matches!(self.then, Use::Nothing)) && longest <= CHUNK_BYTES_MIN
    }

    /// Whether slots have room for it, and there is anything to put there; the same at all members.
    #[inline(always)]
    pub(super) fn fits(&self) -> bool {
        let (longest, entry) = self.entry_bytes();
        let all_bytes_max = match self.then {
            Use::Combined(Order::UpTree(_)) => ROOM_BYTES,
            Use::Combined(_) => COMBINED_BY_ALL_BYTES_MAX,
            Use::Nothing | Use::Taken | Use::Placed => usize::MAX,
        };
        let is_some = longest > 0 || matches!(self.then, Use::Nothing);
        let all = longest.saturating_mul(self.size as usize);
        is_some && entry <= SLOT_BYTES_MAX && all <= all_bytes_max
    }

    /// Whether one member combines what all have, which others do in a tree.
    #[inline(always)]
    pub(super) fn goes_up_tree(&self) -> bool {
        matches!(self.then, Use::Combined(Order::UpTree(_)))
    }

    /// Whether a slot, which is too long for the collective segment's places, is one chunk. Elements are
    /// combined faster in parts.
    pub(super) fn is_one_chunk(&self) -> bool {
        let (longest, entry) = self.entry_bytes();
        let is_long = longest > 0 && entry > SLOT_BYTES_MAX && entry <= chunk_bytes_max(self.size);
        is_long && !matches!(self.then, Use::Combined(_)) && self.size > 2
    }

    /// Whether it may go in chunks among several: what all hear, or all hear of one.
    #[inline]
    pub(super) fn goes_among_several(&self) -> bool {
        let (longest, _) = self.entry_bytes();
        let all_hear_all = self.gives && self.hears == Sources::Others;
        let least = match self.then {
            Use::Placed if all_hear_all => n_ranks::chunk_bytes(self.size, 1),
            Use::Taken => n_ranks::chunk_bytes(self.size, 1),
            Use::Combined(Order::OfAll) if all_hear_all && !self.fits() => 0,
            Use::Combined(Order::UpTree(_)) if !self.fits() && self.size > 3 => 0,
            _ => return false,
        };
        let is_cut = self.element_bytes <= n_ranks::ELEMENT_BYTES_MAX && longest <= BYTES_MAX;
        self.holds == SlotContents::Own && self.size > 2 && is_cut && least < longest
    }

    /// The longest block of any member.
    #[inline(always)]
    pub(super) fn longest_bytes(&self) -> usize {
        self.entry_bytes().0
    }

    /// Data is cut between elements of so many bytes.
    pub(super) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// What is asked of the operation: its longest block, and whether operands may change places.
    #[inline]
    pub(super) fn asked(&self) -> Asked {
        Asked { bytes: self.longest_bytes(), commutative: self.commutative }
    }

    /// This operation with blocks of `bytes` bytes each.
    pub(super) fn with_bytes(&self, bytes: usize) -> SegmentPlan<'a> {
        Self { blocks: BlockLengths::Even(bytes), ..*self }
    }

    /// What its members do if all that each gives goes in one round.
    pub(super) fn round(&self) -> SegmentRound {
        let (reads, gives) = self.entry_bytes();
        let others = self.size - 1;
        let combines = matches!(self.then, Use::Combined(_));
        let each = SegmentRound {
            times: 1,
            givers: self.size,
            gives,
            hearers: self.size,
            hears: others,
            reads,
            combines,
        };
        match self.operation {
            Operation::Bcast | Operation::Scatter => {
                SegmentRound { givers: 1, hearers: others, hears: 1, ..each }
            }
            Operation::Gather | Operation::Reduce => SegmentRound { givers: others, hearers: 1, ..each },
            _ => each,
        }
    }

    /// The length of the chunks of a [long operation among several](Plan::goes_among_several).
    pub(super) fn several_chunk_bytes(&self) -> usize {
        match self.goes_up_tree() {
            true => n_ranks::root_chunk_bytes(self.element_bytes),
            false => n_ranks::chunk_bytes(self.size, self.element_bytes),
        }
    }

    /// The longest block, and the longest slot.
    #[inline(always)]
    fn entry_bytes(&self) -> (usize, usize) {
        match (self.blocks, self.holds) {
            (BlockLengths::Even(bytes), SlotContents::Own) => (bytes, bytes),
            (BlockLengths::Even(bytes), SlotContents::ForEach) => {
                (bytes, bytes.saturating_mul(self.size as usize - 1))
            }
            // A slot has one block, also where it is for the other of two.
            (BlockLengths::Listed(blocks), _) => {
                let longest = blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
                (longest, longest)
            }
        }
    }

    /// What this one of two members does.
    #[inline(always)]
    pub(super) fn flow(&self) -> Flow {
        let is_some = self.size == 2 && !matches!(self.then, Use::Nothing);
        Flow { gives: is_some && self.gives, gets: is_some && self.writers().next().is_some() }
    }

    /// What two members give each other, where it goes in chunks; the same lengths as seen by the other.
    #[inline]
    pub(super) fn in_chunks(&self) -> Option<ChunkedTransfer> {
        if self.size != 2 {
            return None;
        }
        let [front, back] = self.entry();
        let gives = if self.gives { front.bytes + back.bytes } else { 0 };
        let gets = self.writers().next().map_or(0, |from| self.heard(from).0);
        let lengths = TransferLengths { gives, gets, element_bytes: self.element_bytes };
        match self.flow().is_one_way() {
            true => lengths.carried_one_way(self.in_chunks),
            false => lengths.carried(self.in_chunks),
        }
    }

    /// Whether what all members give is combined, and is the same at all.
    pub(super) fn is_same_for_all(&self) -> bool {
        self.operation == Operation::Allreduce
    }

    /// Where a member's block stands in a buffer of all members' blocks.
    #[inline(always)]
    pub(super) fn block(&self, of: Rank) -> Block {
        match self.blocks {
            BlockLengths::Even(bytes) => Block { offset: of.0 as usize * bytes, bytes },
            BlockLengths::Listed(blocks) => blocks[of.0 as usize],
        }
    }

    /// Where all blocks end that stand one behind the other.
    fn end(&self) -> usize {
        let Block { offset, bytes } = self.block(Rank(self.size - 1));
        offset + bytes
    }

    /// The parts of this member's contribution that make its slot.
    #[inline(always)]
    pub(super) fn entry(&self) -> [Block; 2] {
        match self.holds {
            SlotContents::Own => [self.own(), Block::NOTHING],
            SlotContents::ForEach => {
                let Block { offset, bytes } = self.block(self.here);
                let behind = offset + bytes;
                [Block { offset: behind, bytes: self.end() - behind }, Block { offset: 0, bytes: offset }]
            }
        }
    }

    /// What this member contributes for itself, where its contribution stands.
    #[inline(always)]
    pub(super) fn own(&self) -> Block {
        let block = self.block(self.here);
        let has_all =
            matches!(self.holds, SlotContents::ForEach) || self.is_loaded && matches!(self.then, Use::Placed);
        Block { offset: if has_all { block.offset } else { 0 }, ..block }
    }

    /// The length of that member's slot, and the part of it that this member reads.
    #[inline(always)]
    pub(super) fn heard(&self, from: Rank) -> (usize, Block) {
        let theirs = self.block(from);
        match self.holds {
            SlotContents::Own => (theirs.bytes, Block { offset: 0, bytes: theirs.bytes }),
            SlotContents::ForEach => {
                let (end, behind, own) = (self.end(), theirs.offset + theirs.bytes, self.block(self.here));
                let offset = if self.here > from { own.offset - behind } else { end - behind + own.offset };
                (end - theirs.bytes, Block { offset, bytes: own.bytes })
            }
        }
    }

    /// Where this member's own block goes, if it must be brought there.
    #[inline(always)]
    pub(super) fn kept(&self) -> Option<usize> {
        // The compiler keeps a plan in registers only where nothing of it is called.
        if self.brings_own { Some(self.place(self.here)) } else { None }
    }

    /// Where what that member has written goes.
    #[inline(always)]
    pub(super) fn place(&self, from: Rank) -> usize {
        if matches!(self.then, Use::Placed) { self.block(from).offset } else { 0 }
    }

    /// The members whose slots are read, beginning behind this one.
    #[inline(always)]
    pub(super) fn writers(&self) -> impl Iterator<Item = Rank> + use<> {
        let (here, size) = (self.here.0, self.size);
        let (behind, before) = match self.hears {
            Sources::Nobody => (0..0, 0..0),
            Sources::One(rank) => (rank.0..rank.0 + 1, 0..0),
            Sources::Lower => (0..0, 0..here),
            Sources::Others => (here + 1..size, 0..here),
        };
        behind.chain(before).map(Rank)
    }
}

/// The other members, beginning behind this one.
pub fn others(here: Rank, size: u32) -> impl Iterator<Item = Rank> {
    (here.0 + 1..size).chain(0..here.0).map(Rank)
}

/// The most bytes that the contributions of all members may have together where one member combines them from
/// slots.
pub(super) const ROOM_BYTES: usize = 32 << 10;

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
