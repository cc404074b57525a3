//! The failure log: where a launcher that leaves survivors alive writes which processes have ended.
//!
//! It is memory of its own, for jobs over any fabric. The launcher alone writes, and only what it knows for
//! sure, having seen the end of the process; the ranks map it for reading, and the kernel holds them to it.
//! What it answers to those who ask for processes in the place of the dead stands there as well, so that all
//! read the same.
//!
//! ```text
//! word 0      how many have ended
//! word 1      how many words of answers there are
//! word 2      of what form this is
//! word 3      the descriptor that the launcher writes to with each news, in those who inherit it; 0 where it rings bells instead
//! word 4 ..   the numbers of those who have ended, in the order in which they have
//! word 4 + p  the answers, one behind the other; p is how many numbers of processes there are
//!
//! answer      what was asked 8 | whether it was done 4 | processes 4 | for each: its rank 4, its number 4 |
//! ```

use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use fabric::Peer;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::SealFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::futex;

use crate::anonymous;
use crate::bell;
use crate::layout::PAGE;
use crate::memory::{Mapped, Memory};
use crate::process_slot::ProcessSlot;
use crate::segment::{self, Segment, SegmentError};
use crate::sync::Ordering;

/// What a rank reads.
pub struct FailureLog {
    memory: Mapped,
    peers: u32,
}

/// What the launcher writes.
pub struct FailureLogWriter {
    failure_log: FailureLog,
    file: OwnedFd,
    rings: Rings,
}

/// How those who sleep hear that something was written.
enum Rings {
    /// The ranks share memory, and their bells are rung.
    Seats(Segment),
    /// The ranks watch a pipe, which nobody but the launcher reads.
    Pipe { reader: OwnedFd, writer: OwnedFd },
}

impl FailureLog {
    /// Maps the failure log of a job of so many processes, after checking that it is one: a descriptor comes
    /// from outside.
    ///
    /// # Errors
    /// [`SegmentError::Foreign`], [`SegmentError::Resources`].
    pub fn adopt(file: &OwnedFd, peers: u32) -> Result<FailureLog, SegmentError> {
        let foreign = |what: String| SegmentError::Foreign(what);
        let there = rustix::fs::fstat(file).map_err(|errno| foreign(errno.to_string()))?.st_size as u64;
        let bytes = failure_log_bytes(peers);
        if there != bytes as u64 {
            return Err(foreign(format!(
                "it holds {there} bytes, and the failure log of {peers} ranks has {bytes}"
            )));
        }
        if !anonymous::keeps_its_length(file).map_err(|errno| foreign(errno.to_string()))? {
            return Err(foreign("it could be cut short while it is in use".into()));
        }
        let mapping = MmapOptions::new().len(bytes).map_raw_read_only(file);
        let memory = Mapped::new(mapped(mapping)?);
        if memory.word(FORM_AT).load(Ordering::Relaxed) != FORM {
            return Err(foreign("the launcher is of another version of weft than this library".into()));
        }
        Ok(FailureLog { memory, peers })
    }

    /// The descriptor that the launcher hands down, to which it writes with each news; none where it rings
    /// the bells of shared memory.
    #[must_use]
    pub fn pipe(&self) -> Option<i32> {
        let number = self.memory.word(PIPE_AT).load(Ordering::Relaxed);
        i32::try_from(number).ok().filter(|number| *number > 0)
    }

