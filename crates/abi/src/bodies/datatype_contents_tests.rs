//! Tests of taking datatypes apart: each constructor's arguments come back, in the form in which they were
//! given.

use super::*;
use crate::bodies::datatype_constructors::*;
use crate::bodies::datatypes::{mpi_type_commit, mpi_type_dup, mpi_type_free};
use crate::bodies::testing;
use crate::claims::{List, Variable};

/// Combiner, integers, addresses, large counts, datatypes.
type Contents = (c_int, Vec<c_int>, Vec<MPI_Aint>, Vec<MPI_Count>, Vec<MPI_Datatype>);

/// All of a datatype's contents, by the calls with large counts.
fn contents(datatype: MPI_Datatype) -> Contents {
    let (mut lengths, mut combiner) = ([-1i64; 4], -1);
    let [integers, addresses, counts, types] = lengths.each_mut().map(Place::of);
    let code =
        mpi_type_get_envelope_c(datatype, integers, addresses, counts, types, Place::of(&mut combiner));
    assert_eq!(code, MPI_SUCCESS);
    let room = lengths.map(|length| length as usize);
    let (mut a, mut b, mut c) = (vec![0; room[0]], vec![0; room[1]], vec![0; room[2]]);
    let mut d = vec![MPI_DATATYPE_NULL; room[3]];
    let [ni, na, nc, nd] = lengths;
    let code = {
        let (a, b) = (Places::of(&mut a), Places::of(&mut b));
        let (c, d) = (Places::of(&mut c), Places::of(&mut d));
        mpi_type_get_contents_c(datatype, ni, na, nc, nd, a, b, c, d)
    };
    assert_eq!(code, MPI_SUCCESS);
    (combiner, a, b, c, d)
}

