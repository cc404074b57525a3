//! What the command line comes to on this node: the program found, the cpus shared out, the variables settled.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use rustix::thread::CpuSet;
use weft::collectives::Costs;
use weft::launch::{PACKET_BYTES, PACKET_VARIABLE};
use weft::{ConstantsFrom, CostsFrom, CpuTime};

use crate::cores::{self, Core};
use crate::first;
use crate::options::{Bind, Options};
use crate::parts;
use crate::program::{self, NoProgram};
use crate::told;

/// Everything that is settled before the first rank is started.
#[derive(Debug)]
pub struct Plan {
    /// The name the launcher was called by; its messages begin with it.
    pub name: String,
    /// The process that the user knows as the launcher.
    pub launcher: Pid,
    /// This node.
    pub host: String,
    /// The file to run.
    pub program: PathBuf,
    /// The program as the user wrote it, and its arguments.
    pub command: Vec<OsString>,
    /// How many ranks.
    pub ranks: u32,
    /// How many of them are on what they take for a node: all, unless they are dealt out to several parts of this one.
    pub ranks_per_node: u32,
    /// Variables to set beyond the launcher's own.
    pub environment: Vec<(OsString, OsString)>,
    /// The cpus of each rank, where ranks are bound.
    pub binding: Option<Vec<CpuSet>>,
    /// How much of the cpus the ranks may use together, where the system tells. Found out once, for all of them.
    pub cpus: Option<CpuTime>,
    /// Whether the ranks may talk through shared memory.
    pub shares_memory: bool,
    /// Whether the others go on when a rank fails.
    pub survives: bool,
    /// How often ranks may be started again.
    pub restarts: u32,
    /// Whether lines of output get labels.
    pub label: bool,
    /// When to end the job.
    pub timeout: Option<Duration>,
    /// Whether to tell where each rank is started.
    pub verbose: bool,
}

/// Why there is nothing to start.
#[derive(Debug, thiserror::Error)]
pub enum NoPlan {
    /// No program.
    #[error(transparent)]
    Program(#[from] NoProgram),
    /// No folder.
    #[error("cannot enter the folder `{folder}` of --wdir: {source}\n  check that it exists on this node")]
    Folder {
        /// As the user wrote it.
        folder: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Binding was asked for.
    #[error(
        "--bind cores: {ranks} ranks of {each} cores need more than the {cores} cores this process may use\n  \
         leave --bind out, start fewer ranks, or lower OMP_NUM_THREADS"
    )]
    Cores {
        /// Ranks.
        ranks: u32,
        /// Cores that each rank wants.
        each: usize,
        /// Cores at hand.
        cores: usize,
    },
    /// The costs of collective operations are named, and cannot be used.
    #[error(
        "WEFT_COSTS: {0}\n  correct it or leave it out; `weft explain costs` shows what such a file looks like"
    )]
    Costs(String),
}

impl NoPlan {
    /// The exit status to end with.
    pub fn exit_status(&self) -> u8 {
        match self {
            NoPlan::Program(error) => error.exit_status(),
            NoPlan::Folder { .. } | NoPlan::Cores { .. } | NoPlan::Costs(_) => 1,
        }
    }
}

impl Plan {
    /// Settles what `options` leave open. Enters the folder of `--wdir`.
    pub fn new(options: Options, name: String) -> Result<Plan, NoPlan> {
        let mut environment = environment(&options, &name);
        if let Some(folder) = &options.wdir {
            environment.push(("PWD".into(), enter(folder)?));
        }
        let variable = |name: &str| last(&environment, name).or_else(|| std::env::var_os(name));
        let program = program::find(&options.command[0], variable("PATH").as_deref())?;
        let cores = cores::allowed();
        let ranks = options.ranks.unwrap_or_else(|| ranks_by_default(&cores));
        let binding = binding(&options, &cores, ranks, threads(variable("OMP_NUM_THREADS").as_deref()))?;
        let cpus = topology::cpus().ok().map(|cpus| CpuTime::of(cpus.effective));
        let shares_memory = names_shm(variable("WEFT_FABRIC").as_deref());
        let constants = constants(variable("WEFT_CONSTANTS"));
        let costs_from = costs_from(variable(COSTS));
        let has_cpus = cpus.is_some_and(|cpus| CpuTime::of(2.0) <= cpus);
        if ranks > 1 && shares_memory && has_cpus && costs_from == CostsFrom::Usual {
            measured_first(&constants, options.verbose, &name);
        }
        let costs = costs_from.find(&constants).map_err(NoPlan::Costs)?;
        let set = last(&environment, PARTS);
        let parts = set
            .is_none()
            .then(|| parts_told(&costs, ranks, options.nodes, binding.as_deref(), variable(MACHINE)));
        let packet = packet(variable("WEFT_FABRIC").as_deref(), variable(PACKET_VARIABLE));
        let told = (costs != Costs::BUILT_IN).then(|| costs.encode().replace('\n', ";"));
        environment.extend(told.map(|text| (COSTS.into(), text.into())));
        environment.extend(parts.flatten().map(|text| (PARTS.into(), text.into())));
        environment.extend(packet.map(|bytes| (PACKET_VARIABLE.into(), bytes.to_string().into())));
        let (survives, restarts) = (options.survives(), options.restarts());
        let ranks_per_node = ranks.div_ceil(options.nodes);
        let Options { command, label, timeout, verbose, .. } = options;
        let (launcher, host) = (getpid(), host());
        Ok(Plan {
            name,
            launcher,
            host,
            program,
            command,
            ranks,
            ranks_per_node,
            environment,
            binding,
            cpus,
            shares_memory,
            survives,
            restarts,
            label,
            timeout,
            verbose,
        })
    }
}

