//! The PMI-1 client: one request, one answer, over a socket to the launcher.
//!
//! Servers differ in small ways, which this file absorbs: Hydra answers a barrier without a return code and an
//! unknown universe size with -1; Slurm reads at most 1024 bytes as one command, whatever it announces, and
//! takes no second request before the first is answered.

use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::StartError;
use crate::segments;
use crate::wire::{Line, LineBuffer, excerpt};

/// Why the process manager did not do what was asked. The second line tells what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The connection ended or broke.
    #[error(
        "rank {rank} lost its process manager during `{request}`: {reason}\n\
         the launcher has ended, or ended the job; look at its messages and at the first rank that failed"
    )]
    Lost {
        /// This process's rank.
        rank: u32,
        /// What was under way.
        request: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The answer makes no sense.
    #[error(
        "rank {rank} got an answer to `{request}` that it does not understand: {answer}\n\
         the launcher speaks another dialect of PMI-1; start the program with weftrun, or report this line"
    )]
    Garbled {
        /// This process's rank.
        rank: u32,
        /// What was asked.
        request: &'static str,
        /// The start of the answer.
        answer: String,
    },
    /// The server understood, and said no.
    #[error(
        "the process manager refused `{request}` of rank {rank}: {answer}\n\
         a key can be put once, and the server's memory is bounded; if neither is the cause, report this line"
    )]
    Refused {
        /// This process's rank.
        rank: u32,
        /// What was asked.
        request: &'static str,
        /// The start of the answer.
        answer: String,
    },
    /// The key cannot be used with every launcher.
    #[error(
        "`{key}` cannot be a key of the process manager\n\
         use 1 to {KEY_BYTES_MAX} letters, digits, `-`, `_` or `.`, not starting with PMI_"
    )]
    BadKey {
        /// The key as given.
        key: String,
    },
    /// A value was put by something that is not this library, or only in part.
    #[error(
        "rank {rank} found a damaged value under the key `{key}`\n\
         all ranks must run the same version of this library; check which one each node loads"
    )]
    Damaged {
        /// This process's rank.
        rank: u32,
        /// The key asked for.
        key: String,
    },
}

/// A conversation with a PMI-1 server.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
    size: u32,
    /// The name of the job's key-value space.
    space: String,
    value_bytes_max: usize,
}

impl Client {
    /// Starts the conversation over a connected socket.
    pub(crate) fn start(socket: OwnedFd, rank: u32, size: u32) -> Result<Client, ExchangeError> {
        let mut connection = Connection::new(socket, rank);
        connection.greet()?;
        Client::enter(connection, size)
    }

    /// Connects to the server at `address`, which tells rank and size to the process that it knows as `id`.
    pub(crate) fn connect(address: &str, id: u32) -> Result<Client, StartError> {
        let unreachable = |source| StartError::Unreachable { address: address.to_owned(), source };
        let stream = TcpStream::connect(address).map_err(unreachable)?;
        // Requests are answered one by one, so waiting to fill packets would only delay each.
        stream.set_nodelay(true).map_err(unreachable)?;
        let mut connection = Connection::new(OwnedFd::from(stream), id);
        connection.greet()?;
        let size = connection.introduce(id)?;
        Ok(Client::enter(connection, size)?)
    }

    fn enter(mut connection: Connection, size: u32) -> Result<Client, ExchangeError> {
        let maxes = connection.ask("get_maxes", "", "maxes")?;
        let value_bytes_max = maxes.read(|line| line.number("vallen_max"))?;
        let space = connection.ask("get_my_kvsname", "", "my_kvsname")?;
        let space = space.read(|line| line.field("kvsname").map(str::to_owned))?;
        Ok(Client { connection, size, space, value_bytes_max })
    }

