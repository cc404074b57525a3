//! Request handles, and what they stand for.
//!
//! A usual receive is known to the engine and to nobody else, and its handle is the engine's own name of it:
//! nothing is entered here when it begins, and nothing looked up when it ends; where it fails, its context
//! tells whose it is. Everything that is over when it was begun has the same handle. Only what needs more
//! than the engine knows, data to be unpacked or several messages, has an object in the table.
//!
//! ```text
//! kind            index                        generation
//! Request         place in the table here      of that place
//! Receive         place in the engine's table  of that place
//! Persistent      place in a table of its own  of that place
//! ```
//! A persistent request holds the operation that it has begun, if any. Whoever completes one takes that
//! operation out; the handle stays what it is, which its kind tells without a look at anything.

use weft::claims::RequestId;
use weft::{Class, Communicator, Error, Result};

use crate::bodies::completion;
use crate::bodies::persistent::Persistent;
use crate::generated::constants::*;
use crate::handles::HandleKind;
use crate::objects::{Held, Objects, RequestObject};
use crate::state::{Runtime, too_many};
use crate::status;
use crate::table;
use crate::types::*;

/// The request of every send, and every collective operation, that was over when it was begun. All of them
/// end alike, so one serves them all; it stays in the table for ever.
pub(crate) const SENT: MPI_Request = MPI_Request::from_value(table::first(HandleKind::Request));

/// The part of a request that is needed to look whether it is over.
pub(crate) enum Look {
    /// A persistent request that was not begun.
    Inactive,
    Over,
    Under(Communicator, RequestId),
    /// Several operations of the engine, all of which must be over.
    Several(Communicator, Vec<RequestId>),
}

/// An operation that was taken out of the table of requests. The thread that has taken it concludes it.
pub(crate) struct Taken {
    pub object: RequestObject,
    /// The communicator whose error handler is told of the operation's failure, where another thread may free
    /// the communicator meanwhile. While it is held here, it lingers.
    pub told: Option<Held>,
}

/// The handle of a usual receive; `None` where its place is beyond what a handle can say.
#[inline(always)]
pub(crate) fn receive_handle(id: RequestId) -> Option<MPI_Request> {
    table::value_of(HandleKind::Receive, id.index(), id.generation()).map(MPI_Request::from_value)
}

/// The receive that a handle of this kind names, whether it is there or not.
#[inline(always)]
pub(crate) fn named_receive(request: MPI_Request) -> Option<RequestId> {
    let (index, generation) = table::place_of(HandleKind::Receive, request.value())?;
    Some(RequestId::new(index, generation))
}

/// Whether the handle is one that stays when its operation is over.
#[inline]
pub(crate) fn is_persistent(request: MPI_Request) -> bool {
    table::place_of(HandleKind::Persistent, request.value()).is_some()
}

/// The value that the program's handle has when its operation is over: a persistent request stays, any other
/// becomes `MPI_REQUEST_NULL`.
#[inline]
pub(crate) fn left_of(request: MPI_Request) -> MPI_Request {
    if is_persistent(request) { request } else { MPI_REQUEST_NULL }
}

impl Objects {
    /// The operation under way behind a handle in the tables here. `Some(None)` for a persistent request that
    /// was not begun, `None` where the handle is no request. Handles of plain receives name the engine's
    /// request, and are not found here.
    pub(crate) fn operation(&self, request: MPI_Request) -> Option<Option<&RequestObject>> {
        if is_persistent(request) {
            return self.persistent.find(request.value()).map(Persistent::under_way);
        }
        self.requests.find(request.value()).map(Some)
    }
}

