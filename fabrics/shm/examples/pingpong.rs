//! Measures the shm fabric against the machine it runs on: two threads on two cpus, each with a fabric of its
//! own.
//!
//! ```text
//! cargo run --release -p weft-shm --example pingpong
//! ```
//!
//! Prints half of a round trip for small messages beside the bounce of bare cache lines, which is what two
//! one-way channels cost at best, and the bandwidth of large messages through the ring and by pulling, beside
//! one copy.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use fabric::{Exposed, Fabric, FabricError, Header, Heap, Payload, Peer, Posted, Pulled, Sink, UserMemory};
use shm::{Segment, Settings, Shm, ShmLane};

fn main() {
    println!("half round trip, ns: median of {ROUNDS} rounds (least, most)");
    for lines in [1, 62, 254] {
        show(&format!("{lines} bare lines each way"), rounds(|| bounce(lines)));
    }
    for bytes in [0, 8, 32, 33, 64, 256, 1024, 4096, 8192, 16 << 10] {
        show(&format!("{bytes} B"), rounds(|| exchange(bytes, 200_000 / (1 + bytes / 512))));
    }
    println!("time of one message one way, us, and GB/s");
    for bytes in [64 << 10, 256 << 10, 1 << 20, 4 << 20] {
        let (one_copy, ring, pull) = (
            rounds(|| copy(bytes)),
            rounds(|| exchange(bytes, (64 << 20) / bytes)),
            rounds(|| pulled(bytes, (64 << 20) / bytes)),
        );
        show_rate(&format!("{} KiB, one copy", bytes >> 10), bytes, one_copy);
        show_rate(&format!("{} KiB, ring", bytes >> 10), bytes, ring);
        show_rate(&format!("{} KiB, pull", bytes >> 10), bytes, pull);
    }
    println!("8 B one way, ns a message");
    show("8 B stream", rounds(|| stream(8, 400_000)));
    show("1 KiB stream", rounds(|| stream(1024, 100_000)));
}

/// A cache line with nothing but a counter.
#[repr(align(64))]
struct Line(AtomicU32);

/// Counters on one line each way, or walking round many, as messages in a ring do.
fn bounce(lines: usize) -> f64 {
    let ring = || (0..lines).map(|_| Line(AtomicU32::new(0))).collect::<Vec<_>>();
    let (forth, back) = (ring(), ring());
    let turns = 200_000;
    let await_turn = |ring: &[Line], turn| {
        while ring[turn as usize % lines].0.load(Ordering::Acquire) != turn {
            std::hint::spin_loop();
        }
    };
    let take_turn = |ring: &[Line], turn| ring[turn as usize % lines].0.store(turn, Ordering::Release);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            for turn in 1..=turns {
                await_turn(&forth, turn);
                take_turn(&back, turn);
            }
        });
        pin(0);
        let mut turn = 0;
        quiet(turns as usize, || {
            turn += 1;
            take_turn(&forth, turn);
            await_turn(&back, turn);
        }) / 2.0
    })
}

/// Ping-pong of messages of `bytes` bytes through post and poll.
fn exchange(bytes: usize, turns: usize) -> f64 {
    both(
        |end| {
            for _ in 0..turns {
                end.receive();
                end.send(bytes);
            }
        },
        |end| {
            quiet(turns, || {
                end.send(bytes);
                end.receive();
            }) / 2.0
        },
        bytes,
    )
}

/// Ping-pong where the receiver pulls: a description goes one way, a word that it is done the other.
fn pulled(bytes: usize, turns: usize) -> f64 {
    both(
        |end| {
            for _ in 0..turns {
                end.receive_exposed();
                end.send(0);
            }
        },
        |end| {
            quiet(turns, || {
                end.send_exposed();
                end.receive();
            })
        },
        bytes,
    )
}

/// Messages one way, as fast as they go.
fn stream(bytes: usize, messages: usize) -> f64 {
    both(
        |end| {
            for _ in 0..messages {
                end.receive();
            }
            end.send(0);
        },
        |end| {
            let start = Instant::now();
            for _ in 0..messages {
                end.send(bytes);
            }
            end.receive();
            start.elapsed().as_nanos() as f64 / messages as f64
        },
        bytes,
    )
}

/// One copy from memory to memory on one cpu.
fn copy(bytes: usize) -> f64 {
    pin(0);
    let (from, to) = (vec![1u8; bytes], Heap::new(bytes));
    let turns = (64 << 20) / bytes;
    let start = Instant::now();
    for _ in 0..turns {
        to.memory().write_at(0, std::hint::black_box(Payload::from(&from[..])));
    }
    start.elapsed().as_nanos() as f64 / turns as f64
}

/// One end of the wire, with the buffers it sends from and receives into.
struct End {
    shm: Shm,
    lane: ShmLane,
    outbox: Heap,
    heard: Heard,
}

