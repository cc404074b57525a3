//! What comes in: the engine's half that a fabric reports to. It matches, copies and notes; it never posts.

mod chunks;
mod describe;
mod failing;
mod rendezvous;

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::{Exposed, FabricError, Fault, Header, Heap, Payload, Peer, Pool, Sink, UserMemory};
use recovery::{Councils, Failures, Notices, Revocation, Standing, is_collective};

use crate::awaited::Awaited;
use crate::envelope::Envelope;
use crate::matching::{Body, Matching};
use crate::peers::{Arriving, Outgoing, Parcel, PeerTable, Then};
use crate::protocol::{Kind, Offer, decode_bytes, decode_exposed};
use crate::request::{Carrier, Failure, Outcome, Postscript, RequestId, Requests, State};

/// Everything of an engine but its fabric.
pub(crate) struct Core<L> {
    pub peers: PeerTable<L>,
    pub matching: Matching,
    pub awaited: Awaited<L>,
    /// Messages that looks have found since the last turn of progress.
    pub looked: u32,
    /// Sends that were begun since then.
    pub begun: u32,
    pub requests: Requests,
    /// Who has failed, and what that concerns.
    pub failures: Failures,
    /// Some peer is gone, or some communicator revoked: what goes another way than the shortest has to look.
    pub is_troubled: bool,
    /// What agreements and revocations are under way.
    pub councils: Councils,
    /// Revocations that were heard of, and are to be told on by the next turn.
    pub heard: Vec<Arc<Standing>>,
    /// What is told of failures where no launcher does so.
    pub notices: Notices,
    /// Where the count of sends begins with each turn: where a communicator is revoked it is full, so that
    /// all sends go the way that looks.
    pub begun_before: u32,
    /// Replies to be queued by the next turn.
    pub outbox: VecDeque<(Peer, Outgoing)>,
    /// Matched messages to be fetched from their senders by the next turn.
    pub transfers: VecDeque<Transfer>,
    /// Sends of ours whose receivers ask for help, to be given by the next turn.
    pub invitations: VecDeque<(Peer, RequestId, RequestId, Exposed)>,
    /// What nobody reads any more, and who did.
    pub concealed: Vec<(Peer, Exposed)>,
    /// Peers whose queue is not empty.
    pub busy: Vec<Peer>,
    /// Memory for messages that are made or taken apart, where the fabric has none.
    pub pool: Pool,
    /// How often it was asked whether something stands in the way.
    asked: u32,
    unexpected_bytes_max: usize,
    /// Peers that were told to send requests only.
    choked: Vec<Peer>,
    /// Peers that told us so before there was a link to them.
    choking: Vec<Peer>,
}

/// Who says that a peer is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// The fabric: nothing of the peer's is under way in it any more.
    ByFabric,
    /// This engine: the fabric may still be receiving.
    Here,
}

/// A matched message that waits at its sender.
pub(crate) struct Transfer {
    pub receive: RequestId,
    pub from: Peer,
    pub send: RequestId,
    pub offer: Offer,
}

