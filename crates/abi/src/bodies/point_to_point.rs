//! Sends and receives (MPI 5.0 §3.2 to §3.7).

use std::ffi::c_int;

use weft::claims::{Data, Heap, Mode, Payload, Receiving, RequestId, Room, Sending, UserMemory};
use weft::{Communicator, Error, Rank, Result};

use crate::arguments::{self, Incoming, Outgoing, Partner};
use crate::bodies::datatypes::{resolve_elements, row_bytes};
use crate::claims::{Buffer, Place, Received, Sent, Slot, StatusPlace};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{CommObject, RequestObject, Type, Unpack};
use crate::requests::{SENT, receive_handle};
use crate::state::{self, Runtime, call};
use crate::status;
use crate::types::*;

/// A buffer with its count and type, as C hands it over.
#[derive(Clone, Copy)]
pub(super) struct Send {
    pub buffer: Sent,
    pub count: MPI_Count,
    pub datatype: MPI_Datatype,
    pub to: c_int,
    pub tag: c_int,
}

/// Room with its count and type, as C hands it over.
#[derive(Clone, Copy)]
pub(super) struct Receive {
    pub buffer: Received,
    pub count: MPI_Count,
    pub datatype: MPI_Datatype,
    pub from: c_int,
    pub tag: c_int,
}

/// A send whose arguments are right. What is sent is what stands there when it begins.
#[derive(Clone)]
pub(crate) struct PlannedSend {
    span: Payload<'static>,
    count: i64,
    datatype: Type,
    to: Partner,
    tag: c_int,
}

/// A receive whose arguments are right.
pub(crate) struct PlannedReceive {
    span: UserMemory,
    count: i64,
    datatype: Type,
    from: Partner,
    tag: Option<c_int>,
}

/// How far an operation is after it was begun.
pub(super) enum Begun {
    Sent,
    Over(MPI_Status),
    Failed(MPI_Status, Error),
    Sending { id: RequestId, to: Rank, tag: c_int, keeps: Option<Heap> },
    Receiving { id: RequestId, unpack: Option<Unpack> },
}

impl Begun {
    /// An operation with nobody, which is over as `ended` says; in a revoked communicator it has failed as
    /// any other.
    fn with_nobody(comm: &Communicator, ended: Begun) -> Begun {
        match comm.check_nobody() {
            Ok(()) => ended,
            Err(error) => Begun::Failed(status::NOBODY, error),
        }
    }

    /// A send that was begun. `keeps` is a copy of what it sends, where it sends a copy.
    fn of_send(sending: Sending, to: Rank, tag: c_int, keeps: Option<Heap>) -> Begun {
        match sending {
            Sending::Done => Begun::Sent,
            Sending::Pending(id) => Begun::Sending { id, to, tag, keeps },
        }
    }

    /// The operation as a request.
    pub(super) fn into_object(self, comm: &Communicator, errors_to: MPI_Comm) -> RequestObject {
        let comm = || comm.clone();
        match self {
            Begun::Sent => RequestObject::Over(status::EMPTY),
            Begun::Over(status) => RequestObject::Over(status),
            Begun::Failed(status, error) => RequestObject::Failed { errors_to, status, error },
            Begun::Sending { id, to, tag, keeps } => {
                RequestObject::Send { comm: comm(), errors_to, id, to, tag, keeps }
            }
            Begun::Receiving { id, unpack } => RequestObject::Receive { comm: comm(), errors_to, id, unpack },
        }
    }
}

impl PlannedSend {
    /// Begins it.
    #[inline]
    pub(super) fn begin(&self, comm: &Communicator, mode: Mode) -> Result<Begun> {
        self.begin_with(comm, mode, self.data()?)
    }

