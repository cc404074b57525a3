//! Operations in which each rank has a block for every other, by parts: reduce-scatter and alltoall.
//!
//! Blocks for the ranks of a part do not stand side by side where they must travel together, so some are
//! copied first. Where that costs more than it gains, the formulas know it.

use std::ops::Range;

use messaging::Rank;

use super::{Here, for_operator, to_leader};
use crate::alltoall::{PAIRS_AT_ONCE, alltoallv};
use crate::blocks::{Block, Blocks, packed};
use crate::choice::{self, Asked};
use crate::hierarchy::{Group, Hierarchy};
use crate::reduce_scatter::ReduceScatter;
use crate::scatter::Scatter;
use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape, around, back};

/// To the leader of each part, between the leaders, and from each to the ranks of its part. None where the
/// operation cannot go by parts.
pub(crate) fn reduce_scatter(
    shape: &Shape,
    blocks: Blocks<'_>,
    operator: Operator,
    in_place: bool,
) -> Option<Schedule> {
    let hierarchy = for_operator(shape, operator)?;
    let here = Here::of_first(hierarchy, shape)?;
    let mut schedule = Schedule::new("reduce-scatter within nodes, between them and within them");
    let own = Span::own(blocks.run(Span::output(0), 0, shape.size()).bytes, in_place);
    let count = own.bytes / operator.element_bytes.max(1);
    let room = (here.leads() && here.local.size() > 1).then(|| schedule.scratch(own.bytes));
    let sum = to_leader(&mut schedule, &here, count, operator, own, room);

    let lengths = packed(members(hierarchy, here.part).map(|rank| blocks.of(own, rank.0).bytes));
    let all = lengths.iter().map(|block| block.bytes).sum::<usize>();
    let mine = schedule.scratch(if here.leads() { all } else { 0 });
    if here.leads() {
        schedule.wait();
        let sum = by_place(&mut schedule, hierarchy, sum, &blocks);
        let parts = (0..hierarchy.parts()).map(|number| hierarchy.part(number));
        let counts: Vec<usize> =
            parts.map(|part| part_bytes(hierarchy, part, &blocks) / operator.element_bytes.max(1)).collect();
        let between = crate::reduce_scatter(&here.across(), &counts, operator, false);
        schedule.append_between(here.among_leaders(between), sum, mine);
    }
    let way: Scatter = choice::choose(&here.local, Asked::bytes(all / lengths.len()));
    let within = way.schedule_blocks(&here.local, here.leader(), Blocks::Listed(&lengths), false);
    schedule.append_between(here.within(within), mine, Span::output(0));
    Some(schedule)
}

