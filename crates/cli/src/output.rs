//! Output of the ranks on its way through the launcher: lines of several ranks are never mixed, and may get
//! labels.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

/// How a stream of the ranks reaches the launcher's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Ranks have the launcher's own stream.
    Inherited,
    /// The launcher reads it from a pipe and writes it.
    Piped,
    /// Errors take the pipe of the output, so that what a rank writes to both keeps its order.
    WithOutput,
}

impl Route {
    /// The routes of output and errors.
    ///
    /// One rank alone mixes with nobody. A terminal stays a terminal for the ranks, which write whole lines
    /// to it by themselves and may ask for its width; nothing is lost of what goes to a device like
    /// `/dev/null`.
    pub fn of(ranks: u32, label: bool, [output, errors]: [BorrowedFd<'_>; 2]) -> [Route; 2] {
        let route = |stream: BorrowedFd<'_>| {
            let is_device = kind_of(stream) == Some(FileType::CharacterDevice);
            if label || (1 < ranks && !is_device) { Route::Piped } else { Route::Inherited }
        };
        let same = |one, other| {
            let (one, other) = (fstat(one).ok()?, fstat(other).ok()?);
            Some((one.st_dev, one.st_ino, one.st_rdev) == (other.st_dev, other.st_ino, other.st_rdev))
        };
        match (route(output), route(errors)) {
            (Route::Piped, Route::Piped) if same(output, errors) == Some(true) => {
                [Route::Piped, Route::WithOutput]
            }
            (output, errors) => [output, errors],
        }
    }
}

/// Cuts one stream of one rank into lines, and puts a label before each where there is one.
#[derive(Debug)]
pub struct Lines {
    /// Which stream of the job this is.
    stream: u64,
    label: Option<String>,
    /// The line that has not ended yet.
    partial: Vec<u8>,
    /// Whether the rank stopped in the line where a program's buffer is full: the rest comes by itself.
    is_cut: bool,
}

impl Lines {
    /// The lines of a new stream.
    pub fn new(label: Option<String>) -> Lines {
        static STREAMS: AtomicU64 = AtomicU64::new(0);
        let stream = STREAMS.fetch_add(1, Ordering::Relaxed);
        Lines { stream, label, partial: Vec::new(), is_cut: false }
    }

    /// Takes what the rank wrote; whole lines go to `outlet`, the rest is kept until its line ends.
    ///
    /// A line of which more than a mebibyte is kept goes to `outlet` as it comes, so that a rank that never
    /// ends its line cannot fill the memory.
    pub fn take(&mut self, bytes: &[u8], outlet: &mut Outlet) {
        self.is_cut = bytes.len().is_multiple_of(BUFFER_BYTES);
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let (whole, rest) = bytes.split_at(end);
        if !whole.is_empty() {
            self.let_go(outlet);
            match &self.label {
                None => outlet.write(self.stream, "", whole),
                Some(label) => {
                    for line in whole.split_inclusive(|&byte| byte == b'\n') {
                        outlet.write(self.stream, label, line);
                    }
                }
            }
        }
        self.partial.extend_from_slice(rest);
        if outlet.is_within_line_of(self.stream) || LINE_BYTES_MAX < self.partial.len() {
            self.let_go(outlet);
        }
    }

    /// Whether a line is kept that the rank may have stopped in because it waits for an answer to it.
    pub fn may_ask(&self) -> bool {
        !self.partial.is_empty() && !self.is_cut
    }

    /// Lets go of a line that has not ended. What the rank adds to it follows at once; before a line of
    /// another rank it ends.
    pub fn let_go(&mut self, outlet: &mut Outlet) {
        outlet.write(self.stream, self.label.as_deref().unwrap_or_default(), &self.partial);
        self.partial.clear();
    }

    /// Lets go of a last line that has no end, which a label gives it.
    pub fn finish(&mut self, outlet: &mut Outlet) {
        self.let_go(outlet);
        if self.label.is_some() && outlet.is_within_line_of(self.stream) {
            outlet.end_line();
        }
    }
}

