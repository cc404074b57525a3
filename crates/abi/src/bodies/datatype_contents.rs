//! How a datatype was made, kept so that a program can take it apart again (MPI 5.0 §5.1.13).
//!
//! A constructor's arguments go to three lists: those that are `int` in every form of the call, those that are
//! addresses in the form with `int` counts, and counts. The form ending in `_c` has all its counts, addresses
//! included, in a list of large counts; the other form has its counts among the integers.

use std::ffi::c_int;
use std::sync::Arc;

use datatype::Datatype;
use weft::{Class, Error, Result};

use crate::bodies::datatypes::{adopt, no_type, predefined};
use crate::bodies::pointers::{Place, check_array};
use crate::convert::{Counts, Displacements};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::state::{Runtime, call};
use crate::types::*;

/// The arguments of the constructor that made a datatype.
#[derive(Debug, Default)]
pub(crate) struct Made {
    combiner: c_int,
    large: bool,
    integers: Vec<c_int>,
    addresses: Vec<MPI_Aint>,
    large_counts: Vec<MPI_Count>,
    types: Vec<Part>,
}

/// A datatype that another one was made of, whatever becomes of its handle.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// One that nobody can free.
    Permanent(MPI_Datatype),
    /// One of the program's own.
    Own(Datatype, Arc<Made>),
}

/// In which form a constructor was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// With `int` counts.
    Int,
    /// With large counts.
    Large,
}

impl From<Counts> for Form {
    fn from(counts: Counts) -> Form {
        if matches!(counts, Counts::Count(_)) { Form::Large } else { Form::Int }
    }
}

impl From<Displacements> for Form {
    fn from(displacements: Displacements) -> Form {
        if matches!(displacements, Displacements::Count(_)) { Form::Large } else { Form::Int }
    }
}

impl Made {
    pub(crate) fn by(combiner: c_int, form: Form) -> Made {
        Made { combiner, large: form == Form::Large, ..Made::default() }
    }

    /// An argument that is an `int` in both forms.
    pub(crate) fn integer(self, integer: c_int) -> Made {
        self.integers(&[integer])
    }

    /// Arguments that are `int` in both forms.
    pub(crate) fn integers(mut self, integers: &[c_int]) -> Made {
        self.integers.extend(integers);
        self
    }

    /// An argument that is a count.
    pub(crate) fn count(self, count: i64) -> Made {
        self.counts(&[count])
    }

    /// Arguments that are counts. Those of the form with `int` came from an `int`.
    pub(crate) fn counts(mut self, counts: &[i64]) -> Made {
        if self.large {
            self.large_counts.extend(counts);
        } else {
            self.integers.extend(counts.iter().map(|&count| count as c_int));
        }
        self
    }

    /// Arguments that are addresses in the form with `int` counts.
    pub(crate) fn addresses(mut self, addresses: &[i64]) -> Made {
        if self.large {
            self.large_counts.extend(addresses);
        } else {
            self.addresses.extend(addresses.iter().map(|&address| address as MPI_Aint));
        }
        self
    }

    /// A datatype among the arguments.
    pub(crate) fn of(mut self, part: Part) -> Made {
        self.types.push(part);
        self
    }

    fn lengths(&self) -> [usize; 4] {
        [self.integers.len(), self.addresses.len(), self.large_counts.len(), self.types.len()]
    }
}

impl Part {
    /// The datatype behind a handle, as a part of another.
    pub(crate) fn of(runtime: &'static Runtime, handle: MPI_Datatype) -> Result<Part> {
        if predefined(handle).is_some() {
            return Ok(Part::Permanent(handle));
        }
        let objects = runtime.objects();
        let object = objects.datatype(handle).ok_or_else(|| no_type(handle))?;
        Ok(match object.permanent.is_some() {
            true => Part::Permanent(handle),
            false => Part::Own(object.datatype.clone(), object.made.clone()),
        })
    }

    /// A handle for the program, which frees it unless it is permanent.
    fn hand_out(&self, runtime: &'static Runtime) -> Result<MPI_Datatype> {
        match self {
            Part::Permanent(handle) => Ok(*handle),
            Part::Own(datatype, made) => adopt(runtime, datatype.clone(), made.clone()),
        }
    }
}

/// How a datatype was made; `None` for predefined ones.
fn made(runtime: &'static Runtime, handle: MPI_Datatype) -> Result<Option<Arc<Made>>> {
    if predefined(handle).is_some() {
        return Ok(None);
    }
    let objects = runtime.objects();
    let object = objects.datatype(handle).ok_or_else(|| no_type(handle))?;
    Ok(Some(object.made.clone()))
}

fn combiner_and_lengths(made: Option<&Made>) -> (c_int, [usize; 4]) {
    made.map_or((MPI_COMBINER_NAMED, [0; 4]), |made| (made.combiner, made.lengths()))
}

#[cold]
fn made_of_large_counts(remedy: &str) -> Error {
    let what = "the datatype was made by a function that ends in _c, with large counts";
    Error::new(Class::Type, what).remedy(remedy)
}

/// Which constructor made a datatype, and how long the lists of its arguments are.
///
/// # Safety
/// All pointers are null or writable.
pub unsafe fn mpi_type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    call("MPI_Type_get_envelope", Target::World, |runtime| {
        let made = made(runtime, datatype)?;
        let (name, lengths) = combiner_and_lengths(made.as_deref());
        if lengths[2] > 0 {
            return Err(made_of_large_counts("call MPI_Type_get_envelope_c"));
        }
        // SAFETY: the program's promise is handed on.
        let places = unsafe {
            [
                Place::new(num_integers, "num_integers")?,
                Place::new(num_addresses, "num_addresses")?,
                Place::new(num_datatypes, "num_datatypes")?,
            ]
        };
        // SAFETY: as above.
        unsafe { Place::new(combiner, "combiner")? }.set(name);
        for (place, length) in places.into_iter().zip([lengths[0], lengths[1], lengths[3]]) {
            place.set(length as c_int);
        }
        Ok(())
    })
}

