//! Collective operations over two groups: groups of one to five ranks, every root, lengths from nothing to
//! those that go in slices; every byte of every output is compared, and the schedules are checked as data as
//! well.

use crate::common::elements::{
    ELEMENT_BYTES, add_disjoint, add_in_order, assert_same, chunked_messages, sums, untouched,
};
use crate::common::verify::verify;
use crate::common::{Job, Reduction, nothing_to_reduce};
use collectives::{Across, Block, Crossing, LivingAcross, Operator, Rank, Root, Shape};
use fabric::simulated::Weather;

#[test]
fn barriers() {
    each_pair(|pair, job| {
        pair.run(job, "barrier", nothing_to_reduce, |_| Memory::new(Crossing::Barrier));
    });
}

#[test]
fn operations_with_a_root() {
    each_pair(|pair, job| {
        for count in COUNTS {
            for root in 0..pair.ranks() {
                bcast(pair, job, root, count);
                gather(pair, job, root, count);
                scatter(pair, job, root, count);
                reduce(pair, job, root, count, true);
                reduce(pair, job, root, count, false);
            }
        }
    });
}

#[test]
fn operations_of_all() {
    each_pair(|pair, job| {
        for count in COUNTS {
            allgather(pair, job, count);
            alltoall(pair, job, count);
            for commutative in [true, false] {
                allreduce(pair, job, count, commutative);
                reduce_scatter(pair, job, count, commutative);
            }
        }
    });
}

/// What is long goes other ways within the groups.
#[test]
fn long_operations() {
    let count = (128 << 10) / ELEMENT_BYTES + 1;
    for pair in [Pair { first: 4, second: 3 }, Pair { first: 1, second: 6 }] {
        let mut job = Job::new(pair.ranks(), Weather::storm(3));
        bcast(pair, &mut job, 1, count);
        reduce(pair, &mut job, 5, count, true);
        allreduce(pair, &mut job, count, true);
        reduce_scatter(pair, &mut job, count, true);
    }
}

/// So many ranks in each group; those of the second are numbered behind those of the first.
#[derive(Clone, Copy, Debug)]
struct Pair {
    first: u32,
    second: u32,
}

/// A rank's operation, its memory before and its output after.
struct Memory {
    crossing: Crossing,
    input: (Vec<u8>, Vec<Block>),
    output: (Vec<u8>, Vec<Block>),
    expected: Vec<u8>,
}

impl Memory {
    fn new(crossing: Crossing) -> Memory {
        Memory { crossing, input: Default::default(), output: Default::default(), expected: vec![] }
    }

    /// It gives these blocks.
    fn giving(mut self, blocks: impl IntoIterator<Item = Vec<u8>>) -> Memory {
        self.input = joined(blocks);
        self
    }

    /// It gets these blocks.
    fn getting(mut self, blocks: impl IntoIterator<Item = Vec<u8>>) -> Memory {
        let (expected, places) = joined(blocks);
        self.output = (untouched(expected.len()), places);
        self.expected = expected;
        self
    }
}

fn joined(blocks: impl IntoIterator<Item = Vec<u8>>) -> (Vec<u8>, Vec<Block>) {
    let (mut all, mut places) = (vec![], vec![]);
    for block in blocks {
        places.push(Block { offset: all.len(), bytes: block.len() });
        all.extend(block);
    }
    (all, places)
}

impl Pair {
    fn ranks(self) -> u32 {
        self.first + self.second
    }

    fn is_first(self, rank: u32) -> bool {
        rank < self.first
    }

    /// The ranks of the group that `rank` is not in.
    fn others(self, rank: u32) -> std::ops::Range<u32> {
        if self.is_first(rank) { self.first..self.ranks() } else { 0..self.first }
    }

    fn own(self, rank: u32) -> std::ops::Range<u32> {
        if self.is_first(rank) { 0..self.first } else { self.first..self.ranks() }
    }

    fn across(self, rank: u32) -> Across {
        let (own, others) = (self.own(rank), self.others(rank));
        Across {
            shape: Shape::new(Rank(rank - own.start), own.len() as u32),
            local_first: own.start,
            remote_first: others.start,
            remote_size: others.len() as u32,
            living: None,
        }
    }

    /// The root as `rank` names it.
    fn root(self, root: u32, rank: u32) -> Root {
        match () {
            () if root == rank => Root::Here,
            () if self.is_first(root) == self.is_first(rank) => Root::Elsewhere,
            () => Root::Remote(Rank(root - self.others(rank).start)),
        }
    }

