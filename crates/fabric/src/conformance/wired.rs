//! Two ends of a fabric that are connected, and what the tests do with them.

use std::time::{Duration, Instant};

use super::Pair;
use crate::{Exposed, Fabric, FabricError, Header, Heap, Payload, Peer, Posted, Pulled, Sink, UserMemory};

/// Two ends, connected, with what each has heard.
pub(super) struct Wired<F: Fabric> {
    pub(super) left: F,
    pub(super) right: F,
    pub(super) to_right: F::Lane,
    pub(super) to_left: F::Lane,
    pub(super) left_heard: Heard,
    pub(super) right_heard: Heard,
}

impl<F: Fabric> Wired<F> {
    pub(super) fn open<P: Pair<Fabric = F>>() -> Self {
        let (mut left, mut right) = P::pair();
        let to_right = left.connect(Peer(1), &right.address()).expect("the left connects to the right");
        let to_left = right.connect(Peer(0), &left.address()).expect("the right connects to the left");
        Wired {
            left,
            right,
            to_right,
            to_left,
            left_heard: Heard::new(Peer(1)),
            right_heard: Heard::new(Peer(0)),
        }
    }

    /// From now on either end may lose the other.
    pub(super) fn may_break(&mut self) {
        (self.left_heard.may_lose, self.right_heard.may_lose) = (true, true);
    }

    /// Both ends poll once.
    pub(super) fn turn(&mut self) {
        self.left.poll(&mut self.left_heard, 16);
        self.right.poll(&mut self.right_heard, 16);
    }

    /// The right pulls what the left has exposed; false where it was refused.
    pub(super) fn pull_right(&mut self, exposed: Exposed, offset: usize, room: &Heap, ticket: u64) -> bool {
        match self.right.pull(self.to_left, exposed, offset, &mut room.memory(), ticket) {
            Pulled::Done => return true,
            Pulled::Refused => return false,
            Pulled::Underway => {}
        }
        let watchdog = Watchdog::start("pull");
        loop {
            if let Some((ended, whole)) = self.right_heard.pulled.pop() {
                assert_eq!(ended, ticket, "a pull has ended that nobody had begun");
                return whole;
            }
            self.turn();
            watchdog.check(|| self.state());
        }
    }

    pub(super) fn send_right(&mut self, header: &Header, data: &[u8]) {
        let mut sending = Sending::new(*header, data);
        let watchdog = Watchdog::start("send");
        while !sending.push(&mut self.left, self.to_right) {
            self.turn();
            watchdog.check(|| self.state());
        }
    }

    pub(super) fn take_right(&mut self) -> (Header, Vec<u8>) {
        let watchdog = Watchdog::start("receive");
        loop {
            if let Some(message) = self.right_heard.whole.pop_front() {
                return message;
            }
            self.turn();
            watchdog.check(|| self.state());
        }
    }

    pub(super) fn state(&self) -> String {
        format!(
            "left has {} whole messages and {:?} arriving; right has {} and {:?}",
            self.left_heard.whole.len(),
            self.left_heard.arriving,
            self.right_heard.whole.len(),
            self.right_heard.arriving
        )
    }
}

/// A message on its way into a fabric.
pub(super) struct Sending<'a> {
    pub(super) header: Header,
    pub(super) data: &'a [u8],
    /// Bytes taken so far; `None` before the header is taken.
    pub(super) taken: Option<usize>,
    pub(super) whole: bool,
}

