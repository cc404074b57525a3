//! A flood of strangers is bounded. In a program of its own, since it counts the descriptors of the whole
//! process.

mod common;

use common::{Process, until};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

#[test]
fn a_thousand_strangers_cost_a_bounded_number_of_descriptors() {
    common::allow_descriptors();
    let mut pair = [Process::open(0), Process::open(1)];
    let [left, right] = &mut pair;
    let lane = left.connect(right, 1);
    let port = right.tcp.addresses()[0].port();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut sent = 0;
    until("meeting", &mut pair, |pair| {
        sent += u32::from(sent == 0 && pair[0].post(lane, 0));
        pair[1].heard.count() == 1
    });
    let before = common::descriptors();
    // Each of ours costs a descriptor in this process too.
    let mut strangers = Vec::new();
    let mut most = 0;
    for number in 0..1000 {
        let mut stranger = TcpStream::connect(address).expect("the port is open");
        if number % 3 == 0 {
            stranger.write_all(b"WefT\x01\0").expect("six bytes");
        }
        strangers.push(stranger);
        for process in &mut pair {
            process.poll();
        }
        most = most.max(common::descriptors() - before - strangers.len());
    }
    assert!(most <= 64 + 8, "{most} descriptors are held for strangers");
    drop(strangers);
    until("a message after the flood", &mut pair, |pair| {
        sent += u32::from(sent == 1 && pair[0].post(lane, 1));
        pair[1].heard.numbers(0) == [0, 1]
    });
}
