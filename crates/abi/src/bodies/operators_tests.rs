//! Tests of operators, with functions of a program that look at what they are given.

use super::*;
use crate::bodies::datatype_constructors::{mpi_type_contiguous, mpi_type_create_resized, mpi_type_vector};
use crate::bodies::datatypes::{mpi_type_commit, mpi_type_free};
use crate::bodies::testing;
use crate::claims::Callback;
use std::sync::Mutex;
use weft::claims::Heap;

/// Lengths and handles that the functions below were called with.
static CALLS: Mutex<Vec<(i64, usize)>> = Mutex::new(Vec::new());
/// Tests that count calls do so one at a time.
static COUNTING: Mutex<()> = Mutex::new(());

/// `inout = 10 * input + inout`, for elements of `ints` ints that begin `step` ints apart.
///
/// # Safety
/// Both are arrays of `length` such elements.
unsafe fn shift_and_add(input: *mut c_void, inout: *mut c_void, length: i64, step: usize, ints: &[usize]) {
    let (input, inout) = (input.cast::<i32>(), inout.cast::<i32>());
    assert!(input.is_aligned() && inout.is_aligned());
    for element in 0..length as usize {
        for at in ints {
            // SAFETY: the caller promised the elements.
            unsafe { *inout.add(element * step + at) += 10 * *input.add(element * step + at) };
        }
    }
}

/// # Safety
/// As the library calls operators, for `MPI_INT`.
unsafe extern "C-unwind" fn ints(
    input: *mut c_void,
    inout: *mut c_void,
    length: *mut c_int,
    datatype: *mut MPI_Datatype,
) {
    // SAFETY: the library gives arrays of ints, their length, and a handle.
    unsafe {
        CALLS.lock().unwrap().push((i64::from(*length), (*datatype).value()));
        shift_and_add(input, inout, i64::from(*length), 1, &[0]);
    }
}

/// # Safety
/// `input` and `inout` hold `length` elements each, as [`ints`] asks.
unsafe extern "C-unwind" fn ints_c(
    input: *mut c_void,
    inout: *mut c_void,
    length: *mut MPI_Count,
    _datatype: *mut MPI_Datatype,
) {
    // SAFETY: the library gives arrays of ints and their length.
    unsafe { shift_and_add(input, inout, *length, 1, &[0]) };
}

/// For elements of two ints with a gap between and another behind.
///
/// # Safety
/// As the library calls operators, for such elements.
unsafe extern "C-unwind" fn gaps(
    input: *mut c_void,
    inout: *mut c_void,
    length: *mut c_int,
    _: *mut MPI_Datatype,
) {
    // SAFETY: the library gives arrays of such elements and their length.
    unsafe { shift_and_add(input, inout, i64::from(*length), 4, &[0, 2]) };
}

/// # Safety
/// As the library calls operators.
unsafe extern "C-unwind" fn count_only(
    _: *mut c_void,
    _: *mut c_void,
    length: *mut c_int,
    datatype: *mut MPI_Datatype,
) {
    // SAFETY: the library gives a length and a handle.
    unsafe { CALLS.lock().unwrap().push((i64::from(*length), (*datatype).value())) };
}

fn new(function: UserFunction, commute: c_int) -> MPI_Op {
    testing::start();
    let mut op = MPI_OP_NULL;
    assert_eq!(mpi_op_create(function, commute, Place::of(&mut op)), MPI_SUCCESS);
    op
}

fn int(
    function: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype),
) -> UserFunction {
    // SAFETY: tests give functions for the elements that they combine.
    UserFunction::Int(unsafe { Callback::claim(MPI_User_function::from_function(function)) })
}

fn free(mut op: MPI_Op) -> c_int {
    let code = mpi_op_free(Variable::of(&mut op));
    assert!(code != MPI_SUCCESS || op == MPI_OP_NULL);
    code
}

fn operation(op: MPI_Op, datatype: MPI_Datatype) -> Result<TypedOperator> {
    let runtime = testing::start();
    let resolved = resolve_committed(runtime, datatype).unwrap();
    resolve(runtime, op, (&resolved, 1 << 20), datatype)
}

/// Combines packed ints.
fn apply(operation: &TypedOperator, input: &[i32], inout: &[i32]) -> Vec<i32> {
    let bytes = |ints: &[i32]| -> Vec<u8> { ints.iter().flat_map(|int| int.to_ne_bytes()).collect() };
    let heap = Heap::new(size_of_val(inout));
    let mut memory = heap.memory();
    memory.write_at(0, Payload::from(&bytes(inout)[..]));
    operation.combine(Payload::from(&bytes(input)[..]), None, &mut memory);
    let found = heap.payload().to_vec();
    found.as_chunks::<4>().0.iter().map(|&bytes| i32::from_ne_bytes(bytes)).collect()
}

