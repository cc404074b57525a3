//! Whoever else knocks at the port: silence, garbage, hostile texts, thousands of connections. The job does
//! not notice.

mod common;

use common::{Process, until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Two processes with a connection, and the address at which strangers find the second.
fn job() -> ([Process; 2], tcp::Lane, SocketAddr) {
    let mut pair = [Process::open(0), Process::open(1)];
    let [left, right] = &mut pair;
    let lane = left.connect(right, 1);
    let port = right.tcp.addresses()[0].port();
    let mut is_sent = false;
    until("meeting", &mut pair, |pair| {
        is_sent = is_sent || pair[0].post(lane, 0);
        pair[1].heard.count() == 1
    });
    (pair, lane, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// The job goes on, and a third process can still join it.
fn assert_unharmed(pair: [Process; 2], lane: tcp::Lane) {
    let [mut left, right] = pair;
    assert!(left.post(lane, 1), "an open connection takes a small message");
    let mut third = Process::open(2);
    let to_right = third.connect(&right, 1);
    let mut all = [left, right, third];
    let mut is_sent = false;
    until("the third joins", &mut all, |all| {
        is_sent = is_sent || all[2].post(to_right, 5);
        all[1].heard.numbers(2) == [5] && all[1].heard.numbers(0) == [0, 1]
    });
    for process in &all {
        assert!(process.heard.lost.is_empty(), "{:?}", process.heard.lost);
    }
}

fn knock(at: SocketAddr) -> TcpStream {
    let stranger = TcpStream::connect(at).expect("the port is open");
    stranger.set_nonblocking(true).expect("a test in one thread must not block");
    stranger
}

/// Whether the other end has closed; the pair polls meanwhile.
fn is_closed(stranger: &mut TcpStream) -> bool {
    match stranger.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn garbage_is_shown_out_at_its_first_bytes() {
    let (mut pair, lane, address) = job();
    let texts: [&[u8]; 6] =
        [b"GET / HTTP/1.1\r\n\r\n", b"\0", &[0xff; 4096], b"SSH-2.0-x\r\n", b"WefX", b"WefT\x01\0\x09\0"];
    for text in texts {
        let mut stranger = knock(address);
        stranger.write_all(text).expect("a few bytes");
        until("garbage is shown out", &mut pair, |_| is_closed(&mut stranger));
    }
    assert_unharmed(pair, lane);
}

#[test]
fn another_version_is_told_ours() {
    let (mut pair, lane, address) = job();
    let mut stranger = knock(address);
    let mut hello = [0; 96];
    hello[..8].copy_from_slice(b"WefT\x63\0\x01\0");
    stranger.write_all(&hello).expect("a hello");
    let mut answer: Vec<u8> = Vec::new();
    until("the refusal", &mut pair, |_| {
        let mut chunk = [0; 64];
        match stranger.read(&mut chunk) {
            Ok(0) => return true,
            Ok(bytes) => answer.extend(&chunk[..bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        false
    });
    assert_eq!(&answer[..7], b"WefT\x01\0\x03", "ours is version 1, and this is a refusal");
    assert_unharmed(pair, lane);
}

#[test]
fn a_proof_without_the_secret_is_shown_out() {
    let (mut pair, lane, address) = job();
    let mut stranger = knock(address);
    let mut hello = [0; 96];
    hello[..8].copy_from_slice(b"WefT\x01\0\x01\0");
    hello[8..12].copy_from_slice(&7u32.to_le_bytes());
    hello[12..16].copy_from_slice(&1u32.to_le_bytes());
    stranger.write_all(&hello).expect("a hello");
    let mut answer: Vec<u8> = Vec::new();
    until("the answer", &mut pair, |_| {
        let mut chunk = [0; 64];
        answer.extend(stranger.read(&mut chunk).map_or(&chunk[..0], |bytes| &chunk[..bytes]));
        answer.len() == 56
    });
    let mut proof = [0; 40];
    proof[..8].copy_from_slice(b"WefT\x01\0\x04\0");
    // The best that can be done without the secret: send the acceptor's own proof back.
    proof[8..].copy_from_slice(&answer[24..]);
    stranger.write_all(&proof).expect("a proof");
    until("the false proof is shown out", &mut pair, |_| is_closed(&mut stranger));
    assert!(pair[1].heard.numbers(7).is_empty());
    assert_unharmed(pair, lane);
}

#[test]
fn the_silent_do_not_keep_others_out() {
    let (pair, lane, address) = job();
    let _silent: Vec<TcpStream> = (0..200).map(|_| knock(address)).collect();
    assert_unharmed(pair, lane);
}

#[test]
fn slow_texts_are_read_to_their_end() {
    // One byte at a time is slow and not wrong, so it may stay; it costs its place and nothing else.
    let (mut pair, lane, address) = job();
    let mut stranger = knock(address);
    for byte in b"WefT\x01\0\x01\0" {
        stranger.write_all(&[*byte]).expect("a byte");
        for _ in 0..50 {
            for process in &mut pair {
                process.poll();
            }
        }
        assert!(!is_closed(&mut stranger), "an honest beginning was shown out");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_unharmed(pair, lane);
}

#[test]
fn a_number_beyond_the_job_is_shown_out() {
    // It holds a card of the job and so can prove that it is no stranger, but the job has only two processes.
    let mut pair = [0, 1]
        .map(|number| Process::open_with(number, tcp::Settings { peers: 2, ..tcp::Settings::default() }));
    let mut third = Process::open(2);
    let [left, right] = &mut pair;
    let (lane, to_right) = (left.connect(right, 1), third.connect(right, 1));
    let [left, right] = pair;
    let mut all = [left, right, third];
    let mut sent = [false; 2];
    until("the third gives up", &mut all, |all| {
        sent[0] = sent[0] || all[0].post(lane, 0);
        sent[1] = sent[1] || all[2].post(to_right, 9);
        all[1].heard.count() == 1 && !all[2].heard.lost.is_empty()
    });
    assert_eq!(all[1].heard.numbers(0), [0]);
    assert!(all[1].heard.numbers(2).is_empty(), "a process that the job does not have was heard");
}
