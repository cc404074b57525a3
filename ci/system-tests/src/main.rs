//! `cargo system-tests c-tests PREFIX` and so on: runs one kind of test of an installed weft.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use weft_system_tests::tally::Tally;
use weft_system_tests::{
    c_tests, cluster, crash, demo, instructions, kills, launchers, mpi4py, peers, soak, workspace_root,
};

/// Tests of an installed weft
#[derive(Parser)]
#[command(name = "system-tests")]
struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Run the tests in C on an installed weft, over shm and tcp
    CTests {
        /// Where `ci/install` has put it
        prefix: PathBuf,
        /// Only tests whose name contains this
        #[arg(default_value = "")]
        name: String,
        /// The library is instrumented: leave out what measures or replaces what a sanitizer takes for itself
        #[arg(long)]
        instrumented: bool,
    },
    /// End a rank at its steps one by one, over shm and tcp, and see that the others go on
    Crash(crash::CrashOptions),
    /// Kill ranks that are started again, and see that each death is noticed by all, and how soon
    Kills(kills::KillOptions),
    /// Kill ranks at any moment for minutes, and see that nothing of them is left
    Soak(soak::SoakOptions),
    /// Count the instructions of a small message with valgrind, and compare with ci/instructions.json
    Instructions {
        /// Where `ci/install` has put it, built with the profile `release`
        prefix: PathBuf,
        /// Keep what is counted
        #[arg(long)]
        renew: bool,
    },
    /// Run programs across MPICH (from PyPI) and an installed weft, both ways and under both launchers
    Peers {
        /// Where `ci/install` has put it
        prefix: PathBuf,
    },
    /// Run programs on an installed weft under Hydra and PRRTE (from PyPI), by each protocol they speak
    Launchers {
        /// Where `ci/install` has put it
        prefix: PathBuf,
    },
    /// Build mpi4py (from PyPI) with an installed weft, and run its tests on it, over shm and tcp
    Mpi4py {
        /// Where `ci/install` has put it
        prefix: PathBuf,
        /// Only runs whose name contains this, as "3 ranks" or "tcp"
        #[arg(default_value = "")]
        name: String,
        /// Only build it
        #[arg(long)]
        build: bool,
    },
    /// Run programs under the launchers that clusters have, on the virtual nodes of ci/slurm
    Cluster {
        /// Where `ci/install` has put it
        prefix: PathBuf,
        /// Put the table of what ran into docs/clusters.md
        #[arg(long)]
        write_docs: bool,
    },
    /// Show an installed weft at work: programs over shm and tcp, latency and bandwidth as table and plot
    Demo {
        /// Where `ci/install` has put it
        prefix: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if std::env::var_os(SIGNALS).is_none() {
        eprintln!("system-tests: cannot start env: {}", with_signals());
        return ExitCode::FAILURE;
    }
    match run(arguments.kind) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("system-tests: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Set for a process that ignores no signals.
const SIGNALS: &str = "WEFT_SYSTEM_TESTS_SIGNALS";

/// Starts this program anew, in this process, with no signal ignored; comes back only where that fails.
/// Programs inherit which signals are ignored, and `nohup` and scripts that start something in the background
/// ignore some, which tests send.
fn with_signals() -> std::io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    Command::new("env")
        .args(["--default-signal=HUP,INT,QUIT,TERM,PIPE", &format!("{SIGNALS}=default")])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .exec()
}

/// True when no test has failed.
fn run(kind: Kind) -> Result<bool, String> {
    let root = workspace_root();
    match kind {
        Kind::CTests { prefix, name, instrumented } => {
            tell("c-tests", &c_tests::run(&root, &absolute(&prefix)?, &name, instrumented)?)
        }
        Kind::Crash(options) => {
            let prefix = absolute(&options.prefix)?;
            tell("crash", &crash::run(&root, &prefix, &options)?)
        }
        Kind::Kills(options) => {
            let prefix = absolute(&options.prefix)?;
            tell("kills", &kills::run(&root, &prefix, &options)?)
        }
        Kind::Soak(options) => {
            let prefix = absolute(&options.prefix)?;
            tell("soak", &soak::run(&root, &prefix, &options)?)
        }
        Kind::Instructions { prefix, renew } => {
            tell("instructions", &instructions::run(&root, &absolute(&prefix)?, renew)?)
        }
        Kind::Peers { prefix } => tell("peers", &peers::run(&root, &absolute(&prefix)?)?),
        Kind::Launchers { prefix } => tell("launchers", &launchers::run(&root, &absolute(&prefix)?)?),
        Kind::Mpi4py { prefix, build: true, .. } => {
            mpi4py::build(&root, &absolute(&prefix)?)?;
            Ok(true)
        }
        Kind::Mpi4py { prefix, name, build: false } => {
            tell("mpi4py", &mpi4py::run(&root, &absolute(&prefix)?, &name)?)
        }
        Kind::Cluster { prefix, write_docs } => {
            tell("cluster", &cluster::run(&root, &absolute(&prefix)?, write_docs)?)
        }
        Kind::Demo { prefix } => {
            demo::run(&root, &absolute(&prefix)?)?;
            Ok(true)
        }
    }
}

/// Prints the line that `ci/test` counts.
fn tell(name: &str, tally: &Tally) -> Result<bool, String> {
    println!("{name}: {tally}");
    Ok(tally.failed == 0)
}

fn absolute(prefix: &Path) -> Result<PathBuf, String> {
    prefix.canonicalize().map_err(|error| {
        format!("{}: {error}\n  run `ci/install {}` first", prefix.display(), prefix.display())
    })
}
