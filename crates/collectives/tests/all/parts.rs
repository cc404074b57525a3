//! Ranks of one node on several parts of it, as packages, NUMA nodes and caches: where crossing them costs
//! more than to stay within, operations go by part as they go by node elsewhere; where nothing is said of
//! them, as by the built-in costs, they do not count.

use std::sync::Arc;

use crate::common::of_all_like;
use crate::common::verify::verify;
use collectives::{
    Collective, Cores, Costs, Each, Hierarchy, HierarchyLevel, Operator, Rank, Reduction, Run, Schedule,
    Shape, Step, TuningConfig, forecast,
};

/// Two packages of 16, as machines have them.
#[test]
fn two_packages_of_sixteen_are_crossed_once_where_that_costs() {
    let (near, far) = (TWO.shape(Costs::BUILT_IN), TWO.shape(costs(FAR)));
    assert!(near.hierarchy().is_none() && near.nodes() == 1);
    assert!(far.nodes() == 1 && far.hierarchy().is_some());
    let mut by_package = Vec::new();
    for collective in operations() {
        assert!(collective.candidates(&near).iter().all(|candidate| !is_by_part(candidate.name)));
        let chosen = collective.chosen(&far).expect("there is a choice");
        if is_by_part(chosen) {
            let gain = gain(&collective, &far, chosen);
            assert!(gain < 1.1, "{collective:?} by {chosen} takes {gain:.2} times the best other");
            by_package.push((collective.operation(), gain));
        }
    }
    for operation in ["bcast", "reduce", "allreduce"] {
        let mut gains = by_package.iter().filter(|found| found.0 == operation).map(|found| found.1);
        assert!(gains.any(|gain| gain < 0.9), "{operation} never gains: {by_package:?}");
    }
}

/// A choice by formula is near the best there is, as it is between nodes.
#[test]
fn what_is_chosen_on_parts_is_near_the_best() {
    let mut ratios = Vec::new();
    for machine in MACHINES {
        let shape = machine.shape(costs(STEEP));
        for collective in operations() {
            let times: Vec<(&str, f64)> = collective
                .candidates(&shape)
                .iter()
                .map(|candidate| (candidate.name, simulated(&collective, &shape, candidate.name)))
                .collect();
            let chosen = collective.chosen(&shape).expect("there is a choice");
            let of = |name| times.iter().find(|(known, _)| *known == name).expect("it is a candidate").1;
            let best = times.iter().map(|time| time.1).min_by(f64::total_cmp).expect("there are some");
            let what = format!("{collective:?} on {machine:?}: {chosen}, of {times:?}");
            ratios.push((of(chosen) / best, what));
        }
    }
    ratios.sort_by(|one, other| other.0.total_cmp(&one.0));
    assert!(ratios[0].0 <= FAR_FROM_BEST, "{:.2} times the best: {}", ratios[0].0, ratios[0].1);
    let far = ratios.iter().filter(|(ratio, _)| *ratio > NEAR_BEST).count();
    assert!(far * 10 <= ratios.len(), "{far} of {} are more than {NEAR_BEST} times the best", ratios.len());
}

/// Formulas and simulation say the same within a factor, on one node.
#[test]
fn formulas_and_simulation_agree_on_parts() {
    for machine in MACHINES.into_iter().filter(|machine| machine.nodes == 1) {
        let shape = machine.shape(costs(STEEP));
        for collective in operations() {
            for candidate in collective.candidates(&shape) {
                let ns = simulated(&collective, &shape, candidate.name);
                let ratio = candidate.predicted_ns / ns;
                assert!(
                    (1.0 / APART..=APART).contains(&ratio),
                    "{collective:?} by {} on {machine:?}: {ns:.0} ns simulated, {:.0} by formula",
                    candidate.name,
                    candidate.predicted_ns
                );
            }
        }
    }
}

