//! The ring from one process to another: one writes, one reads, and neither ever waits for the other.
//!
//! A message is a line of 64 bytes: sequence number, kind and length, header, and up to 32 bytes of payload.
//! A longer payload stands in room that belongs to its line, a still longer one in the ring's data area (that
//! of a chunked eager message on a large-message buffer), and one that exceeds a chunk comes as several
//! lines, each announcing the next chunk. The line's sequence number is its flag: no shared head or tail is
//! read on the fast path. The reader tells now and then how far it has come, and the writer looks there only
//! when what it knew to be free is used up.
//!
//! Both sides keep their positions in memory of their own and compute where the next line and the next chunk
//! stand; nothing that a peer writes is used as a position. What a peer writes is a sequence number, a kind,
//! a length and a progress count, each checked before use: what it must not be is [`Wild`].

mod consumer;
mod spot;

use fabric::{Header, Payload, Posted, UserMemory, crash};

pub use self::consumer::Consumer;
use crate::layout::{
    LINE_PAYLOAD_BYTES_MAX, RING_CONSUMED, RING_MAILED, RING_WAITING, RingShape, SINGLE_SLOT_OFFERED,
    WAITING, chunked_message_chunk_bytes,
};
use crate::memory::{Memory, Slot, Use};
use crate::single_slot::LargeBuffer;
use crate::sync::Ordering;
use spot::{Span, Spot, free, units};

/// The writing side of a ring.
pub struct Producer {
    spot: Spot,
    lines_free: u32,
    units_free: u32,
    /// Size of the data area; 0 before its memory is there.
    units_all: u32,
    /// Of the message that was taken partly.
    bytes_left: usize,
    /// What the reader sees in the ring's `waiting` word.
    waiting: bool,
    /// Whether it sees there that a single-slot channel is offered.
    offering: bool,
}

/// What stands at the front of a ring.
#[derive(Debug)]
pub enum Arrival {
    /// A whole message.
    Whole(Header, RingChunk),
    /// The beginning of a message of so many bytes in all.
    First(Header, usize, RingChunk),
    /// More of the message that began.
    More(RingChunk),
}

/// What a look at the number of a line tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// The next message is there.
    Ready,
    /// The next message is not there.
    Nothing,
    /// Neither it nor its predecessor.
    Wild(u32),
}

/// Where payload bytes stand in memory, and what is free again when they are released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingChunk {
    /// Offset in the segment.
    pub offset: usize,
    /// Length of the payload.
    pub bytes: usize,
    span: Span,
}

/// Something in a ring that its writer or reader must not write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolViolation {
    /// A line is neither the next one nor the one of the lap before.
    #[error("a line numbered {found:#x} where {expected:#x} was due")]
    Sequence {
        /// What was due.
        expected: u32,
        /// What stands there.
        found: u32,
    },
    /// A chunk is longer than a chunk can be, or not as long as the message asks for.
    #[error("a chunk of {bytes} bytes where at most {bytes_max} were due")]
    Length {
        /// What the line says.
        bytes: usize,
        /// What it may say.
        bytes_max: usize,
    },
    /// A message in chunks announces a length that cannot be.
    #[error("a message of {bytes} bytes announced in chunks")]
    Total {
        /// What the line says.
        bytes: u64,
    },
    /// A message in the single-slot channel claims a place in the order that it cannot have.
    #[error(
        "a message after {lines_before} lines in the single-slot channel, where {lines_passed} were sent"
    )]
    Order {
        /// What the message says, in the low 16 bits.
        lines_before: u16,
        /// The lines that came, in the low 16 bits.
        lines_passed: u16,
    },
    /// A chunked eager message where it was not the writer's turn to put something onto that large-message
    /// buffer.
    #[error("a chunked message out of turn")]
    Turn,
    /// A chunk without a beginning, or a beginning before the last message was whole.
    #[error("a line of kind {kind} with {bytes_left} bytes of a message still due")]
    Kind {
        /// What the line says.
        kind: u32,
        /// What the message before it lacks.
        bytes_left: usize,
    },
    /// The reader claims to have consumed what was never written.
    #[error("progress that is {ahead} ahead of what was sent")]
    Progress {
        /// How far.
        ahead: u32,
    },
}

impl Producer {
    /// The writing side of the ring of `shape` at `at`. Nothing is free before [`Producer::lines_taken`].
    pub fn new(at: usize, shape: RingShape) -> Producer {
        Producer {
            spot: Spot::new(at, shape),
            lines_free: 0,
            units_free: 0,
            units_all: 0,
            bytes_left: 0,
            waiting: false,
            offering: false,
        }
    }

