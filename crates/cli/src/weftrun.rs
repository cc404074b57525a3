//! Starts the ranks of a job on this node. Installed as `weftrun`, `mpiexec` and `mpirun`.
//!
//! It is two processes: the *front* (`front.rs`), which the user knows, and the *supervisor* (`supervisor.rs`),
//! which starts the ranks and serves them as their process manager. Whichever is killed, the other ends the job and
//! leaves nothing behind. `plan.rs` settles what the command line means here, `job.rs` decides how a job ends.
//!
//! **Invariant:** neither process has a second thread, and neither ever waits without watching the other.
//! **Invariant:** all unsafe code is in `spawn.rs`.

// `weft::tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]

use std::process::ExitCode;

use options::Options;
use plan::Plan;

mod cores;
mod descendants;
mod first;
mod front;
mod hosts;
mod job;
mod options;
mod output;
mod parts;
mod plan;
mod policy;
mod program;
mod ranks;
mod rebuild;
mod signals;
mod spawn;
mod supervisor;
mod told;
mod watch;

fn main() -> ExitCode {
    let mut options = Options::from_arguments();
    let name = options::invoked_name(std::env::args_os().next().as_ref());
    match hosts::named(&options.hosts) {
        Ok(hosts) => {
            if let Some(other) = hosts.iter().find(|host| !hosts::is_here(&host.name, &hosts::own_name())) {
                weft::tell(format_args!(
                    "{name}: host {}: this launcher starts ranks on this host only\n  \
                     across hosts start the same program with `srun --mpi=pmi2` or with Hydra's mpiexec",
                    other.name
                ));
                return ExitCode::from(1);
            }
            options.slots = hosts::slots(&hosts);
        }
        Err(message) => {
            weft::tell(format_args!("{name}: {message}"));
            return ExitCode::from(1);
        }
    }
    tell_ignored(&options, &name);
    let plan = match Plan::new(&options, name.clone()) {
        Ok(plan) => plan,
        Err(error) => return fail(&name, &error, error.exit_status()),
    };
    if options.display_map {
        weft::tell(format_args!("{name}: {}", plan.map()));
    }
    match front::run(&plan) {
        Ok(status) => ExitCode::from(status),
        Err(error) => fail(&name, &error, 1),
    }
}

/// Tells once of all options that mean nothing here.
fn tell_ignored(options: &Options, name: &str) {
    let ignored = options.ignored_here();
    if !ignored.is_empty() && !options.quiet {
        weft::tell(format_args!(
            "{name}: ignored, since it means nothing on this host: {}",
            ignored.join(", ")
        ));
    }
}

fn fail(name: &str, error: &dyn std::error::Error, status: u8) -> ExitCode {
    weft::tell(format_args!("{name}: {error}"));
    ExitCode::from(status)
}
