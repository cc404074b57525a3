//! `WEFT_CHECK=1`: before a collective operation the members tell each other which one they have called, so
//! that calls in different orders and with different arguments are reported (decisions/0012).
//!
//! ```text
//! rank 0 <- the others   a card: what was called, in words, a line for what must be the same everywhere and one for what
//!                        must be on each side of an inter-communicator; cut to 255 bytes, then zeros
//! rank 0 -> the others   the verdict: empty if the cards agree, else which ranks called what
//! ```
//! Both go in the context of collective operations, with tags that no schedule uses. An operation that goes
//! on beside others is compared beside others, too: comparisons are counted, in the order of the calls, and
//! each has tags of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use job::{tell, tuning};
use messaging::{Engine, Envelope, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending};

use super::Communicator;
use crate::memory::sending;
use crate::process::{failure_class, failure_text};

impl Communicator {
    /// With checks on, compares what the members have called. `operation` names it and all arguments that
    /// must be the same at all members. Collective.
    ///
    /// # Errors
    /// [`Class::NotSame`] at all members, with what each of them called; a lost peer.
    #[inline]
    pub fn check(&self, operation: impl FnOnce() -> String) -> Result<()> {
        if !self.inner.process.checks() {
            return Ok(());
        }
        self.compare_calls(Called { by_all: operation(), ..Called::default() })
    }

    /// With checks on, compares what the members of each group of an inter-communicator have called.
    /// `operation` names it and all arguments that must be the same at all members of one group. Collective.
    ///
    /// # Errors
    /// [`Class::NotSame`] at all members, with what each of them called; a lost peer.
    pub fn check_sides(&self, operation: impl FnOnce() -> String) -> Result<()> {
        if !self.inner.process.checks() {
            return Ok(());
        }
        self.compare_calls(Called { by_side: operation(), ..Called::default() })
    }

    #[cold]
    fn compare_calls(&self, called: Called) -> Result<()> {
        let process = &self.inner.process;
        let mut comparison = process.with_engine(|engine| CallComparison::new(self, called, engine));
        process.until(|engine| {
            comparison.want();
            comparison.advance(engine)
        })
    }
}

/// A call in words: what the standard wants to be the same at all members, and on each side of an
/// inter-communicator.
#[derive(Default)]
pub struct Called {
    /// At all members; with the name of the function.
    pub by_all: String,
    /// On each side.
    pub by_side: String,
}

/// The members tell each other what they have called.
pub(super) struct CallComparison {
    /// Where all members are: across an inter-communicator both groups compare.
    meeting: Communicator,
    operation: String,
    /// The tag of cards; that of verdicts is the next.
    tag: i32,
    /// Numbers for an operation that begins before it is known whether it may.
    numbers: ComparisonNumbers,
    /// Members before that rank are compared with each other, and the others with each other.
    parted_at: usize,
    /// At rank 0 the cards of all; elsewhere this one's, and then room for the verdict.
    room: Heap,
    /// What has still to come or go.
    left: Vec<(Rank, RequestId)>,
    failure: Option<Error>,
    /// What it has come to, where that is known and being told.
    verdict: Option<(String, Heap)>,
    /// How long somebody has waited for it.
    patience: Patience,
}

/// How long somebody has waited, as those know who tell of it when they look. What lies between two looks
/// that are far apart was no waiting: the program did something else.
#[derive(Default)]
struct Patience {
    looked: Option<Instant>,
    waited: Duration,
    is_told: bool,
}

impl Patience {
    fn look(&mut self, now: Instant) {
        let since = self.looked.replace(now).map(|looked| now.duration_since(looked));
        self.waited += since.filter(|since| *since <= LONGEST_BETWEEN_LOOKS).unwrap_or_default();
    }

    /// Whether it is to be told now: once, when it has taken long.
    fn is_over(&mut self) -> bool {
        PATIENCE <= self.waited && !std::mem::replace(&mut self.is_told, true)
    }
}

/// Numbers that all members count alike. Each comparison takes its own when it begins, whatever is called and
/// whatever comes of it: so members that have called different operations go on to count alike.
#[derive(Clone, Copy)]
pub(super) struct ComparisonNumbers {
    /// The tag of an operation that goes on.
    pub tag: i32,
    /// Where the number of a new communicator comes from.
    pub seed: u64,
}

