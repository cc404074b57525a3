//! Communicators: a group, a context, and the operations between its members.
//!
//! Every operation comes in two forms. Those on claims ([`Payload`], [`UserMemory`]) are the way of a message from
//! the C interface; those on slices and vectors, in [`crate::typed`], are built on them.

mod agree;
mod atomic;
mod board;
mod check;
mod combining;
mod create;
mod duplicate;
mod failures;
mod generations;
mod inter;
mod mail;
mod nodes;
mod objections;
mod ongoing;
mod partitioned;
mod perform;
mod reach;
mod rebuild;
mod recorded;
mod recovery;
mod refusals;
mod repairs;
mod split;
mod strangers;
mod succession;
mod topologies;

pub use check::Called;
pub use combining::{CombineFn, Combining, OwnedCombining, SentCombineFn};
pub use duplicate::Duplicating;
pub use failures::Agreed;
pub use inter::Intercommunicator;
pub use ongoing::Ongoing;
pub use partitioned::{Brings, PartitionedReceive, PartitionedSend};
pub use recorded::AgreeingFailed;
pub use recovery::{BlankPartner, CollectiveMode, FtModes, RecoverFlags, Recovery};
pub use split::{Part, SplitBy, hardware};
pub use topologies::{Edge, Topology};

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use collectives::Nesting;
use fabric::{FabricError, Payload, Peer, Room, UserMemory};
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use job::lock::{Lock, Threads, lock};
use messaging::{
    Engine, Envelope, Message, Mode, Outcome, Pattern, Pending, Probed, Rank, Receiving, RequestId, Sending,
    Standing, Target,
};
use topology::Placement;

use crate::attributes::Attributes;
use crate::contexts::{Lease, mix};
use crate::group::Group;
pub(crate) use agree::Counts;
use board::Founded;
use inter::Inter;
pub(crate) use objections::Objections;
use perform::{collective_failed, settle};
pub(crate) use repairs::Registry;

use crate::process::{Process, WaitsFor, failure_class, failure_text};
use crate::recent::Recent;
use crate::scattered::Gathered;
use topologies::Arranged;

/// A group of processes that talk to each other and to nobody else. Cheap to clone; all clones are the same one.
///
/// Several threads may use it at once where the library was started for them, but one at a time is in a blocking collective
/// operation of it (MPI 5.0 §6.14). Two are an error of the program, which is told ([`Class::Other`](crate::Class::Other)) where
/// it is seen; elsewhere which of them meets which of another rank is a matter of chance. Give each thread a
/// [duplicate](Communicator::duplicate).
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
}

struct Inner {
    process: Arc<Process>,
    /// Whom ranks name: the members, or the other group of an inter-communicator.
    group: Group,
    rank: Rank,
    /// How many members there are; of the local group where there are two.
    size: u32,
    /// Another one after a recovery in place.
    context: AtomicU32,
    /// What is special about an inter-communicator.
    inter: Option<Box<Inter>>,
    /// How the ranks are arranged, where they are.
    topology: Option<Arc<Arranged>>,
    /// Where the members sit, once that was asked for.
    placement: OnceLock<Arc<Placement>>,
    /// Whether all members share memory, once that was asked for.
    on_one_node: OnceLock<bool>,
    /// Which members sit together, once an operation of all of them was begun.
    nesting: OnceLock<Option<Arc<Nesting>>>,
    /// Keeps the context from others while anything uses it.
    lease: Kept,
    /// Where the numbers of communicators made from this one come from; the same at all members.
    identity: u64,
    /// Counts those.
    children: AtomicU64,
    /// Counts the calls of `create_group`, by their arguments.
    partial: Counts,
    /// What failures have made of it.
    standing: Arc<Standing>,
    /// Counts its agreements.
    agreements: AtomicU32,
    /// How it recovers, and what it has become so.
    recoveries: recovery::Recoveries,
    /// By which ranks errors name the members, where they are those who live of another communicator.
    names: OnceLock<Box<[Rank]>>,
    /// Counts the collective operations.
    sequence: AtomicU32,
    /// Counts the nonblocking ones.
    nonblocking: AtomicU32,
    /// How many collective operations have succeeded.
    completed: atomic::Completed,
    /// Counts planned operations.
    planned: AtomicU32,
    /// Counts comparisons of calls.
    comparisons: AtomicU32,
    /// The latest of them.
    recent: Lock<Recent>,
    /// Where its members write lines for each other, once that is known; empty where they do not.
    bulletin: OnceLock<Founded>,
    /// Counts the operations that could have gone that way before.
    before_bulletin: AtomicU32,
    /// Given by the program.
    name: Mutex<Option<Arc<str>>>,
    /// What messages to people call it while it has no name.
    label: Label,
    attributes: Attributes,
    /// What its partitioned operations know of each other, once there is one.
    partitioned: OnceLock<Arc<partitioned::Notices>>,
}

