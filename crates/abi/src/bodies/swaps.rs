//! The usual case of a collective operation of two ranks, and of some of more: few bytes, a predefined datatype without gaps, an operator that is
//! predefined as well, and nothing wrong.
//!
//! As in [`usual`](crate::bodies::usual), it is told apart in a handful of instructions, and whatever is different goes the
//! general way; nothing has happened then.

mod around;
mod begun;
mod listed;
mod long;
mod shares;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use datatype::{Operator, Predefined, reduce_apart, reduce_eight_bytes, reduce_four_bytes};
use weft::claims::{Payload, Room, Swapping, UserMemory, copy};
use weft::collectives::{self, Buffers, Collective, Each, Reduction};
use weft::{Communicator, Rank};

use crate::arguments::is_plain;
use crate::bodies::collectives::is_in_place;
use crate::bodies::datatypes::{self, row_bytes};
use crate::bodies::operators;
use crate::bodies::ways::Way;
use crate::calls;
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::parts;
use crate::requests::SENT;
use crate::state::{self, Short, with_usual_comm};
use crate::types::*;

pub(crate) use self::around::neighbours;
use self::begun::{begin_allreduce, begin_exchange, buffers};
pub(crate) use self::listed::{List, allgatherv, alltoallv, gatherv, reduce_scatter, scatterv};

/// Who gives and who gets.
#[derive(Clone, Copy)]
enum Roles {
    /// Each does both.
    Both,
    /// The root gives, the other gets.
    From(c_int),
    /// The root gets, the other gives.
    To(c_int),
}

impl Roles {
    /// Whether that rank gives, and whether it gets; `None` where there is no such root.
    #[inline(always)]
    fn of(self, rank: Rank) -> Option<(bool, bool)> {
        let here = |root: c_int| (0..2).contains(&root).then_some(root == rank.0 as c_int);
        match self {
            Roles::Both => Some((true, true)),
            Roles::From(root) => here(root).map(|here| (here, !here)),
            Roles::To(root) => here(root).map(|here| (!here, here)),
        }
    }
}

/// Some bytes of a [`Drawer`]: of the other rank's, or a copy of one's own.
struct Aside<'a, const BYTES: usize> {
    memory: &'a mut Drawer<BYTES>,
    bytes: usize,
}

/// Memory that nobody has asked the heap for. It stands alone: what is known of it when the library is built, such as a length beside it, would have the
/// compiler write all of it. Threads may have small stacks, so the longer one is lent by [`with_long`].
type Drawer<const BYTES: usize> = MaybeUninit<[u8; BYTES]>;

impl<const BYTES: usize> Aside<'_, BYTES> {
    #[inline(always)]
    fn new(memory: &mut Drawer<BYTES>, bytes: usize) -> Aside<'_, BYTES> {
        Aside { memory, bytes }
    }

    #[inline(always)]
    fn room(&mut self) -> Room {
        assert!(self.bytes <= BYTES);
        // SAFETY: it has room for that many, and is used by nothing else until the swap is over.
        unsafe { Room::claim(self.memory.as_mut_ptr().cast(), self.bytes) }
    }

    /// What stands there.
    ///
    /// # Safety
    /// All of it was written: a swap is over in which this rank gets, or it was filled by hand.
    #[inline(always)]
    unsafe fn come(&mut self) -> &mut [u8] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.bytes) }
    }
}

/// What one rank gives, of which each rank has `stride` bytes: where it stands is a matter of the rank.
#[derive(Clone, Copy)]
struct Given {
    start: *const u8,
    stride: usize,
    bytes: usize,
}

impl Given {
    /// What it has for that rank.
    #[inline(always)]
    fn block(self, rank: u32) -> *const u8 {
        self.start.wrapping_add(self.stride * rank as usize)
    }
}

/// Where it gets what the other rank gives; the same for what it gets.
#[derive(Clone, Copy)]
struct Taken {
    start: *mut u8,
    stride: usize,
    bytes: usize,
}

impl Taken {
    const NOTHING: Taken = Taken { start: std::ptr::dangling_mut(), stride: 0, bytes: 0 };

