//! What algorithms are called: the names that people use to ask for one, and that are shown to them.

use std::fmt;
use std::str::FromStr;

use crate::choice::Asked;
use crate::cost_model::{CostModel, PredictedCost};
use crate::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter};

/// A way to do an operation.
pub(crate) trait Algorithm: Copy + PartialEq + 'static {
    /// The operation, in lower case.
    const OPERATION: &'static str;
    /// Every way there is.
    const ALL: &'static [Self];

    /// What it is called.
    fn name(self) -> &'static str;

    /// What it takes; `None` where it does not serve.
    fn cost(self, model: &CostModel<'_>, asked: Asked) -> Option<PredictedCost>;

    /// The one that was asked for.
    fn forced(forced: &Forced) -> Option<Self>;

    /// Asks for it.
    fn force(self, forced: &mut Forced);

    /// Whether it goes by nodes, or parts of one.
    fn goes_by_parts(self) -> bool {
        self.name().starts_with("by-node")
    }

    /// By its name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|way| way.name() == name)
    }
}

/// What is to be done with the type `W` of the ways of an operation, or else where there is one way only.
macro_rules! with_ways {
    ($operation:expr, $ways:ident => $done:expr, else $otherwise:expr) => {
        with_ways!(
            $operation, $ways => $done, else $otherwise,
            Barrier Bcast Gather Scatter Allgather Alltoall Reduce Allreduce ReduceScatter
        )
    };
    ($operation:expr, $ways:ident => $done:expr, else $otherwise:expr, $($name:ident)+) => {
        match $operation {
            $($crate::names::Operation::$name => {
                type $ways = $crate::$name;
                $done
            })+
            $crate::names::Operation::Scan | $crate::names::Operation::Exscan => $otherwise,
        }
    };
}
pub(crate) use with_ways;

/// A collective operation, whatever it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
    Exscan,
}

impl Operation {
    /// How many there are.
    pub(crate) const COUNT: usize = Operation::Exscan as usize + 1;

    /// What it is called, in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Scan => "scan",
            Operation::Exscan => "exscan",
            operation => with_ways!(operation, W => W::OPERATION, else ""),
        }
    }
}

/// One operation with the names of its ways, in the order in which they are shown. A way without a name does
/// not compile. Of two that take the same the first is chosen.
macro_rules! named {
    ($way:ident, $operation:ident, $($variant:ident = $name:literal),+) => {
        impl $way {
            /// Every way there is.
            pub const ALL: [$way; [$($name),+].len()] = [$($way::$variant),+];
        }

        impl Algorithm for $way {
            const OPERATION: &'static str = stringify!($operation);
            const ALL: &'static [$way] = &$way::ALL;

            fn name(self) -> &'static str {
                match self {
                    $($way::$variant => $name),+
                }
            }

            fn cost(self, model: &CostModel<'_>, asked: Asked) -> Option<PredictedCost> {
                model.$operation(self, asked)
            }

            fn forced(forced: &Forced) -> Option<$way> {
                forced.$operation
            }

            fn force(self, forced: &mut Forced) {
                forced.$operation = Some(self);
            }
        }
    };
}

named!(
    Barrier,
    barrier,
    Dissemination = "dissemination",
    EachToAll = "each-to-all",
    GatherBroadcast = "gather-broadcast",
    ByNode = "by-node"
);
named!(
    Bcast,
    bcast,
    Binomial = "binomial",
    ScatterRing = "scatter-ring",
    ScatterAllgather = "scatter-allgather",
    Circulant = "circulant",
    BinaryTree = "binary-tree",
    Chain = "chain",
    ByNode = "by-node"
);
named!(Gather, gather, Binomial = "binomial", Linear = "linear");
named!(Scatter, scatter, Binomial = "binomial", Linear = "linear");
named!(
    Allgather,
    allgather,
    RecursiveDoubling = "recursive-doubling",
    Bruck = "bruck",
    Ring = "ring",
    Circulant = "circulant",
    ByNode = "by-node"
);
named!(Alltoall, alltoall, Bruck = "bruck", Pairwise = "pairwise", ByNode = "by-node");
named!(
    Reduce,
    reduce,
    Binomial = "binomial",
    RingGather = "ring-gather",
    Circulant = "circulant",
    BinaryTree = "binary-tree",
    Chain = "chain",
    ByNode = "by-node"
);
named!(
    Allreduce,
    allreduce,
    RecursiveDoubling = "recursive-doubling",
    Rabenseifner = "rabenseifner",
    Ring = "ring",
    EachToAll = "each-to-all",
    GatherBroadcast = "gather-broadcast",
    Circulant = "circulant",
    ByNode = "by-node",
    ByNodeInSlices = "by-node-in-slices",
    Gathering = "gathering"
);
named!(
    ReduceScatter,
    reduce_scatter,
    Pairwise = "pairwise",
    ReduceThenScatter = "reduce-scatter",
    Circulant = "circulant",
    ByNode = "by-node",
    ByNodeInSlices = "by-node-in-slices"
);

/// Algorithms that somebody wants, whatever they take.
///
/// ```
/// use collectives::Forced;
/// let forced: Forced = "allreduce:ring,bcast:binomial".parse()?;
/// assert_eq!(forced.to_string(), "bcast:binomial,allreduce:ring");
/// let error = "allreduce:rings".parse::<Forced>().unwrap_err();
/// assert!(error.to_string().starts_with("allreduce has no algorithm \"rings\"; it has recursive-doubling, "));
/// # Ok::<(), collectives::NotForced>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forced {
    barrier: Option<Barrier>,
    bcast: Option<Bcast>,
    gather: Option<Gather>,
    scatter: Option<Scatter>,
    allgather: Option<Allgather>,
    alltoall: Option<Alltoall>,
    reduce: Option<Reduce>,
    allreduce: Option<Allreduce>,
    reduce_scatter: Option<ReduceScatter>,
}

