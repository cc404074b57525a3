//! Memory from outside is a claim, not a slice.
//!
//! A buffer handed to `MPI_Isend`, or bytes in a ring that another process can write, may change at any time.
//! They are never `&[u8]` here: [`Payload`] can be copied out of, [`UserMemory`] can be copied into, and this
//! module is the only one of the crate that touches either.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::copy::{are_rows_abreast, copy, copy_abreast, hand_over};

/// Bytes to be read, which somebody else may be writing at the same time.
///
/// `'a` is how long the bytes stay allocated. A payload made of a request's buffer is `'static` by the
/// promise given to [`Payload::claim`].
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    start: NonNull<u8>,
    bytes: usize,
    lifetime: PhantomData<&'a [u8]>,
}

// SAFETY: a payload is an address and a length; reading through it is as sound on one thread as on another,
// since `claim` promises that the bytes stay allocated and tolerates concurrent writers.
unsafe impl Send for Payload<'_> {}

impl Payload<'static> {
    /// No bytes at all.
    pub const EMPTY: Payload<'static> =
        Payload { start: NonNull::dangling(), bytes: 0, lifetime: PhantomData };
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(slice: &'a [u8]) -> Payload<'a> {
        Payload { start: NonNull::from_ref(slice).cast(), bytes: slice.len(), lifetime: PhantomData }
    }
}

impl<'a> Payload<'a> {
    /// Claims `bytes` bytes from `start` on.
    ///
    /// # Safety
    /// `start..start + bytes` must stay allocated for `'a`. Others may write there meanwhile; then the bytes
    /// copied out are any mixture of old and new, and nothing worse.
    #[inline]
    pub unsafe fn claim(start: *const u8, bytes: usize) -> Payload<'a> {
        Payload { start: somewhere(start.cast_mut()), bytes, lifetime: PhantomData }
    }

    /// Length in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address, for system calls that read from it.
    #[inline]
    #[must_use]
    pub fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The part from `offset` on, `bytes` long, cut to what there is.
    #[inline]
    #[must_use]
    pub fn part(&self, offset: usize, bytes: usize) -> Payload<'a> {
        let offset = offset.min(self.bytes);
        let bytes = bytes.min(self.bytes - offset);
        // SAFETY: `offset <= self.bytes`, so the address stays inside (or one past) the claim.
        Payload { start: unsafe { self.start.add(offset) }, bytes, lifetime: PhantomData }
    }

    /// All from `offset` on.
    #[inline]
    #[must_use]
    pub fn after(&self, offset: usize) -> Payload<'a> {
        self.part(offset, self.bytes)
    }

    /// Copies into `into` as far as both reach; returns the number of bytes copied.
    #[inline]
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
        let bytes = self.bytes.min(into.len());
        // SAFETY: both claims cover `bytes`.
        unsafe { copy(self.start(), into.as_mut_ptr(), bytes) };
        bytes
    }

    /// The first N bytes, and what stands behind them; `None` where there are fewer.
    #[inline(always)]
    #[must_use]
    pub fn split_first<const N: usize>(&self) -> Option<([u8; N], Payload<'a>)> {
        if self.bytes < N {
            return None;
        }
        // SAFETY: the claim covers N bytes.
        Some((unsafe { self.start.cast::<[u8; N]>().read_unaligned() }, self.after(N)))
    }

    /// The bytes as a vector of their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = vec![0; self.bytes];
        self.copy_to(&mut copy);
        copy
    }
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.bytes)
    }
}

/// Memory to be written: a receive buffer.
///
/// Not `Clone`: two claims on the same memory would be two writers. [`UserMemory::part`] splits off a chunk
/// by borrowing.
pub struct UserMemory {
    start: *mut u8,
    bytes: usize,
    /// What keeps the memory allocated, where it is the library's own.
    keeps: Option<Arc<HeapBytes>>,
    /// Where an operand stands that may be written over: see [`UserMemory::offer`].
    offered: Option<NonNull<u8>>,
}

// SAFETY: as for `Payload`; `claim` promises that nobody else uses the memory until the claim is given back.
unsafe impl Send for UserMemory {}

