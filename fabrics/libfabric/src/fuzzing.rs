//! Doors for the fuzzers of `ci/fuzz` into what this crate keeps to itself. Part of no build that is
//! installed.

use fabric::{Header, Payload, Peer};
use libfabric_sys::{Address, Answer, Capacity, Endpoint, Library, Offer, Wanted};

use crate::card::Card;
use crate::libfabric::Libfabric;
use crate::wire::{FRAME_BYTES, Frame, Kind, length};

/// Reads any bytes as a card, and as the beginning of a message; true where it is believed as a card.
///
/// # Panics
/// When one is believed that must not be.
pub fn texts(bytes: &[u8]) -> bool {
    if let Some((long, rest)) = length(Payload::from(bytes)) {
        assert!(long > 0 && rest.bytes() < bytes.len());
    }
    if let Some(frame) = bytes.first_chunk().and_then(Frame::decode) {
        assert_eq!(frame.encode()[..], bytes[..FRAME_BYTES]);
    }
    let Ok(card) = Card::decode(bytes) else { return false };
    assert!(
        card.fits() && !card.host_name.chars().chain(card.provider.chars()).any(char::is_control),
        "{card:?}"
    );
    assert_eq!(Card::decode(&card.encode()).expect("what is believed can be said again").name, card.name);
    true
}

/// Somebody on the network who sends to one process whatever it likes.
pub struct Vandal {
    endpoint: Endpoint,
    victim: Address,
    card: Card,
}

impl Vandal {
    /// One who has seen the card of `victim`.
    ///
    /// # Panics
    /// When the library has no endpoint for it.
    #[must_use]
    pub fn at(victim: &Libfabric, library: Library) -> Vandal {
        let offers = Offer::find(library, Wanted::default()).expect("offers");
        let capacity = Capacity { operations: 1, message_bytes_max: 1000 };
        let mut endpoint = Endpoint::open(&offers[0], capacity).expect("an endpoint");
        let card = victim.card.clone();
        let address = endpoint.insert(&card.name).expect("the victim's address");
        Vandal { endpoint, victim: address, card }
    }

    /// A card of its own, with which it can be reached.
    #[must_use]
    pub fn card(&self) -> Vec<u8> {
        Card { seal: 5, name: self.endpoint.name().to_vec(), ..self.card.clone() }.encode()
    }

    /// Sends a frame in the name of `from`, with a kind by number; true where it has gone. `seal` is added to
    /// what the card says: zero is right.
    pub fn frame(&mut self, from: Peer, (seal, sequence, kind): (u32, u32, u8), payload: &[u8]) -> bool {
        const KINDS: [Kind; 7] =
            [Kind::Hello, Kind::Message, Kind::Long, Kind::Chunk, Kind::Nothing, Kind::Farewell, Kind::Keys];
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        let seal = self.card.seal.wrapping_add(seal);
        let frame = Frame { seal, from, sequence, kind, header: Header::default() };
        self.raw(&[&frame.encode()[..], payload].concat())
    }

    /// Sends any bytes; true where they have gone.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.endpoint.inject(bytes, self.victim) == Answer::Taken
    }
}
