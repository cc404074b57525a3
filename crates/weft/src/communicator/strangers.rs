//! Operations of processes that have no communicator in common, or of which others in it know nothing:
//! collective over a group alone (MPI 5.0 §7.4.2, §11.3).
//!
//! Their messages go under a context of their own, where ranks are peers, and carry a tag that follows from
//! the arguments of the call.

use std::sync::Arc;

use collectives::node::Combine;
use collectives::{Advance, Buffers, Collective, Execution, Shape};
use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use messaging::Rank;

use super::agree::{Ballot, agree_by, combine};
use super::combining::{Combining, in_place};
use super::mismatch_reports::{Encounter, Purpose, ReportKind, class_code, class_of};
use super::{Communicator, Kept, Label, Parts};
use crate::contexts::{self, Lease, mix, mix_text};
use crate::group::Group;
use crate::memory::sending;
use crate::process::Process;

/// A group whose processes do something together; this process is one of them.
pub(super) struct Strangers<'a> {
    pub process: &'a Arc<Process>,
    pub group: &'a Group,
    pub rank: Rank,
    /// What they do.
    pub purpose: Purpose,
}

impl Strangers<'_> {
    fn perform(
        &self,
        collective: Collective,
        input: Payload<'static>,
        output: UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        let shape =
            Shape::new(self.rank, self.group.size()).on(self.process.cores()).guided_by(self.process.guide());
        let mut encounter = Encounter::new(self.process, self.group, &self.purpose)?;
        let context = contexts::STRANGERS * 2 + 1;
        let schedule = collective.schedule(&shape);
        let buffers = Buffers { input, output };
        let execution = Execution::new(schedule, buffers, context, encounter.tag(), self.rank);
        let mut execution = execution.by_peer(self.process.here());
        let place = |rank| self.group.peer(rank).expect("schedules name ranks of the group");
        let end = encounter.until(|engine, awaited| {
            let end = execution.advance(engine, &place, &mut |left, out| combining.combine(left, None, out));
            if let Some(awaited) = awaited {
                awaited.extend(execution.awaited().map(place));
            }
            Some(end).filter(|end| *end != Advance::Pending)
        });
        super::settle(self.process, &mut execution);
        match end? {
            Advance::Failed(failed) => Err(super::collective_failed(&failed).during("a group")),
            Advance::Done | Advance::Pending => Ok(()),
        }
    }

    /// Agrees on a context number; the answer also has the sum of what all gave.
    pub(super) fn vote(&self, seed: u64, sum: u64) -> Result<(Lease, u64)> {
        agree_by(self.process, seed, sum, |ballot| {
            if self.group.size() == 1 {
                return Ok(ballot);
            }
            let (mine, all) = ballot.rooms();
            self.perform(Ballot::COMBINE, sending(&mine), all.memory(), Combining::By(&in_place(combine)))?;
            Ok(Ballot::read(all.payload()))
        })
    }

    /// Brings what the root has found out to all; `None` at the others, who need not know how many numbers it
    /// is.
    pub(super) fn broadcast(&self, told: Option<&Told>, root: Rank) -> Result<Told> {
        let length = self.broadcast_some(told.map(|told| vec![length_of(told)]), 1, root)?;
        let count = match count_of(self.process, length[0])? {
            Ok(count) => count,
            Err(class) => return Ok(Err(class)),
        };
        let numbers = told.and_then(|told| told.clone().ok());
        self.broadcast_some(numbers, count, root).map(Ok)
    }

    fn broadcast_some(&self, numbers: Option<Vec<i64>>, count: usize, root: Rank) -> Result<Vec<i64>> {
        let room = Heap::new(8 * count);
        if let Some(numbers) = numbers {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            room.memory().write_at(0, Payload::from(&bytes[..]));
        }
        let bcast = Collective::Bcast { root, bytes: 8 * count };
        self.perform(bcast, Payload::EMPTY, room.memory(), Combining::Nothing)?;
        Ok(numbers_of(room.payload()))
    }
}

/// The numbers that stand in some bytes.
pub(super) fn numbers_of(bytes: Payload<'_>) -> Vec<i64> {
    let bytes = bytes.to_vec();
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| i64::from_le_bytes(*word)).collect()
}

