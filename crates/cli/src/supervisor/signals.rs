//! Signals that reach the supervisor: which of them are passed on to the ranks, and which ask for the end of
//! the job.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::{Phase, Supervisor};
use crate::job::Cause;
use crate::output::Outlet;
use crate::signals::Sender;

impl Supervisor<'_> {
    pub(super) fn pass_on_signals(&mut self) -> io::Result<()> {
        for arrival in self.signals.take()? {
            let by_launcher = arrival.from == Sender::Process(Some(self.plan.launcher));
            match arrival.signal {
                Signal::CHILD => {}
                // The launcher's death sends this, to wake a stopped supervisor; others use it to wake the
                // ranks.
                Signal::CONT => self.send(Signal::CONT),
                signal => self.on_signal(signal, by_launcher),
            }
        }
        Ok(())
    }

    /// Passes a signal on to the ranks where it comes from the launcher. Any other signal was sent to the
    /// process group, so that the ranks have it already.
    fn on_signal(&mut self, signal: Signal, by_launcher: bool) {
        if signal == Signal::QUIT {
            self.tell_waits();
        }
        let now = Instant::now();
        self.group_signals.retain(|(_, time)| now.duration_since(*time) < GROUP_SIGNAL_LASTS);
        if by_launcher && self.group_signals.iter().any(|(known, _)| *known == signal) {
            return;
        }
        if by_launcher {
            self.send(signal);
        } else {
            self.group_signals.push((signal, now));
        }
        self.job.passes_on(signal.as_raw());
        if self.job.is_asked_to_end() {
            self.rebuilding.start_no_more();
        }
        match signal {
            Signal::TSTP => {
                // Where no shell does job control the kernel drops a SIGTSTP that nobody handles. Those who
                // do handle it have a moment for it.
                std::thread::sleep(BEFORE_STOP);
                self.send(Signal::STOP);
                let _ = kill_process(rustix::process::getpid(), Signal::STOP);
            }
            Signal::INT | Signal::TERM => self.on_wish_to_end(signal),
            _ => {}
        }
    }

    /// Notes that the user has asked for the end of the job. When the user asks a second time, the ranks are
    /// killed at once.
    fn on_wish_to_end(&mut self, signal: Signal) {
        let now = Instant::now();
        // Programs like `timeout` send to the launcher and to its process group: that is one wish, which
        // comes twice.
        let is_echo = |time: &Instant| now.duration_since(*time) < GROUP_SIGNAL_LASTS;
        if signal == Signal::TERM && self.wished_to_end.iter().any(is_echo) {
            return;
        }
        self.wished_to_end.push(now);
        if self.wished_to_end.len() < 2 {
            return;
        }
        self.job.end(Cause::AskedTwice { signal: signal.as_raw() });
        if let Phase::Ending { kill_at } = &mut self.phase {
            *kill_at = Instant::now();
        }
        // Whoever interrupts twice does not want to wait for a slow reader either.
        if self.phase == Phase::Over {
            self.outlets.iter_mut().for_each(Outlet::abandon);
        }
    }

    fn send(&self, signal: Signal) {
        for (_, pid) in self.job.running() {
            let _ = kill_process(pid, signal);
        }
    }
}

/// How long a rank has to handle SIGTSTP before it is stopped.
const BEFORE_STOP: Duration = Duration::from_millis(20);

const GROUP_SIGNAL_LASTS: Duration = Duration::from_millis(200);
