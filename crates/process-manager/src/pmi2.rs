//! The PMI-2 client. After the greeting, which is PMI-1's, both sides send frames:
//!
//! ```text
//! bytes 0..6   the length of what follows, decimal, with blanks before or behind it
//! then         cmd=NAME;key=value;key=value;…
//! ```
//! Servers differ: Slurm pads the length on the right and answers `found=FALSE` for a key that is not there,
//! Hydra pads on the left and answers with a return code; its fence does not wait, but a question for what is
//! not there does. No server takes a `;` in a value; ours are base64. Slurm dies of values of 4000 bytes, so
//! they are cut as for PMI-1.

use std::os::fd::OwnedFd;

use crate::error::{ExchangeError, TEXT_BYTES_MAX};
use crate::segments;
use crate::siblings::Waiting;
use crate::stream::{LENGTH_BYTES, Stream, Version};
use crate::wire::excerpt;

/// A conversation with a PMI-2 server.
#[derive(Debug)]
pub(crate) struct Pmi2Client {
    stream: Stream,
    size: u32,
    appnum: Option<u32>,
    job: String,
}

impl Pmi2Client {
    /// Starts the conversation over a connected socket, as the rank that the environment tells; `job` is the
    /// name that some servers want to hear.
    pub(crate) fn start(socket: OwnedFd, rank: u32, job: Option<&str>) -> Result<Pmi2Client, ExchangeError> {
        let mut stream = Stream::new(socket, rank);
        stream.greet(VERSION)?;
        let mut client = Pmi2Client { stream, size: 0, appnum: None, job: String::new() };
        let job = job.map_or_else(String::new, |job| format!("pmijobid={job};"));
        let answer = client.ask("fullinit", &format!("{job}pmirank={rank};threaded=FALSE;"))?;
        answer.accepted()?;
        let number = |name| answer.field(name).and_then(|text| text.parse::<u32>().ok());
        match (number("rank"), number("size")) {
            (Some(rank), Some(size)) if rank < size => {
                client.stream.rank = rank;
                client.size = size;
            }
            _ => return Err(answer.garbled()),
        }
        // -1 where there is none.
        client.appnum = number("appnum");
        let answer = client.ask("job-getid", "")?;
        answer.accepted()?;
        client.job = answer.field("jobid").ok_or_else(|| answer.garbled())?.to_owned();
        Ok(client)
    }

