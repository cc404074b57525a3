//! Sends and receives (MPI 5.0 §3.2 to §3.7, §3.10).

use std::ffi::{c_int, c_void};

use weft::claims::{Mode, Receiving, RequestId, Sending};
use weft::{Communicator, Error, Rank, Received, Result};

use crate::arguments::{self, Incoming, Outgoing, Partner};
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::usual;
use crate::bodies::world::null;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{CommObject, RequestObject, Unpack};
use crate::requests::SENT;
use crate::state::{Runtime, call};
use crate::status;
use crate::types::*;

/// A buffer with its count and type.
#[derive(Clone, Copy)]
struct Send {
    buffer: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    to: c_int,
    tag: c_int,
}

/// Room with its count and type.
#[derive(Clone, Copy)]
struct Receive {
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    from: c_int,
    tag: c_int,
}

/// How far an operation is after it was begun.
enum Begun {
    Sent,
    Over(MPI_Status),
    Failed(MPI_Status, Error),
    Sending { id: RequestId, to: Rank, tag: c_int, outgoing: Outgoing },
    Receiving { id: RequestId, unpack: Option<Unpack> },
}

impl Send {
    /// # Safety
    /// See [`arguments::outgoing`].
    #[inline]
    unsafe fn begin(self, runtime: &'static Runtime, comm: &Communicator, mode: Mode) -> Result<Begun> {
        let datatype = resolve_committed(runtime, self.datatype)?;
        let to = arguments::destination(comm, self.to)?;
        let tag = arguments::tag(self.tag)?;
        // SAFETY: the caller's promise is handed on.
        let outgoing = unsafe { arguments::outgoing(self.buffer, self.count, &datatype)? };
        let Partner::Rank(to) = to else { return Ok(Begun::Sent) };
        Ok(match comm.start_send(outgoing.payload, to, tag, mode)? {
            Sending::Done => Begun::Sent,
            Sending::Pending(id) => Begun::Sending { id, to, tag, outgoing },
        })
    }

    /// # Safety
    /// See [`arguments::outgoing`].
    #[inline(always)]
    unsafe fn block(self, runtime: &'static Runtime, comm: &Communicator, mode: Mode) -> Result<()> {
        let datatype = resolve_committed(runtime, self.datatype)?;
        let to = arguments::destination(comm, self.to)?;
        let tag = arguments::tag(self.tag)?;
        // SAFETY: the caller's promise is handed on; the buffer is in use no longer than this call.
        let outgoing = unsafe { arguments::outgoing(self.buffer, self.count, &datatype)? };
        match to {
            Partner::Rank(to) => comm.send_claim(outgoing.payload, to, tag, mode),
            Partner::Nobody | Partner::Any => Ok(()),
        }
    }
}

impl Send {
    /// A blocking send, as a call of C.
    ///
    /// # Safety
    /// See [`arguments::outgoing`].
    #[inline(never)]
    unsafe fn call(self, name: &'static str, comm: MPI_Comm, mode: Mode) -> c_int {
        call(name, Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the caller's promise is handed on.
            unsafe { self.block(runtime, &object.comm, mode) }
        })
    }

    /// A nonblocking send, as a call of C.
    ///
    /// # Safety
    /// See [`arguments::outgoing`]; `request` is null or writable.
    #[inline]
    unsafe fn call_nonblocking(
        self,
        name: &'static str,
        comm: MPI_Comm,
        mode: Mode,
        request: *mut MPI_Request,
    ) -> c_int {
        call(name, Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            check_request(request)?;
            // SAFETY: the caller's promise is handed on; `request` is not null.
            unsafe {
                let begun = self.begin(runtime, &object.comm, mode)?;
                hand_out(runtime, &object, comm, begun, request)
            }
        })
    }
}

