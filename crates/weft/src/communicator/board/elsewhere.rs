//! Members that do not mean the same operation: one is on the board, and another sends messages, or writes nothing.
//!
//! Each member says in its place on the board how many operations by messages it has begun, when it begins one; and where it stands
//! on the board, when it has to wait long. All members begin all operations in one order, and what one has begun before
//! it is seen by who sees what it does later. So who waits for somebody finds out that this one has gone past, or has
//! passed over, what both should be doing; and nobody else has to do anything for that.

use std::sync::atomic::Ordering;

use collectives::{Activity, Cause, Execution, Failed};
use messaging::{Engine, Rank};

use super::{Bulletin, Communicator};
use crate::error::Error;
use crate::fabrics::{Fabrics, is_before};

/// What a member has begun: the last operation on the board, and how many by messages.
#[derive(Clone, Copy, Debug)]
pub(in crate::communicator) struct Stage {
    pub(super) number: u32,
    pub(super) by_messages: u32,
}

/// One wait for messages: now and then it is looked whether they can come.
pub(in crate::communicator) struct Watch {
    stage: Option<Stage>,
    looks: u32,
}

impl Communicator {
    /// An operation by messages begins, is counted, and may be waited for.
    #[inline]
    pub(in crate::communicator) fn tell_board(&self) {
        // What is closed begins nothing, and who has not heard of that waits for it on the board.
        if let Some(bulletin) = self.bulletin()
            && !self.inner.standing.is_closed()
            && !bulletin.begun.no_more.load(Ordering::Relaxed)
        {
            self.say_elsewhere(bulletin);
        }
    }

    /// Says how many operations by messages were begun, and whether the entries are written that come before.
    pub(super) fn say_elsewhere(&self, bulletin: &Bulletin) {
        let owes = bulletin.begun.owes() || bulletin.has_failed.load(Ordering::Relaxed);
        bulletin.board.say_elsewhere(self.by_messages(bulletin) << 1 | u32::from(owes));
    }

    /// How many operations by messages were begun since there is a board.
    pub(super) fn by_messages(&self, bulletin: &Bulletin) -> u32 {
        self.by_messages_at_all().wrapping_sub(bulletin.by_messages_before)
    }

    pub(super) fn by_messages_at_all(&self) -> u32 {
        let (blocking, begun) = (&self.inner.sequence, &self.inner.nonblocking);
        blocking.load(Ordering::Relaxed).wrapping_add(begun.load(Ordering::Relaxed))
    }

    /// Where this member stands, which has just begun an operation by messages; `None` where there is no board.
    fn stage(&self) -> Option<Stage> {
        let bulletin = self.bulletin()?;
        let mut turn = bulletin.turn.try_hold().filter(|turn| !turn.has_left)?;
        if bulletin.begun.no_more.load(Ordering::Relaxed) {
            bulletin.end(&mut turn);
            return None;
        }
        Some(Stage { number: turn.course.number(), by_messages: self.by_messages(bulletin) })
    }

    /// A wait for an operation by messages that has just begun.
    pub(in crate::communicator) fn watch(&self) -> Watch {
        Watch { stage: self.stage(), looks: 0 }
    }

    /// Gives an operation up that waits for messages of a member, or for it to receive, which has gone on without it.
    #[cold]
    fn give_up_if_elsewhere(&self, stage: Stage, execution: &mut Execution, engine: &mut Engine<Fabrics>) {
        let Some(bulletin) = self.bulletin() else { return };
        // What is closed ends by itself.
        if engine.closed(self.collective_context()).is_some() {
            return;
        }
        let is_elsewhere = |rank| bulletin.has_passed_over(rank, stage);
        let found = execution.partners().find(|(_, with)| is_elsewhere(*with));
        if let Some((activity, with)) = found {
            execution.give_up(engine, Failed { with, activity, cause: Cause::Elsewhere }, &is_elsewhere);
        }
    }

    /// The error of who waits for an entry of a member that will never write it.
    #[cold]
    pub(super) fn is_elsewhere(&self, from: Rank) -> Error {
        self.told(&Failed { with: from, activity: Activity::Receiving, cause: Cause::Elsewhere })
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
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_PER_WATCH)
            && let Some(stage) = self.stage
        {
            of.give_up_if_elsewhere(stage, execution, engine);
        }
    }
}

impl Bulletin {
    /// Whether a member is in a later operation on the board, and has not begun the last one by messages.
    fn has_passed_over(&self, rank: Rank, stage: Stage) -> bool {
        // It says what it begins by messages before anything else can be seen of what it does then.
        self.board.has_begun(rank.0, stage.number.wrapping_add(1))
            && is_before(self.board.elsewhere(rank.0) >> 1 << 1, stage.by_messages << 1)
    }

    /// Whether a member has not written its entry for an operation on the board, and never will: it is through with it, or waits in it,
    /// or has begun an operation by messages that comes later.
    pub(super) fn will_not_write(&self, rank: Rank, stage: Stage) -> bool {
        let has_written = self.board.has_written(rank.0, stage.number);
        let elsewhere = self.board.elsewhere(rank.0);
        let (owes, begun) = (elsewhere & 1 != 0, elsewhere >> 1 << 1);
        !owes
            && (has_written || is_before(stage.by_messages << 1, begun))
            // What it has written before it said so is seen now.
            && !self.board.has(rank.0, stage.number)
    }

    /// This member has failed in an operation on the board before it has written its entry: from now on nobody learns
    /// anything from where it stands.
    #[cold]
    pub(super) fn fail(&self, of: &Communicator) {
        self.has_failed.store(true, Ordering::Relaxed);
        of.say_elsewhere(self);
    }
}

/// A wait for a message looks so often before it is looked whether it can come: seldom enough to cost nothing, and often enough
/// for one that sleeps between looks.
pub(super) const LOOKS_PER_WATCH: u32 = 16;