impl UserMemory {
    /// No room at all.
    pub const EMPTY: UserMemory =
        UserMemory { start: NonNull::dangling().as_ptr(), bytes: 0, keeps: None, offered: None };

    /// Claims `bytes` bytes from `start` on.
    ///
    /// # Safety
    /// `start..start + bytes` must stay allocated, and untouched by others, until the claim and everything
    /// made of it (the request that holds it) is gone.
    #[inline]
    pub unsafe fn claim(start: *mut u8, bytes: usize) -> UserMemory {
        UserMemory { start, bytes, keeps: None, offered: None }
    }

    /// Room in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The claim alone, where that is all: not for the library's own memory, which lasts while it is kept.
    #[inline(always)]
    #[must_use]
    pub fn room(&self) -> Option<Room> {
        if self.keeps.is_some() {
            None
        } else {
            Some(Room { start: somewhere(self.start), bytes: self.bytes })
        }
    }

    /// The address, for system calls that write to it.
    #[inline]
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Writes `data` at `offset`, cut to the room there is; returns the number of bytes written.
    #[inline(always)]
    pub fn write_at(&mut self, offset: usize, data: Payload<'_>) -> usize {
        let offset = offset.min(self.bytes);
        let bytes = data.bytes.min(self.bytes - offset);
        // SAFETY: `offset + bytes <= self.bytes`, which `claim` promised; `data` covers `bytes` by its own
        // claim. They may overlap: a send to oneself may name overlapping memory by mistake.
        unsafe { copy(data.start(), self.start.add(offset), bytes) };
        bytes
    }

    /// Writes `data` to the beginning of this memory, cut to its length. For memory that another core reads
    /// next, and that does not overlap `data`.
    pub fn hand_over(&mut self, data: Payload<'_>) {
        // SAFETY: both claims cover so many bytes.
        unsafe { hand_over(data.start(), self.start, data.bytes.min(self.bytes)) };
    }

    /// The part from `offset` on, `bytes` long, cut to the room there is. The original must not be written
    /// through while the part is in use; the caller keeps them disjoint in time.
    #[inline]
    #[must_use]
    pub fn part(&mut self, offset: usize, bytes: usize) -> UserMemory {
        let offset = offset.min(self.bytes);
        let bytes = bytes.min(self.bytes - offset);
        UserMemory {
            // SAFETY: `offset <= self.bytes`.
            start: unsafe { self.start.add(offset) },
            bytes,
            keeps: self.keeps.clone(),
            offered: None,
        }
    }

    /// Offers `over` as a second target: a reduction that writes its result into this memory, and whose
    /// operand begins where `over` does, may write the result over that operand, too. Nothing has to take the
    /// offer. It spares a caller that needs the result in both memories a copy. There is no offer where
    /// `over` is shorter than this memory, or belongs to the library, whose memory lasts only as long as a
    /// claim keeps it. The answer is whether there is an offer.
    pub fn offer(&mut self, over: &mut UserMemory) -> bool {
        let is_enough = self.bytes <= over.bytes && over.keeps.is_none();
        self.offered = is_enough.then(|| somewhere(over.start));
        is_enough
    }

    /// Whether there is an offer still: the operand is as it was.
    #[must_use]
    pub fn has_offer(&self) -> bool {
        self.offered.is_some()
    }

    /// Takes the offer, if it is of the operand that begins there; all of this memory and of that is to be
    /// written then. As many bytes as this memory has are claimed there for as long as anything is that was
    /// made of that claim, as this offer was.
    pub(crate) fn take_offer(&mut self, operand: *const u8) -> Option<*mut u8> {
        self.offered.take_if(|offered| offered.as_ptr().cast_const() == operand).map(NonNull::as_ptr)
    }

