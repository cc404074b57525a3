//! The public OSU micro-benchmarks on weft, on another weft and on the peers, in one table of every size.
//!
//! The suite lies outside of this repository. It is built by hand, once with each `mpicc`, into the folders
//! `weft`, `mpich`, `openmpi` and `impi` of one tree. Everybody runs in turn, round after round; a ratio is
//! taken within each round, and the median of the rounds is told.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use system_tests::plot;

use super::Options;
use super::about::About;
use super::contestant::{Contestant, Job, Way};
use super::field::Field;
use super::row::Unit;
use super::samples::{Point, Series};

/// A program of the suite.
#[derive(Clone, Copy, Debug)]
struct Benchmark {
    /// Its name without `osu_`.
    name: &'static str,
    /// Numbers of ranks, one run each.
    ranks: &'static [u32],
    /// What its second column is.
    unit: Unit,
    /// The longest message, in bytes; nothing for a program without sizes.
    longest: Option<u32>,
    /// Further arguments.
    words: &'static [&'static str],
}

const PAIR: &[u32] = &[2];
const ALL: &[u32] = &[2, 4, 8];
/// The suite adds chars by default, which earlier wefts and the standard know no sum of.
const INTEGERS: &[&str] = &["-T", "mpi_int"];

/// The programs that each change is held against.
const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "latency", ranks: PAIR, unit: Unit::Microseconds, longest: Some(4 << 20), words: &[] },
    Benchmark { name: "bw", ranks: PAIR, unit: Unit::Gigabytes, longest: Some(4 << 20), words: &[] },
    Benchmark { name: "bibw", ranks: PAIR, unit: Unit::Gigabytes, longest: Some(4 << 20), words: &[] },
    Benchmark { name: "barrier", ranks: ALL, unit: Unit::Microseconds, longest: None, words: &[] },
    Benchmark { name: "bcast", ranks: ALL, unit: Unit::Microseconds, longest: Some(1 << 20), words: &[] },
    Benchmark {
        name: "allreduce",
        ranks: ALL,
        unit: Unit::Microseconds,
        longest: Some(1 << 20),
        words: INTEGERS,
    },
    Benchmark {
        name: "reduce",
        ranks: ALL,
        unit: Unit::Microseconds,
        longest: Some(1 << 20),
        words: INTEGERS,
    },
    Benchmark { name: "allgather", ranks: ALL, unit: Unit::Microseconds, longest: Some(1 << 20), words: &[] },
    Benchmark { name: "alltoall", ranks: ALL, unit: Unit::Microseconds, longest: Some(1 << 20), words: &[] },
    Benchmark { name: "gather", ranks: ALL, unit: Unit::Microseconds, longest: Some(1 << 20), words: &[] },
    Benchmark { name: "scatter", ranks: ALL, unit: Unit::Microseconds, longest: Some(1 << 20), words: &[] },
];

/// One benchmark with one number of ranks, as everybody was measured.
#[derive(Clone, Debug)]
struct OsuResult {
    name: &'static str,
    ranks: u32,
    unit: Unit,
    /// weft first.
    series: Vec<Series>,
}

