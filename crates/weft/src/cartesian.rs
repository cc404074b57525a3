//! Grids as a Rust program makes and uses them (MPI 5.0 §8.5).

use std::ops::Deref;

use collectives::{Around, Surround};
use fabric::Payload;
use job::error::{Class, Error, Result};
use messaging::Rank;
use topology::{Grid, Stencil};

use crate::communicator::Communicator;
use crate::memory::{Transferable, reading, writing};

/// A grid that is about to be made; see [`Communicator::cartesian`].
#[must_use = "create() makes it"]
pub struct CartesianBuilder<'a> {
    of: &'a Communicator,
    dims: Vec<u32>,
    periods: Option<Vec<bool>>,
    stencil: Option<Stencil>,
    reorder: bool,
}

/// A communicator whose ranks are the cells of a grid, row-major, the last axis fastest.
#[derive(Clone, Debug)]
pub struct Cartesian {
    communicator: Communicator,
}

/// A neighbour along an axis, or the open border there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The axis, from 0.
    pub axis: usize,
    /// -1 for the one below, 1 for the one above.
    pub step: i32,
    /// None beyond an open border.
    pub rank: Option<Rank>,
}

/// The ranks that data comes from and goes to when all ranks shift it along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shift {
    /// The axis, from 0.
    pub axis: usize,
    /// The rank that sends to this one; none beyond an open border.
    pub source: Option<Rank>,
    /// The rank that this one sends to; none beyond an open border.
    pub destination: Option<Rank>,
}

impl Communicator {
    /// Begins a grid of these extents, with open borders and ranks that stay.
    ///
    /// ```
    /// # use weft::{Config, Rank};
    /// # weft::run_threads(6, &Config::default(), |session| {
    /// let world = session.world();
    /// let grid = world.cartesian([2, 3]).periodic([false, true]).reorder(true).create()?.expect("six cells");
    /// for neighbour in grid.neighbours() {
    ///     println!("axis {} step {:+}: {:?}", neighbour.axis, neighbour.step, neighbour.rank);
    /// }
    /// let rows = grid.keep_axes(&[false, true])?;
    /// assert_eq!(rows.size(), 3);
    /// # Ok::<(), weft::Error>(())
    /// # }).unwrap().into_iter().collect::<Result<Vec<()>, _>>().unwrap();
    /// ```
    pub fn cartesian(&self, dims: impl Into<Vec<u32>>) -> CartesianBuilder<'_> {
        CartesianBuilder { of: self, dims: dims.into(), periods: None, stencil: None, reorder: false }
    }
}

impl CartesianBuilder<'_> {
    /// Which axes close to rings.
    pub fn periodic(mut self, periods: impl Into<Vec<bool>>) -> Self {
        self.periods = Some(periods.into());
        self
    }

    /// Whether ranks may change so that messages have short ways on this machine.
    pub fn reorder(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// Which cells exchange messages, and how much; the nearest neighbours if nothing is said. It counts with
    /// [`CartesianBuilder::reorder`] alone.
    pub fn stencil(mut self, stencil: Stencil) -> Self {
        self.stencil = Some(stencil);
        self
    }

    /// Makes the grid. Processes that it has no cell for get none. Collective.
    ///
    /// # Errors
    /// [`Class::Dimensions`] for extents that make no grid, or more cells than there are members;
    /// [`Class::Argument`] where the stencil is for another number of axes; as [`Communicator::create_grid`].
    pub fn create(self) -> Result<Option<Cartesian>> {
        let periods = self.periods.unwrap_or_else(|| vec![false; self.dims.len()]);
        let grid = Grid::new(&self.dims, &periods)
            .map_err(|error| Error::new(Class::Dimensions, format!("{}: {error}", self.of.place())))?;
        let made = match self.reorder {
            false => self.of.create_grid(&grid)?,
            true => {
                let stencil = self.stencil.unwrap_or_else(|| Stencil::nearest(grid.axes()));
                self.of.create_mapped_grid(&grid, &stencil)?
            }
        };
        Ok(made.map(|communicator| Cartesian { communicator }))
    }
}

impl Cartesian {
    fn shape(&self) -> &Grid {
        self.communicator.grid().expect("it was made as a grid")
    }

    /// The extents.
    #[must_use]
    pub fn dims(&self) -> &[u32] {
        self.shape().dims()
    }

    /// Which axes close to rings.
    #[must_use]
    pub fn periods(&self) -> &[bool] {
        self.shape().periods()
    }

    /// Where this rank is.
    #[must_use]
    pub fn coordinates(&self) -> Vec<u32> {
        self.shape().place_of(self.rank().0)
    }

    /// Where a rank is; none where there is no such rank.
    #[must_use]
    pub fn coordinates_of(&self, rank: Rank) -> Option<Vec<u32>> {
        (rank.0 < self.size()).then(|| self.shape().place_of(rank.0))
    }

