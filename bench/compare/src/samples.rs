//! Numbers of many runs, and what they say together.
//!
//! Each round gives every contestant one run, in turn, and each run gives a median and a best value at
//! every point. Over the rounds, a value is the median of the rounds' medians. A ratio of two
//! contestants is taken within each round, where both met the same mood of the machine, and the ratio
//! that is told is the median of those.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::row::Unit;
use system_tests::measured;

/// The result of one run at one point: a size, or a number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Median over the run's blocks.
    pub median: f64,
    /// The best block.
    pub best: f64,
}

/// All runs of one contestant, or of one floor, in one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// By round, by point.
    pub rounds: Vec<BTreeMap<u64, Point>>,
    /// Why there is no more of it.
    pub failure: Option<String>,
}

impl Series {
    /// An empty one.
    pub fn new(name: &str) -> Series {
        Series { name: name.to_owned(), ..Series::default() }
    }

    /// Adds a round. After a failure nothing is run any more, but rounds stay in step.
    pub fn note(&mut self, run: impl FnOnce() -> Result<BTreeMap<u64, Point>, String>) {
        if self.failure.is_some() {
            self.rounds.push(BTreeMap::new());
            return;
        }
        match run() {
            Ok(points) => self.rounds.push(points),
            Err(failure) => {
                self.rounds.push(BTreeMap::new());
                self.failure = Some(failure);
            }
        }
    }

    /// All points that were measured, in order.
    pub fn points(&self) -> Vec<u64> {
        let mut points: Vec<u64> = self.rounds.iter().flat_map(|round| round.keys().copied()).collect();
        points.sort_unstable();
        points.dedup();
        points
    }

    /// The median of the rounds' medians.
    pub fn value(&self, at: u64) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| Some(round.get(&at)?.median)))
    }

    /// The value at this point; a floor with no size of its own also stands for small ones.
    pub fn value_near(&self, at: u64) -> Option<f64> {
        self.value(self.near(at))
    }

    fn near(&self, at: u64) -> u64 {
        if at <= SMALL && self.points() == [0] { 0 } else { at }
    }

    /// The best value of all rounds.
    pub fn best(&self, at: u64, unit: Unit) -> Option<f64> {
        let values = self.rounds.iter().filter_map(|round| Some(round.get(&at)?.best));
        if unit.less_is_better() { values.reduce(f64::min) } else { values.reduce(f64::max) }
    }

    /// The medians of this series over those of `other` at the point `at`, for each round in which both have
    /// one. A floor without sizes counts for small ones, too.
    pub fn ratios(&self, other: &Series, at: u64) -> Vec<f64> {
        let there = other.near(at);
        let pairs = self.rounds.iter().zip(&other.rounds);
        pairs
            .filter_map(|(mine, theirs)| Some(mine.get(&at)?.median / theirs.get(&there)?.median))
            .filter(|ratio| ratio.is_finite())
            .collect()
    }

    /// The ratio to `other` at a point over all rounds: its median, least and most. `None` where no round has
    /// both.
    pub fn ratio(&self, other: &Series, at: u64) -> Option<Ratio> {
        let ratios = self.ratios(other, at);
        Some(Ratio {
            median: median(ratios.iter().copied())?,
            least: ratios.iter().copied().reduce(f64::min)?,
            most: ratios.iter().copied().reduce(f64::max)?,
        })
    }
}

/// The ratio of one series to another at a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median over the rounds.
    pub median: f64,
    /// The least ratio of a round.
    pub least: f64,
    /// The largest ratio of a round.
    pub most: f64,
}

/// The middle of the values; none where there is none.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[half]),
        _ => Some(f64::midpoint(values[half - 1], values[half])),
    }
}

/// The points of one run of `program`, in `unit`. Where the axis is the number of ranks, the run with `ranks`
/// ranks is one point.
///
/// # Errors
/// When the run said nothing of the kind.
pub fn points(
    rows: &[measured::Row],
    unit: Unit,
    program: &str,
    ranks: u32,
) -> Result<BTreeMap<u64, Point>, String> {
    let benchmark = match unit {
        Unit::Launch => "stopwatch",
        Unit::Cpu => "blocked_cpu",
        _ => program,
    };
    let at = |row: &measured::Row| if unit.by_ranks() { u64::from(ranks) } else { row.bytes };
    let found: BTreeMap<u64, Point> =
        rows.iter().filter(|row| row.benchmark == benchmark).map(|row| (at(row), point(row, unit))).collect();
    // What a line does not tell is 0, which would pass as the best of all times.
    if matches!(unit, Unit::Microseconds | Unit::Allreduces | Unit::Launch | Unit::Others)
        && found.values().any(|point| point.median <= 0.0)
    {
        return Err(format!("{benchmark} does not tell its results in {}", unit.name()));
    }
    if found.is_empty() { Err(format!("no result of {benchmark} in its output")) } else { Ok(found) }
}

