//! Operations through a segment with slots, over plain memory, in every order of accesses that a seed
//! chooses: members are threads of which one runs at a time, and before each access another one may go on, or
//! a member dies. The segment itself watches that nothing is written before it was consumed, or read after it
//! is gone ([`fabric::slots::plain`]).

mod scheduler;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use self::scheduler::{Random, Scheduler, State, Trouble};
use collectives::node::{
    ChoiceInputs, CollectiveProgress, Combine, Fault, MemberRole, SegmentChoices, SegmentMember,
    SegmentOperation, SegmentState,
};
use collectives::{
    Block, Collective, Cores, Costs, Each, Forced, Link, Listed, Operator, Reduction, Rooted, Shape,
    TuningConfig, Uneven,
};
use fabric::slots::plain::{PlainSlots, Step, segment};
use fabric::slots::{SLOT_BYTES_MAX, Slots};
use fabric::{Heap, Payload, UserMemory};
use messaging::{Failure, Rank};

/// One member, as its operations see it.
#[derive(Clone, Copy)]
struct Simulated<'a> {
    here: Rank,
    size: u32,
    slots: &'a PlainSlots,
    choices: &'a SegmentChoices,
    scheduler: &'a Scheduler,
}

/// What ends the waits of those who live.
fn closed() -> Fault {
    Fault::Closed(Box::new(Failure::Revoked))
}

impl Simulated<'_> {
    /// Does all of a program, up to the first operation that fails.
    fn run(self, program: &[Call], cores: Cores, trouble: Trouble) -> Option<(usize, Call, Fault)> {
        let (here, mut turn) = (self.here.0, SegmentState::default());
        for (at, &call) in program.iter().enumerate() {
            let call = match trouble {
                Trouble::CallsOther(member, number, other) if (member, number) == (here, at) => other,
                _ => call,
            };
            match perform(self, &mut turn, call, at, cores) {
                // Messages are not simulated here: nothing is known of who waits for whom.
                None if matches!(trouble, Trouble::CallsOther(..)) => self.scheduler.lock().is_closed = true,
                None => {}
                // Operations that move as much may be taken for each other.
                Some(Ok(_)) if matches!(trouble, Trouble::CallsOther(..)) => {}
                Some(Ok(got)) => {
                    let right = call.output(here, self.size, at);
                    assert!(got == right, "{call:?}, operation {at} at {here} has other data");
                }
                // As where errors are returned.
                Some(Err(_)) if matches!(trouble, Trouble::CallsOther(..)) => {}
                Some(Err(fault)) => return Some((at, call, fault)),
            }
        }
        None
    }
}

impl SegmentMember for Simulated<'_> {
    type Slots = PlainSlots;

    fn slots(&self) -> &PlainSlots {
        self.slots
    }

    fn rank(self) -> Rank {
        self.here
    }

    fn size(self) -> u32 {
        self.size
    }

    fn is_soon(self, mut so: impl FnMut() -> bool) -> bool {
        so()
    }

    fn is_at_once(self, mut so: impl FnMut() -> bool) -> bool {
        (0..2).any(|_| so())
    }

    fn wait(
        self,
        [number, written]: [u32; 2],
        owes: Option<&dyn Fn(Rank) -> Option<usize>>,
        so: &dyn Fn(&PlainSlots) -> bool,
    ) -> Result<(), Fault> {
        if owes.is_some() && !self.slots.owes() {
            self.slots.stand(written);
        }
        loop {
            if so(self.slots) {
                return Ok(());
            }
            let absent =
                owes.and_then(|owes| CollectiveProgress { number, by_messages: 0 }.absent(self, owes));
            let ended = if self.is_closed() { Some(closed()) } else { absent.map(Fault::Elsewhere) };
            if let Some(fault) = ended {
                if owes.is_none() {
                    self.slots.owe();
                }
                return Err(fault);
            }
            if !self.scheduler.step(self.here.0 as usize, true) {
                return Err(closed());
            }
        }
    }

    fn is_closed(self) -> bool {
        let state = self.scheduler.lock();
        state.has_died.is_some() || state.is_closed
    }

    fn progress(self) {}

    fn leave(self, number: u32) {
        self.slots.consume(number);
    }

    fn is_over(self, _turn: &mut SegmentState) {}

    /// A clock that says anything: which way turns out to be faster is chance.
    fn now_ns(self) -> u64 {
        self.scheduler.lock().random.next() % 1_000_000
    }

    fn second_cache_bytes(self) -> Option<usize> {
        None
    }
}

