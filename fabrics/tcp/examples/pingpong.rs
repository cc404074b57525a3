//! How close the fabric comes to a raw socket, on this machine's loopback.
//!
//! Two threads, each on a cpu of its own, bounce 8 bytes and stream larger messages: over the fabric and over
//! a raw spinning socket, in turn within one run, so that the ratio holds whatever else the machine does.
//! `cargo run --release -p weft-tcp --example pingpong`

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fabric::{Fabric, FabricError, Header, Heap, Payload, Peer, Posted, Sink, UserMemory};
use tcp::{Lane, Settings, Tcp};

fn main() {
    println!("best of {ROUNDS} samples, and the median");
    println!("{:>8} {:>16} {:>16} {:>14}  gate", "bytes", "raw", "fabric", "ratio");
    let both = compare(|| raw_bounce(BOUNCES), || fabric_bounce(BOUNCES));
    show(8, "us", both.map(|samples| [samples[0], samples[ROUNDS / 2]]), "<= 1.1");
    let both = compare(|| raw_alone(ALONE), || fabric_alone(ALONE));
    show(
        8,
        "us",
        both.map(|samples| [samples[0], samples[ROUNDS / 2]]),
        "one thread on both ends: cost alone",
    );
    let both = compare(|| raw_bounce(BOUNCES), || fabric_bounce_among(BOUNCES, CROWD));
    show(
        8,
        "us",
        both.map(|samples| [samples[0], samples[ROUNDS / 2]]),
        "<= 1.1, beside 16 idle connections",
    );
    for bytes in [64 << 10, 256 << 10, 1 << 20, 4 << 20] {
        let both = compare(|| raw_stream(bytes), || fabric_stream(bytes));
        show(bytes, "GB/s", both.map(|samples| [samples[ROUNDS - 1], samples[ROUNDS / 2]]), ">= 0.95");
    }
}

/// Samples of both, taken in turn; sorted.
fn compare(mut raw: impl FnMut() -> f64, mut fabric: impl FnMut() -> f64) -> [Vec<f64>; 2] {
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        samples[0].push(raw());
        samples[1].push(fabric());
    }
    samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        samples
    })
}

/// One row: best and median of each, and their ratios.
fn show(bytes: usize, unit: &str, [raw, fabric]: [[f64; 2]; 2], gate: &str) {
    let pair = |pair: [f64; 2]| format!("{:.2} {:.2} {unit}", pair[0], pair[1]);
    let ratio = format!("{:.3} {:.3}", fabric[0] / raw[0], fabric[1] / raw[1]);
    println!("{bytes:>8} {:>16} {:>16} {ratio:>14}  {gate}", pair(raw), pair(fabric));
}

/// Runs both sides, each on its own cpu; the answer is the left's.
fn on_two_cpus<T: Send>(left: impl FnOnce() -> T + Send, right: impl FnOnce() + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            right();
        });
        let left = scope.spawn(move || {
            pin(0);
            left()
        });
        left.join().expect("the left side")
    })
}

fn pin(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    // Where there is only one cpu, the numbers say so themselves.
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}

/// Half a round trip over a raw socket, in microseconds.
fn raw_bounce(count: usize) -> f64 {
    let (mut left, mut right) = raw_pair();
    on_two_cpus(
        move || {
            let began = Instant::now();
            for _ in 0..count {
                left.write_all(&[1; 8]).expect("eight bytes go out");
                spin_read(&mut left, &mut [0; 8]);
            }
            half_trip(began, count)
        },
        move || {
            for _ in 0..count {
                spin_read(&mut right, &mut [0; 8]);
                right.write_all(&[1; 8]).expect("eight bytes go out");
            }
        },
    )
}

/// Half a round trip of one thread that plays both ends: what the calls cost, without the way between two
/// cpus. The best of many short runs, so that it can be read on a busy machine too.
fn raw_alone(count: usize) -> f64 {
    let (mut left, mut right) = raw_pair();
    let trip = |_| {
        let began = Instant::now();
        for _ in 0..ALONE_TRIPS {
            left.write_all(&[1; 8]).expect("eight bytes go out");
            spin_read(&mut right, &mut [0; 8]);
            right.write_all(&[1; 8]).expect("eight bytes go out");
            spin_read(&mut left, &mut [0; 8]);
        }
        half_trip(began, ALONE_TRIPS)
    };
    (0..count).map(trip).fold(f64::MAX, f64::min)
}

