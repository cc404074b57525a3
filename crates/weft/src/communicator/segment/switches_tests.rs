//! Every root, in place and not, at the lengths where operations change their way: from the collective
//! segment to messages, from one algorithm to the next, from a message that is sent at once to one that is
//! read. An error there shows at one length and one root.
//!
//! `WEFT_TEST_SWITCHES=N` does so N times, with other data, and with up to 3 + N ranks.

use std::collections::BTreeSet;

use collectives::node::SegmentAlgorithm;
use collectives::{Collective, Each, Operator, Reduction, Rooted};
use fabric::{Payload, UserMemory};
use job::config::CpuTime;
use job::tell;
use job::tuning::CostsFrom;
use messaging::Rank;

use super::{Combining, Communicator};
use crate::memory::{reading, writing};
use crate::{Config, FabricName, run_threads};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
    Exscan,
}

/// One call, the same at all ranks.
#[derive(Clone, Copy, Debug)]
struct TestCall {
    kind: Kind,
    root: Rank,
    size: u32,
    /// Of the vector, or of one block.
    bytes: usize,
    in_place: bool,
    seed: usize,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Bcast,
        Kind::Gather,
        Kind::Scatter,
        Kind::Allgather,
        Kind::Alltoall,
        Kind::Reduce,
        Kind::Allreduce,
        Kind::ReduceScatter,
        Kind::Scan,
        Kind::Exscan,
    ];

    fn is_rooted(self) -> bool {
        matches!(self, Kind::Bcast | Kind::Gather | Kind::Scatter | Kind::Reduce)
    }

    /// The least step of its lengths.
    fn unit(self) -> usize {
        let combines =
            !matches!(self, Kind::Bcast | Kind::Gather | Kind::Scatter | Kind::Allgather | Kind::Alltoall);
        if combines { SUM.element_bytes } else { 1 }
    }

    /// All calls of one length.
    fn calls(self, size: u32, bytes: usize, seed: usize) -> impl Iterator<Item = TestCall> {
        let roots = if self.is_rooted() { size } else { 1 };
        let places: &[bool] = if self == Kind::Bcast { &[false] } else { &[false, true] };
        (0..roots).flat_map(move |root| {
            let call =
                move |&in_place| TestCall { kind: self, root: Rank(root), size, bytes, in_place, seed };
            places.iter().map(call)
        })
    }

    /// The lengths around those at which another way is taken.
    fn lengths(self, world: &Communicator) -> BTreeSet<usize> {
        let (unit, size) = (self.unit(), world.size() as usize);
        let way = |units: usize| {
            let call = self.calls(world.size(), units * unit, 0).next().expect("there is one");
            let collective = call.collective(world.rank());
            let by_segment = SegmentAlgorithm::of(collective, &world.setting()).map(|chosen| chosen.way());
            (by_segment, collective.chosen(&world.shape()))
        };
        let most = MOST / unit;
        let mut last_before = LIMITS.map(|limit| limit / unit).to_vec();
        last_before.extend(LIMITS.map(|limit| limit * size / unit));
        let mut from = 1;
        while from < most {
            let to = (from + from.div_ceil(8)).min(most);
            if way(from) != way(to) {
                last_before.push(last_of_the_same(from, to, way));
            }
            from = to;
        }
        let around = last_before.into_iter().flat_map(|last| [last.saturating_sub(1), last, last + 1]);
        around.filter(|units| (1..=most).contains(units)).map(|units| units * unit).collect()
    }
}

/// The greatest number that is still as `from` is, where `to` is not.
fn last_of_the_same<W: PartialEq>(mut from: usize, mut to: usize, way: impl Fn(usize) -> W) -> usize {
    let first = way(from);
    while to - from > 1 {
        let middle = from.midpoint(to);
        if way(middle) == first { from = middle } else { to = middle }
    }
    from
}

impl TestCall {
    fn is_root(&self, here: Rank) -> bool {
        here == self.root
    }

    /// Whether this rank's contribution stands in its output.
    fn is_in_place(&self, here: Rank) -> bool {
        self.in_place && (!self.kind.is_rooted() || self.is_root(here))
    }

    fn collective(&self, here: Rank) -> Collective {
        let (root, bytes, in_place) = (self.root, self.bytes, self.is_in_place(here));
        let (rooted, each) = (Rooted { root, bytes, in_place }, Each { bytes, in_place });
        let reduction = Reduction { count: bytes / SUM.element_bytes, operator: SUM, in_place };
        match self.kind {
            Kind::Bcast => Collective::Bcast { root, bytes },
            Kind::Gather => Collective::Gather(rooted),
            Kind::Scatter => Collective::Scatter(rooted),
            Kind::Allgather => Collective::Allgather(each),
            Kind::Alltoall => Collective::Alltoall(each),
            Kind::Reduce => Collective::Reduce(root, reduction),
            Kind::Allreduce => Collective::Allreduce(reduction),
            Kind::ReduceScatter => Collective::ReduceScatterBlock(reduction),
            Kind::Scan => Collective::Scan(reduction),
            Kind::Exscan => Collective::Exscan(reduction),
        }
    }