    /// What stands in the memory now, to be sent on or copied out.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Payload<'_> {
        Payload { start: somewhere(self.start), bytes: self.bytes, lifetime: PhantomData }
    }

    /// What stands in the memory, as a payload for a request that reads it and outlives this borrow: a send
    /// out of a buffer that is received into at other times.
    ///
    /// # Safety
    /// The bytes stay allocated until all that reads them is over. The promise given to [`UserMemory::claim`]
    /// covers everything made of the claim, so it covers this. Of memory of a [`Heap`] the caller keeps the
    /// heap so long, and forgets its handle (which leaks the heap) where it cannot wait for that.
    #[inline]
    #[must_use]
    pub unsafe fn reading(&self) -> Payload<'static> {
        // SAFETY: the caller's promise.
        unsafe { Payload::claim(self.start(), self.bytes) }
    }
}

impl fmt::Debug for UserMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserMemory({} bytes)", self.bytes)
    }
}

/// Memory to be written, before a request holds it: nothing but the claim itself, so that it travels in
/// registers.
#[derive(Clone, Copy)]
pub struct Room {
    start: NonNull<u8>,
    bytes: usize,
}

impl Room {
    /// Claims `bytes` bytes from `start` on.
    ///
    /// # Safety
    /// `start..start + bytes` must stay allocated, and untouched by others, until the claim and everything
    /// made of it (the request that holds it) is gone. Of all that is made of a room, one thing at a time is
    /// written through.
    #[inline(always)]
    pub unsafe fn claim(start: *mut u8, bytes: usize) -> Room {
        Room { start: somewhere(start), bytes }
    }

    /// Room in bytes.
    #[inline(always)]
    #[must_use]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// This receive buffer as [`UserMemory`], which a request can keep.
    #[inline(always)]
    #[must_use]
    pub fn memory(self) -> UserMemory {
        UserMemory { start: self.start.as_ptr(), bytes: self.bytes, keeps: None, offered: None }
    }

    /// Writes `data` if there is room for all of it.
    #[inline(always)]
    #[must_use]
    pub fn take(self, data: Payload<'_>) -> bool {
        let fits = data.bytes <= self.bytes;
        if fits {
            // SAFETY: `data.bytes <= self.bytes`, which `claim` promised; `data` covers them by its own
            // claim.
            unsafe { copy(data.start(), self.start.as_ptr(), data.bytes) };
        }
        fits
    }
}

// SAFETY: as for `UserMemory`.
unsafe impl Send for Room {}

/// An address as it is, but for one that is none: no bytes may be claimed there, and any address does for
/// these. So a claim that may be missing is no longer than one that is there, and travels in registers as
/// well.
#[inline(always)]
fn somewhere(start: *mut u8) -> NonNull<u8> {
    NonNull::new(start).unwrap_or(NonNull::dangling())
}

