//! A storm that lasts: ranks are killed at any moment and started again, for minutes, and nothing of them may
//! be left. The one rank that is never killed, the launcher and the memory in common are measured while it
//! goes on: own memory, descriptors, processes; and at the end no process is there, and `/dev/shm` is as it
//! was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::job;
use crate::tally::Tally;

/// What the command line says.
#[derive(clap::Args, Clone, Debug)]
pub struct SoakOptions {
    /// Where `ci/install` has put it
    pub prefix: PathBuf,
    /// For how long ranks are killed
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// How many ranks
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    pub ranks: u32,
    /// Over these fabrics
    #[arg(long, value_name = "LIST", default_value = "shm,tcp")]
    pub fabric: String,
    /// The ranks are dealt out to so many parts of this node, as if each were one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// Who is killed when: another number, others
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Runs all of it with the weft in `prefix`.
///
/// # Errors
/// When the program cannot be compiled, or a job cannot be started.
pub fn run(root: &Path, prefix: &Path, options: &SoakOptions) -> Result<Tally, String> {
    let folder = root.join("target/soak");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let program = folder.join("storm");
    let source = root.join("bench/tests/rebuild_storm.c");
    job::compile(&prefix.join("bin/mpicc"), &[], &[source], &program, LIMIT)?;
    let mut tally = Tally::default();
    let mut left = options.seconds;
    let mut dice = Dice(options.seed);
    while left > 0 {
        // So that a job's restarts suffice.
        let seconds = left.min(JOB_SECONDS_MAX);
        left -= seconds;
        let setup = SoakSetup { prefix, folder: &folder, program: &program };
        let name = format!("{} ranks over {}, {seconds} s", options.ranks, options.fabric);
        match setup.storm(options, seconds, &mut dice) {
            Ok(told) => tally.note(&format!("{name}: {told}"), Ok(())),
            Err(account) => {
                tally.note(&name, Err(account));
                break;
            }
        }
    }
    Ok(tally)
}

struct SoakSetup<'a> {
    prefix: &'a Path,
    folder: &'a Path,
    program: &'a Path,
}

impl SoakSetup<'_> {
    /// One job. What has grown, in words; or what went wrong.
    fn storm(&self, options: &SoakOptions, seconds: u64, dice: &mut Dice) -> Result<String, String> {
        let before = shared_files();
        let log = self.folder.join("storm.log");
        let mut storm = Storm::begin(self, options, seconds, &log)?;
        let ended = storm.rage(options.ranks, Duration::from_secs(seconds), dice);
        let account = fs::read_to_string(&log).unwrap_or_default();
        let tail: Vec<&str> = account.lines().rev().take(30).collect();
        let tail = tail.into_iter().rev().map(|line| format!("\n    | {line}")).collect::<String>();
        ended.map_err(|what| format!("{what}{tail}"))?;
        if !account.lines().any(|line| line == "ok") {
            return Err(format!("the rank that was never killed has not ended well{tail}"));
        }
        let alive: Vec<String> = processes(&account)
            .values()
            .flatten()
            .filter(|pid| is_there(**pid))
            .map(u32::to_string)
            .collect();
        if !alive.is_empty() {
            return Err(format!("processes are left: {}", alive.join(", ")));
        }
        let after = shared_files();
        if let Some(new) = after.iter().find(|name| !before.contains(*name)) {
            return Err(format!("a file is left in /dev/shm: {new}"));
        }
        storm.judge()
    }
}

/// A job that goes on.
struct Storm {
    launcher: Child,
    log: PathBuf,
    kills: u32,
    samples: Vec<(u32, Sample)>,
}

