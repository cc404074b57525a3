//! Partitioned communication (MPI 5.0 §5): a buffer that is sent and received in parts, each of which travels
//! when it is ready.
//!
//! When a sender describes its side it tells the receiver how many partitions there will be, how long they
//! are, and under which tags they come; these notices are matched with the receivers' sides in their order,
//! by communicator, source and tag. From then on nothing is agreed on any more: a partition is a message of
//! its own under a tag of its own, straight into its place, in every round anew. All that the engine does
//! with messages, it does with these.
//!
//! ```text
//! notice, under a tag of its own: tag i32, first tag i32, partitions u32, signature u32, bytes of each u64
//! partition i:                    tag first + i
//! ```
//! Both in the context of messages between two, and so with their fate where members fail, with negative
//! tags, which the program's messages do not have. It is the context that the communicator had when the
//! operation was described: what a recovery has put an end to does not begin again.

mod notices;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use fabric::{Heap, Payload, Peer, UserMemory};
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use job::lock::lock;
use messaging::{Engine, Envelope, Failure, Mode, Outcome, Pattern, Rank, RequestId, Sending};

pub(super) use self::notices::Notices;
use self::notices::encode;
use super::Communicator;
use crate::background::Operation;
use crate::memory::sending;

/// The sending side of a partitioned operation, for any number of rounds.
pub struct PartitionedSend {
    of: Communicator,
    context: u32,
    /// `None` is nobody.
    to: Option<(Rank, Peer)>,
    tag: i32,
    first_tag: i32,
    bytes: usize,
    signature: u32,
    /// Which partitions are ready in this round.
    ready: Box<[AtomicBool]>,
    posting: Mutex<Posting>,
}

/// What is ready and has not been handed to the engine.
struct Posting {
    payload: Payload<'static>,
    /// What is over with this round.
    whole: Option<RequestId>,
    ready: Vec<u32>,
    /// Partitions of this round that the engine has not got.
    left: usize,
    /// A thread is handing partitions to the engine, and looks for more before it stops.
    busy: bool,
}

/// The receiving side.
pub struct PartitionedReceive {
    of: Communicator,
    context: u32,
    from: Option<(Rank, Peer)>,
    tag: i32,
    partitions: u32,
    bytes: usize,
    /// In the latest round nobody sends.
    is_alone: AtomicBool,
    inner: Arc<Receiver>,
}

/// What is known of the other side, and what of a round has still to come.
#[derive(Default)]
struct Receiver {
    layout: OnceLock<Layout>,
    /// By the sender's partition; `None` where it was there at once. Nobody is told anything before it is
    /// set.
    parts: Mutex<Option<Vec<Option<RequestId>>>>,
}

/// How the sender has divided its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    first_tag: i32,
    partitions: u32,
    bytes: usize,
    /// What the sender says of its elements; 0 is nothing.
    signature: u32,
}

/// What a partitioned send brings, as its sender has described it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brings {
    /// The rank that sends.
    pub source: Rank,
    /// How many partitions the sender has.
    pub partitions: usize,
    /// Length of a partition, in bytes.
    pub bytes: usize,
    /// The sender's number for the kinds of all its elements; 0 is none.
    pub signature: u32,
}

impl Brings {
    /// Bytes of all partitions.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.partitions * self.bytes
    }
}

impl Communicator {
    /// Describes a send of `partitions` partitions of `bytes` bytes each; `None` sends to nobody. `signature`
    /// is a number for the kinds of all elements that the receiver may compare, or 0.
    ///
    /// # Errors
    /// [`Class::Rank`] where `to` is no member; [`Class::Argument`] for more partitions than there may be;
    /// [`Class::Other`] where other sends of the communicator have all tags that partitions travel under;
    /// what the fabric says where the receiver cannot be reached.
    pub fn partitioned_send(
        &self,
        to: Option<Rank>,
        tag: i32,
        partitions: u32,
        bytes: usize,
        signature: u32,
    ) -> Result<PartitionedSend> {
        let to = self.partner(to)?;
        check_size(partitions, bytes)?;
        let first_tag = match to {
            Some(_) => lock(&self.notices().blocks).take(partitions).ok_or_else(|| no_tags(partitions))?,
            None => 0,
        };
        let posting =
            Posting { payload: Payload::EMPTY, whole: None, ready: Vec::new(), left: 0, busy: false };
        let ready = (0..partitions).map(|_| AtomicBool::new(false)).collect();
        let posting = Mutex::new(posting);
        let (of, context) = (self.clone(), self.context());
        let send = PartitionedSend { of, context, to, tag, first_tag, bytes, signature, ready, posting };
        send.announce()?;
        Ok(send)
    }

