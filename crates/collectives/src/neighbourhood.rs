//! Exchanges between neighbours of a topology (MPI 5.0 §8.6).

use messaging::Rank;

use crate::blocks::Block;
use crate::schedule::{Buffer, Schedule, Span};

/// The ranks that a rank exchanges blocks with, in the order in which the blocks stand in its buffers. `None`
/// is no neighbour, beyond an open border; its block is left as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbourhood {
    /// This rank, which may be its own neighbour.
    pub here: Rank,
    /// The ranks that send to this rank.
    pub sources: Vec<Option<Rank>>,
    /// The ranks that this rank sends to.
    pub destinations: Vec<Option<Rank>>,
    /// Whether both come in pairs of opposite directions, as on a grid: what goes one way comes from the
    /// other. It matters where both neighbours of a direction are one process.
    pub is_paired: bool,
}

/// An exchange of blocks of one length. Equal values on one neighbourhood have equal schedules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Around {
    /// Sends one block to all destinations; the block of each source goes to its place (MPI 5.0 §8.6.1).
    Allgather {
        /// Length of a block.
        bytes: usize,
    },
    /// Sends a block to each destination, and receives one from each source (MPI 5.0 §8.6.2).
    Alltoall {
        /// Length of a block.
        bytes: usize,
    },
}

/// An exchange between neighbours, as one rank knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surround<'a> {
    /// An exchange of blocks of one length.
    Even(Around),
    /// One block to all destinations. The blocks of the sources go to places of their own, and differ in
    /// length.
    ToAll {
        /// Length of this rank's block.
        bytes: usize,
        /// Where the blocks of the sources go.
        receives: &'a [Block],
    },
    /// A block to each destination and from each source, which stand anywhere and differ in length.
    Each {
        /// The blocks for the destinations.
        sends: &'a [Block],
        /// Where the blocks of the sources go.
        receives: &'a [Block],
    },
}

impl Surround<'_> {
    /// What the destination of that index gets.
    #[must_use]
    #[inline]
    pub fn given(&self, at: usize) -> Block {
        match *self {
            Surround::Even(Around::Allgather { bytes }) | Surround::ToAll { bytes, .. } => {
                Block { offset: 0, bytes }
            }
            Surround::Even(Around::Alltoall { bytes }) => Block { offset: at * bytes, bytes },
            Surround::Each { sends, .. } => sends[at],
        }
    }

    /// Where what the source of that index gives comes to stand.
    #[must_use]
    #[inline]
    pub fn gotten(&self, at: usize) -> Block {
        match *self {
            Surround::Even(Around::Allgather { bytes } | Around::Alltoall { bytes }) => {
                Block { offset: at * bytes, bytes }
            }
            Surround::ToAll { receives, .. } | Surround::Each { receives, .. } => receives[at],
        }
    }

    /// The rank's part in it: all at once, or one after the other where blocks are short. Between two ranks
    /// messages are received in the order in which they are sent, so sources are listened to in the order in
    /// which they send.
    #[must_use]
    pub fn schedule(&self, neighbourhood: &Neighbourhood) -> Schedule {
        let here = neighbourhood.here;
        let given = |at| self.given(at).of(Buffer::Input);
        let gotten = |at| self.gotten(at).of(Buffer::Output);
        let mut schedule = Schedule::new(match self {
            Surround::Even(Around::Allgather { .. }) => "neighborhood allgather",
            Surround::Even(Around::Alltoall { .. }) => "neighborhood alltoall",
            Surround::ToAll { .. } => "neighborhood allgatherv",
            Surround::Each { .. } => "neighborhood alltoallv",
        });
        let mut to_itself = Vec::new();
        for (to, at) in neighbourhood.sent() {
            if to == here { to_itself.push(given(at)) } else { schedule.send(to, given(at)) }
        }
        let (mut from_itself, mut from_others) = (Vec::new(), Vec::new());
        for (from, at) in neighbourhood.received() {
            if from == here { from_itself.push(gotten(at)) } else { from_others.push((from, gotten(at))) }
        }
        let lengths = |spans: &[Span]| spans.iter().map(|span| span.bytes).collect::<Vec<_>>();
        if lengths(&to_itself) == lengths(&from_itself) {
            to_itself.into_iter().zip(from_itself).for_each(|(from, into)| schedule.copy(from, into));
        } else {
            // What does not fit is for whoever takes messages in to tell.
            to_itself.into_iter().for_each(|from| schedule.send(here, from));
            from_others.extend(from_itself.into_iter().map(|into| (here, into)));
        }
        let in_turn = from_others.iter().all(|(_, into)| into.bytes <= IN_TURN_BYTES_MAX);
        for (from, into) in from_others {
            if in_turn { schedule.receive_now(from, into) } else { schedule.receive(from, into) }
        }
        schedule
    }
}

