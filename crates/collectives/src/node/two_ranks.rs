//! Operations of one round of two members: the plan in few numbers, which the compiler knows where the
//! operation is known. Every step of these counts (decisions/0005, 0004).

use fabric::slots::{Chunk, Ring, SLOT_BYTES_MAX, Slots};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::chunking::{ENTRY_BYTES_MAX, is_whole};
use super::plan::{Operands, ROOM_BYTES, SegmentPlan};
use super::segment_state::Flow;
use super::{Combine, Result, SegmentMember, SegmentOperation};
use crate::memory::reading;
use crate::{Block, Collective};

/// What one of two members does. Nothing of it is lent to a function that is not a part of its caller, or all
/// of it would stand in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoRankPlan {
    /// Whether this member sends the other one anything.
    pub gives: bool,
    /// The block that this member sends, in the buffer that its contribution stands in.
    pub give: Block,
    /// Whether this member receives anything.
    pub gets: bool,
    /// Where the received block goes in this member's output, in bytes.
    pub place: usize,
    /// Length of the received block, in bytes.
    pub got_bytes: usize,
    /// This member's contribution for itself.
    pub own: Block,
    /// Where the contribution for itself goes in this member's output, in bytes, if it must be copied there.
    pub kept: Option<usize>,
    /// Whether this member's contribution stands in its output.
    pub is_loaded: bool,
    /// Which contributions are combined, and in which order; `None` where none are.
    pub operands: Option<Operands>,
    /// The longest block of both.
    pub longest_bytes: usize,
}

impl TwoRankPlan {
    /// What member `here` of two does in `collective`; `None` where the operation does not go in one round.
    #[inline(always)]
    #[must_use]
    pub fn of(collective: Collective, here: Rank) -> Option<TwoRankPlan> {
        // Who has cores of its own or not makes a difference for more members alone.
        SegmentPlan::of(collective, here, 2)?.of_two()
    }

    /// Which way data flows.
    #[inline(always)]
    #[must_use]
    pub fn flow(&self) -> Flow {
        let is_some = self.longest_bytes > 0;
        Flow { gives: is_some && self.gives, gets: is_some && self.gets }
    }
}

