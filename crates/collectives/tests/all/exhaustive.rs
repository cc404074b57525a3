//! Every collective operation, every algorithm, ranks 1 to 17 and 33 and 64 (in chunks, 1 to 33), every root,
//! lengths from nothing to some, and those around every one at which the library's choice changes,
//! commutative or not, in place or not: every byte of every rank's output is compared, and the schedules are
//! checked as data as well.

use crate::common::Job;
use crate::common::cases::{self, Case, Setting};
use crate::common::elements::ELEMENT_BYTES;
use crate::common::seats::Seats;
use crate::common::verify::verify;
use collectives::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Collective, Each, Gather, Operator, Rank, Reduce,
    ReduceScatter, Reduction, Rooted, Scatter, Shape,
};
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
    around(vary, bcast_of, |at| cases::bcast(None, at));
}

#[test]
fn gather() {
    let vary = Vary { root: true, in_place: true, ..Vary::default() };
    for way in ways(&Gather::ALL) {
        everywhere(vary, &COUNTS, |at| cases::gather(way, at));
    }
    everywhere(vary, &COUNTS, cases::gatherv);
    around(vary, |at| Collective::Gather(rooted(at)), |at| cases::gather(None, at));
}

#[test]
fn scatter() {
    let vary = Vary { root: true, in_place: true, ..Vary::default() };
    for way in ways(&Scatter::ALL) {
        everywhere(vary, &COUNTS, |at| cases::scatter(way, at));
    }
    everywhere(vary, &COUNTS, cases::scatterv);
    around(vary, |at| Collective::Scatter(rooted(at)), |at| cases::scatter(None, at));
}

#[test]
fn allgather() {
    let vary = Vary { in_place: true, ..Vary::default() };
    for way in ways(&Allgather::ALL) {
        everywhere(vary, &COUNTS, |at| cases::allgather(way, at));
        everywhere(vary, &COUNTS, |at| cases::allgatherv(way, at));
    }
    around(vary, |at| Collective::Allgather(each(at)), |at| cases::allgather(None, at));
    around(vary, |at| Collective::Allgather(each(at)), |at| cases::allgatherv(None, at));
}

#[test]
fn alltoall() {
    let vary = Vary { in_place: true, ..Vary::default() };
    for way in ways(&Alltoall::ALL) {
        everywhere(vary, &FEW_COUNTS, |at| cases::alltoall(way, at));
    }
    everywhere(vary, &FEW_COUNTS, cases::alltoallv);
    around(vary, |at| Collective::Alltoall(each(at)), |at| cases::alltoall(None, at));
}

#[test]
fn reduce() {
    let vary = Vary { root: true, in_place: true, commutative: true };
    for way in ways(&Reduce::ALL) {
        everywhere(vary, &COUNTS, |at| cases::reduce(way, at));
    }
    around(vary, |at| Collective::Reduce(Rank(at.root), reduction(at)), |at| cases::reduce(None, at));
}

#[test]
fn allreduce() {
    let vary = Vary { in_place: true, commutative: true, ..Vary::default() };
    for way in ways(&Allreduce::ALL) {
        everywhere(vary, &COUNTS, |at| cases::allreduce(way, at));
    }
    around(vary, |at| Collective::Allreduce(reduction(at)), |at| cases::allreduce(None, at));
}

#[test]
fn reduce_scatter() {
    let vary = Vary { in_place: true, commutative: true, ..Vary::default() };
    for way in ways(&ReduceScatter::ALL) {
        everywhere(vary, &FEW_COUNTS, |at| cases::reduce_scatter_block(way, at));
        everywhere(vary, &FEW_COUNTS, |at| cases::reduce_scatter(way, at));
    }
    let blocks = |at| Collective::ReduceScatterBlock(reduction(at));
    around(vary, blocks, |at| cases::reduce_scatter_block(None, at));
}

