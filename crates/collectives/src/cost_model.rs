//! What algorithms take, in closed form: what a choice looks at, since it must not cost more than it gains.
//!
//! Each is the sum of what happens one after the other on the longest way through the ranks, as the
//! simulation has it (a test holds both against each other). p is the number of ranks, n that of bytes;
//! "everybody" means that all ranks send and receive at a time.

mod blocks;
mod segment;
mod steps;

use std::iter::Sum;
use std::ops::{Add, Mul};

pub(crate) use self::segment::SegmentRound;
use crate::choice::Asked;
use crate::costs::{Costs, HierarchyLevel, Link, Work};
use crate::names::Algorithm;
use crate::shape::{Cores, Shape};
use crate::simulation::SHARED_CORES;
use crate::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter};

/// What something takes.
#[derive(Clone, Copy, Default)]
pub(crate) struct PredictedCost {
    /// Where each rank has a core: nanoseconds from the beginning to the end.
    path: f64,
    /// What all ranks do for it together, in nanoseconds of a core.
    work: f64,
    /// How often a rank waits.
    waits: f64,
}

impl Add for PredictedCost {
    type Output = PredictedCost;

    fn add(self, other: PredictedCost) -> PredictedCost {
        PredictedCost {
            path: self.path + other.path,
            work: self.work + other.work,
            waits: self.waits + other.waits,
        }
    }
}

impl Mul<f64> for PredictedCost {
    type Output = PredictedCost;

    fn mul(self, times: f64) -> PredictedCost {
        PredictedCost { path: self.path * times, work: self.work * times, waits: self.waits * times }
    }
}

impl Sum for PredictedCost {
    fn sum<I: Iterator<Item = PredictedCost>>(summands: I) -> PredictedCost {
        summands.fold(PredictedCost::default(), PredictedCost::add)
    }
}

/// Where ranks sit, and what things cost there.
pub(crate) struct CostModel<'a> {
    costs: &'a Costs,
    size: u32,
    /// Ranks of a node.
    together: u32,
    /// The parts of nodes that count, from wide to narrow.
    model_levels: [Option<ModelLevel<'a>>; MODEL_LEVELS],
    cores: Cores,
    seating: RankPlacement,
    /// Ranks of the smallest and of the largest of the widest parts; nothing where all have as many.
    uneven: Option<(u32, u32)>,
    /// How many do the same beside each other on each node.
    beside: u32,
}

/// Parts of a node.
#[derive(Clone, Copy)]
struct ModelLevel<'a> {
    /// Ranks of one of them.
    together: u32,
    /// The link between two of them.
    link: &'a Link,
}

/// What is known of who sits where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RankPlacement {
    /// Nothing, or there is but one part, or a part for each rank.
    Plain,
    /// Parts hold consecutive ranks.
    InOrder,
    /// They do not.
    Mixed,
}

