use super::*;
use crate::bodies::error_handlers::{mpi_errhandler_free, mpi_session_create_errhandler};
use crate::bodies::groups::{mpi_group_free, mpi_group_size};
use crate::bodies::info::{mpi_info_create, mpi_info_free, mpi_info_set};
use crate::bodies::testing;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};

fn open() -> MPI_Session {
    open_with(MPI_INFO_NULL)
}

fn open_with(info: MPI_Info) -> MPI_Session {
    let mut session = MPI_SESSION_NULL;
    // SAFETY: handles, and a writable place.
    assert_eq!(unsafe { mpi_session_init(info, MPI_ERRORS_RETURN, &raw mut session) }, MPI_SUCCESS);
    assert_ne!(session, MPI_SESSION_NULL);
    session
}

fn close(mut session: MPI_Session) -> c_int {
    // SAFETY: a writable place.
    let code = unsafe { mpi_session_finalize(&raw mut session) };
    assert!(code != MPI_SUCCESS || session == MPI_SESSION_NULL);
    code
}

fn told(ask: impl FnOnce(*mut MPI_Info) -> c_int) -> Pairs {
    let mut info = MPI_INFO_NULL;
    assert_eq!(ask(&raw mut info), MPI_SUCCESS);
    let pairs = info::pairs(info).unwrap();
    // SAFETY: a writable place.
    assert_eq!(unsafe { mpi_info_free(&raw mut info) }, MPI_SUCCESS);
    pairs
}

fn name(session: MPI_Session, n: c_int, room: usize) -> (String, c_int) {
    let mut text = vec![b'?' as c_char; room + 1];
    let mut length = room as c_int;
    // SAFETY: there are as many bytes as are said to be.
    let code =
        unsafe { mpi_session_get_nth_pset(session, MPI_INFO_NULL, n, &raw mut length, text.as_mut_ptr()) };
    assert_eq!(code, MPI_SUCCESS);
    assert_eq!(text[room], b'?' as c_char, "no byte beyond the room is written");
    let text = text[..room].iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect();
    (text, length)
}

fn group(session: MPI_Session, set: &CStr) -> MPI_Group {
    let mut group = MPI_GROUP_EMPTY;
    // SAFETY: a string of C, and a writable place.
    let code = unsafe { mpi_group_from_session_pset(session, set.as_ptr(), &raw mut group) };
    assert_eq!(code, MPI_SUCCESS);
    group
}

#[test]
fn sessions_come_and_go_many_times_and_several_at_once() {
    testing::start();
    let first = open();
    for _ in 0..100 {
        let (second, third) = (open(), open());
        assert_ne!(second, third);
        assert_eq!(close(second), MPI_SUCCESS);
        assert_eq!(close(second), MPI_ERR_SESSION, "it is closed");
        assert_eq!(close(third), MPI_SUCCESS);
    }
    assert_eq!(close(first), MPI_SUCCESS);
    assert_eq!(close(MPI_SESSION_NULL), MPI_ERR_SESSION);
}

#[test]
fn sessions_of_several_threads_do_not_meet() {
    testing::start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let session = open();
                    // SAFETY: a writable place.
                    told(|place| unsafe { mpi_session_get_info(session, place) });
                    assert_eq!(close(session), MPI_SUCCESS);
                }
            });
        }
    });
}

#[test]
fn process_sets_have_names_sizes_and_groups() {
    testing::start();
    let session = open();
    let mut count = -1;
    // SAFETY: a handle, and a writable place.
    let code = unsafe { mpi_session_get_num_psets(session, MPI_INFO_NULL, &raw mut count) };
    assert_eq!((code, count), (MPI_SUCCESS, 3));
    let names = [0, 1, 2].map(|n| name(session, n, 40).0);
    assert_eq!(names, ["mpi://WORLD", "mpi://SELF", "mpi://SHARED"]);
    assert_eq!(name(session, 0, 0).1, 12, "the bytes that it takes");
    assert_eq!(name(session, 0, 4), ("mpi".to_owned(), 12));
    for set in [c"mpi://WORLD", c"mpi://SELF", c"mpi://SHARED"] {
        // SAFETY: a string of C, and a writable place.
        let pairs = told(|info| unsafe { mpi_session_get_pset_info(session, set.as_ptr(), info) });
        assert_eq!(pairs.value("mpi_size"), Some(&b"1"[..]));
        let (mut group, mut size) = (group(session, set), -1);
        // SAFETY: handles, and writable places.
        unsafe {
            assert_eq!(mpi_group_size(group, &raw mut size), MPI_SUCCESS);
            assert_eq!(mpi_group_free(&raw mut group), MPI_SUCCESS);
        }
        assert_eq!(size, 1);
    }
    let mut none = MPI_GROUP_EMPTY;
    // SAFETY: a string of C, and a writable place.
    let code = unsafe { mpi_group_from_session_pset(session, c"mpi://MOON".as_ptr(), &raw mut none) };
    assert_eq!((code, none), (MPI_ERR_ARG, MPI_GROUP_NULL));
    assert_eq!(close(session), MPI_SUCCESS);
}

