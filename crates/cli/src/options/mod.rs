//! The command line of the launcher.
//!
//! People come with habits from other launchers. `words.rs` takes their words apart: several programs between
//! colons, long options after a single dash, and options of others, of which `foreign.rs` is the table. What
//! is left are options of ours, which clap reads by the definition below. `values.rs` reads their values.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser};
use topology::CpuSet;

use crate::files::Files;
use crate::policy::{self, BindTo, MapBy, Policy, RankBy, Unit};

use environment::{Environment, Rule};
use foreign::HostsIn;
use words::{Own, PartWords, Words};

pub mod environment;
pub mod foreign;
mod lines;
mod values;
mod words;

pub use values::{Input, Universe};

/// Starts the ranks of an MPI job on this node; on several, hands the job to the launcher that is there.
///
/// All ranks end when one of them fails, and nothing is left behind however the launcher ends. The exit
/// status is that of the first rank that failed, or 128 and the signal's number.
#[derive(Debug, Parser)]
#[command(name = "weftrun", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub struct Options {
    #[command(flatten)]
    first: PartOptions,

    /// Use only these ways between ranks: a comma list of shm, tcp, libfabric, libfabric:PROVIDER
    #[arg(long, value_name = "LIST", value_parser = values::fabrics)]
    pub fabric: Option<String>,

    /// Put the rank before each line of output
    #[arg(short, long)]
    pub label: bool,

    /// What each rank is bound to: hwthread, core, l2cache, l3cache, numa, socket, user:LISTS or none
    /// [default: cores, when they can be shared out evenly among two or more ranks]
    #[arg(long, value_name = "UNIT[:overload-allowed]", value_parser = policy::bind_to)]
    pub bind_to: Option<BindTo>,

    /// Deal the ranks out to such parts of the node in turn, or N to each with ppr:N:UNIT; PE=N gives each
    /// rank N cores
    #[arg(long, value_name = "UNIT[:PE=N]", value_parser = policy::map_by)]
    pub map_by: Option<MapBy>,

    /// Whether neighbouring ranks are on the same part (slot, fill) or on different ones (span)
    #[arg(long, value_name = "ORDER", value_parser = policy::rank_by)]
    pub rank_by: Option<RankBy>,

    /// Use only these cpus, such as 0-3,8
    #[arg(long, value_name = "CPUS", value_parser = policy::cpu_set)]
    pub cpu_set: Option<CpuSet>,

    /// Give each rank so many cores
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub cores_per_rank: Option<u32>,

    /// Put so many ranks on each socket
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub per_socket: Option<u32>,

    /// Put so many ranks on each node
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub ppn: Option<u32>,

    /// Tell what each rank is bound to
    #[arg(long)]
    pub report_bindings: bool,

    /// Tell before the start where each rank goes
    #[arg(long)]
    pub display_map: bool,

    /// What errors do before the program sets an error handler: mpi_errors_are_fatal (the default),
    /// mpi_errors_abort or mpi_errors_return
    #[arg(long, value_name = "HANDLER", value_parser = values::error_handler)]
    pub initial_errhandler: Option<String>,

    /// Go on when a rank fails, as far as the program lets it: errors of MPI tell the others. MODE is what
    /// happens to communicators that have lost a member when the program has them recover: none, abort,
    /// blank, shrink, or rebuild, which starts ranks again
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "none",
        value_parser = values::failure_mode
    )]
    pub ft: Option<String>,

    /// With --ft: what becomes of messages when a communicator recovers: reset (the default: none that was
    /// sent before is received after) or cont (what goes between two who live goes on)
    #[arg(long, value_name = "MODE", value_parser = values::message_mode)]
    pub ft_msg: Option<String>,

    /// Deal the ranks out to so many parts of which each is as a node to them: they share memory within a
    /// part only. To try on one node what a program does on several
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub nodes: u32,

    /// With --ft=rebuild: how often ranks are started again, all together [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=RESTARTS_MAX))]
    pub max_restarts: Option<u32>,

    /// With --ft=rebuild: what happens instead where ranks cannot be started again: blank (the default) or
    /// abort
    #[arg(long, value_name = "MODE", value_parser = values::rebuild_fallback)]
    pub rebuild_fallback: Option<String>,

    /// What Open MPI calls --ft: ulfm is --ft, other modes are as there, `no` is as if nothing was said
    #[arg(long, value_name = "MODE", value_parser = values::failure_mode_elsewhere)]
    with_ft: Option<String>,

    /// What MPICH calls --ft
    #[arg(long)]
    disable_auto_cleanup: bool,

    /// Name a process set for sessions: ranks such as 0-3,8. May be given several times
    #[arg(long, value_name = "NAME=RANKS", value_parser = values::process_set)]
    pub pset: Vec<String>,

    /// What MPI_UNIVERSE_SIZE says: a number, SYSTEM (the cores of this node) or INFINITE (nothing)
    #[arg(long, value_name = "N", value_parser = values::universe)]
    pub usize: Option<Universe>,

    /// Which rank reads the launcher's standard input: its number, all or none [default: 0]
    #[arg(long, value_name = "RANK", value_parser = values::input)]
    pub stdin: Option<Input>,

    /// Write the output of each rank to a file: %r is its rank, %h the host
    #[arg(long, value_name = "PATTERN")]
    pub outfile_pattern: Option<String>,

    /// Write the errors of each rank to a file
    #[arg(long, value_name = "PATTERN")]
    pub errfile_pattern: Option<String>,

    /// Write output and errors of each rank to DIR/1/rank.R/stdout and stderr, too; with :nocopy there alone
    #[arg(long, value_name = "DIR[:nocopy]", conflicts_with_all = ["outfile_pattern", "errfile_pattern"])]
    pub output_filename: Option<String>,

    /// End the job after this time, with status 124
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    pub timeout: Option<Duration>,

    /// Tell where each rank is started
    #[arg(short, long)]
    pub verbose: bool,

    /// Leave out what is only for information
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// The program of every rank, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,

    /// The parts of the job, at least one.
    #[arg(skip)]
    pub parts: Vec<Part>,

    /// Where hosts are named.
    #[arg(skip)]
    pub hosts: Vec<(HostsIn, String)>,

    /// How many ranks the hosts are to have together, where that is said.
    #[arg(skip)]
    pub slots: Option<u32>,

    /// Options for Hydra.
    #[arg(skip)]
    pub for_hydra: Vec<Vec<OsString>>,

    /// Options for PRRTE.
    #[arg(skip)]
    pub for_prrte: Vec<Vec<OsString>>,

    /// Options of others that mean nothing here.
    #[arg(skip)]
    pub ignored: Vec<String>,
}

