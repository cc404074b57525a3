//! Operations that go in chunks, of two and of several who share cores: the order of operands, elements of
//! any length, calls that do not fit, operators that panic.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use collectives::node::SegmentAlgorithm;
use collectives::node::chunking::{HALVES_FROM, LONG_FROM, TURNED_BYTES_MAX};
use collectives::{Block, Collective, Each, Listed, Operator, Reduction, Uneven, packed};
use fabric::{Payload, UserMemory};
use job::config::CpuTime;
use job::error::Class;
use job::tuning::CostsFrom;
use messaging::Rank;

use super::{Combining, Communicator};
use crate::memory::{reading, writing};
use crate::{Config, run_threads};

/// Elements begin with the first rank that has contributed and how many have, then with what tells them
/// apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    pub bytes: usize,
    pub count: usize,
}

impl Elements {
    pub(super) fn of(self, first: u32, ranks: u32) -> Vec<u8> {
        let byte = |at: usize| match at % self.bytes {
            0 => first as u8,
            1 => ranks as u8,
            within => (at / self.bytes * 31 + within) as u8,
        };
        (0..self.count * self.bytes).map(byte).collect()
    }

    /// Only neighbours can be combined, the lower one first.
    pub(super) fn combine(self, left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory) {
        let left = left.to_vec();
        let mut right = right.unwrap_or(out.payload()).to_vec();
        assert_eq!((left.len(), left.len() % self.bytes), (right.len(), 0), "whole elements");
        for (left, right) in left.chunks(self.bytes).zip(right.chunks_mut(self.bytes)) {
            assert_eq!(left[0] + left[1], right[0], "these are not neighbours");
            assert_eq!(left[2..], right[2..], "these are not the same element");
            right[0] = left[0];
            right[1] += left[1];
        }
        out.write_at(0, Payload::from(&right[..]));
    }

    pub(super) fn reduction(self, in_place: bool) -> Reduction {
        let operator = Operator { element_bytes: self.bytes, commutative: false };
        Reduction { count: self.count, operator, in_place }
    }

    /// Does it with what this rank has; what stands in its output then.
    pub(super) fn perform(self, world: &Communicator, collective: Collective, in_place: bool) -> Vec<u8> {
        let own = self.of(world.rank().0, 1);
        let mut output = if in_place { own.clone() } else { vec![0xa5; own.len()] };
        let input = if in_place { &[][..] } else { &own[..] };
        let combine = |left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory| {
            self.combine(left, right, out);
        };
        world.perform(collective, reading(input), writing(&mut output), Combining::By(&combine)).unwrap();
        output
    }
}

impl Elements {
    /// Sums up, where one member's operator panics when it is called so manieth; the sum, if this member is
    /// told of one.
    pub(super) fn sum_with_a_bug(
        self,
        world: &Communicator,
        panicking: u32,
        at_call: u32,
    ) -> Option<Vec<u8>> {
        let own = self.of(world.rank().0, 1);
        let mut output = vec![0u8; own.len()];
        let calls = Cell::new(0);
        let combine = |left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory| {
            calls.set(calls.get() + 1);
            assert!(world.rank().0 != panicking || calls.get() < at_call, "this operator has a bug");
            self.combine(left, right, out);
        };
        let sum = Collective::Allreduce(self.reduction(false));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            world.perform(sum, reading(&own), writing(&mut output), Combining::By(&combine))
        }));
        ended.is_ok_and(|ended| ended.is_ok()).then_some(output)
    }
}

/// Two threads that are told to have cores, on a collective segment; and then two that are told to have one
/// core in all.
pub(super) fn on_a_segment(each: impl Fn(&Communicator) + Send + Sync + 'static) {
    let each = Arc::new(each);
    for cpus in [CpuTime::UNLIMITED, ONE_CORE] {
        let each = Arc::clone(&each);
        of_several(2, cpus, CostsFrom::default(), move |world| each(world));
    }
}

/// Two threads that are told to have cores.
pub(super) fn on_cores(each: impl Fn(&Communicator) + Send + Sync + 'static) {
    of_several(2, CpuTime::UNLIMITED, CostsFrom::default(), each);
}

pub(super) const ONE_CORE: CpuTime = CpuTime { hundredths: 100 };

