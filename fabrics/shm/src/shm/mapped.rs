//! Reading what a peer has allocated in its heap: mapped, and copied once.

use fabric::{FabricError, Fault, Pulled, UserMemory};

use super::{Pair, Shm, ShmLane};
use crate::heap::{SharedHeap, Unread};

impl Shm {
    /// The heap of this process: what is sent from there is read by others in one copy, without permission.
    #[must_use]
    pub fn heap(&self) -> SharedHeap {
        self.heap.clone()
    }

    /// Fills `into` with what the peer has at `at` of the file and `offset` behind it, of `bytes` bytes in
    /// all.
    pub(super) fn pull_mapped(
        &mut self,
        lane: ShmLane,
        at: u64,
        bytes: u64,
        offset: usize,
        into: &mut UserMemory,
    ) -> Pulled {
        let Pair { peer, process_slot_number: process_slot, .. } = self.pairs[lane.index as usize];
        let inside = (offset as u64).checked_add(into.bytes() as u64).is_some_and(|end| end <= bytes);
        let window = self.windows.entry(process_slot).or_default();
        let read = match at.checked_add(offset as u64).filter(|_| inside) {
            Some(at) => window.read(&self.segment, process_slot, at, into),
            None => Err(Unread::Stray),
        };
        match read {
            Ok(()) => Pulled::Done,
            Err(Unread::Refused) => Pulled::Refused,
            Err(Unread::Stray) => {
                let error = stray(&self.describe(peer), at, bytes);
                self.lose(peer, error);
                Pulled::Refused
            }
        }
    }
}

fn stray(whom: &str, at: u64, bytes: u64) -> FabricError {
    FabricError {
        fabric: "shm",
        fault: Fault::Protocol,
        what: format!(
            "{whom} has offered {bytes} bytes at {at:#x} of the shared memory, which are not its own\n\
             Look there for a stray write (an out-of-bounds array, a freed buffer) in the program"
        ),
    }
}

#[cfg(test)]
mod tests {
    use fabric::{Exposed, Fabric, Header, Heap, Payload, Peer, Sink};

    use super::*;
    use crate::heap::described;
    use crate::segment::Segment;
    use crate::shm::Settings;

    fn pair() -> (Shm, ShmLane, Shm) {
        let segment = Segment::adopt(Segment::create(2).unwrap(), 2).unwrap();
        // Without permission to read each other's memory.
        let settings = Settings { pull: false, ..Settings::default() };
        let open = |process_slot| {
            Shm::open(segment.clone(), process_slot, vec![Peer(0), Peer(1)], settings).unwrap()
        };
        let (mut here, there) = (open(0), open(1));
        let lane = here.connect(Peer(1), &there.address()).unwrap();
        (here, lane, there)
    }

    fn block(shm: &Shm, bytes: usize, value: u8) -> Payload<'static> {
        let start = shm.heap().take(bytes, 64).unwrap().unwrap();
        crate::memory::claim_to_write_for_tests(start, bytes)
            .write_at(0, Payload::from(&vec![value; bytes][..]));
        crate::memory::claim_for_tests(start, bytes)
    }

    #[derive(Default)]
    struct LossesAlone(Vec<FabricError>);

    impl Sink for LossesAlone {
        fn message(&mut self, _from: Peer, _header: &Header, _payload: Payload<'_>) {}
        fn arriving(&mut self, _from: Peer, _header: &Header, _bytes: usize) -> UserMemory {
            UserMemory::EMPTY
        }
        fn landed(&mut self, _from: Peer) {}
        fn lost(&mut self, _peer: Peer, error: FabricError) {
            self.0.push(error);
        }
    }

    #[test]
    fn memory_of_the_heap_is_pulled_without_permission() {
        let (mut here, lane, mut there) = pair();
        let exposed = there.register_memory(lane, block(&there, 300_000, 7));
        let room = Heap::new(100_000);
        assert_eq!(here.pull(lane, exposed, 200_000, &mut room.memory(), 0), Pulled::Done);
        assert_eq!(room.payload().to_vec(), vec![7; 100_000]);
        let elsewhere = there.register_memory(lane, Payload::from(&[1u8; 64][..]));
        assert_eq!(here.pull(lane, elsewhere, 0, &mut room.memory().part(0, 64), 0), Pulled::Refused);
        let mut losses = LossesAlone::default();
        here.poll(&mut losses, 8);
        assert!(losses.0.is_empty(), "other memory is refused, and nobody is to blame: {:?}", losses.0);
    }

    #[test]
    fn a_window_grows_with_what_is_asked_for() {
        let (mut here, lane, mut there) = pair();
        let blocks = [1 << 20, 100 << 20].map(|bytes| block(&there, bytes, (bytes >> 20) as u8));
        for memory in [blocks[0], blocks[1], blocks[0]] {
            let exposed = there.register_memory(lane, memory);
            let room = Heap::new(1000);
            assert_eq!(here.pull(lane, exposed, memory.bytes() - 1000, &mut room.memory(), 0), Pulled::Done);
            assert_eq!(room.payload().to_vec(), vec![(memory.bytes() >> 20) as u8; 1000]);
        }
    }

    #[test]
    fn a_peer_that_offers_what_is_not_its_own_is_named_and_lost() {
        let offers: [fn(&Shm) -> Exposed; 5] = [
            |_| described(0, 64),
            |_| described(u64::MAX >> 1, 64),
            |shm| described(shm.segment.layout().heap_at(0), 64),
            |shm| described(shm.segment.layout().heap_at(1) + shm.segment.layout().heap_bytes - 63, 64),
            |shm| described(shm.segment.layout().heap_at(1), 63),
        ];
        for (number, offer) in offers.into_iter().enumerate() {
            let (mut here, lane, _there) = pair();
            let exposed = offer(&here);
            let room = Heap::new(64);
            assert_eq!(here.pull(lane, exposed, 0, &mut room.memory(), 0), Pulled::Refused, "offer {number}");
            let mut losses = LossesAlone::default();
            here.poll(&mut losses, 8);
            let [error] = &losses.0[..] else { panic!("offer {number}: {:?}", losses.0) };
            assert_eq!(error.fault, Fault::Protocol);
            assert!(error.what.contains("process 1 (process slot 1"), "{error}");
        }
    }

    #[test]
    fn memory_that_was_given_back_reads_as_zeros_and_is_no_fault() {
        let (mut here, lane, mut there) = pair();
        let memory = block(&there, 50_000, 9);
        let exposed = there.register_memory(lane, memory);
        assert!(there.heap().give_back(memory.start().cast_mut()));
        let room = Heap::new(50_000);
        assert_eq!(here.pull(lane, exposed, 0, &mut room.memory(), 0), Pulled::Done);
        assert_eq!(room.payload().to_vec(), vec![0; 50_000]);
    }
}
