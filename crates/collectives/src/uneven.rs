//! Collective operations whose blocks differ in length, as values.

use messaging::Rank;

use crate::blocks::Block;
use crate::shape::{Operator, Shape};
use crate::{Schedule, allgatherv, alltoallv, gatherv, reduce_scatter, scatterv};

/// A collective operation with a block of its own length for each rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uneven {
    /// [`gatherv`].
    Gather {
        /// The rank whose output all blocks go to.
        root: Rank,
        /// Whether this rank's own block stands where all stand.
        in_place: bool,
    },
    /// [`scatterv`].
    Scatter {
        /// The rank whose input has all blocks.
        root: Rank,
        /// Whether this rank's own block stays where all stand.
        in_place: bool,
    },
    /// [`allgatherv`].
    Allgather {
        /// Whether this rank's contribution stands in its output.
        in_place: bool,
    },
    /// [`alltoallv`].
    Alltoall {
        /// Whether this rank's contribution stands in its output.
        in_place: bool,
    },
    /// [`reduce_scatter`].
    ReduceScatter {
        /// By what elements are combined.
        operator: Operator,
        /// Whether this rank's contribution stands in its output.
        in_place: bool,
    },
}

/// Such an operation with its blocks, as one rank describes it. Equal values have equal schedules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed<'a> {
    /// The operation.
    pub what: Uneven,
    /// The blocks of its input, or the one that it is; of a reduce-scatter, which part of the input each rank
    /// gets the reduction of.
    pub sends: &'a [Block],
    /// The blocks of its output, or the one that it is.
    pub receives: &'a [Block],
}

impl Listed<'_> {
    /// The rank's part in it.
    ///
    /// # Panics
    /// When a list that is looked at has another number of blocks than there are ranks.
    #[must_use]
    pub fn schedule(&self, shape: &Shape) -> Schedule {
        let Listed { what, sends, receives } = *self;
        let here = shape.rank();
        let mine = |blocks: &[Block]| blocks[here.0 as usize].bytes;
        let only = |blocks: &[Block]| blocks.first().map_or(0, |block| block.bytes);
        match what {
            Uneven::Gather { root, in_place } if here == root => {
                gatherv(shape, root, mine(receives), receives, in_place)
            }
            Uneven::Gather { root, .. } => gatherv(shape, root, only(sends), &[], false),
            Uneven::Scatter { root, in_place } if here == root => {
                scatterv(shape, root, sends, mine(sends), in_place)
            }
            Uneven::Scatter { root, .. } => scatterv(shape, root, &[], only(receives), false),
            Uneven::Allgather { in_place } => allgatherv(shape, receives, in_place),
            Uneven::Alltoall { in_place } => alltoallv(shape, sends, receives, in_place),
            Uneven::ReduceScatter { operator, in_place } => {
                let element = operator.element_bytes.max(1);
                let counts: Vec<usize> = sends.iter().map(|block| block.bytes / element).collect();
                reduce_scatter(shape, &counts, operator, in_place)
            }
        }
    }
}
