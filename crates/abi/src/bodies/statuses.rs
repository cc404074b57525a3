//! Reading and making statuses (MPI 5.0 §3.2.5, §13.3).

use std::ffi::c_int;

use weft::{Class, Error};

use crate::bodies::datatypes::resolve;
use crate::claims::{GivenStatus, Place, StatusVariable};
use crate::convert::CountOut;
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::state::call;
use crate::status;
use crate::types::*;

/// How many elements were received; `MPI_UNDEFINED` when they end inside one.
pub fn mpi_get_count(status: GivenStatus<'_>, datatype: MPI_Datatype, count: CountOut<'_>) -> c_int {
    call("MPI_Get_count", Target::World, |runtime| {
        let (status, count) = (status.checked()?, count.checked("count")?);
        let datatype = resolve(runtime, datatype)?;
        count.write_or_undefined(
            datatype.count_in(status::bytes(&status)).unwrap_or(i64::from(MPI_UNDEFINED)),
        );
        Ok(())
    })
}

/// How many basic elements were received; `MPI_UNDEFINED` when they end inside one.
pub fn mpi_get_elements(status: GivenStatus<'_>, datatype: MPI_Datatype, count: CountOut<'_>) -> c_int {
    call("MPI_Get_elements", Target::World, |runtime| {
        let (status, count) = (status.checked()?, count.checked("count")?);
        let datatype = resolve(runtime, datatype)?;
        count.write_or_undefined(
            datatype.elements_in(status::bytes(&status)).unwrap_or(i64::from(MPI_UNDEFINED)),
        );
        Ok(())
    })
}

/// Whether the operation was cancelled.
pub fn mpi_test_cancelled(status: GivenStatus<'_>, flag: Place<'_, c_int>) -> c_int {
    tell("MPI_Test_cancelled", status, flag, "flag", |status| status.MPI_internal[2])
}

/// The source.
pub fn mpi_status_get_source(status: GivenStatus<'_>, source: Place<'_, c_int>) -> c_int {
    tell("MPI_Status_get_source", status, source, "source", |status| status.MPI_SOURCE)
}

/// The tag.
pub fn mpi_status_get_tag(status: GivenStatus<'_>, tag: Place<'_, c_int>) -> c_int {
    tell("MPI_Status_get_tag", status, tag, "tag", |status| status.MPI_TAG)
}

/// The error.
pub fn mpi_status_get_error(status: GivenStatus<'_>, err: Place<'_, c_int>) -> c_int {
    tell("MPI_Status_get_error", status, err, "err", |status| status.MPI_ERROR)
}

/// Sets the source.
pub fn mpi_status_set_source(status: StatusVariable<'_>, source: c_int) -> c_int {
    change("MPI_Status_set_source", status, |status| status.MPI_SOURCE = source)
}

/// Sets the tag.
pub fn mpi_status_set_tag(status: StatusVariable<'_>, tag: c_int) -> c_int {
    change("MPI_Status_set_tag", status, |status| status.MPI_TAG = tag)
}

/// Sets the error.
pub fn mpi_status_set_error(status: StatusVariable<'_>, err: c_int) -> c_int {
    change("MPI_Status_set_error", status, |status| status.MPI_ERROR = err)
}

/// Says whether the operation was cancelled.
pub fn mpi_status_set_cancelled(status: StatusVariable<'_>, flag: c_int) -> c_int {
    change("MPI_Status_set_cancelled", status, |status| status.MPI_internal[2] = c_int::from(flag != 0))
}

/// Says how many elements were received.
pub fn mpi_status_set_elements(
    status: StatusVariable<'_>,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> c_int {
    call("MPI_Status_set_elements", Target::World, |runtime| {
        let Some(bytes) = resolve(runtime, datatype)?.bytes_of_elements(count) else {
            return Err(Error::new(Class::Count, format!("the count is {count}")));
        };
        status.change(|status| status::set_bytes(status, bytes))
    })
}

fn tell(
    name: &'static str,
    status: GivenStatus<'_>,
    place: Place<'_, c_int>,
    argument: &str,
    part: fn(&MPI_Status) -> c_int,
) -> c_int {
    let told = status.checked().and_then(|status| {
        place.checked(argument)?.set(part(&status));
        Ok(())
    });
    finish(name, Target::World, told)
}

fn change(name: &'static str, status: StatusVariable<'_>, change: impl FnOnce(&mut MPI_Status)) -> c_int {
    finish(name, Target::World, status.change(change))
}
