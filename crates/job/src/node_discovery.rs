//! Finding the processes of this node, without a look at anybody else and without believing a launcher.
//!
//! Processes can share memory when they run on one kernel and in one network name space, and those are also
//! the ones that find each other under one abstract socket name. So the kernel itself decides who is on a
//! node:
//!
//! ```text
//! before the fence   all processes try to bind a name made from the job's; the one that succeeds is the leader
//!                    other -> leader   what it is: magic, process u32, cpus u32, offer u16 + bytes
//!                    leader -> other   1 if this process is to announce that cores are shared, else 0
//! after the fence    other -> leader   the job's token
//!                    leader -> other   length u32, then: cores u8, count u32, processes u32 each, whether each
//!                                      shares memory u8, and the lowest such one's offer
//! ```
//! A non-leader enters the fence when the leader has answered it, so all are there when the leader has passed
//! the fence.
//! The work of a process does not grow with the job; that of the leader grows with its node (decisions/0009).
//!
//! The leader talks to processes of its own user only, and tells a process of another job of this name apart
//! by its token.

use std::io::{ErrorKind, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::Duration;

use collectives::Cores;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, send};
use rustix::process::geteuid;

use crate::card::{Token, VERSION};
use crate::config::CpuTime;
use crate::error::{Class, Error, Result};
use crate::fabrics::same_user;
use crate::tell::tell;
use crate::wait;

/// What a process says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub process: u32,
    pub cpus: CpuTime,
    /// Where it would hand out shared memory; empty where it does not share any.
    pub offer: Vec<u8>,
}

/// Who is on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Neighbours {
    /// All processes of this node, ascending, each with whether it shares memory.
    pub processes: Vec<(u32, bool)>,
    pub cores: Cores,
    /// The offer of the lowest one that shares memory; empty where there is none.
    pub offer: Vec<u8>,
}

/// The meeting of a node between its two parts.
pub(crate) struct Meeting {
    claim: Claim,
    role: Role,
    announces: bool,
}

enum Role {
    Leader(Reception),
    NonLeader(NonLeader),
    /// Where the system allows no meeting.
    Alone,
}

/// Takes the other processes in while the leader waits at the fence.
struct Reception {
    /// Its end ends the reception.
    open: UnixStream,
    thread: JoinHandle<Vec<(Claim, UnixStream)>>,
}

/// A process that the leader knows.
struct NonLeader {
    leader: UnixStream,
    /// The name under which the leader is found.
    name: SocketAddr,
    /// A listener on the leader's name, where this process has taken that name after the leader had ended.
    taken: Option<UnixListener>,
}

impl NonLeader {
    /// Whether the leader has gone, and this process is the one that has taken its name.
    fn stands_in(&mut self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut watched = [PollFd::new(&self.leader, PollFlags::RDHUP)];
        let looked = poll(&mut watched, Some(&Timespec::default()));
        if self.taken.is_none() && looked == Ok(1) && watched[0].revents().intersects(gone) {
            self.taken = UnixListener::bind_addr(&self.name).ok();
        }
        self.taken.is_some()
    }
}

