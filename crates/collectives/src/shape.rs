//! What a schedule is made for: a place in a group, and an operator.

use std::sync::Arc;

use messaging::Rank;

use crate::choice::{BUILT_IN, TuningConfig};
use crate::costs::{Costs, HierarchyLevel, Link};
use crate::hierarchy::Hierarchy;

/// A rank's place among the ranks of a collective operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    rank: Rank,
    size: u32,
    cores: Cores,
    /// Ranks on each node, where nothing else is known of nodes.
    together: u32,
    /// What lies between any two ranks of a node, where that is alike for all.
    apart: Option<HierarchyLevel>,
    hierarchy: Option<Arc<Hierarchy>>,
    guide: &'static TuningConfig,
    /// Whether what is asked for is a part of another operation.
    is_part: bool,
}

/// What a rank that waits keeps others from. It must be told alike at all ranks, since it decides which
/// algorithm serves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Cores {
    /// From nothing: each rank has a core of its own, and a round of messages costs the way of a message.
    #[default]
    Own,
    /// From running: ranks take turns on fewer cores, and a round costs as many turns as ranks share a core.
    Shared,
}

/// What a schedule must know of a reduction: nothing of what it computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operator {
    /// Length of one packed element; data is never cut inside an element.
    pub element_bytes: usize,
    /// Whether a op b is b op a.
    pub commutative: bool,
}

impl Shape {
    /// Rank `rank` of `size`, on a core of its own, all on one node.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn new(rank: Rank, size: u32) -> Shape {
        assert!(rank.0 < size, "rank {} is not among {size} ranks", rank.0);
        let (cores, guide) = (Cores::Own, &BUILT_IN);
        Shape { rank, size, cores, together: size, apart: None, hierarchy: None, guide, is_part: false }
    }

    /// This place, where the ranks have such cores as `cores` says. Told alike at all ranks.
    #[must_use]
    pub fn on(self, cores: Cores) -> Shape {
        Shape { cores, ..self }
    }

    /// This place, where the ranks fill `nodes` nodes evenly, in order. Give as many nodes as ranks where it
    /// is not known which ranks share a node. Told alike at all ranks.
    #[must_use]
    pub fn over_nodes(self, nodes: u32) -> Shape {
        Shape { together: self.size.div_ceil(nodes.clamp(1, self.size)), ..self }
    }

    /// This place, where algorithms are chosen by `guide`. Told alike at all ranks.
    #[must_use]
    pub fn guided_by(self, guide: &'static TuningConfig) -> Shape {
        Shape { guide, ..self }
    }

    /// The place of another rank among the same ones.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn of(&self, rank: Rank) -> Shape {
        assert!(rank.0 < self.size, "rank {} is not among {} ranks", rank.0, self.size);
        Shape { rank, ..self.clone() }
    }

    /// This place, where `hierarchy` says which ranks sit together. Either all ranks are told of the same
    /// hierarchy, or none of any. [`Hierarchy::counting`] says which parts of nodes count.
    ///
    /// # Panics
    /// If `hierarchy` has another number of ranks.
    #[must_use]
    pub fn nested(self, hierarchy: Arc<Hierarchy>) -> Shape {
        assert_eq!(hierarchy.size(), self.size, "places for another number of ranks");
        let together = self.size.div_ceil(hierarchy.nodes());
        Shape {
            hierarchy: Some(hierarchy).filter(|hierarchy| hierarchy.widest().is_some()),
            together,
            ..self
        }
    }

    /// Which ranks sit together, where that is known.
    #[must_use]
    pub fn hierarchy(&self) -> Option<&Hierarchy> {
        self.hierarchy.as_deref()
    }

    /// This place, where no hierarchy says which ranks sit together.
    pub(crate) fn flat(&self) -> Shape {
        Shape { hierarchy: None, ..self.clone() }
    }

    /// A place among the ranks of one part, for a part of this operation.
    pub(crate) fn within(&self, rank: Rank, size: u32, hierarchy: Option<Hierarchy>) -> Shape {
        let shape = Shape::new(rank, size).on(self.cores).guided_by(self.guide);
        Shape { is_part: true, hierarchy: hierarchy.map(Arc::new), ..shape }
    }

    /// A place among ranks of which each sits in another part, for a part of this operation.
    pub(crate) fn across(&self, rank: Rank, parts: u32, border: HierarchyLevel) -> Shape {
        let shape = self.within(rank, parts, None);
        match border {
            HierarchyLevel::Node => shape.over_nodes(parts),
            _ => Shape { apart: Some(border), ..shape },
        }
    }

    /// Whether what is asked for is a part of another operation, so that what is forced does not concern it.
    pub(crate) fn is_part(&self) -> bool {
        self.is_part
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks, at least 1.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What cores the ranks have.
    #[must_use]
    pub fn cores(&self) -> Cores {
        self.cores
    }

    /// On how many nodes the ranks sit.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.hierarchy().map_or_else(|| self.size.div_ceil(self.together), Hierarchy::nodes)
    }

    /// The node of a rank.
    #[must_use]
    pub fn node_of(&self, rank: u32) -> u32 {
        self.hierarchy().map_or(rank / self.together, |hierarchy| hierarchy.node(Rank(rank)))
    }

    /// What lies between two ranks; nothing within the smallest parts that are known.
    pub(crate) fn border(&self, one: u32, other: u32) -> Option<HierarchyLevel> {
        match self.hierarchy() {
            Some(hierarchy) => hierarchy.border(Rank(one), Rank(other)),
            None if one / self.together != other / self.together => Some(HierarchyLevel::Node),
            None => self.apart,
        }
    }

    /// What lies between the farthest ranks.
    fn widest(&self) -> Option<HierarchyLevel> {
        match self.hierarchy() {
            Some(hierarchy) => hierarchy.widest(),
            None if self.together < self.size => Some(HierarchyLevel::Node),
            None => self.apart,
        }
    }

    /// The link that takes longest of those between the ranks.
    pub(crate) fn slowest_link(&self) -> &'static Link {
        let costs = self.costs();
        self.widest().map_or(&costs.node, |border| costs.over(border))
    }

    /// What things take.
    pub(crate) fn costs(&self) -> &'static Costs {
        &self.guide.costs
    }

    /// What lies between any two ranks of a node, where nothing else is known of them.
    pub(crate) fn apart(&self) -> Option<HierarchyLevel> {
        self.apart
    }

    /// How many ranks a node has, about.
    #[must_use]
    pub(crate) fn ranks_of_node(&self) -> u32 {
        self.together
    }

    /// By what algorithms are chosen.
    #[must_use]
    pub fn guide(&self) -> &'static TuningConfig {
        self.guide
    }

    /// All ranks but this one, beginning behind it, so that not all turn to the same one first.
    pub(crate) fn others(&self) -> impl Iterator<Item = Rank> {
        let (rank, size) = (self.rank.0, self.size);
        (1..size).map(move |steps| Rank(around(rank, steps, size)))
    }

    /// The rank `steps` places further round the ring; `steps` is at most the number of ranks.
    pub(crate) fn ahead(&self, steps: u32) -> Rank {
        Rank(around(self.rank.0, steps, self.size))
    }

    /// The rank `steps` places back on the ring; `steps` is at most the number of ranks.
    pub(crate) fn behind(&self, steps: u32) -> Rank {
        Rank(back(self.rank.0, steps, self.size))
    }
}