    /// Describes a receive into `partitions` partitions of `bytes` bytes each; `None` receives from nobody.
    ///
    /// # Errors
    /// [`Class::Rank`] where `from` is no member; [`Class::Argument`] for more partitions than there may be.
    pub fn partitioned_receive(
        &self,
        from: Option<Rank>,
        tag: i32,
        partitions: u32,
        bytes: usize,
    ) -> Result<PartitionedReceive> {
        let from = self.partner(from)?;
        check_size(partitions, bytes)?;
        let (inner, context) = (Arc::<Receiver>::default(), self.context());
        if let Some((from, _)) = from {
            let mut sources = lock(&self.notices().sources);
            sources.entry((context, from)).or_default().expect(tag, Arc::clone(&inner));
        }
        let (of, is_alone) = (self.clone(), AtomicBool::new(from.is_none()));
        Ok(PartitionedReceive { of, context, from, tag, partitions, bytes, is_alone, inner })
    }

    fn partner(&self, rank: Option<Rank>) -> Result<Option<(Rank, Peer)>> {
        let Some(rank) = rank else { return Ok(None) };
        match self.inner.group.peer(rank) {
            Some(peer) => Ok(Some((rank, peer))),
            None => Err(self.no_rank(rank)),
        }
    }

    fn notices(&self) -> &Notices {
        self.inner.partitioned.get_or_init(Arc::default)
    }

    /// Its messages go by the context of another one, whose tags are in use.
    pub(super) fn keep_notices(&self, before: &Communicator) {
        let _ = self.inner.partitioned.set(Arc::clone(before.inner.partitioned.get_or_init(Arc::default)));
    }

    /// Whom a round is with: who has become blank since it was described may be nobody.
    fn still(&self, partner: Option<(Rank, Peer)>) -> Result<Option<(Rank, Peer)>> {
        match partner {
            Some((rank, _)) if self.is_with_nobody(rank)? => Ok(None),
            partner => Ok(partner),
        }
    }
}

fn check_size(partitions: u32, bytes: usize) -> Result<()> {
    let total = bytes.checked_mul(partitions as usize).filter(|&total| isize::try_from(total).is_ok());
    if partitions > PARTITIONS_MAX {
        let what = format!("{partitions} partitions are more than {PARTITIONS_MAX}");
        return Err(Error::new(Class::Argument, what).remedy("send larger partitions"));
    }
    match total {
        Some(_) => Ok(()),
        None => {
            Err(Error::new(Class::Count, format!("{partitions} partitions of {bytes} bytes are too much")))
        }
    }
}

