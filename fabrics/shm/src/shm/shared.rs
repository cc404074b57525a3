//! Large messages that both sides copy at once, see [`CooperativeCopy`].

use std::time::Instant;

use fabric::{Brought, Exposed, Fabric, Payload, Pulled, PulledShared, UserMemory};

use super::{Pull, Settings, Shm, ShmLane};
use crate::choices::PullOrPush;
use crate::cma;
use crate::cooperative_copy::{CooperativeCopy, End};
use crate::heap;

impl Shm {
    /// The copy that the peer of a lane sends and this process receives, by the ring from there.
    fn share_from(&self, lane: ShmLane, ticket: u16, bytes: usize) -> Option<CooperativeCopy> {
        let pair = &self.pairs[lane.index as usize];
        pair.is_heard.then(|| CooperativeCopy { ring_at: pair.channel.consumer.at(), ticket, bytes })
    }

    /// Implements [`Fabric::invite`]: sets up a cooperative copy of `into.bytes()` bytes under a new ticket,
    /// and describes it for the sender. `None` where the message lies in a shared heap, where its length is
    /// not between `SHARED_BYTES_MIN` and `SHARED_BYTES_MAX`, or where the peer has never spoken.
    pub(super) fn invite_to_share(
        &mut self,
        lane: ShmLane,
        exposed: Exposed,
        into: &UserMemory,
    ) -> Option<Exposed> {
        let bytes = into.bytes();
        if heap::place(exposed).is_some() || bytes < SHARED_BYTES_MIN || bytes as u64 > SHARED_BYTES_MAX {
            return None;
        }
        self.tickets = self.tickets.wrapping_add(1);
        let share = self.share_from(lane, self.tickets, bytes)?;
        share.begin(self.segment.memory());
        Some(invitation(into.start().expose_provenance() as u64, &share))
    }

    /// Implements [`Fabric::pull_shared`]: claims parts of the cooperative copy from the front and reads them
    /// into `into`, until all parts are claimed. [`PulledShared::Own`] has the number of bytes read here.
    /// Refused where the kernel refuses a read, or the peer has never spoken.
    pub(super) fn pull_front(
        &mut self,
        lane: ShmLane,
        exposed: Exposed,
        invitation: Exposed,
        into: &mut UserMemory,
    ) -> PulledShared {
        let (ticket, bytes) = ticket_and_bytes(invitation);
        let Some(share) = self.share_from(lane, ticket, bytes) else {
            return PulledShared::Refused { peer_brings: false };
        };
        let since = PullOrPush::concerns(bytes).then(Instant::now);
        let mut own = 0;
        while let Some(part) = share.claim(self.segment.memory(), End::Front) {
            let mut room = into.part(part.offset, part.bytes);
            let pulled = self.pull(lane, exposed, part.offset, &mut room, 0);
            if pulled == Pulled::Refused {
                return PulledShared::Refused { peer_brings: share.close(self.segment.memory()) };
            }
            own += part.bytes;
        }
        // Where nobody came to help it says nothing of a sender who would.
        if own < bytes
            && let (Some(since), Some(choices)) = (since, self.pairs[lane.index as usize].choices())
        {
            choices.longer.pulled(bytes, since.elapsed().as_nanos() as f64);
        }
        PulledShared::Own(own)
    }

    /// Implements [`Fabric::rather_posted`]: whether the sender is expected to push `bytes` bytes through the
    /// ring sooner than this process pulls them. False where nothing was measured, this process has no core
    /// of its own, the message lies in a shared heap, or the sender seems to sleep.
    pub(super) fn is_rather_posted(&mut self, lane: ShmLane, exposed: Exposed, bytes: usize) -> bool {
        let Settings { ways, has_core, .. } = self.settings;
        // What is mapped is copied once.
        if ways.is_none() || !has_core || !PullOrPush::concerns(bytes) || heap::place(exposed).is_some() {
            return false;
        }
        let sender = &mut self.pairs[lane.index as usize];
        !sender.process_slot.seems_asleep(self.segment.memory())
            && sender.known_choices().is_some_and(|choices| choices.longer.rather_pushed(bytes))
    }