pub(super) fn of_several(
    members: u32,
    cpus: CpuTime,
    costs: CostsFrom,
    each: impl Fn(&Communicator) + Send + Sync + 'static,
) {
    let config = Config { cpus: Some(cpus), costs, ..Config::default() };
    run_threads(members, &config, move |session| {
        let world = &session.world();
        (0..4).for_each(|_| world.barrier().unwrap());
        assert!(world.handle().is_some() && world.shares_cores() == (cpus == ONE_CORE));
        each(world);
    })
    .unwrap();
}

/// Lengths around those at which there is one chunk more, up to what takes staging buffers several times.
pub(super) fn counts(element_bytes: usize) -> impl Iterator<Item = usize> {
    let lengths = [120, 2048, 2160, 4096, 6144, 16 << 10, 64 << 10, 96 << 10, 128 << 10, 225_000, 700_000];
    lengths.into_iter().flat_map(move |bytes| {
        let whole = bytes / element_bytes;
        (whole.max(2) - 1..=whole + 1).map(|count| count.max(1))
    })
}

/// Data that is combined, or goes both ways, goes in chunks: messages between two ranks that share a core
/// take turns of it (decisions/0005).
#[test]
fn long_data_of_two_goes_in_chunks_also_where_they_share_a_core() {
    on_a_segment(|world| {
        let elements = Elements { bytes: 8, count: 4 << 10 };
        let each = Each { bytes: elements.bytes * elements.count, in_place: false };
        for collective in [
            Collective::Reduce(Rank(0), elements.reduction(false)),
            Collective::Allreduce(elements.reduction(false)),
            Collective::Alltoall(each),
            Collective::Allgather(each),
        ] {
            let chosen =
                SegmentAlgorithm::of(collective, &world.setting()).expect("it goes through the segment");
            assert!(chosen.is_in_chunks_of_two(), "{collective:?}");
        }
    });
}

#[test]
fn operands_keep_their_order_whatever_elements_are() {
    on_a_segment(|world| {
        let here = world.rank();
        for bytes in [2, 8, 12, 24, 1000, 4096] {
            for (count, in_place) in counts(bytes).flat_map(|count| [(count, false), (count, true)]) {
                let elements = Elements { bytes, count };
                let of = elements.reduction(in_place);
                let both = elements.of(0, 2);
                let got = elements.perform(world, Collective::Allreduce(of), in_place);
                assert!(got == both, "allreduce of {elements:?}, in place {in_place}, at {here:?}");
                let got = elements.perform(world, Collective::Scan(of), in_place);
                assert!(got == elements.of(0, here.0 + 1), "scan of {elements:?}, {in_place}, at {here:?}");
                for root in [0, 1].map(Rank) {
                    let in_place = in_place && here == root;
                    let of = elements.reduction(in_place);
                    let got = elements.perform(world, Collective::Reduce(root, of), in_place);
                    assert!(here != root || got == both, "reduce of {elements:?} to {root:?}, {in_place}");
                }
            }
        }
    });
}

/// What comes behind a call that did not fit goes as if nothing had been.
fn calls_that_do_not_fit(one: usize, other: usize) {
    on_a_segment(move |world| {
        let elements = Elements { bytes: 8, count: 5000 };
        for lengths in [[one, other], [other, one]] {
            let bytes = lengths[world.rank().0 as usize];
            let (input, mut output) = (vec![1u8; bytes], vec![0u8; 2 * bytes]);
            let each = Collective::Allgather(Each { bytes, in_place: false });
            let ended = world.perform(each, reading(&input), writing(&mut output), Combining::Nothing);
            assert_eq!(ended.unwrap_err().class, Class::Truncated, "{lengths:?}");
            let sum = Collective::Allreduce(elements.reduction(false));
            assert!(elements.perform(world, sum, false) == elements.of(0, 2), "behind {lengths:?}");
        }
    });
}

#[test]
fn lengths_that_differ_are_told_and_lose_no_number() {
    for (one, other) in [(3000, 4000), (40, 3000), (2000, 16 << 10), (300, 16 << 10), (8, 200), (150, 151)] {
        calls_that_do_not_fit(one, other);
    }
}

