//! Posted receives and unexpected messages, and which belongs to which.
//!
//! MPI 5.0 §3.5: of two messages from one sender that both match a receive, the one sent first is received;
//! of two receives that both match a message, the one posted first gets it. A fabric keeps the order of each
//! pair, so it is enough to keep arrivals and posts in order here.
//!
//! Receives without wildcard stand in queues by envelope, the others in one list; a number given at posting
//! decides between the two. Unexpected messages stand in queues by envelope as well, and are chained in their
//! order of arrival for wildcards.

use std::collections::VecDeque;

use fabric::{Heap, Peer};
use recovery::Rank;

use crate::envelope::{Envelope, Pattern};
use crate::protocol::Offer;
use crate::queues::Queues;
use crate::request::{Postscript, RequestId};

/// What a probe tells of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probed {
    /// The rank of its sender.
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes.
    pub bytes: usize,
}

/// A message that came before its receive.
pub(crate) struct Unexpected {
    pub envelope: Envelope,
    pub from: Peer,
    pub body: Body,
    /// Its neighbours in the order of arrival.
    previous: u32,
    next: u32,
}

/// What there is of an unexpected message.
pub(crate) enum Body {
    /// All of it.
    Whole { payload: Heap, postscript: Postscript },
    /// It is coming in chunks.
    Arriving { bytes: usize, postscript: Postscript },
    /// It waits at its sender.
    Waiting { offer: Offer, send: RequestId },
}

impl Body {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Body::Whole { payload, .. } => payload.bytes(),
            Body::Arriving { bytes, .. } => *bytes,
            Body::Waiting { offer, .. } => offer.bytes,
        }
    }

    /// Memory that it costs here.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            Body::Waiting { .. } => size_of::<Unexpected>(),
            Body::Whole { .. } | Body::Arriving { .. } => size_of::<Unexpected>() + self.bytes(),
        }
    }
}

/// Both sides of matching.
#[derive(Default)]
pub(crate) struct Matching {
    exact: Queues<(u64, RequestId)>,
    wild: VecDeque<(u64, Pattern, RequestId)>,
    posted: usize,
    post_number: u64,
    arrived: Queues<u32>,
    messages: Vec<Option<Unexpected>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    waiting: usize,
    /// Memory that unexpected messages cost.
    pub kept_bytes: usize,
    /// Grows when a message comes before its receive, and when one that came so in chunks is whole.
    pub arrivals: u64,
}

impl Matching {
    pub(crate) fn new() -> Matching {
        Matching { oldest: NONE, newest: NONE, ..Matching::default() }
    }

    /// Adds a receive that no unexpected message matched.
    pub(crate) fn post(&mut self, pattern: Pattern, request: RequestId) {
        match pattern.exact() {
            Some(envelope) => self.post_exact(envelope, request),
            None => {
                self.post_number += 1;
                self.posted += 1;
                self.wild.push_back((self.post_number, pattern, request));
            }
        }
    }

    /// Adds a receive without wildcards that no unexpected message matched.
    #[inline]
    pub(crate) fn post_exact(&mut self, envelope: Envelope, request: RequestId) {
        self.post_number += 1;
        self.posted += 1;
        self.exact.push(envelope, (self.post_number, request));
    }

    /// Takes the receive that a message with that envelope belongs to, where none with a wildcard is posted
    /// and one of that envelope is.
    #[inline(always)]
    pub(crate) fn take_exact(&mut self, envelope: Envelope) -> Option<RequestId> {
        if self.posted == 0 || !self.wild.is_empty() {
            return None;
        }
        let (_, request) = self.exact.find_mut(&envelope)?.pop_front()?;
        self.posted -= 1;
        Some(request)
    }

    /// Takes the receive that a message with that envelope belongs to.
    pub(crate) fn take_posted(&mut self, envelope: &Envelope) -> Option<RequestId> {
        if self.posted == 0 {
            return None;
        }
        let exact = self.exact.find_mut(envelope);
        let exact_number = exact.as_ref().and_then(|queue| queue.front()).map(|(number, _)| *number);
        let wild = self.wild.iter().position(|(_, pattern, _)| pattern.matches(envelope));
        if let Some(at) = wild.filter(|&at| exact_number.is_none_or(|number| self.wild[at].0 < number)) {
            self.posted -= 1;
            return self.wild.remove(at).map(|(_, _, request)| request);
        }
        let (_, request) = exact?.pop_front()?;
        self.posted -= 1;
        Some(request)
    }

