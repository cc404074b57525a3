//! The lock-free parts in every interleaving that the memory model allows, on memory that sees data races.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --lib loom
//! ```

mod collective_segments;
mod single_slots;

use fabric::{Header, Payload, Posted};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::cooperative_copy::{CooperativeCopy, End};
use crate::layout::{LINE, PROCESS_SLOT_KNOCKS, RING_CURSOR, RING_LINES, RingShape, WAITING};
use crate::memory::{Lines, Memory};
use crate::process_slot::ProcessSlot;
use crate::ring::{Arrival, Consumer, Look, Producer};
use crate::sync::{Ordering, Word};

/// Two lines, so that three messages go round; chunks of a unit, four units of data.
const RING: RingShape =
    RingShape { lines: 2, data_at: 256, data_bytes: 256, chunk_bytes_max: 64, slot_bytes: 0 };
/// The least with chunked eager messages.
const CHUNKED_MESSAGES: RingShape =
    RingShape { lines: 4, data_at: 384, data_bytes: 512, chunk_bytes_max: 64, slot_bytes: 0 };
/// Lines enough and two units of data, so that three payloads go round.
const NARROW: RingShape =
    RingShape { lines: 4, data_at: 384, data_bytes: 128, chunk_bytes_max: 64, slot_bytes: 0 };

/// Two lines that have room of their own, so that the third payload stands where the first one did.
const SLOTTED: RingShape = RingShape { slot_bytes: 64, ..RING };

#[test]
fn messages_in_lines_come_in_order_round_a_full_ring() {
    model(|| {
        let memory = Lines::shared(RING_LINES + 2 * LINE);
        let theirs = memory.clone();
        let sender = thread::spawn(move || {
            let mut producer = producer(RING);
            for number in 1..=3u8 {
                post(&mut producer, &theirs, &[number; 5]);
            }
        });
        let mut consumer = Consumer::new(0, RING);
        for number in 1..=3u8 {
            assert_eq!(receive(&mut consumer, &memory), [number; 5]);
        }
        sender.join().unwrap();
    });
}

#[test]
fn payload_in_the_data_area_is_whole_and_not_overwritten() {
    payloads_are_whole(NARROW);
}

#[test]
fn payload_in_the_room_of_a_line_is_whole_and_not_overwritten() {
    payloads_are_whole(SLOTTED);
}

