//! Jobs that run at the same time on this host: which cores each is bound to, and what becomes of them when
//! it ends.
//!
//! The tests share this host's cores with whatever else runs jobs on it, so each waits until it finds them as
//! it needs them. They run one after the other.

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::{Launcher, Outcome, run, start_command, wait_for, weftrun};
use rustix::process::Signal;

#[test]
fn jobs_at_once_are_bound_to_different_cores_and_where_none_is_left_not_at_all() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if cores() < 2 {
        return println!("one core: jobs cannot be apart");
    }
    let (one, other) = once(|| {
        let jobs = [held("1", &["--bind-to", "core"]), held("1", &["--bind-to", "core"])];
        let [one, other] = jobs.map(|job| cpus_of(&job.end()));
        (one != other).then_some((one, other))
    });
    assert!(!one.contains(&other) && !other.contains(&one), "{one} {other}");
    let everything = cores().to_string();
    once(|| {
        let first = held(&everything, &[]);
        let second = run(&["-n", "2", "--verbose", "true"]);
        let asked = run(&["-n", "1", "--bind-to", "core", "--verbose", "true"]);
        let none = run(&["-n", "1", "--verbose", "true"]);
        let first = first.end();
        let has_all = first.errors.contains("on cpus") && second.errors.contains("held by other jobs");
        assert!(!has_all || asked.errors.contains("on cpus"), "what was asked for is done: {}", asked.errors);
        assert!(none.errors.contains("one rank alone may use all cores"), "{}", none.errors);
        has_all.then_some(())
    });
}

#[test]
fn two_jobs_that_start_at_once_are_not_both_bound_to_all_cores() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let everything = cores().to_string();
    if everything == "1" {
        return println!("one core: nothing to choose");
    }
    for _ in 0..5 {
        once(|| {
            let jobs = [held(&everything, &[]), held(&everything, &[]), held(&everything, &[])];
            let outcomes = jobs.map(Held::end);
            let bound = outcomes.iter().filter(|outcome| outcome.errors.contains("on cpus")).count();
            assert!(bound <= 1, "{outcomes:#?}");
            (bound == 1).then_some(())
        });
    }
}

#[test]
fn a_launcher_that_is_killed_leaves_its_cores() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let everything = cores().to_string();
    if everything == "1" {
        return println!("one core: nothing to choose");
    }
    let folders = || std::fs::read_dir("/sys/devices/system/cpu").unwrap().count();
    let before = folders();
    once(|| {
        let first = held(&everything, &[]);
        first.launcher.signal(Signal::KILL);
        let first = first.launcher.finish();
        assert_eq!(first.status.code(), None);
        let next = run(&["-n", &everything, "--verbose", "true"]);
        (first.errors.contains("on cpus") && next.errors.contains("on cpus")).then_some(())
    });
    assert_eq!(folders(), before);
}

#[test]
fn ranks_are_not_bound_where_other_programs_keep_the_cores_busy() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let ranks = cores().to_string();
    if ranks == "1" {
        return println!("one core: nothing to choose");
    }
    let job = |busy: &str| {
        let (mut command, mark) = weftrun(&["-n", &ranks, "--verbose", "sh", "-c", "echo $WEFT_CPUS"]);
        command.env("WEFT_BUSY", busy);
        start_command(command, mark).finish()
    };
    let spins = AtomicBool::new(true);
    let spin = || {
        while spins.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        (0..cores()).for_each(|_| drop(scope.spawn(spin)));
        once(|| {
            let (minds, ignores) = (job(""), job("ignore"));
            let told = minds.errors.contains("busy with other programs");
            assert!(!told || minds.errors.contains("not bound: "), "{}", minds.errors);
            let knows = minds.output.lines().all(|cpus| cpus.parse::<f64>().is_ok_and(|cpus| cpus < 2.0));
            assert!(!told || knows, "ranks are to know that they share: {}", minds.output);
            (told && ignores.errors.contains("on cpus")).then_some(())
        });
        spins.store(false, Ordering::Relaxed);
    });
}

/// A job that has begun, and ends when it is told to.
struct Held {
    launcher: Launcher,
}

impl Held {
    fn end(mut self) -> Outcome {
        drop(self.launcher.child.stdin.take());
        self.launcher.finish()
    }
}

/// Starts a job that writes which cpus it may use, and waits until all its ranks have begun. It goes on until
/// [`Held::end`].
fn held(ranks: &str, options: &[&str]) -> Held {
    let script = "grep Cpus_allowed_list /proc/self/status; test $PMI_RANK != 0 || read line; exit 0";
    let (mut command, mark) =
        weftrun(&[&["-n", ranks, "--verbose"], options, &["bash", "-c", script]].concat());
    command.stdin(Stdio::piped());
    let mut launcher = start_command(command, mark.clone());
    launcher.child.stdin.as_mut().expect("piped").flush().expect("a pipe");
    wait_for(&mark, "rank 0 to begin", || {
        let names: Vec<String> = mark.processes().into_iter().map(|process| process.name).collect();
        names.iter().any(|name| name == "bash").then_some(())
    });
    Held { launcher }
}

/// The cpus that the one rank of a job was bound to, which is also what the launcher has told.
fn cpus_of(outcome: &Outcome) -> String {
    let cpus = outcome.output.split_whitespace().next_back().expect("a list").to_owned();
    assert!(outcome.errors.contains(&format!("on cpus {cpus}")), "{} {}", outcome.errors, outcome.output);
    cpus
}

/// Tries again until the host is as it needs to be for the test.
fn once<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let give_up_at = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(
            Instant::now() < give_up_at,
            "jobs of others hold cores all the time, or ranks are bound wrongly"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many cores this process may use.
fn cores() -> usize {
    let told =
        Command::new(env!("CARGO_BIN_EXE_weftrun")).args(["sh", "-c", "echo $PMI_SIZE"]).output().unwrap();
    String::from_utf8(told.stdout).unwrap().lines().count()
}

static ALONE: Mutex<()> = Mutex::new(());
