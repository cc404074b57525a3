//! What all members do together by their plans, of every operation, size, root and place.

use crate::{Operator, packed};

use fabric::slots::MEMBERS_MAX;

use super::*;

/// What all members have.
#[derive(Clone)]
struct MemberBuffers {
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

/// Does an operation with the plans of all members, and looks at what each has gotten. Contributions that are
/// combined are elements of two bytes: the first rank that has contributed, and how many have; only
/// neighbours can be combined.
fn carry_out<'a>(
    what: &str,
    plan_of: impl Fn(Rank) -> Option<SegmentPlan<'a>>,
    MemberBuffers { inputs, outputs }: MemberBuffers,
    expected: &[Vec<u8>],
) {
    let plans: Vec<SegmentPlan<'_>> =
        (0..expected.len() as u32).map(|rank| plan_of(Rank(rank)).expect("it fits")).collect();
    let given = |rank: usize| if plans[rank].is_loaded { &outputs[rank] } else { &inputs[rank] };
    let part = |data: &[u8], Block { offset, bytes }| data[offset..offset + bytes].to_vec();
    let entry = |rank: usize| -> Option<Vec<u8>> {
        let plan = &plans[rank];
        plan.gives.then(|| plan.entry().map(|block| part(given(rank), block)).concat())
    };
    let entries: Vec<Option<Vec<u8>>> = (0..plans.len()).map(entry).collect();
    for (rank, plan) in plans.iter().enumerate() {
        let mut output = outputs[rank].clone();
        let mut put = |at: usize, data: &[u8]| output[at..at + data.len()].copy_from_slice(data);
        let own = || part(given(rank), plan.own());
        if let Some(place) = plan.kept() {
            put(place, &own());
        }
        let heard = |from: Rank| {
            let entry = entries[from.0 as usize].as_ref().expect("who is heard has written");
            let (bytes, block) = plan.heard(from);
            assert_eq!(entry.len(), bytes, "{what}: {rank} hears {from:?}");
            part(entry, block)
        };
        match plan.then {
            _ if plan.hears == Sources::Nobody => assert_eq!(plan.writers().count(), 0),
            Use::Nothing | Use::Taken | Use::Placed => {
                plan.writers().for_each(|from| put(plan.place(from), &heard(from)));
            }
            Use::Combined(sum) => {
                let of = |from: Rank| if from.0 as usize == rank { own() } else { heard(from) };
                let mut places: Vec<Vec<u8>> = sum.of(plan.size).map(of).collect();
                let mut runs = places.clone();
                sum.of(plan.size).zip(&places).for_each(|(from, given)| {
                    runs[sum.place(plan.size, from)] = given.clone();
                });
                let all = sum.in_runs(plan.size, |lower, higher, count| {
                    for at in 0..count {
                        runs[higher + at] = joined(&runs[lower + at], &runs[higher + at]);
                    }
                });
                let at = sum.in_order(plan.size, |lower, higher| {
                    places[higher.0 as usize] = joined(&places[lower.0 as usize], &places[higher.0 as usize]);
                });
                assert_eq!(runs[all], places[at.0 as usize], "{what}: in runs and in pairs");
                put(0, &runs[all]);
            }
        }
        assert_eq!(output, expected[rank], "{what}: rank {rank} of {}", plans.len());
    }
}

fn joined(lower: &[u8], higher: &[u8]) -> Vec<u8> {
    let pairs = lower.chunks(2).zip(higher.chunks(2));
    let join = |(lower, higher): (&[u8], &[u8])| {
        assert_eq!(lower[0] + lower[1], higher[0], "these are not neighbours");
        [lower[0], lower[1] + higher[1]]
    };
    pairs.flat_map(join).collect()
}

/// Elements to which so many ranks have contributed, the first of which is that one.
fn sum(first: u32, ranks: u32, count: usize) -> Vec<u8> {
    [first as u8, ranks as u8].repeat(count)
}

