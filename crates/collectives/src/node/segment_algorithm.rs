//! Which operations go through the segment, and how.

use fabric::{Payload, UserMemory};
use messaging::Rank;

use super::chunking::{ChunkedTransfer, TransferLengths};
use super::pairwise::{LongBlocks, PairwiseBlocks};
use super::plan::{SegmentPlan, Use};
use super::segment_choices::SegmentChoices;
use super::segment_state::Flow;
use super::tree::TREE_FROM;
use super::{Combine, Result, SegmentMember, SegmentOperation};
use crate::cost_model::{CostModel, SegmentRound};
use crate::{Collective, Cores, Listed, Shape};

/// What one member does in an operation: what it gives, what it gets, and what becomes of that. It is made
/// where it is used and never moved: a move of so much that was written just before takes longer than all the
/// rest of a short operation.
pub struct MemberRole<'a>(RoleKind<'a>);

enum RoleKind<'a> {
    /// All members know how long all blocks are.
    Plan(SegmentPlan<'a>),
    /// Of each block its two ends alone know how long it is.
    Pairs(PairwiseBlocks<'a>),
}

/// How one operation goes through the segment; the same at all members.
#[derive(Clone, Copy)]
pub struct SegmentAlgorithm {
    way: SegmentPath,
    /// Whether a segment is worth its memory for the first such operation already, so that sums are always
    /// made in one order.
    pub at_once: bool,
    /// Which way data flows between two members.
    pub flow: Flow,
    /// Of two members, how many bytes may go by a message all the same, where data goes one way time after
    /// time.
    pub bytes: usize,
}

#[derive(Clone, Copy)]
enum SegmentPath {
    /// One slot of each member. Of pairs, what is too long for these is [left](MemberRole::rest).
    Slots,
    /// One chunk of each member.
    Chunk,
    /// One slot of each member, in a tree.
    Tree,
    /// Chunks of two members.
    Chunks(TransferLengths),
    /// Chunks of several members; of sums, each member combines a slice of each chunk.
    Several,
    /// Chunks of several members, of which one combines a sum of one chunk for all.
    GatherBroadcast,
}

/// Where an operation is to be done: what decides how it goes, the same at all members.
#[derive(Clone, Copy)]
pub struct ChoiceInputs<'a, S> {
    /// This member.
    pub here: Rank,
    /// How many members there are.
    pub size: u32,
    /// Whether members share cores.
    pub cores: Cores,
    /// What was decided before between the segment and messages.
    pub choices: &'a SegmentChoices,
    /// This member's place in operations by messages.
    pub shape: S,
}

