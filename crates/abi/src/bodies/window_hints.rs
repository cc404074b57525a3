//! Hints of windows (MPI 5.0 §12.2.1 to §12.2.3, §12.2.7).
//!
//! What a program asserts is kept and told. How memory shall stand and be aligned is obeyed where a window is
//! made.

use std::ffi::c_int;

use weft::{Class, Error, Result, SharedPlacement};

use crate::bodies::info::{self, Pairs};
use crate::claims::Place;
use crate::entry::Target;
use crate::objects::lock;
use crate::state::call;
use crate::types::*;

/// The hints that are known and well-formed, of those that are given.
pub(crate) fn known(info: MPI_Info) -> Result<Pairs> {
    let given = info::pairs(info)?;
    let mut hints = Pairs::default();
    for (key, is_right) in KNOWN {
        let Some(value) = given.value(key) else { continue };
        let text = String::from_utf8_lossy(value);
        if !is_right(&text) {
            return Err(Error::new(Class::InfoValue, format!("{key} cannot be \"{text}\"")));
        }
        hints.set(key.as_bytes(), value);
    }
    // A wish, as for MPI_Alloc_mem: what is no number is not understood, and ignored.
    if let Some(value) = given.value(ALIGNMENT).filter(|value| is_number(&String::from_utf8_lossy(value))) {
        hints.set(ALIGNMENT.as_bytes(), value);
    }
    Ok(hints)
}

/// How the parts of shared memory shall stand.
pub(crate) fn placement(hints: &Pairs) -> SharedPlacement {
    let apart = hints.value("alloc_shared_noncontig") == Some(b"true");
    if apart { SharedPlacement::Apart } else { SharedPlacement::Contiguous }
}

/// Sets hints of a window, beside those that it has. The call is collective, but members need not pass the
/// same hints: they are not compared.
pub fn mpi_win_set_info(win: MPI_Win, info: MPI_Info) -> c_int {
    call("MPI_Win_set_info", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let added = known(info)?;
        object.window.check(|| "MPI_Win_set_info".to_owned())?;
        lock(&object.hints).set_all(&added);
        Ok(())
    })
}

/// The hints of a window that are known, and the kinds of memory that it may be made of.
pub fn mpi_win_get_info(win: MPI_Win, info_used: Place<'_, MPI_Info>) -> c_int {
    call("MPI_Win_get_info", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let place = info_used.checked("info_used")?;
        place.set(info::adopt_hints(lock(&object.hints).clone())?);
        Ok(())
    })
}

type Rule = fn(&str) -> bool;

/// The hints of the standard, and what their values may be.
const KNOWN: [(&str, Rule); 7] = [
    ("no_locks", is_truth),
    ("same_size", is_truth),
    ("same_disp_unit", is_truth),
    ("alloc_shared_noncontig", is_truth),
    ("accumulate_ops", |value| matches!(value, "same_op" | "same_op_no_op")),
    ("accumulate_ordering", is_ordering),
    ("mpi_accumulate_granularity", is_number),
];
const ALIGNMENT: &str = "mpi_minimum_memory_alignment";

fn is_truth(value: &str) -> bool {
    matches!(value, "true" | "false")
}

fn is_number(value: &str) -> bool {
    value.parse::<u64>().is_ok()
}

fn is_ordering(value: &str) -> bool {
    let is_pair = |pair: &str| matches!(pair, "rar" | "raw" | "war" | "waw");
    value == "none" || value.split(',').map(str::trim).all(is_pair)
}
