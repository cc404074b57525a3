//! Collective operations on contiguous elements of predefined datatypes, which need no more than a few
//! numbers to be described: no allocation, no reference to a datatype. Everything else is described by
//! [`Described`](crate::bodies::ways::Described).

mod listed;

use std::ffi::c_int;

use weft::claims::{Payload, Room, UserMemory};
use weft::collectives::{self, Around, Buffers, Collective, Each, Reduction, Rooted, Surround};
use weft::{Combining, Communicator, Rank, Result};

use crate::bodies::collectives::is_in_place;
use crate::bodies::datatypes::{self, row_bytes};
use crate::bodies::operators;
use crate::bodies::ways::Way;
use crate::calls;
use crate::claims::{Buffer, Received, Sent};
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::{CommObject, Held, RequestObject};
use crate::parts::{self, Input, Output};
use crate::requests::SENT;
use crate::state;
use crate::types::*;

pub(crate) use self::listed::{BlockList, allgatherv, alltoallv, gatherv, reduce_scatter, scatterv};

/// A buffer, and how many elements it holds, or holds for each rank.
pub(crate) type Elements<B> = (B, MPI_Count, MPI_Datatype);

/// An operation of one call on one communicator.
#[derive(Clone, Copy)]
struct Plain {
    collective: Collective,
    /// Where this rank's contribution stands, and how long it is.
    gives: (Sent, usize),
    /// Where what this rank gets comes to stand, and how long that is.
    gets: (Received, usize),
    combining: Combining<'static>,
}

/// How elements are combined, where the library knows how.
#[inline(always)]
fn arithmetic(op: MPI_Op, datatype: MPI_Datatype) -> Option<Combining<'static>> {
    let (operator, predefined) = (operators::predefined(op)?, datatypes::predefined(datatype)?);
    let is_known = operator.is_collective() && operator.is_legal_for(predefined);
    is_known.then_some(Combining::Predefined(operator, predefined))
}

/// The reduction of so many bytes.
#[inline(always)]
fn reduction(combining: Combining<'static>, bytes: usize, in_place: bool) -> Option<Reduction> {
    let Combining::Predefined(operator, predefined) = combining else { return None };
    let element_bytes = predefined.size() as usize;
    let operator = collectives::Operator { element_bytes, commutative: operator.is_commutative() };
    Some(Reduction { count: bytes / element_bytes, operator, in_place })
}

impl Plain {
    /// An operation that combines nothing.
    #[inline(always)]
    fn moving(collective: Collective, gives: (Sent, usize), gets: (Received, usize)) -> Plain {
        Plain { collective, gives, gets, combining: Combining::Nothing }
    }

    /// The memory that it uses.
    #[inline(always)]
    fn buffers(&self) -> Buffers {
        Buffers { input: readable(self.gives), output: writable(self.gets) }
    }
}

#[inline(always)]
fn readable((start, bytes): (Sent, usize)) -> Payload<'static> {
    start.payload(0, bytes)
}

#[inline(always)]
fn room((start, bytes): (Received, usize)) -> Room {
    start.room(bytes)
}

#[inline(always)]
fn writable((start, bytes): (Received, usize)) -> UserMemory {
    // A rank that gets nothing may have no address.
    if bytes == 0 { UserMemory::EMPTY } else { start.memory(0, bytes) }
}

/// The communicator, where nothing is unusual about it and about the library: no requests to look after, no
/// checks, one group, nobody blank.
#[inline(never)]
fn usual(way: &Way<'_>, comm: MPI_Comm) -> Option<Held> {
    let held = state::undistracted()?.find_comm(comm)?;
    is_usual(way, &held.comm).then_some(held)
}

#[inline(always)]
fn is_usual(way: &Way<'_>, comm: &Communicator) -> bool {
    if comm.is_inter() || comm.has_blanks() {
        return false;
    }
    calls::enter(way.name());
    true
}

