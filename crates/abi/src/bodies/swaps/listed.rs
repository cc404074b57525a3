//! The operations with lists of lengths: what a rank gives and gets is known when it is known which of the two it is.

use std::ffi::{c_int, c_void};

use weft::claims::{Payload, Room, Swapping, copy};
use weft::{Communicator, Rank};

use super::{Aside, Combining, Drawer, MOVED_BYTES_MAX, SHORT_BYTES_MAX, are_apart, few_moved, wait};
use crate::arguments::is_plain;
use crate::bodies::collectives::is_in_place;
use crate::bodies::datatypes::row_bytes;
use crate::bodies::ways::Way;
use crate::convert::{Counts, Displacements};
use crate::generated::constants::*;
use crate::state::{Short, with_usual_comm};
use crate::types::*;

/// A buffer with a block for each rank.
#[derive(Clone, Copy)]
pub(crate) struct List {
    pub buffer: *mut c_void,
    pub counts: Counts,
    pub places: Displacements,
    pub datatype: MPI_Datatype,
}

impl List {
    /// The block of a rank, in the usual case.
    ///
    /// # Safety
    /// The lists have an entry for it.
    #[inline(always)]
    unsafe fn of(self, rank: usize) -> Option<Part> {
        let List { buffer, counts, places, datatype } = self;
        if !is_plain(buffer) || counts.is_null() || places.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let (count, place) = unsafe { (counts.at(rank), places.at(rank)) };
        let offset = place.checked_mul(row_bytes(datatype, 1)? as i64)?;
        Some(Part {
            start: buffer.cast::<u8>().wrapping_offset(offset as isize),
            bytes: row_bytes(datatype, count)?,
        })
    }
}

/// Some bytes of the program's.
#[derive(Clone, Copy)]
struct Part {
    start: *mut u8,
    bytes: usize,
}

impl Part {
    /// All of a buffer.
    #[inline(always)]
    fn whole(buffer: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Option<Part> {
        few_moved(buffer, count, datatype).map(|bytes| Part { start: buffer.cast_mut().cast(), bytes })
    }

    #[inline(always)]
    fn if_few(self) -> Option<Part> {
        (1..=MOVED_BYTES_MAX).contains(&self.bytes).then_some(self)
    }

    /// # Safety
    /// It can be read until the swap is over.
    #[inline(always)]
    unsafe fn given(self) -> Payload<'static> {
        // SAFETY: the caller's promise.
        unsafe { Payload::claim(self.start, self.bytes) }
    }

    /// # Safety
    /// It can be written until the swap is over.
    #[inline(always)]
    unsafe fn room(self) -> Room {
        // SAFETY: the caller's promise.
        unsafe { Room::claim(self.start, self.bytes) }
    }
}

/// What a rank gives, what it gets, and what it brings to its place itself.
#[derive(Default)]
struct Sides {
    gives: Option<Part>,
    gets: Option<Part>,
    keeps: Option<[Part; 2]>,
}

impl Sides {
    /// Whether nothing is written where something is read.
    #[inline(always)]
    fn are_apart(&self) -> bool {
        let (own, place) = (self.keeps.map(|kept| kept[0]), self.keeps.map(|kept| kept[1]));
        [(self.gives, self.gets), (self.gives, place), (own, self.gets), (own, place)].iter().all(|pair| {
            let (Some(from), Some(to)) = pair else { return true };
            are_apart(from.start.cast(), from.bytes, to.start.cast(), to.bytes)
        })
    }
}

/// What is to be done, and what of it is to be waited for afterwards.
struct Begin<'a, S>(S, &'a mut Option<Swapping>);

impl<S: FnOnce(usize) -> Option<Sides>> Short for Begin<'_, S> {
    type Answer = Sides;

    #[inline(always)]
    fn on(self, comm: &Communicator) -> Option<Sides> {
        let Begin(sides, left) = self;
        let mut known = None;
        let begin = |rank: Rank| {
            let sides = sides(rank.0 as usize).filter(Sides::are_apart)?;
            // SAFETY: the promise of `swap`.
            let ends = unsafe { (sides.gives.map(|part| part.given()), sides.gets.map(|part| part.room())) };
            known = Some(sides);
            Some(ends)
        };
        comm.swap_by_rank_at_once(begin, left)?;
        known
    }
}

/// Does what `sides` says for the rank, 0 or 1; `None` where nothing has happened.
///
/// # Safety
/// What is given and kept is readable, and where something goes is writable, whatever the rank.
#[inline(always)]
unsafe fn swap(way: &Way, comm: MPI_Comm, sides: impl FnOnce(usize) -> Option<Sides>) -> Option<c_int> {
    if !way.is_blocking() {
        return None;
    }
    let mut left = None;
    let Sides { gets, keeps, .. } = with_usual_comm(comm, Begin(sides, &mut left))?;
    if let Some(swapping) = &left {
        // Who only gives waits until what it gives is not read any more.
        let gets = gets.unwrap_or(Part { start: std::ptr::dangling_mut(), bytes: 0 });
        // SAFETY: the caller's promise.
        if let Err(code) = wait(way, comm, swapping, unsafe { gets.room() }) {
            return Some(code);
        }
    }
    if let Some([from, to]) = keeps {
        // SAFETY: the caller's promise, and they have been seen to be apart.
        unsafe { copy(from.start, to.start, from.bytes) };
    }
    Some(MPI_SUCCESS)
}

/// Its own block goes to a place that is as long.
#[inline(always)]
fn kept(from: Part, to: Part) -> Option<[Part; 2]> {
    (from.bytes == to.bytes).then_some([from, to])
}

