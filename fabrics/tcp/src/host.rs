//! The host this process is on: its name, what makes it the same host for two processes, and its addresses.
//!
//! Addresses come from the kernel's route socket, which answers in every network namespace and needs no
//! library.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use fabric::HostIdentity;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send};

/// This host, as far as reaching others matters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) identity: HostIdentity,
    /// Every address of the host with the length of its network's prefix in bits.
    pub(crate) networks: Vec<(IpAddr, u8)>,
}

impl Host {
    /// Reads all of it from the kernel. With `interfaces`, only addresses of those (and of the loopback)
    /// count.
    pub(crate) fn read(interfaces: Option<&[String]>) -> Result<Host, Errno> {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let networks = read_addresses()?
            .into_iter()
            .filter(|found| found.address.is_loopback() || is_wanted(found, interfaces))
            .map(|found| (found.address, found.prefix_bits))
            .collect();
        Ok(Host { name, identity: HostIdentity::here(), networks })
    }

    /// What others may dial: one loopback address, and all others that are good beyond one link.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let all = || self.networks.iter().map(|(address, _)| *address);
        let loopback = all().filter(|address| address.is_loopback()).min();
        loopback.into_iter().chain(all().filter(|address| !address.is_loopback())).collect()
    }

    /// Whether `address` lies in a network that this host is on.
    pub(crate) fn shares_network(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|(own, prefix_bits)| is_in_network(address, *own, *prefix_bits))
    }
}

fn is_wanted(found: &Found, interfaces: Option<&[String]>) -> bool {
    interfaces.is_none_or(|wanted| wanted.contains(&found.interface))
}

fn is_in_network(address: IpAddr, own: IpAddr, prefix_bits: u8) -> bool {
    let equal_bits = match (address, own) {
        (IpAddr::V4(address), IpAddr::V4(own)) => (address.to_bits() ^ own.to_bits()).leading_zeros(),
        (IpAddr::V6(address), IpAddr::V6(own)) => (address.to_bits() ^ own.to_bits()).leading_zeros(),
        _ => return false,
    };
    equal_bits >= u32::from(prefix_bits)
}

/// One address as the kernel lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    address: IpAddr,
    prefix_bits: u8,
    interface: String,
}

/// Asks the kernel for every address of this network namespace.
fn read_addresses() -> Result<Vec<Found>, Errno> {
    let route = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // the route protocol is number 0, the default
    )?;
    send(&route, &request(), SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; REPLY_BYTES_MAX];
    loop {
        let (bytes, _) = recv(&route, &mut buffer[..], RecvFlags::empty())?;
        for entry in messages(&buffer[..bytes.min(REPLY_BYTES_MAX)]) {
            match entry {
                Entry::Address(entry) => found.extend(named(&route, entry)),
                Entry::End => return Ok(found),
                Entry::Refused => return Err(Errno::OPNOTSUPP),
                Entry::Other => {}
            }
        }
    }
}

