//! What stands before each message on the way. No input or output here.

use fabric::{Header, Peer};

/// The first 40 bytes of every message.
///
/// ```text
/// 0 seal u32   4 from u32   8 sequence u32   12 kind u32   16 header [24]   40 payload
/// ```
/// All numbers are little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    /// The receiver's own secret number: who does not know it is a stranger.
    pub(crate) seal: u32,
    /// The sender.
    pub(crate) from: Peer,
    /// Counts what goes from one process to the other. Providers bring messages in order but may tell of them in another.
    pub(crate) sequence: u32,
    pub(crate) kind: Kind,
    pub(crate) header: Header,
}

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The first of all: the payload is the sender's card.
    Hello,
    /// A message of the engine, whole.
    Message,
    /// The beginning of one that comes in pieces: the payload is its length, in 8 bytes.
    Long,
    /// The next piece of it.
    Piece,
    /// Nothing: when it has left, so have all before it.
    Nothing,
    /// The last: the sender leaves the job.
    Farewell,
}

impl Frame {
    #[inline]
    pub(crate) fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        let kind = match self.kind {
            Kind::Hello => 1,
            Kind::Message => 2,
            Kind::Long => 3,
            Kind::Piece => 4,
            Kind::Nothing => 5,
            Kind::Farewell => 6,
        };
        let first = [self.seal, self.from.0, self.sequence, kind];
        let words = first.into_iter().chain(self.header.words);
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` for what no process of this version sends.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; FRAME_BYTES]) -> Option<Frame> {
        let mut words = [0; FRAME_BYTES / 4];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(place.try_into().ok()?);
        }
        let [seal, from, sequence, kind, header @ ..] = words;
        let kind = match kind {
            1 => Kind::Hello,
            2 => Kind::Message,
            3 => Kind::Long,
            4 => Kind::Piece,
            5 => Kind::Nothing,
            6 => Kind::Farewell,
            _ => return None,
        };
        Some(Frame { seal, from: Peer(from), sequence, kind, header: Header { words: header } })
    }
}

pub(crate) const FRAME_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_that_says_the_same_or_none(bytes: [u8; FRAME_BYTES], kind in 0u32..8) {
            let mut bytes = bytes;
            bytes[12..16].copy_from_slice(&kind.to_le_bytes());
            match Frame::decode(&bytes) {
                Some(frame) => prop_assert_eq!(frame.encode(), bytes),
                None => prop_assert!(kind == 0 || kind > 6),
            }
        }
    }
}
