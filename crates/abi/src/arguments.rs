//! Checks of what C hands over, before anything is touched.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use datatype::Datatype;
use weft::claims::{Gathered, Heap, Payload, Pool, Scattered, Target, UserMemory};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::claims::{Buffer, Received, Sent};
use crate::generated::constants::*;
use crate::objects::Unpack;
use crate::reach::{self, Access};
use crate::state;

/// Where a message goes or comes from, once checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Partner {
    /// `MPI_PROC_NULL`: nobody.
    Nobody,
    /// A member of the communicator.
    Rank(Rank),
    /// `MPI_ANY_SOURCE`.
    Any,
}

/// The member of a number, where it is one and no rank is blank.
#[inline(always)]
pub(crate) fn member(comm: &Communicator, rank: c_int) -> Option<Rank> {
    // What is negative is beyond all.
    let rank = Rank(rank as u32);
    comm.is_usual_partner(rank).then_some(rank)
}

/// A rank to send to.
#[inline(always)]
pub(crate) fn destination(comm: &Communicator, rank: c_int) -> Result<Partner> {
    match member(comm, rank) {
        Some(rank) => Ok(Partner::Rank(rank)),
        None => no_member(comm, rank),
    }
}

#[cold]
fn no_member(comm: &Communicator, rank: c_int) -> Result<Partner> {
    match u32::try_from(rank) {
        Ok(rank) if rank < comm.partners() => among_blanks(comm, Rank(rank)),
        _ if rank == MPI_PROC_NULL => Ok(Partner::Nobody),
        _ => Err(bad_rank(comm, rank)),
    }
}

/// A rank of a communicator with blank ranks, which are nobody, or an error.
fn among_blanks(comm: &Communicator, rank: Rank) -> Result<Partner> {
    Ok(if comm.is_with_nobody(rank)? { Partner::Nobody } else { Partner::Rank(rank) })
}

/// A rank to receive from.
#[inline]
pub(crate) fn source(comm: &Communicator, rank: c_int) -> Result<Partner> {
    if rank == MPI_ANY_SOURCE { Ok(Partner::Any) } else { destination(comm, rank) }
}

/// The root of a collective operation.
pub(crate) fn root(comm: &Communicator, root: c_int) -> Result<Rank> {
    let Ok(rank) = u32::try_from(root).map(Rank) else {
        let what = format!("{}: the root is {root}, ranks are 0 to {}", comm.place(), comm.size() - 1);
        return Err(Error::new(Class::Root, what));
    };
    comm.check_root(rank).map(|()| rank)
}

#[cold]
fn bad_rank(comm: &Communicator, rank: c_int) -> Error {
    let what =
        format!("{}: rank {rank} does not exist, ranks are 0 to {}", comm.place(), comm.partners() - 1);
    Error::new(Class::Rank, what)
}

/// A tag to send with.
#[inline]
pub(crate) fn tag(tag: c_int) -> Result<c_int> {
    if tag >= 0 { Ok(tag) } else { Err(bad_tag(tag)) }
}

/// A tag to receive with; `None` is any.
#[inline]
pub(crate) fn tag_or_any(tag: c_int) -> Result<Option<c_int>> {
    match tag {
        MPI_ANY_TAG => Ok(None),
        0.. => Ok(Some(tag)),
        _ => Err(bad_tag(tag)),
    }
}

#[cold]
fn bad_tag(tag: c_int) -> Error {
    Error::new(Class::Tag, format!("the tag is {tag}, tags are 0 to {}", c_int::MAX))
}

