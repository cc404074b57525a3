//! Hosts that the command line names: in lists, in files, with the number of ranks for each; and which of
//! them is this one.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use crate::options::foreign::HostsIn;

/// A host, and how many ranks it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// How many, where that is said.
    pub slots: Option<u32>,
}

/// The hosts that are named, each once and in order; what is said of one several times adds up.
///
/// # Errors
/// A file that cannot be read, or a line that cannot be understood, with a remedy.
pub fn named(hosts: &[(HostsIn, String)]) -> Result<Vec<Host>, String> {
    let mut all = Vec::new();
    for (kind, text) in hosts {
        match kind {
            HostsIn::List => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                for name in names {
                    add(&mut all, host(name).ok_or_else(|| strange(text, name))?);
                }
            }
            HostsIn::File => {
                let lines = std::fs::read_to_string(text).map_err(|error| {
                    format!("the file of hosts {text}: {error}\n  name a file that can be read")
                })?;
                of_lines(&lines, text, &mut all)?;
            }
        }
    }
    Ok(all)
}

/// The hosts of a file: `NAME`, `NAME:N` or `NAME slots=N`, one a line.
fn of_lines(lines: &str, file: &str, all: &mut Vec<Host>) -> Result<(), String> {
    for line in lines.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut found = host(name).ok_or_else(|| strange(file, line))?;
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if ["slots", "cpu", "count"].contains(&key) {
                found.slots = Some(value.parse().map_err(|_| strange(file, line))?);
            }
        }
        add(all, found);
    }
    Ok(())
}

/// A host that is named again has as many slots more.
fn add(all: &mut Vec<Host>, host: Host) {
    match all.iter_mut().find(|known| known.name == host.name) {
        Some(known) => known.slots = Some(known.slots.unwrap_or(1) + host.slots.unwrap_or(1)),
        None => all.push(host),
    }
}

/// Reads `NAME`, `NAME:N`, `USER@NAME`; an address of IPv6 with a number stands in brackets.
fn host(text: &str) -> Option<Host> {
    let whole = |name: &str| Host { name: name.to_owned(), slots: None };
    if text.parse::<IpAddr>().is_ok() {
        return Some(whole(text));
    }
    let (name, slots) = match text.rsplit_once(':') {
        Some((name, slots)) => (name, Some(slots.parse().ok().filter(|slots| *slots > 0)?)),
        None => (text, None),
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    (!name.is_empty() && !name.starts_with('-')).then(|| Host { slots, ..whole(name) })
}

fn strange(of: &str, text: &str) -> String {
    format!("hosts: `{text}` of {of} is no host\n  write NAME, NAME:N or, in a file, NAME slots=N")
}

/// How many ranks the hosts are to have together, where that is said of any.
pub fn slots(hosts: &[Host]) -> Option<u32> {
    hosts
        .iter()
        .any(|host| host.slots.is_some())
        .then(|| hosts.iter().map(|host| host.slots.unwrap_or(1)).sum())
}

/// Whether that host is this one: by its name, or by an address that this one has.
pub fn is_here(name: &str, own: &str) -> bool {
    let name = name.rsplit_once('@').map_or(name, |(_, name)| name);
    let short = |name: &str| name.split('.').next().map(str::to_owned);
    let is_own = name == own || (short(name) == short(own) && (name.contains('.') != own.contains('.')));
    if name == "localhost" || (is_own && name.parse::<IpAddr>().is_err()) {
        return true;
    }
    // Only an own address can be listened on.
    let addresses = (name, 0).to_socket_addrs();
    addresses.is_ok_and(|mut addresses| addresses.any(|address| UdpSocket::bind(address).is_ok()))
}

/// The name of this host.
pub fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(hosts: &[Host]) -> Vec<(&str, Option<u32>)> {
        hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect()
    }

    #[test]
    fn lists_and_files_of_any_habit_are_read() {
        let list = [(HostsIn::List, "a,b:2,me@c, d,[fe80::1]:3,::1".to_owned())];
        let expected =
            [("a", None), ("b", Some(2)), ("me@c", None), ("d", None), ("fe80::1", Some(3)), ("::1", None)];
        assert_eq!(all(&named(&list).unwrap()), expected);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, "# all\na slots=4 max_slots=8\nb:2 # here\n\nc\nd user=me\nc\nc\n").unwrap();
        let name = file.to_str().unwrap().to_owned();
        let hosts = named(&[(HostsIn::File, name), (HostsIn::List, "d".to_owned())]).unwrap();
        assert_eq!(all(&hosts), [("a", Some(4)), ("b", Some(2)), ("c", Some(3)), ("d", Some(2))]);
        assert_eq!(slots(&hosts), Some(11));
        assert_eq!(slots(&hosts[..0]), None);
        for wrong in ["a:0", "a:x", "-n", ":3"] {
            assert!(
                named(&[(HostsIn::List, wrong.to_owned())]).unwrap_err().contains("NAME slots=N"),
                "{wrong}"
            );
        }
        let missing = named(&[(HostsIn::File, "/no/such".to_owned())]).unwrap_err();
        assert!(missing.contains("/no/such: No such file"), "{missing}");
    }

    #[test]
    fn this_host_is_known_by_its_names_and_addresses() {
        for name in
            ["localhost", "127.0.0.1", "127.1.2.3", "::1", "me@localhost", "node7", "node7.example.org"]
        {
            assert!(is_here(name, "node7") || name == "::1", "{name}");
        }
        assert!(is_here("node7", "node7.example.org") && is_here(&own_name(), &own_name()));
        for name in ["node70", "192.0.2.1", "node7.example.org"] {
            assert!(!is_here(name, "node7.example.com"), "{name}");
        }
    }
}
