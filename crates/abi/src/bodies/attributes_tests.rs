//! Tests of attributes: every callback is counted, through the extra state of its key.

use super::*;
use crate::bodies::testing::{self, Answer};
use std::sync::atomic::Ordering;
use weft::Communicator;

/// What the callbacks of a key do and have done.
#[derive(Default)]
struct Log {
    copied: AtomicI32,
    deleted: Mutex<Vec<usize>>,
    refuses_to_copy: AtomicI32,
    refuses_to_delete: AtomicI32,
}

/// # Safety
/// As the library calls copy functions; the extra state is a [`Log`] that lives for ever.
unsafe extern "C-unwind" fn copy_one_more(
    _comm: MPI_Comm,
    _keyval: c_int,
    extra_state: *mut c_void,
    value_in: *mut c_void,
    value_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the extra state is a log that lives for ever; the library gives writable places.
    let log = unsafe { &*extra_state.cast::<Log>() };
    log.copied.fetch_add(1, Ordering::SeqCst);
    // SAFETY: as above.
    unsafe {
        value_out.cast::<usize>().write(value_in.addr() + 1);
        flag.write(1);
    }
    log.refuses_to_copy.load(Ordering::SeqCst)
}

/// # Safety
/// As the library calls delete functions; the extra state is a [`Log`] that lives for ever.
unsafe extern "C-unwind" fn note_deletion(
    _comm: MPI_Comm,
    _keyval: c_int,
    value: *mut c_void,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the extra state is a log that lives for ever.
    let log = unsafe { &*extra_state.cast::<Log>() };
    let refusal = log.refuses_to_delete.load(Ordering::SeqCst);
    if refusal == MPI_SUCCESS {
        lock(&log.deleted).push(value.addr());
    }
    refusal
}

fn new_key() -> (c_int, &'static Log) {
    let log: &'static Log = Box::leak(Box::default());
    // SAFETY: the extra state is the log, which lives for ever.
    let (copy, delete) = unsafe {
        let copy = MPI_Comm_copy_attr_function::from_function(copy_one_more);
        let delete = MPI_Comm_delete_attr_function::from_function(note_deletion);
        (Callback::claim(copy), Callback::claim(delete))
    };
    let mut key = 0;
    let extra = std::ptr::from_ref(log).cast_mut().cast();
    assert_eq!(mpi_comm_create_keyval(copy, delete, Place::of(&mut key), extra), MPI_SUCCESS);
    (key, log)
}

fn predefined_key(copy: MPI_Comm_copy_attr_function) -> c_int {
    let mut key = 0;
    let (copy, delete) = (Callback::predefined(copy), Callback::predefined(MPI_COMM_NULL_DELETE_FN));
    let code = mpi_comm_create_keyval(copy, delete, Place::of(&mut key), null_mut());
    assert_eq!(code, MPI_SUCCESS);
    key
}

/// A communicator of its own for each test; nothing is sent on it.
fn object() -> CommObject {
    let comm: Communicator = testing::start().comm(MPI_COMM_SELF).unwrap().comm.clone();
    CommObject::new(comm, MPI_ERRORS_RETURN, crate::objects::Handler::Return)
}

fn put(object: &CommObject, key: c_int, value: usize) -> Result<()> {
    set(&object.attributes, Owner::Comm(MPI_COMM_SELF), key, value)
}

fn values(object: &CommObject) -> Vec<usize> {
    lock(&object.attributes).iter().map(|(_, value)| *value).collect()
}

fn get(comm: MPI_Comm, key: c_int) -> Answer<Option<usize>> {
    let (mut value, mut flag) = (null_mut::<c_void>(), -1);
    let code = mpi_comm_get_attr(comm, key, Place::of(&mut value), Place::of(&mut flag));
    if code == MPI_SUCCESS { Ok((flag == 1).then_some(value.addr())) } else { Err(code) }
}

#[test]
fn values_are_set_replaced_found_and_deleted() {
    testing::start();
    let (key, log) = new_key();
    assert_eq!(get(MPI_COMM_SELF, key), Ok(None));
    for value in [5, 6] {
        assert_eq!(mpi_comm_set_attr(MPI_COMM_SELF, key, without_provenance_mut(value)), MPI_SUCCESS);
        assert_eq!(get(MPI_COMM_SELF, key), Ok(Some(value)));
    }
    assert_eq!(*lock(&log.deleted), [5]);
    assert_eq!(mpi_comm_delete_attr(MPI_COMM_SELF, key), MPI_SUCCESS);
    assert_eq!(*lock(&log.deleted), [5, 6]);
    assert_eq!((get(MPI_COMM_SELF, key), get(MPI_COMM_WORLD, key)), (Ok(None), Ok(None)));
    assert_eq!(mpi_comm_delete_attr(MPI_COMM_SELF, key), MPI_SUCCESS, "nothing to delete");
    assert_eq!(lock(&log.deleted).len(), 2);
}

