//! `WEFT_CHECK=1`: before a collective operation the members tell each other which one they have called, so that
//! calls in different orders and with different arguments are reported (decisions/0009).
//!
//! ```text
//! rank 0 <- the others   a card: what was called, in words, cut to 255 bytes, then zeros
//! rank 0 -> the others   the verdict: empty if all cards are the same, else which ranks called what
//! ```
//! Both go in the context of collective operations, with tags that no schedule uses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use messaging::{Envelope, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending};

use super::Communicator;
use crate::error::{Class, Error, Result};
use crate::memory::{reading, writing};
use crate::process::failure_text;
use crate::tell::tell;

impl Communicator {
    /// With checks on, compares what the members have called. `operation` names it and all arguments that must be
    /// the same at all members. Collective.
    ///
    /// # Errors
    /// [`Class::NotSame`] at all members, with what each of them called; a lost peer.
    #[inline]
    pub fn check(&self, operation: impl FnOnce() -> String) -> Result<()> {
        if !self.inner.process.checks() {
            return Ok(());
        }
        // Across an inter-communicator both groups compare, where they meet.
        let meeting = self.meeting();
        if meeting.size() > 1 { meeting.compare_calls(&operation()) } else { Ok(()) }
    }

    #[cold]
    fn compare_calls(&self, operation: &str) -> Result<()> {
        let verdict = if self.rank() == JUDGE { self.judge(operation)? } else { self.ask(operation)? };
        if verdict.is_empty() {
            return Ok(());
        }
        let what = format!("{}: the members have not called the same: {verdict}", self.place());
        Err(Error::new(Class::NotSame, what)
            .remedy("all members must call the same operations in the same order, with arguments that agree"))
    }

    /// Rank 0: waits for all cards, and tells what they come to.
    fn judge(&self, operation: &str) -> Result<String> {
        let mut cards = vec![[0; CARD_BYTES]; self.size() as usize];
        cards[0] = card(operation);
        let others = (1..self.size()).map(Rank);
        let mut receiving = Vec::new();
        for (rank, card) in others.clone().zip(&mut cards[1..]) {
            receiving.push((rank, self.begin(rank, CARDS, card)?));
        }
        self.await_all(operation, receiving)?;
        let verdict = verdict(&cards);
        for rank in others {
            self.tell(rank, VERDICTS, verdict.as_bytes())?;
        }
        Ok(verdict)
    }

    /// Any other rank.
    fn ask(&self, operation: &str) -> Result<String> {
        let mut verdict = [0; VERDICT_BYTES];
        let receiving = vec![(JUDGE, self.begin(JUDGE, VERDICTS, &mut verdict)?)];
        let sent = self.tell(JUDGE, CARDS, &card(operation));
        self.await_all(operation, receiving)?;
        sent?;
        Ok(words(&verdict))
    }

    fn tell(&self, to: Rank, tag: i32, bytes: &[u8]) -> Result<()> {
        let inner = &*self.inner;
        let peer = inner.group.peer(to).ok_or_else(|| self.no_rank(to))?;
        let envelope = Envelope { context: inner.context * 2 + 1, source: inner.rank, tag };
        match inner.process.send(peer, envelope, reading(bytes), Mode::Standard) {
            Ok(Sending::Done) => Ok(()),
            Ok(Sending::Pending(request)) => self.conclude_send(&self.wait(request), to, tag),
            Err(error) => Err(self.send_failed(error, to, tag)),
        }
    }

    fn begin(&self, from: Rank, tag: i32, room: &mut [u8]) -> Result<Receiving> {
        let inner = &*self.inner;
        let peer = inner.group.peer(from).ok_or_else(|| self.no_rank(from))?;
        let pattern = Pattern { context: inner.context * 2 + 1, source: Some(from), tag: Some(tag) };
        Ok(inner.process.receive(pattern, Some(peer), writing(room)))
    }

    /// Waits for all; when that takes long, tells once who has not come.
    fn await_all(&self, operation: &str, receiving: Vec<(Rank, Receiving)>) -> Result<()> {
        let mut over: Vec<Outcome> = Vec::new();
        let mut left: Vec<(Rank, RequestId)> = Vec::new();
        for (rank, receiving) in receiving {
            match receiving {
                Receiving::Done(outcome) => over.push(outcome),
                Receiving::Pending(request) => left.push((rank, request)),
            }
        }
        let (start, mut told) = (Instant::now(), false);
        self.inner.process.until(|engine| {
            left.retain(|(_, request)| match engine.test(*request) {
                Some(outcome) => {
                    over.push(outcome);
                    false
                }
                None => true,
            });
            if !told && !left.is_empty() && PATIENCE <= start.elapsed() {
                told = true;
                let missing = ranks(left.iter().map(|(rank, _)| rank.0));
                let seconds = PATIENCE.as_secs();
                let place = self.place();
                tell(format_args!("weft: {place}: {operation}: waiting {seconds} s for {missing}"));
            }
            left.is_empty().then_some(())
        });
        match over.into_iter().find_map(|outcome| outcome.failure) {
            None => Ok(()),
            Some(failure) => {
                let what = format!("{}: {operation}: {}", self.place(), failure_text(&failure));
                Err(Error::new(Class::ProcessAborted, what))
            }
        }
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

/// Empty if all cards are the same.
fn verdict(cards: &[[u8; CARD_BYTES]]) -> String {
    if cards.iter().all(|card| *card == cards[0]) {
        return String::new();
    }
    let mut callers: BTreeMap<&[u8; CARD_BYTES], Vec<u32>> = BTreeMap::new();
    for (rank, card) in (0..).zip(cards) {
        callers.entry(card).or_default().push(rank);
    }
    // In the order of the lowest rank that called each.
    let mut parts: Vec<(Vec<u32>, String)> =
        callers.into_iter().map(|(card, ranks)| (ranks, words(card))).collect();
    parts.sort();
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
fn ranks(members: impl Iterator<Item = u32>) -> String {
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
/// Tags beyond those of schedules, blocking or not.
const CARDS: i32 = (1 << 30) + (1 << 20);
const VERDICTS: i32 = CARDS + 1;
const CARD_BYTES: usize = 256;
const VERDICT_BYTES: usize = 2048;
/// How long members may keep others waiting before that is told.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, run_threads};
    use datatype::Operator;

    #[test]
    fn verdicts_say_who_called_what() {
        assert_eq!(verdict(&[card("barrier"), card("barrier")]), "");
        let cards = ["bcast, root 1", "barrier", "bcast, root 1", "bcast, root 1", "barrier"].map(card);
        assert_eq!(verdict(&cards), "bcast, root 1 at ranks 0, 2-3; barrier at ranks 1, 4");
        let long = "x".repeat(1000);
        let cards: Vec<_> = (0..50).map(|rank| card(&format!("{rank} {long}"))).collect();
        assert_eq!(verdict(&cards).len(), VERDICT_BYTES - 1);
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
