//! Installing, compiling and running: the part of the comparison that takes time.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use super::Options;
use super::apart::{Apart, Wanted};
use super::contestant::{self, Contestant, Job, Place, Way};
use super::judge::Measured;
use super::namespaces::{self, Namespaces};
use super::providers;
use super::row::{Floor, Row, Unit};
use super::samples::{self, Point, Series};
use system_tests::{job, loader, measured, venv};

/// Everything that runs need, ready.
pub struct Field {
    place: Place,
    contestants: Vec<Contestant>,
    logs: PathBuf,
    quick: bool,
    rounds: Option<usize>,
    /// The distance between cpus that runs of two ranks wait for, if any.
    apart: Option<Apart>,
    /// What runs said that are the same for several rows, by what was run and in which round.
    said: RefCell<HashMap<String, Rc<Vec<measured::Row>>>>,
    /// The version that each library reports of itself.
    pub libraries: Vec<(Contestant, String)>,
}

impl Field {
    /// Builds, installs and compiles what is missing, and sees that ranks are bound as they should be.
    ///
    /// # Errors
    /// The first thing that could not be had.
    pub fn prepare(root: &Path, options: &Options) -> Result<Field, String> {
        let mut field = Field::open(root, options)?;
        field.compile(&root.join("bench"))?;
        field.compile_floors(&root.join("bench"))?;
        field.see_bindings()?;
        field.see_libfabric();
        if options.apart != Wanted::Any {
            field.apart = Apart::of(&field.distances()?, options.apart);
        }
        Ok(field)
    }

    /// Builds and installs what programs of others need that are compiled already: the libraries and the
    /// stopwatch.
    ///
    /// # Errors
    /// The first thing that could not be had.
    pub fn for_programs_of_others(root: &Path, options: &Options) -> Result<Field, String> {
        let field = Field::open(root, options)?;
        field.compile_floors(&root.join("bench"))?;
        Ok(field)
    }

