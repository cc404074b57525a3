//! One ring over heap memory, against a plain queue, at its edges, and between two threads. Nothing here
//! needs a mapping, so all of it also runs under Miri.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::memory::Mapped;

/// A ring so small that every edge is met often: 4 lines, 8 units of data, chunks of at most 2 units.
const TINY: RingShape =
    RingShape { lines: 4, data_at: 512, data_bytes: 512, chunk_bytes_max: 128, slot_bytes: 0 };
/// A ring where short chunks have room of their own.
const SLOTTED: RingShape = RingShape { slot_bytes: 64, ..TINY };
/// Somewhere inside a segment, so that a forgotten offset shows.
const AT: usize = 192;
/// Miri takes a thousand times as long.
const STEPS_END: usize = if cfg!(miri) { 60 } else { 200 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 400 }))]

    #[test]
    fn any_sequence_of_calls_is_a_queue(
        shape in prop_oneof![Just(TINY), Just(SLOTTED)],
        steps in proptest::collection::vec(step(), 1..STEPS_END),
    ) {
        let mut wire = Wire::new(shape);
        let mut expected = VecDeque::new();
        for step in steps {
            match step {
                RingStep::Send(message) if wire.sending.is_none() => {
                    if wire.begin(&message) {
                        expected.push_back(message);
                    }
                }
                RingStep::Send(_) => wire.go_on(),
                RingStep::Take => {
                    if let Some(message) = wire.take() {
                        prop_assert_eq!(Some(message), expected.pop_front());
                    }
                }
                RingStep::Idle => {
                    wire.consumer.idle(&*wire.memory);
                }
            }
        }
        while let Some(message) = expected.pop_front() {
            prop_assert_eq!(wire.take_going_on(), message);
        }
    }
}

#[derive(Clone, Debug)]
enum RingStep {
    Send(Vec<u8>),
    Take,
    Idle,
}

fn step() -> impl Strategy<Value = RingStep> {
    let bytes = prop_oneof![0..40usize, 60..70usize, 120..140usize, 0..700usize];
    prop_oneof![
        (bytes, any::<u8>()).prop_map(|(bytes, first)| RingStep::Send(pattern(bytes, first))),
        Just(RingStep::Take),
        Just(RingStep::Idle),
    ]
}

#[test]
fn a_full_ring_is_busy_and_tells_the_reader() {
    let mut wire = Wire::new(TINY);
    for number in 0..4 {
        assert!(wire.begin(&[number]));
    }
    assert!(!wire.begin(&[4]));
    assert_eq!(wire.waiting(), 1);
    assert_eq!(wire.take(), Some(vec![0]));
    assert!(wire.begin(&[4]));
    assert_eq!(wire.waiting(), 0);
    for number in 1..5 {
        assert_eq!(wire.take(), Some(vec![number]));
    }
    assert_eq!(wire.take(), None);
}

#[test]
fn without_its_data_area_a_ring_carries_small_messages_only() {
    for shape in [TINY, SLOTTED] {
        let mut wire = Wire::new(shape);
        wire.producer = Producer::new(AT, shape);
        wire.producer.lines_taken();
        assert!(!wire.begin(&[0; 33]));
        assert!(wire.begin(&[7; 32]));
        wire.producer.data_taken();
        assert!(wire.begin(&[8; 33]));
        assert_eq!(wire.take(), Some(vec![7; 32]));
        assert_eq!(wire.take(), Some(vec![8; 33]));
    }
}

