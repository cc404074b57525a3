//! Members that have failed (decision 0013).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::{Payload, UserMemory, crash};
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use job::lock::lock;
use messaging::{Contribution, Decision, Engine, Rank, RequestId};

use super::agree::attempt_of;
use super::atomic::Call;
use super::duplicate::Duplicating;
use super::ongoing::Ongoing;
use super::{Communicator, Label};
use crate::background::Operation;
use crate::contexts::{Lease, Proposal, mix};
use crate::group::Group;
use crate::memory::giving;

/// What the living members have agreed on; the same at all of them.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The bits that all members have given.
    pub flags: u32,
    /// The members that have failed; a member that has given no bits is among them.
    pub failed: Group,
    /// Whether all members have acknowledged all of these failures.
    pub is_acknowledged: bool,
}

impl Communicator {
    /// The members that this process knows to have failed, in the order in which it has learned of them: each
    /// answer begins as those before it did. Of both groups, where there are two.
    #[must_use]
    pub fn failed(&self) -> Group {
        let process = self.process();
        process.notice_failures();
        Group::of(process.failures().of(&self.inner.standing))
    }

    /// Acknowledges the first `count` members of [`Communicator::failed`]; all, if they are fewer. The answer
    /// is how many are acknowledged. Where all are, receives from anybody wait among the living again;
    /// collective operations are not mended.
    pub fn acknowledge_failed(&self, count: u32) -> u32 {
        let (failures, own) = (self.process().failures(), &self.inner.standing);
        let acknowledged = failures.acknowledge(own, count as usize);
        let (living, messages) = (self.among_living(), self.standing_of_messages());
        let living = &living.inner.standing;
        for other in [living, &messages] {
            if !Arc::ptr_eq(own, other) {
                failures.acknowledge_alike(own, other);
            }
        }
        acknowledged as u32
    }

    /// The failed members that are acknowledged, in the order of [`Communicator::failed`].
    #[must_use]
    pub fn acknowledged_failed(&self) -> Group {
        let failures = self.process().failures();
        let acknowledged = failures.acknowledge(&self.inner.standing, 0);
        Group::of(failures.of(&self.inner.standing).into_iter().take(acknowledged))
    }

    /// Makes the communicator useless at all members, whatever they do and whichever of them fail meanwhile:
    /// operations under way in it end with [`Class::Revoked`], as do those that begin, but for agreements and
    /// shrinking. Not collective.
    pub fn revoke(&self) {
        let (living, messages) = (self.among_living(), self.standing_of_messages());
        self.process().act(|engine| {
            engine.revoke(&living.inner.standing);
            engine.revoke(&messages);
        });
    }

