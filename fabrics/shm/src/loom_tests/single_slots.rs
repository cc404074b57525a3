//! Models of a pair with a single-slot channel: messages, chunked eager messages and lines in one order.

use fabric::{Header, Looked, Payload};
use loom::sync::Arc;
use loom::thread;

use super::{CHUNKED_MESSAGES, RING, header, model, post, producer, try_receive};
use crate::channel::{Channel, Next};
use crate::layout::LINE;
use crate::memory::{Lines, Memory};
use crate::ring::{Arrival, Consumer, Look, Producer};
use crate::single_slot::SingleSlotChannel;

/// Messages through the single-slot channel and the ring of a pair, in the order they were sent: the second
/// goes through the ring, as the turn is the other's, and after its answer the third goes through the
/// single-slot channel again.
#[test]
fn the_single_slot_and_the_ring_keep_one_order() {
    single_slot_and_ring(next_of_both);
}

/// Messages through the single-slot channel and the ring of a pair come in the order they were sent to a
/// receive that looks for itself, too.
#[test]
fn looks_keep_the_order_of_single_slot_and_ring() {
    single_slot_and_ring(look_at_both);
}

type NextOfPair = fn(&mut Channel, &Arc<Lines>) -> Option<u8>;

fn single_slot_and_ring(next: NextOfPair) {
    model(move || {
        let memory = Lines::shared(RING.bytes() + 4 * LINE);
        let theirs = memory.clone();
        let at = RING.bytes();
        let first = thread::spawn(move || {
            // It hears by the single-slot channel alone.
            let (single_slot, consumer) = (SingleSlotChannel::new(at, beside(at)), Consumer::new(at, RING));
            let mut channel = Channel { producer: producer(RING), consumer, single_slot };
            channel.single_slot.reserved(64);
            channel.single_slot.accepted();
            assert!(channel.post(&*theirs, &header(1), Payload::from(&[1u8; 40][..])));
            assert!(channel.post(&*theirs, &header(2), Payload::from(&[2u8; 5][..])));
            while channel.single_slot.look(&*theirs) != Look::Ready {
                thread::yield_now();
            }
            channel
                .single_slot
                .take(&*theirs, |_, payload| Some(assert_eq!(payload.to_vec(), [9; 36])))
                .unwrap();
            assert!(channel.post(&*theirs, &header(3), Payload::from(&[3u8; 33][..])));
        });
        let (single_slot, consumer) = (SingleSlotChannel::new(at, beside(at)), Consumer::new(0, RING));
        // It answers by the single-slot channel alone.
        let mut channel = Channel { producer: Producer::new(at, RING), consumer, single_slot };
        channel.single_slot.reserved(64);
        channel.single_slot.accept();
        let mut heard = Vec::new();
        while heard.len() < 3 {
            heard.extend(next(&mut channel, &memory));
            if heard.len() == 1 && channel.single_slot.is_ours() {
                assert!(channel.post(&*memory, &header(9), Payload::from(&[9u8; 36][..])));
            }
            thread::yield_now();
        }
        assert_eq!(heard, [1, 2, 3]);
        first.join().unwrap();
    });
}

/// A chunked eager message of two chunks, a line behind it, and a message over the chunked eager message's
/// lines, after which the next chunked eager message comes: each is whole, and all are in order.
#[test]
fn chunked_messages_go_in_turn_and_in_order_with_lines_and_short_messages() {
    model(|| {
        let at = CHUNKED_MESSAGES.bytes();
        let memory = Lines::shared(at + 4 * LINE);
        let theirs = memory.clone();
        let first = thread::spawn(move || {
            let (mut producer, mut single_slot) =
                (producer(CHUNKED_MESSAGES), SingleSlotChannel::new(at, beside(at)));
            single_slot.reserved(2 * LINE);
            single_slot.accepted();
            post_chunked_message(&mut producer, &mut single_slot, &theirs, 1);
            post(&mut producer, &theirs, &[2; 5]);
            while single_slot.look(&*theirs) != Look::Ready {
                thread::yield_now();
            }
            single_slot.take(&*theirs, |_, payload| Some(assert_eq!(payload.to_vec(), [9; 70]))).unwrap();
            post_chunked_message(&mut producer, &mut single_slot, &theirs, 3);
        });
        let (mut consumer, mut single_slot) =
            (Consumer::new(0, CHUNKED_MESSAGES), SingleSlotChannel::new(at, beside(at)));
        single_slot.reserved(2 * LINE);
        single_slot.accept();
        let (mut heard, mut coming) = (Vec::new(), Vec::new());
        while heard.len() < 3 {
            let Some(arrival) = consumer.front(&*memory, single_slot.expected_chunked_messages_at()).unwrap()
            else {
                thread::yield_now();
                continue;
            };
            let (Arrival::Whole(_, chunk) | Arrival::First(_, _, chunk) | Arrival::More(chunk)) = arrival;
            coming.extend(memory.read(chunk.offset, chunk.bytes, |payload| payload.to_vec()));
            consumer.release(&*memory, chunk);
            if let Some(large_buffer) = consumer.takes_chunked_message() {
                single_slot.took_chunked_message(large_buffer);
            }
            if !consumer.midway() {
                assert!(coming.iter().all(|byte| *byte == coming[0]), "{coming:?}");
                heard.push((coming[0], coming.len()));
                coming.clear();
            }
            if heard.len() == 1 && single_slot.is_ours() {
                // Nothing goes through a ring this way.
                let none = Producer::new(at, CHUNKED_MESSAGES);
                let mut channel =
                    Channel { producer: none, consumer: Consumer::new(at, CHUNKED_MESSAGES), single_slot };
                assert!(channel.post(&*memory, &header(9), Payload::from(&[9u8; 70][..])));
                single_slot = channel.single_slot;
            }
        }
        assert_eq!(heard, [(1, 2 * LINE), (2, 5), (3, 2 * LINE)]);
        first.join().unwrap();
    });
}

