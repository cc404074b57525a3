//! Every collective operation as a case: schedules, memory before, memory after.

use collectives::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Block, Gather, Operator, Rank, Reduce, ReduceScatter,
    Scatter, Schedule, Shape,
};

use super::elements::{
    ELEMENT_BYTES, UNTOUCHED, add_disjoint, add_in_order, assert_same, chunked_messages, sums, untouched,
};
use super::seats::Seats;
use super::{Job, Reduction, nothing_to_reduce};

/// One operation of all ranks and what it must do.
#[derive(Clone)]
pub struct Case {
    pub what: String,
    pub schedules: Vec<Schedule>,
    pub(super) inputs: Vec<Vec<u8>>,
    pub(super) outputs: Vec<Vec<u8>>,
    pub(super) expected: Vec<Vec<u8>>,
    pub(super) reduction: Reduction,
}

impl Case {
    /// Runs it and compares every byte of everybody's output.
    pub fn run(self, job: &mut Job) {
        let Case { what, schedules, inputs, outputs, expected, reduction } = self;
        let got = job.run(schedules, &inputs, &outputs, reduction);
        for (rank, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_same(&what, rank, got, expected);
        }
    }

    /// A case whose memory is given rank by rank: input, output before, output after.
    fn new(
        what: String,
        schedules: Vec<Schedule>,
        reduction: Reduction,
        memory: impl Fn(u32) -> (Vec<u8>, Vec<u8>, Vec<u8>),
    ) -> Case {
        let mut case = Case { what, schedules, inputs: vec![], outputs: vec![], expected: vec![], reduction };
        for rank in 0..case.schedules.len() as u32 {
            let (input, output, expected) = memory(rank);
            assert!(expected.len() == output.len() || input.is_empty(), "only in place is there a rest");
            case.inputs.push(input);
            case.outputs.push(output);
            case.expected.push(expected);
        }
        case
    }
}

/// What varies: each operation looks at what concerns it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub size: u32,
    pub root: u32,
    pub count: usize,
    pub commutative: bool,
    pub in_place: bool,
    /// What is known of who sits where.
    pub seats: Seats,
}

impl Setting {
    /// The schedules of all ranks.
    fn of_all(&self, schedule: impl Fn(&Shape) -> Schedule) -> Vec<Schedule> {
        let hierarchy = self.seats.hierarchy(self.size);
        let shape = |rank| {
            let shape = Shape::new(Rank(rank), self.size);
            hierarchy.clone().map_or(shape.clone(), |hierarchy| shape.nested(hierarchy))
        };
        (0..self.size).map(|rank| schedule(&shape(rank))).collect()
    }

    fn bytes(&self) -> usize {
        self.count * ELEMENT_BYTES
    }

    fn operator(&self) -> Operator {
        Operator { element_bytes: ELEMENT_BYTES, commutative: self.commutative }
    }

    fn reduction(&self) -> Reduction {
        if self.commutative { add_disjoint } else { add_in_order }
    }

    fn root(&self) -> Rank {
        Rank(self.root)
    }

    fn is_root(&self, rank: u32) -> bool {
        self.root == rank
    }

    /// In place concerns the root alone in operations that have one.
    fn in_place_at(&self, rank: u32) -> bool {
        self.in_place && self.is_root(rank)
    }

    /// Counts that differ from rank to rank, some of them zero.
    fn count_of(&self, rank: u32) -> usize {
        [self.count, 0, 2 * self.count, 1, self.count / 2][rank as usize % 5].min(self.count * 2)
    }

    /// Counts between two ranks, the same seen from both.
    fn count_between(&self, rank: u32, other: u32) -> usize {
        [0, self.count, self.count / 2, self.count + 1][(rank + other) as usize % 4].min(2 * self.count)
    }
}

pub fn barrier(way: Option<Barrier>, at: Setting) -> Case {
    let schedules = at.of_all(|shape| match way {
        Some(way) => way.schedule(shape),
        None => collectives::barrier(shape),
    });
    Case::new(format!("barrier {way:?} {at:?}"), schedules, nothing_to_reduce, |_| (vec![], vec![], vec![]))
}