/// Measures, tells, and answers whether weft ran everywhere.
///
/// # Errors
/// When the tree lacks a program, or what all runs need cannot be had.
pub fn run(root: &Path, tree: &Path, options: &Options) -> Result<bool, String> {
    let field = Field::for_programs_of_others(root, options)?;
    let chosen = select(&options.only)?;
    let programs = Programs::find(tree, field.contestants(), &chosen)?;
    let about = About::here(root, Vec::new(), options.quick);
    let mut all = Vec::new();
    for benchmark in chosen {
        for &ranks in benchmark.ranks {
            if !options.ranks.is_empty() && !options.ranks.contains(&ranks) {
                continue;
            }
            all.push(measure(&field, &programs, &benchmark, ranks, options));
            // After each: a long run that is broken off has not been for nothing.
            if let Some(path) = &options.table {
                let text = table(&about, &all);
                fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    println!("{}", table(&about, &all));
    Ok(all.iter().all(|measured| measured.series[0].failure.is_none()))
}

/// The benchmarks of these names, or whose names begin so; all where none is named.
fn select(only: &[String]) -> Result<Vec<Benchmark>, String> {
    let is_of = |name: &str, wish: &String| name.starts_with(wish.trim_start_matches("osu_"));
    if let Some(wrong) = only.iter().find(|wish| !BENCHMARKS.iter().any(|one| is_of(one.name, wish))) {
        let names: Vec<&str> = BENCHMARKS.iter().map(|one| one.name).collect();
        return Err(format!("no benchmark begins with `{wrong}`\n  there are {}", names.join(", ")));
    }
    let wanted = |one: &&Benchmark| only.is_empty() || only.iter().any(|wish| is_of(one.name, wish));
    Ok(BENCHMARKS.iter().filter(wanted).copied().collect())
}

/// Where the programs of each library are.
#[derive(Debug)]
struct Programs(BTreeMap<(&'static str, &'static str), PathBuf>);

impl Programs {
    /// Looks through the tree, whether it was installed or only built.
    fn find(tree: &Path, contestants: &[Contestant], benchmarks: &[Benchmark]) -> Result<Programs, String> {
        let mut found = BTreeMap::new();
        for one in contestants {
            let folder = tree.join(one.folder());
            for benchmark in benchmarks {
                let name = format!("osu_{}", benchmark.name);
                let path = program(&folder, &name).ok_or_else(|| {
                    format!(
                        "no program {name} below {}\n  build the suite with the mpicc of {} into that folder",
                        folder.display(),
                        one.folder()
                    )
                })?;
                found.insert((one.folder(), benchmark.name), path);
            }
        }
        Ok(Programs(found))
    }

    fn path(&self, one: Contestant, benchmark: &Benchmark) -> &Path {
        &self.0[&(one.folder(), benchmark.name)]
    }
}

/// The executable file of that name in the folder or below. What libtool keeps in `.libs` is passed over: it
/// does not find its libraries by itself.
fn program(folder: &Path, name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let (path, kind) = (entry.path(), entry.file_type().ok()?);
        let executable = || entry.metadata().is_ok_and(|about| about.permissions().mode() & 0o111 != 0);
        if kind.is_file() && entry.file_name() == name && executable() {
            return path.canonicalize().ok();
        }
        if kind.is_dir() && entry.file_name() != ".libs" {
            folders.push(path);
        }
    }
    folders.sort();
    folders.iter().find_map(|folder| program(folder, name))
}

fn measure(
    field: &Field,
    programs: &Programs,
    benchmark: &Benchmark,
    ranks: u32,
    options: &Options,
) -> OsuResult {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(1));
    let shared_cpus = cpus < ranks;
    let words = words(benchmark, shared_cpus, options.quick);
    let contestants = field.contestants();
    let mut series: Vec<Series> = contestants.iter().map(|one| Series::new(one.name())).collect();
    for _ in 0..options.rounds.unwrap_or(if options.quick { 3 } else { ROUNDS }) {
        for (one, series) in contestants.iter().zip(&mut series) {
            let path = programs.path(*one, benchmark);
            let job = Job { program: benchmark.name, path: Some(path), ranks, way: Way::Node, shared_cpus };
            series.note(|| {
                let said = field.output(*one, &job, &words, SECONDS)?;
                points(&said, benchmark)
            });
        }
    }
    OsuResult { name: benchmark.name, ranks, unit: benchmark.unit, series }
}

/// What the program is told. Where ranks share cpus, libraries that wait in earnest take a time slice for
/// each step.
fn words(benchmark: &Benchmark, shared_cpus: bool, quick: bool) -> Vec<String> {
    let mut words: Vec<String> = benchmark.words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(longest) = benchmark.longest {
        words.extend(["-m".to_owned(), format!("1:{longest}")]);
    }
    if shared_cpus || quick {
        let (times, before) = if shared_cpus && quick { (50, 5) } else { (200, 20) };
        words.extend(["-i".to_owned(), times.to_string(), "-x".to_owned(), before.to_string()]);
    }
    words
}

/// The numbers in what a program printed: a size and a value in each line, or the value alone.
fn points(said: &str, benchmark: &Benchmark) -> Result<BTreeMap<u64, Point>, String> {
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        let (size, value) = match benchmark.longest {
            Some(_) => (first.parse().ok()?, words.next()?.parse().ok()?),
            None => (0, first.parse::<f64>().ok()?),
        };
        Some((size, value))
    };
    let scale = if benchmark.unit == Unit::Gigabytes { 1e-3 } else { 1.0 };
    let point = |value: f64| Point { median: value * scale, best: value * scale };
    let found: BTreeMap<u64, Point> =
        said.lines().filter_map(number).map(|(size, value)| (size, point(value))).collect();
    if found.is_empty() { Err(format!("no numbers in its output:\n{said}")) } else { Ok(found) }
}

