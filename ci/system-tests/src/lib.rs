//! Tests of an installed weft: programs are compiled with its `mpicc`, started by its `weftrun` or by the
//! launchers of others, and judged by how they end and what they print. Nothing of weft is linked.
//!
//! | part | what it does |
//! |---|---|
//! | [`c_tests`] | the programs in `bench/` over every fabric |
//! | [`crash`], [`kills`], [`soak`] | ends processes: at chosen steps, in a known order, at any moment |
//! | [`instructions`] | counts the instructions of a small message |
//! | [`peers`] | programs of ours on MPICH, and of MPICH's on ours |
//! | [`launchers`], [`cluster`] | jobs under the launchers of others, on one node and on virtual ones |
//! | [`mpi4py`] | builds mpi4py, and runs its tests |
//! | [`demo`] | shows it at work, with a table and a [`plot`] |
//!
//! [`job`] starts programs, [`venv`] installs other implementations of MPI, [`measured`] reads what
//! benchmarks print, [`loader`] finds what a program loads: `weft-compare` uses these too.

pub mod c_tests;
pub mod cluster;
pub mod crash;
pub mod demo;
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
mod survivors;
pub mod tally;
pub mod venv;

use std::path::{Path, PathBuf};

/// The root of the workspace that cargo runs the calling program in.
///
/// Cargo's word at run time comes first: two checkouts that share a target folder also share their binaries.
pub fn workspace_root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = Path::new(&here);
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
