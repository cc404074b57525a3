//! An operation of one round that goes on after the call that began it: this member's part in it, which is
//! polled.
//!
//! A member writes its slot when it begins the operation, so no member waits for another's next call: with
//! the last member that begins it, all that is left for the others is to look. Each has consumed the
//! operation when it has looked at all slots that are for it.

use fabric::slots::{Credit, Slots, is_room};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::chunking::is_whole;
use super::plan::{SegmentPlan, Sources, others};
use super::segment_state::Flow;
use super::{ChoiceInputs, Combine, Fault, Result, SegmentAlgorithm, deliver, finds_room};
use crate::memory::reading;
use crate::{Block, Buffers, Collective, Shape};

/// A member's part in an operation that can be [`NonblockingOperation`].
#[derive(Clone, Copy)]
pub struct NonblockingPlan(SegmentPlan<'static>);

/// This member's part in one operation, as far as it has come.
pub struct NonblockingOperation {
    plan: SegmentPlan<'static>,
    number: u32,
    input: Payload<'static>,
    output: UserMemory,
    /// Whether this member's slot has still to be written.
    owes: bool,
    /// How many of the slots that are for this member were seen.
    heard: usize,
}

impl NonblockingPlan {
    /// `None` where an operation does not fit slots, and goes by messages.
    #[inline(always)]
    #[must_use]
    pub fn of(
        collective: Collective,
        setting: &ChoiceInputs<'_, impl Fn() -> Shape>,
    ) -> Option<NonblockingPlan> {
        let plan = SegmentPlan::of(collective, setting.here, setting.size).filter(SegmentPlan::fits)?;
        SegmentAlgorithm::by_plan(&plan, setting).map(|_| NonblockingPlan(plan))
    }

    /// Of two members, which way data flows.
    #[inline(always)]
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.0.flow()
    }

    /// Begins the operation and returns its number.
    #[inline(always)]
    pub fn begin(&self, credit: &mut Credit) -> u32 {
        // The others look at a slot when they like. A member that writes none has nothing that they could
        // look at.
        if self.0.gives { credit.begin_pending() } else { credit.begin() }
    }

    /// The slots that this member has seen in the operation, which was the last that began, tell how far
    /// their writers are.
    #[inline(always)]
    pub fn credit(&self, credit: &mut Credit) {
        match self.0.hears {
            Sources::Others => credit.heard_all(),
            Sources::One(_) | Sources::Lower => credit.heard_one(),
            Sources::Nobody => {}
        }
    }
}

impl NonblockingOperation {
    /// The operation of that number, in which this member has written nothing yet.
    #[inline(always)]
    #[must_use]
    pub fn new(
        plan: NonblockingPlan,
        number: u32,
        Buffers { input, mut output }: Buffers,
    ) -> NonblockingOperation {
        let plan = plan.0;
        if let Some(place) = plan.kept() {
            let Block { offset, bytes } = plan.own();
            output.write_at(place, input.part(offset, bytes));
        }
        NonblockingOperation { plan, number, input, output, owes: plan.gives, heard: 0 }
    }

    /// Whether this member's slot has still to be written.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.owes
    }

    /// Writes this member's slot, if all members have consumed the one that it reuses, as `credit` knows or a
    /// look tells.
    #[inline(always)]
    pub fn begin(&mut self, slots: &impl Slots, credit: &mut Credit) {
        if self.owes && finds_room(slots, credit, self.number, others(self.plan.here, self.plan.size)) {
            self.give(slots);
        }
    }

    /// What this member contributes.
    fn contribution(&self) -> Payload<'static> {
        if self.plan.is_loaded { reading(&self.output) } else { self.input }
    }

    fn give(&mut self, slots: &impl Slots) {
        let contribution = self.contribution();
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        slots.put(self.number, self.plan.entry().map(part));
        slots.wake();
        self.owes = false;
    }

    /// Goes as far as it can without a look at data: writes this member's slot, and looks for those that are
    /// for it. When all of these are there, the data is to be [received](NonblockingOperation::receive).
    #[inline]
    pub fn poll(&mut self, slots: &impl Slots) -> Option<Result<()>> {
        let (number, plan) = (self.number, self.plan);
        if self.owes {
            if !others(plan.here, plan.size).all(|peer| is_room(number, slots.consumed(peer.0))) {
                return None;
            }
            self.give(slots);
        }
        for from in plan.writers().skip(self.heard) {
            let expected_bytes = plan.heard(from).0;
            // Of more than two members the lines behind the first would be taken away from writers that are
            // at work on them.
            let in_slot = if plan.size == 2 { expected_bytes } else { 0 };
            if !slots.has_all(from.0, number, in_slot) {
                return None;
            }
            let announced = slots.announced(from.0, number);
            if !is_whole(announced, expected_bytes) {
                let sent_bytes = announced[0] as usize;
                return Some(Err(match sent_bytes == expected_bytes {
                    true => Fault::Elsewhere(from),
                    false => Fault::misled(from, sent_bytes, expected_bytes),
                }));
            }
            self.heard += 1;
        }
        Some(Ok(()))
    }

    /// Copies or combines what the slots hold for this member, all of which are there. `scratch` is where
    /// contributions are combined.
    #[inline]
    pub fn receive(&mut self, slots: &impl Slots, combining: impl Combine, scratch: &mut Option<Heap>) {
        let plan = self.plan;
        let Block { offset, bytes } = plan.own();
        let own = self.contribution().part(offset, bytes);
        deliver(slots, self.number, &plan, own, combining, scratch, &mut self.output);
    }

    /// Whether this member receives anything.
    #[must_use]
    pub fn receives(&self) -> bool {
        self.plan.hears != Sources::Nobody
    }

    /// The members whose slots this one has not seen yet.
    pub fn unheard(&self) -> impl Iterator<Item = Rank> + use<> {
        self.plan.writers().skip(self.heard)
    }

    /// The members that this one waits for: all others where its own slot has no room, and otherwise those
    /// whose slots are not there.
    #[must_use]
    pub fn awaited(&self, slots: &impl Slots) -> Vec<Rank> {
        match self.owes {
            true => others(self.plan.here, self.plan.size).collect(),
            false => self.plan.writers().filter(|from| !slots.has(from.0, self.number)).collect(),
        }
    }
}
