//! The orders in which contributions are combined that all stand in one place give the bits that the
//! schedules give.

use crate::common::{Job, Reduction, of_all};
use collectives::{
    BitReversedOrder, Operator, Rank, Reduce, Schedule, allreduce, combining_order, exscan, reducing_order,
    scan, scanning_order,
};
use fabric::simulated::Weather;

#[test]
fn of_allreduces() {
    for size in 1..=33 {
        let result = |_| in_order(combining_order(size), size, Rank(size - 1), in_line);
        check(size, |shape| allreduce(shape, 1, ORDERED, false), 1, each_in_line, result);
    }
}

/// What is combined in runs has the bits of pairs.
#[test]
fn of_halves() {
    for size in 1..=65 {
        let halves = BitReversedOrder::of(size);
        let mut places = vec![None; size as usize];
        for rank in 0..size {
            let place = &mut places[halves.place(Rank(rank)) as usize];
            assert_eq!(place.replace(contribution(rank)), None, "rank {rank} of {size}");
        }
        let mut places: Vec<u64> = places.into_iter().flatten().collect();
        for (lower, higher, count) in halves.runs() {
            for at in 0..count {
                let [lower, higher] = [lower + at, higher + at].map(|place| place as usize);
                places[higher] = in_line(places[lower], places[higher]);
            }
        }
        let pairs = in_order(combining_order(size), size, Rank(size - 1), in_line);
        assert_eq!(places[halves.result() as usize], pairs, "{size} ranks");
        assert!(
            halves.runs().count() <= size.ilog2() as usize + (size - size.next_power_of_two() / 2) as usize
        );
    }
}

#[test]
fn of_scans() {
    for size in 1..=33 {
        let upto = |last: u32| in_order(scanning_order(Rank(last)), size, Rank(last), in_line);
        check(size, |shape| scan(shape, 1, ORDERED, false), 1, each_in_line, upto);
        let before = |rank: u32| if rank == 0 { 0 } else { upto(rank - 1) };
        check(size, |shape| exscan(shape, 1, ORDERED, false), 1, each_in_line, before);
    }
}

#[test]
fn of_reductions() {
    let gotten_by = |root: u32, result: u64| move |rank: u32| if rank == root { result } else { 0 };
    for size in 1..=17 {
        let result = |top: Rank, operator| {
            let last = Rank((top.0 + size - 1) % size);
            in_order(reducing_order(size, top), size, last, operator)
        };
        for root in 0..size {
            let tree = |operator| {
                move |shape: &collectives::Shape| {
                    Reduce::Binomial.schedule(shape, Rank(root), 1, operator, false)
                }
            };
            check(size, tree(ORDERED), 1, each_in_line, gotten_by(root, result(Rank(0), in_line)));
            check(size, tree(MIXED), 1, each_mixed, gotten_by(root, result(Rank(root), mixed)));
        }
    }
}

/// What each rank gets by its schedule is what it would get by itself. All its blocks are alike, so that it
/// does not matter whose it is.
fn check(
    size: u32,
    schedule: impl Fn(&collectives::Shape) -> Schedule,
    blocks: u32,
    apply: Reduction,
    expected: impl Fn(u32) -> u64,
) {
    let input = |rank: u32| contribution(rank).to_le_bytes().repeat(blocks as usize);
    let inputs: Vec<Vec<u8>> = (0..size).map(input).collect();
    let outputs = vec![vec![0; 8]; size as usize];
    let got = Job::new(size, Weather::storm(1)).run(of_all(size, schedule), &inputs, &outputs, apply);
    for (rank, got) in (0..).zip(got) {
        assert_eq!(got, expected(rank).to_le_bytes(), "rank {rank} of {size}");
    }
}

fn in_order(
    pairs: impl Iterator<Item = (Rank, Rank)>,
    size: u32,
    result: Rank,
    operator: fn(u64, u64) -> u64,
) -> u64 {
    let mut places: Vec<u64> = (0..size).map(contribution).collect();
    for (from, into) in pairs {
        places[into.0 as usize] = operator(places[from.0 as usize], places[into.0 as usize]);
    }
    places[result.0 as usize]
}

fn contribution(rank: u32) -> u64 {
    u64::from(rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Neither associative nor commutative.
fn in_line(left: u64, right: u64) -> u64 {
    (left.wrapping_mul(3) ^ right.rotate_left(7)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn each_in_line(from: &[u8], into: &mut [u8]) {
    each(from, into, in_line);
}

/// Commutative, and not associative.
fn mixed(left: u64, right: u64) -> u64 {
    left.wrapping_add(right).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(9)
}

fn each_mixed(from: &[u8], into: &mut [u8]) {
    each(from, into, mixed);
}

fn each(from: &[u8], into: &mut [u8], operator: fn(u64, u64) -> u64) {
    for (left, right) in from.chunks_exact(8).zip(into.chunks_exact_mut(8)) {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let result = operator(number(left), number(right));
        right.copy_from_slice(&result.to_le_bytes());
    }
}

const ORDERED: Operator = Operator { element_bytes: 8, commutative: false };
const MIXED: Operator = Operator { commutative: true, ..ORDERED };
