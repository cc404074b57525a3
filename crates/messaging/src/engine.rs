//! The engine: sends, receives, probes, progress.
//!
//! Two halves, so that a fabric can be polled while what it reports is noted down: [`Engine`] owns the fabric
//! and acts; [`Core`](crate::arrivals::Core) owns everything else, is the fabric's sink, and only notes.

mod accepting;
mod cancelling;
mod failing;
mod gathering;
mod made;
mod outgoing;
mod pending;
mod transfers;

use fabric::{Fabric, FabricError, Fault, Looked, Payload, Peer, Posted, Room};

pub use self::pending::Pending;
use crate::arrivals::{Core, Told};
use crate::awaited::{Awaited, Ticket};
use crate::envelope::{Envelope, Pattern};
use crate::matching::{Body, Probed};
use crate::peers::{Link, Lost};
use crate::protocol::{Kind, eager_header};
use crate::request::{Lent, Mode, Outcome, RequestId, State};
use crate::scattered::{Sendable, Target};

/// Where addresses come from. Asked once per peer, when the first message goes to it.
pub trait Directory: Send {
    /// The address that `peer`'s fabric gave.
    ///
    /// # Errors
    /// When the process manager does not know it.
    fn address(&mut self, peer: Peer) -> Result<Vec<u8>, FabricError>;

    /// The process `_by` takes this process for dead, and all others will: this process is to end.
    fn taken_for_dead(&mut self, _by: Peer) {}
}

/// The directory of fabrics whose addresses are peer numbers: loopback and simulated.
#[derive(Clone, Copy, Default, Debug)]
pub struct EveryoneHere;

impl Directory for EveryoneHere {
    fn address(&mut self, peer: Peer) -> Result<Vec<u8>, FabricError> {
        Ok(peer.0.to_le_bytes().to_vec())
    }
}

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Memory that messages without a receive may cost before their senders are asked to keep them.
    pub unexpected_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { unexpected_bytes_max: 64 << 20 }
    }
}

/// What became of a send.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sending {
    /// The send is complete; its buffer is free.
    Done,
    /// It goes on under this name.
    Pending(RequestId),
}

/// What became of a receive.
#[must_use]
#[derive(Clone, PartialEq, Debug)]
pub enum Receiving {
    /// The message was there already.
    Done(Outcome),
    /// It goes on under this name.
    Pending(RequestId),
}

/// A message taken out of matching by a matched probe, to be received by [`Engine::receive_matched`].
pub struct Message {
    envelope: Envelope,
    from: Peer,
    body: Body,
}

impl Message {
    /// What a probe says of it.
    #[must_use]
    pub fn probed(&self) -> Probed {
        Probed { source: self.envelope.source, tag: self.envelope.tag, bytes: self.body.bytes() }
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Whatever may come about.
    Anything,
    /// The end of this request.
    Request(RequestId),
    /// The end of the receive of [`Ticket::Awaited`].
    Awaited,
    /// Memory that other processes write, of which no turn of progress tells.
    Memory,
}

impl From<Ticket> for Interest {
    fn from(ticket: Ticket) -> Interest {
        match ticket {
            Ticket::Awaited => Interest::Awaited,
            Ticket::Request(request) => Interest::Request(request),
        }
    }
}

/// Sends, receives and progress of one process over one fabric.
pub struct Engine<F: Fabric> {
    fabric: F,
    core: Core<F::Lane>,
    directory: Box<dyn Directory>,
}

impl<F: Fabric> Engine<F> {
    /// The engine of a process in a job of `peers` processes.
    pub fn new(fabric: F, peers: u32, directory: Box<dyn Directory>, settings: Settings) -> Engine<F> {
        Engine { fabric, core: Core::new(peers, settings.unexpected_bytes_max), directory }
    }

