//! The suite of every fabric, and what only this one can get wrong inside.

use super::*;
use fabric::conformance::Pair;
use fabric::{Heap, UserMemory};

fabric::conformance!(Tcp);

impl Pair for Tcp {
    type Fabric = Tcp;

    /// Two ends that have met, so that the suite's first message goes straight through. How they meet is
    /// tested apart.
    fn pair() -> (Tcp, Tcp) {
        let (mut left, mut right) = (open(0), open(1));
        left.connect(Peer(1), &right.address()).expect("a lane");
        until("the pair meets", || {
            left.poll(&mut Deaf, 1);
            right.poll(&mut Deaf, 1);
            !left.open.is_empty() && !right.open.is_empty()
        });
        (left, right)
    }
}

/// A sink for ends that only meet.
struct Deaf;

impl Sink for Deaf {
    fn message(&mut self, from: Peer, header: &Header, _: Payload<'_>) {
        panic!("{from:?} sent {header:?} to one that only meets");
    }
    fn arriving(&mut self, from: Peer, header: &Header, _: usize) -> UserMemory {
        panic!("{from:?} sends {header:?} to one that only meets");
    }
    fn landed(&mut self, from: Peer) {
        panic!("something from {from:?} landed");
    }
    fn lost(&mut self, peer: Peer, error: FabricError) {
        panic!("lost {peer:?}: {error}");
    }
}

/// Counts what comes.
#[derive(Default)]
struct Counting {
    messages: usize,
    bytes: usize,
    lost: Vec<(Peer, FabricError)>,
}

impl Sink for Counting {
    fn message(&mut self, _: Peer, _: &Header, payload: Payload<'_>) {
        self.messages += 1;
        self.bytes += payload.bytes();
    }
    fn arriving(&mut self, _: Peer, _: &Header, bytes: usize) -> UserMemory {
        self.bytes += bytes;
        Heap::new(bytes).memory()
    }
    fn landed(&mut self, _: Peer) {
        self.messages += 1;
    }
    fn lost(&mut self, peer: Peer, error: FabricError) {
        self.lost.push((peer, error));
    }
}

fn open(number: u32) -> Tcp {
    Tcp::open(Peer(number), Settings::default()).expect("a fabric opens")
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} hangs");
    }
}

/// Fills the socket with messages of 1000 bytes; returns how many went in whole and how far the last came.
fn fill(tcp: &mut Tcp, data: &[u8]) -> (usize, Posted) {
    for count in 0.. {
        match tcp.post(Lane(0), &Header::default(), Payload::from(data)) {
            Posted::Sent => {}
            other => return (count, other),
        }
    }
    unreachable!("a socket took messages without end")
}

/// Goes on with a message until it is whole.
fn finish(tcp: &mut Tcp, data: &[u8], posted: Posted, mut meanwhile: impl FnMut()) -> usize {
    let Posted::Partly(mut taken) = posted else { return 0 };
    until("the rest of a message", || {
        meanwhile();
        match tcp.resume(Lane(0), Payload::from(&data[taken..])) {
            Posted::Sent => return true,
            Posted::Partly(bytes) => taken += bytes,
            Posted::Busy => {}
        }
        false
    });
    1
}

#[test]
fn a_full_socket_is_watched_only_while_somebody_sleeps() {
    let (mut left, mut right) = Tcp::pair();
    let data = [7; 1000];
    let bell = left.bell();
    let (whole, posted) = fill(&mut left, &data);
    assert!(left.links[0].is_listed && left.links[0].watched.is_none(), "nobody sleeps yet");
    fabric::Bell::arm(&bell);
    assert_eq!(left.poll(&mut Deaf, 16), 0);
    assert_eq!(left.links[0].watched, Some(Interest::Both), "somebody is about to sleep on a full socket");
    fabric::Bell::disarm(&bell);
    let mut heard = Counting::default();
    let whole = whole
        + finish(&mut left, &data, posted, || {
            right.poll(&mut heard, 16);
        });
    until("everything arrives", || {
        left.poll(&mut Deaf, 16);
        right.poll(&mut heard, 16);
        heard.messages >= whole
    });
    assert_eq!((heard.messages, heard.bytes), (whole, whole * data.len()));
    fabric::Bell::arm(&bell);
    left.poll(&mut Deaf, 16);
    assert_eq!(left.links[0].watched, Some(Interest::Read), "a socket with room is not watched for it");
    fabric::Bell::disarm(&bell);
    for _ in 0..watching::POLLER_TURNS {
        left.poll(&mut Deaf, 16);
    }
    assert_eq!(left.links[0].watched, None, "nobody sleeps, and one link is read directly");
}