impl<'a> MemberRole<'a> {
    /// What a member does; `None` where the operation never goes through segments.
    #[inline(always)]
    #[must_use]
    pub fn of(
        collective: Collective,
        setting: &ChoiceInputs<'_, impl Fn() -> Shape>,
    ) -> Option<MemberRole<'a>> {
        Some(MemberRole(RoleKind::Plan(SegmentPlan::of(collective, setting.here, setting.size)?)))
    }

    /// What a member does in an operation with blocks that differ in length.
    #[inline(always)]
    #[must_use]
    pub fn listed(
        listed: Listed<'a>,
        setting: &ChoiceInputs<'_, impl Fn() -> Shape>,
    ) -> Option<MemberRole<'a>> {
        Some(MemberRole(match PairwiseBlocks::of(listed, setting.here, setting.size) {
            Some(pairs) => RoleKind::Pairs(pairs),
            None => RoleKind::Plan(SegmentPlan::listed(listed, setting.here, setting.size)?),
        }))
    }

    /// How the operation goes; `None` where it goes by messages.
    #[inline(always)]
    #[must_use]
    pub fn chosen(&self, setting: &ChoiceInputs<'_, impl Fn() -> Shape>) -> Option<SegmentAlgorithm> {
        match &self.0 {
            RoleKind::Plan(plan) => SegmentAlgorithm::by_plan(plan, setting),
            RoleKind::Pairs(pairs) => SegmentAlgorithm::of_pairs(pairs, setting),
        }
    }

    /// What does not go through the segment: the blocks that are too long for slots, as an operation of its
    /// own. The outer `None` where all goes through it; the inner one where this member has no such block,
    /// though others may have.
    #[must_use]
    pub fn rest(&self, chosen: &SegmentAlgorithm) -> Option<Option<LongBlocks>> {
        match (&self.0, chosen.way) {
            (RoleKind::Pairs(pairs), SegmentPath::Slots) if pairs.of_two().is_some() => Some(None),
            (RoleKind::Pairs(pairs), SegmentPath::Slots) => Some(pairs.rest()),
            _ => None,
        }
    }

    /// Carries the operation out in that way, in an operation that has begun.
    ///
    /// # Errors
    /// When a member has failed, or what members do does not fit together.
    #[inline(always)]
    pub fn carry<M: SegmentMember>(
        &self,
        chosen: &SegmentAlgorithm,
        operation: &mut SegmentOperation<'_, M>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        match (&self.0, chosen.way) {
            (RoleKind::Plan(plan), SegmentPath::Slots | SegmentPath::Chunk) => match plan.of_two() {
                Some(two) => operation.carry_of_two(two, input, output, combining),
                None => {
                    let is_chunk = matches!(chosen.way, SegmentPath::Chunk);
                    operation.carry_out(plan, is_chunk, input, output, combining)
                }
            },
            (RoleKind::Plan(plan), SegmentPath::Tree) => {
                operation.carry_in_tree(plan, input, output, combining)
            }
            (RoleKind::Plan(plan), SegmentPath::Chunks(lengths)) => {
                operation.carry_chunks(plan, lengths, input, output, combining)
            }
            (RoleKind::Plan(plan), SegmentPath::Several) => {
                operation.carry_among_several(plan, input, output, combining)
            }
            (RoleKind::Plan(plan), SegmentPath::GatherBroadcast) => {
                operation.carry_by_gather_broadcast(plan, input, output, combining)
            }
            (RoleKind::Pairs(pairs), SegmentPath::Chunks(lengths)) => {
                operation.exchange_chunks(pairs, lengths, input, output)
            }
            (RoleKind::Pairs(pairs), _) => match pairs.of_two() {
                Some(two) => operation.carry_of_two(two, input, output, combining),
                None => operation.exchange(pairs, input, output),
            },
        }
    }
}

impl SegmentAlgorithm {
    /// How an operation goes; `None` where it goes by messages.
    #[must_use]
    pub fn of(
        collective: Collective,
        setting: &ChoiceInputs<'_, impl Fn() -> Shape>,
    ) -> Option<SegmentAlgorithm> {
        MemberRole::of(collective, setting)?.chosen(setting)
    }

    #[inline(always)]
    fn of_pairs(
        pairs: &PairwiseBlocks<'_>,
        setting: &ChoiceInputs<'_, impl Fn() -> Shape>,
    ) -> Option<SegmentAlgorithm> {
        let (at_once, flow) = (false, pairs.flow());
        if let Some(ChunkedTransfer { lengths, passed_bytes }) = pairs.in_chunks() {
            return Some(SegmentAlgorithm {
                way: SegmentPath::Chunks(lengths),
                at_once,
                flow,
                bytes: passed_bytes,
            });
        }
        // Of two members both know that nothing goes by a slot.
        if setting.size == 2 && pairs.are_all_long() {
            return None;
        }
        Some(SegmentAlgorithm { way: SegmentPath::Slots, at_once, flow, bytes: pairs.passed_bytes() })
    }

