//! Ranks as threads of one process, over shm and over tcp: nothing in the library is a process global.

mod common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{on_each_fabric, on_each_fabric_for, on_fabrics_for};
use weft::claims::{Heap, Payload, UserMemory};
use weft::collectives::{self, Collective, Reduction};
use weft::{Class, Combining, Communicator, Config, FabricName, Operator, Rank, Threads, run_threads};

#[test]
fn a_ring_of_four() {
    on_each_fabric(4, |session| {
        let world = session.world();
        let (here, size) = (world.rank().0, world.size());
        let (next, before) = (Rank((here + 1) % size), Rank((here + size - 1) % size));
        for bytes in [1usize, 8, 100, 5000, 70_000, 1_000_000] {
            let mine = vec![here as u8; bytes];
            let mut theirs = vec![255u8; bytes];
            let status = world.exchange(&mine, next, &mut theirs, before, 3).unwrap();
            assert_eq!((status.source, status.tag, status.bytes), (before, 3, bytes));
            assert!(theirs.iter().all(|&byte| byte == before.0 as u8));
        }
    });
}

#[test]
fn requests_own_their_buffers() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        let values: Vec<f64> = (0..100_000).map(f64::from).collect();
        let receive = world.ireceive::<f64>(200_000, other, 1).unwrap();
        let send = world.isend(values.clone(), other, 1).unwrap();
        let (got, status) = receive.wait().unwrap();
        assert_eq!(status.bytes, 800_000);
        assert!(got == values);
        assert!(send.wait().unwrap().0 == values);
        // A receive that nobody answers is cancelled when it is dropped, and its message goes to the next.
        drop(world.ireceive::<f64>(4, other, 2).unwrap());
        world.barrier().unwrap();
        world.send(&[1.0f64], other, 2).unwrap();
        assert_eq!(world.receive::<f64>(None, 2).unwrap().0, [1.0]);
    });
}

#[test]
fn collectives_agree() {
    on_each_fabric(5, |session| {
        let world = session.world();
        let (here, size) = (i64::from(world.rank().0), i64::from(world.size()));
        assert_eq!(world.all_reduce(&[here, 1], Operator::Sum).unwrap(), [size * (size - 1) / 2, size]);
        assert_eq!(world.all_gather(&[here]).unwrap(), (0..size).collect::<Vec<_>>());
        assert_eq!(world.scan(&[here], Operator::Sum).unwrap(), [here * (here + 1) / 2]);
        let mut values = if here == 2 { vec![7u32; 50_000] } else { vec![0; 50_000] };
        world.broadcast(&mut values, Rank(2)).unwrap();
        assert!(values.iter().all(|&value| value == 7));
        let dealt = world.scatter(&(0..size).collect::<Vec<_>>(), 1, Rank(0)).unwrap();
        assert_eq!(dealt, [here]);
        let gathered = world.gather(&[here * 10], Rank(4)).unwrap();
        assert_eq!(gathered, (here == 4).then(|| (0..size).map(|rank| rank * 10).collect()));
        let swapped = world.all_to_all(&(0..size).map(|to| here * 100 + to).collect::<Vec<_>>()).unwrap();
        assert_eq!(swapped, (0..size).map(|from| from * 100 + here).collect::<Vec<_>>());
        let least = world.reduce(&[here], Operator::Min, Rank(1)).unwrap();
        assert_eq!(least, (here == 1).then(|| vec![0]));
        world.barrier().unwrap();
    });
}

#[test]
fn communicators_keep_their_traffic_apart() {
    on_each_fabric(4, |session| {
        let world = session.world();
        let twin = world.duplicate().unwrap();
        let here = world.rank().0;
        let half = world.split(Some(here % 2), -(here as i32)).unwrap().unwrap();
        assert_eq!((half.size(), half.rank()), (2, Rank(if here < 2 { 1 } else { 0 })));
        let none = world.split(None, 0).unwrap();
        assert!(none.is_none());
        if here == 0 {
            world.send(&[1u8], Rank(1), 5).unwrap();
            twin.send(&[2u8], Rank(1), 5).unwrap();
        } else if here == 1 {
            assert_eq!(twin.receive::<u8>(Rank(0), 5).unwrap().0, [2]);
            assert_eq!(world.receive::<u8>(Rank(0), 5).unwrap().0, [1]);
        }
        assert_eq!(half.all_reduce(&[here], Operator::Sum).unwrap(), [if here % 2 == 0 { 2 } else { 4 }]);
    });
}

