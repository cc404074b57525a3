//! What failures and revocations end, and what members of a communicator tell each other of them (decision
//! 0013).

use std::sync::Arc;

use fabric::{Heap, Payload, Peer};
use recovery::{Letter, Rank, Revocation, Standing, What, is_collective};

use super::Core;
use crate::awaited::Awaited;
use crate::envelope::{Envelope, Pattern};
use crate::peers::{Parcel, Then};
use crate::protocol::Kind;
use crate::request::{Failure, Outcome, RequestId, Retracted, State};

impl<L> Core<L> {
    /// Ends what is under way in those contexts: whoever takes part has given up, or will when it hears of
    /// it, and who waits for one that has would wait for ever. What a receive has matched reaches it.
    pub(super) fn close(&mut self, concerns: &dyn Fn(u32) -> bool, failure: &Failure) {
        if matches!(&self.awaited, Awaited::Posted { pattern, .. } if concerns(pattern.context)) {
            self.end_awaited(Outcome::failed(failure.clone()));
        }
        enum FailedKind {
            Receive(Pattern),
            Send,
        }
        let ends: Vec<(RequestId, FailedKind)> = self
            .requests
            .pending()
            .filter_map(|(request, state)| match state {
                State::Posted { pattern, .. } if concerns(pattern.context) => {
                    Some((request, FailedKind::Receive(*pattern)))
                }
                State::AwaitingReceiver { context, retracted: None, .. } if concerns(*context) => {
                    Some((request, FailedKind::Send))
                }
                _ => None,
            })
            .collect();
        for (request, end) in ends {
            match end {
                FailedKind::Receive(pattern) => {
                    self.matching.withdraw(&pattern, request);
                    self.requests.complete(request, Outcome::failed(failure.clone()));
                }
                FailedKind::Send => {
                    self.take_back_for(request, || Retracted::failed(failure.clone()));
                }
            }
        }
    }

    /// Receives from anybody in these communicators have something to tell: who waits for a thread's own
    /// ends, and who asks for a request's learns of it.
    pub(super) fn tell_of_failure(&mut self, contexts: &[u32], failure: &Failure) {
        if matches!(&self.awaited, Awaited::Posted { pattern, from: None, .. } if contexts.contains(&pattern.context))
        {
            self.end_awaited(Outcome::failed(failure.clone()));
        }
        self.requests.completions += 1;
    }

    /// A failure keeps the members of a strict communicator from everything.
    pub(super) fn shut_strict(&mut self, contexts: &[u32], failure: &Failure) {
        for &context in contexts {
            let is_strict = |standing: &Arc<Standing>| standing.is_strict() && !standing.is_retired();
            if let Some(standing) = self.failures.standing(context).filter(is_strict) {
                self.shut(&standing, failure);
            }
        }
    }

    /// Says so to those who may wait behind operations that this process has given up (decision 0014).
    #[cold]
    pub(crate) fn give_up(&mut self) {
        let given_up = self.failures.given_up();
        if given_up.is_empty() {
            return;
        }
        let (failed, mut letters) = (self.failures.all(), Vec::new());
        for standing in given_up {
            self.councils.give_up(&standing, &failed, &mut letters);
        }
        self.requests.completions += 1;
        self.post(letters);
    }

    fn shut(&mut self, standing: &Standing, failure: &Failure) {
        self.set_guard(true);
        let own = standing.context();
        self.close(&|context| context & !1 == own, failure);
        self.requests.completions += 1;
    }

    /// A communicator has become strict, or not: what has failed before may keep its members from everything.
    pub(crate) fn look_at_strict(&mut self, standing: &Standing) {
        if !standing.is_strict() || standing.is_retired() {
            return;
        }
        if let Some(error) = self.failures.broken(standing.context()) {
            self.shut(standing, &Failure::Lost(error));
        }
    }

    /// Another communicator has come into the place of this one: what is under way in it ends, and nobody
    /// receives what has come for it.
    pub(crate) fn retire(&mut self, standing: &Standing) {
        let own = standing.context();
        let failure = self.failures.retired_by(own).map_or(Failure::Revoked, Failure::Lost);
        self.close(&|context| context & !1 == own, &failure);
        self.requests.completions += 1;
        standing.retire();
        self.is_troubled = true;
        self.give_up();
        for message in self.matching.whole_in(|context| context & !1 == own) {
            self.matching.take(message);
        }
        self.resume_sending();
        self.lower_guard();
    }

    /// Whether another communicator has come into the place of the one with that context.
    #[cold]
    pub(super) fn is_retired(&self, context: u32) -> bool {
        self.failures.standing(context).is_some_and(|standing| standing.is_retired())
    }

