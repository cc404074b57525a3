//! Epochs: fences, the four calls of general active target synchronization, and locks (MPI 5.0 §12.5).

use std::sync::atomic::Ordering;

use fabric::{Heap, Payload};
use job::error::{Class, Error, Result};
use messaging::{Mode, Pattern, Rank};

use super::epochs::{Held, LockKind};
use super::protocol::{COMPLETE, POST, Request};
use super::words::Wanted;
use super::{Window, full_fence};
use crate::group::Group;

/// What a program promises of a fence (MPI 5.0 §12.5.5). Promises spare work, and change nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FencePromises {
    /// This process has no operations under way.
    pub none_before: bool,
    /// This process begins none before the next fence.
    pub none_after: bool,
}

impl Window {
    /// Completes the operations that all members have begun since the last fence, and begins an epoch in
    /// which every member may use the memory of all (MPI 5.0 §12.5.1). Collective.
    ///
    /// # Errors
    /// [`Class::RmaSync`] in an epoch of another kind; an operation that failed; a lost member.
    pub fn fence(&self) -> Result<()> {
        self.fence_with(FencePromises::default())
    }

    /// Completes the operations that all members have begun since the last fence, as far as `promises` leave
    /// any, and begins an epoch in which every member may use the memory of all (MPI 5.0 §12.5.1).
    /// Collective.
    ///
    /// # Errors
    /// [`Class::RmaSync`] in an epoch of another kind; an operation that failed; a lost member.
    pub fn fence_with(&self, promises: FencePromises) -> Result<()> {
        self.epochs.hold().check_fence().map_err(|why| self.out_of_epoch(why))?;
        let done = if promises.none_before { Ok(()) } else { self.complete_there(&self.unheard()) };
        full_fence();
        self.comm.barrier()?;
        full_fence();
        self.epochs.hold().fence(!promises.none_after);
        self.is_open_for_all.store(!promises.none_after, Ordering::Relaxed);
        done
    }

    /// Allows the members of a group to use this process's memory, until [`Window::wait`] (MPI 5.0 §12.5.2).
    /// `is_unchecked`: they have promised to wait for it in another way.
    ///
    /// # Errors
    /// [`Class::RmaSync`] where there is such an epoch; [`Class::Group`] for one with others than members.
    pub fn post(&self, origins: &Group, is_unchecked: bool) -> Result<()> {
        self.epochs.hold().check_post().map_err(|why| self.out_of_epoch(why))?;
        let ranks = self.ranks_of(origins)?;
        full_fence();
        if !is_unchecked {
            for rank in &ranks {
                self.comm.send_claim(Payload::EMPTY, *rank, POST, Mode::Standard)?;
            }
        }
        self.is_open_for_all.store(false, Ordering::Relaxed);
        self.epochs.hold().post(ranks);
        Ok(())
    }

    /// Begins an epoch in which this process uses the memory of a group's members, until
    /// [`Window::complete`] (MPI 5.0 §12.5.2). Waits until they allow it.
    ///
    /// # Errors
    /// [`Class::RmaSync`] where there is such an epoch, or a lock; [`Class::Group`] for a group with others
    /// than members; a lost member.
    pub fn start(&self, targets: &Group, is_unchecked: bool) -> Result<()> {
        self.epochs.hold().check_start().map_err(|why| self.out_of_epoch(why))?;
        let ranks = self.ranks_of(targets)?;
        if !is_unchecked {
            for rank in ranks {
                self.receive_sign(rank, POST)?;
            }
        }
        self.is_open_for_all.store(false, Ordering::Relaxed);
        self.epochs.hold().start(targets.clone());
        full_fence();
        Ok(())
    }

    /// Completes the operations of the epoch that [`Window::start`] has begun, and tells its targets
    /// (MPI 5.0 §12.5.2).
    ///
    /// # Errors
    /// [`Class::RmaSync`] where there is none; an operation that failed; a lost member.
    pub fn complete(&self) -> Result<()> {
        let targets = self.epochs.hold().started().map_err(|why| self.out_of_epoch(why))?.clone();
        let ranks = self.ranks_of(&targets)?;
        let mut done = self.complete_there(&self.unheard());
        full_fence();
        for rank in ranks {
            done = done.and(self.comm.send_claim(Payload::EMPTY, rank, COMPLETE, Mode::Standard));
        }
        self.epochs.hold().complete();
        done
    }

