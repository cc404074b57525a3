//! How busy the cpus of this host are with anything at all, as the kernel tells without being asked to count
//! first.

use std::fs;
use std::time::Duration;

use crate::{CpuSet, Host};

impl Host {
    /// How many threads beside the calling one run or could run at this moment, on any cpu; none where the
    /// kernel does not say.
    #[must_use]
    pub fn runnable(&self) -> Option<usize> {
        let text = fs::read_to_string(self.root.join("proc/loadavg")).ok()?;
        Some(runnable_in(&text)?.saturating_sub(1))
    }

    /// The cpus that are switched on, as far as the kernel says.
    #[must_use]
    pub fn online(&self) -> Option<CpuSet> {
        fs::read_to_string(self.root.join("sys/devices/system/cpu/online")).ok()?.parse().ok()
    }

    /// The cpus that were busy for at least half of `span`, which this call sleeps. The kernel counts in
    /// steps of 10 ms: a shorter span tells nothing.
    #[must_use]
    pub fn busy_cpus(&self, span: Duration) -> CpuSet {
        let read = || fs::read_to_string(self.root.join("proc/stat")).unwrap_or_default();
        let before = times_in(&read());
        std::thread::sleep(span);
        busy_between(&before, &times_in(&read()))
    }
}

/// What a cpu has done since the host was started, in the kernel's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    cpu: usize,
    idle: u64,
    all: u64,
}

/// The fourth word of `/proc/loadavg`, as `3/512`: threads that run or could run, of all.
fn runnable_in(text: &str) -> Option<usize> {
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// The lines of cpus in `/proc/stat`: user, nice, system, idle, waiting for input or output, two of
/// interrupts, stolen. What stands behind these is contained in the first two.
fn times_in(text: &str) -> Vec<Times> {
    let line = |line: &str| {
        let (cpu, words) = line.strip_prefix("cpu")?.split_once(' ')?;
        let cpu = cpu.parse().ok()?;
        let steps: Vec<u64> = words.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let idle = steps.get(3)? + steps.get(4)?;
        Some(Times { cpu, idle, all: steps.iter().sum() })
    };
    // The first line is the sum of all cpus, and has no number.
    text.lines().take_while(|line| line.starts_with("cpu")).filter_map(line).collect()
}

fn busy_between(before: &[Times], after: &[Times]) -> CpuSet {
    let is_busy = |now: &&Times| {
        let then = before.iter().find(|then| then.cpu == now.cpu);
        then.is_some_and(|then| {
            let (all, idle) = (now.all.saturating_sub(then.all), now.idle.saturating_sub(then.idle));
            all > 0 && 2 * idle.min(all) <= all
        })
    };
    after.iter().filter(is_busy).map(|times| times.cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_could_run_are_counted_without_the_caller() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        assert_eq!(host.runnable(), None, "nothing to read");
        fs::create_dir(root.path().join("proc")).unwrap();
        for (text, runnable) in [
            ("0.00 0.01 0.05 1/130 23602\n", Some(0)),
            ("6.55 5.89 5.49 6/170 10267\n", Some(5)),
            ("0.00 0.01 0.05 0/130 2\n", Some(0)),
            ("0.00 0.01 0.05\n", None),
            ("0.00 0.01 0.05 x/1 2\n", None),
        ] {
            fs::write(root.path().join("proc/loadavg"), text).unwrap();
            assert_eq!(host.runnable(), runnable, "{text}");
        }
    }

    #[test]
    fn cpus_are_busy_that_were_idle_for_less_than_half_of_the_time() {
        let before = times_in(
            "cpu  9 0 9 99 0 0 0 0 0 0\ncpu0 10 0 5 100 0 0 0 0 0 0\ncpu1 3 0 5 80 2 0 0 0 0 0\ncpu10 1 1 1 1 1 1 1 1 0 0\nintr 1 2\ncpu2 1\n",
        );
        assert_eq!(before.iter().map(|times| times.cpu).collect::<Vec<_>>(), [0, 1, 10]);
        assert_eq!(before[1], Times { cpu: 1, idle: 82, all: 90 });
        let after = |lines: &str| busy_between(&before, &times_in(lines)).to_string();
        assert_eq!(after("cpu0 12 0 5 100 0 0 0 0 0 0\ncpu1 3 0 5 81 3 0 0 0 0 0\n"), "0");
        assert_eq!(after("cpu0 11 0 5 101 0 0 0 0 0 0\ncpu1 3 0 5 82 2 0 0 1 0 0\n"), "0", "half is busy");
        assert_eq!(after("cpu0 10 0 5 100 0 0 0 0 0 0\n"), "", "no step was counted");
        assert_eq!(after("cpu7 99 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0\n"), "", "new, or counted anew");
    }

    #[test]
    fn this_host_tells() {
        assert!(Host::here().runnable().is_some());
        let spins = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            for _ in 0..crate::cpus_allowed().unwrap().len() {
                scope.spawn(|| {
                    while spins.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let busy = Host::here().busy_cpus(Duration::from_millis(60));
            assert!(!busy.is_empty(), "every cpu has a thread that spins");
            assert!(Host::here().runnable().unwrap() > 0);
            spins.store(false, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
