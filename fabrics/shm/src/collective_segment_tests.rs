//! Collective segments: what members write, who may write over it, and what is left when they are gone.

use super::*;
use fabric::slots::{Credit, DEPTH, LINE_BYTES_MAX, SLOT_BYTES_MAX};

fn collective_segments(process_slots: u32) -> CollectiveSegments {
    let segment = Segment::adopt(Segment::create(process_slots).unwrap(), process_slots).unwrap();
    CollectiveSegments::new(segment, &(10..10 + process_slots).map(Peer).collect::<Vec<_>>(), false)
}

fn all(collective_segments: &CollectiveSegments, members: u32) -> Vec<CollectiveSegment> {
    let number = collective_segments.found(members).unwrap();
    (0..members)
        .map(|here| collective_segments.join(number, here, (10..10 + members).map(Peer)).unwrap())
        .collect()
}

#[test]
fn an_entry_is_seen_by_all_and_under_its_number_alone() {
    let members = all(&collective_segments(3), 3);
    let data: Vec<u8> = (0..200).collect();
    members[1].put(1, [Payload::from(&data[..150]), Payload::from(&data[150..])]);
    for member in &members {
        assert!(member.has(1, 1) && !member.has(0, 1) && !member.has(1, 2) && !member.has(1, 1 + DEPTH));
        assert_eq!(member.read(1, 1, member.announced(1, 1)[0] as usize, |payload| payload.to_vec()), data);
    }
    members[1].put(2, [Payload::EMPTY; 2]);
    assert!(members[0].has(1, 1) && members[0].has(1, 2), "the last few stay");
    assert!(!members[0].has(3, 1), "there is no such member");
}

/// A slot of one line is written in one step, and is as any other.
#[test]
fn entries_of_any_length_are_alike() {
    let members = all(&collective_segments(2), 2);
    let data: Vec<u8> = (0..SLOT_BYTES_MAX).map(|at| at as u8).collect();
    for number in 1..=4 * DEPTH {
        let (writer, reader) = (number % 2, 1 - number % 2);
        let bytes = number as usize * 7 % (2 * LINE_BYTES_MAX);
        assert!(!members[reader as usize].has(writer, number));
        members[writer as usize].put(number, [Payload::from(&data[..bytes]), Payload::EMPTY]);
        assert!(!members[writer as usize].has(reader, number), "that is the other's");
        let reader = &members[reader as usize];
        assert!(reader.has(writer, number) && reader.has_all(writer, number, bytes));
        assert_eq!(reader.announced(writer, number), [bytes as u32, 0]);
        assert_eq!(reader.read(writer, number, bytes, |payload| payload.to_vec()), data[..bytes]);
        members[writer as usize].consume(number);
        assert_eq!(reader.consumed(writer), number);
    }
}

#[test]
fn members_say_how_far_they_are() {
    let members = all(&collective_segments(2), 2);
    let before = Credit::default().number();
    assert_eq!([0, 1].map(|place| members[0].consumed(place)), [before, before]);
    members[1].consume(7);
    assert_eq!([0, 1].map(|place| members[0].consumed(place)), [before, 7]);
}

#[test]
fn members_say_where_they_stand_and_what_they_do_elsewhere() {
    let members = all(&collective_segments(3), 3);
    let first = Credit::default().next();
    let (before, second) = (first.wrapping_sub(1), first.wrapping_add(1));
    let [one, other, third] = &members[..] else { unreachable!("there are three") };
    assert!(
        (0..3).all(|place| !one.will_not_write(place, first, 0) && !one.has_passed_over(place, before, 1))
    );
    other.put(first, [Payload::EMPTY; 2]);
    assert!(one.has_passed_over(1, before, 1) && !one.has_passed_over(1, before, 0));
    assert!(!one.will_not_write(1, first, 0) && !one.has_passed_over(1, first, 1));
    third.stand(first);
    assert!(one.will_not_write(2, first, 0) && !one.will_not_write(2, second, 0));
    assert!(one.has_passed_over(2, before, 1) && !one.has_passed_over(2, first, 1));
    one.consume(first);
    assert!(other.will_not_write(0, first, 0), "who is through has written what it had to");
    other.say_elsewhere(14);
    assert!(one.will_not_write(1, second, 13) && !one.will_not_write(1, second, 14));
    assert!(!one.has_passed_over(1, before, 14) && one.has_passed_over(1, before, 15));
    other.owe();
    other.owe();
    other.owe_no_more();
    assert!(other.owes() && !one.owes() && !one.will_not_write(1, second, 13), "it may write it yet");
    other.owe_no_more();
    assert!(!other.owes() && one.will_not_write(1, second, 13));
}

#[test]
fn members_say_what_they_have_given_up() {
    let collective_segments = collective_segments(2);
    let members = all(&collective_segments, 2);
    let asked = |begun: u32| members[0].has_given_up(1, begun);
    let around = || (0..20u32).chain((0..20).map(|back| u32::MAX - back));
    assert!(around().all(|begun| !asked(begun)), "nothing is given up at first, wherever numbers are");
    members[1].give_up(3);
    members[1].give_up(4);
    assert!(around().all(|begun| asked(begun) == (begun == 3 || begun == 4)));
    assert!(!members[1].has_given_up(0, 3) && !members[0].has_given_up(2, 3), "that one, and nobody else");
    members[1].give_up(11);
    assert!(asked(11) && asked(4) && !asked(3), "the last few");
    members[1].leave(&[]);
    members[1].give_up(5);
    assert!(!asked(5), "who has left says nothing on what may be others' board");
}

