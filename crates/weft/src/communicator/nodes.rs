//! Which members of a communicator sit together, for its collective operations.
//!
//! The process manager tells all processes alike who sits on which node of the job, and the launcher who sits
//! on which part of its node; so nobody has to ask anybody. What they tell is taken as it is: a wrong map
//! costs time, but as all processes have the same one, results are right.

use collectives::{Hierarchy, HierarchyLevel};
use fabric::Peer;
use job::numa_partition::Parts;
use process_manager::NodeMap;

use crate::group::Group;

/// The members by node and by the parts of nodes; none where all sit together, or each on a node of its own.
/// Where `nodes` are none, all members are on one. What each has for itself is told all the same: who does
/// not know of packages takes all ranks of a node for near.
pub(super) fn hierarchy(group: &Group, nodes: Option<&NodeMap>, parts: Option<&Parts>) -> Option<Hierarchy> {
    let peers: Vec<Peer> = group.peers().collect();
    let parts = parts.map(Parts::kinds).unwrap_or_default().iter().map(|(border, map)| (*border, map));
    let maps: Vec<(HierarchyLevel, &NodeMap)> =
        nodes.map(|nodes| (HierarchyLevel::Node, nodes)).into_iter().chain(parts).collect();
    let kinds: Vec<HierarchyLevel> = maps.iter().map(|(border, _)| *border).collect();
    let hierarchy = Hierarchy::by_parts(group.size(), &kinds, |rank, kind| {
        let map = maps.iter().find(|(border, _)| *border == kind)?.1;
        map.node(peers[rank as usize].0)
    })?;
    let is_short = hierarchy.is_straight() || hierarchy.size() as usize <= LISTED_MAX;
    (hierarchy.widest().is_some() && hierarchy.nodes() < hierarchy.size() && is_short).then_some(hierarchy)
}

