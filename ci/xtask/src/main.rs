//! `cargo xtask generate | bodies | tidy | commits | site`: the chores of the workspace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use system_tests::workspace_root;
use xtask::{commits, generate, site, tidy};

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
    /// Parts of `ci/docs`, which builds the documents' site
    Site {
        #[command(subcommand)]
        part: SitePart,
    },
}

#[derive(Subcommand)]
enum SitePart {
    /// Write mdBook's sources into a folder, from README.md, CHANGELOG.md and docs
    Sources {
        /// The folder
        folder: PathBuf,
    },
    /// Check that every link of the built book leads to a place that is there
    Links {
        /// The folder of the built book
        site: PathBuf,
    },
    /// Check in a headless Chromium that no page of the built book is wider than a screen
    Widths {
        /// The folder of the built book
        site: PathBuf,
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
        Chore::Commits => {
            let Some(wrong) = commits::check(&root) else {
                println!("commits: this is no checkout of git, so there is nothing to check");
                return Ok(true);
            };
            wrong.iter().for_each(|line| println!("{line}"));
            println!("commits: {} subject(s) to mend", wrong.len());
            Ok(wrong.is_empty())
        }
        Chore::Site { part } => check_site(&root, &part),
    }
}

/// True when there is nothing to complain about.
fn check_site(root: &Path, part: &SitePart) -> Result<bool, Box<dyn std::error::Error>> {
    let complaints = match part {
        SitePart::Sources { folder } => site::pages::write(root, folder)?,
        SitePart::Links { site } => {
            let found = site::links::check(site).map_err(|error| format!("{}: {error}", site.display()))?;
            println!("site: {} links on {} pages, {} broken", found.links, found.pages, found.broken.len());
            found.broken
        }
        SitePart::Widths { site } => {
            let found = site::widths::check(site)?;
            println!("site: {} pages looked at, {} too wide", found.pages, found.too_wide.len());
            found.too_wide
        }
    };
    complaints.iter().for_each(|line| println!("{line}"));
    Ok(complaints.is_empty())
}
