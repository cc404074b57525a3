//! Requests: operations that have begun, and how they end.

use fabric::{Exposed, FabricError, Payload, Peer, Room};
use recovery::Rank;

use crate::envelope::{Envelope, Pattern};
use crate::matching::Probed;
use crate::peers::Then;
use crate::scattered::{Source, Target};

/// Names a request of one engine. A request that is gone leaves a name that names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl RequestId {
    /// The name that these numbers are; whether it names anything, the engine knows.
    #[inline]
    #[must_use]
    pub fn new(index: u32, generation: u32) -> RequestId {
        RequestId { index, generation }
    }

    /// Its place in the table of requests: no two living requests share one.
    #[inline]
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// The name as one number, for who hands it back.
    pub(crate) fn ticket(self) -> u64 {
        u64::from(self.index) << 32 | u64::from(self.generation)
    }

    /// The name behind [`RequestId::ticket`].
    pub(crate) fn of_ticket(ticket: u64) -> RequestId {
        RequestId { index: (ticket >> 32) as u32, generation: ticket as u32 }
    }

    /// How many requests have had that place before.
    #[inline]
    #[must_use]
    pub fn generation(self) -> u32 {
        self.generation
    }
}

/// What a request is that somebody else may name.
#[must_use]
#[derive(Clone, PartialEq, Debug)]
pub enum Lent {
    /// There is no such request, or its name was not given away.
    Unknown,
    /// The request goes on.
    Under,
    /// The request has received that message, and is gone now.
    Received(Probed),
    /// The request is over in any other way, and still there: [`Engine::reclaim`](crate::Engine::reclaim) and
    /// [`Engine::test`](crate::Engine::test) tell how.
    Over,
}

/// How a send completes (MPI 5.0 §3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The send is complete when its buffer is free.
    Standard,
    /// The send is complete when its buffer is free. The sender does nothing else until then, so the receiver
    /// may leave the copy of a long message to it.
    Blocking,
    /// The send is complete when its buffer is free and its receive has begun.
    Synchronous,
}

impl Mode {
    /// Whether the send may be over before its receive has begun.
    #[inline(always)]
    #[must_use]
    pub fn is_standard(self) -> bool {
        self != Mode::Synchronous
    }
}

/// How an operation ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The rank that sent the message; for sends, meaningless.
    pub source: Rank,
    /// The message's tag; for sends, meaningless.
    pub tag: i32,
    /// Bytes received into the buffer.
    pub bytes: usize,
    /// Whether the operation was cancelled before it matched.
    pub cancelled: bool,
    /// What the sender said of the elements of the message ([`Data::Signed`](crate::Data::Signed)); 0 where
    /// it said nothing.
    pub signature: u32,
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
    /// The peer is gone, or a member of the communicator whose operation it was.
    Lost(FabricError),
    /// The communicator is revoked.
    Revoked,
    /// A member is gone that the message might have come from, and that was not acknowledged. The receive
    /// goes on.
    Unacknowledged(FabricError),
}

impl Outcome {
    /// A send that is done.
    #[must_use]
    pub fn sent() -> Outcome {
        Outcome { source: Rank(0), tag: 0, bytes: 0, cancelled: false, signature: 0, failure: None }
    }

    #[inline]
    pub(crate) fn received(source: Rank, tag: i32, sent_bytes: usize, room_bytes: usize) -> Outcome {
        let failure = (sent_bytes > room_bytes).then(|| truncated(sent_bytes, room_bytes));
        let bytes = sent_bytes.min(room_bytes);
        Outcome { source, tag, bytes, cancelled: false, signature: 0, failure }
    }

    /// This outcome with the extras of its message: the signature of its elements, if the message has one.
    pub(crate) fn with(mut self, postscript: Postscript) -> Outcome {
        if let Postscript::Signature(signature) = postscript {
            self.signature = signature;
        }
        self
    }

    pub(crate) fn cancelled() -> Outcome {
        Outcome { cancelled: true, ..Outcome::sent() }
    }

    pub(crate) fn failed(failure: Failure) -> Outcome {
        Outcome { failure: Some(Box::new(failure)), ..Outcome::sent() }
    }

    /// Whether this is no end: the request that says so goes on, and may be asked again.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        matches!(self.failure.as_deref(), Some(Failure::Unacknowledged(_)))
    }
}

