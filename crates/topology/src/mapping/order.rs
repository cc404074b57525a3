//! Orders of the cells of a grid: which cell each position gets. One variant per algorithm that has a closed
//! form; the rest are tables.

use std::sync::Arc;

use super::bars::Bars;
use super::boxes::Boxes;
use super::bricks::Bricks;
use super::field::Field;
use crate::Sizes;

/// A bijection between positions and cells.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Bars, one after the other.
    Bars(Bars),
    /// Every node a box.
    Bricks(Bricks),
    /// Boxes within boxes.
    Boxes(Boxes),
    /// Another order, in which the nodes come in another sequence.
    Shuffled(Shuffled),
    /// Cells one by one, listed.
    Table(Table),
}

/// Nodes in another sequence than that of their places.
#[derive(Clone, Debug)]
pub(crate) struct Shuffled {
    order: Box<Order>,
    /// By node: its first position, and its first position in the other sequence.
    nodes: Vec<(u32, u32)>,
    /// The pairs of `nodes`, ordered by the second number: by the first position in the other sequence.
    slots: Vec<(u32, u32)>,
}

impl Shuffled {
    /// `order` is for the nodes in the sequence `nodes`, which are of these sizes.
    pub(crate) fn new(order: Order, sizes: &Sizes, sequence: &[u32]) -> Shuffled {
        let sizes: Vec<u32> = sizes.iter().collect();
        let mut nodes: Vec<(u32, u32)> = Vec::with_capacity(sizes.len());
        let mut next = 0;
        for &size in &sizes {
            nodes.push((next, 0));
            next += size;
        }
        next = 0;
        for &node in sequence {
            nodes[node as usize].1 = next;
            next += sizes[node as usize];
        }
        let slots = sequence.iter().map(|&node| nodes[node as usize]).collect();
        Shuffled { order: Box::new(order), nodes, slots }
    }

    fn inner(&self, position: u32) -> u32 {
        let (start, slot) = self.nodes[self.nodes.partition_point(|&(start, _)| start <= position) - 1];
        slot + (position - start)
    }

    fn outer(&self, inner: u32) -> u32 {
        let (start, slot) = self.slots[self.slots.partition_point(|&(_, slot)| slot <= inner) - 1];
        start + (inner - slot)
    }
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
    pub(crate) fn cell(&self, field: &Field, position: u32) -> u32 {
        match self {
            Order::Bars(bars) => bars.cell(field, position),
            Order::Bricks(bricks) => bricks.cell(field, position),
            Order::Boxes(boxes) => boxes.cell(field, position),
            Order::Shuffled(shuffled) => shuffled.order.cell(field, shuffled.inner(position)),
            Order::Table(table) => table.cells[position as usize],
        }
    }

    pub(crate) fn position(&self, field: &Field, cell: u32) -> u32 {
        match self {
            Order::Bars(bars) => bars.position(field, cell),
            Order::Bricks(bricks) => bricks.position(field, cell),
            Order::Boxes(boxes) => boxes.position(field, cell),
            Order::Shuffled(shuffled) => shuffled.outer(shuffled.order.position(field, cell)),
            Order::Table(table) => table.positions[cell as usize],
        }
    }

    /// The cells in the order of positions.
    pub(crate) fn fill(&self, field: &Field, cells: &mut Vec<u32>) {
        cells.clear();
        match self {
            Order::Bars(bars) => bars.fill(field, cells),
            Order::Bricks(bricks) => bricks.fill(field, cells),
            Order::Boxes(boxes) => boxes.fill(field, cells),
            Order::Table(table) => cells.extend_from_slice(&table.cells),
            Order::Shuffled(shuffled) => {
                let mut inner = Vec::with_capacity(field.cells as usize);
                shuffled.order.fill(field, &mut inner);
                let ends = shuffled.nodes.iter().skip(1).map(|&(start, _)| start).chain([field.cells]);
                for (&(start, slot), end) in shuffled.nodes.iter().zip(ends) {
                    cells.extend_from_slice(&inner[slot as usize..(slot + (end - start)) as usize]);
                }
            }
        }
    }
}
