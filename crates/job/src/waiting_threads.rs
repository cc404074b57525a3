//! Several threads of one process that wait at the same time.
//!
//! One of them makes the turns of progress, for all; who gives the cpu away gives the turns away with it. The
//! others stand by: they look at a number that changes whenever a request has ended, without the engine, and
//! sleep after a while. Whoever ends what a sleeper waits for wakes that one and no other. So threads that
//! wait do not pass the engine round, one that waits for long costs nobody anything, and who sends to this
//! process need not ring for threads that stand by.
//!
//! **Somebody listens.** While any thread waits, one of these holds: somebody makes the turns; somebody is
//! awake and will take them over when he sees that nobody does; or somebody sleeps on the bell that senders
//! ring. The last one who leaves, or goes to sleep there, sees to it ([`Crowd::pass_on`]).
//!
//! Everything here changes only in the hands of who holds the engine. What is read without it, `turning` and
//! `signs`, says when it is worth to ask for the engine, and no more: before a thread sleeps, it has looked
//! with the engine in hand.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Thread, ThreadId};

use messaging::Interest;

use crate::lock::lock;

/// The threads of a process that wait.
pub struct Crowd {
    /// Threads that may spin without keeping each other, or other ranks, from a cpu.
    room: u32,
    /// Somebody makes the turns of progress, and is awake.
    turning: AtomicBool,
    /// The engine's [`signs`](messaging::Engine::signs) when they changed last.
    signs: AtomicU64,
    /// Threads that wait and are awake.
    awake: AtomicU32,
    /// The most of them at a time, of late.
    most: AtomicU32,
    /// Waits that have begun, for `most`.
    waits: AtomicU32,
    asleep: Mutex<Vec<Sleeper>>,
    /// How many these are.
    sleepers: AtomicU32,
}

/// A thread that sleeps, and what for.
struct Sleeper {
    thread: Thread,
    interest: Interest,
}

impl Crowd {
    /// The waiting threads of a process whose cpus have room for `room` threads that spin.
    pub fn new(room: u32) -> Crowd {
        Crowd {
            room: room.max(1),
            turning: AtomicBool::new(false),
            signs: AtomicU64::new(0),
            awake: AtomicU32::new(0),
            most: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            asleep: Mutex::default(),
            sleepers: AtomicU32::new(0),
        }
    }

    /// A thread begins to wait. True where there are cpus for all that do so at times: who waits with others
    /// may spin only where nobody needs the cpu for that, and threads that are not at their turn are not
    /// seen.
    pub fn enter(&self) -> bool {
        let awake = self.awake.load(Ordering::Relaxed) + 1;
        self.awake.store(awake, Ordering::Relaxed);
        let waits = self.waits.load(Ordering::Relaxed).wrapping_add(1);
        self.waits.store(waits, Ordering::Relaxed);
        let most = self.most.load(Ordering::Relaxed);
        if awake > most {
            self.most.store(awake, Ordering::Relaxed);
        } else if waits.is_multiple_of(WAITS_REMEMBERED) {
            self.most.store(most.saturating_sub(1).max(awake), Ordering::Relaxed);
        }
        self.most.load(Ordering::Relaxed) <= self.room
    }

    /// A thread waits no longer.
    pub fn leave(&self) {
        self.count_awake(-1);
    }

    /// Takes the turns of progress over; false where another thread makes them.
    #[inline]
    pub fn take_turns(&self) -> bool {
        if self.is_turning() {
            return false;
        }
        self.turning.store(true, Ordering::Relaxed);
        true
    }

    /// Gives the turns of progress up, for another thread to take them.
    pub fn give_turns_up(&self) {
        self.turning.store(false, Ordering::Relaxed);
    }

    /// Whether a thread makes the turns of progress.
    #[inline]
    pub fn is_turning(&self) -> bool {
        self.turning.load(Ordering::Relaxed)
    }

    /// The engine's signs as [`Crowd::tell`] noted them last.
    #[inline]
    pub fn signs(&self) -> u64 {
        self.signs.load(Ordering::Relaxed)
    }