fn post_chunked_message(
    producer: &mut Producer,
    single_slot: &mut SingleSlotChannel,
    memory: &Arc<Lines>,
    number: u8,
) {
    let payload = [number; 2 * LINE];
    while !producer.has_lines_for_chunked_message(&**memory, payload.len()).unwrap() {
        thread::yield_now();
    }
    let large_buffer = single_slot.free_large_buffer().expect("it is our turn at one");
    let place = (large_buffer, single_slot.chunked_messages_at(large_buffer));
    producer.post_chunked_message(&**memory, &header(0), Payload::from(&payload[..]), place);
    single_slot.sent_chunked_message(large_buffer);
}

/// Where the models have the large-message buffer beside a single-slot channel.
fn beside(single_slot_at: usize) -> usize {
    single_slot_at + 4 * LINE
}

/// Two who send chunked eager messages at the same time, twice: each has a large-message buffer, and the
/// second time that of the other.
#[test]
fn who_send_chunked_messages_at_once_have_a_large_buffer_each() {
    model(|| {
        let ring = CHUNKED_MESSAGES.bytes();
        let memory = Lines::shared(2 * ring + 8 * LINE);
        let theirs = memory.clone();
        let sides = move |first: bool, memory: &Arc<Lines>| {
            let at = 2 * ring;
            let (there, here) = if first { (0, ring) } else { (ring, 0) };
            let mut producer = Producer::new(there, CHUNKED_MESSAGES);
            producer.lines_taken();
            producer.data_taken();
            let (mut consumer, mut single_slot) =
                (Consumer::new(here, CHUNKED_MESSAGES), SingleSlotChannel::new(at, beside(at)));
            if first {
                single_slot.offered();
                single_slot.accepted();
            } else {
                single_slot.accept();
            }
            for number in 1..=2 {
                let large_buffer = single_slot.free_large_buffer();
                post_chunked_message(&mut producer, &mut single_slot, memory, number);
                assert_eq!(single_slot.free_large_buffer(), None);
                take_chunked_message(&mut consumer, &mut single_slot, memory, number);
                assert!(
                    single_slot.free_large_buffer().is_some()
                        && single_slot.free_large_buffer() != large_buffer
                );
            }
        };
        let second = thread::spawn(move || sides(false, &theirs));
        sides(true, &memory);
        second.join().unwrap();
    });
}

/// Takes a chunked eager message of two chunks, all bytes of which are this one.
fn take_chunked_message(
    consumer: &mut Consumer,
    single_slot: &mut SingleSlotChannel,
    memory: &Arc<Lines>,
    number: u8,
) {
    loop {
        let Some(arrival) = consumer.front(&**memory, single_slot.expected_chunked_messages_at()).unwrap()
        else {
            thread::yield_now();
            continue;
        };
        let (Arrival::Whole(_, chunk) | Arrival::First(_, _, chunk) | Arrival::More(chunk)) = arrival;
        memory.read(chunk.offset, chunk.bytes, |payload| assert_eq!(payload.to_vec(), [number; LINE]));
        consumer.release(&**memory, chunk);
        if let Some(large_buffer) = consumer.takes_chunked_message() {
            return single_slot.took_chunked_message(large_buffer);
        }
    }
}

/// The next message of the pair for a turn of progress: its first byte.
fn next_of_both(channel: &mut Channel, memory: &Arc<Lines>) -> Option<u8> {
    match channel.next(&**memory) {
        Next::Letter => {
            channel.single_slot.take(&**memory, |_, payload| payload.to_vec().first().copied()).unwrap()
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
    let mut channel = Channel { producer, consumer, single_slot: SingleSlotChannel::new(0, 0) };
    channel.single_slot.reserved(LINE);
    if first {
        channel.single_slot.offered();
        channel.single_slot.accepted();
    } else {
        channel.single_slot.accept();
    }
    channel
}

/// The next message; it must have so many bytes of that number.
fn take_short_message(channel: &mut Channel, memory: &Lines, number: u8, bytes: usize) {
    while channel.single_slot.look(memory) != Look::Ready {
        thread::yield_now();
    }
    let check = |header: &Header, payload: Payload<'_>| {
        assert_eq!((header.words, payload.to_vec()), ([u32::from(number); 6], vec![number; bytes]));
        Some(())
    };
    channel.single_slot.take(memory, check).unwrap();
}

fn post_short_message(channel: &mut Channel, memory: &Lines, number: u8, bytes: usize) {
    let payload = vec![number; bytes];
    let header = Header { words: [u32::from(number); 6] };
    assert!(channel.post(memory, &header, Payload::from(&payload[..])));
}

#[test]
fn short_messages_are_whole_and_written_in_turn() {
    model(|| {
        let memory = Lines::shared(3 * LINE);
        let theirs = memory.clone();
        let answering = thread::spawn(move || {
            let mut channel = mailed(false);
            take_short_message(&mut channel, &theirs, 1, 5);
            // Longer than its line, and over what stood there.
            post_short_message(&mut channel, &theirs, 2, 50);
            take_short_message(&mut channel, &theirs, 3, 40);
        });
        let mut channel = mailed(true);
        post_short_message(&mut channel, &memory, 1, 5);
        take_short_message(&mut channel, &memory, 2, 50);
        post_short_message(&mut channel, &memory, 3, 40);
        assert!(!channel.single_slot.is_ours() && !channel.single_slot.takes(0));
        answering.join().unwrap();
    });
}
