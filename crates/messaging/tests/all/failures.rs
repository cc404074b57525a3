//! What a failure ends, and what it leaves alone: the rules of general failures, by their numbers, between
//! engines on the simulated fabric.

mod storms;

use std::sync::Arc;

use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Heap, Payload, Peer};
use messaging::MemberList;
use messaging::{
    Engine, Envelope, EveryoneHere, Failure, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending,
    Settings, Standing,
};

/// The communicators of the tests, by the even context.
const ALL: u32 = 0;
const PAIR: u32 = 2;

/// Three engines that have a communicator of all of them, and the first two another one.
struct FailureWorld {
    network: Network,
    engines: Vec<Engine<Simulated>>,
    all: Vec<Arc<Standing>>,
    pair: Vec<Arc<Standing>>,
}

impl FailureWorld {
    fn new() -> FailureWorld {
        FailureWorld::in_weather(Weather::fair())
    }

    fn in_weather(weather: Weather) -> FailureWorld {
        let network = Network::new(3, weather);
        let settings = Settings::default();
        let engine = |rank| Engine::new(network.endpoint(Peer(rank)), 3, Box::new(EveryoneHere), settings);
        let engines: Vec<Engine<Simulated>> = (0..3).map(engine).collect();
        let watch = |context, members: &[u32]| {
            let watched = engines.iter().zip(0..).map(|(engine, rank)| {
                engine.failures().watch(
                    context,
                    u64::from(context),
                    Rank(rank),
                    Arc::new(MemberList(members.to_vec())),
                )
            });
            watched.collect::<Vec<_>>()
        };
        let (all, pair) = (watch(ALL, &[0, 1, 2]), watch(PAIR, &[0, 1]));
        FailureWorld { network, engines, all, pair }
    }

    /// Ends process 2, and lets the others notice.
    fn kill(&mut self) {
        self.network.kill(Peer(2));
        self.settle();
    }

    fn settle(&mut self) {
        while self.engines[..2].iter_mut().map(Engine::progress).sum::<usize>() > 0 {}
    }

    /// A send of `bytes` that is begun.
    fn send(&mut self, from: u32, to: u32, context: u32, bytes: usize) -> Option<RequestId> {
        let payload = Payload::from(&*Vec::leak(vec![from as u8; bytes]));
        let envelope = Envelope { context, source: Rank(from), tag: 1 };
        match self.engines[from as usize]
            .send(Peer(to), envelope, payload, Mode::Standard)
            .expect("it is known")
        {
            Sending::Done => None,
            Sending::Pending(request) => Some(request),
        }
    }

    fn post(&mut self, at: u32, from: Option<u32>, context: u32, bytes: usize) -> (RequestId, Heap) {
        let room = Heap::new(bytes);
        let pattern = Pattern { context, source: from.map(Rank), tag: Some(1) };
        match self.engines[at as usize].receive(pattern, from.map(Peer), room.memory()) {
            Receiving::Pending(request) => (request, room),
            Receiving::Done(outcome) => panic!("there was a message: {outcome:?}"),
        }
    }

    fn test(&mut self, at: u32, request: RequestId) -> Option<Outcome> {
        self.engines[at as usize].test(request)
    }
}

fn is_lost(outcome: Option<&Outcome>) -> bool {
    outcome.is_some_and(|outcome| matches!(outcome.failure.as_deref(), Some(Failure::Lost(_))))
}

const LONG: usize = 1 << 20;

#[test]
fn g3_who_lost_nobody_notices_nothing() {
    let mut world = FailureWorld::new();
    let (from_anybody, room) = world.post(0, None, PAIR, 8);
    let (collective, other) = world.post(0, Some(1), PAIR + 1, 8);
    world.kill();
    assert!(world.all[0].is_closed() && !world.pair[0].is_closed());
    assert!(world.test(0, from_anybody).is_none() && world.test(0, collective).is_none());
    world.send(1, 0, PAIR, 8);
    world.send(1, 0, PAIR + 1, 8);
    world.settle();
    for (request, room) in [(from_anybody, room), (collective, other)] {
        let outcome = world.test(0, request).expect("its message has come");
        assert_eq!((outcome.failure, room.payload().to_vec()), (None, vec![1; 8]));
    }
}

