//! What handles stand for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datatype::{Datatype, Pair, Predefined};
use weft::claims::{Heap, UserMemory};
use weft::claims::{Message, RequestId};
use weft::{AgreeingFailed, Communicator, Duplicating, Error, Group, Ongoing, Rank, Window};

use crate::bodies::attributes::Attributes;
use crate::bodies::buffered::{AttachedSlot, Buffered};
use crate::bodies::datatype_contents::Made;
use crate::bodies::generalized::{Generalized, GeneralizedState as GeneralizedStage};
use crate::bodies::info::Pairs;
use crate::bodies::operators;
use crate::bodies::partitioned::{Receiver as PartitionedReceiver, Sender as PartitionedSender};
use crate::bodies::persistent::Persistent;
use crate::bodies::window_attributes::WindowFacts;
use crate::claims::Callback;
use crate::convert::UserFunction;
use crate::generated::constants::{MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL};
use crate::handles::HandleKind;
use crate::parts::{Input, Output};
use crate::requests::SENT;
use crate::status;
use crate::table::Table;
use crate::types::*;

/// What happens on an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handler {
    /// The job ends (`MPI_ERRORS_ARE_FATAL`).
    Fatal,
    /// The processes of the object end (`MPI_ERRORS_ABORT`).
    Abort,
    /// The call returns its code (`MPI_ERRORS_RETURN`).
    Return,
    /// The program's function is called.
    User(Function),
}

/// The program's function of an error handler, by the class of object that it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Function {
    Comm(Callback<MPI_Comm_errhandler_function>),
    File(Callback<MPI_File_errhandler_function>),
    Win(Callback<MPI_Win_errhandler_function>),
    Session(Callback<MPI_Session_errhandler_function>),
}

/// A communicator with what C hangs on it.
pub(crate) struct CommObject {
    pub comm: Communicator,
    handler: Mutex<(MPI_Errhandler, Handler)>,
    /// The program has set the error handler, and it is not one that the communicator began with.
    handler_was_set: AtomicBool,
    /// Cached attributes, by keyval, in the order they were set.
    pub attributes: Mutex<Vec<(i32, usize)>>,
    /// The buffer that the program has attached to the communicator, if any (`MPI_Comm_attach_buffer`).
    pub buffer: AttachedSlot,
    /// The session that it was made in, if it was.
    pub session: Option<MPI_Session>,
    /// The hints that are known, of those that the program gave.
    pub hints: Mutex<Pairs>,
    /// The values of FT-MPI's attributes on the communicator.
    pub ftmpi: crate::ftmpi::Facts,
}

impl CommObject {
    pub(crate) fn new(comm: Communicator, errhandler: MPI_Errhandler, handler: Handler) -> CommObject {
        let handler = Mutex::new((errhandler, handler));
        CommObject {
            comm,
            handler,
            handler_was_set: AtomicBool::new(false),
            attributes: Mutex::default(),
            buffer: AttachedSlot::default(),
            session: None,
            hints: Mutex::default(),
            ftmpi: crate::ftmpi::Facts::default(),
        }
    }

    /// This object as that of a communicator which was made of `session`; `None` is the world model.
    pub(crate) fn of_session(self, session: Option<MPI_Session>) -> CommObject {
        CommObject { session, ..self }
    }

    /// The object for a communicator that this one has stood for while it was being made, or that has come
    /// into its place; what hangs on this one goes over to it.
    pub(crate) fn completed(&self, comm: Communicator) -> CommObject {
        // It may have been recovered while nobody knew it by a handle.
        let comm = comm.latest();
        comm.rename(&self.comm.name());
        if comm.ft_modes() != self.comm.ft_modes() {
            // It was told so while it was being made.
            comm.take_ft_modes(self.comm.ft_modes());
        }
        let (errhandler, handler) = self.errhandler();
        let ftmpi = self.ftmpi.clone();
        let object =
            CommObject { ftmpi, ..CommObject::new(comm, errhandler, handler).of_session(self.session) };
        object.handler_was_set.store(self.handler_was_set(), Ordering::Relaxed);
        *lock(&object.attributes) = std::mem::take(&mut *lock(&self.attributes));
        *lock(&object.hints) = std::mem::take(&mut *lock(&self.hints));
        *lock(&object.buffer) = lock(&self.buffer).take();
        object
    }

