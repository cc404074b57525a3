//! Whether a long message whose sender waits for it is pulled from there or posted by it, by what either took lately.
//!
//! Where two cores share a cache both copies of a posted message are sooner over than the kernel's one, although each side
//! reads or writes a half of that; elsewhere it is the other way round, and a virtual machine's cpus may be in either place.
//! So both are timed at the receiver, for each peer and length, and the way that is not taken is tried now and then.

use std::time::Instant;

use crate::pace::{Mean, Ways};

/// What long messages from one peer took.
#[derive(Clone, Copy, Default)]
pub struct Carrying {
    lengths: [Either; LENGTHS],
    /// When the posted message that is coming in began.
    since: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
struct Either {
    pulled: Mean,
    posted: Mean,
    /// Messages that took the better way since one took the other.
    alike: u8,
}

impl Carrying {
    /// Which way the next message of so many bytes is to take.
    pub fn rather_posted(&mut self, bytes: usize) -> bool {
        let either = self.either(bytes);
        if !either.pulled.is_known() {
            return false;
        }
        if !either.posted.is_known() {
            return true;
        }
        let is_quicker = either.posted < either.pulled;
        either.alike += 1;
        if either.alike < TRIED_OF {
            return is_quicker;
        }
        either.alike = 0;
        !is_quicker
    }

    /// Both sides have pulled and brought so many bytes in that time.
    pub fn pulled(&mut self, bytes: usize, ns: f64) {
        self.either(bytes).pulled.timed(bytes, ns);
    }

    /// The first piece of a posted message is there.
    pub fn begins(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// The last piece is there.
    pub fn ends(&mut self, bytes: usize, now: Instant) {
        if let Some(since) = self.since.take() {
            self.posted(bytes, (now - since).as_nanos() as f64);
        }
    }

    /// From the first piece of a posted message to its last it took that time.
    pub fn posted(&mut self, bytes: usize, ns: f64) {
        self.either(bytes).posted.timed(bytes, ns);
    }

    /// A shorter message is no concern of this.
    pub fn concerns(bytes: usize) -> bool {
        bytes > Ways::COPIED_BYTES_MAX
    }

    /// Of twice as long messages less may stay in caches.
    fn either(&mut self, bytes: usize) -> &mut Either {
        let length = (bytes.saturating_sub(1) / Ways::COPIED_BYTES_MAX).max(1).ilog2() as usize;
        &mut self.lengths[length.min(LENGTHS - 1)]
    }
}

/// 256 to 512 KiB, and so on; the last is of all that are longer than 2 MiB.
const LENGTHS: usize = 4;
/// One message of so many takes the way that was slower.
const TRIED_OF: u8 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 1 << 20;

    /// So many messages, with what either way takes for each byte; answers how many were posted.
    fn messages(carrying: &mut Carrying, count: usize, pulled_ns: f64, posted_ns: f64) -> usize {
        let bytes = LONG as f64;
        (0..count)
            .filter(|_| {
                let is_posted = carrying.rather_posted(LONG);
                match is_posted {
                    true => carrying.posted(LONG, posted_ns * bytes),
                    false => carrying.pulled(LONG, pulled_ns * bytes),
                }
                is_posted
            })
            .count()
    }

    #[test]
    fn the_quicker_way_is_found_and_the_other_is_tried() {
        let mut carrying = Carrying::default();
        assert!(!carrying.rather_posted(LONG), "pulled first");
        assert_eq!(messages(&mut carrying, 1, 0.1, 0.05), 0);
        assert_eq!(messages(&mut carrying, 321, 0.1, 0.05), 311, "one in 32 is pulled");
        messages(&mut carrying, 320, 0.1, 0.2);
        assert_eq!(messages(&mut carrying, 320, 0.1, 0.2), 10, "one in 32 is posted");
        messages(&mut carrying, 320, 0.1, 0.05);
        assert_eq!(messages(&mut carrying, 320, 0.1, 0.05), 310, "and so it is found to be quick again");
    }

    #[test]
    fn each_length_is_measured_by_itself() {
        let mut carrying = Carrying::default();
        messages(&mut carrying, 10, 0.1, 0.05);
        for other in [LONG / 2, LONG + 1, 4 * LONG, 64 * LONG] {
            assert!(!carrying.rather_posted(other), "{other} bytes were never pulled");
        }
        assert!(carrying.rather_posted(LONG / 2 + 1), "as long as the others");
        assert!(
            Carrying::concerns(Ways::COPIED_BYTES_MAX + 1) && !Carrying::concerns(Ways::COPIED_BYTES_MAX)
        );
    }
}
