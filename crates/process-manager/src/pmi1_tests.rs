//! The PMI-1 client against captured conversations of other launchers, and against our own server.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use super::*;
use crate::error::{KEY_BYTES_MAX, check_key, job_key};
use crate::server::{Action, Server};
use crate::{Manager, NodeMap, Protocol, StartError, Wishes};

/// Answers each request of a client with the next line of a captured conversation.
fn play(pairs: &'static [(&'static str, &'static str)]) -> (UnixStream, JoinHandle<()>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(WATCHDOG)).unwrap();
    let server = spawn(move || {
        for (request, answer) in pairs {
            let mut got = vec![0; request.len() + 1];
            theirs.read_exact(&mut got).unwrap_or_else(|error| panic!("waiting for `{request}`: {error}"));
            assert_eq!(String::from_utf8(got).unwrap(), format!("{request}\n"));
            theirs.write_all(answer.as_bytes()).unwrap();
        }
    });
    (ours, server)
}

fn manager(socket: &UnixStream, rank: u32, size: u32) -> Result<Manager, StartError> {
    let number = socket.as_raw_fd().to_string();
    let look_up = |name: &str| match name {
        "PMI_FD" => Some(number.clone()),
        "PMI_RANK" => Some(rank.to_string()),
        "PMI_SIZE" => Some(size.to_string()),
        _ => None,
    };
    Manager::from_variables(&look_up, &Wishes::default())
}

const START: [(&str, &str); 3] = [
    ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"),
    ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
    ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=7.0\n"),
];

#[test]
fn a_conversation_with_slurm() {
    let (socket, server) = play(&[
        START[0],
        START[1],
        START[2],
        ("cmd=get kvsname=7.0 key=PMI_process_mapping", "cmd=get_result rc=0 value=(vector,(0,2,2))\n"),
        ("cmd=put kvsname=7.0 key=card-0 value=1:AQID", "cmd=put_result rc=0\n"),
        ("cmd=put kvsname=7.0 key=crowded value=1:MQ", "cmd=put_result rc=-1 msg=duplicate_key\n"),
        ("cmd=barrier_in", "cmd=barrier_out rc=0\n"),
        ("cmd=get kvsname=7.0 key=crowded", "cmd=get_result rc=0 value=1:MQ\n"),
        ("cmd=get kvsname=7.0 key=silent", "cmd=get_result rc=1\n"),
        ("cmd=get kvsname=7.0 key=card-9", "cmd=get_result rc=1\n"),
        ("cmd=get kvsname=7.0 key=card-0", "cmd=get_result rc=0 value=1:AQID\n"),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=-1\n"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=4\n"),
        ("cmd=finalize", "cmd=finalize_ack rc=0\n"),
    ]);
    let mut manager = manager(&socket, 0, 4).unwrap();
    assert_eq!(manager.node_map().unwrap(), NodeMap::parse("(vector,(0,2,2))", 4));
    manager.put("card", &[1, 2, 3]).unwrap();
    manager.announce("crowded", true).unwrap();
    manager.fence().unwrap();
    assert!(manager.is_announced("crowded").unwrap() && !manager.is_announced("silent").unwrap());
    assert_eq!((manager.job().as_str(), manager.protocol()), ("7.0", Protocol::Pmi1));
    assert_eq!(manager.get(9, "card").unwrap(), None);
    assert_eq!(manager.get(0, "card").unwrap(), Some(vec![1, 2, 3]));
    assert_eq!(manager.appnum().unwrap(), None);
    assert_eq!(manager.universe_size().unwrap(), Some(4));
    manager.finalize().unwrap();
    server.join().unwrap();
}

#[test]
fn a_conversation_with_hydra() {
    let (socket, server) = play(&[
        (START[0].0, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n"),
        START[1],
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_18898_0_1074449754_vm\n"),
        ("cmd=barrier_in", "cmd=barrier_out tag=0\n"),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0\n"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=-1\n"),
        ("cmd=abort exitcode=7", ""),
    ]);
    let mut manager = manager(&socket, 1, 2).unwrap();
    assert_eq!((manager.rank(), manager.size()), (1, 2));
    manager.fence().unwrap();
    assert_eq!(manager.appnum().unwrap(), Some(0));
    assert_eq!(manager.universe_size().unwrap(), None);
    manager.abort(7).unwrap();
    server.join().unwrap();
}

#[test]
fn a_refusal_is_told_with_the_answer() {
    let (socket, server) = play(&[
        START[0],
        START[1],
        START[2],
        ("cmd=put kvsname=7.0 key=a-0 value=1:", "cmd=put_result rc=-1 msg=duplicate_key\n"),
        ("cmd=barrier_in", "cmd=put_result rc=0\n"),
    ]);
    let mut manager = manager(&socket, 0, 1).unwrap();
    let refused = manager.put("a", b"").unwrap_err();
    assert!(
        matches!(&refused, ExchangeError::Refused { answer, .. } if answer.contains("duplicate_key")),
        "{refused}"
    );
    let garbled = manager.fence().unwrap_err();
    assert!(matches!(garbled, ExchangeError::Garbled { request: "barrier_in", .. }), "{garbled}");
    server.join().unwrap();
}

