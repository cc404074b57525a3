//! What a thread sleeps on when no message comes: a futex in its process slot.

use std::time::Duration;

use fabric::Bell;
use rustix::thread::futex;

use crate::memory::Memory;
use crate::process_slot::ProcessSlot;
use crate::segment::Segment;

/// The bell of one process slot. Keeps the segment mapped.
#[derive(Clone)]
pub struct ShmBell {
    segment: Segment,
    process_slot: ProcessSlot,
}

impl ShmBell {
    pub(crate) fn new(segment: Segment, process_slot: ProcessSlot) -> ShmBell {
        ShmBell { segment, process_slot }
    }
}

impl Bell for ShmBell {
    fn arm(&self) -> u32 {
        self.process_slot.arm(self.segment.memory())
    }

    fn sleep(&self, armed: u32, at_most: Duration) {
        // Where the barrier leaves somebody out, that somebody may have missed our arming: look again soon.
        let at_most = if self.segment.all_enlisted() { at_most } else { at_most.min(UNENLISTED_SLEEP_MAX) };
        let timeout = futex::Timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let bell = self.process_slot.bell(self.segment.memory());
        // Woken, too late, interrupted, timed out: all mean to look again.
        let _ = futex::wait(bell, futex::Flags::empty(), armed, Some(&timeout));
    }

    fn disarm(&self) {
        self.process_slot.disarm(self.segment.memory());
    }

    fn ring(&self) {
        let memory = self.segment.memory();
        self.process_slot.strike(memory);
        wake(memory, self.process_slot);
    }
}

/// Wakes all threads that sleep on the bell of `process_slot`.
#[cold]
pub fn wake(memory: &impl Memory, process_slot: ProcessSlot) {
    // No error is possible that a retry would mend.
    let _ = futex::wake(process_slot.bell(memory), futex::Flags::empty(), i32::MAX as u32);
}

/// Short enough to bear after a missed wake-up, long enough to leave the processor to others.
const UNENLISTED_SLEEP_MAX: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use fabric::{Fabric, Peer};

    use super::*;
    use crate::{Settings, Shm};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn alone() -> (Segment, Shm) {
        let segment = Segment::adopt(Segment::create(1).unwrap(), 1).unwrap();
        let shm = Shm::open(segment.clone(), 0, vec![Peer(0)], Settings::default()).unwrap();
        (segment, shm)
    }

    #[test]
    fn another_thread_of_the_process_wakes_the_sleepers() {
        let (_segment, shm) = alone();
        let bell = shm.bell();
        let since = Instant::now();
        let armed = bell.arm();
        std::thread::scope(|scope| {
            let (bell, other) = (bell.clone(), bell.clone());
            let sleeper = scope.spawn(move || bell.sleep(armed, PATIENCE));
            other.ring();
            sleeper.join().unwrap();
        });
        bell.disarm();
        assert!(since.elapsed() < PATIENCE, "nobody was woken");
    }

    #[test]
    fn a_sleep_ends_by_itself() {
        let (_segment, shm) = alone();
        let bell = shm.bell();
        let armed = bell.arm();
        bell.sleep(armed, Duration::from_millis(2));
        bell.disarm();
        assert_eq!(bell.arm(), armed, "nobody rang");
    }

    #[test]
    fn who_is_not_enlisted_keeps_all_sleeps_short() {
        let (segment, shm) = alone();
        segment.count_unenlisted();
        let bell = shm.bell();
        let since = Instant::now();
        bell.sleep(bell.arm(), PATIENCE);
        assert!(since.elapsed() < PATIENCE, "a sleep that nobody may end lasted as long as it could");
    }
}
