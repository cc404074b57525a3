use super::*;
use crate::bodies::error_handlers::{mpi_errhandler_free, mpi_session_create_errhandler};
use crate::bodies::groups::{mpi_group_free, mpi_group_size};
use crate::bodies::info::{mpi_info_create, mpi_info_free, mpi_info_set};
use crate::bodies::testing;
use crate::claims::{Callback, StatusPlace};
use std::ffi::c_char;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

fn open() -> MPI_Session {
    open_with(MPI_INFO_NULL)
}

fn open_with(info: MPI_Info) -> MPI_Session {
    let mut session = MPI_SESSION_NULL;
    assert_eq!(mpi_session_init(info, MPI_ERRORS_RETURN, Place::of(&mut session)), MPI_SUCCESS);
    assert_ne!(session, MPI_SESSION_NULL);
    session
}

fn close(mut session: MPI_Session) -> c_int {
    let code = mpi_session_finalize(Variable::of(&mut session));
    assert!(code != MPI_SUCCESS || session == MPI_SESSION_NULL);
    code
}

fn told(ask: impl FnOnce(Place<'_, MPI_Info>) -> c_int) -> Pairs {
    let mut info = MPI_INFO_NULL;
    assert_eq!(ask(Place::of(&mut info)), MPI_SUCCESS);
    let pairs = info::pairs(info).unwrap();
    assert_eq!(mpi_info_free(Variable::of(&mut info)), MPI_SUCCESS);
    pairs
}

fn name(session: MPI_Session, n: c_int, room: usize) -> (String, c_int) {
    let mut text = vec![b'?' as c_char; room + 1];
    let mut length = room as c_int;
    let code = mpi_session_get_nth_pset(
        session,
        MPI_INFO_NULL,
        n,
        Variable::of(&mut length),
        TextPlace::of(&mut text),
    );
    assert_eq!(code, MPI_SUCCESS);
    assert_eq!(text[room], b'?' as c_char, "no byte beyond the room is written");
    let text = text[..room].iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect();
    (text, length)
}

fn group(session: MPI_Session, set: &CStr) -> MPI_Group {
    let mut group = MPI_GROUP_EMPTY;
    let code = mpi_group_from_session_pset(session, Text::of(set), Place::of(&mut group));
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
                    told(|place| mpi_session_get_info(session, place));
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
    let code = mpi_session_get_num_psets(session, MPI_INFO_NULL, Place::of(&mut count));
    assert_eq!((code, count), (MPI_SUCCESS, 3));
    let names = [0, 1, 2].map(|n| name(session, n, 40).0);
    assert_eq!(names, ["mpi://WORLD", "mpi://SELF", "mpi://SHARED"]);
    assert_eq!(name(session, 0, 0).1, 12, "the bytes that it takes");
    assert_eq!(name(session, 0, 4), ("mpi".to_owned(), 12));
    for set in [c"mpi://WORLD", c"mpi://SELF", c"mpi://SHARED"] {
        let pairs = told(|info| mpi_session_get_pset_info(session, Text::of(set), info));
        assert_eq!(pairs.value("mpi_size"), Some(&b"1"[..]));
        let (mut group, mut size) = (group(session, set), -1);
        assert_eq!(mpi_group_size(group, Place::of(&mut size)), MPI_SUCCESS);
        assert_eq!(mpi_group_free(Variable::of(&mut group)), MPI_SUCCESS);
        assert_eq!(size, 1);
    }
    let mut none = MPI_GROUP_EMPTY;
    let code = mpi_group_from_session_pset(session, Text::of(c"mpi://MOON"), Place::of(&mut none));
    assert_eq!((code, none), (MPI_ERR_ARG, MPI_GROUP_NULL));
    assert_eq!(close(session), MPI_SUCCESS);
}

#[test]
fn wrong_arguments_of_sessions_are_errors_of_the_session() {
    testing::start();
    let session = open();
    let (mut number, mut length, mut text) = (0, 8, [0 as c_char; 8]);
    let (place, mut group) = (TextPlace::of(&mut text), MPI_GROUP_NULL);
    let info = MPI_INFO_NULL;
    assert_eq!(mpi_session_init(info, MPI_ERRORS_RETURN, Place::NULL), MPI_ERR_ARG);
    let mut new = MPI_SESSION_NULL;
    assert_eq!(mpi_session_init(info, MPI_ERRHANDLER_NULL, Place::of(&mut new)), MPI_ERR_ERRHANDLER);
    let stranger = MPI_Info::from_value(0x7000);
    assert_eq!(mpi_session_init(stranger, MPI_ERRORS_RETURN, Place::of(&mut new)), MPI_ERR_INFO);
    assert_eq!(new, MPI_SESSION_NULL);
    assert_eq!(mpi_session_get_num_psets(session, info, Place::NULL), MPI_ERR_ARG);
    assert_eq!(mpi_session_get_num_psets(session, stranger, Place::of(&mut number)), MPI_ERR_INFO);
    for n in [-1, 3] {
        assert_eq!(mpi_session_get_nth_pset(session, info, n, Variable::of(&mut length), place), MPI_ERR_ARG);
    }
    assert_eq!(mpi_session_get_nth_pset(session, info, 0, Variable::NULL, place), MPI_ERR_ARG);
    assert_eq!(
        mpi_session_get_nth_pset(session, info, 0, Variable::of(&mut length), TextPlace::NULL),
        MPI_ERR_ARG
    );
    length = -1;
    assert_eq!(mpi_session_get_nth_pset(session, info, 0, Variable::of(&mut length), place), MPI_ERR_ARG);
    assert_eq!(mpi_session_get_info(session, Place::NULL), MPI_ERR_ARG);
    let mut told = MPI_INFO_NULL;
    assert_eq!(mpi_session_get_pset_info(session, Text::of(c"moon"), Place::of(&mut told)), MPI_ERR_ARG);
    assert_eq!(mpi_session_get_pset_info(session, Text::NULL, Place::of(&mut told)), MPI_ERR_ARG);
    assert_eq!(mpi_group_from_session_pset(session, Text::NULL, Place::of(&mut group)), MPI_ERR_ARG);
    assert_eq!(mpi_group_from_session_pset(session, Text::of(c"mpi://SELF"), Place::NULL), MPI_ERR_ARG);
    let null_session = MPI_SESSION_NULL;
    assert_eq!(
        mpi_group_from_session_pset(null_session, Text::of(c"mpi://SELF"), Place::of(&mut group)),
        MPI_ERR_SESSION
    );
    assert_eq!(mpi_session_call_errhandler(null_session, 1), MPI_ERR_SESSION);
    assert_eq!(mpi_session_finalize(Variable::NULL), MPI_ERR_ARG);
    assert_eq!((group, close(session)), (MPI_GROUP_NULL, MPI_SUCCESS));
}

#[test]
fn a_session_tells_what_it_provides() {
    testing::start();
    let mut info = MPI_INFO_NULL;
    assert_eq!(mpi_info_create(Place::of(&mut info)), MPI_SUCCESS);
    let asked = c"cuda:device, mpi:alloc_mem,system";
    let code = mpi_info_set(info, Text::of(c"mpi_memory_alloc_kinds"), Text::of(asked));
    assert_eq!(code, MPI_SUCCESS);
    let session = open_with(info);
    let pairs = told(|place| mpi_session_get_info(session, place));
    assert_eq!(pairs.value("thread_level"), Some(&b"MPI_THREAD_MULTIPLE"[..]));
    assert_eq!(pairs.value("mpi_memory_alloc_kinds"), Some(&b"mpi,mpi:alloc_mem,system"[..]));
    assert_eq!(mpi_info_free(Variable::of(&mut info)), MPI_SUCCESS);
    assert_eq!(close(session), MPI_SUCCESS);
}

static LATEST: AtomicI32 = AtomicI32::new(0);

fn noting() -> Callback<MPI_Session_errhandler_function> {
    /// # Safety
    /// The library hands over a valid code.
    unsafe extern "C-unwind" fn note(_session: *mut MPI_Session, code: *mut c_int) {
        // SAFETY: the library hands over a valid code.
        LATEST.store(unsafe { code.read() }, Ordering::SeqCst);
    }
    type Fixed = unsafe extern "C-unwind" fn(*mut MPI_Session, *mut c_int);
    type Variadic = unsafe extern "C-unwind" fn(*mut MPI_Session, *mut c_int, ...);
    // SAFETY: the library passes no more than the two fixed arguments, which both conventions pass alike.
    unsafe {
        let function = std::mem::transmute::<Fixed, Variadic>(note);
        Callback::claim(MPI_Session_errhandler_function::from_function(function))
    }
}

#[test]
fn errors_of_a_session_go_to_its_handler() {
    testing::start();
    let (mut mine, mut found, mut session) = (MPI_ERRHANDLER_NULL, MPI_ERRHANDLER_NULL, MPI_SESSION_NULL);
    assert_eq!(mpi_session_create_errhandler(noting(), Place::of(&mut mine)), MPI_SUCCESS);
    assert_eq!(mpi_session_init(MPI_INFO_NULL, mine, Place::of(&mut session)), MPI_SUCCESS);
    assert_eq!(mpi_session_get_info(session, Place::NULL), MPI_ERR_ARG);
    assert_eq!(LATEST.load(Ordering::SeqCst), MPI_ERR_ARG);
    assert_eq!(mpi_session_call_errhandler(session, 4711), MPI_SUCCESS);
    assert_eq!(LATEST.load(Ordering::SeqCst), 4711);
    assert_eq!(mpi_session_get_errhandler(session, Place::of(&mut found)), MPI_SUCCESS);
    assert_eq!(found, mine);
    assert_eq!(mpi_session_set_errhandler(session, MPI_ERRORS_RETURN), MPI_SUCCESS);
    assert_eq!(mpi_session_call_errhandler(session, 42), MPI_SUCCESS);
    assert_eq!(LATEST.load(Ordering::SeqCst), 4711, "that was the other handler's");
    assert_eq!(mpi_session_set_errhandler(session, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    assert_eq!(mpi_errhandler_free(Variable::of(&mut found)), MPI_SUCCESS);
    assert_eq!(mpi_errhandler_free(Variable::of(&mut mine)), MPI_SUCCESS);
    assert_eq!(close(session), MPI_SUCCESS);
}

#[test]
fn a_session_has_a_buffer_of_its_own() {
    testing::start();
    let session = open();
    let mut room = [0u8; 64];
    let (mut address, mut bytes, mut request) = (null_mut::<c_void>(), -1, MPI_REQUEST_NULL);
    let out = Place::of(&mut address);
    let size = crate::convert::CountOut::Count(Place::of(&mut bytes));
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
        crate::bodies::buffered::mpi_session_iflush_buffer(session, Place::of(&mut request)),
        MPI_SUCCESS
    );
    assert_eq!(
        crate::bodies::completion::mpi_wait(Variable::of(&mut request), StatusPlace::IGNORED),
        MPI_SUCCESS
    );
    assert_eq!(crate::bodies::buffered::mpi_session_detach_buffer(session, out, size), MPI_SUCCESS);
    assert_eq!((address, bytes), (room.as_mut_ptr().cast(), 64));
    assert_eq!(close(session), MPI_SUCCESS);
}
