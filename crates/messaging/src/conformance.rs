//! Random programs of sends and receives, run on any fabric and held against the rules of matching.
//!
//! A program is made from a seed: every rank sends messages to random ranks and posts receives, some with
//! wildcards, in an order that the seed decides as well. Some sends and some receives are cancelled, and some
//! receives are not posted but look for a message that is there, and take it. Afterwards the log is compared
//! with what MPI 5.0 §3.5 demands. Since MPI leaves open which of two senders is heard first, the model is a
//! set of rules and not one answer; with a single sender the rules leave exactly one answer.

use std::time::{Duration, Instant};

use fabric::conformance::WATCHDOG;
use fabric::{Fabric, Heap, Payload, Peer, UserMemory};

use crate::{
    Data, Engine, Envelope, Failure, Gather, Message as Taken, Mode, Outcome, Pattern, Rank, Receiving,
    RequestId, Scatter, Sending, Target,
};

/// Runs the program of one seed on the engines of a job, rank by position.
///
/// # Panics
/// With the seed and the state of all ranks, when a rule is broken or nothing moves any more.
pub fn random_program<F: Fabric>(engines: &mut [Engine<F>], seed: u64) {
    let mut run = Run::new(engines, seed);
    run.start_everything();
    run.until_quiet();
    run.check_nothing_was_left_that_matches();
    run.sweep_up();
    run.check_contents();
    run.check_order();
}

/// A message as the program knows it.
struct TestMessage {
    to: usize,
    envelope: Envelope,
    data: &'static [u8],
    /// It is made while it goes.
    made: bool,
    mode: Mode,
    request: Option<RequestId>,
    /// It was cancelled in time: nobody may receive it.
    cancelled: bool,
}

/// A receive as the program knows it.
struct Receive {
    at: usize,
    pattern: Pattern,
    room: Heap,
    /// It is taken apart while it comes, and stands in the room back to front.
    scattered: bool,
    way: Way,
    request: Option<RequestId>,
    outcome: Option<Outcome>,
}

/// How a receive gets its message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Posted,
    /// Posted, and taken back a little later unless it has its message by then.
    GivenUp,
    /// It looks what is there and takes that; where nothing is, it is no receive.
    Looking,
}

/// Data that is made while it goes.
struct Made(&'static [u8]);

impl Gather for Made {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn gather(&self, from: usize, into: &mut UserMemory) {
        assert!(from + into.bytes() <= self.0.len(), "more is made than there is");
        into.write_at(0, Payload::from(self.0).after(from));
    }

    fn kept(&self) -> Box<dyn Gather> {
        Box::new(Made(self.0))
    }
}

/// A room that is filled from its end to its beginning.
struct BackToFront(UserMemory);

impl Scatter for BackToFront {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn scatter(&mut self, at: usize, data: Payload<'_>) {
        let end = self.0.bytes().saturating_sub(at);
        let mut back = data.part(0, end).to_vec();
        back.reverse();
        self.0.write_at(end - back.len(), Payload::from(&back[..]));
    }
}

impl Receive {
    fn new(at: usize, pattern: Pattern, room: Heap, scattered: bool, way: Way) -> Receive {
        Receive { at, pattern, room, scattered, way, request: None, outcome: None }
    }

    /// Whether it was posted, or has found something.
    fn is_one(&self) -> bool {
        self.way != Way::Looking || self.request.is_some() || self.outcome.is_some()
    }

    fn target(&self) -> Target {
        let memory = self.room.memory();
        if self.scattered { Target::Scattered(Box::new(BackToFront(memory))) } else { memory.into() }
    }

    /// What was received, as far as it goes.
    fn contents(&self, bytes: usize) -> Vec<u8> {
        let payload = self.room.payload();
        if !self.scattered {
            return payload.part(0, bytes).to_vec();
        }
        let mut back = payload.after(payload.bytes() - bytes).to_vec();
        back.reverse();
        back
    }
}

/// What a rank does next, in the order of its program.
#[derive(Clone, Copy)]
enum Step {
    Send(usize),
    Receive(usize),
    GiveUp(usize),
    Cancel(usize),
}

struct Run<'a, F: Fabric> {
    engines: &'a mut [Engine<F>],
    seed: u64,
    dice: Dice,
    messages: Vec<TestMessage>,
    receives: Vec<Receive>,
    steps: Vec<Vec<Step>>,
    since: Instant,
}

