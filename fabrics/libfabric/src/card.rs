//! What a process tells the others so that they can reach it. Comes back as bytes from outside, and none of
//! them is believed before it has been looked at. No input or output here.

use fabric::HostIdentity;

use crate::memory::RAILS_MAX;
use crate::survey;

/// The address of one process, for `reach` and `connect` of others.
///
/// ```text
/// 0 "WOFI"  4 version u16  6 seal u32  10 address format u32  14 host identity [16]
///   then four times:   n u8  [n]     host name, provider, network, the endpoint's name
///   then for each rail:  network u32  whether the network is the host itself u8  n u8  [n] name
/// ```
/// All numbers are little-endian.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    /// What everything that is sent to this process begins with.
    pub(crate) seal: u32,
    /// What kind of name the endpoint has.
    pub(crate) address_format: u32,
    /// The host that it is on.
    pub(crate) host_identity: HostIdentity,
    /// For messages to people.
    pub(crate) host_name: String,
    pub(crate) provider: String,
    /// The network that the endpoint is on.
    pub(crate) network: String,
    /// The endpoint's name, in the provider's own format.
    pub(crate) name: Vec<u8>,
    /// The endpoints that help with large messages; as many of them as there is room for.
    pub(crate) rails: Vec<Rail>,
}

/// An endpoint that helps with large messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rail {
    /// The network that it is on, as a number that other networks rarely have.
    pub(crate) network: u32,
    /// That network does not leave the host.
    pub(crate) within_host: bool,
    /// Its name.
    pub(crate) name: Vec<u8>,
}

impl Rail {
    /// One on the network of that name.
    pub(crate) fn new(network: &str, name: &[u8]) -> Rail {
        // FNV-1a. Networks that are taken for one by mistake cost a transfer its rail, which is told.
        let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let within_host = survey::is_within_host(network);
        Rail { network: network.bytes().fold(0x811c_9dc5, hash), within_host, name: name.to_vec() }
    }

    /// What it takes of a card.
    fn bytes(&self) -> usize {
        4 + 1 + 1 + self.name.len()
    }
}

impl Card {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut card = Vec::with_capacity(CARD_BYTES_MAX);
        card.extend(MAGIC);
        card.extend(VERSION.to_le_bytes());
        card.extend(self.seal.to_le_bytes());
        card.extend(self.address_format.to_le_bytes());
        card.extend(self.host_identity.0);
        let host = self.host_name.as_bytes();
        let host = &host[..host.len().min(HOST_NAME_BYTES_MAX)];
        for text in [host, self.provider.as_bytes(), self.network.as_bytes(), &self.name] {
            card.push(text.len() as u8);
            card.extend(text);
        }
        for rail in &self.rails {
            if card.len() + rail.bytes() > CARD_BYTES_MAX {
                break;
            }
            card.extend(rail.network.to_le_bytes());
            card.extend([u8::from(rail.within_host), rail.name.len() as u8]);
            card.extend(&rail.name);
        }
        card
    }

    pub(crate) fn decode(card: &[u8]) -> Result<Card, BadCard> {
        let mut rest = Rest(card);
        if card.len() > CARD_BYTES_MAX || rest.take()? != MAGIC {
            return Err(BadCard::Foreign);
        }
        let version = u16::from_le_bytes(rest.take()?);
        if version != VERSION {
            return Err(BadCard::Version(version));
        }
        let mut decoded = Card {
            seal: u32::from_le_bytes(rest.take()?),
            address_format: u32::from_le_bytes(rest.take()?),
            host_identity: HostIdentity(rest.take()?),
            host_name: printable(rest.take_text()?),
            provider: printable(rest.take_text()?),
            network: printable(rest.take_text()?),
            name: rest.take_text()?.to_vec(),
            rails: Vec::new(),
        };
        while !rest.0.is_empty() {
            let network = u32::from_le_bytes(rest.take()?);
            let within_host = match rest.take()? {
                [0] => false,
                [1] => true,
                _ => return Err(BadCard::Foreign),
            };
            decoded.rails.push(Rail { network, within_host, name: rest.take_text()?.to_vec() });
        }
        if decoded.fits() { Ok(decoded) } else { Err(BadCard::Foreign) }
    }

    /// Whether all parts have lengths that a card can tell.
    pub(crate) fn fits(&self) -> bool {
        let are_short = self.host_name.len() <= HOST_NAME_BYTES_MAX
            && self.provider.len() <= PROVIDER_BYTES_MAX
            && self.network.len() <= NETWORK_BYTES_MAX;
        let has_name = |name: &[u8]| (1..=NAME_BYTES_MAX).contains(&name.len());
        are_short
            && has_name(&self.name)
            && self.rails.len() < RAILS_MAX
            && self.rails.iter().all(|rail| has_name(&rail.name))
    }
}

