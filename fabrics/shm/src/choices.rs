//! How long messages to and from one peer go: sent at once or left to be read, pulled by the receiver or
//! pushed by the sender.
//!
//! How fast two cores copy through memory between them is no constant of a machine: where a virtual machine's
//! cpus share a cache at one time and do not at another, it was seen to differ by a factor of four, and the
//! kernel's reads did not. So some messages are timed, for each peer, and a [`Tuner`] decides.

use std::time::Instant;

use fabric::tuner::{Alternative, SizeClasses, Tuner};

/// What copies and reads cost, as far as it decides between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ways {
    /// What a read takes before its first byte, beyond what a copy takes before its own.
    pub head_start_ns: f64,
    /// What a copy takes for each byte, as long as none was timed.
    pub copied_byte_ns: f64,
    /// What a read takes for each byte.
    pub read_byte_ns: f64,
}

impl Ways {
    /// All that may be copied is, whatever copies take: for tests.
    #[doc(hidden)]
    pub const COPIES: Ways = Ways { head_start_ns: 1e9, copied_byte_ns: 1.0, read_byte_ns: 0.0 };

    /// The longest message, in bytes, that a sender may copy beyond the eager limit; a longer one goes by
    /// rendezvous.
    pub const COPIED_BYTES_MAX: usize = 256 << 10;

    /// What copies and reads cost where the receiver sends as well, as is often so with chunked eager
    /// messages: a receiver that reads leaves the sender's core to its own messages, which a copy does not.
    #[must_use]
    pub fn beside_reads(self) -> Ways {
        Ways { read_byte_ns: READS_BESIDE * self.read_byte_ns, ..self }
    }

    /// Up to here a message is sooner copied, where a copy takes so long for each byte.
    #[must_use]
    pub fn copied_bytes_max(&self, copied_byte_ns: f64) -> usize {
        if self.head_start_ns <= 0.0 {
            return 0;
        }
        let per_byte = copied_byte_ns - self.read_byte_ns;
        // A cast of a float stops at the ends of the range.
        let bytes = if per_byte > 0.0 { (self.head_start_ns / per_byte) as usize } else { usize::MAX };
        bytes.min(Ways::COPIED_BYTES_MAX)
    }
}

/// Where cores are far from each other a chunked eager message of 64 KiB that is answered takes 0.75 of a
/// read's time, and one that crosses another 1.4; of 32 KiB 0.6 and 1.2.
const READS_BESIDE: f64 = 0.85;

/// What is known of long messages to and from one peer.
#[derive(Clone, Copy, Default)]
pub struct Choices {
    /// Of those to it that go through its ring.
    pub ring: EagerOrRead,
    /// Of those to it that go as chunked eager messages.
    pub chunked_messages: EagerOrRead,
    /// Of those from it that are too long for both.
    pub longer: PullOrPush,
}

/// Whether a long message to a peer is sent at once, which the sender copies, or waits to be read, by what
/// copies took lately. What a read takes is computed.
#[derive(Clone, Copy, Default)]
pub struct EagerOrRead(Tuner);

const COPIED: Alternative = Alternative::First;
const READ: Alternative = Alternative::Second;

impl EagerOrRead {
    /// What a copy takes for each byte, as far as is known.
    pub fn copied_byte_ns(&self, ways: &Ways) -> f64 {
        self.0.measured(COPIED).map_or(ways.copied_byte_ns, f64::from)
    }

    /// Whether a message of so many bytes is copied at all, now or then.
    pub fn may_prefer_copies(&self, ways: &Ways, bytes: usize) -> bool {
        bytes <= ways.copied_bytes_max(self.copied_byte_ns(ways).min(ways.copied_byte_ns))
    }

    /// Whether a message of so many bytes is to be copied. Where copies were slow, they are tried now and
    /// then.
    pub fn prefers_copies(&mut self, ways: &Ways, bytes: usize) -> bool {
        if !self.may_prefer_copies(ways, bytes) {
            return false;
        }
        if self.0.measured(COPIED).is_none() {
            self.0.suppose(COPIED, ways.copied_byte_ns as f32);
        }
        self.0.suppose(READ, (ways.read_byte_ns + ways.head_start_ns / bytes as f64) as f32);
        self.0.choose() == COPIED
    }

    /// Whether the message that is copied next is to be timed.
    pub fn times_next(&self) -> bool {
        self.0.is_timed(COPIED)
    }

    /// Notes that a message of `bytes` bytes was copied in `ns` nanoseconds.
    pub fn timed(&mut self, bytes: usize, ns: f64) {
        self.0.took(COPIED, (ns / bytes as f64) as f32);
    }
}

/// Whether a long message whose sender waits for it is pulled from there or pushed by it.
///
/// Where two cores share a cache both copies of a pushed message are sooner over than the kernel's one,
/// although each side reads or writes a half of that; elsewhere it is the other way round. Both are timed at
/// the receiver, for each peer and length.
#[derive(Clone, Copy, Default)]
pub struct PullOrPush {
    lengths: [Tuner; LENGTHS.count],
    /// When the pushed message that is coming in began.
    since: Option<Instant>,
}

const PULLED: Alternative = Alternative::First;
const PUSHED: Alternative = Alternative::Second;
/// 256 to 512 KiB, and so on; the last is of all that are longer than 2 MiB.
const LENGTHS: SizeClasses = SizeClasses { from: Ways::COPIED_BYTES_MAX + 1, count: 4 };

impl PullOrPush {
    /// Whether the next message of `bytes` bytes is to be pushed by its sender.
    pub fn rather_pushed(&mut self, bytes: usize) -> bool {
        self.tuner(bytes).is_some_and(|tuner| tuner.choose() == PUSHED)
    }

