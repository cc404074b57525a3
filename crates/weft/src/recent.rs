//! The collective operations that a communicator did last, kept for when they come again.
//!
//! A program does the same few operations over and over. Their executions are kept with their schedules and their
//! room, so that the next one of the same kind allocates nothing.

use collectives::{Around, Collective, Execution};

/// What kind of operation an execution is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Of all members.
    All(Collective),
    /// Of neighbours.
    Around(Around),
}

/// Executions that have ended well, the latest at the end.
#[derive(Default)]
pub(crate) struct Recent {
    kept: Vec<(Kind, Box<Execution>)>,
}

impl Recent {
    /// The execution of such an operation, if it is among the latest.
    #[inline]
    pub(crate) fn take(&mut self, kind: &Kind) -> Option<Box<Execution>> {
        let at = self.kept.iter().rposition(|(kept, _)| kept == kind)?;
        Some(self.kept.remove(at).1)
    }

    /// Keeps an execution that has ended well, unless it holds much memory.
    #[inline]
    pub(crate) fn keep(&mut self, kind: Kind, execution: Box<Execution>) {
        if execution.kept_bytes() > KEPT_BYTES_MAX {
            return;
        }
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

    const BARRIER: Kind = Kind::All(Collective::Barrier);

    fn bcast(bytes: usize) -> Kind {
        Kind::All(Collective::Bcast { root: Rank(0), bytes })
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
            assert!(recent.take(&bcast(bytes)).is_none());
            recent.keep(bcast(bytes), execution());
        }
        assert!(recent.take(&bcast(0)).is_none(), "the oldest is gone");
        let again = recent.take(&bcast(1)).expect("it is among the latest");
        assert!(recent.take(&bcast(1)).is_none(), "it was taken");
        recent.keep(bcast(1), again);
        assert!(recent.take(&BARRIER).is_none());
        assert!(recent.take(&bcast(KEPT_MAX)).is_some());
    }

    #[test]
    fn what_holds_much_is_not_kept() {
        let mut long = Collective::Barrier.schedule(&Shape::new(Rank(0), 1));
        long.steps = vec![collectives::Step::Wait; KEPT_BYTES_MAX];
        let buffers = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
        let mut recent = Recent::default();
        recent.keep(BARRIER, Box::new(Execution::new(long, buffers, 1, 0, Rank(0))));
        assert!(recent.take(&BARRIER).is_none());
    }
}
