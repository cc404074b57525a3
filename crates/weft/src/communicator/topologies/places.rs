//! Where the members of a communicator sit, and which of them takes which place of a topology.
//!
//! The placement comes from the members themselves. Those of one node tell the lowest of them, the leader,
//! where they may run; it asks the machine tree where that is, and describes its node in a few bytes. Where
//! there are several nodes, rank 0 collects the descriptions and all get them: what a member keeps and sends
//! grows with the nodes and not with the ranks. A placement is kept with its communicator and goes over to
//! its copies.

use std::sync::Arc;

use datatype::Operator;
use fabric::Peer;
use job::error::{Class, Error, Result};
use job::tell;
use messaging::Rank;
use topology::{CpuSet, Grid, Mapping, NodeShape, Placement, Seat, Stencil, choose_grid, map, map_graph};

use super::{AgreedTopology, Communicator, GRID, Topology, mark_of};
use crate::communicator::control_messages::{Mail, Parcel};
use crate::contexts::mix;
use crate::group::Group;

impl Communicator {
    /// A communicator of `grid.cells()` members, arranged as a grid: each takes the cell where the messages
    /// of the stencil have the shortest ways on this machine (MPI 5.0 §8.5.1 with `reorder`). Where nothing
    /// is gained by that, each keeps its rank. Whole nodes are left out first. Collective.
    ///
    /// # Errors
    /// [`Class::Dimensions`] where the grid has more cells than there are members; [`Class::Argument`] where
    /// the stencil is for another number of axes; [`Class::NotSame`] where members give different grids or
    /// stencils; a lost member.
    pub fn create_mapped_grid(&self, grid: &Grid, stencil: &Stencil) -> Result<Option<Communicator>> {
        self.check_cells(grid)?;
        let mark = stencil.offsets().iter().fold(mix(mark_of(grid) ^ MAPPED), |mark, offset| {
            offset.by.iter().fold(mix(mark ^ u64::from(offset.weight)), |mark, &by| mix(mark ^ by as u64))
        });
        let agreed = self.agree_alike(mark)?;
        Ok(self.create_by(grid, &self.mapping(grid, stencil)?, agreed))
    }

    fn create_by(&self, grid: &Grid, mapping: &Mapping, agreed: AgreedTopology) -> Option<Communicator> {
        let made = self.arranged(&ranks_of(mapping, grid), Topology::Grid(grid.clone()), GRID, agreed);
        if self.process().surroundings().explains() && self.rank() == Rank(0) {
            tell(format_args!("weft: {}", explained(&self.label(), grid, mapping)));
        }
        made
    }

    /// A grid of all members whose extents are chosen together with the mapping: those entries of `dims` that
    /// are 0. `faces` are the areas of the whole domain across each axis, in proportion: 1 everywhere for a
    /// cube. Collective.
    ///
    /// # Errors
    /// [`Class::Dimensions`] where the extents that are given do not divide the members; as
    /// [`Communicator::create_grid`].
    pub fn create_chosen_grid(&self, dims: &[u32], periods: &[bool], faces: &[u32]) -> Result<Communicator> {
        self.check_no_inter()?;
        let axes = dims.iter().zip(periods).zip(faces);
        let mark = axes.fold(mix(CHOSEN), |mark, ((&extent, &is_ring), &face)| {
            mix(mix(mark ^ (u64::from(extent) << 1 | u64::from(is_ring))) ^ u64::from(face))
        });
        let agreed = self.agree_alike(mark)?;
        let placement = self.placement()?;
        let (grid, mapping) = choose_grid(self.size(), dims, periods, faces, &placement)
            .map_err(|error| Error::new(Class::Dimensions, format!("{}: {error}", self.place())))?;
        self.create_by(&grid, &mapping, agreed).ok_or_else(|| self.lost_itself())
    }

    /// The rank that this process would get by [`Communicator::create_mapped_grid`]; none where it would get
    /// no communicator (MPI 5.0 §8.5.9). Collective.
    ///
    /// # Errors
    /// As there.
    pub fn map_grid(&self, grid: &Grid, stencil: &Stencil) -> Result<Option<Rank>> {
        Ok(self.mapping(grid, stencil)?.cell_of_rank(self.rank().0).map(Rank))
    }

