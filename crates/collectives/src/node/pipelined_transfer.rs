//! How the chunks of one operation go between two members: who gives how far ahead, and what is taken when.

mod reads;

use std::ops::Range;

use fabric::slots::{Chunk, Ring, Slots, chunk_bytes_max, is_before};
use fabric::{Payload, UserMemory, write_abreast};
use messaging::Rank;

use super::chunking::{
    CHUNK_BYTES_MIN, ChunkHandler, ChunkKind, GIVEN_UP, LINE, LONG_FROM, TransferKind, TransferLengths,
    following, told_chunks,
};
use super::tuners::TunedChoice;
use super::{Fault, Result, SegmentMember, SegmentOperation, is_turn_due};

/// One operation, until this member has given all and taken all.
pub(super) struct PipelinedTransfer<'v, 'a, M: SegmentMember> {
    pub(super) operation: &'v mut SegmentOperation<'a, M>,
    other: Rank,
    lengths: TransferLengths,
    ring: Ring,
    cargo: TransferKind,
    /// The number of the first chunk.
    first: u32,
    given: u32,
    taken: u32,
    /// How many chunks are given, and how many come.
    giving: u32,
    coming: u32,
    /// What slots say of that, here and there.
    telling: u32,
    told: u32,
    /// Which way it goes of the two by which an exchange may.
    route: Option<TunedChoice>,
    /// The last chunks go first.
    is_back: bool,
    /// What came is not what was to come.
    failed: Option<Fault>,
    /// Nothing more is given or taken.
    is_over: bool,
}

impl<'v, 'a, M: SegmentMember> PipelinedTransfer<'v, 'a, M> {
    /// Made where the caller keeps it, and used there: to move so much that was written just before takes
    /// longer than to do all the rest of what a chunk needs beside its copy.
    #[inline(always)]
    pub(super) fn begin(
        operation: &'v mut SegmentOperation<'a, M>,
        lengths: TransferLengths,
        mut cargo: TransferKind,
    ) -> Result<PipelinedTransfer<'v, 'a, M>> {
        let ([giving, coming], ring) = (cargo.chunks(), cargo.ring());
        operation.begin_chunks(ring, giving.max(coming), lengths.gives > 0)?;
        let (first, other) = (operation.number, Rank(1 - operation.of.rank().0));
        // Operations of one length go there and back in turn: both members know alike.
        let is_back = LONG_FROM <= lengths.gives.max(lengths.gets) && first / giving.max(coming) % 2 == 1;
        if is_back {
            cargo.turn_back();
        }
        Ok(PipelinedTransfer {
            operation,
            other,
            lengths,
            ring,
            telling: cargo.telling(giving),
            told: cargo.telling(coming),
            cargo,
            first,
            given: 0,
            taken: 0,
            giving,
            coming,
            route: None,
            is_back,
            failed: None,
            is_over: false,
        })
    }

    /// Goes that way, which counts as tried if all goes well. Before anything is given.
    pub(super) fn go_by(&mut self, route: Option<TunedChoice>) {
        if let Some(route) = &route {
            self.operation.decide_next(route, self.first.wrapping_add(self.giving.max(self.coming)));
        }
        self.route = route;
    }

    /// Gives what can be given before anything is taken.
    pub(super) fn give_ahead(&mut self) -> Result<()> {
        while self.may_give() && self.given < self.ring.ahead() {
            self.give(self.lengths.gives)?;
        }
        Ok(())
    }

