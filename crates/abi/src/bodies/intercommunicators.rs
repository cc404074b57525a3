//! Inter-communicators (MPI 5.0 §7.6).

use std::ffi::c_int;

use weft::{Class, Error, Group, Rank, Result};

use crate::bodies::communicator_creation::{adopt, string_tag};
use crate::bodies::communicators::{check, hand_out_if};
use crate::bodies::{communicator_hints, error_handlers, groups};
use crate::claims::{Place, Text};
use crate::entry::Target;
use crate::generated::constants::{MPI_COMM_NULL, MPI_GROUP_EMPTY};
use crate::objects::Held;
use crate::state::{Runtime, call};
use crate::types::*;

/// Connects two communicators by their leaders.
pub fn mpi_intercomm_create(
    local_comm: MPI_Comm,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Intercomm_create", Target::Comm(local_comm), |runtime| {
        let (object, newintercomm) = check(runtime, local_comm, newintercomm)?;
        let leader = leader(local_leader)?;
        // Only the leader's other arguments count. Where they are wrong, its side is told before the call
        // returns.
        let peer = if object.comm.rank() == leader { runtime.comm(peer_comm).ok() } else { None };
        let remote = self::leader(remote_leader).unwrap_or(NOBODY);
        let peers = peer.as_ref().map(|peer| (&peer.comm, remote));
        object.comm.check(|| format!("MPI_Intercomm_create, leader {}", leader.0))?;
        let new = object.comm.connect(leader, peers, tag)?;
        hand_out_if(runtime, Some(new), &object, local_comm, newintercomm)
    })
}

fn leader(rank: c_int) -> Result<Rank> {
    u32::try_from(rank)
        .map(Rank)
        .map_err(|_| Error::new(Class::Rank, format!("rank {rank} cannot be a leader")))
}

/// A rank that no group has.
const NOBODY: Rank = Rank(u32::MAX);

/// Connects two groups. Where one of them is `MPI_GROUP_EMPTY`, nobody is waited for, and there is no
/// communicator (MPI 5.0 §7.6.2).
pub fn mpi_intercomm_create_from_groups(
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    stringtag: Text<'_>,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Intercomm_create_from_groups", Target::Handler(errhandler), |runtime| {
        let local = groups::resolve(runtime, local_group)?;
        let (tag, place) = (string_tag(stringtag)?, newintercomm.checked("newintercomm")?);
        communicator_hints::check(info)?;
        let handler = error_handlers::resolve(errhandler)?;
        if [local_group, remote_group].contains(&MPI_GROUP_EMPTY) {
            place.set(MPI_COMM_NULL);
            return Ok(());
        }
        let leader = leader(local_leader)?;
        // As above.
        let is_leader = local.peer(leader) == Some(runtime.process().here());
        let remote = if is_leader { groups::resolve(runtime, remote_group).ok() } else { None };
        let remote_leader = self::leader(remote_leader).unwrap_or(NOBODY);
        let remote = remote.as_ref().map(|group| (group, remote_leader));
        let new = runtime.process().connect(&local, leader, remote, &tag)?;
        let made = adopt(runtime, new, groups::session_of(runtime, local_group), errhandler, handler)?;
        runtime.comm(made)?.add_hints(info)?;
        place.set(made);
        Ok(())
    })
}

/// One communicator of both groups.
pub fn mpi_intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: Place<'_, MPI_Comm>) -> c_int {
    call("MPI_Intercomm_merge", Target::Comm(intercomm), |runtime| {
        let (object, newintracomm) = check(runtime, intercomm, newintracomm)?;
        object.comm.check(|| "MPI_Intercomm_merge".to_owned())?;
        object.comm.check_sides(|| format!("MPI_Intercomm_merge, high {}", i32::from(high != 0)))?;
        let new = object.comm.merge(high != 0)?;
        hand_out_if(runtime, Some(new), &object, intercomm, newintracomm)
    })
}

/// Number of members of the remote group.
pub fn mpi_comm_remote_size(comm: MPI_Comm, size: Place<'_, c_int>) -> c_int {
    call("MPI_Comm_remote_size", Target::Comm(comm), |runtime| {
        let object = inter(runtime, comm)?;
        size.checked("size")?.set(object.comm.partners() as c_int);
        Ok(())
    })
}

/// The other group.
pub fn mpi_comm_remote_group(comm: MPI_Comm, group: Place<'_, MPI_Group>) -> c_int {
    call("MPI_Comm_remote_group", Target::Comm(comm), |runtime| {
        let object = inter(runtime, comm)?;
        let place = group.checked("group")?;
        let remote = object.comm.remote_group().cloned().unwrap_or_else(Group::empty);
        place.set(groups::adopt(runtime, remote, object.session)?);
        Ok(())
    })
}

/// The communicator of a handle, which must have two groups.
fn inter(runtime: &'static Runtime, comm: MPI_Comm) -> Result<Held> {
    let object = runtime.comm(comm)?;
    if object.comm.is_inter() {
        return Ok(object);
    }
    let what = format!("{} has one group only", object.comm.label());
    Err(Error::new(Class::Communicator, what))
}
