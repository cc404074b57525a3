//! Operations and epochs over memory that is shared and by messages: what each changes, and what is refused.

use datatype::{Datatype, Predefined};
use fabric::{Heap, Payload};
use messaging::{Data, Outcome, Target};

use super::*;
use crate::memory::sending;
use job::lock::Threads;

use crate::{Config, FabricName, Session, run_threads, run_threads_for};

/// Runs ranks over both fabrics; where the kernel may not reach memory of others, that goes by messages.
fn over_both<R: Send>(ranks: u32, body: impl Fn(&Session) -> R + Sync) {
    for (fabric, pull) in [(FabricName::Shm, true), (FabricName::Shm, false), (FabricName::Tcp, false)] {
        let config = Config { fabrics: vec![fabric], pull, ..Config::default() };
        run_threads(ranks, &config, &body).unwrap();
    }
}

/// A window of so many 64-bit integers, whose memory members share or have of their own, and what keeps it.
fn window(session: &Session, is_shared: bool, count: usize) -> (Window, Heap) {
    let world = session.world();
    let heap = Heap::new(8 * count);
    heap.memory().write_at(0, Payload::from(&vec![0u8; 8 * count][..]));
    let window = match is_shared {
        true => Window::allocate(&world, 8 * count, 8).unwrap(),
        false => Window::create(&world, heap.memory(), 8).unwrap(),
    };
    (window, heap)
}

fn packed(values: &[i64]) -> Heap {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let heap = Heap::new(bytes.len());
    heap.memory().write_at(0, Payload::from(&bytes[..]));
    heap
}

fn values(heap: &Heap) -> Vec<i64> {
    heap.payload().to_vec().as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect()
}

fn long() -> &'static Datatype {
    Predefined::Int64.datatype()
}

fn get(window: &Window, from: Rank, at: i64, count: usize) -> Vec<i64> {
    let room = Heap::new(8 * count);
    let elements = window.elements(from, at, count as i64, long()).unwrap();
    if let Begun::Underway(_) =
        window.get(&elements, Target::from(room.memory()), CompletedBy::Synchronization).unwrap()
    {
        window.flush(Some(from)).unwrap();
    }
    values(&room)
}

/// Every rank writes to every rank, short data and long, and reads it back in another epoch.
#[test]
fn what_is_put_is_there_in_the_next_epoch() {
    over_both(3, |session| {
        for is_shared in [true, false] {
            let (window, _heap) = window(session, is_shared, 9000);
            let here = i64::from(window.rank().0);
            for count in [1, 7, 900, 3000] {
                window.fence().unwrap();
                // Until the fence the data stays where it is.
                let data: Vec<Heap> = (0..3)
                    .map(|to| packed(&(0..count).map(|at| 1000 * at + 10 * here + to).collect::<Vec<_>>()))
                    .collect();
                for (to, data) in (0..).zip(&data) {
                    let elements = window.elements(Rank(to), 3000 * here, count, long()).unwrap();
                    window.put(Data::Row(sending(data)), &elements, CompletedBy::Synchronization).unwrap();
                }
                window.fence().unwrap();
                window.lock_all().unwrap();
                for (from, origin) in (0..3).flat_map(|from| (0..3).map(move |origin| (from, origin))) {
                    let there = get(&window, Rank(from), 3000 * origin, count as usize);
                    let right = (0..count).map(|at| 1000 * at + 10 * origin + i64::from(from));
                    assert!(right.eq(there), "{count} values of {origin} at {from}, shared {is_shared}");
                }
                window.unlock_all().unwrap();
            }
            window.free().unwrap();
        }
    });
}

