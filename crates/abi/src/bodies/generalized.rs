//! Generalized requests: operations of the program's own, which are waited for like those of the library
//! (MPI 5.0 §13.2).

use std::ffi::{c_int, c_void};
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

use weft::claims::RequestId;
use weft::{Class, Communicator, Error, Result};

use crate::claims::{Callback, Place};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::RequestObject;
use crate::requests::no_request;
use crate::state::{Runtime, call};
use crate::status;
use crate::types::*;

/// An operation of the program's.
pub(crate) struct Generalized {
    query: Callback<MPI_Grequest_query_function>,
    free: Callback<MPI_Grequest_free_function>,
    cancel: Callback<MPI_Grequest_cancel_function>,
    extra_state: usize,
    /// The communicator whose engine has the request that ends with the operation.
    pub comm: Communicator,
    pub id: RequestId,
}

/// How far a generalized operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GeneralizedState {
    /// The operation goes on.
    UnderWay,
    /// The operation goes on, and the program has freed its request.
    GivenUp,
    /// The program has said that the operation is over.
    Complete,
}

impl Generalized {
    /// Waits until the program says that it is over.
    pub(crate) fn wait(&self) {
        self.comm.wait(self.id);
    }

    /// The status that the program's query function fills in. Call it when the operation is over.
    pub(crate) fn status(&self) -> Result<MPI_Status> {
        let mut status = status::EMPTY;
        // SAFETY: the program gave a function of that type, and the status lives to the end of the call.
        let code = unsafe {
            match self.query.function() {
                Some(query) => query(with_exposed_provenance_mut(self.extra_state), &raw mut status),
                None => MPI_SUCCESS,
            }
        };
        check("query", code).map(|()| status)
    }

    /// Ends the operation: asks the program's query function for the status, then calls its free function.
    /// Where both functions fail, the code of the last one counts (MPI 5.0 §13.2).
    pub(crate) fn end(&self) -> (MPI_Status, Result<()>) {
        let (status, queried) = match self.status() {
            Ok(status) => (status, Ok(())),
            Err(error) => (status::EMPTY, Err(error)),
        };
        let freed = self.free();
        (status, freed.and(queried))
    }

    fn free(&self) -> Result<()> {
        // SAFETY: the program gave a function of that type.
        let code = unsafe {
            let free = self.free.function();
            free.map_or(MPI_SUCCESS, |free| free(with_exposed_provenance_mut(self.extra_state)))
        };
        check("free", code)
    }

    /// Asks the program to cancel it.
    pub(crate) fn cancel(&self) -> Result<()> {
        let complete = c_int::from(self.comm.process().peek(self.id).is_some());
        // SAFETY: the program gave a function of that type.
        let code = unsafe {
            let cancel = self.cancel.function();
            let extra = with_exposed_provenance_mut(self.extra_state);
            cancel.map_or(MPI_SUCCESS, |cancel| cancel(extra, complete))
        };
        check("cancel", code)
    }
}

fn check(which: &str, code: c_int) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => {
            let what = format!("the {which} function of a generalized request returned {code}");
            Err(Error::new(Class::Callback(code), what))
        }
    }
}

/// Begins an operation of the program's.
pub fn mpi_grequest_start(
    query_fn: Callback<MPI_Grequest_query_function>,
    free_fn: Callback<MPI_Grequest_free_function>,
    cancel_fn: Callback<MPI_Grequest_cancel_function>,
    extra_state: *mut c_void,
    request: Place<'_, MPI_Request>,
) -> c_int {
    call("MPI_Grequest_start", Target::World, |runtime| {
        let place = request.checked("request")?;
        let comm = runtime.world();
        let operation = Generalized {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            extra_state: extra_state.expose_provenance(),
            id: comm.process().promise(),
            comm,
        };
        let (operation, stage) = (Arc::new(operation), GeneralizedState::UnderWay);
        place.set(runtime.adopt_request(RequestObject::Generalized { operation, stage })?);
        Ok(())
    })
}

/// Says that an operation of the program's is over.
pub fn mpi_grequest_complete(request: MPI_Request) -> c_int {
    call("MPI_Grequest_complete", Target::World, |runtime| {
        let (operation, before) = complete(runtime, request)?;
        operation.comm.process().fulfil(operation.id);
        if before == GeneralizedState::GivenUp {
            operation.wait();
            return operation.free();
        }
        Ok(())
    })
}

/// Notes that it is over. One that nobody waits for is gone then.
fn complete(runtime: &'static Runtime, request: MPI_Request) -> Result<(Arc<Generalized>, GeneralizedState)> {
    let mut objects = runtime.objects();
    let Some(RequestObject::Generalized { operation, stage }) = objects.requests.find_mut(request.value())
    else {
        return Err(no_request(request).during("not a generalized request"));
    };
    let (operation, before) = (Arc::clone(operation), std::mem::replace(stage, GeneralizedState::Complete));
    match before {
        GeneralizedState::Complete => {
            return Err(Error::new(Class::Request, "the generalized request was completed before"));
        }
        GeneralizedState::GivenUp => drop(objects.requests.remove(request.value())),
        GeneralizedState::UnderWay => {}
    }
    Ok((operation, before))
}

/// Gives a generalized request up; false where it is none. Its handle is good for `MPI_Grequest_complete`
/// until that was called (MPI 5.0 §13.2).
pub(super) fn give_up(runtime: &'static Runtime, request: MPI_Request) -> Result<bool> {
    let mut objects = runtime.objects();
    let operation = match objects.requests.find_mut(request.value()) {
        Some(RequestObject::Generalized { operation, stage }) => match stage {
            GeneralizedState::UnderWay => {
                *stage = GeneralizedState::GivenUp;
                return Ok(true);
            }
            GeneralizedState::GivenUp => return Err(no_request(request)),
            GeneralizedState::Complete => Arc::clone(operation),
        },
        _ => return Ok(false),
    };
    drop(objects.requests.remove(request.value()));
    drop(objects);
    operation.wait();
    operation.free()?;
    Ok(true)
}