/// Each rank of a part sums the part's vectors for the ranks that have its number in their parts, and all of
/// them at once sum and scatter these between the parts. What larger parts have more is dealt to the same
/// ranks in turn, which hand it on. None where the operation cannot go by parts.
pub(crate) fn reduce_scatter_in_slices(
    shape: &Shape,
    blocks: Blocks<'_>,
    operator: Operator,
    in_place: bool,
) -> Option<Schedule> {
    let hierarchy = shape.hierarchy().filter(|_| operator.commutative)?;
    let here = Here::of_first(hierarchy, shape)?;
    let mut schedule = Schedule::new("reduce-scatter in slices within nodes and between them");
    let own = Span::own(blocks.run(Span::output(0), 0, shape.size()).bytes, in_place);
    let (number, lanes) = (here.number(), hierarchy.smallest_part());
    let of_lane = |part: u32, lane: u32| {
        let part = hierarchy.part(part);
        (part.first + lane..part.end).step_by(lanes as usize).map(|place| hierarchy.rank(place))
    };
    let count = |ranks: &mut dyn Iterator<Item = Rank>| {
        let bytes: usize = ranks.map(|rank| blocks.of(own, rank.0).bytes).sum();
        bytes / operator.element_bytes.max(1)
    };

    let lane_by_lane =
        (0..lanes).flat_map(|lane| (0..hierarchy.parts()).flat_map(move |part| of_lane(part, lane)));
    let by_lane = side_by_side(&mut schedule, lane_by_lane, own, &blocks);
    let mut counts: Vec<usize> = (0..lanes)
        .map(|lane| count(&mut (0..hierarchy.parts()).flat_map(|part| of_lane(part, lane))))
        .collect();
    counts.resize(here.local.size() as usize, 0);
    let slice = schedule.scratch(counts[number as usize] * operator.element_bytes);
    let within = crate::reduce_scatter(&here.local, &counts, operator, false);
    schedule.append_between(here.within(within), by_lane, slice);

    let out = Span::output(blocks.of(own, shape.rank().0).bytes);
    if number >= lanes {
        schedule.receive(hierarchy.rank(here.part.first + number % lanes), out);
        return Some(schedule);
    }
    let counts: Vec<usize> = (0..hierarchy.parts()).map(|part| count(&mut of_lane(part, number))).collect();
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

/// The ranks of a part share out the other parts among them: each gets what the ranks of its part have for
/// those that it serves, exchanges a message with each of these, and deals out what came. None where it is
/// not known who sits where.
pub(crate) fn alltoall(shape: &Shape, bytes: usize, in_place: bool) -> Option<Schedule> {
    let hierarchy = shape.hierarchy()?;
    let here = Here::of_first(hierarchy, shape)?;
    let mut schedule = Schedule::new("alltoall within nodes, between them and within them");
    let blocks = Blocks::Equal { bytes };
    let all = bytes * shape.size() as usize;
    let given = by_place(&mut schedule, hierarchy, Span::own(all, in_place), &blocks);
    let got = if hierarchy.is_straight() { Span::output(all) } else { schedule.scratch(all) };

    let (together, services) = (here.local.size(), Services::of_parts(hierarchy));
    let served = services.of(here.part, here.number());
    // What comes is for these ranks here, from all ranks of the served parts.
    let mine = services.slice(here.part, served.slice);
    let most = (together * served.given.size()).max(mine.size() * served.sources.size());
    let rooms = [0; 2].map(|_| schedule.scratch(bytes * most as usize));
    let of_run = |run: Group| {
        let Span { offset, bytes, .. } = blocks.run(Span::output(0), run.first, run.end);
        Block { offset, bytes }
    };
    let all_served: Vec<Served> = (0..together).map(|number| services.of(here.part, number)).collect();

    let sends: Vec<Block> = all_served.iter().map(|served| of_run(served.given)).collect();
    let rows = packed((0..together).map(|_| of_run(served.given).bytes));
    let within = alltoallv(&here.local, &sends, &rows, false);
    schedule.append_between(here.within(within), given, rooms[0]);
    schedule.wait();
    exchange(&mut schedule, &here, &services, &served, blocks, rooms);
    // A row is from one rank now, and what each rank gets must stand side by side.
    let (columns, height) = (mine.size(), served.sources.size());
    for (column, row) in (0..columns).flat_map(|column| (0..height).map(move |row| (column, row))) {
        let from = blocks.of(rooms[0], row * columns + column);
        schedule.copy(from, blocks.of(rooms[1], column * height + row));
    }
    let place = here.part.first + here.number();
    let gets = |served: &Served| {
        let is_for_here = services.slice(here.part, served.slice).holds(place);
        if is_for_here { of_run(served.sources) } else { Block::NOTHING }
    };
    let receives: Vec<Block> = all_served.iter().map(gets).collect();
    let sent = |place: u32| if mine.holds(place) { of_run(served.sources).bytes } else { 0 };
    let sends = packed((here.part.first..here.part.end).map(sent));
    let within = alltoallv(&here.local, &sends, &receives, false);
    schedule.append_between(here.within(within), rooms[1], got);
    if !hierarchy.is_straight() {
        schedule.wait();
        for place in 0..shape.size() {
            let into = blocks.of(Span::output(all), hierarchy.rank(place).0);
            schedule.copy(blocks.of(got, place), into);
        }
    }
    Some(schedule)
}

/// Sends each served part what stands in the first room, a row of each rank of this part, and leaves there a
/// row of each rank of those parts. The second room is for what is sent.
fn exchange(
    schedule: &mut Schedule,
    here: &Here<'_>,
    services: &Services<'_>,
    served: &Served,
    blocks: Blocks<'_>,
    [rows, sorted]: [Span; 2],
) {
    let (hierarchy, together) = (here.hierarchy, here.local.size());
    let columns = services.slice(here.part, served.slice).size();
    let message = |number: u32| {
        let to = services.slice(hierarchy.part(number), served.slice);
        let first = (to.first - served.given.first) * together;
        (to, first)
    };
    for number in served.parts.clone() {
        let (to, first) = message(number);
        for local in 0..together {
            let place = local * served.given.size() + to.first - served.given.first;
            let into = first + local * to.size();
            let row = blocks.run(rows, place, place + to.size());
            schedule.copy(row, blocks.run(sorted, into, into + to.size()));
        }
    }
    // In round k those parts meet whose sum is k modulo the rounds, so that all meet in one order.
    let rounds = hierarchy.parts().div_ceil(hierarchy.smallest_part());
    let mut order: Vec<u32> = served.parts.clone().collect();
    order.sort_by_key(|&other| (other + here.part.number) % rounds);
    let mut begun = 0;
    for number in order {
        let ((to, first), part) = (message(number), hierarchy.part(number));
        let from = blocks.run(sorted, first, first + to.size() * together);
        let row = (part.first - served.sources.first) * columns;
        let into = blocks.run(rows, row, row + part.size() * columns);
        if number == here.part.number {
            schedule.copy(from, into);
            continue;
        }
        let partner = hierarchy.rank(services.who(part, here.part.number, served.slice));
        schedule.send(partner, from);
        schedule.receive(partner, into);
        begun += 1;
        if begun % PAIRS_AT_ONCE == 0 {
            schedule.wait();
        }
    }
    schedule.wait();
}

/// Who serves whom in an alltoall. Where parts have several times as many ranks as there are parts, each is
/// cut into so many slices, so that there is something to serve for nearly all ranks; a rank serves one slice
/// of one part then. Else it serves whole parts.
struct Services<'a> {
    hierarchy: &'a Hierarchy,
    /// How many slices each part has.
    slices: u32,
}

