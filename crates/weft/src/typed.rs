//! Operations on slices and vectors of numbers: the communicator as a Rust program sees it.

use collectives::{Collective, Each, Operator as Shaped, Reduction, Rooted};
use datatype::Operator;
use fabric::{Payload, UserMemory};
use messaging::{Mode, Outcome, Rank, Receiving, RequestId, Sending};

use crate::communicator::{Communicator, Status};
use crate::error::{Class, Error, Result};
use crate::memory::{Transferable, reading, value_bytes, writing};

impl Communicator {
    /// Sends `values` to a rank; returns when they are on their way (MPI 5.0 §3.2).
    ///
    /// # Errors
    /// [`Class::Rank`], [`Class::Tag`], or that the peer is gone.
    pub fn send<T: Transferable>(&self, values: &[T], to: Rank, tag: i32) -> Result<()> {
        check_tag(tag)?;
        self.send_claim(reading(values), to, tag, Mode::Standard)
    }

    /// Sends `values`, and returns when their receive has begun.
    ///
    /// # Errors
    /// As [`Communicator::send`].
    pub fn send_synchronous<T: Transferable>(&self, values: &[T], to: Rank, tag: i32) -> Result<()> {
        check_tag(tag)?;
        self.send_claim(reading(values), to, tag, Mode::Synchronous)
    }

