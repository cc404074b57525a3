//! Jobs on several hosts: this launcher starts ranks on its own host only, and hands such a job to the
//! launcher that is there, the *engine*: Slurm's `srun` within an allocation, else PRRTE (`prterun`, or Open
//! MPI's `mpirun` 5) or Hydra.
//!
//! `place` decides where a job goes, `choose` which engine gets it, `translate.rs` what the engine is told:
//! all of them functions of what they are given. The engine runs as the one program of a job, so that time
//! limits, signals and the end of the launcher work as for ranks of our own.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::hosts::{self, Host};
use crate::options::Options;
use crate::options::foreign::HostsIn;

mod translate;

/// Where a job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LauncherPlace {
    /// To this host. The number is that of the ranks where the command line gives none.
    Here(Option<u32>),
    /// To an engine, for these hosts; for the hosts of the allocation where the list is empty.
    Elsewhere(Vec<Host>),
}

/// What the launcher's own environment tells of allocations and of an outer job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// How many nodes the Slurm allocation has, where there is one and this process is not a task of it.
    pub slurm_nodes: Option<u32>,
    /// The hosts of the job of PBS.
    pub pbs_hosts: Vec<Host>,
    /// Whether this process is a rank of a job.
    pub is_rank: bool,
    /// Whether a launcher of ours has handed this job on already.
    pub is_handed_on: bool,
}

/// A kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Slurm's `srun`, which speaks this protocol with ranks.
    Srun(&'static str),
    /// PRRTE's `prterun`.
    Prterun,
    /// Open MPI's `mpirun`, from its version 5 on a face of PRRTE.
    OpenMpi,
    /// MPICH's `mpiexec`.
    Hydra,
}

/// An engine that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Which kind.
    pub kind: Kind,
    /// Its program.
    pub program: PathBuf,
}

/// A job as its engine is to start it.
#[derive(Debug)]
pub struct Handed {
    /// The engine's program.
    pub program: PathBuf,
    /// Its words, the first of which is its name.
    pub command: Vec<OsString>,
    /// Variables to set for it.
    pub environment: Vec<(OsString, OsString)>,
    /// A file of which its words tell the name: it is there as long as this is held.
    _file: Option<OwnedFd>,
}

impl Surroundings {
    /// The surroundings of this process, from its environment variables.
    ///
    /// # Errors
    /// A file of hosts that cannot be read.
    pub fn here() -> Result<Surroundings, String> {
        let variable = |name: &str| std::env::var(name).ok();
        let file = variable("PBS_NODEFILE").filter(|file| !file.is_empty());
        let pbs_hosts =
            file.map(|file| hosts::named(&[(HostsIn::File, file)])).transpose()?.unwrap_or_default();
        Ok(Surroundings { pbs_hosts, ..Surroundings::by(&variable) })
    }

    fn by(variable: &dyn Fn(&str) -> Option<String>) -> Surroundings {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        // A script of sbatch and a shell of salloc are steps with numbers of their own, at the very end.
        let is_task = number("SLURM_STEP_ID").is_some_and(|step| step < SLURM_OWN_STEPS);
        let nodes = || number("SLURM_JOB_NUM_NODES").or_else(|| number("SLURM_NNODES")).unwrap_or(1);
        Surroundings {
            slurm_nodes: variable("SLURM_JOB_ID").filter(|_| !is_task).map(|_| nodes()),
            pbs_hosts: Vec::new(),
            is_rank: OF_RANKS.iter().any(|name| variable(name).is_some()),
            is_handed_on: variable(HANDED_ON).is_some(),
        }
    }
}

/// Decides where a job goes; `is_here` tells whether a host is this one.
pub fn place(named: Vec<Host>, around: &Surroundings, is_here: &dyn Fn(&str) -> bool) -> LauncherPlace {
    let are_here = |hosts: &[Host]| hosts.iter().all(|host| is_here(&host.name));
    match () {
        () if !named.is_empty() && are_here(&named) => LauncherPlace::Here(hosts::slots(&named)),
        () if !named.is_empty() => LauncherPlace::Elsewhere(named),
        // A rank, or a task of Slurm, that starts a job of its own has this host for it.
        () if around.is_rank => LauncherPlace::Here(None),
        () if around.slurm_nodes.is_some_and(|nodes| nodes > 1) => LauncherPlace::Elsewhere(Vec::new()),
        () if !are_here(&around.pbs_hosts) => LauncherPlace::Elsewhere(around.pbs_hosts.clone()),
        () => LauncherPlace::Here(None),
    }
}

/// Chooses among the engines that are there.
fn choose(options: &Options, in_slurm: bool, found: &[Engine]) -> Option<Engine> {
    let order = |kind: Kind| match kind {
        Kind::Srun(_) => 0,
        // Whoever has options of one for us means that one.
        Kind::Hydra if !options.for_hydra.is_empty() && options.for_prrte.is_empty() => 1,
        Kind::Prterun => 2,
        Kind::OpenMpi => 3,
        Kind::Hydra => 4,
    };
    let fits = |engine: &&Engine| in_slurm || !matches!(engine.kind, Kind::Srun(_));
    found.iter().filter(fits).min_by_key(|engine| order(engine.kind)).cloned()
}