impl Storm {
    fn begin(
        setup: &SoakSetup<'_>,
        options: &SoakOptions,
        seconds: u64,
        log: &Path,
    ) -> Result<Storm, String> {
        let file =
            fs::File::create(log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let copy = file.try_clone().map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let mut command = Command::new(setup.prefix.join("bin/weftrun"));
        command.args(["--verbose", "--ft=rebuild", "--max-restarts", &RESTARTS.to_string()]);
        command.args(["-n", &options.ranks.to_string(), "--fabric", &options.fabric]);
        command.args(["--nodes", &options.nodes.to_string()]).arg(setup.program);
        command.env("STORM_SECONDS", seconds.to_string()).env("STORM_OUTSIDE", "1");
        let launcher = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        let launcher = launcher.map_err(|error| format!("cannot start weftrun: {error}"))?;
        Ok(Storm { launcher, log: log.to_path_buf(), kills: 0, samples: Vec::new() })
    }

    /// Kills one after the other, and measures, until the time is over; then waits for the end.
    fn rage(&mut self, ranks: u32, time: Duration, dice: &mut Dice) -> Result<(), String> {
        let begin = Instant::now();
        // The last part of it is quiet, so that what is measured last is at rest.
        let kills_end = begin + time.mul_f64(0.9);
        let mut killed = Vec::new();
        loop {
            std::thread::sleep(Duration::from_millis(50 + dice.draw(450)));
            if let Some(status) = self.launcher.try_wait().map_err(|error| error.to_string())? {
                return if status.success() {
                    Ok(())
                } else {
                    Err(format!("weftrun has ended with {status}"))
                };
            }
            if begin.elapsed() > time + LIMIT {
                let _ = self.launcher.kill();
                return Err("the job has not come to its end".to_owned());
            }
            let ranks_now = processes(&fs::read_to_string(&self.log).unwrap_or_default());
            let witness = ranks_now.get(&(ranks - 1)).and_then(|pids| pids.last()).copied();
            if let Some(sample) = witness.and_then(Sample::of) {
                self.samples.push((self.kills, sample));
            }
            let victim = dice.draw(u64::from(ranks - 1)) as u32;
            let latest = ranks_now.get(&victim).and_then(|pids| pids.last()).copied();
            let Some(pid) = latest.filter(|pid| !killed.contains(pid) && Instant::now() < kills_end) else {
                continue;
            };
            let done = Command::new("kill").args(["-9", &pid.to_string()]).status();
            if done.is_ok_and(|status| status.success()) {
                killed.push(pid);
                self.kills += 1;
            }
        }
    }

    /// What was there when a part of the storm was over, and at its end.
    fn judge(&self) -> Result<String, String> {
        let early = self.kills / 4;
        let first =
            self.samples.iter().find(|(kills, _)| *kills >= early).map(|(kills, sample)| (*kills, *sample));
        let last = self.samples.last().copied();
        let (Some((before, first)), Some((after, last))) = (first, last) else {
            return Err("nothing was measured".to_owned());
        };
        let kills = f64::from((after - before).max(1));
        let grown = |first: u64, last: u64| (last as f64 - first as f64) / 1024.0 / kills;
        let own = grown(first.own_bytes, last.own_bytes);
        let shared = grown(first.shared_bytes, last.shared_bytes);
        let launcher = grown(first.launcher_bytes, last.launcher_bytes);
        let told = format!(
            "{} kills; for each of the last {kills:.0} a survivor has grown by {own:.2} KiB, the memory in common by {shared:.2} KiB, \
             weftrun by {launcher:.2} KiB; descriptors {} and {}, then {} and {}",
            self.kills,
            first.descriptors,
            first.launcher_descriptors,
            last.descriptors,
            last.launcher_descriptors
        );
        let open = last.descriptors > first.descriptors + 4
            || last.launcher_descriptors > first.launcher_descriptors + 4;
        // What has grown in few kills is what had not been touched before.
        let slack = SLACK_KIB / kills;
        let grows =
            own > OWN_KIB_MAX + slack || shared > SHARED_KIB_MAX + slack || launcher > OWN_KIB_MAX + slack;
        if open || grows { Err(told) } else { Ok(told) }
    }
}

/// What there was at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    own_bytes: u64,
    descriptors: usize,
    shared_bytes: u64,
    launcher_bytes: u64,
    launcher_descriptors: usize,
}