    /// Sends `data` to `to` under `envelope`. A short message to a peer that nothing waits for goes to the
    /// fabric here; what else there is to send, [`Engine::send_by_queue`] goes on with.
    ///
    /// # Errors
    /// When the peer cannot be reached or is gone.
    #[inline(always)]
    pub fn send<'a>(
        &mut self,
        to: Peer,
        envelope: Envelope,
        data: impl Sendable<'a>,
        mode: Mode,
    ) -> Result<Sending, Box<FabricError>> {
        if let Some(payload) = data.row()
            && mode.is_standard()
            && let Some(lane) = self.way_out(to, payload.bytes())
        {
            self.core.begun += 1;
            let header = eager_header(envelope);
            match self.fabric.post(lane, &header, payload) {
                Posted::Sent => return Ok(Sending::Done),
                Posted::Partly(bytes) => return Ok(self.queue_eager(to, header, payload, Some(bytes))),
                Posted::Busy => {}
            }
        }
        self.send_by_queue(to, envelope, data.data(), mode)
    }

    /// The lane of a message of so many bytes that may go to the fabric at once; `None` where there is no
    /// lane yet, something waits before it, it is too long, or a turn of progress is due.
    #[inline(always)]
    pub fn way_out(&mut self, to: Peer, bytes: usize) -> Option<F::Lane> {
        if self.core.begun >= SENDS_PER_TURN {
            return None;
        }
        self.core.peers.link(to).filter(|link| link.is_free_for(bytes)).map(|link| link.lane)
    }

    /// Receives the first message that `pattern` asks for to `target`. `from` is the peer behind the
    /// pattern's source where it has one, so that the receive fails when that peer is lost.
    #[inline]
    pub fn receive(&mut self, pattern: Pattern, from: Option<Peer>, target: impl Into<Target>) -> Receiving {
        let target = target.into();
        if self.core.is_troubled
            && let Some(failure) = self.hindrance(&pattern, from)
        {
            return Receiving::Pending(failure);
        }
        if let Some(found) = self.core.matching.find(&pattern) {
            return self.receive_unexpected(found, target);
        }
        let request = self.core.requests.insert(State::Posted { pattern, from, target });
        self.core.matching.post(pattern, request);
        Receiving::Pending(request)
    }

    /// Posts a receive that no message waits for yet; `None` when nothing has happened. The name of the
    /// request may be handed out of this library: [`Engine::end_lent`] takes any value back.
    #[inline(always)]
    pub fn receive_later(&mut self, envelope: Envelope, from: Peer, room: Room) -> Option<RequestId> {
        let core = &mut self.core;
        if core.is_troubled || core.matching.has_kept(envelope) {
            return None;
        }
        let request = core.requests.lend_receive(envelope, from, room);
        core.matching.post_exact(envelope, request);
        Some(request)
    }

    /// Whether that names a request of [`Engine::receive_later`] that was not ended yet.
    #[inline(always)]
    pub fn is_lent(&self, request: RequestId) -> bool {
        self.core.requests.is_lent(request)
    }

    /// Takes a request of [`Engine::receive_later`] back from the caller that was given its name: it is a
    /// request like others from then on. False where the name is of none, or was taken back before.
    pub fn reclaim(&mut self, request: RequestId) -> bool {
        self.core.requests.reclaim(request)
    }

    /// The context of a request of [`Engine::receive_later`]; `None` where the name is of none.
    pub fn lent_in(&self, request: RequestId) -> Option<u32> {
        self.core.requests.lent_in(request)
    }

    /// Whether there is a request of [`Engine::receive_later`] in that context.
    pub fn lends(&self, context: u32) -> bool {
        self.core.requests.lends(context)
    }

    /// The request of [`Engine::receive_later`] at a place, if there is one.
    pub fn lent_at(&self, index: u32) -> Option<RequestId> {
        self.core.requests.lent_at(index)
    }

    /// Ends a request of [`Engine::receive_later`], if it is one and is over. Any name may be asked for.
    #[inline(always)]
    pub fn end_lent(&mut self, request: RequestId) -> Lent {
        self.core.requests.end_lent(request)
    }

