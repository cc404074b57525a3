//! Packing and unpacking in `external32`, the format that is the same on every machine (MPI 5.0 §5.3,
//! §14.5.2).

use std::ffi::c_int;

use datatype::{ExternalError, pack_external, unpack_external};
use weft::{Class, Error, Result};

use crate::arguments::buffer_span;
use crate::bodies::datatypes::{refused, resolve, resolve_committed};
use crate::bodies::packing::{Packed, short};
use crate::claims::{Buffer, Received, Sent, Text, null};
use crate::convert::{CountOut, Position};
use crate::entry::Target;
use crate::objects::Type;
use crate::state::call;
use crate::types::*;

/// Refuses every representation but the one there is.
fn check_representation(datarep: Text<'_>) -> Result<()> {
    let name = datarep.bytes().ok_or_else(|| null("datarep"))?;
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
pub fn mpi_pack_external(
    datarep: Text<'_>,
    inbuf: Sent,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: Received,
    outsize: MPI_Count,
    position: Position<'_>,
) -> c_int {
    call("MPI_Pack_external", Target::World, |runtime| {
        check_representation(datarep)?;
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        let (offset, span) = buffer_span(inbuf.start(), incount, &datatype)?;
        let buffer = Packed::new(outbuf, outsize, position, "outbuf")?;
        let (source, mut room) = (inbuf.payload(offset, span), buffer.room(bytes)?);
        pack_external(&datatype, incount, source, &mut room).map_err(failed)?;
        buffer.advance(position, bytes)
    })
}

/// Unpacks the next elements.
pub fn mpi_unpack_external(
    datarep: Text<'_>,
    inbuf: Sent,
    insize: MPI_Count,
    position: Position<'_>,
    outbuf: Received,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
) -> c_int {
    call("MPI_Unpack_external", Target::World, |runtime| {
        check_representation(datarep)?;
        let datatype = resolve_committed(runtime, datatype)?;
        let bytes = bytes_of(outcount, &datatype)?;
        let (offset, span) = buffer_span(outbuf.start(), outcount, &datatype)?;
        let buffer = Packed::new(inbuf, insize, position, "inbuf")?;
        let (packed, mut room) = (buffer.payload(bytes)?, outbuf.memory(offset, span));
        unpack_external(&datatype, outcount, packed, &mut room).map_err(failed)?;
        buffer.advance(position, bytes)
    })
}

/// The bytes that elements take in external32, of a datatype that need not be committed; `MPI_UNDEFINED` when
/// that is more than the program's type holds.
pub fn mpi_pack_external_size(
    datarep: Text<'_>,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    size: CountOut<'_>,
) -> c_int {
    call("MPI_Pack_external_size", Target::World, |runtime| {
        check_representation(datarep)?;
        let datatype = resolve(runtime, datatype)?;
        let bytes = bytes_of(incount, &datatype)?;
        let size = size.checked("size")?;
        size.write_or_undefined(bytes as i64);
        Ok(())
    })
}
