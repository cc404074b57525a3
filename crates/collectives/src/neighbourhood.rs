//! Exchanges between neighbours of a topology (MPI 5.0 §8.6).

use messaging::Rank;

use crate::blocks::{Block, Blocks};
use crate::schedule::{Schedule, Span};

/// Whom a rank exchanges with, in the order in which blocks stand in its buffers. `None` is nobody: what lies beyond
/// an open border. Its block is left as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Neighbourhood {
    /// Who sends to this rank.
    pub sources: Vec<Option<Rank>>,
    /// To whom this rank sends.
    pub destinations: Vec<Option<Rank>>,
    /// Whether both come in pairs of opposite directions, as on a grid: what goes one way comes from the other. It
    /// matters where both neighbours of a direction are one process.
    pub is_paired: bool,
}

/// An exchange of blocks of one length. Equal values on one neighbourhood have equal schedules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Around {
    /// [`Neighbourhood::allgather`].
    Allgather {
        /// Length of a block.
        bytes: usize,
    },
    /// [`Neighbourhood::alltoall`].
    Alltoall {
        /// Length of a block.
        bytes: usize,
    },
}

impl Around {
    /// The rank's part in it.
    #[must_use]
    pub fn schedule(&self, neighbourhood: &Neighbourhood) -> Schedule {
        match *self {
            Around::Allgather { bytes } => neighbourhood.allgather(bytes),
            Around::Alltoall { bytes } => neighbourhood.alltoall(bytes),
        }
    }
}

impl Neighbourhood {
    /// Sends one block to all destinations; the block of each source goes to its place (MPI 5.0 §8.6.1).
    #[must_use]
    pub fn allgather(&self, bytes: usize) -> Schedule {
        self.exchange("neighborhood allgather", &|_| Span::input(bytes), &Blocks::Equal { bytes })
    }

    /// The same into places that differ, and blocks that differ in length. `sent` is this rank's block.
    #[must_use]
    pub fn allgatherv(&self, sent: usize, receives: &[Block]) -> Schedule {
        self.exchange("neighborhood allgatherv", &|_| Span::input(sent), &Blocks::Listed(receives))
    }

    /// Sends a block to each destination, and receives one from each source (MPI 5.0 §8.6.2).
    #[must_use]
    pub fn alltoall(&self, bytes: usize) -> Schedule {
        let blocks = Blocks::Equal { bytes };
        self.exchange("neighborhood alltoall", &|at| blocks.of(Span::input(0), at), &blocks)
    }

    /// The same with blocks that stand anywhere and differ in length.
    #[must_use]
    pub fn alltoallv(&self, sends: &[Block], receives: &[Block]) -> Schedule {
        let sends = Blocks::Listed(sends);
        self.exchange("neighborhood alltoallv", &|at| sends.of(Span::input(0), at), &Blocks::Listed(receives))
    }

    /// All at once. Between two ranks messages are received in the order in which they are sent, so sources are
    /// listened to in the order in which they send.
    fn exchange(
        &self,
        algorithm: &'static str,
        sent: &dyn Fn(u32) -> Span,
        receives: &Blocks<'_>,
    ) -> Schedule {
        let mut schedule = Schedule::new(algorithm);
        for (to, at) in self.destinations.iter().zip(0..) {
            if let Some(to) = to {
                schedule.send(*to, sent(at));
            }
        }
        for at in 0..self.sources.len() {
            // The neighbour sends down before it sends up, and what it sends down comes from above.
            let at = if self.is_paired { at ^ 1 } else { at };
            if let Some(from) = self.sources[at] {
                schedule.receive(from, receives.of(Span::output(0), at as u32));
            }
        }
        schedule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Step;

    fn pair(low: Option<u32>, high: Option<u32>) -> Neighbourhood {
        let ranks = vec![low.map(Rank), high.map(Rank)];
        Neighbourhood { sources: ranks.clone(), destinations: ranks, is_paired: true }
    }

    fn places(schedule: &Schedule) -> Vec<(char, u32, usize)> {
        let place = |step: &Step| match *step {
            Step::Send { to, from } => ('>', to.0, from.offset),
            Step::Receive { from, into } => ('<', from.0, into.offset),
            _ => panic!("neither sent nor received: {step}"),
        };
        schedule.steps.iter().map(place).collect()
    }

    #[test]
    fn what_goes_up_comes_from_below() {
        let middle = pair(Some(0), Some(2)).alltoall(8);
        assert_eq!(places(&middle), [('>', 0, 0), ('>', 2, 8), ('<', 2, 8), ('<', 0, 0)]);
        // The only other rank: its first message went down, so it comes from above.
        let ring = pair(Some(1), Some(1)).alltoall(8);
        assert_eq!(places(&ring), [('>', 1, 0), ('>', 1, 8), ('<', 1, 8), ('<', 1, 0)]);
    }

    #[test]
    fn nobody_is_left_out() {
        let border = pair(None, Some(1)).allgather(4);
        assert_eq!(places(&border), [('>', 1, 0), ('<', 1, 4)]);
        assert!(pair(Some(1), Some(1)).alltoall(0).steps.is_empty());
    }

    #[test]
    fn listed_blocks_stand_anywhere() {
        let graph = Neighbourhood {
            sources: vec![Some(Rank(4)), Some(Rank(2))],
            destinations: vec![Some(Rank(2))],
            is_paired: false,
        };
        let receives = [Block { offset: 90, bytes: 1 }, Block { offset: 7, bytes: 3 }];
        let schedule = graph.alltoallv(&[Block { offset: 5, bytes: 2 }], &receives);
        assert_eq!(places(&schedule), [('>', 2, 5), ('<', 4, 90), ('<', 2, 7)]);
        assert_eq!(places(&graph.allgatherv(6, &receives)), [('>', 2, 0), ('<', 4, 90), ('<', 2, 7)]);
    }
}