const SHORT: Duration = Duration::from_millis(5);

/// A server that keeps rank 0 waiting at the fence until it is told to go on.
fn shut_fence() -> (Pmi1Client, Sender<()>, JoinHandle<()>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let client = Pmi1Client {
        connection: Connection(Stream::new(ours.into(), 0)),
        size: 2,
        space: String::new(),
        value_bytes_max: 0,
    };
    let (open, opened) = channel();
    let server = spawn(move || {
        let mut got = [0; 15];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"cmd=barrier_in\n");
        if opened.recv().is_ok() {
            theirs.write_all(b"cmd=barrier_out rc=0\n").unwrap();
        }
        // Until the client has gone.
        let _ = theirs.read(&mut [0]);
    });
    (client, open, server)
}

#[test]
fn who_waits_at_a_fence_looks_around_and_goes_on_when_it_opens() {
    let (mut client, open, server) = shut_fence();
    let mut looks = 0;
    let mut look = || {
        looks += 1;
        if looks == 3 {
            open.send(()).unwrap();
        }
        Ok(())
    };
    let mut waiting = Waiting::paced(&mut look, SHORT, SHORT);
    client.fence(&mut waiting).unwrap();
    assert!(3 <= looks, "{looks}");
    drop(client);
    server.join().unwrap();
}

#[test]
fn what_is_seen_at_a_shut_fence_ends_the_wait_and_the_job_can_still_be_ended() {
    let (mut client, open, server) = shut_fence();
    let mut look = || Err(ExchangeError::Ended { who: "rank 1".to_owned(), host: "n1".to_owned() });
    let mut waiting = Waiting::paced(&mut look, SHORT, SHORT);
    let error = client.fence(&mut waiting).unwrap_err().to_string();
    assert!(error.starts_with("rank 1 has ended on n1 before"), "{error}");
    client.abort(1).unwrap();
    drop((open, client));
    server.join().unwrap();
}

#[test]
fn a_damaged_value_is_told_with_its_key() {
    let (socket, server) = play(&[
        START[0],
        START[1],
        START[2],
        ("cmd=get kvsname=7.0 key=a-0", "cmd=get_result rc=0 value=foreign\n"),
        ("cmd=get kvsname=7.0 key=b-0", "cmd=get_result rc=0 value=2:AAAA\n"),
        ("cmd=get kvsname=7.0 key=b-0-2", "cmd=get_result rc=1\n"),
        ("cmd=get kvsname=7.0 key=c-0", "cmd=get_result rc=0 value=1:A!\n"),
    ]);
    let mut manager = manager(&socket, 0, 1).unwrap();
    for key in ["a", "b", "c"] {
        let error = manager.get(0, key).unwrap_err();
        assert!(
            matches!(&error, ExchangeError::Damaged { key: told, .. } if *told == format!("{key}-0")),
            "{error}"
        );
    }
    server.join().unwrap();
}

#[test]
fn a_server_that_hangs_up_is_noticed_with_and_without_asking() {
    let (socket, server) = play(&START);
    let mut manager = manager(&socket, 3, 4).unwrap();
    server.join().unwrap();
    assert!(manager.lost());
    let error = manager.fence().unwrap_err();
    assert!(matches!(error, ExchangeError::Lost { rank: 3, request: "barrier_in", .. }), "{error}");
}

#[test]
fn a_live_server_is_not_lost() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let stream = Stream::new(OwnedFd::from(ours), 0);
    assert!(!stream.lost());
    drop(theirs);
    assert!(stream.lost());
}

#[test]
fn a_server_of_another_version_is_refused() {
    let (socket, server) =
        play(&[(START[0].0, "cmd=response_to_init rc=0 pmi_version=3 pmi_subversion=0\n")]);
    let error = manager(&socket, 0, 2).unwrap_err();
    assert!(matches!(error, StartError::Exchange(ExchangeError::Refused { request: "init", .. })), "{error}");
    server.join().unwrap();
}

#[test]
fn keys_that_some_launcher_refuses_are_refused_here() {
    for key in ["", "a b", "a=b", "PMI_x", "ü", &"k".repeat(KEY_BYTES_MAX + 1)] {
        assert!(matches!(check_key(key), Err(ExchangeError::BadKey { .. })), "{key}");
    }
    check_key(&"k".repeat(KEY_BYTES_MAX)).unwrap();
}

