//! MPI for the tests of bodies: a job of one process, joined once, whose errors return.

use std::ffi::c_int;
use std::sync::Once;

use crate::generated::constants::*;
use crate::state::{self, Runtime};

/// What a call has given, or the code of its error.
pub(crate) type Answer<T> = Result<T, c_int>;

/// Joins the job at the first call. Tests of other modules run beside this one, so nobody leaves it.
pub(crate) fn start() -> &'static Runtime {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        state::start(MPI_THREAD_MULTIPLE).expect("a process without a launcher is a job of its own");
        for comm in [MPI_COMM_WORLD, MPI_COMM_SELF] {
            let code = super::error_handlers::mpi_comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            assert_eq!(code, MPI_SUCCESS);
        }
    });
    state::runtime().expect("MPI runs")
}
