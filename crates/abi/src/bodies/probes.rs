//! Looking at messages before they are received, and receiving those that were looked at (MPI 5.0 §3.8).

use std::cell::Cell;
use std::ffi::c_int;

use weft::claims::{Message, Receiving};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::{self, Incoming, Partner};
use crate::bodies::datatypes::resolve_elements;
use crate::bodies::point_to_point::conclude;
use crate::claims::{Place, Received, Slot, StatusPlace, Variable, null};
use crate::entry::Target;
use crate::errors::raise;
use crate::generated::constants::*;
use crate::objects::{Held, MessageObject, RequestObject};
use crate::requests::Taken;
use crate::state::{Runtime, call, runtime, too_many};
use crate::status;
use crate::types::*;

/// Whom and what a probe asks for; `None` stands for `MPI_PROC_NULL`.
type ProbeArguments = Option<(Option<Rank>, Option<c_int>)>;

fn asked(comm: &Communicator, source: c_int, tag: c_int) -> Result<ProbeArguments> {
    let tag = arguments::tag_or_any(tag)?;
    Ok(match arguments::source(comm, source)? {
        Partner::Nobody => None,
        Partner::Any => Some((None, tag)),
        Partner::Rank(rank) => Some((Some(rank), tag)),
    })
}

/// Waits for a message and describes it.
pub fn mpi_probe(source: c_int, tag: c_int, comm: MPI_Comm, status: StatusPlace<'_>) -> c_int {
    call("MPI_Probe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let found = match asked(&object.comm, source, tag)? {
            None => status::NOBODY,
            Some((from, tag)) => status::of(&object.comm.probe(from, tag)?),
        };
        status.write(&found);
        Ok(())
    })
}

/// Describes a message if one is there.
pub fn mpi_iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: Place<'_, c_int>,
    status: StatusPlace<'_>,
) -> c_int {
    call("MPI_Iprobe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let flag = flag.checked("flag")?;
        let found = match asked(&object.comm, source, tag)? {
            None => Some(status::NOBODY),
            Some((from, tag)) => object.comm.probe_now(from, tag)?.as_ref().map(status::of),
        };
        flag.set(c_int::from(found.is_some()));
        if let Some(found) = found {
            status.write(&found);
        }
        Ok(())
    })
}

/// Waits for a message and takes it out of reach of other receives.
pub fn mpi_mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: Place<'_, MPI_Message>,
    status: StatusPlace<'_>,
) -> c_int {
    call("MPI_Mprobe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let message = message.checked("message")?;
        let taken = match asked(&object.comm, source, tag)? {
            None => None,
            Some((from, tag)) => Some(object.comm.take(from, tag)?),
        };
        hand_out(runtime, &object.comm, comm, taken, message, status)
    })
}

/// Takes a message if one is there.
pub fn mpi_improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: Place<'_, c_int>,
    message: Place<'_, MPI_Message>,
    status: StatusPlace<'_>,
) -> c_int {
    call("MPI_Improbe", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let (flag, message) = (flag.checked("flag")?, message.checked("message")?);
        let (found, taken) = match asked(&object.comm, source, tag)? {
            None => (true, None),
            Some((from, tag)) => {
                let taken = object.comm.take_now(from, tag)?;
                (taken.is_some(), taken)
            }
        };
        flag.set(c_int::from(found));
        if found { hand_out(runtime, &object.comm, comm, taken, message, status) } else { Ok(()) }
    })
}

/// Gives a message that was taken a handle; none is the message from nobody.
fn hand_out(
    runtime: &'static Runtime,
    comm: &Communicator,
    errors_to: MPI_Comm,
    taken: Option<Message>,
    place: Slot<'_, MPI_Message>,
    status: StatusPlace<'_>,
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
    place.set(handle);
    status.write(&found);
    Ok(())
}

/// What a message handle stands for.
enum Matched {
    Nobody,
    /// With the communicator whose error handler hears of it, where another thread may free that meanwhile.
    Message(MessageObject, Option<Held>),
}

/// Takes the message of a handle out of the table; nothing is touched when it is none.
fn matched(runtime: &'static Runtime, message: Variable<'_, MPI_Message>) -> Result<Matched> {
    let message = message.checked("message")?;
    let handle = message.get();
    if handle == MPI_MESSAGE_NO_PROC {
        return Ok(Matched::Nobody);
    }
    let mut objects = runtime.objects();
    let Some(object) = objects.messages.remove(handle.value()) else {
        let what = format!("{:#x} is not a message, or not any more", handle.value());
        return Err(Error::new(Class::Request, what));
    };
    let told = if runtime.is_shared() { objects.told(object.errors_to) } else { None };
    Ok(Matched::Message(object, told))
}

