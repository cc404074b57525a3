//! The liveness descriptor of each process: a word that the kernel marks when the process ends, before it
//! takes the process apart.
//!
//! The end of a process is told to its parent, and its connections end, when its memory has been freed, which
//! takes tens of milliseconds for each gigabyte. A robust futex is marked before that (decision 0013). The
//! kernel does so when the *thread* ends that holds it, so a thread of the library holds it, which does
//! nothing else and lives as long as the process. Other threads may end; a process that is stopped, or slow,
//! holds it; a child that is forked does not.
//!
//! ```text
//! word 0      counts who has begun: the one who watches sleeps on it as well
//! word 1 + p  of process p: 0 before it has begun and after it has gone in good order, else its thread and two bits of the kernel's
//! ```
//! While the memory is taken apart everything else on the machine is slow, so a second process keeps it until
//! all know: [`Keeper`].
//!
//! The launcher makes the words and watches them. Who scribbles over a word of another process has that
//! process killed, no more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fabric::Peer;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::thread::{ClockId, futex};

use crate::common::Common;
use crate::memory::Memory;
use crate::segment::{SegmentError, system};
use crate::sync::{Ordering, Word};
use crate::system::{Keeper, NoSignals, OWNER_DIED, Robust, THREAD, WAITERS, be_prompt};

/// The pulses of a job, as its launcher has them.
pub struct LivenessDescriptors {
    file: OwnedFd,
    words: Words,
}

/// The words, mapped.
struct Words {
    common: Common,
    peers: u32,
}

impl Words {
    fn adopt(file: OwnedFd, peers: u32) -> Result<Words, SegmentError> {
        Ok(Words { common: Common::adopt(file, bytes(peers))?, peers })
    }

    fn begun(&self) -> &Word {
        self.common.memory().word(0)
    }

    fn of(&self, peer: Peer) -> &Word {
        self.common.memory().word(4 * (1 + peer.0 as usize))
    }

    /// This thread has one of the words from now on. Where the kernel has no such lists nobody waits for it.
    fn take<'a>(&self, word: &'a Word) -> Option<Robust<'a>> {
        let robust = Robust::new(word)?;
        let thread = rustix::thread::gettid().as_raw_pid().unsigned_abs();
        word.store(thread | WAITERS, Ordering::Release);
        self.begun().fetch_add(1, Ordering::AcqRel);
        let _ = futex::wake(self.begun(), futex::Flags::empty(), i32::MAX as u32);
        Some(robust)
    }
}

impl LivenessDescriptors {
    /// Makes the liveness descriptors of a job of `peers` processes.
    ///
    /// # Errors
    /// [`SegmentError::Resources`], [`SegmentError::System`].
    pub fn create(peers: u32) -> Result<LivenessDescriptors, SegmentError> {
        let file = Common::create(bytes(peers))?;
        let mapped = file.try_clone().map_err(|error| system("mapping the pulses of processes", error))?;
        Ok(LivenessDescriptors { words: Words::adopt(mapped, peers)?, file })
    }

    /// The descriptor, to be handed to the ranks.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Waits for processes to end, and tells each to `ended` once. It comes back when that says that it is
    /// enough, or with the system's reason where it cannot wait so (Linux before 5.16).
    pub fn watch(&self, mut ended: impl FnMut(Peer) -> bool) -> Option<Errno> {
        be_prompt();
        let mut told = vec![false; self.words.peers as usize];
        loop {
            let begun = self.words.begun().load(Ordering::Acquire);
            let mut waits = vec![wait_for(self.words.begun(), begun)];
            for (number, told) in (0..).zip(&mut told) {
                let word = self.words.of(Peer(number));
                let now = word.load(Ordering::Acquire);
                if now & OWNER_DIED != 0 && !*told {
                    *told = true;
                    if !ended(Peer(number)) {
                        return None;
                    }
                }
                // Those beyond are told of when they have been reaped.
                if now & THREAD != 0 && waits.len() < WAITS_MAX {
                    waits.push(wait_for(word, now));
                }
            }
            match futex::waitv(&waits, futex::WaitvFlags::empty(), None, ClockId::Monotonic) {
                // Somebody has changed a word, or it was another one all the time.
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Some(errno),
            }
        }
    }
}

impl std::fmt::Debug for LivenessDescriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pulses(of {} processes)", self.words.peers)
    }
}

fn wait_for(word: &Word, now: u32) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = now.into();
    wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
    wait.flags = futex::WaitFlags::SIZE_U32;
    wait
}

/// The liveness descriptor of this process, until it is dropped: it has left in good order then.
pub struct LivenessDescriptor {
    /// Its end tells the thread to let go.
    leave: Option<Sender<()>>,
    holder: Option<JoinHandle<()>>,
    /// Where there can be one.
    keeper: Option<Keeper>,
    beginner: Pid,
}

