//! The engine's random programs on the fabrics that live in one process.

use fabric::loopback::Loopback;
use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Heap, Payload, Peer};
use messaging::conformance::random_program;
use messaging::{
    Engine, Envelope, EveryoneHere, Failure, Mode, Outcome, Pattern, Rank, Receiving, Sending, Settings,
};
use proptest::prelude::*;

fn engines(network: &Network, ranks: u32, settings: Settings) -> Vec<Engine<Simulated>> {
    let engine = |rank| Engine::new(network.endpoint(Peer(rank)), ranks, Box::new(EveryoneHere), settings);
    (0..ranks).map(engine).collect()
}

fn fair(ranks: u32) -> Vec<Engine<Simulated>> {
    engines(&Network::new(ranks, Weather::fair()), ranks, Settings::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 60 }, ..ProptestConfig::default() })]

    #[test]
    fn on_the_simulated_fabric_in_fair_weather(seed: u64, ranks in 1u32..5) {
        random_program(&mut fair(ranks), seed);
    }

    #[test]
    fn on_the_simulated_fabric_in_a_storm(seed: u64, ranks in 1u32..5) {
        let network = Network::new(ranks, Weather::storm(seed));
        random_program(&mut engines(&network, ranks, Settings::default()), seed);
        prop_assert_eq!(network.exposures(), 0, "what was read by peers is still shown to them");
    }

    #[test]
    fn with_hardly_any_memory_for_unexpected_messages(seed: u64, ranks in 1u32..5) {
        let network = Network::new(ranks, Weather::storm(seed));
        random_program(&mut engines(&network, ranks, Settings { unexpected_bytes_max: 1000 }), seed);
        prop_assert_eq!(network.exposures(), 0, "what was read by peers is still shown to them");
    }

    #[test]
    fn on_the_loopback_fabric(seed: u64) {
        let alone = Engine::new(Loopback::new(Peer(0)), 1, Box::new(EveryoneHere), Settings::default());
        random_program(&mut [alone], seed);
    }
}

const ANY: Pattern = Pattern { context: 0, source: None, tag: None };

fn from_rank(source: u32, tag: i32) -> Envelope {
    Envelope { context: 0, source: Rank(source), tag }
}

fn bytes(length: usize) -> Payload<'static> {
    Payload::from(&*Vec::leak(vec![7; length]))
}

fn turn(engines: &mut [Engine<Simulated>]) -> usize {
    engines.iter_mut().map(Engine::progress).sum()
}

#[test]
fn unexpected_memory_stays_under_its_budget_and_all_arrives_in_order() {
    let network = Network::new(2, Weather::fair());
    let mut pair = engines(&network, 2, Settings { unexpected_bytes_max: 64 << 10 });
    let mut pending = Vec::new();
    for tag in 0..10_000 {
        match pair[0].send(Peer(1), from_rank(0, tag), bytes(1024), Mode::Standard).unwrap() {
            Sending::Pending(request) => pending.push(request),
            Sending::Done => {}
        }
        turn(&mut pair);
    }
    assert!(pending.len() > 9000, "only {} messages stayed at their sender", pending.len());
    let kept = pair[1].unexpected_bytes();
    assert!(kept < (64 << 10) + 10_000 * 200, "{kept} bytes kept: payloads were kept over the budget");
    for tag in 0..10_000 {
        let room = Heap::new(1024);
        let outcome = match pair[1].receive(ANY, None, room.memory()) {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => loop {
                turn(&mut pair);
                if let Some(outcome) = pair[1].test(request) {
                    break outcome;
                }
            },
        };
        assert_eq!((outcome.tag, outcome.bytes), (tag, 1024));
    }
    while turn(&mut pair) > 0 {}
    assert!(pending.into_iter().all(|request| pair[0].test(request) == Some(Outcome::sent())));
    assert_eq!(pair[1].unexpected_bytes(), 0);
    let Sending::Done = pair[0].send(Peer(1), from_rank(0, 1), bytes(1024), Mode::Standard).unwrap() else {
        panic!("eager was not welcome again after the receiver had room");
    };
}