/// The one open link of a fabric.
fn only_link(tcp: &Tcp) -> &Open {
    match &tcp.links[0].state {
        State::Open(open) => open,
        _ => panic!("the pair has met"),
    }
}

#[test]
fn a_small_message_is_one_call_on_either_side() {
    let (mut left, mut right) = Tcp::pair();
    right.connect(Peer(0), &left.address()).expect("the lane there is");
    let mut heard = Counting::default();
    let before = [&left, &right].map(|tcp| only_link(tcp).calls.get());
    for round in 1..=20 {
        assert_eq!(left.post(Lane(0), &Header::default(), Payload::from(&[7; 8][..])), Posted::Sent);
        // Over the loopback it is there as soon as it is sent.
        assert_eq!(right.poll(&mut heard, 16), 1);
        assert_eq!(right.post(Lane(0), &Header::default(), Payload::from(&[7; 8][..])), Posted::Sent);
        assert_eq!(left.poll(&mut heard, 16), 1);
        let calls = [&left, &right].map(|tcp| only_link(tcp).calls.get());
        assert_eq!(calls, before.map(|before| before + 2 * round), "one to send and one to receive");
    }
}

#[test]
fn many_small_messages_of_one_turn_are_gathered_and_none_is_kept() {
    let (mut left, mut right) = Tcp::pair();
    let is_gathering = |tcp: &Tcp| {
        let open = only_link(tcp);
        let is_delayed = !rustix::net::sockopt::tcp_nodelay(&open.socket).expect("an option");
        assert_eq!(is_delayed, open.is_gathering());
        is_delayed
    };
    let post = |tcp: &mut Tcp, bytes: usize| {
        assert_eq!(tcp.post(Lane(0), &Header::default(), Payload::from(&vec![7; bytes][..])), Posted::Sent);
    };
    let mut heard = Counting::default();
    for _ in 0..100 {
        post(&mut left, 8);
        left.poll(&mut Deaf, 16);
        assert!(!is_gathering(&left), "one message a turn goes out at once");
    }
    for _ in 0..64 {
        post(&mut left, 8);
    }
    assert!(is_gathering(&left));
    post(&mut left, 10_000);
    assert!(!is_gathering(&left), "what is not small does not wait");
    post(&mut left, 8);
    assert!(is_gathering(&left));
    left.poll(&mut Deaf, 16);
    assert!(!is_gathering(&left), "the next turn sends what waits");
    for _ in 0..64 {
        post(&mut left, 8);
    }
    // The sender computes: its kernel sends the rest.
    until("all messages", || {
        right.poll(&mut heard, 16);
        heard.messages == 100 + 66 + 64
    });
    assert!(is_gathering(&left));
    assert!(left.flush() && !is_gathering(&left));
}

#[test]
fn a_known_peer_costs_a_quarter_of_a_kibibyte() {
    let table_entry = size_of::<(Peer, u32)>() + 1;
    assert!(size_of::<Link>() + table_entry <= 256, "{} + {table_entry} bytes", size_of::<Link>());
}

#[test]
fn frames_cut_at_any_byte_are_whole_again() {
    // Messages of no payload and of odd sizes, into a socket with little room, so that calls end anywhere.
    let (mut left, mut right) = Tcp::pair();
    let State::Open(open) = &left.links[0].state else { panic!("the pair has met") };
    rustix::net::sockopt::set_socket_send_buffer_size(&open.socket, 1).expect("a small buffer");
    let data = [9; 60_000];
    let mut heard = Counting::default();
    let (mut sent, mut bytes, mut cut) = (0, 0, 0);
    for number in 0..4000 {
        let size = if number % 3 == 0 { 0 } else { (number * 7919) % data.len() };
        let header = Header { words: [number as u32; 6] };
        let mut posted = Posted::Busy;
        until("a message goes out", || {
            posted = left.post(Lane(0), &header, Payload::from(&data[..size]));
            if posted == Posted::Busy {
                right.poll(&mut heard, 1);
                left.poll(&mut Deaf, 16);
            }
            posted != Posted::Busy
        });
        cut += usize::from(posted == Posted::Partly(0));
        finish(&mut left, &data[..size], posted, || {
            right.poll(&mut heard, 1);
        });
        (sent, bytes) = (sent + 1, bytes + size);
    }
    until("everything arrives", || {
        left.poll(&mut Deaf, 16);
        right.poll(&mut heard, 16);
        heard.messages == sent
    });
    assert_eq!(heard.bytes, bytes);
    assert!(left.flush());
    // How the kernel cuts is its own affair, so `cut` is shown and not asserted.
    println!("{cut} messages were cut inside or right behind their frame");
}

