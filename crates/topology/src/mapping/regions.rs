//! What bars cost, without looking at each cell: a part of the machine has a stretch of positions, which are
//! a few boxes; edges within boxes and between two of them are products of overlaps. Parts of the same form
//! are counted once.

use std::collections::HashMap;

use super::bars::Bars;
use super::field::Field;
use super::score::Score;
use crate::{MachineLevel, Sizes};

/// The most axes of a field that is counted so.
pub(crate) const AXES_MAX: usize = 8;

/// From a lowest corner to below a highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    low: [i64; AXES_MAX],
    high: [i64; AXES_MAX],
}

/// What is known of a part: the edges within it, and all that begin in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct CountedRegions {
    within: u64,
    begun: u64,
}

/// Counts the edges of bars.
pub(crate) struct Regions<'a> {
    field: &'a Field,
    bars: &'a Bars,
    /// The farthest step along each axis.
    reach: Vec<u32>,
    /// Which bars are alike: of one thickness, and as near to the borders of the grid.
    kinds: Vec<u32>,
    kinds_count: usize,
    boxes: Vec<Region>,
}

/// The score of bars; `None` where the field has too many axes.
pub(crate) fn score(field: &Field, bars: &Bars, levels: &[(MachineLevel, Sizes)]) -> Option<Score> {
    if AXES_MAX < field.axes() {
        return None;
    }
    let edges = field.edges();
    let mut regions = Regions::new(field, bars);
    let (mut cut, mut j_max) = (Vec::new(), 0);
    for (level, sizes) in levels {
        let (within, most_out) = regions.level(sizes);
        cut.push((*level, edges - within));
        j_max = if *level == MachineLevel::Node { most_out } else { j_max };
    }
    Some(Score::new(edges, cut, j_max))
}

