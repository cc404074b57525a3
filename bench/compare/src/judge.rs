//! From samples to ratios and verdicts.

use serde::Serialize;

use super::about::About;
use super::row::{Gate, Row, Rule};
use super::samples::{Ratio, Series, median};

/// A row with all that was measured for it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The row.
    pub row: &'static Row,
    /// The contestants, weft first.
    pub series: Vec<Series>,
    /// The floors, in the row's order.
    pub floors: Vec<Series>,
    /// Why the whole row was left out.
    pub left_out: Option<String>,
    /// The library of libfabric that was measured with, if any.
    pub library: Option<String>,
    /// When and of what it was measured, where that was in another run.
    pub earlier: Option<About>,
}

/// Whether a gate is kept, and by how much.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The row's id.
    pub row: &'static str,
    /// The gate's letter.
    pub gate: &'static str,
    /// More than must be.
    pub stretch: bool,
    /// The rule in words.
    pub rule: String,
    /// The point that decided: the worst of the gate's points.
    pub at: u64,
    /// The value that was compared with the limit there; none where nothing was measured.
    pub got: Option<f64>,
    /// The limit is kept by the median of the rounds; none where nothing was measured.
    pub passed: Option<bool>,
    /// Some rounds keep it, and some do not: another run may say something else.
    pub open: bool,
}

impl Verdict {
    /// In a word or two.
    pub fn word(&self) -> &'static str {
        match (self.passed, self.open, self.stretch) {
            (None, ..) => "not measured",
            (Some(_), true, _) => "at its limit",
            (Some(true), ..) => "ok",
            (Some(false), _, false) => "MISSED",
            (Some(false), _, true) => "not yet",
        }
    }
}

impl Measured {
    /// Our own series.
    pub fn weft(&self) -> &Series {
        &self.series[0]
    }

    /// The peer with the best value at this point.
    pub fn best_peer(&self, at: u64) -> Option<&Series> {
        let known = self.series[1..].iter().filter_map(|series| Some((series.value(at)?, series)));
        let better = |left: &f64, right: &f64| {
            if self.row.unit.less_is_better() { left.total_cmp(right) } else { right.total_cmp(left) }
        };
        known.min_by(|left, right| better(&left.0, &right.0)).map(|(_, series)| series)
    }

    /// weft's value over that of the best peer.
    pub fn ratio(&self, at: u64) -> Option<Ratio> {
        self.weft().ratio(self.best_peer(at)?, at)
    }

    /// The point where weft compares worst, over all points and not only those shown.
    pub fn worst(&self) -> Option<(u64, Ratio)> {
        let all = self.weft().points().into_iter().filter_map(|at| Some((at, self.ratio(at)?)));
        all.reduce(|worst, next| if self.worse(next.1.median, worst.1.median) { next } else { worst })
    }

    /// The steepest steps of everybody, where the row has a gate on that: what the machine's own memory
    /// does at the borders of its caches is seen in the floors and in all peers.
    pub fn steps(&self) -> Vec<(&str, u64, f64)> {
        let gates = self.row.gates.iter().filter(|gate| matches!(gate.rule, Rule::Cliff(_)));
        let Some((first, last)) = gates.map(|gate| gate.at).next() else { return Vec::new() };
        let of = |series: &'_ Series| steepest(series, first, last);
        let all = self.series.iter().chain(&self.floors);
        all.filter_map(|series| of(series).map(|(at, step)| (series.name.as_str(), at, step))).collect()
    }

