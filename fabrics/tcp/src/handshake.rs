//! What two processes say to each other before the first message: four texts of fixed length.
//!
//! The initiator shows that it holds the secret from the acceptor's card, and the acceptor shows that it is
//! the process which put it there; so a stranger, or a wrong host that owns the same address, is found out
//! before one byte is believed. The secret itself never travels. No input or output here.
//!
//! ```text
//! initiator                              acceptor
//!     HELLO  who I am, whom I want, nonce   ->
//!     <-  ANSWER  nonce, mac over both      (or REFUSAL with a reason)
//!     PROOF  mac over both                  ->
//!     <-  VERDICT  open, or not this one
//! ```

use fabric::Peer;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::card::printable;

/// What only the process itself and the readers of its card know.
pub(crate) type Secret = [u8; 16];
/// Fresh random bytes, so that no proof can be used twice.
pub(crate) type Nonce = [u8; 16];
/// Both parts that the proofs are about: the hello as it travelled, and the acceptor's nonce.
pub(crate) struct Transcript<'a> {
    pub(crate) hello: &'a [u8; HELLO_BYTES],
    pub(crate) answer_nonce: &'a Nonce,
}

/// The initiator's first text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(crate) from: Peer,
    pub(crate) to: Peer,
    pub(crate) nonce: Nonce,
    /// The initiator's host, for messages to people only.
    pub(crate) host: String,
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut text = [0; HELLO_BYTES];
        text[..8].copy_from_slice(&prefix(KIND_HELLO));
        text[8..12].copy_from_slice(&self.from.0.to_le_bytes());
        text[12..16].copy_from_slice(&self.to.0.to_le_bytes());
        text[16..32].copy_from_slice(&self.nonce);
        let host = self.host.as_bytes();
        let bytes = host.len().min(HELLO_BYTES - 32);
        text[32..32 + bytes].copy_from_slice(&host[..bytes]);
        text
    }

    pub(crate) fn decode(text: &[u8; HELLO_BYTES]) -> Result<Hello, BadText> {
        check_prefix(text, KIND_HELLO)?;
        let host = text[32..].split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Hello {
            from: Peer(word(text, 8)),
            to: Peer(word(text, 12)),
            nonce: chunk(text, 16),
            host: printable(host),
        })
    }
}

/// The acceptor's first text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It is I, and here is the proof.
    Nonce { nonce: Nonce, mac: [u8; 32] },
    /// No connection can be had, for this reason.
    Refusal(Refusal),
}

/// Why an acceptor answers but cannot take a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The acceptor has no descriptor left.
    NoDescriptors,
    /// The acceptor speaks another version; the text's prefix says which.
    OtherVersion,
}

impl Answer {
    /// The answer of the process that owns `secret`.
    pub(crate) fn prove(secret: &Secret, transcript: &Transcript<'_>) -> [u8; ANSWER_BYTES] {
        let mut text = [0; ANSWER_BYTES];
        text[..8].copy_from_slice(&prefix(KIND_ANSWER));
        text[8..24].copy_from_slice(transcript.answer_nonce);
        text[24..].copy_from_slice(&mac(secret, LABEL_ANSWER, transcript).finalize().into_bytes());
        text
    }

    pub(crate) fn refuse(refusal: Refusal) -> [u8; ANSWER_BYTES] {
        let mut text = [0; ANSWER_BYTES];
        text[..8].copy_from_slice(&prefix(KIND_REFUSAL));
        text[8] = match refusal {
            Refusal::NoDescriptors => REFUSAL_NO_DESCRIPTORS,
            Refusal::OtherVersion => REFUSAL_OTHER_VERSION,
        };
        text
    }

    pub(crate) fn decode(text: &[u8; ANSWER_BYTES]) -> Result<Answer, BadText> {
        if check_prefix(text, KIND_REFUSAL).is_ok() {
            return match text[8] {
                REFUSAL_NO_DESCRIPTORS => Ok(Answer::Refusal(Refusal::NoDescriptors)),
                REFUSAL_OTHER_VERSION => Ok(Answer::Refusal(Refusal::OtherVersion)),
                _ => Err(BadText::Foreign),
            };
        }
        check_prefix(text, KIND_ANSWER)?;
        Ok(Answer::Nonce { nonce: chunk(text, 8), mac: chunk(text, 24) })
    }
}

/// Whether `claimed` shows that the acceptor owns `secret`. Takes the same time for every wrong answer.
pub(crate) fn is_answer_proved(secret: &Secret, transcript: &Transcript<'_>, claimed: &[u8; 32]) -> bool {
    mac(secret, LABEL_ANSWER, transcript).verify_slice(claimed).is_ok()
}

/// The initiator's second text.
pub(crate) fn proof(secret: &Secret, transcript: &Transcript<'_>) -> [u8; PROOF_BYTES] {
    let mut text = [0; PROOF_BYTES];
    text[..8].copy_from_slice(&prefix(KIND_PROOF));
    text[8..].copy_from_slice(&mac(secret, LABEL_PROOF, transcript).finalize().into_bytes());
    text
}

