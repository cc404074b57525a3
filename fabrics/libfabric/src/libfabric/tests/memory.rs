//! Memory of peers, where things go wrong.

use super::faults::{Noting, connect, three, until};
use super::*;
use fabric::{Abilities, Atomic, Begun, Change, Elements, Heap, OneSided, Scalar, UserMemory};
use libfabric_sys::mock::MockAtomics;

/// So many bytes, all the same.
fn filled(byte: u8, bytes: usize) -> Heap {
    let heap = Heap::new(bytes);
    heap.memory().write_at(0, Payload::from(&vec![byte; bytes][..]));
    heap
}

/// Two ends, of which the right may use memory of the left.
fn sides(rules: Rules, bytes: usize) -> (Libfabric, Libfabric, Lane, Heap, crate::Remote) {
    let (mut left, mut right) = mocked(rules);
    let to_left = connect(&mut right, &left);
    let memory = Heap::new(bytes);
    let (_, key) = left.attach(memory.memory()).expect("memory is attached");
    let there = right.remote(to_left, &key).expect("a key");
    (left, right, to_left, memory, there)
}

#[test]
fn what_a_provider_lacks_is_not_offered_and_refused() {
    let sum = Atomic { change: Change::Sum, scalar: Scalar::I32 };
    let cases = [
        (Rules::NONE, true, true),
        (Rules { writes: false, atomics: MockAtomics::None, ..Rules::NONE }, false, false),
        (Rules { atomics: MockAtomics::Claimed, ..Rules::NONE }, true, false),
        // Without delivery a put could not be told from one that has only left; an atomic fetches instead.
        (Rules { delivers: false, ..Rules::NONE }, false, true),
    ];
    for (rules, put, atomics) in cases {
        let (mut left, mut right, lane, memory, there) = sides(rules, 64);
        assert_eq!(right.abilities(lane), Abilities { put, get: true });
        assert_eq!(right.atomic_count_max(lane, sum, false) > 0, atomics);
        let begun = right.put(lane, filled(1, 8).memory(), (there, 0), 1);
        assert_eq!(begun == Begun::Refused, !put, "{begun:?}");
        let operand = 7i32.to_ne_bytes();
        let elements = Elements {
            count: 1,
            operand: Payload::from(&operand[..]),
            compare: Payload::EMPTY,
            fetched: UserMemory::EMPTY,
        };
        let begun = right.atomic(lane, sum, elements, (there, 32), 2);
        assert_eq!(begun == Begun::Refused, !atomics, "{begun:?}");
        let mut heard = Noting::default();
        until("what was begun", || {
            left.poll(&mut Noting::default(), 16);
            right.poll(&mut heard, 16);
            heard.done.len() == usize::from(put) + usize::from(atomics)
        });
        assert!(heard.done.iter().all(|(_, outcome)| outcome.is_ok()), "{:?}", heard.done);
        let there = memory.payload().to_vec();
        assert_eq!((there[0] == 1, there[32] == 7), (put, atomics));
        assert_eq!(mock::broken_rules(), [""; 0]);
    }
}