/// The variables of `-x` and of options that ranks learn through variables.
fn environment(options: &Options, name: &str) -> Vec<(OsString, OsString)> {
    let mut environment = Vec::new();
    for variable in &options.env {
        match &variable.value {
            Some(value) => environment.push((variable.name.clone().into(), value.into())),
            None if std::env::var_os(&variable.name).is_none() => {
                weft::tell(format_args!(
                    "{name}: -x {}: there is no such variable to pass on",
                    variable.name
                ));
            }
            None => {}
        }
    }
    environment.extend(options.fabric.iter().map(|fabrics| ("WEFT_FABRIC".into(), fabrics.into())));
    let handler = options.initial_errhandler.iter();
    environment.extend(handler.map(|handler| ("WEFT_INITIAL_ERRHANDLER".into(), handler.into())));
    environment.extend(options.failure_mode().map(|mode| ("WEFT_FT_MODE".into(), mode.into())));
    environment.extend(options.ft_msg.iter().map(|mode| ("WEFT_FT_MESSAGES".into(), mode.into())));
    let fallback = options.rebuild_fallback.iter();
    environment.extend(fallback.map(|mode| ("WEFT_REBUILD_FALLBACK".into(), mode.into())));
    if !options.pset.is_empty() {
        environment.push(("WEFT_PSETS".into(), options.pset.join(";").into()));
    }
    environment
}

/// Where the costs of collective operations come from. Ranks are told them as a text, since all must choose by the same ones, and a
/// file may change while they start.
fn costs_from(named: Option<OsString>) -> CostsFrom {
    let named = named.map(|named| named.to_string_lossy().into_owned()).filter(|named| !named.is_empty());
    CostsFrom::of(named.as_deref())
}

/// Has the machine measured where no job was before.
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

/// On which parts of its node each rank sits, where the costs have lines for such: by the cpus that it is bound to, or by the machine
/// that somebody describes. Without such costs nobody looks.
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

/// How much libfabric's layer ofi_rxm shall send at once: what somebody has set stays, and jobs that do not name libfabric
/// are told nothing. Only a launcher can do this, since libfabric reads the variable in a process that may have threads.
fn packet(fabrics: Option<&OsStr>, set: Option<OsString>) -> Option<usize> {
    let list = fabrics.map(OsStr::to_string_lossy).unwrap_or_default();
    let names_libfabric = list.split(',').any(|fabric| fabric.trim().starts_with("libfabric"));
    (names_libfabric && set.is_none()).then_some(PACKET_BYTES)
}

const COSTS: &str = "WEFT_COSTS";
const PARTS: &str = "WEFT_PARTS";
const MACHINE: &str = "WEFT_MACHINE";
/// The variables that say where measured constants are.
const OF_CONSTANTS: [&str; 3] = ["WEFT_CONSTANTS", "XDG_CACHE_HOME", "HOME"];

fn last(environment: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

fn enter(folder: &OsStr) -> Result<OsString, NoPlan> {
    let told = |source| NoPlan::Folder { folder: folder.to_string_lossy().into_owned(), source };
    std::env::set_current_dir(folder).map_err(told)?;
    std::env::current_dir().map(OsString::from).map_err(told)
}

fn ranks_by_default(cores: &[Core]) -> u32 {
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if cores.is_empty() { cpus() } else { cores.len() };
    u32::try_from(cores).unwrap_or(1)
}

/// Each rank gets cores of its own when there are enough, and otherwise an even share of one, if there is one: ranks
/// that take turns on a core do so faster when the system does not move them about. One rank alone gets no binding by default: there is
/// nobody to keep it apart from, and a program with threads of its own would be squeezed.
fn binding(
    options: &Options,
    cores: &[Core],
    ranks: u32,
    each: usize,
) -> Result<Option<Vec<CpuSet>>, NoPlan> {
    match options.bind {
        Some(Bind::None) => Ok(None),
        // Where the system tells of no cores, ranks run wherever they may.
        Some(Bind::Sockets) => Ok(cores::share_sockets(&cores::sockets(), ranks)),
        None if ranks == 1 => Ok(None),
        None if each == 1 => {
            Ok(cores::share_out(cores, ranks, each).or_else(|| cores::share_evenly(cores, ranks)))
        }
        None => Ok(cores::share_out(cores, ranks, each)),
        Some(Bind::Cores) => {
            let too_few = NoPlan::Cores { ranks, each, cores: cores.len() };
            cores::share_out(cores, ranks, each).map(Some).ok_or(too_few)
        }
    }
}

/// The threads that each rank will run, by the first number of `OMP_NUM_THREADS`.
fn threads(variable: Option<&OsStr>) -> usize {
    let first = variable.and_then(OsStr::to_str).and_then(|text| text.split(',').next()?.trim().parse().ok());
    first.filter(|threads| *threads != 0).unwrap_or(1)
}

/// Whether a list of fabrics includes shared memory; no list includes all.
fn names_shm(fabrics: Option<&OsStr>) -> bool {
    let list = fabrics.map(OsStr::to_string_lossy).unwrap_or_default();
    list.is_empty() || list.split(',').any(|fabric| fabric.trim() == "shm")
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
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

    #[test]
    fn the_last_setting_of_a_variable_counts() {
        let pairs = [("A", "1"), ("B", "2"), ("A", "3")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(last(&pairs, "A"), Some("3".into()));
        assert_eq!(last(&pairs, "C"), None);
    }
}
