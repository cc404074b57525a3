//! Whether long messages of a peer go in pieces or are read, by what copies out of its ring take.
//!
//! How quick two cores copy through memory between them is no constant of a machine: where a virtual machine's cpus share a
//! cache at one time and do not at another, it was seen to differ by a factor of five, and reads did not. So the first
//! piece of some messages is timed while it is copied, for each peer.

/// What pieces and reads cost, as far as it decides between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ways {
    /// What a read takes before its first byte, beyond what pieces take before theirs.
    pub head_start_ns: f64,
    /// What pieces take for each byte, as long as none was timed.
    pub piece_byte_ns: f64,
    /// What a read takes for each byte.
    pub read_byte_ns: f64,
}

impl Ways {
    /// A longer message is read in any case: what was asked for fits into a ring, so that no other message waits behind it.
    pub const PIECES_BYTES_MAX: usize = 128 << 10;

    /// From here on a message is read, where pieces take so long for each byte.
    #[must_use]
    pub fn pull_bytes_min(&self, piece_byte_ns: f64) -> usize {
        if self.head_start_ns <= 0.0 {
            return 0;
        }
        let per_byte = piece_byte_ns - self.read_byte_ns;
        // A cast of a float stops at the ends of the range.
        let bytes =
            if per_byte > 0.0 { (self.head_start_ns / per_byte) as usize / 64 * 64 } else { usize::MAX };
        bytes.min(Ways::PIECES_BYTES_MAX + 1)
    }
}

/// What is known of the pieces of a peer.
#[derive(Clone, Copy, Default)]
pub struct Pace {
    /// What a byte takes, in parts of a nanosecond; 0 before any was asked for.
    byte: u16,
    /// Messages that came in pieces since one was timed, in the two lowest bits, and such that were read since pieces were
    /// tried, in the others.
    counts: u8,
    /// The length of the piece that is to be timed, in units; 0: none.
    due_units: u8,
}

impl Pace {
    /// What pieces take for each byte, as far as is known.
    pub fn piece_byte_ns(&self, ways: &Ways) -> f64 {
        if self.byte == 0 { ways.piece_byte_ns } else { f64::from(self.byte) / PARTS }
    }

    /// Whether a message of so many bytes is to come in pieces of so many at most. Where they were slow, they are tried now
    /// and then.
    pub fn prefers_pieces(&mut self, ways: &Ways, bytes: usize, piece_bytes_max: usize) -> bool {
        self.byte = parts(self.piece_byte_ns(ways));
        let is_trial = if bytes < ways.pull_bytes_min(self.piece_byte_ns(ways)) {
            false
        } else if bytes < ways.pull_bytes_min(ways.piece_byte_ns) {
            self.counts = self.counts.wrapping_add(ONE_READ);
            if self.counts >= ONE_READ {
                return false;
            }
            true
        } else {
            return false;
        };
        let untimed = self.counts % ONE_READ;
        if is_trial || untimed == 0 {
            self.due_units = units(bytes.min(piece_bytes_max));
        }
        self.counts = self.counts - untimed + (untimed + 1) % ONE_READ;
        true
    }

    /// Whether a piece that is here is to be timed.
    #[inline(always)]
    pub fn times(&self, bytes: usize) -> bool {
        self.due_units != 0 && units(bytes) == self.due_units
    }

    /// A message was read: its pieces are dropped now, and no copies.
    pub fn is_read(&mut self) {
        self.due_units = 0;
    }

    /// A piece of so many bytes was copied out in that time. What is out of all proportion was interrupted, and a copy that
    /// was quick says more than one that was slow.
    pub fn timed(&mut self, bytes: usize, ns: f64) {
        self.due_units = 0;
        let (now, before) = (ns / bytes as f64, f64::from(self.byte) / PARTS);
        let mean = if now < before {
            (before + now) / 2.0
        } else {
            before + (now.min(PROPORTION * before) - before) / 4.0
        };
        self.byte = parts(mean);
    }
}

