//! What a job would find here, for people who ask. Nothing is joined, and nothing stays open.

use std::net::SocketAddr;

pub use process_manager::{Seen, Survey};

use crate::config::Config;
use crate::error::Result;
pub use crate::fabrics::{
    AddressFormat, FoundByLibfabric, LibfabricSurvey, Link, Nature, Nic, PciAddress, Version, listening,
    share_memory, survey_libfabric,
};

/// The process managers that this process's environment offers, and which one would be used.
#[must_use]
pub fn managers(config: &Config) -> Survey {
    Survey::of(&|name| std::env::var(name).ok(), &config.manager)
}

/// Where others could reach a process of this host over sockets, each with what kind of address it is.
///
/// # Errors
/// As when a job opens its sockets.
pub fn addresses(config: &Config) -> Result<Vec<(SocketAddr, &'static str)>> {
    let kind = |address: &SocketAddr| match address.ip().is_loopback() {
        true => "this host only",
        false => "other hosts",
    };
    Ok(listening(config)?.into_iter().map(|address| (address, kind(&address))).collect())
}

/// The network cards for RDMA that the kernel has drivers for, by their names, whether anybody can use them or not.
#[must_use]
pub fn rdma_cards() -> Vec<String> {
    let names = |folder: &&str| {
        let entries = std::fs::read_dir(folder).ok()?;
        Some(entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())))
    };
    let mut cards: Vec<String> = RDMA_FOLDERS.iter().filter_map(names).flatten().collect();
    cards.sort();
    cards
}

/// InfiniBand, RoCE, EFA and Omni-Path; and Slingshot.
const RDMA_FOLDERS: [&str; 2] = ["/sys/class/infiniband", "/sys/class/cxi"];
