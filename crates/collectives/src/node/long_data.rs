//! Operations of two members whose data is too long for slots, from their beginning to their end: what is
//! sent, and what becomes of each chunk that comes.

use fabric::slots::{Credit, Ring, Slots, is_before};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::chunking::{
    AHEAD_BYTES, ChunkKind, PairExchange, ReduceScatterAllgather, STRIP_BYTES, TransferKind, TransferLengths,
    whole,
};
use super::pairwise::PairwiseBlocks;
use super::pipelined_transfer::PipelinedTransfer;
use super::plan::{Operands, ROOM_BYTES, SegmentPlan, SlotContents, Sources, Use};
use super::tuners::TunedChoice;
use super::{Combine, Fault, Result, SegmentMember, SegmentOperation, others};
use crate::Block;
use crate::memory::reading;

impl<M: SegmentMember> SegmentOperation<'_, M> {
    /// The operation, which has begun, has so many numbers; whether this member gives any of them. They are
    /// renewed between operations only.
    pub(super) fn begin_chunks(&mut self, ring: Ring, chunks: u32, gives: bool) -> Result<()> {
        // Staging buffers may come twice in a row where numbers come round: all that stands there must be
        // taken.
        if self.turn.owes_renewal {
            self.renew()?;
        }
        let renewal = Credit::renewal_behind(self.number);
        if !is_before(self.number.wrapping_add(chunks - 1), renewal) {
            let passed_over = self.number;
            self.of.leave(renewal.wrapping_sub(1));
            self.number = renewal;
            self.turn.credit.begin_up_to(renewal);
            self.await_passing(passed_over)?;
            self.renew()?;
        }
        if gives && !self.segment().can_send_chunks(ring) {
            // All members count alike.
            self.number = self.number.wrapping_add(chunks - 1);
            self.turn.credit.begin_up_to(self.number);
            return Err(Fault::NoMemory);
        }
        Ok(())
    }

    /// Waits until all others pass over the numbers from that one to this, as who does the same operation
    /// does. Who goes through any of them does something else.
    #[cold]
    fn await_passing(&mut self, first: u32) -> Result<()> {
        let last = self.number.wrapping_sub(1);
        let (here, size) = (self.of.rank(), self.of.size());
        let has_passed = |segment: &M::Slots, rank: Rank| !is_before(segment.consumed(rank.0), last);
        let goes_through = |segment: &M::Slots, rank: Rank| {
            !is_before(segment.consumed(rank.0), first) && !has_passed(segment, rank)
        };
        let elsewhere = |segment: &M::Slots| others(here, size).find(|&rank| goes_through(segment, rank));
        self.until(None, |segment| {
            others(here, size).all(|rank| has_passed(segment, rank)) || elsewhere(segment).is_some()
        })?;
        elsewhere(self.segment()).map_or(Ok(()), |rank| Err(Fault::Elsewhere(rank)))
    }

    /// Does an operation of two that goes in chunks.
    pub(super) fn carry_chunks(
        &mut self,
        plan: &SegmentPlan<'_>,
        lengths: TransferLengths,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        // What is no longer than that is given before anything is taken.
        let is_in_the_way = lengths.gives.max(lengths.gets) > AHEAD_BYTES && plan.is_in_the_way();
        let aside = is_in_the_way.then(|| {
            let aside = Heap::new(output.bytes());
            aside.memory().write_at(0, output.payload());
            aside
        });
        let is_loaded = plan.is_loaded && aside.is_none();
        let contribution = match &aside {
            Some(aside) => reading(&aside.memory()),
            None if is_loaded => reading(output),
            None => input,
        };
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        let [front, back] = plan.entry();
        let give = if plan.gives { part(if front.bytes > 0 { front } else { back }) } else { Payload::EMPTY };
        let own = part(plan.own());
        let Use::Combined(sum) = plan.then else {
            let kept = plan.kept().map(|place| (place, own));
            let place = plan.place(Rank(1 - plan.here.0));
            let is_written_over = plan.is_loaded && plan.holds == SlotContents::ForEach;
            let what = PairExchange { lengths, give, kept, place, is_written_over };
            return self.hand_over(&what, output);
        };
        let route = if plan.is_same_for_all() { self.route_for_sum(lengths.gives) } else { None };
        let cargo = match route.as_ref().filter(|route| !route.is_second()) {
            Some(route) => {
                let halves =
                    ReduceScatterAllgather::of(plan.here, lengths.gives, lengths.element_bytes, route.ring());
                TransferKind::Halves { contribution: give, halves }
            }
            None => TransferKind::each(lengths, give),
        };
        let mut passage = PipelinedTransfer::begin(self, lengths, cargo)?;
        passage.go_by(route);
        passage.give_ahead()?;
        if plan.hears == Sources::Lower && lengths.gets == 0 {
            output.write_at(0, own);
        }
        let room = passage.operation.turn.room.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
        let operands = sum.of_two(plan.here);
        let strip_bytes = whole(STRIP_BYTES, lengths.element_bytes);
        let strips = Strips { own, is_loaded, operands, room: &room, strip_bytes };
        let finished = passage.finish(&mut |part, at, data, (mut staging_buffer, _)| match part {
            ChunkKind::Contribution => strips.combine(at, data, &mut staging_buffer, output, combining),
            ChunkKind::Result => _ = output.write_at(at, data),
        });
        drop(passage);
        self.turn.room = Some(room);
        finished
    }

    /// Exchanges long blocks of two members, each of which knows the lengths of its own blocks alone.
    pub(super) fn exchange_chunks(
        &mut self,
        pairs: &PairwiseBlocks<'_>,
        lengths: TransferLengths,
        input: Payload<'static>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let contribution = if pairs.is_loaded() { reading(output) } else { input };
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        let other = Rank(1 - self.of.rank().0);
        let give = pairs.given_to(other).map_or(Payload::EMPTY, part);
        let kept = pairs.kept().map(|[own, place]| (place.offset, part(own)));
        let place = pairs.gotten_from(other).unwrap_or(Block::NOTHING).offset;
        self.hand_over(
            &PairExchange { lengths, give, kept, place, is_written_over: pairs.is_loaded() },
            output,
        )
    }

    /// Gives what there is to give, keeps what this member has for itself, and gets the other's.
    fn hand_over(&mut self, what: &PairExchange, output: &mut UserMemory) -> Result<()> {
        let PairExchange { lengths, give, kept, .. } = *what;
        // The other takes meanwhile.
        if lengths.gets == 0 {
            self.pass(lengths, give, &mut |_, _| {})?;
            if let Some((at, own)) = kept {
                output.write_at(at, own);
            }
            return Ok(());
        }
        let route = self.route_for(what);
        if !route.as_ref().is_some_and(TunedChoice::is_second) {
            let cargo = TransferKind::each(lengths, give);
            let ring = route.as_ref().and_then(TunedChoice::ring).unwrap_or(cargo.ring());
            let mut passage = PipelinedTransfer::begin(self, lengths, cargo.through(ring))?;
            passage.go_by(route);
            return passage.keep_and_finish(kept, what.place, output);
        }
        let rest = {
            let mut passage = PipelinedTransfer::begin(self, lengths, TransferKind::Read)?;
            passage.go_by(route);
            passage.read_and_finish(what, output)?
        };
        if rest.gives.max(rest.gets) == 0 {
            return Ok(());
        }
        // What could not be read is given.
        self.number = self.turn.credit.begin();
        let give = give.part(0, rest.gives);
        if rest.gets == 0 {
            return self.pass(rest, give, &mut |_, _| {});
        }
        let mut passage = PipelinedTransfer::begin(self, rest, TransferKind::each(rest, give))?;
        passage.keep_and_finish(None, what.place, output)
    }

    /// Gives that, and hands over what comes.
    pub(super) fn pass(
        &mut self,
        lengths: TransferLengths,
        give: Payload<'static>,
        taken: &mut dyn FnMut(usize, Payload<'_>),
    ) -> Result<()> {
        let mut passage = PipelinedTransfer::begin(self, lengths, TransferKind::each(lengths, give))?;
        passage.finish(&mut |_, at, data, _| taken(at, data))
    }
}

