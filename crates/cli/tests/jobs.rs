//! Whole jobs: what ranks are given, what becomes of their output, and how a job ends.

mod common;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;

use common::{PMI, run, run_script, start_command, weftrun};

#[test]
fn every_rank_runs_once_and_knows_its_place() {
    let outcome = run_script(&["-n", "4"], r#"echo "$PMI_RANK of $PMI_SIZE""#);
    assert_eq!(outcome.sorted_lines(), ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]);
    assert_eq!((outcome.code(), outcome.errors.as_str()), (0, ""));
}

#[test]
fn without_a_number_there_is_a_rank_for_each_core() {
    let outcome = run_script(&[], "echo $PMI_SIZE");
    let lines = outcome.sorted_lines();
    assert_eq!(lines.len().to_string(), lines[0]);
}

#[test]
fn arguments_reach_the_program_untouched() {
    let outcome = run(&["-np", "1", "printf", "<%s>", "-n", "a b", "", "--label", "*"]);
    assert_eq!(outcome.output, "<-n><a b><><--label><*>");
}

#[test]
fn variables_and_folder_reach_the_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let path = path.to_str().unwrap();
    let options = ["-n", "1", "-x", "COLOUR=red", "--env", "SIZE=1 m", "--fabric", "tcp,shm", "--wdir", path];
    let outcome = run_script(&options, r#"echo "$COLOUR|$SIZE|$WEFT_FABRIC|$PWD|$(pwd -P)""#);
    assert_eq!(outcome.output.trim(), format!("red|1 m|tcp,shm|{path}|{path}"));
}

#[test]
fn a_variable_that_is_not_there_is_told() {
    let outcome = run(&["-n", "1", "-x", "NOT_SET_ANYWHERE", "true"]);
    assert_eq!(outcome.code(), 0);
    assert!(outcome.errors.contains("-x NOT_SET_ANYWHERE: there is no such variable"), "{}", outcome.errors);
}

/// What each rank of several programs is given of its own.
#[test]
fn several_programs_are_one_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let path = path.to_str().unwrap();
    let script = format!(
        r#"{PMI} init; ask "cmd=get_appnum"; number=$answer; ask "cmd=get_universe_size"
        echo "$PMI_RANK/$PMI_SIZE $1 ${{A-}}${{B-}} $(pwd) $number $answer"; ask "cmd=finalize""#
    );
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    let outcome = run(&[
        "-n", "1", "-env", "A", "1", "bash", "-c", &script, "x", "a", ":", "-n", "2", "-wdir", path, "-x",
        "B=2", "bash", "-c", &script, "x", "b",
    ]);
    assert_eq!(outcome.code(), 0, "{}", outcome.errors);
    let of_b = |rank| format!("{rank}/3 b 2 {path} cmd=appnum rc=0 appnum=1 cmd=universe_size rc=0 size=3");
    let of_a = format!("0/3 a 1 {} cmd=appnum rc=0 appnum=0 cmd=universe_size rc=0 size=3", here.display());
    assert_eq!(outcome.sorted_lines(), [of_a, of_b(1), of_b(2)]);
}

#[test]
fn a_part_that_cannot_be_is_told_once() {
    let one = |arguments: &[&str], code: i32, words: &[&str]| {
        let outcome = run(arguments);
        assert_eq!(outcome.code(), code, "{arguments:?}: {}", outcome.errors);
        for word in words {
            assert_eq!(outcome.errors.matches(word).count(), 1, "{arguments:?}: {}", outcome.errors);
        }
        outcome
    };
    let missing = one(
        &["-n", "1", "echo", "a", ":", "-n", "2", "./no-such"],
        127,
        &["cannot find the program `./no-such`"],
    );
    assert_eq!(missing.output, "", "nothing was started");
    one(&["-n", "1", "true", ":", "-n", "0", "true"], 2, &["0 is not in 1..=65536"]);
    one(&["-n", "1", "true", ":", "-n", "1"], 2, &["part 2 of 2 (--np=1) names no program"]);
    let fabrics =
        ["-n", "1", "-x", "WEFT_FABRIC=tcp", "true", ":", "-n", "1", "-x", "WEFT_FABRIC=shm", "false"];
    one(&fabrics, 1, &["`true` has WEFT_FABRIC=tcp, `false` has WEFT_FABRIC=shm", "--fabric LIST once"]);
    one(&["-n", "1", "sleep", "1000", ":", "-n", "1", "sh", "-c", "exit 5"], 5, &["rank 1 (process"]);
}

