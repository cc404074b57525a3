//! Messages that come in pieces and could be read: both sides copy, and a receiver whose sender is elsewhere reads the rest.

use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Fabric, FabricError, Header, Heap, Payload, Peer, Posted, Sink, UserMemory};
use messaging::{
    Engine, Envelope, EveryoneHere, Failure, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending,
    Settings,
};

const ANY: Pattern = Pattern { context: 0, source: None, tag: None };
const BYTES: usize = 50_000;
/// More than a receiver waits for a piece.
const MANY_TURNS: usize = 200;

fn rather_pieces() -> Weather {
    Weather { rather_pieces_percent: 100, ..Weather::fair() }
}

fn pair(weather: Weather) -> (Network, [Engine<Simulated>; 2]) {
    let network = Network::new(2, weather);
    let engine =
        |rank| Engine::new(network.endpoint(Peer(rank)), 2, Box::new(EveryoneHere), Settings::default());
    let engines = [engine(0), engine(1)];
    (network, engines)
}

fn numbers(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 256) as u8).collect()
}

fn envelope(tag: i32) -> Envelope {
    Envelope { context: 0, source: Rank(0), tag }
}

fn send(engine: &mut Engine<Simulated>, tag: i32) -> RequestId {
    let row: &'static [u8] = numbers(BYTES).leak();
    match engine.send(Peer(1), envelope(tag), Payload::from(row), Mode::Standard).unwrap() {
        Sending::Pending(request) => request,
        Sending::Done => panic!("nobody has asked for it"),
    }
}

fn receive(engine: &mut Engine<Simulated>, room: &Heap) -> RequestId {
    match engine.receive(ANY, Some(Peer(0)), room.memory()) {
        Receiving::Pending(request) => request,
        Receiving::Done(outcome) => panic!("{outcome:?}"),
    }
}

fn turn(pair: &mut [Engine<Simulated>]) -> usize {
    pair.iter_mut().map(Engine::progress).sum()
}

fn turns(engine: &mut Engine<Simulated>, count: usize) {
    for _ in 0..count {
        engine.progress();
    }
}

fn assert_received(outcome: Option<Outcome>, room: &Heap) {
    let outcome = outcome.expect("it is here");
    assert_eq!((outcome.bytes, outcome.failure), (room.bytes(), None));
    assert!(room.payload().to_vec() == numbers(BYTES)[..room.bytes()]);
}

#[test]
fn it_goes_in_pieces_and_its_sender_hears_of_the_end() {
    let (network, mut pair) = pair(rather_pieces());
    let sending = send(&mut pair[0], 5);
    let room = Heap::new(BYTES);
    let receiving = receive(&mut pair[1], &room);
    loop {
        pair[0].progress();
        assert_eq!(pair[0].test(sending), None, "its receiver may still read it");
        pair[1].progress();
        if let Some(outcome) = pair[1].test(receiving) {
            assert_received(Some(outcome), &room);
            break;
        }
    }
    while turn(&mut pair) > 0 {}
    // A request, a clearance, 49 pieces, and the end.
    assert_eq!(network.messages(), 52);
    assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
    assert_eq!(network.exposures(), 0);
}

/// Without a turn of the sender the receiver has all of it; the sender's pieces are not sent afterwards.
#[test]
fn who_computes_is_not_waited_for() {
    let (network, mut pair) = pair(rather_pieces());
    let room = Heap::new(BYTES);
    let receiving = receive(&mut pair[1], &room);
    let sending = send(&mut pair[0], 5);
    turns(&mut pair[1], MANY_TURNS);
    assert_received(pair[1].test(receiving), &room);
    while turn(&mut pair) > 0 {}
    assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
    assert!(network.messages() <= 5, "{} messages", network.messages());
    assert_eq!(network.exposures(), 0);
    // Nobody holds it against the other.
    let sending = send(&mut pair[0], 6);
    let receiving = receive(&mut pair[1], &room);
    while turn(&mut pair) > 0 {}
    assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
    assert_received(pair[1].test(receiving), &room);
}

