//! What each member does in an operation on a board: what its entry holds, whose entries it reads, and what becomes of them.
//!
//! All that decides whether an operation goes by a board, and how long its entries are, is the same at all members.

use collectives::{
    Block, Collective, Each, Listed, Reduction, Rooted, Uneven, combining_order, scanning_order,
};
use messaging::Rank;

use crate::fabrics::Board;

/// One member's part in an operation.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    /// This member.
    here: Rank,
    size: u32,
    /// Whether it writes an entry.
    pub gives: bool,
    /// Whose entries it reads.
    pub hears: Hears,
    /// What an entry holds.
    holds: Holds,
    /// How the data is divided among the members.
    blocks: Blocks<'a>,
    /// Whether this member's contribution stands in its output.
    pub is_loaded: bool,
    /// Whether its own block must be brought to where it gets the others'.
    brings_own: bool,
    /// What becomes of what it reads.
    pub then: Then,
}

/// Whose entries a member reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hears {
    Nobody,
    One(Rank),
    /// Those of the members before it.
    Lower,
    Others,
}

/// What an entry holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Its writer's block, for all who read it.
    Own,
    /// A block for each other member, in the order in which they come behind the writer.
    ForEach,
}

/// The block of each member in a buffer of all.
#[derive(Clone, Copy)]
enum Blocks<'a> {
    /// All so long, one behind the other.
    Even(usize),
    /// As listed.
    Listed(&'a [Block]),
}

/// What becomes of what a member reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It is what this member gets.
    Taken,
    /// Each goes to its writer's place.
    Placed,
    /// It is combined with the others, and perhaps with this member's own.
    Combined(Sum),
}

/// Which contributions are combined, and in which order: the same as by the schedules that are chosen at such lengths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// Those of all, in the order of operands.
    OfAll,
    /// Those of the ranks up to this one.
    UpTo(Rank),
}

impl Sum {
    /// The members whose contributions are combined.
    pub(super) fn of(self, size: u32) -> impl Iterator<Item = Rank> {
        let last = if let Sum::UpTo(last) = self { last.0 } else { size - 1 };
        (0..=last).map(Rank)
    }

    /// Hands out each pair of contributions: the first is put before the second, where the result stands then. The answer is
    /// where that of all stands.
    pub(super) fn in_order(self, size: u32, mut combine: impl FnMut(Rank, Rank)) -> Rank {
        match self {
            Sum::OfAll => {
                combining_order(size).for_each(|(lower, higher)| combine(lower, higher));
                Rank(size - 1)
            }
            Sum::UpTo(last) => {
                scanning_order(last).for_each(|(lower, higher)| combine(lower, higher));
                last
            }
        }
    }
}

