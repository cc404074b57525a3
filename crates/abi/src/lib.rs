//! The MPI 5.0 C ABI: libmpi_abi.so.1 and mpi.h.
//!
//! `generated` holds the exported functions, `bodies` what they do, `convert` the arguments that come in two widths.

// The names and the parameters are MPI's.
#![allow(non_camel_case_types, clippy::too_many_arguments)]

pub mod bodies;
pub mod convert;
pub mod entry;
pub mod generated;
pub mod handles;
pub mod types;

use std::ffi::c_int;

use entry::{Entry, Target};
use generated::constants::MPI_ERR_UNSUPPORTED_OPERATION;

/// Answers a call of a function that has no body yet.
///
/// For now it only returns the error class; raising it on `target`'s error handler belongs here.
pub(crate) fn unsupported(_entry: &'static Entry, _target: Target) -> c_int {
    MPI_ERR_UNSUPPORTED_OPERATION
}
