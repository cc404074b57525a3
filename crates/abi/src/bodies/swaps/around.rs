//! Exchanges of short blocks between the neighbours of a topology of two ranks: what one has for the other is put together, and
//! taken apart there.

use std::ffi::{c_int, c_void};

use weft::claims::{Payload, Swapping, copy};
use weft::collectives::{Block, Neighbourhood, Surround};
use weft::{Communicator, Rank};

use super::{Aside, Blocks, Drawer, SHORT_BYTES_MAX, are_apart, elsewhere, few, wait, with_long};
use crate::bodies::ways::Way;
use crate::generated::constants::*;
use crate::state::{self, Short, with_usual_comm};
use crate::types::*;

/// An exchange of blocks of one length in the program's buffers, which stand apart.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    surround: Surround<'a>,
    sendbuf: *const u8,
    recvbuf: *mut u8,
    bytes: usize,
}

impl Exchange<'_> {
    /// How much goes to the other rank and comes from it, as far as this is the usual case: some goes each way, and there is room for
    /// all of it.
    #[inline(always)]
    fn lengths<const BYTES: usize>(&self, neighbourhood: &Neighbourhood) -> Option<[usize; 2]> {
        let Neighbourhood { here, sources, destinations, .. } = neighbourhood;
        let given = self.surround.given(destinations.len().checked_sub(1)?);
        let gotten = self.surround.gotten(sources.len().checked_sub(1)?);
        let ends = [given, gotten].map(|last| last.offset + last.bytes);
        if !are_apart(self.sendbuf.cast(), ends[0], self.recvbuf.cast(), ends[1]) {
            return None;
        }
        let count = |ranks: &[Option<Rank>]| {
            ranks.iter().flatten().fold([0, 0], |[own, other], rank| match rank == here {
                true => [own + 1, other],
                false => [own, other + 1],
            })
        };
        let ([own_given, gives], [own_gotten, gets]) = (count(destinations), count(sources));
        let fits = |blocks: usize| (1..=BYTES).contains(&(blocks * self.bytes));
        (own_given == own_gotten && fits(gives) && fits(gets))
            .then_some([gives * self.bytes, gets * self.bytes])
    }

    fn read(&self, block: Block) -> *const u8 {
        self.sendbuf.wrapping_add(block.offset)
    }

    fn write(&self, block: Block) -> *mut u8 {
        self.recvbuf.wrapping_add(block.offset)
    }

    /// Puts together what goes to the other rank.
    ///
    /// # Safety
    /// The program's promise, and [`Exchange::lengths`] has found that there is room.
    #[inline(always)]
    unsafe fn collect<const BYTES: usize>(&self, neighbourhood: &Neighbourhood, sent: &mut Drawer<BYTES>) {
        let mut to: *mut u8 = sent.as_mut_ptr().cast();
        for (_, at) in neighbourhood.sent().filter(|(rank, _)| *rank != neighbourhood.here) {
            // SAFETY: the caller's promise.
            unsafe { copy(self.read(self.surround.given(at)), to, self.bytes) };
            to = to.wrapping_add(self.bytes);
        }
    }

    /// Brings what has come, and what the rank gives to itself, to its places.
    ///
    /// # Safety
    /// The program's promise, and all that was to come is there.
    #[inline(always)]
    unsafe fn deliver<const BYTES: usize>(&self, neighbourhood: &Neighbourhood, come: &Drawer<BYTES>) {
        let here = neighbourhood.here;
        let mut from: *const u8 = come.as_ptr().cast();
        let mut own = neighbourhood.sent().filter(|(rank, _)| *rank == here);
        for (rank, at) in neighbourhood.received() {
            let place = self.write(self.surround.gotten(at));
            if rank != here {
                // SAFETY: the caller's promise.
                unsafe { copy(from, place, self.bytes) };
                from = from.wrapping_add(self.bytes);
            } else if let Some((_, given)) = own.next() {
                // SAFETY: as above; the buffers stand apart.
                unsafe { copy(self.read(self.surround.given(given)), place, self.bytes) };
            }
        }
    }
}

