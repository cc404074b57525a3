//! The usual case of a send and receive: a predefined datatype without gaps, a member as partner, and nothing wrong. In
//! the world it takes the fewest steps.
//!
//! It is told apart in a handful of instructions, and then the way of the message is one function without a detour.
//! Whatever is different in any respect, errors first of all, goes the general way in `point_to_point`; nothing
//! has happened then.

use std::ffi::c_int;

use weft::claims::{Outcome, Payload, RequestId, Room, Sending};
use weft::{Communicator, Rank, Result};

use crate::bodies::datatypes::row_bytes;
use crate::calls;
use crate::claims::{Buffer, Place, Received, Sent, Slot, StatusPlace};
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::{Held, RequestObject};
use crate::requests::{SENT, receive_handle};
use crate::state::{self, Short, with_usual_comm};
use crate::status;
use crate::types::*;

/// The bytes of a message, in the usual case.
#[inline(always)]
fn usual(buffer: impl Buffer, count: MPI_Count, datatype: MPI_Datatype) -> Option<usize> {
    let bytes = row_bytes(datatype, count)?;
    buffer.is_plain().then_some(bytes)
}

struct SendAtOnce {
    payload: Payload<'static>,
    to: Rank,
    tag: c_int,
}

impl Short for SendAtOnce {
    type Answer = Sending;

    #[inline(always)]
    fn on(self, comm: &Communicator) -> Option<Sending> {
        comm.send_at_once(self.payload, self.to, self.tag)
    }
}

struct ReceiveAtOnce {
    room: Room,
    from: Rank,
    tag: Option<c_int>,
}

impl Short for ReceiveAtOnce {
    type Answer = weft::Status;

    #[inline(always)]
    fn on(self, comm: &Communicator) -> Option<weft::Status> {
        comm.receive_at_once(self.room, self.from, self.tag)
    }
}

struct ReceiveLater {
    room: Room,
    from: Rank,
    tag: c_int,
}

impl Short for ReceiveLater {
    type Answer = RequestId;

    #[inline(always)]
    fn on(self, comm: &Communicator) -> Option<RequestId> {
        comm.receive_later(self.room, self.from, self.tag)
    }
}

/// The rank of a number; one that is no rank, and `MPI_PROC_NULL` and `MPI_ANY_SOURCE` with it, is no member of any
/// communicator.
#[inline(always)]
fn rank(number: c_int) -> Rank {
    Rank(number as u32)
}

/// Sends as `MPI_Send` does; `None` when nothing has happened.
#[inline(always)]
pub(crate) fn send(
    buffer: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    to: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = usual(buffer, count, datatype)?;
    if tag < 0 {
        return None;
    }
    let to = rank(to);
    let payload = buffer.payload(0, bytes);
    match with_usual_comm(comm, SendAtOnce { payload, to, tag })? {
        Sending::Done => Some(MPI_SUCCESS),
        Sending::Pending(request) => Some(finish_send(request, to, tag, comm)),
    }
}

/// The communicator of an operation that was begun in it.
fn known(comm: MPI_Comm) -> Held {
    state::runtime().and_then(|runtime| runtime.find_comm(comm)).expect("an operation was begun")
}

#[cold]
fn finish_send(request: RequestId, to: Rank, tag: c_int, comm: MPI_Comm) -> c_int {
    calls::enter("MPI_Send");
    let object = &known(comm).comm;
    finish("MPI_Send", Target::Comm(comm), object.conclude_send(&object.wait(request), to, tag))
}

