//! Every algorithm of every collective operation, with a death at each step of each rank: of the operation,
//! of the agreement behind it, of the next operation of those who live. What must hold then stands in
//! `common/crash.rs`, by the rules' numbers.

use crate::common::cases::{self, Case, Setting};
use crate::common::crash::{Death, Story, each_second_step, each_step};
use crate::common::seats::Seats;
use collectives::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter};
use fabric::simulated::Weather;

#[test]
fn barriers() {
    everywhere(&[0], |run, at| {
        for way in Barrier::ALL {
            // Rule D1: nobody leaves a barrier that the dead never came to.
            let nobody_alone = |story: &Story, death: Death| {
                let has_come = story.has_begun[death.rank as usize];
                assert!(has_come || !story.has_succeeded.contains(&true), "{way:?}, {at:?}, {death:?}");
            };
            run(cases::barrier(Some(way), at), &nobody_alone);
        }
    });
}

#[test]
fn operations_with_a_root() {
    everywhere(&COUNTS, |run, at| {
        Bcast::ALL.into_iter().for_each(|way| run(cases::bcast(Some(way), at), &nothing_more));
        Gather::ALL.into_iter().for_each(|way| run(cases::gather(Some(way), at), &nothing_more));
        Scatter::ALL.into_iter().for_each(|way| run(cases::scatter(Some(way), at), &nothing_more));
        run(cases::gatherv(at), &nothing_more);
        run(cases::scatterv(at), &nothing_more);
    });
}

#[test]
fn exchanges() {
    everywhere(&COUNTS, |run, at| {
        Allgather::ALL.into_iter().for_each(|way| run(cases::allgather(Some(way), at), &nothing_more));
        Allgather::ALL.into_iter().for_each(|way| run(cases::allgatherv(Some(way), at), &nothing_more));
        Alltoall::ALL.into_iter().for_each(|way| run(cases::alltoall(Some(way), at), &nothing_more));
        run(cases::alltoallv(at), &nothing_more);
    });
}

#[test]
fn reductions() {
    everywhere(&COUNTS, |run, at| {
        Reduce::ALL.into_iter().for_each(|way| run(cases::reduce(Some(way), at), &nothing_more));
        ReduceScatter::ALL
            .into_iter()
            .for_each(|way| run(cases::reduce_scatter(Some(way), at), &nothing_more));
        let in_order = Setting { commutative: false, ..at };
        run(cases::reduce(None, in_order), &nothing_more);
        run(cases::reduce_scatter_block(None, in_order), &nothing_more);
        run(cases::scan(in_order), &nothing_more);
        run(cases::exscan(in_order), &nothing_more);
    });
}

#[test]
fn reductions_to_all() {
    everywhere(&COUNTS, |run, at| {
        Allreduce::ALL.into_iter().for_each(|way| run(cases::allreduce(Some(way), at), &nothing_more));
        run(cases::allreduce(None, Setting { commutative: false, ..at }), &nothing_more);
    });
}

/// A second rank dies while the others recover from the loss of the first: at each of its steps.
#[test]
fn deaths_in_recoveries() {
    let mut deaths = 0;
    for size in [3, 4, 5] {
        for (number, weather) in climates(u64::from(size)).into_iter().enumerate() {
            let at = Setting { in_place: false, ..setting(size, COUNTS[number % 2], number) };
            let case = match number % 3 {
                0 => cases::allreduce(Some(Allreduce::RecursiveDoubling), at),
                1 => cases::allgather(None, at),
                _ => cases::bcast(Some(Bcast::Chain), at),
            };
            for rank in 0..size {
                deaths += each_second_step(&case, weather, Death { rank, step: 2 + u64::from(rank) });
            }
        }
    }
    println!("{deaths} deaths in recoveries");
    assert!(deaths > 1000, "{deaths} are not all there are");
}

/// For operations of which only the rules for all are to hold.
fn nothing_more(_: &Story, _: Death) {}

/// Calls `operations` for 2 to 5 ranks with some lengths, each in one of the climates in turn.
fn everywhere(counts: &[usize], operations: impl Fn(&mut dyn FnMut(Case, &dyn Fn(&Story, Death)), Setting)) {
    let (mut number, mut deaths) = (0, 0);
    for size in 2..=5 {
        for &count in counts {
            let at = setting(size, count, number + size as usize);
            let mut run = |case: Case, after: &dyn Fn(&Story, Death)| {
                let climates = climates(number as u64);
                let others = number / climates.len() + 1;
                for at in [number, number + others % climates.len()] {
                    deaths += each_step(&case, climates[at % climates.len()], after);
                }
                number += 1;
            };
            operations(&mut run, at);
        }
    }
    println!("{deaths} deaths");
    assert!(deaths > 100, "{deaths} are not all there are");
}

fn setting(size: u32, count: usize, number: usize) -> Setting {
    let (root, in_place) = (size / 2, number % 2 == 1);
    let seats = [Seats::Unknown, Seats::Cyclic(2), Seats::Straight(number as u64)][number % 3];
    Setting { size, root, count, commutative: true, in_place, seats }
}

/// The ways that messages go: at once; read by the receiver; asked for; read in parts by both; and all of
/// that, by dice.
fn climates(seed: u64) -> [Weather; 5] {
    let short = Weather { seed, eager_bytes_max: 64, ..Weather::fair() };
    [
        Weather::fair(),
        short,
        Weather { pull: false, ..short },
        Weather { share_percent: 100, later_percent: 50, delay_polls_max: 9, ..short },
        Weather::storm(seed),
    ]
}

/// One that is sent at once in each climate, and one that is not in most.
const COUNTS: [usize; 2] = [1, 20];
