//! A call of the system that no library offers.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// What a host has not answered on a connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct Unanswered {
    /// How often this host has sent again what it had sent, or asked again for room, without an answer since.
    pub(crate) times: u32,
    /// The age of the last answer.
    pub(crate) last: Duration,
}

/// What the system knows of that; nothing where it does not say.
pub(crate) fn unanswered(socket: &OwnedFd) -> Unanswered {
    // SAFETY: an all-zero `tcp_info` is a valid value of that plain C structure.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as it is borrowed; the kernel writes at most `bytes` bytes to
    // `info`, which is as long, and their number to `bytes`.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    if asked != 0 {
        return Unanswered::default();
    }
    Unanswered {
        times: u32::from(info.tcpi_retransmits).max(info.tcpi_probes.into()),
        last: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;
    use crate::tcp::silence::{Silence, TIMES_MIN};

    /// Its kernel answers each question for room, so that now and then there is one question without an
    /// answer, and not two.
    #[test]
    fn a_host_whose_process_reads_nothing_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        while here.write(&[7; 10_000]).is_ok() {}
        let socket = OwnedFd::from(here);
        let mut silence = Silence::default();
        // Longer than it takes to send again, and the kernel asks whether there is room.
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(600) {
            let found = unanswered(&socket);
            assert!(found.times < TIMES_MIN, "{} times", found.times);
            assert_eq!(silence.longer_than(Duration::from_millis(1), Instant::now(), found), None);
            std::thread::yield_now();
        }
        drop(there);
    }
}
