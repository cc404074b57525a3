//! The demo: C programs compiled with the installed `mpicc` run with 2 and with 8 ranks over shared
//! memory and over tcp, and a small table and picture of latency and bandwidth.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::job;
use crate::measured::{self, Row};
use crate::plot::{self, Chart, Series};

/// Runs the demo with the weft that is installed in `prefix`; sources are those of `root`'s `bench/`,
/// and what it makes goes to `root`'s `target/demo`.
///
/// # Errors
/// The first step that went wrong, with what the program said.
pub fn run(root: &Path, prefix: &Path) -> Result<(), String> {
    let folder = root.join("target/demo");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let demo =
        Demo { sources: root.join("bench"), bin: prefix.join("bin"), folder, progress: Progress::new() };
    demo.examples()?;
    let measured = demo.measure()?;
    demo.progress.finish();
    println!("\n{}", table(&measured));
    let picture = demo.folder.join("latency-bandwidth.svg");
    fs::write(&picture, plot::svg(&charts(&measured)))
        .map_err(|error| format!("cannot write {}: {error}", picture.display()))?;
    println!("picture: {}", picture.display());
    println!("try it:  {} -n 4 {}", demo.bin.join("weftrun").display(), demo.folder.join("halo").display());
    Ok(())
}

struct Demo {
    sources: PathBuf,
    bin: PathBuf,
    folder: PathBuf,
    progress: Progress,
}

/// What one fabric measured.
struct Measured {
    fabric: &'static str,
    latency: Vec<Row>,
    bandwidth: Vec<Row>,
}

impl Demo {
    fn examples(&self) -> Result<(), String> {
        for name in EXAMPLES {
            self.compile(name, &[self.sources.join(format!("examples/{name}.c"))])?;
            for fabric in FABRICS {
                for ranks in RANKS {
                    self.progress.step(format!("{name} with {ranks} ranks over {fabric}"));
                    let output = self.launch(fabric, ranks, name, &[])?;
                    self.progress
                        .print(&format!("--- {name}, {ranks} ranks, {fabric}\n{}", output.trim_end()));
                }
            }
        }
        Ok(())
    }

    fn measure(&self) -> Result<Vec<Measured>, String> {
        for name in BENCHMARKS {
            self.compile(name, &measured::sources(&self.sources, name))?;
        }
        FABRICS.into_iter().map(|fabric| self.measure_fabric(fabric)).collect()
    }

    fn measure_fabric(&self, fabric: &'static str) -> Result<Measured, String> {
        let rows = |name: &str| {
            self.progress.step(format!("measuring {name} over {fabric}"));
            let options = ["--json", "-", "--label", fabric, "--iterations", ITERATIONS, "--min", "1"];
            measured::rows(&self.launch(fabric, 2, name, &options)?)
        };
        Ok(Measured { fabric, latency: rows("latency")?, bandwidth: rows("bandwidth")? })
    }

    fn compile(&self, name: &str, sources: &[PathBuf]) -> Result<(), String> {
        self.progress.step(format!("mpicc {name}.c"));
        let mut mpicc = Command::new(self.bin.join("mpicc"));
        mpicc.args(["-O2", "-std=c99", "-o"]).arg(self.folder.join(name)).args(sources).arg("-lm");
        job::succeed(&format!("compiling {name}"), &mut mpicc, LIMIT, &self.log(name)).map(drop)
    }

    fn launch(&self, fabric: &str, ranks: u32, name: &str, options: &[&str]) -> Result<String, String> {
        let mut weftrun = Command::new(self.bin.join("weftrun"));
        weftrun
            .args(["-n", &ranks.to_string(), "--fabric", fabric])
            .arg(self.folder.join(name))
            .args(options);
        let what = format!("{name} with {ranks} ranks over {fabric}");
        job::succeed(&what, &mut weftrun, LIMIT, &self.log(name)).map(|finished| finished.output)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}

/// A bar on a terminal, plain lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    done: std::cell::Cell<usize>,
}

impl Progress {
    fn new() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {msg}");
            let bar = ProgressBar::new(STEPS as u64);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Progress { bar, done: std::cell::Cell::new(0) }
    }

    fn step(&self, message: String) {
        let number = self.done.replace(self.done.get() + 1);
        match &self.bar {
            Some(bar) => {
                bar.set_position(number as u64);
                bar.set_message(message);
            }
            None => println!("[{:2}/{STEPS}] {message}", number + 1),
        }
    }

    /// Shows a program's output above the bar.
    fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Size, then each fabric's latency, then each fabric's bandwidth.