fn point(row: &measured::Row, unit: Unit) -> Point {
    let (median, best) = match unit {
        // The program tells it as if it were microseconds.
        Unit::Microseconds | Unit::Allreduces => (row.median_us, row.min_us),
        Unit::Gigabytes => (row.median_mb_s / 1e3, row.best_mb_s / 1e3),
        Unit::Messages => (row.median_msg_s / 1e6, row.best_msg_s / 1e6),
        Unit::Launch => (row.median_us / 1e3, row.median_us / 1e3),
        Unit::Memory => (row.pss_kib * 1024.0 / 1e6, row.pss_kib * 1024.0 / 1e6),
        Unit::Cpu => (row.cpu_percent, row.cpu_percent),
        Unit::Overlap | Unit::Others => (row.median, row.median),
    };
    Point { median, best }
}

/// Bytes that travel with a flag, in its line.
const SMALL: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A series of one point in each round; a NaN is a round without it.
    pub fn series(name: &str, at: u64, medians: &[f64]) -> Series {
        let round = |median: &f64| {
            let point = Point { median: *median, best: median * 0.9 };
            (!median.is_nan()).then_some((at, point)).into_iter().collect()
        };
        Series { name: name.into(), rounds: medians.iter().map(round).collect(), failure: None }
    }

    #[test]
    fn the_middle_is_between_the_two_middle_ones() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        // The machine is twice as slow in the second round: that is no news about either.
        let ours = series("weft", 8, &[1.0, 2.0, 1.1]);
        let theirs = series("peer", 8, &[2.0, 4.0, 2.0]);
        let ratio = ours.ratio(&theirs, 8).unwrap();
        assert_eq!((ratio.median, ratio.least, ratio.most), (0.5, 0.5, 0.55));
        assert_eq!(ours.ratio(&theirs, 16), None);
    }

    #[test]
    fn rounds_without_a_value_do_not_shift_the_others() {
        let ours = series("weft", 8, &[1.0, f64::NAN, 3.0]);
        let theirs = series("peer", 8, &[2.0, 100.0, 6.0]);
        let ratio = ours.ratio(&theirs, 8).unwrap();
        assert_eq!((ratio.least, ratio.most), (0.5, 0.5));
    }

    #[test]
    fn the_best_value_depends_on_what_is_better() {
        let one = series("weft", 8, &[10.0, 20.0]);
        assert_eq!(one.best(8, Unit::Microseconds), Some(9.0));
        assert_eq!(one.best(8, Unit::Messages), Some(18.0));
    }

    #[test]
    fn a_floor_without_sizes_stands_for_small_messages_only() {
        let floor = series("exchange", 0, &[0.1]);
        assert_eq!(floor.value_near(8), Some(0.1));
        assert_eq!(floor.value_near(65536), None);
        assert!(series("weft", 8, &[0.2]).ratio(&floor, 8).is_some());
        assert!(series("weft", 65536, &[0.2]).ratio(&floor, 65536).is_none());
    }

    #[test]
    fn points_come_from_the_line_that_the_unit_asks_for() {
        let row = |benchmark: &str, bytes| measured::Row {
            benchmark: benchmark.into(),
            bytes,
            median_us: 2000.0,
            min_us: 1000.0,
            median_mb_s: 500.0,
            pss_kib: 1000.0,
            cpu_percent: 0.5,
            ..measured::Row::default()
        };
        let rows = [row("startup", 32), row("latency", 8), row("blocked_cpu", 8), row("stopwatch", 0)];
        let at = |unit, program: &str| {
            let points = points(&rows, unit, program, 32).unwrap();
            points.into_iter().map(|(at, point)| (at, point.median)).collect::<Vec<_>>()
        };
        assert_eq!(at(Unit::Microseconds, "latency"), [(8, 2000.0)]);
        assert_eq!(at(Unit::Gigabytes, "latency"), [(8, 0.5)]);
        assert_eq!(at(Unit::Launch, "startup"), [(32, 2.0)], "from outside, by ranks");
        assert_eq!(at(Unit::Memory, "startup"), [(32, 1.024)]);
        assert_eq!(at(Unit::Cpu, "blocked"), [(8, 0.5)]);
        assert!(points(&rows, Unit::Microseconds, "barrier", 2).unwrap_err().contains("barrier"));
    }

    #[test]
    fn after_a_failure_nobody_runs_and_rounds_stay_in_step() {
        let mut series = Series::new("peer");
        let point = || BTreeMap::from([(8, Point { median: 1.0, best: 1.0 })]);
        series.note(|| Ok(point()));
        series.note(|| Err("wrong contents".into()));
        series.note(|| panic!("it must not be started again"));
        assert_eq!(series.rounds.len(), 3);
        assert_eq!(series.value(8), Some(1.0));
        assert_eq!(series.failure.as_deref(), Some("wrong contents"));
    }
}