/// "All addresses, please": a message header and the fixed part of an address message, all in host order.
fn request() -> [u8; 24] {
    let mut request = [0; 24];
    request[..4].copy_from_slice(&24u32.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETADDR.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    request
}

/// An address of this host as the kernel lists it: its interface has no name yet.
#[derive(PartialEq, Eq, Debug)]
struct AddressEntry {
    address: IpAddr,
    /// How many bits of the address name its network.
    prefix_bits: u8,
    /// The index of its interface.
    interface: u32,
}

/// Looks up the name of the interface; `None` where there is none any more.
fn named(route: &OwnedFd, entry: AddressEntry) -> Option<Found> {
    let AddressEntry { address, prefix_bits, interface: index } = entry;
    let interface = netdevice::index_to_name(route.as_fd(), index).ok()?;
    Some(Found { address, prefix_bits, interface })
}

/// One message of the kernel's reply.
#[derive(PartialEq, Eq, Debug)]
enum Entry {
    Address(AddressEntry),
    End,
    Refused,
    Other,
}

/// Splits a reply into its messages; stops at the first that does not fit.
fn messages(mut reply: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some((head, _)) = reply.split_first_chunk::<MESSAGE_HEAD_BYTES>() {
        let bytes = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(body) = reply.get(MESSAGE_HEAD_BYTES..bytes) else { break };
        entries.push(match u16::from_ne_bytes([head[4], head[5]]) {
            MESSAGE_DONE => Entry::End,
            MESSAGE_ERROR => Entry::Refused,
            RTM_NEWADDR => address_entry(body).map_or(Entry::Other, Entry::Address),
            _ => Entry::Other,
        });
        reply = reply.get(bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    entries
}

/// Reads one address message; `None` where the address is not good beyond its link, or not yet good at all.
fn address_entry(body: &[u8]) -> Option<AddressEntry> {
    let (fixed, mut rest) = body.split_first_chunk::<8>()?;
    let [_, prefix_bits, flags, scope, ..] = *fixed;
    if scope == SCOPE_LINK || flags & (FLAG_TENTATIVE | FLAG_DUPLICATE) != 0 {
        return None;
    }
    let mut found = None;
    while let Some((head, _)) = rest.split_first_chunk::<4>() {
        let bytes = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = rest.get(4..bytes)?;
        match u16::from_ne_bytes([head[2], head[3]]) {
            // On a point-to-point link this is the other end; then ours follows as the local one.
            ATTRIBUTE_ADDRESS => found = found.or(address_of(value)),
            ATTRIBUTE_LOCAL => found = address_of(value),
            _ => {}
        }
        rest = rest.get(bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    let interface = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    found.map(|address| AddressEntry { address, prefix_bits, interface })
}

fn address_of(value: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into())
}

/// ```text
/// message    0 bytes u32  4 type u16  6 flags u16  8 sequence u32  12 port u32  16 body
/// body       0 family u8  1 prefix bits u8  2 flags u8  3 scope u8  4 interface u32  8 attributes
/// attribute  0 bytes u16 (with these four)  2 type u16  4 value, padded to 4
/// ```
/// All in host order (rtnetlink(7)).
const MESSAGE_HEAD_BYTES: usize = 16;
const MESSAGE_ERROR: u16 = 2;
const MESSAGE_DONE: u16 = 3;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const REQUEST_DUMP: u16 = 0x301;
const ATTRIBUTE_ADDRESS: u16 = 1;
const ATTRIBUTE_LOCAL: u16 = 2;
const SCOPE_LINK: u8 = 253;
const FLAG_DUPLICATE: u8 = 0x08;
const FLAG_TENTATIVE: u8 = 0x40;
/// The kernel cuts its reply into chunks no larger than this.
const REPLY_BYTES_MAX: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn this_host_has_a_loopback_and_a_name() {
        let here = Host::read(None).expect("the kernel lists its addresses");
        assert!(here.addresses()[0].is_loopback(), "{here:?}");
        assert!(!here.name.is_empty());
        assert_eq!(Host::read(None).expect("a second time"), here, "the same host twice");
    }

    #[test]
    fn a_namespace_of_its_own_is_the_same_machine_and_another_loopback() {
        let here = HostIdentity([1; 16]);
        let mut container = here;
        container.0[15] = 9;
        assert!(here.shares_machine(container) && !here.shares_loopback(container));
        let mut elsewhere = container;
        elsewhere.0[0] = 9;
        assert!(!here.shares_machine(elsewhere));
    }

    #[test]
    fn a_filter_leaves_the_loopback() {
        let nothing = Host::read(Some(&["no-such-interface".to_string()])).expect("the addresses");
        assert!(nothing.networks.iter().all(|(address, _)| address.is_loopback()), "{nothing:?}");
        assert_eq!(nothing.addresses().len(), 1);
    }

    #[test]
    fn networks_are_compared_by_their_prefix() {
        assert!(is_in_network(address("10.1.2.3"), address("10.1.9.9"), 16));
        assert!(!is_in_network(address("10.1.2.3"), address("10.1.9.9"), 24));
        assert!(is_in_network(address("fd00::1"), address("fd00::2"), 64));
        assert!(!is_in_network(address("fd00::1"), address("fd00::2"), 128));
        assert!(!is_in_network(address("10.1.2.3"), address("fd00::2"), 0));
    }

    #[test]
    fn local_counts_more_than_the_other_end() {
        let mut body = vec![2, 32, 0, 0, 7, 0, 0, 0];
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        for (kind, last) in [(ATTRIBUTE_ADDRESS, 1), (ATTRIBUTE_LOCAL, 2)] {
            body.extend(8u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend([10, 0, 0, last]);
        }
        assert_eq!(
            address_entry(&body),
            Some(AddressEntry { address: address("10.0.0.2"), prefix_bits: 32, interface: 7 })
        );
        body[3] = SCOPE_LINK;
        assert_eq!(address_entry(&body), None);
    }

    proptest! {
        #[test]
        fn any_reply_is_answered(reply in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u16..30) {
            let mut reply = reply;
            if reply.len() >= MESSAGE_HEAD_BYTES {
                let bytes = reply.len() as u32;
                reply[..4].copy_from_slice(&bytes.to_ne_bytes());
                reply[4..6].copy_from_slice(&kind.to_ne_bytes());
                prop_assert_eq!(messages(&reply).len(), 1);
            } else {
                prop_assert!(messages(&reply).is_empty());
            }
        }
    }
}