    /// How many have ended.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.memory.word(0).load(Ordering::Acquire)
    }

    /// The process that was the `at`th to end; none where there is no such.
    #[must_use]
    pub fn peer(&self, at: u32) -> Option<Peer> {
        if at >= self.count().min(self.peers) {
            return None;
        }
        let peer = self.memory.word(4 * (FIRST_ENDED + at as usize)).load(Ordering::Relaxed);
        (peer < self.peers).then_some(Peer(peer))
    }

    /// Sleeps until more than `count` have ended; now and then for nothing, as when somebody says
    /// [`FailureLog::rouse`] of `sleeper`.
    pub fn sleep(&self, count: u32, sleeper: Peer) {
        let _ =
            futex::wait_bitset(self.memory.word(0), futex::Flags::empty(), count, None, sleeper_bit(sleeper));
    }

    /// Wakes the process `sleeper`, and perhaps others; a process that is about to sleep hears nothing of it.
    pub fn rouse(&self, sleeper: Peer) {
        let all = i32::MAX as u32;
        let _ = futex::wake_bitset(self.memory.word(0), futex::Flags::empty(), all, sleeper_bit(sleeper));
    }

    /// What the launcher has answered to those who asked for processes under that number, if it has: the
    /// ranks in which there are new ones, or none where they could not be started.
    #[must_use]
    pub fn answer(&self, asked: u64) -> Option<Answer> {
        let (end, mut at) = (self.answered_words(), 0);
        let word = |at: usize| self.memory.word(self.answers_at() + 4 * at).load(Ordering::Relaxed);
        while at + ANSWER_WORDS <= end {
            let count = word(at + 3) as usize;
            let next = at + ANSWER_WORDS + 2 * count;
            if next > end {
                return None;
            }
            if u64::from(word(at)) | u64::from(word(at + 1)) << 32 == asked {
                let pair = |pair: usize| {
                    (word(at + ANSWER_WORDS + 2 * pair), word(at + ANSWER_WORDS + 2 * pair + 1))
                };
                let pairs = (0..count).map(pair).filter(|(_, peer)| *peer < self.peers);
                let is_done = word(at + 2) != 0;
                return Some(is_done.then(|| pairs.map(|(rank, peer)| (rank, Peer(peer))).collect()));
            }
            at = next;
        }
        None
    }

    fn answered_words(&self) -> usize {
        let words = self.memory.word(4).load(Ordering::Acquire) as usize;
        words.min(answers_words_max(self.peers))
    }

    /// Where the answers begin, in bytes.
    fn answers_at(&self) -> usize {
        4 * (FIRST_ENDED + self.peers as usize)
    }
}

/// The ranks in which there are new processes, with the numbers of these; none where they could not be
/// started.
pub type Answer = Option<Vec<(u32, Peer)>>;

impl FailureLogWriter {
    /// Makes the failure log of a job of so many processes. Those who share `segment` are woken by what is
    /// written; where there is none, those who watch the pipe.
    ///
    /// # Errors
    /// [`SegmentError::Resources`], [`SegmentError::System`].
    pub fn create(peers: u32, segment: Option<OwnedFd>) -> Result<FailureLogWriter, SegmentError> {
        let (bytes, doing) = (failure_log_bytes(peers), "reserving the failure log");
        let file = anonymous::anonymous(c"weft-failures")
            .map_err(|errno| segment::exhausted("making the failure log", bytes as u64, errno))?;
        segment::resize(&file, bytes as u64)?;
        segment::reserve(&file, 0, bytes as u64)
            .map_err(|errno| segment::exhausted(doing, bytes as u64, errno))?;
        let mapping = mapped(MmapOptions::new().len(bytes).map_raw(&file))?;
        // Older kernels (before 5.1) cannot shut others out from writing.
        anonymous::seal(&file, SealFlags::FUTURE_WRITE)
            .or_else(|_| anonymous::seal(&file, SealFlags::empty()))
            .map_err(|errno| segment::system("sealing the failure log", errno))?;
        let rings = match segment {
            Some(file) => Rings::Seats(Segment::adopt(file, peers)?),
            None => Rings::pipe()?,
        };
        let memory = Mapped::new(mapping);
        memory.word(FORM_AT).store(FORM, Ordering::Relaxed);
        if let Rings::Pipe { reader, .. } = &rings {
            memory.word(PIPE_AT).store(reader.as_raw_fd().unsigned_abs(), Ordering::Relaxed);
        }
        Ok(FailureLogWriter { failure_log: FailureLog { memory, peers }, file, rings })
    }

