//! Datatypes: what a handle stands for, and what can be asked of it (MPI 5.0 §5.1.5 to §5.1.9, §7.8, ABI
//! chapter).
//!
//! Constructors are in `datatype_constructors`, taking apart in `datatype_contents`, packing in `packing`.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use datatype::{Datatype, DatatypeError, Predefined};
use weft::{Class, Error, Result};

use crate::bodies::attributes::{Attributes, copy_of_type, delete_of_type};
use crate::bodies::datatype_contents::{Form, Made, Part};
use crate::claims::{Place, Text, TextPlace, Variable, null};
use crate::convert::CountOut;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{DatatypeObject, Meaning, Type, lock};
use crate::state::{Runtime, call, too_many};
use crate::types::*;

/// A predefined datatype, and its layout.
#[derive(Clone, Copy)]
struct Known {
    predefined: Predefined,
    datatype: &'static Datatype,
    /// Bytes per element, where any number of them is one row of bytes from the very address on; otherwise 0.
    row_bytes: u32,
}

/// The bytes per element of those datatypes of which any number is one row of bytes from the very address on,
/// by the same byte; 0 for all others, and before the library runs.
static ROW_BYTES: [AtomicU32; ROWS] = [const { AtomicU32::new(0) }; ROWS];

/// Fills the table that messages of predefined datatypes are looked up in.
pub(crate) fn prepare() {
    for (row, known) in ROW_BYTES.iter().zip(&*KNOWN) {
        row.store(known.map_or(0, |known| known.row_bytes), Ordering::Relaxed);
    }
}

/// The predefined datatypes by the low byte of their handles.
///
/// ```text
/// bit  11        8 7          0
///     | 0 0 1 0    | row       |    handles 0x200 to 0x2ff
/// ```
static KNOWN: LazyLock<[Option<Known>; ROWS]> = LazyLock::new(|| {
    let mut rows = [None; ROWS];
    for (&handle, &predefined) in HANDLES.iter().zip(Predefined::ALL) {
        let datatype = predefined.datatype();
        let row_bytes = datatype.row_bytes(1).unwrap_or(0) as u32;
        rows[handle.value() - FIRST_HANDLE] = Some(Known { predefined, datatype, row_bytes });
    }
    rows
});

#[inline(always)]
fn known(handle: MPI_Datatype) -> Option<Known> {
    *KNOWN.get(handle.value().wrapping_sub(FIRST_HANDLE))?
}

/// Bytes of `count` elements of a predefined datatype that stand in one row; `None` for everything else.
#[inline(always)]
pub(crate) fn row_bytes(handle: MPI_Datatype, count: MPI_Count) -> Option<usize> {
    let row_bytes = ROW_BYTES.get(handle.value().wrapping_sub(FIRST_HANDLE))?.load(Ordering::Relaxed);
    // Thus the product stays far below an overflow.
    let usual = row_bytes > 0 && (0..=i64::from(u32::MAX)).contains(&count);
    usual.then(|| row_bytes as usize * count as usize)
}

/// The predefined datatype of a handle.
#[inline]
pub(crate) fn predefined(handle: MPI_Datatype) -> Option<Predefined> {
    known(handle).map(|known| known.predefined)
}

/// The handle of a predefined datatype.
pub(crate) fn handle_of(predefined: Predefined) -> MPI_Datatype {
    HANDLES[predefined as usize]
}

/// The datatype of a handle, committed or not.
#[inline]
pub(crate) fn resolve(runtime: &'static Runtime, handle: MPI_Datatype) -> Result<Type> {
    resolve_if(runtime, handle, |_| true)
}

/// The datatype of a handle, for communication.
#[inline(always)]
pub(crate) fn resolve_committed(runtime: &'static Runtime, handle: MPI_Datatype) -> Result<Type> {
    resolve_if(runtime, handle, |object| object.committed)
}

/// The datatype of `count` elements, for communication. No elements need no datatype: programs give
/// `MPI_DATATYPE_NULL` with an empty message.
#[inline(always)]
pub(crate) fn resolve_elements(
    runtime: &'static Runtime,
    count: MPI_Count,
    handle: MPI_Datatype,
) -> Result<Type> {
    resolve_committed(runtime, handle).or_else(|error| no_elements(runtime, count, handle, error))
}

#[cold]
fn no_elements(
    runtime: &'static Runtime,
    count: MPI_Count,
    handle: MPI_Datatype,
    error: Error,
) -> Result<Type> {
    if count != 0 || handle != MPI_DATATYPE_NULL {
        return Err(error);
    }
    resolve_committed(runtime, MPI_BYTE)
}

#[inline(always)]
fn resolve_if(
    runtime: &'static Runtime,
    handle: MPI_Datatype,
    ready: impl FnOnce(&DatatypeObject) -> bool,
) -> Result<Type> {
    if let Some(known) = known(handle) {
        return Ok(Type::Fixed(known.datatype));
    }
    resolve_own(runtime, handle, ready)
}