/// Elements are maps x -> a x + b of 32 bits, and one after the other is a map again: associative, but the
/// order counts.
#[derive(Clone, Copy)]
struct Maps;

const ELEMENT: usize = 8;
const MAPS: Operator = Operator { element_bytes: ELEMENT, commutative: false };

fn after(left: &[u8], right: &[u8]) -> Vec<u8> {
    let halves = |of: &[u8]| [0, 4].map(|at| u32::from_ne_bytes(of[at..at + 4].try_into().unwrap()));
    let of = |(left, right): (&[u8], &[u8])| {
        let ([a, b], [c, d]) = (halves(left), halves(right));
        [a.wrapping_mul(c).to_ne_bytes(), a.wrapping_mul(d).wrapping_add(b).to_ne_bytes()].concat()
    };
    left.chunks(ELEMENT).zip(right.chunks(ELEMENT)).flat_map(of).collect()
}

impl Combine for Maps {
    fn combine(self, left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory) {
        let right = right.unwrap_or(out.payload()).to_vec();
        let all = after(&left.to_vec(), &right);
        out.write_at(0, Payload::from(&all[..]));
    }
}

/// What all members send is a part of this.
fn table() -> &'static [u8] {
    static TABLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    TABLE.get_or_init(|| {
        let mut number = 1u64;
        let mut next = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (number >> 33) as u8
        };
        (0..4 << 20).map(|_| next()).collect()
    })
}

/// What a member sends in the operation of that number: so many bytes.
fn sent(member: u32, operation: usize, bytes: usize) -> &'static [u8] {
    let from = (member as usize * 4099 + operation * 31) % 40_000;
    &table()[from..from + bytes]
}

/// One operation, as all members call it.
#[derive(Clone, Copy, Debug)]
enum Call {
    Barrier,
    Bcast(u32, usize),
    Gather(u32, usize),
    Scatter(u32, usize),
    Allgather(usize),
    Alltoall(usize),
    Allreduce(usize),
    Reduce(u32, usize),
    Scan(usize),
    /// Blocks of `bytes * (from + 1) + to` bytes.
    Alltoallv(usize),
}

impl Call {
    fn any(random: &mut Random, size: u32, lengths: &[usize]) -> Call {
        let bytes = lengths[random.next() as usize % lengths.len()] / ELEMENT * ELEMENT;
        let root = random.next() as u32 % size;
        match random.next() % 10 {
            0 => Call::Barrier,
            1 => Call::Bcast(root, bytes),
            2 => Call::Gather(root, bytes),
            3 => Call::Scatter(root, bytes),
            4 => Call::Allgather(bytes),
            5 => Call::Alltoall(bytes),
            6 => Call::Allreduce(bytes),
            7 => Call::Reduce(root, bytes),
            8 => Call::Scan(bytes),
            _ => Call::Alltoallv(bytes / size as usize),
        }
    }

    fn collective(self) -> Option<Collective> {
        let in_place = false;
        let rooted = |root, bytes| Rooted { root: Rank(root), bytes, in_place };
        let sum = |bytes| Reduction { count: bytes / ELEMENT, operator: MAPS, in_place };
        Some(match self {
            Call::Barrier => Collective::Barrier,
            Call::Bcast(root, bytes) => Collective::Bcast { root: Rank(root), bytes },
            Call::Gather(root, bytes) => Collective::Gather(rooted(root, bytes)),
            Call::Scatter(root, bytes) => Collective::Scatter(rooted(root, bytes)),
            Call::Allgather(bytes) => Collective::Allgather(Each { bytes, in_place }),
            Call::Alltoall(bytes) => Collective::Alltoall(Each { bytes, in_place }),
            Call::Allreduce(bytes) => Collective::Allreduce(sum(bytes)),
            Call::Reduce(root, bytes) => Collective::Reduce(Rank(root), sum(bytes)),
            Call::Scan(bytes) => Collective::Scan(sum(bytes)),
            Call::Alltoallv(_) => return None,
        })
    }

    /// How long the block is that one member sends another.
    fn block(from: u32, to: u32, bytes: usize) -> usize {
        bytes * (from as usize + 1) / 2 + to as usize
    }

