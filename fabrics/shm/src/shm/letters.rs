//! Letters: short messages that stand in a mailbox of the pair instead of its ring.

use fabric::{Header, Payload};

use super::{LINES_BEFORE_MAILBOX, NOWHERE, Outgoing, Shm, ShmLane, wake_if_asleep};
use crate::layout::{LINE_PAYLOAD, MAILBOX_OFFERED, PAGE, WAITING};
use crate::memory::Mapped;

impl Shm {
    /// Offers the pair's mailbox once both have spoken for a while, sees whether it was accepted, and gets it memory
    /// for a payload of so many bytes. Where there is no memory, rings do.
    pub(super) fn attend_mailbox(&mut self, lane: ShmLane, bytes: usize) {
        let memory = self.segment.memory();
        let outgoing = &mut self.outgoing[lane.index as usize];
        let mailbox = &mut outgoing.mailbox;
        let letter_bytes_max = self.segment.layout().ring.letter_bytes_max();
        if mailbox.is_ours() && !mailbox.takes(bytes) && bytes <= letter_bytes_max {
            if self.segment.reserve(mailbox.at(), LINE_PAYLOAD + letter_bytes_max).is_ok() {
                mailbox.reserved(letter_bytes_max);
            }
        } else if mailbox.is_offered() && outgoing.producer.is_mailed(memory) {
            mailbox.accepted();
        } else if mailbox.is_unused()
            && self.here < outgoing.seat_number
            && outgoing.producer.lines_passed() >= LINES_BEFORE_MAILBOX
            && outgoing.incoming != NOWHERE
            && self.segment.reserve(mailbox.at(), PAGE).is_ok()
        {
            mailbox.reserved(PAGE - LINE_PAYLOAD);
            mailbox.offered();
            outgoing.producer.offer_mailbox(memory);
        }
    }

    /// The writer of a ring that we listen to has something to say.
    #[cold]
    pub(super) fn attend_writer(&mut self, index: usize, says: u32) {
        let incoming = &self.incoming[index];
        if says & WAITING != 0 {
            wake_if_asleep(self.segment.memory(), incoming.seat);
        }
        if says & MAILBOX_OFFERED != 0
            && let Some(lane) = incoming.lane()
            && self.outgoing[lane.index as usize].seat_number < self.here
        {
            let mailbox = &mut self.outgoing[lane.index as usize].mailbox;
            if mailbox.is_unused() {
                mailbox.reserved(PAGE - LINE_PAYLOAD);
                mailbox.accept();
                incoming.consumer.accept_mailbox(self.segment.memory());
            }
        }
    }
}

impl Outgoing {
    /// Sends a message through the mailbox, if it is our turn there and the message fits.
    #[inline(always)]
    pub(super) fn post_letter(&mut self, memory: &Mapped, header: &Header, payload: Payload<'_>) -> bool {
        if !self.mailbox.is_ours() || !self.mailbox.takes(payload.bytes()) || !self.producer.is_whole() {
            return false;
        }
        self.mailbox.post(memory, header, payload, self.producer.lines_passed());
        wake_if_asleep(memory, self.seat);
        true
    }
}
