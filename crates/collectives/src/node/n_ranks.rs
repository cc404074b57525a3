//! Long operations of more than two members. Data goes in chunks, of which each member has one at a time for
//! all others to read (decisions/0005); a chunk is exchanged in one turn of all, and summed up in two: each
//! member combines a slice of it, and then all take all slices; or, of short ones, one combines all
//! (decisions/0004). So all wait for all as seldom as can be, which is what counts where members share cores:
//! whoever waits gives its core away.

use std::ops::Range;

use fabric::slots::{Chunk, DEPTH, Ring, Slots, chunk_bytes_max};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::chunking::{GIVEN_UP, MISFIT, NOTHING, STRIP_BYTES, told_chunks, whole};
use super::plan::{Order, SegmentPlan, Sources, Use, others};
use super::{Combine, Fault, Result, SegmentMember, SegmentOperation, is_turn_due};
use crate::Block;
use crate::cost_model::SegmentRound;
use crate::memory::reading;

/// One operation, until this member is through with all its numbers.
struct ChunkedOperation<'v, 'a, 'p, M: SegmentMember> {
    operation: &'v mut SegmentOperation<'a, M>,
    plan: SegmentPlan<'p>,
    /// The first number, how many there are, and how many were begun.
    first: u32,
    numbers: u32,
    begun: u32,
    /// How long this member's block is, as it tells the others.
    told_bytes: u32,
    /// Told with the count of its numbers: [`NOTHING`], where it gives nothing in this one.
    mark: u32,
    /// What came is not what was to come.
    mismatch: Option<Fault>,
    is_over: bool,
}

impl<M: SegmentMember> SegmentOperation<'_, M> {
    /// Does an operation in chunks among several.
    pub(super) fn carry_among_several(
        &mut self,
        plan: &SegmentPlan<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let own = own_part(plan, input, output);
        let chunk_bytes = plan.several_chunk_bytes();
        let chunks = plan.longest_bytes().div_ceil(chunk_bytes) as u32;
        let turns = if matches!(plan.then, Use::Combined(_)) && !plan.goes_up_tree() { 2 } else { 1 };
        let several = ChunkedOperation::begin(self, *plan, turns * chunks)?;
        match plan.then {
            Use::Combined(sum @ Order::UpTree(_)) => {
                several.sum_at_root_in_chunks(own, sum, chunk_bytes, output, combining)
            }
            Use::Combined(sum) => several.sum_up(own, sum, chunk_bytes, output, combining),
            Use::Nothing | Use::Taken | Use::Placed => several.hand_out(own, chunk_bytes, output),
        }
    }

    /// Does a sum of one chunk for all, which one member combines.
    pub(super) fn carry_by_gather_broadcast(
        &mut self,
        plan: &SegmentPlan<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let Use::Combined(sum) = plan.then else { return Ok(()) };
        let own = own_part(plan, input, output);
        ChunkedOperation::begin(self, *plan, 2)?.sum_at_root(own, sum, output, combining)
    }
}

impl SegmentPlan<'_> {
    /// What members do in a [sum that one of them makes](SegmentOperation::carry_by_gather_broadcast).
    pub(super) fn rounds_by_gather_broadcast(&self) -> [SegmentRound; 2] {
        let (round, others) = (self.round(), self.size - 1);
        let handed_out = SegmentRound { givers: 1, hearers: others, hears: 1, combines: false, ..round };
        [SegmentRound { givers: others, hearers: 1, ..round }, handed_out]
    }

    /// What members do in a [long operation among several](SegmentOperation::carry_among_several).
    pub(super) fn rounds_of_several(&self) -> Vec<SegmentRound> {
        let chunk_bytes = self.several_chunk_bytes();
        let (whole, round) = (self.longest_bytes(), self.round());
        let times = whole.div_ceil(chunk_bytes);
        let chunk = whole.div_ceil(times.max(1));
        let handed_out = SegmentRound { times, gives: chunk, reads: chunk, ..round };
        if !self.is_same_for_all() {
            return vec![handed_out];
        }
        let slice = chunk.div_ceil(self.size as usize);
        let sums = SegmentRound { reads: slice, ..handed_out };
        vec![sums, SegmentRound { gives: slice, combines: false, ..sums }]
    }
}

