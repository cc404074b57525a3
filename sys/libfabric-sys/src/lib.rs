//! libfabric, loaded at run time, behind a small safe face.
//!
//! [`Library`] is the loaded library, [`Offer`] a way to a network that one of its providers offers,
//! [`Endpoint`] what one process opens of it: a reliable-datagram endpoint with its queue, its addresses and
//! its registered memory.
//!
//! A program that runs without libfabric needs neither the library nor its headers; `bindings.rs` is
//! committed (see `generate`), and a test holds it against the headers where these are installed.
//!
//! **Invariant:** whatever comes out of the library is a number until it has been checked; no structure that
//! the library may have in another size is made here.

#[doc(hidden)]
#[allow(missing_docs, nonstandard_style, unsafe_op_in_unsafe_fn, clippy::all, clippy::cast_lossless)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]
pub mod bindings;
mod dispositions;
mod endpoint;
mod files;
mod found;
#[doc(hidden)]
pub mod inline;
mod library;
#[cfg(any(test, feature = "mock"))]
pub mod mock;
mod offer;

pub use endpoint::{Address, Answer, Capacity, Completed, Endpoint, Failure, Operation, Region, Remote};
pub use endpoint::{Atomic, AtomicKind, Atomics, Change, Local, Scalar, Span, Takes, Until, Use};
pub use found::{AddressFormat, Found, Link, Nic, PciAddress};
pub use library::{LibfabricError, Library, SONAME, Version};
pub use offer::{MemoryTerms, Offer, Terms, Wanted};
