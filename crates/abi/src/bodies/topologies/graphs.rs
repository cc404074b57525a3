//! Communicators whose ranks are the nodes of a graph (MPI 5.0 §8.5.3, §8.5.4).

use std::ffi::c_int;

use weft::{Adjacent, Class, Communicator, Edge, Error, Graph, Rank, Result, Weights};

use super::{check_room, member, put};
use crate::bodies::communicator_hints;
use crate::bodies::communicators::{check, hand_out_if};
use crate::bodies::pointers::{Place, array, check_array};
use crate::bodies::world::null;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::state::call;
use crate::types::*;

/// A communicator whose ranks are the nodes of a graph that all give alike.
///
/// # Safety
/// `indx` is null or has `nnodes` entries, `edges` is null or has as many as the last of them says, `comm_graph` is
/// null or writable.
pub unsafe fn mpi_graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> c_int {
    call("MPI_Graph_create", Target::Comm(comm_old), |runtime| {
        let object = check(runtime, comm_old, comm_graph)?;
        // SAFETY: the program's promise is handed on.
        let lists = unsafe { lists(nnodes, indx, edges)? };
        let reorder = reorder != 0;
        object.comm.check(|| format!("MPI_Graph_create, {}, reorder {reorder}", words(lists)))?;
        let new = object.comm.create_graph(&graph(&object.comm, lists)?, reorder)?;
        // SAFETY: `check` has seen that it is not null, and the program promised that it is writable.
        unsafe { hand_out_if(runtime, new, &object, comm_old, comm_graph) }
    })
}

/// The rank that this process would get on the graph if ranks may change. Collective.
///
/// # Safety
/// As for [`mpi_graph_create`]; `newrank` is null or writable.
pub unsafe fn mpi_graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    call("MPI_Graph_map", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        // SAFETY: the program's promises are handed on.
        let (lists, place) = unsafe { (lists(nnodes, indx, edges)?, Place::new(newrank, "newrank")?) };
        object.comm.check(|| format!("MPI_Graph_map, {}", words(lists)))?;
        let mapped = object.comm.map_graph(&graph(&object.comm, lists)?)?;
        place.set(mapped.map_or(MPI_UNDEFINED, |Rank(rank)| rank as c_int));
        Ok(())
    })
}

/// The two arrays that describe a graph.
type Lists<'a> = (&'a [c_int], &'a [c_int]);

/// # Safety
/// As for [`mpi_graph_create`].
unsafe fn lists<'a>(nnodes: c_int, indx: *const c_int, edges: *const c_int) -> Result<Lists<'a>> {
    // SAFETY: the caller's promise is handed on.
    let index = unsafe { array(indx, i64::from(nnodes), "index")? };
    // An index that falls is refused later; what is read here is what the last entry vouches for.
    let count = index.last().copied().unwrap_or(0).max(0);
    // SAFETY: as above.
    Ok((index, unsafe { array(edges, i64::from(count), "edges")? }))
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
///
/// # Safety
/// `nnodes` and `nedges` are null or writable.
pub unsafe fn mpi_graphdims_get(comm: MPI_Comm, nnodes: *mut c_int, nedges: *mut c_int) -> c_int {
    call("MPI_Graphdims_get", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let graph = object.comm.graph()?;
        // SAFETY: the program's promises are handed on.
        let (nodes, edges) = unsafe { (Place::new(nnodes, "nnodes")?, Place::new(nedges, "nedges")?) };
        nodes.set(graph.nodes() as c_int);
        edges.set(graph.edges().len() as c_int);
        Ok(())
    })
}

