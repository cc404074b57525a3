//! Whole jobs: how ranks meet through the process manager, how a job ends, and which resources of the system
//! it needs.

mod common;

use rustix::process::Signal;
use std::io::Read;
use std::process::Stdio;

use common::{PMI, run_script, start_command, weftrun};

#[test]
fn the_status_is_that_of_the_rank_that_failed() {
    for (script, code) in [
        ("test $PMI_RANK != 1 || exit 3; sleep 1000", 3),
        ("test $PMI_RANK != 2 || exit 255; sleep 1000", 255),
        ("test $PMI_RANK != 0 || kill -9 $$; sleep 1000", 137),
        ("test $PMI_RANK != 0 || kill -SEGV $$; sleep 1000", 139),
        ("exit 0", 0),
    ] {
        assert_eq!(run_script(&["-n", "3"], script).code(), code, "{script}");
    }
}

#[test]
fn a_death_is_told_once_with_rank_process_and_host() {
    let script = r#"test $PMI_RANK != 1 && exec sleep 1000; echo $$; kill -9 $$"#;
    let outcome = run_script(&["-n", "4"], script);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let told = format!(
        "weftrun: rank 1 (process {} on {}) was killed by SIGKILL",
        outcome.output.trim(),
        host.trim()
    );
    assert_eq!(outcome.errors.matches(&told).count(), 1, "{}", outcome.errors);
    assert_eq!(outcome.errors.lines().count(), 2, "what happened, and what to do: {}", outcome.errors);
}

#[test]
fn last_words_come_before_the_message_and_the_others_after() {
    let script = r#"
        trap 'echo "rank $PMI_RANK was told to end" >&2; exit 1' TERM
        if [ $PMI_RANK = 2 ]; then for i in $(seq 500); do echo "last words $i" >&2; done; kill -9 $$; fi
        sleep 1000 & wait"#;
    let outcome = run_script(&["-l", "-n", "4"], script);
    let place =
        |text: &str| outcome.errors.find(text).unwrap_or_else(|| panic!("`{text}` in {}", outcome.errors));
    let message = place("weftrun: rank 2");
    assert!(place("[2] last words 500") < message, "{}", outcome.errors);
    if let Some(after) = outcome.errors.find("was told to end") {
        assert!(message < after, "{}", outcome.errors);
    }
    assert_eq!(outcome.code(), 137);
}

