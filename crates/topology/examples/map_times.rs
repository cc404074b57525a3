//! How long mappings take: `cargo run --release -p weft-topology --example map_times [ROUNDS]`.
//!
//! Rounds go through all cases in turn, so that a noisy machine disturbs all alike; the least and the median
//! of each are printed.

use std::hint::black_box;
use std::time::{Duration, Instant};

use topology::{Algorithm, Grid, Level, MachineLevel, Placement, Sizes, Stencil, dims_create, map};

/// A name, and what is timed.
type Case = (String, Box<dyn Fn() -> Duration>);

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    let cases = cases();
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((_, run), times) in cases.iter().zip(&mut times) {
            times.push(run());
        }
    }
    println!("{:<44} {:>12} {:>12}", "of one core, in microseconds", "least", "median");
    for ((name, _), mut times) in cases.into_iter().zip(times) {
        times.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!("{name:<44} {:>12.2} {:>12.2}", micros(times[0]), micros(times[times.len() / 2]));
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dims, stencil) in [
        (vec![50, 48], "nearest"),
        (vec![64, 60], "nearest"),
        (vec![50, 48], "hops"),
        (vec![12, 10, 20], "nearest"),
        (vec![128, 128], "nearest"),
        (vec![25, 40, 80], "nearest"),
        (vec![50, 50, 50], "nearest"),
        (vec![100, 100, 100], "nearest"),
        (vec![1000, 1000], "nearest"),
        (vec![125, 100, 80], "nearest"),
        (vec![40, 25, 40, 25], "nearest"),
    ] {
        add(&mut cases, &dims, stencil);
    }
    levels(&mut cases);
    dealt_out(&mut cases);
    for nodes in [48, 720, 5040, 99_999, i32::MAX, 2_095_133_040] {
        let create = move || {
            let mut dims = [0; 3];
            dims_create(black_box(nodes), &mut dims).expect("three extents");
            dims
        };
        cases.push((format!("dims_create {nodes} in 3"), Box::new(move || many(100, &create))));
    }
    let create = || {
        let mut dims = [0; 6];
        dims_create(black_box(2_095_133_040), &mut dims).expect("six extents");
        dims
    };
    cases.push(("dims_create 2095133040 in 6".to_owned(), Box::new(move || many(10, &create))));
    cases
}

/// A grid of full nodes with 48 ranks each, and the last one with the rest.
fn add(cases: &mut Vec<Case>, dims: &[u32], stencil: &str) {
    let grid = Grid::new(dims, &vec![false; dims.len()]).expect("a grid");
    let (whole, rest) = (grid.cells() / 48, grid.cells() % 48);
    let nodes: Sizes = Sizes::equal(whole, 48).iter().chain([rest]).filter(|&size| size > 0).collect();
    let placement = Placement::blocked(nodes);
    let stencil_of = Stencil::parse(stencil, dims.len()).expect("a name");
    let mapping = map(&grid, &stencil_of, &placement).expect("it fits");
    let extents = dims.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    println!(
        "{extents} {stencil}: {}, {} edges between nodes, at least {}, {} before",
        mapping.algorithm().name(),
        mapping.after().j_sum,
        mapping.lower_bound(),
        mapping.before().j_sum
    );
    assert!(mapping.algorithm() != Algorithm::Identity);
    let cells = grid.cells();
    cases.push((
        format!("map {extents} {stencil}"),
        Box::new(move || many(if cells < 10_000 { 5 } else { 1 }, &|| map(&grid, &stencil_of, &placement))),
    ));
    let next = std::cell::Cell::new(0);
    let own = move || {
        next.set((next.get() + 7919) % cells);
        mapping.cell_of_rank(black_box(next.get()))
    };
    cases.push(("  then the cell of a rank".to_owned(), Box::new(move || many(1000, &own))));
}

fn levels(cases: &mut Vec<Case>) {
    let grid = Grid::new(&[50, 48], &[false; 2]).expect("a grid");
    let levels = vec![
        (MachineLevel::Node, Sizes::equal(50, 48)),
        (MachineLevel::Part(Level::Package), Sizes::equal(100, 24)),
        (MachineLevel::Part(Level::L3Cache), Sizes::equal(400, 6)),
    ];
    let placement = Placement::new(Vec::new(), levels).expect("sound");
    let stencil = Stencil::nearest(2);
    cases.push((
        "map 50x48 with packages and caches".to_owned(),
        Box::new(move || many(1, &|| map(&grid, &stencil, &placement))),
    ));
}

/// A million ranks, dealt out to the nodes one by one.
fn dealt_out(cases: &mut Vec<Case>) {
    let grid = Grid::new(&[100, 100, 100], &[false; 3]).expect("a grid");
    let ranks = (0..20_000).flat_map(|node| (0..50).map(move |card| card * 20_000 + node)).collect();
    let placement =
        Placement::new(ranks, vec![(MachineLevel::Node, Sizes::equal(20_000, 50))]).expect("sound");
    let stencil = Stencil::nearest(3);
    cases.push((
        "map 100x100x100, ranks dealt out".to_owned(),
        Box::new(move || many(1, &|| map(&grid, &stencil, &placement))),
    ));
}

/// The mean time of some runs.
fn many<T>(count: u32, run: &dyn Fn() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        black_box(run());
    }
    start.elapsed() / count
}
