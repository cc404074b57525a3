//! Plans bars: how thick each layer is made, so that nodes of the given sizes, laid along the bars one after
//! the other, have short borders.
//!
//! After some whole layers the number of places that are used up is known from their thickness alone, and
//! with it where in the sequence of nodes the next layer begins. So the best thicknesses follow from a short
//! table per level, for nodes of any sizes. What a plan costs here is near to the truth and quick; the truth
//! is counted afterwards.

use super::bars::Bars;
use super::field::Field;
use crate::Sizes;

/// The borders between nodes, as positions.
#[derive(Clone, Debug)]
pub(crate) enum Borders {
    /// At each multiple.
    Every(u64),
    /// Anywhere, in order, the last one at the end.
    At(Vec<u64>),
}

impl Borders {
    pub(crate) fn of(nodes: &Sizes) -> Borders {
        match nodes.runs() {
            [run] => Borders::Every(u64::from(run.size)),
            [run, last] if last.parts == 1 && last.size <= run.size => Borders::Every(u64::from(run.size)),
            _ => Borders::At(nodes.starts().skip(1).chain([nodes.total()]).collect()),
        }
    }

    /// What has to be known of a position to tell the borders behind it.
    fn phase(&self, start: u64) -> u64 {
        match self {
            Borders::Every(size) => start % size,
            Borders::At(_) => start,
        }
    }
}

/// The axis `run` that the bars run along, and the other axes in `cross`, in the order in which the grid is
/// cut along them: from the outermost layers on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) run: usize,
    pub(crate) cross: Vec<usize>,
}

