//! Which rank reads the input of the launcher, and what becomes of the output of ranks.

mod common;

use std::io::Read;
use std::process::Stdio;

use common::{run_script, start_command, weftrun};

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