/// The whole comparison as a page of Markdown: means first, then every size.
fn table(about: &About, all: &[OsuResult]) -> String {
    let mut out = format!("{}\n{about}\n\n", about.machine);
    let Some(first) = all.first() else { return out };
    out.push_str(
        "Times in µs, rates in GB/s: medians of the rounds. A ratio is weft's time over the other's (of rates the other's \
         over weft's), so less than 1 is faster.\n\n",
    );
    let others: Vec<&str> = first.series[1..].iter().map(|series| series.name.as_str()).collect();
    if !others.is_empty() {
        out.push_str(&means(&others, all));
    }
    let columns: String = others.iter().fold(String::new(), |mut text, name| {
        let _ = write!(text, " {name} | ratio |");
        text
    });
    let _ = writeln!(out, "| benchmark | ranks | bytes | weft |{columns}");
    let _ = writeln!(out, "|---|--:|--:|--:|{}", "--:|--:|".repeat(others.len()));
    for measured in all {
        measured.lines(&mut out);
    }
    for series in all.iter().flat_map(|measured| measured.series.iter().map(move |series| (measured, series)))
    {
        if let (measured, Series { name, failure: Some(failure), .. }) = series {
            let _ =
                writeln!(out, "\n{} of {} ranks: {name} FAILED: {failure}", measured.name, measured.ranks);
        }
    }
    out
}

/// The geometric mean and the worst of the ratios of each benchmark, and of all.
fn means(others: &[&str], all: &[OsuResult]) -> String {
    let mut out = String::from("| benchmark | ranks |");
    others.iter().for_each(|name| {
        let _ = write!(out, " {name}: mean | worst |");
    });
    let _ = writeln!(out, "\n|---|--:|{}", "--:|--:|".repeat(others.len()));
    let mut everything: Vec<Vec<(u64, f64)>> = vec![Vec::new(); others.len()];
    for measured in all {
        let _ = write!(out, "| {} | {} |", measured.name, measured.ranks);
        for (other, everything) in (1..).zip(&mut everything) {
            let ratios = measured.ratios(other);
            let _ = write!(out, " {} |", summary(&ratios));
            everything.extend(ratios);
        }
        out.push('\n');
    }
    out.push_str("| all | |");
    everything.iter().for_each(|ratios| {
        let _ = write!(out, " {} |", summary(ratios));
    });
    out.push_str("\n\n");
    out
}

fn summary(ratios: &[(u64, f64)]) -> String {
    let worst = ratios.iter().max_by(|left, right| left.1.total_cmp(&right.1));
    match (geometric_mean(ratios.iter().map(|(_, ratio)| *ratio)), worst) {
        (Some(mean), Some((at, worst))) => format!("{mean:.2} | {worst:.2} at {}", plot::size(*at as f64)),
        _ => "- | -".to_owned(),
    }
}

/// Nothing where there are no values.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    (0.0 < count).then(|| f64::exp(sum / count))
}

impl OsuResult {
    /// At each size, weft's time over that of the series of that index.
    fn ratios(&self, other: usize) -> Vec<(u64, f64)> {
        let weft = &self.series[0];
        weft.points().into_iter().filter_map(|at| Some((at, self.ratio(other, at)?))).collect()
    }

    fn ratio(&self, other: usize, at: u64) -> Option<f64> {
        let ratio = self.series[0].ratio(&self.series[other], at)?.median;
        Some(if self.unit.less_is_better() { ratio } else { 1.0 / ratio })
    }

    /// Its lines of the table, one for each size that anybody told.
    fn lines(&self, out: &mut String) {
        let mut sizes: Vec<u64> = self.series.iter().flat_map(Series::points).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        for at in sizes {
            let _ = write!(
                out,
                "| {} | {} | {at} | {} |",
                self.name,
                self.ranks,
                number(self.series[0].value(at))
            );
            for other in 1..self.series.len() {
                let (value, ratio) = (self.series[other].value(at), self.ratio(other, at));
                let _ = write!(out, " {} | {} |", number(value), number(ratio));
            }
            out.push('\n');
        }
    }
}

/// Rounds where nobody says how many.
const ROUNDS: usize = 5;
/// The longest healthy run, of eight ranks on two cpus, takes about half of it.
const SECONDS: u32 = 240;

#[cfg(test)]
mod tests {
    use super::*;

    fn benchmark(name: &str) -> Benchmark {
        *BENCHMARKS.iter().find(|one| one.name == name).expect("a benchmark of that name")
    }

