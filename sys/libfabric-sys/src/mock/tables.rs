//! The provider's side of C: structures, tables of operations, and the functions in them.
//!
//! Every object is a box with libfabric's structure first, so that its address is the object's.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, PoisonError};

use super::NETWORK;
use super::network::{Entry, MockSpan, Network, Used};
use super::offers::{self, Info};
use super::one_sided::{Deed, OneSided};
use crate::bindings::*;
use crate::library::Library;

pub(super) fn library() -> Library {
    Library {
        getinfo: get_info,
        freeinfo: offers::free_info,
        dupinfo: offers::dup_info,
        fabric: open_fabric,
        version: get_version,
        strerror: str_error,
    }
}

fn network<T>(act: impl FnOnce(&mut Network) -> T) -> T {
    NETWORK.with_borrow_mut(act)
}

/// An object: libfabric's part of it, and its number in the network.
#[repr(C)]
struct Object<T> {
    head: T,
    kind: HandleKind,
    number: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum HandleKind {
    Plain,
    Endpoint,
    Queue,
    Region,
}

/// Hands a new object to C.
///
/// # Safety
/// `T` is one of libfabric's objects, and all its tables are in `head`.
unsafe fn hand_over<T>(head: T, kind: HandleKind, number: usize, into: *mut *mut T) -> c_int {
    let object = Box::into_raw(Box::new(Object { head, kind, number }));
    // SAFETY: C hands over a place for the answer.
    unsafe { into.write(object.cast()) };
    0
}

/// The number of an object.
///
/// # Safety
/// `head` was handed over by [`hand_over`], and is not closed.
unsafe fn number<T>(head: *mut T) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*head.cast::<Object<T>>()).number }
}

/// A table in which nothing is filled but what is named. It says to be as long as it is, unless `$bytes` says
/// otherwise.
macro_rules! table {
    ($type:ident { $($fields:tt)* }) => { table!($type, size_of::<$type>(), { $($fields)* }) };
    ($type:ident, $bytes:expr, { $($field:ident: $operation:expr),* $(,)? }) => {{
        // SAFETY: all bytes zero are a table with no operations.
        let empty: $type = unsafe { std::mem::zeroed() };
        kept($type { size: $bytes, $($field: Some($operation),)* ..empty })
    }};
}

mod atomic_calls;

/// The table for ever: each is made once, and nobody changes it, since endpoints of other threads have it,
/// too.
fn kept<T: Copy + 'static>(table: T) -> *mut T {
    /// Where the tables are, by type and by the addresses in them.
    static TABLES: Mutex<BTreeMap<(TypeId, Vec<usize>), usize>> = Mutex::new(BTreeMap::new());
    // SAFETY: a table is a size and addresses of functions, or zeros: words, with nothing between.
    let words = unsafe {
        std::slice::from_raw_parts((&raw const table).cast::<usize>(), size_of::<T>() / size_of::<usize>())
    };
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tables.entry((TypeId::of::<T>(), words.to_vec()));
    let address = *place.or_insert_with(|| Box::into_raw(Box::new(table)).expose_provenance());
    std::ptr::with_exposed_provenance_mut(address)
}

/// What every object begins with.
fn fid(close: unsafe extern "C" fn(*mut fid) -> c_int) -> fid {
    let ops = table!(fi_ops { close: close, bind: bind, control: control });
    fid { fclass: 0, context: null_mut(), ops }
}

// SAFETY: called with an object of type `T` that was handed over, which is closed once.
unsafe extern "C" fn close<T>(object: *mut fid) -> c_int {
    // SAFETY: as above.
    let all = unsafe { &*object.cast::<Object<T>>() };
    let answer = match all.kind {
        HandleKind::Endpoint => network(|network| network.close_endpoint(all.number)),
        HandleKind::Region => network(|network| network.close_region(all.number)),
        HandleKind::Plain | HandleKind::Queue => 0,
    };
    if answer == 0 {
        // SAFETY: made by `Box::into_raw`, and closed.
        drop(unsafe { Box::from_raw(object.cast::<Object<T>>()) });
    }
    answer
}

