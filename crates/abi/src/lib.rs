//! The MPI 5.0 C ABI: libmpi_abi.so.1 and mpi.h.
//!
//! `generated` holds the exported functions, `claims` what they take the program's addresses for, `bodies`
//! what they do, `convert` the arguments that come in two widths.

// `weft::tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]
// The names and the parameters are MPI's.
#![allow(non_camel_case_types, clippy::too_many_arguments)]

mod arguments;
pub mod bodies;
mod calls;
pub mod claims;
pub mod convert;
pub mod entry;
mod errors;
pub mod extensions;
pub mod failures;
pub mod ftmpi;
pub mod generated;
pub mod handles;
mod missing;
mod objects;
mod parts;
mod reach;
pub mod recovery;
mod requests;
mod state;
mod status;
mod table;
pub mod types;
