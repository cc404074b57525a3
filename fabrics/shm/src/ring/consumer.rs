//! The reading end of a ring.

use fabric::{Header, Payload, crash};

use super::spot::{Span, Spot, units};
use super::{Arrival, KIND_MASK, KIND_SHIFT, Kind, Look, ProtocolViolation, RingChunk};
use crate::layout::{
    LINE_FRONT, LINE_PAYLOAD, LINE_PAYLOAD_BYTES_MAX, RING_CONSUMED, RING_MAILED, RING_WAITING, RingShape,
    chunked_message_chunk_bytes,
};
use crate::memory::{Memory, Use};
use crate::single_slot::LargeBuffer;
use crate::sync::{Ordering, light_barrier};

/// The reading side of a ring.
pub struct Consumer {
    pub(super) spot: Spot,
    /// Before the first lap is over, a line not yet written holds zero and not the lap before.
    first_lap: bool,
    /// Of the message that comes in chunks.
    pub(super) bytes_left: usize,
    lines_unpublished: u32,
    units_unpublished: u32,
    /// Where the next chunk stands of a chunked eager message that has begun; 0 where none has. And on which
    /// large-message buffer it is.
    pub(super) chunked_message: usize,
    pub(super) large_buffer: LargeBuffer,
    /// How long its chunks are.
    pub(super) chunked_message_chunk_bytes: u32,
}

impl Consumer {
    /// The reading side of the ring of `shape` at `at`.
    pub fn new(at: usize, shape: RingShape) -> Consumer {
        Consumer {
            spot: Spot::new(at, shape),
            first_lap: true,
            bytes_left: 0,
            lines_unpublished: 0,
            units_unpublished: 0,
            chunked_message: 0,
            large_buffer: LargeBuffer::Mailbox,
            chunked_message_chunk_bytes: 0,
        }
    }

    /// On which large-message buffer the chunked eager message stands whose first chunk is at the front, and
    /// up to where.
    pub fn chunked_message_begun(&self) -> Option<(LargeBuffer, usize)> {
        (self.chunked_message != 0).then_some((self.large_buffer, self.chunked_message + self.bytes_left))
    }

    /// From which large-message buffer a chunked eager message has come whole since this was asked.
    pub fn takes_chunked_message(&mut self) -> Option<LargeBuffer> {
        (self.bytes_left == 0 && std::mem::take(&mut self.chunked_message) != 0).then_some(self.large_buffer)
    }

    /// What stands at the front, if anything does. It stays there until [`Consumer::release`].
    /// `chunked_messages_at` tells where a chunked eager message stands, on each large-message buffer where
    /// it is the writer's turn to send one.
    ///
    /// # Errors
    /// [`Wild`] when the line cannot have been written by a sane peer; the ring must not be read any further.
    #[inline]
    pub fn front(
        &mut self,
        memory: &impl Memory,
        chunked_messages_at: [Option<usize>; 2],
    ) -> Result<Option<Arrival>, ProtocolViolation> {
        match self.look(memory) {
            Look::Ready => {}
            Look::Nothing => return Ok(None),
            Look::Wild(found) => return Err(self.out_of_turn(found)),
        }
        let line = self.spot.line();
        let [what, words @ ..] = memory.take_words::<7>(line + LINE_FRONT);
        if what & KIND_MASK == Kind::Parcel as u32 {
            // It is told of as what else comes; it stands elsewhere.
            let [.., large_buffer] = memory.take_words::<3>(line + LINE_PAYLOAD);
            self.large_buffer = LargeBuffer::named(large_buffer).ok_or(ProtocolViolation::Turn)?;
            self.chunked_message =
                chunked_messages_at[self.large_buffer as usize].ok_or(ProtocolViolation::Turn)?;
        }
        self.decode(memory, line, what, Header { words }).map(Some)
    }

    /// The whole message that stands at the front, where [`Consumer::look`] has found a line; `None` where
    /// that is anything else. It stays there until [`Consumer::release`].
    #[inline(always)]
    pub fn whole(&self, memory: &impl Memory) -> Option<(Header, RingChunk)> {
        let line = self.spot.line();
        let [what, words @ ..] = memory.take_front(line);
        let bytes = (what & !KIND_MASK) as usize;
        let whole = what & KIND_MASK == Kind::Whole as u32
            && bytes <= self.spot.shape.chunk_bytes_max as usize
            && self.bytes_left == 0;
        whole.then(|| (Header { words }, self.chunk(line, bytes)))
    }

