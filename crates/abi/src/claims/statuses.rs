//! Statuses, which programs may ignore.

use std::ffi::c_int;
use std::marker::PhantomData;

use weft::{Class, Error, Result};

use crate::generated::constants::MPI_SUCCESS;
use crate::status;
use crate::types::MPI_Status;

/// A place for a status; a null pointer is `MPI_STATUS_IGNORE`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct StatusPlace<'call>(*mut MPI_Status, PhantomData<&'call MPI_Status>);

/// An array of places for statuses; a null pointer is `MPI_STATUSES_IGNORE`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct StatusPlaces<'call>(*mut MPI_Status, PhantomData<&'call MPI_Status>);

/// A status that is read, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct GivenStatus<'call>(*const MPI_Status, PhantomData<&'call MPI_Status>);

/// A status that is read and written, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct StatusVariable<'call>(*mut MPI_Status, PhantomData<&'call MPI_Status>);

impl<'call> StatusPlace<'call> {
    /// `MPI_STATUS_IGNORE`.
    pub const IGNORED: StatusPlace<'static> = StatusPlace(std::ptr::null_mut(), PhantomData);

    /// The place that a program has passed.
    ///
    /// # Safety
    /// `pointer` is null, or writable until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(pointer: *mut MPI_Status) -> Self {
        StatusPlace(pointer, PhantomData)
    }

    /// The place of a status.
    pub fn of(status: &'call mut MPI_Status) -> Self {
        StatusPlace(status, PhantomData)
    }

    /// Whether the program ignores it.
    #[inline(always)]
    pub fn is_ignored(self) -> bool {
        self.0.is_null()
    }

    /// Writes a status unless the program ignores it; `MPI_ERROR` stays as it is, since only calls that
    /// complete several operations set it (MPI 5.0 §3.2.5).
    #[inline]
    pub(crate) fn write(self, status: &MPI_Status) {
        if self.is_ignored() {
            return;
        }
        // SAFETY: not null, so `claim` was promised that it is writable. It may hold anything yet, so its
        // error field is skipped rather than read.
        unsafe {
            (&raw mut (*self.0).MPI_SOURCE).write_unaligned(status.MPI_SOURCE);
            (&raw mut (*self.0).MPI_TAG).write_unaligned(status.MPI_TAG);
            (&raw mut (*self.0).MPI_internal).write_unaligned(status.MPI_internal);
        }
    }

    /// Writes the status of a message that was received whole, unless the program ignores it.
    #[inline(always)]
    pub(crate) fn write_received(self, status: &weft::Status) {
        if !self.is_ignored() {
            self.write(&status::of(status));
        }
    }

    /// Writes a status with its error code, unless the program ignores it.
    pub(crate) fn write_with_error(self, status: &MPI_Status, error: c_int) {
        if !self.is_ignored() {
            // SAFETY: not null, so `claim` was promised that it is writable.
            unsafe { self.0.write_unaligned(MPI_Status { MPI_ERROR: error, ..*status }) };
        }
    }

    /// Writes the status of no operation, with `MPI_SUCCESS` in its error field (MPI 5.0 §3.7.3), unless the
    /// program ignores it.
    pub(crate) fn write_empty(self) {
        self.write_with_error(&status::EMPTY, MPI_SUCCESS);
    }

    /// Writes the error code of a status whose other parts are written, unless the program ignores it.
    pub(crate) fn write_error(self, error: c_int) {
        if !self.is_ignored() {
            // SAFETY: not null, so `claim` was promised that it is writable.
            unsafe { (&raw mut (*self.0).MPI_ERROR).write_unaligned(error) };
        }
    }
}

impl<'call> StatusPlaces<'call> {
    /// `MPI_STATUSES_IGNORE`.
    pub const IGNORED: StatusPlaces<'static> = StatusPlaces(std::ptr::null_mut(), PhantomData);

    /// The array that a program has passed.
    ///
    /// # Safety
    /// `start` is null, or has room for as many statuses as the MPI standard says of the argument, writable
    /// until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(start: *mut MPI_Status) -> Self {
        StatusPlaces(start, PhantomData)
    }

    /// Whether the program ignores them.
    #[inline(always)]
    pub fn are_ignored(self) -> bool {
        self.0.is_null()
    }

    /// The place at `index`, which is one of those that the array has unless the program ignores them.
    #[inline(always)]
    pub(crate) fn at(self, index: usize) -> StatusPlace<'call> {
        if self.are_ignored() {
            return StatusPlace::IGNORED;
        }
        // SAFETY: not null, so `claim` was promised that there is such a place.
        StatusPlace(unsafe { self.0.add(index) }, PhantomData)
    }
}

impl<'call> GivenStatus<'call> {
    /// No status.
    pub const IGNORED: GivenStatus<'static> = GivenStatus(std::ptr::null(), PhantomData);

    /// The status that a program has passed.
    ///
    /// # Safety
    /// `pointer` is null, or a status that stays as it is until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(pointer: *const MPI_Status) -> Self {
        GivenStatus(pointer, PhantomData)
    }

    /// A status.
    pub fn of(status: &'call MPI_Status) -> Self {
        GivenStatus(status, PhantomData)
    }

    /// The status, if the program passed one.
    pub(crate) fn read(self) -> Option<MPI_Status> {
        // SAFETY: not null, so `claim` was promised a status.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }

    /// The status.
    ///
    /// # Errors
    /// [`Class::Argument`] when the program passed a null pointer.
    pub(crate) fn checked(self) -> Result<MPI_Status> {
        self.read().ok_or_else(|| Error::new(Class::Argument, "the status is MPI_STATUS_IGNORE"))
    }
}

impl<'call> StatusVariable<'call> {
    /// No status.
    pub const IGNORED: StatusVariable<'static> = StatusVariable(std::ptr::null_mut(), PhantomData);

    /// The status that a program has passed.
    ///
    /// # Safety
    /// `pointer` is null, or a status that may be read and written until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(pointer: *mut MPI_Status) -> Self {
        StatusVariable(pointer, PhantomData)
    }

    /// A status.
    pub fn of(status: &'call mut MPI_Status) -> Self {
        StatusVariable(status, PhantomData)
    }

    /// Changes the status.
    ///
    /// # Errors
    /// [`Class::Argument`] when the program passed a null pointer.
    pub(crate) fn change(self, change: impl FnOnce(&mut MPI_Status)) -> Result<()> {
        let mut changed = GivenStatus(self.0, PhantomData).checked()?;
        change(&mut changed);
        StatusPlace(self.0, PhantomData).write_with_error(&changed, changed.MPI_ERROR);
        Ok(())
    }
}
