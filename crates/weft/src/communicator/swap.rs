//! Collective operations of two members and few bytes: at most one message each way, without a schedule.
//!
//! They are the same messages as those of the schedules that are chosen for two ranks by the built-in costs (`collectives`,
//! whose tests see to it), so it makes no difference if one member goes this way and the other does not. By other costs, or
//! where algorithms are forced, nobody goes this way.

use std::sync::atomic::Ordering;

use collectives::{Activity, Cause, Failed, judge};
use fabric::{Payload, Room};
use messaging::{Envelope, Pattern, Rank, RequestId, Sending};

use super::{Communicator, TAGS, collective_failed};
use crate::error::Result;

/// A swap that was begun.
#[derive(Debug)]
pub struct Swapping {
    /// This member's rank.
    pub rank: Rank,
    pattern: Pattern,
    sending: Option<RequestId>,
    theirs: Theirs,
}

/// What the other member gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Theirs {
    /// It is here, or nothing is to come.
    Here,
    /// It was not there yet.
    Awaited,
    /// It was of that length, which is not that of the room.
    Odd(usize),
}

impl Swapping {
    /// Whether nothing is left to be waited for.
    #[inline(always)]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.theirs == Theirs::Here && self.sending.is_none()
    }
}

impl Communicator {
    /// Gives the other of two members something, and gets as many bytes as there is room for, as the next collective
    /// operation. `None`: nothing has happened, and [`Communicator::perform`] knows what to do. What is given and the room
    /// are in use until [`Swapping::is_over`] or the end of [`Communicator::finish_swap`].
    #[inline(always)]
    #[must_use]
    pub fn swap_at_once(&self, give: Option<Payload<'static>>, get: Option<Room>) -> Option<Swapping> {
        let inner = &*self.inner;
        let peer = inner.pair?;
        if !inner.process.is_built_in_guide() {
            return None;
        }
        let (rank, context) = (inner.rank, inner.context * 2 + 1);
        let number = inner.sequence.load(Ordering::Relaxed);
        let tag = (number % TAGS) as i32;
        let mut sending = None;
        if let Some(payload) = give {
            let envelope = Envelope { context, source: rank, tag };
            if let Sending::Pending(request) = inner.process.send_at_once(peer, envelope, payload)? {
                sending = Some(request);
            }
        }
        // One blocking operation is under way at a time (MPI 5.0 §6.14).
        inner.sequence.store(number.wrapping_add(1), Ordering::Relaxed);
        let pattern = Pattern { context, source: Some(Rank(1 - rank.0)), tag: Some(tag) };
        let theirs = match get {
            None => Theirs::Here,
            Some(room) => match inner.process.receive_at_once(pattern, peer, room) {
                Some(found) if found.bytes == room.bytes() => Theirs::Here,
                Some(found) => Theirs::Odd(found.bytes),
                None => Theirs::Awaited,
            },
        };
        Some(Swapping { rank, pattern, sending, theirs })
    }

    /// Waits for the rest of a swap, with the room that it was begun with.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    pub fn finish_swap(&self, swapping: &Swapping, room: Room) -> Result<()> {
        let Swapping { pattern, sending, theirs, .. } = *swapping;
        let (with, expected_bytes) = (Rank(1 - swapping.rank.0), room.bytes());
        let received = match theirs {
            Theirs::Here => Ok(()),
            Theirs::Odd(sent_bytes) => {
                let cause = Cause::Mismatch { sent_bytes, expected_bytes };
                Err(Failed { with, activity: Activity::Receiving, cause })
            }
            Theirs::Awaited => {
                let outcome = self.process().receive_awaited(pattern, self.inner.pair, room.memory());
                judge(&outcome, with, Activity::Receiving, expected_bytes)
            }
        };
        // What is being sent is in use until it is sent, whatever became of the rest.
        let sent = sending.map(|request| judge(&self.wait(request), with, Activity::Sending, 0));
        received.and(sent.unwrap_or(Ok(()))).map_err(|failed| collective_failed(&failed).during(self.place()))
    }
}
