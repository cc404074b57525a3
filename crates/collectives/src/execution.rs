//! Runs a schedule on an engine, a chunk at a time.
//!
//! [`Execution::advance`] begins all it can, asks the engine what has ended, and returns; whoever waits calls
//! [`Engine::progress`] in between. Executions of one communicator that go on at the same time are kept apart
//! by their tags.

use std::fmt;
use std::sync::Arc;

use fabric::{Fabric, FabricError, Heap, Payload, Peer, UserMemory, crash};
use messaging::{
    Engine, Envelope, Failure, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending, Ticket,
};

use crate::memory;
use crate::schedule::{Buffer, Schedule, Span, Step};

/// A schedule under way.
///
/// One that is dropped before it is done leaves its messages to the engine; what they still read of its
/// scratch room is never freed. Call [`Execution::abandon`] first, or the receives stay posted as well.
pub struct Execution {
    schedule: Arc<Schedule>,
    buffers: Buffers,
    scratch: UserMemory,
    context: u32,
    tag: i32,
    here: Rank,
    /// Whether envelopes name ranks by their peers.
    by_peer: bool,
    /// The first step that was not taken yet.
    next: usize,
    pending: Vec<Pending>,
    /// Whether the caller waits for the end of it and does nothing else.
    is_waited_for: bool,
    /// The one receive that is waited for, where there is nothing else.
    awaited: Option<Awaited>,
    /// The engine's count of completions when it was last asked; nothing that is pending ended before.
    asked_at: u64,
    failed: Option<Failed>,
}

/// The user's memory. The claims behind both must hold until the execution is done; after a failure, until
/// [`Execution::is_settled`].
pub struct Buffers {
    /// What the rank contributes.
    pub input: Payload<'static>,
    /// What the rank gets.
    pub output: UserMemory,
}

/// A function that sets its second argument to first op second, for packed elements that both have the same
/// number of.
pub type ReduceFn<'a> = dyn FnMut(Payload<'_>, &mut UserMemory) + 'a;

/// How far an execution is.
#[must_use]
#[derive(Clone, PartialEq, Debug)]
pub enum Advance {
    /// Something has still to come or go.
    Pending,
    /// The output is complete.
    Done,
    /// The operation will not complete; the output may have changed.
    Failed(Failed),
}

/// Why an execution failed, and with whom.
#[derive(Clone, PartialEq, Debug)]
pub struct Failed {
    /// The rank at the other side.
    pub with: Rank,
    /// What this rank was doing.
    pub activity: Activity,
    /// What went wrong.
    pub cause: Cause,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activity = match self.activity {
            Activity::Sending => "sending to",
            Activity::Receiving => "receiving from",
            Activity::TakingPart => return self.cause.fmt(f),
        };
        write!(f, "{activity} rank {}: {}", self.with.0, self.cause)
    }
}

impl std::error::Error for Failed {}

/// What can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// To the rank.
    Sending,
    /// From the rank.
    Receiving,
    /// The operation as a whole, at the rank itself: some other member is gone.
    TakingPart,
}

/// What went wrong.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Cause {
    /// The peer is gone or cannot be reached.
    #[error(transparent)]
    Lost(FabricError),
    /// The communicator is revoked.
    #[error("the communicator is revoked")]
    Revoked,
    /// The ranks do not mean the same operation.
    #[error(
        "{sent_bytes} bytes came where {expected_bytes} were expected\nall ranks must call the same collective \
         operations in the same order, with the same root and matching counts and datatypes"
    )]
    Mismatch {
        /// Length of the message in bytes.
        sent_bytes: usize,
        /// Length that this rank's schedule asks for.
        expected_bytes: usize,
    },
    /// The rank has gone on to something else.
    #[error(
        "it takes part in another collective operation, in another order, with another root or with other lengths\nall \
         ranks must call the same collective operations in the same order, with the same root and matching counts and \
         datatypes; WEFT_CHECK=1 shows who called what"
    )]
    Elsewhere,
}

