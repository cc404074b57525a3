//! The one promise about memory that this crate gives.

use fabric::{Payload, UserMemory};

/// Lends what stands in a part of an operation's memory, for its sends and copies.
///
/// Crate-private. An `Execution` keeps its scratch memory until no send reads from it, and gives it up for
/// good where it is dropped before; its caller has promised the rest for as long
/// ([`Buffers`](crate::Buffers)). An operation through slots uses what this lends before its
/// `SegmentOperation` is over, for which its output is borrowed; a `Pending` one owns its output. Scratch
/// memory of either lives in its `Turn`, or in the function that lends it.
pub(crate) fn reading(part: &UserMemory) -> Payload<'static> {
    // SAFETY: nothing outlives what it was lent from, as said above for every caller.
    unsafe { part.reading() }
}
