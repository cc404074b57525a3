//! Epochs of windows, as far as loads and stores need them (MPI 5.0 §12.5). There are no other operations
//! yet, so that none is under way when one of these calls returns.

use std::ffi::c_int;

use weft::{Class, Error, Rank, Result, Window};

use crate::entry::Target;
use crate::generated::constants::*;
use crate::state::call;
use crate::types::*;

fn epoch(name: &'static str, win: MPI_Win, work: impl FnOnce(&Window) -> Result<()>) -> c_int {
    call(name, Target::Win(win), |runtime| work(&runtime.win(win)?.window))
}

fn check_assertion(assertion: c_int, allowed: c_int) -> Result<()> {
    if assertion & !allowed == 0 {
        return Ok(());
    }
    Err(Error::new(Class::Assertion, format!("the assertion {assertion:#x} is none of this call's")))
}

/// Waits for all members, and orders loads and stores.
pub fn mpi_win_fence(assert: c_int, win: MPI_Win) -> c_int {
    const ALLOWED: c_int = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    epoch("MPI_Win_fence", win, |window| {
        check_assertion(assert, ALLOWED)?;
        window.check(|| "MPI_Win_fence".to_owned())?;
        window.fence()
    })
}

/// Begins an epoch in which the memory of all members may be used.
pub fn mpi_win_lock_all(assert: c_int, win: MPI_Win) -> c_int {
    epoch("MPI_Win_lock_all", win, |window| {
        check_assertion(assert, MPI_MODE_NOCHECK)?;
        window.lock_all()
    })
}

/// Ends such an epoch.
pub fn mpi_win_unlock_all(win: MPI_Win) -> c_int {
    epoch("MPI_Win_unlock_all", win, Window::unlock_all)
}

/// Orders loads and stores.
pub fn mpi_win_sync(win: MPI_Win) -> c_int {
    epoch("MPI_Win_sync", win, |window| {
        window.sync();
        Ok(())
    })
}

/// The member that a flush is for.
fn target(window: &Window, rank: c_int) -> Result<Rank> {
    let wrong = |_| Error::new(Class::Rank, format!("{}: rank {rank} does not exist", window.place()));
    u32::try_from(rank).map(Rank).map_err(wrong)
}

fn flush(name: &'static str, rank: c_int, win: MPI_Win) -> c_int {
    epoch(name, win, |window| window.flush(Some(target(window, rank)?)))
}

/// Completes what is under way with a member.
pub fn mpi_win_flush(rank: c_int, win: MPI_Win) -> c_int {
    flush("MPI_Win_flush", rank, win)
}

/// Completes at this process what is under way with a member. This implementation completes it at the member,
/// too.
pub fn mpi_win_flush_local(rank: c_int, win: MPI_Win) -> c_int {
    flush("MPI_Win_flush_local", rank, win)
}

/// Completes what is under way with all members.
pub fn mpi_win_flush_all(win: MPI_Win) -> c_int {
    epoch("MPI_Win_flush_all", win, |window| window.flush(None))
}

/// Completes at this process what is under way with all members. This implementation completes it at the
/// members, too.
pub fn mpi_win_flush_local_all(win: MPI_Win) -> c_int {
    epoch("MPI_Win_flush_local_all", win, |window| window.flush(None))
}