    /// What one rank gives another, or all.
    fn block<'t>(&self, table: &'t [u8], from: u32, to: u32) -> &'t [u8] {
        let begin = (1009 * from as usize + 7919 * to as usize + 104_729 * self.seed) % OFFSETS;
        &table[begin..begin + self.bytes]
    }

    fn blocks(&self, table: &[u8], block: impl Fn(u32) -> [u32; 2]) -> Vec<u8> {
        let of = |rank| {
            let [from, to] = block(rank);
            self.block(table, from, to)
        };
        (0..self.size).map(of).collect::<Vec<&[u8]>>().concat()
    }

    /// What a rank has before, in its input and its output.
    fn given(&self, table: &[u8], here: Rank) -> [Vec<u8>; 2] {
        let own = || self.block(table, here.0, 0).to_vec();
        let filler = |blocks: u32| vec![FILLER; blocks as usize * self.bytes];
        let (is_root, in_place) = (self.is_root(here), self.is_in_place(here));
        let placed = || {
            let mut all = filler(self.size);
            let at = here.0 as usize * self.bytes;
            all[at..at + self.bytes].copy_from_slice(&own());
            all
        };
        match self.kind {
            Kind::Bcast => [vec![], if is_root { own() } else { filler(1) }],
            Kind::Gather if !is_root => [own(), vec![]],
            Kind::Gather | Kind::Allgather if in_place => [vec![], placed()],
            Kind::Gather | Kind::Allgather => [own(), filler(self.size)],
            Kind::Scatter => {
                let all = if is_root { self.blocks(table, |to| [here.0, to]) } else { vec![] };
                [all, if in_place { vec![] } else { filler(1) }]
            }
            Kind::Alltoall if in_place => [vec![], self.blocks(table, |to| [here.0, to])],
            Kind::Alltoall => [self.blocks(table, |to| [here.0, to]), filler(self.size)],
            Kind::Reduce if !is_root => [own(), vec![]],
            Kind::ReduceScatter if in_place => [vec![], self.blocks(table, |to| [here.0, to])],
            Kind::ReduceScatter => [self.blocks(table, |to| [here.0, to]), filler(1)],
            Kind::Reduce | Kind::Allreduce | Kind::Scan | Kind::Exscan if in_place => [vec![], own()],
            Kind::Reduce | Kind::Allreduce | Kind::Scan | Kind::Exscan => [own(), filler(1)],
        }
    }

    /// The sum of what the ranks up to that one have for another.
    fn sum_up_to(&self, table: &[u8], last: u32, to: u32) -> Vec<u8> {
        let add = |sum: Vec<u8>, rank| sum_of(&sum, self.block(table, rank, to));
        (1..=last).fold(self.block(table, 0, to).to_vec(), add)
    }

    /// What a rank has in its output afterwards.
    fn expected(&self, table: &[u8], here: Rank) -> Vec<u8> {
        let is_root = self.is_root(here);
        match self.kind {
            Kind::Bcast => self.block(table, self.root.0, 0).to_vec(),
            Kind::Gather | Kind::Reduce if !is_root => vec![],
            Kind::Gather | Kind::Allgather => self.blocks(table, |from| [from, 0]),
            Kind::Scatter if self.is_in_place(here) => vec![],
            Kind::Scatter => self.block(table, self.root.0, here.0).to_vec(),
            Kind::Alltoall => self.blocks(table, |from| [from, here.0]),
            Kind::Reduce | Kind::Allreduce => self.sum_up_to(table, self.size - 1, 0),
            Kind::Scan => self.sum_up_to(table, here.0, 0),
            // The first rank's output stays as it is.
            Kind::Exscan if here.0 == 0 => self.given(table, here)[1].clone(),
            Kind::Exscan => self.sum_up_to(table, here.0 - 1, 0),
            // What stands behind the block of who reduces in place is its own affair.
            Kind::ReduceScatter => self.sum_up_to(table, self.size - 1, here.0),
        }
    }

    /// Does it, and tells what is wrong with what has come.
    fn check(&self, world: &Communicator, table: &[u8]) -> Result<(), String> {
        let here = world.rank();
        let [input, mut output] = self.given(table, here);
        let before = input.clone();
        output.extend([FILLER; BEHIND]);
        let bytes = output.len() - BEHIND;
        let add = |left: Payload<'_>, other: Option<Payload<'_>>, right: &mut UserMemory| {
            other.map(|other| right.write_at(0, other));
            let sum = sum_of(&left.to_vec(), &right.payload().to_vec());
            right.write_at(0, Payload::from(&sum[..]));
        };
        world
            .perform(
                self.collective(here),
                reading(&input),
                writing(&mut output[..bytes]),
                Combining::By(&add),
            )
            .map_err(|error| error.to_string())?;
        let expected = self.expected(table, here);
        differs("output", &output[..expected.len()], &expected)?;
        differs("what stands behind the output", &output[bytes..], &[FILLER; BEHIND])?;
        differs("input", &input, &before)
    }
}

