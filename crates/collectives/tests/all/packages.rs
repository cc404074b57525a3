//! Ranks of one node on several packages: where crossing them costs more than to stay within, operations go by package as they
//! go by node elsewhere; where nothing is said of them, as by the built-in costs, they do not count.

use std::sync::Arc;

use crate::common::of_all_like;
use collectives::{
    Collective, Cores, Costs, Each, Guide, Nesting, Operator, Rank, Reduction, Run, Shape, forecast,
};

/// Two packages of 16, as machines have them.
#[test]
fn two_packages_of_sixteen_are_crossed_once_where_that_costs() {
    let (near, far) = (on_packages(2, 16, Costs::BUILT_IN), on_packages(2, 16, far()));
    assert!(near.nesting().is_none() && near.nodes() == 1 && !near.is_on_one_node());
    assert!(far.nodes() == 2 && far.is_on_one_node());
    let mut by_package = Vec::new();
    for collective in operations() {
        assert!(collective.candidates(&near).iter().all(|candidate| !is_by_package(candidate.name)));
        let chosen = collective.chosen(&far).expect("there is a choice");
        if is_by_package(chosen) {
            let others = collective.candidates(&far).into_iter().filter(|other| !is_by_package(other.name));
            let best = others.map(|other| simulated(&collective, &far, other.name)).min_by(f64::total_cmp);
            let gain = simulated(&collective, &far, chosen) / best.expect("there are others");
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
fn what_is_chosen_on_packages_is_near_the_best() {
    for (packages, each) in [(2, 2), (2, 16), (4, 8), (8, 3)] {
        let shape = on_packages(packages, each, far());
        for collective in operations() {
            let times: Vec<(&str, f64)> = collective
                .candidates(&shape)
                .iter()
                .map(|candidate| (candidate.name, simulated(&collective, &shape, candidate.name)))
                .collect();
            let chosen = collective.chosen(&shape).expect("there is a choice");
            let of = |name| times.iter().find(|(known, _)| *known == name).expect("it is a candidate").1;
            let best = times.iter().map(|time| time.1).min_by(f64::total_cmp).expect("there are some");
            assert!(
                of(chosen) <= 1.7 * best,
                "{collective:?} on {packages} packages of {each}: {chosen} takes {:.2} times the best: {times:?}",
                of(chosen) / best
            );
        }
    }
}

/// Ranks that share cores wait for these and not for packages.
#[test]
fn packages_do_not_count_where_cores_are_shared() {
    let shape = Shape::new(Rank(0), 8).on(Cores::Shared).guided_by(guide(far()));
    assert!(shape.nested(nesting(2, 4)).nesting().is_none());
}

fn is_by_package(name: &str) -> bool {
    name.starts_with("by-node")
}

fn simulated(collective: &Collective, shape: &Shape, name: &str) -> f64 {
    let schedules =
        of_all_like(shape, |shape| collective.schedule_by(shape, name).expect("it is a candidate"));
    forecast(&schedules, shape, &shape.guide().costs).ns
}

/// Between packages a line takes twice as long, and bytes five times.
fn far() -> Costs {
    Costs::decode("weft costs 1;package 400 0.5 8192 1200 0.2").expect("it is well-formed")
}

fn guide(costs: Costs) -> &'static Guide {
    Box::leak(Box::new(Guide::new(costs, "".parse().expect("nothing is forced"))))
}

fn nesting(packages: u32, each: u32) -> Arc<Nesting> {
    let nesting = Nesting::new(&[], &[Run { groups: packages, size: each }], &[]);
    Arc::new(nesting.expect("it is sound").of_packages())
}

fn on_packages(packages: u32, each: u32, costs: Costs) -> Shape {
    Shape::new(Rank(0), packages * each).guided_by(guide(costs)).nested(nesting(packages, each))
}

fn operations() -> Vec<Collective> {
    let operator = Operator { element_bytes: 8, commutative: true };
    let mut all = vec![Collective::Barrier];
    for bytes in [8, 1 << 10, 1 << 14, 1 << 17, 1 << 20] {
        let of = Reduction { count: bytes / 8, operator, in_place: false };
        all.extend([
            Collective::Bcast { root: Rank(1), bytes },
            Collective::Reduce(Rank(1), of),
            Collective::Allreduce(of),
            Collective::Allgather(Each { bytes, in_place: false }),
        ]);
    }
    all
}
