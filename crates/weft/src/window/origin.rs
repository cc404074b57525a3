//! Puts, gets and accumulates at their origin (MPI 5.0 §12.3): by loads and stores where this process reaches
//! the target's memory, else by messages to the target's [server](super::server).

use std::sync::atomic::Ordering;

use datatype::{Datatype, Operator, Predefined};
use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::lock::lock;
use messaging::{Data, Mode, Rank, Receiving, RequestId, Sending, Target};

use super::blocks::{Block, Blocks, spread};
use super::protocol::{DATA, Ended, REQUEST, Request, answer_tag};
use super::update::{Change, Update};
use super::{Extent, Window};
use crate::memory::sending;

/// Elements of a member's memory that an operation goes to; the epochs allow it, and as far as is known here,
/// all stand inside of that memory.
#[derive(Debug)]
pub struct TargetElements {
    rank: Rank,
    blocks: Blocks,
    bytes: usize,
}

impl TargetElements {
    /// How long their data is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How far an operation is when the call that begins it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// The origin's buffers are free; what was fetched is there.
    Locally,
    /// The buffers are in use until that request is over. Its status is none of a message.
    Underway(RequestId),
}

/// What an origin has under way with one target, or has not heard of the end of.
#[derive(Default)]
pub(super) struct Outstanding {
    /// Sends and receives that are not over here.
    under_way: Vec<UnderWay>,
    /// How many requests it was sent, and of how many it has said that they are done.
    asked: u64,
    heard: u64,
}

/// A request that is answered when all before it are done.
pub(super) struct Ending {
    room: Heap,
    receiving: Receiving,
    /// How many requests that makes.
    asked: u64,
}

impl Outstanding {
    fn is_unheard(&self) -> bool {
        self.asked > self.heard
    }
}

enum UnderWay {
    Send(RequestId, Option<Heap>),
    Receive(RequestId),
    /// One that the program has a request for, which takes its outcome.
    Lent(RequestId),
}

/// The longest data that travels within the request of a put, in bytes. A copy of it costs less than a
/// message of its own.
const IN_REQUEST_BYTES_MAX: usize = 8 << 10;

impl Window {
    /// The elements that an operation goes to: `count` of a datatype, `displacement` units of the target
    /// behind the beginning of its memory. In a dynamic window the displacement is an address.
    ///
    /// # Errors
    /// [`Class::Rank`]; [`Class::RmaSync`] where no epoch is open for that target; [`Class::RmaRange`] where
    /// a part of them is outside of its memory; [`Class::Displacement`], [`Class::Count`].
    #[inline]
    pub fn elements(
        &self,
        rank: Rank,
        displacement: i64,
        count: i64,
        datatype: &Datatype,
    ) -> Result<TargetElements> {
        self.check_rank(rank)?;
        if !self.is_open_for_all.load(Ordering::Relaxed) {
            lock(&self.epochs).access(rank, self.group()).map_err(|why| self.out_of_epoch_with(rank, why))?;
        }
        let extent = self.extent_of(rank);
        let unit = extent.map_or(1, |extent| extent.unit) as i64;
        let start = displacement.checked_mul(unit).ok_or_else(|| self.far(rank, displacement))?;
        let blocks = Blocks::of(datatype, count, start).map_err(|error| error.during(self.place()))?;
        if let Some(Extent { bytes, .. }) = extent
            && let Some(block) = blocks.outside(bytes as u64)
        {
            return Err(self.outside(rank, block, bytes));
        }
        let bytes = blocks.bytes();
        Ok(TargetElements { rank, blocks, bytes })
    }

    #[cold]
    fn far(&self, rank: Rank, displacement: i64) -> Error {
        let what = format!(
            "{}: the displacement {displacement} at rank {} is beyond all memory",
            self.place(),
            rank.0
        );
        Error::new(Class::Displacement, what)
    }

    #[cold]
    fn outside(&self, rank: Rank, Block { at, bytes }: Block, there: usize) -> Error {
        let what = format!(
            "{}: {bytes} bytes at byte {at} of rank {} are outside of its window memory, which has {there} bytes",
            self.place(),
            rank.0
        );
        Error::new(Class::RmaRange, what)
            .remedy("a displacement counts in displacement units of the target, from the beginning of its window memory")
    }