impl<'v, 'a, 'p, M: SegmentMember> ChunkedOperation<'v, 'a, 'p, M> {
    fn begin(
        operation: &'v mut SegmentOperation<'a, M>,
        plan: SegmentPlan<'p>,
        numbers: u32,
    ) -> Result<ChunkedOperation<'v, 'a, 'p, M>> {
        operation.begin_chunks(Ring::Short, numbers, plan.gives)?;
        let (first, told_bytes) = (operation.number, plan.own().bytes as u32);
        let (begun, mark, mismatch, is_over) = (0, 0, None, false);
        Ok(ChunkedOperation { operation, plan, first, numbers, begun, told_bytes, mark, mismatch, is_over })
    }

    /// Each who gives hands its block to those who hear it, a chunk in each turn.
    fn hand_out(mut self, own: Payload<'static>, chunk_bytes: usize, output: &mut UserMemory) -> Result<()> {
        while self.begun < self.numbers {
            let at = self.begun as usize * chunk_bytes;
            let number = self.turn(own.after(at).part(0, chunk_bytes))?;
            if let Some(place) = self.plan.kept().filter(|_| at == 0) {
                output.write_at(place, own);
            }
            for from in self.plan.writers().filter(|_| self.mismatch.is_none()) {
                let bytes = self.plan.heard(from).0.saturating_sub(at).min(chunk_bytes);
                let place = self.plan.place(from) + at;
                self.segment()
                    .read_chunk(chunk_at(from, number), 0..bytes, |data| output.write_at(place, data));
            }
            self.operation.of.leave(number);
        }
        self.end()
    }

    /// All combine what all have, a chunk in two turns.
    fn sum_up(
        mut self,
        own: Payload<'static>,
        sum: Order,
        chunk_bytes: usize,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let slices = Slices { members: self.plan.size, element_bytes: self.plan.element_bytes() };
        let (here, room) = (self.plan.here, self.take_room(slices.room_bytes(chunk_bytes)));
        for at in (0..own.bytes()).step_by(chunk_bytes) {
            let chunk = own.part(at, chunk_bytes);
            let number = self.turn(chunk)?;
            let slice = slices.of(chunk.bytes(), here);
            if self.mismatch.is_some() {
                break;
            }
            let result = self.combine_slice(number, chunk, slice.clone(), sum, &room, combining);
            self.operation.of.leave(number);
            let number = self.turn(result)?;
            for from in self.plan.writers().filter(|_| self.mismatch.is_none()) {
                let theirs = slices.of(chunk.bytes(), from);
                let place = at + theirs.start;
                self.segment()
                    .read_chunk(chunk_at(from, number), 0..theirs.len(), |data| output.write_at(place, data));
            }
            output.write_at(at + slice.start, result);
            self.operation.of.leave(number);
        }
        self.operation.turn.long_room = Some(room);
        self.end()
    }

    /// One combines what all have, and then hands it to all: the others wait for it alone, and only once. In
    /// both turns all tell of something, also who gives nothing: who takes this for a longer operation waits
    /// for that.
    fn sum_at_root(
        mut self,
        own: Payload<'static>,
        sum: Order,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let (is_root, bytes) = (self.plan.here == ROOT, own.bytes());
        let number = self.half(is_root, if is_root { Payload::EMPTY } else { own })?;
        let is_told = self.mismatch.is_some();
        let room = is_root.then(|| self.take_room(self.plan.size as usize * bytes));
        let result = match &room {
            Some(room) if !is_told => self.combine_slice(number, own, 0..bytes, sum, room, combining),
            _ => Payload::EMPTY,
        };
        self.operation.of.leave(number);
        if !is_told {
            let number = self.half(!is_root, result)?;
            if is_root {
                output.write_at(0, result);
            } else if self.mismatch.is_none() {
                // It has heard all others.
                self.operation.turn.credit.heard_before(self.first);
                self.segment().read_chunk(chunk_at(ROOT, number), 0..bytes, |data| output.write_at(0, data));
            } else {
                self.count_as_others();
            }
            self.operation.of.leave(number);
        }
        // Where it is longer for others, all wait for all.
        (self.plan.hears, self.mark) = (Sources::Others, 0);
        if let Some(room) = room {
            self.operation.turn.long_room = Some(room);
        }
        self.end()
    }

    /// The root has told of no sum, and may not have told how many numbers there are for those who have more
    /// to do: all have said so in the first one. Whose slot is not there any more has gone on, and is in no
    /// operation with this member.
    #[cold]
    fn count_as_others(&mut self) {
        for from in others(self.plan.here, self.plan.size) {
            // Only what is seen to be there may be read.
            if self.segment().has(from.0, self.first) {
                let [_, told] = self.segment().announced(from.0, self.first);
                self.numbers = self.numbers.max(told_chunks(told));
            }
        }
    }

    /// The next number, in which this member gives something to one that hears, or hears those who give and
    /// gives nothing.
    fn half(&mut self, hears: bool, chunk: Payload<'_>) -> Result<u32> {
        let is_root = self.plan.here == ROOT;
        (self.plan.hears, self.mark) = match hears {
            true => (if is_root { Sources::Others } else { Sources::One(ROOT) }, NOTHING),
            false => (Sources::Nobody, 0),
        };
        self.turn(chunk)
    }

    /// The root combines what all have, a chunk in each turn.
    fn sum_at_root_in_chunks(
        mut self,
        own: Payload<'static>,
        sum: Order,
        chunk_bytes: usize,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let is_root = self.plan.hears == Sources::Others;
        let room = is_root.then(|| self.take_room(self.plan.size as usize * chunk_bytes));
        while self.begun < self.numbers {
            let at = self.begun as usize * chunk_bytes;
            let chunk = own.after(at).part(0, chunk_bytes);
            let number = self.turn(chunk)?;
            if let Some(room) = room.as_ref().filter(|_| self.mismatch.is_none()) {
                output
                    .write_at(at, self.combine_slice(number, chunk, 0..chunk.bytes(), sum, room, combining));
            }
            self.operation.of.leave(number);
        }
        if let Some(room) = room {
            self.operation.turn.long_room = Some(room);
        }
        self.end()
    }

    /// Where contributions are combined.
    fn take_room(&mut self, bytes: usize) -> Heap {
        let room = self.operation.turn.long_room.take();
        room.filter(|room| bytes <= room.payload().bytes()).unwrap_or_else(|| Heap::new(bytes))
    }

    /// Combines a slice of what all have given with that number.
    fn combine_slice<'r>(
        &self,
        number: u32,
        chunk: Payload<'_>,
        slice: Range<usize>,
        sum: Order,
        room: &'r Heap,
        combining: impl Combine,
    ) -> Payload<'r> {
        let (bytes, mut places) = (slice.len(), room.memory());
        let at = |rank: Rank| rank.0 as usize * bytes;
        // For whom something stands in the room; what others have given is combined where it stands.
        let mut in_room = 0u64;
        let is_in = |in_room: u64, rank: Rank| in_room >> rank.0 & 1 == 1;
        let with = |in_room: u64, rank: Rank, then: &mut dyn FnMut(Payload<'_>)| {
            if is_in(in_room, rank) {
                then(room.payload().part(at(rank), bytes));
            } else if rank == self.plan.here {
                then(chunk.part(slice.start, bytes));
            } else {
                self.segment().read_chunk(chunk_at(rank, number), slice.clone(), then);
            }
        };
        let result = sum.in_order(self.plan.size, |lower, higher| {
            let mut out = places.part(at(higher), bytes);
            // There may be fewer elements than members.
            if bytes > 0 {
                with(in_room, lower, &mut |left| match is_in(in_room, higher) {
                    true => combining.combine(left, None, &mut out),
                    false => {
                        with(in_room, higher, &mut |right| combining.combine(left, Some(right), &mut out));
                    }
                });
            }
            in_room |= 1 << higher.0;
        });
        room.payload().part(at(result), bytes)
    }

    /// The next number: gives a chunk, if this member gives, and waits until those are there that it hears.
    fn turn(&mut self, chunk: Payload<'_>) -> Result<u32> {
        let number = self.first.wrapping_add(self.begun);
        self.operation.number = number;
        self.operation.turn.credit.begin_up_to(number);
        if is_turn_due(number) && self.begun > 0 {
            self.operation.of.progress();
        }
        self.begun += 1;
        let turned = self.give_and_hear(number, chunk);
        self.is_over = turned.is_err();
        turned.map(|()| number)
    }

    fn give_and_hear(&mut self, number: u32, chunk: Payload<'_>) -> Result<()> {
        if self.plan.gives {
            // What is empty stands in no staging buffer.
            let is_empty = chunk.bytes() == 0;
            let ahead = if is_empty { DEPTH } else { Ring::Short.round(self.plan.size) };
            self.operation.await_room(ahead)?;
            let told = [self.told_bytes, self.numbers | self.mark];
            self.segment().send_chunk(Ring::Short, number, told, [chunk, Payload::EMPTY]);
            self.segment().wake();
        }
        let owes = |rank: Rank| self.plan.writers().any(|from| from == rank).then_some(0);
        for from in self.plan.writers() {
            self.operation.until(Some(&owes), |segment| segment.has(from.0, number))?;
        }
        let mut numbers = self.numbers;
        for from in self.plan.writers() {
            let [bytes, told] = self.segment().announced(from.0, number);
            let (sent_bytes, expected_bytes) = (bytes as usize, self.plan.heard(from).0);
            let theirs = told_chunks(told);
            if self.mismatch.is_none() && sent_bytes != expected_bytes {
                self.mismatch = Some(Fault::misled(from, sent_bytes, expected_bytes));
            } else if self.mismatch.is_none() && told != self.numbers {
                // As long, but of another operation.
                self.mismatch = Some(Fault::Elsewhere(from));
            }
            // There are as many as the one who gives has said.
            numbers = if self.plan.gives { numbers.max(theirs) } else { theirs.max(self.begun) };
        }
        self.numbers = numbers;
        match self.plan.hears {
            Sources::Others => self.operation.turn.credit.heard_all(),
            Sources::Nobody => {}
            _ => self.operation.turn.credit.heard_one(),
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        let Some(mismatch) = self.mismatch.take() else { return Ok(()) };
        self.told_bytes = MISFIT;
        Err(mismatch)
    }

    fn segment(&self) -> &M::Slots {
        self.operation.segment()
    }
}

