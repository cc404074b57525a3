//! Schedules as data: for random sizes and lengths those of all ranks fit together, and for a million ranks
//! they stay as small as their algorithms allow.

use std::sync::Arc;

use crate::common::of_all;
use crate::common::verify::verify;
use collectives::{
    Allgather, Allreduce, Alltoall, Around, Bcast, Block, Collective, Cores, Each, Gather, Hierarchy,
    HierarchyLevel, Neighbourhood, Operator, Rank, Reduce, ReduceScatter, Reduction, Rooted, Run, Scatter,
    Schedule, Shape, Step, Surround, allgatherv, alltoallv, barrier, bcast, exscan, gatherv, reduce, scan,
    scatterv,
};
use proptest::prelude::*;

/// What a random case is made of.
#[derive(Clone, Copy, Debug)]
struct RandomCase {
    size: u32,
    root: Rank,
    count: usize,
    operator: Operator,
    in_place: bool,
    seed: u64,
}

fn random() -> impl Strategy<Value = RandomCase> {
    let switches = (any::<bool>(), any::<bool>(), any::<u64>());
    (1..90u32, 0..90u32, 0..2000usize, 1..20usize, switches).prop_map(
        |(size, root, count, element_bytes, (commutative, in_place, seed))| RandomCase {
            size,
            root: Rank(root % size),
            count,
            operator: Operator { element_bytes, commutative },
            in_place,
            seed,
        },
    )
}

impl RandomCase {
    /// Some number below `bound`, the same whenever it is asked for.
    fn number(&self, first: u32, second: u32, bound: usize) -> usize {
        let mixed = (u64::from(first) << 32 | u64::from(second)) ^ self.seed;
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize % bound.max(1)
    }

    fn blocks(&self, bytes: impl Fn(u32) -> usize) -> Vec<Block> {
        let mut offset = 0;
        let block = |rank| {
            let block = Block { offset, bytes: bytes(rank) };
            offset += block.bytes + self.number(rank, 7, 4);
            block
        };
        (0..self.size).map(block).collect()
    }

