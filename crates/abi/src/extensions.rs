//! Functions that MPI does not have, declared in `mpix.h`.

use std::cell::Cell;
use std::ffi::c_int;

use weft::{Class, Error, Grid, Result, Stencil};

use crate::bodies::communicator_hints;
use crate::bodies::communicators::{check, hand_out_if, hand_out_with};
use crate::bodies::topologies::{RequestedTopology, axes};
use crate::claims::{List, Place, Variables};
use crate::entry::{Target, exported_once};
use crate::state::call;
use crate::types::*;

/// A grid, mapped for messages along the offsets of a stencil.
fn cart_stencil_comm(
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: List<'_, c_int>,
    periods: List<'_, c_int>,
    reorder: c_int,
    stencil: List<'_, c_int>,
    k: c_int,
    comm_cart: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPIX_Cart_stencil_comm", Target::Comm(comm_old), |runtime| {
        let (object, comm_cart) = check(runtime, comm_old, comm_cart)?;
        let count = i64::from(k).checked_mul(axes(ndims)?).unwrap_or(-1);
        let (asked, offsets) =
            (RequestedTopology::new(ndims, dims, periods)?, stencil.slice(count, "stencil")?);
        let words = || format!("MPIX_Cart_stencil_comm, {}, {offsets:?}, reorder {reorder}", asked.words());
        object.comm.check(words)?;
        let grid = asked.grid(&object.comm)?;
        let new = match reorder {
            0 => object.comm.create_grid(&grid)?,
            _ => object.comm.create_mapped_grid(&grid, &stencil_of(offsets, &grid)?)?,
        };
        hand_out_if(runtime, new, &object, comm_old, comm_cart)
    })
}

fn stencil_of(offsets: &[c_int], grid: &Grid) -> Result<Stencil> {
    let steps = grid.axes().max(1);
    let offset = |by: &[c_int]| weft::Offset { by: by.to_vec(), weight: 1 };
    Stencil::new(grid.axes(), offsets.chunks(steps).map(offset).collect())
        .map_err(|error| Error::new(Class::Argument, error.to_string()))
}

/// A grid whose extents are chosen together with its mapping.
fn cart_weighted_create(
    comm_old: MPI_Comm,
    ndims: c_int,
    dim_weights: List<'_, c_int>,
    periods: List<'_, c_int>,
    info: MPI_Info,
    dims: Variables<'_, c_int>,
    comm_cart: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPIX_Cart_weighted_create", Target::Comm(comm_old), |runtime| {
        let (object, comm_cart) = check(runtime, comm_old, comm_cart)?;
        let count = axes(ndims)?;
        let dims = dims.checked(count, "dims")?;
        let given: Vec<c_int> = dims.iter().map(Cell::get).collect();
        let (asked, weights) = {
            let asked = RequestedTopology::new(ndims, List::of(&given), periods)?;
            (asked, if dim_weights.is_null() { &[] } else { dim_weights.slice(count, "dim_weights")? })
        };
        communicator_hints::check(info)?;
        let words = || format!("MPIX_Cart_weighted_create, {}, {weights:?}", asked.words());
        object.comm.check(words)?;
        let faces = if weights.is_empty() { vec![1; count as usize] } else { faces_of(weights)? };
        let extents: Vec<u32> = asked.extents(&object.comm)?;
        let new = object.comm.create_chosen_grid(&extents, &asked.rings(), &faces)?;
        let chosen: Vec<c_int> = new.grid()?.dims().iter().map(|&extent| extent as c_int).collect();
        dims.iter().zip(chosen).for_each(|(place, extent)| place.set(extent));
        hand_out_with(runtime, Some(new), (&object, comm_old), comm_cart, info)
    })
}

/// Areas in proportion, as numbers that are not too large.
fn faces_of(weights: &[c_int]) -> Result<Vec<u32>> {
    let wrong = |weight: c_int| {
        Error::new(Class::Argument, format!("the weight of an axis is {weight}"))
            .remedy("weights are 1 or more")
    };
    let positive = |&weight: &c_int| u32::try_from(weight).ok().filter(|&weight| weight > 0);
    let all: Vec<u32> =
        weights.iter().map(|weight| positive(weight).ok_or_else(|| wrong(*weight))).collect::<Result<_>>()?;
    let largest = all.iter().copied().max().unwrap_or(1);
    let shift = (0..32).find(|&shift| largest >> shift <= weft::WEIGHT_MAX).unwrap_or(0);
    Ok(all.into_iter().map(|weight| (weight >> shift).max(1)).collect())
}

exported_once! {
    /// `MPIX_Cart_stencil_comm`, of `mpix.h`.
    fn MPIX_Cart_stencil_comm(
        comm_old: MPI_Comm, ndims: c_int, dims: *const c_int, periods: *const c_int, reorder: c_int,
        stencil: *const c_int, k: c_int, comm_cart: *mut MPI_Comm,
    ) -> c_int {
        cart_stencil_comm(
            comm_old, ndims, List::claim(dims), List::claim(periods), reorder,
            List::claim(stencil), k, Place::claim(comm_cart),
        )
    }

    /// `MPIX_Cart_weighted_create`, of `mpix.h`.
    fn MPIX_Cart_weighted_create(
        comm_old: MPI_Comm, ndims: c_int, dim_weights: *const c_int, periods: *const c_int,
        info: MPI_Info, dims: *mut c_int, comm_cart: *mut MPI_Comm,
    ) -> c_int {
        cart_weighted_create(
            comm_old, ndims, List::claim(dim_weights), List::claim(periods),
            info, Variables::claim(dims), Place::claim(comm_cart),
        )
    }
}
