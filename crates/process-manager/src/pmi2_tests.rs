//! The PMI-2 client against captured conversations of Slurm and Hydra, and against frames that are none.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use super::*;
use crate::{Manager, NodeMap, Protocol, StartError, Wishes};

/// Answers each request of a client with the next answer of a captured conversation, in two writes as Slurm
/// does.
fn play(pairs: Vec<(String, Vec<u8>)>) -> (UnixStream, JoinHandle<()>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(WATCHDOG)).unwrap();
    let server = spawn(move || {
        for (request, answer) in pairs {
            let mut got = vec![0; request.len()];
            theirs.read_exact(&mut got).unwrap_or_else(|error| panic!("waiting for `{request}`: {error}"));
            assert_eq!(String::from_utf8(got).unwrap(), request);
            let (head, body) = answer.split_at(answer.len().min(LENGTH_BYTES));
            theirs.write_all(head).unwrap();
            theirs.write_all(body).unwrap();
        }
    });
    (ours, server)
}

fn manager(socket: &UnixStream, rank: u32, size: u32, job: Option<&str>) -> Result<Manager, StartError> {
    let number = socket.as_raw_fd().to_string();
    let look_up = |name: &str| match name {
        "PMI_FD" => Some(number.clone()),
        "PMI_RANK" => Some(rank.to_string()),
        "PMI_SIZE" => Some(size.to_string()),
        "PMI_JOBID" => job.map(str::to_owned),
        _ => None,
    };
    Manager::from_variables(&look_up, &Wishes { protocol: Some(Protocol::Pmi2), libpmix: None })
}

fn greeting() -> (String, Vec<u8>) {
    let answer = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";
    ("cmd=init pmi_version=2 pmi_subversion=0\n".to_owned(), answer.into())
}

/// A request as we send it, and an answer as Slurm pads it.
fn left(request: &str, answer: &str) -> (String, Vec<u8>) {
    (format!("{:<6}{request}", request.len()), format!("{:<6}{answer}", answer.len()).into())
}

/// That message as Hydra pads it.
fn right(request: &str, answer: &str) -> (String, Vec<u8>) {
    (format!("{:<6}{request}", request.len()), format!("{:>6}{answer}", answer.len()).into())
}

#[test]
fn a_conversation_with_slurm() {
    let (socket, server) = play(vec![
        greeting(),
        left(
            "cmd=fullinit;pmijobid=9.0;pmirank=0;threaded=FALSE;",
            "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=4;appnum=-1;debugged=FALSE;pmiverbose=FALSE;",
        ),
        left("cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=9.0;"),
        left(
            "cmd=info-getjobattr;key=PMI_process_mapping;",
            "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,2));",
        ),
        left(
            "cmd=info-getjobattr;key=universeSize;",
            "cmd=info-getjobattr-response;rc=0;found=TRUE;value=4;",
        ),
        left("cmd=kvs-put;key=card-0;value=1:AQID;", "cmd=kvs-put-response;rc=0;"),
        left("cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;"),
        left("cmd=kvs-get;jobid=9.0;srcid=-1;key=weft-fence;", "cmd=kvs-get-response;rc=0;found=FALSE;"),
        left(
            "cmd=kvs-get;jobid=9.0;srcid=-1;key=card-0;",
            "cmd=kvs-get-response;rc=0;found=TRUE;value=1:AQID;",
        ),
        left("cmd=kvs-get;jobid=9.0;srcid=-1;key=card-9;", "cmd=kvs-get-response;rc=0;found=FALSE;"),
        left("cmd=finalize;", "cmd=finalize-response;rc=0;"),
    ]);
    let mut manager = manager(&socket, 0, 4, Some("9.0")).unwrap();
    assert_eq!((manager.rank(), manager.size(), manager.job().as_str()), (0, 4, "9.0"));
    assert_eq!(manager.appnum().unwrap(), None);
    assert_eq!(manager.node_map().unwrap(), NodeMap::parse("(vector,(0,2,2))", 4));
    assert_eq!(manager.universe_size().unwrap(), Some(4));
    manager.put("card", &[1, 2, 3]).unwrap();
    manager.fence().unwrap();
    assert_eq!(manager.get(0, "card").unwrap(), Some(vec![1, 2, 3]));
    assert_eq!(manager.get(9, "card").unwrap(), None);
    manager.finalize().unwrap();
    server.join().unwrap();
}