/// As [`mpi_type_get_envelope`], for datatypes of either form.
///
/// # Safety
/// As for [`mpi_type_get_envelope`].
pub unsafe fn mpi_type_get_envelope_c(
    datatype: MPI_Datatype,
    num_integers: *mut MPI_Count,
    num_addresses: *mut MPI_Count,
    num_large_counts: *mut MPI_Count,
    num_datatypes: *mut MPI_Count,
    combiner: *mut c_int,
) -> c_int {
    call("MPI_Type_get_envelope_c", Target::World, |runtime| {
        let made = made(runtime, datatype)?;
        let (name, lengths) = combiner_and_lengths(made.as_deref());
        // SAFETY: the program's promise is handed on.
        let places = unsafe {
            [
                Place::new(num_integers, "num_integers")?,
                Place::new(num_addresses, "num_addresses")?,
                Place::new(num_large_counts, "num_large_counts")?,
                Place::new(num_datatypes, "num_datatypes")?,
            ]
        };
        // SAFETY: as above.
        unsafe { Place::new(combiner, "combiner")? }.set(name);
        places.into_iter().zip(lengths).for_each(|(place, length)| place.set(length as MPI_Count));
        Ok(())
    })
}

/// A list of the program's for arguments of one kind.
struct List<T> {
    name: &'static str,
    start: *mut T,
    room: i64,
}

impl<T> List<T> {
    fn check(&self, needed: usize) -> Result<()> {
        let List { name, start, room } = *self;
        check_array(start, needed as i64, name)?;
        if room < needed as i64 {
            let what = format!("{name} has {room} places, {needed} are needed");
            return Err(Error::new(Class::Argument, what).remedy("ask MPI_Type_get_envelope for the lengths"));
        }
        Ok(())
    }
}

/// The arguments of the constructor that made a datatype. Datatypes among them are new references.
///
/// # Safety
/// The arrays are null or have as many elements as is said.
pub unsafe fn mpi_type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    call("MPI_Type_get_contents", Target::World, |runtime| {
        let made = taken_apart(runtime, datatype)?;
        if !made.large_counts.is_empty() {
            return Err(made_of_large_counts("call MPI_Type_get_contents_c"));
        }
        let integers =
            List { name: "array_of_integers", start: array_of_integers, room: max_integers.into() };
        let addresses =
            List { name: "array_of_addresses", start: array_of_addresses, room: max_addresses.into() };
        let types =
            List { name: "array_of_datatypes", start: array_of_datatypes, room: max_datatypes.into() };
        let counts = List { name: "array_of_large_counts", start: std::ptr::null_mut(), room: 0 };
        // SAFETY: the program's promise is handed on.
        unsafe { tell(runtime, &made, &integers, &addresses, &counts, &types) }
    })
}

/// As [`mpi_type_get_contents`], for datatypes of either form.
///
/// # Safety
/// As for [`mpi_type_get_contents`].
pub unsafe fn mpi_type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    call("MPI_Type_get_contents_c", Target::World, |runtime| {
        let made = taken_apart(runtime, datatype)?;
        let integers = List { name: "array_of_integers", start: array_of_integers, room: max_integers };
        let addresses = List { name: "array_of_addresses", start: array_of_addresses, room: max_addresses };
        let counts =
            List { name: "array_of_large_counts", start: array_of_large_counts, room: max_large_counts };
        let types = List { name: "array_of_datatypes", start: array_of_datatypes, room: max_datatypes };
        // SAFETY: the program's promise is handed on.
        unsafe { tell(runtime, &made, &integers, &addresses, &counts, &types) }
    })
}

fn taken_apart(runtime: &'static Runtime, datatype: MPI_Datatype) -> Result<Arc<Made>> {
    made(runtime, datatype)?.ok_or_else(|| {
        Error::new(Class::Type, "a predefined datatype is not made of anything")
            .remedy("ask MPI_Type_get_envelope for the combiner first")
    })
}

/// # Safety
/// The lists are null or have as much room as they say.
unsafe fn tell(
    runtime: &'static Runtime,
    made: &Made,
    integers: &List<c_int>,
    addresses: &List<MPI_Aint>,
    counts: &List<MPI_Count>,
    types: &List<MPI_Datatype>,
) -> Result<()> {
    let needed = made.lengths();
    integers.check(needed[0])?;
    addresses.check(needed[1])?;
    counts.check(needed[2])?;
    types.check(needed[3])?;
    let handles: Result<Vec<MPI_Datatype>> = made.types.iter().map(|part| part.hand_out(runtime)).collect();
    // SAFETY: each list was checked to have room for what is copied to it, and not to be null where that is
    // anything.
    unsafe {
        put(handles?.as_slice(), types.start);
        put(&made.integers, integers.start);
        put(&made.addresses, addresses.start);
        put(&made.large_counts, counts.start);
    }
    Ok(())
}

/// # Safety
/// `to` has room for all values, unless there are none.
unsafe fn put<T: Copy>(values: &[T], to: *mut T) {
    if !values.is_empty() {
        // SAFETY: the caller promised the room; it is the program's, and `values` is ours.
        unsafe { to.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    }
}

#[cfg(test)]
#[path = "datatype_contents_tests.rs"]
mod tests;