impl PartitionedSend {
    /// The number of partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.ready.len()
    }

    /// The communicator of the operation.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.of
    }

    /// Begins a round: the partitions of `payload` may be said to be ready from now on. The request is over
    /// when all of them were, and the claim behind `payload` must hold until then.
    ///
    /// # Errors
    /// [`Class::Request`] when the round before is not over; as [`Communicator::is_with_nobody`].
    pub fn start(&self, payload: Payload<'static>) -> Result<RequestId> {
        self.of.still(self.to)?;
        let mut posting = lock(&self.posting);
        if posting.left > 0 {
            return Err(Error::new(Class::Request, "the partitions of the round before were not all ready"));
        }
        self.ready.iter().for_each(|ready| ready.store(false, Ordering::Relaxed));
        let process = self.of.process();
        let whole = process.promise();
        posting.payload = payload;
        posting.whole = Some(whole);
        posting.left = self.ready.len();
        if posting.left == 0 {
            process.fulfil(whole);
        }
        Ok(whole)
    }

    /// Whether a partition was said to be ready in this round.
    #[must_use]
    pub fn is_ready(&self, partition: usize) -> bool {
        self.ready.get(partition).is_some_and(|ready| ready.load(Ordering::Relaxed))
    }

    /// Says that partitions are ready; they travel at once. Several threads may do so at the same time: one
    /// of them sends what the others have noted down meanwhile.
    ///
    /// # Errors
    /// [`Class::Argument`] for one that does not exist, and nothing has happened then, or that was ready
    /// already; [`Class::Request`] before [`PartitionedSend::start`].
    pub fn ready(&self, partitions: impl Iterator<Item = u32> + Clone) -> Result<()> {
        if let Some(wrong) = partitions.clone().find(|&partition| partition as usize >= self.ready.len()) {
            return Err(no_partition(wrong, self.ready.len()));
        }
        let mut twice = None;
        let mut posting = lock(&self.posting);
        let Some(whole) = posting.whole else {
            return Err(Error::new(Class::Request, "the partitioned send was not started"));
        };
        for partition in partitions {
            if self.ready[partition as usize].swap(true, Ordering::Relaxed) {
                twice = twice.or(Some(partition));
            } else {
                posting.ready.push(partition);
            }
        }
        if !std::mem::replace(&mut posting.busy, true) {
            drop(posting);
            self.hand_over(whole);
        }
        match twice {
            None => Ok(()),
            Some(twice) => {
                let what = format!("partition {twice} was said to be ready already");
                Err(Error::new(Class::Argument, what))
            }
        }
    }

    /// Hands partitions to the engine until there are no more.
    fn hand_over(&self, whole: RequestId) {
        let mut batch = Vec::new();
        loop {
            let payload = {
                let mut posting = lock(&self.posting);
                posting.left -= batch.len();
                let over = posting.left == 0 && !batch.is_empty();
                batch.clear();
                std::mem::swap(&mut batch, &mut posting.ready);
                if batch.is_empty() {
                    posting.busy = false;
                    if over {
                        posting.whole = None;
                        drop(posting);
                        self.of.process().fulfil(whole);
                    }
                    return;
                }
                posting.payload
            };
            let Some((rank, peer)) = self.to else { continue };
            if self.of.is_blank(rank) {
                continue;
            }
            self.of.process().send_with(peer, |engine| {
                for &partition in &batch {
                    self.send(engine, whole, peer, partition, payload);
                }
            });
        }
    }

    fn send(
        &self,
        engine: &mut Engine<Fabrics>,
        whole: RequestId,
        peer: Peer,
        partition: u32,
        payload: Payload<'static>,
    ) {
        if let Some(failure) = engine.closed(self.context) {
            return engine.fail(whole, failure);
        }
        let tag = self.first_tag + partition as i32;
        let envelope = Envelope { context: self.context, source: self.of.inner.rank, tag };
        let payload = payload.part(partition as usize * self.bytes, self.bytes);
        if let Err(error) = engine.send_part(whole, peer, envelope, payload) {
            engine.fail(whole, Failure::Lost(*error));
        }
    }

    /// Whether a round went well.
    ///
    /// # Errors
    /// What failed, with the receiver's rank.
    pub fn conclude(&self, outcome: &Outcome) -> Result<()> {
        let to = self.to.map_or(self.of.rank(), |(to, _)| to);
        self.of.conclude_send(outcome, to, self.tag)
    }

    /// Tells the receiver how the data is divided.
    fn announce(&self) -> Result<()> {
        let Some((to, peer)) = self.to else { return Ok(()) };
        let PartitionedSend { first_tag, bytes, signature, .. } = *self;
        let layout = Layout { first_tag, partitions: self.ready.len() as u32, bytes, signature };
        let heap = Heap::new(NOTICE_BYTES);
        heap.memory().write_at(0, Payload::from(&encode(self.tag, layout)[..]));
        let envelope = Envelope { context: self.context, source: self.of.inner.rank, tag: NOTICES };
        let process = self.of.process();
        match process.send(peer, envelope, sending(&heap), Mode::Standard) {
            Ok(Sending::Done) => Ok(()),
            Ok(Sending::Pending(request)) => {
                process.entrust(Box::new(Announcing { request, _notice: heap }));
                Ok(())
            }
            Err(error) => Err(self.of.send_failed(error, to, self.tag)),
        }
    }
}

impl Drop for PartitionedSend {
    fn drop(&mut self) {
        if self.to.is_some() {
            lock(&self.of.notices().blocks).give_back(self.first_tag);
        }
    }
}

/// A notice on its way.
struct Announcing {
    request: RequestId,
    _notice: Heap,
}

impl Operation for Announcing {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        engine.test(self.request).is_some()
    }
}

