//! Sessions: MPI without `MPI_Init`, as often as a program likes (MPI 5.0 §11.3).
//!
//! A process joins its job with the first of them, or with `MPI_Init`. Sessions live in a table of the
//! process, since they come before there is a runtime. All of them show the same process sets.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use weft::sets::ProcessSet;
use weft::{Class, Error, Result};

use crate::bodies::buffered::AttachedSlot;
use crate::bodies::error_handlers::{another_reference, release, resolve_for_session, retain};
use crate::bodies::groups;
use crate::bodies::info::{self, Pairs};
use crate::claims::{Place, Text, TextPlace, Variable, null};
use crate::entry::Target;
use crate::errors::{call_handler, finish, raise};
use crate::generated::constants::*;
use crate::handles::HandleKind;
use crate::objects::{Handler, lock};
use crate::state::{self, Runtime, call, too_many};
use crate::table::Table;
use crate::types::*;

/// A session of the program's.
struct SessionObject {
    errhandler: MPI_Errhandler,
    handler: Handler,
    /// What `MPI_Session_get_info` tells.
    hints: Pairs,
    /// What buffered sends may use.
    buffer: Arc<AttachedSlot>,
}

static SESSIONS: Mutex<Table<SessionObject>> = Mutex::new(Table::new(HandleKind::Session));

/// The handle of a living object, by its integer.
pub(crate) fn by_integer(integer: usize) -> Option<usize> {
    lock(&SESSIONS).by_integer(integer)
}

/// What happens on an error of a session; `None` for what is no session.
pub(crate) fn handler(session: MPI_Session) -> Option<Handler> {
    lock(&SESSIONS).find(session.value()).map(|object| object.handler)
}

/// Whether a handle is that of a session.
pub(crate) fn check(session: MPI_Session) -> Result<()> {
    look(session, |_| ())
}

/// Where a session's buffer is attached.
pub(crate) fn slot(session: MPI_Session) -> Result<Arc<AttachedSlot>> {
    look(session, |object| object.buffer.clone())
}

fn look<R>(session: MPI_Session, ask: impl FnOnce(&mut SessionObject) -> R) -> Result<R> {
    lock(&SESSIONS).find_mut(session.value()).map(ask).ok_or_else(|| no_session(session))
}

#[cold]
fn no_session(session: MPI_Session) -> Error {
    if session == MPI_SESSION_NULL {
        return Error::new(Class::Session, "the session is MPI_SESSION_NULL");
    }
    Error::new(Class::Session, format!("{:#x} is not a session, or not any more", session.value()))
}

/// Does a call of a session that must be there.
pub(crate) fn of_session(
    name: &'static str,
    session: MPI_Session,
    work: impl FnOnce(&'static Runtime) -> Result<()>,
) -> c_int {
    // Where the session is none there may be no runtime either, and that is not what is wrong.
    if let Err(error) = check(session) {
        return raise(name, Target::World, &error);
    }
    call(name, Target::Session(session), work)
}

/// Opens a session. Its errors go to the error handler that it is given, also those of this call.
pub fn mpi_session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: Place<'_, MPI_Session>,
) -> c_int {
    const NAME: &str = "MPI_Session_init";
    let handler = match resolve_for_session(errhandler) {
        Ok(handler) => handler,
        Err(error) => return raise(NAME, Target::World, &error),
    };
    // There is no session yet whose handler could be asked for.
    let object = SessionObject { errhandler, handler, hints: Pairs::default(), buffer: Arc::default() };
    let Some(handle) = lock(&SESSIONS).insert(object).map(MPI_Session::from_value) else {
        return raise(NAME, Target::World, &too_many());
    };
    retain(errhandler);
    let opened = session.checked("session").and_then(|place| {
        let asked = info::pairs(info)?;
        let runtime = state::open_session()?;
        look(handle, |object| object.hints = hints(runtime, &asked))?;
        place.set(handle);
        Ok(())
    });
    let failed = opened.is_err();
    let code = finish(NAME, Target::Session(handle), opened);
    if failed {
        forget(handle);
    }
    code
}

/// What a session is told to have: the level of its threads, and the kinds of memory that every MPI knows
/// (MPI 5.0 §11.3.1, §11.4.3).
fn hints(runtime: &'static Runtime, asked: &Pairs) -> Pairs {
    let level = match runtime.session_level() {
        MPI_THREAD_SINGLE => "MPI_THREAD_SINGLE",
        MPI_THREAD_FUNNELED => "MPI_THREAD_FUNNELED",
        MPI_THREAD_SERIALIZED => "MPI_THREAD_SERIALIZED",
        _ => "MPI_THREAD_MULTIPLE",
    };
    let mut hints = Pairs::default();
    hints.set(b"thread_level", level.as_bytes());
    // Of the kinds that the program asks for, those that are provided.
    let kinds = asked.value("mpi_memory_alloc_kinds").unwrap_or_default();
    let kinds = String::from_utf8_lossy(kinds).into_owned();
    let mut provided = vec!["mpi", "system"];
    provided.extend(kinds.split(',').map(str::trim).filter(|kind| MEMORY_KINDS.contains(kind)));
    provided.sort_unstable();
    provided.dedup();
    hints.set(b"mpi_memory_alloc_kinds", provided.join(",").as_bytes());
    hints
}

fn forget(session: MPI_Session) -> Option<SessionObject> {
    let object = lock(&SESSIONS).remove(session.value());
    object.inspect(|object| release(object.errhandler))
}