#[test]
fn variables_are_passed_on_as_is_said() {
    let seen = |options: &[&str]| {
        let script = r#"echo "${A-no} ${HOME-no} ${PMI_RANK-no}""#;
        let (mut command, mark) = weftrun(&[&["-n", "1"], options, &["/bin/sh", "-c", script]].concat());
        command.env("A", "outer").env("HOME", "/h");
        let outcome = start_command(command, mark).finish();
        assert_eq!(outcome.code(), 0, "{options:?}: {}", outcome.errors);
        outcome.output.trim().to_owned()
    };
    for (options, expected) in [
        (&[][..], "outer /h 0"),
        (&["-genvnone"], "no no 0"),
        (&["-genvlist", "HOME,B"], "no /h 0"),
        (&["-genvnone", "-envall"], "outer /h 0"),
        (&["-envlist", "A"], "outer no 0"),
        (&["-envnone", "-x", "A"], "outer no 0"),
        (&["-envnone", "-x", "HO*"], "no /h 0"),
        (&["-genvnone", "-genv", "A", "1", "-env", "HOME", "2"], "1 2 0"),
        (&["-genv", "A=1", "-env", "A=2"], "2 /h 0"),
        (&["-env", "A", "2", "-genv", "A", "1"], "2 /h 0"),
    ] {
        assert_eq!(seen(options), expected, "{options:?}");
    }
}

#[test]
fn variables_of_other_launchers_are_heeded() {
    let (mut command, mark) = weftrun(&["-n", "1", "sh", "-c", "echo $WEFT_TCP_PORTS; sleep 1000"]);
    command.env("MPIEXEC_TIMEOUT", "0.3").env("MPIEXEC_PORT_RANGE", "5000:5100");
    let outcome = start_command(command, mark).finish();
    assert_eq!((outcome.code(), outcome.output.trim()), (124, "5000-5100"), "{}", outcome.errors);
    let (mut command, mark) = weftrun(&["-n", "1", "true"]);
    command.env("MPIEXEC_TIMEOUT", "soon");
    let outcome = start_command(command, mark).finish();
    assert!(outcome.errors.contains("MPIEXEC_TIMEOUT=soon: a number of seconds"), "{}", outcome.errors);
}

#[test]
fn a_program_relative_to_the_folder_is_found_there() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hello");
    std::fs::write(&program, "#!/bin/sh\necho hello\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = run(&["-n", "1", "--wdir", folder.path().to_str().unwrap(), "./hello"]);
    assert_eq!(outcome.output, "hello\n", "{}", outcome.errors);
}

