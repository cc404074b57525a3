//! Broadcast (MPI 5.0 §6.4).

use messaging::Rank;

use crate::allgather::{Ring, ring};
use crate::blocks::Blocks;
use crate::choice::{self, Asked};
use crate::circulant::{Circulant, Pieces};
use crate::nested;
use crate::pipeline::{self, pieces};
use crate::schedule::{Schedule, Span};
use crate::shape::{Shape, log2};
use crate::tree::Tree;

/// The ways to broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bcast {
    /// Down a binomial tree: ceil(log2 p) rounds of all bytes.
    Binomial,
    /// A slice to every rank down the tree, then all slices round the ring: about 2 n bytes per rank, p rounds.
    ScatterRing,
    /// A slice from the root to every rank, then an allgather round a circulant graph: about 2 n bytes per rank, 1 + ceil(log2
    /// p) rounds for any p.
    ScatterAllgather,
    /// In m pieces round a circulant graph: m - 1 + ceil(log2 p) rounds of a piece for any p, which is the least that
    /// can be; n bytes per rank.
    Circulant,
    /// In m pieces down a binary tree: about m + log2 p rounds of a piece, in which a rank sends two: 2 n bytes.
    BinaryTree,
    /// In m pieces along a chain of all ranks: m + p - 2 rounds of a piece, n bytes per rank.
    Chain,
    /// Between the nodes first, one rank of each, then within them: n bytes come to each node once. As without
    /// nodes where it is not known who sits where.
    ByNode,
}

/// The root's output becomes everybody's output: the buffer is the output at the root as well.
#[must_use]
pub fn bcast(shape: &Shape, root: Rank, bytes: usize) -> Schedule {
    choice::choose::<Bcast>(shape, Asked::bytes(bytes)).schedule(shape, root, bytes)
}

impl Bcast {
    /// Every way there is.
    pub const ALL: [Bcast; 7] = [
        Bcast::Binomial,
        Bcast::ScatterRing,
        Bcast::ScatterAllgather,
        Bcast::Circulant,
        Bcast::BinaryTree,
        Bcast::Chain,
        Bcast::ByNode,
    ];

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
        shape.others().for_each(|to| schedule.send(to, slices.of(data, to.0)));
        room = schedule.scratch(data.bytes);
    } else {
        schedule.receive(root, own);
    }
    schedule.wait();
    Circulant { shape, blocks: slices }.gather_into(&mut schedule, data, room);
    schedule
}

fn circulant(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast in pieces round a circulant graph");
    let count = pieces(data.bytes, 1, log2(shape.size()), shape);
    pipeline::bcast(&mut schedule, data, count, &Pieces::new(shape, root).moves(count));
    schedule
}

fn binary_tree(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast in pieces down a binary tree");
    let count = pieces(data.bytes, 1, log2(shape.size()), shape);
    pipeline::bcast(&mut schedule, data, count, &pipeline::binary_tree(shape, root, count));
    schedule
}

fn chain(shape: &Shape, root: Rank, data: Span) -> Schedule {
    let mut schedule = Schedule::new("bcast in pieces along a chain");
    let count = pieces(data.bytes, 1, shape.size() as usize, shape);
    pipeline::bcast(&mut schedule, data, count, &pipeline::chain(shape, root, count));
    schedule
}