impl<'a, F: Fabric> Run<'a, F> {
    fn new(engines: &'a mut [Engine<F>], seed: u64) -> Self {
        let mut dice = Dice(seed);
        let ranks = engines.len();
        let mut steps = vec![Vec::new(); ranks];
        let (mut messages, mut receives) = (Vec::new(), Vec::new());
        for number in 0..if cfg!(miri) { 8 + dice.below(5) } else { 20 + dice.below(60) } {
            let message = random_message(&mut dice, ranks, number as u32);
            let receive = receive_for(&mut dice, &message);
            steps[message.envelope.source.0 as usize].push(Step::Send(messages.len()));
            let at = steps[message.to].len();
            let place = dice.below(at as u64 + 1) as usize;
            steps[message.to].insert(place, Step::Receive(receives.len()));
            if receive.way == Way::GivenUp {
                let after = place + 1 + dice.below((at - place) as u64 + 1) as usize;
                steps[message.to].insert(after, Step::GiveUp(receives.len()));
            }
            messages.push(message);
            receives.push(receive);
        }
        for (number, message) in messages.iter().enumerate() {
            let own: &mut Vec<Step> = &mut steps[message.envelope.source.0 as usize];
            let sent = own.iter().position(|step| matches!(step, Step::Send(sent) if *sent == number));
            if let Some(sent) = sent.filter(|_| dice.below(5) == 0) {
                let after = sent + 1 + dice.below((own.len() - sent) as u64) as usize;
                own.insert(after, Step::Cancel(number));
            }
        }
        Run { engines, seed, dice, messages, receives, steps, since: Instant::now() }
    }

    /// Every rank works its program off, in turns that the seed decides.
    fn start_everything(&mut self) {
        let mut next = vec![0; self.engines.len()];
        while (0..next.len()).any(|rank| next[rank] < self.steps[rank].len()) {
            let rank = self.dice.below(next.len() as u64) as usize;
            if self.dice.below(3) == 0 {
                self.engines[rank].progress();
            } else if let Some(step) = self.steps[rank].get(next[rank]).copied() {
                next[rank] += 1;
                match step {
                    Step::Send(message) => self.send(rank, message),
                    Step::Receive(receive) => self.receive(receive),
                    Step::GiveUp(receive) => self.give_up(receive),
                    Step::Cancel(message) => self.cancel(rank, message),
                }
            }
        }
        // Posting order is what the rules speak of, so the log is put into it.
        let order: Vec<usize> = self
            .steps
            .iter()
            .flatten()
            .filter_map(|step| match step {
                Step::Receive(receive) => Some(*receive),
                Step::Send(_) | Step::GiveUp(_) | Step::Cancel(_) => None,
            })
            .filter(|&receive| self.receives[receive].is_one())
            .collect();
        let mut taken: Vec<Option<Receive>> =
            std::mem::take(&mut self.receives).into_iter().map(Some).collect();
        self.receives = order.into_iter().filter_map(|receive| taken[receive].take()).collect();
    }

    fn send(&mut self, rank: usize, message: usize) {
        let seed = self.seed;
        let message = &mut self.messages[message];
        let to = Peer(message.to as u32);
        let (engine, envelope) = (&mut self.engines[rank], message.envelope);
        let sending = match Made(message.data) {
            made if !message.made => engine.send(to, envelope, Payload::from(made.0), message.mode),
            made => engine.send(to, envelope, Data::Apart(&made), message.mode),
        };
        if let Sending::Pending(request) = sending.unwrap_or_else(|error| panic!("seed {seed}: {error}")) {
            message.request = Some(request);
        }
    }

    fn receive(&mut self, receive: usize) {
        let receive = &mut self.receives[receive];
        let from = receive.pattern.source.map(|source| Peer(source.0));
        let engine = &mut self.engines[receive.at];
        let receiving = match receive.way {
            Way::Posted | Way::GivenUp => engine.receive(receive.pattern, from, receive.target()),
            Way::Looking => {
                let seen = engine.probe(&receive.pattern);
                let taken = engine.take(&receive.pattern);
                assert_eq!(taken.as_ref().map(Taken::probed), seen, "seed {}", self.seed);
                let Some(taken) = taken else { return };
                engine.receive_matched(taken, receive.target())
            }
        };
        match receiving {
            Receiving::Done(outcome) => receive.outcome = Some(outcome),
            Receiving::Pending(request) => receive.request = Some(request),
        }
    }

    fn give_up(&mut self, receive: usize) {
        let receive = &mut self.receives[receive];
        if let Some(request) = receive.request {
            self.engines[receive.at].cancel(request);
        }
    }