impl<'a> CostModel<'a> {
    pub(crate) fn of(shape: &'a Shape) -> CostModel<'a> {
        let (costs, size, together) = (shape.costs(), shape.size(), shape.ranks_of_node());
        let mut model_levels = [None; MODEL_LEVELS];
        let seating = match shape.hierarchy() {
            Some(hierarchy) => {
                let inner = hierarchy.kinds().filter(|(border, _)| *border != HierarchyLevel::Node);
                for (level, (border, parts)) in model_levels.iter_mut().zip(inner) {
                    *level = Some(ModelLevel { together: size.div_ceil(parts), link: costs.over(border) });
                }
                match hierarchy.parts() {
                    parts if parts == size => RankPlacement::Plain,
                    _ if hierarchy.is_straight() => RankPlacement::InOrder,
                    _ => RankPlacement::Mixed,
                }
            }
            None => {
                model_levels[0] =
                    shape.apart().map(|border| ModelLevel { together: 1, link: costs.over(border) });
                RankPlacement::Plain
            }
        };
        let sizes = shape.hierarchy().map(|hierarchy| (hierarchy.smallest_part(), hierarchy.largest_part()));
        let uneven = sizes.filter(|(smallest, largest)| smallest < largest);
        CostModel { costs, size, together, model_levels, cores: shape.cores(), seating, uneven, beside: 1 }
    }

    /// Whether there are several nodes.
    fn has_nodes(&self) -> bool {
        self.together < self.size
    }

    /// The parts of nodes that count, from wide to narrow.
    fn model_levels(&self) -> impl Iterator<Item = ModelLevel<'a>> + use<'a> {
        self.model_levels.into_iter().flatten()
    }

    /// Ranks of one of the widest parts, as the mean of all.
    fn ranks_of_part(&self) -> u32 {
        let widest = if self.has_nodes() { None } else { self.model_levels[0] };
        widest.map_or(self.together, |level| level.together)
    }

    /// Ranks of the smallest and of the largest of the widest parts.
    fn least_and_most_of_part(&self) -> (u32, u32) {
        self.uneven.unwrap_or((self.ranks_of_part(), self.ranks_of_part()))
    }

    /// The ranks of one of the widest parts, whose numbers are in the order of their places.
    fn within(&self) -> CostModel<'a> {
        self.within_part_of(self.ranks_of_part())
    }

