//! Communicators whose ranks are arranged: as the cells of a grid, or as the nodes of a graph (MPI 5.0 §8).

mod graphs;
mod lists;
mod places;

use std::sync::Arc;

use collectives::{Buffers, Neighbourhood, Surround};
use fabric::{Payload, Peer, UserMemory};
use job::error::{Class, Error, Result};
use messaging::Rank;
use topology::{Adjacent, Graph, Grid};

use super::Communicator;
use super::combining::Combining;
use crate::contexts::{Lease, mix};
use crate::group::Group;
use crate::recent::RecentKind;

pub use graphs::Edge;

/// How the ranks of a communicator are arranged (MPI 5.0 §8.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// As the cells of a grid: the rank is the number of its cell.
    Grid(Grid),
    /// As the nodes of a graph that all know.
    Graph(Graph),
    /// As the nodes of a graph of which each knows its own edges.
    Adjacent(Adjacent),
}

/// A topology, and whom this rank exchanges with in it.
pub(crate) struct Arranged {
    pub(super) topology: Topology,
    /// None where only one end of an edge knows of it, so that one would wait for what the other does not
    /// send.
    pub(super) neighbourhood: Option<Neighbourhood>,
}

impl Topology {
    /// Whom the rank `here` exchanges with.
    fn neighbourhood(&self, here: Rank) -> Option<Neighbourhood> {
        let Rank(rank) = here;
        let all = |ranks: &[u32]| ranks.iter().map(|&rank| Some(Rank(rank))).collect();
        match self {
            Topology::Grid(grid) => {
                let mut by = vec![0; grid.axes()];
                let mut ranks = Vec::with_capacity(2 * grid.axes());
                for axis in 0..grid.axes() {
                    for step in [-1, 1] {
                        by[axis] = step;
                        ranks.push(grid.neighbour(rank, &by).map(Rank));
                    }
                    by[axis] = 0;
                }
                Some(Neighbourhood { here, sources: ranks.clone(), destinations: ranks, is_paired: true })
            }
            Topology::Graph(graph) => graph.is_symmetric().then(|| {
                let ranks: Vec<_> = all(graph.neighbours(rank));
                Neighbourhood { here, sources: ranks.clone(), destinations: ranks, is_paired: false }
            }),
            Topology::Adjacent(Adjacent { sources, destinations, .. }) => Some(Neighbourhood {
                here,
                sources: all(sources),
                destinations: all(destinations),
                is_paired: false,
            }),
        }
    }
}

impl Communicator {
    /// How the ranks are arranged; none where they are not (MPI 5.0 §8.5.4).
    #[must_use]
    pub fn topology(&self) -> Option<&Topology> {
        self.inner.topology.as_ref().map(|arranged| &arranged.topology)
    }

    /// The grid that the ranks are the cells of.
    ///
    /// # Errors
    /// [`Class::Topology`] where they are not.
    pub fn grid(&self) -> Result<&Grid> {
        match self.topology() {
            Some(Topology::Grid(grid)) => Ok(grid),
            _ => Err(self.no_topology("a grid", "MPI_Cart_create")),
        }
    }

    /// The graph that the ranks are the nodes of.
    ///
    /// # Errors
    /// [`Class::Topology`] where they are not.
    pub fn graph(&self) -> Result<&Graph> {
        match self.topology() {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(self.no_topology("a graph", "MPI_Graph_create")),
        }
    }

    /// This rank's edges of a distributed graph.
    ///
    /// # Errors
    /// [`Class::Topology`] where there is none.
    pub fn adjacent(&self) -> Result<&Adjacent> {
        match self.topology() {
            Some(Topology::Adjacent(adjacent)) => Ok(adjacent),
            _ => Err(self.no_topology("a distributed graph", "MPI_Dist_graph_create_adjacent")),
        }
    }

    /// The ranks that this rank exchanges with, in the order of MPI 5.0 §8.6.
    ///
    /// # Errors
    /// [`Class::Topology`] where there is no topology, or a graph with an edge that only one of its ends
    /// knows.
    pub fn neighbourhood(&self) -> Result<&Neighbourhood> {
        match &self.inner.topology {
            Some(arranged) => arranged.neighbourhood.as_ref().ok_or_else(|| self.one_way()),
            None => Err(self.no_topology("neighbours", "MPI_Cart_create")),
        }
    }

