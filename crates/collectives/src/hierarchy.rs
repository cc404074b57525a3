//! Which ranks sit together: nodes, and parts of nodes within them.
//!
//! Ranks are seen in the order of *places*, in which those of a node stand side by side, and within it those
//! of each of its parts. So a group of ranks is a run of places, and a million ranks on equal nodes in order
//! are a few numbers.

use std::collections::HashMap;

use messaging::Rank;

use crate::costs::{Costs, HierarchyLevel};
use crate::shape::Cores;

/// Nodes and their parts, the same as seen by all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    size: u32,
    /// The rank at each place; empty where each rank stands at the place of its own number.
    ranks: Vec<u32>,
    /// The place of each rank; empty where that is.
    places: Vec<u32>,
    /// The kinds of parts of which there are several, from wide to narrow.
    levels: Vec<Level>,
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
struct Level {
    /// What lies between them.
    border: HierarchyLevel,
    stretches: Vec<Stretch>,
}

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

    /// Whether a place is in it.
    pub(crate) fn holds(self, place: u32) -> bool {
        self.first <= place && place < self.end
    }

    /// The place that speaks for the group: `top`, where it is in it, and else the first one.
    pub(crate) fn leader(self, top: u32) -> u32 {
        if self.holds(top) { top } else { self.first }
    }
}

impl Level {
    fn of(border: HierarchyLevel, runs: impl IntoIterator<Item = Run>) -> Level {
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
        Level { border, stretches }
    }

    fn groups(&self) -> u32 {
        self.stretches.last().map_or(0, |last| last.group + last.run.groups)
    }

    fn group(&self, number: u32) -> Group {
        let at = self.stretches.partition_point(|at| at.group <= number) - 1;
        let Stretch { place, group, run } = self.stretches[at];
        let first = place + (number - group) * run.size;
        Group { number, first, end: first + run.size }
    }

    fn group_at(&self, place: u32) -> Group {
        let at = self.stretches[self.stretches.partition_point(|at| at.place <= place) - 1];
        self.group(at.group + (place - at.place) / at.run.size)
    }

    fn all(&self) -> impl Iterator<Item = Group> {
        (0..self.groups()).map(|number| self.group(number))
    }

    /// Whether each group lies within one of `wider`.
    fn refines(&self, wider: &Level) -> bool {
        self.all().all(|group| group.end <= wider.group_at(group.first).end)
    }

    /// The groups within one of a wider kind, counted from its beginning.
    fn within(&self, whole: Group) -> Level {
        let first = self.stretches.partition_point(|at| at.place <= whole.first) - 1;
        let overlapping = self.stretches[first..].iter().take_while(|at| at.place < whole.end);
        let runs = overlapping.map(|at| {
            let Run { groups, size } = at.run;
            let end = (at.place + groups * size).min(whole.end);
            Run { groups: (end - at.place.max(whole.first)) / size, size }
        });
        Level::of(self.border, runs)
    }
}

impl Hierarchy {
    /// The ranks in the order of their places, or nothing where each stands at the place of its own number;
    /// then the parts in that order, one kind after the other, from wide to narrow. Kinds that say no more
    /// than a wider one are left out. None where that contradicts itself.
    #[must_use]
    pub fn new(ranks: &[u32], kinds: &[(HierarchyLevel, Vec<Run>)]) -> Option<Hierarchy> {
        let total =
            |runs: &[Run]| runs.iter().map(|run| u64::from(run.groups) * u64::from(run.size)).sum::<u64>();
        let size = u32::try_from(total(&kinds.first()?.1)).ok().filter(|&size| size > 0)?;
        let mut levels: Vec<Level> = Vec::new();
        for (border, runs) in kinds {
            let level = Level::of(*border, runs.iter().copied());
            let fits = |wider: &Level| *border < wider.border && level.refines(wider);
            if total(runs) != u64::from(size) || !levels.last().is_none_or(fits) {
                return None;
            }
            if level.groups() > levels.last().map_or(1, Level::groups) {
                levels.push(level);
            }
        }
        let is_straight = ranks.iter().zip(0..).all(|(&rank, place)| rank == place);
        if is_straight && (ranks.is_empty() || ranks.len() == size as usize) {
            return Some(Hierarchy { size, ranks: Vec::new(), places: Vec::new(), levels });
        }
        let places = inverse(ranks).filter(|places| places.len() == size as usize)?;
        Some(Hierarchy { size, ranks: ranks.to_vec(), places, levels })
    }