    /// The ranks of one of the widest parts, where that part has `size` ranks; their numbers are in the order
    /// of their places.
    fn within_part_of(&self, size: u32) -> CostModel<'a> {
        let mut model_levels = self.model_levels;
        if !self.has_nodes() {
            model_levels.rotate_left(1);
            model_levels[MODEL_LEVELS - 1] = None;
        }
        let seating = if model_levels[0].is_some_and(|level| level.together < size) {
            RankPlacement::InOrder
        } else {
            RankPlacement::Plain
        };
        CostModel { size, together: size, model_levels, seating, uneven: None, ..*self }
    }

    /// One rank of each of the widest parts.
    fn between(&self) -> CostModel<'a> {
        let size = self.size.div_ceil(self.ranks_of_part());
        let mut model_levels = [None; MODEL_LEVELS];
        let mut together = 1;
        if !self.has_nodes() {
            model_levels[0] = self.model_levels[0].map(|level| ModelLevel { together: 1, ..level });
            together = size;
        }
        CostModel { size, together, model_levels, seating: RankPlacement::Plain, uneven: None, ..*self }
    }

    /// The way that takes least.
    pub(crate) fn best<W: Algorithm>(&self, asked: Asked) -> Option<(W, PredictedCost)> {
        let mut best: Option<(W, PredictedCost, f64)> = None;
        for &way in W::ALL {
            let Some(cost) = way.cost(self, asked) else { continue };
            let ns = self.ns(cost);
            // Formulas are of the root at the first place. From any other a tree without parts crosses them
            // more often, and by parts it does not; so of two that take the same, that is the better one.
            let is_better = |best: f64| {
                ns < best || ns <= best * ALIKE && self.seating != RankPlacement::Plain && way.goes_by_parts()
            };
            if best.as_ref().is_none_or(|best| is_better(best.2)) {
                best = Some((way, cost, ns));
            }
        }
        best.map(|(way, cost, _)| (way, cost))
    }

    /// What the best way takes in each of the widest parts at a time.
    fn in_each_part<W: Algorithm>(&self, asked: Asked) -> PredictedCost {
        let cost = self.within().best::<W>(asked).map(|(_, cost)| cost).unwrap_or_default();
        PredictedCost { work: cost.work * f64::from(self.size.div_ceil(self.ranks_of_part())), ..cost }
    }

    /// What the best way takes among one rank of each.
    fn among_parts<W: Algorithm>(&self, asked: Asked) -> PredictedCost {
        self.between().best::<W>(asked).map(|(_, cost)| cost).unwrap_or_default()
    }

    fn has_own_cores(&self) -> bool {
        self.cores == Cores::Own || self.together <= SHARED_CORES
    }

    /// The time of a cost.
    pub(crate) fn ns(&self, cost: PredictedCost) -> f64 {
        if self.has_own_cores() {
            return cost.path;
        }
        let share = f64::from(self.together) / f64::from(self.size);
        // All begin, and all go on after each wait.
        let turns = (cost.waits + 1.0) * f64::from(self.together);
        (turns * self.costs.turn_ns + cost.work * share) / f64::from(SHARED_CORES) + cost.path / 2.0
    }

    pub(crate) fn barrier(&self, way: Barrier, _: Asked) -> Option<PredictedCost> {
        Some(match way {
            Barrier::Dissemination => self.levels().map(|level| self.everybody(0, 1u32 << level)).sum(),
            Barrier::EachToAll => self.each_to_all(0),
            Barrier::GatherBroadcast => self.fan(0) + self.fan(0).without_wait(),
            Barrier::ByNode if self.seating == RankPlacement::Plain => return None,
            Barrier::ByNode => {
                let tree = self.within().tree(0, 0.0);
                tree * 2.0 + self.among_parts::<Barrier>(Asked::bytes(0))
            }
        })
    }

    pub(crate) fn bcast(&self, way: Bcast, asked: Asked) -> Option<PredictedCost> {
        let bytes = asked.bytes;
        Some(match way {
            Bcast::ScatterAllgather => {
                let slice = self.slice(bytes);
                let fan = self.fan(slice);
                // The root hands out the slices.
                let handing = if self.has_nodes() { self.costs.step_ns } else { self.holding(slice) };
                let busy = handing * f64::from(self.size - 1);
                // Between nodes, what others pass on comes before slices that come more than a round after
                // the first one.
                let late = if self.has_nodes() {
                    let network = &self.costs.network;
                    let each = self.costs.step_ns.max(network.moving_ns(slice));
                    let round = 2.0 * self.costs.step_ns + network.way_ns(slice);
                    let behind_the_first = each * f64::from(self.size.saturating_sub(2));
                    (behind_the_first - round).clamp(0.0, network.latency_ns)
                } else {
                    0.0
                };
                PredictedCost { path: fan.path.max(busy) + late, ..fan } + self.around(slice, Work::NONE)
            }
            Bcast::Circulant => self.in_chunks_around(bytes, Work::NONE),
            Bcast::BinaryTree => self.in_chunks_down_a_tree(bytes, Work::NONE),
            Bcast::Chain => self.in_chunks_along_a_chain(bytes, Work::NONE),
            Bcast::ByNode if self.seating == RankPlacement::Plain => return None,
            Bcast::ByNode => self.among_parts::<Bcast>(asked) + self.in_each_part::<Bcast>(asked),
            Bcast::Binomial => self.tree(bytes, 0.0),
            Bcast::ScatterRing => {
                let slice = self.slice(bytes);
                self.tree_of_blocks(slice) + self.ring(slice, 0.0)
            }
        })
    }

    pub(crate) fn gather(&self, way: Gather, Asked { bytes, .. }: Asked) -> Option<PredictedCost> {
        Some(match way {
            Gather::Binomial => self.tree_of_blocks(bytes) + self.copies(bytes),
            Gather::Linear => self.fan(bytes) + self.copies(bytes),
        })
    }

    pub(crate) fn scatter(&self, way: Scatter, Asked { bytes, .. }: Asked) -> Option<PredictedCost> {
        Some(match way {
            Scatter::Binomial => self.tree_of_blocks(bytes) + self.copies(bytes) * self.inner(),
            Scatter::Linear => self.fan(bytes),
        })
    }

    pub(crate) fn allgather(&self, way: Allgather, Asked { bytes, .. }: Asked) -> Option<PredictedCost> {
        Some(match way {
            Allgather::RecursiveDoubling if !self.size.is_power_of_two() => return None,
            Allgather::RecursiveDoubling => {
                let round = |level: u32| self.pairs(bytes << level, 1 << level);
                self.levels().map(round).sum::<PredictedCost>() + self.copies(bytes)
            }
            Allgather::Bruck => self.doubling(bytes) + self.copies(bytes * (self.size as usize + 1)),
            Allgather::Ring => self.ring(bytes, 0.0) + self.copies(bytes),
            Allgather::Circulant => self.around(bytes, Work::NONE) + self.copies(bytes),
            Allgather::ByNode if self.seating != RankPlacement::InOrder => return None,
            Allgather::ByNode => {
                let (own, whole) = (Asked::bytes(bytes), Asked::bytes(bytes * self.size as usize));
                self.in_each_part::<Gather>(own)
                    + self.between().around(bytes * self.ranks_of_part() as usize, Work::NONE)
                    + self.in_each_part::<Bcast>(whole)
            }
        })
    }

    pub(crate) fn alltoall(&self, way: Alltoall, Asked { bytes, .. }: Asked) -> Option<PredictedCost> {
        Some(match way {
            Alltoall::Pairwise => {
                let waits = f64::from(self.size.div_ceil(8));
                let all = self.each_to_all(bytes);
                let more = (waits - 1.0) * self.farthest().latency_ns;
                PredictedCost { path: all.path + more, waits, ..all } + self.copies(bytes)
            }
            Alltoall::Bruck => {
                let half = bytes * (self.size as usize).div_ceil(2);
                // Blocks stand apart, so that each is copied by itself.
                let chunk = self.costs.copy.fixed_ns * f64::from(self.size);
                let packing = self.costs.copy.byte_ns * (2 * half) as f64 + chunk;
                let round = |level: u32| self.everybody(half, 1u32 << level) + self.all_do(packing);
                let turned = 2.0 * self.costs.copy.byte_ns * (bytes * self.size as usize) as f64 + chunk;
                self.levels().map(round).sum::<PredictedCost>() + self.all_do(turned)
            }
            Alltoall::ByNode if self.seating == RankPlacement::Plain => return None,
            Alltoall::ByNode => self.alltoall_by_parts(bytes),
        })
    }

    pub(crate) fn reduce(&self, way: Reduce, asked: Asked) -> Option<PredictedCost> {
        let Asked { bytes, commutative } = asked;
        Some(match way {
            Reduce::Binomial => self.tree(bytes, self.costs.combine.of_ns(bytes)),
            Reduce::ByNode if !self.goes_by_node(commutative) => return None,
            Reduce::ByNode => self.in_each_part::<Reduce>(asked) + self.among_parts::<Reduce>(asked),
            _ if !commutative => return None,
            Reduce::Circulant => self.in_chunks_around(bytes, self.costs.combine),
            Reduce::BinaryTree => self.in_chunks_down_a_tree(bytes, self.costs.combine),
            Reduce::Chain => self.in_chunks_along_a_chain(bytes, self.costs.combine),
            Reduce::RingGather => {
                let slice = self.slice(bytes);
                self.ring(slice, self.costs.combine.of_ns(slice)) + self.fan(slice)
            }
        })
    }

    pub(crate) fn allreduce(&self, way: Allreduce, asked: Asked) -> Option<PredictedCost> {
        let Asked { bytes, commutative } = asked;
        let combine = self.costs.combine.of_ns(bytes);
        let core = self.size.ilog2();
        let others = f64::from(self.size - 1);
        Some(match way {
            Allreduce::Rabenseifner | Allreduce::Ring | Allreduce::Circulant if !commutative => return None,
            Allreduce::Circulant => {
                let slice = self.slice(bytes);
                self.around(slice, self.costs.combine) + self.around(slice, Work::NONE)
            }
            Allreduce::ByNode if !self.goes_by_node(commutative) || self.fits_a_segment(bytes) => {
                return None;
            }
            Allreduce::ByNode => {
                self.in_each_part::<Reduce>(asked)
                    + self.among_parts::<Allreduce>(asked)
                    + self.in_each_part::<Bcast>(asked)
            }
            Allreduce::ByNodeInSlices if !commutative || self.seating == RankPlacement::Plain => return None,
            Allreduce::ByNodeInSlices if self.fits_a_segment(bytes) => return None,
            Allreduce::ByNodeInSlices => {
                let together = self.ranks_of_part();
                let slice = bytes.div_ceil(together as usize);
                let sliced = Asked { bytes: slice, ..asked };
                let lanes = CostModel { beside: together, ..self.between() };
                let chunk = lanes.slice(slice);
                let across = lanes.around(chunk, self.costs.combine) + lanes.around(chunk, Work::NONE);
                let across = PredictedCost { work: across.work * f64::from(together), ..across };
                self.in_each_part::<ReduceScatter>(sliced) + across + self.within().around(slice, Work::NONE)
            }
            Allreduce::RecursiveDoubling => {
                let round = |level: u32| self.pairs(bytes, 1 << level) + self.all_do(combine);
                (0..core).map(round).sum::<PredictedCost>() + self.extras(bytes) + self.copies(bytes)
            }
            Allreduce::Rabenseifner => {
                let round = |level: u32| {
                    let slice = bytes >> (core - level);
                    self.pairs(slice, 1 << level) * 2.0 + self.all_do(self.costs.combine.of_ns(slice))
                };
                (0..core).map(round).sum::<PredictedCost>() + self.extras(bytes)
            }
            Allreduce::Ring => {
                let slice = self.slice(bytes);
                self.ring(slice, self.costs.combine.of_ns(slice)) + self.ring(slice, 0.0)
            }
            Allreduce::EachToAll => {
                self.each_to_all(bytes) + self.all_do(combine * others) + self.copies(bytes)
            }
            Allreduce::GatherBroadcast => {
                // Meanwhile other cores have nothing to do.
                let cores = f64::from(SHARED_CORES.min(self.size));
                let at_root =
                    PredictedCost { path: combine * others, work: combine * others * cores, waits: 0.0 };
                self.fan(bytes) + at_root + self.fan(bytes).without_wait()
            }
            Allreduce::Gathering => self.doubling(bytes) + self.all_do(combine * others) + self.copies(bytes),
        })
    }

    pub(crate) fn reduce_scatter(&self, way: ReduceScatter, asked: Asked) -> Option<PredictedCost> {
        let Asked { bytes, commutative } = asked;
        let combine = self.costs.combine.of_ns(bytes);
        Some(match way {
            ReduceScatter::Pairwise | ReduceScatter::Circulant if !commutative => return None,
            ReduceScatter::Circulant => self.around(bytes, self.costs.combine) + self.copies(bytes),
            ReduceScatter::Pairwise => {
                let middle = self.size / 2;
                (self.everybody(bytes, middle) + self.all_do(combine)) * f64::from(self.size - 1)
            }
            ReduceScatter::ReduceThenScatter => {
                let whole = bytes * self.size as usize;
                self.tree(whole, self.costs.combine.of_ns(whole))
                    + self.tree_of_blocks(bytes)
                    + self.copies(bytes)
            }
            ReduceScatter::ByNode if !self.goes_by_node(commutative) => return None,
            ReduceScatter::ByNode => self.reduce_scatter_by_leaders(asked),
            ReduceScatter::ByNodeInSlices if !commutative || self.seating == RankPlacement::Plain => {
                return None;
            }
            ReduceScatter::ByNodeInSlices => self.reduce_scatter_in_slices(asked),
        })
    }
}

impl PredictedCost {
    /// As the second half of something whose first half is waited for already.
    fn without_wait(self) -> PredictedCost {
        PredictedCost { waits: (self.waits - 1.0).max(0.0), ..self }
    }
}

/// The kinds of parts that a node has.
const MODEL_LEVELS: usize = 3;
/// What differs by less is taken for the same.
const ALIKE: f64 = 1.001;