/// One of the launcher's own streams, written without ever waiting for its reader.
///
/// Waiting would be fatal: a launcher that hangs in a write cleans up after nobody. The stream's own "do not
/// wait" flag must not be used, since it is shared with every program that has the stream open; a pipe is
/// opened anew for that.
#[derive(Debug)]
pub struct Outlet {
    stream: OwnedFd,
    pending: Vec<u8>,
    /// The rank's stream whose unfinished line is the last that was queued.
    within_line_of: Option<u64>,
    /// Whether a write takes what goes without waiting, and no more.
    never_waits: bool,
    is_broken: bool,
    /// What the system said, where that is not that the reader has gone.
    trouble: Option<Errno>,
}

impl Outlet {
    /// Writes to `stream`.
    pub fn new(stream: BorrowedFd<'_>) -> std::io::Result<Outlet> {
        let (stream, never_waits) = match own_end(stream) {
            Some(own) => (own, true),
            None => (stream.try_clone_to_owned()?, kind_of(stream) == Some(FileType::RegularFile)),
        };
        Ok(Outlet {
            stream,
            never_waits,
            pending: Vec::new(),
            within_line_of: None,
            is_broken: false,
            trouble: None,
        })
    }

    /// Queues a line of the launcher's own.
    pub fn say(&mut self, line: &str) {
        self.end_line();
        self.push(line.as_bytes());
    }

    /// Queues bytes of `stream`, lines or a part of one; `label` stands before what begins a line.
    fn write(&mut self, stream: u64, label: &str, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        if !self.is_within_line_of(stream) {
            self.end_line();
            self.push(label.as_bytes());
        }
        self.push(bytes);
        self.within_line_of = (*last != b'\n').then_some(stream);
    }

    fn is_within_line_of(&self, stream: u64) -> bool {
        self.within_line_of == Some(stream)
    }

    fn end_line(&mut self) {
        if self.within_line_of.take().is_some() {
            self.push(b"\n");
        }
    }

