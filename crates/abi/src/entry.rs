//! What an exported function knows about itself when it has to report an error, and what may leave it.

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
}

/// Runs the body of an exported function. What a callback of the program throws leaves the function by way of its caller. A panic
/// is a fault of this library, has told what it met, and ends the process here: no frame of the program's is unwound by it.
#[inline(always)]
pub(crate) fn run<R>(body: impl FnOnce() -> R) -> R {
    let bound = Bound;
    let result = body();
    std::mem::forget(bound);
    result
}

/// Panics come no further. Nothing is left to do for it when the function returns, or is left by `longjmp`.
struct Bound;

impl Drop for Bound {
    #[cold]
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