#[test]
fn errors_tell_whom_and_what() {
    on_each_fabric(2, |session| {
        let world = session.world();
        if world.rank() == Rank(0) {
            world.send(&[1u64, 2, 3], Rank(1), 9).unwrap();
            world.send(&[0u8; 7], Rank(1), 10).unwrap();
            world.send(&[0u8; 3_000_001], Rank(1), 11).unwrap();
        } else {
            let error = world.receive_into(&mut [0u64; 2], Rank(0), 9).unwrap_err();
            assert_eq!(error.class, Class::Truncated);
            for word in ["MPI_COMM_WORLD", "rank 1", "rank 0", "tag 9", "24 bytes", "16 bytes"] {
                assert!(error.to_string().contains(word), "{word:?} is missing in {error}");
            }
            assert_eq!(world.receive::<u64>(Rank(0), 10).unwrap_err().class, Class::Type);
            // Its sender waits until somebody takes it, and is told nothing of that.
            assert_eq!(world.recv::<Vec<u64>>(Rank(0), 11).unwrap_err().class, Class::Type);
        }
        assert_eq!(world.send(&[1u8], Rank(2), 0).unwrap_err().class, Class::Rank);
        assert_eq!(world.send(&[1u8], Rank(0), -1).unwrap_err().class, Class::Tag);
        assert_eq!(world.broadcast(&mut [0u8], Rank(7)).unwrap_err().class, Class::Root);
        assert_eq!(world.all_reduce(&[1.5f64], Operator::BitAnd).unwrap_err().class, Class::Operator);
    });
}

#[test]
fn a_rank_may_have_several_sessions_of_one_job() {
    on_each_fabric(3, |session| {
        let names: Vec<&str> = session.process_sets().iter().map(weft::sets::ProcessSet::name).collect();
        assert_eq!(names, [weft::sets::WORLD, weft::sets::SELF, weft::sets::SHARED]);
        for _ in 0..10 {
            let (second, third) = (session.another(), session.another());
            assert_eq!(second.group(weft::sets::WORLD).unwrap().size(), 3);
            assert_eq!(third.group(weft::sets::SELF).unwrap().rank(second.process().here()), Some(Rank(0)));
            // Threads of one process share a node, also where they may use tcp only.
            assert_eq!(second.group(weft::sets::SHARED).unwrap().size(), 3);
            second.finish().unwrap();
            drop(third);
        }
        let missing = session.group("mpi://MOON").unwrap_err();
        assert!(
            missing.class == Class::Argument && missing.to_string().contains("mpi://SHARED"),
            "{missing}"
        );
        let sum = session.world().all_reduce(&[1], Operator::Sum).unwrap();
        assert_eq!(sum, [3], "the others have not ended the job");
    });
}

#[test]
fn process_sets_of_the_launcher_are_seen_by_their_members() {
    let mut config = Config::from_variables(&|name| {
        (name == "WEFT_PSETS").then(|| "app://ocean=2,0;app://ice=1".to_owned())
    })
    .unwrap();
    config.fabrics = vec![FabricName::Shm];
    let seen = run_threads(3, &config, |session| {
        let ocean = session.group("app://ocean").ok();
        ocean.map(|group| group.peers().map(|peer| peer.0).collect::<Vec<u32>>())
    });
    assert_eq!(seen.unwrap(), [Some(vec![2, 0]), None, Some(vec![2, 0])]);
    assert!(run_threads(2, &config, |_| ()).unwrap_err().what.contains("names rank 2"), "there are only two");
}

/// The other members get something, as from any member that combines wrongly, or an error, and nobody waits
/// for ever.
#[test]
fn a_function_that_panics_while_it_combines_takes_no_operation_with_it() {
    on_each_fabric(4, |session| {
        let world = session.world();
        let operator = collectives::Operator { element_bytes: 8, commutative: false };
        for count in [1, 50_000] {
            let reduction = Reduction { count, operator, in_place: false };
            let input: &'static [u8] = vec![0; 8 * count].leak();
            let output = Heap::new(8 * count);
            let (calls, here) = (Cell::new(0), world.rank().0);
            let combine = |input: Payload<'_>, other: Option<Payload<'_>>, inout: &mut UserMemory| {
                other.map(|other| inout.write_at(0, other));
                calls.set(calls.get() + 1);
                assert!(here != 0 || calls.get() > 1, "this function of the program has a bug");
                inout.write_at(0, input);
            };
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let (everywhere, input) = (Collective::Allreduce(reduction), Payload::from(input));
                world.perform(everywhere, input, output.memory(), Combining::By(&combine))
            }));
            let is_good = ended.is_ok_and(|ended| ended.is_ok());
            if count == 1 {
                assert_eq!(is_good, here != 0, "rank {here}");
            }
            // Of a long one the others are told where it goes by staging buffers (`segment/chunks_tests.rs`),
            // and not where by messages.
            assert!(!is_good || here != 0, "rank {here}");
            assert_eq!(world.all_reduce(&[here], Operator::Sum).unwrap(), [6]);
        }
    });
}