impl Meeting {
    /// The part before the fence. `job` is the job's name, alike at all its processes.
    pub(crate) fn begin(job: &str, processes: u32, claim: Claim) -> Result<Meeting> {
        let mut last = None;
        for turn in 0..NAMES {
            match enter(&name(job, processes, turn), processes, &claim) {
                Ok(Some((role, announces))) => return Ok(Meeting { claim, role, announces }),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
        }
        if claim.offer.is_empty() {
            let announces = wait::cores(1, claim.cpus) == Cores::Shared;
            return Ok(Meeting { claim, role: Role::Alone, announces });
        }
        let why =
            last.map_or_else(|| "all its names are taken by others".to_owned(), |error| error.to_string());
        let what = format!("the processes of this node cannot meet: {why}");
        Err(Error::new(Class::Other, what)
            .remedy("if a sandbox forbids abstract sockets, use another fabric: WEFT_FABRIC=tcp"))
    }

    /// Whether this process is to announce that the ranks of its node share cores: one on each such node.
    pub(crate) fn announces(&self) -> bool {
        self.announces
    }

    /// Whether this process, while it waits at the fence, is the one of its node that looks after the others.
    pub(crate) fn watches(&mut self) -> bool {
        match &mut self.role {
            Role::Leader(_) | Role::Alone => true,
            Role::NonLeader(member) => member.stands_in(),
        }
    }

    /// The part after the fence.
    pub(crate) fn end(self, processes: u32, token: &Token) -> Result<Neighbours> {
        match self.role {
            Role::Alone => gather(vec![self.claim], processes),
            Role::Leader(reception) => receive_all(reception, self.claim, processes, token),
            Role::NonLeader(member) => be_told(member.leader, processes, token).map_err(|error| {
                // The leader has a reason to tell. A launcher that sees this process end first may end it
                // before that.
                std::thread::sleep(LAST_WORDS);
                leader_failed(&error)
            }),
        }
    }
}

/// Becomes the leader of the node, or joins the leader, under this name. `None`: the name belongs to another
/// user.
fn enter(name: &[u8], processes: u32, claim: &Claim) -> std::io::Result<Option<(Role, bool)>> {
    let address = SocketAddr::from_abstract_name(name)?;
    let mut refusals = 0;
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return lead(listener, processes, claim).map(Some),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
        match UnixStream::connect_addr(&address) {
            Ok(stream) if !same_user(&stream) => return Ok(None),
            Ok(stream) => match join(stream, claim) {
                Ok((leader, announces)) => {
                    return Ok(Some((
                        Role::NonLeader(NonLeader { leader, name: address, taken: None }),
                        announces,
                    )));
                }
                Err(error) if REFUSALS_MAX < refusals => return Err(error),
                Err(_) => {}
            },
            // Bound and not listening yet, or just ended.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && refusals < REFUSALS_MAX => {}
            Err(error) => return Err(error),
        }
        refusals += 1;
        std::thread::sleep(PAUSE);
    }
}

fn lead(listener: UnixListener, processes: u32, claim: &Claim) -> std::io::Result<(Role, bool)> {
    listener.set_nonblocking(true)?;
    let (open, closed) = UnixStream::pair()?;
    let alone = wait::cores(1, claim.cpus);
    let least = claim.cpus;
    let thread = std::thread::Builder::new()
        .name("weft-reception".to_owned())
        .spawn(move || receive(&listener, &closed, processes, least, alone))?;
    Ok((Role::Leader(Reception { open, thread }), alone == Cores::Shared))
}

/// Joins the leader. The answer is whether this process announces.
fn join(mut leader: UnixStream, claim: &Claim) -> std::io::Result<(UnixStream, bool)> {
    leader.set_read_timeout(Some(PATIENCE))?;
    say(&leader, &hello(claim))?;
    let mut answer = [0];
    leader.read_exact(&mut answer)?;
    Ok((leader, answer[0] != 0))
}