/// Combines what comes with this member's own.
struct Strips<'a> {
    own: Payload<'static>,
    /// Whether that stands somewhere in the output.
    is_loaded: bool,
    operands: Operands,
    room: &'a Heap,
    strip_bytes: usize,
}

impl Strips<'_> {
    /// What comes of it is to stand in the output, and over what has come where that is in a staging buffer
    /// in which it is given next: at once, where whoever combines can do that.
    fn combine(
        &self,
        at: usize,
        theirs: Payload<'_>,
        staging_buffer: &mut UserMemory,
        output: &mut UserMemory,
        combining: impl Combine,
    ) {
        let mut out = output.part(at, theirs.bytes());
        let is_offered = out.offer(staging_buffer);
        self.combine_into(&mut out, at, theirs, combining);
        if !is_offered || out.has_offer() {
            staging_buffer.write_at(0, out.payload());
        }
    }

    /// Into that part of the output, which begins there.
    fn combine_into(&self, out: &mut UserMemory, at: usize, theirs: Payload<'_>, combining: impl Combine) {
        let own = self.own.part(at, theirs.bytes());
        let is_in_place = own.start() == out.start().cast_const();
        match self.operands {
            Operands::TheirsAlone | Operands::OwnAlone => {
                out.write_at(0, theirs);
            }
            Operands::TheirsBeforeOwn if is_in_place => combining.combine(theirs, None, out),
            Operands::OwnBeforeTheirs if !self.is_loaded => combining.combine(own, Some(theirs), out),
            Operands::TheirsBeforeOwn if !self.is_loaded => combining.combine(theirs, Some(own), out),
            // What this member has is read before it is written over, a strip at a time.
            operands => {
                for begin in (0..theirs.bytes()).step_by(self.strip_bytes) {
                    let own = self.aside(own.part(begin, self.strip_bytes));
                    let theirs = theirs.part(begin, self.strip_bytes);
                    let is_lower = operands == Operands::OwnBeforeTheirs;
                    let [left, right] = if is_lower { [own, theirs] } else { [theirs, own] };
                    combining.combine(left, Some(right), &mut out.part(begin, theirs.bytes()));
                }
            }
        }
    }

    /// A copy of a strip that is to be written over.
    fn aside(&self, own: Payload<'_>) -> Payload<'_> {
        self.room.memory().write_at(0, own);
        self.room.payload().part(0, own.bytes())
    }
}