    /// Waits until all origins of the epoch that [`Window::post`] has begun have completed theirs
    /// (MPI 5.0 §12.5.2).
    ///
    /// # Errors
    /// [`Class::RmaSync`] where there is none; a lost member.
    pub fn wait(&self) -> Result<()> {
        let origins = self.epochs.hold().posted().map_err(|why| self.out_of_epoch(why))?.clone();
        let mut done = Ok(());
        for rank in origins {
            done = done.and(self.receive_sign(rank, COMPLETE));
        }
        self.epochs.hold().waited();
        full_fence();
        done
    }

    /// Whether all origins of the epoch that [`Window::post`] has begun have completed theirs; then it is
    /// over (MPI 5.0 §12.5.2).
    ///
    /// # Errors
    /// [`Class::RmaSync`] where there is no such epoch; a lost member.
    pub fn test(&self) -> Result<bool> {
        let mut origins = std::mem::take(self.epochs.hold().posted().map_err(|why| self.out_of_epoch(why))?);
        let mut done = Ok(());
        origins.retain(|rank| match self.comm.probe_now(Some(*rank), Some(COMPLETE)) {
            Ok(None) => true,
            Ok(Some(_)) => {
                done = std::mem::replace(&mut done, Ok(())).and(self.receive_sign(*rank, COMPLETE));
                false
            }
            Err(error) => {
                done = Err(error);
                true
            }
        });
        let is_over = origins.is_empty();
        let mut epochs = self.epochs.hold();
        if is_over {
            epochs.waited();
            full_fence();
        } else if let Ok(left) = epochs.posted() {
            *left = origins;
        }
        done.map(|()| is_over)
    }

    fn receive_sign(&self, from: Rank, tag: i32) -> Result<()> {
        let room = Heap::new(1);
        let received = self.comm.receive_claim(room.memory(), Some(from), Some(tag))?;
        received.error.map_or(Ok(()), Err)
    }

    /// The ranks in this window of a group's members.
    fn ranks_of(&self, group: &Group) -> Result<Vec<Rank>> {
        let rank = |peer| self.group().rank(peer).ok_or_else(|| self.strange_group());
        group.peers().map(rank).collect()
    }

    #[cold]
    fn strange_group(&self) -> Error {
        let what = format!("{}: the group has a process that is no member of the window", self.place());
        Error::new(Class::Group, what).remedy("make it from the group of MPI_Win_get_group")
    }

    /// Locks a member's memory, and begins an epoch in which this process uses it (MPI 5.0 §12.5.3).
    /// `is_unchecked`: the program has promised that nobody has a lock that is in the way.
    ///
    /// # Errors
    /// [`Class::Rank`]; [`Class::RmaSync`] where that member, or all, are locked already; a lost member.
    pub fn lock(&self, target: Rank, kind: LockKind, is_unchecked: bool) -> Result<()> {
        self.check_rank(target)?;
        self.serve_others();
        if self.comm.is_with_nobody(target)? {
            return Ok(());
        }
        self.epochs.hold().check_lock(target).map_err(|why| self.out_of_epoch_with(target, why))?;
        let keeper = self.keeper();
        if !is_unchecked {
            if kind == LockKind::Exclusive {
                self.take(keeper, Wanted::NoneOfAll)?;
            }
            if let Err(error) = self.take(target, Wanted::Member(kind)) {
                if kind == LockKind::Exclusive {
                    let _ = self.give_back(keeper, Wanted::NoneOfAll);
                }
                return Err(error);
            }
        }
        self.epochs.hold().lock(target, Held { kind, taken: !is_unchecked, keeper });
        full_fence();
        Ok(())
    }

