//! What the engine writes into a [`Header`], and how it reads one that comes from a peer.
//!
//! ```text
//! word      0        1          2         3        4          5         payload
//! eager     1        context    source    tag      -          -         the message
//! signed    11       context    source    tag      signature  -         the message
//! sync      2        context    source    tag      send index send gen. the message; wants `done`
//! request   3        context    source    tag      send index send gen. bytes u64, exposed 2 x u64[, signature u64]
//! clear     4        send index send gen. chunks   recv index recv gen. bytes wanted u64
//! data      5        recv index recv gen. -        -          -         the message
//! chunk     12       recv index recv gen. -        offset, low and high its bytes from there on
//! done      6        send index send gen. back     -          -         none
//! choke     7        -          -         -        -          -         none: send me requests only
//! relax     8        -          -         -        -          -         none: eager is welcome again
//! share     9        send index send gen. -        recv index recv gen. exposed 2 x u64: help to copy it
//! brought   10       recv index recv gen. -        -          -         bytes brought u64
//! agree     14       number     -          -        identity, low and high  a word of an agreement
//! revoke    15       context    -          -        identity, low and high  none
//! failed    16       process    -          -        -          -         none
//! retract   13       send index send gen. -        -          -         none: `done`, unless it is matched already
//! ```
//! *Back* is 1 where the message is taken out of those that wait for a receive, as `retract` asks. Indices
//! and generations name entries of the other side's request table; both are checked when they come back.

use fabric::{Exposed, Header, Payload, Peer};
use recovery::Rank;

use crate::envelope::Envelope;
use crate::peers::Parcel;
use crate::request::{Postscript, RequestId};

/// A header that has been understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The payload is the message.
    Eager(Envelope),
    /// The payload is the message, and the number says what its elements are.
    Signed(Envelope, u32),
    /// The payload is the message, and the sender wants to know when it is matched.
    Synchronous(Envelope, RequestId),
    /// A message that waits at the sender.
    Request(Envelope, RequestId),
    /// The receiver is ready: send the payload to its request, and do so in chunks where it must be taken
    /// apart.
    Clear { send: RequestId, receive: RequestId, in_chunks: bool },
    /// The payload for a request that was cleared.
    Data { receive: RequestId },
    /// A chunk of it. They come in order, and without a gap.
    Chunk { receive: RequestId, offset: u64 },
    /// The sender's memory is not needed any more, or its message is matched; or the message is taken back.
    Done { send: RequestId, is_retracted: bool },
    /// The receiver keeps too much already.
    Choke,
    /// The receiver has room again.
    Relax,
    /// The receiver copies the message, and asks the sender to bring parts of it.
    Share { send: RequestId, receive: RequestId },
    /// The sender has brought its parts.
    Brought { receive: RequestId },
    /// A word of an agreement of a communicator, by its identity.
    Agree { number: u32, identity: u64 },
    /// A communicator is revoked.
    Revoke { context: u32, identity: u64 },
    /// A process has failed; or the one that is told this is taken for dead.
    Failed { who: Peer },
    /// The sender takes a message back that waits at its side, if no receive has matched it.
    Retract { send: RequestId },
}

/// The header of an eager message: a part of the shortest way, where nothing is asked about other kinds.
#[inline(always)]
pub(crate) fn eager_header(envelope: Envelope) -> Header {
    Header { words: of_envelope(EAGER, envelope, NOBODY) }
}

