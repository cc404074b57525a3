//! Tests of error handlers: made, attached, called and given back.

use super::*;
use crate::bodies::testing;
use std::sync::atomic::{AtomicI32, Ordering};

static LATEST: AtomicI32 = AtomicI32::new(0);

fn handler() -> Callback<MPI_Comm_errhandler_function> {
    /// # Safety
    /// The library hands over a valid code.
    unsafe extern "C-unwind" fn note(_comm: *mut MPI_Comm, code: *mut c_int) {
        // SAFETY: the library hands over a valid code.
        LATEST.store(unsafe { code.read() }, Ordering::SeqCst);
    }
    type Fixed = unsafe extern "C-unwind" fn(*mut MPI_Comm, *mut c_int);
    type Variadic = unsafe extern "C-unwind" fn(*mut MPI_Comm, *mut c_int, ...);
    // SAFETY: the library passes no more than the two fixed arguments, which both conventions pass alike.
    unsafe {
        let function = std::mem::transmute::<Fixed, Variadic>(note);
        Callback::claim(MPI_Comm_errhandler_function::from_function(function))
    }
}

fn new() -> MPI_Errhandler {
    let mut made = MPI_ERRHANDLER_NULL;
    assert_eq!(mpi_comm_create_errhandler(handler(), Place::of(&mut made)), MPI_SUCCESS);
    made
}

fn free(mut errhandler: MPI_Errhandler) -> c_int {
    let code = mpi_errhandler_free(Variable::of(&mut errhandler));
    assert!(code != MPI_SUCCESS || errhandler == MPI_ERRHANDLER_NULL);
    code
}

#[test]
fn handlers_are_attached_called_and_given_back() {
    testing::start();
    let mine = new();
    let mut found = MPI_ERRHANDLER_NULL;
    assert_eq!(mpi_comm_set_errhandler(MPI_COMM_SELF, mine), MPI_SUCCESS);
    assert_eq!(free(mine), MPI_SUCCESS);
    assert_eq!(mpi_comm_call_errhandler(MPI_COMM_SELF, 4711), MPI_SUCCESS);
    assert_eq!(LATEST.load(Ordering::SeqCst), 4711);
    assert_eq!(mpi_comm_get_errhandler(MPI_COMM_SELF, Place::NULL), MPI_ERR_ARG);
    assert_eq!(LATEST.load(Ordering::SeqCst), MPI_ERR_ARG, "our own errors go there too");
    assert_eq!(free(mine), MPI_ERR_ERRHANDLER, "the program gave it up");
    assert_eq!(mpi_comm_get_errhandler(MPI_COMM_SELF, Place::of(&mut found)), MPI_SUCCESS);
    assert_eq!(found, mine);
    assert_eq!(mpi_comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), MPI_SUCCESS);
    assert_eq!(free(found), MPI_SUCCESS);
    assert_eq!(free(found), MPI_ERR_ERRHANDLER);
    assert!(lock(&HANDLERS).find(mine.value()).is_none(), "nobody holds it any more");
}

#[test]
fn wrong_handlers_and_wrong_objects_are_told_apart() {
    testing::start();
    let mut of_windows = MPI_ERRHANDLER_NULL;
    // SAFETY: it is never called.
    let function = unsafe { Callback::claim(MPI_Win_errhandler_function::from_value(0x1000)) };
    assert_eq!(mpi_win_create_errhandler(function, Place::of(&mut of_windows)), MPI_SUCCESS);
    assert_eq!(mpi_comm_set_errhandler(MPI_COMM_WORLD, of_windows), MPI_ERR_ERRHANDLER);
    assert_eq!(mpi_comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    assert_eq!(mpi_comm_set_errhandler(MPI_COMM_NULL, MPI_ERRORS_RETURN), MPI_ERR_COMM);
    assert_eq!(mpi_comm_call_errhandler(MPI_COMM_NULL, 1), MPI_ERR_COMM);
    let none = Callback::predefined(MPI_Comm_errhandler_function::from_value(0));
    assert_eq!(mpi_comm_create_errhandler(none, Place::of(&mut of_windows)), MPI_ERR_ARG);
    assert_eq!(mpi_comm_create_errhandler(handler(), Place::NULL), MPI_ERR_ARG);
    assert_eq!(mpi_errhandler_free(Variable::NULL), MPI_ERR_ARG);
    assert_eq!(free(MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    assert_eq!(free(MPI_ERRORS_RETURN), MPI_SUCCESS);
    assert_eq!(free(of_windows), MPI_SUCCESS);
}

#[test]
fn new_files_have_a_handler_that_can_be_replaced() {
    testing::start();
    let (mut mine, mut found) = (MPI_ERRHANDLER_NULL, MPI_ERRHANDLER_NULL);
    // SAFETY: it is never called.
    let function = unsafe { Callback::claim(MPI_File_errhandler_function::from_value(0x1000)) };
    assert_eq!(mpi_file_get_errhandler(MPI_FILE_NULL, Place::of(&mut found)), MPI_SUCCESS);
    assert_eq!(found, MPI_ERRORS_RETURN);
    assert_eq!(mpi_file_create_errhandler(function, Place::of(&mut mine)), MPI_SUCCESS);
    assert_eq!(mpi_file_set_errhandler(MPI_FILE_NULL, mine), MPI_SUCCESS);
    assert_eq!(mpi_file_get_errhandler(MPI_FILE_NULL, Place::of(&mut found)), MPI_SUCCESS);
    assert_eq!(found, mine);
    assert_eq!(mpi_file_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN), MPI_SUCCESS);
    let stranger = MPI_File::from_value(0x5000);
    assert_eq!(mpi_file_set_errhandler(stranger, MPI_ERRORS_RETURN), MPI_ERR_FILE);
    assert_eq!(mpi_file_get_errhandler(stranger, Place::of(&mut found)), MPI_ERR_FILE);
    assert_eq!([free(mine), free(found)], [MPI_SUCCESS; 2]);
    assert!(lock(&HANDLERS).find(mine.value()).is_none());
}
