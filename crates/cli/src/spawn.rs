//! Starting processes, and what must be set between fork and exec. The only unsafe code of this crate.
//!
//! `main` calls [`fork`] before anything could have started a thread, which several notes below rely on. The
//! supervisor has one thread beside its own ([`Watch`](crate::watch::Watch)), which starts no process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Which side of a [`fork`] this is.
#[derive(Debug)]
pub enum Forked {
    /// The process that forked, and its child.
    Parent(Pid),
    /// The child.
    Child,
}

/// The descriptors, cpus and limits that a rank's process gets beside its command.
#[derive(Debug)]
pub struct InheritedDescriptors<'a> {
    /// Descriptors that stay open across exec, under the numbers they have here.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// The cpus that the process may run on; `None` is all cpus of this process.
    pub cpus: Option<CpuSet>,
    /// The limit on open files that this process was started with.
    pub files_limit: Rlimit,
}

/// Splits this process in two.
pub fn fork() -> io::Result<Forked> {
    // SAFETY: the process has one thread (see the head of this file), so that no lock can be held and no data
    // half-changed by a thread that the child lacks; the child may go on like any program.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(Pid::from_raw(pid).expect("a child's number is not zero"))),
    }
}

/// Starts `command` as a child that dies with this process.
///
/// The kernel ties the child to the *thread* that starts it, which must therefore live as long as the child
/// is to.
pub fn start(command: &mut Command, handed: InheritedDescriptors<'_>) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    let numbers: Vec<RawFd> = handed.descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let InheritedDescriptors { cpus, files_limit, .. } = handed;
    let before_exec = move || {
        unblock_signals()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above took effect; then nobody would end this process.
        if getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if IGNORES_PIPE.load(Ordering::Relaxed) {
            ignore_pipe();
        }
        setrlimit(Resource::Nofile, files_limit)?;
        if let Some(cpus) = &cpus {
            sched_setaffinity(None, cpus)?;
        }
        numbers.iter().try_for_each(|number| keep_across_exec(*number))
    };
    // SAFETY: between fork and exec only system calls are made, and functions that POSIX allows after a fork;
    // nothing is allocated, freed or locked: `numbers` and `cpus` were made before, and errors are bare
    // numbers.
    unsafe { command.pre_exec(before_exec) };
    command.spawn()
}

/// A program expects to begin with no signal blocked, and would inherit what [`signals_to_descriptor`]
/// blocks.
fn unblock_signals() -> io::Result<()> {
    // SAFETY: an all-zero `sigset_t` is a valid value of that plain C structure.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `none` is a local that outlives both calls, and a null old set is allowed.
    let failed = unsafe {
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The standard library ignores SIGPIPE in this process and no longer in what this one starts, whatever this
/// one was started with. That is noted here, before it does.
#[used]
// SAFETY: the system's loader calls the functions of this section one by one before `main`; this one asks for
// what stands in the kernel, and writes to an atomic.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note_pipe;

extern "C" fn note_pipe() {
    IGNORES_PIPE.store(is_ignored(Signal::PIPE), Ordering::Relaxed);
}

static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);

fn ignore_pipe() {
    // SAFETY: nothing is called when a signal comes that is ignored.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

fn keep_across_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: runs in the child of the fork in `start`, whose caller borrows the descriptor for the whole
    // call, so the child has a copy under the same number that nothing has closed.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
}

/// Whether this process was told to ignore `signal` when it was started.
pub fn is_ignored(signal: Signal) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value of that plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks; the old one is written to a local that outlives the call.
    let asked = unsafe { libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Blocks `signals` in this process and makes them readable from the descriptor that is returned.
///
/// Processes started by [`start`] begin with nothing blocked again.
pub fn signals_to_descriptor(signals: &[Signal]) -> io::Result<OwnedFd> {
    // SAFETY: an all-zero `sigset_t` is a valid value of that plain C structure, and `sigemptyset` sets it
    // anyway.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a local, initialised above; the signals are valid numbers by their type. If the
    // disposition of SIGCHLD was inherited as "ignore", children would vanish without a status, so it is set
    // to the default.
    let descriptor = unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal.as_raw());
        }
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `signalfd` has just returned this new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Replaces this process's command line, as process listings show it, by `title`.
///
/// So that a person who kills a launcher by its name does not also kill the process that cleans up after it.
/// Nothing happens where the kernel does not tell where the command line is, or where `title` does not fit.
/// Must not be called before the last use of [`std::env::args`].
pub fn set_title(title: &str) {
    let Some((start, bytes)) = command_line_place() else { return };
    if bytes <= title.len() {
        return;
    }
    // SAFETY: the kernel placed the command line at `start..start + bytes` on this process's initial stack,
    // which stays mapped and writable; this is the only thread, and by this function's contract nobody reads
    // the arguments any more. `title` and the zeros behind it fill exactly that range, since it is longer
    // (checked).
    unsafe {
        let place = start as *mut u8;
        place.copy_from_nonoverlapping(title.as_ptr(), title.len());
        place.add(title.len()).write_bytes(0, bytes - title.len());
    }
}

/// Address and length of the command line, from the fields 48 and 49 of `/proc/self/stat`.
fn command_line_place() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name that may hold spaces and parentheses; fields are safe to count after its
    // end.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(ARGUMENT_START_FIELD - FIRST_FIELD_AFTER_NAME);
    let (start, end): (usize, usize) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    if start == 0 { None } else { Some((start, end.checked_sub(start)?)) }
}

