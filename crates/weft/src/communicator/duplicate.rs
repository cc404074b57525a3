//! Copies of communicators, made while the caller waits or while it does something else (MPI 5.0 §7.4.2).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use collectives::{Advance, Buffers, Execution, Failed};
use fabric::Heap;
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use job::lock::lock;
use messaging::{Engine, RequestId};

use super::agree::{Ballot, attempt_of, combine};
use super::check::{COMPARISONS, CallComparison, Called, ComparisonNumbers};
use super::{Communicator, TAGS};
use crate::background::Operation;
use crate::contexts::{self, Lease, Proposal};
use crate::memory::sending;

impl Communicator {
    /// A new communicator of the same group, or of the same two groups, with the attributes whose keys say so
    /// (MPI 5.0 §7.4.2). Collective.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn duplicate(&self) -> Result<Communicator> {
        let copy = self.duplicate_bare(COPY)?;
        copy.attributes().inherit(self.attributes());
        Ok(copy)
    }

    /// A new communicator of the same group, or of the same two groups, without attributes, on which an
    /// object with a context of its own is built. `made` says in its label how it was made. Collective.
    ///
    /// # Errors
    /// When a member is lost.
    pub(crate) fn duplicate_bare(&self, made: &'static str) -> Result<Communicator> {
        let meeting = self.meeting();
        let seed = meeting.next_seed();
        let (lease, _) = meeting.vote(seed, 0)?;
        let copy = self.copy(lease, seed, made)?;
        // Members have come to know it in one call and make the copy in another, so they know it alike.
        if let Some(placement) = self.inner.placement.get() {
            let _ = copy.inner.placement.set(placement.clone());
        }
        Ok(copy)
    }

    /// Begins to duplicate the communicator (MPI 5.0 §7.4.2); the operation goes on with whatever this
    /// process does next. The copy gets the attributes that this communicator has when the copy is taken.
    /// Collective.
    pub fn start_duplicate(&self) -> Duplicating {
        let meeting = self.meeting();
        let process = &meeting.inner.process;
        let id = process.with_engine(|engine| engine.promise());
        let ended = Arc::default();
        let checking = process.checks().then(|| {
            let called = Called { by_all: "MPI_Comm_idup".to_owned(), ..Called::default() };
            process.with_engine(|engine| CallComparison::new(self, called, engine))
        });
        let own = || ComparisonNumbers { tag: meeting.next_nonblocking_tag(), seed: meeting.next_seed() };
        let ComparisonNumbers { tag, seed } = checking.as_ref().map_or_else(own, CallComparison::numbers);
        let attempt = Attempt::new(&meeting, process.propose_context(attempt_of(seed, 0)), tag);
        let (original, ended_by) = (self.clone(), Arc::clone(&ended));
        let duplication =
            Duplication { original, checking, tag, seed, attempts: 1, attempt, id, ended: ended_by };
        process.entrust(Box::new(duplication));
        Duplicating { original: self.clone(), id, ended, inherits: true }
    }

    /// Stands for a communicator that is still being made: the same group, and no way to send anything.
    #[must_use]
    pub fn placeholder(&self) -> Communicator {
        let lease = Lease::new(self.inner.process.clone(), contexts::NOWHERE);
        self.copy(lease, 0, COPY).unwrap_or_else(|_| self.clone())
    }

    fn copy(&self, lease: Lease, seed: u64, made: &'static str) -> Result<Communicator> {
        let label = self.label_of_child(made);
        let copy = match &self.inner.inter {
            None => {
                let topology = self.inner.topology.clone();
                self.arranged_child(self.group().clone(), lease, seed, label, topology)
            }
            Some(inter) => self.child_across(inter.local.clone(), inter.remote.clone(), lease, seed, label),
        };
        copy.ok_or_else(|| self.lost_itself())
    }

    /// A tag for a nonblocking operation: many may be under way.
    pub(super) fn next_nonblocking_tag(&self) -> i32 {
        let number = self.inner.nonblocking.fetch_add(1, Ordering::Relaxed);
        self.tell_segment();
        (TAGS + number % NONBLOCKING_TAGS) as i32
    }

    /// A tag for an operation that is planned now and begun any number of times: members plan in one order,
    /// and begin in any (MPI 5.0 §6.13). Collective.
    #[must_use]
    pub fn plan_tag(&self) -> i32 {
        // Counted once for all that it recovers to: what was planned before may be begun beside what is
        // planned later.
        let counts = self.inner.inter.as_ref().map_or(self, |inter| &inter.bridge);
        let number = counts.inner.planned.fetch_add(1, Ordering::Relaxed) % PLANNED_TAGS;
        (TAGS + NONBLOCKING_TAGS + number) as i32
    }
}

/// A copy that is being made.
///
/// Dropping it does not stop it: the other members count on it.
#[must_use = "the copy is what comes out when this is waited for"]
pub struct Duplicating {
    original: Communicator,
    id: RequestId,
    ended: Arc<DuplicateEnded>,
    /// Whether it gets the attributes of what it is made from.
    inherits: bool,
}

