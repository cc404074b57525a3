//! Ranks that die at a step that is given, and all that must hold then (decision 0013).
//!
//! Each rank is a program that does what programs do that go on: an operation; was it good everywhere? and if
//! not, another communicator of those who live, and the next operation there. The ranks are not brought in
//! step: one may be in the next operation while another has still to learn of the failure.

use std::collections::BTreeSet;
use std::sync::Arc;

use collectives::{
    Advance, Among, Buffers, Collective, Each, Execution, Listed, Operator, Rank, Schedule, Shape, allreduce,
    barrier,
};
use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Heap, Peer};
use messaging::{Contribution, Decision, Engine, EveryoneHere, Members, Settings, Standing};

use super::cases::Case;
use super::elements::{
    ELEMENT_BYTES, UNTOUCHED, add_disjoint, assert_same, chunked_messages, sums, untouched,
};
use super::{Reduction, apply, filled, memory, nothing_to_reduce};

/// Who dies, and at which of its steps.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    pub rank: u32,
    pub step: u64,
}

/// What became of the operation that was tried.
pub struct Story {
    /// The steps that each rank has taken until nobody had anything left to do.
    pub steps: Vec<u64>,
    /// Who has begun the operation.
    pub has_begun: Vec<bool>,
    /// To whom it has succeeded.
    pub has_succeeded: Vec<bool>,
}

/// Runs the operation with nobody dying, and then once for each step of each rank, at which that one dies.
/// The answer is how many deaths that were. `after` says what else must hold.
pub fn each_step(case: &Case, weather: Weather, after: impl Fn(&Story, Death)) -> u64 {
    let whole = story(case, weather, &[]);
    assert!(whole.has_succeeded.iter().all(|good| *good), "{}: nobody has died", case.what);
    let mut deaths = 0;
    for (rank, steps) in (0..).zip(whole.steps) {
        for step in 1..=steps {
            let death = Death { rank, step };
            after(&story(case, weather, &[death]), death);
            deaths += 1;
        }
    }
    deaths
}

/// One rank dies at `first`, and then another one at each of its steps.
pub fn each_second_step(case: &Case, weather: Weather, first: Death) -> u64 {
    let whole = story(case, weather, &[first]);
    let mut deaths = 0;
    for (rank, steps) in (0..).zip(whole.steps).filter(|(rank, _)| *rank != first.rank) {
        for step in 1..=steps {
            story(case, weather, &[first, Death { rank, step }]);
            deaths += 1;
        }
    }
    deaths
}

/// One run.
pub fn story(case: &Case, weather: Weather, deaths: &[Death]) -> Story {
    let mut world = World::new(case, weather, deaths);
    while !world.is_over() {
        world.turn();
    }
    let steps = (0..world.engines.len() as u32).map(|rank| world.network.steps(Peer(rank))).collect();
    world.settle();
    world.check();
    Story {
        steps,
        has_begun: world.programs.iter().map(|program| program.has_begun).collect(),
        has_succeeded: world.programs.iter().map(|program| program.first == Some(true)).collect(),
    }
}

struct World<'a> {
    case: &'a Case,
    /// For a failing check.
    name: String,
    network: Network,
    programs: Vec<Program>,
    engines: Vec<Engine<Simulated>>,
    turns: u32,
    /// Whether those with high numbers are first in each turn.
    is_backwards: bool,
}

/// What one rank does, and where it is.
struct Program {
    here: u32,
    size: u32,
    /// The members of its communicator, and how often that has lost some.
    living: Vec<u32>,
    generation: u32,
    standing: Arc<Standing>,
    stage: Stage,
    /// All memory that was lent stays until the job is gone.
    old: Vec<Attempt>,
    has_begun: bool,
    /// Whether the operation that is tried has succeeded here.
    first: Option<bool>,
    decisions: Vec<Decision>,
}

/// An operation under way, and what it is to come to.
struct Attempt {
    execution: Execution,
    living: Vec<u32>,
    output: Heap,
    _input: Heap,
    before: Vec<u8>,
    expected: Vec<u8>,
    reduction: Reduction,
}