/// Whether `text` shows that the initiator has read the card with `secret`.
pub(crate) fn is_proof(secret: &Secret, transcript: &Transcript<'_>, text: &[u8; PROOF_BYTES]) -> bool {
    let claimed: [u8; 32] = chunk(text, 8);
    check_prefix(text, KIND_PROOF).is_ok()
        && mac(secret, LABEL_PROOF, transcript).verify_slice(&claimed).is_ok()
}

/// The acceptor's last word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The connection is open; frames follow.
    Open,
    /// There is, or was, a connection between the two already.
    Another,
}

impl Verdict {
    pub(crate) fn encode(self) -> [u8; VERDICT_BYTES] {
        prefix(match self {
            Verdict::Open => KIND_OPEN,
            Verdict::Another => KIND_ANOTHER,
        })
    }

    pub(crate) fn decode(text: &[u8; VERDICT_BYTES]) -> Result<Verdict, BadText> {
        match check_prefix(text, KIND_OPEN) {
            Ok(()) => Ok(Verdict::Open),
            Err(_) => check_prefix(text, KIND_ANOTHER).map(|()| Verdict::Another),
        }
    }
}

/// Why bytes are not the text that was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum BadText {
    #[error("what answers there is no weft process")]
    Foreign,
    #[error("it speaks version {theirs} of the tcp protocol, and this process version {VERSION}")]
    Version { theirs: u16 },
}

/// Looks at as much of a text's beginning as has come, so that strangers are known by their first bytes.
pub(crate) fn check_beginning(text: &[u8], kind: u8) -> Result<(), BadText> {
    let magic = text.len().min(4);
    if text[..magic] != MAGIC[..magic] {
        return Err(BadText::Foreign);
    }
    if text.len() < 8 { Ok(()) } else { check_prefix(text, kind) }
}

/// The version that stands in a text of at least 8 bytes, where it is not ours.
pub(crate) fn foreign_version(text: &[u8]) -> Option<u16> {
    match text.get(..8).map(|text| check_prefix(text, 0)) {
        Some(Err(BadText::Version { theirs })) => Some(theirs),
        _ => None,
    }
}

fn check_prefix(text: &[u8], kind: u8) -> Result<(), BadText> {
    let theirs = u16::from_le_bytes([text[4], text[5]]);
    if text[..4] != MAGIC {
        Err(BadText::Foreign)
    } else if theirs != VERSION {
        Err(BadText::Version { theirs })
    } else if text[6] != kind {
        Err(BadText::Foreign)
    } else {
        Ok(())
    }
}

fn prefix(kind: u8) -> [u8; 8] {
    let version = VERSION.to_le_bytes();
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], version[0], version[1], kind, 0]
}

fn mac(secret: &Secret, label: &[u8], transcript: &Transcript<'_>) -> Hmac<Sha256> {
    let keyed = <Hmac<Sha256> as KeyInit>::new_from_slice(secret);
    let mut mac = keyed.expect("HMAC takes a key of any length");
    mac.update(label);
    mac.update(transcript.hello);
    mac.update(transcript.answer_nonce);
    mac
}

fn word(text: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(chunk(text, at))
}

/// `N` bytes of a text of fixed length; callers keep inside it.
fn chunk<const N: usize>(text: &[u8], at: usize) -> [u8; N] {
    let mut chunk = [0; N];
    chunk.copy_from_slice(&text[at..at + N]);
    chunk
}

/// The version of everything that travels: this file, `frame.rs` and `card.rs`. The first 6 bytes of each
/// text mean the same in every version.
pub(crate) const VERSION: u16 = 1;
const MAGIC: [u8; 4] = *b"WefT";

/// ```text
/// every text   0 "WefT"  4 version u16  6 kind u8  7 zero
/// HELLO    96  8 initiator u32  12 acceptor u32  16 nonce [16]  32 host name [64], zero-filled
/// ANSWER   56  8 nonce [16]  24 mac [32]
/// REFUSAL  56  8 reason u8  9 zeros
/// PROOF    40  8 mac [32]
/// VERDICT   8
/// ```
/// All numbers are little-endian. A mac is HMAC-SHA-256 under the acceptor's secret over a label, the hello
/// and the acceptor's nonce.
pub(crate) const HELLO_BYTES: usize = 96;
pub(crate) const ANSWER_BYTES: usize = 56;
pub(crate) const PROOF_BYTES: usize = 40;
pub(crate) const VERDICT_BYTES: usize = 8;

pub(crate) const KIND_HELLO: u8 = 1;
const KIND_ANSWER: u8 = 2;
const KIND_REFUSAL: u8 = 3;
const KIND_PROOF: u8 = 4;
const KIND_OPEN: u8 = 5;
const KIND_ANOTHER: u8 = 6;

