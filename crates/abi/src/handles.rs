//! Handles as integers, and the layout of handle values.
//!
//! ```text
//! bit  63                    32 31 30     27 26                      0
//!     | generation             | 0 | kind    | index + 4096            |
//! ```
//! Values below 4096 are the predefined handles of the ABI. The low 31 bits name a handle as a positive `int`
//! (`MPI_Comm_toint` and its kin), since no two living handles of a kind share an index.

use std::ffi::c_int;

use crate::generated::constants::*;

/// The classes of objects that have handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    /// `MPI_Comm`
    Comm,
    /// `MPI_Errhandler`
    Errhandler,
    /// `MPI_File`
    File,
    /// `MPI_Group`
    Group,
    /// `MPI_Info`
    Info,
    /// `MPI_Message`
    Message,
    /// `MPI_Op`
    Op,
    /// `MPI_Request`
    Request,
    /// `MPI_Session`
    Session,
    /// `MPI_Datatype`
    Datatype,
    /// `MPI_Win`
    Win,
    /// `MPI_Request` of a usual receive, which the engine knows by the same name
    Receive,
    /// `MPI_Request` that is begun again and again: it outlives what it was begun for
    Persistent,
}

impl HandleKind {
    /// The value of this class's null handle.
    pub fn null(self) -> usize {
        match self {
            HandleKind::Comm => MPI_COMM_NULL.value(),
            HandleKind::Errhandler => MPI_ERRHANDLER_NULL.value(),
            HandleKind::File => MPI_FILE_NULL.value(),
            HandleKind::Group => MPI_GROUP_NULL.value(),
            HandleKind::Info => MPI_INFO_NULL.value(),
            HandleKind::Message => MPI_MESSAGE_NULL.value(),
            HandleKind::Op => MPI_OP_NULL.value(),
            HandleKind::Request | HandleKind::Receive | HandleKind::Persistent => MPI_REQUEST_NULL.value(),
            HandleKind::Session => MPI_SESSION_NULL.value(),
            HandleKind::Datatype => MPI_DATATYPE_NULL.value(),
            HandleKind::Win => MPI_WIN_NULL.value(),
        }
    }
}

/// The integer of a handle: its own number when predefined, the same positive number at every call otherwise.
pub fn toint(value: usize) -> c_int {
    (value & INTEGER_MASK) as c_int
}

/// The handle value of an integer that [`toint`] gave, or the null handle for any other integer.
///
/// Predefined handles are their own integers. A handle of the program's additionally carries its generation,
/// which the table of living objects knows.
pub fn fromint(kind: HandleKind, integer: c_int) -> usize {
    match usize::try_from(integer) {
        Ok(value) if value < PREDEFINED_END => value,
        Ok(value) => living(kind, value).unwrap_or_else(|| kind.null()),
        Err(_) => kind.null(),
    }
}

/// The handle of a living object, by its integer.
fn living(kind: HandleKind, integer: usize) -> Option<usize> {
    match kind {
        HandleKind::Errhandler => return crate::bodies::error_handlers::by_integer(integer),
        HandleKind::Info => return crate::bodies::info::by_integer(integer),
        HandleKind::Session => return crate::bodies::sessions::by_integer(integer),
        _ => {}
    }
    let runtime = crate::state::runtime()?;
    if kind == HandleKind::Request {
        return runtime.request_by_integer(integer);
    }
    let objects = runtime.objects();
    match kind {
        HandleKind::Comm => objects.comms.by_integer(integer),
        HandleKind::Group => objects.groups.by_integer(integer),
        HandleKind::Message => objects.messages.by_integer(integer),
        HandleKind::Op => objects.ops.by_integer(integer),
        HandleKind::Datatype => objects.datatypes.by_integer(integer),
        HandleKind::Win => objects.windows.by_integer(integer),
        HandleKind::Errhandler | HandleKind::Info | HandleKind::File | HandleKind::Session => None,
        HandleKind::Request | HandleKind::Receive | HandleKind::Persistent => None,
    }
}

/// Values below are predefined by the ABI.
pub const PREDEFINED_END: usize = 4096;
/// The bits that name a handle as an integer: kind and index.
pub const INTEGER_MASK: usize = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_handles_are_their_integers() {
        assert_eq!(toint(MPI_COMM_WORLD.value()), 257);
        assert_eq!(fromint(HandleKind::Comm, 257), MPI_COMM_WORLD.value());
        assert_eq!(fromint(HandleKind::Datatype, toint(MPI_BYTE.value())), MPI_BYTE.value());
    }

    #[test]
    fn user_handles_have_small_positive_integers() {
        let index_7_of_kind_3_in_generation_9 = 9 << 32 | 3 << 27 | (4096 + 7);
        assert_eq!(toint(index_7_of_kind_3_in_generation_9), 3 << 27 | 4103);
    }

    #[test]
    fn foreign_integers_give_null() {
        assert_eq!(fromint(HandleKind::Win, -1), MPI_WIN_NULL.value());
        assert_eq!(fromint(HandleKind::Op, c_int::MAX), MPI_OP_NULL.value());
    }
}
