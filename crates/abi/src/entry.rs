//! What every exported function has in common: its two names, whose error handler it calls, and what may
//! leave it.

use crate::types::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};

/// Defines exported functions, each under its one name: what MPI does not have, and the names `MPI_X` of
/// [`exported!`]. Write a function as if it were a safe Rust function; the body claims what the program hands
/// over by address, and hands the claims to safe code.
macro_rules! exported_once {
    ($(
        $(#[doc = $line:literal])+
        fn $name:ident($($parameter:ident: $kind:ty),* $(,)?) -> $result:ty { $($body:tt)* }
    )+) => {$(
        $(#[doc = $line])+
        ///
        /// # Safety
        /// The caller keeps what the MPI standard, or the header that declares the function, asks of its
        /// callers.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe)]
        pub unsafe extern "C-unwind" fn $name($($parameter: $kind),*) -> $result {
            // SAFETY: what the body asks of its callers is what the standard or the header asks of the caller
            // of this function, and the arguments are the caller's, at most widened.
            $crate::entry::run(|| unsafe { $($body)* })
        }
    )+};
}

/// Defines functions of the C ABI, each under the names `MPI_X` and `PMPI_X`. Functions are written as for
/// [`exported_once!`].
///
/// Both names are exported with the same body, and neither calls the other: a tool that replaces `MPI_X` sees
/// the calls of the program alone, and `PMPI_X` always reaches this library. Optimised builds have one
/// function with two names (docs/decisions/0015).
macro_rules! exported {
    ($(
        $(#[doc = $line:literal])+
        fn $name:ident($($parameter:ident: $kind:ty),* $(,)?) -> $result:ty { $($body:tt)* }
    )+) => {
        $crate::entry::exported_once! {$(
            $(#[doc = $line])+
            fn $name($($parameter: $kind),*) -> $result { $($body)* }
        )+}
        $(const _: () = {
            /// # Safety
            /// The caller keeps what the MPI standard asks of the callers of this function.
            #[unsafe(export_name = concat!("P", stringify!($name)))]
            #[allow(unused_unsafe)]
            unsafe extern "C-unwind" fn profiled($($parameter: $kind),*) -> $result {
                // SAFETY: what the body asks of its callers is what the MPI standard asks of the caller of
                // this function, and the arguments are the caller's, at most widened.
                $crate::entry::run(|| unsafe { $($body)* })
            }
        };)+
    };
}

pub(crate) use {exported, exported_once};

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

/// Runs the body of an exported function. What a callback of the program throws leaves the function by way of
/// its caller. A panic is a fault of this library, has told what it met, and ends the process here: no frame
/// of the program's is unwound by it.
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
