//! The policy for large grids: bars are planned for each choice of roles and counted part by part; bricks are
//! counted in closed form first. Nothing looks at each cell, but for orders of boxes while that takes a few
//! milliseconds at most.

use super::Algorithm;
use super::bars::Bars;
use super::boxes::{Boxes, Cutting};
use super::bricks::Bricks;
use super::field::Field;
use super::kept::Kept;
use super::order::Order;
use super::policy::{Counted, typical};
use super::regions;
use super::score::{Score, Scorer};
use super::stripes::{self, Borders, Planner};

/// The best order that is better than `before`, if there is one.
pub(crate) fn choose(field: &Field, kept: &Kept, before: &Score, bound: u64) -> Option<Counted> {
    let mut trial = LargeTrial { field, kept, best: None, least: (before.cost, before.j_max), scorer: None };
    for (algorithm, bars) in plans(field, kept).into_iter().take(COUNTED) {
        if let Some(score) = regions::score(field, &bars, &kept.levels) {
            trial.keep(algorithm, Order::Bars(bars), score);
        }
    }
    let sum = trial.best.as_ref().map_or(before.j_sum, |best| best.score.j_sum);
    if sum > bound {
        trial.bricks(sum);
        if field.cells <= BY_CELLS_MAX {
            let node = typical(kept.nodes()) as u32;
            let cutting = Cutting::Hyperplanes { node, whole: kept.nodes().common().unwrap_or(1) };
            trial.by_cells(Algorithm::Hyperplanes, Order::Boxes(Boxes::new(field, cutting)));
            trial.by_cells(Algorithm::Halves, Order::Boxes(Boxes::new(field, Cutting::Halves)));
        }
    }
    trial.best
}

/// Tries orders and keeps the best.
struct LargeTrial<'a> {
    field: &'a Field,
    kept: &'a Kept,
    best: Option<Counted>,
    least: (u64, u64),
    scorer: Option<Scorer<'a>>,
}

impl LargeTrial<'_> {
    fn keep(&mut self, algorithm: Algorithm, order: Order, score: Score) {
        if (score.cost, score.j_max) < self.least {
            self.least = (score.cost, score.j_max);
            self.best = Some(Counted { algorithm, order, score });
        }
    }

    /// The best bricks, if they leave less than `sum` between nodes.
    fn bricks(&mut self, sum: u64) {
        let Some(size) = self.kept.nodes().common() else { return };
        let counted =
            Bricks::all(self.field, size).into_iter().map(|bricks| (bricks.cut(self.field), bricks));
        if let Some((_, bricks)) = counted.min_by_key(|&(cut, _)| cut).filter(|&(cut, _)| cut < sum) {
            self.by_cells(Algorithm::Bricks, Order::Bricks(bricks));
        }
    }

    fn by_cells(&mut self, algorithm: Algorithm, order: Order) {
        let mut cells = Vec::with_capacity(self.field.cells as usize);
        order.fill(self.field, &mut cells);
        let scorer = self.scorer.get_or_insert_with(|| Scorer::new(self.field));
        let score = scorer.score(&cells, &self.kept.levels, self.least.0);
        self.keep(algorithm, order, score);
    }
}

/// Bars for all roles, cheapest first: planned ones, and even ones where a plan would take too long.
fn plans(field: &Field, kept: &Kept) -> Vec<(Algorithm, Bars)> {
    let (nodes, borders) = (kept.nodes(), Borders::of(kept.nodes()));
    let mut plans: Vec<(u64, Algorithm, Bars)> = Vec::new();
    for roles in stripes::all_roles(field) {
        let mut planner = Planner::new(field, &borders, &roles, typical(nodes));
        let is_short = planner.search_cost() <= SEARCH_COST_MAX;
        if is_short {
            let (cost, bars) = planner.plan();
            plans.push((cost, Algorithm::Stripes, bars));
        }
        if !is_short || field.cells <= BY_CELLS_MAX {
            let even = stripes::even(&mut planner, 1).into_iter();
            plans.extend(even.map(|(cost, bars)| (cost, Algorithm::Strips, bars)));
        }
    }
    plans.sort_by_key(|&(cost, _, _)| cost);
    plans.into_iter().map(|(_, algorithm, bars)| (algorithm, bars)).collect()
}

/// How many of the plans are counted.
const COUNTED: usize = 3;
/// The most layers and bars that a plan looks at.
const SEARCH_COST_MAX: u64 = 1 << 23;
/// The most cells for which orders of boxes are counted cell by cell.
const BY_CELLS_MAX: u32 = 1 << 17;
