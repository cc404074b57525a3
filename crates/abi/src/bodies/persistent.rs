//! Persistent requests: an operation is described once, and begun again and again (MPI 5.0 §3.9).
//!
//! A [`Plan`] is what `MPI_Start` begins; whatever it begins is a request like any other while it is under
//! way. A new kind of persistent operation is a new plan, and nothing else.

use std::ffi::c_int;
use std::sync::Arc;

use weft::claims::Mode;
use weft::{Class, Error, Result};

use crate::bodies::point_to_point::{PlannedReceive, PlannedSend, Receive, Send};
use crate::bodies::request_lists::RequestList;
use crate::bodies::ways::Described;
use crate::bodies::{buffered, partitioned};
use crate::claims::{Place, Received, Sent, Variable, Variables};
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::{Held, RequestObject};
use crate::requests::{is_persistent, no_request};
use crate::state::{Runtime, call, too_many};
use crate::status;
use crate::types::*;

/// A request that is begun again and again.
pub(crate) struct Persistent {
    comm: Held,
    errors_to: MPI_Comm,
    plan: Plan,
    stage: PersistentState,
}

/// What a persistent request begins.
pub(crate) enum Plan {
    /// A send.
    Send(PlannedSend, Mode),
    /// A send of a copy.
    Buffered(PlannedSend),
    /// A receive.
    Receive(PlannedReceive),
    /// A round of a partitioned send.
    PartitionedSend(Arc<partitioned::Sender>),
    /// A round of a partitioned receive.
    PartitionedReceive(Arc<partitioned::Receiver>),
    /// A collective operation.
    Collective(Arc<Described>),
}

/// How far a persistent request is.
enum PersistentState {
    /// The request was not begun, or the operation that it began was concluded.
    Inactive,
    /// A thread is beginning the request's operation.
    Starting,
    /// The operation that the request has begun.
    Active(RequestObject),
}

impl Plan {
    /// A copy of the plan that can be begun now. The plan itself stays for the next start.
    fn again(&mut self) -> Plan {
        match self {
            Plan::Send(send, mode) => Plan::Send(send.clone(), *mode),
            Plan::Buffered(send) => Plan::Buffered(send.clone()),
            Plan::Receive(receive) => Plan::Receive(receive.again()),
            Plan::PartitionedSend(sender) => Plan::PartitionedSend(Arc::clone(sender)),
            Plan::PartitionedReceive(receiver) => Plan::PartitionedReceive(Arc::clone(receiver)),
            Plan::Collective(described) => Plan::Collective(Arc::clone(described)),
        }
    }

    fn begin(self, runtime: &'static Runtime, comm: &Held, errors_to: MPI_Comm) -> Result<RequestObject> {
        match self {
            Plan::Send(send, mode) => Ok(send.begin(&comm.comm, mode)?.into_object(&comm.comm, errors_to)),
            Plan::Receive(receive) => Ok(receive.begin(&comm.comm)?.into_object(&comm.comm, errors_to)),
            Plan::PartitionedSend(sender) => sender.begin(errors_to),
            Plan::PartitionedReceive(receiver) => receiver.begin(errors_to),
            Plan::Collective(described) => described.begin(&comm.comm, errors_to, None),
            Plan::Buffered(send) => {
                buffered::send(runtime, send, comm, errors_to)?;
                Ok(RequestObject::Over(status::EMPTY))
            }
        }
    }
}

impl Persistent {
    /// The communicator whose error handler is told where the request fails.
    pub(crate) fn errors_to(&self) -> MPI_Comm {
        self.errors_to
    }

    /// The operation under way, if the request was begun.
    pub(crate) fn under_way(&self) -> Option<&RequestObject> {
        match &self.stage {
            PersistentState::Active(object) => Some(object),
            PersistentState::Inactive | PersistentState::Starting => None,
        }
    }

    /// Takes the operation under way, if any, and makes the request inactive. The caller concludes the
    /// operation.
    pub(crate) fn take(&mut self) -> Option<RequestObject> {
        match std::mem::replace(&mut self.stage, PersistentState::Inactive) {
            PersistentState::Active(object) => Some(object),
            PersistentState::Inactive => None,
            PersistentState::Starting => {
                self.stage = PersistentState::Starting;
                None
            }
        }
    }

    /// Gives up the request, and takes the operation under way, if any.
    pub(crate) fn into_operation(mut self) -> Option<RequestObject> {
        self.take()
    }
}

/// Gives a plan a handle.
pub(super) fn adopt(
    name: &'static str,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
    plan: impl FnOnce(&'static Runtime, &Held) -> Result<Plan>,
) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        let held = runtime.comm(comm)?;
        let place = request.checked("request")?;
        let plan = plan(runtime, &held)?;
        let persistent = Persistent { comm: held, errors_to: comm, plan, stage: PersistentState::Inactive };
        let handle = runtime.objects().persistent.insert(persistent).ok_or_else(too_many)?;
        place.set(MPI_Request::from_value(handle));
        Ok(())
    })
}

