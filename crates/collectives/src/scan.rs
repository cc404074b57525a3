//! Scan and exscan (MPI 5.0 §6.11).

use messaging::Rank;

use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape, distances};

/// Rank i's output is the reduction of the `count` elements of ranks 0 to i.
#[must_use]
pub fn scan(shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("scan by doubling");
    let own = Span::own(count * operator.element_bytes, in_place);
    let sum = Span::output(own.bytes);
    schedule.copy(own, sum);
    add_all_lower(&mut schedule, shape.rank(), Rank(0), shape.size(), sum);
    schedule
}

/// Rank i's output is the reduction of the `count` elements of ranks 0 to i - 1; rank 0's stays as it is.
///
/// Everybody hands its contribution on to the next rank; what is left is a scan without rank 0.
#[must_use]
pub fn exscan(shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("exscan by doubling");
    let here = shape.rank();
    let own = Span::own(count * operator.element_bytes, in_place);
    let sum = Span::output(own.bytes);
    if here.0 + 1 < shape.size() {
        schedule.send(Rank(here.0 + 1), own);
    }
    if here.0 == 0 {
        return schedule;
    }
    let landing = if in_place { schedule.scratch(own.bytes) } else { sum };
    schedule.receive(Rank(here.0 - 1), landing);
    schedule.wait();
    schedule.copy(landing, sum);
    add_all_lower(&mut schedule, here, Rank(1), shape.size() - 1, sum);
    schedule
}

/// Among the `count` ranks from `first` on: before the round of distance d, the sum stands for this rank and
/// the d - 1 before it, and the rank d places back has just what comes before that. Keeps the order of
/// operands.
fn add_all_lower(schedule: &mut Schedule, here: Rank, first: Rank, count: u32, sum: Span) {
    let place = here.0 - first.0;
    let mut room = None;
    for distance in distances(count) {
        if place + distance < count {
            schedule.send(Rank(here.0 + distance), sum);
        }
        if place >= distance {
            let room = *room.get_or_insert_with(|| schedule.scratch(sum.bytes));
            schedule.receive(Rank(here.0 - distance), room);
            schedule.wait();
            schedule.reduce(room, sum);
        }
    }
}

/// The order in which the contributions of the ranks up to `last` are combined where all of them are in one
/// place: as [`combining_order`](crate::combining_order) has it. It keeps the order of operands, and gives
/// the bits that rank `last` gets from [`scan`], and the rank behind it from [`exscan`].
pub fn scanning_order(last: Rank) -> impl Iterator<Item = (Rank, Rank)> {
    distances(last.0 + 1).flat_map(move |distance| {
        // Sums of so many ranks, or fewer at the front, end at the last one, at the one so far before it, and
        // so on.
        let ends = (0..=last.0 - distance).rev().step_by(2 * distance as usize);
        ends.map(move |lower| (Rank(lower), Rank(lower + distance)))
    })
}
