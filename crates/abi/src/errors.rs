//! From errors to MPI's numbers, and to the program's error handlers.
//!
//! The code that a call returns is the error class itself, so that comparing it with `MPI_ERR_TRUNCATE`
//! works. The sentence that explains the latest error of a class on this thread is kept for
//! `MPI_Error_string`.

use std::cell::RefCell;
use std::ffi::c_int;

use weft::{Class, Error};

use crate::bodies::{error_handlers, sessions};
use crate::entry::Target;
use crate::failures::{MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED};
use crate::ftmpi::{self, MPIX_INIT_RESTARTED_NODE};
use crate::generated::constants::*;
use crate::objects::{Function, Handler};
use crate::state;
use crate::types::*;

/// The only place where an MPI number is chosen for an error.
pub(crate) fn code(class: Class) -> c_int {
    match class {
        Class::Buffer => MPI_ERR_BUFFER,
        Class::Count => MPI_ERR_COUNT,
        Class::Type => MPI_ERR_TYPE,
        Class::Tag => MPI_ERR_TAG,
        Class::Communicator => MPI_ERR_COMM,
        Class::Rank => MPI_ERR_RANK,
        Class::Request => MPI_ERR_REQUEST,
        Class::Root => MPI_ERR_ROOT,
        Class::Group => MPI_ERR_GROUP,
        Class::Operator => MPI_ERR_OP,
        Class::Topology => MPI_ERR_TOPOLOGY,
        Class::Dimensions => MPI_ERR_DIMS,
        Class::Argument => MPI_ERR_ARG,
        Class::Truncated => MPI_ERR_TRUNCATE,
        Class::Other => MPI_ERR_OTHER,
        Class::Internal => MPI_ERR_INTERN,
        Class::InStatus => MPI_ERR_IN_STATUS,
        Class::Keyval => MPI_ERR_KEYVAL,
        Class::NoMemory => MPI_ERR_NO_MEM,
        Class::Info => MPI_ERR_INFO,
        Class::InfoKey => MPI_ERR_INFO_KEY,
        Class::InfoValue => MPI_ERR_INFO_VALUE,
        Class::InfoNoKey => MPI_ERR_INFO_NOKEY,
        Class::Unsupported => MPI_ERR_UNSUPPORTED_OPERATION,
        Class::Window => MPI_ERR_WIN,
        Class::File => MPI_ERR_FILE,
        Class::Session => MPI_ERR_SESSION,
        Class::ErrorHandler => MPI_ERR_ERRHANDLER,
        Class::ProcFailed if ftmpi::is_asked_for() => MPI_ERR_OTHER,
        Class::ProcFailed => MPIX_ERR_PROC_FAILED,
        Class::Revoked => MPIX_ERR_REVOKED,
        Class::ProcFailedPending => MPIX_ERR_PROC_FAILED_PENDING,
        Class::ValueTooLarge => MPI_ERR_VALUE_TOO_LARGE,
        Class::Pending => MPI_ERR_PENDING,
        Class::Spawn => MPI_ERR_SPAWN,
        Class::Abi => MPI_ERR_ABI,
        Class::NotSame => MPI_ERR_NOT_SAME,
        Class::Base => MPI_ERR_BASE,
        Class::Size => MPI_ERR_SIZE,
        Class::Displacement => MPI_ERR_DISP,
        Class::Assertion => MPI_ERR_ASSERT,
        Class::RmaSync => MPI_ERR_RMA_SYNC,
        Class::RmaAttach => MPI_ERR_RMA_ATTACH,
        Class::RmaRange => MPI_ERR_RMA_RANGE,
        Class::LockType => MPI_ERR_LOCKTYPE,
        Class::RmaShared => MPI_ERR_RMA_SHARED,
        Class::RmaFlavor => MPI_ERR_RMA_FLAVOR,
        Class::Datarep => MPI_ERR_UNSUPPORTED_DATAREP,
        Class::Callback(code) => code,
    }
}

/// Ends a call: its code, and on an error the handler that is responsible.
#[inline]
pub(crate) fn finish(name: &'static str, target: Target, result: weft::Result<()>) -> c_int {
    match result {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_owned(name, target, error),
    }
}

/// Hands an error to the handler of the call's object; returns the code where the handler returns.
#[cold]
pub(crate) fn raise(name: &'static str, target: Target, error: &Error) -> c_int {
    note(name, target, error).told()
}

