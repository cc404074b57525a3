//! Communicators (MPI 5.0 §7.4, §7.8).

use std::ffi::c_int;
use std::sync::Arc;

use weft::{Class, Communicator, Comparison, Error, Result};

use crate::bodies::{attributes, error_handlers, groups};
use crate::claims::{Place, Slot, Text, TextPlace, Variable, null};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{CommObject, Held};
use crate::state::{Runtime, call};
use crate::types::*;

/// Number of members.
#[inline]
pub fn mpi_comm_size(comm: MPI_Comm, size: Place<'_, c_int>) -> c_int {
    tell("MPI_Comm_size", comm, size, "size", |comm| comm.size() as c_int)
}

/// The rank of this process.
#[inline]
pub fn mpi_comm_rank(comm: MPI_Comm, rank: Place<'_, c_int>) -> c_int {
    tell("MPI_Comm_rank", comm, rank, "rank", |comm| comm.rank().0 as c_int)
}

/// Whether it is an inter-communicator.
pub fn mpi_comm_test_inter(comm: MPI_Comm, flag: Place<'_, c_int>) -> c_int {
    tell("MPI_Comm_test_inter", comm, flag, "flag", |comm| c_int::from(comm.is_inter()))
}

#[inline]
fn tell(
    name: &'static str,
    comm: MPI_Comm,
    place: Place<'_, c_int>,
    argument: &str,
    part: fn(&Communicator) -> c_int,
) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        place.checked(argument)?.set(part(&object.comm));
        Ok(())
    })
}

/// Identical, congruent, similar or unequal.
pub fn mpi_comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Place<'_, c_int>) -> c_int {
    call("MPI_Comm_compare", Target::Comm(comm1), |runtime| {
        let (first, second) = (runtime.comm(comm1)?, runtime.comm(comm2)?);
        let result = result.checked("result")?;
        let answer = match first.comm.compare(&second.comm) {
            Comparison::Identical if first.comm.is_same(&second.comm) => MPI_IDENT,
            Comparison::Identical => MPI_CONGRUENT,
            Comparison::Similar => MPI_SIMILAR,
            Comparison::Unequal => MPI_UNEQUAL,
        };
        result.set(answer);
        Ok(())
    })
}

/// A new communicator of the same group, with the attributes that want to be copied.
pub fn mpi_comm_dup(comm: MPI_Comm, newcomm: Place<'_, MPI_Comm>) -> c_int {
    call("MPI_Comm_dup", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        object.comm.check(|| "MPI_Comm_dup".to_owned())?;
        let new = object.comm.duplicate()?;
        hand_out(runtime, new, (&object, comm), newcomm, true).map(drop)
    })
}

/// A new communicator of the same group, with the attributes that want to be copied and with the hints of
/// `info`. Hints of the original are not copied (MPI 5.0 §7.4.2).
pub fn mpi_comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Place<'_, MPI_Comm>) -> c_int {
    call("MPI_Comm_dup_with_info", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        crate::bodies::communicator_hints::check(info)?;
        object.comm.check(|| "MPI_Comm_dup_with_info".to_owned())?;
        let new = object.comm.duplicate()?;
        runtime.comm(hand_out(runtime, new, (&object, comm), newcomm, true)?)?.add_hints(info)
    })
}

/// New communicators of those that give the same color.
pub fn mpi_comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Place<'_, MPI_Comm>) -> c_int {
    call("MPI_Comm_split", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
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
        hand_out_if(runtime, new, &object, comm, newcomm)
    })
}

/// A communicator of a part of the group.
pub fn mpi_comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Place<'_, MPI_Comm>) -> c_int {
    call("MPI_Comm_create", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        let group = groups::resolve(runtime, group)?;
        object.comm.check(|| "MPI_Comm_create".to_owned())?;
        let new = object.comm.create(&group)?;
        hand_out_if(runtime, new, &object, comm, newcomm)
    })
}

/// The communicator that a new one is made from, and where that one's handle goes.
pub(crate) fn check<'call>(
    runtime: &'static Runtime,
    comm: MPI_Comm,
    newcomm: Place<'call, MPI_Comm>,
) -> Result<(Held, Slot<'call, MPI_Comm>)> {
    Ok((runtime.comm(comm)?, newcomm.checked("newcomm")?))
}

