//! Requests that own their data, and that a future can wait for.

use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use fabric::Heap;
use job::error::{Class, Error, Result};
use messaging::{Outcome, Rank, Receiving, RequestId, Sending};

use crate::communicator::{Communicator, Status};
use crate::future::{forget, wake_later};
use crate::memory::{Datatype, value_bytes};
use crate::values::{Growing, Landing, values_in};

/// A send or receive under way, which owns its values until it is over.
///
/// [`OwnedRequest::wait`] waits for it. It is also a future, for any executor: polling it makes progress, and
/// [`block_on`](crate::block_on) waits for it as politely as `wait` does.
///
/// Dropping it waits: a send goes to its end, a receive is cancelled unless its message has come. So no
/// buffer is ever given back while the library may still touch it; one that is leaked stays allocated.
#[must_use = "a request that is dropped waits for its end"]
pub struct OwnedRequest<T: Datatype> {
    pub(super) communicator: Communicator,
    pub(super) values: Vec<T>,
    pub(super) state: State,
    pub(super) way: Way<T>,
}

/// The result of beginning an operation that is to own a vector: the request, or the vector with the reason.
pub type Begins<T> = std::result::Result<OwnedRequest<T>, NotBegun<T>>;

/// Why an operation could not be begun, and the vector that it was to own. `?` makes the error of it where
/// that is all that is wanted.
pub struct NotBegun<T> {
    /// What went wrong.
    pub error: Error,
    /// The values, as they were.
    pub values: Vec<T>,
}

impl<T> From<NotBegun<T>> for Error {
    fn from(not_begun: NotBegun<T>) -> Error {
        not_begun.error
    }
}

impl<T> fmt::Debug for NotBegun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotBegun").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for NotBegun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for NotBegun<T> {}

/// An operation that was begun on values that the request is to own.
pub(crate) enum BegunRequest {
    /// A send, to whom and under which tag, with what is packed where the values have gaps.
    Send { sending: Sending, to: Rank, tag: i32, keeps: Option<Heap> },
    /// A receive to places among the values.
    Spread(Receiving),
}

pub(super) enum Way<T> {
    /// A send, with what is packed where the values have gaps.
    Out { to: Rank, tag: i32, _keeps: Option<Heap> },
    /// A receive, and where its data belongs.
    In(Landing),
    /// A receive to places among values, all of which are given back.
    Spread,
    /// A receive of any length.
    Growing(Growing<T>),
}

pub(super) enum State {
    Under(RequestId),
    Over(Outcome),
    Taken,
}

impl<T: Datatype> OwnedRequest<T> {
    /// Waits. A send gives its vector back; a receive gives what came, cut to its length, or the vector that
    /// it was to fill places of.
    ///
    /// # Errors
    /// [`Class::Truncated`], or that the peer is gone. The vector is dropped then;
    /// [`OwnedRequest::wait_with_values`] keeps it.
    pub fn wait(self) -> Result<(Vec<T>, Status)> {
        let (values, ended) = self.wait_with_values();
        ended.map(|status| (values, status))
    }

    /// Waits, and gives the vector back also where the operation has failed: that of a send as it was, that
    /// of a receive with what has come of the message, among whatever stood there before; that of
    /// [`Communicator::irecv`], which makes its room as it ends, empty. As a future a request that has failed
    /// keeps its vector until then.
    ///
    /// ```
    /// use weft::{Class, Config, Rank, run_threads};
    ///
    /// run_threads(2, &Config::default(), |session| {
    ///     let world = session.world();
    ///     let other = Rank(1 - world.rank().0);
    ///     // Six values come for the four places in the first two columns of a matrix.
    ///     let receive = world.ireceive_strided(vec![-1, -2, -3, -4, -5, -6], 2, 3, other, 0)?;
    ///     world.send(&[10, 20, 30, 40, 50, 60], other, 0)?;
    ///     let (matrix, ended) = receive.wait_with_values();
    ///     assert_eq!(ended.unwrap_err().class, Class::Truncated);
    ///     assert_eq!((matrix[2], matrix[5]), (-3, -6));
    ///     Ok::<_, weft::Error>(())
    /// })?
    /// .into_iter()
    /// .collect::<Result<(), _>>()?;
    /// # Ok::<(), weft::Error>(())
    /// ```
    pub fn wait_with_values(mut self) -> (Vec<T>, Result<Status>) {
        if let State::Under(id) = self.state {
            self.state = State::Over(self.communicator.wait(id));
        }
        match self.conclude() {
            Ok((values, status)) => (values, Ok(status)),
            Err(error) => (std::mem::take(&mut self.values), Err(error)),
        }
    }

    /// What a request that is over gives. One that has failed says so again when it is asked again.
    fn conclude(&mut self) -> Result<(Vec<T>, Status)> {
        let State::Over(outcome) = &self.state else {
            return Err(Error::new(Class::Request, "the request has given its values before"));
        };
        let status = match &self.way {
            Way::Out { to, tag, .. } => {
                self.communicator.conclude_send(outcome, *to, *tag)?;
                Status { source: self.communicator.rank(), tag: *tag, bytes: 0, cancelled: false }
            }
            Way::In(landing) => {
                let received = self.communicator.conclude_receive(outcome);
                landing.land(&mut self.values, received.status.bytes)?;
                let status = received.error.map_or(Ok(received.status), Err)?;
                self.values.truncate(status.bytes / value_bytes::<T>());
                status
            }
            Way::Spread => self.communicator.checked(outcome)?,
            Way::Growing(growing) => {
                let status = self.communicator.checked(outcome)?;
                let place = || self.communicator.place().to_string();
                self.values = growing.take(values_in::<T>(status.bytes, place)?)?;
                status
            }
        };
        self.state = State::Taken;
        Ok((std::mem::take(&mut self.values), status))
    }

    /// Makes one turn of progress; true when [`OwnedRequest::wait`] would not wait.
    pub fn test(&mut self) -> bool {
        if let State::Under(id) = self.state {
            match self.communicator.process().test(id) {
                Some(outcome) => self.state = State::Over(outcome),
                None => return false,
            }
        }
        true
    }
}

impl<T: Datatype> Future for OwnedRequest<T> {
    type Output = Result<(Vec<T>, Status)>;

    /// Makes one turn of progress. See [`OwnedRequest::wait`] for what comes out.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let was = if let State::Under(id) = self.state { Some(id) } else { None };
        if self.test() {
            if let Some(id) = was {
                forget(self.communicator.process(), id);
            }
            return Poll::Ready(self.conclude());
        }
        if let Some(id) = was {
            wake_later(self.communicator.process(), id, context);
        }
        Poll::Pending
    }
}

// Nothing points into it but the claims on its values, which stand on the heap.
impl<T: Datatype> Unpin for OwnedRequest<T> {}

impl<T: Datatype> Drop for OwnedRequest<T> {
    fn drop(&mut self) {
        if let State::Under(id) = self.state {
            // What follows may panic, on a thread that may not call for one. Memory that is in use is leaked
            // then, not freed.
            let values = ManuallyDrop::new(std::mem::take(&mut self.values));
            let over = Way::Out { to: Rank(0), tag: 0, _keeps: None };
            let way = ManuallyDrop::new(std::mem::replace(&mut self.way, over));
            forget(self.communicator.process(), id);
            if !matches!(*way, Way::Out { .. }) {
                self.communicator.cancel(id);
            }
            self.communicator.wait(id);
            drop((ManuallyDrop::into_inner(values), ManuallyDrop::into_inner(way)));
        }
    }
}