pub fn bcast(way: Option<Bcast>, at: Setting) -> Case {
    let schedule = |shape: &Shape| match way {
        Some(way) => way.schedule(shape, at.root(), at.bytes()),
        None => collectives::bcast(shape, at.root(), at.bytes()),
    };
    let data = chunked_messages(at.root, 0, at.count);
    Case::new(format!("bcast {way:?} {at:?}"), at.of_all(schedule), nothing_to_reduce, |rank| {
        let before = if at.is_root(rank) { data.clone() } else { untouched(at.bytes()) };
        (vec![], before, data.clone())
    })
}

pub fn gather(way: Option<Gather>, at: Setting) -> Case {
    let schedule = |shape: &Shape| {
        let in_place = at.in_place_at(shape.rank().0);
        match way {
            Some(way) => way.schedule(shape, at.root(), at.bytes(), in_place),
            None => collectives::gather(shape, at.root(), at.bytes(), in_place),
        }
    };
    let blocks = equal_blocks(at.size, at.bytes());
    gathering(format!("gather {way:?} {at:?}"), at.of_all(schedule), at, &blocks)
}

pub fn gatherv(at: Setting) -> Case {
    let blocks = scattered_blocks((0..at.size).map(|rank| at.count_of(rank)));
    let schedule = |shape: &Shape| {
        let rank = shape.rank().0;
        let seen: &[Block] = if at.is_root(rank) { &blocks } else { &[] };
        collectives::gatherv(shape, at.root(), blocks[rank as usize].bytes, seen, at.in_place_at(rank))
    };
    gathering(format!("gatherv {at:?}"), at.of_all(schedule), at, &blocks)
}

fn gathering(what: String, schedules: Vec<Schedule>, at: Setting, blocks: &[Block]) -> Case {
    Case::new(what, schedules, nothing_to_reduce, |rank| {
        let own = chunked_messages(rank, at.root, count_in(blocks[rank as usize]));
        if !at.is_root(rank) {
            return (own, vec![], vec![]);
        }
        let all = filled_blocks(blocks, |from, count| chunked_messages(from, at.root, count));
        if at.in_place { (vec![], only(&all, blocks, rank), all) } else { (own, untouched(all.len()), all) }
    })
}

pub fn scatter(way: Option<Scatter>, at: Setting) -> Case {
    let schedule = |shape: &Shape| {
        let in_place = at.in_place_at(shape.rank().0);
        match way {
            Some(way) => way.schedule(shape, at.root(), at.bytes(), in_place),
            None => collectives::scatter(shape, at.root(), at.bytes(), in_place),
        }
    };
    let blocks = equal_blocks(at.size, at.bytes());
    scattering(format!("scatter {way:?} {at:?}"), at.of_all(schedule), at, &blocks)
}

pub fn scatterv(at: Setting) -> Case {
    let blocks = scattered_blocks((0..at.size).map(|rank| at.count_of(rank)));
    let schedule = |shape: &Shape| {
        let rank = shape.rank().0;
        let seen: &[Block] = if at.is_root(rank) { &blocks } else { &[] };
        collectives::scatterv(shape, at.root(), seen, blocks[rank as usize].bytes, at.in_place_at(rank))
    };
    scattering(format!("scatterv {at:?}"), at.of_all(schedule), at, &blocks)
}

fn scattering(what: String, schedules: Vec<Schedule>, at: Setting, blocks: &[Block]) -> Case {
    Case::new(what, schedules, nothing_to_reduce, |rank| {
        let all = || filled_blocks(blocks, |to, count| chunked_messages(at.root, to, count));
        let input = if at.is_root(rank) { all() } else { vec![] };
        let own = chunked_messages(at.root, rank, count_in(blocks[rank as usize]));
        if at.in_place_at(rank) { (input, vec![], vec![]) } else { (input, untouched(own.len()), own) }
    })
}

pub fn allgather(way: Option<Allgather>, at: Setting) -> Case {
    let schedule = |shape: &Shape| match way {
        Some(way) => way.schedule(shape, at.bytes(), at.in_place),
        None => collectives::allgather(shape, at.bytes(), at.in_place),
    };
    let blocks = equal_blocks(at.size, at.bytes());
    gathering_everywhere(format!("allgather {way:?} {at:?}"), at.of_all(schedule), at, &blocks)
}

