//! Results in a file: for programs, and for a comparison that is measured in several sittings.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::about::About;
use super::judge::Measured;
use super::row::Row;
use super::rows::ROWS;
use super::samples::Series;

/// Writes the rows `all`, which are those measured up to now, to the file at `path`.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, about: &About, all: &[Measured]) -> Result<(), String> {
    let rows: Vec<serde_json::Value> = all.iter().map(|measured| row_json(about, measured)).collect();
    let text = serde_json::json!({ "about": about, "rows": rows });
    fs::write(path, format!("{text:#}\n")).map_err(|error| format!("{}: {error}", path.display()))
}

fn row_json(about: &About, measured: &Measured) -> serde_json::Value {
    let at = |at| Some((at, measured.best_peer(at)?.name.clone(), measured.ratio(at)?));
    let ratios: Vec<serde_json::Value> = measured
        .weft()
        .points()
        .into_iter()
        .filter_map(at)
        .map(|(at, peer, ratio)| serde_json::json!({ "at": at, "best_peer": peer, "ratio": ratio }))
        .collect();
    serde_json::json!({
        "id": measured.row.id,
        "title": measured.row.title,
        "unit": measured.row.unit.name(),
        "about": measured.earlier.as_ref().unwrap_or(about),
        "left_out": measured.left_out,
        "library": measured.library,
        "series": measured.series,
        "floors": measured.floors,
        "ratios": ratios,
        "verdicts": measured.verdicts(),
    })
}

/// Reads what [`write()`] wrote. Rows that there are no more are passed over, and ratios and verdicts are
/// found anew: gates may have changed.
///
/// # Errors
/// When the file cannot be read, or is none of ours.
pub fn read(path: &Path) -> Result<Vec<Measured>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let kept: Kept = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(kept.rows.into_iter().filter_map(KeptRow::measured).collect())
}

/// The rows in their order: those measured now, and of the kept ones what is not among them.
pub fn merge(now: &[Measured], kept: &[Measured]) -> Vec<Measured> {
    let of = |list: &[Measured], row: &Row| list.iter().find(|one| one.row.id == row.id).cloned();
    ROWS.iter().filter_map(|row| of(now, row).or_else(|| of(kept, row))).collect()
}

#[derive(Deserialize)]
struct Kept {
    rows: Vec<KeptRow>,
}

#[derive(Deserialize)]
struct KeptRow {
    id: String,
    about: About,
    left_out: Option<String>,
    #[serde(default)]
    library: Option<String>,
    series: Vec<Series>,
    floors: Vec<Series>,
}

impl KeptRow {
    fn measured(self) -> Option<Measured> {
        let row = ROWS.iter().find(|row| row.id == self.id)?;
        if self.series.is_empty() {
            return None;
        }
        let KeptRow { about, left_out, library, series, floors, .. } = self;
        Some(Measured { row, series, floors, left_out, library, earlier: Some(about) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{measured, series};
    use super::*;

    fn about(commit: &str) -> About {
        About {
            machine: "m".into(),
            date: "2026-01-02".into(),
            commit: commit.into(),
            libraries: vec![],
            quick: true,
            apart: "as they come".into(),
        }
    }

    fn latency(time: f64) -> Measured {
        measured("latency", vec![series("weft", &[(8, time)]), series("peer", &[(8, 2.0)])], vec![])
    }

    #[test]
    fn json_has_samples_ratios_and_verdicts() {
        let json = row_json(&about("abc"), &latency(1.0));
        assert_eq!(json["series"][0]["rounds"][2]["8"]["median"], 1.0);
        assert_eq!(json["ratios"][0]["ratio"]["median"], 0.5);
        assert_eq!(json["ratios"][0]["best_peer"], "peer");
        assert_eq!(json["verdicts"][0]["passed"], true);
    }

    #[test]
    fn what_is_written_is_read_again_and_knows_where_it_is_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        write(&path, &about("old"), &[latency(1.0)]).unwrap();
        let kept = read(&path).unwrap();
        assert_eq!(kept[0].series, latency(1.0).series);
        let earlier = |all: &[Measured]| all[0].earlier.as_ref().map(|about| about.commit.clone());
        assert_eq!(earlier(&kept).as_deref(), Some("old"));
        write(&path, &about("new"), &kept).unwrap();
        assert_eq!(earlier(&read(&path).unwrap()).as_deref(), Some("old"), "it is still of the old commit");
    }

    #[test]
    fn the_library_of_a_row_is_kept_and_older_files_name_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        let mut row = latency(1.0);
        row.library = Some("libfabric 9.9".into());
        write(&path, &about("x"), &[row]).unwrap();
        assert_eq!(read(&path).unwrap()[0].library.as_deref(), Some("libfabric 9.9"));
        let older = fs::read_to_string(&path).unwrap().replace("\"library\": \"libfabric 9.9\",", "");
        fs::write(&path, older).unwrap();
        assert_eq!(read(&path).unwrap()[0].library, None);
    }

    #[test]
    fn rows_measured_now_come_before_kept_ones_and_in_order() {
        let rate = measured("rate", vec![series("weft", &[(8, 1.0)])], vec![]);
        let merged = merge(&[rate, latency(1.0)], &[latency(9.0)]);
        let found: Vec<_> = merged.iter().map(|one| (one.row.id, one.weft().value(8).unwrap())).collect();
        assert_eq!(found, [("latency", 1.0), ("rate", 1.0)]);
    }

    #[test]
    fn another_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.json");
        fs::write(&path, "{}").unwrap();
        assert!(read(&path).unwrap_err().contains("other.json"));
    }
}
