//! Collective operations that move data (MPI 5.0 §6.3 to §6.8, §6.12, §6.13), in each of their
//! [ways](crate::bodies::ways).

pub mod lists;

use std::ffi::c_int;

use datatype::Datatype;
use weft::collectives::{Collective, Crossing, Each, Rooted, Uneven};
use weft::{Class, Communicator, Error, Rank, Result};

use self::lists::bytes_at;
use crate::arguments::{self, bytes_of};
use crate::bodies::across::{self, OverTwo};
use crate::bodies::datatypes::resolve_elements;
use crate::bodies::plain::{self};
use crate::bodies::ways::{Described, Side, Way, What};
use crate::claims::{Buffer, Received, Sent};
use crate::parts::Section;
use crate::state::Runtime;
use crate::types::*;

/// Whether a buffer argument is `MPI_IN_PLACE`: the data is in the other buffer of the operation.
pub(crate) fn is_in_place(buffer: impl Buffer) -> bool {
    buffer.is_in_place()
}

/// One section at the beginning of a buffer.
pub(crate) fn whole(runtime: &'static Runtime, count: i64, datatype: MPI_Datatype) -> Result<[Section; 1]> {
    Ok([Section { offset: 0, count, datatype: resolve_elements(runtime, count, datatype)? }])
}

/// A whole buffer and its length in bytes; an empty side where the data is in the other buffer (`in_place`).
pub(crate) fn side<B: Buffer>(
    runtime: &'static Runtime,
    buffer: B,
    count: i64,
    datatype: MPI_Datatype,
    in_place: bool,
) -> Result<(Side<B>, usize)> {
    if in_place {
        return Ok((Side::none(), 0));
    }
    let section = whole(runtime, count, datatype)?;
    let bytes = bytes_of(count, &section[0].datatype)?;
    Ok((Side::whole(buffer, section), bytes))
}

/// `count` elements for each rank, one behind the other.
fn for_each_rank(
    runtime: &'static Runtime,
    comm: &Communicator,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<([Section; 1], usize)> {
    let datatype = resolve_elements(runtime, count, datatype)?;
    let bytes = bytes_of(count, &datatype)?;
    let total = count.checked_mul(i64::from(comm.size()));
    let total = total.ok_or_else(|| Error::new(Class::Count, format!("the count is {count}")))?;
    Ok(([Section { offset: 0, count: total, datatype }], bytes))
}

/// How much of what, for the comparison of calls (`WEFT_CHECK`): what the standard wants to be the same at
/// all ranks.
pub(crate) fn amount(count: i64, datatype: &Datatype) -> String {
    match (datatype.made_of(), datatype.packed_bytes(count)) {
        (_, Ok(0)) => "no data".to_string(),
        (Some(basic), _) => format!("{} of {}", count.saturating_mul(datatype.elements()), basic.name()),
        (None, Ok(bytes)) => format!("{bytes} bytes of several kinds"),
        (None, Err(error)) => error.to_string(),
    }
}

/// The total bytes of blocks of different lengths, for the comparison of calls (`WEFT_CHECK`). The lengths
/// are too many to be printed, so a hash over them (the mark) stands for them.
pub(crate) fn amounts(lengths: impl Iterator<Item = usize>) -> String {
    let (mut bytes, mut mark) = (0usize, 0u64);
    for length in lengths {
        bytes = bytes.saturating_add(length);
        mark = mark.wrapping_mul(0x0000_0100_0000_01b3).wrapping_add(length as u64 + 1);
    }
    format!("{bytes} bytes in blocks (mark {:04x})", (mark ^ mark >> 32) as u16)
}

/// What a rank gives itself must be what it expects from itself.
fn check_same(gives: usize, expects: usize) -> Result<()> {
    if gives == expects {
        return Ok(());
    }
    let class = if gives > expects { Class::Truncated } else { Class::Count };
    Err(Error::new(class, format!("this rank sends itself {gives} bytes and expects {expects}")))
}

/// Is over when all members have called it.
pub fn mpi_barrier(comm: MPI_Comm, way: Way<'_>) -> c_int {
    if let Some(code) = plain::barrier(&way, comm) {
        return code;
    }
    way.call(comm, |_, comm| {
        if let Some(two) = OverTwo::of(&way, comm) {
            return two.even(Crossing::Barrier, Side::none(), Side::none());
        }
        way.check(comm, || way.name().to_owned())?;
        Ok(Described::new(What::Even(Collective::Barrier), Side::none(), Side::none(), false))
    })
}

/// Brings the root's data to all.
pub fn mpi_bcast(
    buffer: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    if let Some(code) = plain::bcast(&way, (buffer, count, datatype), root, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            return two.bcast(root, || {
                refuse_in_place(buffer)?;
                side(runtime, buffer, count, datatype, false)
            });
        }
        let root = arguments::root(comm, root)?;
        refuse_in_place(buffer)?;
        let section = whole(runtime, count, datatype)?;
        let bytes = bytes_of(count, &section[0].datatype)?;
        way.check(comm, || {
            format!("{}, root {}, {}", way.name(), root.0, amount(count, &section[0].datatype))
        })?;
        let (here, bcast) = (comm.rank() == root, What::Even(Collective::Bcast { root, bytes }));
        let described = Described::new(bcast, Side::none(), Side::whole(buffer, section), here);
        Ok(Described { receives: !here, ..described })
    };
    way.call(comm, describe)
}