fn table(all: &[Measured]) -> String {
    let mut head = format!("{:>8}", "bytes");
    all.iter().for_each(|one| head += &format!("{:>12}", format!("{} us", one.fabric)));
    all.iter().for_each(|one| head += &format!("{:>12}", format!("{} GB/s", one.fabric)));
    let rows = TABLE_BYTES.into_iter().map(|bytes| {
        let mut row = format!("\n{:>8}", plot::size(bytes as f64));
        let latency = |one: &Measured| measured::at(&one.latency, bytes).map(|row| row.median_us);
        let rate = |one: &Measured| measured::at(&one.bandwidth, bytes).map(|row| row.median_mb_s / 1e3);
        all.iter().for_each(|one| row += &cell(latency(one)));
        all.iter().for_each(|one| row += &cell(rate(one)));
        row
    });
    format!("medians, 2 ranks, contents verified\n{head}{}", rows.collect::<String>())
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| format!("{:>12}", "-"), |value| format!("{value:>12.3}"))
}

fn charts(all: &[Measured]) -> [Chart; 2] {
    let lines = |points: &dyn Fn(&Measured) -> Vec<(f64, f64)>| {
        all.iter().map(|one| Series { name: one.fabric.into(), points: points(one) }).collect()
    };
    let latency = |one: &Measured| one.latency.iter().map(|row| (row.bytes as f64, row.median_us)).collect();
    let rate =
        |one: &Measured| one.bandwidth.iter().map(|row| (row.bytes as f64, row.median_mb_s / 1e3)).collect();
    [
        Chart {
            title: "Latency".into(),
            unit: "microseconds, half a round trip".into(),
            series: lines(&latency),
        },
        Chart { title: "Bandwidth".into(), unit: "GB/s".into(), series: lines(&rate) },
    ]
}

const FABRICS: [&str; 2] = ["shm", "tcp"];
const RANKS: [u32; 2] = [2, 8];
const EXAMPLES: [&str; 2] = ["hello", "halo"];
const BENCHMARKS: [&str; 2] = ["latency", "bandwidth"];
const TABLE_BYTES: [u64; 7] = [8, 64, 1024, 8 << 10, 64 << 10, 1 << 20, 4 << 20];
const ITERATIONS: &str = "1000";
/// Compilations and runs, as they follow each other in `run`.
const STEPS: usize =
    EXAMPLES.len() * (1 + FABRICS.len() * RANKS.len()) + BENCHMARKS.len() * (1 + FABRICS.len());
/// A step that takes this long is broken: a healthy one takes seconds.
const LIMIT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: u64, median_us: f64, median_mb_s: f64) -> Row {
        let benchmark = "latency".to_owned();
        Row { benchmark, ranks: 2, bytes, min_us: median_us, median_us, median_mb_s, ..Row::default() }
    }

    fn measured() -> Vec<Measured> {
        let one = |fabric, factor: f64| Measured {
            fabric,
            latency: vec![row(8, 0.2 * factor, 0.0), row(1024, 0.5 * factor, 0.0)],
            bandwidth: vec![row(8, 1.0, 500.0 / factor)],
        };
        vec![one("shm", 1.0), one("tcp", 20.0)]
    }

    #[test]
    fn the_table_has_a_column_for_each_fabric_and_dashes_for_gaps() {
        let table = table(&measured());
        let lines: Vec<&str> = table.lines().collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[1]), ["bytes", "shm", "us", "tcp", "us", "shm", "GB/s", "tcp", "GB/s"]);
        assert_eq!(words(lines[2]), ["8", "0.200", "4.000", "0.500", "0.025"]);
        assert_eq!(words(lines[4]), ["1K", "0.500", "10.000", "-", "-"]);
        assert_eq!(lines.len(), 2 + TABLE_BYTES.len());
    }

    #[test]
    fn the_picture_has_a_line_for_each_fabric() {
        let [latency, bandwidth] = charts(&measured());
        assert_eq!(latency.series.len(), 2);
        assert_eq!(latency.series[1].points, [(8.0, 4.0), (1024.0, 10.0)]);
        assert_eq!(bandwidth.series[0].points, [(8.0, 0.5)]);
    }
}