    fn open(root: &Path, options: &Options) -> Result<Field, String> {
        let folder = root.join("target/compare");
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).map_err(|error| format!("cannot make {}: {error}", logs.display()))?;
        let absolute =
            |path: &PathBuf| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
        let prefix = match &options.prefix {
            Some(prefix) => absolute(prefix)?,
            None => build(root, &folder.join("prefix"), &logs)?,
        };
        let before = options.before.as_ref().map(absolute).transpose()?;
        let peers = options.peers.clone().unwrap_or_else(|| folder.join("peers"));
        let mut venvs = BTreeMap::new();
        for peer in options.peers_wanted() {
            venvs.insert(peer, absolute(&venv::install(&peers, &peer.package())?)?);
        }
        let through = options.through.split_whitespace().map(str::to_owned).collect();
        let (programs, libfabric) = (folder.join("programs"), PathBuf::new());
        let mut contestants = contestant::contestants(&options.peers_wanted());
        if before.is_some() {
            contestants.insert(1, Contestant::Before);
        }
        Ok(Field {
            place: Place { prefix, before, venvs, programs, libfabric, through },
            contestants,
            logs,
            quick: options.quick,
            rounds: options.rounds,
            apart: None,
            said: RefCell::default(),
            libraries: Vec::new(),
        })
    }

    /// The contestants that are measured, weft first.
    pub fn contestants(&self) -> &[Contestant] {
        &self.contestants
    }

    /// The output of a run of a program that is compiled already.
    ///
    /// # Errors
    /// How it ended, and its last words, when it did not end well.
    pub fn output(
        &self,
        one: Contestant,
        job: &Job<'_>,
        words: &[String],
        seconds: u32,
    ) -> Result<String, String> {
        self.progress(&format!("{} of {} ranks, {}", job.program, job.ranks, one.name()));
        let mut command = self.place.command(one, job, seconds);
        self.finished(one.name(), command.args(words), seconds)
    }

    /// How far apart the cpus are, at several moments: half a round trip of a line each way, in ns.
    fn distances(&self) -> Result<Vec<f64>, String> {
        self.progress("looking how far apart the cpus are");
        let words = ["bounce-two-lines", "--iterations", "4000"].map(str::to_owned);
        let look = || {
            std::thread::sleep(LOOK_PAUSE);
            let rows = self.results("distance", &mut self.place.floor(&words, RUN_SECONDS), RUN_SECONDS)?;
            Ok(rows.first().map_or(0.0, |row| 1e3 * row.median_us))
        };
        std::iter::repeat_with(look).take(LOOKS).collect()
    }

    /// How far apart the cpus of two ranks are while they are measured, in words.
    pub fn told_apart(&self) -> String {
        self.apart.as_ref().map_or_else(|| "as they come".to_owned(), |apart| apart.told.clone())
    }

    /// Compiles the benchmarks with each library's compiler wrapper. Weft's are always made anew: another
    /// prefix may be meant.
    fn compile(&self, sources: &Path) -> Result<(), String> {
        let mut made = Vec::new();
        for one in &self.contestants {
            let out = self.place.programs_of(*one);
            if made.contains(&out) {
                continue;
            }
            let (compiler, environment) = self.place.compiler(*one);
            let mut make = self.make(sources, &out);
            make.arg(format!("MPICC={}", compiler.display())).arg("benchmarks").envs(environment);
            if *one == Contestant::Weft {
                make.arg("--always-make");
            }
            self.build_step(&format!("compiling for {}", one.name()), &mut make)?;
            made.push(out);
        }
        Ok(())
    }

    /// What the machine does with no MPI at all, and the stopwatch that every run goes through.
    fn compile_floors(&self, sources: &Path) -> Result<(), String> {
        let mut make = self.make(sources, &self.place.programs);
        self.build_step("compiling the floors", make.arg("floors"))
    }

    fn make(&self, sources: &Path, out: &Path) -> Command {
        let mut make = Command::new("make");
        make.arg("--silent").arg("-C").arg(sources).arg(format!("OUT={}", out.display()));
        // Contents are checked after every block; at -O3 that takes a fraction of the time.
        make.arg("CFLAGS=-O3 -Wall -Wextra");
        make
    }

    fn build_step(&self, what: &str, command: &mut Command) -> Result<(), String> {
        self.progress(what);
        job::succeed(what, command, BUILD_LIMIT, &self.logs.join("make.log")).map(drop)
    }

    /// Every contestant's two ranks must be on two different cpus, one each: asked of the kernel.
    fn see_bindings(&mut self) -> Result<(), String> {
        for one in self.contestants.clone() {
            self.progress(&format!("looking where {} puts its ranks", one.name()));
            let job = Job { program: "startup", path: None, ranks: 2, way: Way::Node, shared_cpus: false };
            let rows = self.launch(one, &job, &[]).map_err(|error| format!("{}: {error}", one.name()))?;
            let row = rows.iter().find(|row| row.benchmark == "startup");
            let row = row.ok_or_else(|| format!("{}: no result of startup", one.name()))?;
            if !one_each(&row.cpus) {
                return Err(format!(
                    "{} lets its ranks run on these cpus: {}\n  two cores are needed, one for each rank",
                    one.name(),
                    row.cpus
                ));
            }
            self.libraries.push((one, row.library.clone()));
        }
        Ok(())
    }

    /// Which library the rows over libfabric are measured with.
    fn see_libfabric(&mut self) {
        let mpich = self.contestants.contains(&Contestant::Mpich);
        let program = mpich.then(|| self.place.programs_of(Contestant::Mpich).join("latency"));
        self.place.libfabric = loader::libfabric_of(program.as_deref(), &self.logs.join("ldd.log"));
    }

    /// Measures one row: rounds of everybody in turn.
    pub fn measure(&self, row: &'static Row) -> Measured {
        let taking_part = |one: &&Contestant| **one == Contestant::Weft || row.peers.contains(*one);
        let everybody: Vec<Contestant> = self.contestants.iter().filter(taking_part).copied().collect();
        let mut measured = Measured {
            row,
            series: everybody.iter().map(|one| Series::new(one.name())).collect(),
            floors: row.floors.iter().map(|floor| Series::new(floor.name)).collect(),
            left_out: None,
            library: None,
            earlier: None,
        };
        if row.way.provider().is_some() {
            match providers::probe(&self.place, row.way, &self.logs.join("provider.log")) {
                Ok(library) => measured.library = Some(library),
                Err(reason) => {
                    measured.left_out = Some(reason);
                    return measured;
                }
            }
            for (one, series) in everybody.iter().zip(&mut measured.series) {
                let log = self.logs.join(format!("provider-{}.log", one.name()));
                series.failure = providers::check(&self.place, *one, row.way, &log).err();
            }
        }
        let namespaces = (row.way == Way::Namespaces).then(Namespaces::make);
        if let Some(Err(reason)) = namespaces {
            measured.left_out = Some(reason);
            return measured;
        }
        let patience: Vec<Vec<String>> =
            everybody.iter().map(|one| self.patience(*one, row).unwrap_or_default()).collect();
        for round in 0..self.rounds_of(row) {
            for (floor, series) in row.floors.iter().zip(&mut measured.floors) {
                self.progress(&format!("{}: round {}, floor {}", row.id, round + 1, floor.name));
                series.note(|| self.run_floor(row, floor));
            }
            for ((one, series), more) in everybody.iter().zip(&mut measured.series).zip(&patience) {
                self.progress(&format!("{}: round {}, {}", row.id, round + 1, one.name()));
                series.note(|| self.run_contestant(*one, row, more, round));
            }
        }
        self.progress("");
        measured
    }

    fn rounds_of(&self, row: &Row) -> usize {
        self.rounds.unwrap_or(if self.quick { ROUNDS_QUICK.min(row.rounds) } else { row.rounds })
    }

    /// On shared cpus some libraries take thousands of times as long as others. A first run that does
    /// not count finds out, and the slow ones get fewer operations.
    fn patience(&self, one: Contestant, row: &Row) -> Option<Vec<String>> {
        if !row.shared_cpus || !matches!(row.unit, Unit::Microseconds | Unit::Allreduces) {
            return None;
        }
        let few: Vec<String> = ["--iterations", "20", "--warmup", "1"].map(str::to_owned).into();
        let mut slowest_us: f64 = 0.0;
        for &ranks in row.ranks {
            let rows = self.said(one, row, ranks, &few, BEFORE).ok()?;
            slowest_us = rows.iter().map(|row| row.median_us).fold(slowest_us, f64::max);
        }
        let operations = (SECONDS_WANTED * 1e6 / slowest_us.max(0.1)).clamp(20.0, 4000.0) as u64;
        Some(["--iterations".to_owned(), operations.to_string()].into())
    }

    fn run_contestant(
        &self,
        one: Contestant,
        row: &Row,
        more: &[String],
        round: usize,
    ) -> Result<BTreeMap<u64, Point>, String> {
        let mut all = BTreeMap::new();
        for &ranks in row.ranks {
            let rows = self.said(one, row, ranks, more, round)?;
            all.extend(samples::points(&rows, row.unit, row.result.unwrap_or(row.program), ranks)?);
        }
        Ok(all)
    }

    /// What a run says. Rows that differ only in which of a program's results they tell share their runs.
    fn said(
        &self,
        one: Contestant,
        row: &Row,
        ranks: u32,
        more: &[String],
        round: usize,
    ) -> Result<Rc<Vec<measured::Row>>, String> {
        let mut arguments: Vec<String> = row.arguments.iter().map(|word| (*word).to_owned()).collect();
        if self.quick {
            arguments.extend(row.quick.iter().map(|word| (*word).to_owned()));
        }
        arguments.extend(more.iter().cloned());
        let job = Job { program: row.program, path: None, ranks, way: row.way, shared_cpus: row.shared_cpus };
        let key = format!("{one:?} {job:?} {arguments:?} {round}");
        if let Some(known) = self.said.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let rows = Rc::new(self.launch(one, &job, &arguments)?);
        self.said.borrow_mut().insert(key, Rc::clone(&rows));
        Ok(rows)
    }

    fn run_floor(&self, row: &Row, floor: &Floor) -> Result<BTreeMap<u64, Point>, String> {
        let mut words: Vec<String> = vec![floor.name.to_owned()];
        words.extend(floor.arguments.iter().map(|word| (*word).to_owned()));
        if row.way == Way::Namespaces {
            let names = format!("{},{}", namespaces::name(0), namespaces::name(1));
            words.extend(["--address", namespaces::ADDRESS, "--namespaces", &names].map(str::to_owned));
        }
        words.extend(self.place.provider_words(row.way));
        let apart = self.apart_for(2, row.shared_cpus);
        words.extend(apart.into_iter().flat_map(Apart::floor_words));
        let seconds = run_seconds(apart);
        let rows = self.results(floor.name, &mut self.place.floor(&words, seconds), seconds)?;
        samples::points(&rows, row.unit, "floor", 2)
    }

    fn launch(
        &self,
        one: Contestant,
        job: &Job<'_>,
        arguments: &[String],
    ) -> Result<Vec<measured::Row>, String> {
        let apart = self.apart_for(job.ranks, job.shared_cpus);
        let seconds = run_seconds(apart);
        let mut command = self.place.command(one, job, seconds);
        command.args(["--json", "-"]).args(arguments).args(apart.into_iter().flat_map(Apart::words));
        self.results(one.name(), &mut command, seconds)
    }

    /// The distance that such a run waits for.
    fn apart_for(&self, ranks: u32, shared_cpus: bool) -> Option<&Apart> {
        self.apart.as_ref().filter(|_| ranks == 2 && !shared_cpus)
    }

    fn results(&self, name: &str, command: &mut Command, seconds: u32) -> Result<Vec<measured::Row>, String> {
        measured::rows(&self.finished(name, command, seconds)?)
    }

    fn finished(&self, name: &str, command: &mut Command, seconds: u32) -> Result<String, String> {
        let log = self.logs.join(format!("{name}.log"));
        // The stopwatch has the real limit; waiting for others may take any time.
        let seconds = if self.place.through.is_empty() { seconds + 15 } else { 3600 };
        let finished = job::run(command, Duration::from_secs(seconds.into()), &log)?;
        if finished.succeeded() { Ok(finished.output) } else { Err(finished.account()) }
    }

    /// On a terminal, one line that changes; elsewhere nothing.
    fn progress(&self, what: &str) {
        let mut err = std::io::stderr();
        if err.is_terminal() {
            // A lost line of progress is no loss.
            let _ = write!(err, "\r\x1b[K{what}");
            let _ = err.flush();
        }
    }
}