    /// The memory of the lines is there.
    pub fn lines_taken(&mut self) {
        self.lines_free = self.spot.shape.lines;
    }

    /// The memory of the data area is there.
    pub fn data_taken(&mut self) {
        self.units_all = units(self.spot.shape.data_bytes as usize);
        self.units_free = self.units_all;
    }

    /// Sends nothing more.
    pub fn close(&mut self) {
        self.lines_free = 0;
    }

    /// Whether no message is taken partly.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.bytes_left == 0
    }

    /// Where the ring stands.
    pub fn at(&self) -> usize {
        self.spot.at
    }

    /// Lines written so far.
    #[inline]
    pub fn lines_passed(&self) -> u32 {
        self.spot.lines_passed
    }

    /// Offers the reader a single-slot channel; its memory is there.
    pub fn offer_single_slot(&mut self, memory: &impl Memory) {
        self.offering = true;
        self.say(memory);
    }

    /// Whether the reader looks into the single-slot channel.
    pub fn is_mailed(&self, memory: &impl Memory) -> bool {
        memory.word(self.spot.at + RING_MAILED).load(Ordering::Acquire) != 0
    }

    /// Whether a message that fits into one line can go into the [next slot](Producer::next_slot); where not,
    /// [`Producer::post`] looks for room, and waits for it.
    #[inline(always)]
    pub fn has_line(&self) -> bool {
        self.lines_free > 0 && self.is_whole() && !self.waiting
    }

    /// The line that is written next, of which there is one. Once it is written, what stands before its
    /// header must be that of a line.
    #[inline(always)]
    pub fn next_slot(&mut self) -> Slot {
        debug_assert!(self.lines_free > 0, "no line is free");
        let slot = Slot { at: self.spot.line(), number: self.spot.sequence };
        self.spot.next_line();
        self.lines_free -= 1;
        slot
    }

    /// Sends a message of any length, or the beginning of it.
    ///
    /// # Errors
    /// [`Wild`] when the reader's progress is impossible.
    pub fn post(
        &mut self,
        memory: &impl Memory,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Posted, ProtocolViolation> {
        let bytes = payload.bytes();
        if self.bytes_left == 0 && LINE_PAYLOAD_BYTES_MAX < bytes && bytes <= self.chunk_bytes_max() {
            return self.post_chunk(memory, header, bytes, |at| memory.put(at, payload));
        }
        if self.bytes_left > 0 || !self.room_for_message(memory, bytes)? {
            self.wait(memory);
            return Ok(Posted::Busy);
        }
        if bytes <= LINE_PAYLOAD_BYTES_MAX {
            self.publish(memory, Kind::Whole, bytes, header, payload);
        } else {
            let first = payload.part(0, self.chunk_bytes_max());
            self.put_data(memory, first);
            self.publish_first(memory, (Kind::First, 0), first.bytes(), header, bytes);
            self.bytes_left = bytes - first.bytes();
            return self.stream(memory, payload, first.bytes());
        }
        self.wait_over(memory);
        Ok(Posted::Sent)
    }

    /// Whether enough lines are free for a message of so many bytes as a chunked eager message.
    ///
    /// # Errors
    /// [`Wild`] when the reader's progress is impossible.
    pub fn has_lines_for_chunked_message(
        &mut self,
        memory: &impl Memory,
        bytes: usize,
    ) -> Result<bool, ProtocolViolation> {
        let lines = bytes.div_ceil(chunked_message_chunk_bytes(bytes)) as u32;
        if self.is_whole() && self.lines_free < lines {
            self.look_for_room(memory)?;
        }
        Ok(self.is_whole() && self.lines_free >= lines)
    }

    /// Sends a message as a chunked eager message that stands at `at` on a large-message buffer where it is
    /// our turn: more than fits into a line, and [lines enough](Producer::has_lines_for_chunked_message).
    pub fn post_chunked_message(
        &mut self,
        memory: &impl Memory,
        header: &Header,
        payload: Payload<'_>,
        (large_buffer, at): (LargeBuffer, usize),
    ) {
        let bytes = payload.bytes();
        let chunk_bytes = chunked_message_chunk_bytes(bytes);
        debug_assert!(LINE_PAYLOAD_BYTES_MAX < bytes, "it fits into a line");
        let first = payload.part(0, chunk_bytes);
        memory.put(at, first);
        self.publish_first(memory, (Kind::Parcel, large_buffer as u32), first.bytes(), header, bytes);
        let mut done = first.bytes();
        while done < bytes {
            let chunk = payload.part(done, chunk_bytes);
            crash::point();
            memory.put(at + done, chunk);
            self.publish(memory, Kind::More, chunk.bytes(), &Header::default(), Payload::EMPTY);
            done += chunk.bytes();
        }
        self.wait_over(memory);
    }

    /// Sends a message of one chunk in the data area, which `put` writes there; whole, or not at all.
    fn post_chunk(
        &mut self,
        memory: &impl Memory,
        header: &Header,
        bytes: usize,
        put: impl FnOnce(usize),
    ) -> Result<Posted, ProtocolViolation> {
        if !self.room_for_chunk(memory, bytes)? {
            self.wait(memory);
            return Ok(Posted::Busy);
        }
        let span = self.spot.span(bytes);
        put(self.spot.data(span));
        self.pass(memory, span);
        self.publish(memory, Kind::Whole, bytes, header, Payload::EMPTY);
        self.wait_over(memory);
        Ok(Posted::Sent)
    }

    /// Sends a message of `bytes` bytes, more than a line and no more than a chunk holds, that `write` makes;
    /// whole, or not at all.
    ///
    /// # Errors
    /// [`Wild`] when the reader's progress is impossible.
    pub fn post_made(
        &mut self,
        memory: &impl Memory,
        header: &Header,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) -> Result<Posted, ProtocolViolation> {
        debug_assert!(LINE_PAYLOAD_BYTES_MAX < bytes && bytes <= self.chunk_bytes_max());
        if self.bytes_left > 0 {
            self.wait(memory);
            return Ok(Posted::Busy);
        }
        self.post_chunk(memory, header, bytes, |at| memory.make(at, bytes, write))
    }

    /// Goes on with the message that was taken partly.
    ///
    /// # Errors
    /// [`Wild`] when the reader's progress is impossible.
    pub fn resume(&mut self, memory: &impl Memory, rest: Payload<'_>) -> Result<Posted, ProtocolViolation> {
        debug_assert_eq!(rest.bytes(), self.bytes_left, "resumed with another message");
        self.stream(memory, rest, 0)
    }

    /// Sends the chunks of `payload` from `done` on, as far as there is room, and at most one data area of
    /// them, so that one call stays short even when the reader keeps up.
    fn stream(
        &mut self,
        memory: &impl Memory,
        payload: Payload<'_>,
        done: usize,
    ) -> Result<Posted, ProtocolViolation> {
        let stop = done + self.spot.shape.data_bytes as usize;
        let mut at = done;
        while at < payload.bytes() && at < stop {
            let chunk = payload.part(at, self.chunk_bytes_max());
            if !self.room_for_chunk(memory, chunk.bytes())? {
                break;
            }
            self.put_data(memory, chunk);
            self.publish(memory, Kind::More, chunk.bytes(), &Header::default(), Payload::EMPTY);
            at += chunk.bytes();
        }
        self.bytes_left = payload.bytes() - at;
        Ok(self.streamed(memory, at))
    }

    /// The answer after `at` bytes of a message are taken.
    fn streamed(&mut self, memory: &impl Memory, at: usize) -> Posted {
        if self.bytes_left == 0 {
            self.wait_over(memory);
            return Posted::Sent;
        }
        self.wait(memory);
        if at == 0 { Posted::Busy } else { Posted::Partly(at) }
    }

    /// Writes the line and makes it visible.
    #[inline(always)]
    fn publish(
        &mut self,
        memory: &impl Memory,
        kind: Kind,
        bytes: usize,
        header: &Header,
        payload: Payload<'_>,
    ) {
        let [a, b, c, d, e, f] = header.words;
        let front = [kind as u32 | bytes as u32, a, b, c, d, e, f];
        memory.publish_line(self.next_slot(), front, payload);
    }

    /// Writes the line that announces the first chunk of a message of `total` bytes, `bytes` of which are in
    /// that chunk, and makes it visible. The chunk of a chunked eager message stands on the large-message
    /// buffer of the number `large_buffer`; of any other message it stands in the data area, and the number
    /// is 0.
    fn publish_first(
        &mut self,
        memory: &impl Memory,
        (kind, large_buffer): (Kind, u32),
        bytes: usize,
        header: &Header,
        total: usize,
    ) {
        let words = [total as u32, (total as u64 >> 32) as u32, large_buffer].map(u32::to_ne_bytes);
        self.publish(memory, kind, bytes, header, Payload::from(words.as_flattened()));
    }

    /// Writes a chunk into the data area.
    fn put_data(&mut self, memory: &impl Memory, chunk: Payload<'_>) {
        let span = self.spot.span(chunk.bytes());
        memory.put(self.spot.data(span), chunk);
        self.pass(memory, span);
    }

    fn pass(&mut self, memory: &impl Memory, span: Span) {
        self.spot.pass(memory, span, Use::Write);
        self.units_free -= span.units;
    }

    /// Whether all of a message of so many bytes has room now.
    ///
    /// # Errors
    /// [`Wild`] when the reader's progress is impossible.
    pub fn has_room_for(&mut self, memory: &impl Memory, bytes: usize) -> Result<bool, ProtocolViolation> {
        let lines = bytes.div_ceil(self.chunk_bytes_max()) as u32;
        // No chunk goes round the end: what is left there is passed over.
        let needed = units(bytes) + units(self.chunk_bytes_max());
        let is_room = |it: &Producer| it.lines_free >= lines && it.units_free >= needed;
        if self.is_whole() && !is_room(self) {
            self.look_for_room(memory)?;
        }
        Ok(self.is_whole() && is_room(self))
    }

    /// Whether this side has used so much of the ring's data area that all of its pages were brought into
    /// this process.
    pub fn has_pages(&self) -> bool {
        self.spot.has_pages()
    }

    /// Whether a line is free, and room for the first chunk of a message of so many bytes.
    fn room_for_message(&mut self, memory: &impl Memory, bytes: usize) -> Result<bool, ProtocolViolation> {
        match bytes {
            0..=LINE_PAYLOAD_BYTES_MAX => self.room_for(memory, 0),
            _ => self.room_for_chunk(memory, bytes.min(self.chunk_bytes_max())),
        }
    }

    /// Whether a line is free, and room for a chunk beside it.
    fn room_for_chunk(&mut self, memory: &impl Memory, bytes: usize) -> Result<bool, ProtocolViolation> {
        let units = self.spot.span(bytes).units;
        Ok(self.units_all > 0 && self.room_for(memory, units)?)
    }

    fn room_for(&mut self, memory: &impl Memory, units: u32) -> Result<bool, ProtocolViolation> {
        if self.lines_free == 0 || self.units_free < units {
            self.look_for_room(memory)?;
        }
        Ok(self.lines_free > 0 && self.units_free >= units)
    }

    /// Reads the reader's progress. Acquire: what it has read may be overwritten from here on.
    #[cold]
    fn look_for_room(&mut self, memory: &impl Memory) -> Result<(), ProtocolViolation> {
        let at = self.spot.at + RING_CONSUMED;
        let lines = memory.word(at).load(Ordering::Acquire);
        let units = memory.word(at + 4).load(Ordering::Acquire);
        self.lines_free = free(self.spot.shape.lines, self.spot.lines_passed, lines)?;
        self.units_free = free(self.units_all, self.spot.units_passed, units)?;
        Ok(())
    }

    /// Tells the reader that somebody may sleep until there is room.
    fn wait(&mut self, memory: &impl Memory) {
        if !self.waiting {
            self.waiting = true;
            self.say(memory);
        }
    }

    fn wait_over(&mut self, memory: &impl Memory) {
        if self.waiting {
            self.waiting = false;
            self.say(memory);
        }
    }

    /// Release: a single-slot channel that is offered is there.
    fn say(&self, memory: &impl Memory) {
        let waiting = if self.waiting { WAITING } else { 0 };
        let offering = if self.offering { SINGLE_SLOT_OFFERED } else { 0 };
        memory.word(self.spot.at + RING_WAITING).store(waiting | offering, Ordering::Release);
    }

    fn chunk_bytes_max(&self) -> usize {
        self.spot.shape.chunk_bytes_max as usize
    }
}

/// What a line announces, in the two highest bits of the word after its sequence number:
///
/// ```text
/// 31..30 kind | 29..0 bytes of the chunk
/// ```
#[derive(Clone, Copy)]
#[repr(u32)]
enum Kind {
    /// A message, in the line itself or in the data area.
    Whole = 0,
    /// The beginning of a message in chunks; its length stands in the line's payload, low word first.
    First = 1 << KIND_SHIFT,
    /// More of it.
    More = 2 << KIND_SHIFT,
    /// A message on a large-message buffer, or the beginning of one in chunks that stand there; behind its
    /// length stands which large-message buffer it is.
    Parcel = 3 << KIND_SHIFT,
}

/// What stands before the header of a whole message of so many bytes.
#[inline(always)]
pub fn whole(bytes: usize) -> u32 {
    Kind::Whole as u32 | bytes as u32
}

const KIND_SHIFT: u32 = 30;
const KIND_MASK: u32 = 0b11 << KIND_SHIFT;

#[cfg(all(test, not(loom)))]
mod tests;