/// What one rank has for another.
fn block(from: u32, to: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| [from as u8, to as u8, at as u8][at % 3]).collect()
}

fn of_all(size: u32, one: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..size).map(one).collect()
}

/// No bytes that anybody has.
fn blank(bytes: usize) -> Vec<u8> {
    vec![0xee; bytes]
}

const SUM: Operator = Operator { element_bytes: 2, commutative: false };

#[test]
fn data_goes_from_a_root_and_to_one() {
    let bytes = 3;
    for (size, root) in sizes().flat_map(|size| [0, size / 2, size - 1].map(|root| (size, root))) {
        let all = bytes * size as usize;
        let at_root = |rank: u32, data: Vec<u8>| if rank == root { data } else { blank(data.len()) };
        let row = |of: &dyn Fn(u32) -> Vec<u8>| of_all(size, of).concat();
        let bcast = |rank| {
            let collective = Collective::Bcast { root: Rank(root), bytes };
            SegmentPlan::of(collective, rank, size)
        };
        let data = block(root, 0, bytes);
        let buffers = MemberBuffers {
            inputs: of_all(size, |_| Vec::new()),
            outputs: of_all(size, |rank| at_root(rank, data.clone())),
        };
        carry_out("bcast", bcast, buffers, &of_all(size, |_| data.clone()));
        for in_place in [false, true] {
            let rooted = |rank: Rank| {
                let in_place = in_place && rank.0 == root;
                Rooted { root: Rank(root), bytes, in_place }
            };
            let has_own = |rank: u32| in_place && rank == root;
            let gathered = row(&|from| block(from, root, bytes));
            let expected = of_all(size, |rank| at_root(rank, gathered.clone()));
            let mut outputs = of_all(size, |_| blank(all));
            if in_place {
                let own = root as usize * bytes;
                outputs[root as usize][own..own + bytes].copy_from_slice(&block(root, root, bytes));
            }
            let inputs = of_all(size, |rank| block(rank, root, if has_own(rank) { 0 } else { bytes }));
            let gather = |rank| SegmentPlan::of(Collective::Gather(rooted(rank)), rank, size);
            carry_out("gather", gather, MemberBuffers { inputs, outputs }, &expected);

            let inputs = of_all(size, |rank| at_root(rank, row(&|to| block(root, to, bytes))));
            let outputs = of_all(size, |_| blank(bytes));
            let expected =
                of_all(size, |rank| if has_own(rank) { blank(bytes) } else { block(root, rank, bytes) });
            let scatter = |rank| SegmentPlan::of(Collective::Scatter(rooted(rank)), rank, size);
            carry_out("scatter", scatter, MemberBuffers { inputs, outputs }, &expected);
        }
    }
}

#[test]
fn data_goes_from_all_to_all() {
    let bytes = 3;
    for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
        let all = bytes * size as usize;
        let each = Each { bytes, in_place };
        let barrier = |rank| SegmentPlan::of(Collective::Barrier, rank, size);
        let nothing = of_all(size, |_| Vec::new());
        let buffers = MemberBuffers { inputs: nothing.clone(), outputs: nothing.clone() };
        carry_out("barrier", barrier, buffers, &nothing);
        assert!((0..size).all(|rank| {
            barrier(Rank(rank)).is_some_and(|plan| plan.gives && plan.writers().count() == size as usize - 1)
        }));

        let gathered = of_all(size, |rank| block(rank, 0, bytes)).concat();
        let place = |rank: u32| rank as usize * bytes..(rank as usize + 1) * bytes;
        let loaded = |rank: u32| {
            let mut output = blank(all);
            output[place(rank)].copy_from_slice(&block(rank, 0, bytes));
            output
        };
        let buffers = MemberBuffers {
            inputs: of_all(size, |rank| if in_place { Vec::new() } else { block(rank, 0, bytes) }),
            outputs: of_all(size, |rank| if in_place { loaded(rank) } else { blank(all) }),
        };
        let allgather = |rank| SegmentPlan::of(Collective::Allgather(each), rank, size);
        carry_out("allgather", allgather, buffers, &of_all(size, |_| gathered.clone()));

        let given = |from: u32| of_all(size, |to| block(from, to, bytes)).concat();
        let gotten = |to: u32| of_all(size, |from| block(from, to, bytes)).concat();
        let buffers = MemberBuffers {
            inputs: of_all(size, |rank| if in_place { Vec::new() } else { given(rank) }),
            outputs: of_all(size, |rank| if in_place { given(rank) } else { blank(all) }),
        };
        let alltoall = |rank| SegmentPlan::of(Collective::Alltoall(each), rank, size);
        carry_out("alltoall", alltoall, buffers, &of_all(size, gotten));
    }
}

