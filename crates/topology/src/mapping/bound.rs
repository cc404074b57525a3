//! How few edges between nodes any mapping can have.
//!
//! A node with some cells sends at least so much out of them, whatever their form; edges that would leave the
//! grid at its borders are counted with the rest and subtracted once, since their number is known. The form
//! that sends the least is a box, or nearly: in two axes all boxes are tried, in three the smallest surface
//! of unit cubes is known (Alonso and Cerf 1996), in any number the projections of a set bound its size
//! (Loomis and Whitney 1949), on a torus with equal axes there is the inequality of Bollobas and Leader
//! (1991). Where nothing is known the answer is 0.

use super::bricks::pairs;
use super::field::{Field, Link};
use crate::Sizes;

/// A number of edges between nodes of these sizes that no mapping is below.
pub(crate) fn lower_bound(field: &Field, nodes: &Sizes) -> u64 {
    if nodes.parts() < 2 {
        return 0;
    }
    let lines = Lines::of(field);
    let out: u64 = nodes.runs().iter().map(|run| u64::from(run.parts) * lines.least_out(run.size)).sum();
    out.saturating_sub(lines.open()).max(incidences(field, &lines, nodes))
}

/// What is sent along the lines of a field. Offsets along more than one axis are left out: they only add.
struct Lines<'a> {
    field: &'a Field,
    /// By axis: the least that leaves a line which is neither empty nor, on a ring, full.
    least: Vec<u64>,
    /// By axis: how many offsets 1, 2, 3 ... of one weight there are; 0 where the offsets are others.
    hops: Vec<u32>,
}

