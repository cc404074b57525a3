//! Collective operations of the members of one node through a segment with slots ([`fabric::slots`]), instead
//! of by messages.
//!
//! A [`MemberRole`] is what one member does in an operation. [`SegmentAlgorithm`] is how the operation goes
//! through the segment, which its lengths and the number of members decide; all members decide alike.
//! [`SegmentOperation`] carries the operation out, from the first slot that this member writes to the last
//! that it consumes; [`NonblockingOperation`] does so piecewise, for nonblocking operations. Both reach
//! shared memory through [`Slots`] alone, and everything else through [`SegmentMember`]: who this member is,
//! how it waits and what ends its wait. So the same code runs over a job's shared memory and over the plain
//! memory of the simulation, where every order of steps and every death can be tried.
//!
//! | module | what it knows |
//! |---|---|
//! | `segment_algorithm` | which operation goes how, and which one does not go through the segment |
//! | `plan`, `two_ranks` | one round: what a member's slot holds, whose slots it reads, what becomes of them |
//! | `pairwise`, `neighbour_exchange` | blocks whose lengths only their two ends know; neighbours of a topology of two |
//! | `chunking`, `long_data`, `pipelined_transfer` | long data of two members in chunks, both ways at once |
//! | `tree` | sums and barriers of many members that have cores of their own |
//! | `n_ranks` | long data of three and more, in chunks |
//! | `segment_choices` | whether three and more go through the segment or by messages, by what both are predicted to take |
//! | `fault` | why an operation fails |
//! | `tuners` | which of two ways each of these goes, by what both took ([`fabric::tuner`]) |
//! | `nonblocking` | an operation of one round that goes on after the call that began it |

pub mod chunking;
mod fault;
mod long_data;
pub mod n_ranks;
mod neighbour_exchange;
mod nonblocking;
mod pairwise;
mod pipelined_transfer;
mod plan;
mod segment_algorithm;
mod segment_choices;
mod segment_state;
mod tree;
pub mod tuners;
mod two_ranks;

use fabric::slots::{Credit, DEPTH, Ring, Slots, is_before, is_room};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

pub use fabric::slots::MEMBERS_MAX;

use self::chunking::is_whole;
pub use self::fault::{Fault, Result};
pub use self::neighbour_exchange::NeighbourExchange;
pub use self::nonblocking::{NonblockingOperation, NonblockingPlan};
pub use self::pairwise::LongBlocks;
use self::pairwise::PairwiseBlocks;
pub use self::plan::{Operands, others};
use self::plan::{ROOM_BYTES, SegmentPlan, Sources, Use};
pub use self::segment_algorithm::{ChoiceInputs, MemberRole, SegmentAlgorithm};
pub use self::segment_choices::SegmentChoices;
pub use self::segment_state::{Flow, SegmentState};
pub use self::two_ranks::TwoRankPlan;
use crate::Block;
use crate::memory::reading;

/// One member of a segment, as its operations need it: who it is, and how it waits.
///
/// A job implements it by its progress engine, the simulation by a scheduler of its own.
pub trait SegmentMember: Copy {
    /// Its side of the segment.
    type Slots: Slots;

    /// Its side of the segment.
    fn slots(&self) -> &Self::Slots;

    /// Its index in the segment.
    fn rank(self) -> Rank;

    /// How many members the segment has.
    fn size(self) -> u32;

    /// Asks `so` a few times, for what a peer that runs at the same time writes soon. True where it came
    /// true.
    fn is_soon(self, so: impl FnMut() -> bool) -> bool;

    /// Asks `so` a few times, for what a peer writes at once. True where it came true.
    fn is_at_once(self, so: impl FnMut() -> bool) -> bool;

    /// Waits until `so` holds in the operation of `number`, where this member has written all of its slots up
    /// to `written`. `owes` tells which peers owe a slot of that number, and of what length; it is `None`
    /// where the member waits for peers to consume.
    ///
    /// # Errors
    /// [`Fault::Elsewhere`] of a peer that owes a slot and will never write it ([`Slots::will_not_write`]),
    /// and [`Fault::Closed`].
    fn wait(
        self,
        number_written: [u32; 2],
        owes: Option<&dyn Fn(Rank) -> Option<usize>>,
        so: &dyn Fn(&Self::Slots) -> bool,
    ) -> Result<()>;

