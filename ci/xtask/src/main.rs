//! `cargo xtask generate | bodies | tidy | demo | c-tests | crash | kills | soak | mpi4py | peers | launchers | instructions`: the
//! chores of the workspace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::c_tests::{self, Tally};
use xtask::{
    cluster, crash, demo, generate, instructions, kills, launchers, mpi4py, peers, soak, tidy, workspace_root,
};

/// Chores of the workspace
#[derive(Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write mpi.h, the Rust side of the C ABI and docs/mpi-coverage.md from the tables in crates/abi/tables
    Generate {
        /// Write nothing; fail when a file in the tree is not what would be written
        #[arg(long)]
        check: bool,
    },
    /// Print the Rust signatures that bodies of MPI functions must have, e.g. `bodies MPI_Send MPI_Type_`
    Bodies {
        /// Names, or beginnings of names, of MPI functions
        prefixes: Vec<String>,
    },
    /// Check what the compiler does not: arrows between crates, the fence round unsafe, sizes, stale files
    Tidy,
    /// Show an installed weft at work: programs over shm and tcp, latency and bandwidth as table and plot
    Demo {
        /// Where `ci/install` has put it
        prefix: PathBuf,
    },
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
    Crash(crash::Options),
    /// Kill ranks that are started again, and see that each death is noticed by all, and how soon
    Kills(kills::Options),
    /// Kill ranks at any moment for minutes, and see that nothing of them is left
    Soak(soak::Options),
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
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True when there is nothing to complain about.
fn run(chore: Chore) -> Result<bool, Box<dyn std::error::Error>> {
    let root = workspace_root();
    match chore {
        Chore::Generate { check: false } => {
            let paths = generate::write(&root)?;
            paths.iter().for_each(|path| println!("wrote {path}"));
            Ok(true)
        }
        Chore::Generate { check: true } => {
            let paths = generate::stale(&root)?;
            paths.iter().for_each(|path| println!("{path}: stale\n  run `cargo xtask generate`"));
            Ok(paths.is_empty())
        }
        Chore::Bodies { prefixes } => {
            print!("{}", generate::body_signatures(&root, &prefixes)?);
            Ok(true)
        }
        Chore::Tidy => {
            let findings = tidy::findings(&root);
            findings.iter().for_each(|finding| println!("{finding}"));
            println!("tidy: {} finding(s)", findings.len());
            Ok(findings.is_empty())
        }
        Chore::Demo { prefix } => {
            demo::run(&root, &absolute(&prefix)?)?;
            Ok(true)
        }
        Chore::CTests { prefix, name, instrumented } => {
            tell("c-tests", &c_tests::run(&root, &absolute(&prefix)?, &name, instrumented)?)
        }
        Chore::Instructions { prefix, renew } => {
            tell("instructions", &instructions::run(&root, &absolute(&prefix)?, renew)?)
        }
        Chore::Crash(options) => {
            let prefix = absolute(&options.prefix)?;
            tell("crash", &crash::run(&root, &prefix, &options)?)
        }
        Chore::Kills(options) => {
            let prefix = absolute(&options.prefix)?;
            tell("kills", &kills::run(&root, &prefix, &options)?)
        }
        Chore::Soak(options) => {
            let prefix = absolute(&options.prefix)?;
            tell("soak", &soak::run(&root, &prefix, &options)?)
        }
        Chore::Mpi4py { prefix, build: true, .. } => {
            mpi4py::build(&root, &absolute(&prefix)?)?;
            Ok(true)
        }
        Chore::Mpi4py { prefix, name, build: false } => {
            tell("mpi4py", &mpi4py::run(&root, &absolute(&prefix)?, &name)?)
        }
        Chore::Launchers { prefix } => tell("launchers", &launchers::run(&root, &absolute(&prefix)?)?),
        Chore::Cluster { prefix, write_docs } => {
            tell("cluster", &cluster::run(&root, &absolute(&prefix)?, write_docs)?)
        }
        Chore::Peers { prefix } => tell("peers", &peers::run(&root, &absolute(&prefix)?)?),
    }
}

/// The line that `ci/test` counts.
fn tell(name: &str, tally: &Tally) -> Result<bool, Box<dyn std::error::Error>> {
    println!("{name}: {tally}");
    Ok(tally.failed == 0)
}

fn absolute(prefix: &Path) -> Result<PathBuf, String> {
    prefix.canonicalize().map_err(|error| {
        format!("{}: {error}\n  run `ci/install {}` first", prefix.display(), prefix.display())
    })
}
