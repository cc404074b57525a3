//! Whether a long message is sent at once, as a chunked eager message or through the ring, where its receiver
//! could read it.

use std::time::Instant;

use fabric::{Header, Payload, Posted};

use super::{Opened, Pair, Pull, Shm, ShmLane};
use crate::channel::Channel;
use crate::choices::{Choices, Ways};
use crate::layout::{
    CHUNKED_MESSAGE_AT, CHUNKED_MESSAGE_BYTES_MIN, CHUNKED_MESSAGE_CHUNK_BYTES, LINE_PAYLOAD,
};
use crate::single_slot::LargeBuffer;

impl Shm {
    /// Implements [`fabric::Fabric::takes_at_once`]: whether a long payload is better copied now, into a free
    /// large-message buffer or into the ring, than left for the receiver to pull. False where copies were not
    /// measured, where the receiver cannot pull or has the payload mapped, or where there is not enough free
    /// space.
    pub(super) fn rather_at_once(&mut self, lane: ShmLane, payload: Payload<'_>) -> bool {
        let Some(ways) = self.settings.ways else { return false };
        // What is mapped is copied once.
        if payload.bytes() > at_once_bytes_max(self.segment.layout().ring.data_bytes)
            || !matches!(self.puller(&self.pairs[lane.index as usize]), Pull::Allowed(_))
            || self.heap.locate(payload).is_some()
            // What takes memory comes last.
            || !self.choices(lane).is_some_and(|choices| choices.ring.may_prefer_copies(&ways, payload.bytes()))
            || !self.opened(lane, Opened::All)
        {
            return false;
        }
        let bytes = payload.bytes();
        if let Some(large_buffer) = self.large_buffer_for(lane, bytes) {
            let ways = ways.beside_reads();
            if !self
                .choices(lane)
                .is_some_and(|choices| choices.chunked_messages.prefers_copies(&ways, bytes))
            {
                return false;
            }
            if self.large_buffer_has_memory(lane, large_buffer, bytes) {
                return true;
            }
        }
        // A ring that is wild is found so by the post that follows. Of who has never spoken nothing is known.
        let producer = &mut self.pairs[lane.index as usize].channel.producer;
        producer.has_room_for(self.segment.memory(), bytes).unwrap_or(false)
            && self.choices(lane).is_some_and(|choices| choices.ring.prefers_copies(&ways, bytes))
    }

    /// Where a message of so many bytes can go as a chunked eager message now, if there is memory for it.
    fn large_buffer_for(&mut self, lane: ShmLane, bytes: usize) -> Option<LargeBuffer> {
        if !(CHUNKED_MESSAGE_BYTES_MIN..=self.segment.layout().ring.chunked_message_bytes_max())
            .contains(&bytes)
        {
            return None;
        }
        let Pair { channel: Channel { producer, single_slot, .. }, chunked_messages_refused, .. } =
            &mut self.pairs[lane.index as usize];
        let large_buffer = single_slot.free_large_buffer()?;
        let fits = (!*chunked_messages_refused
            || single_slot.has_memory(large_buffer, CHUNKED_MESSAGE_AT + bytes))
            && producer.has_lines_for_chunked_message(self.segment.memory(), bytes).unwrap_or(false);
        fits.then_some(large_buffer)
    }

    /// Takes memory for it, twice as much as before or more.
    fn large_buffer_has_memory(&mut self, lane: ShmLane, large_buffer: LargeBuffer, bytes: usize) -> bool {
        let shape = &self.segment.layout().ring;
        let Pair { channel: Channel { single_slot, .. }, chunked_messages_refused, .. } =
            &mut self.pairs[lane.index as usize];
        let needed = CHUNKED_MESSAGE_AT + bytes;
        if !single_slot.has_memory(large_buffer, needed) {
            let all = (CHUNKED_MESSAGE_AT + bytes.next_power_of_two().max(CHUNKED_MESSAGE_CHUNK_BYTES))
                .min(shape.single_slot_bytes());
            *chunked_messages_refused =
                self.segment.reserve(single_slot.large_buffer_at(large_buffer), all).is_err();
            if *chunked_messages_refused {
                return false;
            }
            single_slot.got_memory(large_buffer, all);
            if large_buffer == LargeBuffer::Mailbox && all >= LINE_PAYLOAD + shape.short_message_bytes_max() {
                single_slot.reserved(shape.short_message_bytes_max());
            }
        }
        single_slot.bring_in(self.segment.memory(), large_buffer, needed);
        true
    }