impl CallComparison {
    /// Begins it; nobody has to wait for it at once.
    pub(super) fn new(of: &Communicator, called: Called, engine: &mut Engine<Fabrics>) -> CallComparison {
        let meeting = of.meeting().into_owned();
        let parted_at = of.first_part() as usize;
        let Called { by_all, by_side } = called;
        let operation = format!("{by_all}{}\n{by_side}", tuning::words(meeting.inner.process.guide()));
        let number = meeting.inner.comparisons.fetch_add(1, Ordering::Relaxed) % COMPARISONS;
        let tag = (FIRST_TAG + 2 * number) as i32;
        let (rank, size) = (meeting.rank(), meeting.size());
        let bytes = if rank == JUDGE { size as usize * CARD_BYTES } else { CARD_BYTES + VERDICT_BYTES };
        let room = Heap::new(bytes);
        room.memory().write_at(0, Payload::from(&card(&operation)[..]));
        let numbers = ComparisonNumbers { tag: meeting.next_nonblocking_tag(), seed: meeting.next_seed() };
        let (left, failure, verdict) = (Vec::new(), None, None);
        let mut comparison = CallComparison {
            meeting,
            operation: spoken(&operation),
            tag,
            numbers,
            parted_at,
            room,
            left,
            failure,
            verdict,
            patience: Patience::default(),
        };
        let mut memory = comparison.room.memory();
        if rank == JUDGE {
            for other in 1..size {
                let room = memory.part(other as usize * CARD_BYTES, CARD_BYTES);
                comparison.receive(engine, Rank(other), tag, room);
            }
        } else {
            comparison.receive(engine, JUDGE, tag + 1, memory.part(CARD_BYTES, VERDICT_BYTES));
            comparison.send(engine, JUDGE, tag, sending(&comparison.room).part(0, CARD_BYTES));
        }
        comparison
    }

    /// What an operation takes that begins at once.
    pub(super) fn numbers(&self) -> ComparisonNumbers {
        self.numbers
    }

    /// Somebody waits for it.
    pub(super) fn want(&mut self) {
        self.patience.look(Instant::now());
    }

    /// Goes as far as it can without waiting: the outcome, when it is over.
    pub(super) fn advance(&mut self, engine: &mut Engine<Fabrics>) -> Option<Result<()>> {
        let failure = &mut self.failure;
        let (meeting, operation) = (&self.meeting, &self.operation);
        self.left.retain(|(_, request)| match engine.test(*request) {
            Some(outcome) => {
                note(failure, meeting, operation, &outcome);
                false
            }
            None => true,
        });
        if !self.left.is_empty() {
            self.tell();
            return None;
        }
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        if self.meeting.rank() != JUDGE {
            return Some(self.outcome(&words(&self.bytes()[CARD_BYTES..])));
        }
        let Some((verdict, _)) = &self.verdict else {
            self.judge(engine);
            return self.advance(engine);
        };
        Some(self.outcome(verdict))
    }

    /// Rank 0: all cards are there.
    fn judge(&mut self, engine: &mut Engine<Fabrics>) {
        let bytes = self.bytes();
        let name = |rank| self.meeting.named(Rank(rank)).0;
        let verdict = verdict(bytes.as_chunks::<CARD_BYTES>().0, self.parted_at, name);
        let room = Heap::new(verdict.len());
        room.memory().write_at(0, Payload::from(verdict.as_bytes()));
        for other in 1..self.meeting.size() {
            self.send(engine, Rank(other), self.tag + 1, sending(&room));
        }
        self.verdict = Some((verdict, room));
    }

    fn bytes(&self) -> Vec<u8> {
        self.room.payload().to_vec()
    }

    fn outcome(&self, verdict: &str) -> Result<()> {
        if verdict.is_empty() {
            return Ok(());
        }
        let what = format!("{}: the members have not called the same: {verdict}", self.meeting.place());
        Err(Error::new(Class::NotSame, what)
            .remedy("all members must call the same operations in the same order, with arguments that agree"))
    }

    fn send(&mut self, engine: &mut Engine<Fabrics>, to: Rank, tag: i32, bytes: Payload<'static>) {
        let inner = &*self.meeting.inner;
        let Some(peer) = inner.group.peer(to) else { return };
        let envelope = Envelope { context: self.meeting.collective_context(), source: inner.rank, tag };
        match engine.send(peer, envelope, bytes, Mode::Standard) {
            Ok(Sending::Done) => {}
            Ok(Sending::Pending(request)) => self.left.push((to, request)),
            Err(error) => {
                self.failure.get_or_insert(self.meeting.send_failed(error, to, tag));
            }
        }
    }

