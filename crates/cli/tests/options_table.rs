//! The table of options in `docs/running.md`: each of its rows is tried here, by the names that each launcher
//! has for it.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use common::{Outcome, run, run_script, start_command, weftrun};

/// The first cell of each row, and what tries it.
const ROWS: &[(&str, fn())] = &[
    ("number of ranks", number_of_ranks),
    ("several programs", several_programs),
    ("programs in a file", programs_in_a_file),
    ("folder", folder),
    ("where programs are looked for", search_path),
    ("variable for all ranks", variable_for_all),
    ("variable for one program", variable_for_one),
    ("which variables are passed on", variables_passed_on),
    ("ranks on each node", ranks_on_each_node),
    ("ranks on each socket", ranks_on_each_socket),
    ("what ranks are bound to", binding),
    ("how ranks are dealt out", mapping),
    ("order of ranks", ranking),
    ("cores for each rank", cores_for_each),
    ("only some cpus", some_cpus),
    ("tell what ranks are bound to", report_bindings),
    ("tell where ranks go", display_map),
    ("rank before each line", label),
    ("output into files", files),
    ("who reads the input", input),
    ("fewer words", quiet),
    ("time limit", time_limit),
    ("ports", ports),
    ("MPI_UNIVERSE_SIZE", universe),
    ("go on when a rank fails", survival),
    ("more ranks than cores, root", oversubscribe),
    ("hosts", hosts),
    ("how ranks start on other hosts", other_hosts),
    ("parameters of the library of others", parameters),
    ("what is refused", refused),
];

#[test]
fn every_row_is_tried_and_there_is_no_other() {
    let page = include_str!("../../../docs/running.md");
    let table = page.split("| to say | MPICH |").nth(1).expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let told: Vec<&str> = rows.map(|line| line.split('|').nth(1).expect("a cell").trim()).collect();
    let tried: Vec<&str> = ROWS.iter().map(|(row, _)| *row).collect();
    assert_eq!(told, tried);
    for (row, check) in ROWS {
        eprintln!("row: {row}");
        check();
    }
}

/// Runs a script after each of these options, each time with the same output.
fn same(forms: &[&[&str]], script: &str, expected: &[&str]) {
    for form in forms {
        let outcome = run_script(form, script);
        assert_eq!(outcome.sorted_lines(), expected, "{form:?}: {}", outcome.errors);
        assert_eq!(outcome.code(), 0, "{form:?}");
    }
}

fn says(outcome: &Outcome, words: &str) {
    assert!(outcome.errors.contains(words), "{words} is not in {}", outcome.errors);
}

fn number_of_ranks() {
    same(&[&["-n", "2"], &["-np", "2"], &["-c", "2"], &["--ntasks=2"], &["-n2"]], "echo x", &["x", "x"]);
}

fn several_programs() {
    let outcome = run(&["-n", "1", "echo", "a", ":", "-np", "2", "echo", "b"]);
    assert_eq!(outcome.sorted_lines(), ["a", "b", "b"]);
}

fn programs_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parts");
    std::fs::write(&file, "# two\n-n 1 echo 'a  b'\n-n 2 echo c\n").unwrap();
    for option in ["-configfile", "--app"] {
        assert_eq!(run(&[option, file.to_str().unwrap()]).sorted_lines(), ["a  b", "c", "c"]);
    }
}

fn folder() {
    same(&[&["-n", "1", "-wdir", "/"], &["-n", "1", "--wd", "/"], &["-n", "1", "--chdir=/"]], "pwd", &["/"]);
}

fn search_path() {
    let folder = tempfile::tempdir().unwrap();
    program(&folder.path().join("only-here"), "echo found");
    let outcome = run(&["-n", "1", "-path", folder.path().to_str().unwrap(), "only-here"]);
    assert_eq!(outcome.output, "found\n", "{}", outcome.errors);
}

fn program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn variable_for_all() {
    let forms: [&[&str]; 4] = [
        &["-n", "1", "-genv", "A", "1"],
        &["-n", "1", "-genv", "A=1"],
        &["-n", "1", "-x", "A=1"],
        &["-n", "1", "-xA=1"],
    ];
    same(&forms, "echo $A", &["1"]);
}

fn variable_for_one() {
    let show = ["sh", "-c", "echo ${A-none}"];
    let outcome = run(&[&["-n", "1", "-env", "A", "1"], &show[..], &[":", "-n", "1"], &show[..]].concat());
    assert_eq!(outcome.sorted_lines(), ["1", "none"]);
}