impl RequestObject {
    /// What to look at.
    pub(crate) fn look(&self) -> Look {
        match self {
            RequestObject::Over(_) | RequestObject::Failed { .. } => Look::Over,
            RequestObject::Send { comm, id, .. } | RequestObject::Receive { comm, id, .. } => {
                Look::Under(comm.clone(), *id)
            }
            RequestObject::Duplicate { duplicating, .. } => {
                Look::Under(duplicating.original().clone(), duplicating.request())
            }
            RequestObject::Collective { ongoing, .. } => {
                Look::Under(ongoing.communicator().clone(), ongoing.request())
            }
            RequestObject::AgreedFailed { agreeing, .. } => {
                Look::Under(agreeing.communicator().clone(), agreeing.request())
            }
            RequestObject::Generalized { operation, .. } => Look::Under(operation.comm.clone(), operation.id),
            RequestObject::PartitionedSend { sender, id, .. } => {
                Look::Under(sender.communicator().clone(), *id)
            }
            RequestObject::PartitionedReceive { receiver, id, .. } => {
                Look::Under(receiver.communicator().clone(), *id)
            }
            RequestObject::Exchange { receive, send } => match (receive.look(), send.look()) {
                (Look::Under(comm, receive), Look::Under(_, send)) => {
                    Look::Several(comm, vec![receive, send])
                }
                (under @ Look::Under(..), _) | (_, under) => under,
            },
            RequestObject::Flush(messages) => match messages.first() {
                Some(first) => {
                    Look::Several(first.comm.clone(), messages.iter().map(|message| message.id).collect())
                }
                None => Look::Over,
            },
        }
    }
}

impl Runtime {
    /// Gives an operation a handle. Where there is none left, the operation is brought to its end first:
    /// nobody could wait for it, and it uses the program's memory.
    ///
    /// # Errors
    /// [`Class::NoMemory`].
    pub(crate) fn adopt_request(&self, object: RequestObject) -> Result<MPI_Request> {
        let entered = self.objects().requests.try_insert(object);
        match entered {
            Ok(handle) => Ok(MPI_Request::from_value(handle)),
            Err(object) => {
                completion::give_up(object);
                Err(too_many())
            }
        }
    }

    /// Whether the handle is a request that is not over and taken.
    pub(crate) fn is_request(&self, request: MPI_Request) -> bool {
        match named_receive(request) {
            Some(id) => self.process().is_lent(id),
            None => self.objects().operation(request).is_some(),
        }
    }

    /// Whether the request is a collective operation that was begun.
    pub(crate) fn is_collective(&self, request: MPI_Request) -> bool {
        matches!(
            self.objects().operation(request),
            Some(Some(
                RequestObject::Collective { .. }
                    | RequestObject::Duplicate { .. }
                    | RequestObject::AgreedFailed { .. },
            ))
        )
    }

    /// What to look at.
    pub(crate) fn look_at_request(&self, request: MPI_Request) -> Result<Look> {
        if let Some(id) = named_receive(request) {
            let known = self.process().is_lent(id);
            return if known { Ok(Look::Under(self.world(), id)) } else { Err(no_request(request)) };
        }
        match self.objects().operation(request) {
            Some(None) => Ok(Look::Inactive),
            Some(Some(object)) => Ok(object.look()),
            None => Err(no_request(request)),
        }
    }

    /// Takes the request out of the table, or the operation out of a persistent request. The caller concludes
    /// the operation.
    pub(crate) fn take_request(&'static self, request: MPI_Request) -> Result<Taken> {
        if request == SENT {
            return Ok(Taken { object: RequestObject::Over(status::EMPTY), told: None });
        }
        if is_persistent(request) {
            let mut objects = self.objects();
            let persistent =
                objects.persistent.find_mut(request.value()).ok_or_else(|| no_request(request))?;
            // The operation may be begun again, so the communicator lingers for its sake.
            let object = persistent.take().unwrap_or(RequestObject::Over(status::EMPTY));
            return Ok(Taken { object, told: None });
        }
        let Some(id) = named_receive(request) else {
            let mut objects = self.objects();
            let object = objects.requests.remove(request.value()).ok_or_else(|| no_request(request))?;
            let errors_to = object.errors_to().filter(|_| self.is_shared());
            let told = errors_to.and_then(|comm| objects.told(comm));
            return Ok(Taken { object, told });
        };
        // Its communicator may only linger for its sake, and is found before that ends.
        let context = self.process().lent_in(id).ok_or_else(|| no_request(request))?;
        let (errors_to, held) = self.comm_of(context);
        if !self.process().reclaim(id) {
            return Err(no_request(request));
        }
        let object = RequestObject::Receive { comm: held.comm.clone(), errors_to, id, unpack: None };
        Ok(Taken { object, told: Some(held) })
    }

    /// The living request whose handle has that integer.
    pub(crate) fn request_by_integer(&self, integer: usize) -> Option<usize> {
        if let Some((index, _)) = table::place_of(HandleKind::Receive, integer) {
            let id = self.process().lent_at(index)?;
            return receive_handle(id).map(MPI_Request::value);
        }
        if table::place_of(HandleKind::Persistent, integer).is_some() {
            return self.objects().persistent.by_integer(integer);
        }
        self.objects().requests.by_integer(integer)
    }
}

