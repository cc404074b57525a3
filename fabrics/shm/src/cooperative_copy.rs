//! A large message copied by both sides at once: the receiver reads parts of it out of the sender's memory
//! while the sender, who would only wait, writes other parts into the receiver's.
//!
//! Both claim parts from one cursor, a word in the ring from the sender to the receiver: the receiver from
//! the front and the sender from the back, so that when the same buffers are used again each finds its part
//! in its own cache. The receiver sets the cursor up (a new ticket, nothing claimed) before it invites the
//! sender, and claims parts itself at once: a sender that is busy elsewhere costs nothing.
//!
//! ```text
//! cursor | ticket 16 | claimed from the front 8 | claimed from the back 8 |
//! ```
//! A ticket that is not the current one claims nothing, so an invitation that is read late does no harm.

use fabric::crash;

use crate::layout::{LINE, RING_CURSOR};
use crate::memory::Memory;
use crate::sync::Ordering;

/// A transfer that two share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CooperativeCopy {
    /// Where the ring from the sender to the receiver stands.
    pub ring_at: usize,
    /// Tells this transfer from those before it.
    pub ticket: u16,
    /// Length of the message.
    pub bytes: usize,
}

/// A part of the message: offset and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it begins in the message.
    pub offset: usize,
    /// Its length in bytes, never 0.
    pub bytes: usize,
}

impl CooperativeCopy {
    /// Sets the cursor up for this transfer: the receiver's, before it invites anybody.
    pub fn begin(&self, memory: &impl Memory) {
        memory.word(self.ring_at + RING_CURSOR).swap(u32::from(self.ticket) << 16, Ordering::AcqRel);
    }

    /// Claims a part from one end; `None` when all are claimed, or the transfer is over.
    pub fn claim(&self, memory: &impl Memory, end: End) -> Option<Part> {
        let cursor = memory.word(self.ring_at + RING_CURSOR);
        let parts = self.parts();
        let mut seen = cursor.load(Ordering::Acquire);
        loop {
            let [back, front, ticket @ ..] = seen.to_le_bytes();
            if u16::from_le_bytes(ticket) != self.ticket || u32::from(front) + u32::from(back) >= parts {
                return None;
            }
            let (next, part) = match end {
                End::Front => (seen + 0x100, u32::from(front)),
                End::Back => (seen + 1, parts - 1 - u32::from(back)),
            };
            match cursor.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // The other side must not wait for a part that is claimed and never copied.
                    crash::point();
                    return Some(self.part(part));
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Ends the transfer: neither side claims a part any more. The answer is whether the sender, at the back,
    /// had claimed any.
    pub fn close(&self, memory: &impl Memory) -> bool {
        let over = u32::from(self.ticket) << 16 | 0xffff;
        let seen = memory.word(self.ring_at + RING_CURSOR).swap(over, Ordering::AcqRel);
        seen >> 16 != u32::from(self.ticket) || seen & 0xff != 0
    }

    /// How many parts the message has: two where it is short, and at most [`PARTS_MAX`].
    fn parts(&self) -> u32 {
        (self.bytes.div_ceil(PART_BYTES) as u32).clamp(2, PARTS_MAX)
    }

    fn part(&self, number: u32) -> Part {
        let whole = self.bytes.div_ceil(self.parts() as usize).next_multiple_of(LINE);
        let offset = (whole * number as usize).min(self.bytes);
        Part { offset, bytes: whole.min(self.bytes - offset) }
    }
}

/// Where a side claims its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The receiver.
    Front,
    /// The sender.
    Back,
}

/// The length, in bytes, of a part that one side copies at a time in a cooperative copy; smaller parts cost
/// more in calls than they gain in balance.
const PART_BYTES: usize = 128 << 10;
/// The cursor counts in 8 bits, from either end.
const PARTS_MAX: u32 = 128;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Mapped;

    #[test]
    fn the_parts_are_the_message() {
        for bytes in
            [2, 63, 64, 65, 4096, 100_000, 128 << 10, (256 << 10) + 1, 1 << 20, (64 << 20) - 3, 1 << 40]
        {
            let share = CooperativeCopy { ring_at: 0, ticket: 7, bytes };
            let parts: Vec<Part> = (0..share.parts()).map(|number| share.part(number)).collect();
            let mut end = 0;
            for part in parts {
                assert_eq!(part.offset, end, "{bytes} bytes");
                end += part.bytes;
            }
            assert_eq!(end, bytes);
        }
    }

    #[test]
    fn both_ends_meet_and_claim_each_part_once() {
        let memory = Mapped::heap(256);
        let share = CooperativeCopy { ring_at: 0, ticket: 7, bytes: 1 << 20 };
        share.begin(&memory);
        let mut claimed = Vec::new();
        for end in [End::Front, End::Back, End::Back, End::Front, End::Back].into_iter().cycle() {
            let Some(part) = share.claim(&memory, end) else { break };
            claimed.push((part.offset, part.bytes));
        }
        claimed.sort_unstable();
        let whole: Vec<_> = (0..8).map(|part| (part << 17, 1 << 17)).collect();
        assert_eq!(claimed, whole);
    }

    #[test]
    fn a_stale_ticket_claims_nothing() {
        let memory = Mapped::heap(256);
        let old = CooperativeCopy { ring_at: 0, ticket: 1, bytes: 1 << 20 };
        let new = CooperativeCopy { ticket: 2, ..old };
        old.begin(&memory);
        assert!(old.claim(&memory, End::Back).is_some());
        new.begin(&memory);
        assert_eq!(old.claim(&memory, End::Back), None);
        assert_eq!(new.claim(&memory, End::Front).map(|part| part.offset), Some(0));
        assert!(!new.close(&memory), "only the front was claimed");
        assert_eq!(new.claim(&memory, End::Front), None);
        assert!(old.close(&memory), "whose cursor it is now cannot be told");
    }
}
