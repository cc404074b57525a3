//! Long data of two ranks that share memory: what is described in general, and looked at before, takes as long as a quarter of the operation
//! itself at 16 KiB, and is as usual most of the time. As beside it, whatever is different goes the general way.

use std::ffi::{c_int, c_void};

use weft::Rank;
use weft::claims::Reduce;
use weft::collectives::{Buffers, Collective, Each, Rooted};

use super::{Blocks, Combining, are_apart, buffers, own};
use crate::arguments::is_plain;
use crate::bodies::collectives::is_in_place;
use crate::bodies::datatypes::row_bytes;
use crate::bodies::operators::Operation;
use crate::bodies::ways::Way;
use crate::calls;
use crate::entry::Target;
use crate::errors::finish;
use crate::state;
use crate::types::*;

/// Elements of one datatype.
type Elements = (MPI_Count, MPI_Datatype);

/// The bytes of a buffer whose elements stand in one row, and which holds some.
fn row(buffer: *const c_void, (count, datatype): Elements) -> Option<usize> {
    row_bytes(datatype, count).filter(|bytes| *bytes > 0 && is_plain(buffer))
}

/// Does the operation that is described for this one of two ranks; `None` where nothing has happened.
///
/// # Safety
/// The program's promise of what is described: it can be read and written.
unsafe fn perform(
    way: &Way,
    comm: MPI_Comm,
    combining: Option<Combining>,
    described: impl FnOnce(Rank) -> Option<(Collective, Buffers)>,
) -> Option<c_int> {
    if !way.is_blocking() {
        return None;
    }
    let held = state::undistracted()?.find_comm(comm)?;
    calls::enter(way.name());
    let (collective, Buffers { input, output }) = described(held.comm.rank())?;
    let operation = combining.map(|by| Operation::Predefined(by.operator, by.predefined));
    let combine: Reduce<'_> = &mut |left, right, out| {
        if let Some(operation) = &operation {
            operation.combine(left, right, out);
        }
    };
    let done = held.comm.perform_at_once(collective, input, output, combine)?;
    Some(finish(way.name(), Target::Comm(comm), done))
}

/// The root, if one of two ranks is.
fn root_of(root: c_int) -> Option<Rank> {
    (0..2).contains(&root).then_some(Rank(root as u32))
}

/// How many bytes the root has for all beside its own, and nobody else; what is said of them means something there alone. `None` where they are
/// not as usual.
fn at_root(
    is_root: bool,
    (own, bytes): (*const c_void, usize),
    (all, elements): (*const c_void, Elements),
) -> Option<usize> {
    let is_usual = || row(all, elements) == Some(bytes) && are_apart(own, bytes, all, 2 * bytes);
    if !is_root { Some(0) } else { is_usual().then_some(2 * bytes) }
}

/// `MPI_Bcast`.
///
/// # Safety
/// As for its body, here and below.
#[inline(never)]
pub(super) unsafe fn bcast(
    way: &Way,
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (root, bytes) = (root_of(root)?, row(buffer, (count, datatype))?);
    // SAFETY: the caller's promise, here and below.
    unsafe {
        perform(way, comm, None, |_| {
            let nothing = (std::ptr::dangling(), 0);
            Some((Collective::Bcast { root, bytes }, buffers(nothing, (buffer, bytes))))
        })
    }
}

/// `MPI_Allgather`, and `MPI_Alltoall` where there is a block to give for each rank: `each`.
///
/// # Safety
/// See above.
#[inline(never)]
pub(super) unsafe fn exchange(
    way: &Way,
    each: bool,
    (sendbuf, sendcount, sendtype): Blocks<*const c_void>,
    (recvbuf, recvcount, recvtype): Blocks<*mut c_void>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(recvbuf, (recvcount, recvtype))?;
    let sends = if each { 2 * bytes } else { bytes };
    if row(sendbuf, (sendcount, sendtype)) != Some(bytes) || !are_apart(sendbuf, sends, recvbuf, 2 * bytes) {
        return None;
    }
    let of = Each { bytes, in_place: false };
    let collective = if each { Collective::Alltoall(of) } else { Collective::Allgather(of) };
    // SAFETY: see above.
    unsafe {
        perform(way, comm, None, |_| Some((collective, buffers((sendbuf, sends), (recvbuf, 2 * bytes)))))
    }
}