/// What is known of a message that was received or probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Who sent it.
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Bytes received, or for a probe the length of the message.
    pub bytes: usize,
    /// The operation was cancelled and nothing was received.
    pub cancelled: bool,
}

impl Status {
    /// What an outcome tells of the message.
    #[inline(always)]
    #[must_use]
    pub fn of(outcome: &Outcome) -> Status {
        let Outcome { source, tag, bytes, cancelled, .. } = *outcome;
        Status { source, tag, bytes, cancelled }
    }
}

/// How a receive ended: what is known of the message, and what went wrong.
#[derive(Clone, PartialEq, Debug)]
pub struct Received {
    /// The message.
    pub status: Status,
    /// Why it is not as it should be.
    pub error: Option<Error>,
    /// What the sender said of its elements; 0 where it said nothing.
    pub signature: u32,
}

/// A context number, by who uses it.
enum Kept {
    /// One communicator.
    Own(Lease),
    /// An inter-communicator and its bridge.
    Shared(Arc<Lease>),
}

impl Kept {
    fn number(&self) -> u32 {
        match self {
            Kept::Own(lease) => lease.number(),
            Kept::Shared(lease) => lease.number(),
        }
    }
}

/// What a communicator is made of.
struct Parts {
    process: Arc<Process>,
    /// The members; the local group where there are two.
    group: Group,
    inter: Option<Inter>,
    lease: Kept,
    identity: u64,
    label: Label,
    topology: Option<Arc<Arranged>>,
}

/// What messages to people call a communicator that has no name: how it was made, and from what.
#[derive(Clone)]
struct Label {
    made: &'static str,
    of: Arc<str>,
}

impl Label {
    fn own(text: &str) -> Label {
        Label { made: "", of: text.into() }
    }
}

impl Communicator {
    /// One that is there from the beginning, under a number that is known.
    pub(crate) fn new(
        process: Arc<Process>,
        group: Group,
        context: u32,
        label: &str,
    ) -> Option<Communicator> {
        let lease = Kept::Shared(Arc::new(Lease::new(process.clone(), context)));
        let identity = mix(u64::from(context));
        Communicator::assemble(Parts {
            process,
            group,
            inter: None,
            lease,
            identity,
            label: Label::own(label),
            topology: None,
        })
    }

    /// `None` where this process is not a member.
    fn assemble(parts: Parts) -> Option<Communicator> {
        let Parts { process, group, inter, lease, identity, label, topology } = parts;
        let rank = group.rank(process.here())?;
        let threads = if process.is_shared() { Threads::Many } else { Threads::One };
        let named = inter.as_ref().map_or(&group, |inter| &inter.remote);
        let standing = match &inter {
            Some(inter) => Arc::clone(&inter.bridge.inner.standing),
            None => process.failures().watch(lease.number() * 2, identity, rank, Arc::new(group.clone())),
        };
        let inner = Inner {
            standing,
            agreements: AtomicU32::new(0),
            recoveries: recovery::Recoveries::default(),
            names: OnceLock::new(),
            process,
            group: named.settled(),
            rank,
            size: group.size(),
            context: AtomicU32::new(lease.number()),
            inter: inter.map(Box::new),
            topology,
            placement: OnceLock::new(),
            on_one_node: OnceLock::new(),
            nesting: OnceLock::new(),
            lease,
            identity,
            children: AtomicU64::new(0),
            partial: Counts::default(),
            sequence: AtomicU32::new(0),
            nonblocking: AtomicU32::new(0),
            completed: atomic::Completed::default(),
            planned: AtomicU32::new(0),
            comparisons: AtomicU32::new(0),
            recent: Lock::new(threads, Recent::default()),
            bulletin: OnceLock::new(),
            before_bulletin: AtomicU32::new(0),
            name: Mutex::default(),
            label,
            attributes: Attributes::default(),
            partitioned: OnceLock::new(),
        };
        Some(Communicator { inner: Arc::new(inner) })
    }