#[test]
fn predefined_operators_combine_what_they_are_defined_for() {
    let sum = operation(MPI_SUM, MPI_INT).unwrap();
    assert!(sum.commutative());
    assert_eq!(apply(&sum, &[1, 2, 3], &[10, 20, 30]), [11, 22, 33]);
    assert_eq!(apply(&operation(MPI_MAX, MPI_INT).unwrap(), &[5, 1], &[2, 9]), [5, 9]);
    for (op, datatype, words) in [
        (MPI_BAND, MPI_DOUBLE, ["MPI_BAND", "MPI_DOUBLE"]),
        (MPI_SUM, MPI_WCHAR, ["MPI_SUM", "MPI_WCHAR"]),
        (MPI_REPLACE, MPI_INT, ["MPI_REPLACE", "one-sided"]),
        (MPI_OP_NULL, MPI_INT, ["MPI_OP_NULL", ""]),
        (MPI_Op::from_value(0x25), MPI_INT, ["0x25", ""]),
    ] {
        let error = operation(op, datatype).err().unwrap();
        assert_eq!(error.class, Class::Operator);
        assert!(words.iter().all(|word| error.what.contains(word)), "{error}");
    }
}

#[test]
fn every_predefined_operator_has_the_handle_of_its_name() {
    let constants = include_str!("../generated/constants.rs");
    let count = constants.lines().filter(|line| line.contains(": MPI_Op = ")).count();
    assert_eq!(count, OPERATORS.len() + 1, "all but MPI_OP_NULL");
    for (handle, operator) in OPERATORS {
        let line = format!("pub const {operator}: MPI_Op = MPI_Op::from_value({:#010x});", handle.value());
        assert!(constants.contains(&line), "{line}");
    }
}

#[test]
fn functions_of_the_program_see_ints_in_place() {
    let _alone = COUNTING.lock().unwrap();
    let op = new(int(ints), 0);
    let operation = operation(op, MPI_INT).unwrap();
    assert!(!operation.commutative());
    CALLS.lock().unwrap().clear();
    assert_eq!(apply(&operation, &[1, 2], &[3, 4]), [13, 24]);
    assert_eq!(*CALLS.lock().unwrap(), [(2, MPI_INT.value())]);
    assert_eq!(free(op), MPI_SUCCESS);
    assert_eq!(apply(&operation, &[1], &[0]), [10], "an operation under way goes on");
    // SAFETY: ints are combined below.
    let large = unsafe { Callback::claim(MPI_User_function_c::from_function(ints_c)) };
    let large = new(UserFunction::Count(large), 1);
    assert_eq!(apply(&self::operation(large, MPI_INT).unwrap(), &[7], &[1]), [71]);
    assert_eq!(free(large), MPI_SUCCESS);
}

/// Contributions of several ranks may be combined at once; a program may count on the length that it has
/// given.
#[test]
fn a_function_is_called_with_no_more_elements_than_the_operation_has() {
    let _alone = COUNTING.lock().unwrap();
    let op = new(int(ints), 1);
    let operation = operation(op, MPI_INT).unwrap().among(2);
    CALLS.lock().unwrap().clear();
    assert_eq!(apply(&operation, &[1, 2, 3, 4, 5], &[5, 6, 7, 8, 9]), [15, 26, 37, 48, 59]);
    assert_eq!(*CALLS.lock().unwrap(), [2, 2, 1].map(|length| (length, MPI_INT.value())));
    assert_eq!(free(op), MPI_SUCCESS);
}

#[test]
fn unaligned_packed_elements_are_copied_first() {
    let _alone = COUNTING.lock().unwrap();
    let op = new(int(ints), 1);
    let operation = operation(op, MPI_INT).unwrap();
    let (input, inout) = (Heap::new(9), Heap::new(9));
    input.memory().write_at(1, Payload::from(&[3i32, 4].map(i32::to_ne_bytes).concat()[..]));
    inout.memory().write_at(1, Payload::from(&[5i32, 6].map(i32::to_ne_bytes).concat()[..]));
    operation.combine(input.payload().after(1), None, &mut inout.memory().part(1, 8));
    assert_eq!(inout.payload().after(1).to_vec(), [35i32, 46].map(i32::to_ne_bytes).concat());
    assert_eq!(free(op), MPI_SUCCESS);
}

/// Two ints with a gap of one between and one behind, committed.
fn with_gaps() -> MPI_Datatype {
    let (mut pair, mut resized) = (MPI_DATATYPE_NULL, MPI_DATATYPE_NULL);
    assert_eq!(mpi_type_vector(2, 1, 2, MPI_INT, Place::of(&mut pair)), MPI_SUCCESS);
    assert_eq!(mpi_type_create_resized(pair, 0, 16, Place::of(&mut resized)), MPI_SUCCESS);
    assert_eq!(mpi_type_commit(Variable::of(&mut resized)), MPI_SUCCESS);
    assert_eq!(mpi_type_free(Variable::of(&mut pair)), MPI_SUCCESS);
    resized
}

#[test]
fn elements_with_gaps_are_spread_for_the_function() {
    let datatype = with_gaps();
    let op = new(int(gaps), 1);
    let operation = operation(op, datatype).unwrap();
    // More than one chunk, and the last one not full.
    let count = 2 * CHUNK_BYTES as usize / 16 + 3;
    let input: Vec<i32> = (0..2 * count as i32).collect();
    let expected: Vec<i32> = input.iter().map(|value| 10 * value + 1).collect();
    assert_eq!(apply(&operation, &input, &vec![1; 2 * count]), expected);
    assert_eq!(free(op), MPI_SUCCESS);
}

