//! Extents and mapping chosen together, after Niethammer and Rabenseifner: balanced extents alone do not keep
//! messages within nodes; extents that suit the nodes do.
//!
//! What is sent does not depend on the extents alone: the more often an axis is cut, the smaller are the
//! faces of one process across all *other* axes. A whole domain with a face of area `F` across an axis, cut
//! into `d` pieces along it, sends `F * d / cells` over each edge along that axis.

use thiserror::Error;

use super::bound::lower_bound;
use super::field::Field;
use super::{Mapping, Misfit, level_weight, map};
use crate::{Grid, MachineLevel, NotAGrid, Placement, Stencil, WEIGHT_MAX};

/// Why no extents can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoChoice {
    /// The lists are of different lengths.
    #[error("there are {dims} extents, {periods} periods and {faces} faces: give one of each for every axis")]
    Unequal {
        /// How many extents.
        dims: usize,
        /// How many periods.
        periods: usize,
        /// How many faces.
        faces: usize,
    },
    /// The extents that are fixed do not divide the cells, or leave none to choose and make another number.
    #[error("{cells} cells cannot be made of the extents that are fixed: they multiply to {product}")]
    Product {
        /// Cells that were asked for.
        cells: u32,
        /// What the fixed extents multiply to.
        product: u128,
    },
    /// The cells are no grid.
    #[error(transparent)]
    Grid(#[from] NotAGrid),
    /// The grid does not fit the machine.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// Extents for the entries of `dims` that are 0, so that all multiply to `cells`, and a mapping of that grid;
/// of all extents those with which the least is sent, weighted by what each message leaves. `faces` are the
/// areas of the whole domain across each axis, in proportion and at most [`WEIGHT_MAX`]: 1 everywhere for a
/// cube. Neighbours along each axis exchange.
///
/// The edges that the mapping counts are weighted, so they compare with those of other mappings from here
/// only where the extents are the same.
///
/// # Errors
/// Numbers that do not divide, lists of different lengths, more cells than ranks.
pub fn choose_grid(
    cells: u32,
    dims: &[u32],
    periods: &[bool],
    faces: &[u32],
    placement: &Placement,
) -> Result<(Grid, Mapping), NoChoice> {
    if dims.len() != periods.len() || dims.len() != faces.len() {
        return Err(NoChoice::Unequal { dims: dims.len(), periods: periods.len(), faces: faces.len() });
    }
    let fixed = dims.iter().filter(|&&extent| extent > 0).map(|&extent| u128::from(extent));
    let product = fixed.fold(1u128, u128::saturating_mul);
    let is_met =
        if dims.contains(&0) { u128::from(cells) % product == 0 } else { u128::from(cells) == product };
    if cells == 0 || !is_met {
        return Err(NoChoice::Product { cells, product });
    }
    if placement.len() < cells {
        return Err(Misfit::TooFewRanks { cells, ranks: placement.len() }.into());
    }
    let mut likely = Vec::new();
    extend(cells / product as u32, dims, &mut Vec::new(), &mut likely);
    let sent = |dims: &[u32]| -> Vec<u64> {
        dims.iter().zip(faces).map(|(&extent, &face)| u64::from(extent) * u64::from(face)).collect()
    };
    likely.sort_by_cached_key(|dims| (sent(dims).iter().sum::<u64>(), spread(dims)));
    likely.truncate(LIKELY);
    // One scale for all, so that what they cost can be compared.
    let largest = likely.iter().flat_map(|dims| sent(dims)).max().unwrap_or(1);
    let shift = (0..64).find(|&shift| largest >> shift <= u64::from(WEIGHT_MAX)).unwrap_or(0);
    let weights =
        |dims: &[u32]| sent(dims).into_iter().map(|sent| (sent >> shift).max(1) as u32).collect::<Vec<u32>>();
    best(&likely, periods, &weights, placement)
}

/// Maps the grids whose bounds are the lowest, and takes the best.
fn best(
    likely: &[Vec<u32>],
    periods: &[bool],
    weights: &dyn Fn(&[u32]) -> Vec<u32>,
    placement: &Placement,
) -> Result<(Grid, Mapping), NoChoice> {
    let mut bounded = Vec::with_capacity(likely.len());
    for dims in likely {
        let (grid, stencil) = (Grid::new(dims, periods)?, Stencil::weighted(&weights(dims)));
        let field = Field::new(&grid, &stencil);
        let sizes = super::kept::Kept::new(placement, grid.cells());
        let between = lower_bound(&field, sizes.nodes());
        bounded.push((
            field.edges() + (level_weight(MachineLevel::Node) - 1) * between,
            spread(dims),
            grid,
            stencil,
        ));
    }
    bounded.sort_by_key(|&(bound, spread, _, _)| (bound, spread));
    let mut best: Option<((u64, u32), Grid, Mapping)> = None;
    for (_, spread, grid, stencil) in bounded.into_iter().take(MAPPED) {
        let mapping = map(&grid, &stencil, placement)?;
        let key = (mapping.after().cost, spread);
        if best.as_ref().is_none_or(|(least, _, _)| key < *least) {
            best = Some((key, grid, mapping));
        }
    }
    best.map(|(_, grid, mapping)| (grid, mapping)).ok_or(NoChoice::Product { cells: 0, product: 0 })
}

fn spread(dims: &[u32]) -> u32 {
    dims.iter().max().unwrap_or(&0) - dims.iter().min().unwrap_or(&0)
}

/// All extents for the free entries that multiply to `rest`.
fn extend(rest: u32, dims: &[u32], chosen: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    let Some((&extent, others)) = dims.split_first() else {
        if rest == 1 && found.len() < FOUND_MAX {
            found.push(chosen.clone());
        }
        return;
    };
    let is_last = !others.contains(&0);
    let mut with = |own: u32, rest: u32| {
        chosen.push(own);
        extend(rest, others, chosen, found);
        chosen.pop();
    };
    match (extent, is_last) {
        (0, true) => with(rest, 1),
        (0, false) => {
            // Divisors in pairs, the smaller and what it leaves.
            let small = (1..=rest.isqrt()).filter(|own| rest.is_multiple_of(*own)).collect::<Vec<u32>>();
            let large = small.iter().rev().map(|own| rest / own).filter(|own| own * own != rest);
            let all: Vec<u32> = small.iter().copied().chain(large).collect();
            all.into_iter().for_each(|own| with(own, rest / own));
        }
        (fixed, _) => with(fixed, rest),
    }
}

/// How many extents are looked at more closely, by what they send in all.
const LIKELY: usize = 256;
/// How many of these are mapped.
const MAPPED: usize = 12;
/// The most extents that are looked at.
const FOUND_MAX: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sizes, dims_create};

    fn choose(cells: u32, dims: &[u32], faces: &[u32], node: u32) -> (Vec<u32>, u64) {
        let placement = Placement::blocked(Sizes::equal(cells.div_ceil(node), node));
        let (grid, mapping) =
            choose_grid(cells, dims, &vec![false; dims.len()], faces, &placement).expect("a choice");
        assert_eq!(grid.cells(), cells);
        (grid.dims().to_vec(), mapping.after().cost)
    }

    /// What all extents cost, one after the other.
    fn least_of_all(cells: u32, node: u32) -> u64 {
        let placement = Placement::blocked(Sizes::equal(cells / node, node));
        let cost = |rows: u32| {
            let grid = Grid::new(&[rows, cells / rows], &[false; 2]).expect("a grid");
            let stencil = Stencil::weighted(grid.dims());
            map(&grid, &stencil, &placement).expect("it fits").after().cost
        };
        (1..=cells).filter(|rows| cells.is_multiple_of(*rows)).map(cost).min().expect("at least one")
    }

    #[test]
    fn no_extents_send_less() {
        for (cells, node) in [(36, 6), (60, 12), (96, 16), (72, 8), (120, 10), (240, 48)] {
            assert_eq!(
                choose(cells, &[0, 0], &[1, 1], node).1,
                least_of_all(cells, node),
                "{cells} by {node}"
            );
        }
    }

    #[test]
    fn it_is_no_worse_than_balanced_extents() {
        for (cells, node) in [(2400, 48), (1536, 32), (720, 36), (4096, 128)] {
            let mut balanced = [0; 3];
            dims_create(cells as i32, &mut balanced).expect("some extents");
            let balanced = balanced.map(|extent| extent as u32);
            let placement = Placement::blocked(Sizes::equal(cells / node, node));
            let grid = Grid::new(&balanced, &[false; 3]).expect("a grid");
            let mapping = map(&grid, &Stencil::weighted(&balanced), &placement).expect("it fits");
            assert!(choose(cells, &[0; 3], &[1; 3], node).1 <= mapping.after().cost, "{cells} by {node}");
        }
    }

    #[test]
    fn the_domain_and_fixed_extents_count() {
        // A domain a hundred times as long as it is wide is cut along its length only.
        assert_eq!(choose(48, &[0, 0], &[1, 100], 6).0, [48, 1]);
        assert_eq!(choose(48, &[0, 4, 0], &[1; 3], 6).0[1], 4);
        assert_eq!(choose(7, &[0, 0, 0], &[1; 3], 7).0.iter().max(), Some(&7));
        assert_eq!(choose(24, &[4, 6], &[1, 1], 6).0, [4, 6]);
    }

    #[test]
    fn what_cannot_be_says_why() {
        let placement = Placement::blocked(Sizes::equal(4, 6));
        let wrong = |cells, dims: &[u32], faces: &[u32]| {
            choose_grid(cells, dims, &vec![false; dims.len()], faces, &placement).expect_err("impossible")
        };
        assert_eq!(wrong(24, &[5, 0], &[1, 1]), NoChoice::Product { cells: 24, product: 5 });
        assert_eq!(wrong(24, &[4, 4], &[1, 1]), NoChoice::Product { cells: 24, product: 16 });
        assert_eq!(wrong(24, &[u32::MAX; 9], &[1; 9]), NoChoice::Product { cells: 24, product: u128::MAX });
        assert_eq!(wrong(0, &[0, 0], &[1, 1]), NoChoice::Product { cells: 0, product: 1 });
        assert_eq!(wrong(24, &[0, 0], &[1]), NoChoice::Unequal { dims: 2, periods: 2, faces: 1 });
        assert_eq!(
            wrong(30, &[0, 0], &[1, 1]),
            NoChoice::Misfit(Misfit::TooFewRanks { cells: 30, ranks: 24 })
        );
    }
}
