//! Arguments that exist in two widths.
//!
//! `MPI_Gatherv` takes `const int recvcounts[]`, `MPI_Gatherv_c` takes `const MPI_Count recvcounts[]`; one
//! body serves both. The generated functions wrap what came in one of the enums below, and the body reads and
//! writes 64-bit values. Nothing is copied: an element is widened when it is looked at.

use std::ffi::c_int;

use weft::Result;

use crate::claims::{Callback, List, Place, Variable, null};
use crate::generated::constants::MPI_UNDEFINED;
use crate::types::{
    MPI_Aint, MPI_Count, MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c,
    MPI_User_function, MPI_User_function_c,
};

/// An array of element counts that the caller owns.
#[derive(Clone, Copy)]
pub enum Counts<'call> {
    /// From the `int` form.
    Int(List<'call, c_int>),
    /// From the large-count form.
    Count(List<'call, MPI_Count>),
}

impl Counts<'_> {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            Counts::Int(array) => array.is_null(),
            Counts::Count(array) => array.is_null(),
        }
    }

    /// The count at `index`, which is one of those that the array has.
    #[inline]
    pub(crate) fn at(self, index: usize) -> i64 {
        match self {
            Counts::Int(array) => i64::from(array.at(index)),
            Counts::Count(array) => array.at(index),
        }
    }

    /// The counts of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) for a null pointer where there should be elements, and for
    /// a negative count.
    pub(crate) fn numbers(self, count: i64, name: &str) -> Result<Vec<i64>> {
        match self {
            Counts::Int(array) => Ok(array.slice(count, name)?.iter().copied().map(i64::from).collect()),
            Counts::Count(array) => Ok(array.slice(count, name)?.to_vec()),
        }
    }
}

/// An array of displacements that the caller owns; in elements or in bytes, as the function says.
#[derive(Clone, Copy)]
pub enum Displacements<'call> {
    /// From an `int` form.
    Int(List<'call, c_int>),
    /// From a form with addresses.
    Aint(List<'call, MPI_Aint>),
    /// From the large-count form of a datatype constructor.
    Count(List<'call, MPI_Count>),
}

impl Displacements<'_> {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            Displacements::Int(array) => array.is_null(),
            Displacements::Aint(array) => array.is_null(),
            Displacements::Count(array) => array.is_null(),
        }
    }

    /// The displacement at `index`, which is one of those that the array has.
    #[inline]
    pub(crate) fn at(self, index: usize) -> i64 {
        match self {
            Displacements::Int(array) => i64::from(array.at(index)),
            Displacements::Aint(array) => array.at(index) as i64,
            Displacements::Count(array) => array.at(index),
        }
    }

    /// The displacements of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) for a null pointer where there should be elements, and for
    /// a negative count.
    pub(crate) fn numbers(self, count: i64, name: &str) -> Result<Vec<i64>> {
        match self {
            Displacements::Int(array) => {
                Ok(array.slice(count, name)?.iter().copied().map(i64::from).collect())
            }
            Displacements::Aint(array) => Ok(array.slice(count, name)?.iter().map(|&at| at as i64).collect()),
            Displacements::Count(array) => Ok(array.slice(count, name)?.to_vec()),
        }
    }
}

/// A number that goes back to the caller.
#[derive(Clone, Copy)]
pub enum CountOut<'call> {
    /// From the `int` form.
    Int(Place<'call, c_int>),
    /// From a form with addresses.
    Aint(Place<'call, MPI_Aint>),
    /// From the large-count form.
    Count(Place<'call, MPI_Count>),
}

impl<'call> CountOut<'call> {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            CountOut::Int(place) => place.is_null(),
            CountOut::Aint(place) => place.is_null(),
            CountOut::Count(place) => place.is_null(),
        }
    }

    /// The place of the argument `name`, which is there.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) when the program passed a null pointer.
    pub(crate) fn checked(self, name: &str) -> Result<CountOut<'call>> {
        if self.is_null() { Err(null(name)) } else { Ok(self) }
    }

    /// Stores `value`, or nothing when the caller's type cannot hold it, or there is no place.
    ///
    /// # Errors
    /// When the caller's type cannot hold it.
    pub fn write(self, value: i64) -> std::result::Result<(), Overflow> {
        let refused = Overflow { value };
        match self {
            CountOut::Int(place) => place.set_if_there(c_int::try_from(value).map_err(|_| refused)?),
            CountOut::Aint(place) => place.set_if_there(MPI_Aint::try_from(value).map_err(|_| refused)?),
            CountOut::Count(place) => place.set_if_there(value),
        }
        Ok(())
    }

    /// Stores `value`, or `MPI_UNDEFINED` when the caller's type cannot hold it: the rule of the calls that
    /// ask for sizes, counts and extents (MPI 5.0 §3.2.5, §5.1).
    pub fn write_or_undefined(self, value: i64) {
        if self.write(value).is_err() {
            // It fits every type.
            let _ = self.write(i64::from(MPI_UNDEFINED));
        }
    }
}

