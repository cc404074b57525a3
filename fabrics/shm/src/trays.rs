//! Trays: what two members of a board pass to each other in pieces that are too long for its entries.
//!
//! A piece stands in a tray, and an entry of the board says that it is there. Trays come in pairs, and the pairs take turns; of a
//! pair each member has one, **and they swap with each turn:** who has taken a piece out of a tray puts its next one there. So a
//! member writes lines that it has read last, which costs less than to write those that it has written and the other has
//! read, and needs no word of the other that the tray is free. docs/decisions/0059 has the figures.

use fabric::{Payload, crash};

use crate::layout::{TRAY_BYTES, TRAYS};
use crate::memory::Memory;

/// The trays of a board of two, as one of its members sees them.
#[derive(Clone, Copy)]
pub struct Trays {
    /// Where they stand.
    at: usize,
    /// This member's place on the board.
    here: u32,
}

impl Trays {
    /// How many pieces ahead of what it has taken out a member may be that gets as many as it gives.
    pub const AHEAD: u32 = TRAYS;
    /// After so many pieces a member comes back to the same tray: those it has given before must be taken out by then.
    pub const ROUND: u32 = 2 * TRAYS;
    /// The longest piece.
    pub const PIECE_BYTES_MAX: usize = TRAY_BYTES;

    pub fn new(at: usize, here: u32) -> Trays {
        Trays { at, here }
    }

    /// Puts a piece into this member's tray of that number; as much of it as there is room for.
    #[inline]
    pub fn put(&self, memory: &impl Memory, number: u32, piece: Payload<'_>) {
        crash::point();
        memory.put(self.tray_at(self.here, number), piece.part(0, TRAY_BYTES));
    }

    /// Lends so many bytes of what stands in the other member's tray of that number; no more than a tray holds.
    #[inline]
    pub fn read<R>(
        &self,
        memory: &impl Memory,
        number: u32,
        bytes: usize,
        reader: impl FnOnce(Payload<'_>) -> R,
    ) -> R {
        memory.read(self.tray_at(1 - self.here, number), bytes.min(TRAY_BYTES), reader)
    }

    /// Where the tray stands that is that member's in the turn of that number. There is an odd number of pairs, so that members who
    /// give one piece each in turn come to write what they have read, too. Where numbers come round, a pair may come twice in
    /// a row: members [renew](crate::Course::is_renewal_due) their places there, and all that was given is taken then.
    #[inline(always)]
    fn tray_at(&self, place: u32, number: u32) -> usize {
        let (pair, turn) = (number % TRAYS, number / TRAYS);
        let side = (turn & 1) ^ place;
        self.at + (2 * pair + side) as usize * TRAY_BYTES
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn members_swap_trays_with_each_turn() {
        let [one, other] = [0, 1].map(|here| Trays::new(4096, here));
        // Where numbers come round all begins anew: nothing is in a tray then.
        for number in (0..3 * Trays::ROUND).chain(u32::MAX - 3 * Trays::ROUND..u32::MAX - Trays::ROUND) {
            let next = number + Trays::AHEAD;
            assert_eq!(one.tray_at(0, number), one.tray_at(1, next), "{number:#x}");
            assert_eq!(one.tray_at(1, number), one.tray_at(0, next), "{number:#x}");
            assert_eq!(one.tray_at(0, number), other.tray_at(0, number));
            assert_eq!(one.tray_at(0, number), one.tray_at(0, number + Trays::ROUND));
        }
        let places: std::collections::HashSet<usize> =
            (0..Trays::AHEAD).flat_map(|number| [0, 1].map(|place| one.tray_at(place, number))).collect();
        assert_eq!(places.len(), Trays::ROUND as usize, "each has a tray of its own in each turn");
    }
}
