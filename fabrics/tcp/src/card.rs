//! What a process tells all others so that they can reach it: host, secret, port and every usable address.
//!
//! Cards travel through the process manager and come back as bytes from outside; [`Card::decode`] believes
//! none of them before it has looked. No input or output here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fabric::HostIdentity;

use crate::handshake::{Secret, VERSION};
use crate::host::Host;
use crate::knock::Barred;

/// The address of one process, for `reach` and `connect` of others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    /// The host's name, for messages to people.
    pub(crate) host_name: String,
    pub(crate) host_identity: HostIdentity,
    pub(crate) secret: Secret,
    pub(crate) port: u16,
    /// Source ports from which the process lets nobody in.
    pub(crate) barred: Barred,
    /// As many as fit; the loopback address is among them.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Card {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name = clipped(&self.host_name, HOST_NAME_BYTES_MAX);
        let mut card = Vec::with_capacity(CARD_BYTES_MAX);
        card.extend(MAGIC);
        card.extend(VERSION.to_le_bytes());
        card.push(name.len() as u8);
        card.extend(name.as_bytes());
        card.extend(self.host_identity.0);
        card.extend(self.secret);
        card.extend(self.port.to_le_bytes());
        card.extend(self.barred.encode().to_le_bytes());
        for address in self.addresses.iter().take(ADDRESSES_MAX) {
            match address {
                IpAddr::V4(address) => {
                    card.push(4);
                    card.extend(address.octets());
                }
                IpAddr::V6(address) => {
                    card.push(6);
                    card.extend(address.octets());
                }
            }
        }
        card.push(END);
        card
    }

    pub(crate) fn decode(card: &[u8]) -> Result<Card, BadCard> {
        let mut rest = Rest(card);
        if card.len() > CARD_BYTES_MAX || rest.take::<4>()? != MAGIC {
            return Err(BadCard::Foreign);
        }
        let version = u16::from_le_bytes(rest.take()?);
        let [name_bytes] = rest.take()?;
        let host_name = printable(rest.take_slice(usize::from(name_bytes))?);
        if version != VERSION {
            return Err(BadCard::Version { theirs: version, host_name });
        }
        let host_identity = HostIdentity(rest.take()?);
        let secret = rest.take()?;
        let port = u16::from_le_bytes(rest.take()?);
        let barred = Barred::decode(u16::from_le_bytes(rest.take()?)).ok_or(BadCard::Foreign)?;
        let addresses = rest.take_addresses()?;
        if port == 0 || !rest.0.is_empty() {
            return Err(BadCard::Foreign);
        }
        Ok(Card { host_name, host_identity, secret, port, barred, addresses })
    }

    /// Where to dial, the likeliest first: the loopback on the same host and never from another, then
    /// networks that both share, then all others. Order only saves time; reachability decides.
    pub(crate) fn dials_from(&self, here: &Host) -> Vec<SocketAddr> {
        let same_host = self.host_identity.shares_loopback(here.identity);
        let mut dials: Vec<&IpAddr> =
            self.addresses.iter().filter(|address| same_host || !address.is_loopback()).collect();
        dials.sort_by_key(|address| (!address.is_loopback(), !here.shares_network(**address)));
        dials.into_iter().map(|address| SocketAddr::new(*address, self.port)).collect()
    }
}

/// Why bytes are no card that can be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum BadCard {
    #[error("these bytes are no tcp address")]
    Foreign,
    #[error(
        "host {host_name} speaks version {theirs} of the tcp protocol, and this process version {VERSION}"
    )]
    Version { theirs: u16, host_name: String },
}

/// Foreign text made safe to show: no control characters, nothing that is not text.
pub(crate) fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// The beginning of `text`, at most `bytes_max` bytes, cut between letters.
fn clipped(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadCard> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(BadCard::Foreign)?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn take_slice(&mut self, bytes: usize) -> Result<&'a [u8], BadCard> {
        let (chunk, rest) = self.0.split_at_checked(bytes).ok_or(BadCard::Foreign)?;
        self.0 = rest;
        Ok(chunk)
    }

    fn take_addresses(&mut self) -> Result<Vec<IpAddr>, BadCard> {
        let mut addresses = Vec::new();
        loop {
            let address: IpAddr = match self.take()? {
                [4] => Ipv4Addr::from(self.take::<4>()?).into(),
                [6] => Ipv6Addr::from(self.take::<16>()?).into(),
                [END] => return Ok(addresses),
                _ => return Err(BadCard::Foreign),
            };
            if address.is_unspecified() || address.is_multicast() || addresses.len() == ADDRESSES_MAX {
                return Err(BadCard::Foreign);
            }
            addresses.push(address);
        }
    }
}

