//! The hand-written bodies of MPI functions, one function `mpi_x` for each pair of `MPI_X` and `PMPI_X`.
//!
//! `cargo xtask bodies MPI_X` prints the signature that a body must have; `cargo xtask generate` wires it up.

pub mod addresses;
pub mod handles;
pub mod profiling;
pub mod timers;
