//! Calls of the system that no library offers as they are needed here.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::sync::Word;

/// Takes the lock of one byte of a file, for this open description; false where another has it, and where the
/// kernel has no such locks.
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
    // SAFETY: the descriptor is open as long as it is borrowed, and for both operations the kernel reads and
    // writes one `flock` at the address, which is borrowed for the time of the call.
    unsafe { libc::fcntl(file.as_raw_fd(), operation, std::ptr::from_mut(lock)) == 0 }
}

/// Another descriptor, closed on exec, of what is open under a number that this process was told.
pub fn duplicate(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not -1 (checked above); the borrow ends with this function, and the one system
    // call made through it fails cleanly on a closed descriptor.
    rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number) }, 3)
}

/// How large this core's second-level cache is, as far as the C library knows.
#[must_use]
pub fn second_cache_bytes() -> Option<usize> {
    #[cfg(all(target_env = "gnu", not(miri)))]
    {
        // SAFETY: it takes a number and gives one.
        let bytes = unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) };
        usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)
    }
    #[cfg(not(all(target_env = "gnu", not(miri))))]
    None
}

/// Whether the other end of a connection within this machine runs as this user. (rustix refuses to answer
/// where the other end is in another name space of processes, and so has no number here.)
pub fn same_user(socket: impl AsFd) -> bool {
    let mut them = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as it is borrowed; the kernel writes at most `bytes` bytes to
    // `them`, which is as long, and their number to `bytes`.
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

/// A word that the kernel marks with [`OWNER_DIED`] when this thread ends, as it does with its process, if
/// the word has the thread's number then; and wakes one who waits for it, if it has [`WAITERS`]. One for each
/// thread.
pub struct Robust<'a> {
    list: *mut RobustList,
    word: PhantomData<&'a Word>,
}

/// What the kernel reads (set_robust_list(2)): a ring of entries, each of which begins with the address of
/// the next.
#[repr(C)]
struct RobustList {
    first: usize,
    /// From a slot to its word, in bytes.
    word_at: libc::c_long,
    pending: usize,
    /// The one entry.
    entry: usize,
}

