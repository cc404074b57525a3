//! Communicators whose ranks are the nodes of a graph (MPI 5.0 §8.5.3, §8.5.4).

use std::ffi::c_int;

use weft::{Adjacent, Class, Communicator, Edge, Error, Graph, Rank, Result, Weights};

use super::{check_room, member};
use crate::bodies::communicator_hints;
use crate::bodies::communicators::{check, hand_out_if, hand_out_with};
use crate::claims::{List, Place, Places};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::state::call;
use crate::types::*;

/// A communicator whose ranks are the nodes of a graph. Every member passes the whole graph, the same as the
/// others.
pub fn mpi_graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    indx: List<'_, c_int>,
    edges: List<'_, c_int>,
    reorder: c_int,
    comm_graph: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Graph_create", Target::Comm(comm_old), |runtime| {
        let (object, comm_graph) = check(runtime, comm_old, comm_graph)?;
        let lists = lists(nnodes, indx, edges)?;
        let reorder = reorder != 0;
        object.comm.check(|| format!("MPI_Graph_create, {}, reorder {reorder}", words(lists)))?;
        let new = object.comm.create_graph(&graph(&object.comm, lists)?, reorder)?;
        hand_out_if(runtime, new, &object, comm_old, comm_graph)
    })
}

/// The rank that this process would get on the graph if ranks may change. Collective.
pub fn mpi_graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    indx: List<'_, c_int>,
    edges: List<'_, c_int>,
    newrank: Place<'_, c_int>,
) -> c_int {
    call("MPI_Graph_map", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let (lists, place) = (lists(nnodes, indx, edges)?, newrank.checked("newrank")?);
        object.comm.check(|| format!("MPI_Graph_map, {}", words(lists)))?;
        let mapped = object.comm.map_graph(&graph(&object.comm, lists)?)?;
        place.set(mapped.map_or(MPI_UNDEFINED, |Rank(rank)| rank as c_int));
        Ok(())
    })
}

/// The two arrays that describe a graph.
type Lists<'a> = (&'a [c_int], &'a [c_int]);

fn lists<'a>(nnodes: c_int, indx: List<'a, c_int>, edges: List<'a, c_int>) -> Result<Lists<'a>> {
    let index = indx.slice(i64::from(nnodes), "index")?;
    // An index that falls is refused later; what is read here is what the last entry vouches for.
    let count = index.last().copied().unwrap_or(0).max(0);
    Ok((index, edges.slice(i64::from(count), "edges")?))
}

fn graph(comm: &Communicator, (index, edges): Lists<'_>) -> Result<Graph> {
    Graph::new(index, edges)
        .map_err(|error| Error::new(Class::Argument, format!("{}: {error}", comm.place())))
}

/// For the comparison of calls (`WEFT_CHECK`).
fn words((index, edges): Lists<'_>) -> String {
    let numbers = index.iter().chain(edges);
    let mark = numbers.fold(17u32, |mark, &number| mark.wrapping_mul(31).wrapping_add(number as u32));
    format!("{} nodes, {} edges (mark {mark:08x})", index.len(), edges.len())
}

/// How many nodes and edges the graph has.
pub fn mpi_graphdims_get(comm: MPI_Comm, nnodes: Place<'_, c_int>, nedges: Place<'_, c_int>) -> c_int {
    call("MPI_Graphdims_get", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let graph = object.comm.graph()?;
        let (nodes, edges) = (nnodes.checked("nnodes")?, nedges.checked("nedges")?);
        nodes.set(graph.nodes() as c_int);
        edges.set(graph.edges().len() as c_int);
        Ok(())
    })
}

/// The graph.
pub fn mpi_graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    indx: Places<'_, c_int>,
    edges: Places<'_, c_int>,
) -> c_int {
    call("MPI_Graph_get", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let graph = object.comm.graph()?;
        check_room(maxindex, graph.index().len(), "maxindex")?;
        check_room(maxedges, graph.edges().len(), "maxedges")?;
        let index = indx.checked(graph.index().len() as i64, "index")?;
        let edges = edges.checked(graph.edges().len() as i64, "edges")?;
        index.put(&signed(graph.index()));
        edges.put(&signed(graph.edges()));
        Ok(())
    })
}