/// Does, or begins, what is described for this rank; `None` where nothing has happened.
#[inline(always)]
fn perform(
    way: &Way<'_>,
    comm: MPI_Comm,
    describe: impl Fn(&Communicator) -> Option<Plain>,
) -> Option<c_int> {
    if way.is_blocking() {
        let held;
        let object: &CommObject = match state::usual_world(comm) {
            Some(world) if is_usual(way, &world.comm) => world,
            Some(_) => return None,
            None => {
                held = usual(way, comm)?;
                &held
            }
        };
        if object.comm.size() == 2 {
            let plain = describe(&object.comm)?;
            let (input, output) = (readable(plain.gives), room(plain.gets));
            if let Some(done) = object.comm.try_perform(plain.collective, input, output, plain.combining) {
                return Some(conclude(way, comm, done));
            }
        }
    }
    // Described once more, since the compiler keeps in memory what is lent to a function that is called.
    perform_otherwise(way, comm, describe)
}

/// Does, or begins, what is described for this rank, by [`Communicator::perform`] or as a request; `None`
/// where nothing has happened.
#[inline(never)]
fn perform_otherwise(
    way: &Way<'_>,
    comm: MPI_Comm,
    describe: impl Fn(&Communicator) -> Option<Plain>,
) -> Option<c_int> {
    let held = usual(way, comm)?;
    let plain = describe(&held.comm)?;
    let buffers = plain.buffers();
    if !way.is_blocking() {
        return begin(way, comm, &held, plain, buffers);
    }
    let Buffers { input, output } = buffers;
    let done = held.comm.perform(plain.collective, input, output, plain.combining);
    Some(conclude(way, comm, done))
}

#[inline(always)]
fn conclude(way: &Way<'_>, comm: MPI_Comm, done: Result<()>) -> c_int {
    if done.is_ok() { MPI_SUCCESS } else { finish(way.name(), Target::Comm(comm), done) }
}

/// Begins the operation that `plain` describes, in these buffers, and puts its request to its place; `None`
/// where nothing has happened.
fn begin(way: &Way<'_>, comm: MPI_Comm, held: &Held, plain: Plain, buffers: Buffers) -> Option<c_int> {
    let place = way.begins()?;
    let started =
        held.comm.start_if_not_over(plain.collective, buffers, plain.combining.owned()?, None, None);
    let Some(ongoing) = started else {
        place.set(SENT);
        return Some(MPI_SUCCESS);
    };
    let (input, output) = (Input::nothing(), Output::nothing());
    let object = RequestObject::Collective { errors_to: comm, ongoing, input, output };
    let adopted = state::runtime()?.adopt_request(object).map(|request| place.set(request));
    Some(finish(way.name(), Target::Comm(comm), adopted))
}

/// The bytes of a buffer whose elements are contiguous, and which holds some.
#[inline(always)]
fn row<B: Buffer>((buffer, count, datatype): Elements<B>) -> Option<usize> {
    row_bytes(datatype, count).filter(|bytes| *bytes > 0 && buffer.is_plain())
}

/// The root, if there is such a rank.
#[inline(always)]
fn root_of(comm: &Communicator, root: c_int) -> Option<Rank> {
    u32::try_from(root).ok().filter(|root| *root < comm.size()).map(Rank)
}

/// Whether so many bytes here and there are no bytes in common.
#[inline(always)]
fn are_apart<A: Buffer, B: Buffer>((one, one_bytes): (A, usize), (other, other_bytes): (B, usize)) -> bool {
    let range = |start: usize, bytes| start..start.wrapping_add(bytes);
    parts::are_apart(&range(one.start().addr(), one_bytes), &range(other.start().addr(), other_bytes))
}

/// So many bytes for each rank.
#[inline(always)]
fn for_each(comm: &Communicator, bytes: usize) -> Option<usize> {
    bytes.checked_mul(comm.size() as usize)
}

