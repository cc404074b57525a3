//! Context numbers: which are in use here, and how the members of a new communicator find one that is free at
//! all of them (decision 0011).
//!
//! All members know by themselves which numbers come into question: they follow from the communicator that
//! the new one is made from and from how many were made from it before. Each member says which of them are
//! free at its place, and one small reduction finds what is free everywhere. So nobody waits for a number
//! while holding another, threads that make communicators at the same time do not meet, and the same calls
//! lead to the same numbers.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::process::Process;

/// The numbers that are not free at this process.
pub(crate) struct Contexts {
    /// Those of living communicators, and those that rest.
    taken: HashSet<u32, BuildHasherDefault<Spread>>,
    /// Numbers of communicators that are gone, the latest at the end. They are not given again for a while.
    resting: VecDeque<u32>,
    /// What other calls are agreeing on at this moment.
    proposed: Vec<Proposal>,
    proposals: u64,
}

/// Numbers that come into question for a new communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Proposal {
    id: u64,
    candidates: [u32; CANDIDATES],
    /// A bit for each that is free here.
    pub free: u8,
}

impl Contexts {
    pub(crate) fn new() -> Contexts {
        Contexts { taken: HashSet::default(), resting: VecDeque::new(), proposed: Vec::new(), proposals: 0 }
    }

    /// The candidates that follow from `seed`. Until [`Contexts::settle`] they are not free for anybody else
    /// here.
    pub(crate) fn propose(&mut self, seed: u64) -> Proposal {
        let candidates: [u32; CANDIDATES] = std::array::from_fn(|at| candidate(seed, at as u64));
        let mut free = 0;
        for (at, candidate) in candidates.iter().enumerate() {
            let proposed = self.proposed.iter().any(|other| other.candidates.contains(candidate));
            free |= u8::from(!proposed && !self.taken.contains(candidate)) << at;
        }
        self.proposals += 1;
        let proposal = Proposal { id: self.proposals, candidates, free };
        self.proposed.push(proposal.clone());
        proposal
    }

    /// Takes the first candidate that is free at all members; none where there is none, or where it came to
    /// nothing (`free` is 0).
    pub(crate) fn settle(&mut self, proposal: &Proposal, free: u8) -> Option<u32> {
        self.proposed.retain(|other| other.id != proposal.id);
        let number = *proposal.candidates.get((free & proposal.free).trailing_zeros() as usize)?;
        self.taken.insert(number);
        Some(number)
    }

    /// Takes a number that others have agreed on before this process was there.
    pub(crate) fn take(&mut self, number: u32) {
        self.taken.insert(number);
    }

    /// A communicator is gone from this process. Its number rests before it can be given again.
    fn retire(&mut self, number: u32) {
        self.resting.push_back(number);
    }

    /// Whether enough numbers rest for the oldest to be woken up.
    pub(crate) fn is_overdue(&self) -> bool {
        self.resting.len() >= 2 * RESTING_MIN
    }

    /// Makes the oldest numbers free again, but for those under which messages still wait that nobody will
    /// receive.
    pub(crate) fn wake(&mut self, waiting: &HashSet<u32>) {
        while self.resting.len() > RESTING_MIN {
            let Some(number) = self.resting.pop_front() else { return };
            if !waiting.contains(&number) {
                self.taken.remove(&number);
            }
        }
    }
}

/// A context number in use. It goes to rest with the last communicator and the last operation that has it.
pub(crate) struct Lease {
    process: Arc<Process>,
    number: u32,
}

impl Lease {
    pub(crate) fn new(process: Arc<Process>, number: u32) -> Lease {
        Lease { process, number }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if (FIRST..END).contains(&self.number) {
            self.process.contexts().retire(self.number);
        }
    }
}

/// A number as good as random from another (the finalizer of splitmix64).
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A number as good as random from a text.
pub(crate) fn mix_text(text: &str) -> u64 {
    text.bytes().fold(text.len() as u64, |sum, byte| mix(sum ^ u64::from(byte)))
}

fn candidate(seed: u64, at: u64) -> u32 {
    // The upper half of the product of a number below 2^32 and the range lies in the range.
    FIRST + (((mix(seed.wrapping_add(at)) >> 32) * u64::from(END - FIRST)) >> 32) as u32
}

/// Context numbers are spread already.
#[derive(Default)]
pub(crate) struct Spread {
    number: u64,
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.number = self.number << 8 | u64::from(byte));
    }
    fn write_u64(&mut self, number: u64) {
        self.number = number;
    }
    fn write_u32(&mut self, number: u32) {
        // The table looks at the highest bits, too.
        self.number = u64::from(number) << 33 | u64::from(number);
    }
    fn finish(&self) -> u64 {
        self.number
    }
}