/// Options of one part of a job.
#[derive(Debug, clap::Args)]
struct PartOptions {
    /// How many ranks [default: one for each core this process may use; one, where there are several
    /// programs]
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = values::ranks)]
    ranks: Option<u32>,

    /// Start the ranks in this folder
    #[arg(long, value_name = "DIR")]
    wdir: Option<OsString>,

    /// Look for the program in these folders before those of PATH
    #[arg(long, value_name = "DIRS")]
    path: Option<OsString>,
}

/// The options of a part behind the first.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct PartLine {
    #[command(flatten)]
    options: PartOptions,
}

/// A part of a job: a program, and how to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// How many ranks, where it is said.
    pub ranks: Option<u32>,
    /// The folder to start in, where it is said.
    pub folder: Option<OsString>,
    /// The folders in which the program is looked for before those of PATH.
    pub search_path: Option<OsString>,
    /// The variables of its ranks.
    pub environment: Environment,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

impl Options {
    /// Reads the command line of this process. Prints help or an error and ends the process where that is
    /// due.
    pub fn from_arguments() -> Options {
        Options::read(std::env::args_os().collect()).unwrap_or_else(|error| error.exit())
    }

    /// Whether surviving ranks go on when a rank fails.
    pub fn survives(&self) -> bool {
        self.failure_mode().is_some() || self.disable_auto_cleanup
    }

    /// The name of the mode in which communicators recover from a failed member, if the command line names
    /// one.
    pub fn failure_mode(&self) -> Option<&str> {
        self.ft.as_deref().or(self.with_ft.as_deref().filter(|mode| *mode != values::NO_FAILURES))
    }

    /// How often ranks may be started again.
    pub fn restarts(&self) -> u32 {
        let rebuilds = self.failure_mode() == Some(weft::FtMode::Rebuild.name());
        let survives = self.survives();
        self.max_restarts.filter(|_| survives).unwrap_or(if rebuilds { RESTARTS } else { 0 })
    }

    /// The files that ranks write to.
    pub fn files(&self) -> Files {
        let in_folder = |name: &str| {
            let folder = self.output_filename.as_deref()?;
            let folder = folder.strip_suffix(":nocopy").unwrap_or(folder);
            Some(format!("{}/1/rank.%r/{name}", folder.replace('%', "%%")))
        };
        let output = self.outfile_pattern.clone().or_else(|| in_folder("stdout"));
        let errors = self.errfile_pattern.clone().or_else(|| in_folder("stderr"));
        let copies = self.output_filename.as_deref().is_some_and(|folder| !folder.ends_with(":nocopy"));
        Files { patterns: [output, errors], copies }
    }

    /// How ranks are placed and bound, as far as the command line says.
    pub fn policy(&self) -> Policy {
        let per_socket = self.per_socket.map(|each| MapBy { each: Some(each), ..MapBy::of(Unit::Socket) });
        Policy {
            bind_to: self.bind_to.clone(),
            map_by: self.map_by.clone().or(per_socket),
            rank_by: self.rank_by,
            cpus: self.cpu_set.clone(),
            cores_per_rank: self.cores_per_rank.map(|cores| cores as usize),
        }
    }

