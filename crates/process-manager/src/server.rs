//! The PMI-1 server as a value: bytes of a rank in, bytes for ranks and events out. It reads no socket.
//!
//! A launcher owns one [`Server`] per job. It feeds what each rank's socket delivers to [`Server::receive`]
//! and carries out the [`Action`]s. The dialect is the one that MPICH's client speaks with Hydra. Nothing a
//! rank sends can make the server panic or grow without bound; what cannot be a PMI-1 client is a [`Fault`].

use std::collections::BTreeMap;

use crate::wire::{Line, LineBuffer, excerpt};

/// Serves the ranks of one job.
#[derive(Debug)]
pub struct Server {
    space: String,
    ranks: Vec<ServedClient>,
    store: BTreeMap<String, String>,
    /// Ranks that wait in the barrier.
    waiting: u32,
    /// Ranks that have finalized.
    finalized: u32,
    /// How many come to the barrier: those who were there from the beginning.
    members: u32,
    /// The number of each process's program among those of the job.
    programs: Vec<u32>,
    /// How many processes there could be, where the launcher knows.
    universe: Option<u32>,
}

/// What the launcher is to do next, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send these bytes to this rank.
    Write {
        /// The rank to send to.
        rank: u32,
        /// Whole lines.
        bytes: Vec<u8>,
    },
    /// End the job: this rank asked for it.
    Abort {
        /// The rank that asked.
        rank: u32,
        /// The exit status that the rank asked for.
        code: i32,
        /// The message that the rank gave, if any.
        message: Option<String>,
    },
    /// This rank takes no further part and may exit.
    Finalized {
        /// The rank.
        rank: u32,
    },
    /// Start new processes in the place of failed ones. Every surviving process asks for it, all for the
    /// same.
    Rebuild {
        /// The number of the recovery: all processes ask for one recovery under one number, which is used
        /// once.
        asked: u64,
        /// The ranks of the failed processes.
        ranks: Vec<u32>,
        /// What the new processes are to be told, one word.
        facts: String,
    },
    /// A process that was started in the place of a failed one can be reached.
    Ready {
        /// The rank.
        rank: u32,
    },
}

/// How far a rank has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The rank has sent nothing; it may be no MPI program at all.
    Silent,
    /// The rank has sent `init`. If it exits now it has failed.
    Speaking,
    /// The rank waits in the barrier.
    Waiting,
    /// The rank has sent `finalize`.
    Finalized,
}

/// A rank sent what no PMI-1 client sends; its connection is of no further use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} broke the process manager's protocol: {what}")]
pub struct Fault {
    /// The rank.
    pub rank: u32,
    /// The bytes that broke the protocol, in words.
    pub what: String,
}

#[derive(Debug)]
struct ServedClient {
    lines: LineBuffer,
    standing: Standing,
    /// Within a request of several lines, `mcmd=…` to `endcmd`: the answer that its end gets.
    multiline_answer: Option<String>,
    /// Bytes of keys and values this rank has put.
    stored_bytes: usize,
}

impl Server {
    /// A server for `ranks` ranks whose key-value space is called `space` (one word).
    pub fn new(ranks: u32, space: &str) -> Server {
        Server::with_spares(ranks, 0, space)
    }

    /// A server for `ranks` ranks, where up to `spares` processes may come into the place of failed ones.
    /// These are numbered behind the ranks, in the order in which they are started, and they take part in no
    /// barrier. `space` (one word) is the name of the key-value space.
    pub fn with_spares(ranks: u32, spares: u32, space: &str) -> Server {
        let store = BTreeMap::from([(MAPPING.to_owned(), format!("(vector,(0,1,{ranks}))"))]);
        let clients = (0..ranks + spares).map(|_| ServedClient::new()).collect();
        Server {
            space: space.to_owned(),
            ranks: clients,
            store,
            waiting: 0,
            finalized: 0,
            members: ranks,
            programs: vec![0; (ranks + spares) as usize],
            universe: Some(ranks),
        }
    }

