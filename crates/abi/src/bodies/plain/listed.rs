//! Operations with lists of lengths and displacements, of contiguous elements.

use std::cell::Cell;
use std::ffi::c_int;
use std::ops::Range;

use weft::claims::UserMemory;
use weft::collectives::{Block, Listed, Uneven};
use weft::{Combining, Communicator, Rank, Result};

use super::{Elements, arithmetic, conclude, reduction, root_of, row, usual};
use crate::bodies::collectives::is_in_place;
use crate::bodies::datatypes::row_bytes;
use crate::bodies::ways::Way;
use crate::claims::{Buffer, Received, Sent};
use crate::convert::{Counts, Displacements};
use crate::parts;
use crate::types::*;

/// A buffer with a block for each rank.
#[derive(Clone, Copy)]
pub(crate) struct BlockList<'call, B> {
    pub buffer: B,
    pub counts: Counts<'call>,
    pub places: Displacements<'call>,
    pub datatype: MPI_Datatype,
}

/// Where the blocks stand that a rank gives, or gets.
struct Blocks<B> {
    /// The memory that they span: whose, how far from the address it begins, and how many bytes.
    span: (B, isize, usize),
    /// One for each rank, or one for all; their offsets count from the beginning of the span.
    blocks: Vec<Block>,
}

thread_local! {
    /// Lists that this thread has used before.
    static SPARE: Cell<[Vec<Block>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

impl<B: Buffer> Blocks<B> {
    fn new(blocks: Vec<Block>) -> Blocks<B> {
        Blocks { span: (B::NULL, 0, 0), blocks }
    }

    /// One block, which is all of a buffer.
    fn fill_whole(&mut self, buffer: B, bytes: usize) {
        self.span = (buffer, 0, bytes);
        self.blocks.push(Block { offset: 0, bytes });
    }

    /// The blocks of so many ranks; `None` where they are not contiguous elements at addresses that can be.
    fn fill(&mut self, list: BlockList<'_, B>, ranks: u32) -> Option<()> {
        let BlockList { buffer, counts, places, datatype } = list;
        if !buffer.is_plain() || counts.is_null() || places.is_null() {
            return None;
        }
        let each = i64::try_from(row_bytes(datatype, 1).filter(|bytes| *bytes > 0)?).ok()?;
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for rank in 0..ranks as usize {
            let (count, place) = (counts.at(rank), places.at(rank));
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
        self.span = (buffer, isize::try_from(low).ok()?, usize::try_from(high.checked_sub(low)?).ok()?);
        Some(())
    }

    /// The addresses of the memory that they span.
    fn range(&self) -> Range<usize> {
        let (buffer, offset, bytes) = self.span;
        let start = buffer.start().addr().wrapping_add_signed(offset);
        start..start.wrapping_add(bytes)
    }

    /// The length of that rank's block.
    fn bytes(&self, rank: Rank) -> usize {
        self.blocks[rank.0 as usize].bytes
    }
}

/// Does what is described for this rank; `None` where nothing has happened.
fn perform(
    way: &Way<'_>,
    comm: MPI_Comm,
    combining: Combining<'static>,
    describe: impl FnOnce(&Communicator, &mut Blocks<Sent>, &mut Blocks<Received>) -> Option<Uneven>,
) -> Option<c_int> {
    if !way.is_blocking() {
        return None;
    }
    let held = usual(way, comm)?;
    // At the exit of a thread there may be none.
    let spare = SPARE.try_with(Cell::take).unwrap_or_default();
    let [gives, gets] = spare;
    let (mut gives, mut gets) = (Blocks::new(gives), Blocks::new(gets));
    let does = || -> Option<Result<()>> {
        let what = describe(&held.comm, &mut gives, &mut gets)?;
        if !parts::are_apart(&gives.range(), &gets.range()) {
            return None;
        }
        let listed = Listed { what, sends: &gives.blocks, receives: &gets.blocks };
        // What lies between blocks is claimed as well, and never touched.
        let (buffer, offset, bytes) = gives.span;
        let input = buffer.payload(offset, bytes);
        let (buffer, offset, bytes) = gets.span;
        let output = if bytes == 0 { UserMemory::EMPTY } else { buffer.memory(offset, bytes) };
        Some(held.comm.perform_uneven(listed, input, output, combining))
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
#[inline(never)]
pub(crate) fn gatherv(
    way: &Way<'_>,
    sends: Elements<Sent>,
    all: BlockList<'_, Received>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(sends)?;
    perform(way, comm, Combining::Nothing, |comm, gives, gets| {
        let root = root_of(comm, root)?;
        gives.fill_whole(sends.0, bytes);
        if comm.rank() == root {
            gets.fill(all, comm.size())?;
            (gets.bytes(root) == bytes).then_some(())?;
        }
        Some(Uneven::Gather { root, in_place: false })
    })
}

/// `MPI_Scatterv`.
#[inline(never)]
pub(crate) fn scatterv(
    way: &Way<'_>,
    all: BlockList<'_, Sent>,
    receives: Elements<Received>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(receives)?;
    perform(way, comm, Combining::Nothing, |comm, gives, gets| {
        let root = root_of(comm, root)?;
        gets.fill_whole(receives.0, bytes);
        if comm.rank() == root {
            gives.fill(all, comm.size())?;
            (gives.bytes(root) == bytes).then_some(())?;
        }
        Some(Uneven::Scatter { root, in_place: false })
    })
}

/// `MPI_Allgatherv`.
#[inline(never)]
pub(crate) fn allgatherv(
    way: &Way<'_>,
    sends: Elements<Sent>,
    all: BlockList<'_, Received>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(sends)?;
    perform(way, comm, Combining::Nothing, |comm, gives, gets| {
        gives.fill_whole(sends.0, bytes);
        gets.fill(all, comm.size())?;
        (gets.bytes(comm.rank()) == bytes).then_some(Uneven::Allgather { in_place: false })
    })
}

/// `MPI_Alltoallv`.
#[inline(never)]
pub(crate) fn alltoallv(
    way: &Way<'_>,
    sends: BlockList<'_, Sent>,
    receives: BlockList<'_, Received>,
    comm: MPI_Comm,
) -> Option<c_int> {
    perform(way, comm, Combining::Nothing, |comm, gives, gets| {
        gives.fill(sends, comm.size())?;
        gets.fill(receives, comm.size())?;
        let is_same = gives.bytes(comm.rank()) == gets.bytes(comm.rank());
        is_same.then_some(Uneven::Alltoall { in_place: false })
    })
}

/// `MPI_Reduce_scatter`.
#[inline(never)]
pub(crate) fn reduce_scatter(
    way: &Way<'_>,
    sendbuf: Sent,
    recvbuf: Received,
    counts: Counts<'_>,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let combining = arithmetic(op, datatype)?;
    let operator = reduction(combining, 0, false)?.operator;
    if counts.is_null() || is_in_place(sendbuf) || !sendbuf.is_plain() || !recvbuf.is_plain() {
        return None;
    }
    perform(way, comm, combining, |comm, gives, gets| {
        let mut offset = 0usize;
        for rank in 0..comm.size() as usize {
            let bytes = row_bytes(datatype, counts.at(rank))?;
            gives.blocks.push(Block { offset, bytes });
            offset = offset.checked_add(bytes)?;
        }
        gives.span = (sendbuf, 0, offset);
        gets.fill_whole(recvbuf, gives.bytes(comm.rank()));
        Some(Uneven::ReduceScatter { operator, in_place: false })
    })
}
