//! Long messages in pieces that may be read, over shm: both ends in one process, whose turns the test makes.

use fabric::{Fabric, FabricError, Heap, Payload, Peer};
use messaging::{
    Directory, Engine, Envelope, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending, Settings,
};
use shm::{Segment, Shm};

const BYTES: usize = shm::Ways::PIECES_BYTES_MAX;
/// More than a receiver waits for a piece.
const MANY_TURNS: usize = 300;
/// Small messages, more than a process takes in a turn.
const TALK: usize = 200;
const LONG: i32 = 5;
const SMALL: i32 = 6;

struct All(Vec<Vec<u8>>);

impl Directory for All {
    fn address(&mut self, peer: Peer) -> Result<Vec<u8>, FabricError> {
        Ok(self.0[peer.0 as usize].clone())
    }
}

/// Two ends that want all that waits in pieces, up to the length that any does. None where a sandbox keeps a process from
/// reading even its own memory that way.
fn pair() -> Option<[Engine<Shm>; 2]> {
    let segment = Segment::adopt(Segment::create(2).unwrap(), 2).unwrap();
    let peers = vec![Peer(0), Peer(1)];
    let ways = shm::Ways { head_start_ns: 1e9, piece_byte_ns: 1.0, read_byte_ns: 0.0 };
    let settings = shm::Settings { ways: Some(ways), ..shm::Settings::default() };
    let open = |seat| Shm::open(segment.clone(), seat, peers.clone(), settings).unwrap();
    let mut ends = [open(0), open(1)];
    let addresses = [ends[0].address(), ends[1].address()].to_vec();
    let lane = ends[1].connect(Peer(0), &addresses[0]).unwrap();
    if !ends[1].limits(lane).pull {
        return None;
    }
    Some(ends.map(|end| Engine::new(end, 2, Box::new(All(addresses.clone())), Settings::default())))
}

fn numbers(seed: usize) -> &'static [u8] {
    (0..BYTES).map(|at| (at * 7 + at / 256 + seed) as u8).collect::<Vec<u8>>().leak()
}

/// Long messages go from rank 0 to rank 1, small ones back.
fn send(engine: &mut Engine<Shm>, tag: i32, bytes: &'static [u8]) -> Option<RequestId> {
    let [from, to] = if tag == LONG { [0, 1] } else { [1, 0] };
    let envelope = Envelope { context: 0, source: Rank(from), tag };
    match engine.send(Peer(to), envelope, Payload::from(bytes), Mode::Standard).unwrap() {
        Sending::Pending(request) => Some(request),
        Sending::Done => None,
    }
}

fn receive(engine: &mut Engine<Shm>, tag: i32, room: &Heap) -> Receiving {
    let from = if tag == LONG { 0 } else { 1 };
    let pattern = Pattern { context: 0, source: Some(Rank(from)), tag: Some(tag) };
    engine.receive(pattern, Some(Peer(from)), room.memory())
}

fn turns(engine: &mut Engine<Shm>, count: usize) {
    for _ in 0..count {
        engine.progress();
    }
}

/// A long message: its receive, which has matched, and its send.
fn begin(pair: &mut [Engine<Shm>; 2], room: &Heap, seed: usize) -> (RequestId, RequestId) {
    let Receiving::Pending(receiving) = receive(&mut pair[1], LONG, room) else { panic!("nothing was sent") };
    let sending = send(&mut pair[0], LONG, numbers(seed)).expect("it waits for its receiver");
    (receiving, sending)
}

/// Both make turns until the message is there.
fn end(pair: &mut [Engine<Shm>; 2], receiving: RequestId, sending: RequestId) -> Outcome {
    for _ in 0..100 * MANY_TURNS {
        pair[0].progress();
        pair[1].progress();
        if pair[0].test(sending) == Some(Outcome::sent()) {
            return pair[1].test(receiving).expect("a sender hears of the end when its receiver has all");
        }
    }
    panic!("it does not come: {}{}", pair[0].describe(), pair[1].describe());
}

/// Pieces are begun while the sender is there, what it does not send is read when it is not, and what comes late is dropped.
#[test]
fn pieces_come_late_or_never_and_the_next_message_is_in_order() {
    let Some(mut pair) = pair() else { return };
    let room = Heap::new(BYTES);
    // Both are there: in pieces, for which the sender is needed.
    let (receiving, sending) = begin(&mut pair, &room, 1);
    turns(&mut pair[1], 10);
    assert_eq!(pair[1].test(receiving), None, "a read would be there by now");
    assert_eq!(end(&mut pair, receiving, sending).bytes, BYTES);
    assert!(room.payload().to_vec() == numbers(1));

    // The sender is elsewhere.
    let (receiving, sending) = begin(&mut pair, &room, 2);
    turns(&mut pair[1], 10);
    assert_eq!(pair[1].test(receiving), None, "pieces are waited for");
    turns(&mut pair[1], MANY_TURNS);
    assert_eq!(pair[1].test(receiving).map(|outcome| (outcome.bytes, outcome.failure)), Some((BYTES, None)));
    assert!(room.payload().to_vec() == numbers(2));
    turns(&mut pair[0], 10);
    assert_eq!(pair[0].test(sending), Some(Outcome::sent()));

    // The one after that is read at once.
    let (receiving, sending) = begin(&mut pair, &room, 3);
    turns(&mut pair[1], 10);
    assert_eq!(pair[1].test(receiving).map(|outcome| (outcome.bytes, outcome.failure)), Some((BYTES, None)));
    turns(&mut pair[0], 10);
    assert_eq!(pair[0].test(sending), Some(Outcome::sent()));

    // The sender is asked for pieces, and hears later that they were read: its pieces are late.
    let (receiving, sending) = begin(&mut pair, &room, 4);
    turns(&mut pair[1], 10);
    assert_eq!(pair[1].test(receiving), None, "pieces are waited for");
    for _ in 0..TALK {
        let _ = send(&mut pair[1], SMALL, &[7; 16]);
    }
    turns(&mut pair[1], MANY_TURNS);
    assert_eq!(pair[1].test(receiving).map(|outcome| (outcome.bytes, outcome.failure)), Some((BYTES, None)));
    assert!(room.payload().to_vec() == numbers(4));
    turns(&mut pair[0], 1);
    assert!(pair[0].describe().contains("are on their way"), "{}", pair[0].describe());
    room.memory().write_at(0, Payload::from(numbers(5)));
    turns(&mut pair[1], 1);
    assert!(room.payload().to_vec() == numbers(5), "what comes late is not wanted");
    for _ in 0..TALK {
        pair[0].progress();
        pair[1].progress();
    }
    assert_eq!(pair[0].test(sending), Some(Outcome::sent()));
    let small = Heap::new(16);
    for _ in 0..TALK {
        let Receiving::Done(outcome) = receive(&mut pair[0], SMALL, &small) else { panic!("all are here") };
        assert_eq!((outcome.bytes, outcome.failure), (16, None));
    }

    for seed in 6..20 {
        let (receiving, sending) = begin(&mut pair, &room, seed);
        let outcome = end(&mut pair, receiving, sending);
        assert_eq!((outcome.bytes, outcome.failure), (BYTES, None));
        assert!(room.payload().to_vec() == numbers(seed));
    }
}
