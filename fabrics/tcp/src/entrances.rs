//! Listening on chosen addresses only: a socket for each, all on one port. What the kernel does not listen
//! on, no stranger can knock at.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::socket::{listen_at, local_address};

/// Opens a listening socket at each of `addresses`, on the first port that is free at all of them. Returns
/// the sockets with that port.
///
/// With `ports` the search begins at `spread` steps into the range.
///
/// # Errors
/// The last reason for which a port could not be had; [`Errno::ADDRNOTAVAIL`] where there is no address.
pub(crate) fn listen_at_each(
    addresses: &[IpAddr],
    ports: Option<RangeInclusive<u16>>,
    spread: u32,
) -> Result<(Vec<OwnedFd>, u16), Errno> {
    let Some((first, others)) = addresses.split_first() else { return Err(Errno::ADDRNOTAVAIL) };
    let mut reason = Errno::ADDRINUSE;
    for port in candidates(ports, spread) {
        match listen_on_one_port(*first, others, port) {
            Err(Errno::ADDRINUSE | Errno::ACCESS) => reason = Errno::ADDRINUSE,
            outcome => return outcome,
        }
    }
    Err(reason)
}

/// The ports to be tried: those of the range, or, some times over, whichever the kernel chooses.
fn candidates(ports: Option<RangeInclusive<u16>>, spread: u32) -> Vec<u16> {
    let Some(ports) = ports else { return vec![0; CHOICES_MAX] };
    let mut all: Vec<u16> = ports.collect();
    let count = all.len().max(1);
    all.rotate_left(spread as usize % count);
    all
}

fn listen_on_one_port(first: IpAddr, others: &[IpAddr], port: u16) -> Result<(Vec<OwnedFd>, u16), Errno> {
    let listener = listen_at(SocketAddr::new(first, port))?;
    let port = local_address(&listener)?.port();
    let mut listeners = vec![listener];
    for other in others {
        listeners.push(listen_at(SocketAddr::new(*other, port))?);
    }
    Ok((listeners, port))
}

/// A port that the kernel chooses for one address is almost always free at the others.
const CHOICES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn all_share_a_port_and_nothing_else_is_listened_on() {
        let (listeners, port) =
            listen_at_each(&addresses(&["127.0.0.1", "127.0.0.5"]), None, 0).expect("a free port");
        assert_eq!(listeners.len(), 2);
        for open in ["127.0.0.1", "127.0.0.5"] {
            TcpStream::connect((open, port)).expect("a chosen address");
        }
        TcpStream::connect(("127.0.0.6", port)).expect_err("an address that was not chosen");
    }

    #[test]
    fn a_port_that_is_taken_at_one_address_is_passed_over() {
        let range = 22_000..=22_999;
        let taken = range.clone().find_map(|port| TcpListener::bind(("127.0.0.5", port)).ok());
        let taken_port =
            taken.as_ref().and_then(|taken| taken.local_addr().ok()).expect("a free port").port();
        let spread = u32::from(taken_port - range.start());
        let both = addresses(&["127.0.0.1", "127.0.0.5"]);
        let (_listeners, port) = listen_at_each(&both, Some(range), spread).expect("another port");
        assert_ne!(port, taken_port);
        let only = Some(taken_port..=taken_port);
        assert_eq!(listen_at_each(&both, only, 0).err(), Some(Errno::ADDRINUSE));
        assert_eq!(listen_at_each(&[], None, 0).err(), Some(Errno::ADDRNOTAVAIL));
    }
}