/// Begins to send as `MPI_Isend` does; `None` when nothing has happened.
#[inline(always)]
pub(crate) fn isend(
    buffer: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    to: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> Option<c_int> {
    let bytes = usual(buffer, count, datatype)?;
    let request = request.there().filter(|_| tag >= 0)?;
    let to = rank(to);
    let payload = buffer.payload(0, bytes);
    let begun = match with_usual_comm(comm, SendAtOnce { payload, to, tag })? {
        Sending::Done => {
            request.set(SENT);
            return Some(MPI_SUCCESS);
        }
        Sending::Pending(id) => enter_send(comm, id, to, tag),
    };
    Some(hand_out("MPI_Isend", begun, request, comm))
}

/// Begins to receive as `MPI_Irecv` does; `None` when nothing has happened.
#[inline(always)]
pub(crate) fn irecv(
    buffer: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    from: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> Option<c_int> {
    let bytes = usual(buffer, count, datatype)?;
    let request = request.there().filter(|_| tag >= 0)?;
    let room = buffer.room(bytes);
    let id = with_usual_comm(comm, ReceiveLater { room, from: rank(from), tag })?;
    if let Some(handle) = receive_handle(id) {
        request.set(handle);
        return Some(MPI_SUCCESS);
    }
    let begun = enter_receive(comm, id);
    Some(hand_out("MPI_Irecv", begun, request, comm))
}

/// A send that goes on.
#[cold]
fn enter_send(comm: MPI_Comm, id: RequestId, to: Rank, tag: c_int) -> Result<MPI_Request> {
    enter(RequestObject::Send { comm: known(comm).comm.clone(), errors_to: comm, id, to, tag, keeps: None })
}

/// More receives than there are handles of their kind.
#[cold]
fn enter_receive(comm: MPI_Comm, id: RequestId) -> Result<MPI_Request> {
    enter(RequestObject::Receive { comm: known(comm).comm.clone(), errors_to: comm, id, unpack: None })
}

/// A handle for an operation that goes on.
#[cold]
fn enter(object: RequestObject) -> Result<MPI_Request> {
    state::runtime().expect("an operation was begun").adopt_request(object)
}

#[cold]
fn hand_out(
    name: &'static str,
    begun: Result<MPI_Request>,
    request: Slot<'_, MPI_Request>,
    comm: MPI_Comm,
) -> c_int {
    match begun {
        Ok(handle) => {
            request.set(handle);
            MPI_SUCCESS
        }
        Err(error) => finish(name, Target::Comm(comm), Err(error)),
    }
}

/// Receives as `MPI_Recv` does; `None` when nothing has happened.
#[inline(always)]
pub(crate) fn receive(
    buffer: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    from: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: StatusPlace<'_>,
) -> Option<c_int> {
    let bytes = usual(buffer, count, datatype)?;
    let from = if from == MPI_ANY_SOURCE { None } else { Some(rank(from)) };
    let tag = match tag {
        MPI_ANY_TAG => None,
        0.. => Some(tag),
        _ => return None,
    };
    let room = buffer.room(bytes);
    if let Some(from) = from
        && let Some(received) = with_usual_comm(comm, ReceiveAtOnce { room, from, tag })
    {
        status.write_received(&received);
        return Some(MPI_SUCCESS);
    }
    wait_and_receive(room, from, tag, status, comm)
}

/// A receive that must wait, or is in any way unusual.
#[inline(never)]
fn wait_and_receive(
    room: Room,
    from: Option<Rank>,
    tag: Option<c_int>,
    status: StatusPlace<'_>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let held = state::undistracted()?.find_comm(comm)?;
    calls::enter("MPI_Recv");
    let object = &held.comm;
    let outcome = object.receive_outcome(room.memory(), from, tag)?;
    if outcome.failure.is_some() || outcome.cancelled {
        return Some(finish_receive(object, &outcome, status, comm));
    }
    let received =
        weft::Status { source: outcome.source, tag: outcome.tag, bytes: outcome.bytes, cancelled: false };
    status.write_received(&received);
    Some(MPI_SUCCESS)
}

#[cold]
fn finish_receive(
    object: &Communicator,
    outcome: &Outcome,
    status: StatusPlace<'_>,
    comm: MPI_Comm,
) -> c_int {
    let received = object.conclude_receive(outcome);
    status.write(&status::of(&received.status));
    finish("MPI_Recv", Target::Comm(comm), received.error.map_or(Ok(()), Err))
}