/// Takes in non-leaders until the leader has passed the fence. Where that takes long, it says how many have
/// joined: of a process that ends before it joins, nobody but the launcher knows.
fn receive(
    listener: &UnixListener,
    closed: &UnixStream,
    processes: u32,
    mut least: CpuTime,
    mut cores: Cores,
) -> Vec<(Claim, UnixStream)> {
    let mut members = Vec::new();
    let mut patience = Some(&NOTICE);
    loop {
        let mut watched = [PollFd::new(listener, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
        let news = poll(&mut watched, patience);
        if news == Ok(0) {
            patience = None;
            tell(still_waiting(members.len() + 1, processes));
        }
        let over = news.is_ok() && !watched[1].revents().is_empty();
        while let Ok((stream, _)) = listener.accept() {
            let Some((claim, stream)) = welcome(stream) else { continue };
            least = least.min(claim.cpus);
            // The leader, and the process that joins now.
            let now = wait::cores(members.len() as u32 + 2, least);
            let announces = now == Cores::Shared && cores == Cores::Own;
            if say(&stream, &[announces.into()]).is_ok() {
                cores = if announces { now } else { cores };
                members.push((claim, stream));
            }
        }
        if over {
            return members;
        }
    }
}

fn still_waiting(here: usize, processes: u32) -> String {
    let host = rustix::system::uname();
    let (host, seconds) = (host.nodename().to_string_lossy(), NOTICE.tv_sec);
    // The launcher of weft notices every end by itself.
    let hint = match std::env::var_os("WEFT_LAUNCHER") {
        Some(_) => "",
        None => {
            "; one that ended as the last of its node is noticed by nobody: srun ends such a job with --kill-on-bad-exit=1"
        }
    };
    format!(
        "weft: on {host}, {here} of the job's {processes} processes have waited {seconds} s in MPI_Init for the others{hint}"
    )
}

fn welcome(mut stream: UnixStream) -> Option<(Claim, UnixStream)> {
    if !same_user(&stream) {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(STRANGER_PATIENCE)).ok()?;
    let mut head = [0; HELLO_HEAD_BYTES];
    stream.read_exact(&mut head).ok().filter(|()| head.starts_with(MAGIC))?;
    let mut offer = vec![0; usize::from(u16::from_le_bytes([head[16], head[17]]))];
    stream.read_exact(&mut offer).ok()?;
    let claim = claim_of(&[&head[..], &offer].concat())?;
    Some((claim, stream))
}

/// What the leader does after the fence: looks at everybody's token, and tells all who is there.
fn receive_all(reception: Reception, own: Claim, processes: u32, token: &Token) -> Result<Neighbours> {
    drop(reception.open);
    let members =
        reception.thread.join().map_err(|_| Error::new(Class::Internal, "the reception panicked"))?;
    let mut claims = vec![own];
    let mut streams = Vec::new();
    for (claim, mut stream) in members {
        let mut shown = Token::default();
        let patient = stream.set_read_timeout(Some(PATIENCE)).is_ok();
        // One that does not show it is dead, or of another job, and told of neither.
        if patient && stream.read_exact(&mut shown).is_ok() && shown == *token {
            claims.push(claim);
            streams.push(stream);
        }
    }
    let neighbours = gather(claims, processes)?;
    let table = table_of(&neighbours);
    for stream in streams {
        // Whoever has died in the meantime is missed when somebody wants to talk to it.
        let _ = say(&stream, &[&(table.len() as u32).to_le_bytes()[..], &table].concat());
    }
    Ok(neighbours)
}

fn gather(mut claims: Vec<Claim>, processes: u32) -> Result<Neighbours> {
    claims.sort_by_key(|claim| claim.process);
    let beyond = claims.last().is_some_and(|claim| processes <= claim.process);
    if beyond || claims.windows(2).any(|pair| pair[0].process == pair[1].process) {
        let numbers: Vec<u32> = claims.iter().map(|claim| claim.process).collect();
        let what = format!("the processes {numbers:?} of {processes} cannot all be on this node");
        return Err(
            Error::new(Class::Other, what).remedy("the launcher gave a rank twice; start the job anew")
        );
    }
    let least = claims.iter().map(|claim| claim.cpus).min().unwrap_or(CpuTime::UNLIMITED);
    let cores = wait::cores(claims.len() as u32, least);
    let lowest = claims.iter().find(|claim| !claim.offer.is_empty());
    let offer = lowest.map(|claim| claim.offer.clone()).unwrap_or_default();
    let processes = claims.iter().map(|claim| (claim.process, !claim.offer.is_empty())).collect();
    Ok(Neighbours { processes, cores, offer })
}

/// What a non-leader does after the fence: shows its token, and reads the list.
fn be_told(mut leader: UnixStream, processes: u32, token: &Token) -> std::io::Result<Neighbours> {
    say(&leader, token)?;
    let mut length = [0; 4];
    leader.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    // Taken as it comes: a length alone makes nobody find the memory.
    let mut table = Vec::new();
    leader.take(length).read_to_end(&mut table)?;
    let neighbours = neighbours_of(&table).filter(|_| table.len() as u64 == length);
    neighbours
        .filter(|found| found.processes.iter().all(|(process, _)| *process < processes))
        .ok_or_else(|| std::io::Error::new(ErrorKind::InvalidData, "its list makes no sense"))
}

fn leader_failed(error: &std::io::Error) -> Error {
    let what = format!("the process of this node that knows its neighbours does not tell them: {error}");
    Error::new(Class::Other, what).remedy(
        "it has died, see its message; or two jobs of one name run on this node (two clusters?): start one after \
         the other, or use WEFT_FABRIC=tcp",
    )
}

/// Writes all of it. That the other end is gone must be an error here, not a signal that ends a program in C.
fn say(stream: &UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        let sent = retry_on_intr(|| send(stream, left, SendFlags::NOSIGNAL))?;
        left = &left[sent..];
    }
    Ok(())
}

/// A name for the meeting of this job on this node. Others may have taken it, therefore there are several.
fn name(job: &str, processes: u32, turn: u32) -> Vec<u8> {
    let (user, hash) = (geteuid().as_raw(), fnv1a(job.as_bytes()));
    format!("weft-meet-{VERSION}-{user}-{processes}-{hash:016x}-{turn}").into_bytes()
}

/// A hash that is the same in all builds; those who meet by mistake are told apart by the token.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn hello(claim: &Claim) -> Vec<u8> {
    let length = u16::try_from(claim.offer.len()).expect("an offer has some dozen bytes");
    let head = [claim.process.to_le_bytes(), claim.cpus.hundredths.to_le_bytes()].concat();
    [&MAGIC[..], &head, &length.to_le_bytes(), &claim.offer].concat()
}

