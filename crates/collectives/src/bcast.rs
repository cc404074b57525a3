//! Broadcast (MPI 5.0 §6.4).

use messaging::Rank;

use crate::allgather::{Ring, ring};
use crate::blocks::Blocks;
use crate::choice;
use crate::schedule::{Schedule, Span};
use crate::shape::Shape;
use crate::tree::Tree;

/// The ways to broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bcast {
    /// Down a binomial tree: ceil(log2 p) rounds of all bytes.
    Binomial,
    /// A slice to every rank down the tree, then all slices round the ring: about 2 n bytes per rank, p rounds.
    ScatterRing,
}

/// The root's output becomes everybody's output: the buffer is the output at the root as well.
#[must_use]
pub fn bcast(shape: &Shape, root: Rank, bytes: usize) -> Schedule {
    choice::bcast(shape.size(), bytes).schedule(shape, root, bytes)
}

impl Bcast {
    /// Every way there is.
    pub const ALL: [Bcast; 2] = [Bcast::Binomial, Bcast::ScatterRing];

    /// [`bcast`] in this way.
    #[must_use]
    pub fn schedule(self, shape: &Shape, root: Rank, bytes: usize) -> Schedule {
        let data = Span::output(bytes);
        match self {
            Bcast::Binomial => binomial(shape, root, data),
            Bcast::ScatterRing => scatter_ring(shape, root, data),
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
    let place = Ring { first: tree.place(), blocks: slices, data };
    ring(&mut schedule, shape, &place, |rank, slice| tree.covers(rank, slice));
    schedule
}
