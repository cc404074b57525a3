//! One suite for every fabric. A test says how to open two ends ([`Pair`]), and
//! `fabric::conformance!(MyPair);`.
//!
//! Both ends run in one thread, so a fabric that blocks fails here at once. Every wait is bounded in turns.

use crate::{Exposed, Fabric, Header, Heap, Looked, Payload, Peer, Posted, Pulled, UserMemory};

mod one_sided;
mod wired;

pub use self::wired::WATCHDOG;
use self::wired::{FLOOD, Sending, Watchdog, Wired, fewer_for_miri, numbered, pattern};
pub use one_sided::*;

/// A way to open two ends in one process that reach each other: the left is peer 0, the right is peer 1.
pub trait Pair {
    /// What they are ends of.
    type Fabric: Fabric;

    /// Opens both.
    fn pair() -> (Self::Fabric, Self::Fabric);

    /// Looks once both are closed whether anything was left undone.
    fn over() {}

    /// Why a case says nothing about what they are ends of, if it does not.
    fn left_out(_case: &str) -> Option<&'static str> {
        None
    }
}

/// Instantiates the whole suite for one way to open a fabric.
#[macro_export]
macro_rules! conformance {
    ($pair:ty) => {
        mod conformance_suite {
            #[allow(unused_imports)]
            use super::*;
            $crate::conformance!(@tests $pair:
                brings_a_message_unchanged,
                keeps_order_of_small_messages,
                brings_every_size,
                keeps_order_across_sizes,
                both_directions_at_once,
                busy_passes_and_nothing_is_lost,
                a_flood_passes_a_receiver_that_takes_little,
                drops_what_has_no_room,
                pulls_what_was_exposed,
                pulls_many_at_once,
                leaves,
                refuses_nonsense_addresses,
                reaches_its_pair,
                polls_no_more_than_asked,
                looks_leave_what_is_not_taken,
                makes_messages_on_their_way,
            );
        }
    };
    (@tests $pair:ty: $($name:ident),* $(,)?) => {
        $(#[test] fn $name() {
            if let Some(why) = <$pair as $crate::conformance::Pair>::left_out(stringify!($name)) {
                return println!("LEFT OUT: {why}");
            }
            $crate::conformance::$name::<$pair>();
            <$pair as $crate::conformance::Pair>::over();
        })*
    };
}

/// Instantiates the suite of [`OneSided`](crate::OneSided) for one way to open a fabric.
#[macro_export]
macro_rules! conformance_one_sided {
    ($pair:ty) => {
        mod conformance_one_sided_suite {
            #[allow(unused_imports)]
            use super::*;
            $crate::conformance!(@tests $pair:
                puts_and_gets_of_every_size,
                puts_and_gets_many_at_once,
                atomics_do_what_they_say,
                what_is_beyond_the_end_is_refused,
                keys_that_are_none_harm_nobody,
                detaches_while_others_write,
                ends_all_when_the_peer_goes,
            );
        }
    };
}

/// A header and a payload come over as they were.
pub fn brings_a_message_unchanged<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let header = Header { words: [1, 2, 3, u32::MAX, 5, 6] };
    wire.send_right(&header, b"hello");
    let (got, payload) = wire.take_right();
    assert_eq!(got, header);
    assert_eq!(payload, b"hello");
}

/// A thousand small messages, in the order they were posted.
pub fn keeps_order_of_small_messages<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let messages = if cfg!(miri) { 50 } else { 1000 };
    for number in 0..messages {
        wire.send_right(&numbered(number), &number.to_le_bytes());
    }
    for number in 0..messages {
        assert_eq!(wire.take_right(), (numbered(number), number.to_le_bytes().to_vec()));
    }
}

/// All sizes up to 300 bytes, and those around every power of two up to a mebibyte.
pub fn brings_every_size<P: Pair>() {
    let mut wire = Wired::open::<P>();
    // Miri takes a thousand times as long for a byte.
    let (small_end, power_max) = if cfg!(miri) { (40, 9) } else { (300, 20) };
    let around = (8..=power_max).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]);
    for bytes in (0..small_end).chain(around) {
        let data = pattern(bytes, bytes as u64);
        wire.send_right(&numbered(bytes as u32), &data);
        let (header, payload) = wire.take_right();
        assert_eq!(header, numbered(bytes as u32));
        assert!(payload == data, "{bytes} bytes came as {} bytes, or changed", payload.len());
    }
}

/// Small and large ones in turn stay in order.
pub fn keeps_order_across_sizes<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let sizes = [0, 3, 70_000, 33, 1, 5000, 300_000, 8, 40, 4096, 100_000, 2].map(fewer_for_miri);
    for (number, bytes) in sizes.iter().enumerate() {
        wire.send_right(&numbered(number as u32), &pattern(*bytes, number as u64));
    }
    for (number, bytes) in sizes.iter().enumerate() {
        assert_eq!(wire.take_right(), (numbered(number as u32), pattern(*bytes, number as u64)));
    }
}

