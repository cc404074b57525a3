//! Reduce (MPI 5.0 §6.9.1).

use messaging::Rank;

use crate::blocks::Blocks;
use crate::choice::{self, Asked};
use crate::circulant::Chunks;
use crate::folding::{Folding, Summing};
use crate::nested;
use crate::pipeline::{self, Move, chunks};
use crate::reduce_scatter::ring_of_slices;
use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape, around, distances, log2};
use crate::tree::Tree;

/// The ways to reduce to a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduce {
    /// Up a binomial tree: ceil(log2 p) rounds of all bytes.
    Binomial,
    /// Each rank reduces a slice, which goes round the ring, and gives it to the root: about 2 n bytes per
    /// rank, p rounds; for commutative operators.
    RingGather,
    /// In m chunks round a circulant graph: m - 1 + ceil(log2 p) rounds of a chunk for any p, n bytes per
    /// rank; for commutative operators, as are the next two.
    Circulant,
    /// In m chunks up a binary tree: about m + log2 p rounds of a chunk, in which a rank receives two.
    BinaryTree,
    /// In m chunks along a chain of all ranks: m + p - 2 rounds of a chunk.
    Chain,
    /// Within the nodes first, then between them, one rank of each: n bytes leave each node. As without nodes
    /// where it is not known who sits where, and where that would change the order of operands that do not
    /// commute.
    ByNode,
}

/// The reduction of everybody's `count` elements stands in the root's output. `in_place` concerns the root
/// alone.
#[must_use]
pub fn reduce(shape: &Shape, root: Rank, count: usize, operator: Operator, in_place: bool) -> Schedule {
    let way: Reduce = choice::choose(shape, Asked::elements(count, operator));
    way.schedule(shape, root, count, operator, in_place)
}

impl Reduce {
    /// [`reduce`] in this way, or up the tree where this one cannot.
    #[must_use]
    pub fn schedule(
        self,
        shape: &Shape,
        root: Rank,
        count: usize,
        operator: Operator,
        in_place: bool,
    ) -> Schedule {
        let bytes = count * operator.element_bytes;
        let own = Span::own(bytes, in_place);
        match self {
            Reduce::RingGather if operator.commutative => {
                let slices =
                    Blocks::Slices { count, element_bytes: operator.element_bytes, parts: shape.size() };
                ring_gather(shape, root, own, slices)
            }
            Reduce::Circulant if operator.commutative => circulant(shape, root, own, operator),
            Reduce::BinaryTree if operator.commutative => binary_tree(shape, root, own, operator),
            Reduce::Chain if operator.commutative => chain(shape, root, own, operator),
            Reduce::ByNode => nested::reduce(shape, root, count, operator, in_place),
            _ => binomial(shape, root, own, operator),
        }
    }
}

/// A subtree is a run of ranks only if the tree's top is rank 0; so where the order matters, the result is
/// reduced to rank 0 and goes to the root from there.
fn binomial(shape: &Shape, root: Rank, own: Span, operator: Operator) -> Schedule {
    let mut schedule = Schedule::new("reduce by binomial tree");
    let top = if operator.commutative { root } else { Rank(0) };
    let output = Span::output(own.bytes);
    let room = (shape.rank() == root && own != output).then_some(output);
    let result = up_the_tree(&mut schedule, shape, top, Folding::new(own, room, operator.commutative));
    if shape.rank() == top && top != root {
        schedule.send(root, result);
    } else if shape.rank() == root {
        if top == root {
            schedule.copy(result, output);
        } else {
            schedule.wait();
            schedule.receive(top, output);
        }
    }
    schedule
}

/// Adds up the subtree, children with small subtrees first: these are the ranks next to ours. The answer is
/// where the result stands at the top; the others have sent it on.
pub(crate) fn up_the_tree(schedule: &mut Schedule, shape: &Shape, top: Rank, mut folding: Folding) -> Span {
    let tree = Tree::new(shape, top);
    for child in tree.children() {
        folding.receive_higher(schedule, child.rank);
    }
    if let Some(parent) = tree.parent() {
        schedule.send(parent, folding.at);
    }
    folding.at
}

/// The order in which contributions are combined where all of them are in one place, so that the bits are
/// those that the [tree](Reduce::Binomial) gives at its `top`: as [`combining_order`](crate::combining_order)
/// has it, but that the result stands for the rank before the top in the end. It keeps the order of operands
/// where that is rank 0.
pub fn reducing_order(size: u32, top: Rank) -> impl Iterator<Item = (Rank, Rank)> {
    let rank = move |place: u32| Rank(around(place, top.0, size));
    distances(size).flat_map(move |distance| {
        let firsts = (0..size - distance).step_by(2 * distance as usize);
        firsts.map(move |first| {
            let last = (first + 2 * distance).min(size) - 1;
            (rank(first + distance - 1), rank(last))
        })
    })
}

fn ring_gather(shape: &Shape, root: Rank, own: Span, slices: Blocks<'_>) -> Schedule {
    let mut schedule = Schedule::new("reduce by ring and gather");
    let is_root = shape.rank() == root;
    let out = if is_root { Span::output(own.bytes) } else { schedule.scratch(own.bytes) };
    let mut summing = Summing::new(own, out);
    ring_of_slices(&mut schedule, shape, &mut summing, slices);
    if !is_root {
        schedule.send(root, slices.of(out, shape.rank().0));
        return schedule;
    }
    schedule.wait();
    for distance in 1..shape.size() {
        let from = shape.ahead(distance);
        schedule.receive(from, slices.of(out, from.0));
    }
    schedule
}

fn circulant(shape: &Shape, root: Rank, own: Span, operator: Operator) -> Schedule {
    let mut schedule = Schedule::new("reduce in chunks round a circulant graph");
    let count = chunks(own.bytes, operator.element_bytes, log2(shape.size()), shape);
    in_chunks(&mut schedule, (shape, root, own), operator, count, &Chunks::new(shape, root).moves(count));
    schedule
}

fn binary_tree(shape: &Shape, root: Rank, own: Span, operator: Operator) -> Schedule {
    let mut schedule = Schedule::new("reduce in chunks up a binary tree");
    let count = chunks(own.bytes, operator.element_bytes, log2(shape.size()), shape);
    in_chunks(&mut schedule, (shape, root, own), operator, count, &pipeline::binary_tree(shape, root, count));
    schedule
}

fn chain(shape: &Shape, root: Rank, own: Span, operator: Operator) -> Schedule {
    let mut schedule = Schedule::new("reduce in chunks along a chain");
    let count = chunks(own.bytes, operator.element_bytes, shape.size() as usize, shape);
    in_chunks(&mut schedule, (shape, root, own), operator, count, &pipeline::chain(shape, root, count));
    schedule
}

fn in_chunks(
    schedule: &mut Schedule,
    (shape, root, own): (&Shape, Rank, Span),
    operator: Operator,
    count: usize,
    moves: &[Move],
) {
    let out = (shape.rank() == root).then(|| Span::output(own.bytes));
    pipeline::reduce(schedule, (own, out), operator, count, moves);
}
