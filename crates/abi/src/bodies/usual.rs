//! The usual case of a blocking send and receive: the world, a predefined datatype without gaps, a member as
//! partner, and nothing wrong.
//!
//! It is told apart in a handful of instructions, and then the way of the message is one function without a detour.
//! Whatever is different in any respect, errors first of all, goes the general way in `point_to_point`; nothing
//! has happened then.

use std::ffi::{c_int, c_void};

use weft::claims::{Outcome, Payload, RequestId, Sending, UserMemory};
use weft::{Communicator, Rank, Result};

use crate::arguments::is_plain;
use crate::bodies::datatypes::row_bytes;
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::{RequestObject, SENT};
use crate::state;
use crate::status;
use crate::types::*;

/// The communicator and the bytes of a message, in the usual case.
#[inline(always)]
fn usual(
    buffer: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<(&'static Communicator, usize)> {
    let comm = state::usual_comm(comm)?;
    let bytes = row_bytes(datatype, count)?;
    is_plain(buffer).then_some((comm, bytes))
}

/// A member of the communicator.
#[inline(always)]
fn member(comm: &Communicator, rank: c_int) -> Option<Rank> {
    (rank as u32 <= i32::MAX as u32 && (rank as u32) < comm.size()).then_some(Rank(rank as u32))
}

/// Sends as `MPI_Send` does; `None` when nothing has happened.
///
/// # Safety
/// `buffer` holds `count` elements of `datatype`, readable.
#[inline(always)]
pub(crate) unsafe fn send(
    buffer: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    to: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (object, bytes) = usual(buffer, count, datatype, comm)?;
    let to = member(object, to).filter(|_| tag >= 0)?;
    // SAFETY: the program's promise; the buffer is in use no longer than this call.
    let payload = unsafe { Payload::claim(buffer.cast(), bytes) };
    match object.send_at_once(payload, to, tag)? {
        Sending::Done => Some(MPI_SUCCESS),
        Sending::Pending(request) => Some(finish_send(object, request, to, tag, comm)),
    }
}

#[cold]
fn finish_send(object: &Communicator, request: RequestId, to: Rank, tag: c_int, comm: MPI_Comm) -> c_int {
    finish("MPI_Send", Target::Comm(comm), object.conclude_send(&object.wait(request), to, tag))
}

/// Begins to send as `MPI_Isend` does; `None` when nothing has happened.
///
/// # Safety
/// `buffer` holds `count` elements of `datatype`, readable and unchanged until the request is over; `request` is null
/// or writable.
#[inline(always)]
pub(crate) unsafe fn isend(
    buffer: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    to: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let (object, bytes) = usual(buffer, count, datatype, comm)?;
    let to = member(object, to).filter(|_| tag >= 0 && !request.is_null())?;
    // SAFETY: the program's promise.
    let payload = unsafe { Payload::claim(buffer.cast(), bytes) };
    let begun = match object.send_at_once(payload, to, tag)? {
        Sending::Done => Ok(SENT),
        Sending::Pending(id) => {
            let sends =
                RequestObject::Send { comm: object.clone(), errors_to: comm, id, to, tag, keeps: None };
            enter(sends)
        }
    };
    // SAFETY: not null, and the caller promised that it is writable.
    Some(unsafe { hand_out("MPI_Isend", begun, request, comm) })
}

/// Begins to receive as `MPI_Irecv` does; `None` when nothing has happened.
///
/// # Safety
/// `buffer` has room for `count` elements of `datatype`, untouched until the request is over; `request` is null or
/// writable.
#[inline(always)]
pub(crate) unsafe fn irecv(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    from: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Option<c_int> {
    let (object, bytes) = usual(buffer, count, datatype, comm)?;
    let from = member(object, from).filter(|_| tag >= 0 && !request.is_null())?;
    // SAFETY: the program's promise.
    let memory = unsafe { UserMemory::claim(buffer.cast(), bytes) };
    let id = object.receive_later(memory, from, tag)?;
    let receives = RequestObject::Receive { comm: object.clone(), errors_to: comm, id, unpack: None };
    // SAFETY: not null, and the caller promised that it is writable.
    Some(unsafe { hand_out("MPI_Irecv", enter(receives), request, comm) })
}

/// A handle for an operation that goes on.
fn enter(object: RequestObject) -> Result<MPI_Request> {
    let runtime = state::runtime().expect("an operation was begun");
    runtime.objects().requests.insert(object).map(MPI_Request::from_value).ok_or_else(state::too_many)
}

/// # Safety
/// `request` is writable.
#[inline(always)]
unsafe fn hand_out(
    name: &'static str,
    begun: Result<MPI_Request>,
    request: *mut MPI_Request,
    comm: MPI_Comm,
) -> c_int {
    match begun {
        Ok(handle) => {
            // SAFETY: the caller's promise.
            unsafe { request.write(handle) };
            MPI_SUCCESS
        }
        Err(error) => finish(name, Target::Comm(comm), Err(error)),
    }
}

/// Receives as `MPI_Recv` does; `None` when nothing has happened.
///
/// # Safety
/// `buffer` has room for `count` elements of `datatype`; `status` is null or writable.
#[inline(always)]
pub(crate) unsafe fn receive(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    from: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<c_int> {
    let (object, bytes) = usual(buffer, count, datatype, comm)?;
    let from = if from == MPI_ANY_SOURCE { None } else { Some(member(object, from)?) };
    let tag = match tag {
        MPI_ANY_TAG => None,
        0.. => Some(tag),
        _ => return None,
    };
    // SAFETY: the program's promise; the buffer is in use no longer than this call.
    let mut memory = unsafe { UserMemory::claim(buffer.cast(), bytes) };
    if let Some(from) = from
        && let Some(received) = object.receive_at_once(&mut memory, from, tag)
    {
        // SAFETY: the caller promised that it is null or writable.
        unsafe { status::write_received(status, &received) };
        return Some(MPI_SUCCESS);
    }
    // SAFETY: the program's promise and the caller's are handed on.
    unsafe { wait_and_receive(object, memory, from, tag, status, comm) }
}

/// A receive that must wait, or is in any way unusual.
///
/// # Safety
/// `memory` is writable; `status` is null or writable.
#[inline(never)]
unsafe fn wait_and_receive(
    object: &Communicator,
    memory: UserMemory,
    from: Option<Rank>,
    tag: Option<c_int>,
    status: *mut MPI_Status,
    comm: MPI_Comm,
) -> Option<c_int> {
    let outcome = object.receive_outcome(memory, from, tag)?;
    if outcome.failure.is_some() || outcome.cancelled {
        // SAFETY: the caller's promise.
        return Some(unsafe { finish_receive(object, &outcome, status, comm) });
    }
    // SAFETY: the caller promised that it is null or writable.
    let received =
        weft::Status { source: outcome.source, tag: outcome.tag, bytes: outcome.bytes, cancelled: false };
    // SAFETY: as above.
    unsafe { status::write_received(status, &received) };
    Some(MPI_SUCCESS)
}

/// # Safety
/// `status` is null or writable.
#[cold]
unsafe fn finish_receive(
    object: &Communicator,
    outcome: &Outcome,
    status: *mut MPI_Status,
    comm: MPI_Comm,
) -> c_int {
    let received = object.conclude_receive(outcome);
    // SAFETY: the caller promised that it is null or writable.
    unsafe { status::write(status, &status::of(&received.status)) };
    finish("MPI_Recv", Target::Comm(comm), received.error.map_or(Ok(()), Err))
}
