//! Which ranks sit together: nodes, and parts of nodes within them.
//!
//! Ranks are seen in the order of *places*, in which those of a node stand side by side, and within it those of each of
//! its parts. So a group of ranks is a run of places, and a million ranks on equal nodes in order are a few numbers.

use messaging::Rank;

use crate::shape::Shape;

/// Nodes and their parts, the same as seen by all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nesting {
    size: u32,
    /// The rank at each place; empty where each rank stands at the place of its own number.
    ranks: Vec<u32>,
    /// The place of each rank; empty where that is.
    places: Vec<u32>,
    /// From large to small: all together, the nodes, perhaps parts of nodes, each rank alone.
    levels: Vec<Level>,
    /// Whether all sit on one node, and what are nodes here are its packages.
    is_of_packages: bool,
}

/// Groups of one size, side by side in the order of places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// How many groups.
    pub groups: u32,
    /// Ranks in each.
    pub size: u32,
}

/// The groups of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Level(Vec<Stretch>);

/// A run, and where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    place: u32,
    group: u32,
    run: Run,
}

/// A run of places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    /// Its number among those of its level.
    pub number: u32,
    pub first: u32,
    pub end: u32,
}

impl Group {
    pub(crate) fn size(self) -> u32 {
        self.end - self.first
    }

    fn holds(self, place: u32) -> bool {
        self.first <= place && place < self.end
    }
}

impl Level {
    fn of(runs: impl IntoIterator<Item = Run>) -> Level {
        let (mut place, mut group) = (0, 0);
        let mut stretches: Vec<Stretch> = Vec::new();
        for run in runs.into_iter().filter(|run| run.groups > 0 && run.size > 0) {
            match stretches.last_mut() {
                Some(last) if last.run.size == run.size => last.run.groups += run.groups,
                _ => stretches.push(Stretch { place, group, run }),
            }
            place += run.groups * run.size;
            group += run.groups;
        }
        Level(stretches)
    }

    fn groups(&self) -> u32 {
        self.0.last().map_or(0, |last| last.group + last.run.groups)
    }

    fn group(&self, number: u32) -> Group {
        let Stretch { place, group, run } = self.0[self.0.partition_point(|at| at.group <= number) - 1];
        let first = place + (number - group) * run.size;
        Group { number, first, end: first + run.size }
    }

    fn group_at(&self, place: u32) -> Group {
        let at = self.0[self.0.partition_point(|at| at.place <= place) - 1];
        self.group(at.group + (place - at.place) / at.run.size)
    }

    fn all(&self) -> impl Iterator<Item = Group> {
        (0..self.groups()).map(|number| self.group(number))
    }

    /// Whether each group lies within one of `coarser`.
    fn refines(&self, coarser: &Level) -> bool {
        self.all().all(|group| group.end <= coarser.group_at(group.first).end)
    }
}

impl Nesting {
    /// The ranks in the order of their places, or nothing where each stands at the place of its own number; the nodes in
    /// that order, and then parts of nodes, from large to small. None where that contradicts itself.
    #[must_use]
    pub fn new(ranks: &[u32], nodes: &[Run], parts: &[Vec<Run>]) -> Option<Nesting> {
        let total =
            |runs: &[Run]| runs.iter().map(|run| u64::from(run.groups) * u64::from(run.size)).sum::<u64>();
        let size = u32::try_from(total(nodes)).ok().filter(|&size| size > 0)?;
        let whole = |count: u32, size: u32| Level::of([Run { groups: count, size }]);
        let mut levels = vec![whole(1, size), Level::of(nodes.iter().copied())];
        for runs in parts {
            let level = Level::of(runs.iter().copied());
            if total(runs) != u64::from(size) || !level.refines(&levels[levels.len() - 1]) {
                return None;
            }
            if level != levels[levels.len() - 1] && level.groups() < size {
                levels.push(level);
            }
        }
        levels.push(whole(size, 1));
        let is_straight = ranks.iter().zip(0..).all(|(&rank, place)| rank == place);
        if is_straight && (ranks.is_empty() || ranks.len() == size as usize) {
            return Some(Nesting {
                size,
                ranks: Vec::new(),
                places: Vec::new(),
                levels,
                is_of_packages: false,
            });
        }
        let places = inverse(ranks).filter(|places| places.len() == size as usize)?;
        Some(Nesting { size, ranks: ranks.to_vec(), places, levels, is_of_packages: false })
    }

