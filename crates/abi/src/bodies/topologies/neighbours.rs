//! Exchanges between the neighbours of a topology (MPI 5.0 §8.6 to §8.8), in each of their
//! [ways](crate::bodies::ways).
//!
//! What lies beyond an open border is nobody: nothing is sent there, and the block that would come from there
//! stays as it is.

use std::ffi::c_int;

use weft::collectives::{Around, Block, Neighbourhood};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::bytes_of;
use crate::bodies::collectives::lists::{Entries, listed, listed_with_types};
use crate::bodies::collectives::{refuse_in_place, side};
use crate::bodies::datatypes::resolve_elements;
use crate::bodies::plain;
use crate::bodies::ways::{Described, Side, Way, What};
use crate::claims::{Buffer, List, Received, Sent};
use crate::convert::{Counts, Displacements};
use crate::parts::Section;
use crate::state::Runtime;
use crate::types::*;

/// Everybody's block to its neighbours, and theirs to their places.
pub fn mpi_neighbor_allgather(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    if let Some(code) = plain::neighbours(&way, false, gives, gets, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let living = comm.among_living();
        let sources = &living.neighbourhood()?.sources;
        let (gives, sent) = side(runtime, sendbuf, sendcount, sendtype, false)?;
        let room = NeighbourArrays::new(runtime, sources, recvcount, recvtype)?;
        let what = match room.is_even() && sent == room.bytes {
            true => What::Around(Around::Allgather { bytes: sent }),
            false => What::AroundToAll { receives: room.blocks() },
        };
        way.check(comm, || way.name().to_owned())?;
        Ok(Described::new(what, gives, room.side(recvbuf), false))
    };
    way.call(comm, describe)
}

/// Sends one block to every destination, and receives a block from every source. Blocks that are received
/// have their own lengths and displacements, in extents of `recvtype`.
pub fn mpi_neighbor_allgatherv(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcounts: Counts<'_>,
    displs: Displacements<'_>,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let describe = |runtime, comm: &Communicator| {
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let living = comm.among_living();
        let sources = &living.neighbourhood()?.sources;
        let sections = listed(runtime, Entries::all(sources.len()), recvcounts, displs, recvtype)?;
        let (gives, _) = side(runtime, sendbuf, sendcount, sendtype, false)?;
        way.check(comm, || way.name().to_owned())?;
        let gets = Side::listed(recvbuf, present(sections, sources));
        Ok(Described::new(What::AroundToAll { receives: None }, gives, gets, false))
    };
    way.call(comm, describe)
}

/// A block to each destination, and one from each source.
pub fn mpi_neighbor_alltoall(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    if let Some(code) = plain::neighbours(&way, true, gives, gets, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        refuse_in_place(sendbuf)?;
        refuse_in_place(recvbuf)?;
        let living = comm.among_living();
        let neighbourhood = living.neighbourhood()?;
        let gives = NeighbourArrays::new(runtime, &neighbourhood.destinations, sendcount, sendtype)?;
        let gets = NeighbourArrays::new(runtime, &neighbourhood.sources, recvcount, recvtype)?;
        let what = match gives.is_even() && gets.is_even() && gives.bytes == gets.bytes {
            true => What::Around(Around::Alltoall { bytes: gets.bytes }),
            false => What::AroundEach { sends: gives.blocks(), receives: gets.blocks() },
        };
        way.check(comm, || way.name().to_owned())?;
        Ok(Described::new(what, gives.side(sendbuf), gets.side(recvbuf), false))
    };
    way.call(comm, describe)
}

/// Sends a block of its own to every destination, and receives one from every source. Each block has its own
/// length and displacement, in extents of its buffer's datatype.
pub fn mpi_neighbor_alltoallv(
    sendbuf: Sent,
    sendcounts: Counts<'_>,
    sdispls: Displacements<'_>,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcounts: Counts<'_>,
    rdispls: Displacements<'_>,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let describe = |runtime, comm: &Communicator| {
        let living = comm.among_living();
        let Neighbourhood { sources, destinations, .. } = living.neighbourhood()?;
        let gives = listed(runtime, Entries::all(destinations.len()), sendcounts, sdispls, sendtype)?;
        let gets = listed(runtime, Entries::all(sources.len()), recvcounts, rdispls, recvtype)?;
        of_each(&way, comm, (sendbuf, gives), (recvbuf, gets))
    };
    way.call(comm, describe)
}