/// The round of runs that do not count.
const BEFORE: usize = usize::MAX;

/// What a run may take. Who waits for cpus, up to five minutes at a block (`bench/apart.c`), takes longer.
fn run_seconds(apart: Option<&Apart>) -> u32 {
    if apart.is_some() { 10 * RUN_SECONDS } else { RUN_SECONDS }
}

/// True when each word is one cpu, and no two are the same.
fn one_each(cpus: &str) -> bool {
    let words: Vec<&str> = cpus.split_whitespace().collect();
    let single = words.iter().all(|word| word.parse::<u32>().is_ok());
    let mut distinct = words.clone();
    distinct.sort_unstable();
    distinct.dedup();
    single && !words.is_empty() && distinct.len() == words.len()
}

/// A release of weft from this tree.
fn build(root: &Path, prefix: &Path, logs: &Path) -> Result<PathBuf, String> {
    println!("building weft into {}", prefix.display());
    let mut install = Command::new(root.join("ci/install"));
    job::succeed("ci/install", install.arg(prefix), BUILD_LIMIT, &logs.join("install.log"))?;
    prefix.canonicalize().map_err(|error| format!("{}: {error}", prefix.display()))
}

/// How often it is asked how far apart the cpus are, and how long to wait between.
const LOOKS: usize = 40;
const LOOK_PAUSE: Duration = Duration::from_millis(250);
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// A run that takes this long is broken: the longest healthy one takes 20 s.
const RUN_SECONDS: u32 = 60;
/// Seconds of operations that a calibrated run should have.
const SECONDS_WANTED: f64 = 0.5;
const ROUNDS_QUICK: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_each_means_one_and_each() {
        assert!(one_each("0 1") && one_each("3"));
        for wrong in ["0 0", "0-1 0-1", "0 0-1", "", "0,1 2"] {
            assert!(!one_each(wrong), "{wrong:?}");
        }
    }

    fn floors(folder: &Path) -> (PathBuf, PathBuf) {
        let mut make = Command::new("make");
        make.arg("--silent").arg("-C").arg(system_tests::workspace_root().join("bench"));
        make.arg(format!("OUT={}", folder.display())).arg("CFLAGS=-O1 -Wall -Wextra -Werror").arg("floors");
        job::succeed("make floors", &mut make, TEST_LIMIT, &folder.join("make.log")).unwrap();
        (folder.join("floors"), folder.join("stopwatch"))
    }

    /// The first and the last that this process may use. On one cpu, two that wait for each other without a
    /// pause take a time slice for each step.
    fn two_cpus() -> String {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let mut numbers = allowed.trim().split([',', '-']);
        let first = numbers.next().unwrap();
        format!("{first},{}", numbers.next_back().unwrap_or(first))
    }

    fn runs(program: &Path, words: &[&str], log: &Path) -> job::Finished {
        job::run(Command::new(program).args(words), TEST_LIMIT, log).unwrap()
    }

    #[test]
    fn the_stopwatch_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (_, stopwatch) = floors(folder.path());
        let log = folder.path().join("log");
        // Each names the processes that must be gone; two of them wish to stay.
        let hangs = "trap '' TERM; setsid sleep 1000 & echo $!; sleep 1000";
        let orphans = "sleep 1000 & echo $!; exit 7";
        for (script, status) in [(hangs, 124), (orphans, 7)] {
            let finished = runs(&stopwatch, &["1", "sh", "-c", script], &log);
            assert_eq!(finished.ending, job::Ending::Exited(status), "{}", finished.account());
            let orphan = finished.output.lines().find(|line| line.parse::<u32>().is_ok()).unwrap();
            assert!(!Path::new("/proc").join(orphan).exists(), "{orphan} is left");
            assert!(measured::rows(&finished.output).unwrap()[0].median_us > 0.0);
        }
    }

    #[test]
    fn every_floor_runs_and_tells_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let (floors, _) = floors(folder.path());
        let log = folder.path().join("log");
        let names = runs(&floors, &[], &log).output;
        let names: Vec<&str> =
            names.lines().skip_while(|line| *line != "names:").skip(1).map(str::trim).collect();
        assert!(names.len() > 10, "{names:?}");
        let cpus = two_cpus();
        for name in names {
            let cma = ["cma", "split"].contains(&name);
            let mut words = vec![name, "--iterations", "20", "--min", "64", "--max", "64", "--cpus", &cpus];
            // Whoever waits for cpus at any distance is not kept waiting.
            words.extend(["--apart", "0,1e9"]);
            let finished = runs(&floors, &words, &log);
            // Some containers forbid reading another process, and say so.
            let refused = cma && finished.output.contains("process_vm_")
                // Where it is not installed, or its headers are not.
                || name.starts_with("libfabric-") && finished.output.contains("libfabric");
            let told = finished.succeeded() && measured::rows(&finished.output).is_ok();
            assert!(told || refused, "{name}: {}", finished.account());
        }
    }

    const TEST_LIMIT: Duration = Duration::from_secs(120);
}
