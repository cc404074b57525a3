//! Arguments that exist in two widths.
//!
//! `MPI_Gatherv` takes `const int recvcounts[]`, `MPI_Gatherv_c` takes `const MPI_Count recvcounts[]`; one body serves
//! both. The generated functions wrap what came in one of the enums below, and the body reads and writes 64-bit values.
//! Nothing is copied: an element is widened when it is looked at.

use std::ffi::c_int;

use crate::generated::constants::MPI_UNDEFINED;
use crate::types::{
    MPI_Aint, MPI_Count, MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c,
    MPI_User_function, MPI_User_function_c,
};

/// An array of element counts that the caller owns.
#[derive(Clone, Copy, Debug)]
pub enum Counts {
    /// From the `int` form.
    Int(*const c_int),
    /// From the large-count form.
    Count(*const MPI_Count),
}

impl Counts {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            Counts::Int(array) => array.is_null(),
            Counts::Count(array) => array.is_null(),
        }
    }

    /// The count at `index`.
    ///
    /// # Safety
    /// The array must be readable and have more than `index` elements.
    pub unsafe fn at(self, index: usize) -> i64 {
        // SAFETY: the caller promised an element there.
        unsafe {
            match self {
                Counts::Int(array) => i64::from(array.add(index).read()),
                Counts::Count(array) => array.add(index).read(),
            }
        }
    }
}

/// An array of displacements that the caller owns; in elements or in bytes, as the function says.
#[derive(Clone, Copy, Debug)]
pub enum Displacements {
    /// From an `int` form.
    Int(*const c_int),
    /// From a form with addresses.
    Aint(*const MPI_Aint),
    /// From the large-count form of a datatype constructor.
    Count(*const MPI_Count),
}

impl Displacements {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            Displacements::Int(array) => array.is_null(),
            Displacements::Aint(array) => array.is_null(),
            Displacements::Count(array) => array.is_null(),
        }
    }

    /// The displacement at `index`.
    ///
    /// # Safety
    /// The array must be readable and have more than `index` elements.
    pub unsafe fn at(self, index: usize) -> i64 {
        // SAFETY: the caller promised an element there.
        unsafe {
            match self {
                Displacements::Int(array) => i64::from(array.add(index).read()),
                Displacements::Aint(array) => array.add(index).read() as i64,
                Displacements::Count(array) => array.add(index).read(),
            }
        }
    }
}

/// A number that goes back to the caller, and for positions also comes from there.
#[derive(Clone, Copy, Debug)]
pub enum CountOut {
    /// From the `int` form.
    Int(*mut c_int),
    /// From a form with addresses.
    Aint(*mut MPI_Aint),
    /// From the large-count form.
    Count(*mut MPI_Count),
}

impl CountOut {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            CountOut::Int(place) => place.is_null(),
            CountOut::Aint(place) => place.is_null(),
            CountOut::Count(place) => place.is_null(),
        }
    }

    /// The number that stands there, for arguments that go both ways such as the position of a pack buffer.
    ///
    /// # Safety
    /// The pointer must be readable and its number set.
    pub unsafe fn read(self) -> i64 {
        // SAFETY: the caller promised a number there.
        unsafe {
            match self {
                CountOut::Int(place) => i64::from(place.read()),
                CountOut::Aint(place) => place.read() as i64,
                CountOut::Count(place) => place.read(),
            }
        }
    }

    /// Stores `value`, or nothing when the caller's type cannot hold it.
    ///
    /// # Safety
    /// The pointer must be writable.
    pub unsafe fn write(self, value: i64) -> Result<(), Overflow> {
        let refused = Overflow { value };
        // SAFETY: the caller promised a writable place.
        unsafe {
            match self {
                CountOut::Int(place) => place.write(c_int::try_from(value).map_err(|_| refused)?),
                CountOut::Aint(place) => place.write(MPI_Aint::try_from(value).map_err(|_| refused)?),
                CountOut::Count(place) => place.write(value),
            }
        }
        Ok(())
    }

    /// Stores `value`, or `MPI_UNDEFINED` when the caller's type cannot hold it: the rule of the calls that ask for
    /// sizes, counts and extents (MPI 5.0 §3.2.5, §5.1).
    ///
    /// # Safety
    /// The pointer must be writable.
    pub unsafe fn write_or_undefined(self, value: i64) {
        // SAFETY: the caller promised a writable place; the second number fits every type.
        unsafe {
            if self.write(value).is_err() {
                let _ = self.write(i64::from(MPI_UNDEFINED));
            }
        }
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
    /// It takes its length as an `int`, so long vectors are handed to it in pieces.
    Int(MPI_User_function),
    /// It takes its length as an `MPI_Count`.
    Count(MPI_User_function_c),
}

