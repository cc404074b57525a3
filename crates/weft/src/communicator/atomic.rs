//! Collective operations that succeed at all members or at none, and how many have succeeded at each (rules D5 and D6,
//! decision 0035).

use std::sync::atomic::{AtomicU64, Ordering};

use messaging::{Decision, Engine};

use super::Communicator;
use super::failures::Deciding;
use super::recovery::CollectiveMode;
use crate::error::{Class, Error, Result};
use crate::fabrics::Fabrics;

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

    /// One that was taken for over has failed.
    #[cold]
    pub(super) fn one_less(&self) {
        self.blocking.fetch_sub(1, Ordering::Relaxed);
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

    /// What all learn of an operation that has ended so here.
    #[cold]
    pub(super) fn conclude_with_all(&self, ended: Result<()>) -> Result<()> {
        let decision = self.decide(bits(&ended), self.next_agreement(), 0);
        self.process().learn(&self.members_of(&decision.failed));
        self.verdict(ended, &decision)
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
    /// `number` is that of the agreement, which was taken when the operation began, as it was at the others.
    pub(super) fn new(of: &Communicator, number: u32, ended: Result<()>) -> Concluding {
        Concluding { deciding: of.deciding(bits(&ended), number, 0), ended: Some(ended) }
    }

    /// Goes as far as it can without waiting.
    pub(super) fn advance(&mut self, engine: &mut Engine<Fabrics>) -> Option<Result<()>> {
        let decision = self.deciding.advance(engine)?;
        let of = &self.deciding.of;
        of.process().learn_at(engine, &of.members_of(&decision.failed));
        Some(of.verdict(self.ended.take().unwrap_or(Ok(())), &decision))
    }
}

fn bits(ended: &Result<()>) -> u64 {
    OF_OPERATIONS | if ended.is_ok() { GOOD } else { 0 }
}

/// Whether all who took part in an agreement had called for one. Otherwise it was the end of an operation, which has failed, and
/// another one follows in which they all meet.
pub(super) fn is_of_calls(decision: &Decision) -> bool {
    decision.flags & OF_CALLS != 0
}

/// Each member says one of the two, so that what all have said tells whether they were in the same.
pub(super) const OF_CALLS: u64 = 1 << 63;
const OF_OPERATIONS: u64 = 1 << 62;
/// The operation has ended well.
const GOOD: u64 = 1;
