//! Results as text: a table for each row on the terminal, and the list of verdicts.

use std::fmt::Write as _;

use super::judge::{Measured, Verdict};
use super::samples::Series;
use system_tests::plot;

/// The table of one row, with its verdicts below.
pub fn table(measured: &Measured) -> String {
    let row = measured.row;
    let rounds = measured.weft().rounds.len();
    let mut out = format!("\n{} [{}], {}, {rounds} rounds\n", row.title, row.id, row.unit.name());
    if let Some(reason) = &measured.left_out {
        let _ = writeln!(out, "  left out: {reason}");
        return out;
    }
    if let Some(library) = &measured.library {
        let _ = writeln!(out, "  everybody by {library}");
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
    if let Some(steps) = steps(measured) {
        let _ = writeln!(out, "  {steps}");
    }
    for verdict in measured.verdicts() {
        let _ = writeln!(out, "  {}", sentence(&verdict));
    }
    out
}

/// Everybody's steepest step on one line, where the row has a gate on that.
pub fn steps(measured: &Measured) -> Option<String> {
    let all = measured.steps();
    let words: Vec<String> = all
        .iter()
        .map(|(name, at, step)| format!("{name} {step:.2} at {}", plot::size(*at as f64)))
        .collect();
    (!words.is_empty()).then(|| format!("steepest step from a size to its double: {}", words.join(", ")))
}

/// A verdict on one line.
pub fn sentence(verdict: &Verdict) -> String {
    let word = verdict.word();
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

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{measured, series};
    use super::*;

    #[test]
    fn a_table_has_values_ratios_floors_and_verdicts() {
        let all = vec![
            series("weft", &[(8, 0.1), (16, 0.3)]),
            series("mpich", &[(8, 0.2), (16, 0.1)]),
            series("impi", &[(8, 0.4)]),
        ];
        let table = table(&measured("latency", all, vec![series("bounce-two-lines", &[(8, 0.09)])]));
        let row = table.lines().find(|line| line.trim_start().starts_with("8 ")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["8", "0.100", "*0.200", "0.400", "|", "0.50", "0.50-0.50", "|", "0.0900", "1.11"]);
        assert!(table.contains("worst ratio over all sizes: 3.00 at 16"), "{table}");
        assert!(table.contains("MISSED") && table.contains("not measured"), "{table}");
    }

    #[test]
    fn a_failure_is_shown_with_its_words() {
        let mut broken = series("mpich", &[]);
        broken.failure = Some("exit status 1\n    | 7 bytes were not as they were sent".into());
        let table = table(&measured("latency", vec![series("weft", &[(8, 0.1)]), broken], vec![]));
        assert!(table.contains("mpich FAILED: exit status 1\n    | 7 bytes"), "{table}");
    }

    #[test]
    fn a_row_left_out_says_why() {
        let mut row = measured("tcp-latency-namespaces", vec![series("weft", &[])], vec![]);
        row.left_out = Some("no root".into());
        assert!(table(&row).contains("left out: no root"));
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0667, 0.144, 1.5, 12.34, 867.2, 20026.0].map(|value| number(Some(value)));
        assert_eq!(texts, ["0.0667", "0.144", "1.50", "12.3", "867", "20026"]);
        assert_eq!((number(Some(0.0)), number(None)), ("0.00".into(), "-".into()));
    }
}
