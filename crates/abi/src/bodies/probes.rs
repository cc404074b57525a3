//! Looking at messages before they are received, and receiving those that were looked at (MPI 5.0 §3.8).

use std::ffi::{c_int, c_void};

use weft::claims::{Message, Receiving};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::{self, Incoming, Partner};
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::point_to_point::conclude;
use crate::bodies::world::null;
use crate::entry::Target;
use crate::errors::raise;
use crate::generated::constants::*;
use crate::objects::{MessageObject, RequestObject};
use crate::state::{Runtime, call, runtime, too_many};
use crate::status;
use crate::types::*;

/// Whom and what a probe asks for; `None` stands for `MPI_PROC_NULL`.
type Asked = Option<(Option<Rank>, Option<c_int>)>;

fn asked(comm: &Communicator, source: c_int, tag: c_int) -> Result<Asked> {
    let tag = arguments::tag_or_any(tag)?;
    Ok(match arguments::source(comm, source)? {
        Partner::Nobody => None,
        Partner::Any => Some((None, tag)),
        Partner::Rank(rank) => Some((Some(rank), tag)),
    })
}

/// Waits for a message and describes it.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) -> c_int {
    call("MPI_Probe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let found = match asked(&object.comm, source, tag)? {
            None => status::NOBODY,
            Some((from, tag)) => status::of(&object.comm.probe(from, tag)?),
        };
        // SAFETY: the program promised that it is null or writable.
        unsafe { status::write(status, &found) };
        Ok(())
    })
}

/// Describes a message if one is there.
///
/// # Safety
/// `flag` and `status` are null or writable.
pub unsafe fn mpi_iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call("MPI_Iprobe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        if flag.is_null() {
            return Err(null("flag"));
        }
        let found = match asked(&object.comm, source, tag)? {
            None => Some(status::NOBODY),
            Some((from, tag)) => object.comm.probe_now(from, tag)?.as_ref().map(status::of),
        };
        // SAFETY: `flag` is not null, and the program promised that both are writable.
        unsafe {
            flag.write(c_int::from(found.is_some()));
            if let Some(found) = found {
                status::write(status, &found);
            }
        }
        Ok(())
    })
}

/// Waits for a message and takes it out of reach of other receives.
///
/// # Safety
/// `message` and `status` are null or writable.
pub unsafe fn mpi_mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    call("MPI_Mprobe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        if message.is_null() {
            return Err(null("message"));
        }
        let taken = match asked(&object.comm, source, tag)? {
            None => None,
            Some((from, tag)) => Some(object.comm.take(from, tag)?),
        };
        // SAFETY: `message` is not null, and the program promised that both are writable.
        unsafe { hand_out(runtime, &object.comm, comm, taken, message, status) }
    })
}

/// Takes a message if one is there.
///
/// # Safety
/// `flag`, `message` and `status` are null or writable.
pub unsafe fn mpi_improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    call("MPI_Improbe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        if message.is_null() || flag.is_null() {
            return Err(null(if flag.is_null() { "flag" } else { "message" }));
        }
        let (found, taken) = match asked(&object.comm, source, tag)? {
            None => (true, None),
            Some((from, tag)) => {
                let taken = object.comm.take_now(from, tag)?;
                (taken.is_some(), taken)
            }
        };
        // SAFETY: `flag` and `message` are not null, and the program promised that all are writable.
        unsafe {
            flag.write(c_int::from(found));
            if found { hand_out(runtime, &object.comm, comm, taken, message, status) } else { Ok(()) }
        }
    })
}

/// Gives a message that was taken a handle; none is the message from nobody.
///
/// # Safety
/// `place` is writable, `status` null or writable.
unsafe fn hand_out(
    runtime: &'static Runtime,
    comm: &Communicator,
    errors_to: MPI_Comm,
    taken: Option<Message>,
    place: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let (handle, found) = match taken {
        None => (MPI_MESSAGE_NO_PROC, status::NOBODY),
        Some(message) => {
            let probed = message.probed();
            let found = weft::Status {
                source: probed.source,
                tag: probed.tag,
                bytes: probed.bytes,
                cancelled: false,
            };
            let object = MessageObject { comm: comm.clone(), errors_to, message };
            let handle = runtime.objects().messages.insert(object).ok_or_else(too_many)?;
            (MPI_Message::from_value(handle), status::of(&found))
        }
    };
    // SAFETY: the caller's promises are handed on.
    unsafe {
        place.write(handle);
        status::write(status, &found);
    }
    Ok(())
}

/// What a message handle stands for.
enum Matched {
    Nobody,
    Message(MessageObject),
}

