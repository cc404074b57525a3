//! The MPI 5.0 C ABI: libmpi_abi.so.1 and mpi.h.
//!
//! `generated` holds the exported functions, `bodies` what they do, `convert` the arguments that come in two widths.

// `weft::tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]
// The names and the parameters are MPI's.
#![allow(non_camel_case_types, clippy::too_many_arguments)]

mod arguments;
pub mod bodies;
pub mod convert;
pub mod entry;
mod errors;
pub mod extensions;
pub mod failures;
pub mod ftmpi;
pub mod generated;
pub mod handles;
mod objects;
mod parts;
mod reach;
pub mod recovery;
mod requests;
mod state;
mod status;
mod table;
pub mod types;

use std::ffi::c_int;

use entry::{Entry, Target};

/// Answers a call of a function that has no body yet.
#[cold]
pub(crate) fn unsupported(entry: &'static Entry, target: Target) -> c_int {
    let error = weft::Error::new(weft::Class::Unsupported, "this version of the library cannot do that yet")
        .remedy("docs/mpi-coverage.md lists what works");
    errors::raise(entry.name, target, &error)
}