/// `MPI_Barrier`; `None` where nothing has happened, here and below.
#[inline(always)]
pub(crate) fn barrier(way: &Way<'_>, comm: MPI_Comm) -> Option<c_int> {
    let nothing = Plain::moving(Collective::Barrier, (Sent::NULL, 0), (Received::NULL, 0));
    perform(way, comm, |_| Some(nothing))
}

/// `MPI_Bcast`.
#[inline(always)]
pub(crate) fn bcast(
    way: &Way<'_>,
    (buffer, count, datatype): Elements<Received>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row((buffer, count, datatype))?;
    perform(way, comm, |comm| {
        let root = root_of(comm, root)?;
        Some(Plain::moving(Collective::Bcast { root, bytes }, (Sent::NULL, 0), (buffer, bytes)))
    })
}

/// `MPI_Gather`. What is said of the receive buffer means something at the root alone.
#[inline(always)]
pub(crate) fn gather(
    way: &Way<'_>,
    sends: Elements<Sent>,
    receives: Elements<Received>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(sends)?;
    perform(way, comm, |comm| {
        let root = root_of(comm, root)?;
        let gives = (sends.0, bytes);
        let gets = if comm.rank() != root {
            (receives.0, 0)
        } else {
            let all = (receives.0, for_each(comm, bytes)?);
            if row(receives) != Some(bytes) || !are_apart(gives, all) {
                return None;
            }
            all
        };
        Some(Plain::moving(Collective::Gather(Rooted { root, bytes, in_place: false }), gives, gets))
    })
}

/// `MPI_Scatter`. What is said of the send buffer means something at the root alone.
#[inline(always)]
pub(crate) fn scatter(
    way: &Way<'_>,
    sends: Elements<Sent>,
    receives: Elements<Received>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(receives)?;
    perform(way, comm, |comm| {
        let root = root_of(comm, root)?;
        let gets = (receives.0, bytes);
        let gives = if comm.rank() != root {
            (sends.0, 0)
        } else {
            let all = (sends.0, for_each(comm, bytes)?);
            if row(sends) != Some(bytes) || !are_apart(all, gets) {
                return None;
            }
            all
        };
        Some(Plain::moving(Collective::Scatter(Rooted { root, bytes, in_place: false }), gives, gets))
    })
}

/// `MPI_Allgather`.
#[inline(always)]
pub(crate) fn allgather(
    way: &Way<'_>,
    sends: Elements<Sent>,
    receives: Elements<Received>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(receives).filter(|bytes| row(sends) == Some(*bytes))?;
    perform(way, comm, |comm| {
        let (gives, gets) = ((sends.0, bytes), (receives.0, for_each(comm, bytes)?));
        let collective = Collective::Allgather(Each { bytes, in_place: false });
        are_apart(gives, gets).then(|| Plain::moving(collective, gives, gets))
    })
}

/// `MPI_Alltoall`.
#[inline(always)]
pub(crate) fn alltoall(
    way: &Way<'_>,
    sends: Elements<Sent>,
    receives: Elements<Received>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(receives).filter(|bytes| row(sends) == Some(*bytes))?;
    perform(way, comm, |comm| {
        let all = for_each(comm, bytes)?;
        let (gives, gets) = ((sends.0, all), (receives.0, all));
        let collective = Collective::Alltoall(Each { bytes, in_place: false });
        are_apart(gives, gets).then(|| Plain::moving(collective, gives, gets))
    })
}

/// A rank's contribution to a reduction, which is so long, and where the result goes.
#[inline(always)]
fn operands(
    (sendbuf, sends): (Sent, usize),
    (recvbuf, receives): (Received, usize),
) -> Option<(Sent, usize)> {
    if is_in_place(sendbuf) {
        return Some((Sent::NULL, 0));
    }
    (sendbuf.is_plain() && are_apart((sendbuf, sends), (recvbuf, receives))).then_some((sendbuf, sends))
}

