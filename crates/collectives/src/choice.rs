//! Which algorithm serves, by thresholds.
//!
//! The table below is from experience with networks and shared memory in general; a cost model with measured
//! constants is to take its place. Only what is said of shared cores was measured, with 3 to 128 ranks on two virtual
//! cpus: where a hub is allowed, it took 0.3 to 0.9 of the time of dissemination and recursive doubling.
//! Everything a choice looks at is the same at all ranks, so all ranks choose the same.

use crate::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Cores, Gather, Nesting, Operator, Reduce, ReduceScatter,
    Scatter, Shape,
};

/// Where algorithms change. Lengths are bytes; "per rank" means the whole vector's length divided by the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Fewer ranks than this gain nothing from slices when one side has all the data.
    pub slices_ranks_min: u32,
    /// From this length per rank on, rings of slices serve; below, latency counts.
    pub slice_bytes_min: usize,
    /// Broadcasts from here on are scattered and go round the ring.
    pub bcast_slices_bytes_min: usize,
    /// Reductions to a root from here on go round the ring.
    pub reduce_slices_bytes_min: usize,
    /// Allreduces from here on exchange halves instead of everything.
    pub allreduce_slices_bytes_min: usize,
    /// Blocks from here on are gathered and scattered directly, not over a tree.
    pub linear_bytes_min: usize,
    /// With so many ranks at least, tiny blocks are exchanged in ceil(log2 p) rounds.
    pub alltoall_bruck_ranks_min: u32,
    /// The longest block that is.
    pub alltoall_bruck_bytes_max: usize,
    /// Blocks from here on are reduced and scattered pairwise.
    pub reduce_scatter_pairwise_bytes_min: usize,
    /// Where ranks share cores: up to so many ranks, everybody tells everybody.
    pub each_to_all_ranks_max: u32,
    /// Where ranks share cores: up to so many ranks, one of them collects and tells.
    pub hub_ranks_max: u32,
    /// The longest vector that is reduced in these ways.
    pub hub_bytes_max: usize,
}

/// The figures in use.
pub const THRESHOLDS: Thresholds = Thresholds {
    slices_ranks_min: 4,
    slice_bytes_min: 4 << 10,
    bcast_slices_bytes_min: 128 << 10,
    reduce_slices_bytes_min: 128 << 10,
    allreduce_slices_bytes_min: 16 << 10,
    linear_bytes_min: 16 << 10,
    alltoall_bruck_ranks_min: 8,
    alltoall_bruck_bytes_max: 128,
    reduce_scatter_pairwise_bytes_min: 512,
    each_to_all_ranks_max: 3,
    hub_ranks_max: 128,
    hub_bytes_max: 8 << 10,
};

pub(crate) fn barrier(shape: &Shape) -> Barrier {
    match few_rounds(shape) {
        None => Barrier::Dissemination,
        Some(Meeting::EachToAll) => Barrier::EachToAll,
        Some(Meeting::Hub) => Barrier::Hub,
    }
}

pub(crate) fn bcast(size: u32, bytes: usize) -> Bcast {
    if bytes >= THRESHOLDS.bcast_slices_bytes_min && is_worth_slices(size, bytes) {
        Bcast::ScatterRing
    } else {
        Bcast::Binomial
    }
}

pub(crate) fn gather(_size: u32, bytes: usize) -> Gather {
    if bytes >= THRESHOLDS.linear_bytes_min { Gather::Linear } else { Gather::Binomial }
}

pub(crate) fn scatter(_size: u32, bytes: usize) -> Scatter {
    if bytes >= THRESHOLDS.linear_bytes_min { Scatter::Linear } else { Scatter::Binomial }
}

pub(crate) fn allgather(size: u32, bytes: usize) -> Allgather {
    if bytes >= THRESHOLDS.slice_bytes_min {
        Allgather::Ring
    } else if size.is_power_of_two() {
        Allgather::RecursiveDoubling
    } else {
        Allgather::Bruck
    }
}

pub(crate) fn allgatherv(_size: u32, mean_bytes: usize) -> Allgather {
    if mean_bytes >= THRESHOLDS.slice_bytes_min { Allgather::Ring } else { Allgather::Bruck }
}

