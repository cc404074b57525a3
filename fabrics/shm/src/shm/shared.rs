//! Large messages that both sides copy at once, see [`Share`].

use fabric::{Brought, Exposed, Fabric, Payload, Pulled, PulledShared, UserMemory};

use super::{Pull, Shm, ShmLane};
use crate::cma;
use crate::heap;
use crate::share::{End, Share};

impl Shm {
    /// The copy that the peer of a lane sends and this process receives, by the ring from there.
    fn share_from(&self, lane: ShmLane, ticket: u16, bytes: usize) -> Option<Share> {
        let place = self.outgoing[lane.index as usize].incoming;
        let incoming = self.incoming.get(place as usize)?;
        Some(Share { ring_at: incoming.consumer.at(), ticket, bytes })
    }

    /// See [`Fabric::invite`].
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

    /// See [`Fabric::pull_shared`].
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
        let mut own = 0;
        while let Some(part) = share.claim(self.segment.memory(), End::Front) {
            let mut room = into.part(part.offset, part.bytes);
            let pulled = self.pull(lane, exposed, part.offset, &mut room, 0);
            if pulled == Pulled::Refused {
                return PulledShared::Refused { peer_brings: share.close(self.segment.memory()) };
            }
            own += part.bytes;
        }
        PulledShared::Own(own)
    }

    /// See [`Fabric::bring`].
    pub(super) fn bring_back(&mut self, lane: ShmLane, invitation: Exposed, memory: Payload<'_>) -> Brought {
        let mut brought = Brought { claimed: false, bytes: 0 };
        let outgoing = &self.outgoing[lane.index as usize];
        let (ticket, bytes) = ticket_and_bytes(invitation);
        let Pull::Allowed(pid) = self.puller(outgoing) else { return brought };
        if bytes > memory.bytes() {
            return brought;
        }
        let share = Share { ring_at: outgoing.producer.at(), ticket, bytes };
        while let Some(part) = share.claim(self.segment.memory(), End::Back) {
            brought.claimed = true;
            let written = invitation.words[0].checked_add(part.offset as u64).is_some_and(|address| {
                cma::write(pid, address, memory.part(part.offset, part.bytes)).is_ok()
            });
            if !written {
                outgoing.pull.set(Pull::Refused);
                break;
            }
            brought.bytes += part.bytes;
        }
        brought
    }
}

/// The two words of an invitation: where the receiver's memory is, and the ticket above the length.
fn invitation(address: u64, share: &Share) -> Exposed {
    Exposed { words: [address, u64::from(share.ticket) << 48 | share.bytes as u64] }
}

fn ticket_and_bytes(invitation: Exposed) -> (u16, usize) {
    let word = invitation.words[1];
    ((word >> 48) as u16, (word & SHARED_BYTES_MAX) as usize)
}

/// Up to here one side copies faster alone.
pub(super) const SHARED_BYTES_MIN: usize = 32 << 10;
/// What an invitation can say.
const SHARED_BYTES_MAX: u64 = (1 << 48) - 1;