/// Members of nodes that do not hold consecutive ranks are listed, at eight bytes each, up to so many.
const LISTED_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use job::config::CpuTime;

    use super::*;
    use fabric::Peer;

    use crate::communicator::Rank;
    use crate::{Config, CostsFrom, Operator, run_threads};

    fn map(text: &str, ranks: u32) -> NodeMap {
        NodeMap::parse(text, ranks).expect("the launchers' notation")
    }

    #[test]
    fn members_are_found_on_their_nodes() {
        let world = |size| Group::world(size);
        let by_node = |group: &Group, nodes: &NodeMap| hierarchy(group, Some(nodes), None);
        let blocked = by_node(&world(6), &map("(vector,(0,2,3))", 6)).expect("two nodes");
        assert_eq!((blocked.nodes(), blocked.is_straight()), (2, true));
        assert_eq!((0..6).map(|rank| blocked.node(Rank(rank))).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
        let cyclic = by_node(&world(5), &map("(vector,(0,2,1))", 5)).expect("two nodes");
        assert_eq!((0..5).map(|rank| cyclic.node(Rank(rank))).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
        assert!(!cyclic.is_straight());
        // Nodes are counted as the members meet them.
        let some = Group::of([5, 4, 1].map(Peer));
        let some = by_node(&some, &map("(vector,(0,2,3))", 6)).expect("two nodes");
        assert_eq!([0, 1, 2].map(|rank| some.node(Rank(rank))), [0, 0, 1]);
    }

    #[test]
    fn where_nodes_do_not_matter_nothing_is_kept() {
        let by_node = |group: &Group, nodes: &NodeMap| hierarchy(group, Some(nodes), None);
        assert_eq!(by_node(&Group::world(4), &map("(vector,(0,1,4))", 4)), None);
        assert_eq!(by_node(&Group::world(4), &map("(vector,(0,4,1))", 4)), None);
        assert_eq!(hierarchy(&Group::world(4), None, None), None);
        let packages = Parts::parse("package (vector,(0,4,1))", 4).unwrap();
        let packages =
            hierarchy(&Group::world(4), None, Some(&packages)).expect("each on a package of its own");
        assert_eq!(packages.kinds().collect::<Vec<_>>(), [(HierarchyLevel::Package, 4)]);
        assert_eq!(by_node(&Group::of([0, 3].map(Peer)), &map("(vector,(0,2,2))", 4)), None);
        assert_eq!(by_node(&Group::world(4), &map("(vector,(0,1,2))", 2)), None, "a map of fewer");
        let many = LISTED_MAX as u32 + 2;
        assert!(by_node(&Group::world(many), &map("(vector,(0,2,32769))", many)).is_some());
        assert_eq!(by_node(&Group::world(many), &map("(vector,(0,2,1))", many)), None);
    }

    /// Threads that are told they sit on parts of a node: these count where the costs have a line for them.
    #[test]
    fn operations_go_by_the_parts_that_the_launcher_told() {
        let far = "weft costs 1;package 400 0.5 8192 1200 0.2;cache 250 0.3 8192 1200 0.1";
        let [two, six, four] = ["(vector,(0,2,6))", "(vector,(0,12,1))", "(vector,(0,4,3))"];
        let [packages, alone, all, dealt] = [
            format!("package {two}"),
            format!("package {six}"),
            format!("package {two};numa {four};cache (vector,(0,6,2))"),
            format!("package (vector,(0,2,1));cache {four}"),
        ];
        let cases = [
            ("off", &packages, vec![]),
            (far, &packages, vec![(HierarchyLevel::Package, 2)]),
            (far, &alone, vec![(HierarchyLevel::Package, 12)]),
            // The costs tell nothing of NUMA nodes; the second cache of each package is one with the first of
            // the next NUMA node's.
            (far, &all, vec![(HierarchyLevel::Package, 2), (HierarchyLevel::Cache, 8)]),
            (far, &dealt, vec![(HierarchyLevel::Package, 2), (HierarchyLevel::Cache, 8)]),
        ];
        for (costs, parts, kinds) in cases {
            let config = Config {
                parts: Some(parts.to_owned()),
                costs: CostsFrom::of(Some(costs)),
                cpus: Some(CpuTime::UNLIMITED),
                ..Config::default()
            };
            let results = run_threads(12, &config, |session| {
                let world = session.world();
                let known = world.shape().hierarchy().map(|hierarchy| hierarchy.kinds().collect::<Vec<_>>());
                (known.unwrap_or_default(), are_right(&world))
            })
            .unwrap();
            for result in results {
                assert_eq!(result, (kinds.clone(), true), "{parts}");
            }
        }
    }

    /// Whether operations on long vectors and short ones give what they must among twelve ranks.
    fn are_right(world: &crate::Communicator) -> bool {
        let here = u64::from(world.rank().0);
        let sums = [1, 200, 40_000].map(|count| {
            let sum = world.all_reduce(&vec![here; count], Operator::Sum).unwrap();
            sum.iter().all(|&sum| sum == 66)
        });
        let told = [1, 3000, 60_000].map(|count| {
            let mut told = vec![if world.rank() == Rank(4) { 77u32 } else { 0 }; count];
            world.broadcast(&mut told, Rank(4)).unwrap();
            told.iter().all(|&value| value == 77)
        });
        world.barrier().unwrap();
        let ranks = world.all_gather(&vec![world.rank().0; 5000]).unwrap();
        let in_order = ranks.chunks(5000).zip(0..).all(|(chunk, rank)| chunk.iter().all(|&of| of == rank));
        sums.into_iter().chain(told).all(|right| right) && in_order
    }

    /// Threads that are told they sit on nodes, and on parts of these.
    #[test]
    fn parts_count_on_each_of_several_nodes() {
        let config = Config {
            parts: Some("package (vector,(0,2,3));cache (vector,(0,6,1))".to_owned()),
            costs: CostsFrom::of(Some(
                "weft costs 1;package 400 0.5 8192 1200 0.2;cache 250 0.3 8192 1200 0.1",
            )),
            cpus: Some(CpuTime::UNLIMITED),
            ..Config::default()
        };
        let results = run_threads(12, &config, |session| {
            session.process().set_nodes(map("(vector,(0,2,6))", 12));
            let world = session.world();
            (
                world.shape().hierarchy().map(|hierarchy| hierarchy.kinds().collect::<Vec<_>>()),
                are_right(&world),
            )
        })
        .unwrap();
        let kinds =
            vec![(HierarchyLevel::Node, 2), (HierarchyLevel::Package, 4), (HierarchyLevel::Cache, 12)];
        assert!(results.iter().all(|result| *result == (Some(kinds.clone()), true)), "{results:?}");
    }

    #[test]
    fn parts_that_are_none_end_the_start() {
        let config = Config { parts: Some("two".to_owned()), ..Config::default() };
        let error = run_threads(2, &config, |_| ()).unwrap_err().to_string();
        assert!(error.contains("WEFT_PARTS") && error.contains("two"), "{error}");
    }

    /// Threads that are told they sit on nodes.
    #[test]
    fn operations_go_by_the_nodes_that_the_manager_told() {
        for text in ["(vector,(0,2,3))", "(vector,(0,3,1))", "(vector,(0,1,4),(1,1,2))"] {
            let results = run_threads(6, &Config::default(), |session| {
                session.process().set_nodes(map(text, 6));
                let world = session.world();
                let way = world.shape().hierarchy().map(Hierarchy::nodes);
                let sum = world.all_reduce(&[u64::from(world.rank().0), 1], Operator::Sum).unwrap();
                let mut told = [if world.rank() == Rank(4) { 77u32 } else { 0 }];
                world.broadcast(&mut told, Rank(4)).unwrap();
                world.barrier().unwrap();
                let copy = world.duplicate().unwrap();
                let ranks = copy.all_gather(&[copy.rank().0]).unwrap();
                (way.is_some(), sum, told[0], ranks)
            })
            .unwrap();
            for result in results {
                assert_eq!(result, (true, vec![15, 6], 77, (0..6).collect()), "{text}");
            }
        }
    }
}
