//! What the environment says, read once and passed down.

mod failures;
mod variables;

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use collectives::{Forced, NotForced};
use process_manager::{Protocol, Wishes};

use crate::constants::ConstantsFrom;
use crate::error::{Class, Error, Result};
use crate::fabrics::{PACKET_VARIABLE, packet_bytes};
use crate::machine::{MachineFrom, SwitchesFrom};
use crate::tuning::CostsFrom;

pub use self::failures::{FtMode, InitialErrors, MessageMode, Rebuilt};
pub use self::variables::{VARIABLES, Variable};

/// Everything that can be set from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The fabrics that may be used, in no order of preference: cost decides.
    pub fabrics: Vec<FabricName>,
    /// The descriptor of the job's shared memory, inherited from the launcher.
    pub segment: Option<i32>,
    /// The part of the node whose processes alone share memory with this one, where the launcher has dealt
    /// them out to several.
    pub node: Option<String>,
    /// The descriptor of the job's failure log of failures, inherited from a launcher that leaves the
    /// survivors alive.
    pub failure_log: Option<i32>,
    /// The descriptor of the pulses of the job's processes, from the same launcher.
    pub liveness_descriptors: Option<i32>,
    /// The descriptor of the memory where processes write what their calls wait for, inherited from the
    /// launcher.
    pub wait_states: Option<i32>,
    /// What becomes of communicators that have lost a member, where the program says nothing else.
    pub ft_mode: FtMode,
    /// What becomes of their messages, in the same case.
    pub ft_messages: MessageMode,
    /// How many processes the launcher may start in the place of others.
    pub restarts: u32,
    /// What happens to communicators to be rebuilt where processes cannot be started again.
    pub rebuild_fallback: FtMode,
    /// What this process was told, where it was started in the place of another.
    pub rebuilt: Option<Rebuilt>,
    /// Whether a peer's memory may be read directly (CMA).
    pub pull: bool,
    /// Whether a thread of the library's may make progress, whichever threads the program calls from.
    pub progress_thread: bool,
    /// The ports to listen on.
    pub tcp_ports: Option<RangeInclusive<u16>>,
    /// The interfaces whose addresses are offered to others; all where there is none.
    pub tcp_interfaces: Option<Vec<String>>,
    /// Whether libfabric may be used without having been named, where this host has a card for it and the job
    /// other hosts.
    pub seeks_hardware: bool,
    /// The provider of libfabric to use, by its whole name; one that goes to other hosts where there is none.
    pub libfabric_provider: Option<String>,
    /// The library of libfabric to load, if not the system's.
    pub libfabric: Option<OsString>,
    /// The cards that libfabric may use, by the names of their domains; all where there are none.
    pub libfabric_domains: Option<Vec<String>>,
    /// How many network cards large messages go over by libfabric, at most.
    pub libfabric_rails: usize,
    /// What libfabric's layer ofi_rxm sends at once, where its own variable says so.
    pub libfabric_packet_bytes: Option<usize>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long another node may answer nothing before its processes are taken for dead.
    pub node_timeout: Duration,
    /// Memory for messages without a receive, in bytes.
    pub unexpected_bytes_max: usize,
    /// The cpus that the ranks of this node may use together, where the launcher tells.
    pub cpus: Option<CpuTime>,
    /// How to wait, if not by what the machine offers.
    pub wait: Wait,
    /// Where the constants of the cost model come from.
    pub constants: ConstantsFrom,
    /// Where the costs come from by which collective algorithms are chosen.
    pub costs: CostsFrom,
    /// Collective algorithms that are asked for.
    pub forced: Forced,
    /// Named sets of processes, beside those of the standard.
    pub process_sets: Vec<SetOfRanks>,
    /// What errors do until the program says otherwise; for the C interface.
    pub initial_errors: InitialErrors,
    /// Whether members of a communicator compare what collective operations they call.
    pub check: bool,
    /// Tell what the mapping of grids gains.
    pub explain: bool,
    /// Which process manager to use, and by which library.
    pub manager: Wishes,
    /// What tells of the machine tree of this host.
    pub machine: MachineFrom,
    /// What tells of the switches above this host.
    pub switches: SwitchesFrom,
    /// Which process sits on which part of its node, as [`Parts`](crate::numa_partition::Parts) are written.
    pub parts: Option<String>,
}

