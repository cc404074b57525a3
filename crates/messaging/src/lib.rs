//! Envelopes, matching, eager and rendezvous: the engine above all fabrics.
//!
//! An [`Engine`] turns sends and receives into headers and payloads on one fabric, matches what comes with
//! what is wanted, and completes requests. Everything moves inside [`Engine::progress`] and the calls that
//! start an operation; nothing waits.
//!
//! **Invariant:** no system call, no clock, no environment, no thread. All of it runs on the simulated
//! fabric, thousands of ranks in one process, the same every time.

mod arrivals;
mod awaited;
pub mod conformance;
mod engine;
mod envelope;
mod matching;
mod peers;
mod protocol;
mod queues;
mod request;
mod scattered;

pub use awaited::Ticket;
pub use engine::{Directory, Engine, EveryoneHere, Interest, Message, Pending, Receiving, Sending, Settings};
pub use envelope::{Envelope, Pattern};
pub use matching::Probed;
pub use recovery::{
    Contribution, Counts, Decision, ErrorRange, Failures, GOES_ON, MemberList, Members, Rank, Standing,
};
pub use request::{Failure, Lent, Mode, Outcome, RequestId};
pub use scattered::{Data, Gather, Scatter, Sendable, Target};
