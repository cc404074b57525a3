//! Messages that are made while they go and taken apart while they come.

use std::sync::{Arc, Mutex};

use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Fabric, FabricError, Header, Heap, Payload, Peer, Posted, Sink, UserMemory};
use messaging::{
    Data, Engine, Envelope, EveryoneHere, Failure, Gather, Mode, Outcome, Pattern, Rank, Receiving,
    RequestId, Scatter, Sending, Settings, Target,
};

const ANY: Pattern = Pattern { context: 0, source: None, tag: None };

/// Numbered bytes, and what was asked for of them.
#[derive(Clone)]
struct Numbers {
    bytes: usize,
    asked: Arc<Mutex<Vec<(usize, usize)>>>,
}

fn numbers(bytes: usize) -> Numbers {
    Numbers { bytes, asked: Arc::default() }
}

fn numbered(at: usize) -> u8 {
    (at * 7 + at / 256) as u8
}

impl Gather for Numbers {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn gather(&self, from: usize, into: &mut UserMemory) {
        self.asked.lock().unwrap().push((from, into.bytes()));
        let chunk: Vec<u8> = (from..from + into.bytes()).map(numbered).collect();
        into.write_at(0, Payload::from(&chunk[..]));
    }

    fn kept(&self) -> Box<dyn Gather> {
        Box::new(self.clone())
    }
}

/// Every other byte of a room.
struct EveryOther(UserMemory);

impl Scatter for EveryOther {
    fn bytes(&self) -> usize {
        self.0.bytes() / 2
    }

    fn scatter(&mut self, at: usize, data: Payload<'_>) {
        for (place, byte) in (at..).zip(data.to_vec()) {
            self.0.write_at(2 * place, Payload::from(&[byte][..]));
        }
    }
}

fn every_other(room: &Heap) -> Target {
    Target::Scattered(Box::new(EveryOther(room.memory())))
}

fn pair(weather: Weather) -> (Network, [Engine<Simulated>; 2]) {
    let network = Network::new(2, weather);
    let engine =
        |rank| Engine::new(network.endpoint(Peer(rank)), 2, Box::new(EveryoneHere), Settings::default());
    let engines = [engine(0), engine(1)];
    (network, engines)
}

fn turn(pair: &mut [Engine<Simulated>]) -> usize {
    pair.iter_mut().map(Engine::progress).sum()
}

fn envelope() -> Envelope {
    Envelope { context: 0, source: Rank(0), tag: 5 }
}

fn send(engine: &mut Engine<Simulated>, numbers: &Numbers) -> RequestId {
    match engine.send(Peer(1), envelope(), Data::Apart(numbers), Mode::Standard).unwrap() {
        Sending::Pending(request) => request,
        Sending::Done => panic!("nobody has asked for it"),
    }
}

fn receive(engine: &mut Engine<Simulated>, target: Target) -> RequestId {
    match engine.receive(ANY, Some(Peer(0)), target) {
        Receiving::Pending(request) => request,
        Receiving::Done(outcome) => panic!("{outcome:?}"),
    }
}

#[test]
fn a_long_message_is_made_chunk_by_chunk_and_taken_apart_so() {
    let (_network, mut pair) = pair(Weather { chunk_bytes_max: 1000, ..Weather::fair() });
    let numbers = numbers(10_500);
    let sending = send(&mut pair[0], &numbers);
    while turn(&mut pair) > 0 {}
    assert_eq!(numbers.asked.lock().unwrap()[..], [], "it is made when its receiver is there");
    let room = Heap::new(21_000);
    let receiving = receive(&mut pair[1], every_other(&room));
    while turn(&mut pair) > 0 {}
    let chunks: Vec<(usize, usize)> =
        (0..11).map(|chunk| (chunk * 1000, if chunk < 10 { 1000 } else { 500 })).collect();
    assert_eq!(*numbers.asked.lock().unwrap(), chunks);
    assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
    let outcome = pair[1].test(receiving).unwrap();
    assert_eq!((outcome.bytes, outcome.failure), (10_500, None));
    for (at, byte) in room.payload().to_vec().into_iter().enumerate() {
        assert_eq!(byte, if at % 2 == 0 { numbered(at / 2) } else { 0 }, "byte {at}");
    }
    assert_eq!(Arc::strong_count(&numbers.asked), 1, "what makes a message goes with it");
}

