//! All that can happen to an agreement, as far as there is time for all: every order of deliveries, every
//! moment of a failure, every part of what the dead had sent lost.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use proptest::prelude::*;

use super::*;

/// Everything there is: processes, what is on its way between each two, and who is dead.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    processes: Vec<Process>,
    /// By sender and receiver, with the recovery that a word is of; a network keeps the order of each pair.
    under_way: Vec<VecDeque<(usize, Word)>>,
    dead: BTreeSet<u32>,
    /// Those who live, and whom somebody takes for dead: they act on until they are ended, or learn of it and
    /// end themselves.
    condemned: BTreeSet<u32>,
    failures_left: u32,
    /// How many recoveries there are, one behind the other.
    recoveries: usize,
    /// Whether who lives may be taken for dead.
    errs: bool,
}

/// A process: its part in each recovery that it has come to. Behind the agreement it puts the mask on: those
/// who are left are the members of the next one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Process {
    parts: Vec<Part>,
    /// Words for recoveries that this process has not come to.
    early: Vec<(usize, u32, Word)>,
    /// The processes whose failure it has heard of.
    known: BTreeSet<u32>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Part {
    /// The processes that are not blank, in the order of their ranks.
    group: Vec<u32>,
    agreement: Agreement,
    /// The ranks that it knew to have failed when it came.
    knew: BTreeSet<u32>,
}

/// What a member brings to be counted: neither the first nor the last member has the least or the most.
fn count_of(rank: u32) -> u64 {
    u64::from((rank * 5 + 3) % 7) << 33
}

/// What may happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Contribute(u32),
    Deliver {
        from: u32,
        to: u32,
    },
    /// It dies, and so many of the last words that it has sent to each are lost.
    Die(u32),
    /// What is under way from a dead process gets lost.
    Drop {
        from: u32,
        to: u32,
    },
    /// It learns of a death, all that came before having been delivered; or that one is taken for dead, to
    /// whom it does not listen any more.
    Notice {
        at: u32,
        dead: u32,
    },
    /// One takes another for dead that lives.
    Suspect {
        by: u32,
        of: u32,
    },
    /// Who is taken for dead is ended.
    Fence(u32),
}

impl Part {
    fn rank(&self, process: u32) -> Option<u32> {
        self.group.iter().position(|&other| other == process).map(|rank| rank as u32)
    }

    fn of(&self, ranks: &BTreeSet<u32>) -> BTreeSet<u32> {
        ranks.iter().map(|&rank| self.group[rank as usize]).collect()
    }
}

impl World {
    fn new(size: u32, before: &BTreeSet<u32>, failures_left: u32) -> World {
        let part = |here| Part {
            group: (0..size).collect(),
            agreement: Agreement::new(size, here, before.clone()),
            knew: before.clone(),
        };
        let process = |here| Process { parts: vec![part(here)], early: Vec::new(), known: before.clone() };
        World {
            processes: (0..size).map(process).collect(),
            under_way: vec![VecDeque::new(); (size * size) as usize],
            dead: before.clone(),
            condemned: BTreeSet::new(),
            failures_left,
            recoveries: 1,
            errs: false,
        }
    }

    fn size(&self) -> u32 {
        self.processes.len() as u32
    }

    fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).filter(|process| !self.dead.contains(process))
    }

    /// Those who live, and whom nobody takes for dead.
    fn sound(&self) -> impl Iterator<Item = u32> + '_ {
        self.living().filter(|process| !self.condemned.contains(process))
    }

    fn under_way(&self, from: u32, to: u32) -> &VecDeque<(usize, Word)> {
        &self.under_way[(from * self.size() + to) as usize]
    }

    fn channel(&mut self, from: u32, to: u32) -> &mut VecDeque<(usize, Word)> {
        let size = self.size();
        &mut self.under_way[(from * size + to) as usize]
    }

    fn last(&self, process: u32) -> &Part {
        self.processes[process as usize].parts.last().expect("there is a first one")
    }

    fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.condemned.iter().map(|&process| Event::Fence(process)).collect();
        for at in self.living() {
            let agreement = &self.last(at).agreement;
            if agreement.mine.is_none() && agreement.decision.is_none() {
                events.push(Event::Contribute(at));
            }
            let known = &self.processes[at as usize].known;
            for from in 0..self.size() {
                let waits = self.under_way(from, at);
                if !waits.is_empty() {
                    events.push(Event::Deliver { from, to: at });
                    if self.dead.contains(&from) {
                        events.push(Event::Drop { from, to: at });
                    }
                } else if self.dead.contains(&from) && !known.contains(&from) {
                    events.push(Event::Notice { at, dead: from });
                }
                if self.condemned.contains(&from) && from != at && !known.contains(&from) {
                    events.push(Event::Notice { at, dead: from });
                }
            }
        }
        if self.failures_left > 0 && self.sound().count() > 1 {
            for of in self.sound() {
                events.push(Event::Die(of));
                let others = self.living().filter(|&by| self.errs && by != of);
                events.extend(others.map(|by| Event::Suspect { by, of }));
            }
        }
        events
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Contribute(at) => {
                let known = self.processes[at as usize].known.clone();
                let part = self.processes[at as usize].parts.last_mut().expect("there is a first one");
                let here = part.agreement.here;
                part.knew = known.iter().filter_map(|&process| part.rank(process)).collect();
                // Each leaves out a bit of its own, so that the decision tells who has contributed.
                let mine = Contribution {
                    flags: !(1 << here),
                    acknowledged: part.agreement.before.clone(),
                    count: count_of(here),
                };
                self.act(at, |agreement, out| agreement.contribute(mine, out));
            }
            Event::Deliver { from, to } => {
                let (recovery, word) = self.channel(from, to).pop_front().expect("it was there");
                self.hear(from, to, recovery, word);
            }
            Event::Die(process) => {
                self.failures_left -= 1;
                self.end(process);
            }
            Event::Fence(process) => {
                self.condemned.remove(&process);
                self.end(process);
            }
            Event::Drop { from, to } => self.channel(from, to).clear(),
            Event::Notice { at, dead } => self.notice(at, dead),
            Event::Suspect { by, of } => {
                self.failures_left -= 1;
                self.condemned.insert(of);
                self.notice(by, of);
            }
        }
    }

    fn end(&mut self, process: u32) {
        self.dead.insert(process);
        for from in 0..self.size() {
            self.channel(from, process).clear();
        }
        // What the dead had in mind makes no difference any more.
        let before = self.processes[process as usize].parts[0].agreement.before.clone();
        self.processes[process as usize] =
            World::new(self.size(), &before, 0).processes.remove(process as usize);
    }

    fn notice(&mut self, at: u32, dead: u32) {
        // Where that one lives, nothing of it is heard any more.
        self.channel(dead, at).clear();
        self.processes[at as usize].known.insert(dead);
        for recovery in 0..self.processes[at as usize].parts.len() {
            let Some(rank) = self.processes[at as usize].parts[recovery].rank(dead) else { continue };
            self.act_in(at, recovery, |agreement, out| agreement.lose(rank, out));
        }
        self.go_on(at);
    }

    fn hear(&mut self, from: u32, to: u32, recovery: usize, word: Word) {
        let Some(part) = self.processes[to as usize].parts.get(recovery) else {
            return self.processes[to as usize].early.push((recovery, from, word));
        };
        let Some(rank) = part.rank(from) else { return };
        let word =
            Word::decode(&word.encode(), part.group.len() as u32).expect("what is written can be read");
        self.act_in(to, recovery, |agreement, out| agreement.hear(rank, word, out));
        self.go_on(to);
    }

    fn act(&mut self, at: u32, does: impl FnOnce(&mut Agreement, &mut Outbox)) {
        self.act_in(at, self.processes[at as usize].parts.len() - 1, does);
        self.go_on(at);
    }

    fn act_in(&mut self, at: u32, recovery: usize, does: impl FnOnce(&mut Agreement, &mut Outbox)) {
        let (mut out, part) = (Outbox::new(), &mut self.processes[at as usize].parts[recovery]);
        does(&mut part.agreement, &mut out);
        let group = part.group.clone();
        for (rank, word) in out {
            let to = group[rank as usize];
            assert_ne!(to, at, "nobody speaks to itself");
            if !self.dead.contains(&to) {
                self.channel(at, to).push_back((recovery, word));
            }
        }
    }

    /// Behind a decision the mask is put on, and the next recovery is one of those who are left.
    fn go_on(&mut self, at: u32) {
        let process = &mut self.processes[at as usize];
        let (recovery, part) = (process.parts.len(), process.parts.last().expect("there is a first one"));
        let Some(decision) = part.agreement.decision.as_ref().filter(|_| recovery < self.recoveries) else {
            return;
        };
        let failed = part.of(&decision.failed);
        let group: Vec<u32> = part.group.iter().copied().filter(|other| !failed.contains(other)).collect();
        // Who learns that it is taken for dead goes on no more.
        let Some(here) = group.iter().position(|&other| other == at) else { return };
        let agreement = Agreement::new(group.len() as u32, here as u32, BTreeSet::new());
        process.parts.push(Part { group, agreement, knew: BTreeSet::new() });
        for dead in process.known.clone() {
            if let Some(rank) = self.last(at).rank(dead) {
                self.act_in(at, recovery, |agreement, out| agreement.lose(rank, out));
            }
        }
        let early = std::mem::take(&mut self.processes[at as usize].early);
        early.into_iter().for_each(|(recovery, from, word)| self.hear(from, at, recovery, word));
        self.go_on(at);
    }

    /// Whether an event changes nothing that anybody can see: a word that is not heard, or news for one that
    /// has decided. It can come before all others, whatever those are.
    fn is_invisible(&self, event: &Event) -> bool {
        match *event {
            Event::Deliver { from, to } => {
                let Some((recovery, word)) = self.under_way(from, to).front() else { return false };
                let Some(part) = self.processes[to as usize].parts.get(*recovery) else { return false };
                let agreement = &part.agreement;
                let is_led = matches!(agreement.way, Way::Led { .. }) || agreement.decision.is_some();
                match word {
                    Word::Up(_) | Word::Down(_) => is_led,
                    Word::Decided(_) => agreement.decision.is_some(),
                    _ => false,
                }
            }
            Event::Notice { at, dead } => {
                let process = &self.processes[at as usize];
                process.parts.len() == self.recoveries
                    && self.dead.contains(&dead)
                    && self.last(at).agreement.decision.is_some()
            }
            _ => false,
        }
    }

    /// What must hold at every moment, and at the end.
    fn check(&self, is_over: bool) {
        for recovery in 0..self.recoveries {
            let parts =
                self.sound().filter_map(|at| Some((at, self.processes[at as usize].parts.get(recovery)?)));
            let decided: Vec<(u32, &Part, &Decision)> =
                parts.filter_map(|(at, part)| Some((at, part, part.agreement.decision()?))).collect();
            for &(at, part, decision) in &decided {
                let (first, first_part, first_decision) = decided[0];
                assert_eq!(
                    decision, first_decision,
                    "members {at} and {first} decide differently: {self:#?}"
                );
                assert_eq!(part.group, first_part.group, "R2: {at} and {first} have other masks: {self:#?}");
                assert!(part.knew.is_subset(&decision.failed), "R2: {at} knew of a failure: {self:#?}");
                self.check_decision(part, decision);
                for process in part.group.iter().filter(|process| !self.dead.contains(process)) {
                    let theirs = self.processes[*process as usize].parts.get(recovery);
                    let is_idle = theirs.is_none_or(|part| part.agreement.mine.is_none());
                    let counts = part.rank(*process).is_some_and(|rank| decision.flags & (1 << rank) == 0);
                    assert!(!is_idle || !counts, "{process} has contributed nothing: {self:#?}");
                }
            }
            if is_over {
                assert_eq!(decided.len(), self.sound().count(), "somebody waits for ever: {self:#?}");
            }
        }
    }

    fn check_decision(&self, part: &Part, decision: &Decision) {
        for (rank, &process) in (0..).zip(&part.group) {
            let has_contributed = decision.flags & (1 << rank) == 0;
            let is_failed = decision.failed.contains(&rank);
            let is_gone = self.dead.contains(&process) || self.condemned.contains(&process);
            assert!(has_contributed || is_failed, "{process} lives and was left out: {self:#?}");
            assert!(!is_failed || is_gone, "{process} lives and was declared dead: {self:#?}");
        }
        let before = &part.agreement.before;
        assert_eq!(decision.is_acknowledged, decision.failed == *before, "{self:#?}");
        let contributed = (0..part.group.len() as u32).filter(|rank| decision.flags & (1 << rank) == 0);
        let all =
            contributed.map(count_of).map(Counts::of).reduce(Counts::with).expect("one has contributed");
        assert_eq!(decision.counts, all, "D6: of those who have contributed: {self:#?}");
    }
}