/// An allreduce may be of any length, and takes staging buffers several times while the other waits for a
/// short one.
#[test]
fn a_long_one_meets_a_short_one() {
    on_a_segment(|world| {
        // Of halves each round may have fewer chunks than numbers: as many as the other's, fewer, or more.
        let halves =
            [(70_000, 80_000), (70_000, 120_000), (120_000, 70_000), (50_000, 70_000), (70_000, 300_000)];
        let others = [(100_000, 8), (8, 100_000), (70_000, 2_000), (200, 90_000), (50_000, 60_000)];
        for (one, other) in others.into_iter().chain(halves) {
            let count = [one, other][world.rank().0 as usize] / 8;
            let elements = Elements { bytes: 8, count };
            let (input, mut output) = (elements.of(world.rank().0, 1), elements.of(0, 0));
            let sum = Collective::Allreduce(elements.reduction(false));
            let ended = world.perform(sum, reading(&input), writing(&mut output), Combining::Nothing);
            assert_eq!(ended.unwrap_err().class, Class::Truncated, "{one} and {other}");
            let short = Elements { bytes: 8, count: 3 };
            let sum = Collective::Allreduce(short.reduction(false));
            assert!(short.perform(world, sum, false) == short.of(0, 2), "behind {one} and {other}");
        }
    });
}

#[test]
fn who_panics_in_an_operator_lets_the_other_end() {
    on_a_segment(|world| {
        // Of long ones each combines a half: then there is no sum for the other either.
        for (count, is_all_at_each) in
            [(HALVES_FROM / 8 - 1, true), (HALVES_FROM / 8, false), (40_000, false)]
        {
            let elements = Elements { bytes: 8, count };
            // The shortest ones are combined at once.
            let at_calls = if count == HALVES_FROM / 8 { 1..2 } else { 1..3 };
            for (panicking, at_call) in at_calls.flat_map(|at| [(0, at), (1, at)]) {
                let sum = elements.sum_with_a_bug(world, panicking, at_call);
                assert_eq!(sum.is_some(), is_all_at_each && world.rank().0 != panicking, "{count}");
                assert!(sum.is_none_or(|sum| sum == elements.of(0, 2)));
                world.barrier().unwrap();
            }
        }
    });
}

/// One side may have much to give and the other little, or nothing.
#[test]
fn lists_of_lengths_go_in_chunks() {
    let lists = |some: [usize; 9]| {
        move |world: &Communicator| {
            some.iter().flat_map(|one| some.map(|other| [*one, other])).for_each(|both| list(world, both));
        }
    };
    on_a_segment(lists([0, 1, 100, 113, 2048, 2049, 5000, 16 << 10, (16 << 10) + 1]));
    on_cores(lists([0, 1, 113, 5000, 16 << 10, (16 << 10) + 1, 100_001, 256 << 10, 700_000]));
}

/// Gathers and exchanges blocks of which the two have one of each length.
fn list(world: &Communicator, [one, other]: [usize; 2]) {
    let here = world.rank().0 as usize;
    let lengths = [one, other];
    let filled = |from: usize, bytes: usize| vec![from as u8 + 1; bytes];
    let blocks = packed(lengths);
    // Everybody gives its block to both.
    let input = filled(here, lengths[here]);
    let mut output = vec![0u8; one + other];
    let what = Uneven::Allgather { in_place: false };
    let listed = Listed { what, sends: &[], receives: &blocks };
    let out = writing(&mut output);
    world.perform_uneven(listed, reading(&input), out, Combining::Nothing).unwrap();
    assert!(output == [filled(0, one), filled(1, other)].concat(), "allgather of {lengths:?}");
    // The first gives `one` and gets `other`; what each keeps is as long as what it gives.
    let (gives, gets) = (lengths[here], lengths[1 - here]);
    let sends: Vec<Block> = packed([gives, gives]).to_vec();
    let keeps = if here == 0 { [gives, gets] } else { [gets, gives] };
    let receives: Vec<Block> = packed(keeps).to_vec();
    let (input, mut output) = (filled(here, 2 * gives), vec![0u8; gives + gets]);
    let listed = Listed { what: Uneven::Alltoall { in_place: false }, sends: &sends, receives: &receives };
    let out = writing(&mut output);
    world.perform_uneven(listed, reading(&input), out, Combining::Nothing).unwrap();
    assert!(output == [filled(0, keeps[0]), filled(1, keeps[1])].concat(), "alltoall of {lengths:?}");
}

