//! Blocking collective operations that move data (MPI 5.0 §6.3 to §6.8).

use std::ffi::{c_int, c_void};

use datatype::Datatype;
use weft::collectives::{self, Collective, Each, Rooted, Schedule};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments::{self, bytes_of};
use crate::bodies::datatypes::resolve_committed;
use crate::convert::{Counts, Displacements};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::parts::{Input, Output, Piece};
use crate::state::{Runtime, call};
use crate::types::*;

/// Whether a buffer argument says that the data stands in the other buffer.
pub(crate) fn is_in_place(buffer: *const c_void) -> bool {
    buffer.addr() == MPI_IN_PLACE.addr()
}

/// One piece at the beginning of a buffer.
pub(crate) fn whole(runtime: &'static Runtime, count: i64, datatype: MPI_Datatype) -> Result<[Piece; 1]> {
    Ok([Piece { offset: 0, count, datatype: resolve_committed(runtime, datatype)? }])
}

/// `count` elements for each rank, one behind the other.
fn for_each_rank(
    runtime: &'static Runtime,
    comm: &Communicator,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<([Piece; 1], usize)> {
    let datatype = resolve_committed(runtime, datatype)?;
    let bytes = bytes_of(count, &datatype)?;
    let total = count.checked_mul(i64::from(comm.size()));
    let total = total.ok_or_else(|| Error::new(Class::Count, format!("the count is {count}")))?;
    Ok(([Piece { offset: 0, count: total, datatype }], bytes))
}

/// Moves data by a schedule, and brings it to its places.
fn run(comm: &Communicator, schedule: Schedule, input: &Input, mut output: Output) -> Result<()> {
    comm.run(schedule, input.payload, output.lend(), &mut |_, _| {})?;
    output.finish()
}

/// The same for an operation that may come again.
fn perform(comm: &Communicator, collective: Collective, input: &Input, mut output: Output) -> Result<()> {
    comm.perform(collective, input.payload, output.lend(), &mut |_, _| {})?;
    output.finish()
}

/// How much of what, for the comparison of calls (`WEFT_CHECK`): what the standard wants to be the same at all ranks.
pub(crate) fn amount(count: i64, datatype: &Datatype) -> String {
    match (datatype.made_of(), datatype.packed_bytes(count)) {
        (Some(basic), _) => format!("{} of {}", count.saturating_mul(datatype.elements()), basic.name()),
        (None, Ok(bytes)) => format!("{bytes} bytes of several kinds"),
        (None, Err(error)) => error.to_string(),
    }
}

/// The same for blocks of different lengths, which are too many to be told.
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

/// Returns when all members have called it.
pub fn mpi_barrier(comm: MPI_Comm) -> c_int {
    call("MPI_Barrier", Target::Comm(comm), |runtime| runtime.comm(comm)?.comm.barrier())
}

/// Brings the root's data to all.
///
/// # Safety
/// `buffer` holds `count` elements of `datatype`, writable unless this is the root.
pub unsafe fn mpi_bcast(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Bcast", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let root = arguments::root(comm, root)?;
        refuse_in_place(buffer)?;
        let pieces = whole(runtime, count, datatype)?;
        let bytes = bytes_of(count, &pieces[0].datatype)?;
        comm.check(|| format!("MPI_Bcast, root {}, {}", root.0, amount(count, &pieces[0].datatype)))?;
        // SAFETY: the program's promise is handed on.
        let mut output = unsafe { Output::new(buffer, &pieces, comm.rank() == root)? };
        let bcast = Collective::Bcast { root, bytes };
        comm.perform(bcast, Input::none().payload, output.lend(), &mut |_, _| {})?;
        if comm.rank() == root { Ok(()) } else { output.finish() }
    })
}

pub(crate) fn refuse_in_place(buffer: *const c_void) -> Result<()> {
    if is_in_place(buffer) {
        return Err(Error::new(Class::Buffer, "MPI_IN_PLACE is not allowed here"));
    }
    Ok(())
}