#[cold]
pub(crate) fn no_request(request: MPI_Request) -> Error {
    Error::new(Class::Request, format!("{:#x} is not a request, or not any more", request.value()))
}

/// All members take part in a collective operation to its end, so none may leave it (MPI 5.0 §6.12 and
/// §6.13).
#[cold]
pub(crate) fn collective_under_way(request: MPI_Request) -> Error {
    let what = format!(
        "request {:#x} is a collective operation under way, which no member may leave: complete it with MPI_Wait or \
         MPI_Test",
        request.value()
    );
    Error::new(Class::Request, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::{communicators, point_to_point, testing};
    use crate::claims::{Place, Received, Variable};
    use weft::Rank;
    use weft::claims::{Heap, Payload, Receiving};

    /// What happens to an operation for which no handle is left.
    #[test]
    fn a_receive_that_is_given_up_takes_no_message_and_writes_nowhere() {
        let world = testing::start().world();
        let (room, tag) = (Heap::new(8), 4711);
        let receive = |room: &Heap| world.start_receive(room.memory(), Some(Rank(0)), Some(tag)).unwrap();
        let Receiving::Pending(id) = receive(&room) else { panic!("nothing was sent") };
        completion::give_up(RequestObject::Receive {
            comm: world.clone(),
            errors_to: MPI_COMM_WORLD,
            id,
            unpack: None,
        });
        let data = Payload::from(&[7u8; 8][..]);
        let _ = world.start_send(data, Rank(0), tag, weft::claims::Mode::Standard).unwrap();
        let other = Heap::new(8);
        let outcome = match receive(&other) {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(id) => world.wait(id),
        };
        assert_eq!((outcome.bytes, other.payload().to_vec()), (8, vec![7; 8]));
        assert_eq!(room.payload().to_vec(), [0; 8]);
    }

    fn duplicate() -> MPI_Comm {
        let mut comm = MPI_COMM_NULL;
        let code = communicators::mpi_comm_dup(MPI_COMM_SELF, Place::of(&mut comm));
        assert_eq!(code, MPI_SUCCESS);
        comm
    }

    fn receive(comm: MPI_Comm) -> MPI_Request {
        let mut request = MPI_REQUEST_NULL;
        let place = Place::of(&mut request);
        let begin = |room| point_to_point::mpi_irecv(room, 1, MPI_UINT64_T, 0, 1, comm, place);
        assert_eq!(Received::lend(&mut [0u64], begin), MPI_SUCCESS);
        request
    }

    #[test]
    fn a_communicator_that_is_freed_and_idle_is_gone_when_the_call_returns() {
        let runtime = testing::start();
        // Other tests may be looking at one of them just now, and not at all of them.
        let is_gone = || {
            let mut comm = duplicate();
            let handle = comm;
            assert_eq!(communicators::mpi_comm_free(Variable::of(&mut comm)), MPI_SUCCESS);
            runtime.find_lingering(handle).is_none()
        };
        assert!((0..100).any(|_| is_gone()), "each stays until the next one is freed");
    }

    /// What another thread may do between the end of an operation and the call of its error handler.
    #[test]
    fn a_communicator_that_is_freed_while_an_error_is_told_lingers_until_then() {
        let runtime = testing::start();
        let failed = |errors_to| {
            let error = Error::new(Class::Other, "made up for a test");
            runtime.adopt_request(RequestObject::Failed { errors_to, status: status::EMPTY, error }).unwrap()
        };
        for is_usual in [true, false] {
            let comm = duplicate();
            let request = if is_usual { receive(comm) } else { failed(comm) };
            assert_eq!(named_receive(request).is_some(), is_usual);
            let Taken { object, told } = runtime.take_request(request).unwrap();
            communicators::free(runtime, comm).unwrap();
            assert!(runtime.find_lingering(comm).is_some(), "its error handler is still to be called");
            completion::give_up(object);
            drop(told);
            // Other tests may be looking at it just now.
            let mut left = 1000;
            while runtime.find_lingering(comm).is_some() {
                communicators::free(runtime, duplicate()).unwrap();
                left -= 1;
                assert!(left > 0, "it lingers for nobody");
            }
        }
    }
}
