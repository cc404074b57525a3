//! Descriptors: none leaks, and running out of them is an error that says what to do.
//!
//! One test in a program of its own, since the limit and the count are the whole process'.

mod common;

use common::{Process, descriptors, until};
use fabric::{Fabric, Fault, Peer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tcp::{Settings, Tcp};

#[test]
fn none_leaks_and_running_out_is_told() {
    let before = descriptors();
    for round in 0..20 {
        exchange_and_end(round);
        assert_eq!(descriptors(), before, "round {round} leaks");
    }
    let limit = getrlimit(Resource::Nofile);
    opening_without_descriptors();
    dialling_without_descriptors();
    knocking_without_descriptors();
    assert_eq!(getrlimit(Resource::Nofile), limit, "the limit is as it was");
    assert_eq!(descriptors(), before, "an error leaks");
}

/// Three meet; one ends in good order, one is left in the middle of its dial.
fn exchange_and_end(round: u32) {
    let mut all = [Process::open(0), Process::open(1), Process::open(2)];
    let [first, second, third] = &mut all;
    let lane = first.connect(second, 1);
    second.connect(first, 0);
    third.connect(first, 0);
    let mut is_sent = false;
    until("meeting", &mut all, |all| {
        is_sent = is_sent || all[0].post(lane, round);
        all[1].heard.count() == 1
    });
}

/// Allows `more` descriptors than are open now, until the end of `during`.
fn with_descriptors<T>(more: usize, during: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    // The limit is on the numbers and not on how many there are, so gaps between open ones count as free.
    let open = common::open_descriptors();
    let free = (0..).filter(|number| !open.contains(number));
    let highest = free.take(more + 1).last().expect("numbers do not end");
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest as u64), maximum: limit.maximum })
        .expect("a lower limit");
    let result = during();
    setrlimit(Resource::Nofile, limit).expect("the old limit");
    result
}

fn opening_without_descriptors() {
    for more in 0..4 {
        let opened = with_descriptors(more, || Tcp::open(Peer(0), Settings::default()).err());
        let error = opened.unwrap_or_else(|| panic!("a fabric opened with {more} descriptors"));
        assert_eq!(error.fault, Fault::Resources, "{error}");
        assert!(error.what.contains("ulimit -n"), "{error}");
    }
}

fn dialling_without_descriptors() {
    let (mut left, right) = (Process::open(0), Process::open(1));
    let address = right.tcp.address();
    let error = with_descriptors(0, || failure(&mut left, &address));
    assert_eq!(error.fault, Fault::Resources, "{error}");
    assert!(error.what.contains("ulimit -n"), "{error}");
    let mut pair = [left, right];
    let [left, right] = &mut pair;
    let lane = left.connect(right, 1);
    let mut is_sent = false;
    until("a second try with descriptors", &mut pair, |pair| {
        is_sent = is_sent || pair[0].post(lane, 1);
        pair[1].heard.count() == 1
    });
}

/// The acceptor cannot take the connection: the one who dials is told why, and the door opens again later.
fn knocking_without_descriptors() {
    let (left, right) = (Process::open(0), Process::open(1));
    let mut pair = [left, right];
    let [left, right] = &mut pair;
    left.connect(right, 1);
    with_descriptors(0, || {
        until("the refusal is told", &mut pair, |pair| !pair[0].heard.lost.is_empty());
    });
    let (peer, error) = &pair[0].heard.lost[0];
    assert_eq!((*peer, error.fault), (Peer(1), Fault::Resources), "{error}");
    assert!(error.what.contains("no file descriptor left") && error.what.contains("ulimit -n"), "{error}");
    let [_, right] = pair;
    let mut third = Process::open(2);
    let lane = third.connect(&right, 1);
    let mut pair = [right, third];
    let mut is_sent = false;
    until("the door opens again", &mut pair, |pair| {
        is_sent = is_sent || pair[1].post(lane, 1);
        pair[0].heard.count() == 1
    });
}

/// The error of a connection that cannot be made, told at once or later.
fn failure(process: &mut Process, address: &[u8]) -> fabric::FabricError {
    match process.tcp.connect(Peer(1), address) {
        Err(error) => error,
        Ok(_) => {
            let one = std::slice::from_mut(process);
            until("the failure is told", one, |one| !one[0].heard.lost.is_empty());
            process.heard.lost.remove(0).1
        }
    }
}
