//! The words for the user about a job: which rank failed and how, why the job ends, and what to do about it.

use std::fmt::Write;
use std::io;

use rustix::process::Signal;

use super::{Cause, Job, Place};
use crate::descendants::Ending;
use crate::hangs::ranks_named;
use crate::signals;

impl Job {
    /// The message to the user about the end of the job, if any: a line of what happened, and a line of what
    /// to do.
    pub fn message(&self, host: &str) -> Option<String> {
        let Some(cause) = &self.cause else {
            let (rank, ending) = self.late_failure?;
            return Some(format!("{} {} after MPI_Finalize", self.who(rank, host), told(ending)));
        };
        if let (true, Cause::Died { .. }) = (self.is_engine, cause) {
            return None;
        }
        let mut message = self.what_happened(cause, host);
        if self.culprit().is_some() && 1 < self.ranks.len() {
            message.push_str("; the job is ended");
        }
        if let Some(remedy) = self.remedy(cause) {
            let _ = write!(message, "\n  {remedy}");
        }
        Some(message)
    }

    /// The message to the user about a rank that has failed while the others go on. `host` is the host of its
    /// process.
    pub fn obituary(&self, rank: u32, ending: Ending, host: &str) -> String {
        let what = match self.cause_of(rank, ending) {
            Cause::NeverCame { .. } => "exited without calling MPI_Init".to_owned(),
            _ => told(ending),
        };
        format!("{} {what}; the others go on", self.who(rank, host))
    }

    /// The first line about the end of the job: which rank did what.
    fn what_happened(&self, cause: &Cause, host: &str) -> String {
        let who = |rank| self.who(rank, host);
        match cause {
            Cause::Died { rank, ending } => format!("{} {}", who(*rank), told(*ending)),
            Cause::LeftEarly { rank } => format!("{} exited without calling MPI_Finalize", who(*rank)),
            Cause::NeverCame { rank } => {
                let did = match self.places[*rank as usize] {
                    Place::Running(_) => "closed its connection to the launcher",
                    _ => "exited",
                };
                format!("{} {did} without calling MPI_Init, which others have called", who(*rank))
            }
            Cause::Aborted { rank, code, message: None } => {
                format!("{} called MPI_Abort({code})", who(*rank))
            }
            Cause::Aborted { rank, code, message: Some(said) } => {
                format!("{} called MPI_Abort({code}): {said}", who(*rank))
            }
            Cause::Broke(fault) => {
                format!("{} broke the process manager's protocol: {}", who(fault.rank), fault.what)
            }
            Cause::NotStarted { rank, error } => format!("cannot start rank {rank} on {host}: {error}"),
            Cause::TimedOut { limit } if self.is_engine => {
                format!("the job was not done after {} s", limit.as_secs_f64())
            }
            Cause::TimedOut { limit } => {
                format!(
                    "the job was not done after {} s; still running: {}",
                    limit.as_secs_f64(),
                    self.who_runs()
                )
            }
            Cause::PassedOn { signal } => format!("the job was ended by {}", signals::name(*signal)),
            Cause::AskedTwice { signal } if *signal == Signal::INT.as_raw() => {
                "interrupted twice: the ranks are killed".to_owned()
            }
            Cause::AskedTwice { signal } => {
                format!("asked to end twice, last by {}: the ranks are killed", signals::name(*signal))
            }
        }
    }

    /// The second line about the end of the job: what the user can do.
    fn remedy(&self, cause: &Cause) -> Option<&'static str> {
        Some(match cause {
            Cause::Died { ending: Ending::Signal(9), .. } => {
                "if nobody killed it, the system may have been out of memory: see `dmesg`"
            }
            Cause::Died { ending: Ending::Signal(13), .. } => "whoever read its output has gone",
            Cause::Died { ending: Ending::Signal(14), .. } => "a timer of its own ran out (alarm, setitimer)",
            Cause::Died { ending: Ending::Signal(signal), .. } if signals::leaves_core(*signal) => {
                "for a core file: `ulimit -c unlimited`, and start it again"
            }
            Cause::Died { ending: Ending::Signal(_), .. } => {
                "neither the launcher nor a fault sent it: a person, a batch system or a program did"
            }
            Cause::Died { rank, .. } if self.is_silent(*rank) => {
                "it had not called MPI_Init; look for its own message above"
            }
            Cause::Died { .. } => "look for its own message above",
            Cause::LeftEarly { .. } => "call MPI_Finalize on every way out of main, or MPI_Abort to give up",
            Cause::NeverCame { .. } => "let every rank call MPI_Init, or start fewer of them",
            Cause::Broke(_) => {
                "an MPI library that speaks PMI-1 is needed; is PMI_FD used by something else?"
            }
            Cause::NotStarted { error, .. } => remedy_for_start(error),
            Cause::TimedOut { .. } => "give it more time with --timeout, or leave that out",
            Cause::Aborted { .. } | Cause::PassedOn { .. } | Cause::AskedTwice { .. } => return None,
        })
    }

    /// The rank of the process with this number, with the process and its host.
    pub(super) fn who(&self, number: u32, host: &str) -> String {
        let rank = self.ranks.get(number as usize).unwrap_or(&number);
        match self.places[number as usize] {
            Place::Running(pid) | Place::Ended(pid) => format!("rank {rank} (process {pid} on {host})"),
            Place::Waiting => format!("rank {rank} (on {host})"),
        }
    }

    /// The running ranks, as in `rank 3` or `ranks 0-2, 5`.
    pub(super) fn who_runs(&self) -> String {
        let mut ranks: Vec<u32> = self.running().map(|(number, _)| self.ranks[number as usize]).collect();
        ranks.sort_unstable();
        ranks_named(&ranks)
    }
}

/// How a process has ended, as the end of a sentence about it.
pub(super) fn told(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => format!("exited with status {code}"),
        Ending::Signal(signal) => format!("was killed by {}", signals::name(signal)),
    }
}

fn remedy_for_start(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM) => {
            "too many processes or too little memory: see `ulimit -u` and `free`"
        }
        Some(libc::EMFILE | libc::ENFILE) => "too few descriptors: raise `ulimit -n`, or start fewer ranks",
        None => "a sandbox may forbid it: look for a filter of system calls (seccomp)",
        Some(libc::ENOENT) => {
            "the program is there, but not what loads it: `file PROGRAM` names its interpreter"
        }
        _ => "check that the program can be run by hand on this node",
    }
}
