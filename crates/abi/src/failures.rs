//! Processes that fail, as C programs see it: error classes and functions that MPI does not have, declared in `mpix_ft.h`.

use std::ffi::c_int;

use weft::claims::{Payload, UserMemory};
use weft::{Class, Error, Group, Result};

use crate::bodies::communicators::{check, hand_out_if};
use crate::bodies::groups::adopt;
use crate::bodies::pointers::Place;
use crate::entry::{Target, run};
use crate::objects::RequestObject;
use crate::parts::{Input, Output};
use crate::state::{Runtime, call};
use crate::types::*;

/// A process has failed that the operation needs. MPI has no numbers for these classes yet; ours lie away from those that it
/// may give.
pub(crate) const MPIX_ERR_PROC_FAILED: c_int = 4097;
/// A process has failed that a message might have come from; the receive goes on.
pub(crate) const MPIX_ERR_PROC_FAILED_PENDING: c_int = 4098;
/// The communicator is revoked.
pub(crate) const MPIX_ERR_REVOKED: c_int = 4099;

/// The members that are known to have failed, in the order in which this process has learned of them.
///
/// # Safety
/// `failed` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_get_failed(comm: MPI_Comm, failed: *mut MPI_Group) -> c_int {
    run(|| {
        call("MPIX_Comm_get_failed", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on.
            let place = unsafe { Place::new(failed, "failed")? };
            place.set(adopt(runtime, object.comm.failed(), object.session)?);
            Ok(())
        })
    })
}

/// Acknowledges the first of them.
///
/// # Safety
/// `num_acked` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_ack_failed(
    comm: MPI_Comm,
    num_to_ack: c_int,
    num_acked: *mut c_int,
) -> c_int {
    run(|| {
        call("MPIX_Comm_ack_failed", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on.
            let place = unsafe { Place::new(num_acked, "num_acked")? };
            let Ok(count) = u32::try_from(num_to_ack) else {
                let what = format!("{}: {num_to_ack} failures cannot be acknowledged", object.comm.place());
                return Err(
                    Error::new(Class::Argument, what).remedy("the number is 0 or more; 0 asks how many are")
                );
            };
            place.set(object.comm.acknowledge_failed(count) as c_int);
            Ok(())
        })
    })
}

/// Acknowledges all of them.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn MPIX_Comm_failure_ack(comm: MPI_Comm) -> c_int {
    run(|| {
        call("MPIX_Comm_failure_ack", Target::Comm(comm), |runtime| {
            runtime.comm(comm)?.comm.acknowledge_failed(u32::MAX);
            Ok(())
        })
    })
}

/// Those that are acknowledged.
///
/// # Safety
/// `failed` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failed: *mut MPI_Group) -> c_int {
    run(|| {
        call("MPIX_Comm_failure_get_acked", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on.
            let place = unsafe { Place::new(failed, "failed")? };
            place.set(adopt(runtime, object.comm.acknowledged_failed(), object.session)?);
            Ok(())
        })
    })
}

/// Revokes a communicator at all members.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn MPIX_Comm_revoke(comm: MPI_Comm) -> c_int {
    run(|| {
        call("MPIX_Comm_revoke", Target::Comm(comm), |runtime| {
            runtime.comm(comm)?.comm.revoke();
            Ok(())
        })
    })
}

/// Whether this process knows that it is revoked.
///
/// # Safety
/// `flag` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    run(|| {
        call("MPIX_Comm_is_revoked", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on.
            unsafe { Place::new(flag, "flag")? }.set(c_int::from(object.comm.is_revoked()));
            Ok(())
        })
    })
}

/// Agrees with all living members on the bits that all give. Where a failure is not acknowledged by all of them, all get the
/// error, and the bits as well.
///
/// # Safety
/// `flag` is null or can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_agree(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    run(|| {
        call("MPIX_Comm_agree", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on; the place is not null when it is read.
            let (place, mine) = unsafe { (Place::new(flag, "flag")?, flag.read()) };
            let agreed = object.comm.agree(mine as u32)?;
            place.set(agreed.flags as c_int);
            if agreed.is_acknowledged {
                return Ok(());
            }
            Err(object.comm.not_acknowledged(&agreed.failed))
        })
    })
}

