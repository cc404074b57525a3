//! Exchanges of two ranks that are begun: what each gives is given at once, and they are over if the other's is there.

use std::ffi::{c_int, c_void};

use weft::claims::{Combine, Payload, Undertaking, UserMemory};
use weft::collectives::{Buffers, Collective};
use weft::{Communicator, Ongoing, Rank};

use super::{Aside, Combining, Given, SHORT_BYTES_MAX, Taken, with_long};
use crate::bodies::ways::Way;
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::RequestObject;
use crate::parts::{Input, Output};
use crate::requests::SENT;
use crate::state::{self, Short, with_usual_comm};
use crate::types::*;

/// An exchange that is begun: what is given and gotten at once, and what both ranks do if it goes on.
struct Exchanging<'a, D> {
    /// What this rank has for the other one.
    given: Given,
    taken: Taken,
    described: D,
    /// What goes on.
    ongoing: &'a mut Option<Ongoing>,
}

impl<D: FnOnce() -> Undertaking> Short for Exchanging<'_, D> {
    type Answer = Rank;

    #[inline(always)]
    fn on(self, comm: &Communicator) -> Option<Rank> {
        let Exchanging { given, taken, described, ongoing } = self;
        let rank = comm.rank();
        if rank.0 > 1 {
            return None;
        }
        // SAFETY: the promise of `begin_exchange`: what is given can be read, and the room be written, until it is over.
        let (payload, room) =
            unsafe { (Payload::claim(given.block(1 - rank.0), given.bytes), taken.room(rank)) };
        *ongoing = comm.begin_swap(payload, room, described)?;
        Some(rank)
    }
}

/// Begins an exchange. If it is over then, `then` does what is left, and its request is that of all that are; else it goes on as it is
/// `described`.
///
/// # Safety
/// What is given can be read and what it is taken to be written; and so what is described until it is over.
pub(super) unsafe fn begin_exchange(
    way: &Way,
    comm: MPI_Comm,
    (given, taken): (Given, Taken),
    described: impl FnOnce() -> Undertaking,
    then: impl FnOnce(Rank),
) -> Option<c_int> {
    let place = way.begins()?;
    let mut ongoing = None;
    let rank = with_usual_comm(comm, Exchanging { given, taken, described, ongoing: &mut ongoing })?;
    let Some(ongoing) = ongoing else {
        then(rank);
        place.set(SENT);
        return Some(MPI_SUCCESS);
    };
    let (input, output) = (Input::nothing(), Output::nothing());
    let object = RequestObject::Collective { errors_to: comm, ongoing, input, output };
    let runtime = state::runtime().expect("an exchange was begun");
    let adopted = runtime.adopt_request(object).map(|request| place.set(request));
    Some(finish(way.name(), Target::Comm(comm), adopted))
}

/// `MPI_Iallreduce`.
///
/// # Safety
/// `own` can be read, and `recvbuf` has room for as many, until it is over.
pub(super) unsafe fn begin_allreduce(
    way: &Way,
    in_place: bool,
    own: Given,
    recvbuf: *mut c_void,
    combining: Combining,
    comm: MPI_Comm,
) -> Option<c_int> {
    // What goes on needs as much wherever progress is made.
    if own.bytes > SHORT_BYTES_MAX {
        return None;
    }
    let of = combining.reduction(own.bytes, in_place)?;
    // What goes on is combined in some turn of progress, on whatever stack.
    with_long(|drawer| {
        let mut theirs = Aside::new(drawer, own.bytes);
        let taken = Taken { start: theirs.room().memory().start(), stride: 0, bytes: own.bytes };
        let described = || {
            // By the same function as where it is over at once, so that both ranks have the same bits.
            let combine: Combine = Box::new(move |left, right| {
                with_long(|drawer| {
                    let mut lower = Aside::new(drawer, left.bytes().min(right.bytes()));
                    lower.room().memory().write_at(0, left);
                    let place = right.start();
                    // SAFETY: what is combined is as long here and there, and was written.
                    unsafe { combining.combine(Rank(1), place.cast_const(), lower.come(), place.cast()) };
                });
            });
            let sends = if in_place { 0 } else { own.bytes };
            // SAFETY: the caller's promise.
            let buffers = unsafe { buffers((own.start.cast(), sends), (recvbuf, own.bytes)) };
            (Collective::Allreduce(of), buffers, Some(combine))
        };
        // SAFETY: the caller's promise; what has come is written when the exchange is over.
        unsafe {
            begin_exchange(way, comm, (own, taken), described, |rank| {
                combining.combine(rank, own.start, theirs.come(), recvbuf);
            })
        }
    })
}

/// Memory that an operation uses.
///
/// # Safety
/// So many bytes can be read, and so many written, until it is over.
pub(super) unsafe fn buffers(
    (sendbuf, sends): (*const c_void, usize),
    (recvbuf, receives): (*mut c_void, usize),
) -> Buffers {
    // Who gets nothing may have no address. SAFETY: the caller's promise.
    unsafe {
        Buffers {
            input: Payload::claim(sendbuf.cast(), sends),
            output: if receives == 0 {
                UserMemory::EMPTY
            } else {
                UserMemory::claim(recvbuf.cast(), receives)
            },
        }
    }
}