    /// The rank at some coordinates; those of rings are taken into their range. None beyond an open border,
    /// and where there is not one coordinate for each axis.
    #[must_use]
    pub fn rank_at(&self, coordinates: &[i64]) -> Option<Rank> {
        let fits = coordinates.len() == self.shape().axes();
        fits.then(|| self.shape().cell(coordinates)).flatten().map(Rank)
    }

    /// The neighbours in the order in which blocks stand in exchanges: along each axis first down, then up.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> + '_ {
        let ranks = self.communicator.neighbourhood().map_or(&[][..], |around| &around.destinations);
        let neighbour = |(at, rank): (usize, &Option<Rank>)| {
            let step = if at % 2 == 0 { -1 } else { 1 };
            Neighbour { axis: at / 2, step, rank: *rank }
        };
        ranks.iter().enumerate().map(neighbour)
    }

    /// For each axis, the ranks that data comes from and goes to when all ranks shift it by `displacement`
    /// cells.
    pub fn shifts(&self, displacement: i32) -> impl Iterator<Item = Shift> + '_ {
        (0..self.shape().axes()).map(move |axis| {
            let (source, destination) = self.shift(axis, displacement).unwrap_or_default();
            Shift { axis, source, destination }
        })
    }

    /// The grid of those cells that differ from this one's only along the axes that are kept. Collective.
    ///
    /// # Errors
    /// [`Class::Argument`] where `keep` has not an entry for each axis, [`Class::NotSame`] where members keep
    /// different axes; a lost member.
    pub fn keep_axes(&self, keep: &[bool]) -> Result<Cartesian> {
        self.communicator.keep_axes(keep).map(|communicator| Cartesian { communicator })
    }
}

impl Deref for Cartesian {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

impl From<Cartesian> for Communicator {
    fn from(grid: Cartesian) -> Communicator {
        grid.communicator
    }
}

impl Communicator {
    /// Sends `values` to all neighbours; the answer has those of each, in the order of
    /// [`Communicator::neighbourhood`], and default values where there is nobody (MPI 5.0 §8.6.1).
    /// Collective.
    ///
    /// # Errors
    /// [`Class::Topology`] where ranks have no neighbours; a lost one.
    pub fn neighbour_all_gather<T: Transferable>(&self, values: &[T]) -> Result<Vec<T>> {
        let sources = self.neighbourhood()?.sources.len();
        let bytes = size_of_val(values);
        self.exchange_around(Around::Allgather { bytes }, values, sources * values.len())
    }

    /// Sends `count` of `values` to each neighbour, one part behind the other; the answer has as many of
    /// each, as above (MPI 5.0 §8.6.2). Collective.
    ///
    /// # Errors
    /// [`Class::Count`] where there are not `count` values for each neighbour; [`Class::Topology`]; a lost
    /// one.
    pub fn neighbour_all_to_all<T: Transferable>(&self, values: &[T], count: usize) -> Result<Vec<T>> {
        let around = self.neighbourhood()?;
        let (sources, destinations) = (around.sources.len(), around.destinations.len());
        if count.checked_mul(destinations) != Some(values.len()) {
            let given = values.len();
            let what = format!("{}: {given} values, and {count} go to each of {destinations}", self.place());
            return Err(Error::new(Class::Count, what).remedy("give each neighbour as many"));
        }
        let bytes = count * size_of::<T>();
        self.exchange_around(Around::Alltoall { bytes }, values, sources * count)
    }

    fn exchange_around<T: Transferable>(&self, around: Around, values: &[T], count: usize) -> Result<Vec<T>> {
        self.check(|| format!("{around:?}"))?;
        let mut got = vec![T::default(); count];
        let input = if values.is_empty() { Payload::EMPTY } else { reading(values) };
        self.perform_around(Surround::Even(around), input, writing(&mut got))?;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adjacent, Config, Edge, Graph, Topology, Weights, run_threads};

    fn on<R: Send>(ranks: u32, run: impl Fn(&Communicator) -> R + Sync) -> Vec<R> {
        run_threads(ranks, &Config::default(), |session| run(&session.world())).expect("ranks start")
    }

    #[test]
    fn neighbours_and_shifts_name_the_same_ranks() {
        on(6, |world| {
            let grid = world.cartesian([2, 3]).periodic([false, true]).create().unwrap().expect("six cells");
            assert_eq!(grid.coordinates(), [world.rank().0 / 3, world.rank().0 % 3]);
            let around: Vec<_> = grid.neighbours().map(|neighbour| neighbour.rank).collect();
            for shift in grid.shifts(1) {
                assert_eq!([shift.source, shift.destination], around[2 * shift.axis..][..2]);
            }
            let low = grid.coordinates()[0] == 0;
            assert_eq!((around[0].is_none(), around[1].is_none()), (low, !low));
            assert_eq!(grid.rank_at(&[0, -1]), Some(Rank(2)));
            assert_eq!((grid.rank_at(&[2, 0]), grid.rank_at(&[0])), (None, None));
            assert_eq!(
                (grid.coordinates_of(Rank(5)), grid.coordinates_of(Rank(6))),
                (Some(vec![1, 2]), None)
            );
        });
    }