/// Among the ranks of a part the operation is chosen anew, and goes by narrower parts where these gain: then
/// no border is crossed more often than it must be.
#[test]
fn narrower_parts_serve_within_wider_ones() {
    let machine = Machine { nodes: 2, packages: 2, numas: 1, caches: 4, each: 4 };
    let shape = machine.shape(costs("package 9000 2 8192 9000 2;cache 2000 0.5 16384 2000 0.5"));
    let all = [HierarchyLevel::Node, HierarchyLevel::Package, HierarchyLevel::Cache];
    assert!(shape.hierarchy().expect("parts").kinds().map(|kind| kind.0).eq(all));
    let mut more_often = Vec::new();
    let lengths = (3..=20).map(|power| 1usize << power);
    let crossed_as_seldom_as_can_be = lengths.filter(|&bytes| {
        let bcast = Collective::Bcast { root: Rank(5), bytes };
        let schedules = of_all_like(&shape, |shape| bcast.schedule(shape));
        let crossed = all.map(|border| sent_over(&shape, &schedules, border));
        // One node is told of two, one package of the two of each node, and three caches of the four of each
        // package.
        let least = [bytes, 2 * bytes, 4 * 3 * bytes];
        if crossed != least {
            more_often.push(format!("{bytes} B by {}: {crossed:?}, least {least:?}", schedules[0].algorithm));
        }
        crossed == least
    });
    let count = crossed_as_seldom_as_can_be.count();
    assert!(count >= 3, "bytes over node, package and cache borders: {more_often:#?}");
}

fn sent_over(shape: &Shape, schedules: &[Schedule], border: HierarchyLevel) -> usize {
    let hierarchy = shape.hierarchy().expect("parts are known");
    let of_rank = |(rank, schedule): (u32, &Schedule)| -> usize {
        let sends = schedule.steps.iter().filter_map(|step| match step {
            Step::Send { to, from } => Some((*to, from.bytes)),
            _ => None,
        });
        sends
            .filter(|(to, _)| hierarchy.border(Rank(rank), *to) == Some(border))
            .map(|(_, bytes)| bytes)
            .sum()
    };
    (0..).zip(schedules).map(of_rank).sum()
}

/// The schedules of all ranks fit together for every small machine of three kinds of parts, whatever the
/// root.
#[test]
fn schedules_fit_on_all_small_machines() {
    let guided = [costs(STEEP), costs("cache 900 1 64 900 1")].map(guide);
    for [packages, numas, caches, each] in
        (0..81u32).map(|n| [1 + n / 27, 1 + n / 9 % 3, 1 + n / 3 % 3, 1 + n % 3])
    {
        let size = packages * numas * caches * each;
        let machine = Machine { nodes: 1, packages, numas, caches, each };
        let root = Rank(size * 2 / 3);
        for (guide, bytes) in guided.into_iter().flat_map(|guide| [8, 40_000].map(|bytes| (guide, bytes))) {
            let shape = Shape::new(Rank(0), size).guided_by(guide).nested(Arc::new(machine.hierarchy()));
            for collective in of_length(bytes, root) {
                for candidate in collective.candidates(&shape) {
                    let schedules = of_all_like(&shape, |shape| {
                        collective.schedule_by(shape, candidate.name).expect("it is a candidate")
                    });
                    verify(&format!("{collective:?} by {} on {machine:?}", candidate.name), &schedules);
                }
            }
        }
    }
}

/// Ranks that share cores wait for these and not for packages.
#[test]
fn packages_do_not_count_where_cores_are_shared() {
    let hierarchy = TWO.hierarchy().counting(&costs(FAR), Cores::Shared);
    let shape = Shape::new(Rank(0), 32).on(Cores::Shared).guided_by(guide(costs(FAR)));
    assert!(shape.nested(Arc::new(hierarchy)).hierarchy().is_none());
}

/// What goes by a collective segment within a node gives the same bits without one: short allreduces do not
/// go by parts there.
#[test]
fn short_allreduces_of_a_node_do_not_go_by_parts() {
    let by_part = |machine: Machine, bytes: usize| {
        let operator = Operator { element_bytes: 8, commutative: true };
        let allreduce = Collective::Allreduce(Reduction { count: bytes / 8, operator, in_place: false });
        let candidates = allreduce.candidates(&machine.shape(costs(FAR)));
        candidates.iter().any(|candidate| is_by_part(candidate.name))
    };
    assert!(!by_part(TWO, (8 << 10) / 32) && by_part(TWO, (8 << 10) / 32 + 8));
    assert!(by_part(Machine { nodes: 2, ..TWO }, 8));
}

