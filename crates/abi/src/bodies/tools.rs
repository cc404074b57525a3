//! The tool information interface (MPI 5.0 §15.3), of a library that has no variables, categories, events and sources: a tool that
//! asks how many there are gets 0, and one that asks for one of them gets the code that says that there is none.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::generated::constants::*;
use crate::objects::lock;
use crate::state;
use crate::types::*;

/// How often the interface was initialized and not finalized yet.
static USERS: AtomicUsize = AtomicUsize::new(0);
/// The sessions of performance variables that there are, by their handles.
static SESSIONS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
/// The handle of the next session; none is used twice.
static NEXT_SESSION: AtomicUsize = AtomicUsize::new(FIRST_SESSION);

/// Above all predefined handles.
const FIRST_SESSION: usize = 0x1000;

/// The code of a call that needs the interface to be initialized; `code` where it is.
pub(crate) fn answer(code: c_int) -> c_int {
    if USERS.load(Ordering::Relaxed) > 0 { code } else { MPI_T_ERR_NOT_INITIALIZED }
}

/// Answers with a number.
///
/// # Safety
/// `place` is null or writable.
unsafe fn number(place: *mut c_int, number: c_int) -> c_int {
    if place.is_null() {
        return answer(MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, and the caller promised that it is writable.
    unsafe { place.write(number) };
    answer(MPI_SUCCESS)
}

/// Initializes the interface, which may be done before `MPI_Init` and as often as one likes.
///
/// # Safety
/// `provided` is null or writable.
pub unsafe fn mpi_t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    if provided.is_null() {
        return MPI_T_ERR_INVALID;
    }
    USERS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: not null, and the program promised that it is writable.
    unsafe { number(provided, state::provided(required)) }
}

/// Takes one initialization back.
pub fn mpi_t_finalize() -> c_int {
    let fewer = |users: usize| users.checked_sub(1);
    match USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) {
        Ok(_) => MPI_SUCCESS,
        Err(_) => MPI_T_ERR_NOT_INITIALIZED,
    }
}

/// The number of control variables.
///
/// # Safety
/// `num_cvar` is null or writable.
pub unsafe fn mpi_t_cvar_get_num(num_cvar: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { number(num_cvar, 0) }
}

/// The number of performance variables.
///
/// # Safety
/// `num_pvar` is null or writable.
pub unsafe fn mpi_t_pvar_get_num(num_pvar: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { number(num_pvar, 0) }
}

/// The number of categories.
///
/// # Safety
/// `num_cat` is null or writable.
pub unsafe fn mpi_t_category_get_num(num_cat: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { number(num_cat, 0) }
}

/// The number of kinds of events.
///
/// # Safety
/// `num_events` is null or writable.
pub unsafe fn mpi_t_event_get_num(num_events: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { number(num_events, 0) }
}

/// The number of sources of events.
///
/// # Safety
/// `num_sources` is null or writable.
pub unsafe fn mpi_t_source_get_num(num_sources: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { number(num_sources, 0) }
}

/// How often categories have changed: never.
///
/// # Safety
/// `update_number` is null or writable.
pub unsafe fn mpi_t_category_changed(update_number: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { number(update_number, 0) }
}

/// The control variable of a name: there is none.
///
/// # Safety
/// None: nothing is read or written.
pub unsafe fn mpi_t_cvar_get_index(_name: *const c_char, _cvar_index: *mut c_int) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// The performance variable of a name: there is none.
///
/// # Safety
/// None: nothing is read or written.
pub unsafe fn mpi_t_pvar_get_index(
    _name: *const c_char,
    _var_class: c_int,
    _pvar_index: *mut c_int,
) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// The category of a name: there is none.
///
/// # Safety
/// None: nothing is read or written.
pub unsafe fn mpi_t_category_get_index(_name: *const c_char, _cat_index: *mut c_int) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// The kind of events of a name: there is none.
///
/// # Safety
/// None: nothing is read or written.
pub unsafe fn mpi_t_event_get_index(_name: *const c_char, _event_index: *mut c_int) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// Makes a session of performance variables.
///
/// # Safety
/// `session` is null or writable.
pub unsafe fn mpi_t_pvar_session_create(session: *mut MPI_T_pvar_session) -> c_int {
    if session.is_null() {
        return answer(MPI_T_ERR_INVALID);
    }
    if answer(MPI_SUCCESS) != MPI_SUCCESS {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    let handle = NEXT_SESSION.fetch_add(1, Ordering::Relaxed);
    lock(&SESSIONS).insert(handle);
    // SAFETY: not null, and the program promised that it is writable.
    unsafe { session.write(MPI_T_pvar_session::from_value(handle)) };
    MPI_SUCCESS
}

/// Frees a session of performance variables.
///
/// # Safety
/// `session` is null, or a session, writable.
pub unsafe fn mpi_t_pvar_session_free(session: *mut MPI_T_pvar_session) -> c_int {
    if session.is_null() {
        return answer(MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, and the program promised a session.
    let handle = unsafe { session.read() };
    if answer(MPI_SUCCESS) != MPI_SUCCESS {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    if !lock(&SESSIONS).remove(&handle.value()) {
        return MPI_T_ERR_INVALID_SESSION;
    }
    // SAFETY: as above.
    unsafe { session.write(MPI_T_PVAR_SESSION_NULL) };
    MPI_SUCCESS
}
