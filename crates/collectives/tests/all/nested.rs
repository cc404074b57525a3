//! Collective operations where it is known who sits on which node: results for many random placements, and what
//! goes between nodes against what must.

use std::sync::Arc;

use crate::common::Job;
use crate::common::cases::{self, Case, Setting};
use crate::common::counting::Count;
use crate::common::seats::{Numbers, Seats};
use crate::common::verify::verify;
use collectives::{
    Allgather, Allreduce, Barrier, Bcast, Border, Nesting, Operator, Rank, Reduce, Run, Schedule, Shape,
    bcast,
};
use fabric::simulated::Weather;

#[test]
fn random_placements_give_the_same_results() {
    for seed in 0..150 {
        let mut numbers = Numbers(seed);
        let size = 1 + numbers.below(33);
        let mut job = Job::new(size, Weather::fair());
        every_operation(size, seats(seed, &mut numbers), &mut numbers, |case| {
            verify(&case.what, &case.schedules);
            case.run(&mut job);
        });
    }
}

#[test]
fn and_so_they_do_in_storms() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let size = 2 + numbers.below(14);
        let mut job = Job::new(size, Weather::storm(seed));
        every_operation(size, seats(seed, &mut numbers), &mut numbers, |case| case.run(&mut job));
    }
}

fn seats(seed: u64, numbers: &mut Numbers) -> Seats {
    match seed % 5 {
        0 | 1 => Seats::Straight(seed),
        2 | 3 => Seats::Dealt(seed),
        _ => Seats::Cyclic(1 + numbers.below(5)),
    }
}

fn every_operation(size: u32, seats: Seats, numbers: &mut Numbers, mut run: impl FnMut(Case)) {
    for count in [0, 1, 7, 100 + numbers.below(2000) as usize] {
        let (root, in_place) = (numbers.below(size), numbers.below(2) == 0);
        let at = Setting { size, root, count, commutative: numbers.below(2) == 0, in_place, seats };
        run(cases::bcast(Some(Bcast::ByNode), at));
        run(cases::bcast(None, at));
        run(cases::reduce(Some(Reduce::ByNode), at));
        run(cases::allreduce(Some(Allreduce::ByNode), at));
        run(cases::allreduce(Some(Allreduce::ByNodeInSlices), at));
        run(cases::allreduce(None, at));
        run(cases::allgather(Some(Allgather::ByNode), at));
        run(cases::allgather(None, at));
        run(cases::allgatherv(None, at));
    }
    let at = Setting { size, root: 0, count: 0, commutative: false, in_place: false, seats };
    run(cases::barrier(Some(Barrier::ByNode), at));
}

/// An operator that tells how operands were put in brackets and in which order.
fn bracket(left: &[u8], right: &mut [u8]) {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    for (left, right) in left.chunks(8).zip(right.chunks_mut(8)) {
        let put = word(left).wrapping_mul(31).wrapping_add(word(right).wrapping_mul(0x9e37_79b9));
        right.copy_from_slice(&put.rotate_left(7).to_le_bytes());
    }
}

/// The same bits at all ranks, and each time, however much the operator rounds.
#[test]
fn an_allreduce_gives_the_same_bits_everywhere_and_each_time() {
    let operator = Operator { element_bytes: 8, commutative: true };
    for (seed, way) in (0..40).flat_map(|seed| Allreduce::ALL.map(|way| (seed, way))) {
        let size = 1 + Numbers(seed).below(20);
        let nesting = seats(seed, &mut Numbers(seed)).nesting(size).expect("seats are known");
        let inputs: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8 + 1; 8 * 50]).collect();
        let run = |weather| {
            let shape = |rank| Shape::new(Rank(rank), size).nested(nesting.clone());
            let schedules = (0..size).map(|rank| way.schedule(&shape(rank), 50, operator, false)).collect();
            Job::new(size, weather).run(schedules, &inputs, &vec![vec![0; 8 * 50]; size as usize], bracket)
        };
        let results = run(Weather::fair());
        assert!(results.iter().all(|result| *result == results[0]), "{way:?}, seed {seed}");
        assert_eq!(run(Weather::storm(seed)), results, "{way:?}, seed {seed}");
    }
}

