//! Collective operations with lengths, displacements or types for each rank (MPI 5.0, chapter 6).

use std::ffi::c_int;

use weft::collectives::{Crossing, Uneven};
use weft::{Class, Communicator, Error, Rank, Result};

use super::{all_to_all, amounts, check_same, is_in_place, refuse_in_place, side};
use crate::arguments::{self, bytes_of};
use crate::bodies::across::{self, OverTwo};
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::plain::{self, BlockList};
use crate::bodies::ways::{Described, Side, Way, What};
use crate::claims::{self, Buffer, Received, Sent};
use crate::convert::{Counts, Displacements};
use crate::generated::constants::*;
use crate::parts::Section;
use crate::state::Runtime;
use crate::types::*;

/// The entries of arrays with one for each rank. What is said of blank ranks is not looked at.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    pub(super) count: usize,
    blanks: Option<&'a Communicator>,
}

impl<'a> Entries<'a> {
    /// `count` entries, all of which are looked at.
    pub(crate) fn all(count: usize) -> Entries<'a> {
        Entries { count, blanks: None }
    }

    /// The entries of the ranks that a rank of `comm` sends to: of its own group, or of the remote one. Those
    /// of blank ranks are not looked at.
    pub(super) fn of(comm: &'a Communicator) -> Entries<'a> {
        Entries { count: comm.partners() as usize, blanks: comm.has_blanks().then_some(comm) }
    }

    fn is_blank(self, index: usize) -> bool {
        self.blanks.is_some_and(|comm| comm.is_blank(Rank(index as u32)))
    }
}

/// A buffer with a block for each rank, for those who look at few of them.
fn list<'call, B: Buffer>(
    buffer: B,
    counts: Counts<'call>,
    places: Displacements<'call>,
    datatype: MPI_Datatype,
) -> BlockList<'call, B> {
    BlockList { buffer, counts, places, datatype }
}

/// The sections that arrays of counts and displacements describe.
pub(crate) fn listed(
    runtime: &'static Runtime,
    entries: Entries<'_>,
    counts: Counts<'_>,
    displacements: Displacements<'_>,
    datatype: MPI_Datatype,
) -> Result<Vec<Section>> {
    if entries.count > 0 && (counts.is_null() || displacements.is_null()) {
        let what = if counts.is_null() { "counts" } else { "displacements" };
        return Err(claims::null(&format!("the array of {what}")));
    }
    let extent = resolve_committed(runtime, datatype)?.extent();
    let section = |index: usize| {
        if entries.is_blank(index) {
            return Ok(Section { offset: 0, count: 0, datatype: resolve_committed(runtime, datatype)? });
        }
        let (count, displacement) = (counts.at(index), displacements.at(index));
        let offset = displacement.checked_mul(extent).ok_or_else(|| {
            Error::new(Class::Argument, format!("the displacement of entry {index} is {displacement}"))
        })?;
        if count < 0 {
            return Err(Error::new(Class::Count, format!("the count of entry {index} is {count}")));
        }
        Ok(Section { offset, count, datatype: resolve_committed(runtime, datatype)? })
    };
    (0..entries.count).map(section).collect()
}

/// The length of one section in bytes.
pub(super) fn bytes_at(sections: &[Section], rank: Rank) -> Result<usize> {
    let section = &sections[rank.0 as usize];
    bytes_of(section.count, &section.datatype)
}

/// Brings everybody's data to the root, as much from each as the root says.
pub fn mpi_gatherv(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcounts: Counts<'_>,
    displs: Displacements<'_>,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let (gives, all) = ((sendbuf, sendcount, sendtype), list(recvbuf, recvcounts, displs, recvtype));
    if let Some(code) = plain::gatherv(&way, gives, all, root, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let gives = || across::part(runtime, sendbuf, sendcount, sendtype);
            let sections = || listed(runtime, Entries::of(comm), recvcounts, displs, recvtype);
            return two
                .gathering(root, Crossing::Gather, gives, || across::listed_side(recvbuf, sections()?));
        }
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(sendbuf));
        if !here {
            refuse_in_place(sendbuf)?;
        }
        let (gives, gives_bytes) = side(runtime, sendbuf, sendcount, sendtype, in_place)?;
        way.check(comm, || format!("{}, root {}", way.name(), root.0))?;
        let what = What::Uneven { what: Uneven::Gather { root, in_place }, sends: None };
        if !here {
            return Ok(Described::new(what, gives, Side::none(), false));
        }
        let sections = listed(runtime, Entries::of(comm), recvcounts, displs, recvtype)?;
        if !in_place {
            check_same(gives_bytes, bytes_at(&sections, root)?)?;
        }
        Ok(Described::new(what, gives, Side::listed(recvbuf, sections), in_place))
    };
    way.call(comm, describe)
}

