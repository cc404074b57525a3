//! Automation of the workspace, in Rust so that nobody needs a second language to build it.
//!
//! [`generate`] turns the committed ABI tables into `mpi.h`, the Rust declarations, the exported functions and the
//! coverage page; [`tidy`] checks the rules that the compiler cannot. [`demo`] shows an installed weft at work,
//! [`c_tests`] runs the tests in C on it, [`peers`] runs programs of ours on MPICH and of MPICH's on ours,
//! [`mpi4py`] runs its tests on ours, [`crash`], [`kills`] and [`soak`] end processes, and [`instructions`] counts what a small message takes.

pub mod c_tests;
pub mod cluster;
pub mod crash;
pub mod demo;
pub mod generate;
mod hidden;
pub mod instructions;
pub mod job;
pub mod kills;
pub mod launchers;
pub mod loader;
pub mod measured;
pub mod mpi4py;
pub mod peers;
pub mod plot;
pub mod soak;
mod start;
pub mod survivors;
pub mod tidy;
pub mod venv;

use std::path::{Path, PathBuf};

/// The root of the workspace that cargo runs this program in.
///
/// Cargo's word at run time comes first: two checkouts that share a target folder also share this binary.
pub fn workspace_root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = Path::new(&here);
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