#[test]
fn what_was_queued_before_the_receiver_has_enough_is_kept_at_its_sender_too() {
    let network = Network::new(2, Weather { queue_messages_max: 100, ..Weather::fair() });
    let mut pair = engines(&network, 2, Settings { unexpected_bytes_max: 64 << 10 });
    let mut pending = Vec::new();
    // Nothing is heard of the receiver meanwhile, as in a loop of nonblocking sends.
    for tag in 0..10_000 {
        match pair[0].send(Peer(1), from_rank(0, tag), bytes(1024), Mode::Standard).unwrap() {
            Sending::Pending(request) => pending.push(request),
            Sending::Done => {}
        }
    }
    while turn(&mut pair) > 0 {}
    let kept = pair[1].unexpected_bytes();
    assert!(kept < (64 << 10) + 10_000 * 200 + (300 << 10), "{kept} bytes kept: the queue was sent whole");
    for tag in 0..10_000 {
        let room = Heap::new(1024);
        let receiving = pair[1].receive(ANY, None, room.memory());
        while turn(&mut pair) > 0 {}
        let outcome = match receiving {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => pair[1].test(request).expect("it was there"),
        };
        assert_eq!((outcome.tag, outcome.bytes, outcome.failure), (tag, 1024, None));
        assert_eq!(room.payload().to_vec(), [7; 1024]);
    }
    assert!(pending.into_iter().all(|request| pair[0].test(request) == Some(Outcome::sent())));
    assert_eq!(network.exposures(), 0, "what was read is still shown");
}

#[test]
fn who_does_nothing_but_send_hears_that_the_receiver_has_enough() {
    let network = Network::new(2, Weather { queue_messages_max: 1000, ..Weather::fair() });
    let mut pair = engines(&network, 2, Settings { unexpected_bytes_max: 64 << 10 });
    for tag in 0..10_000 {
        let _ = pair[0].send(Peer(1), from_rank(0, tag), bytes(1024), Mode::Standard).unwrap();
        pair[1].progress();
    }
    let kept = pair[1].unexpected_bytes();
    assert!(kept < (64 << 10) + 10_000 * 200 + (1 << 20), "{kept} bytes kept of 10 MiB");
}

#[test]
fn a_synchronous_send_waits_for_its_match() {
    let mut pair = fair(2);
    let sending = pair[0].send(Peer(1), from_rank(0, 3), bytes(8), Mode::Synchronous).unwrap();
    let Sending::Pending(request) = sending else { panic!("nobody can have matched it") };
    while turn(&mut pair) > 0 {}
    assert_eq!(pair[0].test(request), None);
    let room = Heap::new(8);
    let Receiving::Done(outcome) = pair[1].receive(ANY, None, room.memory()) else { panic!("it was there") };
    assert_eq!(outcome.bytes, 8);
    while turn(&mut pair) > 0 {}
    assert_eq!(pair[0].test(request), Some(Outcome::sent()));
}

#[test]
fn truncation_tells_both_sizes_for_eager_and_rendezvous() {
    for length in [100, 100_000] {
        let mut pair = fair(2);
        let sending = pair[0].send(Peer(1), from_rank(0, 3), bytes(length), Mode::Standard).unwrap();
        let room = Heap::new(10);
        let receiving = pair[1].receive(ANY, None, room.memory());
        while turn(&mut pair) > 0 {}
        let outcome = match receiving {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => pair[1].test(request).expect("it has come"),
        };
        let expected = Failure::Truncated { sent_bytes: length, room_bytes: 10 };
        assert_eq!((outcome.failure, outcome.bytes), (Some(Box::new(expected)), 10));
        assert_eq!(room.payload().to_vec(), [7; 10]);
        if let Sending::Pending(request) = sending {
            assert_eq!(pair[0].test(request), Some(Outcome::sent()), "the sender is not to blame");
        }
    }
}

