//! Whether a long message is sent at once, through the ring, where its receiver could read it.

use std::time::Instant;

use fabric::{Header, Payload, Posted};

use super::incoming::Incoming;
use super::{Opened, Pull, Shm, ShmLane};
use crate::pace::{Pace, Ways};

impl Shm {
    /// See [`fabric::Fabric::takes_at_once`].
    pub(super) fn rather_at_once(&mut self, lane: ShmLane, payload: Payload<'_>) -> bool {
        let Some(ways) = self.settings.ways else { return false };
        // What is mapped is copied once.
        if payload.bytes() > at_once_bytes_max(self.segment.layout().ring.data_bytes)
            || !matches!(self.puller(&self.outgoing[lane.index as usize]), Pull::Allowed(_))
            || self.heap.locate(payload).is_some()
            // What takes memory comes last.
            || !self.pace(lane).is_some_and(|pace| pace.may_prefer_copies(&ways, payload.bytes()))
            || !self.opened(lane, Opened::All)
        {
            return false;
        }
        let (bytes, memory) = (payload.bytes(), self.segment.memory());
        let outgoing = &mut self.outgoing[lane.index as usize];
        // A ring that is wild is found so by the post that follows. Of who has never spoken nothing is known.
        outgoing.producer.has_room_for(memory, bytes).unwrap_or(false)
            && self.pace(lane).is_some_and(|pace| pace.prefers_copies(&ways, bytes))
    }

    /// Posts what was found to be better sent at once; some of it is timed.
    pub(super) fn post_long(&mut self, lane: ShmLane, header: &Header, payload: Payload<'_>) -> Posted {
        let is_timed = self.pace(lane).is_some_and(Pace::times_next);
        let producer = &mut self.outgoing[lane.index as usize].producer;
        // At first, pages of the ring are brought in one by one.
        let since = (is_timed && producer.has_pages()).then(Instant::now);
        let posted = producer.post(self.segment.memory(), header, payload);
        if let (Some(since), Ok(Posted::Sent)) = (since, &posted) {
            let ns = since.elapsed().as_nanos() as f64;
            if let Some(pace) = self.pace(lane) {
                pace.timed(payload.bytes(), ns);
            }
        }
        self.posted(lane, posted)
    }

    fn pace(&mut self, lane: ShmLane) -> Option<&mut Pace> {
        self.incoming_of(lane).map(|incoming| &mut incoming.pace)
    }

    /// What comes from the peer at the end of a lane, once it has spoken.
    pub(super) fn incoming_of(&mut self, lane: ShmLane) -> Option<&mut Incoming> {
        let incoming = self.outgoing[lane.index as usize].incoming;
        self.incoming.get_mut(incoming as usize)
    }
}