impl<M: SegmentMember> SegmentOperation<'_, M> {
    /// Does an operation of one round of two members: writes this member's slot, or sends its only chunk, and
    /// reads the other's.
    ///
    /// # Errors
    /// When the peer has failed, or sends what does not fit.
    #[inline(always)]
    pub fn carry_of_two(
        &mut self,
        two: TwoRankPlan,
        input: Payload<'_>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let TwoRankPlan {
            gives,
            give,
            gets,
            place,
            got_bytes,
            own,
            kept,
            is_loaded,
            operands,
            longest_bytes,
        } = two;
        // Slots of few lines are as quick, and so are longer ones that go on behind each other.
        let in_entry_max = if self.goes_on_behind { SLOT_BYTES_MAX } else { ENTRY_BYTES_MAX };
        let is_chunk = longest_bytes > in_entry_max;
        if is_chunk {
            self.begin_chunks(Ring::Short, 1, gives)?;
        }
        let (number, next) = (self.number, self.number.wrapping_add(1));
        let in_entry = if is_chunk { 0 } else { longest_bytes };
        let contribution = if is_loaded { reading(output) } else { input };
        // Shown as early as can be: the rest is done while the lines are on their way.
        if gives {
            self.give([contribution.part(give.offset, give.bytes), Payload::EMPTY], is_chunk)?;
        }
        let own = contribution.part(own.offset, own.bytes);
        if let Some(place) = kept {
            output.write_at(place, own);
        }
        if !gets {
            if self.turn.credit.has_room(next) {
                self.segment().prefetch_own(next, in_entry);
            }
            return Ok(());
        }
        let other = 1 - self.of.rank().0;
        if gives {
            self.segment().wake();
        } else {
            self.segment().prefetch(other, next, in_entry);
        }
        self.hear_other(other, got_bytes, in_entry)?;
        self.turn.credit.heard_all();
        // As its slot says that the other has given it.
        let [_, chunks] = self.segment().announced(other, number);
        if chunks > 0 {
            self.take_chunk(output.part(place, got_bytes), operands, own, is_loaded, combining);
            return Ok(());
        }
        let (segment, scratch) = (self.of.slots(), &mut self.turn.room);
        match operands {
            None => segment.read(other, number, got_bytes, |theirs| _ = output.write_at(place, theirs)),
            Some(operands) => segment.read(other, number, got_bytes, |theirs| {
                let out = &mut output.part(0, got_bytes);
                combine(operands, own, is_loaded, theirs, combining, scratch, out);
            }),
        }
        Ok(())
    }

    /// Takes the other's only chunk.
    #[inline(never)]
    fn take_chunk(
        &mut self,
        mut out: UserMemory,
        operands: Option<Operands>,
        own: Payload<'_>,
        is_loaded: bool,
        combining: impl Combine,
    ) {
        let (other, number) = (1 - self.of.rank().0, self.number);
        let (segment, scratch) = (self.of.slots(), &mut self.turn.room);
        let chunk = Chunk { ring: Ring::Short, member: other, number };
        segment.read_chunk(chunk, 0..out.bytes(), |theirs| match operands {
            None => _ = out.write_at(0, theirs),
            Some(operands) => combine(operands, own, is_loaded, theirs, combining, scratch, &mut out),
        });
    }

    /// Waits for the slot of the other of two members, so much of which stands in the slot itself.
    #[inline(always)]
    fn hear_other(&mut self, other: u32, bytes: usize, in_entry: usize) -> Result<()> {
        let (segment, number) = (self.of.slots(), self.number);
        // Two closures, so that the first one becomes a part of this.
        let is_soon = segment.has_all(other, number, in_entry)
            || self.of.is_soon(|| segment.has_all(other, number, in_entry));
        if is_soon && is_whole(segment.announced(other, number), bytes) {
            return Ok(());
        }
        self.hear_other_late(other, bytes)
    }

    /// Waits for the slot of the other of two members, where that is not there soon, or does not announce
    /// `bytes` bytes.
    #[cold]
    #[inline(never)]
    fn hear_other_late(&mut self, other: u32, bytes: usize) -> Result<()> {
        self.hear_late(Rank(other), bytes, &|from| (from == Rank(other)).then_some(bytes))
    }
}

/// Combines the contributions of two members where they stand, but for this member's own where it is to be
/// written over.
#[inline(always)]
pub(super) fn combine(
    operands: Operands,
    own: Payload<'_>,
    is_loaded: bool,
    theirs: Payload<'_>,
    combining: impl Combine,
    scratch: &mut Option<Heap>,
    out: &mut UserMemory,
) {
    if is_loaded {
        return combine_aside(operands, own, theirs, combining, scratch, out);
    }
    match operands {
        Operands::OwnBeforeTheirs => combining.combine(own, Some(theirs), out),
        Operands::TheirsBeforeOwn => combining.combine(theirs, Some(own), out),
        Operands::TheirsAlone => _ = out.write_at(0, theirs),
        Operands::OwnAlone => _ = out.write_at(0, own),
    }
}

/// Combines the contributions of two members, of which this member's own stands where the result goes: a copy
/// of it in `scratch` is combined, of at most [`ROOM_BYTES`] bytes.
#[inline(never)]
fn combine_aside(
    operands: Operands,
    own: Payload<'_>,
    theirs: Payload<'_>,
    combining: impl Combine,
    scratch: &mut Option<Heap>,
    out: &mut UserMemory,
) {
    let heap = scratch.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
    heap.memory().write_at(0, own);
    let own = heap.payload().part(0, own.bytes());
    combine(operands, own, false, theirs, combining, &mut None, out);
    *scratch = Some(heap);
}
