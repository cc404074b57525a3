//! Which epochs a process has open at a window, and what each allows (MPI 5.0 §12.5): rules, and nothing
//! else.

use std::collections::BTreeMap;

use messaging::Rank;

use crate::group::Group;

/// How a target is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Others may lock it, too, for sharing.
    Shared,
    /// Nobody else has it locked.
    Exclusive,
}

/// A lock that this process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub kind: LockKind,
    /// Taken at the target; not so where the program has promised that nobody else wants it.
    pub taken: bool,
    /// Who kept the word of the window as a whole when it was taken.
    pub keeper: Rank,
}

/// The epochs of one process at one window.
#[derive(Default)]
pub(super) struct Epochs {
    /// A fence has begun an epoch that no other fence has ended.
    fenced: bool,
    /// Between `lock_all` and `unlock_all`.
    all: Option<Held>,
    locks: BTreeMap<Rank, Held>,
    /// The targets of `start`, until `complete`.
    started: Option<Group>,
    /// The origins of `post` of which no `complete` has been heard, until `wait`.
    posted: Option<Vec<Rank>>,
}

/// Why a call does not fit the epochs.
pub(super) type Misfit = &'static str;

impl Epochs {
    /// Whether operations may go to that member, which `of_window` finds in a group.
    pub(super) fn access(&self, target: Rank, window: &Group) -> Result<(), Misfit> {
        let is_started = |group: &Group| window.peer(target).is_some_and(|peer| group.contains(peer));
        let is_open = self.fenced
            || self.all.is_some()
            || self.locks.contains_key(&target)
            || self.started.as_ref().is_some_and(is_started);
        if is_open {
            return Ok(());
        }
        Err(match (&self.started, self.locks.is_empty()) {
            (Some(_), _) => "the target is not in the group of MPI_Win_start",
            (None, false) => "another member is locked, and the target is not",
            (None, true) => "no epoch is open: call MPI_Win_fence, MPI_Win_lock or MPI_Win_start first",
        })
    }

    /// Whether operations to that member, or to all, can be flushed: in passive epochs alone.
    pub(super) fn flush(&self, target: Option<Rank>) -> Result<(), Misfit> {
        let is_locked = match target {
            Some(target) => self.locks.contains_key(&target),
            None => !self.locks.is_empty(),
        };
        if self.all.is_some() || is_locked { Ok(()) } else { Err(NOT_LOCKED) }
    }

    /// A fence begins, which ends the epoch before it.
    pub(super) fn check_fence(&self) -> Result<(), Misfit> {
        if self.all.is_some() {
            return Err("a fence stands between lock_all and unlock_all");
        }
        if !self.locks.is_empty() {
            return Err("a fence stands between lock and unlock");
        }
        if self.started.is_some() || self.posted.is_some() {
            return Err("a fence stands in an epoch of MPI_Win_start or MPI_Win_post");
        }
        Ok(())
    }

    /// A fence is over; whether an epoch may follow it.
    pub(super) fn fence(&mut self, is_followed: bool) {
        self.fenced = is_followed;
    }

    pub(super) fn check_lock(&self, target: Rank) -> Result<(), Misfit> {
        if self.locks.contains_key(&target) {
            return Err("the target is locked already");
        }
        if self.all.is_some() {
            return Err("all members are locked already");
        }
        if self.started.is_some() {
            return Err("a lock stands in an epoch of MPI_Win_start");
        }
        Ok(())
    }

    pub(super) fn lock(&mut self, target: Rank, held: Held) {
        self.locks.insert(target, held);
    }

    /// The lock of that target, which is to be released.
    pub(super) fn locked(&self, target: Rank) -> Result<Held, Misfit> {
        self.locks.get(&target).copied().ok_or("the target is not locked: MPI_Win_lock comes first")
    }

    pub(super) fn unlock(&mut self, target: Rank) {
        self.locks.remove(&target);
    }

    pub(super) fn check_lock_all(&self) -> Result<(), Misfit> {
        if self.all.is_some() {
            return Err("it is locked already");
        }
        if !self.locks.is_empty() {
            return Err("a member is locked already");
        }
        if self.started.is_some() {
            return Err("lock_all stands in an epoch of MPI_Win_start");
        }
        Ok(())
    }

    pub(super) fn lock_all(&mut self, held: Held) {
        self.all = Some(held);
    }

    /// The lock of all members, which is to be released.
    pub(super) fn all_locked(&self) -> Result<Held, Misfit> {
        self.all.ok_or(NOT_LOCKED)
    }