/// Hands a job to an engine.
///
/// # Errors
/// That there is none, or that it cannot do what is asked for, with a remedy.
pub fn hand_on(options: &Options, hosts: &[Host], around: &Surroundings) -> Result<Handed, String> {
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let what = match &names[..] {
        [] => "the nodes of this allocation".to_owned(),
        names => format!("the hosts {}", names.join(", ")),
    };
    if around.is_handed_on {
        return Err(format!(
            "{what}: a launcher of weft has handed this job on already, and was started by it again\n  \
             start it with -hosts localhost, or unset {HANDED_ON}"
        ));
    }
    let in_slurm = around.slurm_nodes.is_some();
    let engine = choose(options, in_slurm, &engines(in_slurm)).ok_or_else(|| {
        format!(
            "{what}: this launcher starts ranks on its own host, and hands jobs on several hosts to a launcher that is not found \
             here\n  install PRRTE or Open MPI 5 (prterun, mpirun) or MPICH (mpiexec.hydra) and put it into PATH, or ask Slurm \
             for nodes and start the job there"
        )
    })?;
    let translated = translate::translate(engine.kind, options, hosts, rustix::process::geteuid().is_root())?;
    let mut command = vec![engine.program.clone().into_os_string()];
    command.extend(translated.words);
    let file =
        translated.file.map(|(at, text)| file_of(&text).map(|(file, name)| (at, file, name))).transpose()?;
    let file = file.map(|(at, file, name)| {
        command[1 + at] = name;
        file
    });
    let mut environment = translated.environment;
    environment.push((HANDED_ON.into(), "1".into()));
    Ok(Handed { program: engine.program, command, environment, _file: file })
}

/// A file that only has a name as long as this process holds it.
fn file_of(text: &[u8]) -> Result<(OwnedFd, OsString), String> {
    let failed = |error: std::io::Error| format!("cannot write the list of programs for Slurm: {error}");
    let file = memfd_create("weft-programs", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut file = std::fs::File::from(file);
    file.write_all(text).map_err(failed)?;
    let name = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file.into(), name.into()))
}

/// The engines in PATH, in its order.
fn engines(in_slurm: bool) -> Vec<Engine> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = Vec::new();
    for folder in std::env::split_paths(&path) {
        for name in ["srun", "prterun", "mpiexec.hydra", "mpiexec", "mpirun"] {
            let program = folder.join(name);
            if rustix::fs::access(&program, rustix::fs::Access::EXEC_OK).is_ok() && program.is_file() {
                let kind = kind_of(name, &program, in_slurm);
                found.extend(kind.map(|kind| Engine { kind, program }));
            }
        }
    }
    found
}

/// What that program is. One that could be several things, ourselves among them, is asked.
fn kind_of(name: &str, program: &Path, in_slurm: bool) -> Option<Kind> {
    match name {
        "srun" => srun_protocol(&answer(program, "--mpi=list").filter(|_| in_slurm)?).map(Kind::Srun),
        "prterun" => Some(Kind::Prterun),
        "mpiexec.hydra" => Some(Kind::Hydra),
        _ if is_ours(program) => None,
        _ => kind_by_version(&answer(program, "--version")?),
    }
}

fn is_ours(program: &Path) -> bool {
    let own = std::env::current_exe().and_then(|own| own.canonicalize());
    own.is_ok_and(|own| program.canonicalize().is_ok_and(|program| program == own))
}

/// By what it says of itself; another installation of ours says our name, and is none.
fn kind_by_version(said: &str) -> Option<Kind> {
    let open_mpi =
        said.find("(Open MPI) ").and_then(|at| said[at..].split([' ', '.']).nth(2)?.parse::<u32>().ok());
    match open_mpi {
        _ if said.contains("HYDRA") => Some(Kind::Hydra),
        Some(5..) => Some(Kind::OpenMpi),
        _ => None,
    }
}

/// The protocol that srun and our ranks both speak.
fn srun_protocol(listed: &str) -> Option<&'static str> {
    let has = |protocol: &str| listed.split_whitespace().any(|word| word.trim_end_matches(',') == protocol);
    ["pmi2", "pmix"].into_iter().find(|protocol| has(protocol))
}

/// What a program says when it is started with one option.
fn answer(program: &Path, option: &str) -> Option<String> {
    let output = Command::new(program).arg(option).stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A command as one would type it.
pub fn shown(command: &[OsString]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@%^".contains(byte);
    let word = |word: &OsString| match word.as_bytes() {
        bytes if !bytes.is_empty() && bytes.iter().all(is_plain) => word.to_string_lossy().into_owned(),
        _ => format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Set for an engine and for all below it.
const HANDED_ON: &str = "WEFT_HANDED_ON";
/// Any of these is set for a rank.
const OF_RANKS: [&str; 3] = ["PMI_RANK", "PMIX_RANK", "WEFT_LAUNCHER"];
/// From here on steps of Slurm are no tasks: scripts and shells.
const SLURM_OWN_STEPS: u32 = 0xffff_fff0;

#[cfg(test)]
#[path = "engine/engine_tests.rs"]
mod tests;