    /// Posts what may be a chunked eager message, as one or through the ring; some of what was found to be
    /// better sent at once is timed.
    pub(super) fn post_long(&mut self, lane: ShmLane, header: &Header, payload: Payload<'_>) -> Posted {
        let bytes = payload.bytes();
        let is_at_once = self.settings.ways.is_some() && bytes > self.settings.eager_bytes_max;
        if let Some(large_buffer) = self.large_buffer_for(lane, bytes)
            && self.large_buffer_has_memory(lane, large_buffer, bytes)
        {
            let is_timed =
                is_at_once && self.choices(lane).is_some_and(|choices| choices.chunked_messages.times_next());
            let Channel { producer, single_slot, .. } = &mut self.pairs[lane.index as usize].channel;
            let since = is_timed.then(Instant::now);
            let place = (large_buffer, single_slot.chunked_messages_at(large_buffer));
            producer.post_chunked_message(self.segment.memory(), header, payload, place);
            single_slot.sent_chunked_message(large_buffer);
            if let (Some(since), Some(choices)) = (since, self.choices(lane)) {
                choices.chunked_messages.timed(bytes, since.elapsed().as_nanos() as f64);
            }
            return self.posted(lane, Ok(Posted::Sent));
        }
        let is_timed = is_at_once && self.choices(lane).is_some_and(|choices| choices.ring.times_next());
        let producer = &mut self.pairs[lane.index as usize].channel.producer;
        // At first, pages of the ring are brought in one by one.
        let since = (is_timed && producer.has_pages()).then(Instant::now);
        let posted = producer.post(self.segment.memory(), header, payload);
        if let (Some(since), Ok(Posted::Sent)) = (since, &posted) {
            let ns = since.elapsed().as_nanos() as f64;
            if let Some(choices) = self.choices(lane) {
                choices.ring.timed(bytes, ns);
            }
        }
        self.posted(lane, posted)
    }