pub fn allgatherv(way: Option<Allgather>, at: Setting) -> Case {
    let blocks = scattered_blocks((0..at.size).map(|rank| at.count_of(rank)));
    let schedule = |shape: &Shape| match way {
        Some(way) => way.schedule_blocks(shape, &blocks, at.in_place),
        None => collectives::allgatherv(shape, &blocks, at.in_place),
    };
    gathering_everywhere(format!("allgatherv {way:?} {at:?}"), at.of_all(schedule), at, &blocks)
}

fn gathering_everywhere(what: String, schedules: Vec<Schedule>, at: Setting, blocks: &[Block]) -> Case {
    let all = filled_blocks(blocks, |from, count| chunked_messages(from, 0, count));
    Case::new(what, schedules, nothing_to_reduce, |rank| {
        let own = chunked_messages(rank, 0, count_in(blocks[rank as usize]));
        if at.in_place {
            (vec![], only(&all, blocks, rank), all.clone())
        } else {
            (own, untouched(all.len()), all.clone())
        }
    })
}

pub fn alltoall(way: Option<Alltoall>, at: Setting) -> Case {
    let schedule = |shape: &Shape| match way {
        Some(way) => way.schedule(shape, at.bytes(), at.in_place),
        None => collectives::alltoall(shape, at.bytes(), at.in_place),
    };
    let blocks = |_| equal_blocks(at.size, at.bytes());
    exchanging(format!("alltoall {way:?} {at:?}"), at.of_all(schedule), at, blocks, blocks)
}

pub fn alltoallv(at: Setting) -> Case {
    let receives = |rank| scattered_blocks((0..at.size).map(|other| at.count_between(rank, other)));
    let sends = |rank| {
        let mut blocks = receives(rank);
        blocks.iter_mut().for_each(|block| block.offset += 6);
        blocks
    };
    let schedule = |shape: &Shape| {
        let rank = shape.rank().0;
        let seen = if at.in_place { vec![] } else { sends(rank) };
        collectives::alltoallv(shape, &seen, &receives(rank), at.in_place)
    };
    exchanging(format!("alltoallv {at:?}"), at.of_all(schedule), at, sends, receives)
}

fn exchanging(
    what: String,
    schedules: Vec<Schedule>,
    at: Setting,
    sends: impl Fn(u32) -> Vec<Block>,
    receives: impl Fn(u32) -> Vec<Block>,
) -> Case {
    Case::new(what, schedules, nothing_to_reduce, |rank| {
        let sent = |blocks: Vec<Block>| filled_blocks(&blocks, |to, count| chunked_messages(rank, to, count));
        let expected = filled_blocks(&receives(rank), |from, count| chunked_messages(from, rank, count));
        if at.in_place {
            (vec![], sent(receives(rank)), expected)
        } else {
            (sent(sends(rank)), untouched(expected.len()), expected)
        }
    })
}

pub fn reduce(way: Option<Reduce>, at: Setting) -> Case {
    let schedule = |shape: &Shape| {
        let in_place = at.in_place_at(shape.rank().0);
        match way {
            Some(way) => way.schedule(shape, at.root(), at.count, at.operator(), in_place),
            None => collectives::reduce(shape, at.root(), at.count, at.operator(), in_place),
        }
    };
    Case::new(format!("reduce {way:?} {at:?}"), at.of_all(schedule), at.reduction(), |rank| {
        let own = sums(rank, rank + 1, 0, at.count);
        if !at.is_root(rank) {
            return (own, vec![], vec![]);
        }
        in_place_or_not(own, sums(0, at.size, 0, at.count), at.in_place)
    })
}

pub fn allreduce(way: Option<Allreduce>, at: Setting) -> Case {
    let schedule = |shape: &Shape| match way {
        Some(way) => way.schedule(shape, at.count, at.operator(), at.in_place),
        None => collectives::allreduce(shape, at.count, at.operator(), at.in_place),
    };
    Case::new(format!("allreduce {way:?} {at:?}"), at.of_all(schedule), at.reduction(), |rank| {
        let own = sums(rank, rank + 1, 0, at.count);
        in_place_or_not(own, sums(0, at.size, 0, at.count), at.in_place)
    })
}