/// The schedules of `nodes` nodes of `per_node` ranks each.
fn by_node(nodes: u32, per_node: u32, schedule: impl Fn(&Shape) -> Schedule) -> Vec<Schedule> {
    let runs = [Run { groups: nodes, size: per_node }];
    let nesting = Arc::new(Nesting::new(&[], &[(Border::Node, runs.to_vec())]).expect("sound"));
    let size = nodes * per_node;
    (0..size).map(|rank| schedule(&Shape::new(Rank(rank), size).nested(nesting.clone()))).collect()
}

#[test]
fn no_more_goes_between_nodes_than_must() {
    for (nodes, per_node) in [(2, 2), (3, 4), (5, 8), (8, 6), (16, 4)] {
        let (count, out) =
            (960, |schedules: &[Schedule]| Count::of_all(schedules, per_node).bytes_out as usize);
        let operator = Operator { element_bytes: 8, commutative: true };
        let bytes = count * operator.element_bytes;
        let (others, size) = (nodes as usize - 1, (nodes * per_node) as usize);
        for root in [0, per_node, nodes * per_node - 1].map(Rank) {
            let sent = by_node(nodes, per_node, |shape| Bcast::ByNode.schedule(shape, root, bytes));
            assert_eq!(out(&sent), others * bytes, "bcast, {nodes} x {per_node}");
            let sent = by_node(nodes, per_node, |shape| {
                Reduce::ByNode.schedule(shape, root, count, operator, false)
            });
            assert_eq!(out(&sent), others * bytes, "reduce, {nodes} x {per_node}");
        }
        let sent = by_node(nodes, per_node, |shape| {
            Allreduce::ByNodeInSlices.schedule(shape, count, operator, false)
        });
        assert_eq!(out(&sent), 2 * others * bytes, "allreduce, {nodes} x {per_node}");
        let sent = by_node(nodes, per_node, |shape| Allgather::ByNode.schedule(shape, bytes, false));
        let of_node = per_node as usize * bytes;
        assert_eq!(
            out(&sent),
            others * size / per_node as usize * of_node,
            "allgather, {nodes} x {per_node}"
        );
    }
}

#[test]
fn a_barrier_sends_between_nodes_what_one_of_nodes_alone_sends() {
    for (nodes, per_node) in [(2, 3), (5, 4), (16, 16)] {
        let alone = |node| collectives::barrier(&Shape::new(Rank(node), nodes).over_nodes(nodes));
        let alone = Count::of_all(&(0..nodes).map(alone).collect::<Vec<_>>(), 1);
        let schedules = by_node(nodes, per_node, |shape| Barrier::ByNode.schedule(shape));
        let count = Count::of_all(&schedules, per_node);
        assert_eq!(count.messages_out, alone.messages_out, "{nodes} x {per_node}");
        assert_eq!(count.messages - count.messages_out, u64::from(2 * nodes * (per_node - 1)));
    }
}

#[test]
fn where_several_nodes_are_known_the_library_goes_by_them() {
    let algorithms = |nodes, per_node| {
        let of_first = |schedules: Vec<Schedule>| schedules[0].algorithm;
        let sum = Operator { element_bytes: 8, commutative: true };
        [
            of_first(by_node(nodes, per_node, |shape| bcast(shape, Rank(0), 8))),
            of_first(by_node(nodes, per_node, collectives::barrier)),
            of_first(by_node(nodes, per_node, |shape| collectives::allreduce(shape, 1, sum, false))),
            of_first(by_node(nodes, per_node, |shape| collectives::allreduce(shape, 1 << 16, sum, false))),
            of_first(by_node(nodes, per_node, |shape| collectives::allgather(shape, 8, false))),
        ]
    };
    let large = algorithms(4, 16);
    let by_node = |name: &&str| name.contains("within nodes") || name.contains("within them");
    assert!(large.iter().copied().filter(by_node).count() >= 2, "{large:?}");
    // One node, or one rank on each: nothing to gain.
    for (nodes, per_node) in [(1, 12), (12, 1)] {
        assert!(algorithms(nodes, per_node).iter().all(|name| !name.contains("nodes")));
    }
}
