//! Collective operations over nodes: within each node, between the nodes, and within them again.
//!
//! Each is put together of the same operation, or others, among fewer ranks: of a node, or one rank of each node. Which
//! ranks those are, and who leads, says [`Nesting`]. Where nothing is known of nodes, it is the operation without.
//!
//! A reduction in which the order of operands matters needs places in the order of ranks: then each group stands for a run
//! of ranks, whichever member leads it.

use messaging::Rank;

use crate::allgather::Allgather;
use crate::allreduce::Allreduce;
use crate::blocks::{Block, Blocks};
use crate::circulant::Circulant;
use crate::nesting::{Group, Meeting, Nesting};
use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape};
use crate::tree::Tree;

pub(crate) fn barrier(shape: &Shape) -> Schedule {
    let Some(nesting) = shape.nesting() else { return crate::barrier(&shape.flat()) };
    let mut schedule = Schedule::new("barrier within nodes and between them");
    let meetings = nesting.meetings(shape, nesting.rank(0));
    for meeting in meetings.iter().rev() {
        let among = match meeting.is_between_nodes {
            true => crate::barrier(&meeting.shape),
            false => gather_up(&meeting.shape, meeting.root),
        };
        schedule.append(among.among(|number| meeting.member(number)));
    }
    for meeting in meetings.iter().filter(|meeting| !meeting.is_between_nodes) {
        schedule.append(tell_down(&meeting.shape, meeting.root).among(|number| meeting.member(number)));
    }
    schedule.wait();
    schedule
}

/// The root hears that all have come.
fn gather_up(shape: &Shape, root: Rank) -> Schedule {
    let mut schedule = Schedule::new("");
    let tree = Tree::new(shape, root);
    tree.children().for_each(|child| schedule.hear(child.rank));
    schedule.wait();
    if let Some(parent) = tree.parent() {
        schedule.tell(parent);
    }
    schedule
}

/// All hear it from the root.
fn tell_down(shape: &Shape, root: Rank) -> Schedule {
    let mut schedule = Schedule::new("");
    let tree = Tree::new(shape, root);
    if let Some(parent) = tree.parent() {
        schedule.hear(parent);
        schedule.wait();
    }
    tree.children().rev().for_each(|child| schedule.tell(child.rank));
    schedule
}

pub(crate) fn bcast(shape: &Shape, root: Rank, bytes: usize) -> Schedule {
    let Some(nesting) = shape.nesting() else { return crate::bcast(&shape.flat(), root, bytes) };
    let mut schedule = Schedule::new("bcast between nodes and within them");
    down(&mut schedule, &nesting.meetings(shape, root), bytes);
    schedule
}