/// Of each rank some threads send and receive on one communicator, by blocking calls and by requests, some
/// from anybody, and some call collective operations on communicators of their own; and one waits all the
/// time.
#[test]
fn ranks_of_many_threads() {
    on_each_fabric_for(Threads::Many, 3, |session| {
        let world = session.world();
        let own: Vec<Communicator> = (0..4).map(|_| world.duplicate().unwrap()).collect();
        let (here, size) = (world.rank().0, world.size());
        let (next, before) = (Rank((here + 1) % size), Rank((here + size - 1) % size));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(world.receive::<u8>(before, LAST).unwrap().0, [7]));
            let workers = [
                scope.spawn(|| blocking(&world, next, before, 1)),
                scope.spawn(|| blocking(&world, next, before, 2)),
                scope.spawn(|| by_requests(&world, next, before, 3)),
                scope.spawn(|| by_requests(&own[0], next, before, 3)),
                scope.spawn(|| from_anybody(&own[1])),
                scope.spawn(|| collectively(&own[2])),
                scope.spawn(|| collectively(&own[3])),
            ];
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            world.send(&[7u8], next, LAST).unwrap();
        });
    });
}

const LAST: i32 = 99;
const ROUNDS: usize = 60;
const LENGTHS: [usize; 6] = [0, 1, 30, 500, 3000, 20_000];

fn values(from: Rank, tag: i32, round: usize) -> Vec<u32> {
    let first = from.0 * 1_000_003 + tag as u32 * 10_007 + round as u32;
    (first..).take(LENGTHS[(round + tag as usize) % LENGTHS.len()]).collect()
}

fn blocking(comm: &Communicator, next: Rank, before: Rank, tag: i32) {
    for round in 0..ROUNDS {
        let mine = values(comm.rank(), tag, round);
        let mut theirs = vec![0; LENGTHS[5]];
        let status = comm.exchange(&mine, next, &mut theirs, before, tag).unwrap();
        assert!(theirs[..status.bytes / 4] == values(before, tag, round), "round {round} of tag {tag}");
    }
}

fn by_requests(comm: &Communicator, next: Rank, before: Rank, tag: i32) {
    for round in (0..ROUNDS).step_by(4) {
        let receives: Vec<_> =
            (0..4).map(|_| comm.ireceive::<u32>(LENGTHS[5], before, tag).unwrap()).collect();
        let sends: Vec<_> =
            (0..4).map(|at| comm.isend(values(comm.rank(), tag, round + at), next, tag).unwrap()).collect();
        for (at, receive) in receives.into_iter().enumerate() {
            let (got, status) = receive.wait().unwrap();
            assert!(got[..status.bytes / 4] == values(before, tag, round + at), "round {round} of requests");
        }
        sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
    }
}

fn from_anybody(comm: &Communicator) {
    let mut rounds = vec![0; comm.size() as usize];
    for round in 0..ROUNDS {
        let sends: Vec<_> = (0..comm.size())
            .map(|to| comm.isend(vec![round as u64, u64::from(comm.rank().0)], Rank(to), 0).unwrap())
            .collect();
        for _ in 0..comm.size() {
            let (got, status) = comm.receive::<u64>(None, None).unwrap();
            let from = status.source.0;
            assert_eq!(got, [rounds[from as usize], u64::from(from)], "in the order in which they were sent");
            rounds[from as usize] += 1;
        }
        sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
    }
}

fn collectively(comm: &Communicator) {
    let size = u64::from(comm.size());
    for round in 0..ROUNDS as u64 {
        let sums = comm.all_reduce(&[round, u64::from(comm.rank().0)], Operator::Sum).unwrap();
        assert_eq!(sums, [round * size, size * (size - 1) / 2]);
        let root = Rank((round % size) as u32);
        let mut words = vec![if comm.rank() == root { round + 5 } else { 0 }; 2000];
        comm.broadcast(&mut words, root).unwrap();
        assert!(words.iter().all(|&word| word == round + 5));
        comm.barrier().unwrap();
    }
}

/// One thread at a time is in a collective operation of a communicator. Where it goes by lines that the ranks
/// of a node see, whoever comes second is told, and has done nothing.
#[test]
fn two_threads_in_one_operation_are_told() {
    on_fabrics_for(&[FabricName::Shm], Threads::Many, 2, |session| {
        let world = session.world();
        for _ in 0..10 {
            world.barrier().unwrap();
        }
        if world.rank() == Rank(1) {
            // The other two wait for this one, until one of them knows that it must not.
            world.receive::<u8>(Rank(0), 1).unwrap();
            return world.barrier().unwrap();
        }
        let call = || {
            let failed = world.barrier().err();
            if failed.is_some() {
                world.send(&[0u8], Rank(1), 1).unwrap();
            }
            failed
        };
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(call);
            [call(), other.join().unwrap()]
        });
        let failed: Vec<_> = both.iter().flatten().collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].class, Class::Other);
        assert!(failed[0].what.contains("another thread"), "{}", failed[0]);
    });
}