/// Hands an error to the handler of the call's object, and drops it before the program's handler is called.
/// That handler may leave by `longjmp`: nothing is left to be dropped in the frames between it and the
/// program's call.
#[cold]
fn raise_owned(name: &'static str, target: Target, error: Error) -> c_int {
    let noted = note(name, target, &error);
    drop(error);
    noted.told()
}

/// An error that the call remembers, and whom it has still to tell of it.
struct Noted {
    code: c_int,
    teller: Option<(Function, Object)>,
}

impl Noted {
    /// Calls the program's handler, where there is one; the code.
    fn told(self) -> c_int {
        if let Some((function, object)) = self.teller {
            call_user(function, object, self.code);
        }
        self.code
    }
}

/// Remembers an error, and finds out who is to be told of it. A fatal one ends the job.
fn note(name: &'static str, target: Target, error: &Error) -> Noted {
    let code = code(error.class);
    remember(code, name, error);
    let (handler, object) = handler_of(target);
    let teller = match handler {
        Handler::Return => None,
        Handler::Fatal => die(name, error),
        Handler::Abort => abort(name, object, error),
        Handler::User(function) => Some((function, object)),
    };
    Noted { code, teller }
}

/// Calls the handler of `target` for a code that the program itself reports.
pub(crate) fn call_handler(name: &'static str, target: Target, code: c_int) {
    let error = || Error::new(Class::Callback(code), format!("error {code}: {}", words_of(code)));
    let (handler, object) = handler_of(target);
    match handler {
        Handler::Return => {}
        Handler::Fatal => die(name, &error()),
        Handler::Abort => abort(name, object, &error()),
        Handler::User(function) => call_user(function, object, code),
    }
}

fn words_of(code: c_int) -> String {
    String::from_utf8_lossy(&crate::bodies::error_codes::describe(code)).into_owned()
}

/// The object whose error handler an error has come to.
#[derive(Clone, Copy)]
enum Object {
    Comm(MPI_Comm),
    Session(MPI_Session),
    Win(MPI_Win),
    File(MPI_File),
    /// None: the handler is the one that errors have before anything is initialized.
    None,
}

/// The responsible handler, and the object that it hangs on. A handle that is none belongs to no object.
fn handler_of(target: Target) -> (Handler, Object) {
    let found = match target {
        // MPI 5.0 §14.7: errors of files that are not open go to the handler that files begin with.
        Target::File(_) => Some((error_handlers::of_files(), Object::File(MPI_FILE_NULL))),
        Target::Comm(comm) => state::runtime()
            .and_then(|runtime| runtime.find_comm(comm).or_else(|| runtime.find_lingering(comm)))
            .map(|object| (object.handler(), Object::Comm(comm))),
        Target::Session(session) => {
            sessions::handler(session).map(|handler| (handler, Object::Session(session)))
        }
        // MPI 5.0 §7.4.2: the handler that the new communicator is to get, which is not there to be named.
        Target::Handler(errhandler) => {
            error_handlers::resolve(errhandler).ok().map(|handler| (handler, Object::Comm(MPI_COMM_NULL)))
        }
        Target::Win(win) => state::runtime()
            .and_then(|runtime| runtime.find_win(win))
            .map(|object| (object.handler(), Object::Win(win))),
        Target::World => None,
    };
    found.unwrap_or_else(handler_of_none)
}

/// The handler of errors that belong to no object: that of `MPI_COMM_SELF` (MPI 5.0 §9.3) once the program
/// has set it. Until then it is that of `MPI_COMM_WORLD`, as in other implementations: programs that set only
/// that one expect all codes to be returned. Where neither communicator is there, before `MPI_Init`, after
/// `MPI_Finalize` and among sessions alone, it is the initial error handler.
fn handler_of_none() -> (Handler, Object) {
    let find = |comm| state::runtime().and_then(|runtime| runtime.find_comm(comm));
    let own = find(MPI_COMM_SELF).filter(|own| own.handler_was_set());
    match own
        .map(|own| (own, MPI_COMM_SELF))
        .or_else(|| find(MPI_COMM_WORLD).map(|world| (world, MPI_COMM_WORLD)))
    {
        Some((object, comm)) => (object.handler(), Object::Comm(comm)),
        None => (state::initial_handler().1, Object::None),
    }
}

