//! The globals that C's interface needs, and nothing else has: whether MPI runs, and all objects with
//! handles.

mod exit;
mod usual;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;

use weft::sets::ProcessSets;
use weft::{Class, Communicator, Error, Guard, InitialErrors, Lock, Process, Rank, Result, Session, Threads};

pub(crate) use self::exit::exit;
use self::exit::{exit_after, failing};
pub(crate) use self::usual::{usual_comm, usual_kept, usual_window, usual_world};
use crate::bodies::buffered::AttachedSlot;
use crate::calls;
use crate::entry::Target;
use crate::errors::{finish, raise};
use crate::generated::constants::*;
use crate::objects::{CommObject, Handler, Held, Objects, WinObject, lock};
use crate::types::*;

/// What exists once the process has joined its job: at `MPI_Init` or at the first `MPI_Session_init`.
pub(crate) struct Runtime {
    process: Arc<Process>,
    /// The communicator of all as the process has joined it, which is never dropped.
    world: &'static CommObject,
    /// The communicator of this process alone, which is never dropped.
    alone: &'static CommObject,
    /// What recoveries have put into their places.
    later: Lock<Later>,
    /// One thread at a time looks what recoveries have put into the places of communicators.
    renewing: Mutex<()>,
    sets: ProcessSets,
    session: Mutex<Option<Session>>,
    objects: Lock<Objects>,
    model: OnceLock<WorldModel>,
    /// The buffer that the program has attached to the process, if any (`MPI_Buffer_attach`).
    pub buffer: AttachedSlot,
}

/// The communicators of the world and of this process alone, since a recovery has replaced the ones that the
/// process joined with. A replaced communicator lives as long as a thread holds a reference to it, so a job
/// can recover any number of times.
#[derive(Default)]
pub(crate) struct Later {
    world: Option<Arc<CommObject>>,
    alone: Option<Arc<CommObject>>,
}

/// What `MPI_Init` has settled.
struct WorldModel {
    level: c_int,
    main: ThreadId,
}

/// Who uses the library now: the world model, sessions, both or nobody.
struct Users {
    world: bool,
    sessions: usize,
    /// There was a session, so there may be more of them: the process stays in the job until it exits.
    had_sessions: bool,
}

static USERS: Mutex<Users> = Mutex::new(Users { world: false, sessions: 0, had_sessions: false });
static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// The runtime while somebody uses it; null before and after.
static CURRENT: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
/// Whether messages carry a digest of their elements' kinds, which receives compare (`WEFT_CHECK`).
static CHECKS: AtomicBool = AtomicBool::new(false);
/// The communicator of all while the world model does, found in one load by sends and receives; null once a
/// recovery has put another one into its place, which may go some day.
static WORLD: AtomicPtr<CommObject> = AtomicPtr::new(std::ptr::null_mut());
/// How many requests were freed before they were over; the next call looks after them. One more where
/// messages are checked (`WEFT_CHECK`). While the number is not 0, no message takes the fast path.
pub(crate) static DETACHED: AtomicUsize = AtomicUsize::new(0);
/// How far the world model is.
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
/// The number of the process that opened the first session.
static JOINED_AS: AtomicU32 = AtomicU32::new(0);

const BEFORE: u8 = 0;
const RUNNING: u8 = 1;
const AFTER: u8 = 2;

/// The runtime, between initialization and finalization; `None` before and after.
#[inline]
pub(crate) fn runtime() -> Option<&'static Runtime> {
    // SAFETY: it is null or the address of what stands in `RUNTIME`, which is never dropped; published with
    // release after that was written.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The runtime, where it has no freed requests to look after and no message is to be checked: the condition
/// of the fast path.
#[inline]
pub(crate) fn undistracted() -> Option<&'static Runtime> {
    runtime().filter(|_| DETACHED.load(Ordering::Relaxed) == 0)
}

/// Whether `MPI_Init` was called.
pub(crate) fn is_initialized() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// Whether `MPI_Finalize` was called.
pub(crate) fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) == AFTER
}

/// Whether `WEFT_CHECK` is set.
#[inline]
pub(crate) fn checks() -> bool {
    CHECKS.load(Ordering::Relaxed)
}

fn is_world_open() -> bool {
    PHASE.load(Ordering::Acquire) == RUNNING
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
            calls::enter(name);
            if DETACHED.load(Ordering::Relaxed) > 0 {
                crate::bodies::completion::reap(runtime);
            }
            finish(name, target, work(runtime))
        }
        None => not_running(name),
    }
}