#[inline(never)]
fn resolve_own(
    runtime: &'static Runtime,
    handle: MPI_Datatype,
    ready: impl FnOnce(&DatatypeObject) -> bool,
) -> Result<Type> {
    match runtime.objects().datatype(handle) {
        Some(object) if ready(object) => Ok(Type::Own(object.datatype.clone())),
        Some(object) => Err(uncommitted(object)),
        None => Err(no_type(handle)),
    }
}

#[cold]
fn uncommitted(object: &DatatypeObject) -> Error {
    let name = String::from_utf8_lossy(&object.name);
    let what = if name.is_empty() {
        "the datatype is not committed".into()
    } else {
        format!("{name} is not committed")
    };
    Error::new(Class::Type, what).remedy("call MPI_Type_commit before communicating with it")
}

/// The error of a handle that is no datatype.
#[cold]
pub(crate) fn no_type(handle: MPI_Datatype) -> Error {
    if handle == MPI_DATATYPE_NULL {
        return Error::new(Class::Type, "the datatype is MPI_DATATYPE_NULL");
    }
    Error::new(Class::Type, format!("{:#x} is not a datatype, or not any more", handle.value()))
}

/// What the room of datatypes refuses, by MPI's classes.
#[cold]
pub(crate) fn refused(error: DatatypeError) -> Error {
    let class = match error {
        DatatypeError::NegativeCount { .. } => Class::Count,
        DatatypeError::TooDeep { .. } => Class::Type,
        _ => Class::Argument,
    };
    let text = error.to_string();
    match text.split_once('\n') {
        Some((what, remedy)) => Error::new(class, what).remedy(remedy),
        None => Error::new(class, text),
    }
}

/// A handle for a new datatype.
pub(crate) fn adopt(runtime: &'static Runtime, datatype: Datatype, made: Arc<Made>) -> Result<MPI_Datatype> {
    insert(runtime, datatype, made, None)
}

/// A handle for a datatype that is ready for use and never goes.
pub(crate) fn adopt_permanent(
    runtime: &'static Runtime,
    datatype: Datatype,
    made: Made,
    meaning: Meaning,
) -> Result<MPI_Datatype> {
    insert(runtime, datatype, Arc::new(made), Some(meaning))
}

/// What operators take a datatype for, where it is one of that kind.
#[cold]
pub(crate) fn meaning(runtime: &'static Runtime, handle: MPI_Datatype) -> Option<Meaning> {
    runtime.objects().datatype(handle)?.permanent
}

fn insert(
    runtime: &'static Runtime,
    datatype: Datatype,
    made: Arc<Made>,
    permanent: Option<Meaning>,
) -> Result<MPI_Datatype> {
    let (name, attributes) = (Vec::new(), Arc::default());
    let (committed, lent, freed) = (permanent.is_some(), Arc::default(), false);
    let object = DatatypeObject { datatype, committed, permanent, name, made, attributes, lent, freed };
    runtime.objects().datatypes.insert(object).map(MPI_Datatype::from_value).ok_or_else(too_many)
}

/// What can be changed about predefined datatypes too.
#[derive(Default)]
struct Extras {
    name: Option<Vec<u8>>,
    attributes: Arc<Attributes>,
}

static EXTRAS: Mutex<BTreeMap<usize, Extras>> = Mutex::new(BTreeMap::new());

/// The attributes that hang on a datatype.
pub(crate) fn attributes(runtime: &'static Runtime, handle: MPI_Datatype) -> Result<Arc<Attributes>> {
    if predefined(handle).is_some() {
        return Ok(lock(&EXTRAS).entry(handle.value()).or_default().attributes.clone());
    }
    let objects = runtime.objects();
    let object = objects.datatype(handle).ok_or_else(|| no_type(handle))?;
    Ok(object.attributes.clone())
}

/// The name of a datatype, for people; empty when it has none. The null handle has one, too (MPI 5.0 §7.8).
pub(crate) fn name(runtime: &'static Runtime, handle: MPI_Datatype) -> Result<Vec<u8>> {
    if let Some(predefined) = predefined(handle) {
        let renamed = lock(&EXTRAS).get(&handle.value()).and_then(|extras| extras.name.clone());
        return Ok(renamed.unwrap_or_else(|| predefined.name().into()));
    }
    if handle == MPI_DATATYPE_NULL {
        return Ok("MPI_DATATYPE_NULL".into());
    }
    let objects = runtime.objects();
    let object = objects.datatype(handle).ok_or_else(|| no_type(handle))?;
    Ok(object.name.clone())
}

