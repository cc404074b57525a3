//! The receive that a thread waits for right now. It needs no request and no place in a table: whoever waits
//! looks here, and the first message that fits goes straight into the buffer.
//!
//! There is one such place. It is used while no receive is posted, so it comes first in the order of posting
//! (MPI 5.0 §3.5); a second thread that waits gets a request, as nonblocking receives do.

use fabric::Peer;

use crate::envelope::{Envelope, Pattern};
use crate::request::{Outcome, RequestId, State};
use crate::scattered::Target;

/// The receive that is waited for, if any. `L` is the fabric's lane.
pub(crate) enum Awaited<L> {
    /// The place is free.
    Nobody,
    /// Nothing has matched. The lane is that to `from`, where the fabric can look at one peer alone.
    Posted { pattern: Pattern, from: Option<Peer>, lane: Option<L>, target: Target },
    /// Its message takes several steps, and goes on as a request.
    Goes(RequestId),
    /// Over, and not yet taken.
    Over(Outcome),
}

/// Where the outcome of a receive that is waited for is to be found.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ticket {
    /// In the one place for it.
    Awaited,
    /// In a request.
    Request(RequestId),
}

impl<L> Awaited<L> {
    /// Whether some message may go here.
    #[inline(always)]
    pub(crate) fn is_posted(&self) -> bool {
        matches!(self, Awaited::Posted { .. })
    }

    /// Whether a message with that envelope goes here.
    #[inline]
    pub(crate) fn wants(&self, envelope: &Envelope) -> bool {
        matches!(self, Awaited::Posted { pattern, .. } if pattern.matches(envelope))
    }

    /// Empties the place.
    #[inline]
    pub(crate) fn take(&mut self) -> Awaited<L> {
        std::mem::replace(self, Awaited::Nobody)
    }

    /// The receive as the state of a request.
    pub(crate) fn into_state(self) -> Option<State> {
        match self {
            Awaited::Posted { pattern, from, target, .. } => Some(State::Posted { pattern, from, target }),
            _ => None,
        }
    }
}
