//! Words of a process to a person.

use std::fmt;
use std::io::Write;

/// Writes a line to standard error by one call of the system, so that lines of several ranks do not get into
/// each other where they share a terminal, a pipe or a file. It goes past all buffers.
///
/// ```
/// job::tell(format_args!("weft: rank {} of {} has nothing to do", 3, 8));
/// ```
pub fn tell(line: impl fmt::Display) {
    // `eprintln!` would write a piece for each value of the line. Nothing can be done where writing fails.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
