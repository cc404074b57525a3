//! Point-to-point messages of a communicator (MPI 5.0, chapter 3).

use fabric::{FabricError, Peer, Room};
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use messaging::{
    Engine, Envelope, Message, Mode, Outcome, Pattern, Pending, Rank, Receiving, RequestId, Sendable,
    Sending, Target,
};

use super::{Communicator, Received, Status};
use crate::process::{WaitsFor, failure_class, failure_text};

impl Communicator {
    /// Begins a send.
    ///
    /// # Errors
    /// [`Class::Rank`] where `to` is no member; what the fabric says where it cannot be reached.
    #[inline(always)]
    pub fn start_send<'a>(&self, data: impl Sendable<'a>, to: Rank, tag: i32, mode: Mode) -> Result<Sending> {
        let inner = &*self.inner;
        let Some(peer) = inner.group.peer(to) else { return Err(self.no_rank(to)) };
        let envelope = Envelope { context: self.context(), source: inner.rank, tag };
        let begun = match inner.process.hold_to_send(peer) {
            Some(mut engine) => engine.send(peer, envelope, data, mode),
            None => inner.process.send(peer, envelope, data.data(), mode),
        };
        match begun {
            Ok(sending) => Ok(sending),
            Err(error) => Err(self.send_failed(error, to, tag)),
        }
    }

    /// Sends and waits until the buffer is free.
    ///
    /// # Errors
    /// [`Class::Rank`] where `to` is no member; what the fabric says where it cannot be reached; what failed
    /// while this process waited.
    #[inline(always)]
    pub fn send_claim<'a>(&self, data: impl Sendable<'a>, to: Rank, tag: i32, mode: Mode) -> Result<()> {
        match self.start_send(data, to, tag, mode)? {
            Sending::Done => Ok(()),
            Sending::Pending(request) => self.conclude_send(&self.wait(request), to, tag),
        }
    }

    /// Begins a receive; `None` is any source or any tag.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    #[inline]
    pub fn start_receive(
        &self,
        target: impl Into<Target>,
        from: Option<Rank>,
        tag: Option<i32>,
    ) -> Result<Receiving> {
        let (pattern, peer) = self.pattern(from, tag)?;
        Ok(self.inner.process.receive(pattern, peer, target))
    }

    /// Receives if nothing stands in the way and the message comes within a few looks. `None`: nothing has
    /// happened, and [`Communicator::receive_claim`] knows what to do.
    #[inline(always)]
    #[must_use]
    pub fn receive_if_soon(&self, room: Room, from: Rank, tag: Option<i32>) -> Option<Status> {
        let inner = &*self.inner;
        let pattern = Pattern { context: self.context(), source: Some(from), tag };
        let found = inner.process.receive_if_soon(pattern, inner.group.peer(from)?, room)?;
        Some(Status { source: found.source, tag: found.tag, bytes: found.bytes, cancelled: false })
    }

    /// Posts a receive that no message waits for yet. `None`: nothing has happened, since there is one, or
    /// the peer is lost, and [`Communicator::start_receive`] knows what to do.
    #[inline(always)]
    #[must_use]
    pub fn receive_later(&self, room: Room, from: Rank, tag: i32) -> Option<RequestId> {
        let inner = &*self.inner;
        let envelope = Envelope { context: self.context(), source: from, tag };
        inner.process.receive_later(envelope, inner.group.peer(from)?, room)
    }

    /// Receives and waits.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member. What goes wrong with the message stands in the answer.
    #[inline(always)]
    pub fn receive_claim(
        &self,
        target: impl Into<Target>,
        from: Option<Rank>,
        tag: Option<i32>,
    ) -> Result<Received> {
        let (pattern, peer) = self.pattern(from, tag)?;
        Ok(self.conclude_receive(&self.inner.process.receive_awaited(pattern, peer, target)))
    }

    /// Waits until a message is there, and describes it without receiving it (MPI 5.0 §3.8.1).
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn probe(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Status> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let waits_for =
            |_: &mut Engine<Fabrics>| WaitsFor::Operations(vec![Pending::Receive { from: peer, pattern }], 1);
        let probed = self.inner.process.until_told(waits_for, |engine| {
            let lost = |engine: &mut Engine<Fabrics>| engine.obstacle(&pattern, peer).map(Err);
            engine.probe(&pattern).map(Ok).or_else(|| lost(engine))
        });
        let probed = probed.map_err(|failure| self.nothing_comes(&failure))?;
        Ok(Status { source: probed.source, tag: probed.tag, bytes: probed.bytes, cancelled: false })
    }

    /// Describes a message if one is there.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn probe_now(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Option<Status>> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let probed = self.inner.process.probe(&pattern);
        if probed.is_none() {
            self.check_source(&pattern, peer)?;
        }
        Ok(probed.map(|probed| Status {
            source: probed.source,
            tag: probed.tag,
            bytes: probed.bytes,
            cancelled: false,
        }))
    }

    /// Waits for a message and takes it out of reach of other receives (MPI 5.0 §3.8.2).
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn take(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Message> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let waits_for =
            |_: &mut Engine<Fabrics>| WaitsFor::Operations(vec![Pending::Receive { from: peer, pattern }], 1);
        let taken = self.inner.process.until_told(waits_for, |engine| {
            let lost = |engine: &mut Engine<Fabrics>| engine.obstacle(&pattern, peer).map(Err);
            engine.take(&pattern).map(Ok).or_else(|| lost(engine))
        });
        taken.map_err(|failure| self.nothing_comes(&failure))
    }

    /// Takes a message if one is there.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn take_now(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Option<Message>> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let taken = self.inner.process.take(&pattern);
        if taken.is_none() {
            self.check_source(&pattern, peer)?;
        }
        Ok(taken)
    }

    /// An error where what `pattern` asks for may never come: a probe that says that nothing is there says it
    /// for ever.
    fn check_source(&self, pattern: &Pattern, peer: Option<Peer>) -> Result<()> {
        match self.inner.process.with_engine(|engine| engine.obstacle(pattern, peer)) {
            None => Ok(()),
            Some(failure) => Err(self.nothing_comes(&failure)),
        }
    }

    /// The error of a failure that says itself whom it is about. All members come here when one revokes, one
    /// behind the other where they share cores: so its text is made in one piece of memory.
    #[cold]
    pub(crate) fn nothing_comes(&self, failure: &messaging::Failure) -> Error {
        let mut what = self.place();
        what.push_str(": ");
        what.push_str(&failure_text(failure));
        Error::new(failure_class(failure), what)
    }

    /// Begins to receive a message that was taken.
    pub fn start_receive_taken(&self, message: Message, target: impl Into<Target>) -> Receiving {
        self.inner.process.receive_matched(message, target)
    }

    /// Waits for a request of this communicator.
    pub fn wait(&self, request: RequestId) -> Outcome {
        self.inner.process.wait(request)
    }

    /// Cancels a send or a receive that nothing has matched. A send that need not wait for its receiver
    /// completes once its message has left.
    pub fn cancel(&self, request: RequestId) {
        self.inner.process.cancel(request);
    }

    /// Whether a send went well.
    ///
    /// # Errors
    /// What failed, with the partner.
    pub fn conclude_send(&self, outcome: &Outcome, to: Rank, tag: i32) -> Result<()> {
        match &outcome.failure {
            None => Ok(()),
            Some(failure) => Err(Error::new(
                failure_class(failure),
                format!("{} to rank {} tag {tag}: {}", self.place(), self.named(to).0, failure_text(failure)),
            )),
        }
    }

    /// What became of a receive, in words where something failed.
    #[inline]
    pub fn conclude_receive(&self, outcome: &Outcome) -> Received {
        let status = Status::of(outcome);
        let error = outcome.failure.as_ref().map(|_| self.receive_failed(outcome));
        Received { status, error, signature: outcome.signature }
    }

    #[cold]
    fn receive_failed(&self, outcome: &Outcome) -> Error {
        let Some(failure) = &outcome.failure else { return Error::new(Class::Internal, "nothing failed") };
        match **failure {
            messaging::Failure::Truncated { .. } => {
                let source = self.named(outcome.source).0;
                let from = format!("{} from rank {source} tag {}", self.place(), outcome.tag);
                Error::new(Class::Truncated, format!("{from}: {}", failure_text(failure)))
                    .remedy("give a larger buffer, or ask for the size with MPI_Probe and MPI_Get_count")
            }
            _ => self.nothing_comes(failure),
        }
    }

    #[cold]
    pub(super) fn send_failed(&self, error: Box<FabricError>, to: Rank, tag: i32) -> Error {
        Error::from(error).during(format!("{} to rank {} tag {tag}", self.place(), self.named(to).0))
    }

    #[cold]
    pub(super) fn no_rank(&self, rank: Rank) -> Error {
        let what =
            format!("{}: rank {} does not exist, the size is {}", self.place(), rank.0, self.partners());
        Error::new(Class::Rank, what)
    }
}