fn call_user(function: Function, object: Object, mut code: c_int) {
    // SAFETY: the program gave functions that may be called with an object of their class and a code; both
    // pointers are valid for the call. What the program's function does is its own affair.
    unsafe {
        match (function, object) {
            (Function::Comm(function), Object::Comm(mut comm)) => {
                function.function().inspect(|function| function(&raw mut comm, &raw mut code));
            }
            (Function::Session(function), Object::Session(mut session)) => {
                function.function().inspect(|function| function(&raw mut session, &raw mut code));
            }
            (Function::Win(function), Object::Win(mut win)) => {
                function.function().inspect(|function| function(&raw mut win, &raw mut code));
            }
            (Function::File(function), Object::File(mut file)) => {
                function.function().inspect(|function| function(&raw mut file, &raw mut code));
            }
            // Handlers are attached to objects of their class only.
            (Function::Comm(_) | Function::Session(_) | Function::File(_) | Function::Win(_), _) => {}
        }
    }
}

/// Tells the error and ends the processes that `MPI_ERRORS_ABORT` is to end: those of a communicator as
/// `MPI_Abort` does, and for a session, or no object at all, this process alone.
#[cold]
fn abort(name: &str, object: Object, error: &Error) -> ! {
    match object {
        Object::Comm(_) | Object::Win(_) => die(name, error),
        Object::Session(_) | Object::File(_) | Object::None => {
            weft::tell(account(name, error));
            state::exit(code(error.class))
        }
    }
}

/// Tells the error and ends the job.
#[cold]
fn die(name: &str, error: &Error) -> ! {
    let status = code(error.class);
    weft::tell(account(name, error));
    match state::runtime() {
        Some(runtime) => runtime.abort(status),
        None => state::exit(status),
    }
}

fn account(name: &str, error: &Error) -> String {
    match state::runtime() {
        Some(runtime) => {
            format!("weft: {name}: {error}\n  rank {} on {}", runtime.rank(), state::host_name())
        }
        None => format!("weft: {name}: {error}"),
    }
}

thread_local! {
    /// The latest error on this thread: its code and its sentence.
    static LATEST: RefCell<(c_int, String)> = const { RefCell::new((MPI_SUCCESS, String::new())) };
}

fn remember(code: c_int, name: &str, error: &Error) {
    // After the thread's own data is gone (at exit) there is nobody left to ask.
    let _ = LATEST.try_with(|latest| {
        let (latest, text) = &mut *latest.borrow_mut();
        *latest = code;
        text.clear();
        text.extend([name, ": ", &error.what]);
    });
}

/// The text of an error code: the class in words, and what happened last on this thread if it was of that
/// class.
pub(crate) fn text_of(code: c_int) -> String {
    let Some((_, name, words)) = TEXTS.iter().find(|(known, _, _)| *known == code) else {
        return format!("unknown error {code}");
    };
    let detail = LATEST.try_with(|latest| {
        let (latest, text) = &*latest.borrow();
        (*latest == code && code != MPI_SUCCESS).then(|| text.clone())
    });
    match detail {
        Ok(Some(detail)) => format!("{name}: {words} ({detail})"),
        _ => format!("{name}: {words}"),
    }
}

/// Whether the number is an error class of the standard.
pub(crate) fn is_class(code: c_int) -> bool {
    TEXTS.iter().any(|(known, _, _)| *known == code)
}

