//! A socket to the launcher, with what was read and not used yet: lines for PMI-1, counted frames for PMI-2.
//!
//! Both protocols begin with the same line, and the server speaks the one that it asks for.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::error::ExchangeError;
use crate::siblings::Waiting;
use crate::wire::{Line, LineBuffer, excerpt};

/// A connection to a process manager's server, and the rank of the process that has it.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: OwnedFd,
    lines: LineBuffer,
    unread: Vec<u8>,
    /// This process's rank, for error messages until the server has told it.
    pub(crate) rank: u32,
}

/// The version of PMI that a client asks for.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub(crate) version: u32,
    pub(crate) subversion: u32,
}

impl Stream {
    pub(crate) fn new(socket: OwnedFd, rank: u32) -> Stream {
        Stream { socket, lines: LineBuffer::new(ANSWER_BYTES_MAX), unread: Vec::new(), rank }
    }

    /// Agrees on the protocol's version. Later subversions only add commands, so any will do.
    pub(crate) fn greet(&mut self, version: Version) -> Result<(), ExchangeError> {
        self.greet_within(version, GREETING_TAKES_MAX)
    }

    fn greet_within(&mut self, wanted: Version, most: Duration) -> Result<(), ExchangeError> {
        let Version { version, subversion } = wanted;
        let greeting = format!("cmd=init pmi_version={version} pmi_subversion={subversion}\n");
        self.send(GREETING, greeting.as_bytes())?;
        // Where Hydra's proxy has died while it started ranks, these have its listening socket among the
        // files that they were left: their connections stand in its queue then, and neither break nor bring
        // an answer.
        let silence = format!("it has said nothing for {} s", most.as_secs_f64());
        let mut give_up = || Err(ExchangeError::lost(self.rank, GREETING, &silence));
        self.wait(GREETING, &mut Waiting::paced(&mut give_up, most, most))?;
        let answer = self.line(GREETING)?;
        let garbled = || self.garbled(GREETING, excerpt(&answer));
        let line = Line::new(&answer).ok_or_else(garbled)?;
        if line.field("cmd") != Some("response_to_init") {
            return Err(garbled());
        }
        let accepted = line.field("rc").is_none_or(|code| code == "0");
        let offered: u32 = line.number("pmi_version").ok_or_else(garbled)?;
        if accepted && offered == version {
            return Ok(());
        }
        Err(ExchangeError::Refused { rank: self.rank, request: GREETING, answer: excerpt(&answer) })
    }

    pub(crate) fn send(&mut self, request: &'static str, bytes: &[u8]) -> Result<(), ExchangeError> {
        let mut left = bytes;
        while !left.is_empty() {
            // A broken connection must be an error here, not a signal that ends a program in C.
            let sent = retry_on_intr(|| send(&self.socket, left, SendFlags::NOSIGNAL));
            left = &left[sent.map_err(|error| ExchangeError::lost(self.rank, request, error))?..];
        }
        Ok(())
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self, request: &'static str) -> Result<Vec<u8>, ExchangeError> {
        loop {
            let mut bytes = self.unread.as_slice();
            let line = self.lines.take_line(&mut bytes);
            let left = bytes.len();
            self.unread.drain(..self.unread.len() - left);
            match line {
                Ok(Some(line)) => return Ok(line),
                Ok(None) => self.read_more(request)?,
                Err(_) => return Err(self.garbled(request, "a line without end".to_owned())),
            }
        }
    }

    /// The next frame of PMI-2: six bytes with the length in decimal digits, padded by blanks on either side,
    /// then as many bytes.
    pub(crate) fn frame(&mut self, request: &'static str) -> Result<Vec<u8>, ExchangeError> {
        let head = self.exactly(LENGTH_BYTES, request)?;
        let digits = std::str::from_utf8(&head).unwrap_or_default().trim_matches(' ');
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(length) if is_number && length <= ANSWER_BYTES_MAX => self.exactly(length, request),
            _ => Err(self.garbled(request, format!("{} for a length", excerpt(&head)))),
        }
    }

    /// Waits for the beginning of an answer that may take long, and looks around meanwhile.
    pub(crate) fn wait(&self, request: &'static str, waiting: &mut Waiting<'_>) -> Result<(), ExchangeError> {
        while self.unread.is_empty() {
            let left = waiting.left();
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut entry = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            match poll(&mut entry, Some(&left)) {
                Ok(0) => waiting.look()?,
                Err(Errno::INTR) => {}
                // Something came, or the end.
                Ok(_) => return Ok(()),
                Err(error) => return Err(ExchangeError::lost(self.rank, request, error)),
            }
        }
        Ok(())
    }

    fn exactly(&mut self, count: usize, request: &'static str) -> Result<Vec<u8>, ExchangeError> {
        while self.unread.len() < count {
            self.read_more(request)?;
        }
        Ok(self.unread.drain(..count).collect())
    }

    fn read_more(&mut self, request: &'static str) -> Result<(), ExchangeError> {
        // Straight to where it stays: whoever asks for a card may have a small stack.
        self.unread.reserve(READ_BYTES);
        let got = retry_on_intr(|| recv(&self.socket, spare_capacity(&mut self.unread), RecvFlags::empty()));
        match got.map_err(|error| ExchangeError::lost(self.rank, request, error))? {
            (0, _) => Err(ExchangeError::lost(self.rank, request, "the connection was closed")),
            _ => Ok(()),
        }
    }

    /// Whether the other end has hung up. Does not wait.
    pub(crate) fn lost(&self) -> bool {
        let watched = PollFlags::RDHUP;
        let mut entry = [PollFd::from_borrowed_fd(self.socket.as_fd(), watched)];
        match poll(&mut entry, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => false,
            Ok(_) => {
                entry[0].revents().intersects(watched | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
            }
            Err(_) => true,
        }
    }

    pub(crate) fn garbled(&self, request: &'static str, answer: String) -> ExchangeError {
        ExchangeError::Garbled { rank: self.rank, request, answer }
    }
}

/// The command that every conversation begins with.
const GREETING: &str = "init";

/// Who answers is on this node, and may be starting many ranks.
const GREETING_TAKES_MAX: Duration = Duration::from_secs(60);

/// The bytes of the decimal length before each frame of PMI-2.
pub(crate) const LENGTH_BYTES: usize = 6;

/// Hydra can answer with values of other programs that are this long.
const ANSWER_BYTES_MAX: usize = 128 * 1024;

const READ_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_server_that_says_nothing_is_not_awaited_for_ever() {
        let (here, _there) = UnixStream::pair().unwrap();
        let error = Stream::new(here.into(), 3)
            .greet_within(Version { version: 2, subversion: 0 }, Duration::from_millis(50))
            .unwrap_err();
        assert!(error.to_string().contains("it has said nothing for 0.05 s"), "{error}");
    }
}
