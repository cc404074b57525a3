//! Which members of a communicator sit together, for its collective operations.
//!
//! The process manager tells all processes alike who sits on which node of the job; so nobody has to ask anybody. What it
//! tells is taken as it is: a wrong map costs time, but as all processes have the same one, results are right.

use std::collections::HashMap;

use collectives::{Nesting, Run};
use process_manager::NodeMap;

use crate::group::Group;

/// The members by node; none where all sit on one, or each on one of its own.
pub(super) fn by_node(group: &Group, nodes: &NodeMap) -> Option<Nesting> {
    nesting(group, nodes).filter(|nesting| nesting.nodes() < nesting.size())
}

/// Members on one node by its packages; none where all sit on one. What each has for itself is told all the same: who does not
/// know of packages takes all ranks of a node for near.
pub(super) fn by_package(group: &Group, packages: &NodeMap) -> Option<Nesting> {
    nesting(group, packages).map(Nesting::of_packages)
}

fn nesting(group: &Group, nodes: &NodeMap) -> Option<Nesting> {
    let mut numbers = HashMap::new();
    let mut sizes: Vec<u32> = Vec::new();
    let mut of_members = Vec::with_capacity(group.size() as usize);
    for peer in group.peers() {
        let next = sizes.len();
        let number = *numbers.entry(nodes.node(peer.0)?).or_insert(next);
        if number == next {
            sizes.push(0);
        }
        sizes[number] += 1;
        of_members.push(number);
    }
    let is_straight = of_members.is_sorted();
    if sizes.len() < 2 || (!is_straight && of_members.len() > LISTED_MAX) {
        return None;
    }
    let runs: Vec<Run> = sizes.iter().map(|&size| Run { groups: 1, size }).collect();
    let ranks = if is_straight { Vec::new() } else { in_order_of_nodes(&of_members, &sizes) };
    Nesting::new(&ranks, &runs, &[])
}

/// The members, those of the first node first.
fn in_order_of_nodes(of_members: &[usize], sizes: &[u32]) -> Vec<u32> {
    let starts = sizes.iter().scan(0, |end, &size| {
        *end += size;
        Some(*end - size)
    });
    let mut next: Vec<u32> = starts.collect();
    let mut ranks = vec![0; of_members.len()];
    for (&node, rank) in of_members.iter().zip(0..) {
        ranks[next[node] as usize] = rank;
        next[node] += 1;
    }
    ranks
}

/// Members of nodes that do not hold consecutive ranks are listed, at eight bytes each, up to so many.
const LISTED_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::Peer;

    use crate::communicator::Rank;
    use crate::config::CpuTime;
    use crate::{Config, CostsFrom, Operator, run_threads};

    fn map(text: &str, ranks: u32) -> NodeMap {
        NodeMap::parse(text, ranks).expect("the launchers' notation")
    }

    #[test]
    fn members_are_found_on_their_nodes() {
        let world = |size| Group::world(size);
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
        assert_eq!(by_node(&Group::world(4), &map("(vector,(0,1,4))", 4)), None);
        let alone = map("(vector,(0,4,1))", 4);
        assert_eq!(by_node(&Group::world(4), &alone), None);
        let of_packages = by_package(&Group::world(4), &alone).expect("each on a package of its own");
        assert_eq!((of_packages.nodes(), of_packages.is_of_packages()), (4, true));
        assert_eq!(by_node(&Group::of([0, 3].map(Peer)), &map("(vector,(0,2,2))", 4)), None);
        assert_eq!(by_node(&Group::world(4), &map("(vector,(0,1,2))", 2)), None, "a map of fewer");
        let many = LISTED_MAX as u32 + 2;
        assert!(by_node(&Group::world(many), &map("(vector,(0,2,32769))", many)).is_some());
        assert_eq!(by_node(&Group::world(many), &map("(vector,(0,2,1))", many)), None);
    }

    /// Threads that are told they sit on packages of a node: these count where the costs have a line for them.
    #[test]
    fn operations_go_by_the_packages_that_the_launcher_told() {
        let far = "weft costs 1;package 400 0.5 8192 1200 0.2";
        let [two, six] = ["(vector,(0,2,3))", "(vector,(0,6,1))"];
        for (costs, packages, count) in [("off", two, None), (far, two, Some(2)), (far, six, Some(6))] {
            let config = Config {
                packages: Some(packages.to_owned()),
                costs: CostsFrom::of(Some(costs)),
                cpus: Some(CpuTime::UNLIMITED),
                ..Config::default()
            };
            let results = run_threads(6, &config, |session| {
                let world = session.world();
                let shape = world.shape();
                let long = vec![u64::from(world.rank().0); 40_000];
                let sum = world.all_reduce(&long, Operator::Sum).unwrap();
                let mut told = vec![if world.rank() == Rank(4) { 77u32 } else { 0 }; 60_000];
                world.broadcast(&mut told, Rank(4)).unwrap();
                world.barrier().unwrap();
                let ranks = world.all_gather(&[world.rank().0]).unwrap();
                let alike = sum.iter().all(|&sum| sum == 15) && told.iter().all(|&value| value == 77);
                (shape.nesting().map(Nesting::nodes), shape.is_on_one_node(), alike, ranks)
            })
            .unwrap();
            for result in results {
                assert_eq!(result, (count, count.is_some(), true, (0..6).collect()));
            }
        }
    }

    #[test]
    fn packages_that_are_none_end_the_start() {
        let config = Config { packages: Some("two".to_owned()), ..Config::default() };
        let error = run_threads(2, &config, |_| ()).unwrap_err().to_string();
        assert!(error.contains("WEFT_PACKAGES") && error.contains("two"), "{error}");
    }

    /// Threads that are told they sit on nodes.
    #[test]
    fn operations_go_by_the_nodes_that_the_manager_told() {
        for text in ["(vector,(0,2,3))", "(vector,(0,3,1))", "(vector,(0,1,4),(1,1,2))"] {
            let results = run_threads(6, &Config::default(), |session| {
                session.process().set_nodes(map(text, 6));
                let world = session.world();
                let way = world.shape().nesting().map(Nesting::nodes);
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
