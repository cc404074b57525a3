//! Few rounds for few bytes: the contributions of all ranks come to one rank, or to all, and are combined
//! there.
//!
//! Where ranks take turns on a core, a round costs as many turns as ranks share it, and rounds are all that
//! counts.

use messaging::Rank;

use crate::schedule::{Buffer, Schedule, Span};
use crate::shape::{Core, Part, Shape, back, distances};

/// The root of gather and broadcast: the rank that all others send to and receive from.
pub(crate) const ROOT: Rank = Rank(0);

/// Each rank sends its contribution to all others, and combines all contributions.
pub(crate) fn allreduce_each_to_all(shape: &Shape, own: Span) -> Schedule {
    let mut schedule = Schedule::new("allreduce by giving everybody everything");
    shape.others().for_each(|to| schedule.send(to, own));
    combine_all(&mut schedule, shape, own);
    schedule
}

/// The root receives the contributions of all ranks, combines them, and sends the result to all ranks.
pub(crate) fn allreduce_by_gather_broadcast(shape: &Shape, own: Span) -> Schedule {
    let mut schedule = Schedule::new("allreduce by gather and broadcast");
    let out = Span::output(own.bytes);
    if shape.rank() == ROOT {
        combine_all(&mut schedule, shape, own);
        shape.others().for_each(|to| schedule.send(to, out));
    } else {
        schedule.send(ROOT, own);
        // In place, what is sent stands where the result goes.
        if own == out {
            schedule.wait();
        }
        schedule.receive(ROOT, out);
    }
    schedule.wait();
    schedule
}

/// An allgather after Bruck: the number of contributions that a rank has doubles in each round. Then each
/// rank combines all contributions.
pub(crate) fn allreduce_by_gathering(shape: &Shape, own: Span) -> Schedule {
    let mut schedule = Schedule::new("allreduce by gathering everything everywhere");
    let size = shape.size();
    let room = schedule.scratch(own.bytes * size as usize);
    let blocks = |first: u32, count: u32| room.part(first as usize * own.bytes, count as usize * own.bytes);
    schedule.copy(own, blocks(0, 1));
    for distance in distances(size) {
        let count = distance.min(size - distance);
        schedule.send(shape.behind(distance), blocks(0, count));
        schedule.receive(shape.ahead(distance), blocks(distance, count));
        schedule.wait();
    }
    let place = |rank| blocks(back(rank, shape.rank().0, size), 1);
    let mut places: Vec<Span> = (0..size).map(place).collect();
    combine_pairs(&mut schedule, &mut places, size);
    schedule.copy(places[places.len() - 1], Span::output(own.bytes));
    schedule
}

/// Receives everybody's contribution and combines them in the output.
///
/// They are combined in pairs of pairs, just as recursive doubling does it, so that both give the same bits.
fn combine_all(schedule: &mut Schedule, shape: &Shape, own: Span) {
    let out = Span::output(own.bytes);
    let mut places = places(schedule, shape, own);
    for from in shape.others() {
        schedule.receive(from, places[from.0 as usize]);
    }
    schedule.wait();
    combine_pairs(schedule, &mut places, shape.size());
    schedule.copy(places[places.len() - 1], out);
}

/// What stands at the place of the last rank is the result.
fn combine_pairs(schedule: &mut Schedule, places: &mut [Span], size: u32) {
    for (lower, higher) in combining_order(size) {
        combine(schedule, places, lower, higher);
    }
}

/// The order in which contributions are combined where all of them are in one place: what stands for the
/// first rank of each pair is put before what stands for the second, and the result stands for the second
/// from then on; in the end, for the last rank. It keeps the order of operands, and gives the bits that
/// [`Allreduce::RecursiveDoubling`] gives.
///
/// [`Allreduce::RecursiveDoubling`]: crate::Allreduce::RecursiveDoubling
pub fn combining_order(size: u32) -> impl Iterator<Item = (Rank, Rank)> {
    let core = Core::new(size);
    let extras = (0..core.extras).map(|extra| (Rank(2 * extra), Rank(2 * extra + 1)));
    let round = move |distance: u32| {
        let firsts = (0..core.size).step_by(2 * distance as usize);
        firsts.map(move |first| (core.rank(first + distance - 1), core.rank(first + 2 * distance - 1)))
    };
    extras.chain(distances(core.size).flat_map(round))
}

/// What the contributions of all ranks of a node may take together, in bytes, where they stand in memory that
/// all see and each rank combines them all (decisions/0004): more are combined faster in parts.
pub const COMBINED_BY_ALL_BYTES_MAX: usize = 8 << 10;

/// Where contributions are put one behind the other so that a few calls combine all of them, in the order of
/// [`combining_order`]: what is combined in one round of it are two runs of places.
#[derive(Clone, Copy, Debug)]
pub struct BitReversedOrder {
    core: Core,
}

impl BitReversedOrder {
    /// The order of the contributions of `size` ranks, at least one; there are as many places as ranks.
    #[must_use]
    pub fn of(size: u32) -> BitReversedOrder {
        BitReversedOrder { core: Core::new(size) }
    }

    /// The place of a rank's contribution.
    #[must_use]
    pub fn place(self, rank: Rank) -> u32 {
        match self.core.part(rank) {
            Part::Extra(_) => self.core.size + rank.0 / 2,
            Part::Member(number, _) => self.place_in_core(number),
        }
    }

    /// Numbers that differ in the lowest bit alone are half of all places apart, so that a round is two
    /// halves; of the second one, where the results stand, the same holds.
    fn place_in_core(self, number: u32) -> u32 {
        number.reverse_bits() >> (u32::BITS - self.core.size.ilog2()).min(u32::BITS - 1)
    }

    /// The runs of places that are combined, one after the other, each as (first, second, count): the `count`
    /// places from `first` on are put before the `count` places from `second` on, where the results stand
    /// then. The result of all stands in the last place of [`BitReversedOrder::result`].
    pub fn runs(self) -> impl Iterator<Item = (u32, u32, u32)> {
        let Core { size, extras } = self.core;
        let extras = (0..extras).map(move |extra| (size + extra, self.place_in_core(extra), 1));
        let halves = (1..=size.ilog2()).map(move |round| {
            let half = size >> round;
            (size - 2 * half, size - half, half)
        });
        extras.chain(halves)
    }

    /// Where the result stands in the end.
    #[must_use]
    pub fn result(self) -> u32 {
        self.core.size - 1
    }
}

/// Where the contribution of each rank stands once it is there. That of the last rank becomes the result.
fn places(schedule: &mut Schedule, shape: &Shape, own: Span) -> Vec<Span> {
    let out = Span::output(own.bytes);
    let last = Rank(shape.size() - 1);
    let place = |rank| match rank {
        rank if rank == shape.rank() => own,
        rank if rank == last && own != out => out,
        _ => schedule.scratch(own.bytes),
    };
    (0..shape.size()).map(Rank).map(place).collect()
}

/// What stands for the ranks up to `lower` is put before what stands for those up to `higher`.
fn combine(schedule: &mut Schedule, places: &mut [Span], lower: Rank, higher: Rank) {
    let last = places.len() - 1;
    let (from, into) = (places[lower.0 as usize], &mut places[higher.0 as usize]);
    if into.buffer == Buffer::Input {
        // The input is this rank's own, and is only read.
        let room =
            if higher.0 as usize == last { Span::output(into.bytes) } else { schedule.scratch(into.bytes) };
        schedule.copy(*into, room);
        *into = room;
    }
    schedule.reduce(from, *into);
}