#[cold]
fn truncated(sent_bytes: usize, room_bytes: usize) -> Box<Failure> {
    Box::new(Failure::Truncated { sent_bytes, room_bytes })
}

/// What a message brings besides its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Postscript {
    /// Nothing.
    Nothing,
    /// Its sender wants to know when it is matched.
    Acknowledge(RequestId),
    /// What its elements are, as a number that only those who use it understand.
    Signature(u32),
}

/// Why a message is asked back that waits for its receiver.
pub(crate) enum Retracted {
    /// Its sender has cancelled it.
    Cancelled,
    /// It can go no further for that reason.
    Failed(Box<Failure>),
}

impl Retracted {
    pub(crate) fn failed(failure: Failure) -> Retracted {
        Retracted::Failed(Box::new(failure))
    }

    /// How the send ends, now that nobody will receive the message.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Retracted::Cancelled => Outcome::cancelled(),
            Retracted::Failed(failure) => Outcome { failure: Some(failure), ..Outcome::sent() },
        }
    }
}

/// Where a request stands.
pub(crate) enum State {
    /// A send in the link's queue.
    Queued { to: Peer },
    /// A send whose message waits here, or was sent and waits to be matched.
    AwaitingReceiver {
        to: Peer,
        source: Source,
        /// What the receiver may read it by.
        exposed: Exposed,
        /// What its messages are kept apart by.
        context: u32,
        /// The message's tag.
        tag: i32,
        /// Why it was asked back, where it was: so it ends, unless a receive had matched it.
        retracted: Option<Retracted>,
    },
    /// A receive that nothing has matched.
    Posted { pattern: Pattern, from: Option<Peer>, target: Target },
    /// A matched receive whose bytes are on the way straight into its memory.
    Landing {
        from: Peer,
        target: Target,
        source: Rank,
        tag: i32,
        sent_bytes: usize,
        postscript: Postscript,
        by: Carrier,
    },
    /// A matched receive whose bytes are on the way into memory of our own.
    Following {
        from: Peer,
        target: Target,
        source: Rank,
        tag: i32,
        sent_bytes: usize,
        postscript: Postscript,
    },
    /// Over when whoever asked for it has said so, and all its parts are over.
    Gathering {
        /// Its parts, and one for who has asked for it.
        left: usize,
        /// The first of its parts that failed.
        failure: Option<Box<Failure>>,
    },
    /// A receive that is over and has got all of a message, not yet asked about. The usual end: as few words
    /// as it takes.
    Received(Probed),
    /// Over in any way, and not yet asked about.
    Done(Outcome),
}

impl State {
    /// How it ended, if it has.
    fn outcome(&self) -> Option<Outcome> {
        match self {
            State::Received(Probed { source, tag, bytes }) => {
                Some(Outcome::received(*source, *tag, *bytes, *bytes))
            }
            State::Done(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }
}

/// Who brings the bytes of a message that is landing. `send` is the sender's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    /// Nobody has asked for them yet, and nobody may send them.
    Undecided,
    /// They come as a message.
    Message,
    /// They come in chunks, and so many are here.
    Chunks { arrived: usize },
    /// The fabric reads them.
    Fabric { send: RequestId },
    /// The sender brings so many of them, and the others are here; `None` where the message must be sent anew
    /// whatever it brings.
    Sender { send: RequestId, missing: Option<usize> },
}

impl Carrier {
    /// How much has come of a message that comes as one or in chunks.
    pub(crate) fn arrived(self) -> Option<usize> {
        match self {
            Carrier::Message => Some(0),
            Carrier::Chunks { arrived } => Some(arrived),
            Carrier::Undecided | Carrier::Fabric { .. } | Carrier::Sender { .. } => None,
        }
    }
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
    owner: Owner,
    /// What it is a part of, where it is one.
    whole: RequestId,
    state: Option<State>,
}

/// Who knows of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// Whoever has begun it.
    Caller,
    /// Its name was given away, and may come back from anywhere. What its messages are kept apart by.
    Lent { context: u32 },
    /// Another request, of which it is a part: nobody ends it.
    Whole,
}

impl Entry {
    /// Sets a state where the one before holds nothing that must be given back. Spares the question.
    #[inline(always)]
    fn put(&mut self, state: State) {
        std::mem::forget(self.state.replace(state));
    }

    /// Takes the state away, which holds nothing that must be given back: its destructor does not run.
    #[inline(always)]
    fn forget(&mut self) {
        std::mem::forget(self.state.take());
    }
}

