//! Blank ranks in Rust: this program is also what the launcher starts, three ranks of which one kills itself.

mod common;

use common::{start_command, weftrun};
use weft::{
    BlankPartner, Class, CollectiveMode, FtMode, FtModes, MessageMode, Operator, Rank, Session, Threads,
};

const RANKS: &str = "3";
const VICTIM: Rank = Rank(1);

/// What a rank does. It is a test by itself, which has nothing to do unless the one below has started it.
#[test]
fn a_rank_that_loses_another() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    let session = Session::start_for(Threads::One).unwrap();
    let comm = session.world().duplicate().unwrap();
    comm.set_ft_modes(FtModes {
        comm: FtMode::Blank,
        messages: MessageMode::Reset,
        blanks: BlankPartner::Nobody,
        collectives: CollectiveMode::Local,
    });
    let here = comm.rank();
    assert_eq!(comm.all_gather(&[here.0]).unwrap(), [0, 1, 2]);
    // Nobody dies while somebody is still in that.
    if here == VICTIM {
        for other in [0, 2] {
            comm.receive::<u8>(Rank(other), 2).unwrap();
        }
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    comm.send(&[1u8], VICTIM, 2).unwrap();
    assert_eq!(comm.receive::<u8>(VICTIM, 1).unwrap_err().class, Class::ProcFailed);
    let recovery = comm.recover().unwrap();
    assert_eq!((recovery.generation, recovery.mode, recovery.failed.size()), (1, FtMode::Blank, 1));
    assert!(comm.is_blank(VICTIM) && !comm.is_blank(here));
    assert_eq!((comm.live().size(), comm.size()), (2, 3));

    // C4, C6, C8: what nobody has written cannot be read.
    let all = comm.all_gather_segments(&[here.0, 7]).unwrap();
    assert_eq!(all.iter().collect::<Vec<_>>(), [(Rank(0), &[0, 7][..]), (Rank(2), &[2, 7][..])]);
    assert_eq!(all.of(VICTIM), None);
    let error = comm.all_gather(&[here.0]).unwrap_err();
    assert!(error.class == Class::Rank && error.to_string().contains("all_gather_segments"), "{error}");
    let gathered = comm.gather_segments(&[here.0], Rank(2)).unwrap();
    assert_eq!(gathered.is_some(), here == Rank(2));
    if let Some(gathered) = gathered {
        assert_eq!((gathered.of(Rank(0)), gathered.of(VICTIM)), (Some(&[0][..]), None));
    }
    let parts = [here.0 * 10, 99, here.0 * 10 + 2];
    let came = comm.all_to_all_segments(&parts).unwrap();
    assert_eq!(came.iter().collect::<Vec<_>>(), [(Rank(0), &[here.0][..]), (Rank(2), &[20 + here.0][..])]);
    // C0, C2, C3, C5, C7, C10: the others as ever.
    assert_eq!(comm.gather(&[1u8], VICTIM).unwrap_err().class, Class::Root);
    let mut told = [here.0];
    comm.broadcast(&mut told, Rank(2)).unwrap();
    assert_eq!(told, [2]);
    assert_eq!(comm.all_reduce(&[3u32], Operator::Prod).unwrap(), [9]);
    assert_eq!(comm.scan(&[5u32], Operator::Sum).unwrap(), [if here == Rank(0) { 5 } else { 10 }]);
    let sum = comm.reduce(&[here.0], Operator::Sum, Rank(0)).unwrap();
    assert_eq!(sum, (here == Rank(0)).then(|| vec![2]));
    assert_eq!(comm.scatter(&[4u32, 5, 6], 1, Rank(0)).unwrap(), [4 + here.0]);
    println!("rank {} is through", here.0);
    session.finish().unwrap();
}

#[test]
fn unwritten_segments_cannot_be_read() {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().expect("the path of a test is text");
    for fabric in ["shm", "tcp"] {
        let words = ["--ft", "-n", RANKS, "--fabric", fabric, "--timeout", "60", program];
        let test = ["--exact", "a_rank_that_loses_another", "--nocapture"];
        let (mut command, mark) = weftrun(&[&words[..], &test].concat());
        command.env(PART, "rank");
        let outcome = start_command(command, mark).finish();
        let account = format!("{fabric}: {}\n{}", outcome.output, outcome.errors);
        assert!(outcome.status.success(), "{account}");
        for rank in [0, 2] {
            assert!(outcome.output.contains(&format!("rank {rank} is through")), "{account}");
        }
    }
}

const PART: &str = "WEFT_TEST_PART";
