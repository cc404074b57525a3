//! Collective operations of two members and few bytes: at most one message each way, without a schedule.
//!
//! Where the two share a node's memory they go by a board, as among more members (decisions/0029). Elsewhere they are the
//! same messages as those of the schedules that are chosen for two ranks by the built-in costs (`collectives`,
//! whose tests see to it), so it makes no difference if one member goes this way and the other does not. By other costs, or
//! where algorithms are forced, nobody goes this way.

use std::sync::atomic::Ordering;

use collectives::{Activity, Cause, Failed, judge};
use fabric::{Payload, Peer, Room};
use job::error::{Class, Error, Result};
use messaging::{Envelope, Pattern, Rank, RequestId, Sending};

use super::board::Swapped;
use super::{Communicator, TAGS};

/// What is left to be waited for of a swap that was begun.
///
/// It is written to its place, and only where there is something left: to read what was just written in parts has the processor wait until
/// all that was written before has gone out, also the lines that the other member fetches (decisions/0066).
#[derive(Clone, Copy, Debug)]
pub struct Swapping {
    /// This member's rank.
    pub rank: Rank,
    /// The communicator, by where it lies.
    of: usize,
    by: By,
    theirs: Swapped,
}

/// Which way it goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// As an entry of that number.
    Board(u32),
    /// As messages.
    Messages { pattern: Pattern, sending: Option<RequestId> },
}

impl Communicator {
    /// Gives the other of two members something, and gets as many bytes as there is room for, as the next collective
    /// operation; the answer is this member's rank. `None`: nothing has happened, and [`Communicator::perform`] knows what to do.
    /// Where it is not over at once, `left`, which is nothing before, says what is left: then what is given and the room are in use
    /// until the end of [`Communicator::finish_swap`].
    #[inline(always)]
    #[must_use]
    pub fn swap_at_once(
        &self,
        give: Option<Payload<'static>>,
        get: Option<Room>,
        left: &mut Option<Swapping>,
    ) -> Option<Rank> {
        let inner = &*self.inner;
        let peer = inner.standing.pair()?;
        // Whether there is a board, the first operations find out.
        match inner.bulletin.get()?.as_ref().ok()? {
            Some(bulletin) => self.swap_by_board(bulletin, peer, give, get, left)?,
            None => self.swap_by_messages(peer, give, get, true, left)?,
        }
        inner.completed.one();
        Some(inner.rank)
    }

    /// What is left of a swap.
    #[inline(always)]
    pub(super) fn swapping(&self, by: By, theirs: Swapped) -> Option<Swapping> {
        Some(Swapping { rank: self.inner.rank, of: self.place_in_memory(), by, theirs })
    }

    /// Sends what is given, and gets what comes within a few looks; `None` where nothing has happened. What has not come is awaited
    /// where that is said; who only gets may leave it to [`Communicator::perform`], which sees as well whether it can come.
    #[inline(never)]
    pub(super) fn swap_by_messages(
        &self,
        peer: Peer,
        give: Option<Payload<'static>>,
        get: Option<Room>,
        is_awaited: bool,
        left: &mut Option<Swapping>,
    ) -> Option<()> {
        let inner = &*self.inner;
        let longest = longest_bytes(give.as_ref(), get.as_ref());
        if !inner.process.usual_for_two().has(give.is_some() && get.is_some(), longest) {
            return None;
        }
        let (source, context) = (inner.rank, self.collective_context());
        let number = inner.sequence.load(Ordering::Relaxed);
        let tag = (number % TAGS) as i32;
        let mut sending = None;
        if let Some(payload) = give {
            let envelope = Envelope { context, source, tag };
            if let Sending::Pending(request) = inner.process.send_at_once(peer, envelope, payload)? {
                sending = Some(request);
            }
        }
        let pattern = Pattern { context, source: Some(Rank(1 - source.0)), tag: Some(tag) };
        let theirs = match get {
            None => Swapped::Got,
            Some(room) => match inner.process.receive_at_once(pattern, peer, room) {
                Some(found) if found.bytes == room.bytes() => Swapped::Got,
                Some(found) => Swapped::Odd(found.bytes),
                None if is_awaited => Swapped::Awaited,
                None => return None,
            },
        };
        // One blocking operation is under way at a time (MPI 5.0 §6.14).
        inner.sequence.store(number.wrapping_add(1), Ordering::Relaxed);
        self.tell_board();
        if theirs != Swapped::Got || sending.is_some() {
            *left = self.swapping(By::Messages { pattern, sending }, theirs);
        }
        Some(())
    }