/// Visits every state that can be reached, but for orders of what nobody can see; the answer is how many
/// there are.
fn explore(world: World) -> usize {
    let hasher = RandomState::new();
    let mut seen = HashSet::new();
    let mut stack = vec![world];
    while let Some(world) = stack.pop() {
        if !seen.insert(hasher.hash_one(&world)) {
            continue;
        }
        let events = world.events();
        world.check(is_over(&events));
        let first = events.iter().position(|event| world.is_invisible(event));
        let chosen = first.map_or(0..events.len(), |at| at..at + 1);
        for &event in &events[chosen] {
            let mut next = world.clone();
            next.happen(event);
            stack.push(next);
        }
    }
    seen.len()
}

/// Nothing can happen any more but failures.
fn is_over(events: &[Event]) -> bool {
    events.iter().all(|event| matches!(event, Event::Die(_) | Event::Suspect { .. }))
}

/// A world of so many processes and failures, with recoveries one behind the other.
fn world(size: u32, failures: u32, recoveries: usize) -> World {
    World { recoveries, ..World::new(size, &BTreeSet::new(), failures) }
}

/// What `WEFT_TEST_AGREEMENT` asks for beyond the usual: processes, failures, recoveries, each behind a
/// comma; where `errs` follows, who lives may be taken for dead.
fn asked() -> Option<World> {
    let asked = std::env::var("WEFT_TEST_AGREEMENT").ok()?;
    let words: Vec<&str> = asked.split(',').collect();
    let number = |at: usize| words.get(at).map(|word| word.parse::<u32>().expect("a number"));
    let world = world(number(0)?, number(1)?, number(2).unwrap_or(1) as usize);
    Some(World { errs: words.get(3) == Some(&"errs"), ..world })
}