/// The graph.
///
/// # Safety
/// `indx` is null or has `maxindex` entries, `edges` is null or has `maxedges`, writable.
pub unsafe fn mpi_graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    indx: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    call("MPI_Graph_get", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let graph = object.comm.graph()?;
        check_room(maxindex, graph.index().len(), "maxindex")?;
        check_room(maxedges, graph.edges().len(), "maxedges")?;
        check_array(indx, graph.index().len() as i64, "index")?;
        check_array(edges, graph.edges().len() as i64, "edges")?;
        // SAFETY: checked above, and the program promised the room.
        unsafe {
            put(&signed(graph.index()), indx);
            put(&signed(graph.edges()), edges);
        }
        Ok(())
    })
}

fn signed(numbers: &[u32]) -> Vec<c_int> {
    numbers.iter().map(|&number| number as c_int).collect()
}

/// How many neighbours a node of the graph has.
///
/// # Safety
/// `nneighbors` is null or writable.
pub unsafe fn mpi_graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: *mut c_int) -> c_int {
    call("MPI_Graph_neighbors_count", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let graph = object.comm.graph()?;
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(nneighbors, "nneighbors")? };
        place.set(graph.neighbours(member(&object.comm, rank)?).len() as c_int);
        Ok(())
    })
}

/// The neighbours of a node of the graph.
///
/// # Safety
/// `neighbors` is null or has `maxneighbors` entries, writable.
pub unsafe fn mpi_graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> c_int {
    call("MPI_Graph_neighbors", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let neighbours = object.comm.graph()?.neighbours(member(&object.comm, rank)?);
        check_room(maxneighbors, neighbours.len(), "maxneighbors")?;
        check_array(neighbors, neighbours.len() as i64, "neighbors")?;
        // SAFETY: checked above, and the program promised the room.
        unsafe { put(&signed(neighbours), neighbors) };
        Ok(())
    })
}

/// A communicator whose ranks are the nodes of a graph, of which each gives its own edges.
///
/// # Safety
/// The arrays of ranks are null or have as many entries as their degrees say; those of weights too, unless they are
/// `MPI_UNWEIGHTED` or `MPI_WEIGHTS_EMPTY`. `comm_dist_graph` is null or writable.
pub unsafe fn mpi_dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> c_int {
    call("MPI_Dist_graph_create_adjacent", Target::Comm(comm_old), |runtime| {
        let object = check(runtime, comm_old, comm_dist_graph)?;
        let (degree_in, degree_out) = (i64::from(indegree), i64::from(outdegree));
        // SAFETY: the program's promises are handed on.
        let (sources, destinations, of_sources, of_destinations) = unsafe {
            (
                array(sources, degree_in, "sources")?,
                array(destinations, degree_out, "destinations")?,
                weights(sourceweights, degree_in, "sourceweights")?,
                weights(destweights, degree_out, "destweights")?,
            )
        };
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
        // SAFETY: `check` has seen that it is not null, and the program promised that it is writable.
        unsafe {
            hand_out_if(runtime, Some(new), &object, comm_old, comm_dist_graph)?;
            runtime.comm(comm_dist_graph.read())?.add_hints(info)
        }
    })
}

/// The weights of edges; none for `MPI_UNWEIGHTED`.
///
/// # Safety
/// `weights` is null, one of the two constants, or has `count` entries that stay as they are until the call returns.
unsafe fn weights<'a>(weights: *const c_int, count: i64, name: &str) -> Result<Option<&'a [c_int]>> {
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
    // SAFETY: the caller's promise is handed on.
    unsafe { array(weights, count, name) }.map(Some)
}

fn ranks(comm: &Communicator, given: &[c_int]) -> Result<Vec<u32>> {
    given.iter().map(|&rank| member(comm, rank)).collect()
}