    /// What nobody can read any more is dropped.
    fn push(&mut self, bytes: &[u8]) {
        if !self.is_broken {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Whether anything is queued.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether so much is queued that the launcher should stop reading from ranks until some is written.
    pub fn is_full(&self) -> bool {
        PENDING_BYTES_MAX < self.pending.len()
    }

    /// Whether the reader has gone.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Why nothing can be written any more, once, where a person would not know.
    pub fn take_trouble(&mut self) -> Option<Errno> {
        self.trouble.take()
    }

    /// Drops what is queued.
    pub fn abandon(&mut self) {
        self.pending.clear();
    }

    /// Writes as much as goes without waiting.
    pub fn flush(&mut self) {
        let mut written = 0;
        while written < self.pending.len() && (self.never_waits || self.is_ready()) {
            let most = if self.never_waits { usize::MAX } else { ATOMIC_BYTES };
            let end = self.pending.len().min(written.saturating_add(most));
            match rustix::io::write(&self.stream, &self.pending[written..end]) {
                Ok(count) => written += count,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => {
                    self.is_broken = true;
                    self.trouble = Some(errno).filter(|errno| *errno != Errno::PIPE);
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

fn kind_of(stream: BorrowedFd<'_>) -> Option<FileType> {
    fstat(stream).ok().map(|about| FileType::from_raw_mode(about.st_mode))
}

/// The end of a pipe that nobody else has open in this way: here "do not wait" may be set.
fn own_end(stream: BorrowedFd<'_>) -> Option<OwnedFd> {
    if kind_of(stream) != Some(FileType::Fifo) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
    rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

const LINE_BYTES_MAX: usize = 1 << 20;

const PENDING_BYTES_MAX: usize = 1 << 20;

/// Programs write blocks of this size, or of several of it, when their buffer is full.
const BUFFER_BYTES: usize = 4096;

/// A pipe that is reported ready takes this much without waiting (`PIPE_BUF`).
const ATOMIC_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    fn outlet() -> Outlet {
        Outlet::new(pipe().unwrap().1.as_fd()).unwrap()
    }

    fn text(outlet: &Outlet) -> &str {
        std::str::from_utf8(&outlet.pending).unwrap()
    }

    fn labelled(parts: &[&[u8]]) -> String {
        let mut outlet = outlet();
        let mut lines = Lines::new(Some("[7] ".to_owned()));
        for part in parts {
            lines.take(part, &mut outlet);
        }
        lines.finish(&mut outlet);
        text(&outlet).to_owned()
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
    fn lines_of_two_ranks_are_not_mixed_however_they_arrive() {
        let mut outlet = outlet();
        let [mut one, mut other] = [(), ()].map(|()| Lines::new(None));
        one.take(b"a\nb", &mut outlet);
        other.take(b"x", &mut outlet);
        one.take(b"c", &mut outlet);
        other.take(b"y\nz", &mut outlet);
        assert_eq!(text(&outlet), "a\nxy\n");
        one.take(b"\n", &mut outlet);
        one.finish(&mut outlet);
        other.finish(&mut outlet);
        assert_eq!(text(&outlet), "a\nxy\nbc\nz", "the last line has no more end than its rank gave it");
    }

    #[test]
    fn a_line_that_was_let_go_goes_on_until_another_rank_writes() {
        for (label, right) in [("", "a?b!\ny\n!c\nd"), ("> ", "> a?b!\n> y\n> !c\n> d")] {
            let mut outlet = outlet();
            let [mut one, mut other] =
                [(), ()].map(|()| Lines::new((!label.is_empty()).then(|| label.to_owned())));
            one.take(b"a?", &mut outlet);
            assert!(text(&outlet).is_empty() && one.may_ask());
            one.let_go(&mut outlet);
            one.take(b"b!", &mut outlet);
            assert_eq!(text(&outlet), format!("{label}a?b!"), "at once");
            other.take(b"y\n", &mut outlet);
            one.take(b"!c\nd", &mut outlet);
            one.let_go(&mut outlet);
            assert_eq!(text(&outlet), right);
            outlet.say("weftrun\n");
            assert_eq!(text(&outlet), format!("{right}\nweftrun\n"));
        }
    }

    #[test]
    fn a_full_buffer_asks_nothing() {
        let mut outlet = outlet();
        let mut lines = Lines::new(None);
        lines.take(&[b'x'; 2 * BUFFER_BYTES], &mut outlet);
        assert!(!lines.may_ask());
        lines.take(b"?", &mut outlet);
        assert!(lines.may_ask());
    }

    #[test]
    fn an_endless_line_is_not_kept_and_not_changed() {
        let mut outlet = outlet();
        let mut lines = Lines::new(None);
        for _ in 0..40 {
            lines.take(&[b'x'; 100_000], &mut outlet);
            assert!(lines.partial.len() <= LINE_BYTES_MAX);
        }
        assert_eq!(outlet.pending, [b'x'; 4_000_000]);
    }

    #[test]
    fn streams_go_through_the_launcher_where_ranks_could_mix() {
        let nothing = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        let ((_, one), (_, other)) = (pipe().unwrap(), pipe().unwrap());
        let (one, other, nothing) = (one.as_fd(), other.as_fd(), nothing.as_fd());
        assert_eq!(Route::of(2, false, [one, other]), [Route::Piped; 2]);
        assert_eq!(Route::of(2, false, [one, one]), [Route::Piped, Route::WithOutput]);
        assert_eq!(Route::of(2, false, [nothing, one]), [Route::Inherited, Route::Piped]);
        assert_eq!(Route::of(1, false, [one, one]), [Route::Inherited; 2]);
        assert_eq!(Route::of(1, true, [one, other]), [Route::Piped; 2]);
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
