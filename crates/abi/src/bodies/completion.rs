//! Waiting, testing, and what else is done with requests (MPI 5.0 §3.7.3 to §3.7.6, §3.8.4).

pub mod several;

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use weft::claims::{Lent, Outcome, Probed};
use weft::{Class, Error, Result, WaitListEntry};

use crate::bodies::communicator_creation;
use crate::bodies::generalized;
use crate::bodies::operators;
use crate::bodies::point_to_point::conclude;
use crate::bodies::request_lists::{ready, wait_ready};
use crate::calls;
use crate::claims::{Place, StatusPlace, Variable, null};
use crate::entry::Target;
use crate::errors::{code, raise};
use crate::failures;
use crate::generated::constants::*;
use crate::objects::{Held, RequestObject};
use crate::requests::{Look, Taken, collective_under_way, is_persistent, left_of, named_receive, no_request};
use crate::state::{Runtime, call, runtime, with_runtime};
use crate::status;
use crate::types::*;

/// How a request ended.
struct Ended {
    status: MPI_Status,
    failed: Option<Failed>,
}

/// What failed, and on whose communicator.
struct Failed {
    error: Error,
    comm: MPI_Comm,
    /// It lingers where another thread frees it before its error handler is called.
    _held: Option<Held>,
}

impl Ended {
    const NOTHING: Ended = Ended { status: status::EMPTY, failed: None };

    fn new(status: MPI_Status, error: Option<(Error, MPI_Comm)>) -> Ended {
        Ended { status, failed: error.map(|(error, comm)| Failed { error, comm, _held: None }) }
    }

    fn code(&self) -> c_int {
        self.failed.as_ref().map_or(MPI_SUCCESS, |failed| code(failed.error.class))
    }

    /// Whether this is no end: the request stays, and may be waited for again.
    fn goes_on(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.error.class == Class::ProcFailedPending)
    }

    /// What the program's handle becomes.
    fn left_of(&self, request: MPI_Request) -> MPI_Request {
        if self.goes_on() { request } else { left_of(request) }
    }
}

/// Waits for a request and takes it. Where several threads call, it stays in the table until it is over:
/// others may cancel it or look at it meanwhile; and where failures are told of, one that only tells of one
/// stays for good.
fn wait_and_take(runtime: &'static Runtime, request: MPI_Request) -> Result<Ended> {
    if let Some(id) = named_receive(request) {
        let (mut received, mut is_unusual) = (None, false);
        let wanted = |place| if place == 0 { WaitListEntry::Receive(id) } else { WaitListEntry::Stop };
        runtime.process().wait_lent(wanted, |_, status| received = status, |_| is_unusual = true);
        return match received {
            Some(status) => Ok(Ended { status: status::of(&status), failed: None }),
            None if is_unusual => end_unusual(runtime, request),
            None => Err(no_request(request)),
        };
    }
    if runtime.is_shared() || runtime.process().is_told_of_failures() {
        match runtime.look_at_request(request)? {
            Look::Over | Look::Inactive => {}
            Look::Under(comm, id) => comm.process().wait_here(id),
            several @ Look::Several(..) => drop(wait_ready(&[(0, several)])),
        }
    }
    take_over(runtime, request)
}

/// Takes a request that is over, and concludes it. One that goes on although it has something to tell stays.
fn take_over(runtime: &'static Runtime, request: MPI_Request) -> Result<Ended> {
    if runtime.process().is_told_of_failures()
        && let Some(told) = tell_of_failure(runtime, request)
    {
        return Ok(told);
    }
    end_unusual(runtime, request)
}

/// Takes a request that is over, and concludes it.
fn end_unusual(runtime: &'static Runtime, request: MPI_Request) -> Result<Ended> {
    let Taken { object, told } = runtime.take_request(request)?;
    let mut ended = wait_taken(object);
    if let Some(failed) = &mut ended.failed {
        failed._held = told;
    }
    Ok(ended)
}

/// What there is to tell of a request that goes on.
#[cold]
fn tell_of_failure(runtime: &'static Runtime, request: MPI_Request) -> Option<Ended> {
    let receive = match runtime.objects().operation(request) {
        Some(Some(RequestObject::Receive { comm, errors_to, id, .. })) => {
            Some((comm.clone(), *errors_to, *id))
        }
        _ => None,
    };
    let (comm, errors_to, id) = receive?;
    let outcome = comm.process().peek(id).filter(Outcome::goes_on)?;
    let error = comm.conclude_receive(&outcome).error;
    Some(Ended::new(status::EMPTY, error.map(|error| (error, errors_to))))
}

