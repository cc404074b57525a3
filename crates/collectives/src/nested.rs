//! Collective operations over the parts of the machine: within each part, between the parts, and within them
//! again.
//!
//! The parts are the widest that are known, nodes or parts of one node. Each operation is put together of the
//! same operation, or others, among fewer ranks: those of a part, or one rank of each part. Which ranks those
//! are, and who leads, says [`Hierarchy`]. Among the ranks of a part the operation is chosen anew, and may go
//! by narrower parts in turn. Where nothing is known of parts, it is the operation without.
//!
//! A reduction in which the order of operands matters needs places in the order of ranks: then each part
//! stands for a run of ranks, whichever member leads it.

mod blocks;

use messaging::Rank;

use crate::allgather::Allgather;
use crate::allreduce::Allreduce;
use crate::blocks::{Block, Blocks};
use crate::circulant::Circulant;
use crate::costs::HierarchyLevel;
use crate::hierarchy::{Group, Hierarchy};
use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape};
use crate::tree::Tree;

pub(crate) use blocks::{alltoall, reduce_scatter, reduce_scatter_in_slices};

/// The widest parts as one rank sees them.
struct Here<'a> {
    hierarchy: &'a Hierarchy,
    border: HierarchyLevel,
    /// The part that this rank is in.
    part: Group,
    /// The place of the rank that leads its part whichever that is.
    top: u32,
    /// This rank's place among those of the part.
    local: Shape,
}

