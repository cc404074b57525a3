//! Datatypes by the precision and range that a Fortran program asks for (MPI 5.0 §19.1.9).
//!
//! Each question (combiner, precision, range) has one handle, however often it is asked. Like a predefined
//! datatype the handle is committed and cannot be freed, but it says how it was asked for.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

use datatype::Predefined;
use weft::{Class, Error, Result};

use crate::bodies::datatype_contents::{Form, Made};
use crate::bodies::datatypes::adopt_permanent;
use crate::claims::Place;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{Meaning, lock};
use crate::state::{Runtime, call};
use crate::types::*;

/// A question: the combiner, and its numbers.
type Question = (c_int, Vec<c_int>);

/// The handles that were given as answers.
static ANSWERS: Mutex<BTreeMap<Question, usize>> = Mutex::new(BTreeMap::new());

fn answer(runtime: &'static Runtime, question: Question, found: Option<Predefined>) -> Result<MPI_Datatype> {
    let mut answers = lock(&ANSWERS);
    if let Some(&handle) = answers.get(&question) {
        return Ok(MPI_Datatype::from_value(handle));
    }
    let Some(found) = found else {
        let what = format!("no datatype has the precision and range {:?}", question.1);
        return Err(Error::new(Class::Argument, what));
    };
    let made = Made::by(question.0, Form::Int).integers(&question.1);
    let handle = adopt_permanent(runtime, found.datatype().duplicate(), made, Meaning::Number(found))?;
    answers.insert(question, handle.value());
    Ok(handle)
}

fn ask(
    name: &'static str,
    question: Question,
    newtype: Place<'_, MPI_Datatype>,
    find: impl FnOnce() -> Option<Predefined>,
) -> c_int {
    call(name, Target::World, |runtime| {
        let place = newtype.checked("newtype")?;
        place.set(answer(runtime, question, find())?);
        Ok(())
    })
}

/// The first row that has both the precision and the range in decimal digits; `MPI_UNDEFINED` asks for
/// nothing.
fn floating(rows: &[(c_int, c_int, Predefined)], precision: c_int, range: c_int) -> Option<Predefined> {
    let asked = |number| if number == MPI_UNDEFINED { 0 } else { number };
    if precision == MPI_UNDEFINED && range == MPI_UNDEFINED {
        return None;
    }
    let fits = |row: &&(c_int, c_int, Predefined)| asked(precision) <= row.0 && asked(range) <= row.1;
    rows.iter().find(fits).map(|row| row.2)
}

/// The datatype of `REAL` with that precision and range.
pub fn mpi_type_create_f90_real(p: c_int, r: c_int, newtype: Place<'_, MPI_Datatype>) -> c_int {
    let question = (MPI_COMBINER_F90_REAL, vec![p, r]);
    ask("MPI_Type_create_f90_real", question, newtype, || floating(&REALS, p, r))
}

/// The datatype of `COMPLEX` with that precision and range.
pub fn mpi_type_create_f90_complex(p: c_int, r: c_int, newtype: Place<'_, MPI_Datatype>) -> c_int {
    let question = (MPI_COMBINER_F90_COMPLEX, vec![p, r]);
    ask("MPI_Type_create_f90_complex", question, newtype, || floating(&COMPLEXES, p, r))
}

/// The datatype of `INTEGER` with that range.
pub fn mpi_type_create_f90_integer(r: c_int, newtype: Place<'_, MPI_Datatype>) -> c_int {
    let find = || INTEGERS.iter().find(|row| r <= row.0).map(|row| row.1);
    ask("MPI_Type_create_f90_integer", (MPI_COMBINER_F90_INTEGER, vec![r]), newtype, find)
}

