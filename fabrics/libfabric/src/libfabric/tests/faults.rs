//! What goes wrong: providers that fail, memory that is refused, and peers that send anything.

use super::*;
use crate::wire::Frame;
use fabric::{Heap, UserMemory};
use libfabric_sys::{Answer, Capacity, Endpoint, Offer, Wanted};
use std::time::{Duration, Instant};

/// Notes what comes.
#[derive(Default)]
pub(super) struct Noting {
    pub(super) messages: Vec<Vec<u8>>,
    arriving: Option<Heap>,
    pub(super) pulled: Vec<(u64, bool)>,
    pub(super) done: Vec<(u64, Result<(), FabricError>)>,
    pub(super) lost: Vec<(Peer, FabricError)>,
}

impl Noting {
    /// How many of those operations have ended.
    pub(super) fn ended_of(&self, tickets: &[u64]) -> usize {
        self.done.iter().filter(|(ticket, _)| tickets.contains(ticket)).count()
    }
}

impl Sink for Noting {
    fn message(&mut self, _: Peer, _: &Header, payload: Payload<'_>) {
        self.messages.push(payload.to_vec());
    }
    fn arriving(&mut self, _: Peer, _: &Header, bytes: usize) -> UserMemory {
        let room = Heap::new(bytes.min(1 << 20));
        self.arriving = Some(room.clone());
        room.memory()
    }
    fn landed(&mut self, _: Peer) {
        let room = self.arriving.take().expect("something was arriving");
        self.messages.push(room.payload().to_vec());
    }
    fn pulled(&mut self, _: Peer, ticket: u64, whole: bool) {
        self.pulled.push((ticket, whole));
    }
    fn done(&mut self, _: Peer, ticket: u64, outcome: Result<(), FabricError>) {
        self.done.push((ticket, outcome));
    }
    fn lost(&mut self, peer: Peer, error: FabricError) {
        self.lost.push((peer, error));
    }
}

/// Polls until it is done.
pub(super) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} hangs");
    }
}

pub(super) fn connect(from: &mut Libfabric, to: &Libfabric) -> Lane {
    from.connect(to.here, &to.address()).expect("a lane")
}

#[test]
fn what_failed_is_told_with_provider_peer_and_reason_once() {
    let (mut left, right) = mocked(OWN_KEYS);
    let lane = connect(&mut left, &right);
    mock::change(|rules| rules.failing_percent = 100);
    let mut heard = Noting::default();
    for _ in 0..20 {
        let _ = left.post(lane, &Header::default(), Payload::from(&[1u8; 100][..]));
    }
    until("the loss", || {
        left.poll(&mut heard, 16);
        !heard.lost.is_empty()
    });
    for _ in 0..100 {
        left.poll(&mut heard, 16);
    }
    let [(peer, error)] = &heard.lost[..] else { panic!("told {} times", heard.lost.len()) };
    assert_eq!((*peer, error.fault), (Peer(1), Fault::Died));
    for part in ["process 1 on ", "mock", "the cable was cut by a digger", "4711"] {
        assert!(error.what.contains(part), "{part} is missing in {error}");
    }
    let posted = left.post(lane, &Header::default(), Payload::from(&[1u8; 5000][..]));
    assert_eq!(posted, Posted::Sent, "what goes to a lost peer is gone");
    assert!(left.flush() && left.connect(Peer(1), &right.address()).is_err());
}

#[test]
fn a_peer_that_is_lost_takes_no_other_with_it() {
    let [mut left, mut right, mut third] = three(MEMORY);
    let (to_right, to_third) = (connect(&mut left, &right), connect(&mut left, &third));
    mock::change(|rules| rules.failing_percent = 100);
    let mut heard = Noting::default();
    // Longer than what is injected, so that the queue tells of it.
    let _ = left.post(to_right, &Header::default(), Payload::from(&[1u8; 100][..]));
    until("the loss", || {
        left.poll(&mut heard, 16);
        !heard.lost.is_empty()
    });
    mock::change(|rules| rules.failing_percent = 0);
    let mut sent = false;
    let mut got = Noting::default();
    until("a message to another", || {
        let message = Payload::from(&b"still here"[..]);
        sent = sent || left.post(to_third, &Header::default(), message) == Posted::Sent;
        left.poll(&mut heard, 16);
        right.poll(&mut Noting::default(), 16);
        third.poll(&mut got, 16);
        !got.messages.is_empty()
    });
    assert_eq!(got.messages, [b"still here".to_vec()]);
    assert_eq!(heard.lost.len(), 1);
}