/// Why bytes are no card that can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum BadCard {
    #[error("these bytes are no libfabric address")]
    Foreign,
    #[error("that process speaks version {0} of the libfabric protocol, and this process version {VERSION}")]
    Version(u16),
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadCard> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(BadCard::Foreign)?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn take_text(&mut self) -> Result<&'a [u8], BadCard> {
        let [bytes] = self.take()?;
        let (chunk, rest) = self.0.split_at_checked(usize::from(bytes)).ok_or(BadCard::Foreign)?;
        self.0 = rest;
        Ok(chunk)
    }
}

/// Foreign text made safe to show.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

const MAGIC: [u8; 4] = *b"WOFI";
/// Grows with every change of what travels.
pub(crate) const VERSION: u16 = 2;
/// Longer host names are cut.
const HOST_NAME_BYTES_MAX: usize = 64;
const PROVIDER_BYTES_MAX: usize = 64;
const NETWORK_BYTES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 255;
/// What the contract of a fabric allows; the longest card without rails has 34 + 3 * 64 + 255 bytes.
const CARD_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card() -> Card {
        Card {
            seal: 7,
            address_format: 2,
            host_identity: HostIdentity([9; 16]),
            host_name: "node7".to_owned(),
            provider: "tcp;ofi_rxm".to_owned(),
            network: "192.0.2.0/24".to_owned(),
            name: vec![2, 0, 1, 2, 127, 0, 0, 1],
            rails: vec![Rail::new("198.51.100.0/24", &[1; 16]), Rail::new("127.0.0.1/32", &[2; 16])],
        }
    }

    #[test]
    fn comes_back_as_it_was() {
        assert_eq!(Card::decode(&card().encode()), Ok(card()));
        assert!(card().rails[1].within_host && !card().rails[0].within_host);
        let (host_name, provider, network) = ("n".repeat(200), "p".repeat(64), "q".repeat(64));
        let long = Card { host_name, provider, network, name: vec![1; 255], ..card() };
        assert!(long.encode().len() <= CARD_BYTES_MAX);
        let decoded = Card::decode(&long.encode()).unwrap();
        // Of the rails as many as have room.
        assert_eq!((decoded.name, &decoded.rails[..]), (long.name, &long.rails[..1]));
        assert!(!Card { name: vec![1; 256], ..card() }.fits());
    }

    #[test]
    fn what_is_cut_short_or_goes_on_is_none() {
        let good = card().encode();
        let rail = card().rails[0].bytes();
        for end in 0..good.len() {
            let is_whole = end == good.len() - rail || end == good.len() - 2 * rail;
            assert_eq!(Card::decode(&good[..end]).is_ok(), is_whole, "{end} bytes");
        }
        let more = [&good[..], &[0]].concat();
        assert_eq!(Card::decode(&more), Err(BadCard::Foreign));
    }

    #[test]
    fn another_version_is_told() {
        let mut bytes = card().encode();
        bytes[4] = 9;
        assert_eq!(Card::decode(&bytes), Err(BadCard::Version(9)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>, at in 0usize..64, value: u8) {
            let _ = Card::decode(&bytes);
            let mut changed = card().encode();
            let at = at % changed.len();
            changed[at] = value;
            if let Ok(card) = Card::decode(&changed) {
                prop_assert!(!card.host_name.contains('\n'));
            }
        }
    }
}
