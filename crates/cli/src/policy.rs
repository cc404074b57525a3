//! Where ranks run when the command line says it: `--bind-to`, `--map-by`, `--rank-by`, `--cpu-set` and their
//! relations, in MPICH's and Open MPI's words. Pure functions of the machine's parts; without such options
//! `plan.rs` decides.
//!
//! *Mapping* deals ranks to parts of the machine, one after the other in turn, or `ppr:N:UNIT` of them to
//! each. *Ranking* says in which order those places get their ranks. *Binding* says on which cpus around its
//! place a rank may run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use topology::{CpuSet, Host, Level};

/// The command line's options for placing and binding ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `--bind-to`.
    pub bind_to: Option<BindTo>,
    /// `--map-by`.
    pub map_by: Option<MapBy>,
    /// `--rank-by`.
    pub rank_by: Option<RankBy>,
    /// `--cpu-set`: no others are used.
    pub cpus: Option<CpuSet>,
    /// How many cores each rank gets.
    pub cores_per_rank: Option<usize>,
}

/// A kind of part of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// All of it.
    Host,
    /// A package: the cpus of one socket.
    Socket,
    /// Cpus that are as near to the same memory.
    Numa,
    /// Cpus that share a cache of the third level.
    L3Cache,
    /// Cpus that share a cache of the second level.
    L2Cache,
    /// Cpus that share execution units.
    Core,
    /// A single cpu.
    HwThread,
}

/// `--bind-to UNIT[:N][:overload-allowed]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindTo {
    /// The parts or cpus that a rank is bound to.
    pub target: Target,
    /// Whether ranks may share cores where there are more ranks than cores.
    pub overload: bool,
}

/// The target of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing.
    None,
    /// This many parts of this kind.
    Unit(Unit, usize),
    /// Lists of cpus, for the ranks in turn.
    Lists(Vec<CpuSet>),
}

/// `--map-by UNIT[:PE=N][:…]` or `--map-by ppr:N:UNIT[:…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapBy {
    /// By what.
    pub unit: Unit,
    /// How many ranks each gets before the next; one, in turn, when `None`.
    pub each: Option<u32>,
    /// How many cores each rank gets.
    pub cores_per_rank: Option<usize>,
    /// The only cpus that are used.
    pub cpus: Option<CpuSet>,
    /// Whether ranks may share cores where there are more ranks than cores.
    pub overload: bool,
}

/// `--rank-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankBy {
    /// Neighbouring ranks are on the same part, until it is full.
    Fill,
    /// Neighbouring ranks are on different parts.
    Span,
}

/// The parts of a machine whose cpus may be used, by kind.
#[derive(Clone, Debug)]
pub struct Parts {
    units: BTreeMap<Unit, Vec<CpuSet>>,
}

/// Why ranks cannot be placed as asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// Ranks would share cores.
    #[error(
        "--bind-to {unit}: {ranks} ranks of {each} need more than the {units} {unit}s this process may use\n  \
         start fewer ranks, lower OMP_NUM_THREADS or PE=N, leave --bind-to out, or let ranks share with --bind-to {unit}:overload-allowed"
    )]
    Overload {
        /// Of what there is too little.
        unit: Unit,
        /// How many ranks.
        ranks: u32,
        /// How many units each wants.
        each: usize,
        /// How many units there are.
        units: usize,
    },
    /// A cpu that is not there for us.
    #[error("{option}: cpu {cpu} is none that this process may use\n  choose from {allowed}")]
    NotAllowed {
        /// The option that names it.
        option: &'static str,
        /// The cpu.
        cpu: usize,
        /// Which may be used.
        allowed: CpuSet,
    },
}

impl MapBy {
    /// Ranks go to such parts in turn.
    pub const fn of(unit: Unit) -> MapBy {
        MapBy { unit, each: None, cores_per_rank: None, cpus: None, overload: false }
    }
}

impl Policy {
    /// Whether anything says where ranks go, so that nothing is left to decide by default.
    pub fn is_explicit(&self) -> bool {
        let maps =
            self.map_by.as_ref().is_some_and(|map| map.unit != Unit::Host || map.cores_per_rank.is_some());
        self.bind_to.is_some() || maps || self.cores_per_rank.is_some() || self.allowed().is_some()
    }

    /// The only cpus that are to be used, where that is said.
    pub fn allowed(&self) -> Option<&CpuSet> {
        self.cpus.as_ref().or(self.map_by.as_ref().and_then(|map| map.cpus.as_ref()))
    }