    /// Whether this process knows that it is revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.process().notice_failures();
        self.is_revoked_anywhere()
    }

    /// Sees to it that a message to nobody, or from nobody, may be over at once.
    ///
    /// # Errors
    /// [`Class::Revoked`]: in a revoked communicator not even that goes.
    #[inline]
    pub fn check_nobody(&self) -> Result<()> {
        if self.inner.standing.is_closed() { self.check_not_revoked() } else { Ok(()) }
    }

    #[cold]
    fn check_not_revoked(&self) -> Result<()> {
        if !self.is_revoked_anywhere() {
            return Ok(());
        }
        Err(Error::new(Class::Revoked, format!("{}: the communicator is revoked", self.place())))
    }

    /// Agrees with all living members on the bits that all give. It succeeds whoever fails, and in a revoked
    /// communicator; all who live get the same answer. Collective.
    ///
    /// # Errors
    /// [`Class::Argument`] where some members shrink or recover it instead, or agree on something else; at
    /// all alike.
    pub fn agree(&self, flags: u32) -> Result<Agreed> {
        self.agree_as(Call::Agree, flags)
    }

    pub(super) fn agree_as(&self, call: Call, flags: u32) -> Result<Agreed> {
        let of = self.among_living();
        loop {
            let decision = of.decide(u64::from(flags) | call.bits(), of.next_agreement(), 0);
            let failed = of.members_of(&decision.failed);
            // Otherwise a member that never spoke to them could not acknowledge what is asked of it.
            self.process().learn(&failed);
            let (flags, is_acknowledged) = (decision.flags as u32, decision.is_acknowledged);
            if let Some(heard) = call.heard(self, &decision) {
                return heard.map(|()| Agreed { flags, failed, is_acknowledged });
            }
        }
    }

    /// A communicator of the members that live, in the order of their ranks. It succeeds whoever fails, and
    /// in a revoked communicator; all who live get the same one. Of an inter-communicator it is one, too, and
    /// the other group may be empty. Collective.
    ///
    /// # Errors
    /// [`Class::Internal`] where this process is not among those who live; [`Class::Argument`] where some
    /// members do something else, at all alike.
    pub fn shrink(&self) -> Result<Communicator> {
        let of = self.among_living();
        loop {
            let mut go = of.shrinking();
            if let Some(made) = self.process().until(|engine| go.advance(engine)) {
                return made;
            }
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
            Err(error) if matches!(error.class, Class::ProcFailed | Class::Revoked) => Ok(()),
            parted => parted,
        }
    }

    pub(super) fn next_agreement(&self) -> u32 {
        self.inner.agreements.fetch_add(1, Ordering::Relaxed)
    }

    /// The agreement with that number, when those before it are over.
    pub(super) fn decide(&self, flags: u64, number: u32, count: u64) -> Decision {
        let mut deciding = self.deciding(flags, number, count);
        self.process().until(|engine| deciding.advance(engine))
    }

    pub(super) fn deciding(&self, flags: u64, number: u32, count: u64) -> Deciding {
        let standing = &self.inner.standing;
        let (failures, members) = (self.process().failures(), standing.members());
        let acknowledged = failures.acknowledge(standing, 0);
        let known = failures.of(standing).into_iter().take(acknowledged);
        let acknowledged = known.filter_map(|peer| Some(members.rank(peer)?.0)).collect();
        Deciding { of: self.clone(), number, mine: Some(Contribution { flags, acknowledged, count }) }
    }

    /// Begins to agree on the four bytes of `flags`, which get what was agreed on. It goes on with whatever
    /// this process does next, and fails where a failure was not acknowledged by all.
    pub fn start_agree(&self, flags: UserMemory) -> Ongoing {
        let mut mine = [0; 4];
        giving(&flags).copy_to(&mut mine);
        let of = self.among_living();
        let bits = u64::from(u32::from_ne_bytes(mine)) | Call::Agree.bits();
        let deciding = of.deciding(bits, of.next_agreement(), 0);
        let process = self.process();
        let (id, ended) = (process.with_engine(|engine| engine.promise()), Arc::default());
        process.entrust(Box::new(Agreeing { deciding, bits, flags, id, ended: Arc::clone(&ended) }));
        Ongoing::new(self.clone(), id, ended)
    }

    /// Begins to shrink; it goes on with whatever this process does next.
    pub fn start_shrink(&self) -> Duplicating {
        let process = self.process();
        let (id, ended) = (process.with_engine(|engine| engine.promise()), Arc::default());
        let shrinking = Shrinking { go: self.among_living().shrinking(), id, ended: Arc::clone(&ended) };
        process.entrust(Box::new(shrinking));
        Duplicating::bare(self.clone(), id, ended)
    }

    /// One go at shrinking.
    fn shrinking(&self) -> Go {
        let (number, process) = (self.next_agreement(), self.process());
        // How many communicators a member has made before its failure was noticed differs; this does not.
        let seed = mix(self.inner.identity ^ mix(SHRUNK ^ u64::from(number)));
        let proposal = process.contexts().propose(attempt_of(seed, 0));
        let flags = u64::from(proposal.free) | Call::Shrink.bits();
        Go { deciding: self.deciding(flags, number, 0), proposal, seed }
    }

    /// A communicator of the others, made from this one.
    pub(super) fn survivors(
        &self,
        failed: &Group,
        lease: Lease,
        seed: u64,
        label: Label,
    ) -> Option<Communicator> {
        let local = self.group() - failed;
        match self.remote_group() {
            None => self.child(local, lease, seed, label),
            Some(remote) => self.child_across(local, remote - failed, lease, seed, label),
        }
    }

    /// The error of an agreement; the same at all who live.
    #[must_use]
    pub fn not_acknowledged(&self, failed: &Group) -> Error {
        let ranks: Vec<u32> =
            failed.iter().filter_map(|peer| Some(self.named(self.everybody().rank(peer)?).0)).collect();
        let what =
            format!("{}: not all have acknowledged that these ranks have failed: {ranks:?}", self.place());
        Error::new(Class::ProcFailed, what).remedy("the flag is agreed on; MPIX_Comm_ack_failed acknowledges")
    }

    /// The processes of members by their ranks; of both groups, where there are two.
    pub(super) fn members_of(&self, ranks: &BTreeSet<u32>) -> Group {
        let members = self.inner.standing.members();
        Group::of(ranks.iter().filter_map(|rank| members.peer(Rank(*rank))))
    }
}

