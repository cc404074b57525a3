//! The constructors of datatypes (MPI 5.0 §5.1.2 to §5.1.7).
//!
//! Where both forms of a call have the same shape and an array, one body serves both, and the array says
//! which form it was; the others have two bodies, since `MPI_Type_get_envelope` must know.

use std::ffi::c_int;
use std::sync::Arc;

use datatype::{
    ArrayOrder, Block, Datatype, DatatypeError, Distributed, Distribution, Field, Place as Process,
};
use weft::{Class, Error, Result};

use crate::bodies::datatype_contents::{Form, Made, Part};
use crate::bodies::datatypes::{adopt, refused, resolve};
use crate::claims::{List, Place};
use crate::convert::{Counts, Displacements};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::Type;
use crate::state::call;
use crate::types::*;

/// What a constructor makes: the datatype, and how it was made except of what.
type Construction = Result<(std::result::Result<Datatype, DatatypeError>, Made)>;

/// Makes a datatype of another one.
fn construct(
    name: &'static str,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
    work: impl FnOnce(&Datatype) -> Construction,
) -> c_int {
    call(name, Target::World, |runtime| {
        let old = resolve(runtime, oldtype)?;
        let place = newtype.checked("newtype")?;
        let (datatype, made) = work(&old)?;
        let made = made.of(Part::of(runtime, oldtype)?);
        place.set(adopt(runtime, datatype.map_err(refused)?, Arc::new(made))?);
        Ok(())
    })
}

fn check_count(count: i64, what: &str) -> Result<()> {
    if count >= 0 { Ok(()) } else { Err(Error::new(Class::Count, format!("the {what} is {count}"))) }
}

/// Elements behind each other.
pub fn mpi_type_contiguous(count: c_int, oldtype: MPI_Datatype, newtype: Place<'_, MPI_Datatype>) -> c_int {
    contiguous("MPI_Type_contiguous", Form::Int, count.into(), oldtype, newtype)
}

/// `count` elements behind each other; the count is an `MPI_Count`.
pub fn mpi_type_contiguous_c(
    count: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    contiguous("MPI_Type_contiguous_c", Form::Large, count, oldtype, newtype)
}

fn contiguous(
    name: &'static str,
    form: Form,
    count: i64,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct(name, oldtype, newtype, |old| {
        Ok((Datatype::contiguous(count, old), Made::by(MPI_COMBINER_CONTIGUOUS, form).count(count)))
    })
}

/// Blocks of elements, a stride of extents apart.
pub fn mpi_type_vector(
    count: c_int,
    blocklength: c_int,
    stride: c_int,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    let numbers = [count, blocklength, stride].map(i64::from);
    vector("MPI_Type_vector", Form::Int, numbers, oldtype, newtype)
}

/// Blocks of elements, a stride of extents apart; counts and stride are `MPI_Count`.
pub fn mpi_type_vector_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    vector("MPI_Type_vector_c", Form::Large, [count, blocklength, stride], oldtype, newtype)
}

fn vector(
    name: &'static str,
    form: Form,
    numbers: [i64; 3],
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    let [count, length, stride] = numbers;
    construct(name, oldtype, newtype, |old| {
        Ok((
            Datatype::vector(count, length, stride, old),
            Made::by(MPI_COMBINER_VECTOR, form).counts(&numbers),
        ))
    })
}

/// Blocks of elements, a stride of bytes apart.
pub fn mpi_type_create_hvector(
    count: c_int,
    blocklength: c_int,
    stride: MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    let numbers = [count.into(), blocklength.into(), stride as i64];
    hvector("MPI_Type_create_hvector", Form::Int, numbers, oldtype, newtype)
}

/// Blocks of elements, a stride of bytes apart; counts and stride are `MPI_Count`.
pub fn mpi_type_create_hvector_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    hvector("MPI_Type_create_hvector_c", Form::Large, [count, blocklength, stride], oldtype, newtype)
}

fn hvector(
    name: &'static str,
    form: Form,
    [count, length, stride]: [i64; 3],
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct(name, oldtype, newtype, |old| {
        let made = Made::by(MPI_COMBINER_HVECTOR, form).counts(&[count, length]).addresses(&[stride]);
        Ok((Datatype::hvector(count, length, stride, old), made))
    })
}

fn blocks(lengths: &[i64], displacements: &[i64]) -> Vec<Block> {
    let pairs = lengths.iter().zip(displacements);
    pairs.map(|(&length, &displacement)| Block { length, displacement }).collect()
}

