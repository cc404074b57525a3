//! Collective operations that go on while the program does something else.

use std::sync::{Arc, Mutex};

use collectives::node::Combine;
use collectives::{Advance, Buffers, Collective, Execution, Listed, Schedule};
use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use job::lock::lock;
use messaging::{Engine, RequestId};

use super::Communicator;
use super::atomic::Concluding;
use super::check::{CallComparison, Called};
use super::combining::OwnedCombining;
use super::segment::Watch;
use crate::background::Operation;
use crate::recent::RecentKind;

/// A collective operation under way. Dropping it does not stop it: the other members count on it.
#[must_use = "whether it went well is known when it is waited for"]
pub struct Ongoing {
    of: Communicator,
    id: RequestId,
    ended: Arc<SharedOutcome>,
}

pub(super) type SharedOutcome = Mutex<Option<Result<()>>>;

impl Communicator {
    /// Begins a collective schedule, with what combines its elements where it does that; it goes on with
    /// whatever this process does next. Both claims are in use until it is over. `tag` is that of an
    /// operation which was planned ([`Communicator::plan_tag`]); operations without one are begun in the same
    /// order by all members. Over two groups it numbers the ranks of both ([`Communicator::two_groups`]).
    ///
    /// Where it is told how it was called, that is compared with what the other members have called, and
    /// nothing is done before that is known.
    pub fn start_schedule(
        &self,
        schedule: Schedule,
        buffers: Buffers,
        combining: OwnedCombining,
        tag: Option<i32>,
        called: Option<Called>,
    ) -> Ongoing {
        self.start_keeping(schedule, buffers, combining, tag, called, None)
    }

    /// Begins a collective operation whose blocks differ in length; it goes on with whatever this process
    /// does next. Both claims are in use until it is over. `combining`, `tag` and `called` are those of
    /// [`Communicator::start_schedule`]. Not over two groups.
    pub fn start_uneven(
        &self,
        listed: Listed<'_>,
        buffers: Buffers,
        combining: OwnedCombining,
        tag: Option<i32>,
        called: Option<Called>,
    ) -> Ongoing {
        if let Some(recovered) = self.recovered() {
            let masked = listed.masked(&recovered.ranks, self.size());
            return self.start_masked(&recovered, masked, buffers, combining, tag, called);
        }
        self.start_schedule(listed.schedule(&self.shape()), buffers, combining, tag, called)
    }

    /// Begins a collective schedule, as [`Communicator::start_schedule`] does. `keeps` is the memory that it
    /// reads, where that is the library's own: it is kept until the operation is over.
    pub(super) fn start_keeping(
        &self,
        schedule: Schedule,
        buffers: Buffers,
        combining: OwnedCombining,
        tag: Option<i32>,
        called: Option<Called>,
        keeps: Option<Heap>,
    ) -> Ongoing {
        let meeting = self.meeting();
        let inner = &*meeting.inner;
        let is_planned = tag.is_some();
        let (tag, checking) = self.tag_of(&meeting, tag, called);
        let execution = Execution::new(schedule, buffers, meeting.collective_context(), tag, inner.rank);
        let course = Course { combining, keeps, kind: None, checking, is_planned };
        self.go_on(&meeting, Box::new(execution), course)
    }

    /// Begins a collective operation within one group, as [`Communicator::start_schedule`]. Few bytes go
    /// through the node's shared memory; otherwise an operation that was done lately needs no new schedule.
    pub fn start(
        &self,
        collective: Collective,
        buffers: Buffers,
        combining: OwnedCombining,
        tag: Option<i32>,
        called: Option<Called>,
    ) -> Ongoing {
        let started = self.start_if_not_over(collective, buffers, combining, tag, called);
        started.unwrap_or_else(|| self.ended(Ok(())))
    }

