//! What ranks print: it is read from their pipes and written to the launcher's own output and errors.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::{READS_PER_TURN, Supervisor};
use crate::options::Input;

impl Supervisor<'_> {
    pub(super) fn takes_output(&self, kind: usize) -> bool {
        self.output_waits_until.is_none() && !self.outlets[kind].is_full()
    }

    /// Reads everything that a rank has written so far, and passes it on with its last line, though that has
    /// no end.
    pub(super) fn drain(&mut self, place: usize) {
        for kind in 0..self.outlets.len() {
            // Bounded by what a pipe holds, unless something still writes to it; then the rest comes later.
            self.read_stream(place, kind, READS_TO_DRAIN);
            let Some(process) = self.processes.get_mut(place) else { return };
            if let Some(stream) = &mut process.streams[kind] {
                stream.lines.finish(&mut self.outlets[kind]);
            }
        }
    }

    pub(super) fn forward_output(&mut self, ready: &[(usize, usize)]) {
        for &(place, kind) in ready {
            if self.takes_output(kind) {
                self.read_stream(place, kind, READS_PER_TURN);
            }
        }
        for (kind, outlet) in self.outlets.iter().enumerate() {
            // Nobody reads the output any more; the ranks are to learn that as if they wrote to it
            // themselves.
            if outlet.is_broken() {
                self.processes.iter_mut().for_each(|process| process.streams[kind] = None);
            }
        }
    }

    fn read_stream(&mut self, place: usize, kind: usize, reads_max: usize) {
        let Some(process) = self.processes.get_mut(place) else { return };
        let (slot, outlet) = (&mut process.streams[kind], &mut self.outlets[kind]);
        for _ in 0..reads_max {
            let Some(stream) = slot else { return };
            match rustix::io::read(&stream.pipe, &mut self.buffer[..]) {
                Ok(count @ 1..) => {
                    self.heard[kind] = Instant::now();
                    if let Some(copy) = &mut stream.copy {
                        // A disk that is full does not end a job whose output is seen elsewhere, too.
                        let _ = copy.write_all(&self.buffer[..count]);
                    }
                    stream.lines.take(&self.buffer[..count], outlet);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(_) | Err(_) => {
                    stream.lines.finish(outlet);
                    *slot = None;
                }
            }
        }
    }

    /// Shows the unfinished line of the rank that reads the launcher's input, when no rank has written
    /// anything for a moment: the rank may have asked a question and wait for the answer.
    pub(super) fn show_questions(&mut self) {
        for kind in 0..self.outlets.len() {
            let is_due = self.question_due(kind).is_some_and(|time| time <= Instant::now());
            let reader = self.reader();
            let asks = self.processes.get_mut(reader).and_then(|process| process.streams[kind].as_mut());
            if let Some(stream) = asks.filter(|_| is_due) {
                stream.lines.let_go(&mut self.outlets[kind]);
            }
        }
    }

    fn reader(&self) -> usize {
        match self.plan.input {
            Input::Rank(rank) => rank as usize,
            // Those who read what is not a person's ask nothing.
            Input::All | Input::None => 0,
        }
    }

    pub(super) fn question_due(&self, kind: usize) -> Option<Instant> {
        let stream = self.processes.get(self.reader())?.streams[kind].as_ref()?;
        (stream.lines.may_ask() && self.takes_output(kind)).then(|| self.heard[kind] + QUESTION_WAITS)
    }
}

/// How much of a rank's output is read at once: what a pipe holds, unless someone has changed it.
pub(super) const STREAM_READ_BYTES: usize = 64 * 1024;

/// How long an unfinished line waits: long enough for a rank that is in the middle of it to go on, and short
/// for a person who is asked.
const QUESTION_WAITS: Duration = Duration::from_millis(100);

/// How often a pipe is read at most to empty it: 2 MiB in all. Ordinary users can enlarge a pipe to 1 MiB at
/// most.
const READS_TO_DRAIN: usize = 32;
