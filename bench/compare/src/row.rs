//! What a row of the comparison is.

use super::contestant::{Contestant, Way};

/// A row of the comparison: one benchmark, on one way, with all its sizes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name of the row, by which `--only` selects it.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// The program in `bench/`, and the name in its results, where that is no other.
    pub program: &'static str,
    /// The name of the results that count, where the program tells several.
    pub result: Option<&'static str>,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// Further arguments in a quick run.
    pub quick: &'static [&'static str],
    /// Numbers of ranks, one run each.
    pub ranks: &'static [u32],
    /// Which way the bytes go.
    pub way: Way,
    /// More ranks than cpus.
    pub shared_cpus: bool,
    /// The unit of the row's values.
    pub unit: Unit,
    /// The configurations of peers that take part, if asked for; weft always does.
    pub peers: &'static [Contestant],
    /// Floors, measured in the same rounds.
    pub floors: &'static [Floor],
    /// The limits that weft must keep.
    pub gates: &'static [Gate],
    /// The points that tables show; all where there is none.
    pub shown: &'static [u64],
    /// Rounds in a full run.
    pub rounds: usize,
}

/// The unit of a row's values. A value belongs to a point: a size, or a number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time of an operation.
    Microseconds,
    /// 10^9 bytes a second.
    Gigabytes,
    /// 10^6 messages a second.
    Messages,
    /// Time from the launcher's start to its end, by ranks.
    Launch,
    /// Memory of the median rank (its share of what is shared), by ranks.
    Memory,
    /// Share of a cpu that a waiting rank uses.
    Cpu,
    /// Time of an operation, in times of a small allreduce of the same run.
    Allreduces,
    /// How much of an operation goes on behind a computation.
    Overlap,
    /// Time of an operation, in times of others that do its work.
    Others,
}

impl Unit {
    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Microseconds => "us",
            Unit::Gigabytes => "GB/s",
            Unit::Messages => "M messages/s",
            Unit::Launch => "ms",
            Unit::Memory => "MB",
            Unit::Cpu => "% of a cpu",
            Unit::Allreduces => "× allreduce",
            Unit::Overlap => "%",
            Unit::Others => "×",
        }
    }

    /// A smaller number is the better one.
    pub fn less_is_better(self) -> bool {
        !matches!(self, Unit::Gigabytes | Unit::Messages | Unit::Overlap)
    }

    /// Its points are numbers of ranks and not sizes.
    pub fn by_ranks(self) -> bool {
        matches!(self, Unit::Launch | Unit::Memory)
    }
}

/// A run of `bench/floors` beside the contestants.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// The kind of floor.
    pub name: &'static str,
    /// Further arguments.
    pub arguments: &'static [&'static str],
}

/// A limit that weft must keep at some points of a row.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Its letter.
    pub name: &'static str,
    /// First and last point.
    pub at: (u64, u64),
    /// The rule.
    pub rule: Rule,
    /// More than must be.
    pub stretch: bool,
}

/// A limit on weft's value: from above where less is better, from below elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// This many times the value of the best peer.
    Best(f64),
    /// This many times the value of the floor with this name.
    Floor(&'static str, f64),
    /// The value itself.
    Value(f64),
    /// A message of twice the size takes at most this many times as long.
    Cliff(f64),
}

/// A required limit for the points from `first` to `last`.
pub(super) const fn gate(name: &'static str, first: u64, last: u64, rule: Rule) -> Gate {
    Gate { name, at: (first, last), rule, stretch: false }
}

/// More than must be.
pub(super) const fn stretch(name: &'static str, first: u64, last: u64, rule: Rule) -> Gate {
    Gate { name, at: (first, last), rule, stretch: true }
}

/// A floor without further arguments.
pub(super) const fn floor(name: &'static str) -> Floor {
    Floor { name, arguments: &[] }
}
