//! What this process knows of its machine: the tree of its host, where it sits on it, and the switches above.
//!
//! Asking hwloc takes some milliseconds, so its answer is kept in a small file, like the constants of the
//! cost model:
//! ```text
//! weft kept 1
//! host node7                whose it is: all of these must be those of the reader
//! kernel 6.18.1
//! weft 0.1.0
//! boot 7f9c…                as the kernel names the time since it was started
//! online 0-127              the cpus that are switched on
//! weft machine 1            from here on the tree, as `topology::Machine` writes it
//! …
//! end                       whatever ends otherwise was not written to its end
//! ```
//! Nothing here ends a job: who knows nothing of the machine maps by nodes only, and is told why.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use topology::{CpuSet, Level, Machine, Seat, SwitchPath, Switches};

use crate::cache_directory;
use crate::config::Config;
use crate::constants::Owner;
use crate::tell::tell;

/// Where the machine tree comes from, as the environment says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MachineFrom {
    /// hwloc, whose answer is kept in this folder.
    Host {
        /// The folder for caches, if there is one to use.
        kept_in: Option<PathBuf>,
    },
    /// A description of the machine that all hosts are to be taken for.
    Description(String),
}

/// Where the switches come from, as the environment says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SwitchesFrom {
    /// A file.
    File {
        /// Its name.
        file: PathBuf,
        /// What the process manager calls this host, if not as the host does itself.
        host: Option<String>,
    },
    /// What Slurm says of this host.
    Slurm {
        /// `SLURM_TOPOLOGY_ADDR`.
        address: String,
        /// `SLURM_TOPOLOGY_ADDR_PATTERN`.
        pattern: String,
    },
    /// Nobody tells.
    Nothing,
}

/// The tree of this host, and how it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownMachine {
    /// The tree; none where nodes are all that is known.
    pub tree: Option<Machine>,
    /// How the tree was found.
    pub origin: Origin,
    /// What went wrong, in a line, and what to do about it, in another.
    pub trouble: Option<Trouble>,
}

/// How a tree was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// hwloc was asked.
    Hwloc {
        /// How long that took.
        took: Duration,
        /// Where its answer is kept now.
        kept: Option<PathBuf>,
    },
    /// hwloc was asked by an earlier job.
    Kept(PathBuf),
    /// Somebody has described it.
    Description(String),
}

/// What went wrong, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// What happened.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n  {}", self.what, self.remedy)
    }
}

impl MachineFrom {
    /// The tree of this host: what is kept of it if that is good, else what hwloc says, which is kept then.
    #[must_use]
    pub fn find(&self) -> KnownMachine {
        match self {
            MachineFrom::Description(text) => described(text),
            MachineFrom::Host { kept_in: None } => ask(None),
            MachineFrom::Host { kept_in: Some(folder) } => {
                let (path, state) = (path_in(folder), State::here());
                match read(&path, &state) {
                    Some(tree) => {
                        KnownMachine { tree: Some(tree), origin: Origin::Kept(path), trouble: None }
                    }
                    None => ask(Some((path, state))),
                }
            }
        }
    }

    /// Asks for the machine tree without a look at what is kept, which is written anew.
    #[must_use]
    pub fn renew(&self) -> KnownMachine {
        match self {
            MachineFrom::Host { kept_in: Some(folder) } => ask(Some((path_in(folder), State::here()))),
            MachineFrom::Host { kept_in: None } | MachineFrom::Description(_) => self.find(),
        }
    }

    /// Where the tree of this host is kept, once it is known.
    #[must_use]
    pub fn kept_at(&self) -> Option<PathBuf> {
        match self {
            MachineFrom::Host { kept_in } => kept_in.as_deref().map(path_in),
            MachineFrom::Description(_) => None,
        }
    }
}

