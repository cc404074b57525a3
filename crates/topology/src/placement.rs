//! Where the ranks of a communicator sit, as far as a mapping has to know: an order of places in which
//! neighbours of the machine are neighbours, and the parts of the machine as runs of places.
//!
//! Places are counted from 0 in the order of switches, nodes, packages, NUMA nodes and caches. Ranks that
//! fill nodes in order sit each at the place of its own number.

use std::sync::Arc;

use thiserror::Error;

use crate::Level;

/// A kind of part of the machine that a job sits on, from large to small.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MachineLevel {
    /// Nodes behind one switch.
    Switch,
    /// A node: processes that share memory.
    Node,
    /// A part of a node.
    Part(Level),
}

impl MachineLevel {
    /// The name of the level, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MachineLevel::Switch => "switch",
            MachineLevel::Node => "node",
            MachineLevel::Part(Level::Package) => "package",
            MachineLevel::Part(Level::NumaNode) => "numa node",
            MachineLevel::Part(Level::L3Cache) => "L3 cache",
            MachineLevel::Part(Level::L2Cache) => "L2 cache",
            MachineLevel::Part(Level::Core) => "core",
            MachineLevel::Part(Level::Cpu) => "cpu",
        }
    }
}

/// The sizes of parts in the order of places, in ranks. Equal neighbours are kept as one run, so that a
/// machine of equal nodes takes a few bytes. No part is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    runs: Vec<Run>,
}

/// Parts of one size, side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// How many parts.
    pub parts: u32,
    /// Ranks in each.
    pub size: u32,
}

impl Sizes {
    /// `parts` parts of `size` ranks each; none where either is 0.
    #[must_use]
    pub fn equal(parts: u32, size: u32) -> Sizes {
        std::iter::repeat_n(Run { parts, size }, usize::from(parts > 0 && size > 0)).collect()
    }

    /// The runs, in order.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The size of each part, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|run| std::iter::repeat_n(run.size, run.parts as usize))
    }

    /// The first place of each part, in order.
    pub fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().scan(0, |next, size| {
            let start = *next;
            *next += u64::from(size);
            Some(start)
        })
    }

    /// How many parts.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.parts)).sum()
    }

    /// Ranks in all parts together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.parts) * u64::from(run.size)).sum()
    }

    /// The size that all parts have.
    #[must_use]
    pub fn common(&self) -> Option<u32> {
        match self.runs[..] {
            [run] => Some(run.size),
            _ => None,
        }
    }

    /// Whether each part lies in one part of `coarser`.
    #[must_use]
    pub fn refine(&self, coarser: &Sizes) -> bool {
        let mut own = self.starts().chain([self.total()]);
        self.total() == coarser.total() && coarser.starts().all(|start| own.by_ref().any(|at| at == start))
    }
}

impl FromIterator<u32> for Sizes {
    fn from_iter<T: IntoIterator<Item = u32>>(sizes: T) -> Sizes {
        sizes.into_iter().map(|size| Run { parts: 1, size }).collect()
    }
}

impl FromIterator<Run> for Sizes {
    fn from_iter<T: IntoIterator<Item = Run>>(runs: T) -> Sizes {
        let mut joined: Vec<Run> = Vec::new();
        for run in runs.into_iter().filter(|run| run.parts > 0 && run.size > 0) {
            match joined.last_mut() {
                Some(last) if last.size == run.size => last.parts += run.parts,
                _ => joined.push(run),
            }
        }
        Sizes { runs: joined }
    }
}

/// Where the ranks of a communicator sit: their order by places, and the parts of the machine, from switches
/// to caches. Clones share the long lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The rank at each place; empty where each rank sits at the place of its own number.
    ranks: Arc<[u32]>,
    /// The place of each rank; empty where `ranks` is.
    places: Arc<[u32]>,
    /// From large to small, each a refinement of the one before.
    levels: Vec<(MachineLevel, Sizes)>,
}

/// Why ranks and parts are no placement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAPlacement {
    /// No level is that of nodes.
    #[error("the parts of the machine name no nodes")]
    NoNodes,
    /// Parts that do not lie within parts of the level before, or do not come from large to small.
    #[error("the parts of level {} do not lie within those of the level above it", .0.name())]
    NotNested(MachineLevel),
    /// Not each rank sits at one place.
    #[error("the places do not hold each rank once")]
    NotAPermutation,
}

impl Placement {
    /// Ranks that fill nodes of these sizes in order.
    #[must_use]
    pub fn blocked(nodes: Sizes) -> Placement {
        Placement { ranks: Arc::default(), places: Arc::default(), levels: vec![(MachineLevel::Node, nodes)] }
    }