struct Heard {
    messages: usize,
    inbox: Heap,
    room: UserMemory,
    exposed: Exposed,
}

impl End {
    fn open(segment: &Segment, process_slot: u32, bytes: usize) -> End {
        let peers = vec![Peer(0), Peer(1)];
        let mut shm =
            Shm::open(segment.clone(), process_slot, peers, Settings::default()).expect("the seat is free");
        // The address of the other end is ours, but for the seat at its end.
        let other = 1 - process_slot;
        let mut address = shm.address();
        let at = address.len() - 4;
        address[at..].copy_from_slice(&other.to_le_bytes());
        let lane = shm.connect(Peer(other), &address).expect("the pair is on one node");
        let (outbox, inbox) = (Heap::new(bytes), Heap::new(bytes));
        outbox.memory().write_at(0, Payload::from(&vec![3u8; bytes][..]));
        inbox.memory().write_at(0, Payload::from(&vec![4u8; bytes][..]));
        End {
            shm,
            lane,
            outbox,
            heard: Heard { messages: 0, room: inbox.memory(), inbox, exposed: Exposed::default() },
        }
    }

    fn send(&mut self, bytes: usize) {
        let payload = self.outbox.payload().part(0, bytes);
        let mut at = 0;
        let mut posted = self.shm.post(self.lane, &Header::default(), payload);
        loop {
            match posted {
                Posted::Sent => return,
                Posted::Partly(more) => at += more,
                Posted::Busy => std::hint::spin_loop(),
            }
            posted = match at {
                0 => self.shm.post(self.lane, &Header::default(), payload),
                _ => self.shm.resume(self.lane, payload.after(at)),
            };
        }
    }

    fn receive(&mut self) {
        while self.heard.messages == 0 {
            if self.shm.poll(&mut self.heard, 16) == 0 {
                std::hint::spin_loop();
            }
        }
        self.heard.messages -= 1;
    }

    fn send_exposed(&mut self) {
        let [start, bytes] = self.shm.register_memory(self.lane, self.outbox.payload()).words;
        let words = [start as u32, (start >> 32) as u32, bytes as u32, 0, 0, 1];
        let _ = self.shm.post(self.lane, &Header { words }, Payload::EMPTY);
    }

    fn receive_exposed(&mut self) {
        self.receive();
        let done = self.shm.pull(self.lane, self.heard.exposed, 0, &mut self.heard.inbox.memory(), 0);
        assert_eq!(done, Pulled::Done, "this machine allows no pull");
    }
}

impl Sink for Heard {
    fn message(&mut self, _from: Peer, header: &Header, payload: Payload<'_>) {
        self.room.write_at(0, payload);
        let [low, high, bytes, ..] = header.words;
        self.exposed = Exposed { words: [u64::from(low) | u64::from(high) << 32, bytes.into()] };
        self.messages += 1;
    }
    fn arriving(&mut self, _from: Peer, _header: &Header, _bytes: usize) -> UserMemory {
        self.inbox.memory()
    }
    fn landed(&mut self, _from: Peer) {
        self.messages += 1;
    }
    fn lost(&mut self, _peer: Peer, error: FabricError) {
        panic!("{error}");
    }
}

/// Runs both ends, each on a cpu of its own; the answer is the left one's.
fn both(right: impl FnOnce(&mut End) + Send, left: impl FnOnce(&mut End) -> f64, bytes: usize) -> f64 {
    let segment = Segment::adopt(Segment::create(2).expect("a segment is made"), 2).expect("and adopted");
    let mut ends = [0, 1].map(|process_slot| End::open(&segment, process_slot, bytes));
    let [left_end, right_end] = &mut ends;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            right(right_end);
        });
        pin(0);
        left(left_end)
    })
}

fn rounds(mut round: impl FnMut() -> f64) -> Vec<f64> {
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Nanoseconds of one of `turns` turns: the lower quartile of blocks of them, since other work on the machine
/// disturbs some blocks and not others.
fn quiet(turns: usize, mut turn: impl FnMut()) -> f64 {
    let block = (turns / 200).max(1);
    let mut times: Vec<f64> = (0..turns / block)
        .map(|_| {
            let start = Instant::now();
            (0..block).for_each(|_| turn());
            start.elapsed().as_nanos() as f64 / block as f64
        })
        .collect();
    // What is left of an uneven division.
    (0..turns % block).for_each(|_| turn());
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

fn show(what: &str, times: Vec<f64>) {
    println!("{what:>24} {:9.1}  ({:.1}, {:.1})", times[times.len() / 2], times[0], times[times.len() - 1]);
}

fn show_rate(what: &str, bytes: usize, times: Vec<f64>) {
    let median = times[times.len() / 2];
    println!("{what:>24} {:9.1} us {:6.1} GB/s", median / 1000.0, bytes as f64 / median);
}

fn pin(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    // Where there is only one cpu the figures are poor, and the program still runs.
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}

const ROUNDS: usize = 7;
