//! Communicators made of groups (MPI 5.0 §7.4.2).

use job::error::{Class, Error, Result};

use super::Communicator;
use super::agree::alike_in;
use crate::contexts::mix;
use crate::group::Group;

impl Communicator {
    /// A communicator of a part of the group. Every member calls. Different members may give different groups
    /// that do not overlap; those that are in the group they give get a communicator (MPI 5.0 §7.4.2).
    /// Collective.
    ///
    /// Over an inter-communicator, `group` is a part of the local group, and the new one is an
    /// inter-communicator too.
    ///
    /// # Errors
    /// [`Class::Group`] where `group` names processes that are not members, and where the members of a group
    /// have not all given that group; at all members. When a member is lost.
    pub fn create(&self, group: &Group) -> Result<Option<Communicator>> {
        if self.is_inter() {
            return self.create_across(group);
        }
        let part = self.check_part(group);
        let seed = self.next_seed();
        let word = if part.is_ok() { self.consent(group) } else { mix(seed) };
        let (lease, sum) = self.vote(seed, word)?;
        part?;
        if sum != 0 {
            let what = format!("{}: the members do not agree on the groups of MPI_Comm_create", self.place());
            return Err(Error::new(Class::Group, what)
                .remedy("every member of a group must give that group, with its members in the same order"));
        }
        let label = self.label_of_child("group of ");
        Ok(self.child(group.clone(), lease, seed, label))
    }

    /// A number. Over all members they sum up to 0 if each member of each group has given that group; if one
    /// has not, they do so only by an accident of 1 in 2^64.
    fn consent(&self, group: &Group) -> u64 {
        // Who is blank says nothing.
        let living = group & &self.live();
        let rank = living.rank(self.inner.process.here());
        rank.map_or(0, |rank| alike_in(group.fingerprint() | 1, rank, living.size()))
    }

    /// Whether all of the group are members.
    pub(super) fn check_part(&self, group: &Group) -> Result<()> {
        let strange = group - self.group();
        match strange.iter().next() {
            None => Ok(()),
            Some(peer) => {
                let what = format!("{}: process {} of the group is not a member", self.place(), peer.0);
                Err(Error::new(Class::Group, what))
            }
        }
    }

    pub(super) fn check_tag(&self, tag: i32) -> Result<()> {
        if tag >= 0 {
            return Ok(());
        }
        Err(Error::new(Class::Tag, format!("{}: the tag is {tag}, tags are not negative", self.place())))
    }

    #[cold]
    pub(super) fn not_for_inter(&self, operation: &str) -> Error {
        let what = format!("{}: {operation} is not for inter-communicators", self.place());
        Error::new(Class::Communicator, what)
    }
}