#[test]
fn ranks_meet_through_the_process_manager() {
    let script = format!(
        r#"{PMI}
        init; ask "cmd=get_my_kvsname"; space=${{answer##*kvsname=}}
        ask "cmd=put kvsname=$space key=card-$PMI_RANK value=address-$PMI_RANK"
        ask "cmd=barrier_in"
        ask "cmd=get kvsname=$space key=card-$(( (PMI_RANK + 1) % PMI_SIZE ))"; echo "${{answer##*value=}}"
        ask "cmd=finalize"; echo "$answer""#
    );
    let outcome = run_script(&["-n", "5"], &script);
    let mut expected: Vec<String> = (0..5).map(|rank| format!("address-{rank}")).collect();
    expected.extend(std::iter::repeat_n("cmd=finalize_ack rc=0".to_owned(), 5));
    assert_eq!(outcome.sorted_lines(), expected);
    assert_eq!((outcome.code(), outcome.errors.as_str()), (0, ""));
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let abort = r#"echo giving up >&2; echo "cmd=abort exitcode=7" >&"$PMI_FD""#;
    let script = format!("{PMI} init; if [ $PMI_RANK = 1 ]; then {abort}; fi; sleep 1000");
    for options in [&["-n", "3"][..], &["-l", "-n", "3"]] {
        let outcome = run_script(options, &script);
        assert_eq!(outcome.code(), 7);
        let words = outcome.errors.find("giving up").unwrap();
        assert!(words < outcome.errors.find("called MPI_Abort(7)").unwrap(), "{}", outcome.errors);
    }
}

#[test]
fn an_abort_is_believed_though_the_rank_dies_at_once() {
    let script = format!(
        r#"{PMI} init; test $PMI_RANK = 0 || sleep 1000; echo "cmd=abort exitcode=7" >&"$PMI_FD"; exit 1"#
    );
    assert_eq!(run_script(&["-n", "2"], &script).code(), 7);
}

#[test]
fn leaving_without_finalize_ends_the_job() {
    let script = format!("{PMI} init; test $PMI_RANK = 2 && exit 0; ask cmd=barrier_in");
    let outcome = run_script(&["-n", "3"], &script);
    assert_eq!(outcome.code(), 1);
    assert!(outcome.errors.contains("weftrun: rank 2"), "{}", outcome.errors);
    assert!(outcome.errors.contains("exited without calling MPI_Finalize"), "{}", outcome.errors);
}

#[test]
fn a_rank_that_never_comes_to_the_start_ends_the_job() {
    let others = "ask cmd=barrier_in";
    for options in [&[][..], &["--ft"], &["--ft=rebuild"]] {
        // Before the others wait, and while they do.
        for wait in ["", "sleep 0.3;"] {
            let script = format!("if [ $PMI_RANK = 2 ]; then {wait} exit 0; fi; {PMI} init; {others}");
            let outcome = run_script(&[&["-n", "3", "--timeout", "20"], options].concat(), &script);
            assert_eq!(outcome.code(), 1, "{}", outcome.errors);
            assert!(outcome.errors.contains("weftrun: rank 2"), "{}", outcome.errors);
            assert!(outcome.errors.contains("exited without calling MPI_Init"), "{}", outcome.errors);
        }
    }
}

#[test]
fn a_process_that_a_rank_leaves_behind_may_speak_for_it() {
    let meet = format!("{PMI} init; ask cmd=barrier_in; ask cmd=finalize; echo met");
    let script = format!("if [ $PMI_RANK = 1 ]; then (sleep 0.5; {meet}) & exit 0; fi; {meet}; sleep 1");
    let outcome = run_script(&["-n", "2", "--timeout", "20"], &script);
    assert_eq!((outcome.code(), outcome.errors.as_str()), (0, ""));
}

#[test]
fn leaving_after_finalize_disturbs_nobody() {
    let script = format!("{PMI} init; ask cmd=finalize; test $PMI_RANK = 0 && exit 4; sleep 0.2; echo done");
    let outcome = run_script(&["-n", "3"], &script);
    assert_eq!(outcome.sorted_lines(), ["done", "done"]);
    assert_eq!(outcome.code(), 4);
    assert!(outcome.errors.contains("exited with status 4 after MPI_Finalize"), "{}", outcome.errors);
}

#[test]
fn nonsense_for_the_process_manager_ends_the_job() {
    for nonsense in ["echo nonsense", "head -c 100000 /dev/zero", "head -c 100000 /dev/urandom"] {
        let script = format!(r#"test $PMI_RANK = 1 && {nonsense} >&"$PMI_FD"; sleep 1000"#);
        let outcome = run_script(&["-n", "2"], &script);
        assert_eq!(outcome.code(), 1, "{}", outcome.errors);
        assert!(outcome.errors.contains("broke the process manager's protocol"), "{}", outcome.errors);
    }
}

#[test]
fn a_client_that_never_reads_cannot_hold_up_the_job() {
    let flood = r#"yes "cmd=get_maxes" >&"$PMI_FD""#;
    let script = format!("{PMI} init; if [ $PMI_RANK = 0 ]; then {flood}; fi; sleep 1000");
    let outcome = run_script(&["-n", "2"], &script);
    assert_eq!(outcome.code(), 1);
    assert!(outcome.errors.contains("does not read its answers"), "{}", outcome.errors);
}

#[test]
fn what_ranks_leave_in_the_background_is_ended() {
    let outcome = run_script(&["-n", "2"], "sleep 1000 & setsid sleep 1000 & echo started; exit 0");
    assert_eq!((outcome.code(), outcome.output.as_str()), (0, "started\nstarted\n"));
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let outcome = run_script(&["-n", "3", "--timeout", "0.3"], "test $PMI_RANK = 1 || sleep 1000");
    assert_eq!(outcome.code(), 124);
    assert!(
        outcome.errors.contains("the job was not done after 0.3 s; still running: ranks 0, 2"),
        "{}",
        outcome.errors
    );
}

#[test]
fn ranks_that_leave_the_process_group_are_still_the_launchers() {
    let script = "test $PMI_RANK = 1 && exec setsid sh -c 'sleep 0.1; exit 3'; exec setsid sleep 1000";
    assert_eq!(run_script(&["-n", "3"], script).code(), 3);
}

#[test]
fn ranks_that_do_not_want_to_end_are_killed() {
    let script = "trap '' TERM INT HUP; test $PMI_RANK = 0 && exit 3; while :; do sleep 1000; done";
    assert_eq!(run_script(&["-n", "3"], script).code(), 3);
}

#[test]
fn a_job_inside_a_job_sees_only_its_own() {
    let inner = format!("'{}' -n 2 bash -c 'echo $PMI_RANK/$PMI_SIZE'", env!("CARGO_BIN_EXE_weftrun"));
    let outcome = run_script(&["-n", "2"], &inner);
    assert_eq!(outcome.sorted_lines(), ["0/2", "0/2", "1/2", "1/2"]);
    assert_eq!(outcome.code(), 0, "{}", outcome.errors);
}

#[test]
fn more_ranks_than_cores_and_more_than_the_usual_descriptors() {
    let (command, mark) = weftrun(&["-l", "-n", "60", "sh", "-c", "ulimit -n; test $PMI_SIZE = 60"]);
    let mut limited = std::process::Command::new("bash");
    limited
        .args(["-c", r#"ulimit -Sn 64; exec "$0" "$@""#])
        .arg(command.get_program())
        .args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let outcome = start_command(limited, mark).finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.errors);
    let kept = outcome.output.lines().filter(|line| line.ends_with("] 64")).count();
    assert_eq!(kept, 60, "ranks keep the limit that the launcher was started with: {}", outcome.output);
}

#[test]
fn too_few_descriptors_are_told_with_the_need() {
    let (command, mark) = weftrun(&["-n", "60", "true"]);
    let mut limited = std::process::Command::new("bash");
    limited
        .args(["-c", r#"ulimit -n 64; exec "$0" "$@""#])
        .arg(command.get_program())
        .args(command.get_args());
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let outcome = start_command(limited, mark).finish();
    assert_eq!(outcome.code(), 1);
    assert!(outcome.errors.contains("60 ranks need 212 descriptors, and only 64"), "{}", outcome.errors);
}

#[test]
fn no_file_is_left() {
    let folder = tempfile::tempdir().unwrap();
    for script in ["true", "exit 3", "kill -9 $$"] {
        let (mut command, mark) = weftrun(&["-l", "-n", "3", "sh", "-c", script]);
        command.env("TMPDIR", folder.path()).current_dir(folder.path());
        start_command(command, mark).finish();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "after `{script}`");
    }
}

/// Ranks that ignore the first wish are killed at the second.
#[test]
fn who_asks_twice_is_obeyed() {
    let script = "trap '' TERM INT; echo ready; while :; do sleep 1000; done";
    for (signal, code, told) in
        [(Signal::TERM, 143, "asked to end twice, last by SIGTERM"), (Signal::INT, 130, "interrupted twice")]
    {
        let (mut command, mark) = weftrun(&["-n", "2", "bash", "-c", script]);
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer);
        let launcher = start_command(command, mark);
        let mut ready = [0; 12];
        reader.read_exact(&mut ready).unwrap();
        launcher.signal(signal);
        // Signals that come together are one; nothing tells that the first was heard.
        std::thread::sleep(std::time::Duration::from_millis(400));
        assert_eq!(launcher.mark.expect_children(launcher.pid().as_raw_pid(), 1).len(), 1, "it waits");
        launcher.signal(signal);
        let outcome = launcher.finish();
        assert_eq!(outcome.code(), code, "{}", outcome.errors);
        assert!(outcome.errors.contains(told), "{}", outcome.errors);
    }
}

#[test]
fn signals_that_were_ignored_at_the_start_are_ignored_by_ranks() {
    let script = "grep SigIgn /proc/self/status | cut -f 2";
    let ignored = |signals: &str| {
        let (launcher, mark) = weftrun(&["-n", "1", "bash", "-c", script]);
        let mut command = std::process::Command::new("env");
        // Whoever runs the tests may have ignored some already, as nohup does.
        command.arg("--default-signal=HUP,PIPE").arg(format!("--ignore-signal={signals}"));
        command.args(launcher.get_args().skip(1));
        command.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let outcome = start_command(command, mark).finish();
        let mask = u64::from_str_radix(outcome.output.trim(), 16).expect("a mask");
        [1, 13].map(|signal| mask & 1 << (signal - 1) != 0)
    };
    assert_eq!(ignored("USR2"), [false, false]);
    assert_eq!(ignored("PIPE"), [false, true]);
    assert_eq!(ignored("HUP,PIPE"), [true, true]);
}

#[test]
fn what_is_said_of_a_signal_fits_it() {
    for (signal, words) in [
        ("TERM", "neither the launcher nor a fault sent it"),
        ("ALRM", "a timer of its own"),
        ("ABRT", "for a core file"),
    ] {
        let outcome =
            run_script(&["-n", "2"], &format!("[ $PMI_RANK = 1 ] && kill -{signal} $$; sleep 1000"));
        assert!(outcome.errors.contains(words), "{}", outcome.errors);
        assert_eq!(outcome.errors.contains("core file"), signal == "ABRT", "{}", outcome.errors);
    }
}
