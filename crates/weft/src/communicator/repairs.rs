//! What was made from the world recovers with it (decision 0014): nobody has to ask who has failed, since all
//! have agreed on that for the world, and the contexts that are needed come out of the same vote.

use std::sync::{Arc, Mutex, Weak};

use job::config::{FtMode, MessageMode};
use job::error::Result;
use job::fabrics::Fabrics;
use job::lock::lock;
use messaging::Engine;

use super::agree::attempt_of;
use super::recovery::{Found, FtModes};
use super::{Communicator, Inner};
use crate::contexts::{self, Lease, Proposal, mix};
use crate::group::Group;
use crate::process::Process;

/// The communicators of a process that the program has made.
#[derive(Default)]
pub(crate) struct Registry {
    all: Mutex<KnownCommunicators>,
}

#[derive(Default)]
struct KnownCommunicators {
    communicators: Vec<Weak<Inner>>,
    /// Those that are gone are looked for once there are so many.
    forget_at: usize,
}

impl Registry {
    fn enter(&self, communicator: &Communicator) {
        let mut known = lock(&self.all);
        if known.communicators.len() >= known.forget_at {
            known.communicators.retain(|one| one.strong_count() > 0);
            known.forget_at = (2 * known.communicators.len()).max(KNOWN_MIN);
        }
        known.communicators.push(Arc::downgrade(&communicator.inner));
    }

    /// Those that are there, and in whose place no others are.
    pub(crate) fn living(&self) -> Vec<Communicator> {
        let inner = lock(&self.all).communicators.iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        let all = inner.into_iter().map(|inner| Communicator { inner });
        all.filter(|one| !one.has_successor()).collect()
    }
}

/// The context numbers that a recovery needs: its own, and those of all that may be repaired with it. Until
/// they are taken, or this is gone, they are free for nobody else here.
pub(super) struct RepairNumbers<'a> {
    process: &'a Arc<Process>,
    own: Proposal,
    others: Vec<Repair>,
}

/// A communicator that was made from the world.
struct Repair {
    of: Communicator,
    seed: u64,
    proposal: Proposal,
}

/// What all have agreed on.
pub(super) struct Verdict<'a> {
    /// Who lives in the world.
    pub living: &'a Group,
    /// How the world has recovered.
    pub modes: FtModes,
    /// Whether that was because of something; otherwise only what was left out before is repaired.
    pub has_happened: bool,
    /// Nothing was revoked.
    pub keeps: bool,
    /// Which candidates are free everywhere, for all.
    pub free: u8,
}

impl<'a> RepairNumbers<'a> {
    /// Those that follow from the seed of a recovery.
    pub(super) fn propose(process: &'a Arc<Process>, seed: u64, with_all: bool) -> RepairNumbers<'a> {
        let own = process.propose_context(attempt_of(seed, 0));
        let repair = |of: Communicator| {
            let seed = mix(seed ^ of.among_living().inner.identity);
            let proposal = process.propose_context(attempt_of(seed, 0));
            Repair { of, seed, proposal }
        };
        let made = if with_all { process.registry().living() } else { Vec::new() };
        RepairNumbers { process, own, others: made.into_iter().map(repair).collect() }
    }

    /// Which candidates are free here for all of them.
    pub(super) fn free(&self) -> u8 {
        self.others.iter().fold(self.own.free, |free, repair| free & repair.proposal.free)
    }

    /// Whether nothing of what may be repaired is revoked, as far as this process knows.
    pub(super) fn keep(&self) -> bool {
        self.others.iter().all(|repair| !repair.of.is_revoked_anywhere())
    }

    /// The recovery's own, of those that are free everywhere.
    pub(super) fn take(&self, free: u8) -> Option<u32> {
        self.process.contexts().settle(&self.own, free)
    }

    /// Repairs the others: with messages of before dropped, all; otherwise those that have lost somebody.
    pub(super) fn carry_out(self, verdict: &Verdict<'_>) -> Result<()> {
        let is_reset = verdict.modes.messages == MessageMode::Reset || !verdict.keeps;
        let all = verdict.has_happened && is_reset;
        let mut repaired = Ok(());
        for repair in self.others.iter().filter(|repair| all || repair.has_lost(verdict.living)) {
            let number = self.process.contexts().settle(&repair.proposal, verdict.free);
            let Some(number) = number else { continue };
            let lease = Lease::new(Arc::clone(self.process), number);
            repaired = repaired.and(repair.carry_out(lease, verdict));
        }
        repaired
    }
}

impl Drop for RepairNumbers<'_> {
    fn drop(&mut self) {
        let mut contexts = self.process.contexts();
        for proposal in self.others.iter().map(|repair| &repair.proposal).chain([&self.own]) {
            // What was taken stays so.
            contexts.settle(proposal, 0);
        }
    }
}

impl Repair {
    fn has_lost(&self, living: &Group) -> bool {
        self.of.live().iter().any(|peer| !living.contains(peer))
    }

    fn carry_out(&self, lease: Lease, verdict: &Verdict<'_>) -> Result<()> {
        let current = self.of.among_living();
        let failed = current.everybody() - verdict.living;
        let comm = match verdict.modes.comm {
            FtMode::Shrink => FtMode::Shrink,
            // A new process has no part in anything but the world.
            _ => FtMode::Blank,
        };
        let modes = FtModes { comm, ..verdict.modes };
        let found = Found { lease, seed: self.seed, keeps: verdict.keeps, in_place: true, completed: None };
        self.of.go_on_without(&current, failed, modes, found).map(drop)
    }
}

impl Communicator {
    /// The program has made it. What stands for one that is still being made is none.
    pub(super) fn enter(&self) {
        if self.inner.lease.number() != contexts::NOWHERE {
            self.process().registry().enter(self);
        }
    }

    fn has_trouble(&self, engine: &mut Engine<Fabrics>) -> bool {
        let (living, messages) = (self.among_living(), self.standing_of_messages());
        let living = &living.inner.standing;
        let any_failed = !self.process().failures().of(living).is_empty();
        any_failed || engine.is_revoked(living) || engine.is_revoked(&messages)
    }
}

/// Whoever recovers everything from something calls the others: who waits in something that the program has
/// made is to come and recover, too, also where nobody has failed whom that needs. Where messages are to
/// stay, they are not disturbed.
pub(super) struct Calling {
    /// The world, and what was made from it; nothing once they are called.
    all: Vec<Communicator>,
    /// What had come about at the last look.
    seen: Option<u64>,
}

impl Calling {
    pub(super) fn new(world: &Communicator) -> Calling {
        if world.ft_modes().messages != MessageMode::Reset {
            return Calling { all: Vec::new(), seen: None };
        }
        world.process().notice_failures();
        let all = world.process().registry().living().into_iter().chain([world.clone()]).collect();
        Calling { all, seen: None }
    }

    /// Calls them if this process knows of something by now. Whoever came here without knowing may be waited
    /// for by one whom nobody else calls.
    pub(super) fn look(&mut self, engine: &mut Engine<Fabrics>) {
        if self.all.is_empty() || self.seen.replace(engine.completions()) == Some(engine.completions()) {
            return;
        }
        if self.all.iter().any(|of| of.has_trouble(engine)) {
            for of in std::mem::take(&mut self.all) {
                engine.revoke(&of.among_living().inner.standing);
                engine.revoke(&of.standing_of_messages());
            }
        }
    }
}

/// With fewer of them nobody is looked for who is gone.
const KNOWN_MIN: usize = 64;
