//! Writes into memory of peers, and atomics on it.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;

use super::{Address, Answer, Endpoint, Operation, OperationMemory, Region, Remote, Span};
use crate::bindings::*;
use crate::inline;

/// When a write, or an atomic that fetches nothing, is told to be over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// As soon as the memory here is free again. The peer's memory may change later: nothing that follows,
    /// but an operation that says [`Until::Delivered`], tells when. Operations may overtake each other.
    Left,
    /// When the peer's memory has changed. Only where [`Terms::delivers`](crate::Terms::delivers).
    Delivered,
}

/// An atomic: what is done, with each of how many elements of which type that lie one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomic {
    /// What is done.
    pub change: Change,
    /// The type of the elements. Memory there must have its alignment.
    pub scalar: Scalar,
    /// How many they are, at least one and at most [`Atomics::count_max`].
    pub count: usize,
}

/// Whether an atomic brings back what it found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicKind {
    /// [`Endpoint::atomic`]: no.
    Update,
    /// [`Endpoint::fetch_atomic`]: yes.
    Fetch,
    /// [`Endpoint::compare_atomic`]: yes, and it changes something only where a comparison is true.
    Compare,
}

/// Memory of this side that an atomic takes its elements from or brings them to, with the region in which it
/// lies, where [`MemoryTerms::local`](crate::MemoryTerms::local).
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    /// The first element.
    pub start: *mut u8,
    /// Its region.
    pub region: Option<&'a Region>,
}

impl Local<'_> {
    /// Nothing, as the source of an atomic that only reads.
    pub const NOTHING: Local<'static> = Local { start: null_mut(), region: None };
}

/// An enumeration of numbers of libfabric.
macro_rules! numbered {
    ($(#[$about:meta])* $name:ident: $type:ty { $($(#[$what:meta])* $variant:ident = $number:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$what])* $variant = $number,)*
        }

        impl $name {
            /// All of them, in the order of their numbers, which begin at zero and have no gap.
            pub const ALL: &[$name] = &[$($name::$variant),*];
        }

        const _: () = {
            let mut index = 0;
            while index < $name::ALL.len() {
                assert!($name::ALL[index] as $type == index as $type);
                index += 1;
            }
        };
    };
}

numbered! {
    /// What an atomic does with an element over there and one from here (`fi_atomic(3)`).
    Change: fi_op {
        /// The less of the two.
        Min = FI_MIN,
        /// The greater.
        Max = FI_MAX,
        /// The sum.
        Sum = FI_SUM,
        /// The product.
        Product = FI_PROD,
        /// One if either is not zero, else zero.
        LogicalOr = FI_LOR,
        /// One if neither is zero, else zero.
        LogicalAnd = FI_LAND,
        /// The bits that either has.
        BitOr = FI_BOR,
        /// The bits that both have.
        BitAnd = FI_BAND,
        /// One if just one of them is zero, else zero.
        LogicalXor = FI_LXOR,
        /// The bits that just one of them has.
        BitXor = FI_BXOR,
        /// No change; what is there is fetched. The source is not looked at.
        Read = FI_ATOMIC_READ,
        /// The element from here.
        Replace = FI_ATOMIC_WRITE,
        /// The element from here where that to compare with equals that over there.
        SwapIfEqual = FI_CSWAP,
        /// The element from here where that to compare with differs from that over there.
        SwapIfDifferent = FI_CSWAP_NE,
        /// The element from here where that to compare with is at most that over there.
        SwapIfAtMost = FI_CSWAP_LE,
        /// The element from here where that to compare with is less than that over there.
        SwapIfLess = FI_CSWAP_LT,
        /// The element from here where that to compare with is at least that over there.
        SwapIfAtLeast = FI_CSWAP_GE,
        /// The element from here where that to compare with is greater than that over there.
        SwapIfGreater = FI_CSWAP_GT,
        /// Those bits of the element from here that the element to compare with has set; the others stay.
        SwapBits = FI_MSWAP,
    }
}