/// Compares an operation with a root, where each rank's part is the same.
fn check_rooted(
    runtime: &'static Runtime,
    comm: &Communicator,
    name: &str,
    root: Rank,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<()> {
    comm.check(|| match resolve_committed(runtime, datatype) {
        Ok(datatype) => format!("{name}, root {}, {} for each", root.0, amount(count, &datatype)),
        Err(error) => format!("{name}, root {}, {error}", root.0),
    })
}

/// Each rank's part of a buffer for all.
fn each(comm: &Communicator, pieces: &[Piece; 1]) -> String {
    format!("{} for each", amount(pieces[0].count / i64::from(comm.size()), &pieces[0].datatype))
}

/// Brings everybody's data to the root, in rank order.
///
/// # Safety
/// `sendbuf` holds `sendcount` elements; at the root `recvbuf` has room for `recvcount` elements of every rank.
pub unsafe fn mpi_gather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Gather", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(sendbuf));
        if !here {
            refuse_in_place(sendbuf)?;
        }
        // SAFETY: the program's promises are handed on, here and below.
        let input = unsafe { give(runtime, sendbuf, sendcount, sendtype, in_place)? };
        let (count, datatype) = if here { (recvcount, recvtype) } else { (sendcount, sendtype) };
        check_rooted(runtime, comm, "MPI_Gather", root, count, datatype)?;
        if !here {
            let gather = Collective::Gather(Rooted { root, bytes: input.payload.bytes(), in_place: false });
            return perform(comm, gather, &input, Output::none());
        }
        refuse_in_place(recvbuf)?;
        let (pieces, bytes) = for_each_rank(runtime, comm, recvcount, recvtype)?;
        if !in_place {
            check_same(input.payload.bytes(), bytes)?;
        }
        // SAFETY: as above.
        let output = unsafe { Output::new(recvbuf, &pieces, in_place)? };
        perform(comm, Collective::Gather(Rooted { root, bytes, in_place }), &input, output)
    })
}

/// What a rank gives: a whole buffer, or nothing where the data stands in the other one.
///
/// # Safety
/// See [`Input::new`].
pub(crate) unsafe fn give(
    runtime: &'static Runtime,
    buffer: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    in_place: bool,
) -> Result<Input> {
    if in_place {
        return Ok(Input::none());
    }
    let pieces = whole(runtime, count, datatype)?;
    // SAFETY: the caller's promise is handed on.
    unsafe { Input::new(buffer, &pieces) }
}

/// The pieces that arrays of counts and displacements describe.
///
/// # Safety
/// Both arrays have that many entries.
pub(crate) unsafe fn listed(
    runtime: &'static Runtime,
    entries: usize,
    counts: Counts,
    displacements: Displacements,
    datatype: MPI_Datatype,
) -> Result<Vec<Piece>> {
    if entries > 0 && (counts.is_null() || displacements.is_null()) {
        let what = if counts.is_null() { "counts" } else { "displacements" };
        return Err(crate::bodies::world::null(&format!("the array of {what}")));
    }
    let extent = resolve_committed(runtime, datatype)?.extent();
    let piece = |index: usize| {
        // SAFETY: the caller promised so many entries.
        let (count, displacement) = unsafe { (counts.at(index), displacements.at(index)) };
        let offset = displacement.checked_mul(extent).ok_or_else(|| {
            Error::new(Class::Argument, format!("the displacement of entry {index} is {displacement}"))
        })?;
        if count < 0 {
            return Err(Error::new(Class::Count, format!("the count of entry {index} is {count}")));
        }
        Ok(Piece { offset, count, datatype: resolve_committed(runtime, datatype)? })
    };
    (0..entries).map(piece).collect()
}

/// Brings everybody's data to the root, as much from each as the root says.
///
/// # Safety
/// As for [`mpi_gather`]; at the root the arrays have an entry for every rank.
pub unsafe fn mpi_gatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displacements,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Gatherv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(sendbuf));
        if !here {
            refuse_in_place(sendbuf)?;
        }
        // SAFETY: the program's promises are handed on, here and below.
        let input = unsafe { give(runtime, sendbuf, sendcount, sendtype, in_place)? };
        comm.check(|| format!("MPI_Gatherv, root {}", root.0))?;
        if !here {
            let schedule = collectives::gatherv(&comm.shape(), root, input.payload.bytes(), &[], false);
            return run(comm, schedule, &input, Output::none());
        }
        // SAFETY: as above.
        let output = unsafe {
            let pieces = listed(runtime, comm.size() as usize, recvcounts, displs, recvtype)?;
            Output::new(recvbuf, &pieces, in_place)?
        };
        let mine = output.blocks[comm.rank().0 as usize].bytes;
        if !in_place {
            check_same(input.payload.bytes(), mine)?;
        }
        let schedule = collectives::gatherv(&comm.shape(), root, mine, &output.blocks, in_place);
        run(comm, schedule, &input, output)
    })
}

