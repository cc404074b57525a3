//! What is left in the segment of a process that has ended.

use super::Shm;

impl Shm {
    /// Gives back the memory of the rings between the process of a process slot, which has ended, and this
    /// one; and of those with others that have ended a while ago, as these cannot. Nobody looks at them any
    /// more: this process sends nothing there, and hears nothing.
    pub(super) fn release_rings(&self, process_slot: u32) {
        self.release_pair(self.here, process_slot);
        let others = self.lost.iter().rev().filter(|&&other| other != process_slot);
        others.take(OTHERS_MAX).for_each(|&other| self.release_pair(other, process_slot));
    }

    fn release_pair(&self, one: u32, other: u32) {
        let layout = self.segment.layout();
        for at in [layout.ring_at(one, other), layout.ring_at(other, one)] {
            self.segment.release(at, layout.ring.bytes());
        }
    }
}

/// Of those who have died together, one after the other, each is buried here; this many before it may have
/// been of its time.
const OTHERS_MAX: usize = 8;

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsRawFd;

    use fabric::{Fabric, FabricError, Fault, Header, Payload, Peer, Posted};

    use super::super::tests::Losses;
    use super::super::{Settings, Shm};
    use crate::anonymous::anew;
    use crate::segment::Segment;

    fn error() -> FabricError {
        FabricError { fabric: "test", fault: Fault::Died, what: String::new() }
    }

    #[test]
    fn the_memory_of_pairs_with_the_dead_comes_back_and_no_other() {
        let file = Segment::create(4).unwrap();
        let mut all: Vec<Shm> = (0..4)
            .map(|process_slot| {
                let segment = Segment::adopt(anew(file.as_raw_fd()).unwrap(), 4).unwrap();
                Shm::open(segment, process_slot, (0..4).map(Peer).collect(), Settings::default()).unwrap()
            })
            .collect();
        let blocks = || rustix::fs::fstat(&file).unwrap().st_blocks;
        let before = blocks();
        static DATA: [u8; 500] = [7; 500];
        let speak = |all: &mut Vec<Shm>, from: usize, to: usize| {
            let address = all[to].address();
            let lane = all[from].connect(Peer(to as u32), &address).unwrap();
            assert_eq!(all[from].post(lane, &Header::default(), Payload::from(&DATA[..])), Posted::Sent);
        };
        speak(&mut all, 0, 1);
        let one = blocks() - before;
        assert!(one > 0);
        for (from, to) in [(1, 0), (0, 2), (2, 0), (1, 2), (2, 1), (3, 1), (1, 3), (3, 2), (0, 3)] {
            speak(&mut all, from, to);
        }
        assert_eq!(blocks() - before, 10 * one);
        let mut losses = Losses::default();
        for survivor in [0, 3] {
            all[survivor].poll(&mut losses, 64);
            for dead in [1, 2] {
                assert!(all[survivor].bury(Peer(dead), error()));
            }
            all[survivor].poll(&mut losses, 64);
        }
        assert_eq!(blocks() - before, one, "what goes between the living stays");
        assert_eq!(losses.0.len(), 4);
    }
}