impl<M: SegmentMember> Drop for ChunkedOperation<'_, '_, '_, M> {
    /// Whatever came of it, and also where an operator has panicked: all count alike, and nobody takes for
    /// data what comes then.
    fn drop(&mut self) {
        if self.told_bytes != MISFIT {
            self.told_bytes = GIVEN_UP;
        }
        while !self.is_over && self.begun < self.numbers {
            if let Ok(number) = self.turn(Payload::EMPTY) {
                self.operation.of.leave(number);
            }
        }
        let last = self.first.wrapping_add(self.numbers - 1);
        self.operation.number = last;
        self.operation.turn.credit.begin_up_to(last);
    }
}

/// This member's own part of its contribution, which stands in the input or in the output.
fn own_part(plan: &SegmentPlan<'_>, input: Payload<'static>, output: &UserMemory) -> Payload<'static> {
    let contribution = if plan.is_loaded { reading(output) } else { input };
    let Block { offset, bytes } = plan.own();
    contribution.part(offset, bytes)
}

/// What a member of several has given with that number.
fn chunk_at(of: Rank, number: u32) -> Chunk {
    Chunk { ring: Ring::Short, member: of.0, number }
}

/// The slices of a chunk that the members combine.
#[derive(Clone, Copy)]
struct Slices {
    members: u32,
    element_bytes: usize,
}