    fn check(&self, what: &str, schedule: impl Fn(&Shape) -> Schedule) {
        verify(&format!("{what} {self:?}"), &of_all(self.size, schedule));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_message_has_two_ends_when_there_is_a_root(at in random()) {
        let RandomCase { root, count, operator, in_place, .. } = at;
        let bytes = count * operator.element_bytes;
        let at_root = |shape: &Shape| in_place && shape.rank() == root;
        Bcast::ALL.into_iter().for_each(|way| at.check("bcast", |shape| way.schedule(shape, root, bytes)));
        Gather::ALL.into_iter().for_each(|way| at.check("gather", |shape| way.schedule(shape, root, bytes, at_root(shape))));
        Scatter::ALL.into_iter().for_each(|way| at.check("scatter", |shape| way.schedule(shape, root, bytes, at_root(shape))));
        for way in Reduce::ALL {
            at.check("reduce", |shape| way.schedule(shape, root, count, operator, at_root(shape)));
        }
        let blocks = at.blocks(|rank| at.number(rank, 0, count));
        let own = |shape: &Shape| blocks[shape.rank().0 as usize].bytes;
        at.check("gatherv", |shape| gatherv(shape, root, own(shape), &blocks, at_root(shape)));
        at.check("scatterv", |shape| scatterv(shape, root, &blocks, own(shape), at_root(shape)));
    }

    #[test]
    fn every_message_has_two_ends_when_there_is_none(at in random()) {
        let RandomCase { size, count, operator, in_place, .. } = at;
        at.check("barrier", barrier);
        let blocks = at.blocks(|rank| at.number(rank, 0, count));
        for way in Allgather::ALL {
            at.check("allgather", |shape| way.schedule(shape, count, in_place));
            at.check("allgatherv", |shape| way.schedule_blocks(shape, &blocks, in_place));
        }
        at.check("allgatherv", |shape| allgatherv(shape, &blocks, in_place));
        Alltoall::ALL.into_iter().for_each(|way| at.check("alltoall", |shape| way.schedule(shape, count, in_place)));
        let between = |from: u32, to: u32| {
            let (from, to) = if in_place { (from.min(to), from.max(to)) } else { (from, to) };
            at.number(from, to, count)
        };
        at.check("alltoallv", |shape| {
            let here = shape.rank().0;
            let sends = at.blocks(|to| between(here, to));
            alltoallv(shape, &sends, &at.blocks(|from| between(from, here)), in_place)
        });
        for way in Allreduce::ALL {
            at.check("allreduce", |shape| way.schedule(shape, count, operator, in_place));
        }
        let counts: Vec<_> = (0..size).map(|rank| at.number(rank, 0, count)).collect();
        for way in ReduceScatter::ALL {
            at.check("block", |shape| way.schedule(shape, count, operator, in_place));
            at.check("reduce_scatter", |shape| way.schedule_counts(shape, &counts, operator, in_place));
        }
        at.check("scan", |shape| scan(shape, count, operator, in_place));
        at.check("exscan", |shape| exscan(shape, count, operator, in_place));
    }

    /// Tori, whose short blocks are received in turn: nobody waits in a circle even where no message leaves
    /// before its receiver asks for it.
    #[test]
    fn neighbours_never_wait_in_a_circle(rows in 1..7u32, columns in 1..7u32, bytes in 1..9usize, long in any::<bool>()) {
        let around = |here: u32, ways: &[(u32, u32)]| {
            let rank = |(row, column): &(u32, u32)| Some(Rank(row % rows * columns + column % columns));
            let ranks: Vec<Option<Rank>> = ways.iter().map(rank).collect();
            Neighbourhood { here: Rank(here), sources: ranks.clone(), destinations: ranks, is_paired: true }
        };
        let of = |here: u32| {
            let (row, column) = (here / columns, here % columns);
            let (up, left) = (row + rows - 1, column + columns - 1);
            around(here, &[(up, column), (row + 1, column), (row, left), (row, column + 1)])
        };
        let bytes = if long { bytes << 20 } else { bytes };
        let alltoall = Surround::Even(Around::Alltoall { bytes });
        let schedules: Vec<Schedule> = (0..rows * columns).map(|here| alltoall.schedule(&of(here))).collect();
        verify(&format!("torus {rows}x{columns}, {bytes} bytes"), &schedules);
    }

    #[test]
    fn rings_send_no_more_than_they_must(size in 1..100u32, count in 0..5000usize) {
        let operator = Operator { element_bytes: 8, commutative: true };
        for schedule in of_all(size, |shape| Allreduce::Ring.schedule(shape, count, operator, false)) {
            let ranks = size as usize;
            let least = 2 * (ranks - 1) * count * 8 / ranks;
            let rounding = 2 * ranks * 8;
            prop_assert!(sent_bytes(&schedule) <= least + rounding, "{schedule}");
            prop_assert_eq!(schedule.scratch_bytes, 0);
        }
    }
}

#[test]
fn a_million_ranks_need_few_steps_and_no_room() {
    let size = (1 << 20) - 1;
    let operator = Operator { element_bytes: 8, commutative: false };
    for rank in [0, 1, 2, 524_287, 524_288, 777_777, size - 1] {
        let shape = Shape::new(Rank(rank), size);
        for schedule in [
            barrier(&shape),
            bcast(&shape, Rank(31), 1000),
            reduce(&shape, Rank(31), 100, operator, false),
            collectives::allreduce(&shape, 100, operator, false),
            Allreduce::Rabenseifner.schedule(&shape, 100, Operator { commutative: true, ..operator }, false),
            scan(&shape, 100, operator, false),
            exscan(&shape, 100, operator, false),
        ] {
            assert!(schedule.steps.len() <= 4 * 2 * 20 + 4, "{} steps: {schedule}", schedule.steps.len());
            assert!(schedule.scratch_bytes <= 2 * 1024, "{schedule}");
        }
    }
}

/// As many ranks as the largest machines run, 64 on each node: nothing grows with the number of ranks but
/// what must.
#[test]
fn a_million_ranks_on_nodes_need_few_steps() {
    let (nodes, size) = ([Run { groups: 1 << 14, size: 64 }], 1 << 20);
    let hierarchy =
        Arc::new(Hierarchy::new(&[], &[(HierarchyLevel::Node, nodes.to_vec())]).expect("equal nodes"));
    let sum = Operator { element_bytes: 8, commutative: true };
    for rank in [0, 1, 63, 64, 524_288, 777_777, size - 1] {
        let shape = Shape::new(Rank(rank), size).nested(hierarchy.clone());
        for (schedule, scratch_bytes) in [
            (barrier(&shape), 0),
            (bcast(&shape, Rank(31), 1000), 0),
            (reduce(&shape, Rank(31), 100, sum, false), 4 * 1024),
            (collectives::allreduce(&shape, 100, sum, false), 4 * 1024),
            (collectives::allreduce(&shape, 1 << 20, sum, false), 3 << 20),
            (collectives::allgather(&shape, 8, false), 64 * 8),
            (collectives::reduce_scatter_block(&shape, 1, sum, false), 29 << 20),
            (Allgather::Circulant.schedule(&shape, 8, false), 0),
            (Allreduce::Circulant.schedule(&shape, 1 << 20, sum, false), 2 << 20),
            (ReduceScatter::Circulant.schedule(&shape, 1, sum, false), 11 << 20),
        ] {
            assert!(schedule.steps.len() <= 450, "{} steps: {}", schedule.steps.len(), schedule.algorithm);
            assert!(schedule.scratch_bytes <= scratch_bytes, "{schedule}");
        }
    }
}

#[test]
fn what_is_empty_is_not_sent() {
    let operator = Operator { element_bytes: 8, commutative: true };
    for way in Allreduce::ALL {
        for schedule in of_all(7, |shape| way.schedule(shape, 0, operator, false)) {
            assert_eq!(schedule.steps, [], "{schedule}");
        }
    }
}

fn sent_bytes(schedule: &Schedule) -> usize {
    let sent = |step: &Step| if let Step::Send { from, .. } = step { from.bytes } else { 0 };
    schedule.steps.iter().map(sent).sum()
}

/// Two ranks with few bytes may go without a schedule, by the same messages: at most one each way.
#[test]
fn operations_of_two_are_one_message_each_way() {
    for bytes in [1, 8, 256, 1024, 2048] {
        let of = |in_place| {
            let operator = Operator { element_bytes: 1, commutative: true };
            (Reduction { count: bytes, operator, in_place }, Each { bytes, in_place })
        };
        for in_place in [false, true] {
            let (reduction, each) = of(in_place);
            let both = [Some(bytes), Some(bytes)];
            let rooted = |root| Rooted { root: Rank(root), bytes, in_place };
            for (collective, expected) in [
                (Collective::Barrier, [Some(0), Some(0)]),
                (Collective::Bcast { root: Rank(0), bytes }, [Some(bytes), None]),
                (Collective::Bcast { root: Rank(1), bytes }, [None, Some(bytes)]),
                (Collective::Allgather(each), both),
                (Collective::Alltoall(Each { bytes, in_place: false }), both),
                (Collective::Allreduce(reduction), both),
                (Collective::Reduce(Rank(0), reduction), [None, Some(bytes)]),
                (Collective::Reduce(Rank(1), reduction), [Some(bytes), None]),
                (Collective::Gather(rooted(0)), [None, Some(bytes)]),
                (Collective::Gather(rooted(1)), [Some(bytes), None]),
                (Collective::Scatter(rooted(0)), [Some(bytes), None]),
                (Collective::Scatter(rooted(1)), [None, Some(bytes)]),
                (Collective::ReduceScatterBlock(reduction), both),
                (Collective::Scan(reduction), [Some(bytes), None]),
                (Collective::Exscan(reduction), [Some(bytes), None]),
            ] {
                for (cores, node) in
                    [(Cores::Own, 1), (Cores::Shared, 1), (Cores::Own, 2), (Cores::Shared, 2)]
                {
                    let nodes = [Run { groups: 2 / node, size: node }];
                    let hierarchy = Arc::new(
                        Hierarchy::new(&[], &[(HierarchyLevel::Node, nodes.to_vec())]).expect("equal nodes"),
                    );
                    for rank in 0..2 {
                        let shape = Shape::new(Rank(rank), 2).on(cores).nested(hierarchy.clone());
                        let schedule = collective.schedule(&shape);
                        let sent: Vec<usize> = sends(&schedule).collect();
                        let expected: Vec<usize> = expected[rank as usize].into_iter().collect();
                        assert_eq!(sent, expected, "{collective:?} at rank {rank}, {cores:?}: {schedule}");
                    }
                }
            }
        }
    }
}

fn sends(schedule: &Schedule) -> impl Iterator<Item = usize> {
    schedule.steps.iter().filter_map(|step| match step {
        Step::Send { from, .. } => Some(from.bytes),
        _ => None,
    })
}
