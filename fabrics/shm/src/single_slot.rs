//! The single-slot channel of a pair: one place that both write in turn, for those who answer each other.
//!
//! Whoever received the last message in it may write the next one: right where that one stood, in lines that
//! its processor has just read, where a ring would have to take fresh ones away from the other processor. A
//! sender who has not the turn uses its ring. So that both together keep the order of the pair, a message
//! here says how many lines of the ring went before it.
//!
//! ```text
//! single-slot channel | number 4 | bytes and lines before 4 | header 24 | payload ...
//! ```
//! The number counts the messages of both sides; like the number of a ring's line, it is what makes the
//! message visible. Longer messages stand on large-message buffers, as chunked eager messages: lines of the
//! sender's ring announce their chunks, and so they give the turn away without a number of their own
//! (decision 0002). A pair has two [large-message buffers](LargeBuffer), so that two who send at the same
//! time have one each, and each puts its next chunked eager message where it has just taken one away
//! (decision 0002). One of them is the single-slot channel behind the line of the number, over what was
//! there. The process on the lower process slot opens the single-slot channel and has the first turn there;
//! the other has it at the other large-message buffer.

use fabric::{Header, Payload};

use crate::layout::{
    CHUNKED_MESSAGE_AT, LINE, LINE_FRONT, LINE_PAYLOAD, PAGE, SHORT_MESSAGE_PAYLOAD_BYTES_MAX,
};
use crate::memory::{Memory, Slot, Use};
use crate::ring::{Look, ProtocolViolation};
use crate::sync::Ordering;

/// One side's view of a single-slot channel.
pub struct SingleSlotChannel {
    /// Of the last message that was written or read here.
    number: u32,
    /// Payload bytes for which the memory is known to be there.
    room: u16,
    /// Lines behind the first that the last message here had, if they were few: the next is likely to be
    /// alike, and its lines come at the same time where they are asked for at the same time.
    ahead: u8,
    /// Where a chunked eager message was taken away last.
    latest: LargeBuffer,
    /// The single-slot channel itself, and the large-message buffer beside.
    large_buffers: [Site; 2],
}

/// A place for chunked eager messages, of which a pair has two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum LargeBuffer {
    /// In the single-slot channel itself.
    Mailbox = 0,
    /// In the ring that has no single-slot channel.
    Beside = 1,
}

impl LargeBuffer {
    /// The large-message buffer that the line of a chunked eager message names.
    pub fn named(word: u32) -> Option<LargeBuffer> {
        [LargeBuffer::Mailbox, LargeBuffer::Beside]
            .into_iter()
            .find(|large_buffer| *large_buffer as u32 == word)
    }
}

/// Where a large-message buffer is, and whose turn it is there.
struct Site {
    at: usize,
    turn: Turn,
    /// For so many pages the memory is known to be there; and so many of these were brought in.
    pages: u16,
    pages_in: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// It is not in use.
    Nobody,
    /// We have offered it, and the other has not said that it looks there.
    Offered,
    Ours,
    Theirs,
}

impl SingleSlotChannel {
    /// The single-slot channel at `at`, with a large-message buffer at `beside`, not in use yet.
    pub fn new(at: usize, beside: usize) -> SingleSlotChannel {
        SingleSlotChannel {
            number: 0,
            room: 0,
            ahead: 0,
            latest: LargeBuffer::Mailbox,
            large_buffers: [at, beside].map(|at| Site { at, turn: Turn::Nobody, pages: 0, pages_in: 0 }),
        }
    }

    /// Whether nothing has been said about it.
    pub fn is_unused(&self) -> bool {
        self.turn() == Turn::Nobody
    }

    /// Whether the other has not answered our offer.
    pub fn is_offered(&self) -> bool {
        self.turn() == Turn::Offered
    }

    /// We have offered it. From then on the other may use the large-message buffer beside.
    pub fn offered(&mut self) {
        self.take_turns([Turn::Offered, Turn::Theirs]);
    }