#[test]
fn g6_a_send_to_the_dead_begins_and_fails_when_it_is_asked_about() {
    let mut world = FailureWorld::new();
    world.kill();
    for bytes in [8, LONG] {
        let request = world.send(0, 2, ALL, bytes).expect("it goes on under a name");
        assert!(is_lost(world.test(0, request).as_ref()));
    }
}

#[test]
fn g6_a_receive_from_the_dead_begins_and_fails_when_it_is_asked_about() {
    let mut world = FailureWorld::new();
    world.kill();
    let (request, _room) = world.post(0, Some(2), ALL, 8);
    assert!(is_lost(world.test(0, request).as_ref()));
    assert!(world.test(0, request).is_none(), "it is gone");
}

#[test]
fn g7_what_was_sent_before_the_end_is_received() {
    let mut world = FailureWorld::new();
    world.send(2, 0, ALL, 8);
    world.send(2, 0, ALL, LONG);
    world.settle();
    world.kill();
    let room = Heap::new(8);
    let pattern = Pattern { context: ALL, source: Some(Rank(2)), tag: Some(1) };
    let Receiving::Done(outcome) = world.engines[0].receive(pattern, Some(Peer(2)), room.memory()) else {
        panic!("it is here")
    };
    assert_eq!((outcome.failure, room.payload().to_vec()), (None, vec![2; 8]));
    let (long, _room) = world.post(0, Some(2), ALL, LONG);
    assert!(is_lost(world.test(0, long).as_ref()), "it had announced this one, and never sent it");
}

#[test]
fn g7_a_send_that_the_dead_has_not_received_ends() {
    let mut world = FailureWorld::new();
    let long = world.send(0, 2, ALL, LONG).expect("nobody receives it");
    world.kill();
    assert!(is_lost(world.test(0, long).as_ref()));
    assert_eq!(world.network.exposures(), 0, "what the dead might have read is still shown");
}

#[test]
fn g1_a_receive_from_anybody_is_told_of_and_can_still_match() {
    let mut world = FailureWorld::new();
    let (request, room) = world.post(0, None, ALL, 8);
    let before = world.engines[0].signs();
    world.kill();
    assert_ne!(world.engines[0].signs(), before, "who waits for it is to look");
    for _ in 0..2 {
        let told = world.test(0, request).expect("it is told of");
        assert!(told.goes_on() && matches!(told.failure.as_deref(), Some(Failure::Unacknowledged(_))));
        assert!(world.engines[0].peek(request).is_some_and(|told| told.goes_on()));
    }
    let standing = Arc::clone(&world.all[0]);
    assert_eq!(world.engines[0].failures().clone().acknowledge(&standing, 1), 1);
    assert!(world.test(0, request).is_none(), "it waits among the living");
    world.send(1, 0, ALL, 8);
    world.settle();
    let outcome = world.test(0, request).expect("its message has come");
    assert_eq!((outcome.failure, outcome.source, room.payload().to_vec()), (None, Rank(1), vec![1; 8]));
}

#[test]
fn g1_who_waits_for_anybody_and_does_nothing_else_is_told() {
    let pattern = Pattern { context: ALL, source: None, tag: None };
    // Before the failure, after it, and behind another receive, which takes another way.
    for (others, late) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = FailureWorld::new();
        let _other = others.then(|| world.post(0, Some(1), ALL, 8));
        if late {
            world.kill();
        }
        let room = Heap::new(8);
        let ticket = world.engines[0].receive_awaited(pattern, None, room.memory()).expect("nothing is here");
        if !late {
            assert!(world.engines[0].take_awaited(ticket).is_none());
            world.kill();
        }
        assert!(is_lost(world.engines[0].take_awaited(ticket).as_ref()));
        world.send(1, 0, ALL, 8);
        world.send(1, 0, ALL, 8);
        world.settle();
        let left = world.engines[0].probe(&pattern).is_some();
        assert!(left, "a receive that has ended takes no message");
    }
}