impl Receive {
    /// # Safety
    /// See [`arguments::incoming`].
    #[inline]
    unsafe fn begin(self, runtime: &'static Runtime, comm: &Communicator) -> Result<Begun> {
        let datatype = resolve_committed(runtime, self.datatype)?;
        let from = arguments::source(comm, self.from)?;
        let tag = arguments::tag_or_any(self.tag)?;
        // SAFETY: the caller's promise is handed on.
        let Incoming { memory, mut unpack } =
            unsafe { arguments::incoming(self.buffer, self.count, &datatype)? };
        let from = match from {
            Partner::Nobody => return Ok(Begun::Over(status::NOBODY)),
            Partner::Any => None,
            Partner::Rank(rank) => Some(rank),
        };
        match comm.start_receive(memory, from, tag)? {
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

    /// # Safety
    /// See [`arguments::incoming`]; `status` is null or writable.
    #[inline(always)]
    unsafe fn block(
        self,
        runtime: &'static Runtime,
        comm: &Communicator,
        status: *mut MPI_Status,
    ) -> Result<()> {
        let datatype = resolve_committed(runtime, self.datatype)?;
        let from = arguments::source(comm, self.from)?;
        let tag = arguments::tag_or_any(self.tag)?;
        // SAFETY: the caller's promise is handed on; the buffer is in use no longer than this call.
        let Incoming { memory, mut unpack } =
            unsafe { arguments::incoming(self.buffer, self.count, &datatype)? };
        let from = match from {
            Partner::Nobody => {
                // SAFETY: the caller promised that it is null or writable.
                unsafe { status::write(status, &status::NOBODY) };
                return Ok(());
            }
            Partner::Any => None,
            Partner::Rank(rank) => Some(rank),
        };
        let received = comm.receive_claim(memory, from, tag)?;
        // SAFETY: the caller promised that it is null or writable.
        unsafe { status::write(status, &status::of(&received.status)) };
        if unpack.is_none() && received.error.is_none() {
            return Ok(());
        }
        conclude(&received, &mut unpack).map(|_| ())
    }
}

/// Unpacks what was received, and says whether all is well.
pub(crate) fn conclude(received: &Received, unpack: &mut Option<Unpack>) -> Result<MPI_Status> {
    if let Some(unpack) = unpack {
        unpack.finish(received.status.bytes)?;
    }
    match &received.error {
        Some(error) => Err(error.clone()),
        None => Ok(status::of(&received.status)),
    }
}

/// Gives an operation that was begun a request handle.
///
/// # Safety
/// `request` is writable.
unsafe fn hand_out(
    runtime: &'static Runtime,
    object: &CommObject,
    errors_to: MPI_Comm,
    begun: Begun,
    request: *mut MPI_Request,
) -> Result<()> {
    let comm = object.comm.clone();
    let entry = match begun {
        Begun::Sent => {
            // SAFETY: the caller promised that it is writable.
            unsafe { request.write(SENT) };
            return Ok(());
        }
        Begun::Over(status) => RequestObject::Over(status),
        Begun::Failed(status, error) => RequestObject::Failed { errors_to, status, error },
        Begun::Sending { id, to, tag, outgoing } => {
            RequestObject::Send { comm, errors_to, id, to, tag, keeps: outgoing.keeps }
        }
        Begun::Receiving { id, unpack } => RequestObject::Receive { comm, errors_to, id, unpack },
    };
    let handle = runtime.adopt_request(entry)?;
    // SAFETY: the caller promised that it is writable.
    unsafe { request.write(handle) };
    Ok(())
}

fn check_request(request: *mut MPI_Request) -> Result<()> {
    if request.is_null() { Err(null("request")) } else { Ok(()) }
}

/// Sends, and returns when the buffer is free.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, readable.
#[inline]
pub unsafe fn mpi_send(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    if let Some(code) = unsafe { usual::send(buf, count, datatype, dest, tag, comm) } {
        return code;
    }
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    // SAFETY: the program's promise is handed on.
    unsafe { send.call("MPI_Send", comm, Mode::Standard) }
}

/// Sends, and returns when the receive has begun.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, readable.
#[inline]
pub unsafe fn mpi_ssend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    // SAFETY: the program's promise is handed on.
    unsafe { send.call("MPI_Ssend", comm, Mode::Synchronous) }
}

/// Sends to a receive that is posted already; the promise is not needed here.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, readable.
#[inline]
pub unsafe fn mpi_rsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    // SAFETY: the program's promise is handed on.
    unsafe { send.call("MPI_Rsend", comm, Mode::Standard) }
}

/// Begins a send.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, readable and unchanged until the request is over; `request` is null or
/// writable.
#[inline]
pub unsafe fn mpi_isend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    if let Some(code) = unsafe { usual::isend(buf, count, datatype, dest, tag, comm, request) } {
        return code;
    }
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    // SAFETY: the program's promise is handed on.
    unsafe { send.call_nonblocking("MPI_Isend", comm, Mode::Standard, request) }
}

/// Begins a send that is over when the receive has begun.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, readable and unchanged until the request is over; `request` is null or
/// writable.
#[inline]
pub unsafe fn mpi_issend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    // SAFETY: the program's promise is handed on.
    unsafe { send.call_nonblocking("MPI_Issend", comm, Mode::Synchronous, request) }
}

/// Begins a send to a receive that is posted already.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, readable and unchanged until the request is over; `request` is null or
/// writable.
#[inline]
pub unsafe fn mpi_irsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    // SAFETY: the program's promise is handed on.
    unsafe { send.call_nonblocking("MPI_Irsend", comm, Mode::Standard, request) }
}

