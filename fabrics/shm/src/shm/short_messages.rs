//! Messages: short messages that stand in a single-slot channel of the pair instead of its ring.

use super::{LINES_BEFORE_SINGLE_SLOT, Pair, Shm, ShmLane, wake_if_asleep};
use crate::channel::Channel;
use crate::layout::{LINE_PAYLOAD, PAGE, SINGLE_SLOT_OFFERED, WAITING};

impl Shm {
    /// Offers the pair's single-slot channel once both have spoken for a while, sees whether it was accepted,
    /// and gets it memory for a payload of so many bytes. Where there is no memory, rings do.
    pub(super) fn attend_single_slot(&mut self, lane: ShmLane, bytes: usize) {
        let memory = self.segment.memory();
        let pair = &mut self.pairs[lane.index as usize];
        let Channel { producer, single_slot, .. } = &mut pair.channel;
        let short_message_bytes_max = self.segment.layout().ring.short_message_bytes_max();
        if single_slot.is_ours() && !single_slot.takes(bytes) && bytes <= short_message_bytes_max {
            if self.segment.reserve(single_slot.at(), LINE_PAYLOAD + short_message_bytes_max).is_ok() {
                single_slot.reserved(short_message_bytes_max);
            }
        } else if single_slot.is_offered() && producer.is_mailed(memory) {
            single_slot.accepted();
        } else if single_slot.is_unused()
            && self.here < pair.process_slot_number
            && producer.lines_passed() >= LINES_BEFORE_SINGLE_SLOT
            && pair.is_heard
            && self.segment.reserve(single_slot.at(), PAGE).is_ok()
        {
            single_slot.reserved(PAGE - LINE_PAYLOAD);
            single_slot.offered();
            producer.offer_single_slot(memory);
        }
    }

    /// The peer of a lane has something to say as the writer of its ring.
    #[cold]
    pub(super) fn attend_writer(&mut self, lane: ShmLane, says: u32) {
        let Pair { process_slot, process_slot_number, channel, .. } = &mut self.pairs[lane.index as usize];
        if says & WAITING != 0 {
            wake_if_asleep(self.segment.memory(), *process_slot);
        }
        if says & SINGLE_SLOT_OFFERED != 0
            && *process_slot_number < self.here
            && channel.single_slot.is_unused()
        {
            channel.single_slot.reserved(PAGE - LINE_PAYLOAD);
            channel.single_slot.accept();
            channel.consumer.accept_single_slot(self.segment.memory());
        }
    }
}
