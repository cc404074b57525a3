//! Which process takes which node of a graph. A graph has no axes to cut along, so parts of the machine are
//! filled one after the other with nodes that have the most edges into what is there already, and then pairs
//! of nodes change places while that gains anything.
//!
//! Whole numbers, fixed orders, a limit of rounds: every rank computes the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::kept::Kept;
use super::level_weight;
use crate::{MachineLevel, Placement, Sizes};

/// The rank that takes each node of a graph of `nodes` nodes, so that heavy edges leave few and small parts
/// of the machine. Edges are source, destination and weight. Where nothing is gained each rank takes the node
/// of its own number. Where there are fewer nodes than ranks, whole nodes of the machine are left out first,
/// unless nothing is gained.
///
/// # Panics
/// With more nodes than ranks, or an edge to no node.
#[must_use]
pub fn map_graph(
    nodes: u32,
    edges: impl IntoIterator<Item = (u32, u32, u32)>,
    placement: &Placement,
) -> Vec<u32> {
    assert!(nodes <= placement.len(), "{nodes} nodes and {} ranks", placement.len());
    let unchanged: Vec<u32> = (0..nodes).collect();
    if nodes < 2 || placement.levels().iter().all(|(_, sizes)| sizes.parts() < 2) {
        return unchanged;
    }
    let links = Links::new(nodes, edges);
    let whole = MachineGraph::of(placement.levels(), placement.len());
    let place_of: Vec<u32> = unchanged.iter().map(|&rank| placement.place(rank)).collect();
    let before = links.cost(|node| place_of[node as usize], &whole);
    let kept = Kept::new(placement, nodes);
    let machine = MachineGraph::of(&kept.levels, nodes);
    let mut order = links.grown(&kept.levels);
    links.improve(&mut order, &machine);
    let position_of = inverse(&order);
    let after = links.cost(|node| position_of[node as usize], &machine);
    if before <= after {
        return unchanged;
    }
    position_of.iter().map(|&position| placement.rank(kept.place(position))).collect()
}

/// The position of each node in an order.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut position_of = vec![0; order.len()];
    for (&node, position) in order.iter().zip(0..) {
        position_of[node as usize] = position;
    }
    position_of
}

/// The parts that each position lies in.
struct MachineGraph {
    /// From large parts to small ones: what an edge between two of them costs, and the part of each position.
    levels: Vec<(u64, Vec<u32>)>,
}

impl MachineGraph {
    fn of(levels: &[(MachineLevel, Sizes)], positions: u32) -> MachineGraph {
        let parts = |sizes: &Sizes| -> Vec<u32> {
            let numbered = sizes.iter().zip(0..);
            numbered.flat_map(|(size, part)| std::iter::repeat_n(part, size as usize)).collect()
        };
        let levels: Vec<_> =
            levels.iter().map(|(level, sizes)| (level_weight(*level), parts(sizes))).collect();
        debug_assert!(levels.iter().all(|(_, parts)| parts.len() == positions as usize));
        MachineGraph { levels }
    }

    /// What an edge between two positions costs.
    fn distance(&self, left: u32, right: u32) -> u64 {
        let apart = self.levels.iter().find(|(_, parts)| parts[left as usize] != parts[right as usize]);
        apart.map_or(1, |(weight, _)| *weight)
    }
}

/// The edges of a graph without their direction.
struct Links {
    /// Where the list of each node ends.
    ends: Vec<usize>,
    /// Who is linked with it, and the weight both ways together.
    to: Vec<(u32, u64)>,
}

impl Links {
    fn new(nodes: u32, edges: impl IntoIterator<Item = (u32, u32, u32)>) -> Links {
        let between = edges.into_iter().filter(|(source, destination, _)| source != destination);
        let both = between.flat_map(|(source, destination, weight)| {
            assert!(
                source.max(destination) < nodes,
                "an edge from {source} to {destination} of {nodes} nodes"
            );
            [(source, destination, u64::from(weight)), (destination, source, u64::from(weight))]
        });
        let mut both: Vec<(u32, u32, u64)> = both.collect();
        both.sort_unstable();
        let (mut ends, mut to) = (vec![0; nodes as usize], Vec::with_capacity(both.len()));
        for same in both.chunk_by(|left, right| (left.0, left.1) == (right.0, right.1)) {
            to.push((same[0].1, same.iter().map(|(_, _, weight)| weight).sum()));
            ends[same[0].0 as usize] = to.len();
        }
        // Nodes without links end where the one before ends.
        let mut last = 0;
        for end in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        Links { ends, to }
    }

