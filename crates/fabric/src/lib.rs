//! The contract between the messaging engine and whatever moves bytes: the trait [`Fabric`], what a fabric
//! carries ([`Header`], [`Payload`]), what it reports ([`Sink`]) and what it can do ([`Limits`]). Some
//! fabrics also use memory of peers without their doing ([`OneSided`]).
//!
//! To write a fabric, read [`loopback`] (complete, no unsafe), copy it, and make
//! [`conformance!`](crate::conformance!) green for it. [`simulated`] is a whole network of ranks in one
//! process, seeded, for tests of everything above. [`slots`] is the contract of memory that members of a node
//! share for collective operations. [`tuner`] finds the faster of two alternatives.
//!
//! **Invariant:** a fabric knows neither what a tag means nor what a communicator is.

mod atomic;
pub mod conformance;
mod contract;
mod copy;
pub mod crash;
pub mod fold;
pub mod host;
pub mod loopback;
mod memory;
mod one_sided;
pub mod simulated;
pub mod slots;
pub mod strided;
pub mod tuner;

pub use atomic::{Atomic, Change, Scalar};
pub use contract::{
    Bell, Brought, Cost, Exposed, Fabric, FabricError, Fault, Header, Lane, Limits, Looked, Peer, Posted,
    Pulled, PulledShared, Sink, Unbelled,
};
pub use copy::{copy, hand_over};
pub use host::HostIdentity;
pub use memory::{Heap, Payload, Pool, Room, UserMemory, made, write_abreast};
pub use one_sided::{Abilities, Attached, Begun, Elements, KEY_BYTES_MAX, OneSided};
