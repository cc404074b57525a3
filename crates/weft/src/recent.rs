//! The collective operations that a communicator did last, kept for when they come again.
//!
//! A program does the same few operations over and over. Their executions are kept with their schedules and
//! their room, so that the next one of the same kind allocates nothing.

use collectives::{Around, Block, Collective, Execution, Listed, Uneven};

/// What kind of operation an execution is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RecentKind {
    /// Of all members.
    All(Collective),
    /// Of all members, with blocks that differ in length.
    Uneven(Uneven, Box<[Block]>, Box<[Block]>),
    /// Of neighbours.
    Around(Around),
}

impl RecentKind {
    /// What is kept of an operation with listed blocks.
    pub(crate) fn listed(of: Listed<'_>) -> RecentKind {
        RecentKind::Uneven(of.what, of.sends.into(), of.receives.into())
    }

    /// Whether it is this one with listed blocks.
    pub(crate) fn is_listed(&self, of: Listed<'_>) -> bool {
        match self {
            RecentKind::Uneven(what, sends, receives) => Listed { what: *what, sends, receives } == of,
            RecentKind::All(_) | RecentKind::Around(_) => false,
        }
    }

    /// Memory that the description itself takes.
    fn bytes(&self) -> usize {
        match self {
            RecentKind::Uneven(_, sends, receives) => size_of_val(&**sends) + size_of_val(&**receives),
            RecentKind::All(_) | RecentKind::Around(_) => 0,
        }
    }
}

/// Executions that have ended well, the latest at the end.
#[derive(Default)]
pub(crate) struct Recent {
    kept: Vec<(RecentKind, Box<Execution>)>,
}

impl Recent {
    /// The operation that is asked for and its execution, if it is among the latest.
    #[inline]
    pub(crate) fn take(&mut self, is: impl Fn(&RecentKind) -> bool) -> Option<(RecentKind, Box<Execution>)> {
        let at = self.kept.iter().rposition(|(kept, _)| is(kept))?;
        Some(self.kept.remove(at))
    }

    /// Keeps an execution that has ended well, unless it holds much memory.
    #[inline]
    pub(crate) fn keep(&mut self, kind: RecentKind, mut execution: Box<Execution>) {
        if execution.kept_bytes() + kind.bytes() > KEPT_BYTES_MAX {
            return;
        }
        execution.let_go();
        if self.kept.len() == KEPT_MAX {
            self.kept.remove(0);
        }
        self.kept.push((kind, execution));
    }
}

/// Operations that are kept for each communicator.
const KEPT_MAX: usize = 8;
/// What one of them may hold. Operations that need more move so many bytes that an allocation does not show.
const KEPT_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use collectives::{Buffers, Rank, Shape};
    use fabric::{Payload, UserMemory};

    const BARRIER: RecentKind = RecentKind::All(Collective::Barrier);

    fn bcast(bytes: usize) -> RecentKind {
        RecentKind::All(Collective::Bcast { root: Rank(0), bytes })
    }

    fn execution() -> Box<Execution> {
        // For one rank there is nothing to move, so that no buffers are needed.
        let schedule = Collective::Barrier.schedule(&Shape::new(Rank(0), 1));
        let buffers = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
        Box::new(Execution::new(schedule, buffers, 1, 0, Rank(0)))
    }

    #[test]
    fn the_latest_are_kept_and_the_oldest_goes_first() {
        let mut recent = Recent::default();
        for bytes in 0..=KEPT_MAX {
            assert!(recent.take(|kept| *kept == bcast(bytes)).is_none());
            recent.keep(bcast(bytes), execution());
        }
        assert!(recent.take(|kept| *kept == bcast(0)).is_none(), "the oldest is gone");
        let (kind, again) = recent.take(|kept| *kept == bcast(1)).expect("it is among the latest");
        assert!(recent.take(|kept| *kept == bcast(1)).is_none(), "it was taken");
        recent.keep(kind, again);
        assert!(recent.take(|kept| *kept == BARRIER).is_none());
        assert!(recent.take(|kept| *kept == bcast(KEPT_MAX)).is_some());
    }

    #[test]
    fn operations_with_lists_are_found_by_what_the_lists_say() {
        let block = |bytes| Block { offset: 8, bytes };
        let (short, alike, long) = ([block(1), block(2)], [block(1), block(2)], [block(1), block(3)]);
        let listed = |sends| Listed { what: Uneven::Alltoall { in_place: false }, sends, receives: &short };
        let mut recent = Recent::default();
        recent.keep(RecentKind::listed(listed(&short)), execution());
        assert!(recent.take(|kept| kept.is_listed(listed(&long))).is_none());
        let in_place = Listed { what: Uneven::Alltoall { in_place: true }, ..listed(&short) };
        assert!(recent.take(|kept| kept.is_listed(in_place)).is_none());
        let (kind, _) = recent.take(|kept| kept.is_listed(listed(&alike))).expect("it was kept");
        let many = vec![block(1); KEPT_BYTES_MAX / size_of::<Block>()];
        recent.keep(RecentKind::listed(listed(&many)), execution());
        assert!(recent.take(|kept| kept.is_listed(listed(&many))).is_none(), "its lists are memory, too");
        assert_eq!(kind, RecentKind::listed(listed(&short)));
    }

    #[test]
    fn what_holds_much_is_not_kept() {
        let mut long = Collective::Barrier.schedule(&Shape::new(Rank(0), 1));
        long.steps = vec![collectives::Step::Wait; KEPT_BYTES_MAX];
        let buffers = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
        let mut recent = Recent::default();
        recent.keep(BARRIER, Box::new(Execution::new(long, buffers, 1, 0, Rank(0))));
        assert!(recent.take(|kept| *kept == BARRIER).is_none());
    }
}
