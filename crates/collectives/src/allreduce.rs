//! Allreduce (MPI 5.0 §6.9.6).

use messaging::Rank;

use crate::allgather::{Ring, ring};
use crate::blocks::Blocks;
use crate::choice::{self, Asked};
use crate::circulant::Circulant;
use crate::combining;
use crate::folding::{Folding, Summing};
use crate::nested;
use crate::reduce_scatter::ring_of_slices;
use crate::schedule::{Schedule, Span};
use crate::shape::{Core, Operator, Part, Shape, distances};

/// The ways to reduce everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allreduce {
    /// Pairs exchange and reduce all they have: log2 p rounds of all bytes, two more where p is no power of
    /// two. Keeps the order of operands.
    RecursiveDoubling,
    /// Rabenseifner's: pairs exchange halves of halves, then the same backwards: 2 log2 p rounds, 2 n bytes
    /// per rank, and 2 n more for some where p is no power of two; for commutative operators.
    Rabenseifner,
    /// Slices go round the ring twice: 2 (p - 1) rounds, 2 n (p - 1) / p bytes per rank for any p; for
    /// commutative operators.
    Ring,
    /// Each rank sends its vector to all others: one round of p - 1 times all bytes. Keeps the order of
    /// operands, and gives the same bits as recursive doubling.
    EachToAll,
    /// Rank 0 gathers all vectors, combines them and broadcasts the result: two rounds, 2 (p - 1) messages.
    /// Keeps the order of operands, and gives the same bits as recursive doubling.
    GatherBroadcast,
    /// Sums and gathers slices round a circulant graph: 2 ceil(log2 p) rounds, 2 n (p - 1) / p bytes per
    /// rank, both for any p; for commutative operators.
    Circulant,
    /// Within the nodes, between one rank of each, and within them again. As without nodes where it is not
    /// known who sits where, and where that would change the order of operands that do not commute.
    ByNode,
    /// Each rank of a node sums a slice of the node's vectors, all of them at once sum theirs between the
    /// nodes, and give them to the node: 2 n (N - 1) / N bytes leave each of N nodes, spread over all its
    /// ranks; for commutative operators, and as without nodes where it is not known who sits where.
    ByNodeInSlices,
    /// The number of vectors that a rank has doubles in each round, and each rank combines all of them:
    /// ceil(log2 p) rounds for any p, p - 1 times all bytes. Keeps the order of operands, and gives the same
    /// bits as recursive doubling.
    Gathering,
}

/// The reduction of everybody's `count` elements stands in everybody's output, the same bits everywhere.
#[must_use]
pub fn allreduce(shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
    let way: Allreduce = choice::choose(shape, Asked::elements(count, operator));
    way.schedule(shape, count, operator, in_place)
}

impl Allreduce {
    /// [`allreduce`] in this way, or by recursive doubling where this one cannot.
    #[must_use]
    pub fn schedule(self, shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
        let Operator { element_bytes, commutative } = operator;
        let own = Span::own(count * element_bytes, in_place);
        let slices = |parts| Blocks::Slices { count, element_bytes, parts };
        match self {
            Allreduce::Rabenseifner if commutative => {
                let core = Core::new(shape.size());
                rabenseifner(shape, own, core, slices(core.size))
            }
            Allreduce::Ring if commutative => by_ring(shape, own, slices(shape.size())),
            Allreduce::Circulant if commutative => circulant(shape, own, slices(shape.size())),
            Allreduce::ByNode => nested::allreduce(shape, count, operator, in_place),
            Allreduce::ByNodeInSlices if commutative => {
                nested::allreduce_in_slices(shape, count, operator, in_place)
            }
            Allreduce::EachToAll => combining::allreduce_each_to_all(shape, own),
            Allreduce::GatherBroadcast => combining::allreduce_by_gather_broadcast(shape, own),
            Allreduce::Gathering => combining::allreduce_by_gathering(shape, own),
            _ => recursive_doubling(shape, own),
        }
    }
}