    /// Notes the engine's signs, and wakes the sleepers that have what they wait for: those whose interest
    /// `is_over`.
    #[inline]
    pub fn tell(&self, signs: u64, is_over: impl FnMut(Interest) -> bool) {
        self.signs.store(signs, Ordering::Relaxed);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.wake(is_over);
        }
    }

    #[cold]
    fn wake(&self, mut is_over: impl FnMut(Interest) -> bool) {
        let mut asleep = lock(&self.asleep);
        let before = asleep.len();
        asleep.retain(|sleeper| {
            let stays = !is_over(sleeper.interest);
            if !stays {
                sleeper.thread.unpark();
            }
            stays
        });
        self.note_sleepers(asleep.len());
        // They are counted as awake from here on, so that nobody wakes others in their place.
        self.count_awake((before - asleep.len()) as i32);
    }

    /// Wakes a sleeper to make the turns, where nobody is left who would. `listening`: somebody sleeps on the
    /// bell.
    pub fn pass_on(&self, listening: bool) {
        let deserted = !listening && !self.is_turning() && self.awake.load(Ordering::Relaxed) == 0;
        if deserted && self.sleepers.load(Ordering::Relaxed) > 0 {
            let mut once = true;
            self.wake(|_| std::mem::take(&mut once));
        }
    }

    /// This thread goes to sleep among the waiting threads, once it has given the engine away
    /// ([`std::thread::park_timeout`]).
    pub fn lie_down(&self, interest: Interest) {
        let mut asleep = lock(&self.asleep);
        asleep.push(Sleeper { thread: std::thread::current(), interest });
        self.note_sleepers(asleep.len());
        self.count_awake(-1);
    }

    /// This thread has risen. True where somebody woke it, false where it had slept enough.
    pub fn rise(&self) -> bool {
        let here: ThreadId = std::thread::current().id();
        let mut asleep = lock(&self.asleep);
        let Some(place) = asleep.iter().position(|sleeper| sleeper.thread.id() == here) else { return true };
        asleep.swap_remove(place);
        self.note_sleepers(asleep.len());
        self.count_awake(1);
        false
    }

    /// Adds `more` to the number of waiting threads that are awake: -1 before this thread sleeps on the bell,
    /// 1 when it comes back from there.
    pub fn count_awake(&self, more: i32) {
        self.awake.store(self.awake.load(Ordering::Relaxed).wrapping_add_signed(more), Ordering::Relaxed);
    }

    fn note_sleepers(&self, count: usize) {
        self.sleepers.store(count as u32, Ordering::Relaxed);
    }
}

/// After so many waits with fewer at a time, there is one fewer.
const WAITS_REMEMBERED: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_makes_the_turns() {
        let crowd = Crowd::new(1);
        assert!(crowd.enter() && crowd.take_turns());
        assert!(!crowd.enter(), "two have no room");
        assert!(!crowd.take_turns());
        crowd.give_turns_up();
        assert!(crowd.take_turns());
        crowd.leave();
        crowd.leave();
        assert!(!crowd.enter(), "not long ago there were two");
        crowd.leave();
        let again = (0..3 * WAITS_REMEMBERED).any(|_| {
            let alone = crowd.enter();
            crowd.leave();
            alone
        });
        assert!(again, "a crowd is remembered for ever");
    }

    #[test]
    fn the_one_whose_request_ended_is_woken() {
        let (crowd, turn) = (Crowd::new(8), Mutex::new(()));
        std::thread::scope(|scope| {
            let sleeper = |interest| {
                let (crowd, turn) = (&crowd, &turn);
                scope.spawn(move || {
                    let held = lock(turn);
                    crowd.enter();
                    crowd.lie_down(interest);
                    drop(held);
                    while !{
                        std::thread::park();
                        let _held = lock(turn);
                        crowd
                            .asleep
                            .lock()
                            .unwrap()
                            .iter()
                            .all(|it| it.thread.id() != std::thread::current().id())
                    } {}
                    let _held = lock(turn);
                    assert!(crowd.rise(), "it was woken");
                    crowd.leave();
                })
            };
            let (first, second) = (sleeper(Interest::Awaited), sleeper(Interest::Anything));
            while crowd.sleepers.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            let held = lock(&turn);
            crowd.tell(7, |interest| interest == Interest::Awaited);
            assert_eq!((crowd.signs(), crowd.sleepers.load(Ordering::Relaxed)), (7, 1));
            drop(held);
            first.join().unwrap();
            let held = lock(&turn);
            crowd.pass_on(true);
            assert_eq!(crowd.sleepers.load(Ordering::Relaxed), 1, "somebody listens");
            crowd.pass_on(false);
            assert_eq!(crowd.sleepers.load(Ordering::Relaxed), 0, "nobody listened");
            drop(held);
            second.join().unwrap();
            assert_eq!(crowd.awake.load(Ordering::Relaxed), 0);
        });
    }
}