impl Kind {
    pub(crate) fn header(self) -> Header {
        let words = match self {
            Kind::Eager(envelope) => return eager_header(envelope),
            Kind::Signed(Envelope { context, source, tag }, signature) => {
                [SIGNED, context, source.0, tag as u32, signature, 0]
            }
            Kind::Synchronous(envelope, send) => of_envelope(SYNCHRONOUS, envelope, send),
            Kind::Request(envelope, send) => of_envelope(REQUEST, envelope, send),
            Kind::Clear { send, receive, in_chunks } => {
                [CLEAR, send.index, send.generation, u32::from(in_chunks), receive.index, receive.generation]
            }
            Kind::Data { receive } => [DATA, receive.index, receive.generation, 0, 0, 0],
            Kind::Chunk { receive, offset } => {
                [CHUNK, receive.index, receive.generation, 0, offset as u32, (offset >> 32) as u32]
            }
            Kind::Done { send, is_retracted } => {
                [DONE, send.index, send.generation, u32::from(is_retracted), 0, 0]
            }
            Kind::Share { send, receive } => {
                [SHARE, send.index, send.generation, 0, receive.index, receive.generation]
            }
            Kind::Brought { receive } => [BROUGHT, receive.index, receive.generation, 0, 0, 0],
            Kind::Retract { send } => [RETRACT, send.index, send.generation, 0, 0, 0],
            Kind::Agree { number, identity } => {
                [AGREE, number, 0, 0, identity as u32, (identity >> 32) as u32]
            }
            Kind::Revoke { context, identity } => {
                [REVOKE, context, 0, 0, identity as u32, (identity >> 32) as u32]
            }
            Kind::Failed { who } => [FAILED, who.0, 0, 0, 0, 0],
            Kind::Choke => [STOP_SENDING, 0, 0, 0, 0, 0],
            Kind::Relax => [RESUME_SENDING, 0, 0, 0, 0, 0],
        };
        Header { words }
    }

    /// The envelope of an eager message; `None` for every other kind.
    #[inline(always)]
    pub(crate) fn eager_envelope(header: &Header) -> Option<Envelope> {
        let [kind, context, source, tag, ..] = header.words;
        (kind == EAGER).then_some(Envelope { context, source: Rank(source), tag: tag as i32 })
    }

    /// `None` for a header that no weft of this wire version writes.
    #[inline]
    pub(crate) fn of(header: &Header) -> Option<Kind> {
        let [kind, first, second, third, fourth, fifth] = header.words;
        let envelope = Envelope { context: first, source: Rank(second), tag: third as i32 };
        let front = RequestId { index: first, generation: second };
        let back = RequestId { index: fourth, generation: fifth };
        Some(match kind {
            EAGER => Kind::Eager(envelope),
            SIGNED => Kind::Signed(envelope, fourth),
            SYNCHRONOUS => Kind::Synchronous(envelope, back),
            REQUEST => Kind::Request(envelope, back),
            CLEAR => Kind::Clear { send: front, receive: back, in_chunks: third != 0 },
            DATA => Kind::Data { receive: front },
            CHUNK => Kind::Chunk { receive: front, offset: u64::from(fourth) | u64::from(fifth) << 32 },
            DONE => Kind::Done { send: front, is_retracted: third != 0 },
            STOP_SENDING => Kind::Choke,
            RESUME_SENDING => Kind::Relax,
            SHARE => Kind::Share { send: front, receive: back },
            BROUGHT => Kind::Brought { receive: front },
            AGREE => Kind::Agree { number: first, identity: u64::from(fourth) | u64::from(fifth) << 32 },
            REVOKE => Kind::Revoke { context: first, identity: u64::from(fourth) | u64::from(fifth) << 32 },
            RETRACT => Kind::Retract { send: front },
            FAILED => Kind::Failed { who: Peer(first) },
            _ => return None,
        })
    }
}

/// What a request says of the message that waits: its length, where it can be read, and what its elements
/// are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    pub bytes: usize,
    pub exposed: Exposed,
    /// 0 where the sender says nothing of them.
    pub signature: u32,
    /// The sender does nothing else until it is done.
    pub is_attended: bool,
}

