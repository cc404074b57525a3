//! A collective operation as a value: all that its schedule depends on beside the place of the rank.

use messaging::Rank;

use crate::shape::{Operator, Shape};
use crate::{
    Schedule, allgather, allreduce, alltoall, barrier, bcast, exscan, gather, reduce, reduce_scatter_block,
    scan, scatter,
};

/// A collective operation with as many bytes for every rank. Equal values have equal schedules, so one that comes
/// again needs no new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Collective {
    /// [`barrier`].
    Barrier,
    /// [`bcast`].
    Bcast {
        /// Who has the data.
        root: Rank,
        /// How much.
        bytes: usize,
    },
    /// [`gather`].
    Gather(Rooted),
    /// [`scatter`].
    Scatter(Rooted),
    /// [`allgather`].
    Allgather(Each),
    /// [`alltoall`].
    Alltoall(Each),
    /// [`reduce`].
    Reduce(Rank, Reduction),
    /// [`allreduce`].
    Allreduce(Reduction),
    /// [`reduce_scatter_block`].
    ReduceScatterBlock(Reduction),
    /// [`scan`].
    Scan(Reduction),
    /// [`exscan`].
    Exscan(Reduction),
}

/// A block for each rank at the root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rooted {
    /// Who has all blocks.
    pub root: Rank,
    /// Length of one.
    pub bytes: usize,
    /// Whether this rank's own block stands where all stand.
    pub in_place: bool,
}

/// A block for each rank everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Each {
    /// Length of one.
    pub bytes: usize,
    /// Whether this rank's contribution stands in its output.
    pub in_place: bool,
}

/// Elements that are combined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reduction {
    /// How many of each rank; where each gets a block of the result, how many of the block.
    pub count: usize,
    /// By what.
    pub operator: Operator,
    /// Whether this rank's contribution stands in its output.
    pub in_place: bool,
}

impl Collective {
    /// The rank's part in it.
    #[must_use]
    pub fn schedule(&self, shape: &Shape) -> Schedule {
        let over = |make: fn(&Shape, usize, Operator, bool) -> Schedule, of: &Reduction| {
            make(shape, of.count, of.operator, of.in_place)
        };
        match self {
            Collective::Barrier => barrier(shape),
            Collective::Bcast { root, bytes } => bcast(shape, *root, *bytes),
            Collective::Gather(of) => gather(shape, of.root, of.bytes, of.in_place),
            Collective::Scatter(of) => scatter(shape, of.root, of.bytes, of.in_place),
            Collective::Allgather(of) => allgather(shape, of.bytes, of.in_place),
            Collective::Alltoall(of) => alltoall(shape, of.bytes, of.in_place),
            Collective::Reduce(root, of) => reduce(shape, *root, of.count, of.operator, of.in_place),
            Collective::Allreduce(of) => over(allreduce, of),
            Collective::ReduceScatterBlock(of) => over(reduce_scatter_block, of),
            Collective::Scan(of) => over(scan, of),
            Collective::Exscan(of) => over(exscan, of),
        }
    }
}