    /// This process's rank (MPI 5.0 §7.4.1).
    #[inline]
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.inner.rank
    }

    /// Number of members; of the local group where there are two.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        self.inner.size
    }

    /// The members; those of the local group where there are two.
    #[inline]
    #[must_use]
    pub fn group(&self) -> &Group {
        match &self.inner.inter {
            None => &self.inner.group,
            Some(inter) => &inter.local,
        }
    }

    /// The number of ranks that messages can be sent to: those of the other group where there are two.
    #[inline]
    #[must_use]
    pub fn partners(&self) -> u32 {
        self.inner.group.size()
    }

    /// The rank by which messages of this communicator name that process.
    pub(crate) fn rank_of(&self, peer: Peer) -> Option<Rank> {
        self.inner.group.rank(peer)
    }

    /// The process that this is a communicator of.
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        &self.inner.process
    }

    /// What keeps its messages apart from those of other communicators, as the engine has it.
    #[inline(always)]
    #[must_use]
    pub fn context(&self) -> u32 {
        self.inner.context.load(Ordering::Relaxed) * 2
    }

    /// What keeps its collective operations apart. Messages between two may go by the context of another that was before it.
    #[inline(always)]
    fn collective_context(&self) -> u32 {
        self.inner.standing.context() + 1
    }

    /// Whether receives are under way in it that the engine alone knows of ([`Communicator::receive_later`]).
    #[must_use]
    pub fn lends(&self) -> bool {
        let contexts = self.contexts();
        self.process().with_engine(|engine| contexts.iter().any(|&context| engine.lends(context)))
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.inner.attributes
    }

    /// Whether both are handles of the same communicator.
    #[must_use]
    pub fn is_same(&self, other: &Communicator) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The name that it was given (MPI 5.0 §7.8); empty where it was given none.
    #[must_use]
    pub fn name(&self) -> String {
        self.given_name().map_or_else(String::new, |name| name.to_string())
    }

    fn given_name(&self) -> Option<Arc<str>> {
        lock(&self.inner.name).clone()
    }

    /// Gives it another name.
    pub fn rename(&self, name: &str) {
        let name = (!name.is_empty()).then(|| name.into());
        *lock(&self.inner.name) = name;
    }

    /// Begins a send.
    ///
    /// # Errors
    /// [`Class::Rank`] where `to` is no member; what the fabric says where it cannot be reached.
    #[inline(always)]
    pub fn start_send(&self, payload: Payload<'static>, to: Rank, tag: i32, mode: Mode) -> Result<Sending> {
        let inner = &*self.inner;
        let Some(peer) = inner.group.peer(to) else { return Err(self.no_rank(to)) };
        let envelope = Envelope { context: self.context(), source: inner.rank, tag };
        match inner.process.send(peer, envelope, payload, mode) {
            Ok(sending) => Ok(sending),
            Err(error) => Err(self.send_failed(error, to, tag)),
        }
    }

    /// The same, and says what the elements of the message are: a number that [`Received`] has at the other end. 0 says
    /// nothing.
    ///
    /// # Errors
    /// As [`Communicator::start_send`].
    pub fn start_send_signed(
        &self,
        payload: Payload<'static>,
        to: Rank,
        tag: i32,
        mode: Mode,
        signature: u32,
    ) -> Result<Sending> {
        let inner = &*self.inner;
        let Some(peer) = inner.group.peer(to) else { return Err(self.no_rank(to)) };
        let envelope = Envelope { context: self.context(), source: inner.rank, tag };
        let sending = inner.process.send_signed(peer, envelope, payload, mode, signature);
        sending.map_err(|error| self.send_failed(error, to, tag))
    }

    /// Sends and waits until the buffer is free.
    ///
    /// # Errors
    /// As [`Communicator::start_send`].
    #[inline(always)]
    pub fn send_claim(&self, payload: Payload<'static>, to: Rank, tag: i32, mode: Mode) -> Result<()> {
        let mode = if mode == Mode::Standard { Mode::Blocking } else { mode };
        match self.start_send(payload, to, tag, mode)? {
            Sending::Done => Ok(()),
            Sending::Pending(request) => self.conclude_send(&self.inner.process.wait(request), to, tag),
        }
    }

    /// Begins a send of elements that do not stand in a row.
    ///
    /// # Errors
    /// As [`Communicator::start_send`].
    pub fn start_send_gathered(
        &self,
        gathered: &Gathered<&datatype::Datatype>,
        to: Rank,
        tag: i32,
        mode: Mode,
    ) -> Result<Sending> {
        let inner = &*self.inner;
        let Some(peer) = inner.group.peer(to) else { return Err(self.no_rank(to)) };
        let envelope = Envelope { context: self.context(), source: inner.rank, tag };
        if mode.is_standard() && inner.process.send_made_at_once(peer, envelope, gathered) {
            return Ok(Sending::Done);
        }
        let sending = inner.process.send_made(peer, envelope, gathered.kept(), mode);
        sending.map_err(|error| self.send_failed(error, to, tag))
    }

    /// Sends elements that do not stand in a row, and waits until their memory is free.
    ///
    /// # Errors
    /// As [`Communicator::start_send`].
    pub fn send_gathered(
        &self,
        gathered: &Gathered<&datatype::Datatype>,
        to: Rank,
        tag: i32,
        mode: Mode,
    ) -> Result<()> {
        match self.start_send_gathered(gathered, to, tag, mode)? {
            Sending::Done => Ok(()),
            Sending::Pending(request) => self.conclude_send(&self.inner.process.wait(request), to, tag),
        }
    }

    /// Sends if nothing stands in the way: the peer was spoken to, nothing waits to go there, and the message is
    /// short. `None`: nothing has happened, and [`Communicator::start_send`] knows what to do.
    #[inline(always)]
    #[must_use]
    pub fn send_at_once(&self, payload: Payload<'static>, to: Rank, tag: i32) -> Option<Sending> {
        let inner = &*self.inner;
        let envelope = Envelope { context: self.context(), source: inner.rank, tag };
        inner.process.send_at_once(inner.group.peer(to)?, envelope, payload)
    }

    /// Receives if nothing stands in the way and the message comes within a few looks. `None`: nothing has happened,
    /// and [`Communicator::receive_outcome`] knows what to do.
    #[inline(always)]
    #[must_use]
    pub fn receive_at_once(&self, room: Room, from: Rank, tag: Option<i32>) -> Option<Status> {
        let inner = &*self.inner;
        let pattern = Pattern { context: self.context(), source: Some(from), tag };
        let Probed { source, tag, bytes } =
            inner.process.receive_at_once(pattern, inner.group.peer(from)?, room)?;
        Some(Status { source, tag, bytes, cancelled: false })
    }

    /// Receives and waits, and leaves it to the caller to find words; `None` is any source or any tag. The answer is
    /// `None` where `from` is no member, or blank.
    #[must_use]
    pub fn receive_outcome(
        &self,
        memory: UserMemory,
        from: Option<Rank>,
        tag: Option<i32>,
    ) -> Option<Outcome> {
        let inner = &*self.inner;
        let peer = match from {
            Some(rank) if self.is_blank(rank) => return None,
            Some(rank) => Some(inner.group.peer(rank)?),
            None => None,
        };
        let pattern = Pattern { context: self.context(), source: from, tag };
        Some(inner.process.receive_awaited(pattern, peer, memory))
    }

    /// Begins a receive; `None` is any source or any tag.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    #[inline]
    pub fn start_receive(
        &self,
        target: impl Into<Target>,
        from: Option<Rank>,
        tag: Option<i32>,
    ) -> Result<Receiving> {
        let (pattern, peer) = self.pattern(from, tag)?;
        Ok(self.inner.process.receive(pattern, peer, target))
    }

    /// Posts a receive that no message waits for yet. `None`: nothing has happened, since there is one, or the peer is
    /// lost, and [`Communicator::start_receive`] knows what to do.
    #[inline(always)]
    #[must_use]
    pub fn receive_later(&self, room: Room, from: Rank, tag: i32) -> Option<RequestId> {
        let inner = &*self.inner;
        let envelope = Envelope { context: self.context(), source: from, tag };
        inner.process.receive_later(envelope, inner.group.peer(from)?, room)
    }

    /// Receives and waits.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member. What goes wrong with the message stands in the answer.
    #[inline(always)]
    pub fn receive_claim(
        &self,
        target: impl Into<Target>,
        from: Option<Rank>,
        tag: Option<i32>,
    ) -> Result<Received> {
        let (pattern, peer) = self.pattern(from, tag)?;
        Ok(self.conclude_receive(&self.inner.process.receive_awaited(pattern, peer, target)))
    }

    /// Waits until a message is there, and describes it without receiving it (MPI 5.0 §3.8.1).
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn probe(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Status> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let waits_for =
            |_: &mut Engine<Fabrics>| WaitsFor::Operations(vec![Pending::Receive { from: peer, pattern }], 1);
        let probed = self.inner.process.until_told(waits_for, |engine| {
            let lost = |engine: &mut Engine<Fabrics>| engine.obstacle(&pattern, peer).map(Err);
            engine.probe(&pattern).map(Ok).or_else(|| lost(engine))
        });
        let probed = probed.map_err(|failure| self.nothing_comes(&failure))?;
        Ok(Status { source: probed.source, tag: probed.tag, bytes: probed.bytes, cancelled: false })
    }

    /// Describes a message if one is there.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn probe_now(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Option<Status>> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let probed = self.inner.process.probe(&pattern);
        if probed.is_none() {
            self.check_source(&pattern, peer)?;
        }
        Ok(probed.map(|probed| Status {
            source: probed.source,
            tag: probed.tag,
            bytes: probed.bytes,
            cancelled: false,
        }))
    }

    /// Waits for a message and takes it out of reach of other receives (MPI 5.0 §3.8.2).
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn take(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Message> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let waits_for =
            |_: &mut Engine<Fabrics>| WaitsFor::Operations(vec![Pending::Receive { from: peer, pattern }], 1);
        let taken = self.inner.process.until_told(waits_for, |engine| {
            let lost = |engine: &mut Engine<Fabrics>| engine.obstacle(&pattern, peer).map(Err);
            engine.take(&pattern).map(Ok).or_else(|| lost(engine))
        });
        taken.map_err(|failure| self.nothing_comes(&failure))
    }

    /// Takes a message if one is there.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member.
    pub fn take_now(&self, from: Option<Rank>, tag: Option<i32>) -> Result<Option<Message>> {
        let (pattern, peer) = self.pattern(from, tag)?;
        let taken = self.inner.process.take(&pattern);
        if taken.is_none() {
            self.check_source(&pattern, peer)?;
        }
        Ok(taken)
    }

    /// An error where what `pattern` asks for may never come: a probe that says that nothing is there says it for ever.
    fn check_source(&self, pattern: &Pattern, peer: Option<Peer>) -> Result<()> {
        match self.inner.process.with_engine(|engine| engine.obstacle(pattern, peer)) {
            None => Ok(()),
            Some(failure) => Err(self.nothing_comes(&failure)),
        }
    }

    /// The error of a failure that says itself whom it is about. All members come here when one revokes, one behind the other
    /// where they share cores: so its text is made in one piece of memory.
    #[cold]
    fn nothing_comes(&self, failure: &messaging::Failure) -> Error {
        let mut what = self.place();
        what.push_str(": ");
        what.push_str(&failure_text(failure));
        Error::new(failure_class(failure), what)
    }

    /// Begins to receive a message that was taken.
    pub fn start_receive_taken(&self, message: Message, target: impl Into<Target>) -> Receiving {
        self.inner.process.receive_matched(message, target)
    }

    /// Waits for a request of this communicator.
    pub fn wait(&self, request: RequestId) -> Outcome {
        self.inner.process.wait(request)
    }

    /// Cancels a send or a receive that nothing has matched. A send that need not wait for its receiver completes once its
    /// message has left.
    pub fn cancel(&self, request: RequestId) {
        self.inner.process.cancel(request);
    }

    /// Whether a send went well.
    ///
    /// # Errors
    /// What failed, with the partner.
    pub fn conclude_send(&self, outcome: &Outcome, to: Rank, tag: i32) -> Result<()> {
        match &outcome.failure {
            None => Ok(()),
            Some(failure) => Err(Error::new(
                failure_class(failure),
                format!("{} to rank {} tag {tag}: {}", self.place(), self.named(to).0, failure_text(failure)),
            )),
        }
    }

    /// What became of a receive, in words where something failed.
    #[inline]
    pub fn conclude_receive(&self, outcome: &Outcome) -> Received {
        let status = Status::of(outcome);
        let error = outcome.failure.as_ref().map(|_| self.receive_failed(outcome));
        Received { status, error, signature: outcome.signature }
    }

    #[cold]
    fn receive_failed(&self, outcome: &Outcome) -> Error {
        let Some(failure) = &outcome.failure else { return Error::new(Class::Internal, "nothing failed") };
        match **failure {
            messaging::Failure::Truncated { .. } => {
                let source = self.named(outcome.source).0;
                let from = format!("{} from rank {source} tag {}", self.place(), outcome.tag);
                Error::new(Class::Truncated, format!("{from}: {}", failure_text(failure)))
                    .remedy("give a larger buffer, or ask for the size with MPI_Probe and MPI_Get_count")
            }
            _ => self.nothing_comes(failure),
        }
    }

    #[cold]
    fn send_failed(&self, error: Box<FabricError>, to: Rank, tag: i32) -> Error {
        Error::from(error).during(format!("{} to rank {} tag {tag}", self.place(), self.named(to).0))
    }

    #[cold]
    fn no_rank(&self, rank: Rank) -> Error {
        let what =
            format!("{}: rank {} does not exist, the size is {}", self.place(), rank.0, self.partners());
        Error::new(Class::Rank, what)
    }

    /// What messages to people call it: its name, or how it was made.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = String::with_capacity(TEXT_BYTES);
        match self.given_name() {
            Some(name) => label.push_str(&name),
            None => label.extend([self.inner.label.made, &self.inner.label.of]),
        }
        label
    }

    /// The label of a communicator that is made from this one so: `duplicate of `.
    fn label_of_child(&self, made: &'static str) -> Label {
        match self.given_name() {
            Some(of) => Label { made, of },
            None if self.inner.label.made == made => self.inner.label.clone(),
            None if self.inner.label.made.is_empty() => Label { made, of: self.inner.label.of.clone() },
            None => Label { made, of: self.label().into() },
        }
    }

    /// This communicator and this rank, as messages to people begin.
    #[must_use]
    pub fn place(&self) -> String {
        let mut place = self.label();
        let _ = write!(place, ", rank {}", self.named(self.inner.rank).0);
        place
    }

    /// The rank by which errors name a member.
    fn named(&self, rank: Rank) -> Rank {
        let names = self.inner.names.get();
        names.and_then(|names| names.get(rank.0 as usize)).copied().unwrap_or(rank)
    }

    #[inline(always)]
    fn pattern(&self, from: Option<Rank>, tag: Option<i32>) -> Result<(Pattern, Option<Peer>)> {
        let pattern = Pattern { context: self.context(), source: from, tag };
        match from {
            None => Ok((pattern, None)),
            Some(rank) => match self.inner.group.peer(rank) {
                Some(peer) => Ok((pattern, Some(peer))),
                None => Err(self.no_rank(rank)),
            },
        }
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator({}, {} members)", self.place(), self.size())
    }
}

/// Tags that blocking collective operations use in turn.
const TAGS: u32 = 8;
/// Most messages to people are not longer.
const TEXT_BYTES: usize = 120;
