//! What the command line comes to on this node: the program found, the cpus shared out, the variables settled.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use rustix::thread::CpuSet;
use weft::collectives::Costs;
use weft::launch::{PACKET_BYTES, PACKET_VARIABLE};
use weft::{ConstantsFrom, CostsFrom, CpuTime};

use crate::claims::Claims;
use crate::cores::{self, Core};
use crate::engine::Handed;
use crate::files::Files;
use crate::first;
use crate::hosts;
use crate::options::environment::Environment;
use crate::options::{Input, Options, Part, RANKS_MAX, Universe};
use crate::parts;
use crate::policy::{self, Misfit, Policy, Target, Unit};
use crate::program::{self, NoProgram};
use crate::told;
use crate::vacant::{Occupancy, Unbound};

/// Everything that is settled before the first rank is started.
#[derive(Debug)]
pub struct Plan {
    /// The name the launcher was called by; its messages begin with it.
    pub name: String,
    /// The process that the user knows as the launcher.
    pub launcher: Pid,
    /// This node.
    pub host: String,
    /// What the ranks run: the first ranks the first of them, the next ranks the next.
    pub programs: Vec<Program>,
    /// How many ranks.
    pub ranks: u32,
    /// How many of them are on what they take for a node: all, unless they are dealt out to several parts of this one.
    pub ranks_per_node: u32,
    /// What MPI_UNIVERSE_SIZE says, if anything.
    pub universe: Option<u32>,
    /// Variables to set for all ranks beyond the launcher's own.
    pub environment: Vec<(OsString, OsString)>,
    /// The cpus of each rank, where ranks are bound.
    pub binding: Option<Vec<CpuSet>>,
    /// Why they are not bound, where nobody has asked for that.
    pub unbound: Option<Unbound>,
    /// The cpus that no other job of this host is to bind its ranks to, for as long as this value is there.
    pub claims: Claims,
    /// What each rank is bound to, where that may have to be told.
    pub places: Option<Vec<String>>,
    /// Whether to tell at each start what the rank is bound to.
    pub reports_bindings: bool,
    /// How much of the cpus the ranks may use together, as far as others leave them, where the system tells. Found out once, for
    /// all of them.
    pub cpus: Option<CpuTime>,
    /// Whether the ranks may talk through shared memory.
    pub shares_memory: bool,
    /// Whether the others go on when a rank fails.
    pub survives: bool,
    /// How often ranks may be started again.
    pub restarts: u32,
    /// Whether lines of output get labels.
    pub label: bool,
    /// The files that ranks write to.
    pub files: Files,
    /// Who reads the launcher's standard input.
    pub input: Input,
    /// Whether the only rank is the launcher of several hosts, which speaks for itself.
    pub is_engine: bool,
    /// When to end the job.
    pub timeout: Option<Duration>,
    /// Whether to tell where each rank is started.
    pub verbose: bool,
}

/// A program of the job.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file to run.
    pub file: PathBuf,
    /// The program as the user wrote it, and its arguments.
    pub command: Vec<OsString>,
    /// How many ranks run it.
    pub ranks: u32,
    /// The folder that they start in, where it is another one than the launcher's.
    pub folder: Option<PathBuf>,
    /// Their variables.
    pub environment: Environment,
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
    /// A file for output.
    #[error("cannot write the output of ranks to {file}: {source}\n  name another file or folder", file = .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The standard input cannot go where it should.
    #[error("--stdin {0}")]
    Input(String),
    /// Too many ranks of several programs.
    #[error("-n: {ranks} ranks together are more than {RANKS_MAX}\n  start fewer")]
    Ranks {
        /// Of all programs.
        ranks: u64,
    },
    /// Programs of one job that could not talk to each other.
    #[error(
        "the programs of one job need the same fabrics: `{}` has WEFT_FABRIC={}, `{}` has WEFT_FABRIC={}\n  \
         write --fabric LIST once, for all of them", .0[0].0, .0[0].1, .0[1].0, .0[1].1
    )]
    Fabrics([(String, String); 2]),
    /// Binding was asked for.
    #[error(transparent)]
    Binding(#[from] Misfit),
    /// A variable of the launcher's that cannot be read.
    #[error("{name}={value}: {expected}\n  correct it or leave it out")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        expected: String,
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
            _ => 1,
        }
    }
}