/// `MPI_Gather`.
///
/// # Safety
/// See above.
#[inline(never)]
pub(super) unsafe fn gather(
    way: &Way,
    (sendbuf, sendcount, sendtype): Blocks<*const c_void>,
    (recvbuf, recvcount, recvtype): Blocks<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (root, bytes) = (root_of(root)?, row(sendbuf, (sendcount, sendtype))?);
    let collective = Collective::Gather(Rooted { root, bytes, in_place: false });
    // SAFETY: see above.
    unsafe {
        perform(way, comm, None, |here| {
            let receives = at_root(here == root, (sendbuf, bytes), (recvbuf, (recvcount, recvtype)))?;
            Some((collective, buffers((sendbuf, bytes), (recvbuf, receives))))
        })
    }
}

/// `MPI_Scatter`.
///
/// # Safety
/// See above.
#[inline(never)]
pub(super) unsafe fn scatter(
    way: &Way,
    (sendbuf, sendcount, sendtype): Blocks<*const c_void>,
    (recvbuf, recvcount, recvtype): Blocks<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (root, bytes) = (root_of(root)?, row(recvbuf, (recvcount, recvtype))?);
    let collective = Collective::Scatter(Rooted { root, bytes, in_place: false });
    // SAFETY: see above.
    unsafe {
        perform(way, comm, None, |here| {
            let sends = at_root(here == root, (recvbuf, bytes), (sendbuf, (sendcount, sendtype)))?;
            Some((collective, buffers((sendbuf, sends), (recvbuf, bytes))))
        })
    }
}

/// `MPI_Allreduce`.
///
/// # Safety
/// See above.
#[inline(never)]
pub(super) unsafe fn allreduce(
    way: &Way,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    elements: Elements,
    combining: Combining,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (bytes, in_place) = (row(recvbuf, elements)?, is_in_place(sendbuf));
    own((sendbuf, bytes), (recvbuf, bytes))?;
    let collective = Collective::Allreduce(combining.reduction(bytes, in_place)?);
    let sends = if in_place { 0 } else { bytes };
    // SAFETY: see above.
    unsafe {
        perform(way, comm, Some(combining), |_| {
            Some((collective, buffers((sendbuf, sends), (recvbuf, bytes))))
        })
    }
}

/// `MPI_Reduce`.
///
/// # Safety
/// See above.
#[inline(never)]
pub(super) unsafe fn reduce_to(
    way: &Way,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    elements: Elements,
    combining: Combining,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (root, bytes) = (root_of(root)?, row(sendbuf, elements)?);
    let collective = Collective::Reduce(root, combining.reduction(bytes, false)?);
    // SAFETY: see above.
    unsafe {
        perform(way, comm, Some(combining), |here| {
            let receives = if here == root { bytes } else { 0 };
            let is_usual = here != root || is_plain(recvbuf) && are_apart(sendbuf, bytes, recvbuf, receives);
            is_usual.then(|| (collective, buffers((sendbuf, bytes), (recvbuf, receives))))
        })
    }
}

/// `MPI_Reduce_scatter_block`.
///
/// # Safety
/// See above.
#[inline(never)]
pub(super) unsafe fn reduce_scatter_block(
    way: &Way,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    elements: Elements,
    combining: Combining,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(recvbuf, elements)?;
    let collective = Collective::ReduceScatterBlock(combining.reduction(bytes, false)?);
    if !is_plain(sendbuf) || !are_apart(sendbuf, 2 * bytes, recvbuf, bytes) {
        return None;
    }
    // SAFETY: see above.
    unsafe {
        perform(way, comm, Some(combining), |_| {
            Some((collective, buffers((sendbuf, 2 * bytes), (recvbuf, bytes))))
        })
    }
}

/// `MPI_Scan`, and `MPI_Exscan`, which is `exclusive`.
///
/// # Safety
/// See above.
#[inline(never)]
pub(super) unsafe fn scan(
    way: &Way,
    exclusive: bool,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    elements: Elements,
    combining: Combining,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(recvbuf, elements)?;
    let of = combining.reduction(bytes, false)?;
    let collective = if exclusive { Collective::Exscan(of) } else { Collective::Scan(of) };
    if !is_plain(sendbuf) || !are_apart(sendbuf, bytes, recvbuf, bytes) {
        return None;
    }
    // SAFETY: see above.
    unsafe {
        perform(way, comm, Some(combining), |here| {
            let receives = if exclusive && here == Rank(0) { 0 } else { bytes };
            Some((collective, buffers((sendbuf, bytes), (recvbuf, receives))))
        })
    }
}
