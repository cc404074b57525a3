//! Operations with lists of lengths and displacements, of contiguous elements.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use weft::collectives::{Block, Listed, Uneven};
use weft::{Communicator, Rank, Result};

use super::{Arithmetic, Elements, NOTHING, are_apart, conclude, readable, root_of, row, usual, writable};
use crate::arguments::is_plain;
use crate::bodies::collectives::is_in_place;
use crate::bodies::datatypes::row_bytes;
use crate::bodies::ways::Way;
use crate::convert::{Counts, Displacements};
use crate::types::*;

/// A buffer with a block for each rank.
#[derive(Clone, Copy)]
pub(crate) struct List {
    pub buffer: *mut c_void,
    pub counts: Counts,
    pub places: Displacements,
    pub datatype: MPI_Datatype,
}

/// Where the blocks stand that a rank gives, or gets.
struct Blocks {
    /// The memory that they span.
    span: (*mut c_void, usize),
    /// One for each rank, or one for all; their offsets count from the beginning of the span.
    blocks: Vec<Block>,
}

thread_local! {
    /// Lists that this thread has used before.
    static SPARE: Cell<[Vec<Block>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

impl Blocks {
    fn new(blocks: Vec<Block>) -> Blocks {
        Blocks { span: (NOTHING.cast_mut(), 0), blocks }
    }

    /// One block, which is all of a buffer.
    fn fill_whole(&mut self, buffer: *const c_void, bytes: usize) {
        self.span = (buffer.cast_mut(), bytes);
        self.blocks.push(Block { offset: 0, bytes });
    }

    /// The blocks of so many ranks; `None` where they are not contiguous elements at addresses that can be.
    ///
    /// # Safety
    /// The lists have an entry for each.
    unsafe fn fill(&mut self, list: List, ranks: u32) -> Option<()> {
        let List { buffer, counts, places, datatype } = list;
        if !is_plain(buffer) || counts.is_null() || places.is_null() {
            return None;
        }
        let each = i64::try_from(row_bytes(datatype, 1).filter(|bytes| *bytes > 0)?).ok()?;
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for rank in 0..ranks as usize {
            // SAFETY: the caller's promise.
            let (count, place) = unsafe { (counts.at(rank), places.at(rank)) };
            let (offset, bytes) = (place.checked_mul(each)?, row_bytes(datatype, count)?);
            if bytes > 0 {
                (low, high) = (low.min(offset), high.max(offset.checked_add(bytes as i64)?));
            }
            self.blocks.push(Block { offset: offset as usize, bytes });
        }
        if low > high {
            (low, high) = (0, 0);
        }
        for block in &mut self.blocks {
            block.offset = if block.bytes > 0 { block.offset.wrapping_sub(low as usize) } else { 0 };
        }
        let start = buffer.cast::<u8>().wrapping_offset(isize::try_from(low).ok()?);
        self.span = (start.cast(), usize::try_from(high.checked_sub(low)?).ok()?);
        Some(())
    }

    /// The length of that rank's block.
    fn bytes(&self, rank: Rank) -> usize {
        self.blocks[rank.0 as usize].bytes
    }
}

/// Does what is described for this rank; `None` where nothing has happened.
///
/// # Safety
/// The program's promise of what is described: it can be read and written.
unsafe fn perform(
    way: &Way,
    comm: MPI_Comm,
    arithmetic: Arithmetic,
    describe: impl FnOnce(&Communicator, &mut Blocks, &mut Blocks) -> Option<Uneven>,
) -> Option<c_int> {
    if !way.is_blocking() {
        return None;
    }
    let held = usual(way, comm)?;
    // At the exit of a thread there may be none.
    let spare = SPARE.try_with(Cell::take).unwrap_or_default();
    let [mut gives, mut gets] = spare.map(Blocks::new);
    let does = || -> Option<Result<()>> {
        let what = describe(&held.comm, &mut gives, &mut gets)?;
        if !are_apart((gives.span.0, gives.span.1), (gets.span.0, gets.span.1)) {
            return None;
        }
        let listed = Listed { what, sends: &gives.blocks, receives: &gets.blocks };
        // SAFETY: the caller's promise; what lies between blocks is claimed as well, and never touched.
        let (input, output) = unsafe { (readable((gives.span.0, gives.span.1)), writable(gets.span)) };
        Some(held.comm.perform_uneven(listed, input, output, arithmetic.combining()))
    };
    let done = does();
    let spare = [gives.blocks, gets.blocks].map(|mut blocks| {
        blocks.clear();
        blocks
    });
    let _ = SPARE.try_with(|all| all.set(spare));
    done.map(|done| conclude(way, comm, done))
}

/// `MPI_Gatherv`; `None` where nothing has happened, here and below.
///
/// # Safety
/// The program's buffers and lists hold what the arguments say until the operation is over.
#[inline(never)]
pub(crate) unsafe fn gatherv(
    way: &Way,
    sends: Elements<*const c_void>,
    all: List,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(sends)?;
    // SAFETY: the program promised lists of all at the root, here and below; otherwise the caller's promise.
    unsafe {
        perform(way, comm, Arithmetic::None, |comm, gives, gets| {
            let root = root_of(comm, root)?;
            gives.fill_whole(sends.0, bytes);
            if comm.rank() == root {
                gets.fill(all, comm.size())?;
                (gets.bytes(root) == bytes).then_some(())?;
            }
            Some(Uneven::Gather { root, in_place: false })
        })
    }
}

/// `MPI_Scatterv`.
///
/// # Safety
/// The program's buffers and lists hold what the arguments say until the operation is over.
#[inline(never)]
pub(crate) unsafe fn scatterv(
    way: &Way,
    all: List,
    receives: Elements<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(receives)?;
    // SAFETY: the caller's promise.
    unsafe {
        perform(way, comm, Arithmetic::None, |comm, gives, gets| {
            let root = root_of(comm, root)?;
            gets.fill_whole(receives.0, bytes);
            if comm.rank() == root {
                gives.fill(all, comm.size())?;
                (gives.bytes(root) == bytes).then_some(())?;
            }
            Some(Uneven::Scatter { root, in_place: false })
        })
    }
}

/// `MPI_Allgatherv`.
///
/// # Safety
/// The program's buffers and lists hold what the arguments say until the operation is over.
#[inline(never)]
pub(crate) unsafe fn allgatherv(
    way: &Way,
    sends: Elements<*const c_void>,
    all: List,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(sends)?;
    // SAFETY: the caller's promise.
    unsafe {
        perform(way, comm, Arithmetic::None, |comm, gives, gets| {
            gives.fill_whole(sends.0, bytes);
            gets.fill(all, comm.size())?;
            (gets.bytes(comm.rank()) == bytes).then_some(Uneven::Allgather { in_place: false })
        })
    }
}

/// `MPI_Alltoallv`.
///
/// # Safety
/// The program's buffers and lists hold what the arguments say until the operation is over.
#[inline(never)]
pub(crate) unsafe fn alltoallv(way: &Way, sends: List, receives: List, comm: MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        perform(way, comm, Arithmetic::None, |comm, gives, gets| {
            gives.fill(sends, comm.size())?;
            gets.fill(receives, comm.size())?;
            let is_same = gives.bytes(comm.rank()) == gets.bytes(comm.rank());
            is_same.then_some(Uneven::Alltoall { in_place: false })
        })
    }
}

/// `MPI_Reduce_scatter`.
///
/// # Safety
/// The program's buffers and lists hold what the arguments say until the operation is over.
#[inline(never)]
pub(crate) unsafe fn reduce_scatter(
    way: &Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    counts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let arithmetic = Arithmetic::of(op, datatype)?;
    let operator = arithmetic.reduction(0, false)?.operator;
    if counts.is_null() || is_in_place(sendbuf) || !is_plain(sendbuf) || !is_plain(recvbuf) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        perform(way, comm, arithmetic, |comm, gives, gets| {
            let mut offset = 0usize;
            for rank in 0..comm.size() as usize {
                let bytes = row_bytes(datatype, counts.at(rank))?;
                gives.blocks.push(Block { offset, bytes });
                offset = offset.checked_add(bytes)?;
            }
            gives.span = (sendbuf.cast_mut(), offset);
            gets.fill_whole(recvbuf, gives.bytes(comm.rank()));
            Some(Uneven::ReduceScatter { operator, in_place: false })
        })
    }
}
