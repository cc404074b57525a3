//! The first job on a machine has it measured what messages cost there, so that it and all later ones choose
//! by that.
//!
//! A small job of its own measures (this program again, with `weft measure` as its program), within a second
//! at most and mostly within a tenth of one. Whoever is first does it, for this host, kernel and version of
//! weft; who comes meanwhile starts with the built-in numbers and does not wait. A machine on which it fails
//! again and again is left alone.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use weft::{Constants, ConstantsFrom};

/// Measures and keeps it, if nobody has and it can be kept, with as many ranks as `kinds` says that there are
/// kinds of cores; the file, if it was made.
pub fn measure(from: &ConstantsFrom, kinds: impl FnOnce() -> usize) -> Option<PathBuf> {
    let ConstantsFrom::Cache(_) = from else { return None };
    let path = from.path().filter(|path| !path.exists())?;
    let ranks = Some(kinds()).filter(|ranks| *ranks > 1)?;
    let launcher = std::env::current_exe().ok()?;
    let program = Some(launcher.with_file_name("weft")).filter(|program| program.exists())?;
    let tries = Tries::begin(&path)?;
    let text = run(&launcher, &program, ranks)?;
    let (constants, besides, _) = Constants::decode(&text).ok()?;
    let kept = from.keep(&constants, &besides).ok();
    tries.end();
    kept
}

/// Runs the job that measures; what it prints.
fn run(launcher: &Path, program: &Path, ranks: usize) -> Option<String> {
    let mut job = Command::new(launcher);
    job.args(["-n", &ranks.to_string(), "--bind", "none", "--timeout", SECONDS_MAX])
        .arg(program)
        .arg("measure");
    // What the user has set for the real job is not for this one.
    job.env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| PASSED_ON.iter().any(|passed| name == passed)));
    job.envs([
        ("WEFT_CONSTANTS", "off"),
        ("WEFT_COSTS", "off"),
        ("WEFT_FABRIC", "shm"),
        ("WEFT_BUSY", "ignore"),
    ]);
    let done = job.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    done.status.success().then(|| String::from_utf8(done.stdout).ok()).flatten()
}

/// A file beside the one that is to be made: locked by who measures, and as long as how often that was tried.
struct Tries {
    path: PathBuf,
    /// It is locked until this is dropped.
    _file: File,
}

impl Tries {
    /// Locks it; nothing where another process has it, nothing can be written, or it was tried often enough.
    fn begin(constants: &Path) -> Option<Tries> {
        std::fs::create_dir_all(constants.parent()?).ok()?;
        let mut name = constants.file_name()?.to_owned();
        name.push(".tries");
        let path = constants.with_file_name(name);
        let mut file = OpenOptions::new().append(true).create(true).open(&path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Another process may have ended it between two looks.
        if constants.exists() || file.metadata().ok()?.len() >= TRIES_MAX {
            return None;
        }
        file.write_all(b".").ok()?;
        Some(Tries { path, _file: file })
    }

    /// It has succeeded.
    fn end(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

const SECONDS_MAX: &str = "1";
const TRIES_MAX: u64 = 3;
/// The variables that a job needs whatever it does.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_measures_at_a_time_and_not_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft/constants");
        let first = Tries::begin(&path).expect("nobody else does");
        assert!(Tries::begin(&path).is_none(), "somebody else does");
        drop(first);
        Tries::begin(&path).expect("it has not succeeded yet").end();
        for _ in 0..TRIES_MAX {
            assert!(Tries::begin(&path).is_some());
        }
        assert!(Tries::begin(&path).is_none(), "it was tried often enough");
        std::fs::remove_file(path.with_file_name("constants.tries")).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(Tries::begin(&path).is_none(), "it is there");
        assert!(Tries::begin(Path::new("/proc/no/constants")).is_none(), "nothing can be kept");
    }

    #[test]
    fn only_what_may_be_kept_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let kept = ConstantsFrom::Cache(folder.path().to_owned());
        assert_eq!(measure(&ConstantsFrom::BuiltIn, || 2), None);
        assert_eq!(measure(&ConstantsFrom::File(folder.path().join("mine")), || 2), None);
        assert_eq!(measure(&kept, || 1), None, "there is one core only");
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}
