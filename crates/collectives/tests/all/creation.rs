//! Making communicators among thousands of ranks on the simulated fabric: results, rounds and bytes.

use crate::common::creation::{Cost, agreement, choices, cost, job, parts, run_agreement, run_split};

#[test]
fn thousands_agree_and_split() {
    let mut job = job(RANKS);
    run_agreement(&mut job, RANKS);
    run_split(&mut job, RANKS);
}

#[test]
fn a_power_of_two_agrees_in_as_many_rounds() {
    let expected = Cost { rounds: 12, messages: 12 * 4096, bytes_median: 12 * 16, bytes_most: 12 * 16 };
    assert_eq!(cost(4096, agreement), expected);
}

/// Only ranks near the root of the tree send much of a split.
#[test]
fn a_split_costs_most_ranks_a_few_bytes() {
    let (up, down) = (cost(RANKS, choices), cost(RANKS, parts));
    // The deepest rank of the tree has as many bits in its number as a number below 3000 can have.
    assert_eq!((up.rounds, up.messages, up.bytes_median), (11, u64::from(RANKS - 1), 8));
    assert_eq!((down.rounds, down.messages, down.bytes_median), (11, u64::from(RANKS - 1), 16));
    assert!(up.bytes_most <= 8 * RANKS as usize && down.bytes_most <= 16 * RANKS as usize);
}

/// Not a power of two.
const RANKS: u32 = 3000;
