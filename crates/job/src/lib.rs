//! How a process becomes part of a job, opens its fabrics, and waits.
//!
//! | what | modules |
//! |---|---|
//! | what the user, the launcher and the machine say | [`config`], [`constants`], [`machine`], [`numa_partition`], [`tuning`] |
//! | how the processes of a job find each other | [`key_value_exchange`]; cards, and the meeting of a node's processes |
//! | the fabrics of a process as one fabric | [`fabrics`], [`lanes`] |
//! | how threads wait, and share one engine | [`wait`], [`waiting_threads`], [`lock`] |
//! | what is said to people | [`error`], [`tell`], [`doctor`] |
//! | what a launcher of ranks needs | [`launch`] |
//!
//! `weft` builds sessions, communicators and windows on it: opens [`Fabrics`](fabrics::Fabrics), drives an
//! engine of `messaging` over them behind a [`Lock`](lock::Lock), and waits by a [`Policy`](wait::Policy).
//!
//! **Invariant.** It knows no communicator, no rank but those of the job, and no operation: neither what a
//! message means nor what a call of the program asks for. One file, `fabrics.rs`, names the fabrics.

// `tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]

mod cache_directory;
mod card;
pub mod config;
pub mod constants;
pub mod doctor;
pub mod error;
pub mod fabrics;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod key_value_exchange;
pub mod lanes;
pub mod launch;
mod liveness_connections;
pub mod lock;
pub mod machine;
mod measurements;
mod node_discovery;
pub mod numa_partition;
mod tell;
pub mod tuning;
pub mod wait;
pub mod waiting_threads;

pub use measurements::Besides;
pub use tell::tell;