/// Finds thicknesses for one choice of roles.
pub(crate) struct Planner<'a> {
    field: &'a Field,
    borders: &'a Borders,
    roles: &'a Roles,
    /// Ranks per node, about.
    typical: u64,
    /// The thickest layers that are looked at.
    thickest: Vec<u32>,
    /// What each level below costs, by thicknesses and phase; empty where that would be too many.
    known: Vec<Vec<u64>>,
    /// For bars of some thicknesses, what the step within a slice costs, by the cells before it.
    steps: Vec<Vec<u64>>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(field: &'a Field, borders: &'a Borders, roles: &'a Roles, typical: u64) -> Planner<'a> {
        let axes = field.axes() as u32;
        let side = (1..=typical).take_while(|side| side.saturating_pow(axes) <= typical).last().unwrap_or(1);
        let most = if axes <= 3 && field.cells <= SMALL { 4 * (side + 1) } else { 2 * side + 2 };
        let thickest: Vec<u32> =
            roles.cross.iter().map(|&axis| u64::from(field.dims[axis]).min(most) as u32).collect();
        let mut planner =
            Planner { field, borders, roles, typical, thickest, known: Vec::new(), steps: Vec::new() };
        let bars: usize = planner.thickest.iter().map(|&most| most as usize).product();
        planner.steps = vec![Vec::new(); bars.min(KNOWN_MAX)];
        if let Borders::Every(size) = borders {
            let mut entries = *size as usize;
            for &most in &planner.thickest {
                entries = entries.saturating_mul(most as usize);
                planner.known.push(if entries <= KNOWN_MAX { vec![UNKNOWN; entries] } else { Vec::new() });
            }
        }
        planner
    }

    /// How many bars and layers have to be looked at, about.
    pub(crate) fn search_cost(&self) -> u64 {
        let phases = match self.borders {
            Borders::Every(size) if self.known.iter().all(|known| !known.is_empty()) => *size,
            _ => u64::MAX,
        };
        let (mut visits, mut total) = (1u64, 0u64);
        let mut thicknesses = 1u64;
        for (&axis, &most) in self.roles.cross.iter().zip(&self.thickest) {
            let tried = u64::from(self.field.dims[axis]) * u64::from(most);
            total = total.saturating_add(visits.saturating_mul(tried));
            thicknesses = thicknesses.saturating_mul(u64::from(most));
            visits = visits.saturating_mul(tried).min(thicknesses.saturating_mul(phases));
        }
        total.saturating_add(visits.saturating_mul(4))
    }

    /// The best plan.
    pub(crate) fn plan(&mut self) -> (u64, Bars) {
        let (cost, outer) = if self.roles.cross.is_empty() { (0, Vec::new()) } else { self.best(0, &[]) };
        let (field, roles) = (self.field, self.roles);
        let mut layers = |start, above: &[u32]| match above {
            [] => outer.clone(),
            above => self.best(start, above).1,
        };
        (cost, Bars::new(field, roles.run, &roles.cross, &mut layers))
    }

    /// The cost of cutting into layers of the thicknesses `splits`, one list for each level, used all over
    /// that level.
    pub(crate) fn cost_of(&mut self, splits: &[Vec<u32>]) -> u64 {
        self.cost_of_layers(0, splits, &mut Vec::new())
    }

    fn cost_of_layers(&mut self, start: u64, splits: &[Vec<u32>], above: &mut Vec<u32>) -> u64 {
        let level = above.len();
        if level == splits.len() {
            return self.bar(start, above);
        }
        let area = self.area(level, above);
        let (mut cost, mut from) = (0, start);
        for &thickness in &splits[level] {
            above.push(thickness);
            cost += self.cost_of_layers(from, splits, above);
            above.pop();
            cost += self.side(level, thickness) * area;
            from += area * u64::from(thickness);
        }
        cost
    }

    /// The least cost of the layers of one level that begin at `start`, and their thicknesses.
    fn best(&mut self, start: u64, above: &[u32]) -> (u64, Vec<u32>) {
        let level = above.len();
        let extent = self.field.dims[self.roles.cross[level]];
        let area = self.area(level, above);
        let sides: Vec<u64> =
            (0..=self.thickest[level]).map(|thickness| self.side(level, thickness) * area).collect();
        let floors = self.floors(level, area, above);
        let mut best = vec![(0u64, 0u32); extent as usize + 1];
        let mut own = above.to_vec();
        own.push(0);
        for end in 1..=extent {
            let mut least = (u64::MAX, 0);
            for thickness in 1..=end.min(self.thickest[level]) {
                let known = best[(end - thickness) as usize].0 + sides[thickness as usize];
                if least.0 <= known + floors[thickness as usize] {
                    continue;
                }
                own[level] = thickness;
                let from = start + u64::from(end - thickness) * area;
                let cost = known + self.below(from, &own);
                if cost < least.0 {
                    least = (cost, thickness);
                }
            }
            best[end as usize] = least;
        }
        let mut thicknesses = Vec::new();
        let mut end = extent;
        while end > 0 {
            thicknesses.push(best[end as usize].1);
            end -= best[end as usize].1;
        }
        thicknesses.reverse();
        (best[extent as usize].0, thicknesses)
    }

    /// What the inside of layers costs at least, by thickness: as many borders as fit, each straight. Known
    /// for bars only.
    fn floors(&self, level: usize, area: u64, above: &[u32]) -> Vec<u64> {
        let mut floors = vec![0; self.thickest[level] as usize + 1];
        if let (Borders::Every(size), true) = (self.borders, level + 1 == self.roles.cross.len()) {
            let across: u64 = above.iter().map(|&own| u64::from(own)).product();
            for (thickness, floor) in (0..).zip(&mut floors).skip(1) {
                *floor = (area * thickness - 1) / size * self.across(across * thickness);
            }
        }
        floors
    }

    /// What a straight border costs in a bar of such slices.
    fn across(&self, area: u64) -> u64 {
        let along = (self.typical / area).clamp(1, u64::from(self.field.dims[self.roles.run])) as u32;
        area * self.field.face(self.roles.run, along)
    }

    /// What lies in a layer that begins at `start`: layers of the next level, or a bar.
    fn below(&mut self, start: u64, above: &[u32]) -> u64 {
        let level = above.len() - 1;
        let phase = self.borders.phase(start);
        let index = match (self.borders, self.known.get(level)) {
            (Borders::Every(size), Some(known)) if !known.is_empty() => {
                Some((self.index(above) as u64 * size + phase) as usize)
            }
            _ => None,
        };
        if let Some(cost) = index.map(|index| self.known[level][index]).filter(|&cost| cost != UNKNOWN) {
            return cost;
        }
        let is_bar = above.len() == self.roles.cross.len();
        let cost = if is_bar { self.bar(phase, above) } else { self.best(phase, above).0 };
        if let Some(index) = index {
            self.known[level][index] = cost;
        }
        cost
    }

    /// The number of these thicknesses among all.
    fn index(&self, above: &[u32]) -> usize {
        above
            .iter()
            .zip(&self.thickest)
            .fold(0, |index, (&own, &most)| index * most as usize + (own as usize - 1))
    }

    /// Cells in a layer of one cell's thickness.
    fn area(&self, level: usize, above: &[u32]) -> u64 {
        let dims = |axis: &usize| u64::from(self.field.dims[*axis]);
        let inner: u64 = self.roles.cross[level + 1..].iter().map(dims).product();
        inner * dims(&self.roles.run) * above.iter().map(|&own| u64::from(own)).product::<u64>()
    }

    /// What leaves a layer, per line across it.
    fn side(&self, level: usize, thickness: u32) -> u64 {
        let axis = self.roles.cross[level];
        let is_whole_ring = self.field.periods[axis] && thickness == self.field.dims[axis];
        if is_whole_ring { 0 } else { self.field.face(axis, thickness) }
    }

    /// What the borders within a bar cost.
    fn bar(&mut self, start: u64, thicknesses: &[u32]) -> u64 {
        let area: u64 = thicknesses.iter().map(|&own| u64::from(own)).product();
        let end = start + area * u64::from(self.field.dims[self.roles.run]);
        let across = self.across(area);
        let index = self.index(thicknesses);
        if area == 1 || self.steps.len() <= index {
            let steps = if area == 1 { vec![0] } else { self.steps_within(thicknesses) };
            return self.sum(start, end, across, &steps);
        }
        if self.steps[index].is_empty() {
            self.steps[index] = self.steps_within(thicknesses);
        }
        self.sum(start, end, across, &self.steps[index])
    }

    /// Adds up the borders between `start` and `end`.
    fn sum(&self, start: u64, end: u64, across: u64, steps: &[u64]) -> u64 {
        let area = steps.len() as u64;
        match self.borders {
            Borders::Every(size) => {
                let first = size - start % size;
                let (mut at, mut within, by) = (start + first, first % area, size % area);
                let mut cost = 0;
                while at < end {
                    cost += across + steps[within as usize];
                    at += size;
                    within += by;
                    within -= if within >= area { area } else { 0 };
                }
                cost
            }
            Borders::At(borders) => {
                let first = borders.partition_point(|&border| border <= start);
                let inside = borders[first..].iter().take_while(|&&border| border < end);
                inside.map(|border| across + steps[((border - start) % area) as usize]).sum()
            }
        }
    }

    /// What a border within a slice costs beside the slice itself, by the cells of the slice before it.
    fn steps_within(&self, thicknesses: &[u32]) -> Vec<u64> {
        let area: u64 = thicknesses.iter().map(|&own| u64::from(own)).product();
        let cost = |before: u64| {
            let (mut rest, mut cost, mut inner) = (before, 0, area);
            for (&axis, &thickness) in self.roles.cross.iter().zip(thicknesses) {
                inner /= u64::from(thickness);
                let (full, partial) = (rest / inner, rest % inner);
                let lines = match (full, full + 1 == u64::from(thickness)) {
                    (0, true) => 0,
                    (0, false) => partial,
                    (_, true) => inner - partial,
                    (_, false) => inner,
                };
                cost += lines * self.field.face(axis, thickness.div_ceil(2));
                rest = partial;
            }
            cost
        };
        (0..area).map(|before| if before == 0 { 0 } else { cost(before) }).collect()
    }
}

