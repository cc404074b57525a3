use fabric::Fault;

use super::*;

/// Keeps what was lost.
#[derive(Default)]
pub(super) struct Losses(pub Vec<(Peer, FabricError)>);

impl Sink for Losses {
    fn message(&mut self, _from: Peer, _header: &Header, _payload: Payload<'_>) {}
    fn arriving(&mut self, _from: Peer, _header: &Header, _bytes: usize) -> UserMemory {
        UserMemory::EMPTY
    }
    fn landed(&mut self, _from: Peer) {}
    fn lost(&mut self, peer: Peer, error: FabricError) {
        self.0.push((peer, error));
    }
}

fn segment(process_slots: u32) -> Segment {
    Segment::adopt(Segment::create(process_slots).unwrap(), process_slots).unwrap()
}

fn open(segment: &Segment, process_slot: u32) -> Shm {
    let peers = (0..segment.process_slots()).map(|process_slot| Peer(100 + process_slot)).collect();
    Shm::open(segment.clone(), process_slot, peers, Settings::default()).unwrap()
}

#[test]
fn a_full_memory_is_reported_and_not_a_signal() {
    let segment = segment(2).on_a_full_machine();
    let (mut here, there) = (open(&segment, 0), open(&segment, 1));
    let lane = here.connect(Peer(101), &there.address()).unwrap();
    assert_eq!(here.post(lane, &Header::default(), Payload::EMPTY), Posted::Busy);
    let mut losses = Losses::default();
    assert_eq!(here.poll(&mut losses, 8), 1);
    let [(Peer(101), error)] = &losses.0[..] else { panic!("{:?}", losses.0) };
    assert_eq!(error.fault, Fault::Resources);
    assert!(error.what.contains("4096 bytes of shared memory for messages to process 101"), "{error}");
    assert!(error.what.lines().nth(1).is_some_and(|remedy| remedy.contains("more memory")), "{error}");
    assert_eq!(here.poll(&mut losses, 8), 0, "told once");
}

#[test]
fn only_this_segments_addresses_are_reached() {
    let (ours, theirs) = (segment(3), segment(3));
    let (here, there, foreign) = (open(&ours, 0), open(&ours, 2), open(&theirs, 2));
    assert!(here.reach(Peer(102), &there.address()).is_some());
    assert!(here.reach(Peer(101), &there.address()).is_none(), "another peer's seat");
    assert!(here.reach(Peer(102), &foreign.address()).is_none(), "another segment");
}

#[test]
fn connecting_twice_is_one_lane() {
    let segment = segment(2);
    let (mut here, there) = (open(&segment, 0), open(&segment, 1));
    let lane = here.connect(Peer(101), &there.address()).unwrap();
    assert_eq!(here.connect(Peer(101), &there.address()), Ok(lane));
}

#[test]
fn a_process_slot_beyond_the_peers_is_refused() {
    let segment = segment(2);
    for (process_slot, peers) in [(2, 2), (0, 0), (0, 3)] {
        let peers = (0..peers).map(Peer).collect();
        let refused = Shm::open(segment.clone(), process_slot, peers, Settings::default());
        assert!(matches!(refused, Err(SegmentError::Mismatch { .. })));
    }
}

#[test]
fn nothing_is_reserved_for_the_silent() {
    let segment = segment(16);
    let blocks = |segment: &Segment| rustix::fs::fstat(segment.file()).unwrap().st_blocks;
    let all: Vec<Shm> = (0..16).map(|process_slot| open(&segment, process_slot)).collect();
    let mut lanes = Vec::new();
    let mut all = all.into_iter();
    let mut first = all.next().unwrap();
    let before = blocks(&segment);
    for other in all {
        lanes.push(first.connect(first.peers[other.here as usize], &other.address()).unwrap());
    }
    assert_eq!(blocks(&segment), before, "a lane costs no memory");
    assert_eq!(first.post(lanes[3], &Header::default(), Payload::EMPTY), Posted::Sent);
    assert_eq!(blocks(&segment), before + 8, "a first message costs one page");
}

#[test]
fn any_of_many_rings_is_heard_in_one_poll() {
    let segment = segment(200);
    let mut all: Vec<Shm> = (0..200).map(|process_slot| open(&segment, process_slot)).collect();
    let mut hub = all.remove(0);
    let address = hub.address();
    let lanes: Vec<ShmLane> =
        all.iter_mut().map(|spoke| spoke.connect(Peer(100), &address).unwrap()).collect();
    let post = |spoke: &mut Shm, lane| {
        assert_eq!(spoke.post(lane, &Header::default(), Payload::EMPTY), Posted::Sent);
    };
    for (spoke, lane) in all.iter_mut().zip(&lanes) {
        post(spoke, *lane);
    }
    let mut losses = Losses::default();
    while hub.poll(&mut losses, 64) > 0 {}
    for turn in [198, 0, 77, 76, 150] {
        post(&mut all[turn], lanes[turn]);
        assert_eq!(hub.poll(&mut losses, 64), 1, "an empty poll must mean that nothing is there");
    }
}

#[test]
fn a_knock_and_a_lane_have_one_pair() {
    const SPOKES: usize = 99;
    let segment = segment(SPOKES as u32 + 1);
    let mut all: Vec<Shm> = (0..=SPOKES as u32).map(|process_slot| open(&segment, process_slot)).collect();
    let mut hub = all.remove(0);
    let address = hub.address();
    let knock = |spoke: &mut Shm| {
        let lane = spoke.connect(Peer(100), &address).unwrap();
        assert_eq!(spoke.post(lane, &Header::default(), Payload::EMPTY), Posted::Sent);
    };
    let mut losses = Losses::default();
    for (number, spoke) in all.iter_mut().enumerate() {
        let peer = Peer(101 + number as u32);
        // Some are spoken to first, and some speak first.
        if number % 2 == 0 {
            hub.connect(peer, &spoke.address()).unwrap();
        }
        knock(spoke);
        hub.poll(&mut losses, 64);
        hub.connect(peer, &spoke.address()).unwrap();
    }
    // Each has one pair, whoever spoke first.
    assert_eq!((hub.pairs.len(), hub.heard.len()), (SPOKES, SPOKES));
    // One that is lost leaves the others as they were.
    let error = FabricError { fabric: "shm", fault: Fault::Died, what: "as a test wants it".to_owned() };
    hub.lose(Peer(120), error);
    assert_eq!((hub.pairs.len(), hub.heard.len()), (SPOKES, SPOKES - 1));
    for (process_slot, &place) in hub.by_process_slot.iter().enumerate().skip(1) {
        let pair = &hub.pairs[place as usize];
        assert_eq!(
            (pair.process_slot_number as usize, pair.peer),
            (process_slot, Peer(100 + process_slot as u32))
        );
        assert_eq!((pair.is_heard, hub.heard.contains(&place)), (process_slot != 20, process_slot != 20));
    }
}
