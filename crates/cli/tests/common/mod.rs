//! Running the launcher in a test: with a watchdog, and with a mark by which everything it starts can be
//! found.
#![allow(dead_code)] // each test file uses its own part of this one

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A launcher that runs.
pub struct Launcher {
    pub child: Child,
    pub mark: Mark,
    output: Option<JoinHandle<String>>,
    errors: Option<JoinHandle<String>>,
}

/// What a launcher left when it ended by itself.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub output: String,
    pub errors: String,
}

/// A variable that everything below one launcher inherits. Whoever still has it is a left-over.
#[derive(Clone, Debug)]
pub struct Mark(String);

/// A process that carries a mark.
#[derive(Clone, Debug)]
pub struct Marked {
    pub pid: i32,
    pub parent: i32,
    pub name: String,
    pub state: String,
}

/// The launcher as a command, with a fresh mark and with its output kept for the test.
pub fn weftrun(arguments: &[&str]) -> (Command, Mark) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let mark = Mark(format!("TEST_MARK=launcher-test-{}-{number}-end", std::process::id()));
    // What started the tests may ignore signals (nohup does), and children inherit that; these tests send
    // them.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_weftrun")]);
    let (name, value) = mark.0.split_once('=').expect("made above");
    command.args(arguments).env(name, value).env_remove("OMP_NUM_THREADS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (command, mark)
}

/// Starts the launcher; its output is read as it comes.
pub fn start(arguments: &[&str]) -> Launcher {
    let (command, mark) = weftrun(arguments);
    start_command(command, mark)
}

pub fn start_command(mut command: Command, mark: Mark) -> Launcher {
    let mut child = command.spawn().expect("the launcher was built for this test");
    let output = child.stdout.take().map(read_all);
    let errors = child.stderr.take().map(read_all);
    Launcher { child, mark, output, errors }
}

/// Runs the launcher to its end and checks that it leaves nothing.
pub fn run(arguments: &[&str]) -> Outcome {
    start(arguments).finish()
}

/// Runs `script` in bash on `ranks` ranks, after `options`.
pub fn run_script(options: &[&str], script: &str) -> Outcome {
    run(&[options, &["bash", "-c", script]].concat())
}

impl Launcher {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the launcher runs");
    }

    /// Gives the launcher its standard input and closes it.
    pub fn feed(&mut self, text: &str) {
        let mut input = self.child.stdin.take().expect("a piped input");
        input.write_all(text.as_bytes()).expect("rank 0 reads");
    }

    /// Waits for the end, and for the end of everything below.
    pub fn finish(mut self) -> Outcome {
        let mark = self.mark.clone();
        let status = wait_for(&mark, "the launcher to end", || self.child.try_wait().expect("a child"));
        mark.expect_gone();
        let text = |reader: Option<JoinHandle<String>>| {
            reader.map_or_else(String::new, |it| it.join().expect("a reader"))
        };
        Outcome { status, output: text(self.output.take()), errors: text(self.errors.take()) }
    }
}

impl Outcome {
    /// The exit status as a shell would tell it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().expect("code or signal"))
    }

    /// Lines of output, sorted, since ranks write in any order.
    pub fn sorted_lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.output.lines().collect();
        lines.sort_unstable();
        lines
    }
}

impl Mark {
    /// All live processes that carry this mark.
    pub fn processes(&self) -> Vec<Marked> {
        let numbers = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = numbers.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid| self.look_at(pid)).collect()
    }

    fn look_at(&self, pid: i32) -> Option<Marked> {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        if !environment.split(|byte| *byte == 0).any(|variable| variable == self.0.as_bytes()) {
            return None;
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let (state, parent) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        Some(Marked { pid, parent, name: name.to_owned(), state })
    }

    /// Waits until no process carries the mark.
    pub fn expect_gone(&self) {
        wait_for(self, "everything to be gone", || self.processes().is_empty().then_some(()));
    }

    /// The children of `parent` once there are `count`.
    pub fn expect_children(&self, parent: i32, count: usize) -> Vec<Marked> {
        wait_for(self, "children to appear", || {
            let all = self.processes();
            let children: Vec<Marked> = all.into_iter().filter(|process| process.parent == parent).collect();
            (children.len() == count).then_some(children)
        })
    }

    /// The supervisor below the launcher `front`.
    pub fn supervisor(&self, front: Pid) -> Pid {
        Pid::from_raw(self.expect_children(front.as_raw_pid(), 1)[0].pid).expect("not zero")
    }
}

/// Asks again and again until there is an answer. Fails with the state of all processes when there never is.
pub fn wait_for<T>(mark: &Mark, what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let give_up_at = Instant::now() + WATCHDOG;
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        if give_up_at < Instant::now() {
            let left = mark.processes();
            for process in &left {
                let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, Signal::KILL));
            }
            panic!("waited in vain for {what}; processes: {left:#?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn read_all(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a pipe");
        String::from_utf8(bytes).expect("text")
    })
}

/// Functions for rank scripts that speak to the process manager by hand.
pub const PMI: &str = r#"
    ask() { echo "$1" >&"$PMI_FD"; read -r answer <&"$PMI_FD"; }
    init() { ask "cmd=init pmi_version=1 pmi_subversion=1"; }
"#;

/// Far beyond any wait of these tests: only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(30);
