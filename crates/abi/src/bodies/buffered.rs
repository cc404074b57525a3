//! Buffered sends (MPI 5.0 §3.4, §3.6): they return whether or not a receive is posted.
//!
//! The program attaches a buffer to a communicator, a session or the process, and its size is the budget that
//! the standard prescribes. The copies themselves are kept in memory of the library, each until its message
//! is gone, so that no ring of free and used parts is needed.
//!
//! A send uses the buffer of its communicator, if that has one, else that of the communicator's session, else
//! that of the process.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use weft::claims::{Heap, Mode, RequestId, Sending};
use weft::{Class, Communicator, Error, Process, Rank, Result};

use crate::bodies::point_to_point::{PlannedSend, Send};
use crate::bodies::{completion, sessions};
use crate::claims::{Place, Sent};
use crate::convert::CountOut;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{Held, RequestObject, lock};
use crate::requests::SENT;
use crate::state::{Runtime, call};
use crate::types::*;

/// The buffer that is attached to a communicator, a session or the process; `None` where there is none.
pub(crate) type AttachedSlot = Mutex<Option<AttachedBuffer>>;

/// The buffer that the program attached, and the messages that count against it.
pub(crate) struct AttachedBuffer {
    start: usize,
    bytes: i64,
    /// For messages that are just being sent.
    reserved_bytes: i64,
    under_way: Vec<Arc<Buffered>>,
}

/// A buffered message whose copy is still needed. The attached buffer refers to it until it is sent, and so
/// does every flush that began before. Its request ends when the last reference is dropped.
pub(crate) struct Buffered {
    pub comm: Communicator,
    pub id: RequestId,
    /// Keeps the copy.
    _copy: Heap,
    cost_bytes: i64,
}

impl AttachedBuffer {
    /// The room that is left.
    fn room(&self) -> i64 {
        let under_way: i64 = self.under_way.iter().map(|message| message.cost_bytes).sum();
        self.bytes - self.reserved_bytes - under_way
    }
}

impl Drop for Buffered {
    /// Where the object is gone that the buffer was attached to, messages may still go on, and need their
    /// copies until then.
    fn drop(&mut self) {
        let _ = self.comm.wait(self.id);
    }
}

/// Forgets the buffered messages that are gone. Their failures have nobody to be told to (MPI 5.0 §3.6).
fn reap(process: &Process, slot: &AttachedSlot) {
    let ids: Vec<Option<RequestId>> = match &*lock(slot) {
        Some(attached) => attached.under_way.iter().map(|message| Some(message.id)).collect(),
        None => return,
    };
    if ids.is_empty() {
        return;
    }
    // The slot is not held meanwhile: progress takes its time, and other threads may send.
    let over: Vec<RequestId> = process.ready(&ids).into_iter().filter_map(|place| ids[place]).collect();
    // What is taken out is dropped when the slot is not held any more, since that may end its request.
    let gone: Vec<Arc<Buffered>> = match &mut *lock(slot) {
        Some(attached) => attached.under_way.extract_if(.., |message| over.contains(&message.id)).collect(),
        None => return,
    };
    drop(gone);
}

/// Lends a buffer of `size` bytes. `MPI_BUFFER_AUTOMATIC` as buffer sets no limit (MPI 4.1).
fn attach(slot: &AttachedSlot, buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    let automatic = buffer.addr() == MPI_BUFFER_AUTOMATIC.addr();
    if buffer.is_null() && size > 0 {
        return Err(Error::new(Class::Buffer, "the buffer is a null pointer"));
    }
    if size < 0 {
        return Err(Error::new(Class::Argument, format!("the size is {size}")));
    }
    let attached = &mut *lock(slot);
    if attached.is_some() {
        return Err(Error::new(Class::Buffer, "a buffer is attached already").remedy("detach it first"));
    }
    let bytes = if automatic { i64::MAX } else { size };
    *attached =
        Some(AttachedBuffer { start: buffer.addr(), bytes, reserved_bytes: 0, under_way: Vec::new() });
    Ok(())
}

/// Takes the buffer back, once all messages in it are gone.
fn detach(slot: &AttachedSlot, buffer_addr: Place<'_, *mut c_void>, size: CountOut<'_>) -> Result<()> {
    let address = buffer_addr.checked("buffer_addr")?;
    let size = size.checked("size")?;
    flush(slot)?;
    let taken = lock(slot).take();
    let Some(attached) = taken else {
        return Err(Error::new(Class::Buffer, "no buffer is attached"));
    };
    let automatic = attached.start == MPI_BUFFER_AUTOMATIC.addr();
    address.set(std::ptr::with_exposed_provenance_mut(attached.start));
    size.write_or_undefined(if automatic { 0 } else { attached.bytes });
    Ok(())
}