/// A message that is on its way.
struct Pending {
    request: RequestId,
    with: Rank,
    activity: Activity,
    bytes: usize,
    /// Whether it reads or writes the execution's own room.
    in_scratch: bool,
    /// Whether it is known that no receive will match it.
    in_vain: bool,
}

/// A receive that is the only thing on its way.
#[derive(Clone, Copy)]
struct Awaited {
    ticket: Ticket,
    from: Rank,
    bytes: usize,
}

impl Execution {
    /// Makes ready to run `schedule`; nothing moves before [`Execution::advance`].
    ///
    /// `context` is the communicator's for collective traffic, `tag` a number that no other execution under
    /// way there has, the same at all ranks; `here` is this rank. What a step would touch outside of the
    /// buffers is left untouched.
    #[must_use]
    pub fn new(
        schedule: impl Into<Arc<Schedule>>,
        buffers: Buffers,
        context: u32,
        tag: i32,
        here: Rank,
    ) -> Execution {
        let schedule = schedule.into();
        check_room(&schedule, &buffers);
        let scratch = match schedule.scratch_bytes {
            0 => UserMemory::EMPTY,
            bytes => Heap::new(bytes).memory(),
        };
        Execution {
            schedule,
            buffers,
            scratch,
            context,
            tag,
            here,
            by_peer: false,
            next: 0,
            pending: Vec::new(),
            is_waited_for: false,
            awaited: None,
            asked_at: 0,
            failed: None,
        }
    }

    /// Promises that the caller goes on calling [`Execution::advance`] until the execution has ended, as
    /// blocking operations do. A receive that is the only thing to wait for then costs no request.
    #[must_use]
    pub fn waited_for(mut self) -> Execution {
        self.wait_for(true);
        self
    }

    /// Says whether the caller goes on calling [`Execution::advance`] until the execution has ended, as
    /// blocking operations do; for an execution that begins [`again`](Execution::again). If so, a receive
    /// that is the only thing to wait for costs no request.
    #[inline]
    pub fn wait_for(&mut self, is_waited_for: bool) {
        self.is_waited_for = is_waited_for;
    }

    /// Lets envelopes name ranks by their peers, for processes that have no communicator in common: whatever
    /// the groups of two executions are, what is sent in one is not received in the other by another rank's
    /// name.
    #[must_use]
    pub fn by_peer(mut self, here: Peer) -> Execution {
        self.here = Rank(here.0);
        self.by_peer = true;
        self
    }

    /// Makes ready to run the same schedule once more, in the room that it has: nothing is allocated.
    ///
    /// # Panics
    /// Unless the last answer of [`Execution::advance`] was [`Advance::Done`].
    pub fn again(&mut self, buffers: Buffers, tag: i32) {
        let over = self.next == self.schedule.steps.len() && self.is_settled() && self.failed.is_none();
        assert!(over, "only what has ended well can begin again: {self:?}");
        check_room(&self.schedule, &buffers);
        (self.buffers, self.tag, self.next) = (buffers, tag, 0);
    }

    /// Lets its buffers go, when it has ended and may begin again.
    pub fn let_go(&mut self) {
        self.buffers = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
    }

