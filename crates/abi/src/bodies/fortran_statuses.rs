//! Statuses of C as statuses of Fortran and back (MPI 5.0 section 19.3.5): the array of `MPI_F_STATUS_SIZE` INTEGERs of `mpif.h` and the
//! module `mpi`, and the derived type of the module `mpi_f08`. All have the layout of [`MPI_Status`].

use std::ffi::c_int;

use weft::{Class, Error, Result};

use crate::bodies::world::null;
use crate::entry::Target;
use crate::errors::finish;
use crate::types::*;

/// A status of C as an array of Fortran.
///
/// # Safety
/// `c_status` is null or a status, `f_status` null or an array of `MPI_F_STATUS_SIZE`, writable.
pub unsafe fn mpi_status_c2f(c_status: *const MPI_Status, f_status: *mut MPI_Fint) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { translate("MPI_Status_c2f", c_status, f_status.cast(), "f_status") }
}

/// An array of Fortran as a status of C.
///
/// # Safety
/// `f_status` is null or an array of `MPI_F_STATUS_SIZE`, `c_status` null or a status, writable.
pub unsafe fn mpi_status_f2c(f_status: *const MPI_Fint, c_status: *mut MPI_Status) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { translate("MPI_Status_f2c", f_status.cast(), c_status, "c_status") }
}

/// A status of C as one of the module `mpi_f08`.
///
/// # Safety
/// `c_status` is null or a status, `f08_status` null or a status, writable.
pub unsafe fn mpi_status_c2f08(c_status: *const MPI_Status, f08_status: *mut MPI_F08_status) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { translate("MPI_Status_c2f08", c_status, f08_status, "f08_status") }
}

/// A status of the module `mpi_f08` as one of C.
///
/// # Safety
/// `f08_status` is null or a status, `c_status` null or a status, writable.
pub unsafe fn mpi_status_f082c(f08_status: *const MPI_F08_status, c_status: *mut MPI_Status) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { translate("MPI_Status_f082c", f08_status, c_status, "c_status") }
}

/// An array of Fortran as a status of the module `mpi_f08`.
///
/// # Safety
/// `f_status` is null or an array of `MPI_F_STATUS_SIZE`, `f08_status` null or a status, writable.
pub unsafe fn mpi_status_f2f08(f_status: *const MPI_Fint, f08_status: *mut MPI_F08_status) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { translate("MPI_Status_f2f08", f_status.cast(), f08_status, "f08_status") }
}

/// A status of the module `mpi_f08` as an array of Fortran.
///
/// # Safety
/// `f08_status` is null or a status, `f_status` null or an array of `MPI_F_STATUS_SIZE`, writable.
pub unsafe fn mpi_status_f082f(f08_status: *const MPI_F08_status, f_status: *mut MPI_Fint) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { translate("MPI_Status_f082f", f08_status, f_status.cast(), "f_status") }
}

/// Copies a status whose layout is the other's. An ignored status, which is a null pointer in C and Fortran alike, cannot be translated.
///
/// # Safety
/// `from` is null or a status, `to` null or a status, writable; the two are the same or do not overlap.
unsafe fn translate(
    name: &'static str,
    from: *const MPI_Status,
    to: *mut MPI_Status,
    argument: &'static str,
) -> c_int {
    let translated = (|| -> Result<()> {
        if from.is_null() {
            return Err(Error::new(Class::Argument, "an ignored status cannot be translated"));
        }
        if to.is_null() {
            return Err(null(argument));
        }
        // SAFETY: neither is null, and the caller promised a status and room for one.
        unsafe { to.write_unaligned(from.read_unaligned()) };
        Ok(())
    })();
    finish(name, Target::World, translated)
}