/// Decimal digits, decimal exponent.
const REALS: [(c_int, c_int, Predefined); 3] = [
    (f32::DIGITS as c_int, 37, Predefined::Real4),
    (f64::DIGITS as c_int, 307, Predefined::Real8),
    (33, 4931, Predefined::Real16),
];
const COMPLEXES: [(c_int, c_int, Predefined); 3] = [
    (f32::DIGITS as c_int, 37, Predefined::Complex8),
    (f64::DIGITS as c_int, 307, Predefined::Complex16),
    (33, 4931, Predefined::Complex32),
];
/// Decimal digits that always fit.
const INTEGERS: [(c_int, Predefined); 5] = [
    (2, Predefined::Integer1),
    (4, Predefined::Integer2),
    (9, Predefined::Integer4),
    (18, Predefined::Integer8),
    (38, Predefined::Integer16),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::datatype_contents::{mpi_type_get_contents, mpi_type_get_envelope};
    use crate::bodies::datatypes::{mpi_type_free, resolve_committed};
    use crate::bodies::testing::{self, Answer};
    use crate::claims::{Places, Variable};

    type TypeConstructor = fn(c_int, c_int, Place<'_, MPI_Datatype>) -> c_int;

    /// The size of what is found, twice asked.
    fn size(ask: TypeConstructor, p: c_int, r: c_int) -> Answer<i64> {
        let runtime = testing::start();
        let mut found = [MPI_DATATYPE_NULL; 2];
        for place in &mut found {
            let code = ask(p, r, Place::of(place));
            if code != MPI_SUCCESS {
                return Err(code);
            }
        }
        assert_eq!(found[0], found[1], "one question, one handle");
        Ok(resolve_committed(runtime, found[0]).unwrap().size())
    }

    fn integer(_: c_int, r: c_int, newtype: Place<'_, MPI_Datatype>) -> c_int {
        mpi_type_create_f90_integer(r, newtype)
    }

    #[test]
    fn the_smallest_that_suffices_is_found() {
        for (p, r, bytes) in [
            (6, 30, 4),
            (7, 30, 8),
            (6, 38, 8),
            (15, 307, 8),
            (16, 10, 16),
            (6, 308, 16),
            (33, 4931, 16),
            (MPI_UNDEFINED, 37, 4),
        ] {
            assert_eq!(size(mpi_type_create_f90_real, p, r), Ok(bytes), "{p} {r}");
            assert_eq!(size(mpi_type_create_f90_complex, p, r), Ok(2 * bytes), "{p} {r}");
        }
        for (r, bytes) in [(1, 1), (2, 1), (3, 2), (9, 4), (10, 8), (18, 8), (19, 16)] {
            assert_eq!(size(integer, 0, r), Ok(bytes), "{r}");
        }
        for (p, r) in [(34, 10), (6, 4932), (MPI_UNDEFINED, MPI_UNDEFINED)] {
            assert_eq!(size(mpi_type_create_f90_real, p, r), Err(MPI_ERR_ARG));
        }
        assert_eq!(size(integer, 0, 39), Err(MPI_ERR_ARG));
        assert_eq!(mpi_type_create_f90_integer(3, Place::NULL), MPI_ERR_ARG);
    }

    #[test]
    fn they_say_what_was_asked_and_stay() {
        testing::start();
        let (mut made, mut lengths, mut asked) = (MPI_DATATYPE_NULL, [-1; 4], [0; 2]);
        let [integers, addresses, types, combiner] = lengths.each_mut().map(Place::of);
        assert_eq!(mpi_type_create_f90_real(15, 300, Place::of(&mut made)), MPI_SUCCESS);
        assert_eq!(mpi_type_get_envelope(made, integers, addresses, types, combiner), MPI_SUCCESS);
        let list = Places::of(&mut asked);
        assert_eq!(mpi_type_get_contents(made, 2, 0, 0, list, Places::NULL, Places::NULL), MPI_SUCCESS);
        let mut copy = made;
        assert_eq!(mpi_type_free(Variable::of(&mut copy)), MPI_ERR_TYPE);
        assert_eq!((lengths, asked), ([2, 0, 0, MPI_COMBINER_F90_REAL], [15, 300]));
    }
}
