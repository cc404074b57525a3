//! The channel of a pair: all that two processes of a node send each other, in one order for each direction.
//!
//! A short message is one slot: the one of the [single-slot channel](crate::single_slot), which both write in
//! turn, where its sender has the turn there, and else the next line of the sender's [ring](crate::ring).
//! What is longer stands on a large-message buffer of the pair or in the ring's data area, and lines of the
//! ring announce it. The lines of a ring are numbered, and a message in the single-slot channel says how many
//! lines go before it: so whoever receives knows which of the two comes next.

use fabric::{Header, Looked, Payload, Posted, UserMemory};

use crate::layout::{LINE_PAYLOAD, LINE_PAYLOAD_BYTES_MAX, Layout};
use crate::memory::Memory;
use crate::ring::{Consumer, Look, Producer, ProtocolViolation, whole};
use crate::single_slot::SingleSlotChannel;

/// One side's view of a channel.
pub struct Channel {
    /// What goes out.
    pub producer: Producer,
    /// The reader's side of the ring from the peer.
    pub consumer: Consumer,
    /// What goes both ways.
    pub single_slot: SingleSlotChannel,
}

/// What is to be reported next of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    Nothing,
    /// What stands in the single-slot channel.
    Letter,
    /// What stands at the front of the ring.
    Line,
    /// To be looked at more closely.
    Strange,
}

impl Channel {
    /// The channel between two process slots, of which `here` is this process's. Nothing of it is in use yet.
    pub fn new(layout: &Layout, here: u32, there: u32) -> Channel {
        Channel {
            producer: Producer::new(layout.ring_at(here, there), layout.ring),
            consumer: Consumer::new(layout.ring_at(there, here), layout.ring),
            single_slot: SingleSlotChannel::new(
                layout.single_slot_at(here, there),
                layout.large_buffer_beside_at(here, there),
            ),
        }
    }

    /// Nothing more is sent.
    pub fn close(&mut self) {
        self.producer.close();
        self.single_slot.close();
    }

    /// Sends a message that fits into the next slot; false where it does not, and then nothing has happened.
    /// This is the whole path of a small message.
    #[inline(always)]
    pub fn post(&mut self, memory: &impl Memory, header: &Header, payload: Payload<'_>) -> bool {
        let (bytes, is_in_line) = (payload.bytes(), payload.bytes() <= LINE_PAYLOAD_BYTES_MAX);
        let (slot, what) = if self.takes_short_message(bytes) {
            (self.single_slot.next_slot(), self.short_message(bytes))
        } else if is_in_line && self.producer.has_line() {
            (self.producer.next_slot(), whole(bytes))
        } else {
            return false;
        };
        if !is_in_line {
            memory.put(slot.at + LINE_PAYLOAD, payload);
        }
        let [a, b, c, d, e, f] = header.words;
        let beside = if is_in_line { payload } else { Payload::EMPTY };
        memory.publish_line(slot, [what, a, b, c, d, e, f], beside);
        true
    }

    /// Sends a message of `bytes` bytes, more than a line and no more than a chunk of the ring holds, that
    /// `write` makes where the receiver reads it; whole, or not at all.
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
        if !self.takes_short_message(bytes) {
            return self.producer.post_made(memory, header, bytes, write);
        }
        memory.make(self.single_slot.at() + LINE_PAYLOAD, bytes, write);
        let [a, b, c, d, e, f] = header.words;
        let front = [self.short_message(bytes), a, b, c, d, e, f];
        memory.publish_line(self.single_slot.next_slot(), front, Payload::EMPTY);
        Ok(Posted::Sent)
    }

    /// Whether the next message, of so many bytes, can go through the single-slot channel.
    #[inline(always)]
    fn takes_short_message(&self, bytes: usize) -> bool {
        self.single_slot.takes(bytes) && self.producer.is_whole()
    }

    /// What stands before the header of a message: its length, and the lines of our ring that go before it.
    #[inline(always)]
    fn short_message(&self, bytes: usize) -> u32 {
        bytes as u32 | self.producer.lines_passed() << 16
    }

    /// Shows `reader` the next message, if it is whole and nothing is unusual; with the answer comes what the
    /// writer says. Whatever else there is, [`Channel::next`] tells.
    #[inline(always)]
    pub fn look<R>(
        &mut self,
        memory: &impl Memory,
        reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> (Looked<R>, u32) {
        // The line first: a message that goes before it is seen when it is.
        let line = self.consumer.look(memory);
        let short_message = self.single_slot.look(memory);
        if short_message == Look::Ready && self.is_short_message_next(memory) {
            return match self.single_slot.take(memory, reader) {
                Ok(Some(found)) => (Looked::Taken(found), 0),
                Ok(None) | Err(_) => (Looked::Left, 0),
            };
        }
        if line != Look::Ready {
            // What is wild is left to those who can tell of it.
            return (if line == Look::Nothing { Looked::Nothing } else { Looked::Left }, 0);
        }
        let Some((header, chunk)) = self.consumer.whole(memory) else { return (Looked::Left, 0) };
        match memory.read(chunk.offset, chunk.bytes, |payload| reader(&header, payload)) {
            Some(found) => (Looked::Taken(found), self.consumer.release(memory, chunk)),
            None => (Looked::Left, 0),
        }
    }

    /// What comes next in the order of the pair.
    #[inline(always)]
    pub fn next(&self, memory: &impl Memory) -> Next {
        let mut short_message = self.single_slot.look(memory);
        let line = self.consumer.look(memory);
        if short_message == Look::Nothing && line == Look::Ready {
            // A message may have been put down before the line that was seen just now, and after the first
            // look.
            short_message = self.single_slot.look(memory);
        }
        if short_message == Look::Ready && self.is_short_message_next(memory) {
            return Next::Letter;
        }
        match (line, short_message) {
            (Look::Ready, _) => Next::Line,
            (Look::Nothing, Look::Nothing) => Next::Nothing,
            _ => Next::Strange,
        }
    }

    /// Whether no line goes before the message that has come.
    #[inline(always)]
    fn is_short_message_next(&self, memory: &impl Memory) -> bool {
        self.single_slot.lines_before(memory) == self.consumer.lines_passed() as u16
            && !self.consumer.midway()
    }

    /// Neither a message nor nothing: a message whose lines were not there when we looked, and are now; or
    /// what no sane peer writes.
    ///
    /// # Errors
    /// What it is, in the latter case.
    #[cold]
    pub fn strange(&self, memory: &impl Memory) -> Result<(), ProtocolViolation> {
        if let Look::Wild(found) = self.consumer.look(memory) {
            return Err(self.consumer.out_of_turn(found));
        }
        match (self.single_slot.look(memory), self.consumer.look(memory)) {
            (Look::Wild(found), _) => Err(self.single_slot.out_of_turn(found)),
            (Look::Ready, Look::Nothing) if !self.is_short_message_next(memory) => {
                Err(ProtocolViolation::Order {
                    lines_before: self.single_slot.lines_before(memory),
                    lines_passed: self.consumer.lines_passed() as u16,
                })
            }
            _ => Ok(()),
        }
    }
}
