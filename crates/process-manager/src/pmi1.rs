//! The PMI-1 client: one request, one answer, over a socket to the launcher.
//!
//! Servers differ in small ways, which this file absorbs: Hydra answers a barrier without a return code and
//! an unknown universe size with -1; Slurm reads at most 1024 bytes as one command, whatever it announces,
//! and takes no second request before the first is answered.

use std::os::fd::OwnedFd;

use crate::error::{ExchangeError, TEXT_BYTES_MAX};
use crate::segments;
use crate::siblings::Waiting;
use crate::stream::{Stream, Version};
use crate::wire::{Line, excerpt};

/// A conversation with a PMI-1 server.
#[derive(Debug)]
pub(crate) struct Pmi1Client {
    connection: Connection,
    size: u32,
    /// The name of the job's key-value space.
    space: String,
    value_bytes_max: usize,
}

impl Pmi1Client {
    /// Starts the conversation over a connected socket.
    pub(crate) fn start(socket: OwnedFd, rank: u32, size: u32) -> Result<Pmi1Client, ExchangeError> {
        let mut stream = Stream::new(socket, rank);
        stream.greet(VERSION)?;
        Pmi1Client::enter(Connection(stream), size)
    }

    /// Starts it with a listening server, which tells rank and size to the process that it knows as `id`.
    pub(crate) fn connect(socket: OwnedFd, id: u32) -> Result<Pmi1Client, ExchangeError> {
        let mut stream = Stream::new(socket, id);
        stream.greet(VERSION)?;
        let mut connection = Connection(stream);
        let size = connection.introduce(id)?;
        Pmi1Client::enter(connection, size)
    }

    fn enter(mut connection: Connection, size: u32) -> Result<Pmi1Client, ExchangeError> {
        let maxes = connection.ask("get_maxes", "", "maxes")?;
        let value_bytes_max = maxes.read(|line| line.number("vallen_max"))?;
        let space = connection.ask("get_my_kvsname", "", "my_kvsname")?;
        let space = space.read(|line| line.field("kvsname").map(str::to_owned))?;
        Ok(Pmi1Client { connection, size, space, value_bytes_max })
    }

    pub(crate) fn rank(&self) -> u32 {
        self.connection.0.rank
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The name of the job's key-value space.
    pub(crate) fn job(&self) -> &str {
        &self.space
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> Result<(), ExchangeError> {
        for (key, text) in segments::cut(key, value, self.text_bytes_max()) {
            let fields = format!(" kvsname={} key={key} value={text}", self.space);
            self.connection.ask("put", &fields, "put_result")?.accepted()?;
        }
        Ok(())
    }

    pub(crate) fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, ExchangeError> {
        let rank = self.rank();
        segments::read(key, |key| self.get_text(key), || ExchangeError::Damaged { rank, key: key.to_owned() })
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

    pub(crate) fn fence(&mut self, waiting: &mut Waiting<'_>) -> Result<(), ExchangeError> {
        self.connection.send("barrier_in", "")?;
        self.connection.0.wait("barrier_in", waiting)?;
        self.connection.answer("barrier_in", "barrier_out")?.accepted()
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

    /// Asks weftrun for processes in the place of those that have failed.
    pub(crate) fn rebuild(&mut self, asked: u64, ranks: &[u32], facts: &str) -> Result<(), ExchangeError> {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let fields = format!(" asked={asked:x} ranks={} facts={facts}", ranks.join(","));
        self.connection.ask("weft_rebuild", &fields, "weft_rebuild_result")?.accepted()
    }

    /// Tells weftrun that this process, which it has started in the place of another, can be reached.
    pub(crate) fn ready(&mut self) -> Result<(), ExchangeError> {
        self.connection.ask("weft_ready", "", "weft_ready_result")?.accepted()
    }

    pub(crate) fn abort(&mut self, code: i32) -> Result<(), ExchangeError> {
        self.connection.send("abort", &format!(" exitcode={code}"))
    }

    pub(crate) fn finalize(&mut self) -> Result<(), ExchangeError> {
        self.connection.ask("finalize", "", "finalize_ack")?.accepted()
    }

    pub(crate) fn lost(&self) -> bool {
        self.connection.0.lost()
    }

    /// Room for a value's text in a `put`, by the server's limit and by the line it really reads.
    fn text_bytes_max(&self) -> usize {
        let around = "cmd=put kvsname= key= value=\n".len() + self.space.len() + SERVER_KEY_BYTES_MAX;
        let by_line = LINE_SENT_BYTES_MAX.saturating_sub(around);
        // A limit may count a terminating zero byte.
        by_line.min(self.value_bytes_max.saturating_sub(1)).min(TEXT_BYTES_MAX)
    }
}

/// The form of requests and answers.
#[derive(Debug)]
struct Connection(Stream);

/// An answer of the command that was expected.
struct Pmi1Answer {
    bytes: Vec<u8>,
    rank: u32,
    request: &'static str,
}

impl Connection {
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
                self.0.rank = rank;
                Ok(size)
            }
            _ => Err(self.0.garbled("initack", format!("rank {rank:?} of {size:?}"))),
        }
    }

    fn ask(
        &mut self,
        request: &'static str,
        fields: &str,
        answer: &str,
    ) -> Result<Pmi1Answer, ExchangeError> {
        self.send(request, fields)?;
        self.answer(request, answer)
    }

    fn send(&mut self, request: &'static str, fields: &str) -> Result<(), ExchangeError> {
        self.0.send(request, format!("cmd={request}{fields}\n").as_bytes())
    }

    fn answer(&mut self, request: &'static str, expected: &str) -> Result<Pmi1Answer, ExchangeError> {
        let answer = Pmi1Answer { bytes: self.0.line(request)?, rank: self.0.rank, request };
        let command = answer.read(|line| line.field("cmd").map(str::to_owned))?;
        if command == expected { Ok(answer) } else { Err(answer.garbled()) }
    }
}

impl Pmi1Answer {
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
        let Pmi1Answer { rank, request, .. } = *self;
        ExchangeError::Refused { rank, request, answer: excerpt(&self.bytes) }
    }

    fn garbled(&self) -> ExchangeError {
        let Pmi1Answer { rank, request, .. } = *self;
        ExchangeError::Garbled { rank, request, answer: excerpt(&self.bytes) }
    }
}

/// Slurm reads commands of at most 1024 bytes and loses step with the client at longer ones.
const LINE_SENT_BYTES_MAX: usize = 1000;

/// Keys with everything that is put behind them.
const SERVER_KEY_BYTES_MAX: usize = 63;

/// The version of the protocol that is asked for, and its subversion.
const VERSION: Version = Version { version: 1, subversion: 1 };

#[cfg(test)]
#[path = "pmi1_tests.rs"]
mod tests;