/// What one process tells others that wait for it: numbers, or why there are none.
pub(super) type Told = std::result::Result<Vec<i64>, Class>;

/// What is told first: how many numbers follow, or below 0 why none do.
pub(super) fn length_of(told: &Told) -> i64 {
    match told {
        Ok(numbers) => numbers.len() as i64,
        Err(class) => -1 - class_code(*class) as i64,
    }
}

/// What [`length_of`] wrote: a number of numbers, no more than an encoded group of this job can have.
pub(super) fn count_of(process: &Process, length: i64) -> Result<std::result::Result<usize, Class>> {
    match u64::try_from(-1 - length) {
        Ok(code) => Ok(Err(class_of(code))),
        Err(_) => process.count_told(length).map(Ok),
    }
}

impl Communicator {
    /// A communicator of a part of the group. Only those in `group` call, with the same tag; others get none
    /// (MPI 5.0 §7.4.2). Blank members stay blank, and take no part. Collective over `group`.
    ///
    /// # Errors
    /// [`Class::Group`] where `group` names processes that are not members; [`Class::Tag`]; when a member is
    /// lost.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Communicator>> {
        if self.is_inter() {
            return Err(self.not_for_inter("create_group"));
        }
        self.check_tag(tag)?;
        self.check_part(group)?;
        // What was tried before a recovery came to nothing at some, and not at others: each generation counts
        // anew.
        let current = self.among_living();
        let current = &*current.inner;
        let living = if self.has_blanks() { group & &self.live() } else { group.clone() };
        let Some(rank) = living.rank(current.process.here()) else { return Ok(None) };
        let (base, tag) = (current.identity, tag as u64);
        let purpose = Purpose { kind: ReportKind::Part, base, group: group.fingerprint(), tag };
        let number = purpose.number();
        let seed = mix(number ^ current.partial.of(number));
        let process = &current.process;
        let agreed = Strangers { process, group: &living, rank, purpose }.vote(seed, 0);
        let (lease, _) = agreed.map_err(|error| error.during(self.place()))?;
        current.partial.add(number);
        let label = self.label_of_child("group of ");
        Ok(self.child(group.clone(), lease, seed, label))
    }
}

impl Process {
    /// A communicator of a group, made from no other (MPI 5.0 §7.4.2): collective over the group, whose
    /// processes give the same tag. `None` at a process that is not in it.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn communicator_of(self: &Arc<Process>, group: &Group, tag: &str) -> Result<Option<Communicator>> {
        self.check_group(group)?;
        let Some(rank) = group.rank(self.here()) else { return Ok(None) };
        let purpose =
            Purpose { kind: ReportKind::Found, base: 0, group: group.fingerprint(), tag: mix_text(tag) };
        let number = purpose.number();
        let seed = mix(number ^ self.made().of(number));
        let (lease, _) = Strangers { process: self, group, rank, purpose }.vote(seed, 0)?;
        self.made().add(number);
        let (process, group) = (self.clone(), group.clone());
        let label = Label { made: "group ", of: tag.into() };
        let lease = Kept::Own(lease);
        let made = Communicator::assemble(Parts {
            process,
            group,
            inter: None,
            lease,
            identity: mix(seed),
            label,
            topology: None,
        });
        Ok(made.inspect(Communicator::enter))
    }

    /// A number of numbers that another process has told: no more than two encoded groups of this job can
    /// have.
    pub(super) fn count_told(&self, count: i64) -> Result<usize> {
        let most = 2 * (3 * u64::from(self.peers()) + 2);
        let count = u64::try_from(count).ok().filter(|&count| count <= most);
        count
            .map(|count| count as usize)
            .ok_or_else(|| Error::new(Class::Internal, "another process tells more than there is"))
    }

    /// Whether all of the group are processes of the job.
    pub(super) fn check_group(&self, group: &Group) -> Result<()> {
        let strange = group - &Group::world(self.peers());
        match strange.iter().next() {
            None => Ok(()),
            Some(peer) => {
                Err(Error::new(Class::Group, format!("process {} of the group is not in this job", peer.0)))
            }
        }
    }
}
