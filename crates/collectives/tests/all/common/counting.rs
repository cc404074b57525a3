//! What schedules take, counted without running them.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use collectives::{Schedule, Step};

/// Messages and memory of some ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub ranks: u64,
    pub messages: u64,
    pub bytes: u64,
    /// Messages and bytes that leave a node.
    pub messages_out: u64,
    pub bytes_out: u64,
    /// Messages that a rank sends, or receives, and bytes that it sends: of the rank where they are most.
    pub messages_most: u64,
    pub bytes_most: u64,
    /// Memory of the longest list of steps, and of the most scratch.
    pub steps_bytes_most: u64,
    pub scratch_bytes_most: u64,
}

impl Count {
    /// Adds what one rank does; `node` says where a rank sits.
    pub fn add(&mut self, rank: u32, schedule: &Schedule, node: impl Fn(u32) -> u32) {
        let (mut messages, mut received, mut bytes) = (0, 0, 0);
        for step in &schedule.steps {
            received += u64::from(matches!(step, Step::Receive { .. }));
            let Step::Send { to, from } = step else { continue };
            messages += 1;
            bytes += from.bytes as u64;
            if node(to.0) != node(rank) {
                self.messages_out += 1;
                self.bytes_out += from.bytes as u64;
            }
        }
        self.ranks += 1;
        self.messages += messages;
        self.bytes += bytes;
        self.messages_most = self.messages_most.max(messages).max(received);
        self.bytes_most = self.bytes_most.max(bytes);
        let steps_bytes = schedule.steps.len() * size_of::<Step>();
        self.steps_bytes_most = self.steps_bytes_most.max(steps_bytes as u64);
        self.scratch_bytes_most = self.scratch_bytes_most.max(schedule.scratch_bytes as u64);
    }

    /// Of all ranks, `per_node` of them on each node.
    pub fn of_all(schedules: &[Schedule], per_node: u32) -> Count {
        let mut count = Count::default();
        (0..).zip(schedules).for_each(|(rank, schedule)| count.add(rank, schedule, |rank| rank / per_node));
        count
    }
}

/// The longest chain of messages, each of which is sent after the one before has come.
pub fn rounds(schedules: &[Schedule]) -> u32 {
    let mut ways: HashMap<(u32, u32), VecDeque<u32>> = HashMap::new();
    // For each rank: the next step, the length of the chain up to here, and what it waits for.
    let mut ranks: Vec<(usize, u32, Vec<u32>)> = vec![(0, 0, Vec::new()); schedules.len()];
    loop {
        let mut moved = false;
        for (here, schedule) in (0..).zip(schedules) {
            let (next, depth, awaited) = &mut ranks[here as usize];
            while *next < schedule.steps.len() {
                match schedule.steps[*next] {
                    Step::Send { to, .. } => ways.entry((here, to.0)).or_default().push_back(*depth + 1),
                    Step::Receive { from, .. } => awaited.push(from.0),
                    Step::WaitReceived | Step::Wait if !gone(awaited, here, depth, &mut ways) => break,
                    _ => {}
                }
                *next += 1;
                moved = true;
            }
            if *next == schedule.steps.len() {
                moved |= !awaited.is_empty() && gone(awaited, here, depth, &mut ways);
            }
        }
        if !moved {
            assert!(ranks.iter().all(|(_, _, awaited)| awaited.is_empty()), "a message is missing");
            return ranks.iter().map(|(_, depth, _)| *depth).max().unwrap_or(0);
        }
    }
}

/// Takes what has come; true when nothing is waited for any more.
fn gone(
    awaited: &mut Vec<u32>,
    here: u32,
    depth: &mut u32,
    ways: &mut HashMap<(u32, u32), VecDeque<u32>>,
) -> bool {
    awaited.retain(|&from| match ways.get_mut(&(from, here)).and_then(|way| way.pop_front()) {
        Some(arrived) => {
            *depth = (*depth).max(arrived);
            false
        }
        None => true,
    });
    awaited.is_empty()
}

/// Walks back from the end of some ranks' schedules along the messages that they waited for, without making
/// those of the others: the length of a chain of messages, each of which is sent after the one before has
/// come. No chain can be longer than [`rounds`]; where all ranks do the same, none is shorter.
pub struct Walk<'a> {
    schedule: &'a dyn Fn(u32) -> Schedule,
    known: HashMap<u32, Rc<Schedule>>,
}

impl<'a> Walk<'a> {
    pub fn new(schedule: &'a dyn Fn(u32) -> Schedule) -> Walk<'a> {
        Walk { schedule, known: HashMap::new() }
    }

    fn of(&mut self, rank: u32) -> Rc<Schedule> {
        let make = self.schedule;
        self.known.entry(rank).or_insert_with(|| Rc::new(make(rank))).clone()
    }

    /// The length of the chain that ends at a rank.
    pub fn back_from(&mut self, rank: u32) -> u32 {
        let (mut here, mut length) = (rank, 0);
        let mut position = self.of(rank).steps.len();
        while let Some((begin, end)) = last_wait(&self.of(here), position) {
            let mine = waits_before(&self.of(here), begin);
            let best = (begin..end).filter_map(|at| self.sender(here, at)).max_by_key(|&(_, _, waits)| waits);
            match best {
                Some((from, at, waits)) if waits >= mine => {
                    (here, position) = (from, at);
                    length += 1;
                }
                _ => position = begin,
            }
        }
        length
    }

    /// Who sends what is received in that step, in which of its steps, and how often it has waited before.
    fn sender(&mut self, here: u32, at: usize) -> Option<(u32, usize, usize)> {
        let schedule = self.of(here);
        let Step::Receive { from, .. } = schedule.steps[at] else { return None };
        let is_from = |step: &&Step| matches!(step, Step::Receive { from: other, .. } if *other == from);
        let earlier = schedule.steps[..at].iter().filter(is_from).count();
        let theirs = self.of(from.0);
        let to_here = |(_, step): &(usize, &Step)| matches!(step, Step::Send { to, .. } if to.0 == here);
        let (sent, _) = theirs.steps.iter().enumerate().filter(to_here).nth(earlier)?;
        Some((from.0, sent, waits_before(&theirs, sent)))
    }
}

fn is_wait(step: &Step) -> bool {
    matches!(step, Step::Wait | Step::WaitReceived)
}

/// The steps between the last wait before `position` that something was received for, and the one before
/// that.
fn last_wait(schedule: &Schedule, position: usize) -> Option<(usize, usize)> {
    let steps = &schedule.steps;
    let mut end = match position == steps.len() {
        true => position,
        false => steps[..position].iter().rposition(is_wait)?,
    };
    loop {
        let begin = steps[..end].iter().rposition(is_wait).map_or(0, |at| at + 1);
        if steps[begin..end].iter().any(|step| matches!(step, Step::Receive { .. })) {
            return Some((begin, end));
        }
        end = begin.checked_sub(1)?;
    }
}

/// How often something was waited for before `position`.
fn waits_before(schedule: &Schedule, position: usize) -> usize {
    let before = schedule.steps[..position].split(is_wait);
    // What comes behind the last wait is not waited for yet.
    let parts = before.map(|part| part.iter().any(|step| matches!(step, Step::Receive { .. })));
    let waited: Vec<bool> = parts.collect();
    waited[..waited.len() - 1].iter().filter(|&&waited| waited).count()
}
