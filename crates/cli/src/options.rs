//! The command line of the launcher.
//!
//! People come with habits from other launchers: `-np` and other long options after a single dash, options that
//! only other launchers need. The first are understood, the second are either harmless and ignored or answered
//! with a word on what to do instead.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};

/// Starts the ranks of an MPI job on this node.
///
/// All ranks end when one of them fails, and nothing is left behind however the launcher ends. The exit status is
/// that of the first rank that failed, or 128 and the signal's number.
#[derive(Debug, Parser)]
#[command(name = "weftrun", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub struct Options {
    /// How many ranks [default: one for each core this process may use]
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub ranks: Option<u32>,

    /// Use only these ways between ranks: a comma list of shm, tcp, libfabric[:PROVIDER]
    #[arg(long, value_name = "LIST", value_parser = fabrics)]
    pub fabric: Option<String>,

    /// Put the rank before each line of output
    #[arg(short, long)]
    pub label: bool,

    /// Where ranks run [default: cores, when they can be shared out evenly among two or more ranks]
    #[arg(long, alias = "bind-to", value_enum)]
    pub bind: Option<Bind>,

    /// Set a variable for the ranks; NAME alone passes it on, as is done for all
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]", value_parser = variable)]
    pub env: Vec<Variable>,

    /// What errors do before the program sets an error handler: mpi_errors_are_fatal (the default), mpi_errors_abort or
    /// mpi_errors_return
    #[arg(long, value_name = "HANDLER", value_parser = error_handler)]
    pub initial_errhandler: Option<String>,

    /// Go on when a rank fails, as far as the program lets it: errors of MPI tell the others. MODE is what happens to
    /// communicators that have lost a member when the program has them recover: none, abort, blank, shrink, or rebuild, which
    /// starts ranks again
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "none",
        value_parser = failure_mode
    )]
    pub ft: Option<String>,

    /// With --ft: what becomes of messages when a communicator recovers: reset (the default: none that was sent before is received
    /// after) or cont (what goes between two who live goes on)
    #[arg(long, value_name = "MODE", value_parser = message_mode)]
    pub ft_msg: Option<String>,

    /// Deal the ranks out to so many parts of which each is as a node to them: they share memory within a part only. To try on one
    /// node what a program does on several
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub nodes: u32,

    /// With --ft=rebuild: how often ranks are started again, all together [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=RESTARTS_MAX))]
    pub max_restarts: Option<u32>,

    /// With --ft=rebuild: what happens instead where ranks cannot be started again: blank (the default) or abort
    #[arg(long, value_name = "MODE", value_parser = rebuild_fallback)]
    pub rebuild_fallback: Option<String>,

    /// The same as --ft by the name that Open MPI has for it: ulfm is --ft, other modes are as there, `no` is as if nothing was said
    #[arg(long, value_name = "MODE", value_parser = failure_mode_elsewhere)]
    with_ft: Option<String>,

    /// The same by the name that MPICH has for it
    #[arg(long)]
    disable_auto_cleanup: bool,

    /// Name a process set for sessions: ranks such as 0-3,8. May be given several times
    #[arg(long, value_name = "NAME=RANKS", value_parser = process_set)]
    pub pset: Vec<String>,

    /// Start the ranks in this folder
    #[arg(long, alias = "wd", value_name = "DIR")]
    pub wdir: Option<OsString>,

    /// End the job after this time, with status 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,

    /// Tell where each rank is started
    #[arg(long)]
    pub verbose: bool,

    /// Understood and ignored: more ranks than cores are always allowed
    #[arg(long)]
    oversubscribe: bool,

    /// Understood and ignored: every user may run jobs
    #[arg(long)]
    allow_run_as_root: bool,

    /// The program of every rank, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// Where ranks may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bind {
    /// Each rank on cores of its own: as many as OMP_NUM_THREADS says, else one
    #[value(alias = "core")]
    Cores,
    /// Each rank on all cores of one socket: the first ranks on the first
    #[value(aliases = ["socket", "package"])]
    Sockets,
    /// Wherever the launcher itself may run
    None,
}

