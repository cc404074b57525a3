//! Models of a pair with a single-slot channel: messages, chunked eager messages and lines in one order.

use fabric::{Header, Looked, Payload};
use loom::sync::Arc;
use loom::thread;

use super::{PARCELS, RING, header, model, post, producer, try_receive};
use crate::channel::{Channel, Next};
use crate::layout::LINE;
use crate::memory::{Lines, Memory};
use crate::ring::{Arrival, Consumer, Look, Producer};
use crate::single_slot::SingleSlotChannel;

/// Messages through the single-slot channel and the ring of a pair, in the order they were sent: the second
/// goes through the ring, as the turn is the other's, and after its answer the third goes through the
/// single-slot channel again.
#[test]
fn the_mailbox_and_the_ring_keep_one_order() {
    mailbox_and_ring(next_of_both);
}

/// Messages through the single-slot channel and the ring of a pair come in the order they were sent to a
/// receive that looks for itself, too.
#[test]
fn looks_keep_the_order_of_mailbox_and_ring() {
    mailbox_and_ring(look_at_both);
}

type NextOfPair = fn(&mut Channel, &Arc<Lines>) -> Option<u8>;

fn mailbox_and_ring(next: NextOfPair) {
    model(move || {
        let memory = Lines::shared(RING.bytes() + 4 * LINE);
        let theirs = memory.clone();
        let at = RING.bytes();
        let first = thread::spawn(move || {
            // It hears by the single-slot channel alone.
            let (mailbox, consumer) = (SingleSlotChannel::new(at, beside(at)), Consumer::new(at, RING));
            let mut channel = Channel { producer: producer(RING), consumer, mailbox };
            channel.mailbox.reserved(64);
            channel.mailbox.accepted();
            assert!(channel.post(&*theirs, &header(1), Payload::from(&[1u8; 40][..])));
            assert!(channel.post(&*theirs, &header(2), Payload::from(&[2u8; 5][..])));
            while channel.mailbox.look(&*theirs) != Look::Ready {
                thread::yield_now();
            }
            channel.mailbox.take(&*theirs, |_, payload| Some(assert_eq!(payload.to_vec(), [9; 36]))).unwrap();
            assert!(channel.post(&*theirs, &header(3), Payload::from(&[3u8; 33][..])));
        });
        let (mailbox, consumer) = (SingleSlotChannel::new(at, beside(at)), Consumer::new(0, RING));
        // It answers by the single-slot channel alone.
        let mut channel = Channel { producer: Producer::new(at, RING), consumer, mailbox };
        channel.mailbox.reserved(64);
        channel.mailbox.accept();
        let mut heard = Vec::new();
        while heard.len() < 3 {
            heard.extend(next(&mut channel, &memory));
            if heard.len() == 1 && channel.mailbox.is_ours() {
                assert!(channel.post(&*memory, &header(9), Payload::from(&[9u8; 36][..])));
            }
            thread::yield_now();
        }
        assert_eq!(heard, [1, 2, 3]);
        first.join().unwrap();
    });
}

/// A chunked eager message of two pieces, a line behind it, and a message over the chunked eager message's
/// lines, after which the next chunked eager message comes: each is whole, and all are in order.
#[test]
fn parcels_go_in_turn_and_in_order_with_lines_and_letters() {
    model(|| {
        let at = PARCELS.bytes();
        let memory = Lines::shared(at + 4 * LINE);
        let theirs = memory.clone();
        let first = thread::spawn(move || {
            let (mut producer, mut mailbox) = (producer(PARCELS), SingleSlotChannel::new(at, beside(at)));
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
        let (mut consumer, mut mailbox) = (Consumer::new(0, PARCELS), SingleSlotChannel::new(at, beside(at)));
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
                // Nothing goes through a ring this way.
                let none = Producer::new(at, PARCELS);
                let mut channel = Channel { producer: none, consumer: Consumer::new(at, PARCELS), mailbox };
                assert!(channel.post(&*memory, &header(9), Payload::from(&[9u8; 70][..])));
                mailbox = channel.mailbox;
            }
        }
        assert_eq!(heard, [(1, 2 * LINE), (2, 5), (3, 2 * LINE)]);
        first.join().unwrap();
    });
}

