//! Error handlers: made, attached, called, freed (MPI 5.0 §9.3).
//!
//! They live in a table of the process, since some may be made before `MPI_Init` and freed after
//! `MPI_Finalize`. An error handler is gone when neither the program holds a reference nor an object is
//! attached to it; while only objects hold it, the program's handle is dead until `MPI_Comm_get_errhandler`
//! gives it back.

use std::ffi::c_int;
use std::sync::Mutex;

use weft::{Class, Error, Result};

use crate::claims::{Callback, Place, Variable};
use crate::entry::Target;
use crate::errors::{call_handler, finish};
use crate::generated::constants::*;
use crate::handles::HandleKind;
use crate::objects::{Function, Handler, lock};
use crate::state::{call, too_many};
use crate::table::Table;
use crate::types::*;

/// An error handler of the program's own.
struct ErrorHandler {
    function: Function,
    /// References that the program holds.
    named: u32,
    /// Objects that it is attached to.
    attached: u32,
}

static HANDLERS: Mutex<Table<ErrorHandler>> = Mutex::new(Table::new(HandleKind::Errhandler));

/// The handle of a living object, by its integer.
pub(crate) fn by_integer(integer: usize) -> Option<usize> {
    lock(&HANDLERS).by_integer(integer)
}

/// The error handler of files that are not open yet, which `MPI_FILE_NULL` stands for (MPI 5.0 §14.7).
static OF_NEW_FILES: Mutex<MPI_Errhandler> = Mutex::new(MPI_ERRORS_RETURN);

impl Function {
    fn is_null(self) -> bool {
        match self {
            Function::Comm(function) => function.is_null(),
            Function::File(function) => function.is_null(),
            Function::Win(function) => function.is_null(),
            Function::Session(function) => function.is_null(),
        }
    }

    /// What objects of the class are called.
    fn class(self) -> &'static str {
        match self {
            Function::Comm(_) => "communicators",
            Function::File(_) => "files",
            Function::Win(_) => "windows",
            Function::Session(_) => "sessions",
        }
    }
}

/// Another object is attached to the error handler.
pub(crate) fn retain(errhandler: MPI_Errhandler) {
    if let Some(handler) = lock(&HANDLERS).find_mut(errhandler.value()) {
        handler.attached += 1;
    }
}

/// An object is attached no more.
pub(crate) fn release(errhandler: MPI_Errhandler) {
    drop_reference(errhandler, |handler| &mut handler.attached);
}

fn drop_reference(errhandler: MPI_Errhandler, count: impl FnOnce(&mut ErrorHandler) -> &mut u32) {
    let mut handlers = lock(&HANDLERS);
    let Some(handler) = handlers.find_mut(errhandler.value()) else { return };
    let count = count(handler);
    *count = count.saturating_sub(1);
    if handler.named == 0 && handler.attached == 0 {
        handlers.remove(errhandler.value());
    }
}

/// The handler that a handle names, for communicators. An error where it is a handler for another class of
/// object.
pub(crate) fn resolve(errhandler: MPI_Errhandler) -> Result<Handler> {
    resolve_for("communicator", errhandler, |function| matches!(function, Function::Comm(_)))
}

/// The handler for errors of files that are not open.
pub(crate) fn of_files() -> Handler {
    let errhandler = *lock(&OF_NEW_FILES);
    // One that only this place refers to has no name any more, and still serves.
    let function = || lock(&HANDLERS).find(errhandler.value()).map(|handler| handler.function);
    predefined(errhandler).or_else(|| function().map(Handler::User)).unwrap_or(Handler::Return)
}

/// The handler that a handle names, for sessions. An error where it is a handler for another class of object.
pub(crate) fn resolve_for_session(errhandler: MPI_Errhandler) -> Result<Handler> {
    resolve_for("session", errhandler, |function| matches!(function, Function::Session(_)))
}

