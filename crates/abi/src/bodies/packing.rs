//! Packing and unpacking by hand, in this machine's own number formats (MPI 5.0 §5.2).
//!
//! Packed data is the elements' bytes in a row without a header, so what is packed in chunks can be unpacked
//! as one.

use std::ffi::c_int;

use datatype::{ShortClaim, pack_memory, unpack};
use weft::claims::{Payload, UserMemory};
use weft::{Class, Error, Result};

use crate::arguments::{buffer_span, bytes_of};
use crate::bodies::datatypes::{resolve, resolve_committed};
use crate::claims::{Buffer, Received, Sent, null};
use crate::convert::{CountOut, Position};
use crate::entry::Target;
use crate::state::call;
use crate::types::*;

/// A packed buffer with the position in it.
pub(crate) struct Packed<B> {
    start: B,
    bytes: usize,
    position: usize,
}

impl<B: Buffer> Packed<B> {
    pub(crate) fn new(start: B, size: i64, position: Position<'_>, name: &str) -> Result<Packed<B>> {
        let at = position.read("position")?;
        let wrong = |what: &str| Error::new(Class::Argument, format!("{what}: {at} of {size} bytes"));
        let bytes = usize::try_from(size).map_err(|_| wrong("the size is negative"))?;
        let inside = usize::try_from(at).ok().filter(|&at| at <= bytes);
        let position = inside.ok_or_else(|| wrong("the position is not in the packed buffer"))?;
        if start.is_null() && bytes > 0 {
            return Err(null(name));
        }
        Ok(Packed { start, bytes, position })
    }

    /// How far from the beginning `bytes` more bytes begin, when they fit.
    fn next(&self, bytes: usize) -> Result<isize> {
        let left = self.bytes - self.position;
        if bytes <= left {
            return Ok(self.position as isize);
        }
        let what = format!("{bytes} bytes are needed in the packed buffer, {left} are left");
        Err(Error::new(Class::Truncated, what).remedy("ask for the size with MPI_Pack_size"))
    }

    /// Says that `bytes` more bytes are used.
    pub(crate) fn advance(&self, position: Position<'_>, bytes: usize) -> Result<()> {
        position
            .write((self.position + bytes) as i64)
            .map_err(|error| Error::new(Class::ValueTooLarge, error.to_string()))
    }
}

impl Packed<Sent> {
    /// The next bytes.
    pub(crate) fn payload(&self, bytes: usize) -> Result<Payload<'static>> {
        Ok(self.start.payload(self.next(bytes)?, bytes))
    }
}

impl Packed<Received> {
    /// Room for more bytes.
    pub(crate) fn room(&self, bytes: usize) -> Result<UserMemory> {
        Ok(self.start.memory(self.next(bytes)?, bytes))
    }
}

pub(crate) fn short(error: ShortClaim) -> Error {
    Error::new(Class::Internal, error.to_string())
}

/// Packs elements behind what is packed already.
pub fn mpi_pack(
    inbuf: Sent,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: Received,
    outsize: MPI_Count,
    position: Position<'_>,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Pack", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        let (offset, span) = buffer_span(inbuf.start(), incount, &datatype)?;
        let buffer = Packed::new(outbuf, outsize, position, "outbuf")?;
        let (source, mut room) = (inbuf.payload(offset, span), buffer.room(bytes)?);
        pack_memory(&datatype, incount, source, &mut room, 0).map_err(short)?;
        buffer.advance(position, bytes)
    })
}

/// Unpacks the next elements.
pub fn mpi_unpack(
    inbuf: Sent,
    insize: MPI_Count,
    position: Position<'_>,
    outbuf: Received,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Unpack", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(outcount, &datatype)?;
        let (offset, span) = buffer_span(outbuf.start(), outcount, &datatype)?;
        let buffer = Packed::new(inbuf, insize, position, "inbuf")?;
        let (packed, mut room) = (buffer.payload(bytes)?, outbuf.memory(offset, span));
        unpack(&datatype, outcount, packed, &mut room, 0).map_err(short)?;
        buffer.advance(position, bytes)
    })
}