impl<'a> Lines<'a> {
    fn of(field: &'a Field) -> Lines<'a> {
        let own = |axis: usize| field.links.iter().filter(move |link| link.axis() == Some(axis));
        let counts = |axis: usize, link: &Link| {
            !field.periods[axis] || greatest_divisor(link.by[axis].unsigned_abs(), field.dims[axis]) == 1
        };
        let axes = 0..field.axes();
        let least = axes
            .clone()
            .map(|axis| own(axis).filter(|link| counts(axis, link)).map(Link::weight).sum())
            .collect();
        let hops = axes.map(|axis| {
            let mut steps: Vec<u32> = own(axis).map(|link| link.by[axis].unsigned_abs()).collect();
            steps.sort_unstable();
            let is_row = steps.iter().zip(1..).all(|(&step, hop)| step == hop);
            let first = own(axis).next();
            let is_even = own(axis).all(|link| first.is_some_and(|first| first.weight() == link.weight()));
            if is_row && is_even && !field.periods[axis] { steps.len() as u32 } else { 0 }
        });
        Lines { field, least, hops: hops.collect() }
    }

    /// What would leave the grid at its borders.
    fn open(&self) -> u64 {
        let at_borders = |link: &Link| match link.axis() {
            Some(axis) if !self.field.periods[axis] => {
                link.weight() * (u64::from(self.field.cells) - pairs(self.field, &link.by))
            }
            _ => 0,
        };
        self.field.links.iter().map(at_borders).sum()
    }

    /// The least that leaves a set of so many cells.
    fn least_out(&self, cells: u32) -> u64 {
        match self.field.axes() {
            0 => 0,
            1 => self.least_on_line(cells),
            2 => self.least_on_plane(cells),
            axes => {
                let by_projections = self.by_projections(cells);
                let is_even = self.least.iter().all(|&least| least == self.least[0]);
                let cannot_close = !self.can_close(cells);
                match is_even {
                    true if cannot_close && axes == 3 => {
                        by_projections.max(smallest_surface(u64::from(cells)) * self.least[0] / 2)
                    }
                    true if !cannot_close => by_projections.max(self.on_torus(cells)),
                    _ => by_projections,
                }
            }
        }
    }

    fn least_on_line(&self, cells: u32) -> u64 {
        match self.field.periods[0] && cells == self.field.dims[0] {
            true => 0,
            false => self.along(0, cells),
        }
    }

    /// Whether so many cells can fill a ring.
    fn can_close(&self, cells: u32) -> bool {
        let closes = |axis: usize| self.field.periods[axis] && self.field.dims[axis] <= cells;
        (0..self.field.axes()).any(closes)
    }

    /// The least that leaves one line of which so many cells are taken.
    fn along(&self, axis: usize, taken: u32) -> u64 {
        match self.hops[axis] {
            0 => self.least[axis],
            hops => {
                (1..=hops).map(|hop| u64::from(hop.min(taken))).sum::<u64>()
                    * (self.least[axis] / u64::from(hops))
            }
        }
    }

    fn least_on_plane(&self, cells: u32) -> u64 {
        let (dims, periods) = (&self.field.dims, &self.field.periods);
        let flat = |cells: u32| self.on_flat_plane(0, cells).max(self.on_flat_plane(1, cells));
        let mut least = flat(cells);
        for (own, other) in [(0, 1), (1, 0)] {
            // One ring is full: each line across it is cut.
            if periods[own] && dims[own] <= cells {
                least = least.min(self.least[other] * u64::from(dims[own]));
            }
        }
        if periods[0] && periods[1] && dims[0] + dims[1] - 1 <= cells {
            // Full rings both ways: what is not taken has none.
            least = least.min(if cells == self.field.cells { 0 } else { flat(self.field.cells - cells) });
        }
        least
    }

    /// Without full rings: for the longest line along `axis` that may be, all lines but one are as long.
    fn on_flat_plane(&self, axis: usize, cells: u32) -> u64 {
        let (extent, lines) = (self.field.dims[axis], self.field.dims[1 - axis]);
        let with_longest = |longest: u32| {
            let (full, rest) = (cells / longest, cells % longest);
            let partial = if rest > 0 { self.along(axis, rest) } else { 0 };
            let fits = full + u32::from(rest > 0) <= lines;
            let across = self.least[1 - axis] * u64::from(longest);
            fits.then(|| u64::from(full) * self.along(axis, longest) + partial + across)
        };
        (1..=extent.min(cells)).filter_map(with_longest).min().unwrap_or(0)
    }

    /// The projections along all axes multiply to at least a power of the cells; each has a largest size.
    fn by_projections(&self, cells: u32) -> u64 {
        let field = self.field;
        let largest = |axis: usize| (field.cells / field.dims[axis]).min(cells);
        let closes = |axis: usize| field.periods[axis] && field.dims[axis] <= cells;
        let weight = |axis: usize| if closes(axis) { 0 } else { self.least[axis] };
        let mut free: Vec<usize> = (0..field.axes()).filter(|&axis| weight(axis) > 0).collect();
        let mut fixed: Vec<usize> = (0..field.axes()).filter(|&axis| weight(axis) == 0).collect();
        let mut paid = 0;
        loop {
            let Some(rest) = self.by_free(&free, &fixed, cells, &largest) else { return paid };
            // The mean of the free terms is `rest / free`; a projection whose share would be beyond its size
            // has that size.
            let count = free.len() as u64;
            let is_full = |&axis: &usize| u64::from(largest(axis)) * count * weight(axis) < rest;
            match free.iter().position(is_full) {
                Some(index) => {
                    let axis = free.remove(index);
                    paid += weight(axis) * u64::from(largest(axis));
                    fixed.push(axis);
                }
                None => return paid + rest,
            }
        }
    }

    /// The least number whose power is enough: arithmetic and geometric mean.
    fn by_free(
        &self,
        free: &[usize],
        fixed: &[usize],
        cells: u32,
        largest: &dyn Fn(usize) -> u32,
    ) -> Option<u64> {
        let count = free.len() as u32;
        if count == 0 {
            return None;
        }
        let mut enough = u128::from(count).checked_pow(count)?;
        enough = enough.checked_mul(u128::from(cells).checked_pow(self.field.axes() as u32 - 1)?)?;
        for &axis in free {
            enough = enough.checked_mul(u128::from(self.least[axis]))?;
        }
        let mut factor = 1u128;
        for &axis in fixed {
            factor = factor.checked_mul(u128::from(largest(axis)))?;
        }
        let step = free.iter().map(|&axis| self.least[axis]).fold(0, greatest_divisor);
        least_power(count, factor, enough, step)
    }

    /// Bollobas and Leader: for each number of axes that a set does not span.
    fn on_torus(&self, cells: u32) -> u64 {
        let (dims, axes) = (&self.field.dims, self.field.axes() as u32);
        let is_cube =
            self.field.periods.iter().all(|&is_ring| is_ring) && dims.iter().all(|&own| own == dims[0]);
        let taken = cells.min(self.field.cells - cells);
        if !is_cube || taken == 0 {
            return 0;
        }
        let with = |spread: u32| {
            let mut enough = (2 * u128::from(spread)).checked_pow(spread)?;
            enough = enough.checked_mul(u128::from(taken).checked_pow(spread - 1)?)?;
            enough = enough.checked_mul(u128::from(dims[0]).checked_pow(axes - spread)?)?;
            least_power(spread, 1, enough, 2)
        };
        (1..=axes).map(|spread| with(spread).unwrap_or(0)).min().unwrap_or(0) * self.least[0] / 2
    }
}

/// The least multiple of `step` whose power, times `factor`, is at least `enough`; `None` beyond what numbers
/// can hold.
fn least_power(exponent: u32, factor: u128, enough: u128, step: u64) -> Option<u64> {
    let (mut low, mut high) = (0u64, 1u64 << 40);
    let suffices = |multiple: u64| {
        let power =
            u128::from(multiple * step).checked_pow(exponent).and_then(|power| power.checked_mul(factor));
        power.is_none_or(|power| power >= enough)
    };
    high /= step.max(1);
    while low < high {
        let middle = low + (high - low) / 2;
        if suffices(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low * step)
}

/// The least surface of so many unit cubes: the largest box that is nearly a cube, and the rest on one side
/// of it.
fn smallest_surface(cubes: u64) -> u64 {
    let side = (1..).take_while(|side: &u64| side.pow(3) <= cubes).last().unwrap_or(0);
    let boxes = [(side + 1, side + 1, side), (side + 1, side, side), (side, side, side)];
    let &(long, wide, high) =
        boxes.iter().find(|(long, wide, high)| long * wide * high <= cubes).expect("a cube fits");
    let rest = cubes - long * wide * high;
    let around = if rest == 0 { 0 } else { 2 * twice_root_up(rest) };
    2 * (long * wide + wide * high + high * long) + around
}

/// Twice the square root, rounded up.
fn twice_root_up(number: u64) -> u64 {
    let root = (4 * number).isqrt();
    root + u64::from(root * root < 4 * number)
}

/// Nodes of one size and lines of one axis: where they are one graph of nodes and lines, all but a few
/// incidences are cuts.
fn incidences(field: &Field, lines: &Lines<'_>, nodes: &Sizes) -> u64 {
    let is_linked = |axis: &usize| lines.least[*axis] > 0;
    let mut linked = (0..field.axes()).filter(is_linked);
    let (Some(axis), None, Some(size)) = (linked.next(), linked.next(), nodes.common()) else { return 0 };
    if field.links.iter().all(|link| link.by[axis].unsigned_abs() != 1) {
        return 0;
    }
    let extent = u64::from(field.dims[axis]);
    let size = u64::from(size);
    let multiple = size / greatest_divisor(size, extent) * extent;
    let weight = |link: &&Link| link.axis() == Some(axis) && link.by[axis].unsigned_abs() == 1;
    let own: u64 = field.links.iter().filter(weight).map(Link::weight).sum();
    nodes.parts().saturating_sub(u64::from(field.cells) / multiple) * own
}

fn greatest_divisor<N: Into<u64>, M: Into<u64>>(one: N, other: M) -> u64 {
    let (mut one, mut other) = (one.into(), other.into());
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