fn sum_of(one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut sum = other.to_vec();
    for (sum, (one, other)) in
        sum.as_chunks_mut().0.iter_mut().zip(one.as_chunks().0.iter().zip(other.as_chunks().0))
    {
        *sum = u64::from_ne_bytes(*one).wrapping_add(u64::from_ne_bytes(*other)).to_ne_bytes();
    }
    sum
}

fn differs(what: &str, got: &[u8], right: &[u8]) -> Result<(), String> {
    if got == right {
        return Ok(());
    }
    let at = got.iter().zip(right).position(|(got, right)| got != right).unwrap_or(right.len());
    Err(format!("{what} of {} bytes is wrong from byte {at} on", got.len()))
}

/// Numbers that do not come again.
fn table() -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_ne_bytes()[0]
    };
    (0..MOST + OFFSETS).map(|_| next()).collect()
}

/// How often, and so with how many ranks at most: what `WEFT_TEST_SWITCHES` says.
fn rounds() -> u32 {
    std::env::var("WEFT_TEST_SWITCHES").ok().map_or(1, |n| n.parse().expect("WEFT_TEST_SWITCHES=N"))
}

fn all_over(fabric: FabricName) {
    let table = table();
    let usual = CostsFrom::default();
    // Messages take less where copies take less than reads.
    let quick = CostsFrom::of(Some("weft costs 1;node 60 0.02 16384 120 0.02"));
    for size in 2..=3 + rounds() {
        // With cores of their own ranks choose other algorithms, and send longer messages at once.
        for (cpus, costs) in [
            (Some(CpuTime::UNLIMITED), &usual),
            (None, &usual),
            (Some(CpuTime::UNLIMITED), &quick),
            (Some(CpuTime { hundredths: 100 }), &quick),
        ] {
            let config = Config { fabrics: vec![fabric], cpus, costs: costs.clone(), ..Config::default() };
            run_threads(size, &config, |session| {
                let world = &session.world();
                (0..4).for_each(|_| world.barrier().unwrap());
                assert_eq!(world.handle().is_some(), fabric == FabricName::Shm);
                for kind in Kind::ALL {
                    let lengths = kind.lengths(world);
                    assert!(lengths.len() > 3 * LIMITS.len(), "{kind:?} changes its way nowhere");
                    for (seed, &bytes) in
                        (0..rounds() as usize).flat_map(|seed| lengths.iter().map(move |l| (seed, l)))
                    {
                        for call in kind.calls(size, bytes, seed) {
                            if let Err(wrong) = call.check(world, &table) {
                                // Whoever panics ends the job, and what tests print is lost.
                                tell(format_args!("{call:?} at {:?}: {wrong}", world.rank()));
                                panic!("{wrong}");
                            }
                        }
                    }
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn every_root_where_ways_change_over_shm() {
    all_over(FabricName::Shm);
}

#[test]
fn every_root_where_ways_change_over_tcp() {
    all_over(FabricName::Tcp);
}

/// What would be wrong is seen: each byte that a rank gets is another one than it has, and than any other
/// rank gives.
#[test]
fn what_is_wrong_is_seen() {
    let table = table();
    for kind in Kind::ALL {
        for call in kind.calls(3, 64, 0) {
            let expected = call.expected(&table, Rank(1));
            let [_, given] = call.given(&table, Rank(1));
            let is_changed = given != expected;
            assert!(
                is_changed || expected.is_empty() || kind == Kind::Bcast && call.is_root(Rank(1)),
                "{call:?}"
            );
            let other = TestCall { seed: 1, ..call };
            assert!(expected.is_empty() || other.expected(&table, Rank(1)) != expected, "{call:?}");
        }
    }
    assert!(differs("it", &[1, 2, 3], &[1, 2, 4]).is_err_and(|told| told.contains("byte 2")));
    assert_eq!(last_of_the_same(3, 90, |at| at > 17), 17);
}

const SUM: Operator = Operator { element_bytes: 8, commutative: true };
/// Where messages change their way: the longest that is sent at once whatever comes, on processors of two
/// kinds, where what goes one way becomes a message, and the longest where there is room, by the number of
/// ranks.
const LIMITS: [usize; 9] = [240, 512, 8 << 10, 16 << 10, 20 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];
/// The longest vector or block.
const MOST: usize = 320 << 10;
/// Where the data of ranks may begin in the table.
const OFFSETS: usize = 1 << 16;
const FILLER: u8 = 0xa5;
/// Bytes behind an output, which stay as they are.
const BEHIND: usize = 24;
