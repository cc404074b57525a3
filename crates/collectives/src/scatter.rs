//! Scatter (MPI 5.0 §6.6).

use messaging::Rank;

use crate::blocks::{Block, Blocks, Rotated};
use crate::choice::{self, Asked};
use crate::schedule::{Schedule, Span};
use crate::shape::Shape;
use crate::tree::Tree;

/// The ways to scatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scatter {
    /// Down a binomial tree: ceil(log2 p) rounds at the root; data passes several ranks.
    Binomial,
    /// The root sends to everybody: p - 1 messages there, no byte travels twice.
    Linear,
}

/// Rank i gets block i, `bytes` long, of the root's input. `in_place` concerns the root alone: its block
/// stays where it is.
#[must_use]
pub fn scatter(shape: &Shape, root: Rank, bytes: usize, in_place: bool) -> Schedule {
    choice::choose::<Scatter>(shape, Asked::bytes(bytes)).schedule(shape, root, bytes, in_place)
}

/// Rank i receives block i of the root's input; the blocks may differ in length (MPI 5.0 §6.6). `blocks` has
/// for every rank where its block stands in the root's input, and is read at the root alone. `bytes` is the
/// length of this rank's block. `in_place` concerns the root alone: its block stays where it is.
#[must_use]
pub fn scatterv(shape: &Shape, root: Rank, blocks: &[Block], bytes: usize, in_place: bool) -> Schedule {
    linear(shape, root, &Blocks::Listed(blocks), bytes, in_place)
}

impl Scatter {
    /// [`scatter`] in this way.
    #[must_use]
    pub fn schedule(self, shape: &Shape, root: Rank, bytes: usize, in_place: bool) -> Schedule {
        self.schedule_blocks(shape, root, Blocks::Equal { bytes }, in_place)
    }

    /// [`scatter`] in this way, of blocks that may differ in length. All ranks know all lengths, and the
    /// blocks are contiguous in the root's input.
    pub(crate) fn schedule_blocks(
        self,
        shape: &Shape,
        root: Rank,
        blocks: Blocks<'_>,
        in_place: bool,
    ) -> Schedule {
        let data = blocks.run(Span::input(0), 0, shape.size());
        let bytes = blocks.of(data, shape.rank().0).bytes;
        match self {
            Scatter::Binomial => {
                let mut schedule = Schedule::new("scatter by binomial tree");
                let into = (!in_place).then_some(Span::output(bytes));
                binomial(&mut schedule, shape, root, blocks, data, into);
                schedule
            }
            Scatter::Linear => linear(shape, root, &blocks, bytes, in_place),
        }
    }
}

fn linear(shape: &Shape, root: Rank, blocks: &Blocks<'_>, bytes: usize, in_place: bool) -> Schedule {
    let mut schedule = Schedule::new("scatter from the root directly");
    let (data, into) = (Span::input(0), Span::output(bytes));
    if shape.rank() != root {
        schedule.receive(root, into);
        return schedule;
    }
    for distance in 1..shape.size() {
        let to = shape.ahead(distance);
        schedule.send(to, blocks.of(data, to.0));
    }
    if !in_place {
        schedule.copy(blocks.of(data, root.0), into);
    }
    schedule
}

/// Scatters `data` of the root; blocks stand one behind the other. The rank's own block goes to `into`, or
/// nowhere.
pub(crate) fn binomial(
    schedule: &mut Schedule,
    shape: &Shape,
    root: Rank,
    blocks: Blocks<'_>,
    data: Span,
    into: Option<Span>,
) {
    let tree = Tree::new(shape, root);
    let rotated = Rotated { blocks, root: root.0, size: shape.size() };
    match tree.parent() {
        None => {
            hand_out(schedule, tree, &rotated, data);
            if let Some(into) = into {
                schedule.copy(blocks.of(data, root.0), into);
            }
        }
        Some(parent) => pass_down(schedule, tree, &rotated, parent, into),
    }
}

/// The root sends each child what its subtree gets; where that passes the last rank, it is put together
/// first.
fn hand_out(schedule: &mut Schedule, tree: Tree, rotated: &Rotated<'_>, data: Span) {
    for child in tree.children().rev() {
        let [ahead, wrapped] = rotated.runs(data, child.first, child.end);
        if wrapped.bytes == 0 {
            schedule.send(child.rank, ahead);
        } else {
            let room = schedule.scratch(ahead.bytes + wrapped.bytes);
            schedule.copy(ahead, room.part(0, ahead.bytes));
            schedule.copy(wrapped, room.part(ahead.bytes, wrapped.bytes));
            schedule.send(child.rank, room);
        }
    }
}

/// Any other rank gets its own bytes with those of its subtree behind them.
fn pass_down(schedule: &mut Schedule, tree: Tree, rotated: &Rotated<'_>, parent: Rank, into: Option<Span>) {
    let place = tree.place();
    let is_leaf = tree.end() == place + 1;
    if let (true, Some(into)) = (is_leaf, into) {
        schedule.receive(parent, into);
        return;
    }
    let room = schedule.scratch(rotated.bytes(place, tree.end()));
    schedule.receive(parent, room);
    schedule.wait();
    for child in tree.children().rev() {
        let offset = rotated.bytes(place, child.first);
        schedule.send(child.rank, room.part(offset, rotated.bytes(child.first, child.end)));
    }
    if let Some(into) = into {
        schedule.copy(room.part(0, into.bytes), into);
    }
}
