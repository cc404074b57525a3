//! What stands before each message on the way. No input or output here.

use fabric::{Exposed, Header, Payload, Peer};

use crate::memory::{Keys, RAILS_MAX};

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
    /// Counts what goes from one process to the other. Providers bring messages in order but may tell of them
    /// in another.
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
    /// The beginning of one that comes in chunks: its length in 8 bytes, and the first chunk.
    Long,
    /// The next chunk of it.
    Chunk,
    /// Nothing: when it has left, so have all before it.
    Nothing,
    /// The last: the sender leaves the job.
    Farewell,
    /// The keys at several rails of memory that the next message tells of.
    Keys,
}

impl Frame {
    #[inline]
    pub(crate) fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        let kind = match self.kind {
            Kind::Hello => 1,
            Kind::Message => 2,
            Kind::Long => 3,
            Kind::Chunk => 4,
            Kind::Nothing => 5,
            Kind::Farewell => 6,
            Kind::Keys => 7,
        };
        let first = [self.seal, self.from.0, self.sequence, kind];
        let words = first.into_iter().chain(self.header.words);
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The encoded frame of a message that comes in chunks, followed by the length of that message: `bytes`
    /// as 8 bytes, little-endian.
    pub(crate) fn encode_long(&self, bytes: usize) -> [u8; FRAME_BYTES + LENGTH_BYTES] {
        let mut long = [0; FRAME_BYTES + LENGTH_BYTES];
        long[..FRAME_BYTES].copy_from_slice(&self.encode());
        long[FRAME_BYTES..].copy_from_slice(&(bytes as u64).to_le_bytes());
        long
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
            4 => Kind::Chunk,
            5 => Kind::Nothing,
            6 => Kind::Farewell,
            7 => Kind::Keys,
            _ => return None,
        };
        Some(Frame { seal, from: Peer(from), sequence, kind, header: Header { words: header } })
    }
}

/// The length at the beginning of a payload, and what stands behind it. `None` where none is that a message
/// can have.
pub(crate) fn length(payload: Payload<'_>) -> Option<(usize, Payload<'_>)> {
    let mut bytes = [0; LENGTH_BYTES];
    let is_whole = payload.copy_to(&mut bytes) == LENGTH_BYTES;
    let bytes = usize::try_from(u64::from_le_bytes(bytes)).ok()?;
    (is_whole && (1..=isize::MAX as usize).contains(&bytes)).then(|| (bytes, payload.after(LENGTH_BYTES)))
}

/// Keys of what is shown, as they travel:
///
/// ```text
/// 0 address, key at the first rail: exposed 2 x u64   16 which there are: a bit for each u64   24 keys 4 x u64
/// ```
pub(crate) fn encode_keys(exposed: Exposed, keys: Keys) -> [u8; KEYS_BYTES] {
    let mut words = [0; KEYS_BYTES / 8];
    words[..2].copy_from_slice(&exposed.words);
    for (rail, key) in keys.0.iter().enumerate() {
        words[2] |= u64::from(key.is_some()) << rail;
        words[3 + rail] = key.unwrap_or_default();
    }
    let mut bytes = [0; KEYS_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// `None` for what no process of this version sends.
pub(crate) fn decode_keys(payload: Payload<'_>) -> Option<(Exposed, Keys)> {
    let mut bytes = [0; KEYS_BYTES];
    if payload.bytes() != KEYS_BYTES || payload.copy_to(&mut bytes) != KEYS_BYTES {
        return None;
    }
    let mut words = [0; KEYS_BYTES / 8];
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(place.try_into().ok()?);
    }
    let [first, second, there, keys @ ..] = words;
    let keys = std::array::from_fn(|rail| (there & 1 << rail != 0).then(|| keys[rail]));
    Some((Exposed { words: [first, second] }, Keys(keys)))
}

pub(crate) const FRAME_BYTES: usize = 40;
const KEYS_BYTES: usize = 24 + 8 * RAILS_MAX;
/// A length before the first chunk of a message.
pub(crate) const LENGTH_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_come_as_they_went() {
        let exposed = Exposed { words: [u64::MAX, 5] };
        for keys in [[None; RAILS_MAX], [Some(5), None, Some(u64::MAX), Some(0)]] {
            let bytes = encode_keys(exposed, Keys(keys));
            assert_eq!(decode_keys(Payload::from(&bytes[..])), Some((exposed, Keys(keys))));
            assert_eq!(decode_keys(Payload::from(&bytes[1..])), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_that_says_the_same_or_none(bytes: [u8; FRAME_BYTES], kind in 0u32..9) {
            let mut bytes = bytes;
            bytes[12..16].copy_from_slice(&kind.to_le_bytes());
            match Frame::decode(&bytes) {
                Some(frame) => prop_assert_eq!(frame.encode(), bytes),
                None => prop_assert!(kind == 0 || kind > 7),
            }
        }
    }
}
