//! What a thread sleeps on that waits for this fabric.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fabric::Bell;

/// Sleeps in naps: most providers move nothing while nobody looks, so nobody may look away for long.
#[derive(Clone, Default, Debug)]
pub struct LibfabricBell {
    inner: Arc<(Mutex<u32>, Condvar)>,
}

impl Bell for LibfabricBell {
    fn arm(&self) -> u32 {
        *self.inner.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, armed: u32, at_most: Duration) {
        let (rings, woken) = &*self.inner;
        let rings = rings.lock().unwrap_or_else(PoisonError::into_inner);
        if *rings == armed {
            // Woken or not, early or late: the caller looks again.
            drop(woken.wait_timeout(rings, at_most.min(NAP)));
        }
    }

    fn disarm(&self) {}

    fn ring(&self) {
        let (rings, woken) = &*self.inner;
        let mut rings = rings.lock().unwrap_or_else(PoisonError::into_inner);
        *rings = rings.wrapping_add(1);
        woken.notify_all();
    }
}

/// Short enough for a message that comes meanwhile, long enough to leave the core to others.
const NAP: Duration = Duration::from_millis(1);

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
}