    #[inline(always)]
    pub(super) fn by_plan(
        plan: &SegmentPlan<'_>,
        setting: &ChoiceInputs<'_, impl Fn() -> Shape>,
    ) -> Option<SegmentAlgorithm> {
        let (flow, at_once, bytes) = (plan.flow(), plan.goes_up_tree(), plan.longest_bytes());
        if plan.fits() {
            let is_same_for_all = plan.is_same_for_all() || matches!(plan.then, Use::Nothing);
            let is_tree = setting.size >= TREE_FROM && setting.cores == Cores::Own && is_same_for_all;
            let way = if is_tree { SegmentPath::Tree } else { SegmentPath::Slots };
            // Of a reduce one member combines all, and by messages several do so on their way.
            let serves = !plan.goes_up_tree() || setting.best(plan).is_some();
            return serves.then_some(SegmentAlgorithm { way, at_once, flow, bytes });
        }
        if plan.is_one_round() {
            return Some(SegmentAlgorithm { way: SegmentPath::Chunk, at_once, flow, bytes });
        }
        if let Some(ChunkedTransfer { lengths, passed_bytes }) = plan.in_chunks() {
            return Some(SegmentAlgorithm {
                way: SegmentPath::Chunks(lengths),
                at_once: false,
                flow,
                bytes: passed_bytes,
            });
        }
        let way = setting.best(plan)?;
        let at_once = matches!(plan.then, Use::Combined(_));
        Some(SegmentAlgorithm { way, at_once, flow, bytes })
    }

    /// The name of the way, and in how many chunks data goes each way between two members.
    #[must_use]
    pub fn way(&self) -> (&'static str, [u32; 2]) {
        match self.way {
            SegmentPath::Slots => ("slots", [0; 2]),
            SegmentPath::Chunk => ("one chunk", [0; 2]),
            SegmentPath::Tree => ("slots up a tree", [0; 2]),
            SegmentPath::Chunks(lengths) => ("chunks of two", lengths.chunks()),
            SegmentPath::Several => ("chunks of several", [0; 2]),
            SegmentPath::GatherBroadcast => ("one chunk, combined by one", [0; 2]),
        }
    }

    /// What the operation is predicted to take this way, in nanoseconds; `None` where no choice looks at
    /// that: of two members, and up a tree.
    #[must_use]
    pub fn predicted_ns(&self, collective: Collective, shape: &Shape) -> Option<f64> {
        let plan = SegmentPlan::of(collective, shape.rank(), shape.size()).filter(|plan| plan.size > 2)?;
        let is_weighed = !matches!(self.way, SegmentPath::Tree);
        let model = CostModel::of(shape);
        is_weighed.then(|| model.through_segment_ns(&self.way.rounds(&plan)))
    }

    /// Whether data goes in chunks between two members.
    #[must_use]
    pub fn is_in_chunks_of_two(&self) -> bool {
        matches!(self.way, SegmentPath::Chunks(_))
    }
}

impl<S: Fn() -> Shape> ChoiceInputs<'_, S> {
    /// The way through the segment that is predicted to take least; `None` where messages take less.
    #[inline]
    fn best(&self, plan: &SegmentPlan<'_>) -> Option<SegmentPath> {
        let rounds = |bytes| {
            let plan = plan.with_bytes(bytes);
            SegmentPath::all(&plan).map(|way| Some(way?.rounds(&plan)))
        };
        let best = self.choices.best(plan.operation, plan.asked(), &self.shape, rounds)?;
        SegmentPath::all(plan)[best]
    }
}

impl SegmentPath {
    /// How an operation of three and more members may go through the segment.
    fn all(plan: &SegmentPlan<'_>) -> [Option<SegmentPath>; 2] {
        if plan.fits() {
            return [Some(SegmentPath::Slots), None];
        }
        if plan.goes_among_several() {
            let is_one_sum = plan.is_same_for_all() && plan.longest_bytes() <= plan.several_chunk_bytes();
            return [Some(SegmentPath::Several), is_one_sum.then_some(SegmentPath::GatherBroadcast)];
        }
        [plan.is_one_chunk().then_some(SegmentPath::Chunk), None]
    }

    /// What members do in this way, round by round.
    fn rounds(self, plan: &SegmentPlan<'_>) -> Vec<SegmentRound> {
        match self {
            SegmentPath::Several => plan.rounds_of_several(),
            SegmentPath::GatherBroadcast => plan.rounds_by_gather_broadcast().to_vec(),
            SegmentPath::Slots | SegmentPath::Chunk | SegmentPath::Tree | SegmentPath::Chunks(_) => {
                vec![plan.round()]
            }
        }
    }
}