    /// The cpus that ranks may be bound to: those that the command line names, or all of `allowed`.
    ///
    /// # Errors
    /// Where the command line names a cpu that is not allowed.
    pub fn used(&self, allowed: &CpuSet) -> Result<CpuSet, Misfit> {
        let Some(named) = self.allowed() else { return Ok(allowed.clone()) };
        match named.iter().find(|&cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(Misfit::NotAllowed { option: "--cpu-set", cpu, allowed: allowed.clone() }),
            None => Ok(named.clone()),
        }
    }

    /// How many ranks there are by what is said of each part, where that is said.
    pub fn ranks(&self, parts: &Parts) -> Option<u32> {
        let map = self.map_by.as_ref()?;
        Some(map.each? * parts.of(map.unit).len() as u32)
    }

    /// The cpus of each rank; `None` where ranks are not bound. `threads` are those that each rank will run.
    ///
    /// # Errors
    /// Where it does not fit.
    pub fn place(&self, parts: &Parts, ranks: u32, threads: usize) -> Result<Option<Vec<CpuSet>>, Misfit> {
        let only_cpus = Policy { cpus: self.allowed().cloned(), ..Policy::default() };
        match self.place_in(parts, ranks, threads) {
            // All that was said is where they may run.
            Err(Misfit::Overload { .. }) if self.cpus.is_some() && *self == only_cpus => {
                Ok(Some(vec![parts.of(Unit::Host)[0].clone(); ranks as usize]))
            }
            placed => placed,
        }
    }

    fn place_in(&self, parts: &Parts, ranks: u32, threads: usize) -> Result<Option<Vec<CpuSet>>, Misfit> {
        let cores = self.map_by.as_ref().and_then(|map| map.cores_per_rank).or(self.cores_per_rank);
        let (unit, width) = match self.bind_to.as_ref().map(|bind| &bind.target) {
            Some(Target::None) => return Ok(None),
            Some(Target::Lists(lists)) => return lists_in_turn(lists, parts, ranks).map(Some),
            Some(Target::Unit(Unit::Core, 1)) => (Unit::Core, cores.unwrap_or(threads)),
            Some(Target::Unit(Unit::HwThread, 1)) => (Unit::HwThread, cores.unwrap_or(1)),
            Some(&Target::Unit(unit, width)) => (unit, width),
            None => self.unit_by_default(cores, threads),
        };
        let spots = self.spots(parts, unit, width, ranks);
        let overload = self.bind_to.as_ref().is_some_and(|bind| bind.overload)
            || self.map_by.as_ref().is_some_and(|map| map.overload);
        let units = parts.of(unit);
        let is_small = unit >= Unit::Core;
        let mut taken = BTreeSet::new();
        let mut sets = Vec::new();
        for spot in spots {
            let within: Vec<usize> = (0..units.len()).filter(|&at| meet(&units[at], &spot.part)).collect();
            let wanted: Vec<usize> = match within[..] {
                // The place lies within one: that one, and its neighbours up to the width.
                [one] if !is_small => (one / width * width..units.len()).take(width).collect(),
                _ => (spot.number * width..).take(width).map(|at| within[at % within.len()]).collect(),
            };
            if is_small && !overload && !wanted.iter().all(|at| taken.insert(*at)) {
                return Err(Misfit::Overload { unit, ranks, each: width, units: units.len() });
            }
            sets.push(wanted.into_iter().flat_map(|at| units[at].iter()).collect());
        }
        Ok(Some(sets))
    }

    /// To what ranks are bound where only their mapping is said.
    fn unit_by_default(&self, cores: Option<usize>, threads: usize) -> (Unit, usize) {
        match (cores, self.map_by.as_ref().map(|map| map.unit)) {
            (Some(cores), _) => (Unit::Core, cores),
            (None, None | Some(Unit::Host | Unit::Core)) => (Unit::Core, threads),
            (None, Some(unit)) => (unit, 1),
        }
    }

    /// The place of each rank: a part of the machine, and which of the ranks there it is.
    fn spots(&self, parts: &Parts, bound: Unit, width: usize, ranks: u32) -> Vec<Spot> {
        let ranks = ranks as usize;
        let (unit, each) = match &self.map_by {
            // Small parts that ranks get several of are counted through from the first.
            Some(map) if map.unit >= Unit::Core && 1 < width => (Unit::Host, None),
            Some(map) => (map.unit, map.each.map(|each| each as usize)),
            None if bound >= Unit::Core => (Unit::Host, None),
            // The first ranks on the first part, as many as on the others or one more.
            None => (bound, Some(ranks.div_ceil(parts.of(bound).len()))),
        };
        let parts = parts.of(unit);
        let count = parts.len();
        let is_even = self.map_by.is_none() && each.is_some();
        let place = |rank: usize| match each {
            _ if is_even => {
                let part = rank * count / ranks;
                (part, rank - (part * ranks).div_ceil(count))
            }
            Some(each) => (rank / each % count, rank % each + rank / (each * count) * each),
            None => (rank % count, rank / count),
        };
        let mut places: Vec<(usize, usize)> = (0..ranks).map(place).collect();
        match self.rank_by {
            Some(RankBy::Fill) => places.sort_unstable(),
            Some(RankBy::Span) => places.sort_unstable_by_key(|&(part, number)| (number, part)),
            None => {}
        }
        places.into_iter().map(|(part, number)| Spot { part: parts[part].clone(), number }).collect()
    }
}