/// Blocks of elements at displacements in extents.
pub fn mpi_type_indexed(
    count: MPI_Count,
    array_of_blocklengths: Counts<'_>,
    array_of_displacements: Counts<'_>,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct("MPI_Type_indexed", oldtype, newtype, |old| {
        check_count(count, "count")?;
        let lengths = array_of_blocklengths.numbers(count, "array_of_blocklengths")?;
        let places = array_of_displacements.numbers(count, "array_of_displacements")?;
        let made = Made::by(MPI_COMBINER_INDEXED, array_of_blocklengths.into());
        let made = made.count(count).counts(&lengths).counts(&places);
        Ok((Datatype::indexed(&blocks(&lengths, &places), old), made))
    })
}

/// Blocks of elements at displacements in bytes.
pub fn mpi_type_create_hindexed(
    count: MPI_Count,
    array_of_blocklengths: Counts<'_>,
    array_of_displacements: Displacements<'_>,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct("MPI_Type_create_hindexed", oldtype, newtype, |old| {
        check_count(count, "count")?;
        let lengths = array_of_blocklengths.numbers(count, "array_of_blocklengths")?;
        let places = array_of_displacements.numbers(count, "array_of_displacements")?;
        let made = Made::by(MPI_COMBINER_HINDEXED, array_of_blocklengths.into());
        let made = made.count(count).counts(&lengths).addresses(&places);
        Ok((Datatype::hindexed(&blocks(&lengths, &places), old), made))
    })
}

/// Blocks of one length at displacements in extents.
pub fn mpi_type_create_indexed_block(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: Counts<'_>,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct("MPI_Type_create_indexed_block", oldtype, newtype, |old| {
        check_count(count, "count")?;
        check_count(blocklength, "block length")?;
        let places = array_of_displacements.numbers(count, "array_of_displacements")?;
        let made = Made::by(MPI_COMBINER_INDEXED_BLOCK, array_of_displacements.into());
        let made = made.counts(&[count, blocklength]).counts(&places);
        Ok((Datatype::indexed_block(blocklength, &places, old), made))
    })
}

/// Blocks of one length at displacements in bytes.
pub fn mpi_type_create_hindexed_block(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: Displacements<'_>,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct("MPI_Type_create_hindexed_block", oldtype, newtype, |old| {
        check_count(count, "count")?;
        check_count(blocklength, "block length")?;
        let places = array_of_displacements.numbers(count, "array_of_displacements")?;
        let made = Made::by(MPI_COMBINER_HINDEXED_BLOCK, array_of_displacements.into());
        let made = made.counts(&[count, blocklength]).addresses(&places);
        Ok((Datatype::hindexed_block(blocklength, &places, old), made))
    })
}

/// Blocks of different datatypes at displacements in bytes.
pub fn mpi_type_create_struct(
    count: MPI_Count,
    array_of_blocklengths: Counts<'_>,
    array_of_displacements: Displacements<'_>,
    array_of_types: List<'_, MPI_Datatype>,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    call("MPI_Type_create_struct", Target::World, |runtime| {
        check_count(count, "count")?;
        let (place, lengths, places, handles) = (
            newtype.checked("newtype")?,
            array_of_blocklengths.numbers(count, "array_of_blocklengths")?,
            array_of_displacements.numbers(count, "array_of_displacements")?,
            array_of_types.slice(count, "array_of_types")?,
        );
        let types: Vec<Type> =
            handles.iter().map(|&handle| resolve(runtime, handle)).collect::<Result<_>>()?;
        let fields: Vec<Field<'_>> = std::iter::zip(blocks(&lengths, &places), &types)
            .map(|(Block { length, displacement }, datatype)| Field { length, displacement, datatype })
            .collect();
        let datatype = Datatype::structure(&fields).map_err(refused)?;
        let made = Made::by(MPI_COMBINER_STRUCT, array_of_blocklengths.into());
        let mut made = made.count(count).counts(&lengths).addresses(&places);
        for &handle in handles {
            made = made.of(Part::of(runtime, handle)?);
        }
        place.set(adopt(runtime, datatype, Arc::new(made))?);
        Ok(())
    })
}

