//! Operations of two members on a collective segment one behind another, so many that slots come to stand
//! where others stood. (Three that wait for each other have more orders than can be tried.)

use fabric::Payload;
use loom::sync::Arc;
use loom::thread;

use super::{Futex, model};
use crate::layout::{
    COLLECTIVE_SEGMENT_PLACE_BYTES, COLLECTIVE_SEGMENT_PLACES, LINE, PROCESS_SLOT_KNOCKS,
    staging_buffers_bytes,
};
use crate::memory::Lines;
use crate::process_slot::ProcessSlot;
use crate::slot_table::SlotTable;
use crate::staging_buffers::StagingBuffers;
use fabric::slots::{Chunk, Credit, DEPTH, Ring, is_before, is_room};

/// What the members do: everybody writes and reads all, or one writes and the others read.
#[derive(Clone, Copy)]
enum CollectiveStep {
    Exchange,
    Bcast(u32),
    /// Two exchange so many chunks by staging buffers, each of which has a number.
    Chunks(Ring, u32),
    /// One of two gives so many.
    ChunksOf(u32, u32),
}

impl CollectiveStep {
    fn numbers(self) -> u32 {
        if let CollectiveStep::Chunks(_, chunks) | CollectiveStep::ChunksOf(_, chunks) = self {
            chunks
        } else {
            1
        }
    }
}

#[test]
fn exchanges_of_two_are_whole_round_all_entries() {
    operations(2, &[CollectiveStep::Exchange; DEPTH as usize + 1]);
}

#[test]
fn a_root_ahead_writes_over_nothing_unread() {
    operations(2, &[CollectiveStep::Bcast(0); DEPTH as usize + 2]);
}

#[test]
fn roots_in_turn_write_over_nothing_unread() {
    operations(
        2,
        &[
            CollectiveStep::Bcast(0),
            CollectiveStep::Bcast(1),
            CollectiveStep::Bcast(0),
            CollectiveStep::Exchange,
            CollectiveStep::Bcast(1),
        ],
    );
}

#[test]
fn chunks_that_are_exchanged_are_whole_round_all_staging_buffers() {
    operations(2, &[CollectiveStep::Chunks(Ring::Short, 3)]);
}

#[test]
fn chunks_of_operations_that_follow_are_whole() {
    operations(2, &[CollectiveStep::Chunks(Ring::Short, 1), CollectiveStep::Chunks(Ring::Short, 2)]);
}

#[test]
fn chunks_that_go_one_way_write_over_nothing_unread() {
    operations(2, &[CollectiveStep::ChunksOf(0, 4)]);
}

#[test]
fn chunks_that_go_one_way_and_the_other_write_over_nothing_unread() {
    operations(
        2,
        &[
            CollectiveStep::ChunksOf(0, 2),
            CollectiveStep::ChunksOf(1, 1),
            CollectiveStep::Chunks(Ring::Short, 1),
        ],
    );
}

/// What goes through one ring says nothing of the staging buffers of the other.
#[test]
fn chunks_of_both_rings_in_turn_write_over_nothing_unread() {
    operations(
        2,
        &[
            CollectiveStep::Chunks(Ring::Short, 1),
            CollectiveStep::Chunks(Ring::Long, 2),
            CollectiveStep::Chunks(Ring::Short, 1),
        ],
    );
}

/// A member that sleeps is woken by the slot it waits for.
#[test]
fn nobody_sleeps_through_an_entry() {
    model(|| {
        let (memory, members) = founded(2);
        let futex = Arc::new(Futex::default());
        let (theirs, waker, writer) = (memory.clone(), futex.clone(), members[0]);
        let number = Credit::default().next();
        let writing = thread::spawn(move || {
            writer.put(&*theirs, number, [Payload::EMPTY; 2]);
            if writer.is_awaited(&*theirs) && process_slot(1).must_wake(&*theirs) {
                waker.wake();
            }
        });
        let has = || members[1].has(&*memory, 0, number);
        members[1].await_others(&*memory);
        while !has() {
            let armed = process_slot(1).arm(&*memory);
            let is_late = has();
            if !is_late {
                futex.wait(process_slot(1).bell(&*memory), armed);
            }
            process_slot(1).disarm(&*memory);
        }
        members[1].await_no_more(&*memory);
        writing.join().unwrap();
    });
}