impl Slices {
    fn of(self, chunk_bytes: usize, rank: Rank) -> Range<usize> {
        let elements = chunk_bytes / self.element_bytes;
        let border = |rank: u32| elements * rank as usize / self.members as usize * self.element_bytes;
        border(rank.0)..border(rank.0 + 1)
    }

    /// Room for all members' contributions to the longest slice.
    fn room_bytes(self, chunk_bytes: usize) -> usize {
        let elements = (chunk_bytes / self.element_bytes).div_ceil(self.members as usize);
        elements * self.element_bytes * self.members as usize
    }
}

/// The chunks of what one member combines: all members' together stay in its caches.
const ROOT_CHUNK_BYTES: usize = 16 << 10;

/// Bytes of a chunk where the root alone combines what all members contribute: whole elements of
/// `element_bytes` bytes.
pub(super) fn root_chunk_bytes(element_bytes: usize) -> usize {
    whole(ROOT_CHUNK_BYTES, element_bytes)
}

/// The longest chunk among `members` members, in bytes: whole elements of `element_bytes` bytes, of which
/// several fit.
#[must_use]
pub fn chunk_bytes(members: u32, element_bytes: usize) -> usize {
    whole(chunk_bytes_max(members), element_bytes)
}

/// Who makes sums for all, where one does.
const ROOT: Rank = Rank(0);

/// Longer elements go by messages.
pub(super) const ELEMENT_BYTES_MAX: usize = STRIP_BYTES;