    /// An unexpected message has become whole. A sender that waits for a word takes its message back by
    /// itself.
    #[cold]
    pub(super) fn drop_if_retired(&mut self, message: u32) {
        if self.matching.context_of_whole(message).is_some_and(|context| self.is_retired(context)) {
            self.matching.take(message);
            self.resume_sending();
        }
    }

    /// Somebody who has received what they wait for, and has not taken it yet, keeps turns short: as a
    /// request it does not.
    #[cold]
    pub(crate) fn set_aside(&mut self) {
        if let Awaited::Over(outcome) = &self.awaited {
            let outcome = outcome.clone();
            self.awaited = Awaited::Goes(self.requests.insert(State::Done(outcome)));
        }
    }

    /// Calls take the shortest ways again where nothing is left to look out for.
    fn lower_guard(&mut self) {
        if !self.failures.any_guarded() && !self.councils.any_unknown() {
            self.set_guard(false);
        }
    }

    /// Revokes a communicator here, and tells the others of it. What is known already is no news; but who
    /// revokes what it has heard of and has not told on yet tells all.
    pub(crate) fn revoke(&mut self, standing: &Arc<Standing>, from: Revocation) {
        if standing.is_revoked() {
            if from == Revocation::Here {
                self.tell_on(from);
            }
            return;
        }
        standing.set_revoked();
        self.is_troubled = true;
        match from.is_told_later(standing.members().size()) {
            true => self.heard.push(Arc::clone(standing)),
            false => self.tell_of_revocation(standing, from),
        }
        // Nothing is under way any more in one that another has come into the place of.
        if !standing.is_retired() {
            self.shut(standing, &Failure::Revoked);
        }
        if standing.gives_up() {
            self.give_up();
        }
    }

    fn tell_of_revocation(&mut self, standing: &Arc<Standing>, from: Revocation) {
        let mut letters = Vec::new();
        let failed = self.failures.all();
        self.councils.revoke(standing, from, &failed, &mut letters);
        self.post(letters);
    }

    /// Whether calls must look before they take the shortest way. A receive that nothing matches, and a count
    /// that is full, are what makes them do so, and cost nothing where there are none.
    fn set_guard(&mut self, on: bool) {
        if on == (self.begun_before > 0) {
            return;
        }
        self.is_troubled = true;
        self.begun_before = if on { u32::MAX / 2 } else { 0 };
        self.begun = self.begun_before;
        match on {
            true => self.matching.post_exact(NOWHERE, GUARD),
            false => {
                let pattern = Pattern {
                    context: NOWHERE.context,
                    source: Some(NOWHERE.source),
                    tag: Some(NOWHERE.tag),
                };
                self.matching.withdraw(&pattern, GUARD);
            }
        }
    }

    /// What a turn begins with where something has failed or is revoked.
    #[cold]
    pub(crate) fn begin_in_trouble(&mut self) {
        if self.failures.take_any_given_up() {
            self.give_up();
        }
        self.tell_on(Revocation::Heard);
    }

    /// Tells of what was heard, and not told on yet.
    fn tell_on(&mut self, from: Revocation) {
        while let Some(standing) = self.heard.pop() {
            self.tell_of_revocation(&standing, from);
        }
    }

    /// Hands letters to the next turn.
    pub(crate) fn post(&mut self, letters: Vec<Letter>) {
        for Letter { to, identity, what } in letters {
            match what {
                What::Agree { number, word } => {
                    let bytes = word.encode();
                    let heap = Heap::new(bytes.len());
                    heap.memory().write_at(0, Payload::from(&bytes[..]));
                    self.reply(to, Kind::Agree { number, identity }, Parcel::Packed(heap), Then::Nothing);
                }
                What::Revoke { context } => {
                    self.reply(to, Kind::Revoke { context, identity }, Parcel::small(&[]), Then::Nothing);
                }
            }
        }
    }

    /// Tells some others who has died, as far as they were not told, where no launcher does.
    pub(super) fn tell_others(&mut self) {
        for (to, who) in self.notices.spread(&self.failures.dead(), self.peers.count()) {
            self.reply(to, Kind::Failed { who }, Parcel::small(&[]), Then::Nothing);
        }
    }

    /// A word of an agreement.
    #[cold]
    pub(super) fn hear_word(&mut self, from: Peer, number: u32, identity: u64, payload: Payload<'_>) {
        let mut letters = Vec::new();
        if self.councils.hear(from, identity, number, &payload.to_vec(), &mut letters) {
            self.requests.completions += 1;
        }
        self.post(letters);
    }

