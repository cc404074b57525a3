//! A send and a receive that are one operation (MPI 5.0 §3.10): they wait for each other nowhere.

use std::ffi::{c_int, c_void};

use weft::claims::Mode;
use weft::{Communicator, Error, Result};

use crate::arguments::Outgoing;
use crate::bodies::point_to_point::{Begun, Receive, Send, check_request, conclude, conclude_sent};
use crate::entry::Target;
use crate::objects::RequestObject;
use crate::state::{Runtime, call};
use crate::status;
use crate::types::*;

/// Sends and receives at the same time.
///
/// # Safety
/// `sendbuf` holds `sendcount` elements of `sendtype`, `recvbuf` has room for `recvcount` elements of `recvtype`, and the
/// two do not overlap; `status` is null or writable.
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
        unsafe {
            let (receiving, sending) = begin(runtime, &object.comm, send, receive, Sent::InPlace)?;
            conclude_both(&object.comm, receiving, sending, status)
        }
    })
}

/// Sends what a buffer holds and receives into the same buffer.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, to be read and written; `status` is null or writable.
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
        let send = Send { buffer: buf, count, datatype, to: dest, tag: sendtag };
        let receive = Receive { buffer: buf, count, datatype, from: source, tag: recvtag };
        // SAFETY: the program's promise is handed on; what is sent is copied before anything is received.
        let (receiving, sending) = unsafe { begin(runtime, &object.comm, send, receive, Sent::FromACopy)? };
        // SAFETY: the program promised that it is null or writable.
        unsafe { conclude_both(&object.comm, receiving, sending, status) }
    })
}

/// Begins to send and to receive.
///
/// # Safety
/// As for [`mpi_sendrecv`], until the request is over; `request` is null or writable.
pub unsafe fn mpi_isendrecv(
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
    request: *mut MPI_Request,
) -> c_int {
    let send = Send { buffer: sendbuf, count: sendcount, datatype: sendtype, to: dest, tag: sendtag };
    let receive =
        Receive { buffer: recvbuf, count: recvcount, datatype: recvtype, from: source, tag: recvtag };
    // SAFETY: the program's promise is handed on.
    unsafe { call_nonblocking("MPI_Isendrecv", send, receive, Sent::InPlace, comm, request) }
}

/// Begins to send what a buffer holds and to receive into the same buffer.
///
/// # Safety
/// As for [`mpi_sendrecv_replace`], until the request is over; `request` is null or writable.
pub unsafe fn mpi_isendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag: sendtag };
    let receive = Receive { buffer: buf, count, datatype, from: source, tag: recvtag };
    // SAFETY: the program's promise is handed on.
    unsafe { call_nonblocking("MPI_Isendrecv_replace", send, receive, Sent::FromACopy, comm, request) }
}

/// Where the data of the send stands while it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    InPlace,
    FromACopy,
}

/// # Safety
/// As for [`mpi_isendrecv`].
unsafe fn call_nonblocking(
    name: &'static str,
    send: Send,
    receive: Receive,
    from: Sent,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        check_request(request)?;
        // SAFETY: the caller's promise is handed on.
        let (receiving, sending) = unsafe { begin(runtime, &object.comm, send, receive, from)? };
        let receive = Box::new(receiving.into_object(&object.comm, comm));
        let send = Box::new(sending.into_object(&object.comm, comm));
        let handle = runtime.adopt_request(RequestObject::Exchange { receive, send })?;
        // SAFETY: not null, and the caller promised that it is writable.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Begins both. All arguments are checked before anything is touched.
///
/// # Safety
/// See [`Send::check`] and [`Receive::check`].
unsafe fn begin(
    runtime: &'static Runtime,
    comm: &Communicator,
    send: Send,
    receive: Receive,
    from: Sent,
) -> Result<(Begun, Begun)> {
    // SAFETY: the caller's promises are handed on.
    let (send, receive) = unsafe { (send.check(runtime, comm)?, receive.check(runtime, comm)?) };
    let outgoing = match from {
        Sent::InPlace => send.data()?,
        Sent::FromACopy => Outgoing::Copied(send.copy()?),
    };
    let receiving = receive.begin(comm)?;
    match send.begin_with(comm, Mode::Standard, outgoing) {
        Ok(sending) => Ok((receiving, sending)),
        Err(error) => {
            abandon(comm, receiving);
            Err(error)
        }
    }
}

/// Waits for both.
///
/// # Safety
/// `status` is null or writable.
unsafe fn conclude_both(
    comm: &Communicator,
    receiving: Begun,
    sending: Begun,
    status: *mut MPI_Status,
) -> Result<()> {
    let (received, error) = conclude_begun(comm, receiving);
    let sent = conclude_sent(comm, sending);
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