impl Sample {
    /// Of a rank, its launcher and what it shares; none where it is just gone.
    fn of(pid: u32) -> Option<Sample> {
        let launcher = number_after(&status(pid)?, "PPid:")? as u32;
        let shared = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.filter_map(Result::ok).find_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            target
                .to_string_lossy()
                .starts_with("/memfd:weft-shm")
                .then(|| fs::metadata(entry.path()).ok())
                .flatten()
        });
        Some(Sample {
            own_bytes: number_after(&status(pid)?, "RssAnon:")? * 1024,
            descriptors: descriptors(pid)?,
            shared_bytes: shared.map_or(0, |about| about.blocks() * 512),
            launcher_bytes: number_after(&status(launcher)?, "RssAnon:")? * 1024,
            launcher_descriptors: descriptors(launcher)?,
        })
    }
}

fn status(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/status")).ok()
}

fn descriptors(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether a process is there and no zombie.
fn is_there(pid: u32) -> bool {
    status(pid).is_some_and(|text| !text.contains("State:\tZ"))
}

fn shared_files() -> Vec<String> {
    let names = fs::read_dir("/dev/shm").into_iter().flatten().filter_map(Result::ok);
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The processes that each rank has been, the latest at the end, by what the launcher says.
fn processes(log: &str) -> BTreeMap<u32, Vec<u32>> {
    let mut all: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let (rank, pid) = match words[..] {
            [_, "rank", rank, "is", "process", pid, ..] => (rank, pid),
            [_, "rank", rank, "is", "started", "again", "as", "process", pid, ..] => (rank, pid),
            _ => continue,
        };
        if let (Ok(rank), Ok(pid)) = (rank.parse(), pid.parse()) {
            all.entry(rank).or_default().push(pid);
        }
    }
    all
}

/// Chance that comes again with its seed.
struct Dice(u64);

impl Dice {
    fn draw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Five kills a second at the most take longer to use these up.
const JOB_SECONDS_MAX: u64 = 150;
const RESTARTS: u32 = 1000;
/// For each recovery.
const OWN_KIB_MAX: f64 = 2.0;
const SHARED_KIB_MAX: f64 = 16.0;
/// Altogether, whatever happens.
const SLACK_KIB: f64 = 4096.0;
const LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_says_who_is_who() {
        let log = "weftrun: rank 0 is process 17, not bound\nweftrun: rank 1 is process 18, on cpus 1\n\
                   weftrun: rank 1 (process 18 on here) was killed by SIGKILL; the others go on\n\
                   weftrun: rank 1 is started again, as process 21\n";
        assert_eq!(processes(log), BTreeMap::from([(0, vec![17]), (1, vec![18, 21])]));
    }

    #[test]
    fn this_process_can_be_measured() {
        let pid = std::process::id();
        assert!(is_there(pid) && descriptors(pid).unwrap() > 2);
        assert!(Sample::of(pid).unwrap().own_bytes > 0);
    }

    fn storm(own: [u64; 2], descriptors: [usize; 2]) -> Storm {
        let sample = |at: usize| Sample {
            own_bytes: own[at] << 10,
            descriptors: descriptors[at],
            shared_bytes: 0,
            launcher_bytes: 0,
            launcher_descriptors: 5,
        };
        let launcher = Command::new("true").spawn().unwrap();
        Storm {
            launcher,
            log: PathBuf::new(),
            kills: 4000,
            samples: vec![(1000, sample(0)), (4000, sample(1))],
        }
    }

    #[test]
    fn what_grows_with_each_kill_is_a_failure() {
        for (own, descriptors, is_well) in
            [([1000, 2000], [9, 9], true), ([1000, 40_000], [9, 9], false), ([1000, 1000], [9, 14], false)]
        {
            let mut storm = storm(own, descriptors);
            storm.launcher.wait().unwrap();
            assert_eq!(storm.judge().is_ok(), is_well, "{own:?} {descriptors:?}");
        }
    }
}
