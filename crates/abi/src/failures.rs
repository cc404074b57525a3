//! Processes that fail, as C programs see it: error classes and functions that MPI does not have, declared in
//! `mpix_ft.h`.

use std::ffi::c_int;

use weft::claims::{Payload, UserMemory};
use weft::{Class, Error, Group, Result};

use crate::bodies::communicators::{check, hand_out_if};
use crate::bodies::groups::adopt;
use crate::claims::{Buffer, Place, Received, Variable};
use crate::entry::{Target, exported_once};
use crate::objects::RequestObject;
use crate::parts::{Input, Output};
use crate::state::{Runtime, call};
use crate::types::*;

/// A process has failed that the operation needs. MPI has no numbers for these classes yet; ours lie away
/// from those that it may give.
pub(crate) const MPIX_ERR_PROC_FAILED: c_int = 4097;
/// A process has failed that a message might have come from; the receive goes on.
pub(crate) const MPIX_ERR_PROC_FAILED_PENDING: c_int = 4098;
/// The communicator is revoked.
pub(crate) const MPIX_ERR_REVOKED: c_int = 4099;

/// The members that are known to have failed, in the order in which this process has learned of them.
fn comm_get_failed(comm: MPI_Comm, failed: Place<'_, MPI_Group>) -> c_int {
    call("MPIX_Comm_get_failed", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = failed.checked("failed")?;
        place.set(adopt(runtime, object.comm.failed(), object.session)?);
        Ok(())
    })
}

/// Acknowledges the first of them.
fn comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: Place<'_, c_int>) -> c_int {
    call("MPIX_Comm_ack_failed", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = num_acked.checked("num_acked")?;
        let Ok(count) = u32::try_from(num_to_ack) else {
            let what = format!("{}: {num_to_ack} failures cannot be acknowledged", object.comm.place());
            return Err(
                Error::new(Class::Argument, what).remedy("the number is 0 or more; 0 asks how many are")
            );
        };
        place.set(object.comm.acknowledge_failed(count) as c_int);
        Ok(())
    })
}

/// Acknowledges all of them.
fn comm_failure_ack(comm: MPI_Comm) -> c_int {
    call("MPIX_Comm_failure_ack", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?.comm.acknowledge_failed(u32::MAX);
        Ok(())
    })
}

/// Those that are acknowledged.
fn comm_failure_get_acked(comm: MPI_Comm, failed: Place<'_, MPI_Group>) -> c_int {
    call("MPIX_Comm_failure_get_acked", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = failed.checked("failed")?;
        place.set(adopt(runtime, object.comm.acknowledged_failed(), object.session)?);
        Ok(())
    })
}

/// Revokes a communicator at all members.
fn comm_revoke(comm: MPI_Comm) -> c_int {
    call("MPIX_Comm_revoke", Target::Comm(comm), |runtime| {
        runtime.comm(comm)?.comm.revoke();
        Ok(())
    })
}

/// Whether this process knows that it is revoked.
fn comm_is_revoked(comm: MPI_Comm, flag: Place<'_, c_int>) -> c_int {
    call("MPIX_Comm_is_revoked", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        flag.checked("flag")?.set(c_int::from(object.comm.is_revoked()));
        Ok(())
    })
}

/// Agrees with all living members on the bits that all give. Where a failure is not acknowledged by all of
/// them, all get the error, and the bits as well.
fn comm_agree(comm: MPI_Comm, flag: Variable<'_, c_int>) -> c_int {
    call("MPIX_Comm_agree", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let flag = flag.checked("flag")?;
        let agreed = object.comm.agree(flag.get() as u32)?;
        flag.set(agreed.flags as c_int);
        if agreed.is_acknowledged {
            return Ok(());
        }
        Err(object.comm.not_acknowledged(&agreed.failed))
    })
}

/// Begins an agreement of all living members on the bits of `flag` (`MPIX_Comm_iagree`). The agreed bits are
/// in `flag` when the request completes. The request ends with an error where a failure is not acknowledged
/// by all of them.
fn comm_iagree(comm: MPI_Comm, flag: Received, request: Place<'_, MPI_Request>) -> c_int {
    call("MPIX_Comm_iagree", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = request.checked("request")?;
        if flag.is_null() {
            return Err(crate::claims::null("flag"));
        }
        let ongoing = object.comm.start_agree(flag.memory(0, size_of::<c_int>()));
        let (input, output) = (Input::nothing(), Output::nothing());
        let object = RequestObject::Collective { errors_to: comm, ongoing, input, output };
        place.set(runtime.adopt_request(object)?);
        Ok(())
    })
}

/// Agrees with all living members on who has failed: the same group at all of them.
fn comm_agree_failed(comm: MPI_Comm, failed: Place<'_, MPI_Group>) -> c_int {
    call("MPIX_Comm_agree_failed", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = failed.checked("failed")?;
        place.set(adopt(runtime, object.comm.agree_failed()?, object.session)?);
        Ok(())
    })
}

