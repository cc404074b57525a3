//! Jobs that go on without those they have lost (`bench/launch/survives.c`), under launchers that let them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::job;

/// Runs a job of `ranks` ranks whose last rank kills itself; all others must go on by `mode`. Answers what
/// they say of it. The launcher may end with any status: some launchers hand on that of the killed rank.
///
/// # Errors
/// With all that was said, where they do not go on.
pub fn go_on(command: &mut Command, ranks: u32, mode: &str, log: &Path) -> Result<String, String> {
    let finished = job::run(command.args([mode, "killed"]), LIMIT, log)?;
    told(&finished.output, ranks - 1, ranks, mode).ok_or_else(|| finished.account())
}

/// Runs a job on two nodes, and calls `cut`, which parts the nodes, when all ranks are ready; the ranks of
/// the first node must go on by themselves. Answers what they say of it.
///
/// # Errors
/// With all that was said, where they do not; or why the nodes could not be parted.
pub fn go_on_alone(
    command: &mut Command,
    ranks: u32,
    cut: impl FnOnce() -> Result<(), String>,
    log: &Path,
) -> Result<String, String> {
    let mode = "blank";
    let file =
        std::fs::File::create(log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let copy = file.try_clone().map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    command.args([mode, "cut"]).stdin(Stdio::null()).stdout(file).stderr(copy);
    let mut child = command.spawn().map_err(|error| format!("cannot start the launcher: {error}"))?;
    let said = || String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let since = Instant::now();
    let wait = |is_over: &mut dyn FnMut() -> bool| {
        while since.elapsed() < LIMIT && !is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(&mut || said().lines().any(|line| line.ends_with("ready")));
    let parted = cut();
    wait(&mut || matches!(child.try_wait(), Ok(Some(_))) || told(&said(), ranks / 2, ranks, mode).is_some());
    // The others wait for nodes that are there, and for a launcher that does not reach them.
    let _ = child.kill();
    let _ = child.wait();
    parted?;
    told(&said(), ranks / 2, ranks, mode).ok_or_else(said)
}

/// What the output says behind "`left` of `ranks` go on by `mode`", where it says so.
fn told(output: &str, left: u32, ranks: u32, mode: &str) -> Option<String> {
    let words = format!("{left} of {ranks} go on by {mode}, ");
    output.lines().find_map(|line| line.split_once(&words)).map(|(_, how)| how.to_owned())
}

const LIMIT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_on_is_counted() {
        let output = "ready\n0: 3 of 4 go on by blank, the last heard of it after 0.7 ms\n";
        assert_eq!(told(output, 3, 4, "blank").as_deref(), Some("the last heard of it after 0.7 ms"));
        assert_eq!((told(output, 3, 4, "shrink"), told(output, 2, 4, "blank")), (None, None));
    }
}
