//! What the command line comes to on this node: the program found, the cpus shared out, the variables
//! settled.

mod binding;
mod variables;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, getpid};
use rustix::thread::CpuSet;
use weft::CpuTime;

use self::binding::{Places, ranks_by_default, threads};
pub use self::variables::environment;
use self::variables::{PARTS, ToldToRanks, names_shm};
use crate::claims::Claims;
use crate::cores;
use crate::engine::Handed;
use crate::files::Files;
use crate::hosts;
use crate::options::environment::Environment;
use crate::options::{Input, Options, Part, RANKS_MAX, Universe};
use crate::policy::Misfit;
use crate::program::{self, NoProgram};
use crate::vacant::Unbound;

/// Everything that is settled before the first rank is started.
#[derive(Debug)]
pub struct Plan {
    /// The name the launcher was called by; its messages begin with it.
    pub name: String,
    /// The process that the user knows as the launcher.
    pub launcher: Pid,
    /// This node.
    pub host: String,
    /// The programs of the job: the first ranks run the first program, the next ranks the next one.
    pub programs: Vec<Program>,
    /// How many ranks.
    pub ranks: u32,
    /// How many of them are on what they take for a node: all, unless they are dealt out to several parts of
    /// this one.
    pub ranks_per_node: u32,
    /// The value of the attribute MPI_UNIVERSE_SIZE, if it is set.
    pub universe: Option<u32>,
    /// Variables to set for all ranks beyond the launcher's own.
    pub environment: Vec<(OsString, OsString)>,
    /// The cpus of each rank, where ranks are bound.
    pub binding: Option<Vec<CpuSet>>,
    /// Why ranks are not bound, where the user has not asked for that.
    pub unbound: Option<Unbound>,
    /// The cpus that no other job of this host is to bind its ranks to, for as long as this value is there.
    pub claims: Claims,
    /// The words for the cpus that each rank is bound to, where the user may have to be told.
    pub places: Option<Vec<String>>,
    /// Whether to tell at each start what the rank is bound to.
    pub reports_bindings: bool,
    /// How much of the cpus the ranks may use together, as far as others leave them, where the system tells.
    /// Found out once, for all of them.
    pub cpus: Option<CpuTime>,
    /// Whether the ranks may talk through shared memory.
    pub shares_memory: bool,
    /// Whether surviving ranks go on when a rank fails.
    pub survives: bool,
    /// How often ranks may be started again.
    pub restarts: u32,
    /// Whether lines of output get labels.
    pub label: bool,
    /// The files that ranks write to.
    pub files: Files,
    /// The ranks that read the launcher's standard input.
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
            Places::find(options, threads.unwrap_or(1), minds_others)?;
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

    /// The plan for the launcher of several hosts, as the only rank of a job. It starts as it is, bound to
    /// nothing.
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

    /// The program and the cpus of each rank, in a line for each.
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

    /// The value of the variable `name` at the program's ranks, where `common` are the variables that are set
    /// for all ranks of the job.
    pub fn variable(&self, common: &[(OsString, OsString)], name: &str) -> Option<OsString> {
        last(common, name).or_else(|| self.environment.value(name, std::env::var_os(name)))
    }
}

/// Who reads the launcher's standard input. All ranks can read a file, each from its beginning, and nothing
/// else.
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

const FABRIC: &str = "WEFT_FABRIC";
const TIMEOUT: &str = "MPIEXEC_TIMEOUT";
const BUSY: &str = "WEFT_BUSY";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_of_a_variable_counts() {
        let pairs = [("A", "1"), ("B", "2"), ("A", "3")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(last(&pairs, "A"), Some("3".into()));
        assert_eq!(last(&pairs, "C"), None);
    }
}