    /// Options of others that mean nothing where this launcher starts the ranks.
    pub fn ignored_here(&self) -> Vec<String> {
        let of_engines = self.for_hydra.iter().chain(&self.for_prrte);
        let of_engines = of_engines.map(|words| words.join(OsStr::new(" ")).to_string_lossy().into_owned());
        self.ignored.iter().cloned().chain(of_engines).collect()
    }

    /// Reads the words of a command line, the first of which is the launcher's name.
    pub fn read(arguments: Vec<OsString>) -> Result<Options, clap::Error> {
        let name = invoked_name(arguments.first());
        let mut command = Options::command().bin_name(&name);
        command.build();
        let ours = |name: &str| own(&command, name);
        let words = words::split(arguments.into_iter().skip(1).collect(), &ours);
        let words = words.map_err(|message| usage(&mut command, message))?;
        let matches = command.clone().try_get_matches_from(first_line(name, &words))?;
        let mut options = Options::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        let first = std::mem::take(&mut options.command);
        let Words { parts, rules, hosts, for_hydra, for_prrte, ignored, .. } = words;
        options.parts = read_parts(&rules, parts)?;
        options.parts[0].command = first;
        (options.hosts, options.ignored) = (hosts, ignored);
        (options.for_hydra, options.for_prrte) = (for_hydra, for_prrte);
        Ok(options)
    }
}

/// The options for the job and the first part, as clap reads them.
fn first_line(name: String, words: &Words) -> Vec<OsString> {
    let first = &words.parts[0];
    let mut line = vec![OsString::from(name)];
    line.extend(words.job.iter().chain(&first.options).cloned());
    if !first.command.is_empty() {
        line.push("--".into());
        line.extend(first.command.iter().cloned());
    }
    line
}

fn read_parts(rules: &[Rule], parts: Vec<PartWords>) -> Result<Vec<Part>, clap::Error> {
    let mut carried: Vec<Rule> = Vec::new();
    let mut read = Vec::new();
    for part in parts {
        let PartOptions { ranks, wdir, path } = PartLine::try_parse_from(&part.options)?.options;
        let environment = Environment::of(rules, &carried, &part.rules);
        read.push(Part { ranks, folder: wdir, search_path: path, environment, command: part.command });
        carried.extend(part.exports);
    }
    Ok(read)
}

/// What an option of ours is, by its long name, another name that it has, or its letter.
fn own(command: &clap::Command, name: &str) -> Option<Own> {
    let has_name = |argument: &&clap::Arg| {
        let mut letters = name.chars();
        let letter = letters.next().filter(|_| letters.next().is_none());
        argument.get_long() == Some(name)
            || argument.get_all_aliases().unwrap_or_default().contains(&name)
            || (letter.is_some() && argument.get_short() == letter)
    };
    let argument = command.get_arguments().find(has_name)?;
    let action = argument.get_action();
    Some(Own {
        name: argument.get_long()?.to_owned(),
        takes_value: action.takes_values() && !argument.is_require_equals_set(),
        is_of_part: ["ranks", "wdir", "path"].contains(&argument.get_id().as_str()),
        repeats: matches!(action, clap::ArgAction::Append),
    })
}

/// The name this launcher was called by: `weftrun`, `mpiexec` or `mpirun`.
pub fn invoked_name(argument: Option<&OsString>) -> String {
    let path = argument.map(std::path::Path::new);
    let name = path.and_then(|path| path.file_name()).and_then(OsStr::to_str);
    name.unwrap_or("weftrun").to_owned()
}

fn usage(command: &mut clap::Command, message: String) -> clap::Error {
    command.error(clap::error::ErrorKind::UnknownArgument, message)
}

/// More processes than any node holds; a larger number is a slip of the finger.
pub const RANKS_MAX: i64 = 65_536;

/// How often ranks are started again where nothing is said: each time takes a place in shared memory.
const RESTARTS: u32 = 16;
const RESTARTS_MAX: i64 = 1024;

const AFTER_HELP: &str = "\
Several programs: -n 1 ./a : -n 3 ./b, each with its own -n, -wdir, -path, -x and -env
  -configfile FILE, --app FILE   a file with such a part in each line

Variables:
  -x NAME[=VALUE]                set a variable, or pass it on; NAME* means all that begin so
  -env NAME VALUE, -genv NAME VALUE   set it for the ranks of this part, or for all
  -envnone, -envlist NAMES, -envall, -genvnone, -genvlist NAMES, -genvall   which ones are passed on [default: all]

Several hosts:
  -hosts LIST, -host LIST, -hostfile FILE, -machinefile FILE, -f FILE   hosts, with :N or slots=N ranks each

Options of MPICH and Open MPI that are not listed here are translated, ignored with a notice, or refused with what to write
instead: docs/running.md has the table.
Rank 0 reads the launcher's standard input; the others read nothing.
Signals to the launcher are passed on to the ranks; a second interrupt kills them at once.";

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
