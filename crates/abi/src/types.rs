//! The types of the C ABI as Rust types of the same size, alignment and calling convention.
//!
//! A handle is the pointer that C sees, never dereferenced: its value is a number, below 4096 for predefined
//! handles. A callback is kept as the address that came, since 0 and 1 stand for predefined functions and no
//! Rust function pointer may hold 0. What may be called is a [`Callback`](crate::claims::Callback).

use std::ffi::c_int;

pub use crate::generated::types::*;

/// An address, or a distance between two, in bytes.
pub type MPI_Aint = isize;
/// A place in a file, in bytes or in elements of its view.
pub type MPI_Offset = i64;
/// A number of elements; holds every [`MPI_Aint`] and [`MPI_Offset`].
pub type MPI_Count = i64;

/// What a receive or a completed operation tells (MPI 5.0 §3.2.5), 32 bytes.
///
/// ```text
/// byte   0        4        8        12                        32
///        | source | tag    | error  | five ints of the library |
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_snake_case)]
pub struct MPI_Status {
    /// Rank of the sender.
    pub MPI_SOURCE: c_int,
    /// Tag of the message.
    pub MPI_TAG: c_int,
    /// Error class, written only by calls that complete several operations.
    pub MPI_ERROR: c_int,
    /// The library's own. Only the alignment of an int may be relied on.
    pub MPI_internal: [c_int; 5],
}

/// An INTEGER of Fortran; no part of the ABI.
pub type MPI_Fint = c_int;
/// A status of the Fortran module `mpi_f08`; no part of the ABI.
pub type MPI_F08_status = MPI_Status;

/// Declares a handle type.
macro_rules! handle {
    ($name:ident) => {
        /// A handle; only its value means anything.
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(*mut c_void);

        // SAFETY: a number that is never dereferenced.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// The handle of that value.
            pub const fn from_value(value: usize) -> Self {
                Self(std::ptr::without_provenance_mut(value))
            }

            /// The number that this handle is.
            pub fn value(self) -> usize {
                self.0.addr()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.value())
            }
        }
    };
}

/// Declares the type of a pointer to a callback of the C type given.
macro_rules! callback {
    ($name:ident, $function:ty) => {
        /// The address of a function of the program, or the number of a predefined one.
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(*const c_void);

        // SAFETY: an address; calling what is there is the program's affair on any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// The predefined function of that number.
            pub const fn from_value(value: usize) -> Self {
                Self(std::ptr::without_provenance(value))
            }

            /// The address of `function`.
            pub fn from_function(function: $function) -> Self {
                Self(function as *const c_void)
            }

            /// The address as a number, to be compared with the predefined ones.
            pub fn value(self) -> usize {
                self.0.addr()
            }
        }

        impl crate::claims::CFunction for $name {
            type Pointer = $function;

            fn address(self) -> *const c_void {
                self.0
            }

            fn at(address: *const c_void) -> Self {
                Self(address)
            }

            /// # Safety
            /// There is a C function of this very type.
            unsafe fn pointer(self) -> $function {
                // SAFETY: the caller promised a function of that type there.
                unsafe { std::mem::transmute::<*const c_void, $function>(self.0) }
            }
        }
    };
}

pub(crate) use {callback, handle};

// The sizes that the ABI fixes for LP64 platforms (MPI 5.0, ABI chapter); others are not supported.
const _: () = {
    use std::mem::{align_of, offset_of, size_of};
    assert!(size_of::<MPI_Status>() == 32 && align_of::<MPI_Status>() == 4);
    assert!(offset_of!(MPI_Status, MPI_TAG) == 4 && offset_of!(MPI_Status, MPI_ERROR) == 8);
    assert!(offset_of!(MPI_Status, MPI_internal) == 12);
    assert!(size_of::<c_int>() == 4 && size_of::<MPI_Aint>() == 8);
    assert!(size_of::<MPI_Comm>() == 8 && align_of::<MPI_Comm>() == 8);
    assert!(size_of::<MPI_User_function>() == 8);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::constants::*;

    #[test]
    fn handles_keep_their_value() {
        assert_eq!(MPI_COMM_WORLD.value(), 0x101);
        assert_eq!(MPI_Comm::from_value(0x101), MPI_COMM_WORLD);
        assert_eq!(format!("{MPI_COMM_WORLD:?}"), "MPI_Comm(0x101)");
        assert_eq!(MPI_LONG_LONG_INT, MPI_LONG_LONG);
    }
}