    /// The same for ranks of one node, where what was called nodes are its packages.
    #[must_use]
    pub fn of_packages(self) -> Nesting {
        Nesting { is_of_packages: true, ..self }
    }

    /// Whether it is about the packages of one node.
    #[must_use]
    pub fn is_of_packages(&self) -> bool {
        self.is_of_packages
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.levels[NODES].groups()
    }

    /// Ranks of the node that has the fewest.
    #[must_use]
    pub fn smallest_node(&self) -> u32 {
        self.levels[NODES].0.iter().map(|stretch| stretch.run.size).min().unwrap_or(1)
    }

    /// Whether each rank stands at the place of its own number: then nodes, and their parts, hold consecutive ranks.
    #[must_use]
    pub fn is_straight(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The number of the node that a rank sits on.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn node(&self, rank: Rank) -> u32 {
        self.node_at(self.place(rank)).number
    }

    pub(crate) fn rank(&self, place: u32) -> Rank {
        Rank(self.ranks.get(place as usize).copied().unwrap_or(place))
    }

    pub(crate) fn place(&self, rank: Rank) -> u32 {
        assert!(rank.0 < self.size, "rank {} is not among {} ranks", rank.0, self.size);
        self.places.get(rank.0 as usize).copied().unwrap_or(rank.0)
    }

    pub(crate) fn node_at(&self, place: u32) -> Group {
        self.levels[NODES].group_at(place)
    }

    pub(crate) fn node_of_number(&self, number: u32) -> Group {
        self.levels[NODES].group(number)
    }

    /// The meetings of leaders that a rank takes part in, the widest first: of the leaders of the nodes, of those of
    /// the parts of a node, and at last of all members of a smallest part. `root` leads whatever it is in; elsewhere
    /// the first place does.
    pub(crate) fn meetings(&self, of: &Shape, root: Rank) -> Vec<Meeting<'_>> {
        let (here, top) = (self.place(of.rank()), self.place(root));
        let mut meetings = Vec::with_capacity(self.levels.len());
        for (outer, level) in self.levels[1..].iter().enumerate() {
            let whole = self.levels[outer].group_at(here);
            let (first, last) = (level.group_at(whole.first), level.group_at(whole.end - 1));
            let (mine, count) = (level.group_at(here), last.number - first.number + 1);
            if count == 1 || leader(mine, top) != here {
                continue;
            }
            let root = level.group_at(leader(whole, top)).number - first.number;
            let is_between_nodes = outer == 0;
            let shape = of.part(Rank(mine.number - first.number), count, is_between_nodes);
            let (first, root) = (first.number, Rank(root));
            meetings.push(Meeting { nesting: self, level, first, top, shape, root, is_between_nodes });
        }
        meetings
    }
}

/// Leaders of the groups within one group, this rank among them.
pub(crate) struct Meeting<'a> {
    nesting: &'a Nesting,
    level: &'a Level,
    first: u32,
    top: u32,
    /// This rank's place among them.
    pub shape: Shape,
    /// Which of them leads all of them.
    pub root: Rank,
    pub is_between_nodes: bool,
}

impl Meeting<'_> {
    /// The rank of one of them.
    pub(crate) fn member(&self, number: Rank) -> Rank {
        self.nesting.rank(leader(self.level.group(self.first + number.0), self.top))
    }

    pub(crate) fn is_led_from_here(&self) -> bool {
        self.shape.rank() == self.root
    }
}

