//! Handles as integers and back (MPI 5.0, ABI chapter): for tables and languages that cannot hold a pointer.
//!
//! No call can fail: an integer that names no handle gives the null handle of its class.

use std::ffi::c_int;

use crate::handles::{HandleKind, fromint, toint};
use crate::types::*;

/// The integer of a handle of this class.
pub fn mpi_comm_toint(handle: MPI_Comm) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_comm_toint` gave.
pub fn mpi_comm_fromint(integer: c_int) -> MPI_Comm {
    MPI_Comm::from_value(fromint(HandleKind::Comm, integer))
}

/// The integer of a handle of this class.
pub fn mpi_errhandler_toint(handle: MPI_Errhandler) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_errhandler_toint` gave.
pub fn mpi_errhandler_fromint(integer: c_int) -> MPI_Errhandler {
    MPI_Errhandler::from_value(fromint(HandleKind::Errhandler, integer))
}

/// The integer of a handle of this class.
pub fn mpi_file_toint(handle: MPI_File) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_file_toint` gave.
pub fn mpi_file_fromint(integer: c_int) -> MPI_File {
    MPI_File::from_value(fromint(HandleKind::File, integer))
}

/// The integer of a handle of this class.
pub fn mpi_group_toint(handle: MPI_Group) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_group_toint` gave.
pub fn mpi_group_fromint(integer: c_int) -> MPI_Group {
    MPI_Group::from_value(fromint(HandleKind::Group, integer))
}

/// The integer of a handle of this class.
pub fn mpi_info_toint(handle: MPI_Info) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_info_toint` gave.
pub fn mpi_info_fromint(integer: c_int) -> MPI_Info {
    MPI_Info::from_value(fromint(HandleKind::Info, integer))
}

/// The integer of a handle of this class.
pub fn mpi_message_toint(handle: MPI_Message) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_message_toint` gave.
pub fn mpi_message_fromint(integer: c_int) -> MPI_Message {
    MPI_Message::from_value(fromint(HandleKind::Message, integer))
}

/// The integer of a handle of this class.
pub fn mpi_op_toint(handle: MPI_Op) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_op_toint` gave.
pub fn mpi_op_fromint(integer: c_int) -> MPI_Op {
    MPI_Op::from_value(fromint(HandleKind::Op, integer))
}

/// The integer of a handle of this class.
pub fn mpi_request_toint(handle: MPI_Request) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_request_toint` gave.
pub fn mpi_request_fromint(integer: c_int) -> MPI_Request {
    MPI_Request::from_value(fromint(HandleKind::Request, integer))
}

/// The integer of a handle of this class.
pub fn mpi_session_toint(handle: MPI_Session) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_session_toint` gave.
pub fn mpi_session_fromint(integer: c_int) -> MPI_Session {
    MPI_Session::from_value(fromint(HandleKind::Session, integer))
}

/// The integer of a handle of this class.
pub fn mpi_type_toint(handle: MPI_Datatype) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_type_toint` gave.
pub fn mpi_type_fromint(integer: c_int) -> MPI_Datatype {
    MPI_Datatype::from_value(fromint(HandleKind::Datatype, integer))
}

/// The integer of a handle of this class.
pub fn mpi_win_toint(handle: MPI_Win) -> c_int {
    toint(handle.value())
}

/// The handle of an integer that `mpi_win_toint` gave.
pub fn mpi_win_fromint(integer: c_int) -> MPI_Win {
    MPI_Win::from_value(fromint(HandleKind::Win, integer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::constants::*;

    #[test]
    fn every_class_leads_back() {
        assert_eq!(mpi_comm_fromint(mpi_comm_toint(MPI_COMM_SELF)), MPI_COMM_SELF);
        assert_eq!(mpi_errhandler_fromint(mpi_errhandler_toint(MPI_ERRORS_RETURN)), MPI_ERRORS_RETURN);
        assert_eq!(mpi_file_fromint(mpi_file_toint(MPI_FILE_NULL)), MPI_FILE_NULL);
        assert_eq!(mpi_group_fromint(mpi_group_toint(MPI_GROUP_EMPTY)), MPI_GROUP_EMPTY);
        assert_eq!(mpi_info_fromint(mpi_info_toint(MPI_INFO_ENV)), MPI_INFO_ENV);
        assert_eq!(mpi_message_fromint(mpi_message_toint(MPI_MESSAGE_NO_PROC)), MPI_MESSAGE_NO_PROC);
        assert_eq!(mpi_op_fromint(mpi_op_toint(MPI_SUM)), MPI_SUM);
        assert_eq!(mpi_request_fromint(mpi_request_toint(MPI_REQUEST_NULL)), MPI_REQUEST_NULL);
        assert_eq!(mpi_session_fromint(mpi_session_toint(MPI_SESSION_NULL)), MPI_SESSION_NULL);
        assert_eq!(mpi_type_fromint(mpi_type_toint(MPI_COMPLEX32)), MPI_COMPLEX32);
        assert_eq!(mpi_win_fromint(mpi_win_toint(MPI_WIN_NULL)), MPI_WIN_NULL);
    }
}
