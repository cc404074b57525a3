//! Which operations are not over, for people who wonder why a call does not return.

use fabric::{Fabric, Peer};
use recovery::Rank;

use super::{Engine, Interest};
use crate::awaited::Awaited;
use crate::envelope::Pattern;
use crate::request::{RequestId, State};

/// An operation that is not over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pending {
    /// A send to this peer.
    Send {
        /// The receiver.
        to: Peer,
        /// Its context and tag; not known of a message that waits in the sender's queue.
        under: Option<(u32, i32)>,
    },
    /// A receive that nothing has matched.
    Receive {
        /// The sender; any where there is none.
        from: Option<Peer>,
        /// What it asks for.
        pattern: Pattern,
    },
    /// A receive whose message is on its way.
    Arriving {
        /// The sender.
        from: Peer,
        /// The sender's rank.
        source: Rank,
        /// The message's tag.
        tag: i32,
    },
    /// An operation of several messages, or one that ends when its caller says so.
    Several,
}

impl Pending {
    /// Its context, where it is known.
    #[must_use]
    pub fn context(&self) -> Option<u32> {
        match self {
            Pending::Send { under, .. } => under.map(|(context, _)| context),
            Pending::Receive { pattern, .. } => Some(pattern.context),
            Pending::Arriving { .. } | Pending::Several => None,
        }
    }
}

impl<F: Fabric> Engine<F> {
    /// The operation whose end is of interest, unless it is over.
    #[must_use]
    pub fn pending(&self, interest: Interest) -> Option<Pending> {
        match interest {
            Interest::Anything | Interest::Memory => None,
            Interest::Request(request) => self.pending_request(request),
            Interest::Awaited => match &self.core.awaited {
                Awaited::Posted { pattern, from, .. } => {
                    Some(Pending::Receive { from: *from, pattern: *pattern })
                }
                Awaited::Goes(request) => self.pending_request(*request),
                Awaited::Nobody | Awaited::Over(_) => None,
            },
        }
    }

    fn pending_request(&self, request: RequestId) -> Option<Pending> {
        self.core.requests.pending().find_map(|(id, state)| pending(state).filter(|_| id == request))
    }

    /// All operations that are not over.
    pub fn all_pending(&self) -> impl Iterator<Item = Pending> {
        let awaited =
            self.pending(Interest::Awaited).filter(|pending| matches!(pending, Pending::Receive { .. }));
        awaited.into_iter().chain(self.core.requests.pending().filter_map(|(_, state)| pending(state)))
    }
}

fn pending(state: &State) -> Option<Pending> {
    Some(match state {
        State::Queued { to } => Pending::Send { to: *to, under: None },
        State::AwaitingReceiver { to, context, tag, .. } => {
            Pending::Send { to: *to, under: Some((*context, *tag)) }
        }
        State::Posted { pattern, from, .. } => Pending::Receive { from: *from, pattern: *pattern },
        State::Landing { from, source, tag, .. } | State::Following { from, source, tag, .. } => {
            Pending::Arriving { from: *from, source: *source, tag: *tag }
        }
        State::Gathering { .. } => Pending::Several,
        State::Received(_) | State::Done(_) => return None,
    })
}
