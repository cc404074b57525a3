//! Operations on slices and vectors of values: the communicator as a Rust program sees it.

mod request;

use collectives::{Collective, Operator as Shaped, Reduction, Rooted};
use datatype::Operator;
use fabric::{Payload, UserMemory};
use job::error::{Class, Error, Result};
use messaging::{Message, Mode, Outcome, Rank, Receiving, Sending};

pub(crate) use self::request::BegunRequest;
pub use self::request::{Begins, NotBegun, OwnedRequest};
use self::request::{State, Way};
use crate::communicator::{Combining, Communicator, Status};
use crate::memory::{Datatype, Transferable, blank, reading, value_bytes, writing};
use crate::values::{Growing, Outbound, inbound, outbound, values_in};

impl Communicator {
    /// Sends `values` to a rank; returns when they are on their way (MPI 5.0 §3.2).
    ///
    /// # Errors
    /// [`Class::Rank`], [`Class::Tag`], or that the peer is gone.
    pub fn send<T: Datatype>(&self, values: &[T], to: Rank, tag: i32) -> Result<()> {
        check_tag(tag)?;
        let outbound = outbound(values)?;
        self.send_claim(outbound.payload, to, tag, Mode::Blocking)
    }

    /// Sends `values`, and returns when their receive has begun.
    ///
    /// # Errors
    /// [`Class::Rank`], [`Class::Tag`], or that the peer is gone.
    pub fn send_synchronous<T: Datatype>(&self, values: &[T], to: Rank, tag: i32) -> Result<()> {
        check_tag(tag)?;
        let outbound = outbound(values)?;
        self.send_claim(outbound.payload, to, tag, Mode::Synchronous)
    }