    fn of(&self, node: u32) -> &[(u32, u64)] {
        let start = (node as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.to[start..self.ends[node as usize]]
    }

    /// What all edges cost together, each counted at both of its ends.
    fn cost(&self, position: impl Fn(u32) -> u32, machine: &MachineGraph) -> u64 {
        let of = |node: u32| {
            let here = position(node);
            let costs =
                self.of(node).iter().map(|&(to, weight)| weight * machine.distance(here, position(to)));
            costs.sum::<u64>()
        };
        (0..self.ends.len() as u32).map(of).sum()
    }

    /// The node at each position: parts of the largest level are filled one by one, then the parts in each of
    /// them.
    fn grown(&self, levels: &[(MachineLevel, Sizes)]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.ends.len() as u32).collect();
        let mut filling = Filling::new(self);
        let mut within = Sizes::equal(1, order.len() as u32);
        for (_, sizes) in levels {
            let mut parts = sizes.iter();
            let mut start = 0;
            for size in within.iter() {
                filling.fill(&mut order[start..start + size as usize], &mut parts);
                start += size as usize;
            }
            within = sizes.clone();
        }
        order
    }

    /// Changes the places of pairs while that gains anything, and while what it costs to find them is within
    /// reason.
    fn improve(&self, order: &mut [u32], machine: &MachineGraph) {
        let mut position_of = inverse(order);
        let mut looks_left = LOOKS_MAX;
        for _ in 0..ROUNDS {
            let mut gained = false;
            for node in 0..order.len() as u32 {
                gained |= self.move_nearer(node, order, &mut position_of, machine, &mut looks_left);
                if looks_left == 0 {
                    return;
                }
            }
            if !gained {
                return;
            }
        }
    }

    /// Changes a node with the one that gains the most, of those that sit with its neighbours.
    fn move_nearer(
        &self,
        node: u32,
        order: &mut [u32],
        position_of: &mut [u32],
        machine: &MachineGraph,
        looks_left: &mut u64,
    ) -> bool {
        let here = position_of[node as usize];
        let mut best: Option<(i64, u32)> = None;
        for (_, parts) in &machine.levels {
            let part_of = |&(to, _): &(u32, u64)| parts[position_of[to as usize] as usize];
            let mut near: Vec<u32> = self.of(node).iter().map(part_of).collect();
            near.sort_unstable();
            near.dedup();
            for there in near.into_iter().filter(|&there| there != parts[here as usize]) {
                let first = parts.partition_point(|&part| part < there);
                let count = parts[first..].partition_point(|&part| part == there);
                for position in first as u32..(first + count) as u32 {
                    let other = order[position as usize];
                    let looks = (self.of(node).len() + self.of(other).len()) as u64;
                    *looks_left = looks_left.saturating_sub(looks);
                    if *looks_left == 0 {
                        return false;
                    }
                    let gain = self.gain(node, other, position_of, machine);
                    if gain > best.map_or(0, |(gain, _)| gain) {
                        best = Some((gain, position));
                    }
                }
            }
        }
        let Some((_, position)) = best else { return false };
        let other = order[position as usize];
        order.swap(here as usize, position as usize);
        (position_of[node as usize], position_of[other as usize]) = (position, here);
        true
    }

    /// What is saved when two nodes change places.
    fn gain(&self, left: u32, right: u32, position_of: &[u32], machine: &MachineGraph) -> i64 {
        let (at_left, at_right) = (position_of[left as usize], position_of[right as usize]);
        let saved = |node: u32, other: u32, from: u32, to: u32| -> i64 {
            let links = self.of(node).iter().filter(|(with, _)| *with != other);
            links
                .map(|&(with, weight)| {
                    let with = position_of[with as usize];
                    weight as i64 * (machine.distance(from, with) as i64 - machine.distance(to, with) as i64)
                })
                .sum()
        };
        saved(left, right, at_left, at_right) + saved(right, left, at_right, at_left)
    }
}