/// Gives a new communicator, if there is one, a handle.
pub(crate) fn hand_out_if(
    runtime: &'static Runtime,
    new: Option<Communicator>,
    parent: &CommObject,
    parent_handle: MPI_Comm,
    newcomm: Slot<'_, MPI_Comm>,
) -> Result<()> {
    match new {
        Some(new) => hand_out(runtime, new, (parent, parent_handle), newcomm, false).map(drop),
        None => {
            newcomm.set(MPI_COMM_NULL);
            Ok(())
        }
    }
}

/// Duplicates a communicator, and gives the duplicate hints.
pub(crate) fn hand_out_with(
    runtime: &'static Runtime,
    new: Option<Communicator>,
    parent: (&CommObject, MPI_Comm),
    newcomm: Slot<'_, MPI_Comm>,
    hints: MPI_Info,
) -> Result<()> {
    match new {
        Some(new) => runtime.comm(hand_out(runtime, new, parent, newcomm, false)?)?.add_hints(hints),
        None => hand_out_if(runtime, None, parent.0, parent.1, newcomm),
    }
}

/// Gives a new communicator a handle, which is also what comes back.
fn hand_out(
    runtime: &'static Runtime,
    new: Communicator,
    (parent, parent_handle): (&CommObject, MPI_Comm),
    newcomm: Slot<'_, MPI_Comm>,
    with_attributes: bool,
) -> Result<MPI_Comm> {
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
    newcomm.set(handle);
    Ok(handle)
}

/// Gives a communicator up. What is under way on it goes on to its end.
pub fn mpi_comm_free(comm: Variable<'_, MPI_Comm>) -> c_int {
    give_up("MPI_Comm_free", comm)
}

/// Gives a communicator up once nothing is under way on it.
pub fn mpi_comm_disconnect(comm: Variable<'_, MPI_Comm>) -> c_int {
    give_up("MPI_Comm_disconnect", comm)
}

fn give_up(name: &'static str, comm: Variable<'_, MPI_Comm>) -> c_int {
    let Some(comm) = comm.there() else { return call(name, Target::World, |_| Err(null("comm"))) };
    let handle = comm.get();
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
        comm.set(MPI_COMM_NULL);
        Ok(())
    })
}

/// Takes a communicator's handle away from it. It lingers as long as operations are under way in it, since
/// its error handler is told where they fail (MPI 5.0 §7.4.3).
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

/// Makes `handle` stand for the communicator that a recovery has put into the place of its present one. The
/// replaced communicator lingers as a freed one does.
pub(crate) fn renew(runtime: &'static Runtime, handle: MPI_Comm) {
    let mut objects = runtime.objects();
    let Some(place) = objects.comms.find_mut(handle.value()) else { return };
    let Some(renewed) = place.renewed() else { return };
    let before = std::mem::replace(place, Arc::new(renewed));
    drop(objects);
    linger(runtime, handle, Some(before));
}

/// Keeps the communicator `before`, which `handle` stood for before a recovery, as long as a thread uses it
/// or receives are under way in it. Then drops the lingering communicators that are not needed any more.
pub(crate) fn linger(runtime: &'static Runtime, handle: MPI_Comm, before: Option<Arc<CommObject>>) {
    runtime.objects().lingering.extend(before.map(|before| (handle, before)));
    let_go(runtime);
}

/// Drops what need not linger any more, each when nothing is held. What somebody else has, who may be about
/// to tell of an error, lingers until the next one is freed.
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
pub fn mpi_comm_set_name(comm: MPI_Comm, comm_name: Text<'_>) -> c_int {
    call("MPI_Comm_set_name", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let name = comm_name.checked("comm_name")?;
        let kept = &name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)];
        object.comm.rename(&String::from_utf8_lossy(kept));
        Ok(())
    })
}

/// The name of a communicator.
pub fn mpi_comm_get_name(comm: MPI_Comm, comm_name: TextPlace<'_>, resultlen: Place<'_, c_int>) -> c_int {
    call("MPI_Comm_get_name", Target::Comm(comm), |runtime| {
        // MPI 5.0 §7.8: the null handle has a name, too.
        let name = match comm {
            MPI_COMM_NULL => "MPI_COMM_NULL".to_owned(),
            _ => runtime.comm(comm)?.comm.name(),
        };
        let (length, place) = (resultlen.checked("resultlen")?, comm_name.checked("comm_name")?);
        length.set(place.put(name.as_bytes(), MPI_MAX_OBJECT_NAME as usize) as c_int);
        Ok(())
    })
}