    /// Takes a receive out that shall not match any more; false when it is not posted.
    pub(crate) fn withdraw(&mut self, pattern: &Pattern, request: RequestId) -> bool {
        let before = self.posted;
        match pattern.exact() {
            Some(envelope) => {
                if let Some(queue) = self.exact.find_mut(&envelope)
                    && let Some(at) = queue.iter().position(|(_, posted)| *posted == request)
                {
                    queue.remove(at);
                    self.posted -= 1;
                }
            }
            None => {
                if let Some(at) = self.wild.iter().position(|(_, _, posted)| *posted == request) {
                    self.wild.remove(at);
                    self.posted -= 1;
                }
            }
        }
        self.posted < before
    }

    /// Adds a message that no receive matched; the answer names it.
    pub(crate) fn arrive(&mut self, envelope: Envelope, from: Peer, body: Body) -> u32 {
        self.kept_bytes += body.kept_bytes();
        self.arrivals += 1;
        self.waiting += 1;
        let message = Unexpected { envelope, from, body, previous: self.newest, next: NONE };
        let index = self.free.pop().unwrap_or_else(|| {
            self.messages.push(None);
            self.messages.len() as u32 - 1
        });
        self.messages[index as usize] = Some(message);
        match self.newest {
            NONE => self.oldest = index,
            newest => self.at(newest).next = index,
        }
        self.newest = index;
        self.arrived.push(envelope, index);
        index
    }

    /// The oldest message that the pattern asks for.
    #[inline(always)]
    pub(crate) fn find(&self, pattern: &Pattern) -> Option<u32> {
        if self.waiting == 0 { None } else { self.find_kept(pattern) }
    }

    /// Whether a message of that envelope is kept.
    #[inline(always)]
    pub(crate) fn has_kept(&self, envelope: Envelope) -> bool {
        let Envelope { context, source, tag } = envelope;
        self.waiting > 0 && self.look_for_kept(context, source, tag)
    }

    #[inline(never)]
    fn look_for_kept(&self, context: u32, source: Rank, tag: i32) -> bool {
        self.arrived.find(&Envelope { context, source, tag }).is_some_and(|queue| !queue.is_empty())
    }

    fn find_kept(&self, pattern: &Pattern) -> Option<u32> {
        if let Some(envelope) = pattern.exact() {
            return self.arrived.find(&envelope)?.front().copied();
        }
        let mut index = self.oldest;
        while index != NONE {
            let message = self.messages[index as usize].as_ref()?;
            if pattern.matches(&message.envelope) {
                return Some(index);
            }
            index = message.next;
        }
        None
    }

    /// What a probe would say of a message.
    pub(crate) fn describe(&self, index: u32) -> Option<Probed> {
        let message = self.messages.get(index as usize)?.as_ref()?;
        Some(Probed {
            source: message.envelope.source,
            tag: message.envelope.tag,
            bytes: message.body.bytes(),
        })
    }

    /// Whether the message is still coming in.
    pub(crate) fn is_arriving(&self, index: u32) -> bool {
        matches!(
            self.messages.get(index as usize),
            Some(Some(Unexpected { body: Body::Arriving { .. }, .. }))
        )
    }

    /// The message that came in chunks is whole now.
    pub(crate) fn landed(&mut self, index: u32, payload: Heap) {
        let Some(Some(message)) = self.messages.get_mut(index as usize) else { return };
        if let Body::Arriving { postscript, .. } = message.body {
            message.body = Body::Whole { payload, postscript };
            self.arrivals += 1;
        }
    }

    /// Takes a message out. It is the first of its envelope's queue, since everything that finds messages
    /// finds the oldest, and an older one of the same envelope would have been found first.
    pub(crate) fn take(&mut self, index: u32) -> Option<Unexpected> {
        let message = self.messages.get_mut(index as usize)?.take()?;
        self.free.push(index);
        self.waiting -= 1;
        self.kept_bytes -= message.body.kept_bytes();
        match message.previous {
            NONE => self.oldest = message.next,
            previous => self.at(previous).next = message.next,
        }
        match message.next {
            NONE => self.newest = message.previous,
            next => self.at(next).previous = message.previous,
        }
        if let Some(queue) = self.arrived.find_mut(&message.envelope)
            && let Some(at) = queue.iter().position(|&queued| queued == index)
        {
            queue.remove(at);
        }
        Some(message)
    }

    /// Messages from that peer, to be dropped when it is lost before they are whole.
    pub(crate) fn unfinished_from(&self, peer: Peer) -> Vec<u32> {
        let unfinished =
            |message: &Unexpected| message.from == peer && !matches!(message.body, Body::Whole { .. });
        let all = self.messages.iter().enumerate();
        all.filter(|(_, message)| message.as_ref().is_some_and(unfinished)).map(|(at, _)| at as u32).collect()
    }

