//! Taking over a descriptor whose number stands in the environment. The only unsafe code of this crate.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::sockopt::socket_type;

/// Duplicates the inherited descriptor `number` if it is an open socket.
///
/// Both the duplicate and the inherited descriptor are then closed on exec, so that programs which this
/// process starts do not take part in the conversation. The inherited number stays open: owning it would be a
/// claim that nobody else in the process does, which a number from the environment cannot support.
pub(crate) fn socket(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not -1 (checked above). The borrow ends with this function and only system calls
    // that fail cleanly on a closed descriptor are made through it; the launcher's contract, stated by the
    // variable that carried the number, is that the descriptor belongs to this process's start-up and nobody
    // closes it meanwhile.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    socket_type(inherited)?;
    fcntl_setfd(inherited, FdFlags::CLOEXEC)?;
    fcntl_dupfd_cloexec(inherited, FIRST_ORDINARY_NUMBER)
}

/// Whether `number` is an open socket.
pub(crate) fn is_socket(number: RawFd) -> bool {
    if number < 0 {
        return false;
    }
    // SAFETY: the number is not -1, the borrow ends with this function, and the one system call made through
    // it fails cleanly on a closed descriptor.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    socket_type(inherited).is_ok()
}

/// The duplicate must not land on a closed standard stream.
const FIRST_ORDINARY_NUMBER: RawFd = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_is_taken_and_closed_on_exec() {
        let (end, _other) = UnixStream::pair().unwrap();
        fcntl_setfd(&end, FdFlags::empty()).unwrap();
        let taken = socket(end.as_raw_fd()).unwrap();
        assert_ne!(taken.as_raw_fd(), end.as_raw_fd());
        for descriptor in [&taken, &OwnedFd::from(end)] {
            assert!(is_socket(descriptor.as_raw_fd()));
            assert_eq!(rustix::io::fcntl_getfd(descriptor).unwrap(), FdFlags::CLOEXEC);
        }
    }

    #[test]
    fn other_numbers_are_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(socket(file.as_raw_fd()).unwrap_err(), Errno::NOTSOCK);
        assert!(![file.as_raw_fd(), -1, 1 << 30].into_iter().any(is_socket));
        assert_eq!(socket(-1).unwrap_err(), Errno::BADF);
        assert_eq!(socket(1 << 30).unwrap_err(), Errno::BADF);
    }
}