    /// Receives like [`Engine::receive`], for a caller who waits: nothing is entered into a table where that
    /// is not needed. [`Engine::take_awaited`] tells when it is over; a ticket must be waited for to its end.
    ///
    /// # Errors
    /// The outcome, where it is over already.
    #[inline(always)]
    pub fn receive_awaited(
        &mut self,
        pattern: Pattern,
        from: Option<Peer>,
        target: impl Into<Target>,
    ) -> Result<Ticket, Outcome> {
        let easy = matches!(self.core.awaited, Awaited::Nobody)
            && !self.core.matching.has_posted()
            && self.core.matching.find(&pattern).is_none();
        if easy && let Ok(lane) = self.way_back(from) {
            self.core.awaited = Awaited::Posted { pattern, from, lane, target: target.into() };
            return Ok(Ticket::Awaited);
        }
        match self.receive(pattern, from, target) {
            Receiving::Done(outcome) => Err(outcome),
            Receiving::Pending(request) => Ok(Ticket::Request(request)),
        }
    }

    /// Where looks may find what a receive from `from` waits for. Who receives from anybody may have a
    /// failure to hear of.
    #[inline(always)]
    fn way_back(&mut self, from: Option<Peer>) -> Result<Option<F::Lane>, Lost> {
        match from {
            Some(peer) => self.core.peers.way_back(peer),
            None if self.core.is_troubled => Err(Lost),
            None => Ok(None),
        }
    }

    /// Where a receive from `from` that was not posted may be looked for by [`Engine::look`]; `None` where
    /// the order of receives and messages asks for more, or the fabric cannot look at one peer alone.
    #[inline(always)]
    pub fn may_look(&mut self, pattern: Pattern, from: Peer) -> Option<F::Lane> {
        let core = &mut self.core;
        let first = matches!(core.awaited, Awaited::Nobody)
            && !core.matching.has_posted()
            && core.matching.find(&{ pattern }).is_none();
        if !first || core.looked >= LOOKS_PER_TURN {
            return None;
        }
        core.peers.link(from).filter(|link| link.limits.look).map(|link| link.lane)
    }

    /// Receives the next message from the peer at the end of `lane` if it is there, fits, and is what
    /// `pattern` asks for; `None` when nothing has happened. What it finds needs neither a request nor a turn
    /// of progress, only that one is made now and then: [`Engine::may_look`] sees to it.
    #[inline(always)]
    pub fn look(&mut self, lane: F::Lane, pattern: Pattern, room: Room) -> Option<Probed> {
        look(&mut self.fabric, lane, pattern, |payload| room.take(payload), &mut self.core.looked)
    }

    /// Whether a turn of progress must be made before looks find anything.
    #[inline(always)]
    pub fn is_turn_due(&self) -> bool {
        self.core.looked >= LOOKS_PER_TURN
    }

    /// Where [`Engine::take_awaited`] may find a message by a look.
    #[inline(always)]
    pub fn looks_at(&self) -> Option<F::Lane> {
        match self.core.awaited {
            Awaited::Posted { lane, .. } if !self.is_turn_due() => lane,
            _ => None,
        }
    }

