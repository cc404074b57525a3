//! The files in `/dev/shm` by which the endpoints of the provider shm are reached. A process that is killed
//! leaves its own there, some megabytes each, and nobody takes it away. So the name of a file says whose it
//! is, and whoever opens an endpoint takes away those of processes that are no more.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Once;

/// A process, for all time: its number, what that counts in, and when it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    namespace: u64,
    pid: u32,
    start: u64,
}

impl Owner {
    /// This process; none where the system tells nothing of processes.
    fn here() -> Option<Owner> {
        let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let pid = std::process::id();
        Some(Owner { namespace, pid, start: start_of(pid).ok()?? })
    }

    fn name(self, random: u64) -> String {
        format!("{PREFIX}{:x}-{:x}-{:x}-{random:016x}", self.namespace, self.pid, self.start)
    }

    /// Who has given a file its name; the provider adds something to it.
    fn of(name: &str) -> Option<Owner> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let owner = Owner { namespace: number()?, pid: number()?.try_into().ok()?, start: number()? };
        parts.next().map(|_| owner)
    }

    /// Whether it is certain that there is no such process any more, for one who counts processes in
    /// `namespace`.
    fn is_gone(self, namespace: u64) -> bool {
        self.namespace == namespace && start_of(self.pid).is_ok_and(|start| start != Some(self.start))
    }
}

/// When a process was started, in ticks since the system was; none where there is no such process.
fn start_of(pid: u32) -> std::io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // Its name stands in brackets, and may hold any others.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let start = rest.split_whitespace().nth(START_AT).and_then(|word| word.parse().ok());
    start.map(Some).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// A name for the file of an endpoint of this process, which no other has.
pub(crate) fn name(random: u64) -> String {
    Owner::here().map_or_else(|| format!("{PREFIX}{random:016x}"), |owner| owner.name(random))
}

/// Takes away what processes of this user have left that are no more; once in a process.
pub(crate) fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        if Path::new("/proc/self").exists() {
            sweep(Path::new("/dev/shm"));
        }
    });
}

/// How many files it has taken away.
fn sweep(folder: &Path) -> usize {
    let Some(here) = Owner::here() else { return 0 };
    // SAFETY: nothing is handed over.
    let user = unsafe { libc::geteuid() };
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let is_left = |entry: &fs::DirEntry| {
        let owner = entry.file_name().to_str().and_then(Owner::of);
        owner.is_some_and(|owner| owner.is_gone(here.namespace))
            && entry.metadata().is_ok_and(|file| file.is_file() && file.uid() == user)
    };
    // Another process may be taking away the same ones.
    entries.flatten().filter(is_left).filter(|entry| fs::remove_file(entry.path()).is_ok()).count()
}

/// Names of our files begin so.
const PREFIX: &str = "weft-";
/// Where the start of a process stands behind its name.
const START_AT: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_it_is() {
        let here = Owner::here().unwrap();
        assert_eq!(Owner::of(&name(7)), Some(here));
        assert_eq!(Owner::of(&format!("{}:0:0", name(u64::MAX))), Some(here));
        assert_ne!(name(7), name(8));
        for other in [
            "weft-0224bfe330626544:0:0",
            "weft-1-2",
            "weft-1-2-3",
            "weft-x-2-3-4",
            "mpich-1-2-3-4",
            "weft-1--1-3-4",
        ] {
            assert_eq!(Owner::of(other), None, "{other}");
        }
    }

    #[test]
    fn what_the_dead_have_left_is_taken_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let here = Owner::here().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let other = Owner { pid: child.id(), start: start_of(child.id()).unwrap().unwrap(), ..here };
        let make = |owner: Owner| {
            let path = folder.path().join(format!("{}:0:0", owner.name(1)));
            fs::write(&path, "").unwrap();
            path
        };
        // Its number was another's before.
        let reused = make(Owner { start: here.start - 1, ..here });
        let (mine, alive) = (make(here), make(other));
        let elsewhere = make(Owner { namespace: here.namespace + 1, start: here.start - 1, ..here });
        let foreign = folder.path().join("weft-0224bfe330626544:0:0");
        fs::write(&foreign, "").unwrap();
        assert_eq!(sweep(folder.path()), 1);
        assert!(!reused.exists() && [&mine, &alive, &elsewhere, &foreign].iter().all(|path| path.exists()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(sweep(folder.path()), 1);
        assert!(!alive.exists() && [&mine, &elsewhere, &foreign].iter().all(|path| path.exists()));
    }
}