impl Neighbourhood {
    /// The destinations that are there, in the order in which this rank sends to them, each with its index.
    #[inline]
    pub fn sent(&self) -> impl Iterator<Item = (Rank, usize)> {
        self.destinations.iter().enumerate().filter_map(|(at, to)| Some(((*to)?, at)))
    }

    /// The sources that are there, each with its index; where a rank is several of them, in the order in
    /// which it sends.
    #[inline]
    pub fn received(&self) -> impl Iterator<Item = (Rank, usize)> {
        let all = 0..self.sources.len();
        all.filter_map(|at| {
            // The neighbour sends down before it sends up, and what it sends down comes from above.
            let at = if self.is_paired { at ^ 1 } else { at };
            Some((self.sources[at]?, at))
        })
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

    fn alltoall(neighbourhood: &Neighbourhood, bytes: usize) -> Schedule {
        Surround::Even(Around::Alltoall { bytes }).schedule(neighbourhood)
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
        let middle = alltoall(&pair(Some(0), Some(2)), 8);
        assert_eq!(places(&middle), [('>', 0, 0), ('>', 2, 8), ('<', 2, 8), ('<', 0, 0)]);
        // The only other rank: its first message went down, so it comes from above.
        let ring = alltoall(&pair(Some(1), Some(1)), 8);
        assert_eq!(places(&ring), [('>', 1, 0), ('>', 1, 8), ('<', 1, 8), ('<', 1, 0)]);
    }

    #[test]
    fn who_is_its_own_neighbour_copies() {
        let loop_back = alltoall(&pair(Some(9), Some(9)), 8);
        let crossed = |from: usize, into: usize| Step::Copy {
            from: Span::input(0).part(from, 8),
            into: Span::output(0).part(into, 8),
        };
        assert_eq!(loop_back.steps, [crossed(0, 8), crossed(8, 0)]);
        // Blocks that do not fit go as messages, whose receiver tells.
        let (sends, receives) = ([Block { offset: 0, bytes: 8 }; 2], [Block { offset: 0, bytes: 4 }; 2]);
        let each = Surround::Each { sends: &sends, receives: &receives };
        assert_eq!(places(&each.schedule(&pair(Some(9), Some(9)))).len(), 4);
    }

    #[test]
    fn short_blocks_are_received_in_turn() {
        let waits = |bytes: usize| {
            let steps = alltoall(&pair(Some(0), Some(2)), bytes).steps;
            steps.iter().filter(|step| **step == Step::WaitReceived).count()
        };
        assert_eq!([waits(IN_TURN_BYTES_MAX), waits(IN_TURN_BYTES_MAX + 1)], [2, 0]);
    }

    #[test]
    fn nobody_is_left_out() {
        let border = Surround::Even(Around::Allgather { bytes: 4 }).schedule(&pair(None, Some(1)));
        assert_eq!(places(&border), [('>', 1, 0), ('<', 1, 4)]);
        assert!(alltoall(&pair(Some(1), Some(1)), 0).steps.is_empty());
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
        let each = Surround::Each { sends: &[Block { offset: 5, bytes: 2 }], receives: &receives };
        assert_eq!(places(&each.schedule(&graph)), [('>', 2, 5), ('<', 4, 90), ('<', 2, 7)]);
        let to_all = Surround::ToAll { bytes: 6, receives: &receives };
        assert_eq!(places(&to_all.schedule(&graph)), [('>', 2, 0), ('<', 4, 90), ('<', 2, 7)]);
    }
}