    /// Whether a recovery has put another communicator into the place of its own.
    pub(crate) fn is_stale(&self) -> bool {
        !self.comm.latest().is_same(&self.comm)
    }

    /// The object for what a recovery has put into the place of its communicator; none where none has.
    pub(crate) fn renewed(&self) -> Option<CommObject> {
        self.is_stale().then(|| self.completed(self.comm.clone()))
    }

    pub(crate) fn handler(&self) -> Handler {
        lock(&self.handler).1
    }

    /// The handle and what it does.
    pub(crate) fn errhandler(&self) -> (MPI_Errhandler, Handler) {
        *lock(&self.handler)
    }

    /// Whether the program has set the error handler.
    pub(crate) fn handler_was_set(&self) -> bool {
        self.handler_was_set.load(Ordering::Relaxed)
    }

    /// Sets both; the former handle comes back, to be released.
    pub(crate) fn replace_errhandler(&self, errhandler: MPI_Errhandler, handler: Handler) -> MPI_Errhandler {
        self.handler_was_set.store(true, Ordering::Relaxed);
        std::mem::replace(&mut *lock(&self.handler), (errhandler, handler)).0
    }
}

/// A window with what C hangs on it.
pub(crate) struct WinObject {
    pub window: Window,
    handler: Mutex<(MPI_Errhandler, Handler)>,
    /// Cached attributes.
    pub attributes: Attributes,
    /// The values of predefined attributes.
    pub facts: WindowFacts,
    /// The hints that are known, of those that the program gave.
    pub hints: Mutex<Pairs>,
}

impl WinObject {
    /// MPI 5.0 §12.6: errors of a new window are fatal, whatever its communicator's handler does.
    pub(crate) fn new(window: Window, hints: Pairs) -> WinObject {
        let handler = Mutex::new((MPI_ERRORS_ARE_FATAL, Handler::Fatal));
        let facts = WindowFacts::of(&window);
        WinObject { window, handler, attributes: Mutex::default(), facts, hints: Mutex::new(hints) }
    }

    pub(crate) fn handler(&self) -> Handler {
        lock(&self.handler).1
    }

    /// The handle of the error handler.
    pub(crate) fn errhandler(&self) -> MPI_Errhandler {
        lock(&self.handler).0
    }

    /// Sets both; the former handle comes back, to be released.
    pub(crate) fn replace_errhandler(&self, errhandler: MPI_Errhandler, handler: Handler) -> MPI_Errhandler {
        std::mem::replace(&mut *lock(&self.handler), (errhandler, handler)).0
    }
}

/// A group, and the session that it comes from.
pub(crate) struct GroupObject {
    pub group: Group,
    pub session: Option<MPI_Session>,
}

/// A communicator found by its handle: the first world is always there, others are kept alive while in use.
#[derive(Clone)]
pub(crate) enum Held {
    /// The world, or this process alone, as they were at the beginning.
    Fixed(&'static CommObject),
    /// A communicator that the program made, or one that a recovery has put into the place of the world or of
    /// this process alone.
    Shared(Arc<CommObject>),
}

impl std::ops::Deref for Held {
    type Target = CommObject;
    #[inline]
    fn deref(&self) -> &CommObject {
        match self {
            Held::Fixed(object) => object,
            Held::Shared(object) => object,
        }
    }
}

/// A datatype of the program's own.
pub(crate) struct DatatypeObject {
    pub datatype: Datatype,
    pub committed: bool,
    /// Made by `MPI_Type_create_f90_real` and its kin: used like a predefined one, and never freed.
    pub permanent: Option<Meaning>,
    /// Without the zero byte; empty when it has none.
    pub name: Vec<u8>,
    /// How it was made, for `MPI_Type_get_envelope` and `MPI_Type_get_contents`.
    pub made: Arc<Made>,
    /// Cached attributes; apart from the table of objects, since their callbacks may use it.
    pub attributes: Arc<Attributes>,
    /// Operations under way that hand the handle to a function of the program have one, too.
    pub lent: Arc<()>,
    /// The program has freed it, and it is here for those operations alone.
    pub freed: bool,
}

/// What operators of the library treat a datatype of the program's as: a number or a pair (MPI 5.0 §6.9.2,
/// §6.9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Number(Predefined),
    Pair(Pair),
}