/// Longer than the chunks of a long one, and still nobody is asked first.
#[test]
fn a_short_message_that_is_made_goes_as_one() {
    let (_network, mut pair) =
        pair(Weather { chunk_bytes_max: 1000, eager_bytes_max: 4096, ..Weather::fair() });
    let numbers = numbers(3000);
    let sending = pair[0].send(Peer(1), envelope(), Data::Apart(&numbers), Mode::Standard).unwrap();
    assert_eq!(sending, Sending::Done);
    assert_eq!(*numbers.asked.lock().unwrap(), [(0, 3000)]);
    let room = Heap::new(6000);
    let receiving = receive(&mut pair[1], every_other(&room));
    while turn(&mut pair) > 0 {}
    assert_eq!(pair[1].test(receiving).unwrap().bytes, 3000);
    let got = room.payload().to_vec();
    assert!((0..3000).all(|at| got[2 * at] == numbered(at)));
}

#[test]
fn no_more_is_made_than_there_is_room_for() {
    for (bytes, room_bytes) in [(10_500, 3300), (10_500, 0), (900, 300)] {
        let (_network, mut pair) = pair(Weather { chunk_bytes_max: 1000, ..Weather::fair() });
        let numbers = numbers(bytes);
        let room = Heap::new(2 * room_bytes);
        let receiving = receive(&mut pair[1], every_other(&room));
        let sending = pair[0].send(Peer(1), envelope(), Data::Apart(&numbers), Mode::Standard).unwrap();
        while turn(&mut pair) > 0 {}
        let made: usize = numbers.asked.lock().unwrap().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(made, if bytes > 1000 { room_bytes } else { bytes });
        if let Sending::Pending(sending) = sending {
            assert_eq!(pair[0].test(sending), Some(Outcome::sent()), "the sender is not to blame");
        }
        let outcome = pair[1].test(receiving).unwrap();
        let cut = Failure::Truncated { sent_bytes: bytes, room_bytes };
        assert_eq!((outcome.bytes, outcome.failure), (room_bytes, Some(Box::new(cut))));
        let got = room.payload().to_vec();
        assert!((0..room_bytes).all(|at| got[2 * at] == numbered(at)));
    }
}

#[test]
fn a_row_is_sent_in_chunks_where_it_is_taken_apart_and_read_where_it_is_not() {
    let row: Vec<u8> = (0..9000).map(numbered).collect();
    for scattered in [true, false] {
        let (network, mut pair) = pair(Weather::fair());
        let sending = pair[0].send(Peer(1), envelope(), Payload::from(&*row.clone().leak()), Mode::Standard);
        let Ok(Sending::Pending(sending)) = sending else { panic!() };
        let room = Heap::new(18_000);
        let target = if scattered { every_other(&room) } else { room.memory().into() };
        let receiving = receive(&mut pair[1], target);
        while turn(&mut pair) > 0 {}
        assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
        assert_eq!(pair[1].test(receiving).map(|outcome| outcome.bytes), Some(9000));
        let (step, got) = (if scattered { 2 } else { 1 }, room.payload().to_vec());
        assert!((0..9000).all(|at| got[step * at] == row[at]));
        assert_eq!(network.exposures(), 0, "what was shown is still shown");
    }
}