const REFUSAL_NO_DESCRIPTORS: u8 = 1;
const REFUSAL_OTHER_VERSION: u8 = 2;

/// The two proofs must differ, or an answer could be sent back as a proof.
const LABEL_ANSWER: &[u8] = b"weft tcp answer";
const LABEL_PROOF: &[u8] = b"weft tcp proof";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello { from: Peer(7), to: Peer(u32::MAX), nonce: [9; 16], host: "node7".to_string() }
    }

    #[test]
    fn a_whole_exchange_is_believed() {
        let (secret, sent) = ([3; 16], hello().encode());
        let transcript = Transcript { hello: &sent, answer_nonce: &[5; 16] };
        assert_eq!(Hello::decode(&sent), Ok(hello()));
        let Ok(Answer::Nonce { nonce, mac }) = Answer::decode(&Answer::prove(&secret, &transcript)) else {
            panic!("an answer was not read as one");
        };
        assert_eq!(nonce, [5; 16]);
        assert!(is_answer_proved(&secret, &transcript, &mac));
        assert!(is_proof(&secret, &transcript, &proof(&secret, &transcript)));
        for verdict in [Verdict::Open, Verdict::Another] {
            assert_eq!(Verdict::decode(&verdict.encode()), Ok(verdict));
        }
    }

    #[test]
    fn an_answer_is_no_proof() {
        let (secret, sent) = ([3; 16], hello().encode());
        let transcript = Transcript { hello: &sent, answer_nonce: &[5; 16] };
        let answer = Answer::prove(&secret, &transcript);
        let mut replayed = proof(&secret, &transcript);
        replayed[8..].copy_from_slice(&answer[24..]);
        assert!(!is_proof(&secret, &transcript, &replayed));
    }

    #[test]
    fn another_version_is_named() {
        let mut text = hello().encode();
        text[4..6].copy_from_slice(&777u16.to_le_bytes());
        assert_eq!(Hello::decode(&text), Err(BadText::Version { theirs: 777 }));
        assert_eq!(foreign_version(&text), Some(777));
        assert_eq!(foreign_version(&hello().encode()), None);
        let refusal = Answer::refuse(Refusal::NoDescriptors);
        assert_eq!(Answer::decode(&refusal), Ok(Answer::Refusal(Refusal::NoDescriptors)));
    }

    proptest! {
        #[test]
        fn one_changed_bit_breaks_the_proof(bit in 64..PROOF_BYTES * 8) {
            let (secret, sent) = ([3; 16], hello().encode());
            let transcript = Transcript { hello: &sent, answer_nonce: &[5; 16] };
            let mut text = proof(&secret, &transcript);
            text[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_proof(&secret, &transcript, &text));
        }

        #[test]
        fn another_secret_nonce_or_hello_breaks_it(secret: Secret, nonce: Nonce, from: u32) {
            let (ours, sent) = ([3; 16], hello().encode());
            let good = Transcript { hello: &sent, answer_nonce: &[5; 16] };
            let text = proof(&ours, &good);
            let other = Hello { from: Peer(from), ..hello() }.encode();
            prop_assume!(secret != ours && nonce != [5; 16] && other != sent);
            let other_nonce = Transcript { hello: &sent, answer_nonce: &nonce };
            let other_hello = Transcript { hello: &other, answer_nonce: &[5; 16] };
            prop_assert!(!is_proof(&secret, &good, &text), "another secret");
            prop_assert!(!is_proof(&ours, &other_nonce, &text), "another nonce");
            prop_assert!(!is_proof(&ours, &other_hello, &text), "another hello");
        }

        #[test]
        fn any_bytes_are_answered(hello: [u8; HELLO_BYTES], answer: [u8; ANSWER_BYTES], verdict: [u8; VERDICT_BYTES]) {
            // Random bytes almost never begin with the magic, so half of the runs are given it.
            for with_magic in [false, true] {
                let (mut hello, mut answer, mut verdict) = (hello, answer, verdict);
                if with_magic {
                    for text in [&mut hello[..], &mut answer[..], &mut verdict[..]] {
                        text[..6].copy_from_slice(&prefix(0)[..6]);
                    }
                }
                if let Ok(read) = Hello::decode(&hello) {
                    prop_assert_eq!(hello[6], KIND_HELLO);
                    prop_assert!(!read.host.chars().any(char::is_control));
                }
                if Answer::decode(&answer).is_ok() {
                    prop_assert!(answer[6] == KIND_ANSWER || answer[6] == KIND_REFUSAL);
                }
                if Verdict::decode(&verdict).is_ok() {
                    prop_assert!(verdict[6] == KIND_OPEN || verdict[6] == KIND_ANOTHER);
                }
            }
        }

        #[test]
        fn beginnings_of_a_hello_are_not_refused_early(bytes in 0..=HELLO_BYTES) {
            prop_assert_eq!(check_beginning(&hello().encode()[..bytes], KIND_HELLO), Ok(()));
        }
    }
}
