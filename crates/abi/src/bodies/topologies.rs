//! Topologies of communicators: grids (MPI 5.0 §8.5). Those of graphs are in [`graphs`].

pub mod graphs;
pub mod neighbours;

use std::cell::Cell;
use std::ffi::c_int;

use weft::{Class, Communicator, Error, Grid, Rank, Result, Stencil, Topology};

use crate::bodies::communicator_hints::stencil_of;
use crate::bodies::communicators::{check, hand_out_if};
use crate::claims::{List, Place, Places, Variables};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::state::call;
use crate::types::*;

/// The kind of a communicator's topology.
pub fn mpi_topo_test(comm: MPI_Comm, status: Place<'_, c_int>) -> c_int {
    call("MPI_Topo_test", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        status.checked("status")?.set(match object.comm.topology() {
            None => MPI_UNDEFINED,
            Some(Topology::Grid(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::Adjacent(_)) => MPI_DIST_GRAPH,
        });
        Ok(())
    })
}

/// Balanced extents for the axes whose entry is 0.
pub fn mpi_dims_create(nnodes: c_int, ndims: c_int, dims: Variables<'_, c_int>) -> c_int {
    call("MPI_Dims_create", Target::World, |_| {
        let dims = dims.checked(axes(ndims)?, "dims")?;
        let mut extents: Vec<c_int> = dims.iter().map(Cell::get).collect();
        weft::dims_create(nnodes, &mut extents)
            .map_err(|error| Error::of_text(Class::Dimensions, &error.to_string()))?;
        dims.iter().zip(extents).for_each(|(place, extent)| place.set(extent));
        Ok(())
    })
}

/// A communicator whose ranks are the cells of a grid.
pub fn mpi_cart_create(
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: List<'_, c_int>,
    periods: List<'_, c_int>,
    reorder: c_int,
    comm_cart: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Cart_create", Target::Comm(comm_old), |runtime| {
        let (object, comm_cart) = check(runtime, comm_old, comm_cart)?;
        let asked = RequestedTopology::new(ndims, dims, periods)?;
        let hint = if reorder == 0 { None } else { stencil_of(&object) };
        let words = || {
            format!("MPI_Cart_create, {}, reorder {}{}", asked.words(), reorder != 0, told(hint.as_deref()))
        };
        object.comm.check(words)?;
        let grid = asked.grid(&object.comm)?;
        let new = match reorder {
            0 => object.comm.create_grid(&grid)?,
            _ => object.comm.create_mapped_grid(&grid, &stencil(hint.as_deref(), &grid))?,
        };
        hand_out_if(runtime, new, &object, comm_old, comm_cart)
    })
}

/// The rank that this process would get on the grid if ranks may change. Collective.
pub fn mpi_cart_map(
    comm: MPI_Comm,
    ndims: c_int,
    dims: List<'_, c_int>,
    periods: List<'_, c_int>,
    newrank: Place<'_, c_int>,
) -> c_int {
    call("MPI_Cart_map", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let (asked, place) = (RequestedTopology::new(ndims, dims, periods)?, newrank.checked("newrank")?);
        let hint = stencil_of(&object);
        object.comm.check(|| format!("MPI_Cart_map, {}{}", asked.words(), told(hint.as_deref())))?;
        if asked.extents(&object.comm)?.contains(&0) {
            // The grid has no cells, so that nobody has a place on it.
            place.set(MPI_UNDEFINED);
            return Ok(());
        }
        let grid = asked.grid(&object.comm)?;
        let mapped = object.comm.map_grid(&grid, &stencil(hint.as_deref(), &grid))?;
        place.set(mapped.map_or(MPI_UNDEFINED, |Rank(rank)| rank as c_int));
        Ok(())
    })
}

/// The stencil that the program has hinted at, where it is one for this grid; else the nearest neighbours.
fn stencil(hint: Option<&str>, grid: &Grid) -> Stencil {
    let hinted = hint.and_then(|text| Stencil::parse(text, grid.axes()).ok());
    hinted.unwrap_or_else(|| Stencil::nearest(grid.axes()))
}