/// Waits until all buffered messages are gone; nothing happens where no buffer is attached.
fn flush(slot: &AttachedSlot) -> Result<()> {
    let mut result = Ok(());
    let messages = under_way(slot);
    for message in &messages {
        let process = message.comm.process();
        process.wait_here(message.id);
        // Whom it was for is not kept: a failure names the communicator.
        let ended = process.peek(message.id);
        result = result.and(
            ended.map_or(Ok(()), |outcome| message.comm.conclude_send(&outcome, message.comm.rank(), 0)),
        );
    }
    if let Some(message) = messages.first() {
        reap(message.comm.process(), slot);
    }
    result
}

/// The messages that are buffered now, which the buffer still has: others that flush it wait for them, too,
/// and they take its room, until they are gone.
fn under_way(slot: &AttachedSlot) -> Vec<Arc<Buffered>> {
    lock(slot).as_ref().map(|attached| attached.under_way.clone()).unwrap_or_default()
}

/// A request that is over when the messages are gone that are buffered now.
fn begin_flush(
    runtime: &'static Runtime,
    slot: &AttachedSlot,
    request: Place<'_, MPI_Request>,
) -> Result<()> {
    let place = request.checked("request")?;
    reap(runtime.process(), slot);
    let under_way = under_way(slot);
    place.set(match under_way.is_empty() {
        true => SENT,
        false => runtime.adopt_request(RequestObject::Flush(under_way))?,
    });
    Ok(())
}

/// Waits for what is buffered for the process, before MPI ends.
pub(crate) fn flush_process(runtime: &'static Runtime) -> Result<()> {
    flush(&runtime.buffer)
}

/// Lends a buffer to the process.
pub fn mpi_buffer_attach(buffer: *mut c_void, size: MPI_Count) -> c_int {
    call("MPI_Buffer_attach", Target::World, |runtime| attach(&runtime.buffer, buffer, size))
}

/// Takes the buffer of the process back, once all messages in it are gone.
pub fn mpi_buffer_detach(buffer_addr: Place<'_, *mut c_void>, size: CountOut<'_>) -> c_int {
    call("MPI_Buffer_detach", Target::World, |runtime| detach(&runtime.buffer, buffer_addr, size))
}

/// Waits until all messages in the buffer of the process are gone.
pub fn mpi_buffer_flush() -> c_int {
    call("MPI_Buffer_flush", Target::World, |runtime| flush(&runtime.buffer))
}

/// Begins to wait until all messages are gone that are in the buffer of the process now: a request that
/// completes then.
pub fn mpi_buffer_iflush(request: Place<'_, MPI_Request>) -> c_int {
    call("MPI_Buffer_iflush", Target::World, |runtime| begin_flush(runtime, &runtime.buffer, request))
}

/// Lends a buffer to the sends of a communicator.
pub fn mpi_comm_attach_buffer(comm: MPI_Comm, buffer: *mut c_void, size: MPI_Count) -> c_int {
    call("MPI_Comm_attach_buffer", Target::Comm(comm), |runtime| {
        attach(&runtime.comm(comm)?.buffer, buffer, size)
    })
}

/// Takes the buffer of a communicator back, once all messages in it are gone.
pub fn mpi_comm_detach_buffer(
    comm: MPI_Comm,
    buffer_addr: Place<'_, *mut c_void>,
    size: CountOut<'_>,
) -> c_int {
    call("MPI_Comm_detach_buffer", Target::Comm(comm), |runtime| {
        detach(&runtime.comm(comm)?.buffer, buffer_addr, size)
    })
}

/// Waits until all messages in the buffer of a communicator are gone.
pub fn mpi_comm_flush_buffer(comm: MPI_Comm) -> c_int {
    call("MPI_Comm_flush_buffer", Target::Comm(comm), |runtime| flush(&runtime.comm(comm)?.buffer))
}

/// Begins to wait until all messages are gone that are in the buffer of a communicator now: a request that
/// completes then.
pub fn mpi_comm_iflush_buffer(comm: MPI_Comm, request: Place<'_, MPI_Request>) -> c_int {
    call("MPI_Comm_iflush_buffer", Target::Comm(comm), |runtime| {
        begin_flush(runtime, &runtime.comm(comm)?.buffer, request)
    })
}

/// Lends a buffer to the sends on communicators of a session.
pub fn mpi_session_attach_buffer(session: MPI_Session, buffer: *mut c_void, size: MPI_Count) -> c_int {
    sessions::of_session("MPI_Session_attach_buffer", session, |_| {
        attach(&*sessions::slot(session)?, buffer, size)
    })
}

/// Takes the buffer of a session back, once all messages in it are gone.
pub fn mpi_session_detach_buffer(
    session: MPI_Session,
    buffer_addr: Place<'_, *mut c_void>,
    size: CountOut<'_>,
) -> c_int {
    sessions::of_session("MPI_Session_detach_buffer", session, |_| {
        detach(&*sessions::slot(session)?, buffer_addr, size)
    })
}

