//! What collective operations would take on a machine of 16,384 nodes with 64 ranks each: makes the schedules
//! and counts, and runs nothing. Prints what schedules of a million ranks take.
//!
//! ```sh
//! cargo run --release -p weft-collectives --example million
//! ```
//! Messages, bytes and memory are those of all ranks' schedules, one after the other; of what has as many
//! steps as ranks, of those of one node, since all nodes do the same. Rounds are the longest chain of
//! messages, each sent after the one before has come, found by walking back from the end of 64 ranks; of
//! operations in chunks, what the rank sends that sends most.

#[path = "../tests/all/common/mod.rs"]
mod common;

use std::sync::Arc;

use collectives::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Hierarchy, HierarchyLevel, Operator, Rank, Reduce,
    ReduceScatter, Run, Schedule, Shape, Step,
};
use common::counting::{Count, Walk};

type Make<'a> = &'a dyn Fn(&Shape) -> Schedule;

/// How rounds are counted.
#[derive(Clone, Copy, PartialEq)]
enum Rounds {
    Chain,
    Chunks,
    /// All nodes are alike, and schedules so long that one node is looked at.
    Waits,
}

/// A line of the table, with what no algorithm can fall below.
struct Line<'a> {
    what: &'a str,
    way: &'a str,
    ranks: u32,
    rounds: Rounds,
    /// Rounds; bytes that a rank sends in the mean; bytes between nodes.
    least: (u32, f64, f64),
    make: Make<'a>,
}

fn main() {
    println!(
        "| operation | algorithm | rounds (least) | messages of a rank, most | bytes sent by a rank, mean (least) | most \
         | messages between nodes | bytes between nodes (least) | steps | scratch |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    small();
    large();
    blocks();
    exchanges();
}

fn small() {
    let (p, nodes) = (f64::from(RANKS), f64::from(RANKS / PER_NODE));
    let line = |what, way, make: Make<'_>, bytes: (f64, f64)| {
        print(&Line { what, way, ranks: RANKS, rounds: Rounds::Chain, least: (20, bytes.0, bytes.1), make });
    };
    line("barrier", "dissemination", &|shape| Barrier::Dissemination.schedule(shape), (0.0, 0.0));
    line("barrier", "by node", &|shape| Barrier::ByNode.schedule(shape), (0.0, 0.0));
    let least = (8.0 * (p - 1.0) / p, 8.0 * (nodes - 1.0));
    line("bcast, 8 B", "binomial tree", &|shape| Bcast::Binomial.schedule(shape, Rank(0), 8), least);
    line("bcast, 8 B", "circulant", &|shape| Bcast::Circulant.schedule(shape, Rank(0), 8), least);
    line("bcast, 8 B", "by node", &|shape| Bcast::ByNode.schedule(shape, Rank(0), 8), least);
    let least = (2.0 * 8.0 * (p - 1.0) / p, 2.0 * 8.0 * (nodes - 1.0));
    let way = |way: Allreduce| move |shape: &Shape| way.schedule(shape, 1, SUM, false);
    line("allreduce, 8 B", "recursive doubling", &way(Allreduce::RecursiveDoubling), least);
    line("allreduce, 8 B", "by node", &way(Allreduce::ByNode), least);
}

fn large() {
    let (p, nodes, n) = (f64::from(RANKS), f64::from(RANKS / PER_NODE), LONG as f64);
    let line = |what, way, rounds, make: Make<'_>, least| {
        print(&Line { what, way, ranks: RANKS, rounds, least, make });
    };
    let least = (20, n * (p - 1.0) / p, n * (nodes - 1.0));
    let way = |way: Bcast| move |shape: &Shape| way.schedule(shape, Rank(0), LONG);
    line("bcast, 64 MiB", "circulant", Rounds::Chunks, &way(Bcast::Circulant), least);
    line("bcast, 64 MiB", "by node", Rounds::Chunks, &way(Bcast::ByNode), least);
    let way = |way: Reduce| move |shape: &Shape| way.schedule(shape, Rank(0), LONG / 8, SUM, false);
    line("reduce, 64 MiB", "circulant", Rounds::Chunks, &way(Reduce::Circulant), least);
    line("reduce, 64 MiB", "by node", Rounds::Chunks, &way(Reduce::ByNode), least);
    let least = (20, 2.0 * n * (p - 1.0) / p, 2.0 * n * (nodes - 1.0));
    let way = |way: Allreduce| move |shape: &Shape| way.schedule(shape, LONG / 8, SUM, false);
    line("allreduce, 64 MiB", "Rabenseifner", Rounds::Chain, &way(Allreduce::Rabenseifner), least);
    line("allreduce, 64 MiB", "circulant", Rounds::Chain, &way(Allreduce::Circulant), least);
    line("allreduce, 64 MiB", "by node, in slices", Rounds::Chain, &way(Allreduce::ByNodeInSlices), least);
}

