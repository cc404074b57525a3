//! What the programs in `bench/` measured: JSON, one object per line.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The source files that the benchmark `name` in the folder `bench` is compiled from.
pub fn sources(bench: &Path, name: &str) -> Vec<PathBuf> {
    [&format!("{name}.c"), "bench.c", "window.c", "apart.c"].map(|part| bench.join(part)).into()
}

/// One size of one benchmark.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Row {
    /// Name of the benchmark, as `latency`.
    pub benchmark: String,
    /// The name of the series: the fabric, or the library.
    pub label: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Size of a message, as the benchmark defines it.
    pub bytes: u64,
    /// Shortest time of an operation, in microseconds.
    #[serde(default)]
    pub min_us: f64,
    /// Median time of an operation, in microseconds.
    #[serde(default)]
    pub median_us: f64,
    /// Megabytes (10^6 bytes) a second at the median.
    #[serde(default)]
    pub median_mb_s: f64,
    /// Megabytes a second of the best block.
    #[serde(default)]
    pub best_mb_s: f64,
    /// Messages a second of the best block.
    #[serde(default)]
    pub best_msg_s: f64,
    /// Messages a second at the median.
    #[serde(default)]
    pub median_msg_s: f64,
    /// The median of what is no time: percent, or times as much as something else.
    #[serde(default)]
    pub median: f64,
    /// The share of a cpu that a waiting rank used, in percent (benchmark `blocked_cpu`).
    #[serde(default)]
    pub cpu_percent: f64,
    /// Memory of the median rank, in KiB (benchmark `startup`).
    #[serde(default)]
    pub pss_kib: f64,
    /// The cpus each rank may run on, one word per rank (benchmark `startup`).
    #[serde(default)]
    pub cpus: String,
    /// The version that the library reports of itself (benchmark `startup`).
    #[serde(default)]
    pub library: String,
}

/// Reads the rows out of a program's output; lines that do not begin an object are passed over,
/// because a launcher may say something of its own.
///
/// # Errors
/// When a line begins an object and is not one of ours, or when there is no row at all.
pub fn rows(output: &str) -> Result<Vec<Row>, String> {
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let rows: Result<Vec<Row>, String> = lines
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{error} in this line: {line}")))
        .collect();
    match rows {
        Ok(rows) if rows.is_empty() => Err(format!("no results in this output:\n{output}")),
        other => other,
    }
}

/// The row of this size.
pub fn at(rows: &[Row], bytes: u64) -> Option<&Row> {
    rows.iter().find(|row| row.bytes == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"benchmark":"latency","label":"shm","ranks":2,"bytes":8,"min_us":0.1,"median_us":0.2,"best_mb_s":80.0,"median_mb_s":40.0,"best_msg_s":1.0,"median_msg_s":1.0}"#;

    #[test]
    fn rows_are_found_among_other_lines() {
        let rows = rows(&format!("weftrun: two ranks\n{LINE}\n")).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(at(&rows, 8).map(|row| (row.label.as_str(), row.median_us)), Some(("shm", 0.2)));
        assert_eq!(at(&rows, 9), None);
    }

    #[test]
    fn a_cut_line_is_an_error_that_shows_it() {
        let error = rows(&LINE[..40]).unwrap_err();
        assert!(error.contains(r#"{"benchmark":"latency""#), "{error}");
    }

    #[test]
    fn no_result_is_an_error() {
        assert!(rows("nothing here\n").is_err());
    }
}