    fn mapping(&self, grid: &Grid, stencil: &Stencil) -> Result<Mapping> {
        self.check_cells(grid)?;
        let placement = self.placement()?;
        map(grid, stencil, &placement)
            .map_err(|error| Error::new(Class::Argument, format!("{}: {error}", self.place())))
    }

    /// The ranks of this communicator that are to be the nodes of a graph, in their order.
    pub(super) fn ranks_by_edges(
        &self,
        nodes: u32,
        edges: impl Iterator<Item = (u32, u32, u32)>,
    ) -> Result<Group> {
        let placement = self.placement()?;
        Ok(Group::of(map_graph(nodes, edges, &placement).into_iter().map(Peer)))
    }

    /// Where the members sit. Collective at the first time. Where ranks are blank nobody asks: all count as
    /// on one node, and nobody is mapped.
    ///
    /// # Errors
    /// A lost member; what a node tells that makes no sense.
    pub fn placement(&self) -> Result<Arc<Placement>> {
        if self.has_blanks() {
            return Ok(Arc::new(self.unknown_placement()?));
        }
        if let Some(known) = self.inner.placement.get() {
            return Ok(known.clone());
        }
        self.check_no_inter()?;
        let found = Arc::new(self.find_placement()?);
        Ok(self.inner.placement.get_or_init(|| found).clone())
    }

    /// As on a machine of which nothing is known, for members that could not all tell.
    fn unknown_placement(&self) -> Result<Placement> {
        let ranks: Vec<(u32, Seat)> = (0..self.size()).map(|rank| (rank, Seat::UNKNOWN)).collect();
        let nodes: Vec<NodeShape> = ranks.chunks(1 << 16).map(|ranks| NodeShape::new(ranks, None)).collect();
        Placement::of_nodes(&nodes, self.size()).map_err(|error| self.no_placement(&error))
    }

    fn find_placement(&self) -> Result<Placement> {
        let here = self.ranks_of_this_node();
        let (from_node, from_leaders) = (Mail::new(self), Mail::new(self));
        let is_one_node = here.len() == self.size() as usize;
        let mut told = Vec::new();
        let mut under_way = None;
        match here.split_first() {
            Some((leader, _)) if *leader != self.rank() => {
                under_way = Some(from_node.send(*leader, &words_of(&allowed_here()))?);
            }
            _ => told = packed(&self.describe_node(&from_node, &here)?.encode()),
        }
        let is_leader = !told.is_empty();
        let nodes = if is_one_node { 1 } else { self.all_reduce(&[u32::from(is_leader)], Operator::Sum)?[0] };
        if self.rank() == Rank(0) {
            for _ in 1..nodes {
                told.extend(from_leaders.receive_any()?);
            }
        } else if is_leader {
            under_way = Some(from_leaders.send(Rank(0), &std::mem::take(&mut told))?);
        }
        let shapes = self.shapes_in(&self.told_by_root(told)?)?;
        under_way.map_or(Ok(()), Parcel::arrive)?;
        Placement::of_nodes(&shapes, self.size()).map_err(|error| self.no_placement(&error))
    }

    /// The members on this node, in the order of ranks.
    fn ranks_of_this_node(&self) -> Vec<Rank> {
        let group = self.group();
        let mut ranks: Vec<Rank> = self.process().node().iter().filter_map(|peer| group.rank(peer)).collect();
        ranks.sort_unstable();
        ranks
    }

    /// The leader's part: where all members of the node sit.
    fn describe_node(&self, mail: &Mail<'_>, here: &[Rank]) -> Result<NodeShape> {
        let (process, group) = (self.process(), self.group());
        let number =
            |rank| group.peer(rank).and_then(|peer| process.node().rank(peer)).map_or(0, |Rank(at)| at);
        let mut members = Vec::with_capacity(here.len());
        for &from in here {
            let cpus = match from == self.rank() {
                true => allowed_here(),
                false => cpus_of(&mail.receive(from, CPU_WORDS)?),
            };
            members.push((number(from), cpus));
        }
        let surroundings = process.surroundings();
        let seats = surroundings.seats(&members);
        let ranks: Vec<(u32, Seat)> = here.iter().map(|rank| rank.0).zip(seats).collect();
        Ok(NodeShape::new(&ranks, surroundings.switches()))
    }