impl KnownMachine {
    /// Where a process sits: one that may run on these cpus, or, on a machine that somebody has described,
    /// the one of that number on its node, since the cpus of this host mean nothing there.
    ///
    /// # Errors
    /// When the tree contradicts where the process is bound.
    pub fn seat(&self, cpus: &CpuSet, process: u32) -> Result<Seat, Trouble> {
        let Some(tree) = &self.tree else { return Ok(Seat::UNKNOWN) };
        if matches!(self.origin, Origin::Description(_)) {
            return Ok(tree.seat_in_turn(process));
        }
        if cpus.is_empty() {
            // It could not be told where the process may run.
            return Ok(Seat::UNKNOWN);
        }
        tree.seat(cpus).map_err(|error| Trouble {
            what: format!("the machine tree of this host contradicts the job: {error}"),
            remedy: "weft topo reads it anew".to_owned(),
        })
    }
}

impl SwitchesFrom {
    /// The switches above this host; none where nobody tells.
    ///
    /// # Errors
    /// What is wrong with what somebody tells.
    pub fn find(&self) -> Result<Option<SwitchPath>, Trouble> {
        let trouble = |what: String, remedy: &str| Trouble { what, remedy: remedy.to_owned() };
        match self {
            SwitchesFrom::Nothing => Ok(None),
            SwitchesFrom::Slurm { address, pattern } => Ok(SwitchPath::of_slurm(address, pattern)),
            SwitchesFrom::File { file, host } => {
                let refused = |why: String| trouble(format!("WEFT_SWITCHES: {why}"), SWITCHES_REMEDY);
                let text = cache_directory::read(file, SWITCHES_BYTES_MAX).map_err(refused)?;
                let text =
                    text.ok_or_else(|| refused(format!("{}: there is no such file", file.display())))?;
                let switches = Switches::parse(&text)
                    .map_err(|error| refused(format!("{}: {error}", file.display())))?;
                let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
                let host = host.clone().unwrap_or_else(own);
                let path = switches.of(&host).cloned();
                path.map(Some).ok_or_else(|| refused(format!("{}: it does not name {host}", file.display())))
            }
        }
    }
}

/// What a process knows of the machine around it, and asks for when that is needed first.
pub struct Surroundings {
    machine: MachineFrom,
    switches: SwitchesFrom,
    explains: bool,
    known: OnceLock<KnownMachine>,
}

impl Surroundings {
    /// What the configuration says of the machine; nothing is asked yet.
    #[must_use]
    pub fn of(config: &Config) -> Surroundings {
        let (machine, switches) = (config.machine.clone(), config.switches.clone());
        Surroundings { machine, switches, explains: config.explain, known: OnceLock::new() }
    }

    /// Whether people are told what the mapping of grids gains.
    #[must_use]
    pub fn explains(&self) -> bool {
        self.explains
    }

    /// Where processes of this node sit: each by its number on the node and the cpus that it may run on.
    /// Where that cannot be told people are told why, and nodes are all that is known.
    #[must_use]
    pub fn seats(&self, processes: &[(u32, CpuSet)]) -> Vec<Seat> {
        if let [_] = processes {
            // Whatever the machine, one process is all that each of its parts has.
            return vec![Level::ALL.into_iter().fold(Seat::UNKNOWN, |seat, level| seat.with(level, 0))];
        }
        let known = self.known.get_or_init(|| {
            let known = self.machine.find();
            if let Some(trouble) = &known.trouble {
                nodes_only(trouble);
            }
            known
        });
        let seats: Result<Vec<Seat>, Trouble> =
            processes.iter().map(|(number, cpus)| known.seat(cpus, *number)).collect();
        seats.unwrap_or_else(|trouble| {
            nodes_only(&trouble);
            vec![Seat::UNKNOWN; processes.len()]
        })
    }

    /// The switches above this node. Where they cannot be found people are told why, and there are none.
    #[must_use]
    pub fn switches(&self) -> Option<SwitchPath> {
        self.switches.find().unwrap_or_else(|trouble| {
            tell(format_args!("weft: ranks are mapped without regard to switches: {trouble}"));
            None
        })
    }
}

