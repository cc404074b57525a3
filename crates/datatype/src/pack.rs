//! Pack and unpack: between elements in memory and their bytes in a row.
//!
//! The memory side is a claim on exactly the bytes of [`Datatype::span`], so a datatype that begins before
//! the address given to MPI needs no negative offset here. Both directions may begin at any packed byte and
//! end at any, so a message is packed slot by slot and unpacked as it arrives.

use std::ops::Range;

use fabric::strided::{Strides, gather, gather_memory, scatter};
use fabric::{Payload, UserMemory};
use thiserror::Error;

use crate::layout::{Mover, place, repeat};
use crate::{Datatype, DatatypeError, Span};

/// The memory handed over is smaller than the span of the elements, or that span is not a number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShortClaim {
    /// Fewer bytes than the elements span.
    #[error(
        "datatype: the claim covers {given} bytes, but {count} elements span {needed}\nclaim the bytes of Datatype::span, from its start on"
    )]
    Bytes {
        /// Elements.
        count: i64,
        /// Bytes that they span.
        needed: i64,
        /// Bytes of the claim.
        given: usize,
    },
    /// The span is beyond 64 bits, or the count negative.
    #[error(transparent)]
    Span(#[from] DatatypeError),
}

/// Packs `count` elements of `source` into `into`, beginning at packed byte `from`, as far as both reach.
/// Returns the number of bytes written to the front of `into`.
///
/// `source` covers [`Datatype::span`] of `count` elements.
///
/// # Errors
/// [`ShortClaim`]; nothing is written then.
#[inline]
pub fn pack(
    datatype: &Datatype,
    count: i64,
    source: Payload<'_>,
    into: &mut [u8],
    from: i64,
) -> Result<usize, ShortClaim> {
    let Some(job) = Job::new(datatype, count, source.bytes(), from, into.len())? else { return Ok(0) };
    match job.dense_at {
        Some(at) => Ok(source.part(at, job.bytes()).copy_to(into)),
        None => Ok(job.run(&mut Packing { source, into, packed: 0 })),
    }
}

/// Packs `count` elements of `source` into memory that may not be a slice, such as a slot of a shared ring.
/// It begins at packed byte `from`, and goes on as far as both reach. Returns the number of bytes written to
/// the front of `into`.
///
/// `source` covers [`Datatype::span`] of `count` elements.
///
/// # Errors
/// [`ShortClaim`]; nothing is written then.
#[inline]
pub fn pack_memory(
    datatype: &Datatype,
    count: i64,
    source: Payload<'_>,
    into: &mut UserMemory,
    from: i64,
) -> Result<usize, ShortClaim> {
    let Some(job) = Job::new(datatype, count, source.bytes(), from, into.bytes())? else { return Ok(0) };
    match job.dense_at {
        Some(at) => Ok(into.write_at(0, source.part(at, job.bytes()))),
        None => Ok(job.run(&mut PackingMemory { source, into, packed: 0 })),
    }
}

/// Unpacks `packed`, which begins at packed byte `at` of the message, to where it belongs in `count` elements
/// of `into`, as far as both reach. Returns the number of bytes taken from the front of `packed`.
///
/// `into` covers [`Datatype::span`] of `count` elements. Bytes in the gaps stay as they are.
///
/// # Errors
/// [`ShortClaim`]; nothing is written then.
#[inline]
pub fn unpack(
    datatype: &Datatype,
    count: i64,
    packed: Payload<'_>,
    into: &mut UserMemory,
    at: i64,
) -> Result<usize, ShortClaim> {
    let Some(job) = Job::new(datatype, count, into.bytes(), at, packed.bytes())? else { return Ok(0) };
    match job.dense_at {
        Some(at) => Ok(into.write_at(at, packed.part(0, job.bytes()))),
        None => Ok(job.run(&mut Unpacking { packed, into, taken: 0 })),
    }
}

/// Names the blocks of the packed bytes `range` of `count` elements, in packed order: where each begins,
/// counted from the start of [`Datatype::span`], and its length in bytes. It is for callers that copy the
/// blocks themselves.
///
/// # Errors
/// A negative count, or a span beyond 64 bits.
pub fn each_block(
    datatype: &Datatype,
    count: i64,
    range: Range<i64>,
    visit: &mut impl FnMut(usize, usize),
) -> Result<(), DatatypeError> {
    let span = datatype.span(count)?;
    let range = range.start.max(0)..range.end.min(datatype.packed_bytes(count)?);
    if range.start < range.end {
        Job::over(datatype, span, range).run(&mut Visiting { visit });
    }
    Ok(())
}