    /// What rank 0 has to tell, at all members.
    fn told_by_root(&self, mut told: Vec<i64>) -> Result<Vec<i64>> {
        let mut length = [told.len() as u64];
        self.broadcast(&mut length, Rank(0))?;
        if length[0] > TOLD_WORDS_MAX * u64::from(self.size()) {
            return Err(self.no_placement(&"they tell too much"));
        }
        told.resize(length[0] as usize, 0);
        self.broadcast(&mut told, Rank(0))?;
        Ok(told)
    }

    fn shapes_in(&self, mut told: &[i64]) -> Result<Vec<NodeShape>> {
        let mut shapes = Vec::new();
        while let [bytes, ..] = told {
            let words = usize::try_from(*bytes).ok().map(|bytes| 1 + bytes.div_ceil(WORD_BYTES));
            let parts = words.and_then(|words| told.split_at_checked(words));
            let (shape, rest) = parts.ok_or_else(|| self.no_placement(&"a description is cut off"))?;
            shapes.push(self.shape_in(shape)?);
            told = rest;
        }
        Ok(shapes)
    }

    fn shape_in(&self, words: &[i64]) -> Result<NodeShape> {
        NodeShape::decode(&unpacked(words))
            .map_err(|error| Error::of_text(Class::Other, &error.to_string()).during(self.place()))
    }

    #[cold]
    fn no_placement(&self, why: &dyn std::fmt::Display) -> Error {
        Error::new(
            Class::Internal,
            format!("{}: what the nodes told makes no placement: {why}", self.place()),
        )
    }
}

/// The ranks of the old communicator in the order of cells.
fn ranks_of(mapping: &Mapping, grid: &Grid) -> Group {
    match mapping.is_identity() {
        true => Group::world(grid.cells()),
        false => Group::of((0..grid.cells()).map(|cell| Peer(mapping.rank_of_cell(cell)))),
    }
}

/// What has been gained, in a line.
fn explained(label: &str, grid: &Grid, mapping: &Mapping) -> String {
    let dims: Vec<String> = grid.dims().iter().map(u32::to_string).collect();
    let (before, after) = (mapping.before(), mapping.after());
    format!(
        "grid {} of {label}: mapped by {}, cost {} -> {}, messages between nodes {} -> {} (no mapping has fewer than \
         {}), most of one node {} -> {}",
        dims.join("x"),
        mapping.algorithm().name(),
        before.cost,
        after.cost,
        before.j_sum,
        after.j_sum,
        mapping.lower_bound(),
        before.j_max,
        after.j_max,
    )
}

/// The cpus that this process may run on; none where that cannot be told.
fn allowed_here() -> CpuSet {
    topology::cpus_allowed().unwrap_or_default()
}

/// A set of cpus in a message of fixed length; without those that have no place in it.
fn words_of(cpus: &CpuSet) -> [i64; CPU_WORDS] {
    let mut words = [0; CPU_WORDS];
    for cpu in cpus.iter() {
        if let Some(word) = words.get_mut(cpu / WORD_BITS) {
            *word |= 1 << (cpu % WORD_BITS);
        }
    }
    words
}

fn cpus_of(words: &[i64]) -> CpuSet {
    let is_in = |cpu: &usize| words[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1;
    (0..words.len() * WORD_BITS).filter(is_in).collect()
}

/// Bytes as numbers: how many, and then eight in each.
fn packed(bytes: &[u8]) -> Vec<i64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; WORD_BYTES];
        word[..chunk.len()].copy_from_slice(chunk);
        i64::from_le_bytes(word)
    };
    [bytes.len() as i64].into_iter().chain(bytes.chunks(WORD_BYTES).map(word)).collect()
}

fn unpacked(words: &[i64]) -> Vec<u8> {
    let Some((&length, words)) = words.split_first() else { return Vec::new() };
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    bytes
}

/// Marks of grids whose ranks may change, and of those whose extents are chosen, too.
const MAPPED: u64 = 5;
const CHOSEN: u64 = 6;
const WORD_BYTES: usize = 8;
const WORD_BITS: usize = 64;
/// As many cpus as the fixed mask of the kernel's calls has. Of a process that may run on others only it is
/// not known where on its node it sits.
const CPU_WORDS: usize = 1024 / WORD_BITS;
/// What all nodes together tell of each rank: a run, in each of its parts, and a path of switches.
const TOLD_WORDS_MAX: u64 = 64;
