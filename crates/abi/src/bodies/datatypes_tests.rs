//! Tests of datatype handles and of what can be asked of them.

use super::*;
use crate::bodies::datatype_constructors::{mpi_type_contiguous, mpi_type_create_resized};
use crate::bodies::testing::{self, Answer};
use std::ffi::c_char;

/// The handles that the generated constants give to names of datatypes.
fn generated() -> Vec<(&'static str, usize)> {
    let lines = include_str!("../generated/constants.rs").lines();
    let parse = |line: &'static str| {
        let (name, rest) =
            line.strip_prefix("pub const ")?.split_once(": MPI_Datatype = MPI_Datatype::from_value(0x")?;
        Some((name, usize::from_str_radix(rest.trim_end_matches(");"), 16).ok()?))
    };
    lines.filter_map(parse).collect()
}

#[test]
fn every_handle_means_the_datatype_of_its_name() {
    let constants = generated();
    assert!(constants.len() > Predefined::ALL.len(), "{}", constants.len());
    for &(name, value) in &constants {
        let found = predefined(MPI_Datatype::from_value(value));
        assert_eq!(found, Predefined::named(name), "{name}");
        assert_eq!(found.is_none(), name == "MPI_DATATYPE_NULL", "{name}");
    }
    for &known in Predefined::ALL {
        let constant = constants.iter().find(|(name, _)| *name == known.name());
        assert_eq!(constant.map(|constant| constant.1), Some(handle_of(known).value()), "{known}");
    }
    let rows =
        (FIRST_HANDLE..FIRST_HANDLE + ROWS).filter(|&value| known(MPI_Datatype::from_value(value)).is_some());
    assert_eq!(rows.count(), Predefined::ALL.len(), "no row is taken twice");
}

#[test]
fn sizes_of_fixed_size_datatypes_stand_in_their_handles() {
    for (name, value) in generated().into_iter().filter(|(_, value)| value & 0x40 != 0) {
        let size = predefined(MPI_Datatype::from_value(value)).unwrap().size();
        assert_eq!(size, 1 << (value >> 3 & 7), "{name}");
    }
}

fn pair(from: MPI_Datatype) -> MPI_Datatype {
    let mut made = MPI_DATATYPE_NULL;
    assert_eq!(mpi_type_contiguous(2, from, Place::of(&mut made)), MPI_SUCCESS);
    made
}

fn commit(mut datatype: MPI_Datatype) -> c_int {
    mpi_type_commit(Variable::of(&mut datatype))
}

fn free(mut datatype: MPI_Datatype) -> c_int {
    let code = mpi_type_free(Variable::of(&mut datatype));
    assert!(code != MPI_SUCCESS || datatype == MPI_DATATYPE_NULL);
    code
}

type Ask = fn(MPI_Datatype, CountOut<'_>, CountOut<'_>) -> c_int;

fn numbers(ask: Ask, datatype: MPI_Datatype) -> Answer<(i64, i64)> {
    let (mut first, mut second) = (-99, -99);
    let (one, two) = (CountOut::Count(Place::of(&mut first)), CountOut::Count(Place::of(&mut second)));
    let code = ask(datatype, one, two);
    if code == MPI_SUCCESS { Ok((first, second)) } else { Err(code) }
}

fn size_twice(datatype: MPI_Datatype, first: CountOut<'_>, second: CountOut<'_>) -> c_int {
    second.write(0).unwrap();
    mpi_type_size(datatype, first)
}

#[test]
fn only_committed_datatypes_communicate() {
    let runtime = testing::start();
    let datatype = pair(MPI_INT);
    let refusal = resolve_committed(runtime, datatype).err().unwrap();
    assert!(refusal.class == Class::Type && refusal.what.contains("not committed"), "{refusal}");
    assert!(resolve(runtime, datatype).is_ok());
    assert_eq!(commit(datatype), MPI_SUCCESS);
    assert_eq!(resolve_committed(runtime, datatype).unwrap().size(), 8);
    assert_eq!(free(datatype), MPI_SUCCESS);
    assert_eq!(resolve(runtime, datatype).err().unwrap().class, Class::Type);
    assert_eq!([free(datatype), commit(datatype)], [MPI_ERR_TYPE; 2]);
}

#[test]
fn predefined_datatypes_stay() {
    let runtime = testing::start();
    assert_eq!((commit(MPI_INT), free(MPI_INT)), (MPI_SUCCESS, MPI_ERR_TYPE));
    let null = resolve(runtime, MPI_DATATYPE_NULL).err().unwrap();
    assert!(null.what.contains("MPI_DATATYPE_NULL"), "{null}");
    assert_eq!([commit(MPI_DATATYPE_NULL), free(MPI_DATATYPE_NULL)], [MPI_ERR_TYPE; 2]);
    assert_eq!([mpi_type_commit(Variable::NULL), mpi_type_free(Variable::NULL)], [MPI_ERR_ARG; 2]);
    for value in [0x204, 0x2ff, 0x300, 0, usize::MAX] {
        assert_eq!(
            resolve(runtime, MPI_Datatype::from_value(value)).err().unwrap().class,
            Class::Type,
            "{value:#x}"
        );
    }
}