    /// Begins a collective operation within one group, as [`Communicator::start`] does; `None` where the
    /// operation is over, and has gone well.
    pub fn start_if_not_over(
        &self,
        collective: Collective,
        buffers: Buffers,
        combining: OwnedCombining,
        tag: Option<i32>,
        called: Option<Called>,
    ) -> Option<Ongoing> {
        if let Some(recovered) = self.recovered() {
            let masked = collective.masked(&recovered.ranks);
            return Some(self.start_masked(&recovered, masked, buffers, combining, tag, called));
        }
        if let (None, None) = (tag, &called)
            && let Some(next) = self.next_on_segment(collective)
        {
            return self.start_by_segment(next, buffers, combining);
        }
        Some(self.start_by_messages(collective, buffers, combining, tag, called))
    }

    /// An operation that has ended as it was begun.
    pub(super) fn ended(&self, result: Result<()>) -> Ongoing {
        let process = &self.inner.process;
        let (id, ended) = (process.promise(), Arc::<SharedOutcome>::default());
        *lock(&ended) = Some(result);
        process.fulfil(id);
        Ongoing::new(self.clone(), id, ended)
    }

    fn start_by_messages(
        &self,
        collective: Collective,
        buffers: Buffers,
        combining: OwnedCombining,
        tag: Option<i32>,
        called: Option<Called>,
    ) -> Ongoing {
        let (inner, is_planned) = (&*self.inner, tag.is_some());
        let (tag, checking) = self.tag_of(self, tag, called);
        let is = |kept: &RecentKind| matches!(kept, RecentKind::All(kept) if *kept == collective);
        let kept = inner.recent.hold().take(is);
        let (kind, execution) = match kept {
            Some((kind, mut execution)) => {
                execution.again(buffers, tag);
                execution.wait_for(false);
                (kind, execution)
            }
            None => {
                let (kind, schedule) = (RecentKind::All(collective), collective.schedule(&self.shape()));
                let context = self.collective_context();
                (kind, Box::new(Execution::new(schedule, buffers, context, tag, inner.rank)))
            }
        };
        self.go_on(self, execution, Course { combining, keeps: None, kind: Some(kind), checking, is_planned })
    }

    /// The tag of an operation that begins, and the comparison of what was called.
    fn tag_of(
        &self,
        meeting: &Communicator,
        planned: Option<i32>,
        called: Option<Called>,
    ) -> (i32, Option<CallComparison>) {
        let process = &meeting.inner.process;
        let checking =
            called.map(|called| process.with_engine(|engine| CallComparison::new(self, called, engine)));
        let compared = checking.as_ref().map(|checking| checking.numbers().tag);
        (planned.or(compared).unwrap_or_else(|| meeting.next_nonblocking_tag()), checking)
    }

    /// Lets it go on with whatever this process does next.
    fn go_on(&self, meeting: &Communicator, execution: Box<Execution>, course: Course) -> Ongoing {
        let Course { combining, keeps, kind, checking, is_planned } = course;
        meeting.tell_of_passed_over();
        // What was planned is begun in any order, so that nobody knows which agreement would be its end.
        let agreement = (!is_planned && meeting.is_atomic()).then(|| meeting.next_agreement());
        let process = &meeting.inner.process;
        let id = process.with_engine(|engine| engine.promise());
        let ended = Arc::<SharedOutcome>::default();
        process.entrust(Box::new(Underway {
            of: meeting.clone(),
            // Nobody knows when what was planned is begun by the others.
            watch: (!is_planned).then(|| meeting.watch()),
            checking,
            execution: Some(execution),
            kind,
            combining,
            _keeps: keeps,
            failure: None,
            agreement,
            concluding: None,
            id,
            ended: Arc::clone(&ended),
        }));
        Ongoing { of: self.clone(), id, ended }
    }
}

impl Ongoing {
    /// One that ends with that request.
    pub(super) fn new(of: Communicator, id: RequestId, ended: Arc<SharedOutcome>) -> Ongoing {
        Ongoing { of, id, ended }
    }