fn explore_and_tell(world: World) -> usize {
    let what = format!(
        "{} processes, {} failures{}, {} recoveries",
        world.size(),
        world.failures_left,
        if world.errs { " or mistakes" } else { "" },
        world.recoveries
    );
    let found = explore(world);
    println!("{what}: {found} states");
    found
}

// Four members are enough for every rule to be needed; five are for who changes something here.
#[test]
fn every_order_leads_all_who_live_to_one_decision() {
    let mut states: usize =
        SMALL.iter().map(|&(size, failures)| explore_and_tell(world(size, failures, 1))).sum();
    states += asked().map_or(0, explore_and_tell);
    // With somebody left behind by an earlier decision, the first among them.
    for gone in [0, 1] {
        states += explore(World::new(3, &BTreeSet::from([gone]), 1));
    }
    assert!(states > STATES_MIN, "{states} states are not all there are");
}

/// The members of a recovery are those whom the one before has left, at all alike, whoever fails in between.
#[test]
fn every_order_puts_the_same_masks_on() {
    let states: usize =
        MASKED.iter().map(|&(size, failures, times)| explore_and_tell(world(size, failures, times))).sum();
    assert!(states > STATES_MIN, "{states} states are not all there are");
}

/// Where nobody but the processes themselves says who has died, one that lives may be taken for dead, and
/// acts on until it learns of it and ends itself: those who stay decide alike nevertheless, also where two
/// take each other for dead.
#[test]
fn who_lives_and_is_taken_for_dead_divides_nobody() {
    let err =
        |&(size, failures, times)| explore_and_tell(World { errs: true, ..world(size, failures, times) });
    let states: usize = MISTAKEN.iter().map(err).sum();
    assert!(states > STATES_MIN, "{states} states are not all there are");
}

