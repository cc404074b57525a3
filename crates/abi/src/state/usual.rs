//! The communicators that most calls name, found without a lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft::{Communicator, OwnedGuard};

use super::{DETACHED, Later, Runtime, WORLD, is_world_open, undistracted};
use crate::generated::constants::*;
use crate::objects::{CommObject, Objects};
use crate::types::*;

/// Something short that is done with a communicator and begins no other call of MPI, but for a turn of progress. A trait,
/// since a method can say to be taken in wherever it is called, and a closure cannot.
pub(crate) trait Short {
    type Answer;

    /// `None` where nothing was done.
    fn on(self, comm: &Communicator) -> Option<Self::Answer>;
}

/// Does something short with a communicator of a running library that has nothing else to look after and checks
/// nothing; `None` where there is none, or nothing was done.
#[inline(always)]
pub(crate) fn with_usual_comm<W: Short>(comm: MPI_Comm, work: W) -> Option<W::Answer> {
    // The work stands in one place, so that the compiler can keep in registers what it remembers.
    let kept;
    let object = match usual_world(comm) {
        Some(world) => world,
        None => {
            kept = usual_kept(comm)?;
            kept.object()?
        }
    };
    work.on(&object.comm)
}

/// The world as the process has joined it; `None` where it is another one, or there is something else to look after.
#[inline(always)]
pub(crate) fn usual_world(comm: MPI_Comm) -> Option<&'static CommObject> {
    if comm != MPI_COMM_WORLD || DETACHED.load(Ordering::Relaxed) > 0 {
        return None;
    }
    // SAFETY: it is null or the address of an object that is never dropped; published with release after that was made.
    unsafe { WORLD.load(Ordering::Acquire).as_ref() }
}

/// What keeps another communicator while something short is done with it.
enum Kept {
    /// One thread keeps the table while it works.
    Table(OwnedGuard<'static, Objects>, MPI_Comm),
    /// One thread keeps what recoveries have put into the place of the world's communicator while it works.
    Later(OwnedGuard<'static, Later>),
    /// Of several threads each takes a share, or they would wait for one another.
    Share(Arc<CommObject>),
}

impl Kept {
    #[inline(always)]
    pub(super) fn object(&self) -> Option<&CommObject> {
        match self {
            Kept::Table(objects, comm) => objects.comms.find(comm.value()).map(|object| &**object),
            Kept::Later(later) => later.world.as_deref(),
            Kept::Share(object) => Some(object),
        }
    }
}

#[inline(always)]
fn usual_kept(comm: MPI_Comm) -> Option<Kept> {
    let runtime = undistracted()?;
    if comm != MPI_COMM_WORLD
        && let Some(objects) = runtime.objects.hold_owned()
    {
        return Some(Kept::Table(objects, comm));
    }
    usual_else(runtime, comm)
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