impl Plan {
    /// Settles what `options` leave open.
    pub fn new(options: &Options, name: String) -> Result<Plan, NoPlan> {
        let environment = environment(options);
        let mut programs: Vec<Program> =
            options.parts.iter().map(|part| Program::new(part, options, &name)).collect::<Result<_, _>>()?;
        same_fabrics(&programs, &environment)?;
        let variable = |name: &str| programs[0].variable(&environment, name);
        let threads = programs
            .iter()
            .map(|program| threads(program.variable(&environment, "OMP_NUM_THREADS").as_deref()))
            .max();
        let minds_others = variable(BUSY).is_none_or(|value| value != "ignore");
        let Places { ranks, binding, unbound, claims, free, names } =
            places(options, threads.unwrap_or(1), minds_others)?;
        let set = variable(PARTS);
        let told = ToldToRanks::settle(options, ranks, binding.as_deref(), set.is_none(), &name, &variable)?;
        let shares_memory = names_shm(variable("WEFT_FABRIC").as_deref());
        let timeout = options.timeout.map_or_else(timeout_by_variable, |limit| Ok(Some(limit)))?;
        if let [only] = &mut programs[..] {
            only.ranks = ranks;
        }
        options
            .files()
            .begin(ranks, &hosts::own_name(), getpid().as_raw_pid())
            .map_err(|(file, source)| NoPlan::File { file, source })?;
        let universe = match options.usize {
            None => Some(ranks),
            Some(Universe::Number(number)) => Some(number),
            Some(Universe::System) => Some(ranks_by_default(&cores::allowed())),
            Some(Universe::Infinite) => None,
        };
        Ok(Plan {
            name,
            launcher: getpid(),
            host: hosts::own_name(),
            programs,
            ranks,
            ranks_per_node: ranks.div_ceil(options.nodes),
            universe,
            environment: environment.into_iter().chain(told.variables).collect(),
            binding,
            unbound,
            claims,
            places: names,
            reports_bindings: options.report_bindings,
            cpus: told.cpus.map(|cpus| free.map_or(cpus, |free| cpus.min(CpuTime::of(free as f64)))),
            shares_memory,
            survives: options.survives(),
            restarts: options.restarts(),
            label: options.label,
            files: options.files(),
            input: input(options, ranks)?,
            is_engine: false,
            timeout,
            verbose: options.verbose,
        })
    }

    /// The plan for the launcher of several hosts, as the only rank of a job. It starts as it is, bound to nothing.
    pub fn for_engine(options: &Options, handed: &Handed, name: String) -> Result<Plan, NoPlan> {
        let set = handed.environment.clone();
        let program = Program {
            file: handed.program.clone(),
            command: handed.command.clone(),
            ranks: 1,
            folder: None,
            environment: Environment { set, ..Environment::default() },
        };
        Ok(Plan {
            name,
            launcher: getpid(),
            host: hosts::own_name(),
            programs: vec![program],
            ranks: 1,
            ranks_per_node: 1,
            universe: None,
            environment: Vec::new(),
            binding: None,
            unbound: None,
            claims: Claims::default(),
            places: None,
            reports_bindings: false,
            cpus: None,
            shares_memory: false,
            survives: false,
            restarts: 0,
            label: false,
            files: Files::default(),
            input: Input::Rank(0),
            is_engine: true,
            timeout: options.timeout.map_or_else(timeout_by_variable, |limit| Ok(Some(limit)))?,
            verbose: options.verbose,
        })
    }

    /// The program of a rank.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn program_of(&self, rank: u32) -> &Program {
        let mut ranks =
            self.programs.iter().flat_map(|program| std::iter::repeat_n(program, program.ranks as usize));
        ranks.nth(rank as usize).expect("each rank has a program")
    }

    /// Where each rank goes, a line for each.
    pub fn map(&self) -> String {
        let line = |rank: u32| {
            let program = self.program_of(rank).command[0].to_string_lossy();
            let place = self.places.as_ref().map_or("nothing", |places| &places[rank as usize]);
            format!("\n  rank {rank}: {program}, bound to {place}")
        };
        format!("{} ranks on {}:{}", self.ranks, self.host, (0..self.ranks).map(line).collect::<String>())
    }
}

