//! What single steps of schedules cost: a message, an exchange, a tree, a ring.

use super::{CostModel, ModelLevel, PredictedCost, RankPlacement};
use crate::combining::COMBINED_BY_ALL_BYTES_MAX;
use crate::costs::{Link, Work};
use crate::shape::log2;

impl<'a> CostModel<'a> {
    /// Whether a reduction can go by node: the order of operands is kept where parts hold consecutive ranks.
    pub(super) fn goes_by_node(&self, commutative: bool) -> bool {
        self.seating == RankPlacement::InOrder || self.seating == RankPlacement::Mixed && commutative
    }

    /// Whether an allreduce is so short that it does not go by parts of a node: within a node such ones go by
    /// a collective segment (decisions/0004), which combines operands in the order of the algorithms without
    /// parts, and so each gives the same bits.
    pub(super) fn fits_a_segment(&self, bytes: usize) -> bool {
        !self.has_nodes() && bytes * self.size as usize <= COMBINED_BY_ALL_BYTES_MAX
    }

    /// The rounds of whatever doubles: ceil(log2 p).
    pub(super) fn levels(&self) -> std::ops::Range<u32> {
        0..u32::BITS - (self.size - 1).leading_zeros()
    }

    /// 0 for a tree that has no ranks between its top and its leaves.
    pub(super) fn inner(&self) -> f64 {
        f64::from(u32::from(self.size > 2))
    }

