//! The hand-written bodies of MPI functions, one function `mpi_x` for each pair of `MPI_X` and `PMPI_X`.
//!
//! `cargo xtask bodies MPI_X` prints the signature that a body must have; `cargo xtask generate` wires it up.

pub(crate) mod across;
pub mod addresses;
pub mod allocation;
pub mod attributes;
pub mod buffered;
pub mod cancelling;
pub mod collectives;
pub mod communicator_creation;
pub mod communicator_hints;
pub mod communicators;
pub mod completion;
pub mod datatype_constructors;
pub mod datatype_contents;
pub mod datatypes;
pub mod environment;
pub mod error_codes;
pub mod error_handlers;
pub mod exchanges;
pub mod external;
pub mod fortran_statuses;
pub mod fortran_types;
pub mod generalized;
pub mod groups;
pub mod handles;
pub mod info;
pub mod intercommunicators;
pub mod operators;
pub mod packing;
pub mod partitioned;
pub mod persistent;
pub(crate) mod plain;
pub mod point_to_point;
pub mod probes;
pub mod profiling;
pub mod reductions;
mod request_lists;
pub mod request_status;
pub mod sessions;
pub mod statuses;
#[cfg(test)]
pub(crate) mod testing;
pub mod timers;
pub mod tools;
pub mod topologies;
pub mod value_indices;
pub mod ways;
pub mod window_attributes;
pub mod window_epochs;
pub mod window_hints;
pub mod window_operations;
pub mod windows;
pub mod world;
