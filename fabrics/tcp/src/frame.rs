//! The 32 bytes ahead of every message on an open connection.
//!
//! Written by one process and believed by no other before [`Frame::decode`] has looked at it. No input or
//! output.

use fabric::Header;

/// What stands at the beginning of each chunk of the byte stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    /// A message; this many payload bytes follow.
    Message {
        /// Carried over unchanged.
        header: Header,
        /// Payload bytes that follow.
        bytes: usize,
    },
    /// The sender ends in good order; nothing follows.
    Goodbye,
}

impl Frame {
    /// The frame of a message.
    #[inline]
    pub(crate) fn of_message(header: &Header, bytes: usize) -> [u8; FRAME_BYTES] {
        debug_assert!(bytes <= PAYLOAD_BYTES_MAX, "a payload of {bytes} bytes does not fit into a frame");
        let mut frame = [0; FRAME_BYTES];
        for (place, word) in frame.chunks_exact_mut(4).zip(header.words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        frame[24..].copy_from_slice(&(bytes as u64).to_le_bytes());
        frame
    }

    /// The last frame of a connection that ends in good order.
    pub(crate) fn of_goodbye() -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        frame[KIND_AT] = KIND_GOODBYE;
        frame
    }

    /// Reads a frame that came from another process.
    #[inline]
    pub(crate) fn decode(frame: &[u8; FRAME_BYTES]) -> Result<Frame, BadFrame> {
        let mut words = [0; 6];
        for (word, place) in words.iter_mut().zip(frame.chunks_exact(4)) {
            *word = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
        }
        let mut length = [0; 8];
        length[..7].copy_from_slice(&frame[24..KIND_AT]);
        let bytes = u64::from_le_bytes(length);
        match frame[KIND_AT] {
            KIND_MESSAGE if bytes <= PAYLOAD_BYTES_MAX as u64 => {
                Ok(Frame::Message { header: Header { words }, bytes: bytes as usize })
            }
            KIND_MESSAGE => Err(BadFrame::Length { bytes }),
            KIND_GOODBYE => Ok(Frame::Goodbye),
            kind => Err(BadFrame::Kind { kind }),
        }
    }
}

/// Why 32 bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum BadFrame {
    #[error("a frame of the unknown kind {kind}")]
    Kind { kind: u8 },
    #[error("a frame that announces {bytes} payload bytes, more than any memory")]
    Length { bytes: u64 },
}

/// ```text
/// byte  0        4        8       12       16       20       24                31
///       | word 0 | word 1 | word 2 | word 3 | word 4 | word 5 | payload bytes  |kind|
///       |      the header's six words, 32 bits each           | 56 bits        | 8  |
/// ```
/// All numbers are little-endian.
pub(crate) const FRAME_BYTES: usize = 32;
const KIND_AT: usize = 31;
const KIND_MESSAGE: u8 = 0;
const KIND_GOODBYE: u8 = 1;

/// No process has more memory than this; a larger length is a broken peer and not a large message.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 47;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_comes_back_as_it_was(words: [u32; 6], bytes in 0..=PAYLOAD_BYTES_MAX) {
            let header = Header { words };
            prop_assert_eq!(
                Frame::decode(&Frame::of_message(&header, bytes)),
                Ok(Frame::Message { header, bytes })
            );
        }

        #[test]
        fn any_bytes_are_a_checked_frame_or_none(bytes: [u8; FRAME_BYTES]) {
            match Frame::decode(&bytes) {
                Ok(Frame::Message { header, bytes: length }) => {
                    prop_assert!(length <= PAYLOAD_BYTES_MAX);
                    prop_assert_eq!(Frame::of_message(&header, length), bytes);
                }
                Ok(Frame::Goodbye) => prop_assert_eq!(bytes[KIND_AT], KIND_GOODBYE),
                Err(BadFrame::Kind { kind }) => prop_assert!(kind > KIND_GOODBYE),
                Err(BadFrame::Length { bytes }) => prop_assert!(bytes > PAYLOAD_BYTES_MAX as u64),
            }
        }
    }

    #[test]
    fn goodbye_comes_back_as_goodbye() {
        assert_eq!(Frame::decode(&Frame::of_goodbye()), Ok(Frame::Goodbye));
    }

    #[test]
    fn a_length_beyond_all_memory_is_refused() {
        let frame = Frame::of_message(&Header::default(), 0);
        let mut wild = frame;
        wild[24..31].fill(0xff);
        assert_eq!(Frame::decode(&wild), Err(BadFrame::Length { bytes: (1 << 56) - 1 }));
    }
}