#[test]
fn only_rank_0_reads_the_input() {
    let (mut command, mark) = weftrun(&["-n", "3", "-l", "bash", "-c", r#"echo "got $(cat)""#]);
    command.stdin(Stdio::piped());
    let mut launcher = start_command(command, mark);
    launcher.feed("for zero");
    assert_eq!(launcher.finish().sorted_lines(), ["[0] got for zero", "[1] got ", "[2] got "]);
}

#[test]
fn labelled_lines_are_whole_and_complete() {
    // Lines of many lengths, written in pieces by four ranks at once, and a last one without an end.
    let script = r#"for i in $(seq 300); do printf "%0*d" $((i % 90 + 1)) 0; printf " line %d\n" $i; done; printf end"#;
    let outcome = run_script(&["-l", "-n", "4"], script);
    for rank in 0..4 {
        let label = format!("[{rank}] ");
        let lines: Vec<&str> = outcome.output.lines().filter_map(|line| line.strip_prefix(&label)).collect();
        assert_eq!(lines.len(), 301);
        for (index, line) in lines[..300].iter().enumerate() {
            let number = index + 1;
            assert_eq!(*line, format!("{} line {number}", "0".repeat(number % 90 + 1)));
        }
        assert_eq!(lines[300], "end");
    }
    assert_eq!(outcome.output.lines().count(), 4 * 301);
}

/// Programs in C write blocks of 4,096 bytes to a pipe, which end anywhere in a line.
#[test]
fn lines_of_ranks_are_whole_without_labels() {
    let script = r#"for i in $(seq 3000); do printf "%s:%0*d.\n" $PMI_RANK $((i % 90 + 1)) $i; done > $PMI_RANK
        dd if=$PMI_RANK bs=4096 2>/dev/null; printf end"#;
    let folder = tempfile::tempdir().unwrap();
    let options = ["-n", "4", "--wdir", folder.path().to_str().unwrap()];
    let outcome = run_script(&options, script);
    let (lines, ends): (Vec<&str>, Vec<&str>) = outcome.output.lines().partition(|line| *line != "end");
    assert_eq!((lines.len(), ends.len()), (4 * 3000, 4));
    for rank in 0..4 {
        let start = format!("{rank}:");
        let own = lines.iter().filter_map(|line| line.strip_prefix(&start)?.strip_suffix('.'));
        let numbers: Vec<u32> = own.map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers, (1..=3000).collect::<Vec<_>>());
    }
    assert!(outcome.output.ends_with("end"), "nothing is added behind the last byte");
}

/// It is not shown until nobody else writes; a person must see it before they answer.
#[test]
fn a_question_is_shown_before_its_answer() {
    for (rank, options) in [(0, &["-n", "2"][..]), (0, &["-l", "-n", "2"]), (1, &["--stdin", "1", "-n", "2"])]
    {
        let script = r#"[ $PMI_RANK != $READER ] || { printf '? '; read -r a; echo "<$a>"; }"#;
        let words = [options, &["bash", "-c", script]];
        let (mut command, mark) = weftrun(&words.concat());
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.env("READER", rank.to_string()).stdin(Stdio::piped()).stdout(writer);
        let mut launcher = start_command(command, mark);
        let mut shown = Vec::new();
        while !shown.ends_with(b"? ") {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            shown.extend(byte);
        }
        launcher.feed("yes\n");
        assert_eq!(launcher.finish().code(), 0);
        reader.read_to_end(&mut shown).unwrap();
        let label = if options[0] == "-l" { "[0] " } else { "" };
        assert_eq!(String::from_utf8(shown).unwrap(), format!("{label}? <yes>\n"));
    }
}

#[test]
fn what_a_rank_writes_to_one_file_keeps_its_order() {
    let (mut command, mark) =
        weftrun(&["-n", "2", "bash", "-c", "for i in $(seq 200); do echo out $i; echo err $i >&2; done"]);
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.stderr(writer.try_clone().unwrap()).stdout(writer);
    let launcher = start_command(command, mark);
    let mut all = String::new();
    reader.read_to_string(&mut all).unwrap();
    assert_eq!(launcher.finish().code(), 0);
    for kind in ["out", "err"] {
        assert_eq!(all.lines().filter(|line| line.starts_with(kind)).count(), 400);
    }
    // Of each two ranks one is ahead: a number comes as an error only when it has come as output as often.
    let (mut outs, mut errors) = ([0; 201], [0; 201]);
    for line in all.lines() {
        let (kind, number) = line.split_once(' ').unwrap();
        let number: usize = number.parse().unwrap();
        *if kind == "out" { &mut outs[number] } else { &mut errors[number] } += 1;
        assert!(errors[number] <= outs[number], "{line}");
    }
}

#[test]
fn labelled_errors_stay_errors() {
    let outcome = run_script(&["-l", "-n", "2"], "echo out; echo err >&2");
    assert_eq!(outcome.sorted_lines(), ["[0] out", "[1] out"]);
    let mut errors: Vec<&str> = outcome.errors.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0] err", "[1] err"]);
}

#[test]
fn a_reader_who_leaves_ends_the_job() {
    let (mut command, mark) = weftrun(&["-l", "-n", "2", "yes"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer);
    let launcher = start_command(command, mark);
    drop(reader);
    let outcome = launcher.finish();
    assert_eq!(outcome.code(), 128 + 13, "{}", outcome.errors);
    assert!(outcome.errors.contains("killed by SIGPIPE"), "{}", outcome.errors);
}

#[test]
fn output_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (command, mark) = weftrun(&["-n", "2", "--fabric", "tcp", "yes"]);
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", r#"trap '' XFSZ; ulimit -f 64; exec "$0" "$@""#]).arg(command.get_program());
    limited.args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let file = std::fs::File::create(folder.path().join("out")).unwrap();
    limited.stdin(Stdio::null()).stdout(file).stderr(Stdio::piped());
    let outcome = start_command(limited, mark).finish();
    assert_ne!(outcome.code(), 0);
    assert!(
        outcome.errors.contains("cannot write what the ranks print: File too large"),
        "{}",
        outcome.errors
    );
}

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
fn programs_that_cannot_run_have_the_status_of_shells() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "text").unwrap();
    let text = text.to_str().unwrap();
    for (program, code, told) in [
        ("no-such-program", 127, "cannot find the program `no-such-program`"),
        ("./no/such", 127, "cannot find the program `./no/such`"),
        (text, 126, "chmod +x"),
        ("/", 126, "it is a folder"),
    ] {
        let outcome = run(&["-n", "4", program]);
        assert_eq!(outcome.code(), code, "{}", outcome.errors);
        assert_eq!(outcome.errors.matches(told).count(), 1, "{}", outcome.errors);
    }
}

