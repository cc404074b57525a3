//! The fates of jobs: what their ranks do, and the exit status and message that follow.

use super::*;
use crate::signals;

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).unwrap()
}

/// A job whose rank `i` is process `100 + i`.
fn running(ranks: u32) -> Job {
    started(Job::new(ranks, 0, "space", false), ranks)
}

fn started(mut job: Job, ranks: u32) -> Job {
    for rank in 0..ranks {
        job.started(rank, pid(100 + rank as i32));
    }
    job
}

fn say(job: &mut Job, rank: u32, lines: &[&str]) {
    for line in lines {
        job.receive(rank, format!("cmd={line}\n").as_bytes(), &mut Vec::new());
    }
}

const INIT: &str = "init pmi_version=1 pmi_subversion=1";

#[test]
fn a_job_of_programs_that_know_nothing_of_mpi_ends_well() {
    let mut job = running(2);
    assert_eq!(job.rank_of(pid(101)), Some(1));
    job.ended(0, Ending::Code(0));
    job.ended(1, Ending::Code(0));
    assert_eq!((job.running().count(), job.exit_status()), (0, 0));
    assert!(job.message("n1").is_none());
    assert_eq!(job.rank_of(pid(101)), None, "its number may belong to another process now");
}

#[test]
fn the_first_failure_is_the_one_that_is_told() {
    let mut job = running(3);
    job.ended(1, Ending::Code(3));
    job.ended(2, Ending::Signal(9));
    assert_eq!((job.exit_status(), job.culprit()), (3, Some(1)));
    let message = job.message("n1").unwrap();
    assert!(
        message.starts_with("rank 1 (process 101 on n1) exited with status 3; the job is ended\n"),
        "{message}"
    );
    assert!(message.contains("had not called MPI_Init"), "{message}");
}

#[test]
fn a_signal_is_told_by_name_and_makes_the_status() {
    let mut job = running(1);
    job.ended(0, Ending::Signal(11));
    assert_eq!(job.exit_status(), 139);
    let message = job.message("n1").unwrap();
    assert!(message.contains("was killed by SIGSEGV") && message.contains("ulimit -c"), "{message}");
    assert!(!message.contains("the job is ended"), "there is nobody else: {message}");
}

#[test]
fn leaving_without_finalize_is_a_death() {
    let mut job = running(2);
    say(&mut job, 1, &[INIT]);
    job.ended(1, Ending::Code(0));
    assert_eq!(job.exit_status(), 1);
    assert!(job.message("n1").unwrap().contains("exited without calling MPI_Finalize"));
}

#[test]
fn a_failure_after_finalize_is_told_at_the_end_and_harms_nobody() {
    let mut job = running(2);
    say(&mut job, 0, &[INIT, "finalize"]);
    job.ended(0, Ending::Code(5));
    assert!(job.cause().is_none());
    job.ended(1, Ending::Code(0));
    assert_eq!(job.exit_status(), 5);
    assert!(job.message("n1").unwrap().contains("exited with status 5 after MPI_Finalize"));
}

#[test]
fn a_kill_after_finalize_still_ends_the_job() {
    let mut job = running(2);
    say(&mut job, 0, &[INIT, "finalize"]);
    job.ended(0, Ending::Signal(9));
    assert_eq!((job.culprit(), job.exit_status()), (Some(0), 137));
}

#[test]
fn an_abort_gives_its_code() {
    for (code, status) in [(7, 7), (0, 0), (256, 1), (-1, 255)] {
        let mut job = running(2);
        say(&mut job, 1, &[INIT, &format!("abort exitcode={code} message=abort")]);
        job.ended(1, Ending::Signal(15));
        assert_eq!(job.exit_status(), status);
        let message = job.message("n1").unwrap();
        assert!(
            message.starts_with(&format!("rank 1 (process 101 on n1) called MPI_Abort({code})")),
            "{message}"
        );
    }
}

#[test]
fn an_abort_may_say_why() {
    let mut job = running(1);
    say(&mut job, 0, &[INIT, "abort exitcode=2 message=no such file"]);
    assert!(job.message("n1").unwrap().ends_with("called MPI_Abort(2): no such file"));
}

#[test]
fn a_signal_that_was_passed_on_is_no_ranks_fault() {
    let mut job = running(2);
    job.passes_on(15);
    job.ended(0, Ending::Signal(15));
    assert_eq!((job.exit_status(), job.culprit()), (143, None));
    assert_eq!(job.message("n1").unwrap(), "the job was ended by SIGTERM");
}

#[test]
fn who_ends_as_asked_is_no_failure_of_a_job_that_goes_on_without_the_failed() {
    for (signal, ending, status) in [
        (15, Ending::Signal(15), Some(143)),
        (15, Ending::Code(3), Some(143)),
        (2, Ending::Signal(9), Some(130)),
        (10, Ending::Signal(10), Some(138)),
        (10, Ending::Signal(9), None),
    ] {
        let mut job = started(Job::new(2, 4, "space", true), 2);
        for rank in 0..2 {
            say(&mut job, rank, &[INIT]);
        }
        job.passes_on(signal);
        job.ended(1, ending);
        assert_eq!(job.cause().is_some(), status.is_some(), "{signal} {ending:?}");
        if let Some(status) = status {
            assert_eq!((job.exit_status(), job.take_failures()), (status, Vec::new()));
            let name = signals::name(signal);
            assert_eq!(job.message("n1").unwrap(), format!("the job was ended by {name}"));
        }
    }
}

