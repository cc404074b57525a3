//! Looking whether requests are over, without ending them (MPI 5.0 §3.7.6).

use std::ffi::c_int;
use std::sync::Arc;

use weft::claims::RequestId;
use weft::{Communicator, Result};

use crate::bodies::generalized::Generalized;
use crate::bodies::partitioned::Receiver;
use crate::bodies::request_lists::{List, ready};
use crate::bodies::world::null;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{Objects, RequestObject};
use crate::requests::{Look, named_receive, no_request};
use crate::state::{Runtime, call};
use crate::status;
use crate::types::*;

/// Whether a request is over.
///
/// # Safety
/// `flag` and `status` are null or writable.
pub unsafe fn mpi_request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call("MPI_Request_get_status", Target::World, |runtime| {
        if flag.is_null() {
            return Err(null("flag"));
        }
        if request == MPI_REQUEST_NULL {
            // SAFETY: `flag` is not null, and the program promised that both are writable.
            unsafe {
                flag.write(1);
                status::write_empty(status);
            }
            return Ok(());
        }
        let found = glance(runtime, request)?;
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

/// Whether any one is over, and which.
///
/// # Safety
/// `array_of_requests` has `count` entries; `indx`, `flag` and `status` are null or writable.
pub unsafe fn mpi_request_get_status_any(
    count: c_int,
    array_of_requests: *const MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call("MPI_Request_get_status_any", Target::World, |runtime| {
        if indx.is_null() || flag.is_null() {
            return Err(null(if flag.is_null() { "flag" } else { "indx" }));
        }
        // SAFETY: the program's promises are handed on; `indx` and `flag` are not null.
        unsafe {
            let (list, active) = looked_at(runtime, count, array_of_requests)?;
            let place = ready(&active).first().map(|&place| active[place].0);
            flag.write(c_int::from(active.is_empty() || place.is_some()));
            indx.write(place.map_or(MPI_UNDEFINED, |place| place as c_int));
            match place {
                Some(place) => {
                    status::write(status, &glance(runtime, list.at(place))?.unwrap_or(status::EMPTY));
                }
                None if active.is_empty() => {
                    status::write_empty(status);
                }
                None => {}
            }
        }
        Ok(())
    })
}

/// Whether all are over. Requests that are null or were not started count as over, with an empty status.
///
/// # Safety
/// `array_of_requests` has `count` entries; `flag` is null or writable; `array_of_statuses` is null or has `count`
/// entries.
pub unsafe fn mpi_request_get_status_all(
    count: c_int,
    array_of_requests: *const MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call("MPI_Request_get_status_all", Target::World, |runtime| {
        if flag.is_null() {
            return Err(null("flag"));
        }
        // SAFETY: the program's promises are handed on; `flag` is not null.
        unsafe {
            let (list, active) = looked_at(runtime, count, array_of_requests)?;
            let all = ready(&active).len() == active.len();
            flag.write(c_int::from(all));
            if !all || array_of_statuses.is_null() {
                return Ok(());
            }
            for index in 0..list.count {
                let found = match list.at(index) {
                    MPI_REQUEST_NULL => None,
                    request => glance(runtime, request)?,
                };
                status::write(array_of_statuses.add(index), &found.unwrap_or(status::EMPTY));
            }
        }
        Ok(())
    })
}

/// Which are over.
///
/// # Safety
/// `array_of_requests` has `incount` entries, `array_of_indices` and `array_of_statuses` are null or have as many;
/// `outcount` is null or writable.
pub unsafe fn mpi_request_get_status_some(
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call("MPI_Request_get_status_some", Target::World, |runtime| {
        if outcount.is_null() || array_of_indices.is_null() && incount > 0 {
            return Err(null(if outcount.is_null() { "outcount" } else { "array_of_indices" }));
        }
        // SAFETY: the program's promises are handed on; `outcount` is not null.
        unsafe {
            let (list, active) = looked_at(runtime, incount, array_of_requests)?;
            if active.is_empty() {
                outcount.write(MPI_UNDEFINED);
                return Ok(());
            }
            let found = ready(&active);
            for (at, place) in found.iter().enumerate() {
                let index = active[*place].0;
                array_of_indices.add(at).write(index as c_int);
                if !array_of_statuses.is_null() {
                    let found = glance(runtime, list.at(index))?.unwrap_or(status::EMPTY);
                    status::write(array_of_statuses.add(at), &found);
                }
            }
            outcount.write(found.len() as c_int);
        }
        Ok(())
    })
}

/// # Safety
/// `requests` has `count` entries.
unsafe fn looked_at(
    runtime: &'static Runtime,
    count: c_int,
    requests: *const MPI_Request,
) -> Result<(List, Vec<(usize, Look)>)> {
    let list = List::check(count, requests.cast_mut())?;
    // SAFETY: the caller's promise is handed on; nothing here writes there.
    let active = unsafe { list.active(runtime)? };
    Ok((list, active))
}

/// Where the status of an operation that is over is to be found.
enum Found {
    Known(MPI_Status),
    Sent(Communicator, RequestId),
    Received(Communicator, RequestId),
    Partitioned(Arc<Receiver>, RequestId),
    Generalized(Arc<Generalized>),
}

/// The status of a request that is over; the request stays.
fn glance(runtime: &'static Runtime, request: MPI_Request) -> Result<Option<MPI_Status>> {
    let look = runtime.look_at_request(request)?;
    if ready(&[(0, look)]).is_empty() {
        return Ok(None);
    }
    if let Some(id) = named_receive(request) {
        let context = runtime.process().lent_in(id).ok_or_else(|| no_request(request))?;
        return Ok(received(&runtime.comm_of(context).1.comm, id));
    }
    // What was found is asked when nothing is held any more: a generalized request calls the program.
    let found = found(&runtime.objects(), request)?;
    match found {
        Found::Known(status) => Ok(Some(status)),
        Found::Sent(comm, id) => Ok(comm.process().peek(id).map(|outcome| status::of_send(&outcome))),
        Found::Received(comm, id) => Ok(received(&comm, id)),
        Found::Partitioned(receiver, id) => {
            let outcome = receiver.communicator().process().peek(id);
            Ok(outcome.map(|outcome| receiver.received(&outcome).0))
        }
        Found::Generalized(operation) => operation.status().map(Some),
    }
}

fn received(comm: &Communicator, id: RequestId) -> Option<MPI_Status> {
    let outcome = comm.process().peek(id)?;
    Some(status::of(&comm.conclude_receive(&outcome).status))
}

fn found(objects: &Objects, request: MPI_Request) -> Result<Found> {
    match objects.operation(request) {
        Some(Some(RequestObject::Exchange { receive, .. })) => Ok(found_in(receive)),
        Some(Some(object)) => Ok(found_in(object)),
        Some(None) => Ok(Found::Known(status::EMPTY)),
        None => Err(no_request(request)),
    }
}

fn found_in(object: &RequestObject) -> Found {
    match object {
        RequestObject::Over(status) | RequestObject::Failed { status, .. } => Found::Known(*status),
        RequestObject::Send { comm, id, .. } => Found::Sent(comm.clone(), *id),
        RequestObject::Receive { comm, id, .. } => Found::Received(comm.clone(), *id),
        RequestObject::PartitionedReceive { receiver, id, .. } => {
            Found::Partitioned(Arc::clone(receiver), *id)
        }
        RequestObject::Generalized { operation, .. } => Found::Generalized(Arc::clone(operation)),
        RequestObject::Exchange { .. }
        | RequestObject::PartitionedSend { .. }
        | RequestObject::Duplicate { .. }
        | RequestObject::Collective { .. }
        | RequestObject::AgreedFailed { .. }
        | RequestObject::Flush(_) => Found::Known(status::EMPTY),
    }
}
