//! Calls of the system that no library offers as they are needed here.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::sync::Word;

/// Takes the lock of one byte of a file, for this open description; false where another has it, and where the kernel has
/// no such locks.
pub fn lock(file: BorrowedFd<'_>, byte: u32) -> bool {
    call(file, libc::F_OFD_SETLK, &mut lock_of(byte))
}

/// Whether another open description has the lock of that byte. Where the kernel does not say, yes.
pub fn is_locked(file: BorrowedFd<'_>, byte: u32) -> bool {
    let mut lock = lock_of(byte);
    !call(file, libc::F_OFD_GETLK, &mut lock) || lock.l_type != libc::F_UNLCK as libc::c_short
}

fn lock_of(byte: u32) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte.into(),
        l_len: 1,
        l_pid: 0,
    }
}

fn call(file: BorrowedFd<'_>, operation: libc::c_int, lock: &mut libc::flock) -> bool {
    if cfg!(miri) {
        // Miri knows no locks of files.
        return false;
    }
    // SAFETY: the descriptor is open as long as it is borrowed, and for both operations the kernel reads and writes one
    // `flock` at the address, which is borrowed for the time of the call.
    unsafe { libc::fcntl(file.as_raw_fd(), operation, std::ptr::from_mut(lock)) == 0 }
}

/// Whether the other end of a connection within this machine runs as this user. (rustix refuses to answer where the
/// other end is in another name space of processes, and so has no number here.)
pub fn same_user(socket: impl AsFd) -> bool {
    let mut them = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as it is borrowed; the kernel writes at most `bytes` bytes to `them`, which
    // is as long, and their number to `bytes`.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut them).cast(),
            &raw mut bytes,
        )
    };
    asked == 0
        && bytes as usize == size_of::<libc::ucred>()
        && them.uid == rustix::process::geteuid().as_raw()
}

/// A word that the kernel marks with [`OWNER_DIED`] when this thread ends, as it does with its process, if the word has the
/// thread's number then; and wakes one who waits for it, if it has [`WAITERS`]. One for each thread.
pub struct Robust<'a> {
    list: *mut RobustList,
    word: PhantomData<&'a Word>,
}

/// What the kernel reads (set_robust_list(2)): a ring of entries, each of which begins with the address of the next.
#[repr(C)]
struct RobustList {
    first: usize,
    /// From an entry to its word, in bytes.
    word_at: libc::c_long,
    pending: usize,
    /// The one entry.
    entry: usize,
}

impl<'a> Robust<'a> {
    /// For this thread, which may lock no robust mutexes of the C library from now on: those are on a list that this one takes
    /// the place of.
    pub fn new(word: &'a Word) -> Option<Robust<'a>> {
        // Never freed: the kernel reads it whenever the thread ends.
        let list = Box::leak(Box::new(RobustList { first: 0, word_at: 0, pending: 0, entry: 0 }));
        let entry = (&raw const list.entry).expose_provenance();
        list.first = entry;
        list.entry = (&raw const *list).expose_provenance();
        list.word_at = word.as_ptr().expose_provenance().wrapping_sub(entry) as libc::c_long;
        let list = std::ptr::from_mut(list);
        // SAFETY: the list is as the kernel wants it, has its length, and stays for ever.
        let set = unsafe { libc::syscall(libc::SYS_set_robust_list, list, ROBUST_HEAD_BYTES) };
        (set == 0).then_some(Robust { list, word: PhantomData })
    }
}

impl Drop for Robust<'_> {
    fn drop(&mut self) {
        // SAFETY: the list is never freed, and nobody but this thread and the kernel, at its end, has it.
        unsafe { (&raw mut (*self.list).first).write_volatile(self.list.expose_provenance()) };
    }
}

/// Keeps all signals from this thread, and from those that it begins meanwhile: they are the program's, and for its own threads.
pub struct NoSignals {
    before: libc::sigset_t,
}

impl NoSignals {
    /// From now on.
    pub fn begin() -> NoSignals {
        // SAFETY: all-zero `sigset_t`s are valid values of that plain C structure; both are locals that outlive the calls, which
        // change nothing but them and this thread's mask.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            NoSignals { before }
        }
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        // SAFETY: the mask is what this thread had before, and a null old set is allowed.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Asks that this thread run soon after it is woken, and for a moment only, where the kernel divides time so (Linux 6.12): it says
/// that somebody has died, and those who are to know it may compute or look without a pause. What it starts has time as others do.
pub fn be_prompt() {
    /// The first version of the kernel's structure (sched_setattr(2)).
    #[repr(C)]
    struct Attributes {
        bytes: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    // SAFETY: both look at this thread.
    let (policy, nice) = unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
    // Whoever asked for another one has it, and so have the processes that are started from here.
    if policy != libc::SCHED_OTHER {
        return;
    }
    let attributes = Attributes {
        bytes: size_of::<Attributes>() as u32,
        policy: policy as u32,
        flags: RESET_ON_FORK,
        nice,
        priority: 0,
        runtime: SLICE_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the kernel reads one structure of the length that stands in it; 0 is this thread.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

const RESET_ON_FORK: u64 = 1;
/// The least that the kernel gives.
const SLICE_NS: u64 = 100_000;

/// The number of the thread that holds a robust word.
pub const THREAD: u32 = 0x3fff_ffff;
/// Who held it has ended.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// Somebody is to be woken then.
pub const WAITERS: u32 = 0x8000_0000;
const ROBUST_HEAD_BYTES: usize = 3 * size_of::<usize>();

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn both_ends_of_a_pair_are_of_one_user() {
        let (here, there) = UnixStream::pair().unwrap();
        assert!(same_user(&here) && same_user(&there));
        assert!(!same_user(std::fs::File::open("/dev/null").unwrap()), "no connection");
    }
}
