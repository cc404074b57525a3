//! Which orders are tried for a grid, and which one is taken.

use super::Algorithm;
use super::bars::Bars;
use super::bisect::{Bisector, Middle};
use super::bound::lower_bound;
use super::boxes::{Boxes, Cutting};
use super::bricks::Bricks;
use super::field::Field;
use super::kept::Kept;
use super::large;
use super::order::{Order, Shuffled, Table};
use super::regions::AXES_MAX;
use super::score::{Score, Scorer};
use super::stripes::{self, Borders, Planner};
use crate::{MachineLevel, Sizes};

/// An order that was counted.
pub(crate) struct Counted {
    pub(crate) algorithm: Algorithm,
    pub(crate) order: Order,
    pub(crate) score: Score,
}

/// The best order that is better than `before`, if there is one; and the bound.
pub(crate) fn choose(field: &Field, kept: &Kept, before: &Score) -> (Option<Counted>, u64) {
    let bound = lower_bound(field, kept.nodes());
    if LARGE < field.cells && field.axes() <= AXES_MAX {
        return (large::choose(field, kept, before, bound), bound);
    }
    let mut trial = Trial::new(field, kept, before, bound);
    let is_best = trial.only_nodes() && before.j_sum == bound && SMALL < field.cells;
    if 1 < field.cells && !is_best && kept.levels.iter().any(|(_, sizes)| sizes.parts() > 1) {
        trial.nodes();
        if !trial.only_nodes() {
            trial.levels();
        }
    }
    (trial.best, bound)
}

/// Tries orders and keeps the best.
struct Trial<'a> {
    field: &'a Field,
    kept: &'a Kept,
    nodes: &'a Sizes,
    scorer: Scorer<'a>,
    best: Option<Counted>,
    /// What has to be beaten.
    least: Key,
    bound: u64,
    cells: Vec<u32>,
    /// Where there are other levels than nodes: orders that do well for nodes and what is larger.
    pool: Vec<(Key, Algorithm, Order)>,
}

/// What is compared: cost, then the most edges that leave a node.
type Key = (u64, u64);

