//! The process manager's protocol, seen from both ends: ranks that send the server anything, and a server
//! that answers a rank anything.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use process_manager::Manager;
use process_manager::server::{Action, Server, Standing};

use crate::tape::{Tape, Writer, say};

/// Three ranks, and a process in the place of one of them, send lines cut anywhere.
pub fn server(input: &[u8]) {
    let mut tape = Tape::new(input);
    let mut server = Server::with_spares(RANKS - 1, 1, "space");
    let mut gone = [false; RANKS as usize];
    let mut standing = [Standing::Silent; RANKS as usize];
    let mut sent = 0;
    while !tape.is_over() {
        let rank = u32::from(tape.below(RANKS as u8));
        let length = usize::from(tape.byte());
        let bytes = tape.chunk(length);
        if gone[rank as usize] {
            continue;
        }
        sent += bytes.len();
        let mut actions = Vec::new();
        if let Err(fault) = server.receive(rank, bytes, &mut actions) {
            assert_eq!(fault.rank, rank, "{fault}");
            gone[rank as usize] = true;
        }
        actions.iter().for_each(check);
        for (rank, before) in (0..).zip(&mut standing) {
            let now = server.standing(rank);
            assert!(*before != Standing::Finalized || now == Standing::Finalized, "rank {rank} came back");
            *before = now;
        }
        assert!(server.held_bytes() <= sent, "{} bytes are held of {sent}", server.held_bytes());
    }
}

fn check(action: &Action) {
    match action {
        Action::Write { rank, bytes } => {
            assert!(*rank < RANKS && bytes.ends_with(b"\n"), "{action:?}");
            assert!(bytes.len() < 2000, "a long answer: {action:?}");
        }
        Action::Abort { rank, .. } | Action::Finalized { rank } | Action::Ready { rank } => {
            assert!(*rank < RANKS);
        }
        Action::Rebuild { ranks, facts, .. } => assert!(2 * ranks.len() + facts.len() < 9000),
    }
}

/// A PMI-1 server says anything: a text of lines. Whatever a rank asks is answered by the next of them.
pub fn client(input: &[u8]) {
    converse(input, process_manager::fuzzing::manager);
}

/// A PMI-2 server says anything: a line, then frames. Whatever a rank asks is answered by the next of them.
pub fn client2(input: &[u8]) {
    converse(input, process_manager::fuzzing::manager2);
}

fn converse(input: &[u8], begin: fn(OwnedFd) -> Option<Manager>) {
    let mut tape = Tape::new(input);
    let calls = tape.array::<6>();
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    // All is said before it is asked; what does not fit is not said. Then the server is gone.
    say(&theirs, tape.rest());
    let _ = theirs.shutdown(Shutdown::Write);
    let Some(mut manager) = begin(OwnedFd::from(ours)) else { return };
    assert!(manager.rank() < manager.size());
    for call in calls {
        match call % 8 {
            0 => drop(manager.put("card", &[call; 200])),
            1 => drop(manager.get(1, "card")),
            2 => drop(manager.fence()),
            3 => drop(manager.node_map()),
            4 => drop(manager.appnum()),
            5 => drop(manager.universe_size()),
            6 => drop((manager.lost(), manager.announce("so", true), manager.is_announced("so"))),
            _ => drop(manager.abort(i32::from(call))),
        }
    }
    let _ = manager.finalize();
}

/// Whole PMI-1 conversations of all ranks, from the ranks' side.
#[must_use]
pub fn server_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let say = |writer: Writer, rank: u8, line: &str| writer.counted(rank, format!("{line}\n").as_bytes());
    let lines = |lines: &[&str]| {
        (0..RANKS as u8).fold(Writer::default(), |writer, rank| {
            lines
                .iter()
                .fold(writer, |writer, line| say(writer, rank, &line.replace("RANK", &rank.to_string())))
        })
    };
    let begin = "cmd=init pmi_version=1 pmi_subversion=1";
    vec![
        ("greeting", lines(&[begin, "cmd=get_maxes", "cmd=get_my_kvsname", "cmd=initack pmiid=RANK"]).0),
        ("exchange", lines(&[begin, "cmd=put kvsname=space key=card-RANK value=1:Zm8", "cmd=barrier_in"]).0),
        ("fetch", lines(&[begin, "cmd=get kvsname=space key=PMI_process_mapping", "cmd=get_appnum"]).0),
        ("end", lines(&[begin, "cmd=get_universe_size", "cmd=finalize"]).0),
        ("abort", lines(&[begin, "cmd=abort exitcode=7 message=out of luck"]).0),
        ("spawn", lines(&[begin, "mcmd=spawn", "nprocs=1", "endcmd", "cmd=spawn"]).0),
        ("cut", Writer::default().counted(0, b"cmd=in").counted(0, b"it pmi_version=1\ncmd=bar").0),
    ]
}