impl Default for Surroundings {
    fn default() -> Surroundings {
        Surroundings::of(&Config::default())
    }
}

fn nodes_only(trouble: &Trouble) {
    tell(format_args!("weft: ranks are mapped by nodes only: {trouble}"));
}

fn described(text: &str) -> KnownMachine {
    let origin = Origin::Description(text.to_owned());
    match Machine::described(text) {
        Ok(tree) => KnownMachine { tree: Some(tree), origin, trouble: None },
        Err(error) => {
            let trouble =
                Trouble { what: format!("WEFT_MACHINE: {error}"), remedy: error.remedy().to_owned() };
            KnownMachine { tree: None, origin, trouble: Some(trouble) }
        }
    }
}

/// Asks hwloc, and keeps its answer.
fn ask(keep: Option<(PathBuf, State)>) -> KnownMachine {
    let start = Instant::now();
    let answer = Machine::of_this_host();
    let took = start.elapsed();
    match answer {
        Ok(tree) => {
            // Where it cannot be kept the next job asks again.
            let write = |(path, state): (PathBuf, State)| {
                cache_directory::write(&path, &state.encode(&tree)).is_ok().then_some(path)
            };
            let origin = Origin::Hwloc { took, kept: keep.and_then(write) };
            KnownMachine { tree: Some(tree), origin, trouble: None }
        }
        Err(error) => {
            let trouble = Trouble { what: error.to_string(), remedy: error.remedy().to_owned() };
            KnownMachine { tree: None, origin: Origin::Hwloc { took, kept: None }, trouble: Some(trouble) }
        }
    }
}

/// What a kept tree is true of.
#[derive(Clone, PartialEq, Eq, Debug)]
struct State {
    owner: Owner,
    boot: String,
    online: String,
}

impl State {
    fn here() -> State {
        let line = |path: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().next().unwrap_or_default().trim().to_owned()
        };
        State { owner: Owner::here(), boot: fabric::host::boot().unwrap_or_default(), online: line(ONLINE) }
    }

    fn head(&self) -> String {
        let Owner { host, kernel, weft } = &self.owner;
        let (boot, online) = (&self.boot, &self.online);
        format!("{MAGIC}\nhost {host}\nkernel {kernel}\nweft {weft}\nboot {boot}\nonline {online}\n")
    }

    /// What is kept of a tree of which all this is true.
    fn encode(&self, tree: &Machine) -> String {
        format!("{}{}{END}", self.head(), tree.encode())
    }
}

/// What is kept, if it is of this host as it is now; what is of no use is written anew without a word.
fn read(path: &Path, state: &State) -> Option<Machine> {
    let text = cache_directory::read(path, FILE_BYTES_MAX).ok().flatten()?;
    let tree = Machine::decode(text.strip_prefix(&state.head())?.strip_suffix(END)?).ok()?;
    // In a container this process may see other cpus than the one that wrote it.
    let allowed = topology::cpus_allowed().ok()?;
    allowed.is_subset(tree.cpus()).then_some(tree)
}

fn path_in(folder: &Path) -> PathBuf {
    let Owner { host, kernel, weft } = Owner::here();
    folder.join("weft").join(format!("machine-{host}-{kernel}-{weft}"))
}

