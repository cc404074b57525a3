//! How many ranks the node gets, and which cpus each of them is bound to.

use std::ffi::OsStr;

use rustix::thread::CpuSet;

use super::NoPlan;
use crate::claims::Claims;
use crate::cores::{self, Core};
use crate::options::{Options, RANKS_MAX};
use crate::policy::{self, Policy, Target, Unit};
use crate::vacant::{Occupancy, Unbound};

/// How many ranks the node gets, and which cpus they are bound to.
pub(super) struct Places {
    pub(super) ranks: u32,
    pub(super) binding: Option<Vec<CpuSet>>,
    pub(super) unbound: Option<Unbound>,
    pub(super) claims: Claims,
    /// How many cpus other jobs leave free, where the launcher has looked for that.
    pub(super) free: Option<usize>,
    /// The words for the cpus of each rank, where the user wants to be told of them.
    pub(super) names: Option<Vec<String>>,
}

impl Places {
    /// Settles the number of ranks and their cpus, where each rank runs `threads` threads. Cores that other
    /// jobs use count as free unless this job `minds_others`.
    pub(super) fn find(options: &Options, threads: usize, minds_others: bool) -> Result<Places, NoPlan> {
        let policy = options.policy();
        let allowed = topology::cpus_allowed().unwrap_or_default();
        let used = policy.used(&allowed)?;
        let is_asked = policy.is_explicit() || options.report_bindings || options.display_map;
        let parts = is_asked.then(|| policy::Parts::of_host(&topology::Host::here(), &used));
        let cores = cores::allowed();
        let by_policy = || parts.as_ref().and_then(|parts| policy.ranks(parts));
        let by_node = || options.ppn.map(|ppn| ppn.saturating_mul(options.nodes));
        let ranks = match &options.parts[..] {
            [only] => {
                let said = only.ranks.or_else(by_policy).or_else(by_node).or(options.slots);
                said.unwrap_or_else(|| ranks_by_default(&cores))
            }
            several => {
                let ranks = several.iter().map(|part| u64::from(part.ranks.unwrap_or(1))).sum();
                u32::try_from(ranks)
                    .ok()
                    .filter(|ranks| i64::from(*ranks) <= RANKS_MAX)
                    .ok_or(NoPlan::Ranks { ranks })?
            }
        };
        let BoundRank { sets: binding, why: unbound, claims, free } = match &parts {
            Some(parts) if policy.is_explicit() => {
                BoundRank::by_policy(&policy, parts, cores, ranks, threads, minds_others)?
            }
            _ => BoundRank::by_default(cores, ranks, threads, minds_others),
        };
        let names = parts.map(|parts| {
            let name = |rank: u32| match &binding {
                Some(sets) => {
                    let cpus = topology::CpuSet::from_iter(cores::cpus(&sets[rank as usize]));
                    format!("{} (cpus {cpus})", parts.name(&cpus))
                }
                None => unbound.map_or_else(|| "nothing".to_owned(), |why| format!("nothing: {why}")),
            };
            (0..ranks).map(name).collect()
        });
        Ok(Places { ranks, binding, unbound, claims, free, names })
    }
}

/// The cpus that ranks are bound to.
#[derive(Default)]
struct BoundRank {
    sets: Option<Vec<CpuSet>>,
    /// Why ranks are not bound, where the user has not said so.
    why: Option<Unbound>,
    claims: Claims,
    /// How many cpus other jobs leave free, where the launcher has looked for that.
    free: Option<usize>,
}

impl BoundRank {
    /// Binds ranks where the user says nothing of it: each to free cores of its own, if there are enough.
    fn by_default(cores: Vec<Core>, ranks: u32, threads: usize, minds_others: bool) -> BoundRank {
        if ranks == 1 {
            return BoundRank { why: Some(Unbound::Alone), ..BoundRank::default() };
        }
        let occupancy = Occupancy::look(cores, ranks as usize, minds_others);
        let free = Some(occupancy.free_cpus());
        match occupancy.share_out(ranks, threads) {
            Ok(sets) => BoundRank { claims: occupancy.hold(&sets), sets: Some(sets), why: None, free },
            Err(why) => BoundRank { why: Some(why), free, ..BoundRank::default() },
        }
    }

    /// Binds ranks as the user says. Where the user does not say which cores, they are cores that no other
    /// job uses.
    fn by_policy(
        policy: &Policy,
        parts: &policy::Parts,
        cores: Vec<Core>,
        ranks: u32,
        threads: usize,
        minds_others: bool,
    ) -> Result<BoundRank, NoPlan> {
        let target = policy.bind_to.as_ref().map(|bind| &bind.target);
        if target == Some(&Target::None) && !minds_others {
            return Ok(BoundRank::default());
        }
        let occupancy = Occupancy::look(cores, ranks as usize, minds_others);
        let free = Some(occupancy.free_cpus());
        let is_of = |of: fn(Unit) -> bool| matches!(target, Some(Target::Unit(unit, _)) if of(*unit));
        let any_core = *policy == Policy { bind_to: policy.bind_to.clone(), ..Policy::default() };
        let seeks = any_core && is_of(|unit| unit >= Unit::Core) && occupancy.free() > 0;
        let on_free = || {
            let cpus = occupancy.free_cores().iter().flat_map(Core::cpus).copied().collect();
            policy.place(&policy::Parts::of_host(&topology::Host::here(), &cpus), ranks, threads).ok()
        };
        let sets = match seeks.then(on_free).flatten() {
            Some(sets) => sets,
            None => policy.place(parts, ranks, threads)?,
        };
        let sets: Option<Vec<CpuSet>> = sets.map(|sets| sets.iter().map(cores::mask).collect());
        // Sockets and the like are for many: a job that may run on all of one does not keep others from its
        // cores.
        let held = sets.as_deref().filter(|_| !is_of(|unit| unit < Unit::Core));
        Ok(BoundRank { claims: occupancy.hold(held.unwrap_or_default()), sets, why: None, free })
    }
}

pub(super) fn ranks_by_default(cores: &[Core]) -> u32 {
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if cores.is_empty() { cpus() } else { cores.len() };
    u32::try_from(cores).unwrap_or(1)
}

/// How many threads each rank will run: the first number of `OMP_NUM_THREADS`, or 1.
pub(super) fn threads(variable: Option<&OsStr>) -> usize {
    let first = variable.and_then(OsStr::to_str).and_then(|text| text.split(',').next()?.trim().parse().ok());
    first.filter(|threads| *threads != 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_as_openmp_does() {
        let threads_of = |text: &str| threads(Some(OsStr::new(text)));
        assert_eq!(threads_of("4"), 4);
        assert_eq!(threads_of("8,2"), 8);
        assert_eq!((threads_of("0"), threads_of("many"), threads(None)), (1, 1, 1));
    }
}
