//! What algorithms take, in closed form: what a choice looks at, since it must not cost more than it gains.
//!
//! Each is the sum of what happens one after the other on the longest way through the ranks, as the simulation has it
//! (a test holds both against each other). p is the number of ranks, n that of bytes; "everybody" means that all ranks
//! send and receive at a time.

use std::iter::Sum;
use std::ops::{Add, Mul};

use crate::choice::Asked;
use crate::costs::{Costs, Link, Work};
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
    cores: Cores,
    nodes: Nodes,
    /// How many do the same beside each other on each node.
    beside: u32,
}

/// What is known of who sits where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nodes {
    /// Nothing, or there is but one node, or a node for each rank.
    Plain,
    /// Nodes hold consecutive ranks.
    InOrder,
    /// They do not.
    Mixed,
}

impl<'a> Terrain<'a> {
    pub(crate) fn of(shape: &Shape, costs: &'a Costs) -> Terrain<'a> {
        let (size, together) = (shape.size(), shape.ranks_of_node());
        let nodes = match shape.nesting() {
            Some(nesting) if nesting.nodes() == 1 || nesting.nodes() == size => Nodes::Plain,
            Some(nesting) if nesting.is_straight() => Nodes::InOrder,
            Some(_) => Nodes::Mixed,
            None => Nodes::Plain,
        };
        Terrain { costs, size, together, cores: shape.cores(), nodes, beside: 1 }
    }

    /// The ranks of one node.
    fn within(&self) -> Terrain<'a> {
        Terrain { size: self.together, nodes: Nodes::Plain, ..*self }
    }