fn blocks() {
    let (p, nodes, per_node) = (f64::from(RANKS), f64::from(RANKS / PER_NODE), f64::from(PER_NODE));
    let line = |what, way, make: Make<'_>| {
        let least = (20, 8.0 * (p - 1.0), nodes * 8.0 * (p - per_node));
        print(&Line { what, way, ranks: RANKS, rounds: Rounds::Chain, least, make });
    };
    line("allgather, 8 B each", "circulant", &|shape| Allgather::Circulant.schedule(shape, 8, false));
    line("allgather, 8 B each", "by node", &|shape| Allgather::ByNode.schedule(shape, 8, false));
    let circulant = |shape: &Shape| ReduceScatter::Circulant.schedule(shape, 1, SUM, false);
    line("reduce-scatter, 8 B each", "circulant", &circulant);
    let by_node = |shape: &Shape| ReduceScatter::ByNode.schedule(shape, 1, SUM, false);
    line("reduce-scatter, 8 B each", "by node", &by_node);
}

fn exchanges() {
    let ranks = 1 << 16;
    let (p, per_node) = (f64::from(ranks), f64::from(PER_NODE));
    let line = |what, way, least, make: Make<'_>| {
        print(&Line { what, way, ranks, rounds: Rounds::Waits, least, make });
    };
    let least = (16, 1024.0 * (p - 1.0), p / per_node * 1024.0 * (p - per_node));
    let in_slices = |shape: &Shape| ReduceScatter::ByNodeInSlices.schedule(shape, 128, SUM, false);
    line("reduce-scatter, 1 KiB each, 65,536 ranks", "by node, in slices", least, &in_slices);
    let least = (16, 8.0 * (p - 1.0), p * 8.0 * (p - per_node));
    let alltoall = |way, make: Make<'_>| line("alltoall, 8 B each, 65,536 ranks", way, least, make);
    alltoall("Bruck", &|shape| Alltoall::Bruck.schedule(shape, 8, false));
    alltoall("pairs", &|shape| Alltoall::Pairwise.schedule(shape, 8, false));
    alltoall("by node", &|shape| Alltoall::ByNode.schedule(shape, 8, false));
}

fn print(line: &Line<'_>) {
    let runs = [Run { groups: line.ranks / PER_NODE, size: PER_NODE }];
    let hierarchy =
        Arc::new(Hierarchy::new(&[], &[(HierarchyLevel::Node, runs.to_vec())]).expect("equal nodes"));
    let one = |rank| (line.make)(&Shape::new(Rank(rank), line.ranks).nested(hierarchy.clone()));
    let node = |rank| rank / PER_NODE;
    let (count, rounds) = match line.rounds {
        Rounds::Waits => of_a_node(line.ranks, &one),
        _ => {
            let mut count = Count::default();
            (0..line.ranks).for_each(|rank| count.add(rank, &one(rank), node));
            (
                count,
                if line.rounds == Rounds::Chunks {
                    count.messages_most as u32
                } else {
                    chain(line.ranks, &one)
                },
            )
        }
    };
    let (least_rounds, least_bytes, least_out) = line.least;
    let all = f64::from(line.ranks) / count.ranks as f64;
    let out = count.bytes_out as f64 * all;
    println!(
        "| {} | {} | {rounds} ({least_rounds}) | {} | {} ({}) | {} | {} | {} ({}) | {} | {} |",
        line.what,
        line.way,
        count.messages_most,
        short(count.bytes as f64 / count.ranks as f64),
        short(least_bytes),
        short(count.bytes_most as f64),
        thousands(count.messages_out as f64 * all),
        short(out),
        short(least_out),
        short(count.steps_bytes_most as f64),
        short(count.scratch_bytes_most as f64),
    );
}

/// A node in the middle stands for all.
fn of_a_node(ranks: u32, one: &dyn Fn(u32) -> Schedule) -> (Count, u32) {
    let (mut count, mut rounds) = (Count::default(), 0);
    let first = ranks / PER_NODE / 3 * PER_NODE;
    for rank in first..first + PER_NODE {
        let schedule = one(rank);
        count.add(rank, &schedule, |rank| rank / PER_NODE);
        let is_wait = |step: &&Step| matches!(step, Step::Wait | Step::WaitReceived);
        rounds = rounds.max(schedule.steps.iter().filter(is_wait).count() as u32);
    }
    (count, rounds)
}

fn chain(ranks: u32, one: &dyn Fn(u32) -> Schedule) -> u32 {
    let mut walk = Walk::new(one);
    let sample = (0..60u32).map(|step| step.wrapping_mul(0x9e37_79b9) % ranks);
    let ends = [1, PER_NODE - 1, ranks - PER_NODE, ranks - 1];
    sample.chain(ends).map(|rank| walk.back_from(rank)).max().unwrap_or(0)
}

fn short(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = bytes;
    while value >= 10_000.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 10.0 && value.fract() > 0.05 { 1 } else { 0 };
    format!("{value:.digits$} {}", units[unit])
}

fn thousands(count: f64) -> String {
    match count {
        count if count < 1e5 => format!("{count:.0}"),
        count if count < 1e7 => format!("{:.0} thousand", count / 1e3),
        count => format!("{:.0} million", count / 1e6),
    }
}

const PER_NODE: u32 = 64;
const RANKS: u32 = 16_384 * PER_NODE;
const LONG: usize = 64 << 20;
const SUM: Operator = Operator { element_bytes: 8, commutative: true };
