//! Whether a long message comes in pieces, through the ring, or is read.

use fabric::Exposed;

use super::{Pull, Shm, ShmLane};
use crate::heap;
use crate::pace::{Pace, Ways};

impl Shm {
    /// See [`fabric::Fabric::prefers_pieces`].
    pub(super) fn rather_in_pieces(&mut self, lane: ShmLane, exposed: Exposed, bytes: usize) -> bool {
        let Some(ways) = self.settings.ways else { return false };
        // What is mapped is copied once, and needs nobody else.
        if heap::place(exposed).is_some()
            || !matches!(self.puller(&self.outgoing[lane.index as usize]), Pull::Allowed(_))
        {
            return false;
        }
        let piece_bytes_max = self.segment.layout().ring.piece_bytes_max as usize;
        self.pace(lane).is_some_and(|pace| pace.prefers_pieces(&ways, bytes, piece_bytes_max))
    }

    /// What is known of pieces that come from a lane's peer; none before it has spoken.
    pub(super) fn pace(&mut self, lane: ShmLane) -> Option<&mut Pace> {
        let incoming = self.outgoing[lane.index as usize].incoming;
        self.incoming.get_mut(incoming as usize).map(|incoming| &mut incoming.pace)
    }
}

/// None where a ring has no room for a message in pieces beside others.
pub(super) fn ways_of(ways: Option<Ways>, ring_data_bytes: u32) -> Option<Ways> {
    ways.filter(|_| ring_data_bytes as usize >= 2 * Ways::PIECES_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn small_rings_are_not_for_pieces() {
        let ways = Ways { head_start_ns: 1.0, piece_byte_ns: 1.0, read_byte_ns: 1.0 };
        let of = |seats| ways_of(Some(ways), Layout::new(seats).unwrap().ring.data_bytes);
        assert_eq!((of(4), of(16), of(17)), (Some(ways), Some(ways), None));
    }
}