fn of(make: impl FnOnce(Place<'_, MPI_Datatype>) -> c_int) -> Contents {
    testing::start();
    let mut datatype = MPI_DATATYPE_NULL;
    assert_eq!(make(Place::of(&mut datatype)), MPI_SUCCESS);
    let found = contents(datatype);
    assert_eq!(mpi_type_free(Variable::of(&mut datatype)), MPI_SUCCESS);
    found
}

#[test]
fn int_forms_come_back_as_integers_and_addresses() {
    let (lengths, places) = (Counts::Int(List::of(&[1, 2])), Counts::Int(List::of(&[5, 7])));
    let bytes = Displacements::Aint(List::of(&[40, 80]));
    let ints = |combiner, integers: &[c_int], addresses: &[MPI_Aint]| -> Contents {
        (combiner, integers.to_vec(), addresses.to_vec(), vec![], vec![MPI_INT])
    };
    let found = of(|new| mpi_type_contiguous(3, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_CONTIGUOUS, &[3], &[]));
    let found = of(|new| mpi_type_vector(3, 2, -4, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_VECTOR, &[3, 2, -4], &[]));
    let found = of(|new| mpi_type_create_hvector(3, 2, 1 << 40, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_HVECTOR, &[3, 2], &[1 << 40]));
    let found = of(|new| mpi_type_indexed(2, lengths, places, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_INDEXED, &[2, 1, 2, 5, 7], &[]));
    let found = of(|new| mpi_type_create_hindexed(2, lengths, bytes, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_HINDEXED, &[2, 1, 2], &[40, 80]));
    let found = of(|new| mpi_type_create_indexed_block(2, 9, places, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_INDEXED_BLOCK, &[2, 9, 5, 7], &[]));
    let found = of(|new| mpi_type_create_hindexed_block(2, 9, bytes, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_HINDEXED_BLOCK, &[2, 9], &[40, 80]));
    let found = of(|new| mpi_type_create_resized(MPI_INT, -8, 24, new));
    assert_eq!(found, ints(MPI_COMBINER_RESIZED, &[], &[-8, 24]));
    let found = of(|new| mpi_type_dup(MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_DUP, &[], &[]));
    let found = of(|new| mpi_type_create_subarray(2, places, lengths, lengths, MPI_ORDER_C, MPI_INT, new));
    assert_eq!(found, ints(MPI_COMBINER_SUBARRAY, &[2, 5, 7, 1, 2, 1, 2, MPI_ORDER_C], &[]));
    let (kinds, blocks, grid) =
        ([MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK], [3, MPI_DISTRIBUTE_DFLT_DARG], [2, 3]);
    let (order, dealt) = (MPI_ORDER_FORTRAN, [&kinds, &blocks, &grid].map(|list| List::of(list)));
    let [a, b, c] = dealt;
    let found = of(|new| mpi_type_create_darray(6, 4, 2, places, a, b, c, order, MPI_INT, new));
    let integers = [&[6, 4, 2, 5, 7][..], &kinds, &blocks, &grid, &[order]].concat();
    assert_eq!(found, ints(MPI_COMBINER_DARRAY, &integers, &[]));
    let types = [MPI_BYTE, MPI_DOUBLE];
    let found = of(|new| mpi_type_create_struct(2, lengths, bytes, List::of(&types), new));
    assert_eq!(found, (MPI_COMBINER_STRUCT, vec![2, 1, 2], vec![40, 80], vec![], types.to_vec()));
}

#[test]
fn large_forms_come_back_as_large_counts() {
    let (lengths, places) = (Counts::Count(List::of(&[1, 2])), Counts::Count(List::of(&[5, 7])));
    let bytes = Displacements::Count(List::of(&[40, 80]));
    let large = |combiner, integers: &[c_int], counts: &[MPI_Count]| -> Contents {
        (combiner, integers.to_vec(), vec![], counts.to_vec(), vec![MPI_INT])
    };
    let found = of(|new| mpi_type_contiguous_c(3, MPI_INT, new));
    assert_eq!(found, large(MPI_COMBINER_CONTIGUOUS, &[], &[3]));
    let found = of(|new| mpi_type_create_hvector_c(3, 2, 1 << 40, MPI_INT, new));
    assert_eq!(found, large(MPI_COMBINER_HVECTOR, &[], &[3, 2, 1 << 40]));
    let found = of(|new| mpi_type_create_hindexed(2, lengths, bytes, MPI_INT, new));
    assert_eq!(found, large(MPI_COMBINER_HINDEXED, &[], &[2, 1, 2, 40, 80]));
    let found = of(|new| mpi_type_create_resized_c(MPI_INT, -8, 24, new));
    assert_eq!(found, large(MPI_COMBINER_RESIZED, &[], &[-8, 24]));
    let found = of(|new| mpi_type_create_subarray(2, places, lengths, lengths, MPI_ORDER_C, MPI_INT, new));
    assert_eq!(found, large(MPI_COMBINER_SUBARRAY, &[2, MPI_ORDER_C], &[5, 7, 1, 2, 1, 2]));
    let whole = [MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC];
    let (kinds, blocks, grid) = (List::of(&whole), List::of(&[0, 2]), List::of(&[1, 2]));
    let found =
        of(|new| mpi_type_create_darray(2, 1, 2, places, kinds, blocks, grid, MPI_ORDER_C, MPI_INT, new));
    let integers = [2, 1, 2, whole[0], whole[1], 0, 2, 1, 2, MPI_ORDER_C];
    assert_eq!(found, large(MPI_COMBINER_DARRAY, &integers, &[5, 7]));
}

#[test]
fn the_calls_with_ints_refuse_large_counts_and_short_lists() {
    testing::start();
    let (mut large, mut small, mut number) = (MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 7);
    assert_eq!(mpi_type_contiguous_c(3, MPI_INT, Place::of(&mut large)), MPI_SUCCESS);
    assert_eq!(mpi_type_contiguous(3, MPI_INT, Place::of(&mut small)), MPI_SUCCESS);
    let (mut types, mut room) = ([MPI_DATATYPE_NULL], [7]);
    let (list, place, none) = (Places::of(&mut types), Places::of(&mut room), Places::NULL);
    assert_eq!(mpi_type_get_contents(large, 9, 0, 9, place, none, list), MPI_ERR_TYPE);
    assert_eq!(mpi_type_get_contents(small, 0, 0, 1, place, none, list), MPI_ERR_ARG);
    assert_eq!(mpi_type_get_contents(small, 1, 0, 1, Places::NULL, none, list), MPI_ERR_ARG);
    assert_eq!(mpi_type_get_contents(small, 1, 0, 0, place, none, list), MPI_ERR_ARG);
    assert_eq!(mpi_type_get_contents(MPI_INT, 9, 0, 9, place, none, list), MPI_ERR_TYPE);
    assert_eq!((room, types), ([7], [MPI_DATATYPE_NULL]), "nothing is touched");
    let place = Place::of(&mut number);
    assert_eq!(mpi_type_get_envelope(large, place, place, place, place), MPI_ERR_TYPE);
    assert_eq!(mpi_type_get_envelope(MPI_INT, place, place, place, Place::NULL), MPI_ERR_ARG);
    assert_eq!(mpi_type_get_envelope(MPI_DATATYPE_NULL, place, place, place, place), MPI_ERR_TYPE);
    assert_eq!(number, 7, "nothing is touched");
    let (place, mut combiner) = (Place::of(&mut number), 0);
    assert_eq!(mpi_type_get_envelope(MPI_INT, place, place, place, Place::of(&mut combiner)), MPI_SUCCESS);
    assert_eq!((combiner, number), (MPI_COMBINER_NAMED, 0));
    assert_eq!([large, small].map(|mut made| mpi_type_free(Variable::of(&mut made))), [MPI_SUCCESS; 2]);
}

#[test]
fn parts_come_back_after_they_were_freed() {
    testing::start();
    let (mut inner, mut outer) = (MPI_DATATYPE_NULL, MPI_DATATYPE_NULL);
    assert_eq!(mpi_type_vector(2, 1, 3, MPI_SHORT, Place::of(&mut inner)), MPI_SUCCESS);
    assert_eq!(mpi_type_contiguous(4, inner, Place::of(&mut outer)), MPI_SUCCESS);
    assert_eq!(mpi_type_free(Variable::of(&mut inner)), MPI_SUCCESS);
    let (.., mut parts) = contents(outer);
    let [part] = &mut parts[..] else { panic!("{parts:?}") };
    assert_eq!(contents(*part), (MPI_COMBINER_VECTOR, vec![2, 1, 3], vec![], vec![], vec![MPI_SHORT]));
    assert_eq!(mpi_type_commit(Variable::of(part)), MPI_SUCCESS);
    assert_eq!(
        [mpi_type_free(Variable::of(part)), mpi_type_free(Variable::of(&mut outer))],
        [MPI_SUCCESS; 2]
    );
}