    /// One rank of each node.
    fn between(&self) -> Terrain<'a> {
        Terrain { size: self.size.div_ceil(self.together), together: 1, nodes: Nodes::Plain, ..*self }
    }

    /// The way that takes least.
    pub(crate) fn best<W: Way>(&self, asked: Asked) -> Option<(W, Effort)> {
        let mut best: Option<(W, Effort, f64)> = None;
        for &way in W::ALL {
            let Some(effort) = way.effort(self, asked) else { continue };
            let ns = self.ns(effort);
            if best.as_ref().is_none_or(|best| ns < best.2) {
                best = Some((way, effort, ns));
            }
        }
        best.map(|(way, effort, _)| (way, effort))
    }

    /// What the best way takes on each node at a time.
    fn on_each_node<W: Way>(&self, asked: Asked) -> Effort {
        let effort = self.within().best::<W>(asked).map(|(_, effort)| effort).unwrap_or_default();
        Effort { work: effort.work * f64::from(self.size.div_ceil(self.together)), ..effort }
    }

    /// What the best way takes among one rank of each node.
    fn among_nodes<W: Way>(&self, asked: Asked) -> Effort {
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
            Barrier::ByNode if self.nodes == Nodes::Plain => return None,
            Barrier::ByNode => {
                let tree = self.within().tree(0, 0.0);
                tree * 2.0 + self.among_nodes::<Barrier>(Asked::bytes(0))
            }
        })
    }

    pub(crate) fn bcast(&self, way: Bcast, asked: Asked) -> Option<Effort> {
        let bytes = asked.bytes;
        Some(match way {
            Bcast::ScatterAllgather => {
                let slice = self.slice(bytes);
                let fan = self.fan(slice);
                // The root hands out the slices, and then makes a copy for itself.
                let handing =
                    if self.together == self.size { self.holding(slice) } else { self.costs.step_ns };
                let busy = handing * f64::from(self.size - 1) + self.costs.copy.of_ns(bytes);
                Effort { path: fan.path.max(busy), ..fan } + self.around(slice, Work::NONE)
            }
            Bcast::Circulant => self.in_pieces_around(bytes, Work::NONE),
            Bcast::BinaryTree => self.in_pieces_down_a_tree(bytes, Work::NONE),
            Bcast::Chain => self.in_pieces_along_a_chain(bytes, Work::NONE),
            Bcast::ByNode if self.nodes == Nodes::Plain => return None,
            Bcast::ByNode => self.among_nodes::<Bcast>(asked) + self.on_each_node::<Bcast>(asked),
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
            Allgather::ByNode if self.nodes != Nodes::InOrder => return None,
            Allgather::ByNode => {
                let (own, whole) = (Asked::bytes(bytes), Asked::bytes(bytes * self.size as usize));
                self.on_each_node::<Gather>(own)
                    + self.between().around(bytes * self.together as usize, Work::NONE)
                    + self.on_each_node::<Bcast>(whole)
            }
        })
    }

    pub(crate) fn alltoall(&self, way: Alltoall, Asked { bytes, .. }: Asked) -> Option<Effort> {
        Some(match way {
            Alltoall::Pairwise => {
                let waits = f64::from(self.size.div_ceil(8));
                let all = self.each_to_all(bytes);
                let more = (waits - 1.0) * self.link().latency_ns;
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
        })
    }

    pub(crate) fn reduce(&self, way: Reduce, asked: Asked) -> Option<Effort> {
        let Asked { bytes, commutative } = asked;
        Some(match way {
            Reduce::Binomial => self.tree(bytes, self.costs.combine.of_ns(bytes)),
            Reduce::ByNode if !self.goes_by_node(commutative) => return None,
            Reduce::ByNode => self.on_each_node::<Reduce>(asked) + self.among_nodes::<Reduce>(asked),
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
            Allreduce::ByNode if !self.goes_by_node(commutative) => return None,
            Allreduce::ByNode => {
                self.on_each_node::<Reduce>(asked)
                    + self.among_nodes::<Allreduce>(asked)
                    + self.on_each_node::<Bcast>(asked)
            }
            Allreduce::ByNodeInSlices if !commutative || self.nodes == Nodes::Plain => return None,
            Allreduce::ByNodeInSlices => {
                let slice = bytes.div_ceil(self.together as usize);
                let sliced = Asked { bytes: slice, ..asked };
                let lanes = Terrain { beside: self.together, ..self.between() };
                let piece = lanes.slice(slice);
                let across = lanes.around(piece, self.costs.combine) + lanes.around(piece, Work::NONE);
                let across = Effort { work: across.work * f64::from(self.together), ..across };
                self.on_each_node::<ReduceScatter>(sliced) + across + self.within().around(slice, Work::NONE)
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

    pub(crate) fn reduce_scatter(
        &self,
        way: ReduceScatter,
        Asked { bytes, commutative }: Asked,
    ) -> Option<Effort> {
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
        })
    }

    /// Whether a reduction can go by node: the order of operands is kept where nodes hold consecutive ranks.
    fn goes_by_node(&self, commutative: bool) -> bool {
        self.nodes == Nodes::InOrder || self.nodes == Nodes::Mixed && commutative
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
    fn link(&self) -> &'a Link {
        if self.together < self.size { &self.costs.network } else { &self.costs.node }
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

    /// One message between ranks so far apart, while `others` more leave the same node and go the same way.
    fn message(&self, bytes: usize, distance: u32) -> f64 {
        let is_near = distance < self.together && self.nodes != Nodes::Mixed || self.together == self.size;
        self.crowded(bytes, u32::from(!is_near))
    }

    /// A message, where `crossing` leave each node at a time; 0 where it stays on the node.
    fn crowded(&self, bytes: usize, crossing: u32) -> f64 {
        let link = if crossing == 0 { &self.costs.node } else { &self.costs.network };
        // The question goes there and the answer back.
        let asks = if link.is_eager(bytes) { 0.0 } else { link.latency_ns };
        let more = (f64::from(crossing) * f64::from(self.beside) - 1.0).max(0.0)
            * bytes as f64
            * self.per_byte(link, bytes);
        let moving = if crossing == 0 { self.moving(bytes) } else { link.moving_ns(bytes) };
        2.0 * self.costs.step_ns + link.latency_ns + moving + asks + more
    }

    fn per_byte(&self, link: &Link, bytes: usize) -> f64 {
        if link.is_eager(bytes) { link.eager_byte_ns } else { link.byte_ns }
    }

    /// All ranks send to the rank so far ahead, and receive from the one so far back.
    fn everybody(&self, bytes: usize, distance: u32) -> Effort {
        self.at_once(bytes, self.crossing(distance))
    }

    /// The same where each rank either sends or receives.
    fn every_other(&self, bytes: usize, distance: u32) -> Effort {
        let crossing = self.crossing(distance);
        let path = self.crowded(bytes, 0).max(self.crowded(bytes, crossing));
        Effort { path, ..self.at_once(bytes, crossing) }
    }

    /// How many messages leave each node, where all send to the rank so far ahead.
    fn crossing(&self, distance: u32) -> u32 {
        match self.nodes {
            _ if self.together == self.size => 0,
            Nodes::Mixed => self.together,
            Nodes::Plain | Nodes::InOrder => distance.min(self.together),
        }
    }

    /// All ranks exchange with the rank whose number differs in one bit.
    fn pairs(&self, bytes: usize, bit: u32) -> Effort {
        let crossing = match self.together.is_power_of_two() {
            _ if self.nodes == Nodes::Mixed => self.together,
            true if bit < self.together => 0,
            true => self.together,
            false => bit.min(self.together),
        };
        self.at_once(bytes, if self.together < self.size { crossing } else { 0 })
    }

    /// Everybody sends and receives, and so many messages leave each node.
    fn at_once(&self, bytes: usize, crossing: u32) -> Effort {
        let near = self.crowded_both_ways(bytes);
        let path = if crossing == 0 { near } else { near.max(self.crowded(bytes, crossing)) };
        Effort { path, work: self.handling(bytes) * f64::from(self.size), waits: self.waits(bytes) }
    }

    /// What the bytes add to the way of a message within a node whose sender has nothing else to do. Where cores are shared it has
    /// no core meanwhile, and does not help.
    fn moving(&self, bytes: usize) -> f64 {
        let node = &self.costs.node;
        if self.has_own_cores() { node.moving_ns(bytes) } else { node.moving_alone_ns(bytes) }
    }

    /// A message within a node whose sender takes one as well, and does not help.
    fn crowded_both_ways(&self, bytes: usize) -> f64 {
        self.crowded(bytes, 0) + self.costs.node.moving_alone_ns(bytes) - self.moving(bytes)
    }

    /// Every block goes round all ranks, and something is done with it at each.
    fn ring(&self, block: usize, then_ns: f64) -> Effort {
        let around = (self.at_once(block, 0) + self.all_do(then_ns)) * f64::from(self.size - 1);
        if self.together == self.size {
            return around;
        }
        let (network, nodes) = (&self.costs.network, self.size.div_ceil(self.together));
        let far = self.crowded(block, 1) + then_ns;
        let path = if network.is_eager(block) && self.together > 1 && self.nodes != Nodes::Mixed {
            // A block leaves a node while others are on their way; it passes the border of each node once.
            let chain = around.path + f64::from(nodes - 1) * (far - self.crowded_both_ways(block) - then_ns);
            let stream = f64::from(self.size - 1) * (self.costs.step_ns + network.moving_ns(block)) + far;
            chain.max(stream)
        } else {
            far * f64::from(self.size - 1)
        };
        Effort { path, ..around }
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
        let count = self.costs.pieces(self.link(), bytes, depth);
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
        let count = self.costs.pieces(self.link(), bytes, log2(self.size));
        let piece = bytes.div_ceil(count);
        let twice = self.holding(piece) + 2.0 * then.of_ns(piece);
        let round = self.everybody(piece, self.size / 2) + self.all_do(twice);
        round * (count - 1 + self.size.ilog2() as usize) as f64
    }

    /// Rounds of a piece along a chain of all ranks.
    fn in_pieces_along_a_chain(&self, bytes: usize, then: Work) -> Effort {
        let count = self.costs.pieces(self.link(), bytes, self.size as usize);
        let piece = bytes.div_ceil(count);
        let round = self.everybody(piece, 1) + self.all_do(then.of_ns(piece));
        let chain = round * (count + self.size as usize - 2).max(1) as f64;
        let near = self.crowded(piece, 0) + then.of_ns(piece);
        let is_eager = self.costs.network.is_eager(piece);
        if self.together == self.size || self.together == 1 || self.nodes == Nodes::Mixed || !is_eager {
            return chain;
        }
        let nodes = f64::from(self.size.div_ceil(self.together));
        let far = self.crowded(piece, 1) + then.of_ns(piece);
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
        let link = self.link();
        match (self.together < self.size, link.is_eager(bytes)) {
            (true, _) => self.costs.step_ns + bytes as f64 * self.per_byte(link, bytes),
            (false, true) => self.costs.step_ns + link.moving_ns(bytes) / 2.0,
            (false, false) => self.moving(bytes),
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
        let node = &self.costs.node;
        let (near, far) = (self.together - 1, self.size - self.together);
        let each = if node.is_eager(bytes) { node.moving_ns(bytes) / 2.0 } else { self.moving(bytes) };
        let network = bytes as f64 * self.per_byte(&self.costs.network, bytes);
        let steps = self.costs.step_ns * f64::from(self.size.saturating_sub(2));
        let moved = (each * f64::from(near.max(1) - 1)).max(network * f64::from(far.max(1) - 1));
        let one = if far > 0 { self.crowded(bytes, 1) } else { self.crowded(bytes, 0) };
        let work = self.handling(bytes) * f64::from(self.size - 1);
        Effort { path: steps + moved + one, work, waits: self.waits(bytes) }
    }

    /// Everybody sends to everybody.
    fn each_to_all(&self, bytes: usize) -> Effort {
        let (others, far) = (self.size - 1, self.size - self.together);
        let node = &self.costs.node;
        let each = 2.0 * self.costs.step_ns + node.moving_alone_ns(bytes);
        let here = each * f64::from(others.max(1) - 1) + self.crowded_both_ways(bytes);
        let crossing = f64::from(far) * f64::from(self.together);
        let network = bytes as f64 * self.per_byte(&self.costs.network, bytes) * (crossing - 1.0).max(0.0);
        let there = if far > 0 {
            network + 2.0 * self.costs.step_ns * f64::from(others - 1) + self.crowded(bytes, 1)
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
