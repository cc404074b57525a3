//! Operations in which each rank has a block for every other, by parts: reduce-scatter and alltoall.
//!
//! Blocks for the ranks of a part do not stand side by side where they must travel together, so some are copied first. Where
//! that costs more than it gains, the formulas know it.

use std::ops::Range;

use messaging::Rank;

use super::{Here, for_operator, to_leader};
use crate::alltoall::{PAIRS_AT_ONCE, alltoallv};
use crate::blocks::{Block, Blocks, packed};
use crate::choice::{self, Asked};
use crate::nesting::{Group, Nesting};
use crate::reduce_scatter::ReduceScatter;
use crate::scatter::Scatter;
use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape, around, back};

/// To the leader of each part, between the leaders, and from each to the ranks of its part. None where the operation cannot go
/// by parts.
pub(crate) fn reduce_scatter(
    shape: &Shape,
    blocks: Blocks<'_>,
    operator: Operator,
    in_place: bool,
) -> Option<Schedule> {
    let nesting = for_operator(shape, operator)?;
    let here = Here::of_first(nesting, shape)?;
    let mut schedule = Schedule::new("reduce-scatter within nodes, between them and within them");
    let own = Span::own(blocks.run(Span::output(0), 0, shape.size()).bytes, in_place);
    let count = own.bytes / operator.element_bytes.max(1);
    let room = (here.leads() && here.local.size() > 1).then(|| schedule.scratch(own.bytes));
    let sum = to_leader(&mut schedule, &here, count, operator, own, room);

    let lengths = packed(members(nesting, here.part).map(|rank| blocks.of(own, rank.0).bytes));
    let all = lengths.iter().map(|block| block.bytes).sum::<usize>();
    let mine = schedule.scratch(if here.leads() { all } else { 0 });
    if here.leads() {
        schedule.wait();
        let sum = by_place(&mut schedule, nesting, sum, &blocks);
        let parts = (0..nesting.parts()).map(|number| nesting.part(number));
        let counts: Vec<usize> =
            parts.map(|part| part_bytes(nesting, part, &blocks) / operator.element_bytes.max(1)).collect();
        let between = crate::reduce_scatter(&here.across(), &counts, operator, false);
        schedule.append_between(here.among_leaders(between), sum, mine);
    }
    let way: Scatter = choice::choose(&here.local, Asked::bytes(all / lengths.len()));
    let within = way.schedule_blocks(&here.local, here.leader(), Blocks::Listed(&lengths), false);
    schedule.append_between(here.within(within), mine, Span::output(0));
    Some(schedule)
}

/// Each rank of a part sums the part's vectors for the ranks that have its number in their parts, and all of them at once sum
/// and scatter these between the parts. What larger parts have more is dealt to the same ranks in turn, which hand it on.
/// None where the operation cannot go by parts.
pub(crate) fn reduce_scatter_in_slices(
    shape: &Shape,
    blocks: Blocks<'_>,
    operator: Operator,
    in_place: bool,
) -> Option<Schedule> {
    let nesting = shape.nesting().filter(|_| operator.commutative)?;
    let here = Here::of_first(nesting, shape)?;
    let mut schedule = Schedule::new("reduce-scatter in slices within nodes and between them");
    let own = Span::own(blocks.run(Span::output(0), 0, shape.size()).bytes, in_place);
    let (number, lanes) = (here.number(), nesting.smallest_part());
    let of_lane = |part: u32, lane: u32| {
        let part = nesting.part(part);
        (part.first + lane..part.end).step_by(lanes as usize).map(|place| nesting.rank(place))
    };
    let count = |ranks: &mut dyn Iterator<Item = Rank>| {
        let bytes: usize = ranks.map(|rank| blocks.of(own, rank.0).bytes).sum();
        bytes / operator.element_bytes.max(1)
    };

    let by_lane = schedule.scratch(own.bytes);
    let mut end = 0;
    for rank in (0..lanes).flat_map(|lane| (0..nesting.parts()).flat_map(move |part| of_lane(part, lane))) {
        let block = blocks.of(own, rank.0);
        schedule.copy(block, by_lane.part(end, block.bytes));
        end += block.bytes;
    }
    let mut counts: Vec<usize> = (0..lanes)
        .map(|lane| count(&mut (0..nesting.parts()).flat_map(|part| of_lane(part, lane))))
        .collect();
    counts.resize(here.local.size() as usize, 0);
    let slice = schedule.scratch(counts[number as usize] * operator.element_bytes);
    let within = crate::reduce_scatter(&here.local, &counts, operator, false);
    schedule.append_between(here.within(within), by_lane, slice);

    let out = Span::output(blocks.of(own, shape.rank().0).bytes);
    if number >= lanes {
        schedule.receive(nesting.rank(here.part.first + number % lanes), out);
        return Some(schedule);
    }
    let counts: Vec<usize> = (0..nesting.parts()).map(|part| count(&mut of_lane(part, number))).collect();
    let mut sums = out;
    if here.part.size() > lanes {
        sums = schedule.scratch(counts[here.part.number as usize] * operator.element_bytes);
    }
    let way = ReduceScatter::Circulant;
    let between = way.schedule_counts(&here.across(), &counts, operator, false);
    schedule.append_between(here.among_alike(between), slice, sums);
    schedule.wait();
    schedule.copy(sums.part(0, out.bytes), out);
    let mut end = out.bytes;
    for rank in of_lane(here.part.number, number).skip(1) {
        let bytes = blocks.of(own, rank.0).bytes;
        schedule.send(rank, sums.part(end, bytes));
        end += bytes;
    }
    Some(schedule)
}

