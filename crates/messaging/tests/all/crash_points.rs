//! Messages of all kinds between three processes, one of which dies at each of its steps in turn: whoever
//! lives has what the living have sent, whole; what the dead had to do with is either whole or has failed;
//! and nothing goes on for ever (rules G1, G3, G7 of decision 0013).

use std::sync::Arc;

use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Heap, Payload, Peer, UserMemory};
use messaging::MemberList;
use messaging::{
    Data, Engine, Envelope, EveryoneHere, Failure, Gather, Mode, Outcome, Pattern, Rank, Receiving,
    RequestId, Scatter, Sending, Settings, Standing, Target,
};

/// How a message is sent and received.
#[derive(Clone, Copy, Debug)]
struct TransferKind {
    bytes: usize,
    mode: Mode,
    /// The bytes are put together while they go.
    is_made: bool,
    /// They are taken apart while they come.
    is_scattered: bool,
    /// The receive says from whom.
    is_named: bool,
    /// The receives are there first.
    is_expected: bool,
}

fn kinds(bytes: usize) -> Vec<TransferKind> {
    let switch = [false, true];
    let mut all = Vec::new();
    for mode in [Mode::Standard, Mode::Synchronous] {
        for (is_made, is_scattered) in switch.iter().flat_map(|made| switch.map(|apart| (*made, apart))) {
            for (is_named, is_expected) in switch.iter().flat_map(|named| switch.map(|first| (*named, first)))
            {
                all.push(TransferKind { bytes, mode, is_made, is_scattered, is_named, is_expected });
            }
        }
    }
    all
}

#[test]
fn short_messages() {
    each_step(8);
}

#[test]
fn messages_that_wait_for_their_receiver() {
    each_step(300);
}

#[test]
fn messages_in_chunks() {
    each_step(2500);
}

fn each_step(bytes: usize) {
    let mut deaths = 0;
    for (number, kind) in kinds(bytes).into_iter().enumerate() {
        for weather in climates(number as u64) {
            let whole = CrashWorld::new(kind, weather, None).run();
            for (rank, steps) in (0..RANKS).zip(whole) {
                for step in (1..=steps).step_by(if cfg!(miri) { 50 } else { 1 }) {
                    CrashWorld::new(kind, weather, Some((rank, step))).run();
                    deaths += 1;
                }
            }
        }
    }
    println!("{deaths} deaths");
    assert!(deaths > 100, "{deaths} are not all there are");
}

/// The ways that messages go: at once; read by the receiver; asked for; read in parts by both; and all of
/// that, by dice.
fn climates(seed: u64) -> [Weather; 5] {
    let short = Weather { seed, eager_bytes_max: 64, chunk_bytes_max: 700, ..Weather::fair() };
    [
        Weather { seed, ..Weather::fair() },
        short,
        Weather { pull: false, ..short },
        Weather { share_percent: 100, later_percent: 50, delay_polls_max: 9, ..short },
        Weather::storm(seed),
    ]
}

struct CrashWorld {
    name: String,
    kind: TransferKind,
    network: Network,
    processes: Vec<Process>,
    victim: Option<(u32, u64)>,
}

struct Process {
    here: u32,
    engine: Engine<Simulated>,
    standing: Arc<Standing>,
    sends: Vec<(u32, RequestId)>,
    receives: Vec<(RequestId, Heap)>,
    /// From whom messages have come.
    heard: Vec<u32>,
    begun: usize,
    turns: u32,
}