/// What stands in the output of those who lead the first meetings comes to all.
fn down(schedule: &mut Schedule, meetings: &[Meeting<'_>], bytes: usize) {
    for meeting in meetings {
        let among = crate::bcast(&meeting.shape, meeting.root, bytes);
        // Whoever has the data does nothing but send it.
        schedule.append_readers(among.among(|number| meeting.member(number)));
    }
}

pub(crate) fn reduce(
    shape: &Shape,
    root: Rank,
    count: usize,
    operator: Operator,
    in_place: bool,
) -> Schedule {
    let Some(nesting) = for_operator(shape, operator) else {
        return crate::reduce(&shape.flat(), root, count, operator, in_place);
    };
    let mut schedule = Schedule::new("reduce within nodes and between them");
    let meetings = nesting.meetings(shape, root);
    let own = Span::own(count * operator.element_bytes, in_place);
    let sum = up(&mut schedule, &meetings, count, operator, own);
    if shape.rank() == root {
        schedule.copy(sum, Span::output(own.bytes));
    }
    schedule
}

/// Reduces what stands in `own` within each group and between their leaders. The answer is where the result stands:
/// in the output of whoever leads all of the meetings, if it leads any.
fn up(
    schedule: &mut Schedule,
    meetings: &[Meeting<'_>],
    count: usize,
    operator: Operator,
    own: Span,
) -> Span {
    let mut sum = own;
    for (wider, meeting) in meetings.iter().enumerate().rev() {
        let into = match (meeting.is_led_from_here(), wider) {
            (false, _) => sum,
            (true, 0) => Span::output(own.bytes),
            (true, _) => schedule.scratch(own.bytes),
        };
        let (shape, root) = (&meeting.shape, meeting.root);
        let in_place = into == sum && meeting.is_led_from_here();
        let among = crate::reduce(shape, root, count, operator, in_place);
        schedule.append_between(among.among(|number| meeting.member(number)), sum, into);
        sum = into;
    }
    sum
}

/// Who sits where, if a reduction by this operator may go by it.
fn for_operator(shape: &Shape, operator: Operator) -> Option<&Nesting> {
    shape.nesting().filter(|nesting| operator.commutative || nesting.is_straight())
}

pub(crate) fn allreduce(shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
    let Some(nesting) = for_operator(shape, operator) else {
        return crate::allreduce(&shape.flat(), count, operator, in_place);
    };
    let mut schedule = Schedule::new("allreduce within nodes, between them and within them");
    let meetings = nesting.meetings(shape, nesting.rank(0));
    let between = meetings.iter().position(|meeting| meeting.is_between_nodes);
    let within = &meetings[between.map_or(0, |at| at + 1)..];
    let own = Span::own(count * operator.element_bytes, in_place);
    let out = Span::output(own.bytes);
    let sum = up(&mut schedule, within, count, operator, own);
    if let Some(between) = between.map(|at| &meetings[at]) {
        let among = crate::allreduce(&between.shape, count, operator, sum == out);
        schedule.append_between(among.among(|number| between.member(number)), sum, out);
    }
    schedule.wait();
    down(&mut schedule, within, out.bytes);
    if meetings.is_empty() {
        schedule.copy(own, out);
    }
    schedule
}

/// A node as one of its ranks sees it.
struct Here<'a> {
    nesting: &'a Nesting,
    node: Group,
    /// This rank's place among those of the node.
    local: Shape,
}

impl<'a> Here<'a> {
    fn new(nesting: &'a Nesting, shape: &Shape) -> Here<'a> {
        let place = nesting.place(shape.rank());
        let node = nesting.node_at(place);
        Here { nesting, node, local: shape.part(Rank(place - node.first), node.size(), false) }
    }

    fn number(&self) -> u32 {
        self.local.rank().0
    }

    /// The same schedule among the ranks of the node.
    fn within(&self, schedule: Schedule) -> Schedule {
        schedule.among(|local| self.nesting.rank(self.node.first + local.0))
    }

    /// This rank's place among those of all nodes that have its number there.
    fn lane(&self) -> Shape {
        self.local.part(Rank(self.node.number), self.nesting.nodes(), true)
    }

    /// The same schedule among these.
    fn between(&self, schedule: Schedule) -> Schedule {
        schedule.among(|node| self.nesting.rank(self.nesting.node_of_number(node.0).first + self.number()))
    }
}

/// The vector is cut into as many slices as the smallest node has ranks; further ranks of other nodes have none.
pub(crate) fn allreduce_in_slices(
    shape: &Shape,
    count: usize,
    operator: Operator,
    in_place: bool,
) -> Schedule {
    let Some(nesting) = shape.nesting() else {
        return crate::allreduce(&shape.flat(), count, operator, in_place);
    };
    let mut schedule = Schedule::new("allreduce in slices within nodes, between them and within them");
    let (here, lanes) = (Here::new(nesting, shape), nesting.smallest_node());
    let own = Span::own(count * operator.element_bytes, in_place);
    let out = Span::output(own.bytes);
    let slices = Blocks::Slices { count, element_bytes: operator.element_bytes, parts: lanes };
    let slice = |number: u32| if number < lanes { slices.of(out, number) } else { out.part(out.bytes, 0) };
    let blocks: Vec<Block> = (0..here.node.size())
        .map(|number| Block { offset: slice(number).offset, bytes: slice(number).bytes })
        .collect();
    let circulant = Circulant { shape: &here.local, blocks: Blocks::Listed(&blocks) };

    let mut within = Schedule::new("");
    circulant.sum(&mut within, own, out);
    schedule.append(here.within(within));
    if here.number() < lanes {
        let mine = slice(here.number());
        let elements = mine.bytes / operator.element_bytes.max(1);
        let between = Allreduce::Circulant.schedule(&here.lane(), elements, operator, true);
        schedule.append_between(here.between(between), mine, mine);
    }
    let mut within = Schedule::new("");
    circulant.gather(&mut within, out);
    schedule.append(here.within(within));
    schedule
}

/// None where the nodes do not hold consecutive ranks: what one rank of a node sends for it must be one run of bytes.
pub(crate) fn allgather(shape: &Shape, bytes: usize, in_place: bool) -> Option<Schedule> {
    let nesting = shape.nesting().filter(|nesting| nesting.is_straight())?;
    let mut schedule = Schedule::new("allgather within nodes, between them and within them");
    let (here, all) = (Here::new(nesting, shape), Span::output(bytes * shape.size() as usize));
    let of_node =
        |node: Group| Block { offset: node.first as usize * bytes, bytes: node.size() as usize * bytes };
    let Block { offset, bytes: together } = of_node(here.node);
    let own = if in_place { all.part(shape.rank().0 as usize * bytes, bytes) } else { Span::input(bytes) };
    let (leader, is_leader) = (Rank(0), here.number() == 0);

    let gather = crate::gather(&here.local, leader, bytes, in_place && is_leader);
    schedule.append_between(here.within(gather), own, all.part(offset, together));
    if is_leader {
        let blocks: Vec<Block> =
            (0..nesting.nodes()).map(|number| of_node(nesting.node_of_number(number))).collect();
        let between = Allgather::Circulant.schedule_blocks(&here.lane(), &blocks, true);
        schedule.append(here.between(between));
    }
    schedule.append(here.within(crate::bcast(&here.local, leader, all.bytes)));
    Some(schedule)
}