    /// How many of `total` elements each rank of a group gets: less for each than for the one before it.
    fn counts(self, group: std::ops::Range<u32>, total: usize) -> Vec<usize> {
        let last = group.len() - 1;
        let mut left = total;
        let mut counts: Vec<usize> = (0..last).map(|_| take_two_thirds(&mut left)).collect();
        counts.push(left);
        counts
    }

    fn run(self, job: &mut Job, what: &str, reduction: Reduction, memory: impl Fn(u32) -> Memory) {
        let what = format!("{what} over {self:?}");
        let (mut schedules, mut inputs, mut outputs, mut expected) = (vec![], vec![], vec![], vec![]);
        for rank in 0..self.ranks() {
            let at = memory(rank);
            schedules.push(at.crossing.schedule(&self.across(rank), &at.input.1, &at.output.1));
            inputs.push(at.input.0);
            outputs.push(at.output.0);
            expected.push(at.expected);
        }
        verify(&what, &schedules);
        for (rank, got) in job.run(schedules, &inputs, &outputs, reduction).iter().enumerate() {
            assert_same(&what, rank, got, &expected[rank]);
        }
    }
}

fn bcast(pair: Pair, job: &mut Job, root: u32, count: usize) {
    let data = chunked_messages(root, root, count);
    pair.run(job, &format!("bcast of {count} from {root}"), nothing_to_reduce, |rank| {
        let named = pair.root(root, rank);
        let memory = Memory::new(Crossing::Bcast { root: named, bytes: data.len() });
        match named {
            Root::Here => Memory { output: joined([data.clone()]), expected: data.clone(), ..memory },
            Root::Elsewhere => memory,
            Root::Remote(_) => memory.getting([data.clone()]),
        }
    });
}

fn gather(pair: Pair, job: &mut Job, root: u32, count: usize) {
    let given = |from: u32| chunked_messages(from, root, count * (from as usize % 3));
    pair.run(job, &format!("gather of {count} at {root}"), nothing_to_reduce, |rank| {
        let named = pair.root(root, rank);
        let memory = Memory::new(Crossing::Gather(named));
        match named {
            Root::Here => memory.getting(pair.others(rank).map(given)),
            Root::Elsewhere => memory,
            Root::Remote(_) => memory.giving([given(rank)]),
        }
    });
}

fn scatter(pair: Pair, job: &mut Job, root: u32, count: usize) {
    let given = |to: u32| chunked_messages(root, to, count * (to as usize % 3));
    pair.run(job, &format!("scatter of {count} from {root}"), nothing_to_reduce, |rank| {
        let named = pair.root(root, rank);
        let memory = Memory::new(Crossing::Scatter(named));
        match named {
            Root::Here => memory.giving(pair.others(rank).map(given)),
            Root::Elsewhere => memory,
            Root::Remote(_) => memory.getting([given(rank)]),
        }
    });
}

fn reduce(pair: Pair, job: &mut Job, root: u32, count: usize, commutative: bool) {
    let (operator, reduction) = operator(commutative);
    let what = format!("reduce of {count} at {root}, commutative {commutative}");
    pair.run(job, &what, reduction, |rank| {
        let named = pair.root(root, rank);
        let memory = Memory::new(Crossing::Reduce { root: named, count, operator });
        match named {
            Root::Here => memory.getting([sum_of(pair.others(rank), 0, count)]),
            Root::Elsewhere => memory,
            Root::Remote(_) => memory.giving([sum_of(rank..rank + 1, 0, count)]),
        }
    });
}

fn allgather(pair: Pair, job: &mut Job, count: usize) {
    let given = |from: u32| chunked_messages(from, 0, count * (from as usize % 3));
    pair.run(job, &format!("allgather of {count}"), nothing_to_reduce, |rank| {
        Memory::new(Crossing::Allgather).giving([given(rank)]).getting(pair.others(rank).map(given))
    });
}

fn alltoall(pair: Pair, job: &mut Job, count: usize) {
    let given = |from: u32, to: u32| chunked_messages(from, to, count * ((from + 2 * to) as usize % 3));
    pair.run(job, &format!("alltoall of {count}"), nothing_to_reduce, |rank| {
        let others = pair.others(rank);
        let memory = Memory::new(Crossing::Alltoall).giving(others.clone().map(|to| given(rank, to)));
        memory.getting(others.map(|from| given(from, rank)))
    });
}

