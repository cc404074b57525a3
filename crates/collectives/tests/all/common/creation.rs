//! What the members of a new communicator send each other, as `weft` does it: the agreement on a context, and
//! for a split the choices that go to the root and the parts that come back. Run on the simulated fabric, and
//! counted.

use collectives::{Operator, Rank, Schedule, Shape, Step, allreduce, gather, scatter};
use fabric::simulated::Weather;

use super::counting::rounds;
use super::{Job, nothing_to_reduce, of_all};

/// What an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Messages one after the other, along the longest chain.
    pub rounds: u32,
    /// Messages of all.
    pub messages: u64,
    /// Bytes that a rank sends, the median rank and the one that sends most.
    pub bytes_median: usize,
    pub bytes_most: usize,
}

/// `MPI_Comm_dup` and `MPI_Comm_create`: one allreduce of the candidates that are free, and of a sum.
pub fn agreement(shape: &Shape) -> Schedule {
    allreduce(shape, 1, Operator { element_bytes: BALLOT_BYTES, commutative: true }, false)
}

/// The first half of `MPI_Comm_split` of many: color and key go to the root.
pub fn choices(shape: &Shape) -> Schedule {
    gather(shape, Rank(0), CHOICE_BYTES, false)
}

/// The second half: everybody is told its part.
pub fn parts(shape: &Shape) -> Schedule {
    scatter(shape, Rank(0), PART_BYTES, false)
}

/// Agrees on a number, and looks whether all have the same.
pub fn run_agreement(job: &mut Job, ranks: u32) {
    let ballot = |rank: u32| {
        let free = !(1u64 << (rank % 7));
        [free.to_le_bytes(), u64::from(rank).to_le_bytes()].concat()
    };
    let inputs: Vec<_> = (0..ranks).map(ballot).collect();
    let outputs = vec![vec![0; BALLOT_BYTES]; ranks as usize];
    let got = job.run(of_all(ranks, agreement), &inputs, &outputs, combine);
    let sum = u64::from(ranks) * u64::from(ranks - 1) / 2;
    let expected = [(!0u64 << ranks.min(7)).to_le_bytes(), sum.to_le_bytes()].concat();
    assert!(got.iter().all(|output| *output == expected));
}

/// Brings everybody's choice to the root, and an answer back to each.
pub fn run_split(job: &mut Job, ranks: u32) {
    let choice = |rank: u32| [(rank / 64).to_le_bytes(), rank.to_le_bytes()].concat();
    let inputs: Vec<_> = (0..ranks).map(choice).collect();
    let outputs =
        |bytes: usize| (0..ranks).map(move |rank| vec![0; if rank == 0 { bytes } else { 0 }]).collect();
    let all: Vec<Vec<u8>> = outputs(CHOICE_BYTES * ranks as usize);
    let got = job.run(of_all(ranks, choices), &inputs, &all, nothing_to_reduce);
    assert!(got[0] == inputs.concat());
    let part = |rank: u32| [1u32, rank / 64 * 64, 64, 1].map(u32::to_le_bytes).concat();
    let dealt: Vec<u8> = (0..ranks).flat_map(part).collect();
    let inputs: Vec<_> = (0..ranks).map(|rank| if rank == 0 { dealt.clone() } else { Vec::new() }).collect();
    let got =
        job.run(of_all(ranks, parts), &inputs, &vec![vec![0; PART_BYTES]; ranks as usize], nothing_to_reduce);
    assert!((0..ranks).zip(got).all(|(rank, output)| output == part(rank)));
}

/// A job on a fabric without weather.
pub fn job(ranks: u32) -> Job {
    Job::new(ranks, Weather::fair())
}

/// What schedules take, by looking at them.
pub fn cost(ranks: u32, schedule: impl Fn(&Shape) -> Schedule) -> Cost {
    let schedules = of_all(ranks, schedule);
    let mut sent: Vec<usize> = schedules
        .iter()
        .map(|schedule| {
            schedule
                .steps
                .iter()
                .map(|step| if let Step::Send { from, .. } = step { from.bytes } else { 0 })
                .sum()
        })
        .collect();
    let sends =
        |schedule: &Schedule| schedule.steps.iter().filter(|step| matches!(step, Step::Send { .. })).count();
    let messages = schedules.iter().map(sends).sum::<usize>() as u64;
    sent.sort_unstable();
    Cost {
        rounds: rounds(&schedules),
        messages,
        bytes_median: sent[sent.len() / 2],
        bytes_most: sent[sent.len() - 1],
    }
}

fn combine(left: &[u8], right: &mut [u8]) {
    let word =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let free = word(left, 0) & word(right, 0);
    let sum = word(left, 8).wrapping_add(word(right, 8));
    right.copy_from_slice(&[free.to_le_bytes(), sum.to_le_bytes()].concat());
}

/// As in `weft::communicator`.
const BALLOT_BYTES: usize = 16;
const CHOICE_BYTES: usize = 8;
const PART_BYTES: usize = 16;