impl<'a> Robust<'a> {
    /// For this thread, which may lock no robust mutexes of the C library from now on: those are on a list
    /// that this one takes the place of.
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

/// Keeps all signals from this thread, and from those that it begins meanwhile: they are the program's, and
/// for its own threads.
pub struct NoSignals {
    before: libc::sigset_t,
}

impl NoSignals {
    /// From now on.
    pub fn begin() -> NoSignals {
        // SAFETY: all-zero `sigset_t`s are valid values of that plain C structure; both are locals that
        // outlive the calls, which change nothing but them and this thread's mask.
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

/// A process that has its memory in common with this one: the system takes the memory apart when both have
/// ended. It waits for this one to end, and for a pause beyond, and ends then.
///
/// It is no thread, and so not of what is killed. It runs a list of system calls and no function, so it needs
/// no stack, and touches nothing of the thread that has begun it. To the program it is no child: without
/// `__WALL` no `waitpid` sees it, and its end sends no signal.
pub struct Keeper {
    process: libc::pid_t,
    /// Its own while it lives.
    script: *mut Script,
}

/// What it does, and what the calls point to.
struct Script {
    calls: [Call; 6],
    end: libc::pollfd,
    pause: libc::timespec,
}

/// One call of the system.
#[repr(C)]
#[derive(Clone, Copy)]
struct Call {
    number: libc::c_long,
    arguments: [usize; 5],
}

// SAFETY: whoever has the keeper may end it: any thread may wait for it, and the script belongs to no thread.
unsafe impl Send for Keeper {}

impl Keeper {
    /// Begins it, by a thread that no signal reaches meanwhile; `this` is a descriptor that tells of this
    /// process's end (pidfd). None where there can be no such process: on other machines, before Linux 5.9,
    /// where a filter of system calls or Valgrind refuses it.
    pub fn begin(this: BorrowedFd<'_>, pause: Duration, _no_signals: &NoSignals) -> Option<Keeper> {
        // SAFETY: no descriptor has that number, so that nothing is closed.
        if unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0) } != 0 {
            return None;
        }
        let script = Box::into_raw(Box::new(Script {
            calls: [Call { number: libc::SYS_exit, arguments: [0; 5] }; 6],
            end: libc::pollfd { fd: this.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            pause: libc::timespec {
                tv_sec: pause.as_secs() as libc::time_t,
                tv_nsec: pause.subsec_nanos().into(),
            },
        }));
        let file = this.as_raw_fd() as usize;
        let below = if file == 0 { [1, 0, 0, 0, 0] } else { [0, file - 1, 0, 0, 0] };
        let name = c"weft-keeper".as_ptr().expose_provenance();
        let call = |number, arguments| Call { number, arguments };
        // SAFETY: the script has just been made, and nobody else has it yet.
        let first = unsafe {
            let end = (&raw mut (*script).end).expose_provenance();
            let pause = (&raw mut (*script).pause).expose_provenance();
            (*script).calls = [
                call(libc::SYS_prctl, [libc::PR_SET_NAME as usize, name, 0, 0, 0]),
                // Copies of all other descriptors would keep connections of the dead open. An empty range is
                // an error, and no more.
                call(libc::SYS_close_range, [file + 1, u32::MAX as usize, 0, 0, 0]),
                call(libc::SYS_close_range, below),
                call(libc::SYS_ppoll, [end, 1, 0, 0, 0]),
                call(libc::SYS_nanosleep, [pause, 0, 0, 0, 0]),
                call(libc::SYS_exit, [0; 5]),
            ];
            (&raw const (*script).calls).cast::<Call>()
        };
        // SAFETY: the last call ends the process; of the others `ppoll` alone writes, into the script, which
        // is freed when the process has ended; and `_no_signals` keeps signals away.
        let process = unsafe { run_beside(first) };
        if process <= 0 {
            // SAFETY: it was boxed above, and there is no process that has it.
            drop(unsafe { Box::from_raw(script) });
            return None;
        }
        Some(Keeper { process, script })
    }

    /// Waits for it, or looks whether it has ended; true where it has.
    fn has_ended(&self, options: libc::c_int) -> bool {
        loop {
            // SAFETY: a null status is allowed.
            let ended = unsafe { libc::waitpid(self.process, std::ptr::null_mut(), libc::__WALL | options) };
            match ended {
                0 => return false,
                // Where there is no such child, the program has waited for it.
                -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
                _ => return true,
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.has_ended(libc::WNOHANG) {
            // SAFETY: it is a child that nobody has waited for, so the number is its own.
            unsafe { libc::kill(self.process, libc::SIGKILL) };
            self.has_ended(0);
        }
        // SAFETY: it was boxed, and the process that had it has ended.
        drop(unsafe { Box::from_raw(self.script) });
    }
}

/// Begins a process in this memory that makes those calls, one after another. Its number, or what the kernel
/// says instead.
///
/// # Safety
/// The calls stay where they are until one of them, which does not return, has ended the process. What they
/// write is meant for them, and stays as long. This thread takes no signal meanwhile: the other process would
/// run its handler, on the same stack.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn run_beside(calls: *const Call) -> libc::pid_t {
    // clone3(2): no signal at its end, no stack of its own, as it needs none.
    let arguments: [u64; 8] = [libc::CLONE_VM as u64, 0, 0, 0, 0, 0, 0, 0];
    let answer: libc::c_long;
    // SAFETY: this process goes on behind the block with the registers that it names changed. The other one
    // stays in the loop, which reads the calls and touches no stack, until the call that ends it.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            "2:",
            "mov rax, [r12]",
            "mov rdi, [r12 + 8]",
            "mov rsi, [r12 + 16]",
            "mov rdx, [r12 + 24]",
            "mov r10, [r12 + 32]",
            "mov r8, [r12 + 40]",
            "syscall",
            "add r12, 48",
            "jmp 2b",
            "3:",
            inlateout("rax") libc::SYS_clone3 => answer,
            in("rdi") arguments.as_ptr(),
            in("rsi") size_of_val(&arguments),
            in("r12") calls,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer as libc::pid_t
}

/// On other processors there is no such process: nothing is done, and the answer is `-ENOSYS`.
///
/// # Safety
/// There is nothing to promise: the calls are not looked at.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn run_beside(_calls: *const Call) -> libc::pid_t {
    -libc::ENOSYS
}

/// Asks that this thread run soon after it is woken, and for a moment only, where the kernel divides time so
/// (Linux 6.12): it says that somebody has died, and those who are to know it may compute or look without a
/// pause. What it starts has time as others do.
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
/// The bit of a [`Robust`] word by which the kernel says that the thread that held it has ended.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// The bit of a [`Robust`] word that has the kernel wake a waiting thread when the thread that holds it ends.
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
