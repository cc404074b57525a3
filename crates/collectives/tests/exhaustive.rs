//! Every collective operation, every algorithm, ranks 1 to 17 and 33 and 64 (in pieces, 1 to 33), every root, lengths from
//! nothing to beyond those at which choices change, commutative or not, in place or not: every byte of every rank's output
//! is compared, and the schedules are checked as data as well.

mod common;

use collectives::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter};
use common::Job;
use common::cases::{self, Case, Setting};
use common::elements::ELEMENT_BYTES;
use common::seats::Seats;
use common::verify::verify;
use fabric::simulated::Weather;

#[test]
fn barrier() {
    for way in ways(&Barrier::ALL) {
        everywhere(Vary::default(), &[0], |at| cases::barrier(way, at));
    }
}

#[test]
fn bcast() {
    let vary = Vary { root: true, ..Vary::default() };
    for way in ways(&Bcast::ALL) {
        everywhere(vary, &COUNTS, |at| cases::bcast(way, at));
    }
    around(vary, LONG, |at| cases::bcast(None, at));
}

#[test]
fn gather() {
    let vary = Vary { root: true, in_place: true, ..Vary::default() };
    for way in ways(&Gather::ALL) {
        everywhere(vary, &COUNTS, |at| cases::gather(way, at));
    }
    everywhere(vary, &COUNTS, cases::gatherv);
    around(vary, MIDDLING, |at| cases::gather(None, at));
}

#[test]
fn scatter() {
    let vary = Vary { root: true, in_place: true, ..Vary::default() };
    for way in ways(&Scatter::ALL) {
        everywhere(vary, &COUNTS, |at| cases::scatter(way, at));
    }
    everywhere(vary, &COUNTS, cases::scatterv);
    around(vary, MIDDLING, |at| cases::scatter(None, at));
}

#[test]
fn allgather() {
    let vary = Vary { in_place: true, ..Vary::default() };
    for way in ways(&Allgather::ALL) {
        everywhere(vary, &COUNTS, |at| cases::allgather(way, at));
        everywhere(vary, &COUNTS, |at| cases::allgatherv(way, at));
    }
    around(vary, SHORT, |at| cases::allgather(None, at));
    around(vary, SHORT, |at| cases::allgatherv(None, at));
}

#[test]
fn alltoall() {
    let vary = Vary { in_place: true, ..Vary::default() };
    for way in ways(&Alltoall::ALL) {
        everywhere(vary, &FEW_COUNTS, |at| cases::alltoall(way, at));
    }
    everywhere(vary, &FEW_COUNTS, cases::alltoallv);
    around(vary, TINY, |at| cases::alltoall(None, at));
}

#[test]
fn reduce() {
    let vary = Vary { root: true, in_place: true, commutative: true };
    for way in ways(&Reduce::ALL) {
        everywhere(vary, &COUNTS, |at| cases::reduce(way, at));
    }
    around(vary, LONG, |at| cases::reduce(None, at));
}

#[test]
fn allreduce() {
    let vary = Vary { in_place: true, commutative: true, ..Vary::default() };
    for way in ways(&Allreduce::ALL) {
        everywhere(vary, &COUNTS, |at| cases::allreduce(way, at));
    }
    around(vary, MIDDLING, |at| cases::allreduce(None, at));
    around(vary, 9 * SHORT, |at| cases::allreduce(None, at));
}

#[test]
fn reduce_scatter() {
    let vary = Vary { in_place: true, commutative: true, ..Vary::default() };
    for way in ways(&ReduceScatter::ALL) {
        everywhere(vary, &FEW_COUNTS, |at| cases::reduce_scatter_block(way, at));
        everywhere(vary, &FEW_COUNTS, |at| cases::reduce_scatter(way, at));
    }
    around(vary, TINY, |at| cases::reduce_scatter_block(None, at));
}

/// Lengths that are cut into fewer pieces than a phase has rounds, and into more.
#[test]
fn operations_in_pieces() {
    let vary = Vary { root: true, in_place: true, commutative: true };
    for (size, count) in (1..=33).map(|size| (size, 6000)).chain([(2, 40_000), (5, 40_000), (9, 40_000)]) {
        let mut job = Job::new(size, Weather::fair());
        let some = vary.settings(size, count).filter(|at| at.commutative && [0, size / 2].contains(&at.root));
        for at in some {
            for way in
                [Bcast::Circulant, Bcast::BinaryTree, Bcast::Chain].into_iter().filter(|_| !at.in_place)
            {
                run(&mut job, cases::bcast(Some(way), at));
            }
            for way in [Reduce::Circulant, Reduce::BinaryTree, Reduce::Chain] {
                run(&mut job, cases::reduce(Some(way), at));
            }
        }
    }
}

#[test]
fn scans() {
    let vary = Vary { in_place: true, commutative: true, ..Vary::default() };
    everywhere(vary, &COUNTS, cases::scan);
    everywhere(vary, &COUNTS, cases::exscan);
}

/// Which settings an operation has.
#[derive(Clone, Copy, Default)]
struct Vary {
    root: bool,
    in_place: bool,
    commutative: bool,
}

impl Vary {
    /// Every setting of a size and a count.
    fn settings(self, size: u32, count: usize) -> impl Iterator<Item = Setting> {
        let seats = Seats::Unknown;
        let roots = 0..if self.root { size } else { 1 };
        let switch = |varies: bool| if varies { &[true, false][..] } else { &[false] };
        roots.flat_map(move |root| {
            switch(self.commutative).iter().flat_map(move |&commutative| {
                let each = switch(self.in_place).iter();
                each.map(move |&in_place| Setting { size, root, count, commutative, in_place, seats })
            })
        })
    }
}

/// Ranks 1 to 17 with every count; 33 and 64 with one.
fn everywhere(vary: Vary, counts: &[usize], case: impl Fn(Setting) -> Case) {
    for size in 1..=17 {
        let mut job = Job::new(size, Weather::fair());
        for &count in counts {
            vary.settings(size, count).for_each(|at| run(&mut job, case(at)));
        }
    }
    for size in [33, 64] {
        let mut job = Job::new(size, Weather::fair());
        vary.settings(size, 3).for_each(|at| run(&mut job, case(at)));
    }
}

/// A few sizes with counts just below, at and above a length in bytes, as the library itself chooses.
fn around(vary: Vary, bytes: usize, case: impl Fn(Setting) -> Case) {
    for size in [1, 2, 3, 4, 7, 8, 9] {
        let mut job = Job::new(size, Weather::fair());
        let at = bytes.div_ceil(ELEMENT_BYTES);
        for count in [at - 1, at, at + 1] {
            let some = vary.settings(size, count).filter(|at| at.root == 0 || at.root == size / 2);
            some.for_each(|at| run(&mut job, case(at)));
        }
    }
}

fn run(job: &mut Job, case: Case) {
    verify(&case.what, &case.schedules);
    case.run(job);
}

/// Every algorithm, and the library's own choice.
fn ways<T: Copy>(all: &[T]) -> impl Iterator<Item = Option<T>> {
    all.iter().copied().map(Some).chain([None])
}

/// Lengths about which choices change.
const TINY: usize = 128;
const SHORT: usize = 4 << 10;
const MIDDLING: usize = 16 << 10;
const LONG: usize = 128 << 10;
const COUNTS: [usize; 4] = [0, 1, 3, 1000];
/// For operations whose data grows with the square of the ranks.
const FEW_COUNTS: [usize; 4] = [0, 1, 3, 50];
