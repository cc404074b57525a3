//! Messages: short messages that stand in a single-slot channel of the pair instead of its ring.

use super::{LINES_BEFORE_MAILBOX, Pair, Shm, ShmLane, wake_if_asleep};
use crate::channel::Channel;
use crate::layout::{LINE_PAYLOAD, MAILBOX_OFFERED, PAGE, WAITING};

impl Shm {
    /// Offers the pair's single-slot channel once both have spoken for a while, sees whether it was accepted,
    /// and gets it memory for a payload of so many bytes. Where there is no memory, rings do.
    pub(super) fn attend_mailbox(&mut self, lane: ShmLane, bytes: usize) {
        let memory = self.segment.memory();
        let pair = &mut self.pairs[lane.index as usize];
        let Channel { producer, mailbox, .. } = &mut pair.channel;
        let letter_bytes_max = self.segment.layout().ring.letter_bytes_max();
        if mailbox.is_ours() && !mailbox.takes(bytes) && bytes <= letter_bytes_max {
            if self.segment.reserve(mailbox.at(), LINE_PAYLOAD + letter_bytes_max).is_ok() {
                mailbox.reserved(letter_bytes_max);
            }
        } else if mailbox.is_offered() && producer.is_mailed(memory) {
            mailbox.accepted();
        } else if mailbox.is_unused()
            && self.here < pair.seat_number
            && producer.lines_passed() >= LINES_BEFORE_MAILBOX
            && pair.is_heard
            && self.segment.reserve(mailbox.at(), PAGE).is_ok()
        {
            mailbox.reserved(PAGE - LINE_PAYLOAD);
            mailbox.offered();
            producer.offer_mailbox(memory);
        }
    }

    /// The peer of a lane has something to say as the writer of its ring.
    #[cold]
    pub(super) fn attend_writer(&mut self, lane: ShmLane, says: u32) {
        let Pair { seat, seat_number, channel, .. } = &mut self.pairs[lane.index as usize];
        if says & WAITING != 0 {
            wake_if_asleep(self.segment.memory(), *seat);
        }
        if says & MAILBOX_OFFERED != 0 && *seat_number < self.here && channel.mailbox.is_unused() {
            channel.mailbox.reserved(PAGE - LINE_PAYLOAD);
            channel.mailbox.accept();
            channel.consumer.accept_mailbox(self.segment.memory());
        }
    }
}
