//! What a job would find here, for people who ask. Nothing is joined, and nothing stays open.

use std::net::SocketAddr;

pub use process_manager::{Seen, Survey};

use crate::config::Config;
use crate::error::Result;
pub use crate::fabrics::{
    AddressFormat, FoundByLibfabric, LibfabricSurvey, Link, Nature, NearDomains, Nic, PciAddress, Version,
    listening, rdma_cards, share_memory, survey_libfabric,
};

/// The process managers that this process's environment offers, and which one would be used.
#[must_use]
pub fn managers(config: &Config) -> Survey {
    Survey::of(&|name| std::env::var(name).ok(), &config.manager)
}

/// Where others could reach a process of this host over sockets, each with what kind of address it is.
///
/// # Errors
/// When a job could not open its sockets: with the remedy.
pub fn addresses(config: &Config) -> Result<Vec<(SocketAddr, &'static str)>> {
    let kind = |address: &SocketAddr| match address.ip().is_loopback() {
        true => "this host only",
        false => "other hosts",
    };
    Ok(listening(config)?.into_iter().map(|address| (address, kind(&address))).collect())
}