/// What one rank of a part serves.
struct Served {
    parts: Range<u32>,
    /// Which slice of each of them, and of its own part.
    slice: u32,
    /// The places of the ranks of these slices, to whom it passes on what its part has for them.
    given: Group,
    /// The places of all ranks of these parts, of whom it gets what they have for the slice of its own part.
    sources: Group,
}

impl<'a> Services<'a> {
    fn of_parts(hierarchy: &'a Hierarchy) -> Services<'a> {
        Services { hierarchy, slices: (hierarchy.smallest_part() / hierarchy.parts()).max(1) }
    }

    /// The places of one slice of a part.
    fn slice(&self, part: Group, number: u32) -> Group {
        let bound = |number: u32| {
            let ranks = u64::from(number) * u64::from(part.size()) / u64::from(self.slices);
            part.first + ranks as u32
        };
        Group { number, first: bound(number), end: bound(number + 1) }
    }

    /// All slices of all parts are cut into as many runs as a part has ranks, and each rank serves one; the
    /// first one the run that the part itself is in, so that not all turn to the same parts at a time.
    fn of(&self, part: Group, number: u32) -> Served {
        let (slices, all) = (self.slices, u64::from(self.hierarchy.parts() * self.slices));
        let number = around(number, self.run_of(part, part.number, 0), part.size());
        let bound = |number: u32| (u64::from(number) * all / u64::from(part.size())) as u32;
        let (first, end) = (bound(number), bound(number + 1));
        let nobody = Group { number, first: 0, end: 0 };
        if first == end {
            return Served { parts: 0..0, slice: 0, given: nobody, sources: nobody };
        }
        let (parts, slice) = (first / slices..(end - 1) / slices + 1, first % slices);
        let [from, to] = [parts.start, parts.end - 1].map(|number| self.hierarchy.part(number));
        let over = |first: u32, end: u32| Group { number, first, end };
        let given = over(self.slice(from, slice).first, self.slice(to, slice).end);
        Served { parts, slice, given, sources: over(from.first, to.end) }
    }

    /// The place of the rank of a part that serves that slice of the part of that number.
    fn who(&self, part: Group, served: u32, slice: u32) -> u32 {
        let first = self.run_of(part, part.number, 0);
        part.first + back(self.run_of(part, served, slice), first, part.size())
    }

    /// The number of the run that a slice is in, as a part cuts them.
    fn run_of(&self, part: Group, served: u32, slice: u32) -> u32 {
        let all = u64::from(self.hierarchy.parts() * self.slices);
        let place = u64::from(served * self.slices + slice);
        (((place + 1) * u64::from(part.size()) - 1) / all) as u32
    }
}

/// The ranks of a part, in the order of their places.
fn members(hierarchy: &Hierarchy, part: Group) -> impl Iterator<Item = Rank> {
    (part.first..part.end).map(|place| hierarchy.rank(place))
}

fn part_bytes(hierarchy: &Hierarchy, part: Group, blocks: &Blocks<'_>) -> usize {
    if hierarchy.is_straight() {
        return blocks.run(Span::output(0), part.first, part.end).bytes;
    }
    members(hierarchy, part).map(|rank| blocks.of(Span::output(0), rank.0).bytes).sum()
}

/// The blocks of all ranks in the order of their places: where they stand, or copied so.
fn by_place(schedule: &mut Schedule, hierarchy: &Hierarchy, data: Span, blocks: &Blocks<'_>) -> Span {
    if hierarchy.is_straight() {
        return data;
    }
    side_by_side(schedule, (0..hierarchy.size()).map(|place| hierarchy.rank(place)), data, blocks)
}

/// The blocks of all ranks copied one behind the other, in that order.
fn side_by_side(
    schedule: &mut Schedule,
    ranks: impl Iterator<Item = Rank>,
    data: Span,
    blocks: &Blocks<'_>,
) -> Span {
    let room = schedule.scratch(data.bytes);
    let mut end = 0;
    for rank in ranks {
        let block = blocks.of(data, rank.0);
        schedule.copy(block, room.part(end, block.bytes));
        end += block.bytes;
    }
    room
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::costs::HierarchyLevel;
    use crate::hierarchy::Run;

    #[test]
    fn each_slice_of_each_part_is_served_by_one_rank() {
        for (parts, together) in (1..12).flat_map(|parts| (1..30).map(move |together| (parts, together))) {
            each_is_served_once(&vec![together; parts]);
        }
        for sizes in [vec![64, 1], vec![1, 64], vec![16, 16, 16, 2], vec![1, 1, 1, 1, 1, 1, 1, 32]] {
            each_is_served_once(&sizes);
        }
    }

    proptest! {
        #[test]
        fn so_it_is_where_parts_differ_in_size(sizes in vec(1..40u32, 1..12)) {
            each_is_served_once(&sizes);
        }
    }

    fn each_is_served_once(sizes: &[u32]) {
        let runs = sizes.iter().map(|&size| Run { groups: 1, size }).collect();
        let hierarchy = Hierarchy::new(&[], &[(HierarchyLevel::Node, runs)]).expect("nodes");
        let (services, parts) = (Services::of_parts(&hierarchy), hierarchy.parts());
        for (number, served) in (0..parts).flat_map(|one| (0..parts).map(move |other| (one, other))) {
            let part = hierarchy.part(number);
            let all: Vec<Served> = (0..part.size()).map(|local| services.of(part, local)).collect();
            for slice in 0..services.slices {
                let serves = |of: &Served| of.parts.contains(&served) && of.slice == slice;
                let who: Vec<u32> =
                    (part.first..).zip(&all).filter(|(_, of)| serves(of)).map(|(place, _)| place).collect();
                assert_eq!(who, [services.who(part, served, slice)], "{sizes:?}");
            }
        }
    }
}