/// Begins what a persistent request stands for; the answer says whose error handler is responsible, too.
fn start(runtime: &'static Runtime, request: MPI_Request) -> (Target, Result<()>) {
    let (plan, comm, errors_to) = match set_out(runtime, request) {
        Ok(begun) => begun,
        Err(error) => return (Target::World, Err(error)),
    };
    // Nothing is held while the operation begins.
    let (stage, result) = match plan.begin(runtime, &comm, errors_to) {
        Ok(object) => (PersistentState::Active(object), Ok(())),
        Err(error) => (PersistentState::Inactive, Err(error)),
    };
    if let Some(persistent) = runtime.objects().persistent.find_mut(request.value()) {
        persistent.stage = stage;
    } else if let PersistentState::Active(object) = stage {
        // Another thread has freed it meanwhile.
        super::completion::detach(runtime, object);
    }
    (Target::Comm(errors_to), result)
}

fn set_out(runtime: &'static Runtime, request: MPI_Request) -> Result<(Plan, Held, MPI_Comm)> {
    let mut objects = runtime.objects();
    let Some(persistent) = objects.persistent.find_mut(request.value()) else {
        return Err(no_request(request).during("not a persistent request"));
    };
    if !matches!(persistent.stage, PersistentState::Inactive) {
        return Err(Error::new(Class::Request, "the request is active already")
            .remedy("wait for it before it is started again"));
    }
    persistent.stage = PersistentState::Starting;
    Ok((persistent.plan.again(), persistent.comm.clone(), persistent.errors_to))
}

/// Begins a persistent operation.
pub fn mpi_start(request: Variable<'_, MPI_Request>) -> c_int {
    let mut target = Target::World;
    let mut result = Ok(());
    let called = call("MPI_Start", Target::World, |runtime| {
        let request = request.checked("request")?.get();
        (target, result) = start(runtime, request);
        Ok(())
    });
    if called == MPI_SUCCESS { finish("MPI_Start", target, result) } else { called }
}

/// Begins several persistent operations. Where one of the handles is none that can be begun, nothing is.
pub fn mpi_startall(count: c_int, array_of_requests: Variables<'_, MPI_Request>) -> c_int {
    let mut target = Target::World;
    let mut result = Ok(());
    let called = call("MPI_Startall", Target::World, |runtime| {
        let list = RequestList::check(count, array_of_requests)?;
        let requests: Vec<MPI_Request> = (0..list.count).map(|index| list.at(index)).collect();
        check_startable(runtime, &requests)?;
        for request in requests {
            (target, result) = start(runtime, request);
            if result.is_err() {
                break;
            }
        }
        Ok(())
    });
    if called == MPI_SUCCESS { finish("MPI_Startall", target, result) } else { called }
}

fn check_startable(runtime: &'static Runtime, requests: &[MPI_Request]) -> Result<()> {
    let objects = runtime.objects();
    for request in requests {
        match objects.operation(*request) {
            Some(None) => {}
            Some(Some(_)) if is_persistent(*request) => {
                return Err(Error::new(Class::Request, "one of the requests is active already"));
            }
            _ => return Err(no_request(*request).during("not a persistent request")),
        }
    }
    Ok(())
}

/// Describes a send.
pub fn mpi_send_init(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    plan_send("MPI_Send_init", send, Mode::Standard, comm, request)
}

/// Describes a send that is over when the receive has begun.
pub fn mpi_ssend_init(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    plan_send("MPI_Ssend_init", send, Mode::Synchronous, comm, request)
}

/// Describes a send to a receive that is posted already; the promise is not needed here.
pub fn mpi_rsend_init(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    plan_send("MPI_Rsend_init", send, Mode::Standard, comm, request)
}

fn plan_send(
    name: &'static str,
    send: Send,
    mode: Mode,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    adopt(name, comm, request, |runtime, held| Ok(Plan::Send(send.check(runtime, &held.comm)?, mode)))
}

/// Describes a send that goes out of an attached buffer.
pub fn mpi_bsend_init(
    buf: Sent,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let send = Send { buffer: buf, count, datatype, to: dest, tag };
    adopt("MPI_Bsend_init", comm, request, |runtime, held| {
        Ok(Plan::Buffered(send.check(runtime, &held.comm)?))
    })
}

/// Describes a receive.
pub fn mpi_recv_init(
    buf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let receive = Receive { buffer: buf, count, datatype, from: source, tag };
    adopt("MPI_Recv_init", comm, request, |runtime, held| {
        Ok(Plan::Receive(receive.check(runtime, &held.comm)?))
    })
}