    /// What a member sends: at its root also what a broadcast has.
    fn input(self, here: u32, size: u32, at: usize) -> &'static [u8] {
        let all = size as usize;
        match self {
            Call::Barrier | Call::Bcast(..) => &[],
            Call::Gather(_, bytes) | Call::Allgather(bytes) | Call::Allreduce(bytes) => sent(here, at, bytes),
            Call::Reduce(_, bytes) | Call::Scan(bytes) => sent(here, at, bytes),
            Call::Scatter(_, bytes) | Call::Alltoall(bytes) => sent(here, at, all * bytes),
            Call::Alltoallv(bytes) => sent(here, at, (0..size).map(|to| Call::block(here, to, bytes)).sum()),
        }
    }

    /// What stands in its output at the end.
    fn output(self, here: u32, size: u32, at: usize) -> Vec<u8> {
        let part = |from: u32, bytes: usize| {
            let block = here as usize * bytes;
            &sent(from, at, (size as usize) * bytes)[block..block + bytes]
        };
        let sum = |last: u32, bytes: usize| {
            (1..=last).fold(sent(0, at, bytes).to_vec(), |sum, from| after(&sum, sent(from, at, bytes)))
        };
        match self {
            Call::Barrier => vec![],
            Call::Bcast(root, bytes) => sent(root, at, bytes).to_vec(),
            Call::Gather(root, _) | Call::Reduce(root, _) if root != here => vec![],
            Call::Gather(_, bytes) | Call::Allgather(bytes) => {
                (0..size).flat_map(|from| sent(from, at, bytes)).copied().collect()
            }
            Call::Scatter(root, bytes) => part(root, bytes).to_vec(),
            Call::Alltoall(bytes) => (0..size).flat_map(|from| part(from, bytes)).copied().collect(),
            Call::Allreduce(bytes) | Call::Reduce(_, bytes) => sum(size - 1, bytes),
            Call::Scan(bytes) => sum(here, bytes),
            Call::Alltoallv(bytes) => (0..size)
                .flat_map(|from| {
                    let before: usize = (0..here).map(|to| Call::block(from, to, bytes)).sum();
                    let own = Call::block(from, here, bytes);
                    &sent(from, at, before + own)[before..]
                })
                .copied()
                .collect(),
        }
    }

    /// The blocks of an exchange of blocks that differ.
    fn blocks(bytes: usize, size: u32, length: impl Fn(u32, usize) -> usize) -> Vec<Block> {
        let mut offset = 0;
        let block = |rank| {
            let block = Block { offset, bytes: length(rank, bytes) };
            offset += block.bytes;
            block
        };
        (0..size).map(block).collect()
    }
}

/// No message goes without asking, which takes long: so whatever can go through the segment does.
static DEAR_MESSAGES: TuningConfig = TuningConfig::new(
    Costs {
        node: Link { eager_bytes_max: 0, ask_ns: 1e6, byte_ns: 100.0, ..Costs::BUILT_IN.node },
        ..Costs::BUILT_IN
    },
    Forced::NOTHING,
);

/// Does one operation. `None` where it goes by messages.
fn perform(
    of: Simulated<'_>,
    turn: &mut SegmentState,
    call: Call,
    at: usize,
    cores: Cores,
) -> Option<Result<Vec<u8>, Fault>> {
    let (here, size) = (of.here.0, of.size);
    let shape = || Shape::new(of.here, size).on(cores).guided_by(&DEAR_MESSAGES);
    let setting = ChoiceInputs { here: of.here, size, cores, choices: of.choices, shape };
    let (sends, receives);
    let role = match call {
        Call::Alltoallv(bytes) => {
            sends = Call::blocks(bytes, size, |to, bytes| Call::block(here, to, bytes));
            receives = Call::blocks(bytes, size, |from, bytes| Call::block(from, here, bytes));
            let what = Uneven::Alltoall { in_place: false };
            // What is too long for slots would go by messages behind it.
            let longest = SLOT_BYTES_MAX / (size - 1) as usize - 8;
            let is_short = |from, to| size == 2 || Call::block(from, to, bytes) <= longest;
            let is_short = (0..size).all(|from| (0..size).all(|to| is_short(from, to)));
            MemberRole::listed(Listed { what, sends: &sends, receives: &receives }, &setting)
                .filter(|_| is_short)?
        }
        call => MemberRole::of(call.collective()?, &setting)?,
    };
    let chosen = role.chosen(&setting)?;
    let right = call.output(here, size, at);
    let heap = Heap::new(right.len());
    let mut output = heap.memory();
    if let Call::Bcast(root, _) = call
        && root == here
    {
        output.write_at(0, Payload::from(&right[..]));
    }
    let input = Payload::from(call.input(here, size, at));
    let mut operation = SegmentOperation::enter(of, turn, chosen.flow, chosen.bytes)?;
    let done = operation.begin().and_then(|()| role.carry(&chosen, &mut operation, input, &mut output, Maps));
    drop(operation);
    Some(done.map(|()| heap.payload().to_vec()))
}