/// A named set of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetOfRanks {
    /// Its name, as `app://ocean`.
    pub name: String,
    /// The ranks of its processes in the job, each once.
    pub ranks: Vec<u32>,
}

/// An amount of cpus, in hundredths of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CpuTime {
    /// Hundredths.
    pub hundredths: u32,
}

impl CpuTime {
    /// More than the ranks of any node need.
    pub const UNLIMITED: CpuTime = CpuTime { hundredths: u32::MAX };

    /// The time of `cpus` cpus; what is left of a hundredth does not count.
    #[must_use]
    pub fn of(cpus: f64) -> CpuTime {
        CpuTime { hundredths: (cpus * 100.0) as u32 }
    }
}

impl std::fmt::Display for CpuTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.hundredths / 100, self.hundredths % 100)
    }
}

/// A fabric, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FabricName {
    /// Shared memory.
    Shm,
    /// Sockets.
    Tcp,
    /// A provider of libfabric.
    Libfabric,
}

/// How a waiting rank spends its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Spin where ranks have cores of their own, yield where they share them; sleep in the end.
    Auto,
    /// Spin at first, whatever the machine.
    Spin,
    /// Yield at once, whatever the machine.
    Yield,
}

impl Config {
    /// Reads the variables by the function given.
    ///
    /// # Errors
    /// [`Class::Argument`] that names the variable, its value and what is expected.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Config> {
        let read = |name: &'static str| variable(name).filter(|value| !value.is_empty());
        let mut config = Config::default();
        if let Some(list) = read("WEFT_FABRIC") {
            (config.fabrics, config.libfabric_provider) = parse_fabrics(&list)?;
            config.seeks_hardware = false;
        }
        config.node = read("WEFT_NODE");
        if let Some(value) = read("WEFT_SHM_FD") {
            config.segment = Some(parse("WEFT_SHM_FD", &value, "a descriptor number")?);
        }
        config.read_failures(&read)?;
        if let Some(value) = read("WEFT_CMA") {
            config.pull = parse::<u8>("WEFT_CMA", &value, "0 or 1")? != 0;
        }
        if let Some(value) = read("WEFT_PROGRESS_THREAD") {
            config.progress_thread = parse::<u8>("WEFT_PROGRESS_THREAD", &value, "0 or 1")? != 0;
        }
        if let Some(value) = read("WEFT_TCP_PORTS") {
            config.tcp_ports = Some(parse_ports(&value)?);
        }
        if let Some(value) = read("WEFT_TCP_INTERFACES") {
            config.tcp_interfaces = Some(names(&value));
        }
        config.read_timeouts(&read)?;
        if let Some(value) = read("WEFT_UNEXPECTED_BYTES") {
            config.unexpected_bytes_max = parse("WEFT_UNEXPECTED_BYTES", &value, "a number of bytes")?;
        }
        if let Some(value) = read("WEFT_CPUS") {
            config.cpus = Some(parse_cpus(&value)?);
        }
        if let Some(value) = read("WEFT_WAIT") {
            config.wait = match value.as_str() {
                "auto" => Wait::Auto,
                "spin" => Wait::Spin,
                "yield" => Wait::Yield,
                _ => return Err(wrong("WEFT_WAIT", &value, "auto, spin or yield")),
            };
        }
        if let Some(value) = read("WEFT_PSETS") {
            config.process_sets = parse_sets(&value)?;
        }
        if let Some(value) = read("WEFT_INITIAL_ERRHANDLER") {
            let expected = "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return";
            config.initial_errors = InitialErrors::named(&value)
                .ok_or_else(|| wrong("WEFT_INITIAL_ERRHANDLER", &value, expected))?;
        }
        if let Some(value) = read("WEFT_CHECK") {
            config.check = parse::<u8>("WEFT_CHECK", &value, "0 or 1")? != 0;
        }
        if let Some(value) = read("WEFT_EXPLAIN") {
            config.explain = parse::<u8>("WEFT_EXPLAIN", &value, "0 or 1")? != 0;
        }
        if let Some(value) = read("WEFT_PROCESS_MANAGER") {
            let protocol = Protocol::named(value.trim());
            let known =
                protocol.ok_or_else(|| wrong("WEFT_PROCESS_MANAGER", &value, "pmi1, pmi2, pmix or none"))?;
            config.manager.protocol = Some(known);
        }
        config.manager.libpmix = read("WEFT_LIBPMIX").map(Into::into);
        config.read_libfabric(&read)?;
        config.read_costs(&read)?;
        config.machine = machine_from(variable);
        config.switches = switches_from(&read);
        config.parts = read("WEFT_PARTS");
        Ok(config)
    }

    /// How long others may be silent.
    fn read_timeouts(&mut self, read: &dyn Fn(&'static str) -> Option<String>) -> Result<()> {
        if let Some(value) = read("WEFT_CONNECT_TIMEOUT") {
            let seconds: f64 = parse("WEFT_CONNECT_TIMEOUT", &value, "seconds")?;
            self.connect_timeout = Duration::try_from_secs_f64(seconds).map_err(|_| {
                wrong("WEFT_CONNECT_TIMEOUT", &value, "a number of seconds that is not negative")
            })?;
        }
        if let Some(value) = read("WEFT_NODE_TIMEOUT") {
            let seconds = parse("WEFT_NODE_TIMEOUT", &value, "whole seconds")?;
            let node_timeout = Some(Duration::from_secs(seconds)).filter(|_| (3..=86_400).contains(&seconds));
            self.node_timeout =
                node_timeout.ok_or_else(|| wrong("WEFT_NODE_TIMEOUT", &value, "3 seconds to a day"))?;
        }
        Ok(())
    }

    /// What things cost, and how collective algorithms are chosen.
    fn read_costs(&mut self, read: &dyn Fn(&'static str) -> Option<String>) -> Result<()> {
        self.constants = match read("WEFT_CONSTANTS").as_deref() {
            Some("off") => ConstantsFrom::BuiltIn,
            Some(file) => ConstantsFrom::File(file.into()),
            None => ConstantsFrom::cache(read("XDG_CACHE_HOME"), read("HOME")),
        };
        self.costs = CostsFrom::of(read("WEFT_COSTS").as_deref());
        if let Some(value) = read("WEFT_COLLECTIVE") {
            self.forced = value.parse().map_err(|error: NotForced| {
                let what = format!("the environment variable WEFT_COLLECTIVE is {value:?}: {error}");
                Error::new(Class::Argument, what).remedy("unset WEFT_COLLECTIVE or correct it")
            })?;
        }
        Ok(())
    }

    /// What libfabric may use.
    fn read_libfabric(&mut self, read: &dyn Fn(&'static str) -> Option<String>) -> Result<()> {
        self.libfabric = read("WEFT_LIBFABRIC").map(Into::into);
        self.libfabric_domains = read("WEFT_LIBFABRIC_DOMAINS").as_deref().map(names);
        self.libfabric_packet_bytes = read(PACKET_VARIABLE).as_deref().map(packet_bytes);
        if let Some(value) = read("WEFT_LIBFABRIC_RAILS") {
            let rails = parse("WEFT_LIBFABRIC_RAILS", &value, "1 to 4")?;
            if !(1..=4).contains(&rails) {
                return Err(wrong("WEFT_LIBFABRIC_RAILS", &value, "1 to 4"));
            }
            self.libfabric_rails = rails;
        }
        Ok(())
    }

    /// Reads the process's own environment.
    ///
    /// # Errors
    /// [`Class::Argument`] that names the variable, its value and what is expected.
    pub fn from_environment() -> Result<Config> {
        Config::from_variables(&|name| std::env::var(name).ok())
    }

    /// Whether the fabric may be used.
    #[must_use]
    pub fn allows(&self, fabric: FabricName) -> bool {
        self.fabrics.contains(&fabric)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            fabrics: vec![FabricName::Shm, FabricName::Tcp],
            segment: None,
            node: None,
            failure_log: None,
            liveness_descriptors: None,
            wait_states: None,
            ft_mode: FtMode::None,
            ft_messages: MessageMode::Reset,
            restarts: 0,
            rebuild_fallback: FtMode::Blank,
            rebuilt: None,
            pull: true,
            progress_thread: false,
            tcp_ports: None,
            tcp_interfaces: None,
            seeks_hardware: true,
            libfabric_provider: None,
            libfabric: None,
            libfabric_domains: None,
            libfabric_rails: 1,
            libfabric_packet_bytes: None,
            connect_timeout: Duration::from_secs(10),
            node_timeout: Duration::from_secs(90),
            unexpected_bytes_max: 64 << 20,
            cpus: None,
            wait: Wait::Auto,
            constants: ConstantsFrom::BuiltIn,
            costs: CostsFrom::Usual,
            forced: Forced::NOTHING,
            process_sets: Vec::new(),
            initial_errors: InitialErrors::Fatal,
            check: false,
            explain: false,
            manager: Wishes::default(),
            machine: MachineFrom::Host { kept_in: None },
            parts: None,
            switches: SwitchesFrom::Nothing,
        }
    }
}

fn machine_from(variable: &dyn Fn(&str) -> Option<String>) -> MachineFrom {
    let read = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(text) = read("WEFT_MACHINE") {
        return MachineFrom::Description(text);
    }
    // What hwloc is told by others is not this host for the jobs to come.
    let is_told = OF_HWLOC.iter().any(|name| variable(name).is_some());
    let folder = || crate::cache_directory::folder(read("XDG_CACHE_HOME"), read("HOME"));
    MachineFrom::Host { kept_in: if is_told { None } else { folder() } }
}

fn switches_from(read: &dyn Fn(&'static str) -> Option<String>) -> SwitchesFrom {
    if let Some(file) = read("WEFT_SWITCHES") {
        return SwitchesFrom::File { file: file.into(), host: read("SLURMD_NODENAME") };
    }
    match (read("SLURM_TOPOLOGY_ADDR"), read("SLURM_TOPOLOGY_ADDR_PATTERN")) {
        (Some(address), Some(pattern)) => SwitchesFrom::Slurm { address, pattern },
        _ => SwitchesFrom::Nothing,
    }
}

/// The fabrics, and the provider where one is named.
fn parse_fabrics(list: &str) -> Result<(Vec<FabricName>, Option<String>)> {
    let mut provider = None;
    let mut names = Vec::new();
    for name in list.split(',').map(str::trim) {
        names.push(match name.split_once(':') {
            None if name == "shm" => FabricName::Shm,
            None if name == "tcp" => FabricName::Tcp,
            None if name == "libfabric" => FabricName::Libfabric,
            Some(("libfabric", named)) if !named.is_empty() && provider.is_none() => {
                provider = Some(named.to_owned());
                FabricName::Libfabric
            }
            _ => return Err(wrong("WEFT_FABRIC", list, "a comma list of shm, tcp and libfabric:PROVIDER")),
        });
    }
    Ok((names, provider))
}

/// The names of a comma list.
fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

fn parse_ports(value: &str) -> Result<RangeInclusive<u16>> {
    let bad = || wrong("WEFT_TCP_PORTS", value, "a port or a range such as 5000-5999");
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    let (first, last) = (first.trim().parse().map_err(|_| bad())?, last.trim().parse().map_err(|_| bad())?);
    if first == 0 || last < first {
        return Err(bad());
    }
    Ok(first..=last)
}

fn parse_sets(value: &str) -> Result<Vec<SetOfRanks>> {
    let mut sets: Vec<SetOfRanks> = Vec::new();
    for part in value.split(';').filter(|part| !part.is_empty()) {
        let bad = || wrong("WEFT_PSETS", part, "a name, =, and ranks such as 0-3,8");
        let (name, list) = part.rsplit_once('=').ok_or_else(bad)?;
        let standard = name.get(..STANDARD_SETS.len()).unwrap_or_default();
        if standard.eq_ignore_ascii_case(STANDARD_SETS) {
            return Err(wrong("WEFT_PSETS", part, "a name that does not begin with mpi://"));
        }
        if name.is_empty() || name.len() > SET_NAME_BYTES_MAX || sets.iter().any(|set| set.name == name) {
            return Err(wrong("WEFT_PSETS", part, "names that differ, of 1 to 1023 bytes"));
        }
        let ranks = parse_ranks(list).ok_or_else(bad)?;
        sets.push(SetOfRanks { name: name.to_owned(), ranks });
    }
    Ok(sets)
}

/// Single ranks and ranges, each rank once; `None` for anything else.
fn parse_ranks(list: &str) -> Option<Vec<u32>> {
    let mut ranks: Vec<u32> = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last >= RANKS_MAX {
            return None;
        }
        ranks.extend(first..=last);
    }
    let mut sorted = ranks.clone();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] < pair[1]).then_some(ranks)
}