#[test]
fn a_wrong_key_is_told_with_peer_provider_and_reason_and_costs_nothing() {
    let (mut left, mut right, lane, _memory, there) = sides(MEMORY, 10_000);
    left.detach(fabric::Attached(0));
    let room = Heap::new(9000);
    let mut heard = Noting::default();
    assert_eq!(right.put(lane, filled(1, 9000).memory(), (there, 0), 1), Begun::Underway);
    assert_eq!(right.put(lane, filled(1, 8).memory(), (there, 0), 2), Begun::Underway);
    assert_eq!(right.get(lane, (there, 0), room.memory(), 3), Begun::Underway);
    until("three failures", || {
        left.poll(&mut Noting::default(), 16);
        right.poll(&mut heard, 16);
        heard.done.len() == 3
    });
    for (ticket, outcome) in &heard.done {
        let error = outcome.as_ref().unwrap_err();
        for part in ["process 0 on ", "mock", "not offered any more"] {
            assert!(error.what.contains(part), "{ticket}: {part} is missing in {error}");
        }
    }
    for _ in 0..100 {
        left.poll(&mut Noting::default(), 16);
        right.poll(&mut heard, 16);
    }
    assert!(heard.lost.is_empty(), "{:?}", heard.lost);
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn an_error_told_twice_ends_no_other_operation() {
    let (mut left, mut right, lane, memory, there) = sides(Rules { tells_twice: true, ..MEMORY }, 100_000);
    let mut heard = Noting::default();
    for (bytes, ticket) in [(8, 1), (90_000, 3)] {
        let data = filled(ticket as u8, bytes);
        mock::change(|rules| rules.failing_percent = 100);
        assert_eq!(right.put(lane, data.memory(), (there, 0), ticket), Begun::Underway);
        mock::change(|rules| rules.failing_percent = 0);
        until("the first word of the failure", || {
            right.poll(&mut heard, 1);
            heard.ended_of(&[ticket]) == 1
        });
        assert_eq!(right.put(lane, data.memory(), (there, 0), ticket + 1), Begun::Underway);
        until("what was begun after it", || {
            right.poll(&mut heard, 16);
            left.poll(&mut Noting::default(), 16);
            heard.ended_of(&[ticket + 1]) == 1
        });
        assert!(heard.lost.is_empty(), "{:?}", heard.lost);
        let there = memory.payload().part(0, bytes).to_vec();
        assert!(there == data.payload().to_vec(), "told before it was written");
    }
    let outcomes: Vec<(u64, bool)> =
        heard.done.iter().map(|(ticket, outcome)| (*ticket, outcome.is_ok())).collect();
    assert_eq!(outcomes, [(1, false), (2, true), (3, false), (4, true)]);
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn all_that_was_begun_with_a_peer_ends_before_it_is_lost() {
    let [mut left, mut right, mut third] = three(MEMORY);
    let (to_left, to_third) = (connect(&mut right, &left), connect(&mut right, &third));
    let memory = [Heap::new(300_000), Heap::new(300_000)];
    let keys = [left.attach(memory[0].memory()).unwrap().1, third.attach(memory[1].memory()).unwrap().1];
    let there = right.remote(to_left, &keys[0]).unwrap();
    let other = right.remote(to_third, &keys[1]).unwrap();
    assert_eq!(right.put(to_left, filled(3, 300_000).memory(), (there, 0), 1), Begun::Underway);
    assert_eq!(right.put(to_left, filled(3, 8).memory(), (there, 0), 2), Begun::Underway);
    assert_eq!(right.put(to_third, filled(3, 300_000).memory(), (other, 0), 3), Begun::Underway);
    right.lose(Peer(0), trouble::was_lost("somebody"));
    assert_eq!(right.put(to_left, filled(3, 8).memory(), (there, 0), 4), Begun::Refused);
    let mut heard = Noting::default();
    until("the loss and the other", || {
        for fabric in [&mut left, &mut third] {
            fabric.poll(&mut Noting::default(), 16);
        }
        right.poll(&mut heard, 16);
        assert!(
            heard.lost.is_empty() || heard.ended_of(&[1, 2]) == 2,
            "lost before its operations have ended"
        );
        heard.lost.len() == 1 && heard.done.len() == 3
    });
    let third = heard.done.iter().find(|(ticket, _)| *ticket == 3).unwrap();
    assert!(third.1.is_ok() && memory[1].payload().to_vec() == [3; 300_000]);
    // It could not be gone on with.
    assert!(heard.done.iter().any(|(ticket, outcome)| *ticket == 1 && outcome.is_err()), "{:?}", heard.done);
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn memory_that_cannot_be_registered_for_peers_is_told_with_the_remedy() {
    let (mut left, _right) = mocked(MEMORY);
    mock::change(|rules| rules.regions_max = 4);
    let error = left.attach(Heap::new(4096).memory()).unwrap_err();
    assert_eq!(error.fault, Fault::Resources);
    assert!(error.what.contains("4096 bytes") && error.what.contains("ulimit -l"), "{error}");
}

#[test]
fn a_process_that_offers_memory_looks_often() {
    let (mut left, _right) = mocked(MEMORY);
    assert!(!left.is_hasty());
    let (attached, _) = left.attach(Heap::new(64).memory()).unwrap();
    assert!(left.is_hasty());
    left.detach(attached);
    assert!(!left.is_hasty());
}
