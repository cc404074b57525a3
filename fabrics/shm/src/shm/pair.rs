//! This process and one peer of its node: the channel between them, and what is known of the peer.

use std::cell::Cell;
use std::time::Instant;

use fabric::{Header, Payload, Peer, Sink, UserMemory};

use crate::channel::{Channel, Next};
use crate::choices::{Choices, PullOrPush, Ways};
use crate::layout::Layout;
use crate::memory::{Mapped, Memory};
use crate::process_slot::ProcessSlot;
use crate::ring::{Arrival, ProtocolViolation, RingChunk};

/// A peer that was spoken to, or has spoken.
pub(super) struct Pair {
    pub(super) peer: Peer,
    pub(super) process_slot_number: u32,
    pub(super) process_slot: ProcessSlot,
    pub(super) channel: Channel,
    /// How much of the memory of the ring to the peer is there.
    pub(super) opened: Opened,
    /// The peer has spoken, and is not lost: its ring is polled.
    pub(super) is_heard: bool,
    pub(super) pull: Cell<Pull>,
    /// There was no memory for a chunked eager message; nobody asks again.
    pub(super) chunked_messages_refused: bool,
    landing: Option<Landing>,
    /// How long messages go, once there was one.
    choices: Option<Box<Choices>>,
}

/// How much of a ring's memory is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opened {
    Nothing,
    Lines,
    All,
    /// The peer is lost; nothing more is sent.
    Never,
}

/// What is known about reading a peer's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pull {
    Untried,
    Allowed(u32),
    Refused,
}

/// Where a message that comes in chunks is written.
pub(super) struct Landing {
    memory: UserMemory,
    done: usize,
}

impl Pair {
    /// The process on process slot `here` and that on process slot `there`, which is `peer`.
    pub(super) fn new(layout: &Layout, here: u32, there: u32, peer: Peer) -> Pair {
        Pair {
            peer,
            process_slot_number: there,
            process_slot: ProcessSlot::at(layout.process_slot_at(there)),
            channel: Channel::new(layout, here, there),
            opened: Opened::Nothing,
            is_heard: false,
            pull: Cell::new(Pull::Untried),
            chunked_messages_refused: false,
            landing: None,
            choices: None,
        }
    }

    /// The peer is lost: nothing more is sent to it, or heard of it.
    pub(super) fn close(&mut self) {
        self.opened = Opened::Never;
        self.channel.close();
        self.pull.set(Pull::Refused);
        (self.is_heard, self.landing, self.choices) = (false, None, None);
    }

    /// What is known of long messages to and from the peer; nothing before it has spoken.
    pub(super) fn choices(&mut self) -> Option<&mut Choices> {
        self.is_heard.then(|| &mut **self.choices.get_or_insert_default())
    }

    /// What is known of long messages to and from the peer, if [`Pair::choices`] has made room for it
    /// already; `None` before. Allocates nothing.
    pub(super) fn known_choices(&mut self) -> Option<&mut Choices> {
        self.choices.as_deref_mut()
    }

    /// What a copy to the peer takes for each byte, as far as is known.
    pub(super) fn copied_byte_ns(&self, ways: &Ways) -> f64 {
        self.choices.as_ref().map_or(ways.copied_byte_ns, |choices| choices.ring.copied_byte_ns(ways))
    }

    /// Reports up to `events` messages or chunks; also tells how many before a fault, and what the writer
    /// says.
    #[inline]
    pub(super) fn listen(
        &mut self,
        memory: &Mapped,
        sink: &mut impl Sink,
        events: usize,
    ) -> (usize, u32, Result<(), ProtocolViolation>) {
        let (mut done, mut says) = (0, 0);
        while done < events {
            match self.channel.next(memory) {
                Next::Letter => {
                    let peer = self.peer;
                    let take = |header: &Header, payload: Payload<'_>| {
                        sink.message(peer, header, payload);
                        Some(())
                    };
                    if let Err(wild) = self.channel.single_slot.take(memory, take) {
                        return (done, says, Err(wild));
                    }
                }
                Next::Line => match self.channel.consumer.short(memory) {
                    Some((header, bytes)) => {
                        let peer = self.peer;
                        says |= self.channel.consumer.take_short(memory, bytes, |payload| {
                            sink.message(peer, &header, payload);
                        });
                    }
                    None => match self.listen_to_chunks(memory, sink) {
                        Ok(said) => says |= said,
                        Err(wild) => return (done, says, Err(wild)),
                    },
                },
                Next::Nothing => {
                    if done == 0 {
                        says |= self.channel.consumer.idle(memory);
                    }
                    break;
                }
                Next::Strange => return (done, says, self.channel.strange(memory)),
            }
            done += 1;
            if sink.enough() {
                break;
            }
        }
        (done, says, Ok(()))
    }

    /// A line that is not a whole message by itself.
    #[inline(never)]
    fn listen_to_chunks(&mut self, memory: &Mapped, sink: &mut impl Sink) -> Result<u32, ProtocolViolation> {
        let Channel { consumer, single_slot, .. } = &mut self.channel;
        let Some(arrival) = consumer.front(memory, single_slot.expected_chunked_messages_at())? else {
            return Ok(0);
        };
        if !matches!(arrival, Arrival::More(_))
            && let Some((large_buffer, end)) = consumer.chunked_message_begun()
        {
            single_slot.bring_in(memory, large_buffer, end - single_slot.large_buffer_at(large_buffer));
        }
        let says = self.take(memory, sink, arrival);
        if let Some(large_buffer) = self.channel.consumer.takes_chunked_message() {
            self.channel.single_slot.took_chunked_message(large_buffer);
        }
        Ok(says)
    }

    #[inline]
    fn take(&mut self, memory: &Mapped, sink: &mut impl Sink, arrival: Arrival) -> u32 {
        let chunk = match arrival {
            Arrival::Whole(header, chunk) => {
                memory.read(chunk.offset, chunk.bytes, |payload| sink.message(self.peer, &header, payload));
                chunk
            }
            Arrival::First(header, bytes, chunk) => {
                self.landing = Some(Landing { memory: sink.arriving(self.peer, &header, bytes), done: 0 });
                // At first, pages of the ring are brought in one by one.
                if PullOrPush::concerns(bytes) && self.channel.consumer.has_pages() {
                    self.choices.get_or_insert_default().longer.begins(Instant::now());
                }
                self.land(memory, chunk);
                chunk
            }
            Arrival::More(chunk) => {
                self.land(memory, chunk);
                chunk
            }
        };
        let says = self.channel.consumer.release(memory, chunk);
        if !self.channel.consumer.midway()
            && let Some(landing) = self.landing.take()
        {
            if let Some(choices) = self.choices.as_mut().filter(|_| PullOrPush::concerns(landing.done)) {
                choices.longer.ends(landing.done, Instant::now());
            }
            sink.landed(self.peer);
        }
        says
    }

    /// Writes a chunk where the message is wanted.
    fn land(&mut self, memory: &Mapped, chunk: RingChunk) {
        if let Some(landing) = &mut self.landing {
            memory.read(chunk.offset, chunk.bytes, |payload| landing.memory.write_at(landing.done, payload));
            landing.done += chunk.bytes;
        }
    }
}
