//! Business cards: what a process tells the others of itself before they can talk.
//!
//! ```text
//! byte 0   the version of the card and of everything that goes over wires, 1
//! then     sections: kind u8, length u16 little-endian, that many bytes
//!          kind 1  the host: what equals for processes that can share memory
//!          kind 2  where shared memory can be fetched
//!          kind 3  the tcp fabric's address
//! ```
//! Unknown kinds are passed over, so that a later version can add some.

/// A card.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Card {
    pub host: Vec<u8>,
    pub offer: Option<Vec<u8>>,
    pub tcp: Option<Vec<u8>>,
}

impl Card {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        section(&mut bytes, HOST, &self.host);
        if let Some(offer) = &self.offer {
            section(&mut bytes, OFFER, offer);
        }
        if let Some(tcp) = &self.tcp {
            section(&mut bytes, TCP, tcp);
        }
        bytes
    }

    /// `None` for what is no card of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Card> {
        let (&version, mut rest) = bytes.split_first()?;
        if version != VERSION {
            return None;
        }
        let mut card = Card::default();
        while !rest.is_empty() {
            let (head, after) = rest.split_at_checked(3)?;
            let (body, after) =
                after.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
            match head[0] {
                HOST => card.host = body.to_vec(),
                OFFER => card.offer = Some(body.to_vec()),
                TCP => card.tcp = Some(body.to_vec()),
                _ => {}
            }
            rest = after;
        }
        Some(card)
    }
}

/// What equals for processes that can share memory: the boot of the machine and the network namespace, since the
/// sockets over which memory is handed out live in it. Never the host name, which two machines may share.
pub(crate) fn this_host() -> Vec<u8> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{} {}", boot.trim(), network.display()).into_bytes()
}

fn section(bytes: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let length = u16::try_from(body.len()).expect("sections are at most some hundred bytes");
    bytes.push(kind);
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
}

const VERSION: u8 = 1;
const HOST: u8 = 1;
const OFFER: u8 = 2;
const TCP: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(host: Vec<u8>, offer: Option<Vec<u8>>, tcp: Option<Vec<u8>>) {
            let card = Card { host, offer, tcp };
            assert_eq!(Card::decode(&card.encode()), Some(card));
        }

        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = Card::decode(&bytes);
        }
    }

    #[test]
    fn another_version_is_no_card() {
        assert_eq!(Card::decode(&[2]), None);
        assert_eq!(Card::decode(&[]), None);
        assert_eq!(Card::decode(&[1, 9, 1, 0, 77]), Some(Card::default()));
    }
}
