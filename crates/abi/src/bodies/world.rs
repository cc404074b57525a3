//! The beginning and the end (MPI 5.0 §11.2).

use std::ffi::{c_char, c_int};

use weft::{Class, Error};

use crate::bodies::{attributes, buffered, completion};
use crate::entry::Target;
use crate::errors::{finish, raise};
use crate::generated::constants::*;
use crate::state::{self, call};
use crate::types::*;

/// Joins the job; one thread will call.
///
/// # Safety
/// None of the arguments is looked at: they may be null.
pub unsafe fn mpi_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    finish("MPI_Init", Target::World, state::start(MPI_THREAD_SINGLE).map(|_| ()))
}

/// Joins the job with the thread level that is asked for.
///
/// # Safety
/// `provided` is null or writable.
pub unsafe fn mpi_init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    if provided.is_null() {
        return raise("MPI_Init_thread", Target::World, &null("provided"));
    }
    let started = state::start(required).map(|level| {
        // SAFETY: not null, and the caller promised that it is writable.
        unsafe { provided.write(level) };
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
///
/// # Safety
/// `flag` is null or writable.
pub unsafe fn mpi_initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's promise is handed on.
    unsafe { write_flag("MPI_Initialized", flag, state::is_initialized()) }
}

/// Whether `MPI_Finalize` was called.
///
/// # Safety
/// `flag` is null or writable.
pub unsafe fn mpi_finalized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's promise is handed on.
    unsafe { write_flag("MPI_Finalized", flag, state::is_finalized()) }
}

/// The thread level in force.
///
/// # Safety
/// `provided` is null or writable.
pub unsafe fn mpi_query_thread(provided: *mut c_int) -> c_int {
    call("MPI_Query_thread", Target::World, |runtime| {
        let (level, _) = runtime.world_model()?;
        if provided.is_null() {
            return Err(null("provided"));
        }
        // SAFETY: not null, and the caller promised that it is writable.
        unsafe { provided.write(level) };
        Ok(())
    })
}

/// Whether this is the thread that called `MPI_Init`.
///
/// # Safety
/// `flag` is null or writable.
pub unsafe fn mpi_is_thread_main(flag: *mut c_int) -> c_int {
    call("MPI_Is_thread_main", Target::World, |runtime| {
        let (_, main) = runtime.world_model()?;
        if flag.is_null() {
            return Err(null("flag"));
        }
        // SAFETY: not null, and the caller promised that it is writable.
        unsafe { flag.write(c_int::from(std::thread::current().id() == main)) };
        Ok(())
    })
}

/// The communicator with those that started this process; nobody can start processes by calls of MPI yet.
///
/// # Safety
/// `parent` is null or writable.
pub unsafe fn mpi_comm_get_parent(parent: *mut MPI_Comm) -> c_int {
    call("MPI_Comm_get_parent", Target::World, |runtime| {
        runtime.world_model()?;
        if parent.is_null() {
            return Err(null("parent"));
        }
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { parent.write(MPI_COMM_NULL) };
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
///
/// # Safety
/// `flag` is null or writable.
unsafe fn write_flag(name: &'static str, flag: *mut c_int, value: bool) -> c_int {
    if flag.is_null() {
        return raise(name, Target::World, &null("flag"));
    }
    // SAFETY: not null, and the caller promised that it is writable.
    unsafe { flag.write(c_int::from(value)) };
    MPI_SUCCESS
}

/// A pointer that must not be null is.
#[cold]
pub(crate) fn null(argument: &str) -> Error {
    Error::new(Class::Argument, format!("{argument} is a null pointer"))
}