    /// From now on the server tells that `universe` processes are possible; `None` is that it does not know.
    #[must_use]
    pub fn with_universe(self, universe: Option<u32>) -> Server {
        Server { universe, ..self }
    }

    /// From now on the server tells that `process` runs the program with number `program` of the job.
    ///
    /// # Panics
    /// When the job has no such process.
    pub fn set_program(&mut self, process: u32, program: u32) {
        self.programs[process as usize] = program;
    }

    /// From now on the server tells that each `ranks` successive ranks are on a node of their own. Call it
    /// before any rank asks, so that all get the same answer.
    #[must_use]
    pub fn with_nodes_of(mut self, ranks: u32) -> Server {
        let nodes = self.members.div_ceil(ranks);
        self.store.insert(MAPPING.to_owned(), format!("(vector,(0,{nodes},{ranks}))"));
        self
    }

    /// Takes bytes that `rank` sent, cut anywhere, and appends what is to be done to `actions`.
    ///
    /// # Panics
    /// When the job has no such rank, which is the launcher's own mistake.
    pub fn receive(&mut self, rank: u32, mut bytes: &[u8], actions: &mut Vec<Action>) -> Result<(), Fault> {
        loop {
            match self.client(rank).lines.take_line(&mut bytes) {
                Ok(Some(line)) => self.on_line(rank, &line, actions)?,
                Ok(None) => return Ok(()),
                Err(_) => return Err(fault(rank, format!("a line of more than {LINE_BYTES_MAX} bytes"))),
            }
        }
    }