/// A variable named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, not empty.
    pub name: String,
    /// Its value, where one was given.
    pub value: Option<String>,
}

impl Options {
    /// Reads the command line of this process. Prints help or an error and ends the process where that is due.
    pub fn from_arguments() -> Options {
        Options::read(std::env::args_os().collect()).unwrap_or_else(|error| error.exit())
    }

    /// Whether the others go on when a rank fails.
    pub fn survives(&self) -> bool {
        self.failure_mode().is_some() || self.disable_auto_cleanup
    }

    /// What is said to happen to communicators that have lost a member.
    pub fn failure_mode(&self) -> Option<&str> {
        self.ft.as_deref().or(self.with_ft.as_deref().filter(|mode| *mode != NO_FAILURES))
    }

    /// How often ranks may be started again.
    pub fn restarts(&self) -> u32 {
        let rebuilds = self.failure_mode() == Some(weft::FtMode::Rebuild.name());
        let survives = self.survives();
        self.max_restarts.filter(|_| survives).unwrap_or(if rebuilds { RESTARTS } else { 0 })
    }

    fn read(arguments: Vec<OsString>) -> Result<Options, clap::Error> {
        let name = invoked_name(arguments.first());
        let mut command = Options::command().bin_name(name);
        let (arguments, program_index) =
            normalize(&command, arguments).map_err(|message| usage(&mut command, message))?;
        refuse_several_programs(&arguments, program_index).map_err(|message| usage(&mut command, message))?;
        let matches = command.clone().try_get_matches_from(arguments)?;
        Options::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
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

/// Gives long options after one dash their second, and tells where the program stands.
fn normalize(command: &clap::Command, arguments: Vec<OsString>) -> Result<(Vec<OsString>, usize), String> {
    let mut normal: Vec<OsString> = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter();
    normal.extend(arguments.next());
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.to_str().filter(|text| text.starts_with('-') && *text != "--") else {
            normal.push(argument);
            break;
        };
        refuse_foreign(option)?;
        let option = with_two_dashes(command, option);
        let value_follows = takes_value(command, &option);
        normal.push(option.into());
        if value_follows {
            normal.extend(arguments.next());
        }
    }
    let program_index = normal.len().saturating_sub(1);
    normal.extend(arguments);
    Ok((normal, program_index))
}

fn with_two_dashes(command: &clap::Command, option: &str) -> String {
    let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
    let known = 1 < name.len() && command.get_arguments().any(|argument| has_long(argument, name));
    if known && !option.starts_with("--") { format!("-{option}") } else { option.to_owned() }
}

/// Whether the next argument is this option's value.
fn takes_value(command: &clap::Command, option: &str) -> bool {
    let argument = match option.strip_prefix("--") {
        Some(name) => command.get_arguments().find(|argument| has_long(argument, name)),
        // The short options with a value may have it right behind them: `-n4`.
        None if option.len() == 2 => {
            command.get_arguments().find(|it| it.get_short() == option.chars().nth(1))
        }
        None => None,
    };
    argument.is_some_and(|argument| argument.get_action().takes_values() && !argument.is_require_equals_set())
}

fn has_long(argument: &clap::Arg, name: &str) -> bool {
    let aliases = argument.get_all_aliases().unwrap_or_default();
    argument.get_long() == Some(name) || aliases.contains(&name)
}

/// Options that name other machines cannot be ignored: the job would not be the one that was asked for.
fn refuse_foreign(option: &str) -> Result<(), String> {
    let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
    if !OF_OTHER_MACHINES.contains(&name) {
        return Ok(());
    }
    Err(format!(
        "{option}: this launcher starts ranks on this node only\n  \
         across nodes start the same program with `srun --mpi=pmi2` or with Hydra's mpiexec"
    ))
}

/// `PROGRAM ARGS : PROGRAM ARGS` starts several programs as one job elsewhere. Taking the colon for an argument
/// would start a wrong job in silence. After `--` it is an argument.
fn refuse_several_programs(arguments: &[OsString], program_index: usize) -> Result<(), String> {
    let raw = arguments.get(program_index).is_some_and(|argument| argument == "--");
    let rest = arguments.get(program_index..).unwrap_or_default();
    if raw || !rest.iter().any(|argument| argument == ":") {
        return Ok(());
    }
    let remedy = "start a script that chooses by PMI_RANK; or, where `:` is the program's own argument, put `--` before it";
    Err(format!("`:` between several programs is not supported\n  {remedy}"))
}

fn fabrics(list: &str) -> Result<String, String> {
    for fabric in list.split(',') {
        let known = matches!(fabric, "shm" | "tcp" | "libfabric");
        let provider = fabric.strip_prefix("libfabric:").is_some_and(|provider| !provider.is_empty());
        if !known && !provider {
            return Err(format!("`{fabric}` is no fabric: choose from shm, tcp, libfabric[:PROVIDER]"));
        }
    }
    Ok(list.to_owned())
}

fn failure_mode(name: &str) -> Result<String, String> {
    match weft::FtMode::named(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("choose from none, abort, blank, shrink and rebuild".to_owned()),
    }
}

fn rebuild_fallback(name: &str) -> Result<String, String> {
    match weft::FtMode::named(name) {
        Some(weft::FtMode::Blank | weft::FtMode::Abort) => Ok(name.to_owned()),
        _ => Err("choose from blank and abort".to_owned()),
    }
}

fn failure_mode_elsewhere(name: &str) -> Result<String, String> {
    match name {
        "ulfm" | "mpi" | "yes" | "true" => Ok(weft::FtMode::None.name().to_owned()),
        NO_FAILURES | "none" | "false" => Ok(NO_FAILURES.to_owned()),
        _ => failure_mode(name)
            .map_err(|_| "choose from ulfm, abort, blank, shrink, rebuild and no".to_owned()),
    }
}

fn message_mode(name: &str) -> Result<String, String> {
    match weft::MessageMode::named(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("choose from reset and cont".to_owned()),
    }
}

fn error_handler(name: &str) -> Result<String, String> {
    let known = weft::InitialErrors::named(name).map(|errors| errors.name().to_owned());
    known.ok_or_else(|| "choose from mpi_errors_are_fatal, mpi_errors_abort, mpi_errors_return".to_owned())
}

/// One set; the library's own reader decides, so that the ranks cannot come to another answer.
fn process_set(text: &str) -> Result<String, String> {
    let read = weft::Config::from_variables(&|name| (name == "WEFT_PSETS").then(|| text.to_owned()));
    match read {
        Ok(config) if config.process_sets.len() == 1 => Ok(text.to_owned()),
        Ok(_) => Err("one set for each --pset".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn variable(text: &str) -> Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        Err("a variable needs a name".to_owned())
    } else {
        Ok(Variable { name: name.to_owned(), value })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "a time is a number of seconds above zero".to_owned())
}

/// How others say that ranks end with each other.
const NO_FAILURES: &str = "no";

/// More processes than any node holds; a larger number is a slip of the finger.
const RANKS_MAX: i64 = 65_536;

/// How often ranks are started again where nothing is said: each time takes a place in shared memory.
const RESTARTS: u32 = 16;
const RESTARTS_MAX: i64 = 1024;

const OF_OTHER_MACHINES: [&str; 9] =
    ["host", "hosts", "H", "hostfile", "machinefile", "f", "ppn", "npernode", "N"];

const AFTER_HELP: &str = "\
Rank 0 reads the launcher's standard input; the others read nothing.
Signals to the launcher are passed on to the ranks; a second interrupt kills them at once.
Across nodes start the same program with your cluster's own launcher, such as `srun --mpi=pmi2`.";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(line.split(' ').map(OsString::from).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn ranks_by_any_habit() {
        for form in ["-n 4", "-np 4", "--np 4", "-n4", "-n=4", "--np=4", "-np=4"] {
            let options = read(&format!("weftrun {form} ./a")).unwrap();
            assert_eq!((options.ranks, options.command), (Some(4), vec!["./a".into()]), "{form}");
        }
        assert_eq!(read("weftrun ./a").unwrap().ranks, None);
    }