/// The ranks of a part share out the other parts among them: each gets what the ranks of its part have for those that it serves,
/// exchanges one message with each of these, and deals out what came. None where it is not known who sits where.
pub(crate) fn alltoall(shape: &Shape, bytes: usize, in_place: bool) -> Option<Schedule> {
    let nesting = shape.nesting()?;
    let here = Here::of_first(nesting, shape)?;
    let mut schedule = Schedule::new("alltoall within nodes, between them and within them");
    let blocks = Blocks::Equal { bytes };
    let all = bytes * shape.size() as usize;
    let given = by_place(&mut schedule, nesting, Span::own(all, in_place), &blocks);
    let got = if nesting.is_straight() { Span::output(all) } else { schedule.scratch(all) };

    let together = here.local.size();
    let served = Served::by(nesting, here.part, here.number());
    let row = blocks.run(Span::output(0), served.first, served.end).bytes;
    let (rows, columns) =
        (schedule.scratch(row * together as usize), schedule.scratch(row * together as usize));
    // What each rank of the part serves stands side by side; so does what comes of each to this rank.
    let runs: Vec<Block> = (0..together)
        .map(|number| {
            let served = Served::by(nesting, here.part, number);
            let run = blocks.run(Span::output(0), served.first, served.end);
            Block { offset: run.offset, bytes: run.bytes }
        })
        .collect();
    let side_by_side = packed((0..together).map(|_| row));
    let within = alltoallv(&here.local, &runs, &side_by_side, false);
    schedule.append_between(here.within(within), given, rows);
    schedule.wait();
    exchange(&mut schedule, &here, &served, blocks, rows, columns);
    // Rows are by who has sent them now, and what each gets must stand side by side.
    for (local, row) in (0..together).flat_map(|local| (0..served.ranks()).map(move |row| (local, row))) {
        let from = blocks.of(rows, row * together + local);
        schedule.copy(from, blocks.of(columns, local * served.ranks() + row));
    }
    let within = alltoallv(&here.local, &side_by_side, &runs, false);
    schedule.append_between(here.within(within), columns, got);
    if !nesting.is_straight() {
        schedule.wait();
        for place in 0..shape.size() {
            let into = blocks.of(Span::output(all), nesting.rank(place).0);
            schedule.copy(blocks.of(got, place), into);
        }
    }
    Some(schedule)
}