    /// The outcome behind a ticket, when it is over; the ticket is void then. The message may be found just
    /// here, by a look where it must come from: several of these between two turns of progress are well
    /// spent.
    #[inline]
    pub fn take_awaited(&mut self, ticket: Ticket) -> Option<Outcome> {
        let request = match (ticket, &mut self.core.awaited) {
            (Ticket::Request(request), _) => return self.conclude(request),
            (Ticket::Awaited, Awaited::Posted { pattern, lane: Some(lane), target, .. })
                if self.core.looked < LOOKS_PER_TURN =>
            {
                let looked = &mut self.core.looked;
                let write = |payload: Payload<'_>| {
                    let fits = payload.bytes() <= target.bytes();
                    if fits {
                        target.write_at(0, payload);
                    }
                    fits
                };
                let Probed { source, tag, bytes } = look(&mut self.fabric, *lane, *pattern, write, looked)?;
                self.core.awaited = Awaited::Nobody;
                return Some(Outcome::received(source, tag, bytes, bytes));
            }
            (Ticket::Awaited, Awaited::Over(_)) => {
                let Awaited::Over(outcome) = self.core.awaited.take() else { return None };
                return Some(outcome);
            }
            (Ticket::Awaited, Awaited::Goes(request)) => *request,
            (Ticket::Awaited, _) => return None,
        };
        let outcome = self.test(request)?;
        self.core.awaited = Awaited::Nobody;
        Some(outcome)
    }

    /// What the first message that `pattern` asks for is, if there is one. One that is still coming in is not
    /// told of, and none behind it: who is told of a message can take it.
    #[must_use]
    pub fn probe(&self, pattern: &Pattern) -> Option<Probed> {
        let found =
            self.core.matching.find(pattern).filter(|&found| !self.core.matching.is_arriving(found))?;
        self.core.matching.describe(found)
    }

    /// Takes the first message that `pattern` asks for out of matching (MPI 5.0 §3.8.2). A message that is
    /// still coming in is not taken, and none behind it.
    pub fn take(&mut self, pattern: &Pattern) -> Option<Message> {
        let found = self.core.matching.find(pattern)?;
        if self.core.matching.is_arriving(found) {
            return None;
        }
        let message = self.core.matching.take(found)?;
        self.core.resume_sending();
        Some(Message { envelope: message.envelope, from: message.from, body: message.body })
    }

    /// Receives a message that [`Engine::take`] took.
    pub fn receive_matched(&mut self, message: Message, target: impl Into<Target>) -> Receiving {
        let Message { envelope, from, body } = message;
        self.accept(envelope, from, body, None, target.into())
    }

    /// Whether the request is over; if so, how, and it is gone. What [`Outcome::goes_on`] is not over, and
    /// stays.
    #[inline]
    pub fn test(&mut self, request: RequestId) -> Option<Outcome> {
        if self.core.is_troubled {
            return self.core.end_in_trouble(request);
        }
        self.core.requests.end(request)
    }

    /// How the request ended, if it did; it stays.
    pub fn peek(&mut self, request: RequestId) -> Option<Outcome> {
        let ended = self.core.requests.peek(request);
        if ended.is_none() && self.core.is_troubled {
            return self.core.unacknowledged(request);
        }
        ended
    }

    /// The contexts of messages that came before their receive, one for each message.
    pub fn unexpected_contexts(&self) -> impl Iterator<Item = u32> + '_ {
        self.core.matching.contexts()
    }

    /// One turn: takes what came, answers it, and goes on with what waits to be sent. Returns the number of
    /// things that happened.
    #[inline(always)]
    pub fn progress(&mut self) -> usize {
        self.core.looked = 0;
        self.core.begun = self.core.begun_before;
        if self.core.is_troubled {
            self.core.begin_in_trouble();
        }
        let mut happened = self.fabric.poll(&mut self.core, EVENTS_PER_TURN);
        if self.core.has_notes() {
            happened += self.act_on_notes();
        }
        if !self.core.busy.is_empty() {
            happened += self.pump();
        }
        happened
    }

    /// Completions so far: a number that changes whenever a request ends.
    #[must_use]
    pub fn completions(&self) -> u64 {
        self.core.requests.completions
    }

    /// A number that changes whenever somebody may have got what they wait for: a request has ended, or a
    /// message has come that a probe may ask for.
    #[inline]
    #[must_use]
    pub fn signs(&self) -> u64 {
        self.core.requests.completions.wrapping_add(self.core.matching.arrivals)
    }

    /// Whether what somebody waits for may be there: false only where it is known that it is not.
    #[must_use]
    pub fn may_be_over(&self, interest: Interest) -> bool {
        match interest {
            Interest::Anything | Interest::Memory => true,
            // A receive that goes on may have a failure to tell of.
            Interest::Request(request) => self.core.is_troubled || self.core.requests.is_over(request),
            Interest::Awaited => match &self.core.awaited {
                Awaited::Posted { .. } => false,
                Awaited::Goes(request) => self.core.requests.is_over(*request),
                Awaited::Nobody | Awaited::Over(_) => true,
            },
        }
    }

    /// Looks for peers that have ended without a word; the next turn of progress fails the requests that wait
    /// for them. Connects to peers that are waited for and were never spoken to, where a fabric cannot look
    /// for them otherwise.
    pub fn call_roll(&mut self) {
        if !self.fabric.call_roll() {
            return;
        }
        for peer in self.core.unreached() {
            if let Err(error) = self.ensure_link(peer) {
                self.core.lose(peer, error, Told::Here);
            }
        }
    }

    /// Whether all that was sent has left this process, as far as the fabric can tell.
    pub fn flush(&mut self) -> bool {
        self.progress();
        self.core.busy.is_empty() && !self.core.has_notes() && self.fabric.flush()
    }

    /// Sends what is still to be sent, and has the fabric tell peers that they need not wait for this process
    /// any more. True when all of it has left this process, as far as the fabric can tell. Called until it is
    /// true, before the process ends.
    pub fn leave(&mut self) -> bool {
        self.progress();
        self.core.busy.is_empty() && !self.core.has_notes() && self.fabric.leave()
    }

    /// The fabric below.
    #[must_use]
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// Receives that have their message, of which some bytes are still on their way.
    #[must_use]
    pub fn arriving(&self) -> usize {
        let arriving = |state: &State| matches!(state, State::Landing { .. } | State::Following { .. });
        self.core.requests.pending().filter(|(_, state)| arriving(state)).count()
    }

    /// Memory that unexpected messages cost now, in bytes.
    #[must_use]
    pub fn unexpected_bytes(&self) -> usize {
        self.core.matching.kept_bytes
    }

    /// The lane to a peer that was spoken to, to show what was chosen.
    pub fn lane(&mut self, peer: Peer) -> Option<F::Lane> {
        self.core.peers.link(peer).map(|link| link.lane)
    }

    /// Every request that is not over, one a line, for watchdogs and people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.core.describe()
    }

    fn ensure_link(&mut self, peer: Peer) -> Result<(), FabricError> {
        if self.core.peers.link(peer).is_some() {
            return Ok(());
        }
        self.connect(peer)
    }

    #[cold]
    fn connect(&mut self, peer: Peer) -> Result<(), FabricError> {
        if !self.core.peers.knows(peer) {
            let what = format!("process {} is not part of this job", peer.0);
            return Err(FabricError { fabric: self.fabric.name(), fault: Fault::Unreachable, what });
        }
        if let Some(lost) = self.core.lost(peer) {
            return Err(lost);
        }
        let address = self.directory.address(peer)?;
        let lane = self.fabric.connect(peer, &address)?;
        let limits = self.fabric.limits(lane);
        let eager_bytes_end = if self.core.is_choking(peer) { 0 } else { limits.eager_bytes_max + 1 };
        let link = Link { lane, limits, eager_bytes_end, queue: Default::default() };
        self.core.peers.state(peer).link = Some(link);
        Ok(())
    }
}

