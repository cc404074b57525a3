//! Communicators (MPI 5.0 §7.4, §7.8).

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use weft::{Class, Communicator, Comparison, Error, Result};

use crate::bodies::world::null;
use crate::bodies::{attributes, error_handlers, groups};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{CommObject, Held};
use crate::state::{Runtime, call};
use crate::types::*;

/// Number of members.
///
/// # Safety
/// `size` is null or writable.
#[inline]
pub unsafe fn mpi_comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { tell("MPI_Comm_size", comm, size, "size", |comm| comm.size() as c_int) }
}

/// The rank of this process.
///
/// # Safety
/// `rank` is null or writable.
#[inline]
pub unsafe fn mpi_comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { tell("MPI_Comm_rank", comm, rank, "rank", |comm| comm.rank().0 as c_int) }
}

/// Whether it is an inter-communicator.
///
/// # Safety
/// `flag` is null or writable.
pub unsafe fn mpi_comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { tell("MPI_Comm_test_inter", comm, flag, "flag", |comm| c_int::from(comm.is_inter())) }
}

/// # Safety
/// `place` is null or writable.
#[inline]
unsafe fn tell(
    name: &'static str,
    comm: MPI_Comm,
    place: *mut c_int,
    argument: &str,
    part: fn(&Communicator) -> c_int,
) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        if place.is_null() {
            return Err(null(argument));
        }
        // SAFETY: not null, and the caller promised that it is writable.
        unsafe { place.write(part(&object.comm)) };
        Ok(())
    })
}

/// Identical, congruent, similar or unequal.
///
/// # Safety
/// `result` is null or writable.
pub unsafe fn mpi_comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) -> c_int {
    call("MPI_Comm_compare", Target::Comm(comm1), |runtime| {
        let (first, second) = (runtime.comm(comm1)?, runtime.comm(comm2)?);
        if result.is_null() {
            return Err(null("result"));
        }
        let answer = match first.comm.compare(&second.comm) {
            Comparison::Identical if first.comm.is_same(&second.comm) => MPI_IDENT,
            Comparison::Identical => MPI_CONGRUENT,
            Comparison::Similar => MPI_SIMILAR,
            Comparison::Unequal => MPI_UNEQUAL,
        };
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { result.write(answer) };
        Ok(())
    })
}

/// A new communicator of the same group, with the attributes that want to be copied.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
    call("MPI_Comm_dup", Target::Comm(comm), |runtime| {
        let object = check(runtime, comm, newcomm)?;
        object.comm.check(|| "MPI_Comm_dup".to_owned())?;
        let new = object.comm.duplicate()?;
        // SAFETY: `check` has seen that it is not null, and the program promised that it is writable.
        unsafe { hand_out(runtime, new, &object, comm, newcomm, true) }
    })
}

/// The same with hints; those of the original are not copied (MPI 5.0 §7.4.2).
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm) -> c_int {
    call("MPI_Comm_dup_with_info", Target::Comm(comm), |runtime| {
        let object = check(runtime, comm, newcomm)?;
        crate::bodies::communicator_hints::check(info)?;
        object.comm.check(|| "MPI_Comm_dup_with_info".to_owned())?;
        let new = object.comm.duplicate()?;
        // SAFETY: as in `mpi_comm_dup`.
        unsafe {
            hand_out(runtime, new, &object, comm, newcomm, true)?;
            runtime.comm(newcomm.read())?.add_hints(info)
        }
    })
}

/// New communicators of those that give the same color.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: *mut MPI_Comm) -> c_int {
    call("MPI_Comm_split", Target::Comm(comm), |runtime| {
        let object = check(runtime, comm, newcomm)?;
        let color = match u32::try_from(color) {
            Ok(color) => Some(color),
            Err(_) if color == MPI_UNDEFINED => None,
            Err(_) => {
                let what = format!("{}: the color is {color}", object.comm.place());
                return Err(Error::new(Class::Argument, what).remedy("use 0 or more, or MPI_UNDEFINED"));
            }
        };
        object.comm.check(|| "MPI_Comm_split".to_owned())?;
        let new = object.comm.split(color, key)?;
        // SAFETY: as in `mpi_comm_dup`.
        unsafe { hand_out_if(runtime, new, &object, comm, newcomm) }
    })
}