/// Sends each served part what stands in `rows`, a row of each rank of this part, and leaves there a row of each rank of those
/// parts, with a block for each rank of this one. `columns` is room.
fn exchange(
    schedule: &mut Schedule,
    here: &Here<'_>,
    served: &Served,
    blocks: Blocks<'_>,
    rows: Span,
    columns: Span,
) {
    let (nesting, together) = (here.nesting, here.local.size());
    let message = |part: Group| {
        let first = (part.first - served.first) * together;
        (first, first + part.size() * together)
    };
    for part in served.parts.clone().map(|number| nesting.part(number)) {
        for local in 0..together {
            let place = local * served.ranks() + part.first - served.first;
            let into = message(part).0 + local * part.size();
            let row = blocks.run(rows, place, place + part.size());
            schedule.copy(row, blocks.run(columns, into, into + part.size()));
        }
    }
    // In round k those parts meet whose sum is k modulo the rounds, so that all meet in one order.
    let rounds = nesting.parts().div_ceil(nesting.smallest_part());
    let mut order: Vec<u32> = served.parts.clone().collect();
    order.sort_by_key(|&other| (other + here.part.number) % rounds);
    let mut begun = 0;
    for number in order {
        let part = nesting.part(number);
        let (first, end) = message(part);
        let (from, into) = (blocks.run(columns, first, end), blocks.run(rows, first, end));
        if number == here.part.number {
            schedule.copy(from, into);
            continue;
        }
        let partner = nesting.rank(who_serves(nesting, part, here.part.number));
        schedule.send(partner, from);
        schedule.receive(partner, into);
        begun += 1;
        if begun % PAIRS_AT_ONCE == 0 {
            schedule.wait();
        }
    }
    schedule.wait();
}

/// The parts that one rank of a part serves, and the places of their ranks.
struct Served {
    parts: Range<u32>,
    first: u32,
    end: u32,
}

impl Served {
    /// By the rank of that number in a part. All parts are served, each by one of its ranks; the first one serves the part itself,
    /// among others, so that not all turn to the same parts at a time.
    fn by(nesting: &Nesting, part: Group, number: u32) -> Served {
        let number = around(number, serving(nesting, part, part.number), part.size());
        let bound =
            |number: u32| (u64::from(number) * u64::from(nesting.parts()) / u64::from(part.size())) as u32;
        let parts = bound(number)..bound(number + 1);
        if parts.is_empty() {
            return Served { parts, first: 0, end: 0 };
        }
        let (first, end) = (nesting.part(parts.start).first, nesting.part(parts.end - 1).end);
        Served { parts, first, end }
    }

    fn ranks(&self) -> u32 {
        self.end - self.first
    }
}

/// The place of the rank of a part that serves the part of that number.
fn who_serves(nesting: &Nesting, part: Group, served: u32) -> u32 {
    let first = serving(nesting, part, part.number);
    part.first + back(serving(nesting, part, served), first, part.size())
}

/// All parts are cut into as many runs as a part has ranks: the number of the run that a part is in.
fn serving(nesting: &Nesting, part: Group, served: u32) -> u32 {
    (((u64::from(served) + 1) * u64::from(part.size()) - 1) / u64::from(nesting.parts())) as u32
}

/// The ranks of a part, in the order of their places.
fn members(nesting: &Nesting, part: Group) -> impl Iterator<Item = Rank> {
    (part.first..part.end).map(|place| nesting.rank(place))
}

fn part_bytes(nesting: &Nesting, part: Group, blocks: &Blocks<'_>) -> usize {
    if nesting.is_straight() {
        return blocks.run(Span::output(0), part.first, part.end).bytes;
    }
    members(nesting, part).map(|rank| blocks.of(Span::output(0), rank.0).bytes).sum()
}

/// The blocks of all ranks in the order of their places: where they stand, or copied so.
fn by_place(schedule: &mut Schedule, nesting: &Nesting, data: Span, blocks: &Blocks<'_>) -> Span {
    if nesting.is_straight() {
        return data;
    }
    let room = schedule.scratch(data.bytes);
    let mut end = 0;
    for place in 0..nesting.size() {
        let block = blocks.of(data, nesting.rank(place).0);
        schedule.copy(block, room.part(end, block.bytes));
        end += block.bytes;
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Border;
    use crate::nesting::Run;

    #[test]
    fn each_part_is_served_by_one_rank() {
        for (parts, together) in (1..12).flat_map(|parts| (1..12).map(move |together| (parts, together))) {
            let runs = vec![Run { groups: parts, size: together }];
            let nesting = Nesting::new(&[], &[(Border::Node, runs)]).expect("equal nodes");
            for (number, served) in (0..parts).flat_map(|one| (0..parts).map(move |other| (one, other))) {
                let part = nesting.part(number);
                let serves = |local: &u32| Served::by(&nesting, part, *local).parts.contains(&served);
                let who: Vec<u32> = (0..together).filter(serves).map(|local| part.first + local).collect();
                assert_eq!(who, [who_serves(&nesting, part, served)]);
            }
        }
    }
}