/// Elements that all change at a time lose nothing, whoever changes them, and whatever they are.
#[test]
fn accumulates_are_atomic() {
    const ROUNDS: i64 = 60;
    over_both(4, |session| {
        for is_shared in [true, false] {
            let (window, _heap) = window(session, is_shared, 64);
            window.lock_all().unwrap();
            let one = packed(&[1]);
            let mut fetched = Vec::new();
            for _ in 0..ROUNDS {
                let elements = window.elements(Rank(0), 3, 1, long()).unwrap();
                let before = Heap::new(8);
                let what = (Operator::Sum, Predefined::Int64);
                let room = Target::from(before.memory());
                window
                    .get_accumulate(one.payload(), &elements, what, room, CompletedBy::Synchronization)
                    .unwrap();
                window.flush(Some(Rank(0))).unwrap();
                fetched.push(values(&before)[0]);
                // Bytes have no atomics of their own.
                let bytes = window.elements(Rank(0), 0, 8, Predefined::Int8.datatype()).unwrap();
                window
                    .accumulate(Payload::from(&[1; 8][..]), &bytes, (Operator::Sum, Predefined::Int8))
                    .unwrap();
            }
            assert!(fetched.is_sorted(), "one origin's accumulates are in order");
            window.unlock_all().unwrap();
            session.world().barrier().unwrap();
            window.lock(Rank(0), LockKind::Shared, false).unwrap();
            assert_eq!(get(&window, Rank(0), 3, 1), [4 * ROUNDS]);
            assert_eq!(get(&window, Rank(0), 0, 1), [i64::from_ne_bytes([4 * ROUNDS as u8; 8])]);
            window.unlock(Rank(0)).unwrap();
            window.free().unwrap();
        }
    });
}

/// What is read and written between an exclusive lock and its unlock nobody else changes.
#[test]
fn who_locks_exclusively_is_alone() {
    over_both(4, |session| {
        for is_shared in [true, false] {
            let (window, _heap) = window(session, is_shared, 8);
            for round in 0..40 {
                let target = Rank(round % 4);
                window.lock(target, LockKind::Exclusive, false).unwrap();
                let value = packed(&[get(&window, target, 5, 1)[0] + 1]);
                let elements = window.elements(target, 5, 1, long()).unwrap();
                window.put(Data::Row(sending(&value)), &elements, CompletedBy::Synchronization).unwrap();
                window.unlock(target).unwrap();
            }
            session.world().barrier().unwrap();
            window.lock_all().unwrap();
            let all: Vec<i64> = (0..4).flat_map(|rank| get(&window, Rank(rank), 5, 1)).collect();
            window.unlock_all().unwrap();
            assert_eq!(all, [40; 4], "shared {is_shared}");
            window.free().unwrap();
        }
    });
}

/// An epoch of a group is open to its members, and its target learns when they have completed theirs.
#[test]
fn groups_post_and_start() {
    over_both(4, |session| {
        for is_shared in [true, false] {
            let (window, _heap) = window(session, is_shared, 8);
            let (here, all) = (window.rank().0, window.group().clone());
            let others = Group::of([1, 2, 3].map(|by| all.peer(Rank((here + by) % 4)).unwrap()));
            for round in 0..10 {
                window.post(&others, false).unwrap();
                window.start(&others, false).unwrap();
                let value = packed(&[round * 10 + i64::from(here)]);
                for by in 1..4 {
                    let to = Rank((here + by) % 4);
                    let elements = window.elements(to, i64::from(here), 1, long()).unwrap();
                    window.put(Data::Row(sending(&value)), &elements, CompletedBy::Synchronization).unwrap();
                }
                let alone = window.elements(Rank(here), 0, 1, long()).unwrap_err();
                assert_eq!(alone.class, Class::RmaSync, "its own rank is not in the group");
                window.complete().unwrap();
                if round % 2 == 0 {
                    window.wait().unwrap();
                } else {
                    while !window.test().unwrap() {
                        std::thread::yield_now();
                    }
                }
                window.lock(Rank(here), LockKind::Shared, false).unwrap();
                let there = get(&window, Rank(here), 0, 4);
                window.unlock(Rank(here)).unwrap();
                let right = (0..4).map(|from| if from == i64::from(here) { 0 } else { round * 10 + from });
                assert!(right.eq(there), "round {round}, shared {is_shared}");
                session.world().barrier().unwrap();
            }
            window.free().unwrap();
        }
    });
}

