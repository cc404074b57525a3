//! Business cards: what a process tells the others of itself before they can talk.
//!
//! ```text
//! byte 0   the version of the card and of everything that goes over wires, 1
//! then     sections: kind u8, length u16 little-endian, that many bytes
//!          kind 1  the host: what equals for processes that can share memory
//!          kind 2  where shared memory can be fetched
//!          kind 3  the tcp fabric's address
//!          kind 4  the cpus that the ranks of the host may use together, in hundredths, u32 little-endian
//! ```
//! Unknown kinds are passed over, so that a later version can add some.

use std::collections::HashMap;

use collectives::Cores;

use crate::config::CpuTime;
use crate::wait;

/// A card.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Card {
    pub host: Vec<u8>,
    pub offer: Option<Vec<u8>>,
    pub tcp: Option<Vec<u8>>,
    pub cpus: Option<CpuTime>,
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
        if let Some(cpus) = &self.cpus {
            section(&mut bytes, CPUS, &cpus.hundredths.to_le_bytes());
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
                CPUS => {
                    let hundredths = u32::from_le_bytes(body.try_into().ok()?);
                    card.cpus = Some(CpuTime { hundredths });
                }
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

/// What cores the ranks of a host have, by the cards of all ranks.
pub(crate) fn cores_at(host: &[u8], cards: &[Card]) -> Cores {
    let here = cards.iter().filter(|card| card.host == host);
    cores_of(here)
}

/// Shared, if they are on any host. All ranks see the same cards, so all come to the same answer.
pub(crate) fn cores_anywhere(cards: &[Card]) -> Cores {
    let mut hosts: HashMap<&[u8], Vec<&Card>> = HashMap::new();
    cards.iter().for_each(|card| hosts.entry(&card.host).or_default().push(card));
    let shared = hosts.into_values().any(|cards| cores_of(cards.into_iter()) == Cores::Shared);
    if shared { Cores::Shared } else { Cores::Own }
}

/// The cores of ranks of one host. The least that one of them may use is what there is: a mistake in this
/// direction costs less.
fn cores_of<'a>(cards: impl Iterator<Item = &'a Card>) -> Cores {
    let (mut ranks, mut least) = (0, CpuTime::UNLIMITED);
    for card in cards {
        ranks += 1;
        least = least.min(card.cpus.unwrap_or(CpuTime { hundredths: 0 }));
    }
    wait::cores(ranks, least)
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
const CPUS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            host: Vec<u8>, offer: Option<Vec<u8>>, tcp: Option<Vec<u8>>, cpus: Option<u32>,
        ) {
            let cpus = cpus.map(|hundredths| CpuTime { hundredths });
            let card = Card { host, offer, tcp, cpus };
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
    #[test]
    fn one_crowded_host_makes_a_crowded_job() {
        let card = |host: &str, cpus: f64| Card {
            host: host.into(),
            cpus: Some(CpuTime::of(cpus)),
            ..Card::default()
        };
        let roomy = [card("a", 2.0), card("b", 1.0), card("a", 2.0)];
        assert_eq!(cores_anywhere(&roomy), Cores::Own);
        let crowded = [card("a", 2.0), card("b", 1.0), card("a", 2.0), card("b", 1.0)];
        assert_eq!(cores_anywhere(&crowded), Cores::Shared);
        assert_eq!((cores_at(b"a", &crowded), cores_at(b"b", &crowded)), (Cores::Own, Cores::Shared));
        let unequal = [card("a", 2.0), card("a", 1.5)];
        assert_eq!(cores_anywhere(&unequal), Cores::Shared, "the least counts");
        assert_eq!(cores_anywhere(&[Card::default()]), Cores::Shared, "nothing is known");
    }
}
