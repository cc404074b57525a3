//! Orders of the cells of a grid: which cell each position gets. One variant per algorithm that has a closed form; the rest
//! are tables.

use std::sync::Arc;

use super::field::Field;

/// A bijection between positions and cells.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Cells one by one, listed.
    Table(Table),
}

/// The cell at each position, and the position of each cell.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    cells: Arc<[u32]>,
    positions: Arc<[u32]>,
}

impl Table {
    pub(crate) fn new(cells: Vec<u32>) -> Table {
        let mut positions = vec![0; cells.len()];
        for (position, &cell) in (0..).zip(&cells) {
            positions[cell as usize] = position;
        }
        Table { cells: cells.into(), positions: positions.into() }
    }
}

impl Order {
    pub(crate) fn cell(&self, _field: &Field, position: u32) -> u32 {
        match self {
            Order::Table(table) => table.cells[position as usize],
        }
    }

    pub(crate) fn position(&self, _field: &Field, cell: u32) -> u32 {
        match self {
            Order::Table(table) => table.positions[cell as usize],
        }
    }

    /// The cells in the order of positions.
    pub(crate) fn fill(&self, _field: &Field, cells: &mut Vec<u32>) {
        cells.clear();
        match self {
            Order::Table(table) => cells.extend_from_slice(&table.cells),
        }
    }
}