/// Makes a datatype ready for communication.
pub fn mpi_type_commit(datatype: Variable<'_, MPI_Datatype>) -> c_int {
    call("MPI_Type_commit", Target::World, |runtime| {
        let handle = datatype.checked("datatype")?.get();
        if predefined(handle).is_some() {
            return Ok(());
        }
        let mut objects = runtime.objects();
        let object = objects.datatypes.find_mut(handle.value()).filter(|object| !object.freed);
        object.ok_or_else(|| no_type(handle))?.committed = true;
        Ok(())
    })
}

/// Gives a datatype up. What is under way with it, and what was made of it, is not affected.
pub fn mpi_type_free(datatype: Variable<'_, MPI_Datatype>) -> c_int {
    call("MPI_Type_free", Target::World, |runtime| {
        let place = datatype.checked("datatype")?;
        let handle = place.get();
        let permanent = runtime.objects().datatype(handle).is_some_and(|object| object.permanent.is_some());
        if permanent || predefined(handle).is_some() {
            return Err(Error::new(Class::Type, "a predefined datatype cannot be freed"));
        }
        delete_of_type(&*attributes(runtime, handle)?, handle)?;
        if !runtime.objects().free_datatype(handle) {
            return Err(no_type(handle));
        }
        place.set(MPI_DATATYPE_NULL);
        Ok(())
    })
}

/// A datatype like another, committed if that one is, with the attributes that want to be copied.
pub fn mpi_type_dup(oldtype: MPI_Datatype, newtype: Place<'_, MPI_Datatype>) -> c_int {
    call("MPI_Type_dup", Target::World, |runtime| {
        let datatype = resolve(runtime, oldtype)?.duplicate();
        let committed = resolve_committed(runtime, oldtype).is_ok();
        let place = newtype.checked("newtype")?;
        let made = Made::by(MPI_COMBINER_DUP, Form::Int).of(Part::of(runtime, oldtype)?);
        let handle = adopt(runtime, datatype, Arc::new(made))?;
        let old = attributes(runtime, oldtype)?;
        let copied =
            attributes(runtime, handle).and_then(|new| copy_of_type((&old, oldtype), (&new, handle)));
        let mut objects = runtime.objects();
        if let Err(error) = copied {
            objects.datatypes.remove(handle.value());
            return Err(error);
        }
        if let Some(object) = objects.datatypes.find_mut(handle.value()) {
            object.committed = committed;
        }
        place.set(handle);
        Ok(())
    })
}