    /// What is known of long messages to and from the peer of `lane`; `None` before that peer has spoken.
    fn choices(&mut self, lane: ShmLane) -> Option<&mut Choices> {
        self.pairs[lane.index as usize].choices()
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
    use crate::layout::{LINE, LINE_FRONT, LINE_PAYLOAD, RING_LINES};
    use crate::memory::Memory;
    use crate::segment::Segment;
    use crate::shm::Settings;
    use crate::sync::Ordering;

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
    pub fn pair(process_slots: u32, ways: Option<Ways>) -> Option<([Shm; 2], [ShmLane; 2])> {
        let segment = Segment::adopt(Segment::create(process_slots).unwrap(), process_slots).unwrap();
        let peers: Vec<Peer> = (0..process_slots).map(Peer).collect();
        let settings = Settings { ways, ..Settings::default() };
        let mut ends = [0, 1]
            .map(|process_slot| Shm::open(segment.clone(), process_slot, peers.clone(), settings).unwrap());
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
        // A ring of 1 MiB, less a chunk that may not go round its end.
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
        let said = |end: &Shm| end.pairs[0].copied_byte_ns(&Ways::COPIES);
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

    /// Keeps what comes, by its first bytes and its length.
    struct Kept(Vec<Vec<u8>>, Heap);

    impl Sink for Kept {
        fn message(&mut self, _: Peer, _: &Header, payload: Payload<'_>) {
            self.0.push(payload.to_vec());
        }
        fn arriving(&mut self, _: Peer, _: &Header, bytes: usize) -> UserMemory {
            self.1 = Heap::new(bytes);
            self.1.memory()
        }
        fn landed(&mut self, _: Peer) {
            self.0.push(self.1.payload().to_vec());
        }
        fn lost(&mut self, _: Peer, error: FabricError) {
            panic!("{error}");
        }
    }

    /// Two ends that have a single-slot channel, and whose turn it is.
    fn mailed(process_slots: u32) -> Option<([Shm; 2], [ShmLane; 2])> {
        let (mut ends, lanes) = pair(process_slots, Some(Ways::COPIES))?;
        let mut kept = Kept(Vec::new(), Heap::new(0));
        while !ends
            .iter()
            .zip(lanes)
            .any(|(end, lane)| end.pairs[lane.index as usize].channel.single_slot.is_ours())
        {
            for at in [0, 1] {
                assert_eq!(ends[at].post(lanes[at], &Header::default(), Payload::EMPTY), Posted::Sent);
                while ends[1 - at].poll(&mut kept, 64) > 0 {}
            }
            assert!(kept.0.len() < 1000, "no pair gets a single-slot channel");
        }
        Some((ends, lanes))
    }

    #[test]
    fn who_answers_sends_chunked_messages_and_the_ring_stays_untouched() {
        let Some((mut ends, lanes)) = mailed(4) else { return };
        let first = ends
            .iter()
            .zip(lanes)
            .position(|(end, lane)| end.pairs[lane.index as usize].channel.single_slot.is_ours());
        let mut from = first.unwrap();
        for number in 0..20_u8 {
            let bytes = [20 << 10, 32 << 10, 100_001, Ways::COPIED_BYTES_MAX][usize::from(number) % 4];
            let payload = vec![number; bytes];
            assert!(ends[from].takes_at_once(lanes[from], Payload::from(&payload[..])));
            let post = ends[from].post(lanes[from], &Header::default(), Payload::from(&payload[..]));
            assert_eq!(post, Posted::Sent);
            let channel = &ends[from].pairs[lanes[from].index as usize].channel;
            assert!(
                !channel.single_slot.is_ours() && !channel.producer.has_pages(),
                "{bytes} went through the ring"
            );
            let mut kept = Kept(Vec::new(), Heap::new(0));
            while ends[1 - from].poll(&mut kept, 3) > 0 {}
            assert!(kept.0 == [payload], "{bytes} bytes came otherwise");
            from = 1 - from;
        }
        // Nobody answers: what comes behind a chunked eager message on each large-message buffer that is free
        // goes through the ring.
        let payload = [1; 40 << 10];
        let beside = (from == 1).then_some(LargeBuffer::Beside);
        for large_buffer in [Some(LargeBuffer::Mailbox), beside, None] {
            assert_eq!(ends[from].large_buffer_for(lanes[from], payload.len()), large_buffer);
            let post = ends[from].post(lanes[from], &Header::default(), Payload::from(&payload[..]));
            assert_eq!(post, Posted::Sent);
        }
        hear(&mut ends[1 - from], 3 * payload.len());
    }

    #[test]
    fn who_send_at_the_same_time_have_a_large_buffer_each() {
        let Some((mut ends, lanes)) = mailed(4) else { return };
        for number in 0..20_u8 {
            let bytes = [CHUNKED_MESSAGE_BYTES_MIN, 20 << 10, CHUNKED_MESSAGE_CHUNK_BYTES, 100_001]
                [usize::from(number) % 4];
            let payloads = [2 * number, 2 * number + 1].map(|fill| vec![fill; bytes]);
            let has_turn = |at: usize, ends: &[Shm; 2]| {
                ends[at].pairs[lanes[at].index as usize].channel.single_slot.is_ours()
            };
            assert!(has_turn(0, &ends) != has_turn(1, &ends));
            for at in [0, 1] {
                let payload = Payload::from(&payloads[at][..]);
                assert_eq!(ends[at].post(lanes[at], &Header::default(), payload), Posted::Sent);
                let channel = &ends[at].pairs[lanes[at].index as usize].channel;
                assert!(!channel.producer.has_pages(), "{bytes} went through the ring");
            }
            for at in [0, 1] {
                let mut kept = Kept(Vec::new(), Heap::new(0));
                while ends[at].poll(&mut kept, 3) > 0 {}
                assert!(kept.0 == [&payloads[1 - at][..]], "{bytes} bytes came otherwise");
            }
        }
    }

    /// What the receiver of these lines says, which no sane peer writes: of each the kind and bytes, and the
    /// first words of its payload.
    fn wild(is_in_turn: bool, lines: &[(u32, [u32; 3])]) -> Option<String> {
        let (mut ends, lanes) = mailed(64)?;
        let ours = ends
            .iter()
            .zip(lanes)
            .position(|(end, lane)| end.pairs[lane.index as usize].channel.single_slot.is_ours());
        let from = if is_in_turn { ours.unwrap() } else { 1 - ours.unwrap() };
        let (layout, victim) = (*ends[0].segment.layout(), &mut ends[1 - from]);
        for (what, words) in lines {
            let passed = victim.pairs[0].channel.consumer.lines_passed();
            let line = layout.ring_at(from as u32, 1 - from as u32)
                + RING_LINES
                + (passed % layout.ring.lines) as usize * LINE;
            let memory = victim.segment.memory();
            memory.put_words(line + LINE_FRONT, [*what]);
            memory.put_words(line + LINE_PAYLOAD, *words);
            memory.word(line).store(passed.wrapping_add(1), Ordering::Release);
            let mut losses = LossesAndInbox(Vec::new(), Heap::new(1 << 20));
            while victim.poll(&mut losses, 64) > 0 {}
            if let Some(error) = losses.0.pop() {
                return Some(error.what);
            }
        }
        panic!("{lines:?} were believed");
    }

    struct LossesAndInbox(Vec<FabricError>, Heap);

    impl Sink for LossesAndInbox {
        fn message(&mut self, _: Peer, _: &Header, _: Payload<'_>) {}
        fn arriving(&mut self, _: Peer, _: &Header, _: usize) -> UserMemory {
            self.1.memory()
        }
        fn landed(&mut self, _: Peer) {}
        fn lost(&mut self, _: Peer, error: FabricError) {
            self.0.push(error);
        }
    }

    #[test]
    fn chunked_messages_that_no_sane_peer_sends_end_it() {
        const CHUNKED_MESSAGE: u32 = 3 << 30;
        const MORE: u32 = 2 << 30;
        let (chunk, longest) = (CHUNKED_MESSAGE_CHUNK_BYTES as u32, 512 << 10);
        let begun = (CHUNKED_MESSAGE | chunk, [2 * chunk, 0, 0]);
        for (is_in_turn, lines, text) in [
            (false, vec![begun], "a chunked message out of turn"),
            (true, vec![(CHUNKED_MESSAGE | chunk, [2 * chunk, 0, 2])], "a chunked message out of turn"),
            (
                true,
                vec![(CHUNKED_MESSAGE | chunk, [longest + 1, 0, 0])],
                "a message of 524289 bytes announced in chunks",
            ),
            (
                true,
                vec![(CHUNKED_MESSAGE | chunk, [longest, 1, 0])],
                "a message of 4295491584 bytes announced",
            ),
            (true, vec![(CHUNKED_MESSAGE | 32, [32, 0, 0])], "a message of 32 bytes announced"),
            (true, vec![(CHUNKED_MESSAGE | 7, [longest, 0, 0])], "a chunk of 7 bytes where at most 16384"),
            (true, vec![(CHUNKED_MESSAGE | 7, [5000, 0, 0])], "a chunk of 7 bytes where at most 5000"),
            (true, vec![begun, (MORE | 7, [0; 3])], "a chunk of 7 bytes where at most 16384"),
            (true, vec![begun, begun], "a line of kind 3 with 16384 bytes of a message still due"),
            (true, vec![begun, (5, [0; 3])], "a line of kind 0 with 16384 bytes of a message still due"),
            (true, vec![begun, (MORE | chunk, [0; 3]), begun], "a chunked message out of turn"),
        ] {
            let Some(said) = wild(is_in_turn, &lines) else { return };
            assert!(said.contains(text), "{said}, and not {text}");
        }
    }

    #[test]
    fn many_on_a_node_have_shorter_chunked_messages_or_none() {
        for (process_slots, bytes) in [(4, 4 << 20), (16, 1 << 20), (64, 512 << 10), (65, 0)] {
            let Some((mut ends, lanes)) = mailed(process_slots) else { return };
            let from = ends
                .iter()
                .zip(lanes)
                .position(|(end, lane)| end.pairs[lane.index as usize].channel.single_slot.is_ours());
            let from = from.unwrap();
            assert_eq!(
                ends[from].large_buffer_for(lanes[from], bytes + 1),
                None,
                "{process_slots} process slots"
            );
            let large_buffer = (bytes > 0).then_some(LargeBuffer::Mailbox);
            assert_eq!(
                ends[from].large_buffer_for(lanes[from], bytes),
                large_buffer,
                "{process_slots} process slots"
            );
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]

        /// Lines, messages, chunked eager messages and what goes through the ring keep the order of the pair,
        /// whoever sends and listens when.
        #[test]
        fn all_ways_keep_one_order(steps in proptest::collection::vec((0..2_usize, 0..6_usize, 0..300_usize), 1..80)) {
            let Some((mut ends, lanes)) = mailed(4) else { return Ok(()) };
            let (mut sent, mut kept) = ([vec![], vec![]], [0, 1].map(|_| Kept(Vec::new(), Heap::new(0))));
            for (number, (from, size, more)) in steps.into_iter().enumerate() {
                let bytes = more + [1, 500, 15 << 10, 24 << 10, 180 << 10, 1500 << 10][size];
                let payload = vec![number as u8; bytes];
                let post = ends[from].post(lanes[from], &Header::default(), Payload::from(&payload[..]));
                match post {
                    Posted::Sent => sent[from].push(payload),
                    Posted::Busy => {}
                    Posted::Partly(done) => {
                        let mut done = done;
                        while done < bytes {
                            ends[1 - from].poll(&mut kept[1 - from], 64);
                            match ends[from].resume(lanes[from], Payload::from(&payload[done..])) {
                                Posted::Sent => done = bytes,
                                Posted::Partly(more) => done += more,
                                Posted::Busy => {}
                            }
                        }
                        sent[from].push(payload);
                    }
                }
                if more % 3 == 0 {
                    ends[1 - from].poll(&mut kept[1 - from], 1 + more % 7);
                }
            }
            for at in [0, 1] {
                while ends[at].poll(&mut kept[at], 64) > 0 {}
                proptest::prop_assert!(kept[at].0 == sent[1 - at], "what came is not what was sent");
            }
        }
    }
}
