//! `weft explain lanes` on real ranks: what it says, what it leaves behind, and what jobs make of it.

use std::path::Path;
use std::process::{Command, Output};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
const WEFTRUN: &str = env!("CARGO_BIN_EXE_weftrun");
const PATIENCE_SECONDS: &str = "60";

/// Runs a command that ends by itself or is killed, with a home of its own.
fn run(home: &Path, command: &[&str]) -> (String, String, bool) {
    let mut watched = Command::new("timeout");
    watched.args(["-k", "5", PATIENCE_SECONDS]).args(command).env("HOME", home);
    for name in ["XDG_CACHE_HOME", "WEFT_CONSTANTS", "WEFT_FABRIC", "WEFT_CMA"] {
        watched.env_remove(name);
    }
    let Output { stdout, stderr, status } = watched.output().expect("timeout is a command everywhere");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(stdout), text(stderr), status.success())
}

/// The one file in the folder for caches.
fn cache_file(home: &Path) -> std::path::PathBuf {
    let mut entries = std::fs::read_dir(home.join(".cache/weft")).expect("the folder was made");
    let first = entries.next().expect("a file was made").expect("it can be listed");
    assert!(entries.next().is_none(), "one file and no more");
    first.path()
}

#[test]
fn alone_it_starts_two_ranks_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let (told, errors, good) = run(home.path(), &[WEFT, "explain", "lanes"]);
    assert!(good && errors.is_empty(), "{told}{errors}");
    let lanes = told.strip_prefix("Lanes between the 2 ranks of this job\nshm: ").unwrap_or_default();
    // Each rank finds out whether reads are slow just then, and tells how it sends.
    let are_alike = lanes.starts_with("all pairs\n");
    let are_two = lanes.starts_with("rank 0 to 1\n") && lanes.contains("shm: rank 1 to 0\n");
    assert!(are_alike || are_two, "{told}");
    assert!(told.contains("tcp: not used\n  not opened: all ranks share"), "{told}");
    assert!(told.contains("(built in") && told.contains("eager to rendezvous"), "{told}");
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none(), "a job makes no files");
}

#[test]
fn a_job_that_is_forced_to_tcp_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let (told, errors, good) =
        run(home.path(), &[WEFTRUN, "-n", "3", "--fabric", "tcp", WEFT, "explain", "lanes"]);
    assert!(good && errors.is_empty(), "{told}{errors}");
    assert!(told.contains("3 ranks of this job\ntcp: all pairs\n"), "{told}");
    assert!(told.contains("shm: not used\n  WEFT_FABRIC (or --fabric) leaves it out"), "{told}");
    let measure = [WEFTRUN, "-n", "2", "--fabric", "tcp", WEFT, "explain", "lanes", "--measure"];
    let (_, errors, good) = run(home.path(), &measure);
    assert!(!good && errors.contains("share no memory"), "{errors}");
}

#[test]
fn what_was_measured_is_used_by_the_next_job_and_damage_is_told_once() {
    let home = tempfile::tempdir().unwrap();
    let (told, errors, good) = run(home.path(), &[WEFT, "explain", "lanes", "--measure"]);
    assert!(good && errors.is_empty(), "{told}{errors}");
    let file = cache_file(home.path());
    assert!(told.contains(&format!("kept in {}", file.display())), "{told}");
    let (told, errors, good) = run(home.path(), &[WEFT, "explain", "lanes"]);
    assert!(good && errors.is_empty(), "{told}{errors}");
    assert!(told.contains(&format!("(measured, {})", file.display())), "{told}");

    std::fs::write(&file, "weft constants 1\nhost\n").unwrap();
    let (told, errors, good) = run(home.path(), &[WEFTRUN, "-n", "4", WEFT, "explain", "lanes"]);
    assert!(good && told.contains("(built in"), "{told}{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(file.to_str().unwrap()) && errors.contains("passed over"), "{errors}");
}

#[test]
fn a_file_that_was_named_is_written_by_measuring_and_then_used() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("mine");
    let named = format!("WEFT_CONSTANTS={}", file.display());
    let (told, errors, good) = run(home.path(), &["env", &named, WEFT, "explain", "lanes", "--measure"]);
    assert!(good && errors.is_empty() && file.exists(), "{told}{errors}");
    let (told, errors, good) = run(home.path(), &["env", &named, WEFT, "explain", "lanes"]);
    assert!(good && errors.is_empty(), "{told}{errors}");
    assert!(told.contains(&format!("(measured, {})", file.display())), "{told}");
    assert!(!home.path().join(".cache").exists(), "only the file that was named");
}

#[test]
fn a_file_that_was_named_and_is_missing_is_an_error_with_its_remedy() {
    let home = tempfile::tempdir().unwrap();
    let job = [WEFTRUN, "-n", "2", "-x", "WEFT_CONSTANTS=/no/such/file", WEFT, "explain", "lanes"];
    let (told, errors, good) = run(home.path(), &job);
    assert!(!good && told.is_empty(), "{told}");
    assert!(
        errors.contains("/no/such/file: there is no such file") && errors.contains("unset WEFT_CONSTANTS"),
        "{errors}"
    );
}

#[test]
fn the_first_job_has_the_machine_measured_and_no_other_one_does() {
    let home = tempfile::tempdir().unwrap();
    let kept = || {
        let entries = std::fs::read_dir(home.path().join(".cache/weft")).ok()?;
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let text = std::fs::read_to_string(files.first()?).unwrap();
        Some((files, text))
    };
    let job = |variables: &[&str]| {
        let command = [&["env", "-u", "WEFT_COSTS"], variables, &[WEFTRUN, "-n", "2", "true"]].concat();
        let (told, errors, good) = run(home.path(), &command);
        assert!(good && told.is_empty() && errors.is_empty(), "{told}{errors}");
    };
    for set in ["WEFT_COSTS=off", "WEFT_COSTS=weft costs 1;step 7", "WEFT_CONSTANTS=off", "WEFT_FABRIC=tcp"] {
        job(&[set]);
        assert_eq!(kept(), None, "{set}");
    }
    job(&[]);
    let Some(first) = kept() else { return eprintln!("one cpu: nothing to measure") };
    if first.1.starts_with('.') {
        return eprintln!("the machine was too busy to be measured in a second");
    }
    assert_eq!(first.0.len(), 1, "nothing is left beside it: {:?}", first.0);
    assert!(first.1.ends_with("first-use\n"), "{}", first.1);
    job(&[]);
    assert_eq!(kept(), Some(first));
    let (told, errors, good) = run(home.path(), &["env", "-u", "WEFT_COSTS", WEFT, "explain", "costs"]);
    assert!(good && told.contains("# node: measured for the first job here, "), "{told}{errors}");
    assert!(told.contains("network, copy, combine, turn: built in"), "{told}");
}

#[test]
fn a_job_starts_where_nothing_can_be_kept() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".cache"), "no folder").unwrap();
    let job = ["env", "-u", "WEFT_COSTS", WEFTRUN, "-n", "2", "true"];
    let (told, errors, good) = run(home.path(), &job);
    assert!(good && told.is_empty() && errors.is_empty(), "{told}{errors}");
}
