//! What the launcher starts: the programs of a job, with their arguments, variables, folders and cpus.

mod common;

use std::os::unix::fs::PermissionsExt;

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
fn ranks_find_shared_memory_where_it_may_be_used() {
    let script = r#"test -n "$WEFT_SHM_FD" && test -e /proc/self/fd/$WEFT_SHM_FD && echo shared"#;
    assert_eq!(run_script(&["-n", "2"], script).output, "shared\nshared\n");
    assert_eq!(run_script(&["-n", "2", "--fabric", "tcp"], r#"test -z "$WEFT_SHM_FD""#).code(), 0);
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