/// Who reads what a member has begun elsewhere sees the slots that it wrote before; and who sees what it
/// writes later, reads it.
#[test]
fn what_is_begun_elsewhere_has_its_place_among_entries() {
    model(|| {
        let (memory, members) = founded(2);
        let (theirs, writer, reader) = (memory.clone(), members[0], members[1]);
        let first = Credit::default().next();
        let later = first.wrapping_add(1);
        let writing = thread::spawn(move || {
            writer.put(&*theirs, first, [Payload::EMPTY; 2]);
            writer.say_elsewhere(&*theirs, 1);
            writer.put(&*theirs, later, [Payload::EMPTY; 2]);
            writer.stand(&*theirs, later);
        });
        assert!(!reader.will_not_write(&*memory, (0, first), 0), "it was there before anything followed");
        assert!(
            !reader.has_passed_over(&*memory, (0, first), 1),
            "what follows is seen behind what was begun"
        );
        assert!(!reader.will_not_write(&*memory, (0, later), 1), "it was there before it was said");
        writing.join().unwrap();
    });
}

/// Who sees that an operation elsewhere is given up sees what its member has written before, and nothing is
/// given up before it has begun.
#[test]
fn what_is_given_up_was_begun() {
    model(|| {
        let (memory, members) = founded(2);
        let (theirs, writer, reader) = (memory.clone(), members[0], members[1]);
        let first = Credit::default().next();
        let writing = thread::spawn(move || {
            writer.put(&*theirs, first, [Payload::EMPTY; 2]);
            writer.say_elsewhere(&*theirs, 1);
            writer.give_up(&*theirs, 1);
        });
        if reader.has_given_up(&*memory, 0, 1) {
            assert!(reader.has(&*memory, 0, first), "it was there before");
            assert!(!reader.has_passed_over(&*memory, (0, first.wrapping_sub(1)), 1), "it has begun it");
        }
        writing.join().unwrap();
    });
}

/// One thread of a member writes a slot that was owed while another one goes on: nothing is concluded from
/// what they say that is not so.
#[test]
fn an_entry_that_is_owed_is_awaited() {
    model(|| {
        let (memory, members) = founded(2);
        let (theirs, writer, reader) = (memory.clone(), members[0], members[1]);
        let first = Credit::default().next();
        let later = first.wrapping_add(1);
        let going_on = thread::spawn(move || {
            writer.owe(&*theirs);
            let late = theirs.clone();
            let writing = thread::spawn(move || {
                writer.put(&*late, first, [Payload::EMPTY; 2]);
                writer.owe_no_more(&*late);
            });
            writer.say_elsewhere(&*theirs, 1);
            writer.put(&*theirs, later, [Payload::EMPTY; 2]);
            if !writer.owes(&*theirs, 0) {
                writer.stand(&*theirs, later);
            }
            writing.join().unwrap();
        });
        assert!(!reader.has_passed_over(&*memory, (0, first), 1), "it has begun what comes between");
        assert!(!reader.will_not_write(&*memory, (0, first), 0), "it writes it in any case");
        going_on.join().unwrap();
    });
}

/// Two such slots: each is awaited until it is there.
#[test]
fn entries_that_are_owed_are_awaited_each() {
    model(|| {
        let (memory, members) = founded(2);
        let (theirs, writer, reader) = (memory.clone(), members[0], members[1]);
        let first = Credit::default().next();
        let later = first.wrapping_add(1);
        writer.owe(&*theirs);
        let going_on = thread::spawn(move || {
            let late = theirs.clone();
            let writing = thread::spawn(move || {
                writer.put(&*late, first, [Payload::EMPTY; 2]);
                writer.owe_no_more(&*late);
            });
            writer.owe(&*theirs);
            writer.say_elsewhere(&*theirs, 1);
            writer.put(&*theirs, later, [Payload::EMPTY; 2]);
            writer.owe_no_more(&*theirs);
            writing.join().unwrap();
        });
        assert!(!reader.will_not_write(&*memory, (0, later), 0));
        assert!(!reader.will_not_write(&*memory, (0, first), 0));
        going_on.join().unwrap();
    });
}