const MAGIC: &str = "weft kept 1";
const END: &str = "end\n";
const ONLINE: &str = "/sys/devices/system/cpu/online";
const FILE_BYTES_MAX: u64 = 16 << 20;
const SWITCHES_BYTES_MAX: u64 = 16 << 20;
const SWITCHES_REMEDY: &str = "write lines such as `node[1-16] core/left`, or as in Slurm's topology.conf";

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Level;

    fn tree() -> Machine {
        Machine::from_synthetic("pack:2 core:2048 pu:1").unwrap()
    }

    #[test]
    fn what_is_kept_is_read_as_long_as_it_is_true() {
        let folder = tempfile::tempdir().unwrap();
        let from = MachineFrom::Host { kept_in: Some(folder.path().to_owned()) };
        let (path, state) = (from.kept_at().unwrap(), State::here());
        assert_eq!(read(&path, &state), None);
        cache_directory::write(&path, &state.encode(&tree())).unwrap();
        let found = from.find();
        assert_eq!((found.tree, found.origin), (Some(tree()), Origin::Kept(path.clone())));
        assert_eq!(found.trouble, None);
        let other = |change: &dyn Fn(&mut State)| {
            let mut other = state.clone();
            change(&mut other);
            read(&path, &other)
        };
        assert_eq!(other(&|state| state.boot = "another".to_owned()), None, "the host was started again");
        assert_eq!(other(&|state| state.online = "0-99".to_owned()), None, "a cpu was switched off");
        assert_eq!(other(&|state| state.owner.host = "node8".to_owned()), None);
        assert_eq!(other(&|state| state.owner.weft = "0.0.9".to_owned()), None);
        let cut = state.encode(&tree()).replace("PU 4095 - 4095\nend\n", "");
        for damaged in [String::new(), "x".repeat(9999), state.head(), format!("{}end\n", state.head()), cut]
        {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path, &state), None);
        }
        // A tree without a cpu that this process may use is none of this host.
        let far = Machine::decode("weft machine 1\nPU 9999 - 9999\n").unwrap();
        cache_directory::write(&path, &state.encode(&far)).unwrap();
        assert_eq!(read(&path, &state), None);
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn on_a_described_machine_processes_take_cpus_in_turn() {
        let known = MachineFrom::Description("pack:2 core:2 pu:1".to_owned()).find();
        let cpus = CpuSet::from_iter([0]);
        let package = |process| known.seat(&cpus, process).unwrap().part(Level::Package);
        assert_eq!([0, 1, 2, 3, 4].map(package), [Some(0), Some(0), Some(1), Some(1), Some(0)]);
        assert_eq!(known.origin, Origin::Description("pack:2 core:2 pu:1".to_owned()));
    }

    #[test]
    fn a_wrong_description_leaves_nodes_only_and_says_so() {
        let known = MachineFrom::Description("tower:2".to_owned()).find();
        assert_eq!(known.seat(&CpuSet::from_iter([0]), 0), Ok(Seat::UNKNOWN));
        let trouble = known.trouble.unwrap().to_string();
        assert!(trouble.contains("WEFT_MACHINE: \"tower:2\"") && trouble.contains("lstopo"), "{trouble}");
    }

    #[test]
    fn a_tree_without_the_cpus_of_a_process_contradicts_the_job() {
        let origin = Origin::Kept("/a".into());
        let known = KnownMachine { tree: Some(tree()), origin, trouble: None };
        let trouble = known.seat(&CpuSet::from_iter([4096]), 0).unwrap_err().to_string();
        assert!(trouble.contains("contradicts the job") && trouble.contains("4096"), "{trouble}");
    }

    #[test]
    fn switches_come_from_a_file_or_from_slurm() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("switches");
        let from = |host: &str| SwitchesFrom::File { file: file.clone(), host: Some(host.to_owned()) };
        let why = |host| from(host).find().unwrap_err().to_string();
        assert!(why("node1").contains("no such file"));
        std::fs::write(&file, "node[1-4] core/left\n").unwrap();
        assert_eq!(from("node3").find().unwrap().unwrap().as_str(), "core/left");
        assert!(why("node5").contains("does not name node5"));
        std::fs::write(&file, "node[1-4]\n").unwrap();
        assert!(why("node3").contains("line 1"));
        let slurm =
            SwitchesFrom::Slurm { address: "a.b.n".to_owned(), pattern: "switch.switch.node".to_owned() };
        assert_eq!(slurm.find().unwrap().unwrap().as_str(), "a/b");
        assert_eq!(SwitchesFrom::Nothing.find(), Ok(None));
    }
}
