//! What is said where a fabric cannot be had.

use std::fmt;

use crate::error::{Class, Error};

/// The file with the constants of this machine is none.
pub(super) fn constants_refused(why: &str) -> Error {
    Error::new(Class::Argument, format!("the file of WEFT_CONSTANTS cannot be used: {why}")).remedy(
        "unset WEFT_CONSTANTS, or write the file anew: WEFT_CONSTANTS=FILE weft explain lanes --measure",
    )
}

/// Memory in common did not come from one process to another.
pub(super) fn not_shared(error: &dyn fmt::Display) -> Error {
    let what = error.to_string();
    let what = what.lines().next().unwrap_or_default();
    Error::new(Class::RmaShared, what)
        .remedy("processes of one node that run in different containers cannot share memory so")
}

/// There is no memory for all ranks of the node.
pub(super) fn segment_refused(error: &dyn fmt::Display) -> Error {
    Error::of_text(Class::NoMemory, &error.to_string())
}

/// A fabric could not do something.
pub(super) fn refused(fabric: &str, error: &dyn fmt::Display) -> Error {
    Error::of_text(Class::Other, &format!("{fabric}: {error}"))
}