// SAFETY: called with objects that were handed over; only endpoints and registrations are bound to something.
unsafe extern "C" fn bind(object: *mut fid, to: *mut fid, flags: u64) -> c_int {
    // SAFETY: as above; `kind` says what each is.
    unsafe {
        let (ep, mr) = (object.cast::<Object<fid_ep>>(), object.cast::<Object<fid_mr>>());
        if (*object).fclass == FI_CLASS_MR as usize {
            return network(|network| network.bind_region((*mr).number, number(to.cast::<fid_ep>())));
        }
        match (*to).fclass as u32 {
            FI_CLASS_CQ => {
                network(|network| network.bind_queue((*ep).number, number(to.cast::<fid_cq>()), flags))
            }
            _ => network(|network| network.bind_addresses((*ep).number)),
        }
    }
}

// SAFETY: called with an endpoint or a registration that was handed over.
unsafe extern "C" fn control(object: *mut fid, command: c_int, _argument: *mut c_void) -> c_int {
    if command != FI_ENABLE as c_int {
        return -FI_ENOSYS;
    }
    // SAFETY: as above.
    unsafe {
        if (*object).fclass == FI_CLASS_MR as usize {
            let mr = object.cast::<fid_mr>();
            return match network(|network| network.enable_region(number(mr))) {
                Ok(key) => {
                    (*mr).key = key;
                    0
                }
                Err(answer) => answer,
            };
        }
        network(|network| network.enable(number(object.cast::<fid_ep>())))
    }
}

// SAFETY: `hints` was made by `dup_info`; `into` takes the answer.
unsafe extern "C" fn get_info(
    _version: u32,
    _node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    hints: *const fi_info,
    into: *mut *mut fi_info,
) -> c_int {
    let rules = network(|network| network.rules);
    // SAFETY: as above.
    unsafe {
        *into = null_mut();
        offers::offer(&rules, hints, &mut *into)
    }
}

// SAFETY: takes nothing.
unsafe extern "C" fn get_version() -> u32 {
    FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION
}

// SAFETY: may be called with any number.
unsafe extern "C" fn str_error(_code: c_int) -> *const c_char {
    c"the mock provider says no".as_ptr()
}

// SAFETY: of all that follow: called by C's rules with objects that were handed over, and memory that the
// caller vouches for.

// SAFETY: see above.
unsafe extern "C" fn open_fabric(
    _attr: *mut fi_fabric_attr,
    into: *mut *mut fid_fabric,
    _context: *mut c_void,
) -> c_int {
    let ops = table!(fi_ops_fabric { domain: open_domain });
    let head = fid_fabric { fid: fid(close::<fid_fabric>), ops, api_version: 0 };
    // SAFETY: see above.
    unsafe { hand_over(head, HandleKind::Plain, 0, into) }
}

// SAFETY: see above.
unsafe extern "C" fn open_domain(
    _fabric: *mut fid_fabric,
    info: *mut fi_info,
    into: *mut *mut fid_domain,
    _context: *mut c_void,
) -> c_int {
    let ops = table!(fi_ops_domain { av_open: open_av, cq_open: open_cq, endpoint: open_endpoint });
    let mr = table!(fi_ops_mr { reg: register });
    // SAFETY: see above; the info is one of ours.
    unsafe {
        let number = network(|network| network.open_domain((*info.cast::<Info>()).number));
        hand_over(fid_domain { fid: fid(close::<fid_domain>), ops, mr }, HandleKind::Plain, number, into)
    }
}

// SAFETY: see above.
unsafe extern "C" fn open_av(
    domain: *mut fid_domain,
    _attr: *mut fi_av_attr,
    into: *mut *mut fid_av,
    _context: *mut c_void,
) -> c_int {
    let ops = table!(fi_ops_av { insert: insert });
    // SAFETY: see above.
    unsafe { hand_over(fid_av { fid: fid(close::<fid_av>), ops }, HandleKind::Plain, number(domain), into) }
}

// SAFETY: see above.
unsafe extern "C" fn open_cq(
    _domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    into: *mut *mut fid_cq,
    _context: *mut c_void,
) -> c_int {
    let ops = table!(fi_ops_cq { read: read_queue, readerr: read_error, strerror: explain });
    let mut fid = fid(close::<fid_cq>);
    fid.fclass = FI_CLASS_CQ as usize;
    // SAFETY: see above.
    unsafe {
        if (*attr).format != FI_CQ_FORMAT_DATA {
            return -FI_ENOSYS;
        }
        let number = network(Network::open_queue);
        hand_over(fid_cq { fid, ops }, HandleKind::Queue, number, into)
    }
}