/// Messages of all kinds, taken by looks and polls in turn, come once each and in order; a look takes only
/// what its reader wants, and one that finds nothing loses nothing.
pub fn looks_leave_what_is_not_taken<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let messages = if cfg!(miri) { 20 } else { 400 };
    let bytes = |number: u32| fewer_for_miri([0, 8, 33, 200, 5000, 9, 70_000, 1][number as usize % 8]);
    let promised = wire.right.limits(wire.to_left).look;
    let watchdog = Watchdog::start("looks_leave_what_is_not_taken");
    let (mut sent, mut got, mut looks, mut looked) = (0, 0, 0, 0);
    while got < messages {
        if sent < messages && sent - got < 5 {
            wire.send_right(&numbered(sent), &pattern(bytes(sent), u64::from(sent)));
            sent += 1;
            // An answer now and then: pairs that talk both ways may do it in another way than others.
            if sent % 3 == 0 {
                let header = numbered(sent);
                let mut answer = Sending::new(header, b"yes");
                while !answer.push(&mut wire.right, wire.to_left) {
                    wire.turn();
                }
            }
        }
        if wire.right_heard.whole.is_empty() && wire.right_heard.arriving.is_none() {
            let wanted = got % 2 == 0;
            looks += 1;
            let found = wire.right.look(wire.to_left, |header, payload| {
                assert_eq!(*header, numbered(got), "a look has skipped a message");
                wanted.then(|| payload.to_vec())
            });
            match found {
                Looked::Taken(payload) => {
                    assert!(wanted && payload == pattern(bytes(got), u64::from(got)));
                    (got, looked) = (got + 1, looked + 1);
                }
                // Time may pass for the other end alone.
                Looked::Nothing if wanted && looks % 4 != 0 => {
                    wire.left.poll(&mut wire.left_heard, 16);
                }
                Looked::Nothing | Looked::Left => wire.turn(),
            }
        } else {
            wire.turn();
        }
        while let Some(message) = wire.right_heard.whole.pop_front() {
            assert!(message == (numbered(got), pattern(bytes(got), u64::from(got))), "message {got}");
            got += 1;
        }
        watchdog.check(|| wire.state());
    }
    assert_eq!(looked > 0, promised, "{looked} of {messages} messages were found by looks");
}

/// Messages that are made where they go come whole and in order among others; a fabric says where it cannot,
/// and the message is not made then.
pub fn makes_messages_on_their_way<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let chunk = wire.left.limits(wire.to_right).chunk_bytes_max;
    assert!(chunk > 0, "a chunk has bytes");
    let sizes = [0, 1, 31, 32, 33, 500, chunk - 1, chunk, 9, chunk + 1, 300].map(fewer_for_miri);
    let watchdog = Watchdog::start("makes_messages_on_their_way");
    for round in 0..if cfg!(miri) { 2 } else { 20 } {
        for (number, bytes) in sizes.into_iter().enumerate() {
            let (header, data) = (numbered(number as u32), pattern(bytes, round + number as u64));
            let made = loop {
                let mut calls = 0;
                let posted = wire.left.post_made(wire.to_right, &header, bytes, |room| {
                    assert_eq!(room.bytes(), bytes, "the room is that of the message");
                    calls += 1;
                    room.write_at(0, Payload::from(&data[..]));
                });
                assert_eq!(calls, u32::from(posted == Some(Posted::Sent)), "{posted:?}");
                match posted {
                    Some(Posted::Busy) => wire.turn(),
                    Some(Posted::Partly(_)) => panic!("a message that is made is not taken partly"),
                    Some(Posted::Sent) => break true,
                    None => break false,
                }
                watchdog.check(|| wire.state());
            };
            if !made {
                wire.send_right(&header, &data);
            }
            // Some are answered, so that pairs that talk both ways may do it in another way than others.
            if round % 2 == 1 {
                let mut answer = Sending::new(header, b"yes");
                while !answer.push(&mut wire.right, wire.to_left) {
                    wire.turn();
                    watchdog.check(|| wire.state());
                }
                assert!(wire.take_right() == (header, data), "{bytes} bytes");
            }
        }
        for (number, bytes) in sizes.into_iter().enumerate().filter(|_| round % 2 == 0) {
            let (header, data) = (numbered(number as u32), pattern(bytes, round + number as u64));
            assert!(wire.take_right() == (header, data), "{bytes} bytes");
        }
    }
}

