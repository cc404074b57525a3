//! Blocking exchanges between the neighbours of a topology (MPI 5.0 §8.6).
//!
//! What lies beyond an open border is nobody: nothing is sent there, and the block that would come from there stays as
//! it is.

use std::ffi::{c_int, c_void};

use weft::collectives::{Around, Block, Schedule};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::bytes_of;
use crate::bodies::collectives::{listed, listed_with_types, refuse_in_place, whole};
use crate::bodies::datatypes::resolve_committed;
use crate::convert::{Counts, Displacements};
use crate::entry::Target;
use crate::objects::Type;
use crate::parts::{Input, Output, Piece};
use crate::state::{Runtime, call};
use crate::types::*;

/// Everybody's block to its neighbours, and theirs to their places.
///
/// # Safety
/// `sendbuf` holds `sendcount` elements, `recvbuf` has room for `recvcount` elements of every source.
pub unsafe fn mpi_neighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Neighbor_allgather", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let comm = &object.comm;
        let sources = &comm.neighbourhood()?.sources;
        // SAFETY: the program's promises are handed on, here and below.
        let input = unsafe { Input::new(sendbuf, &whole(runtime, sendcount, sendtype)?)? };
        let room = Room::new(runtime, sources, recvcount, recvtype)?;
        // SAFETY: as above.
        let output = unsafe { Output::new(recvbuf, &room.pieces, false)? };
        comm.check(|| "MPI_Neighbor_allgather".to_owned())?;
        let (sent, bytes) = (input.payload.bytes(), room.bytes);
        if room.is_even && sent == bytes {
            return around(comm, Around::Allgather { bytes }, &input, output);
        }
        run(comm, &input, output, |neighbourhood, _, receives| neighbourhood.allgatherv(sent, receives))
    })
}

/// The same into places that differ, of blocks that differ in length.
///
/// # Safety
/// As for [`mpi_neighbor_allgather`]; the arrays have an entry for every source.
pub unsafe fn mpi_neighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displacements,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Neighbor_allgatherv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let comm = &object.comm;
        let sources = &comm.neighbourhood()?.sources;
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            let pieces = listed(runtime, sources.len(), recvcounts, displs, recvtype)?;
            let input = Input::new(sendbuf, &whole(runtime, sendcount, sendtype)?)?;
            (input, Output::new(recvbuf, &present(pieces, sources), false)?)
        };
        comm.check(|| "MPI_Neighbor_allgatherv".to_owned())?;
        let sent = input.payload.bytes();
        run(comm, &input, output, |neighbourhood, _, receives| neighbourhood.allgatherv(sent, receives))
    })
}

/// A block to each destination, and one from each source.
///
/// # Safety
/// `sendbuf` holds `sendcount` elements for every destination, `recvbuf` has room for `recvcount` of every source.
pub unsafe fn mpi_neighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Neighbor_alltoall", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let comm = &object.comm;
        let neighbourhood = comm.neighbourhood()?;
        let gives = Room::new(runtime, &neighbourhood.destinations, sendcount, sendtype)?;
        let gets = Room::new(runtime, &neighbourhood.sources, recvcount, recvtype)?;
        // SAFETY: the program's promises are handed on.
        let (input, output) =
            unsafe { (Input::new(sendbuf, &gives.pieces)?, Output::new(recvbuf, &gets.pieces, false)?) };
        comm.check(|| "MPI_Neighbor_alltoall".to_owned())?;
        if gives.is_even && gets.is_even && gives.bytes == gets.bytes {
            return around(comm, Around::Alltoall { bytes: gets.bytes }, &input, output);
        }
        let blocks = |room: &Room, blocks: &[Block]| match room.is_even {
            true => room.blocks(),
            false => blocks.to_vec(),
        };
        run(comm, &input, output, |neighbourhood, sends, receives| {
            neighbourhood.alltoallv(&blocks(&gives, sends), &blocks(&gets, receives))
        })
    })
}