/// The hint, for the comparison of calls (`WEFT_CHECK`).
fn told(hint: Option<&str>) -> String {
    hint.map_or_else(String::new, |text| format!(", weft_stencil {text}"))
}

/// A grid as the program describes it.
pub(crate) struct RequestedTopology<'a> {
    dims: &'a [c_int],
    periods: &'a [c_int],
}

impl RequestedTopology<'_> {
    pub(crate) fn new<'a>(
        ndims: c_int,
        dims: List<'a, c_int>,
        periods: List<'a, c_int>,
    ) -> Result<RequestedTopology<'a>> {
        let count = axes(ndims)?;
        Ok(RequestedTopology { dims: dims.slice(count, "dims")?, periods: periods.slice(count, "periods")? })
    }

    /// For the comparison of calls (`WEFT_CHECK`).
    pub(crate) fn words(&self) -> String {
        let axis = |(extent, period): (&c_int, &c_int)| {
            format!("{extent}{}", if *period == 0 { "" } else { " periodic" })
        };
        self.dims.iter().zip(self.periods).map(axis).collect::<Vec<_>>().join(" x ")
    }

    pub(crate) fn grid(&self, comm: &Communicator) -> Result<Grid> {
        let extents = self.extents(comm)?;
        Grid::new(&extents, &self.rings())
            .map_err(|error| Error::new(Class::Dimensions, format!("{}: {error}", comm.place())))
    }

    /// The extents; 0 is left for others to judge.
    pub(crate) fn extents(&self, comm: &Communicator) -> Result<Vec<u32>> {
        let wrong = |axis: usize| {
            let what = format!("{}: the extent of axis {axis} is {}", comm.place(), self.dims[axis]);
            Error::new(Class::Dimensions, what)
        };
        let extent = |(axis, &extent): (usize, &c_int)| u32::try_from(extent).map_err(|_| wrong(axis));
        self.dims.iter().enumerate().map(extent).collect()
    }

    /// Which axes close to rings.
    pub(crate) fn rings(&self) -> Vec<bool> {
        self.periods.iter().map(|&period| period != 0).collect()
    }
}

/// A number of axes.
pub(crate) fn axes(ndims: c_int) -> Result<i64> {
    if ndims < 0 {
        return Err(Error::new(Class::Dimensions, format!("the number of axes is {ndims}")));
    }
    Ok(i64::from(ndims))
}

/// Refuses room for fewer entries than there are.
fn check_room(room: c_int, needed: usize, name: &str) -> Result<()> {
    if usize::try_from(room).is_ok_and(|room| needed <= room) {
        return Ok(());
    }
    let what = format!("{name} is {room}, and {needed} entries are to be stored");
    Err(Error::new(Class::Argument, what))
}

/// The number of axes of the grid.
pub fn mpi_cartdim_get(comm: MPI_Comm, ndims: Place<'_, c_int>) -> c_int {
    call("MPI_Cartdim_get", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        ndims.checked("ndims")?.set(object.comm.grid()?.axes() as c_int);
        Ok(())
    })
}

/// The grid, and this process's coordinates on it.
pub fn mpi_cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: Places<'_, c_int>,
    periods: Places<'_, c_int>,
    coords: Places<'_, c_int>,
) -> c_int {
    call("MPI_Cart_get", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let grid = object.comm.grid()?;
        check_room(maxdims, grid.axes(), "maxdims")?;
        let axes = grid.axes() as i64;
        let (dims, periods) = (dims.checked(axes, "dims")?, periods.checked(axes, "periods")?);
        let coords = coords.checked(axes, "coords")?;
        let extents: Vec<c_int> = grid.dims().iter().map(|&extent| extent as c_int).collect();
        let rings: Vec<c_int> = grid.periods().iter().map(|&is_ring| c_int::from(is_ring)).collect();
        dims.put(&extents);
        periods.put(&rings);
        coords.put(&coordinates(grid, object.comm.rank().0));
        Ok(())
    })
}

