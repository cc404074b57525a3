//! A door for the fuzzers of `ci/fuzz`. Part of no build that is installed.

use crate::card::Card;
use crate::node_discovery;

/// Reads any bytes as a card; true where it was believed.
///
/// # Panics
/// When what was believed cannot be said again.
pub fn card(bytes: &[u8]) -> bool {
    let Some(card) = Card::decode(bytes) else { return false };
    assert_eq!(Card::decode(&card.encode()), Some(card));
    true
}

/// Reads any bytes as what the processes of a node tell each other when they meet; true where it was
/// believed.
///
/// # Panics
/// When what was believed cannot be said again.
pub fn meeting(bytes: &[u8]) -> bool {
    let claim = node_discovery::claim_of(bytes);
    let Some(found) = node_discovery::neighbours_of(bytes) else { return claim.is_some() };
    assert_eq!(node_discovery::neighbours_of(&node_discovery::table_of(&found)), Some(found));
    true
}