/// The variables that change what hwloc takes for this host.
const OF_HWLOC: [&str; 7] = [
    "HWLOC_XMLFILE",
    "HWLOC_SYNTHETIC",
    "HWLOC_FSROOT",
    "HWLOC_CPUID_PATH",
    "HWLOC_COMPONENTS",
    "HWLOC_THISSYSTEM",
    "HWLOC_DUMPED_HWDATA_DIR",
];
/// How the names of the standard's process sets begin; no other set may have such a name.
pub const STANDARD_SETS: &str = "mpi://";
/// The longest name that a buffer of `MPI_MAX_PSET_NAME_LEN` bytes takes.
const SET_NAME_BYTES_MAX: usize = 1023;
/// Ranks that a list may name; more are a slip of the finger.
const RANKS_MAX: u32 = 1 << 24;

fn parse_cpus(value: &str) -> Result<CpuTime> {
    let expected = "a number of cpus, such as 1.5";
    let cpus: f64 = parse("WEFT_CPUS", value, expected)?;
    if cpus.is_finite() && cpus >= 0.0 {
        Ok(CpuTime::of(cpus))
    } else {
        Err(wrong("WEFT_CPUS", value, expected))
    }
}

fn parse<T: std::str::FromStr>(name: &str, value: &str, expected: &str) -> Result<T> {
    value.trim().parse().map_err(|_| wrong(name, value, expected))
}