#[test]
fn a_freed_key_lives_on_in_what_hangs_on_it() {
    let (key, log) = new_key();
    let object = object();
    put(&object, key, 7).unwrap();
    let mut freed = key;
    assert_eq!(mpi_comm_free_keyval(Variable::of(&mut freed)), MPI_SUCCESS);
    assert_eq!(freed, MPI_KEYVAL_INVALID);
    assert_eq!(mpi_comm_free_keyval(Variable::of(&mut freed)), MPI_ERR_KEYVAL);
    assert_eq!(mpi_comm_free_keyval(Variable::NULL), MPI_ERR_ARG);
    put(&object, key, 8).unwrap();
    delete_all(&object, MPI_COMM_SELF).unwrap();
    assert_eq!(*lock(&log.deleted), [7, 8]);
    assert_eq!(put(&object, key, 9).unwrap_err().class, Class::Keyval);
    assert!(attached(key).is_none(), "the last attribute takes its key along");
}

#[test]
fn duplicates_get_what_copy_functions_say() {
    let (from, to) = (object(), object());
    let (counted, log) = new_key();
    let keys = [counted, predefined_key(MPI_COMM_NULL_COPY_FN), predefined_key(MPI_COMM_DUP_FN)];
    for key in keys {
        put(&from, key, 100).unwrap();
    }
    copy_all((&from, MPI_COMM_SELF), (&to, MPI_COMM_SELF)).unwrap();
    assert_eq!((values(&to), log.copied.load(Ordering::SeqCst)), (vec![101, 100], 1));

    log.refuses_to_copy.store(MPI_ERR_OTHER, Ordering::SeqCst);
    let third = object();
    let error = copy_all((&from, MPI_COMM_SELF), (&third, MPI_COMM_SELF)).unwrap_err();
    assert!(error.class == Class::Callback(MPI_ERR_OTHER) && error.what.contains("copy"), "{error}");
    assert_eq!(values(&third), [0; 0]);
    assert_eq!(attached(counted).unwrap().attached, 2, "on the first and its one duplicate");
}

#[test]
fn what_was_copied_before_a_copy_function_failed_is_deleted() {
    let (from, to) = (object(), object());
    let ((first, first_log), (second, second_log)) = (new_key(), new_key());
    put(&from, first, 10).unwrap();
    put(&from, second, 20).unwrap();
    second_log.refuses_to_copy.store(4711, Ordering::SeqCst);
    let error = copy_all((&from, MPI_COMM_SELF), (&to, MPI_COMM_SELF)).unwrap_err();
    assert_eq!(error.class, Class::Callback(4711));
    assert_eq!((values(&to), lock(&first_log.deleted).clone()), (vec![], vec![11]), "its copy, not itself");
    assert_eq!(lock(&second_log.deleted).len(), 0);
    assert_eq!((values(&from), attached(first).unwrap().attached), (vec![10, 20], 1));
}

#[test]
fn the_latest_is_deleted_first_and_a_refusal_stops() {
    let object = object();
    let (key, log) = new_key();
    let (stubborn, refusal) = new_key();
    let (other, also_log) = new_key();
    refusal.refuses_to_delete.store(4711, Ordering::SeqCst);
    for (key, value) in [(key, 1), (stubborn, 2), (other, 3)] {
        put(&object, key, value).unwrap();
    }
    assert_eq!(delete_all(&object, MPI_COMM_SELF).unwrap_err().class, Class::Callback(4711));
    assert_eq!((values(&object), lock(&also_log.deleted).clone()), (vec![1, 2], vec![3]));
    assert_eq!(
        put(&object, stubborn, 9).unwrap_err().class,
        Class::Callback(4711),
        "it cannot be replaced either"
    );
    refusal.refuses_to_delete.store(MPI_SUCCESS, Ordering::SeqCst);
    delete_all(&object, MPI_COMM_SELF).unwrap();
    assert_eq!((lock(&refusal.deleted).clone(), lock(&log.deleted).clone()), (vec![2], vec![1]));
}