fn coordinates(grid: &Grid, rank: u32) -> Vec<c_int> {
    grid.place_of(rank).into_iter().map(|coordinate| coordinate as c_int).collect()
}

/// The rank at some coordinates.
pub fn mpi_cart_rank(comm: MPI_Comm, coords: List<'_, c_int>, rank: Place<'_, c_int>) -> c_int {
    call("MPI_Cart_rank", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let grid = object.comm.grid()?;
        let (asked, place) = (coords.slice(grid.axes() as i64, "coords")?, rank.checked("rank")?);
        let wide: Vec<i64> = asked.iter().copied().map(i64::from).collect();
        let cell = grid.cell(&wide).ok_or_else(|| beyond(&object.comm, grid, asked))?;
        place.set(cell as c_int);
        Ok(())
    })
}

#[cold]
fn beyond(comm: &Communicator, grid: &Grid, coordinates: &[c_int]) -> Error {
    let is_out = |axis: &usize| {
        let inside = u32::try_from(coordinates[*axis]).is_ok_and(|at| at < grid.dims()[*axis]);
        !inside && !grid.periods()[*axis]
    };
    let axis = (0..grid.axes()).find(is_out).unwrap_or_default();
    let what = format!(
        "{}: coordinate {} of axis {axis}, which is open and has {} cells",
        comm.place(),
        coordinates[axis],
        grid.dims()[axis]
    );
    Error::new(Class::Argument, what).remedy("coordinates of open axes are 0 or more, and below the extent")
}

/// The coordinates of a rank.
pub fn mpi_cart_coords(comm: MPI_Comm, rank: c_int, maxdims: c_int, coords: Places<'_, c_int>) -> c_int {
    call("MPI_Cart_coords", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let grid = object.comm.grid()?;
        let rank = member(&object.comm, rank)?;
        check_room(maxdims, grid.axes(), "maxdims")?;
        coords.checked(grid.axes() as i64, "coords")?.put(&coordinates(grid, rank));
        Ok(())
    })
}

/// A rank of the communicator.
fn member(comm: &Communicator, rank: c_int) -> Result<u32> {
    let found = u32::try_from(rank).ok().filter(|&rank| rank < comm.size());
    found.ok_or_else(|| {
        let what =
            format!("{}: rank {rank} does not exist, ranks are 0 to {}", comm.place(), comm.size() - 1);
        Error::new(Class::Rank, what)
    })
}

/// The ranks down and up an axis.
pub fn mpi_cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: Place<'_, c_int>,
    rank_dest: Place<'_, c_int>,
) -> c_int {
    call("MPI_Cart_shift", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let (down, up) = (rank_source.checked("rank_source")?, rank_dest.checked("rank_dest")?);
        let axis = usize::try_from(direction).unwrap_or(usize::MAX);
        let axes = object.comm.grid()?.axes();
        if axis >= axes {
            let what = format!("{}: axis {direction} of a grid of {axes} axes", object.comm.place());
            return Err(Error::new(Class::Dimensions, what).remedy("axes are counted from 0"));
        }
        let (source, destination) = object.comm.shift(axis, disp)?;
        let number = |rank: Option<Rank>| rank.map_or(MPI_PROC_NULL, |Rank(rank)| rank as c_int);
        down.set(number(source));
        up.set(number(destination));
        Ok(())
    })
}

/// A communicator of the cells that differ along the axes that remain.
pub fn mpi_cart_sub(comm: MPI_Comm, remain_dims: List<'_, c_int>, newcomm: Place<'_, MPI_Comm>) -> c_int {
    call("MPI_Cart_sub", Target::Comm(comm), |runtime| {
        let (object, newcomm) = check(runtime, comm, newcomm)?;
        let axes = object.comm.grid()?.axes();
        let remain = remain_dims.slice(axes as i64, "remain_dims")?;
        let keep: Vec<bool> = remain.iter().map(|&keep| keep != 0).collect();
        object.comm.check(|| format!("MPI_Cart_sub, {keep:?}"))?;
        let new = object.comm.keep_axes(&keep)?;
        hand_out_if(runtime, Some(new), &object, comm, newcomm)
    })
}