    /// Gives the rest, and takes what comes.
    pub(super) fn finish(&mut self, taken: ChunkHandler<'_>) -> Result<()> {
        self.go_on(self.lengths.gives, taken)?;
        if let Some(route) = self.route.take().filter(|_| self.failed.is_none()) {
            self.operation.has_gone(route);
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Gives all, puts what comes to `place`, and what this member keeps where that belongs. What a core
    /// copies of its own takes next to no time beside lines that come from another core, for which it waits
    /// (decisions/0005).
    pub(super) fn keep_and_finish(
        &mut self,
        kept: Option<(usize, Payload<'static>)>,
        place: usize,
        output: &mut UserMemory,
    ) -> Result<()> {
        // What comes alone needs nothing beside it: 0.97 of the time at 16 to 64 KiB.
        if self.giving == 0 && kept.is_none() {
            return self.finish(&mut |_, at, data, _| _ = output.write_at(place + at, data));
        }
        let mut own = OwnBlockCopy::new(kept, self.coming, self.is_back);
        while self.taken < self.coming {
            let is_beside = self.gives_beside();
            if self.may_give() && !is_beside {
                self.give(self.lengths.gives)?;
                continue;
            }
            let number = self.first.wrapping_add(self.taken);
            while own.is_left() && !self.operation.segment().has(self.other.0, number) {
                own.write(CHUNK_BYTES_MIN, output);
            }
            if is_beside {
                self.await_room()?;
            }
            self.take(is_beside, &mut |_, at, data, given| {
                let came = (output.part(place + at, data.bytes()), data);
                write_abreast([own.next(own.step, output), came, given]);
            })?;
        }
        own.write_rest(output);
        self.finish(&mut |_, _, _, _| {})
    }

    /// Whether the next chunk is given while one is taken: of many chunks all but the first ones. There are
    /// some of these, since more than one may be given ahead.
    fn gives_beside(&self) -> bool {
        let ahead = self.ring.ahead();
        self.giving > ahead && self.given < self.giving && self.given + 1 == self.taken + ahead
    }

    /// Says of each chunk that there are so many bytes in all.
    fn go_on(&mut self, told_bytes: usize, taken: ChunkHandler<'_>) -> Result<()> {
        loop {
            if self.may_give() {
                self.give(told_bytes)?;
            } else if self.taken < self.coming {
                self.take(false, taken)?;
            } else {
                self.is_over = true;
                return Ok(());
            }
        }
    }

    /// Whether the next chunk may be given as far as this member's own part goes: it has taken what stood in
    /// that staging buffer.
    fn may_give(&self) -> bool {
        let is_taken = self.given < self.taken + self.ring.ahead() || self.taken == self.coming;
        self.given < self.giving && is_taken
    }

    fn give(&mut self, told_bytes: usize) -> Result<()> {
        self.give_this(told_bytes, self.cargo.given(self.given))
    }

    /// Gives that as the next chunk, or what stands in its staging buffer.
    fn give_this(&mut self, told_bytes: usize, give: Option<Payload<'_>>) -> Result<()> {
        let number = self.first.wrapping_add(self.given);
        // Who only gives may never have to wait.
        if is_turn_due(number) && self.lengths.gets == 0 && self.given > 0 {
            self.operation.of.progress();
        }
        self.await_room()?;
        if let Some(give) = give {
            self.fetch_ahead();
            self.operation
                .segment()
                .fill_chunk(self.ring, number, give.bytes(), |staging_buffer| staging_buffer.hand_over(give));
        }
        self.announce(told_bytes);
        Ok(())
    }

    /// Fetches the slots that are read and written next, while a chunk is copied (decisions/0005).
    #[inline(always)]
    fn fetch_ahead(&self) {
        let segment = self.operation.segment();
        if self.taken < self.coming {
            segment.prefetch(self.other.0, self.first.wrapping_add(self.taken), 0);
        }
        if self.given < self.giving {
            segment.prefetch_own(self.first.wrapping_add(self.given), 0);
        }
    }

    /// Says that the next chunk is there, of so many bytes in all.
    #[inline]
    fn announce(&mut self, told_bytes: usize) {
        let segment = self.operation.segment();
        segment.announce_chunk(self.first.wrapping_add(self.given), [told_bytes as u32, self.telling]);
        segment.wake();
        self.given = following(self.telling, self.given);
    }

    /// Waits until there is room for the next chunk.
    #[inline]
    fn await_room(&mut self) -> Result<()> {
        let number = self.first.wrapping_add(self.given);
        if self.operation.turn.credit.has_room_behind(number, self.ring.round(self.operation.of.size())) {
            return Ok(());
        }
        self.await_staging_buffer(number)
    }

    /// Waits until the other has taken the chunk that was given a round ago. Where nothing was to come of it,
    /// and something has, it does something else.
    #[cold]
    fn await_staging_buffer(&mut self, number: u32) -> Result<()> {
        let (other, least) = (self.other.0, number.wrapping_sub(self.ring.round(self.operation.of.size())));
        let (first, is_silent) = (self.first, self.lengths.gets == 0);
        let is_elsewhere = |segment: &M::Slots| is_silent && segment.has(other, first);
        let is_free = |segment: &M::Slots| !is_before(segment.consumed(other), least);
        let awaited = self.operation.until(None, |segment| is_free(segment) || is_elsewhere(segment));
        self.is_over = awaited.is_err() || !is_free(self.operation.segment());
        awaited?;
        if self.is_over {
            return Err(Fault::Elsewhere(self.other));
        }
        let through = self.operation.segment().consumed(other);
        self.operation.turn.credit.all_consumed(through);
        Ok(())
    }

    /// Takes the next chunk; if it `gives`, the next one to be given is for `taken` to write beside it.
    fn take(&mut self, gives: bool, taken: ChunkHandler<'_>) -> Result<()> {
        let number = self.first.wrapping_add(self.taken);
        self.await_chunk(number).inspect_err(|_| self.is_over = true)?;
        if self.failed.is_none() {
            self.compare(number);
        }
        let (part, Range { start, end }) = self.cargo.gotten(self.taken);
        let at = self.taken;
        self.taken = following(self.told, at).min(self.coming);
        self.fetch_ahead();
        if self.failed.is_none() {
            let mut read = |segment: &M::Slots, row| {
                let chunk = Chunk { ring: self.ring, member: self.other.0, number };
                segment.read_chunk(chunk, 0..end - start, |data| {
                    taken(part, start, data, row);
                });
            };
            let segment = self.operation.segment();
            let give = if gives { self.cargo.given(self.given) } else { None };
            if let Some(give) = give {
                let own = self.first.wrapping_add(self.given);
                segment.fill_chunk(self.ring, own, give.bytes(), |staging_buffer| {
                    read(segment, (staging_buffer.part(0, give.bytes()), give));
                });
                self.announce(self.lengths.gives);
            } else if part == ChunkKind::Contribution && matches!(self.cargo, TransferKind::Halves { .. }) {
                let ahead = self.ring.ahead();
                segment.fill_chunk(self.ring, number.wrapping_add(ahead), end - start, |staging_buffer| {
                    read(segment, (staging_buffer.part(0, end - start), Payload::EMPTY));
                });
            } else {
                read(segment, (UserMemory::EMPTY, Payload::EMPTY));
            }
            // Before it has given this, it has taken what this member gave so many numbers before, and what
            // was before this operation. Of who does something else nothing is known.
            let before = number.wrapping_sub((self.ring.ahead() - 1).min(at));
            self.operation.turn.credit.heard_before(before);
        }
        self.operation.of.leave(number);
        Ok(())
    }

    fn await_chunk(&mut self, number: u32) -> Result<()> {
        let (other, bytes) = (self.other, self.lengths.gets);
        self.operation.number = number;
        if is_turn_due(number) && number != self.first {
            self.operation.of.progress();
        }
        let waits = self.taken == 0 && !self.operation.segment().has(other.0, number);
        let since = self.route.as_ref().filter(|_| waits).and_then(|route| route.now(self.operation.of));
        self.operation
            .until(Some(&|from| (from == other).then_some(bytes)), |segment| segment.has(other.0, number))?;
        if let (Some(route), Some(since)) = (&mut self.route, since) {
            route.has_waited(self.operation.of, since);
        }
        Ok(())
    }

    /// Whether what comes is what was to come.
    fn compare(&mut self, number: u32) {
        let [bytes, chunks] = self.operation.segment().announced(self.other.0, number);
        let (sent_bytes, expected_bytes) = (bytes as usize, self.lengths.gets);
        if sent_bytes == expected_bytes && chunks == self.told {
            return;
        }
        self.failed = Some(Fault::misled(self.other, sent_bytes, expected_bytes));
        (self.coming, self.told) = (told_chunks(chunks).max(1), chunks);
    }
}

impl<M: SegmentMember> Drop for PipelinedTransfer<'_, '_, M> {
    /// Also where an operator has panicked: the other goes on, and both count alike. What it is given then is
    /// nothing that could be used.
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.go_on(GIVEN_UP as usize, &mut |_, _, _, _| {});
        }
        let last = self.first.wrapping_add(self.giving.max(self.coming) - 1);
        self.operation.number = last;
        self.operation.turn.credit.begin_up_to(last);
    }
}

/// What this member keeps, and how much of it is where it belongs.
struct OwnBlockCopy {
    data: Payload<'static>,
    place: usize,
    done: usize,
    /// So much goes with each chunk that comes.
    step: usize,
    /// From the end to the beginning.
    is_back: bool,
}

impl OwnBlockCopy {
    fn new(kept: Option<(usize, Payload<'static>)>, chunks: u32, is_back: bool) -> OwnBlockCopy {
        let (place, data) = kept.unwrap_or((0, Payload::EMPTY));
        let step = data.bytes().div_ceil(chunks.max(1) as usize).next_multiple_of(LINE);
        OwnBlockCopy { data, place, done: 0, step, is_back }
    }

    fn is_left(&self) -> bool {
        self.done < self.data.bytes()
    }

    /// So much more of it, with where it is to be written.
    fn next(&mut self, bytes: usize, output: &mut UserMemory) -> (UserMemory, Payload<'static>) {
        let bytes = bytes.min(self.data.bytes() - self.done);
        let at = if self.is_back { self.data.bytes() - self.done - bytes } else { self.done };
        let next = self.data.part(at, bytes);
        let place = output.part(self.place + at, next.bytes());
        self.done += bytes;
        (place, next)
    }

    /// Writes what is left, in chunks, so that it goes back where it does.
    fn write_rest(&mut self, output: &mut UserMemory) {
        while self.is_left() {
            self.write(chunk_bytes_max(2), output);
        }
    }

    /// Writes so much more of it.
    fn write(&mut self, bytes: usize, output: &mut UserMemory) {
        let (mut place, next) = self.next(bytes, output);
        place.write_at(0, next);
    }
}