    /// Receives values of a message of any length. `None` as source or tag takes any.
    ///
    /// # Errors
    /// [`Class::Rank`]; [`Class::Type`] where the message does not end with a whole value; a lost peer.
    pub fn receive<T: Datatype>(
        &self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<(Vec<T>, Status)> {
        self.recv(from, tag)
    }

    /// Receives a message as something that makes room for all of it: a vector, a boxed slice, a string.
    ///
    /// # Errors
    /// [`Class::Rank`]; [`Class::Type`] where the message does not end with a whole value, or bytes are no
    /// text; a lost peer.
    pub fn recv<R: FromMessage>(
        &self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<(R, Status)> {
        let message = self.take(from.into(), tag.into())?;
        R::from_message(self, message)
    }

    /// Receives into `room`, which may be longer than the message: the status tells its length in bytes.
    ///
    /// # Errors
    /// [`Class::Truncated`] where the message is longer; as [`Communicator::receive`] otherwise.
    pub fn receive_into<T: Datatype>(
        &self,
        room: &mut [T],
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<Status> {
        let (memory, landing) = inbound(room)?;
        let received = self.receive_claim(memory, from.into(), tag.into())?;
        landing.land(room, received.status.bytes)?;
        received.error.map_or(Ok(received.status), Err)
    }

    /// Sends to one rank and receives from another at the same time (MPI 5.0 §3.10).
    ///
    /// # Errors
    /// Those of the send and of the receive.
    pub fn exchange<T: Datatype>(
        &self,
        values: &[T],
        to: Rank,
        room: &mut [T],
        from: impl Into<Option<Rank>>,
        tag: i32,
    ) -> Result<Status> {
        check_tag(tag)?;
        let outbound = outbound(values)?;
        let (memory, landing) = inbound(room)?;
        let receiving = self.start_receive(memory, from.into(), Some(tag))?;
        let sending = self.start_send(outbound.payload, to, tag, Mode::Standard);
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
        let status = self.checked(&outcome)?;
        landing.land(room, status.bytes)?;
        Ok(status)
    }

    /// Begins to send a vector, which comes back when it is sent.
    ///
    /// # Errors
    /// [`Class::Rank`], [`Class::Tag`], or that the peer is gone; the vector comes back with the error.
    pub fn isend<T: Datatype>(&self, values: Vec<T>, to: Rank, tag: i32) -> Begins<T> {
        self.begin_on(values, |values| {
            check_tag(tag)?;
            let Outbound { payload, keeps } = outbound(values)?;
            let sending = self.start_send(payload, to, tag, Mode::Standard)?;
            Ok(BegunRequest::Send { sending, to, tag, keeps })
        })
    }

    /// Begins to receive up to `count` values.
    ///
    /// # Errors
    /// [`Class::Rank`].
    pub fn ireceive<T: Datatype>(
        &self,
        count: usize,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<OwnedRequest<T>> {
        let mut values = blank::<T>(count);
        let (memory, landing) = inbound(&mut values)?;
        let state = match self.start_receive(memory, from.into(), tag.into())? {
            Receiving::Done(outcome) => State::Over(outcome),
            Receiving::Pending(id) => State::Under(id),
        };
        Ok(OwnedRequest { communicator: self.clone(), values, state, way: Way::In(landing) })
    }

    /// Begins to receive a message of any length, which makes its room while it comes. It is received in the
    /// order in which receives were begun, like that of [`Communicator::ireceive`].
    ///
    /// ```
    /// use weft::{Config, Rank, block_on, run_threads};
    ///
    /// run_threads(2, &Config::default(), |session| {
    ///     let world = session.world();
    ///     let (here, other) = (world.rank().0, Rank(1 - world.rank().0));
    ///     let came = block_on(async {
    ///         let receive = world.irecv::<u32>(other, 0)?;
    ///         let _sent = world.isend(vec![here; 1000 + here as usize], other, 0)?.await?;
    ///         Ok::<_, weft::Error>(receive.await?.0)
    ///     });
    ///     assert_eq!(came.unwrap(), vec![other.0; 1000 + other.0 as usize]);
    /// })?;
    /// # Ok::<(), weft::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Class::Rank`]. The request gives [`Class::Type`] where the message does not end with a whole value.
    pub fn irecv<T: Datatype>(
        &self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<OwnedRequest<T>> {
        let growing = Growing::default();
        let state = match self.start_receive(growing.target(), from.into(), tag.into())? {
            Receiving::Done(outcome) => State::Over(outcome),
            Receiving::Pending(id) => State::Under(id),
        };
        Ok(OwnedRequest { communicator: self.clone(), values: Vec::new(), state, way: Way::Growing(growing) })
    }

    /// Begins something on values that the request owns from now on; where it cannot be begun, they come
    /// back.
    pub(crate) fn begin_on<T: Datatype>(
        &self,
        mut values: Vec<T>,
        begin: impl FnOnce(&mut [T]) -> Result<BegunRequest>,
    ) -> Begins<T> {
        let begun = match begin(&mut values) {
            Ok(begun) => begun,
            Err(error) => return Err(NotBegun { error, values }),
        };
        let (state, way) = match begun {
            BegunRequest::Send { sending, to, tag, keeps } => {
                let state = match sending {
                    Sending::Done => State::Over(Outcome::sent()),
                    Sending::Pending(id) => State::Under(id),
                };
                (state, Way::Out { to, tag, _keeps: keeps })
            }
            BegunRequest::Spread(Receiving::Done(outcome)) => (State::Over(outcome), Way::Spread),
            BegunRequest::Spread(Receiving::Pending(id)) => (State::Under(id), Way::Spread),
        };
        Ok(OwnedRequest { communicator: self.clone(), values, state, way })
    }

    /// Receives a message into nothing: who sends it does not wait for ever, whatever its length.
    #[cold]
    fn discard(&self, message: Message) {
        if let Receiving::Pending(request) = self.start_receive_taken(message, UserMemory::EMPTY) {
            let _ = self.wait(request);
        }
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
        self.perform(Collective::Barrier, Payload::EMPTY, UserMemory::EMPTY, Combining::Nothing)
    }

    /// Brings the root's values to all; everybody gives room of the same length (MPI 5.0 §6.4).
    ///
    /// # Errors
    /// [`Class::Root`].
    pub fn broadcast<T: Datatype>(&self, values: &mut [T], root: Rank) -> Result<()> {
        self.check_root(root)?;
        self.check(|| format!("broadcast, root {}, {}", root.0, amount::<T>(values.len())))?;
        let bytes = values.len() * value_bytes::<T>();
        let (memory, landing) = inbound(values)?;
        if self.rank() == root {
            landing.load(values)?;
        }
        self.perform(Collective::Bcast { root, bytes }, Payload::EMPTY, memory, Combining::Nothing)?;
        landing.land(values, bytes)
    }

    /// Brings everybody's values to the root, in rank order; `None` elsewhere (MPI 5.0 §6.5).
    ///
    /// # Errors
    /// [`Class::Root`]; [`Class::Rank`] at the root where ranks are blank: see
    /// [`Communicator::gather_segments`].
    pub fn gather<T: Datatype>(&self, values: &[T], root: Rank) -> Result<Option<Vec<T>>> {
        let segments = self.gather_segments(values, root)?;
        segments.map(|segments| self.complete(segments, "gather_segments")).transpose()
    }

    /// Brings everybody's values to everybody, in rank order (MPI 5.0 §6.7).
    ///
    /// # Errors
    /// A lost peer; [`Class::Rank`] where ranks are blank: see [`Communicator::all_gather_segments`].
    pub fn all_gather<T: Datatype>(&self, values: &[T]) -> Result<Vec<T>> {
        self.complete(self.all_gather_segments(values)?, "all_gather_segments")
    }

    /// Deals the root's values out, `count` to each rank in order; only the root's `values` are looked at
    /// (MPI 5.0 §6.6).
    ///
    /// # Errors
    /// [`Class::Root`]; [`Class::Count`] where the root has not `count` values for each rank.
    pub fn scatter<T: Datatype>(&self, values: &[T], count: usize, root: Rank) -> Result<Vec<T>> {
        self.check_root(root)?;
        if self.rank() == root && values.len() != count * self.size() as usize {
            let what =
                format!("{}: {} values for {} ranks of {count}", self.place(), values.len(), self.size());
            return Err(Error::new(Class::Count, what));
        }
        self.check(|| format!("scatter, root {}, {}", root.0, amount::<T>(count)))?;
        let bytes = count * value_bytes::<T>();
        let scatter = Collective::Scatter(Rooted { root, bytes, in_place: false });
        let mut mine = blank(count);
        self.move_values(scatter, if self.rank() == root { values } else { &[] }, &mut mine)?;
        Ok(mine)
    }

    /// Sends the i-th part of `values` to rank i, and returns what came, in rank order (MPI 5.0 §6.8).
    ///
    /// # Errors
    /// [`Class::Count`] where the values cannot be dealt out evenly; [`Class::Rank`] where ranks are blank:
    /// see [`Communicator::all_to_all_segments`].
    pub fn all_to_all<T: Datatype>(&self, values: &[T]) -> Result<Vec<T>> {
        self.complete(self.all_to_all_segments(values)?, "all_to_all_segments")
    }

    /// A collective operation that brings values from all to all, and combines none.
    pub(crate) fn move_values<T: Datatype>(
        &self,
        collective: Collective,
        values: &[T],
        all: &mut [T],
    ) -> Result<()> {
        let outbound = outbound(values)?;
        let (memory, landing) = inbound(all)?;
        self.perform(collective, outbound.payload, memory, Combining::Nothing)?;
        landing.land(all, all.len() * value_bytes::<T>())
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
        let combining = Combining::Predefined(operator, T::DATATYPE);
        self.perform(collective, reading(values), writing(&mut result), combining)?;
        Ok(result)
    }

    fn reduction<T: Transferable>(&self, values: &[T], operator: Operator) -> Result<Reduction> {
        if !operator.is_legal_for(T::DATATYPE) || !operator.is_collective() {
            let what = format!("{}: {operator} is not defined for {}", self.place(), T::DATATYPE);
            return Err(Error::new(Class::Operator, what));
        }
        let operator = Shaped { element_bytes: value_bytes::<T>(), commutative: true };
        Ok(Reduction { count: values.len(), operator, in_place: false })
    }
}

/// How much of what, for the comparison of calls.
pub(crate) fn amount<T: Datatype>(count: usize) -> String {
    match T::SHAPE {
        datatype::TypeShape::Number { predefined, .. } => format!("{count} of {predefined}"),
        shape => format!("{count} of {} bytes", shape.bytes()),
    }
}

pub(crate) fn check_tag(tag: i32) -> Result<()> {
    if tag >= 0 {
        Ok(())
    } else {
        Err(Error::new(Class::Tag, format!("the tag is {tag}, tags are not negative")))
    }
}

/// What a message of any length can be received as.
///
/// Sealed: all of them make their room by the length of the message.
pub trait FromMessage: sealed::SealedBuffer + Sized {
    /// Receives a message that was taken.
    #[doc(hidden)]
    fn from_message(communicator: &Communicator, message: Message) -> Result<(Self, Status)>;
}

mod sealed {
    pub trait SealedBuffer {}
}

impl<T: Datatype> sealed::SealedBuffer for Vec<T> {}
impl<T: Datatype> FromMessage for Vec<T> {
    fn from_message(communicator: &Communicator, message: Message) -> Result<(Vec<T>, Status)> {
        let mut values = Vec::new();
        let room =
            values_in::<T>(message.probed().bytes, || communicator.place().to_string()).and_then(|count| {
                values = blank::<T>(count);
                inbound(&mut values)
            });
        let (memory, landing) = match room {
            Ok(room) => room,
            Err(error) => {
                communicator.discard(message);
                return Err(error);
            }
        };
        let outcome = match communicator.start_receive_taken(message, memory) {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => communicator.wait(request),
        };
        let status = communicator.checked(&outcome)?;
        landing.land(&mut values, status.bytes)?;
        Ok((values, status))
    }
}

impl<T: Datatype> sealed::SealedBuffer for Box<[T]> {}
impl<T: Datatype> FromMessage for Box<[T]> {
    fn from_message(communicator: &Communicator, message: Message) -> Result<(Box<[T]>, Status)> {
        Vec::from_message(communicator, message).map(|(values, status)| (values.into(), status))
    }
}

impl sealed::SealedBuffer for String {}
impl FromMessage for String {
    fn from_message(communicator: &Communicator, message: Message) -> Result<(String, Status)> {
        let (bytes, status) = Vec::<u8>::from_message(communicator, message)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let what = format!("{}: the message is no text: {error}", communicator.place());
            Error::new(Class::Type, what).remedy("receive it as Vec<u8>")
        })?;
        Ok((text, status))
    }
}