#[test]
fn a_failure_that_only_a_look_has_seen_is_told_by_the_next_poll() {
    let (mut left, right) = mocked(OWN_KEYS);
    let lane = connect(&mut left, &right);
    mock::change(|rules| rules.failing_percent = 100);
    let _ = left.post(lane, &Header::default(), Payload::from(&[1u8; 100][..]));
    until("the failure", || {
        let looked = left.look(lane, |_, _| Some(()));
        assert_ne!(looked, fabric::Looked::Taken(()));
        looked == fabric::Looked::Left
    });
    // Whoever looks again does not take it for seen.
    assert_eq!(left.look(lane, |_, _| Some(())), fabric::Looked::Left);
    let mut heard = Noting::default();
    left.poll(&mut heard, 16);
    assert_eq!(heard.lost.len(), 1, "{:?}", heard.lost);
}

#[test]
fn a_look_leaves_what_another_peer_has_sent_and_what_comes_too_early() {
    let [mut left, mut right, mut third] = three(Rules { inject_bytes_max: 200, ..Rules::NONE });
    let (from_right, from_third) = (connect(&mut left, &right), connect(&mut left, &third));
    let (to_left, too) = (connect(&mut right, &left), connect(&mut third, &left));
    let (mut heard, mut nobody) = (Noting::default(), Noting::default());
    // The first messages bring cards, which no look takes.
    post(&mut right, to_left, b"first", &mut nobody);
    post(&mut third, too, b"first", &mut nobody);
    until("the first messages", || {
        left.poll(&mut heard, 16);
        heard.messages.len() == 2
    });
    post(&mut third, too, b"of the third", &mut nobody);
    post(&mut right, to_left, b"of the right", &mut nobody);
    let look = |left: &mut Libfabric, lane, wanted: &[u8]| {
        let found = left.look(lane, |_, payload| Some(payload.to_vec()));
        assert!(!matches!(&found, fabric::Looked::Taken(bytes) if bytes != wanted), "{found:?}");
        found
    };
    until("a word of the third", || look(&mut left, from_right, b"") == fabric::Looked::Left);
    assert!(matches!(look(&mut left, from_third, b"of the third"), fabric::Looked::Taken(_)));
    until("that of the right", || {
        matches!(look(&mut left, from_right, b"of the right"), fabric::Looked::Taken(_))
    });
    // A frame out of its turn is kept for later by a poll, and the look goes on behind what was missing.
    let link = &mut right.links[to_left.0 as usize];
    link.sent += 1;
    post(&mut right, to_left, b"second", &mut nobody);
    right.links[to_left.0 as usize].sent -= 2;
    until("a frame too early", || look(&mut left, from_right, b"") == fabric::Looked::Left);
    heard.messages.clear();
    left.poll(&mut heard, 16);
    assert!(heard.messages.is_empty());
    post(&mut right, to_left, b"first", &mut nobody);
    until("what was missing", || matches!(look(&mut left, from_right, b"first"), fabric::Looked::Taken(_)));
    left.poll(&mut heard, 16);
    assert_eq!(heard.messages, [b"second".to_vec()]);
    assert!(heard.lost.is_empty() && mock::broken_rules().is_empty());
}

/// Three ends on one network of the mock provider.
pub(super) fn three(rules: Rules) -> [Libfabric; 3] {
    let (left, right) = mocked(rules);
    let settings = Settings { provider: Some(mock::PROVIDER.to_owned()), peers: 8, ..Settings::default() };
    let third = Libfabric::open_with(Peer(2), *left.port.library(), &settings).expect("a fabric opens");
    [left, right, third]
}

/// Posts until it is taken.
pub(super) fn post(from: &mut Libfabric, lane: Lane, message: &[u8], heard: &mut Noting) {
    until("a post", || {
        let posted = from.post(lane, &Header::default(), Payload::from(message));
        from.poll(heard, 16);
        posted == Posted::Sent
    });
}

/// The addresses of the mock provider are numbers in the order in which endpoints are opened.
const SECOND: u64 = 1;

