//! A thousand ranks in one process: results, and the number of messages against what the algorithm needs.

use crate::common::{Job, Reduction, nothing_to_reduce, of_all};
use collectives::{Operator, Rank, Schedule, Shape, allreduce, barrier, bcast};
use fabric::simulated::Weather;

#[test]
fn barrier_of_a_thousand() {
    let (_, messages) =
        run(barrier, vec![vec![]; RANKS as usize], vec![vec![]; RANKS as usize], nothing_to_reduce);
    assert_eq!(messages, u64::from(RANKS * ROUNDS), "p ceil(log2 p) messages");
}

#[test]
fn nobody_leaves_the_barrier_before_the_last_has_come() {
    let mut job = Job::new(RANKS, Weather::fair());
    let schedule = |rank| barrier(&Shape::new(Rank(rank), RANKS));
    let mut parts: Vec<_> = (0..RANKS).map(|rank| job.part(rank, schedule(rank), &[], &[])).collect();
    let late = parts.pop().expect("a thousand parts");
    let mut stand = Vec::new();
    for _ in 0..4 * ROUNDS {
        stand = job.turn(&mut parts, nothing_to_reduce);
    }
    assert!(stand.iter().all(|advance| *advance == collectives::Advance::Pending));
    parts.push(late);
    for _ in 0..4 * ROUNDS {
        stand = job.turn(&mut parts, nothing_to_reduce);
    }
    assert!(stand.iter().all(|advance| *advance == collectives::Advance::Done), "{}", job.state(&parts));
}

#[test]
fn bcast_to_a_thousand() {
    let data: Vec<u8> = (0..100).collect();
    let root = 377;
    let mut outputs = vec![vec![0; data.len()]; RANKS as usize];
    outputs[root as usize] = data.clone();
    let schedule = |shape: &Shape| bcast(shape, Rank(root), data.len());
    let (got, messages) = run(schedule, vec![vec![]; RANKS as usize], outputs, nothing_to_reduce);
    assert!(got.iter().all(|output| *output == data));
    assert_eq!(messages, u64::from(RANKS - 1), "everybody is told once");
}

#[test]
fn allreduce_of_a_thousand_in_order() {
    let operator = Operator { element_bytes: 8, commutative: false };
    let inputs = (0..RANKS).map(|rank| run_of_ranks(rank, rank + 1)).collect();
    let outputs = vec![vec![0; 8]; RANKS as usize];
    let (got, messages) = run(|shape| allreduce(shape, 1, operator, false), inputs, outputs, join);
    assert!(got.iter().all(|output| *output == run_of_ranks(0, RANKS)));
    let core = 1 << (ROUNDS - 1);
    let expected = core * (ROUNDS - 1) + 2 * (RANKS - core);
    assert_eq!(
        messages,
        u64::from(expected),
        "each of 512 in 9 rounds, and two more for each of the other 488"
    );
}

#[test]
fn large_allreduce_of_a_thousand() {
    let operator = Operator { element_bytes: 8, commutative: true };
    let count = 3000;
    let input = |rank: u32| (0..count).flat_map(|index| (u64::from(rank) * index).to_le_bytes()).collect();
    let expected: Vec<u8> = (0..count).flat_map(|index| (499_500 * index).to_le_bytes()).collect();
    let inputs: Vec<Vec<u8>> = (0..RANKS).map(input).collect();
    let outputs = vec![vec![0; expected.len()]; RANKS as usize];
    let (got, _) = run(|shape| allreduce(shape, count as usize, operator, false), inputs, outputs, sum);
    assert!(got.iter().all(|output| *output == expected));
}

/// Runs an operation of all; the answer is everybody's output and the number of messages.
fn run(
    schedule: impl Fn(&Shape) -> Schedule,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    reduction: Reduction,
) -> (Vec<Vec<u8>>, u64) {
    let mut job = Job::new(RANKS, Weather::fair());
    let got = job.run(of_all(RANKS, schedule), &inputs, &outputs, reduction);
    (got, job.network.messages())
}

/// The element that stands for the ranks `first` to before `end`.
fn run_of_ranks(first: u32, end: u32) -> Vec<u8> {
    [first.to_le_bytes(), end.to_le_bytes()].concat()
}

/// Two runs make one if the second begins where the first ends: associative, not commutative.
fn join(left: &[u8], right: &mut [u8]) {
    assert_eq!(left[4..], right[..4], "operands out of order");
    right[..4].copy_from_slice(&left[..4]);
}

fn sum(left: &[u8], right: &mut [u8]) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    for (left, right) in left.chunks(8).zip(right.chunks_mut(8)) {
        let sum = number(left) + number(right);
        right.copy_from_slice(&sum.to_le_bytes());
    }
}

const RANKS: u32 = 1000;
/// ceil(log2 p)
const ROUNDS: u32 = 10;
