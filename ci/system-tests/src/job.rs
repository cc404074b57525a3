//! Running a program with a limit on its time, and keeping all that it said.
//!
//! Output goes to a file and not through a pipe: a process that outlives its parent cannot make us
//! wait then, and what was said before a hang is there to be shown.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// The program did not end, and was killed after this time.
    TimedOut(Duration),
}

/// A program that has ended, and what it wrote to stdout and stderr, in order.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// All output; bytes that are no UTF-8 are replaced.
    pub output: String,
    /// How long it took.
    pub time: Duration,
}

impl Finished {
    /// True when the program ended by itself with status 0.
    pub fn succeeded(&self) -> bool {
        self.ending == Ending::Exited(0)
    }

    /// Makes an error of words that stand nowhere in the output.
    ///
    /// # Errors
    /// Names the first words that are missing.
    pub fn must_say(&self, words: &[&str]) -> Result<(), String> {
        match words.iter().find(|words| !self.output.contains(**words)) {
            Some(missing) => Err(format!("\"{missing}\" was not said: {}", self.account())),
            None => Ok(()),
        }
    }

    /// Makes an error of words that stand in the output.
    ///
    /// # Errors
    /// Where they stand there.
    pub fn must_not_say(&self, words: &str) -> Result<(), String> {
        match self.output.contains(words) {
            true => Err(format!("\"{words}\" was said: {}", self.account())),
            false => Ok(()),
        }
    }

    /// What happened and the last lines of output, for a person.
    pub fn account(&self) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        let skipped = lines.len().saturating_sub(LINES_SHOWN_MAX);
        let shown: String = lines[skipped..].iter().map(|line| format!("\n    | {line}")).collect();
        format!("{}{shown}", self.ending)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exited(status) => write!(f, "exit status {status}"),
            Ending::Signalled(signal) => write!(f, "ended by signal {signal}"),
            Ending::TimedOut(limit) => write!(f, "still running after {} s, killed", limit.as_secs()),
        }
    }
}

/// Runs `command` for at most `limit`; its output is kept in `log`, which is overwritten.
///
/// # Errors
/// When the log cannot be written or the program cannot be started. A program that fails is no error
/// here: look at [`Finished::ending`].
pub fn run(command: &mut Command, limit: Duration, log: &Path) -> Result<Finished, String> {
    let file = File::create(log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let copy = file.try_clone().map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let start = Instant::now();
    // Its input stays open and silent, as on a terminal where nobody types. Hydra hands an end of input on to
    // its proxy, and is itself ended by SIGPIPE where a short job is over by then.
    let child = command.stdin(Stdio::piped()).stdout(file).stderr(copy).spawn();
    let mut child =
        child.map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    let ending = wait(&mut child, limit)?;
    let output = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    Ok(Finished { ending, output, time: start.elapsed() })
}

/// Runs `command`, and makes an error, with all that it said, of any end but status 0.
///
/// # Errors
/// When the log cannot be written, or when the program cannot be started or does not end with status 0;
/// `what` says what it was to do.
pub fn succeed(what: &str, command: &mut Command, limit: Duration, log: &Path) -> Result<Finished, String> {
    let finished = run(command, limit, log)?;
    if finished.succeeded() { Ok(finished) } else { Err(format!("{what}: {}", finished.account())) }
}

/// Compiles a C program with this `mpicc`, behind whatever else wants a cpu: a program may run meanwhile.
///
/// # Errors
/// What the compiler said.
pub fn compile(
    mpicc: &Path,
    options: &[&str],
    sources: &[PathBuf],
    program: &Path,
    limit: Duration,
) -> Result<(), String> {
    let is_cxx = sources.iter().any(|source| source.extension().is_some_and(|extension| extension == "cc"));
    let (compiler, standard) = match is_cxx {
        true => (mpicc.with_file_name("mpicxx"), "-std=c++17"),
        false => (mpicc.to_owned(), "-std=c11"),
    };
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(compiler);
    command.args([standard, "-D_POSIX_C_SOURCE=200809L", "-O1", "-pthread"]).args(options);
    command.args(sources).arg("-o").arg(program).arg("-lm");
    succeed("compiling", &mut command, limit, &program.with_extension("mpicc.log")).map(drop)
}

fn wait(child: &mut Child, limit: Duration) -> Result<Ending, String> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("cannot wait: {error}"))? {
            return Ok(Ending::from(status));
        }
        if limit <= start.elapsed() {
            // Either may fail only when the program has just ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(Ending::TimedOut(limit));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Ending {
        use std::os::unix::process::ExitStatusExt;
        match status.code() {
            Some(code) => Ending::Exited(code),
            None => Ending::Signalled(status.signal().unwrap_or_default()),
        }
    }
}

const LINES_SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit_ms: u64) -> Finished {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        run(Command::new("sh").args(["-c", script]), Duration::from_millis(limit_ms), &log).unwrap()
    }

    #[test]
    fn status_and_output_are_kept() {
        let finished = shell("echo one; echo two >&2; exit 7", 60_000);
        assert_eq!(finished.ending, Ending::Exited(7));
        assert_eq!(finished.output, "one\ntwo\n");
        assert!(!finished.succeeded());
        assert!(finished.account().contains("exit status 7\n    | one\n    | two"));
    }

    #[test]
    fn the_input_stays_open() {
        assert!(matches!(shell("read line; exit 0", 300).ending, Ending::TimedOut(_)));
    }

    #[test]
    fn words_that_were_not_said_are_named() {
        let finished = shell("echo no library; echo do this", 60_000);
        assert!(finished.must_say(&["no library", "do this"]).is_ok());
        assert!(
            finished.must_say(&["no library", "do that"]).unwrap_err().contains("\"do that\" was not said")
        );
    }

    #[test]
    fn a_signal_is_no_status() {
        assert_eq!(shell("kill -9 $$", 60_000).ending, Ending::Signalled(9));
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_its_words_are_shown() {
        let finished = shell("echo before; exec sleep 1000", 2000);
        assert_eq!(finished.ending, Ending::TimedOut(Duration::from_secs(2)));
        assert_eq!(finished.output, "before\n");
    }

    #[test]
    fn a_child_that_outlives_its_parent_does_not_hold_us() {
        let finished = shell("sleep 1000 & echo $!", 60_000);
        assert_eq!(finished.ending, Ending::Exited(0));
        let orphan = finished.output.trim();
        assert!(Path::new("/proc").join(orphan).exists(), "we waited until {orphan} was gone");
        assert!(Command::new("kill").arg(orphan).status().unwrap().success());
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let error = run(&mut Command::new("/no/such/program"), Duration::from_secs(1), &log).unwrap_err();
        assert!(error.contains("/no/such/program"), "{error}");
    }
}