    #[cold]
    fn unattached(&self, rank: Rank, Block { at, bytes }: Block) -> Error {
        let what =
            format!("{}: of {bytes} bytes at {at:#x} not all are attached at rank {}", self.place(), rank.0);
        Error::new(Class::RmaRange, what).remedy("attach the memory with MPI_Win_attach first")
    }

    /// The data must be as long as the elements at the target.
    fn check_length(&self, to: &TargetElements, bytes: usize) -> Result<()> {
        if bytes == to.bytes {
            return Ok(());
        }
        let what = format!(
            "{}: {bytes} bytes at the origin, and elements of {} bytes at rank {}",
            self.place(),
            to.bytes,
            to.rank.0
        );
        Err(Error::new(Class::Argument, what).remedy("give both sides as many elements of the same types"))
    }

    /// The blocks, where this process reaches them; an error, where they are none of the window's memory.
    fn reached(&self, to: &TargetElements) -> Result<bool> {
        if !self.exposure.reaches(to.rank) {
            return Ok(false);
        }
        // Of other windows the extent was looked at.
        if self.extent_of(to.rank).is_none() {
            let stray = to
                .blocks
                .list()
                .iter()
                .find(|block| block.bytes > 0 && self.exposure.block(to.rank, **block).is_none());
            if let Some(block) = stray {
                return Err(self.unattached(to.rank, *block));
            }
        }
        Ok(true)
    }

    fn block(&self, of: Rank, block: Block) -> UserMemory {
        self.exposure.block(of, block).unwrap_or(UserMemory::EMPTY)
    }

    /// Writes data to a member's memory (MPI 5.0 §12.3.1). `data` stays as it is until the operation is over
    /// here.
    ///
    /// # Errors
    /// [`Class::Argument`] where the lengths differ; a member that is lost.
    #[inline]
    pub fn put(&self, data: Data<'_>, to: &TargetElements) -> Result<Begun> {
        self.put_as(data, to, false)
    }

    /// As [`Window::put`], for a caller that takes the outcome of the request in the answer by itself.
    ///
    /// # Errors
    /// As for [`Window::put`].
    pub fn put_for_request(&self, data: Data<'_>, to: &TargetElements) -> Result<Begun> {
        self.put_as(data, to, true)
    }

    #[inline]
    fn put_as(&self, data: Data<'_>, to: &TargetElements, is_lent: bool) -> Result<Begun> {
        self.check_length(to, length(data))?;
        if self.reached(to)? {
            match (data, &to.blocks) {
                (Data::Row(payload) | Data::Signed(payload, _), blocks) => {
                    spread(payload, blocks.list(), |block| self.block(to.rank, block));
                }
                (Data::Apart(gather), Blocks::One(block)) => {
                    gather.gather(0, &mut self.block(to.rank, *block));
                }
                (Data::Apart(_), blocks) => {
                    let packed = packed(data);
                    spread(packed.payload(), blocks.list(), |block| self.block(to.rank, block));
                }
            }
            return Ok(Begun::Locally);
        }
        self.put_by_messages(data, to, is_lent)
    }

    #[inline(never)]
    fn put_by_messages(&self, data: Data<'_>, to: &TargetElements, is_lent: bool) -> Result<Begun> {
        match &to.blocks {
            Blocks::One(block) if to.bytes > IN_REQUEST_BYTES_MAX => {
                self.ask(to.rank, &Request::PutData { block: *block }, &[])?;
                match self.comm.start_send(data, to.rank, DATA, Mode::Standard)? {
                    Sending::Done => Ok(Begun::Locally),
                    Sending::Pending(request) => {
                        let send = UnderWay::Send(request, None);
                        self.note(to.rank, if is_lent { UnderWay::Lent(request) } else { send });
                        Ok(Begun::Underway(request))
                    }
                }
            }
            blocks => {
                let request = Request::Put { blocks: blocks.list().to_vec() };
                self.ask(to.rank, &request, &[data])?;
                Ok(Begun::Locally)
            }
        }
    }

    /// Reads from a member's memory (MPI 5.0 §12.3.2).
    ///
    /// # Errors
    /// As for [`Window::put`].
    #[inline]
    pub fn get(&self, from: &TargetElements, into: Target) -> Result<Begun> {
        self.get_as(from, into, false)
    }

