//! A provider in Rust that demands whatever real ones may demand and no software provider does. For tests.
//!
//! It fills the same tables that libfabric's providers fill, so everything above runs as it does on hardware. What [`Rules`]
//! say is enforced: a call that breaks one fails, and [`broken_rules`] tells of it. All endpoints of a thread are one network;
//! [`library`] begins a new one. Nothing moves but when a queue is read, and what happens is the same every time.
//!
//! `network` is the model, with no C in it but addresses; `tables` is what C would call.

use std::cell::RefCell;

use crate::library::Library;

mod network;
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
    /// `FI_MR_ENDPOINT`: registrations are bound to the endpoint and enabled.
    pub by_endpoint: bool,
    /// How long a key may be.
    pub key_bytes: usize,
    /// What may be injected.
    pub inject_bytes_max: usize,
    /// The longest message, and the longest read.
    pub message_bytes_max: usize,
    /// Of a hundred calls, so many are told to come again.
    pub busy_percent: u64,
    /// Of a hundred sends and reads, so many fail.
    pub failing_percent: u64,
    /// Registrations that there may be at a time.
    pub regions_max: usize,
    /// Completions that a queue holds; while it is full, nothing is taken.
    pub queue_entries: usize,
    /// Whether completions are told in another order than they happened.
    pub reorders: bool,
}

impl Rules {
    /// Nothing is demanded.
    pub const NONE: Rules = Rules {
        seed: 1,
        local: false,
        by_address: false,
        provider_keys: false,
        by_endpoint: false,
        key_bytes: 8,
        inject_bytes_max: 64,
        message_bytes_max: 1 << 30,
        busy_percent: 0,
        failing_percent: 0,
        regions_max: 1 << 16,
        queue_entries: 1 << 16,
        reorders: false,
    };
}

thread_local! {
    static NETWORK: RefCell<Network> = RefCell::new(Network::new(Rules::NONE));
}

/// A library with that provider alone, on a network of its own; what this thread had of another must be closed.
#[must_use]
pub fn library(rules: Rules) -> Library {
    NETWORK.set(Network::new(rules));
    tables::library()
}

/// Other rules from now on; those about memory and sizes are agreed on when an endpoint is opened and must stay.
pub fn change(by: impl FnOnce(&mut Rules)) {
    NETWORK.with_borrow_mut(|network| by(&mut network.rules));
}

/// The rules that were broken since the network was made, in words.
#[must_use]
pub fn broken_rules() -> Vec<String> {
    NETWORK.with_borrow(|network| network.broken().to_vec())
}

/// The name of the provider.
pub const PROVIDER: &str = "mock";