    pub(super) fn unlock_all(&mut self) {
        self.all = None;
    }

    pub(super) fn check_start(&self) -> Result<(), Misfit> {
        if self.started.is_some() {
            return Err("an epoch of MPI_Win_start is open already");
        }
        if self.all.is_some() || !self.locks.is_empty() {
            return Err("MPI_Win_start stands between a lock and its unlock");
        }
        Ok(())
    }

    pub(super) fn start(&mut self, targets: Group) {
        (self.started, self.fenced) = (Some(targets), false);
    }

    /// The targets of the epoch that is to be completed.
    pub(super) fn started(&self) -> Result<&Group, Misfit> {
        self.started.as_ref().ok_or("no epoch is open: MPI_Win_start comes first")
    }

    pub(super) fn complete(&mut self) {
        self.started = None;
    }

    pub(super) fn check_post(&self) -> Result<(), Misfit> {
        if self.posted.is_some() { Err("an epoch of MPI_Win_post is open already") } else { Ok(()) }
    }

    pub(super) fn post(&mut self, origins: Vec<Rank>) {
        (self.posted, self.fenced) = (Some(origins), false);
    }

    /// The origins that have not completed their epochs.
    pub(super) fn posted(&mut self) -> Result<&mut Vec<Rank>, Misfit> {
        self.posted.as_mut().ok_or("no epoch is open: MPI_Win_post comes first")
    }

    pub(super) fn waited(&mut self) {
        self.posted = None;
    }

    /// Whether no epoch is open but what a fence has begun.
    pub(super) fn check_closed(&self) -> Result<(), Misfit> {
        if self.all.is_some() || !self.locks.is_empty() {
            return Err("it is locked and cannot be freed");
        }
        if self.started.is_some() {
            return Err("an epoch of MPI_Win_start is open, and it cannot be freed");
        }
        if self.posted.is_some() {
            return Err("an epoch of MPI_Win_post is open, and it cannot be freed");
        }
        Ok(())
    }
}

const NOT_LOCKED: Misfit = "it is not locked: MPI_Win_lock or MPI_Win_lock_all comes first";

#[cfg(test)]
mod tests {
    use fabric::Peer;

    use super::*;

    const TAKEN: Held = Held { kind: LockKind::Shared, taken: true, keeper: Rank(0) };

    #[test]
    fn each_epoch_allows_its_targets_and_no_others() {
        let window = Group::world(4);
        let mut epochs = Epochs::default();
        assert!(epochs.access(Rank(0), &window).is_err());
        epochs.fence(true);
        assert!(epochs.access(Rank(3), &window).is_ok());
        assert!(epochs.flush(Some(Rank(3))).is_err(), "an active epoch is not flushed");
        epochs.fence(false);
        assert!(epochs.access(Rank(3), &window).is_err());
        epochs.lock(Rank(1), TAKEN);
        assert!(epochs.access(Rank(1), &window).is_ok() && epochs.access(Rank(2), &window).is_err());
        assert!(epochs.flush(Some(Rank(1))).is_ok() && epochs.flush(Some(Rank(2))).is_err());
        assert!(epochs.check_lock(Rank(1)).is_err() && epochs.check_lock(Rank(2)).is_ok());
        assert!(epochs.check_fence().is_err() && epochs.check_lock_all().is_err());
        assert!(epochs.check_start().is_err() && epochs.check_closed().is_err());
        epochs.unlock(Rank(1));
        assert!(epochs.locked(Rank(1)).is_err());
        epochs.start(Group::of([Peer(2)]));
        assert!(epochs.access(Rank(2), &window).is_ok() && epochs.access(Rank(1), &window).is_err());
        assert!(epochs.check_lock(Rank(1)).is_err() && epochs.check_fence().is_err());
        // One process may be origin and target at a time.
        assert!(epochs.check_post().is_ok());
        epochs.post(vec![Rank(0)]);
        assert!(epochs.check_post().is_err() && epochs.check_closed().is_err());
        epochs.complete();
        assert!(epochs.started().is_err());
        epochs.waited();
        assert!(epochs.posted().is_err() && epochs.check_closed().is_ok());
        epochs.lock_all(TAKEN);
        assert!(epochs.access(Rank(0), &window).is_ok() && epochs.flush(None).is_ok());
        assert!(epochs.check_lock_all().is_err() && epochs.check_lock(Rank(0)).is_err());
        epochs.unlock_all();
        assert!(epochs.all_locked().is_err() && epochs.flush(None).is_err());
    }
}