/// A datatype found by its handle.
#[derive(Clone)]
pub(crate) enum Type {
    /// Predefined.
    Fixed(&'static Datatype),
    /// The program's own.
    Own(Datatype),
}

impl std::ops::Deref for Type {
    type Target = Datatype;
    #[inline]
    fn deref(&self) -> &Datatype {
        match self {
            Type::Fixed(datatype) => datatype,
            Type::Own(datatype) => datatype,
        }
    }
}

/// An operator of the program's own.
#[derive(Clone, Copy)]
pub(crate) struct OpObject {
    pub function: UserFunction,
    pub commutative: bool,
}

/// An operation under way.
pub(crate) enum RequestObject {
    /// A send. `keeps` holds the packed data until it is over.
    Send {
        comm: Communicator,
        errors_to: MPI_Comm,
        id: RequestId,
        to: Rank,
        tag: i32,
        #[expect(dead_code, reason = "it is there to be dropped when the send is over")]
        keeps: Option<Heap>,
    },
    /// A receive. `unpack` says where packed data goes once it is there.
    Receive { comm: Communicator, errors_to: MPI_Comm, id: RequestId, unpack: Option<Unpack> },
    /// A receive and a send that are one operation; the status is the receive's.
    Exchange { receive: Box<RequestObject>, send: Box<RequestObject> },
    /// An operation of the program's own, which says itself when it is over.
    Generalized { operation: Arc<Generalized>, stage: GeneralizedStage },
    /// A round of a partitioned send.
    PartitionedSend { sender: Arc<PartitionedSender>, errors_to: MPI_Comm, id: RequestId },
    /// A round of a partitioned receive.
    PartitionedReceive { receiver: Arc<PartitionedReceiver>, errors_to: MPI_Comm, id: RequestId },
    /// Buffered messages that are to be gone.
    Flush(Vec<Arc<Buffered>>),
    /// A communicator that is being made, and the handle that it will have.
    Duplicate { errors_to: MPI_Comm, duplicating: Duplicating, made: MPI_Comm },
    /// A collective operation, what it reads, and where what it gets belongs.
    Collective {
        errors_to: MPI_Comm,
        ongoing: Ongoing,
        #[expect(dead_code, reason = "it is there to be dropped when the operation is over")]
        input: Input,
        output: Output,
    },
    /// An agreement on which members have failed. The handle of their group is written to `place`; the group
    /// belongs to `session`.
    AgreedFailed {
        errors_to: MPI_Comm,
        agreeing: AgreeingFailed,
        place: UserMemory,
        session: Option<MPI_Session>,
    },
    /// An operation that was over when it began, with its status.
    Over(MPI_Status),
    /// An operation that had failed when it began.
    Failed { errors_to: MPI_Comm, status: MPI_Status, error: Error },
}

impl RequestObject {
    /// The communicator whose error handler is told where the operation fails; `None` for operations that
    /// tell no communicator.
    pub(crate) fn errors_to(&self) -> Option<MPI_Comm> {
        match self {
            RequestObject::Send { errors_to, .. }
            | RequestObject::Receive { errors_to, .. }
            | RequestObject::PartitionedSend { errors_to, .. }
            | RequestObject::PartitionedReceive { errors_to, .. }
            | RequestObject::Duplicate { errors_to, .. }
            | RequestObject::Collective { errors_to, .. }
            | RequestObject::AgreedFailed { errors_to, .. }
            | RequestObject::Failed { errors_to, .. } => Some(*errors_to),
            RequestObject::Exchange { receive, send } => receive.errors_to().or_else(|| send.errors_to()),
            RequestObject::Generalized { .. } | RequestObject::Flush(_) | RequestObject::Over(_) => None,
        }
    }
}

/// Data on its way into a layout with gaps, or one whose elements are to be compared with the sender's.
pub(crate) struct Unpack {
    /// The data until it is spread; where there is none, it is in its place already.
    pub packed: Option<Heap>,
    pub datatype: Datatype,
    pub count: i64,
    pub memory: UserMemory,
}

/// A message taken by a matched probe.
pub(crate) struct MessageObject {
    pub comm: Communicator,
    pub errors_to: MPI_Comm,
    pub message: Message,
}

/// Everything with a handle that exists only between init and finalize.
pub(crate) struct Objects {
    pub comms: Table<Arc<CommObject>>,
    /// Communicators that were freed while operations were under way in them, by their handles: their error
    /// handlers are told where those fail, and their contexts are not for others yet.
    pub lingering: Vec<(MPI_Comm, Arc<CommObject>)>,
    pub groups: Table<GroupObject>,
    pub datatypes: Table<DatatypeObject>,
    /// Those that were freed and are lent, by their handles.
    freed_datatypes: Vec<MPI_Datatype>,
    pub ops: Table<OpObject>,
    pub requests: Table<RequestObject>,
    /// Requests that are begun again and again.
    pub persistent: Table<Persistent>,
    pub messages: Table<MessageObject>,
    pub windows: Table<Arc<WinObject>>,
    /// Requests that were freed before they were over.
    pub detached: Vec<RequestObject>,
}

impl Objects {
    pub(crate) fn new() -> Objects {
        let mut requests = Table::new(HandleKind::Request);
        let sent = requests.insert(RequestObject::Over(status::EMPTY));
        debug_assert_eq!(sent, Some(SENT.value()));
        Objects {
            comms: Table::new(HandleKind::Comm),
            lingering: Vec::new(),
            groups: Table::new(HandleKind::Group),
            datatypes: Table::new(HandleKind::Datatype),
            freed_datatypes: Vec::new(),
            ops: Table::new(HandleKind::Op),
            requests,
            persistent: Table::new(HandleKind::Persistent),
            messages: Table::new(HandleKind::Message),
            windows: Table::new(HandleKind::Win),
            detached: Vec::new(),
        }
    }
}

impl Objects {
    /// The program's own datatype of a handle. A freed datatype is found only within the program's operators,
    /// for operations that were begun or described before it was freed (MPI 5.0 §5.1.9).
    pub(crate) fn datatype(&self, handle: MPI_Datatype) -> Option<&DatatypeObject> {
        self.datatypes.find(handle.value()).filter(|object| !object.freed || operators::within().is_some())
    }