/// Sends a block of its own to every destination, and receives one from every source. Each block has its own
/// length, datatype and displacement, in bytes.
pub fn mpi_neighbor_alltoallw(
    sendbuf: Sent,
    sendcounts: Counts<'_>,
    sdispls: List<'_, MPI_Aint>,
    sendtypes: List<'_, MPI_Datatype>,
    recvbuf: Received,
    recvcounts: Counts<'_>,
    rdispls: List<'_, MPI_Aint>,
    recvtypes: List<'_, MPI_Datatype>,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let describe = |runtime, comm: &Communicator| {
        let living = comm.among_living();
        let Neighbourhood { sources, destinations, .. } = living.neighbourhood()?;
        let (sdispls, rdispls) = (Displacements::Aint(sdispls), Displacements::Aint(rdispls));
        let gives =
            listed_with_types(runtime, Entries::all(destinations.len()), sendcounts, sdispls, sendtypes)?;
        let gets = listed_with_types(runtime, Entries::all(sources.len()), recvcounts, rdispls, recvtypes)?;
        of_each(&way, comm, (sendbuf, gives), (recvbuf, gets))
    };
    way.call(comm, describe)
}

/// An exchange of sections that stand anywhere.
fn of_each(
    way: &Way<'_>,
    comm: &Communicator,
    (sendbuf, gives): (Sent, Vec<Section>),
    (recvbuf, gets): (Received, Vec<Section>),
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
struct NeighbourArrays {
    places: NeighbourPlaces,
    /// Length of each block.
    bytes: usize,
    count: usize,
}

enum NeighbourPlaces {
    /// One section, in which the blocks stand packed.
    Even([Section; 1]),
    /// A section for each block.
    Apart(Vec<Section>),
}

impl NeighbourArrays {
    #[inline]
    fn new(
        runtime: &'static Runtime,
        neighbours: &[Option<Rank>],
        count: i64,
        datatype: MPI_Datatype,
    ) -> Result<NeighbourArrays> {
        let datatype = resolve_elements(runtime, count, datatype)?;
        let bytes = bytes_of(count, &datatype)?;
        let beyond = || Error::new(Class::Count, format!("the count is {count}"));
        let blocks = neighbours.len() as i64;
        let total = count.checked_mul(blocks).ok_or_else(beyond)?;
        let places = if datatype.is_dense() {
            let count = if neighbours.iter().all(Option::is_none) { 0 } else { total };
            NeighbourPlaces::Even([Section { offset: 0, count, datatype }])
        } else {
            let step = datatype.extent().checked_mul(count).ok_or_else(beyond)?;
            step.checked_mul(blocks).ok_or_else(beyond)?;
            let section = |block| Section { offset: block * step, count, datatype: datatype.clone() };
            NeighbourPlaces::Apart(present((0..blocks).map(section).collect(), neighbours))
        };
        Ok(NeighbourArrays { places, bytes, count: neighbours.len() })
    }

    fn is_even(&self) -> bool {
        matches!(self.places, NeighbourPlaces::Even(_))
    }

    fn side<B: Buffer>(self, buffer: B) -> Side<B> {
        match self.places {
            NeighbourPlaces::Even(section) => Side::whole(buffer, section),
            NeighbourPlaces::Apart(sections) => Side::listed(buffer, sections),
        }
    }

    /// Where the blocks stand, one for each neighbour, if not as the sections do.
    fn blocks(&self) -> Option<Vec<Block>> {
        let block = |at| Block { offset: at * self.bytes, bytes: self.bytes };
        self.is_even().then(|| (0..self.count).map(block).collect())
    }
}

/// Sections for neighbours that are there; for nobody nothing is packed and nothing is brought to its place.
fn present(mut sections: Vec<Section>, neighbours: &[Option<Rank>]) -> Vec<Section> {
    for (section, neighbour) in sections.iter_mut().zip(neighbours) {
        if neighbour.is_none() {
            section.count = 0;
        }
    }
    sections
}
