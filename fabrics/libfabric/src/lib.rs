//! The libfabric fabric: a reliable-datagram endpoint on any provider, from RDMA networks to plain sockets.
//!
//! A small message goes by `inject`, or out of a slot of registered memory, into the receive buffers of its
//! peer, which take any number of messages of anybody. A large one stays where it is until its peer reads it,
//! straight into where it goes; where memory cannot be registered it goes in chunks, like small ones. What
//! providers may demand (docs/decisions/0008) is honoured for all of them alike, so that the code which runs
//! on hardware is the code that is tested without.
//!
//! **Invariant:** the crate reads no environment and starts no thread, no call waits for another process, and
//! nothing that comes from a peer is believed.
//!
//! To read it: `hardware` says whether there is any; `survey` is what there is to choose from, and chooses;
//! `wire` and `card` say what travels; `port` and `memory` are the endpoint with the memory that it works on,
//! and `packets` says how long its messages are; `link` is a peer; `libfabric` holds them together, with
//! `sending`, `receiving`, `transfers` for large messages, `one_sided` for memory of peers, and `trouble` for
//! the words.

// A fabric tells its caller, who tells the person.
#![deny(clippy::print_stderr)]

mod bell;
mod card;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hardware;
mod libfabric;
mod link;
mod memory;
mod one_sided;
mod packets;
mod port;
mod receiving;
mod sending;
mod survey;
mod transfers;
mod trouble;
mod wire;

pub use bell::LibfabricBell;
pub use hardware::{are_cards_apart, cards};
pub use libfabric::{Lane, Libfabric, Settings};
pub use libfabric_sys::{AddressFormat, Found, Library, Link, Nic, PciAddress, Version};
pub use one_sided::Remote;
pub use packets::{PACKET_BYTES, PACKET_VARIABLE, packet_bytes};
pub use survey::{Around, Nature, NearDomains, Survey};