    /// The room for what the rank gets that is not this one.
    ///
    /// # Safety
    /// There is room for it, which is used by nothing else until the swap is over.
    #[inline(always)]
    unsafe fn room(self, rank: Rank) -> Room {
        // SAFETY: the caller's promise.
        unsafe { Room::claim(self.start.wrapping_add(self.stride * (1 - rank.0 as usize)), self.bytes) }
    }
}

struct Begin<'a> {
    roles: Roles,
    /// Nothing where what this rank would give is not the usual case; then it must not be asked to.
    given: Option<Given>,
    /// Nothing where it could not put what it would get to its place.
    taken: Option<Taken>,
    /// What is to be waited for afterwards; nothing where only what is over at once is to be done.
    left: Option<&'a mut Option<Swapping>>,
}

impl Short for Begin<'_> {
    /// This rank, and whether it gets something.
    type Answer = (Rank, bool);

    #[inline(always)]
    fn on(self, comm: &Communicator) -> Option<(Rank, bool)> {
        let rank = comm.rank();
        let (gives, gets) = self.roles.of(rank)?;
        if rank.0 > 1 {
            return None;
        }
        if gives && self.given.is_none() || gets && self.taken.is_none() {
            return None;
        }
        let payload = self.given.filter(|_| gives).map(|given| {
            // SAFETY: the promise of `swap`; it is in use no longer than the swap.
            unsafe { Payload::claim(given.block(1 - rank.0), given.bytes) }
        });
        // SAFETY: the promise of `swap`.
        let room = self.taken.filter(|_| gets).map(|taken| unsafe { taken.room(rank) });
        match self.left {
            Some(left) => comm.swap_at_once(payload, room, left).map(drop)?,
            None => comm.swap_if_there(payload, room)?,
        }
        Some((rank, gets))
    }
}

/// Gives and gets `bytes` bytes, and hands over what came, if anything came, with one's own rank. The answer is what to return;
/// `None` where nothing has happened. Where this rank would give and `given` is nothing, or would get and does not `take`,
/// nothing happens.
///
/// # Safety
/// What is given is readable, if this rank gives.
#[inline(always)]
unsafe fn swap(
    way: &Way,
    comm: MPI_Comm,
    roles: Roles,
    what: (usize, Option<Given>, bool),
    got: impl FnOnce(Rank, Option<&mut [u8]>) + Copy,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        match what {
            (..=SHORT_BYTES_MAX, ..) => {
                swap_with(way, comm, roles, what, &mut Drawer::<SHORT_BYTES_MAX>::uninit(), got)
            }
            _ => elsewhere(move || with_long(|drawer| swap_with(way, comm, roles, what, drawer, got))),
        }
    }
}

/// Does it in a place of its own on the stack, which others need not have.
#[cold]
#[inline(never)]
fn elsewhere<R>(does: impl FnOnce() -> R) -> R {
    does()
}

thread_local! {
    /// Long drawers that this thread has used before.
    static SPARE: Cell<Vec<Box<Drawer<BYTES_MAX>>>> = const { Cell::new(Vec::new()) };
}

/// Lends a long drawer, which the thread keeps for the next time: on its stack there may be no room for it.
fn with_long<R>(does: impl FnOnce(&mut Drawer<BYTES_MAX>) -> R) -> R {
    // At the exit of a thread there may be none to keep it for.
    let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
    let mut drawer = spare.pop().unwrap_or_else(Box::new_uninit);
    let _ = SPARE.try_with(|all| all.set(spare));
    let result = does(&mut drawer);
    let _ = SPARE.try_with(|all| {
        let mut spare = all.take();
        spare.push(drawer);
        all.set(spare);
    });
    result
}

/// # Safety
/// As for [`swap`].
#[inline(always)]
unsafe fn swap_with<const BYTES: usize>(
    way: &Way,
    comm: MPI_Comm,
    roles: Roles,
    (bytes, given, takes): (usize, Option<Given>, bool),
    drawer: &mut Drawer<BYTES>,
    got: impl FnOnce(Rank, Option<&mut [u8]>),
) -> Option<c_int> {
    let mut theirs = Aside::new(drawer, bytes);
    let taken = Taken { start: theirs.room().memory().start(), stride: 0, bytes };
    // SAFETY: the caller's promise; what has come is written when the swap is over.
    unsafe {
        swap_to(way, comm, roles, (given, takes.then_some(taken)), |rank, gets| {
            got(rank, gets.then(|| theirs.come()));
        })
    }
}

