//! The one promise about memory that this crate gives.

use fabric::{Payload, UserMemory};

/// What stands in a part of an execution's memory, for its sends and copies.
///
/// Crate-private: the execution keeps its scratch room until no send reads from it, and gives it up for good where it is
/// dropped before; whoever began it has promised the rest for as long ([`Buffers`](crate::Buffers)).
pub(crate) fn reading(part: &UserMemory) -> Payload<'static> {
    // SAFETY: as said above; `Execution` is the only one who calls this.
    unsafe { part.reading() }
}
