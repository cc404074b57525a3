//! The inline functions of libfabric's headers that are used here, once more in Rust, so that they are
//! inlined here too.
//!
//! Each takes an operation out of an object's table and calls it. A table without the operation, which
//! libfabric never hands out, answers `-FI_ENOSYS`; so does a table that ends before an operation, where not
//! every provider has it. The test `header` compares all of them with the originals.

#![allow(clippy::too_many_arguments)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use crate::bindings::*;

/// Calls an operation, if the table has it.
macro_rules! call {
    ($operation:expr, $($argument:expr),*) => {
        match $operation {
            Some(operation) => operation($($argument),*),
            None => (-FI_ENOSYS) as _,
        }
    };
}

/// An operation of a table that may be missing, or be one of those times when it had fewer operations: its
/// `size` tells.
macro_rules! listed {
    ($table:expr, $type:ty, $field:ident) => {{
        let table: *const $type = $table;
        if table.is_null() || (*table).size <= offset_of!($type, $field) { None } else { (*table).$field }
    }};
}

/// Defines functions: for each its name, parameters, answer, and the operation with what it is called with.
///
/// # Safety
/// Of all of them: as for the original, of which the manual page `fi_…(3)` of the same name tells; objects
/// are open and of the right kind, and memory lasts until the operation has completed.
macro_rules! inline {
    ($(fn $name:ident($($parameter:ident: $type:ty),*) -> $answer:ty { $object:expr => $($argument:expr),* })*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the manual page `fi_…(3)` of the same name demands: objects are open and of the right kind, and
        /// memory lasts until the operation has completed.
        #[inline(always)]
        pub unsafe fn $name($($parameter: $type),*) -> $answer {
            // SAFETY: the caller vouches for the objects, and an object's tables live as long as it does.
            unsafe { call!($object, $($argument),*) }
        }
    )*};
}

