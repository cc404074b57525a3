use std::sync::atomic::AtomicU32;

use super::*;
use crate::MemberList;

fn died(peer: u32) -> FabricError {
    FabricError { fabric: "test", fault: Fault::Died, what: format!("process {peer} has died") }
}

#[test]
fn a_failure_concerns_those_that_it_was_a_member_of_and_is_noted_once() {
    let failures = Failures::default();
    let (two, other) = (
        failures.watch(4, 0, Rank(0), Arc::new(MemberList(vec![7, 8]))),
        failures.watch(6, 0, Rank(0), Arc::new(MemberList(vec![7]))),
    );
    assert_eq!(failures.note(Peer(8), &died(8)), [4]);
    assert_eq!(failures.note(Peer(8), &died(8)), []);
    assert!(two.is_closed() && !other.is_closed());
    assert_eq!(failures.note(Peer(7), &died(7)), [4, 6]);
    assert_eq!(
        (failures.all(), failures.of(&two), failures.of(&other)),
        (vec![Peer(8), Peer(7)], vec![Peer(8), Peer(7)], vec![Peer(7)])
    );
    assert_eq!(failures.broken(5), Some(died(8)));
    assert_eq!(failures.broken(4), None, "that is the context of messages between two");
    let late = failures.watch(10, 0, Rank(0), Arc::new(MemberList(vec![1, 8])));
    assert!(late.is_closed() && failures.of(&late) == [Peer(8)]);
}

#[test]
fn who_wants_to_be_told_of_failures_is_told_once_of_each() {
    let (failures, told) = (Failures::default(), Arc::new(AtomicU32::new(0)));
    let counts = Arc::clone(&told);
    failures.note(Peer(7), &died(7));
    failures.tell(move || {
        counts.fetch_add(1, Ordering::Relaxed);
    });
    for peer in [7, 8, 9, 8] {
        failures.note(Peer(peer), &died(peer));
    }
    assert_eq!(told.load(Ordering::Relaxed), 2);
}

#[test]
fn acknowledging_covers_what_was_known_and_no_more() {
    let failures = Failures::default();
    let standing = failures.watch(4, 0, Rank(0), Arc::new(MemberList(vec![7, 8, 9])));
    failures.note(Peer(9), &died(9));
    assert_eq!(failures.acknowledge(&standing, 0), 0);
    assert_eq!(failures.unacknowledged(4), Some(died(9)));
    assert_eq!(failures.acknowledge(&standing, 5), 1);
    assert_eq!(failures.unacknowledged(4), None);
    failures.note(Peer(7), &died(7));
    assert_eq!(failures.unacknowledged(4), Some(died(7)));
    assert_eq!(failures.acknowledge(&standing, 1), 1, "what is acknowledged stays so");
    assert!(failures.broken(5).is_some(), "acknowledging mends no collective operation");
}

#[test]
fn a_recovery_acknowledges_those_whom_it_has_decided_on_and_nobody_else() {
    // What was heard of first is not what was decided; and of one that was decided on is heard later.
    let failures = Failures::default();
    let standing = failures.watch(4, 0, Rank(0), Arc::new(MemberList(vec![6, 7, 8, 9])));
    failures.note(Peer(9), &died(9));
    failures.note(Peer(8), &died(8));
    failures.settle(&standing, vec![Peer(8), Peer(7)]);
    assert_eq!(failures.unacknowledged(4), Some(died(9)));
    assert_eq!(failures.note(Peer(7), &died(7)), [5], "it was decided, and hinders no message");
    assert_eq!(failures.acknowledge(&standing, 1), 3, "the two others were acknowledged");
    assert_eq!(failures.unacknowledged(4), None);
}

#[test]
fn who_comes_into_the_place_of_the_dead_is_a_member_as_the_others() {
    let failures = Failures::default();
    let before = failures.watch(4, 3, Rank(0), Arc::new(MemberList(vec![6, 7, 8])));
    failures.note(Peer(8), &died(8));
    let after = failures.settle_among(&before, vec![Peer(8)], Arc::new(MemberList(vec![6, 7, 9])));
    assert_eq!((after.context(), after.identity(), failures.unacknowledged(4)), (4, 3, None));
    drop(before);
    assert_eq!(failures.broken(5), Some(died(8)), "what had begun among all never ends");
    assert_eq!(failures.note(Peer(9), &died(9)), [4]);
    assert_eq!(failures.unacknowledged(4), Some(died(9)));
    failures.note(Peer(10), &died(10));
    let _last = failures.settle_among(&after, vec![Peer(9)], Arc::new(MemberList(vec![6, 7, 10])));
    assert_eq!(
        failures.unacknowledged(4),
        Some(died(10)),
        "it has died since, and the two before are settled"
    );
    assert!(failures.note(Peer(8), &died(8)).is_empty());
}

#[test]
fn who_is_blank_does_not_break_what_becomes_strict() {
    let failures = Failures::default();
    let standing = failures.watch(4, 0, Rank(0), Arc::new(MemberList(vec![6, 7, 8])));
    failures.note(Peer(8), &died(8));
    failures.settle(&standing, vec![Peer(8)]);
    standing.set_strict(true);
    assert_eq!(failures.broken(4), None);
    assert_eq!(failures.broken(5), Some(died(8)), "what had begun among all never ends");
    assert!(!failures.any_guarded() && standing.is_closed());
    assert_eq!(failures.note(Peer(7), &died(7)), [4]);
    assert_eq!(failures.broken(4), Some(died(7)));
    assert!(failures.any_guarded());
}

#[test]
fn communicators_that_are_gone_are_forgotten() {
    let failures = Failures::default();
    for context in 0..if cfg!(miri) { 4 * WATCHED_MIN as u32 } else { 10_000 } {
        drop(failures.watch(2 * context, 0, Rank(0), Arc::new(MemberList(vec![1]))));
    }
    assert!(failures.hold().watched.len() <= WATCHED_MIN);
    let kept = failures.watch(2, 0, Rank(0), Arc::new(MemberList(vec![1])));
    drop(failures.watch(4, 0, Rank(0), Arc::new(MemberList(vec![1]))));
    assert_eq!(failures.note(Peer(1), &died(1)), [2]);
    assert!(kept.is_closed());
}