fn variables_passed_on() {
    let script = "echo ${HOME+home}";
    same(
        &[
            &["-n", "1", "-genvall"],
            &["-n", "1", "-genvlist", "HOME"],
            &["-n", "1", "-envnone", "-x", "HOME"],
        ],
        script,
        &["home"],
    );
    for option in ["-genvnone", "-envnone"] {
        let outcome = run(&["-n", "1", option, "/bin/sh", "-c", script]);
        assert_eq!(outcome.output, "\n", "{option}");
    }
}

fn ranks_on_each_node() {
    let forms: [&[&str]; 5] = [
        &["-ppn", "2"],
        &["--npernode", "2"],
        &["-N", "2"],
        &["--ntasks-per-node=2"],
        &["-n", "2", "-ppn", "2"],
    ];
    same(&forms, "echo x", &["x", "x"]);
    same(&[&["-pernode"]], "echo x", &["x"]);
}

fn ranks_on_each_socket() {
    let by_unit = run_script(&["--map-by", "ppr:1:socket"], "echo x").sorted_lines().len();
    assert_eq!(run_script(&["--npersocket", "1"], "echo x").sorted_lines().len(), by_unit);
    assert!(by_unit >= 1);
}

/// What one rank may run on, after these options.
fn cpus(options: &[&str]) -> String {
    let outcome = run_script(
        &[&["-n", "1"], options].concat(),
        "sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status",
    );
    assert_eq!(outcome.code(), 0, "{options:?}: {}", outcome.errors);
    outcome.output.trim().to_owned()
}

/// The first cpu that this process may run on, and all of them.
fn own_cpus() -> (String, String) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let all = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap().to_owned();
    (all.split([',', '-']).next().unwrap().to_owned(), all)
}

fn binding() {
    let (first, all) = own_cpus();
    assert_eq!(cpus(&["-bind-to", "hwthread"]), first);
    assert_eq!(cpus(&["--bind-to", "none"]), all);
    assert_eq!(cpus(&["--bind-to", "board"]), all);
    assert_eq!(cpus(&["-bind-to", &format!("user:{first}")]), first);
    for unit in ["core", "l3cache", "numa", "socket"] {
        let set = cpus(&["--bind-to", unit]);
        assert_eq!(set.split([',', '-']).next(), Some(first.as_str()), "{unit}");
    }
    says(&run_script(&["-n", "4000", "--bind-to", "core"], "true"), "--bind-to core:overload-allowed");
    assert_eq!(run_script(&["-n", "9", "--bind-to", "core:overload-allowed"], "true").code(), 0);
}

fn mapping() {
    let (first, all) = own_cpus();
    assert_eq!(cpus(&["--map-by", "hwthread"]), first);
    assert_eq!(cpus(&["-map-by", "slot"]), all, "one rank alone is not bound");
    assert_eq!(cpus(&["--map-by", "core", "--bind-to", "hwthread"]), first);
    says(&run_script(&["--map-by", "rack"], "true"), "choose from slot, node, hwthread, core");
}

fn ranking() {
    for order in ["slot", "fill", "span", "node", "core"] {
        assert_eq!(run_script(&["-n", "1", "--map-by", "core", "--rank-by", order], "true").code(), 0);
    }
    says(&run_script(&["--rank-by", "size"], "true"), "choose from slot, fill, span and node");
}

fn cores_for_each() {
    let one = cpus(&["--bind-to", "core"]);
    for form in [
        &["--map-by", "slot:PE=1"][..],
        &["--cpus-per-rank", "1"],
        &["--cpus-per-task=1"],
        &["-bind-to", "core:1"],
    ] {
        assert_eq!(cpus(form), one, "{form:?}");
    }
}

fn some_cpus() {
    let (first, _) = own_cpus();
    assert_eq!(cpus(&["--cpu-set", &first]), first);
    assert_eq!(cpus(&["--map-by", &format!("slot:PE-LIST={first}")]), first);
    let two = run_script(
        &["-n", "2", "--cpu-list", &first],
        "sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status",
    );
    assert_eq!(two.sorted_lines(), [first.as_str(), first.as_str()], "{}", two.errors);
    says(
        &run_script(&["--cpu-set", "9999"], "true"),
        "--cpu-set: cpu 9999 is none that this process may use",
    );
}

