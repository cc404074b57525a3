//! Signals to a launcher whose job goes on without ranks that end: this program is also what it starts.

mod common;

use std::path::PathBuf;

use common::{start_command, wait_for, weftrun};
use rustix::process::Signal;
use weft::{Class, Rank, Session, Threads};

/// What a rank does. It is a test by itself, which has nothing to do unless the one below has started it.
#[test]
fn a_rank_that_recovers_for_ever() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let session = Session::start_for(Threads::One).unwrap();
    let (here, size) = (session.world().rank(), session.world().size());
    std::fs::write(PathBuf::from(folder).join(here.0.to_string()), "").unwrap();
    loop {
        // Nobody sends anything.
        let world = session.world();
        let error = world.receive::<u8>(Rank((here.0 + 1) % size), 1).unwrap_err();
        assert_eq!(error.class, Class::ProcFailed, "{error}");
        world.recover().unwrap();
    }
}

/// The job's status and what was said on the error stream, after the launcher was sent a signal while all
/// ranks wait.
fn signalled(options: &[&str], script: &str, signal: Signal) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let words = ["-n", "4", "--timeout", "40", "sh", "-c", script];
    let (mut command, mark) = weftrun(&[options, &words].concat());
    command.env(FOLDER, folder.path()).env("PROGRAM", program);
    let launcher = start_command(command, mark);
    wait_for(&launcher.mark, "all ranks", || {
        (std::fs::read_dir(folder.path()).unwrap().count() == 4).then_some(())
    });
    launcher.signal(signal);
    let outcome = launcher.finish();
    (outcome.code(), outcome.errors)
}

/// A signal that ends ranks was meant for the job: they are no failures, and nobody goes on without them or
/// comes in their place.
#[test]
fn a_signal_to_the_launcher_ends_a_job_that_survives_its_ranks() {
    for (options, script) in [
        (&["--ft=rebuild", "--max-restarts", "20"], ALL_HEAR),
        (&["--ft=rebuild", "--max-restarts", "20"], ONE_IS_DEAF),
        (&["--ft=blank", "--fabric", "tcp"], ONE_IS_DEAF),
    ]
    .map(|(options, script)| (&options[..], script))
    {
        for (signal, code, name) in [(Signal::TERM, 143, "SIGTERM"), (Signal::INT, 130, "SIGINT")] {
            let (status, errors) = signalled(options, script, signal);
            let account = format!("{options:?} {name}: {status}\n{errors}");
            assert_eq!(status, code, "{account}");
            assert_eq!(errors.matches(&format!("the job was ended by {name}")).count(), 1, "{account}");
            for wrong in ["started again", "the others go on"] {
                assert!(!errors.contains(wrong), "{account}");
            }
        }
    }
}

const FOLDER: &str = "WEFT_TEST_FOLDER";
const ALL_HEAR: &str = r#"exec "$PROGRAM" --exact a_rank_that_recovers_for_ever --nocapture"#;
const ONE_IS_DEAF: &str = r#"[ $PMI_RANK != 0 ] || trap '' TERM INT
    exec "$PROGRAM" --exact a_rank_that_recovers_for_ever --nocapture"#;