// SAFETY: see above.
unsafe extern "C" fn open_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    into: *mut *mut fid_ep,
    _context: *mut c_void,
) -> c_int {
    let head = fid_ep {
        fid: fid(close::<fid_ep>),
        ops: table!(fi_ops_ep { setopt: set_option }),
        cm: table!(fi_ops_cm { getname: get_name }),
        msg: table!(fi_ops_msg { send: send, inject: inject, recvmsg: receive }),
        rma: table!(fi_ops_rma { read: read_memory, write: write_memory, writemsg: write_message }),
        tagged: null_mut(),
        atomic: atomic_calls::atomic_operations(),
        collective: null_mut(),
    };
    // SAFETY: see above.
    unsafe {
        let number = network(|network| network.open_endpoint(number(domain), (*info).caps));
        hand_over(head, HandleKind::Endpoint, number, into)
    }
}

// SAFETY: see above.
unsafe extern "C" fn set_option(
    ep: *mut fid,
    _level: c_int,
    _name: c_int,
    value: *const c_void,
    _bytes: usize,
) -> c_int {
    // SAFETY: see above; the one option that is set is a size.
    unsafe { network(|network| network.set_least_room(number(ep.cast::<fid_ep>()), *value.cast())) }
}

// SAFETY: see above.
unsafe extern "C" fn get_name(ep: *mut fid, into: *mut c_void, bytes: *mut usize) -> c_int {
    // SAFETY: see above; there is room for `bytes` bytes.
    unsafe {
        let name = number(ep.cast::<fid_ep>()) as u64;
        let fits = *bytes >= size_of::<u64>();
        *bytes = size_of::<u64>();
        if fits {
            into.cast::<u64>().write_unaligned(name);
            0
        } else {
            -(FI_ETOOSMALL as c_int)
        }
    }
}

// SAFETY: see above.
unsafe extern "C" fn insert(
    av: *mut fid_av,
    name: *const c_void,
    _count: usize,
    into: *mut fi_addr_t,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: see above; a name has eight bytes.
    unsafe {
        let peer = name.cast::<u64>().read_unaligned();
        let domain = number(av);
        let is_there = network(|network| network.reaches(domain, peer));
        *into = if is_there { peer } else { FI_ADDR_NOTAVAIL };
        c_int::from(is_there)
    }
}

// SAFETY: see above.
unsafe extern "C" fn register(
    domain: *mut fid,
    start: *const c_void,
    bytes: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    into: *mut *mut fid_mr,
    _context: *mut c_void,
) -> c_int {
    let memory = MockSpan { start: start.cast_mut().cast(), bytes };
    // SAFETY: see above.
    let domain = unsafe { number(domain.cast::<fid_domain>()) };
    let region = match network(|network| network.register(domain, memory, access, key)) {
        Ok(region) => region,
        Err(answer) => return answer,
    };
    let mut fid = fid(close::<fid_mr>);
    fid.fclass = FI_CLASS_MR as usize;
    // A descriptor is opaque to the caller; the network counts them from one.
    let head = fid_mr {
        fid,
        mem_desc: without_provenance_mut(region + 1),
        key: network(|network| network.key(region)),
    };
    // SAFETY: see above.
    unsafe { hand_over(head, HandleKind::Region, region, into) }
}

// SAFETY: see above.
unsafe extern "C" fn send(
    ep: *mut fid_ep,
    start: *const c_void,
    bytes: usize,
    descriptor: *mut c_void,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let memory = MockSpan { start: start.cast_mut().cast(), bytes };
    // SAFETY: see above.
    let ep = unsafe { number(ep) };
    network(|network| network.send(ep, memory, descriptor, to, context)) as isize
}

// SAFETY: see above.
unsafe extern "C" fn inject(ep: *mut fid_ep, start: *const c_void, bytes: usize, to: fi_addr_t) -> isize {
    let data = MockSpan { start: start.cast_mut().cast(), bytes };
    // SAFETY: see above.
    let ep = unsafe { number(ep) };
    network(|network| network.inject(ep, data, to)) as isize
}