impl Offer {
    /// Whether it says where the message can be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.exposed != Exposed::default()
    }

    /// What it brings besides the data.
    pub(crate) fn postscript(&self) -> Postscript {
        if self.signature == 0 { Postscript::Nothing } else { Postscript::Signature(self.signature) }
    }

    pub(crate) fn chunked_message(&self) -> Parcel {
        let mut bytes = [0; OFFER_BYTES_MAX];
        let attended = if self.is_attended { ATTENDED } else { 0 };
        bytes[..8].copy_from_slice(&(self.bytes as u64 | attended).to_le_bytes());
        bytes[8..24].copy_from_slice(&encode_exposed(self.exposed));
        bytes[24..].copy_from_slice(&u64::from(self.signature).to_le_bytes());
        Parcel::small(if self.signature == 0 { &bytes[..24] } else { &bytes })
    }

    pub(crate) fn decode(payload: Payload<'_>) -> Option<Offer> {
        let ([total, first, second], signature) = match decode_words(payload) {
            Some(words) => (words, 0),
            None => {
                let [total, first, second, signature] = decode_words(payload)?;
                ([total, first, second], u32::try_from(signature).ok().filter(|&signature| signature != 0)?)
            }
        };
        let bytes = usize::try_from(total & !ATTENDED).ok().filter(|&total| total <= isize::MAX as usize)?;
        let is_attended = total & ATTENDED != 0;
        Some(Offer { bytes, exposed: Exposed { words: [first, second] }, signature, is_attended })
    }
}

/// An invitation, as the payload of `share`.
pub(crate) fn encode_exposed(exposed: Exposed) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&exposed.words[0].to_le_bytes());
    bytes[8..].copy_from_slice(&exposed.words[1].to_le_bytes());
    bytes
}

/// The invitation that the payload of `share` holds; `None` where it is not 16 bytes long.
pub(crate) fn decode_exposed(payload: Payload<'_>) -> Option<Exposed> {
    decode_words(payload).map(|words| Exposed { words })
}

/// A number of bytes, as the payload of `clear` and `brought`.
pub(crate) fn decode_bytes(payload: Payload<'_>) -> Option<usize> {
    let [bytes] = decode_words(payload)?;
    usize::try_from(bytes).ok()
}

/// A payload of exactly so many words.
fn decode_words<const N: usize>(payload: Payload<'_>) -> Option<[u64; N]> {
    let mut bytes = [[0; 8]; N];
    let whole = payload.bytes() == N * 8 && payload.copy_to(bytes.as_flattened_mut()) == N * 8;
    whole.then(|| bytes.map(u64::from_le_bytes))
}

#[inline(always)]
fn of_envelope(kind: u32, envelope: Envelope, send: RequestId) -> [u32; 6] {
    [kind, envelope.context, envelope.source.0, envelope.tag as u32, send.index, send.generation]
}

const NOBODY: RequestId = RequestId { index: 0, generation: 0 };
/// Above the length of a message: [`Offer::is_attended`].
const ATTENDED: u64 = 1 << 63;
/// Length of an [`Offer`] on the wire, at most.
pub(crate) const OFFER_BYTES_MAX: usize = 32;

const EAGER: u32 = 1;
const SYNCHRONOUS: u32 = 2;
const REQUEST: u32 = 3;
const CLEAR: u32 = 4;
const DATA: u32 = 5;
const DONE: u32 = 6;
const STOP_SENDING: u32 = 7;
const RESUME_SENDING: u32 = 8;
const SHARE: u32 = 9;
const BROUGHT: u32 = 10;
const SIGNED: u32 = 11;
const CHUNK: u32 = 12;
const RETRACT: u32 = 13;
const AGREE: u32 = 14;
const REVOKE: u32 = 15;
const FAILED: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_header_is_answered_and_what_is_understood_comes_back(words: [u32; 6], small in 0u32..18) {
            for kind in [words[0], small] {
                let header = Header { words: [kind, words[1], words[2], words[3], words[4], words[5]] };
                if let Some(understood) = Kind::of(&header) {
                    assert_eq!(Kind::of(&understood.header()), Some(understood));
                }
            }
        }

        #[test]
        fn any_offer_is_answered(bytes: Vec<u8>) {
            if let Some(offer) = Offer::decode(Payload::from(&bytes[..])) {
                assert_eq!(offer.chunked_message().payload().to_vec(), bytes);
            }
            let _ = decode_bytes(Payload::from(&bytes[..]));
            if let Some(exposed) = decode_exposed(Payload::from(&bytes[..])) {
                assert_eq!(&encode_exposed(exposed)[..], &bytes[..]);
            }
        }
    }
}
