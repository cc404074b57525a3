//! A collective operation as a value: all that its schedule depends on beside the place of the rank.

use messaging::Rank;

use crate::choice::{self, Asked};
use crate::names::{Algorithm, Operation, with_ways};
use crate::shape::{Operator, Shape};
use crate::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter, Schedule,
    allgather, allreduce, alltoall, barrier, bcast, exscan, gather, reduce, reduce_scatter_block, scan,
    scatter,
};

/// A collective operation with as many bytes for every rank. Equal values have equal schedules, so one that
/// comes again needs no new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Collective {
    /// [`barrier`].
    Barrier,
    /// [`bcast`].
    Bcast {
        /// The rank that has the data.
        root: Rank,
        /// Length of the data, in bytes.
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
    /// The rank at which all blocks stand.
    pub root: Rank,
    /// Length of one block, in bytes.
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

/// An algorithm for an operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: &'static str,
    /// The time that the algorithm is predicted to take by the formula that a choice looks at, in
    /// nanoseconds.
    pub predicted_ns: f64,
}

impl Collective {
    /// Which operation it is, and what is asked of it.
    pub(crate) fn asked(&self) -> (Operation, Asked) {
        let elements = |of: &Reduction| Asked::elements(of.count, of.operator);
        match self {
            Collective::Barrier => (Operation::Barrier, Asked::bytes(0)),
            Collective::Bcast { bytes, .. } => (Operation::Bcast, Asked::bytes(*bytes)),
            Collective::Gather(of) => (Operation::Gather, Asked::bytes(of.bytes)),
            Collective::Scatter(of) => (Operation::Scatter, Asked::bytes(of.bytes)),
            Collective::Allgather(of) => (Operation::Allgather, Asked::bytes(of.bytes)),
            Collective::Alltoall(of) => (Operation::Alltoall, Asked::bytes(of.bytes)),
            Collective::Reduce(_, of) => (Operation::Reduce, elements(of)),
            Collective::Allreduce(of) => (Operation::Allreduce, elements(of)),
            Collective::ReduceScatterBlock(of) => (Operation::ReduceScatter, elements(of)),
            Collective::Scan(of) => (Operation::Scan, elements(of)),
            Collective::Exscan(of) => (Operation::Exscan, elements(of)),
        }
    }

    /// The operation's name, in lower case.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.asked().0.name()
    }

    /// The algorithms that serve for it; none where there is no choice.
    #[must_use]
    pub fn candidates(&self, shape: &Shape) -> Vec<Candidate> {
        let (operation, asked) = self.asked();
        let all = with_ways!(operation, W => choice::candidates::<W>(shape, asked), else Vec::new());
        all.into_iter().map(|(name, predicted_ns)| Candidate { name, predicted_ns }).collect()
    }

    /// The name of the algorithm that [`Collective::schedule`] takes; none where there is no choice.
    #[must_use]
    pub fn chosen(&self, shape: &Shape) -> Option<&'static str> {
        let (operation, asked) = self.asked();
        with_ways!(operation, W => Some(choice::choose::<W>(shape, asked).name()), else None)
    }

    /// Whether the algorithm that is taken is one that was asked for.
    #[must_use]
    pub fn is_forced(&self, shape: &Shape) -> bool {
        let chosen = self.chosen(shape);
        chosen.is_some() && chosen == shape.guide().forced.name_for(self.operation())
    }

    /// The rank's part in it by the algorithm of that name; `None` where it has none of that name.
    #[must_use]
    pub fn schedule_by(&self, shape: &Shape, name: &str) -> Option<Schedule> {
        Some(match self {
            Collective::Barrier => Barrier::named(name)?.schedule(shape),
            Collective::Bcast { root, bytes } => Bcast::named(name)?.schedule(shape, *root, *bytes),
            Collective::Gather(of) => Gather::named(name)?.schedule(shape, of.root, of.bytes, of.in_place),
            Collective::Scatter(of) => Scatter::named(name)?.schedule(shape, of.root, of.bytes, of.in_place),
            Collective::Allgather(of) => Allgather::named(name)?.schedule(shape, of.bytes, of.in_place),
            Collective::Alltoall(of) => Alltoall::named(name)?.schedule(shape, of.bytes, of.in_place),
            Collective::Reduce(root, of) => {
                Reduce::named(name)?.schedule(shape, *root, of.count, of.operator, of.in_place)
            }
            Collective::Allreduce(of) => {
                Allreduce::named(name)?.schedule(shape, of.count, of.operator, of.in_place)
            }
            Collective::ReduceScatterBlock(of) => {
                ReduceScatter::named(name)?.schedule(shape, of.count, of.operator, of.in_place)
            }
            Collective::Scan(_) | Collective::Exscan(_) => return None,
        })
    }

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