/// Receives.
///
/// # Safety
/// `buf` has room for `count` elements of `datatype`; `status` is null or writable.
#[inline]
pub unsafe fn mpi_recv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    if let Some(code) = unsafe { usual::receive(buf, count, datatype, source, tag, comm, status) } {
        return code;
    }
    call("MPI_Recv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let receive = Receive { buffer: buf, count, datatype, from: source, tag };
        // SAFETY: the program's promise is handed on.
        unsafe { receive.block(runtime, &object.comm, status) }
    })
}

/// Begins a receive.
///
/// # Safety
/// `buf` has room for `count` elements of `datatype`, untouched until the request is over; `request` is null or
/// writable.
#[inline]
pub unsafe fn mpi_irecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    if let Some(code) = unsafe { usual::irecv(buf, count, datatype, source, tag, comm, request) } {
        return code;
    }
    call("MPI_Irecv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        check_request(request)?;
        let receive = Receive { buffer: buf, count, datatype, from: source, tag };
        // SAFETY: the program's promise is handed on; `request` is not null.
        unsafe {
            let begun = receive.begin(runtime, &object.comm)?;
            hand_out(runtime, &object, comm, begun, request)
        }
    })
}

/// Sends and receives at the same time.
///
/// # Safety
/// As for [`mpi_send`] and [`mpi_recv`]; the two buffers do not overlap.
pub unsafe fn mpi_sendrecv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    call("MPI_Sendrecv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let send = Send { buffer: sendbuf, count: sendcount, datatype: sendtype, to: dest, tag: sendtag };
        let receive =
            Receive { buffer: recvbuf, count: recvcount, datatype: recvtype, from: source, tag: recvtag };
        // SAFETY: the program's promise is handed on; both buffers are in use no longer than this call.
        unsafe { exchange(runtime, &object.comm, send, receive, status) }
    })
}

/// Sends what a buffer holds and receives into the same buffer.
///
/// # Safety
/// As for [`mpi_recv`].
pub unsafe fn mpi_sendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    call("MPI_Sendrecv_replace", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let layout = resolve_committed(runtime, datatype)?;
        // SAFETY: the program promised a buffer of so many elements; it is copied before anything is received.
        let packed = unsafe { arguments::outgoing(buf, count, &layout)? }.payload.to_vec();
        let send = Send {
            buffer: if packed.is_empty() { std::ptr::null() } else { packed.as_ptr().cast() },
            count: packed.len() as MPI_Count,
            datatype: MPI_BYTE,
            to: dest,
            tag: sendtag,
        };
        let receive = Receive { buffer: buf, count, datatype, from: source, tag: recvtag };
        // SAFETY: `packed` lives to the end of the call; the program's promise is handed on for the receive.
        unsafe { exchange(runtime, &object.comm, send, receive, status) }
    })
}

/// # Safety
/// See [`arguments::outgoing`] and [`arguments::incoming`]; `status` is null or writable.
unsafe fn exchange(
    runtime: &'static Runtime,
    comm: &Communicator,
    send: Send,
    receive: Receive,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's promises are handed on.
    let receiving = unsafe { receive.begin(runtime, comm)? };
    // SAFETY: as above.
    let sent = match unsafe { send.begin(runtime, comm, Mode::Standard) } {
        Err(error) => {
            abandon(comm, receiving);
            return Err(error);
        }
        Ok(begun) => begun,
    };
    let received = conclude_begun(comm, receiving);
    let sent = match sent {
        Begun::Sending { id, to, tag, outgoing } => {
            let outcome = comm.wait(id);
            drop(outgoing);
            comm.conclude_send(&outcome, to, tag)
        }
        Begun::Failed(_, error) => Err(error),
        Begun::Sent | Begun::Over(_) | Begun::Receiving { .. } => Ok(()),
    };
    let (received, error) = received;
    // SAFETY: the caller promised that it is null or writable.
    unsafe { status::write(status, &received) };
    error.map_or(sent, Err)
}

/// Waits for a receive that was begun.
fn conclude_begun(comm: &Communicator, begun: Begun) -> (MPI_Status, Option<Error>) {
    match begun {
        Begun::Receiving { id, mut unpack } => {
            let received = comm.conclude_receive(&comm.wait(id));
            (status::of(&received.status), conclude(&received, &mut unpack).err())
        }
        Begun::Failed(status, error) => (status, Some(error)),
        Begun::Over(status) => (status, None),
        Begun::Sent | Begun::Sending { .. } => (status::EMPTY, None),
    }
}

/// A receive whose call failed after it was posted must not write into the program's buffer later.
fn abandon(comm: &Communicator, begun: Begun) {
    if let Begun::Receiving { id, .. } = begun {
        comm.cancel(id);
        let _ = comm.wait(id);
    }
}
