//! Why operations through the segment fail.

use messaging::{Failure, Rank};

use super::chunking;

/// Why an operation through the segment has failed at this member.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// A member has failed, or the communicator is revoked: what ended the wait.
    Closed(Box<Failure>),
    /// That member does another operation, and will never write what this one waits for.
    Elsewhere(Rank),
    /// That member sends another length than this one expects.
    Mismatch {
        /// The sender.
        with: Rank,
        /// The bytes that it sends, and those that this member expects. On the heap, so that a result without
        /// a fault is returned in registers.
        sent_expected: Box<[usize; 2]>,
    },
    /// That member has given the operation up, since what its peers send does not fit together.
    Misfit(Rank),
    /// That member has given the operation up, since its operator has panicked.
    GivenUp(Rank),
    /// That member sends what was to come, but in an operation in which it expects more than this member
    /// sends.
    ExpectsMore {
        /// The peer.
        with: Rank,
        /// What it sends, in bytes.
        bytes: usize,
    },
    /// There is no shared memory left for staging buffers.
    NoMemory,
    /// That member has left an operation in which this one reads its memory.
    Withdrawn(Rank),
}

/// The outcome of a part of an operation.
pub type Result<T> = std::result::Result<T, Fault>;

const _: () = assert!(size_of::<Result<()>>() == 16);

impl Fault {
    /// The fault of a peer that sends another length than was to come.
    #[cold]
    pub(super) fn mismatch(with: Rank, sent_bytes: usize, expected_bytes: usize) -> Fault {
        Fault::Mismatch { with, sent_expected: Box::new([sent_bytes, expected_bytes]) }
    }

    /// The fault of a peer that announces another length than was to come; some lengths say that it has given
    /// the operation up.
    #[cold]
    pub(super) fn misled(by: Rank, sent_bytes: usize, expected_bytes: usize) -> Fault {
        if sent_bytes == chunking::MISFIT as usize {
            Fault::Misfit(by)
        } else if sent_bytes == chunking::GIVEN_UP as usize {
            Fault::GivenUp(by)
        } else {
            Fault::mismatch(by, sent_bytes, expected_bytes)
        }
    }

    /// Whether what members send does not fit together, while all of them do the same kind of operation.
    #[must_use]
    pub fn is_of_lengths(&self) -> bool {
        matches!(self, Fault::Mismatch { .. } | Fault::Misfit(_) | Fault::ExpectsMore { .. })
    }
}
