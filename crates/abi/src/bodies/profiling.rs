//! The hook that profiling tools replace (MPI 5.0 §15.2.4).

use std::ffi::c_int;

/// Does nothing: there is no profiling in the library itself. In builds for that, levels 1 and 0 mark between
/// what steps a process may die (docs/decisions/0018).
pub fn mpi_pcontrol(level: c_int) -> c_int {
    mark(level)
}

#[cfg(not(feature = "crash-points"))]
fn mark(_level: c_int) -> c_int {
    crate::generated::constants::MPI_SUCCESS
}

#[cfg(feature = "crash-points")]
fn mark(level: c_int) -> c_int {
    crate::state::call("MPI_Pcontrol", crate::entry::Target::World, |runtime| {
        weft::crash::mark(runtime.rank(), level != 0);
        Ok(())
    })
}
