//! Recursive bisection: a set of cells, of any form, is cut in two along the axis where that cuts the least,
//! so that each side holds just the ranks of its parts of the machine; and so on, down to the smallest parts.
//!
//! A cut goes between two places of the cells sorted along its axis, so it may have a step. This fits any
//! sizes of parts, and is used for whole grids that are small and for the inside of nodes.

use super::field::Field;
use crate::{MachineLevel, Sizes};

/// Cuts sets of cells.
pub(crate) struct Bisector<'a> {
    field: &'a Field,
    /// Which side of the cut at hand a cell is on: the number of the cut, or an older one.
    sides: Vec<u32>,
    cuts: u32,
    /// The coordinates of each cell, axis by axis.
    coordinates: Vec<Vec<u32>>,
    sorted: Vec<u32>,
    best: Vec<u32>,
    /// Counts for sorting.
    starts: Vec<u32>,
}

/// How a list of parts is cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Middle {
    /// Half of the parts, rounded down.
    Parts,
    /// As near to half of the ranks as parts allow.
    Ranks,
    /// The largest power of two that is less than all parts.
    Power,
}

impl Middle {
    pub(crate) const ALL: [Middle; 3] = [Middle::Parts, Middle::Ranks, Middle::Power];

    fn of(self, parts: &[u32]) -> usize {
        match self {
            Middle::Parts => parts.len() / 2,
            Middle::Power => (parts.len() as u32).next_power_of_two() as usize / 2,
            Middle::Ranks => {
                let total: u32 = parts.iter().sum();
                let mut before = 0;
                let mut nearest = (u32::MAX, 1);
                for (count, &size) in (1..parts.len()).zip(parts) {
                    before += size;
                    nearest = nearest.min((before.abs_diff(total - before), count));
                }
                nearest.1
            }
        }
    }
}

impl<'a> Bisector<'a> {
    pub(crate) fn new(field: &'a Field) -> Bisector<'a> {
        let coordinate = |axis: usize, cell: u32| cell / field.strides[axis] % field.dims[axis];
        let coordinates = (0..field.axes())
            .map(|axis| (0..field.cells).map(|cell| coordinate(axis, cell)).collect())
            .collect();
        Bisector {
            field,
            sides: vec![0; field.cells as usize],
            cuts: 0,
            coordinates,
            sorted: Vec::new(),
            best: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Orders all cells by parts, level by level from large to small parts.
    pub(crate) fn all(&mut self, levels: &[(MachineLevel, Sizes)], middle: Middle) -> Vec<u32> {
        let mut cells: Vec<u32> = (0..self.field.cells).collect();
        let mut bounds = vec![0, cells.len()];
        for (_, sizes) in levels {
            bounds = self.refine(&mut cells, &bounds, sizes, middle);
        }
        cells
    }

    /// Orders the cells within each stretch between `bounds` by parts, and answers the bounds of these.
    pub(crate) fn refine(
        &mut self,
        cells: &mut [u32],
        bounds: &[usize],
        sizes: &Sizes,
        middle: Middle,
    ) -> Vec<usize> {
        let mut parts = sizes.iter();
        let mut inner = vec![0];
        let mut own = Vec::new();
        for stretch in bounds.windows(2) {
            own.clear();
            let mut end = stretch[0];
            while end < stretch[1] {
                let size = parts.next().expect("parts fill the stretch");
                own.push(size);
                end += size as usize;
                inner.push(end);
            }
            self.bisect(&mut cells[stretch[0]..stretch[1]], &own, middle);
        }
        inner
    }

    fn bisect(&mut self, cells: &mut [u32], parts: &[u32], middle: Middle) {
        if parts.len() < 2 {
            return;
        }
        let middle_part = middle.of(parts);
        let count = parts[..middle_part].iter().sum::<u32>() as usize;
        self.cut(cells, count);
        let (low, high) = cells.split_at_mut(count);
        self.bisect(low, &parts[..middle_part], middle);
        self.bisect(high, &parts[middle_part..], middle);
    }

    /// Sorts the cells so that the first `count` are one side of the cut that costs the least.
    fn cut(&mut self, cells: &mut [u32], count: usize) {
        let mut least = u64::MAX;
        for axis in 0..self.field.axes() {
            self.sort(cells, axis);
            let cost = self.cost(count);
            if cost < least {
                least = cost;
                std::mem::swap(&mut self.sorted, &mut self.best);
            }
        }
        if least < u64::MAX {
            cells.copy_from_slice(&self.best);
        }
    }

    /// Sorts by one coordinate, then by the numbers of the cells, which come in any order.
    fn sort(&mut self, cells: &mut [u32], axis: usize) {
        if axis == 0 {
            cells.sort_unstable();
        }
        let coordinates = &self.coordinates[axis];
        self.starts.clear();
        self.starts.resize(self.field.dims[axis] as usize + 1, 0);
        for &cell in cells.iter() {
            self.starts[coordinates[cell as usize] as usize + 1] += 1;
        }
        for index in 1..self.starts.len() {
            self.starts[index] += self.starts[index - 1];
        }
        self.sorted.clear();
        self.sorted.resize(cells.len(), 0);
        for &cell in cells.iter() {
            let start = &mut self.starts[coordinates[cell as usize] as usize];
            self.sorted[*start as usize] = cell;
            *start += 1;
        }
    }

    /// What is cut between the first `count` of the sorted cells and the others.
    fn cost(&mut self, count: usize) -> u64 {
        self.cuts += 2;
        let (low, high) = (self.cuts - 1, self.cuts);
        for (index, &cell) in self.sorted.iter().enumerate() {
            self.sides[cell as usize] = if index < count { low } else { high };
        }
        let mut cost = 0;
        for link in &self.field.links {
            let mut cut = 0;
            for &cell in &self.sorted {
                if let Some(there) = self.neighbour(cell, &link.by) {
                    let (here, there) = (self.sides[cell as usize], self.sides[there as usize]);
                    cut += u64::from(low <= there && here != there);
                }
            }
            cost += cut * link.weight();
        }
        cost
    }

    fn neighbour(&self, cell: u32, by: &[i32]) -> Option<u32> {
        let mut there = i64::from(cell);
        for (axis, &step) in by.iter().enumerate().filter(|&(_, &step)| step != 0) {
            let (extent, stride) = (self.field.dims[axis] as i32, i64::from(self.field.strides[axis]));
            let moved = self.coordinates[axis][cell as usize] as i32 + step;
            there += i64::from(step) * stride;
            if moved < 0 || extent <= moved {
                if !self.field.periods[axis] {
                    return None;
                }
                there += i64::from(if moved < 0 { extent } else { -extent }) * stride;
            }
        }
        Some(there as u32)
    }
}
