//! Which operations go through the segment, and how.

use fabric::{Payload, UserMemory};
use messaging::Rank;

use super::of_two::OfTwo;
use super::pairs::{Pairs, Rest};
use super::pieces::{Carried, Lengths};
use super::plan::{Plan, Then};
use super::tree::TREE_FROM;
use super::turn::Flow;
use super::{Combine, Member, Result, Visit};
use crate::{Collective, Cores, Listed};

/// How one operation goes through the segment; the same at all members.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    way: Kind<'a>,
    /// Whether a segment is worth its memory for the first such operation already, so that sums are always made in one order.
    pub at_once: bool,
    /// Of two members, which way data flows.
    pub flow: Flow,
    /// Of two members, how many bytes may go by a message all the same, where data goes one way time after time.
    pub bytes: usize,
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    /// One slot of each member, or one chunk.
    Round { plan: Plan<'a>, is_chunk: bool },
    /// One slot of each member, in a tree.
    Tree(Plan<'a>),
    /// Chunks of two members.
    Chunks { plan: Plan<'a>, lengths: Lengths },
    /// Chunks of several members that share cores.
    Several(Plan<'a>),
    /// Blocks whose lengths only their two ends know, in slots. What is too long for these is [left](Chosen::rest).
    Pairs(Pairs<'a>),
    /// Blocks whose lengths only their two ends know, of two members, in one slot each.
    PairOfTwo(OfTwo),
    /// Blocks whose lengths only their two ends know, of two members in chunks.
    PairsInChunks { pairs: Pairs<'a>, lengths: Lengths },
}

/// Where an operation is to be done: what decides how it goes, the same at all members.
#[derive(Clone, Copy)]
pub struct Setting<Q> {
    /// This member.
    pub here: Rank,
    /// How many members there are.
    pub size: u32,
    /// Whether members share cores.
    pub cores: Cores,
    /// Whether copies through shared memory are no slower than reads of another process's memory.
    pub are_copies_quick: Q,
}

impl<'a> Chosen<'a> {
    /// How an operation goes; `None` where it goes by messages.
    #[inline(always)]
    #[must_use]
    pub fn of(collective: Collective, setting: Setting<impl Fn() -> bool>) -> Option<Chosen<'a>> {
        Chosen::by_plan(Plan::of(collective, setting.here, setting.size, setting.cores)?, setting)
    }

    /// How an operation with blocks that differ in length goes; `None` where it goes by messages.
    #[inline(always)]
    #[must_use]
    pub fn listed(listed: Listed<'a>, setting: Setting<impl Fn() -> bool>) -> Option<Chosen<'a>> {
        let Some(pairs) = Pairs::of(listed, setting.here, setting.size) else {
            return Chosen::by_plan(Plan::listed(listed, setting.here, setting.size)?, setting);
        };
        let (at_once, flow) = (false, pairs.flow());
        if let Some(Carried { lengths, passed_bytes, .. }) = in_chunks(pairs.in_pieces(), &setting) {
            let way = Kind::PairsInChunks { pairs, lengths };
            return Some(Chosen { way, at_once, flow, bytes: passed_bytes });
        }
        // Of two members both know that nothing goes by a slot.
        if setting.size == 2 && pairs.are_all_long() {
            return None;
        }
        let bytes = pairs.passed_bytes();
        let way = pairs.of_two().map_or(Kind::Pairs(pairs), Kind::PairOfTwo);
        Some(Chosen { way, at_once, flow, bytes })
    }

    #[inline(always)]
    fn by_plan(plan: Plan<'a>, setting: Setting<impl Fn() -> bool>) -> Option<Chosen<'a>> {
        let (flow, at_once, bytes) = (plan.flow(), plan.goes_up_tree(), plan.longest_bytes());
        let is_same_for_all = plan.is_same_for_all() || matches!(plan.then, Then::Nothing);
        if setting.size >= TREE_FROM && setting.cores == Cores::Own && is_same_for_all && plan.fits() {
            return Some(Chosen { way: Kind::Tree(plan), at_once, flow, bytes });
        }
        if plan.is_one_round() {
            return Some(Chosen { way: Kind::Round { plan, is_chunk: false }, at_once, flow, bytes });
        }
        if let Some(Carried { lengths, passed_bytes, .. }) = in_chunks(plan.in_pieces(), &setting) {
            let way = Kind::Chunks { plan, lengths };
            return Some(Chosen { way, at_once: false, flow, bytes: passed_bytes });
        }
        // Where a member that waits for another one keeps its core, messages go in several directions at once.
        if setting.cores != Cores::Shared {
            return None;
        }
        if plan.goes_among_several() {
            let at_once = matches!(plan.then, Then::Combined(_));
            return Some(Chosen { way: Kind::Several(plan), at_once, flow, bytes: 0 });
        }
        let way = Kind::Round { plan, is_chunk: true };
        plan.is_one_piece().then_some(Chosen { way, at_once, flow, bytes })
    }

    /// The name of the way, and in how many chunks data goes each way between two members.
    #[must_use]
    pub fn way(&self) -> (&'static str, [u32; 2]) {
        match &self.way {
            Kind::Round { plan, .. } => (if plan.fits() { "slots" } else { "one chunk" }, [0; 2]),
            Kind::Tree(_) => ("slots up a tree", [0; 2]),
            Kind::Chunks { lengths, .. } => ("chunks of two", lengths.pieces()),
            Kind::Several(_) => ("chunks of several", [0; 2]),
            Kind::Pairs(_) | Kind::PairOfTwo(_) => ("slots of pairs", [0; 2]),
            Kind::PairsInChunks { lengths, .. } => ("chunks of two", lengths.pieces()),
        }
    }

    /// Whether data goes in chunks between two members.
    #[must_use]
    pub fn is_in_chunks_of_two(&self) -> bool {
        matches!(self.way, Kind::Chunks { .. } | Kind::PairsInChunks { .. })
    }

    /// What does not go through the segment: the blocks that are too long for slots, as an operation of its own. The outer `None` where
    /// all goes through it; the inner one where this member has no such block, though others may have.
    #[must_use]
    pub fn rest(&self) -> Option<Option<Rest>> {
        match self.way {
            Kind::Pairs(pairs) => Some(pairs.rest()),
            Kind::PairOfTwo(_) => Some(None),
            _ => None,
        }
    }

    /// Carries the operation out in this way, in a visit that has begun.
    ///
    /// # Errors
    /// When a member has failed, or what members do does not fit together.
    #[inline(always)]
    pub fn carry<M: Member>(
        &self,
        visit: &mut Visit<'_, M>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        match &self.way {
            Kind::Round { plan, is_chunk } => match plan.of_two() {
                Some(two) if !is_chunk => visit.carry_of_two(two, input, output, combining),
                _ => visit.carry_out(plan, *is_chunk, input, output, combining),
            },
            Kind::Tree(plan) => visit.carry_in_tree(plan, input, output, combining),
            Kind::Chunks { plan, lengths } => visit.carry_pieces(plan, *lengths, input, output, combining),
            Kind::Several(plan) => visit.carry_among_several(plan, input, output, combining),
            Kind::Pairs(pairs) => visit.exchange(pairs, input, output),
            Kind::PairOfTwo(two) => visit.carry_of_two(*two, input, output, combining),
            Kind::PairsInChunks { pairs, lengths } => visit.exchange_pieces(pairs, *lengths, input, output),
        }
    }
}

/// What goes in chunks between two members, which both work at it.
#[inline(always)]
fn in_chunks(what: Option<Carried>, setting: &Setting<impl Fn() -> bool>) -> Option<Carried> {
    what.filter(|carried| !carried.wants_quick || (setting.are_copies_quick)())
}