    pub(crate) fn rank(&self) -> u32 {
        self.stream.rank
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn job(&self) -> &str {
        &self.job
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> Result<(), ExchangeError> {
        for (key, text) in segments::cut(key, value, TEXT_BYTES_MAX) {
            self.ask("kvs-put", &format!("key={key};value={text};"))?.accepted()?;
        }
        Ok(())
    }

    pub(crate) fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, ExchangeError> {
        let rank = self.rank();
        segments::read(key, |key| self.get_text(key), || ExchangeError::Damaged { rank, key: key.to_owned() })
    }

    fn get_text(&mut self, key: &str) -> Result<Option<String>, ExchangeError> {
        self.ask("kvs-get", &self.place_of(key))?.found()
    }

    /// Without the job's name Hydra takes the request for none. The source is a hint that we have none of.
    fn place_of(&self, key: &str) -> String {
        format!("jobid={};srcid=-1;key={key};", self.job)
    }

    /// Hydra answers a fence at once, and makes a rank wait when it asks for a key that is not there: so one
    /// is asked for.
    pub(crate) fn fence(&mut self, waiting: &mut Waiting<'_>) -> Result<(), ExchangeError> {
        self.ask_patiently("kvs-fence", "", waiting)?.accepted()?;
        self.ask_patiently("kvs-get", &self.place_of(PUT_BY_NOBODY), waiting)?.found().map(drop)
    }

    pub(crate) fn node_map(&mut self) -> Result<Option<String>, ExchangeError> {
        self.attribute("PMI_process_mapping")
    }

    pub(crate) fn appnum(&self) -> Option<u32> {
        self.appnum
    }

    pub(crate) fn universe_size(&mut self) -> Result<Option<u32>, ExchangeError> {
        // -1 where it is not known.
        Ok(self.attribute("universeSize")?.and_then(|text| text.parse().ok()))
    }

    /// Only for keys that every server knows: Slurm answers something for others, too.
    fn attribute(&mut self, key: &str) -> Result<Option<String>, ExchangeError> {
        self.ask("info-getjobattr", &format!("key={key};"))?.found()
    }

    pub(crate) fn abort(&mut self, code: i32) -> Result<(), ExchangeError> {
        let fields = format!("isworld=TRUE;exitcode={code};msg=MPI_Abort;");
        self.send("abort", &fields)
    }

    pub(crate) fn finalize(&mut self) -> Result<(), ExchangeError> {
        self.ask("finalize", "")?.accepted()
    }

    pub(crate) fn lost(&self) -> bool {
        self.stream.lost()
    }

    fn ask(&mut self, request: &'static str, fields: &str) -> Result<Pmi2Answer, ExchangeError> {
        self.send(request, fields)?;
        self.answer(request)
    }

    /// Sends a request whose answer may take long, and waits for it as `waiting` says.
    fn ask_patiently(
        &mut self,
        request: &'static str,
        fields: &str,
        waiting: &mut Waiting<'_>,
    ) -> Result<Pmi2Answer, ExchangeError> {
        self.send(request, fields)?;
        self.stream.wait(request, waiting)?;
        self.answer(request)
    }

    fn answer(&mut self, request: &'static str) -> Result<Pmi2Answer, ExchangeError> {
        let bytes = self.stream.frame(request)?;
        let answer = Pmi2Answer { text: text_of(&bytes), bytes, rank: self.stream.rank, request };
        match answer.field("cmd").and_then(|command| command.strip_suffix("-response")) {
            Some(command) if command == request => Ok(answer),
            _ => Err(answer.garbled()),
        }
    }

    fn send(&mut self, request: &'static str, fields: &str) -> Result<(), ExchangeError> {
        let body = format!("cmd={request};{fields}");
        self.stream.send(request, format!("{:<LENGTH_BYTES$}{body}", body.len()).as_bytes())
    }
}

/// What came for a request.
struct Pmi2Answer {
    bytes: Vec<u8>,
    /// The answer as text; empty when the bytes are no text.
    text: String,
    rank: u32,
    request: &'static str,
}

impl Pmi2Answer {
    /// The value of the first field of this name.
    fn field(&self, name: &str) -> Option<&str> {
        self.text.split(';').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    fn accepted(&self) -> Result<(), ExchangeError> {
        match self.field("rc") {
            None | Some("0") => Ok(()),
            Some(_) => Err(ExchangeError::Refused {
                rank: self.rank,
                request: self.request,
                answer: excerpt(&self.bytes),
            }),
        }
    }

    /// The value that was asked for, or `None` where there is none.
    fn found(&self) -> Result<Option<String>, ExchangeError> {
        if self.accepted().is_err() || self.field("found").is_some_and(|found| found != "TRUE") {
            return Ok(None);
        }
        let value = self.field("value").ok_or_else(|| self.garbled())?;
        Ok(Some(value.to_owned()))
    }

    fn garbled(&self) -> ExchangeError {
        let Pmi2Answer { rank, request, .. } = *self;
        ExchangeError::Garbled { rank, request, answer: excerpt(&self.bytes) }
    }
}

fn text_of(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    if text.chars().any(char::is_control) { String::new() } else { text.to_owned() }
}

/// A key that is never there.
const PUT_BY_NOBODY: &str = "weft-fence";

/// The version of the protocol that is asked for, and its subversion.
const VERSION: Version = Version { version: 2, subversion: 0 };

#[cfg(test)]
#[path = "pmi2_tests.rs"]
mod tests;