#[test]
fn g8_the_status_of_a_job_that_goes_on_is_that_of_the_survivors() {
    for (ending, last, status) in [
        (Ending::Signal(9), 0, 0),
        (Ending::Code(1), 0, 0),
        (Ending::Code(0), 0, 0),
        (Ending::Signal(9), 4, 4),
    ] {
        let mut job = started(Job::new(2, 0, "space", true), 2);
        say(&mut job, 0, &[INIT]);
        say(&mut job, 1, &[INIT]);
        job.ended(1, ending);
        assert!(job.cause().is_none());
        assert_eq!((job.take_failures(), job.take_failures()), (vec![(1, ending)], Vec::new()));
        assert!(job.obituary(1, ending, "n1").ends_with("; the others go on"));
        say(&mut job, 0, &["finalize"]);
        job.ended(0, Ending::Code(last));
        assert_eq!(job.exit_status(), status);
    }
}

#[test]
fn a_job_of_which_nobody_is_left_has_failed() {
    let mut job = started(Job::new(2, 0, "space", true), 2);
    for rank in 0..2 {
        say(&mut job, rank, &[INIT]);
    }
    job.ended(1, Ending::Signal(9));
    job.ended(0, Ending::Code(3));
    assert_eq!(job.exit_status(), 137);
}

#[test]
fn a_rank_that_fails_before_all_have_met_ends_every_job() {
    for barrier_first in [true, false] {
        let mut job = started(Job::new(3, 0, "space", true), 3);
        for rank in 0..3 {
            say(&mut job, rank, &[INIT]);
        }
        if barrier_first {
            say(&mut job, 0, &["barrier_in"]);
        }
        job.ended(1, Ending::Signal(9));
        if !barrier_first {
            assert!(job.cause().is_none());
            say(&mut job, 0, &["barrier_in"]);
        }
        assert!(matches!(job.cause(), Some(Cause::Died { rank: 1, .. })));
    }
    let mut job = started(Job::new(2, 0, "space", true), 2);
    job.ended(1, Ending::Signal(9));
    assert_eq!(job.exit_status(), 137, "it had not even begun");
}

#[test]
fn r9_who_was_started_again_is_told_of_by_its_rank() {
    let mut job = started(Job::new(2, 2, "space", true), 2);
    for rank in 0..2 {
        say(&mut job, rank, &[INIT]);
    }
    job.ended(1, Ending::Signal(9));
    say(&mut job, 0, &["weft_rebuild asked=a ranks=1 facts=f"]);
    assert!(matches!(&job.take_wishes()[..], [Wish::Rebuild { asked: 10, ranks, .. }] if ranks == &[1]));
    job.started_again(1, pid(102));
    assert_eq!(job.rank_of(pid(102)), Some(2));
    say(&mut job, 2, &[INIT, "weft_ready"]);
    assert!(matches!(job.take_wishes()[..], [Wish::Ready { number: 2 }]));
    assert_eq!(job.who_runs(), "ranks 0-1");
    job.ended(2, Ending::Signal(9));
    assert!(job.cause().is_none());
    assert!(job.obituary(2, Ending::Signal(9), "n1").starts_with("rank 1 (process 102 on n1) was killed"));
    job.started_again(1, pid(103));
    let told = job.vanished(3, Ending::Code(3), "n1");
    assert!(told.starts_with("rank 1 (process 103 on n1) exited with status 3 before"), "{told}");
    say(&mut job, 0, &["finalize"]);
    job.ended(0, Ending::Code(0));
    assert_eq!((job.running().count(), job.exit_status()), (0, 0));
}

#[test]
fn g8_where_nobody_has_done_well_the_status_is_that_of_the_first_failure() {
    let mut job = started(Job::new(2, 1, "space", true), 2);
    for rank in 0..2 {
        say(&mut job, rank, &[INIT]);
    }
    job.ended(1, Ending::Signal(9));
    job.started_again(1, pid(102));
    let _ = job.vanished(2, Ending::Code(3), "n1");
    job.ended(0, Ending::Signal(11));
    assert_eq!((job.running().count(), job.exit_status()), (0, 137));
}

#[test]
fn nonsense_ends_the_job() {
    let mut job = running(2);
    job.receive(1, b"hello\n", &mut Vec::new());
    let message = job.message("n1").unwrap();
    assert!(
        message.starts_with("rank 1 (process 101 on n1) broke the process manager's protocol"),
        "{message}"
    );
    assert_eq!(job.exit_status(), 1);
}

#[test]
fn a_timeout_names_who_still_runs() {
    let mut job = running(6);
    job.ended(3, Ending::Code(0));
    job.end(Cause::TimedOut { limit: Duration::from_millis(1500) });
    assert_eq!(job.exit_status(), 124);
    assert!(job.message("n1").unwrap().contains("after 1.5 s; still running: ranks 0-2, 4-5"));
}

#[test]
fn a_rank_that_cannot_start_is_told_with_the_reason() {
    let mut job = running(1);
    job.end(Cause::NotStarted { rank: 0, error: io::Error::from_raw_os_error(libc::EMFILE) });
    let message = job.message("n1").unwrap();
    assert!(message.contains("cannot start rank 0 on n1") && message.contains("ulimit -n"), "{message}");
}