impl<'a> Here<'a> {
    /// Where `root` leads its part; the others are led by their first places. None where all ranks sit
    /// together.
    fn new(hierarchy: &'a Hierarchy, shape: &Shape, root: Rank) -> Option<Here<'a>> {
        let (place, top) = (hierarchy.place(shape.rank()), hierarchy.place(root));
        let part = hierarchy.part_at(place);
        let local = shape.within(Rank(place - part.first), part.size(), hierarchy.inside(part));
        Some(Here { hierarchy, border: hierarchy.widest()?, part, top, local })
    }

    /// This rank's view of the widest parts, where each part is led by its first place. None where all ranks
    /// sit together.
    fn of_first(hierarchy: &'a Hierarchy, shape: &Shape) -> Option<Here<'a>> {
        Here::new(hierarchy, shape, hierarchy.rank(0))
    }

    /// This rank's number in its part.
    fn number(&self) -> u32 {
        self.local.rank().0
    }

    /// Who leads the part, by the number in it.
    fn leader(&self) -> Rank {
        Rank(self.part.leader(self.top) - self.part.first)
    }

    fn leads(&self) -> bool {
        self.local.rank() == self.leader()
    }

    /// `schedule`, whose ranks are numbers in this part, among the ranks of the part.
    fn within(&self, schedule: Schedule) -> Schedule {
        schedule.among(|local| self.hierarchy.rank(self.part.first + local.0))
    }

    /// The place of this rank's part among the parts.
    fn across(&self) -> Shape {
        self.local.across(Rank(self.part.number), self.hierarchy.parts(), self.border)
    }

    /// The number of the part whose leader leads all.
    fn leading_part(&self) -> Rank {
        Rank(self.hierarchy.part_at(self.top).number)
    }

    /// `schedule`, whose ranks are numbers of parts, among the leaders of these parts.
    fn among_leaders(&self, schedule: Schedule) -> Schedule {
        schedule.among(|part| self.hierarchy.rank(self.hierarchy.part(part.0).leader(self.top)))
    }

    /// `schedule`, whose ranks are numbers of parts, among the ranks that have this rank's number in those
    /// parts.
    fn among_alike(&self, schedule: Schedule) -> Schedule {
        schedule.among(|part| self.hierarchy.rank(self.hierarchy.part(part.0).first + self.number()))
    }
}

pub(crate) fn barrier(shape: &Shape) -> Schedule {
    let Some(here) = shape.hierarchy().and_then(|hierarchy| Here::of_first(hierarchy, shape)) else {
        return crate::barrier(&shape.flat());
    };
    let mut schedule = Schedule::new("barrier within nodes and between them");
    schedule.append(here.within(gather_up(&here.local, here.leader())));
    if here.leads() {
        schedule.append(here.among_leaders(crate::barrier(&here.across())));
    }
    schedule.append(here.within(tell_down(&here.local, here.leader())));
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
    let Some(here) = shape.hierarchy().and_then(|hierarchy| Here::new(hierarchy, shape, root)) else {
        return crate::bcast(&shape.flat(), root, bytes);
    };
    let mut schedule = Schedule::new("bcast between nodes and within them");
    // Whoever has the data does nothing but send it.
    if here.leads() {
        let between = crate::bcast(&here.across(), here.leading_part(), bytes);
        schedule.append_readers(here.among_leaders(between));
    }
    schedule.append_readers(here.within(crate::bcast(&here.local, here.leader(), bytes)));
    schedule
}

pub(crate) fn reduce(
    shape: &Shape,
    root: Rank,
    count: usize,
    operator: Operator,
    in_place: bool,
) -> Schedule {
    let known = for_operator(shape, operator);
    let Some(here) = known.and_then(|hierarchy| Here::new(hierarchy, shape, root)) else {
        return crate::reduce(&shape.flat(), root, count, operator, in_place);
    };
    let mut schedule = Schedule::new("reduce within nodes and between them");
    let own = Span::own(count * operator.element_bytes, in_place);
    let out = Span::output(own.bytes);
    let within = here.leads().then(|| schedule.scratch(own.bytes));
    let sum = to_leader(&mut schedule, &here, count, operator, own, within);
    if here.leads() {
        let is_root = shape.rank() == root;
        let into = if is_root { out } else { sum };
        let in_place = is_root && sum == out;
        let between = crate::reduce(&here.across(), here.leading_part(), count, operator, in_place);
        schedule.append_between(here.among_leaders(between), sum, into);
    }
    schedule
}

/// Reduces what stands in `own` to the leader of the part, into `room`, which the leader alone has. The
/// answer is where the sum stands.
fn to_leader(
    schedule: &mut Schedule,
    here: &Here<'_>,
    count: usize,
    operator: Operator,
    own: Span,
    room: Option<Span>,
) -> Span {
    if here.local.size() == 1 {
        return own;
    }
    let sum = room.unwrap_or(own);
    let in_place = here.leads() && sum == own;
    let within = crate::reduce(&here.local, here.leader(), count, operator, in_place);
    schedule.append_between(here.within(within), own, sum);
    sum
}

/// Who sits where, if a reduction by this operator may go by it.
fn for_operator(shape: &Shape, operator: Operator) -> Option<&Hierarchy> {
    shape.hierarchy().filter(|hierarchy| operator.commutative || hierarchy.is_straight())
}

pub(crate) fn allreduce(shape: &Shape, count: usize, operator: Operator, in_place: bool) -> Schedule {
    let known = for_operator(shape, operator);
    let Some(here) = known.and_then(|hierarchy| Here::of_first(hierarchy, shape)) else {
        return crate::allreduce(&shape.flat(), count, operator, in_place);
    };
    let mut schedule = Schedule::new("allreduce within nodes, between them and within them");
    let own = Span::own(count * operator.element_bytes, in_place);
    let out = Span::output(own.bytes);
    let sum = to_leader(&mut schedule, &here, count, operator, own, here.leads().then_some(out));
    if here.leads() {
        let between = crate::allreduce(&here.across(), count, operator, sum == out);
        schedule.append_between(here.among_leaders(between), sum, out);
    }
    schedule.wait();
    schedule.append_readers(here.within(crate::bcast(&here.local, here.leader(), out.bytes)));
    schedule
}

/// The vector is cut into as many slices as the smallest part has ranks; further ranks of other parts have
/// none.
pub(crate) fn allreduce_in_slices(
    shape: &Shape,
    count: usize,
    operator: Operator,
    in_place: bool,
) -> Schedule {
    let Some(here) = shape.hierarchy().and_then(|hierarchy| Here::of_first(hierarchy, shape)) else {
        return crate::allreduce(&shape.flat(), count, operator, in_place);
    };
    let mut schedule = Schedule::new("allreduce in slices within nodes, between them and within them");
    let lanes = here.hierarchy.smallest_part();
    let own = Span::own(count * operator.element_bytes, in_place);
    let out = Span::output(own.bytes);
    let slices = Blocks::Slices { count, element_bytes: operator.element_bytes, parts: lanes };
    let slice = |number: u32| if number < lanes { slices.of(out, number) } else { out.part(out.bytes, 0) };
    let blocks: Vec<Block> = (0..here.part.size())
        .map(|number| Block { offset: slice(number).offset, bytes: slice(number).bytes })
        .collect();
    let circulant = Circulant { shape: &here.local, blocks: Blocks::Listed(&blocks) };

    let mut within = Schedule::new("");
    circulant.sum(&mut within, own, out);
    schedule.append(here.within(within));
    if here.number() < lanes {
        let mine = slice(here.number());
        let elements = mine.bytes / operator.element_bytes.max(1);
        let between = Allreduce::Circulant.schedule(&here.across(), elements, operator, true);
        schedule.append_between(here.among_alike(between), mine, mine);
    }
    let mut within = Schedule::new("");
    circulant.gather(&mut within, out);
    schedule.append(here.within(within));
    schedule
}

/// None where the parts do not hold consecutive ranks: what one rank of a part sends for it must be one run
/// of bytes.
pub(crate) fn allgather(shape: &Shape, bytes: usize, in_place: bool) -> Option<Schedule> {
    let hierarchy = shape.hierarchy().filter(|hierarchy| hierarchy.is_straight())?;
    let mut schedule = Schedule::new("allgather within nodes, between them and within them");
    let (here, all) = (Here::of_first(hierarchy, shape)?, Span::output(bytes * shape.size() as usize));
    let of_part =
        |part: Group| Block { offset: part.first as usize * bytes, bytes: part.size() as usize * bytes };
    let Block { offset, bytes: together } = of_part(here.part);
    let own = if in_place { all.part(shape.rank().0 as usize * bytes, bytes) } else { Span::input(bytes) };
    let (leader, is_leader) = (Rank(0), here.number() == 0);

    let gather = crate::gather(&here.local, leader, bytes, in_place && is_leader);
    schedule.append_between(here.within(gather), own, all.part(offset, together));
    if is_leader {
        let blocks: Vec<Block> =
            (0..hierarchy.parts()).map(|number| of_part(hierarchy.part(number))).collect();
        let between = Allgather::Circulant.schedule_blocks(&here.across(), &blocks, true);
        schedule.append(here.among_leaders(between));
    }
    schedule.append(here.within(crate::bcast(&here.local, leader, all.bytes)));
    Some(schedule)
}