/// Deals the root's data out, in rank order.
///
/// # Safety
/// At the root `sendbuf` holds `sendcount` elements for every rank; `recvbuf` has room for `recvcount` elements.
pub unsafe fn mpi_scatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Scatter", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(recvbuf));
        if !here {
            refuse_in_place(recvbuf)?;
        }
        // SAFETY: the program's promises are handed on, here and below.
        let output = unsafe { get(runtime, recvbuf, recvcount, recvtype, in_place)? };
        let (count, datatype) = if here { (sendcount, sendtype) } else { (recvcount, recvtype) };
        check_rooted(runtime, comm, "MPI_Scatter", root, count, datatype)?;
        if !here {
            let scatter = Collective::Scatter(Rooted { root, bytes: output.memory.bytes(), in_place: false });
            return perform(comm, scatter, &Input::none(), output);
        }
        refuse_in_place(sendbuf)?;
        let (pieces, bytes) = for_each_rank(runtime, comm, sendcount, sendtype)?;
        // SAFETY: as above.
        let input = unsafe { Input::new(sendbuf, &pieces)? };
        if !in_place {
            check_same(bytes, output.memory.bytes())?;
        }
        perform(comm, Collective::Scatter(Rooted { root, bytes, in_place }), &input, output)
    })
}

/// What a rank gets: a whole buffer, or nothing where its part stays where it is.
///
/// # Safety
/// See [`Output::new`].
unsafe fn get(
    runtime: &'static Runtime,
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    in_place: bool,
) -> Result<Output> {
    if in_place {
        return Ok(Output::none());
    }
    let pieces = whole(runtime, count, datatype)?;
    // SAFETY: the caller's promise is handed on.
    unsafe { Output::new(buffer, &pieces, false) }
}

/// Deals the root's data out, as much to each as the root says.
///
/// # Safety
/// As for [`mpi_scatter`]; at the root the arrays have an entry for every rank.
pub unsafe fn mpi_scatterv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    displs: Displacements,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Scatterv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(recvbuf));
        if !here {
            refuse_in_place(recvbuf)?;
        }
        // SAFETY: the program's promises are handed on, here and below.
        let output = unsafe { get(runtime, recvbuf, recvcount, recvtype, in_place)? };
        comm.check(|| format!("MPI_Scatterv, root {}", root.0))?;
        if !here {
            let schedule = collectives::scatterv(&comm.shape(), root, &[], output.memory.bytes(), false);
            return run(comm, schedule, &Input::none(), output);
        }
        // SAFETY: as above.
        let input = unsafe {
            let pieces = listed(runtime, comm.size() as usize, sendcounts, displs, sendtype)?;
            Input::new(sendbuf, &pieces)?
        };
        let mine = input.blocks[comm.rank().0 as usize].bytes;
        if !in_place {
            check_same(mine, output.memory.bytes())?;
        }
        run(comm, collectives::scatterv(&comm.shape(), root, &input.blocks, mine, in_place), &input, output)
    })
}

/// Brings everybody's data to everybody, in rank order.
///
/// # Safety
/// `sendbuf` holds `sendcount` elements, `recvbuf` has room for `recvcount` elements of every rank.
pub unsafe fn mpi_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Allgather", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        let (pieces, bytes) = for_each_rank(runtime, comm, recvcount, recvtype)?;
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            (give(runtime, sendbuf, sendcount, sendtype, in_place)?, Output::new(recvbuf, &pieces, in_place)?)
        };
        if !in_place {
            check_same(input.payload.bytes(), bytes)?;
        }
        comm.check(|| format!("MPI_Allgather, {}", each(comm, &pieces)))?;
        perform(comm, Collective::Allgather(Each { bytes, in_place }), &input, output)
    })
}

/// Brings everybody's data to everybody, parts of different length.
///
/// # Safety
/// As for [`mpi_allgather`]; the arrays have an entry for every rank.
pub unsafe fn mpi_allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displacements,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Allgatherv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let in_place = is_in_place(sendbuf);
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            let pieces = listed(runtime, comm.size() as usize, recvcounts, displs, recvtype)?;
            (give(runtime, sendbuf, sendcount, sendtype, in_place)?, Output::new(recvbuf, &pieces, in_place)?)
        };
        if !in_place {
            check_same(input.payload.bytes(), output.blocks[comm.rank().0 as usize].bytes)?;
        }
        comm.check(|| format!("MPI_Allgatherv, {}", amounts(output.blocks.iter().map(|block| block.bytes))))?;
        let schedule = collectives::allgatherv(&comm.shape(), &output.blocks, in_place);
        run(comm, schedule, &input, output)
    })
}

