//! Executions side by side, and executions that fail.

use std::sync::Arc;

use crate::common::elements::{ELEMENT_BYTES, add_in_order, sums};
use crate::common::memory::reading;
use crate::common::{Job, Part, filled, nothing_to_reduce, of_all};
use collectives::{
    Activity, Advance, Allreduce, Barrier, Buffers, Cause, Execution, Failed, Gather, Operator, Rank,
    Scatter, Schedule, Shape, allreduce, barrier, bcast,
};
use fabric::simulated::Weather;
use fabric::{Payload, Peer, UserMemory};

const ORDERED: Operator = Operator { element_bytes: ELEMENT_BYTES, commutative: false };

#[test]
fn operations_of_one_communicator_go_on_side_by_side() {
    let (size, operations, count) = (6, 8, 20);
    for seed in 0..6 {
        let mut job = Job::new(size, Weather::storm(seed));
        let mut sets: Vec<Vec<Part>> = Vec::new();
        for operation in 0..operations {
            job.next_operation();
            let part = |rank| {
                let schedule = allreduce(&Shape::new(Rank(rank), size), count, ORDERED, false);
                let input = sums(rank, rank + 1, operation * 100, count);
                job.part(rank, schedule, &input, &vec![0; count * ELEMENT_BYTES])
            };
            sets.push((0..size).map(part).collect());
        }
        let mut turns = 0;
        let mut left: Vec<usize> = (0..operations).collect();
        while !left.is_empty() {
            // The newest first: an operation must not need those before it.
            left.retain(|&operation| {
                let stand = job.turn(&mut sets[operations - 1 - operation], add_in_order);
                stand.iter().any(|advance| *advance != Advance::Done)
            });
            turns += 1;
            assert!(
                turns < 5000,
                "seed {seed}: {} operations hang: {}",
                left.len(),
                job.state(&sets[left[0]])
            );
        }
        for (operation, parts) in sets.iter().enumerate() {
            let expected = sums(0, size, operation * 100, count);
            assert!(parts.iter().all(|part| part.output.payload().to_vec() == expected), "seed {seed}");
        }
    }
}

#[test]
fn a_schedule_can_be_run_again() {
    let mut job = Job::new(3, Weather::fair());
    let schedules: Vec<Arc<Schedule>> =
        of_all(3, |shape| allreduce(shape, 2, ORDERED, false)).into_iter().map(Arc::new).collect();
    for tag in 0..3 {
        let mut parts: Vec<Part> = (0..3u32)
            .map(|rank| {
                let (input, output) = (filled(&sums(rank, rank + 1, 0, 2)), filled(&[0; 2 * ELEMENT_BYTES]));
                let buffers = Buffers { input: reading(&input), output: output.memory() };
                let schedule = schedules[rank as usize].clone();
                Part { execution: Execution::new(schedule, buffers, 1, tag, Rank(rank)), input, output }
            })
            .collect();
        let done = (0..100).any(|_| job.turn(&mut parts, add_in_order).iter().all(|at| *at == Advance::Done));
        assert!(done, "{}", job.state(&parts));
        assert!(parts.iter().all(|part| part.output.payload().to_vec() == sums(0, 3, 0, 2)));
    }
}

#[test]
fn an_execution_is_run_again_in_its_own_room() {
    let mut job = Job::new(3, Weather::fair());
    let schedule = |shape: &Shape| Allreduce::GatherBroadcast.schedule(shape, 2, ORDERED, false);
    let fresh = |rank: u32| (filled(&sums(rank, rank + 1, 0, 2)), filled(&[0; 2 * ELEMENT_BYTES]));
    let mut parts: Vec<Part> = of_all(3, schedule)
        .into_iter()
        .zip(0..)
        .map(|(schedule, rank)| {
            job.part(rank, schedule, &sums(rank, rank + 1, 0, 2), &[0; 2 * ELEMENT_BYTES])
        })
        .collect();
    let kept = |parts: &[Part]| parts.iter().map(|part| part.execution.kept_bytes()).sum::<usize>();
    let mut kept_at_first = 0;
    for tag in 1..4 {
        let done = (0..100).any(|_| job.turn(&mut parts, add_in_order).iter().all(|at| *at == Advance::Done));
        assert!(done, "{}", job.state(&parts));
        assert!(parts.iter().all(|part| part.output.payload().to_vec() == sums(0, 3, 0, 2)));
        if tag == 1 {
            kept_at_first = kept(&parts);
        }
        assert_eq!(kept(&parts), kept_at_first);
        for (part, rank) in parts.iter_mut().zip(0..) {
            (part.input, part.output) = fresh(rank);
            let buffers = Buffers { input: reading(&part.input), output: part.output.memory() };
            part.execution.again(buffers, tag);
        }
    }
}

