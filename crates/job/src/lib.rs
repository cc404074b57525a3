//! How a process becomes part of a job, opens its fabrics, and waits.
//!
//! | what | modules |
//! |---|---|
//! | what the user, the launcher and the machine say | [`config`], [`constants`], [`machine`], [`parts`], [`guide`] |
//! | how the processes of a job find each other | [`exchange`]; cards, and the meeting of a node's processes |
//! | the fabrics of a process as one fabric | [`fabrics`], [`lanes`] |
//! | how threads wait, and share one engine | [`wait`], [`crowd`], [`lock`] |
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

mod besides;
mod card;
pub mod config;
pub mod constants;
pub mod crowd;
pub mod doctor;
pub mod error;
pub mod exchange;
pub mod fabrics;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod guide;
mod kept;
pub mod lanes;
pub mod launch;
mod lifelines;
pub mod lock;
pub mod machine;
mod neighbours;
pub mod parts;
mod tell;
pub mod wait;

pub use besides::Besides;
pub use tell::tell;