numbered! {
    /// A type of elements.
    Scalar: fi_datatype {
        /// `i8`.
        I8 = FI_INT8,
        /// `u8`.
        U8 = FI_UINT8,
        /// `i16`.
        I16 = FI_INT16,
        /// `u16`.
        U16 = FI_UINT16,
        /// `i32`.
        I32 = FI_INT32,
        /// `u32`.
        U32 = FI_UINT32,
        /// `i64`.
        I64 = FI_INT64,
        /// `u64`.
        U64 = FI_UINT64,
        /// `f32`.
        F32 = FI_FLOAT,
        /// `f64`.
        F64 = FI_DOUBLE,
        /// Two `f32`, C's `float _Complex`.
        ComplexF32 = FI_FLOAT_COMPLEX,
        /// Two `f64`, C's `double _Complex`.
        ComplexF64 = FI_DOUBLE_COMPLEX,
        /// C's `long double`.
        LongDouble = FI_LONG_DOUBLE,
        /// Two of them, C's `long double _Complex`.
        ComplexLongDouble = FI_LONG_DOUBLE_COMPLEX,
    }
}

impl Scalar {
    /// How many bytes an element has.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::ComplexF32 => 8,
            // That of 64-bit Linux, on every processor.
            Scalar::ComplexF64 | Scalar::LongDouble => 16,
            Scalar::ComplexLongDouble => 32,
        }
    }
}

/// Which atomics an endpoint has, and for how many elements at once.
#[derive(Debug)]
pub struct Atomics {
    counts: Box<[[[u32; Scalar::ALL.len()]; Change::ALL.len()]; KINDS.len()]>,
}

impl Atomics {
    pub(super) fn none() -> Atomics {
        Atomics { counts: Box::new([[[0; Scalar::ALL.len()]; Change::ALL.len()]; KINDS.len()]) }
    }

    /// Asks an endpoint for each of them. That a provider says to have atomics says nothing of any of them.
    ///
    /// # Safety
    /// The endpoint is enabled.
    pub(super) unsafe fn of(ep: *mut fid_ep) -> Atomics {
        let mut atomics = Atomics::none();
        for kind in KINDS {
            let ask = match kind {
                AtomicKind::Update => inline::fi_atomicvalid,
                AtomicKind::Fetch => inline::fi_fetch_atomicvalid,
                AtomicKind::Compare => inline::fi_compare_atomicvalid,
            };
            for change in Change::ALL {
                for scalar in Scalar::ALL {
                    let mut count = 0;
                    // SAFETY: the caller's promise.
                    let answer = unsafe { ask(ep, *scalar as fi_datatype, *change as fi_op, &mut count) };
                    let count = if answer == 0 { count } else { 0 };
                    let place = &mut atomics.counts[kind as usize][*change as usize][*scalar as usize];
                    *place = u32::try_from(count).unwrap_or(u32::MAX);
                }
            }
        }
        atomics
    }

    /// How many elements an atomic may have; zero where the endpoint does not have it.
    #[inline]
    #[must_use]
    pub fn count_max(&self, kind: AtomicKind, change: Change, scalar: Scalar) -> usize {
        self.counts[kind as usize][change as usize][scalar as usize] as usize
    }

    /// Whether it has none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.as_flattened().as_flattened().iter().all(|count| *count == 0)
    }

    #[inline]
    fn has(&self, kind: AtomicKind, what: Atomic) -> bool {
        (1..=self.count_max(kind, what.change, what.scalar)).contains(&what.count)
    }
}

impl Endpoint {
    /// Which atomics there are.
    #[must_use]
    pub fn atomics(&self) -> &Atomics {
        &self.atomics
    }

