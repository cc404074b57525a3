//! Messages that are made where the receiver reads them: in a line, in the mailbox, or in the data area of the ring.

use fabric::{Fabric, Header, Posted, UserMemory};

use super::{Opened, Shm, ShmLane, wake_if_asleep};
use crate::layout::LINE_PAYLOAD_BYTES_MAX;

impl Shm {
    /// See [`Fabric::post_made`].
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
        if bytes > self.segment.layout().ring.piece_bytes_max as usize {
            return None;
        }
        if !self.opened(lane, Opened::All) {
            return Some(Posted::Busy);
        }
        if self.outgoing[lane.index as usize].producer.is_whole() {
            self.attend_mailbox(lane, bytes);
        }
        let memory = self.segment.memory();
        let outgoing = &mut self.outgoing[lane.index as usize];
        if outgoing.mailbox.takes(bytes) && outgoing.producer.is_whole() {
            outgoing.mailbox.post_made(memory, header, bytes, outgoing.producer.lines_passed(), write);
            wake_if_asleep(memory, outgoing.seat);
            return Some(Posted::Sent);
        }
        let posted = outgoing.producer.post_made(memory, header, bytes, write);
        Some(self.posted(lane, posted))
    }
}