#[test]
fn an_error_that_names_nobody_costs_only_who_has_died_and_frees_nothing() {
    let demands = Rules { inject_bytes_max: 200, tells_twice: true, ..MEMORY };
    let [mut left, mut right, mut third] = three(demands);
    let (to_right, to_third) = (connect(&mut left, &right), connect(&mut left, &third));
    let [mut heard, mut at_right, mut at_third] = [(); 3].map(|()| Noting::default());
    // Injected for both, so that an error may be of either; and memory of one of them is being read.
    for lane in [to_right, to_third] {
        post(&mut left, lane, b"short", &mut heard);
    }
    let to_left = connect(&mut third, &left);
    let data = vec![8u8; 90_000];
    let exposed = third.register_memory(to_left, Payload::from(&data[..]));
    let room = Heap::new(data.len());
    assert_eq!(left.pull(to_third, exposed, 0, &mut room.memory(), 9), Pulled::Underway);
    mock::change(|rules| rules.dead = Some(SECOND));
    post(&mut left, to_right, b"lost", &mut heard);
    until("the loss and the pull", || {
        left.poll(&mut heard, 16);
        third.poll(&mut at_third, 16);
        !heard.lost.is_empty() && !heard.pulled.is_empty()
    });
    let [(Peer(1), error)] = &heard.lost[..] else { panic!("{:?}", heard.lost) };
    assert!(error.what.contains("the cable was cut by a digger"), "{error}");
    assert_eq!(heard.pulled, [(9, true)]);
    assert!(room.payload().to_vec() == data);
    // No slot was given back twice: each message is its own.
    for number in 0..200u8 {
        post(&mut left, to_third, &[number; 300], &mut heard);
        third.poll(&mut at_third, 16);
    }
    until("what goes to the other", || {
        left.poll(&mut heard, 16);
        third.poll(&mut at_third, 64);
        at_third.messages.len() == 201
    });
    assert!((0..200).all(|number: u8| at_third.messages[usize::from(number) + 1] == [number; 300]));
    assert_eq!(heard.lost.len(), 1);
    right.poll(&mut at_right, 16);
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn an_error_told_twice_loses_nobody_but_its_own_peer() {
    let [mut left, _right, mut third] = three(Rules { tells_twice: true, ..MEMORY });
    let (to_right, to_third) = (connect(&mut left, &_right), connect(&mut left, &third));
    mock::change(|rules| rules.dead = Some(SECOND));
    let mut heard = Noting::default();
    let _ = left.post(to_right, &Header::default(), Payload::from(&[1u8; 300][..]));
    until("the loss", || {
        left.poll(&mut heard, 1);
        !heard.lost.is_empty()
    });
    // The second word of it is still to come, and this goes out of the same slot.
    let mut got = Noting::default();
    post(&mut left, to_third, &[2; 300], &mut heard);
    until("a message to another", || {
        left.poll(&mut heard, 16);
        third.poll(&mut got, 16);
        !got.messages.is_empty()
    });
    assert_eq!((got.messages, heard.lost.len()), (vec![vec![2; 300]], 1));
}

#[test]
fn what_is_cut_on_the_way_takes_its_buffer_and_nothing_else() {
    let (mut left, right) = mocked(OPEN);
    let mut vandal = FrameForger::at(&left);
    let mut heard = Noting::default();
    mock::change(|rules| rules.cut_percent = 100);
    for from in 3..7 {
        let frame = Frame { from: Peer(from), ..vandal.frame(0, Kind::Message) };
        vandal.send(&frame.encode());
        left.poll(&mut heard, 16);
    }
    mock::change(|rules| rules.cut_percent = 0);
    assert!(heard.messages.is_empty() && heard.lost.is_empty());
    let frame = Frame { from: Peer(7), ..vandal.frame(0, Kind::Message) };
    vandal.send(&[&frame.encode()[..], b"whole"].concat());
    until("a message behind those that were cut", || {
        left.poll(&mut heard, 16);
        !heard.messages.is_empty()
    });
    assert_eq!(heard.messages, [b"whole".to_vec()]);
    drop(right);
}

#[test]
fn who_takes_nothing_leaves_room_for_what_ends_other_links() {
    let [mut left, _right, mut third] = three(Rules { inject_bytes_max: 8, ..Rules::NONE });
    let (to_right, to_third) = (connect(&mut left, &_right), connect(&mut left, &third));
    let (mut heard, mut at_third) = (Noting::default(), Noting::default());
    post(&mut left, to_third, b"before", &mut heard);
    while left.post(to_right, &Header::default(), Payload::from(&[1u8; 100][..])) == Posted::Sent {}
    left.let_go(Peer(1));
    until("leaving", || {
        left.poll(&mut heard, 16);
        third.poll(&mut at_third, 16);
        left.leave()
    });
    assert!(left.leaving.is_some_and(|began| began.elapsed() < LEAVE_PATIENCE), "it was only given up");
    assert_eq!(at_third.messages, [b"before".to_vec()]);
}

#[test]
fn memory_that_cannot_be_registered_is_told_once_with_the_remedy_and_goes_in_chunks() {
    let (mut left, mut right) = mocked(MEMORY);
    let (to_right, to_left) = (connect(&mut left, &right), connect(&mut right, &left));
    // Both have registered their slots and buffers.
    mock::change(|rules| rules.regions_max = 4);
    let data = vec![5u8; 1 << 20];
    for told in [true, false] {
        let exposed = left.register_memory(to_right, Payload::from(&data[..]));
        assert_eq!(exposed, Exposed::default());
        let notice = left.take_notice();
        assert_eq!(notice.is_some(), told);
        let Some(notice) = notice else { continue };
        assert_eq!(notice.fault, Fault::Resources, "{notice}");
        assert!(notice.what.contains("1048576 bytes") && notice.what.contains("ulimit -l"), "{notice}");
    }
    let room = Heap::new(data.len());
    assert_eq!(right.pull(to_left, Exposed::default(), 0, &mut room.memory(), 1), Pulled::Refused);
    // One more: it can be shown, but not be read.
    mock::change(|rules| rules.regions_max = 5);
    let exposed = left.register_memory(to_right, Payload::from(&data[..]));
    assert_eq!(right.pull(to_left, exposed, 0, &mut room.memory(), 1), Pulled::Refused);
    assert!(right.take_notice().is_some_and(|notice| notice.what.contains("ulimit -l")));
    left.deregister_memory(Peer(1), exposed);
    let (mut at_left, mut at_right) = (Noting::default(), Noting::default());
    let mut sent = None;
    until("the message in chunks", || {
        let rest = Payload::from(&data[sent.unwrap_or(0)..]);
        let posted = match sent {
            None => left.post(to_right, &Header::default(), rest),
            Some(_) if rest.bytes() == 0 => Posted::Busy,
            Some(_) => left.resume(to_right, rest),
        };
        match posted {
            Posted::Busy => {}
            Posted::Partly(bytes) => sent = Some(sent.unwrap_or(0) + bytes),
            Posted::Sent => sent = Some(data.len()),
        }
        left.poll(&mut at_left, 16);
        right.poll(&mut at_right, 16);
        !at_right.messages.is_empty()
    });
    assert!(at_right.messages.pop() == Some(data));
    assert!(at_left.lost.is_empty() && at_right.lost.is_empty());
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn nothing_stays_registered_when_large_messages_are_over() {
    let (mut left, mut right) = mocked(MEMORY);
    let (to_right, to_left) = (connect(&mut left, &right), connect(&mut right, &left));
    mock::change(|rules| rules.regions_max = 6);
    let (mut at_left, mut at_right) = (Noting::default(), Noting::default());
    for number in 0..20u8 {
        let data = vec![number; 200_000];
        let room = Heap::new(data.len());
        let exposed = left.register_memory(to_right, Payload::from(&data[..]));
        let pulled = right.pull(to_left, exposed, 0, &mut room.memory(), number.into());
        assert_eq!(pulled, Pulled::Underway);
        until("a large message", || {
            left.poll(&mut at_left, 16);
            right.poll(&mut at_right, 16);
            !at_right.pulled.is_empty()
        });
        assert_eq!(at_right.pulled.pop(), Some((number.into(), true)));
        assert!(room.payload().to_vec() == data);
        left.deregister_memory(Peer(1), exposed);
    }
    assert!(at_left.lost.is_empty() && at_right.lost.is_empty());
}

#[test]
fn what_is_read_from_a_peer_that_is_lost_ends_before_the_loss_is_told() {
    let (mut left, mut right) = mocked(MEMORY);
    let (to_right, to_left) = (connect(&mut left, &right), connect(&mut right, &left));
    let data = vec![7u8; 300_000];
    let exposed = left.register_memory(to_right, Payload::from(&data[..]));
    mock::change(|rules| rules.failing_percent = 100);
    let room = Heap::new(data.len());
    for ticket in [4, 5] {
        assert_eq!(right.pull(to_left, exposed, 0, &mut room.memory(), ticket), Pulled::Underway);
    }
    let mut heard = Noting::default();
    until("the loss", || {
        left.poll(&mut Noting::default(), 16);
        right.poll(&mut heard, 16);
        assert!(heard.lost.is_empty() || heard.pulled.len() == 2, "lost before pulls have ended");
        !heard.lost.is_empty()
    });
    heard.pulled.sort_unstable();
    assert_eq!(heard.pulled, [(4, false), (5, false)]);
    assert!(heard.lost[0].1.what.contains("the cable was cut by a digger"), "{}", heard.lost[0].1);
    assert_eq!(right.pull(to_left, exposed, 0, &mut room.memory(), 6), Pulled::Refused);
}

#[test]
fn who_has_left_is_told_as_such_and_is_not_waited_for() {
    let (mut left, mut right) = mocked(STORMY);
    let (to_right, to_left) = (connect(&mut left, &right), connect(&mut right, &left));
    let (mut at_left, mut at_right) = (Noting::default(), Noting::default());
    until("a message", || {
        let posted = left.post(to_right, &Header::default(), Payload::from(&b"short"[..]));
        left.poll(&mut at_left, 16);
        posted == Posted::Sent
    });
    until("the left to leave", || {
        left.poll(&mut at_left, 16);
        right.poll(&mut at_right, 16);
        left.leave()
    });
    drop(left);
    until("the right to leave", || {
        right.poll(&mut at_right, 16);
        right.leave()
    });
    assert_eq!(at_right.messages, [b"short".to_vec()]);
    assert!(at_right.lost.is_empty(), "{:?}", at_right.lost);
    let _ = right.post(to_left, &Header::default(), Payload::from(&b"late"[..]));
    right.poll(&mut at_right, 16);
    let [(Peer(0), error)] = &at_right.lost[..] else { panic!("{:?}", at_right.lost) };
    assert!(error.what.contains("in good order"), "{error}");
}

#[test]
fn what_cannot_be_read_after_a_farewell_is_not_told_as_whole() {
    // In one chunk, and in several.
    for bytes in [90_000, 300_000] {
        let (mut left, mut right) = mocked(MEMORY);
        let (to_right, to_left) = (connect(&mut left, &right), connect(&mut right, &left));
        let (mut at_left, mut at_right) = (Noting::default(), Noting::default());
        post(&mut left, to_right, b"before", &mut at_left);
        let data = vec![6u8; bytes];
        let exposed = left.register_memory(to_right, Payload::from(&data[..]));
        until("the left to leave", || {
            left.poll(&mut at_left, 16);
            right.poll(&mut at_right, 16);
            left.leave() && right.links[to_left.0 as usize].has_left
        });
        drop(left);
        let room = Heap::new(bytes);
        assert_eq!(right.pull(to_left, exposed, 0, &mut room.memory(), 8), Pulled::Underway);
        until("the end of the pull", || {
            right.poll(&mut at_right, 16);
            !at_right.lost.is_empty()
        });
        assert_eq!(at_right.pulled, [(8, false)]);
        let [(Peer(0), error)] = &at_right.lost[..] else { panic!("{:?}", at_right.lost) };
        assert!(error.what.contains("the mock provider says no"), "{error}");
    }
}

#[test]
fn what_was_injected_has_left_when_all_is_flushed() {
    let (mut left, mut right) = mocked(MEMORY);
    let lane = connect(&mut left, &right);
    let (mut at_left, mut at_right) = (Noting::default(), Noting::default());
    until("a message", || {
        let posted = left.post(lane, &Header::default(), Payload::from(&b"short"[..]));
        left.poll(&mut at_left, 16);
        posted == Posted::Sent
    });
    assert!(!left.flush(), "the message has not moved");
    until("the flush", || {
        right.poll(&mut at_right, 16);
        left.poll(&mut at_left, 16);
        left.flush()
    });
    assert_eq!(at_right.messages, [b"short".to_vec()]);
}

/// Somebody who sends frames by hand.
struct FrameForger {
    endpoint: Endpoint,
    victim: libfabric_sys::Address,
    seal: u32,
}

impl FrameForger {
    /// One that has the card of `victim`.
    fn at(victim: &Libfabric) -> FrameForger {
        let offers = Offer::find(*victim.port.library(), Wanted::default()).unwrap();
        let capacity = Capacity { operations: 1, message_bytes_max: 1000 };
        let mut endpoint = Endpoint::open(&offers[0], capacity).unwrap();
        let address = endpoint.insert(victim.port.name(0)).unwrap();
        FrameForger { endpoint, victim: address, seal: victim.card.seal }
    }

    fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.endpoint.inject(bytes, self.victim), Answer::Taken);
    }

    fn frame(&self, sequence: u32, kind: Kind) -> Frame {
        Frame { seal: self.seal, from: Peer(3), sequence, kind, header: Header::default() }
    }
}

