//! Allgather (MPI 5.0 §6.7).

use messaging::Rank;

use crate::blocks::{Block, Blocks, packed};
use crate::choice::{self, Asked};
use crate::circulant::Circulant;
use crate::nested;
use crate::schedule::{Schedule, Span};
use crate::shape::{Shape, back, distances};

/// The ways to gather everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allgather {
    /// Pairs exchange what they have, which doubles: log2 p rounds; for powers of two. Blocks that differ are
    /// messages of their own, and go by Bruck's where they are short and many.
    RecursiveDoubling,
    /// Bruck's: ceil(log2 p) rounds for any p, and every byte is copied twice more.
    Bruck,
    /// Every block goes round: p - 1 rounds, to neighbours only, no extra copy.
    Ring,
    /// Around a circulant graph: ceil(log2 p) rounds for any p, the least number of bytes, and no copies
    /// where the blocks are contiguous; a message passes the last rank's block in two chunks.
    Circulant,
    /// Within the nodes to one rank of each, between these, and within the nodes again: what a node has not
    /// comes to it once. As [`Allgather::Circulant`] where it is not known that nodes hold consecutive ranks,
    /// or blocks differ.
    ByNode,
}

/// Everybody's `bytes` bytes of input stand in everybody's output, by rank.
#[must_use]
pub fn allgather(shape: &Shape, bytes: usize, in_place: bool) -> Schedule {
    choice::choose::<Allgather>(shape, Asked::bytes(bytes)).schedule(shape, bytes, in_place)
}

/// Every rank's block stands in every rank's output, by rank; the blocks may differ in length (MPI 5.0 §6.7).
/// `blocks` has for every rank where its block goes in the output: the lengths are the same at all ranks, the
/// offsets need not be.
#[must_use]
pub fn allgatherv(shape: &Shape, blocks: &[Block], in_place: bool) -> Schedule {
    let bytes: usize = blocks.iter().map(|block| block.bytes).sum();
    let algorithm: Allgather = choice::choose(shape, Asked::bytes(bytes / blocks.len().max(1)));
    algorithm.schedule_blocks(shape, blocks, in_place)
}

impl Allgather {
    /// [`allgather`] in this way, or in Bruck's where this one cannot.
    #[must_use]
    pub fn schedule(self, shape: &Shape, bytes: usize, in_place: bool) -> Schedule {
        let blocks = Blocks::Equal { bytes };
        let data = Span::output(bytes * shape.size() as usize);
        match self {
            Allgather::RecursiveDoubling if shape.size().is_power_of_two() => {
                recursive_doubling(shape, blocks, data, in_place)
            }
            Allgather::Ring => by_ring(shape, blocks, data, in_place),
            Allgather::Circulant => circulant(shape, blocks, data, in_place),
            Allgather::ByNode => nested::allgather(shape, bytes, in_place)
                .unwrap_or_else(|| circulant(shape, blocks, data, in_place)),
            Allgather::RecursiveDoubling | Allgather::Bruck => bruck(shape, blocks, data, in_place),
        }
    }

    /// [`allgatherv`] in this way, or in Bruck's where this one cannot.
    #[must_use]
    pub fn schedule_blocks(self, shape: &Shape, blocks: &[Block], in_place: bool) -> Schedule {
        let (listed, data) = (Blocks::Listed(blocks), Span::output(0));
        match self {
            Allgather::Ring => by_ring(shape, listed, data, in_place),
            Allgather::Circulant | Allgather::ByNode => circulant_of_listed(shape, blocks, in_place),
            Allgather::RecursiveDoubling if shape.size().is_power_of_two() && is_long(shape, blocks) => {
                recursive_doubling(shape, listed, data, in_place)
            }
            Allgather::RecursiveDoubling | Allgather::Bruck => bruck(shape, listed, data, in_place),
        }
    }
}

/// Whether a message for each block costs less than to copy all blocks side by side and back. All ranks know
/// the lengths, and where blocks stand is each rank's own affair.
fn is_long(shape: &Shape, blocks: &[Block]) -> bool {
    let bytes: usize = blocks.iter().map(|block| block.bytes).sum();
    shape.size() == 2 || bytes / blocks.len() > shape.guide().costs.node.eager_bytes_max
}

fn recursive_doubling(shape: &Shape, blocks: Blocks<'_>, data: Span, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("allgather by recursive doubling");
    let own = Own::new(shape, blocks, data, in_place);
    for distance in distances(shape.size()) {
        let partner = shape.rank().0 ^ distance;
        let mine = shape.rank().0 & !(distance - 1);
        let theirs = partner & !(distance - 1);
        match distance {
            1 => schedule.send(Rank(partner), own.given),
            _ => blocks.rows(data, mine, mine + distance).for_each(|row| schedule.send(Rank(partner), row)),
        }
        let rows = blocks.rows(data, theirs, theirs + distance);
        rows.for_each(|row| schedule.receive(Rank(partner), row));
        if distance == 1 {
            own.place(&mut schedule);
        }
        schedule.wait();
    }
    if shape.size() == 1 {
        own.place(&mut schedule);
    }
    schedule
}

