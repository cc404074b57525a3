//! Recoveries that come to nothing, and why (rule R5): it is the same at all members, and nothing has
//! changed.

use job::config::{FtMode, MessageMode};
use job::error::{Class, Error};

use super::Communicator;
use super::recovery::{FtModes, RecoverFlags};

impl Communicator {
    /// Why a recovery comes to nothing; the same at all members.
    pub(super) fn refusal(&self, is_agreed: bool, modes: FtModes, flags: RecoverFlags) -> Option<Error> {
        let (class, what, remedy) = match modes.comm {
            _ if !is_agreed => (
                Class::Argument,
                "not all members want to recover by the same modes",
                "give the same to MPIX_Comm_set_ft_mode everywhere; nothing has changed",
            ),
            FtMode::None => (
                Class::Argument,
                "its mode is that nothing is done by itself",
                "say what is to be done by MPIX_Comm_set_ft_mode, or shrink it",
            ),
            FtMode::Rebuild if !self.is_world() => (
                Class::Communicator,
                "only MPI_COMM_WORLD can be rebuilt",
                "recover that, and make this one from it again; or choose another mode for it",
            ),
            FtMode::Shrink if flags.all && !flags.in_place => (
                Class::Argument,
                "what was made from it can shrink with it in place only",
                "give MPIX_RECOVER_IN_PLACE, too, or recover all by MPIX_FT_MODE_BLANK or _REBUILD",
            ),
            FtMode::Shrink if flags.in_place && modes.messages == MessageMode::Continue => (
                Class::Argument,
                "it cannot shrink in place while messages are to go on",
                "give MPIX_FT_MSG_RESET, or no MPIX_RECOVER_IN_PLACE: the one before has what is still to be received",
            ),
            _ if flags.all && !self.is_world() => (
                Class::Communicator,
                "everything recovers with MPI_COMM_WORLD, and with nothing else",
                "give that, or no MPIX_RECOVER_ALL",
            ),
            _ => return None,
        };
        Some(Error::new(class, format!("{}: {what}", self.place())).remedy(remedy))
    }
}
