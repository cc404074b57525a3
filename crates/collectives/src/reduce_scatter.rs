//! Reduce-scatter (MPI 5.0 §6.10).

use messaging::Rank;

use crate::blocks::{Blocks, packed};
use crate::choice::{self, Asked};
use crate::circulant::Circulant;
use crate::folding::{Folding, Summing};
use crate::nested;
use crate::reduce::up_the_tree;
use crate::scatter;
use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape, back};

/// The ways to reduce and scatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceScatter {
    /// Everybody gets its block from everybody: p - 1 rounds, n bytes per rank; for commutative operators.
    Pairwise,
    /// Up a tree to rank 0 and down again: 2 log2 p rounds. Keeps the order of operands.
    ReduceThenScatter,
    /// Around a circulant graph: ceil(log2 p) rounds for any p, n (p - 1) / p bytes per rank, which is the
    /// least that can; for commutative operators.
    Circulant,
    /// To one rank of each node, between these, and within the nodes again: n (N - 1) / N bytes leave each of
    /// N nodes. Up the tree and down where it is not known who sits where, and where that would change the
    /// order of operands that do not commute.
    ByNode,
    /// Each rank of a node sums there what is for the ranks of its number in all nodes, and all of them at
    /// once do the same between the nodes: as few bytes leave them, spread over all ranks; for commutative
    /// operators, and up the tree and down where it is not known who sits where.
    ByNodeInSlices,
}

/// The reduction of block i, `count` elements, of everybody's input stands in rank i's output. In place, all
/// blocks stand in the output before, and the result at its beginning after; what is behind it stays.
#[must_use]
pub fn reduce_scatter_block(shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
    let algorithm: ReduceScatter = choice::choose(shape, Asked::elements(count, operator));
    algorithm.schedule(shape, count, operator, in_place)
}

/// The reduction of block i of everybody's input stands in rank i's output; the blocks may differ in length
/// (MPI 5.0 §6.10). `counts` has the number of elements of every rank's block. In place, all blocks stand in
/// the output before, and the result at its beginning after; what is behind it stays.
#[must_use]
pub fn reduce_scatter(shape: &Shape, counts: &[usize], operator: Operator, in_place: bool) -> Schedule {
    let mean_count = counts.iter().sum::<usize>() / counts.len().max(1);
    let algorithm: ReduceScatter = choice::choose(shape, Asked::elements(mean_count, operator));
    algorithm.schedule_counts(shape, counts, operator, in_place)
}

impl ReduceScatter {
    /// [`reduce_scatter_block`] in this way, or up the tree and down where this one cannot.
    #[must_use]
    pub fn schedule(self, shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
        let blocks = Blocks::Equal { bytes: count * operator.element_bytes };
        self.schedule_blocks(shape, blocks, operator, in_place)
    }

    /// [`reduce_scatter`] in this way, or up the tree and down where this one cannot.
    #[must_use]
    pub fn schedule_counts(
        self,
        shape: &Shape,
        counts: &[usize],
        operator: Operator,
        in_place: bool,
    ) -> Schedule {
        let listed = packed(counts.iter().map(|count| count * operator.element_bytes));
        self.schedule_blocks(shape, Blocks::Listed(&listed), operator, in_place)
    }

    fn schedule_blocks(
        self,
        shape: &Shape,
        blocks: Blocks<'_>,
        operator: Operator,
        in_place: bool,
    ) -> Schedule {
        let own = Span::own(blocks.run(Span::output(0), 0, shape.size()).bytes, in_place);
        let by_parts = match self {
            ReduceScatter::Pairwise if operator.commutative => return pairwise(shape, own, blocks),
            ReduceScatter::Circulant if operator.commutative => return circulant(shape, own, blocks),
            ReduceScatter::ByNode => nested::reduce_scatter(shape, blocks, operator, in_place),
            ReduceScatter::ByNodeInSlices => {
                nested::reduce_scatter_in_slices(shape, blocks, operator, in_place)
            }
            _ => None,
        };
        by_parts.unwrap_or_else(|| reduce_then_scatter(shape, own, blocks, operator.commutative))
    }
}

/// In round k everybody sends to the rank k places ahead the block that belongs there.
fn pairwise(shape: &Shape, own: Span, blocks: Blocks<'_>) -> Schedule {
    let mut schedule = Schedule::new("reduce-scatter by pairs");
    let mine = blocks.of(own, shape.rank().0);
    let out = Span::output(mine.bytes);
    // In place, what stands behind the result stays as it is: programs count on it, though the standard does
    // not say so.
    let in_place = own.buffer == out.buffer && shape.size() > 1;
    let sum = if in_place { schedule.scratch(mine.bytes) } else { out };
    let mut summing = Summing::new(mine, sum);
    for distance in 1..shape.size() {
        let (to, from) = (shape.ahead(distance), shape.behind(distance));
        summing.exchange(&mut schedule, (to, blocks.of(own, to.0)), (from, sum));
        summing.own = sum;
    }
    if in_place {
        schedule.wait();
    }
    schedule.copy(summing.own, out);
    schedule
}

/// Sums are made in scratch, all but the rank's own: in place, what stands behind the result stays as it is.
fn circulant(shape: &Shape, own: Span, blocks: Blocks<'_>) -> Schedule {
    let mut schedule = Schedule::new("reduce-scatter round a circulant graph");
    let here = shape.rank().0;
    let sums = if shape.size() == 1 { own } else { schedule.scratch(own.bytes) };
    Circulant { shape, blocks }.sum(&mut schedule, own, sums);
    let sum = blocks.of(sums, here);
    schedule.copy(sum, Span::output(sum.bytes));
    schedule
}

fn reduce_then_scatter(shape: &Shape, own: Span, blocks: Blocks<'_>, commutative: bool) -> Schedule {
    let mut schedule = Schedule::new("reduce-scatter by reduce and scatter");
    let folding = Folding::keeping(own, commutative);
    let result = up_the_tree(&mut schedule, shape, Rank(0), folding);
    schedule.wait();
    let out = Span::output(blocks.of(own, shape.rank().0).bytes);
    scatter::binomial(&mut schedule, shape, Rank(0), blocks, result, Some(out));
    schedule
}

/// Each slice goes once round the ring and grows on its way, until it is whole at the rank of its number.
pub(crate) fn ring_of_slices(
    schedule: &mut Schedule,
    shape: &Shape,
    summing: &mut Summing,
    slices: Blocks<'_>,
) {
    let (here, size) = (shape.rank().0, shape.size());
    for round in 1..size {
        let given = slices.of(summing.out, back(here, round, size));
        let given = if round == 1 { summing.own_part(given) } else { given };
        let grown = slices.of(summing.out, back(here, round + 1, size));
        summing.exchange(schedule, (shape.ahead(1), given), (shape.behind(1), grown));
    }
    if size == 1 {
        schedule.copy(summing.own, summing.out);
    }
}
