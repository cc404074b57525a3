//! Operations of processes that have no communicator in common, or of which others in it know nothing: collective
//! over a group alone (MPI 5.0 §7.4.2, §11.3).
//!
//! Their messages go under a context of their own, where ranks are peers, and carry a tag that follows from the arguments
//! of the call.

use std::sync::Arc;

use collectives::{Buffers, Collective, Execution, Shape};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::agree::{Ballot, agree_by, combine};
use super::{Communicator, Label, Parts, Reduce};
use crate::contexts::{self, Lease, mix, mix_text};
use crate::error::{Class, Error, Result};
use crate::group::Group;
use crate::process::Process;

/// A group whose processes do something together; this process is one of them.
pub(super) struct Strangers<'a> {
    pub process: &'a Arc<Process>,
    pub group: &'a Group,
    pub rank: Rank,
    /// What they do, for the tag.
    pub purpose: u64,
}

impl Strangers<'_> {
    fn perform(
        &self,
        collective: Collective,
        input: Payload<'static>,
        output: UserMemory,
        reduce: Reduce<'_>,
    ) -> Result<()> {
        let shape = Shape::new(self.rank, self.group.size()).on(self.process.cores());
        let (context, tag) = (contexts::STRANGERS * 2 + 1, tag_of(self.purpose));
        let schedule = collective.schedule(&shape);
        let execution = Execution::new(schedule, Buffers { input, output }, context, tag, self.rank);
        let mut execution = execution.by_peer(self.process.here());
        super::finish(self.process, self.group, &mut execution, reduce)
            .map_err(|failed| failed.during("a group"))
    }

    /// Agrees on a context number; the answer also has the sum of what all gave.
    pub(super) fn agree(&self, seed: u64, sum: u64) -> Result<(Arc<Lease>, u64)> {
        agree_by(self.process, seed, sum, |ballot| {
            if self.group.size() == 1 {
                return Ok(ballot);
            }
            let (mine, all) = ballot.rooms();
            self.perform(Ballot::COMBINE, mine.memory().reading(), all.memory(), &mut combine)?;
            Ok(Ballot::read(all.payload()))
        })
    }

    /// Brings the root's numbers to all; `None` at the others, who need not know how many there are.
    pub(super) fn broadcast(&self, numbers: Option<&[i64]>, root: Rank) -> Result<Vec<i64>> {
        let length = self.broadcast_some(numbers.map(|numbers| vec![numbers.len() as i64]), 1, root)?;
        let count = self.process.count_told(length[0])?;
        self.broadcast_some(numbers.map(<[i64]>::to_vec), count, root)
    }

    fn broadcast_some(&self, numbers: Option<Vec<i64>>, count: usize, root: Rank) -> Result<Vec<i64>> {
        let room = Heap::new(8 * count);
        if let Some(numbers) = numbers {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            room.memory().write_at(0, Payload::from(&bytes[..]));
        }
        let bcast = Collective::Bcast { root, bytes: 8 * count };
        self.perform(bcast, Payload::EMPTY, room.memory(), &mut |_, _| {})?;
        Ok(numbers_of(room.payload()))
    }
}

/// The numbers that stand in some bytes.
pub(super) fn numbers_of(bytes: Payload<'_>) -> Vec<i64> {
    let bytes = bytes.to_vec();
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| i64::from_le_bytes(*word)).collect()
}

/// A tag that no other operation is likely to have, and none that anybody gives.
pub(super) fn tag_of(purpose: u64) -> i32 {
    (mix(purpose) >> 33) as i32
}

impl Communicator {
    /// A communicator of a part of the group. Only those in `group` call, with the same tag; others get none
    /// (MPI 5.0 §7.4.2). Collective over `group`.
    ///
    /// # Errors
    /// [`Class::Group`] where `group` names processes that are not members; [`Class::Tag`]; when a member is lost.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Communicator>> {
        if self.is_inter() {
            return Err(self.not_for_inter("create_group"));
        }
        self.check_tag(tag)?;
        self.check_part(group)?;
        let Some(rank) = group.rank(self.inner.process.here()) else { return Ok(None) };
        let purpose = mix(self.inner.identity ^ mix(group.fingerprint() ^ (tag as u64).rotate_left(32)));
        let seed = mix(purpose ^ self.inner.partial.next(purpose));
        let process = &self.inner.process;
        let (lease, _) = Strangers { process, group, rank, purpose }.agree(seed, 0)?;
        let label = self.label_of_child("group of ");
        Ok(self.child(group.clone(), lease, seed, label))
    }
}

impl Process {
    /// A communicator of a group, made from no other (MPI 5.0 §7.4.2): collective over the group, whose processes give
    /// the same tag. `None` at a process that is not in it.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn communicator_of(self: &Arc<Process>, group: &Group, tag: &str) -> Result<Option<Communicator>> {
        self.check_group(group)?;
        let Some(rank) = group.rank(self.here()) else { return Ok(None) };
        let purpose = mix(mix_text(tag) ^ group.fingerprint());
        let seed = mix(purpose ^ self.made().next(purpose));
        let (lease, _) = Strangers { process: self, group, rank, purpose }.agree(seed, 0)?;
        let (process, group) = (self.clone(), group.clone());
        let label = Label { made: "group ", of: tag.into() };
        Ok(Communicator::assemble(Parts { process, group, inter: None, lease, identity: mix(seed), label }))
    }

    /// A number of numbers that another process has told: no more than an encoded group of this job can have.
    pub(super) fn count_told(&self, count: i64) -> Result<usize> {
        let most = 3 * u64::from(self.peers()) + 2;
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
