//! The conformance suite on the shm fabric: with the rings of a small node, and with the smallest rings there
//! are, with and without reading each other's memory.

use fabric::conformance::Pair;
use fabric::{
    Cost, Exposed, Fabric, FabricError, Header, Limits, Looked, Payload, Peer, Posted, Pulled, Sink,
    UserMemory,
};
use shm::{Segment, Settings, Shm, ShmBell, ShmLane};

mod two_seats {
    use super::Seated;
    fabric::conformance!(Seated<2, true>);
}

mod two_seats_copying {
    use super::Seated;
    fabric::conformance!(Seated<2, false>);
}

mod a_crowded_node {
    use super::Seated;
    fabric::conformance!(Seated<2000, true>);
}

/// A fabric in a segment of so many seats, with or without pull.
struct Seated<const SEATS: u32, const PULL: bool>(Shm);

impl<const SEATS: u32, const PULL: bool> Pair for Seated<SEATS, PULL> {
    fn pair() -> (Self, Self) {
        let file = Segment::create(SEATS).expect("a segment is made");
        let segment = Segment::adopt(file, SEATS).expect("and adopted");
        let open = |seat| {
            let peers = vec![Peer(0), Peer(1)];
            let settings = Settings { pull: PULL, ..Settings::default() };
            Seated(Shm::open(segment.clone(), seat, peers, settings).expect("the seat is free"))
        };
        (open(0), open(1))
    }
}

impl<const SEATS: u32, const PULL: bool> Fabric for Seated<SEATS, PULL> {
    type Lane = ShmLane;
    type Bell = ShmBell;

    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn address(&self) -> Vec<u8> {
        self.0.address()
    }
    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        self.0.reach(peer, address)
    }
    fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<ShmLane, FabricError> {
        self.0.connect(peer, address)
    }
    fn limits(&self, lane: ShmLane) -> Limits {
        self.0.limits(lane)
    }
    fn post(&mut self, lane: ShmLane, header: &Header, payload: Payload<'_>) -> Posted {
        self.0.post(lane, header, payload)
    }
    fn resume(&mut self, lane: ShmLane, rest: Payload<'_>) -> Posted {
        self.0.resume(lane, rest)
    }
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        self.0.poll(sink, events)
    }
    fn look<R>(
        &mut self,
        lane: ShmLane,
        reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> Looked<R> {
        self.0.look(lane, reader)
    }
    fn bell(&self) -> ShmBell {
        self.0.bell()
    }
    fn expose(&mut self, lane: ShmLane, memory: Payload<'_>) -> Exposed {
        self.0.expose(lane, memory)
    }
    fn pull(
        &mut self,
        lane: ShmLane,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        ticket: u64,
    ) -> Pulled {
        self.0.pull(lane, exposed, offset, into, ticket)
    }
    fn flush(&mut self) -> bool {
        self.0.flush()
    }
}