/// A number of the caller's that is read and changed, such as the position in a pack buffer.
#[derive(Clone, Copy)]
pub enum Position<'call> {
    /// From the `int` form.
    Int(Variable<'call, c_int>),
    /// From a form with addresses.
    Aint(Variable<'call, MPI_Aint>),
    /// From the large-count form.
    Count(Variable<'call, MPI_Count>),
}

impl<'call> Position<'call> {
    /// The number of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) when the program passed a null pointer.
    pub(crate) fn read(self, name: &str) -> Result<i64> {
        Ok(match self {
            Position::Int(number) => i64::from(number.checked(name)?.get()),
            Position::Aint(number) => number.checked(name)?.get() as i64,
            Position::Count(number) => number.checked(name)?.get(),
        })
    }

    /// Stores `value`, or nothing when the caller's type cannot hold it.
    ///
    /// # Errors
    /// When the caller's type cannot hold it.
    pub(crate) fn write(self, value: i64) -> std::result::Result<(), Overflow> {
        match self {
            Position::Int(number) => CountOut::Int(number.place()),
            Position::Aint(number) => CountOut::Aint(number.place()),
            Position::Count(number) => CountOut::Count(number.place()),
        }
        .write(value)
    }
}

/// A result does not fit the type that the caller chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value} does not fit the caller's integer type\n  call the form of this function that ends in _c")]
pub struct Overflow {
    /// What was to be stored.
    pub value: i64,
}

/// A reduction function of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFunction {
    /// It takes its length as an `int`, so long vectors are handed to it in chunks.
    Int(Callback<MPI_User_function>),
    /// It takes its length as an `MPI_Count`.
    Count(Callback<MPI_User_function_c>),
}

impl UserFunction {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            UserFunction::Int(function) => function.is_null(),
            UserFunction::Count(function) => function.is_null(),
        }
    }
}

/// A conversion function of a user-defined data representation; 0 means that none is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatarepFunction {
    /// It takes its count as an `int`.
    Int(Callback<MPI_Datarep_conversion_function>),
    /// It takes its count as an `MPI_Count`.
    Count(Callback<MPI_Datarep_conversion_function_c>),
}

impl DatarepFunction {
    /// The caller passed `MPI_CONVERSION_FN_NULL` or its large-count form.
    pub fn is_null(self) -> bool {
        match self {
            DatarepFunction::Int(function) => function.is_null(),
            DatarepFunction::Count(function) => function.is_null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_widen_with_their_sign() {
        let (narrow, wide) = ([7, -1, c_int::MIN], [1 << 40, -2]);
        let (narrow, wide) = (Counts::Int(List::of(&narrow)), Counts::Count(List::of(&wide)));
        assert_eq!([narrow.at(1), narrow.at(2)], [-1, i64::from(c_int::MIN)]);
        assert_eq!(wide.numbers(2, "counts").unwrap(), [1 << 40, -2]);
        assert_eq!(narrow.numbers(3, "counts").unwrap(), [7, -1, i64::from(c_int::MIN)]);
    }

    #[test]
    fn displacements_widen_with_their_sign() {
        let (narrow, address, wide) = ([-5], [-6isize], [-7i64]);
        let all = [
            Displacements::Int(List::of(&narrow)),
            Displacements::Aint(List::of(&address)),
            Displacements::Count(List::of(&wide)),
        ];
        assert_eq!(all.map(|array| array.at(0)), [-5, -6, -7]);
        assert_eq!(all.map(|array| array.numbers(1, "starts").unwrap()[0]), [-5, -6, -7]);
    }

    #[test]
    fn null_is_seen_in_every_form() {
        assert!(Counts::Int(List::NULL).is_null() && Counts::Count(List::NULL).is_null());
        assert!(Displacements::Aint(List::NULL).is_null() && !Displacements::Int(List::of(&[1])).is_null());
        assert!(
            CountOut::Count(Place::NULL).is_null() && Position::Int(Variable::NULL).read("position").is_err()
        );
        assert!(Counts::Int(List::NULL).numbers(0, "sizes").is_ok_and(|sizes| sizes.is_empty()));
        assert!(Counts::Int(List::NULL).numbers(2, "sizes").is_err());
        let none = Callback::predefined(MPI_User_function::from_value(0));
        assert!(UserFunction::Int(none).is_null());
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_the_place_alone() {
        let mut place: c_int = 3;
        let position = Position::Int(Variable::of(&mut place));
        let too_much = i64::from(c_int::MAX) + 1;
        assert_eq!(position.write(too_much), Err(Overflow { value: too_much }));
        assert_eq!(position.read("position").unwrap(), 3);
        assert_eq!(position.write(too_much - 1), Ok(()));
        assert_eq!(position.read("position").unwrap(), too_much - 1);
        CountOut::Int(Place::of(&mut place)).write_or_undefined(too_much);
        assert_eq!(place, MPI_UNDEFINED);
    }

    #[test]
    fn large_forms_hold_everything() {
        let mut place = 0i64;
        CountOut::Count(Place::of(&mut place)).write_or_undefined(i64::MIN);
        assert_eq!(place, i64::MIN);
    }
}