enum Stage {
    Operating(Box<Attempt>),
    Agreeing(u32),
    /// These have failed, the others say.
    Learning(Vec<u32>),
    Through,
}

impl<'a> World<'a> {
    fn new(case: &'a Case, weather: Weather, deaths: &[Death]) -> World<'a> {
        let size = case.schedules.len() as u32;
        let network = Network::new(size, weather);
        let engine = |rank| {
            Engine::new(network.endpoint(Peer(rank)), size, Box::new(EveryoneHere), Settings::default())
        };
        let engines: Vec<Engine<Simulated>> = (0..size).map(engine).collect();
        let programs =
            (0..size).zip(&engines).map(|(rank, engine)| Program::new(case, rank, engine)).collect();
        for death in deaths {
            network.kill_at(Peer(death.rank), death.step);
        }
        let name = format!("{}, {weather:?}, {deaths:?}", case.what);
        let is_backwards = deaths.iter().map(|death| death.step).sum::<u64>() % 2 == 1;
        World { case, name, network, programs, engines, turns: 0, is_backwards }
    }

    fn living(&self) -> Vec<u32> {
        let all: Vec<u32> = (0..self.engines.len() as u32).collect();
        let living = all.into_iter().filter(|rank| !self.network.is_dead(Peer(*rank)));
        if self.is_backwards { living.rev().collect() } else { living.collect() }
    }

    fn is_over(&self) -> bool {
        self.living().iter().all(|rank| matches!(self.programs[*rank as usize].stage, Stage::Through))
    }

    /// Everybody who lives makes a turn of progress and goes on as far as it can.
    fn turn(&mut self) {
        self.turns += 1;
        assert!(self.turns < TURNS_MAX, "rule D1: {} hangs:\n{}", self.name, self.state());
        for rank in self.living() {
            let (program, engine) = (&mut self.programs[rank as usize], &mut self.engines[rank as usize]);
            engine.progress();
            if !self.network.is_dead(Peer(rank)) {
                program.go_on(engine, &self.name, self.case);
            }
        }
    }

    /// What was given up ends: no memory is in use for ever.
    fn settle(&mut self) {
        loop {
            let living = self.living();
            let is_settled = |rank: &u32| self.programs[*rank as usize].old.iter().all(Attempt::is_settled);
            if living.iter().all(is_settled) && self.network.exposures() == 0 {
                return;
            }
            self.turn();
        }
    }

    /// What only all of them together show.
    fn check(&self) {
        let living = self.living();
        for &rank in &living {
            let (program, first) = (&self.programs[rank as usize], &self.programs[living[0] as usize]);
            assert_eq!(program.decisions, first.decisions, "rule R2: {}: rank {rank}", self.name);
            assert_eq!(program.living, first.living, "rule R2: {}: rank {rank}", self.name);
            assert!(living.iter().all(|rank| program.living.contains(rank)), "{}", self.name);
            let dead = |failed: &u32| self.network.is_dead(Peer(*failed));
            let all_dead = (0..self.programs.len() as u32).filter(|rank| !program.living.contains(rank));
            assert!(all_dead.into_iter().all(|rank| dead(&rank)), "{}: somebody was invented", self.name);
        }
    }

    fn state(&self) -> String {
        let each = self.programs.iter().zip(&self.engines);
        let told = each.map(|(program, engine)| {
            let dead = if self.network.is_dead(Peer(program.here)) { "dead, " } else { "" };
            format!("rank {}: {dead}{}\n{}", program.here, program.describe(), engine.describe())
        });
        told.collect()
    }
}

impl Program {
    fn new(case: &Case, here: u32, engine: &Engine<Simulated>) -> Program {
        let size = case.schedules.len() as u32;
        let at = here as usize;
        let living: Vec<u32> = (0..size).collect();
        let standing = watch(engine, 0, here, &living);
        let first = Attempt::new(
            case.schedules[at].clone(),
            (&case.inputs[at], &case.outputs[at], &case.expected[at]),
            case.reduction,
            (&living, here, 0, 0),
        );
        Program {
            here,
            size,
            living,
            generation: 0,
            standing,
            stage: Stage::Operating(Box::new(first)),
            old: Vec::new(),
            has_begun: false,
            first: None,
            decisions: Vec::new(),
        }
    }

