//! The globals that C's interface needs, and nothing else has: whether MPI runs, and all objects with handles.

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;

use weft::{Class, Communicator, Error, Guard, Lock, Rank, Result, Session, Threads};

use crate::entry::Target;
use crate::errors::{finish, raise};
use crate::generated::constants::*;
use crate::objects::{CommObject, Handler, Held, Objects, lock};
use crate::types::*;

/// What exists between `MPI_Init` and `MPI_Finalize`.
pub(crate) struct Runtime {
    world: CommObject,
    alone: CommObject,
    session: Mutex<Option<Session>>,
    objects: Lock<Objects>,
    level: c_int,
    main: ThreadId,
    /// Requests that were freed before they were over; whoever calls next looks after them.
    pub detached: AtomicUsize,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// The runtime while it runs, found in one load by every call; null before and after.
static CURRENT: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);

const BEFORE: u8 = 0;
const AFTER: u8 = 1;

/// What runs, while it runs.
#[inline]
pub(crate) fn runtime() -> Option<&'static Runtime> {
    // SAFETY: it is null or the address of what stands in `RUNTIME`, which is never dropped; published with release
    // after that was written.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The world of a running library that has nothing else to look after; `None` for any other communicator.
#[inline(always)]
pub(crate) fn usual_comm(comm: MPI_Comm) -> Option<&'static Communicator> {
    let runtime = runtime()?;
    let usual = comm == MPI_COMM_WORLD && runtime.detached.load(Ordering::Relaxed) == 0;
    usual.then_some(&runtime.world.comm)
}

/// Whether `MPI_Init` was called.
pub(crate) fn is_initialized() -> bool {
    RUNTIME.get().is_some()
}

/// Whether `MPI_Finalize` was called.
pub(crate) fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) == AFTER
}

