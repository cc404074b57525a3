//! Tests of constructors: what is made is packed and looked at; what is wrong is refused by class.

use super::*;
use crate::bodies::datatypes::mpi_type_free;
use crate::bodies::testing::{self, Answer};
use crate::claims::Variable;
use weft::claims::Payload;

fn made(make: impl FnOnce(Place<'_, MPI_Datatype>) -> c_int) -> Answer<MPI_Datatype> {
    testing::start();
    let mut datatype = MPI_DATATYPE_NULL;
    match make(Place::of(&mut datatype)) {
        MPI_SUCCESS => Ok(datatype),
        code => {
            assert_eq!(datatype, MPI_DATATYPE_NULL, "nothing is touched");
            Err(code)
        }
    }
}

/// Which ints of 0, 1, 2, … an element covers, and how many extents of an int it is long.
fn shape(datatype: Answer<MPI_Datatype>) -> (Vec<i32>, i64) {
    let mut handle = datatype.unwrap();
    let datatype = resolve(testing::start(), handle).unwrap();
    let span = datatype.span(1).unwrap();
    let memory: Vec<u8> = (0..64i32).flat_map(i32::to_ne_bytes).collect();
    let source = Payload::from(&memory[..]).part(span.start as usize, span.bytes as usize);
    let mut packed = vec![0; datatype.size() as usize];
    datatype::pack(&datatype, 1, source, &mut packed, 0).unwrap();
    assert_eq!(mpi_type_free(Variable::of(&mut handle)), MPI_SUCCESS);
    let ints = packed.as_chunks::<4>().0.iter().map(|&bytes| i32::from_ne_bytes(bytes)).collect();
    (ints, datatype.extent() / 4)
}

#[test]
fn rows_and_strides() {
    assert_eq!(shape(made(|new| mpi_type_contiguous(3, MPI_INT, new))), (vec![0, 1, 2], 3));
    assert_eq!(shape(made(|new| mpi_type_contiguous_c(2, MPI_INT, new))), (vec![0, 1], 2));
    assert_eq!(shape(made(|new| mpi_type_vector(2, 2, 3, MPI_INT, new))), (vec![0, 1, 3, 4], 5));
    assert_eq!(shape(made(|new| mpi_type_vector_c(2, 1, 4, MPI_INT, new))), (vec![0, 4], 5));
    assert_eq!(shape(made(|new| mpi_type_create_hvector(2, 1, 8, MPI_INT, new))), (vec![0, 2], 3));
    assert_eq!(shape(made(|new| mpi_type_create_hvector_c(2, 1, 12, MPI_INT, new))), (vec![0, 3], 4));
    assert_eq!(shape(made(|new| mpi_type_create_resized(MPI_INT, 0, 20, new))), (vec![0], 5));
    assert_eq!(shape(made(|new| mpi_type_create_resized_c(MPI_INT, 0, 8, new))), (vec![0], 2));
}

#[test]
fn lists_of_blocks() {
    let (lengths, places) = (Counts::Int(List::of(&[2, 1])), [4, 1]);
    let bytes = Displacements::Aint(List::of(&[16, 4]));
    let large = Counts::Count(List::of(&[4i64, 1]));
    let indexed = |new: Place<'_, MPI_Datatype>| {
        mpi_type_indexed(2, lengths, Counts::Int(List::of(&places)), MPI_INT, new)
    };
    assert_eq!(shape(made(indexed)), (vec![4, 5, 1], 5));
    let hindexed = |new: Place<'_, MPI_Datatype>| mpi_type_create_hindexed(2, lengths, bytes, MPI_INT, new);
    assert_eq!(shape(made(hindexed)), (vec![4, 5, 1], 5));
    let block = |new: Place<'_, MPI_Datatype>| mpi_type_create_indexed_block(2, 2, large, MPI_INT, new);
    assert_eq!(shape(made(block)), (vec![4, 5, 1, 2], 5));
    let hblock = |new: Place<'_, MPI_Datatype>| mpi_type_create_hindexed_block(2, 1, bytes, MPI_INT, new);
    assert_eq!(shape(made(hblock)), (vec![4, 1], 4));
}