/// A run of a larger world, with all choices drawn.
fn drawn(mut world: World, mut seed: u64) {
    loop {
        let events = world.events();
        let is_over = is_over(&events);
        world.check(is_over);
        if is_over && (events.is_empty() || seed & 1 == 0) {
            return;
        }
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        world.happen(events[((seed >> 33) % events.len() as u64) as usize]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 4000 }, ..ProptestConfig::default() })]

    #[test]
    fn larger_groups_in_drawn_orders(size in 4u32..9, gone: u8, failures in 0u32..5, recoveries in 1usize..4, errs: bool, seed: u64) {
        let before: BTreeSet<u32> = (0..size - 1).filter(|rank| gone & (1 << rank) != 0 && gone & 0x80 != 0).collect();
        drawn(World { recoveries, errs, ..World::new(size, &before, failures) }, seed);
    }

    #[test]
    fn words_from_outside_are_read_or_refused(bytes: Vec<u8>, what in 0u32..7, size in 0u32..9) {
        let mut begun = what.to_le_bytes().to_vec();
        begun.extend_from_slice(&bytes);
        if let Some(word) = Word::decode(&begun, size) {
            prop_assert_eq!(Word::decode(&word.encode(), size), Some(word));
        }
    }
}

#[test]
fn without_failures_it_takes_a_message_up_and_one_down_for_each_member() {
    // Under Miri the longest takes a quarter of an hour.
    for size in [1u32, 2, 3, 8, if cfg!(miri) { 9 } else { 60 }] {
        let mut world = World::new(size, &BTreeSet::new(), 0);
        let mut delivered = 0;
        loop {
            let events = world.events();
            let Some(event) = events.last() else { break };
            delivered += u32::from(matches!(event, Event::Deliver { .. }));
            world.happen(*event);
        }
        assert_eq!(delivered, 2 * (size - 1));
        assert!((0..size).all(|at| world.last(at).agreement.decision().is_some()));
    }
}

#[test]
fn a_failure_that_one_has_not_acknowledged_is_told_to_all() {
    for silent in [None, Some(1)] {
        let mut world = World::new(3, &BTreeSet::new(), 1);
        world.happen(Event::Die(0));
        for at in [1, 2] {
            world.notice(at, 0);
            let acknowledged = if silent == Some(at) { BTreeSet::new() } else { BTreeSet::from([0]) };
            let mine = Contribution { flags: 1, acknowledged, count: 0 };
            world.act(at, |agreement, out| agreement.contribute(mine, out));
        }
        while let Some(event) = world.events().first() {
            world.happen(*event);
        }
        for at in [1, 2] {
            let decision = world.last(at).agreement.decision().expect("both live");
            assert_eq!((decision.flags, decision.is_acknowledged), (1, silent.is_none()));
            assert_eq!(decision.failed, BTreeSet::from([0]));
        }
    }
}

const SMALL: &[(u32, u32)] = if cfg!(miri) { &[(2, 1)] } else { &[(1, 0), (2, 1), (3, 2), (4, 1), (4, 2)] };
/// Processes, failures, recoveries.
const MASKED: &[(u32, u32, usize)] =
    if cfg!(miri) { &[(2, 1, 2)] } else { &[(2, 1, 3), (3, 1, 3), (3, 2, 2), (4, 1, 2)] };
const MISTAKEN: &[(u32, u32, usize)] =
    if cfg!(miri) { &[(2, 1, 1)] } else { &[(2, 1, 2), (3, 1, 2), (3, 2, 1), (4, 1, 1)] };
const STATES_MIN: usize = if cfg!(miri) { 10 } else { 10_000 };
