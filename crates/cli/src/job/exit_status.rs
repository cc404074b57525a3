//! The exit status of the launcher: that of the rank that failed, or of whatever else ended the job.

use std::io;

use super::{Cause, Job};
use crate::descendants::Ending;

impl Job {
    /// The exit status of the launcher: of the cause that ended the job, or of the first rank that failed
    /// while the job went on.
    pub fn exit_status(&self) -> u8 {
        match (&self.cause, self.late_failure, self.failed.first()) {
            (Some(cause), ..) => cause.exit_status(),
            (None, Some((_, ending)), _) => status_of(ending),
            // Nobody is left who could have done well.
            (None, None, Some((_, ending))) if self.failed.len() + self.vanished == self.ranks.len() => {
                status_of(*ending)
            }
            (None, None, _) => 0,
        }
    }
}

impl Cause {
    fn exit_status(&self) -> u8 {
        match self {
            Cause::Died { ending, .. } => status_of(*ending),
            // A program may end a job in this way that has done well.
            Cause::Aborted { code: 0, .. } => 0,
            Cause::Aborted { code, .. } => low_byte(*code),
            Cause::LeftEarly { .. } | Cause::NeverCame { .. } | Cause::Broke(_) => 1,
            Cause::NotStarted { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => 127,
                io::ErrorKind::PermissionDenied => 126,
                _ => 1,
            },
            Cause::TimedOut { .. } => 124,
            Cause::PassedOn { signal } | Cause::AskedTwice { signal } => status_of(Ending::Signal(*signal)),
        }
    }
}

/// The status that a shell tells of an ended process: its exit status, or 128 and the number of its signal.
pub fn status_of(ending: Ending) -> u8 {
    match ending {
        Ending::Code(code) => low_byte(code),
        Ending::Signal(signal) => 128 | low_byte(signal & 127),
    }
}

/// The low byte of a status, which is what the system keeps of it. It is 1 where the low byte of a failure is
/// zero, since that would look like success.
fn low_byte(code: i32) -> u8 {
    match code.to_le_bytes()[0] {
        0 => 1,
        low => low,
    }
}