pub(crate) fn refuse_in_place(buffer: impl Buffer) -> Result<()> {
    if is_in_place(buffer) { Err(not_in_place()) } else { Ok(()) }
}

#[cold]
fn not_in_place() -> Error {
    Error::new(Class::Buffer, "MPI_IN_PLACE is not allowed here")
}

/// Compares an operation with a root, where each rank's part is the same.
fn check_rooted(
    runtime: &'static Runtime,
    way: &Way<'_>,
    comm: &Communicator,
    root: Rank,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<()> {
    way.check(comm, || match resolve_elements(runtime, count, datatype) {
        Ok(datatype) => format!("{}, root {}, {} for each", way.name(), root.0, amount(count, &datatype)),
        Err(error) => format!("{}, root {}, {error}", way.name(), root.0),
    })
}

/// Each rank's part of a buffer for all.
fn each(comm: &Communicator, sections: &[Section; 1]) -> String {
    format!("{} for each", amount(sections[0].count / i64::from(comm.size()), &sections[0].datatype))
}

/// Brings everybody's data to the root, in rank order.
pub fn mpi_gather(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    if let Some(code) = plain::gather(&way, gives, gets, root, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let gives = || across::part(runtime, sendbuf, sendcount, sendtype);
            let gets = || across::parts(runtime, two.ranks(), recvbuf, recvcount, recvtype);
            return two.gathering(root, Crossing::Gather, gives, gets);
        }
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(sendbuf));
        if !here {
            refuse_in_place(sendbuf)?;
        }
        let (gives, gives_bytes) = side(runtime, sendbuf, sendcount, sendtype, in_place)?;
        let (count, datatype) = if here { (recvcount, recvtype) } else { (sendcount, sendtype) };
        check_rooted(runtime, &way, comm, root, count, datatype)?;
        if !here {
            let gather = Collective::Gather(Rooted { root, bytes: gives_bytes, in_place: false });
            return Ok(Described::new(What::Even(gather), gives, Side::none(), false));
        }
        refuse_in_place(recvbuf)?;
        let (sections, bytes) = for_each_rank(runtime, comm, recvcount, recvtype)?;
        if !in_place {
            check_same(gives_bytes, bytes)?;
        }
        let gather = Collective::Gather(Rooted { root, bytes, in_place });
        Ok(Described::new(What::Even(gather), gives, Side::whole(recvbuf, sections), in_place))
    };
    way.call(comm, describe)
}

