//! An end of the fabric for tests: queues what is to be sent, keeps what has come, and waits with a watchdog.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use fabric::{Bell, Fabric, FabricError, Header, Heap, Payload, Peer, Posted, Sink, UserMemory};
use shm::{Segment, Settings, Shm, ShmLane};

/// One process's end, with lanes to all others of its node.
pub struct End {
    pub shm: Shm,
    pub process_slot: u32,
    pub lanes: Vec<ShmLane>,
    outbox: Vec<VecDeque<Sending>>,
    pub heard: Heard,
}

struct Sending {
    header: Header,
    data: Vec<u8>,
    /// `None` until the header is taken.
    taken: Option<usize>,
}

/// What has come, by peer, in order.
#[derive(Default)]
pub struct Heard {
    pub whole: HashMap<u32, VecDeque<(Header, Vec<u8>)>>,
    pub arriving: HashMap<u32, (Header, Heap)>,
}

impl End {
    /// Takes a seat and makes lanes to all.
    pub fn open(segment: Segment, process_slot: u32, settings: Settings) -> End {
        let process_slots = segment.process_slots();
        let peers = (0..process_slots).map(Peer).collect();
        let mut shm =
            Shm::open(segment, process_slot, peers, settings).unwrap_or_else(|error| panic!("{error}"));
        let lanes = (0..process_slots)
            .map(|other| {
                let address = address_of(&shm, other);
                shm.connect(Peer(other), &address).unwrap_or_else(|error| panic!("{error}"))
            })
            .collect();
        let outbox = (0..process_slots).map(|_| VecDeque::new()).collect();
        End { shm, process_slot, lanes, outbox, heard: Heard::default() }
    }

    /// Queues a message.
    pub fn send(&mut self, to: u32, header: Header, data: Vec<u8>) {
        self.outbox[to as usize].push_back(Sending { header, data, taken: None });
    }

    /// Whether all that was queued is sent.
    pub fn sent(&self) -> bool {
        self.outbox.iter().all(VecDeque::is_empty)
    }

    /// Sends and receives once; the number of things that happened.
    pub fn turn(&mut self) -> usize {
        let sent: usize = (0..self.outbox.len()).map(|to| self.push(to)).sum();
        sent + self.shm.poll(&mut self.heard, 16)
    }

    /// Turns until there is an answer; sleeps in between where nothing happens.
    pub fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut End) -> Option<T>) -> T {
        let bell = self.shm.bell();
        let since = Instant::now();
        loop {
            if let Some(answer) = done(self) {
                return answer;
            }
            if self.turn() > 0 {
                continue;
            }
            let armed = bell.arm();
            let late = self.turn();
            if late == 0 {
                bell.sleep(armed, PATIENCE);
            }
            bell.disarm();
            assert!(since.elapsed() < PATIENCE, "seat {}: {what} hangs; {}", self.process_slot, self.state());
        }
    }

    /// The next message from a peer.
    pub fn receive(&mut self, from: u32) -> (Header, Vec<u8>) {
        self.until("a receive", |end| end.heard.whole.get_mut(&from)?.pop_front())
    }

    /// Sends what is queued.
    pub fn drain(&mut self) {
        self.until("a send", |end| end.sent().then_some(()));
    }

    pub fn state(&self) -> String {
        let queued: Vec<usize> = self.outbox.iter().map(VecDeque::len).collect();
        let came: Vec<(&u32, usize)> = self.heard.whole.iter().map(|(from, all)| (from, all.len())).collect();
        format!("queued {queued:?}, came {came:?}, arriving from {:?}", self.heard.arriving.keys())
    }

    fn push(&mut self, to: usize) -> usize {
        let Some(sending) = self.outbox[to].front_mut() else { return 0 };
        let rest = Payload::from(&sending.data[sending.taken.unwrap_or(0)..]);
        let posted = match sending.taken {
            None => self.shm.post(self.lanes[to], &sending.header, rest),
            Some(_) => self.shm.resume(self.lanes[to], rest),
        };
        match posted {
            Posted::Sent => drop(self.outbox[to].pop_front()),
            Posted::Partly(bytes) => sending.taken = Some(sending.taken.unwrap_or(0) + bytes),
            Posted::Busy => return 0,
        }
        1
    }
}

impl Sink for Heard {
    fn message(&mut self, from: Peer, header: &Header, payload: Payload<'_>) {
        assert!(!self.arriving.contains_key(&from.0), "a message in the midst of another");
        self.whole.entry(from.0).or_default().push_back((*header, payload.to_vec()));
    }

    fn arriving(&mut self, from: Peer, header: &Header, bytes: usize) -> UserMemory {
        let heap = Heap::new(bytes);
        let memory = heap.memory();
        assert!(self.arriving.insert(from.0, (*header, heap)).is_none(), "two messages arrive at once");
        memory
    }

    fn landed(&mut self, from: Peer) {
        let (header, heap) = self.arriving.remove(&from.0).expect("something landed that was not arriving");
        self.whole.entry(from.0).or_default().push_back((header, heap.payload().to_vec()));
    }

    fn lost(&mut self, peer: Peer, error: FabricError) {
        panic!("lost {peer:?}: {error}");
    }
}

/// The address of another seat of the same segment: one's own, but for the seat at its end.
pub fn address_of(shm: &Shm, process_slot: u32) -> Vec<u8> {
    let mut address = shm.address();
    let at = address.len() - 4;
    address[at..].copy_from_slice(&process_slot.to_le_bytes());
    address
}

/// Bytes that differ by position and by seed.
pub fn pattern(bytes: usize, seed: u32) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(0x9e37_79b9).wrapping_add(seed * 7) >> 11) as u8).collect()
}

/// A hang is a bug, however slow the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
