//! `docs/generated/performance.md`, and its pictures.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::about::About;
use super::judge::{Measured, Verdict};
use super::samples::Series;
use super::tell;
use system_tests::plot::{self, Chart};

/// Writes the page and the pictures.
///
/// # Errors
/// When a file cannot be written.
pub fn write(root: &Path, about: &About, all: &[Measured]) -> Result<(), String> {
    let (docs, images) = (root.join("docs/generated"), root.join("docs/images"));
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for folder in [&docs, &images] {
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    for (name, rows) in PICTURES {
        let charts: Vec<Chart> = rows.iter().filter_map(|id| chart(all, id)).collect();
        if charts.is_empty() {
            continue;
        }
        let picture = images.join(format!("{name}.svg"));
        fs::write(&picture, plot::svg(&charts)).map_err(|error| failed(&picture, error))?;
    }
    let page = docs.join("performance.md");
    fs::write(&page, format!("{HEAD}{}", body(about, all))).map_err(|error| failed(&page, error))
}

fn body(about: &About, all: &[Measured]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "Machine: {}.  ", about.machine);
    let _ = writeln!(out, "Cpus: {}.  ", about.apart);
    let _ = writeln!(out, "Measured: {about}.  ");
    let names: Vec<String> =
        about.libraries.iter().map(|(name, library)| format!("{name}: {library}")).collect();
    let _ = writeln!(out, "Libraries: {}.\n", names.join("; "));
    out.push_str("### Gates\n\n| gate | row | at | must be | is | |\n|---|---|---|---|---|---|\n");
    for measured in all {
        measured.verdicts().iter().for_each(|verdict| out.push_str(&gate_line(measured, verdict)));
    }
    for measured in all {
        out.push_str(&section(measured));
    }
    for (name, rows) in PICTURES {
        if rows.iter().any(|id| chart(all, id).is_some()) {
            let _ = writeln!(out, "\n![{}](../images/{name}.svg)", rows.join(", "));
        }
    }
    out
}

fn gate_line(measured: &Measured, verdict: &Verdict) -> String {
    let word = match verdict.word() {
        "MISSED" => "**missed**",
        word => word,
    };
    let name = if verdict.stretch { format!("{} stretch", verdict.gate) } else { verdict.gate.to_owned() };
    format!(
        "| {name} | {} | {} | {} | {} | {word} |\n",
        verdict.row,
        tell::point(measured, verdict.at),
        verdict.rule,
        verdict.got.map_or("-".to_owned(), |got| format!("{got:.2}"))
    )
}

fn section(measured: &Measured) -> String {
    let row = measured.row;
    let mut out = format!("\n### {}\n\n", row.title);
    if let Some(reason) = &measured.left_out {
        let _ = writeln!(out, "Left out: {reason}.");
        return out;
    }
    let _ = writeln!(
        out,
        "`{}`, {}, {} rounds; the best peer is bold.\n",
        row.id,
        row.unit.name(),
        measured.weft().rounds.len()
    );
    if let Some(library) = &measured.library {
        let _ = writeln!(out, "Everybody by {library}.\n");
    }
    if let Some(earlier) = &measured.earlier {
        let _ = writeln!(out, "From another sitting: {earlier}.\n");
    }
    let floors: String = measured.floors.iter().map(|floor| format!(" {} |", floor.name)).collect();
    let names: String = measured.series.iter().map(|series| format!(" {} |", series.name)).collect();
    let _ = writeln!(
        out,
        "| {} |{names} weft / best | rounds |{floors}",
        if row.unit.by_ranks() { "ranks" } else { "bytes" }
    );
    let _ = writeln!(out, "|{}", "---|".repeat(3 + measured.series.len() + measured.floors.len()));
    tell::shown(measured).into_iter().for_each(|at| out.push_str(&line(measured, at)));
    if let Some((at, ratio)) = measured.worst() {
        let _ = writeln!(
            out,
            "\nWorst of all, not only of those shown: {:.2} at {} (rounds {:.2} to {:.2}).",
            ratio.median,
            tell::point(measured, at),
            ratio.least,
            ratio.most
        );
    }
    if let Some(steps) = tell::steps(measured) {
        let _ = writeln!(out, "S{}.", steps.trim_start_matches('s'));
    }
    for series in measured.series.iter().chain(&measured.floors) {
        if let Some(failure) = &series.failure {
            let first = failure.lines().take(2).collect::<Vec<_>>().join(" ");
            let _ = writeln!(out, "\n{} failed: {first}", series.name);
        }
    }
    out
}

