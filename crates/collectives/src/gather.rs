//! Gather (MPI 5.0 §6.5).

use messaging::Rank;

use crate::blocks::{Block, Blocks, Rotated};
use crate::choice::{self, Asked};
use crate::schedule::{Schedule, Span};
use crate::shape::Shape;
use crate::tree::Tree;

/// The ways to gather.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gather {
    /// Up a binomial tree: ceil(log2 p) rounds at the root; data passes several ranks.
    Binomial,
    /// Everybody sends to the root: p - 1 messages there, no byte travels twice.
    Linear,
}

/// Everybody's `bytes` bytes of input stand in the root's output, by rank. `in_place` concerns the root
/// alone.
#[must_use]
pub fn gather(shape: &Shape, root: Rank, bytes: usize, in_place: bool) -> Schedule {
    choice::choose::<Gather>(shape, Asked::bytes(bytes)).schedule(shape, root, bytes, in_place)
}

/// Every rank's block stands in the root's output; the blocks may differ in length (MPI 5.0 §6.5). `bytes` is
/// the length of this rank's block. `blocks` has for every rank where its block goes in the root's output,
/// and is read at the root alone. `in_place` concerns the root alone.
#[must_use]
pub fn gatherv(shape: &Shape, root: Rank, bytes: usize, blocks: &[Block], in_place: bool) -> Schedule {
    linear(shape, root, bytes, &Blocks::Listed(blocks), in_place)
}

impl Gather {
    /// [`gather`] in this way.
    #[must_use]
    pub fn schedule(self, shape: &Shape, root: Rank, bytes: usize, in_place: bool) -> Schedule {
        let blocks = Blocks::Equal { bytes };
        match self {
            Gather::Binomial => binomial(shape, root, bytes, blocks, in_place),
            Gather::Linear => linear(shape, root, bytes, &blocks, in_place),
        }
    }
}

fn linear(shape: &Shape, root: Rank, bytes: usize, blocks: &Blocks<'_>, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("gather to the root directly");
    if shape.rank() != root {
        schedule.send(root, Span::input(bytes));
        return schedule;
    }
    let output = Span::output(0);
    for distance in 1..shape.size() {
        let from = shape.ahead(distance);
        schedule.receive(from, blocks.of(output, from.0));
    }
    if !in_place {
        let own = blocks.of(output, root.0);
        schedule.copy(Span::input(own.bytes), own);
    }
    schedule
}

fn binomial(shape: &Shape, root: Rank, bytes: usize, blocks: Blocks<'_>, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("gather by binomial tree");
    let tree = Tree::new(shape, root);
    let rotated = Rotated { blocks, root: root.0, size: shape.size() };
    match tree.parent() {
        None => {
            collect(&mut schedule, tree, &rotated);
            if !in_place {
                schedule.copy(Span::input(bytes), blocks.of(Span::output(0), root.0));
            }
        }
        Some(parent) => pass_up(&mut schedule, tree, &rotated, parent, bytes),
    }
    schedule
}

/// The root takes its children's subtrees straight into the output; one that passes the last rank is put
/// there in two chunks.
fn collect(schedule: &mut Schedule, tree: Tree, rotated: &Rotated<'_>) {
    let mut chunks = None;
    for child in tree.children() {
        let [ahead, wrapped] = rotated.runs(Span::output(0), child.first, child.end);
        if wrapped.bytes == 0 {
            schedule.receive(child.rank, ahead);
        } else {
            let room = schedule.scratch(ahead.bytes + wrapped.bytes);
            schedule.receive(child.rank, room);
            chunks = Some((room, ahead, wrapped));
        }
    }
    if let Some((room, ahead, wrapped)) = chunks {
        schedule.wait();
        schedule.copy(room.part(0, ahead.bytes), ahead);
        schedule.copy(room.part(ahead.bytes, wrapped.bytes), wrapped);
    }
}

/// Any other rank sends its own bytes on with those of its subtree behind them.
fn pass_up(schedule: &mut Schedule, tree: Tree, rotated: &Rotated<'_>, parent: Rank, bytes: usize) {
    let own = Span::input(bytes);
    let place = tree.place();
    if tree.end() == place + 1 {
        schedule.send(parent, own);
        return;
    }
    let room = schedule.scratch(rotated.bytes(place, tree.end()));
    for child in tree.children() {
        let offset = rotated.bytes(place, child.first);
        schedule.receive(child.rank, room.part(offset, rotated.bytes(child.first, child.end)));
    }
    schedule.copy(own, room.part(0, bytes));
    schedule.wait();
    schedule.send(parent, room);
}
