//! The only file of this crate that touches memory by address: system calls that read from a [`Payload`] and
//! write into a [`UserMemory`], and the small program that a listening socket is given.
//!
//! Payload and user memory are claims that others may break at any time, so no slice is ever made of them;
//! the kernel gets the address and the length, as it would from C.

use std::os::fd::{AsRawFd, BorrowedFd};

use fabric::{Payload, UserMemory};
use rustix::io::Errno;

/// Sends `first`, then as much of `payload` as the socket takes, in one call. Returns the number of bytes
/// taken of both together.
#[inline]
pub(crate) fn send_both(socket: BorrowedFd<'_>, first: &[u8], payload: Payload<'_>) -> Result<usize, Errno> {
    let mut parts = [
        libc::iovec { iov_base: first.as_ptr().cast_mut().cast(), iov_len: first.len() },
        libc::iovec { iov_base: payload.start().cast_mut().cast(), iov_len: payload.bytes() },
    ];
    let message = libc::msghdr {
        msg_name: std::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: parts.as_mut_ptr(),
        msg_iovlen: parts.len(),
        msg_control: std::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    // SAFETY: the first part is a live slice, the second is allocated by the promise given to
    // `Payload::claim`; the kernel only reads both (the casts to `*mut` are for C's declaration), and keeps
    // neither after the call.
    outcome(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })
}

/// Sends as much of `payload` as the socket takes. Returns the number of bytes taken.
#[inline]
pub(crate) fn send(socket: BorrowedFd<'_>, payload: Payload<'_>) -> Result<usize, Errno> {
    let (start, bytes) = (payload.start().cast(), payload.bytes());
    // SAFETY: `start..start + bytes` is allocated by the promise given to `Payload::claim`; the kernel only
    // reads it, and not after the call.
    outcome(unsafe { libc::send(socket.as_raw_fd(), start, bytes, libc::MSG_NOSIGNAL) })
}

/// Receives at most `bytes` bytes into `room` from `offset` on, cut to the room there is. Returns the number
/// of bytes that came; 0 is the end of the stream, so there must be room.
#[inline]
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    room: &mut UserMemory,
    offset: usize,
    bytes: usize,
) -> Result<usize, Errno> {
    let part = room.part(offset, bytes);
    debug_assert!(part.bytes() > 0, "receiving into no room would look like the end of the stream");
    // SAFETY: `part` lies inside `room`, which is allocated and ours to write by the promise given to
    // `UserMemory::claim`; the kernel writes no more than `part.bytes()` bytes, and not after the call.
    outcome(unsafe { libc::recv(socket.as_raw_fd(), part.start().cast(), part.bytes(), 0) })
}

/// Tells the kernel to drop whatever comes to this listener from the source ports `first` and up, `count` of
/// them. An error where the kernel does not do it, also where it only says that it does.
pub(crate) fn bar_source_ports(listener: BorrowedFd<'_>, first: u16, count: u16) -> Result<(), Errno> {
    let step = |code: u32, jump: [u8; 2], value: u32| libc::sock_filter {
        code: code as u16,
        jt: jump[0],
        jf: jump[1],
        k: value,
    };
    // The packet begins with its tcp header, and that with the source port.
    let mut program = [
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, [0, 0], 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, [0, 2], u32::from(first)),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, [1, 0], u32::from(first) + u32::from(count)),
        step(libc::BPF_RET | libc::BPF_K, [0, 0], 0),
        step(libc::BPF_RET | libc::BPF_K, [0, 0], u32::MAX),
    ];
    let steps = program.len();
    let described = libc::sock_fprog { len: steps as u16, filter: program.as_mut_ptr() };
    set_option(listener, libc::SO_ATTACH_FILTER, &described)?;
    let mut kept: libc::socklen_t = 0;
    // SAFETY: with a length of 0 the kernel writes nothing but the number of steps it keeps, into `kept`,
    // which is a live local.
    let answer = unsafe {
        libc::getsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut kept,
        )
    };
    if answer == 0 && kept as usize == steps { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}

/// Ends what [`bar_source_ports`] began, for a connection that was let in; it would look at every packet.
pub(crate) fn stop_looking(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set_option(socket, libc::SO_DETACH_FILTER, &0i32)
}

fn set_option<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> Result<(), Errno> {
    let (start, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` is live, and so is the program that a `sock_fprog` names, in the only call that gives
    // one; the kernel only reads both, and not after the call.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, start, bytes) };
    outcome(answer as isize).map(|_| ())
}

/// The answer of a system call that counts bytes, or the reason for which it failed.
#[inline]
fn outcome(answer: isize) -> Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| {
        let reason = std::io::Error::last_os_error();
        Errno::from_io_error(&reason).unwrap_or(Errno::IO)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::Heap;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_parts_go_out_in_order() {
        let (left, mut right) = UnixStream::pair().expect("a pair of sockets");
        assert_eq!(send_both(left.as_fd(), b"first", Payload::from(&b" second"[..])), Ok(12));
        assert_eq!(send(left.as_fd(), Payload::from(&b"!"[..])), Ok(1));
        let mut came = [0; 13];
        right.read_exact(&mut came).expect("what was sent");
        assert_eq!(&came, b"first second!");
    }

    #[test]
    fn receiving_stays_inside_the_room() {
        let (mut left, right) = UnixStream::pair().expect("a pair of sockets");
        left.write_all(b"abcdefgh").expect("eight bytes");
        let room = Heap::new(6);
        assert_eq!(receive(right.as_fd(), &mut room.memory(), 2, 3), Ok(3));
        assert_eq!(receive(right.as_fd(), &mut room.memory(), 5, 99), Ok(1));
        assert_eq!(room.payload().to_vec(), b"\0\0abcd");
    }

    #[test]
    fn a_failed_call_names_its_reason() {
        let (left, right) = UnixStream::pair().expect("a pair of sockets");
        drop(right);
        assert_eq!(send(left.as_fd(), Payload::from(&b"x"[..])), Err(Errno::PIPE));
    }
}
