//! Finding and ending everything that was started below a process, however deep and however it was left
//! behind.
//!
//! The process must be a *subreaper*: what loses its parent becomes its child. Then "no child left to wait
//! for" means that nothing is left at all, and everything that is left can be found by walking from parent to
//! child.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub pid: Pid,
    /// How.
    pub ending: Ending,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The children that were reaped.
#[derive(Debug)]
pub struct Reaped {
    /// The children that have ended since.
    pub ended: Vec<Ended>,
    /// Whether children remain.
    pub some_left: bool,
}

/// Takes the status of every child that has ended, own or adopted; does not wait.
pub fn reap() -> Reaped {
    let mut ended = Vec::new();
    loop {
        // Any child: also one that has left this process group.
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let code = status.exit_status().map(Ending::Code);
                let ending = code.or(status.terminating_signal().map(Ending::Signal));
                ended.extend(ending.map(|ending| Ended { pid, ending }));
            }
            Ok(None) => return Reaped { ended, some_left: true },
            Err(Errno::INTR) => {}
            Err(_) => return Reaped { ended, some_left: false },
        }
    }
}

/// Sends `signal` to all descendants of this process that can be seen, and to its `children`, which cannot be
/// seen where there is no `/proc`. `children` must not have been reaped: the number of a reaped child may be
/// that of another process.
pub fn signal_all(signal: Signal, children: &[Pid]) {
    let mut all = below(getpid(), &parents());
    all.extend(children);
    all.sort_unstable_by_key(|pid| pid.as_raw_pid());
    all.dedup();
    for pid in all {
        // It may have ended since it was seen, and that is all the same.
        let _ = kill_process(pid, signal);
    }
}

/// Kills all descendants of this process, `children` among them, and waits until none is left.
///
/// What forks faster than it is found is found in the next round. Gives up after two seconds, as a process
/// that hangs in the kernel cannot be ended, and returns what remains.
pub fn kill_all(mut children: Vec<Pid>) -> Vec<Pid> {
    let give_up_at = Instant::now() + GIVE_UP_AFTER;
    loop {
        let reaped = reap();
        children.retain(|child| !reaped.ended.iter().any(|ended| ended.pid == *child));
        if !reaped.some_left {
            return Vec::new();
        }
        if give_up_at < Instant::now() {
            return below(getpid(), &parents());
        }
        signal_all(Signal::KILL, &children);
        std::thread::sleep(BETWEEN_ROUNDS);
    }
}

/// The children of each process.
type Children = BTreeMap<i32, Vec<i32>>;

fn below(root: Pid, children: &Children) -> Vec<Pid> {
    let mut found = vec![root.as_raw_pid()];
    let mut seen = 0;
    while let Some(parent) = found.get(seen).copied() {
        found.extend(children.get(&parent).into_iter().flatten());
        seen += 1;
    }
    found[1..].iter().filter_map(|pid| Pid::from_raw(*pid)).collect()
}

fn parents() -> Children {
    let mut children = Children::new();
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in folders.filter_map(|folder| folder.file_name().to_str()?.parse::<i32>().ok()) {
        // A process that ends while it is looked at is no longer of interest.
        if let Some(parent) =
            std::fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| parent(&stat))
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The parent's number from a line of `/proc/<pid>/stat`: `pid (name) state parent …`. A process that has
/// ended and only waits to be reaped has no parent for our purpose: there is nothing to end.
fn parent(stat: &str) -> Option<i32> {
    // The name may hold spaces and parentheses, so its end is the last one.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.next()?.parse().ok(),
    }
}

const BETWEEN_ROUNDS: Duration = Duration::from_millis(2);

const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_past_any_name() {
        assert_eq!(parent("12 (cat) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) R 99 (b) R 7 12"), Some(7));
        assert_eq!(parent("12 (cat) Z 7 12"), None);
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn descendants_of_descendants_are_found() {
        let children = Children::from([(1, vec![2, 3]), (3, vec![4]), (4, vec![5]), (9, vec![10])]);
        let found = below(Pid::from_raw(1).unwrap(), &children);
        let numbers: Vec<i32> = found.into_iter().map(Pid::as_raw_pid).collect();
        assert_eq!(numbers, [2, 3, 4, 5]);
    }

    #[test]
    fn own_children_are_seen() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let seen = below(getpid(), &parents()).contains(&Pid::from_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
    }
}
