//! What was decided for a lane and why, for people who ask. Nothing here is on the way of a message.

use fabric::Fabric;

use super::at_once::at_once_bytes_max;
use super::shared::SHARED_BYTES_MIN;
use super::{Shm, ShmLane};
use crate::choices::Ways;
use crate::cma::{self, Refusal};

/// A lane over shm, explained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// Up to here a payload is sent at once.
    pub eager_bytes_max: usize,
    /// Longer ones are sent at once, too, up to here, while there is room for all of them; 0: none.
    pub at_once_bytes_max: usize,
    /// From here on both sides copy, where larger ones are read.
    pub shared_bytes_min: usize,
    /// Whether larger ones are read out of the peer's memory.
    pub pull: PullExplained,
}

/// Why a peer's memory is read or is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PullExplained {
    /// A word of its memory was read and was the right one.
    Allowed,
    /// The settings keep from trying.
    SwitchedOff,
    /// The peer has not taken its process slot, or has left.
    NobodyThere,
    /// A pull was tried and refused.
    Refused(Refusal),
}

impl Shm {
    /// What holds for the lane now. Reading the peer's memory is tried once more, to hear the reason.
    #[must_use]
    pub fn explain(&self, lane: ShmLane) -> Explained {
        let limits = self.limits(lane);
        let pair = &self.pairs[lane.index as usize];
        let pull = match pair.process_slot.slot_owner(self.segment.memory()) {
            _ if limits.pull => PullExplained::Allowed,
            _ if !self.settings.pull => PullExplained::SwitchedOff,
            None => PullExplained::NobodyThere,
            Some(slot_owner) => match cma::try_read(&slot_owner) {
                Ok(()) => PullExplained::Allowed,
                Err(refusal) => PullExplained::Refused(refusal),
            },
        };
        let at_once = |ways: Ways| {
            let most = at_once_bytes_max(self.segment.layout().ring.data_bytes);
            most.min(ways.copied_bytes_max(pair.copied_byte_ns(&ways)))
        };
        Explained {
            eager_bytes_max: limits.eager_bytes_max,
            at_once_bytes_max: self.settings.ways.map_or(0, at_once),
            shared_bytes_min: SHARED_BYTES_MIN,
            pull,
        }
    }
}

#[cfg(test)]
mod tests {
    use fabric::Peer;

    use super::*;
    use crate::segment::Segment;
    use crate::shm::Settings;

    fn pair(settings: Settings) -> (Shm, ShmLane, Shm) {
        let segment = Segment::adopt(Segment::create(2).unwrap(), 2).unwrap();
        let open = |process_slot| {
            Shm::open(segment.clone(), process_slot, vec![Peer(0), Peer(1)], settings).unwrap()
        };
        let (mut here, there) = (open(0), open(1));
        let lane = here.connect(Peer(1), &there.address()).unwrap();
        (here, lane, there)
    }

    #[test]
    fn a_lane_says_what_was_decided_and_why() {
        let settings = Settings { eager_bytes_max: 12_345, ..Settings::default() };
        let (here, lane, _there) = pair(settings);
        let explained = here.explain(lane);
        match &explained.pull {
            // A process may read its own memory, unless a sandbox keeps it from the call altogether.
            PullExplained::Allowed => assert_eq!(explained.eager_bytes_max, 12_345),
            PullExplained::Refused(Refusal::System(_)) => {}
            other => panic!("{other:?}"),
        }
        let (here, lane, _there) = pair(Settings { pull: false, ..settings });
        assert_eq!(here.explain(lane).pull, PullExplained::SwitchedOff);
    }

    #[test]
    fn a_peer_that_has_left_is_told() {
        let (here, lane, there) = pair(Settings::default());
        drop(there);
        assert_eq!(here.explain(lane).pull, PullExplained::NobodyThere);
    }
}
