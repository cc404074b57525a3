//! Exchanges between the neighbours of a topology (MPI 5.0 §8.6 to §8.8), in each of their [ways](crate::bodies::ways).
//!
//! What lies beyond an open border is nobody: nothing is sent there, and the block that would come from there stays as
//! it is.

use std::ffi::{c_int, c_void};

use weft::collectives::{Around, Block, Neighbourhood};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::bytes_of;
use crate::bodies::collectives::{Entries, listed, listed_with_types, refuse_in_place, side};
use crate::bodies::datatypes::resolve_elements;
use crate::bodies::plain;
use crate::bodies::ways::{Described, Side, Way, What};
use crate::convert::{Counts, Displacements};
use crate::parts::Piece;
use crate::state::Runtime;
use crate::types::*;

/// Everybody's block to its neighbours, and theirs to their places.
///
/// # Safety
/// `sendbuf` holds `sendcount` elements, `recvbuf` has room for `recvcount` elements of every source; see [`Way::call`], here
/// and below.
pub unsafe fn mpi_neighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    way: Way,
) -> c_int {
    let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    // SAFETY: the program's promises are handed on.
    if let Some(code) = unsafe { plain::neighbours(&way, false, gives, gets, comm) } {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let living = comm.among_living();
        let sources = &living.neighbourhood()?.sources;
        let (gives, sent) = side(runtime, sendbuf, sendcount, sendtype, false)?;
        let room = Room::new(runtime, sources, recvcount, recvtype)?;
        let what = match room.is_even() && sent == room.bytes {
            true => What::Around(Around::Allgather { bytes: sent }),
            false => What::AroundToAll { receives: room.blocks() },
        };
        way.check(comm, || way.name().to_owned())?;
        Ok(Described::new(what, gives, room.side(recvbuf), false))
    };
    // SAFETY: the program's promises are handed on.
    unsafe { way.call(comm, describe) }
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
    way: Way,
) -> c_int {
    let describe = |runtime, comm: &Communicator| {
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let living = comm.among_living();
        let sources = &living.neighbourhood()?.sources;
        // SAFETY: the program promised an entry for every source.
        let pieces = unsafe { listed(runtime, Entries::all(sources.len()), recvcounts, displs, recvtype)? };
        let (gives, _) = side(runtime, sendbuf, sendcount, sendtype, false)?;
        way.check(comm, || way.name().to_owned())?;
        let gets = Side::listed(recvbuf, present(pieces, sources));
        Ok(Described::new(What::AroundToAll { receives: None }, gives, gets, false))
    };
    // SAFETY: the program's promises are handed on.
    unsafe { way.call(comm, describe) }
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
    way: Way,
) -> c_int {
    let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    // SAFETY: the program's promises are handed on.
    if let Some(code) = unsafe { plain::neighbours(&way, true, gives, gets, comm) } {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let living = comm.among_living();
        let neighbourhood = living.neighbourhood()?;
        let gives = Room::new(runtime, &neighbourhood.destinations, sendcount, sendtype)?;
        let gets = Room::new(runtime, &neighbourhood.sources, recvcount, recvtype)?;
        let what = match gives.is_even() && gets.is_even() && gives.bytes == gets.bytes {
            true => What::Around(Around::Alltoall { bytes: gets.bytes }),
            false => What::AroundEach { sends: gives.blocks(), receives: gets.blocks() },
        };
        way.check(comm, || way.name().to_owned())?;
        Ok(Described::new(what, gives.side(sendbuf), gets.side(recvbuf), false))
    };
    // SAFETY: the program's promises are handed on.
    unsafe { way.call(comm, describe) }
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
    way: Way,
) -> c_int {
    let describe = |runtime, comm: &Communicator| {
        let living = comm.among_living();
        let Neighbourhood { sources, destinations, .. } = living.neighbourhood()?;
        // SAFETY: the program promised an entry for every destination and source.
        let (gives, gets) = unsafe {
            let gives = listed(runtime, Entries::all(destinations.len()), sendcounts, sdispls, sendtype)?;
            (gives, listed(runtime, Entries::all(sources.len()), recvcounts, rdispls, recvtype)?)
        };
        of_each(&way, comm, (sendbuf, gives), (recvbuf, gets))
    };
    // SAFETY: the program's promises are handed on.
    unsafe { way.call(comm, describe) }
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
    way: Way,
) -> c_int {
    let describe = |runtime, comm: &Communicator| {
        let living = comm.among_living();
        let Neighbourhood { sources, destinations, .. } = living.neighbourhood()?;
        let (sdispls, rdispls) = (Displacements::Aint(sdispls), Displacements::Aint(rdispls));
        // SAFETY: the program promised an entry for every destination and source.
        let (gives, gets) = unsafe {
            let gives =
                listed_with_types(runtime, Entries::all(destinations.len()), sendcounts, sdispls, sendtypes)?;
            (gives, listed_with_types(runtime, Entries::all(sources.len()), recvcounts, rdispls, recvtypes)?)
        };
        of_each(&way, comm, (sendbuf, gives), (recvbuf, gets))
    };
    // SAFETY: the program's promises are handed on.
    unsafe { way.call(comm, describe) }
}