    /// Writes into a peer's memory; completes under `operation`. Without
    /// [`Terms::writes`](crate::Terms::writes) it fails at once, with `FI_EOPNOTSUPP`.
    ///
    /// # Safety
    /// The operation is not under way. `memory` stays readable and unchanged until it has completed or the
    /// endpoint is closed, and lies in `region` where there is one.
    #[inline]
    pub unsafe fn write(
        &mut self,
        operation: Operation,
        memory: Span,
        region: Option<&Region>,
        to: Address,
        remote: Remote,
        until: Until,
    ) -> Answer {
        if !self.terms.writes {
            return Answer::Failed(FI_EOPNOTSUPP);
        }
        let (context, desc) = (self.context(operation), self.descriptor(region));
        // SAFETY: the caller's promise. What the peer told of its memory is checked by its provider.
        Answer::of(unsafe {
            if until == Until::Left {
                inline::fi_write(
                    self.ep,
                    memory.start.cast(),
                    memory.bytes,
                    desc,
                    to.0,
                    remote.address,
                    remote.key,
                    context,
                )
            } else {
                let kept = OperationMemory::fill(context, memory.start, memory.bytes, desc, remote);
                let message = fi_msg_rma {
                    msg_iov: &raw const (*kept).vector,
                    desc: &raw mut (*kept).descriptor,
                    iov_count: 1,
                    addr: to.0,
                    rma_iov: &raw const (*kept).remote,
                    rma_iov_count: 1,
                    context,
                    data: 0,
                };
                inline::fi_writemsg(self.ep, &message, FI_DELIVERY_COMPLETE)
            }
        })
    }

    /// Changes elements of a peer's memory, each at one blow as far as atomics go; completes under
    /// `operation`. What [`Endpoint::atomics`] does not have fails at once, with `FI_EOPNOTSUPP`.
    ///
    /// # Safety
    /// The operation is not under way. The elements at `source` stay readable and unchanged until it has
    /// completed or the endpoint is closed, and lie in its region where there is one.
    pub unsafe fn atomic(
        &mut self,
        operation: Operation,
        source: Local<'_>,
        what: Atomic,
        to: Address,
        remote: Remote,
        until: Until,
    ) -> Answer {
        if !self.atomics.has(AtomicKind::Update, what) {
            return Answer::Failed(FI_EOPNOTSUPP);
        }
        let (context, desc) = (self.context(operation), self.descriptor(source.region));
        let (datatype, op) = (what.scalar as fi_datatype, what.change as fi_op);
        // SAFETY: the caller's promise. What the peer told of its memory is checked by its provider.
        Answer::of(unsafe {
            if until == Until::Left {
                let Remote { address, key } = remote;
                let from = source.start.cast();
                inline::fi_atomic(self.ep, from, what.count, desc, to.0, address, key, datatype, op, context)
            } else {
                let memory = OperationMemory::fill(context, source.start, what.count, desc, remote);
                let message = fi_msg_atomic {
                    msg_iov: (&raw const (*memory).vector).cast(),
                    desc: &raw mut (*memory).descriptor,
                    iov_count: 1,
                    addr: to.0,
                    rma_iov: (&raw const (*memory).remote).cast(),
                    rma_iov_count: 1,
                    datatype,
                    op,
                    context,
                    data: 0,
                };
                inline::fi_atomicmsg(self.ep, &message, FI_DELIVERY_COMPLETE)
            }
        })
    }