/// Receives a message that was taken.
pub fn mpi_mrecv(
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: Variable<'_, MPI_Message>,
    status: StatusPlace<'_>,
) -> c_int {
    let begun = begin("MPI_Mrecv", buf, count, datatype, message);
    let (Taken { object, told: _told }, errors_to) = match begun {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    let result = match object {
        RequestObject::Receive { comm, id, mut unpack, .. } => {
            let received = comm.conclude_receive(&comm.wait(id));
            status.write(&status::of(&received.status));
            conclude(&received, &mut unpack).map(|_| ())
        }
        RequestObject::Failed { status: found, error, .. } => {
            status.write(&found);
            Err(error)
        }
        RequestObject::Over(found) => {
            status.write(&found);
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
pub fn mpi_imrecv(
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: Variable<'_, MPI_Message>,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let Some(request) = request.there() else {
        return raise("MPI_Imrecv", Target::World, &null("request"));
    };
    let begun = begin("MPI_Imrecv", buf, count, datatype, message);
    let (Taken { object, told: _told }, errors_to) = match begun {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    call("MPI_Imrecv", Target::Comm(errors_to), |runtime| {
        let handle = runtime.adopt_request(object)?;
        request.set(handle);
        Ok(())
    })
}

/// Whose error handler is responsible for a message.
fn target_of(runtime: &'static Runtime, message: Variable<'_, MPI_Message>) -> Target {
    let Some(handle) = message.there().map(Cell::get) else { return Target::World };
    match runtime.objects().messages.find(handle.value()) {
        Some(object) => Target::Comm(object.errors_to),
        None => Target::World,
    }
}

/// Begins the receive of a taken message; errors of the arguments have been raised already.
fn begin(
    name: &'static str,
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: Variable<'_, MPI_Message>,
) -> std::result::Result<(Taken, MPI_Comm), c_int> {
    let Some(runtime) = runtime() else { return Err(call(name, Target::World, |_| Ok(()))) };
    let checked = resolve_elements(runtime, count, datatype)
        .and_then(|datatype| arguments::incoming(buf, count, &datatype))
        .and_then(|incoming| matched(runtime, message).map(|matched| (incoming, matched)));
    let target = target_of(runtime, message);
    let (Incoming { target: into, mut unpack }, matched) =
        checked.map_err(|error| raise(name, target, &error))?;
    if let Some(message) = message.there() {
        message.set(MPI_MESSAGE_NULL);
    }
    let Matched::Message(MessageObject { comm, errors_to, message }, told) = matched else {
        let object = RequestObject::Over(status::NOBODY);
        return Ok((Taken { object, told: None }, MPI_COMM_WORLD));
    };
    let object = match comm.start_receive_taken(message, into) {
        Receiving::Pending(id) => RequestObject::Receive { comm, errors_to, id, unpack },
        Receiving::Done(outcome) => {
            let received = comm.conclude_receive(&outcome);
            match conclude(&received, &mut unpack) {
                Ok(status) => RequestObject::Over(status),
                Err(error) => {
                    RequestObject::Failed { errors_to, status: status::of(&received.status), error }
                }
            }
        }
    };
    Ok((Taken { object, told }, errors_to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::{communicators, point_to_point, testing};
    use crate::claims::Sent;

    /// Sends eight bytes to this process in a communicator, and takes them as a message.
    fn message_in(comm: MPI_Comm) -> MPI_Message {
        let (number, mut message) = (7u64, MPI_MESSAGE_NULL);
        let sent = point_to_point::mpi_send(Sent::of(&[number]), 1, MPI_UINT64_T, 0, 1, comm);
        let found = mpi_mprobe(0, 1, comm, Place::of(&mut message), StatusPlace::IGNORED);
        assert_eq!((sent, found), (MPI_SUCCESS, MPI_SUCCESS));
        message
    }

    /// What another thread may do between the end of a receive of a taken message and the call of its error
    /// handler.
    #[test]
    fn a_communicator_that_is_freed_while_a_taken_message_is_received_lingers_until_its_error_is_told() {
        let runtime = testing::start();
        let mut comm = MPI_COMM_NULL;
        let made = communicators::mpi_comm_dup(MPI_COMM_SELF, Place::of(&mut comm));
        assert_eq!(made, MPI_SUCCESS);
        let (mut message, mut room) = (message_in(comm), [0u32]);
        let begun = Received::lend(&mut room, |room| {
            begin("a test", room, 1, MPI_UINT32_T, Variable::of(&mut message))
        });
        let (taken, errors_to) = begun.expect("the arguments are right");
        assert!(matches!(taken.object, RequestObject::Failed { .. }) && errors_to == comm);
        communicators::free(runtime, comm).unwrap();
        assert!(runtime.find_lingering(comm).is_some(), "its error handler is still to be called");
    }
}