impl<'a> Sending<'a> {
    pub(super) fn new(header: Header, data: &'a [u8]) -> Sending<'a> {
        Sending { header, data, taken: None, whole: false }
    }

    /// Tries once, unless all of it is taken; true when it is.
    pub(super) fn push<F: Fabric>(&mut self, fabric: &mut F, lane: F::Lane) -> bool {
        if self.whole {
            return true;
        }
        let done = self.taken.unwrap_or(0);
        let rest = Payload::from(&self.data[done..]);
        let posted = match self.taken {
            None => fabric.post(lane, &self.header, rest),
            Some(_) => fabric.resume(lane, rest),
        };
        match posted {
            Posted::Sent => self.whole = true,
            Posted::Partly(bytes) => {
                assert!(bytes > 0 || self.taken.is_none(), "a resume that takes nothing is Busy");
                assert!(done + bytes < self.data.len(), "a message that is taken whole is Sent, not Partly");
                self.taken = Some(done + bytes);
            }
            Posted::Busy => {}
        }
        self.whole
    }
}

/// Messages as they came to one end.
pub(super) struct Heard {
    pub(super) from: Peer,
    pub(super) room_bytes_max: usize,
    pub(super) whole: std::collections::VecDeque<(Header, Vec<u8>)>,
    pub(super) arriving: Option<(Header, Heap)>,
    pub(super) pulled: Vec<(u64, bool)>,
    pub(super) done: Vec<(u64, Result<(), FabricError>)>,
    pub(super) lost: u32,
    /// The other end is expected to go.
    pub(super) may_lose: bool,
}

impl Heard {
    pub(super) fn new(from: Peer) -> Heard {
        let (whole, arriving, pulled) = Default::default();
        let room_bytes_max = usize::MAX;
        Heard { from, room_bytes_max, whole, arriving, pulled, done: Vec::new(), lost: 0, may_lose: false }
    }
}

impl Sink for Heard {
    fn message(&mut self, from: Peer, header: &Header, payload: Payload<'_>) {
        assert_eq!(from, self.from);
        assert!(self.arriving.is_none(), "a message came while another from the same peer was arriving");
        self.whole.push_back((*header, payload.to_vec()));
    }

    fn arriving(&mut self, from: Peer, header: &Header, bytes: usize) -> UserMemory {
        assert_eq!(from, self.from);
        assert!(self.arriving.is_none(), "two messages from one peer arrive at the same time");
        let heap = Heap::new(bytes.min(self.room_bytes_max));
        let memory = heap.memory();
        self.arriving = Some((*header, heap));
        memory
    }

    fn landed(&mut self, from: Peer) {
        assert_eq!(from, self.from);
        let (header, heap) = self.arriving.take().expect("something landed that was not arriving");
        self.whole.push_back((header, heap.payload().to_vec()));
    }

    fn pulled(&mut self, from: Peer, ticket: u64, whole: bool) {
        assert_eq!(from, self.from);
        self.pulled.push((ticket, whole));
    }

    fn done(&mut self, peer: Peer, ticket: u64, outcome: Result<(), FabricError>) {
        assert_eq!((peer, self.lost), (self.from, 0), "operations end before their peer is lost");
        self.done.push((ticket, outcome));
    }

    fn lost(&mut self, peer: Peer, error: FabricError) {
        assert!(self.may_lose, "lost {peer:?}: {error}");
        self.lost += 1;
    }
}

/// Fails a test that waits too long, with the state at hand.
pub(super) struct Watchdog {
    waiting_for: &'static str,
    since: Instant,
}

impl Watchdog {
    pub(super) fn start(waiting_for: &'static str) -> Watchdog {
        Watchdog { waiting_for, since: Instant::now() }
    }

    pub(super) fn check(&self, state: impl Fn() -> String) {
        assert!(self.since.elapsed() < WATCHDOG, "{} hangs: {}", self.waiting_for, state());
    }
}

/// How long a test waits: long enough for the slowest machine; a hang is a bug, not a slow run. Miri is
/// thousands of times slower, and gets what others leave of the machine.
pub const WATCHDOG: Duration = Duration::from_secs(if cfg!(miri) { 1200 } else { 60 });

/// So many messages are offered for each that is taken.
pub(super) const FLOOD: u32 = 64;

pub(super) fn numbered(number: u32) -> Header {
    Header { words: [number, 0, 1, 2, 3, !number] }
}

/// A length that Miri gets through, and still beyond what fits into one chunk of any fabric that it can run.
pub(super) fn fewer_for_miri(bytes: usize) -> usize {
    if cfg!(miri) { bytes.min(1000 + bytes / 500) } else { bytes }
}

/// Bytes that differ by position and by seed.
pub(super) fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9).wrapping_add(seed * 7) >> 5) as u8).collect()
}
