//! A send and a receive that are one operation (MPI 5.0 §3.10): they wait for each other nowhere.

use std::ffi::c_int;

use weft::claims::Mode;
use weft::{Communicator, Error, Result};

use crate::arguments::Outgoing;
use crate::bodies::point_to_point::{Begun, Receive, Send, conclude, conclude_sent};
use crate::claims::{Place, Received, Sent, StatusPlace};
use crate::entry::Target;
use crate::objects::RequestObject;
use crate::state::{Runtime, call};
use crate::status;
use crate::types::*;

/// Sends and receives at the same time.
pub fn mpi_sendrecv(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: Received,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: StatusPlace<'_>,
) -> c_int {
    call("MPI_Sendrecv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let send = Send { buffer: sendbuf, count: sendcount, datatype: sendtype, to: dest, tag: sendtag };
        let receive =
            Receive { buffer: recvbuf, count: recvcount, datatype: recvtype, from: source, tag: recvtag };
        let (receiving, sending) = begin(runtime, &object.comm, send, receive, SendSource::InPlace)?;
        conclude_both(&object.comm, receiving, sending, status)
    })
}

/// Sends what a buffer holds and receives into the same buffer.
pub fn mpi_sendrecv_replace(
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: StatusPlace<'_>,
) -> c_int {
    call("MPI_Sendrecv_replace", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let send = Send { buffer: buf.read(), count, datatype, to: dest, tag: sendtag };
        let receive = Receive { buffer: buf, count, datatype, from: source, tag: recvtag };
        let (receiving, sending) = begin(runtime, &object.comm, send, receive, SendSource::FromACopy)?;
        conclude_both(&object.comm, receiving, sending, status)
    })
}

/// Begins to send and to receive.
pub fn mpi_isendrecv(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: Received,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: sendbuf, count: sendcount, datatype: sendtype, to: dest, tag: sendtag };
    let receive =
        Receive { buffer: recvbuf, count: recvcount, datatype: recvtype, from: source, tag: recvtag };
    call_nonblocking("MPI_Isendrecv", send, receive, SendSource::InPlace, comm, request)
}

/// Begins to send what a buffer holds and to receive into the same buffer.
pub fn mpi_isendrecv_replace(
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf.read(), count, datatype, to: dest, tag: sendtag };
    let receive = Receive { buffer: buf, count, datatype, from: source, tag: recvtag };
    call_nonblocking("MPI_Isendrecv_replace", send, receive, SendSource::FromACopy, comm, request)
}

/// Where the data of the send stands while it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SendSource {
    InPlace,
    FromACopy,
}

fn call_nonblocking(
    name: &'static str,
    send: Send,
    receive: Receive,
    from: SendSource,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let request = request.checked("request")?;
        let (receiving, sending) = begin(runtime, &object.comm, send, receive, from)?;
        let receive = Box::new(receiving.into_object(&object.comm, comm));
        let send = Box::new(sending.into_object(&object.comm, comm));
        let handle = runtime.adopt_request(RequestObject::Exchange { receive, send })?;
        request.set(handle);
        Ok(())
    })
}

/// Begins both. All arguments are checked before anything is touched.
fn begin(
    runtime: &'static Runtime,
    comm: &Communicator,
    send: Send,
    receive: Receive,
    from: SendSource,
) -> Result<(Begun, Begun)> {
    let (send, receive) = (send.check(runtime, comm)?, receive.check(runtime, comm)?);
    let outgoing = match from {
        SendSource::InPlace => send.data()?,
        SendSource::FromACopy => Outgoing::Copied(send.copy()?),
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
fn conclude_both(
    comm: &Communicator,
    receiving: Begun,
    sending: Begun,
    status: StatusPlace<'_>,
) -> Result<()> {
    let (received, error) = conclude_begun(comm, receiving);
    let sent = conclude_sent(comm, sending);
    status.write(&received);
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