fn post_parcel(producer: &mut Producer, mailbox: &mut SingleSlotChannel, memory: &Arc<Lines>, number: u8) {
    let payload = [number; 2 * LINE];
    while !producer.has_lines_for_parcel(&**memory, payload.len()).unwrap() {
        thread::yield_now();
    }
    let shelf = mailbox.free_shelf().expect("it is our turn at one");
    let place = (shelf, mailbox.parcels_at(shelf));
    producer.post_parcel(&**memory, &header(0), Payload::from(&payload[..]), place);
    mailbox.sent_parcel(shelf);
}

/// Where the models have the large-message buffer beside a single-slot channel.
fn beside(mailbox_at: usize) -> usize {
    mailbox_at + 4 * LINE
}

/// Two who send chunked eager messages at the same time, twice: each has a large-message buffer, and the
/// second time that of the other.
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
            let (mut consumer, mut mailbox) =
                (Consumer::new(here, PARCELS), SingleSlotChannel::new(at, beside(at)));
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

/// Takes a chunked eager message of two pieces, all bytes of which are this one.
fn take_parcel(consumer: &mut Consumer, mailbox: &mut SingleSlotChannel, memory: &Arc<Lines>, number: u8) {
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

/// The next message of the pair for a turn of progress: its first byte.
fn next_of_both(channel: &mut Channel, memory: &Arc<Lines>) -> Option<u8> {
    match channel.next(&**memory) {
        Next::Letter => {
            channel.mailbox.take(&**memory, |_, payload| payload.to_vec().first().copied()).unwrap()
        }
        Next::Line => try_receive(&mut channel.consumer, memory).map(|bytes| bytes[0]),
        Next::Nothing => None,
        Next::Strange => {
            channel.strange(&**memory).unwrap();
            None
        }
    }
}

/// The next message of the pair for a receive that looks for itself.
fn look_at_both(channel: &mut Channel, memory: &Arc<Lines>) -> Option<u8> {
    match channel.look(&**memory, |_, payload| payload.to_vec().first().copied()).0 {
        Looked::Taken(first) => Some(first),
        Looked::Nothing => None,
        Looked::Left => panic!("nothing here is unusual"),
    }
}

/// One side of a channel whose single-slot channel has its memory, with the first turn or the second; nothing
/// goes through rings.
fn mailed(first: bool) -> Channel {
    let (producer, consumer) = (Producer::new(3 * LINE, RING), Consumer::new(3 * LINE, RING));
    let mut channel = Channel { producer, consumer, mailbox: SingleSlotChannel::new(0, 0) };
    channel.mailbox.reserved(LINE);
    if first {
        channel.mailbox.offered();
        channel.mailbox.accepted();
    } else {
        channel.mailbox.accept();
    }
    channel
}

/// The next message; it must have so many bytes of that number.
fn take_letter(channel: &mut Channel, memory: &Lines, number: u8, bytes: usize) {
    while channel.mailbox.look(memory) != Look::Ready {
        thread::yield_now();
    }
    let check = |header: &Header, payload: Payload<'_>| {
        assert_eq!((header.words, payload.to_vec()), ([u32::from(number); 6], vec![number; bytes]));
        Some(())
    };
    channel.mailbox.take(memory, check).unwrap();
}

fn post_letter(channel: &mut Channel, memory: &Lines, number: u8, bytes: usize) {
    let payload = vec![number; bytes];
    let header = Header { words: [u32::from(number); 6] };
    assert!(channel.post(memory, &header, Payload::from(&payload[..])));
}

#[test]
fn letters_are_whole_and_written_in_turn() {
    model(|| {
        let memory = Lines::shared(3 * LINE);
        let theirs = memory.clone();
        let answering = thread::spawn(move || {
            let mut channel = mailed(false);
            take_letter(&mut channel, &theirs, 1, 5);
            // Longer than its line, and over what stood there.
            post_letter(&mut channel, &theirs, 2, 50);
            take_letter(&mut channel, &theirs, 3, 40);
        });
        let mut channel = mailed(true);
        post_letter(&mut channel, &memory, 1, 5);
        take_letter(&mut channel, &memory, 2, 50);
        post_letter(&mut channel, &memory, 3, 40);
        assert!(!channel.mailbox.is_ours() && !channel.mailbox.takes(0));
        answering.join().unwrap();
    });
}