/// What a hello claims; `None` for what is none.
pub(crate) fn claim_of(bytes: &[u8]) -> Option<Claim> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (process, rest) = word(rest)?;
    let (hundredths, rest) = word(rest)?;
    let (length, offer) = rest.split_at_checked(2)?;
    let whole = usize::from(u16::from_le_bytes(length.try_into().ok()?)) == offer.len();
    whole.then(|| Claim { process, cpus: CpuTime { hundredths }, offer: offer.to_vec() })
}

/// The list that the leader hands round.
pub(crate) fn table_of(neighbours: &Neighbours) -> Vec<u8> {
    let mut bytes = vec![u8::from(neighbours.cores == Cores::Shared)];
    bytes.extend((neighbours.processes.len() as u32).to_le_bytes());
    neighbours.processes.iter().for_each(|(process, _)| bytes.extend(process.to_le_bytes()));
    bytes.extend(neighbours.processes.iter().map(|(_, shares)| u8::from(*shares)));
    bytes.extend(&neighbours.offer);
    bytes
}

/// What such a list says; `None` for what is none.
pub(crate) fn neighbours_of(table: &[u8]) -> Option<Neighbours> {
    let (&shared, rest) = table.split_first()?;
    let (count, rest) = word(rest)?;
    let (numbers, rest) = rest.split_at_checked((count as usize).checked_mul(4)?)?;
    let (shares, offer) = rest.split_at_checked(count as usize)?;
    let numbers =
        numbers.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let processes: Vec<(u32, bool)> = numbers.zip(shares.iter().map(|&byte| byte != 0)).collect();
    let ascending = processes.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let cores = if shared == 0 { Cores::Own } else { Cores::Shared };
    (ascending && shared < 2).then(|| Neighbours { processes, cores, offer: offer.to_vec() })
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_at_checked(4)?;
    Some((u32::from_le_bytes(word.try_into().ok()?), rest))
}

const MAGIC: &[u8; 8] = b"weftmeet";
/// Magic, process, cpus and the length of the offer.
const HELLO_HEAD_BYTES: usize = 18;
/// Names that are tried in turn where other users have taken some.
const NAMES: u32 = 8;
/// What a process needs to say why it ends.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Nobody new has come for so long.
const NOTICE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const PAUSE: Duration = Duration::from_millis(2);
/// Tries of a name whose owner does not listen; a leader listens at once.
const REFUSALS_MAX: u32 = 500;
/// How long a process of the job may take to say what is due.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long somebody who may be nobody of ours may take.
const STRANGER_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
#[path = "node_discovery_tests.rs"]
mod tests;