/// Runs a program of operations; what is wrong. How many cache lines have moved.
fn run(size: u32, seed: u64, program: &[Call], cores: Cores, trouble: Trouble, is_stormy: bool) -> u64 {
    let state = State {
        random: Random::of(seed),
        alive: vec![true; size as usize],
        runs: 0,
        trouble,
        accesses: vec![0; size as usize],
        has_died: None,
        is_closed: false,
        is_stormy,
    };
    let scheduler =
        Arc::new(Scheduler { state: Mutex::new(state), turns: (0..size).map(|_| Condvar::new()).collect() });
    let step = |here: usize| {
        let scheduler = Arc::clone(&scheduler);
        Arc::new(move || scheduler.step(here, false)) as Step
    };
    let sides = segment(
        (0..size as usize).map(step).collect(),
        seed.is_multiple_of(2),
        !matches!(trouble, Trouble::CallsOther(..)),
    );
    let account = format!("{size} members, seed {seed}, {cores:?}, {trouble:?}");
    thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .zip(&sides)
            .map(|(here, slots)| {
                let scheduler = &*scheduler;
                scope.spawn(move || {
                    // Until it is its turn.
                    let mut state = scheduler.lock();
                    while state.runs != here as usize {
                        state = scheduler.turns[here as usize]
                            .wait(state)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                    drop(state);
                    let choices = SegmentChoices::default();
                    let of = Simulated { here: Rank(here), size, slots, choices: &choices, scheduler };
                    let ended = catch_unwind(AssertUnwindSafe(|| of.run(program, cores, trouble)));
                    scheduler.end(here as usize);
                    ended
                })
            })
            .collect();
        for (here, thread) in threads.into_iter().enumerate() {
            let ended = thread.join().expect("its panics are caught");
            let has_died = scheduler.lock().has_died;
            match ended {
                Err(panic) if has_died != Some(here) => {
                    println!("{account}: member {here}");
                    resume_unwind(panic);
                }
                Ok(Some(failed)) if has_died.is_none() => panic!("{account}: member {here}: {failed:?}"),
                _ => {}
            }
        }
    });
    sides[0].transfers()
}

/// Lengths around those at which another way is taken, up to several chunks.
const LENGTHS: [usize; 14] =
    [8, 40, 48, 112, 120, 700, 2112, 2168, 4096, 16 << 10, (16 << 10) + 8, 40_000, 70_000, 300_000];

fn program(seed: u64, size: u32, operations: usize, lengths: &[usize]) -> Vec<Call> {
    // Apart from those that choose who runs.
    let mut random = Random::of(seed + (1 << 32));
    (0..operations).map(|_| Call::any(&mut random, size, lengths)).collect()
}

fn cores_of(seed: u64) -> Cores {
    if seed.is_multiple_of(3) { Cores::Own } else { Cores::Shared }
}

/// A thousand programs, each in an order of its own.
#[test]
fn every_order_has_the_same_data() {
    for seed in 1..=1000 {
        let size = [2, 2, 3, 4, 2, 5, 7, 8][seed as usize % 8];
        let lengths = if seed % 4 == 0 { &LENGTHS[..] } else { &LENGTHS[..9] };
        run(size, seed, &program(seed, size, 12, lengths), cores_of(seed), Trouble::Nothing, true);
    }
}

/// So many members that sums go up a tree where each has a core of its own.
#[test]
fn many_members_have_the_same_data() {
    for seed in 1..=60 {
        let size = [9, 10, 12, 16, 17, 33][seed as usize % 6];
        run(
            size,
            seed,
            &program(seed, size, 8, if size < 33 && seed % 8 == 0 { &LENGTHS[7..12] } else { &LENGTHS[..6] }),
            cores_of(seed % 2 * 3),
            Trouble::Nothing,
            true,
        );
    }
}

/// Numbers wrap after a hundred operations, and members renew their slots.
#[test]
fn programs_may_be_long() {
    for seed in 1..=20 {
        let size = 2 + seed as u32 % 3;
        run(size, seed, &program(seed, size, 250, &LENGTHS[..9]), cores_of(seed), Trouble::Nothing, true);
    }
}

