//! Doors for the fuzzers of `ci/fuzz` into what this crate keeps to itself. Part of no build that is
//! installed.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use fabric::{FabricError, Header, Payload, Peer, Posted, Sink};

use crate::card::{ADDRESSES_MAX, Card};
use crate::frame::{FRAME_BYTES, Frame, PAYLOAD_BYTES_MAX};
use crate::handshake::{
    ANSWER_BYTES, Answer, HELLO_BYTES, Hello, KIND_HELLO, Nonce, PROOF_BYTES, Refusal, Secret, Transcript,
    VERDICT_BYTES, Verdict, check_beginning, foreign_version, proof,
};
use crate::host::Host;
use crate::link::{Ended, Inbox, Open, Turn};

/// Reads any bytes as a card, and uses what is believed as a process would; true where it was believed.
///
/// # Panics
/// When a card is believed that must not be.
pub fn card(bytes: &[u8]) -> bool {
    let Ok(card) = Card::decode(bytes) else { return false };
    assert!(card.addresses.len() <= ADDRESSES_MAX && card.port != 0, "{card:?}");
    assert!(!card.host_name.chars().any(char::is_control), "{card:?}");
    let networks = card.addresses.iter().map(|address| (*address, 24)).collect();
    let here = Host { name: "here".into(), identity: card.host_identity, networks };
    assert!(card.dials_from(&here).len() <= card.addresses.len());
    let again = Card::decode(&card.encode()).expect("what is believed can be said again");
    assert_eq!((again.port, &again.addresses), (card.port, &card.addresses));
    true
}

/// The card of a process with this secret that listens at `address`.
#[must_use]
pub fn card_of(secret: Secret, address: SocketAddr) -> Vec<u8> {
    let card = Card {
        host_name: "fuzz".into(),
        host_identity: fabric::HostIdentity([0; 16]),
        secret,
        port: address.port(),
        barred: crate::knock::Barred::None,
        addresses: vec![address.ip()],
    };
    card.encode()
}

/// The secret that a card tells.
///
/// # Panics
/// When it is no card.
#[must_use]
pub fn secret_of(card: &[u8]) -> Secret {
    Card::decode(card).expect("a card").secret
}

/// Reads any bytes as each of the texts of a handshake, and as the frame behind it.
///
/// # Panics
/// When one is believed that must not be.
pub fn texts(bytes: &[u8]) {
    let _ = check_beginning(bytes, KIND_HELLO);
    let _ = foreign_version(bytes);
    if let Some(text) = bytes.first_chunk::<HELLO_BYTES>()
        && let Ok(hello) = Hello::decode(text)
    {
        assert!(!hello.host.chars().any(char::is_control), "{hello:?}");
        assert_eq!(text[..4], hello.encode()[..4]);
    }
    if let Some(text) = bytes.first_chunk::<ANSWER_BYTES>() {
        let _ = Answer::decode(text);
    }
    if let Some(text) = bytes.first_chunk::<VERDICT_BYTES>()
        && let Ok(verdict) = Verdict::decode(text)
    {
        assert_eq!(text[..7], verdict.encode()[..7], "a verdict is its prefix");
    }
    if let Some(text) = bytes.first_chunk::<FRAME_BYTES>()
        && let Ok(Frame::Message { header, bytes }) = Frame::decode(text)
    {
        assert!(bytes <= PAYLOAD_BYTES_MAX, "{bytes} bytes");
        assert_eq!(&Frame::of_message(&header, bytes), text, "a frame that is not written so");
    }
}

/// A right hello.
#[must_use]
pub fn hello(from: u32, to: u32, nonce: Nonce) -> [u8; HELLO_BYTES] {
    Hello { from: Peer(from), to: Peer(to), nonce, host: "fuzz".into() }.encode()
}

/// The right answer to a hello.
#[must_use]
pub fn answer(secret: &Secret, hello: &[u8; HELLO_BYTES], nonce: &Nonce) -> [u8; ANSWER_BYTES] {
    Answer::prove(secret, &Transcript { hello, answer_nonce: nonce })
}

/// A refusal.
#[must_use]
pub fn refusal() -> [u8; ANSWER_BYTES] {
    Answer::refuse(Refusal::NoDescriptors)
}

/// The right proof for a hello and the answer to it, whatever that says; `None` where it is no answer.
#[must_use]
pub fn proof_for(
    secret: &Secret,
    hello: &[u8; HELLO_BYTES],
    answer: &[u8; ANSWER_BYTES],
) -> Option<[u8; PROOF_BYTES]> {
    match Answer::decode(answer) {
        Ok(Answer::Nonce { nonce, .. }) => Some(proof(secret, &Transcript { hello, answer_nonce: &nonce })),
        _ => None,
    }
}

/// A verdict: open, or another.
#[must_use]
pub fn verdict(open: bool) -> [u8; VERDICT_BYTES] {
    if open { Verdict::Open.encode() } else { Verdict::Another.encode() }
}

/// The frame of a message.
#[must_use]
pub fn frame(words: [u32; 6], bytes: usize) -> [u8; FRAME_BYTES] {
    Frame::of_message(&Header { words }, bytes.min(PAYLOAD_BYTES_MAX))
}

/// One open connection, without the handshake before it.
pub struct FuzzedLink {
    open: Open,
    inbox: Inbox,
}

impl FuzzedLink {
    /// The connection over `socket`, which does not block, to `peer`.
    #[must_use]
    pub fn new(socket: OwnedFd, peer: Peer) -> FuzzedLink {
        FuzzedLink { open: Open::new(socket, peer, "the fuzzer".into()), inbox: Inbox::new() }
    }

    /// Reports what has come; how many things happened, or how the connection ended (`None` for a goodbye).
    ///
    /// # Errors
    /// After one the connection is of no further use.
    pub fn poll(&mut self, sink: &mut impl Sink, events: usize) -> Result<usize, Option<FabricError>> {
        let mut turn = Turn::new(events);
        let mut outcome = Ok(());
        if !self.inbox.is_empty() {
            outcome = self.open.deliver(&mut self.inbox, sink, &mut turn);
        }
        if outcome.is_ok() && self.inbox.is_empty() && turn.left > 0 {
            outcome = self.open.receive(&mut self.inbox, sink, &mut turn);
        }
        match outcome {
            Ok(()) => Ok(turn.happened),
            Err(Ended::Goodbye) => Err(None),
            Err(Ended::Lost(error)) => Err(Some(error)),
        }
    }

    /// Begins a message.
    pub fn post(&mut self, header: &Header, payload: Payload<'_>) -> Posted {
        self.open.post(header, payload, 0)
    }

    /// Goes on with a message.
    pub fn resume(&mut self, rest: Payload<'_>) -> Posted {
        self.open.resume(rest)
    }
}