    const LATENCY: &str = "\n# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n1                       0.20\n2                       0.30\n";

    #[test]
    fn numbers_are_found_below_the_heading() {
        let found = points(LATENCY, &benchmark("latency")).unwrap();
        assert_eq!(
            found.iter().map(|(at, point)| (*at, point.median)).collect::<Vec<_>>(),
            [(1, 0.2), (2, 0.3)]
        );
        let rates = points("1 2000.0\n", &benchmark("bw")).unwrap();
        assert_eq!(rates[&1].median, 2.0, "MB/s are told as GB/s");
        let barrier = points("# Avg Latency(us)\n             0.55\n", &benchmark("barrier")).unwrap();
        assert_eq!(barrier[&0].median, 0.55);
        assert!(points("# no numbers\n", &benchmark("latency")).is_err());
    }

    #[test]
    fn a_program_is_found_wherever_the_suite_was_built() {
        use std::os::unix::fs::PermissionsExt;
        let tree = tempfile::tempdir().unwrap();
        let make = |path: &str, mode: u32| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        make("weft/c/mpi/.libs/osu_latency", 0o755);
        make("weft/c/mpi/a/osu_latency", 0o644);
        make("weft/c/mpi/b/osu_latency", 0o755);
        let only = [benchmark("latency")];
        let found = Programs::find(tree.path(), &[Contestant::Weft, Contestant::Before], &only).unwrap();
        assert!(found.path(Contestant::Before, &only[0]).ends_with("weft/c/mpi/b/osu_latency"));
        let error = Programs::find(tree.path(), &[Contestant::Mpich], &only).unwrap_err();
        assert!(error.contains("osu_latency") && error.contains("mpich"), "{error}");
    }

    fn measured(name: &'static str, unit: Unit, ours: &[f64], theirs: &[f64]) -> OsuResult {
        let series = |name: &str, values: &[f64]| {
            let mut series = Series::new(name);
            for value in values {
                series.note(|| Ok(BTreeMap::from([(8, Point { median: *value, best: *value })])));
            }
            series
        };
        OsuResult { name, ranks: 2, unit, series: vec![series("weft", ours), series("before", theirs)] }
    }

    #[test]
    fn less_than_one_is_faster_for_times_and_rates() {
        let time = measured("latency", Unit::Microseconds, &[1.0, 2.0, 1.0], &[2.0, 4.0, 2.0]);
        let rate = measured("bw", Unit::Gigabytes, &[4.0], &[2.0]);
        assert_eq!((time.ratios(1), rate.ratios(1)), (vec![(8, 0.5)], vec![(8, 0.5)]));
    }

    #[test]
    fn the_table_has_means_sizes_and_failures() {
        let mut failed = measured("bw", Unit::Gigabytes, &[4.0], &[]);
        failed.series[1].note(|| Err("exit status 1".to_owned()));
        let all = [measured("latency", Unit::Microseconds, &[1.0], &[4.0]), failed];
        let about = About {
            machine: "a machine".into(),
            date: "today".into(),
            commit: "abc".into(),
            libraries: vec![],
            quick: false,
            apart: String::new(),
        };
        let text = table(&about, &all);
        for line in [
            "| latency | 2 | 0.25 | 0.25 at 8 |",
            "| all | | 0.25 | 0.25 at 8 |",
            "| latency | 2 | 8 | 1.00 | 4.00 | 0.25 |",
            "| bw | 2 | 8 | 4.00 | - | - |",
            "bw of 2 ranks: before FAILED: exit status 1",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert_eq!(geometric_mean([0.5, 2.0].into_iter()), Some(1.0));
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }

    #[test]
    fn beginnings_of_names_select_and_wrong_ones_are_named() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|word| (*word).to_owned()).collect();
            select(&only).map(|found| found.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["osu_all"]).unwrap(), ["allreduce", "allgather", "alltoall"]);
        assert_eq!(names(&[]).unwrap().len(), BENCHMARKS.len());
        assert!(names(&["latecy"]).unwrap_err().contains("latecy"));
    }

    #[test]
    fn ranks_that_share_cpus_do_less() {
        let told = |name: &str, shared, quick| words(&benchmark(name), shared, quick).join(" ");
        assert_eq!(told("latency", false, false), "-m 1:4194304");
        assert_eq!(told("bcast", true, true), "-m 1:1048576 -i 50 -x 5");
        assert_eq!(told("barrier", false, false), "");
        assert_eq!(told("reduce", false, false), "-T mpi_int -m 1:1048576");
    }
}
