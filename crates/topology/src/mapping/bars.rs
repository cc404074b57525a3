//! Bars: boxes that span the whole of one axis, the run, filled slice by slice and one after the other like a
//! serpent.
//!
//! ```text
//!   run axis ->                      A node takes the next places, wherever bars end, so that the border between
//!   +---------+-----+----------+     two nodes lies across the bar, with a step where a slice is shared.
//!   | 0000000 | 111 | 11222222 |     bar 0, three cells high
//!   | 0000000 | 111 | 11222222 |
//!   | 0000001 | 111 | 12222222 |
//!   +---------+-----+----------+
//!   | 5554444 | 444 | 33333322 |     bar 1, two cells high, filled backwards
//!   | 5555444 | 444 | 33333322 |
//!   +---------+-----+----------+
//! ```

use super::field::Field;

/// Bars that fill a field.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) run: usize,
    /// The other axes; slices are filled row by row, the last of these fastest.
    pub(crate) cross: Vec<usize>,
    /// The first position of each bar.
    pub(crate) starts: Vec<u32>,
    /// The lowest corner and the extents of each bar, along the axes of `cross`, one bar after the other.
    pub(crate) lows: Vec<u32>,
    pub(crate) sizes: Vec<u32>,
    /// The bars in the order of their corners.
    by_corner: Vec<u32>,
}

impl Bars {
    /// The bars along `run` that `split` makes of the axes of `cross`: at each level it is asked for the
    /// thicknesses of the layers, given the first position and the thicknesses above.
    pub(crate) fn new(
        field: &Field,
        run: usize,
        cross: &[usize],
        split: &mut dyn FnMut(u64, &[u32]) -> Vec<u32>,
    ) -> Bars {
        let (starts, lows, sizes) = (Vec::new(), Vec::new(), Vec::new());
        let bars = Bars { run, cross: cross.to_vec(), starts, lows, sizes, by_corner: Vec::new() };
        let backwards = vec![false; cross.len()];
        let mut builder =
            Builder { field, bars, start: 0, low: Vec::new(), size: Vec::new(), backwards, split };
        builder.layers();
        let mut bars = builder.bars;
        bars.by_corner = (0..bars.starts.len() as u32).collect();
        let (lows, width) = (&bars.lows, cross.len());
        bars.by_corner.sort_unstable_by_key(|&bar| &lows[bar as usize * width..(bar as usize + 1) * width]);
        bars
    }

    /// One bar: the cells in the order of their numbers, counted with the axis `run` slowest.
    pub(crate) fn single(field: &Field) -> Bars {
        let cross: Vec<usize> = (1..field.axes()).collect();
        Bars::new(field, 0, &cross, &mut |_, above| vec![field.dims[cross[above.len()]]])
    }

    pub(crate) fn low(&self, bar: usize) -> &[u32] {
        &self.lows[bar * self.cross.len()..(bar + 1) * self.cross.len()]
    }

    pub(crate) fn size(&self, bar: usize) -> &[u32] {
        &self.sizes[bar * self.cross.len()..(bar + 1) * self.cross.len()]
    }

    /// The bar that a position lies in.
    pub(crate) fn bar(&self, position: u32) -> usize {
        self.starts.partition_point(|&start| start <= position) - 1
    }

    /// Every other bar is filled backwards.
    pub(crate) fn is_backwards(&self, bar: usize) -> bool {
        bar % 2 == 1
    }

    pub(crate) fn cell(&self, field: &Field, position: u32) -> u32 {
        let bar = self.bar(position);
        let area: u32 = self.size(bar).iter().product();
        let (slice, mut rest) = ((position - self.starts[bar]) / area, (position - self.starts[bar]) % area);
        let along = if self.is_backwards(bar) { field.dims[self.run] - 1 - slice } else { slice };
        let mut cell = along * field.strides[self.run];
        for ((&axis, &low), &size) in self.cross.iter().zip(self.low(bar)).zip(self.size(bar)).rev() {
            cell += (low + rest % size) * field.strides[axis];
            rest /= size;
        }
        cell
    }

    pub(crate) fn position(&self, field: &Field, cell: u32) -> u32 {
        let coordinate = |axis: usize| cell / field.strides[axis] % field.dims[axis];
        let bar = self.bar_at(&coordinate);
        let area: u32 = self.size(bar).iter().product();
        let mut within = 0;
        for ((&axis, &low), &size) in self.cross.iter().zip(self.low(bar)).zip(self.size(bar)) {
            within = within * size + (coordinate(axis) - low);
        }
        let along = coordinate(self.run);
        let slice = if self.is_backwards(bar) { field.dims[self.run] - 1 - along } else { along };
        self.starts[bar] + slice * area + within
    }

    fn bar_at(&self, coordinate: &dyn Fn(usize) -> u32) -> usize {
        let mut among = &self.by_corner[..];
        for (level, &axis) in self.cross.iter().enumerate() {
            let low = |bar: u32| self.low(bar as usize)[level];
            let end = among.partition_point(|&bar| low(bar) <= coordinate(axis));
            let found = low(among[end - 1]);
            let begin = among[..end].partition_point(|&bar| low(bar) < found);
            among = &among[begin..end];
        }
        among[0] as usize
    }

    pub(crate) fn fill(&self, field: &Field, cells: &mut Vec<u32>) {
        let (length, stride) = (field.dims[self.run], field.strides[self.run]);
        let mut slice: Vec<u32> = Vec::new();
        for bar in 0..self.starts.len() {
            slice.clear();
            slice.push(0);
            for ((&axis, &low), &size) in self.cross.iter().zip(self.low(bar)).zip(self.size(bar)) {
                let row = |base: u32| (low..low + size).map(move |at| base + at * field.strides[axis]);
                slice = slice.iter().flat_map(|&base| row(base)).collect();
            }
            for step in 0..length {
                let along = if self.is_backwards(bar) { length - 1 - step } else { step };
                cells.extend(slice.iter().map(|&cell| cell + along * stride));
            }
        }
    }
}

/// Lays layers within layers, forth and back.
struct Builder<'a> {
    field: &'a Field,
    bars: Bars,
    start: u64,
    low: Vec<u32>,
    size: Vec<u32>,
    backwards: Vec<bool>,
    split: &'a mut dyn FnMut(u64, &[u32]) -> Vec<u32>,
}

impl Builder<'_> {
    fn layers(&mut self) {
        let level = self.low.len();
        if level == self.bars.cross.len() {
            self.bars.starts.push(self.start as u32);
            self.bars.lows.extend_from_slice(&self.low);
            self.bars.sizes.extend_from_slice(&self.size);
            let area: u64 = self.size.iter().map(|&size| u64::from(size)).product();
            self.start += area * u64::from(self.field.dims[self.bars.run]);
            return;
        }
        let extent = self.field.dims[self.bars.cross[level]];
        let mut from = 0;
        for thickness in (self.split)(self.start, &self.size) {
            let low = if self.backwards[level] { extent - from - thickness } else { from };
            self.low.push(low);
            self.size.push(thickness);
            self.layers();
            self.low.pop();
            self.size.pop();
            from += thickness;
        }
        self.backwards[level] ^= true;
    }
}