fn allreduce(pair: Pair, job: &mut Job, count: usize, commutative: bool) {
    let (operator, reduction) = operator(commutative);
    let what = format!("allreduce of {count}, commutative {commutative}");
    pair.run(job, &what, reduction, |rank| {
        Memory::new(Crossing::Allreduce { count, operator })
            .giving([sum_of(rank..rank + 1, 0, count)])
            .getting([sum_of(pair.others(rank), 0, count)])
    });
}

fn reduce_scatter(pair: Pair, job: &mut Job, count: usize, commutative: bool) {
    let (operator, reduction) = operator(commutative);
    let what = format!("reduce_scatter of {count}, commutative {commutative}");
    pair.run(job, &what, reduction, |rank| {
        let counts = pair.counts(pair.own(rank), count);
        let here = (rank - pair.own(rank).start) as usize;
        let before = counts[..here].iter().sum();
        let mine = counts[here];
        Memory::new(Crossing::ReduceScatter { counts, operator })
            .giving([sum_of(rank..rank + 1, 0, count)])
            .getting([sum_of(pair.others(rank), before, mine)])
    });
}

/// Two groups of which some ranks are blank, and who lives, in their order.
struct Masked {
    pair: Pair,
    living: Vec<u32>,
}

impl Masked {
    fn living_of(&self, group: &std::ops::Range<u32>) -> Vec<u32> {
        self.living.iter().copied().filter(|rank| group.contains(rank)).collect()
    }

    fn across(&self, rank: u32) -> Across {
        let groups = [self.pair.own(rank), self.pair.others(rank)];
        let [own, others] = groups.each_ref().map(|group| self.living_of(group));
        let number = |rank: u32| self.living.iter().position(|other| *other == rank).unwrap() as u32;
        let ranks = |living: &[u32], first: u32| living.iter().map(|rank| Rank(rank - first)).collect();
        Across {
            shape: Shape::new(Rank(number(rank) - number(own[0])), own.len() as u32),
            local_first: number(own[0]),
            remote_first: number(others[0]),
            remote_size: groups[1].len() as u32,
            living: Some(LivingAcross {
                local: ranks(&own, groups[0].start),
                remote: ranks(&others, groups[1].start),
            }),
        }
    }

    fn run(&self, job: &mut Job, what: &str, reduction: Reduction, memory: impl Fn(u32) -> Memory) {
        let what = format!("{what} over {:?}, of whom {:?} live", self.pair, self.living);
        let memories: Vec<Memory> = self.living.iter().map(|rank| memory(*rank)).collect();
        let schedule = |(rank, at): (&u32, &Memory)| {
            at.crossing.schedule(&self.across(*rank), &at.input.1, &at.output.1)
        };
        let schedules: Vec<_> = self.living.iter().zip(&memories).map(schedule).collect();
        verify(&what, &schedules);
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            memories.iter().map(|at| (at.input.0.clone(), at.output.0.clone())).unzip();
        for (at, got) in job.run(schedules, &inputs, &outputs, reduction).iter().enumerate() {
            assert_same(&what, at, got, &memories[at].expected);
        }
    }

    /// Blocks of all ranks of a group; those of the blank ones are not touched.
    fn from(&self, group: std::ops::Range<u32>, given: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
        let lives = |rank: u32| self.living.contains(&rank);
        group.map(|rank| if lives(rank) { given(rank) } else { untouched(given(rank).len()) }).collect()
    }

