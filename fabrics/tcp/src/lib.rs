//! The tcp fabric: sockets and one poller.
//!
//! A connection to a peer is made at the first message, over whichever of the peer's addresses answers first
//! with a proof that it is the peer. Then messages go out in one system call each, straight from where they
//! are, and come in straight to where they go. `docs/wire-tcp.md` draws every byte.
//!
//! **Invariant:** the crate reads no environment and starts no thread, no call waits for another process, and
//! nothing that a stranger sends to the listening port reaches the job.
//!
//! To read it: `frame`, `card` and `handshake` say what travels; `door` and `opening` are the two ends of a
//! connection that is being made, `knock` tells a silent peer from a stranger, `link` is one that is made;
//! `tcp` holds them all together.

// A fabric tells its caller, who tells the person.
#![deny(clippy::print_stderr)]

mod card;
mod door;
mod entrances;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod host;
mod knock;
mod link;
mod memory;
mod opening;
mod peer_watch;
mod poller;
mod socket;
mod system;
mod tcp;
mod trouble;

pub use peer_watch::SleepWatch;
pub use poller::TcpBell;
pub use tcp::{Lane, Settings, Tcp};
