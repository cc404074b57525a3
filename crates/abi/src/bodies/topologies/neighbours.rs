//! Exchanges between the neighbours of a topology, blocking and not (MPI 5.0 §8.6, §8.7).
//!
//! What lies beyond an open border is nobody: nothing is sent there, and the block that would come from there stays as
//! it is.

use std::ffi::{c_int, c_void};

use weft::collectives::{Around, Block, Neighbourhood, Schedule};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::bytes_of;
use crate::bodies::collectives::{listed, listed_with_types, refuse_in_place, whole};
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::pointers::Place;
use crate::convert::{Counts, Displacements};
use crate::entry::Target;
use crate::objects::RequestObject;
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
        // SAFETY: the program's promises are handed on.
        let exchange = unsafe {
            allgather(runtime, &object.comm, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)?
        };
        object.comm.check(|| "MPI_Neighbor_allgather".to_owned())?;
        exchange.run(&object.comm)
    })
}

/// Begins the same.
///
/// # Safety
/// As for [`mpi_neighbor_allgather`], until the request is over; `request` is null or writable.
pub unsafe fn mpi_ineighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call("MPI_Ineighbor_allgather", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promises are handed on.
        let (exchange, place) = unsafe {
            let place = Place::new(request, "request")?;
            (
                allgather(runtime, &object.comm, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)?,
                place,
            )
        };
        place.set(exchange.start(runtime, &object.comm, comm)?);
        Ok(())
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
        // SAFETY: the program's promises are handed on.
        let exchange = unsafe {
            allgatherv(
                runtime,
                &object.comm,
                sendbuf,
                sendcount,
                sendtype,
                recvbuf,
                recvcounts,
                displs,
                recvtype,
            )?
        };
        object.comm.check(|| "MPI_Neighbor_allgatherv".to_owned())?;
        exchange.run(&object.comm)
    })
}

/// Begins the same.
///
/// # Safety
/// As for [`mpi_neighbor_allgatherv`], until the request is over; `request` is null or writable.
pub unsafe fn mpi_ineighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displacements,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call("MPI_Ineighbor_allgatherv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promises are handed on.
        let (exchange, place) = unsafe {
            let place = Place::new(request, "request")?;
            (
                allgatherv(
                    runtime,
                    &object.comm,
                    sendbuf,
                    sendcount,
                    sendtype,
                    recvbuf,
                    recvcounts,
                    displs,
                    recvtype,
                )?,
                place,
            )
        };
        place.set(exchange.start(runtime, &object.comm, comm)?);
        Ok(())
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
        // SAFETY: the program's promises are handed on.
        let exchange = unsafe {
            alltoall(runtime, &object.comm, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)?
        };
        object.comm.check(|| "MPI_Neighbor_alltoall".to_owned())?;
        exchange.run(&object.comm)
    })
}

/// Begins the same.
///
/// # Safety
/// As for [`mpi_neighbor_alltoall`], until the request is over; `request` is null or writable.
pub unsafe fn mpi_ineighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call("MPI_Ineighbor_alltoall", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promises are handed on.
        let (exchange, place) = unsafe {
            let place = Place::new(request, "request")?;
            (
                alltoall(runtime, &object.comm, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)?,
                place,
            )
        };
        place.set(exchange.start(runtime, &object.comm, comm)?);
        Ok(())
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
        // SAFETY: the program's promises are handed on.
        let exchange = unsafe {
            alltoallv(
                runtime,
                &object.comm,
                sendbuf,
                sendcounts,
                sdispls,
                sendtype,
                recvbuf,
                recvcounts,
                rdispls,
                recvtype,
            )?
        };
        object.comm.check(|| "MPI_Neighbor_alltoallv".to_owned())?;
        exchange.run(&object.comm)
    })
}

/// Begins the same.
///
/// # Safety
/// As for [`mpi_neighbor_alltoallv`], until the request is over; `request` is null or writable.
pub unsafe fn mpi_ineighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Displacements,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Displacements,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call("MPI_Ineighbor_alltoallv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promises are handed on.
        let (exchange, place) = unsafe {
            let place = Place::new(request, "request")?;
            (
                alltoallv(
                    runtime,
                    &object.comm,
                    sendbuf,
                    sendcounts,
                    sdispls,
                    sendtype,
                    recvbuf,
                    recvcounts,
                    rdispls,
                    recvtype,
                )?,
                place,
            )
        };
        place.set(exchange.start(runtime, &object.comm, comm)?);
        Ok(())
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
        // SAFETY: the program's promises are handed on.
        let exchange = unsafe {
            alltoallw(
                runtime,
                &object.comm,
                sendbuf,
                sendcounts,
                sdispls,
                sendtypes,
                recvbuf,
                recvcounts,
                rdispls,
                recvtypes,
            )?
        };
        object.comm.check(|| "MPI_Neighbor_alltoallw".to_owned())?;
        exchange.run(&object.comm)
    })
}