    fn go_on(&mut self, engine: &mut Engine<Simulated>, name: &str, case: &Case) {
        self.has_begun = true;
        for given_up in self.old.iter_mut().filter(|attempt| !attempt.is_settled()) {
            let _ = given_up.advance(engine);
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Through);
        self.stage = match stage {
            Stage::Operating(mut attempt) => match attempt.advance(engine) {
                Advance::Pending => Stage::Operating(attempt),
                advance => {
                    let is_good = advance == Advance::Done;
                    attempt.check(
                        &format!("rule D2: {name}, generation {}", self.generation),
                        is_good,
                        self.here,
                    );
                    self.first.get_or_insert(is_good);
                    self.old.push(*attempt);
                    Stage::Agreeing(self.ask(engine, is_good))
                }
            },
            Stage::Agreeing(number) => match engine.take_decision(&self.standing, number) {
                None => Stage::Agreeing(number),
                Some(decision) => self.decided(decision, name),
            },
            Stage::Learning(failed) if failed.iter().all(|rank| engine.is_lost(Peer(*rank))) => {
                self.nothing_goes_on(engine, name);
                self.living.retain(|rank| !failed.contains(rank));
                self.generation += 1;
                self.standing = watch(engine, self.generation, self.here, &self.living);
                Stage::Operating(Box::new(self.next_operation(case)))
            }
            Stage::Learning(failed) => Stage::Learning(failed),
            Stage::Through => Stage::Through,
        };
    }

    /// Was it good everywhere?
    fn ask(&self, engine: &mut Engine<Simulated>, is_good: bool) -> u32 {
        let flags = !(1 << self.here) & if is_good { u64::MAX } else { !GOOD };
        engine.agree(&self.standing, Contribution { flags, acknowledged: BTreeSet::new(), count: 0 })
    }

    fn decided(&mut self, decision: Decision, name: &str) -> Stage {
        let failed: Vec<u32> = decision.failed.iter().map(|rank| self.living[*rank as usize]).collect();
        let (was_good, flags) = (decision.flags & GOOD != 0, decision.flags);
        self.decisions.push(decision);
        assert!(flags & (1 << self.here) == 0, "{name}: rank {} was left out", self.here);
        if failed.is_empty() {
            assert!(
                was_good,
                "rule R2: {name}: rank {} had an error of a failure that nobody has",
                self.here
            );
            return Stage::Through;
        }
        Stage::Learning(failed)
    }

    /// Rule D4: where a failure is known, no collective operation of the communicator succeeds any more, nor
    /// does it begin.
    fn nothing_goes_on(&mut self, engine: &mut Engine<Simulated>, name: &str) {
        let at = self.living.iter().position(|rank| *rank == self.here).expect("it lives");
        let schedule = barrier(&Shape::new(Rank(at as u32), self.living.len() as u32));
        let place = (&self.living[..], self.here, self.generation, 1);
        let mut late = Attempt::new(schedule, (&[], &[], &[]), nothing_to_reduce, place);
        let advance = late.advance(engine);
        assert!(matches!(advance, Advance::Failed(_)), "rule D4: {name}: rank {}: {advance:?}", self.here);
        self.old.push(late);
    }

    /// What those who live do next: a sum in a communicator of their own, or a gathering that leaves the
    /// places of the dead.
    fn next_operation(&self, case: &Case) -> Attempt {
        let size = self.living.len() as u32;
        let at = self.living.iter().position(|rank| *rank == self.here).expect("it lives");
        let shape = Shape::new(Rank(at as u32), size);
        let place = (&self.living[..], self.here, self.generation, 0);
        if case.what.len().is_multiple_of(2) {
            let operator = Operator { element_bytes: ELEMENT_BYTES, commutative: true };
            let own = |rank: u32| sums(rank, rank + 1, 0, NEXT_COUNT);
            let mut expected = own(self.living[0]);
            self.living[1..].iter().for_each(|rank| add_disjoint(&own(*rank), &mut expected));
            let schedule = allreduce(&shape, NEXT_COUNT, operator, false);
            let before = untouched(expected.len());
            return Attempt::new(schedule, (&own(self.here), &before, &expected), add_disjoint, place);
        }
        let bytes = NEXT_COUNT * ELEMENT_BYTES;
        let own = |rank: u32| match self.living.contains(&rank) {
            true => chunked_messages(rank, 0, NEXT_COUNT),
            false => untouched(bytes),
        };
        let ranks: Vec<Rank> = self.living.iter().copied().map(Rank).collect();
        let masked = Collective::Allgather(Each { bytes, in_place: false }).masked(&ranks);
        let Among::Uneven { what, sends, receives } = masked.what else { panic!("blocks have places") };
        let schedule = Listed { what, sends: &sends, receives: &receives }.schedule(&shape);
        // The last rank's place may be blank, and is in nobody's blocks then.
        let expected: Vec<u8> = (0..self.size).flat_map(own).collect();
        let before = untouched(expected.len());
        Attempt::new(schedule, (&own(self.here), &before, &expected), nothing_to_reduce, place)
    }

