//! Communicators arranged as graphs (MPI 5.0 §8.5.3, §8.5.4).

use fabric::Peer;
use job::error::{Class, Error, Result};
use messaging::Rank;
use topology::{Adjacent, Graph, Weights};

use super::lists::Lists;
use super::{Communicator, Topology};
use crate::communicator::control_messages::{Mail, Parcel};
use crate::contexts::mix;
use crate::group::Group;

/// An edge of a distributed graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The rank from which it leads.
    pub source: u32,
    /// The rank to which it leads.
    pub destination: u32,
    /// What it weighs; of no meaning where the graph has no weights.
    pub weight: i32,
}

impl Communicator {
    /// A communicator of the first `graph.nodes()` members, arranged as a graph that all give alike (MPI 5.0
    /// §8.5.3). With `reorder`, ranks may be changed so that neighbours sit near each other. The others get
    /// none. Collective.
    ///
    /// # Errors
    /// [`Class::Topology`] where the graph has more nodes than there are members; [`Class::NotSame`] where
    /// members give different graphs; a lost member.
    pub fn create_graph(&self, graph: &Graph, reorder: bool) -> Result<Option<Communicator>> {
        self.check_nodes(graph)?;
        let agreed = self.agree_alike(mix(mark_of(graph) ^ u64::from(reorder)))?;
        let ranks = match reorder {
            true => self.ranks_of_graph(graph)?,
            false => Group::world(graph.nodes()),
        };
        Ok(self.arranged(&ranks, Topology::Graph(graph.clone()), GRAPH, agreed))
    }

    /// The rank that this process would get by [`Communicator::create_graph`] with `reorder`; none where it
    /// would get no communicator (MPI 5.0 §8.5.9). Collective.
    ///
    /// # Errors
    /// As there.
    pub fn map_graph(&self, graph: &Graph) -> Result<Option<Rank>> {
        self.check_nodes(graph)?;
        Ok(self.ranks_of_graph(graph)?.rank(Peer(self.rank().0)))
    }

    fn check_nodes(&self, graph: &Graph) -> Result<()> {
        self.check_no_inter()?;
        if graph.nodes() <= self.size() {
            return Ok(());
        }
        let what = format!(
            "{}: a graph of {} nodes, and there are {} ranks",
            self.place(),
            graph.nodes(),
            self.size()
        );
        Err(Error::new(Class::Topology, what).remedy("start more ranks, or give a graph with fewer nodes"))
    }

    /// The ranks of this communicator that are to be the nodes of a graph, in their order.
    fn ranks_of_graph(&self, graph: &Graph) -> Result<Group> {
        let edges =
            (0..graph.nodes()).flat_map(|node| graph.neighbours(node).iter().map(move |&to| (node, to, 1)));
        self.ranks_by_edges(graph.nodes(), edges)
    }

    /// A communicator of all members, arranged as a graph of which each gives its own edges, at both ends
    /// alike (MPI 5.0 §8.5.4). With `reorder`, ranks may be changed so that neighbours sit near each other;
    /// the edges of a rank go with the rank. Where an edge is given at one end only, all members are refused
    /// exchanges with neighbours later. Collective.
    ///
    /// # Errors
    /// [`Class::Rank`] where an edge leads to no member; [`Class::Argument`] for a negative weight; a lost
    /// member.
    pub fn create_adjacent(&self, edges: Adjacent, reorder: bool) -> Result<Communicator> {
        self.check_no_inter()?;
        for &rank in edges.sources.iter().chain(&edges.destinations) {
            self.check_member(rank)?;
        }
        self.check_weights(&edges)?;
        let word = self.word_of(&edges).wrapping_add(self.alike(mark_of_kind(&edges, reorder)));
        let agreed = self.agree_on(word)?;
        // Where it is not known that all mean one graph, some may not want ranks to change. With blank ones
        // nobody is mapped.
        let may_change = reorder && agreed.is_so && !self.has_blanks();
        let unchanged = Group::world(self.size());
        let (ranks, edges) = if may_change { self.reordered(edges)? } else { (unchanged, edges) };
        self.arranged(&ranks, Topology::Adjacent(edges), GRAPH, agreed).ok_or_else(|| self.lost_itself())
    }