/// Takes the message of a handle out of the table; nothing is touched when it is none.
///
/// # Safety
/// `message` is null or a message handle.
unsafe fn matched(runtime: &'static Runtime, message: *mut MPI_Message) -> Result<Matched> {
    if message.is_null() {
        return Err(null("message"));
    }
    // SAFETY: not null, and the caller promised a handle.
    let handle = unsafe { message.read() };
    if handle == MPI_MESSAGE_NO_PROC {
        return Ok(Matched::Nobody);
    }
    let taken = runtime.objects().messages.remove(handle.value());
    taken.map(Matched::Message).ok_or_else(|| {
        Error::new(Class::Request, format!("{:#x} is not a message, or not any more", handle.value()))
    })
}

/// Receives a message that was taken.
///
/// # Safety
/// `buf` has room for `count` elements of `datatype`; `message` is a message handle; `status` is null or writable.
pub unsafe fn mpi_mrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the program's promises are handed on.
    let begun = unsafe { begin("MPI_Mrecv", buf, count, datatype, message) };
    let (object, errors_to) = match begun {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    let result = match object {
        RequestObject::Receive { comm, id, mut unpack, .. } => {
            let received = comm.conclude_receive(&comm.wait(id));
            // SAFETY: the program promised that it is null or writable.
            unsafe { status::write(status, &status::of(&received.status)) };
            conclude(&received, &mut unpack).map(|_| ())
        }
        RequestObject::Failed { status: found, error, .. } => {
            // SAFETY: as above.
            unsafe { status::write(status, &found) };
            Err(error)
        }
        RequestObject::Over(found) => {
            // SAFETY: as above.
            unsafe { status::write(status, &found) };
            Ok(())
        }
        _ => Ok(()),
    };
    match result {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise("MPI_Mrecv", Target::Comm(errors_to), &error),
    }
}

/// Begins to receive a message that was taken.
///
/// # Safety
/// As for [`mpi_mrecv`]; `request` is null or writable.
pub unsafe fn mpi_imrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> c_int {
    if request.is_null() {
        return raise("MPI_Imrecv", Target::World, &null("request"));
    }
    // SAFETY: the program's promises are handed on.
    let begun = unsafe { begin("MPI_Imrecv", buf, count, datatype, message) };
    let (object, errors_to) = match begun {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    call("MPI_Imrecv", Target::Comm(errors_to), |runtime| {
        let handle = runtime.adopt_request(object)?;
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { request.write(handle) };
        Ok(())
    })
}

/// Whose error handler is responsible for a message.
///
/// # Safety
/// `message` is null or a message handle.
unsafe fn target_of(runtime: &'static Runtime, message: *mut MPI_Message) -> Target {
    if message.is_null() {
        return Target::World;
    }
    // SAFETY: not null, and the caller promised a handle.
    let handle = unsafe { message.read() };
    match runtime.objects().messages.find(handle.value()) {
        Some(object) => Target::Comm(object.errors_to),
        None => Target::World,
    }
}

/// Begins the receive of a taken message; errors of the arguments have been raised already.
///
/// # Safety
/// See [`mpi_mrecv`].
unsafe fn begin(
    name: &'static str,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
) -> std::result::Result<(RequestObject, MPI_Comm), c_int> {
    let Some(runtime) = runtime() else { return Err(call(name, Target::World, |_| Ok(()))) };
    // SAFETY: the caller's promises are handed on.
    let checked = unsafe {
        resolve_committed(runtime, datatype)
            .and_then(|datatype| arguments::incoming(buf, count, &datatype))
            .and_then(|incoming| matched(runtime, message).map(|matched| (incoming, matched)))
    };
    // SAFETY: as above.
    let target = unsafe { target_of(runtime, message) };
    let (Incoming { target: into, mut unpack }, matched) =
        checked.map_err(|error| raise(name, target, &error))?;
    // SAFETY: `matched` has seen that it is not null.
    unsafe { message.write(MPI_MESSAGE_NULL) };
    let Matched::Message(MessageObject { comm, errors_to, message }) = matched else {
        return Ok((RequestObject::Over(status::NOBODY), MPI_COMM_WORLD));
    };
    Ok(match comm.start_receive_taken(message, into) {
        Receiving::Pending(id) => (RequestObject::Receive { comm, errors_to, id, unpack }, errors_to),
        Receiving::Done(outcome) => {
            let received = comm.conclude_receive(&outcome);
            let object = match conclude(&received, &mut unpack) {
                Ok(status) => RequestObject::Over(status),
                Err(error) => {
                    RequestObject::Failed { errors_to, status: status::of(&received.status), error }
                }
            };
            (object, errors_to)
        }
    })
}
