//! A grid with a stencil, in the form that counting wants: axes of one cell left out, offsets that lead to no
//! other cell left out, each offset joined with its opposite, and the pairs of cells that an offset connects
//! as spans of numbers.

use std::collections::BTreeMap;

use crate::{Grid, Stencil};

/// A grid, and the links by which its cells send to each other. Cells have the numbers that they have in the
/// grid.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) dims: Vec<u32>,
    pub(crate) periods: Vec<bool>,
    pub(crate) strides: Vec<u32>,
    pub(crate) cells: u32,
    pub(crate) links: Vec<Link>,
}

/// An offset and its opposite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) by: Vec<i32>,
    /// The weight that is sent along the offset; `back` is the weight that is sent in the opposite direction.
    pub(crate) there: u64,
    pub(crate) back: u64,
}

impl Link {
    pub(crate) fn weight(&self) -> u64 {
        self.there + self.back
    }

    /// The axis of the link, where it goes along a single one.
    pub(crate) fn axis(&self) -> Option<usize> {
        let mut axes = (0..self.by.len()).filter(|&axis| self.by[axis] != 0);
        axes.next().filter(|_| axes.next().is_none())
    }
}

/// Cells `from..from + length` are linked to `to..to + length`, one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) length: u32,
}

impl Field {
    pub(crate) fn new(grid: &Grid, stencil: &Stencil) -> Field {
        let long: Vec<usize> = (0..grid.axes()).filter(|&axis| grid.dims()[axis] > 1).collect();
        let dims: Vec<u32> = long.iter().map(|&axis| grid.dims()[axis]).collect();
        let periods: Vec<bool> = long.iter().map(|&axis| grid.periods()[axis]).collect();
        let all = grid.strides();
        let strides = long.iter().map(|&axis| all[axis]).collect();
        let mut field = Field { dims, periods, strides, cells: grid.cells(), links: Vec::new() };
        let mut sums: BTreeMap<Vec<i32>, u64> = BTreeMap::new();
        for offset in stencil.offsets() {
            let leaves = (0..grid.axes())
                .any(|axis| !grid.periods()[axis] && offset.by[axis].unsigned_abs() >= grid.dims()[axis]);
            let by = field.reduced(long.iter().map(|&axis| offset.by[axis]));
            if !leaves && by.iter().any(|&step| step != 0) {
                *sums.entry(by).or_default() += u64::from(offset.weight);
            }
        }
        while let Some((by, there)) = sums.pop_last() {
            let opposite = field.reduced(by.iter().map(|step| -step));
            let back = sums.remove(&opposite).unwrap_or(0);
            field.links.push(Link { by, there, back });
        }
        field
    }

    /// The shortest way round each ring.
    fn reduced(&self, by: impl Iterator<Item = i32>) -> Vec<i32> {
        let shortest = |(step, axis): (i32, usize)| {
            let extent = self.dims[axis] as i32;
            match (self.periods[axis], step.rem_euclid(extent)) {
                (false, _) => step,
                (true, ahead) if ahead > extent / 2 => ahead - extent,
                (true, ahead) => ahead,
            }
        };
        by.zip(0..).map(shortest).collect()
    }

    pub(crate) fn axes(&self) -> usize {
        self.dims.len()
    }

    /// All edges, with their weights.
    pub(crate) fn edges(&self) -> u64 {
        self.links.iter().map(|link| link.weight() * super::bricks::pairs(self, &link.by)).sum()
    }

    /// The weight that leaves a wall of `thickness` cells across `axis`, for each line of cells along the
    /// axis, on both sides together.
    pub(crate) fn face(&self, axis: usize, thickness: u32) -> u64 {
        let leaves = |link: &Link| link.weight() * u64::from(link.by[axis].unsigned_abs().min(thickness));
        self.links.iter().map(leaves).sum()
    }

    /// The pairs of cells that a link connects.
    pub(crate) fn spans(&self, link: &Link) -> Vec<Span> {
        let mut spans = vec![Span { from: 0, to: 0, length: 1 }];
        let last = link.by.iter().rposition(|&step| step != 0).unwrap_or(0);
        for axis in 0..=last {
            let (extent, stride) = (self.dims[axis], self.strides[axis]);
            let pieces = pieces(extent, self.periods[axis], link.by[axis]);
            let mut next = Vec::with_capacity(spans.len() * extent as usize);
            for span in &spans {
                for &(from, to, length) in &pieces {
                    let at =
                        |index: u32| (span.from + (from + index) * stride, span.to + (to + index) * stride);
                    let (steps, length) = if axis == last { (1, length * stride) } else { (length, 1) };
                    next.extend((0..steps).map(at).map(|(from, to)| Span { from, to, length }));
                }
            }
            spans = next;
        }
        spans
    }
}

/// Along one axis: from, to, how many.
fn pieces(extent: u32, is_ring: bool, step: i32) -> Vec<(u32, u32, u32)> {
    let (far, ahead) = (step.unsigned_abs(), step > 0);
    let (rest, wrapped) = match ahead {
        true => ((0, far, extent - far), (extent - far, 0, far)),
        false => ((far, 0, extent - far), (0, extent - far, far)),
    };
    if is_ring && far > 0 { vec![rest, wrapped] } else { vec![rest] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_the_pairs_of_neighbours() {
        let text = "1,0,0; -1,0,0; 0,1,0; 0,0,2*3; 1,-1,1; 0,3,0; 0,0,5";
        for periods in 0..8 {
            let periods = [0, 1, 2].map(|axis| periods >> axis & 1 == 1);
            let grid = Grid::new(&[3, 2, 5], &periods).expect("a grid");
            let stencil = Stencil::parse(text, 3).expect("offsets");
            let field = Field::new(&grid, &stencil);
            let mut counted: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for link in &field.links {
                for span in field.spans(link) {
                    for index in 0..span.length {
                        let (from, to) = (span.from + index, span.to + index);
                        *counted.entry((from, to)).or_default() += link.there;
                        *counted.entry((to, from)).or_default() += link.back;
                    }
                }
            }
            counted.retain(|_, weight| *weight > 0);
            let mut expected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for cell in 0..grid.cells() {
                for offset in stencil.offsets() {
                    if let Some(there) = grid.neighbour(cell, &offset.by).filter(|&there| there != cell) {
                        *expected.entry((cell, there)).or_default() += u64::from(offset.weight);
                    }
                }
            }
            assert_eq!(counted, expected, "{periods:?}");
        }
    }

    #[test]
    fn axes_of_one_cell_are_left_out() {
        let grid = Grid::new(&[1, 4, 1], &[true, false, false]).expect("a grid");
        let field = Field::new(&grid, &Stencil::nearest(3));
        assert_eq!((field.dims.clone(), field.strides.clone()), (vec![4], vec![1]));
        assert_eq!(field.links, [Link { by: vec![1], there: 1, back: 1 }]);
        assert!(Field::new(&Grid::new(&[], &[]).expect("a point"), &Stencil::nearest(0)).links.is_empty());
    }
}