fn parts(byte_ns: f64) -> u16 {
    // A cast of a float stops at the ends of the range.
    ((byte_ns * PARTS).round() as u16).max(1)
}

/// Of what is longer than any piece that comes as one, too much.
fn units(bytes: usize) -> u8 {
    u8::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u8::MAX)
}

/// One message in four that comes in pieces is timed: a look at the clock takes up to a tenth of what a piece does. Where
/// pieces were slow, one in 64 is.
const ONE_READ: u8 = 4;
const UNIT_BYTES: usize = 256;
const PROPORTION: f64 = 4.0;
/// Of a nanosecond.
const PARTS: f64 = 4096.0;

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: Ways = Ways { head_start_ns: 1700.0, piece_byte_ns: 0.045, read_byte_ns: 0.048 };
    const LONG: usize = Ways::PIECES_BYTES_MAX;
    const PIECE: usize = 16 << 10;

    /// So many long messages; those that are to come in pieces take so long for each byte.
    fn messages(pace: &mut Pace, count: usize, byte_ns: f64) -> usize {
        (0..count)
            .filter(|_| {
                let is_asked = pace.prefers_pieces(&WAYS, LONG, PIECE);
                if pace.times(PIECE) {
                    pace.timed(PIECE, byte_ns * PIECE as f64);
                }
                is_asked
            })
            .count()
    }

    #[test]
    fn the_way_follows_what_copies_take() {
        let mut pace = Pace::default();
        assert!(pace.prefers_pieces(&WAYS, LONG, PIECE), "as it is said before any was timed");
        assert!(!pace.prefers_pieces(&WAYS, LONG + 1, PIECE), "a ring has no room for it");
        messages(&mut pace, 100, 0.2);
        assert!(!pace.prefers_pieces(&WAYS, LONG, PIECE));
        assert!(pace.prefers_pieces(&WAYS, 8 << 10, PIECE), "a read takes long to begin");
        messages(&mut pace, 640, 0.04);
        assert_eq!(messages(&mut pace, 100, 0.04), 100, "they are quick again");
    }

    #[test]
    fn where_they_were_slow_they_are_tried_again() {
        let mut pace = Pace::default();
        messages(&mut pace, 100, 0.2);
        assert_eq!(messages(&mut pace, 640, 0.2), 10);
        let never = Ways { piece_byte_ns: 1.0, ..WAYS };
        assert!((0..640).all(|_| !Pace::default().prefers_pieces(&never, LONG, PIECE)));
    }

    #[test]
    fn an_interruption_counts_little_be_it_the_first() {
        let mut pace = Pace::default();
        assert!(pace.prefers_pieces(&WAYS, LONG, PIECE));
        pace.timed(16 << 10, 1e7);
        assert!(pace.piece_byte_ns(&WAYS) <= 2.0 * WAYS.piece_byte_ns);
        pace.timed(16 << 10, 0.04 * f64::from(16 << 10));
        assert!(pace.piece_byte_ns(&WAYS) < 1.5 * WAYS.piece_byte_ns);
    }

    #[test]
    fn the_first_piece_of_some_messages_is_timed_unless_the_message_is_read() {
        let mut pace = Pace::default();
        assert!(!pace.times(16 << 10), "nothing was asked for");
        assert!(pace.prefers_pieces(&WAYS, LONG, PIECE));
        assert!(!pace.times(8 << 10) && pace.times(16 << 10));
        pace.is_read();
        assert!(!pace.times(16 << 10), "it is dropped");
        assert!((1..ONE_READ).all(|_| pace.prefers_pieces(&WAYS, LONG, PIECE)));
        assert!(!pace.times(16 << 10), "one of some was due");
        assert!(pace.prefers_pieces(&WAYS, 10_000, PIECE));
        assert!(pace.times(10_000), "all of it is one piece");
        pace.timed(10_000, 400.0);
        assert!(!pace.times(10_000));
    }
}