#[test]
fn every_line_fits_the_smallest_server() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    for space in ["7.0", &"s".repeat(255)] {
        let connection = Connection(Stream::new(OwnedFd::from(ours.try_clone().unwrap()), 0));
        let client = Pmi1Client { connection, size: 1, space: space.to_owned(), value_bytes_max: 1024 };
        let key = job_key(&"k".repeat(KEY_BYTES_MAX), u32::MAX);
        for (key, text) in segments::cut(&key, &[7; 100_000], client.text_bytes_max()) {
            let line = format!("cmd=put kvsname={space} key={key} value={text}\n");
            assert!(line.len() <= LINE_SENT_BYTES_MAX && key.len() <= 63, "{} bytes", line.len());
        }
    }
}

/// Runs our server for `ranks` clients over sockets until all have hung up.
fn serve(ranks: u32) -> (Vec<UnixStream>, JoinHandle<Server>) {
    let (clients, servers): (Vec<_>, Vec<_>) = (0..ranks).map(|_| UnixStream::pair().unwrap()).unzip();
    let (sender, inbox) = channel();
    let writers: Vec<UnixStream> = servers.iter().map(|socket| socket.try_clone().unwrap()).collect();
    for (rank, socket) in (0..).zip(servers) {
        let sender = sender.clone();
        spawn(move || forward(rank, socket, &sender));
    }
    drop(sender);
    (clients, spawn(move || answer(Server::new(ranks, "space"), &inbox, &writers)))
}

fn forward(rank: u32, mut socket: UnixStream, sender: &Sender<(u32, Vec<u8>)>) {
    let mut bytes = [0; 512];
    while let Ok(count @ 1..) = socket.read(&mut bytes) {
        sender.send((rank, bytes[..count].to_vec())).unwrap();
    }
}

fn answer(mut server: Server, inbox: &Receiver<(u32, Vec<u8>)>, writers: &[UnixStream]) -> Server {
    while let Ok((rank, bytes)) = inbox.recv() {
        let mut actions = Vec::new();
        server.receive(rank, &bytes, &mut actions).unwrap();
        for action in actions {
            if let Action::Write { rank, bytes } = action {
                (&writers[rank as usize]).write_all(&bytes).unwrap();
            }
        }
    }
    server
}

/// The whole life of one rank: publishes a value, meets the others, reads all of theirs.
fn live(socket: &UnixStream, rank: u32, size: u32) {
    let mut manager = manager(socket, rank, size).unwrap();
    let value = |rank: u32| vec![rank as u8; rank as usize * 700];
    manager.put("card", &value(rank)).unwrap();
    manager.fence().unwrap();
    for other in 0..size {
        assert_eq!(manager.get(other, "card").unwrap(), Some(value(other)));
    }
    assert_eq!(manager.get(0, "nobody").unwrap(), None);
    assert_eq!(manager.universe_size().unwrap(), Some(size));
    assert_eq!(manager.node_map().unwrap(), Some(NodeMap::one_node(size)));
    manager.fence().unwrap();
    manager.finalize().unwrap();
}

#[test]
fn ranks_meet_over_our_own_server() {
    const RANKS: u32 = 6;
    let (sockets, server) = serve(RANKS);
    let (sender, done) = channel();
    for (rank, socket) in (0..).zip(sockets) {
        let sender = sender.clone();
        spawn(move || {
            live(&socket, rank, RANKS);
            sender.send(rank).unwrap();
        });
    }
    let mut missing: Vec<u32> = (0..RANKS).collect();
    while !missing.is_empty() {
        let rank = done.recv_timeout(WATCHDOG).unwrap_or_else(|_| panic!("still missing: ranks {missing:?}"));
        missing.retain(|other| *other != rank);
    }
    let server = server.join().unwrap();
    assert!((0..RANKS).all(|rank| server.standing(rank) == crate::server::Standing::Finalized));
}

#[test]
fn a_client_finds_its_server_by_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        let mut server = Server::new(1, "space");
        let mut bytes = [0; 512];
        while let Ok(count @ 1..) = socket.read(&mut bytes) {
            let mut actions = Vec::new();
            server.receive(0, &bytes[..count], &mut actions).unwrap();
            for action in actions {
                if let Action::Write { bytes, .. } = action {
                    socket.write_all(&bytes).unwrap();
                }
            }
        }
    });
    let look_up = |name: &str| match name {
        "PMI_PORT" => Some(address.clone()),
        "PMI_ID" => Some("0".to_owned()),
        _ => None,
    };
    let mut manager = Manager::from_variables(&look_up, &Wishes::default()).unwrap();
    assert_eq!((manager.rank(), manager.size()), (0, 1));
    manager.put("key", b"value").unwrap();
    manager.fence().unwrap();
    assert_eq!(manager.get(0, "key").unwrap().as_deref(), Some(&b"value"[..]));
    manager.finalize().unwrap();
    server.join().unwrap();
}

/// Far beyond any wait of these tests: only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(20);