/// The sender turns away at any point; what it has sent until then may come late.
#[test]
fn who_turns_away_midway_is_overtaken() {
    for (delay_polls_max, pieces_percent, later_percent) in
        [(0, 0, 0), (300, 0, 0), (0, 60, 0), (300, 60, 100)]
    {
        for sender_turns in 0..12 {
            let weather = Weather {
                seed: sender_turns as u64,
                delay_polls_max,
                pieces_percent,
                later_percent,
                partly_percent: 30,
                ..rather_pieces()
            };
            let (network, mut pair) = pair(weather);
            let sending = send(&mut pair[0], 5);
            // The rest of a long message is nobody's concern.
            let room = Heap::new(if sender_turns % 2 == 0 { BYTES } else { BYTES / 2 });
            let receiving = receive(&mut pair[1], &room);
            while network.messages() == 0 {
                turn(&mut pair);
            }
            for _ in 0..sender_turns {
                turn(&mut pair);
            }
            turns(&mut pair[1], 40 * MANY_TURNS);
            let outcome = pair[1].test(receiving).expect("its receiver can read it");
            assert_eq!(outcome.bytes, room.bytes());
            assert!(room.payload().to_vec() == numbers(BYTES)[..room.bytes()]);
            for _ in 0..40 * MANY_TURNS {
                turn(&mut pair);
            }
            assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
            assert_eq!(network.exposures(), 0);
            let again = send(&mut pair[0], 6);
            let receiving = receive(&mut pair[1], &room);
            for _ in 0..40 * MANY_TURNS {
                turn(&mut pair);
            }
            assert_eq!(pair[0].test(again), Some(Outcome::sent()), "{}", pair[1].describe());
            assert_eq!(pair[1].test(receiving).map(|outcome| outcome.bytes), Some(room.bytes()));
        }
    }
}

/// Where reading is refused in the end, pieces bring it, or all of it is sent anew.
#[test]
fn what_cannot_be_read_is_waited_for() {
    for later_percent in [0, 100] {
        let weather = Weather {
            refuse_percent: if later_percent == 0 { 100 } else { 60 },
            later_percent,
            ..rather_pieces()
        };
        let (network, mut pair) = pair(Weather { seed: 5, ..weather });
        let sending = send(&mut pair[0], 5);
        let room = Heap::new(BYTES);
        let receiving = receive(&mut pair[1], &room);
        turns(&mut pair[0], 3);
        turns(&mut pair[1], MANY_TURNS);
        for _ in 0..MANY_TURNS {
            turn(&mut pair);
        }
        assert_received(pair[1].test(receiving), &room);
        assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
        assert_eq!(network.exposures(), 0);
    }
}

#[test]
fn who_is_lost_fails_the_other_end_and_nothing_is_read() {
    for (computes, dies) in [(true, 0), (false, 0), (true, 1), (false, 1)] {
        let (network, mut pair) =
            pair(Weather { delay_polls_max: 20, piece_bytes_max: 10, seed: 3, ..rather_pieces() });
        let sending = send(&mut pair[0], 5);
        let room = Heap::new(BYTES);
        let receiving = receive(&mut pair[1], &room);
        for _ in 0..30 {
            pair[1].progress();
            if !computes {
                pair[0].progress();
            }
        }
        network.kill(Peer(dies));
        let (lives, request) = if dies == 0 { (1, receiving) } else { (0, sending) };
        turns(&mut pair[lives], 10 * MANY_TURNS);
        let outcome = pair[lives].test(request).expect("it is over");
        assert!(matches!(outcome.failure.as_deref(), Some(Failure::Lost(_))), "{outcome:?}");
    }
}

/// A peer that is elsewhere whenever its messages are to come in pieces is waited for less and less often, until one comes.
#[test]
fn who_was_elsewhere_is_read_at_once_for_a_while() {
    let (_, mut pair) = pair(rather_pieces());
    let room = Heap::new(BYTES);
    // Whether a message is there without its sender's turns within less than those that a piece is waited for.
    let is_read_at_once = |pair: &mut [Engine<Simulated>; 2]| {
        let receiving = receive(&mut pair[1], &room);
        let sending = send(&mut pair[0], 5);
        turns(&mut pair[1], 10);
        let at_once = pair[1].test(receiving);
        let is_at_once = at_once.is_some();
        let outcome = at_once.or_else(|| {
            turns(&mut pair[1], MANY_TURNS);
            pair[1].test(receiving)
        });
        assert_received(outcome, &room);
        while turn(pair) > 0 {}
        assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
        is_at_once
    };
    let waited: Vec<usize> = (0..40).filter(|_| !is_read_at_once(&mut pair)).collect();
    assert_eq!(waited, [0, 2, 5, 10, 19, 36]);
}

