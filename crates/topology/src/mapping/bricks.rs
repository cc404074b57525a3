//! Bricks: every node is the same box, and the boxes fill the grid like a wall (after Gropp's Nodecart, but
//! the best of all boxes and not the first one found). Only for nodes of equal size.

use super::field::Field;

/// A grid of boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bricks {
    pub(crate) brick: Vec<u32>,
}

impl Bricks {
    /// Each box of `size` cells that divides the field.
    pub(crate) fn all(field: &Field, size: u32) -> Vec<Bricks> {
        let mut found = Vec::new();
        extend(&field.dims, size, &mut Vec::new(), &mut found);
        found
    }

    /// The cells per brick.
    fn size(&self) -> u32 {
        self.brick.iter().product()
    }

    /// The weight of all edges between different bricks.
    pub(crate) fn cut(&self, field: &Field) -> u64 {
        let within: u64 =
            field.links.iter().map(|link| link.weight() * self.pairs_within(field, &link.by)).sum();
        field.edges() - within * u64::from(field.cells / self.size())
    }

    /// How many pairs of cells an offset links within one brick.
    fn pairs_within(&self, field: &Field, by: &[i32]) -> u64 {
        let along = |axis: usize| {
            let (own, extent, step) = (self.brick[axis], field.dims[axis], by[axis].unsigned_abs());
            // The way round a ring comes back into the brick where it is nearly the whole of it.
            let wrapped = if field.periods[axis] && step > 0 { own.saturating_sub(extent - step) } else { 0 };
            u64::from(own.saturating_sub(step) + wrapped)
        };
        (0..by.len()).map(along).product()
    }

    pub(crate) fn cell(&self, field: &Field, position: u32) -> u32 {
        let (mut node, mut within) = (position / self.size(), position % self.size());
        let mut cell = 0;
        for axis in (0..field.axes()).rev() {
            let (own, count) = (self.brick[axis], field.dims[axis] / self.brick[axis]);
            cell += (node % count * own + within % own) * field.strides[axis];
            node /= count;
            within /= own;
        }
        cell
    }

    pub(crate) fn position(&self, field: &Field, cell: u32) -> u32 {
        let (mut node, mut within) = (0, 0);
        for axis in 0..field.axes() {
            let coordinate = cell / field.strides[axis] % field.dims[axis];
            let (own, count) = (self.brick[axis], field.dims[axis] / self.brick[axis]);
            node = node * count + coordinate / own;
            within = within * own + coordinate % own;
        }
        node * self.size() + within
    }

    pub(crate) fn fill(&self, field: &Field, cells: &mut Vec<u32>) {
        let size = self.size();
        let within: Vec<u32> = (0..size).map(|position| self.cell(field, position)).collect();
        for node in 0..field.cells / size {
            let corner = self.cell(field, node * size);
            cells.extend(within.iter().map(|&cell| corner + cell));
        }
    }
}

/// How many pairs of cells an offset links.
pub(crate) fn pairs(field: &Field, by: &[i32]) -> u64 {
    let along = |axis: usize| {
        let step = if field.periods[axis] { 0 } else { by[axis].unsigned_abs() };
        u64::from(field.dims[axis].saturating_sub(step))
    };
    (0..by.len()).map(along).product()
}

fn extend(dims: &[u32], size: u32, brick: &mut Vec<u32>, found: &mut Vec<Bricks>) {
    let Some((&extent, others)) = dims.split_first() else {
        if size == 1 {
            found.push(Bricks { brick: brick.clone() });
        }
        return;
    };
    for own in (1..=extent.min(size)).filter(|own| extent.is_multiple_of(*own) && size.is_multiple_of(*own)) {
        brick.push(own);
        extend(others, size / own, brick, found);
        brick.pop();
    }
}
