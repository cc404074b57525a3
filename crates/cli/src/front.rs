//! The process that the user knows as the launcher. It starts the supervisor, passes signals on to it, and
//! cleans up after it, should someone kill it.
//!
//! Two processes, because one that is killed cannot clean up after itself. Each notices the end of the other
//! at once: the supervisor by a pipe that only the front holds open, the front by waiting for its child. Both
//! adopt what loses its parent below them, so that either can find everything the job has started.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal,
};

use crate::descendants::{self, Ending};
use crate::plan::Plan;
use crate::signals::{self, Sender, Signals};
use crate::spawn::{self, Forked};
use crate::supervisor;

/// Runs a planned job and returns the exit status.
pub fn run(plan: &Plan) -> io::Result<u8> {
    set_child_subreaper(Some(getpid()))?;
    // Before the fork, so that no signal is lost between.
    let signals = Signals::watch()?;
    let (lifeline, held) = pipe_with(PipeFlags::CLOEXEC)?;
    match spawn::fork()? {
        Forked::Child => {
            drop((signals, held));
            supervise(plan, lifeline)
        }
        Forked::Parent(supervisor) => {
            drop(lifeline);
            let status = watch(plan, &signals, supervisor);
            drop(held);
            status
        }
    }
}

fn supervise(plan: &Plan, lifeline: OwnedFd) -> io::Result<u8> {
    // Wakes this process if it is stopped when the launcher dies; the liveness connection then tells it why.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    set_child_subreaper(Some(getpid()))?;
    if getppid() != Some(plan.launcher) {
        return Ok(1);
    }
    // Under another name, so that who kills the launcher by name does not also kill what cleans up after it.
    let _ = rustix::thread::set_name(SUPERVISOR_NAME);
    spawn::set_title(&SUPERVISOR_NAME.to_string_lossy());
    supervisor::run(plan, Signals::watch()?, lifeline)
}

fn watch(plan: &Plan, signals: &Signals, supervisor: Pid) -> io::Result<u8> {
    supervisor::release_input();
    loop {
        wait(signals)?;
        for arrival in signals.take()? {
            // What the terminal sends, it sends to the supervisor as well.
            if arrival.signal != Signal::CHILD && arrival.from != Sender::Kernel {
                let _ = kill_process(supervisor, arrival.signal);
            }
            if arrival.signal == Signal::TSTP {
                let _ = kill_process(getpid(), Signal::STOP);
            }
        }
        let reaped = descendants::reap();
        if let Some(ended) = reaped.ended.iter().find(|ended| ended.pid == supervisor) {
            return Ok(after(plan, supervisor, ended.ending));
        }
    }
}

fn wait(signals: &Signals) -> io::Result<()> {
    match poll(&mut [PollFd::new(signals, PollFlags::IN)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The supervisor leaves nothing behind, unless it was killed; then this process has adopted what is left.
fn after(plan: &Plan, supervisor: Pid, ending: Ending) -> u8 {
    let left = descendants::kill_all(Vec::new());
    if let Ending::Signal(signal) = ending {
        let (name, signal) = (&plan.name, signals::name(signal));
        weft::tell(format_args!(
            "{name}: its supervisor (process {supervisor}) was killed by {signal}, so the job is ended"
        ));
    }
    if !left.is_empty() {
        let name = &plan.name;
        weft::tell(format_args!(
            "{name}: these processes cannot be ended: {left:?}\n  they hang in the system"
        ));
    }
    supervisor::status_of(ending)
}

const SUPERVISOR_NAME: &std::ffi::CStr = c"weft-guard";