    /// Bytes of memory that it holds beside its buffers.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.scratch.bytes()
            + self.schedule.steps.capacity() * size_of::<Step>()
            + self.pending.capacity() * size_of::<Pending>()
    }

    /// Goes as far as it can without waiting. `group` says which peer a rank is; `reduce` sets its second
    /// argument to first op second, for packed elements that both have the same number of.
    ///
    /// The first failure ends it: receives that nothing matched are cancelled, and every further call answers
    /// the same.
    pub fn advance<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        group: &dyn Fn(Rank) -> Peer,
        reduce: &mut ReduceFn<'_>,
    ) -> Advance {
        self.go_on(engine, group, Some(reduce)).expect("it combines by itself")
    }

    /// Goes as far as [`Execution::advance`] does, but combines nothing: `None` where elements are to be
    /// combined. The caller lets the engine go, combines what [`Execution::take_operands`] hands out, and
    /// calls again: so the function that combines may take as long as it wants, call the library, or not
    /// return.
    pub fn advance_to_combine<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        group: &dyn Fn(Rank) -> Peer,
    ) -> Option<Advance> {
        self.go_on(engine, group, None)
    }

    /// The operands that are to be combined now: the first op the second, into the second. The next call goes
    /// on behind them. `None` where nothing is to be combined.
    pub fn take_operands(&mut self) -> Option<(Payload<'static>, UserMemory)> {
        let Some(&Step::Reduce { from, into }) = self.schedule.steps.get(self.next) else { return None };
        self.next += 1;
        Some((self.reading(from), self.writing(into)))
    }

    #[inline(always)]
    fn go_on<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        group: &dyn Fn(Rank) -> Peer,
        mut reduce: Option<&mut ReduceFn<'_>>,
    ) -> Option<Advance> {
        while self.failed.is_none() {
            let step = self.schedule.steps.get(self.next).copied();
            let waits = match step {
                Some(Step::WaitReceived) => self.must_wait_received(engine),
                Some(Step::Wait) | None => self.must_wait(engine),
                Some(_) => false,
            };
            if waits {
                return Some(Advance::Pending);
            }
            let Some(step) = step else { return Some(self.end()) };
            if let Some(failure) = engine.closed(self.context) {
                let (with, activity) = (self.here, Activity::TakingPart);
                self.fail(engine, Failed { with, activity, cause: cause_of(&failure, 0) });
                break;
            }
            if let Step::Reduce { .. } = step {
                crash::point();
                let reduce = reduce.as_mut()?;
                if let Some((left, mut out)) = self.take_operands() {
                    reduce(left, &mut out);
                }
                continue;
            }
            self.next += 1;
            if let Err(failed) = self.take(step, engine, group) {
                self.fail(engine, failed);
            }
        }
        self.must_wait(engine);
        Some(self.end())
    }

    /// Ends it where it is: receives that nothing matched are cancelled, and so are sends to ranks that are
    /// elsewhere and whose messages no receive has matched; what has begun to move goes on until
    /// [`Execution::is_settled`].
    pub fn abandon<F: Fabric>(&mut self, engine: &mut Engine<F>) {
        self.next = self.schedule.steps.len();
        for pending in &self.pending {
            if pending.activity == Activity::Receiving || pending.in_vain {
                engine.cancel(pending.request);
            }
        }
        if let Some(Awaited { ticket, .. }) = self.awaited {
            engine.cancel_awaited(ticket);
            if engine.take_awaited(ticket).is_some() {
                self.awaited = None;
            }
        }
        self.collect(engine);
    }

    /// Ends the execution where it is, as if a message to or from some rank had failed: for a caller that has
    /// found out that ranks do not mean the same operation. Messages to the ranks that `is_elsewhere` names
    /// are taken back where no receive has matched them.
    pub fn give_up<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        failed: Failed,
        is_elsewhere: &dyn Fn(Rank) -> bool,
    ) {
        self.expect_nothing_of(is_elsewhere);
        self.fail(engine, failed);
    }

    /// Takes note that those ranks receive nothing of it any more: [`Execution::abandon`] takes back what no
    /// receive of theirs has matched.
    pub fn expect_nothing_of(&mut self, is_elsewhere: &dyn Fn(Rank) -> bool) {
        for pending in &mut self.pending {
            pending.in_vain |= is_elsewhere(pending.with);
        }
    }

    /// The ranks whose messages it waits for.
    pub fn awaited(&self) -> impl Iterator<Item = Rank> + '_ {
        self.partners().filter(|(activity, _)| *activity == Activity::Receiving).map(|(_, with)| with)
    }

    /// The sends and receives that the execution waits for, each with the rank at the other side.
    pub fn partners(&self) -> impl Iterator<Item = (Activity, Rank)> + '_ {
        let pending = self.pending.iter().map(|pending| (pending.activity, pending.with));
        pending.chain(self.awaited.map(|awaited| (Activity::Receiving, awaited.from)))
    }

    /// Whether no message of it is under way any more; true for one that is done. After a failure it may take
    /// until the other ranks have given up as well.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty() && self.awaited.is_none()
    }

    /// Takes one step that is not a reduction.
    fn take<F: Fabric>(
        &mut self,
        step: Step,
        engine: &mut Engine<F>,
        group: &dyn Fn(Rank) -> Peer,
    ) -> Result<(), Failed> {
        crash::point();
        match step {
            Step::Send { to, from } => return self.send(engine, to, group(to), from),
            Step::Receive { from, into } => return self.receive(engine, from, group(from), into),
            Step::Copy { from, into } => {
                let data = self.reading(from);
                self.writing(into).write_at(0, data);
            }
            Step::Reduce { .. } | Step::WaitReceived | Step::Wait => {}
        }
        Ok(())
    }

    fn send<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        with: Rank,
        peer: Peer,
        span: Span,
    ) -> Result<(), Failed> {
        let envelope = Envelope { context: self.context, source: self.here, tag: self.tag };
        let activity = Activity::Sending;
        let mode = if self.is_waited_for { Mode::Blocking } else { Mode::Standard };
        match engine.send(peer, envelope, self.reading(span), mode) {
            Ok(Sending::Done) => {}
            Ok(Sending::Pending(request)) => self.note(request, with, activity, span),
            Err(error) => return Err(Failed { with, activity, cause: Cause::Lost(*error) }),
        }
        Ok(())
    }

    fn receive<F: Fabric>(
        &mut self,
        engine: &mut Engine<F>,
        with: Rank,
        peer: Peer,
        span: Span,
    ) -> Result<(), Failed> {
        let source = if self.by_peer { Rank(peer.0) } else { with };
        let pattern = Pattern { context: self.context, source: Some(source), tag: Some(self.tag) };
        let activity = Activity::Receiving;
        if self.is_all_to_wait_for() {
            return match engine.receive_awaited(pattern, Some(peer), self.writing(span)) {
                Ok(ticket) => {
                    self.awaited = Some(Awaited { ticket, from: with, bytes: span.bytes });
                    Ok(())
                }
                Err(outcome) => judge(&outcome, with, activity, span.bytes),
            };
        }
        match engine.receive(pattern, Some(peer), self.writing(span)) {
            Receiving::Done(outcome) => judge(&outcome, with, activity, span.bytes)?,
            Receiving::Pending(request) => self.note(request, with, activity, span),
        }
        Ok(())
    }

    /// Whether nothing is under way, and nothing will be before the receive that is just beginning is over.
    #[inline]
    fn is_all_to_wait_for(&self) -> bool {
        let next = self.schedule.steps.get(self.next);
        self.is_waited_for
            && self.pending.is_empty()
            && matches!(next, Some(Step::WaitReceived | Step::Wait) | None)
    }

    fn note(&mut self, request: RequestId, with: Rank, activity: Activity, span: Span) {
        let in_scratch = span.buffer == Buffer::Scratch;
        self.pending.push(Pending { request, with, activity, bytes: span.bytes, in_scratch, in_vain: false });
    }

    fn end(&self) -> Advance {
        self.failed.clone().map_or(Advance::Done, Advance::Failed)
    }

    /// Whether anything has still to end. Asks the engine, if anything at all has ended there since the last
    /// time.
    #[inline]
    fn must_wait<F: Fabric>(&mut self, engine: &mut Engine<F>) -> bool {
        if let Some(Awaited { ticket, from, bytes }) = self.awaited {
            let Some(outcome) = engine.take_awaited(ticket) else { return true };
            self.awaited = None;
            if let Err(failed) = judge(&outcome, from, Activity::Receiving, bytes) {
                self.fail(engine, failed);
            }
            return false;
        }
        if !self.pending.is_empty() && self.asked_at != engine.completions() {
            self.collect(engine);
        }
        !self.pending.is_empty() && self.failed.is_none()
    }

    /// Whether anything has still to come. Sends are left alone.
    #[inline]
    fn must_wait_received<F: Fabric>(&mut self, engine: &mut Engine<F>) -> bool {
        self.must_wait(engine)
            && (self.awaited.is_some() || self.pending.iter().any(|p| p.activity == Activity::Receiving))
    }

    /// Takes note of what has ended.
    fn collect<F: Fabric>(&mut self, engine: &mut Engine<F>) {
        let mut failed = None;
        self.pending.retain(|pending| {
            let Some(outcome) = engine.test(pending.request) else { return true };
            if let Err(failure) = judge(&outcome, pending.with, pending.activity, pending.bytes) {
                failed.get_or_insert(failure);
            }
            false
        });
        self.asked_at = engine.completions();
        if let (Some(failed), None) = (failed, &self.failed) {
            self.fail(engine, failed);
        }
    }

    #[cold]
    fn fail<F: Fabric>(&mut self, engine: &mut Engine<F>, failed: Failed) {
        self.failed = Some(failed);
        self.abandon(engine);
    }

    /// What stands in a span, for a send or a copy: the scratch room is kept while anything reads it (see
    /// `drop`), the rest by the promise of whoever claimed it.
    fn reading(&mut self, span: Span) -> Payload<'static> {
        match span.buffer {
            Buffer::Input => self.buffers.input.part(span.offset, span.bytes),
            Buffer::Output | Buffer::Scratch => memory::reading(&self.writing(span)),
        }
    }

    /// Room to write to. Nothing is ever written to the input.
    fn writing(&mut self, span: Span) -> UserMemory {
        match span.buffer {
            Buffer::Input => UserMemory::EMPTY,
            Buffer::Output => self.buffers.output.part(span.offset, span.bytes),
            Buffer::Scratch => self.scratch.part(span.offset, span.bytes),
        }
    }
}

