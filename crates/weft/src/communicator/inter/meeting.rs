//! How two groups meet that have no communicator in common yet: leaders exchange cards.

use std::sync::Arc;

use fabric::{Heap, Payload, Peer};
use job::error::{Class, Error, Result};
use messaging::{Envelope, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending};

use super::super::mismatch_reports::{Encounter, Purpose, ReportKind};
use super::super::strangers::{Strangers, numbers_of};
use super::super::{Communicator, Kept, Label, Parts};
use super::Inter;
use crate::contexts::{self, Lease, mix};
use crate::group::Group;
use crate::memory::sending;
use crate::process::Process;

/// The two sides of an inter-communicator that is being made.
pub(super) struct Both<'a> {
    pub(super) process: &'a Arc<Process>,
    pub(super) local: &'a Group,
    pub(super) remote: &'a Group,
}

impl Both<'_> {
    /// All members who live agree on a number, on no communicator in particular.
    pub(super) fn connect(
        &self,
        seed: u64,
        living: &Group,
        label: Label,
    ) -> Result<(Arc<Lease>, Communicator)> {
        check_apart(self.local, self.remote)?;
        let group = &self.bridged() & living;
        let missing = || Error::new(Class::Internal, "this process is not in its own group");
        let rank = group.rank(self.process.here()).ok_or_else(missing)?;
        let purpose = Purpose { kind: ReportKind::Join, base: seed, group: group.fingerprint(), tag: 0 };
        let (lease, _) = Strangers { process: self.process, group: &group, rank, purpose }.vote(seed, 0)?;
        let lease = Arc::new(lease);
        let made = self.assemble(Arc::clone(&lease), mix(seed), label).ok_or_else(missing)?;
        Ok((lease, made))
    }

    /// Both groups, the one with the lower first peer first.
    pub(super) fn bridged(&self) -> Group {
        let (local, remote) = (self.local, self.remote);
        if local.peer(Rank(0)) < remote.peer(Rank(0)) { local | remote } else { remote | local }
    }

    pub(super) fn assemble(&self, lease: Arc<Lease>, identity: u64, label: Label) -> Option<Communicator> {
        let bridge = Communicator::assemble(Parts {
            process: self.process.clone(),
            group: self.bridged(),
            inter: None,
            lease: Kept::Shared(lease.clone()),
            identity,
            label: label.clone(),
            topology: None,
        })?;
        let inter = Inter { local: self.local.settled(), remote: self.remote.settled(), bridge };
        Communicator::assemble(Parts {
            process: self.process.clone(),
            group: self.local.clone(),
            inter: Some(inter),
            lease: Kept::Shared(lease),
            identity,
            label,
            topology: None,
        })
    }
}

/// What a leader tells of its side.
pub(super) struct Side {
    pub(super) seed: u64,
    pub(super) group: Group,
    pub(super) living: Group,
}

impl Side {
    /// The seed, the length of the group, the group, and who of it lives.
    pub(super) fn encode(&self) -> Vec<i64> {
        let (group, living) = (self.group.encode(), self.living.encode());
        [self.seed as i64, group.len() as i64].into_iter().chain(group).chain(living).collect()
    }

    pub(super) fn read(numbers: &[i64], peers: u32) -> Option<Side> {
        let [seed, length, groups @ ..] = numbers else { return None };
        let (group, living) = groups.split_at_checked(usize::try_from(*length).ok()?)?;
        let (group, living) = (Group::decode(group, peers)?, Group::decode(living, peers)?);
        Some(Side { seed: *seed as u64, group, living })
    }
}

/// The way between two leaders.
pub(super) struct Line<'a> {
    pub(super) process: &'a Process,
    /// The other one.
    pub(super) peer: Peer,
    pub(super) purpose: Purpose,
}

