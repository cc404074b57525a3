//! Models of a pair with a mailbox: letters, parcels and lines in one order.

use fabric::{Header, Payload};
use loom::sync::Arc;
use loom::thread;

use super::{PARCELS, RING, header, model, post, producer, try_receive};
use crate::layout::LINE;
use crate::mailbox::Mailbox;
use crate::memory::{Lines, Memory};
use crate::ring::{Arrival, Consumer, Look, Producer};

/// Messages through the mailbox and the ring of a pair, in the order they were sent: the second goes through the ring,
/// as the turn is the other's, and after its answer the third goes through the mailbox again.
#[test]
fn the_mailbox_and_the_ring_keep_one_order() {
    mailbox_and_ring(next_of_both);
}

/// Messages through the mailbox and the ring of a pair come in the order they were sent to a receive that looks for itself, too.
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

/// Takes the next message of mailbox and ring by the rules of a look: the line first, since a letter that goes before it is seen when the
/// line is.
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