    pub(crate) fn rank(&self) -> u32 {
        self.connection.rank
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> Result<(), ExchangeError> {
        check_key(key)?;
        for (key, text) in segments::cut(key, value, self.text_bytes_max()) {
            let fields = format!(" kvsname={} key={key} value={text}", self.space);
            self.connection.ask("put", &fields, "put_result")?.accepted()?;
        }
        Ok(())
    }

    pub(crate) fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, ExchangeError> {
        check_key(key)?;
        let damaged = ExchangeError::Damaged { rank: self.rank(), key: key.to_owned() };
        let Some(first) = self.get_text(key)? else { return Ok(None) };
        let Some((count, piece)) = segments::first_piece(&first) else { return Err(damaged) };
        let mut text = piece.to_owned();
        for index in 1..count {
            match self.get_text(&segments::piece_key(key, index))? {
                Some(piece) => text.push_str(&piece),
                None => return Err(damaged),
            }
        }
        segments::decode(&text).map(Some).ok_or(damaged)
    }

    /// The text under a key as the server holds it, or `None` when there is none.
    pub(crate) fn get_text(&mut self, key: &str) -> Result<Option<String>, ExchangeError> {
        let fields = format!(" kvsname={} key={key}", self.space);
        let answer = self.connection.ask("get", &fields, "get_result")?;
        if answer.accepted().is_err() {
            return Ok(None);
        }
        answer.read(|line| line.field("value").map(str::to_owned)).map(Some)
    }

    pub(crate) fn fence(&mut self) -> Result<(), ExchangeError> {
        self.connection.ask("barrier_in", "", "barrier_out")?.accepted()
    }

    pub(crate) fn appnum(&mut self) -> Result<Option<u32>, ExchangeError> {
        let answer = self.connection.ask("get_appnum", "", "appnum")?;
        let appnum: i64 = answer.read(|line| line.number("appnum"))?;
        Ok(u32::try_from(appnum).ok())
    }

    pub(crate) fn universe_size(&mut self) -> Result<Option<u32>, ExchangeError> {
        let answer = self.connection.ask("get_universe_size", "", "universe_size")?;
        let size: i64 = answer.read(|line| line.number("size"))?;
        Ok(u32::try_from(size).ok())
    }

    pub(crate) fn abort(&mut self, code: i32) -> Result<(), ExchangeError> {
        self.connection.send("abort", &format!(" exitcode={code}"))
    }

    pub(crate) fn finalize(&mut self) -> Result<(), ExchangeError> {
        self.connection.ask("finalize", "", "finalize_ack")?.accepted()
    }

    pub(crate) fn lost(&self) -> bool {
        self.connection.lost()
    }

    /// Room for a value's text in a `put`, by the server's limit and by the line it really reads.
    fn text_bytes_max(&self) -> usize {
        let around = "cmd=put kvsname= key= value=\n".len()
            + self.space.len()
            + KEY_BYTES_MAX
            + PIECE_SUFFIX_BYTES_MAX;
        let by_line = LINE_SENT_BYTES_MAX.saturating_sub(around);
        // A limit may count a terminating zero byte.
        by_line.min(self.value_bytes_max.saturating_sub(1)).min(TEXT_BYTES_MAX)
    }
}

/// The socket with its unfinished line; knows the form of requests and answers.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    lines: LineBuffer,
    /// Bytes read and not yet cut into lines.
    unread: Vec<u8>,
    rank: u32,
}

/// An answer of the command that was expected.
struct Answer {
    bytes: Vec<u8>,
    rank: u32,
    request: &'static str,
}

impl Connection {
    fn new(socket: OwnedFd, rank: u32) -> Connection {
        Connection { socket, lines: LineBuffer::new(LINE_READ_BYTES_MAX), unread: Vec::new(), rank }
    }

    /// Agrees on the protocol's version. Later subversions only add commands, so any will do.
    fn greet(&mut self) -> Result<(), ExchangeError> {
        let answer = self.ask("init", " pmi_version=1 pmi_subversion=1", "response_to_init")?;
        answer.accepted()?;
        let version: u32 = answer.read(|line| line.number("pmi_version"))?;
        if version == 1 { Ok(()) } else { Err(answer.refused()) }
    }

    /// Tells a listening server who is calling; it answers with four lines. Returns the size of the job.
    fn introduce(&mut self, id: u32) -> Result<u32, ExchangeError> {
        self.ask("initack", &format!(" pmiid={id}"), "initack")?.accepted()?;
        let (mut rank, mut size) = (None, None);
        for _ in ["size", "rank", "debug"] {
            let answer = self.answer("initack", "set")?;
            answer.read(|line| {
                rank = rank.or(line.number("rank"));
                size = size.or(line.number("size"));
                Some(())
            })?;
        }
        match (rank, size) {
            (Some(rank), Some(size)) if rank < size => {
                self.rank = rank;
                Ok(size)
            }
            _ => Err(self.garbled("initack", format!("rank {rank:?} of {size:?}"))),
        }
    }

