//! Recovery of communicators, as C programs see it: functions that MPI does not have, declared in
//! `mpix_ft.h`.

use std::ffi::c_int;
use std::os::fd::IntoRawFd;

use weft::{
    BlankPartner, Class, CollectiveMode, Communicator, Error, FtMode, FtModes, MessageMode, Rank,
    RecoverFlags, Recovery, Result,
};

use crate::bodies::communicators::hand_out_if;
use crate::bodies::groups::adopt;
use crate::claims::Place;
use crate::entry::{Target, exported_once};
use crate::objects::CommObject;
use crate::state::{Runtime, call};
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
const MPIX_RECOVER_ALL: c_int = 1;
const MPIX_RECOVER_IN_PLACE: c_int = 2;

/// The result of a recovery, as `mpix_ft.h` lays it out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MPIX_Recover_info {
    /// How often the communicator has recovered.
    pub generation: c_int,
    /// By what mode it has now.
    pub mode: c_int,
    /// The group of the members that were taken out or became blank; after a rebuild, of the new processes in
    /// the place of failed ones. The program frees it.
    pub failed: MPI_Group,
    /// How many processes were started again.
    pub restarted: c_int,
    /// How many collective operations the members had completed, the least and the most of them; -1 where
    /// nobody knows.
    pub coll_min: MPI_Count,
    /// The most.
    pub coll_max: MPI_Count,
}

impl MPIX_Recover_info {
    fn new(runtime: &'static Runtime, object: &CommObject, recovery: Recovery) -> Result<MPIX_Recover_info> {
        let counts = recovery.completed.map(|range| (*range.start() as MPI_Count, *range.end() as MPI_Count));
        let (coll_min, coll_max) = counts.unwrap_or((-1, -1));
        Ok(MPIX_Recover_info {
            generation: recovery.generation as c_int,
            mode: mode_number(recovery.mode),
            failed: adopt(runtime, recovery.failed, object.session)?,
            restarted: recovery.restarted as c_int,
            coll_min,
            coll_max,
        })
    }
}

pub(crate) fn mode_number(mode: FtMode) -> c_int {
    match mode {
        FtMode::None => MPIX_FT_MODE_NONE,
        FtMode::Abort => MPIX_FT_MODE_ABORT,
        FtMode::Blank => MPIX_FT_MODE_BLANK,
        FtMode::Shrink => MPIX_FT_MODE_SHRINK,
        FtMode::Rebuild => MPIX_FT_MODE_REBUILD,
    }
}

