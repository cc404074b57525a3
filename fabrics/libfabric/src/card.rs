//! What a process tells the others so that they can reach it. Comes back as bytes from outside, and none of them is
//! believed before it has been looked at. No input or output here.

/// The address of one process, for `reach` and `connect` of others.
///
/// ```text
/// 0 "WOFI"  4 version u16  6 seal u32  10 address format u32  14 host identity [16]
///   then three times:  n u8  [n]     host name, provider, the endpoint's name
/// ```
/// All numbers are little-endian.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    /// What everything that is sent to this process begins with.
    pub(crate) seal: u32,
    /// What kind of name the endpoint has.
    pub(crate) address_format: u32,
    /// Equal for processes of one running kernel.
    pub(crate) host_identity: [u8; 16],
    /// For messages to people.
    pub(crate) host_name: String,
    pub(crate) provider: String,
    /// The endpoint's name, in the provider's own format.
    pub(crate) name: Vec<u8>,
}

impl Card {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut card = Vec::with_capacity(CARD_BYTES_MAX);
        card.extend(MAGIC);
        card.extend(VERSION.to_le_bytes());
        card.extend(self.seal.to_le_bytes());
        card.extend(self.address_format.to_le_bytes());
        card.extend(self.host_identity);
        let host = self.host_name.as_bytes();
        for text in [&host[..host.len().min(HOST_NAME_BYTES_MAX)], self.provider.as_bytes(), &self.name] {
            card.push(text.len() as u8);
            card.extend(text);
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
        let decoded = Card {
            seal: u32::from_le_bytes(rest.take()?),
            address_format: u32::from_le_bytes(rest.take()?),
            host_identity: rest.take()?,
            host_name: printable(rest.take_text()?),
            provider: printable(rest.take_text()?),
            name: rest.take_text()?.to_vec(),
        };
        if decoded.fits() && rest.0.is_empty() { Ok(decoded) } else { Err(BadCard::Foreign) }
    }

    /// Whether all parts have lengths that a card can tell.
    pub(crate) fn fits(&self) -> bool {
        let are_short =
            self.host_name.len() <= HOST_NAME_BYTES_MAX && self.provider.len() <= PROVIDER_BYTES_MAX;
        are_short && (1..=NAME_BYTES_MAX).contains(&self.name.len())
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
        let (piece, rest) = self.0.split_first_chunk().ok_or(BadCard::Foreign)?;
        self.0 = rest;
        Ok(*piece)
    }

    fn take_text(&mut self) -> Result<&'a [u8], BadCard> {
        let [bytes] = self.take()?;
        let (piece, rest) = self.0.split_at_checked(usize::from(bytes)).ok_or(BadCard::Foreign)?;
        self.0 = rest;
        Ok(piece)
    }
}

/// Foreign text made safe to show.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

const MAGIC: [u8; 4] = *b"WOFI";
/// Grows with every change of what travels.
pub(crate) const VERSION: u16 = 1;
/// Longer host names are cut.
const HOST_NAME_BYTES_MAX: usize = 64;
const PROVIDER_BYTES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 255;
/// What the contract of a fabric allows; the longest card has 33 + 64 + 64 + 255 bytes.
const CARD_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card() -> Card {
        Card {
            seal: 7,
            address_format: 2,
            host_identity: [9; 16],
            host_name: "node7".to_owned(),
            provider: "tcp;ofi_rxm".to_owned(),
            name: vec![2, 0, 1, 2, 127, 0, 0, 1],
        }
    }

    #[test]
    fn comes_back_as_it_was() {
        assert_eq!(Card::decode(&card().encode()), Ok(card()));
        let long =
            Card { host_name: "n".repeat(200), provider: "p".repeat(64), name: vec![1; 255], ..card() };
        assert!(long.encode().len() <= CARD_BYTES_MAX);
        assert_eq!(Card::decode(&long.encode()).unwrap().name, long.name);
        assert!(!Card { name: vec![1; 256], ..card() }.fits());
    }

    #[test]
    fn what_is_cut_short_or_goes_on_is_none() {
        let good = card().encode();
        for end in 0..good.len() {
            assert!(Card::decode(&good[..end]).is_err(), "{end} bytes");
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
