//! Epochs of windows (MPI 5.0 §12.5).

use std::ffi::c_int;

use weft::{Class, Error, FencePromises, LockKind, Rank, Result, Window};

use crate::bodies::groups;
use crate::claims::Place;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::state::{self, Runtime, call};
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

/// Completes operations of all members, and waits for them.
pub fn mpi_win_fence(assert: c_int, win: MPI_Win) -> c_int {
    const ALLOWED: c_int = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    epoch("MPI_Win_fence", win, |window| {
        check_assertion(assert, ALLOWED)?;
        window.check(|| "MPI_Win_fence".to_owned())?;
        window.fence_with(FencePromises {
            none_before: assert & MPI_MODE_NOPRECEDE != 0,
            none_after: assert & MPI_MODE_NOSUCCEED != 0,
        })
    })
}

/// The work of a call with a group of members.
fn with_group(
    name: &'static str,
    (group, win): (MPI_Group, MPI_Win),
    work: impl FnOnce(&Window, &weft::Group) -> Result<()>,
) -> c_int {
    call(name, Target::Win(win), |runtime: &'static Runtime| {
        let object = runtime.win(win)?;
        work(&object.window, &groups::resolve(runtime, group)?)
    })
}

/// Allows a group to use this process's memory.
pub fn mpi_win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    const ALLOWED: c_int = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
    with_group("MPI_Win_post", (group, win), |window, origins| {
        check_assertion(assert, ALLOWED)?;
        window.post(origins, assert & MPI_MODE_NOCHECK != 0)
    })
}

/// Begins to use the memory of a group's members.
pub fn mpi_win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    with_group("MPI_Win_start", (group, win), |window, targets| {
        check_assertion(assert, MPI_MODE_NOCHECK)?;
        window.start(targets, assert & MPI_MODE_NOCHECK != 0)
    })
}

/// Ends what `MPI_Win_start` has begun.
pub fn mpi_win_complete(win: MPI_Win) -> c_int {
    epoch("MPI_Win_complete", win, Window::complete)
}

/// Waits for the origins that `MPI_Win_post` has allowed to use this process's memory.
pub fn mpi_win_wait(win: MPI_Win) -> c_int {
    epoch("MPI_Win_wait", win, Window::wait)
}

/// Whether the origins that `MPI_Win_post` has allowed to use this process's memory have ended that.
pub fn mpi_win_test(win: MPI_Win, flag: Place<'_, c_int>) -> c_int {
    epoch("MPI_Win_test", win, |window| {
        let flag = flag.checked("flag")?;
        flag.set(c_int::from(window.test()?));
        Ok(())
    })
}

/// Locks a member's memory.
pub fn mpi_win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> c_int {
    epoch("MPI_Win_lock", win, |window| {
        check_assertion(assert, MPI_MODE_NOCHECK)?;
        let kind = match lock_type {
            MPI_LOCK_SHARED => LockKind::Shared,
            MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
            _ => {
                return Err(Error::new(Class::LockType, format!("the lock type is {lock_type}"))
                    .remedy("give MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE"));
            }
        };
        match member(window, rank)? {
            Some(rank) => window.lock(rank, kind, assert & MPI_MODE_NOCHECK != 0),
            None => Ok(()),
        }
    })
}

/// Gives the lock of a member's memory back.
pub fn mpi_win_unlock(rank: c_int, win: MPI_Win) -> c_int {
    epoch("MPI_Win_unlock", win, |window| match member(window, rank)? {
        Some(rank) => window.unlock(rank),
        None => Ok(()),
    })
}

/// Begins an epoch in which the memory of all members may be used.
pub fn mpi_win_lock_all(assert: c_int, win: MPI_Win) -> c_int {
    epoch("MPI_Win_lock_all", win, |window| {
        check_assertion(assert, MPI_MODE_NOCHECK)?;
        window.lock_all_with(assert & MPI_MODE_NOCHECK != 0)
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

/// The member of a rank; none for `MPI_PROC_NULL`.
fn member(window: &Window, rank: c_int) -> Result<Option<Rank>> {
    let wrong = |_| Error::new(Class::Rank, format!("{}: rank {rank} does not exist", window.place()));
    if rank == MPI_PROC_NULL { Ok(None) } else { u32::try_from(rank).map(Rank).map(Some).map_err(wrong) }
}

/// Orders loads and stores of a member's memory, where these are all operations. `None`: nothing has
/// happened.
#[inline(always)]
fn flush_usual(rank: c_int, win: MPI_Win) -> Option<()> {
    let rank = Rank(u32::try_from(rank).ok()?);
    state::usual_window(win, |window| window.flush_reached(rank))
}

/// Completes what is under way with a member.
#[inline]
pub fn mpi_win_flush(rank: c_int, win: MPI_Win) -> c_int {
    match flush_usual(rank, win) {
        Some(()) => MPI_SUCCESS,
        None => epoch("MPI_Win_flush", win, |window| match member(window, rank)? {
            Some(rank) => window.flush(Some(rank)),
            None => Ok(()),
        }),
    }
}

/// Completes at this process what is under way with a member.
#[inline]
pub fn mpi_win_flush_local(rank: c_int, win: MPI_Win) -> c_int {
    match flush_usual(rank, win) {
        Some(()) => MPI_SUCCESS,
        None => epoch("MPI_Win_flush_local", win, |window| match member(window, rank)? {
            Some(rank) => window.flush_local(Some(rank)),
            None => Ok(()),
        }),
    }
}

/// Completes what is under way with all members.
pub fn mpi_win_flush_all(win: MPI_Win) -> c_int {
    epoch("MPI_Win_flush_all", win, |window| window.flush(None))
}

/// Completes at this process what is under way with all members.
pub fn mpi_win_flush_local_all(win: MPI_Win) -> c_int {
    epoch("MPI_Win_flush_local_all", win, |window| window.flush_local(None))
}
