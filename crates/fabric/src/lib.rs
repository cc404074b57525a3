//! The contract between the messaging engine and whatever moves bytes: the trait [`Fabric`], what a fabric
//! carries ([`Header`], [`Payload`]), what it reports ([`Sink`]) and what it can do ([`Limits`]).
//!
//! To write a fabric, read [`loopback`] (complete, no unsafe), copy it, and make
//! [`conformance!`](crate::conformance) green for it. [`simulated`] is a whole network of ranks in one process, seeded, for tests of
//! everything above.
//!
//! **Invariant:** a fabric knows neither what a tag means nor what a communicator is.

pub mod conformance;
mod contract;
pub mod loopback;
mod memory;
pub mod simulated;
pub mod strided;

pub use contract::{
    Bell, Brought, Cost, Exposed, Fabric, FabricError, Fault, Header, Lane, Limits, Looked, Peer, Posted,
    Pulled, PulledShared, Sink, Unbelled,
};
pub use memory::{Heap, Payload, Pool, Room, UserMemory, copy};