    fn describe(&self) -> String {
        let stage = match &self.stage {
            Stage::Operating(attempt) => format!("{:?}", attempt.execution),
            Stage::Agreeing(number) => format!("agreement {number}"),
            Stage::Learning(failed) => format!("learns of the end of {failed:?}"),
            Stage::Through => "through".to_owned(),
        };
        let left: Vec<&Execution> =
            self.old.iter().map(|old| &old.execution).filter(|old| !old.is_settled()).collect();
        format!("generation {}, {stage}, not settled: {left:?}", self.generation)
    }
}

impl Attempt {
    fn new(
        schedule: Schedule,
        (input, before, expected): (&[u8], &[u8], &[u8]),
        reduction: Reduction,
        (living, here, generation, tag): (&[u32], u32, u32, i32),
    ) -> Attempt {
        let at = living.iter().position(|rank| *rank == here).expect("it lives");
        let (input, output) = (filled(input), filled(before));
        let buffers = Buffers { input: memory::reading(&input), output: output.memory() };
        let execution = Execution::new(schedule, buffers, context(generation) + 1, tag, Rank(at as u32));
        // Both ways to wait.
        let execution = if here.is_multiple_of(2) { execution.waited_for() } else { execution };
        let (living, before, expected) = (living.to_vec(), before.to_vec(), expected.to_vec());
        Attempt { execution, living, output, _input: input, before, expected, reduction }
    }

    fn advance(&mut self, engine: &mut Engine<Simulated>) -> Advance {
        let (living, reduction) = (&self.living, self.reduction);
        let group = |rank: Rank| Peer(living[rank.0 as usize]);
        self.execution.advance(engine, &group, &mut |from, into| apply(reduction, from, into))
    }

    fn is_settled(&self) -> bool {
        self.execution.is_settled()
    }

    /// Who succeeds has the part of everybody; who does not, has nothing written where nothing is ever
    /// written.
    fn check(&self, name: &str, is_good: bool, here: u32) {
        let got = self.output.payload().to_vec();
        if is_good {
            return assert_same(name, here as usize, &got, &self.expected);
        }
        let never = |at: &usize| self.before[*at] == UNTOUCHED && self.expected[*at] == UNTOUCHED;
        let written = (0..got.len().min(self.expected.len())).filter(never).find(|at| got[*at] != UNTOUCHED);
        assert_eq!(written, None, "rule D3: {name}: rank {here} has written outside of its segments");
    }
}

fn watch(engine: &Engine<Simulated>, generation: u32, here: u32, living: &[u32]) -> Arc<Standing> {
    let members = Arc::new(messaging::MemberList(living.to_vec()));
    let rank = members.rank(Peer(here)).expect("it lives");
    engine.failures().watch(context(generation), u64::from(generation) + 1, rank, members)
}

/// The even context of a communicator that has lost members so often.
fn context(generation: u32) -> u32 {
    8 + 2 * generation
}

/// The bit that says that an operation was good.
const GOOD: u64 = 1 << 63;
/// Elements of the operation after a failure: more than one of the climates calls eager.
const NEXT_COUNT: usize = 9;
/// Nobody needs so many: a delay is 40 polls at most.
const TURNS_MAX: u32 = 5000;