    /// The ranks by the numbers of the parts that they sit in: of each of these kinds, from wide to narrow,
    /// `part` has one for each rank. Those whose numbers of a kind are the same sit together if they do in
    /// all wider kinds. None where a number is missing.
    #[must_use]
    pub fn by_parts(
        size: u32,
        kinds: &[HierarchyLevel],
        part: impl Fn(u32, HierarchyLevel) -> Option<u32>,
    ) -> Option<Hierarchy> {
        // Parts of parts are counted as the ranks meet them; so are those of each kind in the order of
        // places.
        let mut numbers: Vec<u32> = vec![0; size as usize];
        let mut order: Vec<u32> = (0..size).collect();
        let mut of_kinds = Vec::with_capacity(kinds.len());
        for &kind in kinds {
            let mut met: HashMap<(u32, u32), u32> = HashMap::new();
            for (rank, number) in (0..size).zip(&mut numbers) {
                let next = met.len() as u32;
                *number = *met.entry((*number, part(rank, kind)?)).or_insert(next);
            }
            of_kinds.push((kind, numbers.clone()));
        }
        let number_of = |rank: u32| of_kinds.iter().map(move |(_, numbers)| numbers[rank as usize]);
        order.sort_by(|&one, &other| number_of(one).cmp(number_of(other)));
        let runs = |numbers: &Vec<u32>| -> Vec<Run> {
            let groups = order.chunk_by(|&one, &next| numbers[one as usize] == numbers[next as usize]);
            groups.map(|group| Run { groups: 1, size: group.len() as u32 }).collect()
        };
        let kinds: Vec<_> = of_kinds.iter().map(|(kind, numbers)| (*kind, runs(numbers))).collect();
        Hierarchy::new(&order, &kinds)
    }

    /// This hierarchy with those levels alone that count for schedules: nodes, and within nodes the levels
    /// that `costs` has a link of, where ranks have cores of their own. Where ranks share cores nodes alone
    /// count, since the ranks of a node wait for cores.
    #[must_use]
    pub fn counting(mut self, costs: &Costs, cores: Cores) -> Hierarchy {
        let counts = |border: HierarchyLevel| {
            border == HierarchyLevel::Node || cores == Cores::Own && costs.told(border).is_some()
        };
        self.levels.retain(|level| counts(level.border));
        self
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.node_level().map_or(1, Level::groups)
    }

