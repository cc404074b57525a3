//! Members that do not mean the same operation: one is on the collective segment, and another sends messages,
//! or writes nothing.
//!
//! Each member says in its place on the collective segment how many operations by messages it has begun, when
//! it begins one; and where it stands on the collective segment, when it has to wait long. All members begin
//! all operations in one order, and what one has begun before it is seen by who sees what it does later. So
//! who waits for somebody finds out that this one has gone past, or has passed over, what both should be
//! doing; and nobody else has to do anything for that.
//!
//! Who finds that out in an operation by messages gives it up, and so does who gets a message of another
//! length. It says so in its place as well, since others wait for messages that it would have sent later:
//! these give up in their turn.

use std::sync::atomic::Ordering;

use collectives::node::CollectiveProgress;
use collectives::{Cause, Execution, Failed};
use fabric::slots::Slots;
use job::fabrics::Fabrics;
use messaging::{Engine, Rank};

use super::{Communicator, SegmentHandle};

/// One wait for messages: now and then it is looked whether they can come.
pub(in crate::communicator) struct Watch {
    stage: Option<CollectiveProgress>,
    looks: u32,
}

impl Communicator {
    /// An operation by messages begins, is counted, and may be waited for.
    #[inline]
    pub(in crate::communicator) fn tell_segment(&self) {
        // What is closed begins nothing, and who has not heard of that waits for it on the collective
        // segment.
        if let Some(handle) = self.handle()
            && !self.inner.standing.is_closed()
            && !handle.begun.no_more.load(Ordering::Relaxed)
        {
            handle.segment.say_elsewhere(self.by_messages(handle));
        }
    }

    /// How many operations by messages were begun since there is a collective segment.
    pub(super) fn by_messages(&self, handle: &SegmentHandle) -> u32 {
        self.by_messages_at_all().wrapping_sub(handle.by_messages_before)
    }

    pub(super) fn by_messages_at_all(&self) -> u32 {
        let (blocking, begun) = (&self.inner.sequence, &self.inner.nonblocking);
        blocking.load(Ordering::Relaxed).wrapping_add(begun.load(Ordering::Relaxed))
    }

    /// Where this member stands, which has just begun an operation by messages; `None` where there is no
    /// collective segment.
    fn stage(&self) -> Option<CollectiveProgress> {
        let handle = self.handle()?;
        let mut turn = handle.turn.try_hold().filter(|turn| !turn.has_left)?;
        if handle.begun.no_more.load(Ordering::Relaxed) {
            handle.end(&mut turn);
            return None;
        }
        Some(CollectiveProgress { number: turn.credit.number(), by_messages: self.by_messages(handle) })
    }

    /// A wait for an operation by messages that has just begun.
    pub(in crate::communicator) fn watch(&self) -> Watch {
        Watch { stage: self.stage(), looks: 0 }
    }

    /// Gives an operation up that waits for messages of a member, or for it to receive, which has gone on
    /// without it.
    #[cold]
    fn give_up_if_elsewhere(
        &self,
        stage: CollectiveProgress,
        execution: &mut Execution,
        engine: &mut Engine<Fabrics>,
    ) {
        let Some(handle) = self.handle() else { return };
        // What is closed ends by itself.
        if engine.closed(self.collective_context()).is_some() {
            return;
        }
        let is_elsewhere = |rank| handle.takes_no_part(rank, stage);
        let found = execution.partners().find(|(_, with)| is_elsewhere(*with));
        // What was left may be others' by now, and its words are theirs then: whoever sees one of them sees
        // this.
        if handle.begun.no_more.load(Ordering::Relaxed) {
            return;
        }
        if let Some((activity, with)) = found {
            execution.give_up(engine, Failed { with, activity, cause: Cause::Elsewhere }, &is_elsewhere);
        }
    }

    /// Says that an operation by messages is given up, which was the last of so many.
    #[cold]
    fn say_given_up(&self, by_messages: u32) {
        if let Some(handle) = self.handle()
            && !self.inner.standing.is_closed()
            && !handle.begun.no_more.load(Ordering::Relaxed)
        {
            handle.segment.give_up(by_messages);
            handle.segment.wake();
        }
    }

    /// Says that this member's last operation by messages is given up.
    #[cold]
    pub(super) fn say_last_given_up(&self) {
        if let Some(handle) = self.handle() {
            self.say_given_up(self.by_messages(handle));
        }
    }
}