pub(crate) fn collectives_number(mode: CollectiveMode) -> c_int {
    match mode {
        CollectiveMode::Local => MPIX_FT_COLL_LOCAL,
        CollectiveMode::Atomic => MPIX_FT_COLL_ATOMIC,
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
    let collectives = match collectives {
        MPIX_FT_COLL_LOCAL => CollectiveMode::Local,
        MPIX_FT_COLL_ATOMIC => CollectiveMode::Atomic,
        mode => return unknown("mode of collective operations", mode),
    };
    let blanks = match blanks {
        MPIX_FT_P2P_PROC_NULL => BlankPartner::Nobody,
        MPIX_FT_P2P_ERROR => BlankPartner::Error,
        policy => return unknown("policy for blank ranks", policy),
    };
    Ok(FtModes { comm: mode, messages, blanks, collectives })
}

/// Says how a communicator recovers.
fn comm_set_ft_mode(
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
fn comm_get_ft_mode(
    comm: MPI_Comm,
    comm_mode: Place<'_, c_int>,
    msg_mode: Place<'_, c_int>,
    coll_mode: Place<'_, c_int>,
    p2p_policy: Place<'_, c_int>,
) -> c_int {
    call("MPIX_Comm_get_ft_mode", Target::Comm(comm), |runtime| {
        let FtModes { comm: mode, messages, blanks, collectives } = runtime.comm(comm)?.comm.ft_modes();
        let places = [
            comm_mode.checked("comm_mode")?,
            msg_mode.checked("msg_mode")?,
            coll_mode.checked("coll_mode")?,
            p2p_policy.checked("p2p_policy")?,
        ];
        let messages = if messages == MessageMode::Reset { MPIX_FT_MSG_RESET } else { MPIX_FT_MSG_CONT };
        let blanks = if blanks == BlankPartner::Nobody { MPIX_FT_P2P_PROC_NULL } else { MPIX_FT_P2P_ERROR };
        let numbers = [mode_number(mode), messages, collectives_number(collectives), blanks];
        places.into_iter().zip(numbers).for_each(|(place, number)| place.set(number));
        Ok(())
    })
}

/// Makes a communicator usable again.
pub(crate) fn comm_recover(
    comm: MPI_Comm,
    flags: c_int,
    newcomm: Place<'_, MPI_Comm>,
    info: Place<'_, MPIX_Recover_info>,
) -> c_int {
    call("MPIX_Comm_recover", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        if flags & !(MPIX_RECOVER_ALL | MPIX_RECOVER_IN_PLACE) != 0 {
            let what = format!("{}: there are no flags {flags:#x} of a recovery", object.comm.place());
            let remedy = "give 0, or MPIX_RECOVER_ALL, MPIX_RECOVER_IN_PLACE or both";
            return Err(Error::new(Class::Argument, what).remedy(remedy));
        }
        if newcomm.is_null() && object.comm.ft_modes().comm == FtMode::Shrink && flags == 0 {
            return Err(crate::claims::null("newcomm"));
        }
        let (all, in_place) = (flags & MPIX_RECOVER_ALL != 0, flags & MPIX_RECOVER_IN_PLACE != 0);
        let recovered = object.comm.recover_with(RecoverFlags { all, in_place });
        // What has come into the place of another one has its handle, whatever else went wrong.
        runtime.renew_comms();
        let recovery = recovered?;
        let has_other = recovery.mode == FtMode::Shrink && !in_place;
        match newcomm.there() {
            Some(place) if has_other => {
                hand_out_if(runtime, Some(recovery.communicator.clone()), &object, comm, place)?;
            }
            _ => newcomm.set_if_there(comm),
        }
        if let Some(info) = info.there() {
            info.set(MPIX_Recover_info::new(runtime, &object, recovery)?);
        }
        Ok(())
    })
}

/// What the last recovery of a communicator has come to.
fn comm_last_recovery(comm: MPI_Comm, flag: Place<'_, c_int>, info: Place<'_, MPIX_Recover_info>) -> c_int {
    call("MPIX_Comm_last_recovery", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let (flag, info) = (flag.checked("flag")?, info.checked("info")?);
        let recovery = object.comm.last_recovery();
        flag.set(c_int::from(recovery.is_some()));
        if let Some(recovery) = recovery {
            info.set(MPIX_Recover_info::new(runtime, &object, recovery)?);
        }
        Ok(())
    })
}

/// How many collective operations of a communicator this process has completed.
fn comm_coll_count(comm: MPI_Comm, count: Place<'_, MPI_Count>) -> c_int {
    call("MPIX_Comm_coll_count", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        count.checked("count")?.set(object.comm.completed() as MPI_Count);
        Ok(())
    })
}

/// The members whose places are blank.
fn comm_blank_group(comm: MPI_Comm, blank: Place<'_, MPI_Group>) -> c_int {
    call("MPIX_Comm_blank_group", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = blank.checked("blank")?;
        place.set(adopt(runtime, object.comm.blank(), object.session)?);
        Ok(())
    })
}

/// The members whose places are not blank.
fn comm_live_group(comm: MPI_Comm, live: Place<'_, MPI_Group>) -> c_int {
    call("MPIX_Comm_live_group", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = live.checked("live")?;
        place.set(adopt(runtime, object.comm.live().clone(), object.session)?);
        Ok(())
    })
}

/// Whether a rank is blank.
fn comm_is_blank(comm: MPI_Comm, rank: c_int, flag: Place<'_, c_int>) -> c_int {
    call("MPIX_Comm_is_blank", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = flag.checked("flag")?;
        let known = u32::try_from(rank).ok().filter(|rank| *rank < object.comm.partners());
        let Some(rank) = known else {
            let what = format!("{}: rank {rank} does not exist", object.comm.place());
            return Err(Error::new(Class::Rank, what));
        };
        place.set(c_int::from(object.comm.is_blank(Rank(rank))));
        Ok(())
    })
}

/// How many members have places that are not blank.
fn comm_live_size(comm: MPI_Comm, size: Place<'_, c_int>) -> c_int {
    call("MPIX_Comm_live_size", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        size.checked("size")?.set(object.comm.live().size() as c_int);
        Ok(())
    })
}

