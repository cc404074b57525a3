//! Queues by envelope: receives that wait for messages, and messages that wait for receives.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use recovery::Rank;

use crate::envelope::Envelope;

/// A queue for each envelope. The one that was used last is found by a comparison: programs send and receive
/// many messages of one envelope in a row.
pub(crate) struct Queues<T> {
    queues: Vec<(Envelope, VecDeque<T>)>,
    places: HashMap<Envelope, u32, BuildHasherDefault<EnvelopeHasher>>,
    last: usize,
    /// Empty queues are looked for once there are so many.
    forget_at: usize,
}

impl<T> Default for Queues<T> {
    fn default() -> Queues<T> {
        Queues { queues: Vec::new(), places: HashMap::default(), last: 0, forget_at: QUEUES_KEPT_MAX }
    }
}

impl<T> Queues<T> {
    /// The queue of an envelope, if it has had one lately; it may be empty.
    #[inline]
    pub(crate) fn find(&self, envelope: &Envelope) -> Option<&VecDeque<T>> {
        if self.is_last(*envelope) {
            return Some(&self.queues[self.last].1);
        }
        let Envelope { context, source, tag } = *envelope;
        let place = self.look_up(context, source, tag)?;
        Some(&self.queues[place].1)
    }

    /// The queue of an envelope, to be changed, if it has had one lately; it may be empty.
    #[inline]
    pub(crate) fn find_mut(&mut self, envelope: &Envelope) -> Option<&mut VecDeque<T>> {
        if self.is_last(*envelope) {
            return Some(&mut self.queues[self.last].1);
        }
        let Envelope { context, source, tag } = *envelope;
        self.last = self.look_up(context, source, tag)?;
        Some(&mut self.queues[self.last].1)
    }

    /// Adds to the queue of an envelope.
    #[inline]
    pub(crate) fn push(&mut self, envelope: Envelope, entry: T) {
        if !self.is_last(envelope) {
            let Envelope { context, source, tag } = envelope;
            self.last = self.look_up(context, source, tag).unwrap_or_else(|| self.open(envelope));
        }
        self.queues[self.last].1.push_back(entry);
    }

    #[inline(always)]
    fn is_last(&self, envelope: Envelope) -> bool {
        self.queues.get(self.last).is_some_and(|(last, _)| *last == envelope)
    }

    /// Takes the parts, so that whoever asks need not keep the envelope in memory for this.
    #[inline(never)]
    fn look_up(&self, context: u32, source: Rank, tag: i32) -> Option<usize> {
        self.places.get(&Envelope { context, source, tag }).map(|&place| place as usize)
    }

    #[cold]
    fn open(&mut self, envelope: Envelope) -> usize {
        if self.queues.len() >= self.forget_at {
            self.forget_empty();
        }
        let place = self.queues.len();
        self.queues.push((envelope, VecDeque::new()));
        self.places.insert(envelope, place as u32);
        place
    }

    /// Empty queues are kept for the next message of the same envelope, unless there are very many of them.
    fn forget_empty(&mut self) {
        self.queues.retain(|(_, queue)| !queue.is_empty());
        let places = self.queues.iter().zip(0..).map(|((envelope, _), place)| (*envelope, place));
        self.places = places.collect();
        self.last = 0;
        self.forget_at = (2 * self.queues.len()).max(QUEUES_KEPT_MAX);
    }

    /// Queues that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.queues.len()
    }
}

/// Multiplies and folds: three words that are small numbers need no more, and it costs two instructions each.
#[derive(Default)]
struct EnvelopeHasher {
    state: u64,
}

impl Hasher for EnvelopeHasher {
    fn finish(&self) -> u64 {
        self.state ^ (self.state >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.state = (self.state.rotate_left(5) ^ u64::from(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    #[inline]
    fn write_i32(&mut self, word: i32) {
        self.write_u32(word as u32);
    }
}

/// Envelopes whose empty queues are kept at least.
const QUEUES_KEPT_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(tag: i32) -> Envelope {
        Envelope { context: 1, source: Rank(0), tag }
    }

    #[test]
    fn queues_that_are_not_empty_outlive_the_others() {
        let mut queues = Queues::default();
        let tags = if cfg!(miri) { 3000 } else { 20_000 };
        for tag in 0..tags {
            queues.push(envelope(tag), tag);
            if tag % 10 > 0 {
                assert_eq!(queues.find_mut(&envelope(tag)).and_then(VecDeque::pop_front), Some(tag));
            }
        }
        for tag in 0..tags {
            let kept = queues.find(&envelope(tag)).and_then(VecDeque::front);
            assert_eq!(kept.copied(), (tag % 10 == 0).then_some(tag));
        }
        assert!(queues.kept() < tags as usize / 2, "{} queues kept", queues.kept());
    }
}