    fn check_member(&self, rank: u32) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        let what = format!("{}: an edge names rank {rank}, ranks are 0 to {}", self.place(), self.size() - 1);
        Err(Error::new(Class::Rank, what))
    }

    fn check_weights(&self, edges: &Adjacent) -> Result<()> {
        let Some(weights) = &edges.weights else { return Ok(()) };
        let lengths = (weights.of_sources.len(), weights.of_destinations.len());
        if lengths != (edges.sources.len(), edges.destinations.len()) {
            let what = format!("{}: there are not as many weights as edges", self.place());
            return Err(Error::new(Class::Argument, what));
        }
        let all = weights.of_sources.iter().chain(&weights.of_destinations);
        match all.copied().find(|&weight| weight < 0) {
            None => Ok(()),
            Some(weight) => Err(self.no_weight(weight)),
        }
    }

    #[cold]
    fn no_weight(&self, weight: i32) -> Error {
        let what = format!("{}: an edge weighs {weight}", self.place());
        Error::new(Class::Argument, what).remedy("weights are 0 or more")
    }

    /// What this member's edges add to a sum that is 0 if each edge between two who live is given at both of
    /// its ends. A blank rank gives none of its own.
    fn word_of(&self, edges: &Adjacent) -> u64 {
        let Rank(here) = self.rank();
        let mark = |source: u32, destination: u32| mix(u64::from(source) << 32 | u64::from(destination));
        let lives = |there: &&u32| !self.is_blank(Rank(**there));
        let away = edges.destinations.iter().filter(lives).map(|&there| mark(here, there));
        let towards = edges.sources.iter().filter(lives).map(|&there| mark(there, here).wrapping_neg());
        away.chain(towards).fold(0, u64::wrapping_add)
    }

    /// A communicator of all members, arranged as a graph whose edges anybody may give, each once (MPI 5.0
    /// §8.5.4). With weights all give them. Otherwise as [`Communicator::create_adjacent`]. Collective.
    ///
    /// # Errors
    /// [`Class::Rank`] where an edge is not one between members; as there.
    pub fn create_distributed(
        &self,
        edges: &[Edge],
        has_weights: bool,
        reorder: bool,
    ) -> Result<Communicator> {
        self.check_no_inter()?;
        for edge in edges {
            self.check_member(edge.source)?;
            self.check_member(edge.destination)?;
            if has_weights && edge.weight < 0 {
                return Err(self.no_weight(edge.weight));
            }
        }
        let own = self.edges_here(edges)?;
        let Rank(here) = self.rank();
        let mut mine = Adjacent { weights: has_weights.then(Weights::default), ..Adjacent::default() };
        for edge in own {
            if edge.destination == here {
                mine.sources.push(edge.source);
                mine.weights.iter_mut().for_each(|weights| weights.of_sources.push(edge.weight));
            }
            if edge.source == here {
                mine.destinations.push(edge.destination);
                mine.weights.iter_mut().for_each(|weights| weights.of_destinations.push(edge.weight));
            }
        }
        self.create_adjacent(mine, reorder)
    }

    /// Of the edges that all members give, those that begin or end here: in the order of who gives them, and
    /// then as they are given. So two edges between the same ranks are in the same order at both ends.
    fn edges_here(&self, edges: &[Edge]) -> Result<Vec<Edge>> {
        let Rank(here) = self.rank();
        let mut chunked_messages = vec![Vec::new(); self.size() as usize];
        for edge in edges {
            let numbers = [edge.source, edge.destination].map(i64::from);
            let ends = if edge.source == edge.destination { &numbers[..1] } else { &numbers[..] };
            for &end in ends {
                chunked_messages[end as usize].extend([numbers[0], numbers[1], i64::from(edge.weight)]);
            }
        }
        let counts: Vec<u32> =
            chunked_messages.iter().map(|chunked_message| chunked_message.len() as u32).collect();
        let coming = self.all_to_all_segments(&counts)?.or_blank();
        let mail = Mail::new(self);
        let is_sent = |(to, chunked_message): &(u32, &Vec<i64>)| *to != here && !chunked_message.is_empty();
        let under_way = (0..)
            .zip(&chunked_messages)
            .filter(is_sent)
            .map(|(to, chunked_message)| mail.send(Rank(to), chunked_message));
        let under_way = under_way.collect::<Result<Vec<Parcel>>>()?;
        let mut arrived = Vec::new();
        for (from, &count) in (0..).zip(&coming) {
            match () {
                () if from == here => arrived.append(&mut chunked_messages[here as usize]),
                () if count > 0 => arrived.extend(mail.receive(Rank(from), count as usize)?),
                () => {}
            }
        }
        under_way.into_iter().try_for_each(Parcel::arrive)?;
        let edge = |&[source, destination, weight]: &[i64; 3]| Edge {
            source: source as u32,
            destination: destination as u32,
            weight: weight as i32,
        };
        Ok(arrived.as_chunks::<3>().0.iter().map(edge).collect())
    }

    /// Which rank is to be which node, and the edges of the node that this rank is to be.
    fn reordered(&self, edges: Adjacent) -> Result<(Group, Adjacent)> {
        let unchanged = Group::world(self.size());
        let Some(lists) = self.all_gather_lists(&listed(&edges), GATHERED_MAX)? else {
            return Ok((unchanged, edges));
        };
        let all = (0..self.size()).flat_map(|node| {
            let Adjacent { destinations, weights, .. } = adjacent_of(&lists, Rank(node));
            let weights =
                weights.map_or_else(|| vec![1; destinations.len()], |weights| weights.of_destinations);
            destinations.into_iter().zip(weights).map(move |(to, weight)| (node, to, weight as u32))
        });
        let ranks = self.ranks_by_edges(self.size(), all)?;
        let node = ranks.rank(Peer(self.rank().0)).ok_or_else(|| self.lost_itself())?;
        let edges = adjacent_of(&lists, node);
        Ok((ranks, edges))
    }
}

