//! Processes that dial each other: one after another, at the same moment, all at once.

mod common;

use common::{Process, numbered, until};
use fabric::{Bell, Fabric, Payload, Peer, Posted};
use std::time::Duration;
use tcp::Lane;

#[test]
fn the_first_message_makes_the_connection() {
    let mut pair = [Process::open(0), Process::open(1)];
    let [left, right] = &mut pair;
    let lane = left.connect(right, 1);
    let mut sent = 0;
    until("ten messages", &mut pair, |pair| {
        sent += u32::from(sent < 10 && pair[0].post(lane, sent));
        pair[1].heard.count() == 10
    });
    assert_eq!(pair[1].heard.numbers(0), (0..10).collect::<Vec<_>>());
    let [left, right] = &mut pair;
    let back = right.connect(left, 0);
    assert!(right.post(back, 77), "the way back is the same connection, so it is open already");
    until("the answer", &mut pair, |pair| pair[0].heard.numbers(1) == [77]);
}

#[test]
fn both_dial_at_the_same_moment() {
    // Each round takes another number of polls on either side before the other may go on, so that the two
    // dials cross at every step of the handshake.
    for (left_lead, right_lead) in (0..8).flat_map(|left| (0..8).map(move |right| (left, right))) {
        let mut pair = [Process::open(3), Process::open(4)];
        let [left, right] = &mut pair;
        let lanes = [left.connect(right, 4), right.connect(left, 3)];
        for _ in 0..left_lead {
            left.poll();
        }
        for _ in 0..right_lead {
            right.poll();
        }
        exchange(&mut pair, lanes, 50);
        assert_eq!(pair[0].heard.numbers(4), (0..50).collect::<Vec<_>>(), "{left_lead} {right_lead}");
        assert_eq!(pair[1].heard.numbers(3), (0..50).collect::<Vec<_>>(), "{left_lead} {right_lead}");
        for process in &pair {
            assert!(process.heard.lost.is_empty(), "{:?}", process.heard.lost);
        }
    }
}

/// Both send `count` messages as soon as they can.
fn exchange(pair: &mut [Process; 2], lanes: [Lane; 2], count: u32) {
    let mut sent = [0; 2];
    until("the exchange", pair, |pair| {
        for side in 0..2 {
            while sent[side] < count && pair[side].post(lanes[side], sent[side]) {
                sent[side] += 1;
            }
        }
        pair.iter().all(|process| process.heard.count() == count as usize)
    });
}

#[test]
fn sixteen_send_to_all_at_once() {
    common::allow_descriptors();
    let mut all: Vec<Process> = (0..16).map(Process::open).collect();
    let addresses: Vec<Vec<u8>> = all.iter().map(|process| process.tcp.address()).collect();
    let others = |from: usize| (0..16).filter(move |to| *to != from);
    let mut lanes = vec![vec![None; 16]; 16];
    for from in 0..16 {
        for to in others(from) {
            let lane = all[from].tcp.connect(Peer(to as u32), &addresses[to]).expect("a lane");
            lanes[from][to] = Some(lane);
        }
    }
    let mut sent = vec![vec![0; 16]; 16];
    until("all to all", &mut all, |all| {
        for from in 0..16 {
            for to in others(from) {
                let lane = lanes[from][to].expect("a lane to every other");
                while sent[from][to] < 20 && all[from].post(lane, sent[from][to]) {
                    sent[from][to] += 1;
                }
            }
        }
        all.iter().all(|process| process.heard.count() == 15 * 20)
    });
    for (number, process) in all.iter().enumerate() {
        assert!(process.heard.lost.is_empty(), "{number} lost {:?}", process.heard.lost);
        for from in others(number) {
            assert_eq!(process.heard.numbers(from as u32), (0..20).collect::<Vec<_>>(), "{from} to {number}");
        }
    }
}

#[test]
fn a_crowd_reaches_one() {
    common::allow_descriptors();
    // More than may stand at the door at a time, so that the later ones wait for the earlier.
    let mut all: Vec<Process> = (0..150).map(Process::open).collect();
    let target = all[0].tcp.address();
    let lanes: Vec<Lane> =
        (1..150).map(|from| all[from].tcp.connect(Peer(0), &target).expect("a lane")).collect();
    let mut is_sent = [false; 149];
    until("the crowd", &mut all, |all| {
        for (at, lane) in lanes.iter().enumerate() {
            is_sent[at] = is_sent[at] || all[at + 1].post(*lane, at as u32);
        }
        all[0].heard.count() == 149
    });
    for from in 1..150 {
        assert_eq!(all[0].heard.numbers(from), [from - 1]);
        assert!(all[from as usize].heard.lost.is_empty());
    }
}