fn line(measured: &Measured, at: u64) -> String {
    let best = measured.best_peer(at).map(|series| series.name.as_str());
    let mut out =
        format!("| {} |", if measured.row.unit.by_ranks() { at.to_string() } else { plot::size(at as f64) });
    for series in &measured.series {
        let number = tell::number(series.value(at));
        let _ = if best == Some(&series.name) {
            write!(out, " **{number}** |")
        } else {
            write!(out, " {number} |")
        };
    }
    match measured.ratio(at) {
        Some(ratio) => {
            let _ = write!(out, " {:.2} | {:.2} to {:.2} |", ratio.median, ratio.least, ratio.most);
        }
        None => out.push_str(" - | - |"),
    }
    measured.floors.iter().for_each(|floor| {
        let _ = write!(out, " {} |", tell::number(floor.value_near(at)));
    });
    out.push('\n');
    out
}

/// A chart of the row over all its sizes; none where nothing was measured.
fn chart(all: &[Measured], id: &str) -> Option<Chart> {
    let measured = all.iter().find(|measured| measured.row.id == id && measured.left_out.is_none())?;
    let line = |series: &Series| plot::Series {
        name: series.name.clone(),
        points: series.points().into_iter().filter_map(|at| Some((at as f64, series.value(at)?))).collect(),
    };
    // A floor with a single point is no line.
    let floors = measured.floors.iter().filter(|floor| floor.points().len() > 1);
    let series = measured.series.iter().chain(floors).map(line).collect();
    Some(Chart { title: measured.row.title.into(), unit: measured.row.unit.name().into(), series })
}

const HEAD: &str = "# Performance: the last comparison\n\n<!-- written by `cargo compare`; what is changed here by hand is lost -->\n\n";
const PICTURES: [(&str, &[&str]); 5] = [
    ("point-to-point", &["latency", "bandwidth"]),
    ("rate-and-vectors", &["rate", "vector-8"]),
    ("collectives", &["allreduce", "bcast"]),
    ("tcp-loopback", &["tcp-latency", "tcp-bandwidth"]),
    ("tcp-namespaces", &["tcp-latency-namespaces", "tcp-bandwidth-namespaces"]),
];

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{measured, series};
    use super::*;

    fn about() -> About {
        About {
            machine: "a machine".into(),
            date: "2026-01-02".into(),
            commit: "abc".into(),
            libraries: vec![("weft".into(), "weft 0.1".into())],
            quick: false,
            apart: "as they come".into(),
        }
    }

    fn rows() -> Vec<Measured> {
        let sizes = |factor: f64| [(8, factor), (64, 2.0 * factor)];
        let latency = vec![series("weft", &sizes(0.1)), series("mpich", &sizes(0.2))];
        let split = series("split", &[(8192, 1.0), (16384, 2.0)]);
        let startup = vec![series("weft", &[(2, 8.0)]), series("mpich", &[(2, 80.0)])];
        vec![measured("latency", latency, vec![split]), measured("startup", startup, vec![])]
    }

    #[test]
    fn the_page_has_machine_gates_tables_and_pictures() {
        let body = body(&about(), &rows());
        for part in [
            "Machine: a machine.",
            "Cpus: as they come.",
            "2026-01-02, commit `abc`, a full run",
            "| G1 | latency | 8 | ≤ 0.70 × best peer | 0.50 | ok |",
            "| 64 | 0.200 | **0.400** | 0.50 | 0.50 to 0.50 | - |",
            "| G14 | startup | 2 ranks | ≤ 0.25 × best peer | 0.10 | ok |",
            "not measured",
            "![latency, bandwidth](../images/point-to-point.svg)",
        ] {
            assert!(body.contains(part), "{part} is not in\n{body}");
        }
        assert!(!body.contains("images/tcp"), "no picture of what was not measured");
    }

    #[test]
    fn page_and_pictures_are_written() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &about(), &rows()).unwrap();
        let docs = root.path().join("docs");
        let page = fs::read_to_string(docs.join("generated/performance.md")).unwrap();
        assert!(page.starts_with(HEAD) && page.contains("### Gates"), "{page}");
        let picture = fs::read_to_string(docs.join("images/point-to-point.svg")).unwrap();
        assert!(picture.contains("<svg") && picture.contains("split"));
        assert!(!docs.join("images/collectives.svg").exists(), "no picture of nothing");
    }
}