/// Waits until all messages in the buffer of a session are gone.
pub fn mpi_session_flush_buffer(session: MPI_Session) -> c_int {
    sessions::of_session("MPI_Session_flush_buffer", session, |_| flush(&*sessions::slot(session)?))
}

/// Begins to wait until all messages are gone that are in the buffer of a session now: a request that
/// completes then.
pub fn mpi_session_iflush_buffer(session: MPI_Session, request: Place<'_, MPI_Request>) -> c_int {
    sessions::of_session("MPI_Session_iflush_buffer", session, |runtime| {
        begin_flush(runtime, &*sessions::slot(session)?, request)
    })
}

/// Copies the message and sends the copy.
pub fn mpi_bsend(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Bsend", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let message = Send { buffer: buf, count, datatype, to: dest, tag };
        let planned = message.check(runtime, &object.comm)?;
        send(runtime, planned, &object, comm)
    })
}

/// Copies the message and begins to send the copy. The request is complete at once, since the program's
/// buffer is free.
pub fn mpi_ibsend(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    call("MPI_Ibsend", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let message = Send { buffer: buf, count, datatype, to: dest, tag };
        let (place, planned) = (request.checked("request")?, message.check(runtime, &object.comm)?);
        send(runtime, planned, &object, comm)?;
        place.set(SENT);
        Ok(())
    })
}

/// Copies what a planned send sends, and sends the copy.
pub(super) fn send(
    runtime: &'static Runtime,
    planned: PlannedSend,
    object: &Held,
    errors_to: MPI_Comm,
) -> Result<()> {
    let Some(to) = planned.partner() else { return Ok(()) };
    // It may have become blank since it was planned.
    if object.comm.is_with_nobody(to.0)? {
        return Ok(());
    }
    // MPI 5.0 §3.6: the buffer of the communicator, where it has one; else that of its session; else that of
    // the process.
    if lock(&object.buffer).is_some() {
        return buffer(runtime, &object.buffer, object, errors_to, planned, to);
    }
    match of_session(object) {
        Some(slot) => buffer(runtime, &slot, object, errors_to, planned, to),
        None => buffer(runtime, &runtime.buffer, object, errors_to, planned, to),
    }
}

/// The buffer of the session of a communicator, where it has one.
fn of_session(object: &Held) -> Option<Arc<AttachedSlot>> {
    sessions::slot(object.session?).ok().filter(|slot| lock(slot).is_some())
}

/// Sends the copy, and keeps it where it is not gone at once. The room is reserved before, so that threads
/// that send at the same time cannot have the same room; the slot is not held while the engine works.
fn buffer(
    runtime: &'static Runtime,
    slot: &AttachedSlot,
    object: &Held,
    errors_to: MPI_Comm,
    planned: PlannedSend,
    (to, tag): (Rank, c_int),
) -> Result<()> {
    let copy = planned.copy()?;
    let cost_bytes = copy.bytes() as i64 + HEAD_BYTES;
    reap(runtime.process(), slot);
    reserve(slot, cost_bytes)?;
    let comm = object.comm.clone();
    // SAFETY: the copy is kept beside the request of the send below, wherever that goes.
    let sending = planned.start(&comm, unsafe { copy.memory().reading() }, (to, tag), Mode::Standard);
    let unplaced = {
        let mut attached = lock(slot);
        if let Some(attached) = &mut *attached {
            attached.reserved_bytes -= cost_bytes;
        }
        match (sending?, &mut *attached) {
            (Sending::Pending(id), Some(attached)) => {
                let message = Buffered { comm, id, _copy: copy, cost_bytes };
                attached.under_way.push(Arc::new(message));
                None
            }
            (Sending::Done, _) => None,
            // Another thread has detached the buffer meanwhile; the copy is needed all the same.
            (Sending::Pending(id), None) => {
                Some(RequestObject::Send { comm, errors_to, id, to, tag, keeps: Some(copy) })
            }
        }
    };
    if let Some(request) = unplaced {
        completion::detach(runtime, request);
    }
    Ok(())
}

/// What a message takes of the attached buffer beside its data. Programs that have counted on other libraries
/// give each message less than `MPI_BSEND_OVERHEAD`, so it is less than those take; that it is something
/// bounds how many messages there are.
const HEAD_BYTES: i64 = 64;

fn reserve(slot: &AttachedSlot, cost_bytes: i64) -> Result<()> {
    let mut attached = lock(slot);
    let Some(attached) = &mut *attached else {
        return Err(Error::new(Class::Buffer, "no buffer is attached").remedy("call MPI_Buffer_attach first"));
    };
    let room = attached.room();
    if cost_bytes > room {
        let what = format!("the message needs {cost_bytes} bytes of the attached buffer, {room} are free");
        return Err(Error::new(Class::Buffer, what)
            .remedy("attach a larger buffer (MPI_BSEND_OVERHEAD for each message)"));
    }
    attached.reserved_bytes += cost_bytes;
    Ok(())
}