/// The place that speaks for a group.
fn leader(group: Group, top: u32) -> u32 {
    if group.holds(top) { top } else { group.first }
}

/// Where each number stands in a list of all numbers; none where one is missing.
fn inverse(ranks: &[u32]) -> Option<Vec<u32>> {
    let mut places = vec![u32::MAX; ranks.len()];
    for (&rank, place) in ranks.iter().zip(0..) {
        let free = places.get_mut(rank as usize).filter(|place| **place == u32::MAX)?;
        *free = place;
    }
    Some(places)
}

/// The level of nodes.
const NODES: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(sizes: &[u32]) -> Vec<Run> {
        sizes.iter().map(|&size| Run { groups: 1, size }).collect()
    }

    #[test]
    fn groups_are_runs_of_places() {
        let level = Level::of(runs(&[4, 4, 0, 4, 2, 3]));
        assert_eq!((level.0.len(), level.groups()), (3, 5));
        let bounds: Vec<_> = level.all().map(|group| (group.first, group.end)).collect();
        assert_eq!(bounds, [(0, 4), (4, 8), (8, 12), (12, 14), (14, 17)]);
        for group in level.all() {
            assert!((group.first..group.end).all(|place| level.group_at(place) == group));
        }
    }

    #[test]
    fn what_contradicts_itself_is_no_nesting() {
        assert!(Nesting::new(&[], &runs(&[2, 2]), &[runs(&[2, 1, 1])]).is_some());
        assert!(Nesting::new(&[], &runs(&[2, 2]), &[runs(&[1, 2, 1])]).is_none(), "a part on two nodes");
        assert!(Nesting::new(&[], &runs(&[2, 2]), &[runs(&[2, 1])]).is_none(), "a rank in no part");
        assert!(Nesting::new(&[0, 2, 1, 3], &runs(&[2, 2]), &[]).is_some());
        for ranks in [&[0, 1, 2][..], &[0, 1, 2, 2], &[0, 1, 2, 4], &[0, 1, 2, 3, 4]] {
            assert_eq!(Nesting::new(ranks, &runs(&[2, 2]), &[]), None, "{ranks:?}");
        }
        assert!(Nesting::new(&[], &[], &[]).is_none());
    }

    #[test]
    fn each_rank_but_the_root_is_led_once() {
        let ranks = [3, 0, 6, 1, 4, 7, 2, 5, 8];
        let nesting = Nesting::new(&ranks, &runs(&[5, 1, 3]), &[runs(&[2, 3, 1, 3])]).expect("sound");
        assert_eq!((nesting.nodes(), nesting.smallest_node(), nesting.node(Rank(7))), (3, 1, 1));
        for root in (0..9).map(Rank) {
            for rank in (0..9).map(Rank) {
                let meetings = nesting.meetings(&Shape::new(rank, 9), root);
                let led = meetings.iter().filter(|meeting| !meeting.is_led_from_here()).count();
                assert_eq!(led, usize::from(rank != root), "rank {rank:?}, root {root:?}");
                for meeting in &meetings {
                    assert_eq!(meeting.member(meeting.shape.rank()), rank);
                }
            }
            let widest = &nesting.meetings(&Shape::new(root, 9), root)[0];
            assert_eq!((widest.shape.size(), widest.is_between_nodes), (3, true));
            assert_eq!(widest.member(widest.root), root);
        }
    }

    #[test]
    fn a_million_ranks_are_a_few_numbers() {
        let nodes = [Run { groups: 1 << 14, size: 64 }];
        let nesting = Nesting::new(&[], &nodes, &[]).expect("sound");
        assert_eq!(
            (nesting.size(), nesting.nodes(), nesting.node(Rank(64 * 777 + 5))),
            (1 << 20, 1 << 14, 777)
        );
        assert!(nesting.levels.iter().all(|level| level.0.len() == 1));
    }
}