impl Drop for Execution {
    /// The engine may still read from scratch room for a send that nobody has received; a few bytes are then
    /// lost for good rather than read after they are freed.
    fn drop(&mut self) {
        if self.pending.iter().any(|pending| pending.in_scratch) {
            std::mem::forget(std::mem::replace(&mut self.scratch, UserMemory::EMPTY));
        }
    }
}

impl fmt::Debug for Execution {
    /// Where it stands and whom it waits for, for watchdogs and people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Execution { schedule, next, tag, context, here, .. } = self;
        let (algorithm, steps) = (schedule.algorithm, schedule.steps.len());
        write!(f, "rank {}: {algorithm}, step {next} of {steps}, context {context}, tag {tag}", here.0)?;
        if let Some(Awaited { from, bytes, .. }) = &self.awaited {
            write!(f, "; receive from rank {}: {bytes} bytes", from.0)?;
        }
        for Pending { with, activity, bytes, .. } in &self.pending {
            let verb = if *activity == Activity::Sending { "send to" } else { "receive from" };
            write!(f, "; {verb} rank {}: {bytes} bytes", with.0)?;
        }
        match &self.failed {
            Some(failed) => write!(f, "; failed {failed}"),
            None => Ok(()),
        }
    }
}

fn check_room(schedule: &Schedule, buffers: &Buffers) {
    debug_assert!(
        schedule.fits(buffers.input.bytes(), buffers.output.bytes()),
        "input of {} and output of {} bytes are too small for {schedule}",
        buffers.input.bytes(),
        buffers.output.bytes(),
    );
}

fn cause_of(failure: &Failure, expected_bytes: usize) -> Cause {
    match failure {
        Failure::Lost(error) | Failure::Unacknowledged(error) => Cause::Lost(error.clone()),
        Failure::Revoked => Cause::Revoked,
        Failure::Truncated { sent_bytes, .. } => Cause::Mismatch { sent_bytes: *sent_bytes, expected_bytes },
    }
}

/// Whether a message ended as the schedule wants it. Those that were cancelled were so because of another
/// failure.
///
/// # Errors
/// What became of it.
pub fn judge(outcome: &Outcome, with: Rank, activity: Activity, expected_bytes: usize) -> Result<(), Failed> {
    let cause = match outcome.failure.as_deref() {
        Some(failure) => cause_of(failure, expected_bytes),
        None if outcome.cancelled || activity == Activity::Sending => return Ok(()),
        None if outcome.bytes == expected_bytes => return Ok(()),
        None => Cause::Mismatch { sent_bytes: outcome.bytes, expected_bytes },
    };
    Err(Failed { with, activity, cause })
}
