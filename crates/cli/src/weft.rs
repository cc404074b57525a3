//! The command `weft`: what the library found out about this machine and chose, told to people.
//!
//! **Invariant:** it asks the library and shows the answer; it decides nothing itself.

// `weft::tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod algorithms;
mod doctor;
mod explain;
mod map;
mod measure;
mod parts;
mod topo;

/// Tells what weft does on this machine, and why
#[derive(Debug, Parser)]
#[command(name = "weft", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explain what the library has chosen
    #[command(subcommand)]
    Explain(Explain),
    /// The machine tree: packages, NUMA nodes, caches, cores and cpus, as hwloc sees them
    ///
    /// What jobs have kept of this host is renewed.
    Topo(topo::Topo),
    /// Which rank would take which cell of a grid, and what that saves, without a job
    Map(map::Map),
    /// What works here, what is slow, what is broken, and the remedy for each; status 0 if a job could start
    ///
    /// Run it as the program of a launcher (`srun --mpi=pmi2 weft doctor`) to see what that launcher offers.
    Doctor {
        /// List the variables of the environment that weft reads instead
        #[arg(long)]
        env: bool,
    },
    /// Measure what messages cost on this machine: the program of the job that `weftrun` starts before the
    /// first one
    #[command(hide = true)]
    Measure,
}

#[derive(Debug, Subcommand)]
enum Explain {
    /// Which way messages go between the ranks of this node, why, and what it costs
    ///
    /// Alone it starts two ranks on this node; as a job's program (`weftrun -n 4 weft explain lanes`) it
    /// explains that job.
    Lanes {
        /// Measure what moving bytes costs here, and keep it for the jobs that start from now on
        #[arg(long)]
        measure: bool,
    },
    /// What collective operations are taken to cost, as a file for WEFT_COSTS
    ///
    /// By these numbers algorithms are chosen.
    Costs,
    #[command(flatten)]
    Collective(algorithms::Operation),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Explain(Explain::Lanes { measure }) => status(explain::lanes(measure)),
        Command::Explain(Explain::Costs) => status(algorithms::costs()),
        Command::Explain(Explain::Collective(asked)) => status(algorithms::show(&asked)),
        Command::Measure => status(measure::quickly()),
        Command::Topo(asked) => status(topo::show(&asked)),
        Command::Map(asked) => status(map::show(&asked)),
        Command::Doctor { env: true } => {
            doctor::environment();
            ExitCode::SUCCESS
        }
        Command::Doctor { env: false } => match doctor::examine() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    }
}

fn status(done: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            weft::tell(format_args!("weft: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn only_what_there_is_can_be_asked_for() {
        assert!(Arguments::try_parse_from(["weft", "explain", "lanes", "--measure"]).is_ok());
        assert!(Arguments::try_parse_from(["weft", "doctor", "--env"]).is_ok());
        assert!(
            Arguments::try_parse_from(["weft", "topo", "--machine", "pu:1", "--json", "--svg", "a"]).is_ok()
        );
        assert!(Arguments::try_parse_from(["weft", "explain", "lines"]).is_err());
        assert!(Arguments::try_parse_from(["weft", "explain", "allreduce", "1MiB", "-n", "64"]).is_ok());
        assert!(
            Arguments::try_parse_from(["weft", "explain", "allreduce", "1MiB"]).is_err(),
            "how many ranks?"
        );
        assert!(Arguments::try_parse_from(["weft"]).is_err());
    }
}