/// What is outside of a target's memory is refused before a byte moves; of attached memory the target says
/// so.
#[test]
fn nothing_is_written_outside() {
    over_both(2, |session| {
        for is_shared in [true, false] {
            let (window, heap) = window(session, is_shared, 4);
            window.lock_all().unwrap();
            for (at, count) in [(4, 1), (0, 5), (-1, 1), (i64::MAX, 1), (i64::MAX / 8, 1)] {
                let error = window.elements(Rank(1), at, count, long()).unwrap_err();
                assert!(matches!(error.class, Class::RmaRange | Class::Displacement), "{at}: {error}");
            }
            window.unlock_all().unwrap();
            window.free().unwrap();
            drop(heap);
        }
        let dynamic = Window::create_dynamic(&session.world()).unwrap();
        dynamic.lock_all().unwrap();
        let (one, to) = (packed(&[1]), Rank(1 - dynamic.rank().0));
        let elements = dynamic.elements(to, 64, 1, long()).unwrap();
        dynamic.put(Data::Row(sending(&one)), &elements, CompletedBy::Synchronization).unwrap();
        assert_eq!(dynamic.flush(Some(to)).unwrap_err().class, Class::RmaRange);
        dynamic.flush(Some(to)).expect("it is told once");
        let own = dynamic.elements(dynamic.rank(), 64, 1, long()).unwrap();
        assert_eq!(
            dynamic.put(Data::Row(sending(&one)), &own, CompletedBy::Synchronization).unwrap_err().class,
            Class::RmaRange
        );
        dynamic.unlock_all().unwrap();
        dynamic.free().unwrap();
    });
}

/// A request's outcome belongs to who has the request, and a flush waits for it all the same.
#[test]
fn operations_with_requests_end_with_them_or_with_a_flush() {
    over_both(2, |session| {
        let (window, _heap) = window(session, false, 4000);
        let to = Rank(1 - window.rank().0);
        window.lock_all().unwrap();
        let data = packed(&vec![i64::from(window.rank().0) + 7; 3000]);
        let room = Heap::new(8 * 3000);
        let elements = window.elements(to, 0, 3000, long()).unwrap();
        let ended = |begun| match begun {
            Begun::Locally => true,
            Begun::Underway(request) => {
                let Outcome { failure, .. } = window.communicator().wait(request);
                failure.is_none()
            }
        };
        assert!(ended(window.put(Data::Row(sending(&data)), &elements, CompletedBy::Request).unwrap()));
        window.flush(Some(to)).unwrap();
        let begun = window.get(&elements, Target::from(room.memory()), CompletedBy::Request).unwrap();
        window.flush(Some(to)).unwrap();
        assert!(values(&room) == values(&data), "the flush has waited for the get");
        assert!(ended(begun));
        window.unlock_all().unwrap();
        window.free().unwrap();
    });
}

/// A target that computes, and calls nothing, is served by the progress thread.
#[test]
fn a_target_that_computes_is_served() {
    for fabric in [FabricName::Shm, FabricName::Tcp] {
        let config = Config { fabrics: vec![fabric], pull: false, ..Config::default() };
        let is_done = AtomicBool::new(false);
        run_threads_for(Threads::Many, 2, &config, |session| {
            let (window, _heap) = window(session, false, 4000);
            session.world().barrier().unwrap();
            if window.rank() == Rank(0) {
                let data = packed(&vec![7; 3000]);
                let elements = |window: &Window| window.elements(Rank(1), 0, 3000, long()).unwrap();
                for _ in 0..20 {
                    window.lock(Rank(1), LockKind::Exclusive, false).unwrap();
                    window
                        .put(Data::Row(sending(&data)), &elements(&window), CompletedBy::Synchronization)
                        .unwrap();
                    window.flush(Some(Rank(1))).unwrap();
                    assert_eq!(get(&window, Rank(1), 2999, 1), [7]);
                    window.unlock(Rank(1)).unwrap();
                }
                is_done.store(true, Ordering::SeqCst);
            } else {
                let since = std::time::Instant::now();
                while !is_done.load(Ordering::SeqCst) {
                    assert!(since.elapsed().as_secs() < 60, "{}", session.world().process().describe());
                    std::thread::yield_now();
                }
            }
            window.free().unwrap();
        })
        .unwrap();
    }
}