#[test]
fn d1_a_collective_operation_ends_also_between_the_living() {
    let mut world = FailureWorld::new();
    let (posted, _room) = world.post(0, Some(1), ALL + 1, 8);
    let sent = world.send(0, 1, ALL + 1, LONG).expect("nobody receives it");
    world.kill();
    assert!(is_lost(world.test(0, posted).as_ref()));
    assert!(world.test(0, sent).is_some(), "the other was asked to let go of it");
    assert_eq!(world.network.exposures(), 0, "it is still shown");
    let (late, _room) = world.post(0, Some(1), ALL + 1, 8);
    assert!(is_lost(world.test(0, late).as_ref()));
    let late = world.send(0, 1, ALL + 1, LONG).expect("it fails");
    assert!(is_lost(world.test(0, late).as_ref()));
}

#[test]
fn r3_a_collective_operation_from_before_a_recovery_ends_also_where_the_death_is_heard_of_later() {
    let mut world = FailureWorld::new();
    let (posted, _room) = world.post(0, Some(1), ALL + 1, 8);
    let (message, _other) = world.post(0, Some(1), ALL, 8);
    let standing = Arc::clone(&world.all[0]);
    world.engines[0].failures().clone().settle(&standing, vec![Peer(2)]);
    world.kill();
    assert!(is_lost(world.test(0, posted).as_ref()));
    assert!(world.engines[0].closed(ALL + 1).is_some() && world.engines[0].closed(ALL).is_none());
    assert!(world.test(0, message).is_none(), "messages go on");
}

#[test]
fn d2_what_a_living_partner_has_matched_reaches_it_whole() {
    let mut world = FailureWorld::new();
    let (receive, room) = world.post(1, Some(0), ALL + 1, LONG);
    let sent = world.send(0, 1, ALL + 1, LONG).expect("it is long");
    // The receiver matches it, and both learn of the failure before it has moved on.
    world.network.kill(Peer(2));
    world.settle();
    let outcome = world.test(1, receive).expect("it is over");
    match outcome.failure {
        None => assert_eq!(room.payload().to_vec(), vec![0; LONG]),
        Some(failure) => assert!(matches!(*failure, Failure::Lost(_)), "{failure:?}"),
    }
    assert!(world.test(0, sent).is_some(), "the sender's buffer is free");
}

#[test]
fn messages_between_the_living_go_their_way_in_every_weather() {
    for seed in 0..if cfg!(miri) { 2 } else { 200 } {
        let mut world = FailureWorld::in_weather(Weather::storm(seed));
        let mut pending = Vec::new();
        for bytes in [8, 5000, LONG / 4] {
            pending.push((bytes, world.post(0, Some(1), ALL, bytes)));
            let _ = world.send(1, 0, ALL, bytes);
        }
        let dead = world.post(0, Some(2), ALL, 8).0;
        for _ in 0..seed % 50 {
            world.engines.iter_mut().for_each(|engine| _ = engine.progress());
        }
        world.network.kill(Peer(2));
        let mut left = 100_000;
        while pending.iter().any(|(_, (request, _))| world.engines[0].peek(*request).is_none()) {
            world.engines[..2].iter_mut().for_each(|engine| _ = engine.progress());
            left -= 1;
            assert!(left > 0, "seed {seed}: {}", world.engines[0].describe());
        }
        for (bytes, (request, room)) in pending {
            let outcome = world.test(0, request).expect("it is over");
            assert_eq!((outcome.failure, outcome.bytes), (None, bytes), "seed {seed}");
            assert_eq!(room.payload().to_vec(), vec![1; bytes], "seed {seed}");
        }
        while world.engines[0].peek(dead).is_none() {
            world.engines[0].progress();
        }
        assert!(is_lost(world.test(0, dead).as_ref()), "seed {seed}");
    }
}