/// Blocks of any length, some of none, with gaps between them.
#[test]
fn blocks_may_differ() {
    for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
        let bytes = |rank: u32| (rank as usize * 5 + 1) % 7;
        let blocks: Vec<Block> =
            (0..size).map(|rank| Block { offset: 10 * rank as usize + 2, bytes: bytes(rank) }).collect();
        let with = |ranks: &dyn Fn(u32) -> bool| {
            let mut data = blank(10 * size as usize);
            for rank in (0..size).filter(|rank| ranks(*rank)) {
                let Block { offset, bytes } = blocks[rank as usize];
                data[offset..offset + bytes].copy_from_slice(&block(rank, 0, bytes));
            }
            data
        };
        let buffers = MemberBuffers {
            inputs: of_all(size, |rank| block(rank, 0, if in_place { 0 } else { bytes(rank) })),
            outputs: of_all(size, |rank| with(&|other| in_place && other == rank)),
        };
        let what = Uneven::Allgather { in_place };
        let listed = Listed { what, sends: &[], receives: &blocks };
        let allgather = |rank| SegmentPlan::listed(listed, rank, size);
        carry_out("allgatherv", allgather, buffers, &of_all(size, |_| with(&|_| true)));
    }
}

#[test]
fn contributions_are_combined_in_their_order() {
    let count = 4;
    for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
        let of = Reduction { count, operator: SUM, in_place };
        let own = |rank: u32| sum(rank, 1, count);
        let empty = blank(2 * count);
        let buffers = MemberBuffers {
            inputs: of_all(size, |rank| if in_place { Vec::new() } else { own(rank) }),
            outputs: of_all(size, |rank| if in_place { own(rank) } else { empty.clone() }),
        };
        let before = |rank: usize| buffers.outputs[rank].clone();
        let run = |name: &str, collective: Collective, expected: Vec<Vec<u8>>| {
            carry_out(name, |rank| SegmentPlan::of(collective, rank, size), buffers.clone(), &expected);
        };
        let upto = |ranks: u32| sum(0, ranks, count);
        run("allreduce", Collective::Allreduce(of), of_all(size, |_| upto(size)));
        run("scan", Collective::Scan(of), of_all(size, |rank| upto(rank + 1)));
        let exclusive = |rank: u32| if rank == 0 { before(0) } else { upto(rank) };
        run("exscan", Collective::Exscan(of), of_all(size, exclusive));
    }
}

fn reduce_to(root: u32, size: u32, count: usize, in_place: bool) {
    let of = |rank: Rank| Reduction { count, operator: SUM, in_place: in_place && rank.0 == root };
    let own = |rank: u32| sum(rank, 1, count);
    let loaded = |rank: u32| in_place && rank == root;
    let buffers = MemberBuffers {
        inputs: of_all(size, |rank| if loaded(rank) { Vec::new() } else { own(rank) }),
        outputs: of_all(size, |rank| if loaded(rank) { own(rank) } else { blank(2 * count) }),
    };
    let result = |rank| if rank == root { sum(0, size, count) } else { blank(2 * count) };
    let reduce = |rank| SegmentPlan::of(Collective::Reduce(Rank(root), of(rank)), rank, size);
    carry_out("reduce", reduce, buffers, &of_all(size, result));
}

