//! A door for the fuzzers of `ci/fuzz`. Part of no build that is installed.

use crate::card::Card;

/// Reads any bytes as a card; true where it was believed.
///
/// # Panics
/// When what was believed cannot be said again.
pub fn card(bytes: &[u8]) -> bool {
    let Some(card) = Card::decode(bytes) else { return false };
    assert_eq!(Card::decode(&card.encode()), Some(card));
    true
}
