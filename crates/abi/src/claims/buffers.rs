//! Buffers of data, which operations use until they are over.

use std::ffi::c_void;

use weft::claims::{Payload, Room, UserMemory};

use crate::generated::constants::MPI_IN_PLACE;

/// A buffer that is read, or one of the addresses that stand for something else.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Sent(*const c_void);

/// A buffer that is written, or read and written; or one of the addresses that stand for something else.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Received(*mut c_void);

// SAFETY: the program's promise holds whatever the thread that reads there.
unsafe impl Send for Sent {}
// SAFETY: the program's promise holds however many threads read there.
unsafe impl Sync for Sent {}
// SAFETY: the program's promise holds whatever the thread that reads or writes there.
unsafe impl Send for Received {}
// SAFETY: the address alone is shared; each claim made of it is used by one operation, as the program
// promised.
unsafe impl Sync for Received {}

/// What both kinds of buffers have in common: an address.
pub trait Buffer: Copy {
    /// No buffer.
    const NULL: Self;

    /// The address, not to be read or written by.
    fn start(self) -> *const c_void;

    /// The program passed a null pointer, which is `MPI_BOTTOM` as well.
    #[inline(always)]
    fn is_null(self) -> bool {
        self.start().is_null()
    }

    /// The address says that the data stands in the other buffer.
    #[inline(always)]
    fn is_in_place(self) -> bool {
        self.start().addr() == MPI_IN_PLACE.addr()
    }

    /// Whether the address can be that of data: neither null nor `MPI_IN_PLACE`.
    #[inline(always)]
    fn is_plain(self) -> bool {
        !self.is_null() && !self.is_in_place()
    }
}

impl Buffer for Sent {
    const NULL: Sent = Sent(std::ptr::null());

    #[inline(always)]
    fn start(self) -> *const c_void {
        self.0
    }
}

impl Buffer for Received {
    const NULL: Received = Received(std::ptr::null_mut());

    #[inline(always)]
    fn start(self) -> *const c_void {
        self.0
    }
}

impl Sent {
    /// The part of the buffer that begins `bytes` bytes after its address.
    #[inline(always)]
    pub(crate) fn behind(self, bytes: usize) -> Sent {
        Sent(self.0.wrapping_byte_add(bytes))
    }

    /// The buffer that a program has passed.
    ///
    /// # Safety
    /// `start` stands for something else, or the elements that the MPI standard says of the argument are
    /// there, relative to it: readable, and left as they are until the operation is over that they are an
    /// argument of, each time that it is begun.
    #[inline(always)]
    pub unsafe fn claim(start: *const c_void) -> Sent {
        Sent(start)
    }

    /// A claim to read `bytes` bytes of the program's elements, which begin `offset` bytes from the buffer's
    /// address.
    #[inline(always)]
    pub(crate) fn payload(self, offset: isize, bytes: usize) -> Payload<'static> {
        // SAFETY: `claim` was promised that the elements can be read until the operation is over.
        unsafe { Payload::claim(self.0.cast::<u8>().wrapping_offset(offset), bytes) }
    }
}

impl Received {
    /// The part of the buffer that begins `bytes` bytes after its address.
    #[inline(always)]
    pub(crate) fn behind(self, bytes: usize) -> Received {
        Received(self.0.wrapping_byte_add(bytes))
    }

    /// The buffer that a program has passed.
    ///
    /// # Safety
    /// `start` stands for something else, or there is room for the elements that the MPI standard says of the
    /// argument, relative to it: writable, holding what the standard says, and touched by nobody until the
    /// operation is over that they are an argument of, each time that it is begun, or the window is freed.
    #[inline(always)]
    pub unsafe fn claim(start: *mut c_void) -> Received {
        Received(start)
    }

    /// A claim to write `bytes` bytes of the program's elements, which begin `offset` bytes from the buffer's
    /// address.
    #[inline(always)]
    pub(crate) fn memory(self, offset: isize, bytes: usize) -> UserMemory {
        // SAFETY: `claim` was promised that the elements can be written until the operation is over.
        unsafe { UserMemory::claim(self.0.cast::<u8>().wrapping_offset(offset), bytes) }
    }

    /// A claim to write `bytes` bytes from the buffer's address on, whatever is there.
    #[inline(always)]
    pub(crate) fn room(self, bytes: usize) -> Room {
        // SAFETY: as in `memory`.
        unsafe { Room::claim(self.0.cast(), bytes) }
    }

    /// This receive buffer as a send buffer, for a rank whose contribution stands where its result goes.
    #[inline(always)]
    pub(crate) fn read(self) -> Sent {
        Sent(self.0)
    }
}

#[cfg(test)]
impl Sent {
    /// A buffer with these elements that is never freed, so that no operation outlives it.
    pub(crate) fn of<T: Copy>(elements: &[T]) -> Sent {
        let kept = Vec::leak(elements.to_vec());
        // SAFETY: nobody else knows it, and it is there for good.
        unsafe { Sent::claim(kept.as_ptr().cast()) }
    }
}

#[cfg(test)]
impl Received {
    /// `MPI_IN_PLACE`.
    pub(crate) const IN_PLACE: Received = Received(MPI_IN_PLACE);

    /// A buffer with these elements that is never freed, so that no operation outlives it; what stands there
    /// when `act` returns becomes the elements.
    pub(crate) fn lend<T: Copy, R>(elements: &mut [T], act: impl FnOnce(Received) -> R) -> R {
        let kept = Vec::leak(elements.to_vec()).as_mut_ptr();
        // SAFETY: nobody else knows it, and it is there for good.
        let answer = act(unsafe { Received::claim(kept.cast()) });
        // SAFETY: as many elements are there as were copied, and tests of buffers have elements for which all
        // bytes are right.
        elements.copy_from_slice(unsafe { std::slice::from_raw_parts(kept, elements.len()) });
        answer
    }
}