#[test]
fn predefined_keys_are_known_and_fixed() {
    testing::start();
    let number = |key| {
        // SAFETY: values of predefined keys are pointers to numbers that live for ever.
        get(MPI_COMM_WORLD, key)
            .map(|found| found.map(|at| unsafe { *std::ptr::with_exposed_provenance::<c_int>(at) }))
    };
    // The addresses go through a number here, so their provenance is exposed as C would.
    for fact in [last_used_code(), predefined(testing::start(), MPI_TAG_UB).flatten().unwrap()] {
        fact.expose_provenance();
    }
    assert_eq!(number(MPI_TAG_UB), Ok(Some(c_int::MAX)));
    assert!(number(MPI_LASTUSEDCODE).unwrap().unwrap() >= MPI_ERR_LASTCODE);
    for key in [MPI_IO, MPI_HOST, MPI_WTIME_IS_GLOBAL] {
        assert!(get(MPI_COMM_WORLD, key).unwrap().is_some(), "{key}");
    }
    assert_eq!(mpi_comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, null_mut()), MPI_ERR_KEYVAL);
    assert_eq!(mpi_comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB), MPI_ERR_KEYVAL);
    assert_eq!(get(MPI_COMM_WORLD, MPI_WIN_BASE), Err(MPI_ERR_KEYVAL));
    assert_eq!(get(MPI_COMM_WORLD, MPI_KEYVAL_INVALID), Err(MPI_ERR_KEYVAL));
    assert_eq!(get(MPI_COMM_NULL, MPI_TAG_UB), Err(MPI_ERR_COMM));
}

#[test]
fn datatypes_have_attributes_of_their_own_keys() {
    testing::start();
    let (of_comms, _) = new_key();
    let (mut key, mut value, mut flag) = (0, null_mut::<c_void>(), -1);
    let code = mpi_type_create_keyval(
        Callback::predefined(MPI_TYPE_DUP_FN),
        Callback::predefined(MPI_TYPE_NULL_DELETE_FN),
        Place::of(&mut key),
        null_mut(),
    );
    assert_eq!(code, MPI_SUCCESS);
    assert_eq!(mpi_type_set_attr(MPI_DOUBLE, key, without_provenance_mut(9)), MPI_SUCCESS);
    let mut copy = MPI_DATATYPE_NULL;
    assert_eq!(datatypes::mpi_type_dup(MPI_DOUBLE, Place::of(&mut copy)), MPI_SUCCESS);
    for datatype in [MPI_DOUBLE, copy] {
        let code = mpi_type_get_attr(datatype, key, Place::of(&mut value), Place::of(&mut flag));
        assert_eq!((code, flag, value.addr()), (MPI_SUCCESS, 1, 9));
        assert_eq!(mpi_type_delete_attr(datatype, key), MPI_SUCCESS);
        assert_eq!(
            mpi_type_get_attr(datatype, key, Place::of(&mut value), Place::of(&mut flag)),
            MPI_SUCCESS
        );
        assert_eq!(flag, 0);
    }
    assert_eq!(mpi_type_set_attr(MPI_DOUBLE, of_comms, null_mut()), MPI_ERR_KEYVAL);
    assert_eq!(mpi_comm_set_attr(MPI_COMM_SELF, key, null_mut()), MPI_ERR_KEYVAL);
    assert_eq!(mpi_type_set_attr(MPI_DATATYPE_NULL, key, null_mut()), MPI_ERR_TYPE);
    assert_eq!(mpi_type_get_attr(MPI_DOUBLE, key, Place::NULL, Place::of(&mut flag)), MPI_ERR_ARG);
    assert_eq!(datatypes::mpi_type_free(Variable::of(&mut copy)), MPI_SUCCESS);
    assert_eq!(mpi_type_free_keyval(Variable::of(&mut key)), MPI_SUCCESS);
}

#[test]
fn the_names_of_mpi_1_do_the_same() {
    testing::start();
    let (mut key, mut value, mut flag) = (0, null_mut::<c_void>(), -1);
    assert_eq!(
        mpi_keyval_create(
            Callback::predefined(MPI_DUP_FN),
            Callback::predefined(MPI_NULL_DELETE_FN),
            Place::of(&mut key),
            null_mut()
        ),
        MPI_SUCCESS
    );
    assert_eq!(mpi_attr_put(MPI_COMM_SELF, key, without_provenance_mut(3)), MPI_SUCCESS);
    assert_eq!(mpi_attr_get(MPI_COMM_SELF, key, Place::of(&mut value), Place::of(&mut flag)), MPI_SUCCESS);
    assert_eq!((value.addr(), flag), (3, 1));
    let (from, to) = (testing::start().comm(MPI_COMM_SELF).unwrap(), object());
    copy_all((&from, MPI_COMM_SELF), (&to, MPI_COMM_SELF)).unwrap();
    assert!(values(&to).contains(&3), "MPI_DUP_FN is understood");
    assert_eq!(mpi_attr_delete(MPI_COMM_SELF, key), MPI_SUCCESS);
    assert_eq!(mpi_keyval_free(Variable::of(&mut key)), MPI_SUCCESS);
}