    /// The failure log's descriptor, whose number the ranks are told.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// All descriptors that are to be handed to the ranks, under the numbers that they have here.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let pipe = match &self.rings {
            Rings::Seats(_) => None,
            Rings::Pipe { reader, .. } => Some(reader.as_fd()),
        };
        std::iter::once(self.file()).chain(pipe)
    }

    /// Writes down that a process has ended, and wakes who sleeps. A process that stands in the log is not
    /// written again.
    pub fn write(&mut self, peer: Peer) {
        let memory = &self.failure_log.memory;
        let count = self.failure_log.count();
        let is_known = (0..count).any(|at| self.failure_log.peer(at) == Some(peer));
        if is_known || count >= self.failure_log.peers {
            return;
        }
        memory.word(4 * (FIRST_ENDED + count as usize)).store(peer.0, Ordering::Relaxed);
        memory.word(0).store(count + 1, Ordering::Release);
        let _ = futex::wake(memory.word(0), futex::Flags::empty(), i32::MAX as u32);
        self.wake_all();
    }

    /// Writes down what has come of what was asked for under that number, and wakes who sleeps. What was
    /// answered is not answered again; false where there is no room, which those who ask for no more than
    /// have died never meet.
    pub fn write_answer(&mut self, asked: u64, new: Option<&[(u32, Peer)]>) -> bool {
        if self.failure_log.answer(asked).is_some() {
            return true;
        }
        let (memory, at) = (&self.failure_log.memory, self.failure_log.answered_words());
        let pairs = new.unwrap_or_default();
        let end = at + ANSWER_WORDS + 2 * pairs.len();
        if end > answers_words_max(self.failure_log.peers) {
            return false;
        }
        let front = [asked as u32, (asked >> 32) as u32, u32::from(new.is_some()), pairs.len() as u32];
        let words = front.into_iter().chain(pairs.iter().flat_map(|&(rank, peer)| [rank, peer.0]));
        for (place, word) in (at..).zip(words) {
            memory.word(self.failure_log.answers_at() + 4 * place).store(word, Ordering::Relaxed);
        }
        memory.word(4).store(end as u32, Ordering::Release);
        self.wake_all();
        true
    }

    fn wake_all(&self) {
        match &self.rings {
            Rings::Seats(segment) => {
                for number in 0..segment.process_slots() {
                    let process_slot = ProcessSlot::at(segment.layout().process_slot_at(number));
                    process_slot.strike(segment.memory());
                    bell::wake(segment.memory(), process_slot);
                }
            }
            Rings::Pipe { reader, writer } => {
                // Each write is news to all who watch, also to an empty pipe; it must only never be full.
                let _ = rustix::io::read(reader, &mut [0; 64]);
                let _ = rustix::io::write(writer, &[0]);
            }
        }
    }
}

impl Rings {
    fn pipe() -> Result<Rings, SegmentError> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| segment::exhausted("making the pipe of the failure log", 0, errno))?;
        Ok(Rings::Pipe { reader, writer })
    }
}

impl std::fmt::Debug for FailureLogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LedgerWriter({} of {} have ended)", self.failure_log.count(), self.failure_log.peers)
    }
}

/// By what the kernel tells sleepers from each other, as far as it does.
fn sleeper_bit(sleeper: Peer) -> NonZeroU32 {
    NonZeroU32::new(1 << (sleeper.0 % u32::BITS)).unwrap_or(NonZeroU32::MIN)
}

fn mapped(mapping: std::io::Result<MmapRaw>) -> Result<MmapRaw, SegmentError> {
    mapping.map_err(|error| segment::no_address_space("mapping the failure log", PAGE as u64, &error))
}

fn failure_log_bytes(peers: u32) -> usize {
    (4 * (FIRST_ENDED + peers as usize + answers_words_max(peers))).next_multiple_of(PAGE)
}

/// Who asks has lost somebody, and nobody comes back more often than there are numbers.
fn answers_words_max(peers: u32) -> usize {
    peers as usize * (ANSWER_WORDS + 2)
}