    fn cancel(&mut self, rank: usize, message: usize) {
        if let Some(request) = self.messages[message].request {
            self.engines[rank].cancel(request);
        }
    }

    /// Lets everything move until all that was sent has left, what has begun to arrive is there, and nothing
    /// moves for long enough that nothing can be under way.
    fn until_quiet(&mut self) {
        self.until_nothing_moves();
        while !self.engines.iter_mut().all(|engine| engine.flush() && engine.arriving() == 0) {
            self.until_nothing_moves();
        }
    }

    fn until_nothing_moves(&mut self) {
        let mut quiet = 0;
        let mut quiet_since = Instant::now();
        while quiet < QUIET_TURNS || quiet_since.elapsed() < QUIET_TIME {
            let happened: usize = self.engines.iter_mut().map(Engine::progress).sum();
            self.collect();
            if happened > 0 {
                (quiet, quiet_since) = (0, Instant::now());
            } else {
                quiet += 1;
            }
            assert!(self.since.elapsed() < WATCHDOG, "seed {} hangs:\n{}", self.seed, self.state());
        }
    }

    fn collect(&mut self) {
        for receive in &mut self.receives {
            if let Some(request) = receive.request
                && let Some(outcome) = self.engines[receive.at].test(request)
            {
                receive.request = None;
                receive.outcome = Some(outcome);
            }
        }
        for message in &mut self.messages {
            let sender = message.envelope.source.0 as usize;
            if let Some(request) = message.request
                && let Some(outcome) = self.engines[sender].test(request)
            {
                assert_eq!(outcome.failure, None, "seed {}: a send failed", self.seed);
                message.request = None;
                message.cancelled = outcome.cancelled;
            }
        }
    }

    /// No receive may still wait while a message that it asks for lies there.
    fn check_nothing_was_left_that_matches(&mut self) {
        for receive in self.receives.iter().filter(|receive| receive.outcome.is_none()) {
            let found = self.engines[receive.at].probe(&receive.pattern);
            assert_eq!(found, None, "seed {}: {:?} waits beside it", self.seed, receive.pattern);
        }
    }

    /// Cancels the receives that nothing matched, and receives the messages that nobody asked for.
    fn sweep_up(&mut self) {
        for receive in &mut self.receives {
            if let Some(request) = receive.request.take() {
                self.engines[receive.at].cancel(request);
                let outcome = self.engines[receive.at].test(request);
                assert!(outcome.is_some_and(|outcome| outcome.cancelled), "seed {}", self.seed);
            }
        }
        for at in 0..self.engines.len() {
            for context in CONTEXTS {
                let pattern = Pattern { context, source: None, tag: None };
                while let Some(found) = self.engines[at].probe(&pattern) {
                    let room = Heap::new(found.bytes);
                    let scattered = found.bytes % 2 == 1;
                    let mut receive = Receive::new(at, pattern, room, scattered, Way::Looking);
                    match self.engines[at].take(&pattern) {
                        Some(message) => match self.engines[at].receive_matched(message, receive.target()) {
                            Receiving::Done(outcome) => receive.outcome = Some(outcome),
                            Receiving::Pending(request) => receive.request = Some(request),
                        },
                        None => {
                            panic!("seed {}: a probed message cannot be taken when all is quiet", self.seed)
                        }
                    }
                    self.receives.push(receive);
                }
            }
        }
        self.until_quiet();
        let waiting = self.messages.iter().filter(|message| message.request.is_some()).count();
        assert_eq!(waiting, 0, "seed {}: sends never completed\n{}", self.seed, self.state());
    }

    /// Every message that was not cancelled was received once, whole or cut as the room was, and nothing else
    /// was.
    fn check_contents(&self) {
        let mut seen = vec![false; self.messages.len()];
        for receive in &self.receives {
            let Some((number, outcome)) = self.matched(receive) else { continue };
            let message = &self.messages[number];
            assert!(
                !std::mem::replace(&mut seen[number], true),
                "seed {}: message {number} twice",
                self.seed
            );
            assert_eq!((outcome.source, outcome.tag), (message.envelope.source, message.envelope.tag));
            let fits = message.data.len().min(receive.room.bytes());
            assert_eq!(outcome.bytes, fits, "seed {}", self.seed);
            assert!(receive.contents(fits) == message.data[..fits], "seed {}", self.seed);
            let truncated = matches!(outcome.failure.as_deref(), Some(Failure::Truncated { .. }));
            assert_eq!(truncated, fits < message.data.len(), "seed {}", self.seed);
        }
        for (number, message) in self.messages.iter().enumerate() {
            assert_eq!(seen[number], !message.cancelled, "seed {}: message {number}", self.seed);
        }
    }