/// Whoever dies, and before whichever access: everybody else ends, with the right data or told of it.
#[test]
fn a_member_of_a_tree_may_die_before_every_access() {
    let program = [Call::Allreduce(8), Call::Barrier, Call::Allreduce(40), Call::Bcast(3, 8), Call::Barrier];
    for size in [9, 13] {
        for access in 1..=60 {
            let dies = ((access * 5) as usize % size as usize, access);
            run(size, access, &program, Cores::Own, Trouble::Dies(dies.0, dies.1), true);
        }
    }
}

/// Operations of every kind among two to four members: whichever member dies, before whichever access, the
/// others end.
#[test]
fn a_member_may_die_before_every_access() {
    for seed in 1..=12u64 {
        let size = [2, 3, 4][seed as usize % 3];
        let lengths = if seed % 2 == 0 { &LENGTHS[8..13] } else { &LENGTHS[..9] };
        let program = program(seed, size, 6, lengths);
        for access in 1..=90 {
            run(
                size,
                seed,
                &program,
                cores_of(seed),
                Trouble::Dies(seed as usize % size as usize, access),
                true,
            );
        }
    }
}

/// One member calls something else: all others end, and nothing is read that is not there.
#[test]
fn who_calls_something_else_hangs_nobody() {
    for odd in 0..11 {
        let trouble = Trouble::CallsOther(odd, 0, Call::Allreduce(24));
        run(11, u64::from(odd), &[Call::Allreduce(8)], Cores::Own, trouble, true);
    }
    for seed in 1..=600u64 {
        let size = [2, 3, 4, 9, 2, 5][seed as usize % 6];
        let lengths = if seed % 2 == 0 { &LENGTHS[..13] } else { &LENGTHS[..9] };
        let (all, others) = (program(seed, size, 6, lengths), program(seed + 5000, size, 1, lengths));
        let trouble = Trouble::CallsOther(seed as u32 % size, seed as usize % 4, others[0]);
        run(size, seed, &all, cores_of(seed), trouble, true);
    }
}

/// How many cache lines one operation moves among so many members, when they come one after the other.
#[test]
fn lines_that_move_are_counted() {
    let lines = |size: u32, call: Call| {
        let of = |times: usize| run(size, 1, &vec![call; times], Cores::Own, Trouble::Nothing, false);
        (of(40) - of(20)) as f64 / 20.0
    };
    let mut table = String::new();
    for size in [2, 3, 4, 8, 9, 16, 64] {
        let calls =
            [Call::Barrier, Call::Allreduce(8), Call::Bcast(0, 8), Call::Allgather(8), Call::Alltoall(8)];
        let all: Vec<String> = calls.into_iter().map(|call| format!("{:>8.1}", lines(size, call))).collect();
        table += &format!("{size:<2} {}\n", all.join(""));
    }
    assert_eq!(table, TABLE, "\n{table}");
}

/// How many cache lines operations on data in chunks move, for each line of data.
#[test]
fn lines_of_chunks_that_move_are_counted() {
    const BYTES: usize = 16 << 10;
    let mut table = String::new();
    for size in [3, 4, 8, 16, 32] {
        let lines = |call: Call| {
            let of = |times: usize| run(size, 1, &vec![call; times], Cores::Own, Trouble::Nothing, false);
            (of(12) - of(4)) as f64 / 8.0 / (BYTES / 64) as f64
        };
        let calls = [Call::Bcast(0, BYTES), Call::Allgather(BYTES), Call::Allreduce(BYTES)];
        let all: Vec<String> = calls.into_iter().map(|call| format!("{:>8.2}", lines(call))).collect();
        table += &format!("{size:<2} {}\n", all.join(""));
    }
    assert_eq!(table, CHUNKS, "\n{table}");
}

/// For each number of members: barrier, allreduce, bcast, allgather and alltoall of 8 bytes.
const TABLE: &str = "\
2       6.0     6.0     2.2     6.0     6.0
3      15.0    15.0     3.4    15.0    15.0
4      28.0    28.0     4.5    28.0    28.0
8     120.0   120.0     9.1   120.0   184.0
9      52.0    52.0    10.2   153.0   234.0
16    105.0   105.0    18.3   496.0  1008.0
64    490.0   490.0    73.5  8128.0 40896.0
";

/// For each number of members: bcast, allgather and allreduce.
const CHUNKS: &str = "\
3      3.03    9.05    7.16
4      4.04   16.11   10.21
8      8.08   64.46   22.93
16    16.18  257.93   49.87
32    32.37 1031.87  109.75
";
