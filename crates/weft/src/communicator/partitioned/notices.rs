//! Notices: what a partitioned send tells the receive that it meets, and the tags of its partitions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use fabric::{FabricError, Fault, Heap, Payload, Peer};
use job::fabrics::Fabrics;
use messaging::{Engine, Envelope, Failure, Pattern, Rank, Receiving, RequestId};

use super::{Layout, NOTICE_BYTES, Receiver, TAGS_END, TAGS_START, check_size};

/// What a communicator knows of partitioned operations: the tags that its own sends use, and the notices of
/// others.
#[derive(Default)]
pub(in crate::communicator) struct Notices {
    pub(super) blocks: Mutex<NoticeBlocks>,
    /// By the context that they are described under.
    pub(super) sources: Mutex<HashMap<(u32, Rank), NoticeSource>>,
}

/// One that sends, or is waited for.
#[derive(Default)]
pub(super) struct NoticeSource {
    /// The next notice, while somebody waits for one; whoever does is under way as long as it is.
    listening: Option<(RequestId, Heap)>,
    /// Notices whose receive was not described yet.
    kept: VecDeque<(i32, Layout)>,
    /// Receives whose notice has not come.
    waiting: VecDeque<(i32, Arc<Receiver>)>,
}

impl NoticeSource {
    /// A receive is described: it gets the first notice of its tag that nobody else has.
    pub(super) fn expect(&mut self, tag: i32, receiver: Arc<Receiver>) {
        match self.kept.iter().position(|(kept, _)| *kept == tag).and_then(|at| self.kept.remove(at)) {
            Some((_, layout)) => drop(receiver.layout.set(layout)),
            None => self.waiting.push_back((tag, receiver)),
        }
    }

    /// A notice has come.
    fn hear(&mut self, tag: i32, layout: Layout) {
        match self
            .waiting
            .iter()
            .position(|(waiting, _)| *waiting == tag)
            .and_then(|at| self.waiting.remove(at))
        {
            Some((_, receiver)) => drop(receiver.layout.set(layout)),
            None => self.kept.push_back((tag, layout)),
        }
    }

    /// Takes the next notice if it is there; true when something has changed.
    pub(super) fn listen(
        &mut self,
        engine: &mut Engine<Fabrics>,
        envelope: Envelope,
        peer: Peer,
    ) -> std::result::Result<bool, Failure> {
        let Envelope { context, source, tag } = envelope;
        let (outcome, notice) = match self.listening.take() {
            Some((request, notice)) => match engine.test(request) {
                Some(outcome) => (outcome, notice),
                None => {
                    self.listening = Some((request, notice));
                    return Ok(false);
                }
            },
            None => {
                let notice = Heap::new(NOTICE_BYTES);
                let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
                match engine.receive(pattern, Some(peer), notice.memory()) {
                    Receiving::Done(outcome) => (outcome, notice),
                    Receiving::Pending(request) => {
                        self.listening = Some((request, notice));
                        return Ok(false);
                    }
                }
            }
        };
        match (outcome.failure, decode(notice.payload())) {
            (None, Some((tag, layout))) => {
                self.hear(tag, layout);
                Ok(true)
            }
            (None, None) => Err(not_a_notice(peer)),
            (Some(failure), _) => Err(*failure),
        }
    }
}

fn not_a_notice(peer: Peer) -> Failure {
    let what = format!("process {} sent a notice of a partitioned send that is none", peer.0);
    Failure::Lost(FabricError { fabric: "messaging", fault: Fault::Protocol, what })
}

pub(super) fn encode(tag: i32, layout: Layout) -> [u8; NOTICE_BYTES] {
    let mut bytes = [0; NOTICE_BYTES];
    bytes[..4].copy_from_slice(&tag.to_le_bytes());
    bytes[4..8].copy_from_slice(&layout.first_tag.to_le_bytes());
    bytes[8..12].copy_from_slice(&layout.partitions.to_le_bytes());
    bytes[12..16].copy_from_slice(&layout.signature.to_le_bytes());
    bytes[16..].copy_from_slice(&(layout.bytes as u64).to_le_bytes());
    bytes
}