const FIRST_FIELD_AFTER_NAME: usize = 3;
const ARGUMENT_START_FIELD: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getrlimit;
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;

    fn handed(descriptors: Vec<BorrowedFd<'_>>, cpus: Option<CpuSet>) -> InheritedDescriptors<'_> {
        InheritedDescriptors { descriptors, cpus, files_limit: getrlimit(Resource::Nofile) }
    }

    #[test]
    fn a_handed_descriptor_is_readable_under_its_number() {
        let file = std::fs::File::open("/proc/self/comm").unwrap();
        let mut command = Command::new("sh");
        // Opened by this process, so that the link tells the file and not the shell's own.
        command.args([
            "-c",
            r#"readlink /proc/self/fd/"$1" | grep -q comm"#,
            "sh",
            &file.as_raw_fd().to_string(),
        ]);
        let mut child = start(&mut command, handed(vec![file.as_fd()], None)).unwrap();
        assert!(child.wait().unwrap().success());
        let mut child = start(&mut command_without_the_descriptor(&file), handed(vec![], None)).unwrap();
        assert!(!child.wait().unwrap().success(), "a descriptor that is not handed over is closed");
    }

    fn command_without_the_descriptor(file: &std::fs::File) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"test -e /proc/self/fd/"$1""#, "sh", &file.as_raw_fd().to_string()]);
        command
    }

    #[test]
    fn cpus_are_set_before_the_program_runs() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        let mut command = Command::new("sh");
        command.args(["-c", &format!(r#"grep -qP "^Cpus_allowed_list:\t{first}$" /proc/self/status"#)]);
        assert!(start(&mut command, handed(vec![], Some(one))).unwrap().wait().unwrap().success());
    }

    #[test]
    fn a_child_begins_with_no_signal_blocked() {
        // Only this test's thread is affected; the child is started from it.
        let _descriptor = signals_to_descriptor(&[Signal::USR1, Signal::TERM]).unwrap();
        let mut command = Command::new("grep");
        command.args(["-q", "SigBlk:.0000000000000000", "/proc/self/status"]);
        assert!(start(&mut command, handed(vec![], None)).unwrap().wait().unwrap().success());
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let starter = std::thread::spawn(move || start(&mut command, handed(vec![], None)).unwrap());
        let mut child = starter.join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn the_command_line_is_found() {
        let (start, bytes) = command_line_place().unwrap();
        let shown = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(shown.len(), bytes);
        assert_ne!(start, 0);
    }
}
