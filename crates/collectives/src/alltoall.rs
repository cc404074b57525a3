//! Alltoall (MPI 5.0 §6.8).

use messaging::Rank;

use crate::blocks::{Block, Blocks};
use crate::choice::{self, Asked};
use crate::nested;
use crate::schedule::{Schedule, Span};
use crate::shape::{Shape, back, distances};

/// The ways to exchange everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alltoall {
    /// Bruck's: ceil(log2 p) rounds, in which every byte travels about log2(p) / 2 times.
    Bruck,
    /// Every pair exchanges directly: p - 1 messages each way.
    Pairwise,
    /// Each rank of a node collects there what goes to some of the other nodes, or to a part of one,
    /// exchanges one message with each of these, and deals out what came: with L ranks on each of N nodes,
    /// the larger of N - 1 and about L messages leave a node, with what must. By pairs where it is not known
    /// who sits where.
    ByNode,
}

/// Block j, `bytes` long, of rank i's input becomes block i of rank j's output.
#[must_use]
pub fn alltoall(shape: &Shape, bytes: usize, in_place: bool) -> Schedule {
    choice::choose::<Alltoall>(shape, Asked::bytes(bytes)).schedule(shape, bytes, in_place)
}

/// Every rank sends a block to every rank, and the blocks may differ in length (MPI 5.0 §6.8). `sends` has
/// for every rank where the block for it stands in the input, `receives` where the block from it goes in the
/// output. Both are in bytes, so that they serve for different datatypes as well. In place, `sends` is not
/// read, and the block for a rank is as long as the block from it.
#[must_use]
pub fn alltoallv(shape: &Shape, sends: &[Block], receives: &[Block], in_place: bool) -> Schedule {
    pairwise(shape, &Blocks::Listed(sends), &Blocks::Listed(receives), in_place)
}

impl Alltoall {
    /// [`alltoall`] in this way, or by pairs where this one cannot.
    #[must_use]
    pub fn schedule(self, shape: &Shape, bytes: usize, in_place: bool) -> Schedule {
        let blocks = Blocks::Equal { bytes };
        match self {
            Alltoall::Bruck => bruck(shape, blocks, in_place),
            Alltoall::Pairwise => pairwise(shape, &blocks, &blocks, in_place),
            Alltoall::ByNode => nested::alltoall(shape, bytes, in_place)
                .unwrap_or_else(|| pairwise(shape, &blocks, &blocks, in_place)),
        }
    }
}

/// In round k those two ranks meet whose sum is k modulo p, so that each pair meets once and both at a time.
fn pairwise(shape: &Shape, sends: &Blocks<'_>, receives: &Blocks<'_>, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("alltoall by pairs");
    let (here, size) = (shape.rank().0, shape.size());
    let (input, output) = (Span::input(0), Span::output(0));
    let room = if in_place && size > 1 { schedule.scratch(receives.longest(size)) } else { input };
    let mut own = (!in_place).then(|| (sends.of(input, here), receives.of(output, here)));
    for round in 0..size {
        let partner = back(round, here, size);
        if partner == here {
            continue;
        }
        let into = receives.of(output, partner);
        let from = if in_place { room.part(0, into.bytes) } else { sends.of(input, partner) };
        if in_place {
            schedule.copy(into, from);
        }
        schedule.send(Rank(partner), from);
        // While the first partner takes what it gets.
        if let Some((from, into)) = own.take() {
            schedule.copy(from, into);
        }
        schedule.receive(Rank(partner), into);
        if in_place || round % PAIRS_AT_ONCE == PAIRS_AT_ONCE - 1 {
            schedule.wait();
        }
    }
    if let Some((from, into)) = own {
        schedule.copy(from, into);
    }
    schedule
}

/// A block for the rank `i` places ahead travels by the powers of two that `i` is the sum of: in the round of
/// distance d, all those go that have bit d in their `i`.
fn bruck(shape: &Shape, blocks: Blocks<'_>, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("alltoall by Bruck's algorithm");
    let size = shape.size();
    let own = Span::own(0, in_place);
    let room = schedule.scratch(blocks.longest(size) * size as usize);
    for steps in 0..size {
        schedule.copy(blocks.of(own, shape.ahead(steps).0), blocks.of(room, steps));
    }
    let half = blocks.longest(size) * (size as usize).div_ceil(2);
    let (packed, arrived) = (schedule.scratch(half), schedule.scratch(half));
    for distance in distances(size) {
        let moving = || (0..size).filter(|steps| steps & distance != 0).zip(0..);
        moving().for_each(|(steps, at)| schedule.copy(blocks.of(room, steps), blocks.of(packed, at)));
        let count = moving().count() as u32;
        schedule.send(shape.ahead(distance), blocks.run(packed, 0, count));
        schedule.receive(shape.behind(distance), blocks.run(arrived, 0, count));
        schedule.wait();
        moving().for_each(|(steps, at)| schedule.copy(blocks.of(arrived, at), blocks.of(room, steps)));
    }
    for steps in 0..size {
        schedule.copy(blocks.of(room, steps), blocks.of(Span::output(0), shape.behind(steps).0));
    }
    schedule
}

/// Exchanges that go on at the same time, unless they share the room to swap in.
pub(crate) const PAIRS_AT_ONCE: u32 = 8;
