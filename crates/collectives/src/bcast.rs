//! Broadcast (MPI 5.0 §6.4).

use messaging::Rank;

use crate::allgather::{Ring, ring};
use crate::blocks::Blocks;
use crate::choice::{self, Asked};
use crate::circulant::{Chunks, Circulant, halvings};
use crate::nested;
use crate::pipeline::{self, chunks};
use crate::schedule::{Schedule, Span};
use crate::shape::{Shape, log2};
use crate::tree::Tree;

/// The ways to broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bcast {
    /// Down a binomial tree: ceil(log2 p) rounds of all bytes.
    Binomial,
    /// A slice to every rank down the tree, then all slices round the ring: about 2 n bytes per rank, p
    /// rounds.
    ScatterRing,
    /// A slice from the root to every rank, then an allgather round a circulant graph: about 2 n bytes per
    /// rank, 1 + ceil(log2 p) rounds for any p.
    ScatterAllgather,
    /// In m chunks round a circulant graph: m - 1 + ceil(log2 p) rounds of a chunk for any p, which is the
    /// least that can be; n bytes per rank.
    Circulant,
    /// In m chunks down a binary tree: about m + log2 p rounds of a chunk, in which a rank sends two: 2 n
    /// bytes.
    BinaryTree,
    /// In m chunks along a chain of all ranks: m + p - 2 rounds of a chunk, n bytes per rank.
    Chain,
    /// Between the nodes first, one rank of each, then within them: n bytes come to each node once. As
    /// without nodes where it is not known who sits where.
    ByNode,
}

/// The root's output becomes everybody's output: the buffer is the output at the root as well.
#[must_use]
pub fn bcast(shape: &Shape, root: Rank, bytes: usize) -> Schedule {
    choice::choose::<Bcast>(shape, Asked::bytes(bytes)).schedule(shape, root, bytes)
}

impl Bcast {
    /// [`bcast`] in this way.
    #[must_use]
    pub fn schedule(self, shape: &Shape, root: Rank, bytes: usize) -> Schedule {
        let data = Span::output(bytes);
        match self {
            Bcast::Binomial => binomial(shape, root, data),
            Bcast::ScatterRing => scatter_ring(shape, root, data),
            Bcast::ScatterAllgather => scatter_allgather(shape, root, data),
            Bcast::Circulant => circulant(shape, root, data),
            Bcast::BinaryTree => binary_tree(shape, root, data),
            Bcast::Chain => chain(shape, root, data),
            Bcast::ByNode => nested::bcast(shape, root, bytes),
        }
    }
}

fn binomial(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast by binomial tree");
    let tree = Tree::new(shape, root);
    if let Some(parent) = tree.parent() {
        schedule.receive(parent, data);
        schedule.wait();
    }
    // The largest subtree first: it has the longest way to go.
    for child in tree.children().rev() {
        schedule.send(child.rank, data);
    }
    schedule
}

/// Slices are counted from the root on, so that each subtree's slices are one run of bytes.
fn scatter_ring(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast by scatter and ring");
    let tree = Tree::new(shape, root);
    let slices = Blocks::Slices { count: data.bytes, element_bytes: 1, parts: shape.size() };
    if let Some(parent) = tree.parent() {
        schedule.receive(parent, slices.run(data, tree.place(), tree.end()));
        schedule.wait();
    }
    for child in tree.children().rev() {
        schedule.send(child.rank, slices.run(data, child.first, child.end));
    }
    let place = Ring { first: tree.place(), blocks: slices, data, own: None };
    ring(&mut schedule, shape, &place, |rank, slice| tree.covers(rank, slice));
    schedule
}

/// The root only reads its data, so what comes to it as to all goes elsewhere.
fn scatter_allgather(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast by scatter and allgather");
    let slices = Blocks::Slices { count: data.bytes, element_bytes: 1, parts: shape.size() };
    let own = slices.of(data, shape.rank().0);
    let mut room = data;
    if shape.rank() == root {
        for to in halves_together(shape.size()).into_iter().skip(1).map(|steps| shape.ahead(steps)) {
            schedule.send(to, slices.of(data, to.0));
        }
        room = schedule.scratch(data.bytes);
    } else {
        schedule.receive(root, own);
    }
    schedule.wait();
    Circulant { shape, blocks: slices }.gather_into(&mut schedule, data, room);
    schedule
}

/// The places of so many ranks from 0 on, each beside that which is half of all away from it, and so on with
/// quarters: the order in which ranks are to begin who exchange longer and longer data over longer and longer
/// distances. So whoever has begun long before another one is in its way with short messages only.
fn halves_together(size: u32) -> Vec<u32> {
    let sizes: Vec<u32> = [size].into_iter().chain(halvings(size)).collect();
    let mut order = vec![0];
    for (size, half) in sizes.windows(2).rev().map(|both| (both[0], both[1])) {
        let both = order.iter().flat_map(|&place| [place, place + half]);
        order = both.filter(|&place| place < size).collect();
    }
    order
}

fn circulant(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast in chunks round a circulant graph");
    let count = chunks(data.bytes, 1, log2(shape.size()), shape);
    pipeline::bcast(&mut schedule, data, count, &Chunks::new(shape, root).moves(count));
    schedule
}

fn binary_tree(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast in chunks down a binary tree");
    let count = chunks(data.bytes, 1, log2(shape.size()), shape);
    pipeline::bcast(&mut schedule, data, count, &pipeline::binary_tree(shape, root, count));
    schedule
}

fn chain(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast in chunks along a chain");
    let count = chunks(data.bytes, 1, shape.size() as usize, shape);
    pipeline::bcast(&mut schedule, data, count, &pipeline::chain(shape, root, count));
    schedule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_exchange_most_begin_together() {
        assert_eq!(halves_together(1), [0]);
        assert_eq!(halves_together(5), [0, 3, 2, 1, 4]);
        assert_eq!(halves_together(8), [0, 4, 2, 6, 1, 5, 3, 7]);
        for size in 1..=100 {
            let mut all = halves_together(size);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..size), "{size}: each once");
        }
    }
}