/// Does a completion call: it reports on the communicators of its requests, so it picks the error handler
/// itself.
#[inline]
pub(crate) fn with_runtime(name: &'static str, work: impl FnOnce(&'static Runtime) -> c_int) -> c_int {
    match runtime() {
        Some(runtime) => {
            if DETACHED.load(Ordering::Relaxed) > 0 {
                crate::bodies::completion::reap(runtime);
            }
            work(runtime)
        }
        None => not_running(name),
    }
}

#[cold]
fn not_running(name: &'static str) -> c_int {
    raise(name, Target::World, &no_world())
}

/// The world model is not there.
#[cold]
pub(crate) fn no_world() -> Error {
    Error::new(
        Class::Other,
        if is_finalized() { "called after MPI_Finalize" } else { "called before MPI_Init" },
    )
}

/// The error handler that errors meet before there is anything to hang one on (MPI 5.0 §9.3).
pub(crate) fn initial_handler() -> (MPI_Errhandler, Handler) {
    match initial_errors() {
        InitialErrors::Fatal => (MPI_ERRORS_ARE_FATAL, Handler::Fatal),
        InitialErrors::Abort => (MPI_ERRORS_ABORT, Handler::Abort),
        InitialErrors::Return => (MPI_ERRORS_RETURN, Handler::Return),
    }
}

/// What errors do before the program sets an error handler, as the launcher was told
/// (`WEFT_INITIAL_ERRHANDLER`). A name that is not known counts as fatal here, and is refused at the start.
pub(crate) fn initial_errors() -> InitialErrors {
    static CHOSEN: OnceLock<InitialErrors> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("WEFT_INITIAL_ERRHANDLER").unwrap_or_default();
        InitialErrors::named(&name).unwrap_or_default()
    })
}

/// Joins the job for the world model.
pub(crate) fn start(required: c_int) -> Result<c_int> {
    let mut users = lock(&USERS);
    if is_initialized() {
        let what =
            if is_finalized() { "MPI was finalized, and cannot start again" } else { "MPI runs already" };
        return Err(Error::new(Class::Other, what));
    }
    let level = provided(required);
    let runtime = join(if level >= MPI_THREAD_SERIALIZED { Threads::Many } else { Threads::One })?;
    // The other way round, sessions first, all threads may call already.
    runtime.model.get_or_init(|| WorldModel { level, main: std::thread::current().id() });
    users.world = true;
    CURRENT.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    PHASE.store(RUNNING, Ordering::Release);
    if runtime.later.hold().world.is_none() {
        WORLD.store(std::ptr::from_ref(runtime.world).cast_mut(), Ordering::Release);
    }
    Ok(level)
}

/// Joins the job for a session, if nobody has.
pub(crate) fn open_session() -> Result<&'static Runtime> {
    let mut users = lock(&USERS);
    // Sessions may be opened by any thread at any time (MPI 5.0 §11.3.1), whatever they are asked to provide.
    let runtime = join(Threads::Many)?;
    if !users.had_sessions {
        JOINED_AS.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the function is one of C's kind and looks only at what lives for ever.
        unsafe { libc::atexit(leave_at_exit) };
    }
    users.had_sessions = true;
    users.sessions += 1;
    CURRENT.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    Ok(runtime)
}

