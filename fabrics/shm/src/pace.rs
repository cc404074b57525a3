//! Whether long messages to a peer are sent at once or wait to be read, by what copies into its ring take.
//!
//! How quick two cores copy through memory between them is no constant of a machine: where a virtual machine's cpus share a
//! cache at one time and do not at another, it was seen to differ by a factor of four, and reads did not. So some of the
//! messages that are copied are timed, for each peer.

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

    /// A longer message is read in any case.
    pub const COPIED_BYTES_MAX: usize = 256 << 10;

    /// The same where the other sends as well, as is often so with parcels: who reads leaves the sender's core to its own messages,
    /// which a copy does not.
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

/// What is known of the copies to a peer.
#[derive(Clone, Copy, Default)]
pub struct Pace {
    /// What a byte takes; unknown before anything was asked.
    byte: Mean,
    /// Messages that are copied before one is timed.
    before_timed: u8,
    /// Messages that were left to be read since one was copied.
    left: u8,
}

impl Pace {
    /// What a copy takes for each byte, as far as is known.
    pub fn copied_byte_ns(&self, ways: &Ways) -> f64 {
        if self.byte.is_known() { self.byte.ns() } else { ways.copied_byte_ns }
    }

    /// Whether a message of so many bytes is copied at all, now or then.
    pub fn may_prefer_copies(&self, ways: &Ways, bytes: usize) -> bool {
        bytes <= ways.copied_bytes_max(self.copied_byte_ns(ways).min(ways.copied_byte_ns))
    }

    /// Whether a message of so many bytes is to be copied. Where copies were slow, they are tried now and then.
    pub fn prefers_copies(&mut self, ways: &Ways, bytes: usize) -> bool {
        self.byte = Mean::of(self.copied_byte_ns(ways));
        let is_quick = bytes <= ways.copied_bytes_max(self.copied_byte_ns(ways));
        if !is_quick {
            self.left = self.left.saturating_add(1);
            if self.left < TRIED_OF || bytes > ways.copied_bytes_max(ways.copied_byte_ns) {
                return false;
            }
            self.before_timed = 0;
        }
        self.left = 0;
        true
    }

    /// Whether the message that is copied next is to be timed. It is asked once for each.
    pub fn times_next(&mut self) -> bool {
        if !self.byte.is_known() {
            return false;
        }
        let is_timed = self.before_timed == 0;
        self.before_timed = if is_timed { TIMED_OF - 1 } else { self.before_timed - 1 };
        is_timed
    }

    /// A message of so many bytes was copied in that time.
    pub fn timed(&mut self, bytes: usize, ns: f64) {
        self.byte.timed(bytes, ns);
    }
}

/// What a byte took lately, in parts of a nanosecond; 0 where nothing is known.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Mean(u16);

impl Mean {
    /// A cast of a float stops at the ends of the range.
    pub fn of(byte_ns: f64) -> Mean {
        Mean(((byte_ns * PARTS).round() as u16).max(1))
    }

    pub fn is_known(self) -> bool {
        self.0 > 0
    }

    pub fn ns(self) -> f64 {
        f64::from(self.0) / PARTS
    }

    /// So many bytes took that time. What is out of all proportion was interrupted, and what was quick says more than what
    /// was slow.
    pub fn timed(&mut self, bytes: usize, ns: f64) {
        let (now, before) = (ns / bytes as f64, self.ns());
        *self = Mean::of(match self.is_known() {
            false => now,
            true if now < before => (before + now) / 2.0,
            true => before + (now.min(PROPORTION * before) - before) / 4.0,
        });
    }
}

/// One copied message in four is timed; where copies were slow, one message in 64 is copied, to see.
const TIMED_OF: u8 = 4;
const TRIED_OF: u8 = 64;
const PROPORTION: f64 = 4.0;
/// Where cores are far from each other a parcel of 64 KiB that is answered takes 0.75 of a read's time, and one that crosses
/// another 1.4; of 32 KiB 0.6 and 1.2.
const READS_BESIDE: f64 = 0.85;
/// Of a nanosecond.
const PARTS: f64 = 4096.0;

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: Ways = Ways { head_start_ns: 1700.0, copied_byte_ns: 0.045, read_byte_ns: 0.048 };
    const LONG: usize = Ways::COPIED_BYTES_MAX;

    /// So many long messages; those that are copied take so long for each byte.
    fn messages(pace: &mut Pace, count: usize, byte_ns: f64) -> usize {
        (0..count)
            .filter(|_| {
                let is_copied = pace.prefers_copies(&WAYS, LONG);
                if is_copied && pace.times_next() {
                    pace.timed(LONG, byte_ns * LONG as f64);
                }
                is_copied
            })
            .count()
    }

    #[test]
    fn the_way_follows_what_copies_take() {
        let mut pace = Pace::default();
        assert!(pace.prefers_copies(&WAYS, LONG), "as it is said before any was timed");
        assert!(!pace.prefers_copies(&WAYS, LONG + 1), "too much memory where nobody waits for it");
        messages(&mut pace, 100, 0.2);
        assert!(!pace.prefers_copies(&WAYS, LONG));
        assert!(pace.prefers_copies(&WAYS, 8 << 10), "a read takes long to begin");
        messages(&mut pace, 640, 0.04);
        assert_eq!(messages(&mut pace, 100, 0.04), 100, "they are quick again");
    }

    #[test]
    fn where_copies_were_slow_they_are_tried_again() {
        let mut pace = Pace::default();
        messages(&mut pace, 100, 0.2);
        assert_eq!(messages(&mut pace, 640, 0.2), 10);
        let never = Ways { copied_byte_ns: 1.0, ..WAYS };
        assert!((0..640).all(|_| !Pace::default().prefers_copies(&never, LONG)));
        let mut pace = Pace::default();
        assert!((0..640).all(|_| !pace.prefers_copies(&never, LONG)));
    }

    #[test]
    fn an_interruption_counts_little_be_it_the_first() {
        let mut pace = Pace::default();
        assert!(pace.prefers_copies(&WAYS, LONG) && pace.times_next());
        pace.timed(64 << 10, 1e7);
        assert!(pace.copied_byte_ns(&WAYS) <= 2.0 * WAYS.copied_byte_ns);
        pace.timed(64 << 10, 0.04 * f64::from(64 << 10));
        assert!(pace.copied_byte_ns(&WAYS) < 1.5 * WAYS.copied_byte_ns);
    }

    #[test]
    fn one_copy_of_some_is_timed() {
        let mut pace = Pace::default();
        assert!(!pace.times_next(), "nothing was asked for");
        let mut timed = 0;
        for _ in 0..4 * usize::from(TIMED_OF) {
            assert!(pace.prefers_copies(&WAYS, LONG));
            timed += usize::from(pace.times_next());
        }
        assert_eq!(timed, 4);
    }
}
