//! Signals and sudden deaths: of the launcher, of its supervisor, of ranks, at any moment. Nothing may be
//! left.

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Launcher, start, start_command, wait_for, weftrun};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Each rank is a shell with children of its own, one of which leaves the session.
const FAMILY: &str = "sleep 1000 & setsid sleep 1000 & sh -c 'sleep 1000; true' & echo up; wait";

/// A job of families, once all its processes are there.
fn family(options: &[&str], ranks: usize) -> Launcher {
    let launcher = start(&[options, &["-n", &ranks.to_string(), "sh", "-c", FAMILY]].concat());
    // Per rank: the shell, three sleeps, and the inner shell; and the two processes of the launcher.
    wait_for(&launcher.mark, "all families", || {
        (launcher.mark.processes().len() == 2 + 5 * ranks).then_some(())
    });
    launcher
}

#[test]
fn killing_the_launcher_ends_everything() {
    for options in [&[][..], &["-l"]] {
        let launcher = family(options, 3);
        launcher.signal(Signal::KILL);
        launcher.mark.expect_gone();
        assert_eq!(launcher.finish().code(), 137);
    }
}

#[test]
fn killing_the_supervisor_ends_everything_and_is_told() {
    let launcher = family(&[], 3);
    let supervisor = launcher.mark.supervisor(launcher.pid());
    kill_process(supervisor, Signal::KILL).unwrap();
    let outcome = launcher.finish();
    assert_eq!(outcome.code(), 137);
    let told = format!("its supervisor (process {supervisor}) was killed by SIGKILL");
    assert!(outcome.errors.contains(&told), "{}", outcome.errors);
}

#[test]
fn killing_a_rank_ends_everything_and_is_told() {
    let launcher = family(&[], 3);
    let supervisor = launcher.mark.supervisor(launcher.pid());
    let ranks = launcher.mark.expect_children(supervisor.as_raw_pid(), 3);
    let victim = Pid::from_raw(ranks[1].pid).unwrap();
    kill_process(victim, Signal::KILL).unwrap();
    let outcome = launcher.finish();
    assert_eq!(outcome.code(), 137);
    assert!(outcome.errors.contains(&format!("process {victim} on ")), "{}", outcome.errors);
}

#[test]
fn killing_a_stopped_job_ends_everything() {
    let launcher = family(&[], 2);
    let supervisor = launcher.mark.supervisor(launcher.pid());
    kill_process(supervisor, Signal::STOP).unwrap();
    launcher.signal(Signal::KILL);
    launcher.mark.expect_gone();
}

#[test]
fn killing_by_name_spares_what_cleans_up() {
    let launcher = family(&[], 2);
    let supervisor = launcher.mark.supervisor(launcher.pid());
    for file in ["comm", "cmdline"] {
        let shown = std::fs::read(format!("/proc/{supervisor}/{file}")).unwrap();
        assert!(!String::from_utf8_lossy(&shown).contains("weftrun"), "{file}");
    }
    launcher.signal(Signal::KILL);
    launcher.mark.expect_gone();
}

#[test]
fn kills_at_any_moment_leave_nothing() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..60 {
        let label: &[&str] = if random.below(2) == 0 { &[] } else { &["-l"] };
        let launcher = start(&[label, &["-n", "3", "sh", "-c", FAMILY]].concat());
        // From before the first rank to after the last, on a machine of any speed and load.
        std::thread::sleep(Duration::from_micros(random.below(12_000)));
        let processes = launcher.mark.processes();
        let victim = match processes.len() as u64 {
            0 => launcher.pid().as_raw_pid(),
            count => processes[random.below(count) as usize].pid,
        };
        let _ = kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL);
        // A rank does not miss each of its children, so the job may go on. Its launcher and supervisor clean
        // up after each other, so they are not both killed.
        let is_ours = processes.iter().any(|it| it.pid == victim && it.name.starts_with("weft"));
        if !processes.is_empty() && !is_ours {
            let _ = kill_process(launcher.pid(), Signal::KILL);
        }
        launcher.mark.expect_gone();
        launcher.finish();
    }
}

#[test]
fn a_reader_that_does_not_read_cannot_save_a_job() {
    let (mut command, mark) = weftrun(&["-l", "-n", "2", "yes"]);
    let (_reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer);
    let launcher = start_command(command, mark);
    let supervisor = launcher.mark.supervisor(launcher.pid());
    launcher.mark.expect_children(supervisor.as_raw_pid(), 2);
    launcher.signal(Signal::KILL);
    launcher.mark.expect_gone();
}