    /// The same where what is given and gotten is a matter of the rank: `sides` says so, or that it is not to be done so. Only where
    /// there is a board, since the schedules of such operations may send other messages.
    #[inline(always)]
    #[must_use]
    pub fn swap_by_rank_at_once(
        &self,
        sides: impl FnOnce(Rank) -> Option<(Option<Payload<'static>>, Option<Room>)>,
        left: &mut Option<Swapping>,
    ) -> Option<()> {
        let inner = &*self.inner;
        let peer = inner.standing.pair()?;
        let bulletin = inner.bulletin.get()?.as_ref().ok()?.as_ref()?;
        let (give, get) = sides(inner.rank)?;
        self.swap_by_board(bulletin, peer, give, get, left)?;
        inner.completed.one();
        Some(())
    }

    /// Waits for the rest of a swap, with the room that it was begun with.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    pub fn finish_swap(&self, swapping: &Swapping, room: Room) -> Result<()> {
        if swapping.of != self.place_in_memory() {
            return Err(self.swapped_before(swapping));
        }
        self.end_swap(swapping, room).inspect_err(|_| self.inner.completed.one_less())
    }

    fn place_in_memory(&self) -> usize {
        std::ptr::from_ref(&*self.inner).addr()
    }

    /// Another thread has recovered the world meanwhile, and this is what came in its place.
    #[cold]
    fn swapped_before(&self, swapping: &Swapping) -> Error {
        // What is being sent is in use until it is over.
        if let By::Messages { sending: Some(request), .. } = swapping.by {
            self.wait(request);
        }
        let what = format!("{}: it was recovered in the middle of the operation", self.place());
        Error::new(Class::ProcFailed, what).remedy("do the operation again")
    }

    fn end_swap(&self, swapping: &Swapping, room: Room) -> Result<()> {
        let (with, expected_bytes) = (Rank(1 - swapping.rank.0), room.bytes());
        let odd = |sent_bytes| self.swap_failed(with, Cause::Mismatch { sent_bytes, expected_bytes });
        match (&swapping.by, swapping.theirs) {
            (By::Board(_), Swapped::Got) => Ok(()),
            (By::Board(number), Swapped::Odd(_) | Swapped::Awaited) => {
                self.finish_swap_by_board(*number, room)
            }
            (By::Messages { pattern, sending }, theirs) => {
                let received = match theirs {
                    Swapped::Got => Ok(()),
                    Swapped::Odd(sent_bytes) => Err(odd(sent_bytes)),
                    Swapped::Awaited => {
                        let peer = self.inner.group.peer(with);
                        let outcome = self.process().receive_awaited(*pattern, peer, room.memory());
                        judge(&outcome, with, Activity::Receiving, expected_bytes).map_err(|f| self.told(&f))
                    }
                };
                // What is being sent is in use until it is sent, whatever became of the rest.
                let sent = sending.map(|request| judge(&self.wait(request), with, Activity::Sending, 0));
                received.and(sent.unwrap_or(Ok(())).map_err(|failed| self.told(&failed)))
            }
        }
    }

    /// What came from a member, or did not come, is not what was to come.
    #[cold]
    pub(super) fn swap_failed(&self, with: Rank, cause: Cause) -> Error {
        self.told(&Failed { with, activity: Activity::Receiving, cause })
    }
}

/// The longer of what is given and of what is gotten.
#[inline(always)]
pub(super) fn longest_bytes(give: Option<&Payload<'_>>, get: Option<&Room>) -> usize {
    give.map_or(0, |payload| payload.bytes()).max(get.map_or(0, |room| room.bytes()))
}
