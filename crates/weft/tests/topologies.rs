//! Grids of any shape on a machine that is described: cells, coordinates, shifts and parts fit together, and
//! ranks change places as one.

use proptest::prelude::*;
use weft::machine::MachineFrom;
use weft::{Cartesian, Comparison, Config, Rank, run_threads};

/// Extents of at most so many cells, and which axes are rings.
fn grids() -> impl Strategy<Value = (Vec<u32>, Vec<bool>)> {
    let axes = prop::collection::vec((1u32..=4, any::<bool>()), 0..=4);
    let fits = |axes: &Vec<(u32, bool)>| axes.iter().map(|(extent, _)| extent).product::<u32>() <= 12;
    axes.prop_filter("more cells than ranks", fits).prop_map(|axes| axes.into_iter().unzip())
}

/// A host of two packages with two caches and three cores each.
fn config() -> Config {
    Config { machine: MachineFrom::Description("pack:2 l3:2 core:3 pu:1".to_owned()), ..Config::default() }
}

/// What holds on any grid, from one rank.
fn check(grid: &Cartesian) {
    let (here, dims, rings) = (grid.coordinates(), grid.dims(), grid.periods());
    assert_eq!(grid.coordinates_of(grid.rank()), Some(here.clone()));
    for rank in (0..grid.size()).map(Rank) {
        let there = grid.coordinates_of(rank).expect("a rank of the grid");
        let wide: Vec<i64> = there.iter().copied().map(i64::from).collect();
        assert_eq!(grid.rank_at(&wide), Some(rank), "coordinates name one rank");
        for axis in 0..dims.len() {
            let mut beyond = wide.clone();
            beyond[axis] += i64::from(dims[axis]);
            assert_eq!(grid.rank_at(&beyond), rings[axis].then_some(rank), "rings wrap, and others end");
        }
    }
    for by in -5..=5 {
        for shift in grid.shifts(by) {
            let at = |sign: i64| {
                let mut there: Vec<i64> = here.iter().copied().map(i64::from).collect();
                there[shift.axis] += sign * i64::from(by);
                grid.rank_at(&there)
            };
            assert_eq!((shift.source, shift.destination), (at(-1), at(1)), "by {by}");
        }
    }
    let neighbours: Vec<Option<Rank>> = grid.neighbours().map(|neighbour| neighbour.rank).collect();
    let shifted: Vec<Option<Rank>> =
        grid.shifts(1).flat_map(|shift| [shift.source, shift.destination]).collect();
    assert_eq!(neighbours, shifted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn cells_coordinates_shifts_and_parts_fit_together((dims, rings) in grids(), spare in 0u32..3, keep in any::<u8>()) {
        let cells: u32 = dims.iter().product();
        let keep: Vec<bool> = (0..dims.len()).map(|axis| keep >> axis & 1 == 1).collect();
        let members = run_threads(cells + spare, &config(), |session| {
            let world = session.world();
            let stays = world.cartesian(dims.clone()).periodic(rings.clone()).create().unwrap();
            assert_eq!(stays.as_ref().map(|grid| grid.rank()), (world.rank().0 < cells).then_some(world.rank()));
            let made = world.cartesian(dims.clone()).periodic(rings.clone()).reorder(true).create().unwrap();
            let grid = made?;
            check(&grid);
            let full = grid.compare(&world);
            assert!(spare > 0 || matches!(full, Comparison::Identical | Comparison::Similar), "{full:?}");
            // The cells of a part come in the order in which they come in the whole.
            let part = grid.keep_axes(&keep).unwrap();
            check(&part);
            let inside = part.all_gather(&[grid.rank().0]).unwrap();
            assert!(inside.is_sorted() && inside[part.rank().0 as usize] == grid.rank().0);
            let kept: u32 = dims.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(extent, _)| extent).product();
            assert_eq!(part.size(), kept);
            Some(grid.all_gather(&[world.rank().0]).unwrap())
        });
        let members = members.unwrap();
        let orders: Vec<&Vec<u32>> = members.iter().flatten().collect();
        prop_assert_eq!(orders.len() as u32, cells);
        prop_assert!(orders.iter().all(|order| *order == orders[0]), "all have come to the same mapping");
        let mut ranks = orders[0].clone();
        ranks.sort_unstable();
        ranks.dedup();
        prop_assert_eq!(ranks.len() as u32, cells, "each rank has one cell");
    }
}