fn is_revoked(outcome: Option<&Outcome>) -> bool {
    outcome.is_some_and(|outcome| outcome.failure.as_deref() == Some(&Failure::Revoked))
}

#[test]
fn what_is_under_way_in_a_revoked_communicator_ends_everywhere_and_nothing_begins() {
    let mut world = FailureWorld::new();
    let (exact, _room) = world.post(0, Some(1), ALL, 8);
    let (from_anybody, _other) = world.post(2, None, ALL, 8);
    let (collective, _third) = world.post(2, Some(0), ALL + 1, 8);
    let long =
        world.send(1, 0, ALL, LONG).expect("the receive that is there is too short, but it has matched");
    let lonely = world.send(1, 2, PAIR + 7, LONG).expect("nobody receives it");
    let waiting = world.send(2, 1, ALL, LONG).expect("nobody receives it");
    while world.engines.iter_mut().map(Engine::progress).sum::<usize>() > 0 {}
    let standing = Arc::clone(&world.all[1]);
    world.engines[1].revoke(&standing);
    while world.engines.iter_mut().map(Engine::progress).sum::<usize>() > 0 {}
    assert!(world.all.iter().all(|standing| standing.is_revoked()));
    assert!(world.pair.iter().all(|standing| !standing.is_revoked()));
    assert!(world.test(0, exact).is_some(), "it had its message");
    assert!(world.test(1, long).is_some());
    assert!(is_revoked(world.test(2, from_anybody).as_ref()));
    assert!(is_revoked(world.test(2, collective).as_ref()));
    assert!(is_revoked(world.test(2, waiting).as_ref()), "the receiver was asked to let go of it");
    assert!(world.test(1, lonely).is_none(), "it is of another communicator");
    for bytes in [8, LONG] {
        let late = world.send(0, 1, ALL, bytes).expect("it has failed");
        assert!(is_revoked(world.test(0, late).as_ref()));
    }
    let (late, _room) = world.post(0, Some(1), ALL, 8);
    assert!(is_revoked(world.test(0, late).as_ref()));
    let room = Heap::new(8);
    let pattern = Pattern { context: ALL, source: Some(Rank(1)), tag: Some(1) };
    let ticket =
        world.engines[0].receive_awaited(pattern, Some(Peer(1)), room.memory()).expect("it says so later");
    assert!(is_revoked(world.engines[0].take_awaited(ticket).as_ref()));
    assert!(world.engines[0].may_look(pattern, Peer(1)).is_none(), "the shortest way does not look");
}

#[test]
fn g1_a_synchronous_send_that_nobody_has_matched_ends_when_its_communicator_is_revoked() {
    for has_come in [true, false] {
        let mut world = FailureWorld::new();
        let envelope = Envelope { context: ALL, source: Rank(1), tag: 1 };
        let payload = Payload::from(&[1u8; 8][..]);
        let sent = world.engines[1].send(Peer(0), envelope, payload, Mode::Synchronous).expect("it is known");
        let Sending::Pending(sent) = sent else { panic!("nobody has matched it") };
        if has_come {
            world.settle();
        }
        let standing = Arc::clone(&world.all[1]);
        world.engines[1].revoke(&standing);
        world.settle();
        // Who waits asks, whatever has become of it meanwhile.
        let first = world.test(1, sent);
        world.settle();
        assert!(is_revoked(first.or_else(|| world.test(1, sent)).as_ref()), "has come: {has_come}");
        assert_eq!(world.engines[0].unexpected_bytes(), 0, "it is still kept");
    }
}

