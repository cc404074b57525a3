//! The communicators that most calls name, found without a lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft::{Communicator, OwnedGuard, Window};

use super::{DETACHED, Later, Runtime, WORLD, is_world_open, undistracted};
use crate::generated::constants::*;
use crate::objects::{CommObject, Objects};
use crate::types::*;

/// Binds a name to a communicator of a running library that has nothing else to look after and checks
/// nothing, for what needs no object of this crate meanwhile and does not wait: it may connect, post, and
/// make a turn of progress. The function returns `None` where there is none. A macro, since what keeps the
/// communicator is dropped at the end of that function, and the world's needs nothing of the kind.
macro_rules! usual_comm {
    ($comm:ident = $handle:expr) => {
        let kept;
        let $comm: &weft::Communicator = match $crate::state::usual_world($handle) {
            Some(world) => &world.comm,
            None => {
                kept = $crate::state::usual_kept($handle)?;
                kept.comm()?
            }
        };
    };
}

pub(crate) use usual_comm;

/// The world as the process has joined it; `None` where it is another one, or there is something else to look
/// after.
#[inline(always)]
pub(crate) fn usual_world(comm: MPI_Comm) -> Option<&'static CommObject> {
    if comm != MPI_COMM_WORLD || DETACHED.load(Ordering::Relaxed) > 0 {
        return None;
    }
    // SAFETY: it is null or the address of an object that is never dropped; published with release after that
    // was made.
    unsafe { WORLD.load(Ordering::Acquire).as_ref() }
}

/// Keeps a communicator other than the first world from being freed while a short operation uses it.
pub(crate) enum Kept {
    /// In a program that calls from one thread: the table of objects, held while the operation lasts.
    Table(OwnedGuard<'static, Objects>, MPI_Comm),
    /// In a program that calls from one thread: the communicator that a recovery has put into the world's
    /// place, held while the operation lasts.
    Later(OwnedGuard<'static, Later>),
    /// In a program of several threads: a reference of its own, so that threads do not wait for one another.
    Share(Arc<CommObject>),
}

impl Kept {
    /// The communicator, if it is one.
    #[inline(always)]
    pub(crate) fn comm(&self) -> Option<&Communicator> {
        let object = match self {
            Kept::Table(objects, comm) => &**objects.comms.find(comm.value())?,
            Kept::Later(later) => later.world.as_deref()?,
            Kept::Share(object) => object,
        };
        Some(&object.comm)
    }
}

/// What keeps another communicator, where nothing is unusual; see [`usual_comm`].
#[inline(always)]
pub(crate) fn usual_kept(comm: MPI_Comm) -> Option<Kept> {
    let runtime = undistracted()?;
    if comm != MPI_COMM_WORLD
        && let Some(objects) = runtime.objects.hold_owned()
    {
        return Some(Kept::Table(objects, comm));
    }
    usual_else(runtime, comm)
}

/// Has `act` use a window, where nothing is unusual, in a program that calls from one thread: for what does
/// not wait, and makes no turn of progress. `None`: there is no such window, or `act` has done nothing.
#[inline(always)]
pub(crate) fn usual_window<R>(win: MPI_Win, act: impl FnOnce(&Window) -> Option<R>) -> Option<R> {
    let objects = undistracted()?.objects.hold_owned()?;
    act(&objects.windows.find(win.value())?.window)
}

#[cold]
#[inline(never)]
fn usual_else(runtime: &'static Runtime, comm: MPI_Comm) -> Option<Kept> {
    if comm != MPI_COMM_WORLD {
        return runtime.objects().comms.find(comm.value()).cloned().map(Kept::Share);
    }
    if !is_world_open() {
        return None;
    }
    // As of those that the program has made.
    match runtime.later.hold_owned() {
        Some(later) => Some(Kept::Later(later)),
        None => runtime.later.hold().world.clone().map(Kept::Share),
    }
}