/// Parts of the machine that are filled with nodes of a region, one after the other.
struct Filling<'a> {
    links: &'a Links,
    /// Of the nodes that no part has taken yet: the weight of their links to others like them.
    open: Vec<Option<u64>>,
    /// The nodes of `open`, by the weight of their links, least first: nodes with the fewest links left make
    /// the best beginning of a part, being a corner.
    corners: BinaryHeap<Reverse<(u64, u32)>>,
    /// The weight of links into the part that is being filled, for the nodes of `near`.
    gain: Vec<u64>,
    /// Nodes with such links, those with the most first.
    near: BinaryHeap<(u64, Reverse<u32>)>,
}

impl<'a> Filling<'a> {
    fn new(links: &'a Links) -> Filling<'a> {
        let nodes = links.ends.len();
        let (corners, near) = (BinaryHeap::new(), BinaryHeap::new());
        Filling { links, open: vec![None; nodes], corners, gain: vec![0; nodes], near }
    }

    /// Reorders the nodes of a region so that each of the next parts, as many as fill it, gets nodes that are
    /// linked.
    fn fill(&mut self, region: &mut [u32], parts: &mut impl Iterator<Item = u32>) {
        region.iter().for_each(|&node| self.open[node as usize] = Some(0));
        self.corners.clear();
        for &node in region.iter() {
            let inside = self.links.of(node).iter().filter(|(to, _)| self.open[*to as usize].is_some());
            let weight = inside.map(|(_, weight)| weight).sum();
            self.open[node as usize] = Some(weight);
            self.corners.push(Reverse((weight, node)));
        }
        let mut filled = Vec::with_capacity(region.len());
        while filled.len() < region.len() {
            let Some(size) = parts.next() else { break };
            self.begin_part();
            filled.extend((0..size).map_while(|_| self.take()));
        }
        self.begin_part();
        region.copy_from_slice(&filled);
    }

    /// What counts for the next part is how much a node has in common with it alone.
    fn begin_part(&mut self) {
        for (_, Reverse(node)) in self.near.drain() {
            self.gain[node as usize] = 0;
        }
    }

    /// The next node of the part. Entries of the heaps that are out of date are passed over.
    fn take(&mut self) -> Option<u32> {
        let linked = loop {
            match self.near.pop() {
                None => break None,
                Some((gain, Reverse(node))) => {
                    if self.open[node as usize].is_some() && self.gain[node as usize] == gain {
                        break Some(node);
                    }
                }
            }
        };
        let node = match linked {
            Some(node) => node,
            None => loop {
                let Reverse((open, node)) = self.corners.pop()?;
                if self.open[node as usize] == Some(open) {
                    break node;
                }
            },
        };
        self.open[node as usize] = None;
        self.gain[node as usize] = 0;
        for &(to, weight) in self.links.of(node) {
            let Some(open) = &mut self.open[to as usize] else { continue };
            *open -= weight;
            self.corners.push(Reverse((*open, to)));
            let gain = &mut self.gain[to as usize];
            *gain += weight;
            self.near.push((*gain, Reverse(to)));
        }
        Some(node)
    }
}

/// Links that are looked at to find what gains: some hundredths of a second.
const LOOKS_MAX: u64 = 4 << 20;
const ROUNDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The weight of edges between different machine nodes, counted plainly.
    fn cut(edges: &[(u32, u32, u32)], rank_of_node: &[u32], placement: &Placement) -> u64 {
        let starts: Vec<u64> = placement.nodes().starts().collect();
        let machine_node = |rank: u32| {
            let place = (0..placement.len()).find(|&place| placement.rank(place) == rank).expect("a place");
            starts.iter().filter(|&&start| start <= u64::from(place)).count()
        };
        let differs = |&&(from, to, _): &&(u32, u32, u32)| {
            machine_node(rank_of_node[from as usize]) != machine_node(rank_of_node[to as usize])
        };
        edges.iter().filter(differs).map(|&(_, _, weight)| u64::from(weight)).sum()
    }