/// `None` for a notice that no sender writes.
fn decode(notice: Payload<'_>) -> Option<(i32, Layout)> {
    let mut bytes = [0; NOTICE_BYTES];
    if notice.copy_to(&mut bytes) < NOTICE_BYTES {
        return None;
    }
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let long: [u8; 8] = bytes[16..].try_into().ok()?;
    let bytes = usize::try_from(u64::from_le_bytes(long)).ok()?;
    let (first_tag, partitions) = (i32::from_le_bytes(word(4)), u32::from_le_bytes(word(8)));
    let signature = u32::from_le_bytes(word(12));
    check_size(partitions, bytes).ok()?;
    let last = i64::from(first_tag) + i64::from(partitions);
    let in_range = (TAGS_START..=TAGS_END).contains(&i64::from(first_tag)) && last <= TAGS_END;
    in_range.then_some((i32::from_le_bytes(word(0)), Layout { first_tag, partitions, bytes, signature }))
}

/// The tags of partitions: blocks that no two living sends share.
pub(super) struct NoticeBlocks {
    /// By first tag; how many there are.
    taken: BTreeMap<i64, i64>,
    /// Where the next one is looked for, so that tags come again late.
    next: i64,
}

impl Default for NoticeBlocks {
    fn default() -> NoticeBlocks {
        NoticeBlocks { taken: BTreeMap::new(), next: TAGS_START }
    }
}

impl NoticeBlocks {
    /// A block of so many tags; the first of them. `None` where no row of as many is free.
    pub(super) fn take(&mut self, tags: u32) -> Option<i32> {
        let length = i64::from(tags.max(1));
        let (mut start, mut is_second_round) = (self.next, false);
        loop {
            if start + length > TAGS_END {
                if is_second_round {
                    return None;
                }
                (start, is_second_round) = (TAGS_START, true);
            }
            let before = self.taken.range(..start + length).next_back();
            match before.map(|(first, length)| first + length).filter(|&end| end > start) {
                Some(end) => start = end,
                None => break,
            }
        }
        self.taken.insert(start, length);
        self.next = start + length;
        Some(start as i32)
    }

    pub(super) fn give_back(&mut self, first: i32) {
        self.taken.remove(&i64::from(first));
    }
}

#[cfg(test)]
mod tests {
    use super::super::PARTITIONS_MAX;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_of_tags_never_overlap_and_come_again_late() {
        let mut blocks = NoticeBlocks::default();
        let take = |blocks: &mut NoticeBlocks, tags| blocks.take(tags).expect("there are tags");
        let kept = take(&mut blocks, 10);
        let freed = take(&mut blocks, 5);
        blocks.give_back(freed);
        assert_ne!(take(&mut blocks, 5), freed);
        // All the way round: what is still there is left out.
        let rounds = (TAGS_END - TAGS_START) / i64::from(PARTITIONS_MAX) + 2;
        for _ in 0..rounds {
            let first = take(&mut blocks, PARTITIONS_MAX);
            assert!(i64::from(first) >= i64::from(kept) + 10 && i64::from(first) < TAGS_END);
            blocks.give_back(first);
        }
        assert_eq!(blocks.taken.len(), 2);
    }

    #[test]
    fn where_all_tags_are_taken_nobody_looks_for_ever() {
        let mut blocks = NoticeBlocks::default();
        let all = (TAGS_END - TAGS_START) / i64::from(PARTITIONS_MAX);
        let firsts: Vec<i32> = (0..all).map_while(|_| blocks.take(PARTITIONS_MAX)).collect();
        assert_eq!(firsts.len() as i64, all);
        assert_eq!(blocks.take(PARTITIONS_MAX), None);
        // What is left behind them is a shorter row.
        assert!(blocks.take(1).is_some());
        blocks.give_back(firsts[3]);
        assert_eq!(blocks.take(PARTITIONS_MAX), Some(firsts[3]));
        assert_eq!(blocks.take(PARTITIONS_MAX), None);
    }

    proptest! {
        #[test]
        fn any_notice_is_answered(bytes: Vec<u8>, tag: i32, partitions in 0..PARTITIONS_MAX, each in 0usize..1 << 30, signature: u32) {
            let _ = decode(Payload::from(&bytes[..]));
            let layout = Layout { first_tag: -20_000_000, partitions, bytes: each, signature };
            let back = decode(Payload::from(&encode(tag, layout)[..]));
            prop_assert_eq!(back, Some((tag, layout)));
            let beyond = Layout { first_tag: -1, partitions: partitions + 1, ..layout };
            prop_assert_eq!(decode(Payload::from(&encode(tag, beyond)[..])), None);
        }
    }
}