    #[test]
    fn options_stop_at_the_program() {
        let options = read("weftrun -l -np 2 ./a -np 3 --label -x -- :x").unwrap();
        assert_eq!(options.ranks, Some(2));
        assert_eq!(options.command.join(OsStr::new(" ")), "./a -np 3 --label -x -- :x");
        let options = read("weftrun -n 2 -- -odd : -np").unwrap();
        assert_eq!(options.command.join(OsStr::new(" ")), "-odd : -np");
    }

    #[test]
    fn values_are_not_taken_for_the_program() {
        let options =
            read("weftrun -wdir /a -x A=b -timeout 1.5 -bind none --fabric shm,tcp -np 3 prog").unwrap();
        assert_eq!(options.wdir, Some("/a".into()));
        assert_eq!(options.env, [Variable { name: "A".to_owned(), value: Some("b".to_owned()) }]);
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(options.bind, Some(Bind::None));
        assert_eq!(options.fabric.as_deref(), Some("shm,tcp"));
        assert_eq!((options.ranks, options.command), (Some(3), vec!["prog".into()]));
    }

    #[test]
    fn binding_by_any_habit() {
        let of = |form: &str| read(&format!("weftrun {form} ./a")).unwrap().bind;
        for form in ["--bind cores", "--bind-to core", "-bind-to core", "--bind-to=core"] {
            assert_eq!(of(form), Some(Bind::Cores), "{form}");
        }
        for form in ["--bind sockets", "--bind-to socket", "-bind-to package"] {
            assert_eq!(of(form), Some(Bind::Sockets), "{form}");
        }
        assert_eq!((of("--bind-to none"), of("-l")), (Some(Bind::None), None));
        assert!(read("weftrun --bind-to l3cache ./a").unwrap_err().contains("sockets"));
    }