    /// Completes the operations of the epoch that [`Window::lock`] has begun, and gives the lock back
    /// (MPI 5.0 §12.5.3).
    ///
    /// # Errors
    /// [`Class::Rank`]; [`Class::RmaSync`] where there is none; an operation that failed; a lost member.
    pub fn unlock(&self, target: Rank) -> Result<()> {
        self.check_rank(target)?;
        self.serve_others();
        if self.comm.is_with_nobody(target)? {
            return Ok(());
        }
        let held = self.epochs.hold().locked(target).map_err(|why| self.out_of_epoch_with(target, why))?;
        let mut done = self.complete_here(target);
        if held.taken {
            done = done.and(self.give_back(target, Wanted::Member(held.kind)));
            if held.kind == LockKind::Exclusive {
                done = done.and(self.give_back(held.keeper, Wanted::NoneOfAll));
            }
        } else {
            done = done.and(self.complete_there(&[target]));
        }
        self.epochs.hold().unlock(target);
        done
    }

    /// Begins an epoch in which this process uses the memory of all members, and others too (MPI 5.0
    /// §12.5.3).
    ///
    /// # Errors
    /// [`Class::RmaSync`] where a member is locked already; a lost member.
    pub fn lock_all(&self) -> Result<()> {
        self.lock_all_with(false)
    }

    /// Begins an epoch in which this process uses the memory of all members, and others too (MPI 5.0
    /// §12.5.3). `is_unchecked`: the program has promised that nobody has an exclusive lock.
    ///
    /// # Errors
    /// [`Class::RmaSync`] where a member is locked already; a lost member.
    pub fn lock_all_with(&self, is_unchecked: bool) -> Result<()> {
        self.epochs.hold().check_lock_all().map_err(|why| self.out_of_epoch(why))?;
        let keeper = self.keeper();
        if !is_unchecked {
            self.take(keeper, Wanted::All)?;
        }
        self.epochs.hold().lock_all(Held { kind: LockKind::Shared, taken: !is_unchecked, keeper });
        self.is_open_for_all.store(true, Ordering::Relaxed);
        full_fence();
        Ok(())
    }

    /// Completes the operations of the epoch that [`Window::lock_all`] has begun, and ends it.
    ///
    /// # Errors
    /// [`Class::RmaSync`] where there is none; an operation that failed; a lost member.
    pub fn unlock_all(&self) -> Result<()> {
        let held = self.epochs.hold().all_locked().map_err(|why| self.out_of_epoch(why))?;
        let mut done = self.complete_there(&self.unheard());
        full_fence();
        if held.taken {
            done = done.and(self.give_back(held.keeper, Wanted::All));
        }
        self.epochs.hold().unlock_all();
        self.is_open_for_all.store(false, Ordering::Relaxed);
        done
    }

    /// Completes this process's operations with a member, or with all, here and there (MPI 5.0 §12.5.4). With
    /// a blank rank there are none.
    ///
    /// # Errors
    /// [`Class::Rank`], also for a blank one where that is an error for messages
    /// ([`crate::BlankPartner::Error`]); [`Class::RmaSync`] where the member is not locked; an operation that
    /// failed; a lost member.
    #[inline]
    pub fn flush(&self, rank: Option<Rank>) -> Result<()> {
        self.check_flush(rank)?;
        if self.service.is_some() {
            match rank {
                Some(rank) => self.complete_there(&[rank])?,
                None => self.complete_there(&self.unheard())?,
            }
        }
        full_fence();
        Ok(())
    }

    /// Completes this process's operations with a member where all of them are loads and stores, which only
    /// have to be ordered. `None`: nothing has happened.
    #[inline(always)]
    #[must_use]
    pub fn flush_reached(&self, rank: Rank) -> Option<()> {
        if self.service.is_some() || rank.0 >= self.group().size() || self.comm.has_blanks() {
            return None;
        }
        self.epochs.hold().flush(Some(rank)).ok()?;
        full_fence();
        Some(())
    }

    /// Completes this process's operations with a member, or with all, here: the buffers are free
    /// (MPI 5.0 §12.5.4).
    ///
    /// # Errors
    /// [`Class::Rank`], also for a blank one where that is an error for messages
    /// ([`crate::BlankPartner::Error`]); [`Class::RmaSync`] where the member is not locked; an operation that
    /// failed; a lost member.
    pub fn flush_local(&self, rank: Option<Rank>) -> Result<()> {
        self.check_flush(rank)?;
        if self.service.is_some() {
            let targets = rank.map_or_else(|| self.unheard(), |rank| vec![rank]);
            targets.into_iter().try_for_each(|rank| self.complete_here(rank))?;
        }
        full_fence();
        Ok(())
    }