    fn ring(nodes: u32) -> Vec<(u32, u32, u32)> {
        (0..nodes)
            .flat_map(|node| [(node, (node + 1) % nodes, 1), (node, (node + nodes - 1) % nodes, 1)])
            .collect()
    }

    fn cyclic(nodes: u32, size: u32) -> Placement {
        let ranks = (0..nodes).flat_map(|node| (0..size).map(move |local| local * nodes + node)).collect();
        Placement::new(ranks, vec![(MachineLevel::Node, Sizes::equal(nodes, size))]).expect("sound")
    }

    #[test]
    fn a_ring_dealt_out_in_turn_is_put_together() {
        let placement = cyclic(4, 8);
        let ranks = map_graph(32, ring(32), &placement);
        assert_eq!(cut(&ring(32), &(0..32).collect::<Vec<_>>(), &placement), 64);
        assert_eq!(cut(&ring(32), &ranks, &placement), 8, "two edges out of each node, both ways");
    }

    #[test]
    fn what_sits_well_stays() {
        let placement = Placement::blocked(Sizes::equal(4, 8));
        assert_eq!(map_graph(32, ring(32), &placement), (0..32).collect::<Vec<_>>());
        assert_eq!(map_graph(0, [], &placement), []);
        let one_node = Placement::blocked(Sizes::equal(1, 8));
        assert_eq!(map_graph(8, ring(8), &one_node), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn a_small_graph_leaves_machine_nodes_out() {
        let placement = cyclic(4, 4);
        let ranks = map_graph(8, ring(8), &placement);
        assert_eq!(cut(&ring(8), &ranks, &placement), 4, "two of four nodes are used");
    }

    #[test]
    fn what_it_costs_is_bounded() {
        // Everybody talks to everybody: nothing can be gained, and each look is at all.
        let complete = (0..512).flat_map(|node| (0..512).map(move |to| (node, to, 1)));
        assert_eq!(map_graph(512, complete, &cyclic(8, 64)), (0..512).collect::<Vec<_>>());
        // Many parts within few: each region is looked at alone.
        let levels =
            vec![(MachineLevel::Switch, Sizes::equal(1024, 64)), (MachineLevel::Node, Sizes::equal(8192, 8))];
        let placement = Placement::new(Vec::new(), levels).expect("sound");
        assert_eq!(map_graph(65536, ring(65536), &placement).len(), 65536);
    }

    #[test]
    fn heavy_edges_stay_inside() {
        // Pairs (0, 7), (1, 6) … exchange much; the ring little.
        let heavy = (0..8).map(|node| (node, 7 - node, 100));
        let edges: Vec<_> = ring(8).into_iter().chain(heavy).collect();
        let placement = Placement::blocked(Sizes::equal(4, 2));
        let ranks = map_graph(8, edges.iter().copied(), &placement);
        for node in 0..8 {
            assert_eq!(ranks[node] / 2, ranks[7 - node] / 2, "{ranks:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_graph_gets_each_rank_at_most_once_and_no_worse_cut(
            edges in proptest::collection::vec((0u32..24, 0u32..24, 1u32..9), 0..90),
            nodes in 24u32..=30,
            machine in 1u32..=6,
        ) {
            let placement = cyclic(machine, 30 / machine);
            let nodes = nodes.min(placement.len());
            let edges: Vec<_> = edges.into_iter().filter(|edge| edge.0.max(edge.1) < nodes).collect();
            let ranks = map_graph(nodes, edges.iter().copied(), &placement);
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len(), nodes as usize);
            prop_assert!(sorted.iter().all(|&rank| rank < placement.len()));
            let unchanged: Vec<u32> = (0..nodes).collect();
            prop_assert!(cut(&edges, &ranks, &placement) <= cut(&edges, &unchanged, &placement));
            prop_assert_eq!(map_graph(nodes, edges.iter().copied(), &placement), ranks);
        }
    }
}
