//! Statuses of C as statuses of Fortran and back (MPI 5.0 section 19.3.5): the array of `MPI_F_STATUS_SIZE`
//! INTEGERs of `mpif.h` and the module `mpi`, and the derived type of the module `mpi_f08`. All have the
//! layout of `MPI_Status`.

use std::ffi::c_int;

use weft::{Class, Error};

use crate::claims::{GivenStatus, StatusPlace, null};
use crate::entry::Target;
use crate::errors::finish;

/// A status of C as an array of Fortran.
pub fn mpi_status_c2f(c_status: GivenStatus<'_>, f_status: StatusPlace<'_>) -> c_int {
    translate("MPI_Status_c2f", c_status, f_status, "f_status")
}

/// An array of Fortran as a status of C.
pub fn mpi_status_f2c(f_status: GivenStatus<'_>, c_status: StatusPlace<'_>) -> c_int {
    translate("MPI_Status_f2c", f_status, c_status, "c_status")
}

/// A status of C as one of the module `mpi_f08`.
pub fn mpi_status_c2f08(c_status: GivenStatus<'_>, f08_status: StatusPlace<'_>) -> c_int {
    translate("MPI_Status_c2f08", c_status, f08_status, "f08_status")
}

/// A status of the module `mpi_f08` as one of C.
pub fn mpi_status_f082c(f08_status: GivenStatus<'_>, c_status: StatusPlace<'_>) -> c_int {
    translate("MPI_Status_f082c", f08_status, c_status, "c_status")
}

/// An array of Fortran as a status of the module `mpi_f08`.
pub fn mpi_status_f2f08(f_status: GivenStatus<'_>, f08_status: StatusPlace<'_>) -> c_int {
    translate("MPI_Status_f2f08", f_status, f08_status, "f08_status")
}

/// A status of the module `mpi_f08` as an array of Fortran.
pub fn mpi_status_f082f(f08_status: GivenStatus<'_>, f_status: StatusPlace<'_>) -> c_int {
    translate("MPI_Status_f082f", f08_status, f_status, "f_status")
}

/// Copies a status whose layout is the other's. An ignored status, which is a null pointer in C and Fortran
/// alike, cannot be translated.
fn translate(
    name: &'static str,
    from: GivenStatus<'_>,
    to: StatusPlace<'_>,
    argument: &'static str,
) -> c_int {
    let translated = match from.read() {
        None => Err(Error::new(Class::Argument, "an ignored status cannot be translated")),
        Some(_) if to.is_ignored() => Err(null(argument)),
        Some(status) => {
            to.write_with_error(&status, status.MPI_ERROR);
            Ok(())
        }
    };
    finish(name, Target::World, translated)
}