    /// Implements [`Fabric::bring`]: claims parts of the cooperative copy from the back and writes them into
    /// the receiver's memory, until all parts are claimed. Claims nothing where this process may not reach
    /// that memory, or where the offer is longer than `memory`. Stops at the first write that the kernel
    /// refuses; the peer's memory is not tried again then.
    pub(super) fn bring_back(&mut self, lane: ShmLane, invitation: Exposed, memory: Payload<'_>) -> Brought {
        let mut brought = Brought { claimed: false, bytes: 0 };
        let pair = &self.pairs[lane.index as usize];
        let (ticket, bytes) = ticket_and_bytes(invitation);
        let Pull::Allowed(pid) = self.puller(pair) else { return brought };
        if bytes > memory.bytes() {
            return brought;
        }
        let share = CooperativeCopy { ring_at: pair.channel.producer.at(), ticket, bytes };
        while let Some(part) = share.claim(self.segment.memory(), End::Back) {
            brought.claimed = true;
            let written = invitation.words[0].checked_add(part.offset as u64).is_some_and(|address| {
                cma::write(pid, address, memory.part(part.offset, part.bytes)).is_ok()
            });
            if !written {
                pair.pull.set(Pull::Refused);
                break;
            }
            brought.bytes += part.bytes;
        }
        brought
    }
}

/// The two words of an invitation: where the receiver's memory is, and the ticket above the length.
fn invitation(address: u64, share: &CooperativeCopy) -> Exposed {
    Exposed { words: [address, u64::from(share.ticket) << 48 | share.bytes as u64] }
}

fn ticket_and_bytes(invitation: Exposed) -> (u16, usize) {
    let word = invitation.words[1];
    ((word >> 48) as u16, (word & SHARED_BYTES_MAX) as usize)
}

/// The shortest message, in bytes, that both sides copy together; a shorter one is copied faster by one side.
pub(super) const SHARED_BYTES_MIN: usize = 32 << 10;
/// What an invitation can say.
const SHARED_BYTES_MAX: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use fabric::{Bell, Heap};

    use super::super::at_once::tests::pair;
    use super::*;
    use crate::choices::Ways;

    const LONG: usize = Ways::COPIED_BYTES_MAX + 1;

    #[test]
    fn who_waits_is_asked_to_post_where_that_was_quicker() {
        let Some((mut ends, lanes)) = pair(4, Some(Ways::COPIES)) else { return };
        let [receiver, sender] = &mut ends;
        let (bytes, into) = (vec![7; LONG], Heap::new(LONG));
        let exposed = sender.register_memory(lanes[1], Payload::from(&bytes[..]));
        let lane = lanes[0];
        assert!(!receiver.rather_posted(lane, exposed, LONG), "nothing was pulled yet");

        let invited = receiver.invite(lane, exposed, &into.memory()).expect("it is long");
        assert_eq!(sender.bring(lanes[1], invited, Payload::from(&bytes[..])).bytes, LONG);
        let pulled = receiver.pull_shared(lane, exposed, invited, &mut into.memory());
        assert_eq!(pulled, PulledShared::Own(0), "all of it was brought");
        assert!((0..10).any(|_| receiver.rather_posted(lane, exposed, LONG)), "it is tried");
        let mut took = |pulled_ns: f64, posted_ns: f64| {
            let longer = &mut receiver.pairs[lane.index as usize].choices().expect("it has spoken").longer;
            for _ in 0..64 {
                longer.pulled(LONG, pulled_ns * LONG as f64);
                longer.pushed(LONG, posted_ns * LONG as f64);
            }
            (0..10).filter(|_| receiver.rather_posted(lane, exposed, LONG)).count()
        };
        assert!(took(1.0, 2.0) <= 1);
        assert!(took(1.0, 0.5) >= 9);
        assert!(!receiver.rather_posted(lane, exposed, LONG - 1), "too short");

        let bell = sender.bell();
        bell.arm();
        assert!((0..10).all(|_| !receiver.rather_posted(lane, exposed, LONG)), "the sender sleeps");
        bell.disarm();
        if let Ok(Some(start)) = sender.heap().take(LONG, 64) {
            let mapped = sender.register_memory(lanes[1], crate::memory::claim_for_tests(start, LONG));
            assert!((0..10).all(|_| !receiver.rather_posted(lane, mapped, LONG)), "it is mapped");
        }
    }

    #[test]
    fn nobody_is_asked_to_post_where_cores_are_shared() {
        let Some((mut ends, lanes)) = pair(4, None) else { return };
        let _ = ends[0].pairs[lanes[0].index as usize].choices().expect("it has spoken");
        let exposed = ends[1].register_memory(lanes[1], Payload::from(&[0; LONG][..]));
        assert!((0..64).all(|_| !ends[0].rather_posted(lanes[0], exposed, LONG)));
    }
}