    #[cold]
    fn no_topology(&self, of: &str, by: &str) -> Error {
        let what = format!("{}: this communicator does not have the topology of {of}", self.place());
        Error::new(Class::Topology, what).remedy(format!("give a communicator that was made by {by}"))
    }

    #[cold]
    fn one_way(&self) -> Error {
        let what = format!("{}: the members do not describe one graph", self.place());
        Error::new(Class::Topology, what).remedy(
            "give each edge at both of its ends (MPI_Graph_create: in both directions) and all of them weights, or none; \
             or let one end give it, with MPI_Dist_graph_create",
        )
    }

    /// A communicator of the first `grid.cells()` members, arranged as a grid: each keeps its rank (MPI 5.0
    /// §8.5.1). The others get none. Collective.
    ///
    /// # Errors
    /// [`Class::Dimensions`] where the grid has more cells than there are members; [`Class::NotSame`] where
    /// members give different grids; a lost member.
    pub fn create_grid(&self, grid: &Grid) -> Result<Option<Communicator>> {
        self.check_cells(grid)?;
        let agreed = self.agree_alike(mark_of(grid))?;
        let ranks = Group::world(grid.cells());
        Ok(self.arranged(&ranks, Topology::Grid(grid.clone()), GRID, agreed))
    }

    fn check_cells(&self, grid: &Grid) -> Result<()> {
        self.check_no_inter()?;
        if grid.cells() <= self.size() {
            return Ok(());
        }
        let dims: Vec<String> = grid.dims().iter().map(u32::to_string).collect();
        let (cells, size) = (grid.cells(), self.size());
        let what = format!(
            "{}: a grid of {} has {cells} cells, and there are {size} ranks",
            self.place(),
            dims.join("x")
        );
        Err(Error::new(Class::Dimensions, what)
            .remedy("start more ranks, or let MPI_Dims_create choose the extents"))
    }

    fn check_no_inter(&self) -> Result<()> {
        if self.is_inter() { Err(self.not_for_inter("a topology")) } else { Ok(()) }
    }

    /// Agrees on what a new communicator needs, where all give the same number.
    fn agree_alike(&self, mark: u64) -> Result<AgreedTopology> {
        let agreed = self.agree_on(self.alike(mark))?;
        if agreed.is_so { Ok(agreed) } else { Err(self.not_alike()) }
    }

    /// Agrees on what a new communicator needs, and on whether the words that all give sum up to 0.
    fn agree_on(&self, word: u64) -> Result<AgreedTopology> {
        let seed = self.next_seed();
        let (lease, sum) = self.vote(seed, word)?;
        Ok(AgreedTopology { lease, seed, is_so: sum == 0 })
    }

    /// A communicator of these members, which are ranks of this one in the order of the new one, with a
    /// topology.
    fn arranged(
        &self,
        ranks: &Group,
        topology: Topology,
        made: &'static str,
        agreed: AgreedTopology,
    ) -> Option<Communicator> {
        let AgreedTopology { lease, seed, is_so } = agreed;
        let rank = ranks.rank(Peer(self.rank().0))?;
        let neighbourhood = if is_so { topology.neighbourhood(rank) } else { None };
        let arranged = Arc::new(Arranged { topology, neighbourhood });
        let group = self.group().at_ranks(ranks);
        self.arranged_child(group, lease, seed, self.label_of_child(made), Some(arranged))
    }

    #[cold]
    fn not_alike(&self) -> Error {
        let what = format!("{}: the members do not describe the same topology", self.place());
        Error::new(Class::NotSame, what)
            .remedy("all must give the same arguments; WEFT_CHECK=1 tells who gave which")
    }

