//! Words that order accesses to a member's memory: who has it locked, and who changes elements just now.
//!
//! There are two kinds of locks (MPI 5.0 §12.5.3), and `MPI_Win_lock_all` would take one of each member. So
//! one member keeps a word for the window as a whole: it counts who has locked all members, and who has
//! locked one exclusively. Either waits for the other there, and a lock of all members costs one word.

use std::sync::atomic::{AtomicU64, Ordering};

use messaging::Rank;

use super::epochs::LockKind;

/// The words of one member, a cache line.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    words: &'a [AtomicU64],
}

/// How many there are.
pub(super) const WORDS: usize = 8;
/// Their length in bytes.
pub(super) const WORDS_BYTES: usize = WORDS * size_of::<u64>();

/// Of the member's lock: the exclusive holder's rank and one in the upper half, the number of sharers in the
/// lower one.
const LOCK: usize = 0;
/// Of the window, at its keeper: who has locked a member exclusively, in the upper half, and who has locked
/// all.
const WHOLE: usize = 1;
/// Who changes elements just now: its rank and one.
const CHANGING: usize = 2;
/// How many wait to do so, and who did last: its rank and one.
const WAITING: usize = 3;
const LATEST: usize = 4;
const UPPER: u32 = 32;

/// What one process asks of the words of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// The member's lock.
    Member(LockKind),
    /// At the keeper: that nobody has locked all members.
    NoneOfAll,
    /// At the keeper: all members, for sharing.
    All,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Words<'a> {
        debug_assert_eq!(words.len(), WORDS);
        Words { words }
    }

    /// Takes what is wanted, if it is free now.
    pub(super) fn try_take(self, wanted: Wanted, by: Rank) -> bool {
        let (word, free, taken): (_, fn(u64) -> bool, u64) = match wanted {
            Wanted::Member(LockKind::Exclusive) => (LOCK, |word| word == 0, (u64::from(by.0) + 1) << UPPER),
            Wanted::Member(LockKind::Shared) => (LOCK, |word| word >> UPPER == 0, 1),
            Wanted::NoneOfAll => (WHOLE, |word| word & u64::from(u32::MAX) == 0, 1 << UPPER),
            Wanted::All => (WHOLE, |word| word >> UPPER == 0, 1),
        };
        let word = &self.words[word];
        let step = |before: u64| free(before).then_some(before + taken);
        word.try_update(Ordering::AcqRel, Ordering::Relaxed, step).is_ok()
    }

    /// Gives back what was taken. What a peer asks for is checked: nothing is given back that nobody has.
    pub(super) fn give_back(self, wanted: Wanted, by: Rank) -> bool {
        let (word, taken) = match wanted {
            Wanted::Member(LockKind::Exclusive) => (LOCK, (u64::from(by.0) + 1) << UPPER),
            Wanted::Member(LockKind::Shared) => (LOCK, 1),
            Wanted::NoneOfAll => (WHOLE, 1 << UPPER),
            Wanted::All => (WHOLE, 1),
        };
        self.words[word]
            .try_update(Ordering::AcqRel, Ordering::Relaxed, |before| before.checked_sub(taken))
            .is_ok()
    }

    /// Who has the member locked exclusively.
    pub(super) fn holder(self) -> Option<Rank> {
        let holder = (self.words[LOCK].load(Ordering::Relaxed) >> UPPER) as u32;
        holder.checked_sub(1).map(Rank)
    }

    /// Does what changes elements of the member one after the other, while nobody else does. Where the one
    /// that does is gone, as `is_gone` says, nobody waits for it.
    ///
    /// Who comes again lets those who wait go first, for a while: the word is in its cache, and it would have
    /// it each time.
    pub(super) fn change<R>(self, by: Rank, is_gone: impl Fn(Rank) -> bool, act: impl FnOnce() -> R) -> R {
        let [word, waiting, latest] = [CHANGING, WAITING, LATEST].map(|at| &self.words[at]);
        let own = u64::from(by.0) + 1;
        let others_wait = || latest.load(Ordering::Relaxed) == own && waiting.load(Ordering::Relaxed) > 0;
        (0..LOOKS_GIVING_WAY).take_while(|_| others_wait()).for_each(rest);
        let free = |word: &AtomicU64| word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
        if free(word).is_err() {
            waiting.fetch_add(1, Ordering::Relaxed);
            let mut looks = 0u32;
            while let Err(other) = free(word) {
                rest(looks);
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(LOOKS_BEFORE_YIELD) && is_gone(Rank((other as u32).wrapping_sub(1))) {
                    let _ = word.compare_exchange(other, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
        latest.store(own, Ordering::Relaxed);
        let answer = act();
        word.store(0, Ordering::Release);
        answer
    }
}

/// What lies between two looks.
fn rest(look: u32) {
    if look.wrapping_add(1).is_multiple_of(LOOKS_BEFORE_YIELD) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// Who changes elements does so for a few microseconds, unless it has lost its core.
const LOOKS_BEFORE_YIELD: u32 = 256;
/// Some ten microseconds: whoever waits and has not come by then does not run.
const LOOKS_GIVING_WAY: u32 = 8 * LOOKS_BEFORE_YIELD;

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn one_has_it_alone_or_many_share_it() {
        let words = words();
        let words = Words::new(&words);
        let (shared, exclusive) = (Wanted::Member(LockKind::Shared), Wanted::Member(LockKind::Exclusive));
        assert!(words.try_take(shared, Rank(1)) && words.try_take(shared, Rank(2)));
        assert!(!words.try_take(exclusive, Rank(0)));
        assert!(words.give_back(shared, Rank(1)) && words.give_back(shared, Rank(2)));
        assert!(words.try_take(exclusive, Rank(0)) && words.holder() == Some(Rank(0)));
        assert!(!words.try_take(shared, Rank(1)) && !words.try_take(exclusive, Rank(1)));
        assert!(words.give_back(exclusive, Rank(0)) && words.holder().is_none());
        assert!(!words.give_back(shared, Rank(0)) && !words.give_back(exclusive, Rank(0)));
    }

    #[test]
    fn all_members_or_one_of_them_alone() {
        let words = words();
        let words = Words::new(&words);
        assert!(words.try_take(Wanted::All, Rank(0)) && words.try_take(Wanted::All, Rank(3)));
        assert!(!words.try_take(Wanted::NoneOfAll, Rank(1)));
        assert!(words.give_back(Wanted::All, Rank(0)) && words.give_back(Wanted::All, Rank(3)));
        // Several members may be locked exclusively at a time.
        assert!(words.try_take(Wanted::NoneOfAll, Rank(1)) && words.try_take(Wanted::NoneOfAll, Rank(2)));
        assert!(!words.try_take(Wanted::All, Rank(0)));
        assert!(words.give_back(Wanted::NoneOfAll, Rank(1)) && words.give_back(Wanted::NoneOfAll, Rank(2)));
        assert!(words.try_take(Wanted::All, Rank(0)));
    }

    #[test]
    fn changes_come_one_after_the_other() {
        let words = words();
        let (count, inside) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for by in 0..4 {
                let (words, count, inside) = (&words, &count, &inside);
                scope.spawn(move || {
                    for _ in 0..500 {
                        Words::new(words).change(
                            Rank(by),
                            |_| false,
                            || {
                                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                                inside.fetch_sub(1, Ordering::Relaxed);
                            },
                        );
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 2000);
    }

    #[test]
    fn nobody_waits_for_one_that_died_in_a_change() {
        let words = words();
        words[CHANGING].store(3, Ordering::Relaxed);
        assert_eq!(Words::new(&words).change(Rank(0), |rank| rank == Rank(2), || 7), 7);
        assert_eq!(words[CHANGING].load(Ordering::Relaxed), 0);
    }
}