/// Whole PMI-1 conversations, from the server's side.
#[must_use]
pub fn client_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let greeting = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n\
                    cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n\
                    cmd=my_kvsname rc=0 kvsname=space\n";
    let after = |calls: [u8; 6], lines: &str| [&calls[..], greeting.as_bytes(), lines.as_bytes()].concat();
    vec![
        ("get", after([1, 6, 6, 6, 6, 6], "cmd=get_result rc=0 value=1:Zm9v\ncmd=finalize_ack rc=0\n")),
        ("chunks", after([1; 6], "cmd=get_result rc=0 value=2:Zm9v\ncmd=get_result rc=0 value=Zm9v\n")),
        ("put", after([0, 2, 6, 6, 6, 6], "cmd=put_result rc=0\ncmd=barrier_out rc=0\n")),
        (
            "map",
            after(
                [3, 4, 5, 6, 6, 6],
                "cmd=get_result rc=0 value=(vector,(0,1,2))\ncmd=appnum rc=0 appnum=0\ncmd=universe_size rc=0 size=-1\n",
            ),
        ),
        (
            "refusal",
            after([1, 2, 7, 6, 6, 6], "cmd=get_result rc=-1 msg=key_not_found\ncmd=barrier_out rc=-1\n"),
        ),
    ]
}

/// Whole PMI-2 conversations, from the server's side, with the lengths padded on either side.
#[must_use]
pub fn client2_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let left = |text: &str| format!("{:<6}{text}", text.len());
    let right = |text: &str| format!("{:>6}{text}", text.len());
    let greeting = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";
    let full = "cmd=fullinit-response;rc=0;rank=0;size=2;appnum=0;";
    let slurm = [greeting, &left(full), &left("cmd=job-getid-response;rc=0;jobid=9.0;")].concat();
    let hydra = [greeting, &right(full), &right("cmd=job-getid-response;rc=0;jobid=kvs_1;")].concat();
    let after = |calls: [u8; 6], start: &str, frames: &str| {
        [&calls[..], start.as_bytes(), frames.as_bytes()].concat()
    };
    let got = |value: &str| format!("cmd=kvs-get-response;rc=0;found=TRUE;value={value};");
    let attribute = |value: &str| format!("cmd=info-getjobattr-response;rc=0;found=TRUE;value={value};");
    vec![
        ("get", after([1; 6], &slurm, &left(&got("1:Zm9v")))),
        ("chunks", after([1; 6], &hydra, &[right(&got("2:Zm9v")), right(&got("Zm9v"))].concat())),
        (
            "put",
            after(
                [0, 2, 1, 1, 1, 1],
                &slurm,
                &[
                    left("cmd=kvs-put-response;rc=0;"),
                    left("cmd=kvs-fence-response;rc=0;"),
                    left("cmd=kvs-get-response;rc=0;found=FALSE;"),
                ]
                .concat(),
            ),
        ),
        (
            "map",
            after(
                [3, 4, 5, 1, 1, 1],
                &slurm,
                &[left(&attribute("(vector,(0,1,2))")), left(&attribute("-1"))].concat(),
            ),
        ),
        (
            "absent",
            after(
                [1, 1, 2, 7, 1, 1],
                &hydra,
                &[right("cmd=kvs-get-response;rc=1;"), left("cmd=kvs-get-response;rc=0;found=FALSE;")]
                    .concat(),
            ),
        ),
        ("length", after([2; 6], &slurm, "999999cmd=kvs-fence-response;rc=0;")),
    ]
}

const RANKS: u32 = 4;