/// Waits for a request that was taken.
fn wait_taken(object: RequestObject) -> Ended {
    match &object {
        RequestObject::Send { comm, id, .. } | RequestObject::Receive { comm, id, .. } => {
            let outcome = comm.wait(*id);
            end(object, &outcome)
        }
        RequestObject::Duplicate { .. }
        | RequestObject::Collective { .. }
        | RequestObject::AgreedFailed { .. }
        | RequestObject::PartitionedSend { .. }
        | RequestObject::PartitionedReceive { .. } => {
            let outcome = match object.look() {
                Look::Under(comm, id) => comm.wait(id),
                _ => Outcome::sent(),
            };
            end(object, &outcome)
        }
        // Failures of buffered messages have nobody to be told to (MPI 5.0 §3.6).
        RequestObject::Flush(messages) => {
            messages.iter().for_each(|message| message.comm.process().wait_here(message.id));
            Ended::NOTHING
        }
        RequestObject::Exchange { .. } => {
            let RequestObject::Exchange { receive, send } = object else { return Ended::NOTHING };
            let (received, sent) = (wait_taken(*receive), wait_taken(*send));
            Ended { status: received.status, failed: received.failed.or(sent.failed) }
        }
        RequestObject::Generalized { operation, .. } => {
            operation.wait();
            let (status, ended) = operation.end();
            // It belongs to no communicator.
            Ended::new(status, ended.err().map(|error| (error, MPI_COMM_NULL)))
        }
        RequestObject::Over(_) | RequestObject::Failed { .. } => end(object, &Outcome::sent()),
    }
}

/// Ends an operation that nobody can wait for: a receive is cancelled unless its message has come, all else
/// is waited for.
#[cold]
pub(crate) fn give_up(object: RequestObject) {
    match &object {
        // The program says when it is over, and uses no memory of anybody.
        RequestObject::Generalized { .. } => return,
        RequestObject::Receive { comm, id, .. } => comm.cancel(*id),
        RequestObject::Exchange { .. } => {
            let RequestObject::Exchange { receive, send } = object else { return };
            give_up(*receive);
            return give_up(*send);
        }
        _ => {}
    }
    drop(wait_taken(object));
}

/// What a request that is over comes to.
fn end(object: RequestObject, outcome: &Outcome) -> Ended {
    match object {
        RequestObject::Flush(_) | RequestObject::Exchange { .. } | RequestObject::Generalized { .. } => {
            Ended::NOTHING
        }
        RequestObject::Duplicate { errors_to, duplicating, made } => {
            let concluded = match runtime() {
                Some(runtime) => communicator_creation::conclude(runtime, made, duplicating.take()),
                None => Ok(()),
            };
            Ended::new(status::EMPTY, concluded.err().map(|error| (error, errors_to)))
        }
        RequestObject::Collective { errors_to, ongoing, output, .. } => {
            let concluded = ongoing.take().and_then(|()| output.finish());
            Ended::new(status::EMPTY, concluded.err().map(|error| (error, errors_to)))
        }
        RequestObject::AgreedFailed { errors_to, agreeing, place, session } => {
            let concluded = match runtime() {
                Some(runtime) => failures::conclude(runtime, agreeing.take(), place, session),
                None => Ok(()),
            };
            Ended::new(status::EMPTY, concluded.err().map(|error| (error, errors_to)))
        }
        RequestObject::PartitionedSend { sender, errors_to, .. } => {
            let error = sender.conclude(outcome).err();
            Ended::new(status::EMPTY, error.map(|error| (error, errors_to)))
        }
        RequestObject::PartitionedReceive { receiver, errors_to, .. } => {
            let (status, failed) = receiver.received(outcome);
            // After any other failure not all has come that was to be brought to its place.
            let has_come =
                failed.as_ref().is_none_or(|error| matches!(error.class, Class::Truncated | Class::Type));
            let misplaced = if has_come { receiver.finish(&status).err() } else { None };
            let error = failed.or(misplaced);
            Ended::new(status, error.map(|error| (error, errors_to)))
        }
        RequestObject::Over(status) => Ended::new(status, None),
        RequestObject::Failed { errors_to, status, error } => Ended::new(status, Some((error, errors_to))),
        RequestObject::Send { comm, errors_to, to, tag, .. } => {
            let error = comm.conclude_send(outcome, to, tag).err();
            Ended::new(status::of_send(outcome), error.map(|error| (error, errors_to)))
        }
        RequestObject::Receive { comm, errors_to, mut unpack, .. } => {
            let received = comm.conclude_receive(outcome);
            match conclude(&received, &mut unpack) {
                Ok(status) => Ended::new(status, None),
                Err(error) => Ended::new(status::of(&received.status), Some((error, errors_to))),
            }
        }
    }
}

/// Whether the request is over; if so it is taken and concluded.
fn try_end(runtime: &'static Runtime, request: MPI_Request) -> Result<Option<Ended>> {
    if let Some(id) = named_receive(request) {
        return match runtime.process().test_lent(id) {
            Lent::Under => Ok(None),
            Lent::Received(Probed { source, tag, bytes }) => {
                let status = weft::Status { source, tag, bytes, cancelled: false };
                Ok(Some(Ended { status: status::of(&status), failed: None }))
            }
            Lent::Over => end_unusual(runtime, request).map(Some),
            Lent::Unknown => Err(no_request(request)),
        };
    }
    match runtime.look_at_request(request)? {
        Look::Inactive => Ok(Some(Ended::NOTHING)),
        Look::Over => end_unusual(runtime, request).map(Some),
        Look::Under(comm, id) => match comm.process().peek(id) {
            None => Ok(None),
            Some(_) => take_over(runtime, request).map(Some),
        },
        several @ Look::Several(..) => match ready(&[(0, several)]).is_empty() {
            true => Ok(None),
            false => end_unusual(runtime, request).map(Some),
        },
    }
}