impl PartitionedReceive {
    /// The number of partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions as usize
    }

    /// The communicator of the operation.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.of
    }

    /// Whether nobody sends in the latest round.
    #[must_use]
    pub fn is_with_nobody(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    /// What the sender has described, where its description has come.
    #[must_use]
    pub fn brings(&self) -> Option<Brings> {
        let (source, _) = self.from?;
        let Layout { partitions, bytes, signature, .. } = *self.inner.layout.get()?;
        Some(Brings { source, partitions: partitions as usize, bytes, signature })
    }

    /// Begins a round, into `memory`, which the claim must hold until the request is over.
    ///
    /// # Errors
    /// [`Class::Rank`] where the source has become blank, and the modes of the communicator make that an
    /// error.
    pub fn start(&self, memory: UserMemory) -> Result<RequestId> {
        let from = self.of.still(self.from)?;
        self.is_alone.store(from.is_none(), Ordering::Relaxed);
        *lock(&self.inner.parts) = None;
        let process = self.of.process();
        let whole = process.promise();
        match from {
            Some(from) => {
                let (of, inner) = (self.of.clone(), Arc::clone(&self.inner));
                process.entrust(Box::new(Opening { of, context: self.context, from, inner, whole, memory }));
            }
            None => {
                *lock(&self.inner.parts) = Some(Vec::new());
                process.fulfil(whole);
            }
        }
        Ok(whole)
    }

    /// Whether all of a partition is in its place; after a turn of progress where it is not.
    ///
    /// # Errors
    /// [`Class::Argument`] for one that does not exist.
    pub fn arrived(&self, partition: u32) -> Result<bool> {
        if partition >= self.partitions {
            return Err(no_partition(partition, self.partitions as usize));
        }
        let start = partition as usize * self.bytes;
        Ok(self
            .of
            .process()
            .look(|engine| self.has(engine, start, start + self.bytes).then_some(()))
            .is_some())
    }

    /// Whether what comes to stand from `start` to `end` is there. Where nothing comes, it is when all is.
    fn has(&self, engine: &mut Engine<Fabrics>, start: usize, end: usize) -> bool {
        let parts = lock(&self.inner.parts);
        let Some(parts) = &*parts else { return false };
        let bytes = self.inner.layout.get().map_or(0, |layout| layout.bytes);
        let end = end.min(bytes * parts.len());
        let all = start >= end;
        let concerned = if all { &parts[..] } else { &parts[start / bytes..end.div_ceil(bytes)] };
        concerned.iter().flatten().all(|part| engine.is_over(*part))
    }

    /// What is known of the message when a round is over, from the outcome of its request.
    #[must_use]
    pub fn outcome(&self, outcome: &Outcome) -> Outcome {
        let room_bytes = self.partitions as usize * self.bytes;
        let sent_bytes = self.brings().map_or(0, |brings| brings.total_bytes());
        let failure = match outcome.failure.as_deref() {
            Some(Failure::Truncated { .. }) => Some(Box::new(Failure::Truncated { sent_bytes, room_bytes })),
            _ => outcome.failure.clone(),
        };
        let source = self.from.map_or(Rank(0), |(from, _)| from);
        let bytes = sent_bytes.min(room_bytes);
        Outcome { source, tag: self.tag, bytes, failure, ..outcome.clone() }
    }
}

/// A round of a receive that has to learn how the data is divided before anything can be received.
struct Opening {
    of: Communicator,
    context: u32,
    from: (Rank, Peer),
    inner: Arc<Receiver>,
    whole: RequestId,
    memory: UserMemory,
}

impl Operation for Opening {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        let (rank, peer) = self.from;
        while self.inner.layout.get().is_none() {
            let mut sources = lock(&self.of.notices().sources);
            let source = sources.entry((self.context, rank)).or_default();
            let envelope = Envelope { context: self.context, source: rank, tag: NOTICES };
            match source.listen(engine, envelope, peer) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(failure) => {
                    engine.fail(self.whole, failure);
                    engine.fulfil(self.whole);
                    return true;
                }
            }
        }
        self.post(engine);
        true
    }
}

impl Opening {
    /// Receives each partition of the sender's into its place.
    fn post(&mut self, engine: &mut Engine<Fabrics>) {
        let (rank, peer) = self.from;
        let Some(layout) = self.inner.layout.get().copied() else { return };
        let mut parts = Vec::with_capacity(layout.partitions as usize);
        for partition in 0..layout.partitions {
            let start = (partition as usize * layout.bytes).min(self.memory.bytes());
            let memory = self.memory.part(start, layout.bytes.min(self.memory.bytes() - start));
            let tag = layout.first_tag + partition as i32;
            let pattern = Pattern { context: self.context, source: Some(rank), tag: Some(tag) };
            parts.push(engine.receive_part(self.whole, pattern, Some(peer), memory));
        }
        *lock(&self.inner.parts) = Some(parts);
        engine.fulfil(self.whole);
    }
}

#[cold]
fn no_tags(partitions: u32) -> Error {
    let what = format!(
        "no tags are left for {partitions} partitions: the partitioned sends of this communicator that were not freed have \
         more than {} partitions",
        TAGS_END - TAGS_START - i64::from(PARTITIONS_MAX)
    );
    Error::new(Class::Other, what)
        .remedy("free partitioned sends that are over, or describe some over another communicator")
}

fn no_partition(partition: u32, partitions: usize) -> Error {
    let what = match partitions {
        0 => format!("partition {partition} does not exist, there are none"),
        _ => format!("partition {partition} does not exist, partitions are 0 to {}", partitions - 1),
    };
    Error::new(Class::Argument, what)
}

const NOTICE_BYTES: usize = 24;
/// The tag of notices.
const NOTICES: i32 = i32::MIN;
/// The tags of partitions lie between these.
const TAGS_START: i64 = i32::MIN as i64 + 1;
const TAGS_END: i64 = -1;
/// So many partitions may a side have: more than that would be tables of gigabytes.
const PARTITIONS_MAX: u32 = 1 << 24;