struct Begin<'a, const BYTES: usize> {
    exchange: Exchange<'a>,
    sent: &'a mut Drawer<BYTES>,
    come: &'a mut Drawer<BYTES>,
    /// What is to be waited for afterwards.
    left: &'a mut Option<Swapping>,
}

impl<const BYTES: usize> Short for Begin<'_, BYTES> {
    /// How much comes.
    type Answer = usize;

    #[inline(always)]
    fn on(self, comm: &Communicator) -> Option<usize> {
        let Begin { exchange, sent, come, left } = self;
        let neighbourhood = comm.neighbourhood().ok()?;
        let [gives, gets] = exchange.lengths::<BYTES>(neighbourhood)?;
        let begin = |_| {
            // SAFETY: the promise of `exchange`, and it is in use no longer than the swap.
            let payload = unsafe {
                exchange.collect(neighbourhood, sent);
                Payload::claim(sent.as_ptr().cast(), gives)
            };
            Some((Some(payload), Some(Aside::new(come, gets).room())))
        };
        comm.swap_by_rank_at_once(begin, left)?;
        if left.is_none() {
            // SAFETY: the promise of `exchange`.
            unsafe { exchange.deliver(neighbourhood, come) };
        }
        Some(gets)
    }
}

/// `MPI_Neighbor_alltoall`, and `MPI_Neighbor_allgather` where all get the same block: not `each`. `None` where nothing has
/// happened.
///
/// # Safety
/// As for their bodies.
#[inline(always)]
pub(crate) unsafe fn neighbours(
    way: &Way,
    surround: impl FnOnce(usize) -> Surround<'static>,
    (sendbuf, sendcount, sendtype): Blocks<*const c_void>,
    (recvbuf, recvcount, recvtype): Blocks<*mut c_void>,
    comm: MPI_Comm,
) -> Option<c_int> {
    let bytes = few(recvbuf, recvcount, recvtype)?;
    if few(sendbuf, sendcount, sendtype) != Some(bytes) || !way.is_blocking() {
        return None;
    }
    let exchange =
        Exchange { surround: surround(bytes), sendbuf: sendbuf.cast(), recvbuf: recvbuf.cast(), bytes };
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            ..=SHORT_BLOCK_BYTES_MAX => {
                let (mut sent, mut come) =
                    (Drawer::<SHORT_BYTES_MAX>::uninit(), Drawer::<SHORT_BYTES_MAX>::uninit());
                exchange_with(way, exchange, comm, (&mut sent, &mut come))
            }
            _ => elsewhere(move || {
                with_long(|sent| with_long(|come| exchange_with(way, exchange, comm, (sent, come))))
            }),
        }
    }
}

/// # Safety
/// As for [`neighbours`].
#[inline(never)]
unsafe fn exchange_with<const BYTES: usize>(
    way: &Way,
    exchange: Exchange<'_>,
    comm: MPI_Comm,
    (sent, come): (&mut Drawer<BYTES>, &mut Drawer<BYTES>),
) -> Option<c_int> {
    let mut left = None;
    let begin = Begin { exchange, sent, come: &mut *come, left: &mut left };
    let gets = with_usual_comm(comm, begin)?;
    if let Some(swapping) = &left {
        if let Err(code) = wait(way, comm, swapping, Aside::new(come, gets).room()) {
            return Some(code);
        }
        let held = state::runtime().and_then(|runtime| runtime.find_comm(comm)).expect("a swap was begun");
        let neighbourhood = held.comm.neighbourhood().expect("it has one");
        // SAFETY: the caller promised that all blocks can be read and written; what was to come is there.
        unsafe { exchange.deliver(neighbourhood, come) };
    }
    Some(MPI_SUCCESS)
}

/// Longer blocks may need more than [`SHORT_BYTES_MAX`] bytes.
const SHORT_BLOCK_BYTES_MAX: usize = SHORT_BYTES_MAX / 2;