/// Every error class: number, name, words.
const TEXTS: &[(c_int, &str, &str)] = &[
    (MPI_SUCCESS, "MPI_SUCCESS", "no error"),
    (MPI_ERR_BUFFER, "MPI_ERR_BUFFER", "the buffer pointer is not valid"),
    (MPI_ERR_COUNT, "MPI_ERR_COUNT", "the count is not valid"),
    (MPI_ERR_TYPE, "MPI_ERR_TYPE", "the datatype is not valid"),
    (MPI_ERR_TAG, "MPI_ERR_TAG", "the tag is not valid"),
    (MPI_ERR_COMM, "MPI_ERR_COMM", "the communicator is not valid"),
    (MPI_ERR_RANK, "MPI_ERR_RANK", "the rank is not valid"),
    (MPI_ERR_REQUEST, "MPI_ERR_REQUEST", "the request is not valid"),
    (MPI_ERR_ROOT, "MPI_ERR_ROOT", "the root is not valid"),
    (MPI_ERR_GROUP, "MPI_ERR_GROUP", "the group is not valid"),
    (MPI_ERR_OP, "MPI_ERR_OP", "the operator is not valid"),
    (MPI_ERR_TOPOLOGY, "MPI_ERR_TOPOLOGY", "the communicator has no such topology"),
    (MPI_ERR_DIMS, "MPI_ERR_DIMS", "the dimensions are not valid"),
    (MPI_ERR_ARG, "MPI_ERR_ARG", "an argument is not valid"),
    (MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN", "unknown error"),
    (MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE", "the message is longer than the buffer"),
    (MPI_ERR_OTHER, "MPI_ERR_OTHER", "an error without a class of its own"),
    (MPI_ERR_INTERN, "MPI_ERR_INTERN", "an error of the library itself"),
    (MPI_ERR_PENDING, "MPI_ERR_PENDING", "the request is still under way"),
    (MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS", "the error codes stand in the statuses"),
    (MPI_ERR_ACCESS, "MPI_ERR_ACCESS", "permission denied"),
    (MPI_ERR_AMODE, "MPI_ERR_AMODE", "the access mode is not valid"),
    (MPI_ERR_ASSERT, "MPI_ERR_ASSERT", "the assertion is not valid"),
    (MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE", "the file name is not valid"),
    (MPI_ERR_BASE, "MPI_ERR_BASE", "the base address is not valid"),
    (MPI_ERR_CONVERSION, "MPI_ERR_CONVERSION", "a conversion function failed"),
    (MPI_ERR_DISP, "MPI_ERR_DISP", "the displacement is not valid"),
    (MPI_ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP", "the data representation is defined already"),
    (MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS", "the file exists"),
    (MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE", "the file is in use"),
    (MPI_ERR_FILE, "MPI_ERR_FILE", "the file handle is not valid"),
    (MPI_ERR_INFO_KEY, "MPI_ERR_INFO_KEY", "the info key is not valid"),
    (MPI_ERR_INFO_NOKEY, "MPI_ERR_INFO_NOKEY", "the info object has no such key"),
    (MPI_ERR_INFO_VALUE, "MPI_ERR_INFO_VALUE", "the info value is not valid"),
    (MPI_ERR_INFO, "MPI_ERR_INFO", "the info object is not valid"),
    (MPI_ERR_IO, "MPI_ERR_IO", "input or output failed"),
    (MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL", "the attribute key is not valid"),
    (MPI_ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE", "the lock type is not valid"),
    (MPI_ERR_NAME, "MPI_ERR_NAME", "no such service name"),
    (MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM", "memory is exhausted"),
    (MPI_ERR_NOT_SAME, "MPI_ERR_NOT_SAME", "an argument differs between the processes"),
    (MPI_ERR_NO_SPACE, "MPI_ERR_NO_SPACE", "no space is left"),
    (MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE", "no such file"),
    (MPI_ERR_PORT, "MPI_ERR_PORT", "the port name is not valid"),
    (MPI_ERR_QUOTA, "MPI_ERR_QUOTA", "the quota is exceeded"),
    (MPI_ERR_READ_ONLY, "MPI_ERR_READ_ONLY", "the file or file system is read-only"),
    (MPI_ERR_RMA_ATTACH, "MPI_ERR_RMA_ATTACH", "memory cannot be attached"),
    (MPI_ERR_RMA_CONFLICT, "MPI_ERR_RMA_CONFLICT", "accesses to the window conflict"),
    (MPI_ERR_RMA_RANGE, "MPI_ERR_RMA_RANGE", "the access is outside the window"),
    (MPI_ERR_RMA_SHARED, "MPI_ERR_RMA_SHARED", "memory cannot be shared"),
    (MPI_ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC", "the window is synchronised in a wrong way"),
    (MPI_ERR_SERVICE, "MPI_ERR_SERVICE", "the service cannot be unpublished"),
    (MPI_ERR_SIZE, "MPI_ERR_SIZE", "the size is not valid"),
    (MPI_ERR_SPAWN, "MPI_ERR_SPAWN", "processes cannot be started"),
    (MPI_ERR_UNSUPPORTED_DATAREP, "MPI_ERR_UNSUPPORTED_DATAREP", "no such data representation"),
    (MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION", "the operation is not supported"),
    (MPI_ERR_WIN, "MPI_ERR_WIN", "the window is not valid"),
    (MPI_ERR_RMA_FLAVOR, "MPI_ERR_RMA_FLAVOR", "the window has the wrong flavor"),
    (MPI_ERR_PROC_ABORTED, "MPI_ERR_PROC_ABORTED", "a process is gone"),
    (MPI_ERR_VALUE_TOO_LARGE, "MPI_ERR_VALUE_TOO_LARGE", "the value does not fit the argument"),
    (MPI_ERR_SESSION, "MPI_ERR_SESSION", "the session is not valid"),
    (MPI_ERR_ERRHANDLER, "MPI_ERR_ERRHANDLER", "the error handler is not valid"),
    (MPI_ERR_ABI, "MPI_ERR_ABI", "the request does not fit the application binary interface"),
    (MPI_T_ERR_CANNOT_INIT, "MPI_T_ERR_CANNOT_INIT", "the tool interface cannot be initialized"),
    (MPI_T_ERR_NOT_ACCESSIBLE, "MPI_T_ERR_NOT_ACCESSIBLE", "the tool interface is not accessible now"),
    (MPI_T_ERR_NOT_INITIALIZED, "MPI_T_ERR_NOT_INITIALIZED", "the tool interface is not initialized"),
    (MPI_T_ERR_NOT_SUPPORTED, "MPI_T_ERR_NOT_SUPPORTED", "the tool interface does not support this"),
    (MPI_T_ERR_MEMORY, "MPI_T_ERR_MEMORY", "memory is exhausted"),
    (MPI_T_ERR_INVALID, "MPI_T_ERR_INVALID", "an argument of a tool function is not valid"),
    (MPI_T_ERR_INVALID_INDEX, "MPI_T_ERR_INVALID_INDEX", "the index is not valid"),
    (MPI_T_ERR_INVALID_ITEM, "MPI_T_ERR_INVALID_ITEM", "the item is not valid"),
    (MPI_T_ERR_INVALID_SESSION, "MPI_T_ERR_INVALID_SESSION", "the tool session is not valid"),
    (MPI_T_ERR_INVALID_HANDLE, "MPI_T_ERR_INVALID_HANDLE", "the tool handle is not valid"),
    (MPI_T_ERR_INVALID_NAME, "MPI_T_ERR_INVALID_NAME", "no variable has that name"),
    (MPI_T_ERR_OUT_OF_HANDLES, "MPI_T_ERR_OUT_OF_HANDLES", "no more handles"),
    (MPI_T_ERR_OUT_OF_SESSIONS, "MPI_T_ERR_OUT_OF_SESSIONS", "no more tool sessions"),
    (MPI_T_ERR_CVAR_SET_NOT_NOW, "MPI_T_ERR_CVAR_SET_NOT_NOW", "the variable cannot be set now"),
    (MPI_T_ERR_CVAR_SET_NEVER, "MPI_T_ERR_CVAR_SET_NEVER", "the variable cannot be set"),
    (MPI_T_ERR_PVAR_NO_WRITE, "MPI_T_ERR_PVAR_NO_WRITE", "the variable cannot be written"),
    (MPI_T_ERR_PVAR_NO_STARTSTOP, "MPI_T_ERR_PVAR_NO_STARTSTOP", "the variable cannot be started or stopped"),
    (MPI_T_ERR_PVAR_NO_ATOMIC, "MPI_T_ERR_PVAR_NO_ATOMIC", "the variable cannot be read and reset at once"),
    (MPIX_ERR_PROC_FAILED, "MPIX_ERR_PROC_FAILED", "a process has failed"),
    (
        MPIX_ERR_PROC_FAILED_PENDING,
        "MPIX_ERR_PROC_FAILED_PENDING",
        "a process has failed that the message might have come from; the request goes on",
    ),
    (MPIX_ERR_REVOKED, "MPIX_ERR_REVOKED", "the communicator is revoked"),
    (
        MPIX_INIT_RESTARTED_NODE,
        "MPIX_INIT_RESTARTED_NODE",
        "no error: this process was started in the place of one that has failed",
    ),
    (MPI_ERR_LASTCODE, "MPI_ERR_LASTCODE", "the last error code"),
];