/// A short synchronous send from process 1 to process 0 that nobody receives, some turns after it was begun.
fn synchronous_in_a_storm(seed: u64, turns: u64) -> (FailureWorld, RequestId) {
    let mut world = FailureWorld::in_weather(Weather::storm(seed));
    let envelope = Envelope { context: ALL, source: Rank(1), tag: 1 };
    let payload = Payload::from(&*Vec::leak(vec![1u8; 48]));
    // What is before it makes it wait in its queue in some storms.
    for _ in 0..4 {
        let _ = world.send(1, 0, PAIR, 48);
    }
    let sent = world.engines[1].send(Peer(0), envelope, payload, Mode::Synchronous).expect("it is known");
    let Sending::Pending(sent) = sent else { panic!("nobody has matched it") };
    for _ in 0..turns {
        world.engines[..2].iter_mut().for_each(|engine| _ = engine.progress());
    }
    (world, sent)
}

/// Who waits and only looks at the request must see that it ends.
fn ends_where_it_is_looked_at(world: &mut FailureWorld, request: RequestId, seed: u64) -> Outcome {
    for _ in 0..10_000 {
        if let Some(outcome) = world.engines[1].peek(request) {
            return outcome;
        }
        world.engines[..2].iter_mut().for_each(|engine| _ = engine.progress());
    }
    panic!("seed {seed}: it never ends: {}", world.engines[1].describe())
}

#[test]
fn a_send_that_was_still_queued_when_its_communicator_was_revoked_ends_for_who_only_looks() {
    for seed in 0..if cfg!(miri) { 4 } else { 400u64 } {
        let (mut world, sent) = synchronous_in_a_storm(seed, seed % 5);
        let standing = Arc::clone(&world.all[1]);
        world.engines[1].revoke(&standing);
        let outcome = ends_where_it_is_looked_at(&mut world, sent, seed);
        assert!(is_revoked(Some(&outcome)), "seed {seed}");
    }
}

#[test]
fn r6_a_synchronous_message_that_lands_where_another_generation_has_begun_is_given_back() {
    for seed in 0..if cfg!(miri) { 4 } else { 400u64 } {
        let (mut world, sent) = synchronous_in_a_storm(seed, seed % 20);
        world.engines[0].retire(&Arc::clone(&world.all[0]));
        for _ in 0..2000 {
            world.engines[..2].iter_mut().for_each(|engine| _ = engine.progress());
        }
        world.engines[1].retire(&Arc::clone(&world.all[1]));
        let outcome = ends_where_it_is_looked_at(&mut world, sent, seed);
        assert!(is_revoked(Some(&outcome)), "seed {seed}");
        let pattern = Pattern { context: ALL, source: Some(Rank(1)), tag: Some(1) };
        assert!(world.engines[0].probe(&pattern).is_none(), "seed {seed}: it is still kept");
    }
}

#[test]
fn r6_what_came_for_a_generation_that_is_over_is_not_kept() {
    let mut world = FailureWorld::new();
    let before = world.send(1, 0, ALL, 8);
    let long = world.send(1, 0, ALL, LONG).expect("nobody receives it");
    let beside = world.send(1, 0, PAIR, 8);
    assert!(before.is_none() && beside.is_none());
    world.settle();
    let kept = world.engines[0].unexpected_bytes();
    world.engines[0].retire(&Arc::clone(&world.all[0]));
    assert!(world.engines[0].unexpected_bytes() < kept, "what came before is kept");
    assert!(world.send(1, 0, ALL, 8).is_none(), "the sender does not know yet");
    world.settle();
    let pattern = |context| Pattern { context, source: Some(Rank(1)), tag: Some(1) };
    assert!(world.engines[0].probe(&pattern(PAIR)).is_some(), "that is of another communicator");
    world.engines[1].retire(&Arc::clone(&world.all[1]));
    world.settle();
    assert!(is_revoked(world.test(1, long).as_ref()), "the receiver has let go of it");
    assert!(world.engines[0].probe(&pattern(ALL)).is_none(), "what came afterwards is kept");
    let (late, _room) = world.post(0, Some(1), ALL, 8);
    assert!(is_revoked(world.test(0, late).as_ref()), "nothing begins there");
}

