//! What a launcher hands down by the numbers of descriptors.

use std::os::fd::OwnedFd;

use super::{Ledger, anew, segment_refused};
use crate::error::{Class, Error, Result};

/// The launcher's ledger of failures, by the descriptor that it left open for us.
pub(crate) fn inherited_ledger(number: i32, peers: u32) -> Result<Ledger> {
    let file = anew(number).map_err(|errno| {
        Error::new(Class::Other, format!("descriptor {number} of WEFT_FAILURES_FD cannot be opened: {errno}"))
            .remedy("start the program with weftrun, and do not close inherited descriptors before MPI_Init")
    })?;
    Ledger::adopt(&file, peers).map_err(|error| segment_refused(&error))
}

/// The descriptor that the launcher left open for us, opened anew: the number itself is not ours to own.
pub(super) fn inherited_segment(number: i32) -> Result<OwnedFd> {
    anew(number).map_err(|errno| {
        Error::new(Class::Other, format!("shm: descriptor {number} of WEFT_SHM_FD cannot be opened: {errno}"))
            .remedy("start the program with weftrun, and do not close inherited descriptors before MPI_Init")
    })
}