#[test]
#[should_panic(expected = "only what has ended well can begin again")]
fn an_execution_that_is_not_over_cannot_begin_again() {
    let job = Job::new(2, Weather::fair());
    let mut part = job.part(0, barrier(&Shape::new(Rank(0), 2)), &[], &[]);
    part.execution.again(Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY }, 1);
}

#[test]
fn nobody_leaves_a_barrier_before_the_last_has_come() {
    for (way, size) in Barrier::ALL.into_iter().flat_map(|way| [2, 3, 8, 9].map(|size| (way, size))) {
        for last in [0, size - 1] {
            let mut job = Job::new(size, Weather::fair());
            let schedules = of_all(size, |shape| way.schedule(shape)).into_iter().zip(0..);
            let mut parts: Vec<Part> =
                schedules.map(|(schedule, rank)| job.part(rank, schedule, &[], &[])).collect();
            for rank in (0..40).flat_map(|_| 0..size) {
                let (engine, part) = (&mut job.engines[rank as usize], &mut parts[rank as usize]);
                engine.progress();
                if rank != last {
                    let stand = part.execution.advance(engine, &|rank| Peer(rank.0), &mut |_, _| {});
                    assert_eq!(
                        stand,
                        Advance::Pending,
                        "{way:?} of {size}: rank {rank} left before {last} came"
                    );
                }
            }
            let done = (0..100)
                .any(|_| job.turn(&mut parts, nothing_to_reduce).iter().all(|at| *at == Advance::Done));
            assert!(done, "{}", job.state(&parts));
        }
    }
}

/// An operator that tells how operands were put in brackets: neither associative nor commutative.
fn bracket(left: &[u8], right: &mut [u8]) {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    for (left, right) in left.chunks(8).zip(right.chunks_mut(8)) {
        let put =
            word(left).wrapping_mul(31).wrapping_add(word(right).wrapping_mul(0x9e37_79b9)).rotate_left(7);
        right.copy_from_slice(&put.to_le_bytes());
    }
}

#[test]
fn saving_rounds_does_not_change_a_bit() {
    let operator = Operator { element_bytes: 8, commutative: false };
    for size in (1..=17).chain([33]) {
        let mut job = Job::new(size, Weather::fair());
        let inputs: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8 + 1; 16]).collect();
        let outputs = vec![vec![0; 16]; size as usize];
        let mut by = |way: Allreduce| {
            let schedules = of_all(size, |shape| way.schedule(shape, 2, operator, false));
            job.run(schedules, &inputs, &outputs, bracket)
        };
        let usual = by(Allreduce::RecursiveDoubling);
        assert!(usual.iter().all(|output| *output == usual[0]));
        assert_eq!(by(Allreduce::EachToAll), usual, "{size} ranks");
        assert_eq!(by(Allreduce::GatherBroadcast), usual, "{size} ranks");
    }
}