    /// The data of the send: the program's elements where they are contiguous, else a packed copy or a
    /// description.
    #[inline]
    pub(super) fn data(&self) -> Result<Outgoing<'_>> {
        arguments::gathered(self.span, self.count, &self.datatype)
    }

    /// Begins it with what it sends.
    #[inline]
    pub(super) fn begin_with(
        &self,
        comm: &Communicator,
        mode: Mode,
        outgoing: Outgoing<'_>,
    ) -> Result<Begun> {
        let (Partner::Rank(to), tag) = (self.to, self.tag) else {
            return Ok(Begun::with_nobody(comm, Begun::Sent));
        };
        // It may have become so since it was planned.
        if comm.is_with_nobody(to)? {
            return Ok(Begun::Sent);
        }
        let (sending, keeps) = match outgoing {
            Outgoing::InPlace(payload) => (self.start(comm, payload, (to, tag), mode)?, None),
            Outgoing::Copied(copy) => {
                // SAFETY: it is kept, with the request, until the send is over.
                let payload = unsafe { copy.memory().reading() };
                (self.start(comm, payload, (to, tag), mode)?, Some(copy))
            }
            Outgoing::Apart(gathered) => (comm.start_send(Data::Apart(&gathered), to, tag, mode)?, None),
        };
        Ok(Begun::of_send(sending, to, tag, keeps))
    }

    /// Begins to send what it sends, which is there as `payload`.
    #[inline]
    pub(super) fn start(
        &self,
        comm: &Communicator,
        payload: Payload<'static>,
        (to, tag): (Rank, c_int),
        mode: Mode,
    ) -> Result<Sending> {
        if state::checks() {
            let signature = self.datatype.digest(self.count, payload.bytes() as i64);
            return comm.start_send(Data::Signed(payload, signature), to, tag, mode);
        }
        comm.start_send(payload, to, tag, mode)
    }

    /// A copy of the data, so that the program's buffer is free.
    pub(super) fn copy(&self) -> Result<Heap> {
        arguments::copied(self.span, self.count, &self.datatype)
    }

    /// The rank and tag that the message is sent to; `None` where the destination is `MPI_PROC_NULL`.
    pub(super) fn partner(&self) -> Option<(Rank, c_int)> {
        match self.to {
            Partner::Rank(to) => Some((to, self.tag)),
            Partner::Nobody | Partner::Any => None,
        }
    }
}

impl PlannedReceive {
    /// A copy of this receive that can be begun now, into the same buffer. A persistent request keeps the
    /// original for its next start.
    pub(super) fn again(&mut self) -> PlannedReceive {
        let span = self.span.part(0, self.span.bytes());
        PlannedReceive { span, datatype: self.datatype.clone(), ..*self }
    }

    /// Begins it.
    #[inline]
    pub(super) fn begin(self, comm: &Communicator) -> Result<Begun> {
        let Incoming { target, mut unpack } = arguments::spread(self.span, self.count, &self.datatype)?;
        let from = match self.from {
            Partner::Nobody => return Ok(Begun::with_nobody(comm, Begun::Over(status::NOBODY))),
            Partner::Any => None,
            Partner::Rank(rank) if comm.is_with_nobody(rank)? => return Ok(Begun::Over(status::NOBODY)),
            Partner::Rank(rank) => Some(rank),
        };
        match comm.start_receive(target, from, self.tag)? {
            Receiving::Pending(id) => Ok(Begun::Receiving { id, unpack }),
            Receiving::Done(outcome) => {
                let received = comm.conclude_receive(&outcome);
                Ok(match conclude(&received, &mut unpack) {
                    Ok(status) => Begun::Over(status),
                    Err(error) => Begun::Failed(status::of(&received.status), error),
                })
            }
        }
    }
}

impl Send {
    /// Checks the arguments.
    #[inline]
    pub(super) fn check(self, runtime: &'static Runtime, comm: &Communicator) -> Result<PlannedSend> {
        let datatype = resolve_elements(runtime, self.count, self.datatype)?;
        let to = arguments::destination(comm, self.to)?;
        let tag = arguments::tag(self.tag)?;
        let span = arguments::readable(self.buffer, self.count, &datatype)?;
        Ok(PlannedSend { span, count: self.count, datatype, to, tag })
    }

    #[inline]
    pub(super) fn begin(self, runtime: &'static Runtime, comm: &Communicator, mode: Mode) -> Result<Begun> {
        self.check(runtime, comm)?.begin(comm, mode)
    }

    /// Begins the send where nothing about it is unusual: a predefined datatype without gaps, a member as
    /// destination, and no checks. `None`: nothing has happened.
    #[inline(always)]
    fn begin_usual(self, comm: MPI_Comm, mode: Mode) -> Option<Result<Sending>> {
        let bytes = row_bytes(self.datatype, self.count)?;
        if self.tag < 0 || !self.buffer.is_plain() {
            return None;
        }
        state::usual_comm!(comm = comm);
        let to = arguments::member(comm, self.to)?;
        Some(comm.start_send(self.buffer.payload(0, bytes), to, self.tag, mode))
    }

    /// What the send has come to: `begun` tells of one that [`Send::begin_usual`] has begun, and where it
    /// does not, the send begins here.
    fn begun_or_begin(
        self,
        runtime: &'static Runtime,
        comm: &Communicator,
        mode: Mode,
        begun: Option<Result<Sending>>,
    ) -> Result<Begun> {
        match begun {
            None => self.begin(runtime, comm, mode),
            Some(sending) => Ok(Begun::of_send(sending?, Rank(self.to as u32), self.tag, None)),
        }
    }