/// Deals the root's data out, in rank order.
pub fn mpi_scatter(
    sendbuf: Sent,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: Received,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    if let Some(code) = plain::scatter(&way, gives, gets, root, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let gives = || across::parts(runtime, two.ranks(), sendbuf, sendcount, sendtype);
            let gets = || across::part(runtime, recvbuf, recvcount, recvtype);
            return two.scattering(root, Crossing::Scatter, gives, gets);
        }
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(recvbuf));
        if !here {
            refuse_in_place(recvbuf)?;
        }
        let (gets, gets_bytes) = side(runtime, recvbuf, recvcount, recvtype, in_place)?;
        let (count, datatype) = if here { (sendcount, sendtype) } else { (recvcount, recvtype) };
        check_rooted(runtime, &way, comm, root, count, datatype)?;
        if !here {
            let scatter = Collective::Scatter(Rooted { root, bytes: gets_bytes, in_place: false });
            return Ok(Described::new(What::Even(scatter), Side::none(), gets, false));
        }
        refuse_in_place(sendbuf)?;
        let (sections, bytes) = for_each_rank(runtime, comm, sendcount, sendtype)?;
        if !in_place {
            check_same(bytes, gets_bytes)?;
        }
        let scatter = Collective::Scatter(Rooted { root, bytes, in_place });
        Ok(Described::new(What::Even(scatter), Side::whole(sendbuf, sections), gets, false))
    };
    way.call(comm, describe)
}

/// Brings everybody's data to everybody, in rank order.
pub fn mpi_allgather(
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
    if let Some(code) = plain::allgather(&way, gives, gets, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let gives = across::part(runtime, sendbuf, sendcount, sendtype)?;
            let gets = across::parts(runtime, two.ranks(), recvbuf, recvcount, recvtype)?;
            return two.even(Crossing::Allgather, gives, gets);
        }
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        let (sections, bytes) = for_each_rank(runtime, comm, recvcount, recvtype)?;
        let (gives, gives_bytes) = side(runtime, sendbuf, sendcount, sendtype, in_place)?;
        if !in_place {
            check_same(gives_bytes, bytes)?;
        }
        way.check(comm, || format!("{}, {}", way.name(), each(comm, &sections)))?;
        let what = What::Even(Collective::Allgather(Each { bytes, in_place }));
        Ok(Described::new(what, gives, Side::whole(recvbuf, sections), in_place))
    };
    way.call(comm, describe)
}

/// Everybody sends a part to everybody.
pub fn mpi_alltoall(
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
    if let Some(code) = plain::alltoall(&way, gives, gets, comm) {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let gives = across::parts(runtime, two.ranks(), sendbuf, sendcount, sendtype)?;
            let gets = across::parts(runtime, two.ranks(), recvbuf, recvcount, recvtype)?;
            return two.even(Crossing::Alltoall, gives, gets);
        }
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        let (sections, bytes) = for_each_rank(runtime, comm, recvcount, recvtype)?;
        let gives = if in_place {
            Side::none()
        } else {
            let (sections, gives_bytes) = for_each_rank(runtime, comm, sendcount, sendtype)?;
            check_same(gives_bytes, bytes)?;
            Side::whole(sendbuf, sections)
        };
        way.check(comm, || format!("{}, {}", way.name(), each(comm, &sections)))?;
        let what = What::Even(Collective::Alltoall(Each { bytes, in_place }));
        Ok(Described::new(what, gives, Side::whole(recvbuf, sections), in_place))
    };
    way.call(comm, describe)
}

/// An exchange of different parts; in place where none are given.
fn all_to_all(
    way: &Way<'_>,
    comm: &Communicator,
    (sendbuf, gives): (Sent, Option<Vec<Section>>),
    (recvbuf, gets): (Received, Vec<Section>),
) -> Result<Described> {
    if let Some(two) = OverTwo::of(way, comm) {
        let gives = gives.ok_or_else(not_in_place)?;
        return two.even(
            Crossing::Alltoall,
            Side::listed(sendbuf, gives),
            across::listed_side(recvbuf, gets)?,
        );
    }
    way.check(comm, || way.name().to_owned())?;
    let in_place = gives.is_none();
    if let Some(gives) = &gives {
        check_same(bytes_at(gives, comm.rank())?, bytes_at(&gets, comm.rank())?)?;
    }
    let gives = gives.map_or_else(Side::none, |gives| Side::listed(sendbuf, gives));
    let what = What::Uneven { what: Uneven::Alltoall { in_place }, sends: None };
    Ok(Described::new(what, gives, Side::listed(recvbuf, gets), in_place))
}
