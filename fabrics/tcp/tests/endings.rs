//! How connections end: in good order, by death, by nobody being there.

mod common;

use common::{Process, until};
use fabric::{Fabric, Fault, Header, Payload, Peer, Posted};

/// Two processes that have exchanged one message each way.
fn met() -> ([Process; 2], [tcp::Lane; 2]) {
    let mut pair = [Process::open(0), Process::open(1)];
    let [left, right] = &mut pair;
    let lanes = [left.connect(right, 1), right.connect(left, 0)];
    let mut is_sent = [false; 2];
    until("meeting", &mut pair, |pair| {
        for side in 0..2 {
            is_sent[side] = is_sent[side] || pair[side].post(lanes[side], 0);
        }
        pair.iter().all(|process| process.heard.count() == 1)
    });
    (pair, lanes)
}

#[test]
fn an_end_in_good_order_is_no_loss() {
    let ([mut left, mut right], [_, to_left]) = met();
    assert!(right.post(to_left, 9));
    assert!(right.tcp.flush());
    drop(right);
    for _ in 0..1000 {
        left.poll();
    }
    assert_eq!(left.heard.numbers(1), [0, 9], "what was sent before the end arrives");
    assert!(left.heard.lost.is_empty(), "{:?}", left.heard.lost);
}

#[test]
fn who_leaves_says_goodbye_and_may_live_on() {
    let ([mut left, mut right], [_, to_left]) = met();
    assert!(right.post(to_left, 9));
    assert!(right.tcp.leave(), "there is room for a goodbye");
    for _ in 0..1000 {
        left.poll();
    }
    assert!(left.tcp.has_ended(Peer(1)), "it was told");
    assert_eq!(left.heard.numbers(1), [0, 9], "what was sent before is here");
    // As at the end of a process that says nothing more.
    std::mem::forget(right);
    for _ in 0..1000 {
        left.poll();
    }
    assert!(left.heard.lost.is_empty(), "{:?}", left.heard.lost);
}

/// One dials and leaves after each number of turns: whenever the other has taken the connection, it finds a
/// goodbye there.
#[test]
fn who_leaves_while_it_dials_is_not_lost() {
    let (mut taken, mut turns) = (0, 0);
    // Until it has come all the way in many cases.
    while taken < 20 {
        turns += 1;
        assert!(turns < 2000, "in {turns} turns a connection is made");
        let (mut left, mut right) = (Process::open(0), Process::open(1));
        let _ = right.connect(&left, 0);
        for turn in 0..turns {
            // The one who is dialled sometimes lags behind.
            right.poll();
            if turn % 3 != 0 {
                left.poll();
            }
        }
        let mut one = [left];
        until("leaving", &mut one, |one| {
            one[0].poll();
            right.poll();
            right.tcp.leave()
        });
        let [mut left] = one;
        for _ in 0..100 {
            left.poll();
        }
        assert!(left.heard.lost.is_empty(), "after {turns} turns: {:?}", left.heard.lost);
        taken += u32::from(left.tcp.has_ended(Peer(1)));
    }
}

#[test]
fn a_message_to_one_that_has_ended_is_a_loss() {
    let ([mut left, right], [to_right, _]) = met();
    drop(right);
    for _ in 0..1000 {
        left.poll();
    }
    assert!(left.post(to_right, 1), "a message to the lost counts as sent, since the loss is told");
    let mut one = [left];
    until("the loss is told", &mut one, |one| !one[0].heard.lost.is_empty());
    let (peer, error) = &one[0].heard.lost[0];
    assert_eq!((*peer, error.fault), (Peer(1), Fault::Died));
    assert!(error.what.contains("process 1 on") && error.what.contains("good order"), "{error}");
}

#[test]
fn a_death_is_told_with_name_and_address() {
    let ([left, right], _) = met();
    let address = right.tcp.addresses()[0];
    // A panic is no end in good order: no goodbye is said.
    let dead = std::thread::spawn(move || {
        let _right = right;
        std::panic::resume_unwind(Box::new("a process dies"));
    });
    assert!(dead.join().is_err());
    let mut one = [left];
    until("the death is told", &mut one, |one| !one[0].heard.lost.is_empty());
    let (peer, error) = &one[0].heard.lost[0];
    assert_eq!((*peer, error.fault), (Peer(1), Fault::Died));
    for part in ["process 1 on", "127.0.0.1", "without a goodbye"] {
        assert!(error.what.contains(part), "{part} is missing in: {error} ({address})");
    }
    for _ in 0..100 {
        one[0].poll();
    }
    assert_eq!(one[0].heard.lost.len(), 1, "a loss is told once");
}

#[test]
fn a_death_in_the_middle_of_a_message_is_told() {
    // All but 16 bytes go out with the first call if the socket has room; a goodbye in their place would make
    // the message look whole.
    for bytes in [(512 << 10) + 16, 64 << 20] {
        let ([mut left, mut right], [_, to_left]) = met();
        let data = vec![1; bytes];
        let posted = right.tcp.post(to_left, &Header::default(), Payload::from(&data[..]));
        let Posted::Partly(taken) = posted else { panic!("{bytes} bytes went out at once: {posted:?}") };
        drop(right);
        let one = std::slice::from_mut(&mut left);
        until("the death is told", one, |one| !one[0].heard.lost.is_empty());
        assert_eq!(left.heard.lost[0].1.fault, Fault::Died, "{taken} of {bytes} bytes were taken");
        assert_eq!(left.heard.numbers(1), [0], "a message that is not whole is none");
    }
}

#[test]
fn posts_to_the_dead_do_not_block() {
    let ([mut left, right], [to_right, _]) = met();
    let dead = std::thread::spawn(move || {
        let _right = right;
        std::panic::resume_unwind(Box::new("a process dies"));
    });
    assert!(dead.join().is_err());
    // Without a poll in between, as a program that only sends: every answer must come, and the end be told.
    let data = [1; 1000];
    for _ in 0..10_000 {
        let _ = left.tcp.post(to_right, &Header::default(), Payload::from(&data[..]));
    }
    let mut one = [left];
    until("the death is told", &mut one, |one| !one[0].heard.lost.is_empty());
    assert_eq!(one[0].heard.lost[0].1.fault, Fault::Died);
    assert_eq!(one[0].tcp.post(to_right, &Header::default(), Payload::EMPTY), Posted::Sent);
}

#[test]
fn one_that_is_gone_before_the_first_message_is_unreachable() {
    let mut left = Process::open(0);
    let right = Process::open(1);
    let address = right.tcp.address();
    drop(right);
    let error = match left.tcp.connect(Peer(1), &address) {
        Err(error) => error,
        Ok(_) => {
            let one = std::slice::from_mut(&mut left);
            until("the failure is told", one, |one| !one[0].heard.lost.is_empty());
            left.heard.lost.remove(0).1
        }
    };
    assert_eq!(error.fault, Fault::Unreachable);
    assert!(error.what.contains("127.0.0.1"), "{error}");
}

#[test]
fn nobody_dials_himself() {
    let mut left = Process::open(0);
    let address = left.tcp.address();
    assert_eq!(left.tcp.reach(Peer(0), &address), None);
    assert_eq!(left.tcp.connect(Peer(0), &address).expect_err("itself").fault, Fault::Unreachable);
}