    /// MPI 5.0 §3.5, both halves of the rule.
    fn check_order(&self) {
        for (later, receive) in self.receives.iter().enumerate() {
            let Some((number, _)) = self.matched(receive) else { continue };
            let message = &self.messages[number];
            for earlier_sent in 0..number {
                let other = &self.messages[earlier_sent];
                let rival = !other.cancelled
                    && other.to == message.to
                    && other.envelope.source == message.envelope.source
                    && receive.pattern.matches(&other.envelope);
                if rival {
                    let got_by = self.receives[..later].iter().any(|earlier| self.got(earlier, earlier_sent));
                    assert!(got_by, "seed {}: message {number} overtook {earlier_sent}", self.seed);
                }
            }
            for earlier in self.receives[..later].iter().filter(|earlier| earlier.at == receive.at) {
                let passed_over = earlier.way != Way::GivenUp
                    && earlier.pattern.matches(&message.envelope)
                    && self.matched(earlier).is_none();
                assert!(!passed_over, "seed {}: an older receive was passed over", self.seed);
            }
        }
    }

    fn got(&self, receive: &Receive, number: usize) -> bool {
        self.matched(receive).is_some_and(|(got, _)| got == number)
    }

    /// The message that a receive got: its number stands in the first four bytes.
    fn matched<'r>(&self, receive: &'r Receive) -> Option<(usize, &'r Outcome)> {
        let outcome = receive.outcome.as_ref().filter(|outcome| !outcome.cancelled)?;
        let number = receive.contents(4).try_into().expect("every message and every room has four bytes");
        Some((u32::from_le_bytes(number) as usize, outcome))
    }

    fn state(&self) -> String {
        let ranks = self.engines.iter().enumerate();
        ranks.map(|(rank, engine)| format!("rank {rank}:\n{}", engine.describe())).collect()
    }
}

fn random_message(dice: &mut Dice, ranks: usize, number: u32) -> TestMessage {
    let bytes = SIZES[dice.below(SIZES.len() as u64) as usize].max(4);
    let mut data: Vec<u8> = (0..bytes).map(|at| (at as u32 ^ number.wrapping_mul(31)) as u8).collect();
    data[..4].copy_from_slice(&number.to_le_bytes());
    let envelope = Envelope {
        context: CONTEXTS[dice.below(2) as usize],
        source: Rank(dice.below(ranks as u64) as u32),
        tag: dice.below(3) as i32,
    };
    let mode = match dice.below(8) {
        0 => Mode::Synchronous,
        1..4 => Mode::Blocking,
        _ => Mode::Standard,
    };
    let to = dice.below(ranks as u64) as usize;
    let made = dice.below(3) == 0;
    TestMessage { to, envelope, data: Vec::leak(data), made, mode, request: None, cancelled: false }
}

/// A receive that asks for that message, and perhaps for others as well.
fn receive_for(dice: &mut Dice, message: &TestMessage) -> Receive {
    let pattern = Pattern {
        context: message.envelope.context,
        source: (dice.below(3) > 0).then_some(message.envelope.source),
        tag: (dice.below(3) > 0).then_some(message.envelope.tag),
    };
    let room =
        if dice.below(6) == 0 { 4 + dice.below(message.data.len() as u64) as usize } else { ROOM_BYTES };
    let scattered = dice.below(3) == 0;
    let way = match dice.below(8) {
        0 => Way::Looking,
        1 => Way::GivenUp,
        _ => Way::Posted,
    };
    Receive::new(message.to, pattern, Heap::new(room), scattered, way)
}

/// splitmix64, as everywhere where a seed must mean the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

const CONTEXTS: [u32; 2] = [6, 8];
/// Miri takes a thousand times as long for a byte.
const SIZES: [usize; 10] = match cfg!(miri) {
    false => [4, 5, 8, 31, 32, 33, 100, 5000, 20_000, 150_000],
    true => [4, 5, 8, 31, 32, 33, 100, 200, 1000, 5000],
};
const ROOM_BYTES: usize = if cfg!(miri) { 6000 } else { 200_000 };
const QUIET_TURNS: usize = 200;
/// Sockets need a moment, on a machine that has much else to do some milliseconds; everything else is quiet
/// by the number of turns.
const QUIET_TIME: Duration = Duration::from_millis(15);