#[test]
fn a_conversation_with_hydra() {
    let (socket, server) = play(vec![
        greeting(),
        right(
            "cmd=fullinit;pmirank=1;threaded=FALSE;",
            "cmd=fullinit-response;rc=0;rank=1;size=2;appnum=0;pmiverbose=0;",
        ),
        right("cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=kvs_18898_0_1074449754_vm;"),
        right(
            "cmd=info-getjobattr;key=universeSize;",
            "cmd=info-getjobattr-response;rc=0;found=TRUE;value=-1;",
        ),
        right(
            "cmd=kvs-get;jobid=kvs_18898_0_1074449754_vm;srcid=-1;key=nokey-0;",
            "cmd=kvs-get-response;rc=1;",
        ),
        right("cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;"),
        right(
            "cmd=kvs-get;jobid=kvs_18898_0_1074449754_vm;srcid=-1;key=weft-fence;",
            "cmd=kvs-get-response;rc=1;",
        ),
        right("cmd=abort;isworld=TRUE;exitcode=7;msg=MPI_Abort;", ""),
    ]);
    let mut manager = manager(&socket, 1, 2, None).unwrap();
    assert_eq!((manager.rank(), manager.size()), (1, 2));
    assert_eq!(manager.appnum().unwrap(), Some(0));
    assert_eq!(manager.universe_size().unwrap(), None);
    assert_eq!(manager.get(0, "nokey").unwrap(), None);
    // The fence is over when that question is answered, which Hydra does when all are there.
    manager.fence().unwrap();
    manager.abort(7).unwrap();
    server.join().unwrap();
}

/// A conversation whose third answer is this; what comes of it.
fn answered(frame: &[u8]) -> ExchangeError {
    let full = "cmd=fullinit-response;rc=0;rank=0;size=2;appnum=0;";
    let (request, _) = left("cmd=job-getid;", "");
    let (socket, server) = play(vec![
        greeting(),
        left("cmd=fullinit;pmirank=0;threaded=FALSE;", full),
        (request, frame.to_vec()),
    ]);
    let error = match manager(&socket, 0, 2, None) {
        Err(StartError::Exchange(error)) => error,
        other => panic!("{other:?}"),
    };
    server.join().unwrap();
    error
}

#[test]
fn frames_that_are_none_are_told_with_the_request() {
    for frame in ["abcdef", "-00001", "999999", "+00004cmd=", "      ", "4 4   cmd="] {
        let error = answered(frame.as_bytes());
        let told = matches!(&error, ExchangeError::Garbled { request: "job-getid", answer, .. } if answer.contains("length"));
        assert!(told, "{frame}: {error}");
    }
    for body in ["cmd=other-response;rc=0;", "cmd=job-getid-response;rc=0;", "\u{1}", ""] {
        let error = answered(format!("{:<6}{body}", body.len()).as_bytes());
        assert!(matches!(error, ExchangeError::Garbled { request: "job-getid", .. }), "{body}: {error}");
    }
    let error = answered(b"40    cmd=job-getid-response;rc=15;jobid=9.0;");
    assert!(matches!(error, ExchangeError::Lost { request: "job-getid", .. }), "cut short: {error}");
    let error = answered(b"39    cmd=job-getid-response;rc=15;jobid=9.0;");
    assert!(matches!(error, ExchangeError::Refused { request: "job-getid", .. }), "{error}");
}

/// Far beyond any wait of these tests: only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(20);
