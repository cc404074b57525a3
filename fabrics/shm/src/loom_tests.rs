//! The lock-free parts in every interleaving that the memory model allows, on memory that sees data races.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --lib loom
//! ```

mod boards;

use fabric::{Header, Payload, Posted};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::layout::{LINE, RING_CURSOR, RING_LINES, RingShape, SEAT_KNOCKS, WAITING};
use crate::mailbox::Mailbox;
use crate::memory::{Lines, Memory};
use crate::ring::{Arrival, Consumer, Look, Producer};
use crate::seat::Seat;
use crate::share::{End, Share};
use crate::sync::{Ordering, Word};

/// Two lines, so that three messages go round; pieces of a unit, four units of data.
const RING: RingShape =
    RingShape { lines: 2, data_at: 256, data_bytes: 256, piece_bytes_max: 64, slot_bytes: 0 };
/// The least with parcels.
const PARCELS: RingShape =
    RingShape { lines: 4, data_at: 384, data_bytes: 512, piece_bytes_max: 64, slot_bytes: 0 };
/// Lines enough and two units of data, so that three payloads go round.
const NARROW: RingShape =
    RingShape { lines: 4, data_at: 384, data_bytes: 128, piece_bytes_max: 64, slot_bytes: 0 };

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
fn a_message_in_pieces_comes_whole() {
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
        let memory = Lines::shared(SEAT_KNOCKS + LINE + 2 * RING.bytes());
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
            let memory = Lines::shared(SEAT_KNOCKS + LINE + 2 * RING.bytes());
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
        let memory = Lines::shared(SEAT_KNOCKS + LINE + 2 * RING.bytes());
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
        let memory = Lines::shared(SEAT_KNOCKS + LINE + 2 * RING.bytes());
        let futex = Arc::new(Futex::default());
        let (theirs, waker) = (memory.clone(), futex.clone());
        let mut producer = Producer::new(ring_from(0), RING);
        producer.lines_taken();
        for number in 0..2 {
            post(&mut producer, &memory, &[number; 5]);
        }
        let reader = thread::spawn(move || {
            let mut consumer = Consumer::new(ring_from(0), RING);
            let Ok(Some(Arrival::Whole(_, piece))) = consumer.front(&*theirs, [None; 2]) else {
                panic!("nothing there")
            };
            let waits = (consumer.release(&*theirs, piece) | consumer.idle(&*theirs)) & WAITING != 0;
            if waits && receiver().must_wake(&*theirs) {
                waker.wake();
            }
        });
        // Here the seat is the sender's own: it sleeps until there is room.
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

/// All interleavings with at most three preemptions: enough for every known bug of such queues, and done soon.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn receiver() -> Seat {
    Seat::at(0)
}