pub(crate) fn alltoall(size: u32, bytes: usize) -> Alltoall {
    let tiny = bytes <= THRESHOLDS.alltoall_bruck_bytes_max;
    if tiny && size >= THRESHOLDS.alltoall_bruck_ranks_min { Alltoall::Bruck } else { Alltoall::Pairwise }
}

pub(crate) fn reduce(size: u32, count: usize, operator: Operator) -> Reduce {
    let bytes = count * operator.element_bytes;
    let large = bytes >= THRESHOLDS.reduce_slices_bytes_min && is_worth_slices(size, bytes);
    if operator.commutative && large { Reduce::RingGather } else { Reduce::Binomial }
}

pub(crate) fn allreduce(shape: &Shape, count: usize, operator: Operator) -> Allreduce {
    let (size, bytes) = (shape.size(), count * operator.element_bytes);
    if bytes <= THRESHOLDS.hub_bytes_max
        && let Some(meeting) = few_rounds(shape)
    {
        return match meeting {
            Meeting::EachToAll => Allreduce::EachToAll,
            Meeting::Hub => Allreduce::Hub,
        };
    }
    if !operator.commutative || bytes < THRESHOLDS.allreduce_slices_bytes_min {
        Allreduce::RecursiveDoubling
    } else if !size.is_power_of_two() && bytes / size as usize >= THRESHOLDS.slice_bytes_min {
        Allreduce::Ring
    } else {
        Allreduce::Rabenseifner
    }
}

pub(crate) fn reduce_scatter(size: u32, mean_count: usize, operator: Operator) -> ReduceScatter {
    let large = mean_count * operator.element_bytes >= THRESHOLDS.reduce_scatter_pairwise_bytes_min;
    if operator.commutative && (large || size < THRESHOLDS.slices_ranks_min) {
        ReduceScatter::Pairwise
    } else {
        ReduceScatter::ReduceThenScatter
    }
}

/// Whether nodes are known and worth knowing: there are several, and some hold several ranks.
pub(crate) fn goes_by_node(shape: &Shape) -> bool {
    shape.nesting().is_some_and(|nesting| nesting.nodes() > 1 && nesting.nodes() < shape.size())
}

/// Where it goes by node: short vectors between one rank of each node, long ones in slices.
pub(crate) fn allreduce_by_node(shape: &Shape, count: usize, operator: Operator) -> Allreduce {
    let lanes = shape.nesting().map_or(1, Nesting::smallest_node) as usize;
    let bytes = count * operator.element_bytes;
    if operator.commutative && lanes > 1 && bytes / lanes >= THRESHOLDS.slice_bytes_min {
        Allreduce::ByNodeInSlices
    } else {
        Allreduce::ByNode
    }
}

/// Between nodes, long messages go in pieces.
pub(crate) fn bcast_between_nodes(bytes: usize) -> Bcast {
    if bytes >= THRESHOLDS.bcast_slices_bytes_min { Bcast::Circulant } else { Bcast::Binomial }
}

/// The same for a reduction; up the tree where the order of operands matters.
pub(crate) fn reduce_between_nodes(bytes: usize) -> Reduce {
    if bytes >= THRESHOLDS.reduce_slices_bytes_min { Reduce::Circulant } else { Reduce::Binomial }
}

/// The ways to meet in few rounds.
enum Meeting {
    EachToAll,
    Hub,
}

/// Where a round costs turns on a core, whether and how to do with few of them. Two ranks have one round anyhow.
fn few_rounds(shape: &Shape) -> Option<Meeting> {
    match shape.size() {
        ..=2 => None,
        _ if shape.cores() == Cores::Own => None,
        size if size <= THRESHOLDS.each_to_all_ranks_max => Some(Meeting::EachToAll),
        size if size <= THRESHOLDS.hub_ranks_max => Some(Meeting::Hub),
        _ => None,
    }
}