    /// The communicator of the operation.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.of
    }

    /// The request that ends with it.
    #[must_use]
    pub fn request(&self) -> RequestId {
        self.id
    }

    /// Makes one turn of progress; true when [`Ongoing::wait`] would not wait.
    #[must_use]
    pub fn test(&self) -> bool {
        self.of.process().peek(self.id).is_some()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When a partner is lost or sends what does not fit.
    pub fn wait(self) -> Result<()> {
        self.of.wait(self.id);
        self.take()
    }

    /// The result of the operation, when its request has been ended by other means than [`Ongoing::wait`].
    ///
    /// # Errors
    /// When a partner is lost or sends what does not fit; [`Class::Pending`] when the operation is not over.
    pub fn take(&self) -> Result<()> {
        let ended = lock(&self.ended).take();
        ended.unwrap_or_else(|| Err(Error::new(Class::Pending, "the operation is not over")))
    }
}

/// How an operation goes on, beside its schedule.
struct Course {
    combining: OwnedCombining,
    /// What it reads, where that is the library's own.
    keeps: Option<Heap>,
    /// What it is kept as when it has ended well, if at all.
    kind: Option<RecentKind>,
    /// With checks on, what the members have called.
    checking: Option<CallComparison>,
    /// Whether it was planned, and so begun in any order.
    is_planned: bool,
}

struct Underway {
    of: Communicator,
    watch: Option<Watch>,
    /// With checks on, what the members have called.
    checking: Option<CallComparison>,
    /// Nothing once it is over.
    execution: Option<Box<Execution>>,
    /// What it is kept as when it has ended well, if at all.
    kind: Option<RecentKind>,
    combining: OwnedCombining,
    /// What it reads, where that is the library's own.
    _keeps: Option<Heap>,
    /// Why it failed; it is over when nothing uses its buffers any more.
    failure: Option<Error>,
    /// The number of the agreement that it ends with, if it does.
    agreement: Option<u32>,
    concluding: Option<Concluding>,
    id: RequestId,
    ended: Arc<SharedOutcome>,
}

impl Operation for Underway {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        if let Some(concluding) = &mut self.concluding {
            let Some(ended) = concluding.advance(engine) else { return false };
            return self.tell(engine, ended);
        }
        if let Some(checking) = &mut self.checking {
            match checking.advance(engine) {
                None => return false,
                Some(Ok(())) => self.checking = None,
                Some(Err(error)) => return self.end(engine, Err(error)),
            }
        }
        let Some(execution) = &mut self.execution else { return true };
        if self.failure.is_none() {
            let group = &self.of.inner.group;
            let place = |rank| group.peer(rank).expect("schedules name ranks of the communicator");
            let combining = self.combining.lend();
            let mut combine = |left: Payload<'_>, out: &mut UserMemory| combining.combine(left, None, out);
            match execution.advance(engine, &place, &mut combine) {
                Advance::Pending => {
                    if let Some(watch) = &mut self.watch {
                        watch.look(&self.of, execution, engine);
                    }
                    return false;
                }
                Advance::Done => return self.end(engine, Ok(())),
                Advance::Failed(failed) => {
                    if let Some(watch) = &self.watch {
                        watch.tell_of(&self.of, &failed);
                    }
                    self.failure = Some(self.of.told(&failed));
                }
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.look_back(&self.of, execution);
        }
        execution.abandon(engine);
        if !execution.is_settled() {
            return false;
        }
        let failure = self.failure.take();
        self.end(engine, failure.map_or(Ok(()), Err))
    }

    fn want(&mut self, request: RequestId) {
        if request == self.id
            && let Some(checking) = &mut self.checking
        {
            checking.want();
        }
    }
}

impl Underway {
    fn end(&mut self, engine: &mut Engine<Fabrics>, ended: Result<()>) -> bool {
        let kept = self.execution.take().zip(self.kind.take().filter(|_| ended.is_ok()));
        if let Some((execution, kind)) = kept {
            self.of.inner.recent.hold().keep(kind, execution);
        }
        let Some(number) = self.agreement else { return self.tell(engine, ended) };
        self.concluding = Some(Concluding::new(&self.of, number, ended));
        self.advance(engine)
    }

    fn tell(&mut self, engine: &mut Engine<Fabrics>, ended: Result<()>) -> bool {
        if ended.is_ok() {
            self.of.inner.completed.one_begun();
        }
        *lock(&self.ended) = Some(ended);
        engine.fulfil(self.id);
        true
    }
}
