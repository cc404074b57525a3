//! `weft doctor` on this machine: what it says, and its status.

use std::process::{Command, Output};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
const PATIENCE_SECONDS: &str = "60";

/// Runs the doctor with these variables and none of a launcher's.
fn doctor(arguments: &[&str], variables: &[(&str, &str)]) -> (String, Option<i32>) {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", PATIENCE_SECONDS, WEFT, "doctor"]).args(arguments);
    for (name, _) in std::env::vars() {
        if ["WEFT_", "PMI_", "PMIX_", "SLURM_", "OMPI_"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(name);
        }
    }
    let Output { stdout, status, .. } =
        command.envs(variables.iter().copied()).output().expect("timeout is a command everywhere");
    (String::from_utf8_lossy(&stdout).into_owned(), status.code())
}

/// The line of the page that begins with this state and this name.
fn line<'a>(page: &'a str, state: &str, name: &str) -> Option<&'a str> {
    page.lines().find(|line| line.trim_start().starts_with(state) && line.contains(name))
}

#[test]
fn where_all_is_well_it_says_so() {
    let (page, status) = doctor(&[], &[]);
    assert_eq!(status, Some(0), "{page}");
    for (state, name) in [
        ("ok", "chosen"),
        ("-", "PMI socket"),
        ("ok", "shared memory"),
        ("ok", "a job over shm"),
        ("ok", "a job over tcp"),
    ] {
        assert!(line(&page, state, name).is_some(), "no line `{state} {name}` in\n{page}");
    }
    assert!(page.ends_with("A job can start here.\n"), "{page}");
    assert!(page.lines().count() < 60, "it fits a page:\n{page}");
}

#[test]
fn it_tells_of_the_machine() {
    let (page, status) = doctor(&[], &[]);
    assert_eq!(status, Some(0), "{page}");
    let told =
        line(&page, "ok", "hwloc").unwrap_or_else(|| panic!("hwloc is installed by ci/setup:\n{page}"));
    assert!(told.contains("answers in") && told.contains("cpu"), "{told}");
    assert!(line(&page, "ok", "machine tree").is_some(), "{page}");
    let wrong = [("WEFT_MACHINE", "tower:2"), ("WEFT_SWITCHES", "absent")];
    let (page, status) = doctor(&[], &wrong);
    assert_eq!(status, Some(0), "a job can start all the same:\n{page}");
    assert!(line(&page, "slow", "\"tower:2\" describes no machine").is_some(), "{page}");
    assert!(line(&page, "slow", "absent: there is no such file").is_some(), "{page}");
    assert!(page.contains("remedy: name a file that lstopo has written"), "{page}");
    let (page, _) = doctor(
        &[],
        &[
            ("WEFT_MACHINE", "pack:2 core:4 pu:1"),
            ("SLURM_TOPOLOGY_ADDR", "core.left.n1"),
            ("SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node"),
        ],
    );
    assert!(line(&page, "ok", "described by WEFT_MACHINE: 2 packages").is_some(), "{page}");
    assert!(line(&page, "ok", "this host is below core/left").is_some(), "{page}");
}

#[test]
fn what_is_broken_has_a_remedy_and_a_status() {
    let (page, status) = doctor(&[], &[("WEFT_PROCESS_MANAGER", "pmi2"), ("WEFT_FABRICS", "shm")]);
    assert_eq!(status, Some(1), "{page}");
    assert!(line(&page, "BROKEN", "neither PMI_FD nor PMI_PORT is set").is_some(), "{page}");
    assert!(page.contains("remedy: unset WEFT_PROCESS_MANAGER"), "{page}");
    assert!(line(&page, "slow", "WEFT_FABRICS").is_some(), "a misspelt variable is told:\n{page}");
    let (page, status) = doctor(&[], &[("WEFT_FABRIC", "pigeon")]);
    assert_eq!(status, Some(1), "{page}");
    assert!(page.contains("WEFT_FABRIC is \"pigeon\""), "{page}");
    let step = [("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
    let (page, status) = doctor(&[], &step);
    assert!(status == Some(1) && page.contains("srun --mpi=pmi2"), "{page}");
}

#[test]
fn fabrics_that_are_left_out_are_not_tried() {
    let (page, status) = doctor(&[], &[("WEFT_FABRIC", "tcp")]);
    assert_eq!(status, Some(0), "{page}");
    assert!(line(&page, "-", "left out by WEFT_FABRIC").is_some(), "{page}");
    assert!(line(&page, "ok", "a job over tcp").is_some(), "{page}");
}

#[test]
fn the_first_task_of_many_speaks_for_all() {
    let (page, status) = doctor(&[], &[("PMI_RANK", "3")]);
    assert_eq!((page.as_str(), status), ("", Some(0)));
}

#[test]
fn the_variables_are_listed_with_their_values() {
    let (list, status) = doctor(&["--env"], &[("WEFT_FABRIC", "shm")]);
    assert_eq!(status, Some(0));
    assert!(
        list.lines().any(|line| line.starts_with("WEFT_FABRIC ") && line.contains("(now \"shm\")")),
        "{list}"
    );
    assert!(list.contains("WEFT_PROCESS_MANAGER"), "{list}");
}

#[test]
fn a_library_that_cannot_serve_is_a_line_and_no_failure() {
    for (library, said) in [
        ("/nowhere/libfabric.so.1", "libfabric: /nowhere/libfabric.so.1 cannot be loaded: cannot open"),
        ("libc.so.6", "libfabric: libc.so.6 is no libfabric: it has no `fi_version`"),
    ] {
        let (page, status) = doctor(&[], &[("WEFT_LIBFABRIC", library)]);
        assert_eq!(status, Some(0), "{page}");
        // Where the host has cards for RDMA, that they are not used is worth a word.
        let told = line(&page, "-", said).or_else(|| line(&page, "slow", said));
        assert!(told.is_some(), "no line `{said}` in\n{page}");
        let (page, status) = doctor(&[], &[("WEFT_LIBFABRIC", library), ("WEFT_FABRIC", "libfabric")]);
        assert_eq!(status, Some(1), "who asks for it cannot do without:\n{page}");
        assert!(line(&page, "BROKEN", said).is_some(), "no line `{said}` in\n{page}");
        assert!(page.contains("remedy: Install") && page.contains("1 thing is broken"), "{page}");
    }
}

#[test]
fn what_libfabric_has_is_told() {
    let (page, status) = doctor(&[], &[]);
    assert_eq!(status, Some(0), "{page}");
    let Some(library) = line(&page, "ok", "libfabric ") else {
        println!("LEFT OUT: there is no libfabric here (libfabric1)");
        return;
    };
    assert!(library.contains("/libfabric.so"), "{library}");
    assert!(line(&page, "-", "over sockets").is_some_and(|line| line.contains("tcp;ofi_rxm")), "{page}");
    let (page, status) = doctor(&[], &[("WEFT_FABRIC", "shm,libfabric:tcp;ofi_rxm")]);
    assert_eq!(status, Some(0), "{page}");
    assert!(line(&page, "ok", "named in WEFT_FABRIC").is_some(), "{page}");
    assert!(line(&page, "ok", "would be used").is_some_and(|line| line.contains("tcp;ofi_rxm")), "{page}");
    let trial = line(&page, "ok", "a job over libfabric").unwrap_or_default();
    assert!(trial.contains("2 ranks met; up to"), "{page}");
    let (page, status) = doctor(&[], &[("WEFT_FABRIC", "libfabric:no such provider")]);
    assert_eq!(status, Some(1), "{page}");
    assert!(line(&page, "BROKEN", "no provider `no such provider` serves here").is_some(), "{page}");
}
