//! `cargo compare`: measures weft beside other implementations of MPI, or beside an earlier weft.

use std::process::ExitCode;

use clap::Parser;
use weft_compare::Options;

/// Measure weft beside other implementations of MPI (from PyPI), with ratios, floors and gates
#[derive(Parser)]
#[command(name = "compare")]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    match weft_compare::run(&system_tests::workspace_root(), &Arguments::parse().options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}
