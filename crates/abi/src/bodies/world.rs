//! The beginning and the end (MPI 5.0 §11.2).

use std::ffi::{c_char, c_int};

use crate::bodies::{attributes, buffered, completion};
use crate::claims::{Place, null};
use crate::entry::Target;
use crate::errors::{finish, raise};
use crate::generated::constants::*;
use crate::state::{self, call};
use crate::types::*;

/// Joins the job; one thread will call.
pub fn mpi_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    finish("MPI_Init", Target::World, state::start(MPI_THREAD_SINGLE).map(|_| ()))
}

/// Joins the job with the thread level that is asked for.
pub fn mpi_init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: Place<'_, c_int>,
) -> c_int {
    let Some(provided) = provided.there() else {
        return raise("MPI_Init_thread", Target::World, &null("provided"));
    };
    let started = state::start(required).map(|level| {
        provided.set(level);
    });
    finish("MPI_Init_thread", Target::World, started)
}

/// Leaves the job. Attributes of `MPI_COMM_SELF` are deleted first (MPI 5.0 §11.2.4).
pub fn mpi_finalize() -> c_int {
    let mut refused = MPI_SUCCESS;
    let code = call("MPI_Finalize", Target::World, |runtime| {
        runtime.world_model()?;
        let alone = runtime.comm(MPI_COMM_SELF)?;
        if let Err(error) = attributes::delete_all(&alone, MPI_COMM_SELF) {
            // Its handler is called while there is one; MPI is finalized all the same.
            refused = raise("MPI_Finalize", Target::World, &error);
        }
        let flushed = buffered::flush_process(runtime);
        completion::reap(runtime);
        runtime.finish().and(flushed)
    });
    if code == MPI_SUCCESS { refused } else { code }
}

/// Whether `MPI_Init` was called.
pub fn mpi_initialized(flag: Place<'_, c_int>) -> c_int {
    write_flag("MPI_Initialized", flag, state::is_initialized())
}

/// Whether `MPI_Finalize` was called.
pub fn mpi_finalized(flag: Place<'_, c_int>) -> c_int {
    write_flag("MPI_Finalized", flag, state::is_finalized())
}

/// The thread level in force.
pub fn mpi_query_thread(provided: Place<'_, c_int>) -> c_int {
    call("MPI_Query_thread", Target::World, |runtime| {
        let (level, _) = runtime.world_model()?;
        let provided = provided.checked("provided")?;
        provided.set(level);
        Ok(())
    })
}

/// Whether this is the thread that called `MPI_Init`.
pub fn mpi_is_thread_main(flag: Place<'_, c_int>) -> c_int {
    call("MPI_Is_thread_main", Target::World, |runtime| {
        let (_, main) = runtime.world_model()?;
        let flag = flag.checked("flag")?;
        flag.set(c_int::from(std::thread::current().id() == main));
        Ok(())
    })
}

/// The communicator with those that started this process; nobody can start processes by calls of MPI yet.
pub fn mpi_comm_get_parent(parent: Place<'_, MPI_Comm>) -> c_int {
    call("MPI_Comm_get_parent", Target::World, |runtime| {
        runtime.world_model()?;
        let parent = parent.checked("parent")?;
        parent.set(MPI_COMM_NULL);
        Ok(())
    })
}

/// Ends the job with that code. Works before `MPI_Init` too: then this process ends.
pub fn mpi_abort(comm: MPI_Comm, errorcode: c_int) -> c_int {
    match state::runtime() {
        Some(runtime) => {
            let place =
                runtime.find_comm(comm).map_or_else(|| format!("{comm:?}"), |object| object.comm.label());
            let (rank, host) = (runtime.rank(), state::host_name());
            weft::tell(format_args!(
                "weft: MPI_Abort({place}, {errorcode}) was called by rank {rank} on {host}"
            ));
            runtime.abort(errorcode)
        }
        None => {
            weft::tell(format_args!("weft: MPI_Abort({errorcode}) was called outside of MPI"));
            state::exit(errorcode)
        }
    }
}

/// Writes a truth value; usable at any time.
fn write_flag(name: &'static str, flag: Place<'_, c_int>, value: bool) -> c_int {
    let Some(flag) = flag.there() else { return raise(name, Target::World, &null("flag")) };
    flag.set(c_int::from(value));
    MPI_SUCCESS
}