#[test]
fn a_wild_frame_ends_the_link_with_the_peers_name() {
    let (mut left, right) = Tcp::pair();
    let State::Open(open) = &right.links[0].state else { panic!("the pair has met") };
    send_text_to(&open.socket, &[0xee; 32]);
    let mut heard = Counting::default();
    until("the loss is told", || {
        left.poll(&mut heard, 16);
        !heard.lost.is_empty()
    });
    let (peer, error) = &heard.lost[0];
    assert_eq!((*peer, error.fault), (Peer(1), Fault::Protocol));
    assert!(error.what.starts_with("process 1 on "), "{error}");
    assert!(matches!(left.links[0].state, State::Lost));
}

fn send_text_to(socket: &std::os::fd::OwnedFd, text: &[u8]) {
    crate::socket::send_text(socket, text).expect("an open connection takes 32 bytes");
}

#[test]
fn a_card_of_another_version_names_both() {
    let (mut left, right) = (open(0), open(1));
    let mut card = right.address();
    card[4] = 9;
    assert_eq!(left.reach(Peer(1), &card), None);
    let error = left.connect(Peer(1), &card).expect_err("another version");
    assert_eq!(error.fault, Fault::Protocol);
    for part in [right.host.name.as_str(), "version 9", "version 1", "same version"] {
        assert!(error.what.contains(part), "{part} is missing in: {error}");
    }
}

#[test]
fn every_address_that_was_tried_is_named() {
    let mut left = open(0);
    let (_held, port) = nobody();
    let addresses = ["127.0.0.1", "127.0.0.5", "::1"].map(|text| text.parse().expect("an address"));
    let card = Card { port, addresses: addresses.to_vec(), ..left.card() };
    let mut heard = Counting::default();
    let error = left.connect(Peer(1), &card.encode()).map_or_else(
        |error| error,
        |_| {
            until("the failure is told", || {
                left.poll(&mut heard, 16);
                !heard.lost.is_empty()
            });
            heard.lost.remove(0).1
        },
    );
    assert_eq!(error.fault, Fault::Unreachable);
    for address in [format!("127.0.0.1:{port}"), format!("127.0.0.5:{port}"), format!("[::1]:{port}")] {
        let part = format!("{address}: Connection refused");
        assert!(error.what.contains(&part), "{part} is missing in: {error}");
    }
    for part in ["process 0 on", "process 1 on", "firewall", "WEFT_TCP_PORTS"] {
        assert!(error.what.contains(part), "{part} is missing in: {error}");
    }
}

/// A port that is taken, and on which nobody listens: whoever dials it is refused.
fn nobody() -> (std::os::fd::OwnedFd, u16) {
    use rustix::net::{AddressFamily, SocketType, bind, socket};
    let held = socket(AddressFamily::INET6, SocketType::STREAM, None).expect("a socket");
    bind(&held, &SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0))).expect("any port");
    let port = crate::socket::local_address(&held).expect("its address").port();
    (held, port)
}

#[test]
fn a_process_that_only_looks_right_is_not_taken_for_the_peer() {
    // The same address and port, and another secret: what a reused address or a stale card looks like.
    let (mut left, mut other) = (open(0), open(1));
    let mut card = other.card();
    card.secret = [0; 16];
    left.connect(Peer(1), &card.encode()).expect("a lane");
    let mut heard = Counting::default();
    until("the failure is told", || {
        left.poll(&mut heard, 16);
        other.poll(&mut Deaf, 16);
        !heard.lost.is_empty()
    });
    let (_, error) = &heard.lost[0];
    assert!(error.what.contains("somebody else listens there"), "{error}");
    assert!(other.links.is_empty(), "who lacks the secret became a link");
}

