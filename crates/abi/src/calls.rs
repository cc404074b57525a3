//! Which function of MPI a thread is in: what waits for long is told of by that name.
//!
//! A call says so before it may wait. It says nothing when it returns: only those are asked who wait.

use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<&'static str> = const { Cell::new("") };
}

/// This thread is in that function from now on.
#[inline(always)]
pub(crate) fn enter(name: &'static str) {
    CURRENT.set(name);
}

/// The function that this thread has called last, of those that may wait.
pub(crate) fn current() -> &'static str {
    CURRENT.get()
}
