//! `cargo xtask generate | bodies | tidy | commits`: the chores of the workspace.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use system_tests::workspace_root;
use xtask::{commits, generate, tidy};

/// Chores of the workspace
#[derive(Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write mpi.h, the Rust side of the C ABI and docs/generated/mpi-coverage.md from the tables in
    /// crates/abi/tables
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
    /// Check the subjects of the last fifty commits: `area: summary`, at most 72 characters
    Commits,
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
        Chore::Commits => {
            let Some(wrong) = commits::check(&root) else {
                println!("commits: this is no checkout of git, so there is nothing to check");
                return Ok(true);
            };
            wrong.iter().for_each(|line| println!("{line}"));
            println!("commits: {} subject(s) to mend", wrong.len());
            Ok(wrong.is_empty())
        }
    }
}