    /// How far `rank` has come.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn standing(&self, rank: u32) -> Standing {
        self.ranks[rank as usize].standing
    }

    /// Bytes held on behalf of the ranks: unfinished lines, keys and values.
    pub fn held_bytes(&self) -> usize {
        self.ranks.iter().map(|client| client.lines.held_bytes() + client.stored_bytes).sum()
    }

    fn on_line(&mut self, rank: u32, line: &[u8], actions: &mut Vec<Action>) -> Result<(), Fault> {
        let text = Line::new(line).ok_or_else(|| unreadable(rank, line))?;
        if let Some(answer) = &self.client(rank).multiline_answer {
            // The lines between are a spawn request's arguments, of no use to a server that cannot spawn.
            if line == b"endcmd" {
                actions.push(write(rank, answer.clone()));
                self.client(rank).multiline_answer = None;
            }
            return Ok(());
        }
        if let Some(command) = text.field("mcmd") {
            self.client(rank).multiline_answer = Some(unsupported(command));
            return Ok(());
        }
        let command = text.field("cmd").ok_or_else(|| unreadable(rank, line))?;
        self.check_turn(rank, command)?;
        self.on_command(rank, command, text, actions)
    }

    /// Whether `rank` may send `command` now.
    fn check_turn(&self, rank: u32, command: &str) -> Result<(), Fault> {
        let allowed = match self.standing(rank) {
            Standing::Silent => matches!(command, "init" | "abort"),
            Standing::Speaking => command != "init",
            Standing::Waiting | Standing::Finalized => command == "abort",
        };
        if allowed {
            return Ok(());
        }
        let standing = match self.standing(rank) {
            Standing::Silent => "before it said init",
            Standing::Speaking => "a second time",
            Standing::Waiting => "while it waits in the barrier",
            Standing::Finalized => "after it said finalize",
        };
        Err(fault(rank, format!("{} {standing}", excerpt(command.as_bytes()))))
    }

    fn on_command(
        &mut self,
        rank: u32,
        command: &str,
        line: Line<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        let answer = match command {
            "init" => self.init(rank, line)?,
            "initack" => self.initack(rank, line),
            "get_maxes" => format!(
                "cmd=maxes rc=0 kvsname_max=256 keylen_max={KEY_BYTES_MAX} vallen_max={VALUE_BYTES_MAX}\n"
            ),
            "get_appnum" => format!("cmd=appnum rc=0 appnum={}\n", self.programs[rank as usize]),
            "get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={}\n", self.space),
            "get_universe_size" => {
                // -1 is how Hydra says that it does not know.
                let size = self.universe.map_or(-1, i64::from);
                format!("cmd=universe_size rc=0 size={size}\n")
            }
            "put" => answer_to("put", self.put(rank, line)),
            "get" => answer_to("get", self.get(line)),
            "barrier_in" => return self.barrier(rank, actions),
            "finalize" => return self.finalize(rank, actions),
            "abort" => return self.abort(rank, line, actions),
            "weft_rebuild" if self.has_spares() => answer_to("weft_rebuild", rebuild(line, actions)),
            "weft_ready" if self.has_spares() => {
                actions.push(Action::Ready { rank });
                answer_to("weft_ready", Ok(None))
            }
            other => unsupported(other),
        };
        actions.push(write(rank, answer));
        Ok(())
    }

    fn init(&mut self, rank: u32, line: Line<'_>) -> Result<String, Fault> {
        let version: u32 =
            line.number("pmi_version").ok_or_else(|| fault(rank, "init without a version".to_owned()))?;
        if version != 1 {
            // The client may ask again with another version, or give up.
            return Ok("cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n".to_owned());
        }
        self.client(rank).standing = Standing::Speaking;
        Ok("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n".to_owned())
    }

    /// The greeting of clients that connect by address and are told who they are.
    fn initack(&self, rank: u32, line: Line<'_>) -> String {
        if line.number("pmiid") != Some(rank) {
            return "cmd=initack rc=-1 msg=wrong_pmiid\n".to_owned();
        }
        let (size, program) = (self.members, self.programs[rank as usize]);
        format!(
            "cmd=initack rc=0 rank={rank} size={size} appnum={program} debug=0\n\
             cmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0\n"
        )
    }

    fn put(&mut self, rank: u32, line: Line<'_>) -> Result<Option<String>, &'static str> {
        self.check_space(line)?;
        let key = line.field("key").filter(|key| !key.is_empty()).ok_or("no_key")?;
        let value = line.field("value").ok_or("no_value")?;
        let bytes = key.len() + value.len();
        let stored_bytes = self.client(rank).stored_bytes + bytes;
        match () {
            () if key.starts_with("PMI_") => Err("reserved_key"),
            () if KEY_BYTES_MAX <= key.len() => Err("key_too_long"),
            () if VALUE_BYTES_MAX < value.len() => Err("value_too_long"),
            () if self.store.contains_key(key) => Err("duplicate_key"),
            () if STORED_BYTES_MAX < stored_bytes => Err("store_full"),
            () => {
                self.client(rank).stored_bytes = stored_bytes;
                self.store.insert(key.to_owned(), value.to_owned());
                Ok(None)
            }
        }
    }

    fn get(&self, line: Line<'_>) -> Result<Option<String>, &'static str> {
        self.check_space(line)?;
        let value = line.field("key").and_then(|key| self.store.get(key));
        value.cloned().map(Some).ok_or("key_not_found")
    }

    fn check_space(&self, line: Line<'_>) -> Result<(), &'static str> {
        if line.field("kvsname") == Some(&self.space) { Ok(()) } else { Err("kvs_not_found") }
    }

    fn barrier(&mut self, rank: u32, actions: &mut Vec<Action>) -> Result<(), Fault> {
        self.client(rank).standing = Standing::Waiting;
        self.waiting += 1;
        self.open_barrier(actions);
        Ok(())
    }

    /// Lets the waiting ranks go when all are there, or tells them that some never will be.
    fn open_barrier(&mut self, actions: &mut Vec<Action>) {
        let all = self.waiting == self.members;
        let answer = match (all, self.finalized) {
            (true, _) => "cmd=barrier_out rc=0\n",
            (false, 0) => return,
            (false, _) => "cmd=barrier_out rc=-1 msg=a_rank_has_finalized\n",
        };
        self.waiting = 0;
        for (rank, client) in (0..).zip(&mut self.ranks) {
            if client.standing == Standing::Waiting {
                client.standing = Standing::Speaking;
                actions.push(write(rank, answer.to_owned()));
            }
        }
    }

    fn finalize(&mut self, rank: u32, actions: &mut Vec<Action>) -> Result<(), Fault> {
        self.client(rank).standing = Standing::Finalized;
        self.finalized += 1;
        actions.push(write(rank, "cmd=finalize_ack rc=0\n".to_owned()));
        actions.push(Action::Finalized { rank });
        self.open_barrier(actions);
        Ok(())
    }

    fn abort(&mut self, rank: u32, line: Line<'_>, actions: &mut Vec<Action>) -> Result<(), Fault> {
        let code = line.number("exitcode").unwrap_or(1);
        let message = line.rest("message").or(line.rest("error_msg")).map(str::to_owned);
        actions.push(Action::Abort { rank, code, message });
        Ok(())
    }

    fn has_spares(&self) -> bool {
        self.ranks.len() > self.members as usize
    }

    fn client(&mut self, rank: u32) -> &mut ServedClient {
        &mut self.ranks[rank as usize]
    }
}

impl ServedClient {
    fn new() -> ServedClient {
        let lines = LineBuffer::new(LINE_BYTES_MAX);
        ServedClient { lines, standing: Standing::Silent, multiline_answer: None, stored_bytes: 0 }
    }
}

/// Which processes are to be started again; who has asked learns the outcome elsewhere.
fn rebuild(line: Line<'_>, actions: &mut Vec<Action>) -> Result<Option<String>, &'static str> {
    let asked = line.field("asked").and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or("no_number")?;
    let ranks = line.field("ranks").ok_or("no_ranks")?.split(',').map(str::parse).collect::<Result<_, _>>();
    let facts = line.field("facts").ok_or("no_facts")?.to_owned();
    actions.push(Action::Rebuild { asked, ranks: ranks.map_err(|_| "no_ranks")?, facts });
    Ok(None)
}

fn answer_to(command: &str, result: Result<Option<String>, &'static str>) -> String {
    match result {
        Ok(Some(value)) => format!("cmd={command}_result rc=0 value={value}\n"),
        Ok(None) => format!("cmd={command}_result rc=0\n"),
        Err(why) => format!("cmd={command}_result rc=-1 msg={why}\n"),
    }
}

/// A client waits for the answer named after its command; some names are shortened.
fn unsupported(command: &str) -> String {
    let name: String = command.chars().take(COMMAND_CHARS_MAX).collect();
    let name = name.strip_suffix("_name").unwrap_or(&name);
    format!("cmd={name}_result rc=-1 msg=unsupported_command\n")
}

fn write(rank: u32, answer: String) -> Action {
    Action::Write { rank, bytes: answer.into_bytes() }
}

fn unreadable(rank: u32, line: &[u8]) -> Fault {
    fault(rank, format!("the line {}", excerpt(line)))
}

fn fault(rank: u32, what: String) -> Fault {
    Fault { rank, what }
}

/// Under this name stands who is on which node.
const MAPPING: &str = "PMI_process_mapping";

/// Longer than any command a client sends: key and value at their limits, and the names around them.
const LINE_BYTES_MAX: usize = 8192;

/// As announced; with a terminating zero byte, as in the clients' buffers.
const KEY_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 1024;

/// What one rank may put in all. An address takes a few hundred bytes.
const STORED_BYTES_MAX: usize = 4 << 20;

/// How much of a stranger's command is sent back to it.
const COMMAND_CHARS_MAX: usize = 64;

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
