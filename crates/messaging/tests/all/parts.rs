//! Requests that are made of several messages, on the simulated network.

use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Heap, Payload, Peer};
use messaging::{
    Engine, Envelope, EveryoneHere, Failure, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending,
    Settings,
};
use proptest::prelude::*;

const TURNS_MAX: usize = 1_000_000;

fn pair(weather: Weather) -> [Engine<Simulated>; 2] {
    let network = Network::new(2, weather);
    [0, 1]
        .map(|rank| Engine::new(network.endpoint(Peer(rank)), 2, Box::new(EveryoneHere), Settings::default()))
}

fn envelope(tag: usize) -> Envelope {
    Envelope { context: 3, source: Rank(0), tag: tag as i32 }
}

fn pattern(tag: usize) -> Pattern {
    Pattern { context: 3, source: Some(Rank(0)), tag: Some(tag as i32) }
}

fn content(part: usize, bytes: usize) -> &'static [u8] {
    Vec::leak((0..bytes).map(|at| (part * 31 + at * 7) as u8).collect())
}

fn turn(engines: &mut [Engine<Simulated>; 2]) {
    for engine in engines {
        engine.progress();
    }
}

/// Turns of both until the request of one of them is over.
fn end(engines: &mut [Engine<Simulated>; 2], rank: usize, request: RequestId) -> Outcome {
    for _ in 0..TURNS_MAX {
        turn(engines);
        if let Some(outcome) = engines[rank].test(request) {
            return outcome;
        }
    }
    panic!("nothing came of it:\n{}", engines[rank].describe());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 80 }, ..ProptestConfig::default() })]

    /// Parts of any length are sent and received in any order, some before and some after they are wanted; a
    /// whole is over with the last of its parts, and never before.
    #[test]
    fn a_whole_is_over_when_all_its_parts_are(
        seed: u64,
        lengths in prop::collection::vec(prop_oneof![0usize..200, 0usize..100_000], 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 24),
        wanted_first in 0usize..12,
    ) {
        let mut engines = pair(Weather::storm(seed));
        let count = lengths.len();
        let shuffled = |from: usize| {
            let mut left: Vec<usize> = (0..count).collect();
            (0..count).map(|at| left.remove(order[from + at].index(left.len()))).collect::<Vec<usize>>()
        };
        let (sent, wanted) = (shuffled(0), shuffled(12));
        let rooms: Vec<Heap> = lengths.iter().map(|&bytes| Heap::new(bytes)).collect();
        let (sending, receiving) = (engines[0].promise(), engines[1].promise());
        let mut under_way = vec![None; count];
        let mut receive = |engines: &mut [Engine<Simulated>; 2], part: usize| {
            let memory = rooms[part].memory();
            under_way[part] = engines[1].receive_part(receiving, pattern(part), Some(Peer(0)), memory);
        };
        let early = wanted_first.min(count);
        wanted[..early].iter().for_each(|&part| receive(&mut engines, part));
        for &part in &sent {
            let payload = Payload::from(content(part, lengths[part]));
            engines[0].send_part(sending, Peer(1), envelope(part), payload).unwrap();
            turn(&mut engines);
            prop_assert!(engines[0].peek(sending).is_none() && engines[1].peek(receiving).is_none());
        }
        wanted[early..].iter().for_each(|&part| receive(&mut engines, part));
        engines[0].fulfil(sending);
        engines[1].fulfil(receiving);
        prop_assert_eq!(end(&mut engines, 1, receiving), Outcome { failure: None, ..end_of_nothing() });
        for (part, room) in rooms.iter().enumerate() {
            prop_assert_eq!(room.payload().to_vec(), content(part, lengths[part]));
            prop_assert!(under_way[part].is_none_or(|id| engines[1].is_over(id)));
        }
        prop_assert_eq!(end(&mut engines, 0, sending).failure, None);
    }
}

fn end_of_nothing() -> Outcome {
    let mut alone = pair(Weather::fair());
    let request = alone[0].promise();
    alone[0].fulfil(request);
    alone[0].test(request).expect("it has no parts")
}

#[test]
fn a_part_that_fails_is_a_failure_of_the_whole_when_the_others_are_over() {
    let mut engines = pair(Weather::fair());
    let (small, large) = (Heap::new(10), Heap::new(100));
    let whole = engines[1].promise();
    let _ = engines[1].receive_part(whole, pattern(0), Some(Peer(0)), small.memory());
    let _ = engines[1].receive_part(whole, pattern(1), Some(Peer(0)), large.memory());
    engines[1].fulfil(whole);
    let sending = engines[0].promise();
    engines[0].send_part(sending, Peer(1), envelope(0), Payload::from(content(0, 50))).unwrap();
    for _ in 0..100 {
        turn(&mut engines);
    }
    assert!(engines[1].peek(whole).is_none(), "one part is still to come");
    engines[0].send_part(sending, Peer(1), envelope(1), Payload::from(content(1, 100))).unwrap();
    engines[0].fulfil(sending);
    let outcome = end(&mut engines, 1, whole);
    let truncated = Failure::Truncated { sent_bytes: 50, room_bytes: 10 };
    assert_eq!(outcome.failure.as_deref(), Some(&truncated));
    assert_eq!(large.payload().to_vec(), content(1, 100));
}

/// A long message that the fabric takes at one stroke is over when it is posted, and comes in its order; to a
/// peer that keeps too much none goes so.
#[test]
fn long_messages_go_at_once_where_the_fabric_takes_them() {
    let weather = Weather { at_once_percent: 100, ..Weather::fair() };
    let network = Network::new(2, weather);
    let mut engines = [0, 1].map(|rank| {
        let settings = Settings { unexpected_bytes_max: 30_000 };
        Engine::new(network.endpoint(Peer(rank)), 2, Box::new(EveryoneHere), settings)
    });
    let bytes = weather.eager_bytes_max * 2;
    let send = |engines: &mut [Engine<Simulated>; 2], part, mode| {
        engines[0].send(Peer(1), envelope(part), Payload::from(content(part, bytes)), mode).unwrap()
    };
    let counts = (0..12).map(|part| {
        let sending = send(&mut engines, part, Mode::Standard);
        for _ in 0..100 {
            turn(&mut engines);
        }
        matches!(sending, Sending::Done)
    });
    let at_once: Vec<bool> = counts.collect();
    let kept = 30_000 / bytes + 1;
    assert!(at_once[..kept].iter().all(|&it| it), "{at_once:?}");
    assert!(!at_once[kept..].iter().any(|&it| it), "it was told to keep them: {at_once:?}");
    for part in 0..12 {
        let room = Heap::new(bytes);
        match engines[1].receive(pattern(part), Some(Peer(0)), room.memory()) {
            Receiving::Done(outcome) => assert_eq!((outcome.bytes, outcome.failure), (bytes, None)),
            Receiving::Pending(request) => assert_eq!(end(&mut engines, 1, request).bytes, bytes),
        }
        assert!(room.payload().to_vec() == content(part, bytes));
    }
    for _ in 0..100 {
        turn(&mut engines);
    }
    // One that wants to hear of its receive does not: it would be no sooner.
    assert!(matches!(send(&mut engines, 12, Mode::Synchronous), Sending::Pending(_)));
}
