//! A Cartesian grid: extents, which axes close to rings, and the numbers of its cells.
//!
//! Cells are counted row-major, the last axis fastest, as MPI counts them (MPI 5.0 section 8.5.5).

use thiserror::Error;

/// A Cartesian grid. Without axes it has one cell.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Grid {
    dims: Vec<u32>,
    periods: Vec<bool>,
    cells: u32,
}

/// What makes no grid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAGrid {
    /// An axis without cells.
    #[error("axis {axis} has no cells: each extent must be 1 or more")]
    Empty {
        /// Which one, from 0.
        axis: usize,
    },
    /// Cells are numbered by the positive half of an `int`.
    #[error("the extents multiply to more than {} cells", i32::MAX)]
    TooLarge,
    /// Each axis is a ring or not.
    #[error("there are {dims} extents and {periods} periods: give one of each for every axis")]
    Unequal {
        /// How many extents.
        dims: usize,
        /// How many periods.
        periods: usize,
    },
}

impl Grid {
    /// A grid of these extents; an axis with `periods` closes to a ring.
    ///
    /// # Errors
    /// No cells, more than an `int` can count, or lists of different length.
    pub fn new(dims: &[u32], periods: &[bool]) -> Result<Grid, NotAGrid> {
        if dims.len() != periods.len() {
            return Err(NotAGrid::Unequal { dims: dims.len(), periods: periods.len() });
        }
        if let Some(axis) = dims.iter().position(|&extent| extent == 0) {
            return Err(NotAGrid::Empty { axis });
        }
        let product = dims.iter().try_fold(1u32, |product, &extent| product.checked_mul(extent));
        match product {
            Some(cells) if cells <= i32::MAX as u32 => {
                Ok(Grid { dims: dims.to_vec(), periods: periods.to_vec(), cells })
            }
            _ => Err(NotAGrid::TooLarge),
        }
    }

    /// The extents.
    #[must_use]
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Which axes close to rings.
    #[must_use]
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// How many axes.
    #[must_use]
    pub fn axes(&self) -> usize {
        self.dims.len()
    }

    /// How many cells.
    #[must_use]
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// By how much the number of a cell grows along each axis.
    #[must_use]
    pub fn strides(&self) -> Vec<u32> {
        let mut strides = vec![1; self.dims.len()];
        for axis in (1..self.dims.len()).rev() {
            strides[axis - 1] = strides[axis] * self.dims[axis];
        }
        strides
    }

    /// The grid of the axes that are kept (MPI 5.0 §8.5.8).
    ///
    /// # Panics
    /// Where `keep` has not one entry per axis.
    #[must_use]
    pub fn part(&self, keep: &[bool]) -> Grid {
        assert_eq!(keep.len(), self.axes(), "axes that are kept or not");
        let kept = || (0..keep.len()).filter(|&axis| keep[axis]);
        let dims: Vec<u32> = kept().map(|axis| self.dims[axis]).collect();
        let cells = dims.iter().product();
        Grid { dims, periods: kept().map(|axis| self.periods[axis]).collect(), cells }
    }

    /// Writes the coordinates of a cell.
    ///
    /// # Panics
    /// Where there is no such cell, or `coordinates` has not one entry per axis.
    pub fn coordinates(&self, cell: u32, coordinates: &mut [u32]) {
        assert!(cell < self.cells && coordinates.len() == self.dims.len(), "cell {cell} of {self:?}");
        let mut rest = cell;
        for (coordinate, &extent) in coordinates.iter_mut().zip(&self.dims).rev() {
            *coordinate = rest % extent;
            rest /= extent;
        }
    }

    /// The coordinates of a cell.
    ///
    /// # Panics
    /// Where there is no such cell.
    #[must_use]
    pub fn place_of(&self, cell: u32) -> Vec<u32> {
        let mut coordinates = vec![0; self.axes()];
        self.coordinates(cell, &mut coordinates);
        coordinates
    }

    /// The cell at these coordinates; those of rings are taken into their range. `None` beyond an edge.
    #[must_use]
    pub fn cell(&self, coordinates: &[i64]) -> Option<u32> {
        let mut cell = 0;
        for ((&coordinate, &extent), &is_ring) in coordinates.iter().zip(&self.dims).zip(&self.periods) {
            let inside = if is_ring { coordinate.rem_euclid(i64::from(extent)) } else { coordinate };
            cell = cell * extent + u32::try_from(inside).ok().filter(|&inside| inside < extent)?;
        }
        Some(cell)
    }

    /// The cell that lies by that much away. `None` beyond an edge.
    #[must_use]
    pub fn neighbour(&self, cell: u32, by: &[i32]) -> Option<u32> {
        let (mut rest, mut stride, mut there) = (cell, 1, 0);
        for ((&extent, &is_ring), &step) in self.dims.iter().zip(&self.periods).zip(by).rev() {
            let moved = i64::from(rest % extent) + i64::from(step);
            let inside = if is_ring { moved.rem_euclid(i64::from(extent)) } else { moved };
            there += stride * u32::try_from(inside).ok().filter(|&inside| inside < extent)?;
            rest /= extent;
            stride *= extent;
        }
        Some(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_row_major() {
        let grid = Grid::new(&[3, 4, 2], &[true, false, false]).expect("a grid");
        let mut coordinates = [0; 3];
        for cell in 0..24 {
            grid.coordinates(cell, &mut coordinates);
            assert_eq!(grid.cell(&coordinates.map(i64::from)), Some(cell));
        }
        assert_eq!((grid.cells(), grid.strides()), (24, vec![8, 2, 1]));
        assert_eq!(
            (grid.cell(&[-1, 3, 1]), grid.cell(&[0, 4, 0]), grid.cell(&[3, 0, 0])),
            (Some(23), None, Some(0))
        );
        assert_eq!(grid.neighbour(0, &[-1, 3, 1]), Some(23));
        assert_eq!((grid.neighbour(0, &[0, -1, 0]), grid.neighbour(23, &[1, 0, -1])), (None, Some(6)));
        assert_eq!(Grid::new(&[], &[]).expect("a point").cells(), 1);
    }

    #[test]
    fn what_is_no_grid_says_why() {
        assert_eq!(Grid::new(&[2, 0], &[false; 2]), Err(NotAGrid::Empty { axis: 1 }));
        assert_eq!(Grid::new(&[65536, 65536], &[false; 2]), Err(NotAGrid::TooLarge));
        assert_eq!(Grid::new(&[65536, 32768], &[false; 2]), Err(NotAGrid::TooLarge));
        assert_eq!(Grid::new(&[2], &[]), Err(NotAGrid::Unequal { dims: 1, periods: 0 }));
    }
}