    /// Whether each of the row's gates is kept.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.row.gates.iter().map(|gate| self.verdict(gate)).collect()
    }

    fn verdict(&self, gate: &Gate) -> Verdict {
        let deciding = match gate.rule {
            Rule::Cliff(_) => steepest(self.weft(), gate.at.0, gate.at.1),
            _ => self.worst_in(gate),
        };
        let (at, got) = deciding.map_or((gate.at.0, None), |(at, got)| (at, Some(got)));
        let rounds = self.rounds_of(gate.rule, at);
        let kept = rounds.iter().filter(|&&number| self.keeps(gate.rule, number)).count();
        Verdict {
            row: self.row.id,
            gate: gate.name,
            stretch: gate.stretch,
            rule: self.words(gate.rule),
            at,
            got,
            passed: got.map(|got| self.keeps(gate.rule, got)),
            open: 0 < kept && kept < rounds.len(),
        }
    }

    /// What the rule compares with its limit, for each round.
    fn rounds_of(&self, rule: Rule, at: u64) -> Vec<f64> {
        let weft = self.weft();
        let values = |at: u64| weft.rounds.iter().map(move |round| Some(round.get(&at)?.median));
        match rule {
            Rule::Best(_) => self.best_peer(at).map_or(Vec::new(), |peer| weft.ratios(peer, at)),
            Rule::Floor(name, _) => self.floor(name).map_or(Vec::new(), |floor| weft.ratios(floor, at)),
            Rule::Value(_) => values(at).flatten().collect(),
            Rule::Cliff(_) => {
                values(at).zip(values(at / 2)).filter_map(|(to, from)| Some(to? / from?)).collect()
            }
        }
    }

    fn floor(&self, name: &str) -> Option<&Series> {
        self.floors.iter().find(|floor| floor.name == name)
    }

    /// The gate's point with the worst number, and that number.
    fn worst_in(&self, gate: &Gate) -> Option<(u64, f64)> {
        let points = self.weft().points().into_iter().filter(|at| gate.at.0 <= *at && *at <= gate.at.1);
        let numbers = points.filter_map(|at| Some((at, median(self.rounds_of(gate.rule, at).into_iter())?)));
        numbers.reduce(|worst, next| if self.worse(next.1, worst.1) { next } else { worst })
    }

    fn worse(&self, number: f64, than: f64) -> bool {
        if self.row.unit.less_is_better() { than < number } else { number < than }
    }

    fn keeps(&self, rule: Rule, got: f64) -> bool {
        match rule {
            Rule::Cliff(limit) => got <= limit,
            Rule::Best(limit) | Rule::Floor(_, limit) | Rule::Value(limit) => !self.worse(got, limit),
        }
    }

    fn words(&self, rule: Rule) -> String {
        let sign = if self.row.unit.less_is_better() { "≤" } else { "≥" };
        match rule {
            Rule::Best(limit) => format!("{sign} {limit:.2} × best peer"),
            Rule::Floor(name, limit) => format!("{sign} {limit:.2} × {name}"),
            Rule::Value(limit) => format!("{sign} {limit} {}", self.row.unit.name()),
            Rule::Cliff(limit) => format!("time(2n) ≤ {limit} × time(n)"),
        }
    }
}