#[test]
fn wrong_arguments_of_sessions_are_errors_of_the_session() {
    testing::start();
    let session = open();
    let (mut number, mut length, mut text) = (0, 8, [0 as c_char; 8]);
    let (place, mut group) = (text.as_mut_ptr(), MPI_GROUP_NULL);
    let (nothing, info) = (null_mut(), MPI_INFO_NULL);
    // SAFETY: handles, strings of C, null pointers and writable places.
    unsafe {
        assert_eq!(mpi_session_init(info, MPI_ERRORS_RETURN, null_mut()), MPI_ERR_ARG);
        let mut new = MPI_SESSION_NULL;
        assert_eq!(mpi_session_init(info, MPI_ERRHANDLER_NULL, &raw mut new), MPI_ERR_ERRHANDLER);
        let stranger = MPI_Info::from_value(0x7000);
        assert_eq!(mpi_session_init(stranger, MPI_ERRORS_RETURN, &raw mut new), MPI_ERR_INFO);
        assert_eq!(new, MPI_SESSION_NULL);
        assert_eq!(mpi_session_get_num_psets(session, info, nothing), MPI_ERR_ARG);
        assert_eq!(mpi_session_get_num_psets(session, stranger, &raw mut number), MPI_ERR_INFO);
        for n in [-1, 3] {
            assert_eq!(mpi_session_get_nth_pset(session, info, n, &raw mut length, place), MPI_ERR_ARG);
        }
        assert_eq!(mpi_session_get_nth_pset(session, info, 0, nothing, place), MPI_ERR_ARG);
        assert_eq!(mpi_session_get_nth_pset(session, info, 0, &raw mut length, null_mut()), MPI_ERR_ARG);
        length = -1;
        assert_eq!(mpi_session_get_nth_pset(session, info, 0, &raw mut length, place), MPI_ERR_ARG);
        assert_eq!(mpi_session_get_info(session, null_mut()), MPI_ERR_ARG);
        let mut told = MPI_INFO_NULL;
        assert_eq!(mpi_session_get_pset_info(session, c"moon".as_ptr(), &raw mut told), MPI_ERR_ARG);
        assert_eq!(mpi_session_get_pset_info(session, null(), &raw mut told), MPI_ERR_ARG);
        assert_eq!(mpi_group_from_session_pset(session, null(), &raw mut group), MPI_ERR_ARG);
        assert_eq!(mpi_group_from_session_pset(session, c"mpi://SELF".as_ptr(), null_mut()), MPI_ERR_ARG);
        let null_session = MPI_SESSION_NULL;
        assert_eq!(
            mpi_group_from_session_pset(null_session, c"mpi://SELF".as_ptr(), &raw mut group),
            MPI_ERR_SESSION
        );
        assert_eq!(mpi_session_call_errhandler(null_session, 1), MPI_ERR_SESSION);
        assert_eq!(mpi_session_finalize(null_mut()), MPI_ERR_ARG);
    }
    assert_eq!((group, close(session)), (MPI_GROUP_NULL, MPI_SUCCESS));
}

#[test]
fn a_session_tells_what_it_provides() {
    testing::start();
    let mut info = MPI_INFO_NULL;
    // SAFETY: strings of C, and a writable place.
    unsafe {
        assert_eq!(mpi_info_create(&raw mut info), MPI_SUCCESS);
        let asked = c"cuda:device, mpi:alloc_mem,system";
        let code = mpi_info_set(info, c"mpi_memory_alloc_kinds".as_ptr(), asked.as_ptr());
        assert_eq!(code, MPI_SUCCESS);
    }
    let session = open_with(info);
    // SAFETY: a writable place.
    let pairs = told(|place| unsafe { mpi_session_get_info(session, place) });
    assert_eq!(pairs.value("thread_level"), Some(&b"MPI_THREAD_MULTIPLE"[..]));
    assert_eq!(pairs.value("mpi_memory_alloc_kinds"), Some(&b"mpi,mpi:alloc_mem,system"[..]));
    // SAFETY: a writable place.
    assert_eq!(unsafe { mpi_info_free(&raw mut info) }, MPI_SUCCESS);
    assert_eq!(close(session), MPI_SUCCESS);
}