/// Why a text forces nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotForced {
    /// Not two words with a colon between them.
    #[error("{0:?} is not an operation and an algorithm, as allreduce:ring")]
    NoPair(String),
    /// The operation.
    #[error("there is no choice of algorithms for {0:?}, but for {list}", list = OPERATIONS.join(", "))]
    NoOperation(String),
    /// The operation, and the algorithm that it does not have.
    #[error("{0} has no algorithm {1:?}; it has {list}", list = names_of(.0).join(", "))]
    NoAlgorithm(&'static str, String),
}

/// Calls a function for the type of each operation's ways.
macro_rules! for_each_operation {
    ($visit:ident!($($argument:expr),*)) => {
        $visit!(Barrier $(, $argument)*);
        $visit!(Bcast $(, $argument)*);
        $visit!(Gather $(, $argument)*);
        $visit!(Scatter $(, $argument)*);
        $visit!(Allgather $(, $argument)*);
        $visit!(Alltoall $(, $argument)*);
        $visit!(Reduce $(, $argument)*);
        $visit!(Allreduce $(, $argument)*);
        $visit!(ReduceScatter $(, $argument)*);
    };
}

impl Forced {
    /// Nothing.
    pub const NOTHING: Forced = Forced {
        barrier: None,
        bcast: None,
        gather: None,
        scatter: None,
        allgather: None,
        alltoall: None,
        reduce: None,
        allreduce: None,
        reduce_scatter: None,
    };

    /// The algorithm that is asked for, for an operation.
    #[must_use]
    pub fn name_for(&self, operation: &str) -> Option<&'static str> {
        macro_rules! find {
            ($way:ident, $forced:expr) => {
                if operation == $way::OPERATION {
                    return $way::forced($forced).map(Algorithm::name);
                }
            };
        }
        for_each_operation!(find!(self));
        None
    }

    fn add(&mut self, operation: &str, name: &str) -> Result<(), NotForced> {
        macro_rules! add {
            ($way:ident, $forced:expr) => {
                if operation == $way::OPERATION {
                    let unknown = || NotForced::NoAlgorithm($way::OPERATION, name.to_owned());
                    $way::named(name).ok_or_else(unknown)?.force($forced);
                    return Ok(());
                }
            };
        }
        for_each_operation!(add!(self));
        Err(NotForced::NoOperation(operation.to_owned()))
    }
}

impl FromStr for Forced {
    type Err = NotForced;

    fn from_str(text: &str) -> Result<Forced, NotForced> {
        let mut forced = Forced::NOTHING;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (operation, name) = part.split_once(':').ok_or_else(|| NotForced::NoPair(part.to_owned()))?;
            forced.add(operation.trim(), name.trim())?;
        }
        Ok(forced)
    }
}

impl fmt::Display for Forced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        macro_rules! show {
            ($way:ident, $forced:expr) => {
                if let Some(way) = $way::forced($forced) {
                    write!(f, "{between}{}:{}", $way::OPERATION, way.name())?;
                    between = ",";
                }
            };
        }
        for_each_operation!(show!(self));
        let _ = between;
        Ok(())
    }
}

/// The algorithms of an operation, by name; none where it has one way only.
#[must_use]
pub fn names_of(operation: &str) -> Vec<&'static str> {
    macro_rules! list {
        ($way:ident) => {
            if operation == $way::OPERATION {
                return <$way as Algorithm>::ALL.iter().map(|way| way.name()).collect();
            }
        };
    }
    for_each_operation!(list!());
    Vec::new()
}

/// The operations that can be done in several ways.
pub const OPERATIONS: [&str; 9] = [
    Barrier::OPERATION,
    Bcast::OPERATION,
    Gather::OPERATION,
    Scatter::OPERATION,
    Allgather::OPERATION,
    Alltoall::OPERATION,
    Reduce::OPERATION,
    Allreduce::OPERATION,
    ReduceScatter::OPERATION,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_can_be_asked_for_by_its_name() {
        for operation in OPERATIONS {
            let names = names_of(operation);
            assert!(names.len() > 1, "{operation}");
            for name in names {
                let text = format!("{operation}:{name}");
                assert_eq!(text.parse::<Forced>().map(|forced| forced.to_string()), Ok(text));
            }
        }
        assert_eq!(names_of("scan"), [""; 0]);
        let all = " allreduce : ring ,, bcast:binomial".parse::<Forced>().expect("spaces do not matter");
        assert_eq!(all.to_string(), "bcast:binomial,allreduce:ring");
        assert_eq!("".parse(), Ok(Forced::NOTHING));
    }

    #[test]
    fn what_is_not_known_is_told_with_what_is() {
        let told = |text: &str| text.parse::<Forced>().unwrap_err().to_string();
        assert_eq!(told("ring"), "\"ring\" is not an operation and an algorithm, as allreduce:ring");
        assert!(told("scan:ring").contains("for \"scan\", but for barrier, bcast, "));
        assert_eq!(
            told("barrier:ring"),
            "barrier has no algorithm \"ring\"; it has dissemination, each-to-all, gather-broadcast, by-node"
        );
    }
}
