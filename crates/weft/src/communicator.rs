//! Communicators: a group, a context, and the operations between its members.
//!
//! Every operation comes in two forms. Those on claims ([`Payload`], [`UserMemory`]) are the way of a message
//! from the C interface; those on slices and vectors, in [`crate::typed`], are built on them.

mod agree;
mod atomic;
mod check;
mod combining;
mod control_messages;
mod create;
mod duplicate;
mod failures;
mod generations;
mod inter;
mod messages;
mod mismatch_reports;
mod nodes;
mod ongoing;
mod partitioned;
mod perform;
mod reach;
mod rebuild;
mod recorded;
mod recovery;
mod refusals;
mod repairs;
mod segment;
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
pub use split::{SplitBy, SplitPart, hardware};
pub use topologies::{Edge, Topology};

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use collectives::Hierarchy;
use collectives::node::SegmentChoices;
use fabric::Peer;
use job::error::{Error, Result};
use job::lock::{Lock, Threads, lock};
use messaging::{Outcome, Pattern, Rank, Standing};
use topology::Placement;

use crate::attributes::Attributes;
use crate::contexts::{Lease, mix};
use crate::group::Group;
pub(crate) use agree::Counts;
use inter::Inter;
pub(crate) use mismatch_reports::Objections;
use perform::{collective_failed, settle};
pub(crate) use repairs::Registry;
use segment::Founded;

use crate::process::Process;
use crate::recent::Recent;
use topologies::Arranged;

/// A group of processes that talk to each other and to nobody else. Cheap to clone; all clones are the same
/// one.
///
/// Several threads may use it at once where the library was started for them, but one at a time is in a
/// blocking collective operation of it (MPI 5.0 §6.14). Two are an error of the program, which is told
/// ([`Class::Other`](crate::Class::Other)) where it is seen; elsewhere which of them meets which of another
/// rank is a matter of chance. Give each thread a [duplicate](Communicator::duplicate).
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
    hierarchy: OnceLock<Option<Arc<Hierarchy>>>,
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
    /// Whether operations go through shared memory or by messages.
    choices: SegmentChoices,
    /// Where its members write lines for each other, once that is known; empty where they do not.
    handle: OnceLock<Founded>,
    /// Counts the operations that could have gone that way before.
    before_handle: AtomicU32,
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
    /// The rank that sent the message.
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
            hierarchy: OnceLock::new(),
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
            choices: SegmentChoices::default(),
            handle: OnceLock::new(),
            before_handle: AtomicU32::new(0),
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

    /// Whether messages can be sent to that rank: it is one, and nobody is blank.
    #[inline(always)]
    #[must_use]
    pub fn is_usual_partner(&self, rank: Rank) -> bool {
        !self.has_blanks() && self.inner.group.peer(rank).is_some()
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

    /// What keeps its collective operations apart. Messages between two may go by the context of another that
    /// was before it.
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

    /// Gives the communicator another name (MPI 5.0 §7.8); an empty one takes its name away.
    pub fn rename(&self, name: &str) {
        let name = (!name.is_empty()).then(|| name.into());
        *lock(&self.inner.name) = name;
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

    /// The label of this communicator and this rank, as messages to people begin.
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
