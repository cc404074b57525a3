//! A peer that writes what it likes into shared memory: the others get an error that names it, never worse,
//! and go on talking to each other.

use fabric::{Fabric, FabricError, Fault, Header, Heap, Payload, Peer, Posted, Sink, UserMemory};
use proptest::prelude::*;

use crate::layout::{
    LINE, LINE_FRONT, LINE_PAYLOAD, LINE_SEQUENCE, PROCESS_SLOT_IDENTITY, PROCESS_SLOT_KNOCKS,
    PROCESS_SLOT_STATE, RING_CONSUMED, RING_LINES,
};
use crate::memory::Memory;
use crate::sync::Ordering;
use crate::{Segment, Settings, Shm, ShmLane};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_from_a_peer_are_survived(deeds in proptest::collection::vec(deed(), 1..60)) {
        let mut node = Node::open();
        for deed in &deeds {
            node.suffer(deed);
        }
        node.honest_peers_still_talk();
    }
}

#[test]
fn a_wild_sequence_number_names_the_peer() {
    let mut node = Node::open();
    node.suffer(&Deed::Knock(1 << 1));
    node.suffer(&Deed::Line { slot: 0, sequence: 77, what: 0, words: [0; 2] });
    node.suffer(&Deed::Poll);
    let (peer, error) = node.heard.lost.pop().expect("the peer is reported");
    assert_eq!((peer, error.fault), (Peer(11), Fault::Protocol));
    assert!(error.what.contains("process 11 (process slot 1 of this node, pid"), "{error}");
    assert!(error.what.contains("a line numbered 0x4d where 0x1 was due"), "{error}");
}

#[test]
fn wild_kinds_and_lengths_are_told_apart() {
    for (what, words, text) in [
        (0x0fff_ffff, [0; 2], "a chunk of 268435455 bytes where at most"),
        (2 << 30, [0; 2], "a line of kind 2 with 0 bytes of a message still due"),
        (3 << 30, [0; 2], "a chunked message out of turn"),
        (1 << 30, [5, 0], "a message of 5 bytes announced in chunks"),
        (1 << 30, [0, 0x8000_0000], "a message of 9223372036854775808 bytes"),
        (1 << 30 | 7, [1 << 20, 0], "a chunk of 7 bytes where at most"),
    ] {
        let mut node = Node::open();
        node.suffer(&Deed::Knock(1 << 1));
        node.suffer(&Deed::Line { slot: 0, sequence: 1, what, words });
        node.suffer(&Deed::Poll);
        let (_, error) = node.heard.lost.pop().unwrap_or_else(|| panic!("{what:#x} was believed"));
        assert!(error.what.contains(text), "{error}");
    }
}

#[test]
fn impossible_progress_ends_the_lane_and_not_the_process() {
    let mut node = Node::open();
    let lane = node.to_hostile;
    assert_eq!(node.victim.post(lane, &Header::default(), Payload::EMPTY), Posted::Sent);
    node.suffer(&Deed::Progress([1000, 0]));
    let mut posted = 0;
    while node.victim.post(lane, &Header::default(), Payload::EMPTY) == Posted::Sent {
        posted += 1;
        assert!(posted < 10_000, "a ring without a reader never fills");
    }
    node.suffer(&Deed::Poll);
    let (peer, error) = node.heard.lost.pop().expect("the peer is reported");
    assert_eq!((peer, error.fault), (Peer(11), Fault::Protocol));
    assert_eq!(node.victim.post(lane, &Header::default(), Payload::EMPTY), Posted::Busy);
    assert!(!node.victim.limits(lane).pull);
    node.honest_peers_still_talk();
}

#[test]
fn a_lost_peer_is_reported_once_and_heard_no_more() {
    let mut node = Node::open();
    node.suffer(&Deed::Knock(1 << 1));
    node.suffer(&Deed::Line { slot: 0, sequence: 5, what: 0, words: [0; 2] });
    for _ in 0..3 {
        node.suffer(&Deed::Poll);
        node.suffer(&Deed::Line { slot: 0, sequence: 1, what: 0, words: [0; 2] });
        node.suffer(&Deed::Knock(1 << 1));
    }
    assert_eq!(node.heard.lost.len(), 1);
    assert_eq!(node.heard.messages, 0);
}

/// Three processes on one node: a victim, a peer that does as it likes, and an honest one. Peers are numbered
/// unlike process slots, so that mixing them up shows.
struct Node {
    segment: Segment,
    victim: Shm,
    _hostile: Shm,
    honest: Shm,
    to_hostile: ShmLane,
    to_victim: ShmLane,
    heard: VictimLog,
}