/// Half a round trip over the fabric, of one thread that plays both ends: the best of `count` short runs.
fn fabric_alone(count: usize) -> f64 {
    let (mut left, mut right) = fabric_pair(8);
    let trip = |_| {
        (left.heard.whole, right.heard.whole) = (0, 0);
        let began = Instant::now();
        for number in 0..ALONE_TRIPS {
            left.send(&[1; 8]);
            right.wait(number + 1);
            right.send(&[1; 8]);
            left.wait(number + 1);
        }
        half_trip(began, ALONE_TRIPS)
    };
    (0..count).map(trip).fold(f64::MAX, f64::min)
}

fn half_trip(began: Instant, count: usize) -> f64 {
    began.elapsed().as_secs_f64() * 1e6 / count as f64 / 2.0
}

fn raw_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let left = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    let (right, _) = listener.accept().expect("the other end");
    for end in [&left, &right] {
        end.set_nodelay(true).expect("no delay");
        end.set_nonblocking(true).expect("no blocking");
    }
    (left, right)
}

fn spin_read(from: &mut TcpStream, into: &mut [u8]) {
    let mut have = 0;
    while have < into.len() {
        match from.read(&mut into[have..]) {
            Ok(0) => panic!("the other end closed"),
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => panic!("reading failed: {error}"),
        }
    }
}