#[test]
fn a_death_is_told_with_the_rank_and_leaves_nothing_posted() {
    let mut job = Job::new(3, Weather::fair());
    // Ranks are counted backwards here: rank 2 is peer 0.
    let group = |rank: Rank| Peer(2 - rank.0);
    let execution = |rank: u32, tag| {
        let (schedule, here) = (barrier(&Shape::new(Rank(rank), 3)), Rank(rank));
        let nothing = filled(&[]);
        Execution::new(schedule, Buffers { input: reading(&nothing), output: nothing.memory() }, 1, tag, here)
    };
    job.network.kill(group(Rank(2)));
    let mut survivors = [execution(0, 0), execution(1, 0)];
    for _ in 0..20 {
        for (rank, execution) in survivors.iter_mut().enumerate() {
            let engine = &mut job.engines[group(Rank(rank as u32)).0 as usize];
            engine.progress();
            let _ = execution.advance(engine, &group, &mut |_, _| unreachable!());
        }
    }
    for (rank, mut execution) in survivors.into_iter().enumerate() {
        let engine = &mut job.engines[group(Rank(rank as u32)).0 as usize];
        let Advance::Failed(failed) = execution.advance(engine, &group, &mut |_, _| unreachable!()) else {
            panic!("rank {rank} does not know: {execution:?}");
        };
        assert!(matches!((failed.with, &failed.cause), (Rank(2), Cause::Lost(_))), "{failed}");
        assert!(failed.to_string().ends_with("rank 2: simulated: process 0 was killed"), "{failed}");
        assert!(execution.is_settled(), "{execution:?}");
        assert!(!engine.describe().contains("nothing has come"), "{}", engine.describe());
    }
}

#[test]
fn ranks_that_mean_different_lengths_are_told_so() {
    for (root_bytes, other_bytes) in [(10, 4), (4, 10), (10_000, 4), (4, 10_000)] {
        let mut job = Job::new(2, Weather::fair());
        let part = |rank, bytes| {
            let schedule = bcast(&Shape::new(Rank(rank), 2), Rank(0), bytes);
            job.part(rank, schedule, &[], &vec![1; bytes])
        };
        let mut parts = [part(0, root_bytes), part(1, other_bytes)];
        let stand = (0..20).map(|_| job.turn(&mut parts, nothing_to_reduce)).last().expect("twenty turns");
        let Advance::Failed(failed) = &stand[1] else { panic!("not seen: {}", job.state(&parts)) };
        let cause = Cause::Mismatch { sent_bytes: root_bytes, expected_bytes: other_bytes };
        assert_eq!((failed.with, failed.activity, &failed.cause), (Rank(0), Activity::Receiving, &cause));
        let text = failed.to_string();
        assert!(
            text.contains(&format!("{root_bytes} bytes came where {other_bytes} were expected")),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2, "what happened, and what to do");
    }
}

#[test]
fn after_a_failure_the_rest_is_cancelled_and_the_answer_stays() {
    let mut job = Job::new(3, Weather::fair());
    let part = |rank: u32, bytes| {
        let schedule = Gather::Linear.schedule(&Shape::new(Rank(rank), 3), Rank(0), bytes, false);
        job.part(rank, schedule, &vec![1; bytes], &vec![0; if rank == 0 { 3 * bytes } else { 0 }])
    };
    // Rank 1 sends too much, rank 2 nothing at all.
    let mut parts = [part(0, 8), part(1, 9)];
    let stand = (0..5).map(|_| job.turn(&mut parts, nothing_to_reduce)).last().expect("five turns");
    assert!(matches!(&stand[0], Advance::Failed(failed) if failed.with == Rank(1)), "{stand:?}");
    assert_eq!(stand[0], job.turn(&mut parts, nothing_to_reduce)[0]);
    assert!(parts[0].execution.is_settled());
    assert!(!job.engines[0].describe().contains("nothing has come"), "{}", job.engines[0].describe());
}

/// Rank 0 waits for rank 2 to receive what is long, and is told that it never will; rank 1 goes on to wait
/// for its part.
#[test]
fn who_gives_up_takes_back_what_nobody_will_receive() {
    let bytes = 300_000;
    let mut job = Job::new(3, Weather::fair());
    let part = |job: &Job, rank: u32| {
        let schedule = Scatter::Linear.schedule(&Shape::new(Rank(rank), 3), Rank(0), bytes, false);
        job.part(rank, schedule, &vec![7; if rank == 0 { 3 * bytes } else { 0 }], &vec![0; bytes])
    };
    let mut parts = [part(&job, 0)];
    (0..5).for_each(|_| assert_eq!(job.turn(&mut parts, nothing_to_reduce), [Advance::Pending]));
    let sends = [(Activity::Sending, Rank(1)), (Activity::Sending, Rank(2))];
    assert!(sends.iter().all(|send| parts[0].execution.partners().any(|other| other == *send)));
    let failed = Failed { with: Rank(2), activity: Activity::Sending, cause: Cause::Elsewhere };
    parts[0].execution.give_up(&mut job.engines[0], failed.clone(), &|rank| rank == Rank(2));
    assert_eq!(failed.to_string().lines().count(), 2, "what happened, and what to do");
    let [first] = parts;
    let mut parts = [first, part(&job, 1)];
    let stand = (0..20)
        .map(|_| {
            job.engines[2].progress();
            job.turn(&mut parts, nothing_to_reduce)
        })
        .last();
    assert_eq!(stand, Some(vec![Advance::Failed(failed), Advance::Done]), "{}", job.state(&parts));
    assert!(parts[0].execution.is_settled() && parts[1].output.payload().to_vec() == vec![7; bytes]);
    assert_eq!(job.engines[2].unexpected_contexts().count(), 0, "{}", job.engines[2].describe());
}