    fn ask(&mut self, request: &'static str, fields: &str, answer: &str) -> Result<Answer, ExchangeError> {
        self.send(request, fields)?;
        self.answer(request, answer)
    }

    fn send(&mut self, request: &'static str, fields: &str) -> Result<(), ExchangeError> {
        let line = format!("cmd={request}{fields}\n");
        let mut left = line.as_bytes();
        while !left.is_empty() {
            // A broken connection must be an error here, not a signal that ends a program in C.
            let sent = retry_on_intr(|| send(&self.socket, left, SendFlags::NOSIGNAL));
            left = &left[sent.map_err(|error| self.lost_by(request, error))?..];
        }
        Ok(())
    }

    fn answer(&mut self, request: &'static str, expected: &str) -> Result<Answer, ExchangeError> {
        let bytes = self.read_line(request)?;
        let answer = Answer { bytes, rank: self.rank, request };
        let command = answer.read(|line| line.field("cmd").map(str::to_owned))?;
        if command == expected { Ok(answer) } else { Err(answer.garbled()) }
    }

    fn read_line(&mut self, request: &'static str) -> Result<Vec<u8>, ExchangeError> {
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

    fn read_more(&mut self, request: &'static str) -> Result<(), ExchangeError> {
        let mut bytes = [0; READ_BYTES];
        let got = retry_on_intr(|| recv(&self.socket, &mut bytes[..], RecvFlags::empty()));
        match got.map_err(|error| self.lost_by(request, error))? {
            (0, _) => Err(self.lost_by(request, "the connection was closed")),
            (count, _) => {
                self.unread.extend_from_slice(&bytes[..count]);
                Ok(())
            }
        }
    }

    fn lost(&self) -> bool {
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

    fn lost_by(&self, request: &'static str, reason: impl ToString) -> ExchangeError {
        ExchangeError::Lost { rank: self.rank, request, reason: reason.to_string() }
    }

    fn garbled(&self, request: &'static str, answer: String) -> ExchangeError {
        ExchangeError::Garbled { rank: self.rank, request, answer }
    }
}

impl Answer {
    fn read<T>(&self, reader: impl FnOnce(Line<'_>) -> Option<T>) -> Result<T, ExchangeError> {
        Line::new(&self.bytes).and_then(reader).ok_or_else(|| self.garbled())
    }

    /// An answer without a return code says yes; so Hydra ends a barrier.
    fn accepted(&self) -> Result<(), ExchangeError> {
        match self.read(|line| Some(line.field("rc").map(str::to_owned)))?.as_deref() {
            None | Some("0") => Ok(()),
            Some(_) => Err(self.refused()),
        }
    }

    fn refused(&self) -> ExchangeError {
        let Answer { rank, request, .. } = *self;
        ExchangeError::Refused { rank, request, answer: excerpt(&self.bytes) }
    }

    fn garbled(&self) -> ExchangeError {
        let Answer { rank, request, .. } = *self;
        ExchangeError::Garbled { rank, request, answer: excerpt(&self.bytes) }
    }
}

pub(crate) fn check_key(key: &str) -> Result<(), ExchangeError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let length_fits = (1..=KEY_BYTES_MAX).contains(&key.len());
    if length_fits && key.bytes().all(plain) && !key.starts_with("PMI_") {
        return Ok(());
    }
    Err(ExchangeError::BadKey { key: key.to_owned() })
}

/// Servers take keys of 63 bytes; a suffix must still fit behind ours.
pub(crate) const KEY_BYTES_MAX: usize = 63 - PIECE_SUFFIX_BYTES_MAX;

/// `-` and five digits.
const PIECE_SUFFIX_BYTES_MAX: usize = 6;

/// Slurm reads commands of at most 1024 bytes and loses step with the client at longer ones.
const LINE_SENT_BYTES_MAX: usize = 1000;

/// Values of 1023 bytes are known to fail where 1024 are announced.
const TEXT_BYTES_MAX: usize = 900;

/// Hydra can answer with values of other programs that are this long.
const LINE_READ_BYTES_MAX: usize = 128 * 1024;

const READ_BYTES: usize = 4096;

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
