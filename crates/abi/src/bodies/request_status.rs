//! Looking whether requests are over, without ending them (MPI 5.0 §3.7.6).

use std::ffi::c_int;
use std::sync::Arc;

use weft::claims::RequestId;
use weft::{Communicator, Result};

use crate::bodies::generalized::Generalized;
use crate::bodies::partitioned::Receiver;
use crate::bodies::request_lists::{active, check_count, ready};
use crate::claims::{List, Place, Places, StatusPlace, StatusPlaces};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{Objects, RequestObject};
use crate::requests::{Look, named_receive, no_request};
use crate::state::{Runtime, call};
use crate::status;
use crate::types::*;

/// Whether a request is over.
pub fn mpi_request_get_status(
    request: MPI_Request,
    flag: Place<'_, c_int>,
    status: StatusPlace<'_>,
) -> c_int {
    call("MPI_Request_get_status", Target::World, |runtime| {
        let flag = flag.checked("flag")?;
        if request == MPI_REQUEST_NULL {
            flag.set(1);
            status.write_empty();
            return Ok(());
        }
        let found = glance(runtime, request)?;
        flag.set(c_int::from(found.is_some()));
        if let Some(found) = found {
            status.write(&found);
        }
        Ok(())
    })
}

/// Whether any one is over, and which.
pub fn mpi_request_get_status_any(
    count: c_int,
    array_of_requests: List<'_, MPI_Request>,
    indx: Place<'_, c_int>,
    flag: Place<'_, c_int>,
    status: StatusPlace<'_>,
) -> c_int {
    call("MPI_Request_get_status_any", Target::World, |runtime| {
        let (flag, indx) = (flag.checked("flag")?, indx.checked("indx")?);
        let (list, active) = looked_at(runtime, count, array_of_requests)?;
        let place = ready(&active).first().map(|&place| active[place].0);
        flag.set(c_int::from(active.is_empty() || place.is_some()));
        indx.set(place.map_or(MPI_UNDEFINED, |place| place as c_int));
        match place {
            Some(place) => status.write(&glance(runtime, list[place])?.unwrap_or(status::EMPTY)),
            None if active.is_empty() => status.write_empty(),
            None => {}
        }
        Ok(())
    })
}

/// Whether all are over. Requests that are null or were not started count as over, with an empty status.
pub fn mpi_request_get_status_all(
    count: c_int,
    array_of_requests: List<'_, MPI_Request>,
    flag: Place<'_, c_int>,
    array_of_statuses: StatusPlaces<'_>,
) -> c_int {
    call("MPI_Request_get_status_all", Target::World, |runtime| {
        let flag = flag.checked("flag")?;
        let (list, active) = looked_at(runtime, count, array_of_requests)?;
        let all = ready(&active).len() == active.len();
        flag.set(c_int::from(all));
        if !all || array_of_statuses.are_ignored() {
            return Ok(());
        }
        for (index, request) in list.iter().enumerate() {
            let found = match *request {
                MPI_REQUEST_NULL => None,
                request => glance(runtime, request)?,
            };
            array_of_statuses.at(index).write(&found.unwrap_or(status::EMPTY));
        }
        Ok(())
    })
}

/// Which are over.
pub fn mpi_request_get_status_some(
    incount: c_int,
    array_of_requests: List<'_, MPI_Request>,
    outcount: Place<'_, c_int>,
    array_of_indices: Places<'_, c_int>,
    array_of_statuses: StatusPlaces<'_>,
) -> c_int {
    call("MPI_Request_get_status_some", Target::World, |runtime| {
        let outcount = outcount.checked("outcount")?;
        let indices = array_of_indices.checked(i64::from(incount.max(0)), "array_of_indices")?;
        let (list, active) = looked_at(runtime, incount, array_of_requests)?;
        if active.is_empty() {
            outcount.set(MPI_UNDEFINED);
            return Ok(());
        }
        let found = ready(&active);
        for (at, place) in found.iter().enumerate() {
            let index = active[*place].0;
            indices.set(at, index as c_int);
            if !array_of_statuses.are_ignored() {
                let found = glance(runtime, list[index])?.unwrap_or(status::EMPTY);
                array_of_statuses.at(at).write(&found);
            }
        }
        outcount.set(found.len() as c_int);
        Ok(())
    })
}

/// The requests of an array, and those of them that are neither null nor inactive, with their positions.
type LookedAt<'call> = (&'call [MPI_Request], Vec<(usize, Look)>);

fn looked_at<'call>(
    runtime: &'static Runtime,
    count: c_int,
    requests: List<'call, MPI_Request>,
) -> Result<LookedAt<'call>> {
    let list = requests.slice(check_count(count)? as i64, "array_of_requests")?;
    Ok((list, active(runtime, list.iter().copied())?))
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
