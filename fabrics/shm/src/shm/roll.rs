//! The roll of this node's processes: who has died is lost.

use fabric::Peer;

use super::Shm;
use super::trouble::has_died;
use crate::process_slot::ProcessSlot;

impl Shm {
    /// Notes the processes that have ended without a word; the next poll reports them.
    #[cold]
    pub(super) fn look_who_is_there(&mut self) {
        let Shm { segment, roll, lost, here, peers, .. } = self;
        let is_claimed = |process_slot: u32| {
            ProcessSlot::at(segment.layout().process_slot_at(process_slot)).is_claimed(segment.memory())
        };
        let others = || {
            (0..peers.len() as u32)
                .filter(|process_slot| process_slot != here && !lost.contains(process_slot))
        };
        let ended =
            roll.call(segment.file(), || others().filter(|&process_slot| is_claimed(process_slot)).collect());
        // Who has gone in good order since is not missed.
        let ended: Vec<Peer> = ended
            .into_iter()
            .filter(|&process_slot| is_claimed(process_slot))
            .map(|process_slot| peers[process_slot as usize])
            .collect();
        for peer in ended {
            self.lose(peer, has_died(&self.describe(peer)));
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use fabric::{Fabric, Fault, Header, Payload, Posted};

    use super::super::Settings;
    use super::super::tests::Losses;
    use super::*;
    use crate::anonymous::anew;
    use crate::presence;
    use crate::segment::Segment;

    /// A process in all but name: it has a description of its own.
    fn process(file: &OwnedFd, process_slot: u32) -> Shm {
        let segment = Segment::adopt(anew(file.as_raw_fd()).unwrap(), 3).unwrap();
        Shm::open(segment, process_slot, (100..103).map(Peer).collect(), Settings::default()).unwrap()
    }

    fn call(shm: &mut Shm) {
        shm.roll.hurry();
        shm.call_roll();
    }

    /// Leaves everything as a process does that is killed: its process slot as it was, and its lock gone.
    fn kill(shm: Shm, witness: &Shm) {
        let (segment, number, process_slot, slot_owner) =
            (shm.segment.clone(), shm.here, shm.process_slot, shm._probe.slot_owner());
        drop(shm);
        process_slot.sit(segment.memory(), &slot_owner, true);
        drop(segment);
        presence::until_gone(witness.segment.file(), number);
    }

    #[test]
    fn who_dies_is_lost_once_and_what_it_has_sent_is_received() {
        let file = Segment::create(3).unwrap();
        let (mut here, mut there, other) = (process(&file, 0), process(&file, 1), process(&file, 2));
        let lane = there.connect(Peer(100), &here.address()).unwrap();
        let mut losses = Losses::default();
        for _ in 0..3 {
            call(&mut here);
        }
        assert_eq!(here.poll(&mut losses, 8), 0, "all are there");
        assert_eq!(there.post(lane, &Header::default(), Payload::EMPTY), Posted::Sent);
        kill(there, &here);
        call(&mut here);
        assert_eq!(here.poll(&mut losses, 8), 1, "its last message");
        assert!(losses.0.is_empty());
        call(&mut here);
        assert_eq!(here.poll(&mut losses, 8), 1);
        let [(Peer(101), error)] = &losses.0[..] else { panic!("{:?}", losses.0) };
        assert_eq!(error.fault, Fault::Died);
        assert!(error.what.contains("process 101 (process slot 1 of this node, pid"), "{error}");
        drop(other);
        for _ in 0..3 {
            call(&mut here);
        }
        assert_eq!(here.poll(&mut losses, 8), 0, "told once, and who goes in good order is not missed");
    }

    #[test]
    fn a_silent_peer_is_missed_too() {
        let file = Segment::create(3).unwrap();
        let (mut here, there) = (process(&file, 0), process(&file, 2));
        kill(there, &here);
        call(&mut here);
        call(&mut here);
        let mut losses = Losses::default();
        assert_eq!(here.poll(&mut losses, 8), 1);
        assert_eq!(losses.0[0].0, Peer(102));
    }
}
