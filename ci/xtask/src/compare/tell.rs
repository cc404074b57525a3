//! Results as text: a table for each row on the terminal, and the list of verdicts.

use std::fmt::Write as _;

use super::judge::{Measured, Verdict};
use super::samples::Series;
use crate::plot;

/// The table of one row, with its verdicts below.
pub fn table(measured: &Measured) -> String {
    let row = measured.row;
    let rounds = measured.weft().rounds.len();
    let mut out = format!("\n{} [{}], {}, {rounds} rounds\n", row.title, row.id, row.unit.name());
    if let Some(reason) = &measured.left_out {
        let _ = writeln!(out, "  left out: {reason}");
        return out;
    }
    let _ = writeln!(out, "{}", heading(measured));
    for at in shown(measured) {
        let _ = writeln!(out, "{}", line(measured, at));
    }
    for series in measured.series.iter().chain(&measured.floors) {
        if let Some(failure) = &series.failure {
            let _ = writeln!(out, "  {} FAILED: {failure}", series.name);
        }
    }
    if let Some((at, ratio)) = measured.worst() {
        let _ = writeln!(
            out,
            "  worst ratio over all {}: {:.2} at {} (rounds {:.2}-{:.2})",
            if row.unit.by_ranks() { "numbers of ranks" } else { "sizes" },
            ratio.median,
            point(measured, at),
            ratio.least,
            ratio.most
        );
    }
    for verdict in measured.verdicts() {
        let _ = writeln!(out, "  {}", sentence(&verdict));
    }
    out
}

/// A verdict on one line.
pub fn sentence(verdict: &Verdict) -> String {
    let word = match (verdict.passed, verdict.stretch) {
        (None, _) => "not measured",
        (Some(true), _) => "ok",
        (Some(false), false) => "MISSED",
        (Some(false), true) => "not yet",
    };
    let name = format!("{}{}", verdict.gate, if verdict.stretch { " stretch" } else { "" });
    let got = verdict.got.map_or("-".to_owned(), |got| format!("{got:.2}"));
    let at = plot::size(verdict.at as f64);
    format!("{name:<12} {:<26} at {at:>4}: {:<34} {got:>7}  {word}", verdict.row, verdict.rule)
}

/// The points that tables show.
pub fn shown(measured: &Measured) -> Vec<u64> {
    let mut all: Vec<u64> = measured.series.iter().flat_map(Series::points).collect();
    all.sort_unstable();
    all.dedup();
    let few = measured.row.shown;
    all.into_iter().filter(|at| few.is_empty() || few.contains(at)).collect()
}

/// A point as people write it.
pub fn point(measured: &Measured, at: u64) -> String {
    if measured.row.unit.by_ranks() { format!("{at} ranks") } else { plot::size(at as f64) }
}

fn heading(measured: &Measured) -> String {
    let mut out = format!("{:>9}", if measured.row.unit.by_ranks() { "ranks" } else { "bytes" });
    for series in &measured.series {
        let _ = write!(out, " {:>11}", series.name);
    }
    let _ = write!(out, " | {:>6} {:>11} |", "ratio", "rounds");
    for floor in &measured.floors {
        let _ = write!(out, " {:>16} {:>6}", floor.name, "ratio");
    }
    out
}

fn line(measured: &Measured, at: u64) -> String {
    let mut out =
        format!("{:>9}", if measured.row.unit.by_ranks() { at.to_string() } else { plot::size(at as f64) });
    let best = measured.best_peer(at).map(|series| series.name.clone());
    for series in &measured.series {
        let mark = if Some(&series.name) == best.as_ref() { "*" } else { "" };
        let _ = write!(out, " {:>11}", format!("{mark}{}", number(series.value(at))));
    }
    match measured.ratio(at) {
        Some(ratio) => {
            let _ = write!(
                out,
                " | {:>6.2} {:>11} |",
                ratio.median,
                format!("{:.2}-{:.2}", ratio.least, ratio.most)
            );
        }
        None => out.push_str(" |      -           - |"),
    }
    for floor in &measured.floors {
        let ratio =
            measured.weft().ratio(floor, at).map_or("-".to_owned(), |ratio| format!("{:.2}", ratio.median));
        let _ = write!(out, " {:>16} {ratio:>6}", number(floor.value_near(at)));
    }
    out
}

/// Three digits that count.
pub fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let digits =
        if value.abs() < 1e-9 { 2 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 4) as usize };
    format!("{value:.digits$}")
}