/// Which packed bytes of which elements are to be moved.
struct Job<'a> {
    datatype: &'a Datatype,
    span: Span,
    range: Range<i64>,
    /// Where the bytes stand in the claim when they stand in a row.
    dense_at: Option<usize>,
}

impl<'a> Job<'a> {
    /// At most `room` packed bytes from `from` on; `None` when that is nothing.
    #[inline]
    fn new(
        datatype: &'a Datatype,
        count: i64,
        claimed: usize,
        from: i64,
        room: usize,
    ) -> Result<Option<Job<'a>>, ShortClaim> {
        let span = datatype.span(count)?;
        if claimed_short(claimed, span) {
            return Err(ShortClaim::Bytes { count, needed: span.bytes, given: claimed });
        }
        let total = datatype.packed_bytes(count)?;
        let room = i64::try_from(room).unwrap_or(i64::MAX);
        if from < 0 || total <= from || room == 0 {
            return Ok(None);
        }
        Ok(Some(Job::over(datatype, span, from..from + room.min(total - from))))
    }

    #[inline]
    fn over(datatype: &'a Datatype, span: Span, range: Range<i64>) -> Job<'a> {
        let dense_at = datatype.is_dense().then_some(range.start as usize);
        Job { datatype, span, range, dense_at }
    }

    #[inline]
    fn bytes(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    fn run(&self, mover: &mut impl Mover) -> usize {
        let origin = self.span.start.wrapping_neg();
        repeat(self.datatype.layout(), self.datatype.extent(), origin, self.range.clone(), mover);
        self.bytes()
    }
}

#[inline]
fn claimed_short(claimed: usize, span: Span) -> bool {
    i64::try_from(claimed).is_ok_and(|claimed| claimed < span.bytes)
}

// The movers check every block against both ends all the same, since a claim is all that stands between a
// wrong offset and somebody else's memory. The check is one well-predicted branch, and one for all blocks of
// a loop.

struct Packing<'a> {
    source: Payload<'a>,
    into: &'a mut [u8],
    packed: usize,
}

impl Mover for Packing<'_> {
    #[inline]
    fn block(&mut self, offset: i64, bytes: i64) {
        let bytes = bytes as usize;
        if let Some(into) = self.into.get_mut(self.packed..self.packed + bytes) {
            self.source.part(offset as usize, bytes).copy_to(into);
        }
        self.packed += bytes;
    }

    #[inline]
    fn blocks<const BYTES: usize>(&mut self, offset: i64, stride: i64, count: i64) {
        let bytes = BYTES * count as usize;
        let row = self.into.get_mut(self.packed..).unwrap_or_default();
        gather::<BYTES>(self.source, Strides { first: offset, stride, count }, row);
        self.packed += bytes;
    }
}

struct PackingMemory<'a> {
    source: Payload<'a>,
    into: &'a mut UserMemory,
    packed: usize,
}

impl Mover for PackingMemory<'_> {
    #[inline]
    fn block(&mut self, offset: i64, bytes: i64) {
        self.into.write_at(self.packed, self.source.part(offset as usize, bytes as usize));
        self.packed += bytes as usize;
    }

    #[inline]
    fn blocks<const BYTES: usize>(&mut self, offset: i64, stride: i64, count: i64) {
        let blocks = Strides { first: offset, stride, count };
        gather_memory::<BYTES>(self.source, blocks, self.into, self.packed);
        self.packed += BYTES * count as usize;
    }
}

struct Unpacking<'a> {
    packed: Payload<'a>,
    into: &'a mut UserMemory,
    taken: usize,
}

impl Mover for Unpacking<'_> {
    #[inline]
    fn block(&mut self, offset: i64, bytes: i64) {
        self.into.write_at(offset as usize, self.packed.part(self.taken, bytes as usize));
        self.taken += bytes as usize;
    }

    #[inline]
    fn blocks<const BYTES: usize>(&mut self, offset: i64, stride: i64, count: i64) {
        let blocks = Strides { first: offset, stride, count };
        scatter::<BYTES>(self.packed, self.taken, self.into, blocks);
        self.taken += BYTES * count as usize;
    }
}

struct Visiting<'a, V> {
    visit: &'a mut V,
}

impl<V: FnMut(usize, usize)> Mover for Visiting<'_, V> {
    fn block(&mut self, offset: i64, bytes: i64) {
        (self.visit)(offset as usize, bytes as usize);
    }

    fn blocks<const BYTES: usize>(&mut self, offset: i64, stride: i64, count: i64) {
        (0..count).for_each(|round| self.block(place(offset, round, stride), BYTES as i64));
    }
}
