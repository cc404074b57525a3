//! Recovery of communicators, as C programs see it: functions that MPI does not have, declared in `mpix_ft.h`.

use std::ffi::c_int;

use weft::{BlankPartner, Class, Communicator, Error, FtMode, FtModes, MessageMode, Rank, Result};

use crate::bodies::communicators::hand_out_if;
use crate::bodies::groups::adopt;
use crate::bodies::pointers::Place;
use crate::entry::Target;
use crate::state::call;
use crate::types::*;

const MPIX_FT_MODE_NONE: c_int = 0;
const MPIX_FT_MODE_ABORT: c_int = 1;
const MPIX_FT_MODE_BLANK: c_int = 2;
const MPIX_FT_MODE_SHRINK: c_int = 3;
const MPIX_FT_MODE_REBUILD: c_int = 4;
const MPIX_FT_MSG_RESET: c_int = 0;
const MPIX_FT_MSG_CONT: c_int = 1;
const MPIX_FT_COLL_LOCAL: c_int = 0;
const MPIX_FT_COLL_ATOMIC: c_int = 1;
const MPIX_FT_P2P_PROC_NULL: c_int = 0;
const MPIX_FT_P2P_ERROR: c_int = 1;

/// What a recovery has come to, as `mpix_ft.h` lays it out.
#[repr(C)]
pub struct MPIX_Recover_info {
    /// How often the communicator has recovered.
    pub generation: c_int,
    /// By what mode it has now.
    pub mode: c_int,
    /// Who was taken out, or became blank, or came into the place of who has failed; a group that is to be freed.
    pub failed: MPI_Group,
    /// How many processes were started again.
    pub restarted: c_int,
}

fn mode_number(mode: FtMode) -> c_int {
    match mode {
        FtMode::None => MPIX_FT_MODE_NONE,
        FtMode::Abort => MPIX_FT_MODE_ABORT,
        FtMode::Blank => MPIX_FT_MODE_BLANK,
        FtMode::Shrink => MPIX_FT_MODE_SHRINK,
        FtMode::Rebuild => MPIX_FT_MODE_REBUILD,
    }
}

fn modes(comm: &Communicator, numbers: [c_int; 4]) -> Result<FtModes> {
    let [mode, messages, collectives, blanks] = numbers;
    let unknown = |what: &str, number: c_int| {
        let what = format!("{}: there is no {what} {number}", comm.place());
        Err(Error::new(Class::Argument, what).remedy("mpix_ft.h names those that there are"))
    };
    let mode = match mode {
        MPIX_FT_MODE_NONE => FtMode::None,
        MPIX_FT_MODE_ABORT => FtMode::Abort,
        MPIX_FT_MODE_BLANK => FtMode::Blank,
        MPIX_FT_MODE_SHRINK => FtMode::Shrink,
        MPIX_FT_MODE_REBUILD => FtMode::Rebuild,
        mode => return unknown("communicator mode", mode),
    };
    let messages = match messages {
        MPIX_FT_MSG_RESET => MessageMode::Reset,
        MPIX_FT_MSG_CONT => MessageMode::Continue,
        messages => return unknown("message mode", messages),
    };
    match collectives {
        MPIX_FT_COLL_LOCAL => {}
        MPIX_FT_COLL_ATOMIC => {
            let what = format!("{}: collective operations cannot agree on their end yet", comm.place());
            return Err(
                Error::new(Class::Unsupported, what).remedy("choose MPIX_FT_COLL_LOCAL, and MPIX_Comm_agree")
            );
        }
        mode => return unknown("mode of collective operations", mode),
    }
    let blanks = match blanks {
        MPIX_FT_P2P_PROC_NULL => BlankPartner::Nobody,
        MPIX_FT_P2P_ERROR => BlankPartner::Error,
        policy => return unknown("policy for blank ranks", policy),
    };
    Ok(FtModes { comm: mode, messages, blanks })
}

/// Says how a communicator recovers.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Comm_set_ft_mode(
    comm: MPI_Comm,
    comm_mode: c_int,
    msg_mode: c_int,
    coll_mode: c_int,
    p2p_policy: c_int,
) -> c_int {
    call("MPIX_Comm_set_ft_mode", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        object.comm.set_ft_modes(modes(&object.comm, [comm_mode, msg_mode, coll_mode, p2p_policy])?);
        Ok(())
    })
}