/// A communicator of a part of the group.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: *mut MPI_Comm) -> c_int {
    call("MPI_Comm_create", Target::Comm(comm), |runtime| {
        let object = check(runtime, comm, newcomm)?;
        let group = groups::resolve(runtime, group)?;
        object.comm.check(|| "MPI_Comm_create".to_owned())?;
        let new = object.comm.create(&group)?;
        // SAFETY: as in `mpi_comm_dup`.
        unsafe { hand_out_if(runtime, new, &object, comm, newcomm) }
    })
}

/// The communicator that a new one is made from.
pub(crate) fn check(runtime: &'static Runtime, comm: MPI_Comm, newcomm: *mut MPI_Comm) -> Result<Held> {
    let object = runtime.comm(comm)?;
    if newcomm.is_null() { Err(null("newcomm")) } else { Ok(object) }
}

/// Gives a new communicator, if there is one, a handle.
///
/// # Safety
/// `newcomm` is writable.
pub(crate) unsafe fn hand_out_if(
    runtime: &'static Runtime,
    new: Option<Communicator>,
    parent: &CommObject,
    parent_handle: MPI_Comm,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    match new {
        // SAFETY: the caller's promise is handed on.
        Some(new) => unsafe { hand_out(runtime, new, parent, parent_handle, newcomm, false) },
        None => {
            // SAFETY: the caller promised that it is writable.
            unsafe { newcomm.write(MPI_COMM_NULL) };
            Ok(())
        }
    }
}

/// # Safety
/// `newcomm` is writable.
unsafe fn hand_out(
    runtime: &'static Runtime,
    new: Communicator,
    parent: &CommObject,
    parent_handle: MPI_Comm,
    newcomm: *mut MPI_Comm,
    with_attributes: bool,
) -> Result<()> {
    let handle = runtime.adopt_comm(new, parent)?;
    if with_attributes && attributes::has_any(parent) {
        let copied = runtime
            .comm(handle)
            .and_then(|made| attributes::copy_all((parent, parent_handle), (&made, handle)));
        if let Err(error) = copied {
            free(runtime, handle)?;
            return Err(error);
        }
    }
    // SAFETY: the caller promised that it is writable.
    unsafe { newcomm.write(handle) };
    Ok(())
}

/// Gives a communicator up. What is under way on it goes on to its end.
///
/// # Safety
/// `comm` is null or a communicator handle, writable.
pub unsafe fn mpi_comm_free(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { give_up("MPI_Comm_free", comm) }
}

/// Gives a communicator up once nothing is under way on it.
///
/// # Safety
/// As for [`mpi_comm_free`].
pub unsafe fn mpi_comm_disconnect(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe { give_up("MPI_Comm_disconnect", comm) }
}

/// # Safety
/// `comm` is null or a communicator handle, writable.
unsafe fn give_up(name: &'static str, comm: *mut MPI_Comm) -> c_int {
    if comm.is_null() {
        return call(name, Target::World, |_| Err(null("comm")));
    }
    // SAFETY: not null, and the caller promised a handle.
    let handle = unsafe { comm.read() };
    call(name, Target::Comm(handle), |runtime| {
        let object = runtime.comm(handle)?;
        if matches!(handle, MPI_COMM_WORLD | MPI_COMM_SELF) {
            return Err(Error::new(Class::Communicator, format!("{} cannot be freed", object.comm.label())));
        }
        if name == "MPI_Comm_disconnect" {
            // MPI 5.0 §11.10.4: it waits for what is under way, and that is over when all members are here.
            object.comm.check(|| "MPI_Comm_disconnect".to_owned())?;
            object.comm.barrier()?;
        }
        attributes::delete_all(&object, handle)?;
        // Who still has it makes it linger.
        drop(object);
        free(runtime, handle)?;
        // SAFETY: as above.
        unsafe { comm.write(MPI_COMM_NULL) };
        Ok(())
    })
}

