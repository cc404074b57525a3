//! Exchanges between neighbours of a topology (MPI 5.0 §8.6).

use messaging::Rank;

use crate::blocks::{Block, Blocks};
use crate::schedule::{Schedule, Span};

/// Whom a rank exchanges with, in the order in which blocks stand in its buffers. `None` is nobody: what lies beyond
/// an open border. Its block is left as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbourhood {
    /// This rank, which may be its own neighbour.
    pub here: Rank,
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

    /// All at once, or one after the other where blocks are short. Between two ranks messages are received in the order in which they are sent, so sources are
    /// listened to in the order in which they send.
    fn exchange(
        &self,
        algorithm: &'static str,
        sent: &dyn Fn(u32) -> Span,
        receives: &Blocks<'_>,
    ) -> Schedule {
        let mut schedule = Schedule::new(algorithm);
        let mut to_itself = Vec::new();
        for (to, at) in self.destinations.iter().zip(0..) {
            match to {
                Some(to) if *to == self.here => to_itself.push(sent(at)),
                Some(to) => schedule.send(*to, sent(at)),
                None => {}
            }
        }
        let (mut from_itself, mut from_others) = (Vec::new(), Vec::new());
        for at in 0..self.sources.len() {
            // The neighbour sends down before it sends up, and what it sends down comes from above.
            let at = if self.is_paired { at ^ 1 } else { at };
            let into = receives.of(Span::output(0), at as u32);
            match self.sources[at] {
                Some(from) if from == self.here => from_itself.push(into),
                Some(from) => from_others.push((from, into)),
                None => {}
            }
        }
        let lengths = |spans: &[Span]| spans.iter().map(|span| span.bytes).collect::<Vec<_>>();
        if lengths(&to_itself) == lengths(&from_itself) {
            to_itself.into_iter().zip(from_itself).for_each(|(from, into)| schedule.copy(from, into));
        } else {
            // What does not fit is for whoever takes messages in to tell.
            to_itself.into_iter().for_each(|from| schedule.send(self.here, from));
            from_others.extend(from_itself.into_iter().map(|into| (self.here, into)));
        }
        let in_turn = from_others.iter().all(|(_, into)| into.bytes <= IN_TURN_BYTES_MAX);
        for (from, into) in from_others {
            if in_turn { schedule.receive_now(from, into) } else { schedule.receive(from, into) }
        }
        schedule
    }
}

/// Blocks up to this length are received one after the other.
const IN_TURN_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Step;

    fn pair(low: Option<u32>, high: Option<u32>) -> Neighbourhood {
        let ranks = vec![low.map(Rank), high.map(Rank)];
        Neighbourhood { here: Rank(9), sources: ranks.clone(), destinations: ranks, is_paired: true }
    }

    fn places(schedule: &Schedule) -> Vec<(char, u32, usize)> {
        let place = |step: &Step| match *step {
            Step::Send { to, from } => Some(('>', to.0, from.offset)),
            Step::Receive { from, into } => Some(('<', from.0, into.offset)),
            Step::WaitReceived => None,
            _ => panic!("neither sent nor received: {step}"),
        };
        schedule.steps.iter().filter_map(place).collect()
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
    fn who_is_its_own_neighbour_copies() {
        let loop_back = pair(Some(9), Some(9)).alltoall(8);
        let crossed = |from: usize, into: usize| Step::Copy {
            from: Span::input(0).part(from, 8),
            into: Span::output(0).part(into, 8),
        };
        assert_eq!(loop_back.steps, [crossed(0, 8), crossed(8, 0)]);
        // Blocks that do not fit go as messages, whose receiver tells.
        let (sends, receives) = ([Block { offset: 0, bytes: 8 }; 2], [Block { offset: 0, bytes: 4 }; 2]);
        assert_eq!(places(&pair(Some(9), Some(9)).alltoallv(&sends, &receives)).len(), 4);
    }

    #[test]
    fn short_blocks_are_received_in_turn() {
        let waits = |bytes: usize| {
            let steps = pair(Some(0), Some(2)).alltoall(bytes).steps;
            steps.iter().filter(|step| **step == Step::WaitReceived).count()
        };
        assert_eq!([waits(IN_TURN_BYTES_MAX), waits(IN_TURN_BYTES_MAX + 1)], [2, 0]);
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
            here: Rank(0),
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
