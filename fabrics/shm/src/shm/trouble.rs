//! What goes wrong between processes of a node, in words for a person.

use fabric::{FabricError, Fault, Peer};

use crate::ring::ProtocolViolation;

/// An address is not one of this segment.
pub(super) fn not_here(peer: Peer) -> FabricError {
    FabricError {
        fabric: "shm",
        fault: Fault::Unreachable,
        what: format!(
            "process {} is not in this node's shared memory, or its address is damaged\n\
             Allow a fabric that reaches other nodes: WEFT_FABRIC=shm,tcp",
            peer.0
        ),
    }
}

/// A process has ended, and has not said so.
pub(super) fn has_died(whom: &str) -> FabricError {
    FabricError {
        fabric: "shm",
        fault: Fault::Died,
        what: format!(
            "lost {whom}: it has ended without MPI_Finalize\n\
             Its own messages, or its process manager's, say why."
        ),
    }
}

/// A peer has written nonsense.
pub(super) fn wild_writer(whom: String, wild: ProtocolViolation) -> FabricError {
    FabricError {
        fabric: "shm",
        fault: Fault::Protocol,
        what: format!(
            "{whom} has written into shared memory what no sane process writes: {wild}\n\
             Look there for a stray write (an out-of-bounds array, a freed buffer) in the program"
        ),
    }
}