inline! {
    fn fi_close(object: *mut fid) -> c_int {
        (*(*object).ops).close => object
    }
    fn fi_domain(fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain, context: *mut c_void) -> c_int {
        (*(*fabric).ops).domain => fabric, info, domain, context
    }
    fn fi_endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void) -> c_int {
        (*(*domain).ops).endpoint => domain, info, ep, context
    }
    fn fi_ep_bind(ep: *mut fid_ep, object: *mut fid, flags: u64) -> c_int {
        (*(*ep).fid.ops).bind => &raw mut (*ep).fid, object, flags
    }
    fn fi_enable(ep: *mut fid_ep) -> c_int {
        (*(*ep).fid.ops).control => &raw mut (*ep).fid, FI_ENABLE as c_int, ptr::null_mut()
    }
    fn fi_setopt(ep: *mut fid, level: c_int, name: c_int, value: *const c_void, bytes: usize) -> c_int {
        (*(*ep.cast::<fid_ep>()).ops).setopt => ep, level, name, value, bytes
    }
    fn fi_getname(ep: *mut fid, address: *mut c_void, bytes: *mut usize) -> c_int {
        (*(*ep.cast::<fid_ep>()).cm).getname => ep, address, bytes
    }
    fn fi_av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av, context: *mut c_void) -> c_int {
        (*(*domain).ops).av_open => domain, attr, av, context
    }
    fn fi_av_insert(
        av: *mut fid_av, address: *const c_void, count: usize, into: *mut fi_addr_t, flags: u64, context: *mut c_void
    ) -> c_int {
        (*(*av).ops).insert => av, address, count, into, flags, context
    }
    fn fi_cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq, context: *mut c_void) -> c_int {
        (*(*domain).ops).cq_open => domain, attr, cq, context
    }
    fn fi_cq_read(cq: *mut fid_cq, into: *mut c_void, count: usize) -> isize {
        (*(*cq).ops).read => cq, into, count
    }
    fn fi_cq_readerr(cq: *mut fid_cq, into: *mut fi_cq_err_entry, flags: u64) -> isize {
        (*(*cq).ops).readerr => cq, into, flags
    }
    fn fi_send(
        ep: *mut fid_ep, data: *const c_void, bytes: usize, desc: *mut c_void, to: fi_addr_t, context: *mut c_void
    ) -> isize {
        (*(*ep).msg).send => ep, data, bytes, desc, to, context
    }
    fn fi_inject(ep: *mut fid_ep, data: *const c_void, bytes: usize, to: fi_addr_t) -> isize {
        (*(*ep).msg).inject => ep, data, bytes, to
    }
    fn fi_recvmsg(ep: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
        (*(*ep).msg).recvmsg => ep, message, flags
    }
    fn fi_read(
        ep: *mut fid_ep, into: *mut c_void, bytes: usize, desc: *mut c_void, from: fi_addr_t, address: u64, key: u64,
        context: *mut c_void
    ) -> isize {
        (*(*ep).rma).read => ep, into, bytes, desc, from, address, key, context
    }
    fn fi_write(
        ep: *mut fid_ep, from: *const c_void, bytes: usize, desc: *mut c_void, to: fi_addr_t, address: u64, key: u64,
        context: *mut c_void
    ) -> isize {
        listed!((*ep).rma, fi_ops_rma, write) => ep, from, bytes, desc, to, address, key, context
    }
    fn fi_writemsg(ep: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> isize {
        listed!((*ep).rma, fi_ops_rma, writemsg) => ep, message, flags
    }
    fn fi_atomic(
        ep: *mut fid_ep, from: *const c_void, count: usize, desc: *mut c_void, to: fi_addr_t, address: u64, key: u64,
        datatype: fi_datatype, op: fi_op, context: *mut c_void
    ) -> isize {
        listed!((*ep).atomic, fi_ops_atomic, write) => ep, from, count, desc, to, address, key, datatype, op, context
    }
    fn fi_atomicmsg(ep: *mut fid_ep, message: *const fi_msg_atomic, flags: u64) -> isize {
        listed!((*ep).atomic, fi_ops_atomic, writemsg) => ep, message, flags
    }
    fn fi_fetch_atomic(
        ep: *mut fid_ep, from: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, to: fi_addr_t, address: u64, key: u64, datatype: fi_datatype, op: fi_op,
        context: *mut c_void
    ) -> isize {
        listed!((*ep).atomic, fi_ops_atomic, readwrite) =>
            ep, from, count, desc, result, result_desc, to, address, key, datatype, op, context
    }
    fn fi_compare_atomic(
        ep: *mut fid_ep, from: *const c_void, count: usize, desc: *mut c_void, compare: *const c_void,
        compare_desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void, to: fi_addr_t, address: u64, key: u64,
        datatype: fi_datatype, op: fi_op, context: *mut c_void
    ) -> isize {
        listed!((*ep).atomic, fi_ops_atomic, compwrite) =>
            ep, from, count, desc, compare, compare_desc, result, result_desc, to, address, key, datatype, op, context
    }
    fn fi_atomicvalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
        listed!((*ep).atomic, fi_ops_atomic, writevalid) => ep, datatype, op, count
    }
    fn fi_fetch_atomicvalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
        listed!((*ep).atomic, fi_ops_atomic, readwritevalid) => ep, datatype, op, count
    }
    fn fi_compare_atomicvalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
        listed!((*ep).atomic, fi_ops_atomic, compwritevalid) => ep, datatype, op, count
    }
    fn fi_mr_reg(
        domain: *mut fid_domain, start: *const c_void, bytes: usize, access: u64, offset: u64, key: u64, flags: u64,
        mr: *mut *mut fid_mr, context: *mut c_void
    ) -> c_int {
        (*(*domain).mr).reg => &raw mut (*domain).fid, start, bytes, access, offset, key, flags, mr, context
    }
    fn fi_mr_bind(mr: *mut fid_mr, object: *mut fid, flags: u64) -> c_int {
        (*(*mr).fid.ops).bind => &raw mut (*mr).fid, object, flags
    }
    fn fi_mr_enable(mr: *mut fid_mr) -> c_int {
        (*(*mr).fid.ops).control => &raw mut (*mr).fid, FI_ENABLE as c_int, ptr::null_mut()
    }
}

/// `fi_cq_strerror`; null where the table lacks it.
///
/// # Safety
/// `cq` is an open completion queue, `data` is what it has told of an error, and `text` is writable for
/// `bytes` bytes.
pub unsafe fn fi_cq_strerror(
    cq: *mut fid_cq,
    code: c_int,
    data: *const c_void,
    text: *mut c_char,
    bytes: usize,
) -> *const c_char {
    // SAFETY: the caller vouches for the queue, whose table lives as long as it does.
    unsafe { (*(*cq).ops).strerror.map_or(ptr::null(), |operation| operation(cq, code, data, text, bytes)) }
}

/// `fi_mr_desc`.
///
/// # Safety
/// `mr` is an open registration.
#[inline(always)]
pub unsafe fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: the caller vouches for the registration.
    unsafe { (*mr).mem_desc }
}

/// `fi_mr_key`.
///
/// # Safety
/// `mr` is an open registration.
#[inline(always)]
pub unsafe fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: the caller vouches for the registration.
    unsafe { (*mr).key }
}