/// Reports what ended alone: its own error on its own communicator.
fn report(name: &'static str, ended: Result<Ended>) -> c_int {
    match ended {
        Ok(Ended { failed: None, .. }) => MPI_SUCCESS,
        Ok(Ended { failed: Some(failed), .. }) => raise(name, Target::Comm(failed.comm), &failed.error),
        Err(error) => raise(name, Target::World, &error),
    }
}

/// Leaves in the program's variables what is left of a request that is over, and the status of its operation.
#[inline(always)]
fn leave(request: &Cell<MPI_Request>, handle: MPI_Request, status: StatusPlace<'_>, ended: &Ended) {
    request.set(ended.left_of(handle));
    match handle {
        MPI_REQUEST_NULL => status.write_empty(),
        _ => status.write(&ended.status),
    }
}

/// Waits for one request.
#[inline]
pub fn mpi_wait(request: Variable<'_, MPI_Request>, status: StatusPlace<'_>) -> c_int {
    calls::enter("MPI_Wait");
    with_runtime("MPI_Wait", |runtime| {
        let Some(request) = request.there() else {
            return report("MPI_Wait", Err(null("request")));
        };
        let handle = request.get();
        let ended = match handle {
            MPI_REQUEST_NULL => Ok(Ended::NOTHING),
            _ => wait_and_take(runtime, handle),
        };
        if let Ok(ended) = &ended {
            leave(request, handle, status, ended);
        }
        report("MPI_Wait", ended)
    })
}

/// Tests one request.
pub fn mpi_test(
    request: Variable<'_, MPI_Request>,
    flag: Place<'_, c_int>,
    status: StatusPlace<'_>,
) -> c_int {
    with_runtime("MPI_Test", |runtime| {
        let Some(flag) = flag.there() else { return report("MPI_Test", Err(null("flag"))) };
        let Some(request) = request.there() else { return report("MPI_Test", Err(null("request"))) };
        let handle = request.get();
        let ended = match handle {
            MPI_REQUEST_NULL => Ok(Some(Ended::NOTHING)),
            _ => try_end(runtime, handle),
        };
        match ended {
            Err(error) => report("MPI_Test", Err(error)),
            Ok(None) => {
                flag.set(0);
                MPI_SUCCESS
            }
            Ok(Some(ended)) => {
                flag.set(1);
                leave(request, handle, status, &ended);
                report("MPI_Test", Ok(ended))
            }
        }
    })
}

/// Gives a request up; the operation goes on to its end (MPI 5.0 §3.7.3).
pub fn mpi_request_free(request: Variable<'_, MPI_Request>) -> c_int {
    call("MPI_Request_free", Target::World, |runtime| {
        let request = request.checked("request")?;
        let handle = request.get();
        // MPI_Request_get_status may have said that it has completed.
        if runtime.is_collective(handle) && ready(&[(0, runtime.look_at_request(handle)?)]).is_empty() {
            return Err(collective_under_way(handle));
        }
        if is_persistent(handle) {
            let freed = runtime.objects().persistent.remove(handle.value());
            let freed = freed.ok_or_else(|| no_request(handle))?;
            if let Some(object) = freed.into_operation() {
                detach(runtime, object);
            }
        } else if !generalized::give_up(runtime, handle)? {
            detach(runtime, runtime.take_request(handle)?.object);
        }
        request.set(MPI_REQUEST_NULL);
        reap(runtime);
        Ok(())
    })
}

/// Keeps a request that nobody will ask for until it is over.
pub(crate) fn detach(runtime: &'static Runtime, object: RequestObject) {
    runtime.objects().detached.push(object);
    crate::state::DETACHED.fetch_add(1, Ordering::Relaxed);
}

/// Ends those of the freed requests that are over.
pub(crate) fn reap(runtime: &'static Runtime) {
    if operators::within() == Some(operators::Holding::Engine) {
        return;
    }
    let detached = std::mem::take(&mut runtime.objects().detached);
    crate::state::DETACHED.fetch_sub(detached.len(), Ordering::Relaxed);
    let mut freed = Freed { runtime, left: detached.into_iter() };
    for object in freed.left.by_ref() {
        let over = match object.look() {
            Look::Over | Look::Inactive => true,
            Look::Under(comm, id) => comm.process().peek(id).is_some_and(|outcome| !outcome.goes_on()),
            several @ Look::Several(..) => !ready(&[(0, several)]).is_empty(),
        };
        if over {
            drop(wait_taken(object));
        } else {
            detach(runtime, object);
        }
    }
}

/// Freed requests that are still to be looked at. They go back where a callback of the program throws.
struct Freed {
    runtime: &'static Runtime,
    left: std::vec::IntoIter<RequestObject>,
}

impl Drop for Freed {
    fn drop(&mut self) {
        self.left.by_ref().for_each(|object| detach(self.runtime, object));
    }
}