fn signed(numbers: &[u32]) -> Vec<c_int> {
    numbers.iter().map(|&number| number as c_int).collect()
}

/// How many neighbours a node of the graph has.
pub fn mpi_graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: Place<'_, c_int>) -> c_int {
    call("MPI_Graph_neighbors_count", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let graph = object.comm.graph()?;
        let place = nneighbors.checked("nneighbors")?;
        place.set(graph.neighbours(member(&object.comm, rank)?).len() as c_int);
        Ok(())
    })
}

/// The neighbours of a node of the graph.
pub fn mpi_graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: Places<'_, c_int>,
) -> c_int {
    call("MPI_Graph_neighbors", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let neighbours = object.comm.graph()?.neighbours(member(&object.comm, rank)?);
        check_room(maxneighbors, neighbours.len(), "maxneighbors")?;
        neighbors.checked(neighbours.len() as i64, "neighbors")?.put(&signed(neighbours));
        Ok(())
    })
}

/// A communicator whose ranks are the nodes of a graph. Each member passes the edges of its own node.
pub fn mpi_dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: List<'_, c_int>,
    sourceweights: List<'_, c_int>,
    outdegree: c_int,
    destinations: List<'_, c_int>,
    destweights: List<'_, c_int>,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Dist_graph_create_adjacent", Target::Comm(comm_old), |runtime| {
        let (object, comm_dist_graph) = check(runtime, comm_old, comm_dist_graph)?;
        let (degree_in, degree_out) = (i64::from(indegree), i64::from(outdegree));
        let (sources, destinations, of_sources, of_destinations) = (
            sources.slice(degree_in, "sources")?,
            destinations.slice(degree_out, "destinations")?,
            weights(sourceweights, degree_in, "sourceweights")?,
            weights(destweights, degree_out, "destweights")?,
        );
        communicator_hints::check(info)?;
        let reorder = reorder != 0;
        let has_weights = of_sources.is_some() && of_destinations.is_some();
        object
            .comm
            .check(|| format!("MPI_Dist_graph_create_adjacent, weights {has_weights}, reorder {reorder}"))?;
        if of_sources.is_some() != of_destinations.is_some() {
            let what = format!("{}: weights are given at one end of the edges only", object.comm.place());
            return Err(Error::new(Class::Argument, what).remedy("give both, or MPI_UNWEIGHTED for both"));
        }
        let both = of_sources.zip(of_destinations);
        let edges = Adjacent {
            sources: ranks(&object.comm, sources)?,
            destinations: ranks(&object.comm, destinations)?,
            weights: both.map(|(of_sources, of_destinations)| Weights {
                of_sources: of_sources.to_vec(),
                of_destinations: of_destinations.to_vec(),
            }),
        };
        let new = object.comm.create_adjacent(edges, reorder)?;
        hand_out_with(runtime, Some(new), (&object, comm_old), comm_dist_graph, info)
    })
}

/// The weights of edges; none for `MPI_UNWEIGHTED`.
fn weights<'a>(weights: List<'a, c_int>, count: i64, name: &str) -> Result<Option<&'a [c_int]>> {
    if weights.addr() == MPI_UNWEIGHTED.addr() {
        return Ok(None);
    }
    if weights.addr() == MPI_WEIGHTS_EMPTY.addr() {
        return match count {
            0 => Ok(Some(&[])),
            _ => Err(Error::new(Class::Argument, format!("{name} is MPI_WEIGHTS_EMPTY for {count} edges"))
                .remedy("give MPI_UNWEIGHTED, or a weight for each edge")),
        };
    }
    weights.slice(count, name).map(Some)
}

fn ranks(comm: &Communicator, given: &[c_int]) -> Result<Vec<u32>> {
    given.iter().map(|&rank| member(comm, rank)).collect()
}