    fn receive(&mut self, engine: &mut Engine<Fabrics>, from: Rank, tag: i32, room: UserMemory) {
        let inner = &*self.meeting.inner;
        let Some(peer) = inner.group.peer(from) else { return };
        let pattern =
            Pattern { context: self.meeting.collective_context(), source: Some(from), tag: Some(tag) };
        match engine.receive(pattern, Some(peer), room) {
            Receiving::Done(outcome) => {
                note(&mut self.failure, &self.meeting, &self.operation, &outcome);
            }
            Receiving::Pending(request) => self.left.push((from, request)),
        }
    }

    /// When somebody has waited for long, tells once who has not come.
    fn tell(&mut self) {
        if self.patience.is_over() {
            let (place, seconds) = (self.meeting.place(), PATIENCE.as_secs());
            let missing = ranks(self.left.iter().map(|(rank, _)| self.meeting.named(*rank).0));
            let operation = &self.operation;
            tell(format_args!("weft: {place}: {operation}: waiting {seconds} s for {missing}"));
        }
    }
}

/// The first failure stays.
fn note(failure: &mut Option<Error>, meeting: &Communicator, operation: &str, outcome: &Outcome) {
    if let Some(lost) = &outcome.failure {
        let what = format!("{}: {operation}: {}", meeting.place(), failure_text(lost));
        failure.get_or_insert(Error::new(failure_class(lost), what));
    }
}

fn card(operation: &str) -> [u8; CARD_BYTES] {
    let mut card = [0; CARD_BYTES];
    let bytes = operation.len().min(CARD_BYTES - 1);
    card[..bytes].copy_from_slice(&operation.as_bytes()[..bytes]);
    card
}

