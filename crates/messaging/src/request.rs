//! Requests: operations that have begun, and how they end.

use fabric::{FabricError, Payload, Peer, UserMemory};

use crate::envelope::{Pattern, Rank};
use crate::peers::Then;

/// Names a request of one engine. A request that is gone leaves a name that names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// How a send completes (MPI 5.0 §3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// When the buffer is free.
    Standard,
    /// When the receive has begun.
    Synchronous,
}

/// How an operation ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Who sent the message; for sends, meaningless.
    pub source: Rank,
    /// The message's tag; for sends, meaningless.
    pub tag: i32,
    /// Bytes received into the buffer.
    pub bytes: usize,
    /// It was cancelled before it matched.
    pub cancelled: bool,
    /// What went wrong, if anything did. A pointer, since it hardly ever does and outcomes travel much.
    pub failure: Option<Box<Failure>>,
}

/// Why an operation failed.
#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    /// The message was longer than the buffer; the buffer holds its beginning.
    Truncated {
        /// Length of the message in bytes.
        sent_bytes: usize,
        /// Length of the buffer in bytes.
        room_bytes: usize,
    },
    /// The peer is gone.
    Lost(FabricError),
}

impl Outcome {
    /// A send that is done.
    #[must_use]
    pub fn sent() -> Outcome {
        Outcome { source: Rank(0), tag: 0, bytes: 0, cancelled: false, failure: None }
    }

    #[inline]
    pub(crate) fn received(source: Rank, tag: i32, sent_bytes: usize, room_bytes: usize) -> Outcome {
        let failure = (sent_bytes > room_bytes).then(|| truncated(sent_bytes, room_bytes));
        Outcome { source, tag, bytes: sent_bytes.min(room_bytes), cancelled: false, failure }
    }

    pub(crate) fn cancelled() -> Outcome {
        Outcome { cancelled: true, ..Outcome::sent() }
    }

    pub(crate) fn failed(failure: Failure) -> Outcome {
        Outcome { failure: Some(Box::new(failure)), ..Outcome::sent() }
    }
}

#[cold]
fn truncated(sent_bytes: usize, room_bytes: usize) -> Box<Failure> {
    Box::new(Failure::Truncated { sent_bytes, room_bytes })
}

/// Where a request stands.
pub(crate) enum State {
    /// A send in the link's queue.
    Queued { to: Peer },
    /// A send whose message waits here, or was sent and waits to be matched.
    AwaitingReceiver { to: Peer, payload: Payload<'static> },
    /// A receive that nothing has matched.
    Posted { pattern: Pattern, from: Option<Peer>, memory: UserMemory },
    /// A matched receive whose bytes are on the way straight into its memory.
    Landing {
        from: Peer,
        memory: UserMemory,
        source: Rank,
        tag: i32,
        sent_bytes: usize,
        acknowledge: Option<RequestId>,
        /// The sender brings parts of it itself.
        shared: Option<Shared>,
    },
    /// A matched receive whose bytes are on the way into memory of our own.
    Following {
        from: Peer,
        memory: UserMemory,
        source: Rank,
        tag: i32,
        sent_bytes: usize,
        acknowledge: Option<RequestId>,
    },
    /// Whoever asked for it ends it.
    Promised,
    /// Over, and not yet asked about.
    Done(Outcome),
}

/// A message of which the sender brings parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shared {
    /// The sender's request.
    pub send: RequestId,
    /// What it has to bring; `None` where the message must be sent anew whatever it brings.
    pub missing: Option<usize>,
}

/// All requests of an engine: entries are reused, names are not.
#[derive(Default)]
pub(crate) struct Requests {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Counts completions, so that others can see that something happened.
    pub(crate) completions: u64,
}

struct Entry {
    generation: u32,
    state: Option<State>,
}

impl Requests {
    #[inline]
    pub(crate) fn insert(&mut self, state: State) -> RequestId {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.state = Some(state);
            return RequestId { index, generation: entry.generation };
        }
        let index = u32::try_from(self.entries.len()).expect("four billion requests do not fit into memory");
        self.entries.push(Entry { generation: 0, state: Some(state) });
        RequestId { index, generation: 0 }
    }

    #[inline]
    pub(crate) fn find(&mut self, id: RequestId) -> Option<&mut State> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.state.as_mut() } else { None }
    }

    /// Ends the request; its outcome waits to be taken.
    #[inline]
    pub(crate) fn complete(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(state) = self.find(id) {
            *state = State::Done(outcome);
            self.completions += 1;
        }
    }

    /// A message is gone to the fabric.
    pub(crate) fn sent(&mut self, to: Peer, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Complete(send) => self.complete(send, Outcome::sent()),
            Then::AwaitReceiver(send) => {
                if let Some(state) = self.find(send) {
                    *state = State::AwaitingReceiver { to, payload: Payload::EMPTY };
                }
            }
        }
    }

    /// Takes the entry out of the table, whatever it says.
    #[inline]
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<State> {
        self.find(id)?;
        let entry = &mut self.entries[id.index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.index);
        entry.state.take()
    }

    /// All requests that are not over.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (RequestId, &State)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let id = RequestId { index: index as u32, generation: entry.generation };
            entry.state.as_ref().filter(|state| !matches!(state, State::Done(_))).map(|state| (id, state))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_outlives_its_request_and_names_nothing() {
        let mut requests = Requests::default();
        let first = requests.insert(State::Queued { to: Peer(1) });
        assert!(requests.remove(first).is_some());
        let second = requests.insert(State::Queued { to: Peer(2) });
        assert_eq!(first.index, second.index);
        assert!(requests.find(first).is_none());
        assert!(requests.remove(first).is_none());
        requests.complete(first, Outcome::sent());
        assert!(matches!(requests.find(second), Some(State::Queued { to: Peer(2) })));
    }
}
