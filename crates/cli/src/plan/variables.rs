//! The variables that tell ranks of costs, of parts of the node, and of options of the whole job.

use std::ffi::{OsStr, OsString};
use std::time::Instant;

use rustix::thread::CpuSet;
use weft::collectives::Costs;
use weft::launch::{PACKET_BYTES, PACKET_VARIABLE};
use weft::{ConstantsFrom, CostsFrom, CpuTime};

use super::{FABRIC, NoPlan};
use crate::options::Options;
use crate::{first, parts, told};

/// What the launcher tells ranks of their machine and of the costs of collective operations.
pub(super) struct ToldToRanks {
    pub(super) cpus: Option<CpuTime>,
    pub(super) variables: Vec<(OsString, OsString)>,
}

impl ToldToRanks {
    pub(super) fn settle(
        options: &Options,
        ranks: u32,
        binding: Option<&[CpuSet]>,
        tells_parts: bool,
        name: &str,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<ToldToRanks, NoPlan> {
        let cpus = topology::cpus().ok().map(|cpus| CpuTime::of(cpus.effective));
        let constants = constants(variable("WEFT_CONSTANTS"));
        let costs_from = costs_from(variable(COSTS));
        let has_cpus = cpus.is_some_and(|cpus| CpuTime::of(2.0) <= cpus);
        if ranks > 1 && names_shm(variable(FABRIC).as_deref()) && has_cpus && costs_from == CostsFrom::Usual {
            measured_first(&constants, options.verbose, name);
        }
        let costs = costs_from.find(&constants).map_err(NoPlan::Costs)?;
        let parts = tells_parts.then(|| parts_told(&costs, ranks, options.nodes, binding, variable(MACHINE)));
        let packet = packet(variable(FABRIC).as_deref(), variable(PACKET_VARIABLE));
        let told = (costs != Costs::BUILT_IN).then(|| costs.encode().replace('\n', ";"));
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        variables.extend(told.map(|text| (COSTS.into(), text.into())));
        variables.extend(parts.flatten().map(|text| (PARTS.into(), text.into())));
        variables.extend(packet.map(|bytes| (PACKET_VARIABLE.into(), bytes.to_string().into())));
        Ok(ToldToRanks { cpus, variables })
    }
}

/// The variables by which ranks learn of options of the whole job.
pub fn environment(options: &Options) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = Vec::new();
    environment.extend(options.fabric.iter().map(|fabrics| (FABRIC.into(), fabrics.into())));
    let handler = options.initial_errhandler.iter();
    environment.extend(handler.map(|handler| ("WEFT_INITIAL_ERRHANDLER".into(), handler.into())));
    environment.extend(options.failure_mode().map(|mode| ("WEFT_FT_MODE".into(), mode.into())));
    environment.extend(options.ft_msg.iter().map(|mode| ("WEFT_FT_MESSAGES".into(), mode.into())));
    let fallback = options.rebuild_fallback.iter();
    environment.extend(fallback.map(|mode| ("WEFT_REBUILD_FALLBACK".into(), mode.into())));
    if !options.pset.is_empty() {
        environment.push(("WEFT_PSETS".into(), options.pset.join(";").into()));
    }
    environment.extend(ports(std::env::var_os(PORT_RANGE).as_deref(), std::env::var_os(PORTS).is_some()));
    environment
}

/// `WEFT_TCP_PORTS` as `MPIEXEC_PORT_RANGE` (`LOW:HIGH`) says it, unless `WEFT_TCP_PORTS` itself `is_set`.
fn ports(range: Option<&OsStr>, is_set: bool) -> Option<(OsString, OsString)> {
    let range = range.filter(|_| !is_set)?.to_str()?.trim().replace(':', "-");
    (!range.is_empty()).then(|| (PORTS.into(), range.into()))
}

/// Where the costs of collective operations come from. The launcher reads them and tells ranks the costs
/// themselves: all ranks must choose by the same costs, and a file may change while they start.
fn costs_from(named: Option<OsString>) -> CostsFrom {
    let named = named.map(|named| named.to_string_lossy().into_owned()).filter(|named| !named.is_empty());
    CostsFrom::of(named.as_deref())
}

