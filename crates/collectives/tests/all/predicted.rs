//! What algorithms are predicted to take: the formulas against the simulated machine, and what is chosen
//! against what could have been.

use std::sync::Arc;

use crate::common::of_all_like;
use collectives::{
    Collective, Cores, Costs, Each, Hierarchy, HierarchyLevel, Operator, Rank, Reduction, Rooted, Run, Shape,
    forecast,
};

/// Each choice is by formula; on the simulated machine it takes little more than the best algorithm does
/// there.
#[test]
fn a_choice_by_formula_is_near_the_best_there_is() {
    let mut worst = (0.0, String::new());
    let (mut total, mut far) = (0, 0);
    for shape in shapes(&[2, 3, 4, 7, 8, 12, 16, 24, 33]) {
        for bytes in (0..=24).step_by(3).map(|power| 1usize << power) {
            for collective in collectives(bytes) {
                let [chosen, best] = chosen_and_best(&collective, &shape);
                let ratio = chosen.1 / best.1.max(1.0);
                total += 1;
                far += u32::from(ratio > NEAR);
                if ratio > worst.0 {
                    let what = format!("{} and not {} for {collective:?}, {shape:?}", chosen.0, best.0);
                    worst = (ratio, what);
                }
            }
        }
    }
    assert!(worst.0 <= FAR, "{:.2} times the best: {}", worst.0, worst.1);
    assert!(far * 20 <= total, "{far} of {total} choices take more than {NEAR} times the best");
}

/// So it is where nodes differ in size; nor does what is chosen there need much room.
#[test]
fn a_choice_on_uneven_nodes_is_near_the_best_there_is() {
    for nodes in UNEVEN {
        let shape = on_nodes(nodes);
        for bytes in (0..=18).step_by(3).map(|power| 1usize << power) {
            for collective in of_blocks(bytes) {
                let [chosen, best] = chosen_and_best(&collective, &shape);
                let ratio = chosen.1 / best.1;
                let what = format!("{collective:?} on {nodes:?}: {} and not {}", chosen.0, best.0);
                let schedules = of_all_like(&shape, |shape| collective.schedule(shape));
                let room = schedules.iter().map(|schedule| schedule.scratch_bytes).max();
                let most = ROOM_TIMES * bytes * shape.size() as usize;
                assert!(room <= Some(most.max(SMALL_ROOM)), "{room:?} bytes of room: {what}");
                assert!(ratio <= FAR_UNEVEN, "{ratio:.2} times the best: {what}");
            }
        }
    }
}

/// The formulas are of the same kind as the simulation: both say the same within a factor, wherever all ranks
/// are as far from each other.
#[test]
fn formulas_and_simulation_agree() {
    let is_even = |shape: &Shape| shape.nodes() == 1 || shape.nodes() == shape.size();
    for shape in shapes(&[3, 8, 12, 16, 33]).filter(|shape| shape.cores() == Cores::Own && is_even(shape)) {
        for bytes in [64, 1 << 10, 1 << 14, 1 << 20] {
            for collective in collectives(bytes) {
                for candidate in collective.candidates(&shape) {
                    let ns = simulated(&collective, &shape, candidate.name);
                    let ratio = candidate.predicted_ns / ns;
                    assert!(
                        (1.0 / APART..=APART).contains(&ratio),
                        "{collective:?} by {} on {shape:?}: {ns:.0} ns simulated, {:.0} by formula",
                        candidate.name,
                        candidate.predicted_ns
                    );
                }
            }
        }
    }
}

/// So do they of ways by node, where each node has as many ranks.
#[test]
fn formulas_and_simulation_agree_by_node() {
    for (nodes, together) in [(2, 4), (4, 4), (8, 2), (3, 7), (2, 12), (12, 3)] {
        let shape = on_nodes_of(Shape::new(Rank(0), nodes * together), together);
        for collective in [64, 1 << 10, 1 << 14, 1 << 18].into_iter().flat_map(collectives) {
            let by_node =
                collective.candidates(&shape).into_iter().filter(|way| way.name.starts_with("by-node"));
            for candidate in by_node {
                let ratio = candidate.predicted_ns / simulated(&collective, &shape, candidate.name);
                assert!(
                    (1.0 / APART_BY_NODE..=APART_BY_NODE).contains(&ratio),
                    "{collective:?} by {} on {nodes} nodes of {together}: {ratio:.2} times the simulation",
                    candidate.name,
                );
            }
        }
    }
}

/// Twice the same is the same, to the bit; and constants decide.
#[test]
fn times_follow_from_constants_alone() {
    let shape = Shape::new(Rank(0), 12).over_nodes(3);
    let schedules = of_all_like(&shape, |shape| collectives::allreduce(shape, 1000, SUM, false));
    let first = forecast(&schedules, &shape, &Costs::BUILT_IN);
    assert_eq!(first, forecast(&schedules, &shape, &Costs::BUILT_IN));
    let slow = Costs { step_ns: 1e6, ..Costs::BUILT_IN };
    assert!(forecast(&schedules, &shape, &slow).ns > 10.0 * first.ns);
}

