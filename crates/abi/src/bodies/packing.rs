//! Packing and unpacking by hand, in this machine's own number formats (MPI 5.0 §5.2).
//!
//! Packed data is the elements' bytes in a row without a header, so what is packed in pieces can be unpacked as one.

use std::ffi::{c_int, c_void};

use datatype::{Datatype, ShortClaim, pack_memory, unpack};
use weft::claims::{Payload, UserMemory};
use weft::{Class, Error, Result};

use crate::arguments::{buffer_span, bytes_of};
use crate::bodies::datatypes::{resolve, resolve_committed};
use crate::bodies::pointers::check_count_out;
use crate::bodies::world::null;
use crate::convert::CountOut;
use crate::entry::Target;
use crate::state::call;
use crate::types::*;

/// A packed buffer with the position in it.
pub(crate) struct Buffer {
    start: *mut u8,
    bytes: usize,
    position: usize,
}

impl Buffer {
    /// # Safety
    /// `position` is null or a number.
    pub(crate) unsafe fn new(
        start: *const c_void,
        size: i64,
        position: CountOut,
        name: &str,
    ) -> Result<Buffer> {
        check_count_out(position, "position")?;
        // SAFETY: not null, and the caller promised a number.
        let at = unsafe { position.read() };
        let wrong = |what: &str| Error::new(Class::Argument, format!("{what}: {at} of {size} bytes"));
        let bytes = usize::try_from(size).map_err(|_| wrong("the size is negative"))?;
        let inside = usize::try_from(at).ok().filter(|&at| at <= bytes);
        let position = inside.ok_or_else(|| wrong("the position is not in the packed buffer"))?;
        if start.is_null() && bytes > 0 {
            return Err(null(name));
        }
        Ok(Buffer { start: start.cast_mut().cast(), bytes, position })
    }

    /// Where `bytes` more bytes begin, when they fit.
    pub(crate) fn next(&self, bytes: usize) -> Result<*mut u8> {
        let left = self.bytes - self.position;
        if bytes <= left {
            return Ok(self.start.wrapping_add(self.position));
        }
        let what = format!("{bytes} bytes are needed in the packed buffer, {left} are left");
        Err(Error::new(Class::Truncated, what).remedy("ask for the size with MPI_Pack_size"))
    }

    /// Says that `bytes` more bytes are used.
    ///
    /// # Safety
    /// `position` is writable.
    pub(crate) unsafe fn advance(&self, position: CountOut, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise is handed on. The new position is at most the size, which came in the same type.
        unsafe { position.write((self.position + bytes) as i64) }
            .map_err(|error| Error::new(Class::ValueTooLarge, error.to_string()))
    }
}

pub(crate) fn short(error: ShortClaim) -> Error {
    Error::new(Class::Internal, error.to_string())
}

/// Where the elements of a buffer stand.
pub(crate) fn place(buffer: *const c_void, count: i64, datatype: &Datatype) -> Result<(*mut u8, usize)> {
    let (start, bytes) = buffer_span(buffer, count, datatype)?;
    Ok((buffer.cast_mut().cast::<u8>().wrapping_offset(start), bytes))
}

/// Packs elements behind what is packed already.
///
/// # Safety
/// `inbuf` holds the elements; `outbuf` has `outsize` bytes; `position` is null or a number, writable.
pub unsafe fn mpi_pack(
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: CountOut,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Pack", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        let (start, span) = place(inbuf, incount, &datatype)?;
        // SAFETY: the program's promise is handed on.
        let buffer = unsafe { Buffer::new(outbuf, outsize, position, "outbuf")? };
        let next = buffer.next(bytes)?;
        // SAFETY: the program promised the elements, and the packed buffer has that many bytes from `next` on.
        let (source, mut room) = unsafe { (Payload::claim(start, span), UserMemory::claim(next, bytes)) };
        pack_memory(&datatype, incount, source, &mut room, 0).map_err(short)?;
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { buffer.advance(position, bytes) }
    })
}

/// Unpacks the next elements.
///
/// # Safety
/// `inbuf` has `insize` bytes; `outbuf` has room for the elements; `position` is null or a number, writable.
pub unsafe fn mpi_unpack(
    inbuf: *const c_void,
    insize: MPI_Count,
    position: CountOut,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Unpack", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(outcount, &datatype)?;
        let (start, span) = place(outbuf, outcount, &datatype)?;
        // SAFETY: the program's promise is handed on.
        let buffer = unsafe { Buffer::new(inbuf, insize, position, "inbuf")? };
        let next = buffer.next(bytes)?;
        // SAFETY: the packed buffer has that many bytes from `next` on, and the program promised the room.
        let (packed, mut room) = unsafe { (Payload::claim(next, bytes), UserMemory::claim(start, span)) };
        unpack(&datatype, outcount, packed, &mut room, 0).map_err(short)?;
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { buffer.advance(position, bytes) }
    })
}