    /// The header and the length of the payload of the message at the front, if it is whole in its line; it
    /// stays there.
    #[inline(always)]
    pub fn short(&self, memory: &impl Memory) -> Option<(Header, usize)> {
        let [what, words @ ..] = memory.take_front(self.spot.line());
        // The bits above the length say that it is whole.
        let short = what <= LINE_PAYLOAD_BYTES_MAX as u32 && self.bytes_left == 0;
        if short { Some((Header { words }, what as usize)) } else { None }
    }

    /// Lends the payload of a message that [`Consumer::short`] has told of to `reader`, and gives its line
    /// back. The answer is that of [`Consumer::release`].
    #[inline(always)]
    pub fn take_short(
        &mut self,
        memory: &impl Memory,
        bytes: usize,
        reader: impl FnOnce(Payload<'_>),
    ) -> u32 {
        memory.read_line(self.spot.line(), bytes, reader);
        self.pass_line();
        if self.lines_unpublished >= self.spot.shape.lines / 4 { self.publish(memory) } else { 0 }
    }

    /// Whether a line stands at the front.
    #[inline(always)]
    pub fn look(&self, memory: &impl Memory) -> Look {
        let found = memory.number(self.spot.line()).load(Ordering::Acquire);
        if found == self.spot.sequence {
            return Look::Ready;
        }
        if found == self.sequence_before() { Look::Nothing } else { Look::Wild(found) }
    }

    /// Where the ring stands.
    pub fn at(&self) -> usize {
        self.spot.at
    }

    /// Whether this side has used so much of the ring's data area that all of its pages were brought into
    /// this process.
    pub fn has_pages(&self) -> bool {
        self.spot.has_pages()
    }

    /// Lines read so far.
    #[inline]
    pub fn lines_passed(&self) -> u32 {
        self.spot.lines_passed
    }

    /// Tells the writer that its reader looks into the single-slot channel from now on.
    pub fn accept_single_slot(&self, memory: &impl Memory) {
        memory.word(self.spot.at + RING_MAILED).store(1, Ordering::Release);
    }

    /// Gives the room of `chunk`, which stood at the front, back to the writer, and tells it so when a good
    /// part of the ring has come free. The answer is what the writer has to say then:
    /// [`WAITING`](crate::layout::WAITING), so that it must be woken, and
    /// [`SINGLE_SLOT_OFFERED`](crate::layout::SINGLE_SLOT_OFFERED).
    #[inline(always)]
    pub fn release(&mut self, memory: &impl Memory, chunk: RingChunk) -> u32 {
        self.pass_line();
        self.spot.pass(memory, chunk.span, Use::Read);
        self.units_unpublished += chunk.span.units;
        let shape = self.spot.shape;
        let due = self.lines_unpublished >= shape.lines / 4
            || self.units_unpublished >= units(shape.data_bytes as usize) / 8;
        if due { self.publish(memory) } else { 0 }
    }

    #[inline(always)]
    fn pass_line(&mut self) {
        let slot_before = self.spot.slot;
        self.spot.next_line();
        self.first_lap &= slot_before < self.spot.slot;
        self.lines_unpublished += 1;
    }

    /// To be called when nothing stands at the front: there is time to tell the writer the rest, too. The
    /// answer is that of `release`.
    #[inline]
    pub fn idle(&mut self, memory: &impl Memory) -> u32 {
        if self.lines_unpublished > 0 { self.publish(memory) } else { 0 }
    }

    /// Tells the writer how far the reader has come.
    pub(super) fn publish(&mut self, memory: &impl Memory) -> u32 {
        let at = self.spot.at;
        memory.word(at + RING_CONSUMED + 4).store(self.spot.units_passed, Ordering::Release);
        crash::point();
        memory.word(at + RING_CONSUMED).store(self.spot.lines_passed, Ordering::Release);
        (self.lines_unpublished, self.units_unpublished) = (0, 0);
        // The writer sets its flag, arms its bell (a heavy barrier) and looks once more before it sleeps.
        light_barrier();
        memory.word(at + RING_WAITING).load(Ordering::Acquire)
    }

    /// Whether a message has begun and is not whole yet.
    pub fn midway(&self) -> bool {
        self.bytes_left > 0
    }

    /// Believes a line only as far as it makes sense.
    #[inline]
    fn decode(
        &mut self,
        memory: &impl Memory,
        line: usize,
        what: u32,
        header: Header,
    ) -> Result<Arrival, ProtocolViolation> {
        let (kind, bytes) = (what & KIND_MASK, (what & !KIND_MASK) as usize);
        let bytes_max = self.spot.shape.chunk_bytes_max as usize;
        if bytes > bytes_max && self.chunked_message == 0 {
            return Err(ProtocolViolation::Length { bytes, bytes_max });
        }
        if kind == Kind::Whole as u32 && self.bytes_left == 0 {
            return Ok(Arrival::Whole(header, self.chunk(line, bytes)));
        }
        self.decode_streamed(memory, line, kind, bytes, header)
    }

    #[cold]
    fn decode_streamed(
        &mut self,
        memory: &impl Memory,
        line: usize,
        kind: u32,
        bytes: usize,
        header: Header,
    ) -> Result<Arrival, ProtocolViolation> {
        let is_first = kind == Kind::First as u32 || kind == Kind::Parcel as u32;
        if is_first && self.bytes_left == 0 {
            let [low, high] = memory.take_words::<2>(line + LINE_PAYLOAD);
            let total = u64::from(low) | u64::from(high) << 32;
            let total_max = match self.chunked_message {
                0 => isize::MAX as u64,
                _ => self.spot.shape.chunked_message_bytes_max() as u64,
            };
            if self.chunked_message != 0 {
                self.chunked_message_chunk_bytes =
                    chunked_message_chunk_bytes(total.min(total_max) as usize) as u32;
            }
            // A chunked eager message may be of one chunk.
            let total_min =
                if self.chunked_message == 0 { self.chunk_bytes_max() } else { LINE_PAYLOAD_BYTES_MAX };
            if total <= total_min as u64 || total > total_max {
                return Err(ProtocolViolation::Total { bytes: total });
            }
            self.expect_chunk(bytes, self.chunk_bytes_max().min(total as usize))?;
            self.bytes_left = total as usize - bytes;
            if self.bytes_left == 0 {
                return Ok(Arrival::Whole(header, self.streamed_chunk(bytes)));
            }
            return Ok(Arrival::First(header, total as usize, self.streamed_chunk(bytes)));
        }
        if kind == Kind::More as u32 && self.bytes_left > 0 {
            self.expect_chunk(bytes, self.chunk_bytes_max().min(self.bytes_left))?;
            self.bytes_left -= bytes;
            return Ok(Arrival::More(self.streamed_chunk(bytes)));
        }
        Err(ProtocolViolation::Kind { kind: kind >> KIND_SHIFT, bytes_left: self.bytes_left })
    }

    /// Of the message that comes in chunks.
    pub(super) fn chunk_bytes_max(&self) -> usize {
        match self.chunked_message {
            0 => self.spot.shape.chunk_bytes_max as usize,
            _ => self.chunked_message_chunk_bytes as usize,
        }
    }

    /// The next chunk of such a message.
    fn streamed_chunk(&mut self, bytes: usize) -> RingChunk {
        if self.chunked_message == 0 {
            return self.data_chunk(bytes);
        }
        let offset = self.chunked_message;
        self.chunked_message += bytes;
        RingChunk { offset, bytes, span: Span { start: self.spot.data, units: 0 } }
    }

    /// Chunks are as long as they can be: a peer cannot keep a message alive with chunks of nothing.
    fn expect_chunk(&self, bytes: usize, due: usize) -> Result<(), ProtocolViolation> {
        if bytes == due { Ok(()) } else { Err(ProtocolViolation::Length { bytes, bytes_max: due }) }
    }

    /// The payload of a whole message: beside the header, or in the data area.
    #[inline(always)]
    pub(super) fn chunk(&self, line: usize, bytes: usize) -> RingChunk {
        if bytes <= LINE_PAYLOAD_BYTES_MAX {
            return RingChunk {
                offset: line + LINE_PAYLOAD,
                bytes,
                span: Span { start: self.spot.data, units: 0 },
            };
        }
        self.data_chunk(bytes)
    }

    fn data_chunk(&self, bytes: usize) -> RingChunk {
        let span = self.spot.span(bytes);
        RingChunk { offset: self.spot.data(span), bytes, span }
    }

    /// What a line holds before its writer has come round to it.
    #[inline(always)]
    fn sequence_before(&self) -> u32 {
        if self.first_lap { 0 } else { self.spot.sequence.wrapping_sub(self.spot.shape.lines) }
    }

    /// What a number other than the two that may stand at the front means.
    #[cold]
    pub fn out_of_turn(&self, found: u32) -> ProtocolViolation {
        ProtocolViolation::Sequence { expected: self.spot.sequence, found }
    }
}
