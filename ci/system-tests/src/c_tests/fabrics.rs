//! The fabrics that the tests run over, and the numbers of ranks over each.

use super::case::{Case, Right, TIMED_OUT, plain};
use super::directives::{Directives, directives};

/// Over which fabrics the test with that text runs, libfabric's apart: shm, tcp, and mixed, where some ranks
/// share memory and others do not.
pub fn fabrics_of(text: &str) -> Vec<&'static str> {
    let Ok(Directives { ranks, right, over_nodes, .. }) = directives(text) else { return Vec::new() };
    let case = Case { ranks, right, over_nodes, ..plain(String::new(), Vec::new()) };
    let over = FABRICS.into_iter().zip(["shm", "tcp", "mixed"]);
    over.filter(|(fabric, _)| !fabric.ranks(&case).is_empty()).map(|(_, name)| name).collect()
}

/// A fabric that programs run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// The name of the fabric, as `--fabric` takes it.
    pub name: &'static str,
    /// A program runs with one number of ranks only: its largest that is not above this.
    pub ranks_max: Option<u32>,
    /// How many parts of this node the ranks are dealt out to, as if each part were a node.
    pub nodes: u32,
}

impl Fabric {
    pub const fn full(name: &'static str) -> Fabric {
        Fabric { name, ranks_max: None, nodes: 1 }
    }

    const fn brief(name: &'static str, ranks_max: u32) -> Fabric {
        Fabric { name, ranks_max: Some(ranks_max), nodes: 1 }
    }

    /// Shared memory among some ranks and tcp between others.
    const fn mixed(ranks_max: u32) -> Fabric {
        Fabric { name: "shm,tcp", ranks_max: Some(ranks_max), nodes: 2 }
    }

    pub fn is_libfabric(self) -> bool {
        self.name.starts_with("libfabric")
    }

    /// The name of the fabric in lines and files of results.
    pub fn label(self) -> String {
        if self.nodes == 1 { self.name.to_owned() } else { format!("{} of {} nodes", self.name, self.nodes) }
    }

    /// The numbers of ranks with which a program runs over it. One rank alone opens no fabric, and a program
    /// that ends by its timeout tests a clock.
    pub fn ranks(self, case: &Case) -> Vec<u32> {
        let Some(most) = self.ranks_max else { return case.ranks.clone() };
        if self.nodes > 1 {
            let ranks = case.ranks.iter().copied().filter(|ranks| (3..=most).contains(ranks));
            return ranks.filter(|_| case.over_nodes).max().into_iter().collect();
        }
        if case.not_libfabric.is_some() || case.right == Right::Status(TIMED_OUT) {
            return Vec::new();
        }
        case.ranks.iter().copied().filter(|ranks| (2..=most).contains(ranks)).max().into_iter().collect()
    }
}

pub const FABRICS: [Fabric; 5] = [
    Fabric::full("shm"),
    Fabric::full("tcp"),
    Fabric::mixed(RANKS_MIXED),
    Fabric::brief("libfabric:tcp;ofi_rxm", RANKS_OVER_LIBFABRIC),
    Fabric::brief("libfabric:shm", RANKS_OVER_LIBFABRIC),
];
const RANKS_OVER_LIBFABRIC: u32 = 4;
/// Three at least, so that two share memory and another does not.
const RANKS_MIXED: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_libfabric_a_program_runs_once_if_it_says_anything() {
        let ranks = |fabric: Fabric, ranks: &[u32], change: &dyn Fn(&mut Case)| {
            let mut case = Case { ranks: ranks.to_vec(), ..plain("a".into(), Vec::new()) };
            change(&mut case);
            fabric.ranks(&case)
        };
        let (full, brief) = (Fabric::full("tcp"), Fabric::brief("libfabric:x", 4));
        assert_eq!(ranks(full, &[1, 2, 8], &|_| ()), [1, 2, 8]);
        assert_eq!(ranks(brief, &[1, 2, 3, 8], &|_| ()), [3]);
        assert_eq!(ranks(brief, &[1, 8], &|_| ()), [0; 0]);
        assert_eq!(ranks(brief, &[2], &|case| case.not_libfabric = Some("its ports".into())), [0; 0]);
        let waits = |case: &mut Case| case.right = Right::Status(TIMED_OUT);
        assert_eq!(ranks(brief, &[2], &waits), [0; 0]);
        assert_eq!(ranks(full, &[2], &waits), [2]);
        let mixed = Fabric::mixed(6);
        assert_eq!(ranks(mixed, &[2, 3, 5, 8], &|_| ()), [0; 0]);
        assert_eq!(ranks(mixed, &[2, 3, 5, 8], &|case| case.over_nodes = true), [5]);
    }
}
