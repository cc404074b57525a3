//! Small steps with sockets that several files take: listen, dial, look whether a dial got through, read a
//! text of known length. Every socket is non-blocking and closed on exec.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, sockopt};

use crate::memory;

/// Opens the one listening socket of a process, for IPv6 and IPv4 where there are both. Returns it with its
/// port.
///
/// With `ports` the search begins at `spread` steps into the range, so that the processes of one host do not
/// all try the same.
///
/// # Errors
/// The last reason for which a port could not be had.
pub(crate) fn listen(ports: Option<RangeInclusive<u16>>, spread: u32) -> Result<(OwnedFd, u16), Errno> {
    let ports = ports.unwrap_or(0..=0);
    let count = u32::from(*ports.end()).saturating_sub(u32::from(*ports.start())) + 1;
    let mut reason = Errno::ADDRINUSE;
    for step in 0..count {
        let port = u32::from(*ports.start()) + (spread % count + step) % count;
        match listen_on(port as u16) {
            Ok(listener) => {
                let port = local_port(&listener)?;
                return Ok((listener, port));
            }
            Err(Errno::ADDRINUSE | Errno::ACCESS) if step + 1 < count => reason = Errno::ADDRINUSE,
            Err(other) => return Err(other),
        }
    }
    Err(reason)
}

fn listen_on(port: u16) -> Result<OwnedFd, Errno> {
    let both = Ipv6Addr::UNSPECIFIED.into();
    match listen_at(SocketAddr::new(both, port)) {
        // A kernel without IPv6, or with IPv6 switched off.
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => {
            listen_at(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
        }
        outcome => outcome,
    }
}

/// Opens a listening socket at one address.
pub(crate) fn listen_at(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let listener = stream(&address)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&listener, false)?;
    }
    // Connections of an earlier job that still linger must not keep a port of a small range from the next.
    sockopt::set_socket_reuseaddr(&listener, address.port() != 0)?;
    rustix::net::bind(&listener, &address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Begins to connect, with the plain congestion control if the other end `is_same_machine`. The outcome is
/// asked for with [`is_connected`].
pub(crate) fn dial(to: SocketAddr, is_same_machine: bool) -> Result<OwnedFd, Errno> {
    let socket = stream(&to)?;
    prepare(&socket)?;
    if is_same_machine && Controls::pace(&socket) == Pace::Metered {
        let _ = sockopt::set_tcp_congestion(&socket, PLAIN_CONTROL);
    }
    connect(socket, to)
}

/// Begins to connect from a port of ours.
pub(crate) fn dial_from(port: u16, to: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = stream(&to)?;
    // Others may dial other addresses from the same port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let any: IpAddr = if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    rustix::net::bind(&socket, &SocketAddr::new(any, port))?;
    connect(socket, to)
}

fn connect(socket: OwnedFd, to: SocketAddr) -> Result<OwnedFd, Errno> {
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(reason) => Err(reason),
    }
}

/// Whether a dial got through; an error when it has failed.
pub(crate) fn is_connected(socket: &OwnedFd) -> Result<bool, Errno> {
    sockopt::socket_error(socket)??;
    match rustix::net::getpeername(socket) {
        Ok(Some(_)) => Ok(true),
        Ok(None) | Err(Errno::NOTCONN) => Ok(false),
        Err(reason) => Err(reason),
    }
}

/// Takes the next connection that waits at the listener.
pub(crate) fn accept(listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::accept_with(listener, flags)?;
    // An error means that nobody looked.
    let _ = memory::stop_looking(socket.as_fd());
    prepare(&socket)?;
    Ok(socket)
}

/// The other end's address, IPv4 shown as IPv4.
pub(crate) fn remote_address(socket: &OwnedFd) -> Option<SocketAddr> {
    let remote = rustix::net::getpeername(socket).ok()??;
    SocketAddr::try_from(remote).ok().map(plain)
}

/// This end's address, IPv4 shown as IPv4.
pub(crate) fn local_address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    let local = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    Ok(plain(local))
}