/// Writes each of three rows to its memory, cut to the room there is: a line of each at a time where that is
/// quicker when some are far from this core. Any of them may be empty. No row may be written where one is
/// read.
pub fn write_abreast(rows: [(UserMemory, Payload<'_>); 3]) {
    if !are_rows_abreast() {
        for (mut to, from) in rows {
            to.write_at(0, from);
        }
        return;
    }
    let mut left = rows.each_ref().map(|(to, from)| (from.start(), to.start, to.bytes.min(from.bytes)));
    while let Some(common) = left.iter().map(|row| row.2).filter(|&bytes| bytes > 0).min() {
        let mut rows = left.iter().filter(|row| row.2 > 0).map(|&(from, to, _)| (from, to));
        // SAFETY: each row has `common` bytes at least on both sides, as their claims say.
        unsafe {
            match (rows.next(), rows.next(), rows.next()) {
                (Some(one), Some(other), Some(third)) => copy_abreast([one, other, third], common),
                (Some(one), Some(other), None) => copy_abreast([one, other], common),
                (Some(one), ..) => copy_abreast([one], common),
                (None, ..) => return,
            }
        }
        for (from, to, bytes) in left.iter_mut().filter(|row| row.2 > 0) {
            // SAFETY: as above.
            (*from, *to) = unsafe { (from.add(common), to.add(common)) };
            *bytes -= common;
        }
    }
}

/// What `write` puts into `room`.
pub fn made(room: &mut [u8], write: impl FnOnce(&mut UserMemory)) -> Payload<'_> {
    // SAFETY: `room` is borrowed for longer than the claim lives, which `write` has only lent.
    write(&mut unsafe { UserMemory::claim(room.as_mut_ptr(), room.len()) });
    Payload::from(&*room)
}

/// Memory of the library's own, for messages that come before their receive and for scratch space.
///
/// Claims made of it keep it allocated, so it may be dropped while a fabric still writes.
#[derive(Clone)]
pub struct Heap {
    bytes: Arc<HeapBytes>,
    /// How much of it this is.
    length: usize,
}

impl Heap {
    /// Allocates `bytes` zero bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Heap {
        let start = Box::into_raw(vec![0u8; bytes].into_boxed_slice());
        // SAFETY: `Box::into_raw` never returns null.
        let slice = unsafe { NonNull::new_unchecked(start) };
        Heap { bytes: Arc::new(HeapBytes { slice }), length: bytes }
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.length
    }

    /// Whether this is the only claim on it.
    fn is_free(&mut self) -> bool {
        // What `get_mut` has seen, whoever gave up the last claim did before. A look at the count alone costs
        // less where it is in use.
        Arc::strong_count(&self.bytes) == 1 && Arc::get_mut(&mut self.bytes).is_some()
    }

    /// The whole of it, to be written.
    #[must_use]
    pub fn memory(&self) -> UserMemory {
        UserMemory {
            start: self.bytes.slice.as_ptr().cast(),
            bytes: self.bytes(),
            keeps: Some(Arc::clone(&self.bytes)),
            offered: None,
        }
    }

    /// The whole of it, to be read.
    #[must_use]
    pub fn payload(&self) -> Payload<'_> {
        Payload { start: self.bytes.slice.cast(), bytes: self.bytes(), lifetime: PhantomData }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heap({} bytes)", self.bytes())
    }
}

/// Memory for what is packed on its way or has come too early, used again: chunks that nobody claims any more
/// are given out once more, with what stood in them. So messages that come again neither allocate nor clear.
#[derive(Debug, Default)]
pub struct Pool {
    kept: Vec<Heap>,
    /// The chunk that was given out last. Who asks for several gives them back in the same order.
    last: usize,
    /// What all of them take.
    kept_bytes: usize,
}

impl Pool {
    /// No memory so far.
    #[must_use]
    pub const fn new() -> Pool {
        Pool { kept: Vec::new(), last: 0, kept_bytes: 0 }
    }

    /// Memory of `bytes` bytes with any contents.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> Heap {
        if POOLED_BYTES_MAX < bytes {
            return Heap::new(bytes);
        }
        let mut smaller = None;
        for step in 0..self.kept.len() {
            let at = (self.last + step) % self.kept.len();
            let heap = &mut self.kept[at];
            if !heap.is_free() {
                continue;
            }
            if bytes <= heap.length {
                self.last = at;
                return Heap { length: bytes, ..heap.clone() };
            }
            smaller.get_or_insert(at);
        }
        let whole_bytes = bytes.next_power_of_two().max(POOLED_BYTES_MIN);
        let all_bytes = self.kept_bytes - smaller.map_or(0, |at| self.kept[at].length) + whole_bytes;
        let has_place = smaller.is_some() || self.kept.len() < POOLED_MAX;
        if !has_place || all_bytes > KEPT_BYTES_MAX {
            return Heap::new(bytes);
        }
        let whole = Heap::new(whole_bytes);
        match smaller {
            Some(at) => self.kept[at] = whole.clone(),
            None => self.kept.push(whole.clone()),
        }
        self.kept_bytes = all_bytes;
        Heap { length: bytes, ..whole }
    }
}

/// The largest chunk that a pool keeps, and the smallest that it makes.
const POOLED_BYTES_MAX: usize = 4 << 20;
const POOLED_BYTES_MIN: usize = 256;
/// Chunks that a pool keeps, and what they take.
const POOLED_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 4 * POOLED_BYTES_MAX;

/// The allocation behind a [`Heap`], never seen as a slice while claims on it exist.
struct HeapBytes {
    slice: NonNull<[u8]>,
}

