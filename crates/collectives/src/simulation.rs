//! A machine that exists as constants alone, and what schedules take on it.
//!
//! Every rank takes its steps in order. A message takes a step of each end, and its way. Nobody sends or gets
//! two long messages at a time: neither a rank on its node, nor a node on the network. Where ranks share
//! cores, one that waits gives its core to the next that can go on. The same schedules and constants give the
//! same times, to the bit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::costs::{Costs, Link};
use crate::schedule::{Schedule, Step};
use crate::shape::{Cores, Shape};

/// What the schedules of all ranks are predicted to take together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Forecast {
    /// From the beginning until the last rank is done.
    pub ns: f64,
    /// Messages of all ranks.
    pub messages: u64,
    /// What the rank sends that sends most.
    pub bytes_most: u64,
    /// How often the rank waits that waits most.
    pub rounds: u32,
}

/// Foretells what `schedules`, those of rank 0, 1, … of an operation, take on ranks that sit as `shape` says.
///
/// # Panics
/// Where the schedules do not fit together, so that one waits for ever.
#[must_use]
pub fn forecast(schedules: &[Schedule], shape: &Shape, costs: &Costs) -> Forecast {
    let mut simulation = Simulation::new(schedules, shape, costs);
    simulation.run();
    let stuck = simulation.ranks.iter().position(|rank| rank.ended.is_none());
    assert_eq!(stuck, None, "a rank waits for ever: {}", schedules[0].algorithm);
    let end = simulation.ranks.iter().filter_map(|rank| rank.ended).max().unwrap_or(0);
    Forecast {
        ns: end as f64 / PER_NS,
        messages: schedules.iter().map(|schedule| sends(schedule).count() as u64).sum(),
        bytes_most: schedules.iter().map(|schedule| sends(schedule).sum()).max().unwrap_or(0),
        rounds: schedules.iter().map(rounds).max().unwrap_or(0),
    }
}

/// The lengths of what a rank sends.
fn sends(schedule: &Schedule) -> impl Iterator<Item = u64> {
    schedule.steps.iter().filter_map(|step| match step {
        Step::Send { from, .. } => Some(from.bytes as u64),
        _ => None,
    })
}

/// How often a rank waits for something; the end is a wait as well.
fn rounds(schedule: &Schedule) -> u32 {
    let (mut rounds, mut begun) = (0, false);
    for step in &schedule.steps {
        match step {
            Step::Send { .. } | Step::Receive { .. } => begun = true,
            Step::Wait | Step::WaitReceived => (rounds, begun) = (rounds + u32::from(begun), false),
            Step::Copy { .. } | Step::Reduce { .. } => {}
        }
    }
    rounds + u32::from(begun)
}

/// In parts of a nanosecond, so that sums have one value whatever their order.
type Time = u64;
const PER_NS: f64 = 1000.0;

fn time(ns: f64) -> Time {
    // A cast of a float stops at the ends of the range.
    (ns * PER_NS) as Time
}

struct Simulation<'a> {
    schedules: &'a [Schedule],
    shape: &'a Shape,
    costs: &'a Costs,
    now: Time,
    ranks: Vec<SimulatedRank>,
    nodes: Vec<Node>,
    messages: Vec<Message>,
    pairs: HashMap<(u32, u32), Pair>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    noted: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The rank, which has a core, goes on.
    Go(u32),
    /// The first of a message's bytes is at its receiver's node.
    Reaches(usize),
    /// A message, or the request of a long one, is at its receiver.
    Arrives(usize),
    /// What the rank has sent is where it was to go.
    Sent(u32),
}

#[derive(Default)]
struct SimulatedRank {
    next: usize,
    is_waiting: bool,
    /// Receives that are not over.
    awaited: u32,
    /// Sends that are not over.
    unsent: u32,
    /// Messages that are here for a receive, and not taken yet.
    here: VecDeque<usize>,
    /// When the rank can send and get a long message on its node again.
    port: [Time; 2],
    /// How long it is at work on the last long message that it gets.
    reads_until: Time,
    ended: Option<Time>,
}

#[derive(Default)]
struct Node {
    idle_cores: u32,
    are_cores_shared: bool,
    /// Ranks that could go on, and have no core.
    ready: VecDeque<u32>,
    /// When the node can send and get on the network again.
    port: [Time; 2],
}

#[derive(Clone, Copy)]
struct Message {
    from: u32,
    to: u32,
    bytes: usize,
    stage: Stage,
}

/// How a message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// At once.
    Whole,
    /// Its receiver is asked first.
    Question,
    /// Its receiver was asked, and it is on its way.
    Asked,
}

