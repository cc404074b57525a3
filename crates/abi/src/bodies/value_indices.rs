//! Datatypes of a value with an index, for `MPI_MINLOC` and `MPI_MAXLOC` (MPI 5.0 §6.9.4).
//!
//! Nine of them have names. Others are made when somebody asks for the first time; like predefined datatypes
//! they are committed, cannot be freed and are the same for the same question.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

use datatype::{Pair, Predefined};

use crate::bodies::datatype_contents::{Form, Made, Part};
use crate::bodies::datatypes::{adopt_permanent, meaning, predefined, refused, resolve};
use crate::claims::Place;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{Meaning, lock};
use crate::state::{Runtime, call};
use crate::types::*;

/// The unnamed ones that somebody has asked for, by the handles of value and index.
static UNNAMED: Mutex<BTreeMap<(usize, usize), usize>> = Mutex::new(BTreeMap::new());

/// The datatype for a value with an index, or `MPI_DATATYPE_NULL` where one of them has no order.
pub fn mpi_type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: Place<'_, MPI_Datatype>,
) -> c_int {
    call("MPI_Type_get_value_index", Target::World, |runtime| {
        for handle in [value_type, index_type] {
            resolve(runtime, handle)?;
        }
        let place = pair_type.checked("pair_type")?;
        let named = PAIRS.iter().find(|(value, index, _)| (*value, *index) == (value_type, index_type));
        place.set(match named {
            Some(&(_, _, pair)) => pair,
            None => unnamed(runtime, value_type, index_type)?,
        });
        Ok(())
    })
}

fn unnamed(
    runtime: &'static Runtime,
    value: MPI_Datatype,
    index: MPI_Datatype,
) -> weft::Result<MPI_Datatype> {
    let number = |handle| predefined(handle).or_else(|| of_fortran(runtime, handle));
    let pair = number(value).zip(number(index)).and_then(|(value, index)| Pair::new(value, index));
    let Some(pair) = pair else { return Ok(MPI_DATATYPE_NULL) };
    let mut unnamed = lock(&UNNAMED);
    let key = (value.value(), index.value());
    if let Some(&handle) = unnamed.get(&key) {
        return Ok(MPI_Datatype::from_value(handle));
    }
    let made = Made::by(MPI_COMBINER_VALUE_INDEX, Form::Int);
    let made = made.of(Part::of(runtime, value)?).of(Part::of(runtime, index)?);
    let handle = adopt_permanent(runtime, pair.datatype().map_err(refused)?, made, Meaning::Pair(pair))?;
    unnamed.insert(key, handle.value());
    Ok(handle)
}

/// What a datatype stands for that was asked for by precision and range, which is predefined, too.
fn of_fortran(runtime: &'static Runtime, handle: MPI_Datatype) -> Option<Predefined> {
    match meaning(runtime, handle)? {
        Meaning::Number(predefined) => Some(predefined),
        Meaning::Pair(_) => None,
    }
}

/// Values, indices, and the datatypes of both together.
const PAIRS: [(MPI_Datatype, MPI_Datatype, MPI_Datatype); 9] = [
    (MPI_FLOAT, MPI_INT, MPI_FLOAT_INT),
    (MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT),
    (MPI_LONG, MPI_INT, MPI_LONG_INT),
    (MPI_INT, MPI_INT, MPI_2INT),
    (MPI_SHORT, MPI_INT, MPI_SHORT_INT),
    (MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT),
    (MPI_REAL, MPI_REAL, MPI_2REAL),
    (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION),
    (MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::fortran_types::mpi_type_create_f90_real;
    use crate::bodies::testing;

    #[test]
    fn pairs_are_found_by_value_and_index() {
        let runtime = testing::start();
        let find = |value, index| {
            let mut found = MPI_INT;
            let code = mpi_type_get_value_index(value, index, Place::of(&mut found));
            if code == MPI_SUCCESS { Ok(found) } else { Err(code) }
        };
        for &(value, index, pair) in &PAIRS {
            let parts = predefined(pair).and_then(|pair| pair.basic().pair());
            let of = |handle| predefined(handle).map(Predefined::basic);
            assert_eq!(parts, of(value).zip(of(index)), "{pair:?}");
            assert_eq!(find(value, index), Ok(pair));
        }
        assert_eq!(find(MPI_DOUBLE, MPI_CHAR), Ok(MPI_DATATYPE_NULL));
        let unnamed = find(MPI_DOUBLE, MPI_LONG).expect("both have an order");
        assert_eq!(
            (find(MPI_DOUBLE, MPI_LONG), find(MPI_LONG, MPI_DOUBLE) == Ok(unnamed)),
            (Ok(unnamed), false)
        );
        let pair = Pair::new(Predefined::Double, Predefined::Long).map(Meaning::Pair);
        assert_eq!(meaning(runtime, unnamed), pair);
        assert_eq!(meaning(runtime, MPI_DOUBLE_INT), None);
        assert_eq!(find(MPI_DATATYPE_NULL, MPI_INT), Err(MPI_ERR_TYPE));
        let mut real = MPI_DATATYPE_NULL;
        assert_eq!(mpi_type_create_f90_real(15, 300, Place::of(&mut real)), MPI_SUCCESS);
        let of_real = find(real, MPI_LONG).expect("both have an order");
        let pair = Pair::new(Predefined::Real8, Predefined::Long).map(Meaning::Pair);
        assert_eq!(meaning(runtime, of_real), pair);
        assert_eq!(find(real, real), Ok(MPI_DATATYPE_NULL));
        assert_eq!(find(of_real, MPI_INT), Ok(MPI_DATATYPE_NULL));
    }
}
