//! What the tests of this crate share: a job on the simulated fabric that runs schedules, and a check of
//! schedules that needs no fabric at all.
#![allow(dead_code)] // each test file uses its own part

pub mod cases;
pub mod counting;
pub mod crash;
pub mod creation;
pub mod elements;
pub mod memory;
pub mod seats;
pub mod verify;

use collectives::{Advance, Buffers, Execution, Rank, Schedule, Shape};
use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Heap, Payload, Peer, UserMemory};
use messaging::{Engine, EveryoneHere, Settings};

/// A job of ranks that are neighbours in one process.
pub struct Job {
    pub network: Network,
    pub engines: Vec<Engine<Simulated>>,
    seed: u64,
    tag: i32,
}

/// One rank's operation and memory.
pub struct Part {
    pub execution: Execution,
    pub input: Heap,
    pub output: Heap,
}

/// How two runs of elements are reduced: the second becomes first op second.
pub type Reduction = fn(&[u8], &mut [u8]);

impl Job {
    pub fn new(ranks: u32, weather: Weather) -> Job {
        let network = Network::new(ranks, weather);
        let engine = |rank| {
            Engine::new(network.endpoint(Peer(rank)), ranks, Box::new(EveryoneHere), Settings::default())
        };
        let engines = (0..ranks).map(engine).collect();
        Job { network, engines, seed: weather.seed, tag: 0 }
    }

    /// One rank's part in the next operation, with copies of its memory.
    pub fn part(&self, rank: u32, schedule: Schedule, input: &[u8], output: &[u8]) -> Part {
        let (input, output) = (filled(input), filled(output));
        let buffers = Buffers { input: memory::reading(&input), output: output.memory() };
        let execution = Execution::new(schedule, buffers, CONTEXT, self.tag, Rank(rank));
        // Both ways to wait are tried in turn.
        let execution = if self.tag % 2 == 0 { execution.waited_for() } else { execution };
        Part { execution, input, output }
    }

    /// The parts made from here on belong to another operation.
    pub fn next_operation(&mut self) {
        self.tag += 1;
    }

    /// Brings every part a chunk further, with one turn of progress each; the answer is how they stand.
    pub fn turn(&mut self, parts: &mut [Part], reduction: Reduction) -> Vec<Advance> {
        let each = self.engines.iter_mut().zip(parts);
        each.map(|(engine, part)| {
            engine.progress();
            part.execution
                .advance(engine, &|rank| Peer(rank.0), &mut |from, into| apply(reduction, from, into))
        })
        .collect()
    }

    /// Runs one operation at all ranks; the answer is everybody's output.
    pub fn run(
        &mut self,
        schedules: Vec<Schedule>,
        inputs: &[Vec<u8>],
        outputs: &[Vec<u8>],
        reduction: Reduction,
    ) -> Vec<Vec<u8>> {
        self.next_operation();
        let memory = inputs.iter().zip(outputs);
        let all = schedules.into_iter().zip(memory).zip(0..);
        let mut parts: Vec<Part> =
            all.map(|((schedule, (input, output)), rank)| self.part(rank, schedule, input, output)).collect();
        self.until_done(&mut parts, reduction);
        parts.iter().map(|part| part.output.payload().to_vec()).collect()
    }

    fn until_done(&mut self, parts: &mut [Part], reduction: Reduction) {
        let (mut quiet, mut before) = (0, self.completions());
        loop {
            let stand = self.turn(parts, reduction);
            if stand.iter().all(|advance| *advance == Advance::Done) {
                return;
            }
            let now = (self.network.messages(), self.completions().1);
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            assert!(quiet < QUIET_TURNS_MAX, "seed {} hangs:\n{}", self.seed, self.state(parts));
            let failed = stand.iter().any(|advance| matches!(advance, Advance::Failed(_)));
            assert!(!failed, "seed {} failed:\n{}", self.seed, self.state(parts));
        }
    }

    /// What changes whenever anything happens.
    fn completions(&self) -> (u64, u64) {
        (self.network.messages(), self.engines.iter().map(Engine::completions).sum())
    }

    /// Where everybody stands.
    pub fn state(&self, parts: &[Part]) -> String {
        let each = parts.iter().zip(&self.engines);
        each.map(|(part, engine)| format!("{:?}\n{}", part.execution, engine.describe())).collect()
    }
}

/// The schedules of all ranks.
pub fn of_all(size: u32, schedule: impl Fn(&Shape) -> Schedule) -> Vec<Schedule> {
    (0..size).map(|rank| schedule(&Shape::new(Rank(rank), size))).collect()
}

/// The schedules of all ranks that sit as that one does.
pub fn of_all_like(shape: &Shape, schedule: impl Fn(&Shape) -> Schedule) -> Vec<Schedule> {
    (0..shape.size()).map(|rank| schedule(&shape.of(Rank(rank)))).collect()
}

/// Memory with that content.
pub fn filled(content: &[u8]) -> Heap {
    let heap = Heap::new(content.len());
    heap.memory().write_at(0, Payload::from(content));
    heap
}

pub(crate) fn apply(reduction: Reduction, from: Payload<'_>, into: &mut UserMemory) {
    assert_eq!(from.bytes(), into.bytes(), "operands of different lengths");
    let mut result = into.payload().to_vec();
    reduction(&from.to_vec(), &mut result);
    into.write_at(0, Payload::from(&result[..]));
}

/// For operations that reduce nothing.
pub fn nothing_to_reduce(_: &[u8], _: &mut [u8]) {
    panic!("this operation reduces nothing");
}

/// The context of the job's one communicator.
pub const CONTEXT: u32 = 9;
/// Nothing is under way for longer: the simulated fabric delays by 40 polls, and each turn is one per rank.
const QUIET_TURNS_MAX: usize = 500;