// SAFETY: see above.
unsafe extern "C" fn receive(ep: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
    // SAFETY: see above; there is one chunk, with one descriptor.
    unsafe {
        let message = &*message;
        let chunk = &*message.msg_iov;
        let memory = MockSpan { start: chunk.iov_base.cast(), bytes: chunk.iov_len };
        let (descriptor, context) = (*message.desc, message.context);
        let ep = number(ep);
        network(|network| network.receive(ep, memory, descriptor, context, flags)) as isize
    }
}

// SAFETY: see above.
unsafe extern "C" fn read_memory(
    ep: *mut fid_ep,
    into: *mut c_void,
    bytes: usize,
    descriptor: *mut c_void,
    from: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let used = [Used { memory: MockSpan { start: into.cast(), bytes }, descriptor, access: FI_READ }];
    // SAFETY: see above.
    let ep = unsafe { number(ep) };
    let call = OneSided { deed: Deed::Read, flags: 0, to: from, address, key, context };
    network(|network| network.begin_one_sided(ep, call, &used)) as isize
}

// SAFETY: see above.
unsafe extern "C" fn write_memory(
    ep: *mut fid_ep,
    from: *const c_void,
    bytes: usize,
    descriptor: *mut c_void,
    to: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let used =
        [Used { memory: MockSpan { start: from.cast_mut().cast(), bytes }, descriptor, access: FI_WRITE }];
    // SAFETY: see above.
    let ep = unsafe { number(ep) };
    let call = OneSided { deed: Deed::Write, flags: 0, to, address, key, context };
    network(|network| network.begin_one_sided(ep, call, &used)) as isize
}

// SAFETY: see above.
unsafe extern "C" fn write_message(ep: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: see above; there is one chunk on either side, of the same length.
    unsafe {
        let message = &*message;
        let (chunk, there) = (&*message.msg_iov, &*message.rma_iov);
        let memory = MockSpan { start: chunk.iov_base.cast(), bytes: chunk.iov_len };
        let used = [Used { memory, descriptor: *message.desc, access: FI_WRITE }];
        if message.iov_count != 1 || message.rma_iov_count != 1 || there.len != chunk.iov_len {
            return -(FI_EINVAL as isize);
        }
        let call = OneSided {
            deed: Deed::Write,
            flags,
            to: message.addr,
            address: there.addr,
            key: there.key,
            context: message.context,
        };
        let ep = number(ep);
        network(|network| network.begin_one_sided(ep, call, &used)) as isize
    }
}

// SAFETY: see above.
unsafe extern "C" fn read_queue(queue: *mut fid_cq, into: *mut c_void, count: usize) -> isize {
    // SAFETY: see above.
    let queue = unsafe { number(queue) };
    network(|network| {
        network.progress(queue);
        for read in 0..count {
            let Some(entry) = network.next(queue, false) else {
                return match (read, network.has_error(queue)) {
                    (0, true) => -(FI_EAVAIL as isize),
                    (0, false) => -(FI_EAGAIN as isize),
                    _ => read as isize,
                };
            };
            // SAFETY: see above; there is room for `count` entries of the format that was asked for.
            unsafe { into.cast::<fi_cq_data_entry>().add(read).write(data_entry(entry)) };
        }
        count as isize
    })
}

fn data_entry(entry: Entry) -> fi_cq_data_entry {
    fi_cq_data_entry {
        op_context: without_provenance_mut(entry.context),
        flags: entry.flags,
        len: entry.bytes,
        buf: without_provenance_mut(entry.start),
        data: 0,
    }
}

// SAFETY: see above.
unsafe extern "C" fn read_error(queue: *mut fid_cq, into: *mut fi_cq_err_entry, _flags: u64) -> isize {
    // SAFETY: see above.
    unsafe {
        let queue = number(queue);
        let Some(entry) = network(|network| network.next(queue, true)) else { return -(FI_EAGAIN as isize) };
        (*into).op_context = without_provenance_mut(entry.context);
        (*into).flags = entry.flags;
        (*into).err = entry.error;
        (*into).prov_errno = 4711;
    }
    1
}

// SAFETY: see above.
unsafe extern "C" fn explain(
    _queue: *mut fid_cq,
    _code: c_int,
    _data: *const c_void,
    _text: *mut c_char,
    _bytes: usize,
) -> *const c_char {
    c"the cable was cut by a digger".as_ptr()
}