pub(super) type DuplicateEnded = Mutex<Option<Result<Communicator>>>;

impl Duplicating {
    /// Something else that is made while other things go on, without attributes.
    pub(super) fn bare(original: Communicator, id: RequestId, ended: Arc<DuplicateEnded>) -> Duplicating {
        Duplicating { original, id, ended, inherits: false }
    }

    /// The communicator that it will be a copy of.
    #[must_use]
    pub fn original(&self) -> &Communicator {
        &self.original
    }

    /// The request that ends when the copy is there.
    #[must_use]
    pub fn request(&self) -> RequestId {
        self.id
    }

    /// Makes one turn of progress; true when [`Duplicating::wait`] would not wait.
    #[must_use]
    pub fn test(&self) -> bool {
        self.original.process().peek(self.id).is_some()
    }

    /// Waits for the copy.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn wait(self) -> Result<Communicator> {
        self.original.wait(self.id);
        self.take()
    }

    /// The copy, when its request has been ended by other means.
    ///
    /// # Errors
    /// When a member is lost; [`Class::Pending`] when it is not over.
    pub fn take(&self) -> Result<Communicator> {
        let ended = lock(&self.ended).take();
        let made = ended
            .unwrap_or_else(|| Err(Error::new(Class::Pending, "the communicator is still being made")))?;
        // Both may have shrunk in place since.
        let made = made.latest();
        if self.inherits {
            made.attributes().inherit(self.original.latest().attributes());
        }
        Ok(made)
    }
}

/// One go at agreeing on a number.
struct Attempt {
    proposal: Proposal,
    execution: Execution,
    /// What the execution reads.
    _mine: Heap,
    all: Heap,
}

impl Attempt {
    fn new(meeting: &Communicator, proposal: Proposal, tag: i32) -> Attempt {
        let (mine, all) = Ballot::of(&proposal, 0).rooms();
        let inner = &*meeting.inner;
        let schedule = Ballot::COMBINE.schedule(&meeting.shape());
        let buffers = Buffers { input: sending(&mine), output: all.memory() };
        let execution = Execution::new(schedule, buffers, meeting.collective_context(), tag, inner.rank);
        Attempt { proposal, execution, _mine: mine, all }
    }
}

/// A copy under way.
struct Duplication {
    original: Communicator,
    /// With checks on, what the members have called; nothing else is done before that is known.
    checking: Option<CallComparison>,
    /// Of all attempts: they follow each other.
    tag: i32,
    seed: u64,
    attempts: u64,
    attempt: Attempt,
    id: RequestId,
    ended: Arc<DuplicateEnded>,
}

impl Operation for Duplication {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        if let Some(checking) = &mut self.checking {
            match checking.advance(engine) {
                None => return false,
                Some(Ok(())) => self.checking = None,
                Some(Err(error)) => {
                    self.original.process().contexts().settle(&self.attempt.proposal, 0);
                    return self.end(engine, Err(error));
                }
            }
        }
        loop {
            let meeting = self.original.meeting();
            let place =
                |rank| meeting.inner.group.peer(rank).expect("schedules name ranks of the communicator");
            let ended = match self.attempt.execution.advance(engine, &place, &mut combine) {
                Advance::Pending => return false,
                Advance::Failed(failed) => Err(self.failed(engine, &failed)),
                Advance::Done => {
                    let all = Ballot::read(self.attempt.all.payload());
                    let process = &meeting.inner.process;
                    let Some(lease) = all.settle(process, &self.attempt.proposal) else {
                        let proposal = process.contexts().propose(attempt_of(self.seed, self.attempts));
                        self.attempts += 1;
                        self.attempt = Attempt::new(&meeting, proposal, self.tag);
                        continue;
                    };
                    self.original.copy(lease, self.seed, COPY)
                }
            };
            return self.end(engine, ended);
        }
    }

    fn want(&mut self, request: RequestId) {
        if request == self.id
            && let Some(checking) = &mut self.checking
        {
            checking.want();
        }
    }
}

impl Duplication {
    fn end(&self, engine: &mut Engine<Fabrics>, ended: Result<Communicator>) -> bool {
        *lock(&self.ended) = Some(ended);
        engine.fulfil(self.id);
        true
    }

    #[cold]
    fn failed(&mut self, engine: &mut Engine<Fabrics>, failed: &Failed) -> Error {
        self.attempt.execution.abandon(engine);
        self.original.process().contexts().settle(&self.attempt.proposal, 0);
        let with = self.original.meeting().named(failed.with);
        super::collective_failed(&Failed { with, ..failed.clone() }).during(self.original.place())
    }
}

/// How copies are called; copies of copies the same.
const COPY: &str = "duplicate of ";
/// Tags of nonblocking operations lie above those of blocking ones.
const NONBLOCKING_TAGS: u32 = 1 << 30;
/// Behind those, up to those of comparisons.
const PLANNED_TAGS: u32 = (1 << 30) - TAGS - 2 * COMPARISONS;
