//! Who is still there: each process holds a lock on one byte of the segment's file, and the kernel takes the
//! lock away when the process has ended, however it ends.
//!
//! Locks belong to open descriptions (fcntl(2), `F_OFD_SETLK`), of which each process has one of its own.
//! Numbers of processes play no part, so containers with numbers of their own are no obstacle, and a process
//! that was stopped or has not been reaped is not mistaken. A child that the program forks keeps the lock
//! until it has ended, too, or executes another program.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::anonymous::has_descriptions;
use crate::system;

/// Says that this process sits on a process slot; false where the kernel has no such locks, or no description
/// for each process.
pub fn claim(file: BorrowedFd<'_>, process_slot: u32) -> bool {
    has_descriptions() && system::lock(file, process_slot)
}

/// Whether somebody sits on a process slot that was claimed. Where the kernel does not say, yes.
fn is_there(file: BorrowedFd<'_>, process_slot: u32) -> bool {
    system::is_locked(file, process_slot)
}

/// The calls of the roll: who was missing the last time, and since when it was not called.
pub struct LivenessTable {
    called: Instant,
    missing: Vec<u32>,
}

impl LivenessTable {
    pub fn new() -> LivenessTable {
        LivenessTable { called: Instant::now(), missing: Vec::new() }
    }

    /// Looks who of `claimed` has ended, unless that was done a moment ago. The answer is who was missing the
    /// last time already: between two calls, everything that it has sent was received.
    pub fn call(&mut self, file: BorrowedFd<'_>, claimed: impl Fn() -> Vec<u32>) -> Vec<u32> {
        if self.called.elapsed() < INTERVAL {
            return Vec::new();
        }
        self.called = Instant::now();
        let missing: Vec<u32> =
            claimed().into_iter().filter(|&process_slot| !is_there(file, process_slot)).collect();
        let before = std::mem::replace(&mut self.missing, missing);
        before.into_iter().filter(|process_slot| self.missing.contains(process_slot)).collect()
    }

    /// The next call happens at once.
    #[cfg(test)]
    pub fn hurry(&mut self) {
        self.called = Instant::now().checked_sub(INTERVAL).expect("the machine has run for a second");
    }
}

/// A process that waits calls the roll so often: a few system calls for each process of the node.
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a lock is gone: a process that another test is just starting has a copy of every descriptor
/// for a moment.
#[cfg(all(test, not(miri)))]
pub fn until_gone(file: BorrowedFd<'_>, process_slot: u32) {
    let since = Instant::now();
    while is_there(file, process_slot) {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "the lock of process slot {process_slot} is still held"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};

    use super::*;
    use crate::anonymous::{anew, anonymous};

    fn descriptions() -> (OwnedFd, OwnedFd) {
        let file = anonymous(c"weft-test").unwrap();
        (anew(file.as_raw_fd()).unwrap(), file)
    }

    #[test]
    fn a_process_slot_is_held_until_its_description_is_closed() {
        let (mine, theirs) = descriptions();
        assert!(!is_there(mine.as_fd(), 3));
        assert!(claim(theirs.as_fd(), 3));
        assert!(is_there(mine.as_fd(), 3));
        assert!(!is_there(mine.as_fd(), 2), "another process slot");
        assert!(!claim(mine.as_fd(), 3), "it is taken");
        drop(theirs);
        until_gone(mine.as_fd(), 3);
    }

    #[test]
    fn a_process_that_is_killed_is_missing() {
        let (mine, theirs) = descriptions();
        assert!(claim(theirs.as_fd(), 0));
        // The child has the description, and this process has it no more.
        let mut child = std::process::Command::new("sleep").arg("1000").stdin(theirs).spawn().unwrap();
        assert!(is_there(mine.as_fd(), 0));
        child.kill().unwrap();
        child.wait().unwrap();
        until_gone(mine.as_fd(), 0);
    }

    #[test]
    fn who_is_missing_twice_is_told() {
        let (mine, theirs) = descriptions();
        let mut roll = LivenessTable::new();
        assert!(claim(theirs.as_fd(), 1));
        let call = |roll: &mut LivenessTable| {
            roll.hurry();
            roll.call(mine.as_fd(), || vec![1])
        };
        assert_eq!(call(&mut roll), []);
        assert_eq!(call(&mut roll), []);
        drop(theirs);
        until_gone(mine.as_fd(), 1);
        assert_eq!(call(&mut roll), [], "it may have sent something since");
        assert_eq!(call(&mut roll), [1]);
        assert_eq!(roll.call(mine.as_fd(), || panic!("called again at once")), []);
    }
}