#[test]
fn who_is_lost_between_two_chunks_fails_the_other_end() {
    for (victim, survivor) in [(0, 1), (1, 0)] {
        let (network, mut pair) =
            pair(Weather { chunk_bytes_max: 10, delay_polls_max: 20, seed: 3, ..Weather::fair() });
        let numbers = numbers(100_000);
        let sending = send(&mut pair[0], &numbers);
        let room = Heap::new(200_000);
        let receiving = receive(&mut pair[1], every_other(&room));
        while numbers.asked.lock().unwrap().len() < 50 {
            turn(&mut pair);
        }
        network.kill(Peer(victim));
        let request = [sending, receiving][survivor];
        let ended = (0..1000).find_map(|_| {
            turn(&mut pair);
            pair[survivor].test(request)
        });
        let outcome = ended.expect("it is over");
        assert!(matches!(outcome.failure.as_deref(), Some(Failure::Lost(_))), "{outcome:?}");
        if survivor == 0 {
            assert_eq!(Arc::strong_count(&numbers.asked), 1);
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

/// An engine that receives to every other byte of a room, and a fabric that has offered it a message of 100
/// bytes and says whatever it likes from then on.
fn one_who_asks(weather: Weather, room: &Heap) -> (Engine<Simulated>, Simulated, RequestId) {
    let network = Network::new(2, weather);
    let mut honest = Engine::new(network.endpoint(Peer(1)), 2, Box::new(EveryoneHere), Settings::default());
    let mut liar = network.endpoint(Peer(0));
    let receiving = receive(&mut honest, every_other(room));
    let offer = [100u64, 0, 0].map(u64::to_le_bytes);
    let request = Header { words: [3, 0, 0, 5, 77, 78] };
    assert_eq!(liar.post(Peer(1), &request, Payload::from(offer.as_flattened())), Posted::Sent);
    (honest, liar, receiving)
}

#[test]
fn a_chunk_that_is_not_the_next_one_loses_its_sender() {
    // Offset and length of chunks of a message of 100 bytes, the last of which is wrong.
    let lies: [&[(u32, usize)]; 6] =
        [&[(1, 50)], &[(0, 101)], &[(0, 0)], &[(0, 50), (0, 50)], &[(0, 50), (51, 1)], &[(0, 100), (100, 1)]];
    for (lie, in_chunks) in lies.into_iter().flat_map(|lie| [(lie, 0), (lie, 100)]) {
        let room = Heap::new(200);
        let weather = Weather { chunks_percent: in_chunks, ..Weather::fair() };
        let (mut honest, mut liar, receiving) = one_who_asks(weather, &room);
        let mut heard = Headers::default();
        for _ in 0..20 {
            honest.progress();
            liar.poll(&mut heard, 8);
        }
        let [4, 77, 78, 1, index, generation] = heard.0[0].words else { panic!("{:?}", heard.0) };
        for &(offset, bytes) in lie {
            let chunk = Header { words: [12, index, generation, 0, offset, 0] };
            let posted = liar.post(Peer(1), &chunk, Payload::from(&vec![1; bytes][..]));
            assert_eq!(posted, Posted::Sent);
        }
        for _ in 0..20 {
            honest.progress();
        }
        let outcome = honest.test(receiving).expect("it is over");
        let whole = lie[0] == (0, 100);
        assert_eq!(outcome.failure.is_none(), whole, "{lie:?}: {outcome:?}");
        let refused = honest.send(Peer(0), envelope(), Payload::EMPTY, Mode::Standard);
        let Ok(Sending::Pending(refused)) = refused else { panic!("{lie:?}: {refused:?}") };
        let failure = honest.test(refused).and_then(|outcome| outcome.failure);
        let is_lost =
            matches!(failure.as_deref(), Some(Failure::Lost(error)) if error.what.contains("process 0"));
        assert!(is_lost, "{lie:?}: {failure:?}");
    }
}

/// Until the receiver has said how it wants a message, it may just be reading it where it stands.
#[test]
fn a_chunk_that_nobody_has_asked_for_loses_its_sender() {
    let mut name = None;
    // The first time the name of the receive is learnt, which is the same in every engine.
    for _ in 0..2 {
        let network = Network::new(2, Weather::fair());
        let mut honest =
            Engine::new(network.endpoint(Peer(1)), 2, Box::new(EveryoneHere), Settings::default());
        let mut liar = network.endpoint(Peer(0));
        let room = Heap::new(200);
        let receiving = receive(&mut honest, every_other(&room));
        let offer = [100u64, 0, 0].map(u64::to_le_bytes);
        let request = Header { words: [3, 0, 0, 5, 77, 78] };
        assert_eq!(liar.post(Peer(1), &request, Payload::from(offer.as_flattened())), Posted::Sent);
        if let Some((index, generation)) = name {
            let chunk = Header { words: [12, index, generation, 0, 0, 0] };
            assert_eq!(liar.post(Peer(1), &chunk, Payload::from(&[1; 100][..])), Posted::Sent);
        }
        let mut heard = Headers::default();
        for _ in 0..20 {
            honest.progress();
            liar.poll(&mut heard, 8);
        }
        let Some(_) = name else {
            let [4, 77, 78, 1, index, generation] = heard.0[0].words else { panic!("{:?}", heard.0) };
            name = Some((index, generation));
            continue;
        };
        let outcome = honest.test(receiving).expect("it is over");
        assert!(matches!(outcome.failure.as_deref(), Some(Failure::Lost(_))), "{outcome:?}");
    }
}