/// Messages between two ranks, and receives of the one for the other, that have not met.
#[derive(Default)]
struct Pair {
    messages: VecDeque<usize>,
    receives: u32,
}

const OUT: usize = 0;
const IN: usize = 1;

impl<'a> Simulation<'a> {
    fn new(schedules: &'a [Schedule], shape: &'a Shape, costs: &'a Costs) -> Simulation<'a> {
        let mut nodes: Vec<Node> = (0..shape.nodes()).map(|_| Node::default()).collect();
        for rank in 0..shape.size() {
            nodes[shape.node_of(rank) as usize].idle_cores += 1;
        }
        for node in nodes.iter_mut().filter(|_| shape.cores() == Cores::Shared) {
            node.are_cores_shared = node.idle_cores > SHARED_CORES;
            node.idle_cores = node.idle_cores.min(SHARED_CORES);
        }
        Simulation {
            schedules,
            shape,
            costs,
            now: 0,
            ranks: schedules.iter().map(|_| SimulatedRank::default()).collect(),
            nodes,
            messages: Vec::new(),
            pairs: HashMap::new(),
            events: BinaryHeap::new(),
            noted: 0,
        }
    }

    fn run(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            self.wake(rank);
        }
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::Go(rank) => self.go(rank),
                Event::Reaches(message) => self.reach(message),
                Event::Arrives(message) => self.arrive(message),
                Event::Sent(rank) => {
                    self.ranks[rank as usize].unsent -= 1;
                    self.rouse(rank);
                }
            }
        }
    }

    /// What comes first is done first; of two at a time, what was noted first.
    fn note(&mut self, at: Time, event: Event) {
        self.noted += 1;
        self.events.push(Reverse((at, self.noted, event)));
    }

    /// The rank can go on, as soon as it has a core.
    fn wake(&mut self, rank: u32) {
        let node = &mut self.nodes[self.shape.node_of(rank) as usize];
        if node.idle_cores == 0 {
            return node.ready.push_back(rank);
        }
        node.idle_cores -= 1;
        let turn = if node.are_cores_shared { self.costs.turn_ns } else { 0.0 };
        self.note(self.now + time(turn), Event::Go(rank));
    }

    fn rouse(&mut self, rank: u32) {
        if std::mem::take(&mut self.ranks[rank as usize].is_waiting) {
            self.wake(rank);
        }
    }

    /// The rank's core goes to the next that wants it.
    fn give_core_away(&mut self, rank: u32) {
        let node = &mut self.nodes[self.shape.node_of(rank) as usize];
        match node.ready.pop_front() {
            Some(next) => self.note(self.now + time(self.costs.turn_ns), Event::Go(next)),
            None => node.idle_cores += 1,
        }
    }

    /// Takes the rank's next step, and takes in at a wait what is there.
    fn go(&mut self, rank: u32) {
        let step = self.schedules[rank as usize].steps.get(self.ranks[rank as usize].next).copied();
        match step {
            Some(Step::Send { to, from }) => self.send(rank, to.0, from.bytes),
            Some(Step::Receive { from, .. }) => self.post(from.0, rank),
            Some(Step::Copy { into, .. }) => self.work(rank, self.costs.copy.of_ns(into.bytes)),
            Some(Step::Reduce { into, .. }) => self.work(rank, self.costs.combine.of_ns(into.bytes)),
            Some(Step::Wait | Step::WaitReceived) | None => self.wait(rank, step),
        }
    }

    fn wait(&mut self, rank: u32, step: Option<Step>) {
        let member = &mut self.ranks[rank as usize];
        if let Some(message) = member.here.pop_front() {
            return self.take(rank, message);
        }
        if member.awaited > 0 || member.unsent > 0 && step != Some(Step::WaitReceived) {
            member.is_waiting = true;
        } else if step.is_none() {
            member.ended = Some(self.now);
        } else {
            return self.go_on_at(rank, self.now);
        }
        self.give_core_away(rank);
    }

    /// The step is taken, and the next one comes at that time.
    fn go_on_at(&mut self, rank: u32, at: Time) {
        self.ranks[rank as usize].next += 1;
        self.note(at, Event::Go(rank));
    }

    fn work(&mut self, rank: u32, ns: f64) {
        self.go_on_at(rank, self.now + time(ns));
    }

    fn link(&self, message: &Message) -> &'a Link {
        let border = self.shape.border(message.from, message.to);
        border.map_or(&self.costs.node, |border| self.costs.over(border))
    }

    fn is_near(&self, message: &Message) -> bool {
        self.shape.node_of(message.from) == self.shape.node_of(message.to)
    }

    fn send(&mut self, from: u32, to: u32, bytes: usize) {
        let mut message = Message { from, to, bytes, stage: Stage::Whole };
        let link = self.link(&message);
        let mut over = self.now + time(self.costs.step_ns);
        let is_near = self.is_near(&message);
        if !link.is_eager(bytes) {
            message.stage = Stage::Question;
            self.ranks[from as usize].unsent += 1;
        } else if is_near {
            // One half to copy it in, the other to copy it out.
            over += time(link.moving_ns(bytes) / 2.0);
        }
        self.messages.push(message);
        let number = self.messages.len() - 1;
        if message.stage == Stage::Whole && !is_near {
            self.leave(number, over);
        } else {
            self.note(over + time(link.latency_ns), Event::Arrives(number));
        }
        self.go_on_at(from, over);
    }

    /// A message that is ready at that time leaves its node when the network takes it.
    fn leave(&mut self, number: usize, ready: Time) {
        let message = self.messages[number];
        let takes = self.on_wire(&message);
        let port = &mut self.nodes[self.shape.node_of(message.from) as usize].port[OUT];
        let leaves = ready.max(*port);
        *port = leaves + takes;
        self.note(leaves + time(self.costs.network.latency_ns), Event::Reaches(number));
    }

    /// It comes in behind what is coming in.
    fn reach(&mut self, number: usize) {
        let message = self.messages[number];
        let takes = self.on_wire(&message);
        let port = &mut self.nodes[self.shape.node_of(message.to) as usize].port[IN];
        let end = self.now.max(*port) + takes;
        *port = end;
        self.note(end, Event::Arrives(number));
        if message.stage == Stage::Asked {
            self.note(end, Event::Sent(message.from));
        }
    }

    /// How long a message's bytes are on the network.
    fn on_wire(&self, message: &Message) -> Time {
        let link = &self.costs.network;
        let byte_ns = if link.is_eager(message.bytes) { link.eager_byte_ns } else { link.byte_ns };
        time(message.bytes as f64 * byte_ns)
    }

    fn post(&mut self, from: u32, to: u32) {
        self.ranks[to as usize].awaited += 1;
        let pair = self.pairs.entry((from, to)).or_default();
        match pair.messages.pop_front() {
            Some(message) => self.ranks[to as usize].here.push_back(message),
            None => pair.receives += 1,
        }
        self.go_on_at(to, self.now);
    }

    fn arrive(&mut self, number: usize) {
        let Message { from, to, stage, .. } = self.messages[number];
        // One whose bytes were asked for has met its receive.
        if stage != Stage::Asked {
            let pair = self.pairs.entry((from, to)).or_default();
            if pair.receives == 0 {
                return pair.messages.push_back(number);
            }
            pair.receives -= 1;
        }
        self.ranks[to as usize].here.push_back(number);
        self.rouse(to);
    }

    /// Whether a rank has nothing to do but to get rid of what it sends.
    fn helps(&self, rank: usize) -> bool {
        let (member, node) = (&self.ranks[rank], self.shape.node_of(rank as u32));
        let has_own_core = !self.nodes[node as usize].are_cores_shared;
        has_own_core && member.awaited == 0 && member.reads_until <= self.now
    }

    /// Takes in a message, or asks for it. The core is at work meanwhile, unless the network is.
    fn take(&mut self, rank: u32, number: usize) {
        let message = self.messages[number];
        let link = self.link(&message);
        let stepped = self.now + time(self.costs.step_ns);
        let over = match (message.stage, self.is_near(&message)) {
            (Stage::Whole, true) => stepped + time(link.moving_ns(message.bytes) / 2.0),
            (Stage::Whole, false) | (Stage::Asked, _) => stepped,
            (Stage::Question, true) => {
                let (from, to) = (message.from as usize, rank as usize);
                let begin = stepped.max(self.ranks[from].port[OUT]).max(self.ranks[to].port[IN]);
                let moving = if self.helps(from) { Link::moving_ns } else { Link::moving_alone_ns };
                let end = begin + time(moving(link, message.bytes));
                self.ranks[from].port[OUT] = end;
                self.ranks[to].port[IN] = end;
                self.ranks[to].reads_until = end;
                self.note(end + time(link.latency_ns), Event::Sent(message.from));
                end
            }
            (Stage::Question, false) => {
                self.messages[number].stage = Stage::Asked;
                self.leave(number, stepped + time(link.ask_ns));
                return self.note(stepped, Event::Go(rank));
            }
        };
        self.ranks[rank as usize].awaited -= 1;
        self.note(over, Event::Go(rank));
    }
}

/// How many cores of a node ranks are taken to have who share them: what a constrained container has. That
/// they are shared is agreed among all ranks, by how many is not.
pub(crate) const SHARED_CORES: u32 = 2;