/// The root of two, as a number of a rank.
#[inline(always)]
fn among_two(root: c_int) -> Option<usize> {
    usize::try_from(root).ok().filter(|root| *root < 2)
}

/// `MPI_Gatherv`; `None` where nothing has happened, here and below.
///
/// # Safety
/// As for its body, here and below.
#[inline(always)]
pub(crate) unsafe fn gatherv(
    way: &Way,
    (buffer, count, datatype): super::Blocks<*const c_void>,
    all: List,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (own, root) = (Part::whole(buffer, count, datatype)?, among_two(root)?);
    let sides = |here| {
        if here != root {
            return Some(Sides { gives: Some(own), ..Sides::default() });
        }
        // SAFETY: the program promised lists of both at the root.
        let (mine, theirs) = unsafe { (all.of(here)?, all.of(1 - here)?) };
        Some(Sides { gets: Some(theirs.if_few()?), keeps: Some(kept(own, mine)?), ..Sides::default() })
    };
    // SAFETY: the caller's promise.
    unsafe { swap(way, comm, sides) }
}

/// `MPI_Scatterv`.
///
/// # Safety
/// As above.
#[inline(always)]
pub(crate) unsafe fn scatterv(
    way: &Way,
    all: List,
    (buffer, count, datatype): super::Blocks<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let (own, root) = (Part::whole(buffer, count, datatype)?, among_two(root)?);
    let sides = |here| {
        if here != root {
            return Some(Sides { gets: Some(own), ..Sides::default() });
        }
        // SAFETY: the program promised lists of both at the root.
        let (mine, theirs) = unsafe { (all.of(here)?, all.of(1 - here)?) };
        Some(Sides { gives: Some(theirs.if_few()?), keeps: Some(kept(mine, own)?), ..Sides::default() })
    };
    // SAFETY: the caller's promise.
    unsafe { swap(way, comm, sides) }
}

/// `MPI_Allgatherv`.
///
/// # Safety
/// As above.
#[inline(always)]
pub(crate) unsafe fn allgatherv(
    way: &Way,
    (buffer, count, datatype): super::Blocks<*const c_void>,
    all: List,
    comm: MPI_Comm,
) -> Option<c_int> {
    let own = Part::whole(buffer, count, datatype)?;
    let sides = |here| {
        // SAFETY: the program promised lists of both.
        let (mine, theirs) = unsafe { (all.of(here)?, all.of(1 - here)?) };
        Some(Sides { gives: Some(own), gets: Some(theirs.if_few()?), keeps: Some(kept(own, mine)?) })
    };
    // SAFETY: the caller's promise.
    unsafe { swap(way, comm, sides) }
}

/// `MPI_Alltoallv`.
///
/// # Safety
/// As above.
#[inline(always)]
pub(crate) unsafe fn alltoallv(way: &Way, sends: List, receives: List, comm: MPI_Comm) -> Option<c_int> {
    let sides = |here| {
        // SAFETY: the program promised lists of both.
        let (mine, theirs) = unsafe {
            ([sends.of(here)?, receives.of(here)?], [sends.of(1 - here)?.if_few()?, receives.of(1 - here)?])
        };
        let [gives, gets] = theirs;
        Some(Sides { gives: Some(gives), gets: Some(gets.if_few()?), keeps: Some(kept(mine[0], mine[1])?) })
    };
    // SAFETY: the caller's promise.
    unsafe { swap(way, comm, sides) }
}

/// `MPI_Reduce_scatter`.
///
/// # Safety
/// As above.
#[inline(always)]
pub(crate) unsafe fn reduce_scatter(
    way: &Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    counts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    if !is_plain(recvbuf) || counts.is_null() {
        return None;
    }
    let in_place = is_in_place(sendbuf);
    if !in_place && !is_plain(sendbuf) {
        return None;
    }
    let all: *mut u8 = if in_place { recvbuf } else { sendbuf.cast_mut() }.cast();
    let combining = Combining::of(op, datatype)?;
    let mut drawer = Drawer::<SHORT_BYTES_MAX>::uninit();
    let mut theirs = Aside::new(&mut drawer, SHORT_BYTES_MAX);
    let room = theirs.room();
    let mut block = None;
    let sides = |here: usize| {
        // SAFETY: the program promised counts of both.
        let bytes = unsafe { [row_bytes(datatype, counts.at(0))?, row_bytes(datatype, counts.at(1))?] };
        let part = |rank: usize| Part { start: all.wrapping_add(rank * bytes[0]), bytes: bytes[rank] };
        // What is combined is read where the result is written, or apart from it.
        if in_place && here == 1 && bytes[0] < bytes[1] {
            return None;
        }
        let gives = part(1 - here).if_few()?;
        if !in_place && !are_apart(sendbuf, bytes[0].checked_add(bytes[1])?, recvbuf, bytes[here]) {
            return None;
        }
        block = Some((Rank(here as u32), part(here).if_few()?));
        if bytes.into_iter().max() > Some(SHORT_BYTES_MAX) {
            return None;
        }
        let gets = Part { start: room.memory().start(), bytes: bytes[here] };
        Some(Sides { gives: Some(gives), gets: Some(gets), keeps: None })
    };
    // SAFETY: the caller's promise; what comes goes to memory of this function.
    let code = unsafe { swap(way, comm, sides)? };
    if let Some((rank, mine)) = block.filter(|_| code == MPI_SUCCESS) {
        theirs.bytes = mine.bytes;
        // SAFETY: so many bytes have come, and the caller promised the rest.
        unsafe { combining.combine(rank, mine.start, theirs.come(), recvbuf) };
    }
    Some(code)
}
