//! What algorithms take, in closed form: what a choice looks at, since it must not cost more than it gains.
//!
//! Each is the sum of what happens one after the other on the longest way through the ranks, as the simulation has it
//! (a test holds both against each other). p is the number of ranks, n that of bytes; "everybody" means that all ranks
//! send and receive at a time.

mod blocks;

use std::iter::Sum;
use std::ops::{Add, Mul};

use crate::choice::Asked;
use crate::costs::{Border, Costs, Link, Work};
use crate::hub::COMBINED_BY_ALL_BYTES_MAX;
use crate::names::Way;
use crate::shape::{Cores, Shape, log2};
use crate::simulation::SHARED_CORES;
use crate::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter};

/// What something takes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Effort {
    /// Where each rank has a core: nanoseconds from the beginning to the end.
    path: f64,
    /// What all ranks do for it together, in nanoseconds of a core.
    work: f64,
    /// How often a rank waits.
    waits: f64,
}

impl Add for Effort {
    type Output = Effort;

    fn add(self, other: Effort) -> Effort {
        Effort { path: self.path + other.path, work: self.work + other.work, waits: self.waits + other.waits }
    }
}

impl Mul<f64> for Effort {
    type Output = Effort;

    fn mul(self, times: f64) -> Effort {
        Effort { path: self.path * times, work: self.work * times, waits: self.waits * times }
    }
}

impl Sum for Effort {
    fn sum<I: Iterator<Item = Effort>>(efforts: I) -> Effort {
        efforts.fold(Effort::default(), Effort::add)
    }
}

/// Where ranks sit, and what things cost there.
pub(crate) struct Terrain<'a> {
    costs: &'a Costs,
    size: u32,
    /// Ranks of a node.
    together: u32,
    /// The parts of nodes that count, from wide to narrow.
    tiers: [Option<Tier<'a>>; TIERS],
    cores: Cores,
    seating: Seating,
    /// Ranks of the smallest and of the largest of the widest parts; nothing where all have as many.
    uneven: Option<(u32, u32)>,
    /// How many do the same beside each other on each node.
    beside: u32,
}

/// Parts of a node.
#[derive(Clone, Copy)]
struct Tier<'a> {
    /// Ranks of one of them.
    together: u32,
    /// The link between two of them.
    link: &'a Link,
}

/// What is known of who sits where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seating {
    /// Nothing, or there is but one part, or a part for each rank.
    Plain,
    /// Parts hold consecutive ranks.
    InOrder,
    /// They do not.
    Mixed,
}

impl<'a> Terrain<'a> {
    pub(crate) fn of(shape: &'a Shape) -> Terrain<'a> {
        let (costs, size, together) = (shape.costs(), shape.size(), shape.ranks_of_node());
        let mut tiers = [None; TIERS];
        let seating = match shape.nesting() {
            Some(nesting) => {
                let inner = nesting.kinds().filter(|(border, _)| *border != Border::Node);
                for (tier, (border, parts)) in tiers.iter_mut().zip(inner) {
                    *tier = Some(Tier { together: size.div_ceil(parts), link: costs.over(border) });
                }
                match nesting.parts() {
                    parts if parts == size => Seating::Plain,
                    _ if nesting.is_straight() => Seating::InOrder,
                    _ => Seating::Mixed,
                }
            }
            None => {
                tiers[0] = shape.apart().map(|border| Tier { together: 1, link: costs.over(border) });
                Seating::Plain
            }
        };
        let sizes = shape.nesting().map(|nesting| (nesting.smallest_part(), nesting.largest_part()));
        let uneven = sizes.filter(|(smallest, largest)| smallest < largest);
        Terrain { costs, size, together, tiers, cores: shape.cores(), seating, uneven, beside: 1 }
    }

    /// Whether there are several nodes.
    fn has_nodes(&self) -> bool {
        self.together < self.size
    }

    /// The parts of nodes that count, from wide to narrow.
    fn tiers(&self) -> impl Iterator<Item = Tier<'a>> + use<'a> {
        self.tiers.into_iter().flatten()
    }

    /// Ranks of one of the widest parts, as the mean of all.
    fn ranks_of_part(&self) -> u32 {
        let widest = if self.has_nodes() { None } else { self.tiers[0] };
        widest.map_or(self.together, |tier| tier.together)
    }

    /// Ranks of the smallest and of the largest of the widest parts.
    fn least_and_most_of_part(&self) -> (u32, u32) {
        self.uneven.unwrap_or((self.ranks_of_part(), self.ranks_of_part()))
    }

    /// The ranks of one of the widest parts, whose numbers are in the order of their places.
    fn within(&self) -> Terrain<'a> {
        self.within_part_of(self.ranks_of_part())
    }

