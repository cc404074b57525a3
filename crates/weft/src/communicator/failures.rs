//! Members that have failed (decision 0028).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use messaging::{Contribution, Decision, Rank};

use super::Communicator;
use super::agree::attempt_of;
use crate::contexts::{Lease, mix};
use crate::error::{Class, Result};
use crate::group::Group;

/// What the living members have agreed on; the same at all of them.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The bits that all have given.
    pub flags: u32,
    /// Those who have failed; who has given nothing is among them.
    pub failed: Group,
    /// Whether all have acknowledged all of these.
    pub is_acknowledged: bool,
}

impl Communicator {
    /// The members that this process knows to have failed, in the order in which it has learned of them: each answer begins
    /// as those before it did. Of both groups, where there are two.
    #[must_use]
    pub fn failed(&self) -> Group {
        let process = self.process();
        process.notice_failures();
        Group::of(process.failures().of(&self.inner.standing))
    }

    /// Acknowledges the first `count` of them; all, if they are fewer. The answer is how many are acknowledged. Where all are,
    /// receives from anybody wait among the living again; collective operations are not mended.
    pub fn acknowledge_failed(&self, count: u32) -> u32 {
        self.process().failures().acknowledge(&self.inner.standing, count as usize) as u32
    }

    /// Those that are acknowledged.
    #[must_use]
    pub fn acknowledged_failed(&self) -> Group {
        let failures = self.process().failures();
        let acknowledged = failures.acknowledge(&self.inner.standing, 0);
        Group::of(failures.of(&self.inner.standing).into_iter().take(acknowledged))
    }

    /// Makes it useless at all members, whatever they do and whoever fails meanwhile: what is under way in it ends with
    /// [`Class::Revoked`], as does what begins, but for agreements and shrinking. Not collective.
    pub fn revoke(&self) {
        self.process().act(|engine| engine.revoke(&self.inner.standing));
    }

    /// Whether this process knows that it is revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.process().notice_failures();
        self.inner.standing.is_revoked()
    }

    /// Agrees with all living members on the bits that all give. It succeeds whoever fails, and in a revoked communicator;
    /// all who live get the same answer. Collective.
    #[must_use]
    pub fn agree(&self, flags: u32) -> Agreed {
        let decision = self.decide(u64::from(flags) | !u64::from(u32::MAX), self.next_agreement());
        Agreed {
            flags: decision.flags as u32,
            failed: self.members_of(&decision.failed),
            is_acknowledged: decision.is_acknowledged,
        }
    }

    /// A communicator of the members that live, in the order of their ranks. It succeeds whoever fails, and in a revoked
    /// communicator; all who live get the same one. Collective.
    ///
    /// # Errors
    /// [`Class::Communicator`] for an inter-communicator.
    pub fn shrink(&self) -> Result<Communicator> {
        if self.is_inter() {
            return Err(self.not_for_inter("MPIX_Comm_shrink"));
        }
        loop {
            let number = self.next_agreement();
            // How many communicators a member has made before its failure was noticed differs; this does not.
            let seed = mix(self.inner.identity ^ mix(SHRUNK ^ u64::from(number)));
            let process = self.process();
            let proposal = process.propose_context(attempt_of(seed, 0));
            let decision = self.decide(u64::from(proposal.free) | !u64::from(u8::MAX), number);
            let Some(context) = process.contexts().settle(&proposal, decision.flags as u8) else { continue };
            let lease = Lease::new(Arc::clone(process), context);
            let group = self.group() - &self.members_of(&decision.failed);
            let label = self.label_of_child("survivors of ");
            return self.child(group, lease, seed, label).ok_or_else(|| self.lost_itself());
        }
    }

    /// The barrier with which a job ends. Who has failed is not waited for.
    ///
    /// # Errors
    /// When a member does something else.
    pub fn part(&self) -> Result<()> {
        if self.process().is_told_of_failures() {
            let _ = self.agree(0);
            return Ok(());
        }
        match self.barrier() {
            Err(error) if error.class == Class::ProcFailed => Ok(()),
            parted => parted,
        }
    }

    fn next_agreement(&self) -> u32 {
        self.inner.agreements.fetch_add(1, Ordering::Relaxed)
    }

    /// The agreement with that number, when those before it are over.
    fn decide(&self, flags: u64, number: u32) -> Decision {
        let (process, standing) = (self.process(), &self.inner.standing);
        let acknowledged = process.failures().acknowledge(standing, 0);
        let members = standing.members();
        let acknowledged: BTreeSet<u32> = process
            .failures()
            .of(standing)
            .into_iter()
            .take(acknowledged)
            .filter_map(|peer| Some(members.rank(peer)?.0))
            .collect();
        process.until(|engine| (engine.current_agreement(standing) == number).then_some(()));
        process
            .act(|engine| engine.agree(standing, Contribution { flags, acknowledged: acknowledged.clone() }));
        process.until(|engine| engine.take_decision(standing, number))
    }

    /// The processes of members by their ranks; of both groups, where there are two.
    fn members_of(&self, ranks: &BTreeSet<u32>) -> Group {
        let members = self.inner.standing.members();
        Group::of(ranks.iter().filter_map(|rank| members.peer(Rank(*rank))))
    }
}

/// Keeps the numbers of shrunk communicators apart from those of others.
const SHRUNK: u64 = 0x7368_7275_6e6b;