/// Asks two numbers of a datatype. Each is `MPI_UNDEFINED` where it does not fit the program's type.
fn ask(
    name: &'static str,
    datatype: MPI_Datatype,
    places: [(CountOut<'_>, &str); 2],
    numbers: impl FnOnce(&Datatype) -> [i64; 2],
) -> c_int {
    call(name, Target::World, |runtime| {
        let numbers = numbers(&*resolve(runtime, datatype)?);
        for (place, name) in places {
            place.checked(name)?;
        }
        for ((place, _), number) in places.into_iter().zip(numbers) {
            place.write_or_undefined(number);
        }
        Ok(())
    })
}

/// Bytes of data in an element, without gaps.
pub fn mpi_type_size(datatype: MPI_Datatype, size: CountOut<'_>) -> c_int {
    ask("MPI_Type_size", datatype, [(size, "size"); 2], |datatype| [datatype.size(); 2])
}

/// Where an element begins, and the bytes to the next one.
pub fn mpi_type_get_extent(datatype: MPI_Datatype, lb: CountOut<'_>, extent: CountOut<'_>) -> c_int {
    ask("MPI_Type_get_extent", datatype, [(lb, "lb"), (extent, "extent")], |datatype| {
        [datatype.lower_bound(), datatype.extent()]
    })
}

/// Where the data of an element begins, and the bytes to its end.
pub fn mpi_type_get_true_extent(
    datatype: MPI_Datatype,
    true_lb: CountOut<'_>,
    true_extent: CountOut<'_>,
) -> c_int {
    let places = [(true_lb, "true_lb"), (true_extent, "true_extent")];
    ask("MPI_Type_get_true_extent", datatype, places, |datatype| {
        [datatype.true_lower_bound(), datatype.true_extent()]
    })
}

/// Names a datatype; also a predefined one.
pub fn mpi_type_set_name(datatype: MPI_Datatype, type_name: Text<'_>) -> c_int {
    call("MPI_Type_set_name", Target::World, |runtime| {
        let given = type_name.bytes().ok_or_else(|| null("type_name"))?;
        let given = &given[..given.len().min(MPI_MAX_OBJECT_NAME as usize - 1)];
        if predefined(datatype).is_some() {
            lock(&EXTRAS).entry(datatype.value()).or_default().name = Some(given.to_vec());
            return Ok(());
        }
        let mut objects = runtime.objects();
        let object = objects.datatypes.find_mut(datatype.value()).filter(|object| !object.freed);
        object.ok_or_else(|| no_type(datatype))?.name = given.to_vec();
        Ok(())
    })
}

/// The name of a datatype.
pub fn mpi_type_get_name(
    datatype: MPI_Datatype,
    type_name: TextPlace<'_>,
    resultlen: Place<'_, c_int>,
) -> c_int {
    call("MPI_Type_get_name", Target::World, |runtime| {
        let name = name(runtime, datatype)?;
        let length = resultlen.checked("resultlen")?;
        let type_name = type_name.checked("type_name")?;
        length.set(type_name.put(&name, MPI_MAX_OBJECT_NAME as usize) as c_int);
        Ok(())
    })
}

/// The Fortran datatype of a class whose elements have `size` bytes (MPI 5.0 §19.1.9).
pub fn mpi_type_match_size(typeclass: c_int, size: c_int, datatype: Place<'_, MPI_Datatype>) -> c_int {
    call("MPI_Type_match_size", Target::World, |_| {
        let family = match typeclass {
            MPI_TYPECLASS_INTEGER => "MPI_INTEGER",
            MPI_TYPECLASS_REAL => "MPI_REAL",
            MPI_TYPECLASS_COMPLEX => "MPI_COMPLEX",
            MPIX_TYPECLASS_LOGICAL => "MPI_LOGICAL",
            _ => return Err(Error::new(Class::Argument, format!("{typeclass} is not a class of datatypes"))),
        };
        let place = datatype.checked("datatype")?;
        let found = Predefined::named(&format!("{family}{size}"));
        let what = || Error::new(Class::Argument, format!("there is no {family} of {size} bytes"));
        place.set(handle_of(found.ok_or_else(what)?));
        Ok(())
    })
}

/// The first handle of a predefined datatype would be `MPI_DATATYPE_NULL`, which has no row.
const FIRST_HANDLE: usize = 0x200;
/// Handles that are set aside for predefined datatypes.
const ROWS: usize = 256;

/// The handles of the predefined datatypes, in the order of `Predefined::ALL`.
const HANDLES: [MPI_Datatype; Predefined::ALL.len()] = [
    MPI_AINT,
    MPI_COUNT,
    MPI_OFFSET,
    MPI_PACKED,
    MPI_SHORT,
    MPI_INT,
    MPI_LONG,
    MPI_LONG_LONG,
    MPI_UNSIGNED_SHORT,
    MPI_UNSIGNED,
    MPI_UNSIGNED_LONG,
    MPI_UNSIGNED_LONG_LONG,
    MPI_FLOAT,
    MPI_C_FLOAT_COMPLEX,
    MPI_CXX_FLOAT_COMPLEX,
    MPI_DOUBLE,
    MPI_C_DOUBLE_COMPLEX,
    MPI_CXX_DOUBLE_COMPLEX,
    MPI_LOGICAL,
    MPI_INTEGER,
    MPI_REAL,
    MPI_COMPLEX,
    MPI_DOUBLE_PRECISION,
    MPI_DOUBLE_COMPLEX,
    MPI_CHARACTER,
    MPI_LONG_DOUBLE,
    MPI_C_LONG_DOUBLE_COMPLEX,
    MPI_CXX_LONG_DOUBLE_COMPLEX,
    MPI_FLOAT_INT,
    MPI_DOUBLE_INT,
    MPI_LONG_INT,
    MPI_2INT,
    MPI_SHORT_INT,
    MPI_LONG_DOUBLE_INT,
    MPI_2REAL,
    MPI_2DOUBLE_PRECISION,
    MPI_2INTEGER,
    MPI_C_BOOL,
    MPI_CXX_BOOL,
    MPI_WCHAR,
    MPI_INT8_T,
    MPI_UINT8_T,
    MPI_CHAR,
    MPI_SIGNED_CHAR,
    MPI_UNSIGNED_CHAR,
    MPI_BYTE,
    MPI_INT16_T,
    MPI_UINT16_T,
    MPI_INT32_T,
    MPI_UINT32_T,
    MPI_INT64_T,
    MPI_UINT64_T,
    MPI_LOGICAL1,
    MPI_INTEGER1,
    MPI_LOGICAL2,
    MPI_INTEGER2,
    MPI_REAL2,
    MPI_LOGICAL4,
    MPI_INTEGER4,
    MPI_REAL4,
    MPI_COMPLEX4,
    MPI_LOGICAL8,
    MPI_INTEGER8,
    MPI_REAL8,
    MPI_COMPLEX8,
    MPI_LOGICAL16,
    MPI_INTEGER16,
    MPI_REAL16,
    MPI_COMPLEX16,
    MPI_COMPLEX32,
];

#[cfg(test)]
#[path = "datatypes_tests.rs"]
mod tests;
