//! The hook that profiling tools replace (MPI 5.0 §15.2.4).

use std::ffi::c_int;

use crate::generated::constants::MPI_SUCCESS;

/// Does nothing: there is no profiling in the library itself.
pub fn mpi_pcontrol(_level: c_int) -> c_int {
    MPI_SUCCESS
}