/// An exchange of pieces that stand anywhere.
fn of_each(
    way: &Way,
    comm: &Communicator,
    (sendbuf, gives): (*const c_void, Vec<Piece>),
    (recvbuf, gets): (*mut c_void, Vec<Piece>),
) -> Result<Described> {
    refuse_in_place(sendbuf)?;
    refuse_in_place(recvbuf)?;
    let living = comm.among_living();
    let Neighbourhood { sources, destinations, .. } = living.neighbourhood()?;
    way.check(comm, || way.name().to_owned())?;
    let gives = Side::listed(sendbuf, present(gives, destinations));
    let gets = Side::listed(recvbuf, present(gets, sources));
    Ok(Described::new(What::AroundEach { sends: None, receives: None }, gives, gets, false))
}

/// Blocks of one length, one behind the other.
struct Room {
    places: Places,
    /// Length of each block.
    bytes: usize,
    count: usize,
}

enum Places {
    /// One piece, in which the blocks stand packed.
    Even([Piece; 1]),
    /// A piece for each block.
    Apart(Vec<Piece>),
}

impl Room {
    #[inline]
    fn new(
        runtime: &'static Runtime,
        neighbours: &[Option<Rank>],
        count: i64,
        datatype: MPI_Datatype,
    ) -> Result<Room> {
        let datatype = resolve_elements(runtime, count, datatype)?;
        let bytes = bytes_of(count, &datatype)?;
        let beyond = || Error::new(Class::Count, format!("the count is {count}"));
        let blocks = neighbours.len() as i64;
        let total = count.checked_mul(blocks).ok_or_else(beyond)?;
        let places = if datatype.is_dense() {
            let count = if neighbours.iter().all(Option::is_none) { 0 } else { total };
            Places::Even([Piece { offset: 0, count, datatype }])
        } else {
            let step = datatype.extent().checked_mul(count).ok_or_else(beyond)?;
            step.checked_mul(blocks).ok_or_else(beyond)?;
            let piece = |block| Piece { offset: block * step, count, datatype: datatype.clone() };
            Places::Apart(present((0..blocks).map(piece).collect(), neighbours))
        };
        Ok(Room { places, bytes, count: neighbours.len() })
    }

    fn is_even(&self) -> bool {
        matches!(self.places, Places::Even(_))
    }

    fn side(self, buffer: *const c_void) -> Side {
        match self.places {
            Places::Even(piece) => Side::whole(buffer, piece),
            Places::Apart(pieces) => Side::listed(buffer, pieces),
        }
    }

    /// Where the blocks stand, one for each neighbour, if not as the pieces do.
    fn blocks(&self) -> Option<Vec<Block>> {
        let block = |at| Block { offset: at * self.bytes, bytes: self.bytes };
        self.is_even().then(|| (0..self.count).map(block).collect())
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
