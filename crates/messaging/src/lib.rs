//! Envelopes, matching, eager and rendezvous: the engine above all fabrics.
//!
//! An [`Engine`] turns sends and receives into headers and payloads on one fabric, matches what comes with what
//! is wanted, and completes requests. Everything moves inside [`Engine::progress`] and the calls that start an
//! operation; nothing waits.
//!
//! **Invariant:** no system call, no clock, no environment, no thread. All of it runs on the simulated fabric,
//! thousands of ranks in one process, the same every time.

mod agreement;
mod arrivals;
mod awaited;
pub mod conformance;
mod councils;
mod engine;
mod envelope;
mod failures;
mod matching;
mod notices;
mod peers;
mod protocol;
mod queues;
mod request;
mod scattered;

pub use agreement::{Contribution, Counts, Decision, GOES_ON};
pub use awaited::Ticket;
pub use engine::{Directory, Engine, EveryoneHere, Interest, Message, Pending, Receiving, Sending, Settings};
pub use envelope::{Envelope, Pattern, Rank};
pub use failures::{ErrorRange, Failures, Members, Standing};
pub use matching::Probed;
pub use request::{Failure, Lent, Mode, Outcome, RequestId};
pub use scattered::{Gather, Scatter, Target};
