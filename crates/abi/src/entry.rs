//! What an exported function knows about itself when it has to report an error.

use crate::types::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};

/// An exported function, named for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The C name without the profiling prefix, `MPI_Send`.
    pub name: &'static str,
}

/// Whose error handler an error goes to (MPI 5.0 §9.3): the object of the call, or the initial one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The communicator given.
    Comm(MPI_Comm),
    /// The window given.
    Win(MPI_Win),
    /// The file given.
    File(MPI_File),
    /// The session given.
    Session(MPI_Session),
    /// The handler given, for an object that is not there yet.
    Handler(MPI_Errhandler),
    /// No object: the handler of errors that belong to none.
    World,
    /// A function of the tool interface: it returns its code and calls no handler (MPI 5.0 §15.3).
    Tools,
}