/// Begins the same.
///
/// # Safety
/// As for [`mpi_neighbor_alltoallw`], until the request is over; `request` is null or writable.
pub unsafe fn mpi_ineighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call("MPI_Ineighbor_alltoallw", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promises are handed on.
        let (exchange, place) = unsafe {
            let place = Place::new(request, "request")?;
            (
                alltoallw(
                    runtime,
                    &object.comm,
                    sendbuf,
                    sendcounts,
                    sdispls,
                    sendtypes,
                    recvbuf,
                    recvcounts,
                    rdispls,
                    recvtypes,
                )?,
                place,
            )
        };
        place.set(exchange.start(runtime, &object.comm, comm)?);
        Ok(())
    })
}

/// # Safety
/// As for [`mpi_neighbor_allgather`], until the exchange is over; so for those below.
unsafe fn allgather(
    runtime: &'static Runtime,
    comm: &Communicator,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
) -> Result<Exchange> {
    refuse_in_place(sendbuf)?;
    refuse_in_place(recvbuf)?;
    let sources = &comm.neighbourhood()?.sources;
    // SAFETY: the caller's promises are handed on, here and below.
    let input = unsafe { Input::new(sendbuf, &whole(runtime, sendcount, sendtype)?)? };
    let room = Room::new(runtime, sources, recvcount, recvtype)?;
    // SAFETY: as above.
    let output = unsafe { Output::new(recvbuf, room.pieces(), false)? };
    let (sent, bytes) = (input.payload.bytes(), room.bytes);
    let what = match room.is_even() && sent == bytes {
        true => What::Even(Around::Allgather { bytes }),
        false => What::ToAll { sent, receives: room.blocks(&output.blocks) },
    };
    Ok(Exchange { input, output, what })
}

/// # Safety
/// As above.
unsafe fn allgatherv(
    runtime: &'static Runtime,
    comm: &Communicator,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displacements,
    recvtype: MPI_Datatype,
) -> Result<Exchange> {
    refuse_in_place(sendbuf)?;
    refuse_in_place(recvbuf)?;
    let sources = &comm.neighbourhood()?.sources;
    // SAFETY: the caller's promises are handed on.
    let (input, output) = unsafe {
        let pieces = listed(runtime, sources.len(), recvcounts, displs, recvtype)?;
        let input = Input::new(sendbuf, &whole(runtime, sendcount, sendtype)?)?;
        (input, Output::new(recvbuf, &present(pieces, sources), false)?)
    };
    let what = What::ToAll { sent: input.payload.bytes(), receives: output.blocks.to_vec() };
    Ok(Exchange { input, output, what })
}

/// # Safety
/// As above.
unsafe fn alltoall(
    runtime: &'static Runtime,
    comm: &Communicator,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
) -> Result<Exchange> {
    refuse_in_place(sendbuf)?;
    refuse_in_place(recvbuf)?;
    let neighbourhood = comm.neighbourhood()?;
    let gives = Room::new(runtime, &neighbourhood.destinations, sendcount, sendtype)?;
    let gets = Room::new(runtime, &neighbourhood.sources, recvcount, recvtype)?;
    // SAFETY: the caller's promises are handed on.
    let (input, output) =
        unsafe { (Input::new(sendbuf, gives.pieces())?, Output::new(recvbuf, gets.pieces(), false)?) };
    let what = match gives.is_even() && gets.is_even() && gives.bytes == gets.bytes {
        true => What::Even(Around::Alltoall { bytes: gets.bytes }),
        false => What::Each { sends: gives.blocks(&input.blocks), receives: gets.blocks(&output.blocks) },
    };
    Ok(Exchange { input, output, what })
}