    /// Whether nothing comes any more: a member has failed, or the communicator is revoked.
    fn is_closed(self) -> bool;

    /// Makes progress elsewhere: a program may do nothing but collective operations.
    fn progress(self);

    /// Publishes that this member has consumed the operation of that number, as far as no pending one is
    /// older.
    fn leave(self, number: u32);

    /// The operation is over, of which that is the last number; [`SegmentMember::leave`] has been called.
    fn is_over(self, turn: &mut SegmentState);

    /// Nanoseconds of a clock that does not go back.
    fn now_ns(self) -> u64;

    /// The bytes of the second-level cache of a core, where they are known.
    fn second_cache_bytes(self) -> Option<usize>;
}

/// How an operation combines packed elements.
pub trait Combine: Copy {
    /// Sets `out` to `left` op `right`, or to `left` op `out` where there is no `right`, as far as all of
    /// them reach. `out` overlaps neither.
    fn combine(self, left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory);
}

/// What a member has begun, as far as others can see: the last operation through the segment, and how many by
/// messages.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveProgress {
    /// The number of the operation through the segment.
    pub number: u32,
    /// How many operations by messages.
    pub by_messages: u32,
}

impl CollectiveProgress {
    /// A peer that owes a slot of this number and will never write it.
    pub fn absent(self, of: impl SegmentMember, owes: &dyn Fn(Rank) -> Option<usize>) -> Option<Rank> {
        let will_not = |from: Rank| of.slots().will_not_write(from.0, self.number, self.by_messages);
        others(of.rank(), of.size()).find(|&from| owes(from).is_some() && will_not(from))
    }
}

/// One operation through the segment. This member has consumed all of its numbers when the operation is
/// dropped.
pub struct SegmentOperation<'a, M: SegmentMember> {
    of: M,
    turn: &'a mut SegmentState,
    number: u32,
    /// Of two members: data goes from one to the other, one operation behind the other.
    goes_on_behind: bool,
    /// This member hears others before it writes its own slot.
    has_yet_to_write: bool,
}

