//! What members of a collective segment of two say of reads of each other's memory (docs/decisions/0005).

use fabric::UserMemory;

use super::CollectiveSegment;
use crate::cma;
use crate::sync::Ordering;

impl CollectiveSegment {
    /// Whether each of two members has found that it may read the other's memory. This one tries it when it
    /// is asked first.
    pub(super) fn both_read(&self) -> bool {
        let mut from = self.read_from.load(Ordering::Relaxed);
        if from == UNTRIED {
            from = self.try_read();
            self.read_from.store(from, Ordering::Relaxed);
            if from != REFUSED {
                self.places.say_of_reads(self.segment.memory(), READS);
            }
        }
        from != REFUSED && self.said_by_other() == READS
    }

    /// The process whose memory this one of two members may read.
    #[cold]
    fn try_read(&self) -> u32 {
        if !self.pull || self.members() != 2 {
            return REFUSED;
        }
        let slot_owner =
            self.process_slots[1 - self.places.here() as usize].slot_owner(self.segment.memory());
        slot_owner.filter(cma::can_read).map_or(REFUSED, |slot_owner| slot_owner.pid)
    }

    /// Fills `into` from that address of the other one's memory; false where that is refused. The address is
    /// the other one's claim, and the system checks it.
    pub(super) fn fetch_from_other(&self, address: u64, into: &mut UserMemory) -> bool {
        let from = self.read_from.load(Ordering::Relaxed);
        !matches!(from, UNTRIED | REFUSED) && cma::read(from, address, into).is_ok()
    }

    /// As if the system refused reads from now on, which it may any time: for tests.
    #[doc(hidden)]
    pub fn read_no_more(&self) {
        self.read_from.store(REFUSED, Ordering::Relaxed);
    }

    pub(super) fn said_by_other(&self) -> u32 {
        self.places.said_of_reads(self.segment.memory(), 1 - self.places.here())
    }
}

/// No process has these numbers.
pub(super) const UNTRIED: u32 = 0;
const REFUSED: u32 = u32::MAX;
/// What a member says of reads of the other one's memory: that it may, and that it has withdrawn; nothing at
/// first.
const READS: u32 = 1;
pub(super) const WITHDRAWN: u32 = 2;