/// A message of known length between two ranks takes what the constants say.
#[test]
fn two_ranks_take_the_time_of_a_message() {
    let costs = Costs::BUILT_IN;
    for (nodes, link) in [(1, costs.node), (2, costs.network)] {
        let shape = Shape::new(Rank(0), 2).over_nodes(nodes);
        for bytes in [1, 1000, 1 << 20] {
            let schedules = of_all_like(&shape, |shape| collectives::bcast(shape, Rank(0), bytes));
            let ns = forecast(&schedules, &shape, &costs).ns;
            let questions = if link.is_eager(bytes) { 0.0 } else { 2.0 };
            let least = link.way_ns(bytes) + costs.step_ns * 2.0;
            let most = least + questions * link.latency_ns + costs.step_ns;
            assert!(
                (least - 1.0..=most).contains(&ns),
                "{bytes} B on {nodes} nodes: {ns} and not {least} to {most}"
            );
        }
    }
}

fn simulated(collective: &Collective, shape: &Shape, name: &str) -> f64 {
    let schedules = of_all_like(shape, |shape| collective.schedule_by(shape, name).expect("a known name"));
    forecast(&schedules, shape, &Costs::BUILT_IN).ns
}

/// What is chosen by formula, and what takes least on the simulated machine, each with its time there.
fn chosen_and_best(collective: &Collective, shape: &Shape) -> [(&'static str, f64); 2] {
    let candidates = collective.candidates(shape);
    let times = candidates.iter().map(|way| (way.name, simulated(collective, shape, way.name)));
    let times: Vec<(&str, f64)> = times.collect();
    let name = collective.chosen(shape).expect("all have a choice");
    let chosen = times.iter().find(|(known, _)| *known == name).expect("it is a candidate");
    let best = times.iter().min_by(|one, other| one.1.total_cmp(&other.1)).expect("there are some");
    [*chosen, *best]
}

fn shapes(sizes: &[u32]) -> impl Iterator<Item = Shape> {
    sizes.iter().flat_map(|&size| {
        let one = Shape::new(Rank(0), size);
        [one.clone(), one.clone().on(Cores::Shared), one.clone().over_nodes(size), on_nodes_of(one, 4)]
    })
}

/// Where each node but perhaps the last has so many ranks, which are consecutive, and that is known.
fn on_nodes_of(shape: Shape, together: u32) -> Shape {
    let (full, left) = (shape.size() / together, shape.size() % together);
    let runs = [Run { groups: full, size: together }, Run { groups: u32::from(left > 0), size: left }];
    shape.nested(Arc::new(Hierarchy::new(&[], &[(HierarchyLevel::Node, runs.to_vec())]).expect("sound")))
}

/// Nodes of consecutive ranks: how many of how many each, in order.
fn on_nodes(nodes: &[(u32, u32)]) -> Shape {
    let runs: Vec<Run> = nodes.iter().map(|&(groups, size)| Run { groups, size }).collect();
    let hierarchy = Hierarchy::new(&[], &[(HierarchyLevel::Node, runs)]).expect("sound");
    Shape::new(Rank(0), hierarchy.size()).nested(Arc::new(hierarchy))
}

/// Operations in which each rank has a block for every other.
fn of_blocks(bytes: usize) -> [Collective; 2] {
    [
        Collective::Alltoall(Each { bytes, in_place: false }),
        Collective::ReduceScatterBlock(Reduction { count: bytes, operator: SUM, in_place: false }),
    ]
}

fn collectives(bytes: usize) -> Vec<Collective> {
    let block = bytes.min(1 << 18);
    let reduction = |operator: Operator, bytes: usize| Reduction {
        count: bytes.div_ceil(operator.element_bytes),
        operator,
        in_place: false,
    };
    let rooted = Rooted { root: Rank(0), bytes: block, in_place: false };
    let each = Each { bytes: block, in_place: false };
    vec![
        Collective::Barrier,
        Collective::Bcast { root: Rank(0), bytes },
        Collective::Gather(rooted),
        Collective::Scatter(rooted),
        Collective::Allgather(each),
        Collective::Alltoall(each),
        Collective::Reduce(Rank(0), reduction(SUM, bytes)),
        Collective::Allreduce(reduction(SUM, bytes)),
        Collective::Allreduce(reduction(ORDERED, bytes)),
        Collective::ReduceScatterBlock(reduction(SUM, block)),
    ]
}

const SUM: Operator = Operator { element_bytes: 1, commutative: true };
const ORDERED: Operator = Operator { element_bytes: 1, commutative: false };
/// How many nodes of how many ranks each, in order.
const UNEVEN: [&[(u32, u32)]; 7] = [
    &[(1, 64), (1, 1)],
    &[(1, 1), (1, 64)],
    &[(3, 16), (1, 2)],
    &[(7, 1), (1, 32)],
    &[(3, 32), (1, 1)],
    &[(1, 16), (1, 15)],
    &[(3, 8), (1, 3)],
];
/// Nearly all choices take at most so many times what the best takes, and all at most so many.
const NEAR: f64 = 1.3;
const FAR: f64 = 2.2;
/// All choices on uneven nodes.
const FAR_UNEVEN: f64 = 1.5;
/// The room of such is at most so many times the vector, or small.
const ROOM_TIMES: usize = 6;
const SMALL_ROOM: usize = 256 << 10;
/// So far a formula may be from the simulation.
const APART: f64 = 2.5;
const APART_BY_NODE: f64 = 1.25;