pub(crate) fn local_port(socket: &OwnedFd) -> Result<u16, Errno> {
    local_address(socket).map(|address| address.port())
}

fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(inner) => SocketAddr::new(inner.to_canonical(), address.port()),
        IpAddr::V4(_) => address,
    }
}

fn stream(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// Small messages go out at once.
fn prepare(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)
}

/// A host that has vanished without a word is noticed on an idle connection after that time: of three thirds,
/// behind the first of which it is asked, and again after the second. The kernel counts whole seconds.
pub(crate) fn probe(socket: &OwnedFd, timeout: Duration) -> Result<(), Errno> {
    let third = Duration::from_secs((timeout.as_secs() / 3).max(1));
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, third)?;
    sockopt::set_tcp_keepintvl(socket, third)?;
    sockopt::set_tcp_keepcnt(socket, 2)
}

/// How the kernel sends what a connection is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// As soon as the other end has room.
    Unmetered,
    /// At a rate that the congestion control works out from earlier answers. Large calls confuse it: between
    /// two processes of one machine it settles at a third of what the machine can do.
    Metered,
}

/// Which congestion control a connection gets. Between machines that is the administrator's choice. Within
/// one machine there is no network whose congestion must be found out, and a control that meters gives way to
/// the plain one, which every kernel has and lets everybody choose.
///
/// It has to be chosen before the connection is made: a metering control leaves its mark on a socket for
/// good.
pub(crate) struct Controls {
    /// The administrator's choice.
    usual: String,
}

impl Controls {
    /// Reads the administrator's choice. Whoever comes in at one of the listeners gets the plain one until it
    /// is known where it comes from.
    pub(crate) fn of(listeners: &[OwnedFd]) -> Controls {
        let usual = listeners.first().and_then(|one| sockopt::tcp_congestion(one).ok());
        let controls = Controls { usual: usual.unwrap_or_default() };
        for listener in listeners {
            controls.choose(listener, true);
        }
        controls
    }

    /// Gives the socket what it should have, and says how the kernel will send.
    pub(crate) fn choose(&self, socket: &OwnedFd, is_same_machine: bool) -> Pace {
        if !is_metering(&self.usual) {
            return Pace::Unmetered;
        }
        let wanted = if is_same_machine { PLAIN_CONTROL } else { &self.usual };
        // Refused is fine: what the socket has instead decides.
        let _ = sockopt::set_tcp_congestion(socket, wanted);
        Controls::pace(socket)
    }

    /// How the kernel will send as the socket is.
    pub(crate) fn pace(socket: &OwnedFd) -> Pace {
        match sockopt::tcp_congestion(socket) {
            Ok(name) if !is_metering(&name) => Pace::Unmetered,
            _ => Pace::Metered,
        }
    }
}

fn is_metering(control: &str) -> bool {
    control.starts_with("bbr")
}

/// A text of `N` bytes on its way in; never reads a byte beyond it.
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

/// How far a text has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    Whole,
    Part,
    /// The other end closed, or the connection broke.
    Ended(Option<Errno>),
}

impl<const N: usize> Text<N> {
    pub(crate) fn new() -> Text<N> {
        Text { bytes: [0; N], have: 0 }
    }

    /// Reads what has come of the text.
    pub(crate) fn read(&mut self, socket: &OwnedFd) -> Reading {
        while self.have < N {
            match rustix::net::recv(socket, &mut self.bytes[self.have..], RecvFlags::empty()) {
                Ok((0, _)) => return Reading::Ended(None),
                Ok((bytes, _)) => self.have += bytes,
                Err(Errno::AGAIN) => return Reading::Part,
                Err(Errno::INTR) => {}
                Err(reason) => return Reading::Ended(Some(reason)),
            }
        }
        Reading::Whole
    }

    /// What has come so far.
    pub(crate) fn so_far(&self) -> &[u8] {
        &self.bytes[..self.have]
    }

    /// All of it; only meaningful after [`Reading::Whole`].
    pub(crate) fn whole(&self) -> &[u8; N] {
        debug_assert_eq!(self.have, N, "a text was used before it was whole");
        &self.bytes
    }
}

