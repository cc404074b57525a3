//! The end of a process: by exit, by abort, with output flushed.

use std::ffi::{CStr, c_int, c_void};
use std::time::Duration;

/// An exit status whose low 8 bits, which is all that is left of it, are no success where it is none.
pub(super) fn failing(status: c_int) -> c_int {
    if status != 0 && status & 0xff == 0 { 1 } else { status }
}

/// Ends this process at once. What it has written before is not lost; handlers that the program has
/// registered for its exit, and destructors of its objects, are not called: they would meet MPI in the middle
/// of its end, and hide the first error by a second.
pub(crate) fn exit(status: c_int) -> ! {
    exit_after(failing(status), || {})
}

/// Ends this process with that status, after others are told. They are told when what it has written is out,
/// since the launcher ends this process as soon as it knows.
pub(super) fn exit_after(status: c_int, tell: impl FnOnce()) -> ! {
    // A stream that another thread waits in, as for input, is locked, and would never be flushed.
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(FLUSH_PATIENCE);
        // SAFETY: it takes any number.
        unsafe { libc::_exit(status) }
    });
    // SAFETY: a null stream stands for all.
    unsafe {
        flush_other_languages();
        libc::fflush(std::ptr::null_mut());
    }
    tell();
    // SAFETY: it takes any number.
    unsafe { libc::_exit(status) }
}

/// Writes what Fortran's units and C++'s `std::cout` still hold, where the program has brought the libraries
/// of GCC for them; they do so themselves in a handler of exit.
///
/// # Safety
/// Symbols of these names are those of these libraries.
unsafe fn flush_other_languages() {
    // SAFETY: the names are texts of C; the types of what they name have not changed since the libraries have
    // had these versions.
    unsafe {
        let find = |name: &CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        let (flush, cout) = (find(c"_ZNSo5flushEv"), find(c"_ZSt4cout"));
        if !flush.is_null() && !cout.is_null() {
            let flush: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void = std::mem::transmute(flush);
            flush(cout);
        }
        let flush = find(c"_gfortran_flush_i4");
        if !flush.is_null() {
            let flush: unsafe extern "C-unwind" fn(*const c_int) = std::mem::transmute(flush);
            flush(std::ptr::null());
        }
    }
}

/// How long a process that ends waits for its streams to be written.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);