/// In place the result is written over what is given, or combined, and the blocks differ in length.
#[test]
fn sums_of_blocks_that_differ_are_scattered() {
    let each = |world: &Communicator| {
        let here = world.rank().0 as usize;
        for [one, other] in
            [[3, 1], [100, 200], [2000, 100], [1000, 1001], [3000, 9000], [40_000, 20_000], [0, 70_000]]
        {
            for in_place in [false, true] {
                let elements = Elements { bytes: 8, count: one + other };
                let blocks = packed([8 * one, 8 * other]);
                let (own, sum) = (elements.of(world.rank().0, 1), elements.of(0, 2));
                let mut output = if in_place { own.clone() } else { vec![0xa5; blocks[here].bytes] };
                let input = if in_place { &[][..] } else { &own[..] };
                let operator = elements.reduction(in_place).operator;
                let listed = Listed {
                    what: Uneven::ReduceScatter { in_place, operator },
                    sends: &blocks,
                    receives: &[],
                };
                let combine = |left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory| {
                    elements.combine(left, right, out);
                };
                world
                    .perform_uneven(listed, reading(input), writing(&mut output), Combining::By(&combine))
                    .unwrap();
                let Block { offset, bytes } = blocks[here];
                assert!(
                    output[..bytes] == sum[offset..][..bytes],
                    "{one} and {other}, in place {in_place}, at {here}"
                );
            }
        }
    };
    on_a_segment(each);
}

/// One gives what the other expects, and expects more itself than the other gives: so it counts more chunks.
#[test]
fn who_expects_more_is_told_and_so_is_the_other() {
    on_cores(|world| {
        let sum = Elements { bytes: 8, count: 5000 };
        let here = world.rank().0 as usize;
        for (bytes, more) in [(100, 40_000), (100, 300_000), (5000, 40_000), (5000, 300_000)] {
            for expects_more in [0, 1] {
                let gets = if here == expects_more { more } else { bytes };
                let sends = packed([bytes, bytes]).to_vec();
                let keeps = if here == 0 { [bytes, gets] } else { [gets, bytes] };
                let receives = packed(keeps).to_vec();
                let (input, mut output) = (vec![1u8; 2 * bytes], vec![0u8; bytes + gets]);
                let what = Uneven::Alltoall { in_place: false };
                let listed = Listed { what, sends: &sends, receives: &receives };
                let out = writing(&mut output);
                let ended = world.perform_uneven(listed, reading(&input), out, Combining::Nothing);
                assert!(ended.is_err(), "{bytes} bytes given, {more} expected by {expects_more}");
                let all = sum.perform(world, Collective::Allreduce(sum.reduction(false)), false);
                assert!(all == sum.of(0, 2), "behind {bytes} and {more} bytes, {expects_more}");
            }
        }
    });
}

/// Also where it becomes a message.
#[test]
fn long_data_goes_one_way_and_the_other() {
    on_cores(|world| {
        let lengths = [LONG_FROM, TURNED_BYTES_MAX].map(|switch| [switch - 8, switch, switch + 8]);
        for (number, &bytes) in lengths.as_flattened().iter().enumerate() {
            for root in [0, 1, 1, 0, 0] {
                let told = |at: usize| (at / 8 * 7 + at + number + root) as u8;
                let is_root = world.rank().0 as usize == root;
                let mut buffer: Vec<u8> = (0..bytes).map(|at| if is_root { told(at) } else { 0 }).collect();
                let bcast = Collective::Bcast { root: Rank(root as u32), bytes };
                world.perform(bcast, Payload::EMPTY, writing(&mut buffer), Combining::Nothing).unwrap();
                let wrong = buffer.iter().enumerate().find(|&(at, byte)| *byte != told(at));
                assert_eq!(wrong, None, "{bytes} bytes from {root}");
            }
        }
    });
}

/// Long calls that do not fit, of which each of the two has an error that learns of it.
#[test]
fn long_lengths_that_differ_are_told_and_lose_no_number() {
    on_cores(|world| {
        let sum = Elements { bytes: 8, count: 5000 };
        let here = world.rank().0 as usize;
        // The last ones are in as many chunks, which go through other staging buffers.
        let some = [[20_000, 900_000], [100_000, 130_000], [262_136, 262_144]];
        for lengths in some.into_iter().flat_map(|[one, other]| [[one, other], [other, one]]) {
            let bytes = lengths[here];
            let (input, mut output) = (vec![1u8; 2 * bytes], vec![0u8; 2 * bytes]);
            let each = Collective::Alltoall(Each { bytes, in_place: false });
            let ended = world.perform(each, reading(&input), writing(&mut output), Combining::Nothing);
            assert_eq!(ended.unwrap_err().class, Class::Truncated, "{lengths:?} exchanged");
            let all = sum.perform(world, Collective::Allreduce(sum.reduction(false)), false);
            assert!(all == sum.of(0, 2), "behind {lengths:?}");
            for root in [0, 1] {
                let bytes = bytes.min(262_144);
                let mut buffer = vec![1u8; bytes];
                let bcast = Collective::Bcast { root: Rank(root), bytes };
                let ended = world.perform(bcast, Payload::EMPTY, writing(&mut buffer), Combining::Nothing);
                let is_told = ended.is_err_and(|error| error.class == Class::Truncated);
                assert_eq!(is_told, here != root as usize, "{lengths:?} from {root}");
                let all = sum.perform(world, Collective::Allreduce(sum.reduction(false)), false);
                assert!(all == sum.of(0, 2), "behind {lengths:?} from {root}");
            }
        }
    });
}