fn resolve_for(object: &str, errhandler: MPI_Errhandler, fits: fn(Function) -> bool) -> Result<Handler> {
    if let Some(predefined) = predefined(errhandler) {
        return Ok(predefined);
    }
    let function = function_of(errhandler)?;
    if fits(function) { Ok(Handler::User(function)) } else { Err(wrong_class(function, object)) }
}

fn predefined(errhandler: MPI_Errhandler) -> Option<Handler> {
    match errhandler {
        MPI_ERRORS_ARE_FATAL => Some(Handler::Fatal),
        MPI_ERRORS_ABORT => Some(Handler::Abort),
        MPI_ERRORS_RETURN => Some(Handler::Return),
        _ => None,
    }
}

/// The function behind a handle that the program may use.
fn function_of(errhandler: MPI_Errhandler) -> Result<Function> {
    let handlers = lock(&HANDLERS);
    let found = handlers.find(errhandler.value()).filter(|handler| handler.named > 0);
    found.map(|handler| handler.function).ok_or_else(|| no_handler(errhandler))
}

#[cold]
fn no_handler(errhandler: MPI_Errhandler) -> Error {
    if errhandler == MPI_ERRHANDLER_NULL {
        return Error::new(Class::ErrorHandler, "the error handler is MPI_ERRHANDLER_NULL");
    }
    let what = format!("{:#x} is not an error handler, or not any more", errhandler.value());
    Error::new(Class::ErrorHandler, what)
}

#[cold]
fn wrong_class(function: Function, object: &str) -> Error {
    let what = format!("an error handler for {} cannot serve a {object}", function.class());
    Error::new(Class::ErrorHandler, what)
}

fn create(name: &'static str, function: Function, errhandler: Place<'_, MPI_Errhandler>) -> c_int {
    let place = errhandler.checked("errhandler");
    let created = place.and_then(|place| {
        if function.is_null() {
            return Err(Error::new(Class::Argument, "the function of an error handler is a null pointer"));
        }
        let handler = ErrorHandler { function, named: 1, attached: 0 };
        let handle = lock(&HANDLERS).insert(handler).ok_or_else(too_many)?;
        place.set(MPI_Errhandler::from_value(handle));
        Ok(())
    });
    finish(name, Target::World, created)
}

/// Makes an error handler for communicators.
pub fn mpi_comm_create_errhandler(
    comm_errhandler_fn: Callback<MPI_Comm_errhandler_function>,
    errhandler: Place<'_, MPI_Errhandler>,
) -> c_int {
    create("MPI_Comm_create_errhandler", Function::Comm(comm_errhandler_fn), errhandler)
}

/// Makes an error handler for files.
pub fn mpi_file_create_errhandler(
    file_errhandler_fn: Callback<MPI_File_errhandler_function>,
    errhandler: Place<'_, MPI_Errhandler>,
) -> c_int {
    create("MPI_File_create_errhandler", Function::File(file_errhandler_fn), errhandler)
}

/// Makes an error handler for windows.
pub fn mpi_win_create_errhandler(
    win_errhandler_fn: Callback<MPI_Win_errhandler_function>,
    errhandler: Place<'_, MPI_Errhandler>,
) -> c_int {
    create("MPI_Win_create_errhandler", Function::Win(win_errhandler_fn), errhandler)
}

/// Makes an error handler for sessions.
pub fn mpi_session_create_errhandler(
    session_errhandler_fn: Callback<MPI_Session_errhandler_function>,
    errhandler: Place<'_, MPI_Errhandler>,
) -> c_int {
    create("MPI_Session_create_errhandler", Function::Session(session_errhandler_fn), errhandler)
}

/// Gives up a reference. Predefined handlers have no count, and what `MPI_Comm_get_errhandler` gave may be
/// one, so freeing them is allowed and changes the handle alone.
pub fn mpi_errhandler_free(errhandler: Variable<'_, MPI_Errhandler>) -> c_int {
    let place = errhandler.checked("errhandler");
    let freed = place.and_then(|place| {
        let handle = place.get();
        if predefined(handle).is_none() {
            function_of(handle)?;
            drop_reference(handle, |handler| &mut handler.named);
        }
        place.set(MPI_ERRHANDLER_NULL);
        Ok(())
    });
    finish("MPI_Errhandler_free", Target::World, freed)
}