    /// Waits for a blocking send that is not over, or that is unusual.
    #[inline(never)]
    fn go_on(self, name: &'static str, comm: MPI_Comm, mode: Mode, begun: Option<Result<Sending>>) -> c_int {
        call(name, Target::Comm(comm), |runtime| {
            let object = &runtime.comm(comm)?.comm;
            conclude_sent(object, self.begun_or_begin(runtime, object, mode, begun)?)
        })
    }

    /// A nonblocking send, as a call of C.
    #[inline(always)]
    fn call_nonblocking(
        self,
        name: &'static str,
        comm: MPI_Comm,
        mode: Mode,
        request: Place<'_, MPI_Request>,
    ) -> c_int {
        let begun = match request.there() {
            None => None,
            Some(place) => match self.begin_usual(comm, mode) {
                Some(Ok(Sending::Done)) => {
                    place.set(SENT);
                    return MPI_SUCCESS;
                }
                begun => begun,
            },
        };
        self.hand_out(name, comm, mode, begun, request)
    }

    /// Gives a nonblocking send that is not over, or that is unusual, a request.
    #[inline(never)]
    fn hand_out(
        self,
        name: &'static str,
        comm: MPI_Comm,
        mode: Mode,
        begun: Option<Result<Sending>>,
        request: Place<'_, MPI_Request>,
    ) -> c_int {
        call(name, Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            let request = request.checked("request")?;
            let begun = self.begun_or_begin(runtime, &object.comm, mode, begun)?;
            hand_out(runtime, &object, comm, begun, request)
        })
    }
}

impl Receive {
    /// Checks the arguments.
    #[inline]
    pub(super) fn check(self, runtime: &'static Runtime, comm: &Communicator) -> Result<PlannedReceive> {
        let datatype = resolve_elements(runtime, self.count, self.datatype)?;
        let from = arguments::source(comm, self.from)?;
        let tag = arguments::tag_or_any(self.tag)?;
        let span = arguments::writable(self.buffer, self.count, &datatype)?;
        Ok(PlannedReceive { span, count: self.count, datatype, from, tag })
    }

    #[inline]
    pub(super) fn begin(self, runtime: &'static Runtime, comm: &Communicator) -> Result<Begun> {
        self.check(runtime, comm)?.begin(comm)
    }

    /// The tag, and room for elements of a predefined datatype without gaps; `None` where anything is
    /// unusual.
    #[inline(always)]
    fn usual(self) -> Option<(Room, Option<c_int>)> {
        let bytes = row_bytes(self.datatype, self.count)?;
        let tag = match self.tag {
            MPI_ANY_TAG => None,
            0.. => Some(self.tag),
            _ => return None,
        };
        self.buffer.is_plain().then(|| (self.buffer.room(bytes), tag))
    }

    /// Receives where nothing about it is unusual and the message comes within a few looks. `None`: nothing
    /// has happened.
    #[inline(always)]
    fn receive_if_soon(self, comm: MPI_Comm) -> Option<weft::Status> {
        let (room, tag) = self.usual()?;
        state::usual_comm!(comm = comm);
        comm.receive_if_soon(room, arguments::member(comm, self.from)?, tag)
    }

    /// Begins to receive where nothing about it is unusual and no message waits for it. `None`: nothing has
    /// happened.
    #[inline(always)]
    fn begin_usual(self, comm: MPI_Comm) -> Option<RequestId> {
        let (room, tag) = self.usual()?;
        state::usual_comm!(comm = comm);
        comm.receive_later(room, arguments::member(comm, self.from)?, tag?)
    }

    #[inline(always)]
    fn block(self, runtime: &'static Runtime, comm: &Communicator, status: StatusPlace<'_>) -> Result<()> {
        let datatype = resolve_elements(runtime, self.count, self.datatype)?;
        let from = arguments::source(comm, self.from)?;
        let tag = arguments::tag_or_any(self.tag)?;
        let Incoming { target, mut unpack } = arguments::incoming(self.buffer, self.count, &datatype)?;
        let from = match from {
            Partner::Nobody => {
                comm.check_nobody()?;
                status.write(&status::NOBODY);
                return Ok(());
            }
            Partner::Any => None,
            Partner::Rank(rank) => Some(rank),
        };
        let received = comm.receive_claim(target, from, tag)?;
        status.write(&status::of(&received.status));
        if unpack.is_none() && received.error.is_none() {
            return Ok(());
        }
        conclude(&received, &mut unpack).map(|_| ())
    }

