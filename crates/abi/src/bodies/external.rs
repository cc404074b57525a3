//! Packing and unpacking in `external32`, the format that is the same on every machine (MPI 5.0 §5.3, §14.5.2).

use std::ffi::{c_char, c_int, c_void};

use datatype::{ExternalError, pack_external, unpack_external};
use weft::claims::{Payload, UserMemory};
use weft::{Class, Error, Result};

use crate::bodies::datatypes::{refused, resolve, resolve_committed};
use crate::bodies::packing::{Buffer, place, short};
use crate::bodies::pointers::{check_count_out, text};
use crate::bodies::world::null;
use crate::convert::CountOut;
use crate::entry::Target;
use crate::objects::Type;
use crate::state::call;
use crate::types::*;

/// Refuses every representation but the one there is.
///
/// # Safety
/// `datarep` is null or ends with a zero byte.
unsafe fn check_representation(datarep: *const c_char) -> Result<()> {
    // SAFETY: the caller's promise is handed on.
    let name = unsafe { text(datarep) }.ok_or_else(|| null("datarep"))?;
    if name == b"external32" {
        return Ok(());
    }
    let what = format!("there is no data representation {}", String::from_utf8_lossy(name));
    Err(Error::new(Class::Datarep, what).remedy("the one for packing is external32"))
}

/// Bytes of the elements in external32.
fn bytes_of(count: i64, datatype: &Type) -> Result<usize> {
    let bytes = datatype.external_bytes(count).map_err(refused)?;
    usize::try_from(bytes).map_err(|_| Error::new(Class::Count, format!("the count is {count}")))
}

#[cold]
fn failed(error: ExternalError) -> Error {
    match error {
        ExternalError::Claim(claim) => short(claim),
        ExternalError::Value { .. } => Error::of_text(Class::ValueTooLarge, &error.to_string()),
        ExternalError::Bytes { .. } => Error::of_text(Class::Internal, &error.to_string()),
    }
}

/// Packs elements behind what is packed already.
///
/// # Safety
/// `datarep` ends with a zero byte; `inbuf` holds the elements; `outbuf` has `outsize` bytes; `position` is null or a
/// number, writable.
pub unsafe fn mpi_pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: CountOut,
) -> c_int {
    call("MPI_Pack_external", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        unsafe { check_representation(datarep)? };
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        let (start, span) = place(inbuf, incount, &datatype)?;
        // SAFETY: the program's promise is handed on.
        let buffer = unsafe { Buffer::new(outbuf, outsize, position, "outbuf")? };
        let next = buffer.next(bytes)?;
        // SAFETY: the program promised the elements, and the packed buffer has that many bytes from `next` on.
        let (source, mut room) = unsafe { (Payload::claim(start, span), UserMemory::claim(next, bytes)) };
        pack_external(&datatype, incount, source, &mut room).map_err(failed)?;
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { buffer.advance(position, bytes) }
    })
}

/// Unpacks the next elements.
///
/// # Safety
/// `datarep` ends with a zero byte; `inbuf` has `insize` bytes; `outbuf` has room for the elements; `position` is null
/// or a number, writable.
pub unsafe fn mpi_unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Count,
    position: CountOut,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
) -> c_int {
    call("MPI_Unpack_external", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        unsafe { check_representation(datarep)? };
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(outcount, &datatype)?;
        let (start, span) = place(outbuf, outcount, &datatype)?;
        // SAFETY: the program's promise is handed on.
        let buffer = unsafe { Buffer::new(inbuf, insize, position, "inbuf")? };
        let next = buffer.next(bytes)?;
        // SAFETY: the packed buffer has that many bytes from `next` on, and the program promised the room.
        let (packed, mut room) = unsafe { (Payload::claim(next, bytes), UserMemory::claim(start, span)) };
        unpack_external(&datatype, outcount, packed, &mut room).map_err(failed)?;
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { buffer.advance(position, bytes) }
    })
}

/// The bytes that elements take in external32, of a datatype that need not be committed; `MPI_UNDEFINED` when that is more than the program's type holds.
///
/// # Safety
/// `datarep` ends with a zero byte; `size` is null or writable.
pub unsafe fn mpi_pack_external_size(
    datarep: *const c_char,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    size: CountOut,
) -> c_int {
    call("MPI_Pack_external_size", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        unsafe { check_representation(datarep)? };
        let datatype = resolve(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        check_count_out(size, "size")?;
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { size.write_or_undefined(bytes as i64) };
        Ok(())
    })
}
