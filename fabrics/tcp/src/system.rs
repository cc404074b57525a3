//! A call of the system that no library offers.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// How long the other host has acknowledged nothing, though this one has sent again what it had sent, or asked again for room; none
/// where it answers.
pub(crate) fn unanswered_for(socket: &OwnedFd) -> Option<Duration> {
    // SAFETY: an all-zero `tcp_info` is a valid value of that plain C structure.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as it is borrowed; the kernel writes at most `bytes` bytes to `info`, which is as
    // long, and their number to `bytes`.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    let is_unanswered = asked == 0 && (info.tcpi_retransmits > 0 || info.tcpi_probes > 0);
    is_unanswered.then(|| Duration::from_millis(info.tcpi_last_ack_recv.into()))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_host_whose_process_reads_nothing_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        while here.write(&[7; 10_000]).is_ok() {}
        let socket = OwnedFd::from(here);
        // Longer than it takes to send again, and the kernel asks whether there is room.
        let since = std::time::Instant::now();
        while since.elapsed() < Duration::from_millis(600) {
            assert_eq!(unanswered_for(&socket), None);
            std::thread::yield_now();
        }
        drop(there);
    }
}
