//! The names of FT-MPI, declared in `mpix_ftmpi.h`: a program that includes it calls these in place of three
//! functions of MPI (decision 0014). Nothing of it is in the way of those who do not.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use weft::{Communicator, MessageMode};

use crate::bodies::communicators::mpi_comm_dup;
use crate::bodies::world::{mpi_init, mpi_init_thread};
use crate::claims::{Place, Variable};
use crate::entry::exported_once;
use crate::generated::constants::*;
use crate::recovery::{collectives_number, comm_recover, mode_number};
use crate::state::runtime;
use crate::types::*;

/// What `MPI_Comm_dup` finds where its answer goes, when it is to recover: no communicator has that value.
const FT_MPI_CHECK_RECOVER: MPI_Comm = MPI_Comm::from_value(0xf7d);
/// The code that `MPI_Init` returns in a process that was started in the place of a failed one.
pub(crate) const MPIX_INIT_RESTARTED_NODE: c_int = 4100;

/// This program calls by these names.
static IS_ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// Whether a process that has failed is `MPI_ERR_OTHER` (rule G4).
pub(crate) fn is_asked_for() -> bool {
    IS_ASKED_FOR.load(Ordering::Relaxed)
}

/// As `MPI_Init`; a process that was started in the place of another one learns it so, and no error handler
/// is called.
fn ftmpi_init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    IS_ASKED_FOR.store(true, Ordering::Relaxed);
    begun(mpi_init(argc, argv))
}

/// As `MPI_Init_thread`, in the same way.
fn ftmpi_init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: Place<'_, c_int>,
) -> c_int {
    IS_ASKED_FOR.store(true, Ordering::Relaxed);
    begun(mpi_init_thread(argc, argv, required, provided))
}

fn begun(code: c_int) -> c_int {
    let is_restarted = runtime().is_some_and(|runtime| runtime.process().incarnation() > 0);
    if code == MPI_SUCCESS && is_restarted { MPIX_INIT_RESTARTED_NODE } else { code }
}

/// As `MPI_Comm_dup`, unless its answer says beforehand that the communicator is to recover.
fn ftmpi_comm_dup(comm: MPI_Comm, newcomm: Variable<'_, MPI_Comm>) -> c_int {
    if newcomm.there().is_some_and(|found| found.get() == FT_MPI_CHECK_RECOVER) {
        return comm_recover(comm, 0, newcomm.place(), Place::NULL);
    }
    mpi_comm_dup(comm, newcomm.place())
}

/// The numbers that programs read of a communicator under FT-MPI's keys. Programs may keep pointers to them,
/// so a communicator that replaces another one by a recovery shares its numbers.
#[derive(Clone, Default)]
pub(crate) struct Facts {
    numbers: OnceLock<Arc<[AtomicI32; KEYS as usize]>>,
}

impl Facts {
    /// The number under a key, as it is now; none where that is not FT-MPI's.
    pub(crate) fn find(&self, comm: &Communicator, keyval: c_int) -> Option<*mut c_int> {
        let at = keyval.checked_sub(FTMPI_RECOVERY_MODE).filter(|at| (0..KEYS).contains(at))?;
        let modes = comm.ft_modes();
        let number = match keyval {
            FTMPI_RECOVERY_MODE => RECOVERED_BY_HAND,
            FTMPI_COMM_MODE => mode_number(modes.comm),
            FTMPI_MSG_MODE => c_int::from(modes.messages == MessageMode::Continue),
            FTMPI_COLL_MODE => collectives_number(modes.collectives),
            _ => comm.among_living().failed().size() as c_int,
        };
        let place = &self.numbers.get_or_init(Arc::default)[at as usize];
        place.store(number, Ordering::Relaxed);
        Some(place.as_ptr())
    }
}

/// Keys of attributes that are read, as `mpix_ftmpi.h` has them: below those of programs, and none of the
/// standard. The last one is how many have failed since the last recovery.
const FTMPI_RECOVERY_MODE: c_int = 4001;
const FTMPI_COMM_MODE: c_int = 4002;
const FTMPI_MSG_MODE: c_int = 4003;
const FTMPI_COLL_MODE: c_int = 4004;
const KEYS: c_int = 5;
/// Nothing recovers before the program says so.
const RECOVERED_BY_HAND: c_int = 1;

exported_once! {
    /// `MPIX_FTMPI_Init`, of `mpix_ftmpi.h`.
    fn MPIX_FTMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
        ftmpi_init(argc, argv)
    }

    /// `MPIX_FTMPI_Init_thread`, of `mpix_ftmpi.h`.
    fn MPIX_FTMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int,
    ) -> c_int {
        ftmpi_init_thread(argc, argv, required, Place::claim(provided))
    }

    /// `MPIX_FTMPI_Comm_dup`, of `mpix_ftmpi.h`.
    fn MPIX_FTMPI_Comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
        ftmpi_comm_dup(comm, Variable::claim(newcomm))
    }
}