    fn try_all(&self, job: &mut Job, count: usize) {
        let given = |from: u32, to: u32| chunked_messages(from, to, count * ((from + 2 * to) as usize % 3));
        let pair = self.pair;
        self.run(job, "barrier", nothing_to_reduce, |_| Memory::new(Crossing::Barrier));
        self.run(job, "allgather", nothing_to_reduce, |rank| {
            let memory = Memory::new(Crossing::Allgather).giving([given(rank, 0)]);
            memory.getting(self.from(pair.others(rank), |from| given(from, 0)))
        });
        self.run(job, "alltoall", nothing_to_reduce, |rank| {
            let memory = Memory::new(Crossing::Alltoall).giving(pair.others(rank).map(|to| given(rank, to)));
            memory.getting(self.from(pair.others(rank), |from| given(from, rank)))
        });
        for root in self.living.clone() {
            self.run(job, "gather", nothing_to_reduce, |rank| {
                let named = pair.root(root, rank);
                let memory = Memory::new(Crossing::Gather(named));
                match named {
                    Root::Here => memory.getting(self.from(pair.others(rank), |from| given(from, root))),
                    Root::Elsewhere => memory,
                    Root::Remote(_) => memory.giving([given(rank, root)]),
                }
            });
            self.run(job, "scatter", nothing_to_reduce, |rank| {
                let named = pair.root(root, rank);
                let memory = Memory::new(Crossing::Scatter(named));
                match named {
                    Root::Here => memory.giving(pair.others(rank).map(|to| given(root, to))),
                    Root::Elsewhere => memory,
                    Root::Remote(_) => memory.getting([given(root, rank)]),
                }
            });
            let data = chunked_messages(root, root, count);
            self.run(job, "bcast", nothing_to_reduce, |rank| {
                let named = pair.root(root, rank);
                let memory = Memory::new(Crossing::Bcast { root: named, bytes: data.len() });
                match named {
                    Root::Here => Memory { output: joined([data.clone()]), expected: data.clone(), ..memory },
                    Root::Elsewhere => memory,
                    Root::Remote(_) => memory.getting([data.clone()]),
                }
            });
        }
        self.try_reductions(job, count);
    }

    /// Who lives stands in a row in each group here, since sums are those of ranks in a row.
    fn try_reductions(&self, job: &mut Job, count: usize) {
        let pair = self.pair;
        let sum_of_living = |group: std::ops::Range<u32>, index, count| {
            let living = self.living_of(&group);
            sum_of(living[0]..living[living.len() - 1] + 1, index, count)
        };
        for commutative in [false, true] {
            let (operator, reduction) = operator(commutative);
            self.run(job, "allreduce", reduction, |rank| {
                Memory::new(Crossing::Allreduce { count, operator })
                    .giving([sum_of(rank..rank + 1, 0, count)])
                    .getting([sum_of_living(pair.others(rank), 0, count)])
            });
            self.run(job, "reduce_scatter", reduction, |rank| {
                let counts = pair.counts(pair.own(rank), count);
                let here = (rank - pair.own(rank).start) as usize;
                let (before, mine) = (counts[..here].iter().sum(), counts[here]);
                Memory::new(Crossing::ReduceScatter { counts, operator })
                    .giving([sum_of(rank..rank + 1, 0, count)])
                    .getting([sum_of_living(pair.others(rank), before, mine)])
            });
            for root in self.living.clone() {
                self.run(job, "reduce", reduction, |rank| {
                    let named = pair.root(root, rank);
                    let memory = Memory::new(Crossing::Reduce { root: named, count, operator });
                    match named {
                        Root::Here => memory.getting([sum_of_living(pair.others(rank), 0, count)]),
                        Root::Elsewhere => memory,
                        Root::Remote(_) => memory.giving([sum_of(rank..rank + 1, 0, count)]),
                    }
                });
            }
        }
    }
}

/// Rule C15: who lives does the operation, and the places of the others are as they were.
#[test]
fn c15_blank_ranks_of_two_groups() {
    for (first, second, blank) in [
        (2, 2, vec![0]),
        (3, 4, vec![0, 6]),
        (4, 2, vec![0, 3, 4]),
        (5, 4, vec![3, 4, 5]),
        (1, 3, vec![1, 2]),
    ] {
        let pair = Pair { first, second };
        let living: Vec<u32> = (0..pair.ranks()).filter(|rank| !blank.contains(rank)).collect();
        let mut job = Job::new(living.len() as u32, Weather::storm(u64::from(first * 8 + second)));
        let masked = Masked { pair, living };
        COUNTS.iter().for_each(|count| masked.try_all(&mut job, *count));
    }
}

fn take_two_thirds(left: &mut usize) -> usize {
    let taken = *left * 2 / 3;
    *left -= taken;
    taken
}

fn sum_of(ranks: std::ops::Range<u32>, index: usize, count: usize) -> Vec<u8> {
    sums(ranks.start, ranks.end, index, count)
}

fn operator(commutative: bool) -> (Operator, Reduction) {
    let operator = Operator { element_bytes: ELEMENT_BYTES, commutative };
    (operator, if commutative { add_disjoint } else { add_in_order })
}

fn each_pair(run: impl Fn(Pair, &mut Job)) {
    for first in 1..=5 {
        for second in 1..=5 {
            let pair = Pair { first, second };
            run(pair, &mut Job::new(pair.ranks(), Weather::storm(u64::from(first * 8 + second))));
        }
    }
}

const COUNTS: [usize; 3] = [0, 1, 100];