    /// The communicator of those cells that differ from this one's only along the axes that are kept
    /// (MPI 5.0 §8.5.8). Collective.
    ///
    /// # Errors
    /// [`Class::Topology`] without a grid, [`Class::Argument`] where `keep` has not an entry for each axis,
    /// [`Class::NotSame`] where members keep different axes; a lost member.
    pub fn keep_axes(&self, keep: &[bool]) -> Result<Communicator> {
        let grid = self.grid()?;
        if keep.len() != grid.axes() {
            let what = format!("{}: {} axes are kept or not, of {}", self.place(), keep.len(), grid.axes());
            return Err(Error::new(Class::Argument, what));
        }
        let coordinates = grid.place_of(self.rank().0);
        let strides = grid.strides();
        let kept = || (0..keep.len()).filter(|&axis| keep[axis]);
        let first: u32 =
            (0..keep.len()).filter(|&axis| !keep[axis]).map(|axis| coordinates[axis] * strides[axis]).sum();
        let part = grid.part(keep);
        let mut inside = vec![0; part.axes()];
        let ranks = (0..part.cells()).map(|cell| {
            part.coordinates(cell, &mut inside);
            Peer(first + kept().zip(&inside).map(|(axis, &at)| at * strides[axis]).sum::<u32>())
        });
        let ranks = Group::of(ranks);
        let mark = keep.iter().fold(SUB, |mark, &keep| mix(mark ^ u64::from(keep)));
        let agreed = self.agree_alike(mark)?;
        self.arranged(&ranks, Topology::Grid(part), SUBGRID, agreed).ok_or_else(|| self.lost_itself())
    }

    /// The ranks by `displacement` steps down and up an axis: those from which and to which data moves in a
    /// shift (MPI 5.0 §8.5.7). None is nobody, beyond an open border.
    ///
    /// # Errors
    /// [`Class::Topology`] without a grid, [`Class::Argument`] where there is no such axis.
    pub fn shift(&self, axis: usize, displacement: i32) -> Result<(Option<Rank>, Option<Rank>)> {
        let grid = self.grid()?;
        let mut there: Vec<i64> = grid.place_of(self.rank().0).into_iter().map(i64::from).collect();
        let Some(&here) = there.get(axis) else {
            let what = format!("{}: axis {axis} of a grid of {} axes", self.place(), grid.axes());
            return Err(Error::new(Class::Argument, what).remedy("axes are counted from 0"));
        };
        let [source, destination] = [-1, 1].map(|sign| {
            there[axis] = here + sign * i64::from(displacement);
            grid.cell(&there).map(Rank)
        });
        Ok((source, destination))
    }

    /// Exchanges blocks with the neighbours (MPI 5.0 §8.6). An exchange of blocks of one length that was done
    /// lately costs no allocation.
    ///
    /// # Errors
    /// [`Class::Topology`] where there is no topology, or a graph with an edge that only one of its ends
    /// knows; when a partner is lost or sends what does not fit.
    pub fn perform_around(
        &self,
        surround: Surround<'_>,
        input: Payload<'static>,
        mut output: UserMemory,
    ) -> Result<()> {
        if let Some(recovered) = self.recovered() {
            return recovered.living.perform_around(surround, input, output);
        }
        let neighbourhood = self.neighbourhood()?;
        if let Some(done) = self.perform_around_by_segment(neighbourhood, surround, input, &mut output) {
            return self.counted(done);
        }
        let Surround::Even(around) = surround else {
            return self.run(surround.schedule(neighbourhood), input, output, Combining::Nothing);
        };
        let is = |kept: &RecentKind| matches!(kept, RecentKind::Around(kept) if *kept == around);
        let new = || (RecentKind::Around(around), surround.schedule(neighbourhood));
        let done = self.repeat(is, new, Buffers { input, output }, Combining::Nothing);
        self.counted(done)
    }
}

/// What members have agreed on.
struct AgreedTopology {
    lease: Lease,
    seed: u64,
    /// Whether they mean the same.
    is_so: bool,
}

/// A number by which equal grids are known.
fn mark_of(grid: &Grid) -> u64 {
    let axes = grid.dims().iter().zip(grid.periods());
    axes.fold(ALL, |mark, (&extent, &is_ring)| mix(mark ^ (u64::from(extent) << 1 | u64::from(is_ring))))
}

const ALL: u64 = 1;
const SUB: u64 = 2;
const GRID: &str = "grid of ";
const SUBGRID: &str = "part of ";