/// The same, to be waited for.
///
/// # Safety
/// `flag` is null, or can be read and written until the request is over; `request` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_iagree(
    comm: MPI_Comm,
    flag: *mut c_int,
    request: *mut MPI_Request,
) -> c_int {
    run(|| {
        call("MPIX_Comm_iagree", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on.
            let place = unsafe { Place::new(request, "request")? };
            if flag.is_null() {
                return Err(crate::bodies::world::null("flag"));
            }
            // SAFETY: not null, and the program promised that it can be used until the request is over.
            let memory = unsafe { UserMemory::claim(flag.cast(), size_of::<c_int>()) };
            let ongoing = object.comm.start_agree(memory);
            // SAFETY: there is nothing to read or write.
            let (input, output) = unsafe {
                (Input::new(std::ptr::null(), &[])?, Output::new(std::ptr::null_mut(), &[], false)?)
            };
            let object = RequestObject::Collective { errors_to: comm, ongoing, input, output };
            place.set(runtime.adopt_request(object)?);
            Ok(())
        })
    })
}

/// Agrees with all living members on who has failed: the same group at all of them.
///
/// # Safety
/// `failed` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_agree_failed(comm: MPI_Comm, failed: *mut MPI_Group) -> c_int {
    run(|| {
        call("MPIX_Comm_agree_failed", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on.
            let place = unsafe { Place::new(failed, "failed")? };
            place.set(adopt(runtime, object.comm.agree_failed()?, object.session)?);
            Ok(())
        })
    })
}

/// The same, to be waited for.
///
/// # Safety
/// `failed` is null, or writable until the request is over; `request` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_iagree_failed(
    comm: MPI_Comm,
    failed: *mut MPI_Group,
    request: *mut MPI_Request,
) -> c_int {
    run(|| {
        call("MPIX_Comm_iagree_failed", Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            // SAFETY: the program's promise is handed on.
            let request = unsafe { Place::new(request, "request")? };
            if failed.is_null() {
                return Err(crate::bodies::world::null("failed"));
            }
            // SAFETY: not null, and the program promised that it is writable until the request is over.
            let place = unsafe { UserMemory::claim(failed.cast(), size_of::<MPI_Group>()) };
            let (agreeing, session) = (object.comm.start_agree_failed(), object.session);
            let entry = RequestObject::AgreedFailed { errors_to: comm, agreeing, place, session };
            request.set(runtime.adopt_request(entry)?);
            Ok(())
        })
    })
}

/// Gives the program the group that was agreed on.
pub(crate) fn conclude(
    runtime: &'static Runtime,
    agreed: Result<Group>,
    mut place: UserMemory,
    session: Option<MPI_Session>,
) -> Result<()> {
    let handle = adopt(runtime, agreed?, session)?;
    place.write_at(0, Payload::from(&handle.value().to_ne_bytes()[..]));
    Ok(())
}

/// A communicator of the members that live.
///
/// # Safety
/// `newcomm` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
    run(|| {
        call("MPIX_Comm_shrink", Target::Comm(comm), |runtime| {
            let object = check(runtime, comm, newcomm)?;
            let new = object.comm.shrink()?;
            // SAFETY: `check` has seen that it is not null, and the program promised that it is writable.
            unsafe { hand_out_if(runtime, Some(new), &object, comm, newcomm) }
        })
    })
}

/// The same, to be waited for.
///
/// # Safety
/// `newcomm` and `request` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIX_Comm_ishrink(
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    run(|| {
        call("MPIX_Comm_ishrink", Target::Comm(comm), |runtime| {
            let object = check(runtime, comm, newcomm)?;
            // SAFETY: the program's promise is handed on.
            let (place, request) =
                unsafe { (Place::new(newcomm, "newcomm")?, Place::new(request, "request")?) };
            let duplicating = object.comm.start_shrink();
            // The handle is there at once; what it stands for comes when the request ends.
            let made = runtime.adopt_comm(object.comm.placeholder(), &object)?;
            let entry = RequestObject::Duplicate { errors_to: comm, duplicating, made };
            request.set(runtime.adopt_request(entry)?);
            place.set(made);
            Ok(())
        })
    })
}
