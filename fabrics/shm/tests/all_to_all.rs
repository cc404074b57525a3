//! Eight processes, as threads, all talking to all at once, on however few cpus.

mod support;

use fabric::Header;
use shm::{Segment, Settings};
use support::{End, pattern};

#[test]
fn eight_threads_exchange_everything_in_order() {
    exchange(8, 150, small_and_large);
}

#[test]
fn a_crowd_of_forty_exchanges_small_messages() {
    exchange(40, 20, |number| number as usize % 70);
}

#[test]
fn one_thread_alone_can_write_to_itself() {
    exchange(1, 100, small_and_large);
}

fn small_and_large(number: u32) -> usize {
    match number % 16 {
        0 => 300_000 + number as usize,
        1 => 20_000,
        2 => 4096,
        _ => number as usize % 90,
    }
}

/// Every thread sends `messages` messages to every thread, itself included, and checks all that comes.
fn exchange(process_slots: u32, messages: u32, bytes: fn(u32) -> usize) {
    let segment = Segment::adopt(Segment::create(process_slots).unwrap(), process_slots).unwrap();
    std::thread::scope(|scope| {
        for process_slot in 0..process_slots {
            let segment = segment.clone();
            scope.spawn(move || {
                let mut end = End::open(segment, process_slot, Settings::default());
                for number in 0..messages {
                    for to in 0..process_slots {
                        let header = Header { words: [process_slot, to, number, 0, 0, 0] };
                        end.send(to, header, pattern(bytes(number), process_slot + number));
                    }
                }
                for number in 0..messages {
                    for from in 0..process_slots {
                        let (header, data) = end.receive(from);
                        assert_eq!(header.words[..3], [from, process_slot, number]);
                        assert!(
                            data == pattern(bytes(number), from + number),
                            "message {number} came changed"
                        );
                    }
                }
                end.drain();
            });
        }
    });
}
