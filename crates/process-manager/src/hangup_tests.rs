//! A server that hangs up at every step of the whole exchange, before its answer and in the middle of it:
//! each time the rank learns it at once, by an error that names the step.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

use crate::{ExchangeError, Manager, Protocol, StartError, Wishes};

/// A request, the answer to it, and the step's name in errors.
type Step = (&'static str, String, &'static str);

fn frame(answer: &str) -> String {
    format!("{:<6}{answer}", answer.len())
}

fn pmi1() -> Vec<Step> {
    let steps = [
        ("cmd=init ", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n", "init"),
        ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n", "get_maxes"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=7.0\n", "get_my_kvsname"),
        ("cmd=put kvsname=7.0 key=card-0", "cmd=put_result rc=0\n", "put"),
        ("cmd=put kvsname=7.0 key=crowded", "cmd=put_result rc=0\n", "put"),
        ("cmd=barrier_in", "cmd=barrier_out rc=0\n", "barrier_in"),
        ("cmd=get kvsname=7.0 key=card-0", "cmd=get_result rc=0 value=2:Zm9v\n", "get"),
        ("cmd=get kvsname=7.0 key=card-0-2", "cmd=get_result rc=0 value=Zm9v\n", "get"),
        ("cmd=get kvsname=7.0 key=crowded", "cmd=get_result rc=1\n", "get"),
        (
            "cmd=get kvsname=7.0 key=PMI_process_mapping",
            "cmd=get_result rc=0 value=(vector,(0,1,2))\n",
            "get",
        ),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=-1\n", "get_appnum"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=4\n", "get_universe_size"),
        ("cmd=finalize", "cmd=finalize_ack rc=0\n", "finalize"),
    ];
    steps.map(|(request, answer, name)| (request, answer.to_owned(), name)).to_vec()
}

/// Over a port, the server tells who the rank is.
fn pmi1_port() -> Vec<Step> {
    let mut steps = pmi1();
    let who = "cmd=initack rc=0 rank=0 size=2\ncmd=set size=2\ncmd=set rank=0\ncmd=set debug=0\n";
    steps.insert(1, ("cmd=initack pmiid=0", who.to_owned(), "initack"));
    steps
}