    /// Notes that a message of `bytes` bytes was copied by both sides in `ns` nanoseconds: pulled by the
    /// receiver, and brought by the sender.
    pub fn pulled(&mut self, bytes: usize, ns: f64) {
        self.took(PULLED, bytes, ns);
    }

    /// The first chunk of a pushed message is there.
    pub fn begins(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// The last chunk is there.
    pub fn ends(&mut self, bytes: usize, now: Instant) {
        if let Some(since) = self.since.take() {
            self.pushed(bytes, (now - since).as_nanos() as f64);
        }
    }

    /// From the first chunk of a pushed message to its last it took that time.
    pub fn pushed(&mut self, bytes: usize, ns: f64) {
        self.took(PUSHED, bytes, ns);
    }

    /// A shorter message is no concern of this.
    pub fn concerns(bytes: usize) -> bool {
        LENGTHS.of(bytes).is_some()
    }

    fn took(&mut self, taken: Alternative, bytes: usize, ns: f64) {
        if let Some(tuner) = self.tuner(bytes) {
            tuner.took(taken, (ns / bytes as f64) as f32);
        }
    }

    /// Of twice as long messages less may stay in caches.
    fn tuner(&mut self, bytes: usize) -> Option<&mut Tuner> {
        LENGTHS.of(bytes).map(|class| &mut self.lengths[class])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: Ways = Ways { head_start_ns: 1700.0, copied_byte_ns: 0.045, read_byte_ns: 0.048 };
    const LONG: usize = Ways::COPIED_BYTES_MAX;

    /// So many long messages; those that are copied take so long for each byte. Answers how many were copied.
    fn messages(choice: &mut EagerOrRead, count: usize, byte_ns: f64) -> usize {
        (0..count)
            .filter(|_| {
                let is_copied = choice.prefers_copies(&WAYS, LONG);
                if is_copied && choice.times_next() {
                    choice.timed(LONG, byte_ns * LONG as f64);
                }
                is_copied
            })
            .count()
    }

    #[test]
    fn the_way_follows_what_copies_take() {
        let mut choice = EagerOrRead::default();
        assert!(choice.prefers_copies(&WAYS, LONG), "as it is said before any was timed");
        assert!(!choice.prefers_copies(&WAYS, LONG + 1), "too much memory where nobody waits for it");
        assert_eq!(messages(&mut choice, 100, 0.04), 100, "reads are not tried, since nobody times them");
        messages(&mut choice, 200, 0.2);
        assert!(!choice.prefers_copies(&WAYS, LONG));
        assert!(choice.prefers_copies(&WAYS, 8 << 10), "a read takes long to begin");
        messages(&mut choice, 1200, 0.04);
        assert_eq!(messages(&mut choice, 100, 0.04), 100, "they are fast again");
    }

    #[test]
    fn where_copies_were_slow_they_are_tried_again() {
        let mut choice = EagerOrRead::default();
        messages(&mut choice, 400, 0.2);
        assert_eq!(messages(&mut choice, 2010, 0.2), 10);
        let never = Ways { copied_byte_ns: 1.0, ..WAYS };
        let mut choice = EagerOrRead::default();
        assert!((0..640).all(|_| !choice.prefers_copies(&never, LONG)));
    }

    #[test]
    fn an_interruption_counts_little() {
        let mut choice = EagerOrRead::default();
        messages(&mut choice, 100, 0.045);
        choice.timed(LONG, 1e9);
        assert!(choice.copied_byte_ns(&WAYS) <= 1.2 * WAYS.copied_byte_ns);
        choice.timed(LONG, 0.04 * LONG as f64);
        assert!(choice.copied_byte_ns(&WAYS) < 1.1 * WAYS.copied_byte_ns);
    }

    const LONGER: usize = 1 << 20;

    /// So many messages, with what either way takes for each byte; answers how many were pushed.
    fn whole(choice: &mut PullOrPush, count: usize, pulled_ns: f64, pushed_ns: f64) -> usize {
        let bytes = LONGER as f64;
        (0..count)
            .filter(|_| {
                let is_pushed = choice.rather_pushed(LONGER);
                match is_pushed {
                    true => choice.pushed(LONGER, pushed_ns * bytes),
                    false => choice.pulled(LONGER, pulled_ns * bytes),
                }
                is_pushed
            })
            .count()
    }

    #[test]
    fn the_faster_way_is_found_and_the_other_is_tried() {
        let mut choice = PullOrPush::default();
        assert_eq!(whole(&mut choice, 2, 0.1, 0.05), 0, "pulled first");
        whole(&mut choice, 20, 0.1, 0.05);
        assert!(whole(&mut choice, 402, 0.1, 0.05) >= 400);
        whole(&mut choice, 640, 0.1, 0.2);
        assert!(whole(&mut choice, 402, 0.1, 0.2) <= 3);
        whole(&mut choice, 1000, 0.1, 0.05);
        assert!(whole(&mut choice, 402, 0.1, 0.05) >= 380, "and so it is found to be fast again");
    }

    #[test]
    fn each_length_is_measured_by_itself() {
        let mut choice = PullOrPush::default();
        whole(&mut choice, 40, 0.1, 0.05);
        for other in [LONGER / 2, 2 * LONGER + 2, 64 * LONGER] {
            assert!(!choice.rather_pushed(other), "{other} bytes were never pulled");
        }
        assert!(choice.rather_pushed(LONGER / 2 + 4), "as long as the others");
        assert!(PullOrPush::concerns(LONG + 1) && !PullOrPush::concerns(LONG));
    }
}