/// Every way to choose the roles that is worth a look: those of like axes only once.
pub(crate) fn all_roles(field: &Field) -> Vec<Roles> {
    let axes = field.axes();
    let mut roles: Vec<Roles> = Vec::new();
    for run in 0..axes {
        let others: Vec<usize> = (0..axes).filter(|&axis| axis != run).collect();
        let crosses = match axes {
            0..=2 => vec![others],
            3 => vec![others.clone(), others.into_iter().rev().collect()],
            _ => {
                let mut sorted = others;
                sorted.sort_by_key(|&axis| std::cmp::Reverse(field.dims[axis]));
                vec![sorted]
            }
        };
        roles.extend(crosses.into_iter().map(|cross| Roles { run, cross }));
    }
    let alike = |one: usize, other: usize| {
        field.dims[one] == field.dims[other]
            && field.periods[one] == field.periods[other]
            && (1..=field.dims[one])
                .take(FACES)
                .all(|thick| field.face(one, thick) == field.face(other, thick))
    };
    let mut kept: Vec<Roles> = Vec::new();
    for own in roles {
        let same = |other: &Roles| {
            alike(own.run, other.run)
                && own.cross.iter().zip(&other.cross).all(|(&one, &other)| alike(one, other))
        };
        if !kept.iter().any(same) {
            kept.push(own);
        }
    }
    kept
}