/// The same where what comes goes to its place at once; `then` is told whether anything did.
///
/// # Safety
/// What is given is readable, if this rank gives, and where it is taken to is writable, if it gets.
#[inline(always)]
unsafe fn swap_to(
    way: &Way,
    comm: MPI_Comm,
    roles: Roles,
    (given, taken): (Option<Given>, Option<Taken>),
    then: impl FnOnce(Rank, bool),
) -> Option<c_int> {
    if !way.is_blocking() {
        // An exchange gives before it looks: see `begun`.
        if matches!(roles, Roles::Both) {
            return None;
        }
        return elsewhere(|| begin(way, comm, Begin { roles, given, taken, left: None }, then));
    }
    let mut left = None;
    let (rank, gets) = with_usual_comm(comm, Begin { roles, given, taken, left: Some(&mut left) })?;
    if let Some(swapping) = &left {
        // Who only gives waits until what it gives is not read any more.
        // SAFETY: the caller's promise.
        let room = unsafe { taken.filter(|_| gets).unwrap_or(Taken::NOTHING).room(rank) };
        if let Err(code) = wait(way, comm, swapping, room) {
            return Some(code);
        }
    }
    then(rank, gets);
    Some(MPI_SUCCESS)
}

/// Begins what is over then: where this rank only gives, or what it gets is there already. Its request is that of all sends that are
/// over when they are begun.
fn begin(way: &Way, comm: MPI_Comm, swap: Begin<'_>, then: impl FnOnce(Rank, bool)) -> Option<c_int> {
    let place = way.begins()?;
    let (rank, gets) = with_usual_comm(comm, swap)?;
    then(rank, gets);
    place.set(SENT);
    Some(MPI_SUCCESS)
}

#[inline(never)]
fn wait(way: &Way, comm: MPI_Comm, swapping: &Swapping, room: Room) -> Result<(), c_int> {
    calls::enter(way.name());
    let held = state::runtime().and_then(|runtime| runtime.find_comm(comm)).expect("a swap was begun");
    let ended = held.comm.finish_swap(swapping, room);
    ended.map_err(|error| finish(way.name(), Target::Comm(comm), Err(error)))
}

/// `MPI_Barrier`; `None` where nothing has happened, here and below.
#[inline(always)]
pub(crate) fn barrier(way: &Way, comm: MPI_Comm) -> Option<c_int> {
    let given = Given { start: std::ptr::dangling(), stride: 0, bytes: 0 };
    if !way.is_blocking() {
        let nothing = || Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
        let described = || (Collective::Barrier, nothing(), None);
        // SAFETY: nothing is read or written.
        return elsewhere(|| unsafe {
            begin_exchange(way, comm, (given, Taken::NOTHING), described, |_| {})
        });
    }
    // SAFETY: nothing is read.
    let swapped = unsafe { swap(way, comm, Roles::Both, (0, Some(given), true), move |_, _| {}) };
    swapped.or_else(|| shares::barrier(way, comm))
}

