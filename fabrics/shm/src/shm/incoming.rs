//! What comes in from one peer: the lines of its ring and the letters in the mailbox, in the order they were sent.

use std::time::Instant;

use fabric::{Header, Looked, Payload, Peer, Sink, UserMemory};

use super::{NOWHERE, ShmLane};
use crate::choices::{Choices, PullOrPush, Ways};
use crate::mailbox::Mailbox;
use crate::memory::{Mapped, Memory};
use crate::ring::{Arrival, Consumer, Look, Piece, Wild};
use crate::seat::Seat;

/// The receiving side of one pair.
pub(super) struct Incoming {
    pub(super) peer: Peer,
    pub(super) seat: Seat,
    pub(super) seat_number: u32,
    pub(super) consumer: Consumer,
    pub(super) landing: Option<Landing>,
    /// The index of the lane back to the same peer; [`NOWHERE`] before there is one.
    pub(super) lane: u32,
    /// How long messages go, once there was one.
    pub(super) choices: Option<Box<Choices>>,
}

/// Where a message that comes in pieces is written.
pub(super) struct Landing {
    memory: UserMemory,
    done: usize,
}

impl Incoming {
    /// The lane back to the same peer, once there is one.
    #[inline(always)]
    pub(super) fn lane(&self) -> Option<ShmLane> {
        (self.lane != NOWHERE).then_some(ShmLane { index: self.lane })
    }

    /// What a copy to the peer takes for each byte, as far as is known.
    pub(super) fn copied_byte_ns(&self, ways: &Ways) -> f64 {
        self.choices.as_ref().map_or(ways.copied_byte_ns, |choices| choices.ring.copied_byte_ns(ways))
    }