/// Everybody sends a part to everybody.
///
/// # Safety
/// `sendbuf` holds `sendcount` elements for every rank, `recvbuf` has room for `recvcount` elements of every rank.
pub unsafe fn mpi_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Alltoall", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        let (pieces, bytes) = for_each_rank(runtime, comm, recvcount, recvtype)?;
        // SAFETY: the program's promises are handed on, here and below.
        let output = unsafe { Output::new(recvbuf, &pieces, in_place)? };
        let input = if in_place {
            Input::none()
        } else {
            let (pieces, gives) = for_each_rank(runtime, comm, sendcount, sendtype)?;
            check_same(gives, bytes)?;
            // SAFETY: as above.
            unsafe { Input::new(sendbuf, &pieces)? }
        };
        comm.check(|| format!("MPI_Alltoall, {}", each(comm, &pieces)))?;
        perform(comm, Collective::Alltoall(Each { bytes, in_place }), &input, output)
    })
}

/// Everybody sends a part to everybody, of different lengths.
///
/// # Safety
/// All arrays have an entry for every rank, and the buffers what they say.
pub unsafe fn mpi_alltoallv(
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
    call("MPI_Alltoallv", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let in_place = is_in_place(sendbuf);
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            let pieces = listed(runtime, comm.size() as usize, recvcounts, rdispls, recvtype)?;
            let output = Output::new(recvbuf, &pieces, in_place)?;
            let input = match in_place {
                true => Input::none(),
                false => Input::new(
                    sendbuf,
                    &listed(runtime, comm.size() as usize, sendcounts, sdispls, sendtype)?,
                )?,
            };
            (input, output)
        };
        comm.check(|| "MPI_Alltoallv".to_owned())?;
        all_to_all(comm, &input, output, in_place)
    })
}

fn all_to_all(comm: &Communicator, input: &Input, output: Output, in_place: bool) -> Result<()> {
    let Rank(here) = comm.rank();
    if !in_place {
        check_same(input.blocks[here as usize].bytes, output.blocks[here as usize].bytes)?;
    }
    let schedule = collectives::alltoallv(&comm.shape(), &input.blocks, &output.blocks, in_place);
    run(comm, schedule, input, output)
}

/// The pieces that arrays of counts, displacements in bytes and datatypes describe.
///
/// # Safety
/// All arrays have that many entries.
pub(crate) unsafe fn listed_with_types(
    runtime: &'static Runtime,
    entries: usize,
    counts: Counts,
    displacements: Displacements,
    datatypes: *const MPI_Datatype,
) -> Result<Vec<Piece>> {
    if entries > 0 && (counts.is_null() || displacements.is_null() || datatypes.is_null()) {
        return Err(crate::bodies::world::null("an array of counts, displacements or datatypes"));
    }
    let piece = |index: usize| {
        // SAFETY: the caller promised so many entries.
        let (count, offset, datatype) =
            unsafe { (counts.at(index), displacements.at(index), datatypes.add(index).read()) };
        if count < 0 {
            return Err(Error::new(Class::Count, format!("the count of entry {index} is {count}")));
        }
        Ok(Piece { offset, count, datatype: resolve_committed(runtime, datatype)? })
    };
    (0..entries).map(piece).collect()
}

/// Everybody sends a part to everybody, of different lengths and types.
///
/// # Safety
/// All arrays have an entry for every rank, and the buffers what they say.
pub unsafe fn mpi_alltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Displacements,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Displacements,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Alltoallw", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let in_place = is_in_place(sendbuf);
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            let pieces = listed_with_types(runtime, comm.size() as usize, recvcounts, rdispls, recvtypes)?;
            let output = Output::new(recvbuf, &pieces, in_place)?;
            let input = match in_place {
                true => Input::none(),
                false => Input::new(
                    sendbuf,
                    &listed_with_types(runtime, comm.size() as usize, sendcounts, sdispls, sendtypes)?,
                )?,
            };
            (input, output)
        };
        comm.check(|| "MPI_Alltoallw".to_owned())?;
        all_to_all(comm, &input, output, in_place)
    })
}