/// Sends a short text at once. A fresh connection takes a hundred bytes whole; one that does not is broken.
pub(crate) fn send_text(socket: &OwnedFd, text: &[u8]) -> Result<(), Errno> {
    let sent = rustix::net::send(socket, text, rustix::net::SendFlags::NOSIGNAL)?;
    if sent == text.len() { Ok(()) } else { Err(Errno::NOBUFS) }
}

/// Every kernel has it, and lets everybody choose it.
const PLAIN_CONTROL: &str = "reno";
/// The kernel cuts it to its own limit (net.core.somaxconn). Many processes may dial one that is computing.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_range_is_searched_to_its_last_free_port() {
        let (first, port) = listen(Some(21_000..=21_999), 500).expect("a free port among a thousand");
        let range = port..=port;
        assert_eq!(listen(Some(range.clone()), 5).map(|(_, port)| port), Err(Errno::ADDRINUSE));
        drop(first);
        let (_again, same) = listen(Some(range), 5).expect("the port is free again");
        assert_eq!(same, port);
    }

    #[test]
    fn a_dial_to_nobody_is_refused() {
        // Taken, so that no other test gets it; and not listened on.
        let held = stream(&SocketAddr::from(([127, 0, 0, 1], 0))).expect("a socket");
        rustix::net::bind(&held, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("any port");
        let nobody = local_address(&held).expect("its address");
        let outcome = dial(nobody, true).and_then(|socket| is_connected(&socket));
        assert_eq!(outcome, Err(Errno::CONNREFUSED));
    }

    #[test]
    fn both_families_reach_the_listener() {
        let (listener, port) = listen(None, 0).expect("any port");
        let dialled = dial(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), true).expect("a dial");
        assert_eq!(is_connected(&dialled), Ok(true), "the loopback connects at once");
        let accepted = accept(&listener).expect("a connection");
        let remote = remote_address(&accepted).expect("an address");
        assert_eq!(remote, local_address(&dialled).expect("an address"));
        assert!(remote.is_ipv4(), "IPv4 is shown as IPv4: {remote}");
    }

    #[test]
    fn a_metering_control_is_for_other_machines() {
        let control = |socket: &OwnedFd| sockopt::tcp_congestion(socket).expect("every socket has one");
        let (listener, port) = listen(None, 0).expect("any port");
        // Not every kernel has a control that meters, and not everybody may choose it.
        let is_metered = sockopt::set_tcp_congestion(&listener, "bbr").is_ok();
        let usual = control(&listener);
        let listener = [listener];
        let controls = Controls::of(&listener);
        let [listener] = listener;
        let dialled = dial(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), true).expect("a dial");
        let accepted = accept(&listener).expect("a connection");
        for socket in [&dialled, &accepted] {
            assert_eq!(Controls::pace(socket), Pace::Unmetered, "{}", control(socket));
        }
        let expected = if is_metered { Pace::Metered } else { Pace::Unmetered };
        assert_eq!(controls.choose(&accepted, false), expected, "the administrator's choice is {usual}");
        assert_eq!(control(&accepted), usual);
        assert_eq!(controls.choose(&accepted, true), Pace::Unmetered);
    }

    #[test]
    fn a_text_takes_no_byte_too_many() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let mut writer = TcpStream::connect(address).expect("a connection");
        let (reader, _) = listener.accept().expect("the other end");
        reader.set_nonblocking(true).expect("non-blocking");
        let reader = OwnedFd::from(reader);
        let mut text = Text::<4>::new();
        assert_eq!(text.read(&reader), Reading::Part);
        writer.write_all(b"abcdefgh").expect("eight bytes");
        assert_eq!(text.read(&reader), Reading::Whole);
        assert_eq!(text.whole(), b"abcd");
        let mut rest = Text::<5>::new();
        drop(writer);
        assert_eq!(rest.read(&reader), Reading::Ended(None));
        assert_eq!(rest.so_far(), b"efgh");
    }
}