impl LivenessDescriptor {
    /// Begins the liveness descriptor of process `here` in `file`, which the launcher made for `peers`
    /// processes; this is checked first.
    ///
    /// # Errors
    /// [`SegmentError::Foreign`], [`SegmentError::Resources`]; [`SegmentError::System`] where there can be no
    /// thread.
    pub fn begin(file: OwnedFd, peers: u32, here: Peer) -> Result<LivenessDescriptor, SegmentError> {
        if here.0 >= peers {
            return Err(SegmentError::Foreign(format!("it has no place for process {}", here.0)));
        }
        let words = Words::adopt(file, peers)?;
        let (leave, until) = channel();
        let (is_held, held) = channel();
        let no_signals = NoSignals::begin();
        let holder = std::thread::Builder::new()
            .name("weft-liveness".into())
            .stack_size(STACK_BYTES)
            .spawn(move || hold(&words, here, &until, is_held))
            .map_err(|error| {
                system("starting the thread that holds this process's liveness descriptor", error)
            })?;
        // Who has begun is missed from then on.
        let _ = held.recv();
        let this = pidfd_open(getpid(), PidfdFlags::empty()).ok();
        let keeper = this.and_then(|this| Keeper::begin(this.as_fd(), KEPT, &no_signals));
        Ok(LivenessDescriptor { leave: Some(leave), holder: Some(holder), keeper, beginner: getpid() })
    }
}

impl Drop for LivenessDescriptor {
    fn drop(&mut self) {
        drop(self.leave.take());
        let (holder, keeper) = (self.holder.take(), self.keeper.take());
        if getpid() == self.beginner {
            let _ = holder.map(JoinHandle::join);
            drop(keeper);
        } else {
            // A child made by fork has neither.
            std::mem::forget(keeper);
        }
    }
}

/// What the thread does: it holds the word, and waits to be told to let go.
fn hold(words: &Words, here: Peer, until: &Receiver<()>, is_held: Sender<()>) {
    be_prompt();
    let word = words.of(here);
    let robust = words.take(word);
    drop(is_held);
    let _ = until.recv();
    word.store(0, Ordering::Release);
    drop(robust);
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

fn bytes(peers: u32) -> usize {
    4 * (1 + peers as usize)
}

/// What the kernel waits for at once.
const WAITS_MAX: usize = 128;
/// So long the memory of the dead is kept: until the others know, and have begun to go on.
const KEPT: Duration = Duration::from_millis(20);
/// It calls nothing deep.
const STACK_BYTES: usize = 64 << 10;

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::anonymous::anew;

    fn begin(
        liveness_descriptors: &LivenessDescriptors,
        here: u32,
    ) -> Result<LivenessDescriptor, SegmentError> {
        LivenessDescriptor::begin(anew(liveness_descriptors.file().as_raw_fd()).unwrap(), 3, Peer(here))
    }

    #[test]
    fn who_leaves_in_good_order_has_not_ended() {
        let liveness_descriptors = LivenessDescriptors::create(3).unwrap();
        let liveness_descriptor = begin(&liveness_descriptors, 1).unwrap();
        let word = liveness_descriptors.words.of(Peer(1));
        assert!(word.load(Ordering::Acquire) & WAITERS != 0 && word.load(Ordering::Acquire) & THREAD != 0);
        drop(liveness_descriptor);
        assert_eq!(word.load(Ordering::Acquire), 0);
        assert!(begin(&liveness_descriptors, 3).is_err(), "there are three");
    }

    #[test]
    fn the_thread_that_holds_a_word_is_missed_and_others_are_not() {
        let liveness_descriptors = LivenessDescriptors::create(3).unwrap();
        let _here = begin(&liveness_descriptors, 0).unwrap();
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut heard = Vec::new();
                let refused = liveness_descriptors.watch(|peer| {
                    heard.push(peer);
                    false
                });
                (refused, heard)
            });
            // A thread that ends with the word in its hands is to the kernel what a process is that is
            // killed.
            let words = Words::adopt(anew(liveness_descriptors.file().as_raw_fd()).unwrap(), 3).unwrap();
            let words: &'static Words = Box::leak(Box::new(words));
            let other = scope.spawn(|| std::mem::forget(words.take(words.of(Peer(2)))));
            other.join().unwrap();
            match watch.join().unwrap() {
                (None, heard) => assert_eq!(heard, [Peer(2)]),
                (Some(errno), _) => assert_eq!(errno, Errno::NOSYS, "a kernel before 5.16"),
            }
        });
    }

    #[test]
    fn something_else_is_refused() {
        let other = Common::create(1 << 20).unwrap();
        assert!(LivenessDescriptor::begin(other, 3, Peer(0)).is_err());
    }
}
