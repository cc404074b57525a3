//! Typed slices as claims on memory, and memory that is allocated for the program: the one place where this
//! crate promises something about memory.

use std::alloc::{Layout, alloc, dealloc};
use std::mem::size_of;
use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
};

use datatype::{Predefined, TypeShape};
use fabric::{Heap, Payload, UserMemory};

use job::error::{Class, Error, Result};
use job::fabrics::SharedHeap;

/// Types whose values messages are made of: numbers, arrays of such types, and structs of them.
///
/// For a struct it is derived. The layout is a constant; there is nothing to commit. Gaps between fields are
/// neither sent nor written, so a message has the same bytes as one that C sends by `MPI_Type_create_struct`.
///
/// ```
/// use weft::{Config, Datatype, Rank, run_threads};
///
/// #[repr(C)]
/// #[derive(Datatype, Clone, Copy, Debug, PartialEq)]
/// struct Atom {
///     kind: u16,
///     place: [f64; 3],
/// }
///
/// assert_eq!((Atom::SHAPE.bytes(), size_of::<Atom>()), (26, 32));
/// run_threads(2, &Config::default(), |session| {
///     let world = session.world();
///     let atoms = [Atom { kind: 1, place: [0.5, 1.5, 2.5] }, Atom { kind: 2, place: [3.0; 3] }];
///     if world.rank() == Rank(0) {
///         world.send(&atoms, Rank(1), 7).unwrap();
///     } else {
///         let (came, status) = world.recv::<Vec<Atom>>(Rank(0), 7).unwrap();
///         assert_eq!((&came[..], status.bytes), (&atoms[..], 52));
///     }
/// })?;
/// # Ok::<(), weft::Error>(())
/// ```
///
/// What is no datatype does not compile: a struct whose layout the compiler may change,
/// ```compile_fail
/// #[derive(weft::Datatype, Clone, Copy)]
/// struct Unordered { kind: u16, weight: f64 }
/// ```
/// one with a field of which not every bit pattern is a value,
/// ```compile_fail
/// #[repr(C)]
/// #[derive(weft::Datatype, Clone, Copy)]
/// struct Doubtful { sure: bool }
/// ```
/// and what has no fields.
/// ```compile_fail
/// #[repr(C)]
/// #[derive(weft::Datatype, Clone, Copy)]
/// enum Choice { First, Second }
/// ```
///
/// # Safety
/// Any bytes are a value of the type, in the places that the shape names and in those that it does not. The
/// shape has the size of the type as its extent, and its numbers lie inside and do not overlap.
pub unsafe trait Datatype: Copy + Send + 'static {
    /// What a value holds, and where.
    const SHAPE: &'static TypeShape;
}

// SAFETY: as for its elements, which stand in a row.
unsafe impl<T: Datatype, const COUNT: usize> Datatype for [T; COUNT] {
    const SHAPE: &'static TypeShape = &TypeShape::Row { of: T::SHAPE, count: COUNT };
}

/// Numbers and bytes: what operators combine.
///
/// Sealed: the list is that of the predefined datatypes.
pub trait Transferable: sealed::Sealed + Datatype + Default {
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
/// Crate-private: the caller has seen to it that `start` is the beginning of `count` such values of memory
/// that `keeps` owns. `None` where `start` is not aligned for them.
pub(crate) fn shared_values<T: Shareable, K>(_keeps: &K, start: *mut u8, count: usize) -> Option<&[T]> {
    let start = start.cast::<T>();
    // SAFETY: aligned, as just looked; the callers (`SharedWindow::part`, and `Exposure` for the words and
    // elements of windows) ask for values inside of memory that `keeps` owns, whose bytes are initialized.
    // Members of a `SharedWindow` have agreed on `T`; what else is done with a window's elements goes by
    // addresses. Shared access to atomics is sound whoever else stores there.
    start.is_aligned().then(|| unsafe { std::slice::from_raw_parts(start, count) })
}

/// Memory of a window that stands in memory that `keeps` owns.
///
/// Crate-private: the one caller (`Exposure::block`) has seen to it that `bytes` bytes from `start` on are a
/// part of it, and lets nobody have a claim of it for longer than the window is there. Who else reads or
/// writes there meanwhile is a matter of the program's epochs.
pub(crate) fn window_memory<K>(_keeps: &K, start: *mut u8, bytes: usize) -> Option<UserMemory> {
    // SAFETY: as said above.
    (!start.is_null()).then(|| unsafe { UserMemory::claim(start, bytes) })
}

/// What stands in memory of a window, for the answer to a get.
///
/// The caller of this crate-private function keeps the window's memory until the answer is gone.
pub(crate) fn exposed(memory: &UserMemory) -> Payload<'static> {
    // SAFETY: as said above.
    unsafe { memory.reading() }
}

/// Memory that the library allocates for the program, freed when it is dropped (MPI 5.0 §9.2).
///
/// Larger chunks come from memory that the other processes of the node can map, where there is such.
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
            // SAFETY: every bit pattern is a number.
            unsafe impl Datatype for $rust {
                const SHAPE: &'static TypeShape =
                    &TypeShape::Number { predefined: Predefined::$mpi, bytes: size_of::<$rust>() };
            }
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
pub(crate) fn reading<T: Datatype>(values: &[T]) -> Payload<'static> {
    // SAFETY: the slice is allocated; every caller in this crate keeps it so until the operation that the
    // claim is given to is over (blocking calls return after it, requests own the vector and wait in their
    // `Drop`).
    unsafe { Payload::claim(values.as_ptr().cast(), size_of_val(values)) }
}

/// What stands in memory of the library's own, for a send.
///
/// The caller of this crate-private function keeps the heap until the send is over: it waits for it, or keeps
/// the heap beside the request, or forgets it where it can do neither.
pub(crate) fn sending(heap: &Heap) -> Payload<'static> {
    // SAFETY: as said above.
    unsafe { heap.memory().reading() }
}

/// What stands in memory that a blocking operation also writes to, for it to give.
///
/// The caller of this crate-private function has copied it before it writes there, and before it returns.
pub(crate) fn giving(memory: &UserMemory) -> Payload<'static> {
    // SAFETY: as said above; whoever claimed the memory has promised that it is there until the operation is
    // over.
    unsafe { memory.reading() }
}

/// Room for values that stays where it is, and is not looked at, until the operation is over.
pub(crate) fn writing<T: Datatype>(values: &mut [T]) -> UserMemory {
    // SAFETY: as in `reading`; exclusive, since the slice is borrowed mutably or owned by the request. Any
    // bytes are values of a datatype.
    unsafe { UserMemory::claim(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Values that are to be overwritten.
pub(crate) fn blank<T: Datatype>(count: usize) -> Vec<T> {
    // SAFETY: any bytes are a value of a datatype, so zeroes are.
    vec![unsafe { std::mem::zeroed() }; count]
}

/// Makes room for so many values behind those that there are, to be overwritten.
pub(crate) fn lengthen<T: Datatype>(values: &mut Vec<T>, count: usize) {
    // SAFETY: as in `blank`.
    values.resize(count, unsafe { std::mem::zeroed() });
}

/// Bytes of a value in a message: its data without gaps.
pub(crate) const fn value_bytes<T: Datatype>() -> usize {
    const {
        assert!(T::SHAPE.extent() == size_of::<T>(), "the shape has the size of the type");
        assert!(T::SHAPE.bytes() > 0, "a value without data is no message: it cannot be counted");
        T::SHAPE.bytes()
    }
}