impl<'a> Regions<'a> {
    fn new(field: &'a Field, bars: &'a Bars) -> Regions<'a> {
        let farthest =
            |axis: usize| field.links.iter().map(|link| link.by[axis].unsigned_abs()).max().unwrap_or(0);
        let reach = (0..field.axes()).map(farthest).collect();
        let (kinds, boxes) = (Vec::new(), Vec::new());
        let mut regions = Regions { field, bars, reach, kinds, kinds_count: 0, boxes };
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        for bar in 0..bars.starts.len() {
            let next = known.len() as u32;
            let kind = *known.entry(regions.likeness(bar)).or_insert(next);
            regions.kinds.push(kind);
        }
        regions.kinds_count = known.len();
        regions
    }

    /// What makes parts of two bars count alike.
    fn likeness(&self, bar: usize) -> Vec<u32> {
        let mut key = vec![u32::from(self.bars.is_backwards(bar))];
        for (level, &axis) in self.bars.cross.iter().enumerate() {
            let (low, size) = (self.bars.low(bar)[level], self.bars.size(bar)[level]);
            let is_ring = self.field.periods[axis];
            let near = |distance: u32| if is_ring { 0 } else { distance.min(self.reach[axis]) };
            key.extend([size, near(low), near(self.field.dims[axis] - low - size)]);
        }
        key
    }

    /// The edges within the parts of a level, and the most that leave one part.
    fn level(&mut self, sizes: &Sizes) -> (u64, u64) {
        let (mut within, mut most_out) = (0, 0);
        let (mut start, mut bar) = (0, 0);
        let mut known: Vec<Vec<CountedRegions>> = Vec::new();
        for run in sizes.runs() {
            known.clear();
            known.resize(self.kinds_count, Vec::new());
            for _ in 0..run.parts {
                while self.bars.starts.get(bar + 1).is_some_and(|&next| next <= start) {
                    bar += 1;
                }
                let counted = self.part(bar, start, run.size, &mut known);
                within += counted.within;
                most_out = most_out.max(counted.begun - counted.within);
                start += run.size;
            }
        }
        (within, most_out)
    }

    /// Counts a part that begins in `bar`; from memory where one like it was counted before.
    fn part(
        &mut self,
        bar: usize,
        start: u32,
        size: u32,
        known: &mut [Vec<CountedRegions>],
    ) -> CountedRegions {
        let area: u32 = self.bars.size(bar).iter().product();
        let length = self.field.dims[self.bars.run];
        let begin = start - self.bars.starts[bar];
        let (first, phase) = (begin / area, begin % area);
        let last = (begin + size - 1) / area;
        let reach = self.reach[self.bars.run];
        if first < reach || length < last + 1 + reach || KNOWN_MAX < area {
            return self.count(start, size);
        }
        let known = &mut known[self.kinds[bar] as usize];
        if known.is_empty() {
            known.resize(area as usize, CountedRegions::default());
        }
        if known[phase as usize].begun == 0 {
            let counted = self.count(start, size);
            // The memory is borrowed anew, since counting needs everything else.
            known[phase as usize] = counted;
        }
        known[phase as usize]
    }

    fn count(&mut self, start: u32, size: u32) -> CountedRegions {
        self.cover(start, start + size);
        let mut counted = CountedRegions::default();
        for link in &self.field.links {
            for one in &self.boxes {
                let others: u64 = self.boxes.iter().map(|other| self.linked(one, other, &link.by)).sum();
                counted.within += link.weight() * others;
                counted.begun +=
                    link.there * self.stays(one, &link.by, 1) + link.back * self.stays(one, &link.by, -1);
            }
        }
        counted
    }

    /// How many cells of one box an offset takes into another.
    fn linked(&self, one: &Region, other: &Region, by: &[i32]) -> u64 {
        let mut product = 1;
        for (axis, &step) in by.iter().enumerate() {
            let overlap = |shift: i64| {
                let low = (one.low[axis] + shift).max(other.low[axis]);
                let high = (one.high[axis] + shift).min(other.high[axis]);
                (high - low).max(0) as u64
            };
            let (step, extent) = (i64::from(step), i64::from(self.field.dims[axis]));
            let mut along = overlap(step);
            if self.field.periods[axis] && step != 0 {
                along += overlap(step - extent) + overlap(step + extent);
            }
            if along == 0 {
                return 0;
            }
            product *= along;
        }
        product
    }

    /// How many cells of a box an offset, or its opposite, leaves in the grid.
    fn stays(&self, one: &Region, by: &[i32], sign: i64) -> u64 {
        let along = |(axis, &step): (usize, &i32)| {
            let (extent, step) = (i64::from(self.field.dims[axis]), sign * i64::from(step));
            match self.field.periods[axis] {
                true => (one.high[axis] - one.low[axis]) as u64,
                false => ((one.high[axis] + step).min(extent) - (one.low[axis] + step).max(0)).max(0) as u64,
            }
        };
        by.iter().enumerate().map(along).product()
    }

    /// Writes the boxes that the positions from `start` to below `end` are.
    fn cover(&mut self, start: u32, end: u32) {
        self.boxes.clear();
        let mut at = start;
        let mut bar = self.bars.bar(start);
        while at < end {
            let begin = self.bars.starts[bar];
            let bar_end = self.bars.starts.get(bar + 1).copied().unwrap_or(self.field.cells);
            let stop = end.min(bar_end);
            self.cover_in_bar(bar, at - begin, stop - begin);
            at = stop;
            bar += 1;
        }
    }

    /// Whole slices, and what there is of the first and the last.
    fn cover_in_bar(&mut self, bar: usize, from: u32, to: u32) {
        let area: u32 = self.bars.size(bar).iter().product();
        let (mut first, last) = (from / area, to / area);
        if first == last {
            return self.cover_in_slice(bar, first, from % area, to % area);
        }
        if !from.is_multiple_of(area) {
            self.cover_in_slice(bar, first, from % area, area);
            first += 1;
        }
        if first < last {
            let mut whole = self.slices(bar, first, last);
            for (level, &axis) in self.bars.cross.iter().enumerate() {
                let low = i64::from(self.bars.low(bar)[level]);
                (whole.low[axis], whole.high[axis]) = (low, low + i64::from(self.bars.size(bar)[level]));
            }
            self.boxes.push(whole);
        }
        if !to.is_multiple_of(area) {
            self.cover_in_slice(bar, last, 0, to % area);
        }
    }

    /// Slices of a bar, without their extents across it.
    fn slices(&self, bar: usize, first: u32, end: u32) -> Region {
        let (run, length) = (self.bars.run, self.field.dims[self.bars.run]);
        let (low, high) =
            if self.bars.is_backwards(bar) { (length - end, length - first) } else { (first, end) };
        let mut region = Region { low: [0; AXES_MAX], high: [1; AXES_MAX] };
        (region.low[run], region.high[run]) = (i64::from(low), i64::from(high));
        region
    }

    /// Cells `from` to below `to` of a slice, row by row.
    fn cover_in_slice(&mut self, bar: usize, slice: u32, from: u32, to: u32) {
        let region = self.slices(bar, slice, slice + 1);
        self.cover_rows(bar, 0, region, from, to);
    }

    fn cover_rows(&mut self, bar: usize, level: usize, region: Region, from: u32, to: u32) {
        if to <= from {
            return;
        }
        let Some(&axis) = self.bars.cross.get(level) else {
            self.boxes.push(region);
            return;
        };
        let unit: u32 = self.bars.size(bar)[level + 1..].iter().product();
        let low = self.bars.low(bar)[level];
        let rows = |first: u32, end: u32| {
            let mut region = region;
            (region.low[axis], region.high[axis]) = (i64::from(low + first), i64::from(low + end));
            region
        };
        let (mut first, last) = (from / unit, to / unit);
        if first == last {
            return self.cover_rows(bar, level + 1, rows(first, first + 1), from % unit, to % unit);
        }
        if !from.is_multiple_of(unit) {
            self.cover_rows(bar, level + 1, rows(first, first + 1), from % unit, unit);
            first += 1;
        }
        if first < last {
            let mut whole = rows(first, last);
            for deeper in level + 1..self.bars.cross.len() {
                let (axis, low) = (self.bars.cross[deeper], i64::from(self.bars.low(bar)[deeper]));
                (whole.low[axis], whole.high[axis]) = (low, low + i64::from(self.bars.size(bar)[deeper]));
            }
            self.boxes.push(whole);
        }
        if !to.is_multiple_of(unit) {
            self.cover_rows(bar, level + 1, rows(last, last + 1), 0, to % unit);
        }
    }
}