/// Bars of even thicknesses about the best that closed form gives, cheapest first by `Planner::cost_of`.
pub(crate) fn even(planner: &mut Planner<'_>, most: usize) -> Vec<(u64, Bars)> {
    let (field, roles, typical) = (planner.field, planner.roles, planner.typical);
    let choices: Vec<Vec<Vec<u32>>> =
        roles.cross.iter().map(|&axis| splits(field.dims[axis], ideal(field, axis, typical))).collect();
    let mut plans: Vec<(u64, Vec<Vec<u32>>)> = Vec::new();
    let total: usize = choices.iter().map(Vec::len).product();
    let mut bars_left = BARS_MAX;
    for number in 0..total.min(EVEN_MAX) {
        let mut rest = number;
        let mut splits = Vec::with_capacity(choices.len());
        for choice in &choices {
            splits.push(choice[rest % choice.len()].clone());
            rest /= choice.len();
        }
        let bars = splits.iter().map(Vec::len).fold(1, usize::saturating_mul);
        let fits = |(split, &most): (&Vec<u32>, &u32)| split.iter().all(|&own| own <= most);
        if bars <= bars_left && splits.iter().zip(&planner.thickest).all(fits) {
            bars_left -= bars;
            plans.push((planner.cost_of(&splits), splits));
        }
    }
    plans.sort_by_key(|&(cost, _)| cost);
    plans.truncate(most);
    let build = |(cost, splits): (u64, Vec<Vec<u32>>)| {
        (cost, Bars::new(field, roles.run, &roles.cross, &mut |_, above| splits[above.len()].clone()))
    };
    plans.into_iter().map(build).collect()
}

/// How thick a node would be along an axis if it could have any shape: proportional to what leaves it that
/// way.
fn ideal(field: &Field, axis: usize, typical: u64) -> u32 {
    let axes = field.axes() as u32;
    let weight = |axis: usize| u128::from(field.face(axis, u32::MAX).max(1));
    let all = (0..field.axes()).map(weight).fold(1, u128::saturating_mul);
    let target = weight(axis).saturating_pow(axes).saturating_mul(u128::from(typical));
    let fits = |side: &u32| u128::from(*side).saturating_pow(axes).saturating_mul(all) <= target;
    (1..=field.dims[axis]).take_while(fits).last().unwrap_or(1)
}

/// Ways to cut an extent evenly into pieces of about `side`: as many pieces as fit and some more or fewer,
/// the larger pieces first; and pieces of one size with what is left over last.
fn splits(extent: u32, side: u32) -> Vec<Vec<u32>> {
    let mut found: Vec<Vec<u32>> = Vec::new();
    let middle = extent / side;
    for count in [middle, middle + 1, middle.saturating_sub(1), middle + 2] {
        if (1..=extent).contains(&count) {
            found.push((0..count).map(|piece| extent / count + u32::from(piece < extent % count)).collect());
        }
    }
    for side in [side, side + 1] {
        let whole = std::iter::repeat_n(side, (extent / side) as usize);
        found.push(whole.chain([extent % side]).filter(|&piece| piece > 0).collect());
    }
    let mut distinct: Vec<Vec<u32>> = Vec::new();
    for split in found {
        if !distinct.contains(&split) {
            distinct.push(split);
        }
    }
    distinct
}

const UNKNOWN: u64 = u64::MAX;
/// The most costs that are kept per level.
const KNOWN_MAX: usize = 1 << 20;
/// Below that many cells thicker layers are tried.
const SMALL: u32 = 1 << 16;
const FACES: usize = 64;
const EVEN_MAX: usize = 4096;
/// The most bars that are looked at among even splits.
const BARS_MAX: usize = 1 << 18;
