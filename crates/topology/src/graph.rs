//! Graphs of who talks to whom (MPI 5.0 §8.5.5, §8.5.6): one that every process knows whole, and the edges of
//! one process alone.

use thiserror::Error;

/// A graph whose nodes are the ranks of a communicator, known whole at each of them (`MPI_Graph_create`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// Where the neighbours of each node end in `edges`; those of the next begin there.
    ends: Vec<u32>,
    edges: Vec<u32>,
    symmetric: bool,
}

/// Why lists describe no graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAGraph {
    /// The sums of degrees must not fall.
    #[error("the index of node {node} is {end}, and that of the node before it is {before}")]
    IndexFalls {
        /// The node whose index is wrong.
        node: usize,
        /// Its index.
        end: i32,
        /// The index before.
        before: i32,
    },
    /// Neighbours are nodes.
    #[error("edge {edge} leads to node {to}, of nodes 0 to {last}")]
    NoSuchNode {
        /// The place in the list of edges.
        edge: usize,
        /// Where it leads.
        to: i32,
        /// The last node that there is.
        last: usize,
    },
}

impl Graph {
    /// A graph of `index.len()` nodes in MPI's form: `index[i]` is the number of neighbours of nodes 0 to i
    /// together, and `edges` has as many entries as the last index says; what is behind them is not looked
    /// at.
    ///
    /// # Errors
    /// An index that falls, or an edge that leads nowhere.
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Graph, NotAGraph> {
        let mut before = 0;
        for (node, &end) in index.iter().enumerate() {
            if end < before {
                return Err(NotAGraph::IndexFalls { node, end, before });
            }
            before = end;
        }
        let wrong = |(edge, &to): (usize, &i32)| {
            let node = usize::try_from(to).ok().filter(|&node| node < index.len());
            node.is_none().then_some(NotAGraph::NoSuchNode { edge, to, last: index.len().saturating_sub(1) })
        };
        let edges = edges.get(..before as usize).unwrap_or(edges);
        if let Some(error) = edges.iter().enumerate().find_map(wrong) {
            return Err(error);
        }
        let unsigned = |numbers: &[i32]| numbers.iter().map(|&number| number as u32).collect();
        let mut graph = Graph { ends: unsigned(index), edges: unsigned(edges), symmetric: false };
        graph.symmetric = graph.has_all_edges_both_ways();
        Ok(graph)
    }

    /// How many nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The sums of the numbers of neighbours, up to each node.
    #[must_use]
    pub fn index(&self) -> &[u32] {
        &self.ends
    }

    /// The neighbours of all nodes, one list behind the other.
    #[must_use]
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a node, in the order in which they were given; of none, where there is no such node.
    #[must_use]
    pub fn neighbours(&self, node: u32) -> &[u32] {
        let node = node as usize;
        let start = node.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(node).map_or(&[], |&end| &self.edges[start as usize..end as usize])
    }

    /// Whether each edge is there in the other direction as often: what the neighborhood collectives need.
    #[must_use]
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    fn has_all_edges_both_ways(&self) -> bool {
        let pairs =
            (0..self.nodes()).flat_map(|node| self.neighbours(node).iter().map(move |&to| (node, to)));
        let mut there: Vec<(u32, u32)> = pairs.collect();
        let mut back: Vec<(u32, u32)> = there.iter().map(|&(from, to)| (to, from)).collect();
        there.sort_unstable();
        back.sort_unstable();
        there == back
    }
}

/// The edges of one process in a graph of which it knows no more (`MPI_Dist_graph_create_adjacent`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Adjacent {
    /// The ranks from which edges lead here.
    pub sources: Vec<u32>,
    /// The ranks to which edges lead from here.
    pub destinations: Vec<u32>,
    /// Their weights, in the order of the edges; none where the graph has none.
    pub weights: Option<Weights>,
}

/// The weights of the edges of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// The weights of the edges that lead here, in the order of the sources.
    pub of_sources: Vec<i32>,
    /// The weights of the edges that lead away, in the order of the destinations.
    pub of_destinations: Vec<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        // MPI 5.0 §8.5.5, example 8.3: 0-1, 0-3, 2-3.
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).expect("sound");
        let neighbours: Vec<_> = (0..5).map(|node| graph.neighbours(node).to_vec()).collect();
        assert_eq!(neighbours, [vec![1, 3], vec![0], vec![3], vec![0, 2], vec![]]);
        assert!(graph.is_symmetric());
        assert_eq!((graph.nodes(), graph.index().last(), graph.edges().len()), (4, Some(&6), 6));
    }

    #[test]
    fn edges_may_repeat_and_lead_back() {
        let graph = Graph::new(&[3, 5], &[0, 1, 1, 0, 0]).expect("sound");
        assert_eq!(graph.neighbours(0), [0, 1, 1]);
        assert!(graph.is_symmetric());
        assert!(!Graph::new(&[3, 4], &[0, 1, 1, 0]).expect("sound").is_symmetric());
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Graph::new(&[], &[7]).expect("nothing").nodes(), 0);
        let falls = NotAGraph::IndexFalls { node: 1, end: 1, before: 2 };
        assert_eq!(Graph::new(&[2, 1], &[0, 1]), Err(falls));
        assert_eq!(Graph::new(&[-1], &[]), Err(NotAGraph::IndexFalls { node: 0, end: -1, before: 0 }));
        for to in [2, -1] {
            let nowhere = NotAGraph::NoSuchNode { edge: 1, to, last: 1 };
            assert_eq!(Graph::new(&[1, 2], &[1, to]), Err(nowhere));
        }
    }
}