    /// Reports up to `events` messages or pieces; also tells how many before a fault, and what the writer says.
    #[inline]
    pub(super) fn listen(
        &mut self,
        memory: &Mapped,
        mut mailbox: Option<&mut Mailbox>,
        sink: &mut impl Sink,
        events: usize,
    ) -> (usize, u32, Result<(), Wild>) {
        let (mut done, mut says) = (0, 0);
        while done < events {
            match self.next(memory, mailbox.as_deref()) {
                Next::Letter => {
                    let peer = self.peer;
                    let take = |header: &Header, payload: Payload<'_>| {
                        sink.message(peer, header, payload);
                        Some(())
                    };
                    if let Some(mailbox) = &mut mailbox
                        && let Err(wild) = mailbox.take(memory, take)
                    {
                        return (done, says, Err(wild));
                    }
                }
                Next::Line => match self.consumer.short(memory) {
                    Some((header, bytes)) => {
                        let peer = self.peer;
                        says |= self.consumer.take_short(memory, bytes, |payload| {
                            sink.message(peer, &header, payload);
                        });
                    }
                    None => match self.listen_to_pieces(memory, mailbox.as_deref_mut(), sink) {
                        Ok(said) => says |= said,
                        Err(wild) => return (done, says, Err(wild)),
                    },
                },
                Next::Nothing => {
                    if done == 0 {
                        says |= self.consumer.idle(memory);
                    }
                    break;
                }
                Next::Strange => return (done, says, self.strange(memory, mailbox.as_deref())),
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
    fn listen_to_pieces(
        &mut self,
        memory: &Mapped,
        mut mailbox: Option<&mut Mailbox>,
        sink: &mut impl Sink,
    ) -> Result<u32, Wild> {
        let parcels_at = mailbox.as_ref().map_or([None; 2], |mailbox| mailbox.expected_parcels_at());
        let Some(arrival) = self.consumer.front(memory, parcels_at)? else { return Ok(0) };
        if !matches!(arrival, Arrival::More(_))
            && let (Some((shelf, end)), Some(mailbox)) =
                (self.consumer.parcel_begun(), mailbox.as_deref_mut())
        {
            mailbox.bring_in(memory, shelf, end - mailbox.shelf_at(shelf));
        }
        let says = self.take(memory, sink, arrival);
        if let (Some(shelf), Some(mailbox)) = (self.consumer.takes_parcel(), mailbox) {
            mailbox.took_parcel(shelf);
        }
        Ok(says)
    }

    /// Shows `reader` the next message, if it is whole and nothing is unusual; with the answer comes what the writer
    /// says. Whatever else there is, [`Incoming::listen`] finds.
    #[inline(always)]
    pub(super) fn look<R>(
        &mut self,
        memory: &Mapped,
        mailbox: &mut Mailbox,
        reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> (Looked<R>, u32) {
        // The line first: a letter that goes before it is seen when it is.
        let line = self.consumer.look(memory);
        let letter = mailbox.look(memory);
        if letter == Look::Ready
            && mailbox.lines_before(memory) == self.consumer.lines_passed() as u16
            && !self.consumer.midway()
        {
            return match mailbox.take(memory, reader) {
                Ok(Some(found)) => (Looked::Taken(found), 0),
                Ok(None) | Err(_) => (Looked::Left, 0),
            };
        }
        if line != Look::Ready {
            // What is wild is left to those who can tell of it.
            return (if line == Look::Nothing { Looked::Nothing } else { Looked::Left }, 0);
        }
        let Some((header, piece)) = self.consumer.whole(memory) else { return (Looked::Left, 0) };
        match memory.read(piece.offset, piece.bytes, |payload| reader(&header, payload)) {
            Some(found) => (Looked::Taken(found), self.consumer.release(memory, piece)),
            None => (Looked::Left, 0),
        }
    }

    /// What comes next in the order of the pair.
    #[inline(always)]
    fn next(&self, memory: &Mapped, mailbox: Option<&Mailbox>) -> Next {
        let mut letter = mailbox.map_or(Look::Nothing, |mailbox| mailbox.look(memory));
        let line = self.consumer.look(memory);
        if let Some(mailbox) = mailbox {
            if letter == Look::Nothing && line == Look::Ready {
                // A letter may have been put down before the line that was seen just now, and after the first look.
                letter = mailbox.look(memory);
            }
            if letter == Look::Ready
                && mailbox.lines_before(memory) == self.consumer.lines_passed() as u16
                && !self.consumer.midway()
            {
                return Next::Letter;
            }
        }
        match (line, letter) {
            (Look::Ready, _) => Next::Line,
            (Look::Nothing, Look::Nothing) => Next::Nothing,
            _ => Next::Strange,
        }
    }

    /// Neither a message nor nothing: a letter whose lines were not there when we looked, and are now; or what no
    /// sane peer writes.
    #[cold]
    fn strange(&self, memory: &Mapped, mailbox: Option<&Mailbox>) -> Result<(), Wild> {
        if let Look::Wild(found) = self.consumer.look(memory) {
            return Err(self.consumer.out_of_turn(found));
        }
        let Some(mailbox) = mailbox else { return Ok(()) };
        let (lines_before, lines_passed) =
            (mailbox.lines_before(memory), self.consumer.lines_passed() as u16);
        match (mailbox.look(memory), self.consumer.look(memory)) {
            (Look::Wild(found), _) => Err(mailbox.out_of_turn(found)),
            (Look::Ready, Look::Nothing) if lines_before != lines_passed || self.consumer.midway() => {
                Err(Wild::Order { lines_before, lines_passed })
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn take(&mut self, memory: &Mapped, sink: &mut impl Sink, arrival: Arrival) -> u32 {
        let piece = match arrival {
            Arrival::Whole(header, piece) => {
                memory.read(piece.offset, piece.bytes, |payload| sink.message(self.peer, &header, payload));
                piece
            }
            Arrival::First(header, bytes, piece) => {
                self.landing = Some(Landing { memory: sink.arriving(self.peer, &header, bytes), done: 0 });
                // At first, pages of the ring are brought in one by one.
                if PullOrPush::concerns(bytes) && self.consumer.has_pages() {
                    self.choices.get_or_insert_default().longer.begins(Instant::now());
                }
                self.land(memory, piece);
                piece
            }
            Arrival::More(piece) => {
                self.land(memory, piece);
                piece
            }
        };
        let says = self.consumer.release(memory, piece);
        if !self.consumer.midway()
            && let Some(landing) = self.landing.take()
        {
            if let Some(choices) = self.choices.as_mut().filter(|_| PullOrPush::concerns(landing.done)) {
                choices.longer.ends(landing.done, Instant::now());
            }
            sink.landed(self.peer);
        }
        says
    }

    /// Writes a piece where the message is wanted.
    fn land(&mut self, memory: &Mapped, piece: Piece) {
        if let Some(landing) = &mut self.landing {
            memory.read(piece.offset, piece.bytes, |payload| landing.memory.write_at(landing.done, payload));
            landing.done += piece.bytes;
        }
    }
}

/// What is to be reported next of a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// What stands in the mailbox.
    Letter,
    /// What stands at the front of the ring.
    Line,
    /// To be looked at more closely.
    Strange,
}