/// ```text
/// 0 "WTCP"  4 version u16  6 n u8  7 host name [n]        the same in every version
///   host identity [16]  secret [16]  port u16  barred u16
///   then for each address:  4 [4]  or  6 [16]
///   0
/// ```
/// All numbers are little-endian.
const MAGIC: [u8; 4] = *b"WTCP";
const END: u8 = 0;
/// Longer host names are cut; they are shown to people and decide nothing.
const HOST_NAME_BYTES_MAX: usize = 64;
/// More than any sane host has; docker hosts with dozens of bridges keep the first. With the longest name and
/// IPv6 throughout, a card is 108 + 20 * 17 = 448 bytes.
pub(crate) const ADDRESSES_MAX: usize = 20;
/// What the contract of a fabric allows.
const CARD_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card(addresses: Vec<IpAddr>) -> Card {
        Card {
            host_name: "node7".to_string(),
            host_identity: HostIdentity([1; 16]),
            secret: [2; 16],
            port: 20_003,
            barred: Barred::From(12_345),
            addresses,
        }
    }

    fn addresses() -> Vec<IpAddr> {
        ["127.0.0.1", "10.9.0.7", "fd00::7"].map(|text| text.parse().expect("an address")).to_vec()
    }

    #[test]
    fn comes_back_as_it_was() {
        assert_eq!(Card::decode(&card(addresses()).encode()), Ok(card(addresses())));
        assert_eq!(Card::decode(&card(Vec::new()).encode()), Ok(card(Vec::new())));
    }

    #[test]
    fn the_largest_fits() {
        let mut large = card(vec!["fd00::7".parse().expect("an address"); 99]);
        large.host_name = "ü".repeat(99);
        let bytes = large.encode();
        assert!(bytes.len() <= CARD_BYTES_MAX, "{} bytes", bytes.len());
        let back = Card::decode(&bytes).expect("its own card");
        assert_eq!(back.addresses.len(), ADDRESSES_MAX);
        assert_eq!(back.host_name, "ü".repeat(HOST_NAME_BYTES_MAX / 2));
    }

    #[test]
    fn another_version_names_its_host() {
        let mut bytes = card(addresses()).encode();
        bytes[4] = 9;
        let theirs = BadCard::Version { theirs: 9, host_name: "node7".to_string() };
        assert_eq!(Card::decode(&bytes), Err(theirs));
    }

    #[test]
    fn addresses_that_nobody_can_have_are_refused() {
        for nobody in ["0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
            let bytes = card(vec![nobody.parse().expect("an address")]).encode();
            assert_eq!(Card::decode(&bytes), Err(BadCard::Foreign), "{nobody}");
        }
    }

    #[test]
    fn loopback_is_first_on_the_same_host_and_absent_elsewhere() {
        let network = ("fd00::1".parse().expect("an address"), 64);
        let mut here = Host { name: "here".into(), identity: HostIdentity([1; 16]), networks: vec![network] };
        let shown = |dials: Vec<SocketAddr>| dials.iter().map(ToString::to_string).collect::<Vec<_>>();
        let same = shown(card(addresses()).dials_from(&here));
        assert_eq!(same, ["127.0.0.1:20003", "[fd00::7]:20003", "10.9.0.7:20003"]);
        here.identity = HostIdentity([9; 16]);
        let other = shown(card(addresses()).dials_from(&here));
        assert_eq!(other, ["[fd00::7]:20003", "10.9.0.7:20003"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(Card::decode(&bytes).is_err(), "random bytes were taken for a card");
        }

        #[test]
        fn changed_bytes_are_answered(at in 0usize..1000, value: u8, cut in 0usize..1000) {
            let mut bytes = card(addresses()).encode();
            let end = cut.min(bytes.len());
            if end < bytes.len() {
                prop_assert!(Card::decode(&bytes[..end]).is_err(), "a card cut at {end} was taken");
            }
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(read) = Card::decode(&bytes) {
                prop_assert!(read.addresses.len() <= ADDRESSES_MAX && read.port != 0);
                prop_assert!(!read.host_name.chars().any(char::is_control));
            }
        }
    }
}