/// What somebody said half a round ago does not come true by itself.
#[test]
fn who_renews_says_where_it_stands() {
    let members = all(&collective_segments(2), 2);
    let first = Credit::default().next();
    let late = first.wrapping_add(1 << 31);
    members[1].stand(first);
    members[1].consume(late);
    assert!(members[0].will_not_write(1, late.wrapping_add(1), 0), "it is as if it had said so");
    members[1].renew(late.wrapping_add(1));
    assert!(!members[0].will_not_write(1, late.wrapping_add(1), 0));
}

#[test]
fn who_sleeps_is_woken_where_somebody_waits() {
    let members = all(&collective_segments(2), 2);
    let (memory, process_slot) = (members[0].segment.memory(), members[1].process_slots[1]);
    let armed = process_slot.arm(memory);
    members[0].wake();
    assert_eq!(process_slot.bell(memory).load(Ordering::Relaxed), armed, "that one waits for something else");
    members[1].await_others();
    members[1].wake();
    assert_eq!(process_slot.bell(memory).load(Ordering::Relaxed), armed, "nobody wakes itself");
    members[0].wake();
    assert_ne!(process_slot.bell(memory).load(Ordering::Relaxed), armed);
    members[1].await_no_more();
    assert!(!members[0].places.is_awaited(memory));
}

#[test]
fn entries_of_the_largest_collective_segment_stand_apart() {
    let members = all(&collective_segments(64), MEMBERS_MAX);
    let of = |place: u32, number: u32| vec![(place * DEPTH + number) as u8; SLOT_BYTES_MAX];
    for number in 1..=DEPTH {
        for (place, member) in members.iter().enumerate() {
            member.put(number, [Payload::from(&of(place as u32, number)[..]), Payload::EMPTY]);
            member.consume(number);
        }
    }
    for (place, number) in (0..MEMBERS_MAX).flat_map(|place| (1..=DEPTH).map(move |n| (place, n))) {
        assert!(members[0].has(place, number));
        let found =
            members[0].read(place, number, members[0].announced(place, number)[0] as usize, |payload| {
                payload.to_vec()
            });
        assert_eq!(found, of(place, number), "place {place}, entry {number}");
        assert_eq!(members[0].consumed(place), DEPTH);
    }
}

#[test]
fn a_collective_segment_is_free_again_with_its_last_member_and_clean() {
    let collective_segments = collective_segments(2);
    let numbers: Vec<u32> = std::iter::from_fn(|| collective_segments.found(2)).take(1000).collect();
    assert_eq!(numbers.len(), COLLECTIVE_SEGMENTS as usize, "each is had once");
    let join = |here| collective_segments.join(numbers[5], here, [10, 11].map(Peer).into_iter()).unwrap();
    let (first, second) = (join(0), join(1));
    first.put(1, [Payload::EMPTY; 2]);
    first.consume(9);
    drop(first);
    assert_eq!(collective_segments.found(2), None, "the other member still looks at it");
    drop(second);
    assert_eq!(collective_segments.found(2), Some(numbers[5]));
    let again = join(0);
    assert!(!again.has(0, 1) && again.consumed(0) == Credit::default().number());
}

#[test]
fn those_who_live_give_back_the_collective_segment_of_the_dead_as_well() {
    for members in [2, 3, 32, 33, 64] {
        let collective_segments = collective_segments(64);
        let mut left = all(&collective_segments, members);
        let number = left[0].number;
        // The last one has died, and has not left.
        std::mem::forget(left.pop());
        let last = left.pop().unwrap();
        left.iter().for_each(|collective_segment| collective_segment.leave(&[]));
        drop(left);
        assert_ne!(
            collective_segments.found(1),
            Some(number),
            "one who lives looks at it, {members} members"
        );
        last.leave(&[members - 1]);
        drop(last);
        assert!(
            (0..COLLECTIVE_SEGMENTS).any(|_| collective_segments.found(1) == Some(number)),
            "{members} members"
        );
    }
}

#[test]
fn what_is_no_collective_segment_is_none() {
    let collective_segments = collective_segments(2);
    assert_eq!(collective_segments.found(0), None);
    assert_eq!(collective_segments.found(MEMBERS_MAX + 1), None);
    let members = || [10, 11].map(Peer).into_iter();
    assert!(
        collective_segments.join(COLLECTIVE_SEGMENTS, 0, members()).is_none()
            && collective_segments.join(0, 2, members()).is_none()
    );
    assert!(
        collective_segments.join(0, 0, [10, 99].map(Peer).into_iter()).is_none(),
        "process 99 is elsewhere"
    );
}

#[test]
fn without_memory_there_is_none_and_none_is_lost() {
    let segment = Segment::adopt(Segment::create(2).unwrap(), 2).unwrap().on_a_full_machine();
    let collective_segments = CollectiveSegments::new(segment, &[10, 11].map(Peer), false);
    assert!((0..2 * COLLECTIVE_SEGMENTS).all(|_| collective_segments.found(2).is_none()));
    assert!(collective_segments.take(0), "it was given back");
}
