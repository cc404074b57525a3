//! Every collective operation while everything goes wrong that may: messages overtake each other, queues are
//! full, payloads come in chunks, pulls are refused. Lengths lie around what the simulated fabric calls
//! eager, 64 bytes.

use crate::common::Job;
use crate::common::cases::{self, Case, Setting};
use crate::common::seats::Seats;
use collectives::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter};
use fabric::simulated::Weather;

#[test]
fn rooted_operations() {
    in_storms(|run, at| {
        let commuting = Setting { commutative: true, ..at };
        Bcast::ALL.into_iter().for_each(|way| run(cases::bcast(Some(way), at)));
        Gather::ALL.into_iter().for_each(|way| run(cases::gather(Some(way), at)));
        Scatter::ALL.into_iter().for_each(|way| run(cases::scatter(Some(way), at)));
        Reduce::ALL.into_iter().for_each(|way| run(cases::reduce(Some(way), commuting)));
        run(cases::reduce(None, at));
        run(cases::gatherv(at));
        run(cases::scatterv(at));
    });
}

#[test]
fn operations_of_all() {
    in_storms(|run, at| {
        Barrier::ALL.into_iter().for_each(|way| run(cases::barrier(Some(way), at)));
        Allgather::ALL.into_iter().for_each(|way| run(cases::allgather(Some(way), at)));
        Allgather::ALL.into_iter().for_each(|way| run(cases::allgatherv(Some(way), at)));
        Alltoall::ALL.into_iter().for_each(|way| run(cases::alltoall(Some(way), at)));
        run(cases::alltoallv(at));
    });
}

#[test]
fn reductions_of_all() {
    in_storms(|run, at| {
        let commuting = Setting { commutative: true, ..at };
        Allreduce::ALL.into_iter().for_each(|way| run(cases::allreduce(Some(way), commuting)));
        ReduceScatter::ALL.into_iter().for_each(|way| run(cases::reduce_scatter(Some(way), commuting)));
        run(cases::allreduce(None, at));
        run(cases::reduce_scatter_block(None, at));
        run(cases::scan(at));
        run(cases::exscan(at));
    });
}

/// Calls `operations` for some sizes, lengths and seeds; one operation follows the other with no pause
/// between, so that a fast rank is far ahead of a slow one.
fn in_storms(operations: impl Fn(&mut dyn FnMut(Case), Setting)) {
    for (seed, size) in [1, 2, 3, 4, 5, 7, 8, 9, 13].into_iter().enumerate() {
        for seed in [2 * seed as u64, 2 * seed as u64 + 1] {
            let mut job = Job::new(size, Weather::storm(seed));
            for (count, root) in [(0, 0), (1, size - 1), (5, size / 2), (6, 0), (100, size / 3)] {
                for in_place in [false, true] {
                    let seats = Seats::Unknown;
                    let at = Setting { size, root, count, commutative: false, in_place, seats };
                    operations(&mut |case| case.run(&mut job), at);
                }
            }
        }
    }
}
