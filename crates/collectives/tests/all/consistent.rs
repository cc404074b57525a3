//! No operation takes more than another one that does more, on the simulated machine: an allreduce no more
//! than a reduce and a bcast, a bcast no more than a scatter and an allgather, a barrier no more than the
//! least allreduce, and nothing less for more bytes or more ranks. 2 to 64 ranks, 1 B to 64 MiB.

use std::sync::Arc;

use crate::common::of_all_like;
use collectives::{
    Collective, Costs, Each, Forced, Hierarchy, HierarchyLevel, Operator, Rank, Reduction, Rooted, Run,
    Shape, TuningConfig, forecast,
};

#[test]
fn on_one_node() {
    check(2..=64, Slack::USUAL, |size| Shape::new(Rank(0), size));
}

#[test]
fn on_nodes_of_one_rank() {
    check(2..=64, Slack::USUAL, |size| Shape::new(Rank(0), size).over_nodes(size));
}

/// Two packages of caches of four ranks, which cost more from kind to kind.
#[test]
fn on_parts_of_a_node() {
    let lines = "weft costs 1;cache 260 0.2 16384 1000 0.06;package 500 0.5 16384 1300 0.2";
    let costs = Costs::decode(lines).expect("it is well-formed");
    let guide: &'static TuningConfig = Box::leak(Box::new(TuningConfig::new(costs, Forced::NOTHING)));
    check((8..=64).step_by(8), Slack::OF_PARTS, |size| {
        let kind = |border, groups| (border, vec![Run { groups, size: size / groups }]);
        let kinds = [kind(HierarchyLevel::Package, 2), kind(HierarchyLevel::Cache, size / 4)];
        let hierarchy = Hierarchy::new(&[], &kinds).expect("it is sound");
        Shape::new(Rank(0), size).guided_by(guide).nested(Arc::new(hierarchy))
    });
}

fn check(sizes: impl Iterator<Item = u32> + Clone, slack: Slack, shape: impl Fn(u32) -> Shape) {
    let mut broken = Vec::new();
    let mut hold = |what: String, slack: f64, less: f64, more: f64| {
        if less > more * slack {
            broken.push((less / more, format!("{what}: {less:.0} ns, and not {more:.0}")));
        }
    };
    let times: Vec<Vec<Times>> = sizes.clone().map(|size| row(&shape(size))).collect();
    for (row, size) in times.iter().zip(sizes.clone()) {
        for (times, bytes) in row.iter().zip(lengths()) {
            let at = format!("{size} ranks, {bytes} B");
            let (both, halves) = (times.reduce + times.bcast, times.scatter + times.allgather);
            hold(format!("allreduce and reduce + bcast, {at}"), USUAL, times.allreduce, both);
            hold(format!("bcast and scatter + allgather, {at}"), slack.of_halves, times.bcast, halves);
            hold(format!("barrier and allreduce, {at}"), slack.of_barriers, times.barrier, times.allreduce);
        }
        for (pair, bytes) in row.windows(2).zip(lengths()) {
            for ((name, less), (_, more)) in pair[0].all().zip(pair[1].all()) {
                hold(format!("{name} of {bytes} B and of more, {size} ranks"), USUAL, less, more);
            }
        }
    }
    for (pair, size) in times.windows(2).zip(sizes) {
        for ((fewer, more), bytes) in pair[0].iter().zip(&pair[1]).zip(lengths()) {
            // A scatter or an allgather of slices gives each rank less where there are more.
            for ((name, less), (_, more)) in fewer.of_vectors().zip(more.of_vectors()) {
                hold(format!("{name} of {bytes} B, {size} ranks and more"), slack.of_ranks, less, more);
            }
        }
    }
    broken.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown: Vec<String> =
        broken.iter().take(40).map(|(ratio, what)| format!("{ratio:.2} {what}")).collect();
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), shown.join("\n"));
}

/// What operations on a vector take; a scatter and an allgather are of the slices that make up one.
#[derive(Clone, Copy)]
struct Times {
    barrier: f64,
    bcast: f64,
    scatter: f64,
    allgather: f64,
    reduce: f64,
    allreduce: f64,
}

impl Times {
    fn of(shape: &Shape, bytes: usize) -> Times {
        let slice = bytes.div_ceil(shape.size() as usize);
        let reduction = Reduction { count: bytes, operator: SUM, in_place: false };
        let time = |collective: Collective| {
            let schedules = of_all_like(shape, |shape| collective.schedule(shape));
            forecast(&schedules, shape, &shape.guide().costs).ns
        };
        Times {
            barrier: time(Collective::Barrier),
            bcast: time(Collective::Bcast { root: Rank(0), bytes }),
            scatter: time(Collective::Scatter(Rooted { root: Rank(0), bytes: slice, in_place: false })),
            allgather: time(Collective::Allgather(Each { bytes: slice, in_place: false })),
            reduce: time(Collective::Reduce(Rank(0), reduction)),
            allreduce: time(Collective::Allreduce(reduction)),
        }
    }

    fn all(self) -> impl Iterator<Item = (&'static str, f64)> {
        let blocks = [("scatter", self.scatter), ("allgather", self.allgather)];
        self.of_vectors().chain(blocks)
    }

    fn of_vectors(self) -> impl Iterator<Item = (&'static str, f64)> {
        [
            ("barrier", self.barrier),
            ("bcast", self.bcast),
            ("reduce", self.reduce),
            ("allreduce", self.allreduce),
        ]
        .into_iter()
    }
}

fn row(shape: &Shape) -> Vec<Times> {
    lengths().map(|bytes| Times::of(shape, bytes)).collect()
}

fn lengths() -> impl Iterator<Item = usize> + Clone {
    (0..=26).step_by(2).map(|power| 1 << power)
}

const SUM: Operator = Operator { element_bytes: 1, commutative: true };
/// A violation is more than this.
const USUAL: f64 = 1.1;

/// How much more is no violation.
#[derive(Clone, Copy)]
struct Slack {
    of_halves: f64,
    of_barriers: f64,
    of_ranks: f64,
}

impl Slack {
    /// Powers of two have algorithms that other numbers of ranks have not: an allreduce of 15 ranks takes up
    /// to so much more than one of 16. Broadcasts in chunks swing by less.
    const USUAL: Slack = Slack { of_halves: USUAL, of_barriers: USUAL, of_ranks: 1.25 };
    /// On parts of a node powers of two are the only ones whose exchanges keep within parts as long as can
    /// be.
    const OF_PARTS: Slack = Slack { of_halves: 1.25, of_barriers: 1.15, of_ranks: 1.5 };
}