/// The same with blocks that stand anywhere and differ in length.
///
/// # Safety
/// All arrays have an entry for every destination or source, and the buffers what they say.
pub unsafe fn mpi_neighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Displacements,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Displacements,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Neighbor_alltoallv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let comm = &object.comm;
        let neighbourhood = comm.neighbourhood()?;
        let (sources, destinations) = (&neighbourhood.sources, &neighbourhood.destinations);
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            let gives = listed(runtime, destinations.len(), sendcounts, sdispls, sendtype)?;
            let gets = listed(runtime, sources.len(), recvcounts, rdispls, recvtype)?;
            let input = Input::new(sendbuf, &present(gives, destinations))?;
            (input, Output::new(recvbuf, &present(gets, sources), false)?)
        };
        comm.check(|| "MPI_Neighbor_alltoallv".to_owned())?;
        run(comm, &input, output, |neighbourhood, sends, receives| neighbourhood.alltoallv(sends, receives))
    })
}

/// The same with blocks of different types.
///
/// # Safety
/// All arrays have an entry for every destination or source, and the buffers what they say.
pub unsafe fn mpi_neighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Neighbor_alltoallw", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let comm = &object.comm;
        let neighbourhood = comm.neighbourhood()?;
        let (sources, destinations) = (&neighbourhood.sources, &neighbourhood.destinations);
        let (sdispls, rdispls) = (Displacements::Aint(sdispls), Displacements::Aint(rdispls));
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            let gives = listed_with_types(runtime, destinations.len(), sendcounts, sdispls, sendtypes)?;
            let gets = listed_with_types(runtime, sources.len(), recvcounts, rdispls, recvtypes)?;
            let input = Input::new(sendbuf, &present(gives, destinations))?;
            (input, Output::new(recvbuf, &present(gets, sources), false)?)
        };
        comm.check(|| "MPI_Neighbor_alltoallw".to_owned())?;
        run(comm, &input, output, |neighbourhood, sends, receives| neighbourhood.alltoallv(sends, receives))
    })
}

/// Blocks of one length, one behind the other.
struct Room {
    pieces: Vec<Piece>,
    /// Length of each block.
    bytes: usize,
    count: usize,
    /// The pieces are one, in which the blocks stand packed.
    is_even: bool,
}

impl Room {
    fn new(
        runtime: &'static Runtime,
        neighbours: &[Option<Rank>],
        count: i64,
        datatype: MPI_Datatype,
    ) -> Result<Room> {
        let resolve = || resolve_committed(runtime, datatype);
        let bytes = bytes_of(count, &*resolve()?)?;
        let beyond = || Error::new(Class::Count, format!("the count is {count}"));
        let blocks = neighbours.len() as i64;
        let total = count.checked_mul(blocks).ok_or_else(beyond)?;
        let is_even = resolve()?.is_dense();
        let pieces = match is_even {
            true => vec![Piece { offset: 0, count: total, datatype: resolve()? }],
            false => {
                let step = resolve()?.extent().checked_mul(count).ok_or_else(beyond)?;
                step.checked_mul(blocks).ok_or_else(beyond)?;
                let piece = |block: i64| -> Result<Piece> {
                    let datatype: Type = resolve()?;
                    Ok(Piece { offset: block * step, count, datatype })
                };
                present((0..blocks).map(piece).collect::<Result<_>>()?, neighbours)
            }
        };
        Ok(Room { pieces, bytes, count: neighbours.len(), is_even })
    }

    /// The blocks of an even room.
    fn blocks(&self) -> Vec<Block> {
        (0..self.count).map(|block| Block { offset: block * self.bytes, bytes: self.bytes }).collect()
    }
}

/// Pieces for neighbours that are there; for nobody nothing is packed and nothing is brought to its place.
fn present(mut pieces: Vec<Piece>, neighbours: &[Option<Rank>]) -> Vec<Piece> {
    for (piece, neighbour) in pieces.iter_mut().zip(neighbours) {
        if neighbour.is_none() {
            piece.count = 0;
        }
    }
    pieces
}

/// An exchange that may come again.
fn around(comm: &Communicator, around: Around, input: &Input, mut output: Output) -> Result<()> {
    comm.perform_around(around, input.payload, output.lend())?;
    output.finish()
}

/// An exchange whose schedule is made for it, from the blocks that are given and that are got.
fn run(
    comm: &Communicator,
    input: &Input,
    mut output: Output,
    schedule: impl FnOnce(&weft::collectives::Neighbourhood, &[Block], &[Block]) -> Schedule,
) -> Result<()> {
    let lent = output.lend();
    let (sends, receives) = (&input.blocks, &output.blocks);
    comm.run_around(|neighbourhood| schedule(neighbourhood, sends, receives), input.payload, lent)?;
    output.finish()
}