/// Deals the root's data out, as much to each as the root says.
pub fn mpi_scatterv(
    sendbuf: Sent,
    sendcounts: Counts<'_>,
    displs: Displacements<'_>,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let (all, gets) = (list(sendbuf, sendcounts, displs, sendtype), (recvbuf, recvcount, recvtype));
    if let Some(code) = plain::scatterv(&way, all, gets, root, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let sections = || listed(runtime, Entries::of(comm), sendcounts, displs, sendtype);
            let gets = || across::part(runtime, recvbuf, recvcount, recvtype);
            return two.scattering(
                root,
                Crossing::Scatter,
                || across::listed_side(sendbuf, sections()?),
                gets,
            );
        }
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(recvbuf));
        if !here {
            refuse_in_place(recvbuf)?;
        }
        let (gets, gets_bytes) = side(runtime, recvbuf, recvcount, recvtype, in_place)?;
        way.check(comm, || format!("{}, root {}", way.name(), root.0))?;
        let what = What::Uneven { what: Uneven::Scatter { root, in_place }, sends: None };
        if !here {
            return Ok(Described::new(what, Side::none(), gets, false));
        }
        let sections = listed(runtime, Entries::of(comm), sendcounts, displs, sendtype)?;
        if !in_place {
            check_same(bytes_at(&sections, root)?, gets_bytes)?;
        }
        Ok(Described::new(what, Side::listed(sendbuf, sections), gets, false))
    };
    way.call(comm, describe)
}

/// Brings everybody's data to everybody, parts of different length.
pub fn mpi_allgatherv(
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
    let (gives, all) = ((sendbuf, sendcount, sendtype), list(recvbuf, recvcounts, displs, recvtype));
    if let Some(code) = plain::allgatherv(&way, gives, all, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let gives = across::part(runtime, sendbuf, sendcount, sendtype)?;
            let gets = listed(runtime, Entries::of(comm), recvcounts, displs, recvtype)?;
            return two.even(Crossing::Allgather, gives, across::listed_side(recvbuf, gets)?);
        }
        let in_place = is_in_place(sendbuf);
        let sections = listed(runtime, Entries::of(comm), recvcounts, displs, recvtype)?;
        let (gives, gives_bytes) = side(runtime, sendbuf, sendcount, sendtype, in_place)?;
        if !in_place {
            check_same(gives_bytes, bytes_at(&sections, comm.rank())?)?;
        }
        way.check(comm, || {
            let lengths =
                sections.iter().map(|section| bytes_of(section.count, &section.datatype).unwrap_or(0));
            format!("{}, {}", way.name(), amounts(lengths))
        })?;
        let what = What::Uneven { what: Uneven::Allgather { in_place }, sends: None };
        Ok(Described::new(what, gives, Side::listed(recvbuf, sections), in_place))
    };
    way.call(comm, describe)
}

/// Everybody sends a part to everybody, of different lengths.
pub fn mpi_alltoallv(
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
    let sends = list(sendbuf, sendcounts, sdispls, sendtype);
    let receives = list(recvbuf, recvcounts, rdispls, recvtype);
    if let Some(code) = plain::alltoallv(&way, sends, receives, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        let (ranks, in_place) = (Entries::of(comm), is_in_place(sendbuf));
        let gets = listed(runtime, ranks, recvcounts, rdispls, recvtype)?;
        let gives = match in_place {
            true => None,
            false => Some(listed(runtime, ranks, sendcounts, sdispls, sendtype)?),
        };
        all_to_all(&way, comm, (sendbuf, gives), (recvbuf, gets))
    };
    way.call(comm, describe)
}

/// The sections that arrays of counts, displacements in bytes and datatypes describe. An entry whose count is
/// 0 needs no datatype: many programs have `MPI_DATATYPE_NULL` there.
pub(crate) fn listed_with_types(
    runtime: &'static Runtime,
    entries: Entries<'_>,
    counts: Counts<'_>,
    displacements: Displacements<'_>,
    datatypes: claims::List<'_, MPI_Datatype>,
) -> Result<Vec<Section>> {
    if entries.count > 0 && (counts.is_null() || displacements.is_null() || datatypes.is_null()) {
        return Err(claims::null("an array of counts, displacements or datatypes"));
    }
    let section = |index: usize| {
        let count = if entries.is_blank(index) { 0 } else { counts.at(index) };
        if count == 0 {
            return Ok(Section { offset: 0, count: 0, datatype: resolve_committed(runtime, MPI_BYTE)? });
        }
        let (offset, datatype) = (displacements.at(index), datatypes.at(index));
        if count < 0 {
            return Err(Error::new(Class::Count, format!("the count of entry {index} is {count}")));
        }
        Ok(Section { offset, count, datatype: resolve_committed(runtime, datatype)? })
    };
    (0..entries.count).map(section).collect()
}

/// Everybody sends a part to everybody, of different lengths and types.
pub fn mpi_alltoallw(
    sendbuf: Sent,
    sendcounts: Counts<'_>,
    sdispls: Displacements<'_>,
    sendtypes: claims::List<'_, MPI_Datatype>,
    recvbuf: Received,
    recvcounts: Counts<'_>,
    rdispls: Displacements<'_>,
    recvtypes: claims::List<'_, MPI_Datatype>,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let describe = |runtime, comm: &Communicator| {
        let (ranks, in_place) = (Entries::of(comm), is_in_place(sendbuf));
        let gets = listed_with_types(runtime, ranks, recvcounts, rdispls, recvtypes)?;
        let gives = match in_place {
            true => None,
            false => Some(listed_with_types(runtime, ranks, sendcounts, sdispls, sendtypes)?),
        };
        all_to_all(&way, comm, (sendbuf, gives), (recvbuf, gets))
    };
    way.call(comm, describe)
}