    /// The communicator that was made with that handle, whether it was freed or not.
    pub(crate) fn told(&self, comm: MPI_Comm) -> Option<Held> {
        let lingering =
            || self.lingering.iter().find(|(handle, _)| *handle == comm).map(|(_, object)| object);
        self.comms.find(comm.value()).or_else(lingering).cloned().map(Held::Shared)
    }

    /// Whether an operation that is under way or described, or a message that was taken, has its errors told
    /// by the handler of that communicator.
    fn are_errors_told_to(&self, comm: MPI_Comm) -> bool {
        self.requests.entries().any(|(_, request)| request.errors_to() == Some(comm))
            || self.persistent.entries().any(|(_, persistent)| persistent.errors_to() == comm)
            || self.messages.entries().any(|(_, message)| message.errors_to == comm)
    }

    /// The freed communicators that no thread holds, and whose error handlers no operation in the tables here
    /// will tell. Where a recovery has replaced a communicator, operations tell the error handler of the
    /// replacement.
    pub(crate) fn idle_lingering(&self) -> Vec<(MPI_Comm, Arc<CommObject>)> {
        let is_replaced = |handle: MPI_Comm| {
            matches!(handle, MPI_COMM_WORLD | MPI_COMM_SELF) || self.comms.find(handle.value()).is_some()
        };
        let is_idle = |&&(handle, ref object): &&(MPI_Comm, Arc<_>)| {
            Arc::strong_count(object) == 1 && (is_replaced(handle) || !self.are_errors_told_to(handle))
        };
        self.lingering.iter().filter(is_idle).cloned().collect()
    }

    /// Takes a datatype away, or sees to it that it goes when no operation hands out its handle any more.
    /// False where there is none of that handle.
    pub(crate) fn free_datatype(&mut self, handle: MPI_Datatype) -> bool {
        let Objects { datatypes, freed_datatypes, .. } = self;
        // Who has one drops it without being asked, so that is looked at now and then.
        freed_datatypes.retain(|freed| {
            let is_lent = datatypes.find(freed.value()).is_some_and(DatatypeObject::is_lent);
            is_lent || datatypes.remove(freed.value()).is_none()
        });
        match datatypes.find_mut(handle.value()) {
            Some(object) if object.freed => false,
            Some(object) if object.is_lent() => {
                object.freed = true;
                freed_datatypes.push(handle);
                true
            }
            found => found.is_some() && datatypes.remove(handle.value()).is_some(),
        }
    }
}

impl DatatypeObject {
    fn is_lent(&self) -> bool {
        Arc::strong_count(&self.lent) > 1
    }
}

/// Locks, also after a panic elsewhere: nothing here is half-changed between two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