fn report_bindings() {
    let (first, _) = own_cpus();
    let outcome = run_script(&["-n", "1", "--bind-to", "hwthread", "--report-bindings"], "true");
    says(&outcome, "rank 0 is bound to ");
    says(&outcome, &format!("(cpus {first})"));
    says(&run_script(&["-n", "1", "--report-bindings"], "true"), "rank 0 is bound to nothing");
}

fn display_map() {
    for form in ["--display-map", "--display-allocation", "-print-rank-map"] {
        let outcome = run(&[form, "-n", "1", "true", ":", "-n", "1", "sleep", "0"]);
        says(&outcome, "2 ranks on ");
        says(&outcome, "rank 1: sleep, bound to ");
    }
}

fn label() {
    same(
        &[&["-n", "1", "-l"], &["-n", "1", "-prepend-rank"], &["-n", "1", "--tag-output"]],
        "echo x",
        &["[0] x"],
    );
}

fn files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2";
    let outcome = run_script(
        &["-n", "2", "-outfile-pattern", &path("o.%r"), "-errfile-pattern", &path("e.%r.%h")],
        script,
    );
    assert_eq!((outcome.output.as_str(), outcome.errors.as_str()), ("", ""));
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    assert_eq!(read("o.1"), "out 1\n");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(read(&format!("e.0.{host}")), "err 0\n");
    for (form, output) in [(path("all"), "out 0\nout 1"), (path("all:nocopy"), "")] {
        let outcome = run_script(&["-n", "2", "--output-filename", &form], script);
        assert_eq!(outcome.sorted_lines().join("\n"), output);
        assert_eq!(
            (read("all/1/rank.0/stdout"), read("all/1/rank.1/stderr")),
            ("out 0\n".into(), "err 1\n".into())
        );
    }
    says(
        &run(&["-n", "1", "-outfile-pattern", "/proc/none/x", "true"]),
        "cannot write the output of ranks to /proc/none/x",
    );
}

fn input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, "text").unwrap();
    for (rank, expected) in
        [("1", ["[0] ", "[1] text"]), ("all", ["[0] text", "[1] text"]), ("none", ["[0] ", "[1] "])]
    {
        let (mut command, mark) = weftrun(&["-l", "-n", "2", "--stdin", rank, "sh", "-c", "echo $(cat)"]);
        command.stdin(std::fs::File::open(&file).unwrap());
        assert_eq!(start_command(command, mark).finish().sorted_lines(), expected, "{rank}");
    }
    says(&run(&["-n", "2", "--stdin", "2", "true"]), "--stdin 2: there are 2 ranks only");
    let (mut command, mark) = weftrun(&["-n", "2", "--stdin", "all", "true"]);
    command.stdin(Stdio::piped());
    says(&start_command(command, mark).finish(), "write < FILE behind the command");
}

fn quiet() {
    says(&run(&["-n", "1", "-iface", "eth0", "true"]), "-iface eth0");
    for form in ["-q", "--quiet"] {
        assert_eq!(run(&[form, "-n", "1", "-iface", "eth0", "true"]).errors, "");
    }
}

fn time_limit() {
    assert_eq!(run(&["-n", "1", "--timeout", "0.2", "sleep", "1000"]).code(), 124);
    let (mut command, mark) = weftrun(&["-n", "1", "sleep", "1000"]);
    command.env("MPIEXEC_TIMEOUT", "0.2");
    assert_eq!(start_command(command, mark).finish().code(), 124);
}

fn ports() {
    let (mut command, mark) = weftrun(&["-n", "1", "printenv", "WEFT_TCP_PORTS"]);
    command.env("MPIEXEC_PORT_RANGE", "5000:5100");
    assert_eq!(start_command(command, mark).finish().output, "5000-5100\n");
}

fn universe() {
    let script =
        format!("{} init; ask cmd=get_universe_size; echo \"$answer\"; ask cmd=finalize", common::PMI);
    for (size, expected) in [("7", "size=7"), ("INFINITE", "size=-1")] {
        let outcome = run_script(&["-n", "1", "-usize", size], &script);
        assert!(outcome.output.trim().ends_with(expected), "{}", outcome.output);
    }
    assert_eq!(run_script(&["-n", "1", "-usize", "SYSTEM"], "true").code(), 0);
}

fn survival() {
    let forms: [&[&str]; 4] =
        [&["--ft"], &["-disable-auto-cleanup"], &["--with-ft", "ulfm"], &["--enable-recovery"]];
    for form in forms {
        let outcome = run_script(&[&["-n", "1"], form].concat(), "test -n \"$WEFT_FAILURES_FD\"");
        assert_eq!(outcome.code(), 0, "{form:?}");
    }
}