/// Lengths that are cut into fewer chunks than a phase has rounds, and into more.
#[test]
fn operations_in_chunks() {
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

/// Counts just below and at each one from which on the library chooses another algorithm, and the longest of
/// all. Every number of ranks, and of the roots the first and one in the middle; few of the settings where
/// there are many bytes.
fn around(vary: Vary, of: impl Fn(Setting) -> Collective, case: impl Fn(Setting) -> Case) {
    for size in 1..=17 {
        let mut job = Job::new(size, Weather::fair());
        let mut settings: Vec<Setting> = vary.settings(size, 0).collect();
        settings.retain(|at| at.root == 0 || at.root == size / 2);
        for (turn, setting) in settings.into_iter().enumerate() {
            let counts = switches(setting, &of).into_iter().flat_map(|count| [count - 1, count]);
            for (place, count) in counts.chain([longest(of(setting), size)]).enumerate() {
                if count * ELEMENT_BYTES < MANY_BYTES || (turn + place + size as usize).is_multiple_of(8) {
                    run(&mut job, case(Setting { count, ..setting }));
                }
            }
        }
    }
}

/// The counts from which on the choice is another one than below.
fn switches(at: Setting, of: impl Fn(Setting) -> Collective) -> Vec<usize> {
    let shape = Shape::new(Rank(0), at.size);
    let chosen = |count| of(Setting { count, ..at }).chosen(&shape);
    let longest = longest(of(at), at.size);
    let doubled = (0..).map(|power| 1usize << power).take_while(|&count| count <= longest);
    let mut found = Vec::new();
    for above in doubled.skip(1) {
        let (mut low, mut high) = (above / 2, above);
        if chosen(low) == chosen(high) {
            continue;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if chosen(middle) == chosen(low) { low = middle } else { high = middle }
        }
        found.push(high);
    }
    found
}

/// How many elements are tried at most: as many in all where each rank has a block, or one for each.
fn longest(of: Collective, size: u32) -> usize {
    match of {
        Collective::Alltoall(_) => COUNT_MAX / (size * size) as usize,
        Collective::Gather(_)
        | Collective::Scatter(_)
        | Collective::Allgather(_)
        | Collective::ReduceScatterBlock(_) => COUNT_MAX / size as usize,
        _ => COUNT_MAX,
    }
}

fn bcast_of(at: Setting) -> Collective {
    Collective::Bcast { root: Rank(at.root), bytes: at.count * ELEMENT_BYTES }
}

fn rooted(at: Setting) -> Rooted {
    Rooted { root: Rank(at.root), bytes: at.count * ELEMENT_BYTES, in_place: at.in_place }
}

fn each(at: Setting) -> Each {
    Each { bytes: at.count * ELEMENT_BYTES, in_place: at.in_place }
}

fn reduction(at: Setting) -> Reduction {
    let operator = Operator { element_bytes: ELEMENT_BYTES, commutative: at.commutative };
    Reduction { count: at.count, operator, in_place: at.in_place }
}

/// The choice changes where it should: a test of the search.
#[test]
fn switches_are_found() {
    let vary = Vary { root: true, ..Vary::default() };
    let at = vary.settings(8, 0).next().unwrap();
    let chosen = |count| bcast_of(Setting { count, ..at }).chosen(&Shape::new(Rank(0), 8));
    let found = switches(at, bcast_of);
    assert!(!found.is_empty(), "one algorithm serves all lengths");
    assert!(found.iter().all(|&count| chosen(count - 1) != chosen(count)), "{found:?}");
}

fn run(job: &mut Job, case: Case) {
    verify(&case.what, &case.schedules);
    case.run(job);
}

/// Every algorithm, and the library's own choice.
fn ways<T: Copy>(all: &[T]) -> impl Iterator<Item = Option<T>> {
    all.iter().copied().map(Some).chain([None])
}

/// Elements of the longest vector whose algorithm is looked for: half a megabyte.
const COUNT_MAX: usize = (512 << 10) / ELEMENT_BYTES;
/// From here on only some of the settings are run.
const MANY_BYTES: usize = 4 << 10;
const COUNTS: [usize; 4] = [0, 1, 3, 1000];
/// For operations whose data grows with the square of the ranks.
const FEW_COUNTS: [usize; 4] = [0, 1, 3, 50];