/// Begins an agreement of all living members on which of them have failed (`MPIX_Comm_iagree_failed`). The
/// handle of their group is in `failed` when the request completes.
fn comm_iagree_failed(comm: MPI_Comm, failed: Received, request: Place<'_, MPI_Request>) -> c_int {
    call("MPIX_Comm_iagree_failed", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let request = request.checked("request")?;
        if failed.is_null() {
            return Err(crate::claims::null("failed"));
        }
        let place = failed.memory(0, size_of::<MPI_Group>());
        let (agreeing, session) = (object.comm.start_agree_failed(), object.session);
        let entry = RequestObject::AgreedFailed { errors_to: comm, agreeing, place, session };
        request.set(runtime.adopt_request(entry)?);
        Ok(())
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
fn comm_shrink(comm: MPI_Comm, newcomm: Place<'_, MPI_Comm>) -> c_int {
    call("MPIX_Comm_shrink", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        let new = object.comm.shrink()?;
        hand_out_if(runtime, Some(new), &object, comm, newcomm)
    })
}

/// Begins to make a communicator of the living members (`MPIX_Comm_ishrink`). The handle is in `newcomm` at
/// once, and can be used when the request completes.
fn comm_ishrink(comm: MPI_Comm, newcomm: Place<'_, MPI_Comm>, request: Place<'_, MPI_Request>) -> c_int {
    call("MPIX_Comm_ishrink", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        let request = request.checked("request")?;
        let duplicating = object.comm.start_shrink();
        // The handle is there at once; what it stands for comes when the request ends.
        let made = runtime.adopt_comm(object.comm.placeholder(), &object)?;
        let entry = RequestObject::Duplicate { errors_to: comm, duplicating, made };
        request.set(runtime.adopt_request(entry)?);
        newcomm.set(made);
        Ok(())
    })
}

exported_once! {
    /// `MPIX_Comm_get_failed`, of `mpix_ft.h`.
    fn MPIX_Comm_get_failed(comm: MPI_Comm, failed: *mut MPI_Group) -> c_int {
        comm_get_failed(comm, Place::claim(failed))
    }

    /// `MPIX_Comm_ack_failed`, of `mpix_ft.h`.
    fn MPIX_Comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: *mut c_int) -> c_int {
        comm_ack_failed(comm, num_to_ack, Place::claim(num_acked))
    }

    /// `MPIX_Comm_failure_ack`, of `mpix_ft.h`.
    fn MPIX_Comm_failure_ack(comm: MPI_Comm) -> c_int {
        comm_failure_ack(comm)
    }

    /// `MPIX_Comm_failure_get_acked`, of `mpix_ft.h`.
    fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failed: *mut MPI_Group) -> c_int {
        comm_failure_get_acked(comm, Place::claim(failed))
    }

    /// `MPIX_Comm_revoke`, of `mpix_ft.h`.
    fn MPIX_Comm_revoke(comm: MPI_Comm) -> c_int {
        comm_revoke(comm)
    }

    /// `MPIX_Comm_is_revoked`, of `mpix_ft.h`.
    fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: *mut c_int) -> c_int {
        comm_is_revoked(comm, Place::claim(flag))
    }

    /// `MPIX_Comm_agree`, of `mpix_ft.h`.
    fn MPIX_Comm_agree(comm: MPI_Comm, flag: *mut c_int) -> c_int {
        comm_agree(comm, Variable::claim(flag))
    }

    /// `MPIX_Comm_iagree`, of `mpix_ft.h`.
    fn MPIX_Comm_iagree(comm: MPI_Comm, flag: *mut c_int, request: *mut MPI_Request) -> c_int {
        comm_iagree(comm, Received::claim(flag.cast()), Place::claim(request))
    }

    /// `MPIX_Comm_agree_failed`, of `mpix_ft.h`.
    fn MPIX_Comm_agree_failed(comm: MPI_Comm, failed: *mut MPI_Group) -> c_int {
        comm_agree_failed(comm, Place::claim(failed))
    }

    /// `MPIX_Comm_iagree_failed`, of `mpix_ft.h`.
    fn MPIX_Comm_iagree_failed(comm: MPI_Comm, failed: *mut MPI_Group, request: *mut MPI_Request) -> c_int {
        comm_iagree_failed(comm, Received::claim(failed.cast()), Place::claim(request))
    }

    /// `MPIX_Comm_shrink`, of `mpix_ft.h`.
    fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
        comm_shrink(comm, Place::claim(newcomm))
    }

    /// `MPIX_Comm_ishrink`, of `mpix_ft.h`.
    fn MPIX_Comm_ishrink(comm: MPI_Comm, newcomm: *mut MPI_Comm, request: *mut MPI_Request) -> c_int {
        comm_ishrink(comm, Place::claim(newcomm), Place::claim(request))
    }
}