impl<'a, M: SegmentMember> SegmentOperation<'a, M> {
    /// The next operation, about to [begin](SegmentOperation::begin), in which data flows so and at most
    /// `bytes` bytes go one way. `None` where it goes by a message, or this member has left the segment.
    #[inline(always)]
    pub fn enter(
        of: M,
        turn: &'a mut SegmentState,
        flow: Flow,
        bytes: usize,
    ) -> Option<SegmentOperation<'a, M>> {
        if turn.has_left || turn.is_message(flow, bytes) {
            return None;
        }
        let goes_on_behind = flow.goes_on_behind(turn.last);
        turn.note(flow);
        Some(SegmentOperation {
            of,
            number: turn.credit.next(),
            turn,
            goes_on_behind,
            has_yet_to_write: false,
        })
    }

    /// Begins the operation.
    ///
    /// # Errors
    /// When a member has failed.
    #[inline(always)]
    pub fn begin(&mut self) -> Result<()> {
        self.turn.credit.begin();
        if is_turn_due(self.number) { self.make_turn() } else { Ok(()) }
    }

    /// A turn of progress is due, and perhaps a renewal.
    #[cold]
    fn make_turn(&mut self) -> Result<()> {
        self.of.progress();
        if self.turn.owes_renewal || Credit::is_renewal_due(self.number) {
            return self.renew();
        }
        Ok(())
    }

    #[cold]
    fn renew(&mut self) -> Result<()> {
        let last = self.number.wrapping_sub(1);
        self.await_all(|through| !is_before(through, last))?;
        self.turn.credit.renewed();
        self.turn.owes_renewal = false;
        self.segment().renew(self.number);
        Ok(())
    }

    /// Writes this member's slot, or gives its only chunk, and reads what is for it.
    fn carry_out(
        &mut self,
        plan: &SegmentPlan<'_>,
        is_chunk: bool,
        input: Payload<'_>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let contribution = if plan.is_loaded { reading(output) } else { input };
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        // Shown as early as can be: the rest is done while the lines are on their way.
        if plan.gives {
            self.give(plan.entry().map(part), is_chunk)?;
        }
        if let Some(place) = plan.kept() {
            output.write_at(place, part(plan.own()));
        }
        if plan.hears == Sources::Nobody {
            return Ok(());
        }
        if plan.gives {
            self.segment().wake();
        }
        let owes = |rank: Rank| plan.writers().any(|from| from == rank).then(|| plan.heard(rank).0);
        plan.writers().try_for_each(|from| self.hear(from, plan.heard(from).0, &owes))?;
        match plan.hears {
            Sources::Others => self.turn.credit.heard_all(),
            _ => self.turn.credit.heard_one(),
        }
        deliver(self.of.slots(), self.number, plan, part(plan.own()), combining, &mut self.turn.room, output);
        Ok(())
    }

    /// Exchanges the blocks that go by slots; a member's own as well where these are all, since it is copied
    /// beside messages else.
    fn exchange(
        &mut self,
        pairs: &PairwiseBlocks<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let contribution = if pairs.is_loaded() { reading(output) } else { input };
        if pairs.writes() {
            self.await_room(DEPTH)?;
            pairs.write(self.segment(), self.number, contribution);
            self.segment().wake();
        }
        if let Some([own, place]) = pairs.kept().filter(|_| !pairs.has_long()) {
            output.write_at(place.offset, contribution.part(own.offset, own.bytes));
        }
        let mut heard = 0;
        for from in others(self.of.rank(), self.of.size()) {
            let Some(block) = pairs.heard(from) else { continue };
            let entry_bytes = pairs.entry_bytes(block.bytes);
            let owes = |from| pairs.heard(from).map(|block| pairs.entry_bytes(block.bytes));
            self.hear(from, entry_bytes, &owes)?;
            let sent_bytes = self.segment().read_either(from.0, self.number, entry_bytes, |entry| {
                let (sent_bytes, data) = pairs.find(from, entry);
                if sent_bytes == block.bytes {
                    output.write_at(block.offset, data);
                }
                sent_bytes
            });
            if sent_bytes != block.bytes {
                return Err(Fault::mismatch(from, sent_bytes, block.bytes));
            }
            heard += 1;
        }
        match heard {
            0 => {}
            all if all == self.of.size() - 1 => self.turn.credit.heard_all(),
            _ => self.turn.credit.heard_one(),
        }
        Ok(())
    }

    /// Writes this member's slot, or gives its only chunk, when all members are through with what stood
    /// there.
    #[inline(always)]
    fn give(&mut self, parts: [Payload<'_>; 2], is_chunk: bool) -> Result<()> {
        let ahead = if is_chunk { Ring::Short.round(self.of.size()) } else { DEPTH };
        self.await_room(ahead)?;
        if is_chunk {
            let bytes = parts[0].bytes() + parts[1].bytes();
            self.segment().send_chunk(Ring::Short, self.number, [bytes as u32, 1], parts);
        } else {
            self.segment().put(self.number, parts);
        }
        Ok(())
    }

    /// Waits until all members are through with what was written so many numbers before.
    #[inline(always)]
    fn await_room(&mut self, ahead: u32) -> Result<()> {
        let has_room = self.turn.credit.has_room_behind(self.number, ahead);
        if has_room { Ok(()) } else { self.await_room_long(ahead) }
    }

    #[cold]
    fn await_room_long(&mut self, ahead: u32) -> Result<()> {
        // The other of two takes what this one gives ahead of it, and each look takes from it the line in
        // which it says how far it is: so a few looks wait until half of all slots are free.
        if self.of.size() == 2 && ahead == DEPTH {
            let (of, other) = (self.of, Rank(1 - self.of.rank().0));
            let half = self.number.wrapping_add(DEPTH / 2);
            let credit = &mut self.turn.credit;
            if of.is_at_once(|| finds_room(of.slots(), credit, half, [other])) {
                return Ok(());
            }
        }
        let before = self.number.wrapping_sub(ahead);
        let least = self.await_all(|through| !is_before(through, before))?;
        self.turn.credit.all_consumed(least);
        Ok(())
    }

    /// Waits until all others are so far; the number that all are through with then.
    fn await_all(&self, so: impl Fn(u32) -> bool) -> Result<u32> {
        let mut least = self.number;
        for place in others(self.of.rank(), self.of.size()) {
            self.until(None, |segment| so(segment.consumed(place.0)))?;
            let through = self.segment().consumed(place.0);
            if is_before(through, least) {
                least = through;
            }
        }
        Ok(least)
    }

    /// Waits for the slot of a member, which has to be so long. `owes` says who writes one, and how long it
    /// has to be.
    #[inline(always)]
    fn hear(
        &mut self,
        from: Rank,
        expected_bytes: usize,
        owes: &dyn Fn(Rank) -> Option<usize>,
    ) -> Result<()> {
        let (segment, number) = (self.segment(), self.number);
        if segment.has(from.0, number) && is_whole(segment.announced(from.0, number), expected_bytes) {
            return Ok(());
        }
        self.hear_late(from, expected_bytes, owes)
    }

    /// Waits for the slot of a member as [`SegmentOperation::hear`] does, where it was not there at the first
    /// look, or is not the one that is due.
    #[inline(never)]
    fn hear_late(
        &mut self,
        from: Rank,
        expected_bytes: usize,
        owes: &dyn Fn(Rank) -> Option<usize>,
    ) -> Result<()> {
        self.until(Some(owes), |segment| segment.has(from.0, self.number))?;
        if is_whole(self.segment().announced(from.0, self.number), expected_bytes) {
            return Ok(());
        }
        Err(self.misfit(from, owes))
    }

    /// The error of a slot that is not what was to come. If it is one of [several chunks](chunks), this
    /// member goes past all of them, since their numbers count for all.
    #[cold]
    fn misfit(&mut self, from: Rank, owes: &dyn Fn(Rank) -> Option<usize>) -> Fault {
        let [bytes, _] = self.segment().announced(from.0, self.number);
        let (sent_bytes, expected_bytes) = (bytes as usize, owes(from).unwrap_or(0));
        // Who learns of a loss meanwhile says nothing of it: this is told already.
        let _ = self.pass_chunks(owes);
        self.turn.credit.begin_up_to(self.number);
        match sent_bytes == expected_bytes {
            true if self.of.size() == 2 => Fault::ExpectsMore { with: from, bytes: sent_bytes },
            true => Fault::Elsewhere(from),
            false => Fault::misled(from, sent_bytes, expected_bytes),
        }
    }

    /// Goes on to the last number that any of the members has announced that are heard, and shows those who
    /// wait for all that this one is there.
    fn pass_chunks(&mut self, owes: &dyn Fn(Rank) -> Option<usize>) -> Result<()> {
        let (here, size) = (self.of.rank(), self.of.size());
        let (first, mut chunks, mut next) = (self.number, 1, 1);
        loop {
            for from in others(here, size).filter(|&from| owes(from).is_some()) {
                self.until(Some(owes), |segment| segment.has(from.0, self.number))?;
                let [_, theirs] = self.segment().announced(from.0, self.number);
                chunks = chunks.max(chunking::told_chunks(theirs));
                next = chunking::following(theirs, self.number.wrapping_sub(first));
            }
            // Of a last round some numbers may have nothing.
            let is_last = next >= chunks;
            if is_last {
                self.number = first.wrapping_add(chunks - 1);
            }
            self.of.leave(self.number);
            if is_last {
                return Ok(());
            }
            self.number = first.wrapping_add(next);
            if size > 2 {
                self.give([Payload::EMPTY; 2], false)?;
                self.segment().wake();
            }
        }
    }

    /// Waits until `so` holds; a fault where a member has failed, or where one that owes a slot of some
    /// length does another operation.
    #[inline(always)]
    fn until(
        &self,
        owes: Option<&dyn Fn(Rank) -> Option<usize>>,
        so: impl Fn(&M::Slots) -> bool,
    ) -> Result<()> {
        if self.of.is_soon(|| so(self.segment())) {
            return Ok(());
        }
        let written = if self.has_yet_to_write { self.number.wrapping_sub(1) } else { self.number };
        self.of.wait([self.number, written], owes, &so)
    }

    fn segment(&self) -> &M::Slots {
        self.of.slots()
    }
}