    #[test]
    fn what_goes_up_arrives_from_below() {
        for ranks in [1, 2, 3, 5] {
            on(ranks, |world| {
                let ring =
                    world.cartesian([ranks]).periodic([true]).reorder(true).create().unwrap().expect("all");
                let (here, all) = (ring.rank().0, ring.size());
                let got = ring.neighbour_all_to_all(&[10 * here, 10 * here + 1], 1).unwrap();
                assert_eq!(got, [10 * ((here + all - 1) % all) + 1, 10 * ((here + 1) % all)]);
                let got = ring.neighbour_all_gather(&[here]).unwrap();
                assert_eq!(got, [(here + all - 1) % all, (here + 1) % all]);
            });
        }
    }

    #[test]
    fn grids_that_cannot_be_are_refused() {
        on(2, |world| {
            let class = |dims: &[u32]| world.cartesian(dims).create().unwrap_err().class;
            assert_eq!([class(&[3]), class(&[0]), class(&[65536, 65536])], [Class::Dimensions; 3]);
            let stencil = world.cartesian([2]).reorder(true).stencil(Stencil::nearest(2)).create();
            assert_eq!(stencil.unwrap_err().class, Class::Argument);
            let differ = world.cartesian([1 + world.rank().0]).create();
            assert_eq!(differ.unwrap_err().class, Class::NotSame);
            // Some let ranks change and some do not: nobody waits for what the others do not do.
            let differ = world.cartesian([2]).reorder(world.rank() == Rank(0)).create();
            assert_eq!(differ.unwrap_err().class, Class::NotSame);
            let nothing = world.create_adjacent(Adjacent::default(), world.rank() == Rank(0)).unwrap();
            assert_eq!(nothing.neighbour_all_gather(&[1]).unwrap_err().class, Class::Topology);
            let point = Graph::new(&[0], &[]).unwrap();
            assert_eq!(
                world.create_graph(&point, world.rank() == Rank(0)).unwrap_err().class,
                Class::NotSame
            );
            let weights = Weights { of_sources: vec![5], of_destinations: vec![] };
            let heavy = Adjacent { weights: Some(weights), ..Adjacent::default() };
            assert_eq!(world.create_adjacent(heavy, true).unwrap_err().class, Class::Argument);
            assert_eq!(world.neighbour_all_gather(&[1]).unwrap_err().class, Class::Topology);
            assert_eq!(world.shift(0, 1).unwrap_err().class, Class::Topology);
            let line = world.cartesian([2]).create().unwrap().expect("both");
            assert_eq!(line.neighbour_all_to_all(&[1], 1).unwrap_err().class, Class::Count);
            assert_eq!(line.keep_axes(&[true, true]).unwrap_err().class, Class::Argument);
        });
    }

    #[test]
    fn edges_that_one_end_gives_refuse_exchanges_at_all() {
        on(3, |world| {
            let here = world.rank().0;
            let (next, last) = ((here + 1) % 3, (here + 2) % 3);
            let weights = Weights { of_sources: vec![last as i32], of_destinations: vec![here as i32] };
            let edges = Adjacent { sources: vec![last], destinations: vec![next], weights: Some(weights) };
            let ring = world.create_adjacent(edges.clone(), true).unwrap();
            let Some(Topology::Adjacent(kept)) = ring.topology() else { panic!("no edges") };
            assert_eq!(kept.sources, [(ring.rank().0 + 2) % 3]);
            assert_eq!(kept.weights.as_ref().unwrap().of_destinations, [ring.rank().0 as i32]);
            assert_eq!(ring.neighbour_all_gather(&[ring.rank().0]).unwrap(), kept.sources);
            let destinations = if here == 0 { vec![] } else { vec![next] };
            let open = Adjacent { destinations, weights: None, ..edges };
            let open = world.create_adjacent(open, false).unwrap();
            assert_eq!(open.neighbour_all_gather(&[1]).unwrap_err().class, Class::Topology);
            // Everybody gives the edge of its neighbour.
            let edge = Edge { source: next, destination: last, weight: 4 };
            let told = world.create_distributed(&[edge], true, false).unwrap();
            assert_eq!(told.adjacent().unwrap().sources, [last]);
            assert_eq!(told.adjacent().unwrap().destinations, [next]);
        });
    }

    #[test]
    fn graphs_exchange_where_all_edges_lead_both_ways() {
        on(4, |world| {
            // A star of three, and one rank too many.
            let star = Graph::new(&[2, 3, 4], &[1, 2, 0, 0]).unwrap();
            let made = world.create_graph(&star, false).unwrap();
            assert_eq!(made.is_some(), world.rank().0 < 3);
            let Some(made) = made else { return };
            let got = made.neighbour_all_gather(&[made.rank().0]).unwrap();
            assert_eq!(got, star.neighbours(made.rank().0));
            let arrow = Graph::new(&[1, 1, 1], &[1]).unwrap();
            let made = made.create_graph(&arrow, true).unwrap().expect("all");
            assert_eq!(made.neighbour_all_gather(&[1]).unwrap_err().class, Class::Topology);
        });
    }
}