/// Also the one receive that needs no request; and a message that comes too late is nobody's.
#[test]
fn who_gives_up_waits_for_nothing_any_more() {
    for tag in 0..2 {
        let mut job = Job::new(2, Weather::fair());
        (0..tag).for_each(|_| job.next_operation());
        let part =
            |rank| job.part(rank, bcast(&Shape::new(Rank(rank), 2), Rank(0), 8), &[], &[rank as u8; 8]);
        let (mut waiting, mut late) = (part(1), part(0));
        let nothing = &mut |_: Payload<'_>, _: &mut UserMemory| unreachable!();
        let group = |rank: Rank| Peer(rank.0);
        assert_eq!(waiting.execution.advance(&mut job.engines[1], &group, nothing), Advance::Pending);
        assert!(waiting.execution.partners().eq([(Activity::Receiving, Rank(0))]));
        let failed = Failed { with: Rank(0), activity: Activity::Receiving, cause: Cause::Elsewhere };
        waiting.execution.give_up(&mut job.engines[1], failed.clone(), &|_| true);
        assert!(waiting.execution.is_settled(), "{:?}", waiting.execution);
        assert_eq!(late.execution.advance(&mut job.engines[0], &group, nothing), Advance::Done);
        for engine in &mut job.engines {
            engine.progress();
        }
        assert_eq!(waiting.execution.advance(&mut job.engines[1], &group, nothing), Advance::Failed(failed));
        assert_eq!(waiting.output.payload().to_vec(), [1; 8]);
    }
}

#[test]
fn what_is_still_read_outlives_a_dropped_execution() {
    let size = 4;
    let mut job = Job::new(size, Weather { pull: false, ..Weather::fair() });
    let bytes = 20_000;
    let content = |rank: u32| vec![rank as u8 + 1; bytes];
    let part = |rank: u32| {
        let schedule = Gather::Binomial.schedule(&Shape::new(Rank(rank), size), Rank(0), bytes, false);
        let room = if rank == 0 { size as usize * bytes } else { 0 };
        job.part(rank, schedule, &content(rank), &vec![0; room])
    };
    // The root comes last: rank 2 has put together its own and rank 3's bytes, and offers them from scratch.
    let mut parts: Vec<Part> = (0..size).map(part).collect();
    let mut others = parts.split_off(1);
    for _ in 0..20 {
        let engines = job.engines[1..].iter_mut();
        for (engine, part) in engines.zip(&mut others) {
            engine.progress();
            let _ = part.execution.advance(engine, &|rank| Peer(rank.0), &mut |_, _| unreachable!());
        }
    }
    assert!(!others[1].execution.is_settled(), "nobody can have received it: {:?}", others[1].execution);
    let inputs: Vec<_> = others.into_iter().map(|part| part.input).collect();
    let overwriting: Vec<Vec<u8>> = (0..8).map(|_| vec![0xff; 2 * bytes]).collect();
    let mut done = false;
    for _ in 0..20 {
        done = job.turn(&mut parts, nothing_to_reduce)[0] == Advance::Done;
        let _: usize = job.engines.iter_mut().map(messaging::Engine::progress).sum();
    }
    assert!(done, "{}", job.state(&parts));
    assert_eq!(parts[0].output.payload().to_vec(), (0..size).flat_map(content).collect::<Vec<_>>());
    drop((inputs, overwriting));
}
