//! The policy for large grids: nothing looks at each cell. Bars are planned for each choice of roles and counted part by
//! part; bricks are counted in closed form.

use super::Algorithm;
use super::bars::Bars;
use super::field::Field;
use super::kept::Kept;
use super::order::Order;
use super::policy::{Counted, typical};
use super::regions;
use super::score::Score;
use super::stripes::{self, Borders, Planner};

/// The best order that is better than `before`, if there is one.
pub(crate) fn choose(field: &Field, kept: &Kept, before: &Score) -> Option<Counted> {
    let mut best: Option<Counted> = None;
    let mut least = (before.cost, before.j_max);
    for (algorithm, bars) in plans(field, kept).into_iter().take(COUNTED) {
        let Some(score) = regions::score(field, &bars, &kept.tiers) else { continue };
        if (score.cost, score.j_max) < least {
            least = (score.cost, score.j_max);
            best = Some(Counted { algorithm, order: Order::Bars(bars), score });
        }
    }
    best
}

/// Bars for all roles, cheapest first.
fn plans(field: &Field, kept: &Kept) -> Vec<(Algorithm, Bars)> {
    let (nodes, borders) = (kept.nodes(), Borders::of(kept.nodes()));
    let mut plans: Vec<(u64, Algorithm, Bars)> = Vec::new();
    for roles in stripes::all_roles(field) {
        let mut planner = Planner::new(field, &borders, &roles, typical(nodes));
        if planner.effort() <= EFFORT_MAX {
            let (cost, bars) = planner.plan();
            plans.push((cost, Algorithm::Stripes, bars));
        } else {
            let even = stripes::even(&mut planner, 1).into_iter();
            plans.extend(even.map(|(cost, bars)| (cost, Algorithm::Strips, bars)));
        }
    }
    plans.sort_by_key(|&(cost, _, _)| cost);
    plans.into_iter().map(|(_, algorithm, bars)| (algorithm, bars)).collect()
}

/// How many of the plans are counted.
const COUNTED: usize = 2;
/// The most layers and bars that a plan looks at.
const EFFORT_MAX: u64 = 1 << 23;