static LATEST: AtomicI32 = AtomicI32::new(0);

fn noting() -> MPI_Session_errhandler_function {
    /// # Safety
    /// The library hands over a valid code.
    unsafe extern "C-unwind" fn note(_session: *mut MPI_Session, code: *mut c_int) {
        // SAFETY: the library hands over a valid code.
        LATEST.store(unsafe { code.read() }, Ordering::SeqCst);
    }
    type Fixed = unsafe extern "C-unwind" fn(*mut MPI_Session, *mut c_int);
    type Variadic = unsafe extern "C-unwind" fn(*mut MPI_Session, *mut c_int, ...);
    // SAFETY: the library passes no more than the two fixed arguments, which both conventions pass alike.
    MPI_Session_errhandler_function::from_function(unsafe { std::mem::transmute::<Fixed, Variadic>(note) })
}

#[test]
fn errors_of_a_session_go_to_its_handler() {
    testing::start();
    let (mut mine, mut found, mut session) = (MPI_ERRHANDLER_NULL, MPI_ERRHANDLER_NULL, MPI_SESSION_NULL);
    // SAFETY: a function of that type, handles, and writable places.
    unsafe {
        assert_eq!(mpi_session_create_errhandler(noting(), &raw mut mine), MPI_SUCCESS);
        assert_eq!(mpi_session_init(MPI_INFO_NULL, mine, &raw mut session), MPI_SUCCESS);
        assert_eq!(mpi_session_get_info(session, null_mut()), MPI_ERR_ARG);
        assert_eq!(LATEST.load(Ordering::SeqCst), MPI_ERR_ARG);
        assert_eq!(mpi_session_call_errhandler(session, 4711), MPI_SUCCESS);
        assert_eq!(LATEST.load(Ordering::SeqCst), 4711);
        assert_eq!(mpi_session_get_errhandler(session, &raw mut found), MPI_SUCCESS);
        assert_eq!(found, mine);
        assert_eq!(mpi_session_set_errhandler(session, MPI_ERRORS_RETURN), MPI_SUCCESS);
        assert_eq!(mpi_session_call_errhandler(session, 42), MPI_SUCCESS);
        assert_eq!(LATEST.load(Ordering::SeqCst), 4711, "that was the other handler's");
        assert_eq!(mpi_session_set_errhandler(session, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
        assert_eq!(mpi_errhandler_free(&raw mut found), MPI_SUCCESS);
        assert_eq!(mpi_errhandler_free(&raw mut mine), MPI_SUCCESS);
    }
    assert_eq!(close(session), MPI_SUCCESS);
}

#[test]
fn a_session_has_a_buffer_of_its_own() {
    testing::start();
    let session = open();
    let mut room = [0u8; 64];
    let (mut address, mut bytes, mut request) = (null_mut::<c_void>(), -1, MPI_REQUEST_NULL);
    let out: *mut c_void = (&raw mut address).cast();
    // SAFETY: handles, and writable places.
    unsafe {
        let size = crate::convert::CountOut::Count(&raw mut bytes);
        assert_eq!(
            crate::bodies::buffered::mpi_session_detach_buffer(session, out, size),
            MPI_ERR_BUFFER,
            "none is attached"
        );
        let attach = crate::bodies::buffered::mpi_session_attach_buffer;
        assert_eq!(attach(session, room.as_mut_ptr().cast(), 64), MPI_SUCCESS);
        assert_eq!(attach(session, room.as_mut_ptr().cast(), 64), MPI_ERR_BUFFER);
        assert_eq!(crate::bodies::buffered::mpi_session_flush_buffer(session), MPI_SUCCESS);
        assert_eq!(
            crate::bodies::buffered::mpi_session_iflush_buffer(session, &raw mut request),
            MPI_SUCCESS
        );
        assert_eq!(crate::bodies::completion::mpi_wait(&raw mut request, null_mut()), MPI_SUCCESS);
        assert_eq!(crate::bodies::buffered::mpi_session_detach_buffer(session, out, size), MPI_SUCCESS);
    }
    assert_eq!((address, bytes), (room.as_mut_ptr().cast(), 64));
    assert_eq!(close(session), MPI_SUCCESS);
}