    /// The same in one that has so many ranks.
    fn within_part_of(&self, size: u32) -> Terrain<'a> {
        let mut tiers = self.tiers;
        if !self.has_nodes() {
            tiers.rotate_left(1);
            tiers[TIERS - 1] = None;
        }
        let seating =
            if tiers[0].is_some_and(|tier| tier.together < size) { Seating::InOrder } else { Seating::Plain };
        Terrain { size, together: size, tiers, seating, uneven: None, ..*self }
    }

    /// One rank of each of the widest parts.
    fn between(&self) -> Terrain<'a> {
        let size = self.size.div_ceil(self.ranks_of_part());
        let mut tiers = [None; TIERS];
        let mut together = 1;
        if !self.has_nodes() {
            tiers[0] = self.tiers[0].map(|tier| Tier { together: 1, ..tier });
            together = size;
        }
        Terrain { size, together, tiers, seating: Seating::Plain, uneven: None, ..*self }
    }

    /// The way that takes least.
    pub(crate) fn best<W: Way>(&self, asked: Asked) -> Option<(W, Effort)> {
        let mut best: Option<(W, Effort, f64)> = None;
        for &way in W::ALL {
            let Some(effort) = way.effort(self, asked) else { continue };
            let ns = self.ns(effort);
            // Formulas are of the root at the first place. From any other a tree without parts crosses them more often, and by
            // parts it does not; so of two that take the same, that is the better one.
            let is_better = |best: f64| {
                ns < best || ns <= best * ALIKE && self.seating != Seating::Plain && way.goes_by_parts()
            };
            if best.as_ref().is_none_or(|best| is_better(best.2)) {
                best = Some((way, effort, ns));
            }
        }
        best.map(|(way, effort, _)| (way, effort))
    }

    /// What the best way takes in each of the widest parts at a time.
    fn in_each_part<W: Way>(&self, asked: Asked) -> Effort {
        let effort = self.within().best::<W>(asked).map(|(_, effort)| effort).unwrap_or_default();
        Effort { work: effort.work * f64::from(self.size.div_ceil(self.ranks_of_part())), ..effort }
    }

    /// What the best way takes among one rank of each.
    fn among_parts<W: Way>(&self, asked: Asked) -> Effort {
        self.between().best::<W>(asked).map(|(_, effort)| effort).unwrap_or_default()
    }

    fn has_own_cores(&self) -> bool {
        self.cores == Cores::Own || self.together <= SHARED_CORES
    }

    /// The time of an effort.
    pub(crate) fn ns(&self, effort: Effort) -> f64 {
        if self.has_own_cores() {
            return effort.path;
        }
        let share = f64::from(self.together) / f64::from(self.size);
        // All begin, and all go on after each wait.
        let turns = (effort.waits + 1.0) * f64::from(self.together);
        (turns * self.costs.turn_ns + effort.work * share) / f64::from(SHARED_CORES) + effort.path / 2.0
    }

    pub(crate) fn barrier(&self, way: Barrier, _: Asked) -> Option<Effort> {
        Some(match way {
            Barrier::Dissemination => self.levels().map(|level| self.everybody(0, 1u32 << level)).sum(),
            Barrier::EachToAll => self.each_to_all(0),
            Barrier::Hub => self.fan(0) + self.fan(0).without_wait(),
            Barrier::ByNode if self.seating == Seating::Plain => return None,
            Barrier::ByNode => {
                let tree = self.within().tree(0, 0.0);
                tree * 2.0 + self.among_parts::<Barrier>(Asked::bytes(0))
            }
        })
    }

    pub(crate) fn bcast(&self, way: Bcast, asked: Asked) -> Option<Effort> {
        let bytes = asked.bytes;
        Some(match way {
            Bcast::ScatterAllgather => {
                let slice = self.slice(bytes);
                let fan = self.fan(slice);
                // The root hands out the slices.
                let handing = if self.has_nodes() { self.costs.step_ns } else { self.holding(slice) };
                let busy = handing * f64::from(self.size - 1);
                // Between nodes, what others pass on comes before slices that come more than a round after the first one.
                let late = if self.has_nodes() {
                    let network = &self.costs.network;
                    let each = self.costs.step_ns.max(network.moving_ns(slice));
                    let round = 2.0 * self.costs.step_ns + network.way_ns(slice);
                    let behind_the_first = each * f64::from(self.size.saturating_sub(2));
                    (behind_the_first - round).clamp(0.0, network.latency_ns)
                } else {
                    0.0
                };
                Effort { path: fan.path.max(busy) + late, ..fan } + self.around(slice, Work::NONE)
            }
            Bcast::Circulant => self.in_pieces_around(bytes, Work::NONE),
            Bcast::BinaryTree => self.in_pieces_down_a_tree(bytes, Work::NONE),
            Bcast::Chain => self.in_pieces_along_a_chain(bytes, Work::NONE),
            Bcast::ByNode if self.seating == Seating::Plain => return None,
            Bcast::ByNode => self.among_parts::<Bcast>(asked) + self.in_each_part::<Bcast>(asked),
            Bcast::Binomial => self.tree(bytes, 0.0),
            Bcast::ScatterRing => {
                let slice = self.slice(bytes);
                self.tree_of_blocks(slice) + self.ring(slice, 0.0)
            }
        })
    }

    pub(crate) fn gather(&self, way: Gather, Asked { bytes, .. }: Asked) -> Option<Effort> {
        Some(match way {
            Gather::Binomial => self.tree_of_blocks(bytes) + self.copies(bytes),
            Gather::Linear => self.fan(bytes) + self.copies(bytes),
        })
    }

    pub(crate) fn scatter(&self, way: Scatter, Asked { bytes, .. }: Asked) -> Option<Effort> {
        Some(match way {
            Scatter::Binomial => self.tree_of_blocks(bytes) + self.copies(bytes) * self.inner(),
            Scatter::Linear => self.fan(bytes),
        })
    }

    pub(crate) fn allgather(&self, way: Allgather, Asked { bytes, .. }: Asked) -> Option<Effort> {
        Some(match way {
            Allgather::RecursiveDoubling if !self.size.is_power_of_two() => return None,
            Allgather::RecursiveDoubling => {
                let round = |level: u32| self.pairs(bytes << level, 1 << level);
                self.levels().map(round).sum::<Effort>() + self.copies(bytes)
            }
            Allgather::Bruck => self.doubling(bytes) + self.copies(bytes * (self.size as usize + 1)),
            Allgather::Ring => self.ring(bytes, 0.0) + self.copies(bytes),
            Allgather::Circulant => self.around(bytes, Work::NONE) + self.copies(bytes),
            Allgather::ByNode if self.seating != Seating::InOrder => return None,
            Allgather::ByNode => {
                let (own, whole) = (Asked::bytes(bytes), Asked::bytes(bytes * self.size as usize));
                self.in_each_part::<Gather>(own)
                    + self.between().around(bytes * self.ranks_of_part() as usize, Work::NONE)
                    + self.in_each_part::<Bcast>(whole)
            }
        })
    }

    pub(crate) fn alltoall(&self, way: Alltoall, Asked { bytes, .. }: Asked) -> Option<Effort> {
        Some(match way {
            Alltoall::Pairwise => {
                let waits = f64::from(self.size.div_ceil(8));
                let all = self.each_to_all(bytes);
                let more = (waits - 1.0) * self.farthest().latency_ns;
                Effort { path: all.path + more, waits, ..all } + self.copies(bytes)
            }
            Alltoall::Bruck => {
                let half = bytes * (self.size as usize).div_ceil(2);
                // Blocks stand apart, so that each is copied by itself.
                let piece = self.costs.copy.fixed_ns * f64::from(self.size);
                let packing = self.costs.copy.byte_ns * (2 * half) as f64 + piece;
                let round = |level: u32| self.everybody(half, 1u32 << level) + self.all_do(packing);
                let turned = 2.0 * self.costs.copy.byte_ns * (bytes * self.size as usize) as f64 + piece;
                self.levels().map(round).sum::<Effort>() + self.all_do(turned)
            }
            Alltoall::ByNode if self.seating == Seating::Plain => return None,
            Alltoall::ByNode => self.alltoall_by_parts(bytes),
        })
    }

    pub(crate) fn reduce(&self, way: Reduce, asked: Asked) -> Option<Effort> {
        let Asked { bytes, commutative } = asked;
        Some(match way {
            Reduce::Binomial => self.tree(bytes, self.costs.combine.of_ns(bytes)),
            Reduce::ByNode if !self.goes_by_node(commutative) => return None,
            Reduce::ByNode => self.in_each_part::<Reduce>(asked) + self.among_parts::<Reduce>(asked),
            _ if !commutative => return None,
            Reduce::Circulant => self.in_pieces_around(bytes, self.costs.combine),
            Reduce::BinaryTree => self.in_pieces_down_a_tree(bytes, self.costs.combine),
            Reduce::Chain => self.in_pieces_along_a_chain(bytes, self.costs.combine),
            Reduce::RingGather => {
                let slice = self.slice(bytes);
                self.ring(slice, self.costs.combine.of_ns(slice)) + self.fan(slice)
            }
        })
    }

    pub(crate) fn allreduce(&self, way: Allreduce, asked: Asked) -> Option<Effort> {
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
            Allreduce::ByNode if !self.goes_by_node(commutative) || self.fits_a_board(bytes) => return None,
            Allreduce::ByNode => {
                self.in_each_part::<Reduce>(asked)
                    + self.among_parts::<Allreduce>(asked)
                    + self.in_each_part::<Bcast>(asked)
            }
            Allreduce::ByNodeInSlices if !commutative || self.seating == Seating::Plain => return None,
            Allreduce::ByNodeInSlices if self.fits_a_board(bytes) => return None,
            Allreduce::ByNodeInSlices => {
                let together = self.ranks_of_part();
                let slice = bytes.div_ceil(together as usize);
                let sliced = Asked { bytes: slice, ..asked };
                let lanes = Terrain { beside: together, ..self.between() };
                let piece = lanes.slice(slice);
                let across = lanes.around(piece, self.costs.combine) + lanes.around(piece, Work::NONE);
                let across = Effort { work: across.work * f64::from(together), ..across };
                self.in_each_part::<ReduceScatter>(sliced) + across + self.within().around(slice, Work::NONE)
            }
            Allreduce::RecursiveDoubling => {
                let round = |level: u32| self.pairs(bytes, 1 << level) + self.all_do(combine);
                (0..core).map(round).sum::<Effort>() + self.guests(bytes) + self.copies(bytes)
            }
            Allreduce::Rabenseifner => {
                let round = |level: u32| {
                    let slice = bytes >> (core - level);
                    self.pairs(slice, 1 << level) * 2.0 + self.all_do(self.costs.combine.of_ns(slice))
                };
                (0..core).map(round).sum::<Effort>() + self.guests(bytes)
            }
            Allreduce::Ring => {
                let slice = self.slice(bytes);
                self.ring(slice, self.costs.combine.of_ns(slice)) + self.ring(slice, 0.0)
            }
            Allreduce::EachToAll => {
                self.each_to_all(bytes) + self.all_do(combine * others) + self.copies(bytes)
            }
            Allreduce::Hub => {
                let at_hub = Effort { path: combine * others, work: combine * others, waits: 0.0 };
                self.fan(bytes) + at_hub + self.fan(bytes).without_wait()
            }
            Allreduce::Gathering => self.doubling(bytes) + self.all_do(combine * others) + self.copies(bytes),
        })
    }

    pub(crate) fn reduce_scatter(&self, way: ReduceScatter, asked: Asked) -> Option<Effort> {
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
            ReduceScatter::ByNodeInSlices if !commutative || self.seating == Seating::Plain => return None,
            ReduceScatter::ByNodeInSlices => self.reduce_scatter_in_slices(asked),
        })
    }

    /// Whether a reduction can go by node: the order of operands is kept where parts hold consecutive ranks.
    fn goes_by_node(&self, commutative: bool) -> bool {
        self.seating == Seating::InOrder || self.seating == Seating::Mixed && commutative
    }

    /// Whether an allreduce is so short that it does not go by parts of a node: within a node such ones go by a board
    /// (decisions/0029), which combines operands in the order of the algorithms without parts, and so each gives the same bits.
    fn fits_a_board(&self, bytes: usize) -> bool {
        !self.has_nodes() && bytes * self.size as usize <= COMBINED_BY_ALL_BYTES_MAX
    }

    /// The rounds of whatever doubles: ceil(log2 p).
    fn levels(&self) -> std::ops::Range<u32> {
        0..u32::BITS - (self.size - 1).leading_zeros()
    }

    /// 0 for a tree that has no ranks between its top and its leaves.
    fn inner(&self) -> f64 {
        f64::from(u32::from(self.size > 2))
    }

    fn slice(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.size as usize)
    }

    /// The link that the farthest ranks have between them.
    fn farthest(&self) -> &'a Link {
        if self.has_nodes() { &self.costs.network } else { self.near() }
    }

    /// The link that the farthest ranks of a node have between them.
    fn near(&self) -> &'a Link {
        self.tiers[0].map_or(&self.costs.node, |tier| tier.link)
    }

    /// The link between ranks of a node that are so far apart, counted from the beginning of each part.
    fn near_at(&self, distance: u32) -> &'a Link {
        let is_apart = |tier: &Tier<'a>| tier.together <= distance || self.seating == Seating::Mixed;
        self.tiers().find(is_apart).map_or(&self.costs.node, |tier| tier.link)
    }

    /// The widest link of those between all ranks of a node and those whose number differs in one bit.
    fn near_of_pairs(&self, bit: u32) -> &'a Link {
        let is_apart = |tier: &Tier<'a>| {
            tier.together <= bit || !tier.together.is_power_of_two() || self.seating == Seating::Mixed
        };
        self.tiers().find(is_apart).map_or(&self.costs.node, |tier| tier.link)
    }

    /// How many other ranks of a node a rank has over which link.
    fn others_near(&self) -> impl Iterator<Item = (f64, &'a Link)> + use<'a> {
        let (tiers, costs) = (self.tiers, self.costs);
        let links = tiers.into_iter().flatten().map(|tier| (tier.together, tier.link));
        let links = links.chain([(1, &costs.node)]);
        links.scan(self.together, |wider, (of_part, link)| {
            let others = *wider - of_part.min(*wider);
            *wider = of_part.min(*wider);
            Some((f64::from(others), link))
        })
    }

    /// How often the way from the first rank of a node to the last one, along all others, goes over which link.
    fn hops_near(&self) -> impl Iterator<Item = (f64, &'a Link)> + use<'a> {
        let (tiers, costs, together) = (self.tiers, self.costs, self.together);
        let links = tiers.into_iter().flatten().map(|tier| (tier.together, tier.link));
        let links = links.chain([(1, &costs.node)]);
        links.scan(1, move |wider, (of_part, link)| {
            let parts = together.div_ceil(of_part).max(*wider);
            let hops = parts - *wider;
            *wider = parts;
            Some((f64::from(hops), link))
        })
    }

    /// What a core does for a message, at both ends.
    fn handling(&self, bytes: usize) -> f64 {
        2.0 * self.costs.step_ns + self.costs.node.moving_alone_ns(bytes)
    }

    /// How often a rank waits for a message so long: where it is asked for, its sender waits for the answer as well, and its core has gone
    /// to somebody else where cores are shared.
    fn waits(&self, bytes: usize) -> f64 {
        if self.costs.node.is_eager(bytes) { 1.0 } else { 2.0 }
    }

    /// One message between ranks so far apart.
    fn message(&self, bytes: usize, distance: u32) -> f64 {
        let is_near = distance < self.together && self.seating != Seating::Mixed || !self.has_nodes();
        if is_near { self.near_message(bytes, self.near_at(distance)) } else { self.far_message(bytes, 1) }
    }

    /// A message that stays on its node, and whose sender has nothing else to do.
    fn near_message(&self, bytes: usize, link: &Link) -> f64 {
        self.ends_and_way(bytes, link) + self.moving(bytes, link)
    }

    /// The same whose sender takes one as well, and does not help.
    fn near_message_both_ways(&self, bytes: usize, link: &Link) -> f64 {
        self.ends_and_way(bytes, link) + link.moving_alone_ns(bytes)
    }

    /// A message to another node, where so many leave each node at a time.
    fn far_message(&self, bytes: usize, crossing: u32) -> f64 {
        let link = &self.costs.network;
        let others = (f64::from(crossing) * f64::from(self.beside) - 1.0).max(0.0);
        let more = others * bytes as f64 * self.per_byte(link, bytes);
        self.ends_and_way(bytes, link) + link.moving_ns(bytes) + more
    }

    /// What a message takes but for its bytes.
    fn ends_and_way(&self, bytes: usize, link: &Link) -> f64 {
        // The question goes there and the answer back.
        let asks = if link.is_eager(bytes) { 0.0 } else { link.latency_ns };
        2.0 * self.costs.step_ns + link.latency_ns + asks
    }

    fn per_byte(&self, link: &Link, bytes: usize) -> f64 {
        if link.is_eager(bytes) { link.eager_byte_ns } else { link.byte_ns }
    }

    /// All ranks send to the rank so far ahead, and receive from the one so far back.
    fn everybody(&self, bytes: usize, distance: u32) -> Effort {
        self.at_once(bytes, self.near(), self.crossing(distance))
    }

    /// The same where each rank either sends or receives.
    fn every_other(&self, bytes: usize, distance: u32) -> Effort {
        let crossing = self.crossing(distance);
        let path = self.near_message(bytes, self.near());
        let path = if crossing == 0 { path } else { path.max(self.far_message(bytes, crossing)) };
        Effort { path, ..self.at_once(bytes, self.near(), crossing) }
    }

    /// How many messages leave each node, where all send to the rank so far ahead.
    fn crossing(&self, distance: u32) -> u32 {
        match self.seating {
            _ if !self.has_nodes() => 0,
            Seating::Mixed => self.together,
            Seating::Plain | Seating::InOrder => distance.min(self.together),
        }
    }

    /// All ranks exchange with the rank whose number differs in one bit.
    fn pairs(&self, bytes: usize, bit: u32) -> Effort {
        let crossing = match self.together.is_power_of_two() {
            _ if !self.has_nodes() => 0,
            _ if self.seating == Seating::Mixed => self.together,
            true if bit < self.together => 0,
            true => self.together,
            false => bit.min(self.together),
        };
        self.at_once(bytes, self.near_of_pairs(bit), crossing)
    }

    /// Everybody sends and receives, over that link within a node, and so many messages leave each node.
    fn at_once(&self, bytes: usize, near: &Link, crossing: u32) -> Effort {
        let near = self.near_message_both_ways(bytes, near);
        let path = if crossing == 0 { near } else { near.max(self.far_message(bytes, crossing)) };
        Effort { path, work: self.handling(bytes) * f64::from(self.size), waits: self.waits(bytes) }
    }

    /// What the bytes add to the way of a message within a node whose sender has nothing else to do. Where cores are shared it has
    /// no core meanwhile, and does not help.
    fn moving(&self, bytes: usize, link: &Link) -> f64 {
        if self.has_own_cores() { link.moving_ns(bytes) } else { link.moving_alone_ns(bytes) }
    }

    /// Every block goes round all ranks, and something is done with it at each.
    fn ring(&self, block: usize, then_ns: f64) -> Effort {
        let around = (self.at_once(block, self.near(), 0) + self.all_do(then_ns)) * f64::from(self.size - 1);
        if !self.has_nodes() {
            return Effort { path: around.path.min(self.ring_of_parts(block, then_ns)), ..around };
        }
        let (network, nodes) = (&self.costs.network, self.size.div_ceil(self.together));
        let far = self.far_message(block, 1) + then_ns;
        let path = if network.is_eager(block) && self.together > 1 && self.seating != Seating::Mixed {
            // A block leaves a node while others are on their way; it passes the border of each node once.
            let near = self.near_message_both_ways(block, self.near()) + then_ns;
            let chain = around.path + f64::from(nodes - 1) * (far - near);
            let stream = f64::from(self.size - 1) * (self.costs.step_ns + network.moving_ns(block)) + far;
            chain.max(stream)
        } else {
            far * f64::from(self.size - 1)
        };
        Effort { path, ..around }
    }

    /// A ring of blocks that are sent at once, within a node: a block passes wide links seldom, while others are on their way.
    fn ring_of_parts(&self, block: usize, then_ns: f64) -> f64 {
        if !self.near().is_eager(block) || self.seating == Seating::Mixed {
            return f64::INFINITY;
        }
        let hop = |link: &Link| self.near_message_both_ways(block, link) + then_ns;
        let chain: f64 = self.hops_near().map(|(hops, link)| hops * hop(link)).sum();
        chain.max(f64::from(self.size - 1) * self.between_blocks(block, then_ns) + self.near().latency_ns)
    }

    /// The time between two blocks that are sent at once where ranks in a row pass them on, within a node: what the ranks at
    /// the widest border do for each. Half of the work for bytes is done at each end.
    fn between_blocks(&self, block: usize, then_ns: f64) -> f64 {
        let moving = (self.near().moving_ns(block) + self.costs.node.moving_ns(block)) / 2.0;
        2.0 * self.costs.step_ns + moving + then_ns
    }

    /// What each has doubles in each round, whatever the number of ranks.
    fn doubling(&self, block: usize) -> Effort {
        let round = |level: u32| {
            let distance = 1u32 << level;
            self.everybody(block * distance.min(self.size - distance) as usize, distance)
        };
        self.levels().map(round).sum()
    }

    /// The rounds of a circulant graph: as those of what doubles, and a message in two pieces where it passes the last
    /// rank's block.
    fn around(&self, block: usize, then: Work) -> Effort {
        let (mut known, mut all) = (self.size, Effort::default());
        while known > 1 {
            let skip = known.div_ceil(2);
            let bytes = block * (known - skip) as usize;
            let piece = Effort { path: 0.5 * self.costs.step_ns, ..Effort::default() };
            all = all + self.everybody(bytes, skip) + piece + self.all_do(then.of_ns(bytes));
            known = skip;
        }
        all
    }

    /// m - 1 + ceil(log2 p) rounds of a piece round a circulant graph.
    fn in_pieces_around(&self, bytes: usize, then: Work) -> Effort {
        let depth = log2(self.size);
        let count = self.costs.pieces(self.farthest(), bytes, depth);
        let piece = bytes.div_ceil(count);
        // The first piece finds ranks that have nothing to do yet.
        let (mut skip, mut first, mut phase) = (self.size, Effort::default(), Effort::default());
        while skip > 1 {
            skip = skip.div_ceil(2);
            let then = self.all_do(then.of_ns(piece));
            first = first + self.every_other(piece, skip) + then;
            phase = phase + self.everybody(piece, skip) + then;
        }
        first + phase * ((count - 1) as f64 / depth.max(1) as f64)
    }

    /// Rounds of a piece down a binary tree: in each a rank sends two.
    fn in_pieces_down_a_tree(&self, bytes: usize, then: Work) -> Effort {
        let count = self.costs.pieces(self.farthest(), bytes, log2(self.size));
        let piece = bytes.div_ceil(count);
        let twice = self.holding(piece) + 2.0 * then.of_ns(piece);
        let round = self.everybody(piece, self.size / 2) + self.all_do(twice);
        round * (count - 1 + self.size.ilog2() as usize) as f64
    }

    /// Rounds of a piece along a chain of all ranks.
    fn in_pieces_along_a_chain(&self, bytes: usize, then: Work) -> Effort {
        let count = self.costs.pieces(self.farthest(), bytes, self.size as usize);
        let piece = bytes.div_ceil(count);
        let round = self.everybody(piece, 1) + self.all_do(then.of_ns(piece));
        let chain = round * (count + self.size as usize - 2).max(1) as f64;
        let near = self.near_message(piece, self.near()) + then.of_ns(piece);
        let is_eager = self.costs.network.is_eager(piece);
        if !self.has_nodes() && self.seating == Seating::InOrder && self.near().is_eager(piece) {
            let then_ns = then.of_ns(piece);
            let hop = |link: &Link| self.near_message(piece, link) + then_ns;
            let first: f64 = self.hops_near().map(|(hops, link)| hops * hop(link)).sum();
            let path = first + (count - 1) as f64 * self.between_blocks(piece, then_ns);
            return Effort { path, ..chain };
        }
        if !self.has_nodes() || self.together == 1 || self.seating == Seating::Mixed || !is_eager {
            return chain;
        }
        let nodes = f64::from(self.size.div_ceil(self.together));
        let far = self.far_message(piece, 1) + then.of_ns(piece);
        let stream = near.max(self.costs.step_ns + self.costs.network.moving_ns(piece));
        let path = (f64::from(self.size) - nodes) * near + (nodes - 1.0) * far + (count - 1) as f64 * stream;
        Effort { path, ..chain }
    }

    /// All bytes go over each edge of a binomial tree; something is done with them at each receiver.
    fn tree(&self, bytes: usize, then_ns: f64) -> Effort {
        let depth = self.size.ilog2();
        let chain: f64 = (0..depth).map(|level| self.message(bytes, 1u32 << level) + then_ns).sum();
        // Where p is no power of two, the top has one child more than the tree is deep.
        let wait = f64::from(self.levels().end - depth) * (self.holding(bytes) + then_ns);
        let others = f64::from(self.size - 1);
        let work = (self.handling(bytes) + then_ns) * others;
        Effort { path: chain + wait, work, waits: self.waits(bytes) }
    }

    /// How long a message keeps its sender from the next one.
    fn holding(&self, bytes: usize) -> f64 {
        let link = self.farthest();
        match (self.has_nodes(), link.is_eager(bytes)) {
            (true, _) => self.costs.step_ns + bytes as f64 * self.per_byte(link, bytes),
            (false, true) => self.costs.step_ns + link.moving_ns(bytes) / 2.0,
            (false, false) => self.moving(bytes, link),
        }
    }

    /// Each edge of a binomial tree has the blocks of all ranks behind it.
    fn tree_of_blocks(&self, block: usize) -> Effort {
        let edge = |level: u32| {
            let distance = 1u32 << level;
            let bytes = block * distance.min(self.size - distance) as usize;
            let edges = f64::from(self.size >> (level + 1));
            Effort { path: self.message(bytes, distance), work: self.handling(bytes) * edges, waits: 0.0 }
        };
        let edges: Effort = self.levels().map(edge).sum();
        // Where p is no power of two, the top has one child more than the tree is deep.
        let beyond = f64::from(self.levels().end - self.size.ilog2());
        let saved = beyond * (self.message(0, self.size / 2) - self.costs.step_ns);
        Effort { path: edges.path - saved, waits: self.waits(block), ..edges }
    }

    /// One rank sends to all others, or receives from them.
    fn fan(&self, bytes: usize) -> Effort {
        let far = self.size - self.together;
        let each = |link: &Link| {
            if link.is_eager(bytes) { link.moving_ns(bytes) / 2.0 } else { self.moving(bytes, link) }
        };
        let near: f64 = self.others_near().map(|(others, link)| others * each(link)).sum();
        // The last one has its whole way besides.
        let near = (near - each(self.near())).max(0.0);
        let network = bytes as f64 * self.per_byte(&self.costs.network, bytes);
        let steps = self.costs.step_ns * f64::from(self.size.saturating_sub(2));
        let moved = near.max(network * f64::from(far.max(1) - 1));
        let one = if far > 0 { self.far_message(bytes, 1) } else { self.near_message(bytes, self.near()) };
        let work = self.handling(bytes) * f64::from(self.size - 1);
        Effort { path: steps + moved + one, work, waits: self.waits(bytes) }
    }

    /// Everybody sends to everybody.
    fn each_to_all(&self, bytes: usize) -> Effort {
        let (others, far) = (self.size - 1, self.size - self.together);
        let each = |link: &Link| 2.0 * self.costs.step_ns + link.moving_alone_ns(bytes);
        let near: f64 = self.others_near().map(|(others, link)| others * each(link)).sum();
        let all = near + f64::from(far) * each(&self.costs.node);
        let here = (all - each(self.near())).max(0.0) + self.near_message_both_ways(bytes, self.near());
        let crossing = f64::from(far) * f64::from(self.together);
        let network = bytes as f64 * self.per_byte(&self.costs.network, bytes) * (crossing - 1.0).max(0.0);
        let there = if far > 0 {
            network + 2.0 * self.costs.step_ns * f64::from(others - 1) + self.far_message(bytes, 1)
        } else {
            0.0
        };
        let work = self.handling(bytes) * f64::from(self.size) * f64::from(others);
        Effort { path: here.max(there), work, waits: self.waits(bytes) }
    }

    /// The ranks beyond a power of two give what they have, and get the result.
    fn guests(&self, bytes: usize) -> Effort {
        if self.size.is_power_of_two() {
            return Effort::default();
        }
        let combine = self.costs.combine.of_ns(bytes);
        let core = 1 << self.size.ilog2();
        // Where they are few, the others' first rounds hide that some begin later.
        let ways = if (self.size - core) * 4 <= core { 1.0 } else { 2.0 };
        let guests = f64::from(self.size - core);
        let path = ways * self.message(bytes, 1) + combine;
        Effort { path, work: (2.0 * self.handling(bytes) + combine) * guests, waits: 2.0 }
    }

    /// Everybody copies so many bytes.
    fn copies(&self, bytes: usize) -> Effort {
        self.all_do(self.costs.copy.of_ns(bytes))
    }

    /// Everybody does something that takes so long.
    fn all_do(&self, ns: f64) -> Effort {
        Effort { path: ns, work: ns * f64::from(self.size), waits: 0.0 }
    }
}

impl Effort {
    /// As the second half of something whose first half is waited for already.
    fn without_wait(self) -> Effort {
        Effort { waits: (self.waits - 1.0).max(0.0), ..self }
    }
}

/// The kinds of parts that a node has.
const TIERS: usize = 3;
/// What differs by less is taken for the same.
const ALIKE: f64 = 1.001;