impl<M: SegmentMember> Drop for SegmentOperation<'_, M> {
    /// Whatever came of it, and also where an operator has panicked: the others may go on.
    #[inline]
    fn drop(&mut self) {
        self.of.leave(self.number);
        self.of.is_over(self.turn);
    }
}

/// Hands over what the slots hold that are for this member, all of which are there.
fn deliver(
    slots: &impl Slots,
    number: u32,
    plan: &SegmentPlan<'_>,
    own: Payload<'_>,
    combining: impl Combine,
    room: &mut Option<Heap>,
    output: &mut UserMemory,
) {
    match plan.then {
        Use::Combined(sum) if plan.size == 2 => {
            let operands = sum.of_two(plan.here);
            read(slots, number, Rank(1 - plan.here.0), plan, |theirs| {
                let mut out = output.part(0, theirs.bytes());
                two_ranks::combine(operands, own, plan.is_loaded, theirs, combining, room, &mut out);
                theirs.bytes()
            });
        }
        Use::Combined(_) => combine(slots, number, plan, own, combining, room, output),
        Use::Nothing => {}
        Use::Taken | Use::Placed => {
            for from in plan.writers() {
                read(slots, number, from, plan, |data| output.write_at(plan.place(from), data));
            }
        }
    }
}

/// Combines contributions.
fn combine(
    slots: &impl Slots,
    number: u32,
    plan: &SegmentPlan<'_>,
    own: Payload<'_>,
    combining: impl Combine,
    room: &mut Option<Heap>,
    output: &mut UserMemory,
) {
    let Use::Combined(sum) = plan.then else { return };
    let heap = room.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
    let (bytes, mut places) = (own.bytes(), heap.memory());
    for from in sum.of(plan.size) {
        let at = sum.place(plan.size, from) * bytes;
        if from == plan.here {
            places.write_at(at, own);
        } else {
            read(slots, number, from, plan, |data| places.write_at(at, data));
        }
    }
    let result = sum.in_runs(plan.size, |lower, higher, count| {
        let left = heap.payload().part(lower * bytes, count * bytes);
        combining.combine(left, None, &mut places.part(higher * bytes, count * bytes));
    });
    output.write_at(0, heap.payload().part(result * bytes, bytes));
    *room = Some(heap);
}

