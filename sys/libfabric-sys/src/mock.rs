//! A provider in Rust that demands whatever real ones may demand and no software provider does. For tests.
//!
//! It fills the same tables that libfabric's providers fill, so everything above runs as it does on hardware.
//! What [`Rules`] say is enforced: a call that breaks one fails, and [`broken_rules`] tells of it. All
//! endpoints of a thread are one network; [`library`] begins a new one. Nothing moves but when a queue is
//! read, and what happens is the same every time.
//!
//! `network` is the model, with no C in it but addresses, `one_sided` its part about memory of others, with
//! `atomics`; `tables` is what C would call, `offers` what it would find.

use std::cell::RefCell;

use crate::found::{Link, PciAddress};
use crate::library::Library;

pub(crate) mod atomics;
mod network;
mod offers;
mod one_sided;
mod tables;

use network::Network;

/// What the provider demands and how it behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Where chance begins.
    pub seed: u64,
    /// `FI_MR_LOCAL`: memory that only this side uses must be registered.
    pub local: bool,
    /// `FI_MR_VIRT_ADDR`: remote memory is named by its address.
    pub by_address: bool,
    /// `FI_MR_PROV_KEY`: the provider chooses the keys.
    pub provider_keys: bool,
    /// Whether memory that begins at the same place has the same key, as where the provider caches
    /// registrations.
    pub shares_keys: bool,
    /// `FI_MR_ENDPOINT`: registrations are bound to the endpoint and enabled.
    pub by_endpoint: bool,
    /// How long a key may be.
    pub key_bytes: usize,
    /// What may be injected.
    pub inject_bytes_max: usize,
    /// The longest message, and the longest read or write.
    pub message_bytes_max: usize,
    /// Whether it writes to memory of peers.
    pub writes: bool,
    /// Its atomics.
    pub atomics: MockAtomics,
    /// Whether it tells when a write has arrived (`FI_DELIVERY_COMPLETE`).
    pub delivers: bool,
    /// Of a hundred calls, so many are told to come again.
    pub busy_percent: u64,
    /// Of a hundred sends, reads, writes and atomics, so many fail.
    pub failing_percent: u64,
    /// An endpoint, by its address, that has died: whatever goes there fails, and of what was injected the
    /// error names nobody.
    pub dead: Option<u64>,
    /// Whether each error is told twice.
    pub tells_twice: bool,
    /// Of a hundred messages, so many are cut on the way into a receive buffer: the error names the buffer,
    /// which comes back no more.
    pub cut_percent: u64,
    /// Registrations that there may be at a time.
    pub regions_max: usize,
    /// Completions that a queue holds; while it is full, nothing is taken.
    pub queue_entries: usize,
    /// Places at each endpoint, of which a receive takes one, and a message that came before its receive; a
    /// message that has a place needs no other when it is received. Whoever sends is told to come again where
    /// messages have all of them.
    pub receives_max: usize,
    /// Whether completions are told in another order than they happened, and memory of peers is used in
    /// another order.
    pub reorders: bool,
    /// What is offered.
    pub domains: &'static [Domain],
}

/// What a provider has of atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MockAtomics {
    /// Nothing, and it says so.
    None,
    /// Nothing, and it says that it has them, as `net` of libfabric 1.17 does.
    Claimed,
    /// Nothing that its table reaches to, and it says that it has them.
    ShortTable,
    /// Those on so many bytes, and half as many where it compares: on integers of each size, `f32` and `f64`.
    Bytes(usize),
}

/// A domain that is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Its name.
    pub name: &'static str,
    /// The network that it is on. Those on different networks do not reach each other.
    pub fabric: &'static str,
    /// The card, if it is told.
    pub card: Option<Card>,
    /// Whether it can what is needed.
    pub fits: bool,
}

/// A network card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Card {
    /// Its name. Empty: nothing is told of the device.
    pub device: &'static str,
    /// Where it is plugged in; `None` where nothing is told of a bus.
    pub pci: Option<PciAddress>,
    /// The speed of its link, or zero.
    pub bits_per_second: usize,
    /// Whether its link is up; where that is unknown, nothing is told of the link.
    pub link: Link,
}

impl Rules {
    /// Nothing is demanded.
    pub const NONE: Rules = Rules {
        seed: 1,
        local: false,
        by_address: false,
        provider_keys: false,
        shares_keys: false,
        by_endpoint: false,
        key_bytes: 8,
        inject_bytes_max: 64,
        message_bytes_max: 1 << 30,
        writes: true,
        atomics: MockAtomics::Bytes(256),
        delivers: true,
        busy_percent: 0,
        failing_percent: 0,
        dead: None,
        tells_twice: false,
        cut_percent: 0,
        regions_max: 1 << 16,
        queue_entries: 1 << 16,
        receives_max: 1 << 16,
        reorders: false,
        domains: &[Domain { name: "mock0", fabric: "mocknet", card: None, fits: true }],
    };
}

thread_local! {
    static NETWORK: RefCell<Network> = RefCell::new(Network::new(Rules::NONE));
}

/// A library with that provider alone, on a network of its own; what this thread had of another must be
/// closed.
#[must_use]
pub fn library(rules: Rules) -> Library {
    NETWORK.set(Network::new(rules));
    tables::library()
}

/// Other rules from now on; those about memory and sizes are agreed on when an endpoint is opened and must
/// stay.
pub fn change(by: impl FnOnce(&mut Rules)) {
    NETWORK.with_borrow_mut(|network| by(&mut network.rules));
}

/// The rules that were broken since the network was made, in words.
#[must_use]
pub fn broken_rules() -> Vec<String> {
    NETWORK.with_borrow(|network| network.broken().to_vec())
}

/// How many bytes each endpoint, by its address, has read, written or changed in memory of others.
#[must_use]
pub fn moved_bytes() -> Vec<usize> {
    NETWORK.with_borrow(|network| network.endpoints.iter().map(|endpoint| endpoint.moved_bytes).collect())
}

/// The name of the provider.
pub const PROVIDER: &str = "mock";
