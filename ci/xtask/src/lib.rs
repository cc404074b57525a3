//! Chores of the workspace, in Rust so that nobody needs a second language to build it.
//!
//! [`generate`] turns the committed ABI tables into `mpi.h`, the Rust declarations, the exported functions
//! and the coverage page; [`tidy`] checks the rules that the compiler cannot, [`commits`] the subjects of
//! commits; [`site`] prepares and checks the documents' site.

pub mod commits;
pub mod generate;
pub mod site;
pub mod tidy;
