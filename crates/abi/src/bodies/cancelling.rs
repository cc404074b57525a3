//! Cancelling what has begun (MPI 5.0 §3.8.4).

use std::ffi::c_int;
use std::sync::Arc;

use weft::Communicator;
use weft::claims::RequestId;

use crate::bodies::generalized::Generalized;
use crate::claims::Variable;
use crate::entry::Target;
use crate::objects::RequestObject;
use crate::requests::{collective_under_way, named_receive, no_request};
use crate::state::call;
use crate::types::*;

/// Cancels a send or a receive that nothing has matched, or asks a generalized request to be (MPI 5.0
/// §3.8.4). A send whose message has left, and that need not wait for its receiver, completes.
pub fn mpi_cancel(request: Variable<'_, MPI_Request>) -> c_int {
    call("MPI_Cancel", Target::World, |runtime| {
        let request = request.checked("request")?;
        let request = request.get();
        if let Some(id) = named_receive(request) {
            let known = runtime.process().is_lent(id);
            if !known {
                return Err(no_request(request));
            }
            runtime.world().cancel(id);
            return Ok(());
        }
        if runtime.is_collective(request) {
            return Err(collective_under_way(request));
        }
        enum Cancelled {
            Message(Communicator, RequestId),
            Generalized(Arc<Generalized>),
            Nothing,
        }
        let cancelled = match runtime.objects().operation(request) {
            Some(Some(RequestObject::Send { comm, id, .. } | RequestObject::Receive { comm, id, .. })) => {
                Cancelled::Message(comm.clone(), *id)
            }
            Some(Some(RequestObject::Generalized { operation, .. })) => {
                Cancelled::Generalized(Arc::clone(operation))
            }
            Some(Some(_)) => Cancelled::Nothing,
            Some(None) => return Err(no_request(request).during("the request was not started")),
            None => return Err(no_request(request)),
        };
        match cancelled {
            Cancelled::Message(comm, id) => comm.cancel(id),
            Cancelled::Generalized(operation) => operation.cancel()?,
            Cancelled::Nothing => {}
        }
        Ok(())
    })
}