struct Spot {
    part: CpuSet,
    number: usize,
}

impl Parts {
    /// The parts of this host, as its kernel tells them.
    pub fn of_host(host: &Host, allowed: &CpuSet) -> Parts {
        Parts::by(allowed, |level| host.parts(level, allowed))
    }

    /// The parts of a described machine.
    #[cfg(test)]
    pub fn of_machine(machine: &topology::Machine, allowed: &CpuSet) -> Parts {
        Parts::by(allowed, |level| {
            let kind = topology::Kind::Part(level);
            let parts = machine.parts().iter().filter(|part| part.object.kind == kind);
            parts.map(|part| part.object.cpus.clone()).collect()
        })
    }

    /// Where the machine has no parts of a kind, those of the next larger kind stand for them.
    fn by(allowed: &CpuSet, of: impl Fn(Level) -> Vec<CpuSet>) -> Parts {
        let mut units = BTreeMap::from([(Unit::Host, vec![allowed.clone()])]);
        let mut larger = vec![allowed.clone()];
        for (unit, level) in LEVELS {
            let parts: Vec<CpuSet> = of(level).iter().map(|part| part.intersection(allowed)).collect();
            let parts: Vec<CpuSet> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let all: CpuSet = parts.iter().flat_map(CpuSet::iter).collect();
            if all == *allowed {
                larger = parts;
            } else if unit == Unit::HwThread || unit == Unit::Core {
                larger = allowed.iter().map(|cpu| CpuSet::from_iter([cpu])).collect();
            }
            units.insert(unit, larger.clone());
        }
        Parts { units }
    }

    /// The parts of a kind; at least one.
    fn of(&self, unit: Unit) -> &[CpuSet] {
        &self.units[&unit]
    }

    /// The name of a set of cpus, for the user: the largest parts that it consists of.
    pub fn name(&self, cpus: &CpuSet) -> String {
        for (unit, parts) in self.units.iter().filter(|(unit, _)| **unit != Unit::Host) {
            let held: Vec<usize> = (0..parts.len()).filter(|&at| parts[at].is_subset(cpus)).collect();
            let all: CpuSet = held.iter().flat_map(|&at| parts[at].iter()).collect();
            if !held.is_empty() && all == *cpus {
                let numbers: CpuSet = held.iter().copied().collect();
                return format!("{unit} {numbers}");
            }
        }
        "a part of a core".to_owned()
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Host => "node",
            Unit::Socket => "socket",
            Unit::Numa => "numa",
            Unit::L3Cache => "l3cache",
            Unit::L2Cache => "l2cache",
            Unit::Core => "core",
            Unit::HwThread => "hwthread",
        })
    }
}

impl Unit {
    fn named(name: &str) -> Option<Unit> {
        Some(match name.to_ascii_lowercase().as_str() {
            "slot" | "node" | "board" | "machine" => Unit::Host,
            "socket" | "sockets" | "package" => Unit::Socket,
            "numa" | "numanode" => Unit::Numa,
            "l3cache" | "l3" => Unit::L3Cache,
            "l2cache" | "l2" => Unit::L2Cache,
            "core" | "cores" | "l1cache" | "l1" => Unit::Core,
            "hwthread" | "hwthreads" | "thread" | "pu" => Unit::HwThread,
            _ => return None,
        })
    }
}

/// Reads what stands behind `--bind-to`.
pub fn bind_to(text: &str) -> Result<BindTo, String> {
    let (target, qualifiers) = text.split_once(':').unwrap_or((text, ""));
    if target == "user" {
        let lists = qualifiers.split(',').map(|list| cpu_set(&list.replace('+', ",")));
        return Ok(BindTo { target: Target::Lists(lists.collect::<Result<_, _>>()?), overload: true });
    }
    let mut bind = BindTo { target: Target::None, overload: false };
    let mut width = 1;
    for qualifier in qualifiers.split([':', ',']).filter(|word| !word.is_empty()) {
        match qualifier.to_ascii_lowercase().as_str() {
            "overload-allowed" => bind.overload = true,
            "no-overload" => bind.overload = false,
            "if-supported" | "report" | "ordered" => {}
            number => {
                width = number.parse().ok().filter(|width| *width > 0).ok_or_else(|| {
                    format!("`:{qualifier}` is no qualifier: choose from overload-allowed, no-overload, if-supported and a number")
                })?;
            }
        }
    }
    bind.target = match target {
        "none" => Target::None,
        "rr" => Target::Unit(Unit::Core, 1),
        "cpu-list" | "cpulist" => Target::Unit(Unit::HwThread, 1),
        name => Target::Unit(
            Unit::named(name)
                .ok_or(format!("`{name}` is nothing to bind to: choose from {UNITS}, user:LIST and none"))?,
            width,
        ),
    };
    Ok(bind)
}