    /// Ranks by place, and the parts of the machine from large to small.
    ///
    /// # Errors
    /// What contradicts itself.
    pub fn new(ranks: Vec<u32>, levels: Vec<(MachineLevel, Sizes)>) -> Result<Placement, NotAPlacement> {
        if !levels.iter().any(|(level, _)| *level == MachineLevel::Node) {
            return Err(NotAPlacement::NoNodes);
        }
        for pair in levels.windows(2) {
            if pair[1].0 <= pair[0].0 || !pair[1].1.refine(&pair[0].1) {
                return Err(NotAPlacement::NotNested(pair[1].0));
            }
        }
        let mut seen = vec![false; ranks.len()];
        let all_once = ranks
            .iter()
            .all(|&rank| seen.get_mut(rank as usize).is_some_and(|seen| !std::mem::replace(seen, true)));
        let total = levels[0].1.total();
        if !all_once || (!ranks.is_empty() && ranks.len() as u64 != total) || u64::from(u32::MAX) < total {
            return Err(NotAPlacement::NotAPermutation);
        }
        let is_straight = ranks.iter().zip(0..).all(|(&rank, place)| rank == place);
        if is_straight {
            return Ok(Placement { ranks: Arc::default(), places: Arc::default(), levels });
        }
        let mut places = vec![0; ranks.len()];
        for (&rank, place) in ranks.iter().zip(0..) {
            places[rank as usize] = place;
        }
        Ok(Placement { ranks: ranks.into(), places: places.into(), levels })
    }

    /// How many ranks, and places.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.levels[0].1.total() as u32
    }

    /// Whether nobody is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether each rank sits at the place of its own number.
    #[must_use]
    pub fn is_straight(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The rank that sits at a place.
    ///
    /// # Panics
    /// Where there is no such place.
    #[must_use]
    pub fn rank(&self, place: u32) -> u32 {
        assert!(place < self.len(), "place {place} of {}", self.len());
        self.ranks.get(place as usize).copied().unwrap_or(place)
    }

    /// The ranks by place; empty where each sits at the place of its own number.
    pub(crate) fn listed(&self) -> &[u32] {
        &self.ranks
    }

    /// The place where a rank sits.
    ///
    /// # Panics
    /// Where there is no such rank.
    #[must_use]
    pub fn place(&self, rank: u32) -> u32 {
        assert!(rank < self.len(), "rank {rank} of {}", self.len());
        self.places.get(rank as usize).copied().unwrap_or(rank)
    }

    /// The sizes of the nodes.
    #[must_use]
    pub fn nodes(&self) -> &Sizes {
        let nodes = self.levels.iter().find(|(level, _)| *level == MachineLevel::Node);
        &nodes.expect("a placement has nodes").1
    }

    /// The kinds of parts that are known, from large to small.
    #[must_use]
    pub fn levels(&self) -> &[(MachineLevel, Sizes)] {
        &self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_run() {
        let sizes: Sizes = [48, 48, 0, 48, 20].into_iter().collect();
        assert_eq!(sizes.runs(), [Run { parts: 3, size: 48 }, Run { parts: 1, size: 20 }]);
        assert_eq!((sizes.parts(), sizes.total(), sizes.common()), (4, 164, None));
        assert_eq!(sizes.starts().collect::<Vec<_>>(), [0, 48, 96, 144]);
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [48, 48, 48, 20]);
        assert_eq!(Sizes::equal(3, 4).common(), Some(4));
    }

    #[test]
    fn parts_lie_within_parts() {
        let fine: Sizes = [2, 2, 3, 1].into_iter().collect();
        let of = |sizes: &[u32]| sizes.iter().copied().collect::<Sizes>();
        assert!(fine.refine(&of(&[4, 4])) && fine.refine(&of(&[8])) && fine.refine(&fine));
        assert!(!fine.refine(&of(&[3, 5])) && !fine.refine(&of(&[4])) && !of(&[8]).refine(&fine));
    }

    #[test]
    fn placements_are_checked() {
        let nodes = || (MachineLevel::Node, Sizes::equal(2, 2));
        let caches = || (MachineLevel::Part(Level::L3Cache), Sizes::equal(4, 1));
        let cyclic = Placement::new(vec![0, 2, 1, 3], vec![nodes(), caches()]).expect("sound");
        assert_eq!((cyclic.len(), cyclic.rank(1), cyclic.is_straight()), (4, 2, false));
        assert_eq!([0, 1, 2, 3].map(|rank| cyclic.place(rank)), [0, 2, 1, 3]);
        let straight = Placement::new(vec![0, 1, 2, 3], vec![nodes()]).expect("sound");
        assert_eq!(straight, Placement::blocked(Sizes::equal(2, 2)));
        assert!(straight.is_straight() && straight.rank(3) == 3);
        assert_eq!(Placement::new(vec![], vec![caches()]), Err(NotAPlacement::NoNodes));
        let wrong = Placement::new(vec![], vec![caches(), nodes()]);
        assert_eq!(wrong, Err(NotAPlacement::NotNested(MachineLevel::Node)));
        for ranks in [vec![0, 1, 2], vec![0, 1, 2, 2], vec![0, 1, 2, 4]] {
            assert_eq!(Placement::new(ranks, vec![nodes()]), Err(NotAPlacement::NotAPermutation));
        }
    }
}