impl CrashWorld {
    fn new(kind: TransferKind, weather: Weather, victim: Option<(u32, u64)>) -> CrashWorld {
        let network = Network::new(RANKS, weather);
        let process = |here| {
            let fabric = network.endpoint(Peer(here));
            let engine = Engine::new(fabric, RANKS, Box::new(EveryoneHere), Settings::default());
            let standing =
                engine.failures().watch(CONTEXT, 1, Rank(here), Arc::new(MemberList((0..RANKS).collect())));
            let (sends, receives, heard) = (Vec::new(), Vec::new(), Vec::new());
            Process { here, engine, standing, sends, receives, heard, begun: 0, turns: 0 }
        };
        let processes = (0..RANKS).map(process).collect();
        if let Some((rank, step)) = victim {
            network.kill_at(Peer(rank), step);
        }
        let name = format!("{kind:?}, {weather:?}, rank and step {victim:?}");
        CrashWorld { name, kind, network, processes, victim }
    }

    /// The steps of each until all was over.
    fn run(mut self) -> Vec<u64> {
        for turn in 0.. {
            assert!(turn < TURNS_MAX, "rule G1: {} hangs:\n{}", self.name, self.state());
            let mut is_over = self.network.exposures() == 0;
            for process in &mut self.processes {
                if !self.network.is_dead(Peer(process.here)) {
                    process.engine.progress();
                    is_over &= process.go_on(self.kind, &self.name);
                }
            }
            if is_over {
                break;
            }
        }
        self.check();
        (0..RANKS).map(|rank| self.network.steps(Peer(rank))).collect()
    }

    fn check(&self) {
        for process in self.processes.iter().filter(|process| !self.network.is_dead(Peer(process.here))) {
            let (mut heard, here) = (process.heard.clone(), process.here);
            heard.sort_unstable();
            let others: Vec<u32> = others(here).collect();
            let dead = self.victim.map(|(rank, _)| rank).filter(|rank| self.network.is_dead(Peer(*rank)));
            let living: Vec<u32> = others.iter().copied().filter(|rank| dead != Some(*rank)).collect();
            assert!(heard == others || heard == living, "rule G7: {}: {here} has heard {heard:?}", self.name);
        }
    }

    fn state(&self) -> String {
        let each = self.processes.iter();
        each.map(|process| format!("{}:\n{}", process.here, process.engine.describe())).collect()
    }
}

impl Process {
    /// Begins what is due, and takes note of what has ended; true when all has.
    fn go_on(&mut self, kind: TransferKind, name: &str) -> bool {
        self.turns += 1;
        let receives_at = if kind.is_expected { 0 } else { LATE_TURNS };
        let sends_at = if kind.is_expected { LATE_TURNS } else { 0 };
        if self.turns == 1 + sends_at {
            others(self.here).for_each(|to| self.send(kind, to));
            self.begun += 1;
        }
        if self.turns == 1 + receives_at {
            others(self.here).for_each(|from| self.receive(kind, from));
            self.begun += 1;
        }
        let (engine, here) = (&mut self.engine, self.here);
        self.sends.retain(|(to, request)| {
            let Some(outcome) = engine.test(*request) else { return true };
            let is_good = outcome.failure.is_none() || is_lost(&outcome) && engine.is_lost(Peer(*to));
            assert!(is_good, "rule G3: {name}: {here} to {to}: {outcome:?}");
            false
        });
        for (request, room) in std::mem::take(&mut self.receives) {
            match self.engine.test(request) {
                Some(outcome) if outcome.goes_on() => {
                    // From now on it waits among the living.
                    let failures = self.engine.failures().clone();
                    failures.acknowledge(&self.standing, usize::MAX);
                    self.receives.push((request, room));
                }
                Some(outcome) => self.received(kind, &outcome, &room, name),
                None => self.receives.push((request, room)),
            }
        }
        self.end_lonely(kind);
        self.begun == 2 && self.sends.is_empty() && self.receives.is_empty()
    }

    /// A receive from anybody of which nobody is left.
    fn end_lonely(&mut self, kind: TransferKind) {
        let dead = others(self.here).filter(|rank| self.engine.is_lost(Peer(*rank))).count();
        let has_all =
            others(self.here).all(|rank| self.engine.is_lost(Peer(rank)) || self.heard.contains(&rank));
        if !kind.is_named && dead > 0 && has_all {
            self.receives.iter().for_each(|(request, _)| self.engine.cancel(*request));
        }
    }