/// Reads what stands behind `--map-by`.
pub fn map_by(text: &str) -> Result<MapBy, String> {
    let mut map = MapBy::of(Unit::Host);
    let mut words = text.split(':');
    let mut name = words.next().unwrap_or_default();
    if name.eq_ignore_ascii_case("ppr") {
        let each = words.next().and_then(|number| number.parse().ok()).filter(|each| *each > 0);
        map.each = Some(each.ok_or("`ppr` needs a number and a unit: write ppr:2:socket")?);
        name = words.next().ok_or("`ppr` needs a number and a unit: write ppr:2:socket")?;
    }
    // `:OVERSUBSCRIBE` alone leaves the unit open.
    if !name.is_empty() {
        map.unit = Unit::named(name).ok_or(format!(
            "`{name}` is nothing to map by: choose from slot, node, {UNITS} and ppr:N:UNIT"
        ))?;
    }
    // A list of cpus has commas of its own.
    let has_commas = |word: &str| !word.to_ascii_lowercase().starts_with("pe-list=");
    let words = words.flat_map(|word| word.split(move |letter| letter == ',' && has_commas(word)));
    for word in words.filter(|word| !word.is_empty()) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key.to_ascii_lowercase().as_str() {
            "pe" => {
                let cores = value.parse().ok().filter(|cores| *cores > 0);
                map.cores_per_rank =
                    Some(cores.ok_or_else(|| format!("`{word}`: write PE=N, N cores for each rank"))?);
            }
            "pe-list" => map.cpus = Some(cpu_set(value)?),
            "oversubscribe" | "overload-allowed" => map.overload = true,
            "nooversubscribe" | "no-oversubscribe" | "span" | "nolocal" | "inherit" | "noinherit"
            | "corecpus" | "hwtcpus" | "ordered" | "display" => {}
            _ => {
                return Err(format!(
                    "`:{word}` is no qualifier: choose from PE=N, PE-LIST=CPUS, span and oversubscribe"
                ));
            }
        }
    }
    Ok(map)
}

/// Reads what stands behind `--rank-by`.
pub fn rank_by(text: &str) -> Result<RankBy, String> {
    let name = text.split(':').next().unwrap_or_default().to_ascii_lowercase();
    match name.as_str() {
        "fill" | "slot" => Ok(RankBy::Fill),
        "span" | "node" => Ok(RankBy::Span),
        // Older ones name the part that is gone through in turn.
        name if Unit::named(name).is_some() => Ok(RankBy::Span),
        _ => Err(format!("`{text}` is nothing to rank by: choose from slot, fill, span and node")),
    }
}

/// Reads a list of cpus.
pub fn cpu_set(text: &str) -> Result<CpuSet, String> {
    let set = text.parse::<CpuSet>().ok().filter(|set| !set.is_empty());
    set.ok_or_else(|| format!("`{text}` is no list of cpus: write it as 0-3,8"))
}

/// What each rank is bound to where the user lists it.
fn lists_in_turn(lists: &[CpuSet], parts: &Parts, ranks: u32) -> Result<Vec<CpuSet>, Misfit> {
    let allowed = &parts.of(Unit::Host)[0];
    let strange = lists.iter().flat_map(CpuSet::iter).find(|&cpu| !allowed.contains(cpu));
    if let Some(cpu) = strange {
        return Err(Misfit::NotAllowed { option: "--bind-to user", cpu, allowed: allowed.clone() });
    }
    Ok(lists.iter().cycle().take(ranks as usize).cloned().collect())
}

fn meet(one: &CpuSet, other: &CpuSet) -> bool {
    !one.intersection(other).is_empty()
}

const LEVELS: [(Unit, Level); 6] = [
    (Unit::Socket, Level::Package),
    (Unit::Numa, Level::NumaNode),
    (Unit::L3Cache, Level::L3Cache),
    (Unit::L2Cache, Level::L2Cache),
    (Unit::Core, Level::Core),
    (Unit::HwThread, Level::Cpu),
];

const UNITS: &str = "hwthread, core, l2cache, l3cache, numa, socket";

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