    /// The message of that peer whose send waits for a receive, if none has matched it and it is here, or
    /// waits there.
    pub(crate) fn waiting_from(&self, peer: Peer, asked: RequestId) -> Option<u32> {
        let is_asked = |message: &Unexpected| {
            message.from == peer
                && match message.body {
                    Body::Waiting { send, .. } => send == asked,
                    Body::Whole { postscript, .. } => postscript == Postscript::Acknowledge(asked),
                    _ => false,
                }
        };
        let found = self.messages.iter().position(|message| message.as_ref().is_some_and(is_asked));
        found.map(|at| at as u32)
    }

    /// The whole messages under those contexts, but for those whose senders wait for a word.
    pub(crate) fn whole_in(&self, concerns: impl Fn(u32) -> bool) -> Vec<u32> {
        let all =
            (0..self.messages.len() as u32).filter(|&at| self.context_of_whole(at).is_some_and(&concerns));
        all.collect()
    }

    /// The context of a message that is whole and whose sender waits for no word.
    pub(crate) fn context_of_whole(&self, index: u32) -> Option<u32> {
        let message = self.messages.get(index as usize)?.as_ref()?;
        match message.body {
            Body::Whole { postscript: Postscript::Acknowledge(_), .. } => None,
            Body::Whole { .. } => Some(message.envelope.context),
            _ => None,
        }
    }

    /// Whether any receive is posted.
    #[inline]
    pub(crate) fn has_posted(&self) -> bool {
        self.posted > 0
    }

    /// The contexts of the messages that wait here.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = u32> + '_ {
        self.messages.iter().flatten().map(|message| message.envelope.context)
    }

    /// Unexpected messages kept here.
    pub(crate) fn unexpected(&self) -> usize {
        self.waiting
    }

    fn at(&mut self, index: u32) -> &mut Unexpected {
        self.messages[index as usize]
            .as_mut()
            .expect("the chain of arrivals names only messages that are there")
    }
}

/// The end of the chain of arrivals.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(source: u32, tag: i32) -> Envelope {
        Envelope { context: 1, source: Rank(source), tag }
    }

    fn whole(bytes: usize) -> Body {
        Body::Whole { payload: Heap::new(bytes), postscript: Postscript::Nothing }
    }

    fn request(index: u32) -> RequestId {
        RequestId { index, generation: 0 }
    }

    #[test]
    fn of_two_receives_the_one_posted_first_gets_the_message() {
        let mut matching = Matching::new();
        let any = Pattern { context: 1, source: None, tag: Some(5) };
        let one = Pattern { context: 1, source: Some(Rank(2)), tag: Some(5) };
        for (number, pattern) in [any, one, one, any].into_iter().enumerate() {
            matching.post(pattern, request(number as u32));
        }
        let got: Vec<_> = (0..4).map(|_| matching.take_posted(&envelope(2, 5)).unwrap().index).collect();
        assert_eq!(got, [0, 1, 2, 3]);
        assert!(matching.take_posted(&envelope(2, 5)).is_none());
    }

    #[test]
    fn same_envelope_keeps_order() {
        let mut matching = Matching::new();
        let first = matching.arrive(envelope(0, 1), Peer(0), whole(1));
        let other = matching.arrive(envelope(1, 1), Peer(1), whole(2));
        let second = matching.arrive(envelope(0, 1), Peer(0), whole(3));
        let any = Pattern { context: 1, source: None, tag: None };
        assert_eq!(matching.find(&any), Some(first));
        assert_eq!(matching.find(&Pattern { source: Some(Rank(1)), ..any }), Some(other));
        matching.take(first);
        assert_eq!(matching.find(&Pattern { source: Some(Rank(0)), tag: Some(1), ..any }), Some(second));
        matching.take(other);
        assert_eq!(matching.find(&any), Some(second));
        matching.take(second);
        assert_eq!((matching.find(&any), matching.kept_bytes, matching.unexpected()), (None, 0, 0));
    }

    #[test]
    fn a_withdrawn_receive_matches_nothing() {
        let mut matching = Matching::new();
        let one = Pattern { context: 1, source: Some(Rank(2)), tag: Some(5) };
        matching.post(one, request(0));
        assert!(matching.withdraw(&one, request(0)));
        assert!(!matching.withdraw(&one, request(0)));
        assert!(matching.take_posted(&envelope(2, 5)).is_none());
    }

    #[test]
    fn empty_queues_do_not_pile_up() {
        let mut matching = Matching::new();
        for tag in 0..if cfg!(miri) { 200 } else { 100_000 } {
            let index = matching.arrive(envelope(0, tag), Peer(0), whole(0));
            matching.take(index);
        }
        assert!(matching.arrived.kept() < 10_000, "{} queues kept", matching.arrived.kept());
    }
}
