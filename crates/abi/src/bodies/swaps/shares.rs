//! Barriers, broadcasts, allgathers and sums of few elements among more than two ranks whose shares stand on a board.

use std::ffi::{c_int, c_void};

use datatype::reduce_packed;
use weft::claims::{Payload, Share, UserMemory};
use weft::collectives::{COMBINED_BY_ALL_BYTES_MAX, Halves};
use weft::{Communicator, Rank, Result};

use super::{Combining, Drawer, SHORT_BYTES_MAX, are_apart};
use crate::bodies::ways::Way;
use crate::calls;
use crate::entry::Target;
use crate::errors::finish;
use crate::state;
use crate::types::*;

/// Does it, of so many bytes, with a communicator, which it may wait in; `None` where nothing has happened.
fn with(
    way: &Way,
    bytes: usize,
    comm: MPI_Comm,
    does: impl FnOnce(&Communicator) -> Option<Result<()>>,
) -> Option<c_int> {
    if !way.is_blocking() || bytes > SHORT_BYTES_MAX {
        return None;
    }
    let held = state::undistracted()?.find_comm(comm)?;
    calls::enter(way.name());
    let done = does(&held.comm)?;
    Some(finish(way.name(), Target::Comm(comm), done))
}

/// `MPI_Barrier`; `None` where nothing has happened, here and below.
#[inline(never)]
pub(super) fn barrier(way: &Way, comm: MPI_Comm) -> Option<c_int> {
    with(way, 0, comm, |comm| comm.share(Share::OfAll(Payload::EMPTY), |_, _| {}))
}

/// `MPI_Bcast` of so many bytes.
///
/// # Safety
/// They can be read at the root, and as many written elsewhere.
#[inline(never)]
pub(super) unsafe fn bcast(
    way: &Way,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let root = Rank(u32::try_from(root).ok()?);
    with(way, bytes, comm, |comm| {
        if root == comm.rank() {
            // SAFETY: the caller's promise.
            return comm.share(Share::Given(unsafe { Payload::claim(buffer.cast(), bytes) }), |_, _| {});
        }
        // SAFETY: the caller's promise.
        let mut room = unsafe { UserMemory::claim(buffer.cast(), bytes) };
        comm.share(Share::Of(root, bytes), |_, data| {
            room.write_at(0, data);
        })
    })
}

/// `MPI_Allgather` of so many bytes of each rank.
///
/// # Safety
/// This rank's can be read, and those of all be written.
#[inline(never)]
pub(super) unsafe fn allgather(
    way: &Way,
    (own, bytes): (*const u8, usize),
    recvbuf: *mut c_void,
    comm: MPI_Comm,
) -> Option<c_int> {
    with(way, bytes, comm, |comm| {
        let all = bytes * comm.size() as usize;
        if !are_apart(own.cast(), bytes, recvbuf, all) {
            return None;
        }
        // SAFETY: the caller's promise.
        let (own, mut places) =
            unsafe { (Payload::claim(own, bytes), UserMemory::claim(recvbuf.cast(), all)) };
        let mut place = |of: Rank, data: Payload<'_>| {
            places.write_at(of.0 as usize * bytes, data);
        };
        let shared = comm.share(Share::OfAll(own), &mut place)?;
        place(comm.rank(), own);
        Some(shared)
    })
}

/// `MPI_Allreduce` of so many bytes of this rank's.
///
/// # Safety
/// They can be read, and as many written where the result goes.
#[inline(never)]
pub(super) unsafe fn allreduce(
    way: &Way,
    (own, bytes): (*const u8, usize),
    recvbuf: *mut c_void,
    combining: Combining,
    comm: MPI_Comm,
) -> Option<c_int> {
    let Combining { operator, predefined } = combining;
    let elements = bytes / predefined.size() as usize;
    let mut drawer = Drawer::<SHORT_BYTES_MAX>::uninit();
    with(way, bytes, comm, |comm| {
        let (size, all) = (comm.size(), comm.size() as usize * bytes);
        if size < 3 || all > COMBINED_BY_ALL_BYTES_MAX {
            return None;
        }
        // Threads may have small stacks.
        let mut long = (all > SHORT_BYTES_MAX).then(|| Box::<[u8]>::new_uninit_slice(all));
        let start: *mut u8 =
            long.as_mut().map_or(drawer.as_mut_ptr().cast(), |long| long.as_mut_ptr().cast());
        let (halves, at) = (Halves::of(size), |place: u32| place as usize * bytes);
        // SAFETY: the caller promised that its elements can be read; the room is used by nothing else, and long enough.
        let (own, mut places) = unsafe { (Payload::claim(own, bytes), UserMemory::claim(start, all)) };
        places.write_at(at(halves.place(comm.rank())), own);
        let shared = comm.share(Share::OfAll(own), |from, data| {
            places.write_at(at(halves.place(from)), data);
        })?;
        let combine = |()| {
            for (lower, higher, count) in halves.runs() {
                // SAFETY: all places are written, and these are not those that are written next.
                let left = unsafe { Payload::claim(start.wrapping_add(at(lower)), at(count)) };
                let mut right = places.part(at(higher), at(count));
                reduce_packed(operator, predefined, elements * count as usize, left, &mut right)
                    .expect("`of` has seen that it is defined");
            }
            // SAFETY: the caller promised that the result can be written, where nobody reads any more.
            let mut result = unsafe { UserMemory::claim(recvbuf.cast(), bytes) };
            result.write_at(0, places.payload().part(at(halves.result()), bytes));
        };
        Some(shared.map(combine))
    })
}
