//! A rank that never calls MPI_Init, which the others have called: this program is also what it starts, so
//! that real ranks wait.

mod common;

use std::path::PathBuf;

use common::{Outcome, start_command, weftrun};
use weft::{Class, Rank, Session, Threads};

/// What the other ranks do. It is a test by itself, which has nothing to do unless one of those below has
/// started it.
#[test]
fn a_rank_that_waits_for_rank_1() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let rank = std::env::var("PMI_RANK").unwrap();
    let note = |what: &str| std::fs::write(folder.join(format!("{rank}.{what}")), "").unwrap();
    note("begins");
    let session = Session::start_for(Threads::One).unwrap();
    note("is-in");
    let world = session.world();
    let failed = match std::env::var("WAITS_IN").unwrap().as_str() {
        "a barrier" => world.barrier().unwrap_err(),
        _ => world.receive::<u8>(Rank(1), 1).map(drop).unwrap_err(),
    };
    assert_eq!(failed.class, Class::ProcFailed, "{failed}");
    if world.rank() == Rank(0) {
        println!("rank 1 has failed");
    }
}

/// The outcome of a job of three whose rank 1 does `absent` when `when` is true, a condition of bash.
fn job(options: &[&str], waits: &[(&str, &str)], when: &str, absent: &str) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        r#"cd "$FOLDER"
        both() {{ [ -e 0."$1" ] && [ -e 2."$1" ]; }}
        if [ $PMI_RANK = 1 ]; then echo $$ > pid; mv pid absent; until {when}; do sleep 0.01; done; {absent}; fi
        if [ '{when}' = true ]; then until [ -e absent ] && ! kill -0 $(cat absent) 2>/dev/null; do sleep 0.01; done; fi
        exec "$PROGRAM" --exact a_rank_that_waits_for_rank_1 --nocapture"#
    );
    let words = ["-n", "3", "--timeout", "25", "bash", "-c", &script];
    let (mut command, mark) = weftrun(&[options, &words].concat());
    command.env(FOLDER, folder.path()).env("FOLDER", folder.path());
    command.env("PROGRAM", std::env::current_exe().unwrap()).envs(waits.iter().copied());
    start_command(command, mark).finish()
}

fn must_name_rank_1(outcome: &Outcome, account: &str) {
    let errors = &outcome.errors;
    assert_eq!(outcome.code(), 1, "{account}: {errors}");
    assert_eq!(errors.matches("weftrun: rank 1 (process").count(), 1, "{account}: {errors}");
    assert!(errors.contains("without calling MPI_Init, which others have called"), "{account}: {errors}");
    assert!(errors.contains("let every rank call MPI_Init, or start fewer"), "{account}: {errors}");
}

const LATE: &str = "both is-in";

#[test]
fn it_is_noticed_whenever_it_goes_and_however() {
    for (fabric, late) in [("shm", LATE), ("tcp", "both begins")] {
        for when in ["true", late] {
            for absent in ["exit 0", "exec true", "exec sh -c :"] {
                let outcome = job(&["--fabric", fabric], &[("WAITS_IN", "a barrier")], when, absent);
                must_name_rank_1(&outcome, &format!("{fabric}, {when}, {absent}"));
            }
        }
    }
}

#[test]
fn it_is_noticed_however_the_others_wait() {
    for policy in ["auto", "spin", "yield"] {
        for place in ["a barrier", "a receive"] {
            for nodes in ["1", "2"] {
                let waits = [("WAITS_IN", place), ("WEFT_WAIT", policy)];
                let when = if nodes == "1" { LATE } else { "both begins" };
                let outcome = job(&["--nodes", nodes], &waits, when, "exit 0");
                must_name_rank_1(&outcome, &format!("{policy}, {place}, {nodes} nodes"));
            }
        }
    }
}

/// It runs on, as a program that has closed what it does not know.
#[test]
fn it_is_noticed_where_it_hangs_up_and_runs_on() {
    let absent = r#"eval "exec $PMI_FD>&-"; exec sleep 1000"#;
    let outcome = job(&[], &[("WAITS_IN", "a barrier")], LATE, absent);
    must_name_rank_1(&outcome, "it sleeps");
    assert!(outcome.errors.contains("closed its connection to the launcher"), "{}", outcome.errors);
}

#[test]
fn it_has_failed_in_a_job_that_goes_on_without_the_failed() {
    for when in ["true", LATE] {
        let outcome = job(&["--ft=blank"], &[("WAITS_IN", "a receive")], when, "exit 0");
        let errors = &outcome.errors;
        assert!(errors.contains("exited without calling MPI_Init; the others go on"), "{when}: {errors}");
        assert!(outcome.output.contains("rank 1 has failed"), "{when}: {} {errors}", outcome.output);
        assert_eq!(outcome.code(), 0, "{when}: {errors}");
    }
    // Where ranks meet at the start none of them can go on.
    let outcome = job(&["--ft", "--fabric", "tcp"], &[("WAITS_IN", "a barrier")], "both begins", "exit 0");
    assert_eq!(outcome.code(), 1, "{}", outcome.errors);
    let what = "rank 1 (process";
    let ended = outcome.errors.lines().find(|line| line.contains(what) && line.ends_with("the job is ended"));
    assert!(ended.is_some_and(|line| line.contains("exited without calling MPI_Init")), "{}", outcome.errors);
}

#[test]
fn a_job_in_which_nobody_calls_it_ends_well() {
    let outcome = common::run_script(&["-n", "4"], r#"[ $PMI_RANK = 1 ] || sleep 0.1; echo "$PMI_RANK""#);
    assert_eq!((outcome.code(), outcome.errors.as_str()), (0, ""));
    assert_eq!(outcome.sorted_lines(), ["0", "1", "2", "3"]);
}

const FOLDER: &str = "WEFT_TEST_FOLDER";
