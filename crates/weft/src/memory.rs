//! Typed slices as claims on memory: the one place where this crate promises something about memory.

use std::mem::size_of;

use datatype::Predefined;
use fabric::{Payload, UserMemory};

/// Types whose values can be sent as they stand in memory: numbers and bytes.
///
/// Every bit pattern is a value and there is no padding, so bytes from another process are never an invalid value.
/// Sealed: the list is closed, since a wrong entry would break the promise.
pub trait Transferable: sealed::Sealed + Copy + Default + Send + 'static {
    /// The predefined datatype of one value.
    const DATATYPE: Predefined;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! transferable {
    ($($rust:ty => $mpi:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $rust {}
            impl Transferable for $rust {
                const DATATYPE: Predefined = Predefined::$mpi;
            }
        )*
    };
}

transferable! {
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    f32 => Float, f64 => Double,
}

/// The bytes of values that stay where they are until the operation is over.
///
/// The caller of this crate-private function blocks, or owns the values in the request, so that they do.
pub(crate) fn reading<T: Transferable>(values: &[T]) -> Payload<'static> {
    // SAFETY: the slice is allocated; every caller in this crate keeps it so until the operation that the claim is
    // given to is over (blocking calls return after it, requests own the vector and wait in their `Drop`).
    unsafe { Payload::claim(values.as_ptr().cast(), size_of_val(values)) }
}

/// Room for values that stays where it is, and is not looked at, until the operation is over.
pub(crate) fn writing<T: Transferable>(values: &mut [T]) -> UserMemory {
    // SAFETY: as in `reading`; exclusive, since the slice is borrowed mutably or owned by the request. Any bytes
    // are valid values of a transferable type.
    unsafe { UserMemory::claim(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Bytes per value.
pub(crate) fn value_bytes<T: Transferable>() -> usize {
    size_of::<T>()
}