    /// Receives values of a message of any length. `None` as source or tag takes any.
    ///
    /// # Errors
    /// [`Class::Rank`]; [`Class::Type`] where the message does not end with a whole value; a lost peer.
    pub fn receive<T: Transferable>(
        &self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<(Vec<T>, Status)> {
        let message = self.take(from.into(), tag.into())?;
        let bytes = message.probed().bytes;
        if !bytes.is_multiple_of(value_bytes::<T>()) {
            let what = format!(
                "{}: {bytes} bytes are no whole number of values of {}",
                self.place(),
                value_bytes::<T>()
            );
            return Err(Error::new(Class::Type, what).remedy("receive as the type that was sent, or as u8"));
        }
        let mut values = vec![T::default(); bytes / value_bytes::<T>()];
        let outcome = match self.start_receive_taken(message, writing(&mut values)) {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => self.wait(request),
        };
        self.checked(&outcome).map(|status| (values, status))
    }

    /// Receives into `room`, which may be longer than the message: the status tells its length in bytes.
    ///
    /// # Errors
    /// [`Class::Truncated`] where the message is longer; as [`Communicator::receive`] otherwise.
    pub fn receive_into<T: Transferable>(
        &self,
        room: &mut [T],
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<Status> {
        let received = self.receive_claim(writing(room), from.into(), tag.into())?;
        received.error.map_or(Ok(received.status), Err)
    }

    /// Sends to one rank and receives from another at the same time (MPI 5.0 §3.10).
    ///
    /// # Errors
    /// Those of the send and of the receive.
    pub fn exchange<T: Transferable>(
        &self,
        values: &[T],
        to: Rank,
        room: &mut [T],
        from: impl Into<Option<Rank>>,
        tag: i32,
    ) -> Result<Status> {
        check_tag(tag)?;
        let receiving = self.start_receive(writing(room), from.into(), Some(tag))?;
        let sending = self.start_send(reading(values), to, tag, Mode::Standard);
        let outcome = match (receiving, &sending) {
            (Receiving::Done(outcome), _) => outcome,
            (Receiving::Pending(request), Err(_)) => {
                self.cancel(request);
                self.wait(request)
            }
            (Receiving::Pending(request), Ok(_)) => self.wait(request),
        };
        if let Sending::Pending(request) = sending? {
            self.conclude_send(&self.wait(request), to, tag)?;
        }
        self.checked(&outcome)
    }

    /// Begins to send a vector, which comes back when it is sent.
    ///
    /// # Errors
    /// As [`Communicator::send`].
    pub fn isend<T: Transferable>(&self, values: Vec<T>, to: Rank, tag: i32) -> Result<Request<T>> {
        check_tag(tag)?;
        let state = match self.start_send(reading(&values), to, tag, Mode::Standard)? {
            Sending::Done => State::Over(Outcome::sent()),
            Sending::Pending(id) => State::Under(id),
        };
        Ok(Request { communicator: self.clone(), values, state, send: Some((to, tag)) })
    }

    /// Begins to receive up to `count` values.
    ///
    /// # Errors
    /// [`Class::Rank`].
    pub fn ireceive<T: Transferable>(
        &self,
        count: usize,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<Request<T>> {
        let mut values = vec![T::default(); count];
        let state = match self.start_receive(writing(&mut values), from.into(), tag.into())? {
            Receiving::Done(outcome) => State::Over(outcome),
            Receiving::Pending(id) => State::Under(id),
        };
        Ok(Request { communicator: self.clone(), values, state, send: None })
    }

    fn checked(&self, outcome: &Outcome) -> Result<Status> {
        let received = self.conclude_receive(outcome);
        received.error.map_or(Ok(received.status), Err)
    }

    /// Returns when all members have called it (MPI 5.0 §6.3).
    ///
    /// # Errors
    /// A lost peer, here and in all collective operations.
    pub fn barrier(&self) -> Result<()> {
        self.check(|| "barrier".to_owned())?;
        self.perform(Collective::Barrier, Payload::EMPTY, UserMemory::EMPTY, &mut |_, _| {})
    }

    /// Brings the root's values to all; everybody gives room of the same length (MPI 5.0 §6.4).
    ///
    /// # Errors
    /// [`Class::Root`].
    pub fn broadcast<T: Transferable>(&self, values: &mut [T], root: Rank) -> Result<()> {
        self.check_root(root)?;
        self.check(|| format!("broadcast, root {}, {}", root.0, amount::<T>(values.len())))?;
        let bcast = Collective::Bcast { root, bytes: size_of_val(values) };
        self.perform(bcast, Payload::EMPTY, writing(values), &mut |_, _| {})
    }

    /// Brings everybody's values to the root, in rank order; `None` elsewhere (MPI 5.0 §6.5).
    ///
    /// # Errors
    /// [`Class::Root`].
    pub fn gather<T: Transferable>(&self, values: &[T], root: Rank) -> Result<Option<Vec<T>>> {
        self.check_root(root)?;
        self.check(|| format!("gather, root {}, {}", root.0, amount::<T>(values.len())))?;
        let gather = Collective::Gather(Rooted { root, bytes: size_of_val(values), in_place: false });
        let everywhere = if self.rank() == root { self.size() as usize } else { 0 };
        let mut all = vec![T::default(); values.len() * everywhere];
        self.perform(gather, reading(values), writing(&mut all), &mut |_, _| {})?;
        Ok((self.rank() == root).then_some(all))
    }

    /// Brings everybody's values to everybody, in rank order (MPI 5.0 §6.7).
    ///
    /// # Errors
    /// See [`Communicator::barrier`].
    pub fn all_gather<T: Transferable>(&self, values: &[T]) -> Result<Vec<T>> {
        self.check(|| format!("all_gather, {}", amount::<T>(values.len())))?;
        let allgather = Collective::Allgather(Each { bytes: size_of_val(values), in_place: false });
        let mut all = vec![T::default(); values.len() * self.size() as usize];
        self.perform(allgather, reading(values), writing(&mut all), &mut |_, _| {})?;
        Ok(all)
    }

    /// Deals the root's values out, `count` to each rank in order; only the root's `values` are looked at
    /// (MPI 5.0 §6.6).
    ///
    /// # Errors
    /// [`Class::Root`]; [`Class::Count`] where the root has not `count` values for each rank.
    pub fn scatter<T: Transferable>(&self, values: &[T], count: usize, root: Rank) -> Result<Vec<T>> {
        self.check_root(root)?;
        if self.rank() == root && values.len() != count * self.size() as usize {
            let what =
                format!("{}: {} values for {} ranks of {count}", self.place(), values.len(), self.size());
            return Err(Error::new(Class::Count, what));
        }
        self.check(|| format!("scatter, root {}, {}", root.0, amount::<T>(count)))?;
        let bytes = count * value_bytes::<T>();
        let scatter = Collective::Scatter(Rooted { root, bytes, in_place: false });
        let mut mine = vec![T::default(); count];
        let input = if self.rank() == root { reading(values) } else { Payload::EMPTY };
        self.perform(scatter, input, writing(&mut mine), &mut |_, _| {})?;
        Ok(mine)
    }

    /// Sends the i-th part of `values` to rank i, and returns what came, in rank order (MPI 5.0 §6.8).
    ///
    /// # Errors
    /// [`Class::Count`] where the values cannot be dealt out evenly.
    pub fn all_to_all<T: Transferable>(&self, values: &[T]) -> Result<Vec<T>> {
        if !values.len().is_multiple_of(self.size() as usize) {
            let what = format!("{}: {} values for {} ranks", self.place(), values.len(), self.size());
            return Err(Error::new(Class::Count, what));
        }
        self.check(|| format!("all_to_all, {}", amount::<T>(values.len())))?;
        let bytes = size_of_val(values) / self.size() as usize;
        let alltoall = Collective::Alltoall(Each { bytes, in_place: false });
        let mut all = vec![T::default(); values.len()];
        self.perform(alltoall, reading(values), writing(&mut all), &mut |_, _| {})?;
        Ok(all)
    }

    /// Combines everybody's values element by element; all get the result (MPI 5.0 §6.9.6).
    ///
    /// # Errors
    /// [`Class::Operator`] where the operator does not go with the type.
    pub fn all_reduce<T: Transferable>(&self, values: &[T], operator: Operator) -> Result<Vec<T>> {
        let allreduce = Collective::Allreduce(self.reduction(values, operator)?);
        self.check(|| format!("all_reduce, {operator}, {}", amount::<T>(values.len())))?;
        self.reduce_by(allreduce, values, values.len(), operator)
    }

    /// Combines everybody's values element by element; the root gets the result (MPI 5.0 §6.9.1).
    ///
    /// # Errors
    /// [`Class::Root`]; [`Class::Operator`] where the operator does not go with the type.
    pub fn reduce<T: Transferable>(
        &self,
        values: &[T],
        operator: Operator,
        root: Rank,
    ) -> Result<Option<Vec<T>>> {
        self.check_root(root)?;
        let reduce = Collective::Reduce(root, self.reduction(values, operator)?);
        self.check(|| format!("reduce, {operator}, root {}, {}", root.0, amount::<T>(values.len())))?;
        let here = self.rank() == root;
        let result = self.reduce_by(reduce, values, if here { values.len() } else { 0 }, operator)?;
        Ok(here.then_some(result))
    }

    /// Combines the values of ranks 0 to this one (MPI 5.0 §6.11.1).
    ///
    /// # Errors
    /// [`Class::Operator`] where the operator does not go with the type.
    pub fn scan<T: Transferable>(&self, values: &[T], operator: Operator) -> Result<Vec<T>> {
        let scan = Collective::Scan(self.reduction(values, operator)?);
        self.check(|| format!("scan, {operator}, {}", amount::<T>(values.len())))?;
        self.reduce_by(scan, values, values.len(), operator)
    }

    fn reduce_by<T: Transferable>(
        &self,
        collective: Collective,
        values: &[T],
        results: usize,
        operator: Operator,
    ) -> Result<Vec<T>> {
        let mut result = vec![T::default(); results];
        let mut failed = None;
        self.perform(collective, reading(values), writing(&mut result), &mut |input, inout| {
            let count = inout.bytes() / value_bytes::<T>();
            if let Err(error) = datatype::reduce_packed(operator, T::DATATYPE, count, input, inout) {
                failed = Some(Error::new(Class::Internal, error.to_string()));
            }
        })?;
        failed.map_or(Ok(result), Err)
    }

    fn reduction<T: Transferable>(&self, values: &[T], operator: Operator) -> Result<Reduction> {
        if !operator.is_legal_for(T::DATATYPE) || !operator.is_collective() {
            let what = format!("{}: {operator} is not defined for {}", self.place(), T::DATATYPE);
            return Err(Error::new(Class::Operator, what));
        }
        let operator = Shaped { element_bytes: value_bytes::<T>(), commutative: true };
        Ok(Reduction { count: values.len(), operator, in_place: false })
    }

    fn check_root(&self, root: Rank) -> Result<()> {
        if root.0 < self.size() {
            return Ok(());
        }
        let what = format!("{}: the root is {}, ranks are 0 to {}", self.place(), root.0, self.size() - 1);
        Err(Error::new(Class::Root, what))
    }
}

/// How much of what, for the comparison of calls.
fn amount<T: Transferable>(count: usize) -> String {
    format!("{count} of {}", T::DATATYPE)
}

fn check_tag(tag: i32) -> Result<()> {
    if tag >= 0 {
        Ok(())
    } else {
        Err(Error::new(Class::Tag, format!("the tag is {tag}, tags are not negative")))
    }
}

/// A send or receive under way, which owns its values until it is over.
///
/// Dropping it waits: a send goes to its end, a receive is cancelled unless its message has come. So no buffer is
/// ever given back while the library may still touch it; one that is leaked stays allocated.
#[must_use = "a request that is dropped waits for its end"]
pub struct Request<T: Transferable> {
    communicator: Communicator,
    values: Vec<T>,
    state: State,
    /// Where a send goes.
    send: Option<(Rank, i32)>,
}

enum State {
    Under(RequestId),
    Over(Outcome),
    Taken,
}

impl<T: Transferable> Request<T> {
    /// Waits. A send gives its vector back; a receive gives what came, cut to its length.
    ///
    /// # Errors
    /// [`Class::Truncated`], or that the peer is gone.
    pub fn wait(mut self) -> Result<(Vec<T>, Status)> {
        let outcome = match std::mem::replace(&mut self.state, State::Taken) {
            State::Under(id) => self.communicator.wait(id),
            State::Over(outcome) => outcome,
            State::Taken => return Err(Error::new(Class::Request, "the request is over")),
        };
        let mut values = std::mem::take(&mut self.values);
        if let Some((to, tag)) = self.send {
            self.communicator.conclude_send(&outcome, to, tag)?;
            let status = Status { source: self.communicator.rank(), tag, bytes: 0, cancelled: false };
            return Ok((values, status));
        }
        let status = self.communicator.checked(&outcome)?;
        values.truncate(status.bytes / value_bytes::<T>());
        Ok((values, status))
    }

    /// Makes one turn of progress; true when [`Request::wait`] would not wait.
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

impl<T: Transferable> Drop for Request<T> {
    fn drop(&mut self) {
        if let State::Under(id) = self.state {
            if self.send.is_none() {
                self.communicator.cancel(id);
            }
            self.communicator.wait(id);
        }
    }
}
