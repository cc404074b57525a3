//! Attributes of windows: those of programs, and the predefined ones (MPI 5.0 §7.7.3, §12.2.6).

use std::ffi::{c_int, c_void};
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicI32, AtomicIsize};

use weft::{Class, Error, Flavor, Result, Window};

use crate::bodies::attributes::{self, Owner, tell};
use crate::claims::Place;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::WinObject;
use crate::state::call;
use crate::types::*;

/// The values of predefined keys, where programs may keep pointers to them while the window is there. They
/// are atomics only to stand in memory that can be written: a program that writes there harms nobody but
/// itself.
pub(crate) struct WindowFacts {
    bytes: AtomicIsize,
    unit: AtomicI32,
    flavor: AtomicI32,
    model: AtomicI32,
}

impl WindowFacts {
    pub(crate) fn of(window: &Window) -> WindowFacts {
        let extent = window.extent();
        let flavor = match window.flavor() {
            Flavor::Create => MPI_WIN_FLAVOR_CREATE,
            Flavor::Allocate => MPI_WIN_FLAVOR_ALLOCATE,
            Flavor::Dynamic => MPI_WIN_FLAVOR_DYNAMIC,
            Flavor::Shared => MPI_WIN_FLAVOR_SHARED,
        };
        WindowFacts {
            bytes: AtomicIsize::new(extent.bytes as isize),
            // The attribute is an int, also where the unit was given as a wider number.
            unit: AtomicI32::new(c_int::try_from(extent.unit).unwrap_or(MPI_UNDEFINED)),
            flavor: AtomicI32::new(flavor),
            // Loads, stores and what comes from others meet in one memory, on every machine where this runs.
            model: AtomicI32::new(MPI_WIN_UNIFIED),
        }
    }
}

/// The value of a predefined key; `None` when it is not one of windows.
fn predefined(object: &WinObject, keyval: c_int) -> Option<*mut c_void> {
    Some(match keyval {
        MPI_WIN_BASE => object.window.base().cast(),
        MPI_WIN_SIZE => object.facts.bytes.as_ptr().cast(),
        MPI_WIN_DISP_UNIT => object.facts.unit.as_ptr().cast(),
        MPI_WIN_CREATE_FLAVOR => object.facts.flavor.as_ptr().cast(),
        MPI_WIN_MODEL => object.facts.model.as_ptr().cast(),
        _ => return None,
    })
}

/// Deletes the attributes of a window, the latest first.
///
/// # Errors
/// When a delete function fails; that attribute and the earlier ones stay.
pub(crate) fn delete_all(object: &WinObject, win: MPI_Win) -> Result<()> {
    attributes::delete_attributes(&object.attributes, Owner::Win(win))
}

/// Hangs a value on a window; the delete function is called for the one that was there.
pub fn mpi_win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) -> c_int {
    call("MPI_Win_set_attr", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        attributes::set(&object.attributes, Owner::Win(win), win_keyval, attribute_val.addr())
    })
}

/// The value that hangs on a window under a key, predefined or the program's.
pub fn mpi_win_get_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: Place<'_, *mut c_void>,
    flag: Place<'_, c_int>,
) -> c_int {
    call("MPI_Win_get_attr", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let found = match predefined(&object, win_keyval) {
            Some(fact) => Some(fact),
            None => {
                attributes::usable(win_keyval, Owner::Win(win))?;
                attributes::value_of(&object.attributes, win_keyval).map(without_provenance_mut)
            }
        };
        tell(found, attribute_val, flag)
    })
}

/// Takes the value under a key away from a window.
pub fn mpi_win_delete_attr(win: MPI_Win, win_keyval: c_int) -> c_int {
    call("MPI_Win_delete_attr", Target::Win(win), |runtime| {
        attributes::delete(&runtime.win(win)?.attributes, Owner::Win(win), win_keyval)
    })
}

/// A size that C gives.
pub(crate) fn bytes(size: MPI_Aint) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::new(Class::Size, format!("the size is {size} bytes")))
}