/// The bytes that elements take when packed, of a datatype that need not be committed; `MPI_UNDEFINED` when that is more than the program's type holds.
///
/// # Safety
/// `size` is null or writable.
pub unsafe fn mpi_pack_size(
    incount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: CountOut,
) -> c_int {
    call("MPI_Pack_size", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?;
        let datatype = resolve(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        check_count_out(size, "size")?;
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { size.write_or_undefined(bytes as i64) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::datatype_constructors::mpi_type_vector;
    use crate::bodies::datatypes::{mpi_type_commit, mpi_type_free};
    use crate::bodies::testing;
    use crate::generated::constants::*;
    use std::ptr::{null, null_mut};

    fn pack(
        values: &[i32],
        datatype: MPI_Datatype,
        count: i64,
        into: &mut [u8],
        position: &mut c_int,
    ) -> c_int {
        let place = CountOut::Int(position);
        let (from, size) = (values.as_ptr().cast(), into.len() as i64);
        // SAFETY: tests ask for no more elements than there are.
        unsafe { mpi_pack(from, count, datatype, into.as_mut_ptr().cast(), size, place, MPI_COMM_SELF) }
    }

    fn unpack(
        from: &[u8],
        position: &mut c_int,
        into: &mut [i32],
        datatype: MPI_Datatype,
        count: i64,
    ) -> c_int {
        let place = CountOut::Int(position);
        let (start, size) = (from.as_ptr().cast(), from.len() as i64);
        // SAFETY: tests ask for no more elements than there is room for.
        unsafe { mpi_unpack(start, size, place, into.as_mut_ptr().cast(), count, datatype, MPI_COMM_SELF) }
    }

    fn columns() -> MPI_Datatype {
        let mut made = MPI_DATATYPE_NULL;
        // SAFETY: `made` is writable.
        unsafe {
            assert_eq!(mpi_type_vector(2, 1, 2, MPI_INT, &raw mut made), MPI_SUCCESS);
            assert_eq!(mpi_type_commit(&raw mut made), MPI_SUCCESS);
        }
        made
    }

    #[test]
    fn what_is_packed_in_pieces_is_unpacked_as_one() {
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
        // SAFETY: a writable handle.
        assert_eq!(unsafe { mpi_type_free(&raw mut every_other) }, MPI_SUCCESS);
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
        let place = CountOut::Int(&raw mut position);
        let (one, out) = ([1].as_ptr().cast(), packed.as_mut_ptr().cast());
        // SAFETY: null pointers are refused.
        unsafe {
            assert_eq!(mpi_pack(null(), 1, MPI_INT, out, 8, place, MPI_COMM_SELF), MPI_ERR_BUFFER);
            assert_eq!(mpi_pack(one, 1, MPI_INT, null_mut(), 8, place, MPI_COMM_SELF), MPI_ERR_ARG);
            assert_eq!(mpi_pack(one, 1, MPI_INT, out, -8, place, MPI_COMM_SELF), MPI_ERR_ARG);
            assert_eq!(mpi_pack(one, 1, MPI_INT, out, 8, place, MPI_COMM_NULL), MPI_ERR_COMM);
            let nowhere = CountOut::Int(null_mut());
            assert_eq!(mpi_pack(one, 1, MPI_INT, out, 8, nowhere, MPI_COMM_SELF), MPI_ERR_ARG);
        }
    }

    #[test]
    fn sizes_too_large_for_an_int_are_undefined() {
        testing::start();
        let (mut small, mut large) = (0, 0);
        let sizes = [CountOut::Int(&raw mut small), CountOut::Count(&raw mut large)];
        for size in sizes {
            // SAFETY: both places are writable.
            assert_eq!(unsafe { mpi_pack_size(1 << 30, MPI_INT, MPI_COMM_SELF, size) }, MPI_SUCCESS);
        }
        assert_eq!((small, large), (MPI_UNDEFINED, 1 << 32));
        // SAFETY: a writable place.
        assert_eq!(unsafe { mpi_pack_size(-1, MPI_INT, MPI_COMM_SELF, sizes[0]) }, MPI_ERR_COUNT);
    }
}