/// An agreement that a member takes part in, when those before it are over.
pub(super) struct Deciding {
    pub(super) of: Communicator,
    number: u32,
    /// Nothing once it is brought.
    mine: Option<Contribution>,
}

impl Deciding {
    /// Whether this process has brought nothing yet.
    pub(super) fn is_to_come(&self) -> bool {
        self.mine.is_some()
    }

    /// Brings nothing, and waits for nobody.
    pub(super) fn pass(&mut self, engine: &mut Engine<Fabrics>) {
        self.mine = None;
        engine.pass_agreement(&self.of.inner.standing, self.number);
    }

    /// Goes as far as it can without waiting.
    pub(super) fn advance(&mut self, engine: &mut Engine<Fabrics>) -> Option<Decision> {
        let standing = &self.of.inner.standing;
        if self.mine.is_some() {
            let ahead = self.number.wrapping_sub(engine.current_agreement(standing));
            match ahead {
                0 => {}
                ahead if ahead < u32::MAX / 2 => return None,
                // It was decided while this process brought nothing to it.
                _ => self.mine = None,
            }
        }
        if let Some(mine) = self.mine.take() {
            engine.agree(standing, mine);
        }
        engine.take_decision(standing, self.number)
    }

    /// Goes as far as it can without waiting, in an agreement that all living members call as `call` with
    /// these flags. Where a member was at the end of an operation instead, another agreement follows. With
    /// the decision comes what [`Call::heard`] says of it.
    pub(super) fn advance_call(
        &mut self,
        call: Call,
        flags: u64,
        engine: &mut Engine<Fabrics>,
    ) -> Option<(Decision, Result<()>)> {
        loop {
            let decision = self.advance(engine)?;
            if let Some(heard) = call.heard(&self.of, &decision) {
                return Some((decision, heard));
            }
            *self = self.of.deciding(flags | call.bits(), self.of.next_agreement(), 0);
        }
    }
}

/// An agreement on bits that goes on by itself.
struct Agreeing {
    deciding: Deciding,
    /// What this process brings.
    bits: u64,
    flags: UserMemory,
    id: RequestId,
    ended: Arc<super::ongoing::SharedOutcome>,
}

impl Operation for Agreeing {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        let Some((decision, heard)) = self.deciding.advance_call(Call::Agree, self.bits, engine) else {
            return false;
        };
        let of = &self.deciding.of;
        let failed = of.members_of(&decision.failed);
        of.process().learn_at(engine, &failed);
        if heard.is_ok() {
            self.flags.write_at(0, Payload::from(&(decision.flags as u32).to_ne_bytes()[..]));
        }
        let ended = heard.and_then(|()| match decision.is_acknowledged {
            true => Ok(()),
            false => Err(of.not_acknowledged(&failed)),
        });
        *lock(&self.ended) = Some(ended);
        engine.fulfil(self.id);
        true
    }
}

/// One go at shrinking: an agreement on who has failed, and on a context number.
struct Go {
    deciding: Deciding,
    proposal: Proposal,
    seed: u64,
}

impl Go {
    /// Goes as far as it can. Of what it came to, none is that no number was free at all of them, or that
    /// some were in something else; they try again then.
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> Option<Option<Result<Communicator>>> {
        let decision = self.deciding.advance(engine)?;
        let of = &self.deciding.of;
        let process = of.process();
        let failed = of.members_of(&decision.failed);
        // Otherwise a member whom nobody else tells would go on to wait for them in what it has begun.
        process.learn_at(engine, &failed);
        crash::point();
        let heard = Call::Shrink.heard(of, &decision);
        let free = if let Some(Ok(())) = heard { decision.flags as u8 } else { 0 };
        let settled = process.contexts().settle(&self.proposal, free);
        if let Some(Err(error)) = heard {
            return Some(Some(Err(error)));
        }
        Some(settled.map(|context| {
            let lease = Lease::new(Arc::clone(process), context);
            let label = of.label_of_child("survivors of ");
            of.survivors(&failed, lease, self.seed, label).ok_or_else(|| of.lost_itself())
        }))
    }
}

/// Shrinking that goes on by itself.
struct Shrinking {
    go: Go,
    id: RequestId,
    ended: Arc<super::duplicate::DuplicateEnded>,
}

impl Operation for Shrinking {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        loop {
            let Some(came) = self.go.advance(engine) else { return false };
            if let Some(made) = came {
                *lock(&self.ended) = Some(made);
                engine.fulfil(self.id);
                return true;
            }
            self.go = self.go.deciding.of.shrinking();
        }
    }
}

/// Keeps the numbers of shrunk communicators apart from those of others.
const SHRUNK: u64 = 0x7368_7275_6e6b;