/// The last who leaves a collective segment makes it clean: nobody else still looks at it.
#[test]
fn one_member_is_the_last_on_a_collective_segment() {
    model(|| {
        let (memory, members) = founded(2);
        let (theirs, other) = (memory.clone(), members[1]);
        let first = members[0].through(&*memory, 1);
        let leaving = thread::spawn(move || {
            other.put(&*theirs, first, [Payload::from(&[1u8; 4][..]), Payload::EMPTY]);
            leave(other, &theirs)
        });
        let last = leave(members[0], &memory);
        assert!(last != leaving.join().unwrap(), "one of both");
    });
}

fn leave(places: SlotTable, memory: &Arc<Lines>) -> bool {
    let last = places.leave(&**memory, &[]);
    if last {
        SlotTable::found(&**memory, COLLECTIVE_SEGMENT, 1);
        SlotTable::new(COLLECTIVE_SEGMENT, 1, 2).put(&**memory, 7, [Payload::EMPTY; 2]);
    }
    last
}

/// By which ways operations go is the same at both: the one says it in the operation before, and the other
/// has heard it then.
#[test]
fn both_members_go_the_same_ways() {
    model(|| {
        let (memory, members) = founded(2);
        let (theirs, other) = (memory.clone(), members[1]);
        let listening = thread::spawn(move || go_by_ways(other, &theirs));
        go_by_ways(members[0], &memory);
        listening.join().unwrap();
    });
}

/// A few exchanges, of which each says how the next one goes.
fn go_by_ways(places: SlotTable, memory: &Arc<Lines>) {
    let (here, mut credit) = (places.here(), Credit::default());
    for ways in 0..4 {
        let number = credit.begin();
        assert_eq!(places.ways(&**memory, 0, number), ways);
        if here == 0 {
            places.say_ways(&**memory, 1 - ways as usize % 2, (number.wrapping_add(1), ways + 1));
        }
        give(places, memory, &mut credit);
        hear(places, memory, (1 - here, number));
        credit.heard_all();
        places.pass(&**memory, number);
    }
}

/// All members do these, by the rules of the caller above.
fn operations(members: u32, steps: &'static [CollectiveStep]) {
    model(move || {
        let (memory, places) = founded(members);
        let others: Vec<_> = places[1..]
            .iter()
            .map(|&places| {
                let memory = memory.clone();
                thread::spawn(move || run(places, &memory, steps))
            })
            .collect();
        run(places[0], &memory, steps);
        for other in others {
            other.join().unwrap();
        }
    });
}

fn run(places: SlotTable, memory: &Arc<Lines>, steps: &[CollectiveStep]) {
    let mut credit = Credit::default();
    let here = (0..places.members()).find(|&place| places.is_here(place)).unwrap();
    for step in steps {
        let number = credit.begin();
        credit.begin_up_to(number.wrapping_add(step.numbers() - 1));
        match *step {
            CollectiveStep::Chunks(ring, chunks) => {
                let [gives, gets] = [chunks; 2];
                pass_chunks(places, memory, &mut credit, Chunks { ring, first: number, gives, gets });
            }
            CollectiveStep::ChunksOf(giver, chunks) => {
                let [gives, gets] = if giver == here { [chunks, 0] } else { [0, chunks] };
                let ring = Ring::Short;
                pass_chunks(places, memory, &mut credit, Chunks { ring, first: number, gives, gets });
            }
            CollectiveStep::Exchange => {
                give(places, memory, &mut credit);
                others(places, here).for_each(|place| hear(places, memory, (place, number)));
                credit.heard_all();
            }
            CollectiveStep::Bcast(root) if root == here => give(places, memory, &mut credit),
            CollectiveStep::Bcast(root) => {
                hear(places, memory, (root, number));
                credit.heard_one();
            }
        }
        places.pass(&**memory, credit.number());
    }
}

/// What one of two gives and gets, from one number on.
#[derive(Clone, Copy)]
struct Chunks {
    ring: Ring,
    first: u32,
    gives: u32,
    gets: u32,
}

