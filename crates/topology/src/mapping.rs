//! Which process takes which cell of a grid, so that few messages leave nodes and other parts of the machine.
//!
//! [`map`] tries several orders of the cells, counts for each exactly what it costs, and keeps the best.
//! Leaving every rank at the cell of its own number is one of them and wins ties, so that a mapping is never
//! worse than none. All of it is a function of its arguments: whole numbers, no clock, no message; every rank
//! computes the same.

mod bars;
mod bisect;
mod bound;
mod boxes;
mod bricks;
mod field;
mod graph;
mod joint;
mod kept;
mod large;
mod order;
mod policy;
#[cfg(test)]
pub(crate) mod random;
mod regions;
mod score;
mod stripes;

use std::sync::OnceLock;

use thiserror::Error;

use crate::{Grid, Placement, Stencil};
use bars::Bars;
use field::Field;
pub use graph::map_graph;
pub use joint::{NoChoice, choose_grid};
use kept::Kept;
use order::Order;
use score::Scorer;
pub use score::{Score, level_weight};

/// How a mapping came about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Algorithm {
    /// Each rank keeps the cell of its own number.
    Identity,
    /// Every node a box, the best of all that divide the grid.
    Bricks,
    /// Bars of planned thicknesses, with ragged ends.
    Stripes,
    /// Bars of planned thicknesses, with ragged ends; the nodes are sorted by size first.
    SortedStripes,
    /// Bars of even thicknesses.
    Strips,
    /// The grid cut again and again, whole nodes on both sides.
    Hyperplanes,
    /// The grid cut in halves down to cells: a k-d tree.
    Halves,
    /// Sets of cells cut in two where that cuts the least, level by level.
    Bisection,
}

impl Algorithm {
    /// The algorithm's name, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Identity => "identity",
            Algorithm::Bricks => "bricks",
            Algorithm::Stripes => "stripes",
            Algorithm::SortedStripes => "sorted stripes",
            Algorithm::Strips => "strips",
            Algorithm::Hyperplanes => "hyperplanes",
            Algorithm::Halves => "halves",
            Algorithm::Bisection => "bisection",
        }
    }
}

/// Why a grid cannot be mapped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    /// More cells than ranks.
    #[error("the grid has {cells} cells, and there are {ranks} ranks")]
    TooFewRanks {
        /// Cells of the grid.
        cells: u32,
        /// Ranks of the placement.
        ranks: u32,
    },
    /// The offsets of the stencil are for another grid.
    #[error("the stencil is for {stencil} axes, and the grid has {grid}")]
    Axes {
        /// Axes of the stencil.
        stencil: usize,
        /// Axes of the grid.
        grid: usize,
    },
}

/// Places of a machine and cells of a grid, each cell at one place.
#[derive(Clone, Debug)]
pub struct Mapping {
    placement: Placement,
    field: Field,
    kept: Kept,
    /// `None` for the identity.
    order: Option<Order>,
    algorithm: Algorithm,
    /// Counted when it is asked for, where that takes long.
    before: OnceLock<Score>,
    after: Score,
    lower_bound: u64,
}

/// The best mapping found of the cells of `grid` to the places of `placement`. Where there are fewer cells
/// than ranks, whole nodes are left out first.
///
/// # Errors
/// More cells than ranks; a stencil for another number of axes.
pub fn map(grid: &Grid, stencil: &Stencil, placement: &Placement) -> Result<Mapping, Misfit> {
    if grid.cells() > placement.len() {
        return Err(Misfit::TooFewRanks { cells: grid.cells(), ranks: placement.len() });
    }
    if grid.axes() != stencil.axes() {
        return Err(Misfit::Axes { stencil: stencil.axes(), grid: grid.axes() });
    }
    let field = Field::new(grid, stencil);
    let kept = Kept::new(placement, grid.cells());
    // The most that leave one node decide only where orders cost the same. Where ranks are scattered over a
    // large machine, to count them takes longer than all the rest: that is done when nothing costs less.
    let is_quick = field.cells <= policy::LARGE || placement.is_straight();
    let score = |limit| score_of_ranks(&field, placement, &kept, limit);
    let known = score(if is_quick { u64::MAX } else { 0 });
    let (mut best, lower_bound) = policy::choose(&field, &kept, &known);
    let before = if is_quick { OnceLock::from(known) } else { OnceLock::new() };
    if best.is_none() && !is_quick {
        (best, _) = policy::choose(&field, &kept, before.get_or_init(|| score(u64::MAX)));
    }
    let (algorithm, order, after) = match best {
        Some(best) => (best.algorithm, Some(best.order), best.score),
        None => (Algorithm::Identity, None, before.get_or_init(|| score(u64::MAX)).clone()),
    };
    let placement = placement.clone();
    Ok(Mapping { placement, field, kept, order, algorithm, before, after, lower_bound })
}