impl Program {
    /// Finds the program of a part of the job.
    fn new(part: &Part, options: &Options, name: &str) -> Result<Program, NoPlan> {
        let mut environment = part.environment.clone();
        let folder = part.folder.as_deref().map(enter).transpose()?;
        if let Some(folder) = &folder {
            environment.set.push(("PWD".into(), folder.into()));
        }
        let missing = |name: &&String| {
            !name.ends_with('*') && environment.value(name, std::env::var_os(name)).is_none()
        };
        for missing in environment.exported.iter().filter(missing).filter(|_| !options.quiet) {
            weft::tell(format_args!("{name}: -x {missing}: there is no such variable to pass on"));
        }
        let paths = environment.value("PATH", std::env::var_os("PATH")).or_else(|| std::env::var_os("PATH"));
        let paths = part.search_path.iter().cloned().chain(paths).collect::<Vec<_>>().join(OsStr::new(":"));
        let file = program::find(&part.command[0], Some(&paths), folder.as_deref())?;
        let ranks = part.ranks.unwrap_or(1);
        Ok(Program { file, command: part.command.clone(), ranks, folder, environment })
    }

    /// What its ranks see under this name, where `common` are the variables that are set for all ranks of the job.
    pub fn variable(&self, common: &[(OsString, OsString)], name: &str) -> Option<OsString> {
        last(common, name).or_else(|| self.environment.value(name, std::env::var_os(name)))
    }
}

/// Who reads the launcher's standard input. All ranks can read a file, each from its beginning, and nothing else.
fn input(options: &Options, ranks: u32) -> Result<Input, NoPlan> {
    let input = options.stdin.unwrap_or(Input::Rank(0));
    match input {
        Input::Rank(rank) if ranks <= rank => {
            Err(NoPlan::Input(format!("{rank}: there are {ranks} ranks only, from 0 on\n  name one of them")))
        }
        Input::All if !is_file(rustix::stdio::stdin()) => Err(NoPlan::Input(
            "all: all ranks can read the same file, and the launcher's input is none\n  write < FILE behind the command"
                .to_owned(),
        )),
        input => Ok(input),
    }
}

fn is_file(descriptor: impl std::os::fd::AsFd) -> bool {
    let about = rustix::fs::fstat(descriptor);
    about.is_ok_and(|about| rustix::fs::FileType::from_raw_mode(about.st_mode).is_file())
}

/// All ranks of a job use the same fabrics, which the launcher prepares for them.
fn same_fabrics(programs: &[Program], environment: &[(OsString, OsString)]) -> Result<(), NoPlan> {
    let of = |program: &Program| {
        let fabrics = program.variable(environment, FABRIC).unwrap_or_default();
        (program.command[0].to_string_lossy().into_owned(), fabrics.to_string_lossy().into_owned())
    };
    let first = of(&programs[0]);
    match programs.iter().map(of).find(|(_, fabrics)| *fabrics != first.1) {
        Some(other) => Err(NoPlan::Fabrics([first, other])),
        None => Ok(()),
    }
}

/// How many ranks there are, and where they run.
struct Places {
    ranks: u32,
    binding: Option<Vec<CpuSet>>,
    unbound: Option<Unbound>,
    claims: Claims,
    /// How many cpus others leave, where that was looked for.
    free: Option<usize>,
    /// What each rank is bound to, where that is asked for.
    names: Option<Vec<String>>,
}