/// The largest step of a time from a size to its double: the larger size, and the factor.
fn steepest(series: &Series, first: u64, last: u64) -> Option<(u64, f64)> {
    let step = |at: u64| Some((at, series.value(at)? / series.value(at / 2)?));
    let steps = series.points().into_iter().filter(|at| 2 * first.max(1) <= *at && *at <= last);
    steps.filter_map(step).max_by(|left, right| left.1.total_cmp(&right.1))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::super::rows::ROWS;
    use super::super::samples::Point;
    use super::*;

    /// A series with the same values in three rounds.
    pub fn series(name: &str, values: &[(u64, f64)]) -> Series {
        let round: BTreeMap<u64, Point> =
            values.iter().map(|(at, value)| (*at, Point { median: *value, best: *value })).collect();
        Series { name: name.into(), rounds: vec![round; 3], failure: None }
    }

    pub fn measured(id: &str, series: Vec<Series>, floors: Vec<Series>) -> Measured {
        let row = ROWS.iter().find(|row| row.id == id).expect("a row of that name");
        Measured { row, series, floors, left_out: None, library: None, earlier: None }
    }

    fn verdict(measured: &Measured, gate: &str, rule: &str) -> Verdict {
        let found = measured.verdicts().into_iter().find(|one| one.gate == gate && one.rule.contains(rule));
        found.unwrap_or_else(|| panic!("no verdict of {gate} on {rule}"))
    }

    #[test]
    fn the_best_peer_has_the_least_time_or_the_highest_rate() {
        let all = || vec![series("weft", &[(8, 1.0)]), series("a", &[(8, 2.0)]), series("b", &[(8, 3.0)])];
        assert_eq!(measured("latency", all(), vec![]).best_peer(8).unwrap().name, "a");
        assert_eq!(measured("rate", all(), vec![]).best_peer(8).unwrap().name, "b");
        assert!(measured("rate", all(), vec![]).best_peer(16).is_none());
    }

    #[test]
    fn a_gate_is_kept_at_its_limit_and_missed_beyond() {
        let at = |ours: f64| {
            let all = vec![series("weft", &[(8, ours)]), series("peer", &[(8, 1.0)])];
            verdict(&measured("latency", all, vec![]), "G1", "best peer")
        };
        assert_eq!((at(0.7).passed, at(0.71).passed), (Some(true), Some(false)));
        assert_eq!(at(0.71).got, Some(0.71));
    }

    #[test]
    fn rounds_on_both_sides_of_a_limit_leave_it_open() {
        let at = |ours: [f64; 3]| {
            let mut weft = series("weft", &[(8, 1.0)]);
            for (round, value) in weft.rounds.iter_mut().zip(ours) {
                round.insert(8, Point { median: value, best: value });
            }
            verdict(&measured("latency", vec![weft, series("peer", &[(8, 1.0)])], vec![]), "G1", "best peer")
                .word()
        };
        assert_eq!(
            [at([0.5, 0.6, 0.7]), at([0.5, 0.6, 0.8]), at([0.8; 3])],
            ["ok", "at its limit", "MISSED"]
        );
    }

    #[test]
    fn of_rates_more_is_better() {
        let at = |ours: f64| {
            let all = vec![series("weft", &[(8, ours)]), series("peer", &[(8, 10.0)])];
            verdict(&measured("rate", all, vec![]), "G3", "≥ 2.00")
        };
        assert_eq!((at(20.0).passed, at(19.9).passed), (Some(true), Some(false)));
    }

    #[test]
    fn floors_are_limits_too() {
        let all = vec![series("weft", &[(8, 0.15)]), series("peer", &[(8, 1.0)])];
        let floors = vec![series("bounce-one-line", &[(8, 0.07)]), series("bounce-two-lines", &[(8, 0.14)])];
        let measured = measured("latency", all, floors);
        assert_eq!(verdict(&measured, "G1", "bounce-two-lines").passed, Some(true));
        let stretch = verdict(&measured, "G1", "bounce-one-line");
        assert_eq!((stretch.passed, stretch.stretch), (Some(false), true));
    }

    #[test]
    fn a_range_is_judged_by_its_worst_point() {
        let ours = [(64, 1.0), (1024, 9.0), (524_288, 1000.0)];
        let theirs = [(64, 10.0), (1024, 10.0), (524_288, 1.0)];
        let all = vec![series("weft", &ours), series("peer", &theirs)];
        let verdict = verdict(&measured("vector-8", all, vec![]), "G6", "0.50");
        assert_eq!((verdict.at, verdict.got, verdict.passed), (1024, Some(0.9), Some(false)));
    }

    #[test]
    fn what_was_not_measured_is_neither_kept_nor_missed() {
        let all = vec![series("weft", &[]), series("peer", &[(8, 1.0)])];
        let verdicts = measured("latency", all, vec![]).verdicts();
        assert!(verdicts.iter().all(|verdict| verdict.passed.is_none() && verdict.got.is_none()));
        let alone = vec![series("weft", &[(8, 1.0)])];
        assert_eq!(verdict(&measured("latency", alone, vec![]), "G1", "best peer").passed, None);
    }

    #[test]
    fn a_cliff_is_found_where_it_is() {
        let smooth: Vec<(u64, f64)> = (0..23).map(|power| (1 << power, 0.1 * 1.9f64.powi(power))).collect();
        let mut steep = smooth.clone();
        steep[13..].iter_mut().for_each(|(_, time)| *time *= 1.5);
        let found = |times: &[(u64, f64)]| {
            verdict(&measured("latency", vec![series("weft", times)], vec![]), "no cliff", "time(2n)")
        };
        assert_eq!(found(&smooth).passed, Some(true));
        assert_eq!((found(&steep).passed, found(&steep).at), (Some(false), 1 << 13));
    }

    #[test]
    fn steps_are_told_of_all_that_have_sizes() {
        let all = vec![series("weft", &[(8, 1.0), (16, 3.0)]), series("peer", &[(8, 1.0), (16, 1.5)])];
        let one_point = series("bounce-one-line", &[(8, 0.07)]);
        let measured = measured("latency", all, vec![one_point]);
        assert_eq!(measured.steps(), [("weft", 16, 3.0), ("peer", 16, 1.5)]);
    }

    #[test]
    fn the_worst_ratio_is_over_all_sizes() {
        let all = vec![
            series("weft", &[(8, 1.0), (32, 5.0), (64, 1.0)]),
            series("peer", &[(8, 1.0), (32, 2.0), (64, 1.0)]),
        ];
        let (at, ratio) = measured("latency", all, vec![]).worst().unwrap();
        assert_eq!((at, ratio.median), (32, 2.5));
    }
}