/// The data of a send.
pub(crate) enum Outgoing<'a> {
    /// In a row, where the program has it.
    InPlace(Payload<'static>),
    /// A copy of it, so that the program's memory is free.
    Copied(Heap),
    /// Elements that stand apart, to be packed on their way.
    Apart(Gathered<&'a Datatype>),
}

/// The part of memory where a send's elements stand, with what lies between them.
#[inline(always)]
pub(crate) fn readable(buffer: Sent, count: i64, datatype: &Datatype) -> Result<Payload<'static>> {
    let (offset, bytes) = buffer_span(buffer.start(), count, datatype)?;
    if state::checks() {
        reach::check(buffer.start(), count, datatype, Access::Read)?;
    }
    Ok(buffer.payload(offset, bytes))
}

/// The data of elements that stand in `span`.
#[inline(always)]
pub(crate) fn gathered<'a>(
    span: Payload<'static>,
    count: i64,
    datatype: &'a Datatype,
) -> Result<Outgoing<'a>> {
    if datatype.is_dense() {
        return Ok(Outgoing::InPlace(span));
    }
    // What is said of the elements says nothing of sections of them.
    if state::checks() {
        return Ok(Outgoing::Copied(packed(span, count, datatype)?));
    }
    Ok(Outgoing::Apart(Gathered::new(datatype, count, span)?))
}

/// A copy of the data of elements that stand in `span`.
pub(crate) fn copied(span: Payload<'static>, count: i64, datatype: &Datatype) -> Result<Heap> {
    if datatype.is_dense() {
        let copy = Heap::new(span.bytes());
        copy.memory().write_at(0, span);
        return Ok(copy);
    }
    packed(span, count, datatype)
}

/// Packs elements that stand apart.
#[cold]
fn packed(span: Payload<'static>, count: i64, datatype: &Datatype) -> Result<Heap> {
    let heap = pooled(bytes_of(count, datatype)?);
    datatype::pack_memory(datatype, count, span, &mut heap.memory(), 0)
        .map_err(|error| Error::new(Class::Buffer, error.to_string()))?;
    Ok(heap)
}

/// Where a receive puts its data, and what is left to do with it there.
pub(crate) struct Incoming {
    pub target: Target,
    pub unpack: Option<Unpack>,
}

/// Checks a receive buffer and claims room for its data.
#[inline(always)]
pub(crate) fn incoming(buffer: Received, count: i64, datatype: &Datatype) -> Result<Incoming> {
    spread(writable(buffer, count, datatype)?, count, datatype)
}

/// The part of memory where a receive's elements come to stand, with what lies between them.
#[inline(always)]
pub(crate) fn writable(buffer: Received, count: i64, datatype: &Datatype) -> Result<UserMemory> {
    let (offset, bytes) = buffer_span(buffer.start(), count, datatype)?;
    if state::checks() {
        reach::check(buffer.start(), count, datatype, Access::Write)?;
    }
    Ok(buffer.memory(offset, bytes))
}

/// Room for the data of elements that come to stand in `span`.
#[inline(always)]
pub(crate) fn spread(span: UserMemory, count: i64, datatype: &Datatype) -> Result<Incoming> {
    if state::checks() {
        return to_unpack(span, count, datatype);
    }
    if datatype.is_dense() {
        return Ok(Incoming { target: span.into(), unpack: None });
    }
    let scattered = Scattered::new(datatype, count, span)?;
    Ok(Incoming { target: Target::Scattered(Box::new(scattered)), unpack: None })
}

/// Prepares a receive whose elements are compared with the sender's in the end (`WEFT_CHECK`). Contiguous
/// elements are received in their places. Noncontiguous ones are received as packed bytes into a buffer of
/// the library, and unpacked into `memory` after the comparison.
#[cold]
fn to_unpack(memory: UserMemory, count: i64, datatype: &Datatype) -> Result<Incoming> {
    let datatype = datatype.clone();
    if datatype.is_dense() {
        let unpack = Unpack { packed: None, datatype, count, memory: UserMemory::EMPTY };
        return Ok(Incoming { target: memory.into(), unpack: Some(unpack) });
    }
    let packed = pooled(bytes_of(count, &datatype)?);
    let target = packed.memory().into();
    Ok(Incoming { target, unpack: Some(Unpack { packed: Some(packed), datatype, count, memory }) })
}

