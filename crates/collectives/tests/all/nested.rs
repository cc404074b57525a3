//! Collective operations where it is known who sits on which node: results for many random placements, and
//! what goes between nodes against what must.

use std::sync::Arc;

use crate::common::Job;
use crate::common::cases::{self, Case, Setting};
use crate::common::counting::{Count, rounds};
use crate::common::seats::{Numbers, Seats};
use crate::common::verify::verify;
use collectives::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Hierarchy, HierarchyLevel, Operator, Rank, Reduce,
    ReduceScatter, Run, Schedule, Shape, bcast,
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
        for way in [Some(ReduceScatter::ByNode), Some(ReduceScatter::ByNodeInSlices), None] {
            run(cases::reduce_scatter_block(way, at));
            run(cases::reduce_scatter(way, at));
        }
        for way in [Some(Alltoall::ByNode), None] {
            run(cases::alltoall(way, Setting { count: count.min(100), ..at }));
        }
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

/// All ranks get the same bits, and each time, however much the operator rounds.
#[test]
fn an_allreduce_gives_the_same_bits_everywhere_and_each_time() {
    let operator = Operator { element_bytes: 8, commutative: true };
    for (seed, way) in (0..40).flat_map(|seed| Allreduce::ALL.map(|way| (seed, way))) {
        let results = same_each_time(seed, |_| 50, 50, |shape| way.schedule(shape, 50, operator, false));
        assert!(results.iter().all(|result| *result == results[0]), "{way:?}, seed {seed}");
    }
}

#[test]
fn a_reduce_scatter_gives_the_same_bits_each_time() {
    let operator = Operator { element_bytes: 8, commutative: true };
    for (seed, way) in (0..40).flat_map(|seed| ReduceScatter::ALL.map(|way| (seed, way))) {
        same_each_time(seed, |size| 5 * size, 5, |shape| way.schedule(shape, 5, operator, false));
    }
}

/// Results of ranks that sit at random, in fair weather and in a storm, of so many elements of each rank,
/// which depend on how many there are.
fn same_each_time(
    seed: u64,
    given: impl Fn(usize) -> usize,
    got: usize,
    schedule: impl Fn(&Shape) -> Schedule,
) -> Vec<Vec<u8>> {
    let size = 1 + Numbers(seed).below(20);
    let hierarchy = seats(seed, &mut Numbers(seed)).hierarchy(size).expect("seats are known");
    let bytes = 8 * given(size as usize);
    let inputs: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8 + 1; bytes]).collect();
    let run = |weather| {
        let shape = |rank| Shape::new(Rank(rank), size).nested(hierarchy.clone());
        let schedules = (0..size).map(|rank| schedule(&shape(rank))).collect();
        Job::new(size, weather).run(schedules, &inputs, &vec![vec![0; 8 * got]; size as usize], bracket)
    };
    let results = run(Weather::fair());
    assert_eq!(run(Weather::storm(seed)), results, "seed {seed}");
    results
}

/// The schedules of `nodes` nodes of `per_node` ranks each.
fn by_node(nodes: u32, per_node: u32, schedule: impl Fn(&Shape) -> Schedule) -> Vec<Schedule> {
    let runs = [Run { groups: nodes, size: per_node }];
    let hierarchy = Arc::new(Hierarchy::new(&[], &[(HierarchyLevel::Node, runs.to_vec())]).expect("sound"));
    let size = nodes * per_node;
    (0..size).map(|rank| schedule(&Shape::new(Rank(rank), size).nested(hierarchy.clone()))).collect()
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
        for way in [ReduceScatter::ByNode, ReduceScatter::ByNodeInSlices] {
            let sent = by_node(nodes, per_node, |shape| way.schedule(shape, count / size, operator, false));
            let vector = count / size * size * operator.element_bytes;
            assert_eq!(out(&sent), others * vector, "reduce-scatter {way:?}, {nodes} x {per_node}");
        }
        let sent = by_node(nodes, per_node, |shape| Alltoall::ByNode.schedule(shape, bytes, false));
        let to_others = size * (size - per_node as usize) * bytes;
        assert_eq!(out(&sent), to_others, "alltoall, {nodes} x {per_node}");
    }
}

/// Within nodes, one message between any two, or as many as let all ranks of a node have a part in it, and
/// within nodes again.
#[test]
fn an_alltoall_sends_one_message_between_any_two_nodes_or_few() {
    for (nodes, per_node) in [(2, 2), (2, 8), (3, 4), (5, 8), (8, 6), (16, 4), (12, 1), (1, 7)] {
        let schedules = by_node(nodes, per_node, |shape| Alltoall::ByNode.schedule(shape, 24, false));
        let count = Count::of_all(&schedules, per_node);
        let slices = (per_node / nodes).max(1);
        assert_eq!(count.messages_out, u64::from(nodes * (nodes - 1) * slices), "{nodes} x {per_node}");
        let is_flat = nodes == 1 || per_node == 1;
        if !is_flat {
            assert_eq!(rounds(&schedules), 3, "{nodes} x {per_node}");
        }
    }
}

/// Between nodes, a reduce-scatter takes the rounds and messages of one of the nodes alone.
#[test]
fn a_reduce_scatter_sends_between_nodes_what_one_of_nodes_alone_sends() {
    let operator = Operator { element_bytes: 8, commutative: true };
    for (nodes, per_node) in [(2, 3), (5, 4), (16, 8), (12, 2)] {
        let alone = |node| {
            let shape = Shape::new(Rank(node), nodes).over_nodes(nodes);
            ReduceScatter::Circulant.schedule(&shape, 1, operator, false)
        };
        let alone: Vec<Schedule> = (0..nodes).map(alone).collect();
        let count = Count::of_all(&alone, 1);
        let of = |way: ReduceScatter| {
            let schedules = by_node(nodes, per_node, |shape| way.schedule(shape, 1, operator, false));
            (Count::of_all(&schedules, per_node).messages_out, rounds(&schedules))
        };
        let (within, between) = (per_node.next_power_of_two().ilog2(), rounds(&alone));
        let (messages, taken) = of(ReduceScatter::ByNodeInSlices);
        assert_eq!(messages, count.messages * u64::from(per_node), "{nodes} x {per_node}");
        assert!(taken <= within + between, "{nodes} x {per_node}: {taken} rounds");
        let (messages, taken) = of(ReduceScatter::ByNode);
        assert!(messages <= count.messages, "{nodes} x {per_node}: {messages}");
        assert!(taken <= 2 * within + between, "{nodes} x {per_node}: {taken} rounds");
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
            of_first(by_node(nodes, per_node, |shape| collectives::alltoall(shape, 8, false))),
            of_first(by_node(nodes, per_node, |shape| {
                collectives::reduce_scatter_block(shape, 1 << 10, sum, false)
            })),
        ]
    };
    let large = algorithms(4, 16);
    let by_node = |name: &&str| name.contains("within nodes") || name.contains("within them");
    assert!(large.iter().copied().filter(by_node).count() >= 4, "{large:?}");
    assert!(large[5..].iter().all(by_node), "{large:?}");
    // One node, or one rank on each: nothing to gain.
    for (nodes, per_node) in [(1, 12), (12, 1)] {
        assert!(algorithms(nodes, per_node).iter().all(|name| !name.contains("nodes")));
    }
}
