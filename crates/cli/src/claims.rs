//! Which cpus other jobs of this host hold, and holding some for this one.
//!
//! A job holds a cpu by a lock (`flock`) on the folder that the kernel shows for it,
//! `/sys/devices/system/cpu/cpuN`: every user may lock it, nothing is written, and the kernel lets go of it
//! with the last descriptor, however the launcher ends. The launcher and its supervisor both have the
//! descriptors. Jobs choose one after the other, under a lock on the folder above, so that two that start at
//! the same moment do not each take half of what both want.
//!
//! Containers with a network namespace of their own have folders of their own, and do not see each other's
//! locks: there only the look at how busy the machine is tells of others.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Where the kernel shows its cpus.
pub const FOLDER: &str = "/sys/devices/system/cpu";

/// Cpus that a job holds until this value and its copies in forked processes are gone.
#[derive(Debug, Default)]
pub struct Claims {
    held: BTreeMap<usize, OwnedFd>,
}

/// The choice of cpus, while no other job chooses.
#[derive(Debug)]
pub struct Choice {
    folder: PathBuf,
    _turn: Option<OwnedFd>,
    /// How many descriptors may be used.
    room: usize,
    claims: Claims,
}

impl Choice {
    /// Waits until no other job chooses. One that does not come to an end is not waited for: each cpu still
    /// has one holder, and what may happen is that two jobs each take a part of what both want, and neither
    /// is bound.
    pub fn begin(folder: &Path) -> Choice {
        let turn = || open(folder).filter(|turn| (0..TURN_TRIES).any(|_| is_locked_soon(turn)));
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(FOR_OTHER_FILES);
        Choice { folder: folder.to_owned(), _turn: turn(), room, claims: Claims::default() }
    }

    /// Takes a cpu; false where another job holds it. Where the kernel shows no folder for the cpu, where its
    /// folder cannot be locked, or where no descriptor is left for it, the cpu counts as free.
    pub fn take(&mut self, cpu: usize) -> bool {
        if self.claims.held.contains_key(&cpu) || self.claims.held.len() >= self.room {
            return true;
        }
        let Some(file) = open(&self.folder.join(format!("cpu{cpu}"))) else { return true };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return false,
            Err(_) => {}
            Ok(()) => drop(self.claims.held.insert(cpu, file)),
        }
        true
    }

    /// Ends the choice: the job holds those of the taken cpus that are `wanted`.
    pub fn keep(mut self, wanted: impl Fn(usize) -> bool) -> Claims {
        self.claims.held.retain(|cpu, _| wanted(*cpu));
        self.claims
    }
}

impl Claims {
    /// How many descriptors that takes.
    pub fn descriptors(&self) -> usize {
        self.held.len()
    }

    /// The cpus that are held.
    #[cfg(test)]
    fn cpus(&self) -> Vec<usize> {
        self.held.keys().copied().collect()
    }
}

fn open(folder: &Path) -> Option<OwnedFd> {
    openat(CWD, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn is_locked_soon(turn: &OwnedFd) -> bool {
    let is_locked = flock(turn, FlockOperation::NonBlockingLockExclusive).is_ok();
    if !is_locked {
        std::thread::sleep(TURN_PAUSE);
    }
    is_locked
}

/// Descriptors that a launcher needs before it has raised the limit on them.
const FOR_OTHER_FILES: usize = 64;
/// A choice takes less than a millisecond, or some tens where the machine is busy.
const TURN_TRIES: u32 = 100;
const TURN_PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(cpus: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        (0..cpus).for_each(|cpu| std::fs::create_dir(folder.path().join(format!("cpu{cpu}"))).unwrap());
        folder
    }

    #[test]
    fn a_cpu_has_one_holder_until_that_one_is_gone() {
        let folder = folder(3);
        let mut first = Choice::begin(folder.path());
        assert!(first.take(0) && first.take(1) && first.take(0));
        let first = first.keep(|cpu| cpu == 1);
        assert_eq!(first.cpus(), [1], "the other was not kept");
        let mut second = Choice::begin(folder.path());
        assert_eq!([0, 1, 2].map(|cpu| second.take(cpu)), [true, false, true]);
        let second = second.keep(|_| true);
        drop(first);
        let mut third = Choice::begin(folder.path());
        assert_eq!([0, 1, 2].map(|cpu| third.take(cpu)), [false, true, false]);
        drop((second, third));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing was made");
    }

    #[test]
    fn jobs_choose_one_after_the_other_and_get_all_or_nothing() {
        let folder = folder(4);
        let held = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut choice = Choice::begin(folder.path());
                    let free: Vec<usize> = (0..4).filter(|cpu| choice.take(*cpu)).collect();
                    let has_three = free.len() >= 3;
                    held.lock().unwrap().push(choice.keep(|cpu| has_three && free[..3].contains(&cpu)));
                });
            }
        });
        let mut counts: Vec<usize> =
            held.into_inner().unwrap().iter().map(|held| held.cpus().len()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [0, 0, 0, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn a_chooser_that_does_not_end_is_not_waited_for() {
        let folder = folder(2);
        let endless = Choice::begin(folder.path());
        let mut other = Choice::begin(folder.path());
        assert!(other.take(0) && !other.keep(|_| true).cpus().is_empty());
        drop(endless);
    }

    #[test]
    fn where_the_kernel_shows_no_cpus_nobody_holds_any() {
        let folder = folder(0);
        let mut choice = Choice::begin(&folder.path().join("missing"));
        assert!(choice.take(0) && choice.keep(|_| true).cpus().is_empty());
    }
}