impl Line<'_> {
    /// Each tells the other some numbers: a few with the first message, and the others with a second one.
    pub(super) fn exchange(&self, numbers: &[i64]) -> Result<Vec<i64>> {
        let pair: Group = [self.process.here(), self.peer].into_iter().collect();
        let mut encounter = Encounter::new(self.process, &pair, &self.purpose)?;
        let mut card = vec![0; CARD_NUMBERS];
        card[0] = numbers.len() as i64;
        let first = numbers.len().min(CARD_NUMBERS - 1);
        card[1..=first].copy_from_slice(&numbers[..first]);
        let mut theirs = self.swap(&mut encounter, &card, CARD_NUMBERS)?;
        let count = self.process.count_told(theirs[0])?;
        theirs.remove(0);
        let rest = self.swap(&mut encounter, &numbers[first..], count.saturating_sub(CARD_NUMBERS - 1))?;
        theirs.extend(rest);
        theirs.truncate(count);
        Ok(theirs)
    }

    /// Sends numbers and receives so many.
    pub(super) fn swap(
        &self,
        encounter: &mut Encounter<'_>,
        numbers: &[i64],
        count: usize,
    ) -> Result<Vec<i64>> {
        let (context, tag) = (contexts::STRANGERS * 2 + 1, encounter.tag());
        let (mine, theirs) = (Heap::new(8 * numbers.len()), Heap::new(8 * count));
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        mine.memory().write_at(0, Payload::from(&bytes[..]));
        let source = Rank(self.peer.0);
        let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
        let receiving = (count > 0).then(|| self.process.receive(pattern, Some(self.peer), theirs.memory()));
        let envelope = Envelope { context, source: Rank(self.process.here().0), tag };
        let sending = match numbers {
            [] => Ok(Sending::Done),
            _ => self.process.send(self.peer, envelope, sending(&mine), Mode::Standard),
        };
        let received = match (receiving, &sending) {
            (None, _) => None,
            (Some(Receiving::Done(outcome)), _) => Some(outcome),
            (Some(Receiving::Pending(request)), Ok(_)) => match self.await_other(encounter, request) {
                Ok(outcome) => Some(outcome),
                Err(error) => {
                    // Nobody will ever receive what was sent; it may still be read.
                    std::mem::forget(mine);
                    return Err(error);
                }
            },
            (Some(Receiving::Pending(request)), Err(_)) => Some(self.give_up(request)),
        };
        let sent = match sending? {
            Sending::Done => None,
            Sending::Pending(request) => self.process.wait(request).failure,
        };
        let bytes = received.as_ref().map_or(0, |outcome| outcome.bytes);
        match received.and_then(|outcome| outcome.failure).or(sent) {
            Some(failure) => {
                let what = format!("the other leader: {}", crate::process::failure_text(&failure));
                Err(Error::new(Class::ProcFailed, what))
            }
            None if bytes != 8 * count => {
                Err(Error::new(Class::Internal, "the other leader tells something else"))
            }
            None => Ok(numbers_of(theirs.payload())),
        }
    }

    fn await_other(&self, encounter: &mut Encounter<'_>, request: RequestId) -> Result<Outcome> {
        let end = encounter.until(|engine, awaited| {
            if let Some(awaited) = awaited {
                awaited.push(self.peer);
            }
            engine.test(request)
        });
        end.inspect_err(|_| drop(self.give_up(request)))
    }

    fn give_up(&self, request: RequestId) -> Outcome {
        self.process.cancel(request);
        self.process.wait(request)
    }
}

/// What those who are led hear.
#[cold]
pub(super) fn not_met(class: Class, leader: Rank) -> Error {
    let what = format!("rank {}, which leads, could not meet the other leader", leader.0);
    Error::new(class, what).remedy("its own error says why")
}

pub(super) fn check_leader(group: &Group, leader: Rank) -> Result<()> {
    if leader.0 < group.size() {
        return Ok(());
    }
    let what = format!("there is no rank {} in a group of {} to lead it", leader.0, group.size());
    Err(Error::new(Class::Rank, what))
}

/// MPI 5.0 §7.6.2: the two groups must be disjoint.
pub(super) fn check_apart(local: &Group, remote: &Group) -> Result<()> {
    let common = local & remote;
    match common.iter().next() {
        None if !remote.is_empty() => Ok(()),
        None => Err(Error::new(Class::Group, "the other group is empty")),
        Some(peer) => Err(Error::new(Class::Communicator, format!("process {} is in both groups", peer.0))),
    }
}

/// What the leaders tell each other at first: how many numbers, and the first of them. Groups that are a few
/// runs need no second message.
const CARD_NUMBERS: usize = 32;
