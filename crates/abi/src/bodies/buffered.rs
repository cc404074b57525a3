//! Buffered sends (MPI 5.0 §3.4, §3.6): they return whether or not a receive is posted.
//!
//! The program attaches a buffer, and its size is the budget that the standard prescribes. The copies themselves are
//! kept in memory of the library, each until its message is gone, so that no ring of free and used parts is needed.

use std::ffi::{c_int, c_void};

use weft::claims::{Heap, Mode, RequestId, Sending};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::{self, Partner};
use crate::bodies::completion;
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::pointers::{Place, check_count_out};
use crate::convert::CountOut;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{Held, RequestObject};
use crate::state::{Runtime, call, too_many};
use crate::status;
use crate::types::*;

/// The buffer that the program attached, and the messages that count against it.
pub(crate) struct Attached {
    start: usize,
    bytes: i64,
    /// For messages that are just being sent.
    reserved_bytes: i64,
    under_way: Vec<Buffered>,
}

/// A message whose copy is still needed.
struct Buffered {
    comm: Communicator,
    id: RequestId,
    /// Keeps the copy.
    _copy: Heap,
    cost_bytes: i64,
}

impl Attached {
    /// The room that is left.
    fn room(&self) -> i64 {
        let under_way: i64 = self.under_way.iter().map(|message| message.cost_bytes).sum();
        self.bytes - self.reserved_bytes - under_way
    }
}

/// Forgets the buffered messages that are gone. Their failures have nobody to be told to (MPI 5.0 §3.6).
fn reap(runtime: &'static Runtime) {
    let ids: Vec<Option<RequestId>> = match &runtime.objects().attached {
        Some(attached) => attached.under_way.iter().map(|message| Some(message.id)).collect(),
        None => return,
    };
    if ids.is_empty() {
        return;
    }
    // The table is not held meanwhile: progress takes its time, and other threads may send.
    let Ok(world) = runtime.comm(MPI_COMM_WORLD) else { return };
    let process = world.comm.process();
    let over: Vec<RequestId> = process.ready(&ids).into_iter().filter_map(|place| ids[place]).collect();
    // Whoever takes a message out of the list ends its request, and nobody else: another thread may be waiting in
    // MPI_Buffer_flush for those that it has taken.
    let gone: Vec<Buffered> = match &mut runtime.objects().attached {
        Some(attached) => attached.under_way.extract_if(.., |message| over.contains(&message.id)).collect(),
        None => return,
    };
    for message in gone {
        let _ = process.end(message.id);
    }
}

/// Lends a buffer of `size` bytes. `MPI_BUFFER_AUTOMATIC` as buffer sets no limit (MPI 4.1).
///
/// # Safety
/// Nothing is read or written there; the pointer may be anything.
pub unsafe fn mpi_buffer_attach(buffer: *mut c_void, size: MPI_Count) -> c_int {
    call("MPI_Buffer_attach", Target::World, |runtime| {
        let automatic = buffer.addr() == MPI_BUFFER_AUTOMATIC.addr();
        if buffer.is_null() && size > 0 {
            return Err(Error::new(Class::Buffer, "the buffer is a null pointer"));
        }
        if size < 0 {
            return Err(Error::new(Class::Argument, format!("the size is {size}")));
        }
        let attached = &mut runtime.objects().attached;
        if attached.is_some() {
            return Err(Error::new(Class::Buffer, "a buffer is attached already").remedy("detach it first"));
        }
        let bytes = if automatic { i64::MAX } else { size };
        *attached = Some(Attached { start: buffer.addr(), bytes, reserved_bytes: 0, under_way: Vec::new() });
        Ok(())
    })
}

/// Takes the buffer back, once all messages in it are gone.
///
/// # Safety
/// `buffer_addr` is null or points to a pointer, writable; `size` is null or writable.
pub unsafe fn mpi_buffer_detach(buffer_addr: *mut c_void, size: CountOut) -> c_int {
    call("MPI_Buffer_detach", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        let address = unsafe { Place::new(buffer_addr.cast::<*mut c_void>(), "buffer_addr")? };
        check_count_out(size, "size")?;
        flush(runtime)?;
        let taken = runtime.objects().attached.take();
        let Some(Attached { start, bytes, .. }) = taken else {
            return Err(Error::new(Class::Buffer, "no buffer is attached"));
        };
        let automatic = start == MPI_BUFFER_AUTOMATIC.addr();
        address.set(std::ptr::with_exposed_provenance_mut(start));
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { size.write_or_undefined(if automatic { 0 } else { bytes }) };
        Ok(())
    })
}

