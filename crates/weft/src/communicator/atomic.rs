//! Collective operations that succeed at all members or at none, and how many have succeeded at each (rules
//! D5 and D6, decision 0014).

use std::sync::atomic::{AtomicU64, Ordering};

use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use messaging::{Decision, Engine, GOES_ON};

use super::Communicator;
use super::failures::Deciding;
use super::recovery::CollectiveMode;

/// How many collective operations were completed.
#[derive(Default)]
pub(super) struct Completed {
    /// One at a time.
    blocking: AtomicU64,
    begun: AtomicU64,
}

impl Completed {
    /// A blocking operation is over.
    #[inline(always)]
    pub(super) fn one(&self) {
        // Nobody else is in one (MPI 5.0 §6.14).
        self.blocking.store(self.blocking.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// One that was begun is over.
    pub(super) fn one_begun(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn so_far(&self) -> u64 {
        self.blocking.load(Ordering::Relaxed) + self.begun.load(Ordering::Relaxed)
    }
}

impl Communicator {
    /// Whether all learn the same of the end of an operation.
    pub(super) fn is_atomic(&self) -> bool {
        self.inner.standing.is_closed() && self.ft_modes().collectives == CollectiveMode::Atomic
    }

    /// Whether a member has given up what they agree on behind each operation: nobody waits for anybody there
    /// any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.process().with_engine(|engine| engine.is_given_up(&self.inner.standing))
    }

    /// What all learn of an operation that has ended so here.
    #[cold]
    pub(super) fn conclude_with_all(&self, ended: Result<()>) -> Result<()> {
        if self.is_given_up() {
            return self.ended_among_few(ended);
        }
        let mut concluding = Concluding::new(self, self.next_agreement(), ended);
        self.process().until(|engine| concluding.advance(engine))
    }

    /// Where a member has given up, no operation succeeds.
    #[cold]
    pub(super) fn ended_among_few(&self, ended: Result<()>) -> Result<()> {
        ended.and_then(|()| Err(self.failed_elsewhere()))
    }

    fn verdict(&self, ended: Result<()>, decision: &Decision) -> Result<()> {
        let is_good = decision.flags & (OF_OPERATIONS | GOOD) == OF_OPERATIONS | GOOD;
        if ended.is_err() || is_good { ended } else { Err(self.failed_elsewhere()) }
    }

    #[cold]
    fn failed_elsewhere(&self) -> Error {
        let what = format!("{}: the operation has not succeeded at all members", self.place());
        Error::new(Class::ProcFailed, what)
            .remedy("it has here, but with MPIX_FT_COLL_ATOMIC all learn the same; recover, and do it again")
    }
}

/// What all learn of an operation that goes on by itself, and has ended here.
pub(super) struct Concluding {
    deciding: Deciding,
    ended: Option<Result<()>>,
}

impl Concluding {
    /// `number` is that of the agreement; what goes on by itself has taken it when it began, as the others
    /// have.
    pub(super) fn new(of: &Communicator, number: u32, ended: Result<()>) -> Concluding {
        Concluding { deciding: of.deciding(bits(&ended), number, 0), ended: Some(ended) }
    }

    /// Goes as far as it can without waiting.
    pub(super) fn advance(&mut self, engine: &mut Engine<Fabrics>) -> Option<Result<()>> {
        if self.deciding.is_to_come() && engine.is_given_up(&self.deciding.of.inner.standing) {
            self.deciding.pass(engine);
            let ended = self.take_end();
            return Some(self.deciding.of.ended_among_few(ended));
        }
        let decision = self.deciding.advance(engine)?;
        let ended = self.take_end();
        let of = &self.deciding.of;
        of.process().learn_at(engine, &of.members_of(&decision.failed));
        Some(of.verdict(ended, &decision))
    }

    fn take_end(&mut self) -> Result<()> {
        self.ended.take().unwrap_or(Ok(()))
    }
}

fn bits(ended: &Result<()>) -> u64 {
    GOES_ON | OF_OPERATIONS | if ended.is_ok() { GOOD } else { 0 }
}

/// What the members of a communicator call that is an agreement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Agree,
    AgreeFailed,
    Shrink,
    Recover,
}

impl Call {
    /// What a member brings that has called it, beside what the call is about.
    pub(super) fn bits(self) -> u64 {
        OF_CALLS | GOES_ON | self.own()
    }

    /// Whether all who took part have called it. None where somebody had not called for an agreement at all,
    /// but was at the end of an operation, which has failed, or has given up: another agreement follows in
    /// which they all meet.
    ///
    /// # Errors
    /// [`Class::Argument`] where some have called something else; at all alike.
    pub(super) fn heard(self, of: &Communicator, decision: &Decision) -> Option<Result<()>> {
        match decision.flags {
            flags if flags & OF_CALLS == 0 => None,
            flags if flags & self.own() == 0 => Some(Err(self.not_the_same(of))),
            _ => Some(Ok(())),
        }
    }

    /// Each has its own, above what the calls are about.
    fn own(self) -> u64 {
        1 << (32 + self as u32)
    }

    #[cold]
    fn not_the_same(self, of: &Communicator) -> Error {
        let called = match self {
            Call::Agree => "MPIX_Comm_agree",
            Call::AgreeFailed => "MPIX_Comm_agree_failed",
            Call::Shrink => "MPIX_Comm_shrink",
            Call::Recover => "MPIX_Comm_recover",
        };
        let what = format!("{}: {called} here, and something else at other members", of.place());
        Error::new(Class::Argument, what).remedy(
            "all who live agree, shrink and recover in the same order; each of them has got this error, and nothing has changed",
        )
    }
}

/// Each member says one of the two, so that what all have said tells whether they were in the same. Who has
/// given up says neither.
const OF_CALLS: u64 = 1 << 63;
const OF_OPERATIONS: u64 = 1 << 62;
/// The operation has ended well.
const GOOD: u64 = 1;