/// The largest slices of which parts are remembered.
const KNOWN_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::score::Scorer;
    use super::super::stripes::{Borders, Planner, all_roles};
    use super::*;
    use crate::{Grid, Stencil};

    #[test]
    fn counts_as_cell_by_cell() {
        let mut random = Random::new(3);
        for _ in 0..300 {
            let axes = 1 + random.below(5) as usize;
            let most = [90, 20, 9, 5, 4][axes - 1];
            let dims: Vec<u32> = (0..axes).map(|_| 2 + random.below(most)).collect();
            let periods: Vec<bool> = (0..axes).map(|_| random.below(2) == 0).collect();
            let grid = Grid::new(&dims, &periods).expect("a grid");
            let diagonal = vec!["1"; axes].join(",") + ";" + &vec!["-2"; axes].join(",");
            let stencil = match random.below(4) {
                0 => Stencil::hops(axes),
                1 => Stencil::parse(&diagonal, axes).expect("offsets"),
                _ => Stencil::nearest(axes),
            };
            let field = Field::new(&grid, &stencil);
            let size = 1 + random.below(40);
            let parts = |size: u32| -> Sizes {
                (0..field.cells).step_by(size as usize).map(|start| size.min(field.cells - start)).collect()
            };
            let levels = [(MachineLevel::Switch, parts(3 * size)), (MachineLevel::Node, parts(size))];
            let borders = Borders::of(&levels[1].1);
            for roles in all_roles(&field) {
                let planned = Planner::new(&field, &borders, &roles, u64::from(size)).plan();
                for bars in [planned.1, Bars::single(&field)] {
                    let mut cells = Vec::new();
                    bars.fill(&field, &mut cells);
                    let slow = Scorer::new(&field).score(&cells, &levels, u64::MAX);
                    let fast = score(&field, &bars, &levels).expect("few axes");
                    assert_eq!(fast, slow, "{grid:?} {stencil:?} by {size}: {bars:?}");
                }
            }
        }
    }
}