/// How often there was another process in the place of this one before it.
fn process_incarnation(incarnation: Place<'_, c_int>) -> c_int {
    call("MPIX_Process_incarnation", Target::World, |runtime| {
        incarnation.checked("incarnation")?.set(runtime.process().incarnation() as c_int);
        Ok(())
    })
}

/// A descriptor that becomes readable when some process has failed.
fn failure_fd(fd: Place<'_, c_int>) -> c_int {
    call("MPIX_Failure_fd", Target::World, |runtime| {
        let place = fd.checked("fd")?;
        place.set(runtime.process().failure_descriptor()?.into_raw_fd());
        Ok(())
    })
}

/// How often a communicator has recovered in place.
fn comm_generation(comm: MPI_Comm, generation: Place<'_, c_int>) -> c_int {
    call("MPIX_Comm_generation", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        generation.checked("generation")?.set(object.comm.generation() as c_int);
        Ok(())
    })
}

exported_once! {
    /// `MPIX_Comm_set_ft_mode`, of `mpix_ft.h`.
    fn MPIX_Comm_set_ft_mode(
        comm: MPI_Comm, comm_mode: c_int, msg_mode: c_int, coll_mode: c_int, p2p_policy: c_int,
    ) -> c_int {
        comm_set_ft_mode(comm, comm_mode, msg_mode, coll_mode, p2p_policy)
    }

    /// `MPIX_Comm_get_ft_mode`, of `mpix_ft.h`.
    fn MPIX_Comm_get_ft_mode(
        comm: MPI_Comm, comm_mode: *mut c_int, msg_mode: *mut c_int,
        coll_mode: *mut c_int, p2p_policy: *mut c_int,
    ) -> c_int {
        comm_get_ft_mode(
            comm, Place::claim(comm_mode), Place::claim(msg_mode),
            Place::claim(coll_mode), Place::claim(p2p_policy),
        )
    }

    /// `MPIX_Comm_recover`, of `mpix_ft.h`.
    fn MPIX_Comm_recover(
        comm: MPI_Comm, flags: c_int, newcomm: *mut MPI_Comm, info: *mut MPIX_Recover_info,
    ) -> c_int {
        comm_recover(comm, flags, Place::claim(newcomm), Place::claim(info))
    }

    /// `MPIX_Comm_last_recovery`, of `mpix_ft.h`.
    fn MPIX_Comm_last_recovery(comm: MPI_Comm, flag: *mut c_int, info: *mut MPIX_Recover_info) -> c_int {
        comm_last_recovery(comm, Place::claim(flag), Place::claim(info))
    }

    /// `MPIX_Comm_coll_count`, of `mpix_ft.h`.
    fn MPIX_Comm_coll_count(comm: MPI_Comm, count: *mut MPI_Count) -> c_int {
        comm_coll_count(comm, Place::claim(count))
    }

    /// `MPIX_Comm_blank_group`, of `mpix_ft.h`.
    fn MPIX_Comm_blank_group(comm: MPI_Comm, blank: *mut MPI_Group) -> c_int {
        comm_blank_group(comm, Place::claim(blank))
    }

    /// `MPIX_Comm_live_group`, of `mpix_ft.h`.
    fn MPIX_Comm_live_group(comm: MPI_Comm, live: *mut MPI_Group) -> c_int {
        comm_live_group(comm, Place::claim(live))
    }

    /// `MPIX_Comm_is_blank`, of `mpix_ft.h`.
    fn MPIX_Comm_is_blank(comm: MPI_Comm, rank: c_int, flag: *mut c_int) -> c_int {
        comm_is_blank(comm, rank, Place::claim(flag))
    }

    /// `MPIX_Comm_live_size`, of `mpix_ft.h`.
    fn MPIX_Comm_live_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
        comm_live_size(comm, Place::claim(size))
    }

    /// `MPIX_Process_incarnation`, of `mpix_ft.h`.
    fn MPIX_Process_incarnation(incarnation: *mut c_int) -> c_int {
        process_incarnation(Place::claim(incarnation))
    }

    /// `MPIX_Failure_fd`, of `mpix_ft.h`.
    fn MPIX_Failure_fd(fd: *mut c_int) -> c_int {
        failure_fd(Place::claim(fd))
    }

    /// `MPIX_Comm_generation`, of `mpix_ft.h`.
    fn MPIX_Comm_generation(comm: MPI_Comm, generation: *mut c_int) -> c_int {
        comm_generation(comm, Place::claim(generation))
    }
}