/// # Safety
/// As above.
unsafe fn alltoallv(
    runtime: &'static Runtime,
    comm: &Communicator,
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Displacements,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Displacements,
    recvtype: MPI_Datatype,
) -> Result<Exchange> {
    let Neighbourhood { sources, destinations, .. } = comm.neighbourhood()?;
    // SAFETY: the caller's promises are handed on.
    unsafe {
        let gives = listed(runtime, destinations.len(), sendcounts, sdispls, sendtype)?;
        let gets = listed(runtime, sources.len(), recvcounts, rdispls, recvtype)?;
        of_each(comm, (sendbuf, gives), (recvbuf, gets))
    }
}

/// # Safety
/// As above.
unsafe fn alltoallw(
    runtime: &'static Runtime,
    comm: &Communicator,
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
) -> Result<Exchange> {
    let Neighbourhood { sources, destinations, .. } = comm.neighbourhood()?;
    let (sdispls, rdispls) = (Displacements::Aint(sdispls), Displacements::Aint(rdispls));
    // SAFETY: the caller's promises are handed on.
    unsafe {
        let gives = listed_with_types(runtime, destinations.len(), sendcounts, sdispls, sendtypes)?;
        let gets = listed_with_types(runtime, sources.len(), recvcounts, rdispls, recvtypes)?;
        of_each(comm, (sendbuf, gives), (recvbuf, gets))
    }
}

/// An exchange of pieces that stand anywhere.
///
/// # Safety
/// As above, for each piece.
unsafe fn of_each(
    comm: &Communicator,
    (sendbuf, gives): (*const c_void, Vec<Piece>),
    (recvbuf, gets): (*mut c_void, Vec<Piece>),
) -> Result<Exchange> {
    refuse_in_place(sendbuf)?;
    refuse_in_place(recvbuf)?;
    let Neighbourhood { sources, destinations, .. } = comm.neighbourhood()?;
    // SAFETY: the caller's promises are handed on.
    let (input, output) = unsafe {
        let input = Input::new(sendbuf, &present(gives, destinations))?;
        (input, Output::new(recvbuf, &present(gets, sources), false)?)
    };
    let what = What::Each { sends: input.blocks.to_vec(), receives: output.blocks.to_vec() };
    Ok(Exchange { input, output, what })
}

/// An exchange that is about to begin.
struct Exchange {
    input: Input,
    output: Output,
    what: What,
}

enum What {
    /// Blocks of one length, packed: it may come again.
    Even(Around),
    /// One block to all.
    ToAll { sent: usize, receives: Vec<Block> },
    /// Blocks as they stand.
    Each { sends: Vec<Block>, receives: Vec<Block> },
}

impl What {
    fn schedule(&self, neighbourhood: &Neighbourhood) -> Schedule {
        match self {
            What::Even(around) => around.schedule(neighbourhood),
            What::ToAll { sent, receives } => neighbourhood.allgatherv(*sent, receives),
            What::Each { sends, receives } => neighbourhood.alltoallv(sends, receives),
        }
    }
}

impl Exchange {
    fn run(mut self, comm: &Communicator) -> Result<()> {
        let lent = self.output.lend();
        match self.what {
            What::Even(around) => comm.perform_around(around, self.input.payload, lent)?,
            what => {
                comm.run_around(|neighbourhood| what.schedule(neighbourhood), self.input.payload, lent)?;
            }
        }
        self.output.finish()
    }

    fn start(
        mut self,
        runtime: &'static Runtime,
        comm: &Communicator,
        errors_to: MPI_Comm,
    ) -> Result<MPI_Request> {
        let lent = self.output.lend();
        let schedule = |neighbourhood: &Neighbourhood| self.what.schedule(neighbourhood);
        let ongoing = comm.start_around(schedule, self.input.payload, lent)?;
        let Exchange { input, output, .. } = self;
        runtime.adopt_request(RequestObject::Collective { errors_to, ongoing, input, output })
    }
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
        let datatype = resolve_committed(runtime, datatype)?;
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

    fn pieces(&self) -> &[Piece] {
        match &self.places {
            Places::Even(piece) => piece,
            Places::Apart(pieces) => pieces,
        }
    }

    /// Where the blocks stand, one for each neighbour; `listed` are those of the pieces.
    fn blocks(&self, listed: &[Block]) -> Vec<Block> {
        match self.is_even() {
            true => (0..self.count).map(|at| Block { offset: at * self.bytes, bytes: self.bytes }).collect(),
            false => listed.to_vec(),
        }
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