    #[test]
    fn survival_by_any_habit() {
        for form in [
            "--ft",
            "--ft=none",
            "--ft=blank",
            "--ft=rebuild",
            "--with-ft ulfm",
            "--with-ft mpi",
            "-with-ft true",
            "-disable-auto-cleanup",
        ] {
            let options = read(&format!("weftrun -n 2 {form} ./a none")).unwrap();
            assert!(options.survives(), "{form}");
            assert_eq!(options.command, ["./a", "none"], "{form}");
        }
        for form in ["--with-ft no", "-l"] {
            assert!(!read(&format!("weftrun {form} ./a --ft")).unwrap().survives(), "{form}");
        }
    }

    #[test]
    fn ranks_are_started_again_where_that_is_asked_for() {
        let restarts = |form: &str| read(&format!("weftrun -n 2 {form} ./a")).unwrap().restarts();
        assert_eq!(restarts("--ft=rebuild"), RESTARTS);
        assert_eq!(restarts("--ft=rebuild --max-restarts 3"), 3);
        assert_eq!(restarts("--ft --max-restarts=3"), 3, "the program may say so later");
        assert_eq!(["--ft", "--ft=blank", "--max-restarts 3"].map(restarts), [0; 3]);
    }

    #[test]
    fn failures_by_any_habit() {
        let of = |form: &str| {
            let options = read(&format!("mpiexec -n 2 {form} ./a")).unwrap();
            assert_eq!(options.command, ["./a"], "{form}");
            (options.survives(), options.failure_mode().map(str::to_owned))
        };
        for (form, mode) in [
            ("--ft", "none"),
            ("--ft=blank", "blank"),
            ("-ft=shrink", "shrink"),
            ("--with-ft ulfm", "none"),
            ("--with-ft mpi", "none"),
            ("-with-ft blank", "blank"),
            ("--with-ft=rebuild", "rebuild"),
            ("--ft=shrink --with-ft blank", "shrink"),
        ] {
            assert_eq!(of(form), (true, Some(mode.to_owned())), "{form}");
        }
        for form in ["--with-ft no", "--with-ft none", "--with-ft false", "--label"] {
            assert_eq!(of(form), (false, None), "{form}");
        }
        assert_eq!(of("-disable-auto-cleanup"), (true, None));
        let messages = read("weftrun --ft=blank --ft-msg cont ./a").unwrap().ft_msg;
        assert_eq!(messages.as_deref(), Some("cont"));
    }