#[test]
fn whatever_answers_a_dial_is_an_error_in_words() {
    use crate::handshake::{ANSWER_BYTES, Answer, Refusal};
    let mut other_version = [0; ANSWER_BYTES];
    other_version[..8].copy_from_slice(b"WefT\x09\0\x02\0");
    let refusal = Answer::refuse(Refusal::NoDescriptors);
    let cases: [(&[u8], &str); 6] = [
        (&[0xab; 56], "somebody else listens there"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n and more of the same, so that it is long enough",
            "somebody else",
        ),
        (&other_version, "version 9"),
        (&other_version[..8], "version 9"),
        (&refusal, "no file descriptor left"),
        (b"", "closed again and again"),
    ];
    for (answer, words) in cases {
        let error = dial_into(answer);
        assert!(error.what.contains(words), "{words} is missing in: {error}");
    }
}

/// Dials somebody who gives this answer to every hello and closes; the error that comes of it.
fn dial_into(answer: &[u8]) -> FabricError {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.set_nonblocking(true).expect("one thread must not block");
    let address = listener.local_addr().expect("its address");
    let mut left = open(0);
    let card = Card { port: address.port(), addresses: vec![address.ip()], ..left.card() };
    left.connect(Peer(1), &card.encode()).expect("a lane");
    let mut heard = Counting::default();
    until("the failure is told", || {
        left.poll(&mut heard, 16);
        if let Ok((mut dialler, _)) = listener.accept() {
            // The hello went out with the dial, and is read so that the close does not overtake the answer.
            dialler.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
            dialler.read_exact(&mut [0; 96]).expect("a hello");
            dialler.write_all(answer).expect("an answer");
        }
        !heard.lost.is_empty()
    });
    heard.lost.remove(0).1
}

#[test]
fn a_right_address_wins_over_wrong_ones() {
    // Behind the first two addresses is nobody, or somebody else; the order of the list does not matter.
    let (mut left, mut right) = (open(0), open(1));
    let mut card = right.card();
    card.addresses = ["127.0.0.9", "::1", "127.0.0.1"].map(|text| text.parse().expect("an address")).to_vec();
    let stranger = std::net::TcpListener::bind(("127.0.0.9", right.port)).ok();
    let lane = left.connect(Peer(1), &card.encode()).expect("a lane");
    let mut heard = Counting::default();
    let mut is_sent = false;
    until("the message arrives", || {
        left.poll(&mut Deaf, 16);
        right.poll(&mut heard, 16);
        is_sent = is_sent || left.post(lane, &Header::default(), Payload::EMPTY) == Posted::Sent;
        heard.messages == 1
    });
    drop(stranger);
    assert_eq!((left.open.len(), right.open.len()), (1, 1));
}

#[test]
fn silence_has_a_limit_and_says_so() {
    // A listener whose queue is full leaves further dials without an answer, as a firewall does.
    let queue = crate::socket::listen(None, 0).expect("a listener");
    rustix::net::listen(&queue.0, 0).expect("a queue of one");
    let address = SocketAddr::from(([127, 0, 0, 1], queue.1));
    let _full: Vec<_> = (0..8).filter_map(|_| crate::socket::dial(address, true).ok()).collect();
    let settings = Settings { connect_timeout: Duration::from_millis(60), ..Settings::default() };
    let mut left = Tcp::open(Peer(0), settings).expect("a fabric opens");
    let card = Card { port: queue.1, addresses: vec![address.ip()], ..left.card() };
    left.connect(Peer(1), &card.encode()).expect("a lane");
    let mut heard = Counting::default();
    until("the failure is told", || {
        left.poll(&mut heard, 16);
        !heard.lost.is_empty()
    });
    let (peer, error) = &heard.lost[0];
    assert_eq!((*peer, error.fault), (Peer(1), Fault::Unreachable));
    assert!(error.what.contains("no answer within 60ms"), "{error}");
}

