//! Recoveries that come to nothing, and why (rule R5): it is the same at all members, and nothing has changed.

use super::Communicator;
use super::recovery::{FtMode, FtModes, MessageMode, RecoverFlags};
use crate::error::{Class, Error};

impl Communicator {
    /// Why a recovery comes to nothing; the same at all members.
    pub(super) fn refusal(&self, is_agreed: bool, modes: FtModes, flags: RecoverFlags) -> Option<Error> {
        match modes.comm {
            _ if !is_agreed => Some(self.modes_differ()),
            FtMode::None => Some(self.no_mode()),
            FtMode::Rebuild if !self.is_world() => Some(self.only_the_world()),
            FtMode::Shrink if flags.all && !flags.in_place => Some(self.all_would_shrink()),
            FtMode::Shrink if flags.in_place && modes.messages == MessageMode::Continue => {
                Some(self.ranks_would_change())
            }
            _ if flags.all && !self.is_world() => Some(self.not_all_by_this()),
            _ => None,
        }
    }

    #[cold]
    fn modes_differ(&self) -> Error {
        let what = format!("{}: not all members want to recover by the same modes", self.place());
        Error::new(Class::Argument, what)
            .remedy("give the same to MPIX_Comm_set_ft_mode everywhere; nothing has changed")
    }

    #[cold]
    fn no_mode(&self) -> Error {
        let what = format!("{}: its mode is that nothing is done by itself", self.place());
        Error::new(Class::Argument, what)
            .remedy("say what is to be done by MPIX_Comm_set_ft_mode, or shrink it")
    }

    #[cold]
    fn only_the_world(&self) -> Error {
        let what = format!("{}: only MPI_COMM_WORLD can be rebuilt", self.place());
        Error::new(Class::Communicator, what)
            .remedy("recover that, and make this one from it again; or choose another mode for it")
    }

    #[cold]
    fn not_all_by_this(&self) -> Error {
        let what =
            format!("{}: everything recovers with MPI_COMM_WORLD, and with nothing else", self.place());
        Error::new(Class::Communicator, what).remedy("give that, or no MPIX_RECOVER_ALL")
    }

    #[cold]
    fn all_would_shrink(&self) -> Error {
        let what = format!("{}: what was made from it can shrink with it in place only", self.place());
        Error::new(Class::Argument, what)
            .remedy("give MPIX_RECOVER_IN_PLACE, too, or recover all by MPIX_FT_MODE_BLANK or _REBUILD")
    }

    #[cold]
    fn ranks_would_change(&self) -> Error {
        let what = format!("{}: it cannot shrink in place while messages are to go on", self.place());
        Error::new(Class::Argument, what).remedy(
            "give MPIX_FT_MSG_RESET, or no MPIX_RECOVER_IN_PLACE: the one before has what is still to be received",
        )
    }
}