    /// A communicator is revoked, says another member.
    #[cold]
    pub(super) fn hear_revocation(&mut self, context: u32, identity: u64) {
        match self.failures.standing(context).filter(|standing| standing.identity() == identity) {
            Some(standing) => self.revoke(&standing, Revocation::Heard),
            None if self.failures.knew(context, identity) => {}
            None => {
                if self.councils.revoke_unknown(identity) {
                    // Whoever receives in it once it is there has to ask.
                    self.set_guard(true);
                }
            }
        }
    }

    /// Why nothing can be done in a communicator any more: it is revoked; another one has come into its
    /// place; or, for its collective operations, a member has failed.
    #[cold]
    pub(crate) fn closed(&mut self, context: u32) -> Option<Failure> {
        self.asked += 1;
        if self.asked.is_multiple_of(ASKED_PER_LOOK) {
            self.lower_guard();
        }
        let standing = self.failures.standing(context)?;
        if self.councils.was_revoked(standing.identity()) {
            self.revoke(&standing, Revocation::Heard);
        }
        match standing.is_retired() {
            _ if standing.is_revoked() => Some(Failure::Revoked),
            true => Some(self.failures.retired_by(context).map_or(Failure::Revoked, Failure::Lost)),
            // Messages between two go on, whoever has failed.
            false if !is_collective(context) && !standing.is_strict() => None,
            false => self.failures.broken(context).map(Failure::Lost),
        }
    }

    /// Why a send or a receive that is about to begin cannot.
    #[cold]
    pub(crate) fn obstacle(&mut self, context: u32, with: Option<Peer>) -> Option<Failure> {
        self.closed(context).or_else(|| with.and_then(|peer| self.lost(peer)).map(Failure::Lost))
    }

    /// How a request ended, if it did, and it is gone then; or what there is to tell of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_in_trouble(&mut self, request: RequestId) -> Option<Outcome> {
        self.requests.end(request).or_else(|| self.unacknowledged(request))
    }

    /// A send that was still queued here when its communicator was closed is taken back as those are that
    /// were under way, whoever asks for it. The answer is how many were.
    #[cold]
    pub(crate) fn take_back(&mut self, request: RequestId) -> usize {
        let Some(State::AwaitingReceiver { context, retracted: None, .. }) = self.requests.find(request)
        else {
            return 0;
        };
        let context = *context;
        let Some(failure) = self.closed(context) else { return 0 };
        usize::from(self.take_back_for(request, || Retracted::failed(failure)))
    }

    /// Takes a message back that nobody has received, as far as it is known here; true where that begins now.
    #[cold]
    pub(crate) fn take_back_for(&mut self, request: RequestId, reason: impl FnOnce() -> Retracted) -> bool {
        let Some(State::AwaitingReceiver { to, retracted: retracted @ None, .. }) =
            self.requests.find(request)
        else {
            return false;
        };
        *retracted = Some(reason());
        let to = *to;
        self.ask_back(to, request);
        true
    }

    /// Asks the receiver for a message back.
    pub(crate) fn ask_back(&mut self, from: Peer, send: RequestId) {
        self.reply(from, Kind::Retract { send }, Parcel::small(&[]), Then::Nothing);
    }

    /// What to tell of a receive from anybody that is not over: that a member has failed whom nobody has
    /// acknowledged.
    #[cold]
    pub(crate) fn unacknowledged(&mut self, request: RequestId) -> Option<Outcome> {
        let Some(State::Posted { pattern, from: None, .. }) = self.requests.find(request) else {
            return None;
        };
        let context = pattern.context;
        let error = self.failures.unacknowledged(context)?;
        Some(Outcome::failed(Failure::Unacknowledged(error)))
    }

    /// The sender takes a message back. One that a receive has matched goes its way.
    pub(super) fn retract(&mut self, from: Peer, send: RequestId) {
        if let Some(unexpected) = self.matching.waiting_from(from, send) {
            self.matching.take(unexpected);
            self.resume_sending();
            let done = Kind::Done { send, is_retracted: true };
            self.reply(from, done, Parcel::small(&[]), Then::Nothing);
        }
    }
}

/// No message has this envelope: no communicator has that context.
const NOWHERE: Envelope = Envelope { context: u32::MAX, source: Rank(0), tag: 0 };
/// The name of the receive that nothing matches; there is no request behind it.
const GUARD: RequestId = RequestId { index: u32::MAX, generation: 0 };
/// After so many questions it is worth to look whether what was revoked is still there.
const ASKED_PER_LOOK: u32 = 4096;
