//! Communicators made without waiting, of groups alone, and by the machine (MPI 5.0 §7.4.2).

use std::ffi::c_int;

use weft::{Class, Communicator, Error, Group, Level, Result, SplitBy};

use crate::bodies::communicators::{check, free, hand_out_if, hand_out_with};
use crate::bodies::{attributes, communicator_hints, error_handlers, groups, info};
use crate::claims::{Place, Text, null};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{CommObject, RequestObject};
use crate::state::{Runtime, call};
use crate::types::*;

/// Begins to make a new communicator of the same group. Attributes are copied now, as they are now.
pub fn mpi_comm_idup(comm: MPI_Comm, newcomm: Place<'_, MPI_Comm>, request: Place<'_, MPI_Request>) -> c_int {
    duplicate("MPI_Comm_idup", comm, MPI_INFO_NULL, newcomm, request)
}

/// Begins to make a new communicator of the same group, with the hints of `info`. Attributes are copied now,
/// as they are now.
pub fn mpi_comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: Place<'_, MPI_Comm>,
    request: Place<'_, MPI_Request>,
) -> c_int {
    duplicate("MPI_Comm_idup_with_info", comm, info, newcomm, request)
}

fn duplicate(
    name: &'static str,
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: Place<'_, MPI_Comm>,
    request: Place<'_, MPI_Request>,
) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        let request = request.checked("request")?;
        communicator_hints::check(info)?;
        // The handle is there at once; what it stands for comes when the request ends.
        let duplicating = object.comm.start_duplicate();
        let handle = runtime.adopt_comm(object.comm.placeholder(), &object)?;
        let copied =
            runtime.comm(handle).and_then(|made| attributes::copy_all((&object, comm), (&made, handle)));
        if let Err(error) = copied {
            free(runtime, handle)?;
            return Err(error);
        }
        runtime.comm(handle)?.add_hints(info)?;
        let entry = RequestObject::Duplicate { errors_to: comm, duplicating, made: handle };
        let entry = runtime.adopt_request(entry)?;
        newcomm.set(handle);
        request.set(entry);
        Ok(())
    })
}

/// Puts the communicator that has been made where its handle points.
pub(crate) fn conclude(runtime: &'static Runtime, handle: MPI_Comm, new: Result<Communicator>) -> Result<()> {
    match new {
        Ok(new) => {
            let mut objects = runtime.objects();
            if let Some(place) = objects.comms.find_mut(handle.value()) {
                let made = place.completed(new);
                let placeholder = std::mem::replace(place, made.into());
                drop(objects);
                drop(placeholder);
            }
            Ok(())
        }
        Err(error) => {
            free(runtime, handle)?;
            Err(error)
        }
    }
}

/// A communicator of a part of the group, by a call of that part alone.
pub fn mpi_comm_create_group(
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    newcomm: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Comm_create_group", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        let group = groups::resolve(runtime, group)?;
        let new = object.comm.create_group(&group, tag)?;
        hand_out_if(runtime, new, &object, comm, newcomm)
    })
}

/// A communicator of a group, made from no other.
pub fn mpi_comm_create_from_group(
    group: MPI_Group,
    stringtag: Text<'_>,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Comm_create_from_group", Target::Handler(errhandler), |runtime| {
        let (group, session) = (groups::resolve(runtime, group)?, groups::session_of(runtime, group));
        let (tag, place) = (string_tag(stringtag)?, newcomm.checked("newcomm")?);
        communicator_hints::check(info)?;
        let handler = error_handlers::resolve(errhandler)?;
        let new = runtime.process().communicator_of(&group, &tag)?;
        place.set(match new {
            Some(new) => {
                let made = adopt(runtime, new, session, errhandler, handler)?;
                runtime.comm(made)?.add_hints(info)?;
                made
            }
            None => MPI_COMM_NULL,
        });
        Ok(())
    })
}