#[test]
fn structs_and_subarrays() {
    let types = [MPI_INT, MPI_BYTE];
    let (lengths, bytes) = (Counts::Int(List::of(&[1, 4])), Displacements::Aint(List::of(&[8, 0])));
    let list = |numbers: &'static [c_int; 2]| Counts::Int(List::of(numbers));
    let (sizes, subsizes, starts) = (list(&[3, 4]), list(&[2, 2]), list(&[1, 2]));
    let structure =
        |new: Place<'_, MPI_Datatype>| mpi_type_create_struct(2, lengths, bytes, List::of(&types), new);
    assert_eq!(shape(made(structure)), (vec![2, 0], 3));
    let part = |order| {
        move |new: Place<'_, MPI_Datatype>| {
            mpi_type_create_subarray(2, sizes, subsizes, starts, order, MPI_INT, new)
        }
    };
    assert_eq!(shape(made(part(MPI_ORDER_C))), (vec![6, 7, 10, 11], 12));
    assert_eq!(shape(made(part(MPI_ORDER_FORTRAN))), (vec![7, 8, 10, 11], 12));
    assert_eq!(made(part(99)), Err(MPI_ERR_ARG));
    let none = |new: Place<'_, MPI_Datatype>| {
        mpi_type_create_subarray(0, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, new)
    };
    assert_eq!(made(none), Err(MPI_ERR_ARG));
    let outside = |new: Place<'_, MPI_Datatype>| {
        mpi_type_create_subarray(2, subsizes, sizes, starts, MPI_ORDER_C, MPI_INT, new)
    };
    assert_eq!(made(outside), Err(MPI_ERR_ARG));
}

#[test]
fn wrong_arguments_get_their_class() {
    let (one, no_list) = (Counts::Int(List::of(&[1])), Counts::Int(List::NULL));
    let (at, nowhere) = (Displacements::Aint(List::of(&[0])), Displacements::Aint(List::NULL));
    assert_eq!(made(|new| mpi_type_contiguous(-1, MPI_INT, new)), Err(MPI_ERR_COUNT));
    assert_eq!(made(|new| mpi_type_contiguous(1, MPI_DATATYPE_NULL, new)), Err(MPI_ERR_TYPE));
    assert_eq!(made(|_| mpi_type_contiguous(1, MPI_INT, Place::NULL)), Err(MPI_ERR_ARG));
    assert_eq!(made(|new| mpi_type_vector(1, -1, 1, MPI_INT, new)), Err(MPI_ERR_COUNT));
    assert_eq!(made(|new| mpi_type_contiguous_c(i64::MAX, MPI_INT, new)), Err(MPI_ERR_ARG));
    assert_eq!(made(|new| mpi_type_indexed(-1, one, one, MPI_INT, new)), Err(MPI_ERR_COUNT));
    assert_eq!(made(|new| mpi_type_indexed(1, no_list, one, MPI_INT, new)), Err(MPI_ERR_ARG));
    assert_eq!(made(|new| mpi_type_create_hindexed(1, one, nowhere, MPI_INT, new)), Err(MPI_ERR_ARG));
    assert_eq!(made(|new| mpi_type_create_indexed_block(0, -1, one, MPI_INT, new)), Err(MPI_ERR_COUNT));
    assert_eq!(made(|new| mpi_type_create_struct(1, one, at, List::NULL, new)), Err(MPI_ERR_ARG));
    let types = [MPI_DATATYPE_NULL];
    assert_eq!(made(|new| mpi_type_create_struct(1, one, at, List::of(&types), new)), Err(MPI_ERR_TYPE));
}

#[test]
fn nothing_can_be_made_of_nothing() {
    let (none, nowhere) = (Counts::Int(List::NULL), Displacements::Aint(List::NULL));
    let empty = made(|new| mpi_type_create_struct(0, none, nowhere, List::NULL, new));
    assert_eq!(shape(empty), (vec![], 0));
}