    #[inline]
    fn check_flush(&self, rank: Option<Rank>) -> Result<()> {
        self.serve_others();
        if let Some(rank) = rank {
            self.check_rank(rank)?;
            if self.comm.is_with_nobody(rank)? {
                return Ok(());
            }
        }
        self.epochs.hold().flush(rank).map_err(|why| self.out_of_epoch(why))
    }

    /// Who keeps the word of the window as a whole: the first member that is not blank.
    fn keeper(&self) -> Rank {
        if !self.comm.has_blanks() {
            return Rank(0);
        }
        let is_there = |rank: &Rank| !self.comm.is_blank(*rank);
        (0..self.group().size()).map(Rank).find(is_there).unwrap_or(self.rank())
    }

    /// Takes a lock, and waits until it is free.
    fn take(&self, at: Rank, wanted: Wanted) -> Result<()> {
        match self.exposure.words(at) {
            Some(words) => {
                let mut rounds = 0u32;
                while !words.try_take(wanted, self.rank()) {
                    rounds = rounds.saturating_add(1);
                    self.rest_before_lock(at, rounds)?;
                }
                Ok(())
            }
            None => {
                let answer = self.ask_for_end(at, |answer| Request::Take { wanted, answer })?;
                self.hear_end(at, answer)
            }
        }
    }

    /// What lies between two looks at a lock that somebody else has: a turn of progress, which others may
    /// wait for, and in the end a short sleep. Nobody rings for who waits here.
    #[cold]
    fn rest_before_lock(&self, at: Rank, rounds: u32) -> Result<()> {
        let process = self.comm.process();
        process.progress();
        if rounds < ROUNDS_BEFORE_SLEEP {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP_BEFORE_LOCK);
        }
        if !rounds.is_multiple_of(ROUNDS_BEFORE_ROLL) {
            return Ok(());
        }
        let pattern = Pattern { context: self.comm.context(), source: None, tag: Some(POST) };
        match process.with_engine(|engine| {
            engine.call_roll();
            engine.obstacle(&pattern, None)
        }) {
            None => Ok(()),
            Some(failure) => {
                let holder = self.exposure.words(at).and_then(super::words::Words::holder);
                let of = holder.map_or_else(String::new, |rank| format!(", which rank {} has", rank.0));
                let error = self.comm.nothing_comes(&failure);
                Err(error.during(format!("waiting for a lock of rank {}{of}", at.0)))
            }
        }
    }

    /// Gives a lock back when all that was asked for there is done.
    fn give_back(&self, at: Rank, wanted: Wanted) -> Result<()> {
        match self.exposure.words(at) {
            Some(words) => {
                full_fence();
                words.give_back(wanted, self.rank());
                Ok(())
            }
            None => {
                let answer = self.ask_for_end(at, |answer| Request::GiveBack { wanted, answer })?;
                self.hear_end(at, answer)
            }
        }
    }

    /// Sees to it that no epoch is open but what a fence has begun, so that the window can be freed.
    ///
    /// # Errors
    /// [`Class::RmaSync`].
    pub fn check_closed(&self) -> Result<()> {
        self.epochs.hold().check_closed().map_err(|why| self.out_of_epoch(why))
    }

    #[cold]
    pub(super) fn out_of_epoch(&self, why: &str) -> Error {
        Error::new(Class::RmaSync, format!("{}: {why}", self.place()))
    }

    #[cold]
    pub(super) fn out_of_epoch_with(&self, target: Rank, why: &str) -> Error {
        Error::new(Class::RmaSync, format!("{} with rank {}: {why}", self.place(), target.0))
    }
}

/// A lock is mostly held for microseconds.
const ROUNDS_BEFORE_SLEEP: u32 = 2000;
const SLEEP_BEFORE_LOCK: std::time::Duration = std::time::Duration::from_micros(50);
const ROUNDS_BEFORE_ROLL: u32 = 256;