#[test]
fn sizes_and_extents_are_told() {
    testing::start();
    assert_eq!(numbers(mpi_type_get_extent, MPI_DOUBLE_INT), Ok((0, 16)));
    assert_eq!(numbers(mpi_type_get_true_extent, MPI_DOUBLE_INT), Ok((0, 12)));
    assert_eq!(numbers(size_twice, MPI_DOUBLE_INT), Ok((12, 0)));
    let mut shifted = MPI_DATATYPE_NULL;
    assert_eq!(mpi_type_create_resized(MPI_INT, -8, 1 << 40, Place::of(&mut shifted)), MPI_SUCCESS);
    assert_eq!(numbers(mpi_type_get_extent, shifted), Ok((-8, 1 << 40)));
    assert_eq!(numbers(mpi_type_get_true_extent, shifted), Ok((0, 4)));
    let (mut bound, mut extent) = (0, 0);
    let places = [CountOut::Int(Place::of(&mut bound)), CountOut::Int(Place::of(&mut extent))];
    assert_eq!(mpi_type_get_extent(shifted, places[0], places[1]), MPI_SUCCESS);
    assert_eq!(mpi_type_get_extent(shifted, places[0], CountOut::Int(Place::NULL)), MPI_ERR_ARG);
    assert_eq!(mpi_type_size(shifted, CountOut::Int(Place::NULL)), MPI_ERR_ARG);
    assert_eq!((bound, extent), (-8, MPI_UNDEFINED), "an int cannot hold it");
    assert_eq!(numbers(mpi_type_get_extent, MPI_DATATYPE_NULL), Err(MPI_ERR_TYPE));
    assert_eq!(free(shifted), MPI_SUCCESS);
}

#[test]
fn a_duplicate_is_as_committed_as_its_model() {
    let runtime = testing::start();
    let dup = |datatype| {
        let mut made = MPI_DATATYPE_NULL;
        assert_eq!(mpi_type_dup(datatype, Place::of(&mut made)), MPI_SUCCESS);
        made
    };
    let model = pair(MPI_SHORT);
    let before = dup(model);
    commit(model);
    let (after, of_int) = (dup(model), dup(MPI_INT));
    let ready = [before, after, of_int].map(|datatype| resolve_committed(runtime, datatype).is_ok());
    assert_eq!(ready, [false, true, true]);
    assert_eq!([model, before, after, of_int].map(free), [MPI_SUCCESS; 4]);
    assert_eq!(mpi_type_dup(MPI_INT, Place::NULL), MPI_ERR_ARG);
}

fn name_of(datatype: MPI_Datatype) -> String {
    let (mut text, mut length) = ([1 as c_char; MPI_MAX_OBJECT_NAME as usize], -1);
    assert_eq!(mpi_type_get_name(datatype, TextPlace::of(&mut text), Place::of(&mut length)), MPI_SUCCESS);
    assert_eq!(text[length as usize], 0);
    text[..length as usize].iter().map(|&byte| byte as u8 as char).collect()
}

#[test]
fn datatypes_have_names() {
    testing::start();
    assert_eq!(name_of(MPI_DATATYPE_NULL), "MPI_DATATYPE_NULL");
    assert_eq!((name_of(MPI_INT), name_of(MPI_LONG_LONG_INT)), ("MPI_INT".into(), "MPI_LONG_LONG".into()));
    let datatype = pair(MPI_INT);
    assert_eq!(name_of(datatype), "");
    let long = std::ffi::CString::new("n".repeat(500)).unwrap();
    assert_eq!(mpi_type_set_name(datatype, Text::of(c"pair")), MPI_SUCCESS);
    assert_eq!(name_of(datatype), "pair");
    assert_eq!(mpi_type_set_name(datatype, Text::of(&long)), MPI_SUCCESS);
    assert_eq!(name_of(datatype).len(), MPI_MAX_OBJECT_NAME as usize - 1);
    assert_eq!(mpi_type_set_name(MPI_CXX_BOOL, Text::of(c"truth")), MPI_SUCCESS);
    assert_eq!(name_of(MPI_CXX_BOOL), "truth");
    assert_eq!(mpi_type_set_name(datatype, Text::NULL), MPI_ERR_ARG);
    assert_eq!(mpi_type_set_name(MPI_DATATYPE_NULL, Text::of(c"none")), MPI_ERR_TYPE);
    let mut length = 0;
    assert_eq!(mpi_type_get_name(datatype, TextPlace::NULL, Place::of(&mut length)), MPI_ERR_ARG);
    assert_eq!(free(datatype), MPI_SUCCESS);
}

#[test]
fn fortran_datatypes_are_found_by_class_and_size() {
    testing::start();
    let find = |class, size| {
        let mut found = MPI_DATATYPE_NULL;
        let code = mpi_type_match_size(class, size, Place::of(&mut found));
        if code == MPI_SUCCESS { Ok(found) } else { Err(code) }
    };
    assert_eq!(find(MPI_TYPECLASS_INTEGER, 4), Ok(MPI_INTEGER4));
    assert_eq!(find(MPI_TYPECLASS_REAL, 8), Ok(MPI_REAL8));
    assert_eq!(find(MPI_TYPECLASS_REAL, 16), Ok(MPI_REAL16));
    assert_eq!(find(MPI_TYPECLASS_COMPLEX, 16), Ok(MPI_COMPLEX16));
    assert_eq!(find(MPIX_TYPECLASS_LOGICAL, 1), Ok(MPI_LOGICAL1));
    for (class, size) in
        [(MPI_TYPECLASS_REAL, 32), (MPI_TYPECLASS_INTEGER, 3), (MPI_TYPECLASS_REAL, -8), (0, 4)]
    {
        assert_eq!(find(class, size), Err(MPI_ERR_ARG), "{class} {size}");
    }
}