/// The bytes of a buffer of what is to be combined, where there are few, and some.
#[inline(always)]
fn few(buffer: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Option<usize> {
    few_moved(buffer, count, datatype).filter(|bytes| *bytes <= BYTES_MAX)
}

/// The same of what goes to its place at once.
#[inline(always)]
fn few_moved(buffer: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Option<usize> {
    let bytes = row_bytes(datatype, count)?;
    ((1..=MOVED_BYTES_MAX).contains(&bytes) && is_plain(buffer)).then_some(bytes)
}

/// `MPI_Bcast`.
///
/// # Safety
/// As for its body.
#[inline(always)]
pub(crate) unsafe fn bcast(
    way: &Way,
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let Some(bytes) = few_moved(buffer, count, datatype) else {
        // SAFETY: the caller's promise.
        return unsafe { long::bcast(way, buffer, count, datatype, root, comm) };
    };
    let given = Given { start: buffer.cast(), stride: 0, bytes };
    let taken = Taken { start: buffer.cast(), stride: 0, bytes };
    // SAFETY: the caller's promise, and that there is room for what comes.
    unsafe {
        swap_to(way, comm, Roles::From(root), (Some(given), Some(taken)), |_, _| {})
            .or_else(|| shares::bcast(way, buffer, bytes, root, comm))
    }
}

/// A buffer, and how many elements of what it holds for each rank.
pub(crate) type Blocks<Pointer> = (Pointer, MPI_Count, MPI_Datatype);

/// `MPI_Allgather`, and `MPI_Alltoall` where there is a block to give for each rank: `each`.
///
/// # Safety
/// As for their bodies.
#[inline(always)]
pub(crate) unsafe fn exchange(
    way: &Way,
    each: bool,
    (sendbuf, sendcount, sendtype): Blocks<*const c_void>,
    (recvbuf, recvcount, recvtype): Blocks<*mut c_void>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let Some(bytes) = few_moved(recvbuf, recvcount, recvtype) else {
        let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
        // SAFETY: the caller's promise.
        return unsafe { long::exchange(way, each, gives, gets, comm) };
    };
    if few_moved(sendbuf, sendcount, sendtype) != Some(bytes) {
        return None;
    }
    let stride = if each { bytes } else { 0 };
    if !are_apart(sendbuf, bytes + stride, recvbuf, 2 * bytes) {
        return None;
    }
    let given = Given { start: sendbuf.cast(), stride, bytes };
    let taken = Taken { start: recvbuf.cast(), stride: bytes, bytes };
    if !way.is_blocking() {
        let of = Each { bytes, in_place: false };
        let collective = if each { Collective::Alltoall(of) } else { Collective::Allgather(of) };
        // SAFETY: the caller promised that all blocks can be read and written until it is over.
        return elsewhere(|| unsafe {
            let described = || (collective, buffers((sendbuf, bytes + stride), (recvbuf, 2 * bytes)), None);
            begin_exchange(way, comm, (given, taken), described, |rank| place_own(given, recvbuf, rank))
        });
    }
    // SAFETY: the caller promised that all blocks can be read and written.
    unsafe {
        let swapped = swap_to(way, comm, Roles::Both, (Some(given), Some(taken)), move |rank, _| {
            place_own(given, recvbuf, rank);
        });
        let is_same_for_all = swapped.is_none() && !each;
        if is_same_for_all { shares::allgather(way, (given.start, bytes), recvbuf, comm) } else { swapped }
    }
}

/// `MPI_Gather`. What is said of the room for blocks means something at the root alone.
///
/// # Safety
/// As for its body.
#[inline(always)]
pub(crate) unsafe fn gather(
    way: &Way,
    (sendbuf, sendcount, sendtype): Blocks<*const c_void>,
    (recvbuf, recvcount, recvtype): Blocks<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let Some(bytes) = few_moved(sendbuf, sendcount, sendtype) else {
        let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
        // SAFETY: the caller's promise.
        return unsafe { long::gather(way, gives, gets, root, comm) };
    };
    let takes = few_moved(recvbuf, recvcount, recvtype) == Some(bytes)
        && are_apart(sendbuf, bytes, recvbuf, 2 * bytes);
    let given = Given { start: sendbuf.cast(), stride: 0, bytes };
    let taken = takes.then_some(Taken { start: recvbuf.cast(), stride: bytes, bytes });
    // SAFETY: the caller promised that its block can be read, and at the root that there is room for all.
    unsafe {
        swap_to(way, comm, Roles::To(root), (Some(given), taken), move |rank, gets| {
            if gets {
                place_own(given, recvbuf, rank);
            }
        })
    }
}

/// `MPI_Scatter`. What is said of the blocks means something at the root alone.
///
/// # Safety
/// As for its body.
#[inline(always)]
pub(crate) unsafe fn scatter(
    way: &Way,
    (sendbuf, sendcount, sendtype): Blocks<*const c_void>,
    (recvbuf, recvcount, recvtype): Blocks<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let Some(bytes) = few_moved(recvbuf, recvcount, recvtype) else {
        let (gives, gets) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
        // SAFETY: the caller's promise.
        return unsafe { long::scatter(way, gives, gets, root, comm) };
    };
    let blocks = Given { start: sendbuf.cast(), stride: bytes, bytes };
    let gives = few_moved(sendbuf, sendcount, sendtype) == Some(bytes)
        && are_apart(sendbuf, 2 * bytes, recvbuf, bytes);
    let given = gives.then_some(blocks);
    let taken = Taken { start: recvbuf.cast(), stride: 0, bytes };
    // SAFETY: the caller promised that there is room for its block, and at the root that all can be read.
    unsafe {
        swap_to(way, comm, Roles::From(root), (given, Some(taken)), move |rank, gets| {
            if !gets {
                copy(blocks.block(rank.0), recvbuf.cast(), bytes);
            }
        })
    }
}

/// Brings one's own block to its place.
///
/// # Safety
/// It can be read, and there is room for all blocks elsewhere.
#[inline(always)]
unsafe fn place_own(given: Given, recvbuf: *mut c_void, rank: Rank) {
    let place = recvbuf.cast::<u8>().wrapping_add(given.bytes * rank.0 as usize);
    // SAFETY: the caller's promise.
    unsafe { copy(given.block(rank.0), place, given.bytes) };
}

/// How elements are combined, where the library knows how.
#[derive(Clone, Copy)]
struct Combining {
    operator: Operator,
    predefined: Predefined,
}

impl Combining {
    #[inline(always)]
    fn of(op: MPI_Op, datatype: MPI_Datatype) -> Option<Combining> {
        let (operator, predefined) = (operators::predefined(op)?, datatypes::predefined(datatype)?);
        (operator.is_collective() && operator.is_legal_for(predefined))
            .then_some(Combining { operator, predefined })
    }

    /// The reduction of so many bytes that combines so.
    fn reduction(self, bytes: usize, in_place: bool) -> Option<Reduction> {
        let element_bytes = self.predefined.size() as usize;
        let operator = collectives::Operator { element_bytes, commutative: self.operator.is_commutative() };
        Some(Reduction { count: bytes / element_bytes, operator, in_place })
    }

    /// Combines rank 0's elements with rank 1's in this order, as the schedules do, so that both have the same bits.
    ///
    /// # Safety
    /// `own` and `result` are as long as what has come; they may be the same.
    #[inline(always)]
    unsafe fn combine(self, rank: Rank, own: *const u8, theirs: &mut [u8], result: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe {
            match theirs.len() {
                8 if self.combine_eight(rank, own, theirs, result) => {}
                4 if self.combine_four(rank, own, theirs, result) => {}
                _ => self.combine_all(rank, own, theirs, result),
            }
        }
    }

    /// The same where that is one element; false, and nothing has happened, where it is not.
    ///
    /// # Safety
    /// As for [`Combining::combine`].
    #[inline(always)]
    unsafe fn combine_eight(self, rank: Rank, own: *const u8, theirs: &[u8], result: *mut c_void) -> bool {
        let Ok(theirs) = theirs.try_into().map(u64::from_ne_bytes) else { return false };
        // SAFETY: the caller's promise; an unaligned read and write ask for nothing more.
        unsafe {
            let [left, right] = in_order(rank, own.cast::<u64>().read_unaligned(), theirs);
            let done = reduce_eight_bytes(self.operator, self.predefined, left, right);
            done.map(|done| result.cast::<u64>().write_unaligned(done)).is_some()
        }
    }

    /// As [`Combining::combine_eight`].
    ///
    /// # Safety
    /// As for [`Combining::combine`].
    #[inline(always)]
    unsafe fn combine_four(self, rank: Rank, own: *const u8, theirs: &[u8], result: *mut c_void) -> bool {
        let Ok(theirs) = theirs.try_into().map(u32::from_ne_bytes) else { return false };
        // SAFETY: as above.
        unsafe {
            let [left, right] = in_order(rank, own.cast::<u32>().read_unaligned(), theirs);
            let done = reduce_four_bytes(self.operator, self.predefined, left, right);
            done.map(|done| result.cast::<u32>().write_unaligned(done)).is_some()
        }
    }

    /// The same in one pass over what stands where it stands, but for a copy of what would be written over. All ranks do it in the
    /// same parts and by the same function, so that all have the same bits, also inside a NaN.
    ///
    /// # Safety
    /// As for [`Combining::combine`].
    #[inline(never)]
    unsafe fn combine_all(self, rank: Rank, own: *const u8, theirs: &mut [u8], result: *mut c_void) {
        let Combining { operator, predefined } = self;
        let element_bytes = predefined.size() as usize;
        let part_bytes = SHORT_BYTES_MAX / element_bytes * element_bytes;
        let is_in_place = own.addr() == result.addr();
        let mut drawer = Drawer::<SHORT_BYTES_MAX>::uninit();
        for (theirs, part) in theirs.chunks(part_bytes).zip(0..) {
            let (at, bytes) = (part * part_bytes, theirs.len());
            let mut own = own.wrapping_add(at);
            if is_in_place {
                let aside: *mut u8 = drawer.as_mut_ptr().cast();
                // SAFETY: the caller's promise; a part is no longer than a drawer.
                unsafe { copy(own, aside, bytes) };
                own = aside;
            }
            // SAFETY: the caller's promise. Nobody else has a claim on either, and they stand apart now.
            let (own, mut out) = unsafe {
                let result = result.cast::<u8>().wrapping_add(at);
                (Payload::claim(own, bytes), UserMemory::claim(result, bytes))
            };
            let operands = in_order(rank, own, Payload::from(theirs));
            reduce_apart(operator, predefined, bytes / element_bytes, operands, &mut out)
                .expect("`of` has seen that it is defined");
        }
    }
}

/// `MPI_Allreduce`.
///
/// # Safety
/// As for its body.
#[inline(always)]
pub(crate) unsafe fn allreduce(
    way: &Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let combining = Combining::of(op, datatype)?;
    let Some(bytes) = few(recvbuf, count, datatype) else {
        // SAFETY: the caller's promise.
        return unsafe { long::allreduce(way, (sendbuf, recvbuf), (count, datatype), combining, comm) };
    };
    let own = Given { start: own((sendbuf, bytes), (recvbuf, bytes))?, stride: 0, bytes };
    if !way.is_blocking() {
        // SAFETY: the caller's promise, also for as long as it goes on.
        return elsewhere(|| unsafe {
            begin_allreduce(way, is_in_place(sendbuf), own, recvbuf, combining, comm)
        });
    }
    // SAFETY: the caller's promise.
    let swapped = unsafe { combined(way, Roles::Both, own, recvbuf, combining, comm) };
    // SAFETY: as above.
    swapped.or_else(|| unsafe { shares::allreduce(way, (own.start, bytes), recvbuf, combining, comm) })
}

/// `MPI_Reduce`.
///
/// # Safety
/// As for its body.
#[inline(always)]
pub(crate) unsafe fn reduce_to(
    way: &Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let combining = Combining::of(op, datatype)?;
    let Some(bytes) = few(sendbuf, count, datatype) else {
        // SAFETY: the caller's promise.
        return unsafe { long::reduce_to(way, (sendbuf, recvbuf), (count, datatype), combining, root, comm) };
    };
    // Whether this is the root, which needs both, is not yet known.
    if !is_plain(recvbuf) || !are_apart(sendbuf, bytes, recvbuf, bytes) {
        return None;
    }
    let own = Given { start: sendbuf.cast(), stride: 0, bytes };
    // SAFETY: the caller's promise.
    unsafe { combined(way, Roles::To(root), own, recvbuf, combining, comm) }
}

/// `MPI_Reduce_scatter_block`.
///
/// # Safety
/// As for its body.
#[inline(always)]
pub(crate) unsafe fn reduce_scatter_block(
    way: &Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let combining = Combining::of(op, datatype)?;
    let Some(bytes) = few(recvbuf, count, datatype) else {
        let buffers = (sendbuf, recvbuf);
        // SAFETY: the caller's promise.
        return unsafe { long::reduce_scatter_block(way, buffers, (count, datatype), combining, comm) };
    };
    let own = Given { start: own((sendbuf, 2 * bytes), (recvbuf, bytes))?, stride: bytes, bytes };
    // SAFETY: the caller's promise.
    unsafe { combined(way, Roles::Both, own, recvbuf, combining, comm) }
}

/// `MPI_Scan`, and `MPI_Exscan`, where a rank's own elements are not in its result: `exclusive`. Rank 0 gives, the other gets.
///
/// # Safety
/// As for their bodies.
#[inline(always)]
pub(crate) unsafe fn scan(
    way: &Way,
    exclusive: bool,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let combining = Combining::of(op, datatype)?;
    // Of two, nothing is combined in an exscan.
    let few = if exclusive { few_moved } else { few };
    let Some(bytes) = few(recvbuf, count, datatype) else {
        // SAFETY: the caller's promise.
        return unsafe { long::scan(way, exclusive, (sendbuf, recvbuf), (count, datatype), combining, comm) };
    };
    let start = own((sendbuf, bytes), (recvbuf, bytes))?;
    let given = Some(Given { start, stride: 0, bytes });
    // SAFETY: the caller's promise, and that both buffers are as long as what comes.
    unsafe {
        if exclusive {
            let taken = Some(Taken { start: recvbuf.cast(), stride: 0, bytes });
            return swap_to(way, comm, Roles::From(0), (given, taken), |_, _| {});
        }
        swap(way, comm, Roles::From(0), (bytes, given, true), move |rank, theirs| match theirs {
            Some(theirs) => combining.combine(rank, start, theirs, recvbuf),
            None => copy(start, recvbuf.cast(), bytes),
        })
    }
}

/// Where one's own contribution stands, which is so long; nothing where it stands where the result goes and is not said to.
#[inline(always)]
fn own(
    (sendbuf, sends): (*const c_void, usize),
    (recvbuf, receives): (*mut c_void, usize),
) -> Option<*const u8> {
    if is_in_place(sendbuf) {
        return Some(recvbuf.cast_const().cast());
    }
    (is_plain(sendbuf) && are_apart(sendbuf, sends, recvbuf, receives)).then_some(sendbuf.cast())
}

/// Whether so many bytes here and there are no bytes in common.
#[inline(always)]
fn are_apart(one: *const c_void, one_bytes: usize, other: *const c_void, other_bytes: usize) -> bool {
    let range = |start: *const c_void, bytes| start.addr()..start.addr().wrapping_add(bytes);
    parts::are_apart(&range(one, one_bytes), &range(other, other_bytes))
}

/// Gives one's own, gets the other's, and combines them.
///
/// # Safety
/// `own` can be read, and `result` has room for as many where this rank gets.
#[inline(always)]
unsafe fn combined(
    way: &Way,
    roles: Roles,
    own: Given,
    result: *mut c_void,
    combining: Combining,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise, and that both buffers are as long as what comes.
    unsafe {
        swap(way, comm, roles, (own.bytes, Some(own), true), move |rank, theirs| {
            if let Some(theirs) = theirs {
                combining.combine(rank, own.block(rank.0), theirs, result);
            }
        })
    }
}

/// The operands as they stand in the order of ranks.
#[inline(always)]
fn in_order<T>(rank: Rank, own: T, theirs: T) -> [T; 2] {
    if rank == Rank(0) { [own, theirs] } else { [theirs, own] }
}

/// The longest contribution that goes this way. What is longer goes in pieces ([`long`]), or by messages with more around them.
const BYTES_MAX: usize = 8 << 10;
const _: () = assert!(BYTES_MAX <= collectives::UsualForTwo::COMBINED_BYTES_MAX);
/// The same of what goes to its place at once. No longer than what a board has in one piece, so that other ways begin where these end (decisions/0077).
const MOVED_BYTES_MAX: usize = 16 << 10;
/// The longest for which a small stack has room in any case.
const SHORT_BYTES_MAX: usize = 2 << 10;