/// Takes a communicator's handle away from it. It lingers as long as operations are under way in it, since its error handler is
/// told where they fail (MPI 5.0 §7.4.3).
pub(crate) fn free(runtime: &'static Runtime, handle: MPI_Comm) -> Result<()> {
    let mut objects = runtime.objects();
    let Some(object) = objects.comms.remove(handle.value()) else {
        return Err(Error::new(Class::Communicator, "the communicator was freed by another thread"));
    };
    objects.lingering.push((handle, Arc::clone(&object)));
    drop(objects);
    error_handlers::release(object.errhandler().0);
    drop(object);
    let_go(runtime);
    Ok(())
}

/// Puts what a recovery has put into the place of the communicator with that handle there; the one before lingers as a freed one does.
pub(crate) fn renew(runtime: &'static Runtime, handle: MPI_Comm) {
    let mut objects = runtime.objects();
    let Some(place) = objects.comms.find_mut(handle.value()) else { return };
    let Some(renewed) = place.renewed() else { return };
    let before = std::mem::replace(place, Arc::new(renewed));
    drop(objects);
    linger(runtime, handle, Some(before));
}

/// What a handle stood for before a recovery stays as long as somebody is in it, or receives are under way there; and those of before
/// go that nobody needs any more.
pub(crate) fn linger(runtime: &'static Runtime, handle: MPI_Comm, before: Option<Arc<CommObject>>) {
    runtime.objects().lingering.extend(before.map(|before| (handle, before)));
    let_go(runtime);
}

/// Drops what need not linger any more, each when nothing is held. What somebody else has, who may be about to tell of an error, lingers
/// until the next one is freed.
fn let_go(runtime: &'static Runtime) {
    let idle = runtime.objects().idle_lingering();
    for (handle, object) in idle {
        if object.comm.lends() {
            continue;
        }
        let mut objects = runtime.objects();
        // One is here, and one in the list.
        let is_idle = |(other, kept): &(_, Arc<_>)| *other == handle && Arc::strong_count(kept) == 2;
        let place = objects.lingering.iter().position(is_idle);
        let gone = place.map(|place| objects.lingering.swap_remove(place));
        drop(objects);
        drop((gone, object));
    }
}

/// Names a communicator.
///
/// # Safety
/// `comm_name` is null or a string that ends with a zero byte.
pub unsafe fn mpi_comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> c_int {
    call("MPI_Comm_set_name", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        if comm_name.is_null() {
            return Err(null("comm_name"));
        }
        // SAFETY: not null, and the program promised a string.
        let name = unsafe { CStr::from_ptr(comm_name) }.to_bytes();
        let kept = &name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)];
        object.comm.rename(&String::from_utf8_lossy(kept));
        Ok(())
    })
}

/// The name of a communicator.
///
/// # Safety
/// `comm_name` is null or has `MPI_MAX_OBJECT_NAME` bytes, `resultlen` is null or writable.
pub unsafe fn mpi_comm_get_name(comm: MPI_Comm, comm_name: *mut c_char, resultlen: *mut c_int) -> c_int {
    call("MPI_Comm_get_name", Target::Comm(comm), |runtime| {
        // MPI 5.0 §7.8: the null handle has a name, too.
        let name = match comm {
            MPI_COMM_NULL => "MPI_COMM_NULL".to_owned(),
            _ => runtime.comm(comm)?.comm.name(),
        };
        if comm_name.is_null() || resultlen.is_null() {
            return Err(null(if resultlen.is_null() { "resultlen" } else { "comm_name" }));
        }
        let bytes = &name.as_bytes()[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)];
        // SAFETY: neither is null, and the program promised the room that the standard asks for.
        unsafe {
            comm_name.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
            comm_name.add(bytes.len()).write(0);
            resultlen.write(bytes.len() as c_int);
        }
        Ok(())
    })
}