/// Turns that bring pieces of others count as well, and messages of several peers are minded in turn.
#[test]
fn talk_of_others_does_not_hold_up_who_waits() {
    let network = Network::new(4, rather_pieces());
    let mut engines: Vec<Engine<Simulated>> = (0..4)
        .map(|rank| Engine::new(network.endpoint(Peer(rank)), 4, Box::new(EveryoneHere), Settings::default()))
        .collect();
    let to = |from: u32, tag| Envelope { context: 0, source: Rank(from), tag };
    let rooms = [Heap::new(BYTES), Heap::new(BYTES)];
    let mut receiving = Vec::new();
    for from in [0, 2] {
        let pattern = Pattern { context: 0, source: Some(Rank(from)), tag: Some(5) };
        let room = rooms[from as usize / 2].memory();
        let Receiving::Pending(request) = engines[1].receive(pattern, Some(Peer(from)), room) else {
            panic!()
        };
        receiving.push(request);
        let row: &'static [u8] = numbers(BYTES).leak();
        let sending = engines[from as usize].send(Peer(1), to(from, 5), Payload::from(row), Mode::Standard);
        assert!(matches!(sending, Ok(Sending::Pending(_))));
    }
    // Long ones of somebody who is at it come in pieces all the time.
    let row: &'static [u8] = numbers(BYTES).leak();
    let room = Heap::new(BYTES);
    let pattern = Pattern { context: 0, source: Some(Rank(3)), tag: Some(6) };
    let mut talk = None;
    let mut talks = 0;
    for _ in 0..2 * MANY_TURNS {
        if talk.take_if(|request| engines[1].test(*request).is_some()).is_some() || talks == 0 {
            let Receiving::Pending(request) = engines[1].receive(pattern, Some(Peer(3)), room.memory())
            else {
                panic!("nothing was sent")
            };
            talk = Some(request);
            talks += 1;
            let sending = engines[3].send(Peer(1), to(3, 6), Payload::from(row), Mode::Standard);
            assert!(matches!(sending, Ok(Sending::Pending(_))));
        }
        engines[3].progress();
        engines[1].progress();
    }
    assert!(talks > 10, "{talks}");
    for (request, room) in receiving.into_iter().zip(&rooms) {
        assert_received(engines[1].test(request), room);
    }
}

/// One message of a peer comes in pieces at a time: the others are read, and do not wait for it.
#[test]
fn many_at_once_are_read_beside_one_in_pieces() {
    let (_, mut pair) = pair(rather_pieces());
    let rooms: Vec<Heap> = (0..8).map(|_| Heap::new(BYTES)).collect();
    let receiving: Vec<RequestId> = rooms.iter().map(|room| receive(&mut pair[1], room)).collect();
    let sending: Vec<RequestId> = rooms.iter().map(|_| send(&mut pair[0], 5)).collect();
    turns(&mut pair[1], 10);
    let is_here: Vec<bool> = receiving.iter().map(|&request| pair[1].test(request).is_some()).collect();
    assert_eq!(is_here, [false, true, true, true, true, true, true, true]);
    while turn(&mut pair) > 0 {}
    assert_received(pair[1].test(receiving[0]), &rooms[0]);
    assert!(sending.into_iter().all(|request| pair[0].test(request) == Some(Outcome::sent())));
}