/// The world.
pub(crate) const WORLD: u32 = 0;
/// Each process alone.
pub(crate) const ALONE: u32 = 1;
/// Processes that have no communicator in common yet; ranks are peers there.
pub(crate) const STRANGERS: u32 = 2;
/// No communicator ever has it, and no message.
pub(crate) const NOWHERE: u32 = END;
const FIRST: u32 = 3;
/// Envelopes have twice the number, and one more for collective traffic.
const END: u32 = (1 << 31) - 1;
/// Candidates of one attempt. With a million communicators alive, one attempt in 10^13 fails; and then
/// another follows.
const CANDIDATES: usize = 4;
/// Numbers rest until so many communicators more are gone.
const RESTING_MIN: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u8 = (1 << CANDIDATES) - 1;

    fn take(contexts: &mut Contexts, seed: u64) -> u32 {
        let proposal = contexts.propose(seed);
        contexts.settle(&proposal, proposal.free).unwrap()
    }

    #[test]
    fn the_same_calls_lead_to_the_same_numbers() {
        let (mut left, mut right) = (Contexts::new(), Contexts::new());
        for seed in 0..1000 {
            assert_eq!(take(&mut left, seed), take(&mut right, seed));
        }
    }

    #[test]
    fn what_is_taken_here_or_there_is_not_agreed_on() {
        let (mut left, mut right) = (Contexts::new(), Contexts::new());
        let first = take(&mut left, 7);
        let second = {
            let proposal = right.propose(7);
            right.settle(&proposal, proposal.free & !1).unwrap()
        };
        assert_ne!(first, second);
        let (mine, theirs) = (left.propose(7), right.propose(7));
        let both = mine.free & theirs.free;
        let agreed = left.settle(&mine, both).unwrap();
        assert_eq!(right.settle(&theirs, both), Some(agreed));
        assert!(agreed != first && agreed != second);
    }

    #[test]
    fn what_others_agree_on_at_this_moment_is_not_free() {
        let mut contexts = Contexts::new();
        let (first, second) = (contexts.propose(9), contexts.propose(9));
        assert_eq!((first.free, second.free), (ALL, 0));
        assert_eq!(contexts.settle(&second, second.free), None);
        assert!(contexts.settle(&first, 2).is_some());
        assert_eq!(contexts.propose(9).free, ALL & !2);
    }

    #[test]
    fn numbers_come_back_after_a_rest_unless_messages_wait_there() {
        let mut contexts = Contexts::new();
        let [first, second] = [1, 2].map(mix);
        let (strayed, free) = (take(&mut contexts, first), take(&mut contexts, second));
        contexts.retire(strayed);
        contexts.retire(free);
        assert_eq!(
            (contexts.propose(first).free & 1, contexts.propose(second).free & 1),
            (0, 0),
            "they rest"
        );
        contexts.proposed.clear();
        for seed in (10..).map(mix) {
            if contexts.is_overdue() {
                break;
            }
            let number = take(&mut contexts, seed);
            contexts.retire(number);
        }
        contexts.wake(&HashSet::from([strayed]));
        assert_eq!((contexts.propose(first).free & 1, contexts.propose(second).free & 1), (0, 1));
        assert!(contexts.taken.len() <= RESTING_MIN + 1);
    }

    /// Two processes that make and free communicators for ever, one of them more than the other.
    #[test]
    fn numbers_never_run_out() {
        let (mut left, mut right) = (Contexts::new(), Contexts::new());
        let nobody = HashSet::new();
        let mut least_free = u32::MAX;
        for round in 0..CYCLES {
            let (mine, theirs) = (left.propose(mix(round)), right.propose(mix(round)));
            let both = mine.free & theirs.free;
            least_free = least_free.min(both.count_ones());
            let number = left.settle(&mine, both).unwrap();
            assert_eq!(right.settle(&theirs, both), Some(number));
            left.retire(number);
            right.retire(number);
            if round % 3 == 0 {
                let alone = take(&mut left, !round);
                left.retire(alone);
            }
            for contexts in [&mut left, &mut right] {
                if contexts.is_overdue() {
                    contexts.wake(&nobody);
                }
                assert!(contexts.taken.len() <= 2 * RESTING_MIN + 1);
            }
        }
        assert!(least_free > 1, "one of {CANDIDATES} candidates is taken now and then, never most of them");
    }

    /// Ten million take ten seconds; the numbers they meet are no others.
    const CYCLES: u64 = 1_000_000;

    #[test]
    fn candidates_lie_where_envelopes_can_have_them() {
        for seed in (0..100_000u64).map(mix) {
            assert!((FIRST..END).contains(&candidate(seed, seed)));
        }
        assert!(NOWHERE.checked_mul(2).is_some_and(|context| context.checked_add(1).is_some()));
    }
}
