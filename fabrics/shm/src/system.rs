//! Calls of the system that no library offers as they are needed here.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

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
