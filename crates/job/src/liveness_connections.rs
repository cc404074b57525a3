//! Who of those that are reached over a silent network still lives.
//!
//! Providers of libfabric do not tell when a process dies; some answer for ever that a message to it cannot
//! go yet. But the kernel ends a tcp connection with its process. So a process opens one to whom it speaks to
//! over such a network; nothing is sent over it, and where it ends the process has ended.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use fabric::{Fabric, FabricError, Fault, Header, Payload, Peer, Sink, UserMemory};
/// The connections of one process that nothing is sent over.
#[derive(Default)]
pub(crate) struct Lifelines {
    /// Those that connections were opened to.
    watched: HashSet<Peer>,
    /// Those that have ended, and nobody knows.
    ended: Vec<(Peer, FabricError)>,
    /// A message has come.
    have_brought: bool,
    /// So many more looks are worth taking soon, since connections are being opened.
    hurried: u32,
}

impl Lifelines {
    /// From now on the end of that process is noticed, if it can be reached over tcp, and if they are not too
    /// many: a connection takes a descriptor, of which the program has a use too. That none can be opened
    /// says nothing of the process.
    pub(crate) fn watch(&mut self, tcp: &mut impl Fabric, peer: Peer, address: &[u8]) {
        if self.watched.len() < WATCHED_MAX && self.watched.insert(peer) {
            drop(tcp.connect(peer, address));
            self.hurried = LOOKS_HURRIED;
        }
    }

    /// Watched processes that have ended in good order, as often as this is asked.
    pub(crate) fn have_left(&self, has_ended: impl Fn(Peer) -> bool) -> Vec<Peer> {
        self.watched.iter().copied().filter(|peer| has_ended(*peer)).collect()
    }

    /// Whether tcp should be looked at soon.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried > 0
    }

    /// Looks at what comes over tcp: messages, and ends of processes. Those that `is_known` over the silent
    /// network are kept back, since that network must let go of what is under way before anybody else hears
    /// of it.
    pub(crate) fn poll(
        &mut self,
        tcp: &mut impl Fabric,
        sink: &mut impl Sink,
        events: usize,
        is_known: impl Fn(Peer) -> bool,
    ) -> usize {
        self.hurried = self.hurried.saturating_sub(1);
        tcp.poll(&mut Watching { sink, lifelines: self, is_known }, events)
    }

    /// Whether somebody sends messages over tcp.
    pub(crate) fn have_brought(&self) -> bool {
        self.have_brought
    }

    /// Watched processes that have ended since this was asked, and how.
    pub(crate) fn ended(&mut self) -> Vec<(Peer, FabricError)> {
        std::mem::take(&mut self.ended)
    }
}

/// How long nothing has come.
#[derive(Default)]
pub(crate) struct Stillness {
    events: u64,
    since: Option<Instant>,
}

impl Stillness {
    /// Whether for a second there were no more events than those.
    pub(crate) fn is_long(&mut self, events: u64) -> bool {
        if std::mem::replace(&mut self.events, events) != events {
            self.since = None;
        }
        self.since.get_or_insert_with(Instant::now).elapsed() >= STILL
    }
}

/// A sink that keeps the losses of some processes to itself.
struct Watching<'a, S, K> {
    sink: &'a mut S,
    lifelines: &'a mut Lifelines,
    is_known: K,
}

impl<S: Sink, K: Fn(Peer) -> bool> Sink for Watching<'_, S, K> {
    fn message(&mut self, from: Peer, header: &Header, payload: Payload<'_>) {
        self.lifelines.have_brought = true;
        self.sink.message(from, header, payload);
    }

    fn arriving(&mut self, from: Peer, header: &Header, bytes: usize) -> UserMemory {
        self.lifelines.have_brought = true;
        self.sink.arriving(from, header, bytes)
    }

    fn landed(&mut self, from: Peer) {
        self.sink.landed(from);
    }

    fn enough(&self) -> bool {
        self.sink.enough()
    }

    fn pulled(&mut self, from: Peer, ticket: u64, whole: bool) {
        self.sink.pulled(from, ticket, whole);
    }

    fn done(&mut self, peer: Peer, ticket: u64, outcome: Result<(), FabricError>) {
        self.sink.done(peer, ticket, outcome);
    }

    fn lost(&mut self, peer: Peer, error: FabricError) {
        if !(self.is_known)(peer) {
            self.sink.lost(peer, error);
        } else if error.fault == Fault::Died {
            self.lifelines.ended.push((peer, error));
        }
    }
}

/// A connection is open after fewer looks than these, if its peer looks too.
const LOOKS_HURRIED: u32 = 64;
/// Who waits for so long may wait for somebody who has died.
const STILL: Duration = Duration::from_secs(1);
/// As many processes are watched at most.
const WATCHED_MAX: usize = 256;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fabric::simulated::{Network, Weather};

    /// The first words of messages, and whom it has lost.
    #[derive(Default)]
    pub(crate) struct Heard(pub Vec<u32>, pub Vec<Peer>);

    impl Sink for Heard {
        fn message(&mut self, _: Peer, header: &Header, _: Payload<'_>) {
            self.0.push(header.words[0]);
        }
        fn arriving(&mut self, _: Peer, _: &Header, _: usize) -> UserMemory {
            UserMemory::EMPTY
        }
        fn landed(&mut self, _: Peer) {}
        fn lost(&mut self, peer: Peer, _: FabricError) {
            self.1.push(peer);
        }
    }

    #[test]
    fn it_is_still_when_nothing_has_come_for_long() {
        let mut stillness = Stillness::default();
        assert!(!stillness.is_long(5));
        stillness.since = Instant::now().checked_sub(2 * STILL);
        assert!(stillness.is_long(5) && stillness.is_long(5));
        assert!(!stillness.is_long(6));
    }

    #[test]
    fn ends_of_those_who_are_known_elsewhere_are_noted_and_those_of_others_told() {
        let network = Network::new(4, Weather::fair());
        let (mut here, mut there) = (network.endpoint(Peer(0)), network.endpoint(Peer(1)));
        let (mut lifelines, mut heard) = (Lifelines::default(), Heard::default());
        for _ in 0..2 {
            lifelines.watch(&mut here, Peer(1), &there.address());
        }
        // Somebody who cannot be reached so is none who has ended.
        lifelines.watch(&mut here, Peer(3), b"nonsense");
        assert!(lifelines.is_hurried() && !lifelines.have_brought());
        let to_us = there.connect(Peer(0), &here.address()).unwrap();
        let _ = there.post(to_us, &Header { words: [7; 6] }, Payload::EMPTY);
        lifelines.poll(&mut here, &mut heard, 8, |peer| peer.0 == 1);
        assert!(heard.0 == [7] && lifelines.have_brought(), "messages pass");
        assert_eq!(lifelines.have_left(|peer| peer.0 < 2), [Peer(1)]);
        network.kill(Peer(1));
        network.kill(Peer(2));
        lifelines.poll(&mut here, &mut heard, 8, |peer| peer.0 == 1);
        assert_eq!(heard.1, [Peer(2)]);
        let ended = lifelines.ended();
        assert!(matches!(&ended[..], [(Peer(1), error)] if error.fault == Fault::Died), "{ended:?}");
        assert!(lifelines.ended().is_empty());
    }
}
