//! Calls each function of `inline.rs` and its original with the same arguments, and compares which operation
//! each has called with what.
//!
//! The object they get is no provider's: all of its tables hold functions that write down their arguments.
//! What C hands over comes in registers and on the stack as the operation's own type says, so each recorder
//! has that type.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::path::Path;
use std::ptr::{null_mut, without_provenance_mut as number};

use libfabric_sys::bindings::*;
use libfabric_sys::inline;

thread_local! {
    /// The operation that was called last, and its arguments.
    static CALLED: RefCell<(&'static str, Vec<u64>)> = const { RefCell::new(("", Vec::new())) };
}

/// Compares all of them with those in `library`.
pub fn compare(library: &Path) {
    let originals = Originals::load(library);
    let object = Recorder::new();
    macro_rules! same {
        ($name:ident($($argument:expr),*) -> $type:ty) => {{
            // SAFETY: the recorder has every table that any of these looks into, and its operations take all
            // arguments.
            let ours = unsafe { inline::$name($($argument),*) };
            let ours = (ours as u64, CALLED.take());
            // SAFETY: bindgen made this function of the header's; it takes and answers what the original
            // does.
            let theirs = unsafe {
                let original: $type = originals.get(concat!(stringify!($name), "__extern\0"));
                original($($argument),*)
            };
            assert_eq!(ours, (theirs as u64, CALLED.take()), stringify!($name));
        }};
    }
    type Opening<P, A, O> = unsafe extern "C" fn(*mut P, *mut A, *mut *mut O, *mut c_void) -> c_int;
    let (fid, p) = (object.fid(), number::<c_void>);
    same!(fi_close(fid) -> unsafe extern "C" fn(*mut fid) -> c_int);
    same!(fi_domain(fid.cast(), number(1), number(2), p(3)) -> Opening<fid_fabric, fi_info, fid_domain>);
    let domain = object.domain();
    same!(fi_endpoint(domain, number(1), number(2), p(3)) -> Opening<fid_domain, fi_info, fid_ep>);
    same!(fi_av_open(domain, number(1), number(2), p(3)) -> Opening<fid_domain, fi_av_attr, fid_av>);
    same!(fi_cq_open(domain, number(1), number(2), p(3)) -> Opening<fid_domain, fi_cq_attr, fid_cq>);
    same!(fi_mr_reg(domain, p(1), 2, 3, 4, 5, 6, number(7), p(8)) -> unsafe extern "C" fn(
        *mut fid_domain, *const c_void, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void) -> c_int);
    let ep = object.ep();
    same!(fi_ep_bind(ep, number(1), 2) -> unsafe extern "C" fn(*mut fid_ep, *mut fid, u64) -> c_int);
    same!(fi_enable(ep) -> unsafe extern "C" fn(*mut fid_ep) -> c_int);
    same!(fi_setopt(ep.cast(), 1, 2, p(3), 4) -> unsafe extern "C" fn(
        *mut fid, c_int, c_int, *const c_void, usize) -> c_int);
    same!(fi_getname(ep.cast(), p(1), number(2)) -> unsafe extern "C" fn(
        *mut fid, *mut c_void, *mut usize) -> c_int);
    same!(fi_send(ep, p(1), 2, p(3), 4, p(5)) -> unsafe extern "C" fn(
        *mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize);
    same!(fi_inject(ep, p(1), 2, 3) -> unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize);
    same!(fi_recvmsg(ep, number(1), 2) -> unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize);
    same!(fi_read(ep, p(1), 2, p(3), 4, 5, 6, p(7)) -> unsafe extern "C" fn(
        *mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize);
    same!(fi_write(ep, p(1), 2, p(3), 4, 5, 6, p(7)) -> unsafe extern "C" fn(
        *mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize);
    same!(fi_writemsg(ep, number(1), 2) -> unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize);
    same!(fi_atomic(ep, p(1), 2, p(3), 4, 5, 6, 7, 8, p(9)) -> unsafe extern "C" fn(
        *mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize);
    same!(fi_atomicmsg(ep, number(1), 2) -> unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, u64) -> isize);
    same!(fi_fetch_atomic(ep, p(1), 2, p(3), p(4), p(5), 6, 7, 8, 9, 10, p(11)) -> unsafe extern "C" fn(
        *mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t, u64, u64,
        fi_datatype, fi_op, *mut c_void) -> isize);
    same!(fi_compare_atomic(ep, p(1), 2, p(3), p(4), p(5), p(6), p(7), 8, 9, 10, 11, 12, p(13)) ->
        unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, *mut c_void, *const c_void, *mut c_void, *mut c_void, *mut c_void,
            fi_addr_t, u64, u64, fi_datatype, fi_op, *mut c_void) -> isize);
    type Valid = unsafe extern "C" fn(*mut fid_ep, fi_datatype, fi_op, *mut usize) -> c_int;
    same!(fi_atomicvalid(ep, 1, 2, number(3)) -> Valid);
    same!(fi_fetch_atomicvalid(ep, 1, 2, number(3)) -> Valid);
    same!(fi_compare_atomicvalid(ep, 1, 2, number(3)) -> Valid);
    let (av, cq, mr) = (object.av(), object.cq(), object.mr());
    same!(fi_av_insert(av, p(1), 2, number(3), 4, p(5)) -> unsafe extern "C" fn(
        *mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int);
    same!(fi_cq_read(cq, p(1), 2) -> unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize);
    same!(fi_cq_readerr(cq, number(1), 2) -> unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize);
    same!(fi_cq_strerror(cq, 1, p(2), number(3), 4) -> unsafe extern "C" fn(
        *mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char);
    same!(fi_mr_bind(mr, number(1), 2) -> unsafe extern "C" fn(*mut fid_mr, *mut fid, u64) -> c_int);
    same!(fi_mr_enable(mr) -> unsafe extern "C" fn(*mut fid_mr) -> c_int);
    same!(fi_mr_desc(mr) -> unsafe extern "C" fn(*mut fid_mr) -> *mut c_void);
    same!(fi_mr_key(mr) -> unsafe extern "C" fn(*mut fid_mr) -> u64);
}

/// The library that was compiled of the header's functions.
struct Originals(*mut c_void);

impl Originals {
    fn load(library: &Path) -> Originals {
        let path = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded", library.display());
        Originals(handle)
    }

    /// # Safety
    /// # Safety
    /// `F` is the type of a pointer to the function.
    unsafe fn get<F: Copy>(&self, name: &str) -> F {
        // SAFETY: `name` ends with a zero byte, and the handle is open.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr().cast()) };
        assert!(!address.is_null(), "there is no original of {name}");
        // SAFETY: the caller's promise; pointers to functions are as large as addresses.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

/// One object of every kind, with every table.
struct Recorder {
    ep: fid_ep,
    domain: fid_domain,
    fabric: fid_fabric,
    av: fid_av,
    cq: fid_cq,
    mr: fid_mr,
}

/// Writes down the name and the arguments, and answers 77.
macro_rules! recorder {
    ($name:literal: ($($argument:ident: $type:ty),*) -> $answer:ty) => {{
        // SAFETY: reads nothing but its arguments, and follows none of them.
        #[allow(clippy::cast_lossless)]
        unsafe extern "C" fn record($($argument: $type),*) -> $answer {
            CALLED.set(($name, vec![$($argument as u64),*]));
            77 as $answer
        }
        Some(record as unsafe extern "C" fn($($type),*) -> $answer)
    }};
}

/// A table in which nothing is filled but what is named; never given back.
macro_rules! table {
    ($type:ty { $($field:ident: $recorder:expr),* $(,)? }) => {{
        // SAFETY: all bytes zero are a table with no operations.
        let mut table: $type = unsafe { std::mem::zeroed() };
        table.size = size_of::<$type>();
        $(table.$field = $recorder;)*
        Box::leak(Box::new(table)) as *mut $type
    }};
}

impl Recorder {
    fn new() -> Box<Recorder> {
        // SAFETY: all bytes zero are objects with no tables.
        let mut all: Box<Recorder> = Box::new(unsafe { std::mem::zeroed() });
        let ops = table!(fi_ops {
            close: recorder!("close": (a: *mut fid) -> c_int),
            bind: recorder!("bind": (a: *mut fid, b: *mut fid, c: u64) -> c_int),
            control: recorder!("control": (a: *mut fid, b: c_int, c: *mut c_void) -> c_int),
        });
        for object in [&mut all.ep.fid, &mut all.domain.fid, &mut all.fabric.fid, &mut all.mr.fid] {
            object.ops = ops;
        }
        all.mr.mem_desc = number(5);
        all.mr.key = 6;
        all.fill_domain();
        all.fill_endpoint();
        all.fill_queues();
        all
    }

    fn fill_domain(&mut self) {
        self.fabric.ops = table!(fi_ops_fabric {
            domain: recorder!("domain":
                (a: *mut fid_fabric, b: *mut fi_info, c: *mut *mut fid_domain, d: *mut c_void) -> c_int),
        });
        self.domain.ops = table!(fi_ops_domain {
            av_open: recorder!("av_open":
                (a: *mut fid_domain, b: *mut fi_av_attr, c: *mut *mut fid_av, d: *mut c_void) -> c_int),
            cq_open: recorder!("cq_open":
                (a: *mut fid_domain, b: *mut fi_cq_attr, c: *mut *mut fid_cq, d: *mut c_void) -> c_int),
            endpoint: recorder!("endpoint":
                (a: *mut fid_domain, b: *mut fi_info, c: *mut *mut fid_ep, d: *mut c_void) -> c_int),
        });
        self.domain.mr = table!(fi_ops_mr {
            reg: recorder!("reg": (a: *mut fid, b: *const c_void, c: usize, d: u64, e: u64, f: u64, g: u64,
                                   h: *mut *mut fid_mr, i: *mut c_void) -> c_int),
        });
    }

    fn fill_endpoint(&mut self) {
        self.ep.ops = table!(fi_ops_ep {
            setopt: recorder!("setopt": (a: *mut fid, b: c_int, c: c_int, d: *const c_void, e: usize) -> c_int),
        });
        self.ep.cm = table!(fi_ops_cm {
            getname: recorder!("getname": (a: *mut fid, b: *mut c_void, c: *mut usize) -> c_int),
        });
        self.ep.msg = table!(fi_ops_msg {
            send: recorder!("send": (a: *mut fid_ep, b: *const c_void, c: usize, d: *mut c_void, e: u64,
                                     f: *mut c_void) -> isize),
            inject: recorder!("inject": (a: *mut fid_ep, b: *const c_void, c: usize, d: u64) -> isize),
            recvmsg: recorder!("recvmsg": (a: *mut fid_ep, b: *const fi_msg, c: u64) -> isize),
        });
        self.ep.rma = table!(fi_ops_rma {
            read: recorder!("read": (a: *mut fid_ep, b: *mut c_void, c: usize, d: *mut c_void, e: u64, f: u64,
                                     g: u64, h: *mut c_void) -> isize),
            write: recorder!("write": (a: *mut fid_ep, b: *const c_void, c: usize, d: *mut c_void, e: u64, f: u64,
                                       g: u64, h: *mut c_void) -> isize),
            writemsg: recorder!("writemsg": (a: *mut fid_ep, b: *const fi_msg_rma, c: u64) -> isize),
        });
        self.ep.atomic = table!(fi_ops_atomic {
            write: recorder!("atomic write":
                (a: *mut fid_ep, b: *const c_void, c: usize, d: *mut c_void, e: u64, f: u64, g: u64,
                 h: fi_datatype, i: fi_op, j: *mut c_void) -> isize),
            writemsg: recorder!("atomic writemsg": (a: *mut fid_ep, b: *const fi_msg_atomic, c: u64) -> isize),
            readwrite: recorder!("readwrite":
                (a: *mut fid_ep, b: *const c_void, c: usize, d: *mut c_void, e: *mut c_void, f: *mut c_void,
                 g: u64, h: u64, i: u64, j: fi_datatype, k: fi_op, l: *mut c_void) -> isize),
            compwrite: recorder!("compwrite":
                (a: *mut fid_ep, b: *const c_void, c: usize, d: *mut c_void, e: *const c_void, f: *mut c_void,
                 g: *mut c_void, h: *mut c_void, i: u64, j: u64, k: u64, l: fi_datatype, m: fi_op,
                 n: *mut c_void) -> isize),
            writevalid: recorder!("writevalid":
                (a: *mut fid_ep, b: fi_datatype, c: fi_op, d: *mut usize) -> c_int),
            readwritevalid: recorder!("readwritevalid":
                (a: *mut fid_ep, b: fi_datatype, c: fi_op, d: *mut usize) -> c_int),
            compwritevalid: recorder!("compwritevalid":
                (a: *mut fid_ep, b: fi_datatype, c: fi_op, d: *mut usize) -> c_int),
        });
    }

    fn fill_queues(&mut self) {
        self.av.ops = table!(fi_ops_av {
            insert: recorder!("insert": (a: *mut fid_av, b: *const c_void, c: usize, d: *mut u64, e: u64,
                                         f: *mut c_void) -> c_int),
        });
        self.cq.ops = table!(fi_ops_cq {
            read: recorder!("read": (a: *mut fid_cq, b: *mut c_void, c: usize) -> isize),
            readerr: recorder!("readerr": (a: *mut fid_cq, b: *mut fi_cq_err_entry, c: u64) -> isize),
            strerror: recorder!("strerror": (a: *mut fid_cq, b: c_int, c: *const c_void, d: *mut c_char,
                                             e: usize) -> *const c_char),
        });
    }

    fn fid(&self) -> *mut fid {
        (&raw const self.fabric).cast_mut().cast()
    }
    fn domain(&self) -> *mut fid_domain {
        (&raw const self.domain).cast_mut()
    }
    fn ep(&self) -> *mut fid_ep {
        (&raw const self.ep).cast_mut()
    }
    fn av(&self) -> *mut fid_av {
        (&raw const self.av).cast_mut()
    }
    fn cq(&self) -> *mut fid_cq {
        (&raw const self.cq).cast_mut()
    }
    fn mr(&self) -> *mut fid_mr {
        (&raw const self.mr).cast_mut()
    }
}

#[test]
fn a_table_without_the_operation_answers_so() {
    let mut object = Recorder::new();
    object.ep.msg = table!(fi_ops_msg {});
    // SAFETY: the object has the table, which is empty.
    assert_eq!(unsafe { inline::fi_send(object.ep(), null_mut(), 0, null_mut(), 0, null_mut()) }, -38);
}

/// What the functions answer that not every provider has.
fn answers(object: &Recorder) -> [isize; 9] {
    let (ep, p, mut count) = (object.ep(), null_mut(), 0);
    // SAFETY: the recorder's operations follow none of their arguments.
    unsafe {
        [
            inline::fi_write(ep, p, 0, p, 0, 0, 0, p),
            inline::fi_writemsg(ep, null_mut(), 0),
            inline::fi_atomic(ep, p, 0, p, 0, 0, 0, 0, 0, p),
            inline::fi_atomicmsg(ep, null_mut(), 0),
            inline::fi_fetch_atomic(ep, p, 0, p, p, p, 0, 0, 0, 0, 0, p),
            inline::fi_compare_atomic(ep, p, 0, p, p, p, p, p, 0, 0, 0, 0, 0, p),
            inline::fi_atomicvalid(ep, 0, 0, &mut count) as isize,
            inline::fi_fetch_atomicvalid(ep, 0, 0, &mut count) as isize,
            inline::fi_compare_atomicvalid(ep, 0, 0, &mut count) as isize,
        ]
    }
}

#[test]
fn a_table_that_ends_before_the_operation_is_not_called() {
    let mut object = Recorder::new();
    assert_eq!(answers(&object), [77; 9], "whole tables");
    // SAFETY: the recorder's tables live as long as the program, and nobody else has them.
    let (rma, atomic) = unsafe { (&mut *object.ep.rma, &mut *object.ep.atomic) };
    // The last operation that each table still has.
    rma.size = offset_of!(fi_ops_rma, writemsg);
    atomic.size = offset_of!(fi_ops_atomic, readwritevalid);
    assert_eq!(answers(&object), [77, -38, 77, 77, 77, 77, 77, -38, -38]);
    rma.size = offset_of!(fi_ops_rma, write);
    atomic.size = size_of::<usize>();
    assert_eq!(answers(&object), [-38; 9]);
    (object.ep.rma, object.ep.atomic) = (null_mut(), null_mut());
    assert_eq!(answers(&object), [-38; 9], "no tables");
}