/// A communicator whose ranks are the nodes of a graph. Each member passes any edges of the graph, whichever
/// nodes they join.
pub fn mpi_dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: List<'_, c_int>,
    degrees: List<'_, c_int>,
    destinations: List<'_, c_int>,
    weights: List<'_, c_int>,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: Place<'_, MPI_Comm>,
) -> c_int {
    call("MPI_Dist_graph_create", Target::Comm(comm_old), |runtime| {
        let (object, comm_dist_graph) = check(runtime, comm_old, comm_dist_graph)?;
        let (sources, degrees) =
            (sources.slice(i64::from(n), "sources")?, degrees.slice(i64::from(n), "degrees")?);
        if let Some(degree) = degrees.iter().find(|&&degree| degree < 0) {
            let what = format!("{}: a node has {degree} edges", object.comm.place());
            return Err(Error::new(Class::Argument, what));
        }
        let total: i64 = degrees.iter().copied().map(i64::from).sum();
        let (destinations, weights) =
            (destinations.slice(total, "destinations")?, self::weights(weights, total, "weights")?);
        communicator_hints::check(info)?;
        let (has_weights, reorder) = (weights.is_some(), reorder != 0);
        object.comm.check(|| format!("MPI_Dist_graph_create, weights {has_weights}, reorder {reorder}"))?;
        let repeated = sources.iter().zip(degrees);
        let repeated = repeated.flat_map(|(&source, &degree)| std::iter::repeat_n(source, degree as usize));
        let edge = |(at, (source, &destination)): (usize, (c_int, &c_int))| {
            Ok(Edge {
                source: member(&object.comm, source)?,
                destination: member(&object.comm, destination)?,
                weight: weights.map_or(1, |weights| weights[at]),
            })
        };
        let edges = repeated.zip(destinations).enumerate().map(edge).collect::<Result<Vec<Edge>>>()?;
        let new = object.comm.create_distributed(&edges, has_weights, reorder)?;
        hand_out_with(runtime, Some(new), (&object, comm_old), comm_dist_graph, info)
    })
}

/// How many edges of a distributed graph lead to and from this process, and whether they have weights.
pub fn mpi_dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: Place<'_, c_int>,
    outdegree: Place<'_, c_int>,
    weighted: Place<'_, c_int>,
) -> c_int {
    call("MPI_Dist_graph_neighbors_count", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let edges = object.comm.adjacent()?;
        let (degree_in, degree_out, has_weights) =
            (indegree.checked("indegree")?, outdegree.checked("outdegree")?, weighted.checked("weighted")?);
        degree_in.set(edges.sources.len() as c_int);
        degree_out.set(edges.destinations.len() as c_int);
        has_weights.set(c_int::from(edges.weights.is_some()));
        Ok(())
    })
}

/// The edges of a distributed graph that lead to and from this process: the first ones, where there is room
/// for fewer than there are.
pub fn mpi_dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: Places<'_, c_int>,
    sourceweights: Places<'_, c_int>,
    maxoutdegree: c_int,
    destinations: Places<'_, c_int>,
    destweights: Places<'_, c_int>,
) -> c_int {
    call("MPI_Dist_graph_neighbors", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let Adjacent { sources: from, destinations: to, weights } = object.comm.adjacent()?;
        let (of_sources, of_destinations) = match weights {
            Some(weights) => (Some(&weights.of_sources[..]), Some(&weights.of_destinations[..])),
            None => (None, None),
        };
        put_edges(maxindegree, (from, sources), (of_sources, sourceweights))?;
        put_edges(maxoutdegree, (to, destinations), (of_destinations, destweights))
    })
}

fn put_edges(
    room: c_int,
    (ranks, place): (&[u32], Places<'_, c_int>),
    (weights, place_of_weights): (Option<&[c_int]>, Places<'_, c_int>),
) -> Result<()> {
    let Ok(room) = usize::try_from(room) else {
        return Err(Error::new(Class::Argument, format!("the room for edges is {room}")));
    };
    let count = room.min(ranks.len());
    let constants = [MPI_UNWEIGHTED.addr(), MPI_WEIGHTS_EMPTY.addr()];
    place.checked(count as i64, "the array of neighbors")?.put(&signed(&ranks[..count]));
    if let Some(weights) = weights.filter(|_| !constants.contains(&place_of_weights.addr())) {
        let places = place_of_weights.checked(count as i64, "the array of weights")?;
        places.put(&weights[..count]);
    }
    Ok(())
}
