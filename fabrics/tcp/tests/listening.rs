//! What the kernel itself says of the listening sockets: on the chosen interfaces only, one port, and gone
//! with the fabric. In a program of its own, since it looks at all sockets of the process.

mod common;

use std::fs;

use common::{Process, until};
use tcp::{Settings, Tcp};

/// The local addresses of this process' listening sockets, as the kernel writes them: address and port in
/// hex.
fn listening() -> Vec<String> {
    let sockets: Vec<String> = common::open_descriptors()
        .iter()
        .filter_map(|number| fs::read_link(format!("/proc/self/fd/{number}")).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string()))
        .collect();
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/self/net/{table}")));
    let mut found = Vec::new();
    for line in tables.iter().flatten().flat_map(|table| table.lines().skip(1)) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields[3] == LISTENING && sockets.iter().any(|inode| inode == fields[9]) {
            found.push(fields[1].to_string());
        }
    }
    found.sort();
    found
}

/// Whether such an address is one of the loopback: 127.x.x.x, or ::1, with its words in the order of the
/// machine.
fn is_loopback(address: &str) -> bool {
    let address = address.split(':').next().unwrap_or_default();
    let bytes: Vec<u8> = (0..address.len() / 8)
        .filter_map(|word| u32::from_str_radix(&address[word * 8..word * 8 + 8], 16).ok())
        .flat_map(u32::to_ne_bytes)
        .collect();
    match <[u8; 16]>::try_from(&bytes[..]) {
        Ok(long) => std::net::Ipv6Addr::from(long).to_canonical().is_loopback(),
        Err(_) => bytes.first() == Some(&127),
    }
}

#[test]
fn only_chosen_interfaces_are_listened_on() {
    assert_eq!(listening(), [""; 0]);
    // An interface that nobody has leaves the loopback, which always counts.
    let chosen = Settings { interfaces: Some(vec!["nobody0".into()]), ..Settings::default() };
    let mut pair = [Process::open_with(0, chosen.clone()), Process::open_with(1, chosen)];
    let found = listening();
    assert_eq!(found.len(), 2, "one address each: {found:?}");
    assert!(found.iter().all(|address| is_loopback(address)), "{found:?}");
    let [left, right] = &mut pair;
    let lane = left.connect(right, 1);
    let mut is_sent = false;
    until("a message over the chosen interface", &mut pair, |pair| {
        is_sent = is_sent || pair[0].post(lane, 5);
        pair[1].heard.numbers(0) == [5]
    });
    drop(pair);
    assert_eq!(listening(), [""; 0], "a fabric that is gone still listens");

    let everywhere = Tcp::open(fabric::Peer(0), Settings::default()).expect("a fabric opens");
    let found = listening();
    assert!(found.len() == 1 && !is_loopback(&found[0]), "without a choice, one socket for all: {found:?}");
    drop(everywhere);
}

/// The kernel's number for that state of a socket.
const LISTENING: &str = "0A";
