//! Topologies of communicators (MPI 5.0 §8). There are none yet, which can be asked for.

use std::ffi::c_int;

use crate::bodies::pointers::Place;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::state::call;
use crate::types::*;

/// The kind of a communicator's topology: none has one yet.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_topo_test(comm: MPI_Comm, status: *mut c_int) -> c_int {
    call("MPI_Topo_test", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        // SAFETY: the program's promise is handed on.
        unsafe { Place::new(status, "status")? }.set(MPI_UNDEFINED);
        Ok(())
    })
}