/// The largest power of two of ranks. The first `extras` pairs of ranks each act as one member of the core:
/// the odd rank speaks for both, the even rank is its extra rank. So numbers in the core are in the order of
/// the ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    /// Members of the core.
    pub size: u32,
    /// Extra ranks, which are in no round of the core.
    pub extras: u32,
}

/// What a rank is to the core.
pub(crate) enum Part {
    /// Sends its contribution to that rank and receives the result from it.
    Extra(Rank),
    /// Has that number in the core, and perhaps an extra rank.
    Member(u32, Option<Rank>),
}

impl Core {
    pub(crate) fn new(ranks: u32) -> Core {
        let size = 1 << ranks.ilog2();
        Core { size, extras: ranks - size }
    }

    pub(crate) fn part(self, rank: Rank) -> Part {
        match rank.0 {
            rank if rank >= 2 * self.extras => Part::Member(rank - self.extras, None),
            rank if rank % 2 == 0 => Part::Extra(Rank(rank + 1)),
            rank => Part::Member(rank / 2, Some(Rank(rank - 1))),
        }
    }

    pub(crate) fn rank(self, number: u32) -> Rank {
        Rank(if number < self.extras { 2 * number + 1 } else { number + self.extras })
    }
}

/// log2 of the number of ranks, rounded up: the rounds in which all can have heard of all.
pub(crate) fn log2(size: u32) -> usize {
    (u32::BITS - (size - 1).leading_zeros()) as usize
}

/// `place + steps` on a ring of `size` places.
pub(crate) fn around(place: u32, steps: u32, size: u32) -> u32 {
    ((u64::from(place) + u64::from(steps)) % u64::from(size)) as u32
}

/// `place - steps` on a ring of `size` places; `steps` is at most `size`.
pub(crate) fn back(place: u32, steps: u32, size: u32) -> u32 {
    around(place, size - steps, size)
}

/// The powers of two below `size`, ascending: the distances of a dissemination.
pub(crate) fn distances(size: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..log2(size)).map(|bit| 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_close() {
        let shape = Shape::new(Rank(4), 5);
        assert_eq!((shape.ahead(1), shape.ahead(5)), (Rank(0), Rank(4)));
        assert_eq!((shape.behind(4), shape.behind(5)), (Rank(0), Rank(4)));
        assert_eq!(back(0, 1, u32::MAX), u32::MAX - 1);
    }

    #[test]
    fn distances_are_the_powers_below_the_size() {
        for (size, expected) in [(1, &[][..]), (2, &[1]), (3, &[1, 2]), (8, &[1, 2, 4]), (9, &[1, 2, 4, 8])] {
            assert_eq!(distances(size).collect::<Vec<_>>(), expected, "{size} ranks");
        }
    }
}
