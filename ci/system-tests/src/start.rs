//! How a job on one node starts: what its ranks ask of the system, by a trace of their calls.
//!
//! The launcher hands rank, size, cpus and memory down, so a rank has nothing to find out: it opens no
//! socket, reads nothing about the machine and starts no thread. Each such call would cost as much as a
//! rank's whole start once there are many of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::job;

/// Runs `program` on some ranks under `strace`, and looks at what each of them did.
///
/// # Errors
/// With the first call that does not belong there; when the job cannot be traced.
pub fn check(weftrun: &Path, program: &Path) -> Result<(), String> {
    let trace = program.with_extension("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace).arg(weftrun);
    strace.args(["-n", &RANKS.to_string(), "--fabric", "shm"]).arg(program);
    job::succeed("strace", &mut strace, LIMIT, &program.with_extension("log"))
        .map_err(|error| format!("{error}\n  ci/setup installs strace; tracing must be allowed here"))?;
    let text = std::fs::read_to_string(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    judge(&text, &program.display().to_string(), RANKS)
}

/// Looks at a trace of a job of so many ranks.
fn judge(trace: &str, program: &str, ranks: usize) -> Result<(), String> {
    let calls = calls_of_ranks(trace, program);
    if calls.len() != ranks {
        return Err(format!("{} ranks were traced, not {ranks}", calls.len()));
    }
    for calls in calls.values() {
        if let Some((call, why)) = calls.iter().find_map(|call| Some((call, unwanted(call)?))) {
            return Err(format!("a rank {why}: {call}"));
        }
        // What the loader does before is not ours, and how often a rank waits is up to who else wants its
        // cpu.
        let own = calls.iter().skip_while(|call| !call.contains("cmd=init"));
        let ours = own.filter(|call| !waits(call)).count();
        if ours == 0 || OWN_CALLS_MAX < ours {
            return Err(format!(
                "a rank makes {ours} calls from its first word on, waits apart; up to {OWN_CALLS_MAX} are expected"
            ));
        }
    }
    Ok(())
}

/// Whether a call only waits for others.
fn waits(call: &str) -> bool {
    let name = call.split('(').next().unwrap_or(call);
    WAITS.contains(&name)
}

/// The calls of each rank since it became the program, by process.
fn calls_of_ranks<'a>(trace: &'a str, program: &str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let start = format!("execve(\"{program}\"");
    let mut ranks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if call.starts_with(&start) {
            ranks.insert(process, Vec::new());
        } else if let Some(calls) = ranks.get_mut(process)
            && !call.starts_with("<...")
        {
            calls.push(call);
        }
    }
    ranks
}

/// What is wrong with a call.
fn unwanted(call: &str) -> Option<&'static str> {
    let (name, arguments) = call.split_once('(')?;
    let names = |part: &str| arguments.contains(part);
    match name {
        "socket" | "socketpair" | "connect" | "bind" | "listen" => Some("opens a socket"),
        "clone" | "clone3" | "fork" | "vfork" => Some("starts a thread or a process"),
        "open" | "openat" if names("\"/sys/") => Some("reads about the machine"),
        // The memory that was handed down is opened by its number.
        "open" | "openat" if names("\"/proc/") && !names("\"/proc/self/fd/") => Some("reads about itself"),
        "open" | "openat" if names("\"/dev/shm") || names("\"/tmp") && names("O_CREAT") => {
            Some("makes a file")
        }
        _ => None,
    }
}

const RANKS: usize = 4;
const OWN_CALLS_MAX: usize = 100;
const WAITS: [&str; 5] = ["sched_yield", "futex", "clock_nanosleep", "nanosleep", "restart_syscall"];
const LIMIT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
7  execve(\"/bin/weftrun\", [\"weftrun\"], 0x1) = 0
7  socketpair(AF_UNIX, SOCK_STREAM, 0, [8, 9]) = 0
8  execve(\"/x/hello\", [\"/x/hello\"], 0x1 <unfinished ...>
8  <... execve resumed>) = 0
8  openat(AT_FDCWD, \"/lib/libc.so.6\", O_RDONLY) = 3
8  sendto(3, \"cmd=init pmi_version=1\"..., 40, 0, NULL, 0) = 40
8  open(\"/proc/self/fd/7\", O_RDWR) = 4
";

    #[test]
    fn a_lean_start_is_fine() {
        assert_eq!(judge(TRACE, "/x/hello", 1), Ok(()));
        assert!(judge(TRACE, "/x/hello", 2).unwrap_err().contains("1 ranks were traced, not 2"));
    }

    #[test]
    fn what_a_rank_must_not_do_is_told() {
        for (call, why) in [
            ("socket(AF_INET, SOCK_STREAM, 0) = 5", "opens a socket"),
            ("socket(AF_UNIX <unfinished ...>", "opens a socket"),
            ("openat(AT_FDCWD, \"/sys/fs/cgroup/cpu.max\", O_RDONLY) = 5", "about the machine"),
            ("openat(AT_FDCWD, \"/proc/self/mountinfo\", O_RDONLY) = 5", "about itself"),
            ("clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 9", "a thread"),
            ("openat(AT_FDCWD, \"/dev/shm/x\", O_RDWR|O_CREAT) = 5", "makes a file"),
        ] {
            let told = judge(&format!("{TRACE}8  {call}\n"), "/x/hello", 1).unwrap_err();
            assert!(told.contains(why) && told.contains(call), "{told}");
        }
        let many = TRACE.to_owned() + &"8  getpid() = 8\n".repeat(OWN_CALLS_MAX);
        assert!(judge(&many, "/x/hello", 1).unwrap_err().contains("calls from its first word on"));
        let patient = TRACE.to_owned() + &"8  sched_yield() = 0\n".repeat(OWN_CALLS_MAX);
        assert_eq!(judge(&patient, "/x/hello", 1), Ok(()));
    }
}
