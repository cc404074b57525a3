//! Signals as events: the ones a launcher passes on arrive through a descriptor, beside everything else it
//! polls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::spawn;

/// The descriptor that the watched signals arrive on. They interrupt nothing any more.
#[derive(Debug)]
pub struct Signals(OwnedFd);

/// One arrived signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The signal.
    pub signal: Signal,
    /// The sender of the signal.
    pub from: Sender,
}

/// Where a signal came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The terminal, which sends to the whole foreground group: the ranks have it already.
    Kernel,
    /// A process, as of `kill`.
    Process(Option<Pid>),
}

impl Signals {
    /// Watches the signals that are passed on to ranks, and the ends of children.
    ///
    /// What was ignored when this process started stays ignored, so that `nohup` keeps its meaning.
    pub fn watch() -> io::Result<Signals> {
        let kept = |signal: &Signal| *signal == Signal::CHILD || !spawn::is_ignored(*signal);
        let watched: Vec<Signal> = WATCHED.into_iter().filter(kept).collect();
        Ok(Signals(spawn::signals_to_descriptor(&watched)?))
    }

    /// Takes all signals that have arrived; does not wait.
    pub fn take(&self) -> io::Result<Vec<Arrival>> {
        let mut bytes = [0; RECORD_BYTES * RECORDS_PER_READ];
        let mut arrivals = Vec::new();
        loop {
            match rustix::io::read(&self.0, &mut bytes) {
                Ok(count) => arrivals.extend(bytes[..count].chunks_exact(RECORD_BYTES).filter_map(arrival)),
                Err(Errno::AGAIN) => return Ok(arrivals),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The name people know a signal by.
pub fn name(signal: i32) -> String {
    let known = NAMES.iter().find(|(known, _)| known.as_raw() == signal);
    known.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

/// Whether the kernel writes a core file of a process that this signal ends.
pub fn leaves_core(signal: i32) -> bool {
    CORE.iter().any(|known| known.as_raw() == signal)
}

fn arrival(record: &[u8]) -> Option<Arrival> {
    let number =
        |offset: usize| i32::from_ne_bytes(record[offset..offset + 4].try_into().expect("four bytes"));
    let from = match number(CODE_OFFSET) {
        CODE_KERNEL => Sender::Kernel,
        _ => Sender::Process(Pid::from_raw(number(PID_OFFSET))),
    };
    Some(Arrival { signal: Signal::from_named_raw(number(SIGNAL_OFFSET))?, from })
}

const WATCHED: [Signal; 9] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::CONT,
    Signal::TSTP,
    Signal::CHILD,
];

const CORE: [Signal; 10] = [
    Signal::QUIT,
    Signal::ILL,
    Signal::TRAP,
    Signal::ABORT,
    Signal::BUS,
    Signal::FPE,
    Signal::SEGV,
    Signal::SYS,
    Signal::XCPU,
    Signal::XFSZ,
];

const NAMES: [(Signal, &str); 19] = [
    (Signal::HUP, "SIGHUP"),
    (Signal::INT, "SIGINT"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::ILL, "SIGILL"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::KILL, "SIGKILL"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::USR2, "SIGUSR2"),
    (Signal::PIPE, "SIGPIPE"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::TERM, "SIGTERM"),
    (Signal::TSTP, "SIGTSTP"),
    (Signal::XCPU, "SIGXCPU"),
    (Signal::XFSZ, "SIGXFSZ"),
    (Signal::SYS, "SIGSYS"),
];

// A record of the kernel (`struct signalfd_siginfo`), of which the first 16 of 128 bytes matter here:
//
//   0        4        8        12       16
//   +--------+--------+--------+--------+-- …
//   | signal | error  | code   | pid    |
//   +--------+--------+--------+--------+-- …
const RECORD_BYTES: usize = 128;
const SIGNAL_OFFSET: usize = 0;
const CODE_OFFSET: usize = 8;
const PID_OFFSET: usize = 12;

/// `SI_KERNEL`.
const CODE_KERNEL: i32 = 0x80;

const RECORDS_PER_READ: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_by_their_layout() {
        let mut record = [0; RECORD_BYTES];
        record[SIGNAL_OFFSET..][..4].copy_from_slice(&2i32.to_ne_bytes());
        record[PID_OFFSET..][..4].copy_from_slice(&77i32.to_ne_bytes());
        let from = Sender::Process(Pid::from_raw(77));
        assert_eq!(arrival(&record), Some(Arrival { signal: Signal::INT, from }));
        record[CODE_OFFSET..][..4].copy_from_slice(&0x80i32.to_ne_bytes());
        assert_eq!(arrival(&record), Some(Arrival { signal: Signal::INT, from: Sender::Kernel }));
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(name(9), "SIGKILL");
        assert_eq!(name(40), "signal 40");
    }
}