/// A handle for a communicator that has no parent to inherit an error handler from.
pub(crate) fn adopt(
    runtime: &'static Runtime,
    new: Communicator,
    session: Option<MPI_Session>,
    errhandler: MPI_Errhandler,
    handler: crate::objects::Handler,
) -> Result<MPI_Comm> {
    error_handlers::retain(errhandler);
    runtime.enter_comm(CommObject::new(new, errhandler, handler).of_session(session))
}

pub(crate) fn string_tag(stringtag: Text<'_>) -> Result<String> {
    let tag = stringtag.bytes().ok_or_else(|| null("stringtag"))?;
    if tag.len() >= MPI_MAX_STRINGTAG_LEN as usize {
        let what =
            format!("the string tag has {} bytes, of at most {}", tag.len(), MPI_MAX_STRINGTAG_LEN - 1);
        return Err(Error::new(Class::Argument, what));
    }
    Ok(String::from_utf8_lossy(tag).into_owned())
}

/// New communicators of the members that share a part of the machine.
pub fn mpi_comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Comm_split_type", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        communicator_hints::check(info)?;
        let by = kind_of(runtime, split_type, info)?;
        object.comm.check(|| "MPI_Comm_split_type".to_owned())?;
        let part = object.comm.split_by(by.as_ref(), key)?;
        if let (Some(SplitBy::NextLevel), Some((_, level))) = (&by, &part) {
            // MPI 5.0 §7.4.2: the program is told what kind of part it has got.
            let kind = level.map_or(SHARED_MEMORY.to_owned(), |level| format!("{HWLOC}{}", level.name()));
            info::tell(info, RESOURCE_TYPE, &kind)?;
        }
        hand_out_with(runtime, part.map(|(part, _)| part), (&object, comm), newcomm, info)
    })
}

/// What a split is to go by; `None` for a process that takes no part.
fn kind_of(runtime: &'static Runtime, split_type: c_int, info: MPI_Info) -> Result<Option<SplitBy>> {
    let pairs = info::pairs(info)?;
    let value = |key: &str| pairs.value(key).map(|value| String::from_utf8_lossy(value).into_owned());
    Ok(Some(match split_type {
        MPI_UNDEFINED => return Ok(None),
        MPI_COMM_TYPE_SHARED => SplitBy::Node,
        MPI_COMM_TYPE_HW_UNGUIDED => SplitBy::NextLevel,
        MPI_COMM_TYPE_HW_GUIDED => value(RESOURCE_TYPE).map_or(SplitBy::Unknown, |kind| resource(&kind)),
        MPI_COMM_TYPE_RESOURCE_GUIDED => match (value(RESOURCE_TYPE), value(PSET_NAME)) {
            (Some(_), Some(_)) => {
                let what = format!("the info has both {RESOURCE_TYPE} and {PSET_NAME}");
                return Err(Error::new(Class::InfoValue, what).remedy("give one of them"));
            }
            (Some(kind), None) => resource(&kind),
            (None, Some(name)) => set_of(runtime, &name),
            (None, None) => SplitBy::Unknown,
        },
        _ => {
            let what = format!("{split_type} is no kind to split by");
            return Err(Error::new(Class::Argument, what).remedy("see MPI_COMM_TYPE_SHARED and its kin"));
        }
    }))
}

fn resource(kind: &str) -> SplitBy {
    if kind == SHARED_MEMORY || kind.eq_ignore_ascii_case(MACHINE) {
        return SplitBy::Node;
    }
    kind.strip_prefix(HWLOC).and_then(Level::named).map_or(SplitBy::Unknown, SplitBy::Machine)
}

/// The processes of a set.
fn set_of(runtime: &'static Runtime, name: &str) -> SplitBy {
    match runtime.sets().find(name) {
        Some(set) => SplitBy::Set { name: set.name().to_owned(), group: Some(Group::clone(set.group())) },
        None => SplitBy::Set { name: name.to_owned(), group: None },
    }
}

const RESOURCE_TYPE: &str = "mpi_hw_resource_type";
const PSET_NAME: &str = "mpi_pset_name";
const SHARED_MEMORY: &str = "mpi_shared_memory";
pub(crate) const HWLOC: &str = "hwloc://";
pub(crate) const MACHINE: &str = "hwloc://Machine";
