//! Messages that are made where the receiver reads them: in a line, in the single-slot channel, or in the
//! data area of the ring.

use fabric::{Fabric, Header, Posted, UserMemory};

use super::{Opened, Shm, ShmLane};
use crate::layout::LINE_PAYLOAD_BYTES_MAX;

impl Shm {
    /// Implements [`Fabric::post_made`]: `write` fills `bytes` bytes where the receiver reads them, in a
    /// line, in the single-slot channel or in the ring's data area. `None` where `bytes` is more than one
    /// chunk of the ring holds.
    pub(super) fn make_and_post(
        &mut self,
        lane: ShmLane,
        header: &Header,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) -> Option<Posted> {
        if bytes <= LINE_PAYLOAD_BYTES_MAX {
            let mut small = [0; LINE_PAYLOAD_BYTES_MAX];
            let payload = fabric::made(&mut small[..bytes], write);
            return Some(self.post(lane, header, payload));
        }
        if bytes > self.segment.layout().ring.chunk_bytes_max as usize {
            return None;
        }
        if !self.opened(lane, Opened::All) {
            return Some(Posted::Busy);
        }
        if self.pairs[lane.index as usize].channel.producer.is_whole() {
            self.attend_single_slot(lane, bytes);
        }
        let channel = &mut self.pairs[lane.index as usize].channel;
        let posted = channel.post_made(self.segment.memory(), header, bytes, write);
        Some(self.posted(lane, posted))
    }
}
