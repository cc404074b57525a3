//! Chores of the workspace, in Rust so that nobody needs a second language to build it.
//!
//! [`generate`] turns the committed ABI tables into `mpi.h`, the Rust declarations, the exported functions
//! and the coverage page; [`tidy`] checks the rules that the compiler cannot, and [`commits`] the subjects of
//! commits.

pub mod commits;
pub mod generate;
pub mod tidy;