    #[test]
    fn errors_and_process_sets_are_for_the_ranks() {
        let line = "weftrun -initial-errhandler MPI_ERRORS_RETURN --pset a://b=0-1 --pset c=2 prog";
        let options = read(line).unwrap();
        assert_eq!(options.initial_errhandler.as_deref(), Some("mpi_errors_return"));
        assert_eq!(options.pset, ["a://b=0-1", "c=2"]);
        assert_eq!(options.command, ["prog"]);
    }

    #[test]
    fn harmless_options_of_others_are_ignored() {
        let options = read("mpirun --oversubscribe --allow-run-as-root -n 2 a").unwrap();
        assert_eq!(options.ranks, Some(2));
        assert!(options.oversubscribe && options.allow_run_as_root);
    }

    #[test]
    fn mistakes_are_told_with_the_remedy() {
        for (line, told) in [
            ("weftrun -n 0 a", "0 is not in 1..=65536"),
            ("weftrun -n two a", "invalid value 'two'"),
            ("weftrun -n 2", "PROGRAM"),
            ("weftrun --fabric smh a", "`smh` is no fabric: choose from shm"),
            ("weftrun --fabric libfabric: a", "is no fabric"),
            ("weftrun --timeout=-1 a", "number of seconds"),
            ("weftrun --timeout nan a", "number of seconds"),
            ("weftrun -x =1 a", "needs a name"),
            ("weftrun -n 1 a : -n 2 b", "`:` between several programs"),
            ("weftrun -hosts n1,n2 a", "this node only"),
            ("weftrun --hostfile=f a", "srun --mpi=pmi2"),
            ("weftrun --frobnicate a", "--frobnicate"),
            ("weftrun --initial-errhandler mpi_errors_ignore a", "choose from mpi_errors_are_fatal"),
            ("weftrun --ft=heal a", "choose from none, abort, blank, shrink and rebuild"),
            ("weftrun --ft=rebuild --rebuild-fallback shrink a", "choose from blank and abort"),
            ("weftrun --ft=rebuild --max-restarts 9999 a", "9999 is not in 0..=1024"),
            ("weftrun --with-ft heal a", "choose from ulfm, abort"),
            ("weftrun --ft --ft-msg keep a", "choose from reset and cont"),
            ("weftrun --pset ocean a", "a name, =, and ranks"),
            ("weftrun --pset mpi://moon=1 a", "does not begin with mpi://"),
            ("weftrun --pset a=1;b=2 a", "one set for each"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(told), "{line}: {error}");
        }
    }

    #[test]
    fn help_shows_the_name_it_was_called_by() {
        for name in ["weftrun", "mpiexec", "mpirun"] {
            let help = read(&format!("/opt/bin/{name} --help")).unwrap_err();
            assert!(help.contains(&format!("Usage: {name} [OPTIONS] <PROGRAM>...")), "{help}");
        }
    }

    #[test]
    fn libfabric_may_name_its_provider() {
        assert!(read("weftrun --fabric libfabric:verbs,libfabric a").is_ok());
    }
}