/// The error for an environment variable whose value is not what is expected, with the remedy.
#[must_use]
pub fn wrong(name: &str, value: &str, expected: &str) -> Error {
    Error::new(Class::Argument, format!("the environment variable {name} is {value:?}, expected {expected}"))
        .remedy(format!("unset {name} or correct it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The configuration where this variable alone is set.
    pub(in crate::config) fn read(name: &'static str, value: &'static str) -> Result<Config> {
        Config::from_variables(&|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn values_are_read_and_nonsense_is_told_by_name() {
        assert_eq!(read("WEFT_FABRIC", "tcp").unwrap().fabrics, [FabricName::Tcp]);
        let over = read("WEFT_FABRIC", "shm, libfabric:tcp;ofi_rxm").unwrap();
        assert_eq!(over.fabrics, [FabricName::Shm, FabricName::Libfabric]);
        assert_eq!(over.libfabric_provider.as_deref(), Some("tcp;ofi_rxm"));
        assert_eq!(read("WEFT_FABRIC", "libfabric").unwrap().libfabric_provider, None);
        for nonsense in ["libfabric:", "tcp:x", "shm,", "libfabric:a,libfabric:b"] {
            assert!(read("WEFT_FABRIC", nonsense).is_err(), "{nonsense}");
        }
        assert_eq!(read("WEFT_LIBFABRIC", "/a/b").unwrap().libfabric, Some("/a/b".into()));
        let domains = read("WEFT_LIBFABRIC_DOMAINS", "mlx5_0, mlx5_1").unwrap().libfabric_domains;
        assert_eq!(domains, Some(vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()]));
        assert_eq!(read("WEFT_LIBFABRIC_RAILS", "2").unwrap().libfabric_rails, 2);
        let packet = |value: &'static str| read(PACKET_VARIABLE, value).unwrap().libfabric_packet_bytes;
        assert_eq!([packet("4096"), packet("0x1000"), packet("")], [Some(4096), Some(4096), None]);
        assert_eq!(read("WEFT_FABRIC", "").unwrap(), Config::default());
        assert_eq!(read("WEFT_CPUS", "1.5").unwrap().cpus, Some(CpuTime { hundredths: 150 }));
        assert_eq!(read("WEFT_CPUS", "2.00").unwrap().cpus.unwrap().to_string(), "2.00");
        assert_eq!(read("WEFT_CONSTANTS", "off").unwrap().constants, ConstantsFrom::BuiltIn);
        assert_eq!(read("WEFT_CONSTANTS", "a/b").unwrap().constants, ConstantsFrom::File("a/b".into()));
        assert_eq!(read("WEFT_COSTS", "off").unwrap().costs, CostsFrom::BuiltIn);
        assert_eq!(read("WEFT_COSTS", "a/b").unwrap().costs, CostsFrom::File("a/b".into()));
        assert_eq!(read("WEFT_COLLECTIVE", "bcast:binomial").unwrap().forced.to_string(), "bcast:binomial");
        assert_eq!(read("HOME", "/home/a").unwrap().constants, ConstantsFrom::Cache("/home/a/.cache".into()));
        assert_eq!(read("WEFT_TCP_PORTS", "10-12").unwrap().tcp_ports, Some(10..=12));
        assert_eq!(read("WEFT_CONNECT_TIMEOUT", "0.5").unwrap().connect_timeout, Duration::from_millis(500));
        assert_eq!(read("WEFT_NODE_TIMEOUT", "3").unwrap().node_timeout, Duration::from_secs(3));
        assert_eq!(read("WEFT_PROCESS_MANAGER", "PMI2").unwrap().manager.protocol, Some(Protocol::Pmi2));
        assert_eq!(read("WEFT_LIBPMIX", "/a/b").unwrap().manager.libpmix, Some("/a/b".into()));
        let machine = |name, value| read(name, value).unwrap().machine;
        assert_eq!(machine("WEFT_MACHINE", "pu:2"), MachineFrom::Description("pu:2".to_owned()));
        assert_eq!(machine("HOME", "/a"), MachineFrom::Host { kept_in: Some("/a/.cache".into()) });
        assert_eq!(machine("HWLOC_SYNTHETIC", "pu:2"), MachineFrom::Host { kept_in: None });
        let file = SwitchesFrom::File { file: "a/b".into(), host: None };
        assert_eq!(read("WEFT_SWITCHES", "a/b").unwrap().switches, file);
        for (name, value) in [
            ("WEFT_FABRIC", "carrier-pigeon"),
            ("WEFT_FABRIC", "libfabric:"),
            ("WEFT_TCP_PORTS", "9-3"),
            ("WEFT_CONNECT_TIMEOUT", "-1"),
            ("WEFT_NODE_TIMEOUT", "2"),
            ("WEFT_UNEXPECTED_BYTES", "much"),
            ("WEFT_WAIT", "never"),
            ("WEFT_LIBFABRIC_RAILS", "0"),
            ("WEFT_LIBFABRIC_RAILS", "5"),
            ("WEFT_LIBFABRIC_RAILS", "many"),
            ("WEFT_CMA", "maybe"),
            ("WEFT_PROGRESS_THREAD", "yes"),
            ("WEFT_CPUS", "-1"),
            ("WEFT_CPUS", "inf"),
            ("WEFT_CHECK", "yes"),
            ("WEFT_COLLECTIVE", "ring"),
            ("WEFT_COLLECTIVE", "scan:ring"),
            ("WEFT_COLLECTIVE", "allreduce:rings"),
            ("WEFT_PROCESS_MANAGER", "pmi3"),
            ("WEFT_INITIAL_ERRHANDLER", "mpi_errors_ignore"),
            ("WEFT_FT_MODE", "heal"),
            ("WEFT_FT_MESSAGES", "keep"),
            ("WEFT_PSETS", "app://ocean"),
            ("WEFT_PSETS", "mpi://moon=1"),
            ("WEFT_PSETS", "a=0-3,2"),
            ("WEFT_PSETS", "a=3-1"),
            ("WEFT_PSETS", "a=0-4000000000"),
            ("WEFT_PSETS", "=1"),
        ] {
            let error = read(name, value).unwrap_err();
            assert!(error.what.contains(name) && error.what.contains(value), "{error}");
            assert!(error.remedy.is_some());
        }
    }

    #[test]
    fn process_sets_are_names_with_ranks() {
        let sets = read("WEFT_PSETS", "app://ocean=0-2,8;app://a=b=4;").unwrap().process_sets;
        let named = |name: &str, ranks: &[u32]| SetOfRanks { name: name.to_owned(), ranks: ranks.to_vec() };
        assert_eq!(sets, [named("app://ocean", &[0, 1, 2, 8]), named("app://a=b", &[4])]);
        assert!(read("WEFT_PSETS", "a=1;a=2").is_err(), "a name twice");
    }

    #[test]
    fn every_variable_that_is_read_is_listed() {
        let asked = std::cell::RefCell::new(Vec::new());
        let _ = Config::from_variables(&|name| {
            if name.starts_with("WEFT_") {
                asked.borrow_mut().push(name.to_owned());
            }
            None
        });
        let listed: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
        let by_library: Vec<&str> =
            listed.iter().copied().filter(|name| !READ_ELSEWHERE.contains(name)).collect();
        assert_eq!(*asked.borrow(), by_library);
        assert!(READ_ELSEWHERE.iter().all(|name| listed.contains(name)));
    }

    /// What weftrun reads, or the process manager's client before there is a configuration.
    const READ_ELSEWHERE: [&str; 3] = ["WEFT_APPNUM", "WEFT_HANG_NOTICE", "WEFT_BUSY"];
}