#[test]
fn reduce_local_leaves_gaps_alone() {
    let datatype = with_gaps();
    let op = new(int(gaps), 1);
    let (input, mut inout) = ([1, 2, 3, 4, 5, 6, 7, 8], [10; 8]);
    let reduce = |inout| mpi_reduce_local(Sent::of(&input), inout, 2, datatype, op);
    let code = Received::lend(&mut inout, reduce);
    assert_eq!((code, inout), (MPI_SUCCESS, [20, 10, 40, 10, 60, 10, 80, 10]));
    let pairs: [(f64, i32); 2] = [(1.0, 4), (9.0, 5)];
    let mut best: [(f64, i32); 2] = [(2.0, 1), (3.0, 1)];
    assert_eq!(size_of_val(&pairs), 32);
    // A tuple of these two stands in memory like the C struct, which the assertion below would notice.
    let search = |inout| mpi_reduce_local(Sent::of(&pairs), inout, 2, MPI_DOUBLE_INT, MPI_MAXLOC);
    assert_eq!(Received::lend(&mut best, search), MPI_SUCCESS);
    assert_eq!(best, [(2.0, 1), (9.0, 5)]);
    assert_eq!(free(op), MPI_SUCCESS);
}

#[test]
fn reduce_local_refuses_wrong_arguments() {
    testing::start();
    let (left, mut inout) = (Sent::of(&[1, 2]), [3, 4]);
    Received::lend(&mut inout, |right| {
        assert_eq!(mpi_reduce_local(left, right, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
        assert_eq!(mpi_reduce_local(Sent::NULL, right, 2, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
        assert_eq!(mpi_reduce_local(left, Received::NULL, 2, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
        assert_eq!(mpi_reduce_local(left, Received::IN_PLACE, 2, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
        assert_eq!(mpi_reduce_local(right.read(), right, 2, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
        assert_eq!(mpi_reduce_local(left, right, 2, MPI_DATATYPE_NULL, MPI_SUM), MPI_ERR_TYPE);
        assert_eq!(mpi_reduce_local(left, right, 2, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
    });
    assert_eq!(inout, [3, 4]);
    let right = |right| mpi_reduce_local(left, right, 2, MPI_INT, MPI_SUM);
    assert_eq!(Received::lend(&mut inout, right), MPI_SUCCESS);
    assert_eq!(inout, [4, 6]);
}

#[test]
fn long_vectors_come_in_chunks_that_an_int_can_count() {
    let _alone = COUNTING.lock().unwrap();
    let mut nothing = MPI_DATATYPE_NULL;
    assert_eq!(mpi_type_contiguous(0, MPI_INT, Place::of(&mut nothing)), MPI_SUCCESS);
    assert_eq!(mpi_type_commit(Variable::of(&mut nothing)), MPI_SUCCESS);
    let op = new(int(count_only), 1);
    CALLS.lock().unwrap().clear();
    let (count, most) = (2 * i64::from(c_int::MAX) + 5, i64::from(c_int::MAX));
    assert_eq!(mpi_reduce_local(Sent::NULL, Received::NULL, count, nothing, op), MPI_SUCCESS);
    let lengths: Vec<i64> = CALLS.lock().unwrap().iter().map(|call| call.0).collect();
    assert_eq!(lengths, [most, most, 5]);
    assert_eq!(free(op), MPI_SUCCESS);
}

#[test]
fn operators_are_made_asked_and_freed() {
    let commutative = |op| {
        let mut answer = -1;
        match mpi_op_commutative(op, Place::of(&mut answer)) {
            MPI_SUCCESS => Ok(answer),
            code => Err(code),
        }
    };
    let (yes, no) = (new(int(gaps), 5), new(int(gaps), 0));
    assert_eq!([yes, no, MPI_PROD, MPI_REPLACE].map(commutative), [Ok(1), Ok(0), Ok(1), Ok(0)]);
    assert_eq!([free(yes), free(no)], [MPI_SUCCESS; 2]);
    assert_eq!([free(yes), free(MPI_SUM), free(MPI_OP_NULL)], [MPI_ERR_OP; 3]);
    assert_eq!(commutative(yes), Err(MPI_ERR_OP));
    let mut op = MPI_OP_NULL;
    let none = UserFunction::Int(Callback::predefined(MPI_User_function::from_value(0)));
    assert_eq!(mpi_op_create(none, 1, Place::of(&mut op)), MPI_ERR_ARG);
    assert_eq!(mpi_op_create(int(gaps), 1, Place::NULL), MPI_ERR_ARG);
    assert_eq!(mpi_op_free(Variable::NULL), MPI_ERR_ARG);
    assert_eq!(mpi_op_commutative(MPI_SUM, Place::NULL), MPI_ERR_ARG);
    assert_eq!(op, MPI_OP_NULL);
}