    fn send(&mut self, kind: TransferKind, to: u32) {
        let envelope = Envelope { context: CONTEXT, source: Rank(self.here), tag: TAG };
        let content = content(self.here, to, kind.bytes);
        let sending = match kind.is_made {
            true => self.engine.send(Peer(to), envelope, Data::Apart(&Copied(content)), kind.mode),
            false => self.engine.send(Peer(to), envelope, Payload::from(content), kind.mode),
        };
        match sending {
            Ok(Sending::Pending(request)) => self.sends.push((to, request)),
            Ok(Sending::Done) => {}
            Err(error) => assert!(self.engine.is_lost(Peer(to)), "{error}"),
        }
    }

    fn receive(&mut self, kind: TransferKind, from: u32) {
        let named = kind.is_named.then_some(from);
        let pattern = Pattern { context: CONTEXT, source: named.map(Rank), tag: Some(TAG) };
        let room = Heap::new(kind.bytes);
        let target = match kind.is_scattered {
            true => Target::Scattered(Box::new(Backwards(room.memory()))),
            false => Target::from(room.memory()),
        };
        match self.engine.receive(pattern, named.map(Peer), target) {
            Receiving::Pending(request) => self.receives.push((request, room)),
            Receiving::Done(outcome) => self.received(kind, &outcome, &room, "at once"),
        }
    }

    fn received(&mut self, kind: TransferKind, outcome: &Outcome, room: &Heap, name: &str) {
        if outcome.cancelled || is_lost(outcome) {
            let is_reason = others(self.here).any(|rank| self.engine.is_lost(Peer(rank)));
            return assert!(is_reason, "rule G3: {name}: {}: {outcome:?}", self.here);
        }
        assert_eq!(outcome.failure, None, "{name}");
        let from = outcome.source.0;
        let mut got = room.payload().to_vec();
        if kind.is_scattered {
            got.reverse();
        }
        assert!(got == content(from, self.here, kind.bytes), "rule D2: {name}: {} from {from}", self.here);
        self.heard.push(from);
    }
}

/// Gathers bytes from contiguous memory.
pub(super) struct Copied(pub(super) &'static [u8]);

impl Gather for Copied {
    fn bytes(&self) -> usize {
        self.0.len()
    }
    fn gather(&self, from: usize, into: &mut UserMemory) {
        into.write_at(0, Payload::from(&self.0[from..from + into.bytes()]));
    }

    fn kept(&self) -> Box<dyn Gather> {
        Box::new(Copied(self.0))
    }
}

/// The last byte comes first.
struct Backwards(UserMemory);

impl Scatter for Backwards {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn scatter(&mut self, at: usize, data: Payload<'_>) {
        let mut bytes = data.to_vec();
        bytes.reverse();
        self.0.write_at(self.0.bytes() - at - bytes.len(), Payload::from(&bytes[..]));
    }
}

fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome.failure.as_deref(), Some(Failure::Lost(_)))
}

fn others(here: u32) -> impl Iterator<Item = u32> {
    (0..RANKS).filter(move |rank| *rank != here)
}

/// What one sends to another: nowhere the same.
fn content(from: u32, to: u32, bytes: usize) -> &'static [u8] {
    &NUMBERED[((from * RANKS + to) * 17) as usize..][..bytes]
}

static NUMBERED: [u8; 4096] = {
    let mut numbered = [0; 4096];
    let mut at = 0;
    while at < numbered.len() {
        numbered[at] = (at * 7 + at / 256) as u8;
        at += 1;
    }
    numbered
};

const RANKS: u32 = 3;
const CONTEXT: u32 = 4;
const TAG: i32 = 5;
/// Turns after which the second half of a message's two calls comes.
const LATE_TURNS: u32 = 3;
/// Nobody needs so many: a delay is 40 polls at most.
const TURNS_MAX: u32 = 5000;