/// The word of the first that has ended.
const FIRST_ENDED: usize = 4;
/// The third word, by its place in bytes, says that it is of this form, and no other.
const FORM_AT: usize = 8;
const FORM: u32 = 0x7766_0003;
const PIPE_AT: usize = 12;
/// Words of an answer before its ranks.
const ANSWER_WORDS: usize = 4;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use fabric::{Bell, Fabric};

    use super::*;
    use crate::anonymous::anew;
    use crate::{Settings, Shm};

    fn readers(writer: &FailureLogWriter, peers: u32) -> Result<FailureLog, SegmentError> {
        FailureLog::adopt(&writer.file().try_clone_to_owned().unwrap(), peers)
    }

    #[test]
    fn what_is_written_is_read_in_its_order_and_once() {
        let mut writer = FailureLogWriter::create(3, None).unwrap();
        let failure_log = readers(&writer, 3).unwrap();
        assert_eq!((failure_log.count(), failure_log.peer(0)), (0, None));
        for peer in [2, 0, 2] {
            writer.write(Peer(peer));
        }
        let read: Vec<_> = (0..4).map(|at| failure_log.peer(at)).collect();
        assert_eq!((failure_log.count(), &read[..]), (2, &[Some(Peer(2)), Some(Peer(0)), None, None][..]));
    }

    #[test]
    fn answers_are_read_by_what_was_asked_and_given_once() {
        let mut writer = FailureLogWriter::create(4, None).unwrap();
        let failure_log = readers(&writer, 4).unwrap();
        let (first, second) = (7, 7 | 1 << 40);
        assert_eq!(failure_log.answer(first), None);
        assert!(writer.write_answer(first, Some(&[(1, Peer(3))])));
        assert!(writer.write_answer(first, None), "it was answered");
        assert!(writer.write_answer(second, None));
        assert_eq!(failure_log.answer(first), Some(Some(vec![(1, Peer(3))])));
        assert_eq!((failure_log.answer(second), failure_log.answer(8)), (Some(None), None));
        let more = (100..).find(|&asked| !writer.write_answer(asked, Some(&[(0, Peer(1))]))).unwrap();
        assert_eq!(
            (failure_log.answer(more), more),
            (None, 102),
            "an answer for each of four, and then no room"
        );
        assert_eq!((failure_log.count(), failure_log.answer(101).is_some()), (0, true));
    }

    #[test]
    fn only_the_launcher_can_write() {
        let writer = FailureLogWriter::create(3, None).unwrap();
        let seals = rustix::fs::fcntl_get_seals(writer.file()).unwrap();
        if seals.contains(SealFlags::FUTURE_WRITE) {
            assert!(
                MmapOptions::new().len(PAGE).map_raw(&writer.file().try_clone_to_owned().unwrap()).is_err()
            );
        }
    }

    #[test]
    fn a_pipe_says_that_there_is_news_where_no_memory_is_shared() {
        let mut writer = FailureLogWriter::create(3, None).unwrap();
        let number = readers(&writer, 3).unwrap().pipe().unwrap();
        assert!(writer.files().any(|file| file.as_raw_fd() == number));
        let reader = anew(number).unwrap();
        let mut waiting = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
        let mut polled =
            || rustix::event::poll(&mut waiting, Some(&rustix::event::Timespec::default())).unwrap();
        assert_eq!(polled(), 0);
        writer.write(Peer(1));
        assert_eq!(polled(), 1);
        for _ in 0..100_000 {
            writer.wake_all();
        }
        assert_eq!(rustix::io::read(&reader, &mut [0; 8]), Ok(1), "it is never full");
        let shared = FailureLogWriter::create(3, Some(Segment::create(3).unwrap())).unwrap();
        assert_eq!((readers(&shared, 3).unwrap().pipe(), shared.files().count()), (None, 1));
    }

    #[test]
    fn who_sleeps_on_the_failure_log_is_woken_by_what_is_written_and_by_who_rouses_him() {
        let mut writer = FailureLogWriter::create(64, None).unwrap();
        let failure_log = readers(&writer, 64).unwrap();
        failure_log.sleep(1, Peer(40));
        let (says, is_up) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while failure_log.count() == 0 {
                    failure_log.sleep(0, Peer(40));
                }
            });
            writer.write(Peer(3));
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                failure_log.sleep(1, Peer(40));
                says.send(()).unwrap();
            });
            while is_up.try_recv().is_err() {
                failure_log.rouse(Peer(40));
            }
        });
    }

    #[test]
    fn something_else_is_no_collective_segment() {
        let writer = FailureLogWriter::create(3, None).unwrap();
        let error = readers(&writer, 5000).map(|failure_log| failure_log.count()).unwrap_err();
        assert!(error.to_string().contains("the failure log of 5000 ranks"), "{error}");
        let cut = anonymous::anonymous(c"weft-test").unwrap();
        segment::resize(&cut, PAGE as u64).unwrap();
        assert!(FailureLog::adopt(&cut, 3).is_err(), "it could be cut short");
    }

    #[test]
    fn who_sleeps_is_woken() {
        let file = Segment::create(2).unwrap();
        let rank = Segment::adopt(anew(file.as_raw_fd()).unwrap(), 2).unwrap();
        let shm = Shm::open(rank, 1, vec![Peer(0), Peer(1)], Settings::default()).unwrap();
        let mut writer = FailureLogWriter::create(2, Some(file)).unwrap();
        let (bell, since) = (shm.bell(), Instant::now());
        let armed = bell.arm();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| bell.sleep(armed, Duration::from_secs(60)));
            writer.write(Peer(0));
            sleeper.join().unwrap();
        });
        assert!(since.elapsed() < Duration::from_secs(60), "nobody was woken");
    }
}