// SAFETY: the allocation is reached only through claims, which tolerate concurrent access.
unsafe impl Send for HeapBytes {}
// SAFETY: as above.
unsafe impl Sync for HeapBytes {}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `Heap::new`, and the last owner is going.
        drop(unsafe { Box::from_raw(self.slice.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_leave_the_claim() {
        let bytes = [1u8, 2, 3, 4];
        let payload = Payload::from(&bytes[..]);
        assert_eq!(payload.part(1, 2).to_vec(), [2, 3]);
        assert_eq!(payload.part(3, 9).to_vec(), [4]);
        assert_eq!(payload.part(9, 9).bytes(), 0);
        assert_eq!(payload.after(2).to_vec(), [3, 4]);
        let (first, rest) = payload.split_first::<3>().unwrap();
        assert_eq!((first, rest.to_vec()), ([1, 2, 3], vec![4]));
        assert!(payload.split_first::<4>().is_some() && payload.split_first::<5>().is_none());
    }

    #[test]
    fn heap_outlives_its_handle_while_claimed() {
        let heap = Heap::new(4);
        let mut claim = heap.memory().part(1, 2);
        drop(heap);
        assert_eq!(claim.write_at(0, Payload::from(&[5u8, 6, 7][..])), 2);
        assert_eq!(claim.payload().to_vec(), [5, 6]);
    }

    #[test]
    fn a_pool_gives_out_again_what_nobody_claims() {
        let mut pool = Pool::new();
        let first = pool.take(300);
        assert_eq!((first.bytes(), first.memory().bytes(), first.payload().bytes()), (300, 300, 300));
        let (start, claim) = (first.memory().start(), first.memory());
        drop(first);
        let second = pool.take(300);
        assert_ne!(second.memory().start(), start, "a claim is left");
        drop(claim);
        let third = pool.take(512);
        assert_eq!((third.memory().start(), third.bytes()), (start, 512));
        assert_ne!(pool.take(1000).memory().start(), start);
        let many: Vec<Heap> = (0..9).map(|_| pool.take(8)).collect();
        for (at, heap) in many.iter().enumerate() {
            assert!(many[at + 1..].iter().all(|other| other.memory().start() != heap.memory().start()));
        }
        drop(many);
        let flood: Vec<Heap> = (0..2 * POOLED_MAX).map(|_| pool.take(POOLED_BYTES_MAX / 8)).collect();
        assert_eq!(flood.iter().map(Heap::bytes).sum::<usize>(), 2 * POOLED_MAX * POOLED_BYTES_MAX / 8);
        assert!(pool.kept.len() <= POOLED_MAX);
        assert_eq!(pool.kept.iter().map(Heap::bytes).sum::<usize>(), pool.kept_bytes);
        assert!((KEPT_BYTES_MAX / 2..=KEPT_BYTES_MAX).contains(&pool.kept_bytes), "{}", pool.kept_bytes);
        drop(flood);
        let again: Vec<_> = (0..16).map(|_| pool.take(POOLED_BYTES_MAX / 8).memory().start()).collect();
        assert!(again.iter().all(|start| *start == again[0]), "one by one it is the same");
        drop(pool.take(POOLED_BYTES_MAX + 1));
        assert!(pool.kept.iter().all(|heap| heap.bytes() <= POOLED_BYTES_MAX));
    }

    #[test]
    fn what_is_read_for_a_request_follows_later_writes() {
        let heap = Heap::new(3);
        let mut memory = heap.memory();
        // SAFETY: the heap outlives it.
        let reading = unsafe { memory.part(1, 2).reading() };
        memory.write_at(0, Payload::from(&[4u8, 5, 6][..]));
        assert_eq!(reading.to_vec(), [5, 6]);
    }

    #[test]
    fn writes_are_cut_to_the_room() {
        let mut room = [0u8; 4];
        // SAFETY: `room` outlives the claim and is read only after it.
        let mut memory = unsafe { UserMemory::claim(room.as_mut_ptr(), room.len()) };
        assert_eq!(memory.write_at(2, Payload::from(&[7u8, 8, 9][..])), 2);
        assert_eq!(memory.write_at(5, Payload::from(&[1u8][..])), 0);
        assert_eq!(room, [0, 0, 7, 8]);
    }
}