fn payloads_are_whole(shape: RingShape) {
    model(move || {
        let room = shape.data_bytes + shape.lines * u32::from(shape.slot_bytes);
        let memory = Lines::shared((shape.data_at + room) as usize);
        let theirs = memory.clone();
        let sender = thread::spawn(move || {
            let mut producer = producer(shape);
            post(&mut producer, &theirs, &[1; 40]);
            post(&mut producer, &theirs, &[2; 50]);
            post(&mut producer, &theirs, &[3; 60]);
        });
        let mut consumer = Consumer::new(0, shape);
        for (number, bytes) in [(1, 40), (2, 50), (3, 60)] {
            assert_eq!(receive(&mut consumer, &memory), vec![number; bytes]);
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_message_in_chunks_comes_whole() {
    model(|| {
        let memory = Lines::shared(RING.bytes());
        let theirs = memory.clone();
        let sender = thread::spawn(move || post(&mut producer(RING), &theirs, &[7; 150]));
        let mut consumer = Consumer::new(0, RING);
        assert_eq!(receive(&mut consumer, &memory), vec![7; 150]);
        sender.join().unwrap();
    });
}

#[test]
fn a_knock_makes_the_ring_and_its_messages_known() {
    model(|| {
        let memory = Lines::shared(PROCESS_SLOT_KNOCKS + LINE + 2 * RING.bytes());
        let senders: Vec<_> = (0..2).map(|from| spawn_knocking(from, &memory)).collect();
        let mut consumers: Vec<Consumer> = Vec::new();
        let mut heard = Vec::new();
        while heard.len() < 2 {
            receiver()
                .answer_knocks(&*memory, 1, |from| consumers.push(Consumer::new(ring_from(from), RING)));
            for consumer in &mut consumers {
                heard.extend(try_receive(consumer, &memory));
            }
            thread::yield_now();
        }
        assert_ne!(heard[0], heard[1]);
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

/// A sender that dies at any point before, between or after its steps, and one that lives.
#[test]
fn a_sender_that_dies_leaves_no_wedge() {
    for steps in 0..=2 {
        model(move || {
            let memory = Lines::shared(PROCESS_SLOT_KNOCKS + LINE + 2 * RING.bytes());
            let theirs = memory.clone();
            let dying = thread::spawn(move || {
                if steps > 0 {
                    receiver().knock(&*theirs, 0);
                }
                if steps > 1 {
                    // The payload, but never the line's number.
                    theirs.put(ring_from(0) + RING_LINES + 32, Payload::from(&[9u8; 5][..]));
                }
            });
            let living = spawn_knocking(1, &memory);
            let mut consumers: Vec<Consumer> = Vec::new();
            let mut heard = None;
            while heard.is_none() {
                receiver()
                    .answer_knocks(&*memory, 1, |from| consumers.push(Consumer::new(ring_from(from), RING)));
                heard = consumers.iter_mut().find_map(|consumer| try_receive(consumer, &memory));
                thread::yield_now();
            }
            assert_eq!(heard.as_deref(), Some(&[1u8; 5][..]));
            dying.join().unwrap();
            living.join().unwrap();
        });
    }
}

#[test]
fn nobody_sleeps_through_a_message() {
    model(|| {
        let memory = Lines::shared(PROCESS_SLOT_KNOCKS + LINE + 2 * RING.bytes());
        let futex = Arc::new(Futex::default());
        let (theirs, waker) = (memory.clone(), futex.clone());
        let sender = thread::spawn(move || {
            let mut producer = Producer::new(ring_from(0), RING);
            producer.lines_taken();
            post(&mut producer, &theirs, &[3; 5]);
            if receiver().must_wake(&*theirs) {
                waker.wake();
            }
        });
        let mut consumer = Consumer::new(ring_from(0), RING);
        let got = loop {
            if let Some(got) = try_receive(&mut consumer, &memory) {
                break got;
            }
            let armed = receiver().arm(&*memory);
            let late = try_receive(&mut consumer, &memory);
            if late.is_none() {
                futex.wait(receiver().bell(&*memory), armed);
            }
            receiver().disarm(&*memory);
            if let Some(got) = late {
                break got;
            }
        };
        assert_eq!(got, [3; 5]);
        sender.join().unwrap();
    });
}

#[test]
fn nobody_sleeps_through_room_in_a_full_ring() {
    model(|| {
        let memory = Lines::shared(PROCESS_SLOT_KNOCKS + LINE + 2 * RING.bytes());
        let futex = Arc::new(Futex::default());
        let (theirs, waker) = (memory.clone(), futex.clone());
        let mut producer = Producer::new(ring_from(0), RING);
        producer.lines_taken();
        for number in 0..2 {
            post(&mut producer, &memory, &[number; 5]);
        }
        let reader = thread::spawn(move || {
            let mut consumer = Consumer::new(ring_from(0), RING);
            let Ok(Some(Arrival::Whole(_, chunk))) = consumer.front(&*theirs, [None; 2]) else {
                panic!("nothing there")
            };
            let waits = (consumer.release(&*theirs, chunk) | consumer.idle(&*theirs)) & WAITING != 0;
            if waits && receiver().must_wake(&*theirs) {
                waker.wake();
            }
        });
        // Here the process slot is the sender's own: it sleeps until there is room.
        while !try_post(&mut producer, &memory) {
            let armed = receiver().arm(&*memory);
            let late = try_post(&mut producer, &memory);
            if !late {
                futex.wait(receiver().bell(&*memory), armed);
            }
            receiver().disarm(&*memory);
            if late {
                break;
            }
        }
        reader.join().unwrap();
    });
}

/// All interleavings with at most three preemptions: enough for every known bug of such queues, and done
/// soon.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn receiver() -> ProcessSlot {
    ProcessSlot::at(0)
}

fn ring_from(from: u32) -> usize {
    PROCESS_SLOT_KNOCKS + LINE + from as usize * RING.bytes()
}

fn spawn_knocking(from: u32, memory: &Arc<Lines>) -> thread::JoinHandle<()> {
    let theirs = memory.clone();
    thread::spawn(move || {
        let mut producer = Producer::new(ring_from(from), RING);
        producer.lines_taken();
        receiver().knock(&*theirs, from);
        post(&mut producer, &theirs, &[from as u8; 5]);
    })
}

fn producer(shape: RingShape) -> Producer {
    let mut producer = Producer::new(0, shape);
    producer.lines_taken();
    producer.data_taken();
    producer
}

fn try_post(producer: &mut Producer, memory: &Arc<Lines>) -> bool {
    let payload = [9u8; 5];
    producer.post(&**memory, &Header::default(), Payload::from(&payload[..])) == Ok(Posted::Sent)
}

fn post(producer: &mut Producer, memory: &Arc<Lines>, message: &[u8]) {
    let mut at = 0;
    let mut begun = false;
    loop {
        let rest = Payload::from(&message[at..]);
        let posted = match begun {
            false => producer.post(&**memory, &Header::default(), rest),
            true => producer.resume(&**memory, rest),
        };
        match posted.unwrap() {
            Posted::Sent => return,
            Posted::Partly(bytes) => (at, begun) = (at + bytes, true),
            Posted::Busy => {}
        }
        thread::yield_now();
    }
}

fn receive(consumer: &mut Consumer, memory: &Arc<Lines>) -> Vec<u8> {
    let mut message = Vec::new();
    loop {
        match try_receive(consumer, memory) {
            Some(bytes) => message.extend(bytes),
            None => thread::yield_now(),
        }
        if !message.is_empty() && !consumer.midway() {
            return message;
        }
    }
}

/// One line, if there is one.
fn try_receive(consumer: &mut Consumer, memory: &Arc<Lines>) -> Option<Vec<u8>> {
    if consumer.look(&**memory) == Look::Ready
        && let Some((_, bytes)) = consumer.short(&**memory)
    {
        let mut taken = Vec::new();
        consumer.take_short(&**memory, bytes, |payload| taken = payload.to_vec());
        return Some(taken);
    }
    let Some(arrival) = consumer.front(&**memory, [None; 2]).unwrap() else {
        consumer.idle(&**memory);
        return None;
    };
    let (Arrival::Whole(_, chunk) | Arrival::First(_, _, chunk) | Arrival::More(chunk)) = arrival;
    let bytes = memory.read(chunk.offset, chunk.bytes, |payload| payload.to_vec());
    consumer.release(&**memory, chunk);
    Some(bytes)
}

/// What a futex does, in terms that loom knows.
#[derive(Default)]
struct Futex {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    fn wait(&self, word: &Word, seen: u32) {
        let mut held = self.lock.lock().unwrap();
        while word.load(Ordering::Relaxed) == seen {
            held = self.woken.wait(held).unwrap();
        }
    }

    fn wake(&self) {
        let _held = self.lock.lock().unwrap();
        self.woken.notify_all();
    }
}

/// Each part of a message that both copy is claimed once, and a stale ticket claims none.
#[test]
fn both_sides_claim_each_part_once() {
    model(|| {
        let memory = Lines::shared(RING_LINES);
        let stale = CooperativeCopy { ring_at: 0, ticket: 1, bytes: 1 << 10 };
        stale.begin(&*memory);
        let theirs = memory.clone();
        let share = CooperativeCopy { ring_at: 0, ticket: 2, bytes: 300 << 10 };
        let sender = thread::spawn(move || {
            let late = stale.claim(&*theirs, End::Back);
            let mut parts = Vec::new();
            while let Some(part) = share.claim(&*theirs, End::Back) {
                parts.push(part.offset);
            }
            (late, parts)
        });
        share.begin(&*memory);
        let mut parts = Vec::new();
        while let Some(part) = share.claim(&*memory, End::Front) {
            parts.push(part.offset);
        }
        let (late, theirs) = sender.join().unwrap();
        // What a stale claim got, it got before the new transfer began.
        assert!(late.is_none_or(|part| part.offset >= 512));
        parts.extend(theirs);
        parts.sort_unstable();
        assert_eq!(
            parts.len(),
            3,
            "{parts:?} {late:?} {:#x}",
            memory.word(RING_CURSOR).load(Ordering::SeqCst)
        );
        parts.dedup();
        assert_eq!(parts.len(), 3, "a part was claimed twice");
    });
}

fn header(word: u32) -> Header {
    Header { words: [word, 0, 0, 0, 0, 0] }
}