/// Memory for a packed message, to be written before it is read.
pub(crate) fn pooled(bytes: usize) -> Heap {
    thread_local! {
        static POOL: RefCell<Pool> = const { RefCell::new(Pool::new()) };
    }
    // A thread that ends has no pool any more.
    POOL.try_with(|pool| pool.borrow_mut().take(bytes)).unwrap_or_else(|_| Heap::new(bytes))
}

impl Unpack {
    /// Whether the elements of a message are those that are expected; `signature` is what its sender says of
    /// them.
    pub(crate) fn check(&self, signature: u32, bytes: usize) -> Result<()> {
        let expected = self.datatype.digest(self.count, bytes as i64);
        if signature == 0 || expected == 0 || signature == expected {
            return Ok(());
        }
        let what = format!(
            "the {bytes} bytes of the message are other elements than those of {} of {}",
            self.count,
            self.datatype.name()
        );
        Err(Error::new(Class::Type, what)
            .remedy("give both ends datatypes with the same elements in the same order"))
    }

    /// Brings `bytes` received bytes to their places.
    pub(crate) fn finish(&mut self, bytes: usize) -> Result<()> {
        let Some(packed) = &self.packed else { return Ok(()) };
        let packed = packed.payload().part(0, bytes);
        datatype::unpack(&self.datatype, self.count, packed, &mut self.memory, 0)
            .map_err(|error| Error::new(Class::Buffer, error.to_string()))?;
        Ok(())
    }
}

/// Whether the address can be that of data: neither null nor `MPI_IN_PLACE`.
#[inline(always)]
pub(crate) fn is_plain(buffer: *const c_void) -> bool {
    !buffer.is_null() && buffer.addr() != MPI_IN_PLACE.addr()
}

/// Where the elements of a buffer stand: offset from its address, and bytes; after all checks.
#[inline(always)]
pub(crate) fn buffer_span(buffer: *const c_void, count: i64, datatype: &Datatype) -> Result<(isize, usize)> {
    match datatype.row_bytes(count) {
        Some(bytes) if is_plain(buffer) => Ok((0, bytes as usize)),
        _ => any_buffer_span(buffer, count, datatype),
    }
}

#[inline(never)]
fn any_buffer_span(buffer: *const c_void, count: i64, datatype: &Datatype) -> Result<(isize, usize)> {
    if count < 0 {
        return Err(bad_count(count));
    }
    let span = datatype.span(count).map_err(|error| Error::new(Class::Count, error.to_string()))?;
    // MPI_BOTTOM is a null pointer too: layouts of absolute addresses begin somewhere else than at it.
    if buffer.is_null() && span.bytes > 0 && span.start == 0 {
        return Err(no_buffer(count));
    }
    if buffer.addr() == MPI_IN_PLACE.addr() {
        return Err(Error::new(Class::Buffer, "MPI_IN_PLACE is not allowed here"));
    }
    match (isize::try_from(span.start), usize::try_from(span.bytes)) {
        (Ok(start), Ok(bytes)) if isize::try_from(span.bytes).is_ok() => Ok((start, bytes)),
        _ => Err(bad_count(count)),
    }
}

/// Packed bytes of `count` elements.
pub(crate) fn bytes_of(count: i64, datatype: &Datatype) -> Result<usize> {
    if count < 0 {
        return Err(bad_count(count));
    }
    let bytes = datatype.packed_bytes(count).map_err(|error| Error::new(Class::Count, error.to_string()))?;
    usize::try_from(bytes).map_err(|_| bad_count(count))
}

#[cold]
fn bad_count(count: i64) -> Error {
    Error::new(Class::Count, format!("the count is {count}"))
}

#[cold]
fn no_buffer(count: i64) -> Error {
    Error::new(Class::Buffer, format!("the buffer is a null pointer, with a count of {count}"))
}