fn is_worth_slices(size: u32, bytes: usize) -> bool {
    size >= THRESHOLDS.slices_ranks_min && bytes / size as usize >= THRESHOLDS.slice_bytes_min
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allreduce(size: u32, count: usize, operator: Operator) -> Allreduce {
        super::allreduce(&Shape::new(messaging::Rank(0), size), count, operator)
    }

    const SUM: Operator = Operator { element_bytes: 1, commutative: true };
    const ORDERED: Operator = Operator { element_bytes: 1, commutative: false };

    #[test]
    fn algorithms_change_at_their_thresholds() {
        let large = THRESHOLDS.bcast_slices_bytes_min;
        assert_eq!((bcast(8, large - 1), bcast(8, large)), (Bcast::Binomial, Bcast::ScatterRing));
        assert_eq!(
            (reduce(8, large - 1, SUM), reduce(8, large, SUM)),
            (Reduce::Binomial, Reduce::RingGather)
        );
        let middle = THRESHOLDS.allreduce_slices_bytes_min;
        assert_eq!(allreduce(8, middle - 1, SUM), Allreduce::RecursiveDoubling);
        assert_eq!(allreduce(8, middle, SUM), Allreduce::Rabenseifner);
        assert_eq!(allreduce(6, middle, SUM), Allreduce::Rabenseifner);
        assert_eq!(allreduce(6, 6 * THRESHOLDS.slice_bytes_min, SUM), Allreduce::Ring);
        let linear = THRESHOLDS.linear_bytes_min;
        assert_eq!((gather(9, linear - 1), gather(9, linear)), (Gather::Binomial, Gather::Linear));
        assert_eq!((scatter(9, linear - 1), scatter(9, linear)), (Scatter::Binomial, Scatter::Linear));
        let tiny = THRESHOLDS.alltoall_bruck_bytes_max;
        assert_eq!((alltoall(8, tiny), alltoall(8, tiny + 1)), (Alltoall::Bruck, Alltoall::Pairwise));
        assert_eq!((allgather(8, 8), allgather(9, 8)), (Allgather::RecursiveDoubling, Allgather::Bruck));
        assert_eq!(allgather(8, THRESHOLDS.slice_bytes_min), Allgather::Ring);
    }

    #[test]
    fn on_shared_cores_rounds_are_saved() {
        let chosen = |size, bytes| {
            let shape = Shape::new(messaging::Rank(size - 1), size).on(Cores::Shared);
            (barrier(&shape), super::allreduce(&shape, bytes, ORDERED))
        };
        let (each, hub) = (THRESHOLDS.each_to_all_ranks_max, THRESHOLDS.hub_ranks_max);
        let usual = (Barrier::Dissemination, Allreduce::RecursiveDoubling);
        assert_eq!(chosen(2, 8), usual);
        assert_eq!(chosen(3, 8), (Barrier::EachToAll, Allreduce::EachToAll));
        assert_eq!(chosen(each, 8), (Barrier::EachToAll, Allreduce::EachToAll));
        assert_eq!(chosen(each + 1, 8), (Barrier::Hub, Allreduce::Hub));
        assert_eq!(chosen(hub, THRESHOLDS.hub_bytes_max), (Barrier::Hub, Allreduce::Hub));
        assert_eq!(chosen(hub, THRESHOLDS.hub_bytes_max + 1).1, Allreduce::RecursiveDoubling);
        assert_eq!(chosen(hub + 1, 8), usual);
        assert_eq!(barrier(&Shape::new(messaging::Rank(0), 4)), Barrier::Dissemination);
    }

    #[test]
    fn where_order_matters_nothing_is_chosen_that_changes_it() {
        for size in [2, 3, 8, 1000] {
            for count in [0, 1, 1 << 10, 1 << 20, 1 << 30] {
                assert_eq!(reduce(size, count, ORDERED), Reduce::Binomial);
                assert_eq!(allreduce(size, count, ORDERED), Allreduce::RecursiveDoubling);
                assert_eq!(reduce_scatter(size, count, ORDERED), ReduceScatter::ReduceThenScatter);
            }
        }
    }

    #[test]
    fn many_ranks_never_get_rings_of_crumbs() {
        let million = 1 << 20;
        assert_eq!(bcast(million, 1 << 20), Bcast::Binomial);
        assert_eq!(allreduce(million - 1, 1 << 20, SUM), Allreduce::Rabenseifner);
        assert_eq!(allgather(million - 1, 8), Allgather::Bruck);
    }
}