    pub(super) fn slice(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.size as usize)
    }

    /// The link that the farthest ranks have between them.
    pub(super) fn farthest(&self) -> &'a Link {
        if self.has_nodes() { &self.costs.network } else { self.near() }
    }

    /// The link that the farthest ranks of a node have between them.
    pub(super) fn near(&self) -> &'a Link {
        self.model_levels[0].map_or(&self.costs.node, |level| level.link)
    }

    /// The link between ranks of a node that are so far apart, counted from the beginning of each part.
    fn near_at(&self, distance: u32) -> &'a Link {
        let is_apart =
            |level: &ModelLevel<'a>| level.together <= distance || self.seating == RankPlacement::Mixed;
        self.model_levels().find(is_apart).map_or(&self.costs.node, |level| level.link)
    }

    /// The widest link of those between all ranks of a node and those whose number differs in one bit.
    fn near_of_pairs(&self, bit: u32) -> &'a Link {
        let is_apart = |level: &ModelLevel<'a>| {
            level.together <= bit || !level.together.is_power_of_two() || self.seating == RankPlacement::Mixed
        };
        self.model_levels().find(is_apart).map_or(&self.costs.node, |level| level.link)
    }

    /// How many other ranks of a node a rank has over which link.
    fn others_near(&self) -> impl Iterator<Item = (f64, &'a Link)> + use<'a> {
        let (model_levels, costs) = (self.model_levels, self.costs);
        let links = model_levels.into_iter().flatten().map(|level| (level.together, level.link));
        let links = links.chain([(1, &costs.node)]);
        links.scan(self.together, |wider, (of_part, link)| {
            let others = *wider - of_part.min(*wider);
            *wider = of_part.min(*wider);
            Some((f64::from(others), link))
        })
    }

    /// How often the way from the first rank of a node to the last one, along all others, goes over which
    /// link.
    fn hops_near(&self) -> impl Iterator<Item = (f64, &'a Link)> + use<'a> {
        let (model_levels, costs, together) = (self.model_levels, self.costs, self.together);
        let links = model_levels.into_iter().flatten().map(|level| (level.together, level.link));
        let links = links.chain([(1, &costs.node)]);
        links.scan(1, move |wider, (of_part, link)| {
            let parts = together.div_ceil(of_part).max(*wider);
            let hops = parts - *wider;
            *wider = parts;
            Some((f64::from(hops), link))
        })
    }

    /// What a core does for a message, at both ends.
    pub(super) fn handling(&self, bytes: usize) -> f64 {
        2.0 * self.costs.step_ns + self.costs.node.moving_alone_ns(bytes)
    }

    /// How often a rank waits for a message so long: where it is asked for, its sender waits for the answer
    /// as well, and its core has gone to somebody else where cores are shared.
    pub(super) fn waits(&self, bytes: usize) -> f64 {
        if self.costs.node.is_eager(bytes) { 1.0 } else { 2.0 }
    }

    /// One message between ranks so far apart, counted from the first rank of a part. Not for a chain through
    /// all ranks, whose hops cross borders: see [`CostModel::hops_near`].
    pub(super) fn message(&self, bytes: usize, distance: u32) -> f64 {
        let is_near = distance < self.together && self.seating != RankPlacement::Mixed || !self.has_nodes();
        if is_near { self.near_message(bytes, self.near_at(distance)) } else { self.far_message(bytes, 1) }
    }

    /// A message that stays on its node, and whose sender has nothing else to do.
    fn near_message(&self, bytes: usize, link: &Link) -> f64 {
        self.ends_and_way(bytes, link) + self.moving(bytes, link)
    }

    /// A message that stays on its node, and whose sender receives one at the same time, so that it does not
    /// help with the copy.
    pub(super) fn near_message_both_ways(&self, bytes: usize, link: &Link) -> f64 {
        self.ends_and_way(bytes, link) + link.moving_alone_ns(bytes)
    }

    /// A message to another node, where so many leave each node at a time.
    pub(super) fn far_message(&self, bytes: usize, crossing: u32) -> f64 {
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
    pub(super) fn everybody(&self, bytes: usize, distance: u32) -> PredictedCost {
        self.at_once(bytes, self.near(), self.crossing(distance))
    }

    /// Every other rank sends to the rank so far ahead, and each rank either sends or receives.
    fn every_other(&self, bytes: usize, distance: u32) -> PredictedCost {
        let crossing = self.crossing(distance);
        let path = self.near_message(bytes, self.near());
        let path = if crossing == 0 { path } else { path.max(self.far_message(bytes, crossing)) };
        PredictedCost { path, ..self.at_once(bytes, self.near(), crossing) }
    }

    /// How many messages leave each node, where all send to the rank so far ahead.
    pub(super) fn crossing(&self, distance: u32) -> u32 {
        match self.seating {
            _ if !self.has_nodes() => 0,
            RankPlacement::Mixed => self.together,
            RankPlacement::Plain | RankPlacement::InOrder => distance.min(self.together),
        }
    }

    /// All ranks exchange with the rank whose number differs in one bit.
    pub(super) fn pairs(&self, bytes: usize, bit: u32) -> PredictedCost {
        let crossing = match self.together.is_power_of_two() {
            _ if !self.has_nodes() => 0,
            _ if self.seating == RankPlacement::Mixed => self.together,
            true if bit < self.together => 0,
            true => self.together,
            false => bit.min(self.together),
        };
        self.at_once(bytes, self.near_of_pairs(bit), crossing)
    }

    /// Everybody sends and receives, over that link within a node, and so many messages leave each node.
    fn at_once(&self, bytes: usize, near: &Link, crossing: u32) -> PredictedCost {
        let near = self.near_message_both_ways(bytes, near);
        let path = if crossing == 0 { near } else { near.max(self.far_message(bytes, crossing)) };
        PredictedCost { path, work: self.handling(bytes) * f64::from(self.size), waits: self.waits(bytes) }
    }

    /// What the bytes add to the way of a message within a node whose sender has nothing else to do. Where
    /// cores are shared it has no core meanwhile, and does not help.
    fn moving(&self, bytes: usize, link: &Link) -> f64 {
        if self.has_own_cores() { link.moving_ns(bytes) } else { link.moving_alone_ns(bytes) }
    }

    /// Every block goes round all ranks, and something is done with it at each.
    pub(super) fn ring(&self, block: usize, then_ns: f64) -> PredictedCost {
        let around = (self.at_once(block, self.near(), 0) + self.all_do(then_ns)) * f64::from(self.size - 1);
        if !self.has_nodes() {
            return PredictedCost { path: around.path.min(self.ring_of_parts(block, then_ns)), ..around };
        }
        let (network, nodes) = (&self.costs.network, self.size.div_ceil(self.together));
        let far = self.far_message(block, 1) + then_ns;
        let path = if network.is_eager(block) && self.together > 1 && self.seating != RankPlacement::Mixed {
            // A block leaves a node while others are on their way; it passes the border of each node once.
            let near = self.near_message_both_ways(block, self.near()) + then_ns;
            let chain = around.path + f64::from(nodes - 1) * (far - near);
            let stream = f64::from(self.size - 1) * (self.costs.step_ns + network.moving_ns(block)) + far;
            chain.max(stream)
        } else {
            far * f64::from(self.size - 1)
        };
        PredictedCost { path, ..around }
    }

    /// A ring of blocks that are sent at once, within a node: a block passes wide links seldom, while others
    /// are on their way.
    fn ring_of_parts(&self, block: usize, then_ns: f64) -> f64 {
        if !self.near().is_eager(block) || self.seating == RankPlacement::Mixed {
            return f64::INFINITY;
        }
        let hop = |link: &Link| self.near_message_both_ways(block, link) + then_ns;
        let chain: f64 = self.hops_near().map(|(hops, link)| hops * hop(link)).sum();
        chain.max(f64::from(self.size - 1) * self.between_blocks(block, then_ns) + self.near().latency_ns)
    }

    /// The time between two blocks that are sent at once where ranks in a row pass them on, within a node:
    /// what the ranks at the widest border do for each. Half of the work for bytes is done at each end.
    fn between_blocks(&self, block: usize, then_ns: f64) -> f64 {
        let moving = (self.near().moving_ns(block) + self.costs.node.moving_ns(block)) / 2.0;
        2.0 * self.costs.step_ns + moving + then_ns
    }

    /// What each has doubles in each round, whatever the number of ranks.
    pub(super) fn doubling(&self, block: usize) -> PredictedCost {
        let round = |level: u32| {
            let distance = 1u32 << level;
            self.everybody(block * distance.min(self.size - distance) as usize, distance)
        };
        self.levels().map(round).sum()
    }

    /// The rounds of a circulant graph: as those of what doubles, and a message in two chunks where it passes
    /// the last rank's block.
    pub(super) fn around(&self, block: usize, then: Work) -> PredictedCost {
        let (mut known, mut all) = (self.size, PredictedCost::default());
        while known > 1 {
            let skip = known.div_ceil(2);
            let bytes = block * (known - skip) as usize;
            let chunk = PredictedCost { path: 0.5 * self.costs.step_ns, ..PredictedCost::default() };
            all = all + self.everybody(bytes, skip) + chunk + self.all_do(then.of_ns(bytes));
            known = skip;
        }
        all
    }

    /// m - 1 + ceil(log2 p) rounds of a chunk round a circulant graph.
    pub(super) fn in_chunks_around(&self, bytes: usize, then: Work) -> PredictedCost {
        let depth = log2(self.size);
        let count = self.costs.chunks(self.farthest(), bytes, depth);
        let chunk = bytes.div_ceil(count);
        // The first chunk finds ranks that have nothing to do yet.
        let (mut skip, mut first, mut phase) =
            (self.size, PredictedCost::default(), PredictedCost::default());
        while skip > 1 {
            skip = skip.div_ceil(2);
            let then = self.all_do(then.of_ns(chunk));
            first = first + self.every_other(chunk, skip) + then;
            phase = phase + self.everybody(chunk, skip) + then;
        }
        first + phase * ((count - 1) as f64 / depth.max(1) as f64)
    }

    /// Rounds of a chunk down a binary tree: in each a rank sends two.
    pub(super) fn in_chunks_down_a_tree(&self, bytes: usize, then: Work) -> PredictedCost {
        let count = self.costs.chunks(self.farthest(), bytes, log2(self.size));
        let chunk = bytes.div_ceil(count);
        let twice = self.holding(chunk) + 2.0 * then.of_ns(chunk);
        let round = self.everybody(chunk, self.size / 2) + self.all_do(twice);
        round * (count - 1 + self.size.ilog2() as usize) as f64
    }

    /// Rounds of a chunk along a chain of all ranks.
    pub(super) fn in_chunks_along_a_chain(&self, bytes: usize, then: Work) -> PredictedCost {
        let count = self.costs.chunks(self.farthest(), bytes, self.size as usize);
        let chunk = bytes.div_ceil(count);
        let round = self.everybody(chunk, 1) + self.all_do(then.of_ns(chunk));
        let chain = round * (count + self.size as usize - 2).max(1) as f64;
        let near = self.near_message(chunk, self.near()) + then.of_ns(chunk);
        let is_eager = self.costs.network.is_eager(chunk);
        if !self.has_nodes() && self.seating == RankPlacement::InOrder && self.near().is_eager(chunk) {
            let then_ns = then.of_ns(chunk);
            let hop = |link: &Link| self.near_message(chunk, link) + then_ns;
            let first: f64 = self.hops_near().map(|(hops, link)| hops * hop(link)).sum();
            let path = first + (count - 1) as f64 * self.between_blocks(chunk, then_ns);
            return PredictedCost { path, ..chain };
        }
        if !self.has_nodes() || self.together == 1 || self.seating == RankPlacement::Mixed || !is_eager {
            return chain;
        }
        let nodes = f64::from(self.size.div_ceil(self.together));
        let far = self.far_message(chunk, 1) + then.of_ns(chunk);
        let stream = near.max(self.costs.step_ns + self.costs.network.moving_ns(chunk));
        let path = (f64::from(self.size) - nodes) * near + (nodes - 1.0) * far + (count - 1) as f64 * stream;
        PredictedCost { path, ..chain }
    }

    /// All bytes go over each edge of a binomial tree; something is done with them at each receiver.
    pub(super) fn tree(&self, bytes: usize, then_ns: f64) -> PredictedCost {
        let depth = self.size.ilog2();
        let chain: f64 = (0..depth).map(|level| self.message(bytes, 1u32 << level) + then_ns).sum();
        // Where p is no power of two, the top has one child more than the tree is deep.
        let wait = f64::from(self.levels().end - depth) * (self.holding(bytes) + then_ns);
        let others = f64::from(self.size - 1);
        let work = (self.handling(bytes) + then_ns) * others;
        PredictedCost { path: chain + wait, work, waits: self.waits(bytes) }
    }

    /// How long a message keeps its sender from the next one.
    pub(super) fn holding(&self, bytes: usize) -> f64 {
        let link = self.farthest();
        match (self.has_nodes(), link.is_eager(bytes)) {
            (true, _) => self.costs.step_ns + bytes as f64 * self.per_byte(link, bytes),
            (false, true) => self.costs.step_ns + link.moving_ns(bytes) / 2.0,
            (false, false) => self.moving(bytes, link),
        }
    }

    /// Each edge of a binomial tree has the blocks of all ranks behind it.
    pub(super) fn tree_of_blocks(&self, block: usize) -> PredictedCost {
        let edge = |level: u32| {
            let distance = 1u32 << level;
            let bytes = block * distance.min(self.size - distance) as usize;
            let edges = f64::from(self.size >> (level + 1));
            PredictedCost {
                path: self.message(bytes, distance),
                work: self.handling(bytes) * edges,
                waits: 0.0,
            }
        };
        let edges: PredictedCost = self.levels().map(edge).sum();
        // Where p is no power of two, the top has one child more than the tree is deep.
        let beyond = f64::from(self.levels().end - self.size.ilog2());
        let saved = beyond * (self.message(0, self.size / 2) - self.costs.step_ns);
        PredictedCost { path: edges.path - saved, waits: self.waits(block), ..edges }
    }

    /// One rank sends to all others, or receives from them.
    pub(super) fn fan(&self, bytes: usize) -> PredictedCost {
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
        PredictedCost { path: steps + moved + one, work, waits: self.waits(bytes) }
    }

    /// Everybody sends to everybody.
    pub(super) fn each_to_all(&self, bytes: usize) -> PredictedCost {
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
        PredictedCost { path: here.max(there), work, waits: self.waits(bytes) }
    }

    /// The ranks beyond a power of two give what they have, and get the result.
    pub(super) fn extras(&self, bytes: usize) -> PredictedCost {
        if self.size.is_power_of_two() {
            return PredictedCost::default();
        }
        let combine = self.costs.combine.of_ns(bytes);
        let core = 1 << self.size.ilog2();
        // Where they are few, the others' first rounds hide that some begin later.
        let ways = if (self.size - core) * 4 <= core { 1.0 } else { 2.0 };
        let extras = f64::from(self.size - core);
        let path = ways * self.message(bytes, 1) + combine;
        PredictedCost { path, work: (2.0 * self.handling(bytes) + combine) * extras, waits: 2.0 }
    }

    /// Everybody copies so many bytes.
    pub(super) fn copies(&self, bytes: usize) -> PredictedCost {
        self.all_do(self.costs.copy.of_ns(bytes))
    }

    /// Everybody does something that takes so long.
    pub(super) fn all_do(&self, ns: f64) -> PredictedCost {
        PredictedCost { path: ns, work: ns * f64::from(self.size), waits: 0.0 }
    }
}