    /// Notes that the peer looks into the single-slot channel now: the first turn is ours.
    pub fn accepted(&mut self) {
        self.site_mut(LargeBuffer::Mailbox).turn = Turn::Ours;
    }

    /// We look here from now on: the first turn is the other's.
    pub fn accept(&mut self) {
        self.take_turns([Turn::Theirs, Turn::Ours]);
    }

    /// Nothing is sent or received here any more.
    pub fn close(&mut self) {
        self.take_turns([Turn::Nobody, Turn::Nobody]);
    }

    /// The memory for payloads up to `bytes` is there.
    pub fn reserved(&mut self, bytes: usize) {
        self.room = bytes as u16;
    }

    /// Where the single-slot channel stands.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.large_buffer_at(LargeBuffer::Mailbox)
    }

    #[inline(always)]
    fn turn(&self) -> Turn {
        self.site(LargeBuffer::Mailbox).turn
    }

    #[inline(always)]
    fn site(&self, large_buffer: LargeBuffer) -> &Site {
        &self.large_buffers[large_buffer as usize]
    }

    #[inline(always)]
    fn site_mut(&mut self, large_buffer: LargeBuffer) -> &mut Site {
        &mut self.large_buffers[large_buffer as usize]
    }

    fn take_turns(&mut self, turns: [Turn; 2]) {
        for (site, turn) in self.large_buffers.iter_mut().zip(turns) {
            site.turn = turn;
        }
    }

    /// Whether it is our turn.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.turn() == Turn::Ours
    }

    /// Whether a payload that long can be sent now.
    #[inline(always)]
    pub fn takes(&self, bytes: usize) -> bool {
        self.turn() == Turn::Ours && bytes <= usize::from(self.room)
    }

    /// The large-message buffer for a chunked eager message now, if it is our turn at one: of two the one
    /// whose lines we have read last.
    pub fn free_large_buffer(&self) -> Option<LargeBuffer> {
        let is_ours = |large_buffer| self.site(large_buffer).turn == Turn::Ours;
        match (is_ours(LargeBuffer::Mailbox), is_ours(LargeBuffer::Beside)) {
            (true, true) => Some(self.latest),
            (true, false) => Some(LargeBuffer::Mailbox),
            (false, true) => Some(LargeBuffer::Beside),
            (false, false) => None,
        }
    }

    /// Where a large-message buffer begins.
    #[inline(always)]
    pub fn large_buffer_at(&self, large_buffer: LargeBuffer) -> usize {
        self.site(large_buffer).at
    }

    /// Whether there is memory for so much of a large-message buffer.
    pub fn has_memory(&self, large_buffer: LargeBuffer, bytes: usize) -> bool {
        bytes <= usize::from(self.site(large_buffer).pages) * PAGE
    }

    /// Notes that `large_buffer` has memory for `bytes` bytes.
    pub fn got_memory(&mut self, large_buffer: LargeBuffer, bytes: usize) {
        let site = self.site_mut(large_buffer);
        site.pages = site.pages.max(bytes.div_ceil(PAGE) as u16);
    }

    /// Has the system bring so much of it in, unless that was done.
    pub fn bring_in(&mut self, memory: &impl Memory, large_buffer: LargeBuffer, bytes: usize) {
        let pages = bytes.div_ceil(PAGE) as u16;
        let site = self.site_mut(large_buffer);
        if pages > site.pages_in {
            site.pages_in = pages;
            memory.bring_in(site.at, usize::from(pages) * PAGE, Use::Write);
        }
    }

    /// Where chunked eager messages stand on a large-message buffer.
    pub fn chunked_messages_at(&self, large_buffer: LargeBuffer) -> usize {
        self.large_buffer_at(large_buffer) + CHUNKED_MESSAGE_AT
    }

    /// A chunked eager message was sent.
    pub fn sent_chunked_message(&mut self, large_buffer: LargeBuffer) {
        self.site_mut(large_buffer).turn = Turn::Theirs;
    }

    /// Where one stands that comes, on each of the large-message buffers where it is the other's turn.
    pub fn expected_chunked_messages_at(&self) -> [Option<usize>; 2] {
        [LargeBuffer::Mailbox, LargeBuffer::Beside].map(|large_buffer| {
            (self.site(large_buffer).turn == Turn::Theirs).then(|| self.chunked_messages_at(large_buffer))
        })
    }

    /// Notes that a chunked eager message has come whole on `large_buffer`: the turn there is ours.
    pub fn took_chunked_message(&mut self, large_buffer: LargeBuffer) {
        self.site_mut(large_buffer).turn = Turn::Ours;
        self.latest = large_buffer;
    }

    /// The slot for the next message, which the single-slot channel [`takes`](SingleSlotChannel::takes). The
    /// turn is the other's once it is written.
    #[inline(always)]
    pub fn next_slot(&mut self) -> Slot {
        debug_assert!(self.is_ours(), "posted out of turn");
        self.number = self.number.wrapping_add(1);
        self.site_mut(LargeBuffer::Mailbox).turn = Turn::Theirs;
        Slot { at: self.at(), number: self.number }
    }

    /// Whether a message has come here: the turn was theirs, and they have used it.
    #[inline(always)]
    pub fn look(&self, memory: &impl Memory) -> Look {
        if self.turn() != Turn::Theirs {
            return Look::Nothing;
        }
        for line in 1..=usize::from(self.ahead) {
            memory.prefetch(self.at() + line * LINE);
        }
        let found = memory.number(self.at()).load(Ordering::Acquire);
        if found == self.number.wrapping_add(1) {
            return Look::Ready;
        }
        if found == self.number { Look::Nothing } else { Look::Wild(found) }
    }

    /// What a number other than the two that may stand here means.
    #[cold]
    pub fn out_of_turn(&self, found: u32) -> ProtocolViolation {
        ProtocolViolation::Sequence { expected: self.number.wrapping_add(1), found }
    }

    /// The lines of the sender's ring that go before the message that has come, in the low 16 bits.
    #[inline(always)]
    pub fn lines_before(&self, memory: &impl Memory) -> u16 {
        let [what] = memory.take_words::<1>(self.at() + LINE_FRONT);
        (what >> 16) as u16
    }

    /// Lends the message that has come to `reader`; then the turn is ours, unless the reader's answer is
    /// `None`.
    ///
    /// # Errors
    /// [`Wild`] when no sane peer can have written it.
    #[inline(always)]
    pub fn take<R>(
        &mut self,
        memory: &impl Memory,
        reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> Result<Option<R>, ProtocolViolation> {
        let [what, words @ ..] = memory.take_front(self.at());
        let (bytes, bytes_max) = ((what & 0xffff) as usize, SHORT_MESSAGE_PAYLOAD_BYTES_MAX);
        if bytes > bytes_max {
            return Err(ProtocolViolation::Length { bytes, bytes_max });
        }
        let taken =
            memory.read(self.at() + LINE_PAYLOAD, bytes, |payload| reader(&Header { words }, payload));
        if taken.is_some() {
            self.number = self.number.wrapping_add(1);
            self.site_mut(LargeBuffer::Mailbox).turn = Turn::Ours;
            let lines = (LINE_PAYLOAD + bytes).div_ceil(LINE) - 1;
            self.ahead = if lines <= LINES_AHEAD_MAX { lines as u8 } else { 0 };
        }
        Ok(taken)
    }
}

/// More lines than these are fetched by the processor itself while they are copied.
const LINES_AHEAD_MAX: usize = 3;

const _: () = assert!(SHORT_MESSAGE_PAYLOAD_BYTES_MAX <= u16::MAX as usize, "lengths stand in 16 bits");