impl UserFunction {
    /// The caller passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            UserFunction::Int(function) => function.value() == 0,
            UserFunction::Count(function) => function.value() == 0,
        }
    }
}

/// A conversion function of a user-defined data representation; 0 means that none is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatarepFunction {
    /// It takes its count as an `int`.
    Int(MPI_Datarep_conversion_function),
    /// It takes its count as an `MPI_Count`.
    Count(MPI_Datarep_conversion_function_c),
}

impl DatarepFunction {
    /// The caller passed `MPI_CONVERSION_FN_NULL` or its large-count form.
    pub fn is_null(self) -> bool {
        match self {
            DatarepFunction::Int(function) => function.value() == 0,
            DatarepFunction::Count(function) => function.value() == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn counts_widen_with_their_sign() {
        let narrow = [7, -1, c_int::MIN];
        let wide = [1 << 40, -2];
        // SAFETY: every index is inside its array.
        let found = unsafe {
            [1, 2]
                .map(|i| Counts::Int(narrow.as_ptr()).at(i))
                .into_iter()
                .chain([0, 1].map(|i| Counts::Count(wide.as_ptr()).at(i)))
        };
        assert_eq!(found.collect::<Vec<_>>(), [-1, i64::from(c_int::MIN), 1 << 40, -2]);
    }

    #[test]
    fn displacements_widen_with_their_sign() {
        let (narrow, address, wide) = ([-5], [-6isize], [-7i64]);
        // SAFETY: index 0 is inside each array.
        let found = unsafe {
            [
                Displacements::Int(narrow.as_ptr()).at(0),
                Displacements::Aint(address.as_ptr()).at(0),
                Displacements::Count(wide.as_ptr()).at(0),
            ]
        };
        assert_eq!(found, [-5, -6, -7]);
    }

    #[test]
    fn null_is_seen_in_every_form() {
        assert!(Counts::Int(null()).is_null() && Counts::Count(null()).is_null());
        assert!(Displacements::Aint(null()).is_null() && !Displacements::Int(&1).is_null());
        assert!(CountOut::Count(std::ptr::null_mut()).is_null());
        assert!(UserFunction::Int(MPI_User_function::from_value(0)).is_null());
        assert!(!DatarepFunction::Count(MPI_Datarep_conversion_function_c::from_value(0x1000)).is_null());
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_the_place_alone() {
        let mut place: c_int = 3;
        let out = CountOut::Int(&raw mut place);
        let too_much = i64::from(c_int::MAX) + 1;
        // SAFETY: `place` lives to the end of the test.
        unsafe {
            assert_eq!(out.write(too_much), Err(Overflow { value: too_much }));
            assert_eq!(out.read(), 3);
            assert_eq!(out.write(too_much - 1), Ok(()));
            assert_eq!(out.read(), too_much - 1);
            out.write_or_undefined(too_much);
        }
        assert_eq!(place, MPI_UNDEFINED);
    }

    #[test]
    fn large_forms_hold_everything() {
        let mut place = 0i64;
        // SAFETY: `place` lives to the end of the test.
        unsafe { CountOut::Count(&raw mut place).write_or_undefined(i64::MIN) };
        assert_eq!(place, i64::MIN);
    }
}