/// Edges as numbers: how many sources, whether there are weights, sources, destinations, and their weights.
fn listed(edges: &Adjacent) -> Vec<i32> {
    let Adjacent { sources, destinations, weights } = edges;
    let ranks = sources.iter().chain(destinations).map(|&rank| rank as i32);
    let weighs = weights.iter().flat_map(|weights| weights.of_sources.iter().chain(&weights.of_destinations));
    [sources.len() as i32, i32::from(weights.is_some())]
        .into_iter()
        .chain(ranks)
        .chain(weighs.copied())
        .collect()
}

/// The edges of a member, out of its list.
fn adjacent_of(lists: &Lists, rank: Rank) -> Adjacent {
    let [count, has_weights, rest @ ..] = lists.of(rank) else { return Adjacent::default() };
    let edges = if *has_weights == 0 { rest.len() } else { rest.len() / 2 };
    let (ranks, weights) = rest.split_at(edges);
    let ranks: Vec<u32> = ranks.iter().map(|&rank| rank as u32).collect();
    let (sources, destinations) = ranks.split_at((*count as usize).min(ranks.len()));
    let weights = (*has_weights != 0).then(|| {
        let (of_sources, of_destinations) = weights.split_at(sources.len());
        Weights { of_sources: of_sources.to_vec(), of_destinations: of_destinations.to_vec() }
    });
    Adjacent { sources: sources.to_vec(), destinations: destinations.to_vec(), weights }
}

fn mark_of(graph: &Graph) -> u64 {
    let numbers = graph.index().iter().chain(graph.edges());
    numbers.fold(WHOLE, |mark, &number| mix(mark ^ u64::from(number)))
}

fn mark_of_kind(edges: &Adjacent, reorder: bool) -> u64 {
    mix(DISTRIBUTED ^ u64::from(edges.weights.is_some()) << 1 ^ u64::from(reorder))
}

const WHOLE: u64 = 3;
const DISTRIBUTED: u64 = 4;
const GRAPH: &str = "graph of ";
/// Numbers of all lists together up to which a distributed graph is gathered to be mapped: with what the
/// mapping needs, some tens of megabytes at each rank.
const GATHERED_MAX: usize = 1 << 20;