/// Large messages both ways at the same time: neither end waits for the other.
pub fn both_directions_at_once<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let (east, west) = (pattern(fewer_for_miri(3 << 20), 1), pattern(fewer_for_miri(2 << 20), 2));
    let mut going = [Sending::new(numbered(1), &east), Sending::new(numbered(2), &west)];
    let watchdog = Watchdog::start("both_directions_at_once");
    while wire.right_heard.whole.is_empty() || wire.left_heard.whole.is_empty() {
        going[0].push(&mut wire.left, wire.to_right);
        going[1].push(&mut wire.right, wire.to_left);
        wire.turn();
        watchdog.check(|| wire.state());
    }
    assert!(wire.right_heard.whole.pop_front() == Some((numbered(1), east)));
    assert!(wire.left_heard.whole.pop_front() == Some((numbered(2), west)));
}

/// A receiver that does not poll makes the sender busy some time; afterwards all is there, in order.
pub fn busy_passes_and_nothing_is_lost<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let data = pattern(1000, 3);
    let mut sent = 0u32;
    let mut going = Sending::new(numbered(0), &data);
    for _ in 0..if cfg!(miri) { 50 } else { 1_000_000 } {
        if going.push(&mut wire.left, wire.to_right) {
            sent += 1;
            going = Sending::new(numbered(sent), &data);
        } else {
            break;
        }
    }
    let watchdog = Watchdog::start("busy_passes_and_nothing_is_lost");
    while !going.push(&mut wire.left, wire.to_right) {
        wire.turn();
        watchdog.check(|| wire.state());
    }
    for number in 0..=sent {
        assert_eq!(wire.take_right(), (numbered(number), data.clone()));
    }
}

/// A sender that always has more to send, to a receiver that takes one message where many come: all of them
/// pass.
pub fn a_flood_passes_a_receiver_that_takes_little<P: Pair>() {
    let mut wire = Wired::open::<P>();
    let data = pattern(4000, 5);
    let messages = if cfg!(miri) { 40 } else { 2000 };
    let mut sent = 0u32;
    let mut going = Sending::new(numbered(0), &data);
    let watchdog = Watchdog::start("a_flood_passes_a_receiver_that_takes_little");
    for number in 0..messages {
        let (header, came) = loop {
            for _ in 0..FLOOD {
                if sent < messages && going.push(&mut wire.left, wire.to_right) {
                    sent += 1;
                    going = Sending::new(numbered(sent), &data);
                }
            }
            if let Some(message) = wire.right_heard.whole.pop_front() {
                break message;
            }
            wire.left.poll(&mut wire.left_heard, 1);
            wire.right.poll(&mut wire.right_heard, 1);
            watchdog.check(|| wire.state());
        };
        assert!(header == numbered(number) && came == data, "message {number} is {header:?}");
    }
}

/// Where the receiver has less room than the message, the rest is dropped and the next message is whole.
pub fn drops_what_has_no_room<P: Pair>() {
    let mut wire = Wired::open::<P>();
    wire.right_heard.room_bytes_max = 1000;
    let data = pattern(fewer_for_miri(200_000), 4);
    wire.send_right(&numbered(1), &data);
    wire.send_right(&numbered(2), b"next");
    let (_, first) = wire.take_right();
    assert!(
        first == data || first == data[..1000],
        "neither whole nor cut to the room: {} bytes",
        first.len()
    );
    assert_eq!(wire.take_right(), (numbered(2), b"next".to_vec()));
}

/// A peer reads exposed memory, whole and in parts, or is told that it may not; never beyond its end
/// silently.
pub fn pulls_what_was_exposed<P: Pair>() {
    let mut wire = Wired::open::<P>();
    if !wire.right.limits(wire.to_left).pull {
        let mut none = UserMemory::EMPTY;
        let refused = wire.right.pull(wire.to_left, Default::default(), 0, &mut none, 0);
        assert_eq!(refused, Pulled::Refused, "a lane that offers no pull must refuse one");
        return;
    }
    let all = fewer_for_miri(100_000);
    let (data, half) = (pattern(all, 5), all / 2);
    for (offset, bytes) in [(0, half), (1, 7), (half, half), (0, all)] {
        let exposed = wire.left.register_memory(wire.to_right, Payload::from(&data[..]));
        let room = Heap::new(bytes);
        let is_whole = (0..100).any(|attempt| wire.pull_right(exposed, offset, &room, attempt));
        assert!(is_whole, "limits offer to pull, and a hundred attempts were refused");
        assert!(room.payload().to_vec() == data[offset..offset + bytes], "{bytes} bytes at {offset}");
        wire.left.deregister_memory(Peer(1), exposed);
    }
}