#[test]
fn a_short_chunk_stands_in_the_room_of_its_line() {
    let mut wire = Wire::new(SLOTTED);
    let mut stood_at = Vec::new();
    for number in 0..8 {
        assert!(wire.begin(&[number; 50]));
        let Some(Arrival::Whole(_, chunk)) = wire.consumer.front(&*wire.memory, [None; 2]).unwrap() else {
            panic!("message {number} does not come")
        };
        stood_at.push(chunk.offset);
        assert_eq!(wire.take(), Some(vec![number; 50]));
    }
    let behind_the_data = AT + (SLOTTED.data_at + SLOTTED.data_bytes) as usize;
    assert_eq!(
        stood_at,
        [0, 64, 128, 192].repeat(2).iter().map(|at| behind_the_data + at).collect::<Vec<_>>()
    );
    // So the data area is as free as it was, and no reader has to tell of it.
    assert_eq!((wire.producer.units_free, wire.consumer.spot.units_passed), (units(512), 0));
}

/// 64 units of data.
const WIDE: RingShape =
    RingShape { lines: 64, data_at: 8192, data_bytes: 4096, chunk_bytes_max: 128, slot_bytes: 0 };

#[test]
fn pages_are_there_once_some_of_the_area_was_used() {
    let mut wire = Wire::new(WIDE);
    for number in 0..4 {
        assert!(!wire.producer.has_pages() && !wire.consumer.has_pages(), "{number} messages");
        assert!(wire.begin(&[number; 128]));
        assert_eq!(wire.take(), Some(vec![number; 128]));
    }
    assert!(wire.producer.has_pages() && wire.consumer.has_pages());
}

#[test]
fn sequence_numbers_may_wrap() {
    let mut wire = Wire::new(TINY);
    for spot in [&mut wire.producer.spot, &mut wire.consumer.spot] {
        spot.sequence = u32::MAX - 9;
        spot.lines_passed = u32::MAX - 9;
        spot.units_passed = u32::MAX - 9;
    }
    for at in [RING_CONSUMED, RING_CONSUMED + 4] {
        wire.memory.word(AT + at).store(u32::MAX - 9, Ordering::Relaxed);
    }
    for number in 0..40u8 {
        let message = pattern(usize::from(number) * 9, number);
        assert!(wire.begin(&message));
        assert_eq!(wire.take_going_on(), message);
    }
}

#[test]
fn nothing_is_posted_in_the_midst_of_another_message() {
    let mut wire = Wire::new(TINY);
    assert!(wire.begin(&[1; 2000]));
    let header = Header::default();
    assert_eq!(wire.producer.post(&*wire.memory, &header, Payload::EMPTY), Ok(Posted::Busy));
    assert!(!wire.producer.has_line());
    assert_eq!(wire.take_going_on(), vec![1; 2000]);
}

#[test]
fn two_threads_and_every_size() {
    two_threads(TINY);
    two_threads(SLOTTED);
}

fn two_threads(shape: RingShape) {
    let messages = if cfg!(miri) { 60 } else { 20_000 };
    let memory = Arc::new(Mapped::heap(AT + shape.bytes()));
    let theirs = memory.clone();
    let sender = std::thread::spawn(move || {
        let mut producer = producer(shape);
        let watchdog = Instant::now();
        for number in 0..messages {
            send_all(&mut producer, &theirs, &message(number), watchdog);
        }
    });
    let mut wire = Wire::new(shape);
    wire.memory = memory;
    let watchdog = Instant::now();
    for number in 0..messages {
        let got = loop {
            if let Some(got) = wire.take() {
                break got;
            }
            assert!(watchdog.elapsed() < PATIENCE, "message {number} does not come");
            std::thread::yield_now();
        };
        assert!(got == message(number), "message {number} came changed");
    }
    sender.join().unwrap();
}

fn message(number: usize) -> Vec<u8> {
    pattern(number * 37 % 900, number as u8)
}

fn send_all(producer: &mut Producer, memory: &Mapped, message: &[u8], watchdog: Instant) {
    let header = Header { words: [message.len() as u32; 6] };
    let mut at = 0;
    let mut posted = producer.post(memory, &header, Payload::from(message)).unwrap();
    while posted != Posted::Sent {
        if let Posted::Partly(bytes) = posted {
            at += bytes;
        }
        assert!(watchdog.elapsed() < PATIENCE, "the ring stays full after {at} of {} bytes", message.len());
        std::thread::yield_now();
        posted = match at {
            0 => producer.post(memory, &header, Payload::from(message)).unwrap(),
            _ => producer.resume(memory, Payload::from(&message[at..])).unwrap(),
        };
    }
}