    /// The number of the node that a rank sits on.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn node(&self, rank: Rank) -> u32 {
        self.node_level().map_or(0, |level| level.group_at(self.place(rank)).number)
    }

    fn node_level(&self) -> Option<&Level> {
        self.levels.first().filter(|level| level.border == HierarchyLevel::Node)
    }

    /// The kinds of parts of which there are several, from wide to narrow, and how many of each there are.
    pub fn kinds(&self) -> impl Iterator<Item = (HierarchyLevel, u32)> + '_ {
        self.levels.iter().map(|level| (level.border, level.groups()))
    }

    /// What lies between the farthest ranks; nothing where all sit together.
    #[must_use]
    pub fn widest(&self) -> Option<HierarchyLevel> {
        self.levels.first().map(|level| level.border)
    }

    /// What lies between two ranks; nothing where they share all parts.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn border(&self, one: Rank, other: Rank) -> Option<HierarchyLevel> {
        let (one, other) = (self.place(one), self.place(other));
        let is_apart = |level: &&Level| level.group_at(one) != level.group_at(other);
        self.levels.iter().find(is_apart).map(|level| level.border)
    }

    /// Whether each rank stands at the place of its own number: then nodes, and their parts, hold consecutive
    /// ranks.
    #[must_use]
    pub fn is_straight(&self) -> bool {
        self.ranks.is_empty()
    }

    pub(crate) fn rank(&self, place: u32) -> Rank {
        Rank(self.ranks.get(place as usize).copied().unwrap_or(place))
    }

    pub(crate) fn place(&self, rank: Rank) -> u32 {
        assert!(rank.0 < self.size, "rank {} is not among {} ranks", rank.0, self.size);
        self.places.get(rank.0 as usize).copied().unwrap_or(rank.0)
    }

    /// The widest parts; there is one where all ranks sit together.
    pub(crate) fn parts(&self) -> u32 {
        self.levels.first().map_or(1, Level::groups)
    }

    /// Ranks of the one of these that has the fewest.
    pub(crate) fn smallest_part(&self) -> u32 {
        self.part_sizes().min().unwrap_or(self.size)
    }

    /// Ranks of the one of these that has the most.
    pub(crate) fn largest_part(&self) -> u32 {
        self.part_sizes().max().unwrap_or(self.size)
    }

    fn part_sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.levels.iter().take(1).flat_map(|level| level.stretches.iter().map(|stretch| stretch.run.size))
    }

    /// The one of that number.
    pub(crate) fn part(&self, number: u32) -> Group {
        let all = Group { number: 0, first: 0, end: self.size };
        self.levels.first().map_or(all, |level| level.group(number))
    }

    /// The one that a place is in.
    pub(crate) fn part_at(&self, place: u32) -> Group {
        let all = Group { number: 0, first: 0, end: self.size };
        self.levels.first().map_or(all, |level| level.group_at(place))
    }

    /// What is known of the ranks of one of these, whose numbers are their places in it.
    pub(crate) fn inside(&self, part: Group) -> Option<Hierarchy> {
        let narrower = self.levels.get(1..).unwrap_or_default().iter().map(|level| level.within(part));
        let levels: Vec<Level> = narrower.filter(|level| level.groups() > 1).collect();
        let known = Hierarchy { size: part.size(), ranks: Vec::new(), places: Vec::new(), levels };
        known.widest().map(|_| known)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(sizes: &[u32]) -> Vec<Run> {
        sizes.iter().map(|&size| Run { groups: 1, size }).collect()
    }

    #[test]
    fn groups_are_runs_of_places() {
        let level = Level::of(HierarchyLevel::Node, runs(&[4, 4, 0, 4, 2, 3]));
        assert_eq!((level.stretches.len(), level.groups()), (3, 5));
        let bounds: Vec<_> = level.all().map(|group| (group.first, group.end)).collect();
        assert_eq!(bounds, [(0, 4), (4, 8), (8, 12), (12, 14), (14, 17)]);
        for group in level.all() {
            assert!((group.first..group.end).all(|place| level.group_at(place) == group));
        }
    }

    #[test]
    fn what_contradicts_itself_is_no_hierarchy() {
        let of = |ranks: &[u32], nodes: &[u32], caches: &[u32]| {
            Hierarchy::new(
                ranks,
                &[(HierarchyLevel::Node, runs(nodes)), (HierarchyLevel::Cache, runs(caches))],
            )
        };
        assert!(of(&[], &[2, 2], &[2, 1, 1]).is_some());
        assert!(of(&[], &[2, 2], &[1, 2, 1]).is_none(), "a part on two nodes");
        assert!(of(&[], &[2, 2], &[2, 1]).is_none(), "a rank in no part");
        assert!(of(&[0, 2, 1, 3], &[2, 2], &[2, 2]).is_some());
        for ranks in [&[0, 1, 2][..], &[0, 1, 2, 2], &[0, 1, 2, 4], &[0, 1, 2, 3, 4]] {
            assert_eq!(of(ranks, &[2, 2], &[2, 2]), None, "{ranks:?}");
        }
        assert!(Hierarchy::new(&[], &[]).is_none());
        let backwards = [(HierarchyLevel::Cache, runs(&[2, 2])), (HierarchyLevel::Node, runs(&[2, 2]))];
        assert!(Hierarchy::new(&[], &backwards).is_none(), "a node within a cache");
    }

    #[test]
    fn kinds_that_say_no_more_than_wider_ones_are_left_out() {
        let kinds = |ranks: u32, part: fn(u32, HierarchyLevel) -> u32| {
            let hierarchy =
                Hierarchy::by_parts(ranks, &HierarchyLevel::ALL, |rank, border| Some(part(rank, border)));
            hierarchy.expect("numbers of all").kinds().collect::<Vec<_>>()
        };
        // One node; NUMA nodes are packages; caches of two.
        let part = |rank, border| match border {
            HierarchyLevel::Node => 7,
            HierarchyLevel::Package | HierarchyLevel::Numa => rank / 4,
            HierarchyLevel::Cache => rank / 2,
        };
        assert_eq!(kinds(8, part), [(HierarchyLevel::Package, 2), (HierarchyLevel::Cache, 4)]);
        assert_eq!(kinds(4, part), [(HierarchyLevel::Cache, 2)]);
        assert_eq!(kinds(2, part), []);
        assert_eq!(kinds(6, |rank, _| rank), [(HierarchyLevel::Node, 6)]);
        assert_eq!(Hierarchy::by_parts(2, &[HierarchyLevel::Numa], |rank, _| (rank == 0).then_some(0)), None);
    }

    #[test]
    fn parts_of_one_number_in_two_wider_ones_are_two() {
        // Ranks are dealt to two nodes; each has caches 0 and 1, which it fills one after the other.
        let part = |rank: u32, border| match border {
            HierarchyLevel::Node => rank % 2,
            _ => rank / 4,
        };
        let kinds = [HierarchyLevel::Node, HierarchyLevel::Cache];
        let hierarchy =
            Hierarchy::by_parts(8, &kinds, |rank, border| Some(part(rank, border))).expect("sound");
        assert_eq!(
            hierarchy.kinds().collect::<Vec<_>>(),
            [(HierarchyLevel::Node, 2), (HierarchyLevel::Cache, 4)]
        );
        assert!(!hierarchy.is_straight());
        assert_eq!((0..8).map(|place| hierarchy.rank(place).0).collect::<Vec<_>>(), [0, 2, 4, 6, 1, 3, 5, 7]);
        let border = |one, other| hierarchy.border(Rank(one), Rank(other));
        assert_eq!(
            [border(0, 1), border(0, 4), border(0, 2), border(3, 3)],
            [Some(HierarchyLevel::Node), Some(HierarchyLevel::Cache), None, None]
        );
    }

    #[test]
    fn what_is_inside_a_part_is_as_outside() {
        let kinds = [
            (HierarchyLevel::Node, runs(&[5, 1, 6])),
            (HierarchyLevel::Package, runs(&[5, 1, 3, 3])),
            (HierarchyLevel::Cache, runs(&[2, 3, 1, 3, 2, 1])),
        ];
        let hierarchy = Hierarchy::new(&[3, 0, 6, 1, 4, 7, 2, 5, 8, 11, 9, 10], &kinds).expect("sound");
        assert_eq!((hierarchy.nodes(), hierarchy.smallest_part(), hierarchy.node(Rank(7))), (3, 1, 1));
        assert_eq!(hierarchy.inside(hierarchy.part(1)), None);
        for number in 0..hierarchy.parts() {
            let part = hierarchy.part(number);
            let inside = hierarchy.inside(part);
            for (one, other) in
                (0..part.size()).flat_map(|one| (0..part.size()).map(move |other| (one, other)))
            {
                let outside =
                    hierarchy.border(hierarchy.rank(part.first + one), hierarchy.rank(part.first + other));
                let known = inside.as_ref().and_then(|inside| inside.border(Rank(one), Rank(other)));
                assert_eq!(known, outside, "{one} and {other} of part {number}");
            }
        }
    }

    #[test]
    fn within_a_node_counts_what_has_costs() {
        let part = |rank: u32, border| match border {
            HierarchyLevel::Node => rank / 8,
            HierarchyLevel::Package => rank / 4,
            HierarchyLevel::Numa | HierarchyLevel::Cache => rank / 2,
        };
        let all = Hierarchy::by_parts(16, &HierarchyLevel::ALL, |rank, border| Some(part(rank, border)))
            .expect("sound");
        let counting = |text: &str, cores| {
            let costs = Costs::decode(&format!("weft costs 1;{text}")).expect("well-formed");
            all.clone().counting(&costs, cores).kinds().map(|kind| kind.0).collect::<Vec<_>>()
        };
        assert_eq!(counting("step 1", Cores::Own), [HierarchyLevel::Node]);
        assert_eq!(
            counting("package 1 1 1 1 1", Cores::Own),
            [HierarchyLevel::Node, HierarchyLevel::Package]
        );
        assert_eq!(counting("numa 1 1 1 1 1", Cores::Own), [HierarchyLevel::Node, HierarchyLevel::Numa]);
        assert_eq!(counting("numa 1 1 1 1 1", Cores::Shared), [HierarchyLevel::Node]);
    }

    #[test]
    fn a_million_ranks_are_a_few_numbers() {
        let kind = |border, size| (border, vec![Run { groups: (1 << 20) / size, size }]);
        let hierarchy =
            Hierarchy::new(&[], &[kind(HierarchyLevel::Node, 64), kind(HierarchyLevel::Cache, 8)])
                .expect("sound");
        assert_eq!(
            (hierarchy.size(), hierarchy.nodes(), hierarchy.node(Rank(64 * 777 + 5))),
            (1 << 20, 1 << 14, 777)
        );
        assert!(hierarchy.levels.iter().all(|level| level.stretches.len() == 1));
        let inside = hierarchy.inside(hierarchy.part(777)).expect("caches");
        assert_eq!(
            (inside.size(), inside.kinds().collect::<Vec<_>>()),
            (64, vec![(HierarchyLevel::Cache, 8)])
        );
    }
}