/// Waits until all buffered messages are gone.
pub fn mpi_buffer_flush() -> c_int {
    call("MPI_Buffer_flush", Target::World, flush)
}

/// Waits until all buffered messages are gone; nothing happens where no buffer is attached.
pub(crate) fn flush(runtime: &'static Runtime) -> Result<()> {
    let under_way = match &mut runtime.objects().attached {
        Some(attached) => std::mem::take(&mut attached.under_way),
        None => return Ok(()),
    };
    let mut result = Ok(());
    for message in under_way {
        let outcome = message.comm.wait(message.id);
        // Whom it was for is not kept: a failure names the communicator.
        result = result.and(message.comm.conclude_send(&outcome, message.comm.rank(), 0));
    }
    result
}

/// Copies the message and sends the copy.
///
/// # Safety
/// `buf` holds `count` elements of `datatype`, readable.
pub unsafe fn mpi_bsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Bsend", Target::Comm(comm), |runtime| {
        // SAFETY: the program's promise is handed on.
        unsafe { send(runtime, Message { buf, count, datatype, dest, tag, comm }) }
    })
}

/// The same; the request is over at once.
///
/// # Safety
/// As for [`mpi_bsend`]; `request` is null or writable.
pub unsafe fn mpi_ibsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call("MPI_Ibsend", Target::Comm(comm), |runtime| {
        // SAFETY: the program's promises are handed on.
        let place = unsafe {
            let place = Place::new(request, "request")?;
            send(runtime, Message { buf, count, datatype, dest, tag, comm })?;
            place
        };
        let over = RequestObject::Over(status::EMPTY);
        let handle = runtime.objects().requests.insert(over).ok_or_else(too_many)?;
        place.set(MPI_Request::from_value(handle));
        Ok(())
    })
}

/// The arguments of a buffered send.
struct Message {
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
}

/// # Safety
/// See [`arguments::outgoing`].
unsafe fn send(runtime: &'static Runtime, message: Message) -> Result<()> {
    let Message { buf, count, datatype, dest, tag, comm } = message;
    let object = runtime.comm(comm)?;
    let datatype = resolve_committed(runtime, datatype)?;
    let to = arguments::destination(&object.comm, dest)?;
    let tag = arguments::tag(tag)?;
    // SAFETY: the caller's promise is handed on; the data is copied before this returns.
    let outgoing = unsafe { arguments::outgoing(buf, count, &datatype)? };
    let Partner::Rank(to) = to else { return Ok(()) };
    let cost_bytes = outgoing.payload.bytes() as i64 + i64::from(MPI_BSEND_OVERHEAD);
    reap(runtime);
    let copy = outgoing.keeps.unwrap_or_else(|| {
        let copy = Heap::new(outgoing.payload.bytes());
        copy.memory().write_at(0, outgoing.payload);
        copy
    });
    buffer(runtime, &object, comm, copy, (to, tag), cost_bytes)
}

/// Sends the copy, and keeps it where it is not gone at once. The room is reserved before, so that threads that send
/// at the same time cannot have the same room; the table is not held while the engine works.
fn buffer(
    runtime: &'static Runtime,
    object: &Held,
    errors_to: MPI_Comm,
    copy: Heap,
    (to, tag): (Rank, c_int),
    cost_bytes: i64,
) -> Result<()> {
    reserve(runtime, cost_bytes)?;
    let comm = object.comm.clone();
    let sending = comm.start_send(copy.memory().reading(), to, tag, Mode::Standard);
    let unplaced = {
        let mut objects = runtime.objects();
        if let Some(attached) = &mut objects.attached {
            attached.reserved_bytes -= cost_bytes;
        }
        match (sending?, &mut objects.attached) {
            (Sending::Pending(id), Some(attached)) => {
                attached.under_way.push(Buffered { comm, id, _copy: copy, cost_bytes });
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

fn reserve(runtime: &'static Runtime, cost_bytes: i64) -> Result<()> {
    let mut objects = runtime.objects();
    let Some(attached) = &mut objects.attached else {
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
