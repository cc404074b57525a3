//! What ways between two processes of a node cost, measured on memory of their own.

use std::os::fd::AsFd;

use super::{HANDOUT_TIMEOUT, Offer, Thoroughness, create_segment, fetch, measure, refused};
use crate::config::Config;
use crate::error::Result;
use crate::lanes::Measured;

/// Measures shm between two processes of this node, on memory of its own: what the first of them does.
///
/// `hand` brings the card of the memory to the second process, which calls [`measure_second`] with it.
///
/// # Errors
/// What is short or refused, and what `hand` has returned.
pub fn measure_first(
    config: &Config,
    thoroughness: Thoroughness,
    hand: impl FnOnce(Vec<u8>) -> Result<()>,
) -> Result<Measured> {
    let (offer, card) = Offer::open().map_err(|error| refused("shm", &error))?;
    let segment = create_segment(2)?;
    hand(card)?;
    offer.serve(segment.as_fd(), 1, HANDOUT_TIMEOUT).map_err(|error| refused("shm", &error))?;
    measure(config, segment, 0, thoroughness)
}

/// Measures shm between two processes of this node: what the second of them does, which was handed the card
/// of the first.
///
/// # Errors
/// What is short or refused.
pub fn measure_second(config: &Config, thoroughness: Thoroughness, card: &[u8]) -> Result<Measured> {
    let segment = fetch(card, HANDOUT_TIMEOUT).map_err(|error| refused("shm", &error))?;
    measure(config, segment, 1, thoroughness)
}