    /// Changes elements of a peer's memory, each at one blow as far as atomics go, and brings what was there
    /// before to `result`; completes under `operation` when that has come. What [`Endpoint::atomics`] does
    /// not have fails at once, with `FI_EOPNOTSUPP`.
    ///
    /// # Safety
    /// The operation is not under way. Until it has completed or the endpoint is closed, the elements at
    /// `source` stay readable and unchanged, and nobody but the provider uses those at `result`. All of them
    /// lie in their regions where there are any.
    pub unsafe fn fetch_atomic(
        &mut self,
        operation: Operation,
        source: Local<'_>,
        result: Local<'_>,
        what: Atomic,
        to: Address,
        remote: Remote,
    ) -> Answer {
        if !self.atomics.has(AtomicKind::Fetch, what) {
            return Answer::Failed(FI_EOPNOTSUPP);
        }
        let context = self.context(operation);
        let [(from, desc), (into, into_desc)] = [source, result].map(|local| self.place(local));
        // SAFETY: the caller's promise. What the peer told of its memory is checked by its provider.
        Answer::of(unsafe {
            inline::fi_fetch_atomic(
                self.ep,
                from,
                what.count,
                desc,
                into,
                into_desc,
                to.0,
                remote.address,
                remote.key,
                what.scalar as fi_datatype,
                what.change as fi_op,
                context,
            )
        })
    }

    /// Changes elements of a peer's memory where a comparison with those at `compare` is true, and brings
    /// what was there before to `result`; completes under `operation` when that has come. What
    /// [`Endpoint::atomics`] does not have fails at once, with `FI_EOPNOTSUPP`.
    ///
    /// # Safety
    /// The operation is not under way. Until it has completed or the endpoint is closed, the elements at
    /// `source` and at `compare` stay readable and unchanged, and nobody but the provider uses those at
    /// `result`. All of them lie in their regions where there are any.
    pub unsafe fn compare_atomic(
        &mut self,
        operation: Operation,
        [source, compare]: [Local<'_>; 2],
        result: Local<'_>,
        what: Atomic,
        to: Address,
        remote: Remote,
    ) -> Answer {
        if !self.atomics.has(AtomicKind::Compare, what) {
            return Answer::Failed(FI_EOPNOTSUPP);
        }
        let context = self.context(operation);
        let [(from, desc), (with, with_desc), (into, into_desc)] =
            [source, compare, result].map(|local| self.place(local));
        // SAFETY: the caller's promise. What the peer told of its memory is checked by its provider.
        Answer::of(unsafe {
            inline::fi_compare_atomic(
                self.ep,
                from,
                what.count,
                desc,
                with,
                with_desc,
                into,
                into_desc,
                to.0,
                remote.address,
                remote.key,
                what.scalar as fi_datatype,
                what.change as fi_op,
                context,
            )
        })
    }

    fn place(&self, local: Local<'_>) -> (*mut c_void, *mut c_void) {
        (local.start.cast(), self.descriptor(local.region))
    }
}

impl OperationMemory {
    /// Notes what a provider may look at again until the operation has completed.
    ///
    /// # Safety
    /// `context` is the memory of an operation that is not under way.
    unsafe fn fill(
        context: *mut c_void,
        start: *mut u8,
        count: usize,
        descriptor: *mut c_void,
        remote: Remote,
    ) -> *mut OperationMemory {
        let memory = context.cast::<OperationMemory>();
        // SAFETY: the caller's promise.
        unsafe {
            (*memory).vector = libc::iovec { iov_base: start.cast(), iov_len: count };
            (*memory).descriptor = descriptor;
            (*memory).remote = fi_rma_iov { addr: remote.address, len: count, key: remote.key };
        }
        memory
    }
}

/// Vectors of elements look like vectors of bytes, with another meaning of the length.
const _: () = {
    assert!(size_of::<fi_ioc>() == size_of::<libc::iovec>());
    assert!(offset_of!(fi_ioc, count) == offset_of!(libc::iovec, iov_len));
    assert!(size_of::<fi_rma_ioc>() == size_of::<fi_rma_iov>());
    assert!(offset_of!(fi_rma_ioc, count) == offset_of!(fi_rma_iov, len));
    assert!(offset_of!(fi_rma_ioc, key) == offset_of!(fi_rma_iov, key));
};

const KINDS: [AtomicKind; 3] = [AtomicKind::Update, AtomicKind::Fetch, AtomicKind::Compare];