#[test]
fn a_broken_program_file_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("broken");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = run(&["-n", "4", program.to_str().unwrap()]);
    assert_eq!(outcome.code(), 127, "{}", outcome.errors);
    let told = "its first line names the interpreter `/no/such/interpreter`, which is not there";
    assert_eq!(outcome.errors.matches(told).count(), 1, "{}", outcome.errors);
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
fn ranks_find_shared_memory_where_it_may_be_used() {
    let script = r#"test -n "$WEFT_SHM_FD" && test -e /proc/self/fd/$WEFT_SHM_FD && echo shared"#;
    assert_eq!(run_script(&["-n", "2"], script).output, "shared\nshared\n");
    assert_eq!(run_script(&["-n", "2", "--fabric", "tcp"], r#"test -z "$WEFT_SHM_FD""#).code(), 0);
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
fn binding_is_as_asked_for() {
    let list = "grep Cpus_allowed_list /proc/self/status";
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    assert_eq!(run_script(&["-n", "2", "--bind", "none"], list).sorted_lines(), [own, own]);
    let bound = run_script(&["-n", "1", "--bind", "cores", "--verbose"], list);
    let cpus = bound.output.split_whitespace().next_back().unwrap().to_owned();
    assert!(bound.errors.contains(&format!("on cpus {cpus}")), "{}", bound.errors);
    let too_many = run(&["-n", "60000", "--bind", "cores", "true"]);
    assert_eq!(too_many.code(), 1);
    assert!(too_many.errors.contains("leave --bind-to out"), "{}", too_many.errors);
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
fn other_names_show_in_usage_and_messages() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mpiexec", "mpirun"] {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weftrun"), &link).unwrap();
        let ask = |arguments: &[&str]| std::process::Command::new(&link).args(arguments).output().unwrap();
        let help = String::from_utf8(ask(&["--help"]).stdout).unwrap();
        assert!(help.contains(&format!("Usage: {name} [OPTIONS] <PROGRAM>...")), "{help}");
        let errors = String::from_utf8(ask(&["-np", "2", "sh", "-c", "exit 3"]).stderr).unwrap();
        assert!(errors.starts_with(&format!("{name}: rank ")), "{errors}");
    }
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

#[test]
fn ranks_find_the_library_that_is_installed_beside_the_launcher() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().canonicalize().unwrap();
    for part in ["bin", "lib"] {
        std::fs::create_dir(prefix.join(part)).unwrap();
    }
    let launcher = prefix.join("bin/weftrun");
    std::fs::copy(env!("CARGO_BIN_EXE_weftrun"), &launcher).unwrap();
    let path = |set: Option<&str>, options: &[&str]| {
        let mut command = std::process::Command::new(&launcher);
        command.args(options).args(["-n", "1", "sh", "-c", "echo \"$LD_LIBRARY_PATH\""]);
        command.env_remove("LD_LIBRARY_PATH").envs(set.map(|value| ("LD_LIBRARY_PATH", value)));
        String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
    };
    assert_eq!(path(Some("/a"), &[]), "/a", "there is no library");
    std::fs::write(prefix.join("lib/libmpi_abi.so.1"), "").unwrap();
    let lib = prefix.join("lib").display().to_string();
    assert_eq!(path(None, &[]), lib);
    assert_eq!(path(Some("/a:/b"), &[]), format!("/a:/b:{lib}"));
    assert_eq!(path(Some("/a"), &["-x", "LD_LIBRARY_PATH=/c"]), format!("/c:{lib}"));
    assert_eq!(path(Some(&format!("{lib}:/a")), &[]), format!("{lib}:/a"), "once is enough");
}
