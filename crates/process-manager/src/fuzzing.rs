//! A door for the fuzzers of `ci/fuzz`. Part of no build that is installed.

use std::os::fd::OwnedFd;

use crate::{Kind, Manager, pmi1, pmi2, segments};

/// The conversation of rank 0 of 2 with whatever is at the other end of `socket`; `None` where it did not
/// begin.
#[must_use]
pub fn manager(socket: OwnedFd) -> Option<Manager> {
    pmi1::Pmi1Client::start(socket, 0, 2).ok().map(|client| Manager::of(Kind::Pmi1(client)))
}

/// The PMI-2 conversation of rank 0 with whatever is at the other end of `socket`; `None` where it did not
/// begin.
#[must_use]
pub fn manager2(socket: OwnedFd) -> Option<Manager> {
    pmi2::Pmi2Client::start(socket, 0, Some("9.0")).ok().map(|client| Manager::of(Kind::Pmi2(client)))
}

/// Reads any text as a value of the key-value space; true where it was believed.
#[must_use]
pub fn value(text: &str) -> bool {
    segments::first_chunk(text).is_some_and(|(_, chunk)| segments::decode(chunk).is_some())
}
