//! What group algebra costs on a million ranks, in microseconds: the least and the median of some runs.
//!
//! ```sh
//! cargo run --release -p weft --example group_algebra
//! ```

use std::hint::black_box;
use std::time::Instant;

use weft::{Comparison, Group, Rank, RankRange};

fn main() {
    let world = Group::world(RANKS);
    let (evens, odds, down) = (every(&world, 0, 2), every(&world, 1, 2), backwards(&world));
    let ranges: Vec<RankRange> = (0..16).map(|at| piece(at, 3)).collect();
    let blocks: Vec<RankRange> = (0..16).map(|at| piece(at, 1)).rev().collect();
    let blocks = world.include_ranges(&blocks).expect("ranges of the world");
    println!("{RANKS} ranks                                   least     median");
    tell("range_incl of 16 ranges", || world.include_ranges(&ranges).expect("ranges of the world").size());
    tell("range_excl of 16 ranges", || world.exclude_ranges(&ranges).expect("ranges of the world").size());
    tell("union of evens and odds", || (&evens | &odds).size());
    tell("intersection of strides", || (&evens & &down).size());
    tell("difference of 16 blocks and evens", || (&blocks - &evens).size());
    tell("compare 16 blocks with the world", || u32::from(blocks.compare(&world) == Comparison::Similar));
    tell("translate a rank to 16 blocks", || {
        world.translate(Rank(777_777), &blocks).map_or(0, |rank| rank.0)
    });
    let (left, right) = (shuffled(1), shuffled(2));
    tell("incl of a random permutation", || world.include(&left).expect("ranks of the world").size());
    let (left, right) =
        (world.include(&left).expect("all different"), world.include(&right).expect("all different"));
    tell("union of two permutations", || (&left | &right).size());
    tell("intersection of two permutations", || (&left & &right).size());
    tell("difference of two permutations", || (&left - &right).size());
    tell("compare two permutations", || u32::from(left.compare(&right) == Comparison::Similar));
    tell("translate all ranks of one", || {
        (0..RANKS).map(|rank| left.translate(Rank(rank), &right).map_or(0, |rank| rank.0)).fold(0, u32::max)
    });
}

fn tell(what: &str, operation: impl Fn() -> u32) {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begun = Instant::now();
            black_box(operation());
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:<42} {:>12.2} {:>10.2}", times[0], times[RUNS / 2]);
}

fn every(world: &Group, first: i64, stride: i64) -> Group {
    let range = RankRange { first, last: i64::from(RANKS) - 1, stride };
    world.include_ranges([range]).expect("a range of the world")
}

fn backwards(world: &Group) -> Group {
    let range = RankRange { first: i64::from(RANKS) - 1, last: 0, stride: -1 };
    world.include_ranges([range]).expect("a range of the world")
}

/// Every `stride`-th rank of a sixteenth of all.
fn piece(at: i64, stride: i64) -> RankRange {
    let ranks = i64::from(RANKS) / 16;
    RankRange { first: at * ranks, last: (at + 1) * ranks - 1, stride }
}

/// All ranks in an order that follows from the seed.
fn shuffled(seed: u64) -> Vec<Rank> {
    let mut ranks: Vec<Rank> = (0..RANKS).map(Rank).collect();
    let mut state = seed;
    for at in (1..ranks.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ranks.swap(at, (state >> 33) as usize % (at + 1));
    }
    ranks
}

const RANKS: u32 = 1 << 20;
const RUNS: usize = 15;