fn ring_from(from: u32) -> usize {
    SEAT_KNOCKS + LINE + from as usize * RING.bytes()
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
    let (Arrival::Whole(_, piece) | Arrival::First(_, _, piece) | Arrival::More(piece)) = arrival;
    let bytes = memory.read(piece.offset, piece.bytes, |payload| payload.to_vec());
    consumer.release(&**memory, piece);
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

/// Messages through the mailbox and the ring of a pair, in the order they were sent: the second goes through the ring,
/// as the turn is the other's, and after its answer the third goes through the mailbox again.
#[test]
fn the_mailbox_and_the_ring_keep_one_order() {
    mailbox_and_ring(next_of_both);
}

/// The same for a receive that looks for itself.
#[test]
fn looks_keep_the_order_of_mailbox_and_ring() {
    mailbox_and_ring(look_at_both);
}

type NextOfPair = fn(&mut Consumer, &mut Mailbox, &Arc<Lines>) -> Option<u8>;

fn mailbox_and_ring(next: NextOfPair) {
    model(move || {
        let memory = Lines::shared(RING.bytes() + 4 * LINE);
        let theirs = memory.clone();
        let at = RING.bytes();
        let first = thread::spawn(move || {
            let (mut producer, mut mailbox) = (producer(RING), Mailbox::new(at, beside(at)));
            mailbox.reserved(64);
            mailbox.accepted();
            mailbox.post(&*theirs, &header(1), Payload::from(&[1u8; 40][..]), producer.lines_passed());
            post(&mut producer, &theirs, &[2; 5]);
            while mailbox.look(&*theirs) != Look::Ready {
                thread::yield_now();
            }
            mailbox.take(&*theirs, |_, payload| Some(assert_eq!(payload.to_vec(), [9; 36]))).unwrap();
            mailbox.post(&*theirs, &header(3), Payload::from(&[3u8; 33][..]), producer.lines_passed());
        });
        let (mut consumer, mut mailbox) = (Consumer::new(0, RING), Mailbox::new(at, beside(at)));
        mailbox.reserved(64);
        mailbox.accept();
        let mut heard = Vec::new();
        while heard.len() < 3 {
            heard.extend(next(&mut consumer, &mut mailbox, &memory));
            if heard.len() == 1 && mailbox.is_ours() {
                mailbox.post(&*memory, &header(9), Payload::from(&[9u8; 36][..]), 0);
            }
            thread::yield_now();
        }
        assert_eq!(heard, [1, 2, 3]);
        first.join().unwrap();
    });
}

/// A parcel of two pieces, a line behind it, and a letter over the parcel's lines, after which the next parcel comes: each is
/// whole, and all are in order.
#[test]
fn parcels_go_in_turn_and_in_order_with_lines_and_letters() {
    model(|| {
        let at = PARCELS.bytes();
        let memory = Lines::shared(at + 4 * LINE);
        let theirs = memory.clone();
        let first = thread::spawn(move || {
            let (mut producer, mut mailbox) = (producer(PARCELS), Mailbox::new(at, beside(at)));
            mailbox.reserved(2 * LINE);
            mailbox.accepted();
            post_parcel(&mut producer, &mut mailbox, &theirs, 1);
            post(&mut producer, &theirs, &[2; 5]);
            while mailbox.look(&*theirs) != Look::Ready {
                thread::yield_now();
            }
            mailbox.take(&*theirs, |_, payload| Some(assert_eq!(payload.to_vec(), [9; 70]))).unwrap();
            post_parcel(&mut producer, &mut mailbox, &theirs, 3);
        });
        let (mut consumer, mut mailbox) = (Consumer::new(0, PARCELS), Mailbox::new(at, beside(at)));
        mailbox.reserved(2 * LINE);
        mailbox.accept();
        let (mut heard, mut coming) = (Vec::new(), Vec::new());
        while heard.len() < 3 {
            let Some(arrival) = consumer.front(&*memory, mailbox.expected_parcels_at()).unwrap() else {
                thread::yield_now();
                continue;
            };
            let (Arrival::Whole(_, piece) | Arrival::First(_, _, piece) | Arrival::More(piece)) = arrival;
            coming.extend(memory.read(piece.offset, piece.bytes, |payload| payload.to_vec()));
            consumer.release(&*memory, piece);
            if let Some(shelf) = consumer.takes_parcel() {
                mailbox.took_parcel(shelf);
            }
            if !consumer.midway() {
                assert!(coming.iter().all(|byte| *byte == coming[0]), "{coming:?}");
                heard.push((coming[0], coming.len()));
                coming.clear();
            }
            if heard.len() == 1 && mailbox.is_ours() {
                mailbox.post(&*memory, &header(9), Payload::from(&[9u8; 70][..]), 0);
            }
        }
        assert_eq!(heard, [(1, 2 * LINE), (2, 5), (3, 2 * LINE)]);
        first.join().unwrap();
    });
}

fn post_parcel(producer: &mut Producer, mailbox: &mut Mailbox, memory: &Arc<Lines>, number: u8) {
    let payload = [number; 2 * LINE];
    while !producer.has_lines_for_parcel(&**memory, payload.len()).unwrap() {
        thread::yield_now();
    }
    let shelf = mailbox.free_shelf().expect("it is our turn at one");
    let place = (shelf, mailbox.parcels_at(shelf));
    producer.post_parcel(&**memory, &header(0), Payload::from(&payload[..]), place);
    mailbox.sent_parcel(shelf);
}

/// Where the models have the shelf beside a mailbox.
fn beside(mailbox_at: usize) -> usize {
    mailbox_at + 4 * LINE
}

/// Two who send parcels at the same time, twice: each has a shelf, and the second time that of the other.
#[test]
fn who_send_parcels_at_once_have_a_shelf_each() {
    model(|| {
        let ring = PARCELS.bytes();
        let memory = Lines::shared(2 * ring + 8 * LINE);
        let theirs = memory.clone();
        let sides = move |first: bool, memory: &Arc<Lines>| {
            let at = 2 * ring;
            let (there, here) = if first { (0, ring) } else { (ring, 0) };
            let mut producer = Producer::new(there, PARCELS);
            producer.lines_taken();
            producer.data_taken();
            let (mut consumer, mut mailbox) = (Consumer::new(here, PARCELS), Mailbox::new(at, beside(at)));
            if first {
                mailbox.offered();
                mailbox.accepted();
            } else {
                mailbox.accept();
            }
            for number in 1..=2 {
                let shelf = mailbox.free_shelf();
                post_parcel(&mut producer, &mut mailbox, memory, number);
                assert_eq!(mailbox.free_shelf(), None);
                take_parcel(&mut consumer, &mut mailbox, memory, number);
                assert!(mailbox.free_shelf().is_some() && mailbox.free_shelf() != shelf);
            }
        };
        let second = thread::spawn(move || sides(false, &theirs));
        sides(true, &memory);
        second.join().unwrap();
    });
}

/// Takes a parcel of two pieces, all bytes of which are this one.
fn take_parcel(consumer: &mut Consumer, mailbox: &mut Mailbox, memory: &Arc<Lines>, number: u8) {
    loop {
        let Some(arrival) = consumer.front(&**memory, mailbox.expected_parcels_at()).unwrap() else {
            thread::yield_now();
            continue;
        };
        let (Arrival::Whole(_, piece) | Arrival::First(_, _, piece) | Arrival::More(piece)) = arrival;
        memory.read(piece.offset, piece.bytes, |payload| assert_eq!(payload.to_vec(), [number; LINE]));
        consumer.release(&**memory, piece);
        if let Some(shelf) = consumer.takes_parcel() {
            return mailbox.took_parcel(shelf);
        }
    }
}

/// Each part of a message that both copy is claimed once, and a stale ticket claims none.
#[test]
fn both_sides_claim_each_part_once() {
    model(|| {
        let memory = Lines::shared(RING_LINES);
        let stale = Share { ring_at: 0, ticket: 1, bytes: 1 << 10 };
        stale.begin(&*memory);
        let theirs = memory.clone();
        let share = Share { ring_at: 0, ticket: 2, bytes: 300 << 10 };
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

/// The next message of the pair, by the rules of the fabric: its first byte.
fn next_of_both(consumer: &mut Consumer, mailbox: &mut Mailbox, memory: &Arc<Lines>) -> Option<u8> {
    let mut letter = mailbox.look(&**memory);
    let line = consumer.look(&**memory);
    if letter == Look::Nothing && line == Look::Ready {
        letter = mailbox.look(&**memory);
    }
    if letter == Look::Ready && mailbox.lines_before(&**memory) == consumer.lines_passed() as u16 {
        return mailbox.take(&**memory, |_, payload| payload.to_vec().first().copied()).unwrap();
    }
    if line == Look::Ready { try_receive(consumer, memory).map(|bytes| bytes[0]) } else { None }
}

/// The same by the rules of a look: the line first, since a letter that goes before it is seen when it is.
fn look_at_both(consumer: &mut Consumer, mailbox: &mut Mailbox, memory: &Arc<Lines>) -> Option<u8> {
    let line = consumer.look(&**memory);
    let letter = mailbox.look(&**memory);
    if letter == Look::Ready && mailbox.lines_before(&**memory) == consumer.lines_passed() as u16 {
        return mailbox.take(&**memory, |_, payload| payload.to_vec().first().copied()).unwrap();
    }
    if line == Look::Ready { try_receive(consumer, memory).map(|bytes| bytes[0]) } else { None }
}

/// One side of a mailbox whose memory is there, with the first turn or the second.
fn mailbox(first: bool) -> Mailbox {
    let mut mailbox = Mailbox::new(0, 0);
    mailbox.reserved(LINE);
    if first {
        mailbox.offered();
        mailbox.accepted();
    } else {
        mailbox.accept();
    }
    mailbox
}

/// The next letter; it must have so many bytes of that number.
fn take_letter(mailbox: &mut Mailbox, memory: &Lines, number: u8, bytes: usize) {
    while mailbox.look(memory) != Look::Ready {
        thread::yield_now();
    }
    let check = |header: &Header, payload: Payload<'_>| {
        assert_eq!((header.words, payload.to_vec()), ([u32::from(number); 6], vec![number; bytes]));
        Some(())
    };
    mailbox.take(memory, check).unwrap();
}

fn post_letter(mailbox: &mut Mailbox, memory: &Lines, number: u8, bytes: usize) {
    let payload = vec![number; bytes];
    let header = Header { words: [u32::from(number); 6] };
    mailbox.post(memory, &header, Payload::from(&payload[..]), 0);
}

#[test]
fn letters_are_whole_and_written_in_turn() {
    model(|| {
        let memory = Lines::shared(3 * LINE);
        let theirs = memory.clone();
        let answering = thread::spawn(move || {
            let mut mailbox = mailbox(false);
            take_letter(&mut mailbox, &theirs, 1, 5);
            // Longer than its line, and over what stood there.
            post_letter(&mut mailbox, &theirs, 2, 50);
            take_letter(&mut mailbox, &theirs, 3, 40);
        });
        let mut mailbox = mailbox(true);
        post_letter(&mut mailbox, &memory, 1, 5);
        take_letter(&mut mailbox, &memory, 2, 50);
        post_letter(&mut mailbox, &memory, 3, 40);
        assert!(!mailbox.is_ours() && !mailbox.takes(0));
        answering.join().unwrap();
    });
}