/// A session is over. What is under way is sent before the last user is gone.
pub(crate) fn close_session(runtime: &'static Runtime) {
    runtime.process().flush();
    let mut users = lock(&USERS);
    users.sessions = users.sessions.saturating_sub(1);
    if users.sessions == 0 && !users.world {
        CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// A process that had sessions takes leave of its job when it exits, since it may open others until then. One
/// that exits while it still uses MPI takes no leave, and its launcher sees that.
extern "C" fn leave_at_exit() {
    // What a child that was forked off does at its exit is no business of the job's.
    if JOINED_AS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    if USERS.try_lock().is_ok_and(|users| users.world || users.sessions > 0) {
        return;
    }
    let Some(runtime) = RUNTIME.get() else { return };
    // The engine of a program with one thread may be touched by that thread only.
    let here = std::thread::current().id();
    if runtime.process().is_shared() || runtime.model.get().is_some_and(|model| model.main == here) {
        runtime.depart();
    }
}

/// The one runtime of this process. `USERS` is held meanwhile.
fn join(threads: Threads) -> Result<&'static Runtime> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    crate::bodies::datatypes::prepare();
    let session = Session::start_for(threads)?;
    session.process().names_calls_by(calls::current);
    CHECKS.store(session.world().process().checks(), Ordering::Relaxed);
    let (errhandler, handler) = initial_handler();
    let fixed = |comm: Communicator| -> &'static _ {
        Box::leak(Box::new(CommObject::new(comm, errhandler, handler)))
    };
    DETACHED.fetch_add(usize::from(checks()), Ordering::Relaxed);
    let runtime = Runtime {
        process: Arc::clone(session.process()),
        world: fixed(session.world()),
        alone: fixed(session.alone()),
        later: Lock::new(threads, Later::default()),
        renewing: Mutex::default(),
        sets: session.process_sets().clone(),
        session: Mutex::new(Some(session)),
        objects: Lock::new(threads, Objects::new()),
        model: OnceLock::new(),
        buffer: AttachedSlot::default(),
    };
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Every level is provided; an unknown number gets the lowest that is not below it.
pub(crate) fn provided(required: c_int) -> c_int {
    [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE]
        .into_iter()
        .find(|&level| required <= level)
        .unwrap_or(MPI_THREAD_MULTIPLE)
}

impl Runtime {
    /// The world model ends: the process leaves the job, unless it has sessions or had some.
    pub(crate) fn finish(&'static self) -> Result<()> {
        let world = self.world();
        let parted = match world.check(|| "MPI_Finalize".to_owned()) {
            Err(error) if !matches!(error.class, Class::ProcFailed | Class::Revoked) => Err(error),
            // Where members have failed nobody knows what all have called, and the others part all the same.
            _ => world.part(),
        };
        WORLD.store(std::ptr::null_mut(), Ordering::Release);
        PHASE.store(AFTER, Ordering::Release);
        let mut users = lock(&USERS);
        users.world = false;
        if users.sessions == 0 {
            CURRENT.store(std::ptr::null_mut(), Ordering::Release);
        }
        let may_return = users.had_sessions;
        drop(users);
        if may_return {
            self.process().flush();
        } else {
            self.depart();
        }
        parted
    }

    /// Leaves the job without waiting for others.
    fn depart(&self) {
        if let Some(session) = lock(&self.session).take() {
            session.depart();
        }
    }

    /// Ends the whole job.
    pub(crate) fn abort(&self, status: c_int) -> ! {
        let status = failing(status);
        exit_after(status, || self.process().announce_abort(status))
    }

    /// The communicator of all processes, with what C hangs on it.
    #[inline(always)]
    fn world_object(&self) -> Held {
        // SAFETY: as in `usual_world`.
        match unsafe { WORLD.load(Ordering::Acquire).as_ref() } {
            Some(world) => Held::Fixed(world),
            None => self.later_world(),
        }
    }

    #[cold]
    #[inline(never)]
    fn later_world(&self) -> Held {
        self.later.hold().world.clone().map_or(Held::Fixed(self.world), Held::Shared)
    }

    /// The communicator of all processes.
    pub(crate) fn world(&self) -> Communicator {
        self.world_object().comm.clone()
    }

    /// This process's own communicator, with what C hangs on it.
    fn alone_object(&self) -> Held {
        self.later.hold().alone.clone().map_or(Held::Fixed(self.alone), Held::Shared)
    }

    /// From now on handles stand for what recoveries have put into the places of their communicators.
    pub(crate) fn renew_comms(&'static self) {
        // What hangs on a communicator goes over once.
        let _renewing = lock(&self.renewing);
        if let Some(world) = self.world_object().renewed() {
            let before = {
                let mut later = self.later.hold();
                WORLD.store(std::ptr::null_mut(), Ordering::Release);
                later.world.replace(Arc::new(world))
            };
            crate::bodies::communicators::linger(self, MPI_COMM_WORLD, before);
        }
        if let Some(alone) = self.alone_object().renewed() {
            let before = self.later.hold().alone.replace(Arc::new(alone));
            crate::bodies::communicators::linger(self, MPI_COMM_SELF, before);
        }
        let stale: Vec<_> = {
            let objects = self.objects();
            let all = objects.comms.entries();
            all.filter(|(_, object)| object.is_stale())
                .map(|(value, _)| MPI_Comm::from_value(value))
                .collect()
        };
        for handle in stale {
            crate::bodies::communicators::renew(self, handle);
        }
    }

    /// This process.
    #[inline(always)]
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The named sets of processes that this one is in.
    pub(crate) fn sets(&self) -> &ProcessSets {
        &self.sets
    }

    /// This process's rank in the world.
    pub(crate) fn rank(&self) -> u32 {
        let Rank(rank) = self.world().rank();
        rank
    }

    /// How many processes the job has.
    pub(crate) fn size(&self) -> u32 {
        self.world().size()
    }

    /// Whether several threads may call.
    pub(crate) fn is_shared(&self) -> bool {
        self.process().is_shared()
    }

    /// The thread level of the world model, and the thread that began it.
    pub(crate) fn world_model(&self) -> Result<(c_int, ThreadId)> {
        let model = self.model.get().filter(|_| is_world_open());
        model.map(|model| (model.level, model.main)).ok_or_else(no_world)
    }

    /// The thread level that sessions have.
    pub(crate) fn session_level(&self) -> c_int {
        match self.model.get() {
            Some(model) if !self.is_shared() => model.level,
            _ => MPI_THREAD_MULTIPLE,
        }
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

    /// The communicator of a handle, if it is one.
    #[inline(always)]
    pub(crate) fn find_comm(&'static self, comm: MPI_Comm) -> Option<Held> {
        if comm == MPI_COMM_WORLD && is_world_open() {
            return Some(self.world_object());
        }
        self.find_other_comm(comm)
    }

    #[inline(never)]
    fn find_other_comm(&'static self, comm: MPI_Comm) -> Option<Held> {
        if comm == MPI_COMM_SELF && is_world_open() {
            return Some(self.alone_object());
        }
        self.objects().comms.find(comm.value()).cloned().map(Held::Shared)
    }

    /// The communicator of a context in which a receive is under way, and its handle, which may be freed.
    #[cold]
    pub(crate) fn comm_of(&'static self, context: u32) -> (MPI_Comm, Held) {
        let objects = self.objects();
        let living = objects.comms.entries().map(|(value, object)| (MPI_Comm::from_value(value), object));
        let lingering = objects.lingering.iter().map(|(handle, object)| (*handle, object));
        match living.chain(lingering).find(|(_, object)| object.comm.has_gone_by(context)) {
            Some((handle, object)) => (handle, Held::Shared(Arc::clone(object))),
            None => (MPI_COMM_WORLD, self.world_object()),
        }
    }

    /// A communicator whose error handler is told of an operation, whether it was freed meanwhile or not.
    #[cold]
    pub(crate) fn find_lingering(&self, comm: MPI_Comm) -> Option<Held> {
        self.objects().told(comm)
    }

    /// The communicator of a handle.
    #[inline(always)]
    pub(crate) fn comm(&'static self, comm: MPI_Comm) -> Result<Held> {
        self.find_comm(comm).ok_or_else(|| no_comm(comm))
    }

    /// The window of a handle, if it is one.
    pub(crate) fn find_win(&self, win: MPI_Win) -> Option<Arc<WinObject>> {
        self.objects().windows.find(win.value()).cloned()
    }

    /// The window of a handle.
    pub(crate) fn win(&self, win: MPI_Win) -> Result<Arc<WinObject>> {
        self.find_win(win).ok_or_else(|| no_win(win))
    }

    /// Makes a handle for a new communicator, which inherits its parent's error handler (MPI 5.0 §9.3), and
    /// its session.
    pub(crate) fn adopt_comm(&self, comm: Communicator, parent: &CommObject) -> Result<MPI_Comm> {
        let (errhandler, handler) = parent.errhandler();
        crate::bodies::error_handlers::retain(errhandler);
        self.enter_comm(CommObject::new(comm, errhandler, handler).of_session(parent.session))
    }

    /// Makes a handle for a communicator with all that hangs on it.
    pub(crate) fn enter_comm(&self, object: CommObject) -> Result<MPI_Comm> {
        let mut objects = self.objects();
        // Another thread may have recovered it, and has looked for it here before.
        let object = object.renewed().unwrap_or(object);
        objects.comms.insert(Arc::new(object)).map(MPI_Comm::from_value).ok_or_else(too_many)
    }
}

#[cold]
fn no_comm(comm: MPI_Comm) -> Error {
    let value = comm.value();
    if comm == MPI_COMM_NULL {
        return Error::new(Class::Communicator, "the communicator is MPI_COMM_NULL");
    }
    if matches!(comm, MPI_COMM_WORLD | MPI_COMM_SELF) {
        return Error::new(Class::Communicator, "MPI_COMM_WORLD and MPI_COMM_SELF belong to the world model")
            .remedy("call MPI_Init, or make a communicator of a session's group");
    }
    Error::new(Class::Communicator, format!("{value:#x} is not a communicator, or not any more"))
}

#[cold]
fn no_win(win: MPI_Win) -> Error {
    if win == MPI_WIN_NULL {
        return Error::new(Class::Window, "the window is MPI_WIN_NULL");
    }
    Error::new(Class::Window, format!("{:#x} is not a window, or not any more", win.value()))
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

/// The name of what this process takes for its node: this host's, and where it is a part of the host, the
/// part's number behind.
pub(crate) fn node_name() -> String {
    match std::env::var("WEFT_NODE") {
        Ok(part) if !part.is_empty() => format!("{}-{part}", host_name()),
        _ => host_name(),
    }
}