impl<'a> Plan<'a> {
    /// What that member does; `None` where the operation does not go by boards.
    #[inline]
    pub(super) fn of(collective: Collective, here: Rank, size: u32) -> Option<Plan<'a>> {
        let is_at = |root: Rank| here == root;
        let to = |root: Rank| if is_at(root) { Hears::Others } else { Hears::Nobody };
        let from = |root: Rank| if is_at(root) { Hears::Nobody } else { Hears::One(root) };
        let new = |bytes, then| Plan {
            here,
            size,
            gives: true,
            hears: Hears::Others,
            holds: Holds::Own,
            blocks: Blocks::Even(bytes),
            is_loaded: false,
            brings_own: false,
            then,
        };
        let exchange = |of: Each| Plan {
            is_loaded: of.in_place,
            brings_own: !of.in_place,
            ..new(of.bytes, Then::Placed)
        };
        let sum = |of: Reduction, sum| Plan {
            is_loaded: of.in_place,
            ..new(of.count * of.operator.element_bytes, Then::Combined(sum))
        };
        let brings = |of: Rooted| is_at(of.root) && !of.in_place;
        let plan = match collective {
            Collective::Barrier => return Some(new(0, Then::Taken)),
            // The root's data stands where that of the others goes.
            Collective::Bcast { root, bytes } => {
                Plan { gives: is_at(root), hears: from(root), is_loaded: true, ..new(bytes, Then::Taken) }
            }
            Collective::Gather(of) => Plan {
                gives: !is_at(of.root),
                hears: to(of.root),
                brings_own: brings(of),
                ..new(of.bytes, Then::Placed)
            },
            Collective::Scatter(of) => Plan {
                gives: is_at(of.root),
                hears: from(of.root),
                holds: Holds::ForEach,
                brings_own: brings(of),
                ..new(of.bytes, Then::Taken)
            },
            Collective::Allgather(of) => exchange(of),
            Collective::Alltoall(of) => Plan { holds: Holds::ForEach, ..exchange(of) },
            Collective::Allreduce(of) => sum(of, Sum::OfAll),
            // More ranks combine on their way, so that not one of them does it all; and the order in which a reduce-scatter of more
            // adds up is that of its algorithm, which changes with lengths and cores.
            Collective::Reduce(root, of) if size == 2 => {
                Plan { gives: !is_at(root), hears: to(root), ..sum(of, Sum::OfAll) }
            }
            Collective::ReduceScatterBlock(of) if size == 2 => {
                Plan { holds: Holds::ForEach, ..sum(of, Sum::OfAll) }
            }
            Collective::Scan(of) => {
                Plan { gives: here.0 + 1 < size, hears: Hears::Lower, ..sum(of, Sum::UpTo(here)) }
            }
            Collective::Exscan(of) => {
                let hears = if here.0 == 0 { Hears::Nobody } else { Hears::Lower };
                let before = Rank(here.0.saturating_sub(1));
                Plan { gives: here.0 + 1 < size, hears, ..sum(of, Sum::UpTo(before)) }
            }
            Collective::Reduce(..) | Collective::ReduceScatterBlock(_) => return None,
        };
        plan.fits().then_some(plan)
    }

    /// The same with blocks that differ; only where all members know all of them.
    pub(super) fn listed(listed: Listed<'a>, here: Rank, size: u32) -> Option<Plan<'a>> {
        let (blocks, in_place, holds, then) = match listed.what {
            Uneven::Allgather { in_place } => (listed.receives, in_place, Holds::Own, Then::Placed),
            Uneven::ReduceScatter { in_place, .. } if size == 2 => {
                (listed.sends, in_place, Holds::ForEach, Then::Combined(Sum::OfAll))
            }
            _ => return None,
        };
        let plan = Plan {
            here,
            size,
            gives: true,
            hears: Hears::Others,
            holds,
            blocks: Blocks::Listed(blocks),
            is_loaded: in_place,
            brings_own: then == Then::Placed && !in_place,
            then,
        };
        plan.fits().then_some(plan)
    }

    /// Whether entries have room for it, and there is anything to put there; the same at all members.
    #[inline]
    fn fits(&self) -> bool {
        let size = self.size as usize;
        let (longest, entry) = match (self.blocks, self.holds) {
            (Blocks::Even(bytes), Holds::Own) => (bytes, bytes),
            (Blocks::Even(bytes), Holds::ForEach) => (bytes, bytes.saturating_mul(size - 1)),
            (Blocks::Listed(blocks), holds) => {
                let lengths = || blocks.iter().map(|block| block.bytes);
                let (longest, all) = (lengths().max().unwrap_or(0), lengths().fold(0, usize::saturating_add));
                (longest, if holds == Holds::Own { longest } else { all })
            }
        };
        let is_combined = matches!(self.then, Then::Combined(_));
        let combined = if is_combined { longest.saturating_mul(size) } else { 0 };
        longest > 0 && entry <= Board::PAYLOAD_BYTES_MAX && combined <= ROOM_BYTES
    }

    /// Where a member's block stands in a buffer of all members' blocks.
    #[inline]
    pub(super) fn block(&self, of: Rank) -> Block {
        match self.blocks {
            Blocks::Even(bytes) => Block { offset: of.0 as usize * bytes, bytes },
            Blocks::Listed(blocks) => blocks[of.0 as usize],
        }
    }

    /// Where all blocks end that stand one behind the other.
    fn end(&self) -> usize {
        let Block { offset, bytes } = self.block(Rank(self.size - 1));
        offset + bytes
    }

    /// The parts of this member's contribution that make its entry.
    #[inline]
    pub(super) fn entry(&self) -> [Block; 2] {
        let nothing = Block { offset: 0, bytes: 0 };
        match self.holds {
            Holds::Own => [self.own(), nothing],
            Holds::ForEach => {
                let Block { offset, bytes } = self.block(self.here);
                let behind = offset + bytes;
                [Block { offset: behind, bytes: self.end() - behind }, Block { offset: 0, bytes: offset }]
            }
        }
    }

    /// What this member contributes for itself, where its contribution stands.
    #[inline]
    pub(super) fn own(&self) -> Block {
        let block = self.block(self.here);
        let has_all = self.holds == Holds::ForEach || self.is_loaded && self.then == Then::Placed;
        Block { offset: if has_all { block.offset } else { 0 }, ..block }
    }

    /// The length of that member's entry, and the part of it that this member reads.
    #[inline]
    pub(super) fn heard(&self, from: Rank) -> (usize, Block) {
        let theirs = self.block(from);
        match self.holds {
            Holds::Own => (theirs.bytes, Block { offset: 0, bytes: theirs.bytes }),
            Holds::ForEach => {
                let (end, behind, own) = (self.end(), theirs.offset + theirs.bytes, self.block(self.here));
                let offset = if self.here > from { own.offset - behind } else { end - behind + own.offset };
                (end - theirs.bytes, Block { offset, bytes: own.bytes })
            }
        }
    }

    /// Where this member's own block goes, if it must be brought there.
    #[inline]
    pub(super) fn kept(&self) -> Option<usize> {
        self.brings_own.then(|| self.place(self.here))
    }

    /// Where what that member has written goes.
    #[inline]
    pub(super) fn place(&self, from: Rank) -> usize {
        if self.then == Then::Placed { self.block(from).offset } else { 0 }
    }

    /// The members whose entries are read, beginning behind this one.
    #[inline]
    pub(super) fn writers(&self) -> impl Iterator<Item = Rank> + use<> {
        let (here, size) = (self.here.0, self.size);
        let (behind, before) = match self.hears {
            Hears::Nobody => (0..0, 0..0),
            Hears::One(rank) => (rank.0..rank.0 + 1, 0..0),
            Hears::Lower => (0..0, 0..here),
            Hears::Others => (here + 1..size, 0..here),
        };
        behind.chain(before).map(Rank)
    }
}

/// What all contributions may take that each member combines: more are combined faster in parts.
pub(super) const ROOM_BYTES: usize = 8 << 10;
