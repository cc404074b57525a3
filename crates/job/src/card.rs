//! Business cards: what a process tells the others of itself before they can talk.
//!
//! ```text
//! byte 0   the version of the card and of everything that goes over wires, 2
//! then     sections: kind u8, length u16 little-endian, that many bytes
//!          kind 3  the tcp fabric's address
//!          kind 5  the version of the library, text
//!          kind 6  the name of the host, text, for messages to people
//!          kind 8  the libfabric fabric's address
//!          kind 9  of process 0 only: by what all choose their collective algorithms, text (`tuning`); nothing is usual
//!          kind 7  of process 0 only: 16 random bytes, by which processes of one job know each other
//! ```
//! Unknown kinds are passed over, so that a later version can add some. The sections are the same in all
//! versions, so that of a card of another version at least the kinds 5 and 6 can be told.

use fabric::Peer;

use crate::error::{Class, Error, Result};

/// A card.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Card {
    pub library: String,
    pub host: String,
    pub tcp: Option<Vec<u8>>,
    pub libfabric: Option<Vec<u8>>,
    /// By what all choose their collective algorithms, as `tuning` writes it.
    pub guide: Option<String>,
    pub token: Option<Token>,
}

/// What the processes of a job have in common, and no other job has.
pub(crate) type Token = [u8; 16];

impl Card {
    /// The card of this process, as far as no fabric is concerned.
    pub(crate) fn of_this_process() -> Card {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Card { library: LIBRARY.to_owned(), host, ..Card::default() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        section(&mut bytes, LIBRARY_VERSION, self.library.as_bytes());
        section(&mut bytes, HOST, self.host.as_bytes());
        if let Some(tcp) = &self.tcp {
            section(&mut bytes, TCP, tcp);
        }
        if let Some(libfabric) = &self.libfabric {
            section(&mut bytes, LIBFABRIC, libfabric);
        }
        if let Some(guide) = &self.guide {
            section(&mut bytes, GUIDE, guide.as_bytes());
        }
        if let Some(token) = &self.token {
            section(&mut bytes, TOKEN, token);
        }
        bytes
    }

    /// `None` for what is no card of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Card> {
        if bytes.first() == Some(&VERSION) { Card::of_any_version(bytes) } else { None }
    }

    fn of_any_version(bytes: &[u8]) -> Option<Card> {
        let (_, mut rest) = bytes.split_first()?;
        let mut card = Card::default();
        while !rest.is_empty() {
            let (head, after) = rest.split_at_checked(3)?;
            let (body, after) =
                after.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
            match head[0] {
                TCP => card.tcp = Some(body.to_vec()),
                LIBFABRIC => card.libfabric = Some(body.to_vec()),
                LIBRARY_VERSION => card.library = String::from_utf8(body.to_vec()).ok()?,
                HOST => card.host = String::from_utf8(body.to_vec()).ok()?,
                GUIDE => card.guide = Some(String::from_utf8(body.to_vec()).ok()?),
                TOKEN => card.token = Some(body.try_into().ok()?),
                _ => {}
            }
            rest = after;
        }
        Some(card)
    }

    /// The token out of process 0's card, and by what to choose algorithms, if this process has the same
    /// library.
    ///
    /// Every process compares itself with process 0, so any two that differ are found by one of them, and
    /// nobody needs more than one card.
    pub(crate) fn agree(&self, here: Peer, first: Option<&[u8]>) -> Result<(Token, Option<String>)> {
        let bytes = first.ok_or_else(|| {
            Error::new(Class::Other, "process 0 has left no card")
                .remedy("all processes of a job must load this library; check what process 0 runs")
        })?;
        let (card, read) = match Card::decode(bytes) {
            Some(card) => (card, true),
            None => (Card::of_any_version(bytes).unwrap_or_default(), false),
        };
        match card.token {
            Some(token) if read && card.library == self.library => Ok((token, card.guide)),
            _ => Err(differ(here, self, &card)),
        }
    }
}

fn differ(here: Peer, own: &Card, first: &Card) -> Error {
    let told = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let what = format!(
        "the processes of this job run different versions of this library: process {} on {} runs {}, process 0 on {} \
         runs {}",
        here.0,
        told(&own.host),
        told(&own.library),
        told(&first.host),
        told(&first.library),
    );
    Error::new(Class::Other, what).remedy(
        "all must load the same one: compare LD_LIBRARY_PATH on the nodes, and what `ldd PROGRAM` shows there",
    )
}

fn section(bytes: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let length = u16::try_from(body.len()).expect("sections are at most some hundred bytes");
    bytes.push(kind);
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
}

/// Kinds 1, 2 and 4 were used by version 1.
const TCP: u8 = 3;
const LIBRARY_VERSION: u8 = 5;
const HOST: u8 = 6;
const TOKEN: u8 = 7;
const LIBFABRIC: u8 = 8;
const GUIDE: u8 = 9;

/// The version of everything that processes say to each other before they have compared their cards.
pub(crate) const VERSION: u8 = 2;
const LIBRARY: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            library: String,
            host: String,
            tcp: Option<Vec<u8>>,
            libfabric: Option<Vec<u8>>,
            guide: Option<String>,
            token: Option<Token>,
        ) {
            let card = Card { library, host, tcp, libfabric, guide, token };
            assert_eq!(Card::decode(&card.encode()), Some(card));
        }

        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = Card::decode(&bytes);
            let _ = Card::default().agree(Peer(1), Some(&bytes));
        }
    }

    #[test]
    fn another_version_is_no_card() {
        assert_eq!(Card::decode(&[1]), None);
        assert_eq!(Card::decode(&[]), None);
        assert_eq!(Card::decode(&[VERSION, 99, 1, 0, 77]), Some(Card::default()));
    }

    #[test]
    fn processes_with_different_libraries_are_told_with_both_versions() {
        let card = |library: &str, host: &str| Card {
            library: library.to_owned(),
            host: host.to_owned(),
            guide: Some("allreduce:ring\n".to_owned()),
            token: Some([7; 16]),
            ..Card::default()
        };
        let (ours, same, other) = (card("0.1.0", "n1"), card("0.1.0", "n2"), card("0.2.3", "n2"));
        let agreed = ours.agree(Peer(3), Some(&same.encode())).unwrap();
        assert_eq!(agreed, ([7; 16], Some("allreduce:ring\n".to_owned())));
        let error = ours.agree(Peer(3), Some(&other.encode())).unwrap_err().to_string();
        assert!(error.contains("process 3 on n1 runs 0.1.0, process 0 on n2 runs 0.2.3"), "{error}");
        let mut later = other.encode();
        later[0] = VERSION + 1;
        let error = ours.agree(Peer(3), Some(&later)).unwrap_err().to_string();
        assert!(error.contains("process 0 on n2 runs 0.2.3"), "{error}");
        let error = ours.agree(Peer(3), Some(b"nonsense")).unwrap_err().to_string();
        assert!(error.contains("process 0 on unknown runs unknown"), "{error}");
        assert!(ours.agree(Peer(3), None).unwrap_err().to_string().contains("left no card"));
    }
}