/// Half a ring: a second message has room while the first is taken out.
pub(super) fn at_once_bytes_max(ring_data_bytes: u32) -> usize {
    (ring_data_bytes as usize / 2).min(Ways::COPIED_BYTES_MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use fabric::{Fabric, FabricError, Heap, Peer, Sink, UserMemory};

    use super::*;
    use crate::segment::Segment;
    use crate::shm::Settings;

    const LONG: usize = 128 << 10;

    /// Counts the bytes of whole messages.
    struct Counted(usize, Heap);

    impl Sink for Counted {
        fn message(&mut self, _: Peer, _: &Header, payload: Payload<'_>) {
            self.0 += payload.bytes();
        }
        fn arriving(&mut self, _: Peer, _: &Header, bytes: usize) -> UserMemory {
            self.0 += bytes;
            self.1 = Heap::new(bytes);
            self.1.memory()
        }
        fn landed(&mut self, _: Peer) {}
        fn lost(&mut self, _: Peer, error: FabricError) {
            panic!("{error}");
        }
    }

    /// Two ends that have spoken; none where reading memory is refused.
    pub fn pair(seats: u32, ways: Option<Ways>) -> Option<([Shm; 2], [ShmLane; 2])> {
        let segment = Segment::adopt(Segment::create(seats).unwrap(), seats).unwrap();
        let peers: Vec<Peer> = (0..seats).map(Peer).collect();
        let settings = Settings { ways, ..Settings::default() };
        let mut ends = [0, 1].map(|seat| Shm::open(segment.clone(), seat, peers.clone(), settings).unwrap());
        let addresses = [ends[1].address(), ends[0].address()];
        let lanes = [0, 1].map(|at: usize| ends[at].connect(Peer(1 - at as u32), &addresses[at]).unwrap());
        if !ends[0].limits(lanes[0]).pull {
            return None;
        }
        assert!(!ends[0].takes_at_once(lanes[0], Payload::from(&[0; LONG][..])), "nobody has spoken");
        assert_eq!(ends[1].post(lanes[1], &Header::default(), Payload::EMPTY), Posted::Sent);
        hear(&mut ends[0], 0);
        Some((ends, lanes))
    }

    fn hear(end: &mut Shm, bytes: usize) {
        let mut counted = Counted(0, Heap::new(0));
        while end.poll(&mut counted, 64) > 0 {}
        assert_eq!(counted.0, bytes);
    }

    #[test]
    fn what_has_room_goes_at_once_and_nothing_else() {
        let Some((mut ends, lanes)) = pair(4, Some(Ways::COPIES)) else { return };
        let (lane, bytes) = (lanes[0], vec![7; Ways::COPIED_BYTES_MAX + 1]);
        assert!(!ends[0].takes_at_once(lane, Payload::from(&bytes[..])), "longer than any");
        let long = Payload::from(&bytes[..LONG]);
        let mut posted = 0;
        while ends[0].takes_at_once(lane, long) {
            assert_eq!(ends[0].post(lane, &Header::default(), long), Posted::Sent, "all of it at one stroke");
            posted += 1;
        }
        // A ring of 1 MiB, less a piece that may not go round its end.
        assert_eq!(posted, 7);
        hear(&mut ends[1], posted * LONG);
        assert!(ends[0].takes_at_once(lane, long), "there is room again");
    }

    #[test]
    fn what_is_better_read_waits() {
        let slow = Ways { head_start_ns: 1e3, ..Ways::COPIES };
        for ways in [None, Some(slow)] {
            let Some((mut ends, lanes)) = pair(4, ways) else { return };
            assert!(!ends[0].takes_at_once(lanes[0], Payload::from(&[0; LONG][..])));
        }
        // Half of a small ring.
        let Some((mut ends, lanes)) = pair(17, Some(Ways::COPIES)) else { return };
        assert!(ends[0].takes_at_once(lanes[0], Payload::from(&[0; 64 << 10][..])));
        assert!(!ends[0].takes_at_once(lanes[0], Payload::from(&[0; (64 << 10) + 1][..])));
    }

    #[test]
    fn what_both_have_mapped_is_read() {
        let Some((mut ends, lanes)) = pair(4, Some(Ways::COPIES)) else { return };
        let Ok(Some(start)) = ends[0].heap().take(LONG, 64) else { return };
        let mapped = crate::memory::claim_for_tests(start, LONG);
        assert!(!ends[0].takes_at_once(lanes[0], mapped));
    }

    #[test]
    fn copies_are_timed_once_the_ring_has_its_pages() {
        let Some((mut ends, lanes)) = pair(4, Some(Ways::COPIES)) else { return };
        let long = [7; LONG];
        let said = |end: &Shm| end.incoming[0].pace.copied_byte_ns(&Ways::COPIES);
        for number in 0..32 {
            assert!(ends[0].takes_at_once(lanes[0], Payload::from(&long[..])));
            if number < 2 {
                assert!((said(&ends[0]) - Ways::COPIES.copied_byte_ns).abs() < 1e-9, "pages are made");
            }
            assert_eq!(ends[0].post(lanes[0], &Header::default(), Payload::from(&long[..])), Posted::Sent);
            hear(&mut ends[1], LONG);
        }
        assert!((said(&ends[0]) - Ways::COPIES.copied_byte_ns).abs() > 1e-9, "it was not timed");
    }
}