    /// As [`Window::get`], for a caller that takes the outcome of the request in the answer by itself.
    ///
    /// # Errors
    /// As for [`Window::put`].
    pub fn get_for_request(&self, from: &TargetElements, into: Target) -> Result<Begun> {
        self.get_as(from, into, true)
    }

    #[inline]
    fn get_as(&self, from: &TargetElements, mut into: Target, is_lent: bool) -> Result<Begun> {
        self.check_length(from, into.bytes())?;
        if self.reached(from)? {
            let mut done = 0;
            for block in from.blocks.list() {
                into.write_at(done, self.block(from.rank, *block).payload());
                done += block.bytes as usize;
            }
            return Ok(Begun::Locally);
        }
        let blocks = from.blocks.list().to_vec();
        self.ask_and_receive(from.rank, |answer| Request::Get { blocks, answer }, &[], into, is_lent)
    }

    /// Combines elements of a member's memory with packed operands (MPI 5.0 §12.3.4). The operands are free
    /// when this returns.
    ///
    /// # Errors
    /// [`Class::Operator`] where the operator does not take them; otherwise as for [`Window::put`].
    #[inline]
    pub fn accumulate(
        &self,
        operands: Payload<'_>,
        to: &TargetElements,
        (operator, predefined): (Operator, Predefined),
    ) -> Result<()> {
        self.check_length(to, operands.bytes())?;
        let change = Change::Combine(operator);
        self.update(Operands { operands, compare: Payload::EMPTY }, to, (change, predefined), None).map(drop)
    }

    /// As [`Window::accumulate`], and fetches what the elements were before (MPI 5.0 §12.3.4). No operands
    /// are looked at for [`Operator::NoOperation`].
    ///
    /// # Errors
    /// As for [`Window::accumulate`].
    #[inline]
    pub fn get_accumulate(
        &self,
        operands: Payload<'_>,
        to: &TargetElements,
        (operator, predefined): (Operator, Predefined),
        before: Target,
        is_lent: bool,
    ) -> Result<Begun> {
        let operands = if operator == Operator::NoOperation { Payload::EMPTY } else { operands };
        if operator != Operator::NoOperation {
            self.check_length(to, operands.bytes())?;
        }
        self.check_length(to, before.bytes())?;
        let operands = Operands { operands, compare: Payload::EMPTY };
        self.update(operands, to, (Change::Combine(operator), predefined), Some((before, is_lent)))
    }

    /// Writes `operand` where the element of a member's memory equals `compare`, and fetches what it was
    /// (MPI 5.0 §12.3.4).
    ///
    /// # Errors
    /// As for [`Window::put`].
    #[inline]
    pub fn compare_and_swap(
        &self,
        operand: Payload<'_>,
        compare: Payload<'_>,
        to: &TargetElements,
        predefined: Predefined,
        before: Target,
    ) -> Result<Begun> {
        self.check_length(to, operand.bytes())?;
        self.check_length(to, compare.bytes())?;
        let operands = Operands { operands: operand, compare };
        self.update(operands, to, (Change::CompareAndSwap, predefined), Some((before, false)))
    }

    #[inline]
    fn update(
        &self,
        Operands { operands, compare }: Operands<'_>,
        to: &TargetElements,
        (change, predefined): (Change, Predefined),
        before: Option<(Target, bool)>,
    ) -> Result<Begun> {
        let (target, by) = (to.rank, self.rank());
        let update =
            Update { change, predefined, target, blocks: to.blocks.list(), by, operand: operands, compare };
        if !update.is_sound() {
            return Err(self.unsound(change, predefined));
        }
        if self.reached(to)? {
            let is_gone = |rank: Rank| self.is_lost(rank);
            match before {
                None => update.apply(&self.exposure, is_gone, None),
                Some((Target::Room(room), _)) => {
                    update.apply(&self.exposure, is_gone, Some(&mut room.memory()));
                }
                Some((mut into, _)) => {
                    let packed = Heap::new(to.bytes);
                    update.apply(&self.exposure, is_gone, Some(&mut packed.memory()));
                    into.write_at(0, packed.payload());
                }
            }
            return Ok(Begun::Locally);
        }
        let blocks = to.blocks.list().to_vec();
        let data = [compare, operands];
        match before {
            None => {
                self.ask_copied(
                    target,
                    &Request::Update { blocks, change, predefined, answer: None },
                    &data,
                )?;
                Ok(Begun::Locally)
            }
            Some((into, is_lent)) => {
                let request = |answer| Request::Update { blocks, change, predefined, answer: Some(answer) };
                self.ask_and_receive_copied(target, request, &data, into, is_lent)
            }
        }
    }

