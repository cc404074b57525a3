//! `MPI_Status`: what is public of it, and how the five private ints are used.
//!
//! ```text
//! MPI_internal   0            1             2           3   4
//!               | bytes, low | bytes, high | cancelled | 0 | 0 |
//! ```

use std::ffi::c_int;

use weft::Rank;
use weft::claims::Outcome;

use crate::generated::constants::*;
use crate::types::MPI_Status;

/// The status of no message (MPI 5.0 §3.7.3).
pub(crate) const EMPTY: MPI_Status = MPI_Status {
    MPI_SOURCE: MPI_ANY_SOURCE,
    MPI_TAG: MPI_ANY_TAG,
    MPI_ERROR: MPI_SUCCESS,
    MPI_internal: [0; 5],
};

/// The status of a receive from `MPI_PROC_NULL` (MPI 5.0 §3.10).
pub(crate) const NOBODY: MPI_Status = MPI_Status { MPI_SOURCE: MPI_PROC_NULL, ..EMPTY };

/// What is known of a message, as C sees it.
#[inline]
pub(crate) fn of(status: &weft::Status) -> MPI_Status {
    let Rank(source) = status.source;
    let mut made = MPI_Status {
        MPI_SOURCE: source as c_int,
        MPI_TAG: status.tag,
        MPI_ERROR: MPI_SUCCESS,
        MPI_internal: [0; 5],
    };
    set_bytes(&mut made, status.bytes as i64);
    made.MPI_internal[2] = c_int::from(status.cancelled);
    if status.cancelled {
        (made.MPI_SOURCE, made.MPI_TAG) = (MPI_ANY_SOURCE, MPI_ANY_TAG);
    }
    made
}

/// The status of a send, of which a program may only ask whether it was cancelled (MPI 5.0 §3.7.3).
pub(crate) fn of_send(outcome: &Outcome) -> MPI_Status {
    let mut made = EMPTY;
    made.MPI_internal[2] = c_int::from(outcome.cancelled);
    made
}

/// The bytes received.
pub(crate) fn bytes(status: &MPI_Status) -> i64 {
    let [low, high, ..] = status.MPI_internal;
    i64::from(high) << 32 | i64::from(low as u32)
}

/// Says how many bytes were received.
pub(crate) fn set_bytes(status: &mut MPI_Status, bytes: i64) {
    status.MPI_internal[0] = bytes as c_int;
    status.MPI_internal[1] = (bytes >> 32) as c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_beyond_32_bits_survive() {
        let mut status = EMPTY;
        for count in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, i64::MAX] {
            set_bytes(&mut status, count);
            assert_eq!(bytes(&status), count);
        }
    }
}