#[test]
fn one_who_computes_is_waited_for() {
    // The right does not poll for longer than the time limit. Its kernel has answered, so it is no firewall.
    let settings = tcp::Settings { connect_timeout: Duration::from_millis(50), ..Default::default() };
    let mut pair = [Process::open_with(0, settings), Process::open(1)];
    let [left, right] = &mut pair;
    let lane = left.connect(right, 1);
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(250) {
        assert!(!left.post(lane, 0), "nobody can have taken a message yet");
        left.poll();
    }
    let mut is_sent = false;
    until("the late answer", &mut pair, |pair| {
        is_sent = is_sent || pair[0].post(lane, 0);
        pair[1].heard.count() == 1
    });
    assert!(pair[0].heard.lost.is_empty(), "{:?}", pair[0].heard.lost);
}

#[test]
fn large_messages_share_the_turns_with_small_ones() {
    // While one peer streams, the small messages of the others keep coming.
    let mut all: Vec<Process> = (0..4).map(Process::open).collect();
    let target = all[0].tcp.address();
    let lanes: Vec<Lane> =
        (1..4).map(|from| all[from].tcp.connect(Peer(0), &target).expect("a lane")).collect();
    let large: Vec<u8> = (0..8 << 20).map(|at: u32| (at >> 7) as u8).collect();
    let mut taken: Option<usize> = None;
    let (mut is_whole, mut small, mut heard_before_whole) = (false, 0, 0);
    until("the stream and the small ones", &mut all, |all| {
        is_whole = is_whole || push(&mut all[1], lanes[0], 1000, &large, &mut taken);
        if !all[0].heard.numbers(1).is_empty() {
            return all[0].heard.count() as u32 == small + 1;
        }
        for from in 2..4 {
            small += u32::from(all[from].post(lanes[from - 1], small));
        }
        heard_before_whole = all[0].heard.count();
        false
    });
    let (_, came) = &all[0].heard.messages[&Peer(1)][0];
    assert!(*came == large, "the stream changed on its way");
    assert!(heard_before_whole > 16, "only {heard_before_whole} small messages came beside the stream");
}

#[test]
fn a_sleeper_wakes_for_what_comes() {
    let mut pair = [Process::open(0), Process::open(1)];
    let [left, right] = &mut pair;
    let lane = left.connect(right, 1);
    let mut is_sent = false;
    until("meeting", &mut pair, |pair| {
        is_sent = is_sent || pair[0].post(lane, 0);
        pair[1].heard.count() == 1
    });
    let [mut left, mut right] = pair;
    let (rounds, long) = (50, Duration::from_secs(50));
    let sleeper = std::thread::spawn(move || {
        let bell = right.tcp.bell();
        while right.heard.count() <= rounds {
            let armed = bell.arm();
            if right.poll() == 0 {
                let began = std::time::Instant::now();
                bell.sleep(armed, long);
                assert!(began.elapsed() < long, "slept through message {}", right.heard.count());
            }
            bell.disarm();
        }
        right.heard.numbers(0)
    });
    for number in 1..=rounds as u32 {
        // Now and then long enough that the other end is asleep for sure.
        std::thread::sleep(Duration::from_millis(u64::from(number % 7 == 0) * 20));
        assert!(left.post(lane, number), "an open connection takes a small message");
    }
    let heard = sleeper.join().expect("the sleeper hears everything");
    assert_eq!(heard, (0..=rounds as u32).collect::<Vec<_>>());
}

#[test]
fn a_sleeper_wakes_for_a_knock_and_for_room() {
    // The left sleeps while it dials, and again while its socket is full; both must wake it.
    let mut left = Process::open(0);
    let mut right = Process::open(1);
    let lane = left.connect(&right, 1);
    let whole = 200u32;
    let reader = std::thread::spawn(move || {
        common::until("the reader", std::slice::from_mut(&mut right), |right| {
            std::thread::sleep(Duration::from_micros(200));
            right[0].heard.count() == whole as usize
        });
        right.heard.numbers(0)
    });
    let (bell, data) = (left.tcp.bell(), vec![5; 100_000]);
    let (mut taken, mut number) = (None, 0);
    let began = std::time::Instant::now();
    while number < whole {
        let armed = bell.arm();
        let mut happened = left.poll();
        while number < whole && push(&mut left, lane, number, &data, &mut taken) {
            number += 1;
            happened += 1;
        }
        if happened == 0 {
            bell.sleep(armed, common::WATCHDOG / 2);
        }
        bell.disarm();
        assert!(began.elapsed() < common::WATCHDOG / 2, "nobody woke the writer after {number} messages");
    }
    assert_eq!(reader.join().expect("the reader hears all"), (0..whole).collect::<Vec<_>>());
}

/// Sends a chunk; true when the message is out whole.
fn push(from: &mut Process, lane: Lane, number: u32, data: &[u8], taken: &mut Option<usize>) -> bool {
    let rest = Payload::from(&data[taken.unwrap_or(0)..]);
    let posted = match taken {
        None => from.tcp.post(lane, &numbered(number), rest),
        Some(_) => from.tcp.resume(lane, rest),
    };
    match posted {
        Posted::Sent => *taken = None,
        Posted::Partly(bytes) => *taken = Some(taken.unwrap_or(0) + bytes),
        Posted::Busy => {}
    }
    posted == Posted::Sent
}