/// Both ends of a ring, with the message that is on its way in and the one that is on its way out.
struct Wire {
    memory: Arc<Mapped>,
    producer: Producer,
    consumer: Consumer,
    /// The rest of a message that was taken partly.
    sending: Option<Vec<u8>>,
    landing: Vec<u8>,
}

impl Wire {
    fn new(shape: RingShape) -> Wire {
        Wire {
            memory: Arc::new(Mapped::heap(AT + shape.bytes())),
            producer: producer(shape),
            consumer: Consumer::new(AT, shape),
            sending: None,
            landing: Vec::new(),
        }
    }

    /// Posts a message; true when at least its beginning was taken.
    fn begin(&mut self, message: &[u8]) -> bool {
        let header = Header { words: [message.len() as u32; 6] };
        let payload = Payload::from(message);
        match self.producer.post(&*self.memory, &header, payload).unwrap() {
            Posted::Sent => true,
            Posted::Partly(bytes) => {
                self.sending = Some(message[bytes..].to_vec());
                true
            }
            Posted::Busy => false,
        }
    }

    fn go_on(&mut self) {
        let Some(rest) = self.sending.take() else { return };
        match self.producer.resume(&*self.memory, Payload::from(&rest[..])).unwrap() {
            Posted::Sent => {}
            Posted::Partly(bytes) => self.sending = Some(rest[bytes..].to_vec()),
            Posted::Busy => self.sending = Some(rest),
        }
    }

    /// Takes lines until a message is whole, if there are so many.
    fn take(&mut self) -> Option<Vec<u8>> {
        if self.consumer.look(&*self.memory) == Look::Ready
            && let Some((header, bytes)) = self.consumer.short(&*self.memory)
        {
            assert_eq!(header.words, [bytes as u32; 6]);
            let mut message = Vec::new();
            self.consumer.take_short(&*self.memory, bytes, |payload| message = payload.to_vec());
            return Some(message);
        }
        loop {
            let Some(arrival) = self.consumer.front(&*self.memory, [None; 2]).unwrap() else {
                self.consumer.idle(&*self.memory);
                return None;
            };
            let chunk = match arrival {
                Arrival::Whole(header, chunk) => {
                    assert_eq!(header.words, [chunk.bytes as u32; 6]);
                    chunk
                }
                Arrival::First(header, total, chunk) => {
                    assert_eq!(header.words, [total as u32; 6]);
                    chunk
                }
                Arrival::More(chunk) => chunk,
            };
            let bytes = self.memory.read(chunk.offset, chunk.bytes, |payload| payload.to_vec());
            self.landing.extend(bytes);
            self.consumer.release(&*self.memory, chunk);
            if !self.consumer.midway() {
                return Some(std::mem::take(&mut self.landing));
            }
        }
    }

    /// Takes a message while its sender goes on.
    fn take_going_on(&mut self) -> Vec<u8> {
        for _ in 0..1000 {
            if let Some(message) = self.take() {
                return message;
            }
            self.go_on();
        }
        panic!("a message does not become whole: {} bytes are here", self.landing.len())
    }

    fn waiting(&self) -> u32 {
        self.memory.word(AT + RING_WAITING).load(Ordering::Relaxed)
    }
}

fn producer(shape: RingShape) -> Producer {
    let mut producer = Producer::new(AT, shape);
    producer.lines_taken();
    producer.data_taken();
    producer
}

fn pattern(bytes: usize, first: u8) -> Vec<u8> {
    (0..bytes).map(|at| first.wrapping_add(((at * 31) >> 3) as u8)).collect()
}

// Interpreted, it is one thread of a machine that may have others to do.
const PATIENCE: Duration = Duration::from_secs(if cfg!(miri) { 1200 } else { 60 });