impl Watch {
    /// Looks, once in a few times.
    #[inline]
    pub(in crate::communicator) fn look(
        &mut self,
        of: &Communicator,
        execution: &mut Execution,
        engine: &mut Engine<Fabrics>,
    ) {
        if self.is_due()
            && let Some(stage) = self.stage
        {
            of.give_up_if_elsewhere(stage, execution, engine);
        }
    }

    /// Whether it is time to look, which is so once in a few times.
    fn is_due(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks.is_multiple_of(LOOKS_PER_WATCH)
    }

    /// The operation has failed. Where its members do not mean the same, those who wait for this one are told
    /// so.
    #[cold]
    pub(in crate::communicator) fn tell_of(&self, of: &Communicator, failed: &Failed) {
        let is_mismatch = matches!(failed.cause, Cause::Mismatch { .. } | Cause::Elsewhere);
        if let Some(stage) = self.stage.filter(|_| is_mismatch) {
            of.say_given_up(stage.by_messages);
        }
    }

    /// What has failed waits until nothing of it is under way any more: looks, once in a few times, for
    /// messages that nobody will receive.
    #[cold]
    pub(in crate::communicator) fn look_back(&mut self, of: &Communicator, execution: &mut Execution) {
        if self.is_due()
            && let (Some(stage), Some(handle)) = (self.stage, of.handle())
            && !handle.begun.no_more.load(Ordering::Relaxed)
        {
            execution.expect_nothing_of(&|rank| handle.takes_no_part(rank, stage));
        }
    }
}

impl SegmentHandle {
    /// Whether a member sends and takes nothing more for the last operation by messages.
    fn takes_no_part(&self, rank: Rank, stage: CollectiveProgress) -> bool {
        self.has_passed_over(rank, stage) || self.segment.has_given_up(rank.0, stage.by_messages)
    }

    /// Whether a member is in a later operation on the collective segment, and has not begun the last one by
    /// messages.
    fn has_passed_over(&self, rank: Rank, stage: CollectiveProgress) -> bool {
        self.segment.has_passed_over(rank.0, stage.number, stage.by_messages)
    }

    /// Whether a member has not written its slot for an operation on the collective segment, and never will:
    /// it is through with it, or waits in it, or has begun an operation by messages that comes later.
    pub(super) fn will_not_write(&self, rank: Rank, stage: CollectiveProgress) -> bool {
        self.segment.will_not_write(rank.0, stage.number, stage.by_messages)
    }
}

/// A wait for a message looks so often before it is looked whether it can come: seldom enough to cost
/// nothing, and often enough for one that sleeps between looks.
pub(super) const LOOKS_PER_WATCH: u32 = 16;

#[cfg(test)]
mod tests {
    use collectives::{Advance, Buffers, Collective};
    use fabric::UserMemory;
    use job::config::CpuTime;

    use super::*;
    use crate::memory::{reading, writing};
    use crate::{Config, run_threads};

    /// What is left is taken by others, whose words mean other operations.
    #[test]
    fn nothing_is_learnt_from_a_segment_that_was_left() {
        let config = Config { cpus: Some(CpuTime::UNLIMITED), ..Config::default() };
        run_threads(2, &config, |session| {
            let world = &session.world();
            let several = |comm: &Communicator, times: u32| (0..times).for_each(|_| comm.barrier().unwrap());
            let (left, next) = (world.duplicate().unwrap(), world.duplicate().unwrap());
            several(&left, 4);
            assert!(left.handle().is_some());
            let mut room = vec![0u8; 1 << 16];
            let buffers = Buffers { input: reading(&[] as &[u8]), output: writing(&mut room) };
            let bcast = Collective::Bcast { root: Rank(1 - world.rank().0), bytes: 1 << 16 };
            let mut execution = left.execution(bcast.schedule(&left.shape()), buffers);
            let stage = left.stage().unwrap();
            let mut look = |gives_up: bool| {
                world.process().act(|engine| {
                    let place = |rank| left.group().peer(rank).unwrap();
                    let mut nothing = |_: fabric::Payload<'_>, _: &mut UserMemory| {};
                    if gives_up {
                        left.give_up_if_elsewhere(stage, &mut execution, engine);
                    }
                    execution.advance(engine, &place, &mut nothing)
                })
            };
            assert_eq!(look(false), Advance::Pending);
            left.put_away();
            several(world, 1);
            // The same place in memory, since it is the first that is free.
            several(&next, 20);
            assert_eq!(look(true), Advance::Pending, "the board is another one's");
            world.process().act(|engine| execution.abandon(engine));
            several(world, 1);
        })
        .unwrap();
    }
}