impl<'a> Trial<'a> {
    fn new(field: &'a Field, kept: &'a Kept, before: &Score, bound: u64) -> Trial<'a> {
        let scorer = Scorer::new(field);
        let least = (before.cost, before.j_max);
        let nodes = kept.nodes();
        Trial { field, kept, nodes, scorer, best: None, least, bound, cells: Vec::new(), pool: Vec::new() }
    }

    fn only_nodes(&self) -> bool {
        self.kept.levels.len() == 1
    }

    /// The levels down to nodes.
    fn coarse(&self) -> &'a [(MachineLevel, Sizes)] {
        let finer = self.kept.levels.iter().position(|&(level, _)| level > MachineLevel::Node);
        &self.kept.levels[..finer.unwrap_or(self.kept.levels.len())]
    }

    /// Orders for nodes.
    fn nodes(&mut self) {
        self.bars();
        self.bricks();
        if self.is_done() {
            return;
        }
        let node = typical(self.nodes) as u32;
        let hyperplanes = Cutting::Hyperplanes { node, whole: self.nodes.common().unwrap_or(1) };
        self.count(Algorithm::Hyperplanes, Order::Boxes(Boxes::new(self.field, hyperplanes)));
        self.count(Algorithm::Halves, Order::Boxes(Boxes::new(self.field, Cutting::Halves)));
        if self.nodes.common().is_none() {
            self.shuffled_bars();
        }
        let is_small = self.field.cells <= BISECT_MAX;
        if self.only_nodes() && (is_small || (self.is_far() && self.field.cells <= LARGE)) {
            let mut bisector = Bisector::new(self.field);
            for middle in Middle::ALL {
                let cells = bisector.all(&self.kept.levels, middle);
                self.count(Algorithm::Bisection, Order::Table(Table::new(cells)));
            }
        }
    }

    /// Orders for all levels: the best of the pool with the inside of each part bisected, bars for the parts
    /// of another level than nodes, and bisection from the largest parts on.
    fn levels(&mut self) {
        let mut bisector = Bisector::new(self.field);
        self.pool.sort_by_key(|&(key, _, _)| key);
        let mut pool = std::mem::take(&mut self.pool);
        pool.dedup_by_key(|(key, _, _)| *key);
        for (_, algorithm, order) in pool.into_iter().take(POOL) {
            order.fill(self.field, &mut self.cells);
            let cells = self.cells.clone();
            self.count_all(algorithm, order);
            self.within(&mut bisector, algorithm, cells, self.coarse().len());
        }
        for (own, (level, sizes)) in self.kept.levels.iter().enumerate() {
            if *level != MachineLevel::Node && sizes.parts() > 1 {
                for (_, bars) in planned(self.field, &Borders::of(sizes), typical(sizes)) {
                    let mut cells = Vec::with_capacity(self.field.cells as usize);
                    bars.fill(self.field, &mut cells);
                    self.within(&mut bisector, Algorithm::Stripes, cells, own + 1);
                }
            }
        }
        for middle in Middle::ALL {
            let cells = (0..self.field.cells).collect();
            self.within_by(&mut bisector, Algorithm::Bisection, cells, 0, middle);
        }
    }

    fn within(&mut self, bisector: &mut Bisector<'_>, algorithm: Algorithm, cells: Vec<u32>, finer: usize) {
        self.within_by(bisector, algorithm, cells, finer, Middle::Parts);
    }

    /// Counts an order whose parts are bisected from the level `finer` on.
    fn within_by(
        &mut self,
        bisector: &mut Bisector<'_>,
        algorithm: Algorithm,
        cells: Vec<u32>,
        finer: usize,
        middle: Middle,
    ) {
        let mut cells = cells;
        let above = finer.checked_sub(1).map(|above| &self.kept.levels[above].1);
        let mut bounds: Vec<usize> = match above {
            Some(sizes) => sizes.starts().map(|start| start as usize).collect(),
            None => vec![0],
        };
        bounds.push(cells.len());
        for (_, sizes) in &self.kept.levels[finer..] {
            bounds = bisector.refine(&mut cells, &bounds, sizes, middle);
        }
        self.count_all(algorithm, Order::Table(Table::new(cells)));
    }

    /// Whether nothing can be better.
    fn is_done(&self) -> bool {
        let sum = self.best.as_ref().map(|best| best.score.j_sum);
        self.only_nodes() && sum == Some(self.bound) && SMALL < self.field.cells
    }

    /// Whether the best is more than one per cent above the bound.
    fn is_far(&self) -> bool {
        self.best.as_ref().is_none_or(|best| best.score.j_sum.saturating_sub(self.bound) > self.bound / 100)
    }

    fn bars(&mut self) {
        let borders = Borders::of(self.nodes);
        let plans = planned(self.field, &borders, typical(self.nodes));
        let least = plans.first().map_or(0, |&(cost, _)| cost);
        for (cost, bars) in plans {
            if cost == least || !self.is_done() {
                self.count(Algorithm::Stripes, Order::Bars(bars));
            }
        }
        if !self.is_done() {
            for (_, bars) in even(self.field, &borders, typical(self.nodes)) {
                self.count(Algorithm::Strips, Order::Bars(bars));
            }
        }
    }

    fn bricks(&mut self) {
        let Some(size) = self.nodes.common() else { return };
        let mut bricks: Vec<(u64, Bricks)> = Bricks::all(self.field, size)
            .into_iter()
            .map(|bricks| (bricks.cut(self.field), bricks))
            .collect();
        let Some(least) = bricks.iter().map(|&(cut, _)| cut).min() else { return };
        let is_beaten = self.best.as_ref().is_some_and(|best| best.score.j_sum < least);
        bricks.retain(|&(cut, _)| cut == least && !(is_beaten && self.only_nodes()));
        for (_, bricks) in bricks.into_iter().take(BRICKS) {
            self.count(Algorithm::Bricks, Order::Bricks(bricks));
        }
    }

    /// Bars for the nodes sorted by size, so that neighbours are as large. Switches stay together.
    fn shuffled_bars(&mut self) {
        let sizes: Vec<u32> = self.nodes.iter().collect();
        let mut sequence: Vec<(usize, u32)> = self.switches().into_iter().zip(0..).collect();
        for is_upwards in [true, false] {
            sequence.sort_by_key(|&(switch, node)| {
                let size = sizes[node as usize];
                (switch, if is_upwards { size } else { u32::MAX - size }, node)
            });
            let nodes: Vec<u32> = sequence.iter().map(|&(_, node)| node).collect();
            let sorted: Sizes = nodes.iter().map(|&node| sizes[node as usize]).collect();
            let borders = Borders::of(&sorted);
            let mut plans = planned(self.field, &borders, typical(&sorted));
            plans.extend(even(self.field, &borders, typical(&sorted)));
            for (_, bars) in plans {
                let order = Order::Shuffled(Shuffled::new(Order::Bars(bars), self.nodes, &nodes));
                self.count(Algorithm::SortedStripes, order);
            }
        }
    }

    /// For each node, which part of the level above it is in.
    fn switches(&self) -> Vec<usize> {
        let [.., (_, switches), (_, nodes)] = self.coarse() else {
            return vec![0; self.nodes.parts() as usize];
        };
        let mut next = switches.starts().skip(1).peekable();
        let mut own = 0;
        let of = |start| {
            while next.next_if(|&next| next <= start).is_some() {
                own += 1;
            }
            own
        };
        nodes.starts().map(of).collect()
    }

    /// Counts an order for nodes, and keeps it if it is better, or for later.
    fn count(&mut self, algorithm: Algorithm, order: Order) {
        if self.only_nodes() {
            return self.count_all(algorithm, order);
        }
        order.fill(self.field, &mut self.cells);
        let score = self.scorer.score(&self.cells, self.coarse(), u64::MAX);
        self.pool.push(((score.cost, score.j_max), algorithm, order));
    }

    /// Counts an order, and keeps it if it is better.
    fn count_all(&mut self, algorithm: Algorithm, order: Order) {
        order.fill(self.field, &mut self.cells);
        let score = self.scorer.score(&self.cells, &self.kept.levels, self.least.0);
        if (score.cost, score.j_max) < self.least {
            self.least = (score.cost, score.j_max);
            self.best = Some(Counted { algorithm, order, score });
        }
    }
}

