//! Typed slices as claims on memory, and memory that is allocated for the program: the one place where this crate
//! promises something about memory.

use std::alloc::{Layout, alloc, dealloc};
use std::mem::size_of;
use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
};

use datatype::Predefined;
use fabric::{Payload, UserMemory};

use crate::error::{Class, Error, Result};
use crate::fabrics::SharedHeap;

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

/// Types that processes share memory of: atomic numbers, since others load and store at the same time.
///
/// Every bit pattern is a value. Sealed: the list is closed, since a wrong entry would break the promise.
pub trait Shareable: sealed::Sealed + Sync + 'static {}

macro_rules! shareable {
    ($($rust:ty),* $(,)?) => {
        $(
            impl sealed::Sealed for $rust {}
            impl Shareable for $rust {}
        )*
    };
}

shareable! { AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicI8, AtomicI16, AtomicI32, AtomicI64 }

/// Values in memory that is mapped as long as `keeps` lives.
///
/// Crate-private: the caller has seen to it that `start` is the beginning of `count` such values of one mapping that
/// `keeps` owns, and that nobody is given the same bytes as values of another type. `None` where `start` is not
/// aligned for them.
pub(crate) fn shared_values<T: Shareable, K>(_keeps: &K, start: *mut u8, count: usize) -> Option<&[T]> {
    let start = start.cast::<T>();
    // SAFETY: aligned, as just looked; the one caller (`SharedWindow::part`) asks for values inside of the mapping
    // that `keeps` owns, whose bytes are initialized, and whose members have agreed on `T`. Shared access to atomics
    // is sound whoever else stores there.
    start.is_aligned().then(|| unsafe { std::slice::from_raw_parts(start, count) })
}

/// Memory that the library allocates for the program, freed when it is dropped (MPI 5.0 §9.2).
///
/// Larger pieces come from memory that the other processes of the node can map, where there is such.
pub struct Allocation {
    start: usize,
    from: Source,
}

/// Where memory was taken, and is given back.
enum Source {
    Private(Layout),
    Shared(SharedHeap),
}

impl Allocation {
    /// Allocates what the layout asks for, which is one byte at least.
    ///
    /// # Errors
    /// [`Class::NoMemory`].
    pub fn new(layout: Layout, heap: Option<&SharedHeap>) -> Result<Allocation> {
        let shared = heap.map_or(Ok(None), |heap| heap.take(layout.size(), layout.align()));
        let shared = shared.map_err(|error| Error::of_text(Class::NoMemory, &error.to_string()))?;
        match (shared, heap) {
            (Some(start), Some(heap)) => {
                Ok(Allocation { start: start.expose_provenance(), from: Source::Shared(heap.clone()) })
            }
            _ => Allocation::private(layout),
        }
    }

    fn private(layout: Layout) -> Result<Allocation> {
        let layout = if layout.size() == 0 { Layout::new::<u8>() } else { layout };
        // SAFETY: the layout has at least one byte, as just seen to.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            let what = format!("{} bytes, aligned to {}, cannot be allocated", layout.size(), layout.align());
            return Err(Error::new(Class::NoMemory, what).remedy("ask for less, or give the job more memory"));
        }
        Ok(Allocation { start: start.expose_provenance(), from: Source::Private(layout) })
    }

    /// Where it begins.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        match &self.from {
            // SAFETY: `private` allocated it with this layout, and it is freed once, here.
            Source::Private(layout) => unsafe { dealloc(self.start(), *layout) },
            Source::Shared(heap) => {
                heap.give_back(self.start());
            }
        }
    }
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