/// How a communicator recovers.
///
/// # Safety
/// Each pointer is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_get_ft_mode(
    comm: MPI_Comm,
    comm_mode: *mut c_int,
    msg_mode: *mut c_int,
    coll_mode: *mut c_int,
    p2p_policy: *mut c_int,
) -> c_int {
    call("MPIX_Comm_get_ft_mode", Target::Comm(comm), |runtime| {
        let FtModes { comm: mode, messages, blanks } = runtime.comm(comm)?.comm.ft_modes();
        // SAFETY: the program's promise is handed on.
        let places = unsafe {
            [
                Place::new(comm_mode, "comm_mode")?,
                Place::new(msg_mode, "msg_mode")?,
                Place::new(coll_mode, "coll_mode")?,
                Place::new(p2p_policy, "p2p_policy")?,
            ]
        };
        let messages = if messages == MessageMode::Reset { MPIX_FT_MSG_RESET } else { MPIX_FT_MSG_CONT };
        let blanks = if blanks == BlankPartner::Nobody { MPIX_FT_P2P_PROC_NULL } else { MPIX_FT_P2P_ERROR };
        let numbers = [mode_number(mode), messages, MPIX_FT_COLL_LOCAL, blanks];
        places.into_iter().zip(numbers).for_each(|(place, number)| place.set(number));
        Ok(())
    })
}

/// Makes a communicator usable again.
///
/// # Safety
/// `newcomm` and `info` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_recover(
    comm: MPI_Comm,
    flags: c_int,
    newcomm: *mut MPI_Comm,
    info: *mut MPIX_Recover_info,
) -> c_int {
    call("MPIX_Comm_recover", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        if flags != 0 {
            let what = format!("{}: flags {flags} of a recovery are not known yet", object.comm.place());
            return Err(Error::new(Class::Argument, what).remedy("give 0"));
        }
        if newcomm.is_null() && object.comm.ft_modes().comm == FtMode::Shrink {
            return Err(crate::bodies::world::null("newcomm"));
        }
        let recovery = object.comm.recover()?;
        let (generation, mode) = (recovery.generation as c_int, mode_number(recovery.mode));
        let restarted = recovery.restarted as c_int;
        let is_rebuilt = recovery.mode == FtMode::Rebuild;
        if is_rebuilt && !recovery.communicator.is_same(&object.comm) {
            // Only the world is rebuilt, and it keeps its handle.
            runtime.replace_world(object.completed(recovery.communicator.clone()));
        }
        if is_rebuilt || recovery.communicator.is_same(&object.comm) {
            if !newcomm.is_null() {
                // SAFETY: the program's promise.
                unsafe { newcomm.write(comm) };
            }
        } else {
            // SAFETY: not null for a mode that makes a new one, and the program promised that it is writable.
            unsafe { hand_out_if(runtime, Some(recovery.communicator), &object, comm, newcomm)? };
        }
        if !info.is_null() {
            let failed = adopt(runtime, recovery.failed, object.session)?;
            // SAFETY: the program's promise.
            unsafe { info.write(MPIX_Recover_info { generation, mode, failed, restarted }) };
        }
        Ok(())
    })
}

/// The members whose places are blank.
///
/// # Safety
/// `blank` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_blank_group(comm: MPI_Comm, blank: *mut MPI_Group) -> c_int {
    call("MPIX_Comm_blank_group", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(blank, "blank")? };
        place.set(adopt(runtime, object.comm.blank(), object.session)?);
        Ok(())
    })
}

/// The members whose places are not blank.
///
/// # Safety
/// `live` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_live_group(comm: MPI_Comm, live: *mut MPI_Group) -> c_int {
    call("MPIX_Comm_live_group", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(live, "live")? };
        place.set(adopt(runtime, object.comm.live().clone(), object.session)?);
        Ok(())
    })
}

/// Whether a rank is blank.
///
/// # Safety
/// `flag` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_is_blank(comm: MPI_Comm, rank: c_int, flag: *mut c_int) -> c_int {
    call("MPIX_Comm_is_blank", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(flag, "flag")? };
        let known = u32::try_from(rank).ok().filter(|rank| *rank < object.comm.size());
        let Some(rank) = known else {
            let what = format!("{}: rank {rank} does not exist", object.comm.place());
            return Err(Error::new(Class::Rank, what));
        };
        place.set(c_int::from(object.comm.is_blank(Rank(rank))));
        Ok(())
    })
}

/// How many members have places that are not blank.
///
/// # Safety
/// `size` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_live_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    call("MPIX_Comm_live_size", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promise is handed on.
        unsafe { Place::new(size, "size")? }.set(object.comm.live().size() as c_int);
        Ok(())
    })
}

/// How often there was another process in the place of this one before it.
///
/// # Safety
/// `incarnation` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Process_incarnation(incarnation: *mut c_int) -> c_int {
    call("MPIX_Process_incarnation", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        unsafe { Place::new(incarnation, "incarnation")? }.set(runtime.process().incarnation() as c_int);
        Ok(())
    })
}

/// How often a communicator has recovered in place.
///
/// # Safety
/// `generation` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_generation(comm: MPI_Comm, generation: *mut c_int) -> c_int {
    call("MPIX_Comm_generation", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promise is handed on.
        unsafe { Place::new(generation, "generation")? }.set(object.comm.generation() as c_int);
        Ok(())
    })
}