/// Measures what messages cost on this machine, unless an earlier job has done it.
fn measured_first(constants: &ConstantsFrom, verbose: bool, name: &str) {
    let kinds = || {
        let allowed = topology::cpus_allowed();
        allowed.map_or(0, |allowed| parts::cores_apart(&topology::Host::here(), &allowed).len())
    };
    let start = Instant::now();
    if let Some(file) = first::measure(constants, kinds).filter(|_| verbose) {
        let (milliseconds, file) = (start.elapsed().as_millis(), file.display());
        weft::tell(format_args!("{name}: what messages cost here was measured in {milliseconds} ms: {file}"));
    }
}

/// Where the measured constants of this machine are.
fn constants(constants: Option<OsString>) -> ConstantsFrom {
    let constants = constants.map(|constants| constants.to_string_lossy().into_owned());
    let read =
        |name: &str| if name == "WEFT_CONSTANTS" { constants.clone() } else { std::env::var(name).ok() };
    let measured =
        weft::Config::from_variables(&|name| OF_CONSTANTS.contains(&name).then(|| read(name)).flatten());
    measured.map(|config| config.constants).unwrap_or(ConstantsFrom::BuiltIn)
}

/// On which parts of its node each rank sits: by the cpus that the rank is bound to, or by the machine that
/// `WEFT_MACHINE` describes. `None` where the costs do not distinguish parts of a node.
fn parts_told(
    costs: &Costs,
    ranks: u32,
    nodes: u32,
    binding: Option<&[CpuSet]>,
    machine: Option<OsString>,
) -> Option<String> {
    if !costs.know_parts() {
        return None;
    }
    if let Some(text) = machine.filter(|text| !text.is_empty()) {
        // What is wrong with it is told where a grid is mapped by it.
        let machine = topology::Machine::described(text.to_str()?).ok()?;
        let of_node = ranks.div_ceil(nodes);
        return told::parts(costs, ranks, |border, rank| parts::described(&machine, border, rank % of_node));
    }
    let bound = told::Bound::new(&topology::Host::here(), binding?);
    told::parts(costs, ranks, |border, rank| bound.number(border, rank))
}

/// How many bytes libfabric's layer ofi_rxm shall send at once. `None` where the user has `set` it, or the
/// job does not name libfabric. The launcher sets it, since a rank may have threads by the time at which it
/// could set a variable.
fn packet(fabrics: Option<&OsStr>, set: Option<OsString>) -> Option<usize> {
    let list = fabrics.map(OsStr::to_string_lossy).unwrap_or_default();
    let names_libfabric = list.split(',').any(|fabric| fabric.trim().starts_with("libfabric"));
    (names_libfabric && set.is_none()).then_some(PACKET_BYTES)
}

/// Whether a list of fabrics includes shared memory. A job without a list uses all fabrics.
pub(super) fn names_shm(fabrics: Option<&OsStr>) -> bool {
    let list = fabrics.map(OsStr::to_string_lossy).unwrap_or_default();
    list.is_empty() || list.split(',').any(|fabric| fabric.trim() == "shm")
}

const PORTS: &str = "WEFT_TCP_PORTS";
/// The variable for the range of ports that launchers of other MPI libraries have as well.
const PORT_RANGE: &str = "MPIEXEC_PORT_RANGE";
const COSTS: &str = "WEFT_COSTS";
pub(super) const PARTS: &str = "WEFT_PARTS";
const MACHINE: &str = "WEFT_MACHINE";
/// The variables that say where measured constants are.
const OF_CONSTANTS: [&str; 3] = ["WEFT_CONSTANTS", "XDG_CACHE_HOME", "HOME"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_left_out_only_by_a_list_without_it() {
        let names = |list: &str| names_shm(Some(OsStr::new(list)));
        assert!(names("shm") && names("tcp, shm") && names("") && names_shm(None));
        assert!(!names("tcp") && !names("tcp,libfabric:shm"));
    }

    #[test]
    fn libfabric_is_told_how_much_to_send_at_once_where_nobody_has_said_so() {
        let told = |list: &str, set: Option<&str>| packet(Some(OsStr::new(list)), set.map(Into::into));
        assert_eq!(told("shm, libfabric:tcp;ofi_rxm", None), Some(PACKET_BYTES));
        assert_eq!(told("libfabric", Some("4096")), None);
        assert_eq!([told("shm,tcp", None), told("", None), packet(None, None)], [None; 3]);
    }
}
