//! Few rounds for few bytes: everybody's contribution comes to one rank, or to all, and is combined there.
//!
//! Where ranks take turns on a core, a round costs as many turns as ranks share it, and rounds are all that
//! counts.

use messaging::Rank;

use crate::schedule::{Buffer, Schedule, Span};
use crate::shape::{Core, Part, Shape, back, distances};

/// The rank that speaks with everybody.
pub(crate) const HUB: Rank = Rank(0);

/// Everybody gives everybody its contribution, and each combines all of them.
pub(crate) fn allreduce_each_to_all(shape: &Shape, own: Span) -> Schedule {
    let mut schedule = Schedule::new("allreduce by giving everybody everything");
    shape.others().for_each(|to| schedule.send(to, own));
    combine_all(&mut schedule, shape, own);
    schedule
}

/// The hub combines everybody's contribution and gives everybody the result.
pub(crate) fn allreduce_by_hub(shape: &Shape, own: Span) -> Schedule {
    let mut schedule = Schedule::new("allreduce by a hub");
    let out = Span::output(own.bytes);
    if shape.rank() == HUB {
        combine_all(&mut schedule, shape, own);
        shape.others().for_each(|to| schedule.send(to, out));
    } else {
        schedule.send(HUB, own);
        // In place, what is sent stands where the result goes.
        if own == out {
            schedule.wait();
        }
        schedule.receive(HUB, out);
    }
    schedule.wait();
    schedule
}

/// What each has of others' contributions doubles in each round, as in Bruck's allgather; then each combines
/// them.
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
    let guests = (0..core.guests).map(|guest| (Rank(2 * guest), Rank(2 * guest + 1)));
    let round = move |distance: u32| {
        let firsts = (0..core.size).step_by(2 * distance as usize);
        firsts.map(move |first| (core.rank(first + distance - 1), core.rank(first + 2 * distance - 1)))
    };
    guests.chain(distances(core.size).flat_map(round))
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
            Part::Guest(_) => self.core.size + rank.0 / 2,
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
        let Core { size, guests } = self.core;
        let guests = (0..guests).map(move |guest| (size + guest, self.place_in_core(guest), 1));
        let halves = (1..=size.ilog2()).map(move |round| {
            let half = size >> round;
            (size - 2 * half, size - half, half)
        });
        guests.chain(halves)
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
