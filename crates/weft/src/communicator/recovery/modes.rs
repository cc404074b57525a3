//! What a program chooses of fault tolerance: modes and flags (FT-MPI), and how members agree on them.

use job::config::{FtMode, MessageMode};

use super::super::atomic::Call;
use super::{IN_PLACE, WITH_ALL};

/// What members learn of the end of a collective operation where one of them has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectiveMode {
    /// Each what it has seen itself.
    Local,
    /// All the same: it has succeeded at all of them, or at none. Each operation costs an agreement more;
    /// operations that were planned, copies that are made beside, and those of inter-communicators are as
    /// with [`CollectiveMode::Local`].
    Atomic,
}

/// What a send to a blank rank, or a receive from it, comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlankPartner {
    /// Nothing: it is over at once.
    Nobody,
    /// An error.
    Error,
}

/// How a communicator recovers; the same at all members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FtModes {
    /// What becomes of it.
    pub comm: FtMode,
    /// What becomes of its messages.
    pub messages: MessageMode,
    /// What its blank ranks are for messages.
    pub blanks: BlankPartner,
    /// What all learn of a collective operation.
    pub collectives: CollectiveMode,
}

/// What a recovery is to do beside what the mode says; the same at all members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoverFlags {
    /// All that was made from the world recovers with it (`Communicator::recover_all`).
    pub all: bool,
    /// What [`FtMode::Shrink`] makes comes into the place of what was there
    /// (`Communicator::recover_in_place`).
    pub in_place: bool,
}

impl FtModes {
    /// Nothing happens by itself.
    pub const NONE: FtModes = FtModes {
        comm: FtMode::None,
        messages: MessageMode::Reset,
        blanks: BlankPartner::Nobody,
        collectives: CollectiveMode::Local,
    };

    /// Whether a failure keeps the others from messages as well.
    pub(super) fn is_strict(self) -> bool {
        self.comm != FtMode::None && self.messages == MessageMode::Reset
    }

    pub(in crate::communicator) fn encode(self) -> u32 {
        let of_messages = u32::from(self.messages == MessageMode::Continue) << 3;
        let of_blanks = u32::from(self.blanks == BlankPartner::Error) << 4;
        let of_collectives = u32::from(self.collectives == CollectiveMode::Atomic) << 5;
        self.comm as u32 | of_messages | of_blanks | of_collectives
    }

    pub(in crate::communicator) fn decode(bits: u32) -> FtModes {
        FtModes {
            comm: FtMode::ALL.get((bits & 7) as usize).copied().unwrap_or(FtMode::None),
            messages: if bits & 8 == 0 { MessageMode::Reset } else { MessageMode::Continue },
            blanks: if bits & 16 == 0 { BlankPartner::Nobody } else { BlankPartner::Error },
            collectives: if bits & 32 == 0 { CollectiveMode::Local } else { CollectiveMode::Atomic },
        }
    }
}

impl RecoverFlags {
    pub(super) fn encode(self) -> u32 {
        (if self.all { WITH_ALL } else { 0 }) | if self.in_place { IN_PLACE } else { 0 }
    }
}

/// What a member says in the agreement that a recovery is, as bits of which those stay that all say.
pub(super) struct Said {
    /// Which contexts are free.
    pub(super) free: u8,
    /// How it is to recover: the modes, and what else.
    pub(super) asked: u32,
    /// Whether messages may keep their context: nothing of what recovers is revoked.
    pub(super) keeps: bool,
}

impl Said {
    pub(super) fn encode(&self) -> u64 {
        let asked = u64::from(self.asked & 0xff);
        // What all say alike comes out as said, and its opposite as that.
        u64::from(self.free)
            | asked << 8
            | (!asked & 0xff) << 16
            | u64::from(self.keeps) << 24
            | Call::Recover.bits()
    }

    /// What all have said; none where they have not asked for the same.
    pub(super) fn agreed(flags: u64) -> Option<Said> {
        let (asked, opposite) = (flags >> 8 & 0xff, flags >> 16 & 0xff);
        let free = flags as u8;
        (asked ^ opposite == 0xff).then_some(Said { free, asked: asked as u32, keeps: flags >> 24 & 1 == 1 })
    }
}