/// Does a call: its work, then its code.
#[inline(always)]
pub(crate) fn call(
    name: &'static str,
    target: Target,
    work: impl FnOnce(&'static Runtime) -> Result<()>,
) -> c_int {
    match runtime() {
        Some(runtime) => {
            if runtime.detached.load(Ordering::Relaxed) > 0 {
                crate::bodies::completion::reap(runtime);
            }
            finish(name, target, work(runtime))
        }
        None => not_running(name),
    }
}

#[cold]
fn not_running(name: &'static str) -> c_int {
    let what = if is_finalized() { "called after MPI_Finalize" } else { "called before MPI_Init" };
    raise(name, Target::World, &Error::new(Class::Other, what))
}

/// Joins the job.
pub(crate) fn start(required: c_int) -> Result<c_int> {
    if is_initialized() {
        let what =
            if is_finalized() { "MPI was finalized, and cannot start again" } else { "MPI runs already" };
        return Err(Error::new(Class::Other, what));
    }
    let level = provided(required);
    let threads = if level >= MPI_THREAD_SERIALIZED { Threads::Many } else { Threads::One };
    let session = Session::start_for(threads)?;
    let fixed = |comm: Communicator| CommObject::new(comm, MPI_ERRORS_ARE_FATAL, Handler::Fatal);
    let runtime = Runtime {
        world: fixed(session.world()),
        alone: fixed(session.alone()),
        session: Mutex::new(Some(session)),
        objects: Lock::new(threads, Objects::new()),
        level,
        main: std::thread::current().id(),
        detached: AtomicUsize::new(0),
    };
    if RUNTIME.set(runtime).is_err() {
        return Err(Error::new(Class::Other, "another thread started MPI at the same time"));
    }
    if let Some(runtime) = RUNTIME.get() {
        CURRENT.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    }
    Ok(level)
}

/// Every level is provided; an unknown number gets the lowest that is not below it.
fn provided(required: c_int) -> c_int {
    [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE]
        .into_iter()
        .find(|&level| required <= level)
        .unwrap_or(MPI_THREAD_MULTIPLE)
}

impl Runtime {
    /// The process leaves the job.
    pub(crate) fn finish(&self) -> Result<()> {
        let session = lock(&self.session).take();
        let left = session.map_or(Ok(()), Session::finish);
        CURRENT.store(std::ptr::null_mut(), Ordering::Release);
        PHASE.store(AFTER, Ordering::Release);
        left
    }

    /// Ends the whole job.
    pub(crate) fn abort(&self, status: c_int) -> ! {
        let status = failing(status);
        self.world.comm.process().announce_abort(status);
        exit(status)
    }

    /// This process's rank in the world.
    pub(crate) fn rank(&self) -> u32 {
        let Rank(rank) = self.world.comm.rank();
        rank
    }

    /// Whether several threads may call.
    pub(crate) fn is_shared(&self) -> bool {
        self.level >= MPI_THREAD_SERIALIZED
    }

    pub(crate) fn level(&self) -> c_int {
        self.level
    }

    pub(crate) fn main(&self) -> ThreadId {
        self.main
    }

    /// The session behind it all, while it lasts.
    pub(crate) fn with_session<R>(&self, ask: impl FnOnce(&Session) -> R) -> Option<R> {
        lock(&self.session).as_ref().map(ask)
    }

    /// All objects with handles.
    #[inline]
    pub(crate) fn objects(&self) -> Guard<'_, Objects> {
        self.objects.hold()
    }

    /// The handler of errors that belong to no object.
    pub(crate) fn handler_of_none(&self) -> Handler {
        self.alone.handler()
    }

    /// The communicator of a handle, if it is one.
    #[inline(always)]
    pub(crate) fn find_comm(&'static self, comm: MPI_Comm) -> Option<Held> {
        if comm == MPI_COMM_WORLD {
            return Some(Held::Fixed(&self.world));
        }
        self.find_other_comm(comm)
    }

    #[inline(never)]
    fn find_other_comm(&'static self, comm: MPI_Comm) -> Option<Held> {
        if comm == MPI_COMM_SELF {
            return Some(Held::Fixed(&self.alone));
        }
        self.objects().comms.find(comm.value()).cloned().map(Held::Shared)
    }

    /// The communicator of a handle.
    #[inline(always)]
    pub(crate) fn comm(&'static self, comm: MPI_Comm) -> Result<Held> {
        self.find_comm(comm).ok_or_else(|| no_comm(comm))
    }

    /// Makes a handle for a new communicator, which inherits its parent's error handler (MPI 5.0 §9.3).
    pub(crate) fn adopt_comm(&self, comm: Communicator, parent: &CommObject) -> Result<MPI_Comm> {
        let (errhandler, handler) = parent.errhandler();
        crate::bodies::error_handlers::retain(errhandler);
        let object = Arc::new(CommObject::new(comm, errhandler, handler));
        self.objects().comms.insert(object).map(MPI_Comm::from_value).ok_or_else(too_many)
    }
}

/// An exit status that is a failure also when only its low 8 bits are left.
fn failing(status: c_int) -> c_int {
    if status & 0xff == 0 { 1 } else { status }
}

/// Ends this process by C's own `exit`, which may be called where an exit is under way already.
pub(crate) fn exit(status: c_int) -> ! {
    // SAFETY: `exit` takes any number; handlers that the program has registered are its own affair.
    unsafe { libc::exit(failing(status)) }
}

#[cold]
fn no_comm(comm: MPI_Comm) -> Error {
    let value = comm.value();
    if comm == MPI_COMM_NULL {
        return Error::new(Class::Communicator, "the communicator is MPI_COMM_NULL");
    }
    Error::new(Class::Communicator, format!("{value:#x} is not a communicator, or not any more"))
}

/// There are no more handles of a class.
#[cold]
pub(crate) fn too_many() -> Error {
    Error::new(Class::NoMemory, "more than a hundred million objects of one kind are alive")
        .remedy("free objects that are not used any more")
}

/// The name of this host, as the kernel tells.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