    /// Receives what does not come within a few looks, or is unusual.
    #[inline(never)]
    fn call(self, comm: MPI_Comm, status: StatusPlace<'_>) -> c_int {
        call("MPI_Recv", Target::Comm(comm), |runtime| self.block(runtime, &runtime.comm(comm)?.comm, status))
    }

    /// Gives a receive a request that is unusual, or that was begun when there were more than there are
    /// handles of their kind.
    #[inline(never)]
    fn hand_out(self, comm: MPI_Comm, begun: Option<RequestId>, request: Place<'_, MPI_Request>) -> c_int {
        call("MPI_Irecv", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            let request = request.checked("request")?;
            let begun = match begun {
                None => self.begin(runtime, &object.comm)?,
                Some(id) => Begun::Receiving { id, unpack: None },
            };
            hand_out(runtime, &object, comm, begun, request)
        })
    }
}

/// Waits for a send that was begun.
pub(super) fn conclude_sent(comm: &Communicator, begun: Begun) -> Result<()> {
    match begun {
        Begun::Sending { id, to, tag, keeps } => {
            let outcome = comm.wait(id);
            drop(keeps);
            comm.conclude_send(&outcome, to, tag)
        }
        Begun::Failed(_, error) => Err(error),
        Begun::Sent | Begun::Over(_) | Begun::Receiving { .. } => Ok(()),
    }
}

/// Unpacks what was received, and says whether all is well. What is of other elements than expected is not
/// unpacked.
pub(crate) fn conclude(received: &weft::Received, unpack: &mut Option<Unpack>) -> Result<MPI_Status> {
    if let Some(unpack) = unpack {
        if received.error.is_none() && !received.status.cancelled {
            unpack.check(received.signature, received.status.bytes)?;
        }
        unpack.finish(received.status.bytes)?;
    }
    match &received.error {
        Some(error) => Err(error.clone()),
        None => Ok(status::of(&received.status)),
    }
}

/// Gives an operation that was begun a request handle.
fn hand_out(
    runtime: &'static Runtime,
    object: &CommObject,
    errors_to: MPI_Comm,
    begun: Begun,
    request: Slot<'_, MPI_Request>,
) -> Result<()> {
    let handle = match begun {
        Begun::Sent => SENT,
        begun => runtime.adopt_request(begun.into_object(&object.comm, errors_to))?,
    };
    request.set(handle);
    Ok(())
}

/// Sends, and returns when the buffer is free.
#[inline]
pub fn mpi_send(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    match send.begin_usual(comm, Mode::Blocking) {
        Some(Ok(Sending::Done)) => MPI_SUCCESS,
        begun => send.go_on("MPI_Send", comm, Mode::Blocking, begun),
    }
}

/// Sends, and returns when the receive has begun.
#[inline]
pub fn mpi_ssend(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    match send.begin_usual(comm, Mode::Synchronous) {
        Some(Ok(Sending::Done)) => MPI_SUCCESS,
        begun => send.go_on("MPI_Ssend", comm, Mode::Synchronous, begun),
    }
}

/// Sends to a receive that is posted already; the promise is not needed here.
#[inline]
pub fn mpi_rsend(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    match send.begin_usual(comm, Mode::Blocking) {
        Some(Ok(Sending::Done)) => MPI_SUCCESS,
        begun => send.go_on("MPI_Rsend", comm, Mode::Blocking, begun),
    }
}

/// Begins a send.
#[inline]
pub fn mpi_isend(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    send.call_nonblocking("MPI_Isend", comm, Mode::Standard, request)
}

/// Begins a send that is over when the receive has begun.
#[inline]
pub fn mpi_issend(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    send.call_nonblocking("MPI_Issend", comm, Mode::Synchronous, request)
}

/// Begins a send to a receive that is posted already.
#[inline]
pub fn mpi_irsend(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    send.call_nonblocking("MPI_Irsend", comm, Mode::Standard, request)
}

/// Receives.
#[inline]
pub fn mpi_recv(
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: StatusPlace<'_>,
) -> c_int {
    let receive = Receive { buffer: buf, count, datatype, from: source, tag };
    if let Some(received) = receive.receive_if_soon(comm) {
        status.write_received(&received);
        return MPI_SUCCESS;
    }
    receive.call(comm, status)
}

/// Begins a receive.
#[inline]
pub fn mpi_irecv(
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let receive = Receive { buffer: buf, count, datatype, from: source, tag };
    let begun = request.there().and_then(|place| Some((place, receive.begin_usual(comm)?)));
    if let Some((place, id)) = begun
        && let Some(handle) = receive_handle(id)
    {
        place.set(handle);
        return MPI_SUCCESS;
    }
    receive.hand_out(comm, begun.map(|(_, id)| id), request)
}