fn pmi2() -> Vec<Step> {
    let steps = [
        ("cmd=fullinit;", "cmd=fullinit-response;rc=0;rank=0;size=2;appnum=0;", "fullinit"),
        ("cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=7.0;", "job-getid"),
        ("cmd=kvs-put;key=card-0;", "cmd=kvs-put-response;rc=0;", "kvs-put"),
        ("cmd=kvs-put;key=crowded;", "cmd=kvs-put-response;rc=0;", "kvs-put"),
        ("cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;", "kvs-fence"),
        ("key=weft-fence;", "cmd=kvs-get-response;rc=0;found=FALSE;", "kvs-get"),
        ("key=card-0;", "cmd=kvs-get-response;rc=0;found=TRUE;value=2:Zm9v;", "kvs-get"),
        ("key=card-0-2;", "cmd=kvs-get-response;rc=0;found=TRUE;value=Zm9v;", "kvs-get"),
        ("key=crowded;", "cmd=kvs-get-response;rc=0;found=FALSE;", "kvs-get"),
        ("PMI_process_mapping", "cmd=info-getjobattr-response;rc=0;found=FALSE;", "info-getjobattr"),
        ("universeSize", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=-1;", "info-getjobattr"),
        ("cmd=finalize;", "cmd=finalize-response;rc=0;", "finalize"),
    ];
    let greeting = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n".to_owned();
    let framed = steps.into_iter().map(|(request, answer, name)| (request, frame(answer), name));
    std::iter::once(("cmd=init ", greeting, "init")).chain(framed).collect()
}

/// Whether the bytes are one whole request of either protocol.
fn is_whole(bytes: &[u8]) -> bool {
    let length = || std::str::from_utf8(bytes.get(..6)?).ok()?.trim().parse::<usize>().ok();
    bytes.ends_with(b"\n") || length().is_some_and(|length| bytes.len() == 6 + length)
}

/// Answers `whole` steps, then reads one request more, says `part` bytes of its answer, and hangs up.
fn serve(mut socket: impl Read + Write, steps: &[Step], whole: usize, part: usize) {
    for (index, (request, answer, _)) in steps.iter().enumerate().take(whole + 1) {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !is_whole(&bytes) {
            match socket.read(&mut byte) {
                Ok(1) => bytes.push(byte[0]),
                _ => return,
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(request), "`{request}` was expected, `{text}` came");
        let said = if index == whole { &answer.as_bytes()[..part] } else { answer.as_bytes() };
        socket.write_all(said).unwrap();
    }
}

/// The whole exchange of a rank, up to the first error.
fn live(manager: Result<Manager, StartError>) -> Result<(), ExchangeError> {
    let mut manager = match manager {
        Ok(manager) => manager,
        Err(StartError::Exchange(error)) => return Err(error),
        Err(other) => panic!("{other}"),
    };
    manager.put("card", b"foofoo")?;
    manager.announce("crowded", true)?;
    manager.fence()?;
    assert_eq!(manager.get(0, "card")?.as_deref(), Some(&b"foofoo"[..]));
    assert!(!manager.is_announced("crowded")?);
    manager.node_map()?;
    manager.appnum()?;
    manager.universe_size()?;
    manager.finalize()
}

fn inherited(protocol: Protocol, steps: Vec<Step>, whole: usize, part: usize) -> Result<(), ExchangeError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = spawn(move || {
        serve(&theirs, &steps, whole, part);
        let _ = theirs.shutdown(Shutdown::Both);
    });
    let number = ours.as_raw_fd().to_string();
    let look_up = |name: &str| match name {
        "PMI_FD" => Some(number.clone()),
        "PMI_RANK" => Some("0".to_owned()),
        "PMI_SIZE" => Some("2".to_owned()),
        _ => None,
    };
    let wishes = Wishes { protocol: Some(protocol), libpmix: None };
    let lived = live(Manager::from_variables(&look_up, &wishes));
    server.join().unwrap();
    lived
}

fn listening(steps: Vec<Step>, whole: usize, part: usize) -> Result<(), ExchangeError> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        serve(&socket, &steps, whole, part);
        let _ = socket.shutdown(Shutdown::Both);
    });
    let look_up = |name: &str| match name {
        "PMI_PORT" => Some(address.clone()),
        "PMI_ID" => Some("0".to_owned()),
        _ => None,
    };
    let lived = live(Manager::from_variables(&look_up, &Wishes::default()));
    server.join().unwrap();
    lived
}

/// Every way to hang up in this conversation, each with the step that its error must name.
fn hang_up_everywhere(
    steps: &[Step],
    run: impl Fn(Vec<Step>, usize, usize) -> Result<(), ExchangeError> + Send + 'static,
) {
    let steps = steps.to_vec();
    let (sender, done) = channel();
    let cases: usize = steps.len();
    spawn(move || {
        for (whole, (_, answer, name)) in steps.iter().enumerate() {
            for part in [0, 3, answer.len() / 2, answer.len() - 1] {
                let error = run(steps.clone(), whole, part).expect_err("the server hung up");
                // What a refused announcement is to be is decided elsewhere; a lost server is lost for all.
                let told = matches!(&error, ExchangeError::Lost { request, .. } if request == name);
                assert!(told, "after {part} bytes of the answer to `{name}`: {error}");
            }
            sender.send(whole).unwrap();
        }
        let all = run(steps.clone(), steps.len(), 0);
        assert!(all.is_ok(), "a server that stays: {all:?}");
        sender.send(steps.len()).unwrap();
    });
    for case in 0..=cases {
        let step = done.recv_timeout(WATCHDOG).unwrap_or_else(|_| panic!("hangs or failed at step {case}"));
        assert_eq!(step, case);
    }
}

#[test]
fn pmi_1_over_an_inherited_socket() {
    hang_up_everywhere(&pmi1(), |steps, whole, part| inherited(Protocol::Pmi1, steps, whole, part));
}

#[test]
fn pmi_1_over_a_port() {
    hang_up_everywhere(&pmi1_port(), listening);
}

#[test]
fn pmi_2_over_an_inherited_socket() {
    hang_up_everywhere(&pmi2(), |steps, whole, part| inherited(Protocol::Pmi2, steps, whole, part));
}

/// Far beyond any wait of these tests: only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(20);