/// Closes a session. What was made of it is the program's to free, before this or after it.
pub fn mpi_session_finalize(session: Variable<'_, MPI_Session>) -> c_int {
    const NAME: &str = "MPI_Session_finalize";
    let place = match session.checked("session") {
        Ok(place) => place,
        Err(error) => return raise(NAME, Target::World, &error),
    };
    let handle = place.get();
    of_session(NAME, handle, |runtime| {
        // Another thread may have been faster. What is buffered is waited for.
        drop(forget(handle).ok_or_else(|| no_session(handle))?);
        state::close_session(runtime);
        place.set(MPI_SESSION_NULL);
        Ok(())
    })
}

/// The hints of a session, and what it provides.
pub fn mpi_session_get_info(session: MPI_Session, info_used: Place<'_, MPI_Info>) -> c_int {
    of_session("MPI_Session_get_info", session, |_| {
        let place = info_used.checked("info_used")?;
        place.set(info::adopt(look(session, |object| object.hints.clone())?)?);
        Ok(())
    })
}

/// How many process sets this process is in.
pub fn mpi_session_get_num_psets(
    session: MPI_Session,
    info: MPI_Info,
    npset_names: Place<'_, c_int>,
) -> c_int {
    of_session("MPI_Session_get_num_psets", session, |runtime| {
        info::check(info)?;
        let place = npset_names.checked("npset_names")?;
        place.set(runtime.sets().len() as c_int);
        Ok(())
    })
}

/// The name of process set number `n`, cut to `pset_len` bytes with its zero byte; a length of 0 asks for the
/// bytes that it takes.
pub fn mpi_session_get_nth_pset(
    session: MPI_Session,
    info: MPI_Info,
    n: c_int,
    pset_len: Variable<'_, c_int>,
    pset_name: TextPlace<'_>,
) -> c_int {
    of_session("MPI_Session_get_nth_pset", session, |runtime| {
        info::check(info)?;
        let length = pset_len.checked("pset_len")?;
        let room = usize::try_from(length.get())
            .map_err(|_| Error::new(Class::Argument, format!("pset_len is {}", length.get())))?;
        if room > 0 && pset_name.is_null() {
            return Err(null("pset_name"));
        }
        let sets = runtime.sets();
        let set = usize::try_from(n).ok().and_then(|n| sets.iter().nth(n));
        let Some(set) = set else {
            let what = format!("there is no process set {n}, there are {}", sets.len());
            return Err(Error::new(Class::Argument, what));
        };
        if room > 0 {
            pset_name.put(set.name().as_bytes(), room);
        }
        length.set(set.name().len() as c_int + 1);
        Ok(())
    })
}

fn set_named(runtime: &'static Runtime, name: Text<'_>) -> Result<Option<&'static ProcessSet>> {
    let name = name.bytes().ok_or_else(|| null("pset_name"))?;
    Ok(std::str::from_utf8(name).ok().and_then(|name| runtime.sets().find(name)))
}

#[cold]
fn no_set(runtime: &'static Runtime) -> Error {
    let names: Vec<&str> = runtime.sets().iter().map(ProcessSet::name).collect();
    Error::new(Class::Argument, "there is no process set of that name, or this process is not in it")
        .remedy(format!("there are: {}", names.join(", ")))
}

/// What is known of a process set: its size, under the key `mpi_size`.
pub fn mpi_session_get_pset_info(
    session: MPI_Session,
    pset_name: Text<'_>,
    info: Place<'_, MPI_Info>,
) -> c_int {
    of_session("MPI_Session_get_pset_info", session, |runtime| {
        let (place, set) = (info.checked("info")?, set_named(runtime, pset_name)?);
        let set = set.ok_or_else(|| no_set(runtime))?;
        place.set(info::adopt([("mpi_size", set.group().size().to_string())].into_iter().collect())?);
        Ok(())
    })
}

/// The processes of a set. Where there is no set of that name the group is `MPI_GROUP_NULL` (MPI 5.0 §7.3.2),
/// and the call an error.
pub fn mpi_group_from_session_pset(
    session: MPI_Session,
    pset_name: Text<'_>,
    newgroup: Place<'_, MPI_Group>,
) -> c_int {
    of_session("MPI_Group_from_session_pset", session, |runtime| {
        let (place, set) = (newgroup.checked("newgroup")?, set_named(runtime, pset_name)?);
        let Some(set) = set else {
            place.set(MPI_GROUP_NULL);
            return Err(no_set(runtime));
        };
        place.set(groups::adopt(runtime, set.group().clone(), Some(session))?);
        Ok(())
    })
}

/// Attaches an error handler to a session.
pub fn mpi_session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) -> c_int {
    of_session("MPI_Session_set_errhandler", session, |_| {
        let handler = resolve_for_session(errhandler)?;
        retain(errhandler);
        let former = look(session, |object| {
            object.handler = handler;
            std::mem::replace(&mut object.errhandler, errhandler)
        });
        release(former.inspect_err(|_| release(errhandler))?);
        Ok(())
    })
}

/// The error handler of a session, as a new reference.
pub fn mpi_session_get_errhandler(session: MPI_Session, errhandler: Place<'_, MPI_Errhandler>) -> c_int {
    of_session("MPI_Session_get_errhandler", session, |_| {
        let place = errhandler.checked("errhandler")?;
        place.set(another_reference(look(session, |object| object.errhandler)?));
        Ok(())
    })
}

/// Calls the error handler of a session with an error code.
pub fn mpi_session_call_errhandler(session: MPI_Session, errorcode: c_int) -> c_int {
    const NAME: &str = "MPI_Session_call_errhandler";
    of_session(NAME, session, |_| {
        call_handler(NAME, Target::Session(session), errorcode);
        Ok(())
    })
}

/// The kinds of memory that are provided where they are asked for (MPI 5.0 §11.4.3).
const MEMORY_KINDS: [&str; 3] = ["mpi", "mpi:alloc_mem", "system"];

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