/// Lends the part of a slot that is for this member.
fn read(
    slots: &impl Slots,
    number: u32,
    from: Rank,
    plan: &SegmentPlan<'_>,
    reader: impl FnOnce(Payload<'_>) -> usize,
) {
    let (entry, Block { offset, bytes }) = plan.heard(from);
    slots.read_either(from.0, number, entry, |data| reader(data.part(offset, bytes)));
}

/// Whether all of `others` have consumed the slot that number `number` reuses; looks at what they say where
/// `credit` does not know.
pub fn finds_room(
    slots: &impl Slots,
    credit: &mut Credit,
    number: u32,
    others: impl IntoIterator<Item = Rank>,
) -> bool {
    if credit.has_room(number) {
        return true;
    }
    let consumed = |rank: Rank| slots.consumed(rank.0);
    let earlier = |one, other| if is_before(one, other) { one } else { other };
    let least = others.into_iter().map(consumed).fold(number, earlier);
    if is_room(number, least) {
        credit.all_consumed(least);
    }
    is_room(number, least)
}

/// Whether a turn of progress is due before the operation of that number.
#[inline(always)]
#[must_use]
pub fn is_turn_due(number: u32) -> bool {
    number.is_multiple_of(OPERATIONS_PER_TURN)
}

/// A program whose operations all go through segments makes a turn of progress for each so many of them.
const OPERATIONS_PER_TURN: u32 = 32;
