//! Who has failed, what that ends, and what the survivors agree on: the ground that recoveries stand on
//! (decision 0013).
//!
//! [`Failures`] notes the processes that have failed and the [`Standing`] of each communicator: what its
//! members may still do. [`Councils`] carries agreements and revocations among members, [`Agreement`] is one
//! of them, and [`Notices`] brings what one process has learnt to the others. All of them are state machines:
//! what comes from others goes in, letters for others come out; the engine of `messaging` carries them.
//!
//! **Invariant:** no message, no fabric, no system call, no clock, no thread. All of it runs in one process,
//! over every order of events.

mod agreement;
mod councils;
mod failures;
mod members;
mod notices;

pub use agreement::{Agreement, Contribution, Counts, Decision, GOES_ON, Outbox, Word};
pub use councils::{Councils, Letter, Revocation, What};
pub use failures::{ErrorRange, Failures, Standing, is_collective};
pub use members::{MemberList, Members, Rank};
pub use notices::Notices;
