//! Output of the ranks on its way through the launcher: lines get labels, and none is torn.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Cuts one rank's stream into lines and puts the label before each.
#[derive(Debug)]
pub struct Labeler {
    label: String,
    /// The line that has not ended yet.
    partial: Vec<u8>,
}

impl Labeler {
    /// A labeler for the streams of `rank`.
    pub fn new(rank: u32) -> Labeler {
        Labeler { label: format!("[{rank}] "), partial: Vec::new() }
    }

    /// Takes what the rank wrote; whole lines go to `outlet`, the rest is kept until its line ends.
    ///
    /// A line beyond a mebibyte is broken, so that a rank that never ends its line cannot fill the memory.
    pub fn take(&mut self, mut bytes: &[u8], outlet: &mut Outlet) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&bytes[..end]);
            self.end_line(outlet);
            bytes = &bytes[end + 1..];
        }
        self.partial.extend_from_slice(bytes);
        if LINE_BYTES_MAX < self.partial.len() {
            self.end_line(outlet);
        }
    }

    /// Lets go of a last line that has no end.
    pub fn finish(&mut self, outlet: &mut Outlet) {
        if !self.partial.is_empty() {
            self.end_line(outlet);
        }
    }

    fn end_line(&mut self, outlet: &mut Outlet) {
        self.partial.push(b'\n');
        outlet.push(self.label.as_bytes());
        outlet.push(&self.partial);
        self.partial.clear();
    }
}

/// One of the launcher's own streams, written without ever waiting for whoever reads it.
///
/// Waiting would be fatal: a launcher that hangs in a write cleans up after nobody. The stream's own "do not wait"
/// flag must not be used, since it is shared with every program that has the stream open.
#[derive(Debug)]
pub struct Outlet {
    stream: OwnedFd,
    pending: Vec<u8>,
    is_broken: bool,
}

impl Outlet {
    /// Writes to a duplicate of `stream`.
    pub fn new(stream: BorrowedFd<'_>) -> std::io::Result<Outlet> {
        Ok(Outlet { stream: stream.try_clone_to_owned()?, pending: Vec::new(), is_broken: false })
    }

    /// Queues bytes. What nobody can read any more is dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.is_broken {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Whether anything is queued.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether so much is queued that whoever fills it should wait.
    pub fn is_full(&self) -> bool {
        PENDING_BYTES_MAX < self.pending.len()
    }

    /// Whether the reader has gone.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Drops what is queued.
    pub fn abandon(&mut self) {
        self.pending.clear();
    }

    /// Writes as much as goes without waiting.
    pub fn flush(&mut self) {
        let mut written = 0;
        while written < self.pending.len() && self.is_ready() {
            let end = self.pending.len().min(written + ATOMIC_BYTES);
            match rustix::io::write(&self.stream, &self.pending[written..end]) {
                Ok(count) => written += count,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => {
                    self.is_broken = true;
                    written = self.pending.len();
                }
            }
        }
        self.pending.drain(..written);
    }

    fn is_ready(&self) -> bool {
        let mut entry = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::OUT)];
        poll(&mut entry, Some(&Timespec::default())).is_ok_and(|ready| ready != 0)
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

const LINE_BYTES_MAX: usize = 1 << 20;

const PENDING_BYTES_MAX: usize = 1 << 20;

/// A pipe that is reported ready takes this much without waiting (`PIPE_BUF`).
const ATOMIC_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    fn labelled(parts: &[&[u8]]) -> String {
        let (_reader, writer) = pipe().unwrap();
        let mut outlet = Outlet::new(writer.as_fd()).unwrap();
        let mut labeler = Labeler::new(7);
        for part in parts {
            labeler.take(part, &mut outlet);
        }
        labeler.finish(&mut outlet);
        String::from_utf8(outlet.pending).unwrap()
    }

    #[test]
    fn every_line_gets_the_label_however_it_arrives() {
        assert_eq!(labelled(&[b"a\nb\n"]), "[7] a\n[7] b\n");
        assert_eq!(labelled(&[b"a", b"b\nc", b"\n"]), "[7] ab\n[7] c\n");
        assert_eq!(labelled(&[b"\n\n"]), "[7] \n[7] \n");
        assert_eq!(labelled(&[b"no end"]), "[7] no end\n");
        assert_eq!(labelled(&[]), "");
    }

    #[test]
    fn an_endless_line_is_broken() {
        let mut outlet = Outlet::new(pipe().unwrap().1.as_fd()).unwrap();
        let mut labeler = Labeler::new(0);
        for _ in 0..40 {
            labeler.take(&[b'x'; 100_000], &mut outlet);
            assert!(labeler.partial.len() <= LINE_BYTES_MAX);
        }
        assert!(3 <= outlet.pending.iter().filter(|&&byte| byte == b'\n').count());
    }

    #[test]
    fn a_reader_that_does_not_read_stops_nobody() {
        let (reader, writer) = pipe().unwrap();
        let mut outlet = Outlet::new(writer.as_fd()).unwrap();
        outlet.push(&[b'x'; PENDING_BYTES_MAX + 1]);
        assert!(outlet.is_full());
        outlet.flush();
        assert!(outlet.is_pending(), "more than a pipe holds");
        let mut bytes = [0; 65_536];
        let mut read = 0;
        while read < PENDING_BYTES_MAX + 1 {
            read += rustix::io::read(&reader, &mut bytes).unwrap();
            outlet.flush();
        }
        assert!(!outlet.is_pending() && !outlet.is_full());
    }

    #[test]
    fn a_reader_that_has_gone_is_noticed() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut outlet = Outlet::new(writer.as_fd()).unwrap();
        outlet.push(b"x");
        outlet.flush();
        assert!(outlet.is_broken() && !outlet.is_pending());
        outlet.push(b"y");
        assert!(!outlet.is_pending());
    }
}