#[test]
fn data_is_reduced_to_one_and_two_reduce_and_scatter() {
    let count = 4;
    for in_place in [false, true] {
        for size in [2, 3, 11] {
            for root in 0..size {
                reduce_to(root, size, count, in_place);
            }
        }
        for counts in [[count, count], [1, 3], [3, 0], [0, 2]] {
            let all = |rank| sum(rank, 1, counts[0] + counts[1]);
            let buffers = MemberBuffers {
                inputs: of_all(2, |rank| if in_place { Vec::new() } else { all(rank) }),
                outputs: of_all(
                    2,
                    |rank| {
                        if in_place { all(rank) } else { blank(2 * counts[rank as usize]) }
                    },
                ),
            };
            let expected = of_all(2, |rank| {
                let mut output = buffers.outputs[rank as usize].clone();
                let mine = sum(0, 2, counts[rank as usize]);
                output[..mine.len()].copy_from_slice(&mine);
                output
            });
            let blocks = packed(counts.map(|count| 2 * count));
            let what = Uneven::ReduceScatter { operator: SUM, in_place };
            let listed = Listed { what, sends: &blocks, receives: &[] };
            let reduce_scatter = |rank| SegmentPlan::listed(listed, rank, 2);
            carry_out("reduce-scatter", reduce_scatter, buffers.clone(), &expected);
            if counts[0] == counts[1] {
                let of = Reduction { count, operator: SUM, in_place };
                let even = |rank| SegmentPlan::of(Collective::ReduceScatterBlock(of), rank, 2);
                carry_out("reduce-scatter-block", even, buffers, &expected);
            }
        }
    }
}

/// Whether an operation goes by a collective segment is the same at all members, and lengths decide it.
#[test]
fn all_members_go_the_same_way() {
    let entry = SLOT_BYTES_MAX;
    for size in sizes() {
        let goes = |collective: Collective| {
            let ways: Vec<bool> = (0..size)
                .map(|rank| SegmentPlan::of(collective, Rank(rank), size).is_some_and(|plan| plan.fits()))
                .collect();
            assert!(ways.iter().all(|way| *way == ways[0]), "{collective:?} of {size}");
            ways[0]
        };
        let reduction = |bytes: usize| {
            let operator = Operator { element_bytes: 1, commutative: true };
            Reduction { count: bytes, operator, in_place: false }
        };
        let each = |bytes| Each { bytes, in_place: false };
        let others = size as usize - 1;
        let combined = entry.min(COMBINED_BY_ALL_BYTES_MAX / size as usize);
        for (longest, of) in [
            (entry, &(|bytes| Collective::Bcast { root: Rank(1), bytes }) as &dyn Fn(usize) -> Collective),
            (entry, &|bytes| Collective::Allgather(each(bytes))),
            (entry / others, &|bytes| Collective::Alltoall(each(bytes))),
            (entry.min(ROOM_BYTES / size as usize), &|bytes| Collective::Reduce(Rank(1), reduction(bytes))),
            (entry, &|bytes| Collective::Gather(Rooted { root: Rank(1), bytes, in_place: false })),
            (entry / others, &|bytes| Collective::Scatter(Rooted { root: Rank(1), bytes, in_place: false })),
            (combined, &|bytes| Collective::Allreduce(reduction(bytes))),
            (combined, &|bytes| Collective::Scan(reduction(bytes))),
            (combined, &|bytes| Collective::Exscan(reduction(bytes))),
        ] {
            assert_eq!([0, 1, longest, longest + 1].map(|bytes| goes(of(bytes))), [false, true, true, false]);
        }
        assert!(goes(Collective::Barrier));
        assert_eq!(goes(Collective::ReduceScatterBlock(reduction(8))), size == 2);
    }
}

fn sizes() -> impl Iterator<Item = u32> {
    2..=MEMBERS_MAX
}
