//! Functions that are not there yet: each says what works instead, and leaves nothing that looks like an
//! answer.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use weft::{Class, Error};

use crate::claims::{Place, StatusPlace};
use crate::entry::Target;
use crate::errors;
use crate::generated::constants::*;
use crate::status;
use crate::types::*;

/// Answers a call of the function `name`, which has no body yet.
#[cold]
pub(crate) fn unsupported(name: &'static str, target: Target) -> c_int {
    let remedy = format!("{}; {} lists all that works", instead_of(name), page());
    let error = Error::new(Class::Unsupported, "this function is not there yet").remedy(remedy);
    errors::raise(name, target, &error)
}

/// What does in the place of a function.
fn instead_of(name: &str) -> &'static str {
    let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if is_of(&["MPI_File_", "MPI_Register_datarep"]) {
        "each rank can read and write its part of a file with pread and pwrite, at an offset that follows from its rank"
    } else if is_of(&["MPI_Comm_spawn", "MPI_Comm_join", "MPI_Comm_accept", "MPI_Comm_connect"]) {
        "start all programs as one job (weftrun -n 1 ./a : -n 3 ./b) and divide it with MPI_Comm_split and MPI_Intercomm_create"
    } else if is_of(&["MPI_Open_port", "MPI_Close_port", "MPI_Publish", "MPI_Unpublish", "MPI_Lookup"]) {
        "programs that are started as one job (weftrun -n 1 ./a : -n 3 ./b) need no ports and no names"
    } else {
        "messages (MPI_Isend, MPI_Irecv) reach every rank, and loads and stores the memory of MPI_Win_allocate_shared on a node"
    }
}

/// The page that lists what works: where it is installed with this library, or where it stands in the
/// sources.
fn page() -> String {
    let installed = library().and_then(|library| {
        let page = library.parent()?.parent()?.join("share/doc/weft/mpi-coverage.md");
        page.is_file().then(|| page.display().to_string())
    });
    installed.unwrap_or_else(|| "docs/generated/mpi-coverage.md".to_owned())
}

/// The file that this library was loaded from.
fn library() -> Option<PathBuf> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the address is that of a function of this library, and there is room for the answer.
    let is_known = unsafe { libc::dladdr(library as *const c_void, found.as_mut_ptr()) } != 0;
    if !is_known {
        return None;
    }
    // SAFETY: the call has filled it in.
    let name = unsafe { found.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: a string that lives as long as the library is loaded, which is at least as long as this call.
    let name = unsafe { CStr::from_ptr(name) };
    std::fs::canonicalize(Path::new(OsStr::from_bytes(name.to_bytes()))).ok()
}

/// What stands where a function that is not there has no result to put.
pub(crate) trait Nothing: Copy {
    /// The null handle of a class, or 0.
    const NOTHING: Self;
}

macro_rules! nothing {
    ($($kind:ty: $value:expr),* $(,)?) => {
        $(impl Nothing for $kind {
            const NOTHING: Self = $value;
        })*
    };
}

nothing! {
    MPI_Comm: MPI_COMM_NULL,
    MPI_Datatype: MPI_DATATYPE_NULL,
    MPI_File: MPI_FILE_NULL,
    MPI_Group: MPI_GROUP_NULL,
    MPI_Info: MPI_INFO_NULL,
    MPI_Request: MPI_REQUEST_NULL,
    MPI_T_cvar_handle: MPI_T_CVAR_HANDLE_NULL,
    MPI_T_enum: MPI_T_ENUM_NULL,
    MPI_T_event_registration: MPI_T_event_registration::from_value(0),
    MPI_T_pvar_handle: MPI_T_PVAR_HANDLE_NULL,
    MPI_Aint: 0,
    MPI_Count: 0,
    c_char: 0,
    c_int: 0,
}

/// Puts nothing where a function would put its result.
pub(crate) fn clear<T: Nothing>(place: Place<'_, T>) {
    place.set_if_there(T::NOTHING);
}

/// Puts the status of no message where a function would put that of a message.
pub(crate) fn clear_status(place: StatusPlace<'_>) {
    place.write(&status::EMPTY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_instead_fits_the_function() {
        assert!(instead_of("MPI_File_open").contains("pwrite"));
        assert!(instead_of("MPI_Comm_spawn_multiple").contains("weftrun"));
        assert!(instead_of("MPI_Lookup_name").contains("no names"));
        assert!(instead_of("MPI_Rput").contains("MPI_Isend"));
    }

    #[test]
    fn results_are_cleared_and_null_places_are_left_alone() {
        let (mut file, mut count) = (MPI_File::from_value(0x1234), 7);
        clear(Place::of(&mut file));
        clear(Place::of(&mut count));
        clear(Place::<MPI_Comm>::NULL);
        assert_eq!((file, count), (MPI_FILE_NULL, 0));
    }
}