/// Rules under which everything can be injected.
const OPEN: Rules = Rules { inject_bytes_max: 4096, ..Rules::NONE };

#[test]
fn strangers_are_not_heard() {
    let (mut left, _right) = mocked(OPEN);
    let mut vandal = FrameForger::at(&left);
    let hello = vandal.frame(0, Kind::Hello);
    vandal.send(&[]);
    vandal.send(&[1; FRAME_BYTES - 1]);
    vandal.send(&[0xff; 200]);
    vandal.send(&Frame { seal: !hello.seal, ..hello }.encode());
    for from in [Peer(0), Peer(8), Peer(u32::MAX)] {
        vandal.send(&Frame { from, ..hello }.encode());
    }
    let mut heard = Noting::default();
    for _ in 0..20 {
        left.poll(&mut heard, 16);
    }
    assert!(heard.messages.is_empty() && heard.lost.is_empty() && left.links.is_empty());
}

/// What a process of the job that has gone mad sends, and what the victim says of it.
#[test]
fn who_breaks_the_protocol_or_goes_is_lost_and_named() {
    let long = |bytes: u64| bytes.to_le_bytes().to_vec();
    type Sent = Vec<(u32, Kind, Vec<u8>)>;
    let cases: Vec<(&str, Sent)> = vec![
        ("no libfabric address", vec![(0, Kind::Hello, vec![1, 2, 3])]),
        ("out of all order", vec![(1 << 20, Kind::Message, vec![])]),
        ("a message of no length", vec![(1, Kind::Long, vec![1])]),
        ("a message of no length", vec![(1, Kind::Long, long(0))]),
        ("a message of no length", vec![(1, Kind::Long, long(u64::MAX))]),
        ("a message of no length", vec![(1, Kind::Long, [long(3), vec![1; 4]].concat())]),
        ("a chunk of nothing", vec![(1, Kind::Chunk, vec![1])]),
        ("a chunk of nothing", vec![(1, Kind::Long, long(9)), (2, Kind::Chunk, vec![])]),
        ("a chunk of nothing", vec![(1, Kind::Long, long(9)), (2, Kind::Chunk, vec![1; 10])]),
        (
            "a chunk of nothing",
            vec![(1, Kind::Long, [long(9), vec![1; 5]].concat()), (2, Kind::Chunk, vec![1; 5])],
        ),
        ("a message within another", vec![(1, Kind::Long, long(9)), (2, Kind::Message, vec![])]),
        ("a message within another", vec![(1, Kind::Long, long(9)), (2, Kind::Long, long(9))]),
        ("a farewell within a message", vec![(1, Kind::Long, long(9)), (2, Kind::Farewell, vec![])]),
    ];
    for (said, frames) in cases {
        let (mut left, _right) = mocked(OPEN);
        let mut vandal = FrameForger::at(&left);
        if frames[0].0 == 1 {
            let card = Card { seal: 5, name: vandal.endpoint.name().to_vec(), ..left.card.clone() };
            let hello = vandal.frame(0, Kind::Hello).encode();
            vandal.send(&[&hello[..], &card.encode()].concat());
        }
        for (sequence, kind, payload) in frames {
            let frame = vandal.frame(sequence, kind).encode();
            vandal.send(&[&frame[..], &payload].concat());
        }
        let mut heard = Noting::default();
        until(said, || {
            left.poll(&mut heard, 16);
            !heard.lost.is_empty()
        });
        let [(peer, error)] = &heard.lost[..] else { panic!("{said}: told {} times", heard.lost.len()) };
        assert_eq!(*peer, Peer(3));
        assert!(error.what.contains(said), "`{said}` is not in: {error}");
        assert!(heard.messages.is_empty(), "{said}: heard {:?}", heard.messages);
    }
}