#[test]
fn a_lost_peer_fails_what_waits_for_it_and_nothing_else() {
    let network = Network::new(3, Weather::fair());
    let mut job = engines(&network, 3, Settings::default());
    let room = [Heap::new(8), Heap::new(8)];
    let from_1 = Pattern { source: Some(Rank(1)), ..ANY };
    let Receiving::Pending(doomed) = job[0].receive(from_1, Some(Peer(1)), room[0].memory()) else {
        panic!()
    };
    let Receiving::Pending(open) = job[0].receive(ANY, None, room[1].memory()) else { panic!() };
    let long = job[0].send(Peer(1), from_rank(0, 1), bytes(1 << 20), Mode::Standard).unwrap();
    let Sending::Pending(long) = long else { panic!() };
    network.kill(Peer(1));
    while turn(&mut job) > 0 {}
    for request in [doomed, long] {
        let outcome = job[0].test(request).expect("it is over");
        assert!(matches!(outcome.failure.as_deref(), Some(Failure::Lost(_))), "{outcome:?}");
    }
    let Ok(Sending::Pending(late)) = job[0].send(Peer(1), from_rank(0, 1), bytes(1), Mode::Standard) else {
        panic!("who asks how it ended learns why, and nobody before")
    };
    assert!(job[0].test(late).is_some_and(|outcome| outcome.failure.is_some()));
    assert_eq!(job[0].test(open), None);
    assert_eq!(job[2].send(Peer(0), from_rank(2, 1), bytes(8), Mode::Standard), Ok(Sending::Done));
    while turn(&mut job) > 0 {}
    assert_eq!(job[0].test(open).map(|outcome| outcome.source), Some(Rank(2)));
}

#[test]
fn a_taken_message_is_out_of_reach_for_others() {
    let mut pair = fair(2);
    for tag in [1, 2] {
        assert_eq!(pair[0].send(Peer(1), from_rank(0, tag), bytes(4), Mode::Standard), Ok(Sending::Done));
    }
    turn(&mut pair);
    let message = pair[1].take(&ANY).expect("two messages wait");
    assert_eq!(message.probed().tag, 1);
    assert_eq!(pair[1].probe(&ANY).map(|probed| probed.tag), Some(2));
    let room = Heap::new(4);
    let Receiving::Done(outcome) = pair[1].receive_matched(message, room.memory()) else { panic!() };
    assert_eq!((outcome.tag, outcome.bytes), (1, 4));
}

#[test]
fn who_is_told_of_a_message_can_take_it() {
    let network = Network::new(2, Weather { chunks_percent: 100, ..Weather::fair() });
    let mut pair = engines(&network, 2, Settings::default());
    let _ = pair[0].send(Peer(1), from_rank(0, 1), bytes(1000), Mode::Standard).unwrap();
    let (mut in_chunks, mut signs) = (false, 0);
    while pair[1].probe(&ANY).is_none() {
        in_chunks |= pair[1].unexpected_contexts().count() > 0;
        signs = pair[1].signs();
        assert!(pair[1].take(&ANY).is_none(), "a message that a probe does not see was taken");
        turn(&mut pair);
    }
    assert!(in_chunks, "it came at once, which shows nothing");
    assert_ne!(pair[1].signs(), signs, "who sleeps until a message comes is not told that it is whole");
    let probed = pair[1].probe(&ANY);
    assert_eq!(pair[1].take(&ANY).map(|message| message.probed()), probed);
}

#[test]
fn nobody_outside_the_job_can_be_sent_to() {
    let mut pair = fair(2);
    assert!(pair[0].send(Peer(9), from_rank(0, 1), bytes(4), Mode::Standard).is_err());
}

#[test]
fn a_peer_that_announces_nonsense_is_lost_and_nothing_is_allocated_for_it() {
    use fabric::{Fabric, Header, Posted};
    let network = Network::new(2, Weather { chunks_percent: 100, ..Weather::fair() });
    let mut honest = Engine::new(network.endpoint(Peer(0)), 2, Box::new(EveryoneHere), Settings::default());
    let mut liar = network.endpoint(Peer(1));
    let eager = Header { words: [1, 0, 1, 5, 0, 0] };
    assert_eq!(liar.post(Peer(0), &eager, Payload::from(&vec![0u8; 17 << 20][..])), Posted::Sent);
    while honest.progress() > 0 {}
    assert_eq!(honest.unexpected_bytes(), 0);
    let Ok(Sending::Pending(doomed)) = honest.send(Peer(1), from_rank(0, 1), bytes(1), Mode::Standard) else {
        panic!("it fails when it is asked about")
    };
    let outcome = honest.test(doomed).expect("it has failed");
    assert!(
        matches!(outcome.failure.as_deref(), Some(Failure::Lost(error)) if error.what.contains("process 1"))
    );
}
