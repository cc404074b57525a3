//! Whether operations of three and more members go through the segment or by messages, where either serves:
//! what both are predicted to take decides, once for each operation and class of lengths.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::choice::{Asked, best_through_segment};
use crate::cost_model::SegmentRound;
use crate::names::Operation;
use crate::shape::Shape;

/// What was decided for one communicator. A length belongs to a class with all that are less than twice as
/// long as the least of them, which decides for all; so every member decides alike, whichever lengths come
/// first.
#[derive(Debug, Default)]
pub struct SegmentChoices([[AtomicU64; 2]; Operation::COUNT]);

impl SegmentChoices {
    /// Which of at most two ways through the segment an operation takes; `None` where it goes by messages.
    /// `rounds` are those of each way for the length that decides.
    #[inline]
    pub(super) fn best(
        &self,
        operation: Operation,
        asked: Asked,
        shape: impl Fn() -> Shape,
        rounds: impl Fn(usize) -> [Option<Vec<SegmentRound>>; 2],
    ) -> Option<usize> {
        let class = asked.bytes.max(1).ilog2().min(CLASSES - 1);
        let known = &self.0[operation as usize][usize::from(asked.commutative)];
        let verdict = match known.load(Ordering::Relaxed) >> (2 * class) & 3 {
            0 => {
                let asked = Asked { bytes: 1 << class, ..asked };
                let best = best_through_segment(&shape(), operation, asked, rounds(asked.bytes));
                let verdict = best.map_or(BY_MESSAGES, |way| BY_MESSAGES + 1 + way as u64);
                known.fetch_or(verdict << (2 * class), Ordering::Relaxed);
                verdict
            }
            verdict => verdict,
        };
        (verdict as usize).checked_sub(BY_MESSAGES as usize + 1)
    }
}

const CLASSES: u32 = 32;
const BY_MESSAGES: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{ChoiceInputs, MEMBERS_MAX, SegmentAlgorithm};
    use crate::{Collective, Cores, Each, Operator, Rank, Reduction, Rooted};

    fn bcast(bytes: usize) -> Collective {
        Collective::Bcast { root: Rank(1), bytes }
    }

    fn alltoall(bytes: usize) -> Collective {
        Collective::Alltoall(Each { bytes, in_place: false })
    }

    fn sum(bytes: usize) -> Reduction {
        let operator = Operator { element_bytes: 1, commutative: true };
        Reduction { count: bytes, operator, in_place: false }
    }

    fn reduce(bytes: usize) -> Collective {
        Collective::Reduce(Rank(1), sum(bytes))
    }

    /// What goes between all three and more.
    fn operations(bytes: usize) -> [Collective; 7] {
        let rooted = Rooted { root: Rank(1), bytes, in_place: false };
        let each = Each { bytes, in_place: false };
        [
            bcast(bytes),
            Collective::Gather(rooted),
            Collective::Scatter(rooted),
            Collective::Allgather(each),
            alltoall(bytes),
            reduce(bytes),
            Collective::Allreduce(sum(bytes)),
        ]
    }

    /// How an operation goes at that member, which has decided what it knows before.
    fn way(
        of: Collective,
        here: u32,
        size: u32,
        cores: Cores,
        choices: &SegmentChoices,
    ) -> Option<&'static str> {
        let shape = || Shape::new(Rank(here), size).on(cores);
        let setting = ChoiceInputs { here: Rank(here), size, cores, choices, shape };
        SegmentAlgorithm::of(of, &setting).map(|chosen| chosen.way().0)
    }

    #[test]
    fn all_members_decide_alike_whichever_lengths_come_first() {
        let lengths = [8, 700, 1100, 2100, 2300, 4000, 4100, 16_000, 17_000, 70_000, 300_000, 3 << 20];
        for (size, cores) in [3, 4, 7, 9, 16, 17, MEMBERS_MAX]
            .into_iter()
            .flat_map(|size| [(size, Cores::Own), (size, Cores::Shared)])
        {
            let of_member = |here: u32, is_back: bool| {
                let choices = SegmentChoices::default();
                let mut all: Vec<_> = lengths.into_iter().flat_map(operations).collect();
                if is_back {
                    all.reverse();
                }
                let ways = all.into_iter().map(|of| (of.operation(), way(of, here, size, cores, &choices)));
                let mut ways: Vec<_> = ways.collect();
                if is_back {
                    ways.reverse();
                }
                ways
            };
            let first = of_member(0, false);
            for here in [1, size - 1] {
                assert_eq!(of_member(here, here == 1), first, "{here} of {size}, {cores:?}");
            }
        }
    }

    /// By the built-in costs: one write that all read in place of a tree of messages, as long as data fits
    /// caches; and one who combines all only among few.
    #[test]
    fn members_with_cores_of_their_own_share_memory_where_that_takes_less() {
        let way = |of: Collective, size| way(of, 0, size, Cores::Own, &SegmentChoices::default());
        for size in [4, 8, 16, 32, MEMBERS_MAX] {
            assert_eq!(way(bcast(8 << 10), size), Some("one chunk"));
            assert_eq!(way(alltoall(1 << 20), size), None);
            assert_eq!(way(Collective::Allreduce(sum(4 << 20)), size), None);
        }
        assert_eq!(way(bcast(40 << 10), MEMBERS_MAX), Some("chunks of several"));
        assert_eq!(way(Collective::Allreduce(sum(16 << 10)), 8), Some("chunks of several"));
        assert_eq!((way(reduce(8), 4), way(reduce(8), MEMBERS_MAX)), (Some("slots"), None));
    }
}