fn oversubscribe() {
    let outcome = run(&["--oversubscribe", "--allow-run-as-root", "-n", "9", "true"]);
    assert_eq!((outcome.code(), outcome.errors.as_str()), (0, ""));
}

fn hosts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts");
    std::fs::write(&file, "localhost slots=1\n127.0.0.1 slots=1\n").unwrap();
    let file = file.to_str().unwrap();
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let forms: [&[&str]; 7] = [
        &["-n", "2", "-host", "localhost"],
        &["-n", "2", "-hosts", &own],
        &["-H", "localhost:2"],
        &["-f", file],
        &["-hostfile", file],
        &["--machinefile", file],
        &["-n", "2", "--nodelist=127.0.0.1"],
    ];
    same(&forms, "echo x", &["x", "x"]);
    says(&run(&["-hosts", "a:0", "true"]), "`a:0` of a:0 is no host");
}

/// A launcher in PATH that tells its words, and ends with a status of its own.
fn other_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let start = |arguments: &[&str]| {
        let (mut command, mark) = weftrun(arguments);
        command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display())).env_remove("SLURM_JOB_ID");
        start_command(command, mark).finish()
    };
    // A name that no resolver is asked about.
    let elsewhere = ["-hosts", "192.0.2.1,192.0.2.2", "-n", "2", "echo", "x"];
    let missing = start(&elsewhere);
    assert_eq!(missing.code(), 1);
    says(&missing, "the hosts 192.0.2.1, 192.0.2.2: this launcher starts ranks on its own host");
    says(&missing, "install PRRTE or Open MPI 5 (prterun, mpirun) or MPICH (mpiexec.hydra)");
    let hydra = folder.path().join("mpiexec.hydra");
    program(&hydra, r#"echo "told: $*"; test -z "$PMI_RANK$PMI_FD" && exit 7"#);
    let handed = start(&[&["-launcher", "ssh", "-l"], &elsewhere[..]].concat());
    let words = "-launcher ssh -hosts 192.0.2.1,192.0.2.2 -prepend-rank -n 2 echo x";
    assert_eq!((handed.output.as_str(), handed.code()), (format!("told: {words}\n").as_str(), 7));
    assert_eq!(handed.errors, format!("weftrun: handed on to: {} {words}\n", hydra.display()));
    program(&hydra, "sleep 1000");
    let late = start(&[&["--timeout", "0.3", "-q"], &elsewhere[..]].concat());
    assert_eq!(late.code(), 124);
    says(&late, "the job was not done after 0.3 s");
    program(&hydra, r#"kill -9 $$"#);
    assert_eq!(start(&elsewhere).code(), 137);
    // One that is this launcher itself, under another name, is none.
    std::fs::remove_file(&hydra).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weftrun"), folder.path().join("mpiexec")).unwrap();
    says(&start(&elsewhere), "is not found here");
    // One that starts us again with the same hosts ends.
    program(&hydra, &format!(r#"exec "{}" -q "$@""#, env!("CARGO_BIN_EXE_weftrun")));
    says(&start(&elsewhere), "has handed this job on already");
    says(
        &run(&["-n", "1", "-launcher", "ssh", "-bootstrap", "ssh", "true"]),
        "ignored, since it means nothing on this host: -launcher ssh, -bootstrap ssh",
    );
}

fn parameters() {
    let outcome =
        run(&["--mca", "btl", "self", "--prtemca", "a", "b", "-gpus-per-proc", "1", "-n", "1", "echo", "x"]);
    assert_eq!(outcome.output, "x\n");
    says(&outcome, "--mca btl self, --prtemca a b");
    says(&outcome, "-gpus-per-proc 1");
    assert_eq!(outcome.errors.lines().count(), 1);
}

fn refused() {
    for (option, remedy) in [
        ("--rankfile", "--bind-to user:LIST"),
        ("-rankmap", "--bind-to user:LIST"),
        ("-prepend-pattern", "write -l"),
        ("--xterm", "xterm -e PROGRAM"),
        ("--preload-binary", "copy the program"),
        ("--frobnicate", "there is no such option"),
        ("-frobnicate", "-frobnicate: there is no such option"),
    ] {
        let outcome = run(&[option, "x", "true"]);
        assert_eq!(outcome.code(), 2, "{option}");
        says(&outcome, option);
        says(&outcome, remedy);
    }
}
