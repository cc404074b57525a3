//! Crash points: the steps of the library at which a test ends a process (docs/decisions/0018).
//!
//! [`point`] stands wherever others can tell whether a process has died before or behind it. With the feature
//! `crash-points` it counts; in every other build it is nothing.

/// The process may die here: what stands above is done then, what stands below is not.
#[inline(always)]
pub fn point() {
    #[cfg(feature = "crash-points")]
    counting::pass();
}

#[cfg(feature = "crash-points")]
pub use counting::{begin, end};

#[cfg(feature = "crash-points")]
mod counting {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};

    /// The process counts from here on. At its point of number `last`, from 1, it calls `die`.
    pub fn begin(last: Option<u64>, die: fn()) {
        *DIE.lock().unwrap_or_else(PoisonError::into_inner) = Some(die);
        LAST.store(last.unwrap_or(NEVER), Ordering::Relaxed);
        PASSED.store(0, Ordering::Relaxed);
    }

    /// It counts no longer; the answer is how many points it has passed.
    pub fn end() -> u64 {
        LAST.store(NEVER, Ordering::Relaxed);
        PASSED.load(Ordering::Relaxed)
    }

    #[cold]
    pub(super) fn pass() {
        let number = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
        if number == LAST.load(Ordering::Relaxed)
            && let Some(die) = *DIE.lock().unwrap_or_else(PoisonError::into_inner)
        {
            die();
        }
    }

    static PASSED: AtomicU64 = AtomicU64::new(0);
    static LAST: AtomicU64 = AtomicU64::new(NEVER);
    static DIE: Mutex<Option<fn()>> = Mutex::new(None);
    const NEVER: u64 = u64::MAX;
}