/// A communicator whose ranks are the nodes of a graph, of which anybody may give any edges.
///
/// # Safety
/// `sources` and `degrees` are null or have `n` entries, `destinations` and `weights` as many as the degrees sum up
/// to; `weights` may be `MPI_UNWEIGHTED` or `MPI_WEIGHTS_EMPTY`. `comm_dist_graph` is null or writable.
pub unsafe fn mpi_dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> c_int {
    call("MPI_Dist_graph_create", Target::Comm(comm_old), |runtime| {
        let object = check(runtime, comm_old, comm_dist_graph)?;
        // SAFETY: the program's promises are handed on.
        let (sources, degrees) =
            unsafe { (array(sources, i64::from(n), "sources")?, array(degrees, i64::from(n), "degrees")?) };
        if let Some(degree) = degrees.iter().find(|&&degree| degree < 0) {
            let what = format!("{}: a node has {degree} edges", object.comm.place());
            return Err(Error::new(Class::Argument, what));
        }
        let total: i64 = degrees.iter().copied().map(i64::from).sum();
        // SAFETY: as above.
        let (destinations, weights) = unsafe {
            (array(destinations, total, "destinations")?, self::weights(weights, total, "weights")?)
        };
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
        // SAFETY: as in `mpi_dist_graph_create_adjacent`.
        unsafe {
            hand_out_if(runtime, Some(new), &object, comm_old, comm_dist_graph)?;
            runtime.comm(comm_dist_graph.read())?.add_hints(info)
        }
    })
}

/// How many edges of a distributed graph lead to and from this process, and whether they have weights.
///
/// # Safety
/// `indegree`, `outdegree` and `weighted` are null or writable.
pub unsafe fn mpi_dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    call("MPI_Dist_graph_neighbors_count", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let edges = object.comm.adjacent()?;
        // SAFETY: the program's promises are handed on.
        let (degree_in, degree_out, has_weights) = unsafe {
            (
                Place::new(indegree, "indegree")?,
                Place::new(outdegree, "outdegree")?,
                Place::new(weighted, "weighted")?,
            )
        };
        degree_in.set(edges.sources.len() as c_int);
        degree_out.set(edges.destinations.len() as c_int);
        has_weights.set(c_int::from(edges.weights.is_some()));
        Ok(())
    })
}

/// The edges of a distributed graph that lead to and from this process: the first ones, where there is room for fewer
/// than there are.
///
/// # Safety
/// The arrays are null or have as many entries as is said, writable; those of weights may be `MPI_UNWEIGHTED` or
/// `MPI_WEIGHTS_EMPTY`.
pub unsafe fn mpi_dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> c_int {
    call("MPI_Dist_graph_neighbors", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let Adjacent { sources: from, destinations: to, weights } = object.comm.adjacent()?;
        let (of_sources, of_destinations) = match weights {
            Some(weights) => (Some(&weights.of_sources[..]), Some(&weights.of_destinations[..])),
            None => (None, None),
        };
        // SAFETY: the program's promises are handed on.
        unsafe {
            put_edges(maxindegree, (from, sources), (of_sources, sourceweights))?;
            put_edges(maxoutdegree, (to, destinations), (of_destinations, destweights))
        }
    })
}

/// # Safety
/// Both places are null or have `room` entries, writable; that of weights may be one of the two constants.
unsafe fn put_edges(
    room: c_int,
    (ranks, place): (&[u32], *mut c_int),
    (weights, place_of_weights): (Option<&[c_int]>, *mut c_int),
) -> Result<()> {
    let Ok(room) = usize::try_from(room) else {
        return Err(Error::new(Class::Argument, format!("the room for edges is {room}")));
    };
    let count = room.min(ranks.len());
    if count > 0 && place.is_null() {
        return Err(null("the array of neighbors"));
    }
    let constants = [MPI_UNWEIGHTED.addr(), MPI_WEIGHTS_EMPTY.addr()];
    // SAFETY: not null where there are entries, and the caller promised the room.
    unsafe {
        put(&signed(&ranks[..count]), place);
        match weights {
            Some(weights) if !constants.contains(&place_of_weights.addr()) => {
                check_array(place_of_weights, count as i64, "the array of weights")?;
                put(&weights[..count], place_of_weights);
            }
            _ => {}
        }
    }
    Ok(())
}