pub fn reduce_scatter_block(way: Option<ReduceScatter>, at: Setting) -> Case {
    let schedule = |shape: &Shape| match way {
        Some(way) => way.schedule(shape, at.count, at.operator(), at.in_place),
        None => collectives::reduce_scatter_block(shape, at.count, at.operator(), at.in_place),
    };
    let what = format!("reduce_scatter_block {way:?} {at:?}");
    reducing_blocks(what, at.of_all(schedule), at, &vec![at.count; at.size as usize])
}

pub fn reduce_scatter(way: Option<ReduceScatter>, at: Setting) -> Case {
    let counts: Vec<_> = (0..at.size).map(|rank| at.count_of(rank)).collect();
    let schedule = |shape: &Shape| match way {
        Some(way) => way.schedule_counts(shape, &counts, at.operator(), at.in_place),
        None => collectives::reduce_scatter(shape, &counts, at.operator(), at.in_place),
    };
    reducing_blocks(format!("reduce_scatter {way:?} {at:?}"), at.of_all(schedule), at, &counts)
}

fn reducing_blocks(what: String, schedules: Vec<Schedule>, at: Setting, counts: &[usize]) -> Case {
    let count: usize = counts.iter().sum();
    Case::new(what, schedules, at.reduction(), |rank| {
        let own = sums(rank, rank + 1, 0, count);
        let first = counts[..rank as usize].iter().sum();
        let mut result = sums(0, at.size, first, counts[rank as usize]);
        if at.in_place {
            // What stood behind the result stands there after it.
            result.extend_from_slice(&own[result.len()..]);
        }
        in_place_or_not(own, result, at.in_place)
    })
}

pub fn scan(at: Setting) -> Case {
    let schedule = |shape: &Shape| collectives::scan(shape, at.count, at.operator(), at.in_place);
    Case::new(format!("scan {at:?}"), at.of_all(schedule), at.reduction(), |rank| {
        let own = sums(rank, rank + 1, 0, at.count);
        in_place_or_not(own, sums(0, rank + 1, 0, at.count), at.in_place)
    })
}

pub fn exscan(at: Setting) -> Case {
    let schedule = |shape: &Shape| collectives::exscan(shape, at.count, at.operator(), at.in_place);
    Case::new(format!("exscan {at:?}"), at.of_all(schedule), at.reduction(), |rank| {
        let own = sums(rank, rank + 1, 0, at.count);
        let untouched = if at.in_place { own.clone() } else { untouched(own.len()) };
        let result = if rank == 0 { untouched } else { sums(0, rank, 0, at.count) };
        in_place_or_not(own, result, at.in_place)
    })
}

fn in_place_or_not(own: Vec<u8>, result: Vec<u8>, in_place: bool) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    if in_place { (vec![], own, result) } else { (own, untouched(result.len()), result) }
}

fn count_in(block: Block) -> usize {
    block.bytes / ELEMENT_BYTES
}

fn equal_blocks(size: u32, bytes: usize) -> Vec<Block> {
    (0..size as usize).map(|rank| Block { offset: rank * bytes, bytes }).collect()
}

/// Blocks with gaps between them, the last rank's first.
fn scattered_blocks(counts: impl DoubleEndedIterator<Item = usize>) -> Vec<Block> {
    let mut end = 3;
    let mut blocks: Vec<Block> = counts
        .rev()
        .map(|count| {
            let block = Block { offset: end, bytes: count * ELEMENT_BYTES };
            end += block.bytes + 5;
            block
        })
        .collect();
    blocks.reverse();
    blocks
}

/// A buffer in which each block has what `content` says of its rank; the gaps are untouched.
fn filled_blocks(blocks: &[Block], content: impl Fn(u32, usize) -> Vec<u8>) -> Vec<u8> {
    let end = blocks.iter().map(|block| block.offset + block.bytes).max().unwrap_or(0);
    let mut buffer = vec![UNTOUCHED; end];
    for (block, rank) in blocks.iter().zip(0..) {
        buffer[block.offset..][..block.bytes].copy_from_slice(&content(rank, count_in(*block)));
    }
    buffer
}

/// A buffer of that length with nothing but one rank's block in it.
fn only(buffer: &[u8], blocks: &[Block], rank: u32) -> Vec<u8> {
    let mut alone = untouched(buffer.len());
    let Block { offset, bytes } = blocks[rank as usize];
    alone[offset..][..bytes].copy_from_slice(&buffer[offset..][..bytes]);
    alone
}