    #[cold]
    fn unsound(&self, change: Change, predefined: Predefined) -> Error {
        let what = match change {
            Change::Combine(operator) => {
                format!("{}: {operator} is not defined for {}", self.place(), predefined.name())
            }
            Change::CompareAndSwap => {
                format!("{}: elements of {} cannot be compared", self.place(), predefined.name())
            }
        };
        Error::new(Class::Operator, what)
    }

    /// Sends a request, with data behind it.
    fn ask(&self, target: Rank, request: &Request, data: &[Data<'_>]) -> Result<()> {
        let bytes = data.iter().map(|data| length(*data)).sum();
        let message = message(request, bytes);
        let mut at = message.bytes() - bytes;
        for data in data {
            write(*data, &mut message.memory().part(at, length(*data)));
            at += length(*data);
        }
        self.send_request(target, message)
    }

    /// Sends a request, with a copy of data behind it.
    fn ask_copied(&self, target: Rank, request: &Request, data: &[Payload<'_>]) -> Result<()> {
        let bytes = data.iter().map(Payload::bytes).sum();
        let message = message(request, bytes);
        let mut at = message.bytes() - bytes;
        for data in data {
            at += message.memory().write_at(at, *data);
        }
        self.send_request(target, message)
    }

    fn send_request(&self, target: Rank, message: Heap) -> Result<()> {
        lock(&self.outstanding).entry(target).or_default().asked += 1;
        if let Sending::Pending(request) =
            self.comm.start_send(sending(&message), target, REQUEST, Mode::Standard)?
        {
            self.note(target, UnderWay::Send(request, Some(message)));
        }
        Ok(())
    }

    fn note(&self, target: Rank, one: UnderWay) {
        lock(&self.outstanding).entry(target).or_default().under_way.push(one);
    }

    fn ask_and_receive(
        &self,
        target: Rank,
        request: impl FnOnce(u32) -> Request,
        data: &[Data<'_>],
        into: Target,
        is_lent: bool,
    ) -> Result<Begun> {
        let answer = self.answers.fetch_add(1, Ordering::Relaxed);
        let receiving = self.comm.start_receive(into, Some(target), Some(answer_tag(answer)))?;
        self.ask(target, &request(answer), data)?;
        self.received_later(target, receiving, is_lent)
    }

    fn ask_and_receive_copied(
        &self,
        target: Rank,
        request: impl FnOnce(u32) -> Request,
        data: &[Payload<'_>],
        into: Target,
        is_lent: bool,
    ) -> Result<Begun> {
        let answer = self.answers.fetch_add(1, Ordering::Relaxed);
        let receiving = self.comm.start_receive(into, Some(target), Some(answer_tag(answer)))?;
        self.ask_copied(target, &request(answer), data)?;
        self.received_later(target, receiving, is_lent)
    }

    fn received_later(&self, target: Rank, receiving: Receiving, is_lent: bool) -> Result<Begun> {
        match receiving {
            Receiving::Pending(request) => {
                let own = UnderWay::Receive(request);
                self.note(target, if is_lent { UnderWay::Lent(request) } else { own });
                Ok(Begun::Underway(request))
            }
            Receiving::Done(outcome) => {
                self.comm.conclude_receive(&outcome).error.map_or(Ok(Begun::Locally), Err)
            }
        }
    }

    /// Waits until everything that is under way with a target is over here (MPI 5.0 §12.5.4).
    pub(super) fn complete_here(&self, target: Rank) -> Result<()> {
        let under_way = match lock(&self.outstanding).get_mut(&target) {
            Some(outstanding) => std::mem::take(&mut outstanding.under_way),
            None => return Ok(()),
        };
        let mut ended = Ok(());
        for one in under_way {
            let this = match one {
                UnderWay::Send(request, _keeps) => {
                    self.comm.conclude_send(&self.comm.wait(request), target, DATA)
                }
                UnderWay::Receive(request) => {
                    let received = self.comm.conclude_receive(&self.comm.wait(request));
                    received.error.map_or(Ok(()), Err)
                }
                UnderWay::Lent(request) => {
                    self.comm.process().until(|engine| {
                        (engine.is_over(request) || engine.peek(request).is_some()).then_some(())
                    });
                    Ok(())
                }
            };
            ended = ended.and(this);
        }
        ended
    }

    /// Waits until everything that some targets were asked for is done there.
    pub(super) fn complete_there(&self, targets: &[Rank]) -> Result<()> {
        let mut ended = Ok(());
        let mut answers = Vec::new();
        for target in targets {
            ended = ended.and(self.complete_here(*target));
            if lock(&self.outstanding).get(target).is_some_and(Outstanding::is_unheard) {
                answers.push((*target, self.ask_for_end(*target, |answer| Request::Flush { answer })));
            }
        }
        for (target, answer) in answers {
            ended = ended.and(answer.and_then(|answer| self.hear_end(target, answer)));
        }
        ended
    }

    /// The targets that were asked for anything since they last said that all was done.
    pub(super) fn unheard(&self) -> Vec<Rank> {
        let outstanding = lock(&self.outstanding);
        outstanding.iter().filter(|(_, one)| one.is_unheard()).map(|(target, _)| *target).collect()
    }

    /// Sends a request that is answered when it is done.
    pub(super) fn ask_for_end(&self, target: Rank, request: impl FnOnce(u32) -> Request) -> Result<Ending> {
        let room = Heap::new(1);
        let answer = self.answers.fetch_add(1, Ordering::Relaxed);
        let receiving = self.comm.start_receive(room.memory(), Some(target), Some(answer_tag(answer)))?;
        self.ask_copied(target, &request(answer), &[])?;
        let asked = lock(&self.outstanding).get(&target).map_or(0, |outstanding| outstanding.asked);
        Ok(Ending { room, receiving, asked })
    }

    /// Waits for that answer.
    pub(super) fn hear_end(&self, target: Rank, Ending { room, receiving, asked }: Ending) -> Result<()> {
        let outcome = match receiving {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => self.comm.wait(request),
        };
        if let Some(error) = self.comm.conclude_receive(&outcome).error {
            return Err(error);
        }
        // The request itself has gone: the target has answered it.
        self.complete_here(target)?;
        let mut outstanding = lock(&self.outstanding);
        let heard = &mut outstanding.entry(target).or_default().heard;
        *heard = asked.max(*heard);
        drop(outstanding);
        let mut byte = [0];
        room.payload().copy_to(&mut byte);
        let what = match Ended::of(byte[0]) {
            Ended::Well => return Ok(()),
            Ended::Outside => {
                "an operation was for memory that is not in the window there; it has changed nothing"
            }
            Ended::Unsound => "an operation made no sense there; it has changed nothing",
        };
        let what = format!("{} at rank {}: {what}", self.place(), target.0);
        Err(Error::new(Class::RmaRange, what)
            .remedy("attach the memory before others use it, and look at displacements"))
    }
}

/// What an accumulate is given.
struct Operands<'a> {
    operands: Payload<'a>,
    compare: Payload<'a>,
}

fn length(data: Data<'_>) -> usize {
    match data {
        Data::Row(payload) | Data::Signed(payload, _) => payload.bytes(),
        Data::Apart(gather) => gather.bytes(),
    }
}

fn write(data: Data<'_>, into: &mut UserMemory) {
    match data {
        Data::Row(payload) | Data::Signed(payload, _) => _ = into.write_at(0, payload),
        Data::Apart(gather) => gather.gather(0, into),
    }
}

fn packed(data: Data<'_>) -> Heap {
    let heap = Heap::new(length(data));
    write(data, &mut heap.memory());
    heap
}

/// A request with room for data behind it.
fn message(request: &Request, bytes: usize) -> Heap {
    let head = request.encode();
    let heap = Heap::new(head.len() + bytes);
    heap.memory().write_at(0, Payload::from(&head[..]));
    heap
}