/// What it costs to leave each rank at the cell of its own number; without the most that leave a node where
/// it costs more than `limit`.
fn score_of_ranks(field: &Field, placement: &Placement, kept: &Kept, limit: u64) -> Score {
    if policy::LARGE < field.cells && placement.is_straight() && kept.is_first() {
        // Ranks in order are one bar, counted row by row.
        if let Some(score) = regions::score(field, &Bars::single(field), &kept.levels) {
            return score;
        }
    }
    if placement.is_straight() && kept.is_first() {
        let cells: Vec<u32> = (0..field.cells).collect();
        return Scorer::new(field).score(&cells, &kept.levels, limit);
    }
    if placement.listed().len() == field.cells as usize {
        return Scorer::new(field).score(placement.listed(), placement.levels(), limit);
    }
    // The places of ranks without a cell are passed over.
    let here: Vec<u32> =
        (0..placement.len()).map(|place| placement.rank(place)).filter(|&rank| rank < field.cells).collect();
    let mut levels = placement.levels().to_vec();
    if field.cells < placement.len() {
        for (_, sizes) in &mut levels {
            let used = |(start, size): (u64, u32)| {
                let places = start as u32..start as u32 + size;
                places.filter(|&place| placement.rank(place) < field.cells).count() as u32
            };
            *sizes = sizes.starts().zip(sizes.iter()).map(used).collect();
        }
    }
    Scorer::new(field).score(&here, &levels, limit)
}

impl Mapping {
    /// The algorithm that found this mapping.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The cost if each rank kept the cell of its own number. It is counted at the first call.
    #[must_use]
    pub fn before(&self) -> &Score {
        self.before.get_or_init(|| score_of_ranks(&self.field, &self.placement, &self.kept, u64::MAX))
    }

    /// The cost of this mapping.
    #[must_use]
    pub fn after(&self) -> &Score {
        &self.after
    }

    /// A number of edges between nodes below which no mapping comes; 0 where nothing better is known.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound
    }

    /// Whether each rank keeps the cell of its own number.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.order.is_none()
    }

    /// The cell at a place; `None` where the grid is smaller than the machine and the place is left out.
    ///
    /// # Panics
    /// Where there is no such place.
    #[must_use]
    pub fn cell(&self, place: u32) -> Option<u32> {
        match &self.order {
            None => Some(self.placement.rank(place)).filter(|&rank| rank < self.field.cells),
            Some(order) => {
                assert!(place < self.placement.len(), "place {place} of {}", self.placement.len());
                self.kept.position(place).map(|position| order.cell(&self.field, position))
            }
        }
    }

    /// The place that has a cell.
    ///
    /// # Panics
    /// Where there is no such cell.
    #[must_use]
    pub fn place(&self, cell: u32) -> u32 {
        assert!(cell < self.field.cells, "cell {cell} of {}", self.field.cells);
        match &self.order {
            None => self.placement.place(cell),
            Some(order) => self.kept.place(order.position(&self.field, cell)),
        }
    }

    /// The cell of a rank, in the numbers of the old communicator; `None` where it gets none.
    ///
    /// # Panics
    /// Where there is no such rank.
    #[must_use]
    pub fn cell_of_rank(&self, rank: u32) -> Option<u32> {
        self.cell(self.placement.place(rank))
    }

    /// The rank that has a cell, in the numbers of the old communicator.
    ///
    /// # Panics
    /// Where there is no such cell.
    #[must_use]
    pub fn rank_of_cell(&self, cell: u32) -> u32 {
        self.placement.rank(self.place(cell))
    }
}

#[cfg(test)]
mod tests;