fn places(options: &Options, threads: usize, minds_others: bool) -> Result<Places, NoPlan> {
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
    let Bound { sets: binding, why: unbound, claims, free } = match &parts {
        Some(parts) if policy.is_explicit() => {
            Bound::by_policy(&policy, parts, cores, ranks, threads, minds_others)?
        }
        _ => Bound::by_default(cores, ranks, threads, minds_others),
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

/// What ranks are bound to.
#[derive(Default)]
struct Bound {
    sets: Option<Vec<CpuSet>>,
    /// Why they are not, where nobody has asked for that.
    why: Option<Unbound>,
    claims: Claims,
    /// How many cpus others leave, where that was looked for.
    free: Option<usize>,
}

impl Bound {
    /// What is done where nothing is said.
    fn by_default(cores: Vec<Core>, ranks: u32, threads: usize, minds_others: bool) -> Bound {
        if ranks == 1 {
            return Bound { why: Some(Unbound::Alone), ..Bound::default() };
        }
        let occupancy = Occupancy::look(cores, ranks as usize, minds_others);
        let free = Some(occupancy.free_cpus());
        match occupancy.share_out(ranks, threads) {
            Ok(sets) => Bound { claims: occupancy.hold(&sets), sets: Some(sets), why: None, free },
            Err(why) => Bound { why: Some(why), free, ..Bound::default() },
        }
    }

    /// What the user has said, on cores that nobody else uses where nothing is said of which ones.
    fn by_policy(
        policy: &Policy,
        parts: &policy::Parts,
        cores: Vec<Core>,
        ranks: u32,
        threads: usize,
        minds_others: bool,
    ) -> Result<Bound, NoPlan> {
        let target = policy.bind_to.as_ref().map(|bind| &bind.target);
        if target == Some(&Target::None) && !minds_others {
            return Ok(Bound::default());
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
        // Sockets and the like are for many: a job that may run on all of one does not keep others from its cores.
        let held = sets.as_deref().filter(|_| !is_of(|unit| unit < Unit::Core));
        Ok(Bound { claims: occupancy.hold(held.unwrap_or_default()), sets, why: None, free })
    }
}

/// The time of `MPIEXEC_TIMEOUT`, as the standard's launchers have it; none where it is not above zero.
fn timeout_by_variable() -> Result<Option<Duration>, NoPlan> {
    let Some(value) = std::env::var_os(TIMEOUT) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    let Ok(seconds) = value.trim().parse::<f64>() else {
        let expected = "a number of seconds is needed".to_owned();
        return Err(NoPlan::Variable { name: TIMEOUT, value, expected });
    };
    Ok(Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()))
}

/// What ranks are told of their machine and of costs.
struct ToldToRanks {
    cpus: Option<CpuTime>,
    variables: Vec<(OsString, OsString)>,
}

impl ToldToRanks {
    fn settle(
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

/// What options of the whole job mean to ranks as variables.
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

/// The ports of `MPIEXEC_PORT_RANGE`, `LOW:HIGH`, where nobody names ports in our own words.
fn ports(range: Option<&OsStr>, is_set: bool) -> Option<(OsString, OsString)> {
    let range = range.filter(|_| !is_set)?.to_str()?.trim().replace(':', "-");
    (!range.is_empty()).then(|| (PORTS.into(), range.into()))
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

const FABRIC: &str = "WEFT_FABRIC";
const PORTS: &str = "WEFT_TCP_PORTS";
/// Variables of the launcher that others have as well.
const PORT_RANGE: &str = "MPIEXEC_PORT_RANGE";
const TIMEOUT: &str = "MPIEXEC_TIMEOUT";
const BUSY: &str = "WEFT_BUSY";
const COSTS: &str = "WEFT_COSTS";
const PARTS: &str = "WEFT_PARTS";
const MACHINE: &str = "WEFT_MACHINE";
/// The variables that say where measured constants are.
const OF_CONSTANTS: [&str; 3] = ["WEFT_CONSTANTS", "XDG_CACHE_HOME", "HOME"];

fn last(environment: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// A folder as an absolute path, where there is one that can be entered.
fn enter(folder: &OsStr) -> Result<PathBuf, NoPlan> {
    let told = |source| NoPlan::Folder { folder: folder.to_string_lossy().into_owned(), source };
    let path = Path::new(folder).canonicalize().map_err(told)?;
    // It is entered by the ranks, who must be allowed to.
    rustix::fs::access(path.join("."), rustix::fs::Access::EXEC_OK).map_err(|error| told(error.into()))?;
    Ok(path)
}

fn ranks_by_default(cores: &[Core]) -> u32 {
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if cores.is_empty() { cpus() } else { cores.len() };
    u32::try_from(cores).unwrap_or(1)
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