#[test]
fn one_who_speaks_alone_among_many_is_read_directly() {
    let (mut left, mut right) = Tcp::pair();
    let mut others: Vec<Tcp> = (2..2 + watching::DIRECT_MAX as u32).map(open).collect();
    let mut lanes = Vec::new();
    for other in &mut others {
        lanes.push(other.connect(Peer(0), &left.address()).expect("a lane"));
        until("one more joins", || {
            left.poll(&mut Deaf, 16);
            other.poll(&mut Deaf, 16);
            !other.open.is_empty()
        });
    }
    until("all are there", || {
        left.poll(&mut Deaf, 16);
        left.open.len() == others.len() + 1
    });
    let favourite = left.by_peer[&Peer(1)];
    let back = right.connect(Peer(0), &left.address()).expect("the lane there is");
    let mut heard = Counting::default();
    let hear = |left: &mut Tcp, heard: &mut Counting, from: &mut Tcp, lane: Lane| {
        assert_eq!(from.post(lane, &Header::default(), Payload::EMPTY), Posted::Sent);
        let wanted = heard.messages + 1;
        until("a message", || {
            left.poll(heard, 16);
            heard.messages >= wanted
        });
    };
    // That many are there is noticed now and then only.
    for _ in 0..watching::POLLER_TURNS + 20 {
        hear(&mut left, &mut heard, &mut right, back);
    }
    assert_eq!(left.favourite.link(), Some(favourite));
    assert_eq!(left.links[favourite as usize].watched, None, "the favourite is read and not watched");
    for round in 0..20 {
        for (other, lane) in others.iter_mut().zip(&lanes) {
            hear(&mut left, &mut heard, other, *lane);
        }
        assert!(
            round > 0 || left.favourite.link() == Some(favourite),
            "a few messages of others change nothing"
        );
    }
    assert_eq!(left.favourite.link(), None, "a favourite that is silent is none");
    assert_eq!(left.links[favourite as usize].watched, Some(Interest::Read));
    hear(&mut left, &mut heard, &mut right, back);
    // One whose link ends must not stay the favourite.
    for _ in 0..20 {
        hear(&mut left, &mut heard, &mut right, back);
    }
    drop(right);
    until("the favourite has ended", || {
        left.poll(&mut heard, 16);
        left.favourite.link().is_none()
    });
    assert!(heard.lost.is_empty(), "{:?}", heard.lost);
}

/// Somebody who listens, takes every connection and never says a word: its kernel does it all.
fn silent(host: &str, port: u16) -> std::net::TcpListener {
    std::net::TcpListener::bind((host, port)).expect("a listener")
}

#[test]
fn somebody_else_who_is_silent_is_found_out_in_time() {
    let limit = Duration::from_millis(400);
    let settings = Settings { connect_timeout: limit, ..Settings::default() };
    let mut left = Tcp::open(Peer(0), settings).expect("a fabric opens");
    let stranger = silent("127.0.0.1", 0);
    let port = stranger.local_addr().expect("its address").port();
    let _other = silent("127.0.0.5", port);
    let addresses = ["127.0.0.1", "127.0.0.5", "127.0.0.9"].map(|text| text.parse().expect("an address"));
    let card = Card { port, addresses: addresses.to_vec(), ..left.card() };
    let lane = left.connect(Peer(1), &card.encode()).expect("a lane");
    let mut heard = Counting::default();
    until("the failure is told", || {
        assert!(matches!(left.post(lane, &Header::default(), Payload::EMPTY), Posted::Busy | Posted::Sent));
        left.poll(&mut heard, 16);
        !heard.lost.is_empty()
    });
    let (peer, error) = &heard.lost[0];
    assert_eq!((*peer, error.fault), (Peer(1), Fault::Unreachable));
    for address in ["127.0.0.1", "127.0.0.5"] {
        let part = format!("{address}:{port}: answered, but did not prove to be that process");
        assert!(error.what.contains(&part), "{part} is missing in: {error}");
    }
    let part = format!("127.0.0.9:{port}: Connection refused");
    assert!(error.what.contains(&part), "{part} is missing in: {error}");
    assert!(error.what.contains("WEFT_TCP_INTERFACES"), "{error}");
}

#[test]
fn ports_come_from_the_range_and_its_end_is_told() {
    let settings = |ports| Settings { ports: Some(ports), ..Settings::default() };
    let first = Tcp::open(Peer(5), settings(20_000..=20_999)).expect("a free port among a thousand");
    assert!((20_000..=20_999).contains(&first.port), "{}", first.port);
    let error = Tcp::open(Peer(1), settings(first.port..=first.port)).err().expect("the port is taken");
    assert_eq!(error.fault, Fault::Resources);
    assert!(error.what.contains(&first.port.to_string()) && error.what.contains("WEFT_TCP_PORTS"), "{error}");
}
