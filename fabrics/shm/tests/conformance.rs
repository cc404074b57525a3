//! The conformance suite on the shm fabric: with the rings of a small node, and with the smallest rings there
//! are, with and without reading each other's memory.

use fabric::Peer;
use fabric::conformance::Pair;
use shm::{Segment, Settings, Shm};

mod two_process_slots {
    use super::Seated;
    fabric::conformance!(Seated<2, true>);
}

mod two_process_slots_copying {
    use super::Seated;
    fabric::conformance!(Seated<2, false>);
}

mod a_crowded_node {
    use super::Seated;
    fabric::conformance!(Seated<2000, true>);
}

/// In a segment of so many seats, with or without pull.
struct Seated<const PROCESS_SLOTS: u32, const PULL: bool>;

impl<const PROCESS_SLOTS: u32, const PULL: bool> Pair for Seated<PROCESS_SLOTS, PULL> {
    type Fabric = Shm;

    fn pair() -> (Shm, Shm) {
        let file = Segment::create(PROCESS_SLOTS).expect("a segment is made");
        let segment = Segment::adopt(file, PROCESS_SLOTS).expect("and adopted");
        let open = |process_slot| {
            let peers = vec![Peer(0), Peer(1)];
            let settings = Settings { pull: PULL, ..Settings::default() };
            Shm::open(segment.clone(), process_slot, peers, settings).expect("the seat is free")
        };
        (open(0), open(1))
    }
}
