//! Puts, gets and accumulates at their origin (MPI 5.0 §12.3): by loads and stores where this process reaches
//! the target's memory, else by messages to the target's [server](super::server).

use std::sync::atomic::Ordering;

use datatype::{Datatype, Operator, Predefined};
use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use messaging::{Data, Mode, Rank, RequestId, Sending, Target};

use super::asking::UnderWay;
use super::blocks::{Block, Blocks};
use super::exposure::Unreached;
use super::protocol::{DATA, Request};
use super::update::{Change, Update};
use super::{Extent, Window};

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

/// Who waits for the end of an operation at its origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletedBy {
    /// The end of the epoch, or a flush.
    Synchronization,
    /// The caller, who takes the outcome of the request that it is given. A flush waits all the same.
    Request,
}

/// How far an operation is when the call that begins it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// The origin's buffers are free; what was fetched is there.
    Locally,
    /// The buffers are in use until that request is over. Its status is none of a message.
    Underway(RequestId),
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
        self.serve_others();
        if !self.is_open_for_all.load(Ordering::Relaxed) {
            self.epochs.hold().access(rank, self.group()).map_err(|why| self.out_of_epoch_with(rank, why))?;
        }
        let extent = self.extent_of(rank);
        let unit = extent.map_or(1, |extent| extent.unit) as i64;
        // An address may be any number, and comes as it is.
        let counted =
            if extent.is_some() { Some(displacement).filter(|at| *at >= 0) } else { Some(displacement) };
        let start = counted.and_then(|at| at.checked_mul(unit));
        let start = start.ok_or_else(|| self.far(rank, displacement))?;
        let blocks = Blocks::of(datatype, count, start).map_err(|error| error.during(self.place()))?;
        if let Some(Extent { bytes, .. }) = extent
            && let Some(block) = blocks.outside(bytes as u64)
        {
            return Err(self.outside(rank, block, bytes));
        }
        let bytes = blocks.bytes();
        Ok(TargetElements { rank, blocks, bytes })
    }

    /// Lets this process's server carry out what others have asked for, where there is one: a program may
    /// look at its own memory, time after time, until others have changed it.
    #[inline]
    pub(super) fn serve_others(&self) {
        if self.service.is_some() {
            self.comm.process().progress();
        }
    }

    /// The memory of `bytes` bytes in a row, `displacement` units behind the beginning of a member's, for an
    /// operation that is a load or a store: `None` where this process does not reach it, no epoch is open for
    /// that member, or not all of it is there, and [`Window::elements`] says what is so.
    #[inline(always)]
    #[must_use]
    pub fn reach(&self, rank: Rank, displacement: i64, bytes: usize) -> Option<UserMemory> {
        self.exposure.block(rank, self.reached_block(rank, displacement, bytes)?)
    }

    #[inline(always)]
    fn reached_block(&self, rank: Rank, displacement: i64, bytes: usize) -> Option<Block> {
        let unit = self.exposure.shared_extent(rank)?.unit;
        if !self.is_open_for_all.load(Ordering::Relaxed) {
            self.epochs.hold().access(rank, self.group()).ok()?;
        }
        if self.comm.has_blanks() {
            return None;
        }
        let at = u64::try_from(displacement).ok()?.checked_mul(unit as u64)?;
        Some(Block { at, bytes: bytes as u64 })
    }

    /// Changes one element of a member's memory where [`Window::reach`] finds it, and fetches what it was
    /// before. `None`: nothing has happened.
    #[inline]
    pub fn change_reached(
        &self,
        (rank, displacement): (Rank, i64),
        (change, predefined): (Change, Predefined),
        Operands { operands: operand, compare }: Operands<'_>,
        before: &mut UserMemory,
    ) -> Option<()> {
        let block = self.reached_block(rank, displacement, predefined.size() as usize)?;
        self.exposure.block(rank, block)?;
        let blocks = std::slice::from_ref(&block);
        let (target, by) = (rank, self.rank());
        let update = Update { change, predefined, target, blocks, by, operand, compare };
        if !update.is_sound() {
            return None;
        }
        update.apply(&self.exposure, |rank| self.is_lost(rank), Some(before)).ok()
    }

    #[cold]
    fn far(&self, rank: Rank, displacement: i64) -> Error {
        let what = format!(
            "{}: the displacement {displacement} at rank {} is negative, or beyond all memory",
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

    #[inline]
    fn spread_reached(&self, packed: Payload<'_>, to: Rank, blocks: &[Block]) -> Result<()> {
        self.exposure.spread(to, blocks, packed).map_err(|why| self.unreached(to, why))
    }

    #[cold]
    fn unreached(&self, rank: Rank, why: Unreached) -> Error {
        let (class, why) = match why {
            Unreached::Outside => (Class::RmaRange, "it is not there".to_owned()),
            Unreached::Refused(why) if self.is_lost(rank) => (Class::ProcFailed, why),
            Unreached::Refused(why) => (Class::Other, why),
        };
        let what = format!("{}: memory of rank {} cannot be reached: {why}", self.place(), rank.0);
        Error::new(class, what).remedy("WEFT_CMA=0 has windows go by messages")
    }

    /// Writes data to a member's memory (MPI 5.0 §12.3.1). `data` stays as it is until the operation is over
    /// here.
    ///
    /// # Errors
    /// [`Class::Argument`] where the lengths differ; a member that is lost.
    #[inline]
    pub fn put(&self, data: Data<'_>, to: &TargetElements, completed_by: CompletedBy) -> Result<Begun> {
        self.check_length(to, length(data))?;
        if self.reached(to)? {
            match (data, &to.blocks) {
                (Data::Row(payload) | Data::Signed(payload, _), blocks) => {
                    self.spread_reached(payload, to.rank, blocks.list())?;
                }
                (Data::Apart(gather), Blocks::One(block))
                    if let Some(mut memory) = self.exposure.block(to.rank, *block) =>
                {
                    gather.gather(0, &mut memory);
                }
                (Data::Apart(_), blocks) => {
                    self.spread_reached(packed(data).payload(), to.rank, blocks.list())?;
                }
            }
            return Ok(Begun::Locally);
        }
        self.put_by_messages(data, to, completed_by)
    }

    #[inline(never)]
    fn put_by_messages(
        &self,
        data: Data<'_>,
        to: &TargetElements,
        completed_by: CompletedBy,
    ) -> Result<Begun> {
        match &to.blocks {
            Blocks::One(block) if to.bytes > IN_REQUEST_BYTES_MAX => {
                self.ask(to.rank, &Request::PutData { block: *block }, 0, |_| {})?;
                match self.comm.start_send(data, to.rank, DATA, Mode::Standard)? {
                    Sending::Done => Ok(Begun::Locally),
                    Sending::Pending(request) => {
                        self.note(
                            to.rank,
                            match completed_by {
                                CompletedBy::Synchronization => UnderWay::Send(request, None),
                                CompletedBy::Request => UnderWay::Lent(request),
                            },
                        );
                        Ok(Begun::Underway(request))
                    }
                }
            }
            blocks => {
                let request = Request::Put { blocks: blocks.list().to_vec() };
                self.ask(to.rank, &request, to.bytes, |memory| write(data, memory))?;
                Ok(Begun::Locally)
            }
        }
    }

    /// Reads from a member's memory (MPI 5.0 §12.3.2).
    ///
    /// # Errors
    /// [`Class::Argument`] where the lengths differ; a member that is lost.
    #[inline]
    pub fn get(&self, from: &TargetElements, mut into: Target, completed_by: CompletedBy) -> Result<Begun> {
        self.check_length(from, into.bytes())?;
        if self.reached(from)? {
            let unreached = |why| self.unreached(from.rank, why);
            if let Target::Room(room) = into {
                self.exposure
                    .collect(from.rank, from.blocks.list(), &mut room.memory())
                    .map_err(unreached)?;
                return Ok(Begun::Locally);
            }
            let packed = Heap::new(from.bytes);
            self.exposure.collect(from.rank, from.blocks.list(), &mut packed.memory()).map_err(unreached)?;
            into.write_at(0, packed.payload());
            return Ok(Begun::Locally);
        }
        let blocks = from.blocks.list().to_vec();
        let request = |answer| Request::Get { blocks, answer };
        self.ask_and_receive(from.rank, request, (0, |_: &mut UserMemory| {}), into, completed_by)
    }

    /// Combines elements of a member's memory with packed operands (MPI 5.0 §12.3.4). The operands are free
    /// when this returns.
    ///
    /// # Errors
    /// [`Class::Operator`] where the operator does not take them; [`Class::Argument`] where the lengths
    /// differ; a member that is lost.
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

    /// Combines elements of a member's memory with packed operands, and fetches what the elements were before
    /// (MPI 5.0 §12.3.4). No operands are looked at for [`Operator::NoOperation`].
    ///
    /// # Errors
    /// [`Class::Operator`] where the operator does not take them; [`Class::Argument`] where the lengths
    /// differ; a member that is lost.
    #[inline]
    pub fn get_accumulate(
        &self,
        operands: Payload<'_>,
        to: &TargetElements,
        (operator, predefined): (Operator, Predefined),
        before: Target,
        completed_by: CompletedBy,
    ) -> Result<Begun> {
        let operands = if operator == Operator::NoOperation { Payload::EMPTY } else { operands };
        if operator != Operator::NoOperation {
            self.check_length(to, operands.bytes())?;
        }
        self.check_length(to, before.bytes())?;
        let operands = Operands { operands, compare: Payload::EMPTY };
        self.update(operands, to, (Change::Combine(operator), predefined), Some((before, completed_by)))
    }

    /// Writes `operand` where the element of a member's memory equals `compare`, and fetches what it was
    /// (MPI 5.0 §12.3.4).
    ///
    /// # Errors
    /// [`Class::Argument`] where the lengths differ; a member that is lost.
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
        self.update(
            operands,
            to,
            (Change::CompareAndSwap, predefined),
            Some((before, CompletedBy::Synchronization)),
        )
    }

    #[inline]
    fn update(
        &self,
        Operands { operands, compare }: Operands<'_>,
        to: &TargetElements,
        (change, predefined): (Change, Predefined),
        before: Option<(Target, CompletedBy)>,
    ) -> Result<Begun> {
        let (target, by) = (to.rank, self.rank());
        let update =
            Update { change, predefined, target, blocks: to.blocks.list(), by, operand: operands, compare };
        if !update.is_sound() {
            return Err(self.unsound(change, predefined));
        }
        if self.reached(to)? {
            let is_gone = |rank: Rank| self.is_lost(rank);
            let applied = match before {
                None => update.apply(&self.exposure, is_gone, None),
                Some((Target::Room(room), _)) => {
                    update.apply(&self.exposure, is_gone, Some(&mut room.memory()))
                }
                Some((mut into, _)) => {
                    let packed = Heap::new(to.bytes);
                    let applied = update.apply(&self.exposure, is_gone, Some(&mut packed.memory()));
                    into.write_at(0, packed.payload());
                    applied
                }
            };
            return applied.map(|()| Begun::Locally).map_err(|why| self.unreached(target, why));
        }
        let blocks = to.blocks.list().to_vec();
        let bytes = compare.bytes() + operands.bytes();
        let write = |memory: &mut UserMemory| {
            let at = memory.write_at(0, compare);
            memory.write_at(at, operands);
        };
        match before {
            None => {
                let request = Request::Update { blocks, change, predefined, answer: None };
                self.ask(target, &request, bytes, write)?;
                Ok(Begun::Locally)
            }
            Some((into, completed_by)) => {
                let request = |answer| Request::Update { blocks, change, predefined, answer: Some(answer) };
                self.ask_and_receive(target, request, (bytes, write), into, completed_by)
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
}

/// What the origin of an accumulate gives: packed elements.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// What the elements there are combined with; none for [`Operator::NoOperation`].
    pub operands: Payload<'a>,
    /// What they are compared with, for [`Change::CompareAndSwap`]; else none.
    pub compare: Payload<'a>,
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