/// A second clearance while a piece is half taken would leave that piece behind in the queue after the end of its send.
#[test]
fn a_second_clearance_loses_its_sender_and_one_for_all_of_it_is_in_order() {
    for (again, can_be) in [(2, false), (1, false), (0, true)] {
        for seed in 0..20 {
            let weather = Weather { seed, partly_percent: 100, piece_bytes_max: 1000, ..rather_pieces() };
            let network = Network::new(2, weather);
            let mut honest =
                Engine::new(network.endpoint(Peer(0)), 2, Box::new(EveryoneHere), Settings::default());
            let mut other = network.endpoint(Peer(1));
            let sending = send(&mut honest, 5);
            let mut heard = Headers::default();
            for _ in 0..10 {
                honest.progress();
                other.poll(&mut heard, 8);
            }
            let [3, .., index, generation] = heard.0[0].words else { panic!("{:?}", heard.0) };
            let wanted = (BYTES as u64).to_le_bytes();
            let mut clear = |manner| {
                let header = Header { words: [4, index, generation, manner, 9, 1] };
                let mut posted = other.post(Peer(0), &header, Payload::from(&wanted[..]));
                let mut taken = 0;
                while posted != Posted::Sent {
                    if let Posted::Partly(bytes) = posted {
                        taken += bytes;
                    }
                    posted = other.resume(Peer(0), Payload::from(&wanted[taken..]));
                }
            };
            clear(2);
            turns(&mut honest, 3);
            clear(again);
            turns(&mut honest, 1);
            assert_eq!(
                honest.test(sending).is_none(),
                can_be,
                "whoever asks twice is lost, and nothing of the send is left"
            );
        }
    }
}

/// The headers that come to somebody who is no engine.
#[derive(Default)]
struct Headers(Vec<Header>);

impl Sink for Headers {
    fn message(&mut self, _from: Peer, header: &Header, _payload: Payload<'_>) {
        self.0.push(*header);
    }
    fn arriving(&mut self, _from: Peer, header: &Header, _bytes: usize) -> UserMemory {
        self.0.push(*header);
        UserMemory::EMPTY
    }
    fn landed(&mut self, _from: Peer) {}
    fn lost(&mut self, _peer: Peer, _error: FabricError) {}
}

/// Late pieces are those of what was read, in their order, each once, and none after their end was told.
#[test]
fn late_pieces_that_cannot_be_lose_their_sender() {
    // Offset and length of pieces of a message of 100 bytes that was read as a whole, and whether they can be.
    type Late = (&'static [(u32, usize)], bool);
    let lates: [Late; 6] = [
        (&[(0, 50), (50, 50)], true),
        (&[(0, 100)], true),
        (&[(0, 50), (0, 50)], false),
        (&[(50, 50)], false),
        (&[(0, 101)], false),
        (&[(0, 100), (100, 1)], false),
    ];
    for (late, can_be) in lates {
        let network = Network::new(2, rather_pieces());
        let mut honest =
            Engine::new(network.endpoint(Peer(1)), 2, Box::new(EveryoneHere), Settings::default());
        let mut other = network.endpoint(Peer(0));
        let room = Heap::new(100);
        let receiving = receive(&mut honest, &room);
        let shown = other.expose(Peer(1), Payload::from(&[9u8; 100][..]));
        let offer = [100u64, shown.words[0], shown.words[1]].map(u64::to_le_bytes);
        let request = Header { words: [3, 0, 0, 5, 77, 78] };
        assert_eq!(other.post(Peer(1), &request, Payload::from(offer.as_flattened())), Posted::Sent);
        turns(&mut honest, MANY_TURNS);
        assert_eq!(honest.test(receiving).map(|outcome| (outcome.bytes, outcome.failure)), Some((100, None)));
        assert_eq!(room.payload().to_vec(), [9; 100]);
        let mut heard = Headers::default();
        other.poll(&mut heard, 8);
        let [4, 77, 78, 2, index, generation] = heard.0[0].words else { panic!("{:?}", heard.0) };
        assert_eq!(heard.0[1].words[..3], [6, 77, 78], "the end of what was read is told");
        for &(offset, bytes) in late {
            let piece = Header { words: [12, index, generation, 0, offset, 0] };
            assert_eq!(other.post(Peer(1), &piece, Payload::from(&vec![1; bytes][..])), Posted::Sent);
        }
        turns(&mut honest, 20);
        assert_eq!(room.payload().to_vec(), [9; 100], "what comes late is not wanted");
        let sent = honest.send(Peer(0), envelope(1), Payload::EMPTY, Mode::Standard).unwrap();
        assert_eq!(sent == Sending::Done, can_be, "{late:?}");
    }
}
