//! How a datatype was made, kept so that a program can take it apart again (MPI 5.0 §5.1.13).
//!
//! A constructor's arguments go to three lists: those that are `int` in every form of the call, those that
//! are addresses in the form with `int` counts, and counts. The form ending in `_c` has all its counts,
//! addresses included, in a list of large counts; the other form has its counts among the integers.

use std::ffi::c_int;
use std::sync::Arc;

use datatype::Datatype;
use weft::{Class, Error, Result};

use crate::bodies::datatypes::{adopt, no_type, predefined};
use crate::claims::{Place, Places, Slots};
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

/// A datatype that a derived datatype was made of. It is kept although the program may free its handle.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// A predefined datatype, or one that cannot be freed: its handle.
    Permanent(MPI_Datatype),
    /// A derived datatype of the program, and how it was made.
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

impl From<Counts<'_>> for Form {
    fn from(counts: Counts<'_>) -> Form {
        if matches!(counts, Counts::Count(_)) { Form::Large } else { Form::Int }
    }
}

impl From<Displacements<'_>> for Form {
    fn from(displacements: Displacements<'_>) -> Form {
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
pub fn mpi_type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: Place<'_, c_int>,
    num_addresses: Place<'_, c_int>,
    num_datatypes: Place<'_, c_int>,
    combiner: Place<'_, c_int>,
) -> c_int {
    call("MPI_Type_get_envelope", Target::World, |runtime| {
        let made = made(runtime, datatype)?;
        let (name, lengths) = combiner_and_lengths(made.as_deref());
        if lengths[2] > 0 {
            return Err(made_of_large_counts("call MPI_Type_get_envelope_c"));
        }
        let places = [
            num_integers.checked("num_integers")?,
            num_addresses.checked("num_addresses")?,
            num_datatypes.checked("num_datatypes")?,
        ];
        combiner.checked("combiner")?.set(name);
        for (place, length) in places.into_iter().zip([lengths[0], lengths[1], lengths[3]]) {
            place.set(length as c_int);
        }
        Ok(())
    })
}

/// Which constructor made a datatype, and how long the lists of its arguments are. Large counts have a list
/// of their own, so it answers for constructors with `int` counts and for those with large counts.
pub fn mpi_type_get_envelope_c(
    datatype: MPI_Datatype,
    num_integers: Place<'_, MPI_Count>,
    num_addresses: Place<'_, MPI_Count>,
    num_large_counts: Place<'_, MPI_Count>,
    num_datatypes: Place<'_, MPI_Count>,
    combiner: Place<'_, c_int>,
) -> c_int {
    call("MPI_Type_get_envelope_c", Target::World, |runtime| {
        let made = made(runtime, datatype)?;
        let (name, lengths) = combiner_and_lengths(made.as_deref());
        let places = [
            num_integers.checked("num_integers")?,
            num_addresses.checked("num_addresses")?,
            num_large_counts.checked("num_large_counts")?,
            num_datatypes.checked("num_datatypes")?,
        ];
        combiner.checked("combiner")?.set(name);
        places.into_iter().zip(lengths).for_each(|(place, length)| place.set(length as MPI_Count));
        Ok(())
    })
}

/// A list of the program's for arguments of one kind.
struct ContentsArrays<'call, T> {
    name: &'static str,
    start: Places<'call, T>,
    room: i64,
}

impl<'call, T: Copy> ContentsArrays<'call, T> {
    fn check(&self, needed: usize) -> Result<Slots<'call, T>> {
        let ContentsArrays { name, start, room } = *self;
        let slots = start.checked(needed as i64, name)?;
        if room < needed as i64 {
            let what = format!("{name} has {room} places, {needed} are needed");
            return Err(Error::new(Class::Argument, what).remedy("ask MPI_Type_get_envelope for the lengths"));
        }
        Ok(slots)
    }
}

/// The arguments of the constructor that made a datatype. Datatypes among them are new references.
pub fn mpi_type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: Places<'_, c_int>,
    array_of_addresses: Places<'_, MPI_Aint>,
    array_of_datatypes: Places<'_, MPI_Datatype>,
) -> c_int {
    call("MPI_Type_get_contents", Target::World, |runtime| {
        let made = taken_apart(runtime, datatype)?;
        if !made.large_counts.is_empty() {
            return Err(made_of_large_counts("call MPI_Type_get_contents_c"));
        }
        let integers =
            ContentsArrays { name: "array_of_integers", start: array_of_integers, room: max_integers.into() };
        let addresses = ContentsArrays {
            name: "array_of_addresses",
            start: array_of_addresses,
            room: max_addresses.into(),
        };
        let types = ContentsArrays {
            name: "array_of_datatypes",
            start: array_of_datatypes,
            room: max_datatypes.into(),
        };
        let counts = ContentsArrays { name: "array_of_large_counts", start: Places::NULL, room: 0 };
        tell(runtime, &made, &integers, &addresses, &counts, &types)
    })
}

/// The arguments of the constructor that made a datatype, whether it took `int` counts or large ones.
/// Datatypes among them are new references.
pub fn mpi_type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: Places<'_, c_int>,
    array_of_addresses: Places<'_, MPI_Aint>,
    array_of_large_counts: Places<'_, MPI_Count>,
    array_of_datatypes: Places<'_, MPI_Datatype>,
) -> c_int {
    call("MPI_Type_get_contents_c", Target::World, |runtime| {
        let made = taken_apart(runtime, datatype)?;
        let integers =
            ContentsArrays { name: "array_of_integers", start: array_of_integers, room: max_integers };
        let addresses =
            ContentsArrays { name: "array_of_addresses", start: array_of_addresses, room: max_addresses };
        let counts = ContentsArrays {
            name: "array_of_large_counts",
            start: array_of_large_counts,
            room: max_large_counts,
        };
        let types =
            ContentsArrays { name: "array_of_datatypes", start: array_of_datatypes, room: max_datatypes };
        tell(runtime, &made, &integers, &addresses, &counts, &types)
    })
}

fn taken_apart(runtime: &'static Runtime, datatype: MPI_Datatype) -> Result<Arc<Made>> {
    made(runtime, datatype)?.ok_or_else(|| {
        Error::new(Class::Type, "a predefined datatype is not made of anything")
            .remedy("ask MPI_Type_get_envelope for the combiner first")
    })
}

fn tell(
    runtime: &'static Runtime,
    made: &Made,
    integers: &ContentsArrays<'_, c_int>,
    addresses: &ContentsArrays<'_, MPI_Aint>,
    counts: &ContentsArrays<'_, MPI_Count>,
    types: &ContentsArrays<'_, MPI_Datatype>,
) -> Result<()> {
    let needed = made.lengths();
    let (integers, addresses) = (integers.check(needed[0])?, addresses.check(needed[1])?);
    let (counts, types) = (counts.check(needed[2])?, types.check(needed[3])?);
    let handles: Result<Vec<MPI_Datatype>> = made.types.iter().map(|part| part.hand_out(runtime)).collect();
    types.put(handles?.as_slice());
    integers.put(&made.integers);
    addresses.put(&made.addresses);
    counts.put(&made.large_counts);
    Ok(())
}

#[cfg(test)]
#[path = "datatype_contents_tests.rs"]
mod tests;