fn by_ring(shape: &Shape, blocks: Blocks<'_>, data: Span, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("allgather by ring");
    let own = Own::new(shape, blocks, data, in_place);
    if shape.size() == 1 {
        own.place(&mut schedule);
    }
    let place = Ring { first: shape.rank().0, blocks, data, own: Some(own) };
    ring(&mut schedule, shape, &place, |_, _| false);
    schedule
}

/// A rank's own block: it is given from where the program has it, and comes to its place while it is on its
/// way.
pub(crate) struct Own {
    given: Span,
    place: Span,
}

impl Own {
    fn new(shape: &Shape, blocks: Blocks<'_>, data: Span, in_place: bool) -> Own {
        let place = blocks.of(data, shape.rank().0);
        Own { given: if in_place { place } else { Span::input(place.bytes) }, place }
    }

    fn place(&self, schedule: &mut Schedule) {
        schedule.copy(self.given, self.place);
    }
}

/// What goes round a ring.
pub(crate) struct Ring<'a> {
    /// The block that this rank begins with. The rank ahead begins with the next.
    pub first: u32,
    pub blocks: Blocks<'a>,
    pub data: Span,
    /// The first block, where it does not stand in `data` yet.
    pub own: Option<Own>,
}

/// Sends every block round the ring, except to those who have it: `has(f, b)` says so of the rank that begins
/// with block f, and of block b.
pub(crate) fn ring(schedule: &mut Schedule, shape: &Shape, ring: &Ring<'_>, has: impl Fn(u32, u32) -> bool) {
    let Ring { first, blocks, data, own } = ring;
    let size = shape.size();
    let next = back(*first, size - 1, size);
    for round in 1..size {
        let (sent, received) = (back(*first, round - 1, size), back(*first, round, size));
        let own = own.as_ref().filter(|_| round == 1);
        if !has(next, sent) {
            schedule.send(shape.ahead(1), own.map_or_else(|| blocks.of(*data, sent), |own| own.given));
        }
        if !has(*first, received) {
            schedule.receive(shape.behind(1), blocks.of(*data, received));
        }
        if let Some(own) = own {
            own.place(schedule);
        }
        schedule.wait();
    }
}

/// In scratch, blocks are counted from this rank's own on. In each round the rank `distance` places ahead
/// gives what it has, as far as it is wanted: the blocks that follow those which are here.
fn bruck(shape: &Shape, blocks: Blocks<'_>, data: Span, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("allgather by Bruck's algorithm");
    let size = shape.size();
    let block = |distance| blocks.of(data, shape.ahead(distance).0);
    // Where each block stands in scratch, and where all end.
    let at: Vec<usize> = std::iter::once(0)
        .chain((0..size).scan(0, |end, distance| {
            *end += block(distance).bytes;
            Some(*end)
        }))
        .collect();
    let room = schedule.scratch(at[size as usize]);
    let run = |first: u32, end: u32| {
        let start = at[first as usize];
        room.part(start, at[end as usize] - start)
    };
    let own = if in_place { block(0) } else { Span::input(block(0).bytes) };
    schedule.copy(own, run(0, 1));
    for distance in distances(size) {
        let count = distance.min(size - distance);
        schedule.send(shape.behind(distance), run(0, count));
        schedule.receive(shape.ahead(distance), run(distance, distance + count));
        schedule.wait();
    }
    for distance in u32::from(in_place)..size {
        schedule.copy(run(distance, distance + 1), block(distance));
    }
    schedule
}

fn circulant(shape: &Shape, blocks: Blocks<'_>, data: Span, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new(BY_CIRCULANT);
    Own::new(shape, blocks, data, in_place).place(&mut schedule);
    Circulant { shape, blocks }.gather(&mut schedule, data);
    schedule
}

/// Blocks that do not stand one behind the other are gathered so in scratch.
fn circulant_of_listed(shape: &Shape, blocks: &[Block], in_place: bool) -> Schedule {
    let listed = Blocks::Listed(blocks);
    if blocks.windows(2).all(|pair| pair[0].offset + pair[0].bytes == pair[1].offset) {
        return circulant(shape, listed, Span::output(0), in_place);
    }
    let mut schedule = Schedule::new(BY_CIRCULANT);
    let here = shape.rank().0;
    let side_by_side = packed(blocks.iter().map(|block| block.bytes));
    let together = Blocks::Listed(&side_by_side);
    let room = schedule.scratch(side_by_side.last().map_or(0, |last| last.offset + last.bytes));
    let own = listed.of(Span::output(0), here);
    let given = if in_place { own } else { Span::input(own.bytes) };
    schedule.copy(given, together.of(room, here));
    Circulant { shape, blocks: together }.gather(&mut schedule, room);
    for rank in (0..shape.size()).filter(|&rank| !(in_place && rank == here)) {
        schedule.copy(together.of(room, rank), listed.of(Span::output(0), rank));
    }
    schedule
}

const BY_CIRCULANT: &str = "allgather round a circulant graph";