/// The bytes that elements take when packed, of a datatype that need not be committed; `MPI_UNDEFINED` when
/// that is more than the program's type holds.
pub fn mpi_pack_size(
    incount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: CountOut<'_>,
) -> c_int {
    call("MPI_Pack_size", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        let datatype = resolve(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        let size = size.checked("size")?;
        size.write_or_undefined(bytes as i64);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::datatype_constructors::mpi_type_vector;
    use crate::bodies::datatypes::{mpi_type_commit, mpi_type_free};
    use crate::bodies::testing;
    use crate::claims::{Place, Variable};
    use crate::generated::constants::*;

    fn pack(
        values: &[i32],
        datatype: MPI_Datatype,
        count: i64,
        into: &mut [u8],
        position: &mut c_int,
    ) -> c_int {
        let (from, size) = (Sent::of(values), into.len() as i64);
        let place = Position::Int(Variable::of(position));
        Received::lend(into, |into| mpi_pack(from, count, datatype, into, size, place, MPI_COMM_SELF))
    }

    fn unpack(
        from: &[u8],
        position: &mut c_int,
        into: &mut [i32],
        datatype: MPI_Datatype,
        count: i64,
    ) -> c_int {
        let (start, size) = (Sent::of(from), from.len() as i64);
        let place = Position::Int(Variable::of(position));
        Received::lend(into, |into| mpi_unpack(start, size, place, into, count, datatype, MPI_COMM_SELF))
    }

    fn columns() -> MPI_Datatype {
        let mut made = MPI_DATATYPE_NULL;
        assert_eq!(mpi_type_vector(2, 1, 2, MPI_INT, Place::of(&mut made)), MPI_SUCCESS);
        assert_eq!(mpi_type_commit(Variable::of(&mut made)), MPI_SUCCESS);
        made
    }

    #[test]
    fn what_is_packed_in_chunks_is_unpacked_as_one() {
        testing::start();
        let mut every_other = columns();
        let (mut packed, mut position) = ([0u8; 20], 0);
        assert_eq!(pack(&[1, 2, 3], every_other, 1, &mut packed, &mut position), MPI_SUCCESS);
        assert_eq!(position, 8);
        assert_eq!(pack(&[4, 5], MPI_INT, 2, &mut packed, &mut position), MPI_SUCCESS);
        assert_eq!(position, 16);
        let (mut found, mut position) = ([0; 4], 0);
        assert_eq!(unpack(&packed, &mut position, &mut found, MPI_INT, 4), MPI_SUCCESS);
        assert_eq!((found, position), ([1, 3, 4, 5], 16));
        let (mut spread, mut position) = ([7; 3], 8);
        assert_eq!(unpack(&packed, &mut position, &mut spread, every_other, 1), MPI_SUCCESS);
        assert_eq!((spread, position), ([4, 7, 5], 16));
        assert_eq!(mpi_type_free(Variable::of(&mut every_other)), MPI_SUCCESS);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_touched() {
        testing::start();
        let (mut packed, mut position) = ([9u8; 8], 4);
        assert_eq!(pack(&[1, 2], MPI_INT, 2, &mut packed, &mut position), MPI_ERR_TRUNCATE);
        let mut found = [5; 2];
        assert_eq!(unpack(&packed, &mut position, &mut found, MPI_INT, 2), MPI_ERR_TRUNCATE);
        assert_eq!((packed, position, found), ([9; 8], 4, [5; 2]));
        for wrong in [-1, 9] {
            let mut position = wrong;
            assert_eq!(pack(&[1], MPI_INT, 1, &mut packed, &mut position), MPI_ERR_ARG);
            assert_eq!(position, wrong);
        }
        assert_eq!(pack(&[1], MPI_INT, -1, &mut packed, &mut position), MPI_ERR_COUNT);
        assert_eq!(pack(&[1], MPI_DATATYPE_NULL, 1, &mut packed, &mut position), MPI_ERR_TYPE);
        let (one, place) = (Sent::of(&[1]), Position::Int(Variable::of(&mut position)));
        Received::lend(&mut packed, |out| {
            assert_eq!(mpi_pack(Sent::NULL, 1, MPI_INT, out, 8, place, MPI_COMM_SELF), MPI_ERR_BUFFER);
            assert_eq!(mpi_pack(one, 1, MPI_INT, Received::NULL, 8, place, MPI_COMM_SELF), MPI_ERR_ARG);
            assert_eq!(mpi_pack(one, 1, MPI_INT, out, -8, place, MPI_COMM_SELF), MPI_ERR_ARG);
            assert_eq!(mpi_pack(one, 1, MPI_INT, out, 8, place, MPI_COMM_NULL), MPI_ERR_COMM);
            let nowhere = Position::Int(Variable::NULL);
            assert_eq!(mpi_pack(one, 1, MPI_INT, out, 8, nowhere, MPI_COMM_SELF), MPI_ERR_ARG);
        });
    }

    #[test]
    fn sizes_too_large_for_an_int_are_undefined() {
        testing::start();
        let (mut small, mut large) = (0, 0);
        let sizes = [CountOut::Int(Place::of(&mut small)), CountOut::Count(Place::of(&mut large))];
        for size in sizes {
            assert_eq!(mpi_pack_size(1 << 30, MPI_INT, MPI_COMM_SELF, size), MPI_SUCCESS);
        }
        assert_eq!(mpi_pack_size(-1, MPI_INT, MPI_COMM_SELF, sizes[0]), MPI_ERR_COUNT);
        assert_eq!((small, large), (MPI_UNDEFINED, 1 << 32));
    }
}