/// A part of an array.
pub fn mpi_type_create_subarray(
    ndims: c_int,
    array_of_sizes: Counts<'_>,
    array_of_subsizes: Counts<'_>,
    array_of_starts: Counts<'_>,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct("MPI_Type_create_subarray", oldtype, newtype, |old| {
        let dimensions = i64::from(ndims);
        let sizes = array_of_sizes.numbers(dimensions, "array_of_sizes")?;
        let subsizes = array_of_subsizes.numbers(dimensions, "array_of_subsizes")?;
        let starts = array_of_starts.numbers(dimensions, "array_of_starts")?;
        let datatype = Datatype::subarray(&sizes, &subsizes, &starts, array_order(order)?, old);
        let made = Made::by(MPI_COMBINER_SUBARRAY, array_of_sizes.into()).integer(ndims);
        Ok((datatype, made.counts(&sizes).counts(&subsizes).counts(&starts).integer(order)))
    })
}

fn array_order(order: c_int) -> Result<ArrayOrder> {
    match order {
        MPI_ORDER_C => Ok(ArrayOrder::C),
        MPI_ORDER_FORTRAN => Ok(ArrayOrder::Fortran),
        _ => Err(Error::new(Class::Argument, format!("{order} is not an order of array elements"))),
    }
}

/// The part of an array that a process of a grid has.
pub fn mpi_type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: Counts<'_>,
    array_of_distribs: List<'_, c_int>,
    array_of_dargs: List<'_, c_int>,
    array_of_psizes: List<'_, c_int>,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct("MPI_Type_create_darray", oldtype, newtype, |old| {
        let dimensions = i64::from(ndims);
        let sizes = array_of_gsizes.numbers(dimensions, "array_of_gsizes")?;
        let distributions = array_of_distribs.slice(dimensions, "array_of_distribs")?;
        let arguments = array_of_dargs.slice(dimensions, "array_of_dargs")?;
        let processes = array_of_psizes.slice(dimensions, "array_of_psizes")?;
        let dimension = |at: usize| -> Result<Distributed> {
            let distribution = distribution(distributions[at], arguments[at])?;
            Ok(Distributed { elements: sizes[at], distribution, processes: processes[at].into() })
        };
        let dealt: Vec<Distributed> = (0..sizes.len()).map(dimension).collect::<Result<_>>()?;
        let process = Process { rank: rank.into(), size: size.into() };
        let datatype = Datatype::distributed(process, &dealt, array_order(order)?, old);
        let made = Made::by(MPI_COMBINER_DARRAY, array_of_gsizes.into()).integers(&[size, rank, ndims]);
        let made = made.counts(&sizes).integers(distributions).integers(arguments).integers(processes);
        Ok((datatype, made.integer(order)))
    })
}

fn distribution(distribution: c_int, argument: c_int) -> Result<Distribution> {
    let block = (argument != MPI_DISTRIBUTE_DFLT_DARG).then_some(i64::from(argument));
    match distribution {
        MPI_DISTRIBUTE_NONE => Ok(Distribution::Whole),
        MPI_DISTRIBUTE_BLOCK => Ok(Distribution::Block(block)),
        MPI_DISTRIBUTE_CYCLIC => Ok(Distribution::Cyclic(block)),
        _ => Err(Error::new(Class::Argument, format!("{distribution} is not a distribution of an array"))),
    }
}

/// A datatype with the data of `oldtype`, but with another lower bound and extent, in bytes.
pub fn mpi_type_create_resized(
    oldtype: MPI_Datatype,
    lb: MPI_Aint,
    extent: MPI_Aint,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    let bounds = [lb as i64, extent as i64];
    resized("MPI_Type_create_resized", Form::Int, bounds, oldtype, newtype)
}

/// A datatype with the data of `oldtype`, but with another lower bound and extent, in bytes; both are
/// `MPI_Count`.
pub fn mpi_type_create_resized_c(
    oldtype: MPI_Datatype,
    lb: MPI_Count,
    extent: MPI_Count,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    resized("MPI_Type_create_resized_c", Form::Large, [lb, extent], oldtype, newtype)
}

fn resized(
    name: &'static str,
    form: Form,
    bounds: [i64; 2],
    oldtype: MPI_Datatype,
    newtype: Place<'_, MPI_Datatype>,
) -> c_int {
    construct(name, oldtype, newtype, |old| {
        Ok((old.resized(bounds[0], bounds[1]), Made::by(MPI_COMBINER_RESIZED, form).addresses(&bounds)))
    })
}

#[cfg(test)]
#[path = "datatype_constructors_tests.rs"]
mod tests;