impl<L> Core<L> {
    pub(crate) fn new(peers: u32, unexpected_bytes_max: usize) -> Core<L> {
        Core {
            peers: PeerTable::new(peers),
            matching: Matching::new(),
            awaited: Awaited::Nobody,
            looked: 0,
            begun: 0,
            requests: Requests::default(),
            failures: Failures::default(),
            is_troubled: false,
            councils: Councils::default(),
            heard: Vec::new(),
            notices: Notices::default(),
            begun_before: 0,
            outbox: VecDeque::new(),
            transfers: VecDeque::new(),
            invitations: VecDeque::new(),
            concealed: Vec::new(),
            busy: Vec::new(),
            pool: Pool::new(),
            asked: 0,
            unexpected_bytes_max,
            choked: Vec::new(),
            choking: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn has_notes(&self) -> bool {
        !self.outbox.is_empty()
            || !self.heard.is_empty()
            || !self.transfers.is_empty()
            || !self.invitations.is_empty()
            || !self.concealed.is_empty()
            || self.notices.is_any_heard()
    }

    /// Puts a message behind the others to that peer, to whom there is a link.
    pub(crate) fn enqueue(&mut self, to: Peer, outgoing: Outgoing) {
        let Some(link) = self.peers.link(to) else { return };
        if link.queue.is_empty() {
            self.busy.push(to);
        }
        link.queue.push_back(outgoing);
    }

    /// Notes down an answer.
    pub(crate) fn reply(&mut self, to: Peer, kind: Kind, payload: Parcel, then: Then) {
        self.outbox.push_back((to, Outgoing { header: kind.header(), payload, taken: None, then }));
    }

    /// Whether a message of ours waits for that peer to copy it, as far as a few looks tell.
    pub(crate) fn offers(&self, peer: Peer) -> bool {
        let mut pending = self.requests.pending().take(OFFERS_LOOKED_AT);
        pending.any(|(_, state)| matches!(state, State::AwaitingReceiver { to, .. } if *to == peer))
    }

    /// Some peers that receives wait for and to whom there is no link yet.
    pub(crate) fn unreached(&mut self) -> Vec<Peer> {
        let mut awaited: Vec<Peer> = match &self.awaited {
            Awaited::Posted { from: Some(from), .. } => vec![*from],
            _ => Vec::new(),
        };
        let posted = self.requests.pending().filter_map(|(_, state)| match state {
            State::Posted { from, .. } => *from,
            _ => None,
        });
        awaited.extend(posted.take(UNREACHED_LOOKED_AT));
        awaited.sort_unstable();
        awaited.dedup();
        awaited.retain(|peer| {
            self.peers.find(*peer).is_none_or(|state| state.link.is_none() && state.lost.is_none())
        });
        awaited
    }

    /// Why the peer is gone, if it is.
    pub(crate) fn lost(&mut self, peer: Peer) -> Option<FabricError> {
        self.peers.find(peer)?.lost.clone()
    }

    pub(crate) fn is_choking(&self, peer: Peer) -> bool {
        self.choking.contains(&peer)
    }

    /// Tells the choked peers that there is room again, once half of the budget is free.
    pub(crate) fn resume_sending(&mut self) {
        if self.choked.is_empty() || self.matching.kept_bytes > self.unexpected_bytes_max / 2 {
            return;
        }
        for peer in std::mem::take(&mut self.choked) {
            self.peers.state(peer).choked = false;
            self.reply(peer, Kind::Relax, Parcel::small(&[]), Then::Nothing);
        }
    }

    /// The receive has all its bytes.
    pub(crate) fn finish_landing(&mut self, receive: RequestId) {
        let outcome = match self.requests.find(receive) {
            Some(State::Landing { target, source, tag, sent_bytes, postscript, .. }) => {
                Outcome::received(*source, *tag, *sent_bytes, target.bytes()).with(*postscript)
            }
            _ => return,
        };
        self.requests.complete(receive, outcome);
    }

    /// The peer is gone: whatever waits for it fails. A receive that the fabric is just writing into is
    /// spared unless the fabric itself has told, since its memory is in use.
    pub(crate) fn lose(&mut self, peer: Peer, error: FabricError, told: Told) {
        if !self.peers.knows(peer) {
            return;
        }
        let state = self.peers.state(peer);
        state.link = None;
        state.lost = Some(error.clone());
        self.is_troubled = true;
        let spared = match (told, state.arriving.take()) {
            (Told::Here, Some(Arriving::Posted(receive))) => {
                state.arriving = Some(Arriving::Posted(receive));
                Some(receive)
            }
            (Told::Here, Some(Arriving::Chunk { receive, bytes, staged: None })) => {
                state.arriving = Some(Arriving::Chunk { receive, bytes, staged: None });
                Some(receive)
            }
            // The library's own memory outlives its message, and nobody will ask for the message any more.
            _ => None,
        };
        self.busy.retain(|&busy| busy != peer);
        self.outbox.retain(|(to, _)| *to != peer);
        self.transfers.retain(|transfer| transfer.from != peer);
        self.invitations.retain(|(from, ..)| *from != peer);
        for unexpected in self.matching.unfinished_from(peer) {
            self.matching.take(unexpected);
        }
        if matches!(&self.awaited, Awaited::Posted { from, .. } if *from == Some(peer)) {
            self.end_awaited(Outcome::failed(Failure::Lost(error.clone())));
        }
        for request in self.requests_with(peer).into_iter().filter(|request| Some(*request) != spared) {
            match self.requests.find(request) {
                Some(State::Posted { pattern, .. }) => {
                    let pattern = *pattern;
                    self.matching.withdraw(&pattern, request);
                }
                // The fabric tells when it has let go of the memory.
                Some(State::Landing { by: Carrier::Fabric { .. }, .. }) if told == Told::Here => continue,
                Some(State::AwaitingReceiver { exposed, .. }) => {
                    let exposed = *exposed;
                    self.deregister_memory(peer, exposed);
                }
                _ => {}
            }
            self.requests.complete(request, Outcome::failed(Failure::Lost(error.clone())));
        }
        let is_news = !self.failures.knows(peer);
        let mut concerned = self.failures.note(peer, &error);
        self.tell_others();
        // Whoever hears of it again has acknowledged it, or has recovered from it since.
        if is_news {
            self.failures
                .revoked_by(peer)
                .iter()
                .for_each(|standing| self.revoke(standing, Revocation::Heard));
        }
        let mut letters = Vec::new();
        if self.councils.lose(peer, &mut letters) {
            self.requests.completions += 1;
        }
        self.post(letters);
        if !concerned.is_empty() {
            let failure = Failure::Lost(error);
            self.close(&|context| concerned.iter().any(|of| of | 1 == context), &failure);
            concerned.retain(|context| !is_collective(*context));
            self.tell_of_failure(&concerned, &failure);
            self.shut_strict(&concerned, &failure);
            self.give_up();
        }
    }

    fn requests_with(&self, peer: Peer) -> Vec<RequestId> {
        let concerned = |state: &State| match state {
            State::Queued { to } | State::AwaitingReceiver { to, .. } => *to == peer,
            State::Posted { from, .. } => *from == Some(peer),
            State::Landing { from, .. } | State::Following { from, .. } => *from == peer,
            State::Gathering { .. } | State::Received(_) | State::Done(_) => false,
        };
        self.requests.pending().filter(|(_, state)| concerned(state)).map(|(id, _)| id).collect()
    }

    /// The peer broke the protocol: it is treated as lost, with the reason.
    #[cold]
    fn reject(&mut self, from: Peer, what: &str) {
        let what = format!("process {} sent {what}; it may run another version of the library", from.0);
        self.lose(from, FabricError { fabric: "messaging", fault: Fault::Protocol, what }, Told::Here);
    }

    /// A whole eager message.
    fn eager(&mut self, from: Peer, envelope: Envelope, postscript: Postscript, payload: Payload<'_>) {
        let Some(request) = self.take_receive(&envelope) else {
            return self.keep_whole(from, envelope, postscript, payload);
        };
        self.requests.fill_slowly(request, envelope.source, envelope.tag, payload, postscript);
        self.acknowledge(from, postscript);
    }

    /// Room for a message that has come before its receive. Short ones are soon allocated, and may be many.
    fn room_for(&mut self, bytes: usize) -> Heap {
        if bytes < ROOM_KEPT_BYTES_MIN { Heap::new(bytes) } else { self.pool.take(bytes) }
    }

    /// A whole message before its receive.
    #[cold]
    fn keep_whole(&mut self, from: Peer, envelope: Envelope, postscript: Postscript, payload: Payload<'_>) {
        let copy = self.room_for(payload.bytes());
        copy.memory().write_at(0, payload);
        let index = self.keep(from, envelope, Body::Whole { payload: copy, postscript });
        if self.is_troubled {
            self.drop_if_retired(index);
        }
    }

    /// Hands a message straight to the receive that is waited for; false where it is another's.
    #[inline(always)]
    fn hand_over(&mut self, envelope: &Envelope, payload: Payload<'_>) -> bool {
        if let Awaited::Posted { pattern, target, .. } = &mut self.awaited
            && pattern.matches(envelope)
        {
            target.write_at(0, payload);
            let outcome = Outcome::received(envelope.source, envelope.tag, payload.bytes(), target.bytes());
            self.end_awaited(outcome);
            return true;
        }
        false
    }

    /// The receive that is waited for is over.
    #[inline]
    pub(crate) fn end_awaited(&mut self, outcome: Outcome) {
        self.awaited = Awaited::Over(outcome);
        self.requests.completions += 1;
    }

    /// Takes the receive that a message belongs to which cannot be received at one stroke.
    #[inline(always)]
    fn take_receive(&mut self, envelope: &Envelope) -> Option<RequestId> {
        if !self.awaited.wants(envelope) {
            return self.matching.take_posted(envelope);
        }
        self.take_awaited_as_request()
    }

    #[cold]
    fn take_awaited_as_request(&mut self) -> Option<RequestId> {
        let request = self.requests.insert(self.awaited.take().into_state()?);
        self.awaited = Awaited::Goes(request);
        Some(request)
    }

    #[inline]
    fn acknowledge(&mut self, from: Peer, postscript: Postscript) {
        if let Postscript::Acknowledge(send) = postscript {
            self.tell_done(from, send);
        }
    }

    /// Keeps a message until its receive is posted; over the budget, its sender is asked to keep the next
    /// ones.
    #[cold]
    fn keep(&mut self, from: Peer, envelope: Envelope, body: Body) -> u32 {
        let index = self.matching.arrive(envelope, from, body);
        if self.matching.kept_bytes > self.unexpected_bytes_max {
            let state = self.peers.state(from);
            if !std::mem::replace(&mut state.choked, true) {
                self.choked.push(from);
                self.reply(from, Kind::Choke, Parcel::small(&[]), Then::Nothing);
            }
        }
        index
    }

    fn stop_sending(&mut self, from: Peer, stop_sending: bool) {
        self.choking.retain(|&peer| peer != from);
        if stop_sending {
            self.choking.push(from);
        }
        if let Some(link) = self.peers.link(from) {
            link.eager_bytes_end = if stop_sending { 0 } else { link.limits.eager_bytes_max + 1 };
        }
    }

    /// Where the payload of an eager message goes that comes in chunks.
    fn arriving_eager(
        &mut self,
        from: Peer,
        envelope: Envelope,
        postscript: Postscript,
        bytes: usize,
    ) -> (UserMemory, Arriving) {
        let receive = self.take_receive(&envelope);
        if let Some(receive) = receive {
            self.land(receive, from, envelope, (bytes, Carrier::Message), postscript);
            if let Some(memory) = self.landing_memory(receive) {
                return (memory, Arriving::Posted(receive));
            }
        }
        if bytes > EAGER_BYTES_CEILING {
            self.reject(from, "an eager message of a length that no fabric calls eager");
            return (UserMemory::EMPTY, Arriving::Dropped);
        }
        let heap = self.room_for(bytes);
        let memory = heap.memory();
        if let Some(receive) = receive {
            self.follow_landing(receive);
            return (memory, Arriving::Following(receive, heap));
        }
        let index = self.keep(from, envelope, Body::Arriving { bytes, postscript });
        (memory, Arriving::Unexpected(index, heap))
    }
}

impl<L> Sink for Core<L> {
    #[inline]
    fn enough(&self) -> bool {
        matches!(self.awaited, Awaited::Over(_))
    }

    #[inline(always)]
    fn message(&mut self, from: Peer, header: &Header, payload: Payload<'_>) {
        // What is usual: a message for a receive that is posted, and names its source and its tag.
        if let Some(envelope) = Kind::eager_envelope(header)
            && !self.awaited.is_posted()
            && let Some(request) = self.matching.take_exact(envelope)
        {
            if !self.requests.fill(request, envelope.source, envelope.tag, payload) {
                let Envelope { source, tag, .. } = envelope;
                self.requests.fill_slowly(request, source, tag, payload, Postscript::Nothing);
            }
            return;
        }
        self.message_slowly(from, *header, payload);
    }

    fn arriving(&mut self, from: Peer, header: &Header, bytes: usize) -> UserMemory {
        let (memory, arriving) = match Kind::of(header) {
            Some(Kind::Eager(envelope)) => self.arriving_eager(from, envelope, Postscript::Nothing, bytes),
            Some(Kind::Signed(envelope, signature)) => {
                self.arriving_eager(from, envelope, Postscript::Signature(signature), bytes)
            }
            Some(Kind::Synchronous(envelope, send)) => {
                self.arriving_eager(from, envelope, Postscript::Acknowledge(send), bytes)
            }
            Some(Kind::Data { receive }) => match self.requests.find(receive) {
                Some(State::Landing { from: expected, target, sent_bytes, by: Carrier::Message, .. })
                    if *expected == from && bytes == target.bytes().min(*sent_bytes) =>
                {
                    match self.landing_memory(receive) {
                        Some(memory) => (memory, Arriving::Posted(receive)),
                        None => (UserMemory::EMPTY, Arriving::Dropped),
                    }
                }
                _ => (UserMemory::EMPTY, Arriving::Dropped),
            },
            Some(Kind::Chunk { receive, offset }) => self.arriving_chunk(from, receive, offset, bytes),
            Some(Kind::Agree { .. }) if bytes <= EAGER_BYTES_CEILING => {
                let heap = Heap::new(bytes);
                (heap.memory(), Arriving::Control(*header, heap))
            }
            // Control messages are a few bytes; a fabric that brings even those in chunks gets room for them.
            Some(_) if bytes <= crate::protocol::OFFER_BYTES_MAX => {
                let heap = Heap::new(bytes);
                (heap.memory(), Arriving::Control(*header, heap))
            }
            _ => (UserMemory::EMPTY, Arriving::Dropped),
        };
        self.peers.state(from).arriving = Some(arriving);
        memory
    }

    fn landed(&mut self, from: Peer) {
        match self.peers.state(from).arriving.take() {
            Some(Arriving::Posted(receive)) => {
                if let Some(State::Landing { postscript, .. }) = self.requests.find(receive) {
                    let postscript = *postscript;
                    self.finish_landing(receive);
                    self.acknowledge(from, postscript);
                }
            }
            Some(Arriving::Chunk { receive, bytes, staged }) => {
                self.chunk_landed(from, (receive, bytes), staged);
            }
            Some(Arriving::Unexpected(index, heap)) => {
                self.matching.landed(index, heap);
                if self.is_troubled {
                    self.drop_if_retired(index);
                }
            }
            Some(Arriving::Following(receive, heap)) => self.finish_following(from, receive, &heap),
            Some(Arriving::Control(header, heap)) => self.message(from, &header, heap.payload()),
            Some(Arriving::Dropped) | None => self.reject(from, "a message that nobody waits for"),
        }
    }

    fn pulled(&mut self, from: Peer, ticket: u64, whole: bool) {
        let receive = RequestId::of_ticket(ticket);
        let Some(Carrier::Fabric { send }) = self.carrier_of(from, receive) else { return };
        match self.lost(from) {
            Some(error) => self.requests.complete(receive, Outcome::failed(Failure::Lost(error))),
            None => self.carried(from, send, receive, whole),
        }
    }

    #[cold]
    fn lost(&mut self, peer: Peer, error: FabricError) {
        self.lose(peer, error, Told::ByFabric);
    }
}

impl<L> Core<L> {
    /// Any message.
    #[inline(never)]
    fn message_slowly(&mut self, from: Peer, header: Header, payload: Payload<'_>) {
        if let Some(envelope) = Kind::eager_envelope(&header)
            && self.hand_over(&envelope, payload)
        {
            return;
        }
        match Kind::of(&header) {
            Some(kind) => self.control(from, kind, payload),
            None => self.reject(from, "a message of a kind that does not exist"),
        }
    }

    /// Everything but a plain eager message.
    fn control(&mut self, from: Peer, kind: Kind, payload: Payload<'_>) {
        match kind {
            Kind::Eager(envelope) => self.eager(from, envelope, Postscript::Nothing, payload),
            Kind::Signed(envelope, signature) => {
                self.eager(from, envelope, Postscript::Signature(signature), payload);
            }
            Kind::Synchronous(envelope, send) => {
                self.eager(from, envelope, Postscript::Acknowledge(send), payload);
            }
            Kind::Request(envelope, send) => match Offer::decode(payload) {
                Some(offer) => self.request(from, envelope, send, offer),
                None => self.reject(from, "a request without an offer"),
            },
            Kind::Clear { send, receive, in_chunks } => match decode_bytes(payload) {
                Some(wanted) => self.clear(from, (send, receive), in_chunks, wanted),
                None => self.reject(from, "a clearance without a length"),
            },
            Kind::Share { send, receive } => match decode_exposed(payload) {
                Some(invitation) => self.invitations.push_back((from, send, receive, invitation)),
                None => self.reject(from, "an invitation without a place"),
            },
            Kind::Brought { receive } => match decode_bytes(payload) {
                Some(bytes) => self.brought(from, receive, bytes),
                None => self.reject(from, "parts without a length"),
            },
            Kind::Data { receive } => self.data(from, receive, payload),
            Kind::Chunk { receive, offset } => self.chunk(from, receive, offset, payload),
            Kind::Done { send, is_retracted } => self.done(from, send, is_retracted),
            Kind::Retract { send } => self.retract(from, send),
            Kind::Agree { number, identity } => self.hear_word(from, number, identity, payload),
            Kind::Revoke { context, identity } => self.hear_revocation(context, identity),
            Kind::Failed { who } => self.notices.hear(from, who),
            Kind::Choke => self.stop_sending(from, true),
            Kind::Relax => self.stop_sending(from, false),
        }
    }
}

/// Of the requests that go on, so many are looked at when it is asked whether one is a message that a peer is
/// to copy.
const OFFERS_LOOKED_AT: usize = 64;
/// Of the receives that wait, so many are looked at when the roll is called.
const UNREACHED_LOOKED_AT: usize = 64;
/// More than any fabric sends at once without asking. A peer that announces more is broken, and believing it
/// would be to allocate whatever it says.
const EAGER_BYTES_CEILING: usize = 16 << 20;
/// Room for messages from this length on that come too early is kept for others.
const ROOM_KEPT_BYTES_MIN: usize = 4 << 10;