#[derive(Clone, Debug)]
enum Deed {
    /// A line in the ring to the victim.
    Line {
        slot: usize,
        sequence: u32,
        what: u32,
        words: [u32; 2],
    },
    /// Any bytes anywhere in that ring.
    Bytes {
        at: usize,
        bytes: Vec<u8>,
    },
    /// Progress in the ring from the victim.
    Progress([u32; 2]),
    /// Bits in the victim's inbox.
    Knock(u32),
    /// Any words over its own process slot.
    Seat {
        state: u32,
        identity: [u32; 5],
    },
    /// Now the victim does something: polls, or sends so many bytes.
    Poll,
    Post(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let what = prop_oneof![
        any::<u32>(),
        (0..4u32, 0..5000u32).prop_map(|(kind, bytes)| kind << 30 | bytes),
        Just(1 << 30 | 2048),
    ];
    let words = prop_oneof![any::<[u32; 2]>(), (0..100_000u32).prop_map(|bytes| [bytes, 0])];
    prop_oneof![
        (0..4usize, 0..5u32, what, words).prop_map(|(slot, sequence, what, words)| Deed::Line {
            slot,
            sequence,
            what,
            words
        }),
        (0..12_000usize, proptest::collection::vec(any::<u8>(), 1..64))
            .prop_map(|(at, bytes)| Deed::Bytes { at, bytes }),
        prop_oneof![any::<[u32; 2]>(), [0..9u32, 0..99u32]].prop_map(Deed::Progress),
        any::<u32>().prop_map(Deed::Knock),
        (0..5u32, any::<[u32; 5]>()).prop_map(|(state, identity)| Deed::Seat { state, identity }),
        Just(Deed::Knock(0b10)),
        Just(Deed::Poll),
        Just(Deed::Poll),
        (0..10_000usize).prop_map(Deed::Post),
    ]
}

impl Node {
    fn open() -> Node {
        // The smallest rings there are, so that few deeds reach every corner.
        let process_slots = 2000;
        let segment = Segment::adopt(Segment::create(process_slots).unwrap(), process_slots).unwrap();
        let open = |process_slot| {
            let peers = vec![Peer(10), Peer(11), Peer(12)];
            Shm::open(segment.clone(), process_slot, peers, Settings::default()).unwrap()
        };
        let (mut victim, hostile, mut honest) = (open(0), open(1), open(2));
        let to_hostile = victim.connect(Peer(11), &hostile.address()).unwrap();
        let to_victim = honest.connect(Peer(10), &victim.address()).unwrap();
        Node {
            segment,
            victim,
            _hostile: hostile,
            honest,
            to_hostile,
            to_victim,
            heard: VictimLog::default(),
        }
    }

    fn suffer(&mut self, deed: &Deed) {
        let (memory, layout) = (self.segment.memory(), *self.segment.layout());
        let ring = layout.ring_at(1, 0);
        match deed {
            Deed::Line { slot, sequence, what, words } => {
                let line = ring + RING_LINES + slot * LINE;
                memory.put_words(line + LINE_FRONT, [*what]);
                memory.put_words(line + LINE_PAYLOAD, *words);
                memory.word(line + LINE_SEQUENCE).store(*sequence, Ordering::Release);
            }
            Deed::Bytes { at, bytes } => {
                let at = (*at).min(layout.ring.bytes() - bytes.len());
                memory.put(ring + at, Payload::from(&bytes[..]));
            }
            Deed::Progress(words) => memory.put_words(layout.ring_at(0, 1) + RING_CONSUMED, *words),
            Deed::Knock(bits) => {
                memory
                    .word(layout.process_slot_at(0) + PROCESS_SLOT_KNOCKS)
                    .fetch_or(*bits, Ordering::Release);
                memory
                    .word(layout.process_slot_at(0) + PROCESS_SLOT_KNOCKS + 62 * 4)
                    .fetch_or(*bits, Ordering::Release);
            }
            Deed::Seat { state, identity } => {
                memory.put_words(layout.process_slot_at(1) + PROCESS_SLOT_IDENTITY, *identity);
                memory.word(layout.process_slot_at(1) + PROCESS_SLOT_STATE).store(*state, Ordering::Release);
            }
            Deed::Poll => {
                self.victim.poll(&mut self.heard, 8);
            }
            Deed::Post(bytes) => self.post(*bytes),
        }
    }

    /// The victim begins a message to the hostile peer; what is not taken at once is given up with the lane.
    fn post(&mut self, bytes: usize) {
        let data = vec![1; bytes];
        let _ = self.victim.limits(self.to_hostile);
        if let Posted::Partly(done) =
            self.victim.post(self.to_hostile, &Header::default(), Payload::from(&data[..]))
        {
            // Nothing takes it out, so the rest is never sent, and further posts are answered Busy.
            let _ = self.victim.resume(self.to_hostile, Payload::from(&data[done..]));
        }
    }

    fn honest_peers_still_talk(&mut self) {
        let before = self.heard.honest;
        let data = vec![5; 1000];
        let posted = self.honest.post(self.to_victim, &Header::default(), Payload::from(&data[..]));
        assert_eq!(posted, Posted::Sent);
        for _ in 0..1000 {
            self.victim.poll(&mut self.heard, 8);
            if self.heard.honest > before {
                return;
            }
        }
        panic!("a hostile peer keeps an honest one from being heard");
    }
}

#[derive(Default)]
struct VictimLog {
    messages: usize,
    honest: usize,
    lost: Vec<(Peer, FabricError)>,
    arriving: bool,
}

impl VictimLog {
    fn note(&mut self, from: Peer) {
        assert!(!self.lost.iter().any(|(lost, _)| *lost == from), "{from:?} speaks after it was lost");
        match from {
            Peer(12) => self.honest += 1,
            Peer(11) => self.messages += 1,
            Peer(10) => {}
            other => panic!("{other:?} is not of this node"),
        }
    }
}

impl Sink for VictimLog {
    fn message(&mut self, from: Peer, _header: &Header, payload: Payload<'_>) {
        self.note(from);
        assert!(payload.to_vec().len() <= 2048, "a whole message is larger than any chunk");
    }
    fn arriving(&mut self, from: Peer, _header: &Header, _bytes: usize) -> UserMemory {
        self.note(from);
        assert!(!self.arriving);
        self.arriving = true;
        // Whatever length was announced: the fabric must keep to the room that it is given.
        Heap::new(3000).memory()
    }
    fn landed(&mut self, from: Peer) {
        self.note(from);
        self.arriving = false;
    }
    fn lost(&mut self, peer: Peer, error: FabricError) {
        assert_eq!(error.fault, Fault::Protocol, "{error}");
        self.arriving = false;
        self.lost.push((peer, error));
    }
}
