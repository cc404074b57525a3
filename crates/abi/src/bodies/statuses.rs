//! Reading and making statuses (MPI 5.0 §3.2.5, §13.3).

use std::ffi::c_int;

use weft::{Class, Error, Result};

use crate::bodies::datatypes::resolve;
use crate::bodies::world::null;
use crate::convert::CountOut;
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::state::call;
use crate::status;
use crate::types::*;

/// How many elements were received; `MPI_UNDEFINED` when they end inside one.
///
/// # Safety
/// `status` is null or a status, `count` null or writable.
pub unsafe fn mpi_get_count(status: *const MPI_Status, datatype: MPI_Datatype, count: CountOut) -> c_int {
    call("MPI_Get_count", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        let status = unsafe { read(status)? };
        if count.is_null() {
            return Err(null("count"));
        }
        let datatype = resolve(runtime, datatype)?;
        let elements = datatype.count_in(status::bytes(&status)).unwrap_or(i64::from(MPI_UNDEFINED));
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { count.write_or_undefined(elements) };
        Ok(())
    })
}

/// How many basic elements were received; `MPI_UNDEFINED` when they end inside one.
///
/// # Safety
/// As for [`mpi_get_count`].
pub unsafe fn mpi_get_elements(status: *const MPI_Status, datatype: MPI_Datatype, count: CountOut) -> c_int {
    call("MPI_Get_elements", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        let status = unsafe { read(status)? };
        if count.is_null() {
            return Err(null("count"));
        }
        let datatype = resolve(runtime, datatype)?;
        let elements = datatype.elements_in(status::bytes(&status)).unwrap_or(i64::from(MPI_UNDEFINED));
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { count.write_or_undefined(elements) };
        Ok(())
    })
}

/// Whether the operation was cancelled.
///
/// # Safety
/// `status` is null or a status, `flag` null or writable.
pub unsafe fn mpi_test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { tell("MPI_Test_cancelled", status, flag, "flag", |status| status.MPI_internal[2]) }
}

/// The source.
///
/// # Safety
/// `status` is null or a status, `source` null or writable.
pub unsafe fn mpi_status_get_source(status: *const MPI_Status, source: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { tell("MPI_Status_get_source", status, source, "source", |status| status.MPI_SOURCE) }
}

/// The tag.
///
/// # Safety
/// `status` is null or a status, `tag` null or writable.
pub unsafe fn mpi_status_get_tag(status: *const MPI_Status, tag: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { tell("MPI_Status_get_tag", status, tag, "tag", |status| status.MPI_TAG) }
}

/// The error.
///
/// # Safety
/// `status` is null or a status, `err` null or writable.
pub unsafe fn mpi_status_get_error(status: *const MPI_Status, err: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { tell("MPI_Status_get_error", status, err, "err", |status| status.MPI_ERROR) }
}

/// Sets the source.
///
/// # Safety
/// `status` is null or a status, writable.
pub unsafe fn mpi_status_set_source(status: *mut MPI_Status, source: c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { change("MPI_Status_set_source", status, |status| status.MPI_SOURCE = source) }
}

/// Sets the tag.
///
/// # Safety
/// `status` is null or a status, writable.
pub unsafe fn mpi_status_set_tag(status: *mut MPI_Status, tag: c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { change("MPI_Status_set_tag", status, |status| status.MPI_TAG = tag) }
}

/// Sets the error.
///
/// # Safety
/// `status` is null or a status, writable.
pub unsafe fn mpi_status_set_error(status: *mut MPI_Status, err: c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { change("MPI_Status_set_error", status, |status| status.MPI_ERROR = err) }
}

/// Says whether the operation was cancelled.
///
/// # Safety
/// `status` is null or a status, writable.
pub unsafe fn mpi_status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe {
        change("MPI_Status_set_cancelled", status, |status| status.MPI_internal[2] = c_int::from(flag != 0))
    }
}

/// Says how many elements were received.
///
/// # Safety
/// `status` is null or a status, writable.
pub unsafe fn mpi_status_set_elements(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> c_int {
    call("MPI_Status_set_elements", Target::World, |runtime| {
        let Some(bytes) = resolve(runtime, datatype)?.bytes_of_elements(count) else {
            return Err(Error::new(Class::Count, format!("the count is {count}")));
        };
        // SAFETY: the program's promise is handed on.
        unsafe { change_result(status, |status| status::set_bytes(status, bytes)) }
    })
}

/// # Safety
/// `status` is null or a status.
unsafe fn read(status: *const MPI_Status) -> Result<MPI_Status> {
    if status.is_null() {
        return Err(Error::new(Class::Argument, "the status is MPI_STATUS_IGNORE"));
    }
    // SAFETY: not null, and the caller promised a status.
    Ok(unsafe { status.read_unaligned() })
}

/// # Safety
/// `status` is null or a status, `place` null or writable.
unsafe fn tell(
    name: &'static str,
    status: *const MPI_Status,
    place: *mut c_int,
    argument: &str,
    part: fn(&MPI_Status) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise is handed on.
    let told = unsafe { read(status) }.and_then(|status| {
        if place.is_null() {
            return Err(null(argument));
        }
        // SAFETY: not null, and the caller promised that it is writable.
        unsafe { place.write(part(&status)) };
        Ok(())
    });
    finish(name, Target::World, told)
}

/// # Safety
/// `status` is null or a status, writable.
unsafe fn change(name: &'static str, status: *mut MPI_Status, change: impl FnOnce(&mut MPI_Status)) -> c_int {
    // SAFETY: the caller's promise is handed on.
    finish(name, Target::World, unsafe { change_result(status, change) })
}

/// # Safety
/// `status` is null or a status, writable.
unsafe fn change_result(status: *mut MPI_Status, change: impl FnOnce(&mut MPI_Status)) -> Result<()> {
    // SAFETY: the caller's promise is handed on.
    let mut changed = unsafe { read(status)? };
    change(&mut changed);
    // SAFETY: `read` has seen that it is not null, and the caller promised that it is writable.
    unsafe { status.write_unaligned(changed) };
    Ok(())
}
