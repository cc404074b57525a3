//! The tool information interface (MPI 5.0 §15.3), of a library that has no variables, categories, events and
//! sources: a tool that asks how many there are gets 0, and one that asks for one of them gets the code that
//! says that there is none.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::claims::{Place, Text, Variable};
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
fn number(place: Place<'_, c_int>, number: c_int) -> c_int {
    let Some(place) = place.there() else { return answer(MPI_T_ERR_INVALID) };
    place.set(number);
    answer(MPI_SUCCESS)
}

/// Initializes the interface, which may be done before `MPI_Init` and as often as one likes.
pub fn mpi_t_init_thread(required: c_int, provided: Place<'_, c_int>) -> c_int {
    if provided.is_null() {
        return MPI_T_ERR_INVALID;
    }
    USERS.fetch_add(1, Ordering::Relaxed);
    number(provided, state::provided(required))
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
pub fn mpi_t_cvar_get_num(num_cvar: Place<'_, c_int>) -> c_int {
    number(num_cvar, 0)
}

/// The number of performance variables.
pub fn mpi_t_pvar_get_num(num_pvar: Place<'_, c_int>) -> c_int {
    number(num_pvar, 0)
}

/// The number of categories.
pub fn mpi_t_category_get_num(num_cat: Place<'_, c_int>) -> c_int {
    number(num_cat, 0)
}

/// The number of kinds of events.
pub fn mpi_t_event_get_num(num_events: Place<'_, c_int>) -> c_int {
    number(num_events, 0)
}

/// The number of sources of events.
pub fn mpi_t_source_get_num(num_sources: Place<'_, c_int>) -> c_int {
    number(num_sources, 0)
}

/// How often categories have changed: never.
pub fn mpi_t_category_changed(update_number: Place<'_, c_int>) -> c_int {
    number(update_number, 0)
}

/// The control variable of a name: there is none.
pub fn mpi_t_cvar_get_index(_name: Text<'_>, _cvar_index: Place<'_, c_int>) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// The performance variable of a name: there is none.
pub fn mpi_t_pvar_get_index(_name: Text<'_>, _var_class: c_int, _pvar_index: Place<'_, c_int>) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// The category of a name: there is none.
pub fn mpi_t_category_get_index(_name: Text<'_>, _cat_index: Place<'_, c_int>) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// The kind of events of a name: there is none.
pub fn mpi_t_event_get_index(_name: Text<'_>, _event_index: Place<'_, c_int>) -> c_int {
    answer(MPI_T_ERR_INVALID_NAME)
}

/// Makes a session of performance variables.
pub fn mpi_t_pvar_session_create(session: Place<'_, MPI_T_pvar_session>) -> c_int {
    let Some(session) = session.there() else { return answer(MPI_T_ERR_INVALID) };
    if answer(MPI_SUCCESS) != MPI_SUCCESS {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    let handle = NEXT_SESSION.fetch_add(1, Ordering::Relaxed);
    lock(&SESSIONS).insert(handle);
    session.set(MPI_T_pvar_session::from_value(handle));
    MPI_SUCCESS
}

/// Frees a session of performance variables.
pub fn mpi_t_pvar_session_free(session: Variable<'_, MPI_T_pvar_session>) -> c_int {
    let Some(session) = session.there() else { return answer(MPI_T_ERR_INVALID) };
    let handle = session.get();
    if answer(MPI_SUCCESS) != MPI_SUCCESS {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    if !lock(&SESSIONS).remove(&handle.value()) {
        return MPI_T_ERR_INVALID_SESSION;
    }
    session.set(MPI_T_PVAR_SESSION_NULL);
    MPI_SUCCESS
}