/// The order of operands is kept for every operator: then both of a pair compute the same bits even where a
/// op b and b op a differ in some, as the larger of +0 and -0 may.
fn recursive_doubling(shape: &Shape, own: Span) -> Schedule {
    let mut schedule = Schedule::new("allreduce by recursive doubling");
    let core = Core::new(shape.size());
    let out = Span::output(own.bytes);
    let (number, extra) = match core.part(shape.rank()) {
        Part::Extra(partner) => return be_an_extra_rank(schedule, partner, own),
        Part::Member(number, extra) => (number, extra),
    };
    let mut folding = Folding::new(own, (own != out).then_some(out), false);
    if let Some(extra) = extra {
        folding.receive_lower(&mut schedule, extra);
    }
    for distance in distances(core.size) {
        folding.exchange(&mut schedule, shape.rank(), core.rank(number ^ distance));
    }
    if let Some(extra) = extra {
        schedule.send(extra, folding.at);
    }
    folding.finish(&mut schedule, out);
    schedule
}

fn be_an_extra_rank(mut schedule: Schedule, partner: Rank, own: Span) -> Schedule {
    schedule.send(partner, own);
    schedule.wait();
    schedule.receive(partner, Span::output(own.bytes));
    schedule
}

fn rabenseifner(shape: &Shape, own: Span, core: Core, slices: Blocks<'_>) -> Schedule {
    let mut schedule = Schedule::new("allreduce by Rabenseifner's algorithm");
    let out = Span::output(own.bytes);
    let (number, extra) = match core.part(shape.rank()) {
        Part::Extra(partner) => return be_an_extra_rank(schedule, partner, own),
        Part::Member(number, extra) => (number, extra),
    };
    let mut summing = Summing::new(own, out);
    if let Some(extra) = extra {
        summing.exchange(&mut schedule, (extra, out.part(0, 0)), (extra, out));
        summing.own = out;
    }
    halve(&mut schedule, core, number, &mut summing, slices);
    // What was given is gotten back as sums.
    schedule.wait();
    double(&mut schedule, core, number, summing.out, slices);
    if let Some(extra) = extra {
        schedule.send(extra, out);
    }
    if core.size == 1 {
        schedule.copy(summing.own, out);
    }
    schedule
}

/// Of the run of slices that a member shares with its partner each keeps one half and adds the partner's to
/// it, until it has its own slice alone.
fn halve(schedule: &mut Schedule, core: Core, number: u32, summing: &mut Summing, slices: Blocks<'_>) {
    for distance in distances(core.size).rev() {
        let partner = number ^ distance;
        let kept = aligned(slices, summing.out, number, distance);
        let given = summing.own_part(aligned(slices, summing.out, partner, distance));
        let rank = core.rank(partner);
        summing.exchange(schedule, (rank, given), (rank, kept));
        // What is left stands where the results go.
        summing.own = summing.out;
    }
}

/// The allgather behind `halve`: in each round a member and its partner exchange the slices that they have,
/// so that all slices stand in `out` in the end.
fn double(schedule: &mut Schedule, core: Core, number: u32, out: Span, slices: Blocks<'_>) {
    for distance in distances(core.size) {
        let partner = number ^ distance;
        let rank = core.rank(partner);
        schedule.send(rank, aligned(slices, out, number, distance));
        schedule.receive(rank, aligned(slices, out, partner, distance));
        schedule.wait();
    }
}

/// The run of `count` slices, a power of two, that `number` is in.
fn aligned(slices: Blocks<'_>, data: Span, number: u32, count: u32) -> Span {
    let first = number & !(count - 1);
    slices.run(data, first, first + count)
}

fn by_ring(shape: &Shape, own: Span, slices: Blocks<'_>) -> Schedule {
    let mut schedule = Schedule::new("allreduce by ring");
    let out = Span::output(own.bytes);
    ring_of_slices(&mut schedule, shape, &mut Summing::new(own, out), slices);
    schedule.wait();
    let place = Ring { first: shape.rank().0, blocks: slices, data: out, own: None };
    ring(&mut schedule, shape, &place, |_, _| false);
    schedule
}

fn circulant(shape: &Shape, own: Span, slices: Blocks<'_>) -> Schedule {
    let mut schedule = Schedule::new("allreduce in slices round a circulant graph");
    let out = Span::output(own.bytes);
    let circulant = Circulant { shape, blocks: slices };
    circulant.sum(&mut schedule, own, out);
    circulant.gather(&mut schedule, out);
    schedule
}