/// What is given, what comes and what is kept are copied beside each other, and each is where it belongs: in
/// place what comes is written over what is given.
#[test]
fn what_goes_abreast_is_where_it_belongs() {
    on_cores(|world| {
        let here = world.rank().0 as usize;
        // What one gives the other with that number.
        let block = |from: usize, to: usize, number: usize, bytes: usize| -> Vec<u8> {
            (0..bytes).map(|at| (at / 64 * 5 + at + 64 * from + 32 * to + 3 * number) as u8).collect()
        };
        let lengths = [40_000, 98_304, 98_305, 262_144, 262_145, 400_001, 524_288, 1_200_001];
        for (number, bytes) in lengths.into_iter().enumerate() {
            // So often that both ways are tried.
            for number in (number..).take(6) {
                let sends = [0, 1].map(|to| block(here, to, number, bytes)).concat();
                let comes = [0, 1].map(|from| block(from, here, number, bytes)).concat();
                for in_place in [false, true] {
                    let mut output = if in_place { sends.clone() } else { vec![0; 2 * bytes] };
                    let input = if in_place { &[][..] } else { &sends[..] };
                    let all = Collective::Alltoall(Each { bytes, in_place });
                    world.perform(all, reading(input), writing(&mut output), Combining::Nothing).unwrap();
                    assert!(output == comes, "{bytes} bytes exchanged, in place {in_place}, at {here}");
                    let own = block(here, 0, number, bytes);
                    let mut output = vec![0; 2 * bytes];
                    output[here * bytes..][..bytes].copy_from_slice(if in_place {
                        &own
                    } else {
                        &sends[..bytes]
                    });
                    let input = if in_place { &[][..] } else { &own[..] };
                    let all = Collective::Allgather(Each { bytes, in_place });
                    world.perform(all, reading(input), writing(&mut output), Combining::Nothing).unwrap();
                    let gathered = [0, 1].map(|from| block(from, 0, number, bytes)).concat();
                    assert!(output == gathered, "{bytes} bytes gathered, in place {in_place}, at {here}");
                }
            }
        }
    });
}

/// Of two operations that move the same, one rank may call the one with lists of lengths: what comes is read
/// where it stands, in a slot or as a chunk.
#[test]
fn what_comes_is_read_where_its_giver_has_put_it() {
    on_a_segment(|world| {
        let here = world.rank();
        for (bytes, lists_at) in [(100, 0), (500, 0), (500, 1), (2000, 0), (2000, 1)] {
            let mut both = [0u8; 2];
            let all = Collective::Allgather(Each { bytes: 1, in_place: false });
            world.perform(all, reading(&[1u8]), writing(&mut both), Combining::Nothing).unwrap();
            let data =
                |rank: u32| -> Vec<u8> { (0..bytes).map(|at| (at * 3 + rank as usize) as u8).collect() };
            let own = data(here.0);
            let is_root = here == Rank(0);
            let mut output = vec![0; if is_root { 2 * bytes } else { 0 }];
            if here.0 == lists_at {
                let blocks = packed([bytes; 2]);
                let what = Uneven::Gather { root: Rank(0), in_place: false };
                let sends = [Block { offset: 0, bytes }];
                let listed = Listed { what, sends: &sends, receives: if is_root { &blocks } else { &[] } };
                world
                    .perform_uneven(listed, reading(&own), writing(&mut output), Combining::Nothing)
                    .unwrap();
            } else {
                let gather =
                    Collective::Gather(collectives::Rooted { root: Rank(0), bytes, in_place: false });
                world.perform(gather, reading(&own), writing(&mut output), Combining::Nothing).unwrap();
            }
            assert!(!is_root || output == [data(0), data(1)].concat(), "{bytes} bytes, lists at {lists_at}");
        }
    });
}