fn spin_write(to: &mut TcpStream, data: &[u8]) {
    for chunk in data.chunks(32 << 10) {
        let mut sent = 0;
        while sent < chunk.len() {
            match to.write(&chunk[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => panic!("writing failed: {error}"),
            }
        }
    }
}

/// Messages of `bytes` one after another over a raw socket, in GB/s; small calls, which are the fastest.
fn raw_stream(bytes: usize) -> f64 {
    let (mut left, mut right) = raw_pair();
    let count = STREAM_BYTES / bytes;
    on_two_cpus(
        move || {
            let data = vec![1; bytes];
            let began = Instant::now();
            for _ in 0..count {
                spin_write(&mut left, &data);
            }
            spin_read(&mut left, &mut [0; 8]);
            rate(began, count * bytes)
        },
        move || {
            let mut room = vec![0; bytes];
            for _ in 0..count {
                spin_read(&mut right, &mut room);
            }
            right.write_all(&[1; 8]).expect("eight bytes go out");
        },
    )
}

fn rate(began: Instant, bytes: usize) -> f64 {
    bytes as f64 / began.elapsed().as_secs_f64() / 1e9
}

/// Half a round trip over the fabric, in microseconds.
fn fabric_bounce(count: usize) -> f64 {
    let (left, right) = fabric_pair(8);
    bounce(left, right, count)
}

fn bounce(mut left: Side, mut right: Side, count: usize) -> f64 {
    on_two_cpus(
        move || {
            let began = Instant::now();
            for number in 0..count {
                left.send(&[1; 8]);
                left.wait(number + 1);
            }
            half_trip(began, count)
        },
        move || {
            for number in 0..count {
                right.wait(number + 1);
                right.send(&[1; 8]);
            }
        },
    )
}

/// Half a round trip over the fabric, in microseconds, where each side has `others` further connections, over
/// which nothing comes.
fn fabric_bounce_among(count: usize, others: u32) -> f64 {
    let (mut left, mut right) = fabric_pair(8);
    let idle: Vec<Side> =
        (0..others).flat_map(|other| [meet(&mut left, 2 * other), meet(&mut right, 2 * other + 1)]).collect();
    (left.heard.whole, right.heard.whole) = (0, 0);
    let half_trip = bounce(left, right, count);
    drop(idle);
    half_trip
}

/// A connection to one more process, which then does nothing.
fn meet(side: &mut Side, number: u32) -> Side {
    let mut other = Tcp::open(Peer(1000 + number), Settings::default()).expect("a fabric opens");
    let lane = side.tcp.connect(Peer(1000 + number), &other.address()).expect("a lane");
    let mut heard = Counting { room: Heap::new(8), whole: 0 };
    let mut is_sent = false;
    while heard.whole == 0 {
        is_sent = is_sent || side.tcp.post(lane, &Header::default(), Payload::EMPTY) == Posted::Sent;
        side.poll();
        other.poll(&mut heard, 16);
    }
    Side { tcp: other, lane, heard }
}

/// Messages of `bytes` one after another over the fabric, in GB/s.
fn fabric_stream(bytes: usize) -> f64 {
    let (mut left, mut right) = fabric_pair(bytes);
    let count = STREAM_BYTES / bytes;
    let is_done = AtomicBool::new(false);
    let done = &is_done;
    on_two_cpus(
        move || {
            let data = vec![1; bytes];
            let began = Instant::now();
            for _ in 0..count {
                left.send(&data);
            }
            left.wait(1);
            done.store(true, Ordering::Release);
            rate(began, count * bytes)
        },
        move || {
            right.wait(count);
            right.send(&[1; 8]);
            while !done.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        },
    )
}

/// One side of the fabric: messages go to one room, and are counted.
struct Side {
    tcp: Tcp,
    lane: Lane,
    heard: Counting,
}

struct Counting {
    room: Heap,
    whole: usize,
}

impl Sink for Counting {
    fn message(&mut self, _: Peer, _: &Header, payload: Payload<'_>) {
        self.room.memory().write_at(0, payload);
        self.whole += 1;
    }
    fn arriving(&mut self, _: Peer, _: &Header, _: usize) -> UserMemory {
        self.room.memory()
    }
    fn landed(&mut self, _: Peer) {
        self.whole += 1;
    }
    fn lost(&mut self, peer: Peer, error: FabricError) {
        panic!("lost {peer:?}: {error}");
    }
}

fn fabric_pair(bytes: usize) -> (Side, Side) {
    let [mut left, mut right] =
        [0, 1].map(|number| Tcp::open(Peer(number), Settings::default()).expect("a fabric opens"));
    let lanes = [
        left.connect(Peer(1), &right.address()).expect("a lane"),
        right.connect(Peer(0), &left.address()).expect("a lane"),
    ];
    let side = |tcp, lane| Side { tcp, lane, heard: Counting { room: Heap::new(bytes), whole: 0 } };
    let (mut left, mut right) = (side(left, lanes[0]), side(right, lanes[1]));
    while left.tcp.post(left.lane, &Header::default(), Payload::EMPTY) == Posted::Busy {
        left.poll();
        right.poll();
    }
    right.wait(1);
    right.heard.whole = 0;
    (left, right)
}

impl Side {
    fn poll(&mut self) {
        self.tcp.poll(&mut self.heard, 16);
    }

    fn wait(&mut self, count: usize) {
        while self.heard.whole < count {
            self.poll();
        }
    }

    fn send(&mut self, data: &[u8]) {
        let mut taken = None;
        loop {
            let rest = Payload::from(&data[taken.unwrap_or(0)..]);
            let posted = match taken {
                None => self.tcp.post(self.lane, &Header::default(), rest),
                Some(_) => self.tcp.resume(self.lane, rest),
            };
            match posted {
                Posted::Sent => return,
                Posted::Partly(bytes) => taken = Some(taken.unwrap_or(0) + bytes),
                Posted::Busy => self.poll(),
            }
        }
    }
}

/// Many short samples: on a busy machine the best of them was left alone.
const ROUNDS: usize = 41;
const BOUNCES: usize = 1000;
/// Idle connections beside the one that is measured.
const CROWD: u32 = 16;
/// Short runs in one sample of the one thread, and round trips in each.
const ALONE: usize = 100;
const ALONE_TRIPS: usize = 20;
/// Bytes of one stream sample.
const STREAM_BYTES: usize = 64 << 20;