#[test]
fn other_communicators_go_on_beside_a_revoked_one_and_all_is_as_before_when_that_is_gone() {
    let mut world = FailureWorld::new();
    let standing = Arc::clone(&world.all[1]);
    world.engines[1].revoke(&standing);
    world.settle();
    for _ in 0..2 {
        for bytes in [8, LONG] {
            let (receive, room) = world.post(0, Some(1), PAIR, bytes);
            let sent = world.send(1, 0, PAIR, bytes);
            world.settle();
            assert_eq!(world.test(0, receive).expect("it is here").failure, None);
            assert_eq!(room.payload().to_vec(), vec![1; bytes]);
            assert!(sent.is_none_or(|sent| world.test(1, sent).is_some()));
        }
    }
    drop(standing);
    world.all.clear();
    let mut quick = false;
    for _ in 0..10_000 {
        quick = world.engines[1].way_out(Peer(0), 8).is_some();
        if quick {
            break;
        }
        let _ = world.send(1, 0, PAIR, 8);
        world.settle();
    }
    assert!(quick, "calls go the long way for ever");
}

#[test]
fn a_revocation_that_is_told_again_when_its_communicator_is_forgotten_slows_nobody_down() {
    let mut world = FailureWorld::new();
    let _ = world.send(0, 1, PAIR, 8);
    world.settle();
    let watch = |world: &FailureWorld, at: u32, number: u32| {
        let members = Arc::new(MemberList(vec![0, 1, 2]));
        world.engines[at as usize].failures().watch(2 * number, u64::from(number), Rank(at), members)
    };
    let (first, _second) = (watch(&world, 0, 20), watch(&world, 1, 20));
    world.engines[0].revoke(&first);
    world.engines[0].progress();
    // This one tells the first of it in its turn, which does not look yet.
    for _ in 0..10 {
        world.engines[1].progress();
    }
    drop(first);
    (100..300).for_each(|number| drop(watch(&world, 0, number)));
    (0..5000).for_each(|_| assert!(world.engines[0].closed(PAIR).is_none()));
    assert!(world.engines[0].way_out(Peer(1), 8).is_some());
    let _ = world.send(0, 1, PAIR, 8);
    world.settle();
    assert!(world.engines[0].way_out(Peer(1), 8).is_some(), "it is told again");
}

#[test]
fn a_revocation_reaches_who_comes_to_know_the_communicator_later() {
    let mut world = FailureWorld::new();
    let members = || Arc::new(MemberList(vec![0, 1]));
    let first = world.engines[0].failures().watch(40, 40, Rank(0), members());
    world.engines[0].revoke(&first);
    world.settle();
    let second = world.engines[1].failures().watch(40, 40, Rank(1), members());
    // A receive of somebody's is what looks least.
    let room = Heap::new(8);
    let pattern = Pattern { context: 40, source: Some(Rank(0)), tag: Some(1) };
    let ticket =
        world.engines[1].receive_awaited(pattern, Some(Peer(0)), room.memory()).expect("it says so later");
    assert!(is_revoked(world.engines[1].take_awaited(ticket).as_ref()));
    assert!(second.is_revoked());
    let third = world.engines[1].failures().watch(44, 44, Rank(1), members());
    assert!(!world.engines[1].is_revoked(&third));
    let there = world.engines[0].failures().watch(46, 46, Rank(0), members());
    world.engines[0].revoke(&there);
    world.settle();
    let fourth = world.engines[1].failures().watch(46, 46, Rank(1), members());
    assert!(world.engines[1].is_revoked(&fourth), "who only asks is not told");
    let late = world.send(1, 0, 40, 8).expect("it has failed");
    assert!(is_revoked(world.test(1, late).as_ref()));
    let other = world.engines[0].failures().watch(42, 42, Rank(0), members());
    assert!(!other.is_revoked());
}