/// `MPI_Allreduce`.
#[inline(always)]
pub(crate) fn allreduce(
    way: &Way<'_>,
    sendbuf: Sent,
    receives: Elements<Received>,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (bytes, combining) = (row(receives)?, arithmetic(op, receives.2)?);
    let (gives, gets) = (operands((sendbuf, bytes), (receives.0, bytes))?, (receives.0, bytes));
    let collective = Collective::Allreduce(reduction(combining, bytes, is_in_place(sendbuf))?);
    perform(way, comm, |_| Some(Plain { collective, gives, gets, combining }))
}

/// `MPI_Reduce`.
#[inline(always)]
pub(crate) fn reduce(
    way: &Way<'_>,
    sends: Elements<Sent>,
    recvbuf: Received,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (bytes, combining) = (row(sends)?, arithmetic(op, sends.2)?);
    perform(way, comm, |comm| {
        let root = root_of(comm, root)?;
        let collective = Collective::Reduce(root, reduction(combining, bytes, false)?);
        let is_root = comm.rank() == root;
        let (gives, gets) = ((sends.0, bytes), (recvbuf, if is_root { bytes } else { 0 }));
        let is_usual = !is_root || recvbuf.is_plain() && are_apart(gives, (recvbuf, bytes));
        is_usual.then_some(Plain { collective, gives, gets, combining })
    })
}

/// `MPI_Reduce_scatter_block`.
#[inline(always)]
pub(crate) fn reduce_scatter_block(
    way: &Way<'_>,
    sendbuf: Sent,
    receives: Elements<Received>,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (bytes, combining) = (row(receives)?, arithmetic(op, receives.2)?);
    let collective = Collective::ReduceScatterBlock(reduction(combining, bytes, false)?);
    if !sendbuf.is_plain() {
        return None;
    }
    perform(way, comm, |comm| {
        let (gives, gets) = ((sendbuf, for_each(comm, bytes)?), (receives.0, bytes));
        are_apart(gives, gets).then_some(Plain { collective, gives, gets, combining })
    })
}

/// `MPI_Scan`, and `MPI_Exscan`, which is `exclusive`: the first rank of it gets nothing.
#[inline(always)]
pub(crate) fn scan(
    way: &Way<'_>,
    exclusive: bool,
    sendbuf: Sent,
    receives: Elements<Received>,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (bytes, combining) = (row(receives)?, arithmetic(op, receives.2)?);
    let gives = operands((sendbuf, bytes), (receives.0, bytes)).filter(|gives| gives.1 > 0)?;
    let of = reduction(combining, bytes, false)?;
    let collective = if exclusive { Collective::Exscan(of) } else { Collective::Scan(of) };
    perform(way, comm, |comm| {
        let gets_nothing = exclusive && comm.rank() == Rank(0);
        let gets = (receives.0, if gets_nothing { 0 } else { bytes });
        Some(Plain { collective, gives, gets, combining })
    })
}

/// `MPI_Neighbor_allgather`, and `MPI_Neighbor_alltoall` where there is a block for each destination: `each`.
#[inline(always)]
pub(crate) fn neighbours(
    way: &Way<'_>,
    each: bool,
    sends: Elements<Sent>,
    receives: Elements<Received>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = row(receives).filter(|bytes| row(sends) == Some(*bytes))?;
    if !way.is_blocking() {
        return None;
    }
    let held = usual(way, comm)?;
    let neighbourhood = held.comm.neighbourhood().ok()?;
    let given = if each { bytes.checked_mul(neighbourhood.destinations.len())? } else { bytes };
    let (gives, gets) = ((sends.0, given), (receives.0, bytes.checked_mul(neighbourhood.sources.len())?));
    if !are_apart(gives, gets) {
        return None;
    }
    let around = if each { Around::Alltoall { bytes } } else { Around::Allgather { bytes } };
    let (input, output) = (readable(gives), writable(gets));
    Some(conclude(way, comm, held.comm.perform_around(Surround::Even(around), input, output)))
}
