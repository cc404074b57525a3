//! Rounds and bytes of the algorithms that reach the lower bounds, for any number of ranks: they are held to
//! them exactly.

use crate::common::counting::{Count, Walk, rounds};
use crate::common::of_all;
use collectives::{
    Allgather, Allreduce, Bcast, Block, Operator, Rank, Reduce, ReduceScatter, Schedule, Shape, Step,
};

const SUM: Operator = Operator { element_bytes: 8, commutative: true };

fn log2(size: u32) -> u32 {
    size.next_power_of_two().ilog2()
}

/// Everybody sends so many bytes, in so many rounds.
fn assert_takes(what: &str, schedules: &[Schedule], rounds_least: u32, bytes_least: u64) {
    let size = schedules.len() as u64;
    assert_eq!(rounds(schedules), rounds_least, "{what}, {size} ranks");
    let count = Count::of_all(schedules, 1);
    assert_eq!((count.bytes, count.bytes_most), (size * bytes_least, bytes_least), "{what}, {size} ranks");
}

#[test]
fn gathering_and_summing_take_the_least_rounds_and_bytes() {
    for size in 1..=100 {
        let others = u64::from(size - 1);
        let schedules = of_all(size, |shape| Allgather::Circulant.schedule(shape, 16, false));
        assert_takes("allgather", &schedules, log2(size), others * 16);
        assert!(schedules.iter().all(|schedule| schedule.scratch_bytes == 0));
        let schedules = of_all(size, |shape| ReduceScatter::Circulant.schedule(shape, 3, SUM, false));
        assert_takes("reduce-scatter", &schedules, log2(size), others * 24);
        let schedules =
            of_all(size, |shape| Allreduce::Circulant.schedule(shape, 5 * size as usize, SUM, false));
        assert_takes("allreduce", &schedules, 2 * log2(size), 2 * others * 40);
        // The first contributions are received where the sums go, and later ones are half as many each time.
        let room = 40 * size as usize / 4 + 64;
        assert!(
            schedules.iter().all(|schedule| schedule.scratch_bytes <= room),
            "{size} ranks: {}",
            schedules[0]
        );
    }
}

#[test]
fn slices_that_differ_cost_an_element_each_at_most() {
    for (size, count) in (2..=40u32).flat_map(|size| [1, 7, 31, 1000].map(|count| (size, count))) {
        let schedules = of_all(size, |shape| Allreduce::Circulant.schedule(shape, count, SUM, true));
        let each = count.div_ceil(size as usize) * 8;
        let most = Count::of_all(&schedules, 1).bytes_most as usize;
        assert!(most <= 2 * (size as usize - 1) * each, "{size} ranks, {count} elements: {most} bytes");
        let blocks: Vec<Block> =
            (0..size as usize).map(|at| Block { offset: 100 * (at % 7 + 9 * at), bytes: at % 5 }).collect();
        let all: usize = blocks.iter().map(|block| block.bytes).sum();
        for schedule in of_all(size, |shape| Allgather::Circulant.schedule_blocks(shape, &blocks, false)) {
            let received = |step: &Step| if let Step::Receive { into, .. } = step { into.bytes } else { 0 };
            let got: usize = schedule.steps.iter().map(received).sum();
            assert!(got <= all && schedule.scratch_bytes <= all.next_multiple_of(64), "{schedule}");
        }
    }
}

/// The root begins a chunk in each round, the last one until all have it; up, it gets one in each round.
#[test]
fn broadcasts_in_chunks_take_as_few_rounds_as_can_be() {
    for size in (2..=40).chain([64, 100, 129]) {
        for (bytes, root) in [(1, 0), (40_000, 1), (1_000_000, size - 1)] {
            let root = Rank(root);
            let down = of_all(size, |shape| Bcast::Circulant.schedule(shape, root, bytes));
            let chunks: Vec<u32> = down.iter().map(receives).collect();
            let behind = chunks[(root.0 as usize + 1) % size as usize];
            assert!((0..size).all(|rank| rank == root.0 || chunks[rank as usize] == behind));
            assert_eq!(
                (sends(&down[root.0 as usize]), chunks[root.0 as usize]),
                (behind - 1 + log2(size), 0)
            );
            let up =
                of_all(size, |shape| Reduce::Circulant.schedule(shape, root, bytes.div_ceil(8), SUM, false));
            let chunks = sends(&up[(root.0 as usize + 1) % size as usize]);
            let at_root = &up[root.0 as usize];
            assert_eq!((receives(at_root), sends(at_root)), (chunks - 1 + log2(size), 0), "{size} ranks");
        }
    }
}

#[test]
fn each_byte_comes_once_in_a_broadcast_in_chunks() {
    for way in [Bcast::Circulant, Bcast::BinaryTree, Bcast::Chain] {
        for size in [1, 2, 5, 16, 33] {
            let schedules = of_all(size, |shape| way.schedule(shape, Rank(size / 2), 300_000));
            assert_eq!(Count::of_all(&schedules, 1).bytes, u64::from(size - 1) * 300_000, "{way:?}");
        }
    }
}

fn sends(schedule: &Schedule) -> u32 {
    schedule.steps.iter().filter(|step| matches!(step, Step::Send { .. })).count() as u32
}

fn receives(schedule: &Schedule) -> u32 {
    schedule.steps.iter().filter(|step| matches!(step, Step::Receive { .. })).count() as u32
}

/// What is walked for a million ranks is the longest chain, where all chains can be counted.
#[test]
fn walks_find_the_longest_chain() {
    type Make = fn(&Shape) -> Schedule;
    let operations: [Make; 5] = [
        |shape| collectives::barrier(shape),
        |shape| collectives::bcast(shape, Rank(0), 8),
        |shape| Allreduce::Circulant.schedule(shape, 1000, SUM, false),
        |shape| Allgather::Circulant.schedule(shape, 8, false),
        |shape| ReduceScatter::Circulant.schedule(shape, 8, SUM, false),
    ];
    for (make, size) in operations.into_iter().flat_map(|make| [2, 3, 17, 64, 100].map(|size| (make, size))) {
        let schedules = of_all(size, make);
        let one = |rank: u32| schedules[rank as usize].clone();
        let mut walk = Walk::new(&one);
        let longest = (0..size).map(|rank| walk.back_from(rank)).max();
        assert_eq!(longest, Some(rounds(&schedules)), "{}, {size} ranks", schedules[0].algorithm);
    }
}