/// As the operation in the crate above does, but that it looks for ever.
fn pass_chunks(places: SlotTable, memory: &Arc<Lines>, credit: &mut Credit, of: Chunks) {
    let (here, mut given, mut taken) = (places.here(), 0, 0);
    let ring = of.ring;
    let staging_buffers = StagingBuffers::new(STAGING_BUFFERS_AT, here, 2);
    let data = |number: u32| [number as u8; 3];
    while given < of.gives || taken < of.gets {
        if given < of.gives && (given < taken + ring.ahead() || taken == of.gets) {
            let number = of.first.wrapping_add(given);
            if !credit.has_room_behind(number, ring.round(2)) {
                let least = number.wrapping_sub(ring.round(2));
                until(|| !is_before(places.through(&**memory, 1 - here), least));
                credit.all_consumed(places.through(&**memory, 1 - here));
            }
            staging_buffers.put(&**memory, ring, number, [Payload::from(&data(number)[..]), Payload::EMPTY]);
            places.announce(&**memory, number, [3 * of.gives, of.gives]);
            given += 1;
        } else {
            let number = of.first.wrapping_add(taken);
            until(|| places.has(&**memory, 1 - here, number));
            assert_eq!(places.announced(&**memory, 1 - here, number), [3 * of.gets, of.gets]);
            assert_eq!(
                staging_buffers
                    .read(&**memory, Chunk { ring, member: 1 - here, number }, 0..3, |chunk| chunk.to_vec()),
                data(number)
            );
            taken += 1;
            credit.heard_before(number.wrapping_sub((ring.ahead() - 1).min(taken - 1)));
            places.pass(&**memory, number);
        }
    }
}

/// As the operation in the crate above does, but that it looks for ever.
fn give(places: SlotTable, memory: &Arc<Lines>, credit: &mut Credit) {
    let number = credit.number();
    if !credit.has_room(number) {
        let here = (0..places.members()).find(|&place| places.is_here(place)).unwrap();
        let mut least = number;
        for place in others(places, here) {
            until(|| is_room(number, places.through(&**memory, place)));
            let through = places.through(&**memory, place);
            if is_before(through, least) {
                least = through;
            }
        }
        credit.all_consumed(least);
    }
    places.put(&**memory, number, [Payload::from(&[number as u8; 3][..]), Payload::EMPTY]);
}

fn hear(places: SlotTable, memory: &Arc<Lines>, (place, number): (u32, u32)) {
    until(|| places.has(&**memory, place, number));
    let bytes = places.bytes(&**memory, place, number);
    let come = places.read(&**memory, (place, number), bytes, |payload| payload.to_vec());
    assert_eq!(come, [number as u8; 3]);
}

fn others(places: SlotTable, here: u32) -> impl Iterator<Item = u32> {
    (0..places.members()).filter(move |&place| place != here)
}

fn until(so: impl Fn() -> bool) {
    while !so() {
        thread::yield_now();
    }
}

/// A collective segment in fresh memory, as all its members see it, behind a process slot for each.
fn founded(members: u32) -> (Arc<Lines>, Vec<SlotTable>) {
    let memory = Lines::shared(STAGING_BUFFERS_AT + staging_buffers_bytes(2));
    assert!(members <= 2, "the trays stand behind two places");
    SlotTable::found(&*memory, COLLECTIVE_SEGMENT, members);
    (memory, (0..members).map(|here| SlotTable::new(COLLECTIVE_SEGMENT, here, members)).collect())
}

fn process_slot(place: u32) -> ProcessSlot {
    ProcessSlot::at(place as usize * (PROCESS_SLOT_KNOCKS + LINE))
}

/// Behind two process slots.
const COLLECTIVE_SEGMENT: usize = 2 * (PROCESS_SLOT_KNOCKS + LINE);
/// Behind two places.
const STAGING_BUFFERS_AT: usize =
    COLLECTIVE_SEGMENT + COLLECTIVE_SEGMENT_PLACES + 2 * COLLECTIVE_SEGMENT_PLACE_BYTES;