/// The mean size of parts.
pub(crate) fn typical(sizes: &Sizes) -> u64 {
    (sizes.total() + sizes.parts() / 2) / sizes.parts()
}

/// Bars of planned thicknesses, for all roles of the axes, cheapest first.
fn planned(field: &Field, borders: &Borders, typical: u64) -> Vec<(u64, Bars)> {
    let mut plans = Vec::new();
    for roles in roles(field) {
        let mut planner = Planner::new(field, borders, &roles, typical);
        if planner.search_cost() <= SEARCH_COST_MAX {
            plans.push(planner.plan());
        }
    }
    cheapest_first(plans)
}

/// Bars of even thicknesses, likewise.
fn even(field: &Field, borders: &Borders, typical: u64) -> Vec<(u64, Bars)> {
    let mut plans = Vec::new();
    for roles in roles(field) {
        plans.extend(stripes::even(&mut Planner::new(field, borders, &roles, typical), EVEN));
    }
    cheapest_first(plans)
}

/// The roles that bars are tried with: none where axes are so many that bars are hardly longer than wide.
fn roles(field: &Field) -> Vec<stripes::Roles> {
    if field.axes() <= AXES_MAX { stripes::all_roles(field) } else { Vec::new() }
}

fn cheapest_first(mut plans: Vec<(u64, Bars)>) -> Vec<(u64, Bars)> {
    plans.sort_by_key(|&(cost, _)| cost);
    plans
}

/// Larger grids have a policy of their own.
pub(crate) const LARGE: u32 = 1 << 14;
/// The most cells for which sets of cells are bisected although something good is known.
const BISECT_MAX: u32 = 1 << 12;
/// Up to so many cells everything is tried, also where an order reaches the bound.
const SMALL: u32 = 1 << 10;
/// The most layers and bars that a plan looks at.
const SEARCH_COST_MAX: u64 = 1 << 23;
/// How many bricks that cut the same are counted.
const BRICKS: usize = 16;
/// How many bars of even thicknesses are counted for each choice of roles.
const EVEN: usize = 3;
/// How many orders for nodes are refined for smaller parts.
const POOL: usize = 4;