/// Several pulls at once, both ways and between messages: each ends once, whole or not, with its own bytes.
pub fn pulls_many_at_once<P: Pair>() {
    let mut wire = Wired::open::<P>();
    if !wire.right.limits(wire.to_left).pull {
        return;
    }
    let all = fewer_for_miri(300_000);
    let data: Vec<Vec<u8>> = (0..20).map(|number| pattern(all, number)).collect();
    let rooms: Vec<Heap> = (0..20).map(|_| Heap::new(all)).collect();
    let mut under_way = 0;
    let exposed: Vec<Exposed> = (data.iter().enumerate())
        .map(|(number, data)| match number % 2 {
            0 => wire.left.register_memory(wire.to_right, Payload::from(&data[..])),
            _ => wire.right.register_memory(wire.to_left, Payload::from(&data[..])),
        })
        .collect();
    let mut ended = Vec::new();
    for (number, exposed) in exposed.iter().enumerate() {
        let (into, ticket) = (&mut rooms[number].memory(), number as u64);
        let pulled = match number % 2 {
            0 => wire.right.pull(wire.to_left, *exposed, 0, into, ticket),
            _ => wire.left.pull(wire.to_right, *exposed, 0, into, ticket),
        };
        match pulled {
            Pulled::Done => ended.push((ticket, true)),
            Pulled::Underway => under_way += 1,
            Pulled::Refused => {}
        }
        wire.send_right(&numbered(number as u32), b"between");
    }
    let watchdog = Watchdog::start("pulls_many_at_once");
    while wire.left_heard.pulled.len() + wire.right_heard.pulled.len() < under_way {
        wire.turn();
        watchdog.check(|| wire.state());
    }
    ended.append(&mut wire.left_heard.pulled);
    ended.append(&mut wire.right_heard.pulled);
    assert!(ended.iter().any(|(_, whole)| *whole), "limits offer to pull, and twenty were refused");
    for (ticket, whole) in ended {
        let number = ticket as usize;
        assert!(!whole || rooms[number].payload().to_vec() == data[number], "pull {number}");
    }
    for (number, exposed) in exposed.into_iter().enumerate() {
        match number % 2 {
            0 => wire.left.deregister_memory(Peer(1), exposed),
            _ => wire.right.deregister_memory(Peer(0), exposed),
        }
        assert_eq!(wire.take_right(), (numbered(number as u32), b"between".to_vec()));
    }
}

/// Who leaves is done with it after a while, whether the other end leaves as well or has gone.
pub fn leaves<P: Pair>() {
    let mut wire = Wired::open::<P>();
    wire.send_right(&numbered(1), b"one");
    assert_eq!(wire.take_right().1, b"one");
    let watchdog = Watchdog::start("leaves");
    while !wire.left.leave() {
        wire.turn();
        watchdog.check(|| wire.state());
    }
    let Wired { left, mut right, mut right_heard, .. } = wire;
    drop(left);
    right_heard.may_lose = true;
    while !right.leave() {
        right.poll(&mut right_heard, 16);
        watchdog.check(|| "the left has gone, and the right cannot leave".to_owned());
    }
}

/// Addresses come from outside: any bytes are answered, never believed.
pub fn refuses_nonsense_addresses<P: Pair>() {
    let (mut left, right) = P::pair();
    let good = right.address();
    assert!(good.len() <= 512, "an address of {} bytes does not fit into a card", good.len());
    let mut nonsense: Vec<Vec<u8>> = (0..64).map(|bytes| pattern(bytes, bytes as u64 + 9)).collect();
    nonsense.push(vec![0; 512]);
    nonsense.push(vec![255; 512]);
    nonsense.push(good[..good.len().saturating_sub(1)].to_vec());
    for address in nonsense {
        if left.reach(Peer(1), &address).is_none() {
            assert!(left.connect(Peer(1), &address).is_err(), "connect took what reach refused: {address:?}");
        }
    }
    assert!(left.reach(Peer(1), &[]).is_none(), "an empty address was taken for an address");
}

/// The pair reaches each other.
pub fn reaches_its_pair<P: Pair>() {
    let (left, right) = P::pair();
    assert!(left.reach(Peer(1), &right.address()).is_some());
    assert!(right.reach(Peer(0), &left.address()).is_some());
}

/// `poll` keeps to its bound, so that a turn of progress stays short.
pub fn polls_no_more_than_asked<P: Pair>() {
    let mut wire = Wired::open::<P>();
    for number in 0..40 {
        wire.send_right(&numbered(number), b"");
    }
    wire.right_heard.whole.clear();
    let before = wire.right_heard.whole.len();
    wire.right.poll(&mut wire.right_heard, 4);
    assert!(wire.right_heard.whole.len() - before <= 8, "asked for 4 events, got far more");
}