#[test]
fn signals_are_passed_on_to_the_ranks() {
    let script = r#"
        for signal in USR1 USR2 HUP QUIT; do trap "echo $signal" $signal; done
        echo ready; trap 'exit 0' TERM; while :; do sleep 0.01; done"#;
    let (command, mark) = weftrun(&["-n", "2", "bash", "-c", script]);
    let mut launcher = Conversation::start(command, mark);
    launcher.expect("ready", 2);
    for (signal, name) in
        [(Signal::USR1, "USR1"), (Signal::USR2, "USR2"), (Signal::HUP, "HUP"), (Signal::QUIT, "QUIT")]
    {
        launcher.signal(signal);
        launcher.expect(name, 2);
    }
    launcher.signal(Signal::TERM);
    assert_eq!(launcher.finish(), 0);
}

#[test]
fn a_signal_that_ends_the_ranks_gives_the_status() {
    for (signal, code, name) in [(Signal::TERM, 143, "SIGTERM"), (Signal::INT, 130, "SIGINT")] {
        let launcher = family(&[], 2);
        launcher.signal(signal);
        let outcome = launcher.finish();
        assert_eq!(outcome.code(), code);
        assert_eq!(
            outcome.errors.matches(&format!("the job was ended by {name}")).count(),
            1,
            "{}",
            outcome.errors
        );
    }
}

#[test]
fn a_second_interrupt_kills() {
    let script = "trap 'echo no' INT; echo ready; while :; do sleep 0.01; done";
    let (command, mark) = weftrun(&["-n", "2", "bash", "-c", script]);
    let mut launcher = Conversation::start(command, mark);
    launcher.expect("ready", 2);
    launcher.signal(Signal::INT);
    launcher.expect("no", 2);
    launcher.signal(Signal::INT);
    assert_eq!(launcher.finish(), 130);
}

#[test]
fn a_signal_to_the_whole_group_ends_the_job_once() {
    let (mut command, mark) = weftrun(&["-n", "2", "sh", "-c", FAMILY]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let launcher = start_command(command, mark);
    wait_for(&launcher.mark, "all families", || (launcher.mark.processes().len() == 12).then_some(()));
    kill_process_group(launcher.pid(), Signal::TERM).unwrap();
    assert_eq!(launcher.finish().code(), 143);
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let (command, mark) = weftrun(&["-n", "1", "sh", "-c", "echo ready; read line; echo still here"]);
    let mut nohup = std::process::Command::new("bash");
    // The first word would set the signals back.
    nohup.args(["-c", r#"trap '' HUP; exec "$0" "$@""#]).args(command.get_args().skip(1));
    nohup.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    nohup.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut launcher = Conversation::start(nohup, mark);
    launcher.expect("ready", 1);
    launcher.signal(Signal::HUP);
    drop(launcher.child.stdin.take());
    launcher.expect("still here", 1);
    assert_eq!(launcher.finish(), 0);
}

#[test]
fn a_job_can_be_stopped_and_continued() {
    let launcher = family(&[], 2);
    let states = |wanted: &[&str]| {
        let supervisor = launcher.mark.supervisor(launcher.pid()).as_raw_pid();
        wait_for(&launcher.mark, "launcher and ranks to change state", || {
            let all = launcher.mark.processes();
            let part =
                |pid: i32, parent: i32| pid == supervisor || parent == supervisor || parent == own_pid();
            let mut those = all.iter().filter(|it| part(it.pid, it.parent));
            those.all(|it| wanted.contains(&it.state.as_str())).then_some(())
        });
    };
    launcher.signal(Signal::TSTP);
    states(&["T"]);
    launcher.signal(Signal::CONT);
    states(&["S", "R"]);
    launcher.signal(Signal::TERM);
    assert_eq!(launcher.finish().code(), 143);
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

/// A launcher whose output is read line by line while it runs.
struct Conversation {
    child: std::process::Child,
    mark: common::Mark,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Conversation {
    fn start(mut command: std::process::Command, mark: common::Mark) -> Conversation {
        use std::io::BufRead;
        command.stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Conversation { child, mark, lines }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until `count` lines have said `text`, and nothing else was said.
    fn expect(&mut self, text: &str, count: usize) {
        for _ in 0..count {
            let line = wait_for(&self.mark, text, || self.lines.try_recv().ok());
            assert_eq!(line, text);
        }
    }

    fn finish(mut self) -> i32 {
        let status = wait_for(&self.mark, "the launcher to end", || self.child.try_wait().unwrap());
        self.mark.expect_gone();
        status.code().unwrap()
    }
}

/// A small generator of the same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