/// Attaches an error handler to a communicator.
pub fn mpi_comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> c_int {
    call("MPI_Comm_set_errhandler", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let handler = resolve(errhandler)?;
        retain(errhandler);
        release(object.replace_errhandler(errhandler, handler));
        Ok(())
    })
}

/// The error handler of a communicator, as a new reference.
pub fn mpi_comm_get_errhandler(comm: MPI_Comm, errhandler: Place<'_, MPI_Errhandler>) -> c_int {
    call("MPI_Comm_get_errhandler", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = errhandler.checked("errhandler")?;
        place.set(another_reference(object.errhandler().0));
        Ok(())
    })
}

pub(crate) fn another_reference(errhandler: MPI_Errhandler) -> MPI_Errhandler {
    if let Some(handler) = lock(&HANDLERS).find_mut(errhandler.value()) {
        handler.named += 1;
    }
    errhandler
}

/// Calls the error handler of a communicator with an error code.
pub fn mpi_comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> c_int {
    const NAME: &str = "MPI_Comm_call_errhandler";
    call(NAME, Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        call_handler(NAME, Target::Comm(comm), errorcode);
        Ok(())
    })
}

/// Attaches an error handler to a window.
pub fn mpi_win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) -> c_int {
    call("MPI_Win_set_errhandler", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let handler = resolve_for("window", errhandler, |function| matches!(function, Function::Win(_)))?;
        retain(errhandler);
        release(object.replace_errhandler(errhandler, handler));
        Ok(())
    })
}

/// The error handler of a window, as a new reference.
pub fn mpi_win_get_errhandler(win: MPI_Win, errhandler: Place<'_, MPI_Errhandler>) -> c_int {
    call("MPI_Win_get_errhandler", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let place = errhandler.checked("errhandler")?;
        place.set(another_reference(object.errhandler()));
        Ok(())
    })
}

/// Calls the error handler of a window with an error code.
pub fn mpi_win_call_errhandler(win: MPI_Win, errorcode: c_int) -> c_int {
    const NAME: &str = "MPI_Win_call_errhandler";
    call(NAME, Target::Win(win), |runtime| {
        runtime.win(win)?;
        call_handler(NAME, Target::Win(win), errorcode);
        Ok(())
    })
}

/// Calls the error handler that files begin with, for `MPI_FILE_NULL`.
pub fn mpi_file_call_errhandler(file: MPI_File, errorcode: c_int) -> c_int {
    const NAME: &str = "MPI_File_call_errhandler";
    call(NAME, Target::File(file), |_| {
        check_no_file(file)?;
        call_handler(NAME, Target::File(file), errorcode);
        Ok(())
    })
}

fn check_no_file(file: MPI_File) -> Result<()> {
    if file == MPI_FILE_NULL {
        return Ok(());
    }
    Err(Error::new(Class::File, format!("{:#x} is not a file, or not any more", file.value())))
}

/// Sets the error handler that files will begin with; `MPI_FILE_NULL` stands for them.
pub fn mpi_file_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> c_int {
    call("MPI_File_set_errhandler", Target::File(file), |_| {
        check_no_file(file)?;
        resolve_for("file", errhandler, |function| matches!(function, Function::File(_)))?;
        retain(errhandler);
        let former = std::mem::replace(&mut *lock(&OF_NEW_FILES), errhandler);
        release(former);
        Ok(())
    })
}

/// The error handler that files will begin with, as a new reference.
pub fn mpi_file_get_errhandler(file: MPI_File, errhandler: Place<'_, MPI_Errhandler>) -> c_int {
    call("MPI_File_get_errhandler", Target::File(file), |_| {
        check_no_file(file)?;
        let place = errhandler.checked("errhandler")?;
        let current = *lock(&OF_NEW_FILES);
        place.set(another_reference(current));
        Ok(())
    })
}

#[cfg(test)]
#[path = "error_handlers_tests.rs"]
mod tests;