/// Ranks in order on equal nodes, and equal parts of these.
#[derive(Clone, Copy, Debug)]
struct Machine {
    nodes: u32,
    packages: u32,
    numas: u32,
    caches: u32,
    each: u32,
}

impl Machine {
    fn hierarchy(self) -> Hierarchy {
        let Machine { nodes, packages, numas, caches, each } = self;
        let counts = [nodes, packages, numas, caches];
        let size = counts.iter().product::<u32>() * each;
        let groups = counts.iter().scan(1, |groups, count| {
            *groups *= count;
            Some(*groups)
        });
        let kinds = HierarchyLevel::ALL.into_iter().zip(groups);
        let kinds: Vec<_> =
            kinds.map(|(border, groups)| (border, vec![Run { groups, size: size / groups }])).collect();
        Hierarchy::new(&[], &kinds).expect("it is sound")
    }

    fn shape(self, costs: Costs) -> Shape {
        let hierarchy = self.hierarchy().counting(&costs, Cores::Own);
        Shape::new(Rank(0), hierarchy.size()).guided_by(guide(costs)).nested(Arc::new(hierarchy))
    }
}

const TWO: Machine = Machine { nodes: 1, packages: 2, numas: 1, caches: 1, each: 16 };
const MACHINES: [Machine; 8] = [
    Machine { each: 2, ..TWO },
    TWO,
    Machine { packages: 4, each: 8, ..TWO },
    Machine { packages: 8, each: 3, ..TWO },
    Machine { caches: 4, each: 4, ..TWO },
    Machine { numas: 2, caches: 2, each: 4, ..TWO },
    Machine { nodes: 2, caches: 2, each: 4, ..TWO },
    Machine { nodes: 3, numas: 2, caches: 3, each: 2, ..TWO },
];

fn is_by_part(name: &str) -> bool {
    name.starts_with("by-node")
}

/// What it takes by that name, as a part of what the best of the ways without parts takes.
fn gain(collective: &Collective, shape: &Shape, name: &str) -> f64 {
    let others = collective.candidates(shape).into_iter().filter(|other| !is_by_part(other.name));
    let best = others.map(|other| simulated(collective, shape, other.name)).min_by(f64::total_cmp);
    simulated(collective, shape, name) / best.expect("there are others")
}

fn simulated(collective: &Collective, shape: &Shape, name: &str) -> f64 {
    let schedules =
        of_all_like(shape, |shape| collective.schedule_by(shape, name).expect("it is a candidate"));
    forecast(&schedules, shape, &shape.guide().costs).ns
}

fn costs(lines: &str) -> Costs {
    Costs::decode(&format!("weft costs 1;{lines}")).expect("it is well-formed")
}

fn guide(costs: Costs) -> &'static TuningConfig {
    Box::leak(Box::new(TuningConfig::new(costs, "".parse().expect("nothing is forced"))))
}

fn operations() -> Vec<Collective> {
    let all = [8, 1 << 10, 1 << 14, 1 << 17, 1 << 20].into_iter().flat_map(|bytes| of_length(bytes, Rank(1)));
    all.chain([Collective::Barrier]).collect()
}

fn of_length(bytes: usize, root: Rank) -> [Collective; 7] {
    let operator = Operator { element_bytes: 8, commutative: true };
    let of = Reduction { count: bytes / 8, operator, in_place: false };
    let each = Each { bytes, in_place: false };
    [
        Collective::Barrier,
        Collective::Bcast { root, bytes },
        Collective::Reduce(root, of),
        Collective::Allreduce(of),
        Collective::Allgather(each),
        Collective::Alltoall(each),
        Collective::ReduceScatterBlock(of),
    ]
}

/// Between packages a line takes twice as long, and bytes five times.
const FAR: &str = "package 400 0.5 8192 1200 0.2";
/// Each wider border costs more.
const STEEP: &str = "cache 260 0.2 16384 1000 0.06;numa 350 0.3 16384 1100 0.1;package 500 0.5 8192 1300 0.2";
/// Nearly all choices take at most so many times what the best takes, and all at most so many.
const NEAR_BEST: f64 = 1.3;
const FAR_FROM_BEST: f64 = 1.8;
/// So far a formula may be from the simulation.
const APART: f64 = 2.5;
