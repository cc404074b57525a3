//! No operation takes more than another one that does more, on the simulated machine: an allreduce no more than a reduce
//! and a bcast, a bcast no more than a scatter and an allgather, a barrier no more than the least allreduce, and nothing
//! less for more bytes or more ranks. 2 to 64 ranks, 1 B to 64 MiB.

use crate::common::of_all_like;
use collectives::{Collective, Costs, Each, Operator, Rank, Reduction, Rooted, Shape, forecast};

#[test]
fn on_one_node() {
    check(SLACK, |size| Shape::new(Rank(0), size));
}

#[test]
fn on_nodes_of_one_rank() {
    check(SLACK_OF_COPY, |size| Shape::new(Rank(0), size).over_nodes(size));
}

fn check(of_halves: f64, shape: impl Fn(u32) -> Shape) {
    let mut broken = Vec::new();
    let mut hold = |what: String, slack: f64, less: f64, more: f64| {
        if less > more * slack {
            broken.push((less / more, format!("{what}: {less:.0} ns, and not {more:.0}")));
        }
    };
    let times: Vec<Vec<Times>> = sizes().map(|size| row(&shape(size))).collect();
    for (row, size) in times.iter().zip(sizes()) {
        for (times, bytes) in row.iter().zip(lengths()) {
            let at = format!("{size} ranks, {bytes} B");
            let (both, halves) = (times.reduce + times.bcast, times.scatter + times.allgather);
            hold(format!("allreduce and reduce + bcast, {at}"), SLACK, times.allreduce, both);
            hold(format!("bcast and scatter + allgather, {at}"), of_halves, times.bcast, halves);
            hold(format!("barrier and allreduce, {at}"), SLACK, times.barrier, times.allreduce);
        }
        for (pair, bytes) in row.windows(2).zip(lengths()) {
            for ((name, less), (_, more)) in pair[0].all().zip(pair[1].all()) {
                hold(format!("{name} of {bytes} B and of more, {size} ranks"), SLACK, less, more);
            }
        }
    }
    for (pair, size) in times.windows(2).zip(sizes()) {
        for ((fewer, more), bytes) in pair[0].iter().zip(&pair[1]).zip(lengths()) {
            // A scatter or an allgather of slices gives each rank less where there are more.
            for ((name, less), (_, more)) in fewer.of_vectors().zip(more.of_vectors()) {
                hold(format!("{name} of {bytes} B, {size} ranks and more"), SLACK_OF_RANKS, less, more);
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
            forecast(&schedules, shape, &Costs::BUILT_IN).ns
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

fn sizes() -> impl Iterator<Item = u32> + Clone {
    2..=64
}

fn lengths() -> impl Iterator<Item = usize> + Clone {
    (0..=26).step_by(2).map(|power| 1 << power)
}

const SUM: Operator = Operator { element_bytes: 1, commutative: true };
/// A violation is more than this.
const SLACK: f64 = 1.1;
/// Between nodes, the best of the ways to broadcast some lengths is a scatter and an allgather, and the root copies all for
/// itself, so that nothing is written where the program's data stands.
const SLACK_OF_COPY: f64 = 1.15;
/// Powers of two have algorithms that other numbers of ranks have not: an allreduce of 15 ranks takes up to so much more
/// than one of 16. Broadcasts in pieces swing by less.
const SLACK_OF_RANKS: f64 = 1.25;