/// Takes the next message of a lane if it is an eager one that `pattern` asks for and `write` has room for.
/// Counts the messages that were taken since the last turn of progress; one that cannot be taken makes it
/// due.
#[inline(always)]
fn look<F: Fabric>(
    fabric: &mut F,
    lane: F::Lane,
    pattern: Pattern,
    write: impl FnOnce(Payload<'_>) -> bool,
    looked: &mut u32,
) -> Option<Probed> {
    let found = fabric.look(lane, |header, payload| {
        let Envelope { source, tag, .. } =
            Kind::eager_envelope(header).filter(|envelope| pattern.matches(envelope))?;
        let bytes = payload.bytes();
        write(payload).then_some(Probed { source, tag, bytes })
    });
    match found {
        Looked::Nothing => None,
        Looked::Taken(probed) => {
            *looked += 1;
            Some(probed)
        }
        Looked::Left => {
            *looked = LOOKS_PER_TURN;
            None
        }
    }
}

/// A turn of progress takes at most about so many messages, so that it stays short.
const EVENTS_PER_TURN: usize = 64;
/// So many messages may be found by looks before a turn of progress is due: whoever always finds something
/// there must not forget the others.
const LOOKS_PER_TURN: u32 = 32;
/// So many sends may begin before a turn of progress is made.
const SENDS_PER_TURN: u32 = 256;