/// What stands before the first zero.
fn words(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A card's lines as one.
fn spoken(card: &str) -> String {
    let lines: Vec<&str> = card.lines().filter(|line| !line.is_empty()).collect();
    lines.join(", ")
}

/// Empty if the first lines of all cards are the same, and all cards of each of the two parts. `name` is how
/// a member is called whose card stands at a place.
fn verdict(cards: &[[u8; CARD_BYTES]], parted_at: usize, name: impl Fn(u32) -> u32) -> String {
    let (first, second) = cards.split_at(parted_at);
    let by_all = |card: &[u8; CARD_BYTES]| card.split(|&byte| byte == b'\n').next().map(<[u8]>::to_vec);
    let alike = cards.iter().all(|card| by_all(card) == by_all(&cards[0]));
    if alike && [first, second].into_iter().all(|part| part.iter().all(|card| *card == part[0])) {
        return String::new();
    }
    let mut callers: BTreeMap<&[u8; CARD_BYTES], Vec<u32>> = BTreeMap::new();
    for (rank, card) in (0..).zip(cards) {
        callers.entry(card).or_default().push(name(rank));
    }
    // In the order of the lowest rank that called each. By what they choose algorithms is told where they
    // differ in it.
    let mut parts: Vec<(Vec<u32>, String)> =
        callers.into_iter().map(|(card, ranks)| (ranks, spoken(&words(card)))).collect();
    parts.sort();
    let guides: BTreeSet<&str> = parts.iter().map(|(_, words)| tuning::told(words)).collect();
    if let [same] = guides.into_iter().collect::<Vec<_>>()[..] {
        let same = same.to_owned();
        parts.iter_mut().for_each(|(_, words)| *words = words.replacen(&same, "", 1));
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(callers, words)| format!("{words} at {}", ranks(callers.into_iter())))
        .collect();
    let mut verdict = parts.join("; ");
    while verdict.len() >= VERDICT_BYTES {
        verdict.pop();
    }
    verdict
}

/// `rank 3`, or `ranks 0-2, 5`.
pub(super) fn ranks(members: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in members {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let run = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    let listed: Vec<String> = runs.iter().map(run).collect();
    let one = matches!(runs[..], [(first, last)] if first == last);
    format!("{} {}", if one { "rank" } else { "ranks" }, listed.join(", "))
}

/// Who compares.
const JUDGE: Rank = Rank(0);
/// Comparisons of one communicator that may be under way at once; more than anybody has.
pub(super) const COMPARISONS: u32 = 1 << 20;
/// Two tags for each, beyond those of schedules: the last that there are.
const FIRST_TAG: u32 = (1 << 31) - 2 * COMPARISONS;
const CARD_BYTES: usize = 256;
const VERDICT_BYTES: usize = 2048;
/// How long members may keep others waiting before that is told.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Who waits in a call looks more often than that.
const LONGEST_BETWEEN_LOOKS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, run_threads};
    use datatype::Operator;

    fn itself(place: u32) -> u32 {
        place
    }

    #[test]
    fn verdicts_say_who_called_what() {
        assert_eq!(verdict(&[card("barrier"), card("barrier")], 0, itself), "");
        let cards = ["bcast, root 1", "barrier", "bcast, root 1", "bcast, root 1", "barrier"].map(card);
        assert_eq!(verdict(&cards, 0, itself), "bcast, root 1 at ranks 0, 2-3; barrier at ranks 1, 4");
        let sides = ["\nhigh 0", "\nhigh 0", "\nhigh 1", "\nhigh 1"].map(card);
        assert_eq!(verdict(&sides, 2, itself), "", "the two sides may differ");
        assert_eq!(verdict(&sides, 1, itself), "high 0 at ranks 0-1; high 1 at ranks 2-3");
        let sides = ["bcast\nroot 0", "bcast\nroot 0", "barrier\n"].map(card);
        assert_eq!(verdict(&sides, 2, itself), "bcast, root 0 at ranks 0-1; barrier at rank 2");
        let living = |place: u32| 2 * place;
        let cards = ["bcast", "barrier", "barrier"].map(card);
        assert_eq!(
            verdict(&cards, 0, living),
            "bcast at rank 0; barrier at ranks 2, 4",
            "those between are blank"
        );
        let long = "x".repeat(1000);
        let cards: Vec<_> = (0..50).map(|rank| card(&format!("{rank} {long}"))).collect();
        assert_eq!(verdict(&cards, 0, itself).len(), VERDICT_BYTES - 1);
    }

    #[test]
    fn by_what_algorithms_are_chosen_is_told_where_it_differs() {
        let itself = |rank| rank;
        let told = |guides: [&str; 2]| {
            let operations = ["bcast", "barrier"];
            let cards = [0, 1].map(|rank| card(&format!("{}{}\nhigh", operations[rank], guides[rank])));
            verdict(&cards, 0, itself)
        };
        let [one, other] =
            ["; algorithms: bcast:ring,barrier:gather-broadcast by costs 01", "; algorithms:  by costs 02"];
        assert_eq!(told([one, one]), "bcast, high at rank 0; barrier, high at rank 1");
        assert_eq!(told([one, other]), format!("bcast{one}, high at rank 0; barrier{other}, high at rank 1"));
        assert_eq!(told([one, ""]), format!("bcast{one}, high at rank 0; barrier, high at rank 1"));
    }

    #[test]
    fn who_looks_now_and_then_does_not_wait() {
        let begin = Instant::now();
        let told = |interval: Duration, looks: u32| {
            let mut patience = Patience::default();
            let told = (0..looks).filter(|look| {
                patience.look(begin + interval * *look);
                patience.is_over()
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(told(Duration::from_secs(60), 10), [], "nine looks in nine minutes");
        assert_eq!(told(Duration::from_millis(100), 100), [50], "once, after five seconds");
    }

    fn checked() -> Config {
        Config { check: true, ..Config::default() }
    }

    #[test]
    fn what_agrees_goes_on_as_ever() {
        let sums = run_threads(3, &checked(), |session| {
            let world = session.world();
            let part = world.split(Some(world.rank().0 % 2), 0).unwrap().unwrap();
            part.barrier().unwrap();
            let mut value = [world.rank().0];
            world.broadcast(&mut value, Rank(2)).unwrap();
            world.all_reduce(&value, Operator::Sum).unwrap()[0]
        });
        assert_eq!(sums.unwrap(), [6; 3]);
    }

    #[test]
    fn other_operations_roots_and_lengths_are_reported_at_all_members() {
        let told = run_threads(3, &checked(), |session| {
            let world = session.world();
            let here = world.rank();
            let order = match here {
                Rank(1) => world.all_reduce(&[1.0], Operator::Sum).map(drop),
                _ => world.barrier(),
            };
            let roots = world.broadcast(&mut [0u8; 4], Rank(here.0 / 2)).map(drop);
            let lengths = world.all_reduce(&vec![1u32; 1 + here.0 as usize], Operator::Sum).map(drop);
            world.barrier().unwrap();
            [order, roots, lengths].map(|result| result.unwrap_err())
        });
        for [order, roots, lengths] in told.unwrap() {
            assert!(order.what.contains("barrier at ranks 0, 2; all_reduce"), "{order}");
            assert!(roots.what.contains("root 0") && roots.what.contains("root 1"), "{roots}");
            assert!(lengths.what.contains("2 of ") && lengths.what.contains("3 of "), "{lengths}");
            assert!([order, roots, lengths].iter().all(|error| error.class == Class::NotSame));
        }
    }
}
