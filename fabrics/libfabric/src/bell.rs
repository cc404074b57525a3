//! What a thread sleeps on that waits for this fabric.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fabric::Bell;

/// Sleeps in naps: most providers move nothing while nobody looks, so nobody may look away for long. Naps are
/// short at first and grow while nothing comes, but not while a peer may be reading memory here, which mostly
/// takes less than a nap; and nobody sleeps who reads.
#[derive(Clone, Default, Debug)]
pub struct LibfabricBell {
    inner: Arc<Inner>,
}

#[derive(Default, Debug)]
struct Inner {
    rings: Mutex<u32>,
    woken: Condvar,
    /// Naps, or looks in place of naps, since something has come.
    naps: AtomicU32,
    /// A [`Haste`].
    haste: AtomicU8,
}

/// How much there is to do for who looks. Many providers move memory chunk by chunk, in the calls of both
/// sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Haste {
    /// Messages may come.
    None,
    /// Memory is shown to peers, who may be reading it.
    Shown,
    /// Memory of peers is being read.
    Reading,
}

impl LibfabricBell {
    /// Something has come.
    #[inline]
    pub(crate) fn note_arrival(&self) {
        if self.inner.naps.load(Ordering::Relaxed) != 0 {
            self.inner.naps.store(0, Ordering::Relaxed);
        }
    }

    /// How long it is good to sleep now; `None` for not at all.
    #[must_use]
    pub fn nap(&self) -> Option<Duration> {
        let haste = self.inner.haste.load(Ordering::Relaxed);
        let naps = self.inner.naps.fetch_add(1, Ordering::Relaxed);
        if haste == Haste::Reading as u8 || haste == Haste::Shown as u8 && naps < YIELDS_SHOWN {
            return None;
        }
        let doublings = if haste == Haste::None as u8 { (naps / NAPS_ALIKE).min(DOUBLINGS_MAX) } else { 0 };
        Some((NAP_MIN * 2_u32.pow(doublings)).min(NAP_MAX))
    }

    pub(crate) fn note_haste(&self, haste: Haste) {
        if self.inner.haste.swap(haste as u8, Ordering::Relaxed) != haste as u8 {
            self.inner.naps.store(0, Ordering::Relaxed);
        }
    }
}

impl Bell for LibfabricBell {
    fn arm(&self) -> u32 {
        *self.inner.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, armed: u32, at_most: Duration) {
        let Some(nap) = self.nap() else { return std::thread::yield_now() };
        let rings = self.inner.rings.lock().unwrap_or_else(PoisonError::into_inner);
        if *rings == armed {
            // Woken or not, early or late: the caller looks again.
            drop(self.inner.woken.wait_timeout(rings, at_most.min(nap)));
        }
    }

    fn disarm(&self) {}

    fn ring(&self) {
        let mut rings = self.inner.rings.lock().unwrap_or_else(PoisonError::into_inner);
        *rings = rings.wrapping_add(1);
        self.inner.woken.notify_all();
    }
}

/// The first naps, about as long as the kernel's timers are exact.
const NAP_MIN: Duration = Duration::from_micros(20);
/// Short enough for a message that comes meanwhile, long enough to leave the core to others.
const NAP_MAX: Duration = Duration::from_millis(1);
/// So many naps of each length.
const NAPS_ALIKE: u32 = 16;
const DOUBLINGS_MAX: u32 = 6;
/// Who shows memory looks so often before it naps: a millisecond or two.
const YIELDS_SHOWN: u32 = 2000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn who_was_rung_for_does_not_sleep() {
        let bell = LibfabricBell::default();
        let armed = bell.arm();
        bell.clone().ring();
        assert_ne!(bell.arm(), armed);
        bell.sleep(armed, Duration::from_secs(3600));
        // Nobody rings, and the nap ends by itself.
        let began = Instant::now();
        bell.sleep(bell.arm(), Duration::from_secs(3600));
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn naps_are_counted_until_something_comes_and_not_while_memory_is_read() {
        let bell = LibfabricBell::default();
        let naps = |bell: &LibfabricBell| bell.inner.naps.load(Ordering::Relaxed);
        for _ in 0..200 {
            bell.sleep(bell.arm(), Duration::from_nanos(1));
        }
        assert_eq!(naps(&bell), 200);
        bell.note_arrival();
        for (haste, looks) in [(Haste::Reading, u32::MAX), (Haste::Shown, YIELDS_SHOWN)] {
            bell.note_haste(haste);
            assert_eq!(naps(&bell), 0);
            assert!((0..5000).all(|look| bell.nap().is_none() == (look < looks)), "{haste:?}");
        }
        assert_eq!(bell.nap(), Some(NAP_MIN));
    }
}