impl Requests {
    #[inline]
    pub(crate) fn insert(&mut self, state: State) -> RequestId {
        let index = self.place();
        let entry = &mut self.entries[index as usize];
        entry.owner = Owner::Caller;
        entry.state = Some(state);
        RequestId { index, generation: entry.generation }
    }

    /// Adds a receive whose name is given away: one that comes back from there is looked at twice.
    #[inline(always)]
    pub(crate) fn lend_receive(&mut self, envelope: Envelope, from: Peer, room: Room) -> RequestId {
        let index = self.place();
        let entry = &mut self.entries[index as usize];
        let Envelope { context, source, tag } = envelope;
        let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
        entry.owner = Owner::Lent { context };
        entry.put(State::Posted { pattern, from: Some(from), target: Target::Room(room) });
        RequestId { index, generation: entry.generation }
    }

    /// A place that is free.
    #[inline(always)]
    fn place(&mut self) -> u32 {
        match self.free.pop() {
            Some(index) => index,
            None => self.grow(),
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let index = u32::try_from(self.entries.len()).expect("four billion requests do not fit into memory");
        self.entries.push(Entry { generation: 0, owner: Owner::Caller, whole: NOTHING, state: None });
        index
    }

    /// Whether that names a request whose name was given away.
    #[inline(always)]
    pub(crate) fn is_lent(&self, id: RequestId) -> bool {
        self.lent_in(id).is_some()
    }

    /// The context of a request whose name was given away; `None` where it is none.
    #[inline(always)]
    pub(crate) fn lent_in(&self, id: RequestId) -> Option<u32> {
        let entry = self.entries.get(id.index as usize)?;
        match entry.owner {
            Owner::Lent { context } if entry.generation == id.generation && entry.state.is_some() => {
                Some(context)
            }
            _ => None,
        }
    }

    /// Whether the name of a request of that context was given away.
    pub(crate) fn lends(&self, context: u32) -> bool {
        self.free.len() < self.entries.len()
            && self
                .entries
                .iter()
                .any(|entry| entry.owner == Owner::Lent { context } && entry.state.is_some())
    }

    /// Makes the name of a request that was given away worth nothing there; the request goes on, for who has
    /// called this. False where it names none, or not any more.
    pub(crate) fn reclaim(&mut self, id: RequestId) -> bool {
        let lent = self.is_lent(id);
        if lent {
            self.entries[id.index as usize].owner = Owner::Caller;
        }
        lent
    }

    /// The living request at a place, if its name was given away.
    pub(crate) fn lent_at(&self, index: u32) -> Option<RequestId> {
        let generation = self.entries.get(index as usize)?.generation;
        Some(RequestId { index, generation }).filter(|id| self.is_lent(*id))
    }

    /// Ends a request whose name was given away, if it has received its message as usual.
    #[inline(always)]
    pub(crate) fn end_lent(&mut self, id: RequestId) -> Lent {
        let Some(entry) = self.entries.get_mut(id.index as usize) else { return Lent::Unknown };
        if !matches!(entry.owner, Owner::Lent { .. }) || entry.generation != id.generation {
            return Lent::Unknown;
        }
        if let Some(State::Received(probed)) = &entry.state {
            let probed = *probed;
            entry.forget();
            entry.generation = entry.generation.wrapping_add(1);
            self.free.push(id.index);
            return Lent::Received(probed);
        }
        match &entry.state {
            Some(State::Done(_)) => Lent::Over,
            Some(_) => Lent::Under,
            None => Lent::Unknown,
        }
    }

    /// How the request ended, if it did; it stays.
    pub(crate) fn peek(&mut self, id: RequestId) -> Option<Outcome> {
        self.find(id)?.outcome()
    }

    /// How the request ended, if it did; it is gone then.
    #[inline]
    pub(crate) fn end(&mut self, id: RequestId) -> Option<Outcome> {
        match self.find(id)? {
            State::Done(_) | State::Received(_) => {}
            _ => return None,
        }
        match self.remove(id)? {
            State::Done(outcome) => Some(outcome),
            state => state.outcome(),
        }
    }

    /// Whether it is over, or there is no such request.
    pub(crate) fn is_over(&self, id: RequestId) -> bool {
        let entry = self.entries.get(id.index as usize).filter(|entry| entry.generation == id.generation);
        matches!(
            entry.and_then(|entry| entry.state.as_ref()),
            None | Some(State::Done(_) | State::Received(_))
        )
    }

    #[inline]
    pub(crate) fn find(&mut self, id: RequestId) -> Option<&mut State> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.state.as_mut() } else { None }
    }

    /// Ends a receive that was posted with the message that belongs to it, in the usual case; false where
    /// nothing has happened.
    #[inline(always)]
    pub(crate) fn fill(&mut self, id: RequestId, source: Rank, tag: i32, payload: Payload<'_>) -> bool {
        let Some(entry) = self.entries.get_mut(id.index as usize) else { return false };
        if entry.generation == id.generation
            && entry.owner != Owner::Whole
            && let Some(State::Posted { target: Target::Room(room), .. }) = &entry.state
            && room.take(payload)
        {
            // The target that is forgotten keeps nothing: it is a room.
            entry.put(State::Received(Probed { source, tag, bytes: payload.bytes() }));
            self.completions += 1;
            return true;
        }
        false
    }

    /// Ends a receive that was posted with the message that belongs to it, whatever its target is. A message
    /// that is longer than the target is cut, and the outcome says so. Nothing happens where `id` is no
    /// posted receive.
    pub(crate) fn fill_slowly(
        &mut self,
        id: RequestId,
        source: Rank,
        tag: i32,
        payload: Payload<'_>,
        postscript: Postscript,
    ) {
        let Some(state) = self.find(id) else { return };
        let State::Posted { target, .. } = state else { return };
        target.write_at(0, payload);
        let outcome = Outcome::received(source, tag, payload.bytes(), target.bytes());
        self.complete(id, outcome.with(postscript));
    }

    /// Ends the request; its outcome waits to be taken.
    #[inline]
    pub(crate) fn complete(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(state) = self.find(id) {
            *state = State::Done(outcome);
            self.completions += 1;
            if self.entries[id.index as usize].owner == Owner::Whole {
                self.end_as_part(id);
            }
        }
    }

    /// Makes a request a part of another one, which it counts for: it ends by itself.
    pub(crate) fn join(&mut self, part: RequestId, whole: RequestId) {
        let Some(State::Gathering { left, .. }) = self.find(whole) else { return };
        *left += 1;
        let entry = &mut self.entries[part.index as usize];
        (entry.owner, entry.whole) = (Owner::Whole, whole);
        if self.peek(part).is_some() {
            self.end_as_part(part);
        }
    }

    /// A part is over, and gone now.
    #[cold]
    fn end_as_part(&mut self, part: RequestId) {
        let whole = self.entries[part.index as usize].whole;
        let failure = self.end(part).and_then(|outcome| outcome.failure);
        self.end_of_part(whole, failure);
    }

    /// One of those that a request waits for is over. It is over itself with the last of them.
    pub(crate) fn end_of_part(&mut self, whole: RequestId, failed: Option<Box<Failure>>) {
        self.note_failure(whole, failed);
        let Some(State::Gathering { left, failure }) = self.find(whole) else { return };
        *left -= 1;
        if *left == 0 {
            let failure = failure.take();
            self.complete(whole, Outcome { failure, ..Outcome::sent() });
        }
    }

    /// Something that a request is about has failed; the first failure counts.
    pub(crate) fn note_failure(&mut self, whole: RequestId, failed: Option<Box<Failure>>) {
        if let Some(State::Gathering { failure: kept @ None, .. }) = self.find(whole) {
            *kept = failed;
        }
    }

    /// A message is gone to the fabric.
    pub(crate) fn sent(&mut self, to: Peer, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Complete(send) => self.complete(send, Outcome::sent()),
            Then::AwaitReceiver(send, context, tag) | Then::AwaitAnswer(send, context, tag) => {
                if let Some(state) = self.find(send) {
                    let (source, exposed) = (Source::Row(Payload::EMPTY), Exposed::default());
                    let retracted = matches!(then, Then::AwaitAnswer(..)).then_some(Retracted::Cancelled);
                    *state = State::AwaitingReceiver { to, source, exposed, context, tag, retracted };
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
            let goes_on = |state: &&State| !matches!(state, State::Done(_) | State::Received(_));
            entry.state.as_ref().filter(goes_on).map(|state| (id, state))
        })
    }
}

/// What is part of nothing names this.
const NOTHING: RequestId = RequestId { index: u32::MAX, generation: 0 };

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
