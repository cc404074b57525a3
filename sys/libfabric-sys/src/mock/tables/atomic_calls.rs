//! The table of atomics, and the functions in it: an update, a fetch, a comparison, and which of them there
//! are.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use super::{kept, network, number};
use crate::bindings::*;
use crate::mock::MockAtomics;
use crate::mock::atomics::{MockAtomicKind, element_bytes};
use crate::mock::network::{MockSpan, Used};
use crate::mock::one_sided::{Deed, OneSided};

/// The table of atomics, which not every provider fills, or has.
pub(super) fn atomic_operations() -> *mut fi_ops_atomic {
    let bytes = match network(|network| network.rules.atomics) {
        MockAtomics::None => return null_mut(),
        // Whoever calls what the table does not have any more is heard of: the operations are there.
        MockAtomics::ShortTable => size_of::<usize>(),
        MockAtomics::Claimed | MockAtomics::Bytes(_) => size_of::<fi_ops_atomic>(),
    };
    table!(fi_ops_atomic, bytes, {
        write: atomic,
        writemsg: atomic_message,
        readwrite: fetch_atomic,
        compwrite: compare_atomic,
        writevalid: atomic_valid,
        readwritevalid: fetch_atomic_valid,
        compwritevalid: compare_atomic_valid,
    })
}

/// Elements of the caller: where they begin, and the descriptor of their registration.
#[derive(Clone, Copy)]
struct Elements {
    start: *const c_void,
    descriptor: *mut c_void,
}

/// An atomic as C asks for it, but for the elements of the caller.
#[derive(Clone, Copy)]
struct AtomicCall {
    datatype: fi_datatype,
    op: fi_op,
    count: usize,
    /// The address of the peer.
    to: fi_addr_t,
    /// Where the elements in the peer's memory begin.
    address: u64,
    /// The key of that memory.
    key: u64,
    context: *mut c_void,
    flags: u64,
}

/// Begins an atomic; its source comes first, then what it compares with and where the result goes.
///
/// # Safety
/// The endpoint is open, and the elements last until the operation has completed, as `fi_atomic(3)` demands.
unsafe fn begin_atomic(ep: *mut fid_ep, [source, compare, result]: [Elements; 3], call: AtomicCall) -> isize {
    let AtomicCall { datatype, op, count, to, address, key, context, flags } = call;
    let bytes = count * element_bytes(datatype).unwrap_or(1);
    let span = |elements: Elements| MockSpan { start: elements.start.cast_mut().cast(), bytes };
    let kind = match (compare.start.is_null(), result.start.is_null()) {
        (true, true) => MockAtomicKind::Update,
        (true, false) => MockAtomicKind::Fetch,
        _ => MockAtomicKind::Compare,
    };
    // An atomic that only fetches does not look at its source.
    let source_access = if op == FI_ATOMIC_READ { 0 } else { FI_WRITE };
    let mut used = vec![Used { memory: span(source), descriptor: source.descriptor, access: source_access }];
    let mut further = |elements: Elements, access: u64| {
        (!elements.start.is_null()).then(|| {
            used.push(Used { memory: span(elements), descriptor: elements.descriptor, access });
            span(elements)
        })
    };
    let (compare, result) = (further(compare, FI_WRITE), further(result, FI_READ));
    let deed = Deed::Atomic { kind, datatype, op, compare, result };
    // SAFETY: the caller's promise.
    let ep = unsafe { number(ep) };
    let call = OneSided { deed, flags, to, address, key, context };
    network(|network| network.begin_one_sided(ep, call, &used)) as isize
}

const NO_ELEMENTS: Elements = Elements { start: null(), descriptor: null_mut() };

// SAFETY: called as libfabric's function of this name, with an open endpoint of the mock.
unsafe extern "C" fn atomic(
    ep: *mut fid_ep,
    source: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let elements = [Elements { start: source, descriptor }, NO_ELEMENTS, NO_ELEMENTS];
    let call = AtomicCall { datatype, op, count, to, address, key, context, flags: 0 };
    // SAFETY: the caller's promise, as for libfabric's function.
    unsafe { begin_atomic(ep, elements, call) }
}

// SAFETY: called as libfabric's function of this name, with an open endpoint of the mock.
unsafe extern "C" fn atomic_message(ep: *mut fid_ep, message: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: the caller passes a whole message and an open endpoint; there is one chunk on either side, of
    // as many elements.
    unsafe {
        let message = &*message;
        let (chunk, there) = (&*message.msg_iov, &*message.rma_iov);
        if message.iov_count != 1 || message.rma_iov_count != 1 || there.count != chunk.count {
            return -(FI_EINVAL as isize);
        }
        let source = Elements { start: chunk.addr.cast_const(), descriptor: *message.desc };
        let call = AtomicCall {
            datatype: message.datatype,
            op: message.op,
            count: chunk.count,
            to: message.addr,
            address: there.addr,
            key: there.key,
            context: message.context,
            flags,
        };
        begin_atomic(ep, [source, NO_ELEMENTS, NO_ELEMENTS], call)
    }
}

// SAFETY: called as libfabric's function of this name, with an open endpoint of the mock.
unsafe extern "C" fn fetch_atomic(
    ep: *mut fid_ep,
    source: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    result: *mut c_void,
    result_descriptor: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let source = Elements { start: source, descriptor };
    let result = Elements { start: result.cast_const(), descriptor: result_descriptor };
    let elements = [source, NO_ELEMENTS, result];
    let call = AtomicCall { datatype, op, count, to, address, key, context, flags: 0 };
    // SAFETY: the caller's promise, as for libfabric's function.
    unsafe { begin_atomic(ep, elements, call) }
}

// SAFETY: called as libfabric's function of this name, with an open endpoint of the mock.
unsafe extern "C" fn compare_atomic(
    ep: *mut fid_ep,
    source: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    compare: *const c_void,
    compare_descriptor: *mut c_void,
    result: *mut c_void,
    result_descriptor: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let source = Elements { start: source, descriptor };
    let compare = Elements { start: compare, descriptor: compare_descriptor };
    let result = Elements { start: result.cast_const(), descriptor: result_descriptor };
    let elements = [source, compare, result];
    let call = AtomicCall { datatype, op, count, to, address, key, context, flags: 0 };
    // SAFETY: the caller's promise, as for libfabric's function.
    unsafe { begin_atomic(ep, elements, call) }
}

/// Functions that say whether there is an atomic, and for how many elements.
macro_rules! valid {
    ($($name:ident: $kind:ident),*) => {$(
        // SAFETY: called as libfabric's function of this name, with an open endpoint of the mock.
        unsafe extern "C" fn $name(_ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
            match network(|network| network.atomic_count_max(MockAtomicKind::$kind, datatype, op)) {
                Ok(most) => {
                    // SAFETY: the caller passes a place for the number.
                    unsafe { count.write(most) };
                    0
                }
                Err(answer) => answer,
            }
        }
    )*};
}

valid!(atomic_valid: Update, fetch_atomic_valid: Fetch, compare_atomic_valid: Compare);
